"""What a run would ask and cost, before anything is asked."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from evaluation.records import Record
from helpers import forecast
from helpers.llm import LLM
from helpers.requests import RELEASED
from publish import plan
from resources import lora, plan_file
from resources.services import LlmEndpoint
from resources.settings import ROOT, settings

LONG = "word " * 400


@pytest.fixture
def planning(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The file of the steps."""
    path = tmp_path / "steps.jsonl"
    monkeypatch.setattr(plan_file, "FILE", path)
    monkeypatch.setattr(forecast, "_asked", set())
    monkeypatch.setenv("ANSWERS", "plan")
    settings.cache_clear()
    yield path
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
def plan_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """The folder of a plan's project of links; a server that ran in it is stopped afterwards."""
    folder = tmp_path / "plan"
    monkeypatch.setattr(plan, "FOLDER", folder)
    yield folder
    if (folder / "_build" / "services").exists():
        variables = {"MEDRAG_ROOT": str(folder), "PYTHONPATH": str(ROOT / "src")}
        command = [sys.executable, "-m", "resources.services", "stop"]
        subprocess.run(command, env=os.environ | variables, check=True)


def model(context: int = 0) -> LLM:
    """A model at an address that nothing listens on."""
    endpoint = LlmEndpoint("http://127.0.0.1:9/v1", "m", "", "openai", "", "", context, 1)
    return LLM(endpoint, folder=None)


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_prompts_are_counted_once_and_nothing_is_sent(planning):
    replies = model().chat_many([user(LONG), user(LONG), user("short")], max_tokens=50, label="ask")
    assert len(replies) == 3
    (step,) = forecast.read_steps(planning)
    assert (step.label, step.requests, step.max_answer_tokens) == ("ask", 2, 100)
    assert 420 < step.prompt_tokens == step.max_prompt_tokens < 480
    model().chat_many([user("short")], max_tokens=50, label="again")
    assert len(forecast.read_steps(planning)) == 1, "asked before"


def test_prompts_have_the_tokens_that_the_servers_of_the_reference_counted():
    wrong = {}
    files = [path for path in RELEASED.rglob("*.parquet") if "withheld" not in path.parts]
    for chapter, paths in groupby(sorted(files), key=chapter_of):
        rows = pd.concat([pd.read_parquet(path, columns=COUNTED).head(20) for path in paths])
        rows = rows[rows.prompt.notna() & (rows.prompt_tokens > 0)]
        if rows.empty:
            continue
        estimates = [forecast._prompt_tokens(read_prompt(text), "m")[0] for text in rows.prompt]
        ratio = sum(estimates) / rows.prompt_tokens.sum()
        if not 0.85 < ratio < 1.15:
            wrong[chapter] = ratio
    assert not wrong


COUNTED = ["prompt", "prompt_tokens"]


def chapter_of(path: Path) -> str:
    """The smoke profile has a file for each chapter, and the reference a folder."""
    return path.stem if path.parent.name == "smoke" else path.parent.name


