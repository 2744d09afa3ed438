"""The page "Use it": the table of systems reads the kept answers, and names commands that there are."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from evaluation import answers
from medrerun import model_cost
from medrerun.main import app
from papers.across_papers import use_it
from publish.schedule import ScheduleError
from resources.settings import NOTEBOOKS


def page() -> str:
    cells = json.loads((NOTEBOOKS / "19_use_it.ipynb").read_text(encoding="utf-8"))["cells"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def test_each_system_has_the_score_that_its_chapter_kept() -> None:
    table = use_it.systems_table(draws=200).set_index("system")
    assert len(table) == 5
    for system in use_it.SYSTEMS:
        score = system.score
        path = answers.RELEASED / score.notebook / f"{score.arm}.parquet"
        frame = answers.read(path, answers.SCORE_COLUMNS)
        rows = frame[(frame.arm == score.arm) & (frame.source == "rerun")]
        if score.tasks:
            rows = rows[rows.task.isin(score.tasks)]
        has_measure = [score.measure in measures for measures in rows.measures]
        assert table.loc[system.name, "n"] == sum(has_measure) > 0
        assert re.match(r"\d", str(table.loc[system.name, "score"])), system.name


def commands() -> list[list[str]]:
    """The words of each command on the page, without its arguments and options."""
    commands = []
    for line in re.findall(r"^medrerun .*$", page(), re.MULTILINE):
        words = []
        for word in line.split()[1:]:
            if not re.fullmatch(r"[a-z-]+", word) or word.startswith("-"):
                break
            words.append(word)
        commands.append(words)
    return commands


@pytest.mark.parametrize("command", ["answers", "compare"])
def test_an_unknown_notebook_is_told_from_the_nearest(command: str) -> None:
    result = CliRunner().invoke(app, [command, "01_side_effects_forwrad"])
    assert isinstance(result.exception, ScheduleError)
    assert "Did you mean 01_side_effects_forward" in str(result.exception)


def test_the_cost_of_a_first_question_is_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(model_cost.datasets, "RAW", tmp_path)
    monkeypatch.setattr(model_cost, "llm_servers", list)
    monkeypatch.setattr(
        model_cost.services, "llm_endpoint", lambda *_, **__: SimpleNamespace(base_url="")
    )
    text = model_cost.describe_model_cost()
    assert re.search(r"its weights \(\d\.\d\d GB\)", text)
    assert "medrerun servers start llm" in text
    monkeypatch.setattr(
        model_cost.services, "llm_endpoint", lambda *_, **__: SimpleNamespace(base_url="http://x")
    )
    assert model_cost.describe_model_cost() == ""


@pytest.mark.parametrize(
    ("command", "text"),
    [(["audit"], "question, predicted and gold"), (["extract", "train"], "40 labelled rows")],
)
def test_the_help_names_what_a_table_needs(command: list[str], text: str) -> None:
    result = CliRunner().invoke(app, [*command, "--help"], env={"COLUMNS": "200"})
    assert text in " ".join(result.output.split())


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_each_command_of_the_page_is_one(words: list[str]) -> None:
    result = CliRunner().invoke(app, [*words, "--help"])
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("option", re.findall(r"(?m)^medrerun .*?(--[a-z-]+)", page()))
def test_each_option_of_the_page_is_one(option: str) -> None:
    lines = [line for line in page().splitlines() if line.startswith("medrerun") and option in line]
    words = re.split(r"\s(?=[^a-z])|\smy_", lines[0].removeprefix("medrerun "))[0].split()
    result = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "200"})
    assert option in result.output
