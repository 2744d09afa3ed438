"""Reads medications and seizures out of a note (clinical_notes.md, "NLP libraries and extraction").

Rules or Med7 name the drugs and what belongs to them. medspaCy's ConText says of every drug,
seizure and symptom whether it is negated, historical, hypothetical or of the family. An attribute
is linked to a drug by its place in the sentence. In `llm_reading` an LLM reads the full note
instead.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, get_args

import spacy
from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from helpers.completions import Reply
from papers.clinical_notes.cleaning import (
    GROUPS,
    TERMS,
    Cleaned,
    abbreviations,
    aliases,
    clean,
    generic_name,
    normal,
)
from papers.clinical_notes.gold import LABELS, Context, Label, Note, Role
from papers.clinical_notes.medspacy_parts import (
    ConText,
    ConTextRule,
    TargetMatcher,
    TargetRule,
)
from papers.clinical_notes.sections import SECTIONS, section_class
from papers.clinical_notes.wording import words

Status = Literal["positive", "negative", "unknown"]
STATUSES: Final[tuple[Status, ...]] = get_args(Status)
"""The paper's seizure statuses."""


class Finding(NamedTuple):
    """A seizure or a symptom that a note names, and its ConText class."""

    kind: Literal["seizure", "symptom"]
    term: str
    context: Context

    @property
    def is_ictal(self) -> bool:
        """Whether it is a symptom of the patient's seizures."""
        is_symptom = self.kind == "symptom" and self.context == "affirmed"
        return is_symptom and self.term in words(TERMS)["symptoms"]["ictal"]


@dataclass(frozen=True)
class Medication:
    """A drug with its attributes, in the spelling of `normal`; one that is not stated is None.

    Attributes:
        drug: Generic name.
        role: See `Mention`.
        start: First character of the drug in the note; 0 if the extractor gives no places.
        end: Last character in the note, plus one; 0 if the extractor gives no places.
        strength: Amount in one unit of the form.
        dosage: Units of the form.
        frequency: Times a day.
        route: How it enters the body.
        form: Tablet, capsule and so on.
        duration: How long it is taken.
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
    """What an extractor read in one note.

    Attributes:
        note_id: The note.
        medications: The drugs that the note names.
        status: The seizure status.
        spans: Label, start and end of each span in the note as it stands, not cleaned; empty
            for an extractor that gives no spans.
        findings: Seizures and symptoms.
        parsed: Whether the extractor's reply could be read.
        reply: The LLM's reply, if an LLM read the note.
    """

    note_id: str
    medications: tuple[Medication, ...] = ()
    status: Status = "unknown"
    spans: tuple[tuple[str, int, int], ...] = ()
    findings: tuple[Finding, ...] = ()
    parsed: bool = True
    reply: Reply | None = field(default=None, repr=False)


Extractor = Callable[[Sequence[Note]], list[Reading]]
"""Reads notes; returns one reading for each."""
Namer = Callable[[list[Doc]], list[list[Span]]]
"""Labels cleaned documents; returns for each the spans with Med7's labels."""

MIN_FUZZY_NAME, MIN_FUZZY_WORD = 6, 7
"""Shortest name, and shortest word of a note, that are compared with one error allowed."""


def _drug_rules() -> list[TargetRule]:
    """Rules for the names of the drug dictionary; an abbreviation must stand in capitals."""
    short = abbreviations()
    names = [name for name in sorted(aliases()) if name.upper() not in short]
    rules = [TargetRule(name, "DRUG") for name in names]
    for name in sorted(short):
        rules.append(TargetRule(name, "DRUG", pattern=[{"TEXT": name}]))
    return rules


def _attribute_rules() -> list[TargetRule]:
    """Rules for what belongs to a drug, by the patterns of `data/clinical_terms.yml`."""
    terms = words(TERMS)
    rules = []
    for label, group in GROUPS.items():
        alternatives = "|".join(f"(?:{pattern})" for pattern, _ in terms[group])
        rules.append(TargetRule(label, label, pattern=rf"\b(?:{alternatives})\b"))
    rules.append(TargetRule("STRENGTH", "STRENGTH", pattern=rf"\b{terms['strengths']}\b"))
    rules.append(TargetRule("DOSAGE", "DOSAGE", pattern=terms["dosages"]))
    rules.append(TargetRule("DURATION", "DURATION", pattern=rf"{terms['durations']}\b"))
    return rules


