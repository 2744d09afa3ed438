"""Asking in words: which names are understood, what an answer holds, and that its label is always the graph's."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st
from test_graph import graph_server

from helpers import graph
from helpers.graph import Graph, GraphError
from papers.side_effects import ask, corpus
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
    found = VOCABULARY.normalise(f"  {case(name)} ", "drug")
    assert (found.name, found.distance) == (name, 0)


@pytest.mark.parametrize(
    ("asked", "name"),
    [
        ("metfromin", "metformin"),
        ("metformine", "metformin"),
        ("asprin", "aspirin"),
        ("prednisolon", "prednisolone"),
    ],
)
def test_a_name_a_letter_off_is_taken_for_the_nearest(asked, name):
    assert VOCABULARY.normalise(asked, "drug").name == name


@pytest.mark.parametrize("asked", ["unobtainium", "morphine", "as", "prednisoone", ""])
def test_a_name_that_is_not_near_or_near_to_two_is_not_guessed(asked):
    found = VOCABULARY.normalise(asked, "drug")
    assert found.name is None
    assert found.nearest


@pytest.mark.parametrize(
    ("written", "names"),
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
def test_a_name_is_never_taken_for_its_opposite(written, names):
    match = Vocabulary.by_role(effect=names).normalise(written, "effect")
    assert match.name is None
    assert names[0] in match.nearest


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("hypertensoin", "hypertension"),
        ("hypotensoin", "hypotension"),
        ("hypercalcemia", "hypercalcaemia"),
        ("hypokalemia", "hypokalaemia"),
        ("weight increased.", "weight increased"),
    ],
)
def test_a_misspelt_name_that_has_an_opposite_is_corrected(written, name):
    match = Vocabulary.by_role(effect=[name, "nausea"]).normalise(written, "effect")
    assert match.name == name


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("prednisone", "prednisolone"),
        ("Prednisolone", "prednisone"),
        ("cefalexin", "cefaloxin"),
        ("dobutamine", "dopamine"),
    ],
)
def test_another_real_drug_is_no_misspelling(written, name):
    match = Vocabulary.by_role(drug=[name]).normalise(written, "drug")
    assert match.name is None
    assert match.nearest == (name,)


@pytest.mark.parametrize(
    ("written", "name"),
    [("prednisolon", "prednisolone"), ("metfromin", "metformin"), ("paracetamole", "paracetamol")],
)
def test_a_misspelt_drug_is_corrected_and_the_correction_can_be_shown(written, name):
    match = Vocabulary.by_role(drug=[name]).normalise(written, "drug")
    assert (match.written, match.name) == (written, name)
    assert match.distance > 0


@pytest.mark.parametrize("apostrophe", ["'", "\u2019", "\u2018", "\u02bc"])
@pytest.mark.parametrize("name", ["crohn's disease", "crohn\u2019s disease"])
def test_any_apostrophe_is_that_of_the_graph(apostrophe, name):
    vocabulary = Vocabulary.by_role(drug=["aspirin"], effect=[name])
    written = f"Crohn{apostrophe}s disease"
    match = vocabulary.normalise(written, "effect")
    assert (match.name, match.distance) == (name, 0)
    assert vocabulary.link(f"Does aspirin cause {written}?")["effect"] == [name]


@pytest.mark.parametrize(
    ("question", "drug", "effect"),
    [
        ("Is {effect} an adverse effect of {drug}?", "methotrexate.", "bleeding n.o.s."),
        ("Does {drug} cause {effect}?", "methotrexate.", "bleeding n.o.s."),
        ("Does {drug} cause {effect}", "vit. k", "infection n.o.s."),
        ("Is {effect} a side effect of {drug}.", "st. john's wort", "pain, n.o.s."),
    ],
)
def test_names_with_dots_are_found_as_written(question, drug, effect):
    vocabulary = Vocabulary.by_role(drug=[drug, "aspirin"], effect=[effect, "nausea"])
    kind, names = ask.parse(question.format(drug=drug, effect=effect), vocabulary)
    assert kind == "forward"
    for role, name in (("drug", drug), ("effect", effect)):
        match = vocabulary.normalise(names[role], role)
        assert (match.name, match.distance) == (name, 0)


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


# ---------------------------------------------------------------------------------------------------------- questions


@given(drugs, effects)
@pytest.mark.parametrize(
    "form",
    [
        "Is {effect} an adverse effect of {drug}?",
        "is {effect} a known side effect of {drug}",
        "Can {drug} cause {effect}?",
        "Does {drug} lead to {effect}?",
    ],
)
def test_forward_questions_are_read(form, drug, effect):
    question = form.format(drug=drug, effect=effect)
    assert ask.parse(question, VOCABULARY) == ("forward", {"effect": effect, "drug": drug})


@given(effects)
@pytest.mark.parametrize(
    "form",
    [
        "Which drugs cause {effect}?",
        "What medicines can cause {effect}?",
        "Which drugs have {effect} as a side effect?",
    ],
)
def test_reverse_questions_are_read(form, effect):
    assert ask.parse(form.format(effect=effect), VOCABULARY) == ("reverse", {"effect": effect})


@pytest.mark.parametrize(
    "question",
    [
        "What are the side effects of metformin?",
        "Which side effects does metformin have?",
        "What can metformin cause?",
    ],
)
def test_questions_for_the_effects_of_a_drug_are_read(question):
    assert ask.parse(question, VOCABULARY) == ("effects", {"drug": "metformin"})


@given(st.text(max_size=60))
def test_no_text_breaks_the_reader(text):
    kind, spans = ask.parse(text, VOCABULARY)
    assert kind in {"forward", "reverse", "effects", "unread"}
    for role, span in spans.items():
        VOCABULARY.normalise(span, role)


def test_the_box_answers_what_is_typed():
    asked: list[str] = []
    text, _ = box(asked.append).children
    text.value = "Which drugs cause tinnitus?"
    assert asked == ["Which drugs cause tinnitus?"]


# ----------------------------------------------------------------------------------------------------- with the graph


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with (
        graph_server(tmp_path_factory.mktemp("graph")) as endpoint,
        graph.connect(endpoint) as connection,
    ):
        yield connection


@pytest.fixture(scope="module")
def loaded(empty: Graph) -> Graph:
    with pytest.raises(GraphError, match="holds no drugs"):
        Vocabulary.read(empty)
    corpus.load_graph(empty, KNOWN, "known")
    return empty


@pytest.mark.engine
def test_a_forward_question_is_answered_with_all_that_it_was_made_from(loaded):
    given = ask.answer("Is nausea an adverse effect of metfromin?", loaded)
    assert given.label is True
    assert given.text.startswith("YES. Nausea is listed")
    assert "metfromin was read as metformin" in given.text
    assert given.parameters == {"effect": "nausea", "drug": "metformin"}
    assert "metformin" not in given.cypher
    assert given.rows[0]["side_effect"] == "nausea"
    assert ask.answer("Is tinnitus an adverse effect of metformin?", loaded).label is False


@pytest.mark.engine
def test_reverse_and_effects_questions_list_everything(loaded):
    reverse = ask.answer("Which drugs cause nausea?", loaded)
    assert [row["drug"] for row in reverse.rows] == sorted(
        d for d, effects in KNOWN.items() if "nausea" in effects
    )
    assert "4 drugs are listed with nausea" in reverse.text
    effects = ask.answer("What are the side effects of metformin?", loaded)
    assert {row["side_effect"] for row in effects.rows} == set(KNOWN["metformin"])


@pytest.mark.engine
def test_an_unknown_name_is_said_and_the_graph_is_not_asked(loaded):
    given = ask.answer("Which drugs cause flying?", loaded)
    assert given.text.startswith("The graph has no side effect 'flying'. Nearest: ")
    assert given.cypher == ""
    assert "forms that are understood" in ask.answer("Sing me a song", loaded).text


@pytest.mark.engine
@pytest.mark.parametrize(
    "question",
    [
        "Is nausea an adverse effect of o'drug?",
        "Which drugs cause nausea'}) DETACH DELETE d //?",
        "Is nausea an adverse effect of metformin' OR 1=1?",
        "Which drugs cause no adverse event?",
    ],
)
def test_nothing_of_a_question_is_run(loaded, question):
    before = loaded.read("MATCH (n) RETURN count(n) AS nodes")
    given = ask.answer(question, loaded)
    assert given.cypher in {"", *ask.CYPHER.values()}
    assert loaded.read("MATCH (n) RETURN count(n) AS nodes") == before


@pytest.mark.engine
def test_an_answer_is_shown_escaped(loaded):
    shown = ask.show(ask.answer("Which drugs cause <b>nausea</b>?", loaded), sample=True)
    assert "<b>nausea" not in shown.html
    assert "SAMPLE" in shown.html
