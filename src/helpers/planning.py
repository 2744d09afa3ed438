"""Steps of requests, and what of them is stored."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from helpers.answer_rows import from_row
from helpers.completions import Answer, Reply
from helpers.requests import Kind, Store, request_key


@dataclass(frozen=True)
class Step(Generic[Answer]):
    """The requests of one call, which share all but the prompt.

    Attributes:
        kind: What is asked for.
        parameters: Sampling parameters and other fields of the requests.
        prompts: Messages, plain text, or a pair of texts for a log-likelihood.
        answer_type: Type of the answers.
        label: Name of the step in progress bars, errors and the record of the run.
    """

    kind: Kind
    parameters: Mapping[str, Any]
    prompts: Sequence[Any]
    answer_type: Callable[..., Answer]
    label: str


@dataclass(frozen=True)
class Plan(Generic[Answer]):
    """How each request of a step will be answered.

    Attributes:
        keys: Key of each prompt. Equal prompts have the same key.
        prompts: Prompt of each key.
        stored: Stored answers by key.
    """

    keys: Sequence[str]
    prompts: Mapping[str, Any]
    stored: Mapping[str, Answer]

    @property
    def missing(self) -> list[str]:
        """Keys of the requests that the model has to answer."""
        return [key for key in self.prompts if key not in self.stored]


def make_plan(
    step: Step[Answer], weights: str, store: Store | None, *, retry_overflow: bool
) -> Plan[Answer]:
    """Find the stored answers of a step.

    Args:
        step: What is asked for.
        weights: The model whose answers hold; see `LlmEndpoint.weights`.
        store: Where they are; without one, all are missing.
        retry_overflow: Whether a prompt that overflowed before may fit now.
    """
    keys = [request_key(step.kind, weights, step.parameters, prompt) for prompt in step.prompts]
    rows = store.get(keys) if store else {}
    stored = {key: from_row(row, step.answer_type) for key, row in rows.items()}
    if retry_overflow:
        stored = {key: answer for key, answer in stored.items() if not overflowed(answer)}
    return Plan(keys, dict(zip(keys, step.prompts, strict=True)), stored)


def overflowed(answer: object) -> bool:
    """Whether a prompt did not fit the context."""
    return isinstance(answer, Reply) and answer.status == "overflow"
