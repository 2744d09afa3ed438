"""Questions about one chart with known right answers, of the paper's seven kinds ("RAG-LLM").

The right answers come from the gold facts: a set of drugs, a dose, a word, two dates, a number,
a set of symptoms. A question about a drug that no sentence of the chart names has the right
answer "Not found in chart".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from papers.clinical_notes.gold import Chart, Charts, Fact, MedicationEvent, SeizureStatus, Symptom
from papers.clinical_notes.query import period
from papers.clinical_notes.questions import QUESTIONS, Names, Place, exposures, name_drug
from papers.clinical_notes.wording import words

Kind = Literal[
    "medications", "dose", "outcome", "timeline", "effectiveness", "frequency", "symptoms"
]
Value: TypeAlias = "frozenset[str] | float | str | tuple[date, date]"

Layout = Literal["plain", "like real notes", "of both kinds"]
"""Layout of notes: plain, or with wrapped lines, titles in line, capitals and decimal commas."""

NOT_FOUND = "Not found in chart"
ABSENT = "not in the chart"
SLACK = timedelta(days=31)
"""How far a first or last date may be off: a passage may give the month alone."""

QUESTION_FORMS: dict[Kind, tuple[str, str]] = words(QUESTIONS)["chart"]
"""The wording of each kind of question, and the form in which it is to be answered."""
KINDS: tuple[Kind, ...] = tuple(QUESTION_FORMS)


@dataclass(frozen=True)
class ChartQuestion:
    """A question about one chart.

    Some sentences of a test chart are in held-out wording.

    Attributes:
        kind: Kind of the question.
        text: The question.
        patient: The patient of the chart.
        drug: Generic name of the drug that it is about, if it is about one.
        since: First day that it is about; None if it names no period.
        until: Last day that it is about; None if it names no period.
        truth: The right answers; None if the chart holds none.
        places: The sentences that hold the answer.
        held_out: Whether the chart has sentences for which no rule was written.
        layout: Layout of the notes that hold the answer.
    """

    kind: Kind
    text: str
    patient: str
    drug: str | None
    since: date | None
    until: date | None
    truth: tuple[Value, ...] | None
    places: tuple[Place, ...] = field(repr=False, default=())
    held_out: bool = False
    layout: Layout = "plain"

    @property
    def unit(self) -> str:
        """What it asks: the same in every set that has it."""
        return f"{self.kind} | {self.text}"

    @property
    def cluster(self) -> str:
        """The patient: questions about one chart are not independent."""
        return self.patient

    @property
    def gold(self) -> str:
        """The right answers as a reader says them."""
        return " or ".join(map(spoken, self.truth)) if self.truth else NOT_FOUND

    @property
    def strata(self) -> dict[str, str]:
        """Its kind, whether the chart answers it, and words and layout of the notes."""
        wording = "partly held out" if self.held_out else "known to the rules"
        return {
            "kind": self.kind if self.truth else ABSENT,
            "in the chart": "yes" if self.truth else "no",
            "words of the chart": wording,
            "layout": self.layout,
        }

    def is_right(self, value: Value | None) -> bool:
        """Whether a value is a right answer; None is right where the chart holds none."""
        if self.truth is None or value is None:
            return self.truth is value
        if isinstance(value, tuple):
            spans = [span for span in self.truth if isinstance(span, tuple)]
            return any(_is_near(span, value) for span in spans)
        return value in self.truth


def _is_near(first: tuple[date, date], second: tuple[date, date]) -> bool:
    """Whether two timelines begin and end within `SLACK` of each other."""
    return all(abs(a - b) <= SLACK for a, b in zip(first, second, strict=True))


def spoken(value: Value) -> str:
    """Write a value as a reader says it."""
    if isinstance(value, frozenset):
        return ", ".join(sorted(value))
    if isinstance(value, tuple):
        return f"{value[0]} to {value[1]}"
    return f"{value:g}" if isinstance(value, float) else value


class _Case(NamedTuple):
    """A possible question about a chart, the facts that answer it, and the right answers."""

    kind: Kind
    facts: Sequence[Fact]
    truth: tuple[Value, ...] | None
    drug: str | None = None
    year: int | None = None
    month: date | None = None


def write_chart_questions(
    charts: Charts, names: Names, per_kind: int, absent: int, seed: int
) -> list[ChartQuestion]:
    """Write questions of each kind from the gold facts.

    A patient has at most one question of a kind, and each kind draws the charts in an order of
    its own. A question may have several right answers, for example the doses before and after a
    change within the month.

    Args:
        charts: The charts to ask about.
        names: Names of the drugs, by kind.
        per_kind: Number of questions of each kind.
        absent: Number of questions about drugs that the chart does not name.
        seed: Seed of the draw.
    """
    rng = np.random.default_rng(seed)
    cases_by_chart = [_chart_cases(chart, names) for chart in charts]
    chosen: list[tuple[Chart, _Case]] = []
    for kind in KINDS:
        by_position = {}
        for position, cases in enumerate(cases_by_chart):
            of_kind = [case for case in cases if case.kind == kind]
            if of_kind:
                by_position[position] = of_kind
        for position in rng.permutation(list(by_position))[:per_kind]:
            options = by_position[position]
            case = options[rng.integers(len(options))]
            chosen.append((charts.charts[position], case))
    chosen += _absent_cases(charts, names, absent, rng)
    return [_word(chart, case, names, rng) for chart, case in chosen]


def _chart_cases(chart: Chart, names: Names) -> list[_Case]:
    """All possible questions about a chart."""
    own_events = []
    for event in chart.facts_of(MedicationEvent):
        if event.copied_from is None and not event.past and event.drug in names:
            own_events.append(event)
    regular = [event for event in own_events if event.action != "single dose"]
    return [
        *_medication_cases(regular),
        _outcome_case(chart, own_events),
        *_regimen_cases(regular),
        *_drug_cases(chart, own_events, names),
    ]


def _medication_cases(events: Sequence[MedicationEvent]) -> Iterator[_Case]:
    """Which drugs the patient took in a year."""
    for year in sorted({event.date.year for event in events}):
        of_year = [event for event in events if event.date.year == year]
        drugs = frozenset(event.drug for event in of_year)
        yield _Case("medications", of_year, (drugs,), year=year)


def _outcome_case(chart: Chart, events: Sequence[MedicationEvent]) -> _Case:
    """How the treatment turned out, by the seizures of the last year."""
    end = chart.notes[-1].date
    statuses = chart.facts_of(SeizureStatus)
    facts: list[Fact] = [status for status in statuses if (end - status.date).days <= 365]
    if chart.outcome != "successful":
        # then it matters which drugs have failed, so that another one was begun
        facts += [event for event in events if _shows_failure(event)]
    return _Case("outcome", facts, (chart.outcome,))


def _shows_failure(event: MedicationEvent) -> bool:
    """Whether a drug failed, or another was added because one did."""
    is_added = event.action == "start" and event.reason == "lack of effect"
    return is_added or event.effectiveness == "ineffective"


def _regimen_cases(events: Sequence[MedicationEvent]) -> Iterator[_Case]:
    """Dose and frequency of a drug in a month."""
    by_month: dict[tuple[str, date], list[MedicationEvent]] = defaultdict(list)
    for event in events:
        if event.states_regimen:
            by_month[event.drug, event.date.replace(day=1)].append(event)
    for (drug, month), of_month in by_month.items():
        doses = {float(event.dose_mg or 0) for event in of_month}
        times = {float(event.times_per_day or 0) for event in of_month}
        yield _Case("dose", of_month, tuple(sorted(doses)), drug, month=month)
        yield _Case("frequency", of_month, tuple(sorted(times)), drug, month=month)


def _drug_cases(chart: Chart, events: Sequence[MedicationEvent], names: Names) -> Iterator[_Case]:
    """Timeline, effectiveness and symptoms of each drug."""
    for drug, days in exposures(chart).items():
        if drug in names:
            yield _timeline_case(drug, days, events)
            yield from _effectiveness_cases(drug, events)
            yield from _symptom_cases(chart, drug, days)


def _timeline_case(drug: str, days: tuple[date, date], events: Sequence[MedicationEvent]) -> _Case:
    about_drug = [event for event in events if drug in (event.drug, event.replaces)]
    facts = [event for event in about_drug if event.date in days]
    return _Case("timeline", facts, (days,), drug)


def _effectiveness_cases(drug: str, events: Sequence[MedicationEvent]) -> Iterator[_Case]:
    """The last statement counts."""
    about_drug = [event for event in events if event.drug == drug]
    rated = [event for event in about_drug if event.effectiveness]
    if rated:
        last = str(max(rated, key=lambda event: event.date).effectiveness)
        facts = [event for event in rated if event.effectiveness == last]
        yield _Case("effectiveness", facts, (last,), drug)


def _symptom_cases(chart: Chart, drug: str, days: tuple[date, date]) -> Iterator[_Case]:
    first, last = days
    symptoms = [symptom for symptom in chart.facts_of(Symptom) if symptom.is_ictal]
    during = [symptom for symptom in symptoms if first <= symptom.date <= last]
    if during:
        names = frozenset(symptom.name for symptom in during)
        yield _Case("symptoms", during, (names,), drug)


ABSENT_KINDS: tuple[Kind, ...] = ("dose", "timeline", "effectiveness", "frequency", "symptoms")
"""Kinds of questions about a drug that the chart does not name."""


def _absent_cases(
    charts: Charts, names: Names, n: int, rng: np.random.Generator
) -> list[tuple[Chart, _Case]]:
    """Questions about drugs that no sentence of the chart names, from charts in random order."""
    cases: list[tuple[Chart, _Case]] = []
    for position in rng.permutation(len(charts)):
        if len(cases) == n:
            break
        chart = charts.charts[position]
        drugs = _drugs_never_named(chart, names)
        if drugs:
            cases.append((chart, _absent_case(chart, drugs, rng)))
    return cases


def _drugs_never_named(chart: Chart, names: Names) -> list[str]:
    """Drugs that the chart does not name, be it as an idea or of a relative."""
    mentioned = {mention.drug for mention in chart.mentions}
    mentioned |= {event.drug for event in chart.facts_of(MedicationEvent)}
    return sorted(names.keys() - mentioned)


def _absent_case(chart: Chart, drugs: Sequence[str], rng: np.random.Generator) -> _Case:
    kind = ABSENT_KINDS[rng.integers(len(ABSENT_KINDS))]
    drug = drugs[rng.integers(len(drugs))]
    note = chart.notes[rng.integers(len(chart.notes))]
    month = note.date.replace(day=1) if kind in ("dose", "frequency") else None
    return _Case(kind, (), None, drug, month=month)


def _word(chart: Chart, case: _Case, names: Names, rng: np.random.Generator) -> ChartQuestion:
    """Word a case, with its drug under a random name."""
    month = f"{case.month:%B %Y}" if case.month else ""
    days = month or str(case.year or "")
    since, until = period(days) if days else (None, None)
    drug = name_drug(case.drug, names, rng)[0] if case.drug else ""
    form, _ = QUESTION_FORMS[case.kind]
    places = [Place(fact.note_id, fact.start, fact.end, 2) for fact in case.facts]
    return ChartQuestion(
        kind=case.kind,
        text=form.format(p=chart.patient_id, d=drug, year=case.year, month=month),
        patient=chart.patient_id,
        drug=case.drug,
        since=since,
        until=until,
        truth=case.truth,
        places=tuple(places),
        held_out=chart.split == "test",
        layout=_layout(chart, places),
    )


def _layout(chart: Chart, places: Collection[Place]) -> Layout:
    """The layout of the notes that hold an answer; of the chart's notes, if none does."""
    answering = {place.note for place in places}
    notes = [note for note in chart.notes if note.note_id in answering]
    is_untidy = {note.untidy for note in notes or chart.notes}
    if is_untidy == {True, False}:
        return "of both kinds"
    return "like real notes" if True in is_untidy else "plain"
