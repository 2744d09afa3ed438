"""What to build, and the findings: computed from rows, requests and records, and silent without them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evaluation import answers, figures, record, records, stored_runs
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from evaluation.records import Record
from helpers.requests import Row, Store, plain, request_key
from papers.across_papers.methods import RunAnswers, Task, compare_methods, tasks
from papers.across_papers.what_to_build import Advice
from publish import freshness, viewer
from publish.chapter_answers import ChapterAnswers
from publish.chapters import Chapter
from publish.pages import Pages
from publish.run_pages import audit_chapter
from resources.settings import NOTEBOOKS

CHAPTER = "01_side_effects_forward"
TASK = Task(
    CHAPTER,
    "Is it?",
    "accuracy",
    {"table": "Table", "llm": "LLM", "few": "LLM, few"},
    seconds="seconds",
)
MODEL = "Some-1B"


def request(unit: str, model: str = MODEL) -> Row:
    prompt = [{"role": "user", "content": unit}]
    key = request_key("chat", model, {}, prompt)
    return Row(
        key,
        "chat",
        model,
        plain({}),
        plain(prompt),
        plain({"text": "YES"}),
        90,
        10,
        0.5,
        "e",
        "now",
    )


def row(arm: str, unit: str, right: bool, model: str = "", **more: Any) -> Answer:
    keys = [request(unit, model).key] if model else []
    measures = {"accuracy": (float(right), 1.0)}
    fields = {
        "arm": arm,
        "unit": unit,
        "cluster": unit,
        "run": "laptop",
        "model": model,
        "requests": keys,
    }
    return Answer(**{**fields, "measures": measures, **more})


def rows(*, better: str = "table", units: int = 40) -> pd.DataFrame:
    """A table and an LLM on the same units, one of them right in a quarter of these alone."""
    answer_list = []
    for i in range(units):
        answer_list += [row("table", f"u{i}", better == "table" or i % 4 == 0)]
        answer_list += [row("llm", f"u{i}", better != "table" or i % 4 == 0, MODEL)]
    return Outcomes(answer_list).frame


@pytest.fixture
def stored_record(tmp_path: Path) -> Record:
    run = record.start(notebook=CHAPTER, paper="side_effects", profile="laptop", parameters={})
    run.timing("index", 12.0)
    run.claim(
        "side_effects.claim.pairs_beat_lists",
        "agrees",
        "36 of 400 <more>",
        p=0.001,
        kind="rescored",
    )
    return records.load(run.save(tmp_path / "records" / f"{CHAPTER}.json"))


@pytest.fixture
def chapter(tmp_path: Path, stored_record: Record) -> Chapter:
    drawn = figures.table(pd.DataFrame({"a": [1]}), "By place & letter, of all")
    output = {
        "output_type": "display_data",
        "data": {"text/html": drawn.html.splitlines(keepends=True)},
    }
    notebook = tmp_path / "executed.ipynb"
    cell = {"cell_type": "code", "source": "", "metadata": {}, "outputs": [output]}
    heading = {"cell_type": "markdown", "source": "# A chapter", "metadata": {}}
    notebook.write_text(json.dumps({"cells": [heading, cell]}), encoding="utf-8")
    return Chapter(CHAPTER, "yours", notebook, stored_record)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    store = Store(tmp_path / "requests")
    store.add([request(f"u{i}") for i in range(40)])
    return store


def test_the_simple_method_is_the_one_whose_rows_name_no_request(
    stored_record: Record, store: Store
) -> None:
    result = compare_methods(TASK, RunAnswers(stored_record, rows(), store))
    assert result
    assert result.comparison
    table, llm = result.methods[result.comparison.first], result.methods[result.comparison.second]
    assert (table.asks, table.tokens, llm.asks, llm.tokens, llm.model) == (
        False,
        0.0,
        True,
        100.0,
        MODEL,
    )
    assert result.comparison.test.difference == pytest.approx(0.75)
    assert result.better == "simple"


@pytest.mark.parametrize(
    ("better", "verdict"), [("table", "simple"), ("llm", "other"), ("llm", "neither")]
)
def test_a_task_goes_to_the_method_that_a_paired_test_prefers(
    stored_record: Record, store: Store, better: str, verdict: str
) -> None:
    answer_rows = rows(better=better, units=4 if verdict == "neither" else 40)
    result = compare_methods(TASK, RunAnswers(stored_record, answer_rows, store))
    assert result
    assert result.better == verdict


def test_methods_are_compared_on_the_questions_that_all_of_them_answered(
    stored_record: Record, store: Store
) -> None:
    some = Outcomes([row("few", f"u{i}", False, MODEL) for i in range(8)]).frame
    result = compare_methods(TASK, RunAnswers(stored_record, pd.concat([rows(), some]), store))
    assert result
    assert {method.score.n for method in result.methods.values()} == {8}


def test_another_model_is_a_method_of_its_own(stored_record: Record, store: Store) -> None:
    other = Outcomes([row("llm", f"u{i}", True, "Other-7B") for i in range(40)]).frame
    result = compare_methods(TASK, RunAnswers(stored_record, pd.concat([rows(), other]), store))
    assert result
    assert [(m.model, m.tokens) for m in result.methods.values() if m.asks] == [
        (MODEL, 100.0),
        ("Other-7B", None),
    ]
    assert "not stored" in Advice([result]).methods_table().html


def test_seconds_are_those_of_questions_that_were_asked_one_at_a_time(
    stored_record: Record, store: Store
) -> None:
    seconds = [(MODEL, 1.0), (MODEL, 2.0), (MODEL, 3.0), ("Other-7B", 9.0), ("Other-7B", 9.0)]
    timed = Outcomes(
        [
            row("llm", f"u{i}", True, m, measures={"seconds": (s, 1.0)}, repeat=1)
            for i, (m, s) in enumerate(seconds)
        ]
    )
    task = replace(TASK, prepared={"table": "index"})
    result = compare_methods(
        task, RunAnswers(stored_record, pd.concat([rows(), timed.frame]), store)
    )
    assert result
    table, llm = result.methods.values()
    assert (table.seconds, llm.seconds) == (None, 2.0)
    assert (table.prepared, llm.prepared) == (12.0, None)


def test_a_task_whose_papers_method_asks_no_llm_is_listed_and_not_counted(
    stored_record: Record, store: Store
) -> None:
    run = RunAnswers(stored_record, rows(), store)
    counted = compare_methods(TASK, run)
    not_counted = compare_methods(replace(TASK, words="Own?", paper=["table"]), run)
    assert counted
    assert not_counted
    assert not_counted.comparison is None
    advice = Advice([not_counted, counted])
    assert [pair.words for pair in advice.pairs] == [TASK.words]
    assert "Own?" not in advice.table().html
    assert "Own?" in advice.methods_table().html
    words = advice.summary()
    assert "On one of one tasks" in words
    left_out = "We leave out the tasks for which the paper's own method uses no language model"
    assert f'{left_out}: "Own?".' in words
    assert "not counted" not in Advice([counted]).summary()


@pytest.mark.parametrize("task", [replace(TASK, only={"kind": "x"}), replace(TASK, measure="f1")])
def test_a_task_without_rows_is_left_out(stored_record: Record, store: Store, task: Task) -> None:
    assert compare_methods(task, RunAnswers(stored_record, rows(), store)) is None


def test_without_a_run_the_chapter_says_so() -> None:
    advice = Advice([])
    assert "No run" in advice.summary()
    assert advice.differences() is None
    assert advice.costs() is None
    assert advice.table().text.startswith("The best simple method and the best method with a")


def test_a_link_of_the_table_leads_to_the_answers_of_the_method(
    stored_record: Record, store: Store
) -> None:
    result = compare_methods(TASK, RunAnswers(stored_record, rows(), store))
    assert result
    html = Advice([result]).table().html
    assert f'href="../answers.html#nb={CHAPTER}&amp;arm=llm&amp;model={MODEL}"' in html
    assert f'href="{CHAPTER}.html"' in html
    assert "100 tokens a question (the simple method: none)" in html


def test_the_figures_show_each_difference_and_each_cost(
    stored_record: Record, store: Store
) -> None:
    result = compare_methods(TASK, RunAnswers(stored_record, rows(), store))
    assert result
    advice = Advice([result])
    differences, costs = advice.differences(), advice.costs()
    assert differences
    assert costs
    assert differences.html.count("<svg") == 2  # one for narrow screens
    assert "Is it? (accuracy, n = 40) +75.0" in differences.html
    words = advice.summary()
    assert "On one of one tasks" in words
    assert "40 questions" in words
    assert "LLM 25.0 % with 100 tokens" in costs.html


@pytest.fixture
def stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folders of this machine's runs and of the reference's, which are empty."""
    monkeypatch.setattr(answers, "BUILT", tmp_path / "own" / "answers")
    monkeypatch.setattr(answers, "RELEASED", tmp_path / "kept" / "answers")
    monkeypatch.setattr(records, "RECORDS", tmp_path / "own" / "records")
    monkeypatch.setattr(stored_runs, "RESULTS", tmp_path / "kept" / "results")
    return tmp_path


