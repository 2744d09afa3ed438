"""Client of an LLM server that speaks the OpenAI API.

Requests are sent concurrently. Each reply is stored as it arrives, under a key made of
all that decides it (see `helpers.requests`): the original model, whatever engine serves
it, adapter, parameters and prompt. So a second run needs no model, on any machine.
"""

import math
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Generic, Literal, NoReturn, Self, TypeVar, cast

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
from resources.services import (
    CONNECT,
    LlmEndpoint,
    ServiceError,
    is_loopback,
    llm_endpoint,
)
from resources.settings import settings

T = TypeVar("T")

MAX_RETRIES = 16
"""With the client's back-off some 100 s: longer than an embedded server's restart."""
TIMEOUT_SECONDS = 600

RECHECKED_REQUESTS = 10
"""Stored requests of a step that are sent again, or half of the step if it is small."""
RECHECKED_COST = 1_500
"""Cost of a step's sample, in prompt tokens."""
GENERATED_TOKEN_COST = 10
"""A generated token takes as long as ten tokens of a prompt."""
SLOW_ENGINES = {"llamacpp": 500}
"""Highest cost of the one request per step that a slow engine is sent again.

llama.cpp reads prompts at a third of vLLM's rate.
"""
LOGLIKELIHOOD_TOLERANCE = 0.05
"""Relative difference that counts as none: batching changes the order of sums."""


class ContextOverflowError(LlmError):
    """A prompt does not fit the context, and the caller did not ask to record this."""


@dataclass(frozen=True)
class _Step(Generic[Answer]):
    """The requests of one call, which share all but the prompt.

    Attributes:
        kind: What is asked for.
        parameters: Sampling parameters and other fields of the requests.
        prompts: Messages, plain text, or a pair of texts for a log-likelihood.
        answer_type: Type of the answers.
        label: Name of the step in progress bars, errors and the record of the run.
    """

    kind: Kind
    parameters: Mapping[str, Any]
    prompts: Sequence[Any]
    answer_type: Callable[..., Answer]
    label: str


@dataclass(frozen=True)
class _Plan(Generic[Answer]):
    """How each request of a step will be answered.

    Attributes:
        keys: Key of each prompt. Equal prompts have the same key.
        prompts: Prompt of each key.
        stored: Stored answers by key.
    """

    keys: Sequence[str]
    prompts: Mapping[str, Any]
    stored: Mapping[str, Answer]

    @property
    def missing(self) -> list[str]:
        """Keys of the requests that the model has to answer."""
        return [key for key in self.prompts if key not in self.stored]


@dataclass(frozen=True)
class _StoredAnswer:
    """A stored answer that was used, with what is needed to ask for it again."""

    step: _Step[Any]
    prompt: Any
    answer: Reply | Choice | Loglikelihood

    @property
    def cost(self) -> int:
        """What it costs to ask again, in prompt tokens."""
        return self.answer.prompt_tokens + GENERATED_TOKEN_COST * self.answer.generated_tokens


