"""Hybrid retrieval over clinical notes (clinical_notes.md, "Retriever system"): filters, FAISS and BM25, fusion, audit.

A question is parsed into an intent and fields; the fields filter the passages before anything is searched; FAISS and
BM25 find up to 200 passages each; their scores are brought to 0 to 1 and added; the best 100 are reranked; three
weighted scores and a bonus for the right medication decide the order. Each retrieval carries its audit trail.

What the paper leaves open is decided here: a filter that nothing passes returns nothing, never something else; the
fusion before the reranker uses the two weights that are known by then; a passage that one search did not return has
the score 0 from it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from helpers.indexes import Index, Kind, cached_index
from helpers.rag.rerank import Floats, Integers, Reranker
from helpers.rag.retrieval import aligned, fused, min_max, word_index, word_scores
from helpers.vectors import Encoder
from papers.clinical_notes.gold import Note
from papers.clinical_notes.passages import Chunk, chunk_notes
from papers.clinical_notes.query import Lexicon, Query, parse
from papers.clinical_notes.rerankers import MeanPooled, encoders

Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Settings:
    """The retriever's parameters; the defaults are the paper's ("Weighted fusion and hyperparameters").

    Attributes:
        candidates: that each of the two searches returns.
        reranked: best fused candidates that go to the reranker, and of which the results are taken.
        w_rerank, w_semantic, w_lexical: weights of the normalised scores.
        boost, penalty: added if the passage names a drug of the question, if it names none of them.
        filter_patient, filter_dates: keep only passages of the named patients and days.
        filter_drugs: keep only passages that name a drug of the question; then the boost decides nothing.
        expand: look for a drug under all of its names.
    """

    candidates: int = 200
    reranked: int = 100
    w_rerank: float = 0.6
    w_semantic: float = 0.25
    w_lexical: float = 0.15
    boost: float = 0.2
    penalty: float = 0.05
    filter_patient: bool = True
    filter_dates: bool = True
    filter_drugs: bool = False
    expand: bool = True


PAPER = Settings()


@dataclass(frozen=True)
class Candidates:
    """What the two searches found for one question, before any weight: raw scores, NaN where a search did not find it.

    Attributes:
        query: the parsed question.
        filters: the filters as a reader sees them.
        searched: passages that passed them.
        rows: (n,) places of the passages in the store.
        semantic, lexical: (n,) cosine and BM25.
        matches: (n,) whether the passage names a drug of the question; None if the question names none.
        seconds: by step.
    """

    query: Query
    filters: tuple[str, ...]
    searched: int
    rows: Integers
    semantic: Floats
    lexical: Floats
    matches: Bools | None
    seconds: dict[str, float]


@dataclass(frozen=True)
class Result:
    """One passage in its place, and what each component gave to its score."""

    rank: int
    chunk: Chunk
    score: float
    rerank: float
    semantic: float
    lexical: float
    medication: float


@dataclass(frozen=True)
class Audit:
    """How a retrieval came about ("Auditability and testing"). It holds no text of a note."""

    query: Query
    filters: tuple[str, ...]
    counts: dict[str, int]
    reranker: str
    settings: Settings
    seconds: dict[str, float]

    def __str__(self) -> str:
        """The trail as a reader sees it."""
        q = self.query
        fields = {
            "patients": ", ".join(sorted(q.patients)),
            "drugs": ", ".join(sorted(q.drugs)),
            "from": q.since,
            "to": q.until,
            "symptoms": ", ".join(sorted(q.symptoms)),
        }
        lines = {
            "intent": q.intent,
            "fields": "; ".join(f"{name} {value}" for name, value in fields.items() if value) or "none",
            "filters": "; ".join(self.filters) or "none",
            "counts": ", ".join(f"{name} {n:,}" for name, n in self.counts.items()),
            "reranker": self.reranker or "none",
            "seconds": ", ".join(f"{name} {s:.3f}" for name, s in self.seconds.items()),
        }
        return "\n".join(f"{name:9} {value}" for name, value in lines.items())


@dataclass(frozen=True)
class Retrieval:
    """Ranked passages and the audit trail."""

    results: tuple[Result, ...]
    audit: Audit

    def table(self) -> pd.DataFrame:
        """One row a result: where it is from and its weighted components. No text of a note."""
        parts = ("rerank", "semantic", "lexical", "medication", "score")
        rows = [
            {"rank": r.rank, "patient": r.chunk.patient, "date": r.chunk.date.isoformat(), "passage": r.chunk.id}
            | {part: getattr(r, part) for part in parts}
            for r in self.results
        ]
        return pd.DataFrame(rows, columns=["rank", "patient", "date", "passage", *parts])


class Retriever:
    """Passages, their two indexes, and the search over them.

    Args:
        chunks: the passages.
        lexicon: names for the parser.
        encode: encoder of the semantic index.
        reranker: orders the best candidates; None leaves that step out, its weight going to nothing.
        kind: of the FAISS index.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        lexicon: Lexicon,
        encode: Encoder,
        reranker: Reranker | None = None,
        *,
        kind: Kind = "flat",
        progress: bool = True,
        index: Index | None = None,
    ) -> None:
        """Build the indexes; `index` takes one that was built before.

        Raises:
            ValueError: there is no passage, or the index is of another size.
        """
        if not chunks:
            raise ValueError("There is no passage to index.")
        texts = [chunk.text for chunk in chunks]
        self.chunks, self.lexicon, self.encode, self.reranker = list(chunks), lexicon, encode, reranker
        self.index = index or cached_index("clinical-notes", texts, encode, kind, progress=progress)
        if self.index.size != len(chunks):
            raise ValueError(f"The index has {self.index.size:,} vectors for {len(chunks):,} passages; build it again.")
        self.bm25 = word_index(texts)
        self._patients = np.array([chunk.patient.lower() for chunk in chunks])
        self._days = np.array([chunk.date.toordinal() for chunk in chunks])
        self._pool = ThreadPoolExecutor(2, thread_name_prefix="search")

    @cached_property
    def _rows_of_drug(self) -> dict[str, Bools]:
        drugs = {drug for chunk in self.chunks for drug in chunk.drugs}
        return {drug: np.array([drug in chunk.drugs for chunk in self.chunks]) for drug in drugs}

    def retrieve(
        self,
        question: str,
        *,
        patient: str | None = None,
        since: date | None = None,
        until: date | None = None,
        k: int = 10,
        settings: Settings = PAPER,
    ) -> Retrieval:
        """The `k` best passages for a question, with the audit trail.

        Args:
            question: in words.
            patient, since, until: go before what the parser reads off the question.
            k: how many.
            settings: weights and sizes.
        """
        start = time.perf_counter()
        query = parse(question, self.lexicon)
        query = replace(
            query,
            patients=frozenset({patient}) if patient else query.patients,
            since=since or query.since,
            until=until or query.until,
        )
        parsed = time.perf_counter() - start
        found = self.candidates(query, settings)
        began = time.perf_counter()
        order, components = ranked(found, settings, lambda chosen: self._rerank(found, chosen))
        reranked = time.perf_counter() - began
        results = tuple(
            Result(rank, self.chunks[int(found.rows[place])], float(parts.sum()), *parts.tolist())
            for rank, (place, parts) in enumerate(zip(order[:k], components[:k], strict=True), start=1)
        )
        counts = {
            "passages": len(self.chunks),
            "after filters": found.searched,
            "FAISS": int(np.isfinite(found.semantic).sum()),
            "BM25": int(np.isfinite(found.lexical).sum()),
            "either": len(found.rows),
            "reranked": len(order) if self.reranker else 0,
            "returned": len(results),
        }
        seconds = {"parse": parsed, **found.seconds, "rerank": reranked, "total": time.perf_counter() - start}
        audit = Audit(query, found.filters, counts, self.reranker.name if self.reranker else "", settings, seconds)
        return Retrieval(results, audit)

    def candidates(self, query: Query, settings: Settings = PAPER) -> Candidates:
        """Filter, then search both indexes at once."""
        start = time.perf_counter()
        keep, filters = self._filtered(query, settings)
        rows = np.flatnonzero(keep)
        names = sorted(query.drugs) if settings.expand else []
        filtered = time.perf_counter()
        if len(rows):
            dense = " ".join([query.text, *(f"({d})" for d in names if d not in query.text.lower())])
            sparse = " ".join([query.text, *(alias for d in names for alias in self.lexicon.aliases.get(d, ()))])
            semantic = self._pool.submit(self._semantic, dense, rows, settings.candidates)
            lexical = self._pool.submit(self._lexical, sparse, keep, settings.candidates)
            by_meaning, by_word = semantic.result(), lexical.result()
        else:
            by_meaning, by_word = {}, {}
        either, (by_cosine, by_bm25) = aligned(by_meaning, by_word)
        matches = None
        if query.drugs:
            named = [of for drug in query.drugs if (of := self._rows_of_drug.get(drug)) is not None]
            matches = np.any([of[either] for of in named], axis=0) if named else np.zeros(len(either), dtype=bool)
        return Candidates(
            query,
            filters,
            len(rows),
            either,
            by_cosine,
            by_bm25,
            matches,
            {"filter": filtered - start, "search": time.perf_counter() - filtered},
        )

    def _rerank(self, found: Candidates, chosen: Integers) -> Floats:
        if self.reranker is None or not len(chosen):
            return np.zeros(len(chosen))
        return self.reranker.score(found.query.text, found.rows[chosen])

    def _filtered(self, query: Query, settings: Settings) -> tuple[Bools, tuple[str, ...]]:
        keep, filters = np.ones(len(self.chunks), dtype=bool), []
        if settings.filter_patient and query.patients:
            keep &= np.isin(self._patients, [p.lower() for p in query.patients])
            filters.append(f"patient {' or '.join(sorted(query.patients))}")
        if settings.filter_dates and query.since:
            keep &= self._days >= query.since.toordinal()
            filters.append(f"from {query.since}")
        if settings.filter_dates and query.until:
            keep &= self._days <= query.until.toordinal()
            filters.append(f"to {query.until}")
        if settings.filter_drugs and query.drugs:
            none = np.zeros(len(keep), dtype=bool)
            keep &= np.any([self._rows_of_drug.get(drug, none) for drug in query.drugs], axis=0)
            filters.append(f"drug {' or '.join(sorted(query.drugs))}")
        return keep, tuple(filters)

    def _semantic(self, text: str, rows: Integers, k: int) -> dict[int, float]:
        vector = self.encode.encode([text], progress=False)
        whole = len(rows) == len(self.chunks)
        scores, ids = self.index.search(vector, min(k, len(rows)), within=None if whole else rows)
        return {row: score for row, score in zip(ids[0].tolist(), scores[0].tolist(), strict=True) if row >= 0}

    def _lexical(self, text: str, keep: Bools, k: int) -> dict[int, float]:
        scores = np.where(keep, word_scores(self.bm25, [text], len(keep))[0], 0.0)
        best = np.argpartition(-scores, min(k, len(scores)) - 1)[:k]
        return {row: score for row, score in zip(best.tolist(), scores[best].tolist(), strict=True) if score > 0}


