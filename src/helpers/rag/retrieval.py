"""Search by words, and the fusion of several searches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import bm25s
import numpy as np
import numpy.typing as npt

from helpers.rag.rerank import Floats, Integers

FUSION = 60
"""The constant of reciprocal rank fusion (Cormack et al. 2009)."""


def word_index(texts: Sequence[str]) -> bm25s.BM25:
    """BM25 over the words of the texts."""
    words = bm25s.BM25()
    words.index(word_tokens(texts), show_progress=False)
    return words


def word_tokens(texts: Sequence[str]) -> list[list[str]]:
    """Lower-case words, numbers and single letters ("2 tablets", "3 Hz") without the commonest English words."""
    word = r"(?u)\b\w+\b"
    tokens: list[list[str]] = bm25s.tokenize(list(texts), token_pattern=word, return_ids=False, show_progress=False)
    return tokens


def word_scores(index: bm25s.BM25, queries: Sequence[str], size: int) -> npt.NDArray[np.float32]:
    """BM25 of each query with each of the `size` texts, (queries, texts); 0 for one of the commonest words alone."""
    nothing = np.zeros(size, dtype=np.float32)
    return np.array([index.get_scores(words) if words else nothing for words in word_tokens(queries)])


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
    scaled = (scores - low) / (high - low) if high > low else np.where(np.isfinite(scores), 1.0, np.nan)
    return np.nan_to_num(scaled, nan=0.0)


def fused(scores: Iterable[Floats], weights: Iterable[float]) -> Integers:
    """Places, best first, by the weighted sum of the searches' scores from 0 to 1; equals stay in order."""
    total = sum(weight * min_max(of) for of, weight in zip(scores, weights, strict=True))
    return np.argsort(-total, kind="stable")


def reciprocal_rank_fusion(rankings: Iterable[Sequence[int]]) -> list[int]:
    """Reciprocal rank fusion: every row of any ranking once, best first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (FUSION + place)
    return sorted(scores, key=lambda row: (-scores[row], row))
