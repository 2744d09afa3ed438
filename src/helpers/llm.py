"""Client of an LLM server that speaks the OpenAI API.

Requests are sent concurrently. Each reply is stored as it arrives. The key of a reply consists of
the original model, the adapter, the parameters and the prompt, but not of the engine that serves
the model (see `helpers.requests`). A second run with the same store therefore needs no model, on
any machine, unless the setting `ANSWERS` asks again.
"""

import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, cast

from helpers import batch
from helpers.answer_rows import Served, from_row, to_row
from helpers.asking import Asker
from helpers.completions import (
    Answer,
    Answered,
    CapabilityError,
    Choice,
    ContextOverflowError,
    LlmError,
    Loglikelihood,
    Messages,
    Reply,
)
from helpers.forecast import answer_without_asking
from helpers.planning import Plan, Step, make_plan
from helpers.recheck import (
    ASKING_SHARE,
    StoredAnswer,
    chapter_seconds,
    choose_sample,
    is_same,
    take_turns,
)
from helpers.request_bodies import TOP_LOGPROBS
from helpers.requests import STORE, Kind, store, working
from helpers.server import Patience
from helpers.usage import Usage, describe_sources
from helpers.waiting import Waits, run_concurrently
from resources import engines
from resources.download import DataError
from resources.engine_install import EngineError
from resources.engines import Adapter
from resources.services import LlmEndpoint, ServiceError, llm_endpoint, why_not_served
from resources.settings import settings

__all__ = [
    "LLM",
    "CapabilityError",
    "Choice",
    "ContextOverflowError",
    "LlmError",
    "Loglikelihood",
    "Patience",
    "Reply",
    "Usage",
    "connect",
    "why_not_served",
]


