"""Asks an LLM over the OpenAI API: chat, choose, log-likelihood, concurrently; each reply is stored as it arrives.

A stored reply is found by all that decides it (see `results.requests`), so a second run needs no model. An engine that
serves the reference's file in another precision takes the reference's replies for each step that has nearly all.
"""

import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self, TypeVar, cast

import httpx
import openai
from tqdm import tqdm

from helpers import batch, completions
from helpers.completions import (
    Answer,
    CapabilityError,
    Choice,
    LlmError,
    Loglikelihood,
    Messages,
    Reply,
    Usage,
)
from helpers.requests import STORE, Kind, request_key, store, working
from resources import engines
from resources.download import DataError
from resources.engine_install import EngineError
from resources.engines import Adapter
from resources.services import CONNECT, LlmEndpoint, ServiceError, is_loopback, llm_endpoint
from resources.settings import settings

T = TypeVar("T")
CHECKED = 10  # stored requests of each step, or half of fewer, that `ANSWERS=check` asks again
CHECKED_TOKENS = 1_500  # of a step's sample, a generated token counted as ten: it takes as long as ten of a prompt
SLOW = {
    "llamacpp": 500
}  # asked the cheapest of these, if so many tokens suffice: it reads at a third of vLLM's rate
FEW = (
    1 / 8
)  # of a step's replies may lack where the reference's are shown; another processor retrieves other texts
CLOSE = 0.05
"""Log-likelihoods of one text are equal if they differ by less, relatively; batches alter the order of sums."""


class ContextOverflowError(LlmError):
    """A prompt does not fit the context, and the caller did not ask for such prompts to be recorded."""


