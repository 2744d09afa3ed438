"""Fine-tunes a small model by LoRA with PEFT (Hu et al. 2021), and keeps the adapter with the log of its training.

Training runs in the LLM engine's own environment (`lora_train.py`, see `helpers.training`). The adapter is served by
vLLM beside its base: `llm.connect(base, adapters=[log.adapter])`.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from helpers import datasets, engine_install, engines, registry, training
from helpers.engines import Adapter
from helpers.settings import DERIVED
from helpers.vectors import threads

Pair = tuple[str | Sequence[Mapping[str, str]], str]
"""A prompt, as plain text or as chat messages, and the completion that is to follow it."""

MODULES = ("q_proj", "v_proj")
"""Layers that are adapted: queries and values of the attention (Hu et al. 2021, section 7.1). All linear layers would
take nearly twice the time on a CPU."""
ADAPTERS = DERIVED / "adapters"
WEIGHTS = "adapter_model.safetensors"
SCRIPT = Path(__file__).with_name("lora_train.py")


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
        base: a name of `engine_install.EMBEDDED_MODELS`, a folder, or a hub's repository name.
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
    training.prepare(base)
    folder, _ = engines.weights_folder(base, training.say)
    job = {
        **settings,
        "modules": MODULES,
        "base": folder,
        "threads": threads(),
        "pairs": list(pairs),
        "validation": list(validation),
    }
    with training.replacing(out) as part:
        lines = training.run(SCRIPT, job, part, doing="train by LoRA", total=steps)
        summary = lines.pop()
        told = {
            "base": base,
            "settings": settings,
            "train": [asdict(Loss(line["step"], line["loss"])) for line in lines if "loss" in line],
            "validation": [asdict(Loss(line["step"], line["validation"])) for line in lines if "validation" in line],
            "seconds": lines[-1]["seconds"],
            **summary,
        }
        training.write_log(part, WEIGHTS, told)
    return load(out)


def load(folder: Path) -> TrainingLog:
    """The adapter in a folder that `train` wrote, and the log of its training.

    Raises:
        FileNotFoundError: there is none.
        ValueError: its weights or its log are damaged.
    """
    told = training.read_log(folder, WEIGHTS)
    adapter = Adapter(folder.name, folder, told.pop("sha256"))
    losses = {key: tuple(Loss(**loss) for loss in told[key]) for key in ("train", "validation")}
    return TrainingLog(**{**told, **losses, "adapter": adapter})


def trained(name: str, pairs: Sequence[Pair], validation: Sequence[Pair], base: str, **settings: Any) -> TrainingLog:  # noqa: ANN401  # handed to train
    """The adapter of these pairs, base and settings in `data/derived/adapters`, see `training.kept`.

    What is not set counts with its default in `train`, so that another default makes another adapter.
    """
    defaults = {k: p.default for k, p in inspect.signature(train).parameters.items() if p.default is not p.empty}
    settings = defaults | settings
    weights = engine_install.EMBEDDED_MODELS.get(base)
    digest = registry.registry()[weights.source].sha256 if weights else ""
    return training.kept(
        ADAPTERS,
        name,
        [list(pairs), list(validation), base, digest, settings, MODULES, datasets.digest(SCRIPT)],
        load,
        lambda folder: train(pairs, validation, base, folder, **settings),
    )
