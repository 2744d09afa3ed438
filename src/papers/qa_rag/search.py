"""Search in passages of guidance: by the vector of a passage's beginning, by its best window, by its words.

The paper gives one vector to a chunk of 10,000 characters (QA-RAG, section 2.2), of which its encoder reads 512 tokens
and the one used here 256. A window fits, so that a passage can be found, and shown, by its best one.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from helpers import vectors
from helpers.indexes import Index, cached_index
from helpers.vectors import Encoder, EncoderUnavailable, Floats
from papers.qa_rag.data import Corpus
from rag.retrieval import chunk_spans, word_index, word_scores

Scores = npt.NDArray[np.float64]
Search = Literal["start", "windows", "words"]

WINDOW, WINDOW_OVERLAP = 700, 100
"""Characters of what is read at once: some 160 tokens, so that the encoder reads all of it and a prompt stays short."""


def encoder_of(name: str) -> tuple[Encoder, str]:
    """An encoder as in `vectors.encoder`, or the one that needs nothing in its place, and then why."""
    try:
        return vectors.encoder(name), ""
    except EncoderUnavailable as error:
        return vectors.encoder(), f"{vectors.DEFAULT_ENCODER} stands in for {name}. {error}"


class Searcher:
    """A corpus with its indexes, built or loaded when they are first searched; a passage's row is its place there."""

    def __init__(self, corpus: Corpus, encode: Encoder) -> None:
        """Take the corpus and the encoder of both indexes."""
        self.corpus, self.encode = corpus, encode
        self._texts = [passage.text for passage in corpus.passages]
        self._spans = [chunk_spans(text, WINDOW, WINDOW_OVERLAP) for text in self._texts]

    @cached_property
    def _starts(self) -> Index:
        return cached_index("qa-rag", self._texts, self.encode)

    @cached_property
    def cut(self) -> int:
        """Passages that are longer than the encoder reads."""
        return self.encode.count_truncated(self._texts)

    @cached_property
    def windows(self) -> tuple[str, ...]:
        """Every window of every passage, in order."""
        return tuple(
            text[a:b]
            for text, spans in zip(self._texts, self._spans, strict=True)
            for a, b in spans
        )

    @cached_property
    def owner(self) -> npt.NDArray[np.int64]:
        """(windows,) row of each window's passage."""
        return np.repeat(np.arange(len(self._texts)), list(map(len, self._spans)))

    @cached_property
    def _window_index(self) -> Index:
        return cached_index("qa-rag-windows", self.windows, self.encode)

    def search(self, texts: Sequence[str], k: int, by: Search = "start") -> list[list[int]]:
        """Rows of the `k` best passages for each text, best first.

        There are fewer where the corpus is smaller, or where no word of the text stands in more (BM25).
        """
        if by == "start":
            return [
                rows.tolist()
                for rows in self._starts.search(self.encode.encode(texts, progress=False), k)[1]
            ]
        scores = (
            self.window_scores(texts)
            if by == "windows"
            else word_scores(word_index(self._texts), texts, len(self.corpus))
        )
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        least = -1.0 if by == "windows" else 0.0
        return [
            [row for row in rows.tolist() if of[row] > least]
            for rows, of in zip(order, scores, strict=True)
        ]

    def window_scores(self, texts: Sequence[str]) -> Scores:
        """Cosine of each text with the best window of each passage, (texts, passages)."""
        scores = self._cosines(texts)
        best = np.full((len(texts), len(self.corpus)), -1.0)
        for row in range(len(texts)):
            np.maximum.at(best[row], self.owner, scores[row])
        return best

    def excerpts(self, text: str, rows: Sequence[int]) -> list[str]:
        """The window of each passage that is nearest to the text: what a model with a short context is shown of it."""
        cosines = self._cosines([text])[0]
        windows = (np.flatnonzero(self.owner == row) for row in rows)
        return [self.windows[of[np.argmax(cosines[of])]] for of in windows]

    def _cosines(self, texts: Sequence[str]) -> Floats:
        """(texts, windows)."""
        found, ids = self._window_index.search(
            self.encode.encode(texts, progress=False), len(self.windows)
        )
        cosines = np.empty_like(found)
        np.put_along_axis(cosines, ids, found, axis=1)
        return cosines
