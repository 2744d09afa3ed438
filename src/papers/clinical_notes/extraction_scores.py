"""What counts as right in an extraction, as rows: of notes (spans, values, seizure status) and of mentions (ConText).

Rows of notes have the task `notes`, those of mentions `mentions`. Everything is clustered by patient.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from helpers.completions import Choice
from helpers.results import figures
from helpers.results.answers import Answer, Item
from helpers.results.measures import of_sets
from helpers.results.outcomes import Outcomes
from papers.clinical_notes.extraction import ATTRIBUTES, Extractor, Reading, Status
from papers.clinical_notes.gold import CONTEXTS, LABELS, Chart, Context, ContextMention, Mention, Note

ARMS = {
    "rules_exact": "Rules, exact names",
    "rules": "Rules, one slip allowed",
    "rules_default": "Rules, with medspaCy's own ConText rules",
    "ner": "Small spaCy model",
    "med7": "Med7",
    "llm": "Language model",
    "package": "Dictionary of drug-named-entity-recognition",
    "corpus": "The corpus itself",
    "commonest": "Always the commonest (floor)",
    "context_default": "ConText, medspaCy's own rules",
    "context_own": "ConText, with the project's rules",
}
COLOURS = dict(zip(ARMS, ("#808080", "#125ee0", "#a0a0a0", "#c35410", "#af219d", "#079c6b"), strict=False))
VALUES = ("drug", *ATTRIBUTES.values())
"""What is said of a drug that the patient takes."""

T = TypeVar("T")
Span = tuple[int, int]
Ratios = dict[str, tuple[float, float]]


# ------------------------------------------------------------------------------------------------------------- notes


@dataclass(frozen=True)
class NoteUnit:
    """A note with its gold spans, to be read; see `Answer` for unit, cluster, gold and strata.

    `reworded` are the templates of which some test note has a paraphrase.
    """

    unit: str
    cluster: str
    gold: Status
    strata: Mapping[str, str]
    note: Note
    mentions: tuple[Mention, ...]
    contexts: tuple[ContextMention, ...]
    reworded: frozenset[str] = frozenset()
    text: str = ""


def note_units(charts: Sequence[Chart], asked: Collection[str] = ()) -> list[NoteUnit]:
    """The notes of these charts; those in `asked`, by identifier, are read by a language model too."""
    reworded = frozenset(m.template for c in charts for m in c.mentions if m.wording == "paraphrased")
    return [
        NoteUnit(
            note.note_id,
            note.patient_id,
            gold_status(chart, note),
            {"asked": "yes" if note.note_id in asked else "no"},
            note,
            tuple(m for m in chart.mentions if m.note_id == note.note_id),
            tuple(m for m in chart.contexts if m.note_id == note.note_id),
            reworded,
        )
        for chart in charts
        for note in chart.notes
    ]


def gold_status(chart: Chart, note: Note) -> Status:
    """The seizure status that a note states of itself."""
    own = {fact.status for fact in chart.seizures if fact.note_id == note.note_id and fact.copied_from is None}
    return "positive" if "positive" in own else "negative" if own else "unknown"


def by_extractor(
    read: Extractor, *, spans: bool = True, values: Collection[str] = VALUES, model: str = ""
) -> Callable[[Sequence[NoteUnit]], list[Answer]]:
    """An extractor as an arm, with what it gives: spans or none, and values. `model` is a name that a claim names.

    Measures: accuracy (of the status); precision, recall and f1 of exact spans, f1 of each label, recall by whose words
    the sentence is in, overlap_f1; taken_..._f1 of values linked to a drug that is taken; mentions_found (of seizures
    and symptoms).
    """

    def row(unit: NoteUnit, reading: Reading) -> Answer:
        right = reading.parsed and reading.status == unit.gold
        measures: Ratios = {"accuracy": (float(right), 1.0)}
        items: list[Item] = []
        if spans:
            gold = {(m.label, m.start, m.end): m for m in unit.mentions}
            found = {(e.label, e.start, e.end) for e in reading.entities}
            items = [
                Item(f"{span[0]}:{span[1]}-{span[2]}", span[0], gold=span in gold, predicted=span in found)
                for span in sorted(gold.keys() | found)
            ]
            measures |= of_sets(gold.keys(), found) | by_wording(
                [(m, span in found) for span, m in gold.items()], unit.reworded, "recall"
            )
            overlapping: set[Hashable] = set()
            for label in LABELS:
                mine, theirs = ({(s, e) for name, s, e in of if name == label} for of in (gold, found))
                measures |= _f1(f"{label.lower()}_f1", mine, theirs)
                overlapping |= {(label, *span) for span in matched(mine, theirs)}
            measures |= _f1("overlap_f1", gold.keys(), overlapping)
        if spans and unit.contexts:
            hit = sum(any(f.start < m.end and f.end > m.start for f in reading.findings) for m in unit.contexts)
            measures["mentions_found"] = (float(hit), float(len(unit.contexts)))
        for name in values:
            measures |= _f1(f"taken_{name}_f1", _gold_values(unit, name), _read_values(reading, name))
        reply = reading.reply
        return Answer(
            task="notes",
            model=model,
            answer=reply.text if reply else None,
            predicted=reading.status,
            parsed=reading.parsed,
            cut=reply is not None and reply.status == "cut",
            overflow=reply is not None and reply.status == "overflow",
            items=items,
            measures=measures,
            requests=[reply.key] if reply and reply.key else [],
        )

    def answer(units: Sequence[NoteUnit]) -> list[Answer]:
        return [row(unit, reading) for unit, reading in zip(units, read([u.note for u in units]), strict=True)]

    return answer


def _gold_values(unit: NoteUnit, name: str) -> set[tuple[str, ...]]:
    taken = [m for m in unit.mentions if m.role == "current" and m.label.lower() == name]
    return {(m.drug,) if name == "drug" else (m.drug, m.value.lower()) for m in taken}


def _read_values(reading: Reading, name: str) -> set[tuple[str, ...]]:
    taken = [m for m in reading.medications if m.role == "current"]
    if name == "drug":
        return {(m.drug,) for m in taken}
    return {(m.drug, value) for m in taken if (value := getattr(m, name))}


def _f1(name: str, gold: Collection[Hashable], found: Collection[Hashable]) -> Ratios:
    both = float(len(gold) + len(found))
    return {name: (2.0 * len(set(gold) & set(found)), both)} if both else {}


def by_wording(hits: Iterable[tuple[Mention | ContextMention, bool]], reworded: Collection[str], name: str) -> Ratios:
    """Share of gold mentions that is right by whose words the sentence is in.

    `own_words` and `paraphrased` are of the same templates: those that were paraphrased somewhere in these notes.
    Whether one is, is drawn alike for each, so both are of about the same mixture of sentences.
    """
    counts: Counter[str] = Counter()
    right: Counter[str] = Counter()
    for mention, hit in hits:
        kinds = [mention.wording.replace(" ", "_")]
        kinds += ["own_words"] * (mention.wording == "shared" and mention.template in reworded)
        counts.update(kinds)
        right.update(kinds * hit)
    return {f"{name}_{kind}": (float(right[kind]), float(n)) for kind, n in counts.items()}


def matched(gold: Collection[Span], found: Collection[Span]) -> set[Span]:
    """Found spans, each replaced by the gold span that it overlaps, if there is one: the lenient count.

    A gold span that two found spans overlap counts once; the second is then an error.
    """
    out: set[Span] = set()
    for start, end in sorted(found):
        free = [span for span in sorted(gold) if span[0] < end and span[1] > start and span not in out]
        out.add(free[0] if free else (start, end))
    return out


def commonest(units: Sequence[NoteUnit]) -> list[Answer]:
    """The floor of the seizure status: the commonest of these notes in all of them."""
    [(status, _)] = Counter(unit.gold for unit in units).most_common(1)
    return [
        Answer(task="notes", predicted=status, measures={"accuracy": (float(u.gold == status), 1.0)}) for u in units
    ]


# ---------------------------------------------------------------------------------------------------------- mentions


@dataclass(frozen=True)
class MentionUnit:
    """A gold mention of a seizure or symptom, which ConText classifies, whatever finds it; `gold` is its class."""

    unit: str
    cluster: str
    gold: Context
    strata: Mapping[str, str]
    note: Note
    mention: ContextMention
    reworded: frozenset[str] = frozenset()
    text: str = ""


def mention_units(charts: Sequence[Chart], n: int, seed: int) -> list[MentionUnit]:
    """Every gold mention of a seizure or symptom; `n`, spread evenly over the classes, are asked of a model too."""
    reworded = frozenset(m.template for c in charts for m in c.contexts if m.wording == "paraphrased")
    pairs = [(note, m) for c in charts for m in c.contexts for note in c.notes if note.note_id == m.note_id]
    order = np.random.default_rng(seed).permutation(len(pairs))
    waiting = [[i for i in order if pairs[i][1].context == context] for context in CONTEXTS]
    drawn: list[int] = []
    while len(drawn) < min(n, len(pairs)):
        for of in waiting:
            if of and len(drawn) < n:
                drawn.append(of.pop())
    return [
        MentionUnit(
            f"{m.note_id}:{m.start}",
            note.patient_id,
            m.context,
            {"class": m.context, "asked": "yes" if i in drawn else "no"},
            note,
            m,
            reworded,
        )
        for i, (note, m) in enumerate(pairs)
    ]


def by_classifier(
    classify: Callable[[Sequence[Note], Sequence[Span]], Sequence[Context | Choice]],
) -> Callable[[Sequence[MentionUnit]], list[Answer]]:
    """What gives each mention its class, as an arm: notes and spans in, a class or a model's choice for each out."""

    def answer(units: Sequence[MentionUnit]) -> list[Answer]:
        rows = []
        spans = [(unit.mention.start, unit.mention.end) for unit in units]
        for unit, said in zip(units, classify([u.note for u in units], spans), strict=True):
            given = said.answer if isinstance(said, Choice) else said
            right = given == unit.gold
            measures = {"accuracy": (float(right), 1.0)}
            measures |= by_wording([(unit.mention, right)], unit.reworded, "accuracy")
            keys = [said.key] if isinstance(said, Choice) else []
            rows.append(Answer(task="mentions", predicted=given, measures=measures, requests=keys))
        return rows

    return answer


