"""The graph, over Bolt: connect, load, read, and run Cypher that someone else wrote.

Only the official Neo4j driver, and only Cypher that a Neo4j 5 server and the embedded one both accept. Values always
travel as parameters. Labels, relationship types and property names cannot, so they are checked and quoted.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import neo4j
from filelock import FileLock
from neo4j.exceptions import AuthError, ConfigurationError, DriverError, Neo4jError
from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time
from tqdm import tqdm

from helpers import services
from helpers.services import GraphEndpoint
from helpers.settings import BUILD, PublicError

Row = dict[str, Any]

WAIT = 10.0
"""Seconds after which a server that accepts a connection and does not answer is given up."""
CONNECT = 4.0
"""Seconds in which a server is reached; else it is away, or the network."""
RESTART = 90.0
"""Seconds for which the embedded server is tried anew: one that died is back by then."""
BATCH_ROWS = 5_000
BATCH_CHARACTERS = 4_000_000
"""A Bolt message may hold 16 MB; this leaves room for four bytes a character."""
STATEMENT_BYTES = 10_000
"""The longest statement that `read_untrusted` runs."""
MARKER = "LoadedData"
"""Label of the notes on what is loaded, one a data set: its name, its SHA-256 (empty unless it is loaded to its end)
and the labels loaded for it."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The server's remarks (an unknown label, a deprecated word) are not for the reader of a notebook; a broken connection
# is told by the error that follows.
for _noisy in ("neo4j.notifications", "neo4j.io"):
    logging.getLogger(_noisy).setLevel(logging.CRITICAL)


class GraphError(PublicError, RuntimeError):
    """The graph server cannot be used as asked; the message says what to do. It never holds a password."""


class CypherRejected(PublicError, ValueError):
    """Untrusted Cypher that was not run, or was stopped; the message says what is wrong with it."""


@dataclass(frozen=True)
class Untrusted:
    """What untrusted Cypher returned.

    Attributes:
        rows: one dictionary a row, of plain JSON values.
        truncated: there were more than `max_rows`; the rest was not fetched.
        seconds: from sending the statement to the last row.
    """

    rows: list[Row]
    truncated: bool
    seconds: float


def connect(endpoint: GraphEndpoint | None = None) -> Graph:
    """The graph of `NEO4J_URI`, else the embedded one, started if need be.

    Args:
        endpoint: another server than the settings name.

    Raises:
        GraphError: the server does not answer, refuses the user, or lacks the database. One that the settings name is
            tried once, the embedded one, which may be restarting, for `RESTART` seconds.
        helpers.settings.SettingsError: `NEO4J_URI` is set and `NEO4J_PASSWORD` is not.
        helpers.services.ServiceError: the embedded server did not start.
    """
    return Graph(endpoint or services.graph_endpoint())


