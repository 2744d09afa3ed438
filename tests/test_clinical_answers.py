"""Covers answers about charts: what is read off a model's words, citations, and the code that asks the registry."""

from __future__ import annotations

from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.clinical_notes import answers as ca
from helpers.clinical_notes import answers_report as report
from helpers.clinical_notes import questions as cq
from helpers.clinical_notes.charts import generate
from helpers.clinical_notes.query import Lexicon
from helpers.clinical_notes.retrieval import Chunk
from helpers.llm import Reply

LEXICON = Lexicon({"levetiracetam": ["Keppra"], "lamotrigine": ["Lamictal"]}, {"lip smacking": []})
SHOWN = [Chunk(f"n{i}:0", f"n{i}", "P1", date(2020, 1, i), 0, 50, f"text {i}") for i in (1, 2, 3)]
PLACES = (cq.Place("n2", 10, 20, 2),)


def question(kind: ca.Kind, truth: tuple[ca.Value, ...] | None) -> ca.ChartQuestion:
    return ca.ChartQuestion("q", kind, "asked?", "P1", "levetiracetam", None, None, truth, PLACES if truth else ())


def answer(kind: ca.Kind, text: str, truth: tuple[ca.Value, ...] | None = ("x",)) -> ca.Cited:
    return ca.read_answer(question(kind, truth), Reply(text, "complete", 1, 1, 0.1), SHOWN, LEXICON)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("dose", "He took 1,500 mg twice [1].", 1500.0),
        ("dose", "0.5 g [2]", 500.0),
        ("dose", "two tablets", None),
        ("frequency", "Twice a day [1].", 2.0),
        ("frequency", "500 mg BID [1]", 2.0),
        ("frequency", "3 times a day", 3.0),
        ("frequency", "every 8 hours", 3.0),
        ("frequency", "2", 2.0),
        ("frequency", "unclear", None),
        ("medications", "Keppra and Lamictal [1][2].", frozenset({"levetiracetam", "lamotrigine"})),
        ("medications", "aspirin", None),
        ("outcome", "The regimen is refractory [3].", "refractory"),
        ("effectiveness", "It was ineffective [1].", "ineffective"),
        ("effectiveness", "partially effective", "partial"),
        ("effectiveness", "not effective", "ineffective"),
        ("effectiveness", "not tolerated, though effective", "not tolerated"),
        ("effectiveness", "effective, partial, ineffective, or not tolerated", None),
        ("timeline", "From 2019-01-02 [1] to 2020-05-06 [2].", (date(2019, 1, 2), date(2020, 5, 6))),
        ("timeline", "2019-02-31", None),
        ("symptoms", "lip smacking [2]", frozenset({"lip smacking"})),
    ],
)
def test_values_are_read_off_an_answer(kind, text, value):
    assert answer(kind, text).value == value


def test_citations_are_read_once_each_and_those_of_no_passage_do_not_resolve():
    read = answer("dose", "500 mg [2], [1, 2] and [9].")
    assert read.cited == (2, 1, 9)
    assert [c.id for c in read.passages] == ["n2:0", "n1:0"]
    counts = ca.citation_counts([question("dose", (500.0,))], [read])
    assert counts["resolve"] == [(2, 3)]
    assert counts["precision"] == [(1, 2)]
    assert counts["recall"] == [(1, 1)]


@given(st.text(max_size=100), st.sampled_from(ca.KINDS))
def test_any_words_can_be_read(text, kind):
    read = answer(kind, text)
    assert all(c in SHOWN for c in read.passages)


def test_not_found_is_right_only_where_the_chart_does_not_tell():
    read = answer("dose", "Not found in chart.")
    assert read.not_found
    assert ca.answers_right(question("dose", None), read)
    assert not ca.answers_right(question("dose", (500.0,)), read)
    mumbled = answer("dose", "I think so.")
    assert ca.is_unparsed(mumbled)
    assert not ca.answers_right(question("dose", None), mumbled)


def test_a_timeline_may_be_a_month_off_and_no_more():
    q = question("timeline", ((date(2020, 1, 1), date(2021, 1, 1)),))
    assert ca.is_right(q, (date(2020, 1, 20), date(2020, 12, 15)))
    assert not ca.is_right(q, (date(2020, 3, 1), date(2021, 1, 1)))


@pytest.fixture(scope="module")
def charts():
    return generate(14, 5)


def test_code_on_a_perfect_registry_answers_what_its_columns_hold(charts):
    names = cq.antiseizure_names()
    questions = ca.write_chart_questions(charts, names, 8, 8, 3)
    assert {q.kind for q in questions} == set(ca.KINDS)
    assert any(not q.answerable for q in questions)
    registry = ca.gold_registry(charts)
    wrong = [q for q in questions if not ca.is_right(q, ca.answer_by_registry(registry, q, names))]
    # refractory means two drugs at full dose, which no column holds
    assert {q.kind for q in wrong} <= {"outcome"}


def test_a_question_that_the_chart_does_not_answer_names_a_drug_that_it_does_not_name(charts):
    names = cq.antiseizure_names()
    text = {c.patient_id: " ".join(n.text for n in c.notes) for c in charts}
    lexicon = cq.lexicon_of(charts)
    absent = [q for q in ca.write_chart_questions(charts, names, 1, 14, 3) if not q.answerable]
    assert absent
    for q in absent:
        assert q.drug not in lexicon.drugs_in(text[q.patient])


def test_no_answer_of_another_patients_rows(charts):
    names = cq.antiseizure_names()
    registry = ca.gold_registry(charts)
    for q in ca.write_chart_questions(charts, names, 4, 4, 3):
        assert ca.answer_by_registry(registry[registry.patient_id != q.patient], q, names) is None


def test_the_prompt_numbers_its_passages_and_says_what_to_write_if_they_do_not_tell():
    content = " ".join(m["content"] for m in ca.answer_prompt(question("dose", (1.0,)), SHOWN))
    assert ca.NOT_FOUND in content
    assert all(f"[{i}] (2020-01-0{i})\ntext {i}" in content for i in (1, 2, 3))


def test_the_timeline_has_a_lane_a_drug_and_its_words_name_them(charts):
    names = list(cq.antiseizure_names())
    chart = report.richest(charts.charts, names, 1)[0]
    doses = report.daily_doses(chart, names)
    figure = report.draw_timeline(doses, report.seizure_rates(chart))
    lanes = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert sorted(lanes) == sorted(set(doses.drug))
    words = report.timeline_words(chart, doses)
    assert all(drug in words for drug in lanes)
