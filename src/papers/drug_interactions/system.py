"""DrugRAG on own text, ready to be asked: the arm `drugrag` of notebook 06, one question at a time.

with system.open_text(Path("leaflets")) as drugs:
    chat = system.Conversation(drugs)
    chat.ask("Which drugs interact with warfarin?")
    chat.ask("What about aspirin?")
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from evaluation.answers import Answer, PlainUnit
from helpers import graph, llm
from helpers.graph import Graph
from helpers.llm import LLM
from papers.drug_interactions import answering, corpora, cypher, own_text, qa
from papers.drug_interactions.corpora import INTERACTS, Fact
from papers.drug_interactions.cypher import History, Retrieved, TextToCypher, Turn
from papers.drug_interactions.graph import (
    QUESTIONS,
    KnowledgeGraph,
    Store,
    drug_graph,
    knowledge_graph,
    load_graph,
)
from papers.drug_interactions.own_text import OwnFolder, Source
from rag.names import Vocabulary
from rag.system_answer import Evidence, SystemAnswer
from resources import datasets, parameters
from resources.settings import NOTEBOOKS, settings

NOTEBOOK = "06_interactions_qa"
"""Its parameters are those of the system: models and lengths of replies."""
MAX_SOURCES = 3
"""Sentences that are cited for one fact."""
NO_QUESTION = "There is no question. Write one, such as: Which drugs interact with warfarin?"
EMPTY = (
    "No interaction or side effect was read from the text, so there is nothing to ask. A relation "
    "is read from a sentence that names both ends of it."
)
NOTHING = "The graph has no fact that answers this question."


def sizes(profile: str = "") -> dict[str, Any]:
    """Return the parameters of notebook 06 in a profile, by default that of the settings."""
    declared = parameters.declared(NOTEBOOKS / f"{NOTEBOOK}.ipynb")
    return declared | parameters.parameters(NOTEBOOK, profile or settings().profile)


@dataclass(frozen=True)
class Models:
    """The models of the two stages.

    Attributes:
        writer: Writes Cypher.
        answerer: Answers from the facts.
        cypher_tokens: Longest statement.
        answer_tokens: Longest answer.
        temperature: Of the answer.
    """

    writer: LLM
    answerer: LLM
    cypher_tokens: int = 96
    answer_tokens: int = 64
    temperature: float = 0.2

    @classmethod
    def connect(cls, folder: Path, profile: str = "") -> Models:
        """Connect to the models of notebook 06.

        Args:
            folder: Where the requests about own text are stored, apart from those of notebooks.
            profile: The profile whose models and lengths are used; empty for that of the settings.
        """
        size = sizes(profile)
        default = llm.connect(size["llm_model"], folder=folder)
        answerer, _ = cypher.model_beside(default, size["large_model"], folder=folder)
        writer, _ = cypher.model_beside(answerer, size["small_model"], folder=folder)
        return cls(
            writer, answerer, size["cypher_tokens"], size["answer_tokens"], size["temperature"]
        )


@dataclass
class Interactions:
    """A graph of drug interactions that is ready to be asked.

    Attributes:
        content: What the graph holds.
        sources: Where each sentence behind it stands, by its id.
        store: Names of the graph in the database.
        graph: The database.
        models: The models of the two stages.
    """

    content: KnowledgeGraph
    sources: Mapping[str, Source]
    store: Store
    graph: Graph
    models: Models

    def __enter__(self) -> Self:
        """Load the graph, unless it is there already."""
        load_graph(self.graph, self.content, self.store)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the connection; the graph stays."""
        self.graph.close()

    @cached_property
    def vocabulary(self) -> Vocabulary:
        """The names of the graph."""
        return cypher.names_of(self.content)

    def retrieve(self, question: str, history: History = ()) -> Retrieved:
        """Retrieve facts for a question (Methods, B and C)."""
        writer = TextToCypher(
            self.models.writer,
            self.graph,
            self.content,
            store=self.store,
            max_tokens=self.models.cypher_tokens,
        )
        (retrieved,) = writer([question], [history])
        return retrieved

    def ask(self, question: str, history: History = ()) -> SystemAnswer:
        """Answer a question, with the earlier ones of a conversation if there are any.

        No model answers where a name may be another one, or where the graph has no fact.
        """
        if not question.strip():
            return SystemAnswer(question, NO_QUESTION, answered=False)
        if not self.content.edges:
            return SystemAnswer(question, EMPTY, answered=False)
        retrieved = self.retrieve(question, history)
        doubts = []
        for name in retrieved.names:
            if name.query_back and name.written.lower() in question.lower():
                doubts.append(name.query_back)
        if doubts:
            return _without_answer(question, retrieved, " ".join(doubts))
        if not retrieved.facts:
            return _without_answer(question, retrieved, NOTHING)
        return self._answer(question, retrieved, history)

    def _answer(self, question: str, retrieved: Retrieved, history: History) -> SystemAnswer:
        arm = qa.EvidenceArm(
            "drugrag",
            self.models.answerer,
            answering.graph_evidence([retrieved]),
            self.vocabulary,
            self.models.answer_tokens,
            self.models.temperature,
            [history],
        )
        (row,) = arm([PlainUnit("own", "own", question, "", {})])
        facts = self._facts(question, retrieved)
        evidence, citations = self._cite(facts)
        return SystemAnswer(
            question,
            row.answer or "The model wrote nothing.",
            evidence=tuple(evidence),
            citations=tuple(citations),
            statement=retrieved.last.cypher,
            warnings=tuple(_check_completeness(retrieved)),
            notes=tuple(self._notes(question, retrieved, history, row)),
            details=_details(retrieved),
        )

    def _facts(self, question: str, retrieved: Retrieved) -> list[Fact]:
        """The facts behind what the model was shown."""
        if not retrieved.last.returned:
            facts = {cypher.sentence(fact): fact for fact in self.content.edges}
            return [facts[line] for line in retrieved.facts]
        names = cypher.quoted_names(retrieved.last.cypher)
        for linked in self.vocabulary.link(question).values():
            names += linked
        return own_text.support(self.content, names, retrieved.last.returned)

    def _cite(self, facts: Sequence[Fact]) -> tuple[list[Evidence], list[str]]:
        """Number the facts, and cite the sentences that state each."""
        evidence = []
        citations = []
        for number, fact in enumerate(facts, start=1):
            stated = [self.sources[name] for name in self.content.edges[fact][:MAX_SOURCES]]
            text = cypher.sentence(fact)
            places = "; ".join(dict.fromkeys(source.citation for source in stated))
            values = {"from": fact.start, "relation": fact.type, "to": fact.end}
            evidence.append(Evidence(f"[{number}] {text}", places, values))
            for source in stated:
                citations.append(
                    f"[{number}] {source.citation}: \N{LEFT DOUBLE QUOTATION MARK}"
                    f"{source.text}\N{RIGHT DOUBLE QUOTATION MARK}"
                )
        return evidence, citations

    def _notes(
        self, question: str, retrieved: Retrieved, history: History, row: Answer
    ) -> list[str]:
        """What a reader must know of the answer."""
        earlier = " ".join(turn.question for turn in history)
        asked_text = f"{earlier} {question}".lower()
        notes = _name_notes(retrieved, asked_text)
        returned = retrieved.last.returned
        if returned:
            notes += _statement_notes(retrieved, asked_text)
        else:
            notes.append("The statement found nothing; the graph was searched for the names.")
        if answering.abstains(row.answer or ""):
            notes += _lookup_notes(self.content, self._drugs_of(question, retrieved))
        shown_text = f"{asked_text} {' '.join(retrieved.facts)}"
        unsupported = self._names(row.answer or "") - self._names(shown_text)
        if unsupported:
            names = ", ".join(sorted(unsupported))
            notes.append(f"The answer also names what the facts do not hold: {names}.")
        return notes

    def _drugs_of(self, question: str, retrieved: Retrieved) -> list[str]:
        """The drugs of the graph that a question names, also by a brand or misspelt."""
        texts = [question]
        for match in retrieved.names:
            if match.name and match.written.lower() in question.lower():
                texts.append(match.name)
        return self.vocabulary.link("; ".join(texts))["drug"]

    def _names(self, text: str) -> set[str]:
        """The names of the graph in a text."""
        names: set[str] = set()
        for linked in self.vocabulary.link(text).values():
            names.update(linked)
        return names


