"""The registry of medications and seizures (clinical_notes.md, "Registry schema"): a row is one drug of one note."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from helpers.settings import DATA, DERIVED
from papers.clinical_notes.cleaning import window
from papers.clinical_notes.extraction import Medication, Reading
from papers.clinical_notes.gold import Note
from papers.clinical_notes.wording import words

REGISTRY: Final = DERIVED / "clinical_notes" / "all_patients_combined.parquet"
SCHEMA: Final = pa.schema(
    [
        ("row_id", pa.string()),
        ("event_id", pa.string()),
        ("event_type", pa.string()),
        ("patient_id", pa.string()),
        ("note_date", pa.string()),
        ("note_id", pa.string()),
        ("source_text_file", pa.string()),
        ("source_date_key", pa.string()),
        ("medication", pa.string()),
        ("medication_dosage", pa.string()),
        ("intake_times_per_day", pa.float64()),
        ("drug_mention_count", pa.int64()),
        ("medication_effectiveness", pa.string()),
        ("seizure_status", pa.string()),
        ("seizure_symptoms", pa.list_(pa.string())),
        ("route", pa.string()),
        ("form", pa.string()),
        ("note_text", pa.string()),
        ("extraction_context", pa.string()),
    ]
)
"""The paper's nineteen columns, in its order."""


# ------------------------------------------------------------------------------------------------------- registry


def effectiveness(passage: str) -> str | None:
    """What a passage says of how well a drug works, by the words of `data/clinical_terms.yml`; None if nothing."""
    lower = passage.lower()
    for name, signs in words(DATA / "clinical_terms.yml")["effectiveness"].items():
        if any(sign in lower for sign in signs):
            return str(name)
    return None


def _line(text: str, start: int, end: int) -> str:
    last = text.find("\n", end)
    return text[text.rfind("\n", 0, start) + 1 : last if last >= 0 else len(text)]


def build(notes: Sequence[Note], readings: Sequence[Reading]) -> pd.DataFrame:
    """The registry: a row for each drug that a note says the patient takes, in order of note.

    A drug's row takes the first value that the note states of each attribute. A note without any drug keeps one row
    with no medication, so that its seizure status is not lost.

    Raises:
        ValueError: notes and readings are not of the same notes.
    """
    if [n.note_id for n in notes] != [r.note_id for r in readings]:
        raise ValueError("Each note needs its own reading, in the same order.")
    rows: list[dict[str, object]] = []
    for note, reading in zip(notes, readings, strict=True):
        taken: dict[str, list[Medication]] = {}
        for medication in reading.medications:
            if medication.role == "current":
                taken.setdefault(medication.drug, []).append(medication)
        seen = {f.term for f in reading.findings if f.kind == "symptom" and f.context == "affirmed"}
        common = {
            "event_id": f"{note.note_id}-E",
            "event_type": "clinical_note",
            "patient_id": note.patient_id,
            "note_date": note.date.isoformat(),
            "note_id": note.note_id,
            "source_text_file": f"patient_notes/{note.patient_id}/{note.note_id}.txt",
            "source_date_key": note.date.isoformat(),
            "seizure_status": reading.status,
            "seizure_symptoms": sorted(seen),
            "note_text": note.text,
        }
        for number, (drug, of) in enumerate(taken.items() or [("", [])], start=1):
            said = {
                k: next(filter(None, (getattr(m, k) for m in of)), None)
                for k in ("strength", "frequency", "route", "form")
            }
            passages = [_line(note.text, m.start, m.end) for m in of if m.end]
            worth = next((e for e in map(effectiveness, passages) if e), None)
            rows.append(
                common
                | {
                    "row_id": f"{note.note_id}-R{number:02}",
                    "medication": drug or None,
                    "medication_dosage": said["strength"],
                    "intake_times_per_day": _times(said["frequency"]),
                    "drug_mention_count": len(of),
                    "medication_effectiveness": worth,
                    "route": said["route"],
                    "form": said["form"],
                    "extraction_context": window(note.text, of[0].start, of[0].end) if passages else None,
                }
            )
    return pd.DataFrame(rows, columns=SCHEMA.names)


def _times(frequency: str | None) -> float | None:
    return float(frequency) if frequency and re.fullmatch(r"\d+(\.\d+)?", frequency) else None


def write(registry: pd.DataFrame, path: Path = REGISTRY) -> Path:
    """Write the registry as Parquet with the columns and types of `SCHEMA`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    pq.write_table(pa.Table.from_pandas(registry, schema=SCHEMA, preserve_index=False), part)
    part.replace(path)
    return path


def read(path: Path = REGISTRY) -> pd.DataFrame:
    """The registry as `write` left it.

    Raises:
        ValueError: its columns are not those of `SCHEMA`.
    """
    table = pq.read_table(path)
    if not table.schema.equals(SCHEMA):
        raise ValueError(f"{path.name} has not the registry's columns; delete it and run 12_notes_registry again.")
    return table.to_pandas()


def columns(registry: pd.DataFrame) -> pd.DataFrame:
    """The registry's columns with their types, and the share of rows in which each is filled."""
    filled = registry.assign(seizure_symptoms=registry.seizure_symptoms.map(lambda names: len(names) or None)).notna()
    return pd.DataFrame(
        [{"column": f.name, "type": str(f.type), "rows with a value": filled[f.name].mean()} for f in SCHEMA]
    )
