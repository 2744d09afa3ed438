"""Answers about charts with citations (clinical_notes.md, "generator.py"), beside answers by code from the registry.

The paper lists seven kinds of questions. Each is asked in a form whose right answer can be told by code: a set of
drugs, a dose, a word, two dates, a number, a set of symptoms. A language model answers from retrieved passages and
cites them in brackets; a function of a few lines answers from the registry's columns. Both are held against the gold
facts. Questions about drugs that no note of the patient names belong to it: their answer is "Not found in chart".
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import islice
from typing import Literal, TypeAlias

import numpy as np
import pandas as pd

from helpers.llm import LLM, Reply
from papers.clinical_notes.gold import Chart, Charts, Fact, MedicationEvent, Note
from papers.clinical_notes.passages import Chunk
from papers.clinical_notes.query import Lexicon
from papers.clinical_notes.questions import (
    FactT,
    Names,
    Place,
    by_note,
    exposures,
    month_and_year,
    month_of,
    name_drug,
    year_of,
)
from papers.clinical_notes.retrieval import PAPER, Retriever, Settings

Kind = Literal["medications", "dose", "outcome", "timeline", "effectiveness", "frequency", "symptoms"]
Value: TypeAlias = "frozenset[str] | float | str | tuple[date, date]"

NOT_FOUND = "Not found in chart"
SLACK = timedelta(days=31)
"""How far a first or last date may be off: a passage may give the month alone."""
OUTCOMES = ("successful", "refractory", "undetermined")
EFFECTS = ("not tolerated", "ineffective", "partial", "effective")
"""In this order, for one of these words holds another."""

ASKED: dict[Kind, tuple[str, str]] = {
    "medications": (
        "Which antiseizure medications did patient {p} take in {year}?",
        "Name every antiseizure drug, nothing else.",
    ),
    "dose": (
        "How much {d} did patient {p} take at one time in {month}?",
        "Give the dose at one time in mg.",
    ),
    "outcome": (
        "Is the medication regimen of patient {p} refractory or successful?",
        "Say successful if there were no seizures in the last year, refractory if seizures go on after two drugs "
        "failed, else undetermined.",
    ),
    "timeline": (
        "What is the timeline of patient {p} under {d}: from when to when was it taken?",
        "Give the first and the last date as YYYY-MM-DD.",
    ),
    "effectiveness": (
        "How effective was {d} for patient {p}?",
        "Say at last: effective, partial, ineffective, or not tolerated.",
    ),
    "frequency": (
        "How many times a day did patient {p} take {d} in {month}?",
        "Give the number of times a day.",
    ),
    "symptoms": (
        "What seizure-related symptoms did patient {p} have while on {d}?",
        "Name the symptoms that the patient has during seizures, nothing that is denied.",
    ),
}
"""The paper's seven kinds ("RAG-LLM"): how each is asked, and in what form it is to be answered."""
KINDS: tuple[Kind, ...] = tuple(ASKED)


@dataclass(frozen=True)
class ChartQuestion:
    """A question about one chart.

    Attributes:
        id: unique within a set.
        kind: one of the seven.
        text: as asked.
        patient: whose chart.
        drug: generic name, or None.
        since, until: days that it is about, or None.
        truth: the right answer; None if it is not in the chart.
        places: sentences that hold it.
    """

    id: str
    kind: Kind
    text: str
    patient: str
    drug: str | None
    since: date | None
    until: date | None
    truth: tuple[Value, ...] | None
    places: tuple[Place, ...] = field(repr=False, default=())

    @property
    def answerable(self) -> bool:
        """Whether the chart holds the answer."""
        return self.truth is not None


# ---------------------------------------------------------------------------------------------------------- questions


@dataclass(frozen=True)
class _Case:
    """What could be asked of one chart, the facts that answer it, and the right answers."""

    kind: Kind
    facts: tuple[Fact, ...]
    truth: tuple[Value, ...] | None
    drug: str | None = None
    year: int | None = None
    month: date | None = None


