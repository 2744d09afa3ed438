"""What an LLM server is sent, and what its replies say; no connection of its own."""

import contextlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from helpers.requests import Kind, Row, plain, request_key
from resources.settings import PublicError

Answer = TypeVar("Answer", bound="Reply | Choice | Loglikelihood")
Json = Mapping[str, Any]
Message = Mapping[str, str]
Messages = Sequence[Message]
TOP_LOGPROBS = 20
WRAPPING_TOKENS = 16  # what a JSON object around an answer may take
_WRAPPING = re.compile(r'\s*\{\s*"answer"\s*:\s*')


class LlmError(PublicError, RuntimeError):
    """The LLM server failed; the message says which request and what to do."""


class CapabilityError(LlmError):
    """The engine cannot do what was asked, for example obey a constraint or score a prompt."""


@dataclass(frozen=True)
class Reply:
    """One answer; `seconds` include the server's queue, `key` is that of its row in `results.requests`."""

    text: str
    status: Literal["complete", "cut", "overflow"]  # cut by `max_tokens`; the prompt did not fit
    prompt_tokens: int
    generated_tokens: int
    seconds: float
    first_token: dict[str, float] = field(default_factory=dict)
    cached: bool = False
    key: str = ""
    source: str = ""

    @property
    def columns(self) -> dict[str, Any]:
        """What the table of answers says of it, by the names of `Answer`."""
        flags = {status: self.status == status for status in ("cut", "overflow")}
        return {"answer": self.text, "requests": [self.key], **flags}


@dataclass(frozen=True)
class Choice:
    """One constrained answer, and the log-probability of each choice under the constraint (probabilities sum to 1)."""

    answer: str
    logprobs: dict[str, float]
    prompt_tokens: int
    generated_tokens: int
    seconds: float
    cached: bool = False
    key: str = ""
    source: str = ""


@dataclass(frozen=True)
class Loglikelihood:
    """Log-likelihood (natural logarithm) of a continuation, summed over its tokens."""

    total: float
    tokens: int
    prompt_tokens: int
    seconds: float
    cached: bool = False
    key: str = ""
    source: str = ""
    generated_tokens: int = 0


Answered = Reply | Choice | Loglikelihood


@dataclass
class Usage:
    """What the distinct requests of one client came to, each counted once, as if all had been asked now.

    Attributes:
        kept_seconds: Those of the seconds that stored replies took when made, over the
            requests under way at once.
        keys: Label of the step that asked first, by key.
        sources: Number of replies by engine, version and precision that gave them.
        checked: Number of stored requests that were asked again, by step.
        same: Number of these that got the same reply.
    """

    requests: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    seconds: float = 0.0
    kept_seconds: float = 0.0
    keys: dict[str, str] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    checked: dict[str, int] = field(default_factory=dict)
    same: int = 0

    def count(
        self, answers: Mapping[str, Answer], waited: float, label: str, concurrency: int
    ) -> None:
        """Count the answers of a step, by key, unless they were counted before; `waited` seconds went to new ones."""
        new = [answer for key, answer in answers.items() if key not in self.keys]
        self.keys.update({answer.key: label for answer in new})
        kept = math.fsum(answer.seconds for answer in new if answer.cached) / max(
            1, min(concurrency, len(answers))
        )
        for answer in new:
            self.sources[answer.source] = self.sources.get(answer.source, 0) + 1
        self.requests += len(new)
        self.cached += sum(answer.cached for answer in new)
        self.kept_seconds += kept
        self.seconds += waited + kept
        self.prompt_tokens += sum(answer.prompt_tokens for answer in new)
        self.generated_tokens += sum(answer.generated_tokens for answer in new)


def row_of(
    answer: Answered,
    kind: Kind,
    weights: str,
    parameters: Json,
    prompt: Sequence[Any],
    *,
    engine: str,
    served_sha256: str = "",
    precision: str = "",
    asked: datetime | None = None,
) -> Row:
    """Make the row of the store that holds an answer.

    Args:
        answer: What the model said.
        kind: What was asked for.
        weights: The original model and its adapter; see `LlmEndpoint.weights`.
        parameters: Those of the request.
        prompt: Messages, plain text, or two texts.
        engine: What served the model, with its version.
        served_sha256: Digest of the file that served it, if it is known.
        precision: That of the weights as served.
        asked: When; by default now.
    """
    elsewhere = {"prompt_tokens", "generated_tokens", "seconds", "cached", "key", "source"}
    reply = {
        k: v for k, v in vars(answer).items() if k not in elsewhere
    }  # asdict would copy each probability
    counts = (answer.prompt_tokens, answer.generated_tokens, answer.seconds)
    when = (asked or datetime.now(UTC)).isoformat(timespec="seconds")
    key = request_key(kind, weights, parameters, prompt)
    return Row(
        key,
        kind,
        weights,
        plain(parameters),
        plain(prompt),
        plain(reply),
        *counts,
        engine,
        when,
        served_sha256=served_sha256,
        precision=precision,
    )


