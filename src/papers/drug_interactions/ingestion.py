"""An ingestion held against what people marked in the text, as rows of the table of answers; and what the page tells.

Tasks: `names` (mentions), `pairs` (relations, the mentions given), `facts` (from text to facts), `chunks` (the same, of
chunks that a language model reads too) and `queries` (to the loaded graph, see `graph`). Clustered by document.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence, Set as AbstractSet
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evaluation import figures
from evaluation.answers import Answer, PlainUnit
from evaluation.measures import set_measures
from evaluation.outcomes import Outcomes
from evaluation.published import Published
from evaluation.record import Run
from helpers.llm import LLM
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Chunk, Sentence, facts, select
from papers.drug_interactions.entities import Recogniser, dictionary, drugbank_names
from papers.drug_interactions.graph import KnowledgeGraph, graph_of, knowledge_graph
from papers.drug_interactions.relations import SCHEMA, Relater, chunk_prompt, parse_facts, trained

ARMS = {
    "dictionary": "Dictionary",
    "rules": "Dictionary and rules",
    "all_pairs": "All pairs of a sentence",
    "patterns": "Patterns",
    "classifier": "Classifier",
    "llm": "Language model",
    "graph": "Graph",
}
COLOURS = {"all_pairs": "#808080", "patterns": "#c35410", "classifier": "#125ee0", "llm": "#af219d"}

Sets: TypeAlias = Mapping[str, AbstractSet[Any]]
"""What is compared: measure -> members. The gold of the first one is shown to a reader."""
Arm: TypeAlias = Callable[[Sequence[PlainUnit]], list[Answer]]


def names(sentence: Sentence) -> Sets:
    """Mentions by both ends, and with their label; side effects in the DDI corpus are left out, for it marks none."""
    kept = [e for e in sentence.entities if sentence.corpus == "ADE" or e.label != "SideEffect"]
    return {"names": {(e.start, e.end, sentence.name(e)) for e in kept}, "labels": set(kept)}


def pairs(sentence: Sentence) -> Sets:
    """Related mentions (SemEval 2013, task 9.2, without the kind of interaction, which the paper's graph lacks)."""
    return {"pairs": {(relation.first, relation.second) for relation in sentence.relations}}


def stated(*sentences: Sentence) -> Sets:
    """The distinct facts of one or more sentences: two names and a relation."""
    return {"facts": set().union(*map(facts, sentences))}


TASKS: Mapping[str, Callable[[Sentence], Sets]] = {"names": names, "pairs": pairs, "facts": stated}


def read(
    methods: Mapping[str, Relater], sentences: Sequence[Sentence]
) -> dict[str, list[Sentence]]:
    """What each method finds in sentences of which it is given the mentions alone."""
    bare = [replace(sentence, relations=()) for sentence in sentences]
    return {name: method(bare) for name, method in methods.items()}


def measured(
    run: Run, task: str, gold: Sequence[Sentence], found: Mapping[str, Sequence[Sentence]]
) -> list[Answer]:
    """Rows of sentences: what each arm found, against what is marked; none where there is neither."""
    marked = list(map(TASKS[task], gold))
    units = [
        PlainUnit(s.id, s.document, s.text, _told(sets), _strata(s))
        for s, sets in zip(gold, marked, strict=True)
    ]
    arms = {arm: _arm(task, marked, map(TASKS[task], of)) for arm, of in found.items()}
    return [row for row in run.answer(arms, units) if row.measures]


def of_chunks(chunks: Sequence[Chunk]) -> list[PlainUnit]:
    """Chunks as units, each a cluster of its own."""
    ids = [f"chunk {chunk.number}" for chunk in chunks]
    return [
        PlainUnit(id, id, c.text, _told(stated(*c.sentences)), _strata(c.sentences[0]))
        for id, c in zip(ids, chunks, strict=True)
    ]


def in_chunks(chunks: Sequence[Chunk], found: Mapping[str, Sequence[Sentence]]) -> dict[str, Arm]:
    """The arms on whole chunks: the distinct facts that each found in the sentences of a chunk."""
    gold = [stated(*chunk.sentences) for chunk in chunks]
    by_id = {arm: {s.id: s for s in of} for arm, of in found.items()}
    return {
        arm: _arm(
            "chunks", gold, [stated(*(of[s.id] for s in chunk.sentences)) for chunk in chunks]
        )
        for arm, of in by_id.items()
    }


def _arm(task: str, gold: Sequence[Sets], found: Iterable[Sets]) -> Arm:
    """What was found in each text as an arm: precision, recall and F1 of each set."""
    rows = []
    for marked, sets in zip(gold, found, strict=True):
        scores = {name: set_measures(marked[name], sets[name]) for name in marked}
        measures = {
            f"{name}_{measure}": ratio
            for name, of in scores.items()
            for measure, ratio in of.items()
        }
        rows.append(Answer(task=task, predicted=_told(sets), measures=measures))
    return lambda _: rows


def by_llm(model: LLM, chunks: Sequence[Chunk], max_tokens: int) -> list[Answer]:
    """What a language model reads in each chunk, in JSON of a fixed schema, at temperature 0."""
    replies = model.chat_many(
        [chunk_prompt(chunk.text) for chunk in chunks],
        max_tokens=max_tokens,
        extra={
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "facts", "schema": SCHEMA},
            }
        },
        overflow="record",
        label="read chunks",
    )
    read = [parse_facts(reply.text, cut=reply.status == "cut") for reply in replies]
    rows = _arm(
        "chunks", [stated(*c.sentences) for c in chunks], [{"facts": of or set()} for of in read]
    )([])
    return [
        replace(row, **reply.columns, parsed=of is not None)
        for row, reply, of in zip(rows, replies, read, strict=True)
    ]


