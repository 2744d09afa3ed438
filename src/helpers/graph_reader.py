"""Runs Cypher that someone else wrote, within limits of rows, bytes and seconds."""

import asyncio
import secrets
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import neo4j
from neo4j.exceptions import DriverError, Neo4jError

from helpers.graph_driver import Row, describe_error, driver_settings, first_line, plain
from helpers.graph_guard import CypherRejected, Untrusted
from helpers.graph_plan import check_plan
from resources.services import GraphEndpoint

TERMINATE_SECONDS = 0.7
"""How long a caller waits for the server to stop a statement that reached its limit."""


@dataclass(frozen=True)
class Limits:
    """What a statement may take.

    Attributes:
        max_rows: Rows that are returned; further ones are not fetched.
        max_bytes: Bytes that the server may send.
        seconds: Time for the statement and its result.
    """

    max_rows: int
    max_bytes: int
    seconds: float


@dataclass
class Meter:
    """How many bytes may still arrive."""

    allowance: int = 0


class UntrustedReader:
    """Runs statements one at a time as the reader's user, over one connection.

    Only a task of an event loop can be stopped while it waits for the server. A notebook's own
    loop is busy, so this one runs in a thread of its own.
    """

    def __init__(self, endpoint: GraphEndpoint) -> None:
        """Prepare; the first statement connects."""
        self._endpoint = endpoint
        self._driver: neo4j.AsyncDriver | None = None
        self._meter = Meter()
        self._runner = asyncio.Runner(loop_factory=lambda: MeteredLoop(self._meter))
        self._thread = ThreadPoolExecutor(1)
        self._mark = f"// reader {secrets.token_hex(8)}"
        """Ends each statement, so that it is found among the server's transactions."""

    def close(self) -> None:
        """Close the connection."""
        if self._driver is not None:
            self._thread.submit(self._runner.run, self._driver.close()).result()
        self._thread.submit(self._runner.close).result()
        self._thread.shutdown()

    def read(self, statement: str, parameters: Row, limits: Limits) -> Untrusted:
        """Run a statement whose text was checked.

        Raises:
            CypherRejected: The server refused it, or it was stopped at a limit.
            GraphError: The server cannot be used.
        """
        task = self._run(statement, parameters, limits)
        return self._thread.submit(self._runner.run, task).result()

    async def _run(self, statement: str, parameters: Row, limits: Limits) -> Untrusted:
        self._meter.allowance = limits.max_bytes
        session = self._session(fetch_size=limits.max_rows + 1)
        transaction = await self._begin(session, limits.seconds)
        try:
            async with asyncio.timeout(limits.seconds):
                return await self._read_and_close(
                    session, transaction, statement, parameters, limits
                )
        except (Neo4jError, DriverError, OSError, TimeoutError, RecursionError) as error:
            rejection = self._rejection(error, limits)
        finally:
            # Closes a connection that is still in use without waiting for the remaining rows.
            session.cancel()
        if rejection.kind == "Stopped":
            await self._terminate()
        raise rejection

    def _session(self, **settings: Any) -> neo4j.AsyncSession:  # noqa: ANN401  # of the driver
        if self._driver is None:
            endpoint = self._endpoint
            # A connection idle for a second is asked whether it lives: the server may have been
            # restarted.
            self._driver = neo4j.AsyncGraphDatabase.driver(
                endpoint.uri,
                auth=(endpoint.reader_user, endpoint.reader_password),
                liveness_check_timeout=1,
                **driver_settings(endpoint),
            )
        return self._driver.session(
            database=self._endpoint.database,
            default_access_mode=neo4j.READ_ACCESS,
            **settings,
        )

    async def _begin(self, session: neo4j.AsyncSession, seconds: float) -> neo4j.AsyncTransaction:
        began = time.monotonic()
        try:
            return await session.begin_transaction(timeout=seconds)
        except (Neo4jError, DriverError, OSError) as error:
            user = self._endpoint.reader_user
            raise describe_error(self._endpoint, user, error, began) from None

    async def _read_and_close(
        self,
        session: neo4j.AsyncSession,
        transaction: neo4j.AsyncTransaction,
        statement: str,
        parameters: Row,
        limits: Limits,
    ) -> Untrusted:
        """Read the rows and undo the transaction; where rows remain, the caller cancels it."""
        try:
            result = await self._fetch(transaction, statement, parameters, limits.max_rows)
        except Neo4jError:
            await session.close()
            raise
        if not result.truncated:
            await session.close()
        return result

    async def _fetch(
        self,
        transaction: neo4j.AsyncTransaction,
        statement: str,
        parameters: Row,
        max_rows: int,
    ) -> Untrusted:
        marked = f"{statement}\n{self._mark}"
        if not self._endpoint.embedded:
            explained = await transaction.run(f"EXPLAIN {marked}", parameters)
            check_plan(await explained.consume())
        start = time.perf_counter()
        result = await transaction.run(marked, parameters)
        records = await result.fetch(max_rows + 1)
        truncated = len(records) > max_rows
        if not truncated:
            _check_changes((await result.consume()).counters)
        rows = [plain(record) for record in records[:max_rows]]
        return Untrusted(rows, truncated, time.perf_counter() - start)

    def _rejection(self, error: Exception, limits: Limits) -> CypherRejected:
        code = getattr(error, "code", None) or ""
        if isinstance(error, TimeoutError) or "TimedOut" in code:
            reason = (
                f"It ran longer than {limits.seconds:g} s and was stopped. "
                "Narrow it: name a node, or add a LIMIT."
            )
        elif isinstance(error, RecursionError):
            reason = "Its result is nested too deeply to be read."
        elif self._meter.allowance < 0:
            reason = (
                f"Its result is larger than {limits.max_bytes:,} bytes and was stopped. "
                "Return names or counts, or add a LIMIT."
            )
        elif isinstance(error, Neo4jError) and "OutOfMemory" not in code:
            return CypherRejected(f"The graph server refused it: {error.message}", "Refused")
        else:
            reason = (
                f"The graph server broke off while it ran ({first_line(error)}). "
                "It may need too much memory."
            )
        return CypherRejected(reason, "Stopped")

    async def _terminate(self) -> None:
        """Stop this reader's statement on the server, which else looks at its limit only later."""
        self._meter.allowance = 1_000_000
        with suppress(Neo4jError, DriverError, OSError, TimeoutError):
            async with asyncio.timeout(TERMINATE_SECONDS), self._session() as session:
                listed = await session.run("SHOW TRANSACTIONS YIELD transactionId, currentQuery")
                for row in await listed.data():
                    if self._mark in row["currentQuery"]:
                        stop = f"TERMINATE TRANSACTIONS '{row['transactionId']}'"
                        await (await session.run(stop)).consume()


def _check_changes(counters: neo4j.SummaryCounters) -> None:
    # Some writes are refused only at a commit, and there is none.
    if counters.contains_updates or counters.contains_system_updates:
        raise CypherRejected(
            "It would change the graph. Only reading is allowed; the change was undone."
        )


class MeteredLoop(asyncio.SelectorEventLoop):
    """Breaks off with a server that sends more bytes than the meter allows.

    The driver reads a huge record as a whole, so a limit on rows does not bound it.
    """

    def __init__(self, meter: Meter) -> None:
        """Share the meter with the reader, which sets it."""
        super().__init__()
        self._meter = meter

    async def create_connection(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401  # asyncio's own signature
        """Open a connection of which every byte counts."""
        transport, protocol = await super().create_connection(*args, **kwargs)
        receive = protocol.data_received

        def receive_metered(data: bytes) -> None:
            self._meter.allowance -= len(data)
            if self._meter.allowance < 0:
                transport.abort()
            else:
                receive(data)

        protocol.data_received = receive_metered
        return transport, protocol
