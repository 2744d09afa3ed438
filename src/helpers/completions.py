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
    """The LLM server failed; the message says which request and what to do."""


class CapabilityError(LlmError):
    """The server cannot do what was asked, for example obey a constraint or score a prompt."""


class ContextOverflowError(CapabilityError):
    """A prompt does not fit the context, and the caller did not ask to record this."""


@dataclass(frozen=True)
class Reply:
    """A free reply.

    Attributes:
        text: The answer, without any thought.
        status: ``cut``: the token limit ended it; ``overflow``: the prompt did not fit.
        prompt_tokens: None where the server does not count them; so `generated_tokens`,
            which include those of a thought.
        seconds: What it took, the server's queue included.
        first_token: The likeliest first tokens with their log-probabilities. Empty after
            a thought, where they say nothing about the answer.
        thought: What the model wrote before it answered; no parser reads it.
        thought_tokens: None where the server does not count them.
        changes: How the request differed from what was meant, because the server refused
            something; see `helpers.adaptations`.
        answered_by: The model that the server names, if it is not the one asked for.
        cached: Whether it was stored before.
        key: Key of its row in `helpers.requests`.
        source: Engine, version and precision that gave it.
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
        """What the table of answers says of it, by the names of `Answer`."""
        flags = {status: self.status == status for status in ("cut", "overflow")}
        return {"answer": self.text, "requests": [self.key], **flags}


@dataclass(frozen=True)
class Choice:
    """The likeliest of some fixed answers; for further attributes see `Reply`.

    Attributes:
        logprobs: Log-probability of each choice; their probabilities sum to 1. Empty where
            the server gives none.
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
        """The probability of YES; None where the server gives no log-probabilities."""
        return math.exp(self.logprobs["YES"]) if self.logprobs else None


@dataclass(frozen=True)
class Loglikelihood:
    """How likely a model continues a text as it does; for further attributes see `Reply`.

    Attributes:
        total: Natural logarithm, summed over the tokens of the continuation.
        tokens: Their number.
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
