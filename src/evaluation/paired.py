"""Paired tests of two arms on the same rows. Columns are checked as in `metrics`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation import metrics
from evaluation.metrics import DRAWS, Column, Floats, bootstrap

UNMOVED = 1e-12
"""Below this the arms of a unit are the same, but for rounding."""


@dataclass(frozen=True, slots=True)
class Paired:
    """The test of two arms on the same rows, first minus second.

    Attributes:
        test: Name of the test.
        n: Number of rows.
        b: Number of rows on which the first arm is better.
        c: Number of rows on which the second arm is better.
        difference: The difference.
        low: Lower end of its 95 % interval.
        high: Upper end of its 95 % interval.
        p: Two-sided p-value.
    """

    test: str
    n: int
    b: int
    c: int
    difference: float
    low: float
    high: float
    p: float

    @property
    def value(self) -> float:
        """The difference, by the name that it has in a `Score`."""
        return self.difference


def paired_means(
    a: Column, b: Column, *, clusters: Column | None = None, draws: int = DRAWS
) -> Paired:
    """Test the difference of two means by a paired randomisation (Smucker et al. 2007).

    Args:
        a: (n,) values of the first arm.
        b: (n,) values of the second arm, of the same rows.
        clusters: (n,) names. Rows of the same name are exchanged and drawn together.
        draws: Number of bootstrap samples and permutations.
    """
    ones = np.ones(len(a))
    return paired_ratios((a, ones), (b, np.ones(len(b))), clusters=clusters, draws=draws)


def paired_ratios(
    a: tuple[Column, Column],
    b: tuple[Column, Column],
    *,
    clusters: Column | None = None,
    draws: int = DRAWS,
) -> Paired:
    """Test the difference of two ratios of sums; arms are exchanged within a unit (Yeh 2000).

    Args:
        a: (n,) numerators and (n,) denominators of the first arm.
        b: Those of the second arm, of the same rows.
        clusters: (n,) names. Rows of the same name are exchanged and drawn together.
        draws: Number of bootstrap samples and permutations.
    """
    units, *columns = metrics.validate_columns(
        clusters, draws, top_a=a[0], bottom_a=a[1], top_b=b[0], bottom_b=b[1]
    )
    sums = metrics.sum_by_unit(units, *columns)
    value = float(_difference(sums.sum(axis=0)))
    gains = _difference(np.stack(columns, axis=1))
    same_denominators = np.ptp(columns[1::2]) == 0
    p = _randomisation_p(sums, value, draws)
    unseen = metrics.wilson(0.0, len(sums))[1]
    if same_denominators:  # then ratios are means
        value, low, high = _mean_gain(gains, clusters, draws)
        unseen *= float(np.abs(gains).max()) or 1.0
    else:
        drawn = _difference(metrics.resample_sums(sums, draws))
        low, high = metrics.percentiles(value, drawn)
    # An end of exactly 0 says that so few rows differ that some draws hold none of them: what was
    # not seen in so many units may still be there, as often as Wilson's interval allows.
    # The same holds where every draw has the same difference.
    is_constant = not _moved(sums).any() or high - low < metrics.SAME
    if low == 0 or is_constant:
        low = min(low, value - unseen)
    if high == 0 or is_constant:
        high = max(high, value + unseen)
    name = "paired randomisation" if clusters is None else "paired randomisation by cluster"
    n_first = int((gains > 0).sum())
    n_second = int((gains < 0).sum())
    return Paired(name, len(gains), n_first, n_second, value, low, high, p)


def _difference(totals: Floats) -> Floats:
    """First ratio minus second, of (..., 4) numerators and denominators; 0 / 0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(totals[..., 0::2] / totals[..., 1::2])
    return np.asarray(ratios[..., 0] - ratios[..., 1])


def _mean_gain(gains: Floats, clusters: Column | None, draws: int) -> tuple[float, float, float]:
    """The mean gain with its interval; that of nothing but losses mirrors that of gains."""
    sign = -1.0 if (gains == -1).all() else 1.0
    mean = bootstrap(sign * gains, clusters=clusters, draws=draws)
    low, high = sorted((sign * mean.low, sign * mean.high))
    return sign * mean.value, low, high


def _moved(sums: Floats) -> np.ndarray:
    """Whether the arms of each unit differ."""
    gaps = sums[:, :2] - sums[:, 2:]
    return np.abs(gaps).max(axis=1) > UNMOVED


def _randomisation_p(sums: Floats, value: float, draws: int) -> float:
    """Two-sided p of exchanging the arms of each unit at random."""
    means = sums[:, :2] + sums[:, 2:]
    gaps = sums[:, :2] - sums[:, 2:]
    moved = _moved(sums)
    total = means[moved].sum(axis=0) + means[~moved].sum(axis=0)

    def exchanged(flips: Floats) -> Floats:
        # A flip of 1 leaves the arms of a unit, one of -1 exchanges them.
        turned = flips @ gaps[moved]
        sides = np.concatenate([total + turned, total - turned], axis=1) / 2
        return _difference(sides)

    return _flip_p(exchanged, int(moved.sum()), value, draws)


def _flip_p(statistic: Callable[[Floats], Floats], units: int, value: float, draws: int) -> float:
    """Two-sided p of turning each unit's sign at random, in blocks of bounded memory."""
    if not units:
        return 1.0
    rng = np.random.default_rng(0)
    block = max(1, metrics.BLOCK // units)
    threshold = abs(value) * (1 - 1e-9) - 1e-12  # as far out as the value, but for rounding
    n_extreme = 0
    for start in range(0, draws, block):
        flips = rng.choice([-1.0, 1.0], size=(min(block, draws - start), units))
        n_extreme += int((np.abs(statistic(flips)) >= threshold).sum())
    # The arrangement that was measured is one of those that chance could give.
    return (1 + n_extreme) / (draws + 1)


def holm(ps: Sequence[float]) -> list[float]:
    """Adjust p-values by Holm's step-down rule, in the order given.

    Raises:
        ValueError: If one is not within 0 and 1.
    """
    values = np.asarray(ps, dtype=float)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"A p-value lies within 0 and 1; found {list(ps)}.")
    # statsmodels.multipletests collects garbage at each call: 0.2 s in the process of the book.
    order = np.argsort(values)
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.minimum(steps, 1)[np.argsort(order)]
    return adjusted.tolist()
