"""Own text into a graph by the ingestion of notebook 05, document by document.

What was read of a document is kept on this machine, in a folder of its own beside the derived
data: a run that was interrupted goes on with the next document. Nothing of it enters a table of
answers, a record or an export.
"""

from __future__ import annotations

import hashlib
import html
import json
import re
import shutil
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import combinations
from pathlib import Path

import pandas as pd
from filelock import FileLock
from spacy.lang.en import English
from tqdm import tqdm

from helpers import documents
from helpers.counting import counted
from helpers.documents import Document
from helpers.folders import printable
from helpers.graph_catalogue import OWN_PREFIX
from papers.drug_interactions import corpora, entities, ingestion
from papers.drug_interactions.corpora import (
    CAUSES,
    INTERACTS,
    Entity,
    Fact,
    Label,
    Relation,
    Sentence,
)
from papers.drug_interactions.graph import KnowledgeGraph, Store, knowledge_graph
from papers.drug_interactions.ingestion import TextReader
from resources import datasets
from resources.settings import DERIVED

OWN = DERIVED / "own" / "interactions"
"""A folder for each folder of documents that was read."""
VERSION = 1
"""Of how documents are read; those that another version read are read again."""
MAX_WORDS = 100
"""A longer run without a full stop, as in a table, is cut: pairs grow with its square."""
TRAINING_SECONDS = 60
"""On two cores: the corpora are read, and dictionary and classifier are made of them."""
SENTENCES_PER_SECOND = 100
"""On two cores."""
MAX_SHOWN = 8
"""Relations of each type in the summary; the page has all."""

CAUTION = (
    "This reading misses relations that the text states, and some that it finds are wrong: chapter "
    "05 measures both. Check them against the sentences."
)

_BLOCK = re.compile(r"\S.*?(?=\n[ \t]*\n|\Z)", re.DOTALL)
_WORD = re.compile(r"\S+")


@dataclass(frozen=True)
class Source:
    """Where a sentence stands.

    Attributes:
        text: The sentence.
        file: The name of its document.
        place: Its page or section; empty if the document has none.
    """

    text: str
    file: str
    place: str = ""

    @property
    def citation(self) -> str:
        """File and place, such as `leaflet.pdf, page 2`."""
        return ", ".join(filter(None, [self.file, self.place]))


@dataclass(frozen=True)
class Located:
    """A sentence with what was found in it, and its page or section."""

    sentence: Sentence
    place: str

    @property
    def source(self) -> Source:
        """Where it stands."""
        return Source(self.sentence.text, self.sentence.document, self.place)


def split_sentences(document: Document) -> list[Located]:
    """Split a document into sentences that know their pages or sections."""
    splitter = English()
    splitter.add_pipe("sentencizer")
    splitter.max_length = max(len(document.text), 1)
    located: list[Located] = []
    for start, end in _sentence_spans(splitter, document.text):
        text = " ".join(document.text[start:end].split())
        places = document.places_within(start, end)
        name = f"{document.name}#{len(located)}"
        sentence = Sentence(name, document.name, "Textbook", "test", text)
        located.append(Located(sentence, places[0].name if places else ""))
    return located


def _sentence_spans(splitter: English, text: str) -> Iterator[tuple[int, int]]:
    for block in _BLOCK.finditer(text):
        for span in splitter(block.group()).sents:
            start = block.start() + span.start_char
            yield from _parts(text, start, block.start() + span.end_char)


