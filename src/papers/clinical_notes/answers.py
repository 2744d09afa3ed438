"""Answers about charts in words, with citations (clinical_notes.md, "generator.py").

A language model answers from passages and cites them in brackets; what its words say is read off by patterns. Code
answers the same questions with a few lines for each kind on the columns of a registry.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import date

import pandas as pd

from evaluation import figures
from evaluation.answers import Answer, Item
from evaluation.outcomes import Outcomes
from helpers.completions import Reply
from helpers.llm import LLM
from helpers.thoughts import without_thought
from papers.clinical_notes.chart_questions import (
    ASKED,
    NOT_FOUND,
    ChartQuestion,
    Kind,
    Value,
    spoken,
)
from papers.clinical_notes.cleaning import milligrams
from papers.clinical_notes.extraction_scores import gold_status
from papers.clinical_notes.gold import Charts, FactT, MedicationEvent, Note, Symptom
from papers.clinical_notes.passages import Chunk
from papers.clinical_notes.query import Lexicon
from papers.clinical_notes.questions import by_note
from papers.clinical_notes.retrieval import Retriever
from rag.prompts import arm_of, chat_messages

OUTCOMES = ("successful", "refractory", "undetermined")
EFFECTS = ("not tolerated", "ineffective", "partial", "effective")
"""In this order, for one of these words holds another."""
ARMS = {
    "rag": "Model, retrieved passages",
    "right_passages": "Model, right passages",
    "registry": "Code, extracted registry",
    "perfect_registry": "Code, registry without errors",
    "commonest": "Always the commonest answer of the kind (floor)",
}
COLOURS = dict(zip(ARMS, ("#125ee0", "#c35410", "#af219d", "#079c6b", "#6b6b6b"), strict=True))


def retrieved(
    retriever: Retriever, questions: Sequence[ChartQuestion], k: int
) -> list[list[Chunk]]:
    """The `k` best passages for each question, in order of date."""
    return [_by_date(retriever.retrieve(question.text, k=k).passages) for question in questions]


def right_passages(
    questions: Sequence[ChartQuestion], chunks: Sequence[Chunk]
) -> list[list[Chunk]]:
    """All passages that hold a part of each question's answer, in order of date."""
    of_note = by_note(chunks)
    right = [
        {c.id: c for p in q.places for c in of_note.get(p.note, ()) if supports(q, c)}
        for q in questions
    ]
    return [_by_date(of.values()) for of in right]


