"""Search in passages of guidance: by a passage's beginning, by its best window, by its words.

The paper gives one vector to a chunk of 10,000 characters (QA-RAG, section 2.2), of which its
encoder reads 512 tokens and the default one here 256. An encoder reads a whole window, so that
a passage can be found, and shown, by its best one.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Literal

import numpy as np
import numpy.typing as npt

from helpers import vectors
from helpers.indexes import TextIndex
from helpers.neighbours import (
    TOLERANCE,
    Query,
    Result,
    Search as StoredSearch,
    no_check,
    replay_or_search,
    rows_digest,
)
from helpers.vectors import Encoder, EncoderUnavailable, Floats, Integers
from papers.qa_rag.data import Corpus
from rag.retrieval import bm25_index, bm25_scores, chunk_spans

Scores = npt.NDArray[np.float64]
Search = Literal["start", "windows", "words"]

WINDOW = 700
"""Characters that are read at once: some 160 tokens, so that the encoder reads all of it and a
prompt stays short."""

WINDOW_OVERLAP = 100
"""Characters that two windows share."""


def load_encoder(name: str) -> tuple[Encoder, str]:
    """Load an encoder, or the default one if it cannot be had.

    Returns:
        The encoder, and why it stands in for the one that is named; empty if it is that one.
    """
    try:
        return vectors.encoder(name), ""
    except EncoderUnavailable as error:
        return vectors.encoder(), f"{vectors.DEFAULT_ENCODER} stands in for {name}. {error}"


class Searcher:
    """A corpus with its indexes, each built or loaded when it is first searched.

    A passage's row is its place in the corpus.
    """

    def __init__(self, corpus: Corpus, encode: Encoder, *, index_windows: bool = True) -> None:
        """Take the corpus and the encoder of both indexes.

        Args:
            corpus: The passages.
            encode: The encoder.
            index_windows: Whether best windows are found by an index of all windows. Without one,
                those of the passages in question are encoded each time, which is quicker where
                few questions are put to many documents.
        """
        self.corpus = corpus
        self.encode = encode
        self.index_windows = index_windows
        self._texts = [passage.text for passage in corpus.passages]
        self._spans = [chunk_spans(text, WINDOW, WINDOW_OVERLAP) for text in self._texts]

    @cached_property
    def _starts(self) -> TextIndex:
        return TextIndex(self._texts, self.encode, "qa-rag")

    @cached_property
    def n_cut(self) -> int:
        """Number of passages that are longer than the encoder reads."""
        return self.encode.count_truncated(self._texts)

    @cached_property
    def windows(self) -> tuple[str, ...]:
        """Every window of every passage, in order."""
        windows = []
        for text, spans in zip(self._texts, self._spans, strict=True):
            windows += [text[start:end] for start, end in spans]
        return tuple(windows)

    @cached_property
    def _first_window(self) -> npt.NDArray[np.int64]:
        """(passages + 1,) place of each passage's first window, and the number of windows."""
        return np.cumsum([0, *map(len, self._spans)])

    @cached_property
    def owner(self) -> npt.NDArray[np.int64]:
        """(windows,) row of each window's passage."""
        n_windows = [len(spans) for spans in self._spans]
        return np.repeat(np.arange(len(self._texts)), n_windows)

    @cached_property
    def _window_index(self) -> TextIndex:
        return TextIndex(self.windows, self.encode, "qa-rag-windows")

    @property
    def is_indexed(self) -> bool:
        """Whether the indexes by meaning are on the disk."""
        has_windows = self._window_index.is_built or not self.index_windows
        return self._starts.is_built and has_windows

    def search(self, texts: Sequence[str], k: int, by: Search = "start") -> list[list[int]]:
        """Find the rows of the ``k`` best passages for each text, best first.

        There are fewer where the corpus is smaller, or where no word of the text stands in more.

        Args:
            texts: The queries.
            k: Number of passages.
            by: What of a passage is compared: its start, its windows, or its words (BM25).
        """
        if by == "start":
            return [rows.tolist() for rows in self._starts.nearest(texts, k)]
        if by == "windows":
            return self._search_windows(texts, k)
        return self._search_words(texts, k)

    def _search_words(self, texts: Sequence[str], k: int) -> list[list[int]]:
        scores = bm25_scores(bm25_index(self._texts), texts, len(self.corpus))
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        results = []
        for rows, scores_of_text in zip(order, scores, strict=True):
            matching = rows[scores_of_text[rows] > 0]
            results.append(matching.tolist())
        return results

    def _search_windows(self, texts: Sequence[str], k: int) -> list[list[int]]:
        """Rows of the `k` passages with the best windows for each text."""

        def find(missing: list[Query]) -> list[Result]:
            results = []
            for text in missing:
                best = np.full(len(self.corpus), -1.0)
                np.maximum.at(best, self.owner, self._cosines(str(text)))
                results.append(Result(np.argsort(-best, kind="stable")[:k]))
            return results

        results = replay_or_search(self._stored(f"passages {k}"), texts, find, no_check)
        return [result.ids.tolist() for result in results]

    def best_windows(self, text: str, rows: Sequence[int]) -> tuple[Integers, Scores]:
        """Find the window of each passage that is nearest to a text.

        Args:
            text: The text.
            rows: Rows of the passages, (n,).

        Returns:
            Places of the windows, and their cosines with the text, (n,) each.
        """

        def find(_: list[Query]) -> list[Result]:
            windows = []
            scores = []
            for places, cosines in self._cosines_of_passages(text, rows):
                best = int(np.argmax(cosines))
                windows.append(places[best])
                scores.append(float(cosines[best]))
            return [Result(np.array(windows, dtype=np.int64), np.array(scores))]

        def check(_: list[Query], results: list[Result], seconds: float) -> list[bool]:
            cosines = self._window_index.cosines_now(text, results[0].ids)
            return [bool(np.allclose(cosines, results[0].scores, rtol=0, atol=TOLERANCE))]

        if not len(rows):
            return np.empty(0, dtype=np.int64), np.empty(0)
        query = (text, rows_digest(rows))
        (result,) = replay_or_search(self._stored("best windows"), [query], find, check)
        return result.ids, result.scores

    def excerpts(self, text: str, rows: Sequence[int]) -> list[str]:
        """The window of each passage nearest to a text, for a model with a short context."""
        windows, _ = self.best_windows(text, rows)
        return [self.windows[window] for window in windows]

    def _stored(self, operation: str) -> StoredSearch:
        index = self._window_index
        return StoredSearch(operation, self.encode.digest, index.digest, index.size)

    def _cosines_of_passages(self, text: str, rows: Sequence[int]) -> list[tuple[Integers, Floats]]:
        """Places of each passage's windows, and their cosines with a text."""
        places = [np.arange(*self._first_window[row : row + 2]) for row in rows]
        if self.index_windows:
            cosines = self._cosines(text)
            return [(of_passage, cosines[of_passage]) for of_passage in places]
        found = self._window_index.cosines_now(text, np.concatenate(places))
        ends = np.cumsum([len(of_passage) for of_passage in places])
        return list(zip(places, np.split(found, ends[:-1]), strict=True))

    def _cosines(self, text: str) -> Floats:
        """Cosine of a text with each window, (windows,)."""
        vector = self.encode.encode([text], progress=False)
        found, ids = self._window_index.index.search(vector, len(self.windows))
        cosines = np.empty(len(self.windows), dtype=np.float32)
        cosines[ids[0]] = found[0]
        return cosines
