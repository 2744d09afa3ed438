"""Cypher that a language model writes: read off its reply, run read-only, returned to it where it finds nothing."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from helpers.completions import Message, Reply
from helpers.graph import CypherRejected, Graph
from helpers.llm import LLM
from helpers.thoughts import without_thought


@dataclass(frozen=True)
class Attempt:
    """One statement: the names in its column, or the problem as worded for the model, and its seconds in the graph."""

    cypher: str
    returned: frozenset[str] = frozenset()
    problem: str = ""
    seconds: float = 0.0


REFUSED = "it is not valid Cypher, or uses what this graph does not have."
_FENCE = re.compile(r"```(?:\w+)?\s*(.*?)(?:```|\Z)", re.DOTALL)
_BEGIN = re.compile(r"\b(?:OPTIONAL\s+MATCH|MATCH|WITH|UNWIND|CALL|RETURN)\b", re.IGNORECASE)


def read_statement(reply: str) -> str:
    """The statement in a reply, within its first fence if any: from its first clause to a semicolon or empty line."""
    reply = without_thought(reply)
    text = fenced[1] if (fenced := _FENCE.search(reply)) else reply
    begun = _BEGIN.search(text)
    return re.split(r";|\n\s*\n", text[begun.start() :])[0].strip() if begun else ""


def run_statement(
    graph: Graph, cypher: str, *, max_rows: int = 100, timeout: float = 5.0
) -> Attempt:
    """Run a statement that a model wrote, read-only, and read its column of names: the only one, or `answer`."""
    if not cypher:
        return Attempt(cypher, problem="No statement: the reply holds none.")
    try:
        found = graph.read_untrusted(cypher, max_rows=max_rows, timeout=timeout)
    except CypherRejected as error:
        # no server's own words, so that the stored replies to it hold on every server
        why = REFUSED if error.kind == "Refused" else str(error)[:300]
        return Attempt(cypher, problem=f"{error.kind}: {why}")
    columns = list(found.rows[0]) if found.rows else []
    values = [row.get(columns[0] if len(columns) == 1 else "answer") for row in found.rows]
    problem = ""
    if found.truncated:
        problem = f"Too many rows: more than {max_rows}."
    elif not values:
        problem = "No rows: it matches nothing."
    elif not all(isinstance(value, str) for value in values):
        there = ", ".join(columns)
        return Attempt(
            cypher,
            problem=f"Wrong column: one column of names, called answer, is needed; found {there}.",
        )
    return Attempt(
        cypher, frozenset() if problem else frozenset(map(str, values)), problem, found.seconds
    )


def write_and_run(
    llm: LLM,
    graph: Graph,
    prompts: Iterable[Sequence[Message]],
    *,
    repairs: int,
    max_tokens: int,
    within: Callable[[str], str] = str,
) -> list[list[tuple[Attempt, Reply]]]:
    """The statements that a model writes for each prompt, each with its reply; repaired `repairs` times at most.

    `within` bounds a statement before it runs, where graphs share a database.
    """
    turns = [list(prompt) for prompt in prompts]
    tried: list[list[tuple[Attempt, Reply]]] = [[] for _ in turns]
    open_ = list(range(len(turns)))
    for label in ("write Cypher", *["repair Cypher"] * repairs):
        if not open_:
            break
        replies = llm.chat_many([turns[i] for i in open_], max_tokens=max_tokens, label=label)
        for i, reply in zip(open_, replies, strict=True):
            attempt = run_statement(graph, within(read_statement(reply.text)))
            tried[i].append((attempt, reply))
            turns[i] = [
                *turns[i],
                {"role": "assistant", "content": reply.text},
                {
                    "role": "user",
                    "content": f"{attempt.problem}\nWrite a corrected statement, and nothing else.",
                },
            ]
        open_ = [i for i in open_ if tried[i][-1][0].problem]
    return tried
