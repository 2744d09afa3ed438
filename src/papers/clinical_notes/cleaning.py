"""Cleans notes, and writes what they name in one spelling (clinical_notes.md, "Preprocessing").

A cleaned text remembers where each of its characters stood in the note.
"""

import re
from functools import lru_cache
from typing import Final, NamedTuple

from rapidfuzz.distance import DamerauLevenshtein

from papers.clinical_notes.gold import Label
from papers.clinical_notes.wording import DRUGS, words
from resources.settings import DATA

TERMS: Final = DATA / "clinical_terms.yml"
CONTEXT_LIMIT: Final = 150
"""Characters to either side of a mention that are shown with it."""


class Cleaned(NamedTuple):
    """A cleaned text; for each character of it the first and last + 1 character of the original that it represents."""

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """A span of the cleaned text, which must not be empty, as a span of the original."""
        return self.starts[start], self.ends[end - 1]

    def cleaned(self, start: int, end: int) -> tuple[int, int]:
        """A span of the original, as the corresponding span of the cleaned text; empty if there is none."""
        inside = [
            i
            for i, (s, e) in enumerate(zip(self.starts, self.ends, strict=True))
            if s < end and e > start
        ]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)


@lru_cache
def _cleaner() -> re.Pattern[str]:
    terms = words(TERMS)
    hidden = "|".join([*terms["redactions"], *terms["identifiers"]])
    short = "|".join(re.escape(a) for a in sorted(terms["abbreviations"], key=len, reverse=True))
    odd = "|".join(map(re.escape, terms["characters"]))
    return re.compile(
        rf"(?P<hidden>{hidden})|(?P<short>(?<![\w/.])(?i:{short})(?![\w/]))|(?P<odd>{odd})"
    )


@lru_cache(maxsize=2048)
def clean(text: str) -> Cleaned:
    """Redactions and numbers of records and telephones to one mark, odd characters to plain ones, short forms in full.

    An abbreviation that began with a capital letter keeps one.
    """
    short, odd = words(TERMS)["abbreviations"], words(TERMS)["characters"]
    out: list[tuple[str, int, int]] = []
    at = 0
    for found in _cleaner().finditer(text):
        old = found[0]
        if found["hidden"]:
            new = "[REDACTED]"
        elif found["short"]:
            new = str(short[old.lower()])
            new = new[0].upper() + new[1:] if old[0].isupper() else new
        else:
            new = odd[old]
        out += [(text[i], i, i + 1) for i in range(at, found.start())]
        out += [(character, found.start(), found.end()) for character in new]
        at = found.end()
    out += [(text[i], i, i + 1) for i in range(at, len(text))]
    return Cleaned(
        "".join(c for c, _, _ in out), tuple(s for _, s, _ in out), tuple(e for _, _, e in out)
    )


@lru_cache
def drug_names() -> dict[str, list[str]]:
    """The project's dictionary: every drug's other names."""
    kinds = ("brands", "abbreviations", "other")
    return {
        d: [n for kind in kinds for n in of.get(kind, [])]
        for g in words(DRUGS).values()
        for d, of in g.items()
    }


@lru_cache
def aliases() -> dict[str, str]:
    """Generic name by every name that the drug dictionary has, in lower case."""
    return {
        name.lower(): generic
        for generic, names in drug_names().items()
        for name in (generic, *names)
    }


def abbreviations() -> set[str]:
    """Abbreviations of drugs, which must stand in capitals: in small letters some are other words."""
    return {
        a
        for group in words(DRUGS).values()
        for of in group.values()
        for a in of.get("abbreviations", [])
    }


@lru_cache(maxsize=4096)
def generic_name(name: str) -> str:
    """The generic name for a drug's name as written, with one letter wrong in one of seven letters or more.

    A name that the dictionary lacks is given back in lower case.
    """
    known, typed = aliases(), " ".join(name.lower().split())
    if typed not in known and len(typed) >= 7:
        near = [
            a
            for a in known
            if len(a) >= 6 and DamerauLevenshtein.distance(typed, a, score_cutoff=1) <= 1
        ]
        typed = min(near, default=typed)
    return known.get(typed, typed)


def milligrams(text: str) -> float | None:
    """A strength in mg: `500 mg`, `1,500 mg`, `0.5 g`; None if it is none."""
    found = re.search(r"(\d[\d,]*(?:\.\d+)?|\.\d+)\s*(mgs?|g|grams?|mcg)\b", text, re.IGNORECASE)
    if not found:
        return None
    factor = {"g": 1000.0, "m": 1.0}[found[2][0].lower()] if found[2].lower() != "mcg" else 0.001
    return float(found[1].replace(",", "")) * factor


GROUPS: Final[dict[Label, str]] = {"FREQUENCY": "frequencies", "ROUTE": "routes", "FORM": "forms"}
"""Label -> its group of patterns in `data/clinical_terms.yml`."""


def normal(label: Label, text: str) -> str:
    """What an entity denotes, in one spelling, so that two extractors and the gold can be compared."""
    text = " ".join(text.split())
    if label == "DRUG":
        return generic_name(text)
    if label == "STRENGTH":
        mg = milligrams(text)
        return text.lower() if mg is None else f"{mg:g} mg"
    if label == "DOSAGE":
        return {"one": "1", "two": "2", "three": "3"}.get(text.lower(), text.lower())
    known = words(TERMS)[GROUPS[label]] if label in GROUPS else []
    return next(
        (str(value) for pattern, value in known if re.fullmatch(pattern, text, re.IGNORECASE)),
        text.lower(),
    )