def _parts(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield a sentence in parts of at most `MAX_WORDS` words."""
    words = [match.span() for match in _WORD.finditer(text, start, end)]
    for first in range(0, len(words), MAX_WORDS):
        part = words[first : first + MAX_WORDS]
        yield part[0][0], part[-1][1]


@dataclass(frozen=True)
class OwnFolder:
    """A folder of documents, and what was read of it before.

    Attributes:
        path: The folder, without links.
        documents: Its documents.
        left_out: Why each other file was not read, by name.
    """

    path: Path
    documents: tuple[Document, ...]
    left_out: Mapping[str, str]

    @classmethod
    def read(cls, path: Path) -> OwnFolder:
        """Read the text of the documents; a FolderError says that there is none."""
        folder = documents.read_folder(path)
        return cls(path.resolve(), folder.documents, folder.left_out)

    @property
    def home(self) -> Path:
        """Where what was read of it is kept."""
        return home_of(self.path)

    @cached_property
    def sentences(self) -> dict[str, list[Located]]:
        """The sentences of each document, by its name; nothing is found in them yet."""
        return {document.name: split_sentences(document) for document in self.documents}

    def file_of(self, document: Document) -> Path:
        """Where what was read of a document is kept; its name changes with its text."""
        places = [(place.start, place.name) for place in document.places]
        content = json.dumps([VERSION, document.name, document.text, places])
        digest = hashlib.sha256(content.encode()).hexdigest()
        return self.home / "documents" / f"{digest[:32]}.json"

    @property
    def pending(self) -> list[Document]:
        """The documents that were not read before."""
        return [document for document in self.documents if not self.file_of(document).exists()]

    def estimate(self) -> str:
        """Return what reading it will take, in words."""
        n_pending = len(self.pending)
        n_sentences = sum(len(self.sentences[document.name]) for document in self.pending)
        if not n_pending:
            n_documents = len(self.documents)
            return f"{counted(n_documents, 'document was', 'documents were')} read before."
        sentences = counted(n_sentences, "sentence")
        minutes = (TRAINING_SECONDS + n_sentences / SENTENCES_PER_SECOND) / 60
        return (
            f"To be read: {n_pending:,} of {counted(len(self.documents), 'document')}, with "
            f"{sentences}: about {max(1, round(minutes))} min on two cores, without a model. "
            "Each question then asks the model two to four times, up to a minute on two cores."
        )


def home_of(path: Path) -> Path:
    """Return where what was read of a folder of documents is kept."""
    return OWN / _key(path)


def _key(path: Path) -> str:
    return hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:6]


def store_of(path: Path) -> Store:
    """Return the names of a folder's graph in the database: no other graph has them."""
    prefix = f"{OWN_PREFIX}{_key(path)}_"
    labels: dict[Label, str] = {
        "Drug": f"{prefix}Drug",
        "Compound": f"{prefix}Compound",
        "SideEffect": f"{prefix}SideEffect",
    }
    types = {INTERACTS: f"{prefix}interacts_with", CAUSES: f"{prefix}causes_side_effect"}
    return Store(f"{prefix}drug_interactions", labels, types)


def ingest(folder: OwnFolder, *, data: str = "real") -> OwnGraph:
    """Read the documents that were not read before, and make the graph of all.

    Args:
        folder: The documents.
        data: The annotated text that dictionary and classifier are made of: real, auto or sample.
            The bundled sample knows few names, so it stands in only where it is asked for.
    """
    (folder.home / "documents").mkdir(parents=True, exist_ok=True)
    with FileLock(folder.home / "ingestion.lock"):
        pending = folder.pending
        if pending:
            reader = _train(folder, data)
            for document in tqdm(pending, desc="read documents", unit="document"):
                found = reader([item.sentence for item in folder.sentences[document.name]])
                _save(folder.file_of(document), found, folder.sentences[document.name])
        located = []
        for document in folder.documents:
            located += _load(folder.file_of(document), document.name)
        own = OwnGraph.of_sentences(located, folder.left_out)
        _drop_other_files(folder)
        (folder.home / "graph.html").write_text(own.page(folder.path), encoding="utf-8")
    return own


def _train(folder: OwnFolder, data: str) -> TextReader:
    """Make dictionary and classifier of the corpora of notebook 05."""
    names = [corpora.DDI, *corpora.ADE, *entities.LISTS]
    path = {name: file.path for name, file in datasets.locate_all(names, data).items()}
    gold = corpora.read_ddi(path[corpora.DDI])
    gold += corpora.read_ade(*(path[name] for name in corpora.ADE))
    drugs, effects = (entities.read_names(path[name]) for name in entities.LISTS)
    own = [item.sentence for items in folder.sentences.values() for item in items]
    return ingestion.train_reader(gold, own, drugs, effects)


def _save(path: Path, found: Sequence[Sentence], located: Sequence[Located]) -> None:
    rows = []
    for sentence, item in zip(found, located, strict=True):
        row = asdict(sentence) | {"place": item.place}
        rows.append({key: row[key] for key in ("text", "place", "entities", "relations")})
    part = path.with_suffix(".part")
    part.write_text(json.dumps(rows), encoding="utf-8")
    part.replace(path)


def _load(path: Path, document: str) -> list[Located]:
    located = []
    for number, row in enumerate(json.loads(path.read_text(encoding="utf-8"))):
        mentions = tuple(Entity(*entity) for entity in row["entities"])
        relations = tuple(Relation(*relation) for relation in row["relations"])
        sentence = Sentence(
            f"{document}#{number}", document, "Textbook", "test", row["text"], mentions, relations
        )
        located.append(Located(sentence, row["place"]))
    return located


def _drop_other_files(folder: OwnFolder) -> None:
    """Remove what was read of documents that the folder no longer has."""
    current = {folder.file_of(document) for document in folder.documents}
    for path in (folder.home / "documents").iterdir():
        if path not in current:
            path.unlink()


def forget_files(path: Path) -> None:
    """Remove what was read of a folder of documents, and what was asked about it."""
    shutil.rmtree(home_of(path), ignore_errors=True)


@dataclass(frozen=True)
class OwnGraph:
    """The graph of own text, to look at before it is used.

    Attributes:
        content: Nodes and edges; groups of drugs that interact are drugs.
        sources: Where each sentence stands, by its id.
        left_out: Why each file that was not read was left out, by name.
        n_documents: Documents that were read.
        n_sentences: Their sentences.
        n_without_drug: Mentions of side effects in sentences that name no drug. No relation is
            read from such a sentence.
    """

    content: KnowledgeGraph
    sources: Mapping[str, Source]
    left_out: Mapping[str, str]
    n_documents: int
    n_sentences: int
    n_without_drug: int

    @classmethod
    def of_sentences(cls, located: Sequence[Located], left_out: Mapping[str, str]) -> OwnGraph:
        """Merge what the sentences state."""
        sentences = [item.sentence for item in located]
        return cls(
            with_groups_as_drugs(knowledge_graph(sentences)),
            {item.sentence.id: item.source for item in located},
            left_out,
            len({sentence.document for sentence in sentences}),
            len(sentences),
            sum(map(_effects_without_drug, sentences)),
        )

    def relations(self) -> pd.DataFrame:
        """Return a row for each relation and sentence that states it."""
        rows = []
        for fact, ids in self.content.edges.items():
            for name in ids:
                source = self.sources[name]
                row = {
                    "from": fact.start,
                    "relation": _verb(fact),
                    "to": fact.end,
                    "stated in": source.citation,
                    "sentence": source.text,
                }
                rows.append(row)
        return pd.DataFrame(rows, columns=["from", "relation", "to", "stated in", "sentence"])

    def counts(self) -> pd.DataFrame:
        """Return the numbers of Table I for this text."""
        labels = Counter(self.content.nodes.values())
        rows = {
            "documents": self.n_documents,
            "sentences": self.n_sentences,
            "drugs": labels["Drug"],
            "side effects": labels["SideEffect"],
            "other compounds": labels["Compound"],
            "interactions": len(self.content.of_type(INTERACTS)),
            "side effects of a drug": len(self.content.of_type(CAUSES)),
            "mentions of side effects in sentences without a drug": self.n_without_drug,
        }
        return pd.DataFrame(rows.items(), columns=["", "number"])

    def summary(self) -> str:
        """Return counts, the relations that are stated most often, and what was left out."""
        lines = [f"{name}: {number:,}" for name, number in self.counts().itertuples(index=False)]
        for relation in (INTERACTS, CAUSES):
            lines += self._relation_lines(relation)
        lines.append(CAUTION)
        lines += [f"Left out: {line}" for line in documents.describe(self.left_out)]
        return "\n".join(printable(line) for line in lines)

    def _relation_lines(self, relation: str) -> list[str]:
        """Return the relations of a type that are stated most often, and the number of others."""
        facts = self.content.of_type(relation)
        facts.sort(key=lambda fact: -len(self.content.edges[fact]))
        lines = []
        for fact in facts[:MAX_SHOWN]:
            first, *_ = self.content.edges[fact]
            citation = self.sources[first].citation
            lines.append(f"  {fact.start} {_verb(fact)} {fact.end} ({citation})")
        if len(facts) > MAX_SHOWN:
            lines.append(f"  and {len(facts) - MAX_SHOWN:,} more")
        return lines

    def page(self, path: Path) -> str:
        """Return a page with all that was read, for a browser."""
        title = html.escape(f"Graph of {path}")
        style = "body{font-family:sans-serif} td,th{padding:.2em .6em;text-align:left}"
        head = f"<meta charset=utf-8><title>{title}</title><style>{style}</style>"
        return f"<!doctype html>{head}<h1>{title}</h1>{self._repr_html_()}"

    def _repr_html_(self) -> str:
        """Return the tables for a notebook."""
        nodes = pd.DataFrame(sorted(self.content.nodes.items()), columns=["name", "kind"])
        tables = {
            "What was read": self.counts(),
            "Relations, with the sentences that state them": self.relations(),
            "Names": nodes,
            "Left out": pd.DataFrame(documents.describe(self.left_out), columns=["file: reason"]),
        }
        parts = []
        for title, table in tables.items():
            parts.append(f"<h2>{title}</h2>{table.to_html(index=False, escape=True)}")
        return f"<p>{CAUTION}</p>{''.join(parts)}"


def with_groups_as_drugs(content: KnowledgeGraph) -> KnowledgeGraph:
    """Label a group of drugs or a substance that interacts as a drug.

    The paper's interactions join drugs, so a statement asks for drugs alone: of "warfarin
    interacts with NSAIDs" it would miss the group.
    """
    nodes = dict(content.nodes)
    for fact in content.edges:
        for name in (fact.start, fact.end):
            if nodes[name] == "Compound":
                nodes[name] = "Drug"
    return KnowledgeGraph(nodes, content.edges)


def support(content: KnowledgeGraph, names: Iterable[str], returned: Iterable[str]) -> list[Fact]:
    """Find the facts that connect the names of a statement with those that it returned.

    They are the edges among the names, and for each returned name its edges to them, or else both
    edges of each chain over a third name.
    """
    starts = sorted({name.lower() for name in names})
    ends = sorted({name.lower() for name in returned})
    neighbours = _neighbours(content)
    facts: dict[Fact, None] = {}
    for name, other in combinations(starts, 2):
        if other in neighbours[name]:
            facts[neighbours[name][other]] = None
    for end in ends:
        around = neighbours[end]
        direct = [around[start] for start in starts if start in around]
        for fact in direct or _chains(neighbours, starts, end):
            facts[fact] = None
    return list(facts)


def _neighbours(content: KnowledgeGraph) -> dict[str, dict[str, Fact]]:
    """Return the edges of each name, by the name at their other end."""
    neighbours: dict[str, dict[str, Fact]] = defaultdict(dict)
    for fact in content.edges:
        neighbours[fact.start][fact.end] = fact
        neighbours[fact.end][fact.start] = fact
    return neighbours


def _chains(
    neighbours: Mapping[str, Mapping[str, Fact]], starts: Iterable[str], end: str
) -> Iterator[Fact]:
    """Yield the edges of each chain of two from a start to an end."""
    for start in starts:
        for middle, last in sorted(neighbours[end].items()):
            first = neighbours[start].get(middle)
            if first:
                yield from (first, last)


def _verb(fact: Fact) -> str:
    return "interacts with" if fact.type == INTERACTS else "causes side-effect"


def _effects_without_drug(sentence: Sentence) -> int:
    labels = Counter(entity.label for entity in sentence.entities)
    return 0 if labels["Drug"] + labels["Compound"] else labels["SideEffect"]
