"""Speed of the first paper's system over HTTP and Bolt, on the paper-sized graph, without a cache of answers.

It asks the graph of NEO4J_URI, or else the embedded one: run it with and without.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest

from papers.side_effects import corpus, reverse
from papers.side_effects.catalogue import read_sider
from papers.side_effects.system import SideEffects, open_system
from resources import datasets
from resources.services import free_port
from resources.settings import ROOT, settings

N_FORWARD = 400
N_REVERSE = 120
CONCURRENT = 8
PAPERS_SECONDS = 0.09
"""Mean latency of the graph's reverse queries (Table 4)."""
pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Asked:
    """Questions in words."""

    forward: list[str]
    reverse: list[str]
    largest: str


@pytest.fixture(scope="module")
def questions() -> Asked:
    file = datasets.locate("side_effects/evaluation_dataset.csv")
    pairs = corpus.stratified(corpus.read_questions(file.path), N_FORWARD, seed=7)
    truth = reverse.invert(read_sider().facts.effects)
    effects = sorted(truth)
    sampled_effects = np.random.default_rng(7).choice(effects, N_REVERSE - 1, replace=False)
    largest = max(effects, key=lambda effect: len(truth[effect]))
    texts = [f"Which drugs cause {effect}?" for effect in [*sampled_effects, largest]]
    return Asked([pair.text for pair in pairs], texts, texts[-1])


@pytest.fixture(scope="module")
def system() -> Iterator[SideEffects]:
    with open_system() as side_effects:
        yield side_effects


def quantiles(ask: Callable[[str], object], texts: Sequence[str]) -> tuple[float, float]:
    """Milliseconds of the median and the 95th percentile, one question at a time."""
    ask(texts[0])  # the first one opens the connection
    seconds = []
    for text in texts:
        start = time.perf_counter()
        ask(text)
        seconds.append(time.perf_counter() - start)
    p50, p95 = np.percentile(seconds, [50, 95])
    return 1000 * float(p50), 1000 * float(p95)


def report(way: str, ask: Callable[[str], object], questions: Asked) -> float:
    """Print the latencies of one way of asking; returns the largest p95."""
    graph = "Neo4j" if settings().neo4j_uri else "embedded graph"
    slowest = 0.0
    kinds = {
        "forward": questions.forward,
        "reverse": questions.reverse,
        "largest reverse": [questions.largest] * 20,
    }
    for kind, texts in kinds.items():
        p50, p95 = quantiles(ask, texts)
        slowest = max(slowest, p95)
        sys.stdout.write(
            f"{graph}, {way}, {kind}: p50 {p50:.1f} ms, p95 {p95:.1f} ms, n = {len(texts)} "
            f"(the paper, reverse: {1000 * PAPERS_SECONDS:.0f} ms on average)\n"
        )
    return slowest


def test_the_system_answers_fast_enough_for_a_person(system: SideEffects, questions: Asked) -> None:
    assert report("Bolt", system.ask, questions) < 1000
    answer = system.ask(questions.largest)
    assert len(answer.details["names"]) == len(answer.evidence) > 500


@pytest.fixture
def served(system: SideEffects, tmp_path: Path) -> Iterator[tuple[str, psutil.Process]]:
    port = free_port()
    command = [sys.executable, "-m", "medrerun", "api", "--no-token", "--port", str(port)]
    with (tmp_path / "log").open("w") as log:
        environment = os.environ | {"PYTHONPATH": str(ROOT / "src")}
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            if process.poll() is not None:
                pytest.fail((tmp_path / "log").read_text())
            try:
                httpx.get(f"{url}/systems", timeout=1)
                break
            except httpx.HTTPError:
                time.sleep(0.2)
        yield url, psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(30)


def test_the_interface_answers_fast_enough_and_often_enough(
    served: tuple[str, psutil.Process], questions: Asked
) -> None:
    url, process = served
    local = threading.local()

    def ask(text: str) -> None:
        if not hasattr(local, "client"):
            local.client = httpx.Client(base_url=url, timeout=60)
        response = local.client.post("/ask/side-effects", json={"question": text})
        assert response.status_code == 200
        assert json.loads(response.content)["answered"]

    assert report("HTTP and Bolt", ask, questions) < 1000
    for kind, texts in {"forward": questions.forward * 3, "reverse": questions.reverse}.items():
        start = time.perf_counter()
        with ThreadPoolExecutor(CONCURRENT) as pool:
            list(pool.map(ask, texts))
        rate = len(texts) / (time.perf_counter() - start)
        sys.stdout.write(f"HTTP and Bolt, {kind}: {rate:.0f} requests/s, {CONCURRENT} at a time\n")
    peak = process.memory_full_info().rss / 2**20
    load = psutil.getloadavg()
    sys.stdout.write(f"memory of the interface: {peak:.0f} MiB; load of the machine: {load}\n")
