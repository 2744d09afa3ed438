"""Hybrid retrieval over clinical notes (clinical_notes.md, "Retriever system"): filters, FAISS and BM25, fusion, audit.

What the paper leaves open is decided here: a filter that nothing passes returns nothing, never something else; the
fusion before the reranker uses the two weights that are known by then; a passage that one search did not return has
the score 0 from it.
"""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from helpers.indexes import TextIndex
from helpers.vectors import Encoder, encoder as encoder_of
from papers.clinical_notes.gold import Note
from papers.clinical_notes.passages import Chunk, chunk_notes
from papers.clinical_notes.query import Lexicon, Query, parse
from rag.retrieval import (
    Floats,
    Integers,
    Reranker,
    aligned,
    fused,
    min_max,
    word_index,
    word_scores,
)

INDEX_NAME = "clinical-notes"
Bools = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Settings:
    """The retriever's parameters; the defaults are the paper's ("Weighted fusion and hyperparameters").

    Each search returns `candidates`; the best fused are reranked. Boost and penalty are for a passage that names a drug
    of the question, or none of them. With filters, only passages of the named patients and days are searched.
    """

    candidates: int = 200
    reranked: int = 100
    w_rerank: float = 0.6
    w_semantic: float = 0.25
    w_lexical: float = 0.15
    boost: float = 0.2
    penalty: float = 0.05
    filters: bool = True


PAPER = Settings()
PARTS = ("rerank", "semantic", "lexical", "medication")


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


@dataclass(frozen=True)
class Retrieval:
    """Ranked passages, best first, and how they came about ("Auditability and testing"), without any text of a note.

    `components` are the (n, 4) weighted `PARTS` of each one's score.
    """

    passages: tuple[Chunk, ...]
    components: Floats
    audit: Mapping[str, object]

    def table(self) -> pd.DataFrame:
        """One row a passage: where it is from and the components of its score."""
        rows = [
            (i, c.patient, c.date.isoformat(), c.id) for i, c in enumerate(self.passages, start=1)
        ]
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
    ) -> None:
        """Index the words; the vectors are indexed when a search is not stored."""
        if not chunks:
            raise ValueError("There is no passage to index.")
        texts = [chunk.text for chunk in chunks]
        self.chunks, self.lexicon, self.encode, self.reranker = (
            list(chunks),
            lexicon,
            encode,
            reranker,
        )
        self.index = TextIndex(texts, encode, INDEX_NAME)
        self.bm25 = word_index(texts)
        self._patients = np.array([chunk.patient.lower() for chunk in chunks])
        self._days = np.array([chunk.date.toordinal() for chunk in chunks])
        drugs = {drug for chunk in chunks for drug in chunk.drugs}
        self._rows_of_drug = {
            drug: np.array([drug in chunk.drugs for chunk in chunks]) for drug in drugs
        }
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="search")

    def retrieve(self, question: str, *, k: int = 10, settings: Settings = PAPER) -> Retrieval:
        """The `k` best passages for a question, with the audit trail."""
        found = self.candidates(parse(question, self.lexicon), settings)
        order, components = ranked(found, settings, reranks(self.reranker, found))
        best = tuple(self.chunks[row] for row in found.rows[order[:k]].tolist())
        q = found.query
        audit = {
            "intent": q.intent,
            "patients": ", ".join(sorted(q.patients)),
            "drugs": ", ".join(sorted(q.drugs)),
            "symptoms": ", ".join(sorted(q.symptoms)),
            "filters": "; ".join(found.filters),
            "passages": len(self.chunks),
            "after filters": found.searched,
            "found by FAISS": int(np.isfinite(found.semantic).sum()),
            "found by BM25": int(np.isfinite(found.lexical).sum()),
            "reranked": len(order) if self.reranker else 0,
            "reranker": self.reranker.name if self.reranker else "",
            "returned": len(best),
        }
        return Retrieval(best, components[:k], audit)

    def candidates(self, query: Query, settings: Settings = PAPER) -> Candidates:
        """Filter, then search both indexes."""
        keep, filters = self._filtered(query, settings)
        rows = np.flatnonzero(keep)
        by_meaning: dict[int, float] = {}
        by_word: dict[int, float] = {}
        if len(rows):
            names = sorted(query.drugs)
            dense = " ".join(
                [query.text, *(f"({d})" for d in names if d not in query.text.lower())]
            )
            sparse = " ".join(
                [query.text, *(alias for d in names for alias in self.lexicon.aliases.get(d, ()))]
            )
            semantic = self._pool.submit(self._semantic, dense, rows, settings.candidates)
            by_word = self._lexical(sparse, keep, settings.candidates)
            by_meaning = semantic.result()
        either, (by_cosine, by_bm25) = aligned(by_meaning, by_word)
        matches = None
        if query.drugs:
            matches = np.zeros(len(either), dtype=bool)
            for drug in query.drugs & self._rows_of_drug.keys():
                matches |= self._rows_of_drug[drug][either]
        return Candidates(query, filters, len(rows), either, by_cosine, by_bm25, matches)

    def _filtered(self, query: Query, settings: Settings) -> tuple[Bools, tuple[str, ...]]:
        keep, filters = np.ones(len(self.chunks), dtype=bool), []
        if settings.filters and query.patients:
            keep &= np.isin(self._patients, [p.lower() for p in query.patients])
            filters.append(f"patient {' or '.join(sorted(query.patients))}")
        if settings.filters and query.since:
            keep &= self._days >= query.since.toordinal()
            filters.append(f"from {query.since}")
        if settings.filters and query.until:
            keep &= self._days <= query.until.toordinal()
            filters.append(f"to {query.until}")
        return keep, tuple(filters)

    def _semantic(self, text: str, rows: Integers, k: int) -> dict[int, float]:
        within = None if len(rows) == len(self.chunks) else rows
        (found,) = self.index.search([text], min(k, len(rows)), within)
        return dict(zip(found.ids.tolist(), found.scores.tolist(), strict=True))

    def _lexical(self, text: str, keep: Bools, k: int) -> dict[int, float]:
        scores = np.where(keep, word_scores(self.bm25, [text], len(keep))[0], 0.0)
        best = np.argpartition(-scores, min(k, len(scores)) - 1)[:k]
        return {
            row: score
            for row, score in zip(best.tolist(), scores[best].tolist(), strict=True)
            if score > 0
        }


