"""Runs with several models: where they lie, the columns that they add, and how two are compared."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from test_outcomes import rows as answers_of

from evaluation import answers, compare, metrics, paired, record, records, reference, show
from evaluation.answers import Answer, Item
from evaluation.figures import SCORES, Html
from evaluation.outcomes import Outcomes
from evaluation.published import published
from helpers import requests
from helpers.requests import StoreError
from publish import viewer
from publish.chapters import Chapter
from publish.staged_notebooks import StagedNotebook
from resources.env_file import model_run_name
from resources.settings import NOTEBOOKS, run_name, settings

GOLD = [True, False] * 6
FIRST = [True] * 12
SECOND = [*GOLD[:9], True, True, None]
NB = "01_side_effects_forward"


def make_answers(model: str, **arms: Sequence[bool | None]) -> list[Answer]:
    return [
        Answer(**{**vars(row), "model": model, "requests": [f"{model}-{i}"]})
        for i, row in enumerate(answers_of(GOLD, **arms))
    ]


def left_by(table: Html) -> dict[str, Any]:
    assert table.scores
    scores: dict[str, Any] = json.loads(
        json.dumps(table._repr_mimebundle_()[SCORES], sort_keys=True)
    )  # as nbformat
    return scores


@pytest.fixture
def use_model(monkeypatch):
    """Sets LLM_MODEL for the rest of a test; the settings are read anew."""

    def choose(model: str) -> None:
        monkeypatch.setenv("LLM_MODEL", model)
        settings.cache_clear()

    choose("")
    yield choose
    monkeypatch.undo()
    settings.cache_clear()


@pytest.fixture
def two_models(tmp_path, monkeypatch, use_model):
    """Answers of two models to the same twelve questions: the profile's own as reference, another one built here."""
    monkeypatch.setattr(answers, "BUILT", tmp_path / "built")
    monkeypatch.setattr(answers, "RELEASED", tmp_path / "released")
    own = make_answers("own", closed_book=FIRST, graph=GOLD)
    other = make_answers("other/7B", closed_book=SECOND, graph=GOLD)
    lookup = answers_of(GOLD, lookup=GOLD)
    plain = [Answer(**{**vars(row), "model": ""}) for row in lookup]
    answers.write(answers.RELEASED / NB, answers.to_frame(own + plain), licence="CC0-1.0")
    folder = answers.BUILT / model_run_name("laptop", "other/7B") / NB
    answers.write(folder, answers.to_frame(other + plain), licence="CC0-1.0")


@pytest.mark.parametrize(
    "model",
    [
        "",
        "Qwen/Qwen2.5-7B-Instruct",
        "gemma-3:4b",
        "http://models/a@b+c",
        "Qwen2.5-Coder-1.5B-Instruct",
    ],
)
def test_a_models_runs_have_a_folder_of_their_own(use_model, model):
    use_model(model)
    name = run_name("laptop")
    assert re.fullmatch(r"[A-Za-z0-9@._-]+", name)
    assert (name == "laptop") == (model in ("", "Qwen2.5-Coder-1.5B-Instruct"))


def test_another_models_rows_are_found_beside_the_runs_own(two_models, use_model):
    assert list(compare.others(NB, "laptop")) == ["other/7B"]
    assert set(compare.others(NB, "laptop")["other/7B"].arm) == {"closed_book", "graph"}
    use_model("other/7B")
    assert set(answers.read(answers.newest(NB, "laptop")).model) == {"", "other/7B"}
    assert list(compare.others(NB, "laptop")) == ["own"]
    assert compare.others(NB, "paper") == {}


