"""The tailored chunk scorer whose encoder is fine-tuned (biomedrag.md, section 4.2.3).

`scorer.train` learns a projection of frozen vectors; here all weights of an encoder learn, by the same losses and from
the same likelihoods. It is cross-validated over the folds of `scorer.cross_validate`, so that its choices stand in the
same comparison, and then trained on all inputs. Both run in the LLM engine's environment (`encoder_train.py`, see
`helpers.training`). On two processor cores a step of all-MiniLM-L6-v2 takes seconds and thousands of inputs take hours,
so it is meant for a GPU.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from helpers import datasets, training
from helpers.settings import DERIVED
from helpers.vectors import Encoder, Floats, Remembering, threads
from papers.biomedrag.scorer import ETA, Choices, Objective, Scorer, Taught, check, folds_of

ENCODERS = DERIVED / "encoders"
WEIGHTS: Final = "model.safetensors"
SCRIPT: Final = Path(__file__).with_name("encoder_train.py")
TUNED: Final = "tuned"
UNTUNED: Final = "untuned"
"""Names of this scorer, and of its base's plain cosine, among the others of `Choices`."""


@dataclass(frozen=True)
class TuningLog:
    """What fine-tuning left.

    Attributes:
        folder: the encoder that was trained on all inputs, in Hugging Face's format.
        sha256: of its weights.
        base: what it was before.
        settings: objective, eta, epochs and the rest.
        chosen: row of the document that each input got from the encoder that was trained on the other folds.
        untuned: row that the base itself chooses, so that what the fine-tuning did is told from what the base is.
        losses: of each epoch, the mean over the inputs, each before its batch's step, and over the folds.
        all_losses: the same of the training on all inputs.
        dimension: of its vectors.
        max_tokens: of a text that it sees.
        parameters: number of them, all trained.
        texts: distinct texts that it learnt from.
        cut: those of them that are longer than `max_tokens`.
        seconds: that all trainings took.
    """

    folder: Path
    sha256: str
    base: str
    settings: Mapping[str, Any]
    chosen: tuple[int, ...]
    untuned: tuple[int, ...]
    losses: tuple[float, ...]
    all_losses: tuple[float, ...]
    dimension: int
    max_tokens: int
    parameters: int
    texts: int
    cut: int
    seconds: float

    def scorer(self) -> Scorer:
        """P_T(d | x) by cosine of the fine-tuned encoder's vectors."""
        identity = np.eye(self.dimension, dtype=np.float32)
        objective, eta = self.settings["objective"], self.settings["eta"]
        return Scorer(identity, eta, self.all_losses, objective, encoder=Remembering(TunedEncoder(self)))

    def beside(self, choices: Choices, taught: Sequence[Taught]) -> Choices:
        """The choices of other scorers for the same inputs, and those of this one and of its base."""
        rows = {TUNED: np.array(self.chosen, dtype=np.int64), UNTUNED: np.array(self.untuned, dtype=np.int64)}
        values = {
            name: np.array([t.loglikelihoods[row] for t, row in zip(taught, of_one, strict=True)])
            for name, of_one in rows.items()
        }
        return Choices(choices.rows | rows, choices.values | values, choices.losses | {TUNED: np.array(self.losses)})


class TunedEncoder(Encoder):
    """A fine-tuned encoder. Each call starts a process, which takes seconds; `vectors.Remembering` spares repeats."""

    def __init__(self, log: TuningLog) -> None:
        """Take the encoder of a training."""
        self.name, self.digest = log.folder.name, log.sha256
        self.engine = "transformers, in the LLM engine's environment"
        self.dimension, self.max_tokens = log.dimension, log.max_tokens
        self._folder = log.folder
        self._tokenizer = Tokenizer.from_file(str(log.folder / "tokenizer.json"))
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, npt.NDArray[np.bool_]]:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32), np.zeros(0, dtype=np.bool_)
        job = {"base": str(self._folder), "texts": texts, "max_tokens": self.max_tokens, "threads": threads()}
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary) / "encoded"
            training.run(SCRIPT, job, out, doing="encode", total=len(texts), unit="text", bar=progress)
            vectors: Floats = np.load(out / "vectors.npy")
        return vectors, self._cut(texts)

    def _cut(self, texts: list[str]) -> npt.NDArray[np.bool_]:
        lengths = [len(encoding.ids) for encoding in self._tokenizer.encode_batch_fast(texts)]
        return np.array(lengths, dtype=np.int64) > self.max_tokens


