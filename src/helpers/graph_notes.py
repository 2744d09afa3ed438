"""Notes beside the graph on what is loaded, by which copy of the project, and what it must still look like."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import secrets
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from filelock import FileLock

from helpers.graph_driver import GraphError, Row, quoted
from helpers.services import GraphEndpoint
from helpers.settings import DERIVED, ROOT

MARKER = "LoadedData"
"""Label of the notes, one a data set: its name, its SHA-256 (empty unless it is loaded to its end), the labels loaded
for it, its content (empty while it is loaded), and who loaded it."""

log = logging.getLogger(__name__)


def owner() -> str:
    """This copy of the project. A random part, kept with the derived data, tells copies of the same path apart."""
    kept = DERIVED / "graph-owner"
    kept.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{kept}.lock"):
        if not kept.exists():
            kept.write_text(f"{socket.gethostname()}, {secrets.token_hex(8)}")
    return f"{ROOT} on {kept.read_text()}"


class Notes:
    """The notes of one database.

    A server of the user's own may be shared with other copies of the project: each replaces only what it loaded
    itself. The embedded server belongs to one copy.
    """

    def __init__(
        self, endpoint: GraphEndpoint, read: Callable[..., list[Row]], write: Callable[..., list[Row]]
    ) -> None:
        """Notes that `read` and `write`, of a connection to `endpoint`, reach."""
        self._endpoint = endpoint
        self._read = read
        self._write = write
        self._owner = "" if endpoint.embedded else owner()
        self._loading = ""
        self._keys: dict[str, str] = {}
        self._edges: set[tuple[str, str, str]] = set()

    # ------------------------------------------------------------------------------------------------------- loading

    def begin(self, name: str) -> None:
        """From here on the data set `name` is neither the old version nor the new one.

        Raises:
            GraphError: another copy of the project loaded one of this name.
        """
        held = self._write(
            f"MATCH (m:{quoted(MARKER)} {{name: $name}}) "
            "SET m.sha256 = CASE WHEN coalesce(m.owner, $owner) = $owner THEN '' ELSE m.sha256 END "
            "RETURN m.owner AS owner",
            name=name,
            owner=self._owner,
        )
        self._refuse_owner([row["owner"] for row in held], f"the graph {name!r}")
        # so that of two copies which find none only one can be the first
        self._write(f"CREATE CONSTRAINT IF NOT EXISTS FOR (n:{quoted(MARKER)}) REQUIRE n.name IS UNIQUE")
        # those of another data set must not tie this one's note to them
        self._keys.clear()
        self._edges.clear()
        self._loading = name

    def nodes(self, label: str, key: str) -> None:
        """Nodes of a label are about to be loaded."""
        if label not in self._keys:
            self._keys[label] = key
            if self._loading:  # known as ours before the first node is there
                self._note(self._loading, "", "")

    def edges(self, type: str, start: str, end: str) -> None:
        """Relationships of a type are about to be loaded."""
        self._edges.add((type, start, end))

    def end(self) -> None:
        """What is loaded from here on is no part of a data set."""
        self._loading = ""

    def complete(self, name: str, sha256: str) -> None:
        """The data set is loaded to its end, and looks as it does now."""
        self._note(name, sha256, json.dumps(self._content(self._keys, self._edges)))

    def _note(self, name: str, sha256: str, content: str) -> None:
        held = self._write(
            f"MERGE (m:{quoted(MARKER)} {{name: $name}}) "
            "FOREACH (_ IN CASE WHEN coalesce(m.owner, $owner) = $owner THEN [1] ELSE [] END | "
            "SET m.sha256 = $sha256, m.labels = $labels, m.content = $content, m.owner = $owner) "
            "RETURN m.owner AS owner",
            name=name,
            sha256=sha256,
            labels=sorted(self._keys),
            content=content,
            owner=self._owner,
        )
        self._refuse_owner([row["owner"] for row in held], f"the graph {name!r}")

    def _content(self, keys: Mapping[str, str], edges: Iterable[tuple[str, str, str]]) -> dict[str, list[list[Any]]]:
        """What is there: number of nodes and digest of the keys by label, number of relationships by type and ends."""
        content: dict[str, list[list[Any]]] = {"nodes": [], "edges": []}
        for label, key in sorted(keys.items()):
            there = self._read(f"MATCH (n:{quoted(label)}) RETURN count(n) AS count, collect(n.{quoted(key)}) AS keys")
            lines = "\n".join(sorted(json.dumps(value) for value in there[0]["keys"]))
            digest = hashlib.sha256(lines.encode()).hexdigest()
            content["nodes"].append([label, key, there[0]["count"], digest])
        for type, start, end in sorted(edges):
            pattern = f"(:{quoted(start)})-[r:{quoted(type)}]->(:{quoted(end)})"
            content["edges"].append([type, start, end, self._read(f"MATCH {pattern} RETURN count(r) AS n")[0]["n"]])
        return content

    # ------------------------------------------------------------------------------------------------------ checking

    def loaded(self, name: str, sha256: str) -> bool:
        """Whether the data set with this SHA-256 is loaded to its end, and still as it was then."""
        found = self._read(
            f"MATCH (m:{quoted(MARKER)} {{name: $name}}) RETURN m.sha256 AS sha256, m.content AS content", name=name
        )
        if [row["sha256"] for row in found] != [sha256] or not found[0]["content"]:
            return False
        noted = json.loads(found[0]["content"])
        there = self._content(
            {label: key for label, key, *_ in noted["nodes"]},
            [(type, start, end) for type, start, end, _ in noted["edges"]],
        )
        changed = [now[0] for what in noted for then, now in zip(noted[what], there[what], strict=True) if then != now]
        if changed:
            log.warning("The graph %r is not as it was loaded (%s). It is loaded anew.", name, ", ".join(changed))
        return not changed

    # ------------------------------------------------------------------------------------------------------ clearing

    def clear(self, labels: Sequence[str]) -> None:
        """Before these labels are deleted: what was loaded with them counts as not loaded.

        The notes go on telling whose the labels are.

        Raises:
            GraphError: on a server of the user's own, nodes are there that this copy of the project did not load.
        """
        if not self._endpoint.embedded:
            self._refuse_foreign(labels)
        self._write(
            f"MATCH (m:{quoted(MARKER)}) WHERE coalesce(m.owner, $owner) = $owner "
            "AND (size(m.labels) = 0 OR any(label IN m.labels WHERE label IN $labels)) SET m.sha256 = ''",
            labels=list(labels),
            owner=self._owner,
        )

    def _refuse_foreign(self, labels: Sequence[str]) -> None:
        ours: dict[str, float] = dict.fromkeys(labels, 0)
        notes = f"MATCH (m:{quoted(MARKER)}) RETURN m.labels AS labels, m.content AS content, m.owner AS owner"
        for note in self._read(notes):
            shared = ours.keys() & note["labels"]
            if shared:
                self._refuse_owner([note["owner"]], f"nodes :{min(shared)}")
            # how many an interrupted load left, nobody knows
            counts = {label: n for label, _, n, _ in json.loads(note["content"])["nodes"]} if note["content"] else {}
            for label in shared:
                ours[label] = max(ours[label], counts.get(label, math.inf))
        for label, known in sorted(ours.items()):
            count = self._read(f"MATCH (n:{quoted(label)}) RETURN count(n) AS count")[0]["count"]
            if count > known:
                raise GraphError(
                    f"{self._database()} has {count - known:,.0f} nodes :{label} that this project did not load; "
                    "loading would delete them. Name a database of its own by NEO4J_DATABASE, or empty this one."
                )

    def _refuse_owner(self, owners: Iterable[str | None], what: str) -> None:
        if not self._endpoint.embedded and (others := set(owners) - {self._owner, None}):
            raise GraphError(
                f"{self._database()} has {what}, loaded by another copy of this project ({others.pop()}). Name a "
                "database of its own by NEO4J_DATABASE, or empty this one if that copy is gone."
            )

    def _database(self) -> str:
        return f"The database {self._endpoint.database!r} at NEO4J_URI={self._endpoint.uri}"
