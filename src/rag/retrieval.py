"""Retrieval: where long texts are cut into passages, search by words, the fusion of several searches, reranking."""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import bm25s
import numpy as np
import numpy.typing as npt

from helpers.vectors import from_hub

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

_BREAKS = tuple(re.compile(pattern) for pattern in (r"\n[ \t]*\n\s*", r"\n\s*", r"\s+"))
"""Ends of a paragraph, of a line, of a word."""
FUSION = 60  # the constant of reciprocal rank fusion (Cormack et al. 2009)


def chunk_spans(text: str, size: int, overlap: int) -> list[tuple[int, int]]:
    """Where to cut a text into passages of at most `size` characters that keep paragraphs where they can.

    A passage ends at the last end that fits of a paragraph, or else of a line, or else of a word; the next one begins
    up to `overlap` characters before, at such a place too.
    """
    if not 0 <= overlap < size / 2:
        raise ValueError(
            f"The overlap must be at least 0 and below half of the size; found {overlap} of {size}."
        )
    spans, start, end = [], 0, 0
    while end < len(text):
        fits = len(text) - start <= size
        end = (
            len(text)
            if fits
            else (_breaks(text, start + size // 2, start + size) or [start + size])[-1]
        )
        spans.append((start, end))
        start = (_breaks(text, end - overlap, end) or [end - overlap])[0] if overlap else end
    return spans


def _breaks(text: str, low: int, high: int) -> list[int]:
    return next(
        (ends for p in _BREAKS if (ends := [m.end() for m in p.finditer(text, low, high)])), []
    )


def word_index(texts: Sequence[str]) -> bm25s.BM25:
    """BM25 over the words of the texts."""
    words = bm25s.BM25()
    words.index(word_tokens(texts), show_progress=False)
    return words


def word_tokens(texts: Sequence[str]) -> list[list[str]]:
    """Lower-case words, numbers and single letters ("2 tablets", "3 Hz") without the commonest English words."""
    word = r"(?u)\b\w+\b"
    tokens: list[list[str]] = bm25s.tokenize(
        list(texts), token_pattern=word, return_ids=False, show_progress=False
    )
    return tokens


def word_scores(index: bm25s.BM25, queries: Sequence[str], size: int) -> npt.NDArray[np.float32]:
    """BM25 of each query with each of the `size` texts, (queries, texts); 0 for one of the commonest words alone."""
    nothing = np.zeros(size, dtype=np.float32)
    return np.array(
        [index.get_scores(words) if words else nothing for words in word_tokens(queries)]
    )


def aligned(*found: Mapping[int, float]) -> tuple[Integers, list[Floats]]:
    """Rows that any search found, ascending, and the scores of each search: NaN where it did not find the row."""
    rows = np.array(sorted(set().union(*found)), dtype=np.int64)
    return rows, [np.array([of.get(row, np.nan) for row in rows.tolist()]) for of in found]


def min_max(scores: Floats) -> Floats:
    """Scores brought to 0 to 1; NaN (not found) becomes 0, and equal scores become 1."""
    known = scores[np.isfinite(scores)]
    if not len(known):
        return np.zeros(len(scores))
    low, high = known.min(), known.max()
    scaled = (
        (scores - low) / (high - low) if high > low else np.where(np.isfinite(scores), 1.0, np.nan)
    )
    return np.nan_to_num(scaled, nan=0.0)


def fused(scores: Iterable[Floats], weights: Iterable[float]) -> Integers:
    """Places, best first, by the weighted sum of the searches' scores from 0 to 1; equals stay in order."""
    return np.argsort(
        -sum(weight * min_max(of) for of, weight in zip(scores, weights, strict=True)),
        kind="stable",
    )


def reciprocal_rank_fusion(rankings: Iterable[Sequence[int]]) -> list[int]:
    """Reciprocal rank fusion: every row of any ranking once, best first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (FUSION + place)
    return sorted(scores, key=lambda row: (-scores[row], row))


class Reranker(Protocol):
    """Scores passages against a question; higher is better, in any unit. `model` is what it runs, `name` says how."""

    name: str
    model: str

    def score(self, question: str, rows: Integers) -> Floats:
        """One score a row; a row is the place of a passage in the store."""


class CrossEncoder:
    """A trained cross-encoder by name: question and passage go through one model together."""

    def __init__(self, texts: Sequence[str], model: str) -> None:
        """Load the model, which cuts what it cannot read; a EncoderUnavailable if it cannot be loaded."""
        self._scorer = from_hub("CrossEncoder", model)
        self.name, self.model = f"cross-encoder {model}", model
        self._texts = list(texts)

    def score(self, question: str, rows: Integers) -> Floats:
        """The model's relevance scores."""
        pairs = [(question, self._texts[row]) for row in rows.tolist()]
        return np.asarray(self._scorer.predict(pairs, show_progress_bar=False), dtype=np.float64)
