"""DrugRAG's retrieval (drug_interactions.md, Methods, B and C): a question, its Cypher, its facts.

A small model writes the statement after one example. One that fails or finds nothing goes back to
it with the problem, then is relaxed by rule; if still nothing is found, the graph is searched for
the names in the question. Brands and misspelt names are replaced by the graph's in both, which
`Retrieved.names` shows. In a conversation the model sees the earlier questions and statements.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias

from helpers.completions import Reply
from helpers.graph import Graph, Row
from helpers.llm import LLM, connect
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Fact
from papers.drug_interactions.graph import QUESTIONS, KnowledgeGraph, Store
from papers.drug_interactions.questions import Asked, answer_of
from rag.names import Normalised, Vocabulary
from rag.prompts import chat_messages, user_message, with_history
from rag.text_to_cypher import Attempt, run_statement, write_and_run
from resources.services import ServiceError

Step = Literal["first_try", "repaired", "simplified"]
Prompt: TypeAlias = Callable[[str, str], list[dict[str, str]]]
"""What the model is asked, of the schema and the question."""

MAX_FACTS = 10
"""Names of a query and facts of a search that the answer sees (Methods, C: "top 10 results")."""

INSTRUCTION = """You translate a question into one openCypher statement that reads this graph.

{schema}

Interactions have no direction: match them without an arrowhead. Names are in lower case; \
copy them exactly from the
question. RETURN one column of names, called answer, and nothing else; for a yes-or-no question \
the name of the last
node, if the match holds. Write the statement only."""


def example_of(store: Store) -> tuple[str, str]:
    """The paper's own example (Methods, B), with letters for names and the graph's labels."""
    drug, effect = store.labels["Drug"], store.labels["SideEffect"]
    return (
        "What adverse effects should be monitored when drug x is combined with drug y?",
        f"MATCH (d1:{drug} {{name: 'drug x'}})-[:{store.types[INTERACTS]}]-"
        f"(d2:{drug} {{name: 'drug y'}})"
        f"-[:{store.types[CAUSES]}]->(s:{effect}) RETURN DISTINCT s.name AS answer",
    )


@dataclass(frozen=True)
class Turn:
    """An earlier question of a conversation (Methods, D: "previous Q&A pairs").

    Attributes:
        question: Its words.
        statement: The statement that found its rows; empty if none did, for a model would copy it.
        answer: The answer.
    """

    question: str
    statement: str
    answer: str


History: TypeAlias = Sequence[Turn]
MAX_TURNS = 3
"""Earlier questions that a prompt holds."""


def is_right(question: Asked, attempt: Attempt) -> bool:
    """Whether a statement ran and returned exactly the right names (execution accuracy).

    No rows are right for a no and for an unknown name; a statement that the server refuses is
    right for nothing.
    """
    ran = not attempt.problem or attempt.problem.startswith("No rows")
    return ran and _answers(question, attempt)


def _answers(question: Asked, attempt: Attempt) -> bool:
    return answer_of(question.form, question.parameters, attempt.returned) == question.answer


@dataclass(frozen=True)
class Retrieved:
    """What DrugRAG took from the graph for one question.

    Attributes:
        attempts: The steps with their statements.
        facts: The rows under their statement, or what the search for names found where no
            statement found any.
        cut: Whether the last reply reached its token limit.
        seconds: Time that the model took to write.
        requests: Keys of its requests.
        names: Names that were replaced by the graph's, and those that it lacks, if a fallback ran.
    """

    attempts: tuple[tuple[Step, Attempt], ...]
    facts: tuple[str, ...] = ()
    cut: bool = False
    seconds: float = 0.0
    requests: tuple[str, ...] = ()
    names: tuple[Normalised, ...] = ()

    @property
    def last(self) -> Attempt:
        """The statement whose rows count; it returned no names if it failed."""
        return self.attempts[-1][1]

    def turn(self, question: str, answer: str) -> Turn:
        """Return the question as a turn of a conversation, with its answer."""
        statement = self.last.cypher if self.last.returned else ""
        return Turn(question, statement, answer)

    def step(self, question: Asked) -> Step | None:
        """The first step that was right; None if there is none, or if the last one was wrong."""
        if self.last.returned and not _answers(question, self.last):
            return None
        for step, attempt in self.attempts:
            if is_right(question, attempt):
                return step
        return None


def model_beside(
    large: LLM,
    name: str,
    parameter: str = "small_model",
    **options: Any,  # noqa: ANN401  # of a client
) -> tuple[LLM, str]:
    """Choose the model of a role beside the one that answers.

    Args:
        large: The model that answers.
        name: The model that is asked for.
        parameter: The parameter that names it.
        **options: Further arguments of `LLM`.

    Returns:
        The named model if it is served, else the large one; and why it is the large one.
    """
    if name in ("", large.endpoint.model):
        can_name = f"The parameter {parameter} of notebook 06 can name one."
        return large, f"No second model was asked for. {can_name}"
    try:
        return connect(name, exact=True, **options), ""
    except ServiceError as error:
        return large, str(error)


def cypher_prompt(
    schema: str, question: str, *, example: bool = True, store: Store = QUESTIONS
) -> list[dict[str, str]]:
    """Build the prompt: schema and example, which all questions share, then the question.

    Args:
        schema: The graph in words.
        question: The question in words.
        example: Whether to show the paper's example.
        store: Names of the graph in the database.
    """
    examples = [example_of(store)] if example else []
    return chat_messages(INSTRUCTION.format(schema=schema), question, examples)


def graphrag_prompt(schema: str, question: str) -> list[dict[str, str]]:
    """Build the prompt of the Text2CypherRetriever of neo4j-graphrag, without examples."""
    from neo4j_graphrag.generation.prompts import Text2CypherTemplate  # noqa: PLC0415  # takes two seconds

    text = Text2CypherTemplate().format(schema=schema, examples="", query_text=question)
    return user_message(text)


_ARROW = re.compile(r"<-(\[[^\]]*\])-|-(\[[^\]]*\])->")
_BARE_ARROW = re.compile(r"(?<=\))\s*(?:<--|-->)\s*(?=\()")
_RELATIONSHIP = re.compile(
    r"-\[\s*(?P<name>\w*)\s*(?::(?P<types>[\w|:` ]*))?(?P<rest>[^\]]*)\]-"
    r"|(?<=\))\s*(?P<left><?)--(?P<right>>?)\s*(?=\()"
)
_LABEL = re.compile(r"(\(\s*\w*)\s*:\s*\w+")
_NAME = re.compile(r"""'((?:\\.|[^'\\])*)'|"((?:\\.|[^"\\])*)\"""", re.DOTALL)
_ESCAPED = re.compile(r"\\(['\"\\])")