class Graph:
    """A connection to a graph database; a context manager that closes it.

    Attributes:
        endpoint: the server, its users and the database.
        server: the server's own name and version, for the record.
    """

    def __init__(self, endpoint: GraphEndpoint) -> None:
        """Connect; see `connect` for the errors."""
        self.endpoint = endpoint
        self._loaded_labels: set[str] = set()
        self._loading = ""  # the data set that `load_once` is loading
        auth = (endpoint.user, endpoint.password)
        try:
            self._driver = neo4j.GraphDatabase.driver(endpoint.uri, auth=auth, **_driving(endpoint))
        except ConfigurationError as error:  # such as a user in the address
            raise GraphError(
                f"NEO4J_URI={endpoint.uri} is refused by the driver: {_first_line(error)} Write it like "
                "bolt://localhost:7687; user and password go into NEO4J_USER and NEO4J_PASSWORD."
            ) from None
        began = time.monotonic()
        try:
            with self._driver.session(database=endpoint.database) as session:
                # the driver tries a transaction function again, and a plain statement once
                if endpoint.embedded:
                    answer = session.execute_read(lambda transaction: transaction.run("RETURN 1").consume())
                else:
                    answer = session.run("RETURN 1").consume()
                self.server = str(answer.server.agent)
        except (Neo4jError, DriverError, OSError) as error:
            self._driver.close()
            raise _explained(endpoint, endpoint.user, error, began) from None

    def __enter__(self) -> Graph:
        """The connection itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; the server goes on."""
        self._driver.close()

    # ------------------------------------------------------------------------------------------------------- load

    def constraint(self, label: str, prop: str) -> None:
        """Make `prop` unique among the nodes of `label`, and indexed; nothing happens if it is."""
        self._write(f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{_name(label)}) REQUIRE n.{_name(prop)} IS UNIQUE")

    def index(self, label: str, prop: str) -> None:
        """Index `prop` of the nodes of `label`; nothing happens if it is."""
        self._write(f"CREATE INDEX IF NOT EXISTS FOR (n:{_name(label)}) ON (n.{_name(prop)})")

    def load_nodes(self, label: str, rows: Iterable[Mapping[str, Any]], key: str, *, progress: bool = True) -> int:
        """Create or update one node for each row; loading the same rows again changes nothing.

        Args:
            label: of the nodes.
            rows: the properties of each node. Properties that a row does not name stay as they are.
            key: the property that identifies a node; make it unique by `constraint` first, or loading is slow.
            progress: whether to show a progress bar.

        Returns:
            Number of rows.

        Raises:
            ValueError: a name is not an identifier, or a row has no `key`.
            GraphError: the server refuses the rows.
        """
        statement = (
            f"UNWIND $rows AS row MERGE (n:{_name(label)} {{{_name(key)}: row.key}}) SET n += row.properties "
            "RETURN count(*) AS matched"
        )

        def bolt(row: Mapping[str, Any]) -> Row:
            return {"key": row.get(key), "properties": {_named(k): v for k, v in row.items() if k != key}}

        if label not in self._loaded_labels:
            self._loaded_labels.add(label)
            if self._loading:  # known as ours before the first node is there
                self._note(self._loading, "")
        return self._load(statement, rows, bolt, {"key": (label, key)}, f"load {label}", progress)

    def load_edges(
        self,
        type: str,  # Cypher's own word
        rows: Iterable[Mapping[str, Any]],
        start: tuple[str, str, str],
        end: tuple[str, str, str],
        *,
        progress: bool = True,
    ) -> int:
        """Create or update one relationship for each pair of ends; loading the same rows again changes nothing.

        One process at a time may load a type; `load_once` sees to it.

        Args:
            type: of the relationships.
            rows: the fields that name the two ends, and the relationship's properties.
            start: where it starts: label, key property, and the row's field that holds the key.
            end: where it ends, likewise.
            progress: whether to show a progress bar.

        Returns:
            Number of rows.

        Raises:
            ValueError: a name is not an identifier, or a row lacks an end.
            GraphError: a row names a node that is not there, or that is there twice. Batches before it stay loaded.
        """
        (start_label, start_key, start_field), (end_label, end_key, end_field) = start, end
        # what MERGE would do, which on the embedded server walks through all edges of the first node for each row
        statement = (
            f"UNWIND $rows AS row MATCH (a:{_name(start_label)} {{{_name(start_key)}: row.start}}) "
            f"MATCH (b:{_name(end_label)} {{{_name(end_key)}: row.end}}) "
            f"OPTIONAL MATCH (a)-[old:{_name(type)}]->(b) "
            "FOREACH (_ IN CASE WHEN old IS NULL THEN [1] ELSE [] END | "
            f"CREATE (a)-[r:{_name(type)}]->(b) SET r += row.properties) "
            "FOREACH (r IN CASE WHEN old IS NULL THEN [] ELSE [old] END | SET r += row.properties) "
            "RETURN count(*) AS matched"
        )

        def bolt(row: Mapping[str, Any]) -> Row:
            properties = {_named(k): v for k, v in row.items() if k not in (start_field, end_field)}
            return {"start": row.get(start_field), "end": row.get(end_field), "properties": properties}

        ends = {"start": (start_label, start_key), "end": (end_label, end_key)}
        return self._load(statement, rows, bolt, ends, f"load {type}", progress)

    def _load(
        self,
        statement: str,
        rows: Iterable[Mapping[str, Any]],
        bolt: Callable[[Mapping[str, Any]], Row],
        ends: dict[str, tuple[str, str]],
        what: str,
        progress: bool,
    ) -> int:
        """Run `statement` on batches of rows, each a transaction; `ends` are the fields that name nodes."""
        count = 0
        total = len(rows) if isinstance(rows, Sized) else None
        with tqdm(total=total, desc=what, unit="row", disable=not progress) as bar:
            for batch in _batches(map(bolt, rows)):
                distinct: dict[tuple[Any, ...], Row] = {}
                for number, row in enumerate(batch, start=count):
                    for end, (label, key) in ends.items():
                        if row[end] is None:
                            raise ValueError(f"{what}: row {number} has no value for the {key} of {label}.")
                    same = distinct.setdefault(tuple(row[end] for end in ends), row)
                    same["properties"] |= row["properties"]

                with self._session() as session, self._explaining():
                    session.execute_write(_load_batch, statement, list(distinct.values()), ends, what)
                count += len(batch)
                bar.update(len(batch))
        return count

    def clear(self, *labels: str) -> None:
        """Delete all nodes of these labels with their relationships; what was loaded with them counts as not loaded.

        Raises:
            ValueError: no label, or one that is not an identifier.
            GraphError: on a server of the user's own, nodes of a label are there that this project did not load.
        """
        if not labels:
            raise ValueError("clear needs the labels to delete. Use clear_all to empty the whole database.")
        self._refuse_foreign(labels)
        # the notes first: an interrupted clear must not leave one that vouches for what is gone. They go on telling
        # whose the labels are.
        self._write(
            f"MATCH (m:{_name(MARKER)}) WHERE size(m.labels) = 0 OR any(label IN m.labels WHERE label IN $labels) "
            "SET m.sha256 = ''",
            labels=list(labels),
        )
        for label in labels:
            self._delete(f"(n:{_name(label)})")

    def _refuse_foreign(self, labels: Sequence[str]) -> None:
        if self.endpoint.embedded:
            return
        noted = self.read(f"MATCH (m:{_name(MARKER)}) UNWIND m.labels AS label RETURN DISTINCT label")
        for label in sorted(set(labels) - {row["label"] for row in noted}):
            if count := self.read(f"MATCH (n:{_name(label)}) RETURN count(n) AS count")[0]["count"]:
                raise GraphError(
                    f"The database {self.endpoint.database!r} at NEO4J_URI={self.endpoint.uri} has "
                    f"{count:,} nodes :{label} that this project did not load; loading would delete them. Name a "
                    "database of its own by NEO4J_DATABASE, or empty this one."
                )

    def clear_all(self) -> None:
        """Delete every node and relationship of the database, whoever made them."""
        self._delete(f"(n:{_name(MARKER)})")
        self._delete("(n)")

    def _delete(self, pattern: str) -> None:
        # relationships first, in parts: deleting a node with many of them at once is one large transaction
        for what, matching in (("r", f"{pattern}-[r]-()"), ("n", pattern)):
            statement = f"MATCH {matching} WITH DISTINCT {what} LIMIT 10000 DELETE {what} RETURN count(*) AS deleted"
            while self._write(statement)[0]["deleted"]:
                pass

    def loaded(self, name: str, sha256: str) -> bool:
        """Whether the data set `name` with this SHA-256 is loaded to its end."""
        found = self.read(f"MATCH (m:{_name(MARKER)} {{name: $name}}) RETURN m.sha256 AS sha256", name=name)
        return [row["sha256"] for row in found] == [sha256]

    def mark_loaded(self, name: str, sha256: str) -> None:
        """Note that the data set `name` with this SHA-256 is loaded to its end."""
        self._note(name, sha256)

    def _note(self, name: str, sha256: str) -> None:
        """Note the labels of a data set; its SHA-256 is empty until it is loaded to its end."""
        self._write(
            f"MERGE (m:{_name(MARKER)} {{name: $name}}) SET m.sha256 = $sha256, m.labels = $labels",
            name=name,
            sha256=sha256,
            labels=sorted(self._loaded_labels),
        )

    @contextmanager
    def load_once(self, name: str, sha256: str) -> Iterator[bool]:
        """Load a data set unless it is there: one process of this machine at a time.

            with graph.load_once("side_effects", sha256) as missing:
                if missing:
                    graph.clear("Drug", "SideEffect")
                    ...

        Yields:
            Whether the data set must be loaded. If the block ends without an error, it counts as loaded; if it is
            interrupted, the next caller loads it again.

        Raises:
            GraphError: from `clear`, where a server of the user's own has nodes of these labels already.
        """
        BUILD.mkdir(parents=True, exist_ok=True)
        with FileLock(BUILD / "graph-load.lock"):
            missing = not self.loaded(name, sha256)
            if missing:
                self._loaded_labels.clear()  # those of another data set must not tie this one's note to them
                # from here on the graph is neither the old version nor the new one
                self._write(f"MATCH (m:{_name(MARKER)} {{name: $name}}) SET m.sha256 = ''", name=name)
                self._loading = name
            try:
                yield missing
            finally:
                self._loading = ""
            if missing:
                self.mark_loaded(name, sha256)

    # ------------------------------------------------------------------------------------------------------- read

    def read(self, cypher: str, /, **parameters: Any) -> list[Row]:  # noqa: ANN401  # whatever Bolt can carry
        """Run the project's own Cypher in a READ transaction; all rows, of plain JSON values.

        A node is `{"labels", "properties"}`, a relationship `{"type", "start", "end", "properties"}` with its two
        nodes, a path `{"nodes", "relationships"}`; times are ISO texts.

        Raises:
            GraphError: the server refuses the statement or cannot be reached.
        """
        with self._explaining():
            result = self._driver.execute_query(
                cypher,
                parameters,
                routing_=neo4j.RoutingControl.READ,
                database_=self.endpoint.database,
            )
        return [_row(record) for record in result.records]

    def read_untrusted(
        self,
        cypher: str,
        /,
        *,
        max_rows: int = 100,
        timeout: float = 5.0,
        **parameters: Any,  # noqa: ANN401  # whatever Bolt can carry
    ) -> Untrusted:
        """Run Cypher that a model or a user wrote, so that it can neither change the graph nor hold up the caller.

        What guards the graph, from the outside in:

        1. A look at the text: one reading statement of at most 10 kB, no writing clause, procedure, extension function
           or LOAD CSV. It gives early and clear errors; it is not what the safety rests on.
        2. The reader's user, who may only read, in a READ transaction that is always rolled back.
        3. At most `max_rows` rows are fetched. After `timeout` seconds the connection is closed and the server told
           nothing more; a Neo4j server ends the transaction by that time, the embedded one by its own command timeout.

        On a Neo4j server with no `NEO4J_READER_USER`, the second guard is the READ transaction alone: the server
        refuses writes and schema changes in it, but not procedures that only read, nor LOAD CSV, which opens files and
        URLs as the server; there the first guard stands alone. Give such a server a reader.

        Args:
            cypher: the statement.
            max_rows: rows to return at most.
            timeout: seconds it may take.
            parameters: its parameters, other than those two names.

        Raises:
            CypherRejected: it is not run, or was stopped; the message says why.
            GraphError: the server cannot be reached.
        """
        statement = _checked_statement(cypher)
        if max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {max_rows}.")
        # only a task can be stopped while it waits for the server, and a notebook's own event loop is busy
        with ThreadPoolExecutor(1) as worker:

            def ask() -> Untrusted:
                return worker.submit(asyncio.run, self._untrusted(statement, parameters, max_rows, timeout)).result()

            try:
                return ask()
            except GraphError:
                self.read("RETURN 1")  # waits for a server that restarts
                return ask()

    async def _untrusted(self, statement: str, parameters: Row, max_rows: int, timeout: float) -> Untrusted:
        endpoint = self.endpoint
        auth = (endpoint.reader_user, endpoint.reader_password)
        began = time.monotonic()
        async with neo4j.AsyncGraphDatabase.driver(endpoint.uri, auth=auth, **_driving(endpoint)) as driver:
            session = driver.session(
                database=endpoint.database, default_access_mode=neo4j.READ_ACCESS, fetch_size=max_rows + 1
            )
            try:
                transaction = await session.begin_transaction(timeout=timeout)
            except (Neo4jError, DriverError, OSError) as error:
                raise _explained(endpoint, endpoint.reader_user, error, began) from None
            try:
                return await asyncio.wait_for(_fetch(transaction, statement, parameters, max_rows), timeout)
            except TimeoutError:
                raise CypherRejected(
                    f"It ran longer than {timeout:g} s and was stopped. Narrow it: name a node, or add a LIMIT."
                ) from None
            except Neo4jError as error:
                raise CypherRejected(f"The graph server refused it: {error.message}") from None
            except DriverError as error:
                raise CypherRejected(
                    f"The graph server broke off while it ran ({_first_line(error)}). It may need too much memory."
                ) from None
            finally:
                # closes the connection without waiting for the rest of the rows, and so undoes the transaction
                session.cancel()

    def schema(self) -> str:
        """What is in the graph, as text for a prompt: labels, properties, relationship patterns, and how many of each.

        It looks at every node and relationship, and so takes time in proportion to them.
        """
        counts = self.read("MATCH (n) RETURN labels(n) AS labels, count(*) AS count")
        keys = self.read("MATCH (n) UNWIND keys(n) AS key RETURN labels(n) AS labels, key, min(n[key]) AS example")
        edges = self.read(
            "MATCH (a)-[r]->(b) RETURN labels(a) AS start, type(r) AS type, labels(b) AS end, count(*) AS count"
        )
        edge_keys = self.read(
            "MATCH ()-[r]->() UNWIND keys(r) AS key RETURN type(r) AS type, key, min(r[key]) AS example"
        )

        def label(labels: Sequence[str]) -> str:
            return "".join(f":{name}" for name in sorted(labels))

        def properties(found: Iterable[Row]) -> str:
            typed = ", ".join(sorted(f"{row['key']}: {_type_name(row['example'])}" for row in found))
            return f" {{{typed}}}" if typed else ""

        nodes = {label(row["labels"]): row["count"] for row in counts if row["labels"] != [MARKER]}
        lines = ["Nodes:"]
        for labels, count in sorted(nodes.items()):
            mine = properties(row for row in keys if label(row["labels"]) == labels)
            lines.append(f"  ({labels}{mine})  {count} nodes")
        lines.append("Relationships:")
        for row in sorted(edges, key=lambda row: (row["type"], label(row["start"]), label(row["end"]))):
            mine = properties(key for key in edge_keys if key["type"] == row["type"])
            pattern = f"({label(row['start'])})-[:{row['type']}{mine}]->({label(row['end'])})"
            lines.append(f"  {pattern}  {row['count']} relationships")
        return "\n".join(lines)

    # ----------------------------------------------------------------------------------------------------- inside

    def _session(self) -> neo4j.Session:
        return self._driver.session(database=self.endpoint.database)

    def _write(self, cypher: str, **parameters: Any) -> list[Row]:  # noqa: ANN401  # whatever Bolt can carry
        with self._explaining():
            result = self._driver.execute_query(cypher, parameters, database_=self.endpoint.database)
        return [_row(record) for record in result.records]

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except (Neo4jError, DriverError, OSError) as error:
            raise _explained(self.endpoint, self.endpoint.user, error, began) from error


