"""A connection over Bolt: its errors say what to do, names are quoted, values are plain."""

import errno
import json
import logging
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import neo4j
from neo4j.exceptions import AuthError, ConfigurationError, DriverError, Neo4jError
from neo4j.graph import Node, Path, Relationship

from resources.services import CONNECT, GraphEndpoint
from resources.settings import DERIVED, PublicError, explain_os_error

Row = dict[str, Any]

WAIT = 10.0
"""Seconds after which a server that accepts a connection and does not answer is given up."""
RESTART = 90.0
"""Seconds for which the embedded server is tried again: one that died is back by then."""
ROOM = 16 * 2**20
"""Bytes without which the embedded server cannot write."""
MAX_MESSAGE_CHARACTERS = 1_000
"""Longest reason that is given: a server quotes the full statement in its own."""

# The server's remarks are not for the reader of a notebook, and of a broken connection the error
# that follows tells.
for _noisy in ("neo4j.notifications", "neo4j.io"):
    logging.getLogger(_noisy).setLevel(logging.CRITICAL)


class GraphError(PublicError, RuntimeError):
    """Raised when the graph server cannot be used as asked. The message says what to do."""


class Connection:
    """A connection to a graph database, closed at the end of a `with` block."""

    def __init__(self, endpoint: GraphEndpoint) -> None:
        """Connect; see `graph.connect` for the errors."""
        self.endpoint = endpoint
        auth = (endpoint.user, endpoint.password)
        try:
            self._driver = neo4j.GraphDatabase.driver(
                endpoint.uri, auth=auth, **driver_settings(endpoint)
            )
        except ConfigurationError as error:  # such as a user in the address
            raise GraphError(
                f"NEO4J_URI={endpoint.uri} is refused by the driver: {first_line(error)} Write it "
                "like bolt://localhost:7687; user and password go into NEO4J_USER and "
                "NEO4J_PASSWORD."
            ) from None
        try:
            with self._explaining(), self._driver.session(database=endpoint.database) as session:
                # the driver tries a transaction function again, and a plain statement once
                if endpoint.embedded:
                    session.execute_read(lambda transaction: transaction.run("RETURN 1").consume())
                else:
                    session.run("RETURN 1").consume()
        except GraphError:
            self._driver.close()
            raise

    def __enter__(self) -> Self:
        """The connection itself."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the connection."""
        self.close()

    def close(self) -> None:
        """Close the connection; the server keeps running."""
        self._driver.close()

    def read(self, cypher: str, /, **parameters: Any) -> list[Row]:  # noqa: ANN401  # whatever Bolt can carry
        """Run the project's own Cypher in a READ transaction. Rows contain plain JSON values."""
        return self._run(cypher, parameters, neo4j.RoutingControl.READ)

    def _write(self, cypher: str, **parameters: Any) -> list[Row]:  # noqa: ANN401  # whatever Bolt can carry
        return self._run(cypher, parameters, neo4j.RoutingControl.WRITE)

    def _run(self, cypher: str, parameters: Row, routing: neo4j.RoutingControl) -> list[Row]:
        with self._explaining():
            database = self.endpoint.database
            result = self._driver.execute_query(
                cypher, parameters, routing_=routing, database_=database
            )
        return [plain(record) for record in result.records]

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        began = time.monotonic()
        try:
            yield
        except (Neo4jError, DriverError, OSError) as error:
            raise describe_error(self.endpoint, self.endpoint.user, error, began) from error


def driver_settings(endpoint: GraphEndpoint) -> dict[str, Any]:
    """The settings of each driver."""
    settings: dict[str, Any] = {
        "connection_timeout": CONNECT,
        # bounds the handshake too, with a server that accepts a connection and then says nothing
        "connection_acquisition_timeout": WAIT,
    }
    if endpoint.embedded:
        settings["max_transaction_retry_time"] = RESTART
    return settings


