"""The registry's nineteen columns, what counts as right, and that no identifier leaves the charts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pandas as pd
import pytest
import yaml
from clinical_opening import is_short
from hypothesis import given, strategies as st

from evaluation import record, rules
from evaluation.answers import Answer, make_row, newest, read
from evaluation.measures import set_measures
from evaluation.outcomes import Outcomes
from evaluation.published import published
from helpers.completions import Choice
from papers.clinical_notes import (
    extraction as ex,
    extraction_scores as scores,
    real_notes,
    registry as reg,
)
from papers.clinical_notes.charts import generate
from papers.clinical_notes.gold import Charts, Mention, Note, SeizureStatus
from publish.board_cells import claim_row
from resources.datasets import locate
from resources.settings import DATA

DRAWS = 100


@pytest.fixture(scope="module")
def charts() -> Charts:
    return generate(8, 5, 0.5)


@pytest.fixture(scope="module")
def readings(charts) -> list[ex.Reading]:
    return ex.Reader(ex.RuleNamer())(charts.notes())


@pytest.fixture(scope="module")
def units(charts) -> list[scores.NoteUnit]:
    return scores.note_units(charts.charts)


def note(text: str) -> Note:
    return Note(
        note_id="P0001-N001",
        patient_id="P0001",
        date=date(2020, 1, 2),
        kind="clinic visit",
        text=text,
    )


def built(text: str) -> pd.DataFrame:
    notes = [note(text)]
    return reg.build(notes, ex.Reader(ex.RuleNamer())(notes))


# ------------------------------------------------------------------------------------------------------- registry


def test_a_row_has_the_papers_nineteen_columns():
    text = "Denies seizures. Reports lip smacking.\nContinue Keppra 500 mg tablet PO BID, working well.\nKeppra again."
    (row,) = built(text).to_dict("records")
    assert list(row) == reg.SCHEMA.names
    assert len(row) == 19
    assert (row["medication"], row["medication_dosage"], row["intake_times_per_day"]) == (
        "levetiracetam",
        "500 mg",
        2,
    )
    assert (row["route"], row["form"], row["drug_mention_count"]) == ("oral", "tablet", 2)
    assert (row["seizure_status"], list(row["seizure_symptoms"])) == ("negative", ["lip smacking"])
    assert (row["medication_effectiveness"], row["note_date"]) == ("effective", "2020-01-02")
    assert "Keppra 500 mg" in row["extraction_context"]


def test_each_drug_that_a_note_names_has_a_row_and_those_taken_can_be_chosen():
    notes = [
        note(
            "Mother takes phenytoin for epilepsy. Could consider lacosamide. Allergies: carbamazepine "
            "(rash).\nLacosamide and Keppra were discussed."
        )
    ]
    readings = ex.Reader(ex.RuleNamer())(notes)
    rows = reg.build(notes, readings).set_index("medication")
    assert dict(rows.drug_mention_count) == {
        "phenytoin": 1,
        "lacosamide": 2,
        "carbamazepine": 1,
        "levetiracetam": 1,
    }
    taken_registry = reg.build(notes, readings, reg.TAKEN)
    assert set(taken_registry.medication) == {"lacosamide", "levetiracetam"}


def test_an_effect_of_a_drug_is_no_symptom_of_a_seizure():
    (row,) = built(
        "Events begin with lip smacking. No incontinence. Reports dizziness since starting Keppra."
    ).to_dict("records")
    assert list(row["seizure_symptoms"]) == ["lip smacking"]


def test_the_columns_of_symptoms_and_effectiveness_are_scored():
    text = "Events begin with lip smacking. Keppra is working well. Vimpat is not helping."
    unit = scores.NoteUnit(
        "n",
        "p",
        "",
        gold="unknown",
        note=note(text),
        mentions=(),
        symptoms=frozenset({"lip smacking", "deja vu"}),
        effectiveness=frozenset({("levetiracetam", "effective"), ("lacosamide", "partial")}),
    )
    [row] = scores.ExtractorArm(ex.Reader(ex.RuleNamer()))([unit])
    assert row.measures["symptoms_recall"] == (1, 2)
    assert row.measures["symptoms_precision"] == (1, 1)
    assert row.measures["effectiveness_precision"] == (1, 2)
    assert row.measures["effectiveness_recall"] == (1, 2)


def test_the_status_is_counted_by_truth_and_reading():
    texts = ["Denies seizures.", "Had two seizures.", "Slept well.", "Seizures have not recurred."]
    truth = ["negative", "positive", "unknown", "negative"]
    units = []
    for i, (text, status) in enumerate(zip(texts, truth, strict=True)):
        gold: Any = status
        units.append(
            scores.NoteUnit(
                f"n{i}", "p", "", gold=gold, note=note(text), mentions=(), strata={"status": status}
            )
        )
    rows = scores.ExtractorArm(ex.Reader(ex.RuleNamer()))(units)
    out = Outcomes(
        [make_row(row, u, arm="rules") for row, u in zip(rows, units, strict=True)], draws=DRAWS
    )
    table = scores.confusion(out, "rules").set_index("true status")
    assert list(table.loc["negative"]) == [1, 1, 0, "50.0 %"]
    assert list(table.loc["unknown"]) == [0, 0, 1, "100.0 %"]


def test_the_registry_comes_back_as_it_was_written(tmp_path, charts, readings):
    rows = reg.build(charts.notes(), readings)
    path = reg.write(rows, tmp_path / "registry.parquet")
    back = pd.read_parquet(path)
    assert len(back) == len(rows)
    assert list(back) == reg.SCHEMA.names
    assert back.row_id.is_unique
    assert set(back.note_id) == {n.note_id for n in charts.notes()}
    assert (back.note_id.str.split("-").str[0] == back.patient_id).all()
    assert 0 < (back.seizure_symptoms.str.len() > 0).mean() < 1


def test_readings_of_other_notes_are_refused(charts, readings):
    with pytest.raises(ValueError, match="same order"):
        reg.build(charts.notes()[1:], readings)


# -------------------------------------------------------------------------------------------------------- scoring


def values(mention: Mention) -> dict[str, Any]:
    """A mention's value as the attribute that it is."""
    return {} if mention.label == "DRUG" else {mention.label.lower(): mention.value.lower()}


