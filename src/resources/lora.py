"""Fine-tune a small model by LoRA with PEFT (Hu et al. 2021).

The adapter is stored with the log of its training.

vLLM serves the adapter beside its base: `llm.connect(base, adapters=[log.adapter])`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from resources import artifacts, engine_install, engines, plan_file, registry, training
from resources.engine_install import EngineError
from resources.engines import RELEASED, WEIGHTS, Adapter
from resources.settings import DERIVED, settings as user_settings, threads
from resources.supervisor import say

Pair = tuple[str | Sequence[Mapping[str, str]], str]
"""A prompt, as plain text or as chat messages, and the completion that is to follow it."""

MODULES = ("q_proj", "v_proj")
"""Layers that are adapted: queries and values of the attention (Hu et al. 2021, section 7.1).

All linear layers would take nearly twice the time on a CPU.
"""
RECIPE: dict[str, float] = {
    "rank": 8,  # of the two matrices that stand for a layer's change
    "alpha": 0,  # of their scale, alpha / rank; 0 takes twice the rank
    "dropout": 0.05,  # of the inputs of the adapted layers, in training
    # the highest learning rate: it rises for a twentieth of the steps, then falls to 0
    "rate": 1e-3,
    "batch": 8,  # pairs a step
    # of prompt and completion; the rest of a longer pair is left out and counted
    "max_tokens": 512,
    "evaluations": 10,  # how often the losses are logged
    "seed": 0,  # of the initial weights and of the order of pairs
}
"""The settings of a training beside its `steps`, and their defaults."""
ADAPTERS = DERIVED / "adapters"
SCRIPT = Path(__file__).with_name("lora_train.py")
METHOD = "8884b3c4b2182910f1e203026d5d63d3b61e4a47ed43e4adde2e63fabe7db03e"
"""Stands for what `SCRIPT` computes, in the name of each adapter.

A change that alters what is learnt needs another; one of wording or format must leave it, or no
released adapter and no reply by one is found any more.
"""


@dataclass(frozen=True)
class Loss:
    """Mean cross-entropy of a completion's token, in natural units, after so many steps."""

    step: int
    value: float