async def _fetch(transaction: neo4j.AsyncTransaction, statement: str, parameters: Row, max_rows: int) -> Untrusted:
    start = time.perf_counter()
    result = await transaction.run(statement, parameters)
    records = await result.fetch(max_rows + 1)
    truncated = len(records) > max_rows
    if not truncated:
        counters = (await result.consume()).counters
        # some writes are refused only at a commit, and there is none
        if counters.contains_updates or counters.contains_system_updates:
            raise CypherRejected("It would change the graph. Only reading is allowed; the change was undone.")
        await transaction.rollback()
    return Untrusted([_row(record) for record in records[:max_rows]], truncated, time.perf_counter() - start)


# ----------------------------------------------------------------------------------------------- connecting and errors


def _driving(endpoint: GraphEndpoint) -> dict[str, Any]:
    return {
        "connection_timeout": CONNECT,
        # bounds the handshake too, with a server that accepts a connection and then says nothing
        "connection_acquisition_timeout": WAIT,
        **({"max_transaction_retry_time": RESTART} if endpoint.embedded else {}),
    }


def _explained(endpoint: GraphEndpoint, user: str, error: Exception, began: float) -> GraphError:
    """The driver's error as one that says what to do; `began` (monotonic) is when the first try began."""
    server = f"The embedded graph server {endpoint.uri}" if endpoint.embedded else f"NEO4J_URI={endpoint.uri}"
    if isinstance(error, AuthError):
        return GraphError(
            f"{server} refused the user {user!r}. Check NEO4J_USER and NEO4J_PASSWORD (for generated Cypher "
            "NEO4J_READER_USER and NEO4J_READER_PASSWORD)."
        )
    if isinstance(error, Neo4jError):
        if "DatabaseNotFound" in (error.code or ""):
            return GraphError(
                f"{server} has no database {endpoint.database!r}. Set NEO4J_DATABASE to one that it has, or create it."
            )
        return GraphError(f"{server} refused a statement: {error.message}")
    mend = (
        "`python -m helpers.services status` shows whether it runs; its log is _build/logs/graph.log."
        if endpoint.embedded
        else "Start it, or unset NEO4J_URI to use the embedded server."
    )
    tried = f"tried for {time.monotonic() - began:.0f} s"
    return GraphError(f"{server} does not answer ({tried}). {mend} The driver says: {_first_line(error)}")