def test_a_table_of_scores_gets_a_column_for_each_other_model(two_models):
    own = Outcomes(answers.read(answers.newest(NB, "laptop")), draws=200)
    others = compare.others(NB, "laptop")
    own_table = own.table(["accuracy"], "Accuracy")
    scores = left_by(own_table)
    table = compare.add_model_columns(own, scores, others, "rows/{}{}{}".format)
    expected = Outcomes(others["other/7B"], draws=200).format_score("accuracy", "closed_book")
    assert re.findall(r'data-label="([^"]*)"', table.html)[:3] == [
        "arm",
        "accuracy",
        "accuracy, other/7B",
    ]
    assert str(expected) in table.text.replace("\xa0", " ")
    lines = {line.split()[0]: line for line in table.text.splitlines()[2:]}
    assert re.search(r'<td[^>]*class="num"><a href="rows/closed_book">', table.html)
    assert re.search(r'<a href="rows/closed_bookother/7B">', table.html), (
        "another model's number leads to its rows"
    )
    assert len(lines) == 3  # the lookup asks no model, so its cell is empty
    of_some = Outcomes(own.frame[own.frame.gold == "YES"], draws=200).table(
        ["accuracy"], "Some units"
    )
    assert "91.7" not in compare.add_model_columns(own, left_by(of_some), others, "{}".format).text


def test_another_models_share_beside_a_printed_one_has_the_digits_of_the_paper(two_models):
    own = Outcomes(answers.read(answers.newest(NB, "laptop")), draws=200)
    own_table = own.reproduction_table(
        published("side_effects"),
        "side_effects.table1",
        ["f1"],
        "Table 1, where F1 is printed as 0.494",
    )
    table = compare.add_model_columns(
        own, left_by(own_table), compare.others(NB, "laptop"), "{}".format
    )
    [row] = [line for line in table.text.splitlines() if "0.494" in line and "Table 1" not in line]
    assert len(re.findall(r"[01]\.\d{3} \[", row.replace("\xa0", " "))) == 2, (
        "this run's and the other model's"
    )
    assert "%" not in row


def test_a_number_of_a_stratum_links_to_the_questions_of_that_stratum(two_models):
    own = answers.read(answers.newest(NB, "laptop"))
    own["strata"] = pd.Series(
        [{"kind": "two hops" if i % 2 else "one hop"} for i in range(len(own))]
    )
    score_table = Outcomes(own, draws=200).table(["accuracy"], "Accuracy", by="kind")
    table = compare.add_model_columns(Outcomes(own), left_by(score_table), {}, "{0}?{3}".format)
    assert re.findall(r'data-label="(\w+ hops?)"[^>]*><a href="([^"]*)">', table.html)[:2] == [
        ("one hop", "closed_book?kind: one hop"),
        ("two hops", "closed_book?kind: two hops"),
    ]


def test_a_difference_links_to_the_answers_of_both_arms(two_models):
    own = Outcomes(answers.read(answers.newest(NB, "laptop")), draws=200)
    comparison = own.comparison_table(
        own.compare([("closed_book", "graph"), ("lookup", "graph")], "accuracy"), "Tests"
    )
    table = compare.link_comparisons(
        left_by(comparison), lambda a, b: f"rows/{a}/{b}" if a == "closed_book" else ""
    )
    assert re.findall(r'<td data-label="([^"]*)"[^>]*><a href="([^"]*)">', table.html) == [
        ("difference in points", "rows/closed_book/graph")
    ]
    assert table.text.replace("\xa0", " ") == comparison.text.replace("\xa0", " ")


def test_tests_of_released_answers_link_to_no_rerun(two_models):
    released = Outcomes(
        answers.read(answers.newest(NB, "laptop")).assign(source="released"), draws=200
    )
    assert (
        released.comparison_table(
            released.compare([("closed_book", "graph")], "accuracy"), "Tests"
        ).scores
        is None
    )


