"""How answers are read and counted in biomedrag.md (section 4.4, Table 3)."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, strategies as st

from evaluation.answers import make_row
from evaluation.outcomes import Outcomes
from papers.biomedrag.arms import Prediction
from papers.biomedrag.corpora import Corpus, Example, Triple
from papers.biomedrag.scoring import MEASURES, parse_label, parse_triples, part_items
from papers.biomedrag.study import to_answer, units

NAME = st.text(
    st.characters(blacklist_characters="|", blacklist_categories=("Cc", "Zl", "Zp")), min_size=1
).filter(lambda text: text == text.strip() and len(text.splitlines()) == 1)
# what looks like layout is read as such
NAME = NAME.filter(lambda text: not re.match(r"\*\*|\\|`|<|\d{1,2}[.)]|[-•]", text))
TRIPLE = st.builds(Triple, NAME, NAME, NAME)
# few names, so that parts of triples agree now and then
SMALL = st.builds(Triple, st.sampled_from("ab"), st.sampled_from(["R", "S"]), st.sampled_from("cd"))


def example(text: str, *triples: Triple) -> Example:
    return Example(text, text, triples[0].relation if triples else "", triples)


@given(st.lists(TRIPLE, min_size=1, max_size=4, unique=True))
def test_triples_that_are_written_are_read(triples: list[Triple]):
    answer = "\n".join(f" {t.head} | {t.relation}|{t.tail} " for t in triples)
    assert parse_triples(answer) == triples


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "  \n ",
        "a|R",
        "a|R|b|c",
        "a||b",
        "a|R|b|",
        "The triple is a|R",
        "a|R|b\nI hope this helps",
        "(a, R, b)",
    ],
)
def test_anything_else_is_not_read(answer: str):
    assert parse_triples(answer) == []


@given(st.text())
def test_reading_never_fails_and_never_gives_an_empty_part(answer: str):
    for triple in parse_triples(answer):
        assert triple.head
        assert triple.relation
        assert triple.tail


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        ("TREATS", "TREATS"),
        (" treats. ", "TREATS"),
        ("not  Related", "not related"),
        ("It TREATS", None),
        ("", None),
    ],
)
def test_a_label_is_read_only_if_it_stands_alone(answer: str, label: str | None):
    assert parse_label(answer, ["TREATS", "not related", "related"]) == label


def outcomes(rows: list[Example], answers: list[list[Triple] | None]) -> Outcomes:
    """Triples answered to rows of GIT, as rows of the table of answers."""
    corpus = Corpus("GIT", "triples", (), (), tuple(rows), {})
    predictions = [Prediction(None, tuple(triples or ())) for triples in answers]
    return Outcomes(
        [
            make_row(to_answer(corpus, unit.example, p), unit, arm="arm")
            for unit, p in zip(units(corpus, rows), predictions, strict=True)
        ],
        draws=100,
    )


def labelled(rows: list[Example], labels: list[str]) -> Outcomes:
    """Labels answered to rows of GIT-RE."""
    corpus = Corpus("GIT-RE", "relations", (), (), tuple(rows), {})
    return Outcomes(
        [
            make_row(to_answer(corpus, unit.example, Prediction(label)), unit, arm="arm")
            for unit, label in zip(units(corpus, rows), labels, strict=True)
        ]
    )


def test_precision_passes_over_unread_answers_and_recall_does_not():
    gold = [example(str(i), Triple("a", "R", str(i))) for i in range(4)]
    out = outcomes(gold, [[Triple("A ", "r", "0")], [Triple("a", "R", "9")], None, None])
    scores = [out.score(m, "arm") for m in MEASURES]
    assert [s.value for s in scores] == pytest.approx([1 / 2, 1 / 4, 1 / 3])
    assert [s.n for s in scores] == [2, 4, 4]
    assert [s.unparsed for s in scores] == [0, 2, 2]


@given(
    st.lists(
        st.tuples(
            st.lists(SMALL, min_size=1, max_size=2, unique=True),
            st.none() | st.lists(SMALL, min_size=1, max_size=2, unique=True),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_scores_are_those_of_counting_and_no_part_is_harder_than_the_whole(rows):
    gold = [example(str(i), *triples) for i, (triples, _) in enumerate(rows)]
    out = outcomes(gold, [answer for _, answer in rows])
    hits = sum(len(set(triples) & set(answer or ())) for triples, answer in rows)
    n_answered = sum(len(answer or ()) for _, answer in rows)
    n_gold = sum(len(triples) for triples, _ in rows)
    assert out.score("recall", "arm").value == pytest.approx(hits / n_gold)
    assert out.score("f1", "arm").value == pytest.approx(2 * hits / (n_answered + n_gold))
    if n_answered:
        assert out.score("precision", "arm").value == pytest.approx(hits / n_answered)
    if all(len(triples) == 1 and len(answer or [0]) == 1 for triples, answer in rows):
        for part in ("head", "tail", "relation"):
            assert out.score(f"{part}_f1", "arm").value >= out.score("f1", "arm").value
    assert out.score("right", "arm").value * len(rows) <= hits


@given(st.lists(st.tuples(st.sampled_from("XYZ"), st.sampled_from("XYZ")), min_size=1, max_size=20))
def test_with_one_label_a_row_the_three_scores_are_the_accuracy(pairs):
    gold = [Example(str(i), str(i), label, ()) for i, (label, _) in enumerate(pairs)]
    out = labelled(gold, [answer for _, answer in pairs])
    accuracy = sum(label == answer for label, answer in pairs) / len(pairs)
    assert [out.score(m, "arm").value for m in (*MEASURES, "right")] == pytest.approx(
        [accuracy] * 4
    )


def test_rows_of_one_text_are_drawn_together():
    """Ten copies of one row, blanks and case aside, say no more than one does: the interval is that of few texts."""
    apart = [Example(str(i), str(i), "X" if i % 2 else "Y", ()) for i in range(40)]
    copies = [
        Example(str(i), f"a{' ' * (i % 10 + 1)}B {i // 10}", "X" if i // 10 % 2 else "Y", ())
        for i in range(40)
    ]
    of_rows, of_texts = (labelled(rows, ["X"] * 40).score("f1", "arm") for rows in (apart, copies))
    assert of_texts.high - of_texts.low > 1.5 * (of_rows.high - of_rows.low)


def test_names_are_compared_without_case():
    assert part_items([Triple("A  b", "R", "c")], "triple") == part_items(
        [Triple("a B", "r", "C")], "triple"
    )
