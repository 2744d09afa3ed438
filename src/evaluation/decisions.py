"""Decisions on claims, and the intervals that lead to them.

A claim has one or several parts, each an interval with a criterion. The claim holds only if every
part does.
"""

import math
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from statistics import NormalDist
from typing import Final, TypeVar, cast

from evaluation import figures, formats
from evaluation.metrics import ALPHA, Score
from evaluation.paired import Paired
from evaluation.published import ON_PAR
from evaluation.records import ArmValue, Estimate
from evaluation.vocabulary import TESTED, Reason, Tested, Verdict

POWER: Final = 0.8

# scipy's quantile would take most of a second to import in each process.
_normal_quantile: Final = NormalDist().inv_cdf

NumberT = TypeVar("NumberT", int, float)

Interval = Score | Paired
"""A value on n units with its 95 % interval."""


@dataclass(frozen=True)
class Decision:
    """What a rule says of some rows, and the numbers behind it.

    A rule that is asked of this run's rows says "agrees", "differs" or "inconclusive" as one that
    is asked of the paper's; `rules.decide` puts it in the words of either question.

    Attributes:
        verdict: Whether the claim holds, or why it was not tested.
        why: The numbers that led to it, in words.
        p: The largest p-value, adjusted within the rule; None if nothing was tested.
        reason: Why the claim was not tested, if it was not.
        needed: Number of units that would decide an inconclusive claim.
        estimates: The values and differences with their intervals.
        ties: Differences that decide nothing, because all arms got the same facts.
        models: Names of the models whose answers decided.
        corrections: Parts that their plain intervals would refute, with the corrected ones; `why`
            ends with them.
        substitution: The models that ran, if the claim is about other ones.
    """

    verdict: Verdict
    why: str
    p: float | None = None
    reason: Reason | None = None
    needed: int | None = None
    estimates: tuple[Estimate, ...] = ()
    ties: tuple[Estimate, ...] = ()
    models: tuple[str, ...] = ()
    corrections: tuple["Correction", ...] = ()
    substitution: "Substitution | None" = None


@dataclass(frozen=True)
class Substitution:
    """Models that ran in place of those that a claim is about.

    Attributes:
        names: Names of the models that the claim is about.
        models: Names of the models that ran.
        did: What these models did.
        about: What the claim is about, with a place for the names.
    """

    names: tuple[str, ...]
    models: tuple[str, ...]
    did: str = "answered"
    about: str = "{} models"

    @property
    def sentence(self) -> str:
        """Which models the claim is about, and which ran; spellings of a name count once."""
        spellings = {re.sub(r"\W", "", name.lower()): name for name in self.names}
        names = list(spellings.values())
        about = self.about.format(figures.listed(names))
        return f"The claim is about {about}, but here {figures.listed(self.models)} {self.did}."


@dataclass(frozen=True)
class Correction:
    """A part of a claim whose plain interval refutes it, by the corrected interval.

    Attributes:
        text: The part with its corrected interval.
        n_intervals: Number of intervals that it is corrected for.
        refutes: Whether the corrected interval refutes the claim, too.
        family: Name of the intervals that are corrected together, where a claim has several such
            families of one size.
    """

    text: str
    n_intervals: int
    refutes: bool
    family: str = ""


