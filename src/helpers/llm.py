"""Asks an LLM over the OpenAI API: chat, choose, log-likelihood, many at once, each reply stored as it arrives.

A reply is found by all that decides it (weights, parameters, messages; see `results.requests`). So a second run needs
no model, an interrupted one resumes where it stopped, and a server is started only for what is not stored, or to ask a
sample of the stored requests again (`ANSWERS=check`).
"""

from __future__ import annotations

import json
import math
import random
import re
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeVar, cast

import httpx
import openai
from tqdm import tqdm

from helpers.engines import Adapter
from helpers.results.requests import RELEASED, STORE, Kind, Row, Store, plain, request_key, working
from helpers.services import LlmEndpoint, ServiceError, is_loopback, llm_endpoint
from helpers.settings import PublicError, settings

Message = Mapping[str, str]
Messages = Sequence[Message]
Answer = TypeVar("Answer", bound="Reply | Choice | Loglikelihood")

TOP_LOGPROBS = 20
CHECKED = 10
"""Stored requests of each step that `ANSWERS=check` asks again."""
CLOSE = 0.05
"""Log-likelihoods of one text are equal if they differ by less, relatively; batches alter the order of sums."""
WRAPPING_TOKENS = 16
"""What a JSON object around an answer may take."""
_WRAPPING = re.compile(r'\s*\{\s*"answer"\s*:\s*')


class LlmError(PublicError, RuntimeError):
    """The LLM server failed; the message says which request and what to do."""


class ContextOverflowError(LlmError):
    """A prompt does not fit the context, and the caller did not ask for such prompts to be recorded."""


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


@lru_cache
def store(folder: Path = STORE) -> Store:
    """The store of requests in a folder, one for each process; the project's own also has the reference run's."""
    return Store(folder, RELEASED if folder == STORE else None)


