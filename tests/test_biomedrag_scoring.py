"""How answers are read and counted in biomedrag.md (section 4.4, Table 3)."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from papers.biomedrag.corpora import Example, Triple
from papers.biomedrag.scoring import (
    MEASURES,
    compare,
    f1_gain,
    items,
    parse_label,
    parse_triples,
    right,
    right_triples,
    score_labels,
    score_parts,
    score_triples,
    shared_texts,
)

NAME = st.text(st.characters(blacklist_characters="|", blacklist_categories=("Cc", "Zl", "Zp")), min_size=1).filter(
    lambda text: text == text.strip() and len(text.splitlines()) == 1
)
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
    ["", "  \n ", "a|R", "a|R|b|c", "a||b", "a|R|b|", "The triple is a|R", "a|R|b\nI hope this helps", "(a, R, b)"],
)
def test_anything_else_is_not_read(answer: str):
    assert parse_triples(answer) is None


@given(st.text())
def test_reading_never_fails_and_never_gives_an_empty_part(answer: str):
    for triple in parse_triples(answer) or []:
        assert triple.head
        assert triple.relation
        assert triple.tail


@pytest.mark.parametrize(
    ("answer", "label"),
    [("TREATS", "TREATS"), (" treats. ", "TREATS"), ("not  Related", "not related"), ("It TREATS", None), ("", None)],
)
def test_a_label_is_read_only_if_it_stands_alone(answer: str, label: str | None):
    assert parse_label(answer, ["TREATS", "not related", "related"]) == label


def test_precision_passes_over_unread_answers_and_recall_does_not():
    gold = [example(str(i), Triple("a", "R", str(i))) for i in range(4)]
    answers = [[Triple("A ", "r", "0")], [Triple("a", "R", "9")], None, None]
    scores = score_triples(gold, answers)
    assert [scores[m].value for m in MEASURES] == pytest.approx([1 / 2, 1 / 4, 1 / 3])
    assert [scores[m].n for m in MEASURES] == [2, 4, 4]
    assert {scores[m].unparsed for m in MEASURES} == {2}


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
@settings(deadline=None, max_examples=50)
def test_scores_are_those_of_counting_and_no_part_is_harder_than_the_whole(rows):
    gold = [example(str(i), *triples) for i, (triples, _) in enumerate(rows)]
    answers = [answer for _, answer in rows]
    scores = score_parts(gold, answers, draws=100)
    hits = sum(len(set(triples) & set(answer or ())) for triples, answer in rows)
    found = sum(len(answer or ()) for _, answer in rows)
    wanted = sum(len(triples) for triples, _ in rows)
    whole = scores["triple"]
    assert whole["recall"].value == pytest.approx(hits / wanted)
    assert whole["precision"].value == pytest.approx(hits / found if found else 0)
    assert whole["f1"].value == pytest.approx(2 * hits / (found + wanted))
    for score in (score for of_part in scores.values() for score in of_part.values()):
        assert 0 <= score.low <= score.value <= score.high <= 1
        assert score.unparsed == answers.count(None)
    if all(len(triples) == 1 and len(answer or [0]) == 1 for triples, answer in rows):
        for part in ("head", "tail", "relation"):
            assert scores[part]["f1"].value >= whole["f1"].value
    assert sum(right_triples(gold, answers)) <= hits


@given(st.lists(st.tuples(st.sampled_from("XYZ"), st.sampled_from("XYZ")), min_size=1, max_size=20))
@settings(deadline=None, max_examples=30)
def test_with_one_label_a_row_the_three_scores_are_the_accuracy(pairs):
    gold = [Example(str(i), str(i), label, ()) for i, (label, _) in enumerate(pairs)]
    answers = [answer for _, answer in pairs]
    scores = score_labels(gold, answers, draws=100)
    accuracy = sum(right(gold, answers)) / len(gold)
    assert [scores[m].value for m in MEASURES] == pytest.approx([accuracy] * 3)


def test_rows_of_one_text_are_drawn_together():
    """Ten copies of one row say no more than one does: the interval is as wide as that of few texts."""
    answers = ["X"] * 40
    apart = [Example(str(i), str(i), "X" if i % 2 else "Y", ()) for i in range(40)]
    together = [Example(str(i), str(i // 10), "X" if i // 10 % 2 else "Y", ()) for i in range(40)]
    width = {
        name: (s := score_labels(rows, answers)["f1"]).high - s.low
        for name, rows in {"apart": apart, "together": together}.items()
    }
    assert width["together"] > 1.5 * width["apart"]


def test_blanks_and_case_do_not_tell_texts_apart():
    """ChemProt repeats a sentence with other blanks for each pair: these rows are no new evidence."""
    answers = ["X"] * 40
    marked = [Example(str(i), f"a{' ' * (i % 10 + 1)}B {i // 10}", "X" if i // 10 % 2 else "Y", ()) for i in range(40)]
    plain = [Example(e.id, " ".join(e.text.split()), e.label, ()) for e in marked]
    assert score_labels(marked, answers) == score_labels(plain, answers)


def test_arms_are_compared_by_text_where_rows_share_one():
    ours = [True] * 12 + [False] * 28
    theirs = [False] * 40
    apart = [Example(str(i), str(i), "X", ()) for i in range(40)]
    assert shared_texts(apart) is None
    of_rows = compare(ours, theirs, shared_texts(apart))
    assert of_rows.p < 0.001
    together = shared_texts([Example(str(i), f"text {i // 12}", "X", ()) for i in range(40)])
    of_texts = compare(ours, theirs, together, 500)
    # all twelve rows are of one text, whose sign alone is turned
    assert of_texts.p > 0.9
    assert of_texts.low <= of_rows.low <= of_rows.high <= of_texts.high


def test_few_differing_rows_leave_the_interval_wide():
    """Of sixteen rows one differs: a bootstrap would bar any gain, the exact interval does not."""
    ours, theirs = [True] + [False] * 15, [True, True] + [False] * 14
    texts = ["one", "one", *map(str, range(14))]
    assert compare(ours, theirs, texts, 500).high > 0.02


@given(
    st.lists(st.tuples(*[st.sets(st.sampled_from("abc"), max_size=2)] * 2), min_size=1, max_size=12),
    st.integers(1, 4),
)
@settings(deadline=None, max_examples=40)
def test_the_gain_in_f1_is_the_difference_of_the_two_scores(rows, texts):
    gold = [frozenset("a") for _ in rows]
    first, second = ([frozenset(row[i]) for row in rows] for i in (0, 1))

    def f1(answers):
        return 2 * sum(len(g & a) for g, a in zip(gold, answers, strict=True)) / sum(1 + len(a) for a in answers)

    gain = f1_gain(gold, first, second, [str(i % texts) for i in range(len(rows))], draws=100)
    assert gain.value == pytest.approx(f1(first) - f1(second))
    assert gain.low <= gain.value <= gain.high
    back = f1_gain(gold, second, first, [str(i % texts) for i in range(len(rows))], draws=100)
    assert (back.low, back.high) == pytest.approx((-gain.high, -gain.low))


def test_arms_that_are_equally_wrong_may_still_differ():
    gold = [frozenset("a")] * 20
    gain = f1_gain(gold, [frozenset("b")] * 20, [frozenset("c")] * 20, [str(i) for i in range(20)], draws=100)
    assert gain.value == 0
    assert gain.low < -0.05 < 0.05 < gain.high


def test_names_are_compared_without_case():
    assert items([Triple("A  b", "R", "c")]) == items([Triple("a B", "r", "C")])


def test_nothing_cannot_be_scored():
    with pytest.raises(ValueError, match="nothing to score"):
        score_labels([], [])
