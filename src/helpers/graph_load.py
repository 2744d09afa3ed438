"""Rows in batches that fit one Bolt message, each loaded whole or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import neo4j

from helpers.graph_driver import GraphError, Row, quoted

BATCH_ROWS = 5_000
BATCH_CHARACTERS = 4_000_000
"""A Bolt message may hold 16 MB; this leaves room for four bytes a character."""


def load_batch(
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
            f"UNWIND $keys AS key OPTIONAL MATCH (n:{quoted(label)} {{{quoted(key)}: key}}) "
            "WITH key, count(n) AS nodes WHERE nodes <> 1 RETURN key, nodes ORDER BY key",
            keys=list({row[end] for row in batch}),
        ).data()
        found += [f"{label} {row['key']!r} ({row['nodes']} nodes)" for row in counted]
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    return GraphError(
        f"{what}: each end must be exactly one node. Found: {', '.join(found[:5])}{more}. Load the nodes first, and "
        "make their key unique by constraint()."
    )


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
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
