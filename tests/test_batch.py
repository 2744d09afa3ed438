"""Batch files: what leaves is what a server would be asked, and what comes back is stored as if one had been."""

from __future__ import annotations

import inspect
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import nbformat
import pytest
from test_run import executed, with_demo, write_notebook

from helpers import batch, llm, requests
from helpers.llm import LLM
from helpers.requests import StoreError
from resources import engine_install, engines
from resources.services import LlmEndpoint
from resources.settings import ROOT, settings

SMALL_MODEL = "SmolLM2-135M-Instruct"
CARD = LlmEndpoint("", "some/model", "", "vllm", "", "", 0, 8)
PROMPTS = [[{"role": "user", "content": f"Is {i} an even number?"}] for i in range(4)]


@pytest.fixture
def collecting(tmp_path, monkeypatch):
    """A store and a folder of pending requests of the test's own, and ANSWERS=collect."""
    for module in (llm, requests):
        monkeypatch.setattr(module, "STORE", tmp_path / "store")
    monkeypatch.setattr(
        requests, "RELEASED", tmp_path / "released"
    )  # taking in all of the reference takes seconds
    monkeypatch.setattr(batch, "store", lambda: requests.store(tmp_path / "store"))
    monkeypatch.setattr(batch, "PENDING", tmp_path / "batch" / "pending.jsonl")
    monkeypatch.setenv("ANSWERS", "collect")
    settings.cache_clear()
    yield tmp_path
    monkeypatch.undo()
    settings.cache_clear()


def model(folder: Path) -> LLM:
    return LLM(CARD, folder=folder / "store")


def line(key: str, text: str = "YES", **response: Any) -> str:
    body = {
        "choices": [{"message": {"content": text}, "finish_reason": "stop", "logprobs": None}],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1},
        "created": 1_700_000_000,
    }
    return json.dumps(
        {"custom_id": key, "response": {"status_code": 200, "body": body} | response, "error": None}
    )


def test_what_a_batch_answered_is_not_asked_again(collecting):
    with pytest.raises(batch.PendingError, match="4 requests"):
        model(collecting).chat_many(PROMPTS, max_tokens=5)
    [(file, count)] = batch.export().items()
    assert (file.name, count) == ("model.jsonl", 4)
    lines = [json.loads(text) for text in file.read_text().splitlines()]
    assert [request["body"]["messages"] for request in lines] == PROMPTS
    assert {request["body"]["model"] for request in lines} == {"some/model"}
    first, *others = (request["custom_id"] for request in lines)
    out = collecting / "out.jsonl"
    out.write_text("\n".join([*(line(key) for key in others), line("f" * 24)]))
    assert batch.take_in(out) == {"stored": 3, "unknown": 1}
    assert list(batch.pending()) == [first]
    assert [reply.text for reply in model(collecting).chat_many(PROMPTS[1:], max_tokens=5)] == [
        "YES"
    ] * 3
    with pytest.raises(batch.PendingError, match="1 requests"):
        model(collecting).chat_many(PROMPTS, max_tokens=5)


def test_a_prompt_beyond_the_context_is_an_overflow_and_another_error_is_told(collecting):
    with pytest.raises(batch.PendingError):
        model(collecting).chat_many(PROMPTS[:2], max_tokens=5)
    first, second = batch.pending()
    too_long: dict[str, Any] = {
        "status_code": 400,
        "body": {"message": "This model's maximum context length is 512 tokens."},
    }
    broken: dict[str, Any] = {"status_code": 500, "body": {"message": "out of memory"}}
    out = collecting / "out.jsonl"
    out.write_text("\n".join([line(first, **too_long), line(second, **broken)]))
    counts = batch.take_in(out)
    assert counts["stored"] == 1
    assert any("out of memory" in problem for problem in counts)
    [reply] = model(collecting).chat_many(PROMPTS[:1], max_tokens=5, overflow="record")
    assert reply.status == "overflow"


def test_log_likelihoods_leave_in_a_file_of_their_own(collecting):
    with pytest.raises(batch.PendingError):
        model(collecting).loglikelihood_many([("a", "b")])
    assert [file.name for file in batch.export()] == ["model.loglikelihood.jsonl"]


@pytest.mark.parametrize("content", ["not JSON", '{"no": "id"}', ""])
def test_a_file_that_is_no_output_of_a_batch_is_named(tmp_path, content):
    file = tmp_path / "out.jsonl"
    if content:
        file.write_text(content)
    with pytest.raises(StoreError, match=r"out\.jsonl"):
        batch.take_in(file)


