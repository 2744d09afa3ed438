"""Answers about charts in words, with citations (clinical_notes.md, "generator.py").

A language model answers from passages and cites them in brackets. What its words say is read off by patterns and held
against the gold facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from helpers.completions import Reply
from helpers.llm import LLM
from helpers.rag.prompts import chat
from helpers.results import figures
from helpers.results.answers import Answer, Item
from helpers.results.outcomes import Outcomes
from papers.clinical_notes.chart_questions import ASKED, NOT_FOUND, ChartQuestion, Kind, Value, spoken
from papers.clinical_notes.cleaning import milligrams
from papers.clinical_notes.passages import Chunk
from papers.clinical_notes.query import Lexicon
from papers.clinical_notes.questions import by_note
from papers.clinical_notes.retrieval import Retriever

OUTCOMES = ("successful", "refractory", "undetermined")
EFFECTS = ("not tolerated", "ineffective", "partial", "effective")
"""In this order, for one of these words holds another."""
ARMS = {
    "rag": "Model, retrieved passages",
    "right_passages": "Model, right passages",
    "registry": "Code, extracted registry",
    "perfect_registry": "Code, registry without errors",
}
COLOURS = dict(zip(ARMS, ("#125ee0", "#c35410", "#af219d", "#079c6b"), strict=True))


# ----------------------------------------------------------------------------------------------------------- passages


def retrieved(retriever: Retriever, questions: Sequence[ChartQuestion], k: int) -> list[list[Chunk]]:
    """The `k` best passages for each question, in order of date."""
    found = [retriever.retrieve(question.text, k=k).passages for question in questions]
    return [sorted(chunks, key=_by_date) for chunks in found]


def right_passages(questions: Sequence[ChartQuestion], chunks: Sequence[Chunk]) -> list[list[Chunk]]:
    """All passages that hold a part of each question's answer, in order of date."""
    of_note = by_note(chunks)
    right = [{c.id: c for p in q.places for c in of_note.get(p.note, ()) if supports(q, c)} for q in questions]
    return [sorted(of.values(), key=_by_date) for of in right]