def some(items: Sequence[T], n: int, seed: int) -> list[T]:
    """So many of them, drawn evenly and kept in their order; all if there are no more."""
    chosen = np.random.default_rng(seed).choice(len(items), size=min(n, len(items)), replace=False)
    return [items[i] for i in sorted(chosen)]


# ----------------------------------------------------------------------------------------------------- in one answer


def summary(outcomes: Outcomes, not_run: Mapping[str, str]) -> str:
    """The page's answer, from rows of notes; `not_run` says why an arm has none."""

    def told(measure: str, arm: str = "rules", **only: str) -> str:
        return figures.score_text(outcomes.where(task="notes", **only).score(measure, arm))

    rules = outcomes.label("rules")
    text = f"**{rules}: F1 {told('taken_drug_f1')} of the drugs that a note says are taken.** "
    if {"rules"} <= outcomes.measured("recall_shared") & outcomes.measured("recall_held_out"):
        text += (
            f"Their recall of spans is {told('recall_shared')} in wording that they were written for and "
            f"{told('recall_held_out')} in wording held out. "
        )
    if "llm" in outcomes.measured("taken_drug_f1"):
        text += (
            f"On the notes that a language model read it reaches F1 {told('taken_drug_f1', 'llm', asked='yes')} of "
            f"drugs, the rules {told('taken_drug_f1', asked='yes')}. "
        )
    return text + "".join(f"{outcomes.label(arm)} was not run. " for arm in not_run)
