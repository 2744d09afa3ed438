"""Arms that a server is not able to serve: not run, with the reason, in tables, numbers and claims."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import IPython.display
import nbformat
import pytest
from local_server import local_server, refuse_everything_optional

from evaluation import answers, record, records, rules
from evaluation.answers import Answer, NotRunError, PlainUnit
from evaluation.outcomes import Outcomes
from evaluation.published import Rule
from helpers.completions import CapabilityError, ContextOverflowError
from publish import rehearse
from resources.settings import ROOT, read_profile

ACCURACY = "side_effects.table1.closed_book.accuracy"
UNITS = [PlainUnit(f"u{i}", f"u{i}", "Is it?", "YES" if i % 2 else "NO") for i in range(12)]
WHY = "the server gives no constrained output"


def answers_yes(units: Sequence[PlainUnit]) -> list[Answer]:
    return [Answer(answer="YES", predicted="YES", requests=["key"]) for _ in units]


def cannot(units: Sequence[PlainUnit]) -> list[Answer]:
    raise CapabilityError(WHY)


@pytest.fixture
def run(tmp_path, monkeypatch) -> record.Run:
    monkeypatch.setattr(records, "RECORDS", tmp_path / "records")
    monkeypatch.setattr(answers, "BUILT", tmp_path / "answers")
    return record.start(
        notebook="01_side_effects_forward", paper="side_effects", profile="smoke", parameters={}
    )


@pytest.fixture
def out(run) -> Outcomes:
    arms = dict.fromkeys(("graphrag", "format_a", "format_b"), answers_yes)
    arms["closed_book"] = cannot
    rows = run.answer(arms, UNITS, model="Qwen2.5-7B-Instruct")
    # what is computed of all answers afterwards is none of an answer that was never given
    rows_with_cosine = [
        replace(row, measures={**row.measures, "cosine": (0.5, 1.0)}) for row in rows
    ]
    return Outcomes(rows_with_cosine, draws=100)


def test_the_arm_is_in_the_tables_as_not_run_with_the_reason(out):
    table = out.table(["accuracy", "cosine"], "Four arms")
    assert table.text.count("not run") >= 2
    assert WHY in table.text
    assert "50.0" in table.text, "the other arm has its score"
    plot = out.interval_plot(["accuracy"], "Four arms")
    assert WHY in plot.text


def test_a_test_of_it_is_not_run_and_the_others_keep_their_p(out):
    pairs = [("graphrag", "closed_book"), ("graphrag", "format_b")]
    not_run, comparison = out.compare(pairs, "accuracy")
    assert WHY in not_run.why_not_run
    assert comparison.p == 1
    with pytest.raises(NotRunError, match=WHY):
        _ = not_run.test.difference
    text = out.comparison_table([not_run, comparison], "Tests").text
    assert "not run" in text
    assert WHY in text


def test_its_numbers_and_claims_are_not_run_with_the_reason(run, out):
    run.report(out, "side_effects.table1", ["accuracy"], model="Qwen2.5-7B-Instruct")
    saved = json.loads(run.save(outcomes=out).read_text())
    reasons = {reason["id"]: reason["why"] for reason in saved["reasons"]}
    assert WHY in reasons[ACCURACY]
    assert "side_effects.table1.graphrag.accuracy" in {value["id"] for value in saved["values"]}
    rule = Rule.model_validate({"better": "graphrag", "than": ["closed_book"]})
    decision = rules.evaluate(rule, out, "rerun", paper="side_effects")
    assert (decision.verdict, WHY in decision.why) == ("not tested", True)


def test_its_rows_are_not_stored(run, out):
    run.save(outcomes=out)
    frame = answers.read(answers.BUILT / "smoke" / "01_side_effects_forward")
    assert set(frame.arm) == {"graphrag", "format_a", "format_b"}


def test_an_opening_that_needs_it_says_why_there_is_none(run, out, monkeypatch):
    texts: list[Any] = []
    monkeypatch.setattr(IPython.display, "display", lambda item, **_: texts.append(item.data))
    run.opening(lambda rows: f"{rows.score('accuracy', 'closed_book').value}", out)
    assert texts[0].startswith("**Not run:** Closed book was not run: ")
    assert WHY in texts[0]


def test_a_context_that_is_too_short_is_such_a_reason_too(run):
    def overflows(units: Sequence[PlainUnit]) -> list[Answer]:
        raise ContextOverflowError("A prompt does not fit the context of 512 tokens.")

    rows = run.answer({"closed_book": overflows}, UNITS, model="m")
    assert "512 tokens" in Outcomes(rows).why_not_run("closed_book")


def test_an_auc_without_log_probabilities_says_why(run):
    rows = run.answer({"closed_book": answers_yes}, UNITS, model="m")
    text = Outcomes(rows).table(["accuracy", "auc(p_yes)"], "A table").text
    assert "no log-probabilities" in text


NOTEBOOKS = sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))
SMALL_MODEL = "SmolLM2-135M-Instruct"


def link_data(folder: Path) -> None:
    """Give a project of links a data folder of its own, whose stores nobody shares."""
    data = folder / "data"
    data.unlink(missing_ok=True)
    data.mkdir()
    for source in (ROOT / "data").iterdir():
        if source.name != "derived":
            (data / source.name).symlink_to(source)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project of links with data folders of its own."""
    folder = tmp_path_factory.mktemp("project")
    rehearse.link_project(folder, "smoke", read_profile("smoke"))
    link_data(folder)
    return folder


def run_chapter(notebook: str, folder: Path, url: str, **settings: str) -> None:
    """Run a chapter of the smoke profile against a server, with further settings."""
    variables = {"PROFILE": "smoke", "LLM_BASE_URL": url, "LLM_MODEL": ""}
    variables |= {"MEDRAG_ROOT": str(folder), "PYTHONPATH": str(ROOT / "src"), **settings}
    process = subprocess.run(
        [sys.executable, "-m", "publish.run", notebook],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-3000:]


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("notebook", NOTEBOOKS)
def test_every_chapter_completes_with_a_server_that_refuses_everything_optional(notebook, project):
    """The graph and the encoder are real; only the model is a stub."""
    with local_server(refuse_everything_optional(SMALL_MODEL)) as running:
        run_chapter(notebook, project, running.url)
    executed = project / "_build" / "executed" / "smoke" / f"{notebook}.ipynb"
    assert nbformat.read(executed, as_version=4).cells


@pytest.mark.slow
@pytest.mark.engine
@pytest.mark.timeout(600)
def test_the_first_chapter_ends_well_where_its_second_model_is_not_served(tmp_path):
    name = "01_side_effects_forward"
    profile = read_profile("smoke")
    profile[name] = profile[name] | {"second_model": "a/second-model"}
    rehearse.link_project(tmp_path, "smoke", profile)
    link_data(tmp_path)
    with local_server(refuse_everything_optional(SMALL_MODEL)) as running:
        run_chapter(name, tmp_path, running.url)
        assert {body["model"] for body in running.requests if body} == {SMALL_MODEL}
    saved = json.loads((tmp_path / "_build" / "records" / "smoke" / f"{name}.json").read_text())
    reasons = {reason["id"]: reason["why"] for reason in saved["reasons"]}
    assert "does not serve 'a/second-model'" in reasons["side_effects.table2.graphrag.accuracy"]
    assert "side_effects.table1.graphrag.accuracy" in {value["id"] for value in saved["values"]}
