"""Reads a person's own notes: a folder of dated files, one file a patient, or a table.

The paper has both folders: `patient_notes/` (dated notes) and `patient_files/` (one file a
patient, clinical_notes.md, "Pipeline architecture").
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path, PurePosixPath
from typing import Final

import pandas as pd

from helpers import documents, tables
from helpers.documents import Document
from helpers.folders import FolderError, list_files, printable
from helpers.texts import TextError
from papers.clinical_notes.gold import NO_DATE, Note
from papers.clinical_notes.query import DAY, period
from resources.settings import DERIVED

TABLE_KINDS: Final = (".csv", ".tsv", *tables.EXCEL)
READ_DOCUMENTS: Final = DERIVED / "own" / "documents"
"""The text of own PDF and Word files, so that they are read once. Nothing exports it."""
HEAD_LINES: Final = 15
"""First lines of a note, in which its patient and its date are looked for."""
MAX_HEAD_LINE: Final = 80
"""Longest line that may be the head of a note, in characters."""

PATIENT_COLUMNS: Final = ("patient id", "patient", "mrn", "subject id", "pid", "patient number")
DATE_COLUMNS: Final = (
    *("note date", "date", "visit date", "chart date", "chartdate", "charttime"),
    *("encounter date", "service date", "date of service"),
)
TEXT_COLUMNS: Final = ("note text", "text", "note", "notes", "content", "body", "report")
NOTE_COLUMNS: Final = ("note id", "id", "row id", "encounter id")

_LABELS = (
    r"(?:(?:note|visit|encounter|clinic|service|admission|discharge|report|study)\s+)?date"
    r"(?!\s+of\s+birth)(?:\s+(?:of|and)\s+[a-z]+(?:\s+[a-z]+)?)?|visit|encounter|note|seen(?:\s+on)?"
    r"|admitted|discharged|dictated|clinic|progress note"
)
_DATE_LINE = re.compile(rf"[\W_]*(?:(?:{_LABELS})\s*[:\-#]?\s*)?(?P<day>{DAY})", re.I)
"""A line that begins with a date, or with a label and a date."""
_PATIENT_LINE = re.compile(
    r"\s*(?:patient(?:\s+(?:id|no\.?|number|identifier))?|pt\.?\s+id|mrn"
    r"|medical record (?:no\.?|number))"
    r"\s*[:#]\s*(?P<patient>[\w-]*\d[\w-]*)",
    re.I,
)
_FILE_DAY = re.compile(
    r"(?<!\d)(?P<year>(?:19|20)\d{2})[-_.]?(?P<month>[01]\d)[-_.]?(?P<day>[0-3]\d)(?!\d)"
)
_BLANK = re.compile(r"\n(?:[ \t]*[-=_*#~]{3,}[ \t]*\n|[ \t]*\n)+")
"""Empty lines and lines of dashes."""
_GENERIC = re.compile(
    r"(?:patient|notes?|files?|visits?|clinic|clinical|discharge|summary|eeg|report|letter|progress"
    r"|consult|follow|up|followup|admission|phone|telephone|call|documents?|charts?|(?:19|20)\d\d)\d{0,3}",
    re.I,
)
"""Words in names of files and folders that name no patient."""


@dataclass(frozen=True)
class OwnNotes:
    """Notes that were read.

    Attributes:
        notes: The notes, by patient and date.
        left_out: Reason for each file that was not read, by its name.
    """

    notes: tuple[Note, ...]
    left_out: Mapping[str, str]

    @property
    def patients(self) -> list[str]:
        """Their patients, in order."""
        return sorted({note.patient_id for note in self.notes})

    @property
    def without_date(self) -> int:
        """How many have no date that was found."""
        return sum(note.date == NO_DATE for note in self.notes)


def read_notes(path: Path) -> OwnNotes:
    """Read the notes of a folder or of a table.

    Args:
        path: A folder of text, Word, PDF or HTML files, of tables, or of both; or one table.

    Raises:
        FolderError: There is nothing there that can be read.
        TextError: A table has no text, or cannot be read.
    """
    if path.is_file() and path.suffix.lower() in TABLE_KINDS:
        return _sorted_notes(_read_table(path, path.name), {})
    if not path.is_dir():
        raise FolderError(
            f"A folder of notes was needed, or a table ({', '.join(TABLE_KINDS)}); there is none "
            f"at {printable(str(path))}."
        )
    notes, tables_left_out = _read_tables(path)
    found = documents.read_documents(path, READ_DOCUMENTS, other_kinds=TABLE_KINDS)
    for document in found.documents:
        notes += split_document(document, path.resolve().name)
    left_out = {**found.left_out, **tables_left_out}
    if not notes:
        raise documents.no_text_error(path, (*documents.KINDS, *TABLE_KINDS), left_out)
    return _sorted_notes(notes, left_out)


def _read_tables(folder: Path) -> tuple[list[Note], dict[str, str]]:
    """Read the tables of a folder; those that cannot be read have a reason by name."""
    notes: list[Note] = []
    left_out: dict[str, str] = {}
    listing = list_files(folder, TABLE_KINDS)
    for place, file in sorted(listing.files.items()):
        name = listing.names[place]
        try:
            notes += _read_table(file, name)
        except TextError as error:
            left_out[name] = printable(" ".join(str(error).split()))
    return notes, left_out


def _sorted_notes(notes: Iterable[Note], left_out: Mapping[str, str]) -> OwnNotes:
    """Put notes in order, each with an identifier of its own."""
    used: dict[str, int] = {}
    ordered = []
    for note in sorted(notes, key=lambda note: (note.patient_id, note.date, note.note_id)):
        used[note.note_id] = used.get(note.note_id, 0) + 1
        number = used[note.note_id]
        note_id = note.note_id if number == 1 else f"{note.note_id} ({number})"
        ordered.append(_note(note_id, note.patient_id, note.date, note.text, note.source))
    return OwnNotes(tuple(ordered), left_out)


def _note(note_id: str, patient: str, day: date, text: str, source: str) -> Note:
    return Note(
        note_id=note_id,
        patient_id=patient,
        date=day,
        kind="clinical note",
        text=text,
        source=source,
    )


# ------------------------------------------------------------------------------------------ files


def split_document(document: Document, folder: str) -> Iterator[Note]:
    """Read the notes of one file: one, or several that begin with their dates.

    Args:
        document: The file.
        folder: Name of the folder that all files are in.
    """
    path = PurePosixPath(document.name)
    patient = _patient_of(path, document.text, folder)
    starts = _note_starts(document.text)
    if len(starts) < 2:
        day = _day_of_file(path.stem) or _day_in_head(document.text) or NO_DATE
        yield _note(str(path.with_suffix("")), patient, day, document.text, document.name)
        return
    starts[0] = (0, starts[0][1])  # what stands before the first date belongs to its note
    ends = [start for start, _ in starts[1:]] + [len(document.text)]
    for number, ((start, day), end) in enumerate(zip(starts, ends, strict=True), start=1):
        text = document.text[start:end].strip()
        note_id = f"{path.with_suffix('')}#{number}"
        yield _note(note_id, patient, day, text, document.name)


def _note_starts(text: str) -> list[tuple[int, date]]:
    """Where blocks begin whose first lines have a date, and the date."""
    starts = []
    block_starts = [0, *(match.end() for match in _BLANK.finditer(text))]
    for start in block_starts:
        block = _BLANK.split(text[start : start + 4 * MAX_HEAD_LINE], maxsplit=1)[0]
        lines = block.split("\n")[:3]
        day = _day_in_lines([line for line in lines if len(line) <= MAX_HEAD_LINE])
        if day:
            starts.append((start, day))
    return starts


def _day_in_head(text: str) -> date | None:
    """The date in the first lines of a note."""
    return _day_in_lines(text.split("\n")[:HEAD_LINES])


def _day_in_lines(lines: Iterable[str]) -> date | None:
    for line in lines:
        match = _DATE_LINE.match(line)
        day = parse_day(match["day"]) if match else None
        if day:
            return day
    return None


def parse_day(text: str) -> date | None:
    """Read a day; None if there is none, as in 02/30/2020."""
    try:
        return period(text.strip())[0]
    except ValueError:
        return None


def _day_of_file(stem: str) -> date | None:
    match = _FILE_DAY.search(stem)
    if not match:
        return None
    return parse_day(f"{match['year']}-{match['month']}-{match['day']}")


def _patient_of(path: PurePosixPath, text: str, folder: str) -> str:
    """The patient of a file: as its head says, or by the names of its folder and file."""
    for line in text.split("\n")[:HEAD_LINES]:
        match = _PATIENT_LINE.match(line)
        if match:
            return match["patient"]
    for parent in reversed(path.parts[:-1]):
        if _without_generic(parent):
            return parent
    return _without_generic(_FILE_DAY.sub(" ", path.stem)) or folder


def _without_generic(name: str) -> str:
    """A name without its words that name no patient."""
    words = []
    for part in re.split(r"[\s_]+|-(?=[A-Za-z])", name):
        word = part.strip("-.")
        if word and not _GENERIC.fullmatch(word):
            words.append(word)
    return "_".join(words)


# ------------------------------------------------------------------------------------------ tables


def _read_table(path: Path, name: str) -> list[Note]:
    """Read a table with a note in each row; without a column of patients each has its own.

    Raises:
        TextError: It has no column of texts.
    """
    table = tables.read_table(path)
    rename = "renaming a column in the first line of the table"
    text_column = tables.find_column(table, "", TEXT_COLUMNS, rename)
    patient_column = tables.find_column(table, "", PATIENT_COLUMNS, rename, needed=False)
    date_column = tables.find_column(table, "", DATE_COLUMNS, rename, needed=False)
    note_column = tables.find_column(table, "", NOTE_COLUMNS, rename, needed=False)
    notes = []
    for number, row in table.iterrows():
        text = str(row[text_column]).strip()
        if not text:
            continue
        day = _day_of_cell(str(row[date_column])) if date_column else NO_DATE
        own_id = str(row[note_column]).strip() if note_column else ""
        note_id = own_id or f"{name}:{number}"
        patient = str(row[patient_column]).strip() if patient_column else note_id
        notes.append(_note(note_id, patient, day, text, f"{name}, row {number}"))
    if not notes:
        raise TextError(f"its column {text_column!r} has no text.")
    return notes


def _day_of_cell(text: str) -> date:
    """The date of a cell, whose time does not count."""
    day = parse_day(text) or parse_day(text.strip().split(" ")[0].split("T")[0])
    if day:
        return day
    parsed = pd.to_datetime(text, errors="coerce")
    return NO_DATE if pd.isna(parsed) else parsed.date()
