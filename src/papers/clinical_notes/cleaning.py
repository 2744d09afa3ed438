"""Cleans notes, and writes what they name in one spelling (clinical_notes.md, "Preprocessing").

A cleaned text knows the place of each of its characters in the note.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from rapidfuzz.distance import DamerauLevenshtein

from papers.clinical_notes.gold import Label
from papers.clinical_notes.lines import wrapped_line_ends
from papers.clinical_notes.wording import DRUGS, words
from resources.settings import DATA

TERMS: Final = DATA / "clinical_terms.yml"
CONTEXT_LIMIT: Final = 150
"""Longest context of a mention, in characters to either side."""
REDACTED: Final = "[REDACTED]"


class Cleaned(NamedTuple):
    """A cleaned text with the original's characters that each of its own represents.

    Attributes:
        text: The cleaned text.
        starts: First character of the original, for each character of the text.
        ends: Last character of the original, plus one, for each character of the text.
    """

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """Return the original's span of a span of the cleaned text, which must not be empty."""
        return self.starts[start], self.ends[end - 1]

    def cleaned(self, start: int, end: int) -> tuple[int, int]:
        """Return the cleaned text's span of a span of the original; empty if there is none."""
        positions = []
        places = zip(self.starts, self.ends, strict=True)
        for position, (first, last) in enumerate(places):
            if first < end and last > start:
                positions.append(position)
        if not positions:
            return 0, 0
        return positions[0], positions[-1] + 1


class _Character(NamedTuple):
    """A character of a cleaned text with its place in the original."""

    text: str
    start: int
    end: int


@lru_cache
def _cleaner() -> re.Pattern[str]:
    terms = words(TERMS)
    hidden = "|".join([*terms["redactions"], *terms["identifiers"]])
    abbreviated = sorted(terms["abbreviations"], key=len, reverse=True)
    short = "|".join(map(re.escape, abbreviated))
    odd = "|".join(map(re.escape, terms["characters"]))
    return re.compile(
        rf"(?P<hidden>{hidden})|(?P<short>(?<![\w/.])(?i:{short})(?![\w/]))|(?P<odd>{odd})"
    )


def _replacement(match: re.Match[str]) -> str:
    """What replaces a match of `_cleaner`."""
    original = match[0]
    if match["hidden"]:
        return REDACTED
    if match["odd"]:
        return str(words(TERMS)["characters"][original])
    full = str(words(TERMS)["abbreviations"][original.lower()])
    if original[0].isupper():
        return full[0].upper() + full[1:]
    return full


def _copy(text: str, start: int, end: int) -> list[_Character]:
    """Characters that stay as they are."""
    return [_Character(text[i], i, i + 1) for i in range(start, end)]


def _place_and_length(span: tuple[int, int]) -> tuple[int, int]:
    """A key that sorts spans by place, the longest first."""
    return span[0], -span[1]


@lru_cache(maxsize=2048)
def clean(text: str) -> Cleaned:
    """Clean a note.

    Redactions, record numbers and telephone numbers become one mark, odd characters plain ones,
    and abbreviations their full words. An abbreviation that begins with a capital letter keeps
    one. Wrapped lines are joined.
    """
    edits = {match.span(): _replacement(match) for match in _cleaner().finditer(text)}
    for span in wrapped_line_ends(text):
        edits.setdefault(span, " ")
    characters: list[_Character] = []
    position = 0
    for start, end in sorted(edits, key=_place_and_length):
        replacement = edits[start, end]
        if start < position:  # within the edit before it
            continue
        characters += _copy(text, position, start)
        for character in replacement:
            characters.append(_Character(character, start, end))
        position = end
    characters += _copy(text, position, len(text))
    cleaned = "".join(character.text for character in characters)
    starts = tuple(character.start for character in characters)
    ends = tuple(character.end for character in characters)
    return Cleaned(cleaned, starts, ends)


