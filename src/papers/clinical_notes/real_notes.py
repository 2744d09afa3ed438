"""Text that others have written: NegEx's annotated sentences, and the conversations and notes of ACI-BENCH."""

import csv
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from io import StringIO
from operator import itemgetter
from pathlib import Path

from evaluation.answers import Answer, PlainUnit
from helpers.completions import Choice
from papers.clinical_notes.extraction_scores import Span, some
from papers.clinical_notes.gold import Context, Note
from papers.clinical_notes.passages import CHUNK_OVERLAP, CHUNK_SIZE
from papers.clinical_notes.questions import Place, Question
from rag.prompts import arm_of
from rag.retrieval import chunk_spans


@dataclass(frozen=True, kw_only=True)
class Sentence(PlainUnit):
    """A sentence of a clinical report with the span of a condition; `gold` is the condition's class."""

    gold: Context
    span: Span


def read_sentences(path: Path, n: int, seed: int) -> tuple[list[Sentence], int]:
    """NegEx's annotated sentences, `n` of them asked of a model, and how many lines lack the condition they name.

    A condition has one class: hypothetical ("not particular" to the annotators) goes before negated, that before
    another person's, and that before historical.
    """
    found: list[tuple[str, Context, str, Span]] = []
    left_out = 0
    for line in path.read_text(encoding="utf-8").splitlines()[1:]:
        number, condition, text, negation, time, who = line.split("\t")
        at = text.lower().find(condition.lower())
        if at < 0:
            left_out += 1
            continue
        classes: dict[Context, bool] = {
            "hypothetical": time == "Not particular",
            "negated": negation == "Negated",
            "family": who != "Patient",
            "historical": time == "Historical",
            "affirmed": True,
        }
        kind = next(name for name, holds in classes.items() if holds)
        found.append((f"negex-{number}", kind, text, (at, at + len(condition))))
    asked = some([id for id, *_ in found], n, seed)
    return [
        Sentence(
            id,
            id,
            text,
            gold=of,
            strata={"class": of, "asked": "yes" if id in asked else "no"},
            span=span,
        )
        for id, of, text, span in found
    ], left_out


@arm_of
def by_classifier(
    units: Sequence[Sentence],
    classify: Callable[[Sequence[str], Sequence[Span]], Sequence[Context | Choice]],
) -> list[Answer]:
    """What gives each condition its class, as an arm: texts and spans in, a class or a model's choice for each out."""
    rows = []
    for unit, said in zip(
        units, classify([u.text for u in units], [u.span for u in units]), strict=True
    ):
        given, keys = (said.answer, [said.key]) if isinstance(said, Choice) else (said, [])
        right = {"accuracy": (float(given == unit.gold), 1.0)}
        rows.append(Answer(task="sentences", predicted=given, measures=right, requests=keys))
    return rows


FILES = tuple(
    f"clinical_notes/aci_bench/{part}.csv" for part in ("train", "valid", "test1", "test2", "test3")
)
TURNS = 5  # how many of the patient's turns the query is chosen from

_TAG = re.compile(r"^\[(doctor|patient\w*)\]", re.MULTILINE)


def read_conversations(paths: Iterable[Path], n: int) -> tuple[list[Note], list[Question]]:
    """The notes of the first `n` conversations (they bear no date), and as many queries, each answered by its note."""
    rows = [
        row for path in paths for row in csv.DictReader(StringIO(path.read_text(encoding="utf-8")))
    ][:n]
    notes, openings = [], []
    for id, kind, dialogue, text in map(
        itemgetter("encounter_id", "dataset", "dialogue", "note"), rows
    ):
        notes.append(Note(note_id=id, patient_id=id, date=date.min, kind="clinic visit", text=text))
        places = tuple(
            Place(id, start, end, 2) for start, end in chunk_spans(text, CHUNK_SIZE, CHUNK_OVERLAP)
        )
        strata = {"recorded for": kind}
        openings.append(
            Question(
                id, opening(dialogue), id, "general", strata, None, None, None, places, cluster=id
            )
        )
    return notes, openings


def turns(dialogue: str) -> list[tuple[str, str]]:
    """Speaker and words of each turn, in order; a line without a speaker goes on with the turn before it."""
    parts = _TAG.split(dialogue)[1:]
    return [
        (who, " ".join(said.split())) for who, said in zip(parts[::2], parts[1::2], strict=True)
    ]


def opening(dialogue: str) -> str:
    """The longest, in words, of the first five turns of the patient or a companion; empty if they say nothing."""
    said = [words for who, words in turns(dialogue) if who != "doctor"]
    return max(said[:TURNS], key=lambda words: len(words.split()), default="")
