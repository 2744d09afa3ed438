"""Try rules on simulated data before they judge: what does a rule say if the paper is right?

Each claim with a rule has a trial in `data/trials.yml`: the values that the paper prints for the
rule's arms, and its own n. At these values a rule may take the wrong side in at most 2.5 % of
simulated sets, and should find the right word in at least 80 %; where n is too small for that, the
trial says how many units would do. Where the truth lies exactly on the rule's boundary, a decisive
word may come in at most 5 %.

    python -m evaluation.trials

prints the table. The sets are simulated as differences with their standard errors, which is fast;
`simulated_rows` makes rows of the table of answers for the rules' whole code.
"""

import math
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from statistics import NormalDist
from typing import Annotated, Final

import numpy as np
import yaml
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, model_validator

from evaluation import decisions, paired
from evaluation.answers import Answer
from evaluation.decisions import Part
from evaluation.metrics import Score
from evaluation.outcomes import Outcomes
from evaluation.paired import Paired
from evaluation.published import Claim, RecordError, Rule, Strict, papers, published
from evaluation.rules import Criterion
from resources.settings import DATA, run_command_line

FILE: Final = DATA / "trials.yml"
N_SETS: Final = 1000
"""Simulated sets of each trial."""
MAX_WRONG: Final = 0.025
MIN_POWER: Final = decisions.POWER
MAX_DECISIVE: Final = 0.05
"""Largest share on the wrong side, smallest of the right word, largest decisive at the boundary."""
CORRELATION: Final = 0.3
"""Assumed correlation of two arms' scores on the same unit, where a trial states none."""
_FAR: Final = 10.0
"""Standard errors by which the other parts hold while one lies on its boundary."""
_NORMAL: Final = NormalDist()
_NORMAL_95: Final = _NORMAL.inv_cdf(0.975)
_SMALLEST_SPREAD: Final = 0.02
"""Standard deviation of a measure that is printed as 0 or 1, so that its interval has a width."""
_MAX_UNITS: Final = 10**7

Floats = NDArray[np.float64]


def _as_values(arms: object) -> object:
    """Take the values of arms as text or numbers."""
    return {arm: str(value) for arm, value in arms.items()} if isinstance(arms, dict) else arms


Values = Annotated[dict[str, str], BeforeValidator(_as_values)]
"""The value of each arm: a number, or the id of a printed number."""


class Trial(Strict):
    """What is simulated for one claim, or why nothing is."""

    n: int | None = Field(default=None, ge=2, description="units in the paper, or assumed")
    arms: Values = Field(default_factory=dict)
    each: dict[str, Values] = Field(
        default_factory=dict, description="the values of the arms by group of a rule with `each`"
    )
    group_n: dict[str, int] = Field(
        default_factory=dict, description="units of each group, where they differ"
    )
    parts: tuple[Values, ...] = Field(
        default=(), description="the values of the arms by part of a rule with `all_of`"
    )
    spread: float | None = Field(
        default=None, gt=0, description="standard deviation over units; default: of a share"
    )
    correlation: float = Field(default=CORRELATION, ge=0, lt=1)
    assumed: str = Field(default="", description="what of this the paper does not print")
    needs: int | None = Field(default=None, description="units with which a rule has its power")
    why_not: str = Field(default="", description="why nothing is simulated")

    @model_validator(mode="after")
    def _says_one_thing(self) -> "Trial":
        has_values = bool(self.arms or self.each or self.parts)
        if has_values == bool(self.why_not):
            raise ValueError("a trial has values of arms, or says in why_not that it has none")
        if has_values and self.n is None:
            raise ValueError("a trial with values has n")
        return self


@dataclass(frozen=True)
class Contrast:
    """One comparison of a rule: its true value and the standard error of its estimate."""

    rule: Rule
    value: float
    error: float

    @property
    def holds(self) -> bool:
        """Whether the claim is true of the value."""
        if self.rule.equivalent:
            return abs(self.value) < self.rule.tolerated
        if self.rule.below:
            return self.value < self.rule.boundary
        return self.value > self.rule.boundary

    def at_boundary(self) -> "Contrast":
        """The same where the truth lies exactly on the boundary."""
        return replace(self, value=self.rule.boundary)

    def far_inside(self) -> "Contrast":
        """The same where the claim holds beyond doubt."""
        if self.rule.equivalent:
            return replace(self, value=0.0, error=self.rule.tolerated / _FAR)
        direction = -1.0 if self.rule.below else 1.0
        return replace(self, value=self.rule.boundary + direction * _FAR * self.error)

    @property
    def distance(self) -> float:
        """Standard errors between value and boundary."""
        return abs(self.value - self.rule.boundary) / self.error


