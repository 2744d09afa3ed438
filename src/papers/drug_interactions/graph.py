"""The knowledge graph of drug_interactions.md: facts merged into edges, loaded once, and asked.

The graphs of several chapters share one database, so that each has names of its own there
(`Store`).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import get_args

import numpy as np

from evaluation.answers import Answer, PlainUnit
from helpers.graph import Graph
from papers.drug_interactions.corpora import (
    CAUSES,
    INTERACTS,
    Fact,
    Label,
    Sentence,
    facts,
    most_frequent,
)


@dataclass(frozen=True)
class Store:
    """A graph's names in the database.

    Attributes:
        data_set: The note on what is loaded.
        labels: The stored name of each label.
        types: The stored name of each type of relationship.
    """

    data_set: str
    labels: Mapping[Label, str]
    types: Mapping[str, str]

    def schema(self, content: KnowledgeGraph) -> str:
        """Return what is in the graph, as text for a prompt: labels, relationships, and counts."""
        drug, effect = self.labels["Drug"], self.labels["SideEffect"]
        interacts, causes = self.types[INTERACTS], self.types[CAUSES]
        n_interactions = 2 * len(content.of_type(INTERACTS))
        n_causes = len(content.of_type(CAUSES))
        n_nodes = Counter(content.nodes.values())
        nodes = [
            f"  (:{self.labels[label]} {{name: STRING}})  {n_nodes[label]} nodes"
            for label in sorted(n_nodes)
        ]
        relationships = [
            f"  (:{drug})-[:{interacts}]->(:{drug})  {n_interactions} relationships",
            f"  (:{drug})-[:{causes}]->(:{effect})  {n_causes} relationships",
        ]
        return "\n".join(["Nodes:", *nodes, "Relationships:", *relationships])


def _labels(prefix: str) -> dict[Label, str]:
    return {label: f"{prefix}{label}" for label in get_args(Label)}


INGESTED = Store("drug_interactions", _labels("Ddi"), {INTERACTS: INTERACTS, CAUSES: CAUSES})
"""The graph that an ingestion made, with the types as "System: ingestion module" spells them."""
QUESTIONS = Store(
    "drug_interactions_questions",
    _labels("Qa"),
    {INTERACTS: INTERACTS.lower(), CAUSES: CAUSES.lower()},
)
"""The graph that questions are asked of.

It has the types as the paper's example query spells them (Methods, B).
"""
READ = Store(
    "drug_interactions_read",
    _labels("Read"),
    {INTERACTS: "interactsWith", CAUSES: "causesSideEffect"},
)
"""The graph of what a language model read in chunks.