class LLM:
    """A model behind the OpenAI API.

    Attributes:
        endpoint: Address and properties of the server. An embedded server has an address
            once it has started.
        concurrency: Number of requests under way at once.
        usage: Counts of requests, tokens and seconds so far.
    """

    def __init__(  # options of a client
        self,
        endpoint: LlmEndpoint,
        *,
        folder: Path | None = STORE,
        concurrency: int | None = None,
        salt: str = "",
        start: Callable[[], LlmEndpoint] | None = None,
        patience: Patience | None = None,
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
            patience: How long a server is waited for.
        """
        self.endpoint = endpoint
        self.concurrency = concurrency or settings().llm_concurrency or endpoint.concurrency
        self.usage = Usage()
        self._stored_answers: dict[str, StoredAnswer] = {}
        self._recheck_agrees: dict[str, bool] = {}
        self._lock = threading.Lock()
        self._folder = working() if folder == STORE else folder
        self._store = store(self._folder) if self._folder else None
        self._start = start
        self._patience = patience or Patience()
        self._waits = Waits()
        self._asker = Asker(endpoint, start, salt, self._patience, self._waits)

    def adapted(self, adapter: Adapter) -> Self:
        """Return the model with one of the LoRA adapters that its server serves."""
        endpoint = self.endpoint.adapted(adapter)
        start = self._start
        if start is None:
            return self._copy(endpoint, None)

        def start_adapted() -> LlmEndpoint:
            return start().adapted(adapter)

        return self._copy(endpoint, start_adapted)

    def with_cache_salt(self, salt: str) -> Self:
        """Return a copy of the client for timed requests.

        On vLLM and llama.cpp, such a request reuses no prompt that was sent with another salt.

        Args:
            salt: Any text. vLLM reuses prompts only within a salt. llama.cpp has no salts, and the
                client tells it to reuse no prompt. Other servers do not receive the salt.
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
            patience=self._patience,
        )

    def chat_many(  # noqa: PLR0913  # as the API
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
            temperature: Sampling temperature. At 0, the model takes the likeliest token.
            top_p: Probability mass of nucleus sampling.
            seed: Seed of the sampling.
            stop: Strings that end a reply.
            logprobs: Whether each reply to chat messages contains, in `first_token`, the
                likeliest first tokens with their log-probabilities. `first_token` stays empty for
                plain text, after a thought, and if the server gives no log-probabilities.
            overflow: Whether a prompt that does not fit the context raises an error or is
                recorded with the status "overflow".
            extra: Further fields of the request.
            label: Name of the step.

        Returns:
            One reply per prompt, in their order.

        Raises:
            ContextOverflowError: If a prompt does not fit the context and `overflow` is "error".
            LlmError: If the server failed. Replies that had already arrived are stored.
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
            parameters["top_logprobs"] = TOP_LOGPROBS
        plain_prompts = [p if isinstance(p, str) else _plain_messages(p) for p in prompts]
        if not all(isinstance(prompt, str) for prompt in prompts):
            parameters |= _thinking_parameters()
        replies = self._answer_step(Step("chat", parameters, plain_prompts, Reply, label))
        _warn_of_cut_thoughts(replies, label)
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
        parameters = {"choices": choices, **_thinking_parameters()}
        step = Step("choose", parameters, plain_prompts, Choice, label)
        return self._answer_step(step)

    def loglikelihood_many(
        self, pairs: Sequence[tuple[str, str]], *, label: str = "log-likelihood"
    ) -> list[Loglikelihood]:
        """Compute how likely a model is to continue each context with the given text.

        Args:
            pairs: Context and continuation, as plain text.
            label: Name of the step.

        Returns:
            The log-likelihood (natural logarithm) of each continuation.

        Raises:
            LlmError: If the server failed or cannot score text.
        """
        prompts = [list(pair) for pair in pairs]
        return self._answer_step(Step("loglikelihood", {}, prompts, Loglikelihood, label))

    def _answer_step(self, step: Step[Answer]) -> list[Answer]:
        """Answer the requests of a step, from the store where possible.

        Returns:
            One answer per prompt, in their order.
        """
        if settings().answers == "plan":
            return answer_without_asking(step, self.endpoint)
        plan = self._plan(step)
        self._check_may_ask(step, plan)
        new, seconds = self._ask_missing(step, plan)
        answers = {**plan.stored, **new}
        self._count(step, plan, answers, seconds)
        return [answers[key] for key in plan.keys]

    def _plan(self, step: Step[Answer]) -> Plan[Answer]:
        return make_plan(
            step, self.endpoint.weights, self._store, retry_overflow=self._may_fit_now()
        )

    def _may_fit_now(self) -> bool:
        """Whether a prompt that overflowed before may fit the present context."""
        if settings().answers == "stored-only":
            return False
        return bool(settings().llm_context) or self.endpoint.context > engines.CPU_CONTEXT

    def _check_may_ask(self, step: Step[Answer], plan: Plan[Answer]) -> None:
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
        self, step: Step[Answer], plan: Plan[Answer]
    ) -> tuple[dict[str, Answer], float]:
        """Ask the model what is not stored.

        Returns:
            The answers by key, and the seconds that this took.
        """
        if not plan.missing:
            return {}, 0.0
        self._ensure_started()
        start = time.perf_counter()
        answers = run_concurrently(
            lambda key: self._ask_and_store(step, plan.prompts[key]),
            plan.missing,
            self.concurrency,
            step.label,
            self._waits,
        )
        return answers, time.perf_counter() - start

    def _ask_and_store(self, step: Step[Answer], prompt: Any) -> Answer:  # noqa: ANN401
        """Send one request and store its answer at once, in case another one fails."""
        answer = cast(Answer, self._ask(step.kind, step.parameters, prompt))
        row = to_row(answer, step.kind, step.parameters, prompt, self._served)
        if self._store:
            row = self._store.add_first(row)  # another run may have stored a reply meanwhile
        # The store rounds numbers. Reading the row back gives a first run the numbers
        # of every later one.
        stored = from_row(row, step.answer_type)
        return replace(stored, cached=False, seconds=answer.seconds)

    def _ask(self, kind: Kind, parameters: Mapping[str, Any], prompt: Sequence[Any]) -> Answered:
        return self._asker.ask(kind, parameters, prompt)

    def _ensure_started(self) -> None:
        """Start the server now, so its start does not count as waiting for replies."""
        self._asker.ensure_started()
        self.endpoint = self._asker.endpoint

    @property
    def _served(self) -> Served:
        """What gives the replies of now."""
        endpoint = self.endpoint
        engine = f"{endpoint.engine} {endpoint.version}".strip()
        return Served(endpoint.weights, engine, endpoint.model_sha256, endpoint.precision)

    def _count(
        self,
        step: Step[Answer],
        plan: Plan[Answer],
        answers: Mapping[str, Answer],
        seconds: float,
    ) -> None:
        """Add a step to the usage, and note its stored answers for a recheck."""
        with self._lock:
            self.usage.count(answers, seconds, step.label, self.concurrency)
            if settings().answers == "check":
                for key, answer in plan.stored.items():
                    prompt = plan.prompts[key]
                    stored = StoredAnswer(step.label, step.kind, step.parameters, prompt, answer)
                    self._stored_answers.setdefault(key, stored)

    def recheck_stored(self) -> None:
        """Send a sample of the stored requests again and count how many replies are the same.

        The samples of all steps are sent together, as long as the setting `CHECK_SECONDS`
        allows. An embedded engine gets a request again only once per version and store.
        ``usage.checked`` and ``usage.same`` contain the results. If no server can be started, a
        warning says so.
        """
        samples = [
            choose_sample(self._stored_answers, label, n_requests, self.endpoint.engine)
            for label, n_requests in Counter(self.usage.keys.values()).items()
        ]
        sample = take_turns(samples)
        if self._store and self._engine_version:
            self._recheck_agrees |= self._store.checks(sample, self._engine_version)
        unchecked = [key for key in sample if key not in self._recheck_agrees]
        if unchecked:
            try:
                self._recheck(unchecked)
            except (DataError, LlmError, ServiceError, EngineError) as error:
                warnings.warn(f"No stored request is asked again: {error}", stacklevel=2)
        steps = [self._stored_answers[key].label for key in self._recheck_agrees]
        self.usage.checked = Counter(steps)
        self.usage.same = sum(self._recheck_agrees.values())

    def _recheck(self, keys: Sequence[str]) -> None:
        """Ask again, as long as the setting `CHECK_SECONDS` allows to a notebook."""
        self._ensure_started()
        deadline = time.monotonic() + chapter_seconds(ASKING_SHARE)

        def agrees_in_time(key: str) -> bool | None:
            return self._gives_same_answer(key) if time.monotonic() < deadline else None

        label = "stored requests, asked again"
        results = run_concurrently(agrees_in_time, keys, self.concurrency, label, self._waits)
        agrees = {key: result for key, result in results.items() if result is not None}
        self._recheck_agrees |= agrees
        if self._store and self._engine_version:
            self._store.add_checks(agrees, self._engine_version)

    def _gives_same_answer(self, key: str) -> bool:
        stored = self._stored_answers[key]
        answer = self._ask(stored.kind, stored.parameters, stored.prompt)
        return is_same(stored.answer, answer)

    @property
    def _engine_version(self) -> str:
        """The embedded engine and its version; empty for another server."""
        if self._start and self.endpoint.version:
            return f"{self.endpoint.engine} {self.endpoint.version}"
        return ""

    @property
    def engine_and_version(self) -> tuple[str, str]:
        """Say which engines gave the replies that were used, with counts if there were several."""
        if not self.usage.sources:
            return self.endpoint.engine, self.endpoint.version
        return describe_sources(self.usage, self._served.source)