def perfect(unit: scores.NoteUnit) -> ex.Reading:
    """The gold as an extractor would give it."""
    spans = tuple((m.label, m.start, m.end) for m in unit.mentions)
    medications = tuple(ex.Medication(m.drug, m.role, **values(m)) for m in unit.mentions)
    findings = tuple(ex.Finding("symptom", name, "affirmed") for name in unit.symptoms)
    return ex.Reading(unit.unit, medications, unit.gold, spans, findings)


def outcomes(units: list[scores.NoteUnit], readings: list[ex.Reading]) -> Outcomes:
    rows = scores.ExtractorArm(lambda notes: readings)(units)
    return Outcomes(
        [make_row(row, u, arm="rules") for row, u in zip(rows, units, strict=True)], draws=DRAWS
    )


def test_the_gold_scores_one_and_nothing_scores_nought(units):
    best = outcomes(units, [perfect(unit) for unit in units])
    # how well a drug works is read off the text, whatever the extractor; and this gold has a
    # medication for each span, not for each mention of a drug
    all_measures = {name for row in best.frame.measures for name in row}
    others = ("effectiveness", "mention_count")
    measures = {name for name in all_measures if not name.startswith(others)}
    assert {
        "f1",
        "overlap_f1",
        "route_overlap_f1",
        "taken_drug_f1",
        "recall_held_out",
        "recall_paraphrased",
        "accuracy",
    } <= measures
    assert {best.score(name).value for name in measures} == {1.0}
    nothing = outcomes(units, [ex.Reading(unit.unit) for unit in units])
    assert {nothing.score(name).value for name in ("recall", "f1", "taken_drug_f1")} == {0.0}


def test_scores_by_hand():
    assert set_measures({"a", "b", "c"}, {"a", "d"}) == {
        "precision": (1, 2),
        "recall": (1, 3),
        "f1": (2, 5),
    }
    assert set_measures(set(), set()) == {}


SPANS = st.lists(
    st.tuples(st.integers(0, 30), st.integers(1, 6)).map(lambda span: (span[0], sum(span))),
    max_size=6,
)


