"""Answers about charts in words, with citations (clinical_notes.md, "generator.py").

An LLM answers from passages and cites them in brackets; patterns read the value off its words.
Code answers the same questions with a few lines for each kind on the columns of a registry.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import product

import pandas as pd

from evaluation import figures
from evaluation.answers import Answer, Item
from evaluation.measures import Measures
from evaluation.metrics import Score
from evaluation.outcomes import Outcomes
from helpers.completions import Reply
from helpers.llm import LLM
from helpers.thoughts import without_thought
from papers.clinical_notes.chart_questions import (
    KINDS,
    NOT_FOUND,
    QUESTION_FORMS,
    SLACK,
    ChartQuestion,
    Kind,
    Value,
    spoken,
)
from papers.clinical_notes.cleaning import milligrams
from papers.clinical_notes.denials import without_denied
from papers.clinical_notes.extraction_scores import gold_status, gold_symptoms
from papers.clinical_notes.gold import NO_DATE, Chart, Charts, MedicationEvent, Note
from papers.clinical_notes.passages import Chunk
from papers.clinical_notes.query import Lexicon
from papers.clinical_notes.questions import antiseizure_names, by_note
from papers.clinical_notes.retrieval import Retriever
from papers.clinical_notes.verdicts_in_words import verdict
from rag.prompts import Message, chat_messages
from rag.replies import CITATION, cited_numbers, plain_text

OUTCOMES = ("successful", "refractory", "undetermined")
EFFECTS = ("not tolerated", "ineffective", "partial", "effective")
RIGHT_CITED = "cited_passage_holds_right_answer"
"""The measure of the passages that answers cite."""
ARMS = {
    "rag": "Model (retrieved passages)",
    "right_passages": "Model (right passages)",
    "registry": "Code (extracted registry)",
    "registry_taken": "Code (only drugs read as taken)",
    "perfect_registry": "Code (registry without errors)",
    "commonest": "Always the commonest answer of the kind (floor)",
}
COLOURS = {
    "rag": figures.HUES["magenta"],
    "right_passages": figures.HUES["magenta"],
    "registry": figures.HUES["green"],
    "registry_taken": figures.HUES["green"],
    "perfect_registry": figures.HUES["green"],
    "commonest": figures.HUES["grey"],
}


def retrieve_passages(
    retriever: Retriever, questions: Sequence[ChartQuestion], k: int
) -> list[list[Chunk]]:
    """Retrieve the `k` best passages for each question, in order of date."""
    passages = []
    for question in questions:
        retrieval = retriever.retrieve(question.text, k=k)
        passages.append(by_date(retrieval.passages))
    return passages


def right_passages(
    questions: Sequence[ChartQuestion], chunks: Sequence[Chunk]
) -> list[list[Chunk]]:
    """Select all passages that hold a part of each question's answer, in order of date."""
    chunks_by_note = by_note(chunks)
    passages = []
    for question in questions:
        right = {}
        for place in question.places:
            for chunk in chunks_by_note.get(place.note, ()):
                if supports(question, chunk):
                    right[chunk.id] = chunk
        passages.append(by_date(right.values()))
    return passages


def first_and_last(passages: Sequence[Chunk], k: int) -> tuple[Chunk, ...]:
    """Select the first and the last of more than `k` passages, in equal shares.

    They show what began and what came of it.
    """
    if len(passages) <= k:
        return tuple(passages)
    n_first = k // 2
    n_last = k - n_first
    return (*passages[:n_first], *passages[-n_last:])


def supports(question: ChartQuestion, passage: Chunk) -> bool:
    """Whether a passage holds a sentence that answers the question."""
    places = [place for place in question.places if place.note == passage.note]
    return any(passage.covers(place.start, place.end) for place in places)


def by_date(chunks: Iterable[Chunk]) -> list[Chunk]:
    """Sort passages by the date of their note."""
    return sorted(chunks, key=lambda chunk: (chunk.date, chunk.id))