def test_two_models_are_compared_unit_by_unit(two_models):
    text = compare.compare(NB, "laptop")
    right = [
        [bool(a) == g for a, g in zip(labels, GOLD, strict=True)] for labels in (FIRST, SECOND)
    ]
    of_drugs = paired.paired_means(
        *right, clusters=[f"drug {i // 3}" for i in range(12)], draws=metrics.DRAWS
    )
    assert (of_drugs.b, of_drugs.c) == (0, 5)
    line = next(line for line in text.splitlines() if "closed_book: own" in line)
    assert " 12 " in line and f"{min(1.0, 2 * of_drugs.p):.3f}" in line
    assert "closed_book: 5 units differ in accuracy" in text
    assert "graph: 0 units differ in accuracy" in text
    unit = (
        next(u for u in text.split("units differ in accuracy")[1].splitlines() if "|" in u)
        .split(":")[0]
        .strip()
    )
    answers_shown = show.show(NB, "laptop", arm="closed_book", unit=unit)
    assert "-- closed_book (own)" in answers_shown and "-- closed_book (other/7B)" in answers_shown


def test_showing_answers_puts_no_reply_of_the_reference_into_a_fresh_run(
    two_models, tmp_path, monkeypatch
):
    monkeypatch.setattr(requests, "FRESH", tmp_path / "fresh")
    monkeypatch.setenv("ANSWERS", "fresh")
    settings.cache_clear()
    show.show(NB, "laptop")
    assert requests.Store(tmp_path / "fresh").rows() == []


def test_a_ranking_is_shown_by_its_passages_and_has_no_reply(two_models):
    items = [Item("note 7", label="2", gold=True, rank=1), Item("note 3", label="0", rank=2)]
    ranking = Answer("ranker", "u", "u", question="Which note?", items=items)
    answers.write(answers.RELEASED / NB, answers.to_frame([ranking]), licence="CC0-1.0")
    text = show.show(NB, "laptop", arm="ranker")
    assert "   retrieved 1: note 7 (2), relevant\n   retrieved 2: note 3 (0)" in text
    assert "said:" not in text


def test_an_arm_is_shown_alone_though_others_contain_its_name(two_models):
    rows = [Answer(arm, "u", "u", question=arm) for arm in ("format_a", "format_a_checked")]
    answers.write(answers.RELEASED / NB, answers.to_frame(rows), licence="CC0-1.0")
    assert "-- format_a_checked" not in show.show(NB, "laptop", arm="format_a")
    assert "-- format_a_checked" in show.show(NB, "laptop", arm="format")


def test_an_arm_that_only_the_authors_have_is_said_to_be_absent_here(two_models):
    text = show.show(NB, "laptop", arm="authors_only")
    assert "matches arm 'authors_only'" in text and f"make notebook NB={NB}" in text


def test_the_authors_released_answers_are_written_apart_and_shown_beside_ours(two_models, tmp_path):
    rows = answers.read(answers.newest(NB, "laptop"))
    assert f"are not in git. A run adds them: make notebook NB={NB}" in show.show(NB, "laptop")
    run = record.start(notebook=NB, paper="side_effects", profile="laptop", parameters={})
    theirs = rows[rows.arm == "graph"].assign(source="released", model="theirs", answer=None)
    run.save(tmp_path / "record.json", outcomes=Outcomes(pd.concat([rows, theirs]), draws=200))
    assert set(answers.read(answers.newest(NB, "laptop")).source) == {"rerun"}
    answers_shown = show.show(NB, "laptop", arm="graph")
    assert "-- graph (own)" in answers_shown and "-- graph (released, theirs)" in answers_shown
    assert "said: [not released]" in answers_shown
    assert "are not in git" not in answers_shown
    comparison = compare.compare(NB, "laptop", ["own", "released, theirs"])
    assert "graph: 0 units differ in accuracy" in comparison


