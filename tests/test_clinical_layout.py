"""Notes as clinics write them: wrapped lines, lists, titles, capitals, commas and units."""

from __future__ import annotations

import textwrap
from datetime import date

import pytest
from hypothesis import given, strategies as st

from papers.clinical_notes import cleaning, extraction as ex, lines, registry
from papers.clinical_notes.charts import generate
from papers.clinical_notes.gold import Note
from papers.clinical_notes.query import Lexicon, parse

READER = ex.Reader(ex.RuleNamer())


def note(text: str) -> Note:
    return Note(
        note_id="P1-N1", patient_id="P1", date=date(2020, 1, 2), kind="clinic visit", text=text
    )


def read(text: str) -> ex.Reading:
    return READER([note(text)])[0]


def drugs(text: str) -> dict[str, str]:
    return {m.drug: m.role for m in read(text).medications}


def values(reading: ex.Reading) -> list[tuple[object, ...]]:
    """What is read of each drug, without its place."""
    return [(m.drug, m.role, m.strength, m.frequency, m.form) for m in reading.medications]


# ------------------------------------------------------------------------------------------- wrapped lines and lists


@pytest.mark.parametrize(
    "text",
    [
        "Her husband has not seen any\nconvulsions during the summer.",
        "SHE HAS NOT HAD ANY\nCONVULSIONS SINCE MAY.",
        "No\n   further auras.",
        "He has had no\nGTC since the dose was raised.",
        "There were no\r\nseizures.",
    ],
)
def test_a_denial_reaches_over_a_wrapped_line(text):
    assert read(text).status == "negative"


@pytest.mark.parametrize(
    ("text", "strength", "frequency"),
    [
        ("We will raise lacosamide to\n150 mg twice\ndaily.", "150 mg", "2"),
        ("- Vimpat\n  150 mg BID", "150 mg", "2"),
        ("She was switched to zonisamide,\n200 mg at bedtime.", "200 mg", "1"),
        ("Continue\nBriviact 50 mg bid.", "50 mg", "2"),
    ],
)
def test_a_dose_on_the_next_line_belongs_to_its_drug(text, strength, frequency):
    (m,) = read(text).medications
    assert (m.strength, m.frequency) == (strength, frequency)


@pytest.mark.parametrize(
    "text",
    [
        "Meds\ntopiramate 100 mg bid\nclobazam 10 mg nightly\nno convulsions",
        "Current medications:\n1. topiramate 100 mg bid\n2. clobazam 10 mg nightly\n\nDenies convulsions",
        "TOPIRAMATE 100 MG BID\nCLOBAZAM 10 MG NIGHTLY\nNO CONVULSIONS",
        "- topiramate 100 mg bid\n- clobazam 10 mg nightly\n- Convulsions: none",
    ],
)
def test_each_line_of_a_list_is_a_statement(text):
    reading = read(text)
    values = [(m.drug, m.role, m.strength, m.frequency) for m in reading.medications]
    assert values == [
        ("topiramate", "current", "100 mg", "2"),
        ("clobazam", "current", "10 mg", "1"),
    ]
    assert reading.status == "negative"


def test_an_allergy_reaches_over_a_wrapped_line():
    text = "Allergies: sulfa drugs,\noxcarbazepine (hyponatremia).\nTakes lamotrigine."
    assert drugs(text) == {"oxcarbazepine": "allergy", "lamotrigine": "current"}


def test_a_wrapped_note_is_read_like_the_same_note_in_long_lines():
    for original in generate(4, 3).notes():
        paragraphs = original.text.split("\n")
        wrapped = "\n".join(
            textwrap.fill(paragraph, 78, break_long_words=False, break_on_hyphens=False)
            for paragraph in paragraphs
        )
        first, second = read(original.text), read(wrapped)
        assert second.status == first.status, wrapped
        assert values(second) == values(first), wrapped


@given(st.text(alphabet="ab,.;: \n(1\r-", max_size=60))
def test_joining_lines_changes_nothing_but_white_space(text):
    assert lines.join_wrapped_lines(text).split() == text.split()
    assert "".join(cleaning.clean(text).text.split()) == "".join(text.replace("\r", "").split())


def test_how_well_a_drug_works_may_stand_on_the_next_line():
    notes = [note("Continue Xcopri 100 mg daily, which is\nworking well.")]
    (row,) = registry.build(notes, READER(notes)).to_dict("records")
    assert row["medication_effectiveness"] == "effective"


def test_an_identifier_over_two_lines_is_masked():
    assert "010-1234" not in cleaning.clean("Call (555)\n010-1234 with results.").text


