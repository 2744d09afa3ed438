"""Gold-labelled text for drug_interactions.md: the DDI corpus and ADE-Corpus-V2, in chunks too.

The corpora stand in for the paper's two textbooks, which it does not name.
"""

import hashlib
import re
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, product
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

import yaml

from helpers.texts import lines
from resources.settings import DATA, PublicError

Label = Literal["Drug", "Compound", "SideEffect"]
Corpus = Literal["DrugBank", "MedLine", "ADE", "Textbook"]
Split = Literal["train", "test", "entities"]
INTERACTS, CAUSES = "INTERACTS_WITH", "CAUSES_SIDE_EFFECT"
ADVERSE = "adverse"

DDI = "drug_interactions/DDICorpus-2013.zip"
ADE = tuple(f"drug_interactions/{name}" for name in ("DRUG-AE.rel", "DRUG-DOSE.rel", "ADE-NEG.txt"))
CHUNK_TOKENS = 1000
"""Length of a chunk (Methods, A)."""
ADE_TEST_SHARE = 0.3
"""Share of the articles of ADE-Corpus-V2 in the test split.

The corpus has no split; a hash of an article's number decides.
"""

TOKEN = re.compile(r"\w+|[^\w\s]")
TERMS: dict[str, list[str]] = yaml.safe_load(
    (DATA / "interaction_terms.yml").read_text(encoding="utf-8")
)
"""What the rules that read text know."""

# generic and brand names are drugs; groups of drugs and substances that are no medicine are the
# "other compounds"
_LABELS: dict[str, Label] = {
    "drug": "Drug",
    "brand": "Drug",
    "group": "Compound",
    "drug_n": "Compound",
}
_SPLITS: dict[str, Split] = {
    "Train": "train",
    "Test/Test for DDI Extraction task": "test",
    "Test/Test for DrugNER task": "entities",
}


class CorpusError(PublicError, ValueError):
    """A corpus file is not in its format; the message says where."""


class Entity(NamedTuple):
    """A mention in a sentence: characters `start` to `end`, and what it is."""

    start: int
    end: int
    label: Label


