"""Compare an ingestion with what people marked in the text.

Tasks: `names` (mentions), `pairs` (relations, the mentions given), `facts` (from text to facts),
`chunks` (the same, of chunks that a language model reads too) and `queries` (to the loaded graph,
see `graph`). The rows are clustered by document.
"""

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evaluation import figures
from evaluation.answers import Answer, Measures, PlainUnit
from evaluation.measures import set_measures
from evaluation.outcomes import Outcomes
from evaluation.published import Published
from evaluation.record import Run
from helpers.llm import LLM
from papers.drug_interactions.corpora import (
    CAUSES,
    INTERACTS,
    Chunk,
    Entity,
    Sentence,
    facts,
    select,
)
from papers.drug_interactions.entities import Recogniser, build_dictionary, drugbank_names
from papers.drug_interactions.graph import KnowledgeGraph, graph_from_facts, knowledge_graph
from papers.drug_interactions.relations import (
    SCHEMA,
    Relater,
    chunk_prompt,
    parse_facts,
    train_classifier,
)

ARMS = {
    "dictionary": "Dictionary",
    "rules": "Dictionary and rules",
    "all_pairs": "All pairs of a sentence",
    "patterns": "Patterns",
    "classifier": "Classifier",
    "llm": "Language model",
    "graph": "Embedded graph",
    "neo4j": "Neo4j",
}
COLOURS = {
    "all_pairs": figures.HUES["grey"],
    "patterns": figures.HUES["blue"],
    "classifier": figures.HUES["blue"],
    "llm": figures.HUES["orange"],
}

Sets: TypeAlias = Mapping[str, AbstractSet[Any]]
"""What is compared: measure -> members. The gold of the first one is shown to a reader."""
Arm: TypeAlias = Callable[[Sequence[PlainUnit]], list[Answer]]


def name_sets(sentence: Sentence) -> Sets:
    """Return mentions by both ends, and with their label.

    Side effects in the DDI corpus are left out, for it marks none.
    """
    entities: Sequence[Entity] = sentence.entities
    if sentence.corpus != "ADE":
        entities = [entity for entity in entities if entity.label != "SideEffect"]
    names = {(entity.start, entity.end, sentence.name(entity)) for entity in entities}
    return {"names": names, "labels": set(entities)}


def pair_sets(sentence: Sentence) -> Sets:
    """Return the related mentions (SemEval 2013, task 9.2).

    They lack the kind of interaction, as the paper's graph does.
    """
    return {"pairs": {(relation.first, relation.second) for relation in sentence.relations}}


def fact_sets(*sentences: Sentence) -> Sets:
    """Return the distinct facts of one or more sentences: two names and a relation."""
    return {"facts": set().union(*map(facts, sentences))}


TASKS: Mapping[str, Callable[[Sentence], Sets]] = {
    "names": name_sets,
    "pairs": pair_sets,
    "facts": fact_sets,
}


def relate(
    methods: Mapping[str, Relater], sentences: Sequence[Sentence]
) -> dict[str, list[Sentence]]:
    """Let each method find relations in sentences of which it gets the mentions alone."""
    unrelated = [replace(sentence, relations=()) for sentence in sentences]
    return {name: method(unrelated) for name, method in methods.items()}


@dataclass(frozen=True)
class FoundSets:
    """What a method found in each text as an arm: precision, recall and F1 of each set.

    Attributes:
        task: The task of the rows.
        gold: What is marked in each text.
        found: What the method found in each text.
    """

    task: str
    gold: Sequence[Sets]
    found: Sequence[Sets]

    def __call__(self, units: Sequence[PlainUnit]) -> list[Answer]:
        """Score each text."""
        rows = []
        for gold, found in zip(self.gold, self.found, strict=True):
            measures = _compare_sets(gold, found)
            rows.append(Answer(task=self.task, predicted=_shown_members(found), measures=measures))
        return rows


def _compare_sets(gold: Sets, found: Sets) -> Measures:
    measures: dict[str, tuple[float, float]] = {}
    for name, members in gold.items():
        for measure, ratio in set_measures(members, found[name]).items():
            measures[f"{name}_{measure}"] = ratio
    return measures


def _shown_members(sets: Sets) -> str:
    """Return the members of the first set as text."""
    members = next(iter(sets.values()))
    texts = [" ".join(map(str, member)) for member in sorted(members)]
    return "; ".join(texts)


def score_task(
    run: Run, task: str, gold: Sequence[Sentence], found: Mapping[str, Sequence[Sentence]]
) -> list[Answer]:
    """Compare what each arm found in sentences with what is marked in them.

    Args:
        run: The run that makes the rows.
        task: A key of `TASKS`.
        gold: The sentences as marked.
        found: The same sentences as each arm reads them.

    Returns:
        A row of each arm and sentence; none where neither marks anything.
    """
    sets_of = TASKS[task]
    gold_sets = [sets_of(sentence) for sentence in gold]
    units = []
    for sentence, sets in zip(gold, gold_sets, strict=True):
        unit = PlainUnit(
            sentence.id,
            sentence.document,
            sentence.text,
            _shown_members(sets),
            _strata(sentence),
        )
        units.append(unit)
    arms: dict[str, Arm] = {}
    for arm, sentences in found.items():
        found_sets = [sets_of(sentence) for sentence in sentences]
        arms[arm] = FoundSets(task, gold_sets, found_sets)
    return [row for row in run.answer(arms, units) if row.measures]


