"""Reads medications and seizures out of a note (clinical_notes.md, "NLP libraries and extraction").

A note is cleaned first. Then somebody names the drugs and what belongs to them: medspaCy's rules with a drug
dictionary, a small spaCy model trained on synthetic notes, Med7 where it is installed, or a language model that answers
in JSON. For the first three, medspaCy's ConText says of every drug, seizure and symptom whether it is negated,
historical, hypothetical or of the family, and what is said of a drug is linked to it by where it stands.

Positions are always those of the note as it stands in the chart, not of the cleaned text.
"""

from __future__ import annotations

import json
import random
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import spacy
from loguru import logger as _loguru
from rapidfuzz.distance import DamerauLevenshtein
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans, fix_random_seed, minibatch
from tqdm import tqdm

from helpers.llm import LLM
from helpers.settings import DATA
from papers.clinical_notes.charts import CONTEXTS, LABELS, Chart, Context, Label, Role
from papers.clinical_notes.wording import DRUGS, words

# medspaCy logs each rule it loads; nothing of a note may reach a log either
_loguru.disable("medspacy")
_loguru.disable("PyRuSH")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from medspacy.context import ConText, ConTextRule
    from medspacy.target_matcher import TargetMatcher, TargetRule
# a matcher whose rules are all regular expressions has no token patterns, and needs none
warnings.filterwarnings("ignore", message=r"\[W036\]")

TERMS: Final = DATA / "clinical_terms.yml"
LEARN_RATE: Final = 0.003
"""Of the training: three times the library's own, because there are few notes."""
CONTEXT_LIMIT: Final = 150
"""Characters to either side of a mention that `extraction_context` keeps."""
Status = Literal["positive", "negative", "unknown"]


# ------------------------------------------------------------------------------------------------------- cleaning


@dataclass(frozen=True)
class Cleaned:
    """A cleaned text, and where each of its characters stood.

    Attributes:
        text: the cleaned text.
        starts, ends: for each character of it, first and last + 1 character of the original that it stands for.
    """

    text: str
    starts: tuple[int, ...]
    ends: tuple[int, ...]

    def original(self, start: int, end: int) -> tuple[int, int]:
        """A span of the cleaned text, as a span of the original.

        Raises:
            ValueError: the span is empty or outside of the text.
        """
        if not 0 <= start < end <= len(self.text):
            raise ValueError(f"A span within 0 and {len(self.text)} is needed; found {start} to {end}.")
        return self.starts[start], self.ends[end - 1]

    def cleaned(self, start: int, end: int) -> tuple[int, int]:
        """A span of the original, as the span of the cleaned text that stands for it; empty if nothing does."""
        inside = [i for i, (s, e) in enumerate(zip(self.starts, self.ends, strict=True)) if s < end and e > start]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)


_CHARACTERS: Final = {
    "\N{NO-BREAK SPACE}": " ",
    "\N{NARROW NO-BREAK SPACE}": " ",
    "\N{EN DASH}": "-",
    "\N{EM DASH}": "-",
    "\N{NON-BREAKING HYPHEN}": "-",
    "\N{LEFT SINGLE QUOTATION MARK}": "'",
    "\N{RIGHT SINGLE QUOTATION MARK}": "'",
    "\N{LEFT DOUBLE QUOTATION MARK}": '"',
    "\N{RIGHT DOUBLE QUOTATION MARK}": '"',
    "\N{MICRO SIGN}": "\N{GREEK SMALL LETTER MU}",
    "\N{ZERO WIDTH SPACE}": "",
    "\r": "",
}
REDACTED: Final = "[REDACTED]"


@lru_cache
def _cleaner() -> re.Pattern[str]:
    terms = words(TERMS)
    hidden = "|".join([*terms["redactions"], *terms["identifiers"]])
    short = "|".join(re.escape(a) for a in sorted(terms["abbreviations"], key=len, reverse=True))
    odd = "|".join(map(re.escape, _CHARACTERS))
    return re.compile(rf"(?P<hidden>{hidden})|(?P<short>(?<![\w/.])(?i:{short})(?![\w/]))|(?P<odd>{odd})")


