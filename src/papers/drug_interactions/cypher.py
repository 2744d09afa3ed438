"""DrugRAG's retrieval (drug_interactions.md, Methods, B and C): a question becomes Cypher, and its rows become facts.

A small model writes the statement after one example. One that fails or finds nothing goes back to it with the problem,
then is relaxed by rule; if still nothing is found, the graph is searched for the names in the question.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from helpers.graph import Graph, Row
from helpers.llm import LLM, connect
from helpers.rag.names import Vocabulary
from helpers.rag.prompts import chat
from helpers.rag.text_to_cypher import Attempt, run_statement, write_and_run
from helpers.services import ServiceError
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Fact, fact
from papers.drug_interactions.graph import QUESTIONS, KnowledgeGraph
from papers.drug_interactions.questions import NOT_KNOWN, Asked, answer_of

Step = Literal["first try", "repaired", "relaxed"]

MOST_FACTS = 10
"""Names that a query may give to the answer, and facts of a keyword search (Methods, C: "top 10 results")."""

INSTRUCTION = """You translate a question into one openCypher statement that reads this graph.

{schema}

Interactions have no direction: match them without an arrowhead. Names are in lower case; copy them exactly from the
question. RETURN one column of names, called answer, and nothing else; for a yes-or-no question the name of the last
node, if the match holds. Write the statement only."""

_DRUG, _EFFECT = QUESTIONS.labels["Drug"], QUESTIONS.labels["SideEffect"]
# the paper's own example (Methods, B), with letters in the place of names
EXAMPLE = (
    "What adverse effects should be monitored when drug x is combined with drug y?",
    f"MATCH (d1:{_DRUG} {{name: 'drug x'}})-[:{QUESTIONS.types[INTERACTS]}]-(d2:{_DRUG} {{name: 'drug y'}})"
    f"-[:{QUESTIONS.types[CAUSES]}]->(s:{_EFFECT}) RETURN DISTINCT s.name AS answer",
)


def is_right(asked: Asked, attempt: Attempt) -> bool:
    """Whether a statement ran and returned exactly the right names (execution accuracy).

    No rows are right for a no and for an unknown name; a statement that the server refuses is right for nothing.
    """
    ran = not attempt.problem or attempt.problem.startswith("No rows")
    return ran and answer_of(asked.form, asked.parameters, attempt.returned) == asked.answer


@dataclass(frozen=True)
class Tried:
    """A statement, the step that tried it, and whether the reply reached its limit of tokens and may lack its end."""

    step: Step
    attempt: Attempt
    cut: bool = False


@dataclass(frozen=True)
class Retrieved:
    """What DrugRAG took from the graph for one question: statements, and facts for the answer, in words.

    `by_keyword` says that no statement found anything, `seconds` are those the model took to write.
    """

    tried: tuple[Tried, ...]
    facts: tuple[str, ...]
    by_keyword: bool
    seconds: float
    requests: tuple[str, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        """What the last statement returned: nothing if it failed."""
        return self.tried[-1].attempt.returned

    @property
    def empty(self) -> bool:
        """Whether no statement found anything."""
        return not self.names

    def step(self, asked: Asked) -> Step | None:
        """The first step that gave what is right, if the last one has not found anything else; None if none did."""
        if self.names and answer_of(asked.form, asked.parameters, self.names) != asked.answer:
            return None
        return next((tried.step for tried in self.tried if is_right(asked, tried.attempt)), None)

    def reason(self, asked: Asked) -> str:
        """Why no step gave what is right; empty if one did."""
        if self.step(asked):
            return ""
        last = self.tried[-1]
        statement, problem = last.attempt.cypher.lower(), last.attempt.problem.split(":")[0]
        reasons = {
            "no statement in the reply": problem == "No statement",
            "statement cut off at its longest length": last.cut and problem in ("Refused", "Not allowed"),
            "a name of the question is not in the statement": any(
                n not in statement for n in asked.parameters.values()
            ),
            "a brand name, which the graph lacks": asked.form.kind == "brand",
            "no rows": problem == "No rows",
            "refused by the server": problem == "Refused",
            "more than reading": problem == "Not allowed",
            "ran too long": problem == "Stopped",
            "too many rows": problem == "Too many rows",
            "wrong column returned": problem == "Wrong column",
            "rows where there should be none": asked.form.role == "yes or no" or asked.answer == NOT_KNOWN,
            "some names missing": self.names < asked.answer,
            "names too many": self.names > asked.answer,
        }
        return next((reason for reason, holds in reasons.items() if holds), "other names")


def small_beside(large: LLM, name: str) -> tuple[LLM, str]:
    """The model that writes Cypher, another one if it is named and served, else the large; and why it is the large."""
    if name in ("", large.endpoint.model):
        return large, "No second model was asked for; small_model names one."
    try:
        return connect(name, exact=True), ""
    except ServiceError as error:
        return large, str(error)


# -------------------------------------------------------------------------------------------------------- statements


def cypher_prompt(
    schema: str, question: str, *, example: bool = True, history: Sequence[tuple[str, str]] = ()
) -> list[dict[str, str]]:
    """The schema and the example, which all questions share, then earlier turns (question, statement), then the
    question.
    """
    return chat(INSTRUCTION.format(schema=schema), question, [*([EXAMPLE] if example else []), *history])


_ARROW = re.compile(r"<-(\[[^\]]*\])-|-(\[[^\]]*\])->")
_LABEL = re.compile(r"(\(\s*\w*)\s*:\s*\w+")
_NAME = re.compile(r"'([^']*)'|\"([^\"]*)\"")


def relaxed(cypher: str, vocabulary: Vocabulary) -> str:
    """The statement without labels and directions, and with each name as the graph spells it, if it has one like it."""

    def spelled(match: re.Match[str]) -> str:
        written = match[1] if match[1] is not None else match[2]
        near = [vocabulary.normalise(written, role) for role in vocabulary.names if vocabulary.names[role]]
        best = min((n for n in near if n.name), key=lambda n: n.distance, default=None)
        name = best.name if best and best.name else written
        return "'" + name.replace("\\", "\\\\").replace("'", "\\'") + "'"

    undirected = _ARROW.sub(lambda match: f"-{match[1] or match[2]}-", cypher)
    return _NAME.sub(spelled, _LABEL.sub(r"\1", undirected))


def text_to_cypher(
    llm: LLM,
    graph: Graph,
    content: KnowledgeGraph,
    questions: Sequence[str],
    *,
    example: bool = True,
    repairs: int = 1,
    fallbacks: bool = True,
    histories: Sequence[Sequence[tuple[str, str]]] | None = None,
    max_tokens: int = 96,
) -> list[Retrieved]:
    """The small model writes a statement for each question, which is run, repaired, relaxed, and put into facts.

    Args:
        llm: the small model.
        graph: where `content` is loaded as `QUESTIONS`; statements run read-only.
        content: the same graph, for names and for putting rows into words.
        questions: in words.
        example: whether to show the one example.
        repairs: how often a statement that fails or finds nothing goes back to the model.
        fallbacks: whether to relax it then, and to search for names at last.
        histories: for each question, earlier ones with their statements.
        max_tokens: longest statement.
    """
    schema = QUESTIONS.schema(content)
    vocabulary = names_of(content)
    prompts = [
        cypher_prompt(schema, question, example=example, history=histories[i] if histories else ())
        for i, question in enumerate(questions)
    ]
    written = write_and_run(llm, graph, prompts, repairs=repairs, max_tokens=max_tokens)
    found = []
    for question, pairs in zip(questions, written, strict=True):
        of = [
            Tried("repaired" if turn else "first try", attempt, reply.status == "cut")
            for turn, (attempt, reply) in enumerate(pairs)
        ]
        last = of[-1]
        if fallbacks and last.attempt.problem and last.attempt.cypher:
            attempt = run_statement(graph, relaxed(last.attempt.cypher, vocabulary))
            of.append(Tried("relaxed", attempt, last.cut))
        final = of[-1].attempt
        facts = in_words(content, _quoted(final.cypher), final.returned)
        by_keyword = fallbacks and not facts
        if by_keyword:
            facts = keyword_facts(content, vocabulary, question)
        seconds = sum(reply.seconds for _, reply in pairs)
        found.append(Retrieved(tuple(of), tuple(facts), by_keyword, seconds, tuple(reply.key for _, reply in pairs)))
    return found


def _quoted(cypher: str) -> list[str]:
    return list(dict.fromkeys((a or b).lower() for a, b in _NAME.findall(cypher)))


# ------------------------------------------------------------------------------------------------------------- facts


def names_of(content: KnowledgeGraph) -> Vocabulary:
    """The names of a graph, by what they are: drug or effect."""
    return Vocabulary.of(
        drug=(n for n, label in content.nodes.items() if label == "Drug"),
        effect=(n for n, label in content.nodes.items() if label == "SideEffect"),
    )


def sentence(stated: Fact) -> str:
    """A fact in the paper's words (System: graph retrieval component)."""
    verb = "interacts with" if stated.type == INTERACTS else "causes side-effect"
    return f"{stated.start} {verb} {stated.end}."