def bounded(cypher: str, store: Store, *, loose: bool = False) -> str:
    """Write a statement with relationships of the store's types alone.

    Other graphs in the database have the same names. A relationship without a type takes all types
    of the store.

    Args:
        cypher: The statement.
        store: Names of the graph in the database.
        loose: What becomes of a relationship whose types the store does not have: all types, or
            else one that matches nothing, as in a database of the store's own.
    """

    def bound(match: re.Match[str]) -> str:
        types = "|".join(_bounded_types(match["types"] or "", store, loose=loose))
        relationship = f"-[{match['name'] or ''}:{types}{match['rest'] or ''}]-"
        return f"{match['left'] or ''}{relationship}{match['right'] or ''}"

    return _RELATIONSHIP.sub(bound, cypher)


def _bounded_types(written: str, store: Store, *, loose: bool) -> Iterable[str]:
    names = re.findall(r"\w+", written)
    known = [name for name in names if name in store.types.values()]
    if known:
        return known
    if names and not loose:
        return [f"unknown_{name}" for name in names]
    return store.types.values()


def relaxed(cypher: str, vocabulary: Vocabulary, store: Store) -> str:
    """Write a statement without labels and directions, and each name as the graph spells it.

    Relationships are bounded loosely.
    """
    undirected = _BARE_ARROW.sub("--", _ARROW.sub(r"-\1\2-", cypher))
    unlabelled = _LABEL.sub(r"\1", bounded(undirected, store, loose=True))
    return _NAME.sub(lambda match: _spell(match, vocabulary), unlabelled)


