"""Sentence vectors and FAISS: normalised, exact, saved with what they were built from, rebuilt when that changed."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from conftest import python_says
from hypothesis import given, settings as examples, strategies as st

from helpers import indexes, vectors
from helpers.indexes import Index, cached_index
from helpers.vectors import Encoder, EncoderUnavailable, Floats
from resources import settings

SENTENCE = "The drug {} may cause {} as an adverse effect, adverse reaction, or side effect."
TEXTS = [
    SENTENCE.format("metformin", "urticaria"),
    SENTENCE.format("metformin", "nausea"),
    SENTENCE.format("aspirin", "hallucination, visual"),
    "Der Patient hat Fieber. 😀",
    "",
    "word " * 90,
]


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    return vectors.encoder()


def unit(rows: Sequence[Sequence[float]]) -> Floats:
    matrix = np.array(rows, dtype=np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


def random_unit(n: int, d: int, seed: int = 0) -> Floats:
    return unit(np.random.default_rng(seed).standard_normal((n, d)).tolist())


def test_an_encoder_is_loaded_once_and_remembering_it_is_a_type(minilm):
    assert vectors.encoder(vectors.DEFAULT_ENCODER) is minilm
    first, second = vectors.Remembering(minilm), vectors.Remembering(minilm)
    assert first is not second  # each remembers what it was asked itself
    assert isinstance(first, vectors.Remembering)


class CountingEncoder(Encoder):
    """A quick encoder of the tests' own, so that what is encoded can be counted."""

    name, engine, digest, dimension, max_tokens = "letters", "test", "letters-1", 26, 1000

    def __init__(self) -> None:
        self.encoded: list[str] = []

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, np.ndarray]:
        self.encoded += texts
        counts = np.array(
            [[1e-3 + text.count(chr(97 + i)) for i in range(26)] for text in texts],
            dtype=np.float32,
        )
        return unit(counts.reshape(-1, 26).tolist()), self._find_truncated(texts)

    def _find_truncated(self, texts: list[str]) -> np.ndarray:
        return np.array([len(text) > self.max_tokens for text in texts], dtype=np.bool_)


@pytest.fixture
def own_indexes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(indexes, "INDEXES", tmp_path / "indexes")
    return tmp_path / "indexes"


# ----------------------------------------------------------------------------------------------------------- index


@examples(deadline=None)
@given(st.integers(1, 60), st.integers(1, 12), st.integers(1, 30), st.integers(0, 10_000))
def test_an_exact_search_agrees_with_brute_force(n: int, d: int, k: int, seed: int) -> None:
    vectors_stored, queries = random_unit(n, d, seed), random_unit(3, d, seed + 1)
    scores, ids = Index.build(vectors_stored).search(queries, k)
    brute = queries @ vectors_stored.T
    assert scores.shape == ids.shape == (3, min(k, n))
    np.testing.assert_allclose(scores, -np.sort(-brute, axis=1)[:, :k], atol=1e-5)
    np.testing.assert_allclose(scores, np.take_along_axis(brute, ids, axis=1), atol=1e-5)
    assert all(len(set(row)) == len(row) for row in ids.tolist())


@examples(deadline=None)
@given(st.integers(2, 12), st.integers(1, 40), st.integers(1, 60), st.integers(0, 10_000))
def test_equal_texts_come_in_the_order_of_their_ids_whatever_the_processor_rounds(
    n: int, copies: int, k: int, seed: int
):
    rng = np.random.default_rng(seed)
    vectors = np.tile(random_unit(n, 16, seed), (copies, 1))
    rounded = vectors + rng.uniform(-1e-7, 1e-7, vectors.shape).astype(np.float32)
    queries = random_unit(3, 16, seed + 1)
    _, positions = Index.build(vectors).search(queries, k)
    _, elsewhere = Index.build(rounded).search(queries, k)
    assert (positions == elsewhere).all()
    assert positions[:, 0].max() < n  # the first of the copies
    _, within = Index.build(rounded).search(queries, k, within=np.arange(n * copies)[::-1])
    assert (positions == within).all()


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_every_kind_finds_a_vector_by_itself_and_survives_saving(
    kind: indexes.Kind, tmp_path: Path
) -> None:
    unit_vectors = random_unit(500, 16)
    index = Index.build(unit_vectors, kind)
    scores, ids = index.search(unit_vectors[:50], 3)
    assert (ids[:, 0] == np.arange(50)).mean() > 0.95
    assert (np.diff(scores, axis=1) <= 1e-6).all()
    index.save(tmp_path / "index")
    again = Index.load(tmp_path / "index")
    assert (again.kind, again.size, again.dimension) == (kind, 500, 16)
    scores_again, ids_again = again.search(unit_vectors[:50], 3)
    assert np.array_equal(scores, scores_again)
    assert np.array_equal(ids, ids_again)
    assert not list(tmp_path.glob("**/*.part"))


