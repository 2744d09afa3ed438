"""What counts as right in an extraction, as rows of notes: spans, values, seizure status; clustered by patient."""

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from evaluation import figures
from evaluation.answers import Answer, Item, PlainUnit
from evaluation.measures import set_measures
from evaluation.outcomes import Outcomes
from papers.clinical_notes.extraction import ATTRIBUTES, Extractor, Reading, Status
from papers.clinical_notes.gold import LABELS, Chart, Mention, Note, SeizureStatus
from rag.prompts import each

ARMS = {
    "rules": "Rules, one spelling error allowed",
    "rules_default": "Rules, with medspaCy's own ConText rules",
    "med7": "Med7",
    "llm": "Language model",
    "commonest": "Always the commonest (floor)",
    "context_default": "ConText, medspaCy's own rules",
    "context_own": "ConText, with the project's rules",
}
COLOURS = {"rules": "#125ee0", "rules_default": "#a0a0a0", "med7": "#af219d", "llm": "#079c6b"}
VALUES = ("drug", *ATTRIBUTES.values())
"""What is said of a drug that the patient takes."""

T = TypeVar("T")
Span = tuple[int, int]
Ratios = dict[str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class NoteUnit(PlainUnit):
    """A note with its gold spans, to be read; `gold` is its seizure status."""

    gold: Status
    note: Note
    mentions: tuple[Mention, ...]


def note_units(charts: Sequence[Chart], asked: Collection[str] = ()) -> list[NoteUnit]:
    """The notes of these charts; those in `asked`, by identifier, are read by a language model too."""
    return [
        NoteUnit(
            note.note_id,
            note.patient_id,
            "",
            gold=gold_status(chart, note),
            strata={"asked": "yes" if note.note_id in asked else "no"},
            note=note,
            mentions=tuple(m for m in chart.mentions if m.note_id == note.note_id),
        )
        for chart in charts
        for note in chart.notes
    ]


def gold_status(chart: Chart, note: Note) -> Status:
    """The seizure status that a note states of itself."""
    of = {
        f.status
        for f in chart.of(SeizureStatus)
        if f.note_id == note.note_id and f.copied_from is None
    }
    return "positive" if "positive" in of else "negative" if of else "unknown"


def by_extractor(
    read: Extractor, *, spans: bool = True, values: Collection[str] = VALUES, model: str = ""
) -> Callable[[Sequence[NoteUnit]], list[Answer]]:
    """An extractor as an arm, with what it gives: spans or none, and values. `model` is a name that a claim names.

    Measures: accuracy (of the status); precision, recall and f1 of exact spans, recall by whose words the sentence is
    in, overlap_f1; taken_..._f1 of values linked to a drug that is taken.
    """

    def row(unit: NoteUnit, reading: Reading) -> Answer:
        measures: Ratios = {
            "accuracy": (float(reading.parsed and reading.status == unit.gold), 1.0)
        }
        items: list[Item] = []
        if spans:
            gold = {(m.label, m.start, m.end): m.wording for m in unit.mentions}
            found = set(reading.spans)
            items = [
                Item(
                    f"{span[0]}:{span[1]}-{span[2]}",
                    span[0],
                    gold=span in gold,
                    predicted=span in found,
                )
                for span in sorted(gold.keys() | found)
            ]
            measures |= set_measures(gold.keys(), found)
            for wording in sorted(set(gold.values())):
                hits = [span in found for span, whose in gold.items() if whose == wording]
                measures[f"recall_{wording.replace(' ', '_')}"] = (
                    float(sum(hits)),
                    float(len(hits)),
                )
            overlapping: set[Hashable] = set()
            for label in LABELS:
                mine, theirs = (
                    {(s, e) for name, s, e in of if name == label} for of in (gold, found)
                )
                overlapping |= {(label, *span) for span in matched(mine, theirs)}
            measures |= _f1("overlap_f1", gold.keys(), overlapping)
        for name in values:
            measures |= _f1(
                f"taken_{name}_f1", _gold_values(unit, name), _read_values(reading, name)
            )
        return Answer(
            task="notes",
            model=model,
            predicted=reading.status,
            parsed=reading.parsed,
            items=items,
            measures=measures,
            **(reading.reply.columns if reading.reply else {}),
        )

    return each(read, lambda unit: unit.note, row)


def _gold_values(unit: NoteUnit, name: str) -> set[tuple[str, ...]]:
    taken = [m for m in unit.mentions if m.role == "current" and m.label.lower() == name]
    return {(m.drug,) if name == "drug" else (m.drug, m.value.lower()) for m in taken}


def _read_values(reading: Reading, name: str) -> set[tuple[str, ...]]:
    taken = [m for m in reading.medications if m.role == "current"]
    if name == "drug":
        return {(m.drug,) for m in taken}
    return {(m.drug, value) for m in taken if (value := getattr(m, name))}


def _f1(name: str, gold: Collection[Hashable], found: Collection[Hashable]) -> Ratios:
    return {name: set_measures(gold, found)["f1"]} if gold or found else {}


def matched(gold: Collection[Span], found: Collection[Span]) -> set[Span]:
    """Found spans, each replaced by the gold span that it overlaps, if there is one: the lenient count.

    A gold span that two found spans overlap counts once; the second is then an error.
    """
    out: set[Span] = set()
    for start, end in sorted(found):
        free = [
            span for span in sorted(gold) if span[0] < end and span[1] > start and span not in out
        ]
        out.add(free[0] if free else (start, end))
    return out


def commonest(units: Sequence[NoteUnit]) -> list[Answer]:
    """The floor of the seizure status: the commonest of these notes in all of them."""
    [(status, _)] = Counter(unit.gold for unit in units).most_common(1)
    return [
        Answer(
            task="notes", predicted=status, measures={"accuracy": (float(u.gold == status), 1.0)}
        )
        for u in units
    ]


def some(items: Sequence[T], n: int, seed: int) -> list[T]:
    """So many of them, drawn evenly and kept in their order; all if there are no more."""
    chosen = np.random.default_rng(seed).choice(len(items), size=min(n, len(items)), replace=False)
    return [items[i] for i in sorted(chosen)]


def summary(outcomes: Outcomes, not_run: Collection[str]) -> str:
    """The page's answer, from rows of notes; `not_run` are arms that have none."""

    def told(measure: str, arm: str = "rules", **only: str) -> str:
        return figures.score_text(outcomes.where(task="notes", **only).score(measure, arm))

    text = f"**The rules find the drugs that a note reports as taken with an F1 of {told('taken_drug_f1')}.** "
    if {"rules"} <= outcomes.arms_with("recall_shared") & outcomes.arms_with("recall_held_out"):
        text += (
            f"They find {told('recall_shared')} of the spans in wording for which they were written, and "
            f"{told('recall_held_out')} in held-out wording. "
        )
    if "llm" in outcomes.arms_with("taken_drug_f1"):
        text += (
            f"On the notes that the language model read, it reaches {told('taken_drug_f1', 'llm', asked='yes')}, and "
            f"the rules reach {told('taken_drug_f1', asked='yes')}. "
        )
    return text + "".join(f"{outcomes.label(arm)} was not run. " for arm in not_run)
