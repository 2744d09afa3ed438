"""Finds the sections of a note, and cuts it into sentences at its lines and titles.

medspaCy's sectionizer finds the titles, by its own list and by that of
`data/clinical_layout.yml`. A title is a sentence of its own, so that its words ("Interval
history") modify nothing behind it; the section says what they mean.
"""

import re
from collections.abc import Collection, Iterator
from typing import Final, NamedTuple

from spacy.language import Language
from spacy.tokens import Doc, Span

from papers.clinical_notes.cleaning import TERMS
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
STATEMENTS: Final = PRESENT | frozenset(
    {"continue", "continues", "denies", "he", "i", "no", "patient", "plan", "remains", "reports"}
    | {"she", "start", "takes", "the", "they", "we", "will"}
)
"""First words of a sentence that is no item of a list."""
LISTS: Final = frozenset({"allergies", "allergy", "options", "past_medications"})
"""Sections that list things."""


_LINE_START = r"(?:^|(?<=\n))[^\S\n]*"
_COLON = r"(?:[^\S\n]*(?:\([^)\n]*\))?:|[^\S\n]+-+(?=\s))"
"""The colon or dash behind a title, which may have something in brackets before it."""


class Section(NamedTuple):
    """Tokens that a title governs, from `start` to `end`, and its category."""

    category: str
    start: int
    end: int


def _rules(default_rules: str) -> Iterator[SectionRule]:
    """One rule for each category, with medspaCy's titles and the project's.

    A title begins a line, and a colon or the line's end follows; or it begins a sentence, and a
    colon follows. The project's categories go before medspaCy's.
    """
    titles: dict[str, list[str]] = dict(words(LAYOUT)["titles"])
    for rule in SectionRule.from_json(default_rules):
        title = rule.literal.strip(": ")
        if not is_title(title):
            titles[rule.category] = [*titles.get(rule.category, ()), re.escape(title)]
    for category, patterns in titles.items():
        title = "|".join(f"(?:{pattern})" for pattern in patterns)
        before_colon = rf"(?:{_LINE_START}|(?<=[.;]\s))(?:{title}){_COLON}"
        alone = rf"{_LINE_START}(?:{title})(?=[^\S\n]*(?:\n|$))"
        yield SectionRule(category, category, pattern=f"(?:{before_colon})|(?:{alone})")


@Language.factory(SECTIONS)
class SectionComponent:
    """Sets sentence starts at line ends and titles, and notes the sections that have a class."""

    def __init__(self, nlp: Language, name: str) -> None:
        """Load the rules."""
        self.name = name
        self._sectionizer = Sectionizer(
            nlp,
            rules=None,
            span_attrs=None,
            apply_sentence_boundary=True,
        )
        rules = _rules(self._sectionizer.DEFAULT_RULES_FILEPATH)
        self._sectionizer.add(list(rules))

    def __call__(self, doc: Doc) -> Doc:
        """Cut and label a cleaned document."""
        for token in doc[:-1]:
            following = doc[token.i + 1]
            if "\n" in token.text:
                following.is_sent_start = True
            elif token.text == "?" and following.lower_ in words(TERMS)["short_answers"]:
                following.is_sent_start = False
        self._sectionizer(doc)
        sections = []
        for section in doc._.sections:
            if section.category in CLASSES:
                start, end = section.body_span
                leaving = STATEMENTS if section.category in LISTS else PRESENT
                governed_end = _governed_end(doc, start, end, leaving)
                sections.append(Section(section.category, start, governed_end))
        doc.user_data[SECTIONS] = sections
        return doc


def _governed_end(doc: Doc, start: int, end: int, leaving: Collection[str]) -> int:
    """Where the reach of a title ends.

    Text on the title's line is all that it governs. A title with a line of its own governs the
    lines below up to an empty one. A sentence with a first word that leaves it ends both.
    """
    is_inline = start < len(doc) and "\n" not in doc[start].text
    first = start if is_inline else start + 1
    for token in doc[first:end]:
        n_lines = token.text.count("\n")
        if n_lines > 1 or (is_inline and n_lines):
            return int(token.i)
        if token.is_sent_start and token.lower_ in leaving and token.i > first:
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