def test_released_answers_stand_in_the_viewer_as_those_of_another_model(two_models, tmp_path):
    rows = answers.read(answers.newest(NB, "laptop"))
    path = tmp_path / "record.json"
    run = record.start(notebook=NB, paper="side_effects", profile="laptop", parameters={})
    theirs = rows[rows.arm == "graph"].assign(source="released", model="theirs", answer=None)
    run.save(path, outcomes=Outcomes(pd.concat([rows, theirs]), draws=200))
    notebook = NOTEBOOKS / f"{NB}.ipynb"
    chapter = Chapter(NB, "yours", notebook, records.load(path))
    entry, files = viewer.scripts(chapter, requests.Store(tmp_path / "none"))
    assert "released, theirs" in entry["models"]
    assert entry["first"] == "own", "the view opens on the run's own model"
    assert "released, theirs" in "".join(files.values())


def test_a_comparison_with_a_model_that_did_not_answer_says_which_did(two_models):
    with pytest.raises(StoreError, match=r"own, other/7B.*medrerun run --model"):
        compare.compare(NB, "laptop", ["own", "third"])


def test_the_folder_of_a_model_is_a_name_without_a_path():
    assert model_run_name("laptop", "../../x y") == "laptop@.._.._x_y"
    assert len(Path(model_run_name("laptop", "a/b:c")).parts) == 1


def test_a_staged_notebook_has_the_columns_and_not_what_they_were_made_of(two_models, tmp_path):
    own = Outcomes(answers.read(answers.newest(NB, "laptop")), draws=200)
    table = own.table(["accuracy"], "Accuracy")
    assert SCORES in table._repr_mimebundle_()
    output = {"output_type": "display_data", "metadata": {}, "data": table._repr_mimebundle_()}
    code = {
        "cell_type": "code",
        "metadata": {},
        "execution_count": 1,
        "source": "",
        "outputs": [output],
    }
    title = {"cell_type": "markdown", "metadata": {}, "source": "# Title"}
    path = tmp_path / "x.ipynb"
    path.write_text(
        json.dumps({"cells": [title, code], "metadata": {}, "nbformat": 4, "nbformat_minor": 5})
    )
    for columns, expected in (
        (None, False),
        (
            lambda scores: (
                compare.add_model_columns(
                    own, scores, compare.others(NB, "laptop"), "{}".format
                ).html
            ),
            True,
        ),
    ):
        staged = StagedNotebook(path, make_table=columns).page("a").content
        assert SCORES not in staged
        assert ("other/7B" in staged) == expected


def test_a_further_models_reference_lies_beside_the_first_and_replaces_no_chapter(
    two_models, tmp_path, monkeypatch, use_model
):
    use_model("other/7B")
    build = tmp_path / "_build"
    for module in (record, records, reference):
        monkeypatch.setattr(module, "BUILD", build)
    for module, name in (
        (records, "RECORDS"),
        (reference, "RESULTS"),
        (reference, "REFERENCE"),
        (requests, "RELEASED"),
    ):
        monkeypatch.setattr(
            module, name, build / "records" if name == "RECORDS" else tmp_path / name
        )
    monkeypatch.setattr(answers, "BUILT", build / "answers")
    ran = record.start(
        notebook=NB, paper="side_effects", profile="laptop", parameters={"llm_model": "other/7B"}
    )
    ran.save(outcomes=Outcomes(make_answers("other/7B", closed_book=SECOND)))
    executed = build / "executed" / "laptop@other_7B" / f"{NB}.ipynb"
    executed.parent.mkdir(parents=True)
    executed.write_text('{"cells": [], "metadata": {}}')
    before = answers.read(answers.RELEASED / NB)
    assert reference.keep_reference("laptop") == 0
    assert (tmp_path / "RESULTS" / "laptop@other_7B" / f"{NB}.json").is_file()
    assert not list((tmp_path / "REFERENCE").glob("*.ipynb"))
    assert answers.read(answers.RELEASED / NB).unit.equals(before.unit)
    assert set(answers.read(answers.RELEASED / f"{NB}@other_7B").model) == {"other/7B"}
    use_model("")
    assert list(records.other_models("laptop", tmp_path / "RESULTS")) == ["other/7B"]
    assert list(compare.others(NB, "laptop")) == ["other/7B"]
