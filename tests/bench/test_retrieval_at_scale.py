"""Time and memory of retrieval at ten times the book's sizes: index built, questions searched.

A processor encodes some dozens of long passages a second, so only a part of them is encoded here, and the rate of that
is printed. The index is filled with those vectors, each repeated with a little noise: FAISS's time and memory depend on
how many vectors there are, not on what they say. BM25, the filters and the metadata work on all texts as they are.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import islice

import numpy as np
import psutil
import pytest

from helpers import indexes, vectors
from papers.clinical_notes import questions as cq, retrieval as cr
from papers.clinical_notes.charts import generate
from papers.clinical_notes.passages import chunk_notes

PASSAGES = 100_000
ENCODED = 1_000
QUESTIONS = 100
SENTENCES, DRUGS = 1_226_010, 1_100
"""Ten times the sentences of 01's largest index, and the drugs that they are about."""
BUDGET_MS = 150
pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]


def megabytes() -> float:
    return psutil.Process().memory_info().rss / 2**20


@pytest.mark.parametrize("kind", ["flat", "ivf"])
def test_one_hundred_thousand_passages_are_searched_within_the_budget(
    kind: indexes.Kind, note_measurement, monkeypatch: pytest.MonkeyPatch
):
    charts = generate(240, 11)
    lexicon = cq.lexicon_of(charts)
    own = chunk_notes(charts.notes(), lexicon)
    copies = -(-PASSAGES // len(own))
    # every copy is of other patients, so that a filter on a patient means what it does in a large hospital
    chunks = [
        replace(c, id=f"{copy}-{c.id}", patient=f"{c.patient}-{copy}" if copy else c.patient)
        for copy in range(copies)
        for c in own
    ][:PASSAGES]
    encode = vectors.encoder()

    start = time.perf_counter()
    sample = encode.encode([c.text for c in islice(own, ENCODED)], progress=False)
    encoding = ENCODED / (time.perf_counter() - start)
    rng = np.random.default_rng(0)
    passage_vectors = sample[rng.integers(len(sample), size=len(chunks))] + rng.normal(
        0, 0.02, (len(chunks), sample.shape[1])
    )
    passage_vectors = (
        passage_vectors / np.linalg.norm(passage_vectors, axis=1, keepdims=True)
    ).astype(np.float32)

    before, start = megabytes(), time.perf_counter()
    index = indexes.Index.build(passage_vectors, kind)
    faiss_seconds, faiss_megabytes = time.perf_counter() - start, megabytes() - before
    before, start = megabytes(), time.perf_counter()
    # encoding all passages would take hours
    monkeypatch.setattr(indexes, "cached_index", lambda *_: index)
    retriever = cr.Retriever(chunks, lexicon, encode)
    rest_seconds, rest_megabytes = time.perf_counter() - start, megabytes() - before

    questions = [
        q.text for q in cq.write_questions(charts, cq.antiseizure_names(), QUESTIONS // 4, 11)
    ]
    retriever.retrieve(questions[0])
    milliseconds = []
    for question in questions:
        start = time.perf_counter()
        retriever.retrieve(question)
        milliseconds.append(1000 * (time.perf_counter() - start))
    p50, p95 = np.percentile(milliseconds, [50, 95])
    note_measurement(
        f"Hybrid retrieval, FAISS index of the kind {kind}",
        f"{len(chunks):,} passages",
        f"encoding {encoding:.0f} passages/s (estimate for all: {len(chunks) / encoding / 60:.0f} min); FAISS "
        f"{faiss_seconds:.1f} s, {faiss_megabytes:.0f} MB; BM25 and metadata {rest_seconds:.1f} s, "
        f"{rest_megabytes:.0f} MB; one question {p50:.0f} ms (p50), {p95:.0f} ms (p95)",
    )
    assert p50 <= BUDGET_MS


@pytest.mark.parametrize("kind", ["flat", "ivfpq"])
def test_ten_times_the_sentences_of_the_forward_benchmark_are_searched(
    kind: indexes.Kind, tmp_path, note_measurement
):
    rng = np.random.default_rng(0)
    drugs = rng.normal(size=(DRUGS, 384)).astype(
        np.float32
    )  # a drug's sentences lie near each other
    vectors = drugs[rng.integers(DRUGS, size=SENTENCES)] + rng.normal(
        0, 0.5, (SENTENCES, 384)
    ).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    queries = vectors[rng.integers(SENTENCES, size=QUESTIONS)]

    start = time.perf_counter()
    indexes.Index.build(vectors, kind).save(tmp_path)
    built, size = time.perf_counter() - start, (tmp_path / "index.faiss").stat().st_size / 2**20
    before, start = megabytes(), time.perf_counter()
    index = indexes.Index.load(tmp_path)
    loading_seconds = time.perf_counter() - start
    milliseconds, nearest = [], []
    for query in queries:
        start = time.perf_counter()
        nearest.append(index.search(query[None], 10)[1][0])
        milliseconds.append(1000 * (time.perf_counter() - start))
    memory, (p50, p95) = megabytes() - before, np.percentile(milliseconds, [50, 95])
    exact = np.argpartition(-(queries @ vectors.T), 10, axis=1)[:, :10]
    recall = np.mean(
        [
            len(set(approximate) & set(best)) / 10
            for approximate, best in zip(nearest, exact, strict=True)
        ]
    )
    note_measurement(
        f"FAISS index of the kind {kind}",
        f"{SENTENCES:,} vectors",
        f"built and saved in {built:.0f} s, {size:.0f} MB; loaded in {loading_seconds:.2f} s; one query {p50:.1f} "
        f"ms (p50), {p95:.1f} ms (p95); {memory:.0f} MB of memory; recall@10 {100 * recall:.0f} %",
    )
    assert kind == "flat" or p50 <= BUDGET_MS