def _strata(sentence: Sentence) -> dict[str, str]:
    return {"corpus": "ADE" if sentence.corpus == "ADE" else "DDI", "text": sentence.corpus}


def chunk_units(chunks: Sequence[Chunk]) -> list[PlainUnit]:
    """Make a unit of each chunk, a cluster of its own."""
    units = []
    for chunk in chunks:
        name = f"chunk {chunk.number}"
        gold = _shown_members(fact_sets(*chunk.sentences))
        units.append(PlainUnit(name, name, chunk.text, gold, _strata(chunk.sentences[0])))
    return units


def chunk_arms(
    chunks: Sequence[Chunk], found: Mapping[str, Sequence[Sentence]]
) -> dict[str, FoundSets]:
    """Return the arms on whole chunks: the distinct facts that each found in their sentences."""
    gold = _chunk_facts(chunks)
    arms = {}
    for arm, sentences in found.items():
        by_id = {sentence.id: sentence for sentence in sentences}
        found_facts = []
        for chunk in chunks:
            read_sentences = [by_id[sentence.id] for sentence in chunk.sentences]
            found_facts.append(fact_sets(*read_sentences))
        arms[arm] = FoundSets("chunks", gold, found_facts)
    return arms


def _chunk_facts(chunks: Sequence[Chunk]) -> list[Sets]:
    return [fact_sets(*chunk.sentences) for chunk in chunks]


READ_FORMAT = {
    "type": "json_schema",
    "json_schema": {"name": "facts", "schema": SCHEMA},
}
"""What the server is to hold the language model's answer to."""


@dataclass(frozen=True)
class ChunkReader:
    """A language model that reads chunks, in JSON of a fixed schema, at temperature 0."""

    model: LLM
    chunks: Sequence[Chunk]
    max_tokens: int

    def __call__(self, units: Sequence[PlainUnit]) -> list[Answer]:
        """Read each chunk. An answer that cannot be read states no fact."""
        replies = self.model.chat_many(
            [chunk_prompt(chunk.text) for chunk in self.chunks],
            max_tokens=self.max_tokens,
            extra={"response_format": READ_FORMAT},
            overflow="record",
            label="read chunks",
        )
        parsed = [parse_facts(reply.text, cut=reply.status == "cut") for reply in replies]
        found: list[Sets] = [{"facts": stated or frozenset()} for stated in parsed]
        scored = FoundSets("chunks", _chunk_facts(self.chunks), found)(units)
        rows = []
        for row, reply, stated in zip(scored, replies, parsed, strict=True):
            rows.append(replace(row, **reply.columns, parsed=stated is not None))
        return rows


def spread_chunks(chunks: Sequence[Chunk], n: int) -> list[Chunk]:
    """Return `n` chunks with something to find, spread evenly over the text."""
    telling = [chunk for chunk in chunks if any(map(facts, chunk.sentences))]
    if not telling:
        return []
    evenly = np.linspace(0, len(telling) - 1, num=min(n, len(telling)))
    positions = np.unique(evenly.round().astype(int))
    return [telling[position] for position in positions]


