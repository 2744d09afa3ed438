"""Labelled questions about synthetic charts, written from the gold facts.

The paper announces "labeled query datasets" and has none. The passages that cover the sentence
that states a fact answer the question about it. A copy of it in a later note answers too, but
less well: its date may mislead.
"""

from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from itertools import zip_longest
from typing import Literal, NamedTuple

import numpy as np
from scipy.cluster.hierarchy import DisjointSet

from papers.clinical_notes.cleaning import drug_names
from papers.clinical_notes.gold import (
    Chart,
    Charts,
    EegFinding,
    Fact,
    FactT,
    FamilyHistory,
    MedicationEvent,
    SeizureStatus,
    Symptom,
)
from papers.clinical_notes.passages import Chunk
from papers.clinical_notes.query import INTENTS, Intent, Lexicon, period
from papers.clinical_notes.wording import DRUGS, words
from resources.settings import DATA

Variant = Literal["generic", "brand", "abbreviation", "misspelt", "none"]
Split = Literal["tune", "test"]
Names = Mapping[str, Mapping[Variant, Sequence[str]]]
"""Drug -> its names by kind; without misspellings, which are made here."""

QUESTIONS = DATA / "clinical_questions.yml"
"""Kind of question -> its intent and its wordings."""
MAX_FACTS = 100
"""A question that more facts answer is too wide to rank passages by, and is left out."""


class Place(NamedTuple):
    """A sentence of a note that answers a question; grade 2 for the sentence, 1 for a copy."""

    note: str
    start: int
    end: int
    grade: int


@dataclass(frozen=True)
class Question:
    """A question with its labels, which come from the fact, not from the words.

    Attributes:
        id: Identifier.
        text: The question.
        unit: See `evaluation.answers.Answer`.
        intent: What kind of question it is.
        strata: See `evaluation.answers.Answer`.
        patient: The patient that it is about, if it is about one.
        since: First day that it is about; None if it names no period.
        until: Last day that it is about; None if it names no period.
        places: The sentences that answer it.
        split: ``tune`` for choosing weights, ``test`` for everything that is reported.
        cluster: Identifier of the first question that it belongs with; see `clustered`.
    """

    id: str
    text: str
    unit: str
    intent: Intent
    strata: Mapping[str, str]
    patient: str | None
    since: date | None
    until: date | None
    places: tuple[Place, ...] = field(repr=False)
    split: Split = "test"
    cluster: str = ""

    @property
    def gold(self) -> str:
        """The sentences that answer it, by note and first character; copies left out."""
        return "; ".join(f"{place.note}:{place.start}" for place in self.places if place.grade == 2)


class _Case(NamedTuple):
    """A possible question: a kind, what fills its braces, and the facts that answer."""

    kind: str
    fills: dict[str, str]
    facts: Sequence[Fact]


def antiseizure_names() -> dict[str, dict[Variant, list[str]]]:
    """Return the antiseizure drugs that questions are about, with their names by kind."""
    names: dict[str, dict[Variant, list[str]]] = {}
    for drug, entry in words(DRUGS)["antiseizure"].items():
        names[drug] = {
            "brand": entry.get("brands", []),
            "abbreviation": entry.get("abbreviations", []),
        }
    return names


def lexicon_of(charts: Charts) -> Lexicon:
    """Collect what the parser may know: drugs, symptoms that occur, the patients' identifiers."""
    symptoms = {symptom.name for symptom in _facts(charts, Symptom)}
    return Lexicon(drug_names(), symptoms, [chart.patient_id for chart in charts])


def _facts(charts: Charts, kind: type[FactT]) -> list[FactT]:
    """The facts of one kind in all charts."""
    facts: list[FactT] = []
    for chart in charts:
        facts += chart.facts_of(kind)
    return facts


