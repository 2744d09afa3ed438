"""Parse answers strictly, and say what of two triples is compared.

Source: biomedrag.md, section 4.4 and Table 3.
"""

import re
from collections.abc import Hashable, Sequence
from typing import Final

from helpers.thoughts import without_thought
from papers.biomedrag.corpora import Triple
from rag.replies import answer_text, bare_name, plain_text

PARTS: Final = ("triple", "head", "tail", "relation")
"""What Table 3 scores separately."""
MEASURES: Final = ("precision", "recall", "f1")


_LAYOUT = re.compile(r"\s*(?:\*\*|\\\w+\{|```|\||<\w+>|\d{1,2}[.)]\s|[-•]\s)")
_BULLET = re.compile(r"^\s*(?:\d{1,2}[.)]|[-•])\s+")


def parse_triples(answer: str) -> list[Triple]:
    """Parse an answer in lines ``head|relation|tail``; a thought before it is passed over.

    Where layout surrounds the lines (bullets, bold type, a fence, a box, the frame of a table),
    they are read without it; else as they stand, for names may hold such marks.

    Returns:
        The distinct triples; none if a line has another form.
    """
    text = without_thought(answer)
    exact = _read_lines(text.splitlines())
    if exact and not _LAYOUT.match(text):
        return exact
    return _read_lines([_without_layout(line) for line in plain_text(answer).splitlines()])


def _read_lines(lines: Sequence[str]) -> list[Triple]:
    triples = []
    for line in lines:
        if not line.strip():
            continue
        parts = [part.strip() for part in line.split("|")]
        if len(parts) != 3 or not all(parts):
            return []
        triples.append(Triple(*parts))
    return list(dict.fromkeys(triples))


def _without_layout(line: str) -> str:
    """A line without its bullet, and without the bars around the row of a table."""
    row = _BULLET.sub("", line).strip()
    is_framed = row.startswith("|") and row.endswith("|")
    return row[1:-1] if is_framed else row


def parse_label(answer: str, labels: Sequence[str]) -> str | None:
    """Find the label that an answer is, whatever its case, and with or without a full stop.

    Returns:
        The label as it is written in ``labels``, or None if the answer is not one of them.
    """
    label_by_text = {same_text(label): label for label in labels}
    for text in (without_thought(answer), bare_name(answer_text(answer))):
        for spelling in (text, text.removesuffix(".")):
            if same_text(spelling) in label_by_text:
                return label_by_text[same_text(spelling)]
    return None


def part_items(triples: Sequence[Triple], part: str) -> set[Hashable]:
    """Return triples, or one of their ``PARTS``, as they are compared, see ``same_text``."""
    if part == "triple":
        return {(same_text(t.head), same_text(t.relation), same_text(t.tail)) for t in triples}
    return {same_text(getattr(t, part)) for t in triples}


def same_text(text: str) -> str:
    """Return a text without case and runs of white space."""
    return " ".join(text.casefold().split())
