"""Loads graphs over Bolt, and notes beside them what is loaded, by which copy of the project, and how it must look."""

import hashlib
import json
import logging
import math
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import contextmanager
from typing import Any, Literal

import neo4j
from filelock import FileLock
from tqdm import tqdm

from helpers.graph_driver import Connection, GraphError, Row, identifier, quoted
from resources import graph_engine
from resources.engines import write_secret
from resources.services import GraphEndpoint
from resources.settings import BUILD, DERIVED, ROOT

MARKER = "LoadedData"
"""Label of the notes, one a data set: its name, its SHA-256 (empty unless it is loaded to its end), the labels loaded
for it, its content (empty while it is loaded), and who loaded it."""
BATCH_ROWS = 5_000
BATCH_CHARACTERS = (
    4_000_000  # a Bolt message may hold 16 MB; this leaves room for four bytes a character
)
End = tuple[str, str, str]
"""A node that a row names: its label, its key property, and the row's field that holds the key."""
NOBODYS_OR_OURS = "coalesce(m.owner, $owner) = $owner"

log = logging.getLogger(__name__)


class Loader(Connection):
    """A connection that loads; of a server shared with other copies of the project, it replaces only its own graphs."""

    def __init__(self, endpoint: GraphEndpoint) -> None:
        """Connect; see `graph.connect` for the errors."""
        super().__init__(endpoint)
        self._owner = "" if endpoint.embedded else _owner()
        self._loading = ""
        self._keys: dict[str, str] = {}
        self._edges: set[tuple[str, str, str]] = set()

    def kinds(self, what: Literal["labels", "relationshipTypes"]) -> list[str]:
        """The labels of the graph's nodes, or the types of its relationships; without the notes of what is loaded."""
        return sorted(
            {name for row in self.read(f"CALL db.{what}()") for name in row.values()} - {MARKER}
        )

    def count(self, pattern: str) -> int:
        """The number of nodes or relationships that are the `n` of a pattern."""
        return int(self.read(f"MATCH {pattern} RETURN count(n) AS count")[0]["count"])

    def constraint(self, label: str, prop: str) -> None:
        """Make `prop` unique among the nodes of `label`, and indexed; nothing happens if it is."""
        self._write(
            f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{quoted(label)}) REQUIRE n.{quoted(prop)} IS UNIQUE"
        )

    def load_nodes(
        self, label: str, rows: Iterable[Mapping[str, Any]], key: str, *, progress: bool = True
    ) -> int:
        """Create or update one node for each row of properties, and return the number of rows.

        Properties that a row does not name stay. `key` identifies a node; a `constraint` on it makes loading fast.
        """
        if label not in self._keys:
            self._keys[label] = key
            if self._loading:  # known as ours before the first node is there
                self._note(
                    "MERGE",
                    self._loading,
                    sha256="",
                    labels=sorted(self._keys),
                    content="",
                    owner=self._owner,
                )
        statement = f"MERGE (n:{quoted(label)} {{{quoted(key)}: row.key}}) SET n += row.properties"
        return self._load(label, statement, {"key": (label, key, key)}, rows, progress)

    def load_edges(
        self,
        type: str,
        rows: Iterable[Mapping[str, Any]],
        start: End,
        end: End,
        *,
        progress: bool = True,
    ) -> int:
        """Create or update one relationship for each pair of ends, and return the number of rows.

        Its properties are the row's other fields. A GraphError names nodes that are not there, or twice. One process at
        a time may load a type, see `load_once`.
        """
        self._edges.add((type, start[0], end[0]))
        # what MERGE would do, which on the embedded server walks through all edges of the first node for each row
        statement = (
            f"MATCH (a:{quoted(start[0])} {{{quoted(start[1])}: row.start}}) "
            f"MATCH (b:{quoted(end[0])} {{{quoted(end[1])}: row.end}}) "
            f"OPTIONAL MATCH (a)-[old:{quoted(type)}]->(b) "
            "FOREACH (_ IN CASE WHEN old IS NULL THEN [1] ELSE [] END | "
            f"CREATE (a)-[r:{quoted(type)}]->(b) SET r += row.properties) "
            "FOREACH (r IN CASE WHEN old IS NULL THEN [] ELSE [old] END | SET r += row.properties)"
        )
        return self._load(type, statement, {"start": start, "end": end}, rows, progress)

    def _load(
        self,
        name: str,
        statement: str,
        ends: dict[str, End],
        rows: Iterable[Mapping[str, Any]],
        progress: bool,
    ) -> int:
        fields, what, count = {field for _, _, field in ends.values()}, f"load {name}", 0
        total = len(rows) if isinstance(rows, Sized) else None
        sent: Iterator[Row] = (
            {end: row.get(field) for end, (_, _, field) in ends.items()}
            | {
                "properties": {
                    identifier(key): value for key, value in row.items() if key not in fields
                }
            }
            for row in rows
        )
        with tqdm(total=total, desc=what, unit="row", disable=not progress) as bar:
            for batch in batches(sent):
                distinct: dict[tuple[Any, ...], Row] = {}
                for number, row in enumerate(batch, start=count):
                    for end, (label, key, _) in ends.items():
                        if row[end] is None:
                            raise ValueError(
                                f"{what}: row {number} has no value for the {key} of {label}."
                            )
                    distinct.setdefault(tuple(row[end] for end in ends), row)["properties"] |= row[
                        "properties"
                    ]
                with (
                    self._driver.session(database=self.endpoint.database) as session,
                    self._explaining(),
                ):
                    session.execute_write(
                        _load_batch, statement, list(distinct.values()), ends, what
                    )
                count += len(batch)
                bar.update(len(batch))
        return count

    def clear(self, *labels: str) -> None:
        """Delete all nodes of these labels that are this copy's, and their relationships; or a GraphError."""
        if not labels:
            raise ValueError("clear needs the labels to delete.")
        if not self.endpoint.embedded:
            self._refuse_foreign(labels)
        # the notes first: an interrupted clear must not leave one that vouches for what is gone
        self._write(
            f"MATCH (m:{MARKER}) WHERE {NOBODYS_OR_OURS} "
            "AND (size(m.labels) = 0 OR any(label IN m.labels WHERE label IN $labels)) SET m.sha256 = ''",
            labels=list(labels),
            owner=self._owner,
        )
        try:
            for label in labels:
                self._delete(f"(n:{quoted(label)})")
        except GraphError as error:
            if not self.endpoint.embedded or "refused a statement" not in str(error):
                raise
            # an edge to a node that is gone, as after the server was killed while it wrote
            graph_engine.mark_damaged()
            raise GraphError(
                "The embedded graph's database is damaged, as after its server was killed. Run `make stop` and then "
                "the same command again: the next start sets the database aside, and the graphs are loaded anew."
            ) from error

    def _delete(self, pattern: str) -> None:
        # relationships first, in parts: deleting a node together with many of them is one large transaction
        for what, matching in (("r", f"{pattern}-[r]-()"), ("n", pattern)):
            statement = f"MATCH {matching} WITH DISTINCT {what} LIMIT 10000 DELETE {what} RETURN count(*) AS deleted"
            while self._write(statement)[0]["deleted"]:
                pass

    @contextmanager
    def load_once(self, name: str, sha256: str) -> Iterator[bool]:
        """Load a data set in a `with` block if it yields True: one process of this machine at a time.

        It counts as loaded if the block ends without an error. A GraphError tells of another copy's data of this name.
        """
        BUILD.mkdir(parents=True, exist_ok=True)
        with FileLock(BUILD / "graph-load.lock"):
            missing = not self.loaded(name, sha256)
            if missing:
                self._begin(name)
            try:
                yield missing
            finally:
                self._loading = ""
            if missing:
                self.mark_loaded(name, sha256)

    def _begin(self, name: str) -> None:
        # from here on the data set is neither the old version nor the new one
        self._note("MATCH", name, sha256="")
        # so that of two copies which find none only one can be the first
        self._write(f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{MARKER}) REQUIRE n.name IS UNIQUE")
        # those of another data set must not tie this one's note to them
        self._keys.clear()
        self._edges.clear()
        self._loading = name

    def mark_loaded(self, name: str, sha256: str) -> None:
        """Note that the data set `name` with this SHA-256 is loaded to its end, and looks as it does now."""
        content = json.dumps(self._content(self._keys.items(), self._edges))
        self._note(
            "MERGE",
            name,
            sha256=sha256,
            labels=sorted(self._keys),
            content=content,
            owner=self._owner,
        )

    def _note(self, find: Literal["MERGE", "MATCH"], name: str, **changes: object) -> None:
        """Change what is noted of a data set, unless another copy loaded it: then a GraphError."""
        held = self._write(
            f"{find} (m:{MARKER} {{name: $name}}) FOREACH (_ IN CASE WHEN {NOBODYS_OR_OURS} THEN [1] ELSE [] END | "
            "SET m += $changes) RETURN m.owner AS owner",
            name=name,
            owner=self._owner,
            changes=changes,
        )
        self._refuse_others([row["owner"] for row in held], f"the graph {name!r}")

    def _content(self, nodes: Iterable[Any], edges: Iterable[Any]) -> dict[str, list[list[Any]]]:
        content: dict[str, list[list[Any]]] = {"nodes": [], "edges": []}
        for label, key, *_ in sorted(nodes):
            there = self.read(
                f"MATCH (n:{quoted(label)}) RETURN count(n) AS count, collect(n.{quoted(key)}) AS keys"
            )
            lines = "\n".join(sorted(json.dumps(value) for value in there[0]["keys"]))
            content["nodes"].append(
                [label, key, there[0]["count"], hashlib.sha256(lines.encode()).hexdigest()]
            )
        for type, start, end, *_ in sorted(edges):
            pattern = f"(:{quoted(start)})-[n:{quoted(type)}]->(:{quoted(end)})"
            content["edges"].append([type, start, end, self.count(pattern)])
        return content

    def loaded(self, name: str, sha256: str) -> bool:
        """Whether the data set is loaded to its end, with the same keys and relationships; logs a difference."""
        asked = (
            f"MATCH (m:{MARKER} {{name: $name}}) RETURN m.sha256 AS sha256, m.content AS content"
        )
        found = self.read(asked, name=name)
        if [row["sha256"] for row in found] != [sha256] or not found[0]["content"]:
            return False
        noted = json.loads(found[0]["content"])
        there = self._content(**noted)
        changed = [
            now[0]
            for what in noted
            for then, now in zip(noted[what], there[what], strict=True)
            if then != now
        ]
        if changed:
            log.warning(
                "The graph %r is not as it was loaded (%s). It is loaded anew.",
                name,
                ", ".join(changed),
            )
        return not changed

    def _refuse_foreign(self, labels: Sequence[str]) -> None:
        ours: dict[str, float] = dict.fromkeys(labels, 0)
        for note in self.read(
            f"MATCH (m:{MARKER}) RETURN m.labels AS labels, m.content AS content, m.owner AS owner"
        ):
            if shared := ours.keys() & note["labels"]:
                self._refuse_others([note["owner"]], f"nodes :{min(shared)}")
            # how many an interrupted load left, nobody knows
            counts = (
                {label: n for label, _, n, _ in json.loads(note["content"])["nodes"]}
                if note["content"]
                else {}
            )
            for label in shared:
                ours[label] = max(ours[label], counts.get(label, math.inf))
        for label, known in sorted(ours.items()):
            if (count := self.count(f"(n:{quoted(label)})")) > known:
                foreign = f"{count - known:,.0f} nodes :{label} that this project did not load"
                raise self._taken(f"{foreign}; loading would delete them")

    def _refuse_others(self, owners: Iterable[str | None], what: str) -> None:
        if not self.endpoint.embedded and (others := set(owners) - {self._owner, None}):
            raise self._taken(
                f"{what}, loaded by another copy of this project ({others.pop()})",
                " if that copy is gone",
            )

    def _taken(self, by: str, when: str = "") -> GraphError:
        database = f"The database {self.endpoint.database!r} at NEO4J_URI={self.endpoint.uri}"
        return GraphError(
            f"{database} has {by}. Name a database of its own by NEO4J_DATABASE, or empty this one{when}."
        )


