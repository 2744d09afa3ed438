"""Mentions out of text (drug_interactions.md, Methods, A): a dictionary and rules, as spaCy matchers."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path

import pandas as pd
from spacy.lang.en import English
from spacy.matcher import Matcher, PhraseMatcher
from spacy.tokens import Doc
from spacy.util import filter_spans
from spacy.vocab import Vocab

from papers.drug_interactions.corpora import (
    TERMS,
    TOKEN,
    Entity,
    Label,
    Relation,
    Sentence,
    canonical,
)

LISTS = ("side_effects/drug_names.csv", "side_effects/side_effects.csv")
"""Names of drugs and of side effects from SIDER."""
LEAST_PRECISION = 0.5
"""A name of the dictionary must be a marked mention in at least this share of its occurrences in the training text."""

STEMS, CLASS_HEADS, NO_PART_OF_A_CLASS = (
    "|".join(TERMS[g]) for g in ("stems", "class_heads", "no_part_of_a_class")
)
_SALT = re.compile(
    r" (?:sodium|potassium|hydrochloride|hcl|sulfate|mesylate|maleate|tartrate|acetate|citrate|phosphate)\b",
    re.IGNORECASE,
)
# a name in brackets after a drug is another name for it: "celecoxib (Celebrex)"
_ALIAS = re.compile(r"\s*\(([A-Z][A-Za-z]{3,})\)")


def _tokenised(vocab: Vocab, text: str) -> tuple[Doc, list[tuple[int, int]]]:
    places = [match.span() for match in TOKEN.finditer(text)]
    return Doc(vocab, words=[text[start:end] for start, end in places]), places


class Recogniser:
    """Finds mentions by a dictionary (canonical name -> label), by stems of drugs and by last words of groups."""

    def __init__(self, names: Mapping[str, Label], *, rules: bool = True) -> None:
        """Compile the matchers; longer matches go before shorter ones, the dictionary before rules."""
        self._vocab = English().vocab
        self._phrases = PhraseMatcher(self._vocab, attr="LOWER")
        of_label: dict[Label, list[Doc]] = {"Drug": [], "Compound": [], "SideEffect": []}
        for name, label in names.items():
            of_label[label].append(_tokenised(self._vocab, name)[0])
        for label, docs in of_label.items():
            self._phrases.add(label, docs)
        self._rules = Matcher(self._vocab)
        if rules:
            stem = {"LOWER": {"REGEX": rf"^[a-z]{{3,}}(?:{STEMS})s?$"}}
            head = {"LOWER": {"REGEX": rf"^(?:{CLASS_HEADS})s$"}}
            modifier = {
                "IS_ALPHA": True,
                "LENGTH": {">=": 3},
                "LOWER": {"REGEX": rf"^(?!(?:{NO_PART_OF_A_CLASS})$)"},
            }
            self._rules.add("Drug", [[stem]])
            self._rules.add("Compound", [[modifier, {"ORTH": "-", "OP": "?"}, head]])

    def find(self, text: str) -> tuple[Entity, ...]:
        """The mentions of a text, in its order; none overlaps another."""
        doc, places = _tokenised(self._vocab, text)
        spans = filter_spans(self._phrases(doc, as_spans=True))
        taken = {i for span in spans for i in range(span.start, span.end)}
        others = filter_spans(self._rules(doc, as_spans=True)) if len(self._rules) else []
        spans += [span for span in others if not taken.intersection(range(span.start, span.end))]
        found = [Entity(places[s.start][0], places[s.end - 1][1], s.label_) for s in spans]  # type: ignore[arg-type]
        found.sort(key=lambda entity: entity.start)
        return tuple(self._widened(text, found) if len(self._rules) else found)

    @staticmethod
    def _widened(text: str, found: Sequence[Entity]) -> Iterator[Entity]:
        for entity, following in zip_longest(found, found[1:]):
            limit = following.start if following else len(text)
            salt = _SALT.match(text, entity.end, limit) if entity.label == "Drug" else None
            drug = entity._replace(end=salt.end()) if salt else entity
            yield drug
            if drug.label == "Drug" and (alias := _ALIAS.match(text, drug.end, limit)):
                yield Entity(alias.start(1), alias.end(1), "Drug")

    def mark(self, sentences: Iterable[Sentence]) -> list[Sentence]:
        """The sentences with the mentions found in place of those marked, and without relations."""
        return [replace(s, entities=self.find(s.text), relations=()) for s in sentences]


def listed(path: Path) -> list[str]:
    """The names in the first column of a table."""
    return list(map(str, pd.read_csv(path).iloc[:, 0]))


def drugbank_names(sentences: Iterable[Sentence], shortest: int = 5) -> list[str]:
    """The names and synonyms that DrugBank gives away, and those of MeSH, from `drug-named-entity-recognition`.

    Names with a word that stands in none of the sentences cannot match and are left out.
    """
    from drug_named_entity_recognition.drugs_finder import drug_variant_to_canonical  # noqa: PLC0415  # takes seconds

    words = {word for sentence in sentences for word in TOKEN.findall(sentence.text.lower())}
    return [
        n
        for n in drug_variant_to_canonical
        if len(n) >= shortest and words.issuperset(TOKEN.findall(n.lower()))
    ]


def dictionary(
    training: Sequence[Sentence], drugs: Iterable[str], effects: Iterable[str]
) -> dict[str, Label]:
    """Names marked in the training text, and lists of drugs and effects, without what is mostly no mention there.

    Drugs are judged by the DDI corpus, where every mention is marked; side effects by the sentences of the ADE corpus
    that state one, since the others mark none.

    Raises ValueError: a sentence is not of the training split.
    """
    if other := next((s for s in training if s.split != "train"), None):
        raise ValueError(
            f"The dictionary is made from the training split; {other.id} is of the split {other.split!r}."
        )
    labels: dict[str, Counter[Label]] = defaultdict(Counter)
    for sentence in training:
        for entity in sentence.entities:
            labels[sentence.name(entity)][entity.label] += 1
    of_lists: dict[Label, Iterable[str]] = {"Drug": drugs, "SideEffect": effects}
    for label, listed_names in of_lists.items():
        for name in listed_names:
            labels.setdefault(canonical(name), Counter({label: 1}))
    # one letter, or digits alone, says nothing without its sentence
    names = {
        n: max(sorted(c), key=lambda x: c[x])
        for n, c in labels.items()
        if len(n) > 1 and re.search(r"[a-z]", n)
    }

    right: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    everything = Recogniser(names, rules=False)
    for sentence in training:
        judged = {"SideEffect"} if sentence.corpus == "ADE" else {"Drug", "Compound"}
        if sentence.corpus == "ADE" and not sentence.relations:
            continue
        gold = {(entity.start, entity.end) for entity in sentence.entities}
        for entity in everything.find(sentence.text):
            if entity.label in judged:
                seen[sentence.name(entity)] += 1
                right[sentence.name(entity)] += (entity.start, entity.end) in gold
    return {
        name: label for name, label in names.items() if right[name] >= LEAST_PRECISION * seen[name]
    }


def training_sentences(gold: Sequence[Sentence], recogniser: Recogniser) -> list[Sentence]:
    """Gold sentences of the ADE corpus with also the mentions that nobody marked, since it marks related ones only."""
    widened = []
    for sentence in gold:
        marked = sentence.entities
        found = recogniser.find(sentence.text)
        more = [e for e in found if not any(e.start < g.end and g.start < e.end for g in marked)]
        order = sorted([*marked, *more])
        number = {entity: i for i, entity in enumerate(order)}
        moved = tuple(
            Relation(number[marked[r.first]], number[marked[r.second]], r.kind)
            for r in sentence.relations
        )
        widened.append(replace(sentence, entities=tuple(order), relations=moved))
    return widened
