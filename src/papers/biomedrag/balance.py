"""Floors and ceilings of the data of biomedrag.md, and the digits of printed proportions.

A floor answers the same to all. A ceiling is what one answer to each text can reach where rows
repeat a text with different answers. The digits of a printed proportion say whether it can have
been counted on so many rows.
"""

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import binom

from evaluation import figures
from evaluation.metrics import Score, proportion
from evaluation.published import Number, Published
from papers.biomedrag.arms import input_text
from papers.biomedrag.corpora import KEYS, Corpus, Example
from papers.biomedrag.floors import marks_the_pair
from papers.biomedrag.scoring import same_text


def floor(corpus: Corpus) -> tuple[str, Score]:
    """Return the commonest label of training, and its share of the test.

    Without training rows, the label is the commonest of the test.
    """
    counts = Counter(example.label for example in corpus.train or corpus.test)
    label = counts.most_common(1)[0][0]
    n_right = sum(example.label == label for example in corpus.test)
    return label, proportion(n_right, len(corpus.test))


def ceiling(corpus: Corpus, *, blanks: bool = False) -> Score:
    """Return the share of the test that one answer a text can have right.

    Args:
        corpus: The data set.
        blanks: Whether texts that differ in white space or case are different texts.
    """
    answers: dict[str, Counter[Hashable]] = defaultdict(Counter)
    for example in corpus.test:
        text = input_text(example, corpus.task)
        key = text if blanks else same_text(text)
        answers[key][example.label, example.triples] += 1
    commonest = [max(counts.values()) for counts in answers.values()]
    n_right = sum(commonest)
    return proportion(n_right, len(corpus.test))


def interacting(corpus: Corpus) -> Corpus:
    """Return DDI with only the rows that state an interaction."""
    train = tuple(example for example in corpus.train if example.label != "None")
    test = tuple(example for example in corpus.test if example.label != "None")
    return replace(corpus, train=train, test=test)


def balance_table(corpora: Mapping[str, Corpus], printed: Published) -> pd.DataFrame:
    """List floors and ceilings, and the F1 printed for LLaMA2 13B with BiomedRAG.

    Texts are compared without case and runs of white space. As released, white space tells them
    apart: in GIT and ChemProt it sets the two entities of the row off, and so gives away which pair
    the row is about.

    Args:
        corpora: The data sets, by the name that the table shows.
        printed: The paper's numbers.
    """
    return pd.DataFrame([_balance_row(name, corpora[name], printed) for name in corpora])


def _balance_row(name: str, corpus: Corpus, printed: Published) -> dict[str, Any]:
    label, share = floor(corpus)
    n = len(corpus.test)
    row = {
        "data": name,
        "test rows": n,
        "labels": len({example.label for example in corpus.test}),
        "most common label": label,
        "its share (floor)": share,
        "ceiling, one answer per text": ceiling(corpus),
        "ceiling, white space and case kept": ceiling(corpus, blanks=True),
        "texts also in training": _share_in_training(corpus),
        "printed F1, LLaMA2 13B + BiomedRAG": _printed_f1(printed, corpus),
    }
    if corpus.task == "triples":
        n_marked = sum(map(marks_the_pair, corpus.test))
        row["blanks mark exactly the gold pair"] = proportion(n_marked, n)
    return row


def _share_in_training(corpus: Corpus) -> Score | None:
    """Return the share of test rows whose text is in training; None without training rows."""
    known = {_compared_text(example, corpus) for example in corpus.train}
    if not known:
        return None
    n_known = sum(_compared_text(example, corpus) in known for example in corpus.test)
    return proportion(n_known, len(corpus.test))


def _compared_text(example: Example, corpus: Corpus) -> str:
    return same_text(input_text(example, corpus.task))


def _printed_f1(printed: Published, corpus: Corpus) -> str:
    ending = f".llama2_br.{KEYS[corpus.name]}_f1"
    return next(number.printed for number in printed.numbers if number.id.endswith(ending))


