"""The knowledge graph of drug_interactions.md: facts merged into edges, loaded once, and asked.

The graphs of several chapters share one database, so that each has names of its own there (`Store`).
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
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Fact, Label, Sentence, facts
from rag.prompts import arm_of


@dataclass(frozen=True)
class Store:
    """A graph's names in the database: of the note on what is loaded, of its labels and its relationship types."""

    data_set: str
    labels: Mapping[Label, str]
    types: Mapping[str, str]

    def schema(self, content: KnowledgeGraph) -> str:
        """What is in the graph, as text for a prompt: labels, relationship patterns, and how many of each."""
        drug, effect = self.labels["Drug"], self.labels["SideEffect"]
        labels = Counter(content.nodes.values())
        lines = ["Nodes:"]
        lines += [
            f"  (:{self.labels[label]} {{name: STRING}})  {labels[label]} nodes"
            for label in sorted(labels)
        ]
        lines.append("Relationships:")
        for type, end, count in (
            (INTERACTS, drug, 2 * len(content.of_type(INTERACTS))),
            (CAUSES, effect, len(content.of_type(CAUSES))),
        ):
            lines.append(f"  (:{drug})-[:{self.types[type]}]->(:{end})  {count} relationships")
        return "\n".join(lines)


def _labels(prefix: str) -> dict[Label, str]:
    return {label: f"{prefix}{label}" for label in get_args(Label)}


INGESTED = Store("drug_interactions", _labels("Ddi"), {INTERACTS: INTERACTS, CAUSES: CAUSES})
"""The graph that an ingestion made, with the types as "System: ingestion module" spells them."""
QUESTIONS = Store(
    "drug_interactions_questions",
    _labels("Qa"),
    {INTERACTS: INTERACTS.lower(), CAUSES: CAUSES.lower()},
)
"""The graph that questions are asked of, with the types as the paper's example query spells them (Methods, B)."""
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
    """Label of each name, and merged edges with the ids of the sentences that state them.

    An interaction is one edge here, and two relationships in the database.
    """

    nodes: Mapping[str, Label]
    edges: Mapping[Fact, tuple[str, ...]]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the content."""
        edges = sorted((*fact, *sources) for fact, sources in self.edges.items())
        return hashlib.sha256(json.dumps([sorted(self.nodes.items()), edges]).encode()).hexdigest()

    def of_type(self, type: str) -> list[Fact]:
        """The edges of a type, in alphabetical order."""
        return sorted(fact for fact in self.edges if fact.type == type)

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
        """Side effects of what a drug interacts with."""
        return {
            effect
            for other in self.partners.get(name, ())
            for effect in self.effects.get(other, ())
        }

    def relationships(self) -> int:
        """Directed relationships in the database: two for an interaction."""
        return len(self.edges) + len(self.of_type(INTERACTS))


def knowledge_graph(sentences: Iterable[Sentence]) -> KnowledgeGraph:
    """Merge what sentences state.

    Every mention is a node, related or not (Table I counts entities), under the label that it has most often.
    """
    labels: dict[str, Counter[Label]] = defaultdict(Counter)
    stated: dict[str, set[Fact]] = {}
    for sentence in sentences:
        stated.setdefault(sentence.id, set()).update(facts(sentence))
        for entity in sentence.entities:
            labels[sentence.name(entity)][entity.label] += 1
    nodes = {
        name: max(sorted(counts), key=lambda label: counts[label])
        for name, counts in sorted(labels.items())
    }
    return _merged(nodes, stated)


def graph_of(stated: Mapping[str, Iterable[Fact]]) -> KnowledgeGraph:
    """Merge the facts that each source states, with no mentions known: what has an effect or interacts is a drug."""
    every = sorted(set().union(*stated.values()))
    nodes: dict[str, Label] = {fact.end: "SideEffect" for fact in every if fact.type == CAUSES}
    nodes |= {
        name: "Drug"
        for fact in every
        for name in (fact.start, fact.end)[: 1 + (fact.type == INTERACTS)]
    }
    return _merged(nodes, stated)


def _merged(nodes: Mapping[str, Label], stated: Mapping[str, Iterable[Fact]]) -> KnowledgeGraph:
    """One edge for each fact; what causes a side effect or interacts is never a side effect itself."""
    sources: dict[Fact, set[str]] = defaultdict(set)
    for source, of in stated.items():
        for fact in of:
            ends_in_effect = nodes[fact.end] == "SideEffect"
            if nodes[fact.start] != "SideEffect" and ends_in_effect == (fact.type == CAUSES):
                sources[fact].add(source)
    return KnowledgeGraph(nodes, {fact: tuple(sorted(of)) for fact, of in sorted(sources.items())})


def drug_graph(content: KnowledgeGraph) -> KnowledgeGraph:
    """The part that the paper's edges know: drugs, side effects, and what joins two drugs or a drug and an effect."""
    nodes = {name: label for name, label in content.nodes.items() if label != "Compound"}
    return KnowledgeGraph(
        nodes, {f: of for f, of in content.edges.items() if f.start in nodes and f.end in nodes}
    )


def load_graph(graph: Graph, content: KnowledgeGraph, store: Store = INGESTED) -> bool:
    """Load the graph unless it is there already, and say whether; other chapters' graphs are left alone."""
    with graph.load_once(store.data_set, content.digest) as missing:
        if missing:
            graph.clear(*store.labels.values())
            for label, stored in store.labels.items():
                graph.constraint(stored, "name")
                names = [{"name": name} for name, of in content.nodes.items() if of == label]
                graph.load_nodes(stored, names, "name", progress=False)
            rows: dict[tuple[str, Label, Label], list[dict[str, object]]] = defaultdict(list)
            for (type, one, other), sources in content.edges.items():
                for start, end in (
                    ((one, other), (other, one)) if type == INTERACTS else ((one, other),)
                ):
                    row = {
                        "start": start,
                        "end": end,
                        "mentions": len(sources),
                        "sources": list(sources),
                    }
                    rows[type, content.nodes[start], content.nodes[end]].append(row)
            for (type, first, second), of_type in rows.items():
                ends = (store.labels[first], "name", "start"), (store.labels[second], "name", "end")
                graph.load_edges(store.types[type], of_type, *ends, progress=False)
    return missing


def queries(content: KnowledgeGraph, n: int, seed: int) -> list[PlainUnit]:
    """About so many drugs that interact, drawn evenly: what with, in one hop; the side effects of that, in two."""
    drugs = [name for name in sorted(content.partners) if content.nodes[name] == "Drug"]
    drawn: list[str] = np.random.default_rng(seed).permutation(drugs)[:n].tolist()
    return [
        PlainUnit(f"{drug}, {hops}", drug, HOPS[hops], "; ".join(sorted(truth)), {"hops": hops})
        for drug in drawn
        for hops, truth in (
            ("one hop", content.partners[drug]),
            ("two hops", content.two_hops(drug)),
        )
    ]


@arm_of
def by_cypher(queries: Sequence[PlainUnit], graph: Graph) -> list[Answer]:
    """The loaded graph as an arm: whether it returns the right names, any at all, and seconds until the last row."""
    rows = []
    for query in queries:
        began = time.perf_counter()
        names = sorted(str(row["name"]) for row in graph.read(query.text, name=query.cluster))
        seconds = time.perf_counter() - began
        found = "; ".join(names)
        measures = {"right": found == query.gold, "answered": bool(names), "latency": seconds}
        told = {name: (float(value), 1.0) for name, value in measures.items()}
        rows.append(Answer(task="queries", predicted=found, measures=told))
    return rows
