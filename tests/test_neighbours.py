"""Stored searches: a replay encodes nothing, and finds on any machine what the reference run found."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st

from helpers import neighbours
from helpers.indexes import Index, TextIndex
from helpers.neighbours import MissingSearchError, Result
from helpers.requests import StoreError
from helpers.vectors import Encoder
from resources import settings as settings_module

TEXTS = [f"text {i}" for i in range(60)]
QUERIES = ["a query", "another query", "a query"]


class RandomEncoder(Encoder):
    """A random vector for each text, the same in every process; counts what it encodes."""

    name = engine = digest = "random"
    dimension = 8
    max_tokens = 512

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def _encode(self, texts, progress):
        self.encoded += texts
        draws = [np.random.default_rng(zlib.crc32(text.encode())).normal(size=8) for text in texts]
        vectors = np.array(draws, dtype=np.float32).reshape(-1, 8)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors, np.zeros(len(texts), dtype=np.bool_)

    def _find_truncated(self, texts):
        return np.zeros(len(texts), dtype=np.bool_)


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Sets ANSWERS, and other variables."""

    def choose(mode: str, **variables: str) -> None:
        monkeypatch.setenv("ANSWERS", mode)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        settings_module.settings.cache_clear()

    yield choose
    monkeypatch.undo()
    settings_module.settings.cache_clear()


def all_searches(index: TextIndex) -> list[Any]:
    """What each kind of search finds, as values that can be compared."""
    rows = np.array([7, 3, 40])
    nearest = index.nearest(QUERIES, 5)
    nearest_rows = index.nearest(QUERIES, 30, keep=np.arange(0, 60, 3))
    within_rows = index.search(QUERIES, 5, within=np.arange(20, 50))
    return [
        [ids.tolist() for ids in nearest],
        [ids.tolist() for ids in nearest_rows],
        [(result.ids.tolist(), result.scores.tolist()) for result in within_rows],
        index.cosines("a query", rows).tolist(),
    ]


def test_a_search_that_is_stored_encodes_nothing_and_finds_the_same() -> None:
    first = all_searches(TextIndex(TEXTS, RandomEncoder()))
    encoder = RandomEncoder()
    assert all_searches(TextIndex(TEXTS, encoder)) == first
    assert encoder.encoded == []
    (nearest,) = TextIndex(TEXTS, encoder).nearest(["a query"], 4)
    assert nearest.tolist() == first[0][0][:4]
    assert "text 59" in encoder.encoded, "another number of neighbours is another search"


@pytest.mark.parametrize("changed", ["texts", "encoder"])
def test_other_texts_or_another_encoder_are_searched_anew(changed: str) -> None:
    TextIndex(TEXTS, RandomEncoder()).nearest(QUERIES, 5)
    encoder = RandomEncoder()
    if changed == "encoder":
        encoder.digest = "another"
    texts = TEXTS[::-1] if changed == "texts" else TEXTS
    TextIndex(texts, encoder).nearest(QUERIES, 5)
    assert set(texts) <= set(encoder.encoded)


@given(st.integers(1, 20), st.sets(st.integers(0, 59), min_size=1))
def test_filters_select_what_the_index_finds(k: int, selected: set[int]) -> None:
    encoder = RandomEncoder()
    rows = np.array(sorted(selected))
    built = Index.build(encoder.encode(TEXTS, progress=False))
    vector = encoder.encode(["a query"], progress=False)
    index = TextIndex(TEXTS, encoder)
    expected = [row for row in built.search(vector, k)[1][0].tolist() if row in selected]
    assert index.nearest(["a query"], k, keep=rows)[0].tolist() == expected
    (result,) = index.search(["a query"], k, within=rows)
    scores, ids = built.search(vector, k, within=rows)
    assert result.ids.tolist() == ids[0].tolist()
    np.testing.assert_allclose(result.scores, scores[0], atol=1e-6)
    cosines = encoder.encode([TEXTS[row] for row in rows], progress=False) @ vector[0]
    np.testing.assert_allclose(index.cosines("a query", rows), cosines, atol=2e-6)


