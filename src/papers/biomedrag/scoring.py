"""Answers read strictly, and micro precision, recall and F1 as biomedrag.md counts them (section 4.4, Table 3).

An answer that cannot be read answers nothing: it lowers recall and not precision. Where every answer gives one label,
precision, recall and F1 are one number, the accuracy. Rows of the same text belong together in each bootstrap and test,
for the data sets repeat their texts; case and runs of white space do not tell texts apart.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final, Literal, get_args

import numpy as np

from helpers.results.metrics import DRAWS, Floats, Paired, Score, binary_scores, mcnemar, paired_means, proportion
from papers.biomedrag.corpora import Example, Triple

Part = Literal["triple", "head", "tail", "relation"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
"""What Table 3 scores apart."""
MEASURES: Final = ("precision", "recall", "f1")

Scores = dict[str, Score]
"""precision, recall, f1."""


def parse_triples(answer: str) -> list[Triple] | None:
    """The triples of an answer: one `head|relation|tail` a line, and nothing else.

    Returns:
        The triples without repeats, in their order; None if there is none or a line is something else.
    """
    triples = []
    for line in filter(None, map(str.strip, answer.splitlines())):
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3 or not all(parts):
            return None
        triples.append(Triple(*parts))
    return list(dict.fromkeys(triples)) or None


def parse_label(answer: str, labels: Sequence[str]) -> str | None:
    """The label that an answer is, whatever its case; a full stop after it is passed over. None if it is no label."""
    known = {_same(label): label for label in labels}
    told = _same(answer)
    return known.get(told, known.get(_same(told.removesuffix("."))))


def score_triples(
    gold: Sequence[Example],
    answers: Sequence[Sequence[Triple] | None],
    part: Part = "triple",
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Scores:
    """Micro-averaged scores of triples or of one part of them, with 95 % intervals from a bootstrap over texts.

    Names are compared without case and runs of white space, as the authors' evaluation does.

    Args:
        gold: (n,) rows with their triples.
        answers: (n,) the triples answered; None if the answer could not be read.
        part: the whole triple, or its head, tail or relation (Table 3).
        draws: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        ValueError: lengths differ, or there are no rows.
    """
    return _score(
        texts(gold),
        [{_part(triple, part) for triple in example.triples} for example in gold],
        [None if answer is None else {_part(triple, part) for triple in answer} for answer in answers],
        draws,
        seed,
    )


def score_parts(
    gold: Sequence[Example], answers: Sequence[Sequence[Triple] | None], *, draws: int = DRAWS, seed: int = 0
) -> dict[Part, Scores]:
    """The scores of the triple and of each of its parts (Table 3)."""
    return {part: score_triples(gold, answers, part, draws=draws, seed=seed) for part in PARTS}


def score_labels(
    gold: Sequence[Example], answers: Sequence[str | None], *, draws: int = DRAWS, seed: int = 0
) -> Scores:
    """Micro-averaged scores of labels (Tables 1 (2) and 2), with 95 % intervals from a bootstrap over texts.

    Args:
        gold: (n,) rows with their label.
        answers: (n,) labels; None if the answer could not be read as one.
        draws: of the bootstrap.
        seed: of the bootstrap.

    Raises:
        ValueError: lengths differ, or there are no rows.
    """
    return _score(
        texts(gold),
        [{example.label} for example in gold],
        [None if answer is None else {answer} for answer in answers],
        draws,
        seed,
    )


def right(gold: Sequence[Example], answers: Sequence[str | None]) -> list[bool]:
    """Whether each label is right, for a paired test of two arms."""
    return [example.label == answer for example, answer in zip(gold, answers, strict=True)]


def right_triples(gold: Sequence[Example], answers: Sequence[Sequence[Triple] | None]) -> list[bool]:
    """Whether each row's triples are exactly those answered, for a paired test of two arms."""
    return [
        answer is not None and items(answer) == items(example.triples)
        for example, answer in zip(gold, answers, strict=True)
    ]


def texts(rows: Sequence[Example]) -> list[str]:
    """The text of each row, by which rows belong together."""
    return [_same(row.text) for row in rows]