def retriever_of(notes: Iterable[Note], lexicon: Lexicon, encoder: str, reranker: str = "") -> Retriever:
    """The paper's retriever over notes, searched by one encoder and reranked by another, or by the same.

    Raises:
        EncoderUnavailable: what the encoders need is not installed, or a model cannot be loaded.
    """
    encode, to_rerank = encoders(encoder, reranker)
    chunks = chunk_notes(notes, lexicon)
    return Retriever(chunks, lexicon, encode, MeanPooled(chunks, to_rerank))


def best_fused(found: Candidates, settings: Settings) -> Integers:
    """Places in `found.rows` of the best candidates by the two first scores, at most `settings.reranked`."""
    return fused((found.semantic, found.lexical), (settings.w_semantic, settings.w_lexical))[: settings.reranked]


def weighted(found: Candidates, chosen: Integers, reranks: Floats, settings: Settings) -> Floats:
    """(n, 4) weighted components of the chosen candidates: rerank, semantic, lexical, medication.

    The first two scores keep the scale of all candidates; the reranker's is that of those it saw.
    """
    medication = np.zeros(len(chosen))
    if found.matches is not None:
        medication = np.where(found.matches[chosen], settings.boost, -settings.penalty)
    return np.column_stack(
        [
            settings.w_rerank * min_max(reranks),
            settings.w_semantic * min_max(found.semantic)[chosen],
            settings.w_lexical * min_max(found.lexical)[chosen],
            medication,
        ]
    )


def ranked(found: Candidates, settings: Settings, rerank: Callable[[Integers], Floats]) -> tuple[Integers, Floats]:
    """Places in `found.rows`, best first, and the (n, 4) weighted components of each.

    Args:
        found: candidates of one question.
        settings: weights and sizes.
        rerank: raw scores of the chosen places.
    """
    chosen = best_fused(found, settings)
    components = weighted(found, chosen, rerank(chosen), settings)
    order = np.lexsort((chosen, -components.sum(axis=1)))
    return chosen[order], components[order]
