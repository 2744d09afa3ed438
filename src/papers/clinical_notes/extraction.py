"""Reads medications and seizures out of a note (clinical_notes.md, "NLP libraries and extraction").

Somebody names the drugs and what belongs to them (`namers`). medspaCy's ConText says of every drug, seizure and symptom
whether it is negated, historical, hypothetical or of the family, and what is said of a drug is linked to it by where it
stands. A language model reads a note as a whole instead (`llm_reading`).

Positions are always those of the note as it stands in the chart, not of the cleaned text.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import spacy
from loguru import logger as _loguru
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from helpers.completions import Reply
from papers.clinical_notes.cleaning import TERMS, Cleaned, clean, generic_name, normal
from papers.clinical_notes.gold import LABELS, Context, Label, Role
from papers.clinical_notes.wording import words

# medspaCy logs each rule it loads; nothing of a note may reach a log either
_loguru.disable("medspacy")
_loguru.disable("PyRuSH")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from medspacy.context import ConText, ConTextRule
    from medspacy.target_matcher import TargetMatcher, TargetRule
# a matcher whose rules are all regular expressions has no token patterns, and needs none
warnings.filterwarnings("ignore", message=r"\[W036\]")

Status = Literal["positive", "negative", "unknown"]


# -------------------------------------------------------------------------------------------------------- readings


class Text(Protocol):
    """A note, or any other text with an identifier."""

    @property
    def note_id(self) -> str:
        """Its identifier."""

    @property
    def text(self) -> str:
        """The text."""


@dataclass(frozen=True)
class Passage:
    """A text that is no patient's note: a sentence of a paper, a transcription."""

    note_id: str
    text: str


@dataclass(frozen=True)
class Entity:
    """A span with one of Med7's labels, and what it stands for."""

    start: int
    end: int
    label: Label
    value: str


@dataclass(frozen=True)
class Finding:
    """A span that names a seizure or a symptom, and its ConText class."""

    start: int
    end: int
    kind: Literal["seizure", "symptom"]
    term: str
    context: Context


@dataclass(frozen=True)
class Medication:
    """A drug with what a passage says of it, in the spelling of `normal`; an attribute that is not said is None.

    `start` and `end` are the drug's own span, both 0 for an extractor that gives none; see `Mention` for the role.
    """

    drug: str
    role: Role
    start: int = 0
    end: int = 0
    strength: str | None = None
    dosage: str | None = None
    frequency: str | None = None
    route: str | None = None
    form: str | None = None
    duration: str | None = None


@dataclass(frozen=True)
class Reading:
    """What an extractor read in one note; `entities` and `findings` are empty for one that gives no spans.

    `parsed` says whether its answer could be read, `reply` is the language model's, if one read it.
    """

    note_id: str
    medications: tuple[Medication, ...] = ()
    status: Status = "unknown"
    entities: tuple[Entity, ...] = ()
    findings: tuple[Finding, ...] = ()
    parsed: bool = True
    reply: Reply | None = field(default=None, repr=False)


Extractor = Callable[[Sequence[Text]], list[Reading]]
"""Notes in, one reading for each out."""
Namer = Callable[[list[Doc]], list[list[Span]]]
"""Cleaned documents in; for each the spans that it labels with Med7's labels out."""


# ----------------------------------------------------------------------------------------------- ConText and linking


@lru_cache(maxsize=4)
def pipeline(own_rules: bool = True) -> Language:
    """Sentences, seizure and symptom terms, and ConText, with the rules of `data/clinical_terms.yml` if `own_rules`."""
    terms, nlp = words(TERMS), spacy.blank("en")
    # medspaCy's own sentence splitter takes ten times as long as all the rest, and these notes end a sentence plainly
    nlp.add_pipe("sentencizer", config={"punct_chars": [".", "!", "?", "\n", "\n\n"]})
    matcher: TargetMatcher = nlp.add_pipe("medspacy_target_matcher")
    seizures, symptoms = terms["seizures"], "|".join(map(re.escape, terms["symptoms"]))
    before = rf"(?:\b(?:{'|'.join(seizures['before'])})[ -])*"
    matcher.add(
        [
            TargetRule("seizure", "SEIZURE", pattern=rf"{before}\b(?:{'|'.join(seizures['nouns'])})\b"),
            TargetRule("symptom", "SYMPTOM", pattern=rf"\b(?:{symptoms})\b"),
        ]
    )
    context: ConText = nlp.add_pipe("medspacy_context")
    if own_rules:
        context.add([ConTextRule(literal, category, direction=way) for literal, category, way in terms["context"]])
        family = [{"LOWER": {"IN": terms["relatives"]}}]
        context.add([ConTextRule("relative", "FAMILY", pattern=family, direction="FORWARD")])
    return nlp


