"""Passages of clinical notes (clinical_notes.md, "Embeddings and FAISS"): cut at paragraphs, identifiers masked."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date

from papers.clinical_notes.gold import Note
from papers.clinical_notes.query import Lexicon

CHUNK_SIZE, CHUNK_OVERLAP = 1200, 200


@dataclass(frozen=True)
class Chunk:
    """A passage: the characters `start` to `end` of a note, masked, and the drugs that a dictionary finds in it."""

    id: str
    note: str
    patient: str
    date: date
    start: int
    end: int
    text: str = field(repr=False)  # never in a log or a traceback by accident
    drugs: frozenset[str] = frozenset()

    def covers(self, start: int, end: int) -> bool:
        """Whether it holds all characters from `start` to `end` of its note."""
        return self.start <= start and end <= self.end


def chunk_spans(text: str, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[tuple[int, int]]:
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


_IDENTIFIER = re.compile(
    r"\(?\b\d{3}\)?[ .-]?\d{3}[ .-]\d{4}\b"  # telephone
    r"|\b\d{2,3}-\d{2}-\d{4}\b|\b\d{2,3}-\d{6,}\b|\b\d{6,}\b"  # social security, record and account numbers
    r"|[\w.+-]+@[\w-]+\.[\w.]+"  # electronic mail
)


def masked(text: str) -> str:
    """A text of the same length with `#` in place of telephone numbers, record numbers and addresses.

    A second fence behind the de-identification that notes should have had: dates and doses keep their digits. It knows
    no names of people.
    """
    return _IDENTIFIER.sub(lambda match: "#" * len(match[0]), text)


def chunk_notes(
    notes: Iterable[Note], lexicon: Lexicon, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP
) -> list[Chunk]:
    """The passages of all notes, in their order, with identifiers masked: none reaches an index, a prompt or a page."""
    return [
        Chunk(
            f"{note.note_id}:{start}",
            note.note_id,
            note.patient_id,
            note.date,
            start,
            end,
            part := masked(note.text)[start:end],
            lexicon.drugs_in(part),
        )
        for note in notes
        for start, end in chunk_spans(note.text, size, overlap)
    ]
