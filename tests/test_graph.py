"""The graph through Bolt: loading, reading, reloading, schema text, and errors that say what to do."""

from __future__ import annotations

import json
import os
import re
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings as examples, strategies as st
from neo4j.exceptions import Neo4jError

from helpers import graph, graph_catalogue, graph_driver, graph_files, graph_load
from helpers.graph import CypherRejected, Graph, GraphError
from resources import graph_engine, services, supervisor
from resources.services import GraphEndpoint
from resources.settings import settings


def graph_server(root: Path) -> AbstractContextManager[GraphEndpoint]:
    """A graph server for the tests alone: that of NEO4J_URI, else an embedded one with its data in `root`."""
    return users_server() if os.environ.get("NEO4J_URI") else embedded_server(root)


@contextmanager
def users_server() -> Iterator[GraphEndpoint]:
    """The server of NEO4J_URI, if its database is empty; emptied again afterwards, constraints included."""
    server = services.graph_endpoint()
    with graph.connect(server) as db:
        if db.read("MATCH (n) RETURN n LIMIT 1"):
            pytest.fail(
                "The database of NEO4J_URI holds data. Set NEO4J_DATABASE to an empty one to test on it."
            )
        try:
            yield server
        finally:
            db._delete("(n)")
            for row in db.read("SHOW CONSTRAINTS YIELD name RETURN name"):
                db._write(f"DROP CONSTRAINT `{row['name']}`")
            for row in db.read("SHOW INDEXES YIELD name, type WHERE type <> 'LOOKUP' RETURN name"):
                db._write(f"DROP INDEX `{row['name']}`")


@contextmanager
def embedded_server(root: Path) -> Iterator[GraphEndpoint]:
    """A graph server of the tests' own, with its data under `root`."""

    @contextmanager
    def ours() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("MEDRAG_ROOT", str(root))
            patch.delenv("NEO4J_URI", raising=False)
            patch.setattr(services, "SERVICES", root / "services")
            patch.setattr(supervisor, "LOGS", root / "_build" / "logs")
            patch.setattr(graph_engine, "LOGS", root / "_build" / "logs")
            patch.setattr(graph_engine, "GRAPH_FOLDER", root / "graph")
            settings.cache_clear()
            yield
        settings.cache_clear()

    with ours():
        endpoint = services.graph_endpoint()
    assert endpoint.embedded, "NEO4J_URI is set in .env, and tests empty the database"
    try:
        yield endpoint
    finally:
        with ours():
            services.stop("graph")


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphEndpoint]:
    with graph_server(tmp_path_factory.mktemp("graph")) as server:
        yield server


@pytest.fixture(scope="module")
def connection(endpoint: GraphEndpoint) -> Iterator[Graph]:
    with graph.connect(endpoint) as connected:
        yield connected


@pytest.fixture
def db(connection: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Graph:
    """An empty graph."""
    monkeypatch.setattr(graph_catalogue, "BUILD", tmp_path)
    connection._delete("(n)")
    return connection


def load_pairs(db: Graph, pairs: list[tuple[str, str]]) -> None:
    for label, names in (("Drug", {d for d, _ in pairs}), ("Effect", {e for _, e in pairs})):
        db.constraint(label, "name")
        db.load_nodes(label, [{"name": name} for name in names], "name", progress=False)
    rows = [{"drug": drug, "effect": effect} for drug, effect in pairs]
    db.load_edges(
        "MAY_CAUSE", rows, ("Drug", "name", "drug"), ("Effect", "name", "effect"), progress=False
    )


def stored_pairs(db: Graph) -> list[tuple[str, str]]:
    rows = db.read(
        "MATCH (d:Drug)-[:MAY_CAUSE]->(e:Effect) RETURN d.name AS drug, e.name AS effect"
    )
    return sorted((row["drug"], row["effect"]) for row in rows)


# ------------------------------------------------------------------------------------------------- without a server


@pytest.mark.parametrize(
    "name", ["", "1st", "a b", "a`b", "Drug) DETACH DELETE (n", "é", "a-b", "a\n"]
)
def test_a_name_that_is_no_identifier_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="cannot be a label"):
        graph_driver.quoted(name)


