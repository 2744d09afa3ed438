"""How a claim or a number is judged: agrees, differs, or undecided because the run is too small to tell.

That a difference is not significant does not show that there is none. So a claim is refuted only by an interval that
leaves no room for it; where the interval holds both, the verdict is undecided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, Protocol

Tested = Literal["agrees", "differs", "undecided"]
Verdict = Literal["agrees", "differs", "undecided", "not run", "cannot be run"]

TESTED: Final[tuple[Tested, ...]] = ("agrees", "differs", "undecided")
"""The verdicts of a claim that a run has tested."""

ALPHA: Final = 0.05
WORTHWHILE: Final = 0.02
"""The smallest gain that counts as one, of measures within 0 and 1: two points, the tolerance of a rerun number."""
ON_PAR: Final = 0.05
"""How much worse something may be that is on par, of measures within 0 and 1."""


class Interval(Protocol):
    """What has a 95 % interval: a `Score`, or the difference of a `Paired`."""

    @property
    def low(self) -> float:
        """Lower limit."""
        ...

    @property
    def high(self) -> float:
        """Upper limit."""
        ...


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
    """Whether the first arm is at most `margin` worse than the second (a test of non-inferiority).

    Returns:
        agrees if the interval lies above -margin; differs if it lies below; else undecided.
    """
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


def all_of(verdicts: Iterable[Tested]) -> Tested:
    """The verdict of a claim that holds only if each of its parts does: one part refuted refutes it.

    Raises:
        ValueError: there is no part.
    """
    found = set(verdicts)
    if not found:
        raise ValueError("A claim needs at least one part that was tested.")
    return "differs" if "differs" in found else "undecided" if "undecided" in found else "agrees"


def exactly(holds: bool) -> Tested:
    """The verdict where counting decides and nothing is sampled."""
    return "agrees" if holds else "differs"
