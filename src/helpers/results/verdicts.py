"""How a claim or a number is judged: agrees, differs, or undecided because the run is too small to tell.

That a difference is not significant does not show that there is none. So a claim is refuted only by an interval that
leaves no room for it; where the interval holds both, the verdict is undecided.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, Protocol

from scipy.stats import norm

Tested = Literal["agrees", "differs", "undecided"]
Verdict = Literal["agrees", "differs", "undecided", "not run", "cannot be run"]

TESTED: Final[tuple[Tested, ...]] = ("agrees", "differs", "undecided")
"""The verdicts of a claim that a run has tested."""

Untested = Literal["stand-in", "forced tie", "too few", "no answers", "judge at chance", "not public", "one model"]
UNTESTED: Final[dict[Untested, str]] = {
    "stand-in": "The claim is about other models; the one that answered here stood in for them.",
    "forced tie": "The arms were handed the same text, so they cannot differ.",
    "too few": "So few units cannot decide the claim, whatever the answers.",
    "no answers": "An arm that the claim names has no answers here.",
    "judge at chance": "The judge cannot tell right from wrong answers.",
    "one model": "The claim compares models, and one has answered.",
    "not public": "The data or the models that would decide it are not public.",
}
"""Why a claim is not tested, in a word and in a sentence."""

ALPHA: Final = 0.05
POWER: Final = 0.8
WORTHWHILE: Final = 0.02
"""The smallest gain that counts as one, of measures within 0 and 1: two points, the tolerance of a rerun number."""
ON_PAR: Final = 0.05
"""How much worse something may be that is on par, of measures within 0 and 1."""


class Interval(Protocol):
    """What has a 95 % interval: a `Score`, or the difference of a `Paired`."""

    @property
    def low(self) -> float: ...  # noqa: D102
    @property
    def high(self) -> float: ...  # noqa: D102


@dataclass(frozen=True)
class Limits:
    """An interval at a level of its own."""

    low: float
    high: float


def widened(interval: Interval, value: float, parts: int) -> Interval:
    """The interval of one of several parts at Bonferroni's level, so that all of them hold together at 95 %.

    Either side grows by the ratio of the normal quantiles. One part refutes a claim, so a refutation uses it; support
    needs every part, and there the plain intervals are exact (an intersection-union test, Berger 1982).
    """
    if parts == 1:
        return interval
    wider = float(norm.isf(ALPHA / 2 / parts) / norm.isf(ALPHA / 2))
    return Limits(value - wider * (value - interval.low), value + wider * (interval.high - value))


def needed(interval: Interval, value: float, n: int, *bounds: float) -> int | None:
    """Units with which the interval would exclude the nearest bound with a power of 80 %, at the observed variance.

    The 95 % interval is that of `value`, measured on `n` units; `bounds` decide the claim if it excludes them. None if
    the estimate lies on a bound, or the interval has no width.
    """
    factor = 1 + float(norm.isf(1 - POWER) / norm.isf(ALPHA / 2))
    found = []
    for bound in bounds:
        side = value - interval.low if bound < value else interval.high - value
        if side > 0 and abs(value - bound) > 1e-9:
            found.append(math.ceil(n * (factor * side / (value - bound)) ** 2))
    return min(found, default=None)


def better(difference: Interval, p: float, *, worthwhile: float = WORTHWHILE) -> Tested:
    """Whether the first arm is better than the second.

    Args:
        difference: the first arm less the second, with its interval.
        p: two-sided, adjusted where several comparisons are made.
        worthwhile: the smallest difference that would count as a gain, in the unit of the difference.

    Returns:
        agrees if it is significantly better; differs if the interval leaves no room for a worthwhile gain; else
        undecided.
    """
    if p < ALPHA and difference.low + difference.high > 0:
        return "agrees"
    return "differs" if difference.high < worthwhile else "undecided"


def on_par(difference: Interval, *, margin: float = ON_PAR) -> Tested:
    """Whether the first arm is at most `margin` worse than the second (a test of non-inferiority)."""
    return above(difference, -margin)


def above(value: Interval, bound: float) -> Tested:
    """Whether a value lies above a bound: agrees or differs if its whole interval says so, else undecided."""
    if value.low > bound:
        return "agrees"
    return "differs" if value.high <= bound else "undecided"


def below(value: Interval, bound: float) -> Tested:
    """Whether a value lies below a bound: agrees or differs if its whole interval says so, else undecided."""
    if value.high < bound:
        return "agrees"
    return "differs" if value.low >= bound else "undecided"


def all_of(verdicts: Iterable[Tested], widened: Iterable[Tested] | None = None) -> Tested:
    """The verdict of a claim that holds only if each of its parts does: one part refuted refutes it.

    Args:
        verdicts: of the parts.
        widened: the same by intervals at Bonferroni's level; only these refute, if they are given.

    Raises:
        ValueError: there is no part.
    """
    found = set(verdicts)
    if not found:
        raise ValueError("A claim needs at least one part that was tested.")
    refuted = "differs" in (found if widened is None else set(widened))
    return "differs" if refuted else "agrees" if found == {"agrees"} else "undecided"


def exactly(holds: bool) -> Tested:
    """The verdict where counting decides and nothing is sampled."""
    return "agrees" if holds else "differs"
