"""The glossary of `book/how-to-read.md`, as data for the script that explains its terms."""

import json
import re
from pathlib import Path
from typing import Final

HEADING: Final = "## Glossary"
_ENTRY: Final = re.compile(r"^(\S[^\n]*)\n: ((?:[^\n]+\n?)+)", re.MULTILINE)
_CITATION: Final = re.compile(r"\s*\{cite:\w\}`[^`]*`")
_LINK: Final = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_MARK: Final = re.compile(r"[*`]")


def read_glossary(page: Path) -> dict[str, str]:
    """Read the terms of a page and their meanings, as plain text.

    An entry such as "Format A, Format B" or "floor and ceiling" gives two terms.

    Args:
        page: A Markdown file with a definition list below the heading of the glossary.
    """
    text = page.read_text(encoding="utf-8").partition(HEADING)[2]
    meanings = {}
    for entry in _ENTRY.finditer(text):
        meaning = _plain(entry[2])
        for term in re.split(r", | and ", entry[1].strip()):
            meanings[term] = meaning
    return meanings


def _plain(markdown: str) -> str:
    without_citations = _CITATION.sub("", markdown)
    words = _LINK.sub(r"\1", without_citations)
    return " ".join(_MARK.sub("", words).split())


def glossary_script(page: Path) -> str:
    """Return the glossary of a page as a script that sets `ragGlossary`."""
    data = json.dumps(read_glossary(page), ensure_ascii=True, indent=1)
    return f"window.ragGlossary = {data};\n"
