"""The tailored chunk scorer whose encoder is fine-tuned (biomedrag.md, section 4.2.3).

`scorer.train` learns a projection of frozen vectors; here all weights of an encoder learn, by the same losses and from
the same likelihoods, in the LLM engine's environment (`encoder_train.py`, see `resources.training`). On two processor
cores a step of all-MiniLM-L6-v2 takes seconds and thousands of inputs take hours, so it is meant for a GPU.
"""

import math
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from helpers.vectors import Encoder, Floats, threads
from papers.biomedrag.scorer import ETA, Objective, check
from resources import artifacts, datasets, training
from resources.settings import DERIVED

ENCODERS = DERIVED / "encoders"
WEIGHTS: Final = "model.safetensors"
SCRIPT: Final = Path(__file__).with_name("encoder_train.py")


class TunedEncoder(Encoder):
    """A fine-tuned encoder. Each call starts a process, which takes seconds; `vectors.Remembering` spares repeats.

    `base` is what it was before; `losses` are the means over the inputs of each epoch, each before its batch's step;
    `seconds` are those of the training.
    """

    def __init__(self, folder: Path) -> None:
        """Take the encoder in a folder of `ENCODERS`.

        Raises FileNotFoundError: there is none; ValueError: its weights or its log are damaged.
        """
        told = artifacts.read_log(folder, WEIGHTS)
        self.name, self.digest, self.base = folder.name, told["sha256"], told["base"]
        self.engine = "transformers, in the LLM engine's environment"
        self.dimension, self.max_tokens = told["dimension"], told["max_tokens"]
        self.losses, self.seconds = tuple(told["losses"]), told["seconds"]
        self._folder = folder

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, npt.NDArray[np.bool_]]:
        if not texts:
            return np.empty((0, self.dimension), dtype=np.float32), np.zeros(0, dtype=np.bool_)
        job = {
            "base": str(self._folder),
            "texts": texts,
            "max_tokens": self.max_tokens,
            "threads": threads(),
        }
        with tempfile.TemporaryDirectory() as temporary:
            out = Path(temporary) / "encoded"
            training.run(SCRIPT, job, out, doing="encode", total=len(texts), bar=progress)
            vectors: Floats = np.load(out / "vectors.npy")
        return vectors, self._find_truncated(texts)

    def _find_truncated(self, texts: list[str]) -> npt.NDArray[np.bool_]:
        tokenizer = Tokenizer.from_file(str(self._folder / "tokenizer.json"))
        tokenizer.no_truncation()
        tokenizer.no_padding()
        return (
            np.array([len(one.ids) for one in tokenizer.encode_batch_fast(texts)], dtype=np.int64)
            > self.max_tokens
        )


def tuned(
    inputs: Sequence[Mapping[str, Any]],
    base: str,
    *,
    objective: Objective = "text",
    eta: float = ETA,
    seed: int = 0,
    epochs: int = 3,
    rate: float = 2e-5,
    batch: int = 16,
    max_tokens: int = 256,
) -> TunedEncoder:
    """Fine-tune an encoder, or load what was before (see `artifacts.load_or_make`), from `data/derived/encoders`.

    Each input has a `text`, `documents` (their texts) and the `loglikelihoods` of the answer after each; a step takes a
    `batch` of them. `base` is a folder, or a hub's repository name, in Hugging Face's format; whatever its own pooling
    is, vectors are means of token vectors. `rate` is AdamW's highest; `objective` and `eta`: see `scorer.train`.
    Raises ValueError for no inputs, an unknown objective or a number that is not positive, and EngineError if this
    machine cannot train or the base cannot load.
    """
    sizes = {"eta": eta, "epochs": epochs, "rate": rate, "batch": batch, "max_tokens": max_tokens}
    if wrong := {
        key: value for key, value in (sizes | {"inputs": len(inputs)}).items() if value <= 0
    }:
        raise ValueError(f"Each of these must be positive: {wrong}.")
    check(objective)
    settings = sizes | {"objective": objective, "seed": seed}

    def make(folder: Path) -> TunedEncoder:
        training.prepare(base)
        job = {**settings, "base": base, "inputs": list(inputs), "threads": threads()}
        with artifacts.replacing(folder) as part:
            steps = epochs * math.ceil(len(inputs) / batch)
            *lines, summary = training.run(
                SCRIPT, job, part, doing="fine-tune the scorer's encoder", total=steps
            )
            losses = [line["loss"] for line in lines if "loss" in line]
            artifacts.write_log(
                part, WEIGHTS, {"base": base, "settings": settings, "losses": losses, **summary}
            )
        return TunedEncoder(folder)

    # the files of a base decide the result where it is a folder; a hub's name stands for itself
    files = {p.name: datasets.digest(p) for p in sorted(Path(base).glob("*")) if p.is_file()}
    decided_by = [list(inputs), base, files, settings, datasets.digest(SCRIPT)]
    return artifacts.load_or_make(ENCODERS, "scorer", decided_by, TunedEncoder, make)