@lru_cache(maxsize=2048)
def clean(text: str) -> Cleaned:
    """Redactions and numbers of records and telephones to one mark, odd characters to plain ones, short forms in full.

    An abbreviation that began with a capital letter keeps one.
    """
    short = words(TERMS)["abbreviations"]
    out, starts, ends, at = "", [], [], 0

    def put(new: str, first: int, last: int) -> None:
        nonlocal out
        out += new
        starts.extend([first] * len(new))
        ends.extend([last] * len(new))

    for found in _cleaner().finditer(text):
        for i in range(at, found.start()):
            put(text[i], i, i + 1)
        old = found[0]
        if found["hidden"]:
            new = REDACTED
        elif found["short"]:
            new = str(short[old.lower()])
            new = new[0].upper() + new[1:] if old[0].isupper() else new
        else:
            new = _CHARACTERS[old]
        put(new, found.start(), found.end())
        at = found.end()
    for i in range(at, len(text)):
        put(text[i], i, i + 1)
    return Cleaned(out, tuple(starts), tuple(ends))


# ------------------------------------------------------------------------------------------- one spelling for each


@lru_cache
def aliases() -> dict[str, str]:
    """Generic name by every name that the drug dictionary has, in lower case."""
    lists = words(DRUGS)
    found = {}
    for group in ("antiseizure", "rescue", "other"):
        for generic, names in lists[group].items():
            for name in (generic, *(n for kind in ("brands", "abbreviations", "other") for n in names.get(kind, []))):
                found[name.lower()] = generic
    return found


@lru_cache(maxsize=4096)
def generic_name(name: str, slips: int = 1) -> str:
    """The generic name for a drug's name as written; the name itself, in lower case, if the dictionary lacks it.

    Args:
        name: as written.
        slips: letters that may be wrong in a name of seven letters or more.
    """
    known, typed = aliases(), " ".join(name.lower().split())
    if typed in known:
        return known[typed]
    if slips and len(typed) >= 7:
        near = [a for a in known if len(a) >= 6 and DamerauLevenshtein.distance(typed, a, score_cutoff=slips) <= slips]
        if near:
            return known[min(near)]
    return typed


def milligrams(text: str) -> float | None:
    """A strength in mg: `500 mg`, `1,500 mg`, `0.5 g`; None if it is none."""
    found = re.search(r"(\d[\d,]*(?:\.\d+)?|\.\d+)\s*(mgs?|g|grams?|mcg)\b", text, re.IGNORECASE)
    if not found:
        return None
    factor = {"g": 1000.0, "m": 1.0}[found[2][0].lower()] if found[2].lower() != "mcg" else 0.001
    return float(found[1].replace(",", "")) * factor


@lru_cache
def _terms(group: str) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(rf"(?:{pattern})", re.IGNORECASE), str(value)) for pattern, value in words(TERMS)[group]]


def _canonical(group: str, text: str) -> str:
    return next((value for pattern, value in _terms(group) if pattern.fullmatch(text)), text.lower())


def normal(label: Label, text: str) -> str:
    """What an entity stands for, in one spelling, so that two extractors and the gold can be compared."""
    text = " ".join(text.split())
    if label == "DRUG":
        return generic_name(text)
    if label == "STRENGTH":
        mg = milligrams(text)
        return text.lower() if mg is None else f"{mg:g} mg"
    if label == "DOSAGE":
        return {"one": "1", "two": "2", "three": "3"}.get(text.lower(), text.lower())
    group = {"FREQUENCY": "frequencies", "ROUTE": "routes", "FORM": "forms"}.get(label)
    return _canonical(group, text) if group else text.lower()


# ------------------------------------------------------------------------------------------------------- readings


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
    """A drug with what a passage says of it; an attribute that is not said is None.

    Attributes:
        drug: generic name.
        role: see `Mention`.
        start, end: the drug's own span; both 0 for an extractor that gives none.
        strength, dosage, frequency, route, form, duration: in one spelling, as `normal` gives it.
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
        note_id: the note.
        medications: drugs with their attributes.
        status: the seizure status of the note.
        entities: spans with Med7's labels; empty for an extractor that gives none.
        findings: seizures and symptoms with their context; empty likewise.
        parsed: whether the extractor's answer could be read.
    """

    note_id: str
    medications: tuple[Medication, ...] = ()
    status: Status = "unknown"
    entities: tuple[Entity, ...] = ()
    findings: tuple[Finding, ...] = ()
    parsed: bool = True


Extractor = Callable[[Sequence[Text]], list[Reading]]
"""Notes in, one reading for each out."""
Namer = Callable[[list[Doc]], list[list[Span]]]
"""Cleaned documents in; for each the spans that it labels with Med7's labels out."""


# --------------------------------------------------------------------------------------------- ConText and linking


@lru_cache
def _seizure_pattern() -> str:
    terms = words(TERMS)["seizures"]
    before = "|".join(terms["before"])
    return rf"(?:\b(?:{before})[ -])*\b(?:{'|'.join(terms['nouns'])})\b"