def spread(chunks: Sequence[Chunk], n: int) -> list[Chunk]:
    """So many chunks with something to find, spread evenly over the text."""
    full = [chunk for chunk in chunks if any(map(facts, chunk.sentences))]
    at = (
        np.unique(np.linspace(0, len(full) - 1, num=min(n, len(full))).round().astype(int))
        if full
        else []
    )
    return [full[i] for i in at]


def _strata(sentence: Sentence) -> dict[str, str]:
    return {"corpus": "ADE" if sentence.corpus == "ADE" else "DDI", "text": sentence.corpus}


def _told(sets: Sets) -> str:
    return "; ".join(" ".join(map(str, member)) for member in sorted(next(iter(sets.values()))))


def ingested(
    sentences: Sequence[Sentence], drugs: Sequence[str], effects: Sequence[str]
) -> KnowledgeGraph:
    """The graph that notebook 05 loads: names in the test text by dictionary and rules, relations by the classifier."""
    training, gold = (select(sentences, split) for split in ("train", "test"))
    reader = Recogniser(dictionary(training, [*drugs, *drugbank_names(sentences)], effects))
    return knowledge_graph(trained(training, reader)(reader.mark(gold)))


def read_graph(rows: Sequence[Answer]) -> KnowledgeGraph:
    """The graph of what a language model read: its rows of `by_llm`, each a chunk. What cannot be read adds nothing."""
    return graph_of(
        {row.requests[0]: parse_facts(row.answer or "", cut=row.cut) or () for row in rows}
    )


def table_one(
    printed: Published, graphs: Mapping[str, tuple[KnowledgeGraph, int, int]]
) -> pd.DataFrame:
    """Table I as printed, beside graphs of other text, each with the numbers of its chunks and its textbooks.

    An interaction counts as two relationships, as stored.
    """
    columns: dict[str, dict[str, str]] = {}
    for name, (graph, chunks, textbooks) in graphs.items():
        labels = list(graph.nodes.values())
        counts = {
            "textbooks": textbooks,
            "chunks": chunks,
            "nodes": len(labels),
            "drugs": labels.count("Drug"),
            "side_effects": labels.count("SideEffect"),
            "compounds": labels.count("Compound"),
            "edges": graph.relationships(),
            "interacts_with": 2 * len(graph.of_type(INTERACTS)),
            "causes_side_effect": len(graph.of_type(CAUSES)),
        }
        columns[name] = {key: figures.number(n, "count") for key, n in counts.items()}
        columns[name]["average_degree"] = f"{2 * graph.relationships() / len(labels):.2f}"
    return pd.DataFrame(
        [
            {"statistic": number.row, "printed": number.printed}
            | {name: of[number.id.rsplit(".", 1)[1]] for name, of in columns.items()}
            for number in printed.numbers
            if number.table == "Table I"
        ]
    )


def outcomes(run: Run, rows: Sequence[Answer], draws: int) -> Outcomes:
    """The rows with the names and colours of the arms."""
    return Outcomes(rows, labels=ARMS, colours=COLOURS, draws=draws, sample=run.sample)


def answer(out: Outcomes) -> str:
    """The page's answer in Markdown, from the rows."""

    def best(of: Outcomes) -> tuple[str, str]:
        arm = max(
            (arm for arm in of.arms if arm != "llm"),
            key=lambda arm: of.score("facts_f1", arm).value,
        )
        return f"the {out.label(arm).lower()}", figures.score_text(of.score("facts_f1", arm))

    (first, drugs), (second, effects) = (
        best(out.where(corpus=corpus, task="facts")) for corpus in ("DDI", "ADE")
    )
    chunks = out.where(task="chunks")
    arm, other = best(chunks)
    return (
        f"**{first.capitalize()} reads interactions from text with an F1 of {drugs}, and "
        f"{'' if second == first else f'{second} '}side effects with {effects}**, trained on the same corpora. A small "
        f"language model that reads whole chunks, without training, has an F1 of "
        f"{figures.score_text(chunks.score('facts_f1', 'llm'))}. On the same chunks, {arm} has {other}."
    )