def leave(folder: Path, record_of_run: Record, answers_folder: Path) -> None:
    """Leave a run as a chapter does."""
    folder.mkdir(parents=True, exist_ok=True)
    records.write(folder / f"{CHAPTER}.json", record_of_run)
    answers.write(answers_folder, rows(), licence="CC0-1.0")


def test_the_reference_is_read_where_this_machine_has_no_run(
    stores: Path, stored_record: Record
) -> None:
    assert stored_runs.newest_run(CHAPTER, "smoke") is None
    leave(stores / "kept/results/laptop", stored_record, stores / "kept/answers" / CHAPTER)
    run = stored_runs.newest_run(CHAPTER, "smoke")
    assert run
    assert run.origin == "reference run"
    sample = stored_record.model_copy(update={"sample": True, "profile": "smoke"})
    leave(stores / "own/records/smoke", sample, stores / "own/answers/smoke" / CHAPTER)
    run = stored_runs.newest_run(CHAPTER, "smoke")
    assert run
    assert run.origin == "run of the SAMPLE"
    reference = stored_runs.newest_run(CHAPTER, "laptop")
    assert reference
    assert reference.origin == "reference run"


def test_numbers_of_the_sample_say_so(stores: Path, stored_record: Record, store: Store) -> None:
    sample = stored_record.model_copy(update={"sample": True, "profile": "smoke"})
    leave(stores / "own/records/smoke", sample, stores / "own/answers/smoke" / CHAPTER)
    result = compare_methods(TASK, RunAnswers(sample, rows(), store))
    assert result
    advice = Advice([replace(result, run=stored_runs.newest_run(CHAPTER, "smoke"))])
    shown = [advice.table(), advice.methods_table(), advice.differences(), advice.costs()]
    assert all("SAMPLE" in str(part and part.html) for part in shown)
    assert "SAMPLE" in advice.summary()


