"""Tells, for the chapters on clinical notes, how long the answer at their beginning may be."""

from __future__ import annotations

MAX_WORDS = 70
MAX_INTERVALS = 3


def is_short(answer: str) -> bool:
    """Whether a first paragraph has few words, intervals and no parentheses."""
    n_words = len(answer.split())
    return n_words <= MAX_WORDS and answer.count("[") <= MAX_INTERVALS and "(" not in answer
