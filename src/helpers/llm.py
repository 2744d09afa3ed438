"""Asks an LLM over the OpenAI API: chat, choose, log-likelihood, many at once, each reply stored as it arrives.

A reply is found by all that decides it (weights, parameters, messages; see `results.requests`). So a second run needs
no model, an interrupted one resumes where it stopped, and a server is started only for what is not stored, or to ask a
sample of the stored requests again (`ANSWERS=check`).
"""

from __future__ import annotations

import math
import random
import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, cast

import httpx
import openai
from tqdm import tqdm

from helpers import batch
from helpers.completions import (
    TOP_LOGPROBS,
    Answer,
    CapabilityError,
    Choice,
    LlmError,
    Loglikelihood,
    Messages,
    Reply,
    Usage,
    from_row,
    is_overflow,
    read_completion,
    request_body,
    row_of,
)
from helpers.engines import Adapter
from helpers.results.requests import STORE, Kind, request_key, store, working
from helpers.services import LlmEndpoint, ServiceError, is_loopback, llm_endpoint
from helpers.settings import settings

CHECKED = 10
"""Stored requests of each step that `ANSWERS=check` asks again."""
CLOSE = 0.05
"""Log-likelihoods of one text are equal if they differ by less, relatively; batches alter the order of sums."""


class ContextOverflowError(LlmError):
    """A prompt does not fit the context, and the caller did not ask for such prompts to be recorded."""


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
        answers = {key: from_row(row, answer_type) for key, row in stored.items()}
        missing = [key for key in distinct if key not in answers]
        if missing and self._store and settings().answers == "stored-only":
            raise LlmError(
                f"{len(missing)} of {len(distinct)} requests of the step {label!r} are not stored, and "
                "ANSWERS=stored-only asks no model. If a prompt changed on purpose, run without it."
            )

        if missing and self._store and settings().answers == "collect":
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
            return replace(from_row(row, answer_type), cached=False, seconds=answer.seconds)

        waited = 0.0
        if missing:
            _ = self._client  # a server that starts now is not part of the waiting
            start = time.perf_counter()
            answers |= self._at_once(ask_and_store, missing, label)
            waited = time.perf_counter() - start
        if stored and settings().answers == "check":
            self._check(ask, {key: answers[key] for key in stored}, label)
        with self._lock:
            self.usage.count(answers, waited, label, self.concurrency)
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


def _same(stored: Answer, again: Answer) -> bool:
    """Whether two replies say the same; of probabilities, whether they are close."""
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


def _refused_parameter(error: openai.APIStatusError) -> str:
    """The parameter that a server says it refuses: `param` in OpenAI's way, the place in the body in FastAPI's."""
    if error.param:
        return error.param
    detail = error.body.get("detail") if isinstance(error.body, dict) else None
    place = detail[0].get("loc") if isinstance(detail, list) and detail and isinstance(detail[0], dict) else None
    return str(place[-1]) if place else ""
