"""Speed of the four arms' prompts, side by side.

This project, lm-evaluation-harness and bare HTTP ask the same server; the naive loop asks one
with default settings.
"""

from __future__ import annotations

import asyncio
import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import httpx
import pytest

from helpers.completions import count_tokens
from helpers.llm import LLM
from papers.side_effects import corpus, forward as se
from resources import datasets, engine_install, services, settings
from resources.services import LlmEndpoint

REQUESTS = 64
TOKENS = 8
HARNESS_PYTHON = os.environ.get("INTEROP", "")
"""The Python that has lm-evaluation-harness."""
HARNESS_WORKER = Path(__file__).with_name("harness_worker.py")
pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Rate:
    """What one way of asking reached."""

    requests_per_second: float
    tokens_per_second: float


@pytest.fixture(scope="module")
def endpoint() -> LlmEndpoint:
    return services.llm_endpoint(settings.profile_model(settings.settings().profile))


@pytest.fixture(scope="module")
def prompt_sets() -> list[list[list[dict[str, str]]]]:
    """Disjoint sets of prompts, a quarter of each arm: a prompt asked twice would be half cached in the engine."""
    file = datasets.locate("side_effects/evaluation_dataset.csv")
    questions = corpus.stratified(corpus.read_questions(file.path), 8 * REQUESTS, seed=7)

    def prompt(i: int, q: corpus.Question) -> list[dict[str, str]]:
        entities = se.Entities(q.drug, q.side_effect)
        text, graph = (
            se.text_evidence(entities, found=q.label),
            se.graph_evidence(entities, found=q.label),
        )
        return [
            se.closed_book_prompt(q),
            se.evidence_prompt(q, text),
            se.evidence_prompt(q, text + "."),
            se.evidence_prompt(q, graph),
        ][i % 4]

    prompts = [prompt(i, q) for i, q in enumerate(questions)]
    size = len(prompts) // 8
    return [prompts[k * size : (k + 1) * size] for k in range(8)]


def ours(endpoint: LlmEndpoint, prompts: list[list[dict[str, str]]]) -> Rate:
    model = LLM(endpoint, folder=None)
    start = time.perf_counter()
    replies = model.chat_many(prompts, max_tokens=TOKENS, logprobs=True)
    seconds = time.perf_counter() - start
    return Rate(len(prompts) / seconds, (count_tokens(replies) or 0) / seconds)


def bare(endpoint: LlmEndpoint, prompts: list[list[dict[str, str]]], concurrency: int) -> Rate:
    """The engine with nothing before it but a socket."""
    bodies = [
        json.dumps(
            {
                "model": endpoint.model,
                "messages": p,
                "max_tokens": TOKENS,
                "temperature": 0,
                "seed": 0,
                "logprobs": True,
                "top_logprobs": 20,
            }
        )
        for p in prompts
    ]

    async def run() -> int:
        limit = asyncio.Semaphore(concurrency)
        headers = {
            "Authorization": f"Bearer {endpoint.api_key}",
            "Content-Type": "application/json",
        }
        async with httpx.AsyncClient(timeout=600, headers=headers) as http:

            async def ask(body: str) -> int:
                async with limit:
                    answer = await http.post(f"{endpoint.base_url}/chat/completions", content=body)
                return int(answer.raise_for_status().json()["usage"]["total_tokens"])

            return sum(await asyncio.gather(*map(ask, bodies)))

    start = time.perf_counter()
    tokens = asyncio.run(run())
    seconds = time.perf_counter() - start
    return Rate(len(prompts) / seconds, tokens / seconds)


