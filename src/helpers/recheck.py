"""Ask for a sample of the stored answers again, and count how many are the same."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from helpers.completions import Answered, Choice, Loglikelihood, Reply
from helpers.requests import Kind

RECHECKED_REQUESTS = 10
"""Stored requests of a step that are sent again, or half of the step if it is small."""
RECHECKED_COST = 1_500
"""Cost of a step's sample, in prompt tokens."""
GENERATED_TOKEN_COST = 10
"""A generated token takes as long as ten tokens of a prompt."""
SLOW_ENGINES = {"llamacpp": 500}
"""Highest cost of the one request per step that a slow engine is sent again.

llama.cpp reads prompts at a third of vLLM's rate.
"""
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


def choose_sample(
    stored: Mapping[str, StoredAnswer], label: str, n_requests: int, engine: str
) -> list[str]:
    """Choose the stored answers of a step to ask for again.

    Args:
        stored: By key.
        label: Name of the step.
        n_requests: Number of its requests, stored or not.
        engine: What will be asked.

    Returns:
        Keys whose total cost is within the engine's budget. Keys are digests, so the
        first ones are a random sample that is the same in each run.
    """
    keys = [key for key, answer in stored.items() if answer.label == label]
    candidates = sorted(keys)[:RECHECKED_REQUESTS]
    if not candidates:
        return []
    costs = {key: stored[key].cost for key in candidates}
    if engine in SLOW_ENGINES:
        cheapest = min(candidates, key=costs.__getitem__)
        return [cheapest] if costs[cheapest] <= SLOW_ENGINES[engine] else []
    total_costs = accumulate(costs.values())
    n_affordable = sum(total <= RECHECKED_COST for total in total_costs)
    n_sample = min(n_affordable, n_requests // 2)
    return candidates[: max(1, n_sample)]


def is_same(stored: Answered, answer: Answered) -> bool:
    """Whether an answer is the stored one."""
    if isinstance(stored, Loglikelihood) and isinstance(answer, Loglikelihood):
        return math.isclose(stored.total, answer.total, rel_tol=LOGLIKELIHOOD_TOLERANCE)
    if isinstance(stored, Choice) and isinstance(answer, Choice):
        return stored.answer == answer.answer
    if isinstance(stored, Reply) and isinstance(answer, Reply):
        return stored.text == answer.text
    return False