@dataclass(frozen=True)
class TextReader:
    """The ingestion of notebook 05: names by dictionary and rules, relations by the classifier."""

    recogniser: Recogniser
    relater: Relater

    def __call__(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Return the sentences with the names and relations that it finds."""
        return self.relater(self.recogniser.mark(sentences))


def train_reader(
    sentences: Sequence[Sentence],
    text: Sequence[Sentence],
    drugs: Sequence[str],
    effects: Sequence[str],
) -> TextReader:
    """Make a reader of text from the training split.

    Args:
        sentences: The corpora.
        text: What will be read; it decides which of DrugBank's names are looked for.
        drugs: A list of drugs.
        effects: A list of side effects.
    """
    training = select(sentences, "train")
    names = [*drugs, *drugbank_names([*sentences, *text])]
    recogniser = Recogniser(build_dictionary(training, names, effects))
    return TextReader(recogniser, train_classifier(training, recogniser))


def ingest(
    sentences: Sequence[Sentence], drugs: Sequence[str], effects: Sequence[str]
) -> KnowledgeGraph:
    """Make the graph that notebook 05 loads.

    It has the names in the test text by dictionary and rules, and relations by the classifier.
    """
    reader = train_reader(sentences, (), drugs, effects)
    return knowledge_graph(reader(select(sentences, "test")))


def read_graph(rows: Sequence[Answer]) -> KnowledgeGraph:
    """Return the graph of what a language model read: the rows of a `ChunkReader`.

    An answer that cannot be read adds nothing.
    """
    stated = {}
    for row in rows:
        stated[row.requests[0]] = parse_facts(row.answer or "", cut=row.cut) or ()
    return graph_from_facts(stated)


def table_one(
    printed: Published, graphs: Mapping[str, tuple[KnowledgeGraph, int, int]]
) -> pd.DataFrame:
    """Return Table I as printed, beside graphs of other text.

    An interaction counts as two relationships, as stored.

    Args:
        printed: The numbers of the paper.
        graphs: Each graph with the numbers of its chunks and its textbooks.
    """
    columns = {}
    for name, (graph, chunks, textbooks) in graphs.items():
        columns[name] = _graph_statistics(graph, chunks, textbooks)
    rows = []
    for number in printed.numbers:
        if number.table != "Table I":
            continue
        statistic = number.id.rsplit(".", 1)[1]
        row = {"statistic": number.row, "printed": number.printed}
        for name, column in columns.items():
            row[name] = column[statistic]
        rows.append(row)
    return pd.DataFrame(rows)


def _graph_statistics(graph: KnowledgeGraph, chunks: int, textbooks: int) -> dict[str, str]:
    """Return the statistics of Table I by the last word of their ids."""
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
    statistics = {name: figures.number(count, "count") for name, count in counts.items()}
    statistics["average_degree"] = f"{2 * graph.relationships() / len(labels):.2f}"
    return statistics


def outcomes(run: Run, rows: Sequence[Answer], draws: int) -> Outcomes:
    """Return the rows with the names and colours of the arms."""
    return Outcomes(rows, labels=ARMS, colours=COLOURS, draws=draws, sample=run.sample)


def answer(out: Outcomes) -> str:
    """Return the page's answer in Markdown: its conclusion, then a paragraph of details."""
    interactions, side_effects = (_facts(out, corpus) for corpus in ("DDI", "ADE"))
    drug_reader, effect_reader = (_best_reader(rows) for rows in (interactions, side_effects))
    conclusion = (
        f"Extraction by {METHOD_WORDS[drug_reader]} finds {_found_text(interactions, drug_reader)}"
    )
    if effect_reader == drug_reader:
        conclusion += f" and {_found_text(side_effects, effect_reader)}"
    else:
        other = METHOD_WORDS[effect_reader]
        conclusion += f", and by {other} it finds {_found_text(side_effects, effect_reader)}"
    chunks = out.where(task="chunks")
    return f"**{conclusion}.** {_language_model_text(chunks)}\n\n{_details(out)}"


METHOD_WORDS = {
    "all_pairs": "relating all names of a sentence",
    "patterns": "hand-written patterns",
    "classifier": "a classifier trained on annotated text of the same kind",
}
"""The ways of relating names without a language model, within a sentence."""
NAMES_OF_FACTS = {"DDI": "interactions", "ADE": "side effects"}
"""What the facts of each corpus are."""


def _facts(out: Outcomes, corpus: str) -> Outcomes:
    return out.where(corpus=corpus, task="facts")


def _found_text(facts: Outcomes, arm: str) -> str:
    """Name the facts of a corpus, with the F1 of an arm."""
    (corpus,) = facts.strata("corpus")
    f1 = figures.score_text(facts.score("facts_f1", arm))
    return f"{NAMES_OF_FACTS[corpus]} with an F1 of {f1}"


def _language_model_text(chunks: Outcomes) -> str:
    """Compare the language model with the best other arm on the same chunks, in a sentence."""
    reader = _best_reader(chunks)
    (comparison,) = chunks.compare([("llm", reader)], "facts_f1")
    own, other = (figures.number(score.value) for score in comparison.scores)
    n_chunks = chunks.frame.unit.nunique()
    read = "only chunk" if n_chunks == 1 else f"{n_chunks} chunks"
    return (
        f"On the {read} that both methods read, the F1 is {own} for a small "
        f"language model without training for this task and {other} for "
        f"{SHORT_METHOD_WORDS[reader]}, a difference of {figures.points(comparison.test)} points."
    )


SHORT_METHOD_WORDS = METHOD_WORDS | {"classifier": "the classifier"}
"""The same, where a classifier was named before."""


def _details(out: Outcomes) -> str:
    """Say what the methods were compared on."""
    n_sentences = {}
    for corpus in NAMES_OF_FACTS:
        n_sentences[corpus] = _facts(out, corpus).frame.unit.nunique()
    return (
        "For each kind of fact, no other method without a language model has a higher F1 than the "
        "method named above. A fact consists of two names and their relation. Each method reads "
        f"facts from the text alone. The scores cover {n_sentences['DDI']:,} sentences on "
        f"interactions and {n_sentences['ADE']:,} on side effects. Each of these sentences states "
        "a fact, or a method finds a fact in it."
    )


def _best_reader(rows: Outcomes) -> str:
    """Return the arm with the highest F1 that is no language model."""
    arms = [arm for arm in rows.arms if arm != "llm"]
    return max(arms, key=lambda arm: rows.score("facts_f1", arm).value)
