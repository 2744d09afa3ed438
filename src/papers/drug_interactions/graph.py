"""The knowledge graph of drug_interactions.md: facts merged into edges, and the graph loaded once.

The graphs of several chapters share one database, so that each has names of its own there (`Store`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np

from helpers.graph import Graph
from helpers.results.answers import Answer
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Fact, Label, Sentence, facts


@dataclass(frozen=True)
class Store:
    """Under which names a graph lies in the database: of the note on what is loaded, the nodes, the relationships."""

    data_set: str
    labels: Mapping[Label, str]
    types: Mapping[str, str]

    def schema(self, content: KnowledgeGraph) -> str:
        """What is in the graph, as text for a prompt: labels, relationship patterns, and how many of each."""
        drug, effect = self.labels["Drug"], self.labels["SideEffect"]
        labels = Counter(content.nodes.values())
        lines = ["Nodes:"]
        lines += [f"  (:{self.labels[label]} {{name: STRING}})  {labels[label]} nodes" for label in sorted(labels)]
        lines.append("Relationships:")
        for type, end, count in (
            (INTERACTS, drug, 2 * len(content.of_type(INTERACTS))),
            (CAUSES, effect, len(content.of_type(CAUSES))),
        ):
            lines.append(f"  (:{drug})-[:{self.types[type]}]->(:{end})  {count} relationships")
        return "\n".join(lines)


LABELS: Mapping[Label, str] = {label: f"Ddi{label}" for label in get_args(Label)}
INGESTED = Store("drug_interactions", LABELS, {INTERACTS: INTERACTS, CAUSES: CAUSES})
"""The graph that an ingestion made, with the types as "System: ingestion module" spells them."""
QUESTIONS = Store(
    "drug_interactions_questions",
    {label: f"Qa{label}" for label in get_args(Label)},
    {INTERACTS: INTERACTS.lower(), CAUSES: CAUSES.lower()},
)
"""The graph that questions are asked of, with the types as the paper's example query spells them (Methods, B)."""

NEIGHBOURS = f"MATCH (:{LABELS['Drug']} {{name: $name}})-[:{INTERACTS}]-(other) RETURN DISTINCT other.name AS name"
TWO_HOPS = (
    f"MATCH (:{LABELS['Drug']} {{name: $name}})-[:{INTERACTS}]-(other)-[:{CAUSES}]->(effect) "
    "RETURN DISTINCT effect.name AS name"
)


@dataclass(frozen=True)
class Edge:
    """What is known of an edge: how many sentences state it, and which."""

    sources: tuple[str, ...]

    @property
    def mentions(self) -> int:
        """Number of sentences that state it."""
        return len(self.sources)


@dataclass(frozen=True)
class KnowledgeGraph:
    """Label of each name, and merged edges; an interaction is one edge, and two relationships in the database."""

    nodes: Mapping[str, Label]
    edges: Mapping[Fact, Edge]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        edges = sorted((*fact, *edge.sources) for fact, edge in self.edges.items())
        return hashlib.sha256(json.dumps([sorted(self.nodes.items()), edges]).encode()).hexdigest()

    def of_type(self, type: str) -> list[Fact]:
        """The edges of a type, in alphabetical order."""
        return sorted(fact for fact in self.edges if fact.type == type)

    @cached_property
    def neighbours(self) -> dict[str, set[str]]:
        """Names that each name shares an edge with."""
        found: dict[str, set[str]] = {name: set() for name in self.nodes}
        for _, start, end in self.edges:
            found[start].add(end)
            found[end].add(start)
        return found

    @cached_property
    def effects(self) -> dict[str, set[str]]:
        """Side effects of each name that has any."""
        found: dict[str, set[str]] = defaultdict(set)
        for _, drug, effect in self.of_type(CAUSES):
            found[drug].add(effect)
        return found

    @cached_property
    def partners(self) -> dict[str, set[str]]:
        """What each name interacts with, if anything."""
        found: dict[str, set[str]] = defaultdict(set)
        for _, one, other in self.of_type(INTERACTS):
            found[one].add(other)
            found[other].add(one)
        return found

    def two_hops(self, name: str) -> set[str]:
        """Side effects of what a drug interacts with, in plain Python."""
        return {effect for other in self.partners.get(name, ()) for effect in self.effects.get(other, ())}

    def relationships(self) -> int:
        """Directed relationships in the database: two for an interaction."""
        return len(self.edges) + len(self.of_type(INTERACTS))


