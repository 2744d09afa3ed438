"""One row for each distinct request to a language model, found by what decides the reply."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

import pyarrow as pa

from resources.services import DECLARED
from resources.settings import PublicError

Kind = Literal["chat", "choose", "loglikelihood"]


class StoreError(PublicError, RuntimeError):
    """A file of requests cannot be used; the message names it and the command that restores it."""


def plain(value: object) -> str:
    """Write a value as canonical JSON: sorted keys, ASCII, null for a number that is not finite.

    Numbers have six decimals: more of a log-probability than two runs of one engine agree on.
    """
    text = json.dumps(value)
    rounded = json.loads(text, parse_float=_rounded, parse_constant=_nothing)
    return json.dumps(rounded, sort_keys=True, separators=(",", ":"), allow_nan=False)


def _rounded(number: str) -> float:
    return round(float(number), 6)


def _nothing(_: str) -> None:
    """What stands for a number that is not finite."""


def request_key(kind: Kind, weights: str, parameters: Mapping[str, Any], prompt: object) -> str:
    """Compute the key of a request from all that decides its reply, and nothing else.

    Args:
        kind: What is asked for.
        weights: The original model and its adapter; see `LlmEndpoint.weights`.
        parameters: Sampling parameters and other fields.
        prompt: Messages, plain text, or two texts.

    Returns:
        24 hexadecimal digits of SHA-256.
    """
    decisive = plain([kind, weights, parameters, prompt])
    return hashlib.sha256(decisive.encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Row:
    """One request and its reply, as it is stored.

    Attributes:
        key: What finds the row; see `request_key`.
        weights: The original model and its adapter, which decide the reply.
        parameters: Canonical JSON, as are `prompt` and `reply`.
        prompt: None where it may not be passed on.
        prompt_tokens: None where the server did not count them; so `generated_tokens`.
        seconds: What the request took, the server's queue included.
        engine: What served the model, with its version.
        asked_at: When, in ISO 8601; its column is `asked`.
        digest: Of the whole row.
        served_sha256: Digest of the file that served the model; empty in rows of older
            versions, which the original file served.
        precision: That of the weights as served; empty in rows of older versions, whose
            `weights` name it.
    """

    key: str
    kind: Kind
    weights: str
    parameters: str
    prompt: str | None
    reply: str
    prompt_tokens: int | None
    generated_tokens: int | None
    seconds: float
    engine: str
    asked_at: str
    digest: str = ""
    served_sha256: str = ""
    precision: str = ""

    @property
    def intact(self) -> bool:
        """Whether the row is what was written, and its key that of its prompt."""
        if self.digest != self._digest():
            return False
        if self.prompt is None:
            return True
        try:
            parameters, prompt = json.loads(self.parameters), json.loads(self.prompt)
        except (ValueError, TypeError):
            return False
        return self.key == request_key(self.kind, self.weights, parameters, prompt)

    @property
    def source(self) -> str:
        """Engine, version and precision that gave the reply."""
        precision = self.precision
        if not precision and not self.weights.startswith(DECLARED):
            precision = self.weights.partition(":")[2].partition("+")[0]
        if not precision or f"({precision})" in self.engine:
            return self.engine
        return f"{self.engine} ({precision})"

    @property
    def tokens(self) -> int | None:
        """Tokens of prompt and reply together; None where the server did not count them."""
        if self.prompt_tokens is None or self.generated_tokens is None:
            return None
        return self.prompt_tokens + self.generated_tokens

    @property
    def is_shareable(self) -> bool:
        """Whether the model is known by its digest, so that its replies hold elsewhere."""
        return DECLARED not in self.weights

    def sealed(self, *, prompt: bool = True) -> "Row":
        """Return the row with its digest, without its prompt if that may not be passed on."""
        row = replace(self, prompt=self.prompt if prompt else None, seconds=round(self.seconds, 3))
        return replace(row, digest=row._digest())

    def _digest(self) -> str:
        names = OLD_ATTRIBUTES
        if self.served_sha256 or self.precision:
            names += LATER_COLUMNS
        values = [getattr(self, name) for name in names]
        try:
            return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]
        except TypeError:  # bytes, in a file from elsewhere
            return ""


ATTRIBUTES = tuple(field.name for field in fields(Row))
COLUMNS = tuple("asked" if name == "asked_at" else name for name in ATTRIBUTES)
"""Names of the attributes in stored files, in their order."""
LATER_COLUMNS = ("served_sha256", "precision")
"""Empty in rows that were written before there were these, and then no part of their digest."""
_NOT_IN_OLD_DIGEST = ("digest", *LATER_COLUMNS)
OLD_ATTRIBUTES = tuple(name for name in ATTRIBUTES if name not in _NOT_IN_OLD_DIGEST)
_TYPES = {
    "prompt_tokens": pa.int32(),
    "generated_tokens": pa.int32(),
    "seconds": pa.float64(),
}
_NULLABLE = ("prompt", "prompt_tokens", "generated_tokens", *LATER_COLUMNS)


def _field(name: str) -> pa.Field:
    return pa.field(name, _TYPES.get(name, pa.string()), nullable=name in _NULLABLE)


SCHEMA = pa.schema([_field(name) for name in COLUMNS])
"""Of a Parquet file of rows."""