_INSTRUCTION = (
    "You answer questions about a patient's chart from numbered passages of it, and from nothing "
    "else. After each statement put the number of the passage that says so in brackets, like "
    f"[2]. If the passages do not tell, write exactly: {NOT_FOUND}. Answer in one short sentence."
)


def answer_prompt(question: ChartQuestion, passages: Sequence[Chunk]) -> list[Message]:
    """Build the prompt of a question of the seven kinds, with the form of its answer."""
    _, form = QUESTION_FORMS[question.kind]
    return free_prompt(f"{question.text}\n{form}", passages)


def free_prompt(question: str, passages: Sequence[Chunk]) -> list[Message]:
    """Build the prompt of any question: rules, numbered and dated passages, question."""
    numbered = []
    for number, passage in enumerate(passages, start=1):
        day = "no date" if passage.date == NO_DATE else passage.date
        numbered.append(f"[{number}] ({day})\n{passage.text.strip()}")
    texts = "\n\n".join(numbered)
    return chat_messages(_INSTRUCTION, f"{texts}\n\nQuestion: {question}")


def read_citations(text: str, passages: Sequence[Chunk]) -> tuple[list[int], bool]:
    """Read the passages that a reply cites, and whether it says that they do not tell.

    Returns:
        The numbers of passages of the prompt, each once, and whether the reply has no answer.
    """
    text = without_thought(text)
    cited = [number for number in cited_numbers(text) if 1 <= number <= len(passages)]
    words = plain_text(CITATION.sub(" ", text))
    return cited, _NOT_FOUND.search(words) is not None


@dataclass(frozen=True)
class ModelArm:
    """An LLM answers each question from its passages; a prompt over the context is an overflow.

    Attributes:
        llm: The LLM to ask.
        passages: The passages for each question, in the order of the questions.
        lexicon: Drugs and symptoms that an answer may name.
        max_tokens: Longest reply, in tokens.
        label: Name of the step in progress bars and in the record of the run.
    """

    llm: LLM
    passages: Sequence[Sequence[Chunk]]
    lexicon: Lexicon
    max_tokens: int
    label: str

    def __call__(self, questions: Sequence[ChartQuestion]) -> list[Answer]:
        """Answer each question."""
        pairs = list(zip(questions, self.passages, strict=True))
        prompts = [answer_prompt(question, passages) for question, passages in pairs]
        replies = self.llm.chat_many(
            prompts, max_tokens=self.max_tokens, overflow="record", label=self.label
        )
        return [
            score_reply(question, reply, passages, self.lexicon)
            for (question, passages), reply in zip(pairs, replies, strict=True)
        ]


def score_reply(
    question: ChartQuestion, reply: Reply, passages: Sequence[Chunk], lexicon: Lexicon
) -> Answer:
    """Read and score a reply; one that could not be read is wrong, whatever the chart holds.

    Measures: accuracy; cites (of answers with a value, those that cite a passage of the prompt);
    cited_passage_holds_right_answer (of the passages that these answers cite, those that hold the
    right answer; where the chart has no answer, none does).

    Args:
        question: The question.
        reply: The LLM's reply.
        passages: The passages of the prompt.
        lexicon: Drugs and symptoms that an answer may name.
    """
    numbers, value = read_answer(question, reply.text, lexicon)
    numbered = dict(enumerate(passages, start=1))
    cited = [numbered[number] for number in numbers if number in numbered]
    right = [passage for passage in passages if supports(question, passage)]
    measures = {"accuracy": (float(_is_right(question, value)), 1.0)}
    if value not in (None, NOT_FOUND):
        measures["cites"] = (float(bool(cited)), 1.0)
        measures |= _right_of_cited(cited, right)
    return Answer(
        task=question.kind,
        predicted=None if value is None else spoken(value),
        parsed=value is not None,
        items=_passage_items(passages, right, cited),
        measures=measures,
        **reply.columns,
    )


