"""Scores of an extraction as rows of notes: spans, values, seizure status.

Rows are clustered by patient.
"""

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pandas as pd

from evaluation import figures
from evaluation.answers import Answer, Item, PlainUnit
from evaluation.measures import set_measures
from evaluation.metrics import ALPHA
from evaluation.outcomes import Outcomes
from papers.clinical_notes import registry
from papers.clinical_notes.extraction import (
    ATTRIBUTES,
    STATUSES,
    Extractor,
    Finding,
    Medication,
    Reading,
    Status,
    status_of,
)
from papers.clinical_notes.gold import (
    LABELS,
    Chart,
    Context,
    MedicationEvent,
    Mention,
    Note,
    SeizureStatus,
    Symptom,
    Wording,
)

ARMS = {
    "rules": "Rules (one spelling error allowed)",
    "rules_default": "Rules (medspaCy's own ConText rules)",
    "med7": "Med7",
    "llm": "Language model",
    "commonest": "Always the commonest (floor)",
    "context_default": "ConText (medspaCy's own rules)",
    "context_own": "ConText (the project's rules)",
}
COLOURS = dict.fromkeys(("rules", "rules_default", "med7"), figures.HUES["blue"]) | {
    "llm": figures.HUES["orange"]
}
VALUES = ("drug", *ATTRIBUTES.values())
"""What a note may state of a drug that the patient takes."""

T = TypeVar("T")
Span = tuple[int, int]
LabelledSpan = tuple[str, int, int]
Ratios = dict[str, tuple[float, float]]


@dataclass(frozen=True, kw_only=True)
class NoteUnit(PlainUnit):
    """A note to read, with its gold spans; `gold` is its seizure status.

    Attributes:
        symptoms: Symptoms of the patient's seizures that the note itself states.
        effectiveness: Drug and how well it works, as the note itself states it.
    """

    gold: Status
    note: Note
    mentions: tuple[Mention, ...]
    symptoms: frozenset[str] = frozenset()
    effectiveness: frozenset[tuple[str, str]] = frozenset()


def note_units(charts: Sequence[Chart], llm_note_ids: Collection[str] = ()) -> list[NoteUnit]:
    """Make units of the notes of these charts.

    Args:
        charts: The charts.
        llm_note_ids: Identifiers of the notes that an LLM reads too.
    """
    units = []
    for chart in charts:
        for note in chart.notes:
            mentions = [mention for mention in chart.mentions if mention.note_id == note.note_id]
            status = gold_status(chart, note)
            unit = NoteUnit(
                note.note_id,
                note.patient_id,
                "",
                gold=status,
                strata={
                    "status": status,
                    "asked": "yes" if note.note_id in llm_note_ids else "no",
                    "layout": "like real notes" if note.untidy else "plain",
                },
                note=note,
                mentions=tuple(mentions),
                symptoms=gold_symptoms(chart, note),
                effectiveness=_gold_effectiveness(chart, note),
            )
            units.append(unit)
    return units


def gold_status(chart: Chart, note: Note) -> Status:
    """Return the seizure status that a note states of itself; copied passages do not count."""
    statuses = set()
    for fact in chart.facts_of(SeizureStatus):
        if fact.is_own_of(note.note_id):
            statuses.add(fact.status)
    if not statuses:
        return "unknown"
    return "positive" if "positive" in statuses else "negative"


def gold_symptoms(chart: Chart, note: Note) -> frozenset[str]:
    """Return the symptoms of the patient's seizures that a note itself states."""
    names = set()
    for symptom in chart.facts_of(Symptom):
        if symptom.is_ictal and symptom.is_own_of(note.note_id):
            names.add(symptom.name)
    return frozenset(names)


def _gold_effectiveness(chart: Chart, note: Note) -> frozenset[tuple[str, str]]:
    stated = set()
    for event in chart.facts_of(MedicationEvent):
        if event.effectiveness and not event.past and event.is_own_of(note.note_id):
            stated.add((event.drug, event.effectiveness))
    return frozenset(stated)