def write_questions(
    charts: Charts, names: Names, per_intent: int, seed: int, tune: float = 0.25
) -> list[Question]:
    """Write questions of each intent, spread evenly over their kinds.

    Args:
        charts: The charts to ask about.
        names: Names of the drugs, by kind.
        per_intent: Number of questions of each intent; fewer if the charts have not enough.
        seed: Seed of the draw.
        tune: Share of each intent's questions that is set aside for tuning.

    Returns:
        The questions with their clusters.
    """
    rng = np.random.default_rng(seed)
    cases_by_kind = _cases_by_kind(charts, names)
    questions: list[Question] = []
    for intent in INTENTS:
        cases = _draw_cases(intent, cases_by_kind, rng)[:per_intent]
        n_tune = round(tune * len(cases))
        splits = rng.permutation(["tune"] * n_tune + ["test"] * (len(cases) - n_tune))
        for number, case in enumerate(cases):
            question = _word(case, intent, names, rng)
            split: Split = "tune" if splits[number] == "tune" else "test"
            questions.append(replace(question, id=f"{intent}-{number:03}", split=split))
    return clustered(questions)


def _cases_by_kind(charts: Charts, names: Names) -> dict[str, list[_Case]]:
    """Possible questions about drugs with known names, of not too many facts."""
    by_kind: dict[str, list[_Case]] = defaultdict(list)
    for case in _cases(charts):
        drugs = {drug for brace, drug in case.fills.items() if brace in DRUG_BRACES}
        if 1 <= len(case.facts) <= MAX_FACTS and drugs <= names.keys():
            by_kind[case.kind].append(case)
    return by_kind


def _draw_cases(
    intent: Intent, cases_by_kind: Mapping[str, list[_Case]], rng: np.random.Generator
) -> list[_Case]:
    """All cases of an intent in random order, its kinds in turn."""
    shuffled = []
    for kind, template in words(QUESTIONS).items():
        if template.get("intent") == intent:
            cases = cases_by_kind.get(kind, [])
            order = rng.permutation(len(cases))
            shuffled.append([cases[position] for position in order])
    drawn = []
    for turn in zip_longest(*shuffled):
        drawn += [case for case in turn if case is not None]
    return drawn


def clustered(questions: Sequence[Question]) -> list[Question]:
    """Give the questions their clusters, the units of resampling and of paired tests.

    Questions about one patient belong together, and so do questions that the same sentences
    answer.
    """
    owners = [question.patient or question.id for question in questions]
    sentences = [_sentences(question) for question in questions]
    together = DisjointSet({*owners, *sentences})
    for owner, answering in zip(owners, sentences, strict=True):
        together.merge(owner, answering)
    first_ids: dict[Hashable, str] = {}
    with_cluster = []
    for question, owner in zip(questions, owners, strict=True):
        cluster = first_ids.setdefault(together[owner], question.id)
        with_cluster.append(replace(question, cluster=cluster))
    return with_cluster


def _sentences(question: Question) -> frozenset[tuple[str, int, int]]:
    """The places that answer a question, whatever their grade."""
    return frozenset((place.note, place.start, place.end) for place in question.places)


DRUG_BRACES = ("d", "d2")
"""Names in braces that a drug fills."""
_DATE_FORMATS = {"month": "%B %Y", "year": "%Y"}
"""Names in braces that a date fills, and how."""


def _cases(charts: Charts) -> Iterator[_Case]:
    for chart in charts:
        yield from _treatment_cases(chart)
        yield from _stop_cases(chart)
        yield from _finding_cases(chart)
    yield from _cohort_treatment_cases(charts)
    yield from _cohort_symptom_cases(charts)
    yield from _cohort_finding_cases(charts)


def _cohort_treatment_cases(charts: Charts) -> Iterator[_Case]:
    """Questions about drugs in all patients."""
    events = [event for event in _facts(charts, MedicationEvent) if not event.past]
    yield from _grouped("works", _rated(events), {"d": "drug"})
    stopped = [event for event in events if event.action == "stop"]
    ended = [event for event in stopped if event.reason]
    yield from _grouped("cohort_stop", ended, {"d": "drug", "s": "reason"})
    yield from _grouped("reasons", ended, {"d": "drug"})
    switched = [event for event in events if event.action == "switch"]
    yield from _grouped("cohort_switch", switched, {"d": "drug", "d2": "replaces"})


def _rated(events: Sequence[MedicationEvent]) -> list[MedicationEvent]:
    """The events that state how well a drug worked."""
    return [event for event in events if event.effectiveness]