def _right_of_cited(
    cited: Sequence[Chunk], right: Sequence[Chunk]
) -> dict[str, tuple[float, float]]:
    """Cited passages, and those of them that hold the right answer; nothing if none is cited."""
    if not cited:
        return {}
    n_right = sum(passage in right for passage in cited)
    return {RIGHT_CITED: (float(n_right), float(len(cited)))}


def _passage_items(
    passages: Sequence[Chunk], right: Sequence[Chunk], cited: Sequence[Chunk]
) -> list[Item]:
    """The passages of the prompt by number: which hold the answer, which the reply cites."""
    items = []
    for number, passage in enumerate(passages, start=1):
        item = Item(passage.id, str(number), gold=passage in right, predicted=passage in cited)
        items.append(item)
    return items


def _is_right(question: ChartQuestion, value: Value | None) -> bool:
    """Whether what was read off a reply is right; None could not be read."""
    if value is None:
        return False
    return question.is_right(None if value == NOT_FOUND else value)


_NOT_FOUND = re.compile(
    r"\bnot\s+(?:found|mentioned|stated|documented|in the (?:chart|passages))", re.IGNORECASE
)


def read_answer(
    question: ChartQuestion, text: str, lexicon: Lexicon
) -> tuple[list[int], Value | None]:
    """Read citations and value off a reply.

    Args:
        question: The question.
        text: The text of the reply.
        lexicon: Drugs and symptoms that an answer may name.

    Returns:
        The numbers in brackets, each once, and the value: `NOT_FOUND`, or None if the words could
        not be read.
    """
    text = without_thought(text)
    cited = cited_numbers(text)
    # the question, if the model repeats it, holds no answer
    words = plain_text(CITATION.sub(" ", text).replace(question.text, " "))
    if _NOT_FOUND.search(words):
        return cited, NOT_FOUND
    return cited, _READERS[question.kind](words, lexicon)


_TIMES_BY_HOURS = {"12": 2.0, "8": 3.0, "24": 1.0, "6": 4.0}
"""Hours between two doses -> times a day."""
_TIMES_BY_NUMBER = {"one": 1, "two": 2, "three": 3, "four": 4}
_TIMES_BY_WORD = {
    "once": 1,
    "twice": 2,
    "bid": 2,
    "b.i.d": 2,
    "tid": 3,
    "t.i.d": 3,
    "qd": 1,
    "qhs": 1,
    "nightly": 1,
    "thrice": 3,
    "q12h": 2,
    "q8h": 3,
    "q24h": 1,
}
_HOURS = re.compile(r"every\s+(\d+)\s*h")
_COUNT = re.compile(r"(?<![\w.])(\d+)\s*(?:x|times?)\b")
# not "two tablets daily"
_NUMBER_WORD = re.compile(rf"\b({'|'.join(_TIMES_BY_NUMBER)})(?=\s+times?\b|\W*$)")
_DAILY = re.compile(r"\b(?:daily|a day|per day)\b")
_SINGLE_DIGIT = re.compile(r"\D{0,12}(\d)\D{0,12}")


def _frequency_in(words: str, _: Lexicon) -> float | None:
    """Times a day, from a number, a word or an abbreviation."""
    lowered = words.lower()
    hours = _HOURS.search(lowered)
    if hours:
        return _TIMES_BY_HOURS.get(hours[1])
    for read in (_counted_times, _times_by_word, _daily):
        times = read(lowered)
        if times is not None:
            return times
    digit = _SINGLE_DIGIT.fullmatch(lowered.strip())
    return float(digit[1]) if digit else None


def _counted_times(lowered: str) -> float | None:
    count = _COUNT.search(lowered)
    if count:
        return float(count[1])
    number = _NUMBER_WORD.search(lowered)
    return float(_TIMES_BY_NUMBER[number[1]]) if number else None


def _times_by_word(lowered: str) -> float | None:
    for word, times in _TIMES_BY_WORD.items():
        if re.search(rf"(?<!\w){re.escape(word)}(?!\w)", lowered):
            return float(times)
    return None


