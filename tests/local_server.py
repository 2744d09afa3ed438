"""A real HTTP server on loopback that replies as a test wants it, and notes what it was asked."""

from __future__ import annotations

import json
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from resources.settings import settings

Answer = Callable[["Exchange"], None]


@dataclass
class Exchange:
    """One request, and the ways to reply to it."""

    path: str
    body: dict[str, Any]
    handler: BaseHTTPRequestHandler

    def send(self, content: object, status: int = 200, **headers: str) -> None:
        """Reply with JSON, text or bytes; `_` in the name of a header stands for `-`."""
        data = content if isinstance(content, bytes) else None
        if data is None:
            data = (content if isinstance(content, str) else json.dumps(content)).encode()
        self.handler.send_response(status)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        for name, value in ({"Content-Length": str(len(data))} | names).items():
            self.handler.send_header(name, value)
        self.handler.end_headers()
        self.handler.wfile.write(data)


@dataclass
class LocalServer:
    """What runs: its address, and the requests so far."""

    url: str
    requests: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)


@contextmanager
def local_server(answer: Answer) -> Iterator[LocalServer]:
    """Serve until the block ends; `answer` replies to each request, in a thread of its own."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            body = json.loads(data) if data else {}
            running.requests.append(body)
            running.paths.append(self.path)
            try:
                answer(Exchange(self.path, body, self))
            except (BrokenPipeError, ConnectionResetError):
                self.close_connection = True

        do_POST = do_GET = _serve  # noqa: N815  # names of http.server

        def log_message(self, *args: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    http.daemon_threads = True
    running = LocalServer(f"http://127.0.0.1:{http.server_port}/v1")
    threading.Thread(target=http.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield running
    finally:
        http.shutdown()
        http.server_close()


def always(content: object, status: int = 200, **headers: str) -> Answer:
    """Reply to every request alike."""
    return lambda exchange: exchange.send(content, status, **headers)


def chat_completion(content: object = "YES", **changes: Any) -> dict[str, Any]:
    """A completion as most servers give it, with `changes` of its top level."""
    message = {"role": "assistant", "content": content}
    completion = {
        "model": "m",
        "choices": [{"index": 0, "finish_reason": "stop", "message": message}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    return {**completion, **changes}


REFUSED_FIELDS = (
    "logprobs",
    "top_logprobs",
    "seed",
    "response_format",
    "chat_template_kwargs",
    "max_tokens",
    "stop",
    "temperature",
    "top_p",
)
"""What a request can do without, or what has another name."""
PLAUSIBLE = ("YES", "NO", "Not known.", "aspirin, ibuprofen", "3", "nausea")


def refuse_everything_optional(model: str) -> Answer:
    """A server that answers chats in plain text, and refuses all that it may refuse."""

    def answer(exchange: Exchange) -> None:
        if exchange.path.endswith("/models"):
            exchange.send({"object": "list", "data": [{"id": model}]})
            return
        if not exchange.path.endswith("/chat/completions"):
            exchange.send({"error": {"message": "Not found"}}, 404)
            return
        for name in REFUSED_FIELDS:
            if name in exchange.body:
                error = {"message": f"{name} is not supported", "param": name}
                exchange.send({"error": error}, 400)
                return
        messages = exchange.body["messages"]
        if any(message["role"] == "system" for message in messages):
            exchange.send({"error": {"message": "System role not supported"}}, 400)
            return
        text = plausible_answer("\n".join(message["content"] for message in messages))
        exchange.send(chat_completion(text, model=model, usage=None))

    return answer


def plausible_answer(prompt: str) -> str:
    """Words that a small model might say, the same to the same prompt."""
    if "Cypher" in prompt or "MATCH" in prompt:
        return "MATCH (d:Drug) RETURN d.name AS answer LIMIT 3"
    if "JSON" in prompt:
        return '{"seizure_status": "negative", "medications": []}'
    return PLAUSIBLE[zlib.crc32(prompt.encode()) % len(PLAUSIBLE)]


@contextmanager
def server_of_the_settings(text: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """The server that the settings name in the smoke profile; it replies to each prompt alike."""

    def answer(exchange: Exchange) -> None:
        if exchange.path.endswith("/models"):
            exchange.send({"data": [{"id": "m"}]})
            return
        exchange.send(chat_completion(text))

    with local_server(answer) as running:
        monkeypatch.setenv("LLM_BASE_URL", running.url)
        monkeypatch.setenv("LLM_MODEL", "m")
        monkeypatch.setenv("PROFILE", "smoke")
        settings.cache_clear()
        yield running
    monkeypatch.undo()
    settings.cache_clear()