def _spell(match: re.Match[str], vocabulary: Vocabulary) -> str:
    """A name in quotes, as the graph spells the name that is meant."""
    written = _unquote(match)
    name = meant_name(written, vocabulary).name or written
    escaped = name.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _unquote(match: re.Match[str]) -> str:
    quoted = match[1] if match[1] is not None else match[2]
    return _ESCAPED.sub(r"\1", quoted)


def quoted_names(cypher: str) -> list[str]:
    """Return the texts in quotes of a statement, each once."""
    names = [_unquote(match) for match in _NAME.finditer(cypher)]
    return list(dict.fromkeys(names))


def meant_name(written: str, vocabulary: Vocabulary) -> Normalised:
    """Find the graph's name, of any role, for a name in a statement: that with fewest edits."""
    matches = [vocabulary.resolve(written, role) for role in vocabulary.names]
    named = [match for match in matches if match.name]
    return min(named or matches, key=lambda match: (match.distance, match.is_other_name))


def names_of_statement(cypher: str, vocabulary: Vocabulary) -> list[Normalised]:
    """Return what becomes of the names in a statement that the graph does not have as written."""
    names = []
    for written in quoted_names(cypher):
        match = meant_name(written, vocabulary)
        if match.is_changed or not match.name:
            names.append(match)
    return names


@dataclass(frozen=True)
class TextToCypher:
    """The small model writes a statement for each question; its rows are the facts.

    Statements run read-only.

    Attributes:
        llm: The small model.
        graph: The database.
        content: What `store` holds there.
        store: Names of the graph in the database.
        prompt: Makes a prompt of schema and question; `cypher_prompt` if it is None.
        repairs: How often a statement that fails or finds nothing goes back to the model.
        fallbacks: Whether to relax a statement then, and to search for names at last.
        max_tokens: Longest reply.
    """

    llm: LLM
    graph: Graph
    content: KnowledgeGraph
    store: Store = QUESTIONS
    prompt: Prompt | None = None
    repairs: int = 1
    fallbacks: bool = True
    max_tokens: int = 96

    def __call__(
        self, questions: Sequence[str], histories: Sequence[History] = ()
    ) -> list[Retrieved]:
        """Retrieve facts for each question.

        Args:
            questions: The questions in words.
            histories: What each follows in a conversation; empty if none follows anything.
        """
        histories = histories or [()] * len(questions)
        vocabulary = names_of(self.content)
        retrieved = []
        written = self._write(questions, histories)
        for question, history, pairs in zip(questions, histories, written, strict=True):
            result = _retrieved(pairs)
            if self.fallbacks:
                result = self._relax(result, vocabulary)
            if self.fallbacks and not result.facts:
                text = _search_text(question, history, vocabulary)
                result = self._search(result, text, vocabulary)
            retrieved.append(result)
        return retrieved

    def _write(
        self, questions: Sequence[str], histories: Sequence[History]
    ) -> list[list[tuple[Attempt, Reply]]]:
        schema = self.store.schema(self.content)
        make_prompt = self.prompt or partial(cypher_prompt, store=self.store)
        prompts = []
        for question, history in zip(questions, histories, strict=True):
            turns = [(turn.question, turn.statement) for turn in history if turn.statement]
            prompts.append(with_history(make_prompt(schema, question), turns[-MAX_TURNS:]))
        return write_and_run(
            self.llm,
            self.graph,
            prompts,
            repairs=self.repairs,
            max_tokens=self.max_tokens,
            within=partial(bounded, store=self.store),
        )

    def _relax(self, result: Retrieved, vocabulary: Vocabulary) -> Retrieved:
        """Run the last statement once more, relaxed, if it has a problem."""
        last = result.last
        if not last.problem or not last.cypher:
            return result
        names = names_of_statement(last.cypher, vocabulary)
        relaxed_attempt = run_statement(self.graph, relaxed(last.cypher, vocabulary, self.store))
        attempts = (*result.attempts, ("simplified", relaxed_attempt))
        facts = tuple(_row_facts(relaxed_attempt))
        return replace(result, attempts=attempts, facts=facts, names=tuple(names))

    def _search(self, result: Retrieved, text: str, vocabulary: Vocabulary) -> Retrieved:
        """Search the graph for the names in a text, and for what its other names mean."""
        meant = vocabulary.meant_names(text)
        known = [match.name for match in meant if match.name]
        searched = "; ".join([text, *known])
        facts = keyword_facts(self.content, vocabulary, searched)
        names = {match.written.lower(): match for match in (*result.names, *meant)}
        return replace(result, facts=tuple(facts), names=tuple(names.values()))