def test_an_approximate_search_finds_nearly_all() -> None:
    unit_vectors, queries = random_unit(2000, 32), random_unit(100, 32, seed=1)
    exact, approximate = (
        Index.build(unit_vectors, kind).search(queries, 10)[1].tolist() for kind in ("flat", "ivf")
    )
    assert (
        np.mean([len(set(a) & set(b)) / 10 for a, b in zip(exact, approximate, strict=True)]) > 0.95
    )


def test_what_cannot_be_indexed_or_searched_is_an_error() -> None:
    with pytest.raises(ValueError, match="1 vectors at least"):
        Index.build(np.empty((0, 4), dtype=np.float32))
    with pytest.raises(ValueError, match="finite"):
        Index.build(np.array([[np.nan, 1.0]], dtype=np.float32))
    with pytest.raises(ValueError, match="one vector a row"):
        Index.build(np.ones(4, dtype=np.float32))
    with pytest.raises(ValueError, match="flat, ivf, ivfpq, not 'tree'"):
        Index.build(random_unit(3, 4), "tree")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="256 vectors at least, and there are 3"):
        Index.build(random_unit(3, 4), "ivfpq")
    index = Index.build(random_unit(3, 4))
    with pytest.raises(ValueError, match="same encoder"):
        index.search(random_unit(1, 5), 1)
    with pytest.raises(ValueError, match="k must be at least 1"):
        index.search(random_unit(1, 4), 0)