@dataclass(frozen=True)
class TrainingLog:
    """What a training left: the adapter, for `llm.connect`, and how it came about.

    Attributes:
        train: Each is the mean since the one before.
        pairs: Without those whose prompt alone is too long.
        cut: Pairs that lost their end to `max_tokens`.
        tokens: Of the training pairs.
        seconds: With the evaluations.
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
    pairs: Sequence[Pair], validation: Sequence[Pair], base: str, out: Path, **settings: float
) -> TrainingLog:
    """Train an adapter of `MODULES` on the completions of pairs.

    Args:
        pairs: What it learns from.
        validation: What its loss is measured on.
        base: One of `EMBEDDED_MODELS`, a folder, or a hub's repository.
        out: Folder of the adapter.
        settings: `steps`, and those of `RECIPE`.

    Raises:
        ValueError: A setting is not positive, or there are no pairs.
        EngineError: This machine cannot train, or the training fails.
    """
    settings = RECIPE | settings
    settings["alpha"] = settings["alpha"] or 2 * settings["rank"]
    _check(settings, len(pairs), len(validation))
    training.prepare(base)
    weights, _ = engines.weights_folder(base, say)
    job = {
        **settings,
        "modules": MODULES,
        "base": weights,
        "threads": threads(),
        "pairs": list(pairs),
        "validation": list(validation),
    }
    with artifacts.replacing(out) as part:
        lines = training.run(SCRIPT, job, part, doing="train by LoRA", total=int(settings["steps"]))
        summary = lines.pop()
        _name_base(part, base)
        log = {
            "base": base,
            "settings": settings,
            "train": _losses(lines, "loss"),
            "validation": _losses(lines, "validation"),
            "seconds": lines[-1]["seconds"],
            **summary,
        }
        artifacts.write_log(part, WEIGHTS, log)
    return load(out)


def _check(settings: Mapping[str, float], n_pairs: int, n_validation: int) -> None:
    may_be_zero = ("seed", "dropout")
    wrong = {}
    for key, value in settings.items():
        if value <= 0 and key not in may_be_zero:
            wrong[key] = value
    if wrong:
        raise ValueError(f"Each of these must be positive: {wrong}.")
    if not n_pairs or not n_validation:
        raise ValueError(
            f"Training needs pairs to learn from and to validate; found {n_pairs}, {n_validation}."
        )


def _name_base(folder: Path, base: str) -> None:
    """Write the base's name into PEFT's files, which say where it lies on this machine."""
    (folder / "README.md").unlink(missing_ok=True)
    config = folder / "adapter_config.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content["base_model_name_or_path"] = base
    config.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _losses(lines: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, float]]:
    return [{"step": line["step"], "value": line[name]} for line in lines if name in line]


def load(folder: Path) -> TrainingLog:
    """Return the adapter in a folder that `train` wrote.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is damaged.
    """
    log = artifacts.read_log(folder, WEIGHTS)
    log["adapter"] = Adapter(folder.name, folder, log.pop("sha256"))
    for name in ("train", "validation"):
        log[name] = tuple(Loss(**loss) for loss in log[name])
    return TrainingLog(**log)


def trained(
    name: str,
    pairs: Sequence[Pair] | Callable[[], Sequence[Pair]],
    validation: Sequence[Pair],
    base: str,
    decided_by: Sequence[object] = (),
    /,
    **settings: float,
) -> TrainingLog:
    """Return the adapter of these inputs, from `ADAPTERS` or `RELEASED`, or train it now.

    Args:
        name: Begins the adapter's name.
        pairs: What it learns from, or a function that makes them if there is no adapter yet.
        validation: What its loss is measured on.
        base: See `train`.
        decided_by: Stands for pairs that differ by processor, because they hold what rounded
            vectors chose.
        settings: See `train`.

    Raises:
        ValueError: See `train`.
        EngineError: See `train`; or `ANSWERS=stored-only` and there is no adapter.
    """
    settings = RECIPE | settings

    def get_pairs() -> Sequence[Pair]:
        return pairs() if callable(pairs) else pairs

    if user_settings().answers == "plan":
        return _planned(name, get_pairs(), base, settings)

    def make(folder: Path) -> TrainingLog:
        _require_leave_to_train(folder.name)
        return train(get_pairs(), validation, base, folder, **settings)

    weights = engine_install.EMBEDDED_MODELS.get(base)
    digest = registry.registry()[weights.source].sha256 if weights else ""
    learns_from = list(decided_by or get_pairs())
    decides = [learns_from, list(validation), base, digest, settings, MODULES, METHOD]
    return artifacts.load_or_make(ADAPTERS, name, decides, load, make, RELEASED)


def _planned(
    name: str, pairs: Sequence[Pair], base: str, settings: Mapping[str, float]
) -> TrainingLog:
    """Count a training, and return a log in its place."""
    longest = int(settings["max_tokens"])
    sizes = [min(longest, _n_tokens(pair)) for pair in pairs]
    n_rows = int(settings["steps"] * settings["batch"])
    n_tokens = round(n_rows * sum(sizes) / max(1, len(sizes)))
    plan_file.note(
        {
            "model": base,
            "label": f"train {name}",
            "kind": "training",
            "requests": n_rows,
            "prompt_tokens": n_tokens,
            "max_prompt_tokens": n_tokens,
            "max_answer_tokens": 0,
        }
    )
    losses = (Loss(0, 1.0), Loss(int(settings["steps"]), 1.0))
    adapter = Adapter(f"{name}-planned", ADAPTERS / f"{name}-planned", "")
    return TrainingLog(
        adapter=adapter,
        base=base,
        settings=settings,
        train=losses,
        validation=losses,
        pairs=len(pairs),
        validation_pairs=1,
        cut=0,
        tokens=n_tokens,
        trained_parameters=1,
        parameters=1,
        seconds=1.0,
    )


def _n_tokens(pair: Pair) -> int:
    prompt, answer = pair
    if isinstance(prompt, str):
        return plan_file.count_tokens(f"{prompt}\n{answer}")
    texts = [message["content"] for message in prompt]
    return plan_file.count_tokens("\n".join([*texts, answer]))


def _require_leave_to_train(adapter: str) -> None:
    if user_settings().answers == "stored-only":
        raise EngineError(
            f"The adapter {adapter} is not in {RELEASED}, and ANSWERS=stored-only trains none. Run "
            "without it."
        )
