"""Covers answers about charts: what is read off a model's words, citations, and the code that asks the registry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date

import pytest
from clinical_opening import is_short
from hypothesis import given, strategies as st

from evaluation import record, records, rules
from evaluation.answers import Answer, make_row, newest, read
from evaluation.outcomes import Outcomes
from helpers.completions import Reply
from papers.clinical_notes import answers as ca, chart_questions as cc, questions as cq
from papers.clinical_notes.charts import generate
from papers.clinical_notes.passages import Chunk
from papers.clinical_notes.query import Lexicon

DRUGS = {
    "levetiracetam": ["Keppra"],
    "lamotrigine": ["Lamictal"],
    "metformin": [],
    "folic acid": [],
    "midazolam": ["Versed"],
}
SYMPTOMS = ("lip smacking", "deja vu", "incontinence", "tongue biting")
LEXICON = Lexicon(DRUGS, SYMPTOMS)
SHOWN = [Chunk(f"n{i}:0", f"n{i}", "P1", date(2020, 1, i), 0, 50, f"text {i}") for i in (1, 2, 3)]
PLACES = (cq.Place("n2", 10, 20, 2),)


def question(kind: cc.Kind, truth: tuple[cc.Value, ...] | None) -> cc.ChartQuestion:
    return cc.ChartQuestion(
        kind, "asked?", "P1", "levetiracetam", None, None, truth, PLACES if truth else ()
    )


def reply(text: str) -> Reply:
    return Reply(text, "complete", 1, 1, 0.1, key="k")


def answer(kind: cc.Kind, text: str, truth: tuple[cc.Value, ...] | None = ("x",)) -> Answer:
    return ca.score_reply(question(kind, truth), reply(text), SHOWN, LEXICON)


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("dose", "He took 1,500 mg twice [1].", 1500.0),
        ("dose", "0.5 g [2]", 500.0),
        ("dose", "100 [1]", 100.0),
        ("dose", "1,500.", 1500.0),
        ("dose", "two tablets", None),
        ("dose", "100 tablets", None),
        ("frequency", "Twice a day [1].", 2.0),
        ("frequency", "500 mg BID [1]", 2.0),
        ("frequency", "3 times a day", 3.0),
        ("frequency", "every 8 hours", 3.0),
        ("frequency", "one tablet three times a day", 3.0),
        ("frequency", "two tablets daily", 1.0),
        ("frequency", "Two.", 2.0),
        ("frequency", "2", 2.0),
        ("frequency", "unclear", None),
        ("medications", "Keppra and Lamictal [1][2].", frozenset({"levetiracetam", "lamotrigine"})),
        ("medications", "aspirin", None),
        ("medications", "Keppra, metformin, folic acid, Versed", frozenset({"levetiracetam"})),
        ("medications", "metformin and folic acid", None),
        ("outcome", "not refractory", None),
        ("effectiveness", "It is no longer effective.", "ineffective"),
        ("outcome", "The regimen is refractory [3].", "refractory"),
        ("effectiveness", "It was ineffective [1].", "ineffective"),
        ("effectiveness", "partially effective", "partial"),
        ("effectiveness", "not effective", "ineffective"),
        ("effectiveness", "not tolerated, though effective", "not tolerated"),
        ("effectiveness", "effective, partial, ineffective, or not tolerated", None),
        (
            "timeline",
            "From 2019-01-02 [1] to 2020-05-06 [2].",
            (date(2019, 1, 2), date(2020, 5, 6)),
        ),
        ("timeline", "2019-02-31", None),
        ("timeline", "2019-1-2 to 2020-05-06", (date(2019, 1, 2), date(2020, 5, 6))),
        ("symptoms", "lip smacking [2]", frozenset({"lip smacking"})),
    ],
)
def test_values_are_read_off_an_answer(kind, text, value):
    assert ca.read_answer(question(kind, ("x",)), text, LEXICON)[1] == value


def value_of(kind: cc.Kind, text: str) -> cc.Value | None:
    return ca.read_answer(question(kind, ("x",)), text, LEXICON)[1]


CITED = st.sampled_from(["", " [1]", " [1].", " [1][2]", " [1, 2].", "."])
"""What may stand behind a value."""


@given(st.integers(1, 3000), st.sampled_from(["", " mg", "mg", " mgs", " milligrams"]), CITED)
def test_a_dose_is_read_with_and_without_unit_and_citation(number, unit, cited):
    assert value_of("dose", f"{number}{unit}{cited}") == float(number)


@given(st.integers(1, 4), st.sampled_from(["", " times a day", "x daily", " times"]), CITED)
def test_a_frequency_is_read_with_and_without_words_and_citation(times, words, cited):
    assert value_of("frequency", f"{times}{words}{cited}") == float(times)


@given(
    st.sampled_from(["outcome", "effectiveness"]), st.integers(0, 3), st.sampled_from("lc"), CITED
)
def test_a_bare_label_is_read_in_any_case_with_its_citation(kind, position, case, cited):
    labels = {"outcome": ca.OUTCOMES, "effectiveness": ca.EFFECTS}[kind]
    label = labels[position % len(labels)]
    assert value_of(kind, f"{label.capitalize() if case == 'c' else label}{cited}") == label


@given(st.dates(date(1990, 1, 1)), st.dates(date(1990, 1, 1)), st.booleans(), CITED)
def test_dates_are_read_with_and_without_zeros_and_citation(first, last, padded, cited):
    days = [f"{d}" if padded else f"{d.year}-{d.month}-{d.day}" for d in (first, last)]
    expected = (min(first, last), max(first, last))
    assert value_of("timeline", f"{days[0]}{cited} to {days[1]}{cited}") == expected


@given(
    st.lists(st.sampled_from(list(DRUGS)), unique=True),
    st.sampled_from([", ", " and ", " [1], ", "\n- "]),
    CITED,
)
def test_of_a_list_of_drugs_the_antiseizure_drugs_count(drugs, separator, cited):
    expected = frozenset(drugs) & {"levetiracetam", "lamotrigine"}
    assert value_of("medications", separator.join(drugs) + cited) == (expected or None)


@given(
    st.sets(st.sampled_from(SYMPTOMS), min_size=1),
    st.sets(st.sampled_from(SYMPTOMS)),
    st.sampled_from(["no {}", "without {}", "denies {}", "not {}", "{} was denied"]),
    st.sampled_from([", ", ". ", "\n", "; ", ", but "]),
    CITED,
)
def test_symptoms_that_are_denied_do_not_count(stated, denied, form, separator, cited):
    denied = sorted(denied - stated)
    parts = [*sorted(stated), *(form.format(symptom) for symptom in denied)]
    assert value_of("symptoms", separator.join(parts) + cited) == frozenset(stated)


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Deja vu, no lip smacking, no incontinence with the events.", {"deja vu"}),
        ("No tongue biting, lip smacking", {"lip smacking"}),
        ("No tongue biting, lip smacking, or incontinence", None),
        ("no tongue biting or incontinence, but deja vu", {"deja vu"}),
        ("Denies tongue biting, incontinence. Has deja vu.", {"deja vu"}),
        ("He did not report deja vu, but has lip smacking", {"lip smacking"}),
        ("Deja vu. Lip smacking is not part of the events.", {"deja vu"}),
        ("Deja vu, and no lip smacking", {"deja vu"}),
        ("Denies incontinence, tongue biting, and lip smacking", None),
        ("No incontinence, tongue biting, or lip smacking, deja vu", {"deja vu"}),
        ("No, the patient had deja vu", {"deja vu"}),
        ("lip smacking: none, deja vu", {"deja vu"}),
        ("lip smacking - none; deja vu", {"deja vu"}),
    ],
)
def test_denials_of_several_forms(text, stated):
    assert value_of("symptoms", text) == (frozenset(stated) if stated else None)


def test_citations_are_read_once_each_and_those_of_no_passage_do_not_count():
    read = answer("dose", "500 mg [2], [1, 2] and [9].", (500.0,))
    assert [(item.id, item.gold) for item in read.items if item.predicted] == [
        ("n1:0", False),
        ("n2:0", True),
    ]
    assert read.measures == {"accuracy": (1, 1), "cites": (1, 1), ca.RIGHT_CITED: (1, 2)}


@given(st.text(max_size=100), st.sampled_from(cc.KINDS))
def test_any_words_can_be_read(text, kind):
    read = answer(kind, text)
    assert {item.id for item in read.items if item.predicted} <= {c.id for c in SHOWN}


def test_a_citation_of_an_answer_that_the_chart_lacks_holds_no_right_answer_and_one_unread_has_none():
    invented = answer("dose", "2 mg [1]", None)
    assert invented.measures[ca.RIGHT_CITED] == (0, 1)
    for text in ("Not found in chart [1].", "I think so [1]."):
        assert {"cites", ca.RIGHT_CITED}.isdisjoint(answer("dose", text).measures)


def test_answers_that_cite_right_passages_and_are_wrong_are_counted():
    out = Outcomes([*rows([True, False], "500 mg [2]"), *rows([True], "500 mg [1] [2]")][:20])
    words = ca.citations_in_words(out)
    assert words.startswith(
        "20 answers from retrieved passages have a value and cite a passage. In"
    )
    assert words.endswith(" Of these 14 answers, 7 are wrong.")
    assert "No answer" in ca.citations_in_words(Outcomes(rows([True], "500 mg")))


def test_a_single_answer_that_cites_is_spoken_of_in_the_singular():
    right, wrong = rows([True, False], "500 mg [2]")[:2]
    beside = rows([True], "500 mg [1]")[0]
    assert ca.citations_in_words(Outcomes([right])).endswith("The answer itself is right.")
    assert ca.citations_in_words(Outcomes([wrong])).endswith("The answer itself is wrong.")
    words = ca.citations_in_words(Outcomes([beside]))
    assert words.startswith("One answer from retrieved passages has a value and cites a passage.")
    assert words.endswith("This answer cites a passage that lacks the right answer.")
    words = ca.citations_in_words(Outcomes([wrong, replace(beside, unit="other")]))
    assert "In one of these answers, every cited passage contains the right answer." in words
    assert words.endswith("This answer is wrong.")
    none = ca.citations_in_words(Outcomes([beside, replace(beside, unit="other")]))
    assert none.endswith("Each of these answers cites a passage that lacks the right answer.")


def test_kinds_that_no_answer_cites_are_named_and_the_others_counted_apart():
    citing = rows([True] * 30, "500 mg [2]")
    bare = rows([True] * 30, "500 mg")
    uncited_kinds = ("outcome", "timeline", "effectiveness")
    mixed = [row for row in citing if row.task not in uncited_kinds]
    mixed += [row for row in bare if row.task in uncited_kinds]
    half = [replace(row, unit=f"{row.unit} bare", cluster=f"{row.cluster} bare") for row in bare]
    mixed += [row for row in half if row.task not in uncited_kinds]
    words = ca.uncited_kinds_in_words(Outcomes(mixed, draws=200))
    assert "no such answer of the kinds outcome, timeline and effectiveness (n = 90) cites" in words
    assert "Of such answers of the other kinds (n = 240), 50.0 %" in words
    assert "This interval contains one half." in words
    assert words.endswith("these counts include questions that the chart does not answer.")
    words = ca.uncited_kinds_in_words(Outcomes(citing))
    assert words == "For every kind, some answers from retrieved passages cite a passage."
    words = ca.uncited_kinds_in_words(Outcomes(bare))
    assert words == "No answer from retrieved passages has a value and cites a passage."
    none = Outcomes(rows([True], "Not found in chart."))
    assert "No answer from retrieved passages has a value" in ca.uncited_kinds_in_words(none)


def test_kinds_on_which_the_commonest_answer_is_right_more_often_are_named():
    model = rows([True, False], "500 mg [2]")
    floor = [
        replace(row, arm="commonest", model="", measures={"accuracy": (right, 1.0)})
        for row in model
        for right in [1.0 if row.task in ("frequency", "outcome") else 0.0]
    ]
    words = ca.floor_in_words(Outcomes([*model, *floor], draws=200))
    assert words.startswith("On the kinds outcome and frequency, always giving the commonest")
    equal = [replace(row, arm="commonest", model="") for row in model]
    assert "On no kind" in ca.floor_in_words(Outcomes([*model, *equal], draws=200))
    assert ca.floor_in_words(Outcomes([])).startswith("The model was not run")


def test_a_timeline_whose_first_and_last_date_are_not_among_the_passages_is_counted():
    truth = ((date(2020, 1, 1), date(2020, 6, 1)),)
    questions = [replace(question("timeline", truth), patient=f"P{i}") for i in range(2)]
    late = replace(SHOWN[0], date=date(2020, 6, 3))
    answered = [
        make_row(answer("timeline", "2020-01-01 to 2020-06-01", truth), asked, arm=arm, model="m")
        for asked in questions
        for arm in ("rag", "right_passages")
    ]
    words = ca.timeline_in_words(questions, [SHOWN, [*SHOWN, late]], Outcomes(answered))
    assert "may each be up to 31 days off. In 1 of 2 prompts" in words
    assert "right for at most 50.0 %" in words
    assert ca.timeline_in_words([], [], Outcomes([])) == "For timelines, the model was not run."


def test_the_outcome_that_this_project_adds_is_counted_apart():
    texts = {"refractory": "refractory", "undetermined": "refractory", "successful": "refractory"}
    answered = []
    for truth, text in texts.items():
        asked = replace(question("outcome", (truth,)), text=f"{truth} or not?")
        reply = ca.score_reply(asked, Reply(text, "complete", 1, 1, 0.1, key="k"), SHOWN, LEXICON)
        answered.append(make_row(reply, asked, arm="rag", model="m"))
    words = ca.outcome_in_words(Outcomes(answered))
    assert words.startswith("For 1 of 3 questions about an outcome")
    assert "answers 0 of these questions correctly, and 1 of the other 2" in words
    assert ca.outcome_in_words(Outcomes([])) == "For outcomes, the model was not run."


def test_not_found_is_right_only_where_the_chart_does_not_tell():
    for truth, right in ((None, 1), ((500.0,), 0)):
        read = answer("dose", "Not found in chart.", truth)
        assert read.parsed
        assert (read.predicted, read.measures["accuracy"]) == (cc.NOT_FOUND, (right, 1))
        mumbled = answer("dose", "I think so.", truth)
        assert not mumbled.parsed
        assert mumbled.measures["accuracy"] == (0, 1)


def test_a_timeline_may_be_a_month_off_and_no_more():
    q = question("timeline", ((date(2020, 1, 1), date(2021, 1, 1)),))
    assert q.is_right((date(2020, 1, 20), date(2020, 12, 15)))
    assert not q.is_right((date(2020, 3, 1), date(2021, 1, 1)))


@pytest.fixture(scope="module")
def charts():
    return generate(14, 5)


def test_code_on_a_perfect_registry_answers_what_its_columns_hold(charts):
    names = cq.antiseizure_names()
    questions = cc.write_chart_questions(charts, names, 8, 8, 3)
    assert {q.kind for q in questions} == set(cc.KINDS)
    assert any(q.truth is None for q in questions)
    registry = ca.gold_registry(charts)
    rows = ca.RegistryArm(registry, names)(questions)
    wrong = {
        q.kind for q, row in zip(questions, rows, strict=True) if row.measures["accuracy"] != (1, 1)
    }
    # refractory means two drugs at full dose, which no column holds
    assert wrong <= {"outcome"}


def test_a_question_has_the_layout_of_the_notes_that_hold_its_answer():
    charts = generate(14, 5, untidy=0.5)
    untidy_notes = {note.note_id for note in charts.notes() if note.untidy}
    questions = cc.write_chart_questions(charts, cq.antiseizure_names(), 8, 0, 3)
    for question in questions:
        notes = {place.note for place in question.places}
        n_untidy = len(notes & untidy_notes)
        layout = question.strata["layout"]
        assert (layout == "plain") == (n_untidy == 0)
        assert (layout == "like real notes") == (n_untidy == len(notes))
    assert {q.strata["layout"] for q in questions} == {"plain", "like real notes", "of both kinds"}


def test_the_floor_says_to_all_of_a_kind_what_is_right_most_often(charts):
    questions = cc.write_chart_questions(charts, cq.antiseizure_names(), 8, 8, 3)
    rows = ca.commonest(questions)
    for kind in cc.KINDS:
        pairs = [(q, row) for q, row in zip(questions, rows, strict=True) if q.kind == kind]
        assert len({row.predicted for _, row in pairs}) == 1
        right = sum(row.measures["accuracy"][0] for _, row in pairs)
        values = {value for q, _ in pairs for value in q.truth or [None]}
        assert right >= max(sum(value in (q.truth or [None]) for q, _ in pairs) for value in values)


def test_the_kinds_ask_different_patients_and_each_patient_once_a_kind():
    charts, names = generate(40, 5), cq.antiseizure_names()
    questions = cc.write_chart_questions(charts, names, 4, 4, 3)
    patients_by_kind = {
        kind: [q.patient for q in questions if q.kind == kind and q.truth] for kind in cc.KINDS
    }
    assert all(len(set(patients)) == len(patients) == 4 for patients in patients_by_kind.values())
    assert len({p for patients in patients_by_kind.values() for p in patients}) > 14
    assert questions == cc.write_chart_questions(charts, names, 4, 4, 3)


def test_a_regimen_is_called_refractory_from_passages_that_say_which_drugs_failed():
    charts = generate(40, 5)
    text = {n.note_id: n.text for n in charts.notes()}
    questions = cc.write_chart_questions(charts, cq.antiseizure_names(), 40, 0, 3)
    refractory = [q for q in questions if q.kind == "outcome" and q.truth == ("refractory",)]
    assert refractory
    lexicon = cq.lexicon_of(charts)
    for q in refractory:
        # a sentence on seizures alone names no drug
        assert any(lexicon.drugs_in(text[p.note][p.start : p.end]) for p in q.places)


def test_of_more_right_passages_than_fit_the_first_and_the_last_are_shown():
    chunks = [
        Chunk(f"n{i}:0", f"n{i}", "P1", date(2020, 1, i), 0, 50, f"text {i}") for i in range(1, 8)
    ]
    symptom_question = replace(
        question("symptoms", ("x",)),
        places=tuple(cq.Place(c.note, 0, 5, 2) for c in reversed(chunks)),
    )
    right, none = ca.right_passages([symptom_question, question("dose", None)], chunks)
    assert (right, none) == (chunks, [])
    assert [c.note for c in ca.first_and_last(right, 3)] == ["n1", "n6", "n7"]
    assert ca.first_and_last(right, 7) == tuple(chunks)


def rows(
    flags: Sequence[bool], text: str, truth: tuple[cc.Value, ...] | None = (500.0,)
) -> list[Answer]:
    """Answers of all kinds by patients of their own, so many of them right."""
    reply = answer("dose", text, truth)
    return [
        make_row(
            replace(reply, task=kind, measures={**reply.measures, "accuracy": (float(right), 1.0)}),
            replace(question(kind, truth), patient=f"{kind}{i}", text=f"{kind}{i}"),
            arm="rag",
            model="m",
        )
        for kind in cc.KINDS
        for i, right in enumerate(flags)
    ]


def answers_here(answers: list[Answer]) -> dict[str, records.HereFinding]:
    """The answers to the second question; none is about the paper's system."""
    run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
    served = ["emilyalsentzer/Bio_ClinicalBERT", "michiyasunaga/BioLinkBERT-base"]
    rules.decide(
        run,
        Outcomes(answers, draws=200),
        "answers_seven_kinds",
        "answers_backed_by_evidence",
        served=served,
    )
    assert [(claim.verdict, claim.reason) for claim in run.claims] == [
        ("cannot be tested", "not public")
    ] * 2
    return {finding.id.rsplit(".", 1)[1]: finding for finding in run.here_findings}


