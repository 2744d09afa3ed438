"""Cleans notes, and writes what they name in one spelling (clinical_notes.md, "Preprocessing").

A cleaned text remembers where each of its characters stood in the note.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from rapidfuzz.distance import DamerauLevenshtein

from helpers.settings import DATA
from papers.clinical_notes.gold import Label
from papers.clinical_notes.wording import DRUGS, words

TERMS: Final = DATA / "clinical_terms.yml"
CONTEXT_LIMIT: Final = 150
"""Characters to either side of a mention that `window` keeps."""


@dataclass(frozen=True)
class Cleaned:
    """A cleaned text; for each character of it the first and last + 1 character of the original that it stands for."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """A span of the cleaned text, as a span of the original.

        Raises:
            ValueError: the span is empty or outside of the text.
        """
        if not 0 <= start < end <= len(self.text):
            raise ValueError(f"A span within 0 and {len(self.text)} is needed; found {start} to {end}.")
        return self.starts[start], self.ends[end - 1]

    def cleaned(self, start: int, end: int) -> tuple[int, int]:
        """A span of the original, as the span of the cleaned text that stands for it; empty if nothing does."""
        inside = [i for i, (s, e) in enumerate(zip(self.starts, self.ends, strict=True)) if s < end and e > start]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)


_CHARACTERS: Final = {
    "\N{NO-BREAK SPACE}": " ",
    "\N{NARROW NO-BREAK SPACE}": " ",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{NON-BREAKING HYPHEN}": "-",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{MICRO SIGN}": "\N{GREEK SMALL LETTER MU}",
    "\N{ZERO WIDTH SPACE}": "",
    "\r": "",
}
REDACTED: Final = "[REDACTED]"


@lru_cache
def _cleaner() -> re.Pattern[str]:
    terms = words(TERMS)
    hidden = "|".join([*terms["redactions"], *terms["identifiers"]])
    short = "|".join(re.escape(a) for a in sorted(terms["abbreviations"], key=len, reverse=True))
    odd = "|".join(map(re.escape, _CHARACTERS))
    return re.compile(rf"(?P<hidden>{hidden})|(?P<short>(?<![\w/.])(?i:{short})(?![\w/]))|(?P<odd>{odd})")


@lru_cache(maxsize=2048)
def clean(text: str) -> Cleaned:
    """Redactions and numbers of records and telephones to one mark, odd characters to plain ones, short forms in full.

    An abbreviation that began with a capital letter keeps one.
    """
    short = words(TERMS)["abbreviations"]
    out: list[tuple[str, int, int]] = []
    at = 0
    for found in _cleaner().finditer(text):
        old = found[0]
        if found["hidden"]:
            new = REDACTED
        elif found["short"]:
            new = str(short[old.lower()])
            new = new[0].upper() + new[1:] if old[0].isupper() else new
        else:
            new = _CHARACTERS[old]
        out += [(text[i], i, i + 1) for i in range(at, found.start())]
        out += [(character, found.start(), found.end()) for character in new]
        at = found.end()
    out += [(text[i], i, i + 1) for i in range(at, len(text))]
    return Cleaned("".join(c for c, _, _ in out), tuple(s for _, s, _ in out), tuple(e for _, _, e in out))


def window(text: str, start: int, end: int) -> str:
    """The text around a mention, cleaned, with nothing that identifies anybody."""
    return clean(text[max(0, start - CONTEXT_LIMIT) : end + CONTEXT_LIMIT]).text


# -------------------------------------------------------------------------------------------------------- one spelling


@lru_cache
def aliases() -> dict[str, str]:
    """Generic name by every name that the drug dictionary has, in lower case."""
    lists = words(DRUGS)
    found = {}
    for group in ("antiseizure", "rescue", "other"):
        for generic, names in lists[group].items():
            for name in (generic, *(n for kind in ("brands", "abbreviations", "other") for n in names.get(kind, []))):
                found[name.lower()] = generic
    return found


def abbreviations() -> set[str]:
    """Abbreviations of drugs, which must stand in capitals: in small letters some are other words."""
    lists = words(DRUGS)
    return {a for group in ("antiseizure", "rescue") for of in lists[group].values() for a in of["abbreviations"]}


@lru_cache(maxsize=4096)
def generic_name(name: str, slips: int = 1) -> str:
    """The generic name for a drug's name as written, with `slips` letters wrong in one of seven letters or more.

    A name that the dictionary lacks is given back in lower case.
    """
    known, typed = aliases(), " ".join(name.lower().split())
    if typed in known:
        return known[typed]
    if slips and len(typed) >= 7:
        near = [a for a in known if len(a) >= 6 and DamerauLevenshtein.distance(typed, a, score_cutoff=slips) <= slips]
        if near:
            return known[min(near)]
    return typed


def milligrams(text: str) -> float | None:
    """A strength in mg: `500 mg`, `1,500 mg`, `0.5 g`; None if it is none."""
    found = re.search(r"(\d[\d,]*(?:\.\d+)?|\.\d+)\s*(mgs?|g|grams?|mcg)\b", text, re.IGNORECASE)
    if not found:
        return None
    factor = {"g": 1000.0, "m": 1.0}[found[2][0].lower()] if found[2].lower() != "mcg" else 0.001
    return float(found[1].replace(",", "")) * factor


@lru_cache
def _terms(group: str) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(rf"(?:{pattern})", re.IGNORECASE), str(value)) for pattern, value in words(TERMS)[group]]


def normal(label: Label, text: str) -> str:
    """What an entity stands for, in one spelling, so that two extractors and the gold can be compared."""
    text = " ".join(text.split())
    if label == "DRUG":
        return generic_name(text)
    if label == "STRENGTH":
        mg = milligrams(text)
        return text.lower() if mg is None else f"{mg:g} mg"
    if label == "DOSAGE":
        return {"one": "1", "two": "2", "three": "3"}.get(text.lower(), text.lower())
    group = {"FREQUENCY": "frequencies", "ROUTE": "routes", "FORM": "forms"}.get(label)
    known = _terms(group) if group else []
    return next((value for pattern, value in known if pattern.fullmatch(text)), text.lower())
