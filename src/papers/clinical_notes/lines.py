"""Tells a line end inside a sentence, where a note was wrapped, from one that ends a statement.

medspaCy's splitter (PyRuSH) joins the lines of a list, and pysbd cuts wrapped sentences. So the
wrapped lines are joined here, by their words, their marks and the width of the note; a splitter
then cuts at all line ends that remain.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from papers.clinical_notes.wording import words
from resources.settings import DATA

LAYOUT: Final = DATA / "clinical_layout.yml"
"""Words by which lines and sections are recognised."""
MIN_WIDTH, MAX_WIDTH = 50, 132
"""Columns of a note that is wrapped, at least and at most."""

_LINE_END = re.compile(r"[^\S\n]*\n\s*")
_BULLET = re.compile(r"(?:[-*\N{BULLET}\N{MIDDLE DOT}>#]|\d{1,2}[.)]|\(?[a-z]\))\s")
_LABEL = re.compile(r"[A-Z][\w/&()' -]{0,40}:(?:\s|$)")
_DATE = re.compile(r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}\b")
_DOSE = r"\d[\d.,]*\s?(?:mgs?|mcg|\N{MICRO SIGN}g|\N{GREEK SMALL LETTER MU}g|g|ml|units?)\b"
_ENTRY = re.compile(rf"[A-Za-z][\w-]+(?: \([\w ]+\)| [A-Za-z]+)?[\s:,-]+(?:\w+ ?x ?)?{_DOSE}", re.I)
"""A line of a list of drugs: a name with its dose."""
_DOSES = re.compile(_DOSE, re.I)
_WORD = re.compile(r"[A-Za-z']+")
_BETWEEN_SENTENCES = re.compile(r"(?<=[.!?])\s+(?=[A-Z])")
_SENTENCE_END = re.compile(r"[.!?][\"')\]]*$")


@dataclass(frozen=True)
class _Line:
    """A line of a note without the white space around it, and whether its block is prose.

    Attributes:
        text: The words.
        is_prose: Whether its block, between empty lines, ends as a sentence does.
    """

    text: str
    is_prose: bool

    @property
    def last_word(self) -> str:
        """The last word in small letters, if nothing but a dot follows it."""
        match = re.search(r"([A-Za-z']+)\.?$", self.text)
        return match[1].lower() if match else ""

    @property
    def first_word(self) -> str:
        """The first word in small letters, if the line begins with one."""
        match = _WORD.match(self.text)
        return match[0].lower() if match else ""

    @property
    def is_entry(self) -> bool:
        """Whether it begins with a drug and its dose."""
        is_drug = self.first_word not in _word_set("open_words")
        return is_drug and _ENTRY.match(self.text) is not None

    @property
    def has_dose(self) -> bool:
        """Whether it states a dose."""
        return _DOSES.search(self.text) is not None

    @property
    def is_title(self) -> bool:
        """Whether it is nothing but the title of a section."""
        return self.text.endswith(":") or is_title(self.text)


@lru_cache
def _titles() -> re.Pattern[str]:
    titles: list[str] = []
    for patterns in words(LAYOUT)["titles"].values():
        titles += patterns
    return re.compile("|".join(f"(?:{pattern})" for pattern in titles), re.I)


def is_title(text: str) -> bool:
    """Whether a text is the title of a section, without its colon."""
    return _titles().fullmatch(text) is not None


@lru_cache
def _word_set(name: str) -> frozenset[str]:
    return frozenset(words(LAYOUT)[name])


def wrapped_line_ends(text: str) -> list[tuple[int, int]]:
    """Find the line ends inside sentences.

    Args:
        text: A note.

    Returns:
        Start and end of the white space of each, in order.
    """
    matches = list(_LINE_END.finditer(text))
    if not matches:
        return []
    lines = _lines(text, matches)
    width = max(len(line.text) for line in lines)
    wrapped = []
    for number, match in enumerate(matches):
        if match[0].count("\n") == 1 and _continues(lines[number], lines[number + 1], width):
            wrapped.append(match.span())
    return wrapped


def join_wrapped_lines(text: str) -> str:
    """Put a space in place of each line end inside a sentence."""
    joined = ""
    position = 0
    for start, end in wrapped_line_ends(text):
        joined += f"{text[position:start]} "
        position = end
    return joined + text[position:]


def sentence(text: str, start: int, end: int) -> str:
    """Return the sentence of a span, with the lines that it was wrapped into."""
    wrapped = {position for position, _ in wrapped_line_ends(text)}
    line_ends = [match for match in _LINE_END.finditer(text) if match.start() not in wrapped]
    ends = [*line_ends, *_BETWEEN_SENTENCES.finditer(text)]
    first = max((match.end() for match in ends if match.end() <= start), default=0)
    last = min((match.start() for match in ends if match.start() >= end), default=len(text))
    return text[first:last]


def _lines(text: str, ends: Sequence[re.Match[str]]) -> list[_Line]:
    """The lines between the line ends, with what their blocks are."""
    texts = []
    position = 0
    for match in ends:
        texts.append(text[position : match.start()].strip())
        position = match.end()
    texts.append(text[position:].strip())
    lines: list[_Line] = []
    is_prose = False
    for number in range(len(texts) - 1, -1, -1):
        ends_block = number == len(ends) or ends[number][0].count("\n") > 1
        if ends_block:
            is_prose = _SENTENCE_END.search(texts[number]) is not None
        lines.append(_Line(texts[number], is_prose))
    return lines[::-1]


def _continues(line: _Line, following: _Line, width: int) -> bool:
    """Whether a line's sentence goes on in the next one."""
    if not line.text or not following.text or _ends_sentence(line):
        return False
    if _DOSES.match(following.text):
        return True
    if _begins_anew(following) or line.is_title:
        return False
    if _is_open(line) or following.text[0] in "(,;)":
        return True
    return not _are_entries(line, following) and _reads_on(line, following, width)