class RuleNamer:
    """medspaCy's target rules: the drug dictionary, and patterns for what belongs to a drug.

    One letter may be wrong in a drug's name of seven letters or more. Doses and times count only
    in sentences with a drug.
    """

    def __init__(self) -> None:
        """Load the rules."""
        self._nlp = spacy.blank("en")
        self._matcher = TargetMatcher(self._nlp, rules=None)
        self._matcher.add(_drug_rules() + _attribute_rules())
        self._long_names = []
        for name in sorted(aliases()):
            if len(name) >= MIN_FUZZY_NAME and " " not in name:
                self._long_names.append(name)

    def __call__(self, docs: list[Doc]) -> list[list[Span]]:
        """Label each document."""
        return [self._label(doc) for doc in docs]

    def _label(self, doc: Doc) -> list[Span]:
        matched = self._matched(doc)
        spans = [span for span in matched if not _is_other_word(span, matched)]
        spans += self._misspelt_drugs(doc, spans)
        sentences_with_drug = {span.sent.start for span in spans if span.label_ == "DRUG"}
        return [span for span in spans if span.sent.start in sentences_with_drug]

    def _matched(self, doc: Doc) -> list[Span]:
        """What the rules find."""
        # a copy, because the matcher overwrites the entities of its document
        texts = [token.text for token in doc]
        spaces = [bool(token.whitespace_) for token in doc]
        copy = Doc(self._nlp.vocab, words=texts, spaces=spaces)
        matches = self._matcher(copy).ents
        return [Span(doc, match.start, match.end, label=match.label_) for match in matches]

    def _misspelt_drugs(self, doc: Doc, spans: Sequence[Span]) -> list[Span]:
        """Words outside the spans that are a drug's name but for one letter."""
        labelled: set[int] = set()
        for span in spans:
            labelled.update(range(span.start, span.end))
        drugs = []
        for token in doc:
            if token.i not in labelled and self._is_misspelt_drug(token.lower_):
                drugs.append(Span(doc, token.i, token.i + 1, label="DRUG"))
        return drugs

    def _is_misspelt_drug(self, word: str) -> bool:
        if len(word) < MIN_FUZZY_WORD or not word.isalpha():
            return False
        match = process.extractOne(
            word, self._long_names, scorer=DamerauLevenshtein.distance, score_cutoff=1
        )
        return match is not None


def _is_other_word(span: Span, spans: Sequence[Span]) -> bool:
    """Whether PER or IN is no abbreviation but a word among others in capitals."""
    doc = span.doc
    if span.text not in words(TERMS)["words_in_capitals"] or span.end == len(doc):
        return False
    following = doc[span.end]
    if not following.is_alpha or not following.is_upper:
        return False
    return all(other.start != span.end for other in spans)


@dataclass(frozen=True)
class ModelNamer:
    """A trained spaCy model, as Med7 is, labels the documents."""

    nlp: Language

    def __call__(self, docs: list[Doc]) -> list[list[Span]]:
        """Label each document."""
        texts = [doc.text for doc in docs]
        labelled = []
        for doc, result in zip(docs, self.nlp.pipe(texts, batch_size=32), strict=True):
            spans = []
            for entity in result.ents:
                start, end = entity.start_char, entity.end_char
                span = doc.char_span(start, end, entity.label_, alignment_mode="expand")
                if span is not None and span.label_ in LABELS:
                    spans.append(span)
            labelled.append(filter_spans(spans))
        return labelled


def load_med7(package: str) -> tuple[Language | None, str]:
    """Load Med7 (kormilitzin on Hugging Face) if it is installed.

    Args:
        package: Name of the model's package, such as ``en_core_med7_lg``.

    Returns:
        The model with its version, or None with the reason and what to do.
    """
    wheel = f"{package}/resolve/main/{package}-any-py3-none-any.whl"
    link = f"https://huggingface.co/kormilitzin/{wheel}"
    if not spacy.util.is_package(package):
        reason = f"{package} is not installed."
        return None, f"{reason} Where Hugging Face is reachable: pip install {link}"
    try:
        return spacy.load(package), f"{package} {spacy.util.get_package_version(package)}"
    except Exception as error:  # a model of another spaCy fails in many ways
        problem = " ".join(str(error).split())[:120]
        hint = (
            "It may need an older spaCy (en_core_med7_trf: below 3.5), and so an environment of "
            "its own."
        )
        return None, f"{package} cannot be loaded by spaCy {spacy.__version__} ({problem}). {hint}"


def symptom_terms() -> list[str]:
    """Return the symptoms that the rules know, the longest first."""
    groups = words(TERMS)["symptoms"]
    return sorted([*groups["ictal"], *groups["other"]], key=len, reverse=True)


