"""Scores with their n and 95 % interval.

A proportion has a Wilson interval; all else, and what is clustered, a percentile bootstrap
interval. Each contains its value. Where every draw gives the same 0 or 1, it is Wilson's over the
units: 100 % on 976 drugs is not certainty.
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
Z = float(norm.ppf(0.5 + CONFIDENCE / 2))
"""Standard errors from the middle of a 95 % interval to its ends."""
DRAWS = 2000
MIN_DRAWS = 100
BLOCK = 2**23
"""Numbers that a resampling holds in memory: 64 MiB."""
SAME = 1e-12
"""Values that differ by less differ by rounding alone."""
Column: TypeAlias = "Sequence[Any] | NDArray[Any] | pd.Series"
"""One value per row."""
Floats = NDArray[np.float64]
Statistic = Callable[[Floats], float]


@dataclass(frozen=True, slots=True)
class Score:
    """One measured value with its 95 % interval.

    Attributes:
        value: The value.
        n: The denominator of a proportion, else the number of rows.
        low: Lower end of the interval.
        high: Upper end of the interval.
        unparsed: Number of rows whose answer could not be parsed.
    """

    value: float
    n: int
    low: float
    high: float
    unparsed: int = 0


def proportion(k: int, n: int, *, unparsed: int = 0) -> Score:
    """Score ``k`` of ``n``, with the Wilson interval.

    Raises:
        ValueError: If ``n`` is below 1 or ``k`` is not within 0 and ``n``.
    """
    if n < 1 or not 0 <= k <= n:
        raise ValueError(
            f"A proportion needs 0 <= k <= n and n >= 1; found k={k}, n={n}. Count the rows first."
        )
    return Score(k / n, n, *wilson(k, n), unparsed)


def ratio(
    numerators: Column,
    denominators: Column,
    *,
    clusters: Column | None = None,
    draws: int = DRAWS,
) -> Score:
    """Divide a sum by another: a mean, a precision, a micro-F1, a weighted mean.

    Args:
        numerators: (n,) numbers.
        denominators: (n,) numbers. If their sum is 0, the score is 0 by custom.
        clusters: (n,) names. Rows of the same name are drawn together.
        draws: Number of bootstrap samples.
    """
    units, tops, bottoms = validate_columns(clusters, draws, tops=numerators, bottoms=denominators)
    if not bottoms.sum():
        return Score(0.0, len(tops), 0.0, 1.0)
    if _is_proportion(units, tops, bottoms):
        return proportion(int(tops.sum()), len(tops))
    sums = sum_by_unit(units, tops, bottoms)
    value = float(sums[:, 0].sum() / sums[:, 1].sum())
    is_fraction = bool(((tops >= 0) & (tops <= bottoms)).all())
    if is_fraction and value in (0.0, 1.0):  # every draw gives that value
        n_units = int((sums[:, 1] > 0).sum())
        return Score(value, len(tops), *wilson(value * n_units, n_units))
    drawn_tops, drawn_bottoms = resample_sums(sums, draws).T
    defined = drawn_bottoms > 0
    floor, ceiling = (0.0, 1.0) if is_fraction else (-np.inf, np.inf)
    drawn = drawn_tops[defined] / drawn_bottoms[defined]
    low, high = percentiles(value, drawn, floor, ceiling)
    if is_fraction and np.ptp(drawn) < SAME:
        low, high = _interval_of_equal_units(value, len(sums))
    return Score(value, len(tops), low, high)


def _interval_of_equal_units(value: float, n_units: int) -> tuple[float, float]:
    """The interval of a share that every unit has, so that all draws are alike.

    What was not seen in so many units may still be there, as often as Wilson's interval allows; a
    unit of that kind has the share 0 or 1 at worst.
    """
    unseen = wilson(0.0, n_units)[1]
    return value - unseen * value, value + unseen * (1 - value)


def _is_proportion(units: NDArray[np.int64], tops: Floats, bottoms: Floats) -> bool:
    """Whether every row is a unit of its own that counts 0 or 1."""
    if len(np.unique(units)) != len(tops):
        return False
    return bool((bottoms == 1).all() and np.isin(tops, (0, 1)).all())


def auc(y_true: Column, p_yes: Column, *, clusters: Column | None = None) -> Score:
    """Compute the area under the ROC curve.

    The interval is DeLong's on the logit scale, with clusters Obuchowski's (1997). A perfect order
    has no variance, nor has one unit of a label; the interval is then Wilson's over the units of
    the rarer label.

    Args:
        y_true: (n,) labels, True or False.
        p_yes: (n,) scores that are higher for True.
        clusters: (n,) names. Rows of the same name belong to one unit.

    Raises:
        ValueError: If a label has no row.
    """
    labels = true_or_false(y_true, "y_true")
    units, scores, truths = validate_columns(clusters, p_yes=p_yes, y_true=labels)
    is_yes = truths.astype(bool)
    n_yes = int(is_yes.sum())
    n_no = int((~is_yes).sum())
    if not n_yes or not n_no:
        raise ValueError(f"AUC needs rows of both labels; found {n_yes} YES and {n_no} NO.")
    placements = _placements(scores, is_yes)
    value = float(placements[is_yes].mean())
    yes_units = len(np.unique(units[is_yes]))
    no_units = len(np.unique(units[~is_yes]))
    rarer = min(yes_units, no_units)
    error = 0.0
    if rarer > 1 and 0 < value < 1:
        error = _auc_error(placements - value, is_yes, units)
    if error < 1e-12:
        return Score(value, len(is_yes), *wilson(value * rarer, rarer))
    half = Z * error / (value * (1 - value))
    low = float(expit(logit(value) - half))
    high = float(expit(logit(value) + half))
    return Score(value, len(is_yes), *clip_interval(value, (low, high), (0.0, 1.0)))


def _placements(scores: Floats, is_yes: NDArray[np.bool_]) -> Floats:
    """Share of the other label's rows that each row is on the right side of; ties count half."""
    placements = np.empty(len(scores))
    ranks = rankdata(scores)
    n_yes = int(is_yes.sum())
    n_no = len(scores) - n_yes
    placements[is_yes] = (ranks[is_yes] - rankdata(scores[is_yes])) / n_no
    placements[~is_yes] = 1 - (ranks[~is_yes] - rankdata(scores[~is_yes])) / n_yes
    return placements