def _daily(lowered: str) -> float | None:
    """Once a day, if no number says otherwise."""
    has_digit = re.search(r"\d", lowered.replace("mg", ""))
    return 1.0 if _DAILY.search(lowered) and not has_digit else None


_DAY = re.compile(r"(?<!\d)(\d{4})-(\d{1,2})-(\d{1,2})(?!\d)")
"""A day, also without the zeros that the question asks for: 2017-3-2."""


def _timeline_in(words: str, _: Lexicon) -> tuple[date, date] | None:
    """The earliest and the latest date of a text."""
    days = []
    for year, month, day in _DAY.findall(words):
        try:
            days.append(date(int(year), int(month), int(day)))
        except ValueError:  # the model made up a day
            continue
    return (min(days), max(days)) if days else None


_SYNONYMS = {
    "partially effective": "partial",
    "partly effective": "partial",
    "not effective": "ineffective",
    "no longer effective": "ineffective",
    "not successful": "refractory",
}
_DENIED_OPTION = re.compile(
    r"\b(?:not|never|no longer)\s+(?:\w+\s+)?"
    r"(?:successful|refractory|undetermined|effective|ineffective|partial)\b"
)
"""An option that a reply denies; not tolerated is an option itself."""


def _first_option(words: str, options: Sequence[str]) -> str | None:
    """The option that the words name first; None if they name no option or all of them.

    Who repeats the list of options has not chosen.
    """
    lowered = words.lower()
    for phrase, option in _SYNONYMS.items():
        lowered = lowered.replace(phrase, option)
    lowered = _DENIED_OPTION.sub(" ", lowered)
    places = []
    for option in options:
        match = re.search(rf"\b{option}", lowered)
        if match:
            places.append((match.start(), option))
    if not places or len(places) == len(options):
        return None
    return min(places)[1]


def _outcome_in(words: str, _: Lexicon) -> str | None:
    return _first_option(words, OUTCOMES)


def _effectiveness_in(words: str, _: Lexicon) -> str | None:
    return _first_option(words, EFFECTS)


_BARE_NUMBER = re.compile(r"\W*(\d(?:[\d.,]*\d)?)\W*")


def _dose_in(words: str, _: Lexicon) -> float | None:
    """A dose with its unit; a number alone is in mg, for the question asks for mg."""
    bare = _BARE_NUMBER.fullmatch(words)
    if bare:
        return milligrams(f"{bare[1]} mg")
    return milligrams(re.sub(r"\bmilligrams?\b", "mg", words, flags=re.IGNORECASE))


def _drugs_in(words: str, lexicon: Lexicon) -> frozenset[str] | None:
    """The antiseizure drugs, which the question asks for; any other drug is ignored.

    The code's answers are restricted to the same list (`answer_by_registry`).
    """
    drugs = lexicon.drugs_in(without_denied(words))
    return drugs & frozenset(antiseizure_names()) or None


def _symptoms_in(words: str, lexicon: Lexicon) -> frozenset[str] | None:
    """The symptoms that the words state and do not deny."""
    return lexicon.symptoms_in(without_denied(words)) or None


_READERS: dict[Kind, Callable[[str, Lexicon], Value | None]] = {
    "medications": _drugs_in,
    "dose": _dose_in,
    "outcome": _outcome_in,
    "timeline": _timeline_in,
    "effectiveness": _effectiveness_in,
    "frequency": _frequency_in,
    "symptoms": _symptoms_in,
}
"""Kind of question -> what reads the value off a reply's words."""


@dataclass(frozen=True)
class RegistryArm:
    """Code answers from a registry, without an LLM: see `answer_by_registry`.

    Attributes:
        registry: The registry.
        antiseizure: Generic names of the drugs that questions are about.
    """

    registry: pd.DataFrame
    antiseizure: Collection[str]

    def __call__(self, questions: Sequence[ChartQuestion]) -> list[Answer]:
        """Answer each question."""
        drugs = frozenset(self.antiseizure)
        answers = []
        for question in questions:
            value = answer_by_registry(self.registry, question, drugs)
            answers.append(_scored_value(question, value))
        return answers