class LLM:
    """A model behind the OpenAI API.

    Args:
        endpoint: the server, as `services.llm_endpoint` gives it; one without an address is started on first need.
        folder: of the store of requests; None asks the server each time and stores nothing.
        concurrency: requests under way at once; default: `LLM_CONCURRENCY`, else what the server is made for.
        salt: see `apart`.
        start: starts the server of an endpoint without an address.
    """

    def __init__(
        self,
        endpoint: LlmEndpoint,
        *,
        folder: Path | None = STORE,
        concurrency: int | None = None,
        salt: str = "",
        start: Callable[[], LlmEndpoint] | None = None,
    ) -> None:
        """Open the store of requests; the server is not asked yet."""
        self.endpoint = endpoint
        self.concurrency = concurrency or settings().llm_concurrency or endpoint.concurrency
        self.usage = Usage()
        self._lock = threading.Lock()
        self._folder = working() if folder == STORE else folder
        self._store = store(self._folder) if self._folder else None
        self._start = start
        self._salt = salt

    @cached_property
    def _client(self) -> openai.OpenAI:
        if not self.endpoint.base_url and self._start:
            started = self._start()
            if started.weights != self.endpoint.weights:
                raise LlmError(
                    f"The server that was started serves {started.weights}, not {self.endpoint.weights}: another "
                    "engine fitted this machine's memory. Set LLM_ENGINE=vllm or LLM_ENGINE=llamacpp and run again."
                )
            self.endpoint = started
        return openai.OpenAI(
            base_url=self.endpoint.base_url,
            api_key=self.endpoint.api_key,
            # with the client's back-off of up to 8 s this is some 100 s, longer than an embedded server's restart
            max_retries=16,
            timeout=600,
            # no proxy reaches this machine's loopback, nor should it see the key
            http_client=openai.DefaultHttpxClient(trust_env=not is_loopback(self.endpoint.base_url)),
        )

    def adapted(self, adapter: Adapter) -> LLM:
        """The model with one of the adapters that its server was asked to serve."""
        start = self._start
        return LLM(
            self.endpoint.adapted(adapter),
            folder=self._folder,
            concurrency=self.concurrency,
            start=start and (lambda: start().adapted(adapter)),
        )

    def apart(self, salt: str) -> LLM:
        """The model for requests that take no computed prompt from those with another salt, so that each pays its own.

        For measuring time. vLLM alone keeps them apart; another server is not told.
        """
        return LLM(self.endpoint, folder=self._folder, concurrency=self.concurrency, salt=salt, start=self._start)

    # ------------------------------------------------------------------------------------------------ the three asks

    def chat_many(
        self,
        prompts: Sequence[Messages],
        *,
        max_tokens: int,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        stop: Sequence[str] = (),
        logprobs: bool = False,
        overflow: Literal["error", "record"] = "error",
        extra: Mapping[str, Any] | None = None,
        label: str = "chat",
    ) -> list[Reply]:
        """Answers to many prompts, in their order.

        Args:
            prompts: chat messages of each prompt.
            max_tokens: longest answer; a longer one comes back with status `cut`.
            temperature, top_p, seed: sampling; the seed is the same for each prompt.
            stop: texts that end an answer.
            logprobs: also return the likeliest first tokens.
            overflow: `error` raises on the first prompt beyond the context; `record` returns it with status
                `overflow`, to be counted.
            extra: further fields of the request's body.
            label: what the progress bar says.

        Raises:
            ContextOverflowError: a prompt does not fit and `overflow` is `error`.
            LlmError: the server failed in spite of retries. Replies that had come are stored.
        """
        parameters: dict[str, Any] = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "top_p": top_p,
            "seed": seed,
            "extra": dict(extra or {}),
        }
        if stop:
            parameters["stop"] = list(stop)
        if logprobs:
            parameters |= {"logprobs": True, "top_logprobs": TOP_LOGPROBS}

        replies = self._many("chat", parameters, [list(map(dict, p)) for p in prompts], Reply, label)
        for i, reply in enumerate(replies):
            if reply.status == "overflow" and overflow == "error":
                raise ContextOverflowError(
                    f"Prompt {i} of {len(prompts)} does not fit the context of {self.endpoint.context} tokens with "
                    f"{max_tokens} for the answer. Shorten the evidence, serve a longer context, or pass "
                    'overflow="record" to have such prompts counted.'
                )
        return replies

    def choose_many(
        self, prompts: Sequence[Messages], choices: Sequence[str], *, label: str = "choose"
    ) -> list[Choice]:
        """For many prompts, the likeliest of some fixed answers by constrained decoding, at temperature 0.

        Raises:
            ValueError: fewer than two choices, or one that begins another.
            CapabilityError: the server ignored the constraint, or gives no log-probabilities.
            ContextOverflowError: a prompt does not fit.
        """
        choices = list(choices)
        if len(set(choices)) < 2 or any(a != b and b.startswith(a) for a in choices for b in choices):
            raise ValueError(f"Choices must be at least two, and none may begin another: {choices}")

        # how an engine is told of the choices is its own matter, and decides nothing
        return self._many("choose", {"choices": choices}, [list(map(dict, p)) for p in prompts], Choice, label)

    def loglikelihood_many(
        self, pairs: Sequence[tuple[str, str]], *, label: str = "log-likelihood"
    ) -> list[Loglikelihood]:
        """Log-likelihood of each continuation after its context, as plain text (no chat template).

        Args:
            pairs: (context, continuation) of each request.
            label: what the progress bar says.

        Raises:
            CapabilityError: the engine cannot score a prompt (llama.cpp's server cannot), or the tokens that it gives
                do not join to the continuation.
        """

        return self._many("loglikelihood", {}, [list(p) for p in pairs], Loglikelihood, label)

    # ------------------------------------------------------------------------------------------------------ plumbing

    def _ask(self, kind: Kind, parameters: Mapping[str, Any], prompt: Sequence[Any]) -> Reply | Choice | Loglikelihood:
        if kind == "loglikelihood" and self.endpoint.engine == "llamacpp":
            raise CapabilityError(
                "llama.cpp's server gives no log-probabilities of a prompt. Use LLM_ENGINE=vllm, or a vLLM server by "
                "LLM_BASE_URL."
            )
        path, body = request_body(kind, parameters, prompt, self.endpoint.model, self.endpoint.engine)
        if self._salt and self.endpoint.engine == "vllm":
            body["cache_salt"] = self._salt  # a field of vLLM's own, which other servers may refuse
        start = time.perf_counter()
        # the response as it came: reading it into the client's types would take half of the client's time
        came = self._guard(lambda: self._client.post(path, cast_to=httpx.Response, body=body))
        seconds = time.perf_counter() - start
        if came is None and kind == "chat":
            return Reply("", "overflow", 0, 0, seconds)
        if came is None:
            raise ContextOverflowError(f"A prompt does not fit the context of {self.endpoint.context} tokens.")
        where = f"{self.endpoint.engine} {self.endpoint.version} at {self.endpoint.base_url}"
        try:
            return read_completion(kind, parameters, prompt, came.json(), seconds=seconds, engine=where)
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise LlmError(f"{where} gave no completion ({type(error).__name__}: {came.text[:200]!r}).") from None

    def _guard(self, request: Callable[[], Any]) -> Any:  # noqa: ANN401  # a completion of either kind
        """The server's answer, or None when the prompt is too long for the context."""
        where = f"{self.endpoint.model} at {self.endpoint.base_url}"
        began = time.monotonic()
        try:
            try:
                return request()
            except openai.APIConnectionError:
                if self._start is None:
                    raise
                # an embedded server that died restarts, maybe at another address; this waits for it
                with self._lock:
                    self.endpoint = self._start()
                    self.__dict__.pop("_client", None)
                return request()
        except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
            if is_overflow(str(error)):
                return None
            if parameter := _refused_parameter(error):
                raise LlmError(
                    f"{where} refused the parameter {parameter!r}, which is needed here. Set LLM_BASE_URL and "
                    f"LLM_MODEL to a server and model that take it, for example vLLM's. The server says: {error}"
                ) from None
            raise LlmError(f"{where} refused a request: {error}") from None
        except openai.AuthenticationError:
            raise LlmError(f"{where} refused the key. Set LLM_API_KEY.") from None
        except openai.APIConnectionError as error:
            raise LlmError(
                f"{where} does not answer; it was tried for {time.monotonic() - began:.0f} s "
                f"({error.__cause__ or error}). Replies that had come are stored: restart the server and run again. "
                "For an embedded server see _build/logs/llm.log."
            ) from None
        except openai.APIStatusError as error:
            raise LlmError(f"{where} failed with HTTP {error.status_code} in spite of retries: {error}") from None

    def _many(
        self,
        kind: Kind,
        parameters: Mapping[str, Any],
        prompts: Sequence[Any],
        answer_type: Callable[..., Answer],
        label: str,
    ) -> list[Answer]:
        """Answer each distinct prompt once, from the store where it is there."""
        weights = self.endpoint.weights
        keys = [request_key(kind, weights, parameters, prompt) for prompt in prompts]
        distinct = dict(zip(keys, prompts, strict=True))
        stored = self._store.get(distinct) if self._store else {}
        answers = {key: _from_row(row, answer_type) for key, row in stored.items()}
        missing = [key for key in distinct if key not in answers]
        if missing and self._store and settings().answers == "stored-only":
            raise LlmError(
                f"{len(missing)} of {len(distinct)} requests of the step {label!r} are not stored, and "
                "ANSWERS=stored-only asks no model. If a prompt changed on purpose, run without it."
            )

        if missing and self._store and settings().answers == "collect":
            from helpers import batch  # noqa: PLC0415  # which reads what this module writes

            batch.pend(kind, weights, self.endpoint.model, parameters, {key: distinct[key] for key in missing})

        # stored by who asked, so that what is under way when another request fails is stored too
        def ask(key: str) -> Answer:
            return cast(Answer, self._ask(kind, parameters, distinct[key]))

        def ask_and_store(key: str) -> Answer:
            answer = ask(key)
            engine = f"{self.endpoint.engine} {self.endpoint.version}".strip()
            row = row_of(answer, kind, weights, parameters, distinct[key], engine=engine)
            if self._store:
                self._store.put([row])
            # rounded as it is stored, so that a first run gives the numbers of every later one
            return replace(_from_row(row, answer_type), cached=False, seconds=answer.seconds)

        waited = 0.0
        if missing:
            _ = self._client  # a server that starts now is not part of the waiting
            start = time.perf_counter()
            answers |= self._at_once(ask_and_store, missing, label)
            waited = time.perf_counter() - start
        if stored and settings().answers == "check":
            self._check(ask, {key: answers[key] for key in stored}, label)
        self._count(answers, waited, label)
        return [answers[key] for key in keys]

    def _at_once(self, ask: Callable[[str], Answer], keys: Sequence[str], label: str) -> dict[str, Answer]:
        """Answers by key, with as many requests under way as the server takes."""
        with ThreadPoolExecutor(self.concurrency) as pool:
            futures = {pool.submit(ask, key): key for key in keys}
            try:
                done = tqdm(as_completed(futures), total=len(keys), desc=label, unit="req")
                return {futures[future]: future.result() for future in done}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _check(self, ask: Callable[[str], Answer], stored: Mapping[str, Answer], label: str) -> None:
        """Ask a seeded sample of stored requests again and count equal replies; no new reply is stored or returned."""
        usage = self.usage
        room = CHECKED - usage.checked.get(label, 0)
        if room <= 0 or usage.unchecked:
            return
        # of this step's keys, so that the same run checks the same requests
        sample = random.Random(label).sample(sorted(stored), min(room, len(stored)))  # noqa: S311  # no secret
        try:
            _ = self._client
            again = self._at_once(ask, sample, f"{label}, asked again")
        except (LlmError, ServiceError) as error:
            usage.unchecked = True
            warnings.warn(f"No stored request is asked again: {error}", stacklevel=2)
            return
        usage.checked[label] = usage.checked.get(label, 0) + len(sample)
        usage.same += sum(_same(stored[key], again[key]) for key in sample)

    def _count(self, answers: Mapping[str, Answer], waited: float, label: str) -> None:
        with self._lock:
            new = [answer for key, answer in answers.items() if key not in self.usage.keys]
            self.usage.keys.update({answer.key: label for answer in new})
            under_way = max(1, min(self.concurrency, len(answers)))
            kept = math.fsum(answer.seconds for answer in new if answer.cached) / under_way
            self.usage.requests += len(new)
            self.usage.cached += sum(answer.cached for answer in new)
            self.usage.kept_seconds += kept
            self.usage.seconds += waited + kept
            for answer in new:
                self.usage.prompt_tokens += answer.prompt_tokens
                self.usage.generated_tokens += answer.generated_tokens
                self.usage.overflows += getattr(answer, "status", "") == "overflow"


