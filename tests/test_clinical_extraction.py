"""Cleaning, names and doses in one spelling, and the extractors on sentences written by hand."""

from __future__ import annotations

import json
import logging
from datetime import date
from typing import Any

import pytest
import spacy
from hypothesis import given, strategies as st

from papers.clinical_notes import cleaning, extraction as ex, llm_reading
from papers.clinical_notes.charts import generate
from papers.clinical_notes.gold import Note


def read(sentence: str) -> ex.Reading:
    note = Note(
        note_id="P0001-N001", patient_id="P0001", date=date.min, kind="clinic visit", text=sentence
    )
    return ex.Reader(ex.RuleNamer())([note])[0]


# ------------------------------------------------------------------------------------------------------- cleaning


def test_cleaning_masks_writes_out_and_plains():
    raw = (
        "Pt c/o sz [**Name**] ___ 500\N{NO-BREAK SPACE}mgs b.i.d., MRN 00-1234567, "
        "call (555) 010-1234 \N{EN DASH} H/o"
    )
    assert cleaning.clean(raw).text == (
        "Patient complains of seizures [REDACTED] [REDACTED] 500 mg BID, MRN [REDACTED], call [REDACTED] - History of"
    )


def test_cleaning_a_cleaned_note_changes_nothing():
    for note in generate(6, 3).notes():
        once = cleaning.clean(note.text).text
        assert cleaning.clean(once).text == once


@given(st.text(max_size=80))
def test_every_character_of_a_cleaned_text_has_its_place(text):
    cleaned = cleaning.clean(text)
    assert len(cleaned.text) == len(cleaned.starts) == len(cleaned.ends)
    assert all(0 <= s < e <= len(text) for s, e in zip(cleaned.starts, cleaned.ends, strict=True))
    assert list(cleaned.starts) == sorted(cleaned.starts)


def test_spans_go_there_and_back():
    raw = "H/o [**Name**] takes LEV 500\N{NO-BREAK SPACE}mgs b.i.d."
    cleaned = cleaning.clean(raw)
    start, end = raw.index("500"), raw.index(" b.i.d.")
    assert cleaned.text[slice(*cleaned.cleaned(start, end))] == "500 mg"
    assert raw[slice(*cleaned.original(*cleaned.cleaned(start, end)))] == raw[start:end]


def test_cleaning_leaves_no_planted_identifier():
    charts = generate(30, 3)
    identifiers = [i for c in charts for i in c.identifiers]
    assert identifiers
    cleaned = "\n".join(cleaning.clean(note.text).text for note in charts.notes())
    assert not [i for i in identifiers if i in cleaned]


# ------------------------------------------------------------------------------------------------- one spelling


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("Keppra", "levetiracetam"),
        ("LTG", "lamotrigine"),
        ("Divalproex", "valproate"),
        ("lamotirgine", "lamotrigine"),
    ],
)
def test_names_become_generic(written, name):
    assert cleaning.generic_name(written) == name


def test_an_unknown_name_stays_and_a_short_one_bears_no_slip():
    assert cleaning.generic_name("Atorvastatin") == "atorvastatin"
    assert cleaning.generic_name("OXX") == "oxx"


@pytest.mark.parametrize(
    ("text", "mg"),
    [
        ("500 mg", 500),
        ("500mg", 500),
        ("1,500 mg", 1500),
        ("0.5 g", 500),
        ("1 g", 1000),
        ("25 mcg", 0.025),
        ("5", None),
    ],
)
def test_strengths_in_milligrams(text, mg):
    assert cleaning.milligrams(text) == (None if mg is None else pytest.approx(mg))


@given(st.floats(0.5, 5000).map(lambda x: round(x, 1)))
def test_a_strength_in_mg_and_in_g_is_the_same(mg):
    assert cleaning.milligrams(f"{mg} mg") == pytest.approx(mg)
    assert cleaning.milligrams(f"{mg / 1000:.4f} g") == pytest.approx(mg, abs=0.06)


