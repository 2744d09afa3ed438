"""An ingestion held against what people marked in the text, as rows of the table of answers; and what the page tells.

Tasks: `names` (mentions), `pairs` (relations, the mentions given), `facts` (from text to facts), `chunks` (the same, of
chunks that a language model reads too) and `queries` (to the loaded graph, see `graph`). Clustered by document.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from helpers.llm import LLM
from helpers.results import figures
from helpers.results.answers import Answer
from helpers.results.measures import of_sets
from helpers.results.outcomes import Outcomes
from helpers.results.published import Published
from helpers.results.record import Run
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Chunk, Sentence, facts
from papers.drug_interactions.graph import KnowledgeGraph
from papers.drug_interactions.relations import SCHEMA, Relater, chunk_prompt, parse_facts

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

Sets = Mapping[str, AbstractSet[Any]]
"""What is compared: measure -> members. The gold of the first one is shown to a reader."""


@dataclass(frozen=True)
class Text:
    """A sentence or a chunk, with the sets that people marked in it; see `Answer` for the other attributes."""

    unit: str
    cluster: str
    text: str
    strata: Mapping[str, str]
    marked: Sets

    @property
    def gold(self) -> str:
        """What is marked, in words."""
        return _told(self.marked)


Arm: TypeAlias = Callable[[Sequence[Text]], list[Answer]]


def names(sentence: Sentence) -> Sets:
    """Mentions by both ends, and with their label; side effects in the DDI corpus are left out, for it marks none."""
    kept = [e for e in sentence.entities if sentence.corpus == "ADE" or e.label != "SideEffect"]
    places = {(e.start, e.end, sentence.name(e)) for e in kept}
    return {"names": places, "labels": {(e.start, e.end, e.label) for e in kept}}


def pairs(sentence: Sentence) -> Sets:
    """Related mentions (SemEval 2013, task 9.2, without the kind of interaction, which the paper's graph lacks)."""
    return {"pairs": {(relation.first, relation.second) for relation in sentence.relations}}


def stated(*sentences: Sentence) -> Sets:
    """The distinct facts of one or more sentences: two names and a relation."""
    return {"facts": set().union(*map(facts, sentences))}


TASKS: Mapping[str, Callable[[Sentence], Sets]] = {"names": names, "pairs": pairs, "facts": stated}


def read(methods: Mapping[str, Relater], sentences: Sequence[Sentence]) -> dict[str, list[Sentence]]:
    """What each method finds in sentences of which it is given the mentions alone."""
    bare = [replace(sentence, relations=()) for sentence in sentences]
    return {name: method(bare) for name, method in methods.items()}


def measured(run: Run, task: str, gold: Sequence[Sentence], found: Mapping[str, Sequence[Sentence]]) -> list[Answer]:
    """Rows of sentences: what each arm found, against what is marked; none where there is neither."""
    sets = TASKS[task]
    units = [Text(s.id, s.document, s.text, _strata(s), sets(s)) for s in gold]
    arms = {arm: _arm(task, [sets(s) for s in of]) for arm, of in found.items()}
    return [row for row in run.answer(arms, units) if row.measures]


def of_chunks(chunks: Sequence[Chunk]) -> list[Text]:
    """Chunks as units, each a cluster of its own."""
    units = [(f"chunk {chunk.number}", chunk) for chunk in chunks]
    return [Text(unit, unit, c.text, _strata(c.sentences[0]), stated(*c.sentences)) for unit, c in units]


def in_chunks(chunks: Sequence[Chunk], found: Mapping[str, Sequence[Sentence]]) -> dict[str, Arm]:
    """The arms on whole chunks: the distinct facts that each found in the sentences of a chunk."""
    by_id = {arm: {s.id: s for s in of} for arm, of in found.items()}
    return {
        arm: _arm("chunks", [stated(*(of[s.id] for s in chunk.sentences)) for chunk in chunks])
        for arm, of in by_id.items()
    }


def _arm(task: str, found: Sequence[Sets]) -> Arm:
    """What was found in each text as an arm: precision, recall and F1 of each set."""

    def ask(units: Sequence[Text]) -> list[Answer]:
        rows = []
        for unit, sets in zip(units, found, strict=True):
            scores = {name: of_sets(gold, sets[name]) for name, gold in unit.marked.items()}
            measures = {f"{name}_{measure}": ratio for name, of in scores.items() for measure, ratio in of.items()}
            rows.append(Answer(task=task, predicted=_told(sets), measures=measures))
        return rows

    return ask


def by_llm(model: LLM, max_tokens: int) -> Arm:
    """The facts that a language model reads in each chunk, in JSON of a fixed schema, at temperature 0."""

    def ask(units: Sequence[Text]) -> list[Answer]:
        replies = model.chat_many(
            [chunk_prompt(unit.text) for unit in units],
            max_tokens=max_tokens,
            extra={"response_format": {"type": "json_schema", "json_schema": {"name": "facts", "schema": SCHEMA}}},
            overflow="record",
            label="read chunks",
        )
        read = [parse_facts(reply.text, cut=reply.status == "cut") for reply in replies]
        rows = _arm("chunks", [{"facts": of or set()} for of in read])(units)
        return [
            replace(
                row,
                answer=reply.text,
                parsed=of is not None,
                cut=reply.status == "cut",
                overflow=reply.status == "overflow",
                requests=[reply.key],
            )
            for row, reply, of in zip(rows, replies, read, strict=True)
        ]

    return ask


def spread(chunks: Sequence[Chunk], n: int) -> list[Chunk]:
    """So many chunks with something to find, spread evenly over the text."""
    full = [chunk for chunk in chunks if any(map(facts, chunk.sentences))]
    at = np.unique(np.linspace(0, len(full) - 1, num=min(n, len(full))).round().astype(int)) if full else []
    return [full[i] for i in at]


def _strata(sentence: Sentence) -> dict[str, str]:
    return {"corpus": "ADE" if sentence.corpus == "ADE" else "DDI", "text": sentence.corpus}


def _told(sets: Sets) -> str:
    return "; ".join(" ".join(map(str, member)) for member in sorted(next(iter(sets.values()))))


# --------------------------------------------------------------------------------------------------------------- page


def table_one(printed: Published, graphs: Mapping[str, tuple[KnowledgeGraph, int]]) -> pd.DataFrame:
    """Table I as printed, beside graphs of other text, each with the number of its chunks."""
    columns = {name: _counts(*made) for name, made in graphs.items()}
    return pd.DataFrame(
        [
            {"statistic": number.row, "printed": number.printed}
            | {name: of[number.id.rsplit(".", 1)[1]] for name, of in columns.items()}
            for number in printed.numbers
            if number.table == "Table I"
        ]
    )


def _counts(graph: KnowledgeGraph, chunks: int) -> dict[str, str]:
    """The statistics of Table I; an interaction counts as two relationships, as it is stored."""
    labels = list(graph.nodes.values())
    counts = {
        "textbooks": 0,
        "chunks": chunks,
        "nodes": len(labels),
        "drugs": labels.count("Drug"),
        "side_effects": labels.count("SideEffect"),
        "compounds": labels.count("Compound"),
        "edges": graph.relationships(),
        "interacts_with": 2 * len(graph.of_type(INTERACTS)),
        "causes_side_effect": len(graph.of_type(CAUSES)),
    }
    degree = 2 * graph.relationships() / len(labels)
    return {key: figures.number(n, "count") for key, n in counts.items()} | {"average_degree": f"{degree:.2f}"}


def outcomes(run: Run, rows: Sequence[Answer], draws: int) -> Outcomes:
    """The rows with the names and colours of the arms."""
    return Outcomes(rows, labels=ARMS, colours=COLOURS, draws=draws, sample=run.sample)


def answer(out: Outcomes) -> str:
    """The page's answer in Markdown, from the rows."""

    def best(of: Outcomes) -> str:
        return max((arm for arm in of.arms if arm != "llm"), key=lambda arm: of.score("facts_f1", arm).value)

    lines = []
    for corpus, what in (("DDI", "Interactions"), ("ADE", "Side effects")):
        mine = out.where(corpus=corpus)
        ends = mine.where(task="facts")
        arm = best(ends)
        f1, recall, precision = (_score(ends, f"facts_{measure}", arm) for measure in ("f1", "recall", "precision"))
        names = _score(mine, "names_recall", "rules")
        lines.append(
            f"- **{what}**: the highest F1 of facts is {f1} ({out.label(arm).lower()}), with a recall of {recall} and "
            f"a precision of {precision}. Dictionary and rules find {names} of the names."
        )
        # in ADE only related names are marked, so there the given mentions give the answer away
        if corpus == "DDI":
            lines[-1] += f" With all names given, F1 of related pairs is {_score(mine, 'pairs_f1', arm)}."
    chunks = out.where(task="chunks")
    arm = best(chunks)
    lines.append(
        f"- **A small language model** that reads whole chunks has an F1 of {_score(chunks, 'facts_f1', 'llm')}; on "
        f"the same chunks the best other method has {_score(chunks, 'facts_f1', arm)} ({out.label(arm).lower()})."
    )
    return "\n".join(lines)


def _score(out: Outcomes, measure: str, arm: str) -> str:
    return figures.score_text(out.score(measure, arm))