def _cohort_finding_cases(charts: Charts) -> Iterator[_Case]:
    """Questions about EEGs and families of all patients."""
    eegs = [eeg for eeg in _facts(charts, EegFinding) if eeg.abnormal]
    yield from _grouped("cohort_eeg", eegs, {"f": "finding", "r": "region"})
    yield from _grouped("findings", eegs, {"f": "finding", "r": "region"})
    family = [fact for fact in _facts(charts, FamilyHistory) if fact.present]
    yield from _grouped("cohort_family", family, {"relative": "relative", "s": "condition"})


def _cohort_symptom_cases(charts: Charts) -> Iterator[_Case]:
    """Questions about seizures and side effects of all patients."""
    symptoms = _facts(charts, Symptom)
    ictal = [symptom for symptom in symptoms if symptom.is_ictal]
    yield from _grouped("semiology", ictal, {"s": "name"})
    affirmed = [symptom for symptom in symptoms if symptom.context == "affirmed"]
    effects = [symptom for symptom in affirmed if symptom.role == "side effect"]
    yield from _grouped("cohort_effect", effects, {"d": "drug", "s": "name"})
    yield from _grouped("effects", effects, {"d": "drug"})


def _treatment_cases(chart: Chart) -> Iterator[_Case]:
    """Questions about the drugs of one patient, but for why they ended."""
    patient = chart.patient_id
    events = [event for event in chart.facts_of(MedicationEvent) if not event.past]
    begun = [event for event in events if event.action in ("start", "switch")]
    dosed = [event for event in events if event.states_regimen]
    yield from _grouped("start", begun, {"d": "drug"}, patient)
    yield from _grouped("dose", dosed, {"d": "drug", "month": "date"}, patient)
    yield from _grouped("helped", _rated(events), {"d": "drug"}, patient)


def _stop_cases(chart: Chart) -> Iterator[_Case]:
    """Questions why a drug ended: those that were stopped first, then those that were replaced."""
    stopped: dict[str, list[Fact]] = {}
    replaced: dict[str, list[Fact]] = {}
    for event in chart.facts_of(MedicationEvent):
        if event.past or not event.reason:
            continue
        if event.action == "stop":
            stopped.setdefault(event.drug, []).append(event)
        elif event.action == "switch" and event.replaces:
            replaced.setdefault(event.replaces, []).append(event)
    for drug in dict.fromkeys([*stopped, *replaced]):
        facts = stopped.get(drug, []) + replaced.get(drug, [])
        yield _Case("stop", {"p": chart.patient_id, "d": drug}, facts)


def _finding_cases(chart: Chart) -> Iterator[_Case]:
    """Questions about seizures, symptoms, EEGs and the family of one patient."""
    patient = chart.patient_id
    seizures = chart.facts_of(SeizureStatus)
    yield from _grouped("symptom", chart.facts_of(Symptom), {"s": "name"}, patient)
    yield from _grouped("seizures", seizures, {"year": "date"}, patient)
    yield from _grouped("eeg", chart.facts_of(EegFinding), {}, patient)
    yield from _grouped("family", chart.facts_of(FamilyHistory), {}, patient)
    for drug, (first, last) in exposures(chart).items():
        during = [status for status in seizures if first < status.date <= last]
        yield _Case("free_on", {"p": patient, "d": drug}, during)


def exposures(chart: Chart) -> dict[str, tuple[date, date]]:
    """Find when the patient took each regular drug, by the chart's own sentences (no copies).

    Returns:
        First and last day by drug.
    """
    days: dict[str, list[date]] = defaultdict(list)
    for event in chart.facts_of(MedicationEvent):
        if event.copied_from is None and _is_regular(event):
            days[event.drug].append(event.date)
            if event.replaces:
                days[event.replaces].append(event.date)
    return {drug: (min(dates), max(dates)) for drug, dates in days.items()}


def _is_regular(event: MedicationEvent) -> bool:
    """Whether an event is about a drug that is taken regularly in the time of the chart."""
    if event.past:
        return False
    return bool(event.times_per_day) or event.action in ("stop", "switch")


