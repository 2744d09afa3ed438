"""Covers answers about charts: what is read off a model's words, citations, and the code that asks the registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.llm import Reply
from helpers.results import record
from helpers.results.metrics import Score
from papers.clinical_notes import answers as ca
from papers.clinical_notes import answers_report as report
from papers.clinical_notes import questions as cq
from papers.clinical_notes.charts import generate
from papers.clinical_notes.query import Lexicon
from papers.clinical_notes.retrieval import Chunk

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
    found = ca.citations([question("dose", (500.0,))], [read])
    assert found == {
        "resolve": [("P1", True), ("P1", True), ("P1", False)],
        "cited": [("P1", True)],
        "precision": [("P1", True), ("P1", False)],
        "recall": [("P1", True)],
    }


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


def test_the_kinds_ask_different_patients_and_each_patient_once_a_kind():
    charts, names = generate(40, 5), cq.antiseizure_names()
    questions = ca.write_chart_questions(charts, names, 4, 4, 3)
    of_kind = {kind: [q.patient for q in questions if q.kind == kind and q.answerable] for kind in ca.KINDS}
    assert all(len(set(of)) == len(of) == 4 for of in of_kind.values())
    assert len({p for of in of_kind.values() for p in of}) > 14
    assert questions == ca.write_chart_questions(charts, names, 4, 4, 3)


def test_a_regimen_is_called_refractory_from_passages_that_say_which_drugs_failed():
    charts = generate(40, 5)
    text = {n.note_id: n.text for n in charts.notes()}
    asked = ca.write_chart_questions(charts, cq.antiseizure_names(), 40, 0, 3)
    refractory = [q for q in asked if q.kind == "outcome" and q.truth == ("refractory",)]
    assert refractory
    lexicon = cq.lexicon_of(charts)
    for q in refractory:
        # a sentence on seizures alone names no drug
        assert any(lexicon.drugs_in(text[p.note][p.start : p.end]) for p in q.places)


def test_right_passages_are_the_retrieved_ones_where_the_chart_does_not_tell_and_what_is_left_out_is_counted():
    chunks = [Chunk(f"n{i}:0", f"n{i}", "P1", date(2020, 1, i), 0, 50, f"text {i}") for i in range(1, 8)]
    told = replace(question("symptoms", ("x",)), places=tuple(cq.Place(c.note, 0, 5, 2) for c in chunks))
    absent = question("dose", None)
    right = ca.holding([told, absent], chunks, 3, [(chunks[0],), (chunks[1], chunks[2])])
    assert [c.note for c in right[0].shown] == ["n1", "n6", "n7"]
    assert right[0].left_out == 4
    assert right[1] == ca.Right((chunks[1], chunks[2]), 0)
    assert "1 questions (symptoms 1)" in report.right_passages_words([told, absent], right)
    assert "1 questions" not in report.right_passages_words([absent], right[1:])


def many(kinds: Sequence[ca.Kind], patients: Sequence[str], truth: tuple[ca.Value, ...] | None = ("x",)):
    return [replace(question(k, truth), patient=p) for k, p in zip(kinds, patients, strict=True)]


def test_an_interval_is_over_patients_and_absent_answers_are_counted_apart():
    kinds = [kind for kind in ca.KINDS for _ in range(4)]
    one = many(kinds, ["A", "B", "C", "D"] * 7)
    many_patients = many(kinds, [f"P{i}" for i in range(28)])
    none = many(["dose"] * 5, list("ABCDE"), None)
    right = [patient in "AB" for patient in ["A", "B", "C", "D"] * 7]
    flags = {way: [*right, *[True] * 5] for way in (report.RAG, report.ORACLE, report.CODE, report.CEILING)}

    def told(questions: Sequence[ca.ChartQuestion]) -> Score:
        run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
        table = report.accuracy_table(run, questions, {}, flags).set_index("question")
        assert table.loc[report.ABSENT, "n"] == 5
        assert table.loc[report.TOLD, "n"] == 28
        return list(table[report.RAG])[-2]

    few, single = told([*one, *none]), told([*many_patients, *none])
    assert few.value == single.value == 0.5
    assert few.high - few.low > 1.5 * (single.high - single.low)
    charts = generate(2, 5)
    words = report.summary(charts, [*one, *none], flags, "Model")
    assert "SYNTHETIC" in words
    assert "of 28 questions" in words
    assert "about 4 patients" in words


def test_code_and_model_are_compared_by_patient():
    questions = many(["dose"] * 20, ["A", "B"] * 10)
    test = report.compare(questions, {report.CODE: [True] * 20, report.RAG: [False] * 20})
    assert test.difference == 1
    # two patients decide nothing, however often they are asked about
    assert test.p > 0.05


@pytest.mark.parametrize(("right", "verdict"), [(30, "agrees"), (15, "undecided"), (1, "differs")])
def test_seven_kinds_are_answered_refuted_or_left_open(right, verdict):
    kinds = [kind for kind in ca.KINDS for _ in range(30)]
    questions = many(kinds, [f"P{i}" for i in range(210)])
    answers = [answer(q.kind, "Not found in chart.") for q in questions]
    run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
    report.decide_claims(run, questions, answers, {report.RAG: [i % 30 < right for i in range(210)]})
    found = {c.id.rsplit(".", 1)[1]: c for c in run.claims}
    assert found["answers_seven_kinds"].verdict == verdict
    assert "50 %" in found["answers_seven_kinds"].why
    # no answer could cite anything, so nothing is refuted
    assert found["answers_backed_by_evidence"].verdict == "undecided"


def test_answers_without_citations_are_not_backed():
    questions = many(["dose"] * 30, [f"P{i}" for i in range(30)], (500.0,))
    answers = [answer("dose", "500 mg") for _ in questions]
    run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
    report.decide_claims(run, questions, answers, {report.RAG: [True] * 30})
    assert [c.verdict for c in run.claims if c.id.endswith("backed_by_evidence")] == ["differs"]


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
