"""Cypher that a model or a user wrote: what of it is refused, and how its result is bounded.

The look at the text and the look at the plan do not rest on each other: either alone refuses what does more than read.
"""

import asyncio
import re
from typing import Any, Literal, NamedTuple

import neo4j

from helpers.graph_driver import Row
from resources.settings import PublicError

STATEMENT_BYTES = 10_000  # the longest statement that is run
MESSAGE_CHARACTERS = (
    1_000  # the longest reason that is given: a server quotes the whole statement in its own
)

Refusal = Literal["Not allowed", "Refused", "Stopped"]  # by the guard; by the server; while it ran


class CypherRejected(PublicError, ValueError):
    """Untrusted Cypher that was not allowed, refused by the server, or stopped; the message says what is wrong."""

    def __init__(self, message: str, kind: Refusal = "Not allowed") -> None:
        """Keep the message's beginning and end if it is too long."""
        self.kind = kind
        if len(message) > MESSAGE_CHARACTERS:
            message = f"{message[: MESSAGE_CHARACTERS - 200]} [...] {message[-100:]}"
        super().__init__(message)


class Untrusted(NamedTuple):
    """What untrusted Cypher returned."""

    rows: list[Row]  # of plain JSON values
    truncated: bool  # there were more than `max_rows`; the rest was not fetched
    seconds: float  # from sending the statement, its plan checked, to the last row


# as Neo4j reads them: a backslash escapes what follows, so that the second of two begins no character by its number
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|.)", re.DOTALL)
_TEXT = re.compile(
    r"""'(?:\\.|[^'\\])*+' | "(?:\\.|[^"\\])*+" | `(?:``|[^`])*+` | //[^\n\r]* | /\*.*?\*/""",
    re.VERBOSE | re.DOTALL,
)
_READING = re.compile(r"(?:OPTIONAL\s+MATCH|MATCH|WITH|UNWIND|RETURN|CALL)\b", re.IGNORECASE)
# as a word of its own: not a property, label, type, parameter or map key of that name
_WRITING = re.compile(
    r"(?<![.:|$\w])(CREATE|MERGE|INSERT|SET|DELETE|DETACH|REMOVE|FOREACH|DROP|USE|"
    r"IN\s+(?:(?:\S+\s+)?CONCURRENT\s+)?TRANSACTIONS|"
    r"LOAD\s+CSV)\b(?!\s*:)",
    re.IGNORECASE,
)
_PROCEDURE = re.compile(r"(?<![.:|$\w])CALL\b(?!\s*[({])(?:\s*([\w.]+))?", re.IGNORECASE)
_FUNCTION = re.compile(r"(?<![.\w])(\w+)(?:\s*\.\s*\w+)+\s*\(")
_OWN_FUNCTIONS = {
    "date",
    "datetime",
    "time",
    "localtime",
    "localdatetime",
    "duration",
    "point",
    "vector",
}


def checked_statement(cypher: str) -> str:
    """The statement without its final semicolon; CypherRejected unless it looks like one reading statement."""
    try:
        size = len(cypher.encode())
    except UnicodeEncodeError:
        raise CypherRejected("It is not valid Unicode text.") from None
    if size > STATEMENT_BYTES:
        raise CypherRejected(f"It is {size:,} bytes long; at most {STATEMENT_BYTES:,} are run.")
    statement = cypher.strip().rstrip("; \t\r\n")
    # Neo4j reads \u0041 as A before anything else, the embedded server only inside quotes: look at both readings
    for reading in {
        statement,
        _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[0], statement),
    }:
        bare = _bare(reading).strip()
        if not bare:
            raise CypherRejected("It is empty.")
        if match := _WRITING.search(bare):
            raise CypherRejected(f"{match[1].upper()} is not allowed: only reading is.")
        if match := _PROCEDURE.search(bare):
            raise CypherRejected(f"Procedures are not allowed (CALL {match[1] or '...'}).")
        _check_functions(bare)
        if ";" in bare:
            raise CypherRejected("It holds several statements; give one.")
        if not _READING.match(bare):
            raise CypherRejected(
                f"It begins with {bare.split(maxsplit=1)[0][:30]!r}; a reading statement begins with MATCH, OPTIONAL "
                "MATCH, WITH, UNWIND, RETURN or the CALL of a subquery."
            )
    return statement


def _bare(text: str) -> str:
    """A text without its comments, and without what is between quotes."""
    kinds = {"`": " quoted ", "'": " 0 ", '"': " 0 "}
    return _TEXT.sub(lambda match: kinds.get(match[0][0], " "), text)


