"""Answers read strictly, and what of two triples is compared (biomedrag.md, section 4.4 and Table 3)."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Final, Literal, get_args

from papers.biomedrag.corpora import Triple

Part = Literal["triple", "head", "tail", "relation"]
PARTS: Final[tuple[Part, ...]] = get_args(Part)
"""What Table 3 scores apart."""
MEASURES: Final = ("precision", "recall", "f1")


def parse_triples(answer: str) -> list[Triple] | None:
    """The triples of an answer: one `head|relation|tail` a line, and nothing else.

    Returns:
        The triples without repeats, in their order; None if there is none or a line is something else.
    """
    triples = []
    for line in filter(None, map(str.strip, answer.splitlines())):
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3 or not all(parts):
            return None
        triples.append(Triple(*parts))
    return list(dict.fromkeys(triples)) or None


def parse_label(answer: str, labels: Sequence[str]) -> str | None:
    """The label that an answer is, whatever its case; a full stop after it is passed over. None if it is no label."""
    known = {same_text(label): label for label in labels}
    told = same_text(answer)
    return known.get(told, known.get(same_text(told.removesuffix("."))))


def part_items(triples: Sequence[Triple], part: Part) -> set[Hashable]:
    """Triples, or one part of them, as they are compared: without case and runs of white space."""
    return {_part(triple, part) for triple in triples}


def _part(triple: Triple, part: Part) -> Hashable:
    head, relation, tail = (same_text(text) for text in (triple.head, triple.relation, triple.tail))
    return {"triple": (head, relation, tail), "head": head, "tail": tail, "relation": relation}[part]


def same_text(text: str) -> str:
    """A text without what does not tell it apart."""
    return " ".join(text.casefold().split())