def _auc_error(deviations: Floats, is_yes: NDArray[np.bool_], units: NDArray[np.int64]) -> float:
    """Standard error of an AUC, from the placements less their mean."""
    n_yes = int(is_yes.sum())
    influence = deviations / np.where(is_yes, n_yes, len(is_yes) - n_yes)
    by_yes = np.bincount(units, weights=influence * is_yes)
    by_no = np.bincount(units, weights=influence * ~is_yes)
    # What one unit more or less does is estimated from the units that have the label.
    parts = (
        (by_yes @ by_yes, len(np.unique(units[is_yes]))),
        (by_no @ by_no, len(np.unique(units[~is_yes]))),
        (2 * (by_yes @ by_no), len(np.unique(units))),
    )
    # A variance about the mean of n is too small by (n - 1) / n.
    variance = sum(part * (n / (n - 1)) for part, n in parts)
    return float(np.sqrt(variance))


def set_scores(returned: Iterable[str], relevant: Iterable[str]) -> dict[str, float]:
    """Score one returned set: recall, precision and F1 (side_effects, Methods, Evaluation metrics).

    The scores of an empty set are 0.

    Raises:
        ValueError: If nothing is relevant.
    """
    gold = set(relevant)
    if not gold:
        raise ValueError("Recall needs at least one relevant item; the relevant set is empty.")
    scores = {"precision": 0.0}
    for name, (numerator, denominator) in set_measures(gold, set(returned)).items():
        scores[name] = numerator / denominator
    return scores