def shortened(passages: Sequence[Chunk], k: int) -> tuple[Chunk, ...]:
    """Of more than `k` passages the first and the last, in equal shares: what began and what came of it."""
    return tuple(passages if len(passages) <= k else [*passages[: k // 2], *passages[k // 2 - k :]])


def supports(question: ChartQuestion, passage: Chunk) -> bool:
    """Whether a passage holds a sentence that answers the question."""
    return any(p.note == passage.note and passage.covers(p.start, p.end) for p in question.places)


def _by_date(chunks: Iterable[Chunk]) -> list[Chunk]:
    return sorted(chunks, key=lambda chunk: (chunk.date, chunk.id))


def answer_prompt(question: ChartQuestion, passages: Sequence[Chunk]) -> list[dict[str, str]]:
    """What the model is asked: rules, numbered and dated passages, question, form of the answer."""
    system = (
        "You answer questions about a patient's chart from numbered passages of it, and from nothing else. After each "
        "statement put the number of the passage that says so in brackets, like [2]. If the passages do not tell, "
        f"write exactly: {NOT_FOUND}. Answer in one short sentence."
    )
    shown = "\n\n".join(
        f"[{i}] ({passage.date})\n{passage.text.strip()}" for i, passage in enumerate(passages, 1)
    )
    return chat_messages(system, f"{shown}\n\nQuestion: {question.text}\n{ASKED[question.kind][1]}")


@arm_of
def by_model(
    questions: Sequence[ChartQuestion],
    model: LLM,
    shown: Sequence[Sequence[Chunk]],
    lexicon: Lexicon,
    max_tokens: int,
    label: str,
) -> list[Answer]:
    """The model answers each question from the passages shown with it; a prompt over the context is an overflow."""
    prompts = [answer_prompt(q, passages) for q, passages in zip(questions, shown, strict=True)]
    replies = model.chat_many(prompts, max_tokens=max_tokens, overflow="record", label=label)
    return [
        judged(q, reply, passages, lexicon)
        for q, reply, passages in zip(questions, replies, shown, strict=True)
    ]


def judged(
    question: ChartQuestion, reply: Reply, shown: Sequence[Chunk], lexicon: Lexicon
) -> Answer:
    """A reply with its measures; one that could not be read is wrong, whatever the chart holds.

    Measures: accuracy; cites (of answers with a value, those that cite a shown passage); citation_precision (cited
    passages, those that hold the answer) where the chart has one.
    """
    numbers, value = read_answer(question, reply.text, lexicon)
    cited = [shown[n - 1] for n in numbers if 1 <= n <= len(shown)]
    good = [c for c in shown if supports(question, c)]
    said = value not in (None, NOT_FOUND)
    measures = {
        "accuracy": (float(value is not None and question.is_right(value if said else None)), 1.0)
    }
    if said:
        measures["cites"] = (float(bool(cited)), 1.0)
    if question.truth and value != NOT_FOUND and cited:
        measures["citation_precision"] = (float(sum(c in good for c in cited)), float(len(cited)))
    return Answer(
        task=question.kind,
        predicted=None if value is None else spoken(value),
        parsed=value is not None,
        items=[
            Item(c.id, str(n), gold=c in good, predicted=c in cited)
            for n, c in enumerate(shown, start=1)
        ],
        measures=measures,
        **reply.columns,
    )


_CITATION = re.compile(r"\[\s*(\d+(?:\s*[,;]\s*\d+)*)\s*\]")


def read_answer(
    question: ChartQuestion, text: str, lexicon: Lexicon
) -> tuple[list[int], Value | None]:
    """The numbers in brackets, each once, and the value that a model's words give, which may be `NOT_FOUND`.

    The value is None if the words could not be read.
    """
    text = without_thought(text)
    numbers = dict.fromkeys(
        int(n) for group in _CITATION.findall(text) for n in re.findall(r"\d+", group)
    )
    # the question, if the model repeats it, holds no answer
    words = _CITATION.sub(" ", text).replace(question.text, " ")
    if re.search(
        r"\bnot\s+(?:found|mentioned|stated|documented|in the (?:chart|passages))", words, re.I
    ):
        return [*numbers], NOT_FOUND
    return [*numbers], _READERS[question.kind](words, lexicon)


_TIMES = {
    "once": 1,
    "twice": 2,
    "bid": 2,
    "b.i.d": 2,
    "tid": 3,
    "t.i.d": 3,
    "qd": 1,
    "qhs": 1,
    "nightly": 1,
}
_TIMES |= {"thrice": 3, "q12h": 2, "q8h": 3, "q24h": 1}
_NUMBERS = {"one": 1, "two": 2, "three": 3, "four": 4}
_EVERY = {"12": 2.0, "8": 3.0, "24": 1.0, "6": 4.0}


def _times(words: str) -> float | None:
    """Times a day, from a number, a word or an abbreviation."""
    lowered = words.lower()
    if match := re.search(r"every\s+(\d+)\s*h", lowered):
        return _EVERY.get(match[1])
    if match := re.search(r"(?<![\w.])(\d+)\s*(?:x|times?)\b", lowered):
        return float(match[1])
    if match := re.search(
        rf"\b({'|'.join(_NUMBERS)})(?=\s+times?\b|\W*$)", lowered
    ):  # not "two tablets daily"
        return float(_NUMBERS[match[1]])
    for word, times in _TIMES.items():
        if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", lowered):
            return float(times)
    if re.search(r"\b(?:daily|a day|per day)\b", lowered) and not re.search(
        r"\d", lowered.replace("mg", "")
    ):
        return 1.0
    alone = re.fullmatch(r"\D{0,12}(\d)\D{0,12}", lowered.strip())
    return float(alone[1]) if alone else None


def _dates(words: str) -> tuple[date, date] | None:
    """The earliest and the latest date of a text."""
    days = []
    for text in re.findall(r"\d{4}-\d{2}-\d{2}", words):
        try:
            days.append(date.fromisoformat(text))
        except ValueError:  # the model made up a day
            continue
    return (min(days), max(days)) if days else None


def _word(words: str, options: Sequence[str]) -> str | None:
    lowered = (
        words.lower()
        .replace("partially effective", "partial")
        .replace("partly effective", "partial")
    )
    lowered = lowered.replace("not effective", "ineffective").replace(
        "not successful", "refractory"
    )
    found = [(m.start(), word) for word in options if (m := re.search(rf"\b{word}", lowered))]
    # who repeats the list of choices has not chosen
    return min(found)[1] if 0 < len(found) < len(options) else None


_READERS: dict[Kind, Callable[[str, Lexicon], Value | None]] = {
    "medications": lambda words, lexicon: lexicon.drugs_in(words) or None,
    "dose": lambda words, _: milligrams(re.sub(r"\bmilligrams?\b", "mg", words, flags=re.I)),
    "outcome": lambda words, _: _word(words, OUTCOMES),
    "timeline": lambda words, _: _dates(words),
    "effectiveness": lambda words, _: _word(words, EFFECTS),
    "frequency": lambda words, _: _times(words),
    "symptoms": lambda words, lexicon: lexicon.symptoms_in(words) or None,
}


def by_code(
    registry: pd.DataFrame, antiseizure: Iterable[str]
) -> Callable[[Sequence[ChartQuestion]], list[Answer]]:
    """An arm without a model: see `answer_by_registry`."""
    known = frozenset(antiseizure)
    return lambda questions: [_said(q, answer_by_registry(registry, q, known)) for q in questions]


def commonest(questions: Sequence[ChartQuestion]) -> list[Answer]:
    """The floor: to all questions of a kind the answer that is right for most of them, absent ones included."""
    right: dict[Kind, Counter[Value | None]] = defaultdict(Counter)
    for question in questions:
        right[question.kind].update(question.truth or [None])
    return [_said(question, right[question.kind].most_common(1)[0][0]) for question in questions]


def _said(question: ChartQuestion, value: Value | None) -> Answer:
    return Answer(
        task=question.kind,
        predicted=NOT_FOUND if value is None else spoken(value),
        measures={"accuracy": (float(question.is_right(value)), 1.0)},
    )


def answer_by_registry(
    registry: pd.DataFrame, question: ChartQuestion, antiseizure: frozenset[str]
) -> Value | None:
    """The answer that the registry's columns give; None if they hold none, which reads as "Not found in chart".

    The registry is the paper's ("Registry schema"); a note without a medication has one row. No question is read.
    """
    rows = registry[registry.patient_id == question.patient]
    rows = rows.assign(day=pd.to_datetime(rows.note_date))
    if question.since and question.until:
        rows = rows[rows.day.between(pd.Timestamp(question.since), pd.Timestamp(question.until))]
    if question.drug:
        rows = rows[rows.medication == question.drug]
    return _ANSWER[question.kind](rows, antiseizure) if len(rows) else None


def _dose(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    doses = [dose for text in rows.medication_dosage.dropna() if (dose := milligrams(str(text)))]
    return doses[-1] if doses else None


def _frequency(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    times = pd.to_numeric(rows.intake_times_per_day, errors="coerce").dropna()
    return float(times.mode().iloc[0]) if len(times) else None


def _outcome(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    last_year = rows.seizure_status[rows.day >= rows.day.max() - pd.Timedelta(days=365)]
    if not (last_year == "positive").any():
        return "successful" if (last_year == "negative").any() else None
    failed = rows.medication[rows.medication_effectiveness == "ineffective"].nunique()
    return "refractory" if failed >= 2 else "undetermined"


def _effectiveness(rows: pd.DataFrame, _: frozenset[str]) -> Value | None:
    known = rows.sort_values("note_date", kind="stable").medication_effectiveness
    known = known[known.isin(EFFECTS)]
    return str(known.iloc[-1]) if len(known) else None


_ANSWER: dict[str, Callable[[pd.DataFrame, frozenset[str]], Value | None]] = {
    "medications": lambda rows, antiseizure: (
        frozenset(rows.medication.dropna()) & antiseizure or None
    ),
    "dose": _dose,
    "outcome": _outcome,
    "timeline": lambda rows, _: (rows.day.min().date(), rows.day.max().date()),
    "effectiveness": _effectiveness,
    "frequency": _frequency,
    "symptoms": lambda rows, _: (
        frozenset(name for names in rows.seizure_symptoms for name in names) or None
    ),
}


def gold_registry(charts: Charts) -> pd.DataFrame:
    """The registry as a perfect extraction would make it: the columns that `answer_by_registry` reads, from gold facts.

    What was copied forward is left out, and so is a drug that is only an idea or taken by a relative.
    """

    def own(facts: Iterable[FactT], note: Note) -> list[FactT]:
        return [f for f in facts if f.note_id == note.note_id and f.copied_from is None]

    rows: list[dict[str, object]] = []
    for chart in charts:
        signs = [
            s for s in chart.facts_of(Symptom) if s.role == "seizure" and s.context == "affirmed"
        ]
        taken = [
            m for m in chart.facts_of(MedicationEvent) if not m.past and m.action != "single dose"
        ]
        for note in chart.notes:
            common: dict[str, object] = {
                "patient_id": chart.patient_id,
                "note_date": note.date.isoformat(),
                "seizure_status": gold_status(chart, note),
                "seizure_symptoms": sorted({s.name for s in own(signs, note)}),
            }
            rows += [
                common
                | {
                    "medication": m.drug,
                    "medication_dosage": f"{m.dose_mg:g} mg" if m.dose_mg else None,
                    "intake_times_per_day": m.times_per_day,
                    "medication_effectiveness": m.effectiveness,
                }
                for m in own(taken, note)
            ] or [common]
    return pd.DataFrame(rows)


def summary(outcomes: Outcomes, model: str) -> str:
    """The page's answer: model against code on the questions that the chart answers, and apart on the others."""
    told, silent = (outcomes.where(**{"in the chart": answer}) for answer in ("yes", "no"))
    share = {arm: figures.score_text(told.score("accuracy", arm)) for arm in ARMS}
    [test] = told.compare([("registry", "rag")], "accuracy")
    words = {
        word: told.where(**{"words of the chart": word})
        for word in told.strata("words of the chart")
    }
    by_words = [
        f"{figures.number(of.score('accuracy', 'registry').value)} ({word})"
        for word, of in words.items()
    ]
    text = (
        f"**On {test.test.n} questions about {told.frame.cluster.nunique()} patients, {model} with retrieved "
        f"passages scores {share['rag']}; a few lines of code on the extracted registry score "
        f"{share['registry']}** (difference {figures.points(test.test)} points, {figures.p_words(test.p)}). By the "
        f"charts' wording, the code is right in {figures.listed(by_words)}. "
        f"With the right passages the model reaches {share['right_passages']}; with an error-free registry the code "
        f"reaches {share['perfect_registry']}. Always giving the commonest answer of each kind would score "
        f"{share['commonest']}."
    )
    if len(silent.frame):
        says = {
            arm: figures.score_text(silent.score("accuracy", arm)) for arm in ("rag", "registry")
        }
        text += f" If the chart lacks the answer, the model says so in {says['rag']}, the code in {says['registry']}."
    return text
