"""Files for `neo4j-admin database import`, for graphs that outgrow loading over Bolt.

python -m helpers.graph_files FOLDER   the graph at NEO4J_URI, or the embedded one
"""

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from helpers import graph
from helpers.graph import Graph
from helpers.graph_driver import quoted
from resources.settings import run_command_line

TYPES = {bool: "boolean", int: "long", float: "double"}
"""Python's types of a property, and the importer's; any other is written as text."""


def from_graph(source: Graph, folder: Path) -> list[str]:
    """Write a file for each label and type of a graph whose nodes have one label; returns the importer's options."""
    folder.mkdir(parents=True, exist_ok=True)
    options = []
    for kind, names, pattern, ids in (
        ("nodes", source.kinds("labels"), "(of:{})", {":ID": "of"}),
        (
            "relationships",
            source.kinds("relationshipTypes"),
            "(a)-[of:{}]->(b)",
            {":START_ID": "a", ":END_ID": "b"},
        ),
    ):
        returned = ", ".join(f"elementId({node}) AS `{head}`" for head, node in ids.items())
        for name in names:
            rows = source.read(
                f"MATCH {pattern.format(quoted(name))} RETURN {returned}, properties(of) AS properties"
            )
            table = pd.DataFrame(rows, columns=list(ids), dtype=object)
            for key in sorted({key for row in rows for key in row["properties"]}):
                values = [row["properties"].get(key) for row in rows]
                types = {type(value) for value in values if value is not None}
                table[
                    f"{key}:{TYPES.get(types.pop(), 'string') if len(types) == 1 else 'string'}"
                ] = values
            if rows:
                path = folder.resolve() / f"{kind}-{name}.csv"
                table.to_csv(path, index=False)
                options.append(f"--{kind}={name}={path}")
    return options


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the files and print the command that imports them into a stopped server."""
    [folder] = sys.argv[1:] if arguments is None else arguments
    with graph.connect() as source:
        written = from_graph(source, Path(folder))
    sys.stdout.write(f"neo4j-admin database import full neo4j {shlex.join(written)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