def _grouped(
    kind: str, facts: Iterable[Fact], attributes: Mapping[str, str], patient: str | None = None
) -> Iterator[_Case]:
    """One case for all facts that fill the braces alike.

    Args:
        kind: Kind of the question.
        facts: The facts; those that lack an attribute are left out.
        attributes: Name in braces -> the attribute that fills it.
        patient: What fills ``{p}``, if the question is about one patient.
    """
    groups: dict[tuple[tuple[str, str], ...], list[Fact]] = defaultdict(list)
    for fact in facts:
        fills = {"p": patient} if patient else {}
        for brace, attribute in attributes.items():
            value = getattr(fact, attribute)
            if brace in _DATE_FORMATS:
                value = value.strftime(_DATE_FORMATS[brace])
            fills[brace] = value
        if all(fills.values()):
            groups[tuple(fills.items())].append(fact)
    for group, members in groups.items():
        yield _Case(kind, dict(group), members)


def _word(case: _Case, intent: Intent, names: Names, rng: np.random.Generator) -> Question:
    """Word a case, with its drugs under a random name."""
    fills = dict(case.fills)
    variants: list[Variant] = []
    for brace in DRUG_BRACES:
        if brace in fills:
            fills[brace], variant = name_drug(fills[brace], names, rng)
            variants.append(variant)
    wordings = words(QUESTIONS)[case.kind]["asked"]
    wording = wordings[rng.integers(len(wordings))]
    text = wording.format(**fills)
    days = fills.get("month") or fills.get("year")
    since, until = period(days) if days else (None, None)
    places = [_place(fact) for fact in case.facts]
    named_by = variants[0] if variants else "none"
    period_named = "yes" if days else "no"
    strata = {"intent": intent, "drug named by": named_by, "period named": period_named}
    return Question(
        id="",
        text=text,
        unit=f"{case.kind} | {text}",
        intent=intent,
        strata=strata,
        patient=fills.get("p"),
        since=since,
        until=until,
        places=tuple(places),
    )


def _place(fact: Fact) -> Place:
    return Place(fact.note_id, fact.start, fact.end, 1 if fact.copied_from else 2)


def name_drug(drug: str, names: Names, rng: np.random.Generator) -> tuple[str, Variant]:
    """Choose a name for a drug.

    Args:
        drug: Its generic name.
        names: Names of the drugs, by kind.
        rng: Draws the kind and the name.

    Returns:
        The name and its kind: generic, brand, abbreviation, or generic with two letters swapped.
    """
    known: dict[Variant, Sequence[str]] = {}
    for variant, options in names.get(drug, {}).items():
        if options and variant != "generic":
            known[variant] = options
    variants: list[Variant] = ["generic", *known, "misspelt"]
    variant = variants[rng.integers(len(variants))]
    if variant == "generic":
        return drug, variant
    if variant == "misspelt":
        return misspell(drug, rng), variant
    options = list(known[variant])
    return str(rng.choice(options)), variant


def misspell(name: str, rng: np.random.Generator) -> str:
    """Swap two different neighbouring letters inside a name, or drop the last if there are none."""
    places = []
    for i in range(1, len(name) - 2):
        if name[i] != name[i + 1] and name[i : i + 2].isalpha():
            places.append(i)
    if not places:
        return name[:-1]
    i = places[rng.integers(len(places))]
    return name[:i] + name[i + 1] + name[i] + name[i + 2 :]


def relevant(question: Question, chunks: Mapping[str, Sequence[Chunk]]) -> dict[str, int]:
    """Grade the passages that answer a question.

    Every passage that covers an answering sentence counts. A sentence that no passage covers in
    full, since it is longer than their overlap, belongs to the one with the largest part.

    Args:
        question: The question.
        chunks: Note -> its passages.

    Returns:
        Passage -> grade.
    """
    grades: dict[str, int] = {}
    for place in question.places:
        for chunk in _covering(place, chunks.get(place.note, ())):
            grades[chunk.id] = max(place.grade, grades.get(chunk.id, 0))
    return grades


def _covering(place: Place, chunks: Sequence[Chunk]) -> list[Chunk]:
    """The passages of a note that cover a place, or else the one with the largest part of it."""
    covering = [chunk for chunk in chunks if chunk.covers(place.start, place.end)]
    if covering or not chunks:
        return covering
    return [max(chunks, key=lambda chunk: _overlap(chunk, place))]


def _overlap(chunk: Chunk, place: Place) -> int:
    return min(chunk.end, place.end) - max(chunk.start, place.start)


def by_note(chunks: Iterable[Chunk]) -> dict[str, list[Chunk]]:
    """Group passages by their note."""
    groups: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        groups[chunk.note].append(chunk)
    return groups
