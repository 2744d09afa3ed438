"""What the data of biomedrag.md decide before any model does: class balance, repeats, overlap, and printed digits.

A floor answers the same to all. A ceiling is what one answer to each text can reach where rows repeat a text with
different answers. The digits of a printed proportion say whether it can have been counted on so many rows.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from scipy.stats import binom

from helpers.results import figures
from helpers.results.metrics import Score, proportion
from helpers.results.published import Number, Published
from papers.biomedrag.corpora import Corpus, Example

KEYS: Final = {
    "GIT": "git",
    "DDI": "ddi",
    "ChemProt": "chemprot",
    "GIT-RE": "git_re",
    "ADE-corpus-v2": "ade",
    "MTSamples": "mtsamples",
    "UMLS": "umls",
    "ADInt": "adint",
}
"""How the ids of printed numbers name each data set."""
NO_RELATION: Final = "None"
"""The label of a DDI pair whose sentence states no interaction."""


@dataclass(frozen=True)
class Balance:
    """What the splits of one data set hold.

    Attributes:
        name: of the data set.
        rows: of the test.
        texts: distinct texts of the test.
        repeats: rows that repeat an earlier one, text and answer.
        shares: each label's share of the test, the largest first.
        floor_label: the commonest label of training, or of the test where no training is at hand.
        floor: share of the test with that label: what always answering it reaches.
        ceiling: share of the test that one answer to each text can have right.
        ceiling_as_released: the same where runs of white space tell texts apart; in GIT and ChemProt they set the two
            entities of the row off, and so give away which pair is asked for.
        in_training: share of test rows whose text is in training; None where no training is at hand.
        same_answer: of these, the share whose own answer stands there too.
        other_answer: of these, the share that has only other answers there.
        in_validation: share of test rows whose text is in validation; None where it is not released.
    """

    name: str
    rows: int
    texts: int
    repeats: int
    shares: dict[str, float]
    floor_label: str
    floor: Score
    ceiling: Score
    ceiling_as_released: Score
    in_training: Score | None
    same_answer: Score | None
    other_answer: Score | None
    in_validation: Score | None

    @property
    def key(self) -> str:
        """The data set in ids."""
        return KEYS[self.name]


def balance(corpus: Corpus) -> Balance:
    """Count a data set. Texts are compared without case and runs of white space."""
    counted = Counter(e.label for e in corpus.test)
    known = Counter(e.label for e in corpus.train) or counted
    floor_label = known.most_common(1)[0][0]
    answers_of: dict[str, Counter[Hashable]] = defaultdict(Counter)
    marked: dict[str, Counter[Hashable]] = defaultdict(Counter)
    for example in corpus.test:
        seen = _seen(example, corpus)
        answers_of[seen][_answer(example)] += 1
        marked[f"{seen}\n{example.text}"][_answer(example)] += 1
    reachable, reachable_marked = (sum(max(of.values()) for of in texts.values()) for texts in (answers_of, marked))
    rows = len(corpus.test)
    training: dict[str, set[Hashable]] = defaultdict(set)
    for example in corpus.train:
        training[_seen(example, corpus)].add(_answer(example))
    met = [e for e in corpus.test if _seen(e, corpus) in training]
    same = sum(_answer(e) in training[_seen(e, corpus)] for e in met)
    validation = {_seen(e, corpus) for e in corpus.validation}
    return Balance(
        name=corpus.name,
        rows=rows,
        texts=len(answers_of),
        repeats=rows - sum(len(of) for of in answers_of.values()),
        shares={label: count / rows for label, count in counted.most_common()},
        floor_label=floor_label,
        floor=proportion(counted[floor_label], rows),
        ceiling=proportion(reachable, rows),
        ceiling_as_released=proportion(reachable_marked, rows),
        in_training=proportion(len(met), rows) if corpus.train else None,
        same_answer=proportion(same, len(met)) if met else None,
        other_answer=proportion(len(met) - same, len(met)) if met else None,
        in_validation=proportion(sum(_seen(e, corpus) in validation for e in corpus.test), rows)
        if validation
        else None,
    )


def related(corpus: Corpus) -> tuple[Example, ...]:
    """The test rows that state a relation: all but those of the label None."""
    return tuple(e for e in corpus.test if e.label != NO_RELATION)


def _seen(example: Example, corpus: Corpus) -> str:
    """What a model is given: the text, and the pair where the task gives it."""
    pair = [name for t in example.triples for name in (t.head, t.tail)] if corpus.task == "relations" else []
    return " ".join(" ".join([example.text, *pair]).casefold().split())


def _answer(example: Example) -> Hashable:
    return (example.label, example.triples)


# ------------------------------------------------------------------------------------------------------- in tables


def balance_table(balances: Iterable[Balance], printed: Published) -> pd.DataFrame:
    """Floors and ceilings beside the F1 that the paper prints for LLaMA2 13B with BiomedRAG."""
    return pd.DataFrame(
        [
            {
                "data": b.name,
                "test rows": b.rows,
                "labels": len(b.shares),
                "always": b.floor_label,
                "is right in": b.floor,
                "one answer a text, at most": b.ceiling,
                "the same, white space as released": b.ceiling_as_released,
                "printed F1, LLaMA2 13B + BiomedRAG": best_printed(printed, b).printed,
            }
            for b in balances
        ]
    )


def overlap_table(balances: Iterable[Balance]) -> pd.DataFrame:
    """How often the test repeats itself, training and validation."""
    return pd.DataFrame(
        [
            {
                "data": b.name,
                "test rows": b.rows,
                "distinct texts": b.texts,
                "rows twice": b.repeats,
                "text in training": b.in_training,
                "its answer there too": b.same_answer,
                "text in validation": b.in_validation,
            }
            for b in balances
        ]
    )


def best_printed(printed: Published, balance: Balance) -> Number:
    """The printed F1 of LLaMA2 13B with BiomedRAG on a data set."""
    table = "table2" if balance.key in ("ade", "mtsamples", "umls", "adint") else "table1"
    return printed.number(f"biomedrag.{table}.llama2_br.{balance.key}_f1")


# ------------------------------------------------------------------------------------------------- printed digits


@dataclass(frozen=True)
class Grain:
    """Whether printed recalls can be so many of n rows, to the last digit.

    Attributes:
        name: of the data set.
        n: rows.
        what: which rows these are.
        printed: distinct recalls looked at.
        possible: those that are some whole number of n rows, rounded or cut off.
        by_chance: how many of them would be, if their last digits fell anyhow.
        p: chance of at least so many.
    """

    name: str
    n: int
    what: str
    printed: tuple[float, ...]
    possible: tuple[float, ...]
    by_chance: float
    p: float


def grain(name: str, recalls: Iterable[float], n: int, what: str) -> Grain:
    """Which of some recalls, in per cent to two decimals, are a whole number of n rows (Brown and Heathers' GRIM test).

    Args:
        name: of the data set.
        recalls: in per cent.
        n: rows.
        what: which rows these are, in words.
    """
    hits = np.arange(n + 1)
    exact = 10_000 * hits / n
    # the paper cuts digits off in some places and rounds in others
    reachable = {int(x) for x in np.floor(exact + 1e-6)} | {int(x) for x in np.floor(exact + 0.5)}
    looked_at = tuple(sorted(set(recalls)))
    possible = tuple(x for x in looked_at if round(100 * x) in reachable)
    chance = len(reachable) / 10_001
    p = float(binom.sf(len(possible) - 1, len(looked_at), chance)) if looked_at else 1.0
    return Grain(name, n, what, looked_at, possible, chance * len(looked_at), p)


def grains(printed: Published, others: Mapping[str, tuple[int, str]] | None = None) -> list[Grain]:
    """The printed recalls of Tables 1 to 3 against the test sizes that the paper states.

    Left out are whole per cents, which may be rounded ones, and OneRel, whose columns are out of order.

    Args:
        printed: the paper's numbers.
        others: for a data set, another count of rows to hold against, and what they are.
    """
    found = []
    for name, key in KEYS.items():
        numbers = [
            n
            for n in printed.numbers
            if n.id.endswith("recall")
            and "onerel" not in n.id
            and (f".{key}_recall" in n.id or (n.table == "Table 3" and f"_{key}." in n.id))
        ]
        recalls = [round(100 * n.value, 2) for n in numbers if not float(round(100 * n.value, 2)).is_integer()]
        stated = numbers[0].n or 0
        found.append(grain(name, recalls, stated, "test size of Tables 5 and 6"))
        for n, what in filter(None, [(others or {}).get(name)]):
            found.append(grain(name, recalls, n, what))
    return found


def grains_table(found: Iterable[Grain]) -> pd.DataFrame:
    """One row a data set and n."""
    return pd.DataFrame(
        [
            {
                "data": g.name,
                "rows": f"{g.n:,}, {g.what}",
                "printed recalls": len(g.printed),
                "a whole number of these rows": len(g.possible),
                "expected by chance": f"{g.by_chance:.1f}",
                "p": figures.p_text(g.p),
            }
            for g in found
        ]
    )


def impossible_words(found: Iterable[Grain]) -> str:
    """Which printed recalls are no whole number of the rows, in Markdown."""
    said = []
    for g in found:
        odd = ", ".join(f"{x:.2f}" for x in g.printed if x not in g.possible)
        said.append(f"{g.name}, {g.n:,} rows: {odd or 'none'}.")
    return f"Printed recalls (in per cent) that no count of the rows gives, rounded or cut off: {' '.join(said)}"