def _without_answer(question: str, retrieved: Retrieved, text: str) -> SystemAnswer:
    notes = _name_notes(retrieved, question.lower())
    return SystemAnswer(
        question,
        text,
        answered=False,
        statement=retrieved.last.cypher,
        notes=tuple(notes),
        details=_details(retrieved),
    )


def _check_completeness(retrieved: Retrieved) -> Iterator[str]:
    """What speaks against a complete answer: the model reads only the first names or facts."""
    n_names = len(retrieved.last.returned)
    n_missing = n_names - cypher.MAX_FACTS
    if n_missing > 0:
        yield (
            f"The model read only {cypher.MAX_FACTS} of the {n_names:,} names that the graph "
            f"returned, so the answer may lack the other {n_missing:,}."
        )
    elif not n_names and len(retrieved.facts) == cypher.MAX_FACTS:
        yield (
            f"The model read only the first {cypher.MAX_FACTS} facts of the search, so the answer "
            "may lack others."
        )


def _statement_notes(retrieved: Retrieved, asked_text: str) -> list[str]:
    """What a reader must know of a statement that found rows."""
    notes = []
    corrected = {match.name for match in retrieved.names}
    for name in cypher.quoted_names(retrieved.last.cypher):
        if name.lower() not in asked_text and name not in corrected:
            notes.append(f"The statement names {name!r}, which the question does not.")
    return notes