@pytest.mark.parametrize(
    ("label", "text", "value"),
    [
        ("FREQUENCY", "BID", "2"),
        ("FREQUENCY", "every 8 hours", "3"),
        ("FREQUENCY", "at bedtime", "1"),
        ("FREQUENCY", "PRN", "as needed"),
        ("ROUTE", "by mouth", "oral"),
        ("FORM", "tabs", "tablet"),
        ("FORM", "ER tablet", "extended-release tablet"),
        ("DOSAGE", "two", "2"),
    ],
)
def test_attributes_in_one_spelling(label, text, value):
    assert cleaning.normal(label, text) == value


# --------------------------------------------------------------------------------------------------------- rules


def test_a_start_with_everything():
    (m,) = read("Start Keppra 500 mg tablet PO BID for 2 weeks.").medications
    values = (m.drug, m.strength, m.form, m.route, m.frequency, m.duration)
    assert values == ("levetiracetam", "500 mg", "tablet", "oral", "2", "2 weeks")
    assert m.role == "current"


def test_the_dose_before_an_increase_is_not_read():
    (m,) = read("Increase LTG from 50 mg to 0.1 g twice daily.").medications
    assert (m.drug, m.strength, m.frequency) == ("lamotrigine", "100 mg", "2")


def test_a_dose_goes_to_the_drug_before_it():
    old, new = read("Switch from Depakote to lamotrigine 25 mg qd because of tremor.").medications
    assert (old.drug, old.strength) == ("valproate", None)
    assert (new.drug, new.strength, new.frequency) == ("lamotrigine", "25 mg", "1")


def test_a_dose_before_the_only_drug_goes_to_it():
    (m,) = read("Home regimen includes 500 mg of levetiracetam.").medications
    assert m.strength == "500 mg"


def test_lines_are_sentences():
    first, second = read("levetiracetam 500 mg BID\nlamotrigine 100 mg daily").medications
    assert (first.strength, second.strength) == ("500 mg", "100 mg")


@pytest.mark.parametrize(
    ("sentence", "role"),
    [
        ("Takes carbamazepine 200 mg BID.", "current"),
        ("Allergies: carbamazepine (rash).", "allergy"),
        ("If this fails, could consider lacosamide.", "hypothetical"),
        ("Mother takes phenytoin for epilepsy.", "family"),
        ("Previously tried topiramate, stopped for weight loss.", "historical"),
        ("Patient is not taking zonisamide.", "historical"),
    ],
)
def test_the_role_of_a_drug(sentence, role):
    (m,) = read(sentence).medications
    assert m.role == role


def test_a_slip_is_allowed_in_a_long_name():
    assert read("Takes lamotirgine 100 mg.").medications[0].drug == "lamotrigine"
    assert not read("Takes lamotirgien 100 mg.").medications


def test_an_abbreviation_must_stand_in_capitals():
    assert not read("Seizures 4 per month, pht was never given.").medications
    assert read("PER 4 mg nightly").medications[0].drug == "perampanel"


def test_daily_seizures_are_no_frequency_of_a_drug():
    assert not read("Continues to have seizures daily.").spans


@pytest.mark.parametrize(
    ("sentence", "context", "status"),
    [
        ("Patient reports focal seizures, two a month.", "affirmed", "positive"),
        ("Denies any seizures since May 2018.", "negated", "negative"),
        ("Patient has been seizure-free since May.", "negated", "negative"),
        ("No family history of seizures.", "negated", "negative"),
        ("Brother had seizures.", "family", "unknown"),
        ("History of febrile seizures in childhood.", "historical", "unknown"),
        ("Return to ED if a seizure recurs.", "hypothetical", "unknown"),
        ("No driving until free of seizures for 6 months.", "hypothetical", "unknown"),
        ("Mother has witnessed seizures weekly.", "affirmed", "positive"),
    ],
)
def test_context_and_status(sentence, context, status):
    reading = read(sentence)
    assert [f.context for f in reading.findings if f.kind == "seizure"] == [context]
    assert reading.status == status