@given(SPANS, SPANS)
def test_overlaps_never_count_one_gold_span_twice(gold_spans, found_spans):
    gold, predicted = set(gold_spans), set(found_spans)
    matched = scores.match_overlaps(gold, predicted)
    assert len(matched) <= len(predicted)
    # what is the same counts as found in any case, unless another found span took its place first
    assert len(matched & gold) >= min(1, len(gold & predicted))


def test_an_overlap_counts_where_it_is_asked_for():
    assert scores.match_overlaps({(0, 6)}, {(3, 9)}) == {(0, 6)}
    assert scores.match_overlaps({(0, 6)}, {(0, 3), (4, 6)}) == {(0, 6), (4, 6)}


def test_each_label_is_scored_and_the_mentions_of_a_drug_are_counted(units):
    [unit, *_] = (unit for unit in units if sum(m.label == "ROUTE" for m in unit.mentions) > 1)
    reading = perfect(unit)
    without_routes = [span for span in reading.spans if span[0] != "ROUTE"]
    mentions = [ex.Medication(m.drug, m.role) for m in unit.mentions if m.label == "DRUG"]
    right = outcomes([unit], [replace(reading, medications=tuple(mentions))])
    assert right.score("mention_count_f1").value == 1
    once_more = (*mentions, mentions[0])
    faulty = replace(reading, spans=tuple(without_routes), medications=once_more)
    wrong = outcomes([unit], [faulty])
    assert wrong.score("route_overlap_f1").value == 0
    assert wrong.score("drug_overlap_f1").value == 1
    assert wrong.score("drug_f1").value == 1
    assert wrong.score("mention_count_f1").value < 1


def test_every_symptom_of_the_charts_is_a_term_of_the_rules():
    """What the claim on symptoms says of the recall that shows no sign that it could fail."""
    wording = yaml.safe_load((DATA / "clinical_wording.yml").read_text("utf-8"))
    terms = yaml.safe_load((DATA / "clinical_terms.yml").read_text("utf-8"))
    named = {name for names in wording["ictal_symptoms"].values() for name in names}
    assert named
    assert named <= set(terms["symptoms"]["ictal"])


def test_the_rules_do_well_on_shared_wording(units, readings):
    out = outcomes(units, readings)
    assert out.score("taken_drug_f1").value > 0.8
    assert out.score("recall_shared").value > out.score("recall_held_out").value


def test_a_status_is_not_that_of_a_copied_passage(charts, units):
    own = {
        f.note_id
        for chart in charts
        for f in chart.facts_of(SeizureStatus)
        if f.copied_from is None
    }
    assert all((unit.gold == "unknown") == (unit.unit not in own) for unit in units)


def test_a_class_counts_whether_rules_or_a_model_gave_it():
    units = real_notes.read_sentences(locate("clinical_notes/negex.txt", "sample").path, 2, 1)[0][
        :4
    ]
    classes = [unit.gold for unit in units]
    by_rules = real_notes.ClassifierArm(lambda texts, spans: classes)(units)
    choices = [Choice("family", {}, 1, 1, 0.1, key=f"k{i}") for i in range(4)]
    by_llm = real_notes.ClassifierArm(lambda texts, spans: choices)(units)
    assert [row.measures["accuracy"] for row in by_rules] == [(1, 1)] * 4
    assert [row.measures["accuracy"][0] for row in by_llm] == [
        float(c == "family") for c in classes
    ]
    assert [row.requests for row in by_llm] == [[f"k{i}"] for i in range(4)]


# --------------------------------------------------------------------------------------------- notes from elsewhere


def test_annotated_sentences_get_one_class_each_and_context_finds_it():
    units, left_out = real_notes.read_sentences(
        locate("clinical_notes/negex.txt", "sample").path, 2, 1
    )
    assert left_out == 1
    assert [unit.gold for unit in units] == [
        "affirmed",
        "negated",
        "historical",
        "family",
        "hypothetical",
    ]
    assert [unit.strata["asked"] for unit in units].count("yes") == 2
    clusters = {unit.text: {u.cluster for u in units if u.text == unit.text} for unit in units}
    assert {len(of_text) for of_text in clusters.values()} == {1}, "one sentence, one cluster"
    assert len({unit.cluster for unit in units}) == len(clusters)
    rows = real_notes.ClassifierArm(ex.classify_spans)(units)
    assert [row.predicted for row in rows][1] == "negated"
    assert sum(row.measures["accuracy"][0] for row in rows) >= 3


