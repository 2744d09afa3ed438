"""Answers about charts by code: a few lines for each kind of question on the columns of a registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import pandas as pd

from helpers.results.answers import Answer
from papers.clinical_notes.answers import EFFECTS, read_dose
from papers.clinical_notes.chart_questions import NOT_FOUND, ChartQuestion, Kind, Value, spoken
from papers.clinical_notes.gold import Charts, Note
from papers.clinical_notes.questions import FactT


def by_code(registry: pd.DataFrame, antiseizure: Iterable[str]) -> Callable[[Sequence[ChartQuestion]], list[Answer]]:
    """An arm without a model: see `answer_by_registry`."""
    known = frozenset(antiseizure)

    def answer(questions: Sequence[ChartQuestion]) -> list[Answer]:
        values = [answer_by_registry(registry, question, known) for question in questions]
        return [
            Answer(
                task=question.kind,
                predicted=NOT_FOUND if value is None else spoken(value),
                measures={"accuracy": (float(question.is_right(value)), 1.0)},
            )
            for question, value in zip(questions, values, strict=True)
        ]

    return answer


def answer_by_registry(registry: pd.DataFrame, question: ChartQuestion, antiseizure: frozenset[str]) -> Value | None:
    """The answer that the registry's columns give; None if they hold none, which reads as "Not found in chart".

    The registry is the paper's ("Registry schema"); a note without a medication has one row without it. The question's
    text is not read.
    """
    rows = registry[registry.patient_id == question.patient]
    days = pd.to_datetime(rows.note_date)
    if question.since and question.until:
        rows = rows[(days >= pd.Timestamp(question.since)) & (days <= pd.Timestamp(question.until))]
    if question.drug:
        rows = rows[rows.medication == question.drug]
    return _from_rows(question.kind, rows, pd.to_datetime(rows.note_date), antiseizure) if len(rows) else None


def _from_rows(kind: Kind, rows: pd.DataFrame, days: pd.Series, antiseizure: frozenset[str]) -> Value | None:
    """The answer to one kind of question, from the rows that it is about and their days."""
    if kind == "medications":
        return frozenset(rows.medication.dropna()) & antiseizure or None
    if kind == "symptoms":
        return frozenset(name for names in rows.seizure_symptoms for name in names) or None
    if kind == "timeline":
        return days.min().date(), days.max().date()
    if kind == "dose":
        doses = [dose for text in rows.medication_dosage.dropna() if (dose := read_dose(str(text)))]
        return doses[-1] if doses else None
    if kind == "frequency":
        times = pd.to_numeric(rows.intake_times_per_day, errors="coerce").dropna()
        return float(times.mode().iloc[0]) if len(times) else None
    return _outcome(rows, days) if kind == "outcome" else _effectiveness(rows)


def _outcome(rows: pd.DataFrame, days: pd.Series) -> Value | None:
    last_year = rows.seizure_status[days >= days.max() - pd.Timedelta(days=365)]
    if not (last_year == "positive").any():
        return "successful" if (last_year == "negative").any() else None
    failed = rows.medication[rows.medication_effectiveness == "ineffective"].nunique()
    return "refractory" if failed >= 2 else "undetermined"


def _effectiveness(rows: pd.DataFrame) -> Value | None:
    known = rows.sort_values("note_date", kind="stable").medication_effectiveness
    known = known[known.isin(EFFECTS)]
    return str(known.iloc[-1]) if len(known) else None


def gold_registry(charts: Charts) -> pd.DataFrame:
    """The registry as a perfect extraction would make it: the columns that `answer_by_registry` reads, from gold facts.

    What was copied forward is left out, and so is a drug that is only an idea or taken by a relative.
    """
    rows: list[dict[str, object]] = []
    for chart in charts:
        for note in chart.notes:
            status = {s.status for s in _own(chart.seizures, note)}
            symptoms = [s for s in _own(chart.symptoms, note) if s.role == "seizure" and s.context == "affirmed"]
            row: dict[str, object] = {
                "patient_id": chart.patient_id,
                "note_id": note.note_id,
                "note_date": note.date.isoformat(),
                "medication": None,
                "medication_dosage": None,
                "intake_times_per_day": None,
                "medication_effectiveness": None,
                "seizure_status": "positive" if "positive" in status else "negative" if status else "unknown",
                "seizure_symptoms": sorted({s.name for s in symptoms}),
            }
            events = [m for m in _own(chart.medications, note) if not m.past and m.action != "single dose"]
            rows += [
                row
                | {
                    "medication": m.drug,
                    "medication_dosage": f"{m.dose_mg:g} mg" if m.dose_mg else None,
                    "intake_times_per_day": m.times_per_day,
                    "medication_effectiveness": m.effectiveness,
                }
                for m in events
            ] or [row]
    return pd.DataFrame(rows)


def _own(facts: Iterable[FactT], note: Note) -> list[FactT]:
    return [f for f in facts if f.note_id == note.note_id and f.copied_from is None]