Graphs share a database, so each has labels and types of its own: a statement cannot cross over.
"""

_START = f"MATCH (:{INGESTED.labels['Drug']} {{name: $name}})-[:{INTERACTS}]-(other)"
HOPS = {
    "one hop": f"{_START} RETURN DISTINCT other.name AS name",
    "two hops": f"{_START}-[:{CAUSES}]->(effect) RETURN DISTINCT effect.name AS name",
}


@dataclass(frozen=True)
class KnowledgeGraph:
    """What sentences state. An interaction is one edge here, and two relationships when stored.

    Attributes:
        nodes: The label of each name.
        edges: The merged facts, with the ids of the sentences that state them.
    """

    nodes: Mapping[str, Label]
    edges: Mapping[Fact, tuple[str, ...]]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        nodes = sorted(self.nodes.items())
        edges = sorted((*fact, *sources) for fact, sources in self.edges.items())
        content = json.dumps([nodes, edges])
        return hashlib.sha256(content.encode()).hexdigest()

    def of_type(self, relation: str) -> list[Fact]:
        """Return the edges of a type, in alphabetical order."""
        return sorted(fact for fact in self.edges if fact.type == relation)

    @cached_property
    def effects(self) -> dict[str, set[str]]:
        """Side effects of each name that has any."""
        effects: dict[str, set[str]] = defaultdict(set)
        for _, drug, effect in self.of_type(CAUSES):
            effects[drug].add(effect)
        return effects

    @cached_property
    def partners(self) -> dict[str, set[str]]:
        """What each name interacts with, if anything."""
        partners: dict[str, set[str]] = defaultdict(set)
        for _, first, second in self.of_type(INTERACTS):
            partners[first].add(second)
            partners[second].add(first)
        return partners

    def two_hops(self, name: str) -> set[str]:
        """Return the side effects of what a drug interacts with."""
        effects: set[str] = set()
        for partner in self.partners.get(name, ()):
            effects.update(self.effects.get(partner, ()))
        return effects

    def relationships(self) -> int:
        """Count directed relationships in the database: two for an interaction."""
        return len(self.edges) + len(self.of_type(INTERACTS))


def knowledge_graph(sentences: Iterable[Sentence]) -> KnowledgeGraph:
    """Merge what sentences state.

    Every mention is a node, related or not (Table I counts entities), under the label that it has
    most often.
    """
    labels: dict[str, Counter[Label]] = defaultdict(Counter)
    stated: dict[str, set[Fact]] = {}
    for sentence in sentences:
        stated.setdefault(sentence.id, set()).update(facts(sentence))
        for entity in sentence.entities:
            labels[sentence.name(entity)][entity.label] += 1
    nodes = {name: most_frequent(counts) for name, counts in sorted(labels.items())}
    return _merge(nodes, stated)


def graph_from_facts(stated: Mapping[str, Iterable[Fact]]) -> KnowledgeGraph:
    """Merge the facts that each source states, with no mentions known.

    What has an effect or interacts is a drug.
    """
    all_facts = sorted(set().union(*stated.values()))
    nodes: dict[str, Label] = {}
    for fact in all_facts:
        if fact.type == CAUSES:
            nodes[fact.end] = "SideEffect"
    for fact in all_facts:
        nodes[fact.start] = "Drug"
        if fact.type == INTERACTS:
            nodes[fact.end] = "Drug"
    return _merge(nodes, stated)


def _merge(nodes: Mapping[str, Label], stated: Mapping[str, Iterable[Fact]]) -> KnowledgeGraph:
    """Make one edge of each fact.

    What causes a side effect or interacts is never a side effect itself.
    """
    sources: dict[Fact, set[str]] = defaultdict(set)
    for source, source_facts in stated.items():
        for fact in source_facts:
            ends_in_effect = nodes[fact.end] == "SideEffect"
            if nodes[fact.start] != "SideEffect" and ends_in_effect == (fact.type == CAUSES):
                sources[fact].add(source)
    edges = {fact: tuple(sorted(ids)) for fact, ids in sorted(sources.items())}
    return KnowledgeGraph(nodes, edges)


def drug_graph(content: KnowledgeGraph) -> KnowledgeGraph:
    """Return the part that the paper's edges know.

    It has drugs, side effects, and what joins two drugs or a drug and an effect.
    """
    nodes = {name: label for name, label in content.nodes.items() if label != "Compound"}
    edges = {}
    for fact, sources in content.edges.items():
        if fact.start in nodes and fact.end in nodes:
            edges[fact] = sources
    return KnowledgeGraph(nodes, edges)


def load_graph(graph: Graph, content: KnowledgeGraph, store: Store = INGESTED) -> bool:
    """Load the graph unless it is there already; other chapters' graphs are left alone.

    Returns:
        Whether it was loaded now.
    """
    with graph.load_once(store.data_set, content.digest) as missing:
        if missing:
            graph.clear(*store.labels.values())
            _load_nodes(graph, content, store)
            _load_edges(graph, content, store)
    return missing


def _load_nodes(graph: Graph, content: KnowledgeGraph, store: Store) -> None:
    for label, stored_label in store.labels.items():
        graph.constraint(stored_label, "name")
        rows = [{"name": name} for name, own_label in content.nodes.items() if own_label == label]
        graph.load_nodes(stored_label, rows, "name", progress=False)


def _load_edges(graph: Graph, content: KnowledgeGraph, store: Store) -> None:
    """Load the edges of each type and pair of labels together."""
    rows: dict[tuple[str, Label, Label], list[dict[str, object]]] = defaultdict(list)
    for fact, sources in content.edges.items():
        directions = [(fact.start, fact.end)]
        if fact.type == INTERACTS:
            directions.append((fact.end, fact.start))
        for start, end in directions:
            row = {"start": start, "end": end, "mentions": len(sources), "sources": list(sources)}
            rows[fact.type, content.nodes[start], content.nodes[end]].append(row)
    for (relation, start_label, end_label), edge_rows in rows.items():
        starts = store.labels[start_label], "name", "start"
        ends = store.labels[end_label], "name", "end"
        graph.load_edges(store.types[relation], edge_rows, starts, ends, progress=False)


def draw_queries(content: KnowledgeGraph, n: int, seed: int) -> list[PlainUnit]:
    """Draw about `n` drugs that interact, evenly, and ask two queries about each.

    The first, in one hop, asks what a drug interacts with; the second, in two hops, for the side
    effects of that, if there is such a chain.
    """
    drugs = [name for name in sorted(content.partners) if content.nodes[name] == "Drug"]
    drawn: list[str] = np.random.default_rng(seed).permutation(drugs)[:n].tolist()
    queries = []
    for drug in drawn:
        effects = content.two_hops(drug)
        chain = "with a chain" if effects else "without a chain"
        queries.append(_query(drug, "one hop", content.partners[drug]))
        queries.append(_query(drug, "two hops", effects, chain=chain))
    return queries


def _query(drug: str, hops: str, names: Iterable[str], **strata: str) -> PlainUnit:
    """Make a query of these right names."""
    gold = "; ".join(sorted(names))
    return PlainUnit(f"{drug}, {hops}", drug, HOPS[hops], gold, {"hops": hops, **strata})


def store_arm(graph: Graph) -> str:
    """Return the arm that queries to a graph are: the paper's store, or the embedded one."""
    return "graph" if graph.endpoint.embedded else "neo4j"


@dataclass(frozen=True)
class ByCypher:
    """The loaded graph as an arm.

    It measures whether the graph returns the right names, any at all, and seconds until the last
    row.
    """

    graph: Graph

    def __call__(self, queries: Sequence[PlainUnit]) -> list[Answer]:
        """Run each query."""
        return [self._run(query) for query in queries]

    def _run(self, query: PlainUnit) -> Answer:
        began = time.perf_counter()
        rows = self.graph.read(query.text, name=query.cluster)
        names = sorted(str(row["name"]) for row in rows)
        seconds = time.perf_counter() - began
        found = "; ".join(names)
        measures = {
            "right": (float(found == query.gold), 1.0),
            "answered": (float(bool(names)), 1.0),
            "latency": (seconds, 1.0),
        }
        return Answer(task="queries", predicted=found, measures=measures)