def describe_error(
    endpoint: GraphEndpoint, user: str, error: Exception, began: float
) -> GraphError:
    """Turn the driver's error into one that says what to do.

    Args:
        endpoint: The server that was addressed.
        user: Name of the user who connected.
        error: What the driver raised.
        began: When the first try began, by the monotonic clock.
    """
    server = f"NEO4J_URI={endpoint.uri}"
    if endpoint.embedded:
        server = f"The embedded graph server {endpoint.uri}"
    if isinstance(error, AuthError):
        return GraphError(
            f"{server} refused the user {user!r}. Check NEO4J_USER and NEO4J_PASSWORD (for "
            "generated Cypher NEO4J_READER_USER and NEO4J_READER_PASSWORD)."
        )
    if isinstance(error, Neo4jError):
        return _describe_refusal(endpoint, server, error)
    return _describe_silence(endpoint, server, error, began)


def _describe_refusal(endpoint: GraphEndpoint, server: str, error: Neo4jError) -> GraphError:
    code = error.code or ""
    if "DatabaseNotFound" in code:
        return GraphError(
            f"{server} has no database {endpoint.database!r}. Set NEO4J_DATABASE to one that it "
            "has, or create it."
        )
    hint = ""
    if endpoint.embedded:
        hint = _embedded_hint(code)
    # a server quotes the full statement, however long it is
    message = shorten(error.message or "")
    return GraphError(f"{server} refused a statement: {message} {hint}".rstrip())


def _embedded_hint(code: str) -> str:
    if shutil.disk_usage(DERIVED).free < ROOM:  # which the server does not say
        return explain_os_error(OSError(errno.ENOSPC, "", str(DERIVED)))
    if code.startswith("Neo.ClientError"):
        return ""
    # it then names its database and no reason
    return "If it was stopped meanwhile, run this again."


def _describe_silence(
    endpoint: GraphEndpoint, server: str, error: Exception, began: float
) -> GraphError:
    answer = f"does not answer (tried for {time.monotonic() - began:.0f} s)"
    hint = "Start it, or unset NEO4J_URI to use the embedded server."
    if endpoint.embedded:
        hint = (
            "`python -m resources.services status` shows whether it runs; its log is "
            "_build/logs/graph.log."
        )
    elif f"[Errno {errno.ECONNREFUSED}]" in str(error):
        answer = "refused the connection"
    return GraphError(f"{server} {answer}. {hint} The driver says: {first_line(error)}")


def shorten(message: str) -> str:
    """A message whose middle is left out if it is long."""
    if len(message) <= MAX_MESSAGE_CHARACTERS:
        return message
    return f"{message[: MAX_MESSAGE_CHARACTERS - 200]} [...] {message[-100:]}"


def first_line(error: Exception) -> str:
    """An error in one line."""
    return (str(error) or type(error).__name__).splitlines()[0]


def quoted(name: str) -> str:
    """See `identifier`; in quotes."""
    return f"`{identifier(name)}`"


def identifier(name: str) -> str:
    """Return a label, type or property name unchanged.

    Raises:
        ValueError: It is not an identifier.
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise ValueError(
            f"{name!r} cannot be a label, relationship type or property: use letters, digits and "
            "_, no digit first."
        )
    return name


def plain(record: neo4j.Record) -> Row:
    """A row as JSON has it; a date, a duration or an infinite number becomes text."""
    row: Row = json.loads(json.dumps(dict(record), default=_plain), parse_constant=str)
    return row


def _plain(value: Any) -> Any:  # noqa: ANN401  # what the json module does not know
    if isinstance(value, Node):
        return {"labels": sorted(value.labels), "properties": dict(value)}
    if isinstance(value, Relationship):
        start, end = value.nodes
        return {"type": value.type, "start": start, "end": end, "properties": dict(value)}
    if isinstance(value, Path):
        return {"nodes": value.nodes, "relationships": value.relationships}
    return value.hex() if isinstance(value, bytes | bytearray) else str(value)
