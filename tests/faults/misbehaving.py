"""The table of servers that misbehave: models whose replies have any shape, and sources of data.

A command survives if it gives the undisturbed result in spite of the server, or says in clear lines
what was wrong with it; once the server behaves, the same command gives the undisturbed result.
"""

from __future__ import annotations

import gzip
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness import Bench, Done, Failed, Job, Trial, World, completion
from test_datasets import CONTENT
from trials import ASK, FETCH

Act = Callable[[Bench], None]
Misbehave = Callable[[Any, str], None]
"""What is done in place of a reply, with the handler of a request and its prompt."""
Change = Callable[[dict[str, Any]], object]

SECRET = "the-key-of-this-trial"  # no secret
QUIET_ASK = Job(
    ASK.name,
    (
        sys.executable,
        "-c",
        "import runpy, sys\n"
        "from resources.settings import run_command_line\n"
        "sys.exit(run_command_line(lambda: runpy.run_path('jobs/ask.py') and 0))",
    ),
    ASK.result,
)
"""Sixty requests, with errors as a command line shows them."""


class Elsewhere:
    """Another host, and what reaches it."""

    def __init__(self) -> None:
        """Start it."""
        received: list[bytes] = []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:  # http.server's own name
                length = int(self.headers["Content-Length"] or 0)
                received.append(self.rfile.read(length))
                body = json.dumps(completion("1")).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST  # noqa: N815

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.received = received
        self.server = ThreadingHTTPServer(("127.0.0.2", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.2:{self.server.server_port}/v1/chat/completions"

    def close(self) -> None:
        """Stop it."""
        self.server.shutdown()
        self.server.server_close()


def send(
    handler: Any, body: bytes, status: int = 200, length: int | None = None, **headers: str
) -> None:
    """Answer a request."""
    handler.send_response(status)
    handler.send_header("Content-Type", headers.pop("Content_Type", "application/json"))
    handler.send_header("Content-Length", str(len(body) if length is None else length))
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()
    handler.wfile.write(body)


def ask_of(misbehave: Misbehave, first: int = 0, tells: str = "", **variables: str) -> Act:
    """Ask a server that misbehaves at all requests, or at the first ones alone.

    Args:
        misbehave: what the server does in place of its reply.
        first: requests at which it does so; 0 for all.
        tells: what the message has to say.
        **variables: of the command's environment.
    """

    def act(bench: Bench) -> None:
        world = bench.world()
        count = [0]

        def misbehave_for_some(handler: Any, prompt: str) -> None:
            count[0] += 1
            if first and count[0] > first:
                send(handler, json.dumps(completion(prompt)).encode())
            else:
                misbehave(handler, prompt)

        world.server.misbehave = misbehave_for_some  # type: ignore[attr-defined]
        output = world.run(QUIET_ASK, LLM_API_KEY=SECRET, **variables)
        _check_message(output, tells)
        world.server.misbehave = None  # type: ignore[attr-defined]
        bench.judge(world, QUIET_ASK, output)

    return act


def _check_message(output: Done, tells: str) -> None:
    if SECRET in output.text:
        raise Failed(f"the key is shown: {output.tail}")
    if tells and tells.lower() not in output.text.lower():
        raise Failed(f"the message does not say {tells!r}: {output.tail}")
    if any(mark in output.text for mark in ("\x1b[31m", "\x07", "\x00")):
        raise Failed("what the server wrote reaches the terminal as it is")


def changed(change: Change) -> Misbehave:
    """Answer with a completion that is changed."""

    def misbehave(handler: Any, prompt: str) -> None:
        content = change(completion(prompt))
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        send(handler, body)

    return misbehave


def with_content(make: Callable[[str], object]) -> Change:
    """Change the text of a reply."""

    def change(reply: dict[str, Any]) -> object:
        message = reply["choices"][0]["message"]
        message["content"] = make(message["content"])
        return reply

    return change


def with_usage(usage: object) -> Change:
    """Change the counts of tokens."""
    return lambda reply: {**reply, "usage": usage}


def with_text(before: str, after: str) -> Change:
    """Change the JSON itself, to what no Python object gives."""
    return lambda reply: json.dumps(reply).replace(before, after).encode()


def redirected(status: int) -> Act:
    """Redirect prompts to another host, which must get none."""

    def act(bench: Bench) -> None:
        other = Elsewhere()
        bench.ends.callback(other.close)
        ask_of(lambda handler, _: send(handler, b"", status, Location=other.url))(bench)
        if other.received:
            raise Failed(f"{len(other.received)} requests went to another host")

    return act


# ------------------------------------------------------------------------------------- what a handler does


def circle(handler: Any, _: str) -> None:
    """Redirect to the same address."""
    send(handler, b"", 307, Location="/v1/chat/completions")


def cut_short(handler: Any, prompt: str) -> None:
    """Send half of a reply and close."""
    body = json.dumps(completion(prompt)).encode()
    send(handler, body[: len(body) // 2], length=len(body))
    handler.connection.shutdown(socket.SHUT_RDWR)


def hang_up(handler: Any, _: str) -> None:
    """Close without a word."""
    handler.connection.shutdown(socket.SHUT_RDWR)


def reset(handler: Any, _: str) -> None:
    """Reset the connection."""
    handler.connection.setsockopt(
        socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00"
    )
    handler.connection.close()


def no_http(handler: Any, _: str) -> None:
    """Send what is no HTTP."""
    handler.wfile.write(b"220 mail.example ESMTP\r\n")
    handler.connection.shutdown(socket.SHUT_RDWR)


def huge_header(handler: Any, prompt: str) -> None:
    """Send a header of a megabyte."""
    send(handler, json.dumps(completion(prompt)).encode(), X_Huge="x" * 1_000_000)


def endless(handler: Any, _: str) -> None:
    """Send chunks without end."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    for _chunk in range(4000):  # 4 GB
        handler.wfile.write(b"100000\r\n" + b" " * 2**20 + b"\r\n")


def packed(handler: Any, _: str) -> None:
    """Send 2 GB that are packed into 2 MB."""
    send(handler, gzip.compress(bytes(2**26), 9) * 32, Content_Encoding="gzip")


def repeats_headers(handler: Any, _: str) -> None:
    """Refuse, and repeat what the request's headers say, the key with them."""
    message = {"error": {"message": f"refused: {dict(handler.headers)}"}}
    send(handler, json.dumps(message).encode(), 401)


def error(status: int, message: str = "it failed", **headers: str) -> Misbehave:
    """Refuse with a status."""
    body = json.dumps({"error": {"message": message}}).encode()
    return lambda handler, _: send(handler, body, status, None, **headers)


def hang(handler: Any, _: str) -> None:
    """Say nothing for long."""
    time.sleep(200)


def drip(handler: Any, prompt: str) -> None:
    """Send a byte a second."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    for _byte in range(200):
        handler.wfile.write(b" ")
        handler.wfile.flush()
        time.sleep(1)


def hang_in_the_middle(handler: Any, prompt: str) -> None:
    """Send the beginning of a reply and nothing more."""
    handler.send_response(200)
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [')
    handler.wfile.flush()
    time.sleep(200)


def waited_for(misbehave: Misbehave) -> Act:
    """Wait ten seconds for a server: the command says what for, Ctrl-C ends it, the rest is as ever."""

    def act(bench: Bench) -> None:
        world = bench.world()
        world.server.misbehave = misbehave  # type: ignore[attr-defined]
        run = world.start(QUIET_ASK)
        while not any(path == "asked" for path, _ in world.server.requests):
            time.sleep(0.1)
        time.sleep(13)  # ten, and some for a busy machine
        os.killpg(run.process.pid, signal.SIGINT)
        began = time.monotonic()
        output = run.wait()
        if time.monotonic() - began > 15:
            raise Failed("Ctrl-C did not end the wait")
        if "Traceback" in output.text:
            raise Failed(f"a raw traceback: {output.tail}")
        if "waiting" not in output.text or "until" not in output.text:
            raise Failed(f"ten seconds passed without a word: {output.tail}")
        world.wait_until_empty()
        world.server.misbehave = None  # type: ignore[attr-defined]
        bench.judge(world, QUIET_ASK)

    return act


# ------------------------------------------------------------------------------------------ sources of data


def fetch_from(prepare: Callable[[World], None]) -> Act:
    """Fetch from a source that misbehaves; then from one that does not."""

    def act(bench: Bench) -> None:
        world = bench.world()
        server = world.server
        prepare(world)
        output = world.run(FETCH)
        files = {"/one.bin": CONTENT, "/two.bin": CONTENT[::-1]}
        server.reset()
        server.files, server.drip = files, 0.002
        bench.judge(world, FETCH, output)

    return act


def _serve(**attributes: Any) -> Callable[[World], None]:
    def prepare(world: World) -> None:
        for name, value in attributes.items():
            setattr(world.server, name, value)

    return prepare


def _redirect_to(place: str) -> Callable[[World], None]:
    return _serve(redirects={"/one.bin": place, "/two.bin": place}, files={})


# ---------------------------------------------------------------------------------------------------- table

SHAPES: dict[str, Change] = {
    "content that is a number": with_content(lambda _: 7),
    "content in parts": with_content(lambda text: [{"type": "text", "text": text}]),
    "content that is an object": with_content(lambda _: {"a": {"b": 1}}),
    "no message": lambda reply: {**reply, "choices": [{"index": 0, "finish_reason": "stop"}]},
    "no choice": lambda reply: {**reply, "choices": []},
    "choices that are an object": lambda reply: {**reply, "choices": {"0": 1}},
    "two choices": lambda reply: {**reply, "choices": reply["choices"] * 2},
    "a choice that is nothing": lambda reply: {**reply, "choices": [None]},
    "counts in text": with_usage({"prompt_tokens": "5", "completion_tokens": "1"}),
    "counts in words": with_usage({"prompt_tokens": "five", "completion_tokens": "one"}),
    "a count of 1e30": with_usage({"prompt_tokens": 1e30, "completion_tokens": 1}),
    "counts below none": with_usage({"prompt_tokens": -5, "completion_tokens": -1}),
    "counts in a list": with_usage([5, 1]),
    "no counts": with_usage(None),
    "counts that are no number": with_text('"completion_tokens": 1', '"completion_tokens": NaN'),
    "a count without end": with_text(
        '"completion_tokens": 1', f'"completion_tokens": {"9" * 5000}'
    ),
    "a reason that is a number": lambda reply: {
        **reply,
        "choices": [{**reply["choices"][0], "finish_reason": 5}],
    },
    "an id in a list": lambda reply: {**reply, "id": [1], "created": "now", "object": None},
    "another model's name": lambda reply: {**reply, "model": "another"},
    "a model's name that is a number": lambda reply: {**reply, "model": 7},
    "a list": lambda reply: [reply],
    "a word": lambda _: b'"word"',
    "null": lambda _: b"null",
    "nothing": lambda _: b"",
    "a page of HTML": lambda _: b"<html><body>Sign in</body></html>",
    "half of it": lambda reply: json.dumps(reply).encode()[:40],
    "a mark before it": lambda reply: b"\xef\xbb\xbf" + json.dumps(reply).encode(),
    "UTF-16": lambda reply: json.dumps(reply).encode("utf-16"),
    "no UTF-8": lambda _: b'{"choices": [{"message": {"content": "\xff\xfe"}}]}',
    "10,000 lists deep": lambda _: b"[" * 10_000 + b"]" * 10_000,
    "10,000 objects deep within": with_text(
        '"finish_reason": "stop"',
        '"finish_reason": "stop", "logprobs": ' + '{"a":' * 10_000 + "1" + "}" * 10_000,
    ),
    "log probabilities that are words": lambda reply: {
        **reply,
        "choices": [{**reply["choices"][0], "logprobs": {"content": "none"}}],
    },
    "40 MB": with_content(lambda text: text * 20_000_000),
}
TRANSPORTS: dict[str, tuple[Misbehave, int]] = {
    "cut short once": (cut_short, 1),
    "cut short always": (cut_short, 0),
    "hung up once": (hang_up, 2),
    "hung up always": (hang_up, 0),
    "reset once": (reset, 2),
    "no HTTP": (no_http, 0),
    "a header of a megabyte": (huge_header, 0),
    "a body without end": (endless, 0),
    "a packed body of 2 GB": (packed, 0),
    "a circle of redirects": (circle, 0),
    "the key repeated": (repeats_headers, 0),
    "busy twice": (error(503), 2),
    "no such model": (error(404, "The model `m` does not exist."), 0),
    "too large": (error(413), 0),
    "a teapot": (error(418), 0),
    "no right": (error(403, "<script>alert(1)</script>\x1b[31m\x07"), 0),
    "busy for an hour": (error(429, "busy", Retry_After="3600"), 0),
    "busy for a time that is none": (error(429, "busy", Retry_After="soon"), 1),
    "busy for less than no time": (error(429, "busy", Retry_After="-5"), 1),
    "busy until long ago": (
        error(503, "busy", Retry_After="Mon, 01 Jan 1990 00:00:00 GMT"),
        1,
    ),
    "busy for ever": (error(429, "busy", Retry_After="9" * 400), 0),
}
SOURCES: dict[str, Callable[[World], None]] = {
    "other bytes": _serve(files={"/one.bin": bytes(512_000), "/two.bin": bytes(512_000)}),
    "a shorter file": _serve(files={"/one.bin": CONTENT[:-1], "/two.bin": CONTENT[1:]}),
    "a longer file": _serve(files={"/one.bin": CONTENT * 3, "/two.bin": CONTENT * 2}),
    "an empty file": _serve(files={"/one.bin": b"", "/two.bin": b""}),
    "nothing there": _serve(files={}),
    "failures that pass": _serve(failures=[503, 500]),
    "connections that break": _serve(cuts=[5_000, 100, 0, 7]),
    "no ranges, and a break": _serve(cuts=[300_000], ranges=False),
    "no validator, and a break": _serve(cuts=[300_000], validator=False),
    "a redirect to a file": _redirect_to("file:///etc/passwd"),
    "a redirect without end": _redirect_to("/one.bin"),
    "a redirect to what is no address": _redirect_to("http://[::"),
}


def _rows() -> Iterator[Trial]:
    for status in (301, 302, 303, 307, 308):
        yield Trial("redirect", f"{status} to another host", redirected(status), fast=status == 307)
    for name, change in SHAPES.items():
        yield Trial("reply of any shape", name, ask_of(changed(change)))
    for name, (misbehave, first) in TRANSPORTS.items():
        yield Trial("model server", name, ask_of(misbehave, first))
    for name, wait in (
        ("hangs", hang),
        ("hangs in the middle", hang_in_the_middle),
        ("drips", drip),
        ("asks for 90 s", error(429, "busy", Retry_After="90")),
    ):
        yield Trial("waiting", name, waited_for(wait))
    for name, prepare in SOURCES.items():
        yield Trial("source of data", name, fetch_from(prepare))


MISBEHAVING = list(_rows())
