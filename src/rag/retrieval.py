"""Parts of retrieval that more than one paper uses.

Where long texts are cut into passages, search by words, the fusion of several searches, and
reranking.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import bm25s
import numpy as np
import numpy.typing as npt

from helpers.vectors import from_hub

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

PARAGRAPH_END = re.compile(r"\n[ \t]*\n\s*")
LINE_END = re.compile(r"\n\s*")
WORD_END = re.compile(r"\s+")
WORD = r"(?u)\b\w+\b"
"""Words, numbers and single letters: "2 tablets", "3 Hz"."""
RRF_CONSTANT = 60
"""The constant of reciprocal rank fusion (Cormack et al. 2009)."""


def chunk_spans(text: str, size: int, overlap: int) -> list[tuple[int, int]]:
    """Decide where to cut a text into passages that keep paragraphs where they can.

    A passage ends at the last end that fits of a paragraph, or else of a line, or else of a
    word; the next one begins up to `overlap` characters before, at such a place too.

    Args:
        text: What is cut.
        size: Characters that a passage has at most.
        overlap: Characters that two passages share at most.

    Returns:
        Start and end of each passage.

    Raises:
        ValueError: If the overlap is not below half of the size.
    """
    if not 0 <= overlap < size / 2:
        raise ValueError(
            f"The overlap must be at least 0 and below half of the size; found {overlap} of {size}."
        )
    spans = []
    start, end = 0, 0
    while end < len(text):
        end = _passage_end(text, start, size)
        spans.append((start, end))
        start = _next_start(text, end, overlap)
    return spans


def _passage_end(text: str, start: int, size: int) -> int:
    if len(text) - start <= size:
        return len(text)
    ends = _natural_ends(text, start + size // 2, start + size)
    return ends[-1] if ends else start + size


def _next_start(text: str, end: int, overlap: int) -> int:
    if not overlap:
        return end
    starts = _natural_ends(text, end - overlap, end)
    return starts[0] if starts else end - overlap


def _natural_ends(text: str, low: int, high: int) -> list[int]:
    """Ends of paragraphs between two places; of lines or words if there are none."""
    for pattern in (PARAGRAPH_END, LINE_END, WORD_END):
        ends = [match.end() for match in pattern.finditer(text, low, high)]
        if ends:
            return ends
    return []


def bm25_index(texts: Sequence[str]) -> bm25s.BM25:
    """Index the words of texts for BM25."""
    index = bm25s.BM25()
    index.index(word_tokens(texts), show_progress=False)
    return index


def word_tokens(texts: Sequence[str]) -> list[list[str]]:
    """Split texts into lower-case words, without the commonest English ones."""
    tokens: list[list[str]] = bm25s.tokenize(
        list(texts), token_pattern=WORD, return_ids=False, show_progress=False
    )
    return tokens


def bm25_scores(index: bm25s.BM25, queries: Sequence[str], n_texts: int) -> npt.NDArray[np.float32]:
    """Score all indexed texts against each query.

    Args:
        index: The index of the texts.
        queries: The queries; one of the commonest words alone scores 0 everywhere.
        n_texts: Number of indexed texts.

    Returns:
        BM25 scores, (queries, n_texts).
    """
    nothing = np.zeros(n_texts, dtype=np.float32)
    scores = []
    for words in word_tokens(queries):
        scores.append(index.get_scores(words) if words else nothing)
    return np.array(scores)


def align_scores(*searches: Mapping[int, float]) -> tuple[Integers, list[Floats]]:
    """Bring the scores of several searches to the same rows.

    Args:
        searches: Scores by row, of each search.

    Returns:
        The rows that any search found, ascending, and the scores of each search: NaN where it
        did not find the row.
    """
    rows = np.array(sorted(set().union(*searches)), dtype=np.int64)
    columns = []
    for scores in searches:
        column = [scores.get(row, np.nan) for row in rows.tolist()]
        columns.append(np.array(column))
    return rows, columns


def min_max(scores: Floats) -> Floats:
    """Scale scores to 0..1; NaN (not found) becomes 0, and equal scores become 1."""
    known = scores[np.isfinite(scores)]
    if not len(known):
        return np.zeros(len(scores))
    low, high = known.min(), known.max()
    if low == high:
        return np.isfinite(scores).astype(float)
    return np.nan_to_num((scores - low) / (high - low), nan=0.0)


def fusion_order(scores: Iterable[Floats], weights: Iterable[float]) -> Integers:
    """Order rows by the weighted sum of several searches' scores, each scaled to 0..1.

    Returns:
        Places, best first; equal ones stay in order.
    """
    total = sum(
        weight * min_max(of_search) for of_search, weight in zip(scores, weights, strict=True)
    )
    return np.argsort(-total, kind="stable")


def reciprocal_rank_fusion(rankings: Iterable[Sequence[int]]) -> list[int]:
    """Fuse rankings by reciprocal ranks: every row of any ranking once, best first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (RRF_CONSTANT + rank)
    return sorted(scores, key=lambda row: (-scores[row], row))


class Reranker(Protocol):
    """Scores passages against a question; higher is better, in any unit.

    Attributes:
        name: How it scores, for tables.
        model: The model that it runs; empty if it runs none.
    """

    name: str
    model: str

    def score(self, question: str, rows: Integers) -> Floats:
        """Score the passages with these places in the store, (n,)."""


class CrossEncoder:
    """A trained cross-encoder: question and passage go through one model together.

    Attributes:
        name: How it scores, for tables.
        model: The model's name.
    """

    def __init__(self, texts: Sequence[str], model: str) -> None:
        """Load the model, which cuts what it cannot read.

        An EncoderUnavailable says that it cannot be loaded.
        """
        self._scorer = from_hub("CrossEncoder", model)
        self.name = f"cross-encoder {model}"
        self.model = model
        self._texts = list(texts)

    def score(self, question: str, rows: Integers) -> Floats:
        """Score passages by the model's relevance, (n,)."""
        pairs = [(question, self._texts[row]) for row in rows.tolist()]
        return np.asarray(self._scorer.predict(pairs, show_progress_bar=False), dtype=np.float64)
