"""Ask for a sample of the stored answers again, and count how many are the same."""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import accumulate, chain, zip_longest
from typing import Any

import numpy as np

from helpers.completions import Answered, Choice, Loglikelihood, Reply
from helpers.requests import Kind
from resources.settings import NOTEBOOKS, settings

RECHECKED_REQUESTS = 10
"""Stored requests of a step that are sent again, or half of the step if it is small."""
RECHECKED_COST = 1_500
"""Cost of a step's sample, in prompt tokens."""
GENERATED_TOKEN_COST = 10
"""A generated token takes as long as ten tokens of a prompt."""
SLOW_ENGINES = {"llamacpp": 500}
"""Highest cost of the one request per step that a slow engine is sent again in each run.

llama.cpp reads prompts at a third of vLLM's rate.
"""
SLOW_RUNS = 5
"""A step with nothing so cheap sends a request to a slow engine in one of so many runs."""
ASKING_SHARE = 2 / 3
"""Part of `check_seconds` that asking again may take; the rest is for searching again."""
LOGLIKELIHOOD_TOLERANCE = 0.05
"""Relative difference that counts as none: batching changes the order of sums."""


@dataclass(frozen=True)
class StoredAnswer:
    """A stored answer that was used, with what is needed to ask for it again."""

    label: str
    kind: Kind
    parameters: Mapping[str, Any]
    prompt: Any
    answer: Answered

    @property
    def cost(self) -> int:
        """What it costs to ask again, in prompt tokens."""
        generated = self.answer.generated_tokens or 0
        return (self.answer.prompt_tokens or 0) + GENERATED_TOKEN_COST * generated


def check_seed() -> int:
    """What draws the samples of a check: the setting, or another number each day."""
    seed = settings().check_seed
    return date.today().toordinal() if seed is None else seed


def check_generator(name: str) -> np.random.Generator:
    """Draws the sample of a check by that name; see `check_seed`."""
    return np.random.default_rng([check_seed(), zlib.crc32(name.encode())])


def chapter_seconds(share: float) -> float:
    """The seconds of `check_seconds` that a chapter may spend on a part of the check."""
    n_chapters = len(list(NOTEBOOKS.glob("*.ipynb")))
    return settings().check_seconds * share / max(1, n_chapters)


def choose_sample(
    stored: Mapping[str, StoredAnswer], label: str, n_requests: int, engine: str
) -> list[str]:
    """Draw the stored answers of a step to ask for again.

    Args:
        stored: By key.
        label: Name of the step.
        n_requests: Number of its requests, stored or not.
        engine: What will be asked.

    Returns:
        Keys whose total cost is within the engine's budget.
    """
    keys = sorted(key for key, answer in stored.items() if answer.label == label)
    # by what it asks, not by its name: steps with the same requests share the sample
    order = check_generator("".join(keys)).permutation(len(keys))
    candidates = [keys[place] for place in order[:RECHECKED_REQUESTS]]
    if not candidates:
        return []
    costs = {key: stored[key].cost for key in candidates}
    if engine in SLOW_ENGINES:
        cheapest = min(candidates, key=costs.__getitem__)
        has_its_turn = (check_seed() + zlib.crc32(label.encode())) % SLOW_RUNS == 0
        return [cheapest] if costs[cheapest] <= SLOW_ENGINES[engine] or has_its_turn else []
    total_costs = accumulate(costs.values())
    n_affordable = sum(total <= RECHECKED_COST for total in total_costs)
    n_sample = min(n_affordable, n_requests // 2)
    return candidates[: max(1, n_sample)]


def take_turns(samples: Sequence[Sequence[str]]) -> list[str]:
    """Join the samples of steps, so that each step is asked before any is asked twice.

    Time may end before all are asked; which step comes first is drawn by `check_seed`.
    """
    order = check_generator("steps").permutation(len(samples))
    rounds = zip_longest(*(samples[place] for place in order))
    return [key for key in chain.from_iterable(rounds) if key is not None]


def is_same(stored: Answered, answer: Answered) -> bool:
    """Whether an answer is the stored one."""
    if isinstance(stored, Loglikelihood) and isinstance(answer, Loglikelihood):
        return math.isclose(stored.total, answer.total, rel_tol=LOGLIKELIHOOD_TOLERANCE)
    if isinstance(stored, Choice) and isinstance(answer, Choice):
        return stored.answer == answer.answer
    if isinstance(stored, Reply) and isinstance(answer, Reply):
        return stored.text == answer.text
    return False