def _same(stored: Answer, again: Answer) -> bool:
    """Whether two replies say the same; of probabilities, whether they are close."""
    if isinstance(stored, Loglikelihood) and isinstance(again, Loglikelihood):
        return math.isclose(stored.total, again.total, rel_tol=CLOSE)
    said = "answer" if isinstance(stored, Choice) else "text"
    return bool(getattr(stored, said) == getattr(again, said))


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
    reply = {k: v for k, v in asdict(answer).items() if k not in _COLUMNS}
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


def _from_row(row: Row, answer_type: Callable[..., Answer]) -> Answer:
    reply = json.loads(row.reply)
    for name in ("logprobs", "first_token"):
        if name in reply:  # JSON has no infinity
            reply[name] = {k: -math.inf if v is None else v for k, v in reply[name].items()}
    counts = {"prompt_tokens": row.prompt_tokens, "generated_tokens": row.generated_tokens, "seconds": row.seconds}
    return answer_type(**reply, **counts, cached=True, key=row.key)


def connect(
    model: str,
    *,
    exact: bool = False,
    adapters: Sequence[Adapter] = (),
    **options: Any,  # noqa: ANN401  # handed to LLM
) -> LLM:
    """The LLM of the settings, else an embedded one that serves `model`, started when a request is not stored.

    Args:
        model: the model to ask.
        exact: ask this one even if `LLM_MODEL` names another.
        adapters: LoRA adapters to serve beside it; `LLM.adapted` asks one of them.
        options: for `LLM`.

    Raises:
        ServiceError: see `services.llm_endpoint`.
    """

    def start() -> LlmEndpoint:
        return llm_endpoint(model, exact=exact, adapters=adapters)

    return LLM(llm_endpoint(model, exact=exact, adapters=adapters, start=False), start=start, **options)


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


def _refused_parameter(error: openai.APIStatusError) -> str:
    """The parameter that a server says it refuses: `param` in OpenAI's way, the place in the body in FastAPI's."""
    if error.param:
        return error.param
    detail = error.body.get("detail") if isinstance(error.body, dict) else None
    place = detail[0].get("loc") if isinstance(detail, list) and detail and isinstance(detail[0], dict) else None
    return str(place[-1]) if place else ""


def is_overflow(message: str) -> bool:
    """Whether a server's message says that a prompt does not fit the context."""
    return any(sign in message.lower() for sign in ("context length", "context size", "maximum model length"))
