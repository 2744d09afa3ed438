"""Decisions on claims, and the intervals that lead to them.

A claim has one or several parts, each an interval with a criterion. The claim holds only if every
part does.
"""

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Final, TypeVar, cast

from evaluation import figures
from evaluation.metrics import ALPHA, Score
from evaluation.paired import Paired
from evaluation.published import ON_PAR, WORTHWHILE
from evaluation.records import TESTED, Tested, Untested, Verdict

POWER: Final = 0.8

# scipy's quantile would take most of a second to import in each process.
_normal_quantile: Final = NormalDist().inv_cdf

NumberT = TypeVar("NumberT", int, float)

Interval = Score | Paired
"""A value on n units with its 95 % interval."""


@dataclass(frozen=True)
class Decision:
    """A verdict and the numbers behind it.

    Attributes:
        verdict: Whether the claim holds, or why it was not tested.
        why: The numbers that led to it, in words.
        p: The largest p-value, adjusted within the rule; None if nothing was tested.
        reason: Why the claim was not tested, if it was not.
        needed: Number of units that would decide an undecided claim.
    """

    verdict: Verdict
    why: str
    p: float | None = None
    reason: Untested | None = None
    needed: int | None = None


@dataclass(frozen=True)
class Part:
    """A part of a claim: an interval, and the criterion that it must meet.

    Attributes:
        interval: A score or a difference with its 95 % interval.
        criterion: Says whether an interval agrees with the claim.
    """

    interval: Interval
    criterion: Callable[[Interval], Tested]

    def verdict(self, n_parts: int = 1) -> Tested:
        """Judge the part.

        Args:
            n_parts: Number of parts. The interval is widened to Bonferroni's level for
                it.

        Returns:
            Whether the interval agrees with the claim.
        """
        return self.criterion(bonferroni_interval(self.interval, n_parts))


def decide_by_intervals(
    parts: Sequence[Part],
    bounds: Sequence[float],
    *,
    why: str,
    p: float | None = None,
    n_parts: int = 1,
) -> Decision:
    """Decide a claim that holds only if every interval meets its criterion.

    A claim is supported by plain 95 % intervals, since all parts have to agree (Berger
    1982). A single part can refute it, so refutation uses Bonferroni's level.

    Args:
        parts: The intervals and their criteria.
        bounds: Values that an interval has to exclude for a verdict.
        why: The numbers in words.
        p: The largest adjusted p-value, if there were tests.
        n_parts: Number of parts of a larger claim of which this one is part.

    Returns:
        The decision. If it is undecided, it names the number of units that would decide
        it.
    """
    supported = [part.verdict() for part in parts]
    refuted = [part.verdict(n_parts * len(parts)) for part in parts]
    verdict = all_of(supported, refuted)
    needed = None
    if verdict == "undecided":
        needed = _units_for_all(parts, bounds)
    return Decision(verdict, why, p, needed=needed)


def _units_for_all(parts: Sequence[Part], bounds: Sequence[float]) -> int | None:
    """Units with which every part that does not agree yet would be decided."""
    open_parts = [part for part in parts if part.verdict() != "agrees"]
    return _largest(required_units(part.interval, bounds) for part in open_parts)


def bonferroni_interval(interval: Interval, n_parts: int) -> Interval:
    """Widen a 95 % interval to Bonferroni's level.

    Each side grows by the ratio of the normal quantiles of the two levels.

    Args:
        interval: The interval at the level of 95 %.
        n_parts: Number of intervals.

    Returns:
        The interval at the level 1 - 0.05 / ``n_parts``.
    """
    if n_parts == 1:
        return interval
    factor = _normal_quantile(ALPHA / 2 / n_parts) / _normal_quantile(ALPHA / 2)
    value = interval.value
    low = value - factor * (value - interval.low)
    high = value + factor * (interval.high - value)
    return Score(value, interval.n, low, high)


def required_units(interval: Interval, bounds: Iterable[float]) -> int | None:
    """Estimate the sample size with which an interval would exclude a bound.

    The width of an interval shrinks with the square root of the number of units. The
    value is taken for the true one.

    Args:
        interval: The interval on the present units.
        bounds: The bounds; the nearest in terms of sample size counts.

    Returns:
        The number of units for a power of 80 %, or None if the value lies on every
        bound.
    """
    power_factor = 1 + _normal_quantile(1 - POWER) / _normal_quantile(ALPHA / 2)
    needed = []
    for bound in bounds:
        distance = abs(interval.value - bound)
        half_width = _half_width_towards(bound, interval)
        if half_width <= 0 or distance <= 1e-9:
            continue
        units = math.ceil(interval.n * (power_factor * half_width / distance) ** 2)
        needed.append(max(interval.n + 1, units))
    return min(needed, default=None)


