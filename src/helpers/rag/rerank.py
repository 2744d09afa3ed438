"""What reranks passages: the interface, and a trained cross-encoder by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from helpers.settings import PublicError

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
INSTALL = ".venv/bin/python -m pip install -e '.[encoders]'"
"""The line, typed in the project's folder, that brings what models from a hub need."""


class RerankerUnavailable(PublicError, RuntimeError):
    """A reranker cannot be loaded here; the message says what it needs."""


class Reranker(Protocol):
    """Scores passages against a question; higher is better, in any unit. `model` is what it runs, `name` says how."""

    name: str
    model: str

    def score(self, question: str, rows: Integers) -> Floats:
        """One score a row; a row is the place of a passage in the store."""


class CrossEncoder:
    """A trained cross-encoder by name: question and passage go through one model together."""

    def __init__(self, texts: Sequence[str], model: str) -> None:
        """Load the model, which cuts what it cannot read.

        Raises:
            RerankerUnavailable: sentence-transformers is not installed, or no hub gives the model.
        """
        try:
            import sentence_transformers  # noqa: PLC0415  # an extra: the default needs no torch
        except ImportError:
            raise RerankerUnavailable(
                f"The cross-encoder {model} needs sentence-transformers, where a model hub can be reached: {INSTALL}"
            ) from None
        try:
            self._scorer = sentence_transformers.CrossEncoder(model)
        except (OSError, ValueError) as error:
            raise RerankerUnavailable(
                f"The cross-encoder {model} could not be loaded: no hub that has it can be reached."
            ) from error
        self.name, self.model = f"cross-encoder {model}", model
        self._texts = list(texts)

    def score(self, question: str, rows: Integers) -> Floats:
        """The model's relevance scores."""
        pairs = [(question, self._texts[row]) for row in rows.tolist()]
        return np.asarray(self._scorer.predict(pairs, show_progress_bar=False), dtype=np.float64)
