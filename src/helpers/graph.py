"""The graph, over Bolt: connect, load, read, and run Cypher that someone else wrote.

Only the official Neo4j driver, and only Cypher that a Neo4j 5 server and the embedded one both accept. Values always
travel as parameters. Labels, relationship types and property names cannot, so they are checked and quoted.
"""

import asyncio
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import neo4j
from neo4j.exceptions import DriverError, Neo4jError

from helpers.graph_driver import GraphError, Row, driving, explained, first_line, plain, quoted
from helpers.graph_guard import (
    CypherRejected,
    MeteredLoop,
    Untrusted,
    check_plan,
    checked_statement,
)
from helpers.graph_load import Loader
from resources import services
from resources.services import GraphEndpoint

TYPES = {bool: "BOOLEAN", int: "INTEGER", float: "FLOAT", str: "STRING", list: "LIST", dict: "MAP"}
"""Python's types of a plain value, and Cypher's; any other is ANY."""


class Graph(Loader):
    """A connection that loads, reads, and runs Cypher that someone else wrote."""

    def __init__(self, endpoint: GraphEndpoint) -> None:
        """Connect; see `connect` for the errors."""
        super().__init__(endpoint)
        # only a task of an event loop can be stopped while it waits for the server; a notebook's own loop is busy
        self._open = ExitStack()
        self._worker = self._open.enter_context(ThreadPoolExecutor(1))
        self._runner = asyncio.Runner(loop_factory=MeteredLoop)
        self._open.callback(lambda: self._worker.submit(self._runner.close).result())
        self._reader: neo4j.AsyncDriver | None = None

    def close(self) -> None:
        """Close the connection; the server keeps running."""
        self._open.close()
        super().close()

    def read_untrusted(
        self,
        cypher: str,
        /,
        *,
        max_rows: int = 100,
        max_bytes: int = 1_000_000,
        timeout: float = 5.0,
        **parameters: Any,  # noqa: ANN401  # whatever Bolt can carry
    ) -> Untrusted:
        """Run Cypher that a model or a user wrote, so that it can neither change the graph nor hold up the caller.

        1. The text: one reading statement of at most 10 kB, without procedures, extension functions or LOAD CSV.
        2. On a Neo4j server, its plan (EXPLAIN, which runs nothing): only operators that read the graph. On the
           embedded server, a user who may only read records; files and URLs are switched off there.
        3. The reader's user, where a server has one, in a READ transaction that is always rolled back.
        4. At most `max_rows` rows are returned, and a result of more than `max_bytes` is refused. After `timeout`
           seconds the connection is closed, and the server ends the transaction by its own limit. Neo4j checks that
           limit between rows: one expression over a huge range occupies a thread of it for longer.

        CypherRejected says why it was not run, or was stopped. Statements run one at a time over one connection.
        """
        statement = checked_statement(cypher)
        if max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {max_rows}.")

        def run() -> Untrusted:
            bounded = self._bounded(statement, parameters, max_rows, max_bytes, timeout)
            return self._worker.submit(self._runner.run, bounded).result()

        try:
            return run()
        except GraphError:
            self.read("RETURN 1")  # waits for a server that restarts
            return run()

    async def _bounded(
        self, statement: str, parameters: Row, max_rows: int, max_bytes: int, timeout: float
    ) -> Untrusted:
        endpoint, loop = self.endpoint, asyncio.get_running_loop()
        assert isinstance(loop, MeteredLoop)
        loop.allowance = max_bytes
        if self._reader is None:
            auth = (endpoint.reader_user, endpoint.reader_password)
            # a connection idle for a second is asked whether it lives: the server may have been restarted
            self._reader = reader = neo4j.AsyncGraphDatabase.driver(
                endpoint.uri, auth=auth, liveness_check_timeout=1, **driving(endpoint)
            )
            self._open.callback(
                lambda: self._worker.submit(self._runner.run, reader.close()).result()
            )
        session = self._reader.session(
            database=endpoint.database,
            default_access_mode=neo4j.READ_ACCESS,
            fetch_size=max_rows + 1,
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
            why = f"It ran longer than {timeout:g} s and was stopped. Narrow it: name a node, or add a LIMIT."
        except RecursionError:
            why = "Its result is nested too deeply to be read."
        except Neo4jError as error:
            raise CypherRejected(
                f"The graph server refused it: {error.message}", "Refused"
            ) from None
        except (DriverError, OSError) as error:
            why = f"The graph server broke off while it ran ({first_line(error)}). It may need too much memory."
            if loop.allowance < 0:
                why = f"Its result is larger than {max_bytes:,} bytes and was stopped."
                why += " Return names or counts, or add a LIMIT."
        finally:
            # closes a connection still in use without waiting for the rest of the rows, and so undoes the transaction
            session.cancel()
        raise CypherRejected(why, "Stopped")

    async def _fetch(
        self, transaction: neo4j.AsyncTransaction, statement: str, parameters: Row, max_rows: int
    ) -> Untrusted:
        if not self.endpoint.embedded:  # whose plans tell nothing, and whose reader may only read
            check_plan(await (await transaction.run(f"EXPLAIN {statement}", parameters)).consume())
        start = time.perf_counter()
        result = await transaction.run(statement, parameters)
        records = await result.fetch(max_rows + 1)
        truncated = len(records) > max_rows
        if not truncated:
            counters = (await result.consume()).counters
            # some writes are refused only at a commit, and there is none
            if counters.contains_updates or counters.contains_system_updates:
                raise CypherRejected(
                    "It would change the graph. Only reading is allowed; the change was undone."
                )
        return Untrusted(
            [plain(record) for record in records[:max_rows]], truncated, time.perf_counter() - start
        )

    def schema(self, sample: int = 100_000) -> str:
        """What is in the graph, as text for a prompt: labels, properties, relationship patterns, and how many of each.

        All but the counts is read off `sample` nodes of a label and relationships of a type. The count of a pattern is
        an estimate, marked "about", where its type has more relationships than that, and other patterns too.
        """

        def label(labels: Sequence[str]) -> str:
            return "".join(f":{name}" for name in sorted(labels))

        def properties(match: str, what: str) -> str:
            found = self.read(
                f"MATCH {match} WITH {what} LIMIT $sample UNWIND keys({what}) AS key "
                f"RETURN key, min({what}[key]) AS example",
                sample=sample,
            )
            typed = sorted(
                f"{row['key']}: {TYPES.get(type(row['example']), 'ANY')}" for row in found
            )
            return f" {{{', '.join(typed)}}}" if typed else ""

        lines = ["Nodes:"]
        for name in self.kinds("labels"):
            match = f"(n:{quoted(name)})"
            if count := self.count(match):
                lines.append(f"  ({label([name])}{properties(match, 'n')})  {count} nodes")
        lines.append("Relationships:")
        for name in self.kinds("relationshipTypes"):
            match = f"(a)-[r:{quoted(name)}]->(b)"
            joined = self.read(
                f"MATCH {match} WITH a, b LIMIT $sample RETURN labels(a) AS start, labels(b) AS end, count(*) AS count",
                sample=sample,
            )
            total = self.count(f"()-[n:{quoted(name)}]->()")
            seen, mine = sum(row["count"] for row in joined), properties(match, "r")
            about = "about " if seen < total and len(joined) > 1 else ""
            for start, end, count in sorted(
                (label(row["start"]), label(row["end"]), row["count"]) for row in joined
            ):
                many = f"{about}{round(count * total / seen)} relationships"
                lines.append(f"  ({start})-[:{name}{mine}]->({end})  {many}")
        return "\n".join(lines)


def connect(endpoint: GraphEndpoint | None = None) -> Graph:
    """The graph of `endpoint`, else of `NEO4J_URI`, else the embedded one, started if need be.

    A GraphError says why it cannot be used; the embedded one, which may be restarting, is tried for `RESTART` seconds.
    """
    return Graph(endpoint or services.graph_endpoint())