def _check_functions(bare: str) -> None:
    if match := next(
        (m for m in _FUNCTION.finditer(bare) if m[1].lower() not in _OWN_FUNCTIONS), None
    ):
        raise CypherRejected(f"Functions of extensions are not allowed ({match[0]}...)).")


# Neo4j's operators that only read the graph or compute, without "Partitioned", "Directed" and "Undirected" in front.
# What is missing here is refused: files and URLs, procedures, other databases, transactions, users, settings.
_OPERATORS = """
    AllNodesScan NodeByLabelScan UnionNodeByLabelsScan IntersectionNodeByLabelsScan SubtractionNodeByLabelsScan
    NodeByIdSeek NodeByElementIdSeek NodeIndexScan NodeIndexContainsScan NodeIndexEndsWithScan NodeIndexSeek
    NodeIndexSeekByRange NodeUniqueIndexSeek NodeUniqueIndexSeekByRange MultiNodeIndexSeek NodeCountFromCountStore
    AllRelationshipsScan RelationshipTypeScan UnionRelationshipTypesScan RelationshipByIdSeek
    RelationshipByElementIdSeek RelationshipIndexScan RelationshipIndexContainsScan RelationshipIndexEndsWithScan
    RelationshipIndexSeek RelationshipIndexSeekByRange RelationshipUniqueIndexSeek RelationshipUniqueIndexSeekByRange
    RelationshipCountFromCountStore
    Expand OptionalExpand VarLengthExpand ShortestPath StatefulShortestPath Repeat BidirectionalRepeat
    PathPropagatingBFS ProjectEndpoints
    Apply SemiApply AntiSemiApply LetSemiApply LetAntiSemiApply SelectOrSemiApply SelectOrAntiSemiApply
    LetSelectOrSemiApply LetSelectOrAntiSemiApply RollUpApply ConditionalApply AntiConditionalApply
    CartesianProduct NodeHashJoin ValueHashJoin NodeLeftOuterHashJoin NodeRightOuterHashJoin
    TriadicSelection TriadicBuild TriadicFilter AssertSameNode AssertSameRelationship
    Argument EmptyRow EmptyResult Optional Anti Filter Projection CacheProperties Unwind Eager NullifyMetadata
    EagerAggregation OrderedAggregation Distinct OrderedDistinct Union OrderedUnion
    Sort PartialSort Top PartialTop Limit ExhaustiveLimit Skip PreserveOrder ProduceResults
"""
_VARIANT = re.compile(r"^(?:Partitioned)?(?:Directed|Undirected)?|[(@].*")
_UNPLANNED = re.compile(r"\b(COLLECT|COUNT|EXISTS)\s*\{", re.IGNORECASE)
"""A subquery that is left in an expression, as in `[x IN xs | COLLECT { ... }]`: its operators are not in the plan."""


def check_plan(explained: neo4j.ResultSummary) -> None:
    """Look at what Neo4j itself, asked by EXPLAIN, says that a statement does; CypherRejected if not only reading."""
    if explained.query_type != "r" or explained.plan is None:
        raise CypherRejected(
            "It would change the graph, or ask for something else than the graph "
            f"(query type {explained.query_type!r}). Only reading is allowed."
        )
    waiting: list[dict[str, Any]] = [explained.plan]  # a plan can be deeper than Python's stack
    while waiting:
        step = waiting.pop()
        if (name := _VARIANT.sub("", step["operatorType"])) not in _OPERATORS.split():
            raise CypherRejected(
                f"Only reading the graph is allowed. The server plans the operator {name}."
            )
        details = str(step.get("args", {}).get("Details", ""))
        if match := _UNPLANNED.search(
            details
        ):  # also within quotes, for names are written without theirs
            raise CypherRejected(
                f"{match[1].upper()} {{...}} is allowed in no list, map or CASE: no plan shows it."
            )
        _check_functions(_bare(details))
        waiting += step.get("children", [])


class MeteredLoop(asyncio.SelectorEventLoop):
    """Breaks off with a server that sends more than `allowance` bytes: the driver reads a huge record whole."""

    allowance = 0

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # asyncio's own signature
        """A connection of which every byte counts."""
        transport, protocol = await super().create_connection(*args, **kwargs)
        receive = protocol.data_received

        def metered(data: bytes) -> None:
            self.allowance -= len(data)
            if self.allowance < 0:
                transport.abort()
            else:
                receive(data)

        protocol.data_received = metered
        return transport, protocol