def shortened(passages: Sequence[Chunk], k: int) -> tuple[Chunk, ...]:
    """Of more than `k` passages the first and the last, in equal shares: what began and what came of it."""
    return tuple(passages if len(passages) <= k else [*passages[: k // 2], *passages[k // 2 - k :]])


def supports(question: ChartQuestion, passage: Chunk) -> bool:
    """Whether a passage holds a sentence that answers the question."""
    return any(p.note == passage.note and passage.covers(p.start, p.end) for p in question.places)


def _by_date(chunk: Chunk) -> tuple[date, str]:
    return chunk.date, chunk.id


# ------------------------------------------------------------------------------------------------------------ the arm


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
    return chat(system, f"{shown}\n\nQuestion: {question.text}\n{ASKED[question.kind][1]}")


def by_model(
    model: LLM, shown: Sequence[Sequence[Chunk]], lexicon: Lexicon, max_tokens: int, label: str
) -> Callable[[Sequence[ChartQuestion]], list[Answer]]:
    """The model answers each question from the passages shown with it; a prompt over the context is an overflow."""

    def answer(questions: Sequence[ChartQuestion]) -> list[Answer]:
        prompts = [answer_prompt(q, passages) for q, passages in zip(questions, shown, strict=True)]
        replies = model.chat_many(prompts, max_tokens=max_tokens, overflow="record", label=label)
        return [
            judged(q, reply, passages, lexicon) for q, reply, passages in zip(questions, replies, shown, strict=True)
        ]

    return answer


def judged(question: ChartQuestion, reply: Reply, shown: Sequence[Chunk], lexicon: Lexicon) -> Answer:
    """A reply with its measures; one that could not be read is wrong, whatever the chart holds.

    Measures: accuracy; says_not_found; cites (of answers with a value, those that cite a shown passage);
    citations_resolve (numbers in brackets, those of a shown passage); citation_precision (cited passages, those that
    hold the answer) and citation_recall (shown passages that hold it, those cited) where the chart has one.
    """
    said = read_answer(question, reply.text, lexicon)
    cited = [shown[n - 1] for n in said.cited if 1 <= n <= len(shown)]
    good = [c for c in shown if supports(question, c)]
    right = question.truth is None if said.not_found else said.value is not None and question.is_right(said.value)
    measures = {"accuracy": (float(right), 1.0), "says_not_found": (float(said.not_found), 1.0)}
    if said.value is not None:
        measures["cites"] = (float(bool(cited)), 1.0)
    if said.cited:
        measures["citations_resolve"] = (float(len(cited)), float(len(said.cited)))
    if question.truth and not said.not_found:
        both = float(sum(c in good for c in cited))
        measures |= {
            name: (both, float(len(of)))
            for name, of in (("citation_precision", cited), ("citation_recall", good))
            if of
        }
    tells = "tells, in a shown passage" if good else "tells, in none shown"
    return Answer(
        task=question.kind,
        strata={"the chart": tells if question.truth else "does not tell"},
        answer=reply.text,
        predicted=NOT_FOUND if said.not_found else None if said.value is None else spoken(said.value),
        parsed=said.not_found or said.value is not None,
        cut=reply.status == "cut",
        overflow=reply.status == "overflow",
        items=[Item(c.id, str(n), gold=c in good, predicted=c in cited) for n, c in enumerate(shown, start=1)],
        measures=measures,
        requests=[reply.key] if reply.key else [],
    )


# ---------------------------------------------------------------------------------------------------- reading answers


@dataclass(frozen=True)
class Said:
    """What could be read off an answer: numbers in brackets, each once, and the value or "not found"."""

    cited: tuple[int, ...]
    value: Value | None
    not_found: bool


_CITATION = re.compile(r"\[\s*(\d+(?:\s*[,;]\s*\d+)*)\s*\]")


def read_answer(question: ChartQuestion, text: str, lexicon: Lexicon) -> Said:
    """Read citations, the value and "Not found in chart" off a model's words."""
    numbers = [int(n) for group in _CITATION.findall(text) for n in re.split(r"\s*[,;]\s*", group)]
    # the question, if the model repeats it, holds no answer
    words = _CITATION.sub(" ", text).replace(question.text, " ")
    not_found = bool(re.search(r"\bnot\s+(?:found|mentioned|stated|documented|in the (?:chart|passages))", words, re.I))
    value = None if not_found else _READERS[question.kind](words, lexicon)
    return Said(tuple(dict.fromkeys(numbers)), value, not_found)


_TIMES = {"once": 1, "twice": 2, "bid": 2, "b.i.d": 2, "tid": 3, "t.i.d": 3, "qd": 1, "qhs": 1, "nightly": 1, "one": 1}
_TIMES |= {"two": 2, "three": 3, "thrice": 3, "four": 4, "q12h": 2, "q8h": 3, "q24h": 1}
_EVERY = {"12": 2.0, "8": 3.0, "24": 1.0, "6": 4.0}


def read_dose(words: str, _: Lexicon | None = None) -> float | None:
    """The first amount in mg (or g) of a text."""
    return milligrams(re.sub(r"\bmilligrams?\b", "mg", words, flags=re.I))


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


# ------------------------------------------------------------------------------------------------------ in one answer


def summary(outcomes: Outcomes, model: str) -> str:
    """The page's answer: model against code on the questions that the chart answers, and apart on the others."""
    told, silent = (outcomes.where(**{"in the chart": answer}) for answer in ("yes", "no"))
    share = {arm: figures.score_text(told.score("accuracy", arm)) for arm in ARMS}
    [test] = told.against([("registry", "rag")], "accuracy")
    text = (
        f"**{model} with retrieved passages answers {share['rag']} of {test.test.n} questions about "
        f"{told.frame.cluster.nunique()} patients; a few lines of code on the extracted registry answer "
        f"{share['registry']}** (difference {figures.points(test.test)} points, {figures.p_words(test.p)}). With the "
        f"right passages the model reaches {share['right_passages']}, on a registry without errors the code "
        f"{share['perfect_registry']}."
    )
    if len(silent.frame):
        says = {arm: figures.score_text(silent.score("accuracy", arm)) for arm in ("rag", "registry")}
        text += f" Where the chart does not tell, the model says so in {says['rag']}, the code in {says['registry']}."
    return text
