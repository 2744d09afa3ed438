"""Gold-labelled text for drug_interactions.md: the DDI corpus and ADE-Corpus-V2 as sentences, and the text in chunks.

The paper's two textbooks are not named. These corpora stand in for them, because people have marked in them what an
ingestion should find: drugs, substances and interacting pairs (DDI), drugs and the adverse effects they caused (ADE).
"""

from __future__ import annotations

import hashlib
import re
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple, TypeVar, get_args

import yaml

from helpers.settings import DATA, PublicError

Label = Literal["Drug", "Compound", "SideEffect"]
Corpus = Literal["DrugBank", "MedLine", "ADE"]
Split = Literal["train", "test", "entities"]
Ordered = TypeVar("Ordered", int, str)
INTERACTS, CAUSES = "INTERACTS_WITH", "CAUSES_SIDE_EFFECT"
KINDS = ("mechanism", "effect", "advise", "int")
"""The DDI corpus's four kinds of interaction; `int` is one without a further word."""
ADVERSE = "adverse"

DDI = "drug_interactions/DDICorpus-2013.zip"
ADE = tuple(f"drug_interactions/{name}" for name in ("DRUG-AE.rel", "DRUG-DOSE.rel", "ADE-NEG.txt"))
CHUNK_TOKENS = 1000
"""Length of a chunk (Methods, A)."""
ADE_TEST_SHARE = 0.3
"""ADE-Corpus-V2 has no split of its own; this share of its articles is kept for testing, by a hash of their number."""

TOKEN = re.compile(r"\w+|[^\w\s]")
TERMS: dict[str, list[str]] = yaml.safe_load((DATA / "interaction_terms.yml").read_text(encoding="utf-8"))
"""What the rules that read text know."""

# generic and brand names are drugs; groups of drugs and substances that are no medicine are the "other compounds"
_LABELS: dict[str, Label] = {"drug": "Drug", "brand": "Drug", "group": "Compound", "drug_n": "Compound"}
_SPLITS: dict[str, Split] = {
    "Train": "train",
    "Test/Test for DDI Extraction task": "test",
    "Test/Test for DrugNER task": "entities",
}


class CorpusError(PublicError, ValueError):
    """A corpus file is not in its format; the message says where."""


@dataclass(frozen=True, slots=True)
class Entity:
    """A mention in a sentence: characters `start` to `end`, and what it is."""

    start: int
    end: int
    label: Label


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation of two mentions of a sentence, by their numbers: of a side effect (`adverse`) the drug comes first.

    Otherwise the order is that of the text and means nothing, and the kind is one of `KINDS`.
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
    """A name without what does not tell it apart: case and runs of white space."""
    return " ".join(name.lower().split())


class Fact(NamedTuple):
    """An edge of the graph: its type and the names of its ends. Those of an interaction stand in alphabetical order."""

    type: str
    start: str
    end: str


def fact(type: str, one: str, other: str) -> Fact:
    """A fact, its ends in order."""
    return Fact(type, *_ordered(one, other)) if type == INTERACTS else Fact(type, one, other)


def facts(sentence: Sentence) -> set[Fact]:
    """What a sentence states about two things of different names."""
    found = set()
    for relation in sentence.relations:
        one, other = (sentence.name(sentence.entities[i]) for i in (relation.first, relation.second))
        if one != other:
            found.add(fact(CAUSES if relation.kind == ADVERSE else INTERACTS, one, other))
    return found


# ------------------------------------------------------------------------------------------------------ DDI corpus


def read_ddi(path: Path) -> list[Sentence]:
    """The DDI corpus (Herrero-Zazo et al. 2013) from its archive.

    The splits are those of the shared task (SemEval 2013, task 9): `train`, `test` for interactions, and `entities`,
    the test of recognition, whose interactions are not marked. One marked pair of the training part has no kind and is
    read as `int`. A mention in several parts is read as one, from its first character to its last.

    Raises:
        CorpusError: a file of the archive is not as expected.
    """
    sentences: list[Sentence] = []
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(n for n in archive.namelist() if n.endswith(".xml") and "__MACOSX" not in n):
                place = PurePosixPath(name)
                split = _SPLITS[str(PurePosixPath(*place.parts[1:-2]))]
                corpus = place.parts[-2]
                if corpus not in get_args(Corpus):
                    raise CorpusError(f"{name}: found the part {corpus!r}, needed DrugBank or MedLine.")
                root = ET.fromstring(archive.read(name))  # noqa: S314  # expat of Python 3.11 bounds entity expansion
                sentences += [_ddi_sentence(node, str(root.get("id")), corpus, split) for node in root.iter("sentence")]  # type: ignore[arg-type]
    except (zipfile.BadZipFile, ET.ParseError, KeyError, ValueError) as error:
        raise CorpusError(f"{path.name} is not the DDI corpus as released: {error}") from error
    return sentences


def _ddi_sentence(node: ET.Element, document: str, corpus: Corpus, split: Split) -> Sentence:
    marked: dict[str, Entity] = {}
    for entity in node.iter("entity"):
        parts = [tuple(map(int, part.split("-"))) for part in entity.attrib["charOffset"].split(";")]
        # the last character is included in the file
        marked[entity.attrib["id"]] = Entity(parts[0][0], parts[-1][1] + 1, _LABELS[entity.attrib["type"]])
    order = sorted(marked, key=lambda id: (marked[id].start, marked[id].end))
    number = {id: i for i, id in enumerate(order)}
    relations = [
        Relation(*_ordered(number[pair.attrib["e1"]], number[pair.attrib["e2"]]), pair.get("type", "int"))
        for pair in node.iter("pair")
        if pair.attrib["ddi"] == "true"
    ]
    return Sentence(
        id=node.attrib["id"],
        document=document,
        corpus=corpus,
        split=split,
        text=node.attrib["text"],
        entities=tuple(marked[id] for id in order),
        relations=tuple(relations),
    )