def commonest(questions: Sequence[ChartQuestion]) -> list[Answer]:
    """Answer all questions of a kind with what is right for most of them: the floor.

    A question whose answer is not in the chart counts with that.
    """
    counts: dict[Kind, Counter[Value | None]] = defaultdict(Counter)
    for question in questions:
        counts[question.kind].update(question.truth or [None])
    answers = []
    for question in questions:
        [(value, _)] = counts[question.kind].most_common(1)
        answers.append(_scored_value(question, value))
    return answers


def _scored_value(question: ChartQuestion, value: Value | None) -> Answer:
    """The row of an answer that code gives; None reads as `NOT_FOUND`."""
    return Answer(
        task=question.kind,
        predicted=NOT_FOUND if value is None else spoken(value),
        measures={"accuracy": (float(question.is_right(value)), 1.0)},
    )


def answer_by_registry(
    registry: pd.DataFrame, question: ChartQuestion, antiseizure: frozenset[str]
) -> Value | None:
    """Answer from the columns of a registry, without reading the question.

    Args:
        registry: The paper's ("Registry schema"); a note without a medication has one row.
        question: The question.
        antiseizure: Generic names of the drugs that questions are about.

    Returns:
        The answer; None if the columns hold none, which reads as "Not found in chart".
    """
    rows = registry[registry.patient_id == question.patient]
    rows = rows.assign(day=pd.to_datetime(rows.note_date))
    if question.since and question.until:
        rows = rows[rows.day.between(pd.Timestamp(question.since), pd.Timestamp(question.until))]
    if question.drug:
        rows = rows[rows.medication == question.drug]
    if rows.empty:
        return None
    if question.kind == "medications":
        return frozenset(rows.medication.dropna()) & antiseizure or None
    return _COLUMN_READERS[question.kind](rows)


def _dose(rows: pd.DataFrame) -> float | None:
    """The last dose that can be read."""
    doses = [milligrams(str(text)) for text in rows.medication_dosage.dropna()]
    known = [dose for dose in doses if dose]
    return known[-1] if known else None


def _frequency(rows: pd.DataFrame) -> float | None:
    """The commonest number of times a day."""
    times = pd.to_numeric(rows.intake_times_per_day, errors="coerce").dropna()
    return None if times.empty else float(times.mode().iloc[0])


def _outcome(rows: pd.DataFrame) -> str | None:
    """The outcome by the seizure status of the last year, and by the drugs that failed."""
    year_before = rows.day.max() - pd.Timedelta(days=365)
    last_year = rows.seizure_status[rows.day >= year_before]
    if (last_year == "positive").any():
        failed = rows.medication[rows.medication_effectiveness == "ineffective"]
        return "refractory" if failed.nunique() >= 2 else "undetermined"
    return "successful" if (last_year == "negative").any() else None


def _timeline(rows: pd.DataFrame) -> tuple[date, date]:
    return rows.day.min().date(), rows.day.max().date()


def _effectiveness(rows: pd.DataFrame) -> str | None:
    """The last statement."""
    stated = rows.sort_values("note_date", kind="stable").medication_effectiveness
    known = stated[stated.isin(EFFECTS)]
    return None if known.empty else str(known.iloc[-1])


def _symptoms(rows: pd.DataFrame) -> frozenset[str] | None:
    symptoms: set[str] = set()
    for names in rows.seizure_symptoms:
        symptoms.update(names)
    return frozenset(symptoms) or None


_COLUMN_READERS: dict[str, Callable[[pd.DataFrame], Value | None]] = {
    "dose": _dose,
    "outcome": _outcome,
    "timeline": _timeline,
    "effectiveness": _effectiveness,
    "frequency": _frequency,
    "symptoms": _symptoms,
}
"""Kind of question -> what reads the answer off the rows of one patient."""