@pytest.mark.parametrize("end", [b"", b"\xa0"])
def test_pending_requests_that_cannot_be_read_are_named_with_what_to_do(collecting, end):
    with pytest.raises(batch.PendingError):
        model(collecting).chat_many(PROMPTS, max_tokens=5)
    batch.PENDING.write_bytes(
        batch.PENDING.read_bytes()[:-9] + end
    )  # as a kill in the middle of a line leaves it
    with pytest.raises(StoreError, match="medrerun batch export"):
        batch.pending()


def test_pending_requests_are_looked_up_together(collecting, monkeypatch):
    with pytest.raises(batch.PendingError):
        model(collecting).chat_many(PROMPTS, max_tokens=5)
    store = Mock(wraps=batch.store())
    monkeypatch.setattr(batch, "store", lambda: store)
    assert len(batch.pending()) == len(PROMPTS) > 1
    assert store.get.call_count == 1, "one look-up, however many wait"


def test_a_pending_request_whose_prompt_was_damaged_is_not_sent(collecting):
    with pytest.raises(batch.PendingError):
        model(collecting).chat_many(PROMPTS, max_tokens=5)
    content = batch.PENDING.read_text()
    batch.PENDING.write_text(content.replace("Is 2 an even", "Is 3 an even"))
    with pytest.raises(StoreError, match="medrerun batch export"):
        batch.export()


@pytest.mark.parametrize(
    "body", [{}, {"choices": [], "usage": {}}, {"choices": [{"message": {"content": 7}}]}]
)
def test_a_reply_of_another_shape_is_counted_and_the_rest_is_stored(collecting, body):
    with pytest.raises(batch.PendingError):
        model(collecting).chat_many(PROMPTS[:2], max_tokens=5)
    first, second = batch.pending()
    out = collecting / "out.jsonl"
    out.write_text("\n".join([line(first, body=body), line(second)]))
    counts = batch.take_in(out)
    assert counts.pop("stored") == 1
    assert [count for problem, count in counts.items() if problem.startswith("failed")] == [1]
    assert list(batch.pending()) == [first]


def steps(client: LLM) -> list[list[str]]:
    """Two steps, of which the second asks about the replies to the first."""
    first = [reply.text for reply in client.chat_many(PROMPTS, max_tokens=5)]
    again = [[{"role": "user", "content": f"Does this text say yes? {text}"}] for text in first]
    return [first, [reply.answer for reply in client.choose_many(again, ["YES", "NO"])]]


def medrerun(run_in, *arguments: str) -> subprocess.CompletedProcess[str]:
    return run_in(sys.executable, "-m", "medrerun", *arguments, PROFILE="smoke")


@pytest.mark.engine
@pytest.mark.slow
@pytest.mark.skipif(
    engine_install.choose_engine(SMALL_MODEL)[0] != "vllm", reason="llama.cpp has no batches"
)
def test_a_notebook_that_vllms_batches_answer_says_what_a_server_makes_it_say(
    project, run_in, small_llm
):
    with_demo(project)
    (project / "notebooks" / "02_demo_second.ipynb").unlink()
    shutil.copy(ROOT / "data" / "registry.yml", project / "data")
    code = inspect.getsource(steps).replace("asked: LLM", "asked")
    asks = f"from helpers import llm\nPROMPTS = {PROMPTS!r}\n{code}\nprint(steps(llm.connect({SMALL_MODEL!r})))"
    write_notebook(project, "01_demo_first", asks)
    served = engines.llm_launch(SMALL_MODEL, 1, "key", print)
    python, _, _, *flags = served.command
    flags = [flag for flag in flags if not flag.startswith(("--port", "--host"))]
    name = f"_build/batch/{SMALL_MODEL}.jsonl"
    for number in (1, 2):
        process = medrerun(run_in, "batch", "export")
        assert f"requests wait in {name}" in process.stdout, process.stderr
        files = ["-i", str(project / name), "-o", str(project / f"{number}.jsonl")]
        command = [python, "-m", "vllm.entrypoints.openai.run_batch", *files, *flags]
        subprocess.run(command, env={**os.environ, **served.environment}, check=True, timeout=400)
        assert " stored" in medrerun(run_in, "batch", "import", f"{number}.jsonl").stdout
    assert "requests wait" not in medrerun(run_in, "batch", "export").stdout
    cells = nbformat.read(executed(project, "01_demo_first"), 4).cells
    replies = [
        out.text for cell in cells for out in cell.get("outputs", ()) if out.get("name") == "stdout"
    ]
    assert [text.strip() for text in replies] == [str(steps(LLM(small_llm, folder=None)))]
