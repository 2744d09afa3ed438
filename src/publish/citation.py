"""How this book is cited: what CITATION.cff says, in words and as BibTeX."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from publish.launch import clone_address

CITATION: Final = Path(__file__).resolve().parents[2] / "CITATION.cff"
"""That of the project whose code this is, wherever its runs are."""
_SPECIAL: Final = re.compile(r"([&%$#_{}])")
"""Characters that mean something to LaTeX."""


def citation(path: Path = CITATION) -> str:
    """Return who wrote the book, its title and version, and a BibTeX entry, as Markdown."""
    book = yaml.safe_load(path.read_text(encoding="utf-8"))
    sentence = f"{_authors(book)}: *{book['title']}*, version {book['version']}."
    return f"{sentence}\n\n```bibtex\n{bibtex(book)}\n```"


def bibtex(book: Mapping[str, Any]) -> str:
    """Return a BibTeX entry that every style knows.

    Args:
        book: The content of CITATION.cff. A year is given if it has a date of release, and an
            address if the build knows one.
    """
    year = str(book.get("date-released", ""))[:4]
    fields = {
        "title": f"{{{_escaped(book['title'])}}}",
        "author": f"{{{_escaped(_authors(book))}}}",
        "year": year,
        "note": f"Version {_escaped(str(book['version']))}",
        "url": clone_address(),
    }
    lines = [f"  {name} = {{{value}}}" for name, value in fields.items() if value]
    key = re.sub(r"\W+", "-", book["title"].partition(":")[0].lower()).strip("-")
    return "\n".join([f"@misc{{{key},", ",\n".join(lines), "}"])


def _authors(book: Mapping[str, Any]) -> str:
    """Return the authors of the book, people as well as groups."""
    names = []
    for author in book["authors"]:
        person = f"{author.get('given-names', '')} {author.get('family-names', '')}".strip()
        names.append(author.get("name") or person)
    return " and ".join(names)


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\1", text)
