"""Cypher that a model or a user wrote: what of it is refused, and how the rest is run within bounds.

The look at the text and the look at the plan do not rest on each other: either alone refuses what does more than read.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import neo4j
from neo4j.exceptions import DriverError, Neo4jError

from helpers.graph_driver import Row, driving, explained, first_line, plain_row
from helpers.services import GraphEndpoint
from helpers.settings import PublicError

STATEMENT_BYTES = 10_000
"""The longest statement that is run."""
MESSAGE_CHARACTERS = 1_000
"""The longest reason that is given: a server quotes the whole statement in its own."""


class CypherRejected(PublicError, ValueError):
    """Untrusted Cypher that was not run, or was stopped; the message says what is wrong with it."""

    def __init__(self, message: str) -> None:
        """Keep the message's beginning and end if it is too long."""
        if len(message) > MESSAGE_CHARACTERS:
            message = f"{message[: MESSAGE_CHARACTERS - 200]} [...] {message[-100:]}"
        super().__init__(message)


@dataclass(frozen=True)
class Untrusted:
    """What untrusted Cypher returned.

    Attributes:
        rows: one dictionary a row, of plain JSON values.
        truncated: there were more than `max_rows`; the rest was not fetched.
        seconds: from sending the statement, its plan checked, to the last row.
    """

    rows: list[Row]
    truncated: bool
    seconds: float


# ----------------------------------------------------------------------------------------------------------- the text

# as Neo4j reads them: a backslash escapes what follows, so that the second of two begins no character by its number
_ESCAPE = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|.)", re.DOTALL)
_TEXT = re.compile(
    r"""'(?:\\.|[^'\\])*+' | "(?:\\.|[^"\\])*+" | `(?:``|[^`])*+` | //[^\n\r]* | /\*.*?\*/""", re.VERBOSE | re.DOTALL
)
_READING = re.compile(r"(?:OPTIONAL\s+MATCH|MATCH|WITH|UNWIND|RETURN|CALL)\b", re.IGNORECASE)
# as a word of its own: not a property, label, type, parameter or map key of that name
_WRITING = re.compile(
    r"(?<![.:|$\w])(CREATE|MERGE|INSERT|SET|DELETE|DETACH|REMOVE|FOREACH|DROP|USE|IN\s+(?:CONCURRENT\s+)?TRANSACTIONS|"
    r"LOAD\s+CSV)\b(?!\s*:)",
    re.IGNORECASE,
)
_PROCEDURE = re.compile(r"(?<![.:|$\w])CALL\b(?!\s*[({])(?:\s*([\w.]+))?", re.IGNORECASE)
_FUNCTION = re.compile(r"(?<![.\w])(\w+)(?:\s*\.\s*\w+)+\s*\(")
_OWN_FUNCTIONS = {"date", "datetime", "time", "localtime", "localdatetime", "duration", "point", "vector"}


def checked_statement(cypher: str) -> str:
    """The statement without its final semicolon, if it looks like one reading statement.

    Raises:
        CypherRejected: it does not.
    """
    try:
        size = len(cypher.encode())
    except UnicodeEncodeError:
        raise CypherRejected("It is not valid Unicode text.") from None
    if size > STATEMENT_BYTES:
        raise CypherRejected(f"It is {size:,} bytes long; at most {STATEMENT_BYTES:,} are run.")
    statement = cypher.strip().rstrip("; \t\r\n")
    # Neo4j reads \u0041 as A before anything else, the embedded server only inside quotes: look at both readings
    readings = {statement, _ESCAPE.sub(lambda match: chr(int(match[1], 16)) if match[1] else match[0], statement)}
    for reading in readings:
        _check_reading(_TEXT.sub(_placeholder, reading).strip())
    return statement


def _placeholder(match: re.Match[str]) -> str:
    return " quoted " if match[0].startswith("`") else " 0 " if match[0][0] in "'\"" else " "


def _check_reading(bare: str) -> None:
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


def _check_functions(bare: str) -> None:
    if match := next((m for m in _FUNCTION.finditer(bare) if m[1].lower() not in _OWN_FUNCTIONS), None):
        raise CypherRejected(f"Functions of extensions are not allowed ({match[0]}...)).")


# ----------------------------------------------------------------------------------------------------------- the plan

# Neo4j's operators that only read the graph or compute, without "Partitioned", "Directed" and "Undirected" in front.
# What is missing here is refused: files and URLs, procedures, other databases, transactions, users, settings.
_OPERATORS = frozenset(
    re.findall(
        r"\w+",
        """
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
    """,
    )
)
_VARIANT = re.compile(r"^(?:Partitioned)?(?:Directed|Undirected)?|[(@].*")


def check_plan(explained: neo4j.ResultSummary) -> None:
    """Look at what Neo4j itself, asked by EXPLAIN, says that a statement does.

    Raises:
        CypherRejected: it does more than read.
    """
    if explained.query_type != "r" or explained.plan is None:
        raise CypherRejected(
            "It would change the graph, or ask for something else than the graph "
            f"(query type {explained.query_type!r}). Only reading is allowed."
        )
    for operator, details in _operators(explained.plan):
        if (name := _VARIANT.sub("", operator)) not in _OPERATORS:
            raise CypherRejected(f"Only reading the graph is allowed. The server plans the operator {name}.")
        _check_functions(_TEXT.sub(_placeholder, details))


