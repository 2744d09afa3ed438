"""Servers as they are: what they leave out, refuse, cut, redirect, drip or never send, over real connections."""

from __future__ import annotations

import dataclasses
import gzip
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from local_server import Answer, Exchange, LocalServer, always, chat_completion, local_server

from helpers import asking, batch, requests, server as server_module, waiting
from helpers.completions import CapabilityError, LlmError, Reply
from helpers.llm import LLM
from helpers.requests import Store
from helpers.server import MAX_BODY_BYTES, Patience
from resources import services
from resources.services import LlmEndpoint, ServiceError
from resources.settings import settings

SYSTEM = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Is it?"}]
QUICK = Patience(reply=20, repeat=0)


@pytest.fixture(autouse=True)
def _nothing_is_known_of_a_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ports are used again, so that one test's server could be taken for another's."""
    monkeypatch.setattr(asking, "_changes", {})


def client(server: LocalServer, folder: Path | None = None, **options: Any) -> LLM:
    model = options.pop("model", "m")
    endpoint = LlmEndpoint(server.url, model, "key", "openai", "", "", 0, 4)
    return LLM(endpoint, folder=folder, patience=options.pop("patience", QUICK), **options)


def reply_to(answer: Answer, folder: Path | None = None, **options: Any) -> Reply:
    with local_server(answer) as server:
        return client(server, folder, **options).chat_many([SYSTEM], max_tokens=5)[0]


@pytest.fixture
def external(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], LlmEndpoint]]:
    """The endpoint of the model `m` at a server that the settings name."""

    def endpoint(url: str) -> LlmEndpoint:
        monkeypatch.setenv("LLM_BASE_URL", url)
        settings.cache_clear()
        return services.llm_endpoint("m")

    yield endpoint
    monkeypatch.undo()
    settings.cache_clear()


def user(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


# ---------------------------------------------------------------------------------------------- what servers leave out


@pytest.mark.parametrize(
    "completion",
    [
        {
            "choices": [
                {
                    "index": 0,
                    "message": {"role": "assistant", "content": "YES"},
                    "finish_reason": "stop",
                }
            ]
        },
        chat_completion(usage=None),
        chat_completion(usage="none"),
        chat_completion(usage={}),
        chat_completion(usage={"prompt_tokens": "three", "completion_tokens": 1e30}),
        chat_completion(usage={"prompt_tokens": -3, "completion_tokens": math.nan}),
        chat_completion(usage={"prompt_tokens": True, "completion_tokens": [1]}),
    ],
)
def test_counts_of_tokens_that_are_none_are_unknown_and_the_reply_holds(tmp_path, completion):
    reply = reply_to(always(completion), tmp_path)
    assert (reply.text, reply.prompt_tokens, reply.generated_tokens) == ("YES", None, None)
    again = LLM(
        LlmEndpoint("http://127.0.0.1:9/v1", "m", "", "openai", "", "", 0, 1), folder=tmp_path
    )
    second_reply = again.chat_many([SYSTEM], max_tokens=5)[0]
    assert (second_reply.text, second_reply.prompt_tokens, second_reply.cached) == (
        "YES",
        None,
        True,
    )
    assert (again.usage.prompt_tokens, again.usage.uncounted) == (0, 1)
    assert "without counts of tokens: 1" in again.engine_and_version[1]


def test_counts_in_text_are_counts():
    usage = {"prompt_tokens": "12", "completion_tokens": 4.0}
    reply = reply_to(always(chat_completion(usage=usage)))
    assert (reply.prompt_tokens, reply.generated_tokens) == (12, 4)


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "YES"}], "YES"),
        ([{"type": "text", "text": "Y"}, {"type": "text", "text": "ES"}], "YES"),
        (["YES"], "YES"),
        ([{"type": "output_text", "text": "YES"}, {"type": "image", "url": "x"}], "YES"),
        ([], ""),
        (None, ""),
    ],
)
def test_content_may_come_in_parts_or_not_at_all(content, text):
    assert reply_to(always(chat_completion(content))).text == text


def test_a_choice_with_text_in_place_of_a_message_is_read():
    choice = {"text": "YES", "finish_reason": "stop"}
    assert reply_to(always(chat_completion(choices=[choice]))).text == "YES"


@pytest.mark.parametrize("reason", [None, "stop", 5, "eos"])
def test_a_reply_without_a_known_reason_of_its_end_is_complete(reason):
    choice = {"message": {"content": "YES"}, "finish_reason": reason}
    reply = reply_to(always(chat_completion(choices=[choice])))
    assert (reply.text, reply.status) == ("YES", "complete")


def token(text: str, **extra: Any) -> dict[str, Any]:
    return {"token": text, "logprob": -0.1, **extra}


@pytest.mark.parametrize(
    ("logprobs", "first"),
    [
        ({"content": [token("YES", top_logprobs=None)]}, {"YES": -0.1}),
        ({"content": [token("YES")]}, {"YES": -0.1}),
        ({"content": [token("YES", top_logprobs=[])]}, {"YES": -0.1}),
        (
            {
                "content": [
                    token("YES", top_logprobs=[token("YES"), {"token": "NO", "logprob": None}])
                ]
            },
            {"YES": -0.1, "NO": -math.inf},
        ),
        ({"content": None}, {}),
        (None, {}),
        ("none", {}),
        ([], {}),
    ],
)
def test_log_probabilities_are_those_that_are_given(tmp_path, logprobs, first):
    choice = {"message": {"content": "YES"}, "finish_reason": "stop", "logprobs": logprobs}
    with local_server(always(chat_completion(choices=[choice]))) as server:
        model = client(server, tmp_path)
        reply = model.chat_many([SYSTEM], max_tokens=5, logprobs=True)[0]
        assert reply.first_token == first
        assert model.chat_many([SYSTEM], max_tokens=5, logprobs=True)[0].first_token == first


# ------------------------------------------------------------------------------------------------------- any shape


@pytest.mark.parametrize(
    "body",
    [
        chat_completion(7),
        chat_completion({"text": "YES"}),
        chat_completion([["YES"]]),
        chat_completion(True),
        chat_completion(choices=[]),
        chat_completion(choices={"0": "YES"}),
        chat_completion(choices=[None]),
        chat_completion(choices=[{"finish_reason": "stop"}]),
        {},
        [],
        "null",
        "<html>It works!</html>",
        "",
        '{"choices": [{"message": {"content": "\\ud800"}}]}',
        b"\xff\xfe\x00",
        "[" * 10_000 + "]" * 10_000,
        '{"choices": [{"message": {"content": ' + "[" * 10_000 + "]" * 10_000 + "}}]}",
    ],
)
def test_what_is_no_completion_is_one_line_and_stores_nothing(tmp_path, body):
    with local_server(always(body)) as server:
        with pytest.raises(LlmError, match="gave no completion") as caught:
            client(server, tmp_path).chat_many([SYSTEM], max_tokens=5)
        assert len(server.requests) == 1, "the same would come again"
    assert "\n" not in str(caught.value)
    assert Store(tmp_path).rows() == []


def _endless(exchange: Exchange) -> None:
    exchange.handler.send_response(200)
    exchange.handler.end_headers()
    while True:
        exchange.handler.wfile.write(b'{"choices": "' + b"x" * 2**20)


def _packed(exchange: Exchange) -> None:
    exchange.send(PACKED, Content_Encoding="gzip")


def _packed_chunks(exchange: Exchange) -> None:
    exchange.handler.send_response(200)
    exchange.handler.send_header("Content-Encoding", "deflate")
    exchange.handler.send_header("Transfer-Encoding", "chunked")
    exchange.handler.end_headers()
    exchange.handler.wfile.write(f"{len(PACKED):x}\r\n".encode() + PACKED + b"\r\n0\r\n\r\n")


def _long(exchange: Exchange) -> None:
    exchange.send(chat_completion("x" * (MAX_BODY_BYTES + 1)))


PACKED = gzip.compress(b" " * 2**28)


@pytest.mark.parametrize("answer", [_endless, _packed, _packed_chunks, _long])
def test_no_body_is_read_beyond_a_limit_however_it_is_packed(answer):
    with pytest.raises(LlmError, match="sent more than 16 MiB"):
        reply_to(answer)


def test_a_packed_reply_within_the_limit_is_read():
    packed = gzip.compress(json.dumps(chat_completion()).encode())
    assert reply_to(always(packed, Content_Encoding="gzip")).text == "YES"


@pytest.mark.parametrize("encoding", ["br", "zstd", "x-unknown"])
def test_a_packing_that_was_not_asked_for_is_named(encoding):
    with pytest.raises(LlmError, match=encoding):
        reply_to(always(b"\x00", Content_Encoding=encoding))


# -------------------------------------------------------------------------------------------------------- redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize(
    "place",
    ["http://127.0.0.2:{port}/v1/x", "https://127.0.0.1:{port}/v1/x", "//127.0.0.1:1/v1", ""],
)
def test_no_prompt_follows_a_redirect_to_another_host_or_scheme(tmp_path, status, place):
    def answer(exchange: Exchange) -> None:
        exchange.send("", status, Location=place.format(port=port))

    with local_server(always(chat_completion("from elsewhere"))) as elsewhere:
        port = int(elsewhere.url.rsplit(":", 1)[1].removesuffix("/v1"))
        with local_server(answer) as server:
            with pytest.raises(LlmError, match=r"redirects .*Set LLM_BASE_URL"):
                client(server, tmp_path).chat_many([SYSTEM], max_tokens=5)
            assert len(server.requests) <= server_module.MAX_REDIRECTS + 1
        assert elsewhere.requests == []
    assert Store(tmp_path).rows() == []


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_within_the_host_is_followed(status):
    def answer(exchange: Exchange) -> None:
        if exchange.path.startswith("/v1/"):
            exchange.send("", status, Location="/api" + exchange.path)
        else:
            exchange.send(chat_completion())

    with local_server(answer) as server:
        assert client(server).chat_many([SYSTEM], max_tokens=5)[0].text == "YES"
        assert server.requests[0] == server.requests[1]


def test_a_circle_of_redirects_ends_soon():
    with local_server(lambda exchange: exchange.send("", 307, Location=exchange.path)) as server:
        with pytest.raises(LlmError, match="in a circle"):
            client(server).chat_many([SYSTEM], max_tokens=5)
        assert len(server.requests) == server_module.MAX_REDIRECTS + 1


@pytest.mark.parametrize("other_model", ["another", "m-2024-08-06", "M"])
def test_a_reply_by_another_model_than_asked_is_stored_with_its_name_and_says_so(
    tmp_path, other_model
):
    with local_server(always(chat_completion(model=other_model))) as server:
        model = client(server, tmp_path)
        with pytest.warns(UserWarning, match=f"names the model {other_model}"):
            reply = model.chat_many([SYSTEM], max_tokens=5)[0]
        assert reply.answered_by == other_model
        later = client(server, tmp_path)
        assert later.chat_many([SYSTEM], max_tokens=5)[0].answered_by == other_model
        assert f"the server names the model {other_model}: 1 reply" in later.engine_and_version[1]


# ---------------------------------------------------------------------------------------------------------- waiting


def _hangs(exchange: Exchange) -> None:
    time.sleep(30)


def _hangs_in_the_middle(exchange: Exchange) -> None:
    exchange.handler.send_response(200)
    exchange.handler.send_header("Content-Length", "1000")
    exchange.handler.end_headers()
    exchange.handler.wfile.write(b'{"choices"')
    exchange.handler.wfile.flush()
    time.sleep(30)


def _drips(exchange: Exchange) -> None:
    exchange.handler.send_response(200)
    exchange.handler.send_header("Content-Length", "1000")
    exchange.handler.end_headers()
    for _ in range(300):
        exchange.handler.wfile.write(b" ")
        exchange.handler.wfile.flush()
        time.sleep(0.1)


def _drips_headers(exchange: Exchange) -> None:
    exchange.handler.wfile.write(b"HTTP/1.1 200 OK\r\n")
    for _ in range(300):
        exchange.handler.wfile.write(b"X-A: b\r\n")
        exchange.handler.wfile.flush()
        time.sleep(0.1)


@pytest.mark.parametrize("answer", [_hangs, _hangs_in_the_middle, _drips, _drips_headers])
def test_there_is_a_limit_for_a_whole_reply_and_what_ran_into_it_is_not_repeated(
    answer, monkeypatch
):
    monkeypatch.setattr(waiting, "GRACE_SECONDS", 0.5)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.2)
    with local_server(answer) as server:
        start = time.monotonic()
        with pytest.raises(LlmError, match=r"within 1 s"):
            client(server, patience=Patience(reply=1, repeat=60)).chat_many([SYSTEM], max_tokens=5)
        assert time.monotonic() - start < 20, "the server would go on for 30 s"
        assert len(server.requests) == 1


def test_the_progress_line_says_what_is_waited_for_and_until_when(capfd, monkeypatch):
    monkeypatch.setattr(waiting, "SILENT_SECONDS", 0.5)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.2)

    def answer(exchange: Exchange) -> None:
        time.sleep(2)
        exchange.send(chat_completion())

    with local_server(answer) as server:
        client(server).chat_many([SYSTEM], max_tokens=5)
    assert waiting.SILENT_SECONDS < 10
    output = capfd.readouterr().err
    assert f"waiting for a reply of m at {server.url}" in output
    assert "at most until " in output
    assert output.count("waiting for a reply") == 1, "a log has such a line each ten seconds"


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("header", [lambda: "1", lambda: _in_seconds(2)])
def test_a_server_is_waited_for_as_it_asks(status, header, capfd, monkeypatch):
    monkeypatch.setattr(waiting, "SILENT_SECONDS", 0.2)
    monkeypatch.setattr(waiting, "LOOK_SECONDS", 0.1)
    times: list[float] = []

    def answer(exchange: Exchange) -> None:
        times.append(time.monotonic())
        if len(times) == 1:
            exchange.send({"error": {"message": "busy"}}, status, Retry_After=header())
        else:
            exchange.send(chat_completion())

    with local_server(answer) as server:
        assert client(server).chat_many([SYSTEM], max_tokens=5)[0].text == "YES"
    assert 0.9 < times[1] - times[0] < 15
    assert "to recover" in capfd.readouterr().err


def _in_seconds(seconds: float) -> str:
    return time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime(time.time() + seconds))


def test_a_server_that_asks_to_be_left_alone_for_long_is_left_alone():
    busy = always({"error": {"message": "busy"}}, 429, Retry_After="4000")
    with local_server(busy) as server:
        with pytest.raises(LlmError, match="asked again in 4000 s"):
            client(server, patience=Patience()).chat_many([SYSTEM], max_tokens=5)
        assert len(server.requests) == 1


@pytest.mark.parametrize("length", ["100000", "5"])
def test_a_reply_of_a_wrong_length_is_asked_for_a_few_times_only(length):
    def answer(exchange: Exchange) -> None:
        exchange.handler.close_connection = True
        exchange.send(chat_completion(), Content_Length=length)

    with local_server(answer) as server:
        with pytest.raises(LlmError, match=r"does not answer|gave no completion"):
            client(server, patience=Patience(reply=20, repeat=60)).chat_many([SYSTEM], max_tokens=5)
        assert len(server.requests) <= server_module.BROKEN_REPLIES


@pytest.mark.parametrize(
    ("status", "error", "message"),
    [
        (429, {"code": "insufficient_quota", "message": "You exceeded your quota."}, "quota"),
        (401, {"message": "no such key"}, "Set LLM_API_KEY"),
        (403, {"message": "Country not supported"}, "LLM_API_KEY"),
        (404, {"message": "The model `m` does not exist."}, "does not exist"),
        (402, {"message": "Payment required"}, "Payment required"),
    ],
)
def test_what_cannot_succeed_is_not_repeated(status, error, message):
    with local_server(always({"error": error}, status)) as server:
        with pytest.raises(LlmError, match=message):
            client(server, patience=Patience()).chat_many([SYSTEM], max_tokens=5)
        assert len(server.requests) == 1


def test_a_failure_that_passes_is_survived():
    def answer(exchange: Exchange) -> None:
        if len(server.requests) < 3:
            exchange.send({"error": {"message": "starting"}}, 503)
        else:
            exchange.send(chat_completion())

    with local_server(answer) as server:
        model = client(server, patience=Patience(reply=20, repeat=20))
        assert model.chat_many([SYSTEM], max_tokens=5)[0].text == "YES"


def test_a_name_that_no_host_has_is_not_looked_up_for_long():
    server = LocalServer("http://no-such-host.invalid:8000/v1")
    start = time.monotonic()
    with pytest.raises(LlmError, match="does not answer"):
        client(server, patience=Patience()).chat_many([SYSTEM], max_tokens=5)
    assert time.monotonic() - start < 180


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "socks://127.0.0.1:9", "nonsense://x"])
def test_a_proxy_that_cannot_be_used_is_one_line_and_loopback_needs_none(monkeypatch, proxy):
    for name in ("ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    assert reply_to(always(chat_completion())).text == "YES"
    with pytest.raises(LlmError, match=r"proxy .*(ALL_PROXY|does not answer)"):
        client(LocalServer("http://llm.example:8000/v1")).chat_many([SYSTEM], max_tokens=5)


# --------------------------------------------------------------------------------------------------------- thoughts


@pytest.mark.parametrize(
    ("message", "text", "thought"),
    [
        ({"content": "<think>\nNo evidence yet.\n</think>\n\nYES"}, "YES", "No evidence yet."),
        ({"content": "weigh NO</think>YES"}, "YES", "weigh NO"),
        ({"content": "YES", "reasoning_content": "maybe NO"}, "YES", "maybe NO"),
        ({"content": "YES", "reasoning": "maybe NO"}, "YES", "maybe NO"),
        (
            {
                "content": [
                    {"type": "thinking", "thinking": [{"type": "text", "text": "NO?"}]},
                    {"type": "text", "text": "YES"},
                ]
            },
            "YES",
            "NO?",
        ),
        (
            {
                "content": "<|channel|>analysis<|message|>NO?<|end|><|start|>assistant"
                "<|channel|>final<|message|>YES<|return|>"
            },
            "YES",
            "NO?",
        ),
    ],
)
def test_a_thought_is_stored_apart_and_counted_and_its_tokens_rank_nothing(
    tmp_path, message, text, thought
):
    choice = {
        "message": message,
        "finish_reason": "stop",
        "logprobs": {"content": [token("<think>", top_logprobs=[token("<think>")])]},
    }
    usage = {
        "prompt_tokens": 3,
        "completion_tokens": 9,
        "completion_tokens_details": {"reasoning_tokens": 8},
    }
    with local_server(always(chat_completion(choices=[choice], usage=usage))) as server:
        model = client(server, tmp_path)
        for _ in range(2):
            reply = model.chat_many([SYSTEM], max_tokens=5, logprobs=True)[0]
            assert (reply.text, reply.thought, reply.first_token) == (text, thought, {})
            assert (reply.generated_tokens, reply.thought_tokens) == (9, 8)
        assert "with a thought, which no parser reads: 1 replies" in model.engine_and_version[1]


@pytest.mark.parametrize(
    "message",
    [
        {"content": "<think>\nLet me weigh the ev"},
        {"content": None, "reasoning_content": "Let me think about met"},
        {"content": "", "reasoning": "Let me think about met"},
        {"content": "[THINK]Let me think"},
        {"content": "<|channel|>analysis<|message|>Let me"},
    ],
)
def test_a_thought_that_the_token_limit_ended_says_so_and_what_to_do(message):
    choice = {"message": message, "finish_reason": "length"}
    with pytest.warns(
        UserWarning, match=r"the token limit ended a thought.*LLM_THINKING=off.*LLM_THINKING_TOKENS"
    ):
        reply = reply_to(always(chat_completion(choices=[choice])))
    assert (reply.text, reply.status, reply.is_cut_in_thought) == ("", "cut", True)


def test_a_thought_in_a_reply_stored_by_an_older_version_is_separated(tmp_path):
    with local_server(always(chat_completion())) as server:
        model = client(server, tmp_path)
        key = model.chat_many([SYSTEM], max_tokens=5)[0].key
        store = Store(tmp_path)
        row = store.get([key])[key]
        old = {"text": "<think>NO</think>YES", "status": "complete", "first_token": {"<": -0.1}}
        store.add([dataclasses.replace(row, reply=requests.plain(old))])
        reply = client(server, tmp_path).chat_many([SYSTEM], max_tokens=5)[0]
    assert (reply.text, reply.thought, reply.first_token) == ("YES", "NO", {})


@pytest.mark.parametrize(("setting", "is_on"), [("on", True), ("off", False)])
def test_the_settings_switch_thoughts_and_give_them_room(monkeypatch, setting, is_on):
    monkeypatch.setenv("LLM_THINKING", setting)
    monkeypatch.setenv("LLM_THINKING_TOKENS", "200")
    settings.cache_clear()
    try:
        with local_server(always(chat_completion())) as server:
            client(server).chat_many([SYSTEM], max_tokens=5)
            client(server).chat_many(["plain"], max_tokens=5)
    finally:
        monkeypatch.undo()
        settings.cache_clear()
    chat, plain = server.requests
    assert chat["chat_template_kwargs"]["enable_thinking"] is is_on
    assert chat["max_tokens"] == 205
    assert "thinking" not in chat
    assert "chat_template_kwargs" not in plain
    assert plain["max_tokens"] == 5


def test_by_default_no_server_is_told_about_thoughts():
    with local_server(always(chat_completion())) as server:
        client(server).chat_many([SYSTEM], max_tokens=5)
    assert "chat_template_kwargs" not in server.requests[0]


def test_a_choice_after_a_thought_is_ranked_by_its_own_tokens():
    steps = [token("<think>"), token("NO"), token("</think>"), token("\n\n")]
    steps += [
        token('{"answer": "'),
        token("YES", top_logprobs=[token("YES"), {"token": "NO", "logprob": -3.0}]),
    ]
    steps += [token('"}')]
    text = "".join(step["token"] for step in steps)
    choice = {"message": {"content": text}, "finish_reason": "stop", "logprobs": {"content": steps}}
    with local_server(always(chat_completion(choices=[choice]))) as server:
        ranked_choice = client(server).choose_many([SYSTEM], ["YES", "NO"])[0]
    assert (ranked_choice.answer, ranked_choice.thought) == ("YES", "NO")
    assert math.isclose(
        ranked_choice.logprobs["YES"] - ranked_choice.logprobs["NO"], 2.9, abs_tol=1e-5
    )


# ---------------------------------------------------------------------------------------------------------- refusals


def refuses(is_refused: Callable[[dict[str, Any]], bool], status: int, error: object) -> Answer:
    """A server that refuses some requests and answers the others."""

    def answer(exchange: Exchange) -> None:
        if is_refused(exchange.body):
            exchange.send(error, status)
        else:
            exchange.send(chat_completion())

    return answer


def has(name: str) -> Callable[[dict[str, Any]], bool]:
    return lambda body: name in body


def has_system(body: dict[str, Any]) -> bool:
    return any(message["role"] == "system" for message in body["messages"])


def message(text: str, **extra: Any) -> dict[str, Any]:
    return {"error": {"message": text, **extra}}


REFUSED = [
    (
        has("logprobs"),
        400,
        message("logprobs is not supported with this model"),
        "without logprobs",
    ),
    (
        has("logprobs"),
        403,
        message("You are not allowed to request logprobs from this model"),
        "without logprobs",
    ),
    (
        has("logprobs"),
        422,
        {"detail": [{"loc": ["body", "logprobs"], "msg": "Extra inputs"}]},
        "without logprobs",
    ),
    (has("logprobs"), 501, message("logprobs: not implemented"), "without logprobs"),
    (has("seed"), 400, message("Unsupported parameter", param="seed"), "without seed"),
    (
        has("seed"),
        422,
        {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs"}]},
        "without seed",
    ),
    (
        has("seed"),
        400,
        {"message": "property 'seed' is unsupported", "type": "invalid"},
        "without seed",
    ),
    (
        has("temperature"),
        400,
        message("Unsupported value", param="temperature"),
        "without temperature",
    ),
    (
        has("response_format"),
        400,
        message("response_format is unavailable"),
        "without response_format",
    ),
    (has("response_format"), 400, message("Invalid value", param="response_format.type"), None),
    (
        lambda b: b.get("top_logprobs", 0) > 5,
        400,
        message("top_logprobs must be <= 5", param="top_logprobs"),
        "top_logprobs of at most 5",
    ),
    (
        lambda b: b.get("top_logprobs", 0) > 5,
        400,
        message("Invalid top_logprobs"),
        "top_logprobs of at most 5",
    ),
    (
        lambda b: b.get("top_logprobs", 0) > 8,
        422,
        message("top_logprobs: between 0 and 8"),
        "top_logprobs of at most 8",
    ),
    (
        has("max_tokens"),
        400,
        message(
            "Unsupported parameter: use max_completion_tokens instead of max_tokens",
            param="max_tokens",
        ),
        "max_completion_tokens in place of max_tokens",
    ),
    (
        has("max_tokens"),
        400,
        message("Use 'max_completion_tokens' instead."),
        "max_completion_tokens in place of max_tokens",
    ),
    (
        has("max_tokens"),
        422,
        {"detail": [{"loc": ["body", "max_tokens"], "msg": "Extra inputs"}]},
        "max_completion_tokens in place of max_tokens",
    ),
    (has_system, 400, message("System role not supported"), "system text before the user's"),
    (
        has_system,
        500,
        message("Jinja Exception: System role not supported"),
        "system text before the user's",
    ),
    (
        has_system,
        400,
        message("Conversation roles must alternate user/assistant/user/assistant/..."),
        "system text before the user's",
    ),
    (
        has_system,
        422,
        message("system message is not allowed here"),
        "system text before the user's",
    ),
]


@pytest.mark.parametrize(("is_refused", "status", "error", "change"), REFUSED)
def test_what_a_server_refuses_is_left_out_remembered_and_told(
    tmp_path, is_refused, status, error, change
):
    extra = {"response_format": {"type": "json_object"}}
    with local_server(refuses(is_refused, status, error)) as server:
        model = client(server, tmp_path)
        options: dict[str, Any] = {"max_tokens": 5, "logprobs": True, "extra": extra}
        with pytest.warns(UserWarning, match="refuses part"):
            reply = model.chat_many([SYSTEM], **options)[0]
        assert reply.text == "YES"
        assert len(server.requests) == 2
        another = client(server).chat_many([[*SYSTEM, *user("more")]], **options)[0]
        assert another.text == "YES"
        assert len(server.requests) == 3, "what it refuses is known"
        if change:
            assert reply.changes == another.changes == (change,)
            later = client(server, tmp_path)
            later.chat_many([SYSTEM], **options)
            assert f"{change} (refused by the server): 1 request" in later.engine_and_version[1]


def test_the_system_text_goes_before_the_users():
    answer = refuses(has_system, 400, message("System role not supported"))
    with local_server(answer) as server:
        reply = client(server).chat_many([SYSTEM], max_tokens=5)[0]
    assert server.requests[-1]["messages"] == user("Be brief.\n\nIs it?")
    assert reply.text == "YES"


def test_a_server_that_refuses_everything_optional_answers():
    optional = (
        "logprobs",
        "top_logprobs",
        "seed",
        "temperature",
        "top_p",
        "stop",
        "max_tokens",
        "response_format",
    )

    def answer(exchange: Exchange) -> None:
        for name in optional:
            if name in exchange.body:
                return exchange.send(message(f"{name} is not supported", param=name), 400)
        if has_system(exchange.body):
            return exchange.send(message("System role not supported"), 400)
        return exchange.send(chat_completion("YES\nand more"))

    with local_server(answer) as server:
        options: dict[str, Any] = {
            "extra": {"response_format": {"type": "json_object"}},
            "stop": ["\n"],
        }
        reply = client(server).chat_many([SYSTEM], max_tokens=5, logprobs=True, **options)[0]
        assert reply.text == "YES", "what no stop string ended is cut there"
        assert len(reply.changes) == 8
        assert set(server.requests[-1]) == {"model", "messages", "max_completion_tokens"}


def test_what_a_step_cannot_do_without_is_a_lack_of_the_server():
    error = message("response_format is not supported", param="response_format")
    with local_server(refuses(has("response_format"), 400, error)) as server:
        with pytest.raises(
            CapabilityError, match=r"refused the parameter 'response_format', which is needed"
        ):
            client(server).choose_many([SYSTEM], ["YES", "NO"])
        assert len(server.requests) == 1


def test_a_choice_without_log_probabilities_is_an_answer_without_a_probability(tmp_path):
    refusing = refuses(has("logprobs"), 403, message("You may not request logprobs"))
    with local_server(refusing) as server:
        model = client(server, tmp_path)
        (choice,) = model.choose_many([SYSTEM], ["YES", "NO"])
        assert (choice.answer, choice.logprobs, choice.p_yes) == ("YES", {}, None)
        (second_choice,) = model.choose_many([SYSTEM], ["YES", "NO"])
    assert (second_choice.answer, second_choice.p_yes, second_choice.cached) == ("YES", None, True)


@pytest.mark.parametrize(
    "error",
    [
        message(
            "Please reduce the length of the messages or completion.",
            param="messages",
            code="context_length_exceeded",
        ),
        message("This model's maximum context length is 100 tokens."),
        message("the request exceeds the available context size", type="exceed_context_size_error"),
        message("Prompt is too long: 9000 tokens > 8192 maximum"),
        {"message": "max_tokens=5 cannot be greater than max_model_len", "object": "error"},
    ],
)
@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_an_overflow_is_known_by_code_or_words(error, status):
    with local_server(always(error, status)) as server:
        reply = client(server).chat_many([SYSTEM], max_tokens=5, overflow="record")[0]
        assert (reply.status, len(server.requests)) == ("overflow", 1)


@pytest.mark.parametrize(
    ("n_words", "n_read"), [(30_000, 2048), (3_000, 512), (400, 300), (5_000, 3_999)]
)
def test_a_prompt_that_the_server_cut_is_an_error_that_names_its_setting(tmp_path, n_words, n_read):
    usage = {"prompt_tokens": n_read, "completion_tokens": 1}
    with (
        local_server(always(chat_completion(usage=usage))) as server,
        pytest.raises(LlmError, match=r"cut a prompt: it read .* Raise the context there: OLLAMA"),
    ):
        client(server, tmp_path).chat_many([user("word " * n_words)], max_tokens=5)
    assert Store(tmp_path).rows() == []


def test_a_prompt_is_counted_by_the_models_own_tokenizer_where_it_is_there(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    own = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    own.pre_tokenizer = tokenizers.pre_tokenizers.Split("", "isolated")  # one for each character
    (tmp_path / "model").mkdir()
    own.save(str(tmp_path / "model" / "tokenizer.json"))
    usage = {"prompt_tokens": 300, "completion_tokens": 1}
    name = str(tmp_path / "model")
    with (
        local_server(always(chat_completion(usage=usage, model=name))) as server,
        pytest.raises(LlmError, match="it read 300 of at least 3,000 tokens"),
    ):
        client(server, model=name).chat_many([user("x" * 3000)], max_tokens=5)


def test_a_prompt_that_was_read_is_no_cut():
    usage = {"prompt_tokens": 1200, "completion_tokens": 1}
    with local_server(always(chat_completion(usage=usage))) as server:
        replies = client(server).chat_many([user("word " * 1000)], max_tokens=5)
    assert replies[0].text == "YES"


# ------------------------------------------------------------------------------------------------ models and batches


@pytest.mark.parametrize(
    "listed",
    [
        {"object": "list", "data": None},
        {"object": "list", "data": []},
        {"object": "list", "data": [{"object": "model"}, None]},
        {"data": [{"id": None}]},
    ],
)
def test_a_server_without_models_says_so_in_one_line(listed, external):
    with (
        local_server(always(listed)) as server,
        pytest.raises(ServiceError, match="has no model") as caught,
    ):
        external(server.url)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "listed",
    [
        {"data": ["m", "n"]},
        ["m"],
        [{"id": "m"}],
        {"data": [{"object": "model"}, {"id": "m"}]},
        {"models": [{"name": "m"}]},
    ],
)
def test_models_may_be_listed_as_names_or_cards(listed, external):
    with local_server(always(listed)) as server:
        assert external(server.url).model == "m"


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x1e"])
@pytest.mark.parametrize(("mark", "end"), [("", "\n"), ("\ufeff", "\r\n")])
def test_a_reply_in_a_batch_may_hold_any_separator_of_lines(
    tmp_path, monkeypatch, separator, mark, end
):
    store = Store(tmp_path / "store")
    monkeypatch.setattr(batch, "store", lambda: store)
    monkeypatch.setattr(batch, "PENDING", tmp_path / "pending.jsonl")
    prompts = {}
    for text in ("a", "b", "c"):
        prompts[requests.request_key("chat", "w", {}, user(text))] = user(text)
    with pytest.raises(batch.PendingError):
        batch.pend("chat", "w", "m", {}, prompts)
    lines = []
    for key in prompts:
        body = chat_completion(f"one{separator}two" if separator >= "\x80" else "one two")
        line = {"custom_id": key, "response": {"status_code": 200, "body": body}, "error": None}
        lines.append(json.dumps(line, ensure_ascii=False))
    (tmp_path / "out.jsonl").write_bytes((mark + end.join(lines) + end).encode())
    assert batch.take_in(tmp_path / "out.jsonl") == {"stored": 3}


# ------------------------------------------------------------------------------------------------------ one connection


def test_a_text_that_is_no_unicode_is_sent_escaped_not_raised():
    with local_server(always(chat_completion())) as server:
        assert client(server).chat_many([user("half \ud800 pair")], max_tokens=5)[0].text == "YES"


def test_no_warning_and_no_note_where_all_is_as_asked(tmp_path):
    with local_server(always(chat_completion())) as server, warnings.catch_warnings():
        warnings.simplefilter("error")
        model = client(server, tmp_path)
        model.chat_many([SYSTEM], max_tokens=5)
    assert model.engine_and_version == ("openai", "")