def test_another_machine_finds_what_the_reference_run_found(tmp_path: Path, monkeypatch) -> None:
    index = TextIndex(TEXTS, RandomEncoder())
    first = all_searches(index)
    index.nearest(["a query of another notebook"], 5)
    assert neighbours.export_run("laptop", "01_a_notebook")
    neighbours.main(["release", "laptop"])
    monkeypatch.setattr(neighbours, "STORE", tmp_path / "elsewhere")
    encoder = RandomEncoder()
    assert all_searches(TextIndex(TEXTS, encoder)) == first
    assert encoder.encoded == []


def test_the_references_results_take_the_place_of_a_machines_own(
    tmp_path: Path, monkeypatch
) -> None:
    index = TextIndex(TEXTS, RandomEncoder())
    (own,) = index.nearest(["a query"], 3)
    ((key, digest),) = neighbours.results_store(neighbours.STORE).used
    theirs = Result(own[::-1])
    neighbours.write(neighbours.RELEASED / "laptop" / "nb.parquet", {key: {digest: theirs}})
    neighbours.results_store.cache_clear()
    assert index.nearest(["a query"], 3)[0].tolist() == own[::-1].tolist()


def test_a_notebook_releases_only_what_it_used() -> None:
    index = TextIndex(TEXTS, RandomEncoder())
    index.nearest(["a query of an earlier notebook"], 5)
    neighbours.results_store.cache_clear()
    index.nearest(["a query"], 5)
    path = neighbours.export_run("laptop", "01_a_notebook")
    assert path
    assert sum(map(len, neighbours.read(path).values())) == 1


def test_what_is_too_large_for_git_is_not_released(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neighbours, "RELEASED_BYTES", 100)
    TextIndex(TEXTS, RandomEncoder()).nearest(QUERIES, 50)
    neighbours.export_run("laptop", "01_a_notebook")
    with pytest.raises(StoreError, match=r"01_a_notebook.*at most 100.*fewer"):
        neighbours.release("laptop", "01_a_notebook")


def test_a_large_search_that_is_not_stored_is_an_error_with_stored_only(answers) -> None:
    texts = [f"text {i}" for i in range(neighbours.LIVE_TEXTS + 1)]
    answers("stored-only")
    assert TextIndex(TEXTS, RandomEncoder()).nearest(QUERIES, 5)
    encoder = RandomEncoder()
    with pytest.raises(MissingSearchError, match=r"2 searches.*1,001 texts.*make record"):
        TextIndex(texts, encoder).nearest(QUERIES, 5)
    assert encoder.encoded == []
    answers("stored")
    TextIndex(texts, encoder).nearest(QUERIES, 5)
    answers("stored-only")
    assert TextIndex(texts, RandomEncoder()).nearest(QUERIES, 5)