class MeanPooled:
    """Cosine of mean-pooled encodings of question and passage.

    The paper also says that the two are processed jointly and that the score is that of the [CLS] token.
    BioLinkBERT-base allows only this reading: it was never trained to score pairs. With the encoder of FAISS, it is the
    semantic score once more, but for the generic names that the search adds to the question.
    """

    def __init__(self, chunks: Sequence[Chunk], of: Encoder) -> None:
        """Take the passages, in the order of `Retriever.chunks`."""
        self.name, self.model = f"mean-pooled {of.name}", of.name
        self._index = TextIndex([chunk.text for chunk in chunks], of, INDEX_NAME)

    def score(self, question: str, rows: Integers) -> Floats:
        """Cosines, within -1 and 1."""
        return self._index.cosines(question, rows)


def retriever_of(
    notes: Iterable[Note], lexicon: Lexicon, encoder: str, reranker: str = ""
) -> Retriever:
    """The paper's retriever over notes, searched by one encoder and reranked by another, or by the same."""
    encode, to_rerank = encoder_of(encoder), encoder_of(reranker or encoder)
    chunks = chunk_notes(notes, lexicon)
    return Retriever(chunks, lexicon, encode, MeanPooled(chunks, to_rerank))


def reranks(reranker: Reranker | None, found: Candidates) -> Floats:
    """A reranker's raw score of each candidate, 0 without one."""
    if reranker is None or not len(found.rows):
        return np.zeros(len(found.rows))
    return reranker.score(found.query.text, found.rows)


def ranked(found: Candidates, settings: Settings, scores: Floats) -> tuple[Integers, Floats]:
    """Places in `found.rows`, best first, and the (n, 4) weighted components of each; `scores` are the reranker's.

    The two first scores keep the scale of all candidates; the reranker's, of the chosen, is that of those it saw.
    """
    chosen = fused((found.semantic, found.lexical), (settings.w_semantic, settings.w_lexical))[
        : settings.reranked
    ]
    medication = np.zeros(len(chosen))
    if found.matches is not None:
        medication = np.where(found.matches[chosen], settings.boost, -settings.penalty)
    components = np.column_stack(
        [
            settings.w_rerank * min_max(scores[chosen]),
            settings.w_semantic * min_max(found.semantic)[chosen],
            settings.w_lexical * min_max(found.lexical)[chosen],
            medication,
        ]
    )
    order = np.lexsort((chosen, -components.sum(axis=1)))
    return chosen[order], components[order]