@lru_cache(maxsize=4)
def pipeline(own_rules: bool = True) -> Language:
    """Sentences, the seizure and symptom terms, and ConText.

    Args:
        own_rules: add the ConText rules of `data/clinical_terms.yml` to those that medspaCy comes with.
    """
    terms, nlp = words(TERMS), spacy.blank("en")
    # medspaCy's own sentence splitter takes ten times as long as all the rest, and these notes end a sentence plainly
    nlp.add_pipe("sentencizer", config={"punct_chars": [".", "!", "?", "\n", "\n\n"]})
    matcher: TargetMatcher = nlp.add_pipe("medspacy_target_matcher")
    symptoms = "|".join(map(re.escape, terms["symptoms"]))
    matcher.add(
        [
            TargetRule("seizure", "SEIZURE", pattern=_seizure_pattern()),
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


_ATTRIBUTES: Final[dict[str, str]] = {label: label.lower() for label in LABELS if label != "DRUG"}


def link(doc: Doc, spans: Sequence[Span]) -> list[tuple[Span, dict[str, Any]]]:
    """Each drug of a document with what is said of it in its sentence.

    An attribute goes to the last drug before it, or to the first one after it if there is none before. A strength that
    follows "from" is the dose before and is left out. The first attribute of a kind counts.
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
        attributes.setdefault(_ATTRIBUTES[label], normal(label, span.text))
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


# ------------------------------------------------------------------------------------------------ rules, dictionary


def by_rules(*, slips: int = 1, drugs: Iterable[str] | None = None, anywhere: bool = False) -> Namer:
    """medspaCy's target rules: the drug dictionary, and patterns for what belongs to a drug.

    Args:
        slips: letters that may be wrong in a drug's name of seven letters or more; 0 for exact names only.
        drugs: names to look for; the project's dictionary if left out. Its abbreviations must stand in capitals.
        anywhere: keep doses and times in sentences without a drug too ("daily" is said of much else).
    """
    terms, nlp = words(TERMS), spacy.blank("en")
    matcher = TargetMatcher(nlp, rules=None)
    known = sorted(aliases() if drugs is None else {name.lower() for name in drugs})
    lists = words(DRUGS)
    short = {a for kind in ("antiseizure", "rescue") for d in lists[kind].values() for a in d["abbreviations"]}
    if drugs is not None:
        short = set()
    rules = [TargetRule(name, "DRUG") for name in known if name.upper() not in short]
    rules += [TargetRule(name, "DRUG", pattern=[{"TEXT": name}]) for name in sorted(short)]
    for label, group in (("FREQUENCY", "frequencies"), ("ROUTE", "routes"), ("FORM", "forms")):
        either = "|".join(f"(?:{pattern})" for pattern, _ in terms[group])
        rules.append(TargetRule(label, label, pattern=rf"\b(?:{either})\b"))
    rules.append(TargetRule("STRENGTH", "STRENGTH", pattern=rf"\b{terms['strengths']}\b"))
    rules.append(TargetRule("DOSAGE", "DOSAGE", pattern=terms["dosages"]))
    rules.append(TargetRule("DURATION", "DURATION", pattern=rf"{terms['durations']}\b"))
    matcher.add(rules)
    long_names = [name for name in known if len(name) >= 6 and " " not in name]

    def misspelt(doc: Doc, taken: set[int]) -> list[Span]:
        found = []
        for token in doc:
            word = token.lower_
            if token.i in taken or len(word) < 7 or not word.isalpha():
                continue
            if any(DamerauLevenshtein.distance(word, n, score_cutoff=slips) <= slips for n in long_names):
                found.append(Span(doc, token.i, token.i + 1, label="DRUG"))
        return found

    def name(docs: list[Doc]) -> list[list[Span]]:
        out = []
        for doc in docs:
            # a copy, because the matcher writes the entities of the document that it is given
            own = Doc(nlp.vocab, words=[t.text for t in doc], spaces=[bool(t.whitespace_) for t in doc])
            spans = [Span(doc, s.start, s.end, label=s.label_) for s in matcher(own).ents]
            if slips:
                spans += misspelt(doc, {i for s in spans for i in range(s.start, s.end)})
            with_drug = {s.sent.start for s in spans if s.label_ == "DRUG"}
            out.append([s for s in spans if anywhere or s.sent.start in with_drug])
        return out

    return name


def names_in_dictionary(texts: Iterable[str]) -> set[str]:
    """Drug names in these texts that the package drug-named-entity-recognition has in its dictionary, in lower case."""
    # seconds to load, and it opens a file of the home folder; so only where it is asked for
    from drug_named_entity_recognition import find_drugs  # noqa: PLC0415

    found = set()
    for text in texts:
        tokens = re.findall(r"[A-Za-z][\w-]*", text)
        for _, first, last in find_drugs(tokens, is_fuzzy_match=False):
            found.add(" ".join(tokens[first:last]).lower())
    return found


def given(drugs: Mapping[str, Sequence[tuple[int, int]]], rules: Namer, order: Sequence[str]) -> Namer:
    """The drugs as given, and what the rules find beside them: tests the pairing alone.

    Args:
        drugs: spans of the drugs in the cleaned text, by identifier of the text.
        rules: names the attributes.
        order: identifiers in the order in which the texts will come.
    """

    def name(docs: list[Doc]) -> list[list[Span]]:
        out = []
        for id, doc, spans in zip(order, docs, rules(docs), strict=True):
            known = [doc.char_span(*at, label="DRUG", alignment_mode="expand") for at in drugs[id]]
            out.append(filter_spans([s for s in known if s] + [s for s in spans if s.label_ != "DRUG"]))
        return out

    return name


# -------------------------------------------------------------------------------------------------- trained models


def training_examples(nlp: Language, charts: Iterable[Chart]) -> tuple[list[Example], int]:
    """Notes of these charts, cleaned, with their gold entities; and how many of these do not fit the tokens."""
    examples, lost = [], 0
    for chart in charts:
        gold: dict[str, list[Any]] = {}
        for mention in chart.mentions:
            gold.setdefault(mention.note_id, []).append(mention)
        for note in chart.notes:
            cleaned = clean(note.text)
            doc = nlp.make_doc(cleaned.text)
            spans = []
            for mention in gold.get(note.note_id, []):
                start, end = cleaned.cleaned(mention.start, mention.end)
                span = doc.char_span(start, end, label=mention.label)
                lost += span is None
                spans += [span] if span is not None else []
            reference = doc.copy()
            reference.ents = [Span(reference, s.start, s.end, label=s.label_) for s in filter_spans(spans)]
            examples.append(Example(doc, reference))
    return examples, lost


@dataclass(frozen=True)
class Training:
    """A trained model, and how its training went.

    Attributes:
        nlp: the model.
        f1: micro F1 on the development notes after each pass.
        notes: training notes.
        lost: gold entities that do not fit the tokens, and so were not learned from.
    """

    nlp: Language
    f1: tuple[float, ...]
    notes: int
    lost: int


def train(train_on: Iterable[Chart], develop_on: Iterable[Chart], *, passes: int, seed: int) -> Training:
    """Train a small spaCy model with Med7's seven labels on the CPU; the best pass on the development notes is kept.

    Args:
        train_on: charts to learn from.
        develop_on: charts to choose the pass by.
        passes: over all training notes.
        seed: of the weights, the order of notes and the dropout.
    """
    fix_random_seed(seed)
    shuffle = random.Random(seed)  # noqa: S311  # the order of notes is no secret
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples, lost = training_examples(nlp, train_on)
    held, _ = training_examples(nlp, develop_on)
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = LEARN_RATE
    best, scores = nlp.to_bytes(), [-1.0]
    for _ in tqdm(range(passes), desc="training", unit="pass"):
        shuffle.shuffle(examples)
        for batch in minibatch(examples, size=8):
            nlp.update(batch, drop=0.2, sgd=optimizer)
        f1 = float(nlp.evaluate(held)["ents_f"] or 0.0)
        if f1 > max(scores):
            best = nlp.to_bytes()
        scores.append(f1)
    nlp.from_bytes(best)
    return Training(nlp, tuple(scores[1:]), len(examples), lost)


def by_model(nlp: Language) -> Namer:
    """A trained spaCy model: the project's own, or Med7."""

    def name(docs: list[Doc]) -> list[list[Span]]:
        texts = (doc.text for doc in docs)
        out = []
        for doc, found in zip(docs, nlp.pipe(texts, batch_size=32), strict=True):
            spans = [doc.char_span(e.start_char, e.end_char, e.label_, alignment_mode="expand") for e in found.ents]
            out.append(filter_spans([s for s in spans if s is not None and s.label_ in LABELS]))
        return out

    return name


def med7(package: str) -> tuple[Language | None, str]:
    """Med7 if it is installed, or else why it is not here and what to do.

    Args:
        package: `en_core_med7_lg` or `en_core_med7_trf`, as Hugging Face has them (kormilitzin).
    """
    try:
        return spacy.load(package), f"{package} {spacy.util.get_package_version(package)}"
    except OSError:
        link_ = f"https://huggingface.co/kormilitzin/{package}/resolve/main/{package}-any-py3-none-any.whl"
        return None, f"{package} is not installed. Where Hugging Face is reachable: pip install {link_}"


# -------------------------------------------------------------------------------------------------- language model

_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "seizure_status": {"type": "string", "enum": ["positive", "negative", "unknown"]},
        "medications": {
            "type": "array",
            "maxItems": 10,
            "items": {
                "type": "object",
                "properties": {
                    "drug": {"type": "string", "maxLength": 40},
                    "strength": {"type": "string", "maxLength": 20},
                    "frequency": {"type": "string", "maxLength": 24},
                    "route": {"type": "string", "maxLength": 16},
                    "form": {"type": "string", "maxLength": 24},
                    "role": {"type": "string", "enum": ["current", "historical", "hypothetical", "family", "allergy"]},
                },
                "required": ["drug", "strength", "frequency", "route", "form", "role"],
                "additionalProperties": False,
            },
        },
    },
    "required": ["seizure_status", "medications"],
    "additionalProperties": False,
}
_INSTRUCTION: Final = (
    "You read one clinical note of a patient with epilepsy. Answer in JSON. seizure_status: positive if the note says "
    "that the patient had seizures lately, negative if it says that the patient had none, unknown if it does not say. "
    "medications: every drug named in the note, with strength, frequency, route and form copied from the note, or an "
    "empty string where the note does not say. role: current if the patient takes it, historical if it was stopped "
    "before, hypothetical if it is only considered, family if a relative takes it, allergy if the patient is allergic."
)