def connect(
    model: str,
    *,
    exact: bool = False,
    adapters: Sequence[Adapter] = (),
    **options: Any,  # noqa: ANN401
) -> LLM:
    """Connect to the LLM of the settings, or to an embedded one.

    Args:
        model: Name of the model. The setting ``LLM_MODEL`` overrides it.
        exact: Whether to ask this model even if ``LLM_MODEL`` names another one.
        adapters: LoRA adapters to serve; see `LLM.adapted`.
        **options: Further arguments of `LLM`.

    Returns:
        The client. If the settings name no server, it starts an embedded one as soon as a
        request is not stored.
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
        return (
            "If a prompt changed, ask the model and record its replies: make record PROFILE=smoke, "
            'for one notebook with NB=... CONTRIBUTING.md, "Change a prompt", has the steps.'
        )
    return "If a prompt changed, run without ANSWERS=stored-only, and a model is asked."


def _thinking_parameters() -> dict[str, Any]:
    """What the settings say of thoughts; nothing by default, so that stored replies hold."""
    parameters: dict[str, Any] = {}
    if settings().llm_thinking:
        parameters["thinking"] = settings().llm_thinking
    if settings().llm_thinking_tokens:
        parameters["thinking_tokens"] = settings().llm_thinking_tokens
    return parameters


def _warn_of_cut_thoughts(replies: Sequence[Reply], label: str) -> None:
    n_cut = sum(reply.is_cut_in_thought for reply in replies)
    if n_cut:
        warnings.warn(
            f"{n_cut} of {len(replies)} replies of the step {label!r} have no answer: the token "
            "limit ended a thought. Set LLM_THINKING=off, or give thoughts room: "
            "LLM_THINKING_TOKENS=2000.",
            stacklevel=3,
        )