def _search_text(question: str, history: History, vocabulary: Vocabulary) -> str:
    """Return the question, after the one before it if it names nothing, as "And its effects?"."""
    has_names = any(vocabulary.link(question).values())
    if has_names or not history or vocabulary.meant_names(question):
        return question
    return f"{history[-1].question} {question}"


def _name_steps(pairs: Sequence[tuple[Attempt, Reply]]) -> list[tuple[Step, Attempt]]:
    steps: list[tuple[Step, Attempt]] = []
    for attempt, _ in pairs:
        steps.append(("repaired" if steps else "first_try", attempt))
    return steps


def _row_facts(attempt: Attempt) -> list[str]:
    """The rows as they are: a wrong statement misleads the answer, as in the paper's system."""
    names = sorted(attempt.returned)
    if not names:
        return []
    return [f"{attempt.cypher} returned {len(names)} rows:", *names[:MAX_FACTS]]


def _retrieved(pairs: Sequence[tuple[Attempt, Reply]]) -> Retrieved:
    """Return what the model's own statements found."""
    replies = [reply for _, reply in pairs]
    attempts = _name_steps(pairs)
    return Retrieved(
        tuple(attempts),
        tuple(_row_facts(attempts[-1][1])),
        cut=replies[-1].status == "cut",
        seconds=sum(reply.seconds for reply in replies),
        requests=tuple(reply.key for reply in replies),
    )


def names_of(content: KnowledgeGraph) -> Vocabulary:
    """The names of a graph, by what they are: drug or effect."""
    drugs = [name for name, label in content.nodes.items() if label == "Drug"]
    effects = [name for name, label in content.nodes.items() if label == "SideEffect"]
    return Vocabulary.by_role(drug=drugs, effect=effects)


def sentence(stated: Fact) -> str:
    """A fact in the paper's words (System: graph retrieval component)."""
    verb = "interacts with" if stated.type == INTERACTS else "causes side-effect"
    return f"{stated.start} {verb} {stated.end}."


def keyword_facts(
    content: KnowledgeGraph,
    vocabulary: Vocabulary,
    question: str,
    max_facts: int | None = MAX_FACTS,
) -> list[str]:
    """Find facts about a question's names.

    Those about two of them come first, then those that are stated most often.

    Args:
        content: The graph.
        vocabulary: Its names.
        question: The question in words.
        max_facts: How many; None for all.
    """
    names: set[str] = set()
    for role_names in vocabulary.link(question).values():
        names.update(role_names)

    def order(fact: Fact) -> tuple[int, int, Fact]:
        return -len(names & {fact.start, fact.end}), -len(content.edges[fact]), fact

    about = [fact for fact in content.edges if names & {fact.start, fact.end}]
    return [sentence(fact) for fact in sorted(about, key=order)[:max_facts]]


def right_query(
    graph: Graph, questions: Sequence[Asked], names: Mapping[str, str]
) -> list[frozenset[str]]:
    """Run the query of each question's form on `QUESTIONS`, without a model.

    Args:
        graph: The database.
        questions: What is asked.
        names: Names to use in place of others.
    """
    answers = []
    for question in questions:
        parameters: Row = {key: names.get(name, name) for key, name in question.parameters.items()}
        rows = graph.read_untrusted(question.form.cypher, **parameters).rows
        returned = [str(row["answer"]) for row in rows]
        answers.append(frozenset(returned))
    return answers
