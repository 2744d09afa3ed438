"""What intervals are made of: checked columns, sums of clusters, bootstrap samples, Wilson's interval."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm
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


def summed(units: Ints, *columns: NDArray[Any]) -> Floats:
    """(units, columns) sums of the rows of each unit."""
    sums = [np.bincount(units, weights=column).astype(float) for column in columns]
    return np.stack(sums, axis=1)[np.bincount(units) > 0]


def resampled(sums: Floats, draws: int, rng: np.random.Generator) -> Floats:
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


def wilson(value: float, units: int) -> tuple[float, float]:
    """Wilson's interval for a value that `units` independent units agree on."""
    low, high = proportion_confint(value * units, units, alpha=1 - CONFIDENCE, method="wilson")
    return held_within(value, float(low), float(high), 0.0, 1.0)


def percentiles(draws: Floats) -> tuple[float, float]:
    """The 95 % interval of drawn values."""
    low, high = np.percentile(draws, [50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE)])
    return float(low), float(high)


def held_within(value: float, low: float, high: float, floor: float, ceiling: float) -> tuple[float, float]:
    """An interval held within its bounds and made to contain the value."""
    return min(max(low, floor), value), max(min(high, ceiling), value)


def normal_quantile() -> float:
    """Standard errors from the middle of a 95 % interval to its ends."""
    return float(norm.ppf(0.5 + CONFIDENCE / 2))


def true_or_false(values: Column, name: str) -> Bools:
    """The values as booleans; an error names the column if one is neither True, False, 1 nor 0."""
    array = np.asarray(values, dtype=object)
    _need_column(array, name)
    if missing := int(pd.isna(array).sum()):
        raise ValueError(f"{name} needs True or False in every row; {missing} of {len(array)} have neither.")
    if strange := [v for v in array if not (isinstance(v, Real | np.bool_) and v in (0, 1))]:
        raise ValueError(f"{name} needs True or False; found {strange[0]!r}. Parse the answers first.")
    return array.astype(bool)


def finite(values: Column, name: str) -> Floats:
    """The values as numbers; an error names the column if one is not finite."""
    array = np.asarray(values, dtype=float)
    _need_column(array, name)
    if not np.isfinite(array).all():
        raise ValueError(f"{name} needs finite numbers; {int((~np.isfinite(array)).sum())} of {len(array)} are not.")
    return array


def _need_column(array: NDArray[Any], name: str) -> None:
    if array.ndim != 1 or not len(array):
        raise ValueError(f"{name} needs one value a row and at least one row; found the shape {array.shape}.")


def codes(clusters: Column) -> Ints:
    """Cluster names as numbers, in the order of the names, so that the order of the rows does not matter."""
    codes, _ = pd.factorize(np.asarray(clusters, dtype=object), sort=True)
    if (codes < 0).any():
        raise ValueError(f"clusters needs a name in every row; {int((codes < 0).sum())} rows have none.")
    return codes.astype(np.int64)


def same_length(**arrays: NDArray) -> None:
    """Refuse columns of different lengths."""
    if len({len(a) for a in arrays.values()}) > 1:
        lengths = ", ".join(f"{name} {len(a)}" for name, a in arrays.items())
        raise ValueError(f"One value a row is needed in each; found {lengths}.")


def checked(clusters: Column | None, draws: int = DRAWS, /, **columns: Column) -> tuple[Any, ...]:
    """The unit of each row, by its cluster if there are any, and the columns as finite numbers.

    Raises:
        ValueError: lengths differ, there are no rows, a value is not finite, or there are fewer than 100 draws.
    """
    if draws < 100:
        raise ValueError(f"A 95 % interval needs at least 100 draws; found draws={draws}.")
    arrays = {name: finite(values, name) for name, values in columns.items()}
    units = np.arange(len(next(iter(arrays.values())))) if clusters is None else codes(clusters)
    same_length(**arrays, clusters=units)
    return units, *arrays.values()