def bootstrap(
    values: Column,
    statistic: Statistic = np.mean,
    *,
    clusters: Column | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Score:
    """Compute a statistic with a percentile bootstrap interval.

    Args:
        values: (n,) numbers.
        statistic: For example `np.mean` or `np.median`.
        clusters: (n,) names. Rows of the same name are drawn together.
        seed: Seed of the draws.
        draws: Number of bootstrap samples.

    Returns:
        The score. If all values are 0 or all 1, its interval is that of a proportion.
    """
    units, numbers = validate_columns(clusters, draws, values=values)
    order = np.argsort(numbers) if clusters is None else np.lexsort((numbers, units))
    numbers = numbers[order]
    units = units[order]
    sizes = None if clusters is None else np.unique(units, return_counts=True)[1]
    value = float(statistic(numbers))
    if np.isnan(value):
        return Score(value, len(numbers), value, value)
    if value in (0.0, 1.0) and (numbers == value).all():
        n_units = len(numbers) if sizes is None else len(sizes)
        return Score(value, len(numbers), *wilson(value * n_units, n_units))
    drawn = _resampled_statistics(statistic, numbers, sizes, np.random.default_rng(seed), draws)
    return Score(value, len(numbers), *percentiles(value, drawn[np.isfinite(drawn)]))


def _resampled_statistics(
    statistic: Statistic,
    numbers: Floats,
    sizes: NDArray[np.int64] | None,
    rng: np.random.Generator,
    draws: int,
) -> Floats:
    """The statistic of each bootstrap sample of the numbers, or of groups of them.

    Args:
        statistic: The statistic.
        numbers: (n,) numbers; those of a group lie side by side.
        sizes: (n_groups,) sizes of the groups; None if each number is drawn alone.
        rng: What draws.
        draws: Number of samples.
    """
    n_units = len(numbers) if sizes is None else len(sizes)
    starts = None if sizes is None else np.cumsum(sizes) - sizes
    statistics = np.empty(draws)
    for i in range(draws):
        drawn = rng.integers(n_units, size=n_units)
        if sizes is not None and starts is not None:
            drawn = _rows_of_groups(starts[drawn], sizes[drawn])
        statistics[i] = statistic(numbers[drawn])
    return statistics


def _rows_of_groups(starts: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The rows of groups, one group after the other, from their first rows and their sizes."""
    ends = np.cumsum(sizes)
    shifts = np.repeat(starts - (ends - sizes), sizes)
    return np.asarray(shifts + np.arange(ends[-1]), dtype=np.int64)


def percentile(q: float) -> Statistic:
    """The statistic that has ``q`` per cent of the values below it."""
    return lambda values: float(np.percentile(values, q))


def sum_by_unit(units: NDArray[np.int64], *columns: NDArray[Any]) -> Floats:
    """Sum the rows of each unit, (n_units, n_columns)."""
    sums = [np.bincount(units, weights=column).astype(float) for column in columns]
    has_rows = np.bincount(units) > 0
    return np.stack(sums, axis=1)[has_rows]


def resample_sums(sums: Floats, draws: int) -> Floats:
    """Sum bootstrap samples of the units, in blocks of bounded memory.

    Args:
        sums: (n_units, n_columns) sums of each unit.
        draws: Number of samples.

    Returns:
        (draws, n_columns) totals.
    """
    # Units with the same sums are interchangeable: a draw is how often each distinct row comes up.
    rng = np.random.default_rng(0)
    patterns, frequencies = np.unique(sums, axis=0, return_counts=True)
    shares = frequencies / len(sums)
    block = max(1, BLOCK // len(patterns))
    totals = []
    for start in range(0, draws, block):
        counts = rng.multinomial(len(sums), shares, size=min(block, draws - start))
        totals.append(counts @ patterns)
    return np.concatenate(totals)


def wilson(k: float, n: int) -> tuple[float, float]:
    """Wilson's interval for ``k`` of ``n`` independent units."""
    low, high = proportion_confint(k, n, alpha=1 - CONFIDENCE, method="wilson")
    return clip_interval(k / n, (float(low), float(high)), (0.0, 1.0))


def percentiles(
    value: float, draws: Floats, floor: float = -np.inf, ceiling: float = np.inf
) -> tuple[float, float]:
    """The 95 % interval of drawn values.

    Args:
        value: What the interval must contain.
        draws: The drawn values.
        floor: The smallest possible value.
        ceiling: The largest possible value.
    """
    low, high = np.percentile(draws, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return clip_interval(value, (float(low), float(high)), (floor, ceiling))


def clip_interval(
    value: float, interval: tuple[float, float], bounds: tuple[float, float]
) -> tuple[float, float]:
    """The interval within its bounds that contains the value."""
    low, high = interval
    floor, ceiling = bounds
    return min(max(low, floor), value), max(min(high, ceiling), value)


def true_or_false(values: Column, name: str) -> NDArray[np.bool_]:
    """The values as booleans.

    Args:
        values: True, False, 1 or 0.
        name: Name of the column, for the error.

    Raises:
        ValueError: If one is missing or something else.
    """
    array = _column(values, name, object)
    n_missing = int(pd.isna(array).sum())
    if n_missing:
        raise ValueError(
            f"{name} needs True or False in every row; {n_missing} of {len(array)} have neither."
        )
    for value in array:
        if not isinstance(value, Real | np.bool_) or value not in (0, 1):
            raise ValueError(
                f"{name} needs True or False; found {value!r}. Parse the answers first."
            )
    return array.astype(bool)


def finite(values: Column, name: str) -> Floats:
    """The values as numbers.

    Args:
        values: Numbers.
        name: Name of the column, for the error.

    Raises:
        ValueError: If one is not finite.
    """
    array = _column(values, name, float)
    n_infinite = int((~np.isfinite(array)).sum())
    if n_infinite:
        raise ValueError(f"{name} needs finite numbers; {n_infinite} of {len(array)} are not.")
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
    """Check columns of the same rows.

    Args:
        clusters: Name of each row's unit; if None, every row is one.
        draws: Number of bootstrap samples.
        **columns: Numbers.

    Returns:
        The unit of each row, numbered by the names of clusters if there are any, and the columns.

    Raises:
        ValueError: If a value is missing or not finite, lengths differ, or draws are too few.
    """
    if draws < MIN_DRAWS:
        raise ValueError(f"A 95 % interval needs at least {MIN_DRAWS} draws; found draws={draws}.")
    arrays = {name: finite(values, name) for name, values in columns.items()}
    first_column = next(iter(arrays.values()))
    n_rows = len(first_column)
    units = np.arange(n_rows) if clusters is None else _units(clusters)
    lengths = {name: len(array) for name, array in arrays.items()}
    lengths["clusters"] = len(units)
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"One value a row is needed in each; found {listed}.")
    return units, *arrays.values()


def _units(clusters: Column) -> NDArray[np.int64]:
    """Number each row by the name of its cluster."""
    names = np.asarray(clusters, dtype=object)
    units = pd.factorize(names, sort=True)[0].astype(np.int64)
    n_missing = int((units < 0).sum())
    if n_missing:
        raise ValueError(f"clusters needs a name in every row; {n_missing} rows have none.")
    return units