def _finding_rules() -> list[TargetRule]:
    """Rules for the terms of seizures and symptoms."""
    terms = words(TERMS)
    seizures = terms["seizures"]
    before = rf"(?:\b(?:{'|'.join(seizures['before'])})[ -])*"
    not_after = "".join(f"(?<!{word})" for word in seizures["not_after"])
    nouns = "|".join(seizures["nouns"])
    not_before = "|".join(seizures["not_before"])
    symptoms = "|".join(map(re.escape, symptom_terms()))
    return [
        TargetRule(
            "seizure",
            "SEIZURE",
            pattern=rf"{before}\b{not_after}(?:{nouns})\b(?![ -](?:{not_before})\b)",
        ),
        TargetRule("symptom", "SYMPTOM", pattern=rf"\b(?:{symptoms})\b"),
    ]


def _context_rules(default_rules: str) -> list[ConTextRule]:
    """The rules for ConText: medspaCy's, but for a few, and the project's own."""
    terms = words(TERMS)
    left_out = terms["context_left_out"]
    default = ConTextRule.from_json(default_rules)
    rules = [rule for rule in default if rule.literal not in left_out]
    for literal, category, direction in terms["context"]:
        rules.append(ConTextRule(literal, category, direction=direction))
    denied = terms["denied_before"]
    rules.append(ConTextRule("deny", "NEGATED_EXISTENCE", pattern=denied, direction="FORWARD"))
    for name, pattern in terms["denied_behind"].items():
        rules.append(
            ConTextRule(
                name,
                "NEGATED_EXISTENCE",
                pattern=pattern,
                direction="BACKWARD",
                allowed_types={"SEIZURE", "SYMPTOM"},
                on_modifies=_is_denied_label,
            )
        )
    since = terms["since_in_question"]
    rules.append(ConTextRule("since in a question", "PSEUDO", pattern=since, direction="PSEUDO"))
    relatives = [{"LOWER": {"IN": terms["relatives"]}}]
    rules.append(ConTextRule("relative", "FAMILY", pattern=relatives, direction="FORWARD"))
    return rules


def _is_denied_label(target: Span, modifier: Span, between: Span) -> bool:
    """Whether what stands behind a term is about it, and about no other label in between."""
    return ":" not in target.doc[target.end : modifier.start].text


@lru_cache(maxsize=2)
def pipeline(own_rules: bool = True) -> Language:
    """Build the pipeline: sentences, terms of seizures and symptoms, and ConText.

    Args:
        own_rules: Whether ConText has the rules of `data/clinical_terms.yml` too.
    """
    nlp = spacy.blank("en")
    # medspaCy's own splitter takes ten times as long as all the rest, and joins lines of a list
    nlp.add_pipe("sentencizer", config={"punct_chars": [".", "!", "?"]})
    nlp.add_pipe(SECTIONS)
    matcher: TargetMatcher = nlp.add_pipe("medspacy_target_matcher")
    matcher.add(_finding_rules())
    own = {"rules": None} if own_rules else {}
    context: ConText = nlp.add_pipe("medspacy_context", config=own)
    if own_rules:
        context.add(_context_rules(context.DEFAULT_RULES_FILEPATH))
    return nlp


_CLASSES: Final[dict[str, Context]] = {
    "HYPOTHETICAL": "hypothetical",
    "NEGATED_EXISTENCE": "negated",
    "FAMILY": "family",
    "HISTORICAL": "historical",
    "ALLERGY": "historical",
}
"""ConText's categories; the first that holds counts.

"No driving until free of seizures" is hypothetical, not negated.
"""


def _categories(span: Span) -> set[str]:
    """The classes that a span has from its modifiers and from its section."""
    categories = {modifier.category for modifier in span._.modifiers}
    from_section = section_class(span)
    return categories | {from_section} if from_section else categories


def context_of(span: Span) -> Context:
    """Return the ConText class of a span that `pipeline` has seen."""
    categories = _categories(span)
    for category, context in _CLASSES.items():
        if category in categories:
            return context
    return "affirmed"


def _role(span: Span) -> Role:
    """The role of a drug by its ConText class."""
    if "ALLERGY" in _categories(span):
        return "allergy"
    context = context_of(span)
    if context == "affirmed":
        return "current"
    if context == "negated":
        return "historical"
    return context


ATTRIBUTES: Final[dict[Label, str]] = {label: label.lower() for label in LABELS if label != "DRUG"}
"""Med7's label -> the attribute of `Medication`."""


@dataclass(frozen=True)
class LinkedDrug:
    """A drug of a document, and its attributes by name."""

    span: Span
    attributes: dict[str, Any] = field(default_factory=dict)


