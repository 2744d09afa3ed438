"""Passages of clinical notes (clinical_notes.md, "Embeddings and FAISS"): cut at paragraphs, identifiers masked."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date

from papers.clinical_notes.gold import Note
from papers.clinical_notes.query import Lexicon
from rag.retrieval import chunk_spans

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


_IDENTIFIER = re.compile(
    r"\(?\b\d{3}\)?[ .-]?\d{3}[ .-]\d{4}\b"  # telephone
    r"|\b\d{2,3}-\d{2}-\d{4}\b|\b\d{2,3}-\d{6,}\b|\b\d{6,}\b"  # social security, record and account numbers
    r"|[\w.+-]+@[\w-]+\.[\w.]+"  # electronic mail
)


def masked(text: str) -> str:
    """A text of the same length with `#` in place of telephone numbers, record numbers and addresses.

    A second fence behind de-identification: dates and doses keep their digits, and it knows no names of people.
    """
    return _IDENTIFIER.sub(lambda match: "#" * len(match[0]), text)


def chunk_notes(notes: Iterable[Note], lexicon: Lexicon) -> list[Chunk]:
    """The passages of all notes, in their order, with identifiers masked: none reaches an index, a prompt or a page."""
    chunks = []
    for note in notes:
        whole = masked(note.text)
        for start, end in chunk_spans(note.text, CHUNK_SIZE, CHUNK_OVERLAP):
            id, part = f"{note.note_id}:{start}", whole[start:end]
            drugs = lexicon.drugs_in(part)
            chunks.append(
                Chunk(id, note.note_id, note.patient_id, note.date, start, end, part, drugs)
            )
    return chunks