def gold_registry(charts: Charts) -> pd.DataFrame:
    """Build the registry of a perfect extraction, with the columns that `answer_by_registry` reads.

    It leaves out what was copied forward, and drugs that are only an idea or taken by a relative.
    """
    rows: list[dict[str, object]] = []
    for chart in charts:
        for note in chart.notes:
            rows += _gold_rows(chart, note)
    return pd.DataFrame(rows)


def _gold_rows(chart: Chart, note: Note) -> list[dict[str, object]]:
    """The rows of one note."""
    common: dict[str, object] = {
        "patient_id": chart.patient_id,
        "note_date": note.date.isoformat(),
        "seizure_status": gold_status(chart, note),
        "seizure_symptoms": sorted(gold_symptoms(chart, note)),
    }
    rows = [common | _gold_columns(event) for event in _gold_events(chart, note)]
    return rows or [common]


def _gold_events(chart: Chart, note: Note) -> list[MedicationEvent]:
    """What a note itself states of drugs that the patient takes regularly."""
    events = []
    for event in chart.facts_of(MedicationEvent):
        is_regular = not event.past and event.action != "single dose"
        if is_regular and event.is_own_of(note.note_id):
            events.append(event)
    return events


def _gold_columns(event: MedicationEvent) -> dict[str, object]:
    return {
        "medication": event.drug,
        "medication_dosage": f"{event.dose_mg:g} mg" if event.dose_mg else None,
        "intake_times_per_day": event.times_per_day,
        "medication_effectiveness": event.effectiveness,
    }


def timeline_in_words(
    questions: Sequence[ChartQuestion],
    retrieved: Sequence[Sequence[Chunk]],
    answerable: Outcomes,
) -> str:
    """Say how many timelines the retrieved passages cannot date, and what the right ones bring.

    Args:
        questions: The questions.
        retrieved: The passages of each question's prompt.
        answerable: Rows of the questions that the chart answers.
    """
    timelines = answerable.where(kind="timeline", arm=["rag", "right_passages"])
    if timelines.frame.empty or timelines.why_not_run("rag"):
        return "For timelines, the model was not run."
    n_undated = 0
    for question, passages in zip(questions, retrieved, strict=True):
        if question.kind == "timeline" and question.truth:
            days = [passage.date for passage in passages]
            n_undated += not any(question.is_right(period) for period in product(days, days))
    scores = {arm: timelines.score("accuracy", arm) for arm in timelines.arms}
    n = scores["rag"].n
    return (
        f"In a timeline, the first and the last date may each be up to {SLACK.days} days off. In "
        f"{n_undated} of {n} prompts about timelines, no two dates of the retrieved passages form "
        "a right answer. A model that uses only these dates can therefore be right for at most "
        f"{figures.number(1 - n_undated / n)} of the timelines. "
        "From the retrieved passages, the model answers "
        f"{figures.score_text(scores['rag'])} of the questions about timelines correctly. From the "
        f"right passages, it answers {figures.score_text(scores['right_passages'])} of these "
        "questions correctly."
    )


def outcome_in_words(answerable: Outcomes) -> str:
    """Say what the answer that this project adds to the kind outcome does to the LLM's score.

    Args:
        answerable: Rows of the questions that the chart answers.
    """
    outcomes = answerable.where(kind="outcome", arm="rag")
    if outcomes.frame.empty or outcomes.why_not_run("rag"):
        return "For outcomes, the model was not run."
    is_added = outcomes.frame.gold == "undetermined"
    n_right = {}
    for added in (True, False):
        rows = outcomes.select(is_added == added).frame
        n_right[added] = sum(measures["accuracy"][0] for measures in rows.measures)
    return (
        f"For {is_added.sum()} of {len(is_added)} questions about an outcome, the right answer is "
        "“undetermined”, an answer that the paper does not list. From retrieved passages, the "
        f"model answers {n_right[True]:.0f} of these questions correctly, and "
        f"{n_right[False]:.0f} of the other {(~is_added).sum()}."
    )


