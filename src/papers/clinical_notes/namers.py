"""Who names the drugs of a note and what belongs to them: rules with a dictionary, or a trained model."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import spacy
from rapidfuzz.distance import DamerauLevenshtein
from spacy.language import Language
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import filter_spans, fix_random_seed, minibatch
from tqdm import tqdm

from papers.clinical_notes.cleaning import TERMS, abbreviations, aliases, clean
from papers.clinical_notes.extraction import Namer, TargetMatcher, TargetRule
from papers.clinical_notes.gold import LABELS, Chart
from papers.clinical_notes.wording import words

LEARN_RATE: Final = 0.003
"""Of the training: three times the library's own, because there are few notes."""


# ------------------------------------------------------------------------------------------------ rules, dictionary


def by_rules(*, slips: int = 1, drugs: Iterable[str] | None = None, anywhere: bool = False) -> Namer:
    """medspaCy's target rules: a drug dictionary, and patterns for what belongs to a drug.

    Args:
        slips: letters that may be wrong in a drug's name of seven letters or more.
        drugs: names to look for; the project's dictionary if left out, whose abbreviations must be in capitals.
        anywhere: keep doses and times in sentences without a drug too ("daily" is said of much else).
    """
    terms, nlp = words(TERMS), spacy.blank("en")
    matcher = TargetMatcher(nlp, rules=None)
    known = sorted(aliases() if drugs is None else {name.lower() for name in drugs})
    short = abbreviations() if drugs is None else set()
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
    """The drugs as given, by their spans in the cleaned text, and what the rules find beside them: the pairing alone.

    `order` has the texts' identifiers in the order in which they will come.
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


def train(
    train_on: Iterable[Chart], develop_on: Iterable[Chart], *, passes: int, seed: int
) -> tuple[Language, list[float]]:
    """Train a small spaCy model with Med7's seven labels on the CPU; the best pass on the development notes counts.

    Its micro F1 on these after each pass comes with it.
    """
    fix_random_seed(seed)
    shuffle = random.Random(seed)  # noqa: S311  # the order of notes is no secret
    nlp = spacy.blank("en")
    nlp.add_pipe("ner")
    examples, _ = training_examples(nlp, train_on)
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
    return nlp, scores[1:]


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
    """Med7 (kormilitzin on Hugging Face) if it is installed and loads, or else why not and what to do."""
    link = f"https://huggingface.co/kormilitzin/{package}/resolve/main/{package}-any-py3-none-any.whl"
    if not spacy.util.is_package(package):
        return None, f"{package} is not installed. Where Hugging Face is reachable: pip install {link}"
    try:
        return spacy.load(package), f"{package} {spacy.util.get_package_version(package)}"
    except Exception as error:  # a model of another spaCy fails in many ways
        problem = " ".join(str(error).split())[:120]
        needs = "It may need an older spaCy (en_core_med7_trf: below 3.5), and so an environment of its own."
        return None, f"{package} cannot be loaded by spaCy {spacy.__version__} ({problem}). {needs}"