def tuned(
    taught: Sequence[Taught],
    base: str,
    *,
    objective: Objective = "text",
    eta: float = ETA,
    folds: int = 5,
    seed: int = 0,
    epochs: int = 3,
    rate: float = 2e-5,
    batch: int = 16,
    max_tokens: int = 256,
) -> TuningLog:
    """Fine-tune an encoder for each fold and on all inputs, or load what was, from `data/derived/encoders`.

    See `training.kept` for when it is loaded.

    Args:
        taught: inputs, documents and the LLM's log-likelihoods.
        base: a folder, or a hub's repository name, of an encoder in Hugging Face's format. Whatever its own pooling is,
            vectors are means of token vectors.
        objective: see `scorer.Objective`.
        eta: temperature.
        folds: of the cross-validation.
        seed: of the folds, as in `scorer.cross_validate`, of the order of inputs and of dropout.
        epochs: how often each training sees its inputs.
        rate: highest learning rate of AdamW.
        batch: inputs of a step, each with all of its documents.
        max_tokens: of a text; of an encoder that sees fewer, as many as it sees.

    Raises:
        ValueError: fewer inputs than folds, an unknown objective, or a number that is not positive.
        helpers.engine_install.EngineError: this machine cannot train, or the base cannot load; the message says more.
    """
    settings: dict[str, Any] = {
        "objective": objective,
        "eta": eta,
        "folds": folds,
        "seed": seed,
        "epochs": epochs,
        "rate": rate,
        "batch": batch,
        "max_tokens": max_tokens,
    }
    if wrong := {key: settings[key] for key in ("eta", "epochs", "rate", "batch", "max_tokens") if settings[key] <= 0}:
        raise ValueError(f"Each of these must be positive: {wrong}.")
    check(objective)
    inputs = [
        {
            "text": one.example.text,
            "documents": [document.text for document in one.documents],
            "loglikelihoods": [float(value) for value in one.loglikelihoods],
            "fold": int(fold),
        }
        for one, fold in zip(taught, folds_of(len(taught), folds, seed), strict=True)
    ]
    return training.kept(
        ENCODERS,
        "scorer",
        [inputs, base, _contents(base), settings, datasets.digest(SCRIPT)],
        load,
        lambda folder: _tune(inputs, base, settings, folder),
    )


def load(folder: Path) -> TuningLog:
    """The fine-tuned encoder in a folder of `ENCODERS`.

    Raises:
        FileNotFoundError: there is none.
        ValueError: its weights or its log are damaged.
    """
    told = training.read_log(folder, WEIGHTS)
    told |= {key: tuple(told[key]) for key in ("chosen", "untuned", "losses", "all_losses")}
    return TuningLog(folder=folder, **told)


def _tune(inputs: Sequence[Mapping[str, Any]], base: str, settings: Mapping[str, Any], folder: Path) -> TuningLog:
    training.prepare(base)
    epochs, folds = settings["epochs"], settings["folds"]
    fold = np.array([one["fold"] for one in inputs])
    seen = [int((fold != held).sum()) for held in (*range(folds), -1)]
    job = {**settings, "base": base, "inputs": inputs, "threads": threads()}
    steps = epochs * sum(math.ceil(n / settings["batch"]) for n in seen)
    with training.replacing(folder) as part:
        lines = training.run(SCRIPT, job, part, doing="fine-tune the scorer's encoder", total=steps)
        untuned, summary = lines[0]["untuned"], lines[-1]
        chosen, losses = np.zeros(len(inputs), dtype=np.int64), np.zeros((folds + 1, epochs))
        for line in lines:
            if "chosen" in line:
                chosen[fold == line["fold"]] = line["chosen"]
        for held in (*range(folds), None):
            losses[-1 if held is None else held] = [x["loss"] for x in lines if "loss" in x and x["fold"] == held]
        told = {
            "base": base,
            "settings": settings,
            "chosen": chosen.tolist(),
            "untuned": untuned,
            "losses": losses[:-1].mean(axis=0).tolist(),
            "all_losses": losses[-1].tolist(),
            **summary,
        }
        training.write_log(part, WEIGHTS, told)
    return load(folder)


def _contents(base: str) -> dict[str, str]:
    """Digests of a base's files, where it is a folder; a hub's name stands for itself."""
    folder = Path(base)
    return {p.name: datasets.digest(p) for p in sorted(folder.iterdir()) if p.is_file()} if folder.is_dir() else {}
