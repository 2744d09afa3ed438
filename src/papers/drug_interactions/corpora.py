"""Gold-labelled text for drug_interactions.md: the DDI corpus and ADE-Corpus-V2 as sentences, and the text in chunks.

The corpora stand in for the paper's two textbooks, which it does not name.
"""

import hashlib
import re
import xml.etree.ElementTree as ET
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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
CHUNK_TOKENS = 1000  # length of a chunk (Methods, A)
ADE_TEST_SHARE = 0.3
"""ADE-Corpus-V2 has no split; this share of its articles is the test split, by a hash of their number."""

TOKEN = re.compile(r"\w+|[^\w\s]")
TERMS: dict[str, list[str]] = yaml.safe_load(
    (DATA / "interaction_terms.yml").read_text(encoding="utf-8")
)
"""What the rules that read text know."""

# generic and brand names are drugs; groups of drugs and substances that are no medicine are the "other compounds"
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
    """Two related mentions by their numbers, of a side effect (`adverse`) the drug first, otherwise in text order."""

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
    return Fact(type, *sorted((one, other))) if type == INTERACTS else Fact(type, one, other)


def facts(sentence: Sentence) -> set[Fact]:
    """What a sentence states about two things of different names."""
    found = set()
    for relation in sentence.relations:
        one, other = (
            sentence.name(sentence.entities[i]) for i in (relation.first, relation.second)
        )
        if one != other:
            found.add(fact(CAUSES if relation.kind == ADVERSE else INTERACTS, one, other))
    return found


def read_ddi(path: Path) -> list[Sentence]:
    """The DDI corpus (Herrero-Zazo et al. 2013) from its archive, with the splits of SemEval 2013, task 9.

    `entities` is the test of recognition, whose interactions are not marked. A pair without a kind is read as `int`, a
    mention in several parts as one, from its first character to its last.

    Raises CorpusError: a file of the archive is not as expected.
    """
    sentences: list[Sentence] = []
    try:
        with zipfile.ZipFile(path) as archive:
            for name in sorted(
                n for n in archive.namelist() if n.endswith(".xml") and "__MACOSX" not in n
            ):
                place = PurePosixPath(name)
                split = _SPLITS[str(PurePosixPath(*place.parts[1:-2]))]
                corpus = place.parts[-2]
                if corpus not in ("DrugBank", "MedLine"):
                    raise CorpusError(
                        f"{name}: found the part {corpus!r}, needed DrugBank or MedLine."
                    )
                root = ET.fromstring(archive.read(name))  # noqa: S314  # expat of Python 3.11 bounds entity expansion
                sentences += [
                    _ddi_sentence(node, str(root.get("id")), corpus, split)  # type: ignore[arg-type]
                    for node in root.iter("sentence")
                ]
    except (zipfile.BadZipFile, ET.ParseError, KeyError, ValueError) as error:
        raise CorpusError(f"{path.name} is not the DDI corpus as released: {error}") from error
    return sentences


def _ddi_sentence(node: ET.Element, document: str, corpus: Corpus, split: Split) -> Sentence:
    marked: dict[str, Entity] = {}
    for entity in node.iter("entity"):
        parts = [
            tuple(map(int, part.split("-"))) for part in entity.attrib["charOffset"].split(";")
        ]
        # the last character is included in the file
        marked[entity.attrib["id"]] = Entity(
            parts[0][0], parts[-1][1] + 1, _LABELS[entity.attrib["type"]]
        )
    order = sorted(marked, key=lambda id: (marked[id].start, marked[id].end))
    number = {id: i for i, id in enumerate(order)}
    relations = []
    for pair in node.iter("pair"):
        if pair.attrib["ddi"] == "true":
            first, second = sorted((number[pair.attrib["e1"]], number[pair.attrib["e2"]]))
            relations.append(Relation(first, second, pair.get("type", "int")))
    mentions = tuple(marked[id] for id in order)
    return Sentence(
        node.attrib["id"], document, corpus, split, node.attrib["text"], mentions, tuple(relations)
    )


