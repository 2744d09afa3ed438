"""Count what a notebook would ask, without asking: the client of `ANSWERS=plan`.

Each prompt is counted as it is, and answered by a stand-in that holds a mark. So a prompt that
holds the mark depends on an earlier reply, and its tokens are a range: that reply has any length up
to its limit.
"""

import math
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helpers.completions import Answer, Answered, Choice, Loglikelihood, Reply
from helpers.planning import Step
from helpers.prompt_lengths import own_tokenizer
from helpers.request_bodies import WRAPPING_TOKENS
from helpers.requests import request_key
from resources import plan_file
from resources.services import LlmEndpoint

TOKENS_PER_MESSAGE = 5
TOKENS_PER_CHAT = 3
"""What a chat template adds to each message and to the whole."""
TOKENS_OF_OWN_SYSTEM = 20
"""Of the system message that a template adds where a chat has none."""
ANSWERS = ("YES", "NO", "Not known", "aspirin, ibuprofen", "3", "nausea")
"""Begin the stand-ins, so that what comes after a reply is done too."""
CONDITIONAL = "repair"
"""Begins the names of steps that are asked only if an earlier reply was no good."""
_MARK = re.compile("\N{WHITE SQUARE}\\d+\N{BLACK SQUARE}")
"""Number of tokens that the reply may have, between two signs that no prompt has."""
_asked: set[str] = set()
"""Keys of what this process has counted."""


@dataclass(frozen=True)
class StepForecast:
    """What one step would ask.

    Attributes:
        model: The model that is asked.
        label: Name of the step.
        kind: What is asked for, or ``training``.
        requests: Number of distinct requests.
        prompt_tokens: Their tokens, if every earlier reply is empty.
        max_prompt_tokens: Their tokens, if every earlier reply has its longest.
        max_answer_tokens: Tokens of the longest replies.
        is_conditional: Whether it is asked only if earlier replies were no good.
        is_cut: Whether prompts that do not fit the context were left out of the tokens.
    """

    model: str
    label: str
    kind: str
    requests: int
    prompt_tokens: int
    max_prompt_tokens: int
    max_answer_tokens: int
    is_conditional: bool = False
    is_cut: bool = False


def answer_without_asking(step: Step[Answer], endpoint: LlmEndpoint) -> list[Answer]:
    """Count a step, and give a stand-in for each answer."""
    new: dict[str, Any] = {}
    keys = []
    for prompt in step.prompts:
        key = request_key(step.kind, endpoint.weights, step.parameters, prompt)
        keys.append(key)
        if key not in _asked:
            new[key] = prompt
    _asked.update(new)
    if new:
        forecast = _forecast(step, list(new.values()), endpoint)
        plan_file.note(asdict(forecast))
    max_tokens = _max_answer_tokens(step)
    return [_stand_in(step, key, max_tokens) for key in keys]  # type: ignore[misc]


def _forecast(step: Step[Answer], prompts: Sequence[Any], endpoint: LlmEndpoint) -> StepForecast:
    max_tokens = _max_answer_tokens(step)
    shortest, longest, n_cut = 0, 0, 0
    for prompt in prompts:
        low, high = _prompt_tokens(prompt, endpoint.model)
        if endpoint.context and low + max_tokens > endpoint.context:
            n_cut += 1
            continue
        shortest += low
        longest += high
    base = endpoint.adapter.strip()
    return StepForecast(
        model=f"{base} with adapters" if base else endpoint.model,
        label=step.label,
        kind=step.kind,
        requests=len(prompts),
        prompt_tokens=shortest,
        max_prompt_tokens=longest,
        max_answer_tokens=(len(prompts) - n_cut) * max_tokens,
        is_conditional=step.label.startswith(CONDITIONAL),
        is_cut=n_cut > 0,
    )


def _prompt_tokens(prompt: Any, model: str) -> tuple[int, int]:  # noqa: ANN401  # as the API
    """Tokens of a prompt: at least, and at most where it holds earlier replies."""
    if isinstance(prompt, str):
        texts, overhead = [prompt], 0
    elif prompt and isinstance(prompt[0], str):
        texts, overhead = list(prompt), 0
    else:
        texts = [message["content"] for message in prompt]
        overhead = _template_tokens(prompt)
    text = "\n".join(texts)
    marks = [int(mark[1:-1]) for mark in _MARK.findall(text)]
    without_replies = overhead + count_text_tokens(_MARK.sub("", text), model)
    return without_replies, without_replies + sum(marks)


def _template_tokens(messages: Sequence[Mapping[str, str]]) -> int:
    """What a chat template adds to messages."""
    has_system = any(message["role"] == "system" for message in messages)
    own_system = 0 if has_system else TOKENS_OF_OWN_SYSTEM
    return TOKENS_PER_CHAT + TOKENS_PER_MESSAGE * len(messages) + own_system


def count_text_tokens(text: str, model: str) -> int:
    """Tokens of a text by the model's own tokenizer, or else by one that stands in."""
    if tokenizer := own_tokenizer(model):
        return len(tokenizer.encode(text, add_special_tokens=False).ids)
    return plan_file.count_tokens(text)


def _max_answer_tokens(step: Step[Answer]) -> int:
    if step.kind == "loglikelihood":
        return 0
    if step.kind == "choose":
        choices = step.parameters["choices"]
        longest = max(map(len, choices))
        return longest // 2 + WRAPPING_TOKENS // 4
    thinking: int = step.parameters.get("thinking_tokens", 0)
    return int(step.parameters["max_tokens"]) + thinking


def _stand_in(step: Step[Answer], key: str, max_tokens: int) -> Answered:
    number = zlib.crc32(key.encode())
    if step.kind == "loglikelihood":
        return Loglikelihood(-1.0 - number % 7, 1, 0, 0.0, key=key)
    if step.kind == "choose":
        choices = step.parameters["choices"]
        logprobs = dict.fromkeys(choices, -math.log(len(choices)))
        return Choice(choices[number % len(choices)], logprobs, 0, 0, 0.0, key=key)
    mark = f"\N{WHITE SQUARE}{max_tokens}\N{BLACK SQUARE}"
    text = f"{ANSWERS[number % len(ANSWERS)]} {mark}"
    return Reply(text, "complete", 0, 0, 0.0, {"YES": -0.7, "NO": -0.7}, key=key)


def read_steps(path: Path) -> list[StepForecast]:
    """What a notebook would ask and train, from the file of its steps."""
    return [StepForecast(**row) for row in plan_file.read(path)]
