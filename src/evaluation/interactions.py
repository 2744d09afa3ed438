"""Whether a gain depends on a condition: the difference of two differences, with its interval.

"Significant under one condition, not significant under another" says nothing about the two: the
second may have fewer units or more noise. The difference between the gains is what a claim of this
form is about.
"""

from typing import Final

import numpy as np
import pandas as pd

from evaluation import metrics
from evaluation.metrics import Floats
from evaluation.outcomes import PAIRING_COLUMNS, Outcomes
from evaluation.paired import Paired

_N_SUMS: Final = 4
"""Sums of one condition: numerator and denominator of the first arm, then of the second."""


def interaction(
    rows: Outcomes, arms: tuple[str, str], measure: str, condition: tuple[str, tuple[str, str]]
) -> Paired:
    """Compare the gain of an arm under one condition with its gain under another.

    Args:
        rows: Rows of both arms under both conditions.
        arms: The first arm, and the second, which is subtracted.
        measure: A ratio such as ``accuracy``.
        condition: A column or stratum, and its two values; the second gain is subtracted.

    Returns:
        The difference of the differences, with an interval by a bootstrap over clusters. A cluster
        with rows under both conditions is drawn with both. ``p`` is two-sided, from the share of
        draws beyond zero.
    """
    name, values = condition
    tables = [_sums_by_cluster(rows.where(**{name: value}), arms, measure) for value in values]
    sums = pd.concat(tables, axis=1).fillna(0.0).to_numpy(dtype=float)
    value = float(_difference_of_gains(sums.sum(axis=0)))
    drawn = _difference_of_gains(metrics.resample_sums(sums, rows.draws))
    low, high = metrics.percentiles(value, drawn)
    smaller_tail = min((drawn <= 0).mean(), (drawn >= 0).mean())
    p = min(1.0, 2 * (float(smaller_tail) * len(drawn) + 1) / (len(drawn) + 1))
    n = int(sum(table.attrs["n"] for table in tables))
    return Paired("bootstrap of the interaction", n, 0, 0, value, low, high, p)


def _sums_by_cluster(rows: Outcomes, arms: tuple[str, str], measure: str) -> pd.DataFrame:
    """Numerators and denominators of both arms on their shared units, summed by cluster."""
    first, second = (rows.rows_with(measure, arm).set_index(PAIRING_COLUMNS) for arm in arms)
    shared = first.index.intersection(second.index, sort=False)
    if shared.empty:
        raise ValueError(f"{arms[0]} and {arms[1]} share no unit that has {measure!r}.")
    columns = []
    for table in (first.loc[shared], second.loc[shared]):
        columns.append(np.array([measures[measure] for measures in table.measures], dtype=float))
    sums = pd.DataFrame(np.hstack(columns)).groupby(first.loc[shared].cluster.to_numpy()).sum()
    sums.attrs["n"] = len(shared)
    return sums


def _difference_of_gains(totals: Floats) -> Floats:
    """The first gain minus the second, of (..., 8) totals; 0 / 0 is 0."""
    first = _gain(totals[..., :_N_SUMS])
    second = _gain(totals[..., _N_SUMS:])
    return np.asarray(first - second)


def _gain(totals: Floats) -> Floats:
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(totals[..., 0::2] / totals[..., 1::2])
    return np.asarray(ratios[..., 0] - ratios[..., 1])