def extraction_prompt(text: str) -> list[dict[str, str]]:
    """The messages that ask for one cleaned note."""
    return [{"role": "system", "content": _INSTRUCTION}, {"role": "user", "content": text}]


def parse_extraction(note_id: str, answer: str) -> Reading:
    """A language model's answer as a reading; one that is no JSON of the schema counts as not parsed."""
    try:
        content = json.loads(answer)
        medications = tuple(_medication(item) for item in content["medications"] if item["drug"].strip())
        status = content["seizure_status"]
        if status not in ("positive", "negative", "unknown"):
            raise ValueError(status)
    except (ValueError, KeyError, TypeError, AttributeError):
        return Reading(note_id, parsed=False)
    return Reading(note_id, medications, status)


def _medication(item: Mapping[str, str]) -> Medication:
    values: dict[str, Any] = {
        name: normal(label, text)
        for label in LABELS
        if label != "DRUG" and (text := item.get(name := _ATTRIBUTES[label], "").strip())
    }
    return Medication(drug=generic_name(item["drug"].strip()), role=item["role"], **values)  # type: ignore[arg-type]


def by_llm(model: LLM, max_tokens: int) -> Extractor:
    """A language model that answers in JSON of a fixed schema, at temperature 0."""
    response_format = {
        "type": "json_schema",
        "json_schema": {"name": "note", "schema": _SCHEMA},
    }

    def read(notes: Sequence[Text]) -> list[Reading]:
        replies = model.chat_many(
            [extraction_prompt(clean(note.text).text) for note in notes],
            max_tokens=max_tokens,
            extra={"response_format": response_format},
            overflow="record",
            label="extraction",
        )
        return [parse_extraction(note.note_id, reply.text) for note, reply in zip(notes, replies, strict=True)]

    return read


