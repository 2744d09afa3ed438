"""Ask a server one thing: start it, adapt the request to what it takes, read its answer."""

import threading
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from helpers import adaptations
from helpers.completions import (
    Answered,
    CapabilityError,
    ContextOverflowError,
    LlmError,
    Reply,
)
from helpers.prompt_lengths import check_prompt_was_read
from helpers.request_bodies import request_body
from helpers.requests import Kind
from helpers.responses import parse_completion, parse_tokens, read_completion
from helpers.server import ConnectionFailed, Patience, Refused, Server
from helpers.waiting import Waits
from resources.services import LlmEndpoint

_changes: dict[tuple[str, str], list[str]] = {}
"""What the servers of this process refuse, by address and model."""
_changes_lock = threading.Lock()


class Asker:
    """Asks one model, and starts its server when it is needed."""

    def __init__(
        self,
        endpoint: LlmEndpoint,
        start: Callable[[], LlmEndpoint] | None,
        salt: str,
        patience: Patience,
        waits: Waits,
    ) -> None:
        """Prepare to ask; the server is not contacted yet.

        Args:
            endpoint: The server; its address may be empty if ``start`` is given.
            start: Starts an embedded server, or starts it anew, maybe at another address.
            salt: See `LLM.with_cache_salt`.
            patience: How long the server is waited for.
            waits: Where it is noted what is waited for.
        """
        self.endpoint = endpoint
        self._start = start
        self._salt = salt
        self._patience = patience
        self._waits = waits
        self._lock = threading.RLock()
        self._server: Server | None = None
        self._warned: set[str] = set()

    def ensure_started(self) -> Server:
        """Start the server if it is an embedded one, so that its start is no part of the waiting.

        Raises:
            LlmError: If another model was started than the one meant.
        """
        with self._lock:
            if self._server is None:
                if not self.endpoint.base_url and self._start:
                    self.endpoint = self._started(self._start())
                self._server = Server(self.endpoint, self._patience, self._waits)
            return self._server

    def _started(self, started: LlmEndpoint) -> LlmEndpoint:
        if started.weights == self.endpoint.weights:
            return started
        raise LlmError(
            f"The server that was started serves {started.weights}, not {self.endpoint.weights}: "
            "the engine expected could not be installed or does not fit the memory. Run again; "
            "LLM_ENGINE names one."
        )

    def ask(self, kind: Kind, parameters: Mapping[str, Any], prompt: Sequence[Any]) -> Answered:
        """Send one request and read the answer.

        Raises:
            ContextOverflowError: If the prompt of anything but a chat does not fit.
            CapabilityError: If the server cannot do what is asked for.
            LlmError: If it fails.
        """
        endpoint = self.endpoint if self.endpoint.base_url else self.ensure_started().endpoint
        tokens = None
        if kind == "loglikelihood" and endpoint.engine == "llamacpp":
            tokens = self._tokenize("".join(prompt))
        path, body = request_body(kind, parameters, prompt, endpoint.model, endpoint.engine, tokens)
        body |= self._cache_fields()
        start = time.perf_counter()
        content, changes = self._post_adapted(kind, path, body)
        seconds = time.perf_counter() - start
        if content is None:
            return self._overflow(kind, seconds)
        engine = f"{endpoint.engine} {endpoint.version} at {self.endpoint.base_url}"
        completion = parse_completion(content, engine)
        if kind != "loglikelihood":
            n_tokens = completion.counts.prompt_tokens
            check_prompt_was_read(prompt, n_tokens, endpoint.model, engine)
        answer = read_completion(
            kind, parameters, prompt, completion, seconds=seconds, engine=engine
        )
        if isinstance(answer, Reply) and f"{adaptations.WITHOUT}stop" in changes:
            answer = replace(answer, text=_until_stop(answer.text, parameters["stop"]))
        other_model = completion.model if completion.model != endpoint.model else ""
        if other_model:
            self._warn(
                f"{engine} names the model {other_model} in its replies, not {endpoint.model}."
            )
        return replace(answer, changes=changes, answered_by=other_model)

    def _overflow(self, kind: Kind, seconds: float) -> Reply:
        if kind == "chat":
            return Reply("", "overflow", 0, 0, seconds)
        raise ContextOverflowError(
            f"A prompt does not fit the context of {self.endpoint.context} tokens."
        )

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
        server = self.ensure_started().endpoint.base_url.rstrip("/").removesuffix("/v1")
        body = {"content": text, "add_special": True, "with_pieces": True}
        try:
            content = self._post(f"{server}/tokenize", body)
        except Refused as error:
            if error.is_overflow:
                return None
            raise
        return parse_tokens(content, server)

    def _post_adapted(
        self, kind: Kind, path: str, body: dict[str, Any]
    ) -> tuple[bytes | None, tuple[str, ...]]:
        """Send a request, and once more for each part of it that the server refuses.

        Returns:
            The reply, None if the prompt does not fit the context; and what was changed.
        """
        known = self._known_changes()
        changes = list(known)
        while True:
            try:
                content = self._post(path, adaptations.apply(changes, body))
            except Refused as error:
                if error.is_overflow:
                    return None, ()
                changes.append(self._change_for(error, kind, changes, body))
                continue
            self._remember(changes)
            return content, adaptations.effective(changes, body)

    def _change_for(
        self, error: Refused, kind: Kind, changes: Sequence[str], body: dict[str, Any]
    ) -> str:
        """What to change in a refused request.

        Raises:
            CapabilityError: If the step needs what the server refuses.
            LlmError: If the server forbids to ask at all.
        """
        sent = adaptations.apply(changes, body)
        change = adaptations.find_change(error.refusal, kind, sent)
        if change and change not in changes:
            return change
        if error.status == 403:
            raise LlmError(f"{error} It may be the key: set LLM_API_KEY.") from None
        parameter = error.refusal.parameter
        if not parameter:
            raise CapabilityError(str(error)) from None
        raise CapabilityError(
            f"{self.endpoint.model} at {self.endpoint.base_url} refused the parameter "
            f"{parameter!r}, which is needed here. Set LLM_BASE_URL and LLM_MODEL to a server and "
            f"model that take it, for example vLLM's. It says: {error.refusal.message[:200]}"
        ) from None

    def _known_changes(self) -> list[str]:
        with _changes_lock:
            return list(_changes.get((self.endpoint.base_url, self.endpoint.model), ()))

    def _remember(self, changes: Sequence[str]) -> None:
        if not changes:
            return
        with _changes_lock:
            known = _changes.setdefault((self.endpoint.base_url, self.endpoint.model), [])
            new = [change for change in changes if change not in known]
            known += new
        for change in new:
            self._warn(f"{self.endpoint.model} refuses part of the requests; it is asked {change}.")

    def _post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Send a request, once more after a restart if an embedded server died."""
        server, began = self.ensure_started(), time.monotonic()
        try:
            return server.post(path, body)
        except ConnectionFailed as error:
            if self._start is None:
                raise ConnectionFailed(
                    f"{error} It was tried for {time.monotonic() - began:.0f} s. Replies that had "
                    "come are stored: restart the server and run again."
                ) from None
        with self._lock:
            if self._server is server:
                self.endpoint = self._start()  # maybe at another address
                self._server = Server(self.endpoint, self._patience, self._waits)
            server = self._server or self.ensure_started()
        try:
            return server.post(path, body)
        except ConnectionFailed as error:
            raise ConnectionFailed(
                f"{error} It was started anew, and replies that had come are stored. See "
                "_build/logs/llm.log, and run again."
            ) from None

    def _warn(self, message: str) -> None:
        with self._lock:
            if message in self._warned:
                return
            self._warned.add(message)
        warnings.warn(message, stacklevel=2)


def _until_stop(text: str, stops: Sequence[str]) -> str:
    """What a server that knows no stop strings should have ended at."""
    ends = [text.find(stop) for stop in stops if stop in text]
    return text[: min(ends)] if ends else text
