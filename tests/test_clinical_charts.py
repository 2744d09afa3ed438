"""The synthetic charts: the gold points at what it says, the same seed gives the same charts, patients stay apart."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise

import pytest
from conftest import python_says
from hypothesis import given, settings, strategies as st

from papers.clinical_notes.charts import generate
from papers.clinical_notes.cleaning import milligrams, normal
from papers.clinical_notes.gold import LABELS, Chart, Charts, MedicationEvent
from papers.clinical_notes.wording import DRUGS, PARAPHRASES, WORDING, words

SEED, PARAPHRASED = 7, 0.5


@pytest.fixture(scope="module")
def charts() -> Charts:
    return generate(60, SEED, PARAPHRASED)


def texts(chart: Chart) -> dict[str, str]:
    return {note.note_id: note.text for note in chart.notes}


def test_there_are_years_of_notes_of_every_kind(charts):
    kinds = Counter(note.kind for note in charts.notes())
    assert set(kinds) == {
        "clinic visit",
        "phone call",
        "admission",
        "discharge summary",
        "EEG report",
    }
    years = [(c.notes[-1].date - c.notes[0].date).days / 365 for c in charts]
    assert sorted(years)[len(years) // 2] > 2
    for chart in charts:
        assert all(a.date <= b.date for a, b in pairwise(chart.notes)), chart.patient_id


def test_every_fact_lies_in_a_note_of_its_own_patient(charts):
    for chart in charts:
        text = texts(chart)
        for fact in chart.facts:
            assert 0 <= fact.start < fact.end <= len(text[fact.note_id])
            passage = text[fact.note_id][fact.start : fact.end]
            assert passage == passage.strip()
            assert "\n" not in passage
            assert fact.copied_from is None or fact.copied_from in text


def test_every_gold_dose_stands_in_its_passage(charts):
    doses = 0
    for chart in charts:
        text = texts(chart)
        for event in chart.facts_of(MedicationEvent):
            if event.dose_mg is not None:
                doses += 1
                passage = text[event.note_id][event.start : event.end].replace(
                    "\N{NO-BREAK SPACE}", " "
                )
                stated = {
                    milligrams(m[0]) for m in re.finditer(r"\d[\d,.]* ?(?:mgs?|g)\b", passage)
                }
                assert event.dose_mg / event.units in stated, (event, passage)
    assert doses > 1000


def test_every_drug_of_an_event_has_a_span_in_its_passage(charts):
    for chart in charts:
        spans = {(m.note_id, m.start): m for m in chart.mentions if m.label == "DRUG"}
        for event in chart.facts_of(MedicationEvent):
            inside = [
                m.drug
                for (note, start), m in spans.items()
                if note == event.note_id and event.start <= start < event.end
            ]
            assert event.drug in inside


def test_spans_say_what_they_stand_for(charts):
    names = words(DRUGS)
    for chart in charts:
        text = texts(chart)
        for mention in chart.mentions:
            words_of_span = text[mention.note_id][mention.start : mention.end]
            assert words_of_span == words_of_span.strip() != ""
            if mention.label == "STRENGTH":
                assert f"{milligrams(words_of_span):g} mg" == mention.value
            entry = names["antiseizure"].get(mention.drug, {})
            if mention.label == "DRUG" and words_of_span in entry.get("brands", []):
                assert mention.value == mention.drug


def test_spans_of_med7_do_not_overlap(charts):
    for chart in charts:
        spans = sorted((m.note_id, m.start, m.end) for m in chart.mentions)
        assert all(a[0] != b[0] or a[2] <= b[1] for a, b in pairwise(spans))


def test_all_labels_and_actions_occur_often(charts):
    labels = Counter(m.label for c in charts for m in c.mentions)
    actions = Counter(m.action for c in charts for m in c.facts_of(MedicationEvent))
    assert set(labels) == set(LABELS)
    assert min(labels.values()) > 50
    assert {"start", "increase", "decrease", "stop", "continue", "switch", "single dose"} == set(
        actions
    )
    assert {c.outcome for c in charts} == {"successful", "refractory", "undetermined"}


def test_the_split_is_by_patient_and_held_out_wording_is_in_the_test_only(charts):
    patients = {
        split: {c.patient_id for c in charts.split(split)} for split in ("train", "dev", "test")
    }
    assert sum(map(len, patients.values())) == len(charts) == len(set().union(*patients.values()))
    for chart in charts:
        wordings = {m.wording for m in chart.mentions}
        assert wordings == (
            {"shared", "held out", "paraphrased"} if chart.split == "test" else {"shared"}
        )


def test_a_held_out_sentence_stands_in_no_training_note(charts):
    trained = " ".join(note.text for split in ("train", "dev") for note in charts.notes(split))
    for name, bank in words(WORDING).items():
        if isinstance(bank, dict) and "held_out" in bank:
            for template in bank["held_out"]:
                longest = max(re.split(r"\{[^}]*\}", template), key=len).strip()
                shared = " ".join(bank["shared"])
                if len(longest) > 12 and longest not in shared:
                    assert longest not in trained, (name, template)


def test_a_paraphrase_stands_in_test_notes_and_in_no_other(charts):
    training_text = " ".join(
        note.text for split in ("train", "dev") for note in charts.notes(split)
    )
    test_text = " ".join(note.text for note in charts.notes("test"))
    shared_text = " ".join(
        t
        for bank in words(WORDING).values()
        if isinstance(bank, dict)
        for t in bank.get("shared", [])
    )
    n_present = 0
    for paraphrase in (
        p for options in words(PARAPHRASES)["paraphrases"].values() for p in options
    ):
        longest = max(re.split(r"\{[^}]*\}", paraphrase), key=len).strip()
        if len(longest) > 12 and longest not in shared_text:
            assert longest not in training_text, paraphrase
            n_present += longest in test_text
    assert n_present > 5


def test_a_paraphrase_has_the_names_in_braces_of_its_sentence_and_the_counts_add_up():
    file = words(PARAPHRASES)
    names = re.compile(r"\{\w+\}")
    pairs = [(source, p) for source, options in file["paraphrases"].items() for p in options]
    wrong = [
        pair for pair in pairs if Counter(names.findall(pair[0])) != Counter(names.findall(pair[1]))
    ]
    assert not wrong
    shared = {
        sentence
        for bank in words(WORDING).values()
        if isinstance(bank, dict)
        for sentence in bank.get("shared", [])
    }
    assert {source for source, _ in pairs} <= shared
    removed = {entry["paraphrase"] for entry in file["removed"] if entry["reason"]}
    assert not removed & {paraphrase for _, paraphrase in pairs}
    assert file["asked"] == len(pairs) + sum(file["refused"].values()) + len(file["removed"])


def test_without_paraphrases_no_wording_is_a_models(charts):
    plain = generate(5, SEED)
    assert "paraphrased" not in {m.wording for c in plain for m in c.mentions}
    # what the training and development patients' charts say does not depend on the share
    assert [c for c in plain if c.split != "test"] == [
        c for c in charts.charts[:5] if c.split != "test"
    ]


def test_a_patient_is_the_same_whatever_the_number_of_patients(charts):
    assert generate(4, SEED, PARAPHRASED).charts == charts.charts[:4]
    assert generate(4, SEED + 1, PARAPHRASED).charts != charts.charts[:4]


def test_charts_do_not_depend_on_the_hash_seed():
    code = (
        f"from papers.clinical_notes.charts import generate; print(generate(3, {SEED}, 0.5).sha256)"
    )
    digests = {python_says(code, PYTHONHASHSEED=seed).strip() for seed in ("1", "2")}
    assert digests == {generate(3, SEED, 0.5).sha256}


def test_doses_follow_from_one_visit_to_the_next(charts):
    """An increase is above, a decrease below the dose that was stated last."""
    for chart in charts:
        last: dict[str, float] = {}
        for event in chart.facts_of(MedicationEvent):
            if (
                event.copied_from
                or event.past
                or event.action == "single dose"
                or event.dose_mg is None
            ):
                continue
            if event.action == "increase":
                assert event.dose_mg > last.get(event.drug, 0)
            if event.action == "decrease" and event.drug in last:
                assert event.dose_mg < last[event.drug]
            last[event.drug] = event.dose_mg


def test_a_stop_or_switch_says_why(charts):
    stops = [
        m
        for c in charts
        for m in c.facts_of(MedicationEvent)
        if m.action in ("stop", "switch") and not m.past
    ]
    assert stops
    assert all(m.reason for m in stops)


def test_identifiers_are_those_that_the_notes_give_away(charts):
    given_away = [(c, i) for c in charts for i in c.identifiers]
    assert given_away
    for chart, identifier in given_away:
        assert any(identifier in note.text for note in chart.notes)


@settings(max_examples=8)
@given(seed=st.integers(0, 2**31 - 1), paraphrased=st.sampled_from([0.0, 0.5, 1.0]))
def test_any_seed_gives_valid_charts(seed, paraphrased):
    for chart in generate(2, seed, paraphrased):
        text = texts(chart)
        assert len(text) == len(chart.notes)
        places = [(s.note_id, s.start, s.end) for s in chart.mentions]
        places += [(s.note_id, s.start, s.end) for s in chart.facts]
        assert all(text[note][start:end].strip() for note, start, end in places)


def test_no_patients_is_an_error():
    with pytest.raises(ValueError, match="patients"):
        generate(0, SEED)


def test_a_share_above_one_is_an_error():
    with pytest.raises(ValueError, match="share"):
        generate(1, SEED, 30)


# ------------------------------------------------------------------------------------------------------ untidy notes


@pytest.fixture(scope="module")
def untidy() -> Charts:
    return generate(20, SEED, PARAPHRASED, 0.5)


def test_a_share_of_the_notes_has_the_forms_of_real_ones(untidy):
    notes = [note for note in untidy.notes() if note.untidy]
    assert 0.4 < len(notes) / len(untidy.notes()) < 0.6
    text = "\n\n".join(note.text for note in notes)
    assert re.search(r"\b(?:HPI|Interval history): \w", text)
    assert re.search(r"\d,\d (?:mg|g)\b", text) or re.search(r"\d,\d ?g", text)
    assert re.search(r"\d (?:mcg|micrograms|\N{MICRO SIGN}g)", text)
    assert re.search(r"[A-Z ]{40}", text)
    assert re.search(r": (?:denied|none)", text)
    assert re.search(r"[a-z]\n[a-z]", text)
    prose = [line for line in text.split("\n") if " " in line]
    assert max(map(len, prose)) <= 90
    plain = [note for note in untidy.notes() if not note.untidy]
    assert max(len(line) for note in plain for line in note.text.split("\n")) > 300


def test_the_gold_of_an_untidy_note_stands_where_it_says(untidy):
    n_spans = 0
    for chart in untidy:
        text = texts(chart)
        for mention in chart.mentions:
            span = text[mention.note_id][mention.start : mention.end]
            joined = " ".join(span.split())
            if mention.label in ("STRENGTH", "ROUTE", "FORM", "DRUG"):
                n_spans += 1
                assert normal(mention.label, joined) == mention.value or mention.label != "STRENGTH"
            assert span == span.strip()
        for fact in chart.facts:
            passage = text[fact.note_id][fact.start : fact.end]
            assert passage == passage.strip() != ""
    assert n_spans > 1000


def test_no_share_of_untidy_notes_leaves_the_charts_as_they_were():
    assert generate(3, SEED, PARAPHRASED, 0.0).charts == generate(3, SEED, PARAPHRASED).charts
    with pytest.raises(ValueError, match="untidy notes goes from 0 to 1"):
        generate(1, SEED, untidy=2)
