"""Ten million edges, imported into a real Neo4j from files, and what the embedded server holds, loaded over Bolt."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers import graph
from helpers.graph import Graph
from resources import services
from resources.services import GraphEndpoint

NEO4J = os.environ.get("NEO4J_COMMAND", "")
"""A command that starts and stops a Neo4j of its own in a folder, and imports files into it."""
EDGES = 10_000_000
BLOCK = 1_000_000  # edges held in memory together
EMBEDDED = 200_000
LOOKUPS = 500
LOOKUP = (
    "MATCH (d:Drug {name: $drug})-[:may_cause_side_effect]->(s:SideEffect) RETURN s.name AS effect"
)
pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]


def generated(edges: int, folder: Path) -> list[str]:
    """Write a graph of so many random edges from drugs to side effects, a hundred a drug; the importer's options."""
    sizes = {"Drug": max(1, edges // 100), "SideEffect": max(1, edges // 1000)}
    paths = {label: folder / f"nodes-{label}.csv" for label in sizes}
    for label, size in sizes.items():
        names = [f"{label.lower()} {number}" for number in range(size)]
        nodes = pd.DataFrame({f":ID({label})": np.arange(size), "name:string": names})
        nodes.to_csv(paths[label], index=False)
    rng, path = np.random.default_rng(0), folder / "relationships.csv"
    ends = ((":START_ID(Drug)", "Drug"), (":END_ID(SideEffect)", "SideEffect"))
    for start in range(0, edges, BLOCK):
        n_edges = min(BLOCK, edges - start)
        block = pd.DataFrame(
            {header: rng.integers(sizes[label], size=n_edges) for header, label in ends}
        )
        block.to_csv(path, index=False, mode="a" if start else "w", header=not start)
    options = [f"--nodes={label}={nodes_path}" for label, nodes_path in paths.items()]
    return [*options, f"--relationships=may_cause_side_effect={path}"]


def milliseconds(source: Graph, drugs: int) -> tuple[float, float, float]:
    """Of a lookup of one drug's side effects: the median, the 99th percentile, and the mean number of rows."""
    rng = np.random.default_rng(0)
    times, rows = [], 0
    for number in rng.integers(drugs, size=LOOKUPS):
        start = time.perf_counter()
        rows += len(source.read(LOOKUP, drug=f"drug {number}"))
        times.append(1000 * (time.perf_counter() - start))
    return float(np.percentile(times, 50)), float(np.percentile(times, 99)), rows / LOOKUPS


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[tuple[Graph, str]]:
    """A Neo4j that has imported the edges, and what each step took."""
    if not NEO4J:
        pytest.skip("there is no Neo4j to start: set NEO4J_COMMAND")
    environment = os.environ | {"BOLT_PORT": "17690", "HTTP_PORT": "17491"}
    began = time.perf_counter()
    options = generated(EDGES, tmp_path)
    wrote = time.perf_counter()
    subprocess.run(
        [NEO4J, "import", tmp_path / "home", *options],
        env=environment,
        check=True,
        capture_output=True,
    )
    took = time.perf_counter()
    try:
        started = subprocess.run(
            [NEO4J, "start", tmp_path / "home"],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        settings_of_server = dict(re.findall(r"NEO4J_(\w+)=(\S+)", started))
        user, password = settings_of_server["USER"], settings_of_server["PASSWORD"]
        endpoint = GraphEndpoint(
            settings_of_server["URI"],
            user,
            password,
            "neo4j",
            user,
            password,
            "neo4j",
            "",
            embedded=False,
        )
        with graph.connect(endpoint) as source:
            ready = time.perf_counter()
            for label in ("Drug", "SideEffect"):
                source.constraint(label, "name")
            indexed = time.perf_counter()
            yield (
                source,
                f"files {wrote - began:.0f} s, import {took - wrote:.0f} s, start {ready - took:.0f} s, "
                f"constraints {indexed - ready:.0f} s",
            )
    finally:
        subprocess.run([NEO4J, "stop", tmp_path / "home"], env=environment, check=False)


def test_ten_million_edges_are_imported_started_and_queried(imported, note_measurement):
    source, steps = imported
    schema_began = time.perf_counter()
    assert f"{EDGES} relationships" in source.schema()
    schema = time.perf_counter() - schema_began
    p50, p99, rows = milliseconds(source, EDGES // 100)
    summary = f"{steps}; schema {schema:.1f} s; lookup of {rows:.0f} rows {p50:.1f} ms (p50), {p99:.1f} ms (p99)"
    note_measurement("Graph in Neo4j, imported from files", f"{EDGES:,} edges", summary)
    assert p50 < 100


def test_the_embedded_server_answers_at_the_size_that_it_holds(monkeypatch, note_measurement):
    monkeypatch.delenv("NEO4J_URI", raising=False)
    drugs, effects = EMBEDDED // 100, EMBEDDED // 1000
    rng = np.random.default_rng(0)
    edges = [
        {"drug": f"drug {a}", "effect": f"sideeffect {b}"}
        for a, b in zip(
            rng.integers(drugs, size=EMBEDDED), rng.integers(effects, size=EMBEDDED), strict=True
        )
    ]
    with graph.connect(services.graph_endpoint()) as source:
        began = time.perf_counter()
        for label, count in (("Drug", drugs), ("SideEffect", effects)):
            source.constraint(label, "name")
            names = [{"name": f"{label.lower()} {i}"} for i in range(count)]
            source.load_nodes(label, names, "name", progress=False)
        ends = {"start": ("Drug", "name", "drug"), "end": ("SideEffect", "name", "effect")}
        source.load_edges("may_cause_side_effect", edges, **ends, progress=False)
        took = time.perf_counter() - began
        try:
            p50, p99, rows = milliseconds(source, drugs)
        finally:
            source.clear("Drug", "SideEffect")
    summary = f"load {took:.0f} s; lookup of {rows:.0f} rows {p50:.1f} ms (p50), {p99:.1f} ms (p99)"
    note_measurement(
        "Graph in the embedded server, loaded over Bolt", f"{EMBEDDED:,} edges", summary
    )
    assert p50 < 100
