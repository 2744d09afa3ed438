"""Fine-tunes a small model by LoRA with PEFT (Hu et al. 2021), and keeps the adapter with the log of its training.

vLLM serves the adapter beside its base: `llm.connect(base, adapters=[log.adapter])`.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from resources import artifacts, engine_install, engines, registry, training
from resources.engine_install import EngineError
from resources.engines import RELEASED, WEIGHTS, Adapter
from resources.settings import DERIVED, settings as user_settings, threads
from resources.supervisor import say

Pair = tuple[str | Sequence[Mapping[str, str]], str]
"""A prompt, as plain text or as chat messages, and the completion that is to follow it."""

MODULES = ("q_proj", "v_proj")
"""Layers that are adapted: queries and values of the attention (Hu et al. 2021, section 7.1). All linear layers would
take nearly twice the time on a CPU."""
RECIPE: dict[str, float] = {
    "rank": 8,  # of the two matrices that stand for a layer's change
    "alpha": 0,  # of their scale, alpha / rank; 0 takes twice the rank
    "dropout": 0.05,  # of the inputs of the adapted layers, in training
    "rate": 1e-3,  # the highest learning rate: it rises for a twentieth of the steps, then falls to 0
    "batch": 8,  # pairs a step
    "max_tokens": 512,  # of prompt and completion; the rest of a longer pair is left out and counted
    "evaluations": 10,  # how often the losses are logged
    "seed": 0,  # of the initial weights and of the order of pairs
}
"""The settings of a training, beside its `steps`, and what they are if nothing else is said."""
ADAPTERS = DERIVED / "adapters"
SCRIPT = Path(__file__).with_name("lora_train.py")
METHOD = "8884b3c4b2182910f1e203026d5d63d3b61e4a47ed43e4adde2e63fabe7db03e"
"""Stands for what `SCRIPT` computes, in the name of each adapter. A change that alters what is learnt needs another;
one of wording or format must leave it, or no released adapter and no reply by one is found any more."""


@dataclass(frozen=True)
class Loss:
    """Mean cross-entropy of a completion's token, in natural units, after so many steps."""

    step: int
    value: float


@dataclass(frozen=True)
class TrainingLog:
    """What a training left: the adapter, for `llm.connect`, and how it came about.

    A training loss is the mean since the one before. `pairs` are without those whose prompt alone is too long, and
    `cut` of them lost their end to `max_tokens`; `tokens` are of the training pairs, `seconds` include the evaluations.
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
    """Train an adapter of `MODULES` on the completions of `pairs` for so many `steps`, and write it to `out`.

    `base` is one of `EMBEDDED_MODELS`, a folder, or a hub's repository; `settings` are `steps` and those of `RECIPE`.
    """
    settings = RECIPE | settings
    settings["alpha"] = settings["alpha"] or 2 * settings["rank"]
    if wrong := {
        key: value
        for key, value in settings.items()
        if value <= 0 and key not in ("seed", "dropout")
    }:
        raise ValueError(f"Each of these must be positive: {wrong}.")
    if not pairs or not validation:
        raise ValueError(
            f"Training needs pairs to learn from and to validate; found {len(pairs)}, {len(validation)}."
        )
    training.prepare(base)
    where = {"modules": MODULES, "base": engines.weights_folder(base, say)[0], "threads": threads()}
    job = {**settings, **where, "pairs": list(pairs), "validation": list(validation)}
    with artifacts.replacing(out) as part:
        lines = training.run(SCRIPT, job, part, doing="train by LoRA", total=int(settings["steps"]))
        summary = lines.pop()
        (part / "README.md").unlink(missing_ok=True)
        config = part / "adapter_config.json"  # PEFT writes where the base lies on this machine
        described = json.loads(config.read_text(encoding="utf-8")) | {
            "base_model_name_or_path": base
        }
        config.write_text(json.dumps(described, indent=1) + "\n", encoding="utf-8")
        losses = {
            name: [{"step": line["step"], "value": line[said]} for line in lines if said in line]
            for name, said in (("train", "loss"), ("validation", "validation"))
        }
        told = {
            "base": base,
            "settings": settings,
            **losses,
            "seconds": lines[-1]["seconds"],
            **summary,
        }
        artifacts.write_log(part, WEIGHTS, told)
    return load(out)


def load(folder: Path) -> TrainingLog:
    """The adapter in a folder that `train` wrote: FileNotFoundError if there is none, ValueError if it is damaged."""
    told = artifacts.read_log(folder, WEIGHTS)
    adapter = Adapter(folder.name, folder, told.pop("sha256"))
    losses = {key: tuple(Loss(**loss) for loss in told[key]) for key in ("train", "validation")}
    return TrainingLog(**{**told, **losses, "adapter": adapter})


def trained(
    name: str,
    pairs: Sequence[Pair] | Callable[[], Sequence[Pair]],
    validation: Sequence[Pair],
    base: str,
    decided_by: Sequence[object] = (),
    /,
    **settings: float,
) -> TrainingLog:
    """The adapter of these pairs, base and settings, from `ADAPTERS`, `RELEASED` or `train`; see `artifacts.kept`.

    `decided_by` stands for pairs that differ by processor, because they hold what rounded vectors chose; these are made
    only if there is no adapter.
    """
    settings, given = RECIPE | settings, pairs if callable(pairs) else lambda: pairs

    def make(folder: Path) -> TrainingLog:
        if user_settings().answers == "stored-only":
            raise EngineError(
                f"The adapter {folder.name} is not in {RELEASED}, and ANSWERS=stored-only trains none. Run without it."
            )
        return train(given(), validation, base, folder, **settings)

    weights = engine_install.EMBEDDED_MODELS.get(base)
    digest = registry.registry()[weights.source].sha256 if weights else ""
    return artifacts.kept(
        ADAPTERS,
        name,
        [
            list(decided_by or given()),
            list(validation),
            base,
            digest,
            settings,
            MODULES,
            METHOD,
        ],
        load,
        make,
        RELEASED,
    )
