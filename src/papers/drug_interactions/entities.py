"""Mentions out of text (drug_interactions.md, Methods, A): a dictionary and rules.

Both are matchers of spaCy, except that regular expressions find salts and names in brackets.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import pandas as pd
from spacy.lang.en import English
from spacy.matcher import Matcher, PhraseMatcher
from spacy.tokens import Doc, Span
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
    most_frequent,
)

LISTS = ("side_effects/drug_names.csv", "side_effects/side_effects.csv")
"""Names of drugs and of side effects from SIDER."""
MIN_PRECISION = 0.5
"""In at least this share of its occurrences in the training text a name must be a mention."""


def _alternatives(group: str) -> str:
    return "|".join(TERMS[group])


STEMS = _alternatives("stems")
CLASS_HEADS = _alternatives("class_heads")
NO_PART_OF_A_CLASS = _alternatives("no_part_of_a_class")
_SALT = re.compile(
    r" (?:sodium|potassium|hydrochloride|hcl|sulfate|mesylate|maleate|tartrate|acetate|citrate|"
    r"phosphate)\b",
    re.IGNORECASE,
)
# a name in brackets after a drug is another name for it: "celecoxib (Celebrex)"
_ALIAS = re.compile(r"\s*\(([A-Z][A-Za-z]{3,})\)")


def _tokenise(vocab: Vocab, text: str) -> tuple[Doc, list[tuple[int, int]]]:
    """Return a text as words, and the first and last character of each."""
    ends = [match.span() for match in TOKEN.finditer(text)]
    return Doc(vocab, words=[text[start:end] for start, end in ends]), ends


class Recogniser:
    """Finds mentions by a dictionary, by stems of drugs and by last words of groups."""

    def __init__(self, names: Mapping[str, Label], *, rules: bool = True) -> None:
        """Compile the matchers; longer matches go before shorter ones, the dictionary before rules.

        Args:
            names: The dictionary: the label of each canonical name.
            rules: Whether to find, by stems and last words, what the dictionary lacks.
        """
        self._vocab = English().vocab
        self._phrases = PhraseMatcher(self._vocab, attr="LOWER")
        by_label: dict[Label, list[Doc]] = {"Drug": [], "Compound": [], "SideEffect": []}
        for name, label in names.items():
            doc, _ = _tokenise(self._vocab, name)
            by_label[label].append(doc)
        for label, docs in by_label.items():
            self._phrases.add(label, docs)
        self._has_rules = rules
        self._rules = Matcher(self._vocab)
        if rules:
            self._add_rules()

    def _add_rules(self) -> None:
        stem = {"LOWER": {"REGEX": rf"^[a-z]{{3,}}(?:{STEMS})s?$"}}
        head = {"LOWER": {"REGEX": rf"^(?:{CLASS_HEADS})s$"}}
        modifier = {
            "IS_ALPHA": True,
            "LENGTH": {">=": 3},
            "LOWER": {"REGEX": rf"^(?!(?:{NO_PART_OF_A_CLASS})$)"},
        }
        hyphen = {"ORTH": "-", "OP": "?"}
        self._rules.add("Drug", [[stem]])
        self._rules.add("Compound", [[modifier, hyphen, head]])

    def find(self, text: str) -> tuple[Entity, ...]:
        """Return the mentions of a text, in its order; none overlaps another."""
        doc, ends = _tokenise(self._vocab, text)
        spans = self._find_spans(doc)
        entities = []
        for span in spans:
            start, _ = ends[span.start]
            _, end = ends[span.end - 1]
            entities.append(Entity(start, end, span.label_))  # type: ignore[arg-type]  # a label that was added
        entities.sort(key=lambda entity: entity.start)
        if self._has_rules:
            return tuple(_with_salts_and_aliases(text, entities))
        return tuple(entities)

    def _find_spans(self, doc: Doc) -> list[Span]:
        spans = filter_spans(self._phrases(doc, as_spans=True))
        if not self._has_rules:
            return spans
        in_dictionary = {position for span in spans for position in range(span.start, span.end)}
        by_rules = filter_spans(self._rules(doc, as_spans=True))
        for span in by_rules:
            if in_dictionary.isdisjoint(range(span.start, span.end)):
                spans.append(span)
        return spans

    def mark(self, sentences: Iterable[Sentence]) -> list[Sentence]:
        """Return the sentences with the mentions found, for those marked, and no relations."""
        marked = []
        for sentence in sentences:
            entities = self.find(sentence.text)
            marked.append(replace(sentence, entities=entities, relations=()))
        return marked


def _with_salts_and_aliases(text: str, entities: Sequence[Entity]) -> Iterator[Entity]:
    """Yield the mentions, drugs with the salt that follows, and names in brackets."""
    for entity, following in zip_longest(entities, entities[1:]):
        if entity.label != "Drug":
            yield entity
            continue
        limit = following.start if following else len(text)
        salt = _SALT.match(text, entity.end, limit)
        drug = entity._replace(end=salt.end()) if salt else entity
        yield drug
        alias = _ALIAS.match(text, drug.end, limit)
        if alias:
            yield Entity(alias.start(1), alias.end(1), "Drug")


def read_names(path: Path) -> list[str]:
    """Read the names in the first column of a table."""
    first_column = pd.read_csv(path).iloc[:, 0]
    return [str(name) for name in first_column]


def drugbank_names(sentences: Iterable[Sentence], shortest: int = 5) -> list[str]:
    """Return the names and synonyms that DrugBank gives away, and those of MeSH.

    They are those of `drug-named-entity-recognition`. Names with a word that stands in none of the
    sentences cannot match and are left out.

    Args:
        sentences: The text to be read.
        shortest: Characters that a name has at least.
    """
    from drug_named_entity_recognition.drugs_finder import (  # noqa: PLC0415  # takes seconds
        drug_variant_to_canonical,
    )

    words: set[str] = set()
    for sentence in sentences:
        words.update(TOKEN.findall(sentence.text.lower()))
    names = []
    for name in drug_variant_to_canonical:
        name_words = TOKEN.findall(name.lower())
        if len(name) >= shortest and words.issuperset(name_words):
            names.append(name)
    return names


def build_dictionary(
    training: Sequence[Sentence], drugs: Iterable[str], effects: Iterable[str]
) -> dict[str, Label]:
    """Collect names marked in the training text, and lists of drugs and effects.

    What is mostly no mention in the training text is left out. Drugs are judged by the DDI corpus,
    where every mention is marked; side effects by the sentences of the ADE corpus that state one,
    since the others mark none.

    Raises:
        ValueError: If a sentence is not of the training split.
    """
    for sentence in training:
        if sentence.split != "train":
            raise ValueError(
                f"The dictionary is made from the training split; {sentence.id} is of the split "
                f"{sentence.split!r}."
            )
    names = _names_with_labels(training, {"Drug": drugs, "SideEffect": effects})
    occurrences = _count_occurrences(training, names)
    return {name: label for name, label in names.items() if occurrences[name].are_mentions}


def _names_with_labels(
    training: Sequence[Sentence], lists: Mapping[Label, Iterable[str]]
) -> dict[str, Label]:
    """Return each name with the label that it has most often."""
    labels: dict[str, Counter[Label]] = defaultdict(Counter)
    for sentence in training:
        for entity in sentence.entities:
            labels[sentence.name(entity)][entity.label] += 1
    for label, listed_names in lists.items():
        for name in listed_names:
            labels.setdefault(canonical(name), Counter({label: 1}))
    names: dict[str, Label] = {}
    for name, counts in labels.items():
        # one letter, or digits alone, says nothing without its sentence
        if len(name) > 1 and re.search(r"[a-z]", name):
            names[name] = most_frequent(counts)
    return names


@dataclass
class _Occurrences:
    """How often a name occurs in the training text, and how often as a marked mention."""

    n: int = 0
    n_marked: int = 0

    @property
    def are_mentions(self) -> bool:
        return self.n_marked >= MIN_PRECISION * self.n


def _count_occurrences(
    training: Sequence[Sentence], names: Mapping[str, Label]
) -> dict[str, _Occurrences]:
    """Count where every mention with the label of a name would be marked."""
    occurrences: dict[str, _Occurrences] = defaultdict(_Occurrences)
    recogniser = Recogniser(names, rules=False)
    for sentence in training:
        if sentence.corpus == "ADE" and not sentence.relations:
            continue
        marked_labels = {"SideEffect"} if sentence.corpus == "ADE" else {"Drug", "Compound"}
        marked = {(entity.start, entity.end) for entity in sentence.entities}
        for entity in recogniser.find(sentence.text):
            if entity.label not in marked_labels:
                continue
            counts = occurrences[sentence.name(entity)]
            counts.n += 1
            counts.n_marked += (entity.start, entity.end) in marked
    return occurrences


def training_sentences(gold: Sequence[Sentence], recogniser: Recogniser) -> list[Sentence]:
    """Add mentions that nobody marked to gold sentences of the ADE corpus.

    The corpus marks related mentions alone.
    """
    return [_with_mentions(sentence, recogniser.find(sentence.text)) for sentence in gold]


def _with_mentions(sentence: Sentence, found: Iterable[Entity]) -> Sentence:
    """Add the mentions that overlap none of those marked."""
    marked = sentence.entities
    unmarked = [entity for entity in found if not _overlaps(entity, marked)]
    entities = sorted([*marked, *unmarked])
    number = {entity: position for position, entity in enumerate(entities)}
    relations = []
    for relation in sentence.relations:
        first, second = marked[relation.first], marked[relation.second]
        relations.append(Relation(number[first], number[second], relation.kind))
    return replace(sentence, entities=tuple(entities), relations=tuple(relations))


def _overlaps(entity: Entity, others: Iterable[Entity]) -> bool:
    return any(entity.start < other.end and other.start < entity.end for other in others)
