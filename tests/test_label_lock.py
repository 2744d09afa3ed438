"""The label lock: a locked answer says what the graph says, and contradictions are seen in label and words."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from papers.side_effects import forward as se, label_lock
from papers.side_effects.corpus import Question
from papers.side_effects.label_lock import make_answer

drugs = st.sampled_from(["metformin", "1,25(oh)2d3", "o'drug"])
effects = st.sampled_from(["nausea", "hallucination, visual", "no adverse event"])


@given(drug=drugs, effect=effects, listed=st.booleans())
def test_the_systems_own_sentence_says_what_the_graph_says(drug, effect, listed):
    label = "YES" if listed else "NO"
    text = f"{label}. {label_lock.fact(drug, effect, listed=listed)}"
    assert se.parse_label(text) == listed
    assert not label_lock.contradicts(text, drug, effect, listed=listed)


@pytest.mark.parametrize(
    ("text", "listed", "contradiction"),
    [
        ("YES. Metformin is known to be associated with nausea.", True, False),
        ("NO. Metformin is known to be associated with nausea.", True, True),
        ("YES. Metformin is not known to be associated with nausea.", True, True),
        ("NO. There is no evidence that metformin causes nausea.", False, False),
        ("Metformin isn't linked to nausea.", False, False),
        ("Metformin isn't linked to nausea.", True, True),
        ("NO. Your pharmacist says that it is listed, but it is not listed.", False, False),
        (
            'NO. It is not. This answers the question "Is nausea an adverse effect of metformin?"',
            False,
            False,
        ),
        ("I cannot say.", True, False),
    ],
)
def test_contradictions_are_seen_in_label_and_words(text, listed, contradiction):
    assert label_lock.contradicts(text, "metformin", "nausea", listed=listed) is contradiction


def test_the_label_is_held_against_the_graph_and_not_the_benchmark():
    pairs = [Question("aspirin", "nausea", False), Question("aspirin", "cough", True)]
    labelled_pairs = label_lock.supported({"aspirin": frozenset({"nausea"})}, pairs)
    assert [pair.label for pair in labelled_pairs] == [True, False]


def test_a_sentence_that_strays_is_counted():
    pair = Question("aspirin", "nausea", True)
    stray = make_answer(pair, "YES. Nausea is not known as a side effect of aspirin.")
    assert (stray.measures["label_contradicts"], stray.measures["contradicts"]) == ((0, 1), (1, 1))


def test_a_leading_question_suggests_the_opposite_of_the_evidence():
    for listed in (True, False):
        assert ("not" in label_lock.LEADING[listed]) == listed