@examples(deadline=None)
@given(st.lists(st.text(max_size=40), max_size=60), st.integers(1, 7), st.integers(40, 90))
def test_batches_keep_all_rows_in_order_and_stay_in_bounds(
    texts: list[str], rows: int, characters: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(graph_load, "BATCH_ROWS", rows)
        patch.setattr(graph_load, "BATCH_CHARACTERS", characters)
        batches = list(graph_load.batches({"text": text} for text in texts))
    assert [row["text"] for batch in batches for row in batch] == texts
    assert all(0 < len(batch) <= rows for batch in batches)
    assert all(sum(len(row["text"]) for row in batch) <= characters for batch in batches)


def test_a_row_that_no_message_can_hold_is_an_error_not_a_hang() -> None:
    with pytest.raises(ValueError, match="too large"):
        list(graph_load.batches([{"text": "x" * 5_000_000}]))


def unreachable(uri: str) -> GraphEndpoint:
    return GraphEndpoint(
        uri, "neo4j", "s3cret-word", "neo4j", "reader", "s3cret-too", "neo4j", "", embedded=False
    )


@pytest.mark.parametrize(
    ("code", "has_advice"),
    [("DatabaseError.General.UnknownError", True), ("ClientError.X.Y", False)],
)
def test_a_statement_refused_by_a_server_that_is_being_stopped_says_what_to_do(
    code: str, has_advice: bool
) -> None:
    """It then names its database, and no reason."""
    embedded = replace(unreachable("bolt://127.0.0.1:1"), embedded=True)
    error = Neo4jError._hydrate_neo4j(code=f"Neo.{code}", message="neo4j")
    assert (
        "run this again" in str(graph_driver.describe_error(embedded, "u", error, 0.0))
    ) == has_advice


def test_a_server_that_is_not_there_is_an_error_that_says_what_to_do() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"bolt://neo4j:s3cret-word@127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(GraphError) as caught:
        graph.connect(unreachable(uri.replace("neo4j:s3cret-word@", "")))
    message = str(caught.value)
    assert re.search(r"NEO4J_URI=bolt://127.0.0.1:\d+ refused the connection\.", message)
    assert "Start it, or unset NEO4J_URI to use the embedded server." in message
    assert "s3cret" not in str(
        graph_driver.describe_error(unreachable(uri), "neo4j", OSError("no"), 0.0)
    )


def test_a_server_that_accepts_and_says_nothing_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(graph_driver, "WAIT", 1.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        start = time.monotonic()
        with pytest.raises(GraphError, match=r"does not answer \(tried for 1 s\)"):
            graph.connect(unreachable(f"bolt://127.0.0.1:{silent.getsockname()[1]}"))
    assert time.monotonic() - start < 5


# ---------------------------------------------------------------------------------------------------- with a server


@pytest.mark.engine
def test_a_wrong_password_and_a_missing_database_say_so(endpoint: GraphEndpoint) -> None:
    with pytest.raises(
        GraphError, match=r"refused the user '.+'. Check NEO4J_USER and NEO4J_PASSWORD"
    ) as caught:
        graph.connect(replace(endpoint, password="s3cret-word"))
    assert "s3cret" not in str(caught.value)
    with pytest.raises(GraphError, match=r"no database 'nothere'. Set NEO4J_DATABASE"):
        graph.connect(replace(endpoint, database="nothere"))


@pytest.mark.engine
def test_what_is_loaded_comes_back_and_loading_again_changes_nothing(db: Graph) -> None:
    pairs = [
        ("metformin", "urticaria"),
        ("metformin", "hallucination, visual"),
        ("aspirin", "urticaria"),
    ]
    for _ in range(2):
        load_pairs(db, pairs)
        assert stored_pairs(db) == sorted(pairs)
        assert db.read("MATCH (n) RETURN count(n) AS n") == [{"n": 4}]


@pytest.mark.engine
def test_more_rows_than_a_batch_holds(db: Graph) -> None:
    pairs = [(f"drug {i % 3}", f"effect {i}") for i in range(graph_load.BATCH_ROWS + 1)]
    load_pairs(db, pairs)
    assert stored_pairs(db) == sorted(pairs)


names = st.text(min_size=1, max_size=12)


@pytest.mark.engine
@examples(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(st.tuples(names, names), min_size=1, max_size=40))
def test_the_graph_agrees_with_plain_python(db: Graph, pairs: list[tuple[str, str]]) -> None:
    db._delete("(n)")
    load_pairs(db, pairs)
    assert stored_pairs(db) == sorted(set(pairs))
    for effect in {effect for _, effect in pairs}:
        rows = db.read(
            "MATCH (d:Drug)-[:MAY_CAUSE]->(:Effect {name: $effect}) RETURN d.name AS drug",
            effect=effect,
        )
        assert sorted(row["drug"] for row in rows) == sorted({d for d, e in pairs if e == effect})
    drug = pairs[0][0]
    for effect in ("nothing has this name", pairs[-1][1]):
        query = "MATCH (:Drug {name: $drug})-[r:MAY_CAUSE]->(:Effect {name: $effect}) RETURN count(r) AS n"
        assert db.read(query, drug=drug, effect=effect) == [{"n": int((drug, effect) in pairs)}]


HOSTILE_VALUES = [
    "'; MATCH (n) DETACH DELETE n //",
    "' OR 1=1 //",
    '"}) DETACH DELETE n //',
    "`) DELETE n",
    "\\u0027 \\' \\\\",
    "$name",
    "{name: 1}",
    "naïve 药物 😀 \u202e",
    "line\nbreak\ttab",
    "",
]


@pytest.mark.engine
def test_values_stay_values(db: Graph) -> None:
    db.load_nodes(
        "Drug", [{"name": v, "also": [v]} for v in HOSTILE_VALUES], "name", progress=False
    )
    for value in HOSTILE_VALUES:
        rows = db.read(
            "MATCH (d:Drug {name: $name}) RETURN d.name AS name, d.also AS also", name=value
        )
        assert rows == [{"name": value, "also": [value]}]
        untrusted = db.read_untrusted(
            "MATCH (d:Drug {name: $name}) RETURN count(d) AS n", name=value
        )
        assert untrusted.rows == [{"n": 1}]
    assert db.read("MATCH (n) RETURN count(n) AS n") == [{"n": len(HOSTILE_VALUES)}]


@pytest.mark.engine
def test_an_edge_to_a_node_that_is_not_there_is_an_error_and_loads_nothing(db: Graph) -> None:
    load_pairs(db, [("a", "x")])
    with pytest.raises(
        GraphError, match=r"exactly one node. Found: Drug 'c' \(0 nodes\), Effect 'y' \(0 nodes\)"
    ):
        load_edges = [{"drug": "a", "effect": "y"}, {"drug": "c", "effect": "x"}]
        db.load_edges(
            "MAY_CAUSE",
            load_edges,
            ("Drug", "name", "drug"),
            ("Effect", "name", "effect"),
            progress=False,
        )
    assert stored_pairs(db) == [("a", "x")]


@pytest.mark.engine
def test_a_row_without_its_key_is_an_error(db: Graph) -> None:
    with pytest.raises(ValueError, match="row 1 has no value for the name of Drug"):
        db.load_nodes("Drug", [{"name": "a"}, {"title": "b"}], "name", progress=False)


@pytest.mark.engine
def test_properties_of_nodes_and_edges(db: Graph) -> None:
    db.load_nodes("Drug", [{"name": "a", "dose": 1.5}, {"name": "b"}], "name", progress=False)
    db.load_nodes("Drug", [{"name": "a", "oral": True}], "name", progress=False)
    ends = ("Drug", "name", "one"), ("Drug", "name", "two")
    for rows in ([{"severity": 1}, {"severity": 3}], [{"since": 1990}]):
        db.load_edges(
            "INTERACTS", [{"one": "a", "two": "b", **row} for row in rows], *ends, progress=False
        )
    a = {"labels": ["Drug"], "properties": {"name": "a", "dose": 1.5, "oral": True}}
    b = {"labels": ["Drug"], "properties": {"name": "b"}}
    edge = {"type": "INTERACTS", "start": a, "end": b, "properties": {"severity": 3, "since": 1990}}
    row = db.read(
        "MATCH p = (a)-[r:INTERACTS]->(b) RETURN a, r, p, datetime('2026-01-02T03:04:05Z') AS t, 1.0 / 0 AS i"
    )[0]
    assert row["a"] == a
    assert row["r"] == edge
    assert row["p"] == {"nodes": [a, b], "relationships": [edge]}
    assert row["t"].startswith("2026-01-02T03:04:05")
    assert row["i"] == "Infinity"
    assert json.loads(json.dumps(row, allow_nan=False)) == row
    assert db.schema() == (
        "Nodes:\n  (:Drug {dose: FLOAT, name: STRING, oral: BOOLEAN})  2 nodes\n"
        "Relationships:\n  (:Drug)-[:INTERACTS {severity: INTEGER, since: INTEGER}]->(:Drug)  1 relationships"
    )


@pytest.mark.engine
def test_a_schema_read_off_a_sample_names_everything_and_says_what_is_estimated(db: Graph) -> None:
    for label in ("Drug", "Other"):
        db.load_nodes(
            label, [{"name": f"{label}{i}", "dose": i} for i in range(40)], "name", progress=False
        )
    for start in ("Drug", "Other"):
        pairs = [{"a": f"{start}{i}", "b": f"Drug{i + 1}"} for i in range(30)]
        db.load_edges(
            "LIKE", pairs, start=(start, "name", "a"), end=("Drug", "name", "b"), progress=False
        )
    schema = db.schema()
    assert "  (:Drug {dose: INTEGER, name: STRING})  40 nodes" in schema
    assert "  (:Other)-[:LIKE]->(:Drug)  30 relationships" in schema
    sampled = db.schema(sample=45)
    assert sampled.split("Relationships:")[0] == schema.split("Relationships:")[0]
    assert sampled.count("about") == 2


@pytest.mark.engine
def test_a_graph_is_written_for_the_importer_as_it_is(db: Graph, tmp_path: Path) -> None:
    db.load_nodes("Drug", [{"name": "a, b", "dose": 1.5}, {"name": 'c"d'}], "name", progress=False)
    db.load_nodes("Effect", [{"name": "x"}], "name", progress=False)
    pairs: list[dict[str, object]] = [
        {"drug": "a, b", "effect": "x", "since": 1990},
        {"drug": 'c"d', "effect": "x"},
    ]
    db.load_edges(
        "CAUSES",
        pairs,
        start=("Drug", "name", "drug"),
        end=("Effect", "name", "effect"),
        progress=False,
    )
    options = graph_files.export_graph(db, tmp_path)
    assert {option.split("=")[0] + "=" + option.split("=")[1] for option in options} == {
        "--nodes=Drug",
        "--nodes=Effect",
        "--relationships=CAUSES",
    }
    drugs, effects = (
        pd.read_csv(tmp_path / f"nodes-{label}.csv").set_index(":ID")
        for label in ("Drug", "Effect")
    )
    edges = pd.read_csv(tmp_path / "relationships-CAUSES.csv")
    assert sorted(drugs["name:string"]) == ["a, b", 'c"d']
    assert drugs["dose:double"].max() == 1.5
    assert set(effects["name:string"].reindex(edges[":END_ID"])) == {"x"}
    assert (
        edges.set_index(drugs["name:string"].reindex(edges[":START_ID"]).to_numpy())["since:long"][
            "a, b"
        ]
        == 1990
    )


@pytest.mark.engine
def test_a_data_set_is_loaded_once_and_again_when_it_changes(db: Graph) -> None:
    for sha256, expected in (
        ("one", True),
        ("one", False),
        ("two", True),
        ("two", False),
        ("one", True),
    ):
        with db.load_once("pairs", sha256) as missing:
            assert missing is expected
        assert db.loaded("pairs", sha256)
    assert not db.loaded("pairs", "two")
    assert not db.loaded("others", "one")
    assert "LoadedData" not in db.schema()


@pytest.mark.engine
def test_an_interrupted_load_is_done_again(db: Graph) -> None:
    db.mark_loaded("pairs", "old")
    with pytest.raises(KeyboardInterrupt), db.load_once("pairs", "new"):
        load_pairs(db, [("a", "x")])
        raise KeyboardInterrupt
    assert not db.loaded("pairs", "new")
    assert not db.loaded("pairs", "old")
    with db.load_once("pairs", "new") as missing:
        assert missing
        load_pairs(db, [("a", "x"), ("a", "y")])
    assert stored_pairs(db) == [("a", "x"), ("a", "y")]


@pytest.mark.engine
def test_clear_takes_its_labels_and_what_vouches_for_them(
    endpoint: GraphEndpoint, db: Graph
) -> None:
    with graph.connect(endpoint) as first, graph.connect(endpoint) as second:
        load_pairs(first, [("a", "x")])
        first.mark_loaded("pairs", "1")
        second.load_nodes("Other", [{"name": "kept"}], "name", progress=False)
        second.mark_loaded("others", "2")
    db.clear("Drug", "Effect")
    assert not db.loaded("pairs", "1")
    assert db.loaded("others", "2")
    assert db.schema().splitlines() == [
        "Nodes:",
        "  (:Other {name: STRING})  1 nodes",
        "Relationships:",
    ]
    with pytest.raises(ValueError, match="needs the labels"):
        db.clear()


@pytest.mark.engine
def test_two_graphs_of_the_same_labels_share_a_database_if_one_has_a_prefix(
    endpoint: GraphEndpoint, db: Graph
) -> None:
    assert load_pairs_once(db, "1", [("a", "x")])
    with Graph(endpoint, prefix=graph_catalogue.OWN_PREFIX) as own:
        assert load_pairs_once(own, "2", [("b", "y")])
        assert not load_pairs_once(own, "2", [("b", "y")])
        with pytest.raises(KeyboardInterrupt):
            load_pairs_once(own, "3", [("c", "z")], fail=True)
        assert not own.loaded("pairs", "2")
        assert own.count("(n:Own_Drug)") == own.count("(n:Own_Effect)") == 1
        edges = "(:Own_Drug {name: 'c'})-[n:MAY_CAUSE]->(:Own_Effect {name: 'z'})"
        assert own.count(edges) == 1
        assert db.loaded("pairs", "1")
        own.clear("Drug", "Effect")
        assert own.count("(n:Own_Drug)") == 0
    assert not load_pairs_once(db, "1", [("a", "x")])
    assert stored_pairs(db) == [("a", "x")]


@pytest.fixture
def own(endpoint: GraphEndpoint, db: Graph) -> Iterator[Graph]:
    """The same graph as a server of the user's own."""
    with graph.connect(replace(endpoint, embedded=False)) as connected:
        yield connected


def load_pairs_once(
    db: Graph, sha256: str, pairs: list[tuple[str, str]], fail: bool = False
) -> bool:
    with db.load_once("pairs", sha256) as missing:
        if missing:
            db.clear("Drug", "Effect")
            load_pairs(db, pairs)
            if fail:
                raise KeyboardInterrupt
    return missing


def load_interactions_once(db: Graph, drugs: int, *, interrupt: bool = False) -> bool:
    """Load drugs of which a few interact with all others, each interaction in both directions."""
    with db.load_once("interactions", str(drugs)) as missing:
        if missing:
            db.clear("Drug")
            db.constraint("Drug", "name")
            names = [{"name": str(number)} for number in range(drugs)]
            db.load_nodes("Drug", names, "name", progress=False)
            pairs = interactions(drugs)
            half = len(pairs) // 2
            ends = ("Drug", "name", "one"), ("Drug", "name", "other")
            for part in (pairs[:half], pairs[half:]):
                rows = [{"one": drug, "other": other, "sources": ["x"]} for drug, other in part]
                db.load_edges("INTERACTS", rows, *ends, progress=False)
                if interrupt:
                    raise KeyboardInterrupt
    return missing


def interactions(drugs: int) -> list[tuple[str, str]]:
    pairs = []
    for drug in range(drugs):
        for other in range(drug + 1, drugs):
            if drug < 3 or drug * other % 5 == 0:
                pairs += [(str(drug), str(other)), (str(other), str(drug))]
    return pairs


def assert_interactions(db: Graph, drugs: int) -> None:
    rows = db.read("MATCH (a:Drug)-[:INTERACTS]->(b:Drug) RETURN a.name AS one, b.name AS other")
    assert sorted((row["one"], row["other"]) for row in rows) == sorted(interactions(drugs))
    assert db.read("MATCH (n:Drug) RETURN count(n) AS n") == [{"n": drugs}]


@pytest.mark.engine
@pytest.mark.parametrize("sizes", [(100, 12), (12, 100)], ids=["larger first", "smaller first"])
def test_two_sizes_of_a_graph_replace_each_other(db: Graph, sizes: tuple[int, int]) -> None:
    """As when the same folder runs one profile and then another."""
    first, second = sizes
    assert load_interactions_once(db, first)
    assert load_interactions_once(db, second)
    assert_interactions(db, second)
    with pytest.raises(KeyboardInterrupt):
        load_interactions_once(db, first, interrupt=True)
    assert load_interactions_once(db, second)
    assert_interactions(db, second)
    assert load_interactions_once(db, first)
    assert not load_interactions_once(db, first)
    assert_interactions(db, first)


@pytest.mark.engine
def test_nodes_of_the_user_are_never_cleared(db: Graph, own: Graph) -> None:
    theirs = [{"name": "theirs"}]
    db.load_nodes("Drug", theirs, "name", progress=False)
    for _ in range(2):
        with pytest.raises(
            GraphError, match=r"1 nodes :Drug that this project did not load.*by NEO4J_DATABASE"
        ):
            load_pairs_once(own, "1", [("a", "x")])
    assert own.read("MATCH (n) RETURN labels(n) AS labels, n.name AS name") == [
        {"labels": ["Drug"], "name": "theirs"}
    ]
    own._delete("(n)")
    assert load_pairs_once(own, "1", [("a", "x")])
    assert stored_pairs(own) == [("a", "x")]


@pytest.mark.engine
def test_what_this_project_loaded_is_cleared_on_a_server_of_the_users_own(own: Graph) -> None:
    assert load_pairs_once(own, "1", [("a", "x")])
    assert not load_pairs_once(own, "1", [("a", "x")])
    for sha256 in ("2", "3"):  # also what an interrupted load left
        with pytest.raises(KeyboardInterrupt):
            load_pairs_once(own, sha256, [("b", "y")], fail=True)
        assert not own.loaded("pairs", sha256)
    assert load_pairs_once(own, "3", [("c", "z")])
    assert stored_pairs(own) == [("c", "z")]


@pytest.mark.engine
def test_a_first_load_that_was_interrupted_is_done_again_on_a_server_of_the_users_own(
    own: Graph,
) -> None:
    with pytest.raises(KeyboardInterrupt):
        load_pairs_once(own, "1", [("a", "x")], fail=True)
    assert load_pairs_once(own, "1", [("a", "x"), ("b", "y")])
    assert stored_pairs(own) == [("a", "x"), ("b", "y")]


@pytest.mark.engine
@pytest.mark.parametrize(
    "damage",
    [
        "MATCH (n:Effect {name: 'y'}) DETACH DELETE n",
        "MATCH (:Drug {name: 'a'})-[r]->(:Effect {name: 'y'}) DELETE r",
        "MATCH (n:Effect {name: 'y'}) SET n.name = 'z'",
    ],
)
def test_a_graph_that_lost_something_since_it_was_loaded_is_loaded_anew(
    own: Graph, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    pairs = [("a", "x"), ("a", "y"), ("b", "y")]
    assert load_pairs_once(own, "1", pairs)
    assert not load_pairs_once(own, "1", pairs)
    assert not caplog.messages
    own._write(damage)
    assert load_pairs_once(own, "1", pairs)
    assert [message.count("\n") for message in caplog.messages] == [0]
    assert "'pairs'" in caplog.messages[0]
    assert stored_pairs(own) == pairs


@pytest.mark.engine
def test_nodes_that_the_user_added_to_a_loaded_graph_are_not_cleared_with_it(own: Graph) -> None:
    load_pairs_once(own, "1", [("a", "x")])
    own._write("CREATE (:Drug {name: 'theirs'})")
    for sha256 in ("1", "2"):
        with pytest.raises(GraphError, match="has 1 nodes :Drug that this project did not load"):
            load_pairs_once(own, sha256, [("b", "y")])
    assert own.read("MATCH (n:Drug) RETURN n.name AS name ORDER BY name") == [
        {"name": "a"},
        {"name": "theirs"},
    ]


@pytest.fixture
def others(own: Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Graph]:
    """The same database, as another copy of the project sees it."""
    monkeypatch.setattr(graph_catalogue, "DERIVED", tmp_path / "others")
    with graph.connect(own.endpoint) as connected:
        yield connected


@pytest.mark.engine
def test_two_copies_of_the_project_share_what_is_the_same_and_clear_nothing_of_each_other(
    own: Graph, others: Graph
) -> None:
    assert load_pairs_once(own, "1", [("a", "x")])
    assert not load_pairs_once(others, "1", [("a", "x")])
    with pytest.raises(GraphError, match=r"another copy of this project.*by NEO4J_DATABASE"):
        load_pairs_once(others, "2", [("b", "y")])
    with (
        pytest.raises(GraphError, match="another copy of this project"),
        others.load_once("more", "1"),
    ):
        others.clear("Class", "Effect")
    assert not load_pairs_once(own, "1", [("a", "x")])
    assert stored_pairs(own) == [("a", "x")]
    # nor while one loads
    with own.load_once("pairs", "3"):
        own.clear("Drug", "Effect")
        load_pairs(own, [("c", "z")])
        with pytest.raises(GraphError, match="another copy of this project"):
            others.clear("Drug")
    assert own.loaded("pairs", "3")


@pytest.mark.engine
def test_of_two_copies_that_begin_at_once_one_loads(own: Graph, others: Graph) -> None:
    own._begin("pairs")
    others._begin("pairs")
    load_pairs(own, [("a", "x")])
    with pytest.raises(GraphError, match="another copy of this project"):
        load_pairs(others, [("b", "y")])
    own.mark_loaded("pairs", "1")
    assert own.loaded("pairs", "1")
    assert stored_pairs(own) == [("a", "x")]


@pytest.mark.engine
def test_what_a_second_data_set_added_may_be_cleared_after_the_first_was(own: Graph) -> None:
    def add() -> bool:
        with own.load_once("more", "1") as missing:
            if missing:
                own.clear("Class")
                own.load_nodes("Drug", [{"name": "a"}], "name", progress=False)
                own.load_nodes("Class", [{"name": "c"}], "name", progress=False)
        return missing

    load_pairs_once(own, "1", [("a", "x")])
    assert add()
    assert load_pairs_once(own, "2", [("a", "x"), ("b", "y")])
    assert add()
    assert not add()


@pytest.mark.engine
def test_of_two_data_sets_that_one_connection_loads_each_vouches_for_its_own_labels(
    db: Graph,
) -> None:
    with db.load_once("others", "1"):
        db.load_nodes("Other", [{"name": "x"}], "name", progress=False)
    with db.load_once("pairs", "1"):
        load_pairs(db, [("a", "x")])
    db.clear("Other")
    assert db.loaded("pairs", "1")
    assert not db.loaded("others", "1")


@pytest.mark.engine
def test_untrusted_rows_are_cut_and_said_to_be(db: Graph) -> None:
    load_pairs(db, [("a", f"effect {i}") for i in range(30)])
    query = "MATCH (:Drug {name: $drug})-->(e) RETURN e.name AS effect ORDER BY effect;"
    first_rows = db.read_untrusted(query, drug="a", max_rows=10)
    all_rows = db.read_untrusted(query, drug="a", max_rows=30)
    assert (len(first_rows.rows), first_rows.truncated) == (10, True)
    assert (len(all_rows.rows), all_rows.truncated) == (30, False)
    assert all_rows.rows[:10] == first_rows.rows
    assert all_rows.seconds > 0
    with pytest.raises(ValueError, match="max_rows"):
        db.read_untrusted(query, drug="a", max_rows=0)


@pytest.mark.engine
def test_the_server_says_what_is_wrong_with_a_statement(db: Graph) -> None:
    with pytest.raises(GraphError, match="refused a statement"):
        db.read("MATCH (n RETURN n")
    with pytest.raises(CypherRejected, match="The graph server refused it"):
        db.read_untrusted("MATCH (n RETURN n")
