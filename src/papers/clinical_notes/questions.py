"""Labelled questions about synthetic charts: written from the gold facts, so that the passages that answer are known.

The paper announces "labeled query datasets" and has none. The passages that cover the sentence that states a fact
answer the question about it. A copy of it in a later note answers too, but less well: its date may mislead.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
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
MOST_RELEVANT = 100
"""A question that more facts answer is too wide to rank passages by, and is left out."""


class Place(NamedTuple):
    """A sentence of a note that answers a question; grade 2 for the sentence itself, 1 for a copy of it."""

    note: str
    start: int
    end: int
    grade: int


@dataclass(frozen=True)
class Question:
    """A question with its labels, which come from the fact, not from the words; see `Answer` for unit and strata.

    `since` and `until` are the days that it is about, `places` the sentences that answer it. The split is tune for
    choosing weights, test for everything that is reported. `cluster` is the id of the first question that it belongs
    with; see `clustered`.
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
        """The sentences that answer it, by note and first character; copies of them left out."""
        return "; ".join(f"{place.note}:{place.start}" for place in self.places if place.grade == 2)


class _Case(NamedTuple):
    """What could be asked: a kind, what fills its braces, and the facts that answer."""

    kind: str
    fills: dict[str, str]
    facts: Sequence[Fact]


def antiseizure_names() -> dict[str, dict[Variant, list[str]]]:
    """The antiseizure drugs that questions are asked about, with their names by kind."""
    drugs = words(DRUGS)["antiseizure"]
    return {
        drug: {"brand": of.get("brands", []), "abbreviation": of.get("abbreviations", [])}
        for drug, of in drugs.items()
    }


def lexicon_of(charts: Charts) -> Lexicon:
    """What the parser may know: the dictionary of drugs, the symptoms that occur, the patients' identifiers."""
    symptoms = {symptom.name for chart in charts for symptom in chart.facts_of(Symptom)}
    return Lexicon(drug_names(), symptoms, [chart.patient_id for chart in charts])


def write_questions(
    charts: Charts, names: Names, per_intent: int, seed: int, tune: float = 0.25
) -> list[Question]:
    """So many questions of each intent, spread evenly over their kinds; a share of each is set aside for tuning.

    There are fewer where the charts have not enough to ask about. `names` are those of drugs, by kind.
    """
    rng = np.random.default_rng(seed)
    by_kind: dict[str, list[_Case]] = defaultdict(list)
    for case in _cases(charts):
        about = {drug for brace, drug in case.fills.items() if brace in ("d", "d2")}
        if 1 <= len(case.facts) <= MOST_RELEVANT and about <= names.keys():
            by_kind[case.kind].append(case)
    questions: list[Question] = []
    for intent in INTENTS:
        shuffled = {
            kind: [by_kind[kind][i] for i in rng.permutation(len(by_kind[kind]))]
            for kind, template in words(QUESTIONS).items()
            if template.get("intent") == intent
        }
        turns = zip_longest(*shuffled.values())
        cases = [case for turn in turns for case in turn if case is not None][:per_intent]
        cut = round(tune * len(cases))
        splits = rng.permutation([*["tune"] * cut, *["test"] * (len(cases) - cut)])
        for number, (case, split) in enumerate(zip(cases, splits.tolist(), strict=True)):
            questions.append(_word(case, intent, names, rng, f"{intent}-{number:03}", split))
    return clustered(questions)


def clustered(questions: Sequence[Question]) -> list[Question]:
    """The questions with the clusters by which they are drawn and tested: what chance gives or takes together.

    Questions about one patient belong together, and so do questions that the same sentences answer.
    """
    keys = [(q.patient or q.id, frozenset(place[:3] for place in q.places)) for q in questions]
    together = DisjointSet({key for pair in keys for key in pair})
    for pair in keys:
        together.merge(*pair)
    first: dict[Hashable, str] = {}
    return [
        replace(q, cluster=first.setdefault(together[key], q.id))
        for q, (key, _) in zip(questions, keys, strict=True)
    ]


def _cases(charts: Charts) -> Iterator[_Case]:
    def of(kind: type[FactT], holds: Callable[[FactT], object]) -> list[FactT]:
        return [fact for chart in charts for fact in chart.facts_of(kind) if holds(fact)]

    for chart in charts:
        yield from _patient_cases(chart)
    meds = of(MedicationEvent, lambda m: not m.past)
    effects = of(Symptom, lambda s: s.role == "side effect" and s.context == "affirmed")
    ended = [m for m in meds if m.action == "stop" and m.reason]
    eegs = of(EegFinding, lambda e: e.abnormal)
    yield from _grouped("works", [m for m in meds if m.effectiveness], lambda m: {"d": m.drug})
    yield from _grouped("cohort_effect", effects, lambda s: {"d": s.drug, "s": s.name})
    yield from _grouped("cohort_stop", ended, lambda m: {"d": m.drug, "s": m.reason})
    switched = [m for m in meds if m.action == "switch" and m.replaces]
    yield from _grouped("cohort_switch", switched, lambda m: {"d": m.drug, "d2": m.replaces})
    for kind in ("cohort_eeg", "findings"):
        yield from _grouped(kind, eegs, lambda e: {"f": e.finding, "r": e.region})
    family = of(FamilyHistory, lambda f: f.present)
    yield from _grouped(
        "cohort_family", family, lambda f: {"relative": f.relative, "s": f.condition}
    )
    yield from _grouped("effects", effects, lambda s: {"d": s.drug})
    ictal = of(Symptom, lambda s: s.role == "seizure" and s.context == "affirmed")
    yield from _grouped("semiology", ictal, lambda s: {"s": s.name})
    yield from _grouped("reasons", ended, lambda m: {"d": m.drug})