def test_no_index_is_not_a_damaged_one(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Index.load(tmp_path)


@pytest.mark.parametrize("damage", ["cut", "flip", "about"])
def test_a_damaged_index_is_told_apart(tmp_path: Path, damage: str) -> None:
    Index.build(random_unit(30, 4)).save(tmp_path)
    file = tmp_path / "index.faiss"
    content = bytearray(file.read_bytes())
    if damage == "cut":
        file.write_bytes(content[:-20])
    elif damage == "flip":
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    else:
        (tmp_path / indexes.artifacts.LOG).write_text('{"kind": "flat"')
    with pytest.raises(ValueError):
        Index.load(tmp_path)


def test_a_quantised_index_is_a_fraction_of_the_exact_one_and_its_vectors_stay_on_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")  # small clusterings wait for their threads
    unit_vectors = random_unit(4000, 12)
    built = {"flat": Index.build(unit_vectors), "ivfpq": Index.build(unit_vectors, "ivfpq")}
    for kind, index in built.items():
        index.save(tmp_path / kind)
    size = {kind: (tmp_path / kind / "index.faiss").stat().st_size for kind in built}
    assert size["ivfpq"] < size["flat"] / 3
    reloaded = Index.load(tmp_path / "ivfpq")
    assert str(tmp_path / "ivfpq" / "index.faiss") in Path("/proc/self/maps").read_text()
    for within in (None, np.arange(100)):
        before, after = (
            index.search(unit_vectors[:5], 3, within)[1] for index in (built["ivfpq"], reloaded)
        )
        assert before.tolist() == after.tolist()
    assert after.max() < 100


def test_an_index_that_cannot_be_written_is_an_error_and_leaves_the_old_one(
    tmp_path: Path, monkeypatch
) -> None:
    def full(index: object, file: str) -> None:
        raise RuntimeError("No space left on device")

    Index.build(random_unit(3, 4)).save(tmp_path)
    monkeypatch.setattr(indexes.faiss, "write_index", full)
    with pytest.raises(OSError, match="could not be written"):
        Index.build(random_unit(5, 4)).save(tmp_path)
    assert Index.load(tmp_path).size == 3


# ---------------------------------------------------------------------------------------------------- cached index


def test_an_index_is_built_once_and_again_when_anything_changed(own_indexes: Path) -> None:
    encoder = CountingEncoder()
    texts = ["alpha", "beta", "gamma"]

    def encoded(texts: list[str], kind: indexes.Kind = "flat") -> int:
        before = len(encoder.encoded)
        index = cached_index("letters", texts, encoder, kind, progress=False)
        assert index.size == len(texts)
        return len(encoder.encoded) - before

    assert encoded(texts) == 3
    assert encoded(texts) == 0
    assert encoded([*texts, "delta"]) == 4
    assert encoded(["al", "phabeta", "gamma"]) == 3
    assert encoded(texts[::-1]) == 3
    assert encoded(texts, "ivf") == 3
    encoder.digest = "letters-2"
    assert encoded(texts) == 3
    assert encoded(texts) == 0


def test_an_index_whose_making_was_ended_goes_on(
    own_indexes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(indexes, "PART_TEXTS", 3)
    texts = [f"{letter}bc" for letter in "abcdefghij"]

    class Ended(CountingEncoder):
        def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, np.ndarray]:
            if len(self.encoded) == 6:
                raise KeyboardInterrupt
            return super()._encode(texts, progress)

    with pytest.raises(KeyboardInterrupt):
        cached_index("letters", texts, Ended(), progress=False)
    encoder = CountingEncoder()
    resumed = cached_index("letters", texts, encoder, progress=False)
    assert encoder.encoded == texts[6:]
    assert not list(own_indexes.glob("*.parts"))
    made_at_once = Index.build(CountingEncoder().encode(texts, progress=False))
    query = CountingEncoder().encode(["gbc"], progress=False)
    scores, ids = resumed.search(query, 10)
    expected_scores, expected_ids = made_at_once.search(query, 10)
    assert np.array_equal(scores, expected_scores)
    assert np.array_equal(ids, expected_ids)


def test_a_damaged_cached_index_is_set_aside_and_built_again(
    own_indexes: Path, caplog: pytest.LogCaptureFixture
) -> None:
    encoder = CountingEncoder()
    texts = ["alpha", "beta", "gamma"]
    cached_index("letters", texts, encoder, progress=False)
    folder = next(path for path in own_indexes.iterdir() if path.is_dir())
    (folder / "index.faiss").write_bytes(b"damaged")
    with caplog.at_level(logging.WARNING):
        index = cached_index("letters", texts, encoder, progress=False)
    assert index.search(encoder.encode(["gamma"], progress=False), 1)[1].tolist() == [[2]]
    assert len(encoder.encoded) == 7
    aside = next(path for path in own_indexes.iterdir() if ".bad-" in path.name)
    assert (aside / "index.faiss").read_bytes() == b"damaged"
    assert aside.name in caplog.text
    cached_index("letters", texts, encoder, progress=False)
    assert len(encoder.encoded) == 7


# -------------------------------------------------------------------------------------------------------- encoders


def test_vectors_have_length_one_and_the_stated_shape(minilm: Encoder) -> None:
    encoded = minilm.encode(TEXTS, progress=False)
    assert encoded.shape == (len(TEXTS), minilm.dimension) == (len(TEXTS), 384)
    assert encoded.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(encoded, axis=1), 1, atol=1e-5)
    assert minilm.encode([], progress=False).shape == (0, 384)
    assert minilm.engine.startswith("openvino ")