def _first_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


def _load_batch(
    transaction: neo4j.ManagedTransaction, statement: str, rows: list[Row], ends: dict[str, tuple[str, str]], what: str
) -> None:
    """Load rows; an error, which undoes them all, unless each end of each row is exactly one node."""
    matched = transaction.run(statement, rows=rows).single(strict=True)["matched"]
    if matched != len(rows):
        raise _ends_missing(transaction, rows, ends, what)


def _ends_missing(
    transaction: neo4j.ManagedTransaction, batch: list[Row], ends: dict[str, tuple[str, str]], what: str
) -> GraphError:
    """Which nodes of a batch are not there exactly once."""
    found = []
    for end, (label, key) in ends.items():
        counted = transaction.run(
            f"UNWIND $keys AS key OPTIONAL MATCH (n:{_name(label)} {{{_name(key)}: key}}) "
            "WITH key, count(n) AS nodes WHERE nodes <> 1 RETURN key, nodes ORDER BY key",
            keys=list({row[end] for row in batch}),
        ).data()
        found += [f"{label} {row['key']!r} ({row['nodes']} nodes)" for row in counted]
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return GraphError(
        f"{what}: each end must be exactly one node. Found: {', '.join(found[:5])}{more}. Load the nodes first, and "
        "make their key unique by constraint()."
    )


