"""Speed of the four arms' prompts: this project, the engine asked by bare HTTP, and the naive loop, side by side."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import httpx
import pytest

from helpers.completions import count_tokens
from helpers.llm import LLM
from papers.side_effects import corpus, forward as se
from resources import datasets, engine_install, services, settings
from resources.services import LlmEndpoint

REQUESTS = 64
TOKENS = 8
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
    endpoint, prompt_sets, measured
):
    if endpoint.engine != "vllm" or settings.settings().llm_base_url:
        pytest.skip(
            "the comparison starts a second server, which it only does for the embedded vLLM"
        )
    ours(endpoint, prompt_sets[0])  # warm
    rates: dict[str, list[Rate]] = {"this project": [], "bare HTTP": []}
    for k in range(1, 7):
        if k % 2:
            rates["this project"].append(ours(endpoint, prompt_sets[k]))
        else:
            rates["bare HTTP"].append(bare(endpoint, prompt_sets[k], endpoint.concurrency))
    services.stop("llm")
    with naive_server(endpoint) as naive:
        sequential = LLM(naive, folder=None, concurrency=1)
        few = [evidence_first(p) for p in prompt_sets[7][:16]]
        sequential.chat_many(few[:2], max_tokens=TOKENS)
        start = time.perf_counter()
        replies = sequential.chat_many(few[2:], max_tokens=TOKENS)
        seconds = time.perf_counter() - start
        tokens = count_tokens(replies) or 0
    rates["naive loop"] = [Rate(len(replies) / seconds, tokens / seconds)]
    for name, found in rates.items():
        top = max(found, key=lambda rate: rate.tokens_per_second)
        shown = f"{top.requests_per_second:.2f} requests/s ({top.tokens_per_second:.0f} tokens/s), best of {len(found)}"
        measured(f"{endpoint.model} by vLLM: {name}", "prompts of 01", shown)
    best = {name: max(r.tokens_per_second for r in found) for name, found in rates.items()}
    assert best["this project"] >= 0.9 * best["bare HTTP"]
    assert best["this project"] >= 2 * best["naive loop"]