def possible(recalls: Iterable[float], n: int) -> tuple[list[float], float]:
    """Find the recalls that are a whole number of n rows, by the GRIM test of Brown and Heathers.

    The paper cuts digits off in some places and rounds in others; both count.

    Args:
        recalls: Recalls in per cent, to two decimals.
        n: Number of rows.

    Returns:
        The distinct recalls that are possible, and how many would be by chance.
    """
    exact = 10_000 * np.arange(n + 1) / n
    cut = {int(value) for value in np.floor(exact + 1e-6)}
    rounded = {int(value) for value in np.floor(exact + 0.5)}
    reachable = cut | rounded
    distinct = sorted(set(recalls))
    attainable = [recall for recall in distinct if round(100 * recall) in reachable]
    return attainable, len(distinct) * len(reachable) / 10_001


def digits_table(
    printed: Published, names: Sequence[str], others: Mapping[str, tuple[int, str]] | None = None
) -> pd.DataFrame:
    """Compare the printed recalls of Tables 1 to 3 with the test sizes that the paper states.

    Whole per cents are not counted, for they may be rounded ones, and neither is OneRel, whose
    columns are out of order: its recall is its second or third column. Two columns list them.

    Args:
        printed: The paper's numbers.
        names: The data sets.
        others: For a data set, another count of rows to compare with, and what they are.
    """
    other_counts = others or {}
    rows = []
    for name in names:
        counts = [other_counts[name]] if name in other_counts else []
        rows += _digits_rows(printed, name, counts)
    table = pd.DataFrame(rows)
    empty = [column for column in (_WHOLE_PERCENTS, _ONEREL) if not any(table[column])]
    return table.drop(columns=empty)


def _digits_rows(
    printed: Published, name: str, others: Sequence[tuple[int, str]]
) -> list[dict[str, Any]]:
    """Compare the recalls of a data set with its test size and with other counts of rows."""
    numbers = _recall_numbers(printed, KEYS[name])
    values = {_in_percent(number) for number in numbers}
    recalls = {value for value in values if not float(value).is_integer()}
    onerel = _onerel_columns(printed, KEYS[name])
    rows = []
    for n, what in [(numbers[0].n or 0, "the paper's number of test rows"), *others]:
        row = {"data": name, "rows": f"{n:,}, {what}", **_digits_row(recalls, n)}
        row[_WHOLE_PERCENTS] = _percents(values - recalls)
        row[_ONEREL] = _attainable_of(onerel, n)
        rows.append(row)
    return rows


_WHOLE_PERCENTS: Final = "not counted, whole percentages"
_ONEREL: Final = "not counted, OneRel's second and third column"


def _in_percent(number: Number) -> float:
    return round(100 * number.value, 2)


def _percents(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.2f}" for value in sorted(values))


def _onerel_columns(printed: Published, key: str) -> list[float]:
    """Return OneRel's second and third number on a data set, one of which is its recall."""
    ids = (f"biomedrag.table1.onerel.{key}_{column}" for column in ("recall", "f1"))
    numbers = {number.id: number for number in printed.numbers}
    return [_in_percent(numbers[id_]) for id_ in ids if id_ in numbers]


def _attainable_of(values: Sequence[float], n: int) -> str:
    """Say which of some values is a whole number of n rows: `81.07 no, 22.09 yes`."""
    attainable, _ = possible(values, n)
    return ", ".join(f"{value:.2f} {'yes' if value in attainable else 'no'}" for value in values)


def _recall_numbers(printed: Published, key: str) -> list[Number]:
    numbers = []
    for number in printed.numbers:
        if not number.id.endswith("recall") or "onerel" in number.id:
            continue
        in_table_3 = number.table == "Table 3" and f"_{key}." in number.id
        if in_table_3 or f".{key}_recall" in number.id:
            numbers.append(number)
    return numbers


def _digits_row(recalls: set[float], n: int) -> dict[str, Any]:
    attainable, by_chance = possible(recalls, n)
    unattainable = sorted(recalls - set(attainable))
    p = 1.0
    if recalls:
        p = float(binom.sf(len(attainable) - 1, len(recalls), by_chance / len(recalls)))
    return {
        "printed recalls": len(recalls),
        "attainable with these rows": len(attainable),
        "expected by chance": f"{by_chance:.1f}",
        "p": figures.p_text(p),
        "unattainable": _percents(unattainable),
    }