def _half_width_towards(bound: float, interval: Interval) -> float:
    if bound < interval.value:
        return interval.value - interval.low
    return interval.high - interval.value


def better(difference: Interval, p: float, *, worthwhile: float = WORTHWHILE) -> Tested:
    """Whether the first arm is better than the second.

    Args:
        difference: The first arm minus the second.
        p: The adjusted p-value of the difference.
        worthwhile: The smallest gain that counts.

    Returns:
        "agrees" if the first arm is significantly better, "differs" if the interval has
        no room for a worthwhile gain, else "undecided".
    """
    middle = (difference.low + difference.high) / 2
    if p < ALPHA and middle > 0:
        return "agrees"
    return "differs" if difference.high < worthwhile else "undecided"


def on_par(difference: Interval, *, margin: float = ON_PAR) -> Tested:
    """Whether the first arm is at most ``margin`` worse (a test of non-inferiority)."""
    return above(difference, -margin)


def above(value: Interval, bound: float) -> Tested:
    """Whether a value lies above a bound, by its whole interval."""
    if value.low > bound:
        return "agrees"
    return "differs" if value.high <= bound else "undecided"


def below(value: Interval, bound: float) -> Tested:
    """Whether a value lies below a bound, by its whole interval."""
    if value.high < bound:
        return "agrees"
    return "differs" if value.low >= bound else "undecided"


def exactly(holds: bool) -> Tested:
    """The verdict where counting decides and nothing is sampled."""
    return "agrees" if holds else "differs"


def all_of(verdicts: Iterable[Tested], refuting: Iterable[Tested] | None = None) -> Tested:
    """Combine the verdicts of parts, all of which must hold.

    Args:
        verdicts: The verdict of each part.
        refuting: The verdicts that may refute the claim, by default the same.

    Returns:
        "differs" if a part differs, "agrees" if all agree, else "undecided".

    Raises:
        ValueError: If there is no part.
    """
    verdicts = list(verdicts)
    if not verdicts:
        raise ValueError("A claim needs at least one part that was tested.")
    if refuting is None:
        refuting = verdicts
    if "differs" in refuting:
        return "differs"
    return "agrees" if set(verdicts) == {"agrees"} else "undecided"


def enough_clusters(n_clusters: int, n_tests: int = 1) -> bool:
    """Whether a randomisation test of so many clusters can be significant at all.

    Args:
        n_clusters: Number of clusters.
        n_tests: Number of tests in the family.

    Returns:
        True if the smallest possible p-value is below the level of one test.
    """
    smallest_p = 2.0 ** (1 - n_clusters)
    return smallest_p < ALPHA / n_tests


def too_few_clusters(n_clusters: int, why: str) -> Decision:
    """The decision where no randomisation of the clusters can be significant."""
    limit = f"A randomisation of {n_clusters} clusters cannot be significant"
    return Decision("not run", f"{limit}, whatever the answers. {why}", reason="too few")


def is_model_of(model: str, names: Iterable[str]) -> bool:
    """Whether a model has one of these names.

    Args:
        model: Full name of a model, for example ``gpt-4-0613``.
        names: Names that must be whole parts of it. ``gpt-4`` is one of ``gpt-4-0613``,
            but not of ``gpt-4o`` or ``gpt-4.1``.
    """
    for name in names:
        pattern = rf"(?<![a-z\d]){re.escape(name)}(?![a-z\d]|\.\d)"
        if re.search(pattern, model, re.IGNORECASE):
            return True
    return False


def require_own_models(decision: Decision, about: str, others: Sequence[str]) -> Decision:
    """Withdraw a verdict if stand-ins took the place of what the claim is about.

    Args:
        decision: The decision by the rule alone.
        about: What the claim is about, in words.
        others: Names of the stand-ins; empty if there are none.

    Returns:
        ``decision``, or a decision "not run" that names the stand-ins.
    """
    if not others or decision.verdict not in TESTED:
        return decision
    stand_ins = figures.listed(others)
    why = f"The claim is about {about}; this run used {stand_ins}. {decision.why}"
    return Decision("not run", why, decision.p, reason="stand-in")


def join(decisions: Sequence[Decision]) -> Decision:
    """The decision on a claim that holds only if all of its parts do."""
    for decision in decisions:
        if decision.verdict not in TESTED:
            return decision
    verdicts = [cast(Tested, decision.verdict) for decision in decisions]
    verdict = all_of(verdicts)
    why = " ".join(decision.why for decision in decisions)
    p = _largest(decision.p for decision in decisions)
    needed = None
    if verdict == "undecided":
        needed = _largest(decision.needed for decision in decisions)
    return Decision(verdict, why, p, needed=needed)


def _largest(values: Iterable[NumberT | None]) -> NumberT | None:
    """The largest value that is not None; None if there is none."""
    return max((value for value in values if value is not None), default=None)
