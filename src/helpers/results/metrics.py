"""Scores with their n and 95 % interval, and the paired tests that decide between two arms.

A proportion has a Wilson interval. Everything else, and everything that is clustered (several questions about one
drug), has a percentile bootstrap interval. Two rules hold for every interval here:

- it contains the value, and for a fraction it lies within 0 and 1;
- where every draw of a bootstrap gives the same 0 or 1, the draws say nothing about how sure that is. The interval is
  then Wilson's, with the number of independent units (clusters, or else rows) as n: 100 % on 976 drugs is not "surely
  100 %".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logit
from scipy.stats import rankdata
from statsmodels.stats.proportion import proportion_confint

from helpers.results import intervals
from helpers.results.intervals import DRAWS, Bools, Column, Floats


@dataclass(frozen=True, slots=True)
class Score:
    """One measured value.

    Attributes:
        value: a fraction, or whatever unit was measured (seconds, counts).
        n: what it was measured on: the denominator of a proportion, the number of rows otherwise.
        low: lower limit of the 95 % interval.
        high: upper limit of the 95 % interval.
        unparsed: answers among the rows that could not be read as an answer.
    """

    value: float
    n: int
    low: float
    high: float
    unparsed: int = 0


def proportion(k: int, n: int, *, unparsed: int = 0) -> Score:
    """`k` of `n` with the Wilson score interval (statsmodels).

    Raises:
        ValueError: n is not positive, or k is not within 0 and n.
    """
    if n < 1 or not 0 <= k <= n:
        raise ValueError(f"A proportion needs 0 <= k <= n and n >= 1; found k={k}, n={n}. Count the rows first.")
    value = k / n
    low, high = proportion_confint(k, n, alpha=1 - intervals.CONFIDENCE, method="wilson")
    return Score(value, n, *intervals.held_within(value, float(low), float(high), 0.0, 1.0), unparsed)


def ratio(top: Column, bottom: Column, *, clusters: Column | None = None, draws: int = DRAWS) -> Score:
    """The sum of the tops over the sum of the bottoms: a mean, a precision, a recall, a micro-F1, a weighted mean.

    Args:
        top: (n,) numbers.
        bottom: (n,) numbers, none negative; 1 in each row for a mean.
        clusters: (n,) names of what rows belong together; whole clusters are then drawn.
        draws: of the bootstrap.

    Returns:
        A proportion of independent rows has Wilson's interval; anything else is bootstrapped over clusters or rows. A
        fraction whose denominator is 0 has the value 0 by custom and the interval 0 to 1.

    Raises:
        ValueError: lengths differ, there are no rows, a value is not finite, or there are fewer than 100 draws.
    """
    units, tops, bottoms = intervals.checked(clusters, draws, tops=top, bottoms=bottom)
    if not bottoms.sum():
        return Score(0.0, len(tops), 0.0, 1.0)
    fraction = bool(((tops >= 0) & (tops <= bottoms)).all())
    if len(np.unique(units)) == len(tops) and (bottoms == 1).all() and np.isin(tops, (0, 1)).all():
        return proportion(int(tops.sum()), len(tops))
    sums = intervals.summed(units, tops, bottoms)
    value = float(sums[:, 0].sum() / sums[:, 1].sum())
    drawn, below = intervals.resampled(sums, draws, np.random.default_rng(0)).T
    if fraction:
        return Score(value, len(tops), *_fraction_interval(value, drawn, below, int((sums[:, 1] > 0).sum())))
    low, high = intervals.percentiles(drawn[below > 0] / below[below > 0])
    return Score(value, len(tops), *intervals.held_within(value, low, high, -np.inf, np.inf))


def rank_correlation(x: Column, y: Column, *, clusters: Column | None = None, draws: int = DRAWS) -> Score:
    """Spearman's rank correlation with a percentile bootstrap interval over clusters or rows.

    Raises:
        ValueError: lengths differ, there are fewer than three rows, a value is not finite, or too few draws.
    """
    units, first, second = intervals.checked(clusters, draws, x=x, y=y)
    if len(first) < 3:
        raise ValueError(f"A rank correlation needs at least three rows; found {len(first)}.")
    rows = [np.flatnonzero(units == unit) for unit in np.unique(units)]
    rng = np.random.default_rng(0)
    drawn = [np.concatenate([rows[i] for i in rng.integers(len(rows), size=len(rows))]) for _ in range(draws)]
    values = np.array([_spearman(first[of], second[of]) for of in drawn])
    value = _spearman(first, second)
    low, high = intervals.percentiles(values[np.isfinite(values)]) if np.isfinite(values).any() else (-1.0, 1.0)
    return Score(value, len(first), *intervals.held_within(value, low, high, -1.0, 1.0))


def _spearman(x: Floats, y: Floats) -> float:
    a, b = rankdata(x), rankdata(y)
    spread = a.std() * b.std()
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else float("nan")


def auc(y_true: Column, p_yes: Column, *, clusters: Column | None = None) -> Score:
    """Area under the ROC curve: how well the probability of YES orders the rows, whatever the threshold.

    The interval is DeLong's on the logit scale; if there are clusters, Obuchowski's (1997), in which each label's rows
    are summed within their cluster first, and labels that share clusters covary. A perfect order has no variance, nor
    has one unit of a label; the interval is then Wilson's over the units of the rarer label.

    Args:
        y_true: (n,) True or False.
        p_yes: (n,) probability or any score that is higher for YES.
        clusters: (n,) names of what rows belong together.

    Raises:
        ValueError: lengths differ, a value is missing, or one of the two labels has no row.
    """
    truth, p = _scored(y_true, p_yes)
    units, _ = intervals.checked(clusters, p_yes=p)
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
    rarer = min(many_yes, many_no)
    if rarer < 2 or not 0 < value < 1:
        return Score(value, len(truth), *intervals.wilson(value, rarer))
    variances = (of_yes @ of_yes * _unbiased(many_yes), of_no @ of_no * _unbiased(many_no))
    error = float(np.sqrt(sum(variances) + 2 * (of_yes @ of_no) * _unbiased(many)))
    if error < 1e-12:
        return Score(value, len(truth), *intervals.wilson(value, rarer))
    half = intervals.normal_quantile() * error / (value * (1 - value))
    low, high = (float(expit(logit(value) + side * half)) for side in (-1, 1))
    return Score(value, len(truth), *intervals.held_within(value, low, high, 0.0, 1.0))


def threshold(y_true: Column, p_yes: Column) -> float:
    """The threshold t for which "YES if p_yes >= t" is most often right: for a held-out split, never for test rows.

    Candidates lie halfway between neighbouring values, and at both ends. Of equally good ones the one nearest to 0.5
    is taken.

    Raises:
        ValueError: lengths differ, there are no rows, or a value is missing.
    """
    truth, p = _scored(y_true, p_yes)
    values, where = np.unique(p, return_inverse=True)
    middle = values[:-1] + (values[1:] - values[:-1]) / 2
    # two neighbouring floats have no middle: the upper one then divides them just as well
    between = np.where(middle > values[:-1], middle, values[1:])
    candidates = np.concatenate([values[:1], between, [np.nextafter(values[-1], np.inf)]])
    yes, no = (np.bincount(where, weights=label, minlength=len(values)) for label in (truth, ~truth))
    right = yes.sum() + np.concatenate([[0], np.cumsum(no - yes)])  # rows right if the first i values are called NO
    best = candidates[right == right.max()]
    return float(best[np.argmin(np.abs(best - 0.5))])


def set_scores(returned: Iterable[str], relevant: Iterable[str]) -> dict[str, float]:
    """Recall, precision and F1 of one returned set (side_effects, Methods, Evaluation metrics).

    An empty answer has precision and F1 0. Average over queries with `bootstrap`.

    Raises:
        ValueError: nothing is relevant, so recall does not exist.
    """
    found, wanted = set(returned), set(relevant)
    if not wanted:
        raise ValueError("Recall needs at least one relevant item; the relevant set is empty.")
    hits = len(found & wanted)
    return {
        "recall": hits / len(wanted),
        "precision": hits / len(found) if found else 0.0,
        "f1": 2 * hits / (len(found) + len(wanted)),
    }


def bootstrap(
    values: Column,
    statistic: Callable[[Floats], float] = np.mean,
    *,
    clusters: Column | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Score:
    """Any statistic of measured values, with a percentile bootstrap interval.

    Args:
        values: (n,) numbers.
        statistic: takes (m,) numbers in any order and gives one; for example `np.mean`, `p50`, `p95`.
        clusters: (n,) names of what rows belong together; whole clusters are then drawn.
        seed: of the bootstrap.
        draws: of the bootstrap.

    Returns:
        The statistic; n is the number of rows. The order of the rows does not matter. If every value is 0 or every one
        is 1, the interval is that of a proportion.

    Raises:
        ValueError: there are no rows, a value is not finite, lengths differ, or there are fewer than 100 draws.
    """
    units, numbers = intervals.checked(clusters, draws, values=values)
    order = np.argsort(numbers) if clusters is None else np.lexsort((numbers, units))
    numbers, units = numbers[order], units[order]
    value = float(statistic(numbers))
    groups = np.split(numbers, np.flatnonzero(np.diff(units)) + 1) if clusters is not None else None
    many = len(numbers) if groups is None else len(groups)
    if value in (0.0, 1.0) and (numbers == value).all():
        return Score(value, len(numbers), *intervals.wilson(value, many))
    rng = np.random.default_rng(seed)
    results = np.empty(draws)
    for i in range(draws):
        drawn = rng.integers(many, size=many)
        results[i] = statistic(numbers[drawn] if groups is None else np.concatenate([groups[j] for j in drawn]))
    low, high = intervals.percentiles(results)
    return Score(value, len(numbers), *intervals.held_within(value, low, high, -np.inf, np.inf))


def p50(values: Column) -> float:
    """The median."""
    return float(np.percentile(intervals.finite(values, "values"), 50))


def p95(values: Column) -> float:
    """The 95th percentile."""
    return float(np.percentile(intervals.finite(values, "values"), 95))


def _fraction_interval(value: float, tops: Floats, bottoms: Floats, units: int) -> tuple[float, float]:
    """Interval of a fraction of two drawn sums; draws whose denominator is 0 are left out."""
    if value in (0.0, 1.0):  # every draw gives that value
        return intervals.wilson(value, units)
    low, high = intervals.percentiles(tops[bottoms > 0] / bottoms[bottoms > 0])
    return intervals.held_within(value, low, high, 0.0, 1.0)


def _unbiased(n: int) -> float:
    """By what a variance about the mean of n is too small."""
    return n / (n - 1)


def _scored(y_true: Column, p_yes: Column) -> tuple[Bools, Floats]:
    truth, p = intervals.true_or_false(y_true, "y_true"), intervals.finite(p_yes, "p_yes")
    intervals.same_length(y_true=truth, p_yes=p)
    return truth, p