@dataclass(frozen=True)
class Part:
    """A part of a claim: an interval, and the criterion that it must meet.

    Attributes:
        interval: A score or a difference with its 95 % interval.
        criterion: Says whether an interval agrees with the claim.
        label: What was measured, for a reader. A part without one leaves no estimate.
        unit: Unit of the measure, see `measures.unit`.
        bound: The value at which the claim's truth turns.
        words: The subject of a sentence about it; without one, a sentence quotes its label.
        arms: Of a difference or a ratio both arms, of a score its arm.
        measure: Name of the measure.
        where: What all its rows meet, see `outcomes.Outcomes.conditions`. A reader is led to the
            rows of the arms that meet it, if these are as many as the interval's.
    """

    interval: Interval
    criterion: Callable[[Interval], Tested]
    label: str = ""
    unit: str = "fraction"
    bound: float | None = None
    words: str = ""
    arms: tuple[ArmValue, ...] = ()
    measure: str = ""
    where: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def estimate(self) -> Estimate:
        """The interval as a record keeps it."""
        interval = self.interval
        return Estimate(
            label=self.label,
            value=interval.value,
            low=interval.low,
            high=interval.high,
            n=interval.n,
            unit=self.unit,
            difference=isinstance(interval, Paired),
            bound=self.bound,
            arms=list(self.arms),
            measure=self.measure,
            where={name: list(values) for name, values in self.where.items()},
        )

    def verdict(self, n_parts: int = 1) -> Tested:
        """Judge the part.

        Args:
            n_parts: Number of parts. The interval is widened to Bonferroni's level for
                it.

        Returns:
            Whether the interval agrees with the claim.
        """
        return self.criterion(bonferroni_interval(self.interval, n_parts))

    def verdict_of_value(self) -> Tested:
        """Judge the value as if it were known without error."""
        value = self.interval.value
        return self.criterion(Score(value, self.interval.n, value, value))


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
        The decision. If it is inconclusive, it names the number of units that would decide
        it.
    """
    supported = [part.verdict() for part in parts]
    refuted = [part.verdict(n_parts * len(parts)) for part in parts]
    verdict = all_of(supported, refuted)
    needed = None
    if verdict == "inconclusive":
        needed = _units_for_all(parts, bounds, n_parts * len(parts))
    estimates = tuple(part.estimate() for part in parts if part.label)
    corrections = _corrections(parts, n_parts * len(parts))
    why += corrected_text(corrections)
    return Decision(
        verdict, why, p, needed=needed, estimates=estimates, corrections=tuple(corrections)
    )


def _corrections(parts: Sequence[Part], n_intervals: int) -> list[Correction]:
    """The corrected interval of each part whose plain interval refutes the claim.

    Args:
        parts: The intervals and their criteria.
        n_intervals: Number of intervals of the whole claim.

    Returns:
        The corrections; none if the claim has one interval.
    """
    if n_intervals == 1:
        return []
    corrections = []
    for part in parts:
        if part.label and part.verdict() == "differs":
            corrected = bonferroni_interval(part.interval, n_intervals)
            subject = part.words or f"the estimate {formats.quoted(part.label)}"
            text = f"{subject} is {_interval_text(corrected, part)}"
            refutes = part.verdict(n_intervals) == "differs"
            corrections.append(Correction(text, n_intervals, refutes))
    return corrections


def corrected_text(corrections: Iterable[Correction]) -> str:
    """State how many corrected intervals still refute and how many do not, then each of them."""
    groups: dict[tuple[int, bool], list[Correction]] = {}
    for correction in corrections:
        key = (correction.n_intervals, correction.refutes)
        groups.setdefault(key, []).append(correction)
    sentences = []
    for (n_intervals, refutes), alike in groups.items():
        verb = "refutes" if len(alike) == 1 else "refute"
        still = f"still {verb}" if refutes else f"no longer {verb}"
        n_families = len({correction.family for correction in alike})
        subject = _corrected_in_words(len(alike), n_intervals, n_families)
        sentences.append(f" After Bonferroni's correction, {subject} {still} the claim.")
        sentences += [f" After Bonferroni's correction, {item.text}." for item in alike]
    return "".join(sentences)


def _corrected_in_words(n: int, n_intervals: int, n_families: int) -> str:
    """Name corrected intervals: `two of the four intervals`.

    Args:
        n: Number of the corrected intervals. If they are more than one family has, they come from
            several families, named or not.
        n_intervals: Number of intervals of each family.
        n_families: Number of families that the corrected intervals are from.
    """
    total = figures.in_words(n_intervals)
    if n_families > 1 or n > n_intervals:
        return f"{figures.in_words(n)} intervals, from families of {total} each,"
    if n == n_intervals:
        return "both intervals" if n == 2 else f"all {total} intervals"
    return f"{figures.in_words(n)} of the {total} intervals"


def _interval_text(interval: Interval, part: Part) -> str:
    """Write an interval as the evidence writes that of its part."""
    value, low, high = interval.value, interval.low, interval.high
    if part.unit == "fraction" and isinstance(part.interval, Paired):
        return f"{figures.points_text(value, low, high)} points"
    return figures.score_text(Score(value, interval.n, low, high), part.unit)


def _units_for_all(parts: Sequence[Part], bounds: Sequence[float], n_intervals: int) -> int | None:
    """Units with which the claim would be decided, if the values are the true ones.

    A value on the wrong side refutes the claim as soon as its corrected interval lies there. Else
    every part that does not agree yet has to be decided. No number of units decides a value that
    lies on the bound.
    """
    refuting = [part for part in parts if part.verdict_of_value() == "differs"]
    if refuting:
        return _units_to_refute(refuting, bounds, n_intervals)
    open_parts = [part for part in parts if part.verdict() != "agrees"]
    units = [required_units(part.interval, bounds) for part in open_parts]
    return None if None in units else _largest(units)


def _units_to_refute(
    parts: Sequence[Part], bounds: Sequence[float], n_intervals: int
) -> int | None:
    """Units with which the first of some parts would refute the claim."""
    corrected = [bonferroni_interval(part.interval, n_intervals) for part in parts]
    units = [required_units(interval, bounds) for interval in corrected]
    return min((number for number in units if number is not None), default=None)


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

    The width of an interval shrinks with the square root of the number of units. At a share of 0
    or 1 it shrinks with the number itself, as Wilson's does. The value is taken for the true one.

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
        if _is_boundary(interval) and distance < 1 and half_width < 1:
            growth = _odds(half_width) / _odds(distance)
        else:
            growth = (power_factor * half_width / distance) ** 2
        needed.append(max(interval.n + 1, math.ceil(interval.n * growth)))
    return min(needed, default=None)


def _is_boundary(interval: Interval) -> bool:
    """Whether a value is a share of 0 or 1, which ends its interval on one side."""
    if isinstance(interval, Paired):
        return False
    is_none = interval.low == interval.value == 0
    return is_none or interval.high == interval.value == 1


def _odds(share: float) -> float:
    """Return the odds of a share; Wilson's interval of 0 of n units ends at odds of z^2 / n."""
    return share / (1 - share)


