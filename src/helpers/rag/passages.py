"""Where a long text is cut into passages."""

from __future__ import annotations

import re


def chunk_spans(text: str, size: int, overlap: int) -> list[tuple[int, int]]:
    """Where to cut a text into passages of at most `size` characters that keep paragraphs where they can.

    A passage ends at the last paragraph's end that fits, or else at a line's, or else between two words. Where it
    ends inside a paragraph, the next one takes up to `overlap` characters of it again; after a whole paragraph, it
    takes those last paragraphs again that fit into `overlap`. The spans cover the text, leave out nothing, and none
    lies within another.

    Raises:
        ValueError: the overlap is not below half of the size.
    """
    if not 0 <= overlap < size / 2:
        raise ValueError(f"The overlap must be at least 0 and below half of the size; found {overlap} of {size}.")
    spans, start, end = [], 0, 0
    while end < len(text):
        end = len(text) if len(text) - start <= size else _cut(text, start + size // 2, start + size)
        spans.append((start, end))
        start = _again(text, end - overlap, end) if overlap else end
    return spans


_BREAKS = tuple(re.compile(pattern) for pattern in (r"\n[ \t]*\n\s*", r"\n\s*", r"\s+"))
"""Ends of a paragraph, of a line, of a word."""


def _cut(text: str, low: int, high: int) -> int:
    """The last good place to end within low and high: a paragraph's end before a line's before a word's."""
    for pattern in _BREAKS:
        if found := [m.end() for m in pattern.finditer(text, low, high)]:
            return found[-1]
    return high


def _again(text: str, low: int, high: int) -> int:
    """The first good place to begin within low and high."""
    for pattern in _BREAKS:
        if match := pattern.search(text, low, high):
            return match.end()
    return low