# --------------------------------------------------------------------------------------------------------- the page


def test_no_planted_identifier_reaches_a_row_or_the_record(tmp_path):
    charts = generate(30, 5, 0.5)
    identifiers = [i for c in charts.split("test") for i in c.identifiers]
    assert identifiers
    run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
    test = charts.split("test")
    rows = run.answer(
        {"rules": scores.ExtractorArm(ex.Reader(ex.RuleNamer()))}, scores.note_units(test)
    )
    out = Outcomes(rows, labels=scores.ARMS, draws=DRAWS)
    words = scores.summary(out)
    assert "The language model was not run." in words
    output = (
        words
        + repr(out.frame.to_dict("records"))
        + json.dumps(json.loads(run.save(tmp_path / "r.json").read_text()))
    )
    assert not [i for i in identifiers if i in output]


COLUMN_MEASURES = [
    f"{column}_{measure}"
    for column in ("symptoms", "effectiveness")
    for measure in ("precision", "recall")
]


LABELS_OF_THE_PAPER = ("drug", "strength", "frequency", "route", "form")
MED7_MEASURES = [
    "drug_f1",
    *(f"{label}_overlap_f1" for label in LABELS_OF_THE_PAPER),
    "taken_strength_f1",
    "taken_frequency_f1",
    "mention_count_f1",
]


def test_the_answer_of_the_page_has_contexts_negations_of_notes_and_of_negex(units):
    right, wrong = ({"accuracy": (share, 1.0)} for share in (1.0, 0.0))
    note = replace(units[0], strata={"status": "negative"})
    sentence = replace(units[0], strata={"class": "negated"})
    drugs = Answer(task="notes", measures={"drug_f1": (1.0, 1.0)})
    answered = [
        make_row(drugs, note, arm="rules"),
        make_row(Answer(task="notes", measures=wrong), note, arm="rules_default"),
        make_row(Answer(task="sentences", measures=right), sentence, arm="context_default"),
    ]
    out = Outcomes(answered, draws=DRAWS)
    answer, details = scores.summary(out, {"negative": 0.9}).split("\n\n")
    assert "ConText recognises 0.0 %" in answer
    assert is_short(answer)
    assert "would recognise 90.0 % of the notes that deny seizures" in details
    assert (
        "in NegEx's sentences from clinical reports, ConText with medspaCy's own rules" in details
    )
    assert "recognises 100.0 %" in details
    assert "ConText's own authors annotated these sentences" in details
    assert "ConText" not in scores.summary(Outcomes(answered[:1], draws=DRAWS))


@pytest.mark.parametrize(
    ("f1", "verdict"),
    [
        (0.5, "significantly higher than that of Model"),
        (0.8, "not significantly different from that of Model"),
        (1.0, "significantly lower than that of Model"),
    ],
)
def test_the_answer_of_the_page_compares_the_rules_with_the_model_on_the_same_notes(
    units, f1, verdict
):
    rows = []
    for i in range(20):
        note = replace(units[0], unit=f"n{i}", cluster=f"P{i}", strata={"status": "negative"})
        by_rules = Answer(task="notes", measures={"drug_f1": (0.8, 1.0)})
        rows.append(make_row(by_rules, note, arm="rules"))
        of_status = Answer(task="notes", measures={"accuracy": (0.0, 1.0)})
        rows.append(make_row(of_status, note, arm="rules_default"))
        if i < 12:
            by_model = Answer(task="notes", measures={"drug_f1": (f1, 1.0)})
            rows.append(make_row(by_model, note, arm="llm", model="Model"))
    answer, details = scores.summary(Outcomes(rows, draws=DRAWS)).split("\n\n")
    assert answer.startswith("**On 20 synthetic notes")
    assert f"Compared on 12 of these notes, the rules' F1 is {verdict}" in answer
    assert is_short(answer)
    assert "that of the language model is" in details