def test_a_processor_without_newer_instructions_gives_the_same_vectors(
    minilm: Encoder, tmp_path: Path
) -> None:
    """In bfloat16 they differed in the third digit, so that another processor retrieved other texts."""
    save = "import sys, numpy; from helpers.vectors import *; numpy.save(sys.argv[1], encoder().encode(sys.argv[2:]))"
    python_says(save, str(tmp_path / "v.npy"), *TEXTS, ONEDNN_MAX_CPU_ISA="AVX2")
    np.testing.assert_allclose(
        np.load(tmp_path / "v.npy"), minilm.encode(TEXTS, progress=False), atol=2e-6
    )


def test_a_text_has_the_same_vector_in_any_company(minilm: Encoder) -> None:
    texts = TEXTS + [SENTENCE.format(f"drug {i}", "rash " * (i % 7 + 1)) for i in range(200)]
    together = minilm.encode(texts, progress=False)
    alone = np.concatenate([minilm.encode([text], progress=False) for text in TEXTS])
    np.testing.assert_allclose(together[: len(TEXTS)], alone, atol=1e-6)
    order = np.random.default_rng(0).permutation(len(texts))
    shuffled = minilm.encode([texts[i] for i in order] + texts[:3], progress=False)
    np.testing.assert_allclose(shuffled[: len(texts)], together[order], atol=1e-6)
    np.testing.assert_array_equal(
        shuffled[len(texts) :], shuffled[[order.tolist().index(i) for i in range(3)]]
    )


def test_equal_texts_are_encoded_once() -> None:
    encoder = CountingEncoder()
    encoded = encoder.encode(["a", "b", "a", "a"], progress=False)
    assert encoder.encoded == ["a", "b"]
    assert encoded.argmax(axis=1).tolist() == [0, 1, 0, 0]


def test_texts_beyond_what_the_model_sees_are_counted_and_said(
    minilm: Encoder, caplog: pytest.LogCaptureFixture
) -> None:
    fits, long = "word " * 254, "word " * 255  # and two special tokens
    with caplog.at_level(logging.WARNING):
        encoded = minilm.encode(
            [fits, long, long, long + "entirely different ending"], progress=False
        )
    assert minilm.truncated == minilm.count_truncated([long, fits, long, long]) == 3
    assert "3 of 4 texts are longer than the 256 tokens" in caplog.text
    np.testing.assert_allclose(encoded[0], encoded[3], atol=1e-6)
    caplog.clear()
    minilm.encode([fits], progress=False)
    assert minilm.truncated == 0
    assert not caplog.text


def test_near_in_meaning_is_near_in_the_index(minilm: Encoder) -> None:
    pairs = [
        (d, e)
        for d in ("metformin", "aspirin", "ibuprofen")
        for e in ("urticaria", "nausea", "insomnia", "anaemia")
    ]
    index = Index.build(minilm.encode([SENTENCE.format(*pair) for pair in pairs], progress=False))
    for row, (drug, effect) in enumerate(pairs):
        question = minilm.encode([f"Is {effect} an adverse effect of {drug}?"], progress=False)
        assert index.search(question, 1)[1].tolist() == [[row]]
    sick, also_sick, car = minilm.encode(
        ["feeling sick", "nausea and vomiting", "a red sports car"], progress=False
    )
    assert sick @ also_sick > sick @ car + 0.2


def test_what_is_no_list_of_texts_is_an_error(minilm: Encoder) -> None:
    with pytest.raises(TypeError, match="not one string"):
        minilm.encode("a text")
    with pytest.raises(TypeError, match="text 1 is nan"):
        minilm.encode(["a", float("nan")])  # type: ignore[list-item]


def test_another_encoder_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)
    with pytest.raises(
        EncoderUnavailable, match=r"'no/such-model' needs sentence-transformers.*extra `encoders`"
    ):
        vectors.encoder("no/such-model")


