"""DrugRAG's retrieval (drug_interactions.md, Methods, B and C): a question becomes Cypher, and its rows become facts.

A small model writes the statement after one example. One that fails or finds nothing goes back to it with the problem,
then is relaxed by rule; if still nothing is found, the graph is searched for the names in the question.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal, TypeAlias

from helpers.graph import Graph, Row
from helpers.llm import LLM, connect
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Fact
from papers.drug_interactions.graph import QUESTIONS, KnowledgeGraph, Store
from papers.drug_interactions.questions import Asked, answer_of
from rag.names import Vocabulary
from rag.prompts import chat_messages, user_message
from rag.text_to_cypher import Attempt, run_statement, write_and_run
from resources.services import ServiceError

Step = Literal["first_try", "repaired", "simplified"]
Prompt: TypeAlias = Callable[[str, str], list[dict[str, str]]]
"""What the model is asked, of the schema and the question."""

MOST_FACTS = 10
"""Names that a query may give to the answer, and facts of a keyword search (Methods, C: "top 10 results")."""

INSTRUCTION = """You translate a question into one openCypher statement that reads this graph.

{schema}

Interactions have no direction: match them without an arrowhead. Names are in lower case; copy them exactly from the
question. RETURN one column of names, called answer, and nothing else; for a yes-or-no question the name of the last
node, if the match holds. Write the statement only."""


def example_of(store: Store) -> tuple[str, str]:
    """The paper's own example (Methods, B), with letters in the place of names and the graph's labels and types."""
    drug, effect = store.labels["Drug"], store.labels["SideEffect"]
    return (
        "What adverse effects should be monitored when drug x is combined with drug y?",
        f"MATCH (d1:{drug} {{name: 'drug x'}})-[:{store.types[INTERACTS]}]-(d2:{drug} {{name: 'drug y'}})"
        f"-[:{store.types[CAUSES]}]->(s:{effect}) RETURN DISTINCT s.name AS answer",
    )


def is_right(asked: Asked, attempt: Attempt) -> bool:
    """Whether a statement ran and returned exactly the right names (execution accuracy).

    No rows are right for a no and for an unknown name; a statement that the server refuses is right for nothing.
    """
    ran = not attempt.problem or attempt.problem.startswith("No rows")
    return ran and answer_of(asked.form, asked.parameters, attempt.returned) == asked.answer


@dataclass(frozen=True)
class Retrieved:
    """What DrugRAG took from the graph for one question: the steps with their statements, and facts.

    The facts are the rows under their statement, or those of the search for names where no statement found any.

    `cut` says that the last reply reached its limit of tokens, `seconds` are those that the model took to write.
    """

    tried: tuple[tuple[Step, Attempt], ...]
    facts: tuple[str, ...] = ()
    cut: bool = False
    seconds: float = 0.0
    requests: tuple[str, ...] = ()

    @property
    def last(self) -> Attempt:
        """The statement whose rows count; it returned no names if it failed."""
        return self.tried[-1][1]

    def step(self, asked: Asked) -> Step | None:
        """The first step that gave what is right, if the last one has not found anything else; None if none did."""
        if (
            self.last.returned
            and answer_of(asked.form, asked.parameters, self.last.returned) != asked.answer
        ):
            return None
        return next((step for step, attempt in self.tried if is_right(asked, attempt)), None)


def small_beside(large: LLM, name: str) -> tuple[LLM, str]:
    """The model that writes Cypher, another one if it is named and served, else the large; and why it is the large."""
    if name in ("", large.endpoint.model):
        return large, "No second model was asked for; small_model names one."
    try:
        return connect(name, exact=True), ""
    except ServiceError as error:
        return large, str(error)


def cypher_prompt(
    schema: str, question: str, *, example: bool = True, store: Store = QUESTIONS
) -> list[dict[str, str]]:
    """The schema and the example, which all questions share, then the question."""
    return chat_messages(
        INSTRUCTION.format(schema=schema), question, [example_of(store)] if example else []
    )


def graphrag_prompt(schema: str, question: str) -> list[dict[str, str]]:
    """What the Text2CypherRetriever of the package neo4j-graphrag asks a model, without examples."""
    from neo4j_graphrag.generation.prompts import Text2CypherTemplate  # noqa: PLC0415  # takes two seconds

    asked = Text2CypherTemplate().format(schema=schema, examples="", query_text=question)
    return user_message(asked)


_ARROW = re.compile(r"<-(\[[^\]]*\])-|-(\[[^\]]*\])->")
_BETWEEN = re.compile(r"-\[\s*(\w*)\s*(?::([\w|:` ]*))?([^\]]*)\]-|(?<=\))\s*(<?)--(>?)\s*(?=\()")
_LABEL = re.compile(r"(\(\s*\w*)\s*:\s*\w+")
_NAME = re.compile(r"""'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)\"""", re.DOTALL)
_ESCAPED = re.compile(r"\\(['\"\\])")


