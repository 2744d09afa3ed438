"""Answers read strictly, and what of two triples is compared (biomedrag.md, section 4.4 and Table 3)."""

from collections.abc import Hashable, Sequence
from typing import Final

from helpers.thoughts import without_thought
from papers.biomedrag.corpora import Triple

PARTS: Final = ("triple", "head", "tail", "relation")
"""What Table 3 scores apart."""
MEASURES: Final = ("precision", "recall", "f1")


def parse_triples(answer: str) -> list[Triple]:
    """The distinct triples of an answer in lines `head|relation|tail`; none if a line is something else."""
    answer = without_thought(answer)
    triples = []
    for line in filter(None, map(str.strip, answer.splitlines())):
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3 or not all(parts):
            return []
        triples.append(Triple(*parts))
    return list(dict.fromkeys(triples))


def parse_label(answer: str, labels: Sequence[str]) -> str | None:
    """The label that an answer is, whatever its case; a full stop after it is passed over. None if it is no label."""
    answer = without_thought(answer)
    known = {same_text(label): label for label in labels}
    told = same_text(answer)
    return known.get(told, known.get(same_text(told.removesuffix("."))))


def part_items(triples: Sequence[Triple], part: str) -> set[Hashable]:
    """Triples, or one of `PARTS`, as they are compared: without case and runs of white space."""
    if part == "triple":
        return {(same_text(t.head), same_text(t.relation), same_text(t.tail)) for t in triples}
    return {same_text(getattr(t, part)) for t in triples}


def same_text(text: str) -> str:
    """A text without case and runs of white space."""
    return " ".join(text.casefold().split())
