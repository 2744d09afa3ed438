"""What a server refuses, and what it is asked instead.

Servers that speak the OpenAI API refuse different parts of a request. A part that a step
can do without is left out or goes by its other name; the server is then asked once more,
and the change is remembered, stored with the reply and shown on the page on provenance.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from helpers.requests import Kind

Body = dict[str, Any]

SYSTEM = "system text before the user's"
RENAMED = "max_completion_tokens in place of max_tokens"
FEWER_LOGPROBS = "top_logprobs of at most "
WITHOUT = "without "

OPTIONAL = (
    "top_logprobs",
    "logprobs",
    "seed",
    "response_format",
    "chat_template_kwargs",
    "temperature",
    "top_p",
    "stop",
    "cache_salt",
    "cache_prompt",
)
"""Parts of a request for a free reply that it can do without; the longer names come first."""
NEEDED = {"choose": ("response_format",), "loglikelihood": ("logprobs",)}
"""Parts that other kinds of requests cannot do without."""
DEFAULT_TOP_LOGPROBS = 5
"""What most servers allow that allow less than the 20 of OpenAI."""

_SYSTEM_REFUSED = re.compile(
    r"system\W+(?:role|message|prompt|instruction)"
    r"|(?:role|developer).{0,20}system"
    r"|roles must alternate",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True)
class Refusal:
    """Why a server refused a request.

    Attributes:
        parameter: What it names as the cause; empty if it names none.
    """

    message: str
    parameter: str = ""
    code: str = ""

    def names(self, parameter: str) -> bool:
        """Whether a parameter is the cause, by field or by words."""
        if self.parameter:
            return parameter in self.parameter.split(".")
        return bool(re.search(rf"(?<![\w-]){parameter}(?![\w-])", self.message))


def find_change(refusal: Refusal, kind: Kind, body: Mapping[str, Any]) -> str | None:
    """Find what to change in a refused request.

    Args:
        refusal: What the server says.
        kind: What is asked for.
        body: The request as it was sent.

    Returns:
        The change, for `apply`; None if the step needs what was refused, or the server
        does not say what it was.
    """
    if _has_system_message(body) and _SYSTEM_REFUSED.search(refusal.message):
        return SYSTEM
    if "max_tokens" in body and refusal.names("max_tokens"):
        return RENAMED
    if "max_tokens" in body and "max_completion_tokens" in refusal.message:
        return RENAMED
    for parameter in OPTIONAL:
        if parameter in body and refusal.names(parameter):
            return _change_of(parameter, refusal, kind, body)
    return None


def _change_of(parameter: str, refusal: Refusal, kind: Kind, body: Mapping[str, Any]) -> str | None:
    if parameter == "top_logprobs":
        allowed = _allowed_logprobs(refusal.message)
        if 0 < allowed < body["top_logprobs"]:
            return f"{FEWER_LOGPROBS}{allowed}"
    if parameter in NEEDED.get(kind, ()):
        return None
    return f"{WITHOUT}{parameter}"


def _allowed_logprobs(message: str) -> int:
    """How many alternatives a server allows: the smallest number that it names."""
    numbers = [int(number) for number in _NUMBER.findall(message)]
    return min([number for number in numbers if number > 0], default=DEFAULT_TOP_LOGPROBS)


def _has_system_message(body: Mapping[str, Any]) -> bool:
    return any(message["role"] == "system" for message in body.get("messages", ()))


def apply(changes: Sequence[str], body: Body) -> Body:
    """Make a request as a server takes it.

    Args:
        changes: Those of this server so far.
        body: The request as it is meant.

    Returns:
        A changed copy.
    """
    changed = dict(body)
    for change in changes:
        if change == SYSTEM and _has_system_message(changed):
            changed["messages"] = _without_system(changed["messages"])
        elif change == RENAMED and "max_tokens" in changed:
            changed["max_completion_tokens"] = changed.pop("max_tokens")
        elif change.startswith(FEWER_LOGPROBS) and "top_logprobs" in changed:
            allowed = int(change.removeprefix(FEWER_LOGPROBS))
            changed["top_logprobs"] = min(allowed, changed["top_logprobs"])
        elif change.startswith(WITHOUT):
            _leave_out(change.removeprefix(WITHOUT), changed)
    return changed


def _leave_out(parameter: str, body: Body) -> None:
    body.pop(parameter, None)
    if parameter == "logprobs":
        body.pop("top_logprobs", None)


def _without_system(messages: Sequence[Mapping[str, str]]) -> list[dict[str, str]]:
    """Put the text of system messages before that of the next user message."""
    result: list[dict[str, str]] = []
    pending: list[str] = []
    for message in messages:
        if message["role"] == "system":
            pending.append(message["content"])
            continue
        content = message["content"]
        if message["role"] == "user":
            content = "\n\n".join([*pending, content])
            pending = []
        result.append({**message, "content": content})
    if pending:
        result.append({"role": "user", "content": "\n\n".join(pending)})
    return result


def effective(changes: Sequence[str], body: Body) -> tuple[str, ...]:
    """Those changes that make a difference to a request."""
    return tuple(change for change in changes if apply([change], body) != body)
