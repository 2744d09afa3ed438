"""What a profile costs in requests, tokens, hours and memory, from the token counts of the runs on record.

Where a profile has been run, its counts are taken; answers that came from the disk count with what they took when they
were made. Where it has not, another profile's are scaled by the sizes of the two, between bounds: a notebook's requests
are a sum over its sizes, so they grow at least by the least and at most by the largest of the sizes' ratios.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, get_args

from helpers.engine_install import EMBEDDED_MODELS, GIB
from helpers.results.records import Record, records
from helpers.settings import NOTEBOOKS, RESULTS, Profile, read_profile
from helpers.site.parameters import declared

PER_PROMPT: Final = re.compile(r"chunk|passages|candidates|documents|k_\w+|\w*characters|\w*_depth")
"""Parameters that make a prompt longer, not prompts more."""
ALL: Final = "all notebooks"
NEITHER: Final = re.compile(r"seed|\w*draws|\w*_tokens|\w*temperature|top_p|retrieved|repairs")
"""Numbers that change neither: what they set is done without an LLM, or is counted apart."""
BYTES_A_WEIGHT: Final = 2
"""Of a served model in 16 bits."""


@dataclass(frozen=True)
class Range:
    """From `low` to `high`; the same where it is known."""

    low: float
    high: float

    def times(self, low: float, high: float) -> Range:
        """Scaled, each end by its own factor."""
        return Range(self.low * low, self.high * high)

    def plus(self, other: Range) -> Range:
        """The sum, end by end."""
        return Range(self.low + other.low, self.high + other.high)


@dataclass(frozen=True)
class Cost:
    """What one notebook costs in one profile, asked from nothing.

    Attributes:
        notebook, profile: which.
        basis: the profile whose record the counts are from.
        requests, prompt, generated: how many requests, and tokens read and written.
        rate: tokens a second, read and written, that the recorded server handled; 0 where it was not timed.
        other: seconds of the recorded run outside the LLM.
    """

    notebook: str
    profile: Profile
    basis: Profile
    requests: Range
    prompt: Range
    generated: Range
    rate: float
    other: float

    @property
    def seconds(self) -> float | None:
        """At the rate of the recorded run; None if it was not timed."""
        return self.tokens.high / self.rate + self.other if self.rate else None

    @property
    def tokens(self) -> Range:
        """Read and written."""
        return self.prompt.plus(self.generated)


def costs(profile: Profile) -> list[Cost]:
    """The cost of each notebook that asks an LLM and has a record of some profile with counted tokens."""
    order = dict.fromkeys((profile, "laptop", "paper", "smoke"))
    found: dict[str, Cost] = {}
    for basis in order:
        for record in (*records(basis), *records(basis, RESULTS)):
            here = (NOTEBOOKS / f"{record.notebook}.ipynb").is_file()
            if here and record.notebook not in found and (cost := recorded(record)):
                found[record.notebook] = cost if basis == profile else scaled(cost, record, profile)
    return [found[name] for name in sorted(found)]


def recorded(record: Record) -> Cost | None:
    """What a run cost, or would have without kept answers; None where it asked nothing."""
    tokens = record.provenance.tokens
    if not tokens["prompt"]:
        return None
    seconds = record.asking_seconds
    return Cost(
        record.notebook,
        record.profile,
        record.profile,
        _known(tokens["requests"]),
        _known(tokens["prompt"]),
        _known(tokens["generated"]),
        (tokens["prompt"] + tokens["generated"]) / seconds if seconds else 0.0,
        max(record.took - seconds, 0.0),
    )


def total(each: Sequence[Cost], profile: Profile) -> Cost:
    """The sum over notebooks; its rate is 0 unless each of them was timed."""
    requests, prompt, generated = Range(0, 0), Range(0, 0), Range(0, 0)
    for cost in each:
        requests = requests.plus(cost.requests)
        prompt, generated = prompt.plus(cost.prompt), generated.plus(cost.generated)
    asking = sum(cost.tokens.high / cost.rate if cost.rate else math.inf for cost in each)
    rate = prompt.plus(generated).high / asking if asking else 0.0
    basis = profile if all(cost.basis == profile for cost in each) else each[0].basis
    return Cost(ALL, profile, basis, requests, prompt, generated, rate, sum(cost.other for cost in each))


def scaled(cost: Cost, record: Record, profile: Profile) -> Cost:
    """A recorded cost at the sizes of another profile, between bounds.

    A model that the record's run left out may double everything; answers may be as long as the profile lets them.
    """
    before = dict(_flat(record.provenance.parameters))
    after = dict(_flat(_planned(record.notebook, profile)))
    grown = [now / then for name, then, now in _both(before, after) if not _is(PER_PROMPT, name)]
    longer = [now / then for name, then, now in _both(before, after) if _is(PER_PROMPT, name)]
    low, high = min(grown, default=1.0), max(grown, default=1.0)
    models = sum(name.endswith("_model") and before.get(name) == "" and bool(value) for name, value in after.items())
    high *= 1 + models
    requests = cost.requests.times(low, high)
    prompt = cost.prompt.times(low * min([1.0, *longer]), high * max([1.0, *longer]))
    generated = cost.generated.times(low, high)
    if after.get("answer_tokens", 0) > before.get("answer_tokens", math.inf):
        generated = Range(generated.low, max(generated.high, requests.high * after["answer_tokens"]))
    return replace(cost, profile=profile, requests=requests, prompt=prompt, generated=generated)


def memory(model: str) -> str:
    """What serving a model takes, in words: as measured for an embedded one, else the weights by the model's name."""
    if weights := EMBEDDED_MODELS.get(model):
        each = ", ".join(f"{bytes / GIB:g} GiB with {engine}" for engine, bytes in weights.memory.items())
        return f"{each}, as measured"
    if size := re.search(r"(\d+(?:\.\d+)?)[Bb]\b", model):
        return f"{float(size[1]) * BYTES_A_WEIGHT:g} GB for weights in 16 bits, and room for the requests under way"
    return "not told by its name"


def models(profile: Profile) -> list[str]:
    """The language models that a profile names."""
    whole = read_profile(profile)
    named = (v for part in whole.values() if part for k, v in part.items() if k.endswith("_model") and v)
    return list(dict.fromkeys(named))


def profiles() -> tuple[Profile, ...]:
    """Every profile, the smallest first."""
    return get_args(Profile)


def _known(value: float) -> Range:
    return Range(value, value)


def _planned(notebook: str, profile: Profile) -> dict[str, Any]:
    whole = read_profile(profile)
    return declared(NOTEBOOKS / f"{notebook}.ipynb") | (whole.get("defaults") or {}) | (whole.get(notebook) or {})


def _flat(parameters: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Parameters by name, those of a mapping as `name.key`."""
    for name, value in parameters.items():
        if isinstance(value, Mapping):
            yield from ((f"{name}.{key}", one) for key, one in value.items())
        else:
            yield name, value


def _both(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Counts that both have: name, then, now."""
    for name, then in before.items():
        now = after.get(name)
        if type(then) is int and type(now) is int and then > 0 and not _is(NEITHER, name):
            yield name, then, now


def _is(pattern: re.Pattern[str], name: str) -> bool:
    return pattern.fullmatch(name.partition(".")[0]) is not None
