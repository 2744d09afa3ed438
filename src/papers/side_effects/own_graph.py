"""The graph of one's own table, beside the graphs of the notebooks in the same database."""

import re
from typing import Any

from helpers.graph import Graph
from helpers.graph_catalogue import OWN_PREFIX
from helpers.graph_driver import Row
from resources.services import GraphEndpoint

LABELS = re.compile(r":(Drug|SideEffect|AtcClass|OrganClass)\b")
"""A label of the paper's graph in a statement of the project."""


class OwnGraph(Graph):
    """A graph whose labels begin with ``Own_``; a notebook that runs meanwhile keeps its own graph.

    What it loads has the prefix. The project's statements, which name the labels of the paper,
    work on it as they are.
    """

    def __init__(self, endpoint: GraphEndpoint) -> None:
        """Connect; see `graph.connect` for the errors."""
        super().__init__(endpoint, prefix=OWN_PREFIX)

    def read(self, cypher: str, /, **parameters: Any) -> list[Row]:  # noqa: ANN401  # as in Graph
        """Run the project's own Cypher; see `Graph.read`."""
        return super().read(own_labels(cypher), **parameters)


def own_labels(cypher: str) -> str:
    """Replace the labels of the paper's graph in a statement of the project."""
    return LABELS.sub(rf":{OWN_PREFIX}\1", cypher)