def _patient_cases(chart: Chart) -> Iterator[_Case]:
    p, meds, seizures = (
        chart.patient_id,
        [m for m in chart.facts_of(MedicationEvent) if not m.past],
        chart.facts_of(SeizureStatus),
    )
    began = [m for m in meds if m.action in ("start", "switch")]
    yield from _grouped("start", began, lambda m: {"p": p, "d": m.drug})
    dosed = [m for m in meds if m.dose_mg is not None and m.times_per_day]
    yield from _grouped("dose", dosed, lambda m: {"p": p, "d": m.drug, "month": f"{m.date:%B %Y}"})
    ended = [(m, m.drug) for m in meds if m.action == "stop" and m.reason]
    ended += [(m, m.replaces) for m in meds if m.action == "switch" and m.replaces and m.reason]
    for drug in dict.fromkeys(drug for _, drug in ended):
        yield _Case("stop", {"p": p, "d": drug}, [m for m, of in ended if of == drug])
    yield from _grouped("symptom", chart.facts_of(Symptom), lambda s: {"p": p, "s": s.name})
    yield from _grouped("seizures", seizures, lambda s: {"p": p, "year": str(s.date.year)})
    yield from _grouped("eeg", chart.facts_of(EegFinding), lambda _: {"p": p})
    yield from _grouped("family", chart.facts_of(FamilyHistory), lambda _: {"p": p})
    yield from _grouped(
        "helped", [m for m in meds if m.effectiveness], lambda m: {"p": p, "d": m.drug}
    )
    for drug, (first, last) in exposures(chart).items():
        yield _Case("free_on", {"p": p, "d": drug}, [s for s in seizures if first < s.date <= last])


def exposures(chart: Chart) -> dict[str, tuple[date, date]]:
    """First and last day that the chart's own sentences (no copies) have the patient on each drug taken regularly."""
    days: dict[str, list[date]] = defaultdict(list)
    for m in chart.facts_of(MedicationEvent):
        if (
            m.copied_from is None
            and not m.past
            and (m.times_per_day or m.action in ("stop", "switch"))
        ):
            days[m.drug].append(m.date)
            if m.replaces:
                days[m.replaces].append(m.date)
    return {drug: (min(of), max(of)) for drug, of in days.items()}


def _grouped(
    kind: str, facts: Iterable[FactT], key: Callable[[FactT], Mapping[str, str | None]]
) -> Iterator[_Case]:
    groups: dict[tuple[tuple[str, str], ...], list[FactT]] = defaultdict(list)
    for fact in facts:
        filled = {brace: value for brace, value in key(fact).items() if value}
        if len(filled) == len(key(fact)):
            groups[tuple(filled.items())].append(fact)
    for fills, of in groups.items():
        yield _Case(kind, dict(fills), of)


def _word(
    case: _Case, intent: Intent, names: Names, rng: np.random.Generator, id: str, split: Split
) -> Question:
    wordings = words(QUESTIONS)[case.kind]["asked"]
    called = {
        brace: name_drug(case.fills[brace], names, rng)
        for brace in ("d", "d2")
        if brace in case.fills
    }
    variant: Variant = called["d"][1] if called else "none"
    fills = case.fills | {brace: name for brace, (name, _) in called.items()}
    text = wordings[rng.integers(len(wordings))].format(**fills)
    asked = fills.get("month") or fills.get("year")
    since, until = period(asked) if asked else (None, None)
    places = tuple(Place(f.note_id, f.start, f.end, 1 if f.copied_from else 2) for f in case.facts)
    strata = {"intent": intent, "drug named by": variant}
    return Question(
        id,
        text,
        f"{case.kind} | {text}",
        intent,
        strata,
        fills.get("p"),
        since,
        until,
        places,
        split,
    )


def name_drug(drug: str, names: Names, rng: np.random.Generator) -> tuple[str, Variant]:
    """The drug under a name of a random kind: generic, brand, abbreviation, or generic with two letters swapped."""
    known = {kind: of for kind, of in names.get(drug, {}).items() if of and kind != "generic"}
    kinds: list[Variant] = ["generic", *known, "misspelt"]
    kind = kinds[rng.integers(len(kinds))]
    if kind == "generic":
        return drug, kind
    if kind == "misspelt":
        return misspell(drug, rng), kind
    return str(rng.choice(list(known[kind]))), kind


def misspell(name: str, rng: np.random.Generator) -> str:
    """A name with two different neighbouring letters inside it swapped, or with one letter less if there are none."""
    places = [
        i for i in range(1, len(name) - 2) if name[i] != name[i + 1] and name[i : i + 2].isalpha()
    ]
    if not places:
        return name[:-1]
    i = places[rng.integers(len(places))]
    return name[:i] + name[i + 1] + name[i] + name[i + 2 :]


def relevant(question: Question, chunks: Mapping[str, Sequence[Chunk]]) -> dict[str, int]:
    """Passage -> grade: every passage (`chunks`, by note) that covers a sentence that answers the question.

    A sentence that no passage covers whole, since it is longer than their overlap, goes to the one with most of it.
    """
    grades: dict[str, int] = {}
    for place in question.places:
        of_note = chunks.get(place.note, ())
        covering = [c for c in of_note if c.covers(place.start, place.end)]
        if not covering and of_note:
            covering = [
                max(of_note, key=lambda c: min(c.end, place.end) - max(c.start, place.start))
            ]
        for chunk in covering:
            grades[chunk.id] = max(place.grade, grades.get(chunk.id, 0))
    return grades


def by_note(chunks: Iterable[Chunk]) -> dict[str, list[Chunk]]:
    """Passages by their note."""
    grouped: dict[str, list[Chunk]] = defaultdict(list)
    for chunk in chunks:
        grouped[chunk.note].append(chunk)
    return grouped