def in_words(content: KnowledgeGraph, mentioned: Sequence[str], returned: Iterable[str]) -> list[str]:
    """The facts that lead from the names in a statement to the names that it returned, at most `MOST_FACTS` names.

    A name that no edge joins to a mentioned one is reached over one name between them; one that cannot be reached so
    stands alone.
    """
    sentences: list[str] = []
    for name in sorted(returned, key=lambda n: (-_weight(content, n, mentioned), n))[:MOST_FACTS]:
        steps = _joins(content, mentioned, name) or _bridges(content, mentioned, name)
        sentences += [sentence(f) for f in steps] or [f"Found: {name}."]
    return list(dict.fromkeys(sentences))


def _joins(content: KnowledgeGraph, mentioned: Sequence[str], name: str) -> list[Fact]:
    pairs = [(m, name) for m in mentioned if m != name]
    facts = [f for m, n in pairs for f in (fact(INTERACTS, m, n), fact(CAUSES, m, n), fact(CAUSES, n, m))]
    return [f for f in facts if f in content.edges]


def _bridges(content: KnowledgeGraph, mentioned: Sequence[str], name: str) -> list[Fact]:
    for m in mentioned:
        between = content.partners.get(m, set()).intersection(content.neighbours.get(name, ()))
        if between:
            middle = max(sorted(between), key=lambda x: len(content.neighbours[x]))
            return [fact(INTERACTS, m, middle), *_joins(content, [middle], name)]
    return []