@dataclass(frozen=True)
class Result:
    """What a rule said of the simulated sets, as shares.

    Attributes:
        claim: Id of the claim.
        n: Units of each set.
        expected: The right word at the printed values.
        right: Share of sets with the right word.
        wrong: Share on the wrong side.
        decisive: Share with a decisive word where the truth lies on the boundary.
        needs: Units with which the right word has its power; None if ``n`` has it.
    """

    claim: str
    n: int
    expected: str
    right: float
    wrong: float
    decisive: float
    needs: int | None


@lru_cache
def trials() -> Mapping[str, Trial]:
    """The trial of each claim, from its file; none where a project has no such file.

    Raises:
        RecordError: If an entry is wrong.
    """
    if not FILE.is_file():
        return {}
    try:
        entries = yaml.safe_load(FILE.read_text(encoding="utf-8")) or {}
        return {claim: Trial.model_validate(entry) for claim, entry in entries.items()}
    except (yaml.YAMLError, ValueError) as error:
        raise RecordError(f"{FILE} cannot be used. Correct this and try again:\n{error}") from error


def claims_with_rules() -> Iterator[Claim]:
    """The claims whose rule samples something; printed numbers alone are not sampled."""
    for paper in papers():
        for claim in published(paper).claims:
            if claim.rule and set(claim.rule.bases) != {"printed"}:
                yield claim


def contrasts(rule: Rule, trial: Trial, n: int) -> list[Contrast]:
    """The comparisons of a rule at the printed values.

    Args:
        rule: A rule of the grammar; of `first_of` the first is tried.
        trial: The values of its arms.
        n: Units of a set.
    """
    if rule.first_of:
        return contrasts(rule.first_of[0], trial, n)
    if rule.all_of:
        found = []
        values = trial.parts or (trial.arms,) * len(rule.all_of)
        for part, arms in zip(rule.all_of, values, strict=True):
            found += _contrasts_of_group(part, arms, trial, n)
        return found
    found = []
    for group, arms in (trial.each or {"": trial.arms}).items():
        # where n is varied to find the units needed, all groups grow alike
        share = trial.group_n.get(group, trial.n or n) / (trial.n or n)
        found += _contrasts_of_group(rule, arms, trial, round(n * share))
    return found


def _contrasts_of_group(
    rule: Rule, arms: Mapping[str, str], trial: Trial, n: int
) -> list[Contrast]:
    values = {arm: _value(stated) for arm, stated in arms.items()}
    if rule.arm:
        error = _spread(values[rule.arm], trial) / math.sqrt(n)
        return [Contrast(rule, values[rule.arm], error)]
    found = []
    for first in rule.first:
        for second in rule.than:
            spreads = [_spread(values[arm], trial) for arm in (first, second)]
            shared = 2 * trial.correlation * math.prod(spreads)
            variance = spreads[0] ** 2 + spreads[1] ** 2 - shared
            found.append(Contrast(rule, values[first] - values[second], math.sqrt(variance / n)))
    return found


def _value(stated: str) -> float:
    """The value of an arm: a number, or what the paper prints under an id."""
    paper, dot, _ = stated.partition(".")
    if dot and not paper.lstrip("-").isdigit():
        return published(paper).number(stated).value
    return float(stated)


def _spread(value: float, trial: Trial) -> float:
    """Standard deviation over units; that of a share follows from it."""
    if trial.spread is not None:
        return trial.spread
    return max(_SMALLEST_SPREAD, math.sqrt(max(0.0, value * (1 - value))))


def simulate(parts: Sequence[Contrast], n: int, *, sets: int = N_SETS, seed: int = 0) -> Counter:
    """Ask a rule about simulated sets.

    Args:
        parts: The comparisons, with their true values.
        n: Units of a set, as the intervals state them.
        sets: Number of sets.
        seed: Seed of the random numbers.

    Returns:
        How often each word came.
    """
    rng = np.random.default_rng(seed)
    true = np.array([part.value for part in parts])
    errors = np.array([part.error for part in parts])
    values = rng.normal(true, errors, size=(sets, len(parts)))
    words = [_word(parts, row, errors, n) for row in values]
    return Counter(words)


def _word(parts: Sequence[Contrast], values: Floats, errors: Floats, n: int) -> str:
    """The word for one set, by the code that decides claims."""
    z = np.abs(values / errors)
    raw = [2 * (1 - _NORMAL.cdf(float(size))) for size in z]
    adjusted = paired.holm(raw)
    judged = []
    for contrast, value, error, p in zip(parts, values, errors, adjusted, strict=True):
        interval = _interval(contrast.rule, float(value), float(error), n)
        judged.append(Part(interval, Criterion(contrast.rule, p)))
    bounds = [part.rule.boundary for part in parts]
    return decisions.decide_by_intervals(judged, bounds, why="simulated").verdict


def _interval(rule: Rule, value: float, error: float, n: int) -> Score | Paired:
    low, high = value - _NORMAL_95 * error, value + _NORMAL_95 * error
    if rule.arm:
        return Score(value, n, low, high)
    return Paired("simulated", n, 0, 0, value, low, high, 0.0)