def shared_texts(rows: Sequence[Example]) -> list[str] | None:
    """The text of each row if any two rows share one, else None: then rows are independent."""
    of_rows = texts(rows)
    return of_rows if len(set(of_rows)) < len(of_rows) else None


def compare(
    first: Sequence[bool], second: Sequence[bool], clusters: Sequence[str] | None, draws: int = DRAWS
) -> Paired:
    """Two arms on the same rows: McNemar's exact test, or a randomisation test over texts where rows share one.

    Args:
        first: (n,) whether the first arm is right.
        second: (n,) whether the second arm is right.
        clusters: (n,) the texts; None if each row has its own (`shared_texts`).
        draws: of the randomisation and of its bootstrap.
    """
    of_rows = mcnemar(first, second)
    if clusters is None:
        return of_rows
    of_texts = paired_means(first, second, clusters=clusters, draws=draws)
    # a bootstrap over few differing rows is too narrow, the exact interval blind to texts: the wider of both holds
    return replace(of_texts, low=min(of_texts.low, of_rows.low), high=max(of_texts.high, of_rows.high))


def f1_gain(
    gold: Sequence[AbstractSet[Hashable]],
    first: Sequence[AbstractSet[Hashable]],
    second: Sequence[AbstractSet[Hashable]],
    clusters: Sequence[str],
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> Score:
    """Micro F1 of one arm less that of another on the same rows, as a fraction, bootstrapped over texts.

    Args:
        gold: (n,) true items of each row.
        first: (n,) items that the first arm answered; an unread answer is empty.
        second: (n,) items that the second arm answered.
        clusters: (n,) the texts.
        draws: of the bootstrap.
        seed: of the bootstrap.
    """
    names, of_row = np.unique(np.array(clusters, dtype=object).astype(str), return_inverse=True)
    counts = np.zeros((len(names), 4))
    for row, (truth, a, b) in zip(of_row, zip(gold, first, second, strict=True), strict=True):
        counts[row] += (len(truth & a), len(truth) + len(a), len(truth & b), len(truth) + len(b))

    def gain(summed: Floats) -> Floats:
        return 2 * summed[..., 0] / summed[..., 1] - 2 * summed[..., 2] / summed[..., 3]

    value = float(gain(counts.sum(axis=0)))
    drawn = np.random.default_rng(seed).multinomial(len(names), np.full(len(names), 1 / len(names)), size=draws)
    low, high = (float(bound) for bound in np.percentile(gain(drawn @ counts), [2.5, 97.5]))
    if low == high == 0:
        # where no row is right in one arm alone, either may be the better one by as much
        high = proportion(0, len(names)).high
        low = -high
    return Score(value, len(gold), min(low, value), max(high, value))


def _score(
    clusters: Sequence[str],
    gold: Sequence[AbstractSet[Hashable]],
    answers: Sequence[AbstractSet[Hashable] | None],
    draws: int,
    seed: int,
) -> Scores:
    told = [
        (item in truth, item in (answer or ()), text)
        for text, truth, answer in zip(clusters, gold, answers, strict=True)
        for item in sorted(truth | (answer or frozenset()), key=repr)
    ]
    if not told:
        raise ValueError("There is nothing to score: no row was given.")
    y_true, y_pred, of_item = zip(*told, strict=True)
    scores = binary_scores(y_true, y_pred, clusters=of_item, draws=draws, seed=seed)
    unparsed = sum(answer is None for answer in answers)
    named = {"precision": scores["precision"], "recall": scores["sensitivity"], "f1": scores["f1"]}
    # the n of F1 is the number of rows, which is what the paper's tables are counted on
    named["f1"] = replace(named["f1"], n=len(clusters))
    return {name: replace(score, unparsed=unparsed) for name, score in named.items()}


def items(triples: Sequence[Triple]) -> frozenset[Hashable]:
    """Triples as they are compared: without case and runs of white space."""
    return frozenset(_part(triple, "triple") for triple in triples)


def _part(triple: Triple, part: Part) -> Hashable:
    head, relation, tail = (_same(text) for text in (triple.head, triple.relation, triple.tail))
    return {"triple": (head, relation, tail), "head": head, "tail": tail, "relation": relation}[part]


def _same(text: str) -> str:
    """A text without what does not tell it apart."""
    return " ".join(text.casefold().split())
