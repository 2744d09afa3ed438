"""Files for `neo4j-admin database import`, for graphs that outgrow loading over Bolt.

python -m helpers.graph_files FOLDER   the graph at NEO4J_URI, or the embedded one
"""

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from helpers import graph
from helpers.graph import Graph
from helpers.graph_catalogue import OWN_PREFIX
from helpers.graph_driver import Row, quoted
from resources.settings import run_command_line

TYPES = {bool: "boolean", int: "long", float: "double"}
"""Python's types of a property, and the importer's; any other is written as text."""


@dataclass(frozen=True)
class Kind:
    """Nodes or relationships, as the importer has them.

    Attributes:
        option: Name of the importer's option.
        pattern: What to match, with `item` as the node or relationship of a name.
        ids: The importer's columns of node numbers, and the variables whose numbers they hold.
    """

    option: str
    pattern: str
    ids: dict[str, str]


NODES = Kind("nodes", "(item:{name})", {":ID": "item"})
RELATIONSHIPS = Kind(
    "relationships",
    # A user's own graph can have the types of the book's, between nodes with labels of its own.
    "(a)-[item:{name}]->(b) WHERE none(label IN labels(a) WHERE label STARTS WITH $own)",
    {":START_ID": "a", ":END_ID": "b"},
)


def export_graph(source: Graph, folder: Path) -> list[str]:
    """Write a file for each label and type of a graph whose nodes have one label each.

    Args:
        source: The graph to read.
        folder: Where to write; it is created.

    Returns:
        The importer's options.
    """
    folder.mkdir(parents=True, exist_ok=True)
    options = []
    for label in source.kinds("labels"):
        options += _export(source, NODES, label, folder)
    for type_name in source.kinds("relationshipTypes"):
        options += _export(source, RELATIONSHIPS, type_name, folder)
    return options


def _export(source: Graph, kind: Kind, name: str, folder: Path) -> list[str]:
    ids = ", ".join(f"elementId({variable}) AS `{column}`" for column, variable in kind.ids.items())
    match = kind.pattern.format(name=quoted(name))
    statement = f"MATCH {match} RETURN {ids}, properties(item) AS properties"
    rows = source.read(statement, own=OWN_PREFIX)
    if not rows:
        return []
    path = folder.resolve() / f"{kind.option}-{name}.csv"
    _table(kind, rows).to_csv(path, index=False)
    return [f"--{kind.option}={name}={path}"]


def _table(kind: Kind, rows: Sequence[Row]) -> pd.DataFrame:
    table = pd.DataFrame(rows, columns=list(kind.ids), dtype=object)
    for key in sorted({key for row in rows for key in row["properties"]}):
        values = [row["properties"].get(key) for row in rows]
        table[f"{key}:{_type_name(values)}"] = values
    return table


def _type_name(values: Sequence[object]) -> str:
    types = {type(value) for value in values if value is not None}
    if len(types) != 1:
        return "string"
    return TYPES.get(types.pop(), "string")


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files and print the command that imports them into a stopped server."""
    [folder] = sys.argv[1:] if arguments is None else arguments
    with graph.connect() as source:
        options = export_graph(source, Path(folder))
    sys.stdout.write(f"neo4j-admin database import full neo4j {shlex.join(options)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
