"""Names: which are found in a text, which are corrected, and which are never guessed."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from rag.ask import box
from rag.names import Vocabulary

KNOWN = {
    "metformin": ["nausea", "lactic acidosis", "hallucination, visual"],
    "aspirin": ["nausea", "tinnitus"],
    "1,25(oh)2d3": ["nausea"],
    "prednisone": ["weight increased"],
    "prednisolone": ["weight increased", "nausea"],
    "o'drug": ["no adverse event"],
}
VOCABULARY = Vocabulary.by_role(
    drug=KNOWN, effect={effect for effects in KNOWN.values() for effect in effects}
)
drugs = st.sampled_from(sorted(KNOWN))
effects = st.sampled_from(VOCABULARY.names["effect"])


# -------------------------------------------------------------------------------------------------------------- names


@given(drugs, st.sampled_from([str.lower, str.upper, str.title]))
def test_a_right_name_is_never_corrected(name, case):
    match = VOCABULARY.normalise(f"  {case(name)} ", "drug")
    assert (match.name, match.distance) == (name, 0)


@pytest.mark.parametrize(
    ("written_name", "name"),
    [
        ("metfromin", "metformin"),
        ("metformine", "metformin"),
        ("asprin", "aspirin"),
        ("prednisolon", "prednisolone"),
    ],
)
def test_a_name_a_letter_off_is_taken_for_the_nearest(written_name, name):
    assert VOCABULARY.normalise(written_name, "drug").name == name


@pytest.mark.parametrize("written_name", ["unobtainium", "morphine", "as", "prednisoone", ""])
def test_a_name_that_is_not_near_or_near_to_two_is_not_guessed(written_name):
    match = VOCABULARY.normalise(written_name, "drug")
    assert match.name is None
    assert match.nearest


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("hypertension", ["hypotension"]),
        ("hypotension", ["hypertension", "nausea"]),
        ("hypertensoin", ["hypotension"]),
        ("hyperkalaemia", ["hypokalaemia"]),
        ("hypokalaemia", ["hypocalcaemia"]),
        ("hypocalcemia", ["hypokalemia"]),
        ("hypokalemia", ["hyponatremia"]),
        ("bradycardia", ["tachycardia"]),
        ("weight increased", ["weight decreased"]),
        ("neutrophilia", ["neutropenia"]),
        ("upper abdominal pain", ["lower abdominal pain"]),
    ],
)
def test_a_name_is_never_taken_for_its_opposite(text, names):
    match = Vocabulary.by_role(effect=names).normalise(text, "effect")
    assert match.name is None
    assert names[0] in match.nearest


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("hypertensoin", "hypertension"),
        ("hypotensoin", "hypotension"),
        ("hypercalcemia", "hypercalcaemia"),
        ("hypokalemia", "hypokalaemia"),
        ("weight increased.", "weight increased"),
    ],
)
def test_a_misspelt_name_that_has_an_opposite_is_corrected(text, name):
    match = Vocabulary.by_role(effect=[name, "nausea"]).normalise(text, "effect")
    assert match.name == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("prednisone", "prednisolone"),
        ("Prednisolone", "prednisone"),
        ("cefalexin", "cefaloxin"),
        ("dobutamine", "dopamine"),
    ],
)
def test_another_real_drug_is_no_misspelling(text, name):
    match = Vocabulary.by_role(drug=[name]).normalise(text, "drug")
    assert match.name is None
    assert match.nearest == (name,)


@pytest.mark.parametrize(
    ("text", "name"),
    [("prednisolon", "prednisolone"), ("metfromin", "metformin"), ("paracetamole", "paracetamol")],
)
def test_a_misspelt_drug_is_corrected_and_the_correction_can_be_shown(text, name):
    match = Vocabulary.by_role(drug=[name]).normalise(text, "drug")
    assert (match.written, match.name) == (text, name)
    assert match.distance > 0


@pytest.mark.parametrize("text", ['"aspirin".', "\u201caspirin\u201d", "aspirin.", '"Aspirin"'])
def test_quotation_marks_and_a_dot_around_a_name_are_no_part_of_it(text):
    match = Vocabulary.by_role(drug=["aspirin"]).normalise(text, "drug")
    assert (match.name, match.distance) == ("aspirin", 0)


@pytest.mark.parametrize("apostrophe", ["'", "\u2019", "\u2018", "\u02bc"])
@pytest.mark.parametrize("name", ["crohn's disease", "crohn\u2019s disease"])
def test_any_apostrophe_is_that_of_the_graph(apostrophe, name):
    vocabulary = Vocabulary.by_role(drug=["aspirin"], effect=[name])
    text = f"Crohn{apostrophe}s disease"
    match = vocabulary.normalise(text, "effect")
    assert (match.name, match.distance) == (name, 0)
    assert vocabulary.link(f"Does aspirin cause {text}?")["effect"] == [name]


def test_of_names_that_overlap_the_longest_is_linked():
    vocabulary = Vocabulary.by_role(
        drug=["calcium", "insulin"],
        cls=["calcium channel blockers"],
        effect=["pain", "abdominal pain"],
    )
    linked = vocabulary.link("Do calcium channel blockers and insulin cause abdominal pain?")
    assert linked == {
        "drug": ["insulin"],
        "cls": ["calcium channel blockers"],
        "effect": ["abdominal pain"],
    }


@given(st.permutations(sorted(KNOWN)))
def test_names_are_linked_in_their_order(order):
    text = "Compare " + " and ".join(order) + "."
    assert VOCABULARY.link(text)["drug"] == list(order)


def test_the_box_answers_what_is_typed():
    questions: list[str] = []
    text, _ = box(questions.append).children
    text.value = "Which drugs cause tinnitus?"
    assert questions == ["Which drugs cause tinnitus?"]