def read_ade(effects: Path, doses: Path, negatives: Path) -> list[Sentence]:
    """ADE-Corpus-V2 (Gurulingappa et al. 2012) from its three files.

    A line of `DRUG-AE.rel` is one drug and effect of a sentence, `DRUG-DOSE.rel` adds drugs that have a dose, and a
    sentence of `ADE-NEG.txt` tells of no adverse effect. The offsets count from the start of an abstract that is not
    released, so a pair is found as the two occurrences in its sentence that stand as far apart as the offsets do.

    Raises CorpusError: a line has not the fields it should have, or a pair is not in its sentence.
    """
    found: dict[tuple[str, str], tuple[set[Entity], set[tuple[Entity, Entity]]]] = defaultdict(
        lambda: (set(), set())
    )
    for key, effect, drug in _pairs(effects, "SideEffect"):
        found[key][0].update((effect, drug))
        found[key][1].add((drug, effect))
    for line, row in enumerate(lines(negatives), start=1):
        article, marker, text = (*row.split(" ", 2), "", "")[:3]
        if marker != "NEG":
            raise CorpusError(
                f"{negatives.name}, line {line}: needed 'number NEG sentence', found {row[:60]!r}."
            )
        found.setdefault((article, text), (set(), set()))
    for key, _, drug in _pairs(doses, "Compound"):
        if key in found:
            found[key][0].add(drug)

    sentences: list[Sentence] = []
    of_article: Counter[str] = Counter()
    for (article, text), (entities, pairs) in sorted(
        found.items(), key=lambda item: int(item[0][0])
    ):
        order = sorted(entities)
        number = {entity: i for i, entity in enumerate(order)}
        related = (
            Relation(*of, ADVERSE)
            for of in sorted((number[drug], number[effect]) for drug, effect in pairs)
        )
        share = int.from_bytes(hashlib.sha256(article.encode()).digest()[:4], "big") / 2**32
        split: Split = "test" if share < ADE_TEST_SHARE else "train"
        document, id = f"ADE.{article}", f"ADE.{article}.s{of_article[article]}"
        sentences.append(Sentence(id, document, "ADE", split, text, tuple(order), tuple(related)))
        of_article[article] += 1
    return sentences


def _pairs(path: Path, label: Label) -> Iterator[tuple[tuple[str, str], Entity, Entity]]:
    """Article and sentence, and the two mentions of each line: the first of `label`, the second a drug."""
    for line, row in enumerate(lines(path), start=1):
        try:
            article, text, other, other_at, _, drug, drug_at, _ = row.split("|")
            apart = int(drug_at) - int(other_at)
        except ValueError as error:
            raise CorpusError(f"{path.name}, line {line}: {error}") from error
        # line breaks of the abstract may have changed the distance
        places = [
            (abs(d.start() - o.start() - apart), o.span(), d.span())
            for o in re.finditer(re.escape(other), text)
            for d in re.finditer(re.escape(drug), text)
        ]
        if not places:
            missing = f"{other!r} and {drug!r} do not both stand in the sentence {text[:60]!r}."
            raise CorpusError(f"{path.name}, line {line}: {missing}")
        _, first, second = min(places)
        yield (article, text), Entity(*first, label), Entity(*second, "Drug")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A run of whole sentences, as the ingestion takes them."""

    number: int
    sentences: tuple[Sentence, ...]

    @property
    def text(self) -> str:
        """The sentences as one text."""
        return " ".join(" ".join(sentence.text.split()) for sentence in self.sentences)


def chunks(sentences: Sequence[Sentence], size: int = CHUNK_TOKENS) -> list[Chunk]:
    """The text in chunks of at most `size` tokens (Methods, A), each of one corpus; no sentence is divided.

    Raises ValueError: the size is not positive.
    """
    if size < 1:
        raise ValueError(f"A chunk needs at least one token, not {size}.")
    parts: list[list[Sentence]] = []
    room = 0
    for sentence in sentences:
        length = len(TOKEN.findall(sentence.text))
        if not parts or length > room or parts[-1][-1].corpus != sentence.corpus:
            parts.append([])
            room = size
        parts[-1].append(sentence)
        room -= length
    return [Chunk(number, tuple(part)) for number, part in enumerate(parts)]


def select(sentences: Iterable[Sentence], split: Split, *corpora: Corpus) -> list[Sentence]:
    """The sentences of one split, and of these corpora if any are named."""
    return [s for s in sentences if s.split == split and (not corpora or s.corpus in corpora)]