class Relation(NamedTuple):
    """Two related mentions by their numbers.

    Of a side effect (`adverse`) the drug is first, otherwise the one that is first in the text.
    """

    first: int
    second: int
    kind: str


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence with what is marked in it, in the order of the text."""

    id: str
    document: str
    corpus: Corpus
    split: Split
    text: str
    entities: tuple[Entity, ...] = ()
    relations: tuple[Relation, ...] = ()

    def name(self, entity: Entity) -> str:
        """The name under which a mention becomes a node."""
        return canonical(self.text[entity.start : entity.end])


def canonical(name: str) -> str:
    """Return a name without what does not tell it apart: case and runs of white space."""
    return " ".join(name.lower().split())


def most_frequent(counts: Counter[Label]) -> Label:
    """Return the most frequent label, of several the first in alphabetical order."""
    return max(sorted(counts), key=lambda label: counts[label])


class Fact(NamedTuple):
    """An edge of the graph: its type and the names of its ends.

    Those of an interaction are in alphabetical order.
    """

    type: str
    start: str
    end: str


def make_fact(relation: str, first: str, second: str) -> Fact:
    """Make a fact, its ends in order.

    Args:
        relation: `INTERACTS` or `CAUSES`.
        first: A drug.
        second: What the drug interacts with, or causes.
    """
    if relation == INTERACTS:
        first, second = sorted((first, second))
    return Fact(relation, first, second)


def facts(sentence: Sentence) -> set[Fact]:
    """Return what a sentence states about two things of different names."""
    stated = set()
    names = [sentence.name(entity) for entity in sentence.entities]
    for relation in sentence.relations:
        first, second = names[relation.first], names[relation.second]
        if first != second:
            edge = CAUSES if relation.kind == ADVERSE else INTERACTS
            stated.add(make_fact(edge, first, second))
    return stated


def read_ddi(path: Path) -> list[Sentence]:
    """Read the DDI corpus (Herrero-Zazo et al. 2013) from its archive.

    It has the splits of SemEval 2013, task 9; `entities` is the test of recognition, whose
    interactions are not marked. A pair without a kind is read as `int`, a mention in several parts
    as one, from its first character to its last.

    Raises:
        CorpusError: If a file of the archive is not as expected.
    """
    sentences: list[Sentence] = []
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(archive.namelist()):
                if name.endswith(".xml") and "__MACOSX" not in name:
                    sentences += _ddi_sentences(name, archive.read(name))
    except (zipfile.BadZipFile, ET.ParseError, KeyError, ValueError) as error:
        raise CorpusError(f"{path.name} is not the DDI corpus as released: {error}") from error
    return sentences


def _ddi_sentences(name: str, content: bytes) -> list[Sentence]:
    """Read one document; its folders name the split and the part of the corpus."""
    folders = PurePosixPath(name).parts[1:-1]
    split = _SPLITS["/".join(folders[:-1])]
    corpus = folders[-1]
    if corpus not in ("DrugBank", "MedLine"):
        raise CorpusError(f"{name}: found the part {corpus!r}, needed DrugBank or MedLine.")
    root = ET.fromstring(content)  # noqa: S314  # expat of Python 3.11 bounds entity expansion
    document = str(root.get("id"))
    return [
        _ddi_sentence(node, document, corpus, split)  # type: ignore[arg-type]
        for node in root.iter("sentence")
    ]


def _ddi_sentence(node: ET.Element, document: str, corpus: Corpus, split: Split) -> Sentence:
    by_id = {entity.attrib["id"]: _ddi_entity(entity) for entity in node.iter("entity")}
    order = sorted(by_id, key=lambda name: (by_id[name].start, by_id[name].end))
    number = {name: position for position, name in enumerate(order)}
    relations = []
    for pair in node.iter("pair"):
        if pair.attrib["ddi"] == "true":
            first, second = sorted((number[pair.attrib["e1"]], number[pair.attrib["e2"]]))
            relations.append(Relation(first, second, pair.get("type", "int")))
    entities = tuple(by_id[name] for name in order)
    return Sentence(
        node.attrib["id"], document, corpus, split, node.attrib["text"], entities, tuple(relations)
    )


def _ddi_entity(node: ET.Element) -> Entity:
    parts = node.attrib["charOffset"].split(";")
    start, _ = map(int, parts[0].split("-"))
    # the last character is included in the file
    _, last = map(int, parts[-1].split("-"))
    return Entity(start, last + 1, _LABELS[node.attrib["type"]])


@dataclass
class _MarkedText:
    """What the lines of ADE-Corpus-V2 mark in one sentence: mentions, and pairs of drug, effect."""

    entities: set[Entity] = field(default_factory=set)
    pairs: set[tuple[Entity, Entity]] = field(default_factory=set)


def read_ade(effects: Path, doses: Path, negatives: Path) -> list[Sentence]:
    """Read ADE-Corpus-V2 (Gurulingappa et al. 2012) from its three files.

    The offsets count from the start of an abstract that is not released, so a pair is found as the
    two occurrences in its sentence that stand as far apart as the offsets do.

    Args:
        effects: `DRUG-AE.rel`; a line is one drug and effect of a sentence.
        doses: `DRUG-DOSE.rel`, which adds drugs that have a dose.
        negatives: `ADE-NEG.txt`; its sentences tell of no adverse effect.

    Raises:
        CorpusError: If a line has other fields than it should, or a pair is not in its sentence.
    """
    marked: dict[tuple[str, str], _MarkedText] = defaultdict(_MarkedText)
    for key, effect, drug in _read_pairs(effects, "SideEffect"):
        marked[key].entities.update((effect, drug))
        marked[key].pairs.add((drug, effect))
    for key in _read_negatives(negatives):
        marked.setdefault(key, _MarkedText())
    for key, _, drug in _read_pairs(doses, "Compound"):
        if key in marked:
            marked[key].entities.add(drug)

    sentences: list[Sentence] = []
    n_read: Counter[str] = Counter()
    for article, text in sorted(marked, key=lambda key: int(key[0])):
        document = f"ADE.{article}"
        sentence = Sentence(
            f"{document}.s{n_read[article]}", document, "ADE", _ade_split(article), text
        )
        sentences.append(_with_marks(sentence, marked[article, text]))
        n_read[article] += 1
    return sentences


def _with_marks(sentence: Sentence, marked: _MarkedText) -> Sentence:
    entities = sorted(marked.entities)
    number = {entity: position for position, entity in enumerate(entities)}
    pairs = sorted((number[drug], number[effect]) for drug, effect in marked.pairs)
    relations = tuple(Relation(drug, effect, ADVERSE) for drug, effect in pairs)
    return replace(sentence, entities=tuple(entities), relations=relations)


def _ade_split(article: str) -> Split:
    digest = hashlib.sha256(article.encode()).digest()
    share = int.from_bytes(digest[:4], "big") / 2**32
    return "test" if share < ADE_TEST_SHARE else "train"


def _read_negatives(path: Path) -> Iterator[tuple[str, str]]:
    """Yield article and sentence of each line."""
    for line, row in enumerate(lines(path), start=1):
        article, _, marked_text = row.partition(" ")
        marker, _, text = marked_text.partition(" ")
        if marker != "NEG":
            raise CorpusError(
                f"{path.name}, line {line}: needed 'number NEG sentence', found {row[:60]!r}."
            )
        yield article, text


def _read_pairs(path: Path, label: Label) -> Iterator[tuple[tuple[str, str], Entity, Entity]]:
    """Yield the pair of each line.

    Args:
        path: A file of lines with eight fields.
        label: What the first mention is; the second is a drug.

    Yields:
        Article and sentence, and the two mentions.
    """
    for line, row in enumerate(lines(path), start=1):
        try:
            article, text, other, other_start, _, drug, drug_start, _ = row.split("|")
            distance = int(drug_start) - int(other_start)
        except ValueError as error:
            raise CorpusError(f"{path.name}, line {line}: {error}") from error
        spans = _spans_as_far_apart(text, other, drug, distance)
        if spans is None:
            missing = f"{other!r} and {drug!r} do not both stand in the sentence {text[:60]!r}."
            raise CorpusError(f"{path.name}, line {line}: {missing}")
        other_span, drug_span = spans
        yield (article, text), Entity(*other_span, label), Entity(*drug_span, "Drug")


Span = tuple[int, int]


def _spans_as_far_apart(
    text: str, other: str, drug: str, distance: int
) -> tuple[Span, Span] | None:
    """Return the two occurrences whose distance is nearest to the stated one.

    Line breaks of the abstract may have changed the distance.
    """
    others = [match.span() for match in re.finditer(re.escape(other), text)]
    drugs = [match.span() for match in re.finditer(re.escape(drug), text)]
    pairs = list(product(others, drugs))
    if not pairs:
        return None

    def order(pair: tuple[Span, Span]) -> tuple[int, Span, Span]:
        """Order by difference to the distance, then by position."""
        other_span, drug_span = pair
        return abs(drug_span[0] - other_span[0] - distance), other_span, drug_span

    return min(pairs, key=order)


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of whole sentences, as the ingestion takes them."""

    number: int
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """The sentences as one text."""
        words = chain.from_iterable(sentence.text.split() for sentence in self.sentences)
        return " ".join(words)


