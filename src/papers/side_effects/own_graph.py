"""The graph of one's own table, beside the graphs of the notebooks in the same database."""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from helpers.graph import Graph
from helpers.graph_catalogue import OWN_PREFIX
from helpers.graph_driver import Row
from helpers.graph_load import End

OWN = OWN_PREFIX
"""Beginning of the labels, which no schema and no export shows."""
LABELS = re.compile(r":(Drug|SideEffect|AtcClass|OrganClass)\b")
"""A label of the paper's graph in a statement of the project."""


class OwnGraph(Graph):
    """A graph whose labels begin with ``Own_``; a notebook that runs meanwhile keeps its own graph.

    The statements of the project work on it as they are: their labels are replaced.
    """

    def read(self, cypher: str, /, **parameters: Any) -> list[Row]:  # noqa: ANN401  # as in Graph
        """Run the project's own Cypher; see `Graph.read`."""
        return super().read(own_labels(cypher), **parameters)

    def loaded(self, name: str, sha256: str) -> bool:
        """Whether a data set is loaded to its end; see `Graph.loaded`."""
        return super().loaded(_own_name(name), sha256)

    @contextmanager
    def load_once(self, name: str, sha256: str) -> Iterator[bool]:
        """Load a data set in a `with` block if it yields True; see `Graph.load_once`."""
        with super().load_once(_own_name(name), sha256) as missing:
            yield missing

    def clear(self, *labels: str) -> None:
        """Delete all nodes of these labels; see `Graph.clear`."""
        super().clear(*[f"{OWN}{label}" for label in labels])

    def constraint(self, label: str, prop: str) -> None:
        """Make a property unique among the nodes of a label; see `Graph.constraint`."""
        super().constraint(f"{OWN}{label}", prop)

    def load_nodes(
        self, label: str, rows: Iterable[Mapping[str, Any]], key: str, *, progress: bool = True
    ) -> int:
        """Create or update nodes; see `Graph.load_nodes`."""
        return super().load_nodes(f"{OWN}{label}", rows, key, progress=progress)

    def load_edges(
        self,
        type_name: str,
        rows: Iterable[Mapping[str, Any]],
        start: End,
        end: End,
        *,
        progress: bool = True,
    ) -> int:
        """Create or update relationships; see `Graph.load_edges`."""
        ends = [(f"{OWN}{label}", key, field) for label, key, field in (start, end)]
        return super().load_edges(type_name, rows, ends[0], ends[1], progress=progress)


def _own_name(name: str) -> str:
    return name if name.startswith(OWN) else f"{OWN}{name}"


def own_labels(cypher: str) -> str:
    """Replace the labels of the paper's graph in a statement of the project."""
    return LABELS.sub(rf":{OWN}\1", cypher)