def from_row(row: Row, answer_type: Callable[..., Answer]) -> Answer:
    """The answer that a row of the store holds."""
    reply = json.loads(row.reply)
    for name in ("logprobs", "first_token"):
        if name in reply:  # JSON has no infinity
            reply[name] = {k: -math.inf if v is None else v for k, v in reply[name].items()}
    counts = {
        "prompt_tokens": row.prompt_tokens,
        "generated_tokens": row.generated_tokens,
        "seconds": row.seconds,
    }
    return answer_type(**reply, **counts, cached=True, key=row.key, source=row.source)


def request_body(
    kind: Kind,
    parameters: Json,
    prompt: Sequence[Any],
    model: str,
    engine: str,
    tokens: Sequence[Mapping[str, Any]] | None = None,
) -> tuple[str, dict[str, Any]]:
    """What a server of this make is sent: the path below `/v1`, and the body.

    llama.cpp scores no prompt, only what it generates: with the `tokens` of context and continuation, as its
    `/tokenize` gives them, a grammar makes it generate the continuation's.
    """
    if kind == "loglikelihood" and tokens is not None:
        left, at = len(prompt[1].encode()), len(tokens)
        while left > 0 and at > 1:
            at -= 1
            piece = tokens[at]["piece"]  # text, or bytes that are none
            left -= len(piece.encode() if isinstance(piece, str) else piece)
        ids = [token["id"] for token in tokens]
        forced = {
            "grammar": "root ::= " + " ".join(f"<[{id}]>" for id in ids[at:]),
            "max_tokens": len(ids) - at,
        }
        return "/completions", {
            "model": model,
            "prompt": ids[:at],
            "temperature": 0,
            "logprobs": 1,
            **forced,
        }
    if kind == "loglikelihood":
        scoring = {"max_tokens": 1, "temperature": 0, "echo": True, "logprobs": 1}
        return "/completions", {"model": model, "prompt": "".join(prompt), **scoring}
    if kind == "choose":
        choices = parameters["choices"]
        constraint, wrapped = _constraint(engine, choices)
        longest = 4 + 2 * max(map(len, choices)) + (WRAPPING_TOKENS if wrapped else 0)
        parameters = {"max_tokens": longest, "temperature": 0.0, "seed": 0, "logprobs": True}
        parameters |= {"top_logprobs": TOP_LOGPROBS, "extra": constraint}
    fields = {name: value for name, value in parameters.items() if name != "extra"} | parameters[
        "extra"
    ]
    if isinstance(prompt, str):
        return "/completions", {"model": model, "prompt": prompt, **fields}
    return "/chat/completions", {"model": model, "messages": prompt, **fields}


def read_completion(
    kind: Kind,
    parameters: Json,
    prompt: Sequence[Any],
    completion: Json,
    *,
    seconds: float,
    engine: str,
) -> Answered:
    """The reply in a server's JSON to a `request_body`; a CapabilityError if it lacks what was asked for."""
    choice, usage = completion["choices"][0], completion["usage"]
    if kind == "loglikelihood":
        return _scored(prompt, choice, usage["prompt_tokens"], seconds, engine)
    counts = (usage["prompt_tokens"], usage["completion_tokens"], seconds)
    status: Literal["complete", "cut"] = (
        "cut" if choice["finish_reason"] == "length" else "complete"
    )
    if isinstance(prompt, str):
        return Reply(choice["text"], status, *counts)
    text = choice["message"].get("content") or ""
    content = (choice.get("logprobs") or {}).get("content") or []
    steps = [
        (t["token"], {a["token"]: a["logprob"] for a in (t, *t["top_logprobs"])}) for t in content
    ]
    if kind == "chat":
        first = {a["token"]: a["logprob"] for a in content[0]["top_logprobs"]} if content else {}
        return Reply(text, status, *counts, first_token=first)
    choices, answer, before = parameters["choices"], text, ""
    if wrapping := _WRAPPING.match(text):
        with contextlib.suppress(ValueError):
            answer, before = json.loads(text)["answer"], wrapping[0]
    wrapped = answer != text
    if answer not in choices:
        raise CapabilityError(
            f"{engine} ignored the constraint {choices}: {text[:80]!r}. Use the embedded engine."
        )
    if not steps:
        raise CapabilityError(f"{engine} gives no log-probabilities, which `choose` needs.")
    # what comes before the answer is the same whatever the answer
    while before and steps and len(steps[0][0]) <= len(before):
        before = before[len(steps.pop(0)[0]) :]
    spelled = {before + json.dumps(c, ensure_ascii=False) if wrapped else c: c for c in choices}
    logprobs = choice_logprobs(steps, list(spelled))
    return Choice(answer, {spelled[k]: v for k, v in logprobs.items()}, *counts)


