"""Passages of clinical notes: cut at paragraphs, identifiers masked.

Source: clinical_notes.md, "Embeddings and FAISS".
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import date

from papers.clinical_notes.gold import Note
from papers.clinical_notes.query import Lexicon
from rag.retrieval import chunk_spans

CHUNK_SIZE = 1200
"""Longest passage, in characters."""
CHUNK_OVERLAP = 200
"""Characters that a passage repeats of the one before it, at most."""


@dataclass(frozen=True)
class Chunk:
    """A passage of a note.

    Attributes:
        id: Identifier, the note's followed by the passage's first character.
        note: Identifier of the note.
        patient: Identifier of the patient.
        date: Date of the note.
        start: First character in the note.
        end: Last character in the note, plus one.
        text: The characters from ``start`` to ``end``, with identifiers masked.
        drugs: Generic names of the drugs that a dictionary finds in the text.
    """

    id: str
    note: str
    patient: str
    date: date
    start: int
    end: int
    text: str = field(repr=False)  # so that no log or traceback shows it by accident
    drugs: frozenset[str] = frozenset()

    def covers(self, start: int, end: int) -> bool:
        """Whether the passage has all characters from `start` to `end` of its note."""
        return self.start <= start and end <= self.end


_IDENTIFIER = re.compile(
    r"\(?\b\d{3}\)?[ .-]?\d{3}[ .-]\d{4}\b"  # telephone
    # social security, record and account numbers
    r"|\b\d{2,3}-\d{2}-\d{4}\b|\b\d{2,3}-\d{6,}\b|\b\d{6,}\b"
    r"|[\w.+-]+@[\w-]+\.[\w.]+"  # electronic mail
)


def mask_identifiers(text: str) -> str:
    """Replace telephone numbers, record numbers and addresses by as many `#`.

    This is a second fence behind de-identification: dates and doses keep their digits, and
    names of people are not recognised.
    """
    return _IDENTIFIER.sub(lambda match: "#" * len(match[0]), text)


def chunk_notes(notes: Iterable[Note], lexicon: Lexicon) -> list[Chunk]:
    """Cut notes into passages, in their order.

    Identifiers are masked first, so none reaches an index, a prompt or a page.
    """
    chunks = []
    for note in notes:
        masked = mask_identifiers(note.text)
        for start, end in chunk_spans(note.text, CHUNK_SIZE, CHUNK_OVERLAP):
            text = masked[start:end]
            chunk = Chunk(
                id=f"{note.note_id}:{start}",
                note=note.note_id,
                patient=note.patient_id,
                date=note.date,
                start=start,
                end=end,
                text=text,
                drugs=lexicon.drugs_in(text),
            )
            chunks.append(chunk)
    return chunks
