"""What the five systems return to a person: an answer with all that it rests on.

A command prints it, a notebook shows it, and the HTTP interface sends it as JSON.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol

from markupsafe import Markup

from helpers.folders import printable

STATEMENT = "Statement"
NEW_LINE = Markup("&#10;")
MAX_PRINTED = 10
"""Rows or excerpts of the evidence that a command or a notebook shows; the JSON has all."""
N_UNFOLDED = 5
"""Lines of a section that a notebook shows at once; a click shows the others."""


@dataclass(frozen=True)
class Evidence:
    """A row of a table, or an excerpt of a text.

    Attributes:
        text: The row in words, or the excerpt.
        source: Where it comes from, such as a table and row, or a file and page.
        values: The columns of a row; empty for an excerpt.
    """

    text: str
    source: str = ""
    values: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, repr=False)
class SystemAnswer:
    """The answer of a system to a question.

    Attributes:
        question: The question.
        text: The answer in words; what is needed instead, if the question was not answered.
        answered: False if the system asks back, or has not understood the question.
        evidence: What the answer rests on, the best first.
        citations: The sources that the answer names, such as ``[1] guide.pdf, page 3``.
        statement: The query that found the evidence, such as Cypher; empty if there is none.
        parameters: The values of the statement's parameters.
        warnings: What speaks against relying on the answer, such as that it cites nothing.
        notes: What the reader must know too: corrected names, and what replaces a part of the
            paper's system.
        details: Further results in plain types, such as the kind of the question.
    """

    question: str
    text: str
    answered: bool = True
    evidence: tuple[Evidence, ...] = ()
    citations: tuple[str, ...] = ()
    statement: str = ""
    parameters: Mapping[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return all fields in plain types, for JSON."""
        shallow = {item.name: getattr(self, item.name) for item in fields(self)}
        evidence = [vars(item) for item in self.evidence]
        return shallow | {"evidence": evidence}

    def __str__(self) -> str:
        """Write the answer for a terminal; no character of it can steer the terminal."""
        parts = [self.text]
        for title, lines in self._sections().items():
            indented = [f"  {line}" for line in lines]
            parts.append("\n".join([f"{title}:", *indented]))
        lines = "\n\n".join(parts).split("\n")
        return "\n".join(printable(line) for line in lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """Write question and answer for a notebook; all text is escaped, no formula is sought."""
        parts = [_question(self.question), _paragraph(self.text)]
        for title, lines in self._sections().items():
            parts.append(_section_html(title, lines))
        box = Markup('<div class="tex2jax_ignore mathjax_ignore">{}</div>')
        return str(box.format(Markup().join(parts)))

    def _sections(self) -> dict[str, list[str]]:
        """Return the lines of each part that is not empty, by its title."""
        sections = {
            "Warnings": list(self.warnings),
            "Notes": list(self.notes),
            "Citations": list(self.citations),
            "Evidence": self._evidence_lines(),
            STATEMENT: self._statement_lines(),
        }
        return {title: lines for title, lines in sections.items() if lines}

    def _evidence_lines(self) -> list[str]:
        lines = []
        for item in self.evidence[:MAX_PRINTED]:
            text = " ".join(item.text.split())
            lines.append(f"{text} ({item.source})" if item.source else text)
        n_more = len(self.evidence) - MAX_PRINTED
        if n_more > 0:
            lines.append(f"and {n_more:,} more, not shown")
        return lines

    def _statement_lines(self) -> list[str]:
        if not self.statement:
            return []
        lines = self.statement.strip().split("\n")
        for name, value in self.parameters.items():
            lines.append(f"${name} = {value!r}")
        return lines


def _section_html(title: str, lines: list[str]) -> Markup:
    if title == STATEMENT:
        block = Markup("<pre>{}</pre>").format(_escape_lines("\n".join(lines)))
    else:
        block = _folded_list(lines)
    return Markup("<b>{}</b>{}").format(title, block)


def _folded_list(lines: list[str]) -> Markup:
    """Return the first lines as a list, and the others as one that a click opens."""
    first, rest = lines[:N_UNFOLDED], lines[N_UNFOLDED:]
    block = _list(first)
    if rest:
        block += Markup("<details><summary>More</summary>{}</details>").format(_list(rest))
    return block


def _list(lines: list[str]) -> Markup:
    items = [Markup("<li>{}</li>").format(_escape_lines(line)) for line in lines]
    return Markup("<ul>{}</ul>").format(Markup().join(items))


def _question(text: str) -> Markup:
    return Markup("<p><b>Question</b> {}</p>").format(_escape_lines(text))


def _paragraph(text: str) -> Markup:
    return Markup('<p style="white-space: pre-line">{}</p>').format(_escape_lines(text))


def _escape_lines(text: str) -> Markup:
    """Escape a text; line ends become numbers, for an empty line would end the block."""
    lines = [printable(line) for line in text.split("\n")]
    return NEW_LINE.join(lines)


class System(Protocol):
    """A system that is ready to be asked; `medrerun api` serves any that has this method."""

    def ask(self, question: str) -> SystemAnswer:
        """Answer a question."""