def test_positions_are_those_of_the_note_as_it_stands():
    raw = "Pt c/o sz. Start LEV 500\N{NO-BREAK SPACE}mg b.i.d."
    reading = read(raw)
    assert [raw[a:b] for _, a, b in reading.spans] == ["LEV", "500\N{NO-BREAK SPACE}mg", "b.i.d."]
    assert reading.findings == (("seizure", "seizures", "affirmed"),)


def test_given_spans_are_classified_where_they_stand():
    assert ex.classify_spans(["Pt denies fits.", "Pt has fits."], [(10, 14), (7, 11)]) == [
        "negated",
        "affirmed",
    ]


def test_reading_writes_no_note_to_a_log(caplog, capfd):
    with caplog.at_level(logging.DEBUG):
        read("Start Keppra 500 mg; secretword.")
    out, err = capfd.readouterr()
    assert "secretword" not in caplog.text + out + err


# -------------------------------------------------------------------------------------------------------- models


def test_a_trained_models_spans_are_those_of_med7s_labels():
    nlp = spacy.blank("en")
    ruler: Any = nlp.add_pipe("entity_ruler")
    ruler.add_patterns([{"label": "DRUG", "pattern": "Keppra"}, {"label": "X", "pattern": "for"}])
    note = Note(
        note_id="n", patient_id="P", date=date.min, kind="clinic visit", text="Keppra for seizures."
    )
    [reading] = ex.Reader(ex.ModelNamer(nlp))([note])
    assert reading.spans == (("DRUG", 0, 6),)
    assert [m.drug for m in reading.medications] == ["levetiracetam"]


def test_a_missing_med7_is_said_with_what_to_do():
    model, why = ex.load_med7("en_core_med7_that_is_not_there")
    assert model is None
    assert "pip install" in why


def test_a_med7_that_this_spacy_cannot_load_stops_no_run(monkeypatch):
    def fails(package: str) -> None:
        raise ValueError("[E053] Could not read config.cfg: the transformer is unknown")

    monkeypatch.setattr(ex.spacy.util, "is_package", lambda package: True)
    monkeypatch.setattr(ex.spacy, "load", fails)
    model, why = ex.load_med7("en_core_med7_trf")
    assert model is None
    assert "E053" in why
    assert "environment of its own" in why


# ------------------------------------------------------------------------------------------------- language model


def item(**fields: str) -> dict[str, str]:
    return {
        "drug": "",
        "strength": "",
        "frequency": "",
        "route": "",
        "form": "",
        "role": "current",
    } | fields


def test_an_answer_in_json_becomes_a_reading():
    answer = {
        "seizure_status": "negative",
        "medications": [
            item(drug="Keppra", strength="0.5 g", frequency="twice daily"),
            item(drug=" "),
        ],
    }
    reading = llm_reading.parse_extraction("n", json.dumps(answer))
    (m,) = reading.medications
    assert (m.drug, m.strength, m.frequency, m.route) == ("levetiracetam", "500 mg", "2", None)
    assert reading.status == "negative"
    assert reading.parsed


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "{",
        '{"medications": []}',
        '{"seizure_status": "maybe", "medications": []}',
        "[]",
        "null",
    ],
)
def test_an_answer_that_cannot_be_read_is_counted(answer):
    reading = llm_reading.parse_extraction("n", answer)
    assert not reading.parsed
    assert reading.medications == ()


def test_a_prompt_shows_the_cleaned_line_alone():
    text = "HPI:\nDenies sz. MRN 00-1234567.\nPlan: none"
    (message,) = llm_reading.context_prompt(text, text.index("sz"), text.index("sz") + 2)
    assert "00-1234567" not in message["content"]
    assert "Plan" not in message["content"]
    assert "Denies seizures" in message["content"]
