"""The registry of medications and seizures (clinical_notes.md, "Registry schema").

A row is one drug of one note, whether the patient takes it or not: the paper stores each
note-medication event, and its schema has no column for a drug's role.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, get_args

import pandas as pd
import pyarrow as pa

from papers.clinical_notes.cleaning import CONTEXT_LIMIT, TERMS, clean
from papers.clinical_notes.extraction import Medication, Reading
from papers.clinical_notes.gold import NO_DATE, Note, Role
from papers.clinical_notes.lines import sentence
from papers.clinical_notes.wording import words
from resources.settings import DERIVED

ROLES: Final[tuple[Role, ...]] = get_args(Role)
TAKEN: Final[tuple[Role, ...]] = ("current",)
"""Role of the drugs that a note reports as taken."""
REGISTRY: Final = DERIVED / "clinical_notes" / "all_patients_combined.parquet"
_COLUMNS: Final = (
    "row_id",
    "event_id",
    "event_type",
    "patient_id",
    "note_date",
    "note_id",
    "source_text_file",
    "source_date_key",
    "medication",
    "medication_dosage",
    "intake_times_per_day",
    "drug_mention_count",
    "medication_effectiveness",
    "seizure_status",
    "seizure_symptoms",
    "route",
    "form",
    "note_text",
    "extraction_context",
)
_TYPES: Final = {
    "intake_times_per_day": pa.float64(),
    "drug_mention_count": pa.int64(),
    "seizure_symptoms": pa.list_(pa.string()),
}
_TEXT: Final = pa.string()
SCHEMA: Final = pa.schema([(name, _TYPES.get(name, _TEXT)) for name in _COLUMNS])
"""The paper's nineteen columns, in its order."""


def effectiveness(passage: str) -> str | None:
    """Read how well a drug works, by the words of `data/clinical_terms.yml`.

    Returns:
        The effectiveness; None if the passage does not state it.
    """
    lower = passage.lower()
    for name, signs in words(TERMS)["effectiveness"].items():
        if any(sign in lower for sign in signs):
            return str(name)
    return None


def build(
    notes: Sequence[Note], readings: Sequence[Reading], roles: Collection[Role] = ROLES
) -> pd.DataFrame:
    """Build the registry: a row for each drug that a note names, in order of note.

    A drug's row has the first value that the note states of each attribute. A note without any
    drug has one row without a medication, which holds its seizure status.

    Args:
        notes: The notes.
        readings: What an extractor read in each.
        roles: Roles of the mentions that count; all of them in the paper's registry.

    Raises:
        ValueError: If the readings are of other notes, or in another order.
    """
    if [note.note_id for note in notes] != [reading.note_id for reading in readings]:
        raise ValueError("Each note needs its own reading, in the same order.")
    rows: list[dict[str, object]] = []
    for note, reading in zip(notes, readings, strict=True):
        mentions = [mention for mention in reading.medications if mention.role in roles]
        rows += _rows(note, reading, mentions)
    return pd.DataFrame(rows, columns=SCHEMA.names)


def _rows(
    note: Note, reading: Reading, medications: Sequence[Medication]
) -> list[dict[str, object]]:
    """The rows of one note."""
    mentions_by_drug: dict[str, list[Medication]] = {}
    for medication in medications:
        mentions_by_drug.setdefault(medication.drug, []).append(medication)
    if not mentions_by_drug:
        mentions_by_drug[""] = []
    columns = _note_columns(note, reading)
    rows = []
    for number, (drug, mentions) in enumerate(mentions_by_drug.items(), start=1):
        row_id = f"{note.note_id}-R{number:02}"
        rows.append(columns | {"row_id": row_id} | _drug_columns(note, drug, mentions))
    return rows


def _note_columns(note: Note, reading: Reading) -> dict[str, object]:
    """What all rows of a note share."""
    day = "" if note.date == NO_DATE else note.date.isoformat()
    return {
        "event_id": f"{note.note_id}-E",
        "event_type": "clinical_note",
        "patient_id": note.patient_id,
        "note_date": day,
        "note_id": note.note_id,
        "source_text_file": note.source or f"patient_notes/{note.patient_id}/{note.note_id}.txt",
        "source_date_key": day,
        "seizure_status": reading.status,
        "seizure_symptoms": sorted(seizure_symptoms(reading)),
        "note_text": note.text,
    }


def _drug_columns(note: Note, drug: str, mentions: Sequence[Medication]) -> dict[str, object]:
    """What a note states of one drug."""
    # an extractor that gives no places leaves `end` at 0
    placed = [mention for mention in mentions if mention.end]
    context = _context(note.text, mentions[0]) if placed else None
    times = _first_stated(mentions, "frequency") or ""
    return {
        "medication": drug or None,
        "medication_dosage": _first_stated(mentions, "strength"),
        "intake_times_per_day": pd.to_numeric(times, errors="coerce"),
        "drug_mention_count": len(mentions),
        "medication_effectiveness": effectiveness_of(note.text, placed),
        "route": _first_stated(mentions, "route"),
        "form": _first_stated(mentions, "form"),
        "extraction_context": context,
    }


def _context(text: str, mention: Medication) -> str:
    """A mention with the text around it, cleaned."""
    first = max(0, mention.start - CONTEXT_LIMIT)
    return clean(text[first : mention.end + CONTEXT_LIMIT]).text


def _first_stated(mentions: Sequence[Medication], attribute: str) -> str | None:
    for mention in mentions:
        value: str | None = getattr(mention, attribute)
        if value:
            return value
    return None


def seizure_symptoms(reading: Reading) -> set[str]:
    """Return the symptoms of the patient's seizures; effects of drugs are none."""
    return {finding.term for finding in reading.findings if finding.is_ictal}


def effectiveness_of(text: str, mentions: Sequence[Medication]) -> str | None:
    """Return the first statement of a note on how well a drug works, by its mentions."""
    for mention in mentions:
        known = effectiveness(sentence(text, mention.start, mention.end))
        if known:
            return known
    return None


def write(registry: pd.DataFrame, path: Path = REGISTRY) -> Path:
    """Write the registry as Parquet with the columns and types of `SCHEMA`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    registry.to_parquet(part, schema=SCHEMA, index=False)
    part.replace(path)
    return path
