"""Paired tests that decide between two arms on the same rows. Columns are checked as in `metrics`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation import metrics
from evaluation.metrics import DRAWS, Column, Floats, bootstrap


@dataclass(frozen=True, slots=True)
class Paired:
    """The test of two arms on the same n rows, first less second; `b` and `c` count rows on which either is better."""

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
    """Difference of the means of two arms measured on the same (n,) rows.

    p is that of the two-sided paired randomisation test (Smucker et al. 2007); the interval is bootstrapped over rows.
    Rows that belong together share a name in `clusters`, and are turned and drawn together.
    """
    return paired_ratios((a, np.ones(len(a))), (b, np.ones(len(b))), clusters=clusters, draws=draws)


def paired_ratios(
    a: tuple[Column, Column],
    b: tuple[Column, Column],
    *,
    clusters: Column | None = None,
    draws: int = DRAWS,
) -> Paired:
    """Difference of two ratios of sums, (n,) tops over (n,) bottoms; arms are exchanged within a unit (Yeh 2000)."""
    units, *columns = metrics.validate_columns(
        clusters, draws, top_a=a[0], bottom_a=a[1], top_b=b[0], bottom_b=b[1]
    )
    sums = metrics.sum_by_unit(units, *columns)

    def difference(total: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            ratios = np.nan_to_num(total[..., 0::2] / total[..., 1::2])
        return np.asarray(ratios[..., 0] - ratios[..., 1])

    value, gain = float(difference(sums.sum(axis=0))), difference(np.stack(columns, axis=1))
    half, gap = sums[:, :2] + sums[:, 2:], sums[:, :2] - sums[:, 2:]
    moved = np.abs(gap).max(axis=1) > 1e-12
    both = half[moved].sum(axis=0) + half[~moved].sum(axis=0)

    def exchanged(flips: Floats) -> Floats:
        # a flip of 1 leaves the arms of a unit, one of -1 exchanges them
        turned = flips @ gap[moved]
        return difference(np.concatenate([both + turned, both - turned], axis=1) / 2)

    p = _flipped(exchanged, int(moved.sum()), value, draws)
    unseen = metrics.wilson(0.0, len(sums))[1]
    if np.ptp(columns[1::2]) == 0:  # ratios with one and the same bottom are means
        turned = (
            -1.0 if (gain == -1).all() else 1.0
        )  # the interval of nothing but losses mirrors that of gains
        mean = bootstrap(turned * gain, clusters=clusters, draws=draws)
        value, (low, high) = turned * mean.value, sorted((turned * mean.low, turned * mean.high))
        unseen *= float(np.abs(gain).max()) or 1.0
    else:
        low, high = metrics.percentiles(value, difference(metrics.resample_sums(sums, draws)))
    # an end of exactly 0 says that so few rows differ that some draws hold none of them: what was not seen in so many
    # units may still be there, as often as Wilson's interval allows
    low = min(low, value - unseen) if low == 0 or not moved.any() else low
    high = max(high, value + unseen) if high == 0 or not moved.any() else high
    name = "paired randomisation" if clusters is None else "paired randomisation by cluster"
    return Paired(
        name, len(gain), int((gain > 0).sum()), int((gain < 0).sum()), value, low, high, p
    )


def _flipped(statistic: Callable[[Floats], Floats], units: int, value: float, draws: int) -> float:
    """Two-sided p of a randomisation test that turns each unit's sign, in blocks of bounded memory."""
    if not units:
        return 1.0
    rng = np.random.default_rng(0)
    extreme, block = 0, max(1, metrics.BLOCK // units)
    for start in range(0, draws, block):
        flips = rng.choice([-1.0, 1.0], size=(min(block, draws - start), units))
        # as far out as the value, but for rounding
        extreme += int((np.abs(statistic(flips)) >= abs(value) * (1 - 1e-9) - 1e-12).sum())
    # the arrangement that was measured is one of those that chance could give
    return (1 + extreme) / (draws + 1)


def holm(ps: Sequence[float]) -> list[float]:
    """P-values adjusted by Holm's step-down rule for that many tests, in the order given."""
    values = np.asarray(ps, dtype=float)
    if not ((values >= 0) & (values <= 1)).all():
        raise ValueError(f"A p-value lies within 0 and 1; found {list(ps)}.")
    # not statsmodels.multipletests, which collects garbage at each call: 0.2 s in a process of the book's size
    order = np.argsort(values)
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    return [float(p) for p in np.minimum(steps, 1)[np.argsort(order)]]
