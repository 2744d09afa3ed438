"""Reads medications and seizures out of a note (clinical_notes.md, "NLP libraries and extraction").

Rules or Med7 name the drugs and what belongs to them. medspaCy's ConText says of every drug, seizure and symptom
whether it is negated, historical, hypothetical or of the family, and what is said of a drug is linked to it by where it
stands. A language model reads a note as a whole instead (`llm_reading`).
"""

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

import spacy
from loguru import logger as _loguru
from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.util import filter_spans

from helpers.completions import Reply
from papers.clinical_notes.cleaning import (
    GROUPS,
    TERMS,
    abbreviations,
    aliases,
    clean,
    generic_name,
    normal,
)
from papers.clinical_notes.gold import LABELS, Context, Label, Note, Role
from papers.clinical_notes.wording import words
from rag.prompts import arm_of

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


class Finding(NamedTuple):
    """What names a seizure or a symptom, and its ConText class."""

    kind: Literal["seizure", "symptom"]
    term: str
    context: Context


@dataclass(frozen=True)
class Medication:
    """A drug with what a passage says of it, in the spelling of `normal`; an attribute that is not said is None.

    `start` and `end` are the drug's place in the note, both 0 for an extractor that gives none; role: see `Mention`.
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

    `spans` are labels with places in the note as it stands, not cleaned; none of an extractor that gives none. `parsed`
    says whether its answer could be read, `reply` is the language model's, if one read it.
    """

    note_id: str
    medications: tuple[Medication, ...] = ()
    status: Status = "unknown"
    spans: tuple[tuple[str, int, int], ...] = ()
    findings: tuple[Finding, ...] = ()
    parsed: bool = True
    reply: Reply | None = field(default=None, repr=False)


Extractor = Callable[[Sequence[Note]], list[Reading]]
"""Notes in, one reading for each out."""
Namer = Callable[[list[Doc]], list[list[Span]]]
"""Cleaned documents in; for each the spans that it labels with Med7's labels out."""


def by_rules() -> Namer:
    """medspaCy's target rules: the project's drug dictionary, and patterns for what belongs to a drug.

    One letter may be wrong in a drug's name of seven letters or more. Doses and times count in sentences with a drug.
    """
    terms, nlp = words(TERMS), spacy.blank("en")
    matcher = TargetMatcher(nlp, rules=None)
    known, short = sorted(aliases()), abbreviations()
    rules = [TargetRule(name, "DRUG") for name in known if name.upper() not in short]
    rules += [TargetRule(name, "DRUG", pattern=[{"TEXT": name}]) for name in sorted(short)]
    for label, group in GROUPS.items():
        either = "|".join(f"(?:{pattern})" for pattern, _ in terms[group])
        rules.append(TargetRule(label, label, pattern=rf"\b(?:{either})\b"))
    rules.append(TargetRule("STRENGTH", "STRENGTH", pattern=rf"\b{terms['strengths']}\b"))
    rules.append(TargetRule("DOSAGE", "DOSAGE", pattern=terms["dosages"]))
    rules.append(TargetRule("DURATION", "DURATION", pattern=rf"{terms['durations']}\b"))
    matcher.add(rules)
    long_names = [name for name in known if len(name) >= 6 and " " not in name]

    def misspelt(word: str) -> bool:
        near = process.extractOne(
            word, long_names, scorer=DamerauLevenshtein.distance, score_cutoff=1
        )
        return len(word) >= 7 and word.isalpha() and near is not None

    def name(docs: list[Doc]) -> list[list[Span]]:
        out = []
        for doc in docs:
            # a copy, because the matcher writes the entities of the document that it is given
            own = Doc(
                nlp.vocab, words=[t.text for t in doc], spaces=[bool(t.whitespace_) for t in doc]
            )
            spans = [Span(doc, s.start, s.end, label=s.label_) for s in matcher(own).ents]
            taken = {i for s in spans for i in range(s.start, s.end)}
            spans += [
                Span(doc, t.i, t.i + 1, label="DRUG")
                for t in doc
                if t.i not in taken and misspelt(t.lower_)
            ]
            with_drug = {s.sent.start for s in spans if s.label_ == "DRUG"}
            out.append([s for s in spans if s.sent.start in with_drug])
        return out

    return name


@arm_of
def by_model(docs: list[Doc], nlp: Language) -> list[list[Span]]:
    """A trained spaCy model, as Med7 is."""
    out = []
    for doc, found in zip(docs, nlp.pipe((doc.text for doc in docs), batch_size=32), strict=True):
        spans = [
            doc.char_span(e.start_char, e.end_char, e.label_, alignment_mode="expand")
            for e in found.ents
        ]
        out.append(filter_spans([s for s in spans if s is not None and s.label_ in LABELS]))
    return out


