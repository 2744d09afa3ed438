"""Send requests to a server that speaks the OpenAI API, within limits of time and size."""

import email.utils
import json
import random
import socket
import ssl
import time
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from typing import Any

import httpx

from helpers.adaptations import Refusal
from helpers.completions import LlmError
from helpers.responses import ServerError, is_overflow, read_error
from helpers.waiting import Waits
from resources.services import CONNECT, LlmEndpoint, is_loopback
from resources.settings import PublicError

MAX_BODY_BYTES = 16 * 2**20
MAX_REDIRECTS = 3
MAX_RETRY_AFTER_SECONDS = 600
"""Longer than this no server is waited for: the run is to be repeated then."""
BROKEN_REPLIES = 3
"""A reply that ends too early is asked for so often.

Some servers break off when they close an idle connection.
"""
REPEATED_STATUS = (408, 409, 425, 429, 500, 502, 503, 504)
REFUSED_STATUS = (400, 403, 404, 405, 413, 422, 501)
"""What may be a refusal of a part of the request."""
NO_QUOTA = "insufficient_quota"
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.5, 8.0


@dataclass(frozen=True)
class Patience:
    """How long a client waits for a server, in seconds.

    Attributes:
        reply: Longest wait for a whole reply, including the wait in the server's queue.
        repeat: Longest time for which the client repeats a request to a server that fails or
            cannot be reached. The default is longer than an embedded server needs for a restart.
    """

    reply: float = 600.0
    repeat: float = 100.0


class ConnectionFailed(LlmError):
    """The server cannot be reached or breaks off."""


class Refused(LlmError):
    """The server refuses a request as it is."""

    def __init__(self, message: str, status: int = 0, error: ServerError | None = None) -> None:
        """Note what the server said."""
        super().__init__(message)
        error = error or ServerError()
        self.status = status
        self.is_overflow = is_overflow(error.message, error.codes)
        self.refusal = Refusal(error.message, error.param, error.codes)


class _Repeatable(PublicError):
    """What may go well when it is repeated.

    Attributes:
        error_type: Of the error, if it does not.
        pause: Seconds that the server asks to wait.
        is_broken: Whether the reply ended too early.
    """

    def __init__(
        self,
        message: str,
        error_type: type[LlmError] = LlmError,
        pause: float | None = None,
        *,
        is_broken: bool = False,
    ) -> None:
        """Note what failed."""
        super().__init__(message)
        self.error_type, self.pause, self.is_broken = error_type, pause, is_broken