# ------------------------------------------------------------------------------------------------ names and batches


def _name(name: str) -> str:
    """A label, type or property name, quoted.

    Raises:
        ValueError: it is not an identifier.
    """
    return f"`{_named(name)}`"


def _named(name: str) -> str:
    if not IDENTIFIER.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a label, relationship type or property: use letters, digits and _, no digit first."
        )
    return name


def _batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The rows in parts that fit one Bolt message."""
    batch: list[Row] = []
    room = BATCH_CHARACTERS
    for row in rows:
        size = sum(len(str(value)) for value in row.values())
        if size > BATCH_CHARACTERS:
            raise ValueError(f"A row of {size:,} characters is too large; at most {BATCH_CHARACTERS:,} can be loaded.")
        if batch and (len(batch) == BATCH_ROWS or size > room):
            yield batch
            batch, room = [], BATCH_CHARACTERS
        batch.append(row)
        room -= size
    if batch:
        yield batch


# -------------------------------------------------------------------------------------------------- untrusted Cypher

_ESCAPE = re.compile(r"\\u+([0-9A-Fa-f]{4})")
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


def _checked_statement(cypher: str) -> str:
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
    readings = {statement, _ESCAPE.sub(lambda match: chr(int(match[1], 16)), statement)}
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
    if match := next((m for m in _FUNCTION.finditer(bare) if m[1].lower() not in _OWN_FUNCTIONS), None):
        raise CypherRejected(f"Functions of extensions are not allowed ({match[0]}...)).")
    if ";" in bare:
        raise CypherRejected("It holds several statements; give one.")
    if not _READING.match(bare):
        raise CypherRejected(
            f"It begins with {bare.split(maxsplit=1)[0][:30]!r}; a reading statement begins with MATCH, OPTIONAL "
            "MATCH, WITH, UNWIND, RETURN or the CALL of a subquery."
        )


# ----------------------------------------------------------------------------------------------------- plain values


def _row(record: neo4j.Record) -> Row:
    return {key: _plain(value) for key, value in record.items()}


def _plain(value: Any) -> Any:  # noqa: ANN401, PLR0911  # one return a kind of value
    """A value of the graph as JSON would have it."""
    if isinstance(value, Node):
        return {"labels": sorted(value.labels), "properties": _plain(dict(value))}
    if isinstance(value, Relationship):
        start, end = (_plain(node) for node in value.nodes)
        return {"type": value.type, "start": start, "end": end, "properties": _plain(dict(value))}
    if isinstance(value, Path):
        return {"nodes": [_plain(n) for n in value.nodes], "relationships": [_plain(r) for r in value.relationships]}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, Point):
        return {"srid": value.srid, "coordinates": list(value)}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Date | DateTime | Time | Duration):
        return value.iso_format()
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _type_name(value: Any) -> str:  # noqa: ANN401  # any plain value
    """The Cypher type of a plain value, as far as it can be told."""
    names = {bool: "BOOLEAN", int: "INTEGER", float: "FLOAT", str: "STRING", list: "LIST", dict: "MAP"}
    return names.get(type(value), "ANY")