def floor_in_words(answerable: Outcomes) -> str:
    """Name the kinds on which the floor is right more often than the LLM.

    Args:
        answerable: Rows of the questions that the chart answers.
    """
    if answerable.where(arm="rag").frame.empty or answerable.why_not_run("rag"):
        return "The model was not run, so it is not compared with the commonest answers."
    kinds = []
    for kind in KINDS:
        rows = answerable.where(kind=kind)
        has_both = {"rag", "commonest"} <= rows.arms_with("accuracy")
        if has_both and _is_floor_better(rows):
            kinds.append(kind)
    if not kinds:
        return (
            "On no kind of question is always giving the commonest answer right more often than "
            "the model."
        )
    plural = "kind" if len(kinds) == 1 else "kinds"
    return (
        f"On the {plural} {figures.listed(kinds)}, always giving the commonest answer is right "
        "more often than the model's answers from retrieved passages."
    )


def _is_floor_better(rows: Outcomes) -> bool:
    floor = rows.score("accuracy", "commonest")
    model = rows.score("accuracy", "rag")
    return floor.value > model.value


def uncited_kinds_in_words(outcomes: Outcomes) -> str:
    """Say which kinds no answer of the LLM cites, and how many of the others' answers cite.

    The form that a question asks for may leave no room for a citation. Questions about a drug that
    the chart does not name count with their kind.

    Args:
        outcomes: Rows of the arm ``rag``.
    """
    rows = outcomes.rows_with("cites", "rag")
    if rows.empty:
        return "No answer from retrieved passages has a value."
    citing = {
        kind for kind, measures in zip(rows.task, rows.measures, strict=True) if _cites(measures)
    }
    if not citing:
        return "No answer from retrieved passages has a value and cites a passage."
    uncited = set(rows.task) - citing
    if not uncited:
        return "For every kind, some answers from retrieved passages cite a passage."
    n_uncited = rows.task.isin(uncited).sum()
    names = [kind for kind in KINDS if kind in uncited]
    share = outcomes.where(task=sorted(citing), arm="rag").score("cites")
    return (
        "With retrieved passages, no such answer of the "
        f"{'kind' if len(names) == 1 else 'kinds'} {figures.listed(names)} (n = {n_uncited}) cites "
        f"a passage. Of such answers of the other kinds (n = {share.n}), "
        f"{figures.score_text(share)} cite a passage. This interval {_side_of_half(share)}. "
        "Unlike the table's columns by kind, these counts include questions that the chart does "
        "not answer."
    )


def _cites(measures: Measures) -> bool:
    """Whether an answer with a value cites a passage."""
    return measures["cites"][0] > 0


def _side_of_half(share: Score) -> str:
    """Where an interval lies by the bound of the claims on answers."""
    if share.low > 0.5:
        return "lies above one half"
    return "lies below one half" if share.high <= 0.5 else "contains one half"


def citations_in_words(outcomes: Outcomes) -> str:
    """Say how many answers of an LLM are wrong though all that they cite holds the right answer.

    Args:
        outcomes: Rows of the arm ``rag``.
    """
    rows = outcomes.rows_with(RIGHT_CITED, "rag")
    if rows.empty:
        return "No answer from retrieved passages has a value and cites a passage."
    n_all_right = 0
    n_wrong = 0
    for measures in rows.measures:
        n_right, n_cited = measures[RIGHT_CITED]
        if n_right == n_cited:
            n_all_right += 1
            n_wrong += measures["accuracy"][0] == 0
    if len(rows) == 1:
        return _one_citing_in_words(n_all_right, n_wrong)
    words = f"{len(rows)} answers from retrieved passages have a value and cite a passage."
    if not n_all_right:
        return f"{words} Each of these answers cites a passage that lacks the right answer."
    all_right = "of these answers, every cited passage contains the right answer."
    if n_all_right == 1:
        return f"{words} In one {all_right} This answer is {_right_or_wrong(n_wrong)}."
    are = "is" if n_wrong == 1 else "are"
    return (
        f"{words} In {n_all_right} {all_right} Of these {n_all_right} answers, {n_wrong} {are} "
        "wrong."
    )


