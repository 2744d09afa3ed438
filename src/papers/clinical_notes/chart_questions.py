"""Questions about one chart whose right answer code can tell, of the paper's seven kinds ("RAG-LLM").

The right answers come from the gold facts: a set of drugs, a dose, a word, two dates, a number, a set of symptoms. A
question about a drug that no sentence of the chart names has the right answer "Not found in chart".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import islice
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

NOT_FOUND = "Not found in chart"
ABSENT = "not in the chart"
SLACK = timedelta(days=31)
"""How far a first or last date may be off: a passage may give the month alone."""

ASKED: dict[Kind, tuple[str, str]] = words(QUESTIONS)["chart"]
"""The paper's seven kinds ("RAG-LLM"): how each is asked, and in what form it is to be answered."""
KINDS: tuple[Kind, ...] = tuple(ASKED)


@dataclass(frozen=True)
class ChartQuestion:
    """A question about one chart, with the drug (generic name) and days that it is about.

    `truth` has the right answers, None if the chart holds none; `places` are the sentences that hold it. Some sentences
    of charts that are `held_out` have words that the extraction rules were not written for.
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
        """Its kind, or that the chart does not answer it; and whether rules could be written for the chart's words."""
        told = {
            "kind": self.kind if self.truth else ABSENT,
            "in the chart": "yes" if self.truth else "no",
        }
        return told | {
            "words of the chart": "partly held out" if self.held_out else "known to the rules"
        }

    def is_right(self, value: Value | None) -> bool:
        """Whether a value is a right answer; None is right where the chart holds none."""
        if self.truth is None or value is None:
            return self.truth is value
        if isinstance(value, tuple):
            spans = [span for span in self.truth if isinstance(span, tuple)]
            return any(
                all(abs(a - b) <= SLACK for a, b in zip(span, value, strict=True)) for span in spans
            )
        return value in self.truth


def spoken(value: Value) -> str:
    """A value as a reader says it."""
    if isinstance(value, frozenset):
        return ", ".join(sorted(value))
    if isinstance(value, tuple):
        return f"{value[0]} to {value[1]}"
    return f"{value:g}" if isinstance(value, float) else value


class _Case(NamedTuple):
    """What could be asked of one chart, the facts that answer it, and the right answers."""

    kind: Kind
    facts: Sequence[Fact]
    truth: tuple[Value, ...] | None
    drug: str | None = None
    year: int | None = None
    month: date | None = None


def write_chart_questions(
    charts: Charts, names: Names, per_kind: int, absent: int, seed: int
) -> list[ChartQuestion]:
    """So many questions of each kind from the gold facts, and so many about drugs that the chart does not name.

    A patient is asked at most once a kind, and each kind asks the charts in an order of its own. `truth` may hold
    several right answers, for example the doses before and after a change within the month.
    """
    rng = np.random.default_rng(seed)
    of_chart = [list(_chart_cases(chart, names)) for chart in charts]
    chosen: list[tuple[Chart, _Case]] = []
    for kind in KINDS:
        can = [i for i, cases in enumerate(of_chart) if any(case.kind == kind for case in cases)]
        for i in rng.permutation(can)[:per_kind]:
            cases = [case for case in of_chart[i] if case.kind == kind]
            chosen.append((charts.charts[i], cases[rng.integers(len(cases))]))
    order = (charts.charts[i] for i in rng.permutation(len(charts)))
    chosen += islice(
        ((chart, case) for chart in order for case in _absent(chart, names, rng)), absent
    )
    return [_worded(chart, case, names, rng) for chart, case in chosen]


def _chart_cases(chart: Chart, names: Names) -> Iterator[_Case]:
    events = chart.facts_of(MedicationEvent)
    own = [m for m in events if m.copied_from is None and not m.past and m.drug in names]
    regular = [m for m in own if m.action != "single dose"]
    for year in sorted({m.date.year for m in regular}):
        of = [m for m in regular if m.date.year == year]
        yield _Case("medications", of, (frozenset(m.drug for m in of),), year=year)
    end = chart.notes[-1].date
    needed: list[Fact] = [s for s in chart.facts_of(SeizureStatus) if (end - s.date).days <= 365]
    if (
        chart.outcome != "successful"
    ):  # then it matters which drugs have failed, so that another one was begun
        added = ("start", "lack of effect")
        needed += [
            m for m in own if m.effectiveness == "ineffective" or (m.action, m.reason) == added
        ]
    yield _Case("outcome", needed, (chart.outcome,))
    months: dict[tuple[str, date], list[MedicationEvent]] = defaultdict(list)
    for m in regular:
        if m.dose_mg is not None and m.times_per_day:
            months[m.drug, m.date.replace(day=1)].append(m)
    for (drug, month), of in months.items():
        doses, times = (
            {float(m.dose_mg or 0) for m in of},
            {float(m.times_per_day or 0) for m in of},
        )
        yield _Case("dose", of, tuple(sorted(doses)), drug, month=month)
        yield _Case("frequency", of, tuple(sorted(times)), drug, month=month)
    signs = [s for s in chart.facts_of(Symptom) if s.role == "seizure" and s.context == "affirmed"]
    for drug, span in exposures(chart).items():
        if drug not in names:
            continue
        yield _Case(
            "timeline",
            [m for m in own if drug in (m.drug, m.replaces) and m.date in span],
            (span,),
            drug,
        )
        if rated := [m for m in own if m.drug == drug and m.effectiveness]:
            last = str(max(rated, key=lambda m: m.date).effectiveness)
            yield _Case(
                "effectiveness", [m for m in rated if m.effectiveness == last], (last,), drug
            )
        if during := [s for s in signs if span[0] <= s.date <= span[1]]:
            yield _Case("symptoms", during, (frozenset(s.name for s in during),), drug)


def _absent(chart: Chart, names: Names, rng: np.random.Generator) -> Iterator[_Case]:
    """A question about a drug that no sentence of the chart names, be it as an idea or of a relative."""
    never = sorted(
        names.keys()
        - {m.drug for m in chart.mentions}
        - {m.drug for m in chart.facts_of(MedicationEvent)}
    )
    if never:
        kinds: tuple[Kind, ...] = ("dose", "timeline", "effectiveness", "frequency", "symptoms")
        kind, drug = kinds[rng.integers(len(kinds))], never[rng.integers(len(never))]
        month = chart.notes[rng.integers(len(chart.notes))].date.replace(day=1)
        yield _Case(kind, (), None, drug, month=month if kind in ("dose", "frequency") else None)


def _worded(chart: Chart, case: _Case, names: Names, rng: np.random.Generator) -> ChartQuestion:
    month = f"{case.month:%B %Y}" if case.month else ""
    since, until = period(month or str(case.year)) if month or case.year else (None, None)
    text = ASKED[case.kind][0].format(
        p=chart.patient_id,
        d=name_drug(case.drug, names, rng)[0] if case.drug else "",
        year=case.year,
        month=month,
    )
    places = tuple(Place(f.note_id, f.start, f.end, 2) for f in case.facts)
    return ChartQuestion(
        case.kind,
        text,
        chart.patient_id,
        case.drug,
        since,
        until,
        case.truth,
        places,
        chart.split == "test",
    )
