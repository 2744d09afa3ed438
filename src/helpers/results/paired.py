"""Paired tests that decide between two arms on the same rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest
from statsmodels.stats.multitest import multipletests

from helpers.results import intervals
from helpers.results.intervals import DRAWS, Column, Floats
from helpers.results.metrics import bootstrap


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
    a, b = intervals.true_or_false(a_correct, "a_correct"), intervals.true_or_false(b_correct, "b_correct")
    intervals.same_length(a_correct=a, b_correct=b)
    n, only_a, only_b = len(a), int((a & ~b).sum()), int((~a & b).sum())
    p = float(binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    difference = (only_a - only_b) / n
    pa, pb = (only_a + 1) / (n + 2), (only_b + 1) / (n + 2)
    half = intervals.normal_quantile() * float(np.sqrt((pa + pb - (pa - pb) ** 2) / (n + 2)))
    low, high = intervals.held_within(difference, pa - pb - half, pa - pb + half, -1.0, 1.0)
    return Paired("McNemar, exact", n, only_a, only_b, difference, low, high, p)


def paired_means(a: Column, b: Column, *, clusters: Column | None = None, draws: int = DRAWS) -> Paired:
    """Difference of the means of two arms measured on the same rows.

    The p-value is that of the two-sided paired randomisation test, which turns the sign of each row's difference by
    chance (Smucker et al. 2007, for rankings); the interval is bootstrapped over rows. Rows that belong together (all
    questions about one drug, all rows of one document) are turned and drawn together. `b` and `c` count the rows where
    the first and where the second arm is better.

    Args:
        a: (n,) values of the first arm; for right and wrong answers 1 and 0.
        b: (n,) values of the second arm.
        clusters: (n,) names of what rows belong together.
        draws: of both.

    Raises:
        ValueError: lengths differ, there are no rows, a value is not finite, or there are fewer than 100 draws.
    """
    units, first, second = intervals.checked(clusters, draws, a=a, b=b)
    gain = first - second
    mean = bootstrap(gain, clusters=clusters, draws=draws)
    summed = np.bincount(units, weights=gain)
    moved = summed[np.abs(summed) > 1e-12]
    p = _flipped(lambda flips: flips @ moved, len(moved), float(moved.sum()), draws) if len(moved) else 1.0
    unseen = intervals.wilson(0.0, len(np.unique(units)))[1] * (float(np.abs(gain).max()) or 1.0)
    return _paired(gain, (mean.value, mean.low, mean.high), p, unseen, still=not len(moved), clusters=clusters)


def paired_ratios(
    a: tuple[Column, Column],
    b: tuple[Column, Column],
    *,
    clusters: Column | None = None,
    draws: int = DRAWS,
) -> Paired:
    """Difference of two ratios of sums measured on the same rows: means, precision, recall, micro-F1.

    Where each row counts once, it is `paired_means`. Else the randomisation test exchanges the two arms within a unit
    (Yeh 2000), and the interval draws units, taking both arms of each.

    Args:
        a: (n,) tops and (n,) bottoms of the first arm.
        b: the same of the second arm.
        clusters: (n,) names of what rows belong together.
        draws: of both.

    Raises:
        ValueError: lengths differ, there are no rows, a value is not finite, or there are fewer than 100 draws.
    """
    units, top_a, bottom_a, top_b, bottom_b = intervals.checked(
        clusters, draws, top_a=a[0], bottom_a=a[1], top_b=b[0], bottom_b=b[1]
    )
    if (bottom_a == 1).all() and (bottom_b == 1).all():
        return paired_means(top_a, top_b, clusters=clusters, draws=draws)
    sums = intervals.summed(units, top_a, bottom_a, top_b, bottom_b)

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

    p = _flipped(exchanged, int(moved.sum()), value, draws) if moved.any() else 1.0
    low, high = intervals.percentiles(difference(intervals.resampled(sums, draws, np.random.default_rng(0))))
    low, high = intervals.held_within(value, low, high, -np.inf, np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = np.nan_to_num(top_a / bottom_a) - np.nan_to_num(top_b / bottom_b)
    unseen = intervals.wilson(0.0, len(sums))[1]
    return _paired(gain, (value, low, high), p, unseen, still=not moved.any(), clusters=clusters)


def _paired(
    gain: Floats, mean: tuple[float, float, float], p: float, unseen: float, *, still: bool, clusters: Column | None
) -> Paired:
    value, low, high = mean
    # an end of exactly 0 says that so few rows differ that some draws hold none of them: what was not seen in so many
    # units may still be there, as often as Wilson's interval allows
    if low == 0 or still:
        low = min(low, value - unseen)
    if high == 0 or still:
        high = max(high, value + unseen)
    name = "paired randomisation" if clusters is None else "paired randomisation by cluster"
    return Paired(name, len(gain), int((gain > 0).sum()), int((gain < 0).sum()), value, low, high, p)


def _flipped(statistic: Callable[[Floats], Floats], units: int, value: float, draws: int) -> float:
    """Two-sided p of a randomisation test that turns each unit's sign, in blocks of bounded memory."""
    rng = np.random.default_rng(0)
    extreme, block = 0, max(1, intervals.BLOCK // units)
    for start in range(0, draws, block):
        flips = rng.choice([-1.0, 1.0], size=(min(block, draws - start), units))
        extreme += int((np.abs(statistic(flips)) >= abs(value) * (1 - 1e-9)).sum())
    # the arrangement that was measured is one of those that chance could give
    return (1 + extreme) / (draws + 1)


def holm(ps: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's step-down rule for that many tests, in the order given.

    Raises:
        ValueError: a p-value is not within 0 and 1.
    """
    values = np.asarray(ps, dtype=float)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"A p-value lies within 0 and 1; found {list(ps)}.")
    return [float(p) for p in multipletests(values, method="holm")[1]] if len(values) else []