def _one_citing_in_words(n_all_right: int, n_wrong: int) -> str:
    """Say of the only answer that cites whether all that it cites holds the right answer."""
    words = "One answer from retrieved passages has a value and cites a passage."
    if not n_all_right:
        return f"{words} This answer cites a passage that lacks the right answer."
    return (
        f"{words} Every passage that this answer cites contains the right answer. The answer "
        f"itself is {_right_or_wrong(n_wrong)}."
    )


def _right_or_wrong(n_wrong: int) -> str:
    """What a single answer is, by the number of wrong ones."""
    return "wrong" if n_wrong else "right"


def summary(outcomes: Outcomes, model: str, encoder: str = "the encoder") -> str:
    """Write the answer of the page: LLM against code, its citations, and what the LLM lacks.

    The first paragraph is the answer. The second has the other arms. But for citations, only
    questions that the chart answers count; the tables have the others.

    Args:
        outcomes: Rows of all arms.
        model: Name of the LLM.
        encoder: Name of the encoder that found the passages.
    """
    answerable = outcomes.where(**{"in the chart": "yes"})
    scores = {arm: answerable.score("accuracy", arm) for arm in ARMS}
    texts = {arm: figures.score_text(replace(score, unparsed=0)) for arm, score in scores.items()}
    [comparison] = answerable.compare([("registry", "rag")], "accuracy")
    often = verdict(comparison, if_higher="more often", if_lower="less often")
    cites, right_cited = _citing_in_words(outcomes)
    first = [
        f"**On {comparison.test.n} questions about synthetic charts, code that queries the "
        f"extracted registry is {often} right than {model} with retrieved passages. Their "
        f"accuracies are {texts['registry']} and {texts['rag']}.**",
        cites,
        "Only the code receives patient, drug and period as fields.",
    ]
    second = [
        f"The search with {encoder} and BM25 found the passages.",
        right_cited,
        "If the code uses only the drugs that the rules read as taken, it answers "
        f"{texts['registry_taken']} of the questions correctly.",
        "Always giving the commonest answer to each kind of question is right for "
        f"{texts['commonest']} of the questions.",
        "If the prompt shows the right passages instead of retrieved ones, the model answers "
        f"{texts['right_passages']} of the questions correctly. The right passages contain the "
        "answer or a part of it.",
        _unparsed_in_words(scores["rag"].unparsed),
        "The code also has this project's list of antiseizure drugs. If the model names a drug "
        "that is not on this list, we ignore this drug.",
    ]
    paragraphs = [" ".join(filter(None, sentences)) for sentences in (first, second)]
    return "\n\n".join(paragraphs)


def _unparsed_in_words(n: int) -> str:
    """Say how many answers from retrieved passages could not be read; empty if none."""
    if not n:
        return ""
    count = "counts" if n == 1 else "count"
    return (
        f"Of the model's answers from retrieved passages, {n} could not be parsed and {count} as "
        "wrong."
    )


_PARTS = {
    "lies above one half": "most cited passages contain the right answer",
    "lies below one half": "fewer than half of the cited passages contain the right answer",
    "contains one half": "it is unclear whether most cited passages contain the right answer",
}
"""Where the interval of a share lies -> the share in words."""


def _citing_in_words(outcomes: Outcomes) -> tuple[str, str]:
    """Say how many answers cite, and how many of the cited passages hold the right answer."""
    rag = outcomes.where(arm="rag")
    if rag.rows_with("cites").empty:
        return "No answer of the model has a value.", ""
    share_citing = figures.score_text(rag.score("cites"))
    cites = f"The model cites a passage in {share_citing} of its answers with a value"
    if rag.rows_with(RIGHT_CITED).empty:
        return f"{cites}.", ""
    right = rag.score(RIGHT_CITED)
    part = _PARTS[_side_of_half(right)]
    return (
        f"{cites}, and {part}.",
        "Of the passages that the model's answers with a value cite, "
        f"{figures.score_text(right)} contain the right answer.",
    )
