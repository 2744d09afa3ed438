"""Fine-tunes a small model by LoRA with PEFT (Hu et al. 2021), and keeps the adapter with the log of its training.

Training runs in the LLM engine's own environment, as a process of its own (`lora_train.py`): the notebooks' environment
has no torch. The adapter is served by vLLM beside its base: `llm.connect(base, adapters=[log.adapter])`.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from filelock import FileLock
from tqdm import tqdm

from helpers import datasets, engines
from helpers.engines import Adapter, EngineError
from helpers.settings import DERIVED, LOGS
from helpers.vectors import threads

log = logging.getLogger(__name__)

Pair = tuple[str | Sequence[Mapping[str, str]], str]
"""A prompt, as plain text or as chat messages, and the completion that is to follow it."""

MODULES = ("q_proj", "v_proj")
"""Layers that are adapted: queries and values of the attention (Hu et al. 2021, section 7.1). All linear layers would
take nearly twice the time on a CPU."""
ADAPTERS = DERIVED / "adapters"
WEIGHTS = "adapter_model.safetensors"
LOG = "training.json"
SCRIPT = Path(__file__).with_name("lora_train.py")
KEEP_MEMORY = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(16 * engines.GIB)}
"""For glibc: what one step freed is taken again by the next. Given back to the system between steps, the large tensors
cost 150,000 page faults a step and a fifth of its time."""


@dataclass(frozen=True)
class Loss:
    """Mean cross-entropy of a completion's token, in natural units, after so many steps."""

    step: int
    value: float


@dataclass(frozen=True)
class TrainingLog:
    """What a training left.

    Attributes:
        adapter: the adapter, for `llm.connect`.
        base: the model that it belongs to.
        settings: steps, batch, rank and the rest.
        train: training loss, each the mean since the one before.
        validation: validation loss, the first one before any step.
        pairs, validation_pairs: that were trained and evaluated on; a pair whose prompt alone is too long is left out.
        cut: training pairs longer than `max_tokens`, of which the end was left out.
        tokens: of all training pairs, once.
        trained_parameters, parameters: numbers of them, all that is not trained included in the second.
        seconds: from first step to last, evaluations included.
    """

    adapter: Adapter
    base: str
    settings: Mapping[str, float]
    train: tuple[Loss, ...]
    validation: tuple[Loss, ...]
    pairs: int
    validation_pairs: int
    cut: int
    tokens: int
    trained_parameters: int
    parameters: int
    seconds: float


def train(
    pairs: Sequence[Pair],
    validation: Sequence[Pair],
    base: str,
    out: Path,
    *,
    steps: int,
    rank: int = 8,
    rate: float = 1e-3,
    batch: int = 8,
    max_tokens: int = 512,
    evaluations: int = 10,
    seed: int = 0,
) -> TrainingLog:
    """Train an adapter of `MODULES` on the completions of `pairs`, and write it to `out`.

    Args:
        pairs: to learn from.
        validation: whose loss is measured before the first step and `evaluations` times on the way.
        base: a name of `engines.EMBEDDED_MODELS`, a folder, or a hub's repository name.
        out: the adapter's folder, whose name is the adapter's; one that is there already is replaced when the training
            has ended.
        steps: batches to learn from; the learning rate rises for a twentieth of them, then falls to 0.
        rank: of the two matrices that stand for a layer's change; their scale (alpha) is twice that.
        rate: highest learning rate.
        batch: pairs a step.
        max_tokens: of prompt and completion; the rest of a longer pair is left out and counted.
        evaluations: how often the losses are logged.
        seed: of the initial weights and of the order of pairs.

    Raises:
        ValueError: there are no pairs, or a number is not positive.
        EngineError: this machine's LLM engine cannot train, or the training failed; the log says more.
    """
    settings: dict[str, float] = {
        "steps": steps,
        "rank": rank,
        "alpha": 2 * rank,
        "rate": rate,
        "batch": batch,
        "max_tokens": max_tokens,
        "evaluations": evaluations,
        "seed": seed,
    }
    if wrong := {key: value for key, value in settings.items() if value <= 0 and key != "seed"}:
        raise ValueError(f"Each of these must be positive: {wrong}.")
    if not pairs or not validation:
        raise ValueError(f"Training needs pairs to learn from and to validate; found {len(pairs)}, {len(validation)}.")
    engine, why = engines.choose_engine(base)
    if engine != "vllm":
        raise EngineError(
            f"Training needs torch and PEFT, which come with vLLM's environment; this machine uses {engine} ({why}). "
            "Set LLM_ENGINE=vllm, or train on a machine that runs vLLM."
        )
    engines.install("vllm", _say)
    folder, _ = engines.weights_folder(base, _say)
    job = {
        **settings,
        "modules": MODULES,
        "base": folder,
        "threads": threads(),
        "pairs": list(pairs),
        "validation": list(validation),
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=f".{out.name}.") as temporary:
        part = Path(temporary) / "adapter"
        lines = _run(job, part, steps)
        summary = lines.pop()
        summary.pop("done")
        told = {
            "base": base,
            "sha256": datasets.digest(part / WEIGHTS),
            "settings": settings,
            "train": [asdict(Loss(line["step"], line["loss"])) for line in lines if "loss" in line],
            "validation": [asdict(Loss(line["step"], line["validation"])) for line in lines if "validation" in line],
            "seconds": lines[-1]["seconds"],
            **summary,
        }
        (part / LOG).write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(out, ignore_errors=True)
        part.rename(out)
    return load(out)