def test_fresh_runs_have_a_store_of_their_own(answers, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(neighbours, "FRESH", tmp_path / "fresh")
    TextIndex(TEXTS, RandomEncoder()).nearest(QUERIES, 5)
    answers("fresh")
    encoder = RandomEncoder()
    TextIndex(TEXTS, encoder).nearest(QUERIES, 5)
    assert set(TEXTS) <= set(encoder.encoded)
    again = RandomEncoder()
    TextIndex(TEXTS, again).nearest(QUERIES, 5)
    assert again.encoded == [], "an interrupted run resumes from its own results"


@pytest.mark.parametrize("wrong", ["order", "neighbour"])
def test_a_check_counts_which_stored_results_hold(answers, wrong: str) -> None:
    index = TextIndex(TEXTS, RandomEncoder())
    _, nearest = index.nearest(["a query", "another query"], 5)
    store = neighbours.results_store(neighbours.STORE)
    (key,) = {key for key, _ in store.used}
    answers("check", CHECK_SECONDS="6000")
    index.nearest(["a query", "another query"], 5)
    neighbours.check_replayed()
    assert (neighbours.COUNTS.checked, neighbours.COUNTS.same) == (2, 2)
    farther = index.nearest(["another query"], 9)[0][4:]
    changed = nearest[::-1] if wrong == "order" else farther
    digest = neighbours.query_digest(("another query", ""))
    store.insert(key, {digest: Result(changed)})
    neighbours.check_replayed()
    n_checked = neighbours.COUNTS.checked
    index.nearest(["a query", "another query"], 5)
    neighbours.check_replayed()
    assert neighbours.COUNTS.checked == n_checked + 2
    assert neighbours.COUNTS.same == neighbours.COUNTS.checked - 1


def test_a_check_ends_with_its_seconds(answers) -> None:
    encoder = RandomEncoder()
    index = TextIndex(TEXTS, encoder)
    index.nearest(QUERIES, 5)
    answers("check", CHECK_SECONDS="0")
    encoder.encoded.clear()
    index.nearest(QUERIES, 5)
    neighbours.check_replayed()
    assert encoder.encoded == []
    assert neighbours.COUNTS.checked == 0


def test_a_damaged_result_is_searched_again() -> None:
    index = TextIndex(TEXTS, RandomEncoder())
    first = index.nearest(["a query"], 5)
    store = neighbours.results_store(neighbours.STORE)
    with store._db:
        store._db.execute("UPDATE results SET ids = zeroblob(20)")
    encoder = RandomEncoder()
    again = TextIndex(TEXTS, encoder).nearest(["a query"], 5)
    assert again[0].tolist() == first[0].tolist()
    assert encoder.encoded


def test_a_store_that_is_no_database_is_set_aside_and_the_run_goes_on() -> None:
    neighbours.STORE.mkdir(parents=True)
    (neighbours.STORE / "retrieval.sqlite").write_bytes(b"no database " * 1000)
    with pytest.warns(UserWarning, match="no database.*set aside as"):
        first = TextIndex(TEXTS, RandomEncoder()).nearest(["a query"], 5)
    assert list(neighbours.STORE.glob("*.corrupt-*"))
    encoder = RandomEncoder()
    assert TextIndex(TEXTS, encoder).nearest(["a query"], 5)[0].tolist() == first[0].tolist()
    assert encoder.encoded == []


def test_a_damaged_file_of_the_reference_is_named_and_the_run_goes_on() -> None:
    index = TextIndex(TEXTS, RandomEncoder())
    index.nearest(["a query"], 5)
    neighbours.export_run("laptop", "nb")
    neighbours.release("laptop", "nb")
    path = neighbours.RELEASED / "laptop" / "nb.parquet"
    content = bytearray(path.read_bytes())
    content[20] ^= 0xFF
    path.write_bytes(content)
    neighbours.results_store.cache_clear()
    with pytest.warns(UserWarning, match="nb.parquet.*git checkout"):
        assert len(index.nearest(["a query"], 5)[0]) == 5


def test_a_stopwatch_counts_a_stored_search_as_it_was_made(monkeypatch) -> None:
    index = TextIndex(TEXTS, RandomEncoder())
    index.nearest(["a query"], 5)
    store = neighbours.results_store(neighbours.STORE)
    ((key, digest),) = store.used
    store.insert(key, {digest: Result(np.arange(5), seconds=2.5)})
    with neighbours.stopwatch() as watch:
        index.nearest(["a query"], 5)
    assert 2.5 <= watch.seconds < 3


def test_no_text_lies_in_a_released_file() -> None:
    index = TextIndex(["a secret text", "another text"], RandomEncoder())
    index.nearest(["a secret query"], 1)
    path = neighbours.export_run("laptop", "nb")
    assert path
    assert pq.read_table(path).column_names == ["search", "query", "ids", "scores", "seconds"]
    assert b"secret" not in path.read_bytes()