def attempt(claim: Claim, trial: Trial, *, sets: int = N_SETS) -> Result:
    """Try the rule of a claim.

    Args:
        claim: A claim with a rule.
        trial: Its trial, with values.
        sets: Number of simulated sets.

    Raises:
        ValueError: If there is no rule, or nothing to simulate.
    """
    if claim.rule is None or trial.n is None:
        raise ValueError(f"{claim.id} has no rule or no trial")
    printed = contrasts(claim.rule, trial, trial.n)
    expected = _expected(printed)
    words = simulate(printed, trial.n, sets=sets)
    opposite = "differs" if expected == "agrees" else "agrees"
    right = words[expected] / sets
    at_boundary = simulate(_with_one_at_boundary(printed), trial.n, sets=sets, seed=1)
    return Result(
        claim=claim.id,
        n=trial.n,
        expected=expected,
        right=right,
        wrong=words[opposite] / sets,
        decisive=1 - at_boundary["inconclusive"] / sets,
        needs=None if right >= MIN_POWER else units_needed(claim.rule, trial),
    )


def _expected(parts: Sequence[Contrast]) -> str:
    return "agrees" if all(part.holds for part in parts) else "differs"


def _with_one_at_boundary(parts: Sequence[Contrast]) -> list[Contrast]:
    """The comparison that is nearest to its boundary on it, all others far inside."""
    nearest = min(parts, key=lambda part: part.distance)
    return [part.at_boundary() if part is nearest else part.far_inside() for part in parts]


def units_needed(rule: Rule, trial: Trial) -> int | None:
    """The units with which the right word comes in `MIN_POWER` of the sets; None if ever.

    It is found by doubling n, then by bisection to two digits.
    """
    low = high = trial.n or 2
    while not _has_power(rule, trial, high):
        low, high = high, 2 * high
        if high > _MAX_UNITS:
            return None
    while high - low > max(1, low // 50):
        middle = (low + high) // 2
        if _has_power(rule, trial, middle):
            high = middle
        else:
            low = middle
    return decisions.two_digits(high)


def _has_power(rule: Rule, trial: Trial, n: int) -> bool:
    parts = contrasts(rule, trial, n)
    words = simulate(parts, n, sets=400)
    return words[_expected(parts)] >= MIN_POWER * 400


def simulated_rows(rule: Rule, trial: Trial, *, seed: int, draws: int = 200) -> Outcomes:
    """Rows of the table of answers at the printed values, for the rules' whole code.

    Shares alone are simulated: each unit is right or wrong, and arms share a part of their luck.

    Args:
        rule: The rule, whose measure and column of `each` the rows have.
        trial: The values of the arms.
        seed: Seed of the random numbers.
        draws: Bootstrap samples of the outcomes.
    """
    rng = np.random.default_rng(seed)
    leaf = _first_leaf(rule)
    column = leaf.each or "task"
    rows = []
    for group, arms in (trial.each or {"": trial.arms}).items():
        n = trial.group_n.get(group, trial.n)
        shared = rng.normal(size=n)
        for arm, stated in arms.items():
            own = rng.normal(size=n)
            mixed = math.sqrt(trial.correlation) * shared + math.sqrt(1 - trial.correlation) * own
            share = np.clip(_value(stated), 1e-9, 1 - 1e-9)
            is_right = mixed < _NORMAL.inv_cdf(float(share))
            measure = "right" if leaf.function else leaf.measure
            for i, right in enumerate(is_right):
                unit = f"{group}.{i}"
                row = Answer(arm, unit, unit, task=group, measures={measure: (float(right), 1.0)})
                rows.append(replace(row, model=group) if column == "model" else row)
    return Outcomes(rows, draws=draws)


def _first_leaf(rule: Rule) -> Rule:
    return _first_leaf(rule.parts[0]) if rule.parts else rule


def results(sets: int = N_SETS) -> list[Result]:
    """Try the rule of every claim that has a trial with values."""
    found = []
    for claim in claims_with_rules():
        trial = trials().get(claim.id)
        if trial and not trial.why_not and not _reads_a_function(claim.rule):
            found.append(attempt(claim, trial, sets=sets))
    return found


def _reads_a_function(rule: Rule | None) -> bool:
    """Whether the code of a paper decides, which only simulated rows can try."""
    return rule is not None and bool(_first_leaf(rule).function)


def main() -> int:
    """Print what each rule says of simulated sets."""
    lines = ["claim: n, right word (share), wrong side, decisive at the boundary, units needed"]
    for result in results():
        needs = f"{result.needs:,}" if result.needs else "-"
        lines.append(
            f"{result.claim}: {result.n:,}, {result.expected} {result.right:.3f}, "
            f"{result.wrong:.3f}, {result.decisive:.3f}, {needs}"
        )
    sys.stdout.write("\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