def _operators(plan: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Each operator of a plan, with what it works on."""
    waiting = [plan]  # a plan can be deeper than Python's stack
    while waiting:
        step = waiting.pop()
        yield step["operatorType"], str(step.get("args", {}).get("Details", ""))
        waiting += step.get("children", [])


# ------------------------------------------------------------------------------------------------------------ running


class _MeteredLoop(asyncio.SelectorEventLoop):
    """An event loop that breaks off with a server that sends more than `allowance` bytes.

    The driver reads a record whole before anyone sees it. So what bounds a single huge one must lie below the driver.
    """

    allowance = 0

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # asyncio's own signature
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


class Reader:
    """Runs untrusted statements as the reader's user, one at a time, over one connection as long as it is good.

    It has an event loop in a thread of its own: only a task can be stopped while it waits for the server, and a
    notebook's own loop is busy.
    """

    def __init__(self, endpoint: GraphEndpoint) -> None:
        """Connect when the first statement comes."""
        self._endpoint = endpoint
        self._worker = ThreadPoolExecutor(1)
        self._runner = asyncio.Runner(loop_factory=_MeteredLoop)
        self._driver: neo4j.AsyncDriver | None = None
        self._closed = False

    def close(self) -> None:
        """Close the connection."""
        if not self._closed:
            self._closed = True
            self._worker.submit(self._close).result()
            self._worker.shutdown()

    def _close(self) -> None:
        if self._driver is not None:
            self._runner.run(self._driver.close())
        self._runner.close()

    def run(self, statement: str, parameters: Row, max_rows: int, max_bytes: int, timeout: float) -> Untrusted:
        """Run a statement whose text was looked at; see `Graph.read_untrusted`."""
        return self._worker.submit(
            lambda: self._runner.run(self._run(statement, parameters, max_rows, max_bytes, timeout))
        ).result()

    async def _run(self, statement: str, parameters: Row, max_rows: int, max_bytes: int, timeout: float) -> Untrusted:
        endpoint = self._endpoint
        loop = asyncio.get_running_loop()
        assert isinstance(loop, _MeteredLoop)
        loop.allowance = max_bytes
        if self._driver is None:
            auth = (endpoint.reader_user, endpoint.reader_password)
            # a connection idle for a second is asked whether it lives: the server may have been restarted
            self._driver = neo4j.AsyncGraphDatabase.driver(
                endpoint.uri, auth=auth, liveness_check_timeout=1, **driving(endpoint)
            )
        session = self._driver.session(
            database=endpoint.database, default_access_mode=neo4j.READ_ACCESS, fetch_size=max_rows + 1
        )
        began = time.monotonic()
        try:
            transaction = await session.begin_transaction(timeout=timeout)
        except (Neo4jError, DriverError, OSError) as error:
            raise explained(endpoint, endpoint.reader_user, error, began) from None
        try:
            async with asyncio.timeout(timeout):
                try:
                    found = await self._fetch(transaction, statement, parameters, max_rows)
                except Neo4jError:
                    await session.close()
                    raise
                if not found.truncated:
                    await session.close()  # which undoes the transaction
                return found
        except TimeoutError:
            raise CypherRejected(
                f"It ran longer than {timeout:g} s and was stopped. Narrow it: name a node, or add a LIMIT."
            ) from None
        except RecursionError:
            raise CypherRejected("Its result is nested too deeply to be read.") from None
        except Neo4jError as error:
            raise CypherRejected(f"The graph server refused it: {error.message}") from None
        except (DriverError, OSError) as error:
            if loop.allowance < 0:
                raise CypherRejected(
                    f"Its result is larger than {max_bytes:,} bytes and was stopped. Return names or counts, or add a "
                    "LIMIT."
                ) from None
            raise CypherRejected(
                f"The graph server broke off while it ran ({first_line(error)}). It may need too much memory."
            ) from None
        finally:
            # closes a connection still in use without waiting for the rest of the rows, and so undoes the transaction
            session.cancel()

    async def _fetch(
        self, transaction: neo4j.AsyncTransaction, statement: str, parameters: Row, max_rows: int
    ) -> Untrusted:
        if not self._endpoint.embedded:  # whose plans tell nothing, and whose reader may only read
            check_plan(await (await transaction.run(f"EXPLAIN {statement}", parameters)).consume())
        start = time.perf_counter()
        result = await transaction.run(statement, parameters)
        records = await result.fetch(max_rows + 1)
        truncated = len(records) > max_rows
        if not truncated:
            counters = (await result.consume()).counters
            # some writes are refused only at a commit, and there is none
            if counters.contains_updates or counters.contains_system_updates:
                raise CypherRejected("It would change the graph. Only reading is allowed; the change was undone.")
        return Untrusted([plain_row(record) for record in records[:max_rows]], truncated, time.perf_counter() - start)
