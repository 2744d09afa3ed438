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
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pandas as pd

from helpers.indexes import Index, cached_index
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

    `searched` passages passed the filters; `rows` are places in the store, (n,) as all arrays here. `matches` says
    whether a passage names a drug of the question; None if the question names none.
    """

    query: Query
    filters: tuple[str, ...]
    searched: int
    rows: Integers
    semantic: Floats
    lexical: Floats
    matches: Bools | None
    seconds: dict[str, float]


PARTS = ("rerank", "semantic", "lexical", "medication")


@dataclass(frozen=True)
class Retrieval:
    """Ranked passages and how they came about ("Auditability and testing"); shown without any text of a note.

    Attributes:
        passages: best first.
        components: (n, 4) weighted `PARTS` of each one's score.
        counts: of passages, by step.
        reranker: by name; empty for none.
        seconds: by step.
    """

    query: Query
    passages: tuple[Chunk, ...]
    components: Floats
    filters: tuple[str, ...]
    counts: dict[str, int]
    reranker: str
    seconds: dict[str, float]

    @property
    def audit(self) -> str:
        """The audit trail as a reader sees it."""
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

    def table(self) -> pd.DataFrame:
        """One row a passage: where it is from and the components of its score."""
        rows = [(i, c.patient, c.date.isoformat(), c.id) for i, c in enumerate(self.passages, start=1)]
        table = pd.DataFrame(rows, columns=["rank", "patient", "date", "passage"])
        table[list(PARTS)] = self.components
        return table.assign(score=self.components.sum(axis=1))


class Retriever:
    """Passages, their two indexes, and the search over them; without a reranker its weight goes to nothing."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        lexicon: Lexicon,
        encode: Encoder,
        reranker: Reranker | None = None,
        *,
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
        self.index = index or cached_index("clinical-notes", texts, encode, progress=progress)
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

    def retrieve(self, question: str, *, k: int = 10, settings: Settings = PAPER) -> Retrieval:
        """The `k` best passages for a question, with the audit trail."""
        start = time.perf_counter()
        query = parse(question, self.lexicon)
        parsed = time.perf_counter() - start
        found = self.candidates(query, settings)
        began = time.perf_counter()
        order, components = ranked(found, settings, lambda chosen: self._rerank(found, chosen))
        reranked = time.perf_counter() - began
        best = tuple(self.chunks[row] for row in found.rows[order[:k]].tolist())
        counts = {
            "passages": len(self.chunks),
            "after filters": found.searched,
            "FAISS": int(np.isfinite(found.semantic).sum()),
            "BM25": int(np.isfinite(found.lexical).sum()),
            "either": len(found.rows),
            "reranked": len(order) if self.reranker else 0,
            "returned": len(best),
        }
        seconds = {"parse": parsed, **found.seconds, "rerank": reranked, "total": time.perf_counter() - start}
        name = self.reranker.name if self.reranker else ""
        return Retrieval(query, best, components[:k], found.filters, counts, name, seconds)

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


def ranked(found: Candidates, settings: Settings, rerank: Callable[[Integers], Floats]) -> tuple[Integers, Floats]:
    """Places in `found.rows`, best first, and the (n, 4) weighted components of each.

    The two first scores keep the scale of all candidates; the reranker's, of the chosen, is that of those it saw.
    """
    fusion = fused((found.semantic, found.lexical), (settings.w_semantic, settings.w_lexical))
    chosen = fusion[: settings.reranked]
    medication = np.zeros(len(chosen))
    if found.matches is not None:
        medication = np.where(found.matches[chosen], settings.boost, -settings.penalty)
    components = np.column_stack(
        [
            settings.w_rerank * min_max(rerank(chosen)),
            settings.w_semantic * min_max(found.semantic)[chosen],
            settings.w_lexical * min_max(found.lexical)[chosen],
            medication,
        ]
    )
    order = np.lexsort((chosen, -components.sum(axis=1)))
    return chosen[order], components[order]