@lru_cache
def drug_names() -> dict[str, list[str]]:
    """Return the project's dictionary: all other names of each drug."""
    names: dict[str, list[str]] = {}
    for group in words(DRUGS).values():
        for drug, entry in group.items():
            names[drug] = []
            for kind in ("brands", "abbreviations", "other"):
                names[drug] += entry.get(kind, [])
    return names


@lru_cache
def aliases() -> dict[str, str]:
    """Return the generic name of every name in the drug dictionary, in lower case."""
    generic_names = {}
    for generic, names in drug_names().items():
        for name in (generic, *names):
            generic_names[name.lower()] = generic
    return generic_names


def abbreviations() -> set[str]:
    """Return the abbreviations of drugs.

    They must stand in capitals: in small letters some are other words.
    """
    short: set[str] = set()
    for group in words(DRUGS).values():
        for entry in group.values():
            short.update(entry.get("abbreviations", []))
    return short


@lru_cache(maxsize=4096)
def generic_name(name: str) -> str:
    """Return the generic name for a drug's name as written.

    One letter may be wrong in a name of seven letters or more.

    Returns:
        The generic name, or the name in lower case if the dictionary lacks it.
    """
    known = aliases()
    written = " ".join(name.lower().split())
    if written not in known and len(written) >= 7:
        near = [alias for alias in known if _is_near(written, alias)]
        written = min(near, default=written)
    return known.get(written, written)


def _is_near(written: str, alias: str) -> bool:
    """Whether a name of six letters or more differs from what is written by one letter at most."""
    if len(alias) < 6:
        return False
    return DamerauLevenshtein.distance(written, alias, score_cutoff=1) <= 1


_STRENGTH = re.compile(
    r"(?P<number>\d[\d,.]*|[.,]\d+)\s*"
    r"(?:(?P<milli>mgs?|milligrams?)"
    r"|(?P<micro>mcgs?|ugs?|\N{MICRO SIGN}gs?|\N{GREEK SMALL LETTER MU}gs?|micrograms?)"
    r"|(?P<gram>gm?s?|grams?))\b",
    re.IGNORECASE,
)
_MILLIGRAMS: Final = {"milli": 1.0, "micro": 0.001, "gram": 1000.0}
"""Milligrams of each unit of `_STRENGTH`."""
_THOUSANDS = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[1-9]\d{0,2}(?:\.\d00)")
"""1,500 and 12,500.5, not 0,125; also 1.500, for a decimal has no zeros at its end."""


def milligrams(text: str) -> float | None:
    """Read a strength in mg: `500 mg`, `1,500 mg`, `0,5 g`, `50 mcg`; None if there is none."""
    match = _STRENGTH.search(text)
    if match is None:
        return None
    number = _number(match["number"])
    if number is None:
        return None
    # what a chart states has few digits; the product of two floats may have more
    return round(number * _MILLIGRAMS[match.lastgroup or "milli"], 9)


def _number(text: str) -> float | None:
    """Read a number; a mark before three digits may part thousands, any other is a decimal one."""
    digits = text.rstrip(".,")
    if _THOUSANDS.fullmatch(digits):
        separator = "," if "," in digits else "."
        digits = digits.replace(separator, "")
    try:
        return float(digits.replace(",", "."))
    except ValueError:  # 1.2.3 is no number
        return None


GROUPS: Final[dict[Label, str]] = {"FREQUENCY": "frequencies", "ROUTE": "routes", "FORM": "forms"}
"""Label -> its group of patterns in `data/clinical_terms.yml`."""
_DOSAGES: Final = {"one": "1", "two": "2", "three": "3"}


def normal(label: Label, text: str) -> str:
    """Write what a span denotes in one spelling, so that extractors and gold can be compared."""
    text = " ".join(text.split())
    if label == "DRUG":
        return generic_name(text)
    lower = text.lower()
    if label == "STRENGTH":
        mg = milligrams(text)
        return lower if mg is None else f"{mg:g} mg"
    if label == "DOSAGE":
        return _DOSAGES.get(lower, lower)
    if label in GROUPS:
        for pattern, value in words(TERMS)[GROUPS[label]]:
            if re.fullmatch(pattern, text, re.IGNORECASE):
                return str(value)
    return lower
