"""Scores with their n and 95 % interval, and the paired tests that decide between two arms.

A proportion has a Wilson interval. Everything else, and everything that is clustered (several questions about one
drug), has a percentile bootstrap interval. Two rules hold for every interval here:

- it contains the value, and for a fraction it lies within 0 and 1;
- where every draw of a bootstrap gives the same 0 or 1, the draws say nothing about how sure that is. The interval is
  then Wilson's, with the number of independent units (clusters, or else rows) as n: 100 % on 976 drugs is not "surely
  100 %".
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
from scipy.stats import binomtest, norm, rankdata
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

CONFIDENCE = 0.95
DRAWS = 2000
BLOCK = 2**23
"""Numbers that a resampling holds at once: 64 MiB."""

Column: TypeAlias = "Sequence[Any] | NDArray[Any] | pd.Series"
"""One value a row."""
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


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


@dataclass(frozen=True, slots=True)
class Paired:
    """Two arms on the same rows.

    Attributes:
        test: name of the test.
        n: rows.
        b: rows that only the first arm has right.
        c: rows that only the second arm has right.
        difference: accuracy of the first arm less that of the second.
        low: lower limit of the difference's 95 % interval.
        high: upper limit of the difference's 95 % interval.
        p: two-sided p-value.
    """

    test: str
    n: int
    b: int
    c: int
    difference: float
    low: float
    high: float
    p: float


def proportion(k: int, n: int, *, unparsed: int = 0) -> Score:
    """`k` of `n` with the Wilson score interval (statsmodels).

    Raises:
        ValueError: n is not positive, or k is not within 0 and n.
    """
    if n < 1 or not 0 <= k <= n:
        raise ValueError(f"A proportion needs 0 <= k <= n and n >= 1; found k={k}, n={n}. Count the rows first.")
    value = k / n
    low, high = proportion_confint(k, n, alpha=1 - CONFIDENCE, method="wilson")
    return Score(value, n, *_around(value, float(low), float(high), 0.0, 1.0), unparsed)


def binary_scores(
    y_true: Column,
    y_pred: Column,
    *,
    clusters: Column | None = None,
    unparsed_as: bool | None = False,
    seed: int = 0,
    draws: int = DRAWS,
) -> dict[str, Score]:
    """The five scores of a YES/NO benchmark (side_effects, Methods, Evaluation metrics).

    Args:
        y_true: (n,) True or False.
        y_pred: (n,) True, False, or None where the answer could not be read.
        clusters: (n,) names of what rows belong together (drugs). Given, every interval is a bootstrap over clusters.
        unparsed_as: what an unread answer counts as. False is the paper's rule; None leaves such rows out.
        seed: of the bootstrap.
        draws: of the bootstrap.

    Returns:
        accuracy, f1, precision, sensitivity, specificity. The n of a score is its denominator: all rows for accuracy
        and F1, rows answered YES for precision, rows that are YES for sensitivity, rows that are NO for specificity.
        A score whose denominator is 0 has the value 0 by custom, n = 0 and the interval 0 to 1. The count of unread
        answers stands in each of them, whatever they were counted as.

    Raises:
        ValueError: lengths differ, there are no rows, a label is neither True, False nor (in y_pred) None, or there
            are fewer than 100 draws.
    """
    _enough(draws)
    truth = _labels(y_true, "y_true")
    answer, parsed = _booleans(y_pred, "y_pred")
    groups = None if clusters is None else _codes(clusters)
    _same_length(y_true=truth, y_pred=answer, **({} if groups is None else {"clusters": groups}))
    unparsed = int((~parsed).sum())
    if unparsed_as is None:
        truth, answer, groups = truth[parsed], answer[parsed], None if groups is None else groups[parsed]
        if not len(truth):
            raise ValueError(f"None of the {unparsed} answers could be read, so nothing is left to score.")
    else:
        answer = np.where(parsed, answer, unparsed_as)

    counts = _confusion(truth, answer, groups)  # (units, 4): tp, fp, fn, tn
    rng = np.random.default_rng(seed)
    resampled = _resample(counts, draws, rng)
    total = counts.sum(axis=0)
    scores = {}
    for name, (top, bottom) in _RATIOS.items():
        if groups is None and name != "f1":
            k, n = int(total @ top), int(total @ bottom)
            scores[name] = proportion(k, n, unparsed=unparsed) if n else Score(0.0, 0, 0.0, 1.0, unparsed)
            continue
        value, low, high = _ratio_interval(counts, resampled, top, bottom)
        n = len(truth) if name == "f1" else int(total @ bottom)
        scores[name] = Score(value, n if total @ bottom else 0, low, high, unparsed)
    return scores


def mcnemar(a_correct: Column, b_correct: Column) -> Paired:
    """McNemar's exact test between two arms that answered the same rows.

    The p-value is the two-sided exact binomial one on the discordant rows. The interval of the difference is Bonett
    and Price's adjusted Wald interval (2012), which holds up with few discordant rows or none. It takes rows for
    independent; where they belong together (several questions about one drug), use `paired_means` with clusters.

    Args:
        a_correct: (n,) whether the first arm was right.
        b_correct: (n,) whether the second arm was right.

    Raises:
        ValueError: lengths differ, there are no rows, or a value is not True or False.
    """
    a, b = _labels(a_correct, "a_correct"), _labels(b_correct, "b_correct")
    _same_length(a_correct=a, b_correct=b)
    n, only_a, only_b = len(a), int((a & ~b).sum()), int((~a & b).sum())
    p = float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    difference = (only_a - only_b) / n
    pa, pb = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    half = _z() * float(np.sqrt((pa + pb - (pa - pb) ** 2) / (n + 2)))
    low, high = _around(difference, pa - pb - half, pa - pb + half, -1.0, 1.0)
    return Paired("McNemar, exact", n, only_a, only_b, difference, low, high, p)


def paired_means(a: Column, b: Column, *, clusters: Column | None = None, seed: int = 0, draws: int = DRAWS) -> Paired:
    """Difference of the means of two arms measured on the same rows.

    The p-value is that of the two-sided paired randomisation test, which turns the sign of each row's difference by
    chance (Smucker et al. 2007, for rankings); the interval is bootstrapped over rows. Rows that belong together (all
    questions about one drug, all rows of one document) are turned and drawn together. `b` and `c` count the rows where
    the first and where the second arm is better.

    Args:
        a: (n,) values of the first arm; for right and wrong answers 1 and 0.
        b: (n,) values of the second arm.
        clusters: (n,) names of what rows belong together.
        seed: of both draws.
        draws: of both.

    Raises:
        ValueError: lengths differ, there are no rows, a value is not finite, or there are fewer than 100 draws.
    """
    first, second = _finite(a, "a"), _finite(b, "b")
    _same_length(a=first, b=second)
    gain = first - second
    mean = bootstrap(gain, clusters=clusters, seed=seed, draws=draws)
    summed = gain if clusters is None else np.bincount(_codes(clusters), weights=gain)
    moved = summed[np.abs(summed) > 1e-12]
    p = _flipped(lambda flips: flips @ moved, len(moved), float(moved.sum()), seed, draws) if len(moved) else 1.0
    better, worse = int((gain > 0).sum()), int((gain < 0).sum())
    # an end of exactly 0 says that so few rows differ that some draws hold none of them: what was not seen in so many
    # units may still be there, as often as Wilson's interval allows
    units = len(gain) if clusters is None else len(np.unique(_codes(clusters)))
    unseen = _wilson(0.0, units)[1] * (float(np.abs(gain).max()) or 1.0)
    low = min(mean.low, mean.value - unseen) if mean.low == 0 else mean.low
    high = max(mean.high, mean.value + unseen) if mean.high == 0 or not len(moved) else mean.high
    name = "paired randomisation" if clusters is None else "paired randomisation by cluster"
    return Paired(name, len(gain), better, worse, mean.value, low, high, p)


def paired_ratios(
    a: tuple[Column, Column],
    b: tuple[Column, Column],
    *,
    clusters: Column | None = None,
    seed: int = 0,
    draws: int = DRAWS,
) -> Paired:
    """Difference of two ratios of sums measured on the same rows: means, precision, recall, micro-F1.

    Where each row counts once, it is `paired_means`. Else the randomisation test exchanges the two arms within a unit
    (Yeh 2000), and the interval draws units, taking both arms of each.

    Args:
        a: (n,) tops and (n,) bottoms of the first arm.
        b: the same of the second arm.
        clusters: (n,) names of what rows belong together.
        seed: of both draws.
        draws: of both.

    Raises:
        ValueError: lengths differ, there are no rows, a value is not finite, or there are fewer than 100 draws.
    """
    (top_a, bottom_a), (top_b, bottom_b) = (tuple(_finite(x, "tops and bottoms") for x in of) for of in (a, b))
    if (bottom_a == 1).all() and (bottom_b == 1).all():
        return paired_means(top_a, top_b, clusters=clusters, seed=seed, draws=draws)
    _enough(draws)
    units = np.arange(len(top_a)) if clusters is None else _codes(clusters)
    _same_length(a=top_a, b=top_b, bottom_a=bottom_a, bottom_b=bottom_b, clusters=units)
    sums = _summed(units, top_a, bottom_a, top_b, bottom_b)

    def difference(total: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.nan_to_num(total[..., 0::2] / total[..., 1::2])
        return np.asarray(ratios[..., 0] - ratios[..., 1])

    value = float(difference(sums.sum(axis=0)))
    half, gap = sums[:, :2] + sums[:, 2:], sums[:, :2] - sums[:, 2:]
    moved = np.abs(gap).max(axis=1) > 1e-12
    fixed = half[~moved].sum(axis=0)

    def exchanged(flips: Floats) -> Floats:
        # a flip of 1 leaves the arms of a unit, one of -1 exchanges them
        turned, both = flips @ gap[moved], half[moved].sum(axis=0) + fixed
        return difference(np.concatenate([both + turned, both - turned], axis=1) / 2)

    p = _flipped(exchanged, int(moved.sum()), value, seed, draws) if moved.any() else 1.0
    low, high = _percentiles(difference(_drawn(sums, draws, np.random.default_rng(seed))))
    low, high = _around(value, low, high, -np.inf, np.inf)
    unseen = _wilson(0.0, len(sums))[1]
    if low == 0 or not moved.any():
        low = min(low, value - unseen)
    if high == 0 or not moved.any():
        high = max(high, value + unseen)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.nan_to_num(top_a / bottom_a) - np.nan_to_num(top_b / bottom_b)
    name = "paired randomisation" if clusters is None else "paired randomisation by cluster"
    return Paired(name, len(top_a), int((gain > 0).sum()), int((gain < 0).sum()), value, low, high, p)


def _flipped(statistic: Callable[[Floats], Floats], units: int, value: float, seed: int, draws: int) -> float:
    """Two-sided p of a randomisation test that turns each unit's sign, in blocks of bounded memory."""
    rng = np.random.default_rng(seed)
    extreme, block = 0, max(1, BLOCK // units)
    for start in range(0, draws, block):
        flips = rng.choice([-1.0, 1.0], size=(min(block, draws - start), units))
        extreme += int((np.abs(statistic(flips)) >= abs(value) * (1 - 1e-9)).sum())
    # the arrangement that was measured is one of those that chance could give
    return (1 + extreme) / (draws + 1)


def ratio(top: Column, bottom: Column, *, clusters: Column | None = None, seed: int = 0, draws: int = DRAWS) -> Score:
    """The sum of the tops over the sum of the bottoms: a mean, a precision, a recall, a micro-F1, a weighted mean.

    Args:
        top: (n,) numbers.
        bottom: (n,) numbers, none negative; 1 in each row for a mean.
        clusters: (n,) names of what rows belong together; whole clusters are then drawn.
        seed, draws: of the bootstrap.

    Returns:
        A proportion of independent rows has Wilson's interval; anything else is bootstrapped over clusters or rows. A
        fraction whose denominator is 0 has the value 0 by custom and the interval 0 to 1.

    Raises:
        ValueError: lengths differ, there are no rows, a value is not finite, or there are fewer than 100 draws.
    """
    _enough(draws)
    tops, bottoms = _finite(top, "tops"), _finite(bottom, "bottoms")
    units = np.arange(len(tops)) if clusters is None else _codes(clusters)
    _same_length(tops=tops, bottoms=bottoms, clusters=units)
    if not bottoms.sum():
        return Score(0.0, len(tops), 0.0, 1.0)
    fraction = bool(((tops >= 0) & (tops <= bottoms)).all())
    if len(np.unique(units)) == len(tops) and (bottoms == 1).all() and np.isin(tops, (0, 1)).all():
        return proportion(int(tops.sum()), len(tops))
    sums = _summed(units, tops, bottoms)
    value = float(sums[:, 0].sum() / sums[:, 1].sum())
    if fraction and value in (0.0, 1.0):  # every draw gives that value
        return Score(value, len(tops), *_wilson(value, int((sums[:, 1] > 0).sum())))
    drawn = _drawn(sums, draws, np.random.default_rng(seed))
    low, high = _percentiles((drawn[:, 0] / np.where(drawn[:, 1] > 0, drawn[:, 1], np.nan))[drawn[:, 1] > 0])
    bounds = (0.0, 1.0) if fraction else (-np.inf, np.inf)
    return Score(value, len(tops), *_around(value, low, high, *bounds))


def rank_correlation(
    x: Column, y: Column, *, clusters: Column | None = None, seed: int = 0, draws: int = DRAWS
) -> Score:
    """Spearman's rank correlation with a percentile bootstrap interval over clusters or rows.

    Raises:
        ValueError: lengths differ, there are fewer than three rows, a value is not finite, or too few draws.
    """
    _enough(draws)
    first, second = _finite(x, "x"), _finite(y, "y")
    units = np.arange(len(first)) if clusters is None else _codes(clusters)
    _same_length(x=first, y=second, clusters=units)
    if len(first) < 3:
        raise ValueError(f"A rank correlation needs at least three rows; found {len(first)}.")
    rows = [np.flatnonzero(units == unit) for unit in np.unique(units)]
    rng = np.random.default_rng(seed)
    drawn = [np.concatenate([rows[i] for i in rng.integers(len(rows), size=len(rows))]) for _ in range(draws)]
    values = np.array([_spearman(first[of], second[of]) for of in drawn])
    value = _spearman(first, second)
    low, high = _percentiles(values[np.isfinite(values)]) if np.isfinite(values).any() else (-1.0, 1.0)
    return Score(value, len(first), *_around(value, low, high, -1.0, 1.0))


def _spearman(x: Floats, y: Floats) -> float:
    a, b = rankdata(x), rankdata(y)
    spread = a.std() * b.std()
    return float(((a - a.mean()) * (b - b.mean())).mean() / spread) if spread else float("nan")


def _summed(units: Ints, *columns: Floats) -> Floats:
    """(units, columns) sums of the rows of each unit."""
    sums = [np.bincount(units, weights=column).astype(float) for column in columns]
    return np.stack(sums, axis=1)[np.bincount(units) > 0]


def _drawn(sums: Floats, draws: int, rng: np.random.Generator) -> Floats:
    """(draws, columns) totals of so many bootstrap samples of the units, in blocks of bounded memory.

    Units with the same sums are interchangeable, so a draw is how often each distinct row comes up.
    """
    patterns, frequency = np.unique(sums, axis=0, return_counts=True)
    shares, block = frequency / len(sums), max(1, BLOCK // len(patterns))
    return np.concatenate(
        [
            rng.multinomial(len(sums), shares, size=min(block, draws - start)) @ patterns
            for start in range(0, draws, block)
        ]
    )


def holm(ps: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's step-down rule for that many tests, in the order given.

    Raises:
        ValueError: a p-value is not within 0 and 1.
    """
    values = np.asarray(ps, dtype=float)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"A p-value lies within 0 and 1; found {list(ps)}.")
    return [float(p) for p in multipletests(values, method="holm")[1]] if len(values) else []


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
    units = np.arange(len(truth)) if clusters is None else _codes(clusters)
    _same_length(y_true=truth, p_yes=p, clusters=units)
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
        return Score(value, len(truth), *_wilson(value, rarer))
    variances = (of_yes @ of_yes * _unbiased(many_yes), of_no @ of_no * _unbiased(many_no))
    error = float(np.sqrt(sum(variances) + 2 * (of_yes @ of_no) * _unbiased(many)))
    if error < 1e-12:
        return Score(value, len(truth), *_wilson(value, rarer))
    half = _z() * error / (value * (1 - value))
    low, high = (float(expit(logit(value) + side * half)) for side in (-1, 1))
    return Score(value, len(truth), *_around(value, low, high, 0.0, 1.0))


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
    _enough(draws)
    numbers = _finite(values, "values")
    units = np.arange(len(numbers)) if clusters is None else _codes(clusters)
    _same_length(values=numbers, clusters=units)
    order = np.argsort(numbers) if clusters is None else np.lexsort((numbers, units))
    numbers, units = numbers[order], units[order]
    value = float(statistic(numbers))
    groups = np.split(numbers, np.flatnonzero(np.diff(units)) + 1) if clusters is not None else None
    many = len(numbers) if groups is None else len(groups)
    if value in (0.0, 1.0) and (numbers == value).all():
        return Score(value, len(numbers), *_wilson(value, many))
    rng = np.random.default_rng(seed)
    results = np.empty(draws)
    for i in range(draws):
        drawn = rng.integers(many, size=many)
        results[i] = statistic(numbers[drawn] if groups is None else np.concatenate([groups[j] for j in drawn]))
    low, high = _percentiles(results)
    return Score(value, len(numbers), *_around(value, low, high, -np.inf, np.inf))


def p50(values: Column) -> float:
    """The median."""
    return float(np.percentile(_finite(values, "values"), 50))


def p95(values: Column) -> float:
    """The 95th percentile."""
    return float(np.percentile(_finite(values, "values"), 95))


# Each score as a ratio of two sums over the confusion counts (tp, fp, fn, tn).
_RATIOS: dict[str, tuple[Ints, Ints]] = {
    "accuracy": (np.array([1, 0, 0, 1]), np.array([1, 1, 1, 1])),
    "f1": (np.array([2, 0, 0, 0]), np.array([2, 1, 1, 0])),
    "precision": (np.array([1, 0, 0, 0]), np.array([1, 1, 0, 0])),
    "sensitivity": (np.array([1, 0, 0, 0]), np.array([1, 0, 1, 0])),
    "specificity": (np.array([0, 0, 0, 1]), np.array([0, 1, 0, 1])),
}


def _confusion(truth: Bools, answer: Bools, groups: Ints | None) -> Ints:
    """(units, 4) counts of tp, fp, fn, tn for each cluster, or for each row if there are no clusters."""
    cell = np.select([truth & answer, ~truth & answer, truth & ~answer], [0, 1, 2], default=3)
    if groups is None:
        return np.eye(4, dtype=np.int64)[cell]
    names, groups = np.unique(groups, return_inverse=True)
    return np.bincount(groups * 4 + cell, minlength=len(names) * 4).reshape(-1, 4)


def _resample(counts: Ints, draws: int, rng: np.random.Generator) -> Ints:
    """(draws, 4) confusion counts of so many bootstrap samples of the units.

    Units with the same counts are interchangeable, so a draw is how often each distinct row of counts comes up. Without
    clusters these are at most four, whatever n.
    """
    patterns, frequency = np.unique(counts, axis=0, return_counts=True)
    return rng.multinomial(len(counts), frequency / len(counts), size=draws) @ patterns


def _ratio_interval(counts: Ints, resampled: Ints, top: Ints, bottom: Ints) -> tuple[float, float, float]:
    """Value and interval of one ratio of confusion counts; draws whose denominator is 0 are left out."""
    denominator = int(counts.sum(axis=0) @ bottom)
    if not denominator:
        return 0.0, 0.0, 1.0
    value = int(counts.sum(axis=0) @ top) / denominator
    if value in (0.0, 1.0):  # every draw gives that value
        return value, *_wilson(value, int((counts @ bottom > 0).sum()))
    below = resampled @ bottom
    low, high = _percentiles((resampled @ top)[below > 0] / below[below > 0])
    return value, *_around(value, low, high, 0.0, 1.0)


def _wilson(value: float, units: int) -> tuple[float, float]:
    """Wilson's interval for a value that `units` independent units agree on."""
    low, high = proportion_confint(value * units, units, alpha=1 - CONFIDENCE, method="wilson")
    return _around(value, float(low), float(high), 0.0, 1.0)


def _percentiles(draws: Floats) -> tuple[float, float]:
    low, high = np.percentile(draws, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)


def _around(value: float, low: float, high: float, floor: float, ceiling: float) -> tuple[float, float]:
    """An interval held within its bounds and made to contain the value."""
    return min(max(low, floor), value), max(min(high, ceiling), value)


def _unbiased(n: int) -> float:
    """By what a variance about the mean of n is too small."""
    return n / (n - 1)


def _z() -> float:
    return float(norm.ppf(0.5 + CONFIDENCE / 2))


def _booleans(values: Column, name: str) -> tuple[Bools, Bools]:
    """(values, known): None, NaN and NA are unknown; besides these only True, False, 1 and 0 are taken."""
    array = np.asarray(values, dtype=object)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} needs one value a row and at least one row; found the shape {array.shape}.")
    known = ~pd.isna(array)
    strange = [v for v in array[known] if not (isinstance(v, Real | np.bool_) and v in (0, 1))]
    if strange:
        raise ValueError(f"{name} needs True or False (None: not read); found {strange[0]!r}. Parse the answers first.")
    result = np.zeros(len(array), dtype=bool)
    result[known] = array[known].astype(bool)
    return result, known


def _labels(values: Column, name: str) -> Bools:
    result, known = _booleans(values, name)
    if not known.all():
        raise ValueError(
            f"{name} needs True or False in every row; {int((~known).sum())} of {len(known)} have neither."
        )
    return result


def _scored(y_true: Column, p_yes: Column) -> tuple[Bools, Floats]:
    truth, p = _labels(y_true, "y_true"), _finite(p_yes, "p_yes")
    _same_length(y_true=truth, p_yes=p)
    return truth, p


def _finite(values: Column, name: str) -> Floats:
    array = np.asarray(values, dtype=float)
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} needs one number a row and at least one row; found the shape {array.shape}.")
    if not np.isfinite(array).all():
        raise ValueError(f"{name} needs finite numbers; {int((~np.isfinite(array)).sum())} of {len(array)} are not.")
    return array


def _codes(clusters: Column) -> Ints:
    """Cluster names as numbers, in the order of the names, so that the order of the rows does not matter."""
    codes, _ = pd.factorize(np.asarray(clusters, dtype=object), sort=True)
    if (codes < 0).any():
        raise ValueError(f"clusters needs a name in every row; {int((codes < 0).sum())} rows have none.")
    return codes.astype(np.int64)


def _same_length(**arrays: NDArray) -> None:
    if len({len(a) for a in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} {len(a)}" for name, a in arrays.items())
        raise ValueError(f"One value a row is needed in each; found {lengths}.")


def _enough(draws: int) -> None:
    if draws < 100:
        raise ValueError(f"A 95 % interval needs at least 100 draws; found draws={draws}.")
