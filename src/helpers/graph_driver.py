"""What all that speaks Bolt shares: how long to wait, errors that say what to do, quoted names, plain values."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Mapping
from typing import Any

import neo4j
from neo4j.exceptions import AuthError, Neo4jError
from neo4j.graph import Node, Path, Relationship
from neo4j.spatial import Point
from neo4j.time import Date, DateTime, Duration, Time

from helpers.services import GraphEndpoint
from helpers.settings import PublicError

Row = dict[str, Any]

WAIT = 10.0
"""Seconds after which a server that accepts a connection and does not answer is given up."""
CONNECT = 4.0
"""Seconds in which a server is reached; else it is away, or the network."""
RESTART = 90.0
"""Seconds for which the embedded server is tried again: one that died is back by then."""

IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

# The server's remarks (an unknown label, a deprecated word) are not for the reader of a notebook; a broken connection
# is told by the error that follows.
for _noisy in ("neo4j.notifications", "neo4j.io"):
    logging.getLogger(_noisy).setLevel(logging.CRITICAL)


class GraphError(PublicError, RuntimeError):
    """The graph server cannot be used as asked; the message says what to do. It never holds a password."""


# ----------------------------------------------------------------------------------------------- connecting and errors


def driving(endpoint: GraphEndpoint) -> dict[str, Any]:
    """The settings of each driver."""
    return {
        "connection_timeout": CONNECT,
        # bounds the handshake too, with a server that accepts a connection and then says nothing
        "connection_acquisition_timeout": WAIT,
        **({"max_transaction_retry_time": RESTART} if endpoint.embedded else {}),
    }


def explained(endpoint: GraphEndpoint, user: str, error: Exception, began: float) -> GraphError:
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
    return GraphError(f"{server} does not answer ({tried}). {mend} The driver says: {first_line(error)}")


def first_line(error: Exception) -> str:
    """An error in one line."""
    return (str(error) or type(error).__name__).splitlines()[0]


# ------------------------------------------------------------------------------------------------------------ names


def quoted(name: str) -> str:
    """A label, type or property name, quoted.

    Raises:
        ValueError: it is not an identifier.
    """
    return f"`{identifier(name)}`"


def identifier(name: str) -> str:
    """A label, type or property name as it is.

    Raises:
        ValueError: it is not an identifier.
    """
    if not IDENTIFIER.fullmatch(name):
        raise ValueError(
            f"{name!r} cannot be a label, relationship type or property: use letters, digits and _, no digit first."
        )
    return name


# ----------------------------------------------------------------------------------------------------- plain values


def plain_row(record: neo4j.Record) -> Row:
    """A record of plain values."""
    return {key: plain(value) for key, value in record.items()}


def plain(value: Any) -> Any:  # noqa: ANN401, PLR0911  # one return a kind of value
    """A value of the graph as JSON would have it."""
    if isinstance(value, Node):
        return {"labels": sorted(value.labels), "properties": plain(dict(value))}
    if isinstance(value, Relationship):
        start, end = (plain(node) for node in value.nodes)
        return {"type": value.type, "start": start, "end": end, "properties": plain(dict(value))}
    if isinstance(value, Path):
        return {"nodes": [plain(n) for n in value.nodes], "relationships": [plain(r) for r in value.relationships]}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, Point):
        return {"srid": value.srid, "coordinates": list(value)}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Date | DateTime | Time | Duration):
        return value.iso_format()
    if isinstance(value, bytes | bytearray):
        return value.hex()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