# ------------------------------------------------------------------------------------------------------------ titles


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("Interim history: no convulsions.", "negative"),
        ("History: Two convulsions in June.", "positive"),
        ("HISTORY OF PRESENT ILLNESS: Had a convulsion last week.", "positive"),
        ("Past medical history: febrile convulsions.", "unknown"),
        ("PMH:\nfebrile convulsions\n\nHPI:\nTwo auras this month.", "positive"),
        ("Family history: convulsions in a cousin.\nReports no convulsions.", "negative"),
        ("Precautions: call us after any convulsion.", "unknown"),
        (
            "Past neurological history: convulsions as a toddler. Currently has weekly auras.",
            "positive",
        ),
    ],
)
def test_a_title_says_whose_and_when_and_its_words_say_nothing(text, status):
    assert read(text).status == status


@pytest.mark.parametrize(
    "title",
    [
        "Prior AEDs",
        "PAST MEDICATIONS",
        "Previous anti-seizure medications",
        "Failed meds",
        "Medications tried in the past",
        "ASM history",
        "Discontinued",
    ],
)
def test_drugs_under_a_title_of_the_past_are_not_taken(title):
    expected = {"ethosuximide": "historical", "rufinamide": "historical", "lamotrigine": "current"}
    in_line = f"{title}: ethosuximide, rufinamide.\nPlan: continue lamotrigine."
    with_dash = f"{title} - ethosuximide, rufinamide.\nPlan - continue lamotrigine."
    in_lines = f"{title}\nethosuximide\nrufinamide\n\nPlan\ncontinue lamotrigine"
    assert drugs(in_line) == expected
    assert drugs(in_lines) == expected
    assert drugs(with_dash) == expected


def test_a_title_of_the_present_may_follow_one_of_the_past_on_its_line():
    text = "Prior AEDs: ethosuximide; Current: rufinamide 400 mg bid"
    assert drugs(text) == {"ethosuximide": "historical", "rufinamide": "current"}


@pytest.mark.parametrize(
    "text",
    [
        "Current AEDs: lamotrigine 100 mg bid",
        "Medications prior to admission: lamotrigine 100 mg bid",
        "Discharge instructions: take lamotrigine 100 mg bid.",
        "Continue lamotrigine 100 mg bid; call if auras recur.",
    ],
)
def test_drugs_under_a_title_of_the_present_are_taken(text):
    assert drugs(text) == {"lamotrigine": "current"}


# ---------------------------------------------------------------------------------------------- denied, words, capitals


@pytest.mark.parametrize(
    "text",
    [
        "Auras: denied",
        "Convulsions, auras and drop attacks: denied.",
        "Convulsions - none since spring",
        "Convulsions are denied by patient and family",
        "Convulsions: no",
        "Seizure frequency: 0",
        "Seizure free for two years",
        "Auras denied",
        "Auras none.",
        "Auras (-)",
        "Auras: not since spring",
        "Any auras? No.",
        "Auras? Denied.",
        "Any auras since the last call? No.",
        "Convulsions since discharge? None.",
        "Impression: negative for convulsions.",
        "Her wife has never witnessed a convulsion.",
    ],
)
def test_a_denial_may_stand_behind(text):
    assert read(text).status == "negative"


@pytest.mark.parametrize(
    "text",
    [
        "Convulsions: no change",
        "Convulsions: weekly, alcohol: none",
        "Plan: no driving. Convulsions: 2 a month",
        "Auras are weekly and he denied alcohol.",
        "Auras: not controlled",
        "Any falls since May? No. Auras weekly.",
        "Any falls? No. Auras weekly.",
    ],
)
def test_a_denial_of_something_else_denies_no_seizure(text):
    assert read(text).status == "positive"


@pytest.mark.parametrize(
    "text",
    ["Seizure disorder, stable.", "Anti-seizure medication reviewed.", "SEIZURE PRECAUTIONS"],
)
def test_a_name_of_the_disease_is_no_seizure(text):
    assert read(text).status == "unknown"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TAKES LACOSAMIDE 100 MG PER DAY", {"lacosamide"}),
        ("PER MOTHER, LACOSAMIDE WAS MISSED", {"lacosamide"}),
        ("LACOSAMIDE 100 MG IN THE MORNING PER HIS WIFE", {"lacosamide"}),
        ("Takes lacosamide and PER 6 mg nightly", {"lacosamide", "perampanel"}),
        ("PER 6 MG QHS, LACOSAMIDE 100 MG BID", {"lacosamide", "perampanel"}),
    ],
)
def test_capitals_alone_make_no_abbreviation(text, expected):
    reading = read(text)
    assert {m.drug for m in reading.medications} == expected
    assert {m.route for m in reading.medications} == {None}
    lexicon = Lexicon(cleaning.drug_names(), [])
    assert lexicon.drugs_in(text) == expected


def test_in_is_a_route_where_it_is_no_word():
    (m,) = read("MIDAZOLAM 5 MG IN PRN").medications
    assert (m.route, m.frequency) == ("intranasal", "as needed")


# ------------------------------------------------------------------------------------------------- numbers and units