def two_digits(units: int) -> int:
    """Round a number of units up to two digits; it is estimated no more precisely."""
    magnitude = 10 ** max(0, len(str(units)) - 2)
    return math.ceil(units / magnitude) * magnitude


def _half_width_towards(bound: float, interval: Interval) -> float:
    if bound < interval.value:
        return interval.value - interval.low
    return interval.high - interval.value


def better(difference: Interval, p: float, *, margin: float = 0.0) -> Tested:
    """Whether the first arm is better than the second, by more than a margin.

    The truth of the claim turns at one value, the margin: an interval that lies on one side of it
    decides, and any other leaves the claim open. That a gain is small refutes no claim that it
    exists; a claim of a gain that is "large" or "clear" has a margin.

    Args:
        difference: The first arm minus the second.
        p: The adjusted p-value of the difference.
        margin: The gain that the words of the claim ask for, in the unit of the measure.

    Returns:
        "agrees" if the first arm is significantly better and by more than the margin, "differs" if
        it is better by less than the margin or not at all, else "inconclusive". Where there is no
        margin, the test must be significant in either direction.
    """
    has_test = margin == 0
    if difference.high < margin:
        return "differs" if p < ALPHA or not has_test else "inconclusive"
    middle = (difference.low + difference.high) / 2
    is_beyond = middle > 0 if margin == 0 else difference.low > margin
    return "agrees" if p < ALPHA and is_beyond else "inconclusive"


def on_par(difference: Interval, *, margin: float = ON_PAR) -> Tested:
    """Whether the first arm is at most ``margin`` worse (a test of non-inferiority)."""
    return above(difference, -margin)


def equivalent(difference: Interval, *, margin: float = ON_PAR) -> Tested:
    """Whether two arms differ by less than ``margin``, in either direction."""
    if -margin < difference.low and difference.high < margin:
        return "agrees"
    is_outside = difference.low >= margin or difference.high <= -margin
    return "differs" if is_outside else "inconclusive"


def above(value: Interval, bound: float) -> Tested:
    """Whether a value lies above a bound, by its whole interval."""
    if value.low > bound:
        return "agrees"
    return "differs" if value.high <= bound else "inconclusive"