class LLM:
    """A model behind the OpenAI API.

    `start` starts the server of an endpoint without an address on first need. Without a `folder` for the store of
    requests, the server is asked each time. `concurrency` is of the requests under way at once.
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
        # by key of a stored request: its step, its reply, and what compares a new reply with it
        self._stored: dict[
            str, tuple[str, Reply | Choice | Loglikelihood, Callable[[str], bool]]
        ] = {}
        self._same: dict[str, bool] = {}  # of the sample, whether the new reply was the stored one
        self._unstored: set[str] = set()  # keys of requests to which the reference has no reply
        self._answered: set[tuple[str, str]] = (
            set()
        )  # weights whose replies were used, and the step
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
                    f"The server that was started serves {started.weights}, not {self.endpoint.weights}: the engine "
                    "expected could not be installed or does not fit the memory. Run again; LLM_ENGINE names one."
                )
            self.endpoint = started
        return openai.OpenAI(
            base_url=self.endpoint.base_url,
            api_key=self.endpoint.api_key,
            # with the client's back-off of up to 8 s this is some 100 s, longer than an embedded server's restart
            max_retries=16,
            timeout=openai.Timeout(600, connect=CONNECT),
            # no proxy reaches this machine's loopback, nor should it see the key
            http_client=openai.DefaultHttpxClient(
                trust_env=not is_loopback(self.endpoint.base_url)
            ),
        )

    def adapted(self, adapter: Adapter) -> Self:
        """The model with one of the adapters that its server was asked to serve."""
        start = self._start
        adapted = start and (lambda: start().adapted(adapter))
        return self._like(self.endpoint.adapted(adapter), adapted)

    def apart(self, salt: str) -> Self:
        """The model for timed requests, which take no computed prompt from those of another salt.

        vLLM still shares prompts within a salt; llama.cpp, which has no salts, shares none; other servers are not told.
        """
        return self._like(self.endpoint, self._start, salt)

    def _like(
        self, endpoint: LlmEndpoint, start: Callable[[], LlmEndpoint] | None, salt: str = ""
    ) -> Self:
        return type(self)(
            endpoint, folder=self._folder, concurrency=self.concurrency, salt=salt, start=start
        )

    def chat_many(
        self,
        prompts: Sequence[Messages | str],
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
        """Answers to many prompts in their order: messages, or plain text for a base model without a chat template.

        `logprobs` gives the likeliest first tokens, of chat messages alone; `extra` are further fields of the body. A
        prompt beyond the context is a ContextOverflowError, or a reply with that status if `overflow` is `record`; an
        LlmError says how the server failed, and the replies that had come are stored.
        """
        sampling = {"temperature": temperature, "top_p": top_p, "seed": seed}
        parameters: dict[str, Any] = {
            "max_tokens": max_tokens,
            **sampling,
            "extra": dict(extra or {}),
        }
        if stop:
            parameters["stop"] = list(stop)
        if logprobs:
            parameters |= {"logprobs": True, "top_logprobs": completions.TOP_LOGPROBS}
        asked = [p if isinstance(p, str) else [*map(dict, p)] for p in prompts]
        replies = self._many("chat", parameters, asked, Reply, label)
        for i, reply in enumerate(replies):
            if reply.status == "overflow" and overflow == "error":
                raise ContextOverflowError(
                    f"Prompt {i} of {len(prompts)} does not fit the context of {self.endpoint.context} tokens with "
                    f"{max_tokens} for the answer. Shorten the evidence, or set LLM_CONTEXT to serve a longer one."
                )
        return replies

    def choose_many(
        self, prompts: Sequence[Messages], choices: Sequence[str], *, label: str = "choose"
    ) -> list[Choice]:
        """For many prompts, the likeliest of some fixed answers by constrained decoding, at temperature 0."""
        choices = list(choices)
        if len(set(choices)) < 2 or any(
            a != b and b.startswith(a) for a in choices for b in choices
        ):
            raise ValueError(f"Choices must be at least two, and none may begin another: {choices}")
        return self._many(
            "choose", {"choices": choices}, [list(map(dict, p)) for p in prompts], Choice, label
        )

    def loglikelihood_many(
        self, pairs: Sequence[tuple[str, str]], *, label: str = "log-likelihood"
    ) -> list[Loglikelihood]:
        """Log-likelihood of the continuation of each (context, continuation), as plain text."""
        return self._many("loglikelihood", {}, [list(p) for p in pairs], Loglikelihood, label)

    def _ask(
        self, kind: Kind, parameters: Mapping[str, Any], prompt: Sequence[Any]
    ) -> completions.Answered:
        tokens = (
            self._tokens(prompt)
            if kind == "loglikelihood" and self.endpoint.engine == "llamacpp"
            else None
        )
        of = self.endpoint
        path, body = completions.request_body(kind, parameters, prompt, of.model, of.engine, tokens)
        # fields of these engines' own, which other servers may refuse
        if self._salt and of.engine == "vllm":
            body["cache_salt"] = self._salt
        elif self._salt and of.engine == "llamacpp":
            body["cache_prompt"] = False
        start = time.perf_counter()
        # the response as it came: reading it into the client's types would take half of the client's time
        came = self._sent(lambda: self._client.post(path, cast_to=httpx.Response, body=body))
        seconds = time.perf_counter() - start
        if came is None:
            if kind == "chat":
                return Reply("", "overflow", 0, 0, seconds)
            raise ContextOverflowError(
                f"A prompt does not fit the context of {self.endpoint.context} tokens."
            )
        where = f"{self.endpoint.engine} {self.endpoint.version} at {self.endpoint.base_url}"
        try:
            return completions.read_completion(
                kind, parameters, prompt, came.json(), seconds=seconds, engine=where
            )
        except (ValueError, KeyError, IndexError, TypeError) as error:
            raise LlmError(
                f"{where} gave no completion ({type(error).__name__}: {came.text[:200]!r})."
            ) from None

    def _tokens(self, pair: Sequence[str]) -> list[dict[str, Any]] | None:
        url = f"{self._client.base_url}".rstrip("/").removesuffix("/v1") + "/tokenize"
        body = {"content": "".join(pair), "add_special": True, "with_pieces": True}
        came = self._sent(lambda: self._client.post(url, cast_to=httpx.Response, body=body))
        return list(came.json()["tokens"]) if came else None

    def _sent(self, request: Callable[[], httpx.Response]) -> httpx.Response | None:
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
        except (
            openai.BadRequestError,
            openai.NotFoundError,
            openai.UnprocessableEntityError,
        ) as error:
            if completions.is_overflow(str(error)):
                return None
            if parameter := _refused_parameter(error):
                raise CapabilityError(
                    f"{where} refused the parameter {parameter!r}, which is needed here. Set LLM_BASE_URL and "
                    f"LLM_MODEL to a server and model that take it, for example vLLM's. The server says: {error}"
                ) from None
            raise CapabilityError(f"{where} refused a request: {error}") from None
        except openai.AuthenticationError:
            raise LlmError(f"{where} refused the key. Set LLM_API_KEY.") from None
        except openai.APIConnectionError as error:
            raise LlmError(
                f"{where} does not answer; it was tried for {time.monotonic() - began:.0f} s "
                f"({error.__cause__ or error}). Replies that had come are stored: restart the server and run again. "
                "For an embedded server see _build/logs/llm.log."
            ) from None
        except openai.APIStatusError as error:
            raise LlmError(
                f"{where} failed with HTTP {error.status_code} in spite of retries: {error}"
            ) from None

    @property
    def _lent(self) -> str:
        """The weights of the reference run's replies, if this engine serves others of the same file; else empty."""
        return (
            replace(self.endpoint, precision=self.endpoint.reference).weights
            if self.endpoint.reference
            else ""
        )

    @property
    def answerer(self) -> tuple[str, str]:
        """Engine and version whose replies were used; the reference's are named as such."""
        of, own = (
            self.endpoint,
            sorted(step for weights, step in self._answered if weights != self._lent),
        )
        if len(own) == len(self._answered):
            return of.engine, of.version
        rest = f"of the steps {', '.join(own)}" if own else "asked again"
        none = (
            f"; without a stored reply, and left out: {len(self._unstored)}"
            if self._unstored
            else ""
        )
        return (
            "vllm",
            f"({of.reference}), the reference's replies; those {rest} are of {of.engine} {of.version}{none}",
        )

    def _many(
        self,
        kind: Kind,
        parameters: Mapping[str, Any],
        prompts: Sequence[Any],
        made: Callable[..., Answer],
        label: str,
    ) -> list[Answer]:
        endpoint, mode = self.endpoint, settings().answers

        def known(weights: str) -> tuple[list[str], dict[str, Answer]]:
            keys = [request_key(kind, weights, parameters, prompt) for prompt in prompts]
            rows = self._store.get(keys) if self._store else {}
            replies = {key: completions.from_row(row, made) for key, row in rows.items()}
            wider = settings().llm_context or endpoint.context > engines.CPU_CONTEXT
            if wider and mode != "stored-only":  # what overflowed may fit now
                replies = {
                    key: reply
                    for key, reply in replies.items()
                    if getattr(reply, "status", "") != "overflow"
                }
            return keys, replies

        weights = self._lent if self._lent and mode != "fresh" else endpoint.weights
        keys, answers = known(weights)
        lacking = set(keys) - answers.keys() if weights != endpoint.weights else set()
        if lacking and (kind != "chat" or len(lacking) > FEW * len(set(keys))):
            weights = endpoint.weights  # one set of weights answers a step
            keys, answers = known(weights)
            lacking = set()
        self._unstored |= lacking
        distinct, stored = dict(zip(keys, prompts, strict=True)), set(answers)
        missing = [key for key in distinct if key not in answers and key not in lacking]
        if missing and self._store and mode == "stored-only":
            lacks = (
                f"{len(missing)} of {len(distinct)} requests of the step {label!r} are not stored"
            )
            raise LlmError(
                f"{lacks}, and ANSWERS=stored-only asks no model. If a prompt changed, run without it."
            )
        if missing and self._store and mode == "collect":
            batch.pend(
                kind, weights, endpoint.model, parameters, {key: distinct[key] for key in missing}
            )

        def ask(key: str) -> Answer:
            return cast(Answer, self._ask(kind, parameters, distinct[key]))

        # stored by who asked, so that what is under way when another request fails is stored too
        def ask_and_store(key: str) -> Answer:
            answer, engine = ask(key), f"{self.endpoint.engine} {self.endpoint.version}".strip()
            row = completions.row_of(
                answer, kind, weights, parameters, distinct[key], engine=engine
            )
            if self._store:
                row = self._store.put_first(row)
            # rounded as it is stored, so that a first run gives the numbers of every later one
            return replace(completions.from_row(row, made), cached=False, seconds=answer.seconds)

        waited = 0.0
        if missing:
            _ = self._client  # a server that starts now is not part of the waiting
            start = time.perf_counter()
            answers |= self._at_once(ask_and_store, missing, label)
            waited = time.perf_counter() - start
        with self._lock:
            self.usage.count(answers, waited, label, self.concurrency)
            self._answered.add((weights, label))
            if mode == "check":
                for key in stored:
                    self._stored.setdefault(
                        key, (label, answers[key], lambda key: _same(answers[key], ask(key)))
                    )
        answers |= {
            key: made("", "unstored", 0, 0, 0.0, key=f"{completions.UNSTORED}{key}")
            for key in lacking
        }
        return [answers[key] for key in keys]

    def _at_once(self, ask: Callable[[str], T], keys: Sequence[str], label: str) -> dict[str, T]:
        with ThreadPoolExecutor(self.concurrency) as pool:
            futures = {pool.submit(ask, key): key for key in keys}
            try:
                done = tqdm(as_completed(futures), total=len(keys), desc=label, unit="req")
                return {futures[future]: future.result() for future in done}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    @property
    def _embedded(self) -> str:
        """The embedded engine with its version, which is known once it is installed; empty for another server."""
        return (
            f"{self.endpoint.engine} {self.endpoint.version}"
            if self._start and self.endpoint.version
            else ""
        )

    def ask_again(self) -> None:
        """Ask a sample of each step's stored requests again, those of all steps at once, and count equal replies.

        What the embedded engine was asked again before, on this machine, is not asked once more.
        """
        slow, sample = self.endpoint.engine in SLOW, list[str]()
        most = SLOW.get(self.endpoint.engine, CHECKED_TOKENS)
        cost = {
            key: of.prompt_tokens + 10 * of.generated_tokens
            for key, (_, of, _) in self._stored.items()
        }
        for step, n in Counter(self.usage.keys.values()).items():
            # the first of digests are a random sample, the same in each run
            mine = [key for key in sorted(self._stored) if self._stored[key][0] == step][:CHECKED]
            mine.sort(key=lambda key: cost[key] * slow)
            fit = sum(so_far <= most for so_far in accumulate(map(cost.__getitem__, mine)))
            sample += mine[: min(1, fit) if slow else max(1, min(n // 2, fit))]
        if self._store and self._embedded:
            self._same |= self._store.checks(sample, self._embedded)
        try:
            if left := [key for key in sample if key not in self._same]:
                _ = self._client
                new = self._at_once(
                    lambda key: self._stored[key][2](key), left, "stored requests, asked again"
                )
                self._same |= new
                if self._store and self._embedded:
                    self._store.put_checks(new, self._embedded)
        except (DataError, LlmError, ServiceError, EngineError) as error:
            warnings.warn(f"No stored request is asked again: {error}", stacklevel=2)
        self.usage.checked = Counter(self._stored[key][0] for key in self._same)
        self.usage.same = sum(self._same.values())


def _same(stored: Answer, again: Answer) -> bool:
    if isinstance(stored, Loglikelihood) and isinstance(again, Loglikelihood):
        return math.isclose(stored.total, again.total, rel_tol=CLOSE)
    said = "answer" if isinstance(stored, Choice) else "text"
    return bool(getattr(stored, said) == getattr(again, said))


def connect(
    model: str,
    *,
    exact: bool = False,
    adapters: Sequence[Adapter] = (),
    **options: Any,  # noqa: ANN401  # handed to LLM
) -> LLM:
    """The LLM of the settings, else an embedded one that serves `model`, started when a request is not stored.

    `exact` asks this model even if `LLM_MODEL` names another; `LLM.adapted` asks one of the LoRA `adapters`.
    """
    endpoint = partial(llm_endpoint, model, exact=exact, adapters=adapters)
    return LLM(endpoint(start=False), start=endpoint, **options)


def _refused_parameter(error: openai.APIStatusError) -> str:
    try:  # in OpenAI's way, or FastAPI's
        return error.param or str(cast(Any, error.body)["detail"][0]["loc"][-1])
    except (LookupError, TypeError):
        return ""