def test_the_answer_of_the_page_is_short_on_the_stored_answers():
    stored = read(newest("12_notes_registry", "laptop"))
    out = Outcomes(stored, labels=scores.ARMS, draws=DRAWS)
    answer, details = scores.summary(out).split("\n\n")
    assert is_short(answer)
    assert "NegEx" in details


def test_answers_follow_their_rules_and_none_is_about_the_papers_private_notes(units):
    def answer_here(
        model: str,
        n_right: int,
        shares: dict[ex.Status, float],
        columns: float = 0,
        **faulty: tuple[float, float],
    ) -> dict[str, tuple[str, str | None]]:
        """The answers here and their reasons, by these scores.

        Args:
            model: The Med7 that answered; empty for none.
            n_right: Percent of the spans and drugs that it reads right.
            shares: Share of the notes of each status that ConText reads right.
            columns: Precision and recall of symptoms and effectiveness; 0 for none.
            **faulty: Measures of Med7 with another share.
        """
        rows: list[Answer] = []
        for i in range(120):
            status = ex.STATUSES[i % 3]
            alone = replace(units[0], unit=f"n{i}", cluster=f"P{i}", strata={"status": status})
            is_right = i / 120 < shares[status]
            context = Answer(task="notes", measures={"accuracy": (float(is_right), 1.0)})
            rows.append(make_row(context, alone, arm="rules_default"))
            if model:
                share = (float(n_right), 100.0)
                measures = dict.fromkeys(MED7_MEASURES, share) | faulty
                med7 = Answer(task="notes", model=model, measures=measures)
                rows.append(make_row(med7, alone, arm="med7"))
            if columns:
                measures = dict.fromkeys(COLUMN_MEASURES, (columns, 1.0))
                own = Answer(task="notes", measures=measures)
                rows.append(make_row(own, alone, arm="rules"))
        run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
        rules.decide(
            run,
            Outcomes(rows, draws=DRAWS),
            "registry_from_notes",
            "med7_extracts",
            "registry_values",
            "context_gives_status",
            "symptoms_and_effectiveness",
        )
        assert len(run.claims) == 5
        for claim in run.claims:
            assert (claim.verdict, claim.reason) == ("cannot be tested", "not public")
        return {
            finding.id.rsplit(".", 1)[1]: (finding.answer, finding.reason)
            for finding in run.here_findings
        }

    good = dict.fromkeys(ex.STATUSES, 0.9)
    assert answer_here("", 0, good) == {
        "registry_from_notes": ("not run", "no answers"),
        "med7_extracts": ("not run", "no answers"),
        "registry_values": ("not run", "no answers"),
        "context_gives_status": ("with the claim", None),
        "symptoms_and_effectiveness": ("not run", "no answers"),
    }
    by_claim = answer_here("en_core_med7_lg", 99, good | {"negative": 0.5}, 0.9)
    assert [answer for answer, _ in by_claim.values()] == [
        "with the claim",
        "with the claim",
        "with the claim",
        "inconclusive",
        "with the claim",
    ]
    # a label that fails is not hidden by the others
    by_claim = answer_here("en_core_med7_lg", 99, good, form_overlap_f1=(1, 100))
    assert by_claim["med7_extracts"] == ("against it", None)
    assert by_claim["registry_values"] == ("with the claim", None)
    by_claim = answer_here("en_core_med7_trf", 40, good | {"negative": 0.1}, 0.2)
    assert {answer for answer, _ in by_claim.values()} == {"against it"}


def test_with_every_mention_read_right_the_rule_gives_most_notes_of_each_status_right():
    """What the claim on ConText says of the rule from mentions to a status."""
    recall = scores.recall_by_mentions(generate(60, 5, 0.5, 0.5))
    assert set(recall) == set(ex.STATUSES)
    assert all(0.6 < share <= 1 for share in recall.values()), recall
    assert recall["negative"] > 0.8


def test_a_claim_on_a_private_system_cannot_be_tested_even_before_a_run():
    claim = published("clinical_notes").claim("clinical_notes.claim.med7_extracts")
    row = claim_row(claim, (), (), {})
    assert (row["verdict"], row["reason"]) == ("cannot be tested", "not public")
    assert row["here"]["answer"] == "not run"
    with pytest.raises(ValueError, match="goes with a rule"):
        claim.model_validate(claim.model_dump() | {"rule": None, "why_not": "."})
