"""Abbreviations of clinical notes in words, for the search in own notes and for what it shows."""

import re
from functools import lru_cache
from typing import Final

import yaml

from resources.settings import DATA

FILE: Final = DATA / "clinical_abbreviations.yml"
"""Abbreviations that the rules which read a note do not expand."""


@lru_cache
def _long_forms() -> dict[str, str]:
    content: dict[str, str] = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    return content


@lru_cache
def _pattern() -> re.Pattern[str]:
    longest_first = sorted(_long_forms(), key=len, reverse=True)
    short = "|".join(map(re.escape, longest_first))
    return re.compile(rf"(?<![\w/.])(?:{short})(?![\w/])", re.IGNORECASE)


def with_long_forms(text: str) -> str:
    """Return a text with the words of its abbreviations behind it, each once."""
    found = [match[0].lower() for match in _pattern().finditer(text)]
    if not found:
        return text
    long_forms = [_long_forms()[short] for short in dict.fromkeys(found)]
    return " ".join([text, *long_forms])
