"""Names of an own table that may be lists: cells such as "nausea, rash" that were read as one."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from rag.names import Vocabulary

SEPARATOR = re.compile(r"\s*(?P<mark>,(?!\d)|[/+&\u2022\u00b7]|\band\b|\s[-\u2013]\s)\s*")
"""What may separate the names of a list, unlike the comma in "2,4-dinitrophenol"."""


@dataclass(frozen=True)
class ListPart:
    """A part of a name that may be a list.

    Attributes:
        text: The part, such as ``nausea``.
        name: The name, such as ``nausea, rash``.
        role: What it names: drug or effect.
        mark: What separates the part from the others.
    """

    text: str
    name: str
    role: str
    mark: str

    @property
    def hint(self) -> str:
        """Where the part stands, and how such a cell is read as a list."""
        where = f"{self.text!r} stands in the table only within {self.name!r}."
        if self.role == "drug":
            return f"{where} If that cell lists several drugs, put ';' between them."
        mark = f" {self.mark} " if self.mark.isalpha() else self.mark
        return f"{where} If that cell lists several side effects, add --separator {mark!r}."


def find_parts(text: str, vocabulary: Vocabulary) -> list[ListPart]:
    """Find the parts of names that a text has word for word, in the order of the text."""
    parts: dict[str, ListPart] = {}
    for role in ("drug", "effect"):
        for name in vocabulary.names.get(role, ()):
            for part in _parts_of(name, role):
                parts.setdefault(part.text, part)
    matches = Vocabulary.by_role(part=parts).link(text)
    return [parts[match] for match in matches["part"]]


def _parts_of(name: str, role: str) -> Iterable[ListPart]:
    separator = SEPARATOR.search(name)
    if separator is None:
        return []
    texts = SEPARATOR.sub("\n", name).split("\n")
    mark = separator["mark"].strip()
    return [ListPart(text, name, role, mark) for text in filter(None, texts)]