def write_chart_questions(charts: Charts, names: Names, per_kind: int, absent: int, seed: int) -> list[ChartQuestion]:
    """So many questions of each kind from the gold facts, and so many about drugs that the chart does not name.

    Each patient is asked about at most once a kind, and each kind asks the charts in an order of its own, so that many
    patients are asked about. `truth` may hold several right answers, for example the doses before and after a change
    within the month.
    """
    rng = np.random.default_rng(seed)
    of_chart = [list(_chart_cases(chart, names)) for chart in charts]
    chosen: list[tuple[Chart, _Case]] = []
    for kind in KINDS:
        can = [i for i, cases in enumerate(of_chart) if any(case.kind == kind for case in cases)]
        for i in rng.permutation(can)[:per_kind]:
            cases = [case for case in of_chart[i] if case.kind == kind]
            chosen.append((charts.charts[i], cases[rng.integers(len(cases))]))
    missing = (
        (chart, case)
        for i in rng.permutation(len(charts))
        for chart in [charts.charts[i]]
        for case in _absent(chart, names, rng)
    )
    chosen += islice(missing, absent)
    return [_worded(f"q{n:03}", chart, case, names, rng) for n, (chart, case) in enumerate(chosen)]


def _chart_cases(chart: Chart, names: Names) -> Iterator[_Case]:
    own = [m for m in chart.medications if m.copied_from is None and not m.past and m.drug in names]
    regular = [m for m in own if m.action != "single dose"]
    for year in sorted({m.date.year for m in regular}):
        of = [m for m in regular if m.date.year == year]
        yield _Case("medications", tuple(of), (frozenset(m.drug for m in of),), year=year)
    end = chart.notes[-1].date
    needed: list[Fact] = [s for s in chart.seizures if (end - s.date).days <= 365]
    if chart.outcome != "successful":  # then it matters which drugs have failed
        needed += [m for m in own if m.effectiveness == "ineffective" or _added(m)]
    yield _Case("outcome", tuple(needed), (chart.outcome,))
    months: dict[tuple[str, date], list[MedicationEvent]] = defaultdict(list)
    for m in regular:
        if m.dose_mg is not None and m.times_per_day:
            months[m.drug, m.date.replace(day=1)].append(m)
    for (drug, month), of in months.items():
        doses, times = {float(m.dose_mg or 0) for m in of}, {float(m.times_per_day or 0) for m in of}
        yield _Case("dose", tuple(of), tuple(sorted(doses)), drug, month=month)
        yield _Case("frequency", tuple(of), tuple(sorted(times)), drug, month=month)
    for drug, span in exposures(chart).items():
        if drug in names:
            yield from _drug_cases(chart, drug, span, own)


def _added(event: MedicationEvent) -> bool:
    """Whether a drug was begun because another one, at its full dose, did too little."""
    return event.action == "start" and event.reason == "lack of effect"


def _drug_cases(chart: Chart, drug: str, span: tuple[date, date], own: Sequence[MedicationEvent]) -> Iterator[_Case]:
    ends = tuple(m for m in own if drug in (m.drug, m.replaces) and m.date in span)
    yield _Case("timeline", ends, (span,), drug)
    if judged := [m for m in own if m.drug == drug and m.effectiveness]:
        last = str(max(judged, key=lambda m: m.date).effectiveness)
        yield _Case("effectiveness", tuple(m for m in judged if m.effectiveness == last), (last,), drug)
    during = [s for s in chart.symptoms if span[0] <= s.date <= span[1]]
    if signs := [s for s in during if s.role == "seizure" and s.context == "affirmed"]:
        yield _Case("symptoms", tuple(signs), (frozenset(s.name for s in signs),), drug)


