"""Files for `neo4j-admin database import`, for graphs that outgrow loading over Bolt.

python -m helpers.graph_files FOLDER                    the graph at NEO4J_URI, or the embedded one
python -m helpers.graph_files FOLDER --edges 10000000   a graph of that many edges between drugs and side effects
"""

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

from helpers import graph
from helpers.graph import Graph
from helpers.graph_driver import quoted
from helpers.settings import told

BLOCK = 1_000_000  # random edges held in memory together
TYPES = {bool: "boolean", int: "long", float: "double"}
"""Python's types of a property, and the importer's; any other is written as text."""


def _write(name: str, kind: str, blocks: Iterable[pd.DataFrame], folder: Path) -> str:
    path = folder / f"{kind}-{name}.csv"
    for number, block in enumerate(blocks):
        block.to_csv(path, index=False, mode="a" if number else "w", header=not number)
    return f"--{kind}={name}={path.resolve()}"


def from_graph(source: Graph, folder: Path) -> list[str]:
    """Write a file for each label and type of a graph whose nodes have one label; returns the importer's options."""
    options = []
    for kind, names, pattern, ids in (
        ("nodes", source.kinds("labels"), "(of:{})", {":ID": "of"}),
        ("relationships", source.kinds("relationshipTypes"), "(a)-[of:{}]->(b)", {":START_ID": "a", ":END_ID": "b"}),
    ):
        returned = ", ".join(f"elementId({node}) AS `{head}`" for head, node in ids.items())
        for name in names:
            rows = source.read(f"MATCH {pattern.format(quoted(name))} RETURN {returned}, properties(of) AS properties")
            table = pd.DataFrame(rows, columns=list(ids), dtype=object)
            for key in sorted({key for row in rows for key in row["properties"]}):
                values = [row["properties"].get(key) for row in rows]
                types = {type(value) for value in values if value is not None}
                table[f"{key}:{TYPES.get(types.pop(), 'string') if len(types) == 1 else 'string'}"] = values
            if rows:
                options.append(_write(name, kind, [table], folder))
    return options


def generated(edges: int, folder: Path, seed: int = 0) -> list[str]:
    """Write a graph of so many random edges from drugs to side effects, a hundred a drug; the importer's options."""
    sizes = {"Drug": max(1, edges // 100), "SideEffect": max(1, edges // 1000)}
    options = []
    for label, size in sizes.items():
        names = [f"{label.lower()} {number}" for number in range(size)]
        nodes = pd.DataFrame({f":ID({label})": np.arange(size), "name:string": names})
        options.append(_write(label, "nodes", [nodes], folder))

    def drawn() -> Iterator[pd.DataFrame]:
        rng = np.random.default_rng(seed)
        for start in range(0, edges, BLOCK):
            many = min(BLOCK, edges - start)
            ends = ((":START_ID(Drug)", "Drug"), (":END_ID(SideEffect)", "SideEffect"))
            yield pd.DataFrame({header: rng.integers(sizes[label], size=many) for header, label in ends})

    return [*options, _write("may_cause_side_effect", "relationships", drawn(), folder)]


def main(arguments: list[str] | None = None) -> int:
    """Write the files and print the command that imports them into a stopped server."""
    parser = argparse.ArgumentParser(prog="python -m helpers.graph_files", description="Write a graph for neo4j-admin.")
    parser.add_argument("folder", type=Path, help="where the files go")
    parser.add_argument("--edges", type=int, default=0, help="generate a graph of that size")
    options = parser.parse_args(arguments)
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.edges:
        written = generated(options.edges, options.folder)
    else:
        with graph.connect() as source:
            written = from_graph(source, options.folder)
    sys.stdout.write(f"neo4j-admin database import full neo4j {shlex.join(written)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