def _are_entries(line: _Line, following: _Line) -> bool:
    """Whether two lines read as items of a list of drugs, or as one and a new statement."""
    if line.is_entry:
        return following.has_dose or following.first_word in _word_set("starters")
    return following.is_entry and (line.has_dose or not line.is_prose)


def _begins_anew(line: _Line) -> bool:
    """Whether a line is an item of a list, a title, or begins with a label or a date."""
    patterns = (_BULLET, _LABEL, _DATE)
    if any(pattern.match(line.text) for pattern in patterns):
        return True
    return is_title(line.text)


def _ends_sentence(line: _Line) -> bool:
    is_end = line.text.endswith(";") or _SENTENCE_END.search(line.text) is not None
    return is_end and line.last_word not in _word_set("abbreviations_before")


def _is_open(line: _Line) -> bool:
    """Whether something must follow: after a comma, an open bracket, or a word such as "the"."""
    if line.text[-1] in ",/&(-" or line.text.count("(") > line.text.count(")"):
        return True
    is_abbreviation = line.last_word in _word_set("abbreviations_before")
    return is_abbreviation or line.last_word in _word_set("open_words")


def _reads_on(line: _Line, following: _Line, width: int) -> bool:
    """Whether the next line reads as the rest of a sentence, by its first character."""
    first = following.text[0]
    if first.isdigit():
        return line.is_prose
    is_small = first.islower() or (line.text + following.text).isupper()
    if is_small:
        return line.is_prose or following.first_word not in _word_set("starters")
    return line.is_prose and not line.is_entry and _is_filled(line, following, width)


def _is_filled(line: _Line, following: _Line, width: int) -> bool:
    """Whether the next line's first word had no place on a line of a note of this width."""
    if not MIN_WIDTH <= width <= MAX_WIDTH:
        return False
    first_word = following.text.split(maxsplit=1)[0]
    return len(line.text) + 1 + len(first_word) > width