@pytest.mark.parametrize(
    ("set_to", "expected"), [("3", 3), ("", None), ("many", None), ("0", None)]
)
def test_threads_follow_the_setting(
    monkeypatch: pytest.MonkeyPatch, set_to: str, expected: int | None
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", set_to)
    assert vectors.threads() == expected if expected else vectors.threads() >= 1


def test_nothing_reports_the_use_of_the_encoder() -> None:
    assert sys.modules["openvino_telemetry"] is None
    assert not [name for name in sys.modules if name.startswith("openvino_telemetry.")]


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_a_search_within_some_ids_returns_these_alone(kind: indexes.Kind):
    rng = np.random.default_rng(3)
    points = rng.normal(size=(2000, 16)).astype(np.float32)
    index = indexes.Index.build(points / np.linalg.norm(points, axis=1, keepdims=True), kind)
    within = np.sort(rng.choice(2000, 60, replace=False))
    scores, ids = index.search(points[:3], 100, within=within)
    assert set(ids.ravel()) <= {*within, -1}
    assert (np.diff(scores, axis=1) <= 1e-6).all()
    if kind == "flat":
        assert all(set(row) == set(within) for row in ids)
    assert index.search(points[:3], 5, within=within[:0])[1].shape == (3, 0)


def test_an_encoder_that_remembers_gives_the_same_vectors_and_encodes_no_text_twice(monkeypatch):
    inner = vectors.encoder()
    encoded: list[str] = []
    once = inner._encode

    def spy(texts, progress):
        encoded.extend(texts)
        return once(texts, progress)

    monkeypatch.setattr(inner, "_encode", spy)
    remembering = vectors.Remembering(inner)
    first = remembering.encode(["nausea", "rash", "nausea"], progress=False)
    again = remembering.encode(["rash", "fever"], progress=False)
    assert sorted(encoded) == ["fever", "nausea", "rash"]
    np.testing.assert_array_equal(first[1], again[0])
    np.testing.assert_allclose(again[1], inner.encode(["fever"], progress=False)[0], atol=1e-6)
    assert remembering.encode([], progress=False).shape == (0, inner.dimension)


def test_vectors_of_many_texts_are_stored_for_the_next_run_and_made_again_if_damaged(
    minilm, tmp_path, monkeypatch
):
    monkeypatch.setattr(vectors, "VECTORS", tmp_path)
    monkeypatch.setattr(vectors, "MIN_STORED", 3)
    texts = ["nausea", "rash", "fever", "nausea " * 300]
    first = vectors.Remembering(minilm).encode(texts, progress=False)
    (path,) = tmp_path.glob(f"*/{vectors.FILE}")

    def next_run(*texts):
        remembering = vectors.Remembering(minilm)
        return remembering.encode(texts, progress=False), remembering.truncated

    with monkeypatch.context() as patch:
        patch.setattr(minilm, "_encode", None)  # encodes nothing
        again, truncated = next_run(*texts)
        np.testing.assert_array_equal(again, first)
        assert truncated == 1
        with pytest.raises(TypeError):
            next_run("nausea", "rash", "fever", "headache")
    path.write_bytes(path.read_bytes()[:-9] + b"\0" * 9)
    again, _ = next_run(*texts)
    np.testing.assert_allclose(again, first, atol=1e-6)


@pytest.mark.slow
@pytest.mark.timeout(60)
def test_an_encoder_can_be_dropped_right_after_its_work():
    """It hung now and then: a thread of its own waited for the interpreter, and its end waited for that thread."""
    for _ in range(8):
        assert vectors.MiniLM().encode(["a", "b c", "d e f"], progress=False).shape == (3, 384)


def test_threads_that_encode_first_do_not_wait_for_each_other() -> None:
    """With slow imports, OpenVINO's first use of numpy in two threads at once always hung."""
    code = """
import builtins, time
from helpers import vectors

quick = builtins.__import__

def slow(name, *rest, **more):
    if name.startswith("numpy"):
        time.sleep(0.2)
    return quick(name, *rest, **more)

builtins.__import__ = slow
print(vectors.encoder().encode(["one text", "another, longer text"], progress=False).shape)
"""
    process = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "PYTHONPATH": str(settings.ROOT / "src")},
    )
    assert process.stdout == "(2, 384)\n", process.stderr
