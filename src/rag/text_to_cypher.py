"""Cypher that a language model writes: read off its reply, run read-only, and repaired."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from helpers.completions import Message, Reply
from helpers.graph import CypherRejected, Graph, Untrusted
from helpers.llm import LLM
from helpers.thoughts import without_thought
from rag.replies import read_json


@dataclass(frozen=True)
class Attempt:
    """One statement that was run.

    Attributes:
        cypher: The statement; empty if the reply holds none.
        returned: The names in its column.
        problem: What is wrong with it, as worded for the model; empty if nothing is.
        seconds: Its time in the graph.
    """

    cypher: str
    returned: frozenset[str] = frozenset()
    problem: str = ""
    seconds: float = 0.0


REFUSED = "it is not valid Cypher, or uses what this graph does not have."
"""In place of a server's own words, so that stored replies to it hold on every server."""
MAX_PROBLEM_CHARACTERS = 300

_FENCE = re.compile(r"```(?:\w+)?\s*(.*?)(?:```|\Z)", re.DOTALL)
_PATTERN = re.compile(
    r"\b(?:OPTIONAL\s+)?MATCH\s*(?=\(|\w+\s*=|(?:ALL|ANY|SHORTEST)\b)"
    r"|^\s*(?:UNWIND|CALL|RETURN|WITH)\b",
    re.IGNORECASE | re.MULTILINE,
)
"""A clause that cannot be a word of prose: a pattern follows it, or it begins a line."""
_KEYWORD = re.compile(r"\b(?:OPTIONAL\s+MATCH|MATCH|WITH|UNWIND|CALL|RETURN)\b", re.IGNORECASE)
_BODY = re.compile(r"(?:'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|[^;])*", re.DOTALL)
"""All to the first semicolon outside quotes."""
_CLAUSE = re.compile(r"\s*(?:WITH|UNWIND|CALL|RETURN|WHERE|ORDER|SKIP|LIMIT|UNION)\b")
"""A line that goes on with a statement."""
_PROSE = re.compile(r"\n\s*(?:This|The|It|Here|Note|Explanation|In this)\b.*", re.DOTALL)
"""A remark below a statement."""
_CURLY_QUOTES = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"'})  # noqa: RUF001


def read_statement(reply: str) -> str:
    """Read the statement off a reply: from its first clause to a semicolon or an empty line.

    A statement in a fence goes before one outside, and a clause before a word of prose such as
    "with".

    Returns:
        The statement, or an empty text.
    """
    answer = without_thought(reply)
    if answer.lstrip().startswith(("{", "```")):
        answer = _unwrapped(answer)
    texts = _FENCE.findall(answer) or [answer]
    for begin in (_PATTERN, _KEYWORD):
        for text in texts:
            if match := begin.search(text):
                return _one_statement(text[match.start() :].lstrip())
    return ""


def _unwrapped(answer: str) -> str:
    """The only value of an answer that is a JSON object."""
    content = read_json(answer, dict)
    if content is None or len(content) != 1:
        return answer
    (statement,) = content.values()
    return str(statement)


def _one_statement(text: str) -> str:
    """The first statement of a text that begins with one."""
    body = _BODY.match(text)
    paragraphs = re.split(r"\n\s*\n", body[0] if body else text)
    statement = paragraphs[0]
    for paragraph in paragraphs[1:]:
        if re.search(r"\bRETURN\b", statement) or not _CLAUSE.match(paragraph):
            break
        statement = f"{statement}\n{paragraph}"
    statement = _PROSE.sub("", statement).strip().rstrip("`*").strip()
    if "'" not in statement and '"' not in statement:
        statement = statement.translate(_CURLY_QUOTES)
    return statement


def run_statement(
    graph: Graph, cypher: str, *, max_rows: int = 100, timeout: float = 5.0
) -> Attempt:
    """Run a statement that a model wrote, read-only, and read the names that it returns.

    The names are in its only column, or in the one called `answer`.

    Args:
        graph: The graph to read.
        cypher: One statement, or an empty text if the model wrote none.
        max_rows: More rows are a problem.
        timeout: Limit in seconds.
    """
    if not cypher:
        return Attempt(cypher, problem="No statement: the reply holds none.")
    try:
        result = graph.read_untrusted(cypher, max_rows=max_rows, timeout=timeout)
    except CypherRejected as error:
        reason = REFUSED if error.kind == "Refused" else str(error)[:MAX_PROBLEM_CHARACTERS]
        return Attempt(cypher, problem=f"{error.kind}: {reason}")
    if result.truncated:
        problem = f"Too many rows: more than {max_rows}."
        return Attempt(cypher, problem=problem, seconds=result.seconds)
    return _read_names(cypher, result)


def _read_names(cypher: str, result: Untrusted) -> Attempt:
    if not result.rows:
        problem = "No rows: it matches nothing."
        return Attempt(cypher, problem=problem, seconds=result.seconds)
    columns = list(result.rows[0])
    column = columns[0] if len(columns) == 1 else "answer"
    values = [row.get(column) for row in result.rows]
    names = frozenset(value for value in values if isinstance(value, str))
    if not all(isinstance(value, str) for value in values):
        problem = (
            "Wrong column: one column of names, called answer, is needed; found "
            f"{', '.join(columns)}."
        )
        return Attempt(cypher, problem=problem)
    return Attempt(cypher, names, seconds=result.seconds)


@dataclass
class Conversation:
    """A prompt with the statements that were tried for it.

    Attributes:
        messages: What the model is asked next.
        attempts: Each statement with the reply that holds it.
    """

    messages: list[Message]
    attempts: list[tuple[Attempt, Reply]] = field(default_factory=list)

    @property
    def is_open(self) -> bool:
        """Whether the last statement has a problem."""
        return bool(self.attempts[-1][0].problem)

    def add(self, attempt: Attempt, reply: Reply) -> None:
        """Add a statement, and ask for a better one."""
        self.attempts.append((attempt, reply))
        repair = f"{attempt.problem}\nWrite a corrected statement, and nothing else."
        self.messages = [
            *self.messages,
            {"role": "assistant", "content": reply.text},
            {"role": "user", "content": repair},
        ]


def write_and_run(
    llm: LLM,
    graph: Graph,
    prompts: Iterable[Sequence[Message]],
    *,
    repairs: int,
    max_tokens: int,
    within: Callable[[str], str] = str,
) -> list[list[tuple[Attempt, Reply]]]:
    """Let a model write a statement for each prompt, run it, and have it repaired.

    Args:
        llm: The model that writes.
        graph: The graph to read.
        prompts: The messages of each prompt.
        repairs: How often a statement that fails or finds nothing goes back to the model.
        max_tokens: Longest reply.
        within: Bounds a statement before it runs, where graphs share a database.

    Returns:
        For each prompt its statements, each with the reply that holds it.
    """
    conversations = [Conversation(list(prompt)) for prompt in prompts]
    pending = conversations
    for label in ["write Cypher", *["repair Cypher"] * repairs]:
        if not pending:
            break
        turns = [conversation.messages for conversation in pending]
        replies = llm.chat_many(turns, max_tokens=max_tokens, label=label)
        for conversation, reply in zip(pending, replies, strict=True):
            statement = within(read_statement(reply.text))
            conversation.add(run_statement(graph, statement), reply)
        pending = [conversation for conversation in pending if conversation.is_open]
    return [conversation.attempts for conversation in conversations]
