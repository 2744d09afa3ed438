"""Loads nodes and relationships over Bolt."""

from collections.abc import Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any

import neo4j
from tqdm import tqdm

from helpers.graph_catalogue import Catalogue
from helpers.graph_driver import GraphError, Row, identifier, quoted

BATCH_ROWS = 5_000
BATCH_CHARACTERS = 4_000_000
"""A Bolt message may hold 16 MB; this leaves room for four bytes a character."""
MAX_NAMED = 5
"""How many wrong ends an error names."""

End = tuple[str, str, str]
"""A node that a row names: its label, its key property, and the row's field that holds the key."""


class Loader(Catalogue):
    """A connection that loads."""

    def constraint(self, label: str, prop: str) -> None:
        """Make `prop` unique among the nodes of `label`, with an index, unless it is already."""
        label = self._prefixed(label)
        self._write(
            f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{quoted(label)}) "
            f"REQUIRE n.{quoted(prop)} IS UNIQUE"
        )

    def load_nodes(
        self, label: str, rows: Iterable[Mapping[str, Any]], key: str, *, progress: bool = True
    ) -> int:
        """Create or update one node for each row of properties.

        Properties that a row does not name do not change.

        Args:
            label: Label of the nodes.
            rows: Properties of each node.
            key: Property that identifies a node. A `constraint` on this property makes loading
                fast.
            progress: Whether to show a progress bar.

        Returns:
            The number of rows.
        """
        label = self._prefixed(label)
        self._note_label(label, key)
        statement = f"MERGE (n:{quoted(label)} {{{quoted(key)}: row.key}}) SET n += row.properties"
        step = Step(f"load {label}", statement, {"key": (label, key, key)})
        return self._load(step, rows, progress)

    def load_edges(
        self,
        type_name: str,
        rows: Iterable[Mapping[str, Any]],
        start: End,
        end: End,
        *,
        progress: bool = True,
    ) -> int:
        """Create or update one relationship for each pair of nodes.

        Only one process at a time may load a type (see `load_once`).

        Args:
            type_name: Type of the relationships.
            rows: Keys of the two nodes. The other fields are the relationship's properties.
            start: Label and key property of the start node, and the field of each row with its key.
            end: The same for the end node.
            progress: Whether to show a progress bar.

        Returns:
            The number of rows.

        Raises:
            GraphError: If a node does not exist, or its key is not unique.
            ValueError: If a row lacks the key of a node, or is too large.
        """
        start, end = self._prefixed_end(start), self._prefixed_end(end)
        self._edges.add((type_name, start[0], end[0]))
        # What MERGE would do, which on the embedded server walks through all edges of the first
        # node for each row.
        statement = (
            f"MATCH (a:{quoted(start[0])} {{{quoted(start[1])}: row.start}}) "
            f"MATCH (b:{quoted(end[0])} {{{quoted(end[1])}: row.end}}) "
            f"OPTIONAL MATCH (a)-[old:{quoted(type_name)}]->(b) "
            "FOREACH (_ IN CASE WHEN old IS NULL THEN [1] ELSE [] END | "
            f"CREATE (a)-[r:{quoted(type_name)}]->(b) SET r += row.properties) "
            "FOREACH (r IN CASE WHEN old IS NULL THEN [] ELSE [old] END | SET r += row.properties)"
        )
        step = Step(f"load {type_name}", statement, {"start": start, "end": end})
        return self._load(step, rows, progress)

    def _prefixed_end(self, end: End) -> End:
        label, key, field = end
        return self._prefixed(label), key, field

    def _load(self, step: "Step", rows: Iterable[Mapping[str, Any]], progress: bool) -> int:
        total = len(rows) if isinstance(rows, Sized) else None
        count = 0
        sent = (step.parameters(row) for row in rows)
        with tqdm(total=total, desc=step.name, unit="row", disable=not progress) as bar:
            for batch in batches(sent):
                step.check_keys(batch, first_number=count)
                self._send(step, batch)
                count += len(batch)
                bar.update(len(batch))
        return count

    def _send(self, step: "Step", batch: list[Row]) -> None:
        database = self.endpoint.database
        with self._driver.session(database=database) as session, self._explaining():
            session.execute_write(step.run, step.merge_same(batch))


