"""One set of questions for all architectures: the draw, the fusing, the reading of names, what the page says."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.across_papers import arms, report
from helpers.across_papers.arms import Answer, Names
from helpers.across_papers.questions import KINDS, Asked, ask
from helpers.side_effects.forward import Question

DRUGS = ["ibuprofen", "naproxen", "zolpidem", "metformin", "lorazepam", "zafirlukast", "actinomycin", "warfarin"]
EFFECTS = [f"effect {letter}" for letter in "abcdefghijklmnop"]
KNOWLEDGE = {drug: tuple(EFFECTS[i : i + 8]) for i, drug in enumerate(DRUGS)}
BENCHMARK = [
    Question(drug, effect, effect in KNOWLEDGE[drug])
    for drug in DRUGS
    for effect in (*KNOWLEDGE[drug][:5], *[e for e in EFFECTS if e not in KNOWLEDGE[drug]][:5])
]


@settings(max_examples=20)
@given(st.integers(1, 3).map(lambda n: 2 * n), st.integers(0, 99))
def test_every_kind_is_balanced_and_no_pair_stands_in_two_kinds(per_kind, seed):
    asked = ask(BENCHMARK, KNOWLEDGE, per_kind, seed)
    for kind in KINDS:
        mine = [q for q in asked if q.kind == kind]
        assert len(mine) <= per_kind
        assert sum(q.label for q in mine) * 2 == len(mine)
    pairs = [(drug, q.side_effect) for q in asked if q.kind != "both" for drug in q.drugs]
    assert len(pairs) == len(set(pairs))
    assert ask(BENCHMARK, KNOWLEDGE, per_kind, seed) == asked


@settings(max_examples=20)
@given(st.integers(0, 99))
def test_the_labels_are_those_of_the_knowledge(seed):
    for q in ask(BENCHMARK, KNOWLEDGE, 4, seed):
        assert q.label == all(q.side_effect in KNOWLEDGE[drug] for drug in q.drugs)
        if q.kind == "both":
            assert any(q.side_effect in KNOWLEDGE[drug] for drug in q.drugs)  # a NO has one of the two drugs right
        if q.kind in ("misspelt", "brand"):
            assert not any(f" {drug}?" in q.text for drug in q.drugs)


def test_an_odd_number_cannot_be_balanced():
    with pytest.raises(ValueError, match="even"):
        ask(BENCHMARK, KNOWLEDGE, 3, 0)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Ibuprofen | effect a", Names(("ibuprofen",), "effect a")),
        ("ibuprofen, naproxen | effect a.", Names(("ibuprofen", "naproxen"), "effect a")),
        ("ibuprofen and naproxen | effect a", Names(("ibuprofen", "naproxen"), "effect a")),
        ("ibuprofen, ibuprofen | effect a", Names(("ibuprofen",), "effect a")),
        ("I do not know.", Names()),
        ("| effect a", Names()),
    ],
)
def test_names_are_read_from_one_line(line, names):
    assert arms.parse_names(line) == names


@given(st.text(max_size=80))
def test_any_line_is_read_or_refused(line):
    names = arms.parse_names(line)
    assert bool(names.side_effect) <= bool("|" in line)


def test_fusing_prefers_what_both_searches_found():
    near, cosine = np.array([1, 2, 3]), np.array([0.9, 0.8, 0.1], dtype=np.float32)
    same, score = np.array([2, 4, 5]), np.array([9.0, 8.0, 1.0], dtype=np.float32)
    assert arms.fuse(near, cosine, same, score, 0.5)[0] == 2
    assert arms.fuse(near, cosine, same, score, 1.0)[0] == 1
    assert sorted(arms.fuse(near, cosine, same, score, 0.5)) == [1, 2, 3, 4, 5]


@given(st.lists(st.integers(0, 9), min_size=6, max_size=6, unique=True), st.permutations(range(6)))
def test_two_tracks_are_joined_without_repeats(first, second):
    rows = arms.joined(first, list(second), 6)
    assert len(rows) == len(set(rows)) == 6
    assert rows[0] == first[0]
    assert set(rows) <= {*first, *second}


def test_the_prompt_has_evidence_only_where_there_is_some():
    assert "Evidence" not in arms.answering_prompt("Is it so?", [])[1]["content"]
    assert "- a\n- b" in arms.answering_prompt("Is it so?", ["a", "b"])[1]["content"]


def answered(right: int, n: int = 40) -> tuple[list[Asked], list[Answer]]:
    """`right` of n questions answered as they should be."""
    asked = [Asked(list(KINDS)[i % 5], "?", bool(i % 2), ("d",), "e") for i in range(n)]
    answers = [Answer(q.label == (i < right), 0.5, (), 10, 1) for i, q in enumerate(asked)]
    return asked, answers


def test_the_advice_names_the_best_and_what_cannot_be_told_from_it():
    asked, best = answered(40)
    answers = {"closed_book": answered(20)[1], "text": answered(39)[1], "graph_first": best}
    seconds = {"closed_book": [0.1] * 3, "text": [0.5] * 3, "graph_first": [2.0] * 3}
    text = report.advice(asked, answers, report.measure(asked, answers, seconds, 200))
    assert text.startswith(f"**{arms.ARMS['graph_first']}** is right most often: 100")
    assert arms.ARMS["text"] in text
    assert arms.ARMS["closed_book"] not in text
    assert "0.50 s" in text
