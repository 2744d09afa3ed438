"""A LoRA adapter of the served base model, trained for real and served beside its base (biomedrag.md, section 4.2.4).

Training runs in the LLM engine's own environment, as a process of its own; an adapter is kept by the digest of all that
decides it, so a second run trains nothing.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from filelock import FileLock
from tqdm import tqdm

from helpers import engines
from helpers.engines import EngineError
from helpers.llm import LLM
from helpers.services import adapter_endpoint
from helpers.settings import DERIVED

ADAPTERS: Final = DERIVED / "adapters"
SCRIPT: Final = Path(__file__).with_name("lora_training.py")
_STEP: Final = re.compile(r"step (\d+) of \d+: loss ([\d.]+)")


@dataclass(frozen=True)
class Training:
    """How an adapter is trained.

    Attributes:
        model: a name of `engines.EMBEDDED_MODELS`, a folder, or a hub's repository.
        rank: r; the released code takes 64 for 13B parameters.
        alpha: scale of the adapter.
        steps: optimiser steps.
        batch: rows of one step.
        learning_rate: highest of the one-cycle schedule.
        seed: of the initial weights and of the order of rows.
        longest: tokens; longer rows are left out, and counted.
    """

    model: str
    rank: int = 8
    alpha: int = 16
    steps: int = 60
    batch: int = 8
    learning_rate: float = 2e-3
    seed: int = 0
    longest: int = 512


@dataclass(frozen=True)
class Adapter:
    """A trained adapter.

    Attributes:
        folder: what vLLM loads.
        name: what it is served as.
        digest: of all that decides it.
        losses: of each step.
        examples: rows that were seen, repeats included.
        too_long: rows that were left out.
        seconds: that training took when it was done.
    """

    folder: Path
    name: str
    digest: str
    losses: tuple[float, ...]
    examples: int
    too_long: int
    seconds: float


def train(name: str, rows: Sequence[tuple[Sequence[dict[str, str]], str]], training: Training) -> Adapter:
    """Train an adapter on (messages, answer) rows, or take the one that is kept.

    Args:
        name: what to serve it as.
        rows: chat messages of a prompt, and the answer to learn.
        training: how.

    Raises:
        EngineError: vLLM is not the engine here, or training failed; the message has its last lines.
    """
    engine, why = engines.choose_engine(training.model)
    if engine != "vllm":
        raise EngineError(
            f"A LoRA adapter needs vLLM's environment to be trained and served; the engine here is {why}."
        )
    engines.install("vllm", _say)
    settings: dict[str, Any] = asdict(training) | {
        "rows": [{"messages": list(messages), "answer": answer} for messages, answer in rows]
    }
    decides = json.dumps([settings, SCRIPT.read_text(encoding="utf-8")], sort_keys=True, ensure_ascii=False)
    digest = hashlib.sha256(decides.encode()).hexdigest()
    folder = ADAPTERS / f"{name}-{digest[:12]}"
    ADAPTERS.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not (folder / "training.json").exists():
            part = folder.with_name(folder.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir()
            settings |= {"folder": str(part), "model": engines.model_folder(training.model, "bf16", _say)}
            began = time.perf_counter()
            _run(settings, part / "settings.json", training.steps)
            report = json.loads((part / "losses.json").read_text())
            report["seconds"] = time.perf_counter() - began
            (part / "settings.json").unlink()
            (part / "training.json").write_text(json.dumps(report))
            shutil.rmtree(folder, ignore_errors=True)
            part.rename(folder)
        report = json.loads((folder / "training.json").read_text())
    return Adapter(
        folder, name, digest, tuple(report["losses"]), report["examples"], report["too_long"], report["seconds"]
    )


def _run(settings: dict[str, Any], file: Path, steps: int) -> None:
    file.write_text(json.dumps(settings), encoding="utf-8")
    environment = {**os.environ, "HF_HUB_OFFLINE": "1"} if Path(settings["model"]).is_dir() else dict(os.environ)
    said: list[str] = []
    with (
        subprocess.Popen(
            [str(engines.engine_python("vllm")), str(SCRIPT), str(file)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        ) as process,
        tqdm(total=steps, desc="LoRA training", unit="step") as bar,
    ):
        for line in process.stderr or ():
            said.append(line)
            if step := _STEP.match(line):
                bar.update(int(step[1]) - bar.n)
                bar.set_postfix(loss=step[2])
    if process.returncode:
        tail = "".join(said[-8:])
        raise EngineError(f"LoRA training of {settings['model']} failed with code {process.returncode}:\n{tail}")


def serve(adapter: Adapter, training: Training) -> tuple[LLM, LLM]:
    """The base model and the adapter, from one server.

    Returns:
        Clients of (base, adapter).

    Raises:
        ServiceError: the server did not start.
        EngineError: vLLM is not the engine here.
    """
    base = adapter_endpoint(training.model, adapter.name, adapter.folder, rank=training.rank)
    adapted = replace(base, model=adapter.name, model_sha256=f"{base.model_sha256}+{adapter.digest}")
    return LLM(base), LLM(adapted)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