class Server:
    """A connection to one server."""

    def __init__(self, endpoint: LlmEndpoint, patience: Patience, waits: Waits) -> None:
        """Prepare a connection; nothing is sent yet.

        Raises:
            LlmError: If the environment names a proxy that cannot be used.
        """
        self.endpoint = endpoint
        self._patience = patience
        self._waits = waits
        url = endpoint.base_url
        self.name = f"{endpoint.model} at {url}"
        try:
            self._client = httpx.Client(
                headers={
                    "Authorization": f"Bearer {endpoint.api_key}",
                    "Accept-Encoding": "identity",
                    "Content-Type": "application/json",
                },
                timeout=httpx.Timeout(patience.reply, connect=CONNECT),
                limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
                verify=_certificates(),
                # no proxy reaches this machine's loopback, nor should it see the key
                trust_env=not is_loopback(url),
            )
        except (ImportError, ValueError) as error:
            raise LlmError(
                f"The environment names a proxy that cannot be used for {url} ({error}). Unset "
                "ALL_PROXY, or add the host to NO_PROXY."
            ) from None

    def post(self, path: str, body: Mapping[str, Any]) -> bytes:
        """Send a request, and repeat it while that may help.

        Args:
            path: Below the server's address, or a whole URL.
            body: Sent as JSON.

        Returns:
            The body of the reply.

        Raises:
            Refused: If the server rejects the request as it is.
            ConnectionFailed: If it cannot be reached.
            LlmError: If it fails in another way.
        """
        url = path if "://" in path else f"{self.endpoint.base_url}{path}"
        began, n_attempts, n_broken = time.monotonic(), 0, 0
        while True:
            try:
                with self._waits.wait_for(f"a reply of {self.name}", self._patience.reply):
                    return self._post_once(url, body)
            except _Repeatable as problem:
                n_attempts += 1
                n_broken += problem.is_broken
                pause = self._pause(problem, n_attempts, time.monotonic() - began)
                if pause is None or n_broken >= BROKEN_REPLIES:
                    raise problem.error_type(str(problem)) from None
                reason = f"{self.name} to recover, repeat {n_attempts} ({problem})"
                with self._waits.wait_for(reason[:300], pause):
                    time.sleep(pause)

    def _pause(self, problem: _Repeatable, n_attempts: int, elapsed: float) -> float | None:
        """Seconds to wait before a request is repeated; None if it should not be."""
        if problem.pause is not None:
            limit = min(MAX_RETRY_AFTER_SECONDS, self._patience.reply)
            return problem.pause if elapsed + problem.pause <= limit else None
        pause = min(MAX_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2 ** (n_attempts - 1))
        pause *= random.uniform(0.75, 1.0)  # noqa: S311  # so that not all threads repeat at once
        return pause if elapsed + pause <= self._patience.repeat else None

    def _post_once(self, url: str, body: Mapping[str, Any]) -> bytes:
        for _ in range(MAX_REDIRECTS + 1):
            status, headers, content = self._exchange(url, body)
            if status not in (301, 302, 303, 307, 308):
                return self._checked(status, headers, content)
            url = self._redirected(url, status, headers.get("location", ""))
        raise LlmError(f"{self.name} redirects in a circle. Correct LLM_BASE_URL.")

    def _exchange(self, url: str, body: Mapping[str, Any]) -> tuple[int, httpx.Headers, bytes]:
        """Send a request once and receive what comes, of any status."""
        content = json.dumps(body).encode()
        try:
            with self._client.stream("POST", url, content=content) as response:
                return response.status_code, response.headers, self._read_bounded(response)
        except httpx.TimeoutException as error:
            if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
                raise _Repeatable(self._failed(error), ConnectionFailed) from None
            raise LlmError(
                f"{self.name} gave no whole reply within {self._patience.reply:.0f} s. Replies "
                "that had come are stored: see what the server does, and run again."
            ) from None
        except httpx.RemoteProtocolError as error:
            raise _Repeatable(self._failed(error), ConnectionFailed, is_broken=True) from None
        except httpx.TransportError as error:
            if _is_final(error):
                raise ConnectionFailed(self._failed(error)) from None
            raise _Repeatable(self._failed(error), ConnectionFailed) from None
        except httpx.InvalidURL as error:
            raise LlmError(f"{self.name} has no valid address ({error}).") from None

    def _failed(self, error: Exception) -> str:
        return f"{self.name} does not answer ({error or type(error).__name__})."

    def _read_bounded(self, response: httpx.Response) -> bytes:
        """Read a body of at most `MAX_BODY_BYTES`, whatever it is packed into."""
        encoding = response.headers.get("content-encoding", "identity").lower()
        chunks = response.iter_raw()
        if encoding in ("gzip", "deflate"):
            chunks = _unpacked(chunks)
        elif encoding != "identity":
            raise LlmError(f"{self.name} packs its reply as {encoding!r}, which was not asked for.")
        content = bytearray()
        try:
            for chunk in chunks:
                content += chunk
                if len(content) > MAX_BODY_BYTES:
                    raise LlmError(
                        f"{self.name} sent more than {MAX_BODY_BYTES // 2**20} MiB in one reply, "
                        "which was not read on. Is it a server of the OpenAI API?"
                    )
        except zlib.error as error:
            raise LlmError(f"{self.name} sent a damaged reply ({error}).") from None
        return bytes(content)

    def _redirected(self, url: str, status: int, location: str) -> str:
        """Follow a redirect, if it keeps host, scheme and method."""
        before = httpx.URL(url)
        try:
            after = before.join(location) if location else httpx.URL("")
        except httpx.InvalidURL:
            after = httpx.URL("")
        if _origin(before) == _origin(after) and status in (307, 308):
            return str(after)
        raise LlmError(
            f"{self.name} redirects to {str(after) or 'nowhere'!r} (HTTP {status}), and no "
            "prompt was sent there. Set LLM_BASE_URL to the address that answers."
        )

    def _checked(self, status: int, headers: httpx.Headers, content: bytes) -> bytes:
        """The body of a good reply; an error for any other."""
        if httpx.codes.is_success(status):
            return content
        error = read_error(content)
        detail = f"HTTP {status}: {error.message[:300] or 'no reason given'}"
        raise self._failure(status, error, detail, _retry_after(headers))

    def _failure(
        self, status: int, error: ServerError, detail: str, pause: float | None
    ) -> PublicError:
        """The error that a status means."""
        if status == 401:
            return LlmError(f"{self.name} refused the key ({detail}). Set LLM_API_KEY.")
        if status in REFUSED_STATUS or (status == 500 and _is_template_error(error)):
            return Refused(f"{self.name} refused a request ({detail}).", status, error)
        if status not in REPEATED_STATUS or NO_QUOTA in error.codes:
            return LlmError(f"{self.name} failed ({detail}).")
        if pause is not None and pause > MAX_RETRY_AFTER_SECONDS:
            return LlmError(
                f"{self.name} is to be asked again in {pause:.0f} s at the earliest ({detail}). "
                "Replies that had come are stored: run again then."
            )
        return _Repeatable(f"{self.name} failed in spite of repeats ({detail}).", pause=pause)


@cache
def _certificates() -> ssl.SSLContext:
    """The certificates that are trusted, read once."""
    return httpx.create_ssl_context()


def _unpacked(chunks: Iterator[bytes]) -> Iterator[bytes]:
    """Unpack gzip or deflate in pieces, so that a small body cannot fill the memory."""
    unpacker = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)
    for chunk in chunks:
        packed = chunk
        while packed:
            yield unpacker.decompress(packed, 2**16)
            packed = unpacker.unconsumed_tail
    yield unpacker.flush()


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    ports = {"http": 80, "https": 443}
    return url.scheme, url.host, url.port or ports.get(url.scheme)


def _is_template_error(error: ServerError) -> bool:
    """Whether a failure is that of a chat template, for which llama.cpp gives status 500."""
    text = error.message.lower()
    return "role" in text or "template" in text or is_overflow(error.message, error.codes)


def _is_final(error: Exception) -> bool:
    """Whether a failed connection fails however often it is repeated."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError | httpx.UnsupportedProtocol):
            return True
        if isinstance(cause, socket.gaierror) and cause.errno == socket.EAI_NONAME:
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def _retry_after(headers: httpx.Headers) -> float | None:
    """Seconds that a server asks to wait, given in seconds or as a date."""
    text = headers.get("retry-after", "").strip()
    if not text:
        return None
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    try:
        date = email.utils.parsedate_to_datetime(text)
    except ValueError:
        return None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    return max(0.0, (date - datetime.now(UTC)).total_seconds())