def bounded(cypher: str, store: Store, *, loose: bool = False) -> str:
    """The statement with relationships of the store's types alone: other graphs in the database have the same names.

    A relationship without a type takes them all, and one with types of which the store has none matches nothing, as in
    a database of the store's own; `loose`, it takes them all too.
    """

    def between(match: re.Match[str]) -> str:
        written = re.findall(r"\w+", match[2] or "")
        own = [type for type in written if type in store.types.values()]
        types = (
            own
            or ([] if loose else [f"unknown_{type}" for type in written])
            or store.types.values()
        )
        return f"{match[4] or ''}-[{match[1] or ''}:{'|'.join(types)}{match[3] or ''}]-{match[5] or ''}"

    return _BETWEEN.sub(between, cypher)


def relaxed(cypher: str, vocabulary: Vocabulary, store: Store) -> str:
    """A statement without labels and directions, loosely `bounded`; each name as the graph spells one like it."""

    def spelled(match: re.Match[str]) -> str:
        written = _ESCAPED.sub(r"\1", match[1] if match[1] is not None else match[2])
        near = [
            vocabulary.normalise(written, role)
            for role in vocabulary.names
            if vocabulary.names[role]
        ]
        best = min((n for n in near if n.name), key=lambda n: n.distance, default=None)
        name = best.name if best and best.name else written
        return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"

    undirected = re.sub(
        r"(?<=\))\s*(?:<--|-->)\s*(?=\()", "--", _ARROW.sub(lambda m: f"-{m[1] or m[2]}-", cypher)
    )
    return _NAME.sub(spelled, _LABEL.sub(r"\1", bounded(undirected, store, loose=True)))


def text_to_cypher(
    llm: LLM,
    graph: Graph,
    content: KnowledgeGraph,
    questions: Sequence[str],
    *,
    prompt: Prompt | None = None,
    repairs: int = 1,
    fallbacks: bool = True,
    max_tokens: int = 96,
    store: Store = QUESTIONS,
) -> list[Retrieved]:
    """The small model writes a statement for each question, which is run, repaired and relaxed; its rows are the facts.

    `content` is what `store` holds; statements run read-only. `prompt` is `cypher_prompt` if it is None. One that fails
    or finds nothing goes back to the model `repairs` times; `fallbacks` relax it then, and search for names at last.
    """
    schema, vocabulary = store.schema(content), names_of(content)
    asking = prompt or partial(cypher_prompt, store=store)
    prompts = [asking(schema, question) for question in questions]
    found = []
    within = partial(bounded, store=store)
    written = write_and_run(
        llm, graph, prompts, repairs=repairs, max_tokens=max_tokens, within=within
    )
    for question, pairs in zip(questions, written, strict=True):
        tried: list[tuple[Step, Attempt]] = [
            ("repaired" if turn else "first_try", attempt)
            for turn, (attempt, _) in enumerate(pairs)
        ]
        last, reply = pairs[-1]
        if fallbacks and last.problem and last.cypher:
            last = run_statement(graph, relaxed(last.cypher, vocabulary, store))
            tried.append(("simplified", last))
        # nothing is looked up, so that a wrong statement misleads the answer as it would in the paper's system
        names = sorted(last.returned)
        facts = [f"{last.cypher} returned {len(names)} rows:", *names[:MOST_FACTS]] if names else []
        if fallbacks and not facts:
            facts = keyword_facts(content, vocabulary, question)
        seconds = sum(reply.seconds for _, reply in pairs)
        keys = tuple(reply.key for _, reply in pairs)
        found.append(Retrieved(tuple(tried), tuple(facts), reply.status == "cut", seconds, keys))
    return found


def names_of(content: KnowledgeGraph) -> Vocabulary:
    """The names of a graph, by what they are: drug or effect."""
    return Vocabulary.by_role(
        drug=(n for n, label in content.nodes.items() if label == "Drug"),
        effect=(n for n, label in content.nodes.items() if label == "SideEffect"),
    )


def sentence(stated: Fact) -> str:
    """A fact in the paper's words (System: graph retrieval component)."""
    verb = "interacts with" if stated.type == INTERACTS else "causes side-effect"
    return f"{stated.start} {verb} {stated.end}."


def keyword_facts(
    content: KnowledgeGraph, vocabulary: Vocabulary, question: str, most: int | None = MOST_FACTS
) -> list[str]:
    """The first `most` facts about a question's names: those of two of them first, then those most often stated."""
    names = {name for of_role in vocabulary.link(question).values() for name in of_role}
    about = [f for f in content.edges if not names.isdisjoint((f.start, f.end))]
    order = sorted(
        about, key=lambda f: (-len(names.intersection((f.start, f.end))), -len(content.edges[f]), f)
    )
    return [sentence(f) for f in order[:most]]


def right_query(
    graph: Graph, questions: Sequence[Asked], names: Mapping[str, str]
) -> list[frozenset[str]]:
    """What the query of each question's form returns from `QUESTIONS`, with `names` in place of names; no model."""
    found = []
    for question in questions:
        parameters: Row = {key: names.get(name, name) for key, name in question.parameters.items()}
        rows = graph.read_untrusted(question.form.cypher, **parameters).rows
        found.append(frozenset(str(row["answer"]) for row in rows))
    return found