@dataclass(frozen=True)
class Step:
    """One kind of node or relationship to load.

    Attributes:
        name: Name in progress bars and errors.
        statement: Cypher for one `row`.
        ends: The nodes that a row names, by the name under which the row holds their keys.
    """

    name: str
    statement: str
    ends: Mapping[str, End]

    def parameters(self, row: Mapping[str, Any]) -> Row:
        """Split a row into the keys of its ends and its properties."""
        keys = {name: row.get(field) for name, (_, _, field) in self.ends.items()}
        fields = {field for _, _, field in self.ends.values()}
        properties = {identifier(name): value for name, value in row.items() if name not in fields}
        return keys | {"properties": properties}

    def check_keys(self, batch: Iterable[Row], first_number: int) -> None:
        """Check that each row names its ends.

        Raises:
            ValueError: A row lacks a key.
        """
        for number, row in enumerate(batch, start=first_number):
            for name, (label, key, _) in self.ends.items():
                if row[name] is None:
                    raise ValueError(
                        f"{self.name}: row {number} has no value for the {key} of {label}."
                    )

    def merge_same(self, batch: Iterable[Row]) -> list[Row]:
        """Merge the rows of the same ends; the properties of later ones win."""
        distinct: dict[tuple[Any, ...], Row] = {}
        for row in batch:
            keys = tuple(row[name] for name in self.ends)
            merged = distinct.setdefault(keys, row)
            merged["properties"] |= row["properties"]
        return list(distinct.values())

    def run(self, transaction: neo4j.ManagedTransaction, rows: list[Row]) -> None:
        """Load rows in a transaction.

        Raises:
            GraphError: If a node does not exist, or its key is not unique.
        """
        loading = f"UNWIND $rows AS row {self.statement} RETURN count(*) AS matched"
        matched = transaction.run(loading, rows=rows).single(strict=True)["matched"]
        if matched == len(rows):
            return
        wrong = self._wrong_ends(transaction, rows)
        named = ", ".join(wrong[:MAX_NAMED])
        more = f" and {len(wrong) - MAX_NAMED} more" if len(wrong) > MAX_NAMED else ""
        raise GraphError(
            f"{self.name}: each end must be exactly one node. Found: {named}{more}. Load the nodes "
            "first, and make their key unique by constraint()."
        )

    def _wrong_ends(self, transaction: neo4j.ManagedTransaction, rows: list[Row]) -> list[str]:
        wrong = []
        for name, (label, key, _) in self.ends.items():
            counts = transaction.run(
                f"UNWIND $keys AS key OPTIONAL MATCH (n:{quoted(label)} {{{quoted(key)}: key}}) "
                "WITH key, count(n) AS nodes WHERE nodes <> 1 RETURN key, nodes ORDER BY key",
                keys=list({row[name] for row in rows}),
            )
            wrong += [f"{label} {row['key']!r} ({row['nodes']} nodes)" for row in counts]
        return wrong


def batches(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """Divide rows into parts that fit one Bolt message.

    Raises:
        ValueError: A row is larger than a message.
    """
    batch: list[Row] = []
    room = BATCH_CHARACTERS
    for row in rows:
        size = _characters(row)
        if size > BATCH_CHARACTERS:
            raise ValueError(
                f"A row of {size:,} characters is too large; at most {BATCH_CHARACTERS:,} can be "
                "loaded."
            )
        is_full = len(batch) == BATCH_ROWS or size > room
        if batch and is_full:
            yield batch
            batch, room = [], BATCH_CHARACTERS
        batch.append(row)
        room -= size
    if batch:
        yield batch


def _characters(row: Row) -> int:
    texts = [str(value) for value in row.values()]
    return sum(len(text) for text in texts)