@pytest.mark.parametrize(
    ("n_right", "n", "answer"),
    [
        (30, 30, "with the claim"),
        (15, 30, "inconclusive"),
        (1, 30, "against it"),
        (0, 6, "inconclusive"),
    ],
)
def test_seven_kinds_are_answered_refuted_or_left_open(n_right, n, answer):
    by_claim = answers_here(rows([i < n_right for i in range(n)], "Not found in chart."))
    assert by_claim["answers_seven_kinds"].answer == answer
    # no answer could cite anything, so nothing is tested
    backed = by_claim["answers_backed_by_evidence"]
    assert (backed.answer, backed.reason) == ("not run", "no answers")


@pytest.mark.parametrize(
    ("text", "answer"),
    [("500 mg", "against it"), ("500 mg [2]", "with the claim"), ("500 mg [1]", "against it")],
)
def test_answers_are_backed_by_citations_of_what_holds_the_answer(text, answer):
    answers = rows([True] * 30, text)
    if "[" not in text:  # another answer cites, so that there is a precision at all
        answers += [replace(row, unit=f"{row.unit} again") for row in rows([True], "500 mg [2]")]
    assert answers_here(answers)["answers_backed_by_evidence"].answer == answer


def test_the_answer_of_the_page_counts_only_what_the_chart_tells():
    answerable, absent = (
        rows([True, False], "500 mg [2]"),
        rows([True], "Not found in chart.", None),
    )
    out = Outcomes(
        [replace(row, arm=arm) for arm in ca.ARMS for row in [*answerable, *absent]], draws=200
    )
    answer, details = ca.summary(out, "Model").split("\n\n")
    assert answer.startswith("**On 14 questions about synthetic charts, ")
    assert "is not significantly more often right than Model" in answer
    assert "cites a passage in 100.0 %" in answer
    assert "most cited passages contain the right answer" in answer
    assert (answer + details).count("50.0 %") == 5
    assert is_short(answer)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("500 mg", "The model cites a passage in 0.0 % ["),
        ("500 mg [1]", "fewer than half of the cited passages contain the right answer"),
        ("Not found in chart.", "No answer of the model has a value."),
        ("I cannot say.", "could not be parsed and count as wrong"),
    ],
)
def test_the_answer_of_the_page_says_what_the_model_cites(text, words):
    answers = rows([True, False] * 3, text)
    out = Outcomes([replace(row, arm=arm) for arm in ca.ARMS for row in answers], draws=200)
    assert words in ca.summary(out, "Model")


