"""The registry of medications and seizures (clinical_notes.md, "Registry schema"): a row is one drug of one note."""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd
import pyarrow as pa

from papers.clinical_notes.cleaning import CONTEXT_LIMIT, TERMS, clean
from papers.clinical_notes.extraction import Medication, Reading
from papers.clinical_notes.gold import Note
from papers.clinical_notes.wording import words
from resources.settings import DERIVED

REGISTRY: Final = DERIVED / "clinical_notes" / "all_patients_combined.parquet"
_NAMES = """row_id event_id event_type patient_id note_date note_id source_text_file source_date_key medication
    medication_dosage intake_times_per_day drug_mention_count medication_effectiveness seizure_status seizure_symptoms
    route form note_text extraction_context"""
_TYPES = {
    "intake_times_per_day": pa.float64(),
    "drug_mention_count": pa.int64(),
    "seizure_symptoms": pa.list_(pa.string()),
}
SCHEMA: Final = pa.schema([(name, _TYPES.get(name, pa.string())) for name in _NAMES.split()])
"""The paper's nineteen columns, in its order."""


def effectiveness(passage: str) -> str | None:
    """What a passage says of how well a drug works, by the words of `data/clinical_terms.yml`; None if nothing."""
    lower = passage.lower()
    known = words(TERMS)["effectiveness"]
    return next(
        (str(name) for name, signs in known.items() if any(sign in lower for sign in signs)), None
    )


def _line(text: str, start: int, end: int) -> str:
    last = text.find("\n", end)
    return text[text.rfind("\n", 0, start) + 1 : last if last >= 0 else len(text)]


def build(notes: Sequence[Note], readings: Sequence[Reading]) -> pd.DataFrame:
    """The registry: a row for each drug that a note says the patient takes, in order of note.

    A drug's row takes the first value that the note states of each attribute. A note without any drug keeps one row
    with no medication, so that its seizure status is not lost.
    """
    if [n.note_id for n in notes] != [r.note_id for r in readings]:
        raise ValueError("Each note needs its own reading, in the same order.")
    rows: list[dict[str, object]] = []
    for note, reading in zip(notes, readings, strict=True):
        taken: dict[str, list[Medication]] = {}
        for medication in reading.medications:
            if medication.role == "current":
                taken.setdefault(medication.drug, []).append(medication)
        symptoms = {
            f.term for f in reading.findings if f.kind == "symptom" and f.context == "affirmed"
        }
        common = {
            "event_id": f"{note.note_id}-E",
            "event_type": "clinical_note",
            "patient_id": note.patient_id,
            "note_date": note.date.isoformat(),
            "note_id": note.note_id,
            "source_text_file": f"patient_notes/{note.patient_id}/{note.note_id}.txt",
            "source_date_key": note.date.isoformat(),
            "seizure_status": reading.status,
            "seizure_symptoms": sorted(symptoms),
            "note_text": note.text,
        }
        for number, (drug, of) in enumerate(taken.items() or [("", [])], start=1):
            kinds = ("strength", "frequency", "route", "form")
            said = {
                kind: next(filter(None, (getattr(m, kind) for m in of)), None) for kind in kinds
            }
            placed = [m for m in of if m.end]
            worths = (effectiveness(_line(note.text, m.start, m.end)) for m in placed)
            context = (
                note.text[max(0, of[0].start - CONTEXT_LIMIT) : of[0].end + CONTEXT_LIMIT]
                if placed
                else None
            )
            own = {
                "row_id": f"{note.note_id}-R{number:02}",
                "medication": drug or None,
                "medication_dosage": said["strength"],
                "intake_times_per_day": pd.to_numeric(said["frequency"] or "", errors="coerce"),
                "drug_mention_count": len(of),
                "medication_effectiveness": next(filter(None, worths), None),
                "route": said["route"],
                "form": said["form"],
                "extraction_context": clean(context).text if context else None,
            }
            rows.append(common | own)
    return pd.DataFrame(rows, columns=SCHEMA.names)


def write(registry: pd.DataFrame, path: Path = REGISTRY) -> Path:
    """Write the registry as Parquet with the columns and types of `SCHEMA`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    registry.to_parquet(part, schema=SCHEMA, index=False)
    part.replace(path)
    return path