def _weight(content: KnowledgeGraph, name: str, mentioned: Sequence[str]) -> int:
    """In how many sentences a name stands with the mentioned ones."""
    return sum(content.edges[f].mentions for f in _joins(content, mentioned, name))


def keyword_facts(
    content: KnowledgeGraph, vocabulary: Vocabulary, question: str, most: int | None = MOST_FACTS
) -> list[str]:
    """The first `most` facts about a question's names: those of two of them first, then those most often stated."""
    names = {name for of_role in vocabulary.link(question).values() for name in of_role}
    about = {f for name in names for f in _edges_of(content, name)}
    order = sorted(about, key=lambda f: (-len(names.intersection((f.start, f.end))), -content.edges[f].mentions, f))
    return [sentence(f) for f in order[:most]]


def _edges_of(content: KnowledgeGraph, name: str) -> list[Fact]:
    ends = content.neighbours.get(name, ())
    return _joins(content, list(ends), name)


# --------------------------------------------------------------------------------------------------- without a model


def right_query(
    graph: Graph, questions: Sequence[Asked], *, names: Mapping[str, str] | None = None
) -> list[frozenset[str]]:
    """What the query of each question's form returns from `QUESTIONS`, with `names` in place of names; no model."""
    found = []
    for question in questions:
        parameters: Row = {key: (names or {}).get(name, name) for key, name in question.parameters.items()}
        rows = graph.read_untrusted(question.form.cypher, **parameters).rows
        found.append(frozenset(str(row["answer"]) for row in rows))
    return found
