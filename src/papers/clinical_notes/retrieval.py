"""Hybrid retrieval over clinical notes (clinical_notes.md, "Retriever system").

A question passes five steps: filters by patient and date, search by meaning (FAISS) and
by words (BM25), fusion of the two scores, reranking, and a bonus for passages that name
a drug of the question.

The paper leaves three points open. They are settled here as follows:

- If no passage passes the filters, nothing is returned.
- The fusion before the reranker uses the two weights that are known by then.
- A passage that one of the two searches did not return has the score 0 from it.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import date

import numpy as np
import numpy.typing as npt
import pandas as pd

from helpers.indexes import TextIndex
from helpers.vectors import Encoder, encoder as load_encoder
from papers.clinical_notes.gold import Note
from papers.clinical_notes.passages import Chunk, chunk_notes
from papers.clinical_notes.query import Lexicon, Query, parse
from rag.retrieval import (
    Floats,
    Integers,
    Reranker,
    align_scores,
    bm25_index,
    bm25_scores,
    fusion_order,
    min_max,
)

Bools = npt.NDArray[np.bool_]

INDEX_NAME = "clinical-notes"

SCORE_COMPONENTS = ("rerank", "semantic", "lexical", "medication")
"""Columns of the weighted components of a score."""


@dataclass(frozen=True)
class RetrieverConfig:
    """Parameters of the retriever, by default the paper's.

    Source: "Weighted fusion and hyperparameters".

    Attributes:
        candidates: Passages that each of the two searches returns.
        reranked: Passages that the reranker scores: the best by fusion.
        w_rerank: Weight of the reranker's score.
        w_semantic: Weight of the FAISS score.
        w_lexical: Weight of the BM25 score.
        boost: Added to a passage that names a drug of the question.
        penalty: Subtracted from a passage that names none of them.
        filters: Whether only passages of the named patients and dates are searched.
        medication_filter: Whether only passages that name a drug of the question are searched,
            too. The paper does so before the search, and yet has a penalty for other passages.
    """

    candidates: int = 200
    reranked: int = 100
    w_rerank: float = 0.6
    w_semantic: float = 0.25
    w_lexical: float = 0.15
    boost: float = 0.2
    penalty: float = 0.05
    filters: bool = True
    medication_filter: bool = False


PAPER_CONFIG = RetrieverConfig()


@dataclass(frozen=True)
class Filters:
    """What a person states besides the question; it goes before what the question says.

    Attributes:
        patient: Identifier of a patient.
        since: First day.
        until: Last day.
        medication: A drug, by any of its names; only passages that name it are searched.
    """

    patient: str = ""
    since: date | None = None
    until: date | None = None
    medication: str = ""

    def narrow(self, query: Query, lexicon: Lexicon) -> Query:
        """Put these filters in place of those that a question names."""
        patients = frozenset({self.patient}) if self.patient else query.patients
        drugs = query.drugs
        if self.medication:
            drugs = lexicon.drugs_in(self.medication) or frozenset({self.medication.lower()})
        return replace(
            query,
            patients=patients,
            drugs=drugs,
            since=self.since or query.since,
            until=self.until or query.until,
        )


NO_FILTERS = Filters()


@dataclass(frozen=True)
class Candidates:
    """Passages that the two searches found for one question, with raw scores.

    All arrays have the shape (n_candidates,).

    Attributes:
        query: The parsed question.
        filters: The filters that were applied, in words.
        n_searched: Number of passages that passed the filters.
        rows: Index of each candidate in ``Retriever.chunks``.
        semantic: Cosine similarity; NaN if FAISS did not return the passage.
        lexical: BM25 score; NaN if BM25 did not return the passage.
        names_drug: Whether the passage names a drug of the question. None if the
            question names no drug.
    """

    query: Query
    filters: tuple[str, ...]
    n_searched: int
    rows: Integers
    semantic: Floats
    lexical: Floats
    names_drug: Bools | None


@dataclass(frozen=True)
class Retrieval:
    """The passages for one question and how they were found.

    Source: "Auditability and testing".

    Attributes:
        passages: The passages, best first.
        components: Weighted ``SCORE_COMPONENTS`` of each passage, (n_passages, 4). A
            passage's score is their sum.
        audit: Properties of the search, without any text of a note.
    """

    passages: tuple[Chunk, ...]
    components: Floats
    audit: Mapping[str, object]

    def table(self) -> pd.DataFrame:
        """List the source and the score components of each passage."""
        rows = []
        for rank, chunk in enumerate(self.passages, start=1):
            rows.append((rank, chunk.patient, chunk.date.isoformat(), chunk.id))
        table = pd.DataFrame(rows, columns=["rank", "patient", "date", "passage"])
        table[list(SCORE_COMPONENTS)] = self.components
        table["score"] = self.components.sum(axis=1)
        return table


class Retriever:
    """Hybrid search over the passages of clinical notes.

    Attributes:
        chunks: Passages, in the order of the rows of both indexes.
        lexicon: Drugs, symptoms and patients that a question may name.
        encoder: Encoder of passages and questions for FAISS.
        reranker: Scores the best candidates again. None drops its share of the score.
    """

    def __init__(
        self,
        chunks: Sequence[Chunk],
        lexicon: Lexicon,
        encoder: Encoder,
        reranker: Reranker | None = None,
    ) -> None:
        """Index the words; the vectors are indexed when a search is not stored.

        Args:
            chunks: The passages, at least one.
            lexicon: Drugs, symptoms and patients that a question may name.
            encoder: Encoder of passages and questions.
            reranker: Scores the best candidates again, if given.

        Raises:
            ValueError: If there is no passage.
        """
        if not chunks:
            raise ValueError("There is no passage to index.")
        self.chunks = list(chunks)
        self.lexicon = lexicon
        self.encoder = encoder
        self.reranker = reranker

        texts = [chunk.text for chunk in chunks]
        self.index = TextIndex(texts, encoder, INDEX_NAME)
        self.bm25 = bm25_index(texts)

        self._patients = np.array([chunk.patient.lower() for chunk in chunks])
        self._days = np.array([chunk.date.toordinal() for chunk in chunks])
        self._names_drug = _drug_masks(chunks)
        # FAISS searches in this thread while BM25 searches in the caller's.
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="search")

    def retrieve(
        self,
        question: str,
        *,
        k: int = 10,
        config: RetrieverConfig = PAPER_CONFIG,
        filters: Filters = NO_FILTERS,
    ) -> Retrieval:
        """Find the best passages for a question.

        Args:
            question: The question in natural language.
            k: Number of passages to return.
            config: Parameters of the retriever.
            filters: Filters besides those that the question names.

        Returns:
            At most ``k`` passages, with the audit trail.
        """
        query = filters.narrow(parse(question, self.lexicon), self.lexicon)
        if filters.medication:
            config = replace(config, medication_filter=True)
        candidates = self.candidates(query, config)
        rerank_scores = score_candidates(self.reranker, candidates)
        order, components = rank_candidates(candidates, config, rerank_scores)
        best_rows = candidates.rows[order[:k]]
        passages = tuple(self.chunks[row] for row in best_rows)
        audit = self._audit(candidates, n_ranked=len(order), n_returned=len(passages))
        return Retrieval(passages, components[:k], audit)

    def candidates(self, query: Query, config: RetrieverConfig = PAPER_CONFIG) -> Candidates:
        """Filter the passages and search the rest by meaning and by words.

        Args:
            query: The parsed question.
            config: Parameters of the retriever.

        Returns:
            The passages that at least one of the two searches found.
        """
        mask, filters = self._filter(query, config)
        rows = np.flatnonzero(mask)
        semantic: dict[int, float] = {}
        lexical: dict[int, float] = {}
        if len(rows) > 0:
            pending = self._pool.submit(self._search_faiss, query, rows, config.candidates)
            lexical = self._search_bm25(query, mask, config.candidates)
            semantic = pending.result()
        found, (semantic_scores, lexical_scores) = align_scores(semantic, lexical)
        return Candidates(
            query=query,
            filters=filters,
            n_searched=len(rows),
            rows=found,
            semantic=semantic_scores,
            lexical=lexical_scores,
            names_drug=self._names_drug_of(query, found),
        )

    def _filter(self, query: Query, config: RetrieverConfig) -> tuple[Bools, tuple[str, ...]]:
        """Select the passages of the patients and the period that the question names.

        Returns:
            A mask over all passages, and the filters in words.
        """
        mask = np.ones(len(self.chunks), dtype=bool)
        filters: list[str] = []
        if not config.filters:
            return mask, ()
        if query.patients:
            mask &= np.isin(self._patients, [patient.lower() for patient in query.patients])
            filters.append(f"patient {' or '.join(sorted(query.patients))}")
        if query.since:
            mask &= self._days >= query.since.toordinal()
            filters.append(f"from {query.since}")
        if query.until:
            mask &= self._days <= query.until.toordinal()
            filters.append(f"to {query.until}")
        if config.medication_filter and query.drugs:
            mask &= self._names_any(query.drugs)
            filters.append(f"medication {' or '.join(sorted(query.drugs))}")
        return mask, tuple(filters)

    def _search_faiss(self, query: Query, rows: Integers, k: int) -> dict[int, float]:
        """Search by meaning; the query is expanded by the drugs' generic names.

        Returns:
            The cosine similarity of the ``k`` nearest passages among ``rows``, by row.
        """
        text = query.text
        for drug in sorted(query.drugs):
            if drug not in query.text.lower():
                text += f" ({drug})"
        within = None if len(rows) == len(self.chunks) else rows
        (found,) = self.index.search([text], min(k, len(rows)), within)
        return dict(zip(found.ids.tolist(), found.scores.tolist(), strict=True))

    def _search_bm25(self, query: Query, mask: Bools, k: int) -> dict[int, float]:
        """Search by words; the query is expanded by all names of its drugs.

        Returns:
            The BM25 score of the ``k`` best passages within ``mask``, by row. Passages
            that share no word with the query are left out.
        """
        words = [query.text]
        for drug in sorted(query.drugs):
            words.extend(self.lexicon.aliases.get(drug, ()))
        scores = bm25_scores(self.bm25, [" ".join(words)], len(mask))[0]
        scores = np.where(mask, scores, 0.0)
        best = np.argpartition(-scores, min(k, len(scores)) - 1)[:k]
        return {
            row: score
            for row, score in zip(best.tolist(), scores[best].tolist(), strict=True)
            if score > 0
        }

    def _names_drug_of(self, query: Query, rows: Integers) -> Bools | None:
        """Whether each passage names a drug of the question, if that names any."""
        if not query.drugs:
            return None
        return self._names_any(query.drugs)[rows]

    def _names_any(self, drugs: Iterable[str]) -> Bools:
        """Whether each passage of the store names one of these drugs."""
        names = np.zeros(len(self.chunks), dtype=bool)
        for drug in drugs:
            if drug in self._names_drug:
                names |= self._names_drug[drug]
            elif drug not in self.lexicon.aliases:
                word = re.compile(rf"(?<!\w){re.escape(drug)}(?!\w)", re.I)
                matches = [word.search(chunk.text) is not None for chunk in self.chunks]
                names |= np.array(matches)
        return names

    def _audit(self, found: Candidates, *, n_ranked: int, n_returned: int) -> dict[str, object]:
        query = found.query
        return {
            "intent": query.intent,
            "patients": ", ".join(sorted(query.patients)),
            "drugs": ", ".join(sorted(query.drugs)),
            "symptoms": ", ".join(sorted(query.symptoms)),
            "filters": "; ".join(found.filters),
            "passages": len(self.chunks),
            "after filters": found.n_searched,
            "found by FAISS": int(np.isfinite(found.semantic).sum()),
            "found by BM25": int(np.isfinite(found.lexical).sum()),
            "reranked": n_ranked if self.reranker else 0,
            "reranker": self.reranker.name if self.reranker else "",
            "returned": n_returned,
        }


def _drug_masks(chunks: Sequence[Chunk]) -> dict[str, Bools]:
    """For each drug, a mask of the passages that name it."""
    masks: dict[str, Bools] = {}
    for row, chunk in enumerate(chunks):
        for drug in chunk.drugs:
            if drug not in masks:
                masks[drug] = np.zeros(len(chunks), dtype=bool)
            masks[drug][row] = True
    return masks


class MeanPooledReranker:
    """Scores a passage by the cosine of mean-pooled encodings of question and passage.

    The paper also says that question and passage are processed jointly, and that the
    score is that of the [CLS] token. BioLinkBERT-base has no trained score for a pair, so
    joint scoring would need further training. With the encoder of FAISS, this reranker repeats
    the semantic score, except for the generic names that the search adds to the question.

    Attributes:
        name: How the reranker scores, for tables.
        model: The encoder's name.
    """

    def __init__(self, chunks: Sequence[Chunk], encoder: Encoder) -> None:
        """Take the passages; they are encoded when a score is not stored.

        Args:
            chunks: The passages, in the order of ``Retriever.chunks``.
            encoder: Encoder of passages and questions.
        """
        self.name = f"mean-pooled {encoder.name}"
        self.model = encoder.name
        self._index = TextIndex([chunk.text for chunk in chunks], encoder, INDEX_NAME)

    def score(self, question: str, rows: Integers) -> Floats:
        """Score passages against a question.

        Args:
            question: Text of the question.
            rows: Indexes of the passages, (n,).

        Returns:
            Cosine similarities within -1 and 1, (n,).
        """
        return self._index.cosines(question, rows)


def build_retriever(
    notes: Iterable[Note], lexicon: Lexicon, encoder: str, reranker: str = ""
) -> Retriever:
    """Build the paper's retriever over clinical notes.

    Args:
        notes: The notes, which are cut into passages.
        lexicon: Drugs, symptoms and patients that a question may name.
        encoder: Name of the encoder for FAISS.
        reranker: Name of the encoder for the reranker; by default that of FAISS.

    Returns:
        A retriever with a ``MeanPooledReranker``.
    """
    search_encoder = load_encoder(encoder)
    rerank_encoder = load_encoder(reranker or encoder)
    chunks = chunk_notes(notes, lexicon)
    mean_pooled = MeanPooledReranker(chunks, rerank_encoder)
    return Retriever(chunks, lexicon, search_encoder, mean_pooled)


def score_candidates(reranker: Reranker | None, candidates: Candidates) -> Floats:
    """Score all candidates with a reranker.

    Args:
        reranker: The reranker, or None.
        candidates: The candidates of one question.

    Returns:
        The raw scores, (n_candidates,); zeros without a reranker.
    """
    if reranker is None or len(candidates.rows) == 0:
        return np.zeros(len(candidates.rows))
    return reranker.score(candidates.query.text, candidates.rows)


def rank_candidates(
    candidates: Candidates, config: RetrieverConfig, rerank_scores: Floats
) -> tuple[Integers, Floats]:
    """Rank candidates by the weighted sum of their score components.

    The semantic and the lexical score are scaled to 0..1 over all candidates, the
    reranker's over the passages that it scores.

    Args:
        candidates: The candidates of one question.
        config: Weights, bonus and the number of passages to rerank.
        rerank_scores: The reranker's raw score of each candidate, (n_candidates,).

    Returns:
        Positions in ``candidates.rows``, best first, (n_ranked,), and the weighted
        ``SCORE_COMPONENTS`` of each, (n_ranked, 4).
    """
    fused = fusion_order(
        (candidates.semantic, candidates.lexical), (config.w_semantic, config.w_lexical)
    )
    chosen = fused[: config.reranked]
    components = np.column_stack(
        [
            config.w_rerank * min_max(rerank_scores[chosen]),
            config.w_semantic * min_max(candidates.semantic)[chosen],
            config.w_lexical * min_max(candidates.lexical)[chosen],
            _medication_bonus(candidates, config)[chosen],
        ]
    )
    score = components.sum(axis=1)
    order = np.lexsort((chosen, -score))  # by score; equal scores stay in the order of rows
    return chosen[order], components[order]


def _medication_bonus(candidates: Candidates, config: RetrieverConfig) -> Floats:
    """Boost or penalty of each candidate, (n_candidates,)."""
    if candidates.names_drug is None:
        return np.zeros(len(candidates.rows))
    return np.where(candidates.names_drug, config.boost, -config.penalty)
