"""Scores with their n and 95 % interval; a column that cannot be used is a ValueError that says why.

A proportion has a Wilson interval; all else, and what is clustered, a percentile bootstrap interval. Each contains its
value. Where every draw gives the same 0 or 1, it is Wilson's over the units: 100 % on 976 drugs is not certainty.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit, logit
from scipy.stats import norm, rankdata
from statsmodels.stats.proportion import proportion_confint

from evaluation.measures import set_measures

CONFIDENCE = 0.95
ALPHA = 0.05
"""Level of significance of all tests."""
Z = float(
    norm.ppf(0.5 + CONFIDENCE / 2)
)  # standard errors from the middle of a 95 % interval to its ends
DRAWS = 2000
BLOCK = 2**23  # numbers that a resampling holds in memory: 64 MiB
Column: TypeAlias = "Sequence[Any] | NDArray[Any] | pd.Series"  # one value a row
Floats = NDArray[np.float64]
Statistic = Callable[[Floats], float]


@dataclass(frozen=True, slots=True)
class Score:
    """One measured value with its 95 % interval; `n` is a proportion's denominator, the number of rows otherwise."""

    value: float
    n: int
    low: float
    high: float
    unparsed: int = 0


def proportion(k: int, n: int, *, unparsed: int = 0) -> Score:
    """`k` of `n` with the Wilson score interval."""
    if n < 1 or not 0 <= k <= n:
        raise ValueError(
            f"A proportion needs 0 <= k <= n and n >= 1; found k={k}, n={n}. Count the rows first."
        )
    return Score(k / n, n, *wilson(k, n), unparsed)


def ratio(
    top: Column, bottom: Column, *, clusters: Column | None = None, draws: int = DRAWS
) -> Score:
    """The sum of the (n,) tops over that of the (n,) bottoms: a mean, a precision, a micro-F1, a weighted mean."""
    units, tops, bottoms = validate_columns(clusters, draws, tops=top, bottoms=bottom)
    if not bottoms.sum():  # 0 by custom
        return Score(0.0, len(tops), 0.0, 1.0)
    if len(np.unique(units)) == len(tops) and (bottoms == 1).all() and np.isin(tops, (0, 1)).all():
        return proportion(int(tops.sum()), len(tops))
    sums = sum_by_unit(units, tops, bottoms)
    value = float(sums[:, 0].sum() / sums[:, 1].sum())
    fraction = bool(((tops >= 0) & (tops <= bottoms)).all())
    if fraction and value in (0.0, 1.0):  # every draw gives that value
        many = int((sums[:, 1] > 0).sum())
        return Score(value, len(tops), *wilson(value * many, many))
    drawn, below = resample_sums(sums, draws).T
    bounds = (0.0, 1.0) if fraction else (-np.inf, np.inf)
    return Score(
        value, len(tops), *percentiles(value, drawn[below > 0] / below[below > 0], *bounds)
    )


def auc(y_true: Column, p_yes: Column, *, clusters: Column | None = None) -> Score:
    """Area under the ROC curve: how well (n,) scores that are higher for YES order the (n,) labels True and False.

    The interval is DeLong's on the logit scale, with clusters Obuchowski's (1997). A perfect order has no variance, nor
    has one unit of a label; the interval is then Wilson's over the units of the rarer label.
    """
    units, p, labels = validate_columns(
        clusters, p_yes=p_yes, y_true=true_or_false(y_true, "y_true")
    )
    truth = labels.astype(bool)
    yes, no = int(truth.sum()), int((~truth).sum())
    if not yes or not no:
        raise ValueError(f"AUC needs rows of both labels; found {yes} YES and {no} NO.")
    # each row's placement: the share of the other label's rows that it is on the right side of, ties counting half
    placement = np.empty(len(p))
    ranks = rankdata(p)
    placement[truth] = (ranks[truth] - rankdata(p[truth])) / no
    placement[~truth] = 1 - (ranks[~truth] - rankdata(p[~truth])) / yes
    value = float(placement[truth].mean())
    influence = (placement - value) / np.where(truth, yes, no)
    # of each label by unit; what one unit more or less does is estimated from the units that have the label
    of_yes, of_no = (np.bincount(units, weights=influence * mine) for mine in (truth, ~truth))
    many_yes, many_no, many = (len(np.unique(of)) for of in (units[truth], units[~truth], units))
    rarer, error = min(many_yes, many_no), 0.0
    if rarer > 1 and 0 < value < 1:
        # a variance about the mean of n is too small by (n - 1) / n
        parts = (
            (of_yes @ of_yes, many_yes),
            (of_no @ of_no, many_no),
            (2 * (of_yes @ of_no), many),
        )
        error = float(np.sqrt(sum(part * (n / (n - 1)) for part, n in parts)))
    if error < 1e-12:
        return Score(value, len(truth), *wilson(value * rarer, rarer))
    half = Z * error / (value * (1 - value))
    low, high = (float(expit(logit(value) + side * half)) for side in (-1, 1))
    return Score(value, len(truth), *clip_interval(value, low, high, 0.0, 1.0))


def set_scores(returned: Iterable[str], relevant: Iterable[str]) -> dict[str, float]:
    """Recall, precision and F1 of one returned set (side_effects, Methods, Evaluation metrics); those of none are 0."""
    wanted = set(relevant)
    if not wanted:
        raise ValueError("Recall needs at least one relevant item; the relevant set is empty.")
    return {"precision": 0.0} | {
        name: top / bottom for name, (top, bottom) in set_measures(wanted, set(returned)).items()
    }