_CLASSES: Final[tuple[tuple[str, Context], ...]] = (
    ("HYPOTHETICAL", "hypothetical"),
    ("NEGATED_EXISTENCE", "negated"),
    ("FAMILY", "family"),
    ("HISTORICAL", "historical"),
    ("ALLERGY", "historical"),
)
"""ConText's categories, the first that holds counting: "no driving until free of seizures" tells of no seizure."""


def _categories(span: Span) -> set[str]:
    return {modifier.category for modifier in span._.modifiers}


def context_of(span: Span) -> Context:
    """The ConText class of a span that `pipeline` has seen."""
    categories = _categories(span)
    return next((name for category, name in _CLASSES if category in categories), "affirmed")


def _role(span: Span) -> Role:
    if "ALLERGY" in _categories(span):
        return "allergy"
    context = context_of(span)
    return {"affirmed": "current", "negated": "historical"}.get(context, context)  # type: ignore[return-value]


ATTRIBUTES: Final[dict[str, str]] = {label: label.lower() for label in LABELS if label != "DRUG"}
"""What may be said of a drug: Med7's label -> the attribute of `Medication`."""


def link(doc: Doc, spans: Sequence[Span]) -> list[tuple[Span, dict[str, Any]]]:
    """Each drug of a document with what is said of it in its sentence.

    An attribute goes to the last drug before it, or else to the first one after it. A strength that follows "from" is
    the dose before and is left out. The first attribute of a kind counts.
    """
    drugs: dict[int, list[tuple[Span, dict[str, Any]]]] = {}
    for span in spans:
        if span.label_ == "DRUG":
            drugs.setdefault(span.sent.start, []).append((span, {}))
    for span in spans:
        if span.label_ == "DRUG" or span.sent.start not in drugs:
            continue
        if span.start > 0 and doc[span.start - 1].lower_ == "from" and span.label_ == "STRENGTH":
            continue
        of = drugs[span.sent.start]
        _, attributes = next((d for d in reversed(of) if d[0].start < span.start), of[0])
        label: Any = span.label_
        attributes.setdefault(ATTRIBUTES[label], normal(label, span.text))
    return [pair for of in drugs.values() for pair in of]


def status_of(findings: Iterable[Finding]) -> Status:
    """The paper's seizure status: positive if a seizure is affirmed, negative if one is negated, else unknown."""
    contexts = {finding.context for finding in findings if finding.kind == "seizure"}
    return "positive" if "affirmed" in contexts else "negative" if "negated" in contexts else "unknown"


def reader(namer: Namer, *, own_rules: bool = True) -> Extractor:
    """An extractor whose drugs and attributes `namer` names; the rest is the same for all of them."""
    nlp = pipeline(own_rules)

    def read(notes: Sequence[Text]) -> list[Reading]:
        cleaned = [clean(note.text) for note in notes]
        docs = [_until_context(nlp, c.text) for c in cleaned]
        named = namer(docs)
        return [_read(nlp, *of) for of in zip(notes, cleaned, docs, named, strict=True)]

    return read


def _until_context(nlp: Language, text: str) -> Doc:
    doc = nlp.make_doc(text)
    for name, step in nlp.pipeline:
        if name != "medspacy_context":
            doc = step(doc)
    return doc


def _read(nlp: Language, note: Text, cleaned: Cleaned, doc: Doc, named: Sequence[Span]) -> Reading:
    terms = [span for span in doc.ents if span.label_ in ("SEIZURE", "SYMPTOM")]
    doc.ents = filter_spans([*named, *terms])
    nlp.get_pipe("medspacy_context")(doc)
    spans = [span for span in doc.ents if span.label_ in LABELS]

    def at(span: Span) -> tuple[int, int]:
        return cleaned.original(span.start_char, span.end_char)

    entities = [Entity(*at(s), s.label_, normal(s.label_, s.text)) for s in spans]  # type: ignore[arg-type]
    medications = [
        Medication(generic_name(drug.text), _role(drug), *at(drug), **attributes)
        for drug, attributes in link(doc, spans)
    ]
    findings = tuple(
        Finding(*at(s), "seizure" if s.label_ == "SEIZURE" else "symptom", s.text.lower(), context_of(s))
        for s in doc.ents
        if s.label_ in ("SEIZURE", "SYMPTOM")
    )
    return Reading(note.note_id, tuple(medications), status_of(findings), tuple(entities), findings)


def classify(texts: Sequence[Text], spans: Sequence[tuple[int, int]], *, own_rules: bool = True) -> list[Context]:
    """ConText's class of one given span in each text, whatever finds the spans."""
    nlp = pipeline(own_rules)
    context = nlp.get_pipe("medspacy_context")
    found: list[Context] = []
    for text, (start, end) in zip(texts, spans, strict=True):
        cleaned = clean(text.text)
        doc = nlp.get_pipe("sentencizer")(nlp.make_doc(cleaned.text))
        span = doc.char_span(*cleaned.cleaned(start, end), label="SEIZURE", alignment_mode="expand")
        doc.ents = [span] if span else []
        context(doc)
        found.append(context_of(doc.ents[0]))
    return found