@dataclass(frozen=True)
class ExtractorArm:
    """Scores an extractor on notes.

    Measures: accuracy (of the status); precision, recall and f1 of exact spans, recall by the
    source of the wording, overlap_f1 of all spans and ..._overlap_f1 of each label; drug_f1 of the
    drugs that a note names, as the paper's registry has them; taken_..._f1 of values linked to a
    drug that is taken; mention_count_f1 of drugs with the number of their mentions; symptoms_...
    and effectiveness_... of the registry's columns of these names.

    Attributes:
        read: The extractor.
        spans: Whether it gives spans.
        values: The values that it gives, of `VALUES`.
        model: Name of its model, for the claims that name one.
    """

    read: Extractor
    spans: bool = True
    values: Collection[str] = VALUES
    model: str = ""

    def __call__(self, units: Sequence[NoteUnit]) -> list[Answer]:
        """Answer each unit."""
        readings = self.read([unit.note for unit in units])
        return [self._answer(*pair) for pair in zip(units, readings, strict=True)]

    def _answer(self, unit: NoteUnit, reading: Reading) -> Answer:
        is_right = reading.parsed and reading.status == unit.gold
        measures: Ratios = {"accuracy": (float(is_right), 1.0)}
        items: list[Item] = []
        if self.spans:
            gold: dict[LabelledSpan, Wording] = {}
            for mention in unit.mentions:
                gold[mention.label, mention.start, mention.end] = mention.wording
            found = set(reading.spans)
            items = _span_items(gold, found)
            measures |= _span_measures(gold, found) | _column_measures(unit, reading)
            measures |= _f1("mention_count_f1", _gold_counts(unit), _read_counts(reading))
        if self.values:
            gold_drugs = {mention.drug for mention in unit.mentions}
            read_drugs = {medication.drug for medication in reading.medications}
            measures |= _f1("drug_f1", gold_drugs, read_drugs)
        for name in self.values:
            gold_values = _gold_values(unit, name)
            measures |= _f1(f"taken_{name}_f1", gold_values, _read_values(reading, name))
        return Answer(
            task="notes",
            model=self.model,
            predicted=reading.status,
            parsed=reading.parsed,
            items=items,
            measures=measures,
            **(reading.reply.columns if reading.reply else {}),
        )


def _column_measures(unit: NoteUnit, reading: Reading) -> Ratios:
    """Scores of the registry's columns that are no values of a drug."""
    mentions_by_drug: dict[str, list[Medication]] = {}
    for medication in reading.medications:
        mentions_by_drug.setdefault(medication.drug, []).append(medication)
    effectiveness = set()
    for drug, mentions in mentions_by_drug.items():
        stated = registry.effectiveness_of(unit.note.text, mentions)
        if stated:
            effectiveness.add((drug, stated))
    columns = {
        "symptoms": set_measures(unit.symptoms, registry.seizure_symptoms(reading)),
        "effectiveness": set_measures(unit.effectiveness, effectiveness),
    }
    measures = {}
    for column, ratios in columns.items():
        for name, ratio in ratios.items():
            measures[f"{column}_{name}"] = ratio
    return measures


def confusion(outcomes: Outcomes, arm: str) -> pd.DataFrame:
    """Count the notes of each seizure status by what an arm read.

    Args:
        outcomes: Rows of notes.
        arm: Key of the arm.

    Returns:
        True status (rows), status read (columns), and the recall of each.
    """
    rows = outcomes.where(task="notes", arm=arm).frame
    counts = pd.crosstab(rows.gold, rows.predicted)
    counts = counts.reindex(index=STATUSES, columns=STATUSES, fill_value=0)
    recall = np.diag(counts) / counts.sum(axis=1)
    table = counts.rename(columns={status: f"read as {status}" for status in STATUSES})
    table["recall"] = [figures.number(value) for value in recall]
    return table.rename_axis("true status", axis=0).rename_axis(None, axis=1).reset_index()


def recall_by_mentions(charts: Iterable[Chart]) -> dict[Status, float]:
    """Compute the recall of each seizure status if every mention of a note were read right.

    What is left are errors of the rule from a note's mentions to its status, which counts copied
    passages too.
    """
    hits: dict[Status, list[bool]] = {status: [] for status in STATUSES}
    for chart in charts:
        facts = chart.facts_of(SeizureStatus)
        for note in chart.notes:
            findings = [
                Finding("seizure", "seizure", _CONTEXTS[fact.status])
                for fact in facts
                if fact.note_id == note.note_id
            ]
            truth = gold_status(chart, note)
            hits[truth].append(status_of(findings) == truth)
    return {status: sum(right) / len(right) if right else np.nan for status, right in hits.items()}