def load(folder: Path) -> TrainingLog:
    """The adapter in a folder that `train` wrote, and the log of its training.

    Raises:
        FileNotFoundError: there is none.
        ValueError: its weights or its log are damaged.
    """
    told = json.loads((folder / LOG).read_text(encoding="utf-8"))
    if (found := datasets.digest(folder / WEIGHTS)) != told["sha256"]:
        raise ValueError(f"{folder / WEIGHTS} is damaged: its SHA-256 should be {told['sha256']}, found {found}.")
    adapter = Adapter(folder.name, folder, told.pop("sha256"))
    losses = {key: tuple(Loss(**loss) for loss in told[key]) for key in ("train", "validation")}
    return TrainingLog(**{**told, **losses, "adapter": adapter})


def trained(name: str, pairs: Sequence[Pair], validation: Sequence[Pair], base: str, **settings: Any) -> TrainingLog:  # noqa: ANN401  # handed to train
    """The adapter of these pairs, base and settings: trained now, or loaded if it was trained before.

    It lies in `data/derived/adapters/<name>-<start of their hash>`. Notebooks that want the same one wait for the first
    to train it. A damaged one is set aside, with a logged warning, and trained again.
    """
    weights = engines.EMBEDDED_MODELS.get(base)
    digest = datasets.registry()[weights.source].sha256 if weights else ""
    decided_by = [list(pairs), list(validation), base, digest, settings, MODULES, datasets.digest(SCRIPT)]
    decides = json.dumps(decided_by, sort_keys=True, ensure_ascii=False)
    folder = ADAPTERS / f"{name}-{hashlib.sha256(decides.encode()).hexdigest()[:12]}"
    ADAPTERS.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        try:
            return load(folder)
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError) as error:
            aside = folder.with_name(f"{folder.name}.bad-{os.urandom(4).hex()}")
            folder.rename(aside)
            log.warning("%s It was set aside as %s and is trained again.", error, aside.name)
        return train(pairs, validation, base, folder, **settings)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def _run(job: Mapping[str, Any], out: Path, steps: int) -> list[dict[str, Any]]:
    """Run the training as a process of its own; the lines that it told."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / "lora.log"
    described = out.with_name("job.json")
    described.write_text(json.dumps(job), encoding="utf-8")
    # -P: the modules beside the script are not importable there, for `datasets` is a package that PEFT may import
    command = [str(engines.engine_python("vllm")), "-P", str(SCRIPT)]
    quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"} if Path(job["base"]).exists() else {}
    lines: list[dict[str, Any]] = []
    with path.open("ab") as errors, tqdm(total=steps, desc="train by LoRA", unit="step") as bar:
        start = errors.tell()
        process = subprocess.Popen(
            [*command, str(described), str(out)],
            # it ends when this pipe closes, also if this process is killed
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **KEEP_MEMORY, **quiet},
        )
        try:
            assert process.stdout is not None
            for text in process.stdout:
                lines.append(json.loads(text))
                bar.update(lines[-1].get("step", bar.n) - bar.n)
            process.wait()
        finally:
            process.kill()
            process.wait()
    if process.returncode or not lines or not lines[-1].get("done"):
        tail = "\n".join(path.read_bytes()[start:].decode(errors="replace").splitlines()[-8:])
        raise EngineError(
            f"Training {job['base']} by LoRA ended with code {process.returncode}:\n{tail}\n"
            f"The whole output is in {path}. With too little memory, take a smaller base, batch or max_tokens."
        )
    return lines