def link_attributes(doc: Doc, spans: Sequence[Span]) -> list[LinkedDrug]:
    """Link each attribute to a drug of its sentence.

    An attribute belongs to the last drug before it, or else to the first one after it. Where that
    drug has one of its kind already, it belongs to the drug right behind it: "Keppra 500 mg, 10 mg
    clobazam". A strength that follows "from" is the dose before a change and is left out. The first
    attribute of a kind counts.

    Args:
        doc: The document.
        spans: Its labelled spans, in order of place.

    Returns:
        The drugs, by sentence.
    """
    drugs: dict[int, list[LinkedDrug]] = {}
    for span in spans:
        if span.label_ == "DRUG":
            drugs.setdefault(span.sent.start, []).append(LinkedDrug(span))
    for span in spans:
        candidates = drugs.get(span.sent.start)
        if not candidates or span.label_ == "DRUG" or _is_old_dose(doc, span):
            continue
        label: Any = span.label_
        drug = _owner(span, candidates, ATTRIBUTES[label])
        drug.attributes.setdefault(ATTRIBUTES[label], normal(label, span.text))
    linked = []
    for candidates in drugs.values():
        linked.extend(candidates)
    return linked


def _is_old_dose(doc: Doc, span: Span) -> bool:
    if span.label_ != "STRENGTH" or span.start == 0:
        return False
    return bool(doc[span.start - 1].lower_ == "from")


def _owner(span: Span, candidates: Sequence[LinkedDrug], attribute: str) -> LinkedDrug:
    """The drug of a sentence that an attribute belongs to."""
    before = [drug for drug in candidates if drug.span.start < span.start]
    if not before:
        return candidates[0]
    last = before[-1]
    if attribute in last.attributes and len(before) < len(candidates):
        following = candidates[len(before)]
        if following.span.start == span.end:
            return following
    return last


def status_of(findings: Iterable[Finding]) -> Status:
    """Return the paper's seizure status.

    It is positive if a seizure is affirmed, else negative if one is negated, else unknown.
    """
    contexts = {finding.context for finding in findings if finding.kind == "seizure"}
    if "affirmed" in contexts:
        return "positive"
    return "negative" if "negated" in contexts else "unknown"


@dataclass(frozen=True)
class Reader:
    """An extractor; all are alike but for what names the drugs and their attributes.

    Attributes:
        namer: Labels the documents.
        own_rules: Whether ConText has the rules of `data/clinical_terms.yml` too.
    """

    namer: Namer
    own_rules: bool = True

    def __call__(self, notes: Sequence[Note]) -> list[Reading]:
        """Read each note."""
        nlp = pipeline(self.own_rules)
        cleaned = [clean(note.text) for note in notes]
        # ConText comes last, when the drugs have their labels too
        with nlp.select_pipes(disable="medspacy_context"):
            docs = [nlp(text.text) for text in cleaned]
        add_context = nlp.get_pipe("medspacy_context")
        readings = []
        for note, text, doc, spans in zip(notes, cleaned, docs, self.namer(docs), strict=True):
            terms = [span for span in doc.ents if span.label_ in ("SEIZURE", "SYMPTOM")]
            doc.ents = filter_spans([*spans, *terms])
            add_context(doc)
            readings.append(_reading(note, text, doc))
        return readings


def _reading(note: Note, cleaned: Cleaned, doc: Doc) -> Reading:
    """The reading of a labelled document; places are those of the note as it stands."""
    places = {}
    findings = []
    for span in doc.ents:
        if span.label_ in LABELS:
            places[span] = cleaned.original(span.start_char, span.end_char)
        else:
            kind: Any = span.label_.lower()
            findings.append(Finding(kind, span.text.lower(), context_of(span)))
    medications = []
    for drug in link_attributes(doc, [*places]):
        start, end = places[drug.span]
        name = generic_name(drug.span.text)
        medications.append(Medication(name, _role(drug.span), start, end, **drug.attributes))
    labelled = [(span.label_, *place) for span, place in places.items()]
    return Reading(
        note.note_id,
        medications=tuple(medications),
        status=status_of(findings),
        spans=tuple(labelled),
        findings=tuple(findings),
    )


def classify_spans(
    texts: Sequence[str], spans: Sequence[tuple[int, int]], *, own_rules: bool = True
) -> list[Context]:
    """Classify one span in each text by ConText.

    Args:
        texts: The texts as they stand.
        spans: First character, and last character plus one, of the span in each text.
        own_rules: Whether ConText has the rules of `data/clinical_terms.yml` too.

    Returns:
        One class for each span.
    """
    nlp = pipeline(own_rules)
    split_sentences = nlp.get_pipe("sentencizer")
    find_sections = nlp.get_pipe(SECTIONS)
    add_context = nlp.get_pipe("medspacy_context")
    contexts: list[Context] = []
    for text, (start, end) in zip(texts, spans, strict=True):
        cleaned = clean(text)
        doc = find_sections(split_sentences(nlp.make_doc(cleaned.text)))
        first, last = cleaned.cleaned(start, end)
        span = doc.char_span(first, last, label="SEIZURE", alignment_mode="expand")
        doc.ents = [span] if span else []
        add_context(doc)
        contexts.append(context_of(doc.ents[0]))
    return contexts