def _scored(
    pair: Sequence[str], choice: Json, count: int, seconds: float, engine: str
) -> Loglikelihood:
    context, continuation = pair
    scored = choice.get("logprobs")
    if scored and "content" in scored:  # of what llama.cpp generated
        written = scored["content"]
        if not b"".join(bytes(token["bytes"]) for token in written).endswith(continuation.encode()):
            raise CapabilityError(
                f"{engine} ignored the grammar that forces {continuation!r}. Use a newer version."
            )
        return Loglikelihood(
            math.fsum(token["logprob"] for token in written), len(written), count, seconds
        )
    if scored is None or not choice["text"].startswith(context):
        raise CapabilityError(f"{engine} does not echo the prompt with its log-probabilities.")
    # of the prompt; after them comes the token that was generated
    tokens, logprobs = scored["tokens"][:count], scored["token_logprobs"][:count]
    values = continuation_logprobs(tokens, logprobs, context, continuation)
    if values is None:
        why = f"The tokens that {engine} gives do not join to {continuation!r}."
        raise CapabilityError(f"{why} Use the embedded engine, or a model of another tokeniser.")
    return Loglikelihood(math.fsum(values), len(values), count, seconds)


def choice_logprobs(
    steps: Iterable[tuple[str, Mapping[str, float]]], choices: Sequence[str]
) -> dict[str, float]:
    """Log-probability of each choice, from (token, {alternative: log-probability}) of one constrained answer.

    At each step, the alternatives that lead to some choice share its probability: one that is not taken gives its share
    to the choices that it leads to, evenly (exact for two choices), and the token taken carries its own to the next
    step. A choice that no alternative leads to gets -inf.
    """

    def leads(text: str) -> list[str]:
        return [choice for choice in choices if choice.startswith(text) or text.startswith(choice)]

    mass = dict.fromkeys(choices, 0.0)
    written, carried = "", 1.0
    for token, alternatives in steps:
        led = {a: leads(written + a) for a in {**alternatives, token: 0.0} if a}
        weights = {a: math.exp(alternatives.get(a, -math.inf)) for a, to in led.items() if to}
        total = math.fsum(weights.values())
        for alternative, weight in weights.items():
            if alternative == token:
                continue
            for choice in led[alternative]:
                mass[choice] += carried * weight / total / len(led[alternative]) if total else 0.0
        carried *= weights.get(token, 0.0) / total if total else 1.0
        written += token
        if len(leads(written)) <= 1:
            break
    for choice in leads(written):
        mass[choice] += carried
    return {c: math.log(m) if m > 0 else -math.inf for c, m in mass.items()}


def continuation_logprobs(
    tokens: Sequence[str], logprobs: Sequence[float | None], context: str, continuation: str
) -> list[float] | None:
    """Log-probabilities of the continuation's tokens, of one across the border too; None if they do not join to it."""
    text = context + continuation
    at, values = len(text), []
    # from the end, for the tokens may begin with one that the text does not show (`<s>`)
    for token, value in zip(reversed(tokens), reversed(logprobs), strict=True):
        if at <= len(context):
            break
        if not text[:at].endswith(token):
            return None
        at -= len(token)
        if value is not None:
            values.append(value)
    return values[::-1] if at <= len(context) else None


def label_probability(first_token: Mapping[str, float]) -> float | None:
    """Probability of YES against NO by the first tokens (`Y`, ` Yes`) of a free answer; None if none begins either."""
    mass = {"YES": 0.0, "NO": 0.0}
    for token, logprob in first_token.items():
        text = token.strip().upper()
        begun = [
            label for label in mass if text and (label.startswith(text) or text.startswith(label))
        ]
        if len(begun) == 1:
            mass[begun[0]] += math.exp(logprob)
    total = sum(mass.values())
    return mass["YES"] / total if total else None


def _constraint(engine: str, choices: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """Fields that make `engine` answer one of `choices`, and whether the answer comes within a JSON object."""
    if engine == "vllm":
        return {"structured_outputs": {"choice": list(choices)}}, False
    if engine == "llamacpp":
        return {
            "grammar": "root ::= " + " | ".join(json.dumps(c, ensure_ascii=False) for c in choices)
        }, False
    # OpenAI's own takes no other root than an object, which must name all of its properties
    schema = object_schema({"answer": {"type": "string", "enum": list(choices)}})
    described = {"name": "choice", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": described}}, True


def object_schema(properties: Mapping[str, Any]) -> dict[str, Any]:
    """The JSON schema of an object that has all of the properties and no other."""
    of = {"type": "object", "properties": dict(properties)}
    return of | {"required": list(properties), "additionalProperties": False}


def is_overflow(message: str) -> bool:
    """Whether a server's message says that a prompt does not fit the context."""
    return any(
        sign in message.lower()
        for sign in ("context length", "context size", "maximum model length")
    )