@pytest.mark.parametrize(
    ("text", "mg"),
    [
        ("2,5 mg", 2.5),
        ("0,125 mg", 0.125),
        ("12,5 mg", 12.5),
        ("2,000 mg", 2000),
        ("2.000 mg", 2000),
        ("2.125 mg", 2.125),
        ("1,5 g", 1500),
        ("125 \N{MICRO SIGN}g", 0.125),
        ("125 \N{GREEK SMALL LETTER MU}g", 0.125),
        ("125 micrograms", 0.125),
        ("125 ug", 0.125),
        ("250 milligrams", 250),
        ("1 gram", 1000),
        ("1.2.3 mg", None),
    ],
)
def test_a_dose_in_milligrams(text, mg):
    assert cleaning.milligrams(text) == (None if mg is None else pytest.approx(mg))


@pytest.mark.parametrize(
    ("text", "strength"),
    [
        ("Start clobazam 2,5 mg nightly.", "2.5 mg"),
        ("digoxin 125 \N{MICRO SIGN}g daily (before 250 micrograms)", "0.125 mg"),
        ("Synthroid 88 mcg every day", "0.088 mg"),
        ("Depakote 1,250 mg at bedtime", "1250 mg"),
        ("Synthroid 25 \N{MICRO SIGN}g/day", "0.025 mg"),
        ("DEPAKOTE 1500MG/DAY", "1500 mg"),
    ],
)
def test_a_dose_is_read_in_one_spelling(text, strength):
    (m,) = read(text).medications
    assert (m.strength, m.frequency) == (strength, "1")


@pytest.mark.parametrize(
    ("text", "frequency"),
    [
        ("Takes zonisamide 100 mg in the morning.", "1"),
        ("ZONISAMIDE 100 MG IN THE MORNING", "1"),
        ("zonisamide 100 mg at night", "1"),
        ("zonisamide 100 mg in the morning and 200 mg at night", "2"),
        ("zonisamide 100 mg in the morning and at bedtime", "2"),
    ],
)
def test_a_time_of_day_is_a_dose_and_two_of_them_are_two(text, frequency):
    (m,) = read(text).medications
    assert (m.strength, m.frequency, m.route) == ("100 mg", frequency, None)


def test_a_dose_right_before_a_drug_is_its_own_where_the_drug_before_has_one():
    reading = read("Takes rufinamide 400 mg, 2,5 mg clobazam nightly.")
    assert [(m.drug, m.strength) for m in reading.medications] == [
        ("rufinamide", "400 mg"),
        ("clobazam", "2.5 mg"),
    ]
    reading = read("Takes rufinamide 400 mg with clobazam 2,5 mg nightly.")
    assert [(m.drug, m.strength) for m in reading.medications] == [
        ("rufinamide", "400 mg"),
        ("clobazam", "2.5 mg"),
    ]


# ---------------------------------------------------------------------------------------------------------- questions


@pytest.mark.parametrize(
    ("question", "since", "until"),
    [
        ("Any auras on 03/27/2021?", date(2021, 3, 27), date(2021, 3, 27)),
        ("Any auras on 27.03.2021?", date(2021, 3, 27), date(2021, 3, 27)),
        ("Any auras on 3.4.2021?", date(2021, 4, 3), date(2021, 4, 3)),
        ("Any auras on March 27th, 2021?", date(2021, 3, 27), date(2021, 3, 27)),
        ("Visit 27 Mar 2021: any auras?", date(2021, 3, 27), date(2021, 3, 27)),
        ("Auras between 1/2/2021 and 3/2/2021?", date(2021, 1, 2), date(2021, 3, 2)),
        ("Auras since 4/2020?", date(2020, 4, 1), None),
        ("Auras before 27 March 2021?", None, date(2021, 3, 26)),
        ("Auras on 02/30/2021?", None, None),
        ("Auras 14 days after the visit?", None, None),
    ],
)
def test_a_question_may_write_a_date_in_any_form(question, since, until):
    query = parse(question, Lexicon({}, []))
    assert (query.since, query.until) == (since, until)


@pytest.mark.parametrize(
    "question",
    [
        "Is the patient 30 days later still well?",
        "Did the patient 3 weeks ago have auras?",
        "Was the patient 45 years old?",
        "Was the patient 100% adherent?",
        "What did the patient 12/05/2020 take?",
    ],
)
def test_a_number_of_something_is_no_patient(question):
    assert parse(question, Lexicon({}, [], ["30", "12"])).patients == frozenset()


@pytest.mark.parametrize(
    ("question", "patient"),
    [
        ("What did patient 4711 take?", "4711"),
        ("Patient no. 30: any auras?", "30"),
        ("What did 30 take in 2020?", "30"),
        ("MRN 115154574 in 2023", "115154574"),
    ],
)
def test_a_number_of_a_patient_is_one(question, patient):
    assert parse(question, Lexicon({}, [], ["30"])).patients == {patient}