def knowledge_graph(sentences: Iterable[Sentence]) -> KnowledgeGraph:
    """Merge what sentences state.

    Every mention is a node, related or not (Table I counts entities). A name with several labels gets the one that it
    has most often, and what causes a side effect or interacts is never one itself.
    """
    labels: dict[str, Counter[Label]] = defaultdict(Counter)
    sources: dict[Fact, set[str]] = defaultdict(set)
    for sentence in sentences:
        for entity in sentence.entities:
            labels[sentence.name(entity)][entity.label] += 1
        for fact in facts(sentence):
            sources[fact].add(sentence.id)
    nodes: dict[str, Label] = {}
    for name, counts in sorted(labels.items()):
        nodes[name] = max(sorted(counts), key=lambda label: counts[label])
    kept = {f: Edge(tuple(sorted(s))) for f, s in sorted(sources.items()) if _fits(f, nodes)}
    return KnowledgeGraph(nodes, kept)


def _fits(fact: Fact, nodes: Mapping[str, Label]) -> bool:
    is_effect = nodes[fact.end] == "SideEffect"
    return nodes[fact.start] != "SideEffect" and is_effect == (fact.type == CAUSES)


def drug_graph(content: KnowledgeGraph) -> KnowledgeGraph:
    """The part that the paper's edges know: drugs, side effects, and what joins two drugs or a drug and an effect."""
    nodes = {name: label for name, label in content.nodes.items() if label != "Compound"}
    return KnowledgeGraph(nodes, {f: e for f, e in content.edges.items() if f.start in nodes and f.end in nodes})


def load_graph(graph: Graph, content: KnowledgeGraph, store: Store = INGESTED) -> bool:
    """Load the graph unless it is there already, and say whether; other chapters' graphs are left alone."""
    with graph.load_once(store.data_set, content.digest) as missing:
        if missing:
            graph.clear(*store.labels.values())
            for label, stored in store.labels.items():
                graph.constraint(stored, "name")
                names = [{"name": name} for name, of in content.nodes.items() if of == label]
                graph.load_nodes(stored, names, "name", progress=False)
            for (type, start, end), rows in _directed(content).items():
                ends = (store.labels[start], "name", "start"), (store.labels[end], "name", "end")
                graph.load_edges(store.types[type], rows, *ends, progress=False)
    return missing


def _directed(content: KnowledgeGraph) -> dict[tuple[str, Label, Label], list[dict[str, object]]]:
    """Rows to load by type and labels of the ends; an interaction gives one in each direction."""
    rows: dict[tuple[str, Label, Label], list[dict[str, object]]] = defaultdict(list)
    for fact, edge in content.edges.items():
        ends = [(fact.start, fact.end)]
        if fact.type == INTERACTS:
            ends.append((fact.end, fact.start))
        for start, end in ends:
            rows[fact.type, content.nodes[start], content.nodes[end]].append(
                {"start": start, "end": end, "mentions": edge.mentions, "sources": list(edge.sources)}
            )
    return rows


@dataclass(frozen=True)
class Query:
    """A query about a drug; `text` is the Cypher, `cluster` the drug, `truth` the names that plain Python finds."""

    unit: str
    cluster: str
    text: str
    strata: Mapping[str, str]
    truth: frozenset[str]

    @property
    def gold(self) -> str:
        """The right names in words."""
        return "; ".join(sorted(self.truth))


def queries(content: KnowledgeGraph, n: int, seed: int) -> list[Query]:
    """About so many drugs that interact, drawn evenly: what with, in one hop; the side effects of that, in two."""
    drugs = [name for name in sorted(content.partners) if content.nodes[name] == "Drug"]
    drawn: list[str] = np.random.default_rng(seed).permutation(drugs)[:n].tolist()
    return [
        Query(f"{drug}, {hops}", drug, cypher, {"hops": hops}, frozenset(truth))
        for drug in drawn
        for hops, cypher, truth in (
            ("one hop", NEIGHBOURS, content.partners.get(drug, set())),
            ("two hops", TWO_HOPS, content.two_hops(drug)),
        )
    ]


def by_cypher(graph: Graph) -> Callable[[Sequence[Query]], list[Answer]]:
    """The loaded graph as an arm: whether it returns the right names, any at all, and seconds until the last row."""

    def ask(queries: Sequence[Query]) -> list[Answer]:
        rows = []
        for query in queries:
            began = time.perf_counter()
            names = sorted(str(row["name"]) for row in graph.read(query.text, name=query.cluster))
            seconds = time.perf_counter() - began
            measures = {"right": names == sorted(query.truth), "answered": bool(names), "latency": seconds}
            told = {name: (float(value), 1.0) for name, value in measures.items()}
            rows.append(Answer(task="queries", predicted="; ".join(names), measures=told))
        return rows

    return ask