_CONTEXTS: Final[Mapping[str, Context]] = {"positive": "affirmed", "negative": "negated"}
"""Seizure status -> the class of a mention that states it."""


def _span_items(
    gold: Mapping[LabelledSpan, Wording], found: Collection[LabelledSpan]
) -> list[Item]:
    """Each span that is gold or was found."""
    items = []
    for span in sorted(gold.keys() | found):
        label, start, end = span
        item = Item(f"{label}:{start}-{end}", label, gold=span in gold, predicted=span in found)
        items.append(item)
    return items


def _span_measures(gold: Mapping[LabelledSpan, Wording], found: Collection[LabelledSpan]) -> Ratios:
    measures = set_measures(gold.keys(), found)
    for wording in sorted(set(gold.values())):
        hits = [span in found for span, source in gold.items() if source == wording]
        ratio = (float(sum(hits)), float(len(hits)))
        measures[f"recall_{wording.replace(' ', '_')}"] = ratio
    overlapping: set[Hashable] = set()
    for label in LABELS:
        places = _places(gold, label)
        matches = match_overlaps(places, _places(found, label))
        overlapping |= {(label, *place) for place in matches}
        measures |= _f1(f"{label.lower()}_overlap_f1", places, matches)
    return measures | _f1("overlap_f1", gold.keys(), overlapping)


def _places(spans: Iterable[LabelledSpan], label: str) -> set[Span]:
    return {(start, end) for name, start, end in spans if name == label}


def _gold_values(unit: NoteUnit, name: str) -> set[tuple[str, ...]]:
    values: set[tuple[str, ...]] = set()
    for mention in unit.mentions:
        if mention.role != "current" or mention.label.lower() != name:
            continue
        if name == "drug":
            values.add((mention.drug,))
        else:
            values.add((mention.drug, mention.value.lower()))
    return values


def _read_values(reading: Reading, name: str) -> set[tuple[str, ...]]:
    values: set[tuple[str, ...]] = set()
    for medication in reading.medications:
        if medication.role != "current":
            continue
        value = getattr(medication, name)
        if name == "drug":
            values.add((medication.drug,))
        elif value:
            values.add((medication.drug, value))
    return values


def _gold_counts(unit: NoteUnit) -> set[tuple[str, int]]:
    """Each drug that a note names, with the number of its mentions."""
    names = [mention.drug for mention in unit.mentions if mention.label == "DRUG"]
    return set(Counter(names).items())


def _read_counts(reading: Reading) -> set[tuple[str, int]]:
    """Each drug that was read, with the number of its mentions, as the registry counts them."""
    return set(Counter(medication.drug for medication in reading.medications).items())


def _f1(name: str, gold: Collection[Hashable], found: Collection[Hashable]) -> Ratios:
    """F1 under a name of its own, or nothing where it is not defined."""
    if not gold and not found:
        return {}
    return {name: set_measures(gold, found)["f1"]}


def match_overlaps(gold: set[Span], found: set[Span]) -> set[Span]:
    """Replace each found span by the gold span that it overlaps: the lenient count.

    A gold span counts once, even if two found spans overlap it; the second is then an error.

    Returns:
        Gold spans, and the found spans that overlap none that is free.
    """
    matches: set[Span] = set()
    for span in sorted(found):
        overlapping = [other for other in sorted(gold - matches) if _overlap(span, other)]
        matches.add(overlapping[0] if overlapping else span)
    return matches


def _overlap(first: Span, second: Span) -> bool:
    return first[0] < second[1] and second[0] < first[1]


def commonest(units: Sequence[NoteUnit]) -> list[Answer]:
    """Answer all notes with the status that most of them have: the floor."""
    [(status, _)] = Counter(unit.gold for unit in units).most_common(1)
    answers = []
    for unit in units:
        measures = {"accuracy": (float(unit.gold == status), 1.0)}
        answers.append(Answer(task="notes", predicted=status, measures=measures))
    return answers


def draw_sample(items: Sequence[T], n: int, seed: int) -> list[T]:
    """Draw `n` items, or all if there are fewer, and keep their order."""
    size = min(n, len(items))
    positions = np.random.default_rng(seed).choice(len(items), size=size, replace=False)
    return [items[position] for position in sorted(positions)]


