"""What a language model is asked and answers."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar

from resources.settings import PublicError

Message = Mapping[str, str]
"""A chat message in the OpenAI format: ``{"role": ..., "content": ...}``."""
Messages = Sequence[Message]
Status = Literal["complete", "cut", "overflow"]


class LlmError(PublicError, RuntimeError):
    """Raised when the LLM server fails. The message names the request and the remedy."""


class CapabilityError(LlmError):
    """Raised when a server cannot do what was asked, such as obey a constraint."""


class ContextOverflowError(CapabilityError):
    """Raised when a prompt does not fit the context and the caller did not ask to record this."""


@dataclass(frozen=True)
class Reply:
    """A reply in the model's own words.

    Attributes:
        text: The answer, without any thought.
        status: ``cut`` if the token limit ended the reply, ``overflow`` if the prompt did not
            fit the context, else ``complete``.
        prompt_tokens: Number of tokens of the prompt. None if the server does not count them.
        generated_tokens: Number of tokens of the reply, including those of a thought. None if the
            server does not count them.
        seconds: Seconds that the reply took, including the wait in the server's queue.
        first_token: The likeliest first tokens with their log-probabilities. Empty if none
            were asked for, and after a thought, because the first tokens then say nothing about the
            answer.
        thought: What the model wrote before it answered. No parser reads it.
        thought_tokens: Number of tokens of the thought. None if the server does not count them.
        changes: How the request differed from the intended one, because the server refused
            a part of it (see `helpers.adaptations`).
        answered_by: The model that the server names, if it is not the requested model.
        cached: Whether the reply was stored before.
        key: Key of the reply's row in `helpers.requests`.
        source: Engine, version and precision that gave the reply.
    """

    text: str
    status: Status
    prompt_tokens: int | None
    generated_tokens: int | None
    seconds: float
    first_token: dict[str, float] = field(default_factory=dict)
    thought: str = ""
    thought_tokens: int | None = None
    changes: tuple[str, ...] = ()
    answered_by: str = ""
    cached: bool = False
    key: str = ""
    source: str = ""

    @property
    def is_cut_in_thought(self) -> bool:
        """Whether the token limit ended a thought, before any answer."""
        return self.status == "cut" and bool(self.thought) and not self.text

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of the table of answers that this reply fills, named as in `Answer`."""
        flags = {status: self.status == status for status in ("cut", "overflow")}
        return {"answer": self.text, "requests": [self.key], **flags}


@dataclass(frozen=True)
class Choice:
    """The likeliest of some fixed answers. For the other attributes, see `Reply`.

    Attributes:
        logprobs: Log-probability of each choice. The probabilities sum to 1. Empty if the
            server gives no log-probabilities.
    """

    answer: str
    logprobs: dict[str, float]
    prompt_tokens: int | None
    generated_tokens: int | None
    seconds: float
    thought: str = ""
    thought_tokens: int | None = None
    changes: tuple[str, ...] = ()
    answered_by: str = ""
    cached: bool = False
    key: str = ""
    source: str = ""

    @property
    def p_yes(self) -> float | None:
        """The probability of YES, or None if the server gives no log-probabilities."""
        return math.exp(self.logprobs["YES"]) if self.logprobs else None


@dataclass(frozen=True)
class Loglikelihood:
    """How likely a model is to continue a text as given. For the other attributes, see `Reply`.

    Attributes:
        total: Sum of the natural logarithms of the probabilities of the continuation's tokens.
        tokens: Number of these tokens.
    """

    total: float
    tokens: int
    prompt_tokens: int | None
    seconds: float
    changes: tuple[str, ...] = ()
    answered_by: str = ""
    cached: bool = False
    key: str = ""
    source: str = ""
    generated_tokens: int | None = 0


Answered = Reply | Choice | Loglikelihood
Answer = TypeVar("Answer", bound=Answered)


def count_tokens(answers: Sequence[Answered]) -> int | None:
    """Sum the tokens of prompts and answers; None if a server does not count them."""
    counts: list[int] = []
    for answer in answers:
        if answer.prompt_tokens is None or answer.generated_tokens is None:
            return None
        counts += [answer.prompt_tokens, answer.generated_tokens]
    return sum(counts)


def label_probability(first_token: Mapping[str, float]) -> float | None:
    """Compute the probability of YES against NO from the first tokens of a free answer.

    Args:
        first_token: Log-probability of each token, for example `Y` or ` Yes`.

    Returns:
        None if no token begins either label.
    """
    mass = {"YES": 0.0, "NO": 0.0}
    for token, logprob in first_token.items():
        labels = _begun_labels(token.strip().upper(), list(mass))
        if len(labels) == 1:
            mass[labels[0]] += math.exp(logprob)
    total = sum(mass.values())
    return mass["YES"] / total if total else None


def _begun_labels(text: str, labels: Sequence[str]) -> list[str]:
    """The labels that a token begins, or that begin a token."""
    if not text:
        return []
    shortened = [(label, min(len(label), len(text))) for label in labels]
    return [label for label, n in shortened if label[:n] == text[:n]]


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Build the JSON schema of an object that has all of the properties and no other."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }
