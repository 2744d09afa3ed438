"""How a claim or a number is judged: it differs only if its interval leaves no room for it, else it is undecided."""

from __future__ import annotations

import math
from collections.abc import Iterable
from statistics import NormalDist
from typing import Final, Literal, NamedTuple, Protocol

Tested = Literal["agrees", "differs", "undecided"]
Verdict = Literal["agrees", "differs", "undecided", "not run", "cannot be run"]

TESTED: Final[tuple[Tested, ...]] = ("agrees", "differs", "undecided")  # the verdicts of a claim that a run has tested

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
WORTHWHILE: Final = 0.02  # the smallest gain that counts, of measures within 0 and 1: the tolerance of a rerun number
ON_PAR: Final = 0.05  # how much worse something may be that is on par, of measures within 0 and 1

# not scipy's, which takes most of a second to import, at each `make` and in each kernel
_quantile: Final = NormalDist().inv_cdf


class Interval(Protocol):
    """What has a 95 % interval: a `Score`, or the difference of a `Paired`."""

    @property
    def low(self) -> float: ...  # noqa: D102
    @property
    def high(self) -> float: ...  # noqa: D102


class Limits(NamedTuple):
    """An interval at a level of its own."""

    low: float
    high: float


def widened(interval: Interval, value: float, parts: int) -> Interval:
    """The interval of one of several parts at Bonferroni's level: either side grows by the ratio of normal quantiles.

    One part refutes a claim, so refutation uses it; support needs all, with plain intervals (Berger 1982).
    """
    if parts == 1:
        return interval
    wider = _quantile(ALPHA / 2 / parts) / _quantile(ALPHA / 2)
    return Limits(value - wider * (value - interval.low), value + wider * (interval.high - value))


def needed(interval: Interval, value: float, n: int, *bounds: float) -> int | None:
    """Units with which the interval of `value`, now on `n`, would exclude the nearest bound with a power of 80 %."""
    factor = 1 + _quantile(1 - 0.8) / _quantile(ALPHA / 2)
    found = []
    for bound in bounds:
        side = value - interval.low if bound < value else interval.high - value
        if side > 0 and abs(value - bound) > 1e-9:
            found.append(math.ceil(n * (factor * side / (value - bound)) ** 2))
    return min(found, default=None)


def better(difference: Interval, p: float, *, worthwhile: float = WORTHWHILE) -> Tested:
    """Agrees if the first arm is significantly better, differs if there is no room for a gain that is `worthwhile`."""
    if p < ALPHA and difference.low + difference.high > 0:
        return "agrees"
    return "differs" if difference.high < worthwhile else "undecided"


def on_par(difference: Interval, *, margin: float = ON_PAR) -> Tested:
    """Whether the first arm is at most `margin` worse than the second (a test of non-inferiority)."""
    return above(difference, -margin)


def above(value: Interval, bound: float) -> Tested:
    """Whether a value lies above a bound: agrees or differs if its whole interval says so, else undecided."""
    return "agrees" if value.low > bound else "differs" if value.high <= bound else "undecided"


def below(value: Interval, bound: float) -> Tested:
    """Whether a value lies below a bound."""
    return above(Limits(-value.high, -value.low), -bound)


def all_of(verdicts: Iterable[Tested], widened: Iterable[Tested] | None = None) -> Tested:
    """The verdict of a claim that holds only if each part does; only the parts `widened`, if given, refute it."""
    found = set(verdicts)
    if not found:
        raise ValueError("A claim needs at least one part that was tested.")
    refuted = "differs" in (found if widened is None else set(widened))
    return "differs" if refuted else "agrees" if found == {"agrees"} else "undecided"


def exactly(holds: bool) -> Tested:
    """The verdict where counting decides and nothing is sampled."""
    return "agrees" if holds else "differs"