_ASK_CONTEXT: Final = (
    "A clinical note speaks of {term!r} in this passage:\n\n{passage}\n\n"
    "Is {term!r} affirmed (the patient has it now), negated (the patient does not have it), historical (the patient "
    "had it long ago), family (a relative has it) or hypothetical (it is only said what to do or expect)? "
    "Answer with one word."
)


def context_prompt(text: str, start: int, end: int) -> list[dict[str, str]]:
    """The messages that ask for the class of one span, with the line that it stands in."""
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    passage = text[max(first, start - CONTEXT_LIMIT) : min(last if last >= 0 else len(text), end + CONTEXT_LIMIT)]
    return [{"role": "user", "content": _ASK_CONTEXT.format(term=text[start:end], passage=clean(passage).text)}]


def classify_by_llm(model: LLM, texts: Sequence[Text], spans: Sequence[tuple[int, int]]) -> list[Context]:
    """A language model's choice among the five classes for one span in each text."""
    prompts = [context_prompt(text.text, *span) for text, span in zip(texts, spans, strict=True)]
    return [c.answer for c in model.choose_many(prompts, CONTEXTS, label="context")]  # type: ignore[misc]


def window(text: str, start: int, end: int) -> str:
    """The text around a mention, cleaned, with nothing that identifies anybody."""
    return clean(text[max(0, start - CONTEXT_LIMIT) : end + CONTEXT_LIMIT]).text
