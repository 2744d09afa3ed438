"""Notes beside the graphs: what is loaded, by which copy of the project, and how it must look.

A server may be shared: a copy of the project replaces only graphs that it loaded itself.
"""

import hashlib
import json
import logging
import math
import secrets
import socket
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal

from filelock import FileLock

from helpers.graph_driver import Connection, GraphError, Row, quoted
from resources import graph_engine
from resources.engines import write_secret
from resources.services import GraphEndpoint
from resources.settings import BUILD, DERIVED, ROOT

MARKER = "LoadedData"
"""Label of the notes, one for each data set.

A note has the name, the SHA-256 (empty unless the data set is loaded to its end), the labels loaded
for it, its content (empty while it is loaded), and the owner.
"""
OWN_PREFIX = "Own_"
"""Begins the labels and types of graphs of a user's own text, which no schema or export shows."""
DELETED_AT_ONCE = 10_000
"""Nodes or relationships in one transaction."""
NOBODYS_OR_OURS = "coalesce(m.owner, $owner) = $owner"

log = logging.getLogger(__name__)


class Catalogue(Connection):
    """A connection that knows what is loaded, and removes it.

    Two graphs of the same labels may share a database if one has a prefix: it begins each label
    that is loaded or deleted, and the name of each data set. What is read is not changed.
    """

    def __init__(self, endpoint: GraphEndpoint, prefix: str = "") -> None:
        """Connect; see `graph.connect` for the errors."""
        super().__init__(endpoint)
        self._prefix = prefix
        self._owner = "" if endpoint.embedded else _read_owner()
        self._loading = ""
        self._keys: dict[str, str] = {}
        self._edges: set[tuple[str, str, str]] = set()

    def kinds(self, what: Literal["labels", "relationshipTypes"]) -> list[str]:
        """List the labels of nodes or the types of relationships.

        The list leaves out those labels and types that the project uses for its own notes and for a
        user's own text.
        """
        rows = self.read(f"CALL db.{what}()")
        names = {name for row in rows for name in row.values()}
        return sorted(name for name in names - {MARKER} if not name.startswith(OWN_PREFIX))

    def count(self, pattern: str) -> int:
        """Count the nodes or relationships that match the variable `n` of a pattern."""
        return int(self.read(f"MATCH {pattern} RETURN count(n) AS count")[0]["count"])

    @contextmanager
    def load_once(self, name: str, sha256: str) -> Iterator[bool]:
        """Yield whether the `with` block has to load a data set.

        Only one process of this copy of the project loads at a time. The data set counts as
        loaded if the block ends without an error.

        Args:
            name: Name of the data set.
            sha256: Digest of the data.

        Raises:
            GraphError: If another copy of the project loaded other data under this name.
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

    def loaded(self, name: str, sha256: str) -> bool:
        """Whether a data set was loaded completely, and its counts and keys are unchanged.

        Changes are logged.
        """
        name = self._prefixed(name)
        notes = self.read(
            f"MATCH (m:{MARKER} {{name: $name}}) RETURN m.sha256 AS sha256, m.content AS content",
            name=name,
        )
        if [note["sha256"] for note in notes] != [sha256] or not notes[0]["content"]:
            return False
        then = json.loads(notes[0]["content"])
        now = self._content(then["nodes"], then["edges"])
        changed = []
        for kind in then:
            for old, new in zip(then[kind], now[kind], strict=True):
                if old != new:
                    changed.append(new[0])
        if changed:
            log.warning(
                "The graph %r is not as it was loaded (%s). It is loaded anew.",
                name,
                ", ".join(changed),
            )
        return not changed

    def mark_loaded(self, name: str, sha256: str) -> None:
        """Record that a data set was loaded completely, with its present counts and keys."""
        content = self._content(self._keys.items(), self._edges)
        self._note(
            "MERGE",
            name,
            sha256=sha256,
            labels=sorted(self._keys),
            content=json.dumps(content),
            owner=self._owner,
        )

    def clear(self, *labels: str) -> None:
        """Delete the nodes of these labels and their relationships.

        Raises:
            GraphError: If a server that the settings name has nodes of these labels that this copy
                of the project did not load (nothing is then deleted), or if the embedded database
                is damaged.
            ValueError: If no label was named.
        """
        if not labels:
            raise ValueError("clear needs the labels to delete.")
        labels = tuple(self._prefixed(label) for label in labels)
        if not self.endpoint.embedded:
            self._refuse_foreign_nodes(labels)
        # The notes first: an interrupted clear must not leave one that vouches for what is gone.
        self._write(
            f"MATCH (m:{MARKER}) WHERE {NOBODYS_OR_OURS} "
            "AND (size(m.labels) = 0 OR any(label IN m.labels WHERE label IN $labels)) "
            "SET m.sha256 = ''",
            labels=list(labels),
            owner=self._owner,
        )
        try:
            for label in labels:
                self._delete(f"(n:{quoted(label)})")
        except GraphError as error:
            if not self.endpoint.embedded or "refused a statement" not in str(error):
                raise
            # An edge to a node that is gone, as after the server was killed while it wrote.
            graph_engine.mark_damaged()
            raise GraphError(
                "The embedded graph's database is damaged, as after its server was killed. Run "
                "`make stop` and then the same command again: the next start sets the database "
                "aside, and the graphs are loaded anew."
            ) from error

    def _delete(self, pattern: str) -> None:
        """Delete the nodes `n` of a pattern in parts: with many relationships it is much at once.

        Each part is collected before it is deleted. The embedded server would else delete
        relationships from the list that it is walking through, and lose its place.
        """
        for variable, match in (("r", f"{pattern}-[r]-()"), ("n", pattern)):
            statement = (
                f"MATCH {match} WITH DISTINCT {variable} LIMIT {DELETED_AT_ONCE} "
                f"WITH collect({variable}) AS part "
                "FOREACH (item IN part | DELETE item) RETURN size(part) AS deleted"
            )
            while self._write(statement)[0]["deleted"]:
                pass

    def _begin(self, name: str) -> None:
        # From here on the data set is neither the old version nor the new one.
        self._note("MATCH", name, sha256="")
        # So that of two copies which find none only one can be the first.
        self._write(f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{MARKER}) REQUIRE n.name IS UNIQUE")
        # Those of another data set must not tie this one's note to them.
        self._keys.clear()
        self._edges.clear()
        self._loading = name

    def _note_label(self, label: str, key: str) -> None:
        """Note that nodes of a label, with its prefix, are about to be loaded."""
        if label in self._keys:
            return
        self._keys[label] = key
        if self._loading:
            self._note(
                "MERGE",
                self._loading,
                sha256="",
                labels=sorted(self._keys),
                content="",
                owner=self._owner,
            )

    def _note(self, find: Literal["MERGE", "MATCH"], name: str, **changes: object) -> None:
        """Change what is noted of a data set, unless another copy loaded it: then a GraphError."""
        name = self._prefixed(name)
        notes = self._write(
            f"{find} (m:{MARKER} {{name: $name}}) "
            f"FOREACH (_ IN CASE WHEN {NOBODYS_OR_OURS} THEN [1] ELSE [] END | SET m += $changes) "
            "RETURN m.owner AS owner",
            name=name,
            owner=self._owner,
            changes=changes,
        )
        self._refuse_other_owners([note["owner"] for note in notes], f"the graph {name!r}")

    def _prefixed(self, name: str) -> str:
        """Put the prefix before a label, or before the name of a data set."""
        return f"{self._prefix}{name}"

    def _content(self, nodes: Iterable[Any], edges: Iterable[Any]) -> dict[str, list[list[Any]]]:
        """Count nodes and relationships, and digest the keys of the nodes.

        Args:
            nodes: Label with its prefix and key property, whatever follows.
            edges: Type, label of the start and label of the end, whatever follows.
        """
        content: dict[str, list[list[Any]]] = {"nodes": [], "edges": []}
        for label, key, *_ in sorted(nodes):
            row = self.read(
                f"MATCH (n:{quoted(label)}) "
                f"RETURN count(n) AS count, collect(n.{quoted(key)}) AS keys"
            )[0]
            keys = sorted(json.dumps(value) for value in row["keys"])
            digest = hashlib.sha256("\n".join(keys).encode())
            content["nodes"].append([label, key, row["count"], digest.hexdigest()])
        for type_name, start, end, *_ in sorted(edges):
            pattern = f"(:{quoted(start)})-[n:{quoted(type_name)}]->(:{quoted(end)})"
            content["edges"].append([type_name, start, end, self.count(pattern)])
        return content

    def _refuse_foreign_nodes(self, labels: Sequence[str]) -> None:
        """Raise a GraphError if some nodes of these labels are not this copy's."""
        known: dict[str, float] = dict.fromkeys(labels, 0)
        notes = self.read(
            f"MATCH (m:{MARKER}) RETURN m.labels AS labels, m.content AS content, m.owner AS owner"
        )
        for note in notes:
            shared = known.keys() & note["labels"]
            if shared:
                self._refuse_other_owners([note["owner"]], f"nodes :{min(shared)}")
            counts = _noted_counts(note)
            for label in shared:
                known[label] = max(known[label], counts.get(label, math.inf))
        for label, ours in sorted(known.items()):
            foreign = self.count(f"(n:{quoted(label)})") - ours
            if foreign > 0:
                raise self._occupied(
                    f"{foreign:,.0f} nodes :{label} that this project did not load; "
                    "loading would delete them"
                )

    def _refuse_other_owners(self, owners: Iterable[str | None], what: str) -> None:
        others = set(owners) - {self._owner, None}
        if others and not self.endpoint.embedded:
            raise self._occupied(
                f"{what}, loaded by another copy of this project ({others.pop()})",
                " if that copy is gone",
            )

    def _occupied(self, content: str, condition: str = "") -> GraphError:
        database = f"The database {self.endpoint.database!r} at NEO4J_URI={self.endpoint.uri}"
        return GraphError(
            f"{database} has {content}. Name a database of its own by NEO4J_DATABASE, or empty "
            f"this one{condition}."
        )


def _noted_counts(note: Row) -> dict[str, int]:
    """The nodes of each label at the end of a load; an interrupted one left an unknown number."""
    if not note["content"]:
        return {}
    return {label: count for label, _, count, _ in json.loads(note["content"])["nodes"]}


def _read_owner() -> str:
    # a random part, kept with the derived data, tells copies of the same path apart
    path = DERIVED / "graph-owner"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{path}.lock"):
        if not path.exists() or not path.read_text():  # empty as a full disk left it
            write_secret(path, f"{socket.gethostname()}, {secrets.token_hex(8)}")
    return f"{ROOT} on {path.read_text()}"
