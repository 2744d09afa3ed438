"""Finds the sections of a note, and cuts it into sentences at its lines and titles.

medspaCy's sectionizer finds the titles, by its own list and by that of
`data/clinical_layout.yml`. A title is a sentence of its own, so that its words ("Interval
history") modify nothing behind it; the section says what they mean.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span

from papers.clinical_notes.lines import LAYOUT, is_title
from papers.clinical_notes.medspacy_parts import Sectionizer, SectionRule
from papers.clinical_notes.wording import words

SECTIONS: Final = "clinical_sections"
"""Where a document holds its sections that have a class; name of the component."""
CLASSES: Final[dict[str, str]] = {
    "allergies": "ALLERGY",
    "allergy": "ALLERGY",
    "family_history": "FAMILY",
    "past_medications": "HISTORICAL",
    "past_medical_history": "HISTORICAL",
    "options": "HYPOTHETICAL",
    "instructions": "HYPOTHETICAL",
    "patient_instructions": "HYPOTHETICAL",
    "education": "HYPOTHETICAL",
}
"""Category of a section -> the class of ConText that it gives to what it names."""
INSTRUCTIONS: Final = frozenset({"instructions", "patient_instructions", "education"})
"""Sections that say what to do: their drugs are taken, their seizures may come."""

PRESENT: Final = frozenset({"current", "currently", "now", "presently", "today"})
"""First words of a sentence that leaves the past."""


class Section(NamedTuple):
    """Tokens that a title governs, from `start` to `end`, and its category."""

    category: str
    start: int
    end: int


def _rules(default_rules: str) -> Iterator[SectionRule]:
    """medspaCy's rules but for those that the project's own replace, and these."""
    for rule in SectionRule.from_json(default_rules):
        if not is_title(rule.literal.strip(": ")):
            yield rule
    for category, patterns in words(LAYOUT)["titles"].items():
        title = "|".join(f"(?:{pattern})" for pattern in patterns)
        line_start = r"(?:^|(?<=\n))[^\S\n]*"
        title_end = r"(?:[^\S\n]*(?:\([^)\n]*\))?:|(?=[^\S\n]*(?:\n|$)))"
        pattern = rf"{line_start}(?:{title}){title_end}"
        yield SectionRule(category, category, pattern=pattern)


@Language.factory(SECTIONS)
class SectionComponent:
    """Sets sentence starts at line ends and titles, and notes the sections that have a class."""

    def __init__(self, nlp: Language, name: str) -> None:
        """Load the rules."""
        self.name = name
        self._sectionizer = Sectionizer(
            nlp,
            rules=None,
            require_start_line=True,
            span_attrs=None,
            apply_sentence_boundary=True,
        )
        rules = _rules(self._sectionizer.DEFAULT_RULES_FILEPATH)
        self._sectionizer.add(list(rules))

    def __call__(self, doc: Doc) -> Doc:
        """Cut and label a cleaned document."""
        for token in doc[:-1]:
            if "\n" in token.text:
                doc[token.i + 1].is_sent_start = True
        self._sectionizer(doc)
        sections = []
        for section in doc._.sections:
            if section.category in CLASSES:
                start, end = section.body_span
                sections.append(Section(section.category, start, _governed_end(doc, start, end)))
        doc.user_data[SECTIONS] = sections
        return doc


def _governed_end(doc: Doc, start: int, end: int) -> int:
    """Where the reach of a title ends.

    Text on the title's line is all that it governs, up to a sentence about the present. A title
    with a line of its own governs the lines below up to an empty one.
    """
    is_inline = start < len(doc) and "\n" not in doc[start].text
    first = start if is_inline else start + 1
    for token in doc[first:end]:
        n_lines = token.text.count("\n")
        if n_lines > 1 or (is_inline and n_lines):
            return int(token.i)
        if token.is_sent_start and token.lower_ in PRESENT and token.i > first:
            return int(token.i)
    return end


def section_class(span: Span) -> str | None:
    """Return the class of ConText that a span has from its section, if it has one."""
    sections: list[Section] = span.doc.user_data.get(SECTIONS, [])
    for section in sections:
        if section.start <= span.start < section.end:
            if span.label_ == "DRUG" and section.category in INSTRUCTIONS:
                return None
            return CLASSES[section.category]
    return None