def bootstrap(
    values: Column,
    statistic: Statistic = np.mean,
    *,
    clusters: Column | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Score:
    """A statistic of (n,) values, such as `np.mean` or `np.median`, with a percentile bootstrap interval.

    With `clusters`, whole clusters are drawn. If all values are 0 or all 1, the interval is that of a proportion.
    """
    units, numbers = validate_columns(clusters, draws, values=values)
    order = np.argsort(numbers) if clusters is None else np.lexsort((numbers, units))
    numbers, units = numbers[order], units[order]
    value = float(statistic(numbers))
    groups = np.split(numbers, np.flatnonzero(np.diff(units)) + 1) if clusters is not None else None
    many = len(numbers) if groups is None else len(groups)
    if np.isnan(value):
        return Score(value, len(numbers), value, value)
    if value in (0.0, 1.0) and (numbers == value).all():
        return Score(value, len(numbers), *wilson(value * many, many))
    rng = np.random.default_rng(seed)
    results = np.empty(draws)
    for i in range(draws):
        drawn = rng.integers(many, size=many)
        results[i] = statistic(
            numbers[drawn] if groups is None else np.concatenate([groups[j] for j in drawn])
        )
    return Score(value, len(numbers), *percentiles(value, results[np.isfinite(results)]))


def percentile(q: float) -> Statistic:
    """The statistic that has `q` per cent of the values below it."""
    return lambda values: float(np.percentile(values, q))


def sum_by_unit(units: NDArray[np.int64], *columns: NDArray[Any]) -> Floats:
    """(units, columns) sums of the rows of each unit."""
    sums = [np.bincount(units, weights=column).astype(float) for column in columns]
    return np.stack(sums, axis=1)[np.bincount(units) > 0]


def resample_sums(sums: Floats, draws: int) -> Floats:
    """(draws, columns) totals of bootstrap samples of the units, in blocks of bounded memory."""
    # units with the same sums are interchangeable, so a draw is how often each distinct row comes up
    rng = np.random.default_rng(0)
    patterns, frequency = np.unique(sums, axis=0, return_counts=True)
    shares, block = frequency / len(sums), max(1, BLOCK // len(patterns))
    sizes = [min(block, draws - start) for start in range(0, draws, block)]
    return np.concatenate(
        [rng.multinomial(len(sums), shares, size=size) @ patterns for size in sizes]
    )


def wilson(k: float, n: int) -> tuple[float, float]:
    """Wilson's interval for `k` of `n` independent units."""
    low, high = proportion_confint(k, n, alpha=1 - CONFIDENCE, method="wilson")
    return clip_interval(k / n, float(low), float(high), 0.0, 1.0)


def percentiles(
    value: float, draws: Floats, floor: float = -np.inf, ceiling: float = np.inf
) -> tuple[float, float]:
    """The 95 % interval of drawn values, which contains the value itself."""
    low, high = np.percentile(draws, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return clip_interval(value, float(low), float(high), floor, ceiling)


def clip_interval(
    value: float, low: float, high: float, floor: float, ceiling: float
) -> tuple[float, float]:
    """An interval within its bounds that contains the value."""
    return min(max(low, floor), value), max(min(high, ceiling), value)


def true_or_false(values: Column, name: str) -> NDArray[np.bool_]:
    """The values as booleans; an error names the column if one is neither True, False, 1 nor 0."""
    array = _column(values, name, object)
    if missing := int(pd.isna(array).sum()):
        raise ValueError(
            f"{name} needs True or False in every row; {missing} of {len(array)} have neither."
        )
    if strange := [v for v in array if not (isinstance(v, Real | np.bool_) and v in (0, 1))]:
        raise ValueError(
            f"{name} needs True or False; found {strange[0]!r}. Parse the answers first."
        )
    return array.astype(bool)


def finite(values: Column, name: str) -> Floats:
    """The values as numbers; an error names the column if one is not finite."""
    array = _column(values, name, float)
    if not np.isfinite(array).all():
        raise ValueError(
            f"{name} needs finite numbers; {int((~np.isfinite(array)).sum())} of {len(array)} are not."
        )
    return array


def _column(values: Column, name: str, kind: type) -> NDArray[Any]:
    array: NDArray[Any] = np.asarray(values, dtype=kind)
    if array.ndim != 1 or not len(array):
        raise ValueError(
            f"{name} needs one value a row and at least one row; found the shape {array.shape}."
        )
    return array


def validate_columns(
    clusters: Column | None, draws: int = DRAWS, /, **columns: Column
) -> tuple[Any, ...]:
    """The unit of each row, numbered by the names of clusters if there are any, and the columns as finite numbers."""
    if draws < 100:
        raise ValueError(f"A 95 % interval needs at least 100 draws; found draws={draws}.")
    arrays = {name: finite(values, name) for name, values in columns.items()}
    units = np.arange(len(next(iter(arrays.values()))))
    if clusters is not None:
        units = pd.factorize(np.asarray(clusters, dtype=object), sort=True)[0].astype(np.int64)
        if (units < 0).any():
            raise ValueError(
                f"clusters needs a name in every row; {int((units < 0).sum())} rows have none."
            )
    if len({len(units), *map(len, arrays.values())}) > 1:
        lengths = ", ".join(
            f"{name} {len(a)}" for name, a in (arrays | {"clusters": units}).items()
        )
        raise ValueError(f"One value a row is needed in each; found {lengths}.")
    return units, *arrays.values()