def _absent(chart: Chart, names: Names, rng: np.random.Generator) -> Iterator[_Case]:
    """A question about a drug that no sentence of the chart names, be it as an idea or of a relative."""
    never = sorted(names.keys() - {m.drug for m in chart.mentions} - {m.drug for m in chart.medications})
    if never:
        kinds: tuple[Kind, ...] = ("dose", "timeline", "effectiveness", "frequency", "symptoms")
        kind, drug = kinds[rng.integers(len(kinds))], never[rng.integers(len(never))]
        month = chart.notes[rng.integers(len(chart.notes))].date.replace(day=1)
        yield _Case(kind, (), None, drug, month=month if kind in ("dose", "frequency") else None)


def _worded(id: str, chart: Chart, case: _Case, names: Names, rng: np.random.Generator) -> ChartQuestion:
    since, until = None, None
    if case.year:
        since, until = year_of(case.year)
    if case.month:
        since, until = month_of(case.month)
    text = ASKED[case.kind][0].format(
        p=chart.patient_id,
        d=name_drug(case.drug, names, rng)[0] if case.drug else "",
        year=case.year,
        month=month_and_year(case.month) if case.month else "",
    )
    places = tuple(Place(f.note_id, f.start, f.end, 2) for f in case.facts)
    return ChartQuestion(id, case.kind, text, chart.patient_id, case.drug, since, until, case.truth, places)


# --------------------------------------------------------------------------------------------------- answers in words


@dataclass(frozen=True)
class Cited:
    """An answer in words with what could be read off it.

    Attributes:
        reply: of the model.
        shown: passages in the prompt, in the order of their numbers.
        cited: numbers in brackets, as written, each once.
        value: what it says; None if nothing could be read.
        not_found: whether it says that the chart does not tell.
    """

    reply: Reply = field(repr=False)
    shown: tuple[Chunk, ...]
    cited: tuple[int, ...]
    value: Value | None
    not_found: bool

    @property
    def passages(self) -> list[Chunk]:
        """The cited passages that were shown."""
        return [self.shown[i - 1] for i in self.cited if 1 <= i <= len(self.shown)]


def answer_prompt(question: ChartQuestion, passages: Sequence[Chunk]) -> list[dict[str, str]]:
    """What the model is asked: rules, numbered and dated passages, question, form of the answer."""
    system = (
        "You answer questions about a patient's chart from numbered passages of it, and from nothing else. After each "
        "statement put the number of the passage that says so in brackets, like [2]. If the passages do not tell, "
        f"write exactly: {NOT_FOUND}. Answer in one short sentence."
    )
    shown = "\n\n".join(
        f"[{i}] ({passage.date})\n{passage.text.strip()}" for i, passage in enumerate(passages, start=1)
    )
    return [
        {"role": "system", "content": system},
        {"role": "user", "content": f"{shown}\n\nQuestion: {question.text}\n{ASKED[question.kind][1]}"},
    ]


def retrieved(
    retriever: Retriever, questions: Sequence[ChartQuestion], k: int, settings: Settings = PAPER
) -> list[tuple[Chunk, ...]]:
    """The `k` best passages for each question, in order of date."""
    found = []
    for question in questions:
        results = retriever.retrieve(question.text, k=k, settings=settings).results
        found.append(tuple(sorted((r.chunk for r in results), key=_by_date)))
    return found


@dataclass(frozen=True)
class Right:
    """The passages that a perfect retriever would show for a question.

    Attributes:
        shown: at most as many as were wanted.
        left_out: further ones that hold a part of the answer.
    """

    shown: tuple[Chunk, ...]
    left_out: int