def test_a_new_run_of_a_chapter_makes_the_comparison_stale(
    stores: Path, stored_record: Record
) -> None:
    leave(stores / "kept/results/laptop", stored_record, stores / "kept/answers" / CHAPTER)
    before = freshness.notebook_inputs("20_what_to_build", "smoke")
    own = stored_record.model_copy(update={"profile": "smoke"})
    leave(stores / "own/records/smoke", own, stores / "own/answers/smoke" / CHAPTER)
    after = freshness.notebook_inputs("20_what_to_build", "smoke")
    assert freshness.changes(before, after) == f"the run of {CHAPTER} changed"


def test_every_task_names_a_notebook_and_arms_of_its_own() -> None:
    for task in tasks():
        assert (NOTEBOOKS / f"{task.notebook}.ipynb").is_file()
        assert {*task.paper, *task.prepared} <= task.arms.keys()
    assert len({task.words for task in tasks()}) == len(tasks())
    assert len([*groupby(tasks(), key=lambda task: task.notebook)]) == len(
        {task.notebook for task in tasks()}
    )


def test_a_finding_is_quoted_only_where_a_run_decided_it_so(chapter: Chapter) -> None:
    claim = "side_effects.claim.pairs_beat_lists"
    shown = Pages([chapter])
    assert "36 of 400 &lt;more&gt;" in shown.evidence(claim, "rescored", "agrees")
    assert shown.evidence(claim, "rescored", "differs") == ""
    assert shown.evidence(claim, "rerun", "agrees") == ""
    assert Pages([]).evidence(claim, "rescored", "agrees") == ""


def test_an_exhibit_is_found_by_the_beginning_of_its_caption(chapter: Chapter) -> None:
    shown = Pages([chapter])
    assert "<td" in shown.exhibit(CHAPTER, "By place & letter")
    assert "\n" not in shown.exhibit(CHAPTER, "By place & letter")
    assert shown.exhibit(CHAPTER, "By letter") == ""
    assert shown.exhibit("02_side_effects_reverse", "By place") == ""


def test_the_audit_of_a_chapter_shows_what_its_rows_hide(
    chapter: Chapter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(answers, "BUILT", tmp_path / "answers")
    labelled = [
        row("llm", f"u{i}", i % 2 == 0, MODEL, gold="NO" if i % 2 else "YES", predicted="YES")
        for i in range(40)
    ]
    answers.write(
        tmp_path / "answers" / "laptop" / CHAPTER, Outcomes(labelled).frame, licence="CC0-1.0"
    )
    page = Pages([chapter])
    vars(page)["_read"] = {CHAPTER: ChapterAnswers({}, {}, audit_chapter(chapter))}
    shown = page.audited()
    assert "found in 1 of 1" in shown
    assert "against the most common label" in shown
    assert Pages([]).audited() == "No run has answers to audit."
    assert chapter.record
    labelled_chapter = replace(
        chapter, record=chapter.record.model_copy(update={"arms": {"llm": "The model's arm"}})
    )
    assert (
        viewer.scripts(labelled_chapter, Store(tmp_path / "store"))[0]["arms"]["llm"]
        == "The model's arm"
    )
    folder = tmp_path / "answers" / "laptop" / CHAPTER
    answers.write(
        folder, Outcomes(labelled).frame, licence="not for others", withheld=[answers.ALL_TASKS]
    )
    viewer._rows.cache_clear()
    assert "texts withheld" in audit_chapter(chapter).verdicts.values()