def _owner() -> str:
    # a random part, kept with the derived data, tells copies of the same path apart
    kept = DERIVED / "graph-owner"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{kept}.lock"):
        if not kept.exists() or not kept.read_text():  # empty as a full disk left it
            write_secret(kept, f"{socket.gethostname()}, {secrets.token_hex(8)}")
    return f"{ROOT} on {kept.read_text()}"


def _load_batch(
    transaction: neo4j.ManagedTransaction,
    statement: str,
    rows: list[Row],
    ends: dict[str, End],
    what: str,
) -> None:
    loading = f"UNWIND $rows AS row {statement} RETURN count(*) AS matched"
    if transaction.run(loading, rows=rows).single(strict=True)["matched"] == len(rows):
        return
    found = []
    for end, (label, key, _) in ends.items():
        counted = transaction.run(
            f"UNWIND $keys AS key OPTIONAL MATCH (n:{quoted(label)} {{{quoted(key)}: key}}) "
            "WITH key, count(n) AS nodes WHERE nodes <> 1 RETURN key, nodes ORDER BY key",
            keys=list({row[end] for row in rows}),
        )
        found += [f"{label} {row['key']!r} ({row['nodes']} nodes)" for row in counted]
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    raise GraphError(
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
            raise ValueError(
                f"A row of {size:,} characters is too large; at most {BATCH_CHARACTERS:,} can be loaded."
            )
        if batch and (len(batch) == BATCH_ROWS or size > room):
            yield batch
            batch, room = [], BATCH_CHARACTERS
        batch.append(row)
        room -= size
    if batch:
        yield batch