def chunks(sentences: Sequence[Sentence], size: int = CHUNK_TOKENS) -> list[Chunk]:
    """Cut the text into chunks (Methods, A), each of one corpus; no sentence is divided.

    Args:
        sentences: The text.
        size: Tokens that a chunk has at most, if it has more than one sentence.

    Raises:
        ValueError: If the size is not positive.
    """
    if size < 1:
        raise ValueError(f"A chunk needs at least one token, not {size}.")
    parts: list[list[Sentence]] = []
    room = 0
    for sentence in sentences:
        length = len(TOKEN.findall(sentence.text))
        if length > room or not _same_corpus(parts, sentence):
            parts.append([])
            room = size
        parts[-1].append(sentence)
        room -= length
    return [Chunk(number, tuple(part)) for number, part in enumerate(parts)]


def _same_corpus(parts: Sequence[Sequence[Sentence]], sentence: Sentence) -> bool:
    """Whether the last part is of the corpus of a sentence."""
    return bool(parts) and parts[-1][-1].corpus == sentence.corpus


def select(sentences: Iterable[Sentence], split: Split, *corpora: Corpus) -> list[Sentence]:
    """Return the sentences of one split, and of these corpora if any are named."""
    selected = [sentence for sentence in sentences if sentence.split == split]
    if not corpora:
        return selected
    return [sentence for sentence in selected if sentence.corpus in corpora]