def med7(package: str) -> tuple[Language | None, str]:
    """Med7 (kormilitzin on Hugging Face) if it is installed and loads, or else why not and what to do."""
    link = (
        f"https://huggingface.co/kormilitzin/{package}/resolve/main/{package}-any-py3-none-any.whl"
    )
    if not spacy.util.is_package(package):
        return (
            None,
            f"{package} is not installed. Where Hugging Face is reachable: pip install {link}",
        )
    try:
        return spacy.load(package), f"{package} {spacy.util.get_package_version(package)}"
    except Exception as error:  # a model of another spaCy fails in many ways
        problem = " ".join(str(error).split())[:120]
        needs = "It may need an older spaCy (en_core_med7_trf: below 3.5), and so an environment of its own."
        return None, f"{package} cannot be loaded by spaCy {spacy.__version__} ({problem}). {needs}"


@lru_cache(maxsize=2)
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
            TargetRule(
                "seizure", "SEIZURE", pattern=rf"{before}\b(?:{'|'.join(seizures['nouns'])})\b"
            ),
            TargetRule("symptom", "SYMPTOM", pattern=rf"\b(?:{symptoms})\b"),
        ]
    )
    context: ConText = nlp.add_pipe("medspacy_context")
    if own_rules:
        context.add(
            [
                ConTextRule(literal, category, direction=way)
                for literal, category, way in terms["context"]
            ]
        )
        family = [{"LOWER": {"IN": terms["relatives"]}}]
        context.add([ConTextRule("relative", "FAMILY", pattern=family, direction="FORWARD")])
    return nlp


_CLASSES: Final[dict[str, Context]] = {
    "HYPOTHETICAL": "hypothetical",
    "NEGATED_EXISTENCE": "negated",
    "FAMILY": "family",
    "HISTORICAL": "historical",
    "ALLERGY": "historical",
}
"""ConText's categories, the first that holds counting: "no driving until free of seizures" tells of no seizure."""


def _categories(span: Span) -> set[str]:
    return {modifier.category for modifier in span._.modifiers}


def context_of(span: Span) -> Context:
    """The ConText class of a span that `pipeline` has seen."""
    categories = _categories(span)
    return next((name for category, name in _CLASSES.items() if category in categories), "affirmed")


def _role(span: Span) -> Role:
    if "ALLERGY" in _categories(span):
        return "allergy"
    context = context_of(span)
    return {"affirmed": "current", "negated": "historical"}.get(context, context)  # type: ignore[return-value]


ATTRIBUTES: Final[dict[Label, str]] = {label: label.lower() for label in LABELS if label != "DRUG"}
"""What may be said of a drug: Med7's label -> the attribute of `Medication`."""


def link(doc: Doc, spans: Sequence[Span]) -> list[tuple[Span, dict[str, Any]]]:
    """Each drug of a document with its attributes in the sentence.

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
    return (
        "positive" if "affirmed" in contexts else "negative" if "negated" in contexts else "unknown"
    )


@arm_of
def reader(notes: Sequence[Note], namer: Namer, *, own_rules: bool = True) -> list[Reading]:
    """An extractor whose drugs and attributes `namer` names; the rest is the same for all of them."""
    nlp = pipeline(own_rules)
    cleaned = [clean(note.text) for note in notes]
    # ConText comes last, when the drugs are named too
    with nlp.select_pipes(disable="medspacy_context"):
        docs = [nlp(of.text) for of in cleaned]
    readings = []
    for note, of, doc, named in zip(notes, cleaned, docs, namer(docs), strict=True):
        doc.ents = filter_spans(
            [*named, *[span for span in doc.ents if span.label_ in ("SEIZURE", "SYMPTOM")]]
        )
        nlp.get_pipe("medspacy_context")(doc)
        spans = {s: of.original(s.start_char, s.end_char) for s in doc.ents if s.label_ in LABELS}
        medications = tuple(
            Medication(generic_name(drug.text), _role(drug), *spans[drug], **attributes)
            for drug, attributes in link(doc, [*spans])
        )
        findings = tuple(
            Finding(
                "seizure" if s.label_ == "SEIZURE" else "symptom", s.text.lower(), context_of(s)
            )
            for s in doc.ents
            if s not in spans
        )
        labelled = tuple((span.label_, *place) for span, place in spans.items())
        readings.append(Reading(note.note_id, medications, status_of(findings), labelled, findings))
    return readings


def classify(
    texts: Sequence[str], spans: Sequence[tuple[int, int]], *, own_rules: bool = True
) -> list[Context]:
    """ConText's class of one given span in each text, whatever finds the spans."""
    nlp = pipeline(own_rules)
    found: list[Context] = []
    for text, (start, end) in zip(texts, spans, strict=True):
        cleaned = clean(text)
        doc = nlp.get_pipe("sentencizer")(nlp.make_doc(cleaned.text))
        span = doc.char_span(*cleaned.cleaned(start, end), label="SEIZURE", alignment_mode="expand")
        doc.ents = [span] if span else []
        nlp.get_pipe("medspacy_context")(doc)
        found.append(context_of(doc.ents[0]))
    return found