def holding(
    questions: Sequence[ChartQuestion], chunks: Sequence[Chunk], k: int, otherwise: Sequence[tuple[Chunk, ...]]
) -> list[Right]:
    """Passages that hold the answer of each question, as a perfect retriever would give them.

    Of more than `k`, the first and the last by date, in equal shares: what began and what came of it.

    Args:
        questions: about charts.
        chunks: all passages.
        k: how many are shown.
        otherwise: passages for each question, shown where the chart holds no answer: there is no right one.
    """
    of_note = by_note(chunks)
    found = []
    for question, instead in zip(questions, otherwise, strict=True):
        right = {c.id: c for p in question.places for c in of_note.get(p.note, ()) if c.covers(p.start, p.end)}
        ordered = sorted(right.values(), key=_by_date)
        shown = ordered if len(ordered) <= k else [*ordered[: k // 2], *ordered[k // 2 - k :]]
        found.append(Right(tuple(shown) if question.answerable else instead, len(ordered) - len(shown)))
    return found


def _by_date(chunk: Chunk) -> tuple[date, str]:
    return chunk.date, chunk.id


def answer_from(
    model: LLM,
    questions: Sequence[ChartQuestion],
    shown: Sequence[tuple[Chunk, ...]],
    lexicon: Lexicon,
    *,
    max_tokens: int = 64,
    label: str = "answer from passages",
) -> list[Cited]:
    """The model's answer to each question from the passages shown with it; a prompt over the context is an overflow."""
    prompts = [answer_prompt(q, passages) for q, passages in zip(questions, shown, strict=True)]
    replies = model.chat_many(prompts, max_tokens=max_tokens, overflow="record", label=label)
    return [
        read_answer(question, reply, passages, lexicon)
        for question, reply, passages in zip(questions, replies, shown, strict=True)
    ]


_CITATION = re.compile(r"\[\s*(\d+(?:\s*[,;]\s*\d+)*)\s*\]")


def read_answer(question: ChartQuestion, reply: Reply, shown: Sequence[Chunk], lexicon: Lexicon) -> Cited:
    """Read citations, the value and "Not found in chart" off a model's words."""
    numbers = [int(n) for group in _CITATION.findall(reply.text) for n in re.split(r"\s*[,;]\s*", group)]
    words = _CITATION.sub(" ", reply.text)
    # the question, if the model repeats it, holds no answer
    words = words.replace(question.text, " ")
    not_found = bool(re.search(r"\bnot\s+(?:found|mentioned|stated|documented|in the (?:chart|passages))", words, re.I))
    value = None if not_found else _READERS[question.kind](words, lexicon)
    return Cited(reply, tuple(shown), tuple(dict.fromkeys(numbers)), value, not_found)


_TIMES = {"once": 1, "twice": 2, "bid": 2, "b.i.d": 2, "tid": 3, "t.i.d": 3, "qd": 1, "qhs": 1, "nightly": 1, "one": 1}
_TIMES |= {"two": 2, "three": 3, "thrice": 3, "four": 4, "q12h": 2, "q8h": 3, "q24h": 1}
_EVERY = {"12": 2.0, "8": 3.0, "24": 1.0, "6": 4.0}


def read_dose(words: str, _: Lexicon | None = None) -> float | None:
    """The first amount in mg (or g) of a text."""
    match = re.search(r"(\d+(?:,\d{3})*(?:\.\d+)?)\s*(mg|mgs|milligrams?|g|grams?)\b", words, re.I)
    if not match:
        return None
    amount = float(match[1].replace(",", ""))
    return amount if match[2].lower().startswith("m") else 1000 * amount


def read_times(words: str, _: Lexicon | None = None) -> float | None:
    """Times a day, from a number, a word or an abbreviation."""
    lowered = words.lower()
    if match := re.search(r"every\s+(\d+)\s*h", lowered):
        return _EVERY.get(match[1])
    if match := re.search(r"(?<![\w.])(\d+)\s*(?:x|times?)\b", lowered):
        return float(match[1])
    for word, times in _TIMES.items():
        if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", lowered):
            return float(times)
    if re.search(r"\b(?:daily|a day|per day)\b", lowered) and not re.search(r"\d", lowered.replace("mg", "")):
        return 1.0
    alone = re.fullmatch(r"\D{0,12}(\d)\D{0,12}", lowered.strip())
    return float(alone[1]) if alone else None


def read_dates(words: str, _: Lexicon | None = None) -> tuple[date, date] | None:
    """The earliest and the latest date of a text."""
    days = []
    for text in re.findall(r"\d{4}-\d{2}-\d{2}", words):
        try:
            days.append(date.fromisoformat(text))
        except ValueError:  # the model made up a day
            continue
    return (min(days), max(days)) if days else None


def _word(options: Sequence[str]) -> Callable[[str, Lexicon], str | None]:
    def read(words: str, _: Lexicon) -> str | None:
        lowered = words.lower().replace("partially effective", "partial").replace("partly effective", "partial")
        lowered = lowered.replace("not effective", "ineffective").replace("not successful", "refractory")
        found = [(m.start(), word) for word in options if (m := re.search(rf"\b{word}", lowered))]
        # who repeats the list of choices has not chosen
        return min(found)[1] if 0 < len(found) < len(options) else None

    return read


_READERS: dict[Kind, Callable[[str, Lexicon], Value | None]] = {
    "medications": lambda words, lexicon: lexicon.drugs_in(words) or None,
    "dose": read_dose,
    "outcome": _word(OUTCOMES),
    "timeline": read_dates,
    "effectiveness": _word(EFFECTS),
    "frequency": read_times,
    "symptoms": lambda words, lexicon: lexicon.symptoms_in(words) or None,
}


# ------------------------------------------------------------------------------------------------- answers by the code


def answer_by_registry(registry: pd.DataFrame, question: ChartQuestion, antiseizure: Iterable[str]) -> Value | None:
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
    return _FROM_ROWS[question.kind](rows, frozenset(antiseizure)) if len(rows) else None


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


# -------------------------------------------------------------------------------------------------------------- scores


def is_right(question: ChartQuestion, value: Value | None) -> bool:
    """Whether a value is the right answer; None is right where the chart holds none."""
    if question.truth is None or value is None:
        return question.truth is None and value is None
    if question.kind == "timeline":
        assert isinstance(value, tuple)
        return any(
            isinstance(span, tuple) and all(abs(a - b) <= SLACK for a, b in zip(span, value, strict=True))
            for span in question.truth
        )
    return value in question.truth


def answers_right(question: ChartQuestion, answer: Cited) -> bool:
    """Whether an answer in words is right: an answer that could not be read is wrong, whatever the chart holds."""
    if answer.not_found:
        return not question.answerable
    return answer.value is not None and is_right(question, answer.value)


def is_unparsed(answer: Cited) -> bool:
    """Whether neither a value nor "Not found in chart" could be read."""
    return not answer.not_found and answer.value is None


def supports(question: ChartQuestion, passage: Chunk) -> bool:
    """Whether a passage holds a sentence that answers the question."""
    return any(p.note == passage.note and passage.covers(p.start, p.end) for p in question.places)


def citations(questions: Sequence[ChartQuestion], answers: Sequence[Cited]) -> Mapping[str, list[tuple[str, bool]]]:
    """How good the citations are: what could be right, each as its patient and whether it is.

    resolve: bracketed numbers, right if a shown passage has that number. precision: cited passages, right if they hold
    an answer (only where the chart has one). recall: shown passages that hold an answer, right if cited. cited: answers
    with a value, right if they cite a shown passage.
    """
    found: dict[str, list[tuple[str, bool]]] = {"resolve": [], "cited": [], "precision": [], "recall": []}
    for question, answer in zip(questions, answers, strict=True):
        patient, cited = question.patient, answer.passages
        found["resolve"] += [(patient, 1 <= number <= len(answer.shown)) for number in answer.cited]
        if answer.value is not None:
            found["cited"].append((patient, bool(cited)))
        if question.answerable and not answer.not_found:
            good = [c for c in answer.shown if supports(question, c)]
            found["precision"] += [(patient, c in good) for c in cited]
            found["recall"] += [(patient, c in cited) for c in good]
    return found
