"""The tailored chunk scorer whose encoder is fine-tuned (biomedrag.md, section 4.2.3).

`scorer.train` learns a projection of frozen vectors; here all weights of an encoder learn, by the
same losses and from the same likelihoods, in the LLM engine's environment (`encoder_train.py`, see
`resources.training`). On two processor cores a step of all-MiniLM-L6-v2 takes seconds and thousands
of inputs take hours, so it is meant for a GPU.
"""

import math
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer

from helpers.vectors import Encoder, Floats, threads
from papers.biomedrag.scorer import ETA, Objective, check_objective
from resources import artifacts, datasets, training
from resources.settings import DERIVED

ENCODERS = DERIVED / "encoders"
WEIGHTS: Final = "model.safetensors"
SCRIPT: Final = Path(__file__).with_name("encoder_train.py")
METHOD: Final = "7facd50a7a03b3b68d2c62fc911282a27bf7f303190031d98e39b08d12a7255c"
"""Stands for what `SCRIPT` computes, in the name of each encoder.

A change that alters what is learnt needs another; one of wording or format must leave it, or no
stored encoder is found any more.
"""


class TunedEncoder(Encoder):
    """A fine-tuned encoder.

    Each call starts a process, which takes seconds; `vectors.Remembering` saves repeats.

    Attributes:
        base: The encoder before fine-tuning.
        losses: Mean over the inputs in each epoch, each before its batch's step.
        seconds: Time of the training.
    """

    def __init__(self, folder: Path) -> None:
        """Take the encoder in a folder of `ENCODERS`.

        Raises:
            FileNotFoundError: There is none.
            ValueError: Its weights or its log are damaged.
        """
        log = artifacts.read_log(folder, WEIGHTS)
        self.name = folder.name
        self.digest = log["sha256"]
        self.base = log["base"]
        self.engine = "transformers, in the LLM engine's environment"
        self.dimension = log["dimension"]
        self.max_tokens = log["max_tokens"]
        self.losses = tuple(log["losses"])
        self.seconds = log["seconds"]
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
        encodings = tokenizer.encode_batch_fast(texts)
        n_tokens = np.array([len(encoding.ids) for encoding in encodings], dtype=np.int64)
        return n_tokens > self.max_tokens


@dataclass(frozen=True)
class TuningSettings:
    """How an encoder is fine-tuned.

    Attributes:
        objective: The loss, see `scorer.Objective`.
        eta: Temperature of the softmax.
        seed: Seed of the order of inputs.
        epochs: How often each input is seen.
        rate: Highest learning rate of AdamW.
        batch: Inputs a step.
        max_tokens: Tokens of a text that the encoder reads.
    """

    objective: Objective = "text"
    eta: float = ETA
    seed: int = 0
    epochs: int = 3
    rate: float = 2e-5
    batch: int = 16
    max_tokens: int = 256

    def check(self, n_inputs: int) -> None:
        """Check that an encoder can be fine-tuned on so many inputs.

        Raises:
            ValueError: There are no inputs, a number is not positive, or the objective is unknown.
        """
        wrong = {name: value for name, value in self._sizes(n_inputs).items() if value <= 0}
        if wrong:
            raise ValueError(f"Each of these must be positive: {wrong}.")
        check_objective(self.objective)

    def _sizes(self, n_inputs: int) -> dict[str, float]:
        sizes = asdict(self)
        del sizes["objective"], sizes["seed"]
        return sizes | {"inputs": n_inputs}


DEFAULTS: Final = TuningSettings()


def tuned(
    inputs: Sequence[Mapping[str, Any]], base: str, settings: TuningSettings = DEFAULTS
) -> TunedEncoder:
    """Fine-tune an encoder, or load it from `ENCODERS`, see `artifacts.load_or_make`.

    Args:
        inputs: Each has a `text`, `documents` (their texts) and the `loglikelihoods` of the answer
            after each.
        base: A folder, or a hub's repository name, in Hugging Face's format. Whatever its own
            pooling is, vectors are means of token vectors.
        settings: How it is fine-tuned.

    Raises:
        ValueError: There are no inputs, a number is not positive, or the objective is unknown.
        EngineError: This machine cannot train, or the base cannot be loaded.
    """
    settings.check(len(inputs))

    def make(folder: Path) -> TunedEncoder:
        training.prepare(base)
        job = {**asdict(settings), "base": base, "inputs": list(inputs), "threads": threads()}
        steps = settings.epochs * math.ceil(len(inputs) / settings.batch)
        with artifacts.replacing(folder) as part:
            *lines, summary = training.run(
                SCRIPT, job, part, doing="fine-tune the scorer's encoder", total=steps
            )
            losses = [line["loss"] for line in lines if "loss" in line]
            log = {"base": base, "settings": asdict(settings), "losses": losses, **summary}
            artifacts.write_log(part, WEIGHTS, log)
        return TunedEncoder(folder)

    decided_by = [list(inputs), base, _base_files(base), asdict(settings), METHOD]
    return artifacts.load_or_make(ENCODERS, "scorer", decided_by, TunedEncoder, make)


def _base_files(base: str) -> dict[str, str]:
    """Return the digest of each file of a base that is a folder; a hub's name has none."""
    paths = [path for path in sorted(Path(base).glob("*")) if path.is_file()]
    return {path.name: datasets.digest(path) for path in paths}