def read_prompt(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def test_a_prompt_that_holds_an_earlier_reply_has_a_range(planning):
    (reply,) = model().chat_many([user("Suppose an answer.")], max_tokens=40, label="suppose")
    model().chat_many([user(f"{reply.text} Is it so?")], max_tokens=8, label="ask")
    first, second = forecast.read_steps(planning)
    assert first.prompt_tokens == first.max_prompt_tokens
    assert second.max_prompt_tokens == second.prompt_tokens + 40


def test_choices_and_likelihoods_are_counted_and_have_stand_ins(planning):
    (choice,) = model().choose_many([user("Is it?")], ["YES", "NO"], label="choose")
    (likelihood,) = model().loglikelihood_many(
        [("A text of some words", " and more")], label="score"
    )
    assert choice.answer in ("YES", "NO")
    assert likelihood.total < 0
    choices, likelihoods = forecast.read_steps(planning)
    assert (choices.requests, likelihoods.requests, likelihoods.max_answer_tokens) == (1, 1, 0)


def test_a_prompt_beyond_the_context_costs_a_request_and_no_tokens(planning):
    model(context=100).chat_many([user(LONG), user("short")], max_tokens=10, overflow="record")
    (step,) = forecast.read_steps(planning)
    assert (step.requests, step.is_cut, step.max_answer_tokens) == (2, True, 10)
    assert step.prompt_tokens < 35


def test_a_training_is_counted_and_not_done(planning):
    pairs = [("a prompt " * 20, "an answer")] * 3
    log = lora.trained("x", pairs, pairs[:1], "SmolLM2-135M-Instruct", steps=10, batch=4)
    (step,) = forecast.read_steps(planning)
    assert (step.kind, step.requests) == ("training", 40)
    assert 40 * 40 < step.prompt_tokens < 40 * 60
    assert not log.adapter.folder.exists()


def test_amounts_add_up_to_hours_and_money():
    asking = plan.Amount(requests=10, prompt_tokens=3e6, answer_tokens=1e6)
    training = plan.Amount(training_tokens=2e6)
    prices = plan.Prices(prompt=0.5, answer=2.0, tokens_per_second=1000)
    assert (asking + training).gpu_hours(prices) == pytest.approx((4e6 + 3 * 2e6) / 1000 / 3600)
    assert (asking + training).money(prices) == pytest.approx(3.5)


def test_the_table_has_a_row_for_each_chapter_and_model_and_the_sum():
    amount = plan.Amount(
        requests=10,
        max_requests=12,
        prompt_tokens=1500,
        min_prompt_tokens=1000,
        max_prompt_tokens=2000,
        answer_tokens=30,
        max_answer_tokens=30,
    )
    rows = [
        plan.Planned("01_a", "m", amount),
        plan.Planned("02_b", "n", amount, is_partial=True),
    ]
    out = io.StringIO()
    plan.show(rows, plan.Prices(1, 1), Console(file=out, width=plan.WIDTH))
    text = out.getvalue()
    assert "10 (10 to 12)" in text
    assert "1,500 (1,000 to 2,000)" in text
    assert "3,000 (2,000 to 4,000)" in text, "the sum"
    assert "02_b *" in text
    assert "money" in text
    assert "*: a cell failed" in text


def test_the_note_on_failed_cells_stands_only_where_one_failed():
    out = io.StringIO()
    rows = [plan.Planned("01_a", "m", plan.Amount(requests=1))]
    plan.show(rows, plan.Prices(), Console(file=out, width=plan.WIDTH))
    assert "*" not in out.getvalue()


def test_no_encoder_of_a_plan_has_to_be_fetched(plan_folder):
    plan.prepare("paper")
    text = (plan_folder / "notebooks" / "profiles" / "paper.yml").read_text()
    assert "Bio_ClinicalBERT" not in text
    assert "reranker:" not in text
    assert not (plan_folder / "notebooks" / "18_across_papers.ipynb").is_symlink()


def code_cells(*sources: str) -> list[dict[str, Any]]:
    common: dict[str, Any] = {"cell_type": "code", "execution_count": None, "outputs": []}
    return [{**common, "metadata": {}, "source": source.splitlines(True)} for source in sources]


def test_a_plan_goes_on_only_after_cells_that_no_later_cell_needs():
    """Half a notebook asks other things than a run, or fails by names that it never bound."""
    cells = code_cells(
        "loaded = load()\nfor name in loaded:\n    sizes[name] = 1",
        "for name in loaded:\n    print(name, [size for size in sizes])",
        "rows = []",
        "size = 3\nrows += [size]",
        "for size in rows:\n    print(size)",
    )
    tagged = plan._going_on({"cells": cells})["cells"]
    goes_on = ["raises-exception" in cell["metadata"].get("tags", []) for cell in tagged]
    assert goes_on == [False, True, False, False, True]


ASKING = """
from helpers import llm
model = llm.connect(llm_model)
model.chat_many([[{"role": "user", "content": "Is it?"}]], max_tokens=5, label="ask")
"""


def replace_cells(path: Path, *sources: str) -> None:
    """Let a notebook have its parameters and then these cells of code alone."""
    notebook = json.loads(path.read_text())
    (parameters,) = [
        cell for cell in notebook["cells"] if "parameters" in cell["metadata"].get("tags", [])
    ]
    notebook["cells"] = [parameters, *code_cells(*sources)]
    path.write_text(json.dumps(plan._going_on(notebook)))


def test_a_chapter_without_its_data_has_no_plan_and_the_error_names_the_data(plan_folder):
    plan.prepare("smoke")
    lacking = """
from resources.datasets import DataUnavailable
loaded = {}
raise DataUnavailable("GIT could not be fetched.")
"""
    path = plan_folder / "notebooks" / "07_biomedrag_triples.ipynb"
    replace_cells(path, ASKING, lacking, "chosen = loaded['x']", "chosen")
    with pytest.raises(plan.PlanError, match=r"cannot be planned: GIT could not be fetched\.$"):
        plan._plan_notebook("07_biomedrag_triples", "smoke", "")


@pytest.mark.engine
def test_the_chapters_of_a_plan_share_one_server(plan_folder, monkeypatch):
    monkeypatch.delenv("NEO4J_URI", raising=False)
    plan.prepare("smoke")
    reading = "from helpers import graph\nwith graph.connect() as db:\n    db.read('RETURN 1')"
    processes = []
    for name in ("01_side_effects_forward", "03_side_effects_misspelling"):
        replace_cells(plan_folder / "notebooks" / f"{name}.ipynb", reading, ASKING)
        (row,) = plan._plan_notebook(name, "smoke", "")
        assert row.amount.requests == 1
        path = plan_folder / "_build" / "services" / "graph" / "pids.json"
        processes.append(json.loads(path.read_text()))
    assert processes[0] == processes[1]


UNSEEN = (
    "01_side_effects_forward",
    "16_qarag_retrieval",
    "17_qarag_answers",
    "18_across_papers",
)


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("notebook", UNSEEN)
@pytest.mark.usefixtures("plan_folder")
def test_a_plan_is_within_a_quarter_of_what_the_run_then_counts(notebook):
    """The smallest model and the sample, of which the plan knows nothing, answered from stored replies."""
    rows = plan.plan([notebook], "smoke")
    amount = sum((item.amount for item in rows), plan.Amount())
    tokens_used = _run_from_stored_replies(notebook)
    for name, value in {
        "requests": amount.requests,
        "prompt": amount.prompt_tokens,
    }.items():
        assert value == pytest.approx(tokens_used[name], rel=0.25), f"{name} of {rows}"
    in_and_out = amount.prompt_tokens + amount.answer_tokens
    assert in_and_out == pytest.approx(tokens_used["prompt"] + tokens_used["generated"], rel=0.25)


def _run_from_stored_replies(notebook: str) -> dict[str, Any]:
    variables = {"PROFILE": "smoke", "ANSWERS": "stored-only", "PYTHONPATH": str(ROOT / "src")}
    subprocess.run(
        [sys.executable, "-m", "publish.run", notebook],
        env=os.environ | variables,
        capture_output=True,
        check=True,
    )
    path = ROOT / "_build" / "records" / "smoke" / f"{notebook}.json"
    return Record.model_validate_json(path.read_text()).provenance.tokens
