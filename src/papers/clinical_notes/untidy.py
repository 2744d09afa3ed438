"""Gives a synthetic note the forms of real ones.

Lines are wrapped, text follows its title on the same line, a paragraph may be in capitals, and
decimals may have a comma. No character is added or removed, so that all places stay right. An
untidy note also has wording of its own (`untidy` in `data/clinical_wording.yml`), and lists
without numbers.
"""

import re
from collections.abc import Iterable

import numpy as np

from papers.clinical_notes.gold import Mention

MIN_WIDTH, MAX_WIDTH = 66, 90
"""Columns to which notes are wrapped."""
TITLES_IN_LINE, CAPITALS, COMMAS = 0.7, 0.15, 0.5
"""Share of notes whose titles are in line, of paragraphs in capitals, of decimals with a comma."""

_TITLE_END = re.compile(r"(?<=\n\n)([^\n]+:)\n(?=\S)")
_PARAGRAPH = re.compile(r"(?<=\n\n)[^\n].*?(?=\n\n|$)", re.DOTALL)


def make_untidy(text: str, mentions: Iterable[Mention], rng: np.random.Generator) -> str:
    """Give a note the forms of real ones; each character stays in its place.

    Args:
        text: The note.
        mentions: Its spans.
        rng: Draws the forms.
    """
    characters = list(text)
    for mention in mentions:
        if mention.label == "STRENGTH" and rng.random() < COMMAS:
            span = slice(mention.start, mention.end)
            characters[span] = _decimal_comma(text[span])
    text = "".join(characters)
    if rng.random() < TITLES_IN_LINE:
        text = _TITLE_END.sub(r"\1 ", text)
    for paragraph in list(_PARAGRAPH.finditer(text)):
        if rng.random() < CAPITALS:
            text = text[: paragraph.start()] + _capitals(paragraph[0]) + text[paragraph.end() :]
    return wrap(text, int(rng.integers(MIN_WIDTH, MAX_WIDTH + 1)))


def _decimal_comma(strength: str) -> str:
    """A comma for the point of a decimal, unless three digits follow, as in thousands."""
    return re.sub(r"(?<=\d)\.(?=\d{1,2}(?!\d))", ",", strength)


def _capitals(text: str) -> str:
    """Capitals, but for letters that become two."""
    letters = []
    for letter in text:
        capital = letter.upper()
        letters.append(capital if len(capital) == 1 else letter)
    return "".join(letters)


def wrap(text: str, width: int) -> str:
    """Put a line end in place of a space wherever a line would exceed a width."""
    lines = []
    for line in text.split("\n"):
        start = 0
        wrapped = list(line)
        while len(line) - start > width:
            space = line.rfind(" ", start + 1, start + width + 1)
            if space < 0:
                break
            wrapped[space] = "\n"
            start = space + 1
        lines.append("".join(wrapped))
    return "\n".join(lines)
