"""Text by others: NegEx's annotated sentences, and the conversations and notes of ACI-BENCH."""

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from io import StringIO
from pathlib import Path

from evaluation.answers import Answer, PlainUnit
from helpers.completions import Choice
from papers.clinical_notes.extraction_scores import Span, draw_sample
from papers.clinical_notes.gold import Context, Note
from papers.clinical_notes.passages import CHUNK_OVERLAP, CHUNK_SIZE
from papers.clinical_notes.questions import Place, Question
from rag.retrieval import chunk_spans


@dataclass(frozen=True, kw_only=True)
class Sentence(PlainUnit):
    """A sentence of a clinical report with the span of a condition; `gold` is its class."""

    gold: Context
    span: Span


def read_sentences(path: Path, n: int, seed: int) -> tuple[list[Sentence], int]:
    """Read NegEx's annotated sentences, one unit for each condition that is annotated.

    Units with the same text are one cluster.

    Args:
        path: The file, one sentence a line, with a header.
        n: Number of sentences that an LLM classifies too.
        seed: Seed of the draw of these sentences.

    Returns:
        The sentences, and the number of lines that lack the condition which they name.
    """
    sentences = []
    n_left_out = 0
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        number, condition, text, negation, time, person = line.split("\t")
        start = text.lower().find(condition.lower())
        if start < 0:
            n_left_out += 1
            continue
        context = _annotated_class(negation, time, person)
        unit = f"negex-{number}"
        span = (start, start + len(condition))
        sentences.append((unit, context, text, span))
    llm_units = draw_sample([sentence[0] for sentence in sentences], n, seed)
    units = []
    first_units: dict[str, str] = {}
    for unit, context, text, span in sentences:
        cluster = first_units.setdefault(text, unit)
        strata = {"class": context, "asked": "yes" if unit in llm_units else "no"}
        units.append(Sentence(unit, cluster, text, gold=context, strata=strata, span=span))
    return units, n_left_out


def _annotated_class(negation: str, time: str, person: str) -> Context:
    """The one class of a condition that may have several annotations.

    "Not particular" of the time means hypothetical.
    """
    if time == "Not particular":
        return "hypothetical"
    if negation == "Negated":
        return "negated"
    if person != "Patient":
        return "family"
    return "historical" if time == "Historical" else "affirmed"


Classifier = Callable[[Sequence[str], Sequence[Span]], Sequence[Context | Choice]]
"""Takes texts and a span of each; returns a class for each, or the choice of an LLM."""


@dataclass(frozen=True)
class ClassifierArm:
    """Scores a classifier on the condition of each sentence."""

    classify: Classifier

    def __call__(self, units: Sequence[Sentence]) -> list[Answer]:
        """Answer each unit."""
        texts = [unit.text for unit in units]
        spans = [unit.span for unit in units]
        answers = []
        for unit, result in zip(units, self.classify(texts, spans), strict=True):
            predicted = result.answer if isinstance(result, Choice) else result
            requests = [result.key] if isinstance(result, Choice) else []
            measures = {"accuracy": (float(predicted == unit.gold), 1.0)}
            answers.append(
                Answer(task="sentences", predicted=predicted, measures=measures, requests=requests)
            )
        return answers


FILES = tuple(
    f"clinical_notes/aci_bench/{part}.csv" for part in ("train", "valid", "test1", "test2", "test3")
)
OPENING_TURNS = 5
"""Number of the patient's turns from which the query is chosen."""

_TAG = re.compile(r"^\[(doctor|patient\w*)\]", re.MULTILINE)


def read_conversations(paths: Iterable[Path], n: int) -> tuple[list[Note], list[Question]]:
    """Read conversations of ACI-BENCH with their notes.

    Args:
        paths: The files, in order.
        n: Number of conversations to take.

    Returns:
        The notes, which bear no date, and one query for each, which its note answers.
    """
    rows: list[dict[str, str]] = []
    for path in paths:
        text = path.read_text(encoding="utf-8")
        rows.extend(csv.DictReader(StringIO(text)))
    notes, questions = [], []
    for row in rows[:n]:
        encounter, text = row["encounter_id"], row["note"]
        note = Note(
            note_id=encounter,
            patient_id=encounter,
            date=date.min,
            kind="clinic visit",
            text=text,
        )
        places = [
            Place(encounter, start, end, 2)
            for start, end in chunk_spans(text, CHUNK_SIZE, CHUNK_OVERLAP)
        ]
        question = Question(
            id=encounter,
            text=opening(row["dialogue"]),
            unit=encounter,
            intent="general",
            strata={"recorded for": row["dataset"]},
            patient=None,
            since=None,
            until=None,
            places=tuple(places),
            cluster=encounter,
        )
        notes.append(note)
        questions.append(question)
    return notes, questions


def turns(dialogue: str) -> list[tuple[str, str]]:
    """Split a dialogue into turns.

    Returns:
        Speaker and words of each turn, in order. A line without a speaker belongs to the turn
        before it.
    """
    parts = _TAG.split(dialogue)[1:]
    spoken = []
    for speaker, words in zip(parts[::2], parts[1::2], strict=True):
        plain_words = " ".join(words.split())
        spoken.append((speaker, plain_words))
    return spoken


def opening(dialogue: str) -> str:
    """Choose the longest, in words, of the first turns of the patient or a companion.

    Returns:
        The turn; empty if they do not speak.
    """
    patient_turns = [words for speaker, words in turns(dialogue) if speaker != "doctor"]
    first_turns = patient_turns[:OPENING_TURNS]
    return max(first_turns, key=_n_words, default="")


def _n_words(text: str) -> int:
    return len(text.split())
