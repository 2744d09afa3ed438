"""What an LLM server is sent, and what its replies say; no connection of its own."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar

from helpers.results.requests import Kind, Row, plain, request_key
from helpers.settings import PublicError

Answer = TypeVar("Answer", bound="Reply | Choice | Loglikelihood")
Message = Mapping[str, str]
Messages = Sequence[Message]
TOP_LOGPROBS = 20
WRAPPING_TOKENS = 16
"""What a JSON object around an answer may take."""
_WRAPPING = re.compile(r'\s*\{\s*"answer"\s*:\s*')


class LlmError(PublicError, RuntimeError):
    """The LLM server failed; the message says which request and what to do."""


class CapabilityError(LlmError):
    """The engine cannot do what was asked, for example obey a constraint or score a prompt."""


@dataclass(frozen=True)
class Reply:
    """One answer.

    Attributes:
        text: what the model wrote; empty for an overflow.
        status: `complete`, `cut` (stopped by `max_tokens`) or `overflow` (the prompt did not fit; nothing was asked).
        prompt_tokens, generated_tokens: as the server counted them.
        seconds: from sending to the last token, waiting in the server's queue included.
        first_token: log-probabilities of the likeliest first tokens, if they were asked for.
        cached: whether it was stored.
        key: of its row in `results.requests`.
    """

    text: str
    status: Literal["complete", "cut", "overflow"]
    prompt_tokens: int
    generated_tokens: int
    seconds: float
    first_token: dict[str, float] = field(default_factory=dict)
    cached: bool = False
    key: str = ""


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


@dataclass(frozen=True)
class Loglikelihood:
    """Log-likelihood (natural logarithm) of a continuation, summed over its tokens."""

    total: float
    tokens: int
    prompt_tokens: int
    seconds: float
    cached: bool = False
    key: str = ""
    generated_tokens: int = 0


@dataclass
class Usage:
    """What the distinct requests of one client came to, each counted once, as if all had been asked now.

    Attributes:
        requests: distinct requests.
        cached: how many of them were stored.
        prompt_tokens, generated_tokens: as the server counted them when it was asked.
        overflows: prompts beyond the context.
        seconds: waited for the server, and `kept_seconds`.
        kept_seconds: what the stored replies took when they were made: the seconds of each, over the requests that were
            under way at once.
        keys: of the requests, by the step that asked first.
        checked, same: stored requests that were asked again, by step, and how many of all had the same reply.
        unchecked: whether the model that gave them could not be asked again.
    """

    requests: int = 0
    cached: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    overflows: int = 0
    seconds: float = 0.0
    kept_seconds: float = 0.0
    keys: dict[str, str] = field(default_factory=dict)
    checked: dict[str, int] = field(default_factory=dict)
    same: int = 0
    unchecked: bool = False

    def count(self, answers: Mapping[str, Answer], waited: float, label: str, concurrency: int) -> None:
        """Count the answers of a step, by key, those that were counted before left out.

        Args:
            answers: stored and new ones.
            waited: seconds for the new ones.
            label: of the step.
            concurrency: requests that the server takes at once.
        """
        new = [answer for key, answer in answers.items() if key not in self.keys]
        self.keys.update({answer.key: label for answer in new})
        kept = math.fsum(answer.seconds for answer in new if answer.cached) / max(1, min(concurrency, len(answers)))
        self.requests += len(new)
        self.cached += sum(answer.cached for answer in new)
        self.kept_seconds += kept
        self.seconds += waited + kept
        for answer in new:
            self.prompt_tokens += answer.prompt_tokens
            self.generated_tokens += answer.generated_tokens
            self.overflows += getattr(answer, "status", "") == "overflow"


_COLUMNS = frozenset({"prompt_tokens", "generated_tokens", "seconds", "cached", "key"})
"""Of an answer, what is a column of its row or belongs to one process."""


def row_of(
    answer: Reply | Choice | Loglikelihood,
    kind: Kind,
    weights: str,
    parameters: Mapping[str, Any],
    prompt: Sequence[Any],
    *,
    engine: str,
    asked: datetime | None = None,
) -> Row:
    """An answer as a row of the store; asked now, unless `asked` says when."""
    reply = {k: v for k, v in vars(answer).items() if k not in _COLUMNS}  # asdict would copy each probability
    return Row(
        key=request_key(kind, weights, parameters, prompt),
        kind=kind,
        weights=weights,
        parameters=plain(parameters),
        prompt=plain(prompt),
        reply=plain(reply),
        prompt_tokens=answer.prompt_tokens,
        generated_tokens=answer.generated_tokens,
        seconds=answer.seconds,
        engine=engine,
        asked=(asked or datetime.now(UTC)).isoformat(timespec="seconds"),
    )


def from_row(row: Row, answer_type: Callable[..., Answer]) -> Answer:
    """The answer that a row of the store holds."""
    reply = json.loads(row.reply)
    for name in ("logprobs", "first_token"):
        if name in reply:  # JSON has no infinity
            reply[name] = {k: -math.inf if v is None else v for k, v in reply[name].items()}
    counts = {"prompt_tokens": row.prompt_tokens, "generated_tokens": row.generated_tokens, "seconds": row.seconds}
    return answer_type(**reply, **counts, cached=True, key=row.key)


def request_body(
    kind: Kind,
    parameters: Mapping[str, Any],
    prompt: Sequence[Any],
    model: str,
    engine: str,
) -> tuple[str, dict[str, Any]]:
    """What a server is sent: the path below `/v1`, and the body.

    Args:
        kind: chat, choose or loglikelihood.
        parameters: of the request, as its key holds them.
        prompt: messages; of a log-likelihood (context, continuation).
        model: the server's name for it.
        engine: vllm, llamacpp or another, which decides how it is told of the choices.
    """
    if kind == "loglikelihood":
        return "/completions", {
            "model": model,
            "prompt": "".join(prompt),
            "max_tokens": 1,
            "temperature": 0,
            "echo": True,
            "logprobs": 1,
        }
    if kind == "choose":
        choices = parameters["choices"]
        constraint, wrapped = _constraint(engine, choices)
        parameters = {
            "max_tokens": 4 + 2 * max(map(len, choices)) + (WRAPPING_TOKENS if wrapped else 0),
            "temperature": 0.0,
            "seed": 0,
            "logprobs": True,
            "top_logprobs": TOP_LOGPROBS,
            "extra": constraint,
        }
    fields = {name: value for name, value in parameters.items() if name != "extra"}
    return "/chat/completions", {"model": model, "messages": prompt, **fields, **parameters["extra"]}


def read_completion(
    kind: Kind,
    parameters: Mapping[str, Any],
    prompt: Sequence[Any],
    completion: Mapping[str, Any],
    *,
    seconds: float,
    engine: str,
) -> Reply | Choice | Loglikelihood:
    """The reply that a server's JSON holds.

    Args:
        kind, parameters, prompt: as for `request_body`.
        completion: what came back.
        seconds: that it took.
        engine: who sent it, for messages.

    Raises:
        CapabilityError: the server ignored the constraint, gave no log-probabilities, or its tokens do not join.
        KeyError: it is no completion.
    """
    choice, usage = completion["choices"][0], completion["usage"]
    if kind == "loglikelihood":
        return _scored(prompt, choice, usage["prompt_tokens"], seconds, engine)
    counts = (usage["prompt_tokens"], usage["completion_tokens"], seconds)
    text = choice["message"].get("content") or ""
    content = (choice.get("logprobs") or {}).get("content") or []
    steps = [(t["token"], {a["token"]: a["logprob"] for a in (t, *t["top_logprobs"])}) for t in content]
    if kind == "chat":
        first = {a["token"]: a["logprob"] for a in content[0]["top_logprobs"]} if content else {}
        return Reply(text, "cut" if choice["finish_reason"] == "length" else "complete", *counts, first_token=first)
    choices = parameters["choices"]
    answer, before = _unwrapped(text)
    wrapped = answer != text
    if answer not in choices:
        raise CapabilityError(
            f"{engine} ignored the constraint {choices}: it answered {text[:80]!r}. Use the embedded engine or a newer "
            "server."
        )
    if not steps:
        raise CapabilityError(f"{engine} gives no log-probabilities, which `choose` needs.")
    # what comes before the answer is the same whatever the answer
    while before and steps and len(steps[0][0]) <= len(before):
        before = before[len(steps.pop(0)[0]) :]
    spelled = {before + json.dumps(c, ensure_ascii=False) if wrapped else c: c for c in choices}
    logprobs = choice_logprobs(steps, list(spelled))
    return Choice(answer, {spelled[k]: v for k, v in logprobs.items()}, *counts)


def _scored(pair: Sequence[str], choice: Mapping[str, Any], count: int, seconds: float, engine: str) -> Loglikelihood:
    context, continuation = pair
    scored = choice.get("logprobs")
    if scored is None or not choice["text"].startswith(context):
        raise CapabilityError(f"{engine} does not echo the prompt with its log-probabilities.")
    # of the prompt; after them comes the token that was generated
    tokens, logprobs = scored["tokens"][:count], scored["token_logprobs"][:count]
    values = continuation_logprobs(tokens, logprobs, context, continuation)
    if values is None:
        raise CapabilityError(
            f"The tokens that {engine} gives do not join to {continuation!r}; their log-probabilities cannot be told "
            "apart. Use the embedded engine, or a model of another tokeniser."
        )
    return Loglikelihood(math.fsum(values), len(values), count, seconds)


def choice_logprobs(steps: Iterable[tuple[str, Mapping[str, float]]], choices: Sequence[str]) -> dict[str, float]:
    """Log-probability of each choice, from the tokens of one constrained answer and their alternatives.

    At each step of the answer, the alternatives that still lead to some choice share that step's probability; one that
    leads to exactly one choice gives its share to it, and the token taken carries the rest to the next step. A choice
    that no alternative leads to gets -inf. Choices that share an alternative with another that was not taken split its
    share evenly, which is exact for two choices.

    Args:
        steps: (token, {alternative: log-probability}) of each generated token.
        choices: the answers as the constraint spells them.
    """
    mass = dict.fromkeys(choices, 0.0)
    written, carried = "", 1.0
    for token, alternatives in steps:
        led = {a: [c for c in choices if _leads(written + a, c)] for a in {**alternatives, token: 0.0} if a}
        weights = {a: math.exp(alternatives.get(a, -math.inf)) for a, to in led.items() if to}
        total = math.fsum(weights.values())
        for alternative, weight in weights.items():
            if alternative == token:
                continue
            for choice in led[alternative]:
                mass[choice] += carried * weight / total / len(led[alternative]) if total else 0.0
        carried *= weights.get(token, 0.0) / total if total else 1.0
        written += token
        remaining = [c for c in choices if _leads(written, c)]
        if len(remaining) <= 1:
            break
    for choice in (c for c in choices if _leads(written, c)):
        mass[choice] += carried
    return {c: math.log(m) if m > 0 else -math.inf for c, m in mass.items()}


def continuation_logprobs(
    tokens: Sequence[str], logprobs: Sequence[float | None], context: str, continuation: str
) -> list[float] | None:
    """Log-probabilities of the continuation's tokens, or None where the tokens do not join to it.

    Aligned from the end, for the tokens may begin with one that the text does not show (`<s>`, `<|begin_of_text|>`). A
    token that straddles the border belongs to the continuation.

    Args:
        tokens: of context and continuation, as texts.
        logprobs: of each token; None for the first.
        context, continuation: the two texts.
    """
    text = context + continuation
    at, values = len(text), []
    for token, value in zip(reversed(tokens), reversed(logprobs), strict=True):
        if at <= len(context):
            break
        if not text[:at].endswith(token):
            return None
        at -= len(token)
        if value is not None:
            values.append(value)
    return values[::-1] if at <= len(context) else None


def _leads(text: str, choice: str) -> bool:
    return choice.startswith(text) or text.startswith(choice)


def label_probability(first_token: Mapping[str, float], positive: str = "YES", negative: str = "NO") -> float | None:
    """Probability of the positive label against the negative, from the likeliest first tokens of a free answer.

    A token counts for a label that it begins, whatever its case and leading space (`Y`, ` Yes`). None when no token
    begins either label.
    """
    mass = {positive: 0.0, negative: 0.0}
    for token, logprob in first_token.items():
        text = token.strip().upper()
        begun = [label for label in mass if text and (label.startswith(text) or text.startswith(label))]
        if len(begun) == 1:
            mass[begun[0]] += math.exp(logprob)
    total = sum(mass.values())
    return mass[positive] / total if total else None


def _constraint(engine: str, choices: Sequence[str]) -> tuple[dict[str, Any], bool]:
    """Body fields that make `engine` answer one of `choices`, and whether the answer comes within a JSON object.

    Each engine ignores the others' way without a word, so the answer is checked too.
    """
    if engine == "vllm":
        return {"structured_outputs": {"choice": list(choices)}}, False
    if engine == "llamacpp":
        return {"grammar": "root ::= " + " | ".join(json.dumps(c, ensure_ascii=False) for c in choices)}, False
    # OpenAI's own takes no other root than an object, which must name all of its properties
    schema = {
        "type": "object",
        "properties": {"answer": {"type": "string", "enum": list(choices)}},
        "required": ["answer"],
        "additionalProperties": False,
    }
    described = {"name": "choice", "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": described}}, True


def _unwrapped(text: str) -> tuple[str, str]:
    """The answer within a JSON object, and what the text has before it; the whole text where there is no object."""
    before = _WRAPPING.match(text)
    try:
        return (json.loads(text)["answer"], before[0]) if before else (text, "")
    except ValueError:
        return text, ""


def is_overflow(message: str) -> bool:
    """Whether a server's message says that a prompt does not fit the context."""
    return any(sign in message.lower() for sign in ("context length", "context size", "maximum model length"))
