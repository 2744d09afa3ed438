"""Undo what typesetting does to words, so that a search finds them and an excerpt shows them.

Characters with a meaning of their own stay: 10² is not 102, and µg is not μg.
"""

import re
from collections.abc import Sequence

LIGATURES = {
    "\N{LATIN SMALL LIGATURE FF}": "ff",
    "\N{LATIN SMALL LIGATURE FI}": "fi",
    "\N{LATIN SMALL LIGATURE FL}": "fl",
    "\N{LATIN SMALL LIGATURE FFI}": "ffi",
    "\N{LATIN SMALL LIGATURE FFL}": "ffl",
    "\N{LATIN SMALL LIGATURE LONG S T}": "st",
    "\N{LATIN SMALL LIGATURE ST}": "st",
}
FULL_WIDTH = {chr(code): chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
"""The letters, digits and marks of ASCII in the width of a Chinese or Japanese character."""

INVISIBLE = "\N{SOFT HYPHEN}\N{ZERO WIDTH SPACE}\N{WORD JOINER}\N{ZERO WIDTH NO-BREAK SPACE}"
LINE_ENDS = "\N{LINE SEPARATOR}\N{PARAGRAPH SEPARATOR}"
CONTROLS = [chr(code) for code in [*range(0x20), *range(0x7F, 0xA0)] if chr(code) not in "\n\t"]

REPLACEMENTS = str.maketrans(
    {
        **LIGATURES,
        **FULL_WIDTH,
        **dict.fromkeys(INVISIBLE, ""),
        **dict.fromkeys(LINE_ENDS, "\n"),
        **dict.fromkeys(CONTROLS, " "),
    }
)
SOFT_BREAK = re.compile("\N{SOFT HYPHEN}[ \t]*\r?\n[ \t]*")
"""A word that is divided where it may be."""

HARD_BREAK = re.compile(r"(?P<first>\w[\w-]*)[-\N{HYPHEN}][ \t]*\n[ \t]*(?P<second>\w+)")
"""A word that is divided by a hyphen, or one with a hyphen of its own, at the end of a line."""

WORD = re.compile(r"\w+(?:-\w+)*")


def normalise(parts: Sequence[str]) -> list[str]:
    """Normalise the text of one document.

    Args:
        parts: The parts of the document, such as its pages. How a word is written in one of them
            decides how it is joined in another.

    Returns:
        The parts, with ligatures in letters, full-width letters in ASCII, without soft hyphens,
        with a replacement character for half of a surrogate pair, and with the words whole that
        the end of a line divides.
    """
    plain = [_replace_characters(part) for part in parts]
    whole_lines = HARD_BREAK.sub(" ", "\n".join(plain))
    words = frozenset(WORD.findall(whole_lines.lower()))
    return [_join_divided_words(part, words) for part in plain]


def _replace_characters(text: str) -> str:
    # Two halves of a surrogate pair become one character, a lone half the replacement character.
    text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return SOFT_BREAK.sub("", text).translate(REPLACEMENTS)


def _join_divided_words(text: str, words: frozenset[str]) -> str:
    return HARD_BREAK.sub(lambda match: _join(match["first"], match["second"], words), text)


def _join(first: str, second: str, words: frozenset[str]) -> str:
    joined = f"{first}{second}"
    hyphenated = f"{first}-{second}"
    starts_plainly = first.isalpha() and first[1:].islower()
    if not starts_plainly or not second.isalpha() or not second.islower():
        return hyphenated  # COVID-19, anti-TNF, state-of-the-art
    if joined.lower() in words:
        return joined
    halves_are_words = {first.lower(), second} <= words
    if hyphenated.lower() in words or halves_are_words:
        return hyphenated
    return joined