def by_the_harness(endpoint: LlmEndpoint, prompts: list[list[dict[str, str]]]) -> Rate:
    """lm-evaluation-harness with as many requests at once as this project; it counts no tokens."""
    arguments = [endpoint.base_url, endpoint.model, str(endpoint.concurrency), str(TOKENS)]
    process = subprocess.run(
        [HARNESS_PYTHON or sys.executable, str(HARNESS_WORKER), *arguments],
        input=json.dumps(prompts),
        env=os.environ | {"OPENAI_API_KEY": endpoint.api_key},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    report = json.loads(process.stdout.splitlines()[-1])
    assert len(report["replies"]) == len(prompts)
    return Rate(len(prompts) / report["seconds"], float("nan"))


def evidence_first(prompt: list[dict[str, str]]) -> list[dict[str, str]]:
    """The same words with what differs in front, so that no two prompts share a beginning."""
    instruction, _, rest = prompt[0]["content"].partition("Question:\n\n")
    return [{"role": "user", "content": f"{rest}\n\n{instruction}"}]


@contextmanager
def naive_server(endpoint: LlmEndpoint) -> Iterator[LlmEndpoint]:
    """The same weights and engine with the settings it has by default."""
    folder = next((settings.DERIVED / "models").glob(f"{endpoint.model}-*-int8"))
    port = services.free_port()
    log = (settings.LOGS / "bench-naive.log").open("wb")
    process = subprocess.Popen(
        [
            str(engine_install.engine_python("vllm")),
            *(
                "-m",
                "vllm.entrypoints.openai.api_server",
                f"--model={folder}",
                f"--served-model-name={endpoint.model}",
            ),
            *(
                f"--max-model-len={endpoint.context}",
                f"--port={port}",
                "--host=127.0.0.1",
                "--dtype=bfloat16",
            ),
        ],
        stdout=log,
        stderr=subprocess.STDOUT,
        env={**os.environ, "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1"},
    )
    url = f"http://127.0.0.1:{port}"
    deadline = time.monotonic() + 600
    while time.monotonic() < deadline and process.poll() is None:
        try:
            if httpx.get(f"{url}/health").status_code == 200:
                break
        except httpx.HTTPError:
            time.sleep(1)
    try:
        yield LlmEndpoint(
            f"{url}/v1", endpoint.model, "none", "vllm", endpoint.version, "", endpoint.context, 1
        )
    finally:
        process.terminate()
        process.wait(30)


def test_the_client_costs_the_engine_little_and_beats_the_naive_loop(
    endpoint, prompt_sets, note_measurement
):
    if endpoint.engine != "vllm" or settings.settings().llm_base_url:
        pytest.skip(
            "the comparison starts a second server, which it only does for the embedded vLLM"
        )
    ours(endpoint, prompt_sets[0])  # warm
    ways: dict[str, Callable[[list[list[dict[str, str]]]], Rate]] = {
        "this project": lambda prompts: ours(endpoint, prompts),
        "bare HTTP": lambda prompts: bare(endpoint, prompts, endpoint.concurrency),
    }
    if HARNESS_PYTHON:
        ways["lm-evaluation-harness"] = lambda prompts: by_the_harness(endpoint, prompts)
    rates: dict[str, list[Rate]] = {name: [] for name in ways}
    for name, prompts in zip(cycle(ways), prompt_sets[1:7], strict=False):
        rates[name].append(ways[name](prompts))
    services.stop("llm")
    with naive_server(endpoint) as naive:
        sequential = LLM(naive, folder=None, concurrency=1)
        prompts = [evidence_first(p) for p in prompt_sets[7][:16]]
        sequential.chat_many(prompts[:2], max_tokens=TOKENS)
        start = time.perf_counter()
        replies = sequential.chat_many(prompts[2:], max_tokens=TOKENS)
        seconds = time.perf_counter() - start
        tokens = count_tokens(replies) or 0
    rates["naive loop"] = [Rate(len(replies) / seconds, tokens / seconds)]
    best = {
        name: max(rounds, key=lambda rate: rate.requests_per_second)
        for name, rounds in rates.items()
    }
    for name, rate in best.items():
        tokens_too = (
            ""
            if math.isnan(rate.tokens_per_second)
            else f" ({rate.tokens_per_second:.0f} tokens/s)"
        )
        note_measurement(
            f"{endpoint.model} by vLLM: {name}",
            "prompts of 01",
            f"{rate.requests_per_second:.2f} requests/s{tokens_too}, best of {len(rates[name])}",
        )
    project, naive_rate = best["this project"], best["naive loop"]
    assert project.tokens_per_second >= 0.9 * best["bare HTTP"].tokens_per_second
    assert project.tokens_per_second >= 2 * naive_rate.tokens_per_second
    if HARNESS_PYTHON:
        harness = best["lm-evaluation-harness"]
        assert project.requests_per_second >= 0.9 * harness.requests_per_second