def _name_notes(retrieved: Retrieved, asked_text: str) -> list[str]:
    """Each name in the question that was corrected, and each that the graph lacks."""
    notes = []
    for name in retrieved.names:
        if name.written.lower() not in asked_text:
            continue
        if name.correction:
            notes.append(name.correction)
        elif not name.query_back:
            notes.append(f"The graph has no {name.written!r}.")
    return notes


def _lookup_notes(content: KnowledgeGraph, drugs: Sequence[str]) -> list[str]:
    """What the graph has on the drugs of a question that the model answered with "Not known"."""
    if not drugs:
        return ["The question names no drug of the graph."]
    notes = [f"The graph has {drug}." for drug in drugs]
    linked_pairs = {frozenset((fact.start, fact.end)) for fact in content.of_type(INTERACTS)}
    for first, second in combinations(drugs, 2):
        found = "an" if frozenset((first, second)) in linked_pairs else "no"
        notes.append(f"The graph has {found} interaction between {first} and {second}.")
    return notes


def _details(retrieved: Retrieved) -> dict[str, Any]:
    steps = []
    for step, attempt in retrieved.attempts:
        steps.append({"step": step, "statement": attempt.cypher, "problem": attempt.problem})
    return {"rows": sorted(retrieved.last.returned), "statements": steps}


@dataclass
class Conversation:
    """Questions that follow one another (Methods, D: multi-turn dialogues).

    Attributes:
        system: The graph that is asked.
        turns: The questions that were answered so far.
    """

    system: Interactions
    turns: list[Turn] = field(default_factory=list)

    def ask(self, question: str) -> SystemAnswer:
        """Answer a question that may follow those before."""
        answer = self.system.ask(question, tuple(self.turns))
        if answer.answered:
            statement = answer.statement if answer.details["rows"] else ""
            self.turns.append(Turn(question, statement, answer.text))
        return answer


def open_text(folder: OwnFolder | Path, *, profile: str = "", data: str = "real") -> Interactions:
    """Make a folder of own documents ready to be asked; what was read before is not read again.

    Args:
        folder: Text, Markdown, HTML, PDF and Word files.
        profile: The profile whose models answer; empty for that of the settings.
        data: The annotated text that dictionary and classifier are made of: real, auto or sample.

    Raises:
        FolderError: There is no such folder, or nothing in it can be read.
    """
    own_folder = OwnFolder.read(folder) if isinstance(folder, Path) else folder
    own = own_text.ingest(own_folder, data=data)
    models = Models.connect(own_folder.home / "requests", profile)
    store = own_text.store_of(own_folder.path)
    return Interactions(own.content, own.sources, store, graph.connect(), models)


def open_book(*, profile: str = "", data: str = "real") -> Interactions:
    """Make the graph of notebook 06 ready to be asked: the annotated sentences of both corpora."""
    located = datasets.locate_all([corpora.DDI, *corpora.ADE], data)
    path = {name: file.path for name, file in located.items()}
    text = corpora.read_ddi(path[corpora.DDI])
    text += corpora.read_ade(*(path[name] for name in corpora.ADE))
    sentences = [sentence for sentence in text if sentence.split != "entities"]
    sources = {item.id: Source(item.text, item.document) for item in sentences}
    content = drug_graph(knowledge_graph(sentences))
    models = Models.connect(own_text.OWN / "book" / "requests", profile)
    return Interactions(content, sources, QUESTIONS, graph.connect(), models)


def forget(folder: Path, database: Graph | None = None) -> None:
    """Remove the graph of a folder, what was read of it, and what was asked about it.

    Args:
        folder: The folder of documents, which stay.
        database: The database; by default that of the settings.
    """
    database = database or graph.connect()
    database.clear(*own_text.store_of(folder).labels.values())
    own_text.forget_files(folder)