def _ordered(a: Ordered, b: Ordered) -> tuple[Ordered, Ordered]:
    return (a, b) if a < b else (b, a)


# ----------------------------------------------------------------------------------------------------- ADE corpus


def read_ade(effects: Path, doses: Path, negatives: Path) -> list[Sentence]:
    """ADE-Corpus-V2 (Gurulingappa et al. 2012) from its three files.

    A line of `DRUG-AE.rel` is one drug and effect of a sentence; lines of one sentence become one. The offsets in the
    files count from the start of an abstract that is not released, so a pair is found in its sentence as the two
    occurrences that stand as far apart as the offsets do. `DRUG-DOSE.rel` adds drugs that have a dose. A sentence of
    `ADE-NEG.txt` tells of no adverse effect; what else stands in it is not marked.

    Raises:
        CorpusError: a line has not the fields it should have, or a pair is not in its sentence.
    """
    found: dict[tuple[str, str], tuple[set[Entity], set[tuple[Entity, Entity]]]] = defaultdict(lambda: (set(), set()))
    for article, text, effect, drug in _pairs(effects, "SideEffect"):
        entities, pairs = found[article, text]
        entities |= {effect, drug}
        pairs.add((drug, effect))
    for line, row in enumerate(_lines(negatives), start=1):
        article, marker, text = (*row.split(" ", 2), "", "")[:3]
        if marker != "NEG":
            raise CorpusError(f"{negatives.name}, line {line}: needed 'number NEG sentence', found {row[:60]!r}.")
        if (article, text) not in found:
            found[article, text] = (set(), set())
    for article, text, _, drug in _pairs(doses, None):
        if (article, text) in found and drug not in found[article, text][0]:
            found[article, text][0].add(drug)

    sentences: list[Sentence] = []
    of_article: Counter[str] = Counter()
    for (article, text), (entities, pairs) in sorted(found.items(), key=lambda item: int(item[0][0])):
        order = sorted(entities, key=lambda e: (e.start, e.end, e.label))
        number = {entity: i for i, entity in enumerate(order)}
        numbered = sorted((number[drug], number[effect]) for drug, effect in pairs)
        sentences.append(
            Sentence(
                id=f"ADE.{article}.s{of_article[article]}",
                document=f"ADE.{article}",
                corpus="ADE",
                split=_ade_split(article),
                text=text,
                entities=tuple(order),
                relations=tuple(Relation(drug, effect, ADVERSE) for drug, effect in numbered),
            )
        )
        of_article[article] += 1
    return sentences


def _ade_split(article: str) -> Split:
    share = int.from_bytes(hashlib.sha256(article.encode()).digest()[:4], "big") / 2**32
    return "test" if share < ADE_TEST_SHARE else "train"


def _lines(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from (line.rstrip("\r\n") for line in file if line.strip())


def _pairs(path: Path, label: Label | None) -> Iterator[tuple[str, str, Entity, Entity]]:
    """Article, sentence, and the two mentions of each line; the first is of `label`, or a dose, of no label here."""
    for line, row in enumerate(_lines(path), start=1):
        fields = row.split("|")
        try:
            article, text, other, other_at, _, drug, drug_at, _ = fields
            apart = int(drug_at) - int(other_at)
            first, second = _occurrences(text, other, drug, apart)
        except ValueError as error:
            raise CorpusError(f"{path.name}, line {line}: {error}") from error
        yield (
            article,
            text,
            Entity(first, first + len(other), label or "Compound"),
            Entity(second, second + len(drug), "Drug"),
        )


def _occurrences(text: str, other: str, drug: str, apart: int) -> tuple[int, int]:
    """Where the two stand whose distance comes nearest to `apart`; line breaks of the abstract may have changed it."""
    places = [
        (abs(d.start() - o.start() - apart), o.start(), d.start())
        for o in re.finditer(re.escape(other), text)
        for d in re.finditer(re.escape(drug), text)
    ]
    if not places:
        raise ValueError(f"{other!r} and {drug!r} do not both stand in the sentence {text[:60]!r}.")
    _, first, second = min(places)
    return first, second


# --------------------------------------------------------------------------------------------------------- chunks


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of whole sentences, as the ingestion takes them."""

    number: int
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(" ".join(sentence.text.split()) for sentence in self.sentences)


def tokens(text: str) -> int:
    """Number of words and punctuation marks."""
    return sum(1 for _ in TOKEN.finditer(text))


def chunks(sentences: Sequence[Sentence], size: int = CHUNK_TOKENS) -> list[Chunk]:
    """The text in chunks of at most `size` tokens (Methods, A), each of one corpus.

    Sentences keep their order and are never divided; one that is longer than a chunk is a chunk of its own.

    Raises:
        ValueError: the size is not positive.
    """
    if size < 1:
        raise ValueError(f"A chunk needs at least one token, not {size}.")
    parts: list[list[Sentence]] = []
    room = 0
    for sentence in sentences:
        length = tokens(sentence.text)
        if not parts or length > room or parts[-1][-1].corpus != sentence.corpus:
            parts.append([])
            room = size
        parts[-1].append(sentence)
        room -= length
    return [Chunk(number, tuple(part)) for number, part in enumerate(parts)]


def select(sentences: Iterable[Sentence], split: Split, *corpora: Corpus) -> list[Sentence]:
    """The sentences of one split, and of these corpora if any are named."""
    return [s for s in sentences if s.split == split and (not corpora or s.corpus in corpora)]
