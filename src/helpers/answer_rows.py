"""Answers as rows of the store, and back."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from helpers.completions import Answer, Answered
from helpers.requests import Kind, Row, plain, request_key
from helpers.thoughts import split_thought

_COLUMNS = {"prompt_tokens", "generated_tokens", "seconds", "cached", "key", "source"}
"""What an answer has that is no part of a row's `reply`."""
_OPTIONAL = {"thought", "thought_tokens", "changes", "answered_by"}
"""Parts of a row's `reply` that are left out if there is nothing to say."""


@dataclass(frozen=True)
class Served:
    """What serves a model.

    Attributes:
        weights: The original model and its adapter; see `LlmEndpoint.weights`.
        engine: With its version.
        sha256: Digest of the file that is served, if it is known.
        precision: That of the weights as served.
    """

    weights: str
    engine: str
    sha256: str = ""
    precision: str = ""

    @property
    def source(self) -> str:
        """Engine, version and precision, as in `Row.source`."""
        if not self.precision or f"({self.precision})" in self.engine:
            return self.engine
        return f"{self.engine} ({self.precision})"


def to_row(
    answer: Answered,
    kind: Kind,
    parameters: Mapping[str, Any],
    prompt: Sequence[Any],
    served: Served,
    asked_at: datetime | None = None,
) -> Row:
    """Make the row of an answer.

    Args:
        answer: What the model answered.
        kind: What was asked for.
        parameters: Those of the request.
        prompt: Messages, plain text, or two texts.
        served: What gave the answer.
        asked_at: By default now.

    Returns:
        The row, without its digest.
    """
    reply = {name: value for name, value in vars(answer).items() if name not in _COLUMNS}
    for name in _OPTIONAL:
        if not reply.get(name):
            reply.pop(name, None)
    when = asked_at or datetime.now(UTC)
    return Row(
        key=request_key(kind, served.weights, parameters, prompt),
        kind=kind,
        weights=served.weights,
        parameters=plain(parameters),
        prompt=plain(prompt),
        reply=plain(reply),
        prompt_tokens=answer.prompt_tokens,
        generated_tokens=answer.generated_tokens,
        seconds=answer.seconds,
        engine=served.engine,
        asked_at=when.isoformat(timespec="seconds"),
        served_sha256=served.sha256,
        precision=served.precision,
    )


def from_row(row: Row, answer_type: Callable[..., Answer]) -> Answer:
    """Read the answer that a row of the store has."""
    reply = json.loads(row.reply)
    for name in ("logprobs", "first_token"):
        if name in reply:
            reply[name] = {key: _number(value) for key, value in reply[name].items()}
    if "changes" in reply:
        reply["changes"] = tuple(reply["changes"])
    if "text" in reply and not reply.get("thought"):
        reply |= _separated(reply)  # rows of older versions have the thought in the text
    return answer_type(
        **reply,
        prompt_tokens=row.prompt_tokens,
        generated_tokens=row.generated_tokens,
        seconds=row.seconds,
        cached=True,
        key=row.key,
        source=row.source,
    )


def _number(value: float | None) -> float:
    """A log-probability; JSON has no infinity."""
    return -math.inf if value is None else value


def _separated(reply: Mapping[str, Any]) -> dict[str, Any]:
    parts = split_thought(reply["text"])
    if not parts.thought:
        return {}
    return {"text": parts.answer, "thought": parts.thought, "first_token": {}}
