"""The graph, over Bolt: connect, load, read, and run Cypher that someone else wrote.

Only the official Neo4j driver, and only Cypher that a Neo4j 5 server and the embedded one both accept. Values always
travel as parameters. Labels, relationship types and property names cannot, so they are checked and quoted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from types import TracebackType
from typing import Any

import neo4j
from filelock import FileLock
from neo4j.exceptions import ConfigurationError, DriverError, Neo4jError
from tqdm import tqdm

from helpers import services
from helpers.graph_driver import GraphError, Row, driving, explained, first_line, identifier, plain_row, quoted
from helpers.graph_guard import CypherRejected, Reader, Untrusted, checked_statement
from helpers.graph_load import batches, load_batch
from helpers.graph_notes import MARKER, Notes
from helpers.services import GraphEndpoint
from helpers.settings import BUILD

__all__ = ["CypherRejected", "Graph", "GraphError", "Row", "Untrusted", "connect"]


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
        auth = (endpoint.user, endpoint.password)
        try:
            self._driver = neo4j.GraphDatabase.driver(endpoint.uri, auth=auth, **driving(endpoint))
        except ConfigurationError as error:  # such as a user in the address
            raise GraphError(
                f"NEO4J_URI={endpoint.uri} is refused by the driver: {first_line(error)} Write it like "
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
            raise explained(endpoint, endpoint.user, error, began) from None
        self._notes = Notes(endpoint, self.read, self._write)
        self._reader = Reader(endpoint)

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
        self._reader.close()
        self._driver.close()

    # ------------------------------------------------------------------------------------------------------- load

    def constraint(self, label: str, prop: str) -> None:
        """Make `prop` unique among the nodes of `label`, and indexed; nothing happens if it is."""
        self._write(f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{quoted(label)}) REQUIRE n.{quoted(prop)} IS UNIQUE")

    def index(self, label: str, prop: str) -> None:
        """Index `prop` of the nodes of `label`; nothing happens if it is."""
        self._write(f"CREATE INDEX IF NOT EXISTS FOR (n:{quoted(label)}) ON (n.{quoted(prop)})")

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
            f"UNWIND $rows AS row MERGE (n:{quoted(label)} {{{quoted(key)}: row.key}}) SET n += row.properties "
            "RETURN count(*) AS matched"
        )

        def bolt(row: Mapping[str, Any]) -> Row:
            return {"key": row.get(key), "properties": {identifier(k): v for k, v in row.items() if k != key}}

        self._notes.nodes(label, key)
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
            f"UNWIND $rows AS row MATCH (a:{quoted(start_label)} {{{quoted(start_key)}: row.start}}) "
            f"MATCH (b:{quoted(end_label)} {{{quoted(end_key)}: row.end}}) "
            f"OPTIONAL MATCH (a)-[old:{quoted(type)}]->(b) "
            "FOREACH (_ IN CASE WHEN old IS NULL THEN [1] ELSE [] END | "
            f"CREATE (a)-[r:{quoted(type)}]->(b) SET r += row.properties) "
            "FOREACH (r IN CASE WHEN old IS NULL THEN [] ELSE [old] END | SET r += row.properties) "
            "RETURN count(*) AS matched"
        )

        def bolt(row: Mapping[str, Any]) -> Row:
            properties = {identifier(k): v for k, v in row.items() if k not in (start_field, end_field)}
            return {"start": row.get(start_field), "end": row.get(end_field), "properties": properties}

        self._notes.edges(type, start_label, end_label)
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
            for batch in batches(map(bolt, rows)):
                distinct: dict[tuple[Any, ...], Row] = {}
                for number, row in enumerate(batch, start=count):
                    for end, (label, key) in ends.items():
                        if row[end] is None:
                            raise ValueError(f"{what}: row {number} has no value for the {key} of {label}.")
                    same = distinct.setdefault(tuple(row[end] for end in ends), row)
                    same["properties"] |= row["properties"]

                with self._session() as session, self._explaining():
                    session.execute_write(load_batch, statement, list(distinct.values()), ends, what)
                count += len(batch)
                bar.update(len(batch))
        return count

    def clear(self, *labels: str) -> None:
        """Delete all nodes of these labels with their relationships; what was loaded with them counts as not loaded.

        Raises:
            ValueError: no label, or one that is not an identifier.
            GraphError: on a server of the user's own, nodes of a label are there that this copy of the project did
                not load.
        """
        if not labels:
            raise ValueError("clear needs the labels to delete. Use clear_all to empty the whole database.")
        # the notes first: an interrupted clear must not leave one that vouches for what is gone
        self._notes.clear(labels)
        for label in labels:
            self._delete(f"(n:{quoted(label)})")

    def clear_all(self) -> None:
        """Delete every node and relationship of the database, whoever made them."""
        self._delete(f"(n:{quoted(MARKER)})")
        self._delete("(n)")

    def _delete(self, pattern: str) -> None:
        # relationships first, in parts: deleting a node with many of them at once is one large transaction
        for what, matching in (("r", f"{pattern}-[r]-()"), ("n", pattern)):
            statement = f"MATCH {matching} WITH DISTINCT {what} LIMIT 10000 DELETE {what} RETURN count(*) AS deleted"
            while self._write(statement)[0]["deleted"]:
                pass

    def loaded(self, name: str, sha256: str) -> bool:
        """Whether the data set `name` with this SHA-256 is loaded to its end, and still as it was then.

        Compared are the numbers of nodes and relationships, and the keys of the nodes. A difference is logged.
        """
        return self._notes.loaded(name, sha256)

    def mark_loaded(self, name: str, sha256: str) -> None:
        """Note that the data set `name` with this SHA-256 is loaded to its end."""
        self._notes.complete(name, sha256)

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
            GraphError: on a server of the user's own, another copy of the project loaded a data set of this name from
                other data; or from `clear`, where nodes of these labels are there already.
        """
        BUILD.mkdir(parents=True, exist_ok=True)
        with FileLock(BUILD / "graph-load.lock"):
            missing = not self.loaded(name, sha256)
            if missing:
                self._notes.begin(name)
            try:
                yield missing
            finally:
                self._notes.end()
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
        return [plain_row(record) for record in result.records]

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

        What guards the graph, from the outside in; neither the first nor the second rests on the other:

        1. A look at the text: one reading statement of at most 10 kB, no writing clause, procedure, extension function
           or LOAD CSV.
        2. On a Neo4j server, a look at the plan that it makes of the statement (EXPLAIN, which runs nothing): of
           Neo4j's operators, only those that read the graph. On the embedded server, the reader's user, who may only
           read records; files and URLs are switched off there.
        3. The reader's user, where a server has one, in a READ transaction that is always rolled back.
        4. At most `max_rows` rows and `max_bytes` bytes are received. After `timeout` seconds the connection is closed
           and the server told nothing more; a Neo4j server ends the transaction by that time, the embedded one by its
           own command timeout.

        Statements run one at a time over one connection, which stays open for the next.

        Args:
            cypher: the statement.
            max_rows: rows to return at most; further ones are cut off.
            max_bytes: what the server may send at most, its plan included; a larger result is refused.
            timeout: seconds it may take, to its last row.
            parameters: its parameters, other than those three names.

        Raises:
            CypherRejected: it is not run, or was stopped; the message says why.
            GraphError: the server cannot be reached.
        """
        statement = checked_statement(cypher)
        if max_rows < 1:
            raise ValueError(f"max_rows must be at least 1, not {max_rows}.")
        try:
            return self._reader.run(statement, parameters, max_rows, max_bytes, timeout)
        except GraphError:
            self.read("RETURN 1")  # waits for a server that restarts
            return self._reader.run(statement, parameters, max_rows, max_bytes, timeout)

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
        return [plain_row(record) for record in result.records]

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except (Neo4jError, DriverError, OSError) as error:
            raise explained(self.endpoint, self.endpoint.user, error, began) from error


def _type_name(value: Any) -> str:  # noqa: ANN401  # any plain value
    """The Cypher type of a plain value, as far as it can be told."""
    names = {bool: "BOOLEAN", int: "INTEGER", float: "FLOAT", str: "STRING", list: "LIST", dict: "MAP"}
    return names.get(type(value), "ANY")