def below(value: Interval, bound: float) -> Tested:
    """Whether a value lies below a bound, by its whole interval."""
    if value.high < bound:
        return "agrees"
    return "differs" if value.low >= bound else "inconclusive"


def exactly(holds: bool) -> Tested:
    """The verdict where counting decides and nothing is sampled."""
    return "agrees" if holds else "differs"


def all_of(verdicts: Iterable[Tested], refuting: Iterable[Tested] | None = None) -> Tested:
    """Combine the verdicts of parts, all of which must hold.

    Args:
        verdicts: The verdict of each part.
        refuting: The verdicts that may refute the claim, by default the same.

    Returns:
        "differs" if a part differs, "agrees" if all agree, else "inconclusive".

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
    return "agrees" if set(verdicts) == {"agrees"} else "inconclusive"


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
    limit = f"A randomisation test of {n_clusters} clusters cannot be significant"
    return Decision("not tested", f"{limit}, whatever the answers are. {why}", reason="too few")


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


def another_model(
    names: Sequence[str], models: Sequence[str], did: str = "answered", about: str = "{} models"
) -> Decision:
    """The decision where other models answered than those that the claim is about.

    Args:
        names: Names of the models that the claim is about.
        models: Names of the models that answered.
        did: What these models did.
        about: What the claim is about, with a place for the names.
    """
    substitution = Substitution(tuple(names), tuple(models), did, about)
    return Decision(
        "not tested", substitution.sentence, reason="another model", substitution=substitution
    )


def reasons_of(decisions: Iterable[Decision]) -> str:
    """The evidence of several decisions, each text once.

    Where the same models ran in place of different ones, one sentence names all of the latter.
    """
    texts: dict[Hashable, str] = {}
    substitutions: dict[Hashable, Substitution] = {}
    for decision in decisions:
        substitution = decision.substitution
        if substitution is None or decision.why != substitution.sentence:
            texts[decision.why] = decision.why
            continue
        key = replace(substitution, names=())
        known = substitutions.get(key, key)
        substitutions[key] = replace(known, names=known.names + substitution.names)
        texts[key] = substitutions[key].sentence
    return " ".join(texts.values())


def join(decisions: Sequence[Decision]) -> Decision:
    """The decision on a claim that holds only if all of its parts do."""
    for decision in decisions:
        if decision.verdict not in TESTED:
            return decision
    verdicts = [cast(Tested, decision.verdict) for decision in decisions]
    verdict = all_of(verdicts)
    why, corrections = _joined_evidence(decisions)
    p = _largest(decision.p for decision in decisions)
    needed = None
    if verdict == "inconclusive":
        needed = _largest(decision.needed for decision in decisions)
    estimates = tuple(chain.from_iterable(decision.estimates for decision in decisions))
    models = chain.from_iterable(decision.models for decision in decisions)
    decision = Decision(
        verdict,
        why,
        p,
        needed=needed,
        estimates=estimates,
        ties=ties_of(decisions),
        corrections=corrections,
    )
    return with_models(decision, models)


def _joined_evidence(decisions: Iterable[Decision]) -> tuple[str, tuple[Correction, ...]]:
    """The evidence of several parts, with their corrected intervals together at its end."""
    texts = []
    corrections: list[Correction] = []
    for decision in decisions:
        corrected = corrected_text(decision.corrections)
        if corrected and decision.why.endswith(corrected):
            texts.append(decision.why.removesuffix(corrected))
            corrections += decision.corrections
        else:
            texts.append(decision.why)
    return " ".join(texts) + corrected_text(corrections), tuple(corrections)


def ties_of(decisions: Iterable[Decision]) -> tuple[Estimate, ...]:
    """The ties of several decisions."""
    return tuple(chain.from_iterable(decision.ties for decision in decisions))


def with_models(decision: Decision, models: Iterable[str]) -> Decision:
    """Note the models that decided, each once; a claim that was not tested has none."""
    if decision.verdict not in TESTED or decision.models:
        return decision
    names = tuple(dict.fromkeys(name for name in models if name))
    return replace(decision, models=names)


def _largest(values: Iterable[NumberT | None]) -> NumberT | None:
    """The largest value that is not None; None if there is none."""
    return max((value for value in values if value is not None), default=None)