class LLM:
    """A model behind the OpenAI API.

    Attributes:
        endpoint: Address and properties of the server.
        concurrency: Number of requests under way at once.
        usage: Counts of requests, tokens and seconds so far.
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
        """Open the store of replies. The server is not contacted yet.

        Args:
            endpoint: The server. Its address may be empty if ``start`` is given.
            folder: Folder of the store; without one, every request is sent.
            concurrency: Number of requests under way at once; by default the setting
                ``LLM_CONCURRENCY`` or what the server takes.
            salt: See `with_cache_salt`.
            start: Starts an embedded server when a request is not stored, and restarts
                it when it died.
        """
        self.endpoint = endpoint
        self.concurrency = concurrency or settings().llm_concurrency or endpoint.concurrency
        self.usage = Usage()
        self._stored_answers: dict[str, _StoredAnswer] = {}
        self._recheck_agrees: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._folder = working() if folder == STORE else folder
        self._store = store(self._folder) if self._folder else None
        self._start = start
        self._salt = salt

    def adapted(self, adapter: Adapter) -> Self:
        """The model with one of the LoRA adapters that its server serves."""
        endpoint = self.endpoint.adapted(adapter)
        start = self._start
        if start is None:
            return self._copy(endpoint, None)

        def start_adapted() -> LlmEndpoint:
            return start().adapted(adapter)

        return self._copy(endpoint, start_adapted)

    def with_cache_salt(self, salt: str) -> Self:
        """The model for timed requests, which reuse no prompt of another salt.

        Args:
            salt: Any text. vLLM reuses prompts within a salt; llama.cpp has no salts
                and reuses none; other servers are not told.
        """
        return self._copy(self.endpoint, self._start, salt)

    def _copy(
        self,
        endpoint: LlmEndpoint,
        start: Callable[[], LlmEndpoint] | None,
        salt: str = "",
    ) -> Self:
        return type(self)(
            endpoint,
            folder=self._folder,
            concurrency=self.concurrency,
            salt=salt,
            start=start,
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
        """Ask for free replies.

        Args:
            prompts: Messages, or plain text for a base model without a chat template.
            max_tokens: Longest reply, in tokens.
            temperature: Sampling temperature; 0 takes the likeliest token.
            top_p: Probability mass of nucleus sampling.
            seed: Seed of the sampling.
            stop: Strings that end a reply.
            logprobs: Whether replies have the likeliest first tokens (chat messages
                only).
            overflow: What to do with a prompt that does not fit the context: raise an
                error, or record the status "overflow".
            extra: Further fields of the request.
            label: Name of the step.

        Returns:
            One reply per prompt, in their order.

        Raises:
            ContextOverflowError: If a prompt does not fit the context.
            LlmError: If the server failed. Replies that had arrived are stored.
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
            parameters["logprobs"] = True
            parameters["top_logprobs"] = completions.TOP_LOGPROBS
        plain_prompts = [p if isinstance(p, str) else _plain_messages(p) for p in prompts]
        replies = self._answer_step(_Step("chat", parameters, plain_prompts, Reply, label))
        if overflow == "error":
            self._raise_on_overflow(replies, max_tokens)
        return replies

    def _raise_on_overflow(self, replies: Sequence[Reply], max_tokens: int) -> None:
        for i, reply in enumerate(replies):
            if reply.status == "overflow":
                raise ContextOverflowError(
                    f"Prompt {i} of {len(replies)} does not fit the context of "
                    f"{self.endpoint.context} tokens with {max_tokens} for the answer. "
                    "Shorten the evidence, or set LLM_CONTEXT to serve a longer one."
                )

    def choose_many(
        self,
        prompts: Sequence[Messages],
        choices: Sequence[str],
        *,
        label: str = "choose",
    ) -> list[Choice]:
        """Ask for the likeliest of some fixed answers, by constrained decoding.

        Args:
            prompts: The messages of each prompt.
            choices: At least two answers, none of which is the beginning of another.
            label: Name of the step.

        Returns:
            One choice per prompt, in their order.

        Raises:
            ValueError: If the choices cannot be told apart.
            LlmError: If the server failed or ignored the constraint.
        """
        choices = list(choices)
        if len(set(choices)) < 2 or _one_begins_another(choices):
            raise ValueError(f"Choices must be at least two, and none may begin another: {choices}")
        plain_prompts = [_plain_messages(prompt) for prompt in prompts]
        step = _Step("choose", {"choices": choices}, plain_prompts, Choice, label)
        return self._answer_step(step)

    def loglikelihood_many(
        self, pairs: Sequence[tuple[str, str]], *, label: str = "log-likelihood"
    ) -> list[Loglikelihood]:
        """Compute how likely a model continues a text as given.

        Args:
            pairs: Context and continuation, as plain text.
            label: Name of the step.

        Returns:
            The log-likelihood (natural logarithm) of each continuation.

        Raises:
            LlmError: If the server failed or cannot score text.
        """
        prompts = [list(pair) for pair in pairs]
        return self._answer_step(_Step("loglikelihood", {}, prompts, Loglikelihood, label))

    def _answer_step(self, step: _Step[Answer]) -> list[Answer]:
        """Answer the requests of a step, from the store where possible.

        Returns:
            One answer per prompt, in their order.
        """
        plan = self._plan(step)
        self._check_may_ask(step, plan)
        new, seconds = self._ask_missing(step, plan)
        answers = {**plan.stored, **new}
        self._count(step, plan, answers, seconds)
        return [answers[key] for key in plan.keys]

    def _plan(self, step: _Step[Answer]) -> _Plan[Answer]:
        """Find the stored answers of a step."""
        weights = self.endpoint.weights
        keys = [request_key(step.kind, weights, step.parameters, prompt) for prompt in step.prompts]
        rows = self._store.get(keys) if self._store else {}
        stored = {key: completions.from_row(row, step.answer_type) for key, row in rows.items()}
        if self._may_fit_now():
            stored = {key: answer for key, answer in stored.items() if not _overflowed(answer)}
        prompts = dict(zip(keys, step.prompts, strict=True))
        return _Plan(keys, prompts, stored)

    def _may_fit_now(self) -> bool:
        """Whether a prompt that overflowed before may fit the present context."""
        if settings().answers == "stored-only":
            return False
        return bool(settings().llm_context) or self.endpoint.context > engines.CPU_CONTEXT

    def _check_may_ask(self, step: _Step[Answer], plan: _Plan[Answer]) -> None:
        """Stop if requests are missing and the setting `ANSWERS` forbids to send them.

        Raises:
            LlmError: With `ANSWERS=stored-only`.
            PendingError: With `ANSWERS=collect`, after the requests were noted.
        """
        missing = plan.missing
        if not missing or not self._store:
            return
        if settings().answers == "stored-only":
            raise LlmError(
                f"{len(missing)} of {len(plan.prompts)} requests of the step "
                f"{step.label!r} to {self.endpoint.model} are not stored, and "
                f"ANSWERS=stored-only asks no model. {_how_to_record()}"
            )
        if settings().answers == "collect":
            prompts = {key: plan.prompts[key] for key in missing}
            weights, model = self.endpoint.weights, self.endpoint.model
            batch.pend(step.kind, weights, model, step.parameters, prompts)

    def _ask_missing(
        self, step: _Step[Answer], plan: _Plan[Answer]
    ) -> tuple[dict[str, Answer], float]:
        """Ask the model what is not stored.

        Returns:
            The answers by key, and the seconds that this took.
        """
        if not plan.missing:
            return {}, 0.0
        self._ensure_started()
        start = time.perf_counter()
        answers = self._run_concurrently(
            lambda key: self._ask_and_store(step, plan.prompts[key]),
            plan.missing,
            step.label,
        )
        return answers, time.perf_counter() - start

    def _ask_and_store(self, step: _Step[Answer], prompt: Any) -> Answer:  # noqa: ANN401
        """Send one request and store its answer at once, in case another one fails."""
        answer = cast(Answer, self._ask(step.kind, step.parameters, prompt))
        endpoint = self.endpoint
        row = completions.row_of(
            answer,
            step.kind,
            endpoint.weights,
            step.parameters,
            prompt,
            engine=f"{endpoint.engine} {endpoint.version}".strip(),
            served_sha256=endpoint.model_sha256,
            precision=endpoint.precision,
        )
        if self._store:
            row = self._store.put_first(row)  # another run may have stored a reply meanwhile
        # The store rounds numbers. Reading the row back gives a first run the numbers
        # of every later one.
        stored = completions.from_row(row, step.answer_type)
        return replace(stored, cached=False, seconds=answer.seconds)

    def _count(
        self,
        step: _Step[Answer],
        plan: _Plan[Answer],
        answers: Mapping[str, Answer],
        seconds: float,
    ) -> None:
        """Add a step to the usage, and note its stored answers for a recheck."""
        with self._lock:
            self.usage.count(answers, seconds, step.label, self.concurrency)
            if settings().answers == "check":
                for key, answer in plan.stored.items():
                    stored = _StoredAnswer(step, plan.prompts[key], answer)
                    self._stored_answers.setdefault(key, stored)

    def _run_concurrently(
        self, function: Callable[[str], T], keys: Sequence[str], label: str
    ) -> dict[str, T]:
        """Call a function for each key in threads, with a progress bar."""
        with ThreadPoolExecutor(self.concurrency) as pool:
            futures = {pool.submit(function, key): key for key in keys}
            progress = tqdm(as_completed(futures), total=len(keys), desc=label, unit="req")
            try:
                return {futures[future]: future.result() for future in progress}
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def recheck_stored(self) -> None:
        """Ask for a sample of the stored answers again and count how many are the same.

        The samples of all steps are sent together. A request is rechecked once per
        engine and machine. Results are in ``usage.checked`` and ``usage.same``. If no
        server can be started, a warning says so.
        """
        sample: list[str] = []
        for label, n_requests in Counter(self.usage.keys.values()).items():
            sample += self._recheck_sample(label, n_requests)
        if self._store and self._engine_version:
            self._recheck_agrees |= self._store.checks(sample, self._engine_version)
        unchecked = [key for key in sample if key not in self._recheck_agrees]
        if unchecked:
            try:
                self._recheck(unchecked)
            except (DataError, LlmError, ServiceError, EngineError) as error:
                warnings.warn(f"No stored request is asked again: {error}", stacklevel=2)
        steps = [self._stored_answers[key].step.label for key in self._recheck_agrees]
        self.usage.checked = Counter(steps)
        self.usage.same = sum(self._recheck_agrees.values())

    def _recheck_sample(self, label: str, n_requests: int) -> list[str]:
        """Choose the stored answers of a step to ask for again.

        Args:
            label: Name of the step.
            n_requests: Number of its requests, stored or not.

        Returns:
            Keys whose total cost is within the engine's budget. Keys are digests, so
            the first ones are a random sample that is the same in each run.
        """
        keys = [key for key, stored in self._stored_answers.items() if stored.step.label == label]
        candidates = sorted(keys)[:RECHECKED_REQUESTS]
        if not candidates:
            return []
        costs = {key: self._stored_answers[key].cost for key in candidates}
        if self.endpoint.engine in SLOW_ENGINES:
            cheapest = min(candidates, key=costs.__getitem__)
            return [cheapest] if costs[cheapest] <= SLOW_ENGINES[self.endpoint.engine] else []
        total_costs = accumulate(costs.values())
        n_affordable = sum(total <= RECHECKED_COST for total in total_costs)
        n_sample = min(n_affordable, n_requests // 2)
        return candidates[: max(1, n_sample)]

    def _recheck(self, keys: Sequence[str]) -> None:
        self._ensure_started()
        agrees = self._run_concurrently(
            self._gives_same_answer, keys, "stored requests, asked again"
        )
        self._recheck_agrees |= agrees
        if self._store and self._engine_version:
            self._store.put_checks(agrees, self._engine_version)

    def _gives_same_answer(self, key: str) -> bool:
        stored = self._stored_answers[key]
        answer = self._ask(stored.step.kind, stored.step.parameters, stored.prompt)
        return _is_same(stored.answer, answer)

    @property
    def _engine_version(self) -> str:
        """The embedded engine and its version; empty for another server."""
        if self._start and self.endpoint.version:
            return f"{self.endpoint.engine} {self.endpoint.version}"
        return ""

    @property
    def engine_and_version(self) -> tuple[str, str]:
        """What gave the replies that were used; several engines or precisions with counts."""
        endpoint, sources = self.endpoint, self.usage.sources
        if not sources:
            return endpoint.engine, endpoint.version
        if len(sources) == 1:
            engine, _, version = next(iter(sources)).partition(" ")
        else:
            engine = ", ".join(sorted({source.partition(" ")[0] for source in sources}))
            counts = sorted(sources.items(), key=lambda item: (-item[1], item[0]))
            version = "; ".join(f"{source}: {n:,} replies" for source, n in counts)
        if self.usage.checked and self._own_source not in sources:
            version += f"; asked again: {self._own_source}"
        return engine, version

    @property
    def _own_source(self) -> str:
        """The engine that answers now, named like `Row.source`."""
        endpoint = self.endpoint
        engine = f"{endpoint.engine} {endpoint.version}".strip()
        if not endpoint.precision or f"({endpoint.precision})" in engine:
            return engine
        return f"{engine} ({endpoint.precision})"

    @cached_property
    def _client(self) -> openai.OpenAI:
        if not self.endpoint.base_url and self._start:
            started = self._start()
            if started.weights != self.endpoint.weights:
                raise LlmError(
                    f"The server that was started serves {started.weights}, not "
                    f"{self.endpoint.weights}: the engine expected could not be "
                    "installed or does not fit the memory. Run again; LLM_ENGINE names "
                    "one."
                )
            self.endpoint = started
        # No proxy reaches this machine's loopback, nor should it see the key.
        use_proxy = not is_loopback(self.endpoint.base_url)
        return openai.OpenAI(
            base_url=self.endpoint.base_url,
            api_key=self.endpoint.api_key,
            max_retries=MAX_RETRIES,
            timeout=openai.Timeout(TIMEOUT_SECONDS, connect=CONNECT),
            http_client=openai.DefaultHttpxClient(trust_env=use_proxy),
        )

    def _ensure_started(self) -> None:
        """Start the server now, so its start does not count as waiting for replies."""
        _ = self._client

    def _ask(
        self, kind: Kind, parameters: Mapping[str, Any], prompt: Sequence[Any]
    ) -> completions.Answered:
        """Send one request and read the answer."""
        tokens = None
        if kind == "loglikelihood" and self.endpoint.engine == "llamacpp":
            tokens = self._tokenize("".join(prompt))
        model = self.endpoint.model
        path, body = completions.request_body(
            kind, parameters, prompt, model, self.endpoint.engine, tokens
        )
        body |= self._cache_fields()
        start = time.perf_counter()
        response = self._post(path, body)
        seconds = time.perf_counter() - start
        if response is None:
            if kind == "chat":
                return Reply("", "overflow", 0, 0, seconds)
            raise ContextOverflowError(
                f"A prompt does not fit the context of {self.endpoint.context} tokens."
            )
        endpoint = self.endpoint
        engine = f"{endpoint.engine} {endpoint.version} at {endpoint.base_url}"
        try:
            return completions.read_completion(
                kind,
                parameters,
                prompt,
                response.json(),
                seconds=seconds,
                engine=engine,
            )
        except (ValueError, KeyError, IndexError, TypeError) as error:
            problem = f"{type(error).__name__}: {response.text[:200]!r}"
            raise LlmError(f"{engine} gave no completion ({problem}).") from None

    def _cache_fields(self) -> dict[str, Any]:
        """Fields that separate timed requests; other servers may refuse them."""
        if not self._salt:
            return {}
        if self.endpoint.engine == "vllm":
            return {"cache_salt": self._salt}
        if self.endpoint.engine == "llamacpp":
            return {"cache_prompt": False}
        return {}

    def _tokenize(self, text: str) -> list[dict[str, Any]] | None:
        """The tokens of a text by llama.cpp; None if it does not fit the context."""
        server = str(self._client.base_url).rstrip("/").removesuffix("/v1")
        body = {"content": text, "add_special": True, "with_pieces": True}
        response = self._post(f"{server}/tokenize", body)
        return list(response.json()["tokens"]) if response else None

    def _post(self, path: str, body: Mapping[str, Any]) -> httpx.Response | None:
        """Send a request.

        Args:
            path: Path below the server's address, or a whole URL.
            body: The request, to be sent as JSON.

        Returns:
            The response, or None if the prompt does not fit the context.

        Raises:
            CapabilityError: If the server refused the request.
            LlmError: If the server failed.
        """
        start = time.monotonic()
        try:
            return self._post_and_restart(path, body)
        except openai.APIStatusError as error:
            if _is_refusal(error) and completions.is_overflow(str(error)):
                return None
            self._raise_for_status(error)
        except openai.APIConnectionError as error:
            seconds = time.monotonic() - start
            raise LlmError(
                f"{self._server_name} does not answer; it was tried for {seconds:.0f} "
                f"s ({error.__cause__ or error}). Replies that had come are stored: "
                "restart the server and run again. For an embedded server see "
                "_build/logs/llm.log."
            ) from None

    def _post_and_restart(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        """Send a request, once more after a restart if an embedded server died."""
        try:
            return self._post_once(path, body)
        except openai.APIConnectionError:
            if self._start is None:
                raise
            with self._lock:
                self.endpoint = self._start()  # maybe at another address
                self.__dict__.pop("_client", None)
            return self._post_once(path, body)

    def _post_once(self, path: str, body: Mapping[str, Any]) -> httpx.Response:
        # The raw response: parsing it into the client's types would double the client's
        # time.
        return self._client.post(path, cast_to=httpx.Response, body=dict(body))

    @property
    def _server_name(self) -> str:
        return f"{self.endpoint.model} at {self.endpoint.base_url}"

    def _raise_for_status(self, error: openai.APIStatusError) -> NoReturn:
        """Raise an error that says what to do."""
        server = self._server_name
        if isinstance(error, openai.AuthenticationError):
            raise LlmError(f"{server} refused the key. Set LLM_API_KEY.") from None
        if not _is_refusal(error):
            status = error.status_code
            raise LlmError(
                f"{server} failed with HTTP {status} in spite of retries: {error}"
            ) from None
        parameter = _refused_parameter(error)
        if not parameter:
            raise CapabilityError(f"{server} refused a request: {error}") from None
        raise CapabilityError(
            f"{server} refused the parameter {parameter!r}, which is needed here. Set "
            "LLM_BASE_URL and LLM_MODEL to a server and model that take it, for "
            f"example vLLM's. The server says: {error}"
        ) from None


def connect(
    model: str,
    *,
    exact: bool = False,
    adapters: Sequence[Adapter] = (),
    **options: Any,  # noqa: ANN401
) -> LLM:
    """Connect to the LLM of the settings, or to an embedded one.

    Args:
        model: Name of the model. The setting ``LLM_MODEL`` takes its place.
        exact: Whether to ask this model even if ``LLM_MODEL`` names another one.
        adapters: LoRA adapters to serve; see `LLM.adapted`.
        **options: Further arguments of `LLM`.

    Returns:
        The client. An embedded server is started when a request is not stored.
    """
    endpoint = partial(llm_endpoint, model, exact=exact, adapters=adapters)
    return LLM(endpoint(start=False), start=endpoint, **options)


def _plain_messages(messages: Messages) -> list[dict[str, str]]:
    return [dict(message) for message in messages]


def _one_begins_another(choices: Sequence[str]) -> bool:
    for first in choices:
        for second in choices:
            if first != second and second.startswith(first):
                return True
    return False


def _how_to_record() -> str:
    """What to do where a reply is missing and none may be asked for."""
    if settings().profile == "smoke":
        return "If a prompt changed, record its replies: make record PROFILE=smoke"
    return "If a prompt changed, run without ANSWERS=stored-only, and a model is asked."


def _overflowed(answer: Reply | Choice | Loglikelihood) -> bool:
    return isinstance(answer, Reply) and answer.status == "overflow"


def _is_same(stored: completions.Answered, answer: completions.Answered) -> bool:
    """Whether an answer is the stored one."""
    if isinstance(stored, Loglikelihood) and isinstance(answer, Loglikelihood):
        return math.isclose(stored.total, answer.total, rel_tol=LOGLIKELIHOOD_TOLERANCE)
    if isinstance(stored, Choice) and isinstance(answer, Choice):
        return stored.answer == answer.answer
    if isinstance(stored, Reply) and isinstance(answer, Reply):
        return stored.text == answer.text
    return False


def _is_refusal(error: openai.APIStatusError) -> bool:
    """Whether a server rejects the request itself: HTTP 400, 404 or 422."""
    refusals = (
        openai.BadRequestError,
        openai.NotFoundError,
        openai.UnprocessableEntityError,
    )
    return isinstance(error, refusals)


def _refused_parameter(error: openai.APIStatusError) -> str:
    """The parameter that a server refuses, in OpenAI's or FastAPI's format."""
    if error.param:
        return error.param
    try:
        return str(cast(Any, error.body)["detail"][0]["loc"][-1])
    except (LookupError, TypeError):
        return ""