def summary(outcomes: Outcomes, perfect_recall: Mapping[Status, float] | None = None) -> str:
    """Write the answer of the page: the rules, the language model, and ConText.

    The first paragraph is the answer. The second has the scores behind it.

    Args:
        outcomes: Rows of notes, and of NegEx's sentences if there are any.
        perfect_recall: The recall of each status if every mention were read right.
    """
    notes = outcomes.where(task="notes")
    drugs = notes.score("drug_f1", "rules")
    first = [
        f"**On {drugs.n:,} synthetic notes, this project's rules find the drugs that each note "
        f"names, with an F1 of {figures.score_text(drugs)}.**"
    ]
    second = []
    if "llm" in notes.arms_with("drug_f1"):
        shared = _notes_of_both(notes, "drug_f1", "rules", "llm")
        first.append(_difference_in_words(shared))
        second.append(_scores_in_words(shared))
    else:
        second.append("The language model was not run.")
    denials = notes.where(arm="rules_default", status="negative")
    if not denials.frame.empty:
        share = figures.score_text(denials.score("accuracy"))
        first.append(
            "With medspaCy's own rules and this project's terms for seizures, ConText "
            f"recognises {share} of the notes that deny seizures."
        )
        second.append(_perfect_recall_in_words(perfect_recall))
    second.append(_negations_in_words(outcomes))
    paragraphs = [" ".join(filter(None, sentences)) for sentences in (first, second)]
    return "\n\n".join(filter(None, paragraphs))


def _difference_in_words(shared: Outcomes) -> str:
    """Compare the F1 of the rules with the language model's, on the notes of both."""
    [comparison] = shared.compare([("rules", "llm")], "drug_f1")
    is_significant = comparison.p < ALPHA
    verdict = "not significantly different from"
    if is_significant and comparison.test.difference > 0:
        verdict = "significantly higher than"
    elif is_significant:
        verdict = "significantly lower than"
    return (
        f"Compared on {comparison.test.n} of these notes, the rules' F1 is {verdict} that of "
        f"{_model_of(shared)}, with a difference of {figures.points(comparison.test)} points."
    )


def _model_of(outcomes: Outcomes) -> str:
    """The name of the language model."""
    models = [name for name in outcomes.where(arm="llm").frame.model.unique() if name]
    return models[0] if models else "the language model"


def _scores_in_words(shared: Outcomes) -> str:
    """The F1 of the rules and of the language model, on the notes of both."""
    rules = figures.score_text(shared.score("drug_f1", "rules"))
    llm = figures.score_text(shared.score("drug_f1", "llm"))
    return (
        "The language model read only a sample of the notes. On the notes of this sample for which "
        f"both extractors have an F1, the F1 of the rules is {rules}, and that of the language "
        f"model is {llm}."
    )


def _perfect_recall_in_words(perfect_recall: Mapping[Status, float] | None) -> str:
    """What the rule for a note's status makes of notes that deny seizures, without misreadings."""
    if perfect_recall is None:
        return ""
    share = figures.number(perfect_recall["negative"])
    return (
        "A rule of this project derives a note's status from the mentions of seizures. If no "
        f"mention were misread, this rule would recognise {share} of the notes that deny seizures."
    )


def _negations_in_words(outcomes: Outcomes) -> str:
    """What ConText makes of NegEx's negated conditions, in words."""
    if not outcomes.has_column("class"):
        return ""
    sentences = outcomes.where(task="sentences", arm="context_default", **{"class": "negated"})
    if sentences.frame.empty:
        return ""
    return (
        "Of the negated conditions in NegEx's sentences from clinical reports, ConText with "
        "medspaCy's own rules recognises "
        f"{figures.score_text(sentences.score('accuracy'))}. ConText's own authors annotated these "
        "sentences. The sentences are therefore independent of this project but not of ConText."
    )


def _notes_of_both(notes: Outcomes, measure: str, first: str, second: str) -> Outcomes:
    """The rows of the notes for which two arms have a measure."""
    units = _notes_with(notes, measure, first) & _notes_with(notes, measure, second)
    return notes.where(unit=sorted(units))


def _notes_with(outcomes: Outcomes, measure: str, arm: str) -> set[str]:
    """Return the notes for which an arm has a measure."""
    rows = outcomes.where(arm=arm).frame
    return set(rows.unit[[measure in measures for measures in rows.measures]])