def test_the_answer_of_the_page_is_short_on_the_stored_answers():
    out = Outcomes(read(newest("14_notes_answers", "laptop")), labels=ca.ARMS, draws=200)
    answer, details = ca.summary(out, "Model", "encoder").split("\n\n")
    assert is_short(answer)
    assert details.startswith("The search with encoder and BM25 found the passages.")


def test_a_question_that_the_chart_does_not_answer_names_a_drug_that_it_does_not_name(charts):
    names = cq.antiseizure_names()
    text = {c.patient_id: " ".join(n.text for n in c.notes) for c in charts}
    lexicon = cq.lexicon_of(charts)
    absent = [q for q in cc.write_chart_questions(charts, names, 1, 14, 3) if q.truth is None]
    assert absent
    for q in absent:
        assert q.drug not in lexicon.drugs_in(text[q.patient])


def test_no_answer_of_another_patients_rows(charts):
    names = cq.antiseizure_names()
    registry = ca.gold_registry(charts)
    for q in cc.write_chart_questions(charts, names, 4, 4, 3):
        assert (
            ca.answer_by_registry(registry[registry.patient_id != q.patient], q, frozenset(names))
            is None
        )


def test_the_prompt_numbers_its_passages_and_says_what_to_write_if_they_do_not_tell():
    content = " ".join(m["content"] for m in ca.answer_prompt(question("dose", (1.0,)), SHOWN))
    assert cc.NOT_FOUND in content
    assert all(f"[{i}] (2020-01-0{i})\ntext {i}" in content for i in (1, 2, 3))
