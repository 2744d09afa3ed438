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

    Args:
        registry: the paper's schema ("Registry schema"), one row a note and medication; a note without a medication has
            one row without it. Columns used: patient_id, note_date, medication, medication_dosage,
            intake_times_per_day, medication_effectiveness, seizure_status, seizure_symptoms.
        question: with patient, drug and days; its text is not read.
        antiseizure: drugs that count as antiseizure medication.
    """
    rows = registry[registry.patient_id == question.patient]
    days = pd.to_datetime(rows.note_date)
    if question.since and question.until:
        rows = rows[(days >= pd.Timestamp(question.since)) & (days <= pd.Timestamp(question.until))]
    if question.drug:
        rows = rows[rows.medication == question.drug]
    return _FROM_ROWS[question.kind](rows, antiseizure) if len(rows) else None


def _medications(rows: pd.DataFrame, antiseizure: frozenset[str]) -> Value | None:
    return frozenset(rows.medication.dropna()) & antiseizure or None


def _dose(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    doses = [dose for text in rows.medication_dosage.dropna() if (dose := read_dose(str(text)))]
    return doses[-1] if doses else None


def _outcome(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    days = pd.to_datetime(rows.note_date)
    last_year = rows[days >= days.max() - pd.Timedelta(days=365)]
    seizing = bool((last_year.seizure_status == "positive").any())
    if not seizing:
        return "successful" if (last_year.seizure_status == "negative").any() else None
    failed = rows.loc[rows.medication_effectiveness == "ineffective", "medication"].nunique()
    return "refractory" if failed >= 2 else "undetermined"


def _timeline(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    days = pd.to_datetime(rows.note_date)
    return days.min().date(), days.max().date()


def _effectiveness(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    known = rows.dropna(subset="medication_effectiveness").sort_values("note_date", kind="stable")
    known = known[known.medication_effectiveness.isin(EFFECTS)]
    return str(known.medication_effectiveness.iloc[-1]) if len(known) else None


def _frequency(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    times = pd.to_numeric(rows.intake_times_per_day, errors="coerce").dropna()
    return float(times.mode().iloc[0]) if len(times) else None


def _symptoms(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    return frozenset(name for names in rows.seizure_symptoms for name in names) or None


_FROM_ROWS: dict[Kind, Callable[[pd.DataFrame, frozenset[str]], Value | None]] = {
    "medications": _medications,
    "dose": _dose,
    "outcome": _outcome,
    "timeline": _timeline,
    "effectiveness": _effectiveness,
    "frequency": _frequency,
    "symptoms": _symptoms,
}


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
