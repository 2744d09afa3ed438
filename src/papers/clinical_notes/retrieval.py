"""Hybrid retrieval over clinical notes (clinical_notes.md, "Retriever system"): filters, FAISS and BM25, fusion, audit.

A question is parsed into an intent and fields; the fields filter the passages before anything is searched; FAISS and
BM25 find up to 200 passages each; their scores are brought to 0 to 1 and added; the best 100 are reranked; three
weighted scores and a bonus for the right medication decide the order. Each retrieval carries its audit trail.

What the paper leaves open is decided here: a filter that nothing passes returns nothing, never something else; the
fusion before the reranker uses the two weights that are known by then; a passage that one search did not return has
the score 0 from it.
"""

from __future__ import annotations

import importlib.util
import re
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Protocol

import bm25s
import numpy as np
import numpy.typing as npt
import pandas as pd

from helpers.llm import LLM
from helpers.settings import PublicError
from helpers.vectors import DEFAULT_ENCODER, Encoder, EncoderUnavailable, Index, Kind, cached_index, encoder
from papers.clinical_notes.gold import Note
from papers.clinical_notes.query import Lexicon, Query, parse

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
CHUNK_SIZE, CHUNK_OVERLAP = 1200, 200
PAPER_ENCODER, PAPER_RERANKER = "emilyalsentzer/Bio_ClinicalBERT", "michiyasunaga/BioLinkBERT-base"
INSTALL = ".venv/bin/python -m pip install -e '.[encoders]'"
"""The line, typed in the project's folder, that brings what models from a hub need."""


class RerankerUnavailable(PublicError, RuntimeError):
    """A reranker cannot be loaded here; the message says what it needs."""


# --------------------------------------------------------------------------------------------------------- passages


@dataclass(frozen=True)
class Chunk:
    """A passage: the characters `start` to `end` of a note, masked, and the drugs that a dictionary finds in it."""

    id: str
    note: str
    patient: str
    date: date
    start: int
    end: int
    text: str = field(repr=False)  # never in a log or a traceback by accident
    drugs: frozenset[str] = frozenset()

    def covers(self, start: int, end: int) -> bool:
        """Whether it holds all characters from `start` to `end` of its note."""
        return self.start <= start and end <= self.end


def chunk_spans(text: str, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP) -> list[tuple[int, int]]:
    """Where to cut a text into passages of at most `size` characters that keep paragraphs where they can.

    A passage ends at the last paragraph's end that fits, or else at a line's, or else between two words. Where it
    ends inside a paragraph, the next one takes up to `overlap` characters of it again; after a whole paragraph, it
    takes those last paragraphs again that fit into `overlap`. The spans cover the text, leave out nothing, and none
    lies within another.

    Raises:
        ValueError: the overlap is not below half of the size.
    """
    if not 0 <= overlap < size / 2:
        raise ValueError(f"The overlap must be at least 0 and below half of the size; found {overlap} of {size}.")
    spans, start, end = [], 0, 0
    while end < len(text):
        end = len(text) if len(text) - start <= size else _cut(text, start + size // 2, start + size)
        spans.append((start, end))
        start = _again(text, end - overlap, end) if overlap else end
    return spans


_BREAKS = tuple(re.compile(pattern) for pattern in (r"\n[ \t]*\n\s*", r"\n\s*", r"\s+"))
"""Ends of a paragraph, of a line, of a word."""


def _cut(text: str, low: int, high: int) -> int:
    """The last good place to end within low and high: a paragraph's end before a line's before a word's."""
    for pattern in _BREAKS:
        if found := [m.end() for m in pattern.finditer(text, low, high)]:
            return found[-1]
    return high


def _again(text: str, low: int, high: int) -> int:
    """The first good place to begin within low and high."""
    for pattern in _BREAKS:
        if match := pattern.search(text, low, high):
            return match.end()
    return low


_IDENTIFIER = re.compile(
    r"\(?\b\d{3}\)?[ .-]?\d{3}[ .-]\d{4}\b"  # telephone
    r"|\b\d{2,3}-\d{2}-\d{4}\b|\b\d{2,3}-\d{6,}\b|\b\d{6,}\b"  # social security, record and account numbers
    r"|[\w.+-]+@[\w-]+\.[\w.]+"  # electronic mail
)


def masked(text: str) -> str:
    """A text of the same length with `#` in place of telephone numbers, record numbers and addresses.

    A second fence behind the de-identification that notes should have had: dates and doses keep their digits. It knows
    no names of people.
    """
    return _IDENTIFIER.sub(lambda match: "#" * len(match[0]), text)


def chunk_notes(
    notes: Iterable[Note], lexicon: Lexicon, size: int = CHUNK_SIZE, overlap: int = CHUNK_OVERLAP
) -> list[Chunk]:
    """The passages of all notes, in their order, with identifiers masked: none reaches an index, a prompt or a page."""
    return [
        Chunk(
            f"{note.note_id}:{start}",
            note.note_id,
            note.patient_id,
            note.date,
            start,
            end,
            part := masked(note.text)[start:end],
            lexicon.drugs_in(part),
        )
        for note in notes
        for start, end in chunk_spans(note.text, size, overlap)
    ]


# --------------------------------------------------------------------------------------------------------- rerankers


def encoders(name: str, reranker: str = "") -> tuple[Encoder, Encoder]:
    """The encoder that searches and the one that reranks: the same if the second has no name. Ask for them first.

    Raises:
        EncoderUnavailable: what they need is not installed, or a model cannot be loaded.
    """
    from_hub = [wanted for wanted in dict.fromkeys((name, reranker or name)) if wanted != DEFAULT_ENCODER]
    if from_hub and importlib.util.find_spec("sentence_transformers") is None:
        raise EncoderUnavailable(
            f"{' and '.join(from_hub)}: sentence-transformers is needed and not installed. Type in the project's "
            f"folder: {INSTALL}. Or take {DEFAULT_ENCODER!r}, which needs nothing more."
        )
    searching = encoder(name)
    return searching, encoder(reranker) if reranker and reranker != name else searching


class Reranker(Protocol):
    """Scores passages against a question; higher is better, in any unit."""

    name: str

    def score(self, question: str, rows: Integers) -> Floats:
        """One score a row; a row is the place of a passage in the store."""


class MeanPooled:
    """The paper's reranker: cosine of mean-pooled encodings of question and passage.

    The paper says three things of it that do not go together: question and passage are processed jointly, the score is
    that of the [CLS] token, and it is a cosine of mean-pooled vectors. This is the last reading, the only one that
    BioLinkBERT-base allows as it is: it was never trained to score pairs. Question and passage do not meet in it. With
    the encoder that FAISS was searched with, its score is the semantic score once more, but for the generic names of
    drugs that the search adds to the question.
    """

    def __init__(self, chunks: Sequence[Chunk], of: Encoder, *, progress: bool = True) -> None:
        """Encode the passages, or load their vectors if they were encoded before."""
        self.name = f"mean-pooled {of.name}"
        self._encoder = of
        self._index = cached_index("clinical-notes", [c.text for c in chunks], of, progress=progress)

    def score(self, question: str, rows: Integers) -> Floats:
        """Cosines, within -1 and 1."""
        vector = self._encoder.encode([question], progress=False)
        scores, found = self._index.search(vector, len(rows), within=rows)
        of_row = dict(zip(found[0].tolist(), scores[0].tolist(), strict=True))
        return np.array([of_row[row] for row in rows.tolist()])


class BestSentence:
    """Cosine of the question with the passage's best sentence, in place of the passage as a whole.

    A passage mixes doses, history and plans, and its mean says a little of each. The sentences are encoded once, with
    the passages.
    """

    def __init__(self, chunks: Sequence[Chunk], of: Encoder, *, progress: bool = True) -> None:
        """Cut the passages into sentences and encode these."""
        self.name = f"best sentence, {of.name}"
        self._encoder = of
        sentences = [_sentences(chunk.text) for chunk in chunks]
        self._index = cached_index(
            "clinical-sentences", [s for of_chunk in sentences for s in of_chunk], of, progress=progress
        )
        ends = np.cumsum([len(of_chunk) for of_chunk in sentences])
        self._spans = list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))

    def score(self, question: str, rows: Integers) -> Floats:
        """Cosines, within -1 and 1."""
        spans = [self._spans[row] for row in rows.tolist()]
        within = np.concatenate([np.arange(a, b) for a, b in spans])
        vector = self._encoder.encode([question], progress=False)
        scores, found = self._index.search(vector, len(within), within=within)
        of_sentence = np.full(self._index.size, -1.0)
        of_sentence[found[0]] = scores[0]
        return np.array([of_sentence[a:b].max() for a, b in spans])


def _sentences(text: str) -> list[str]:
    """Sentences and lines of a text; the text itself if it has none."""
    parts = [part.strip() for part in re.split(r"(?<=[.?!])\s+|\n+", text)]
    return [part for part in parts if len(part) > 2] or [text]


class CrossEncoder:
    """A trained cross-encoder by name: question and passage go through one model together."""

    def __init__(self, chunks: Sequence[Chunk], model: str) -> None:
        """Load the model.

        Raises:
            RerankerUnavailable: sentence-transformers is not installed, or no hub gives the model.
        """
        try:
            import sentence_transformers  # noqa: PLC0415  # an extra: the default needs no torch
        except ImportError:
            raise RerankerUnavailable(
                f"The cross-encoder {model} needs sentence-transformers, where a model hub can be reached: {INSTALL}"
            ) from None
        try:
            self._model = sentence_transformers.CrossEncoder(model)
        except (OSError, ValueError) as error:
            raise RerankerUnavailable(
                f"The cross-encoder {model} could not be loaded: no hub that has it can be reached."
            ) from error
        self.name = f"cross-encoder {model}"
        self._texts = [chunk.text for chunk in chunks]

    def score(self, question: str, rows: Integers) -> Floats:
        """The model's relevance scores."""
        pairs = [(question, self._texts[row]) for row in rows.tolist()]
        return np.asarray(self._model.predict(pairs, show_progress_bar=False), dtype=np.float64)


class LlmYes:
    """The probability that a language model says YES, not NO, when asked whether a passage answers the question."""

    def __init__(self, chunks: Sequence[Chunk], model: LLM) -> None:
        """Take the model and the passages."""
        self.name = f"{model.endpoint.model}, P(YES)"
        self._model, self._texts = model, [chunk.text for chunk in chunks]

    def prompt(self, question: str, row: int) -> list[dict[str, str]]:
        """What the model is asked about one passage."""
        system = (
            "You judge whether a passage of a clinical note holds information that answers a question. "
            "Answer YES or NO."
        )
        return [
            {"role": "system", "content": system},
            {"role": "user", "content": f"Passage:\n{self._texts[row]}\n\nQuestion: {question}\nRelevant?"},
        ]

    def score(self, question: str, rows: Integers) -> Floats:
        """Probabilities of YES."""
        return self.score_many([question], [rows])[0]

    def score_many(self, questions: Sequence[str], rows: Sequence[Integers]) -> list[Floats]:
        """Probabilities of YES for many questions at once, as an engine likes it."""
        pairs = [(question, row) for question, of in zip(questions, rows, strict=True) for row in of.tolist()]
        choices = self._model.choose_many([self.prompt(*pair) for pair in pairs], ["YES", "NO"], label="P(YES)")
        p = np.exp([choice.logprobs["YES"] for choice in choices])
        return np.split(p, np.cumsum([len(of) for of in rows])[:-1])


# --------------------------------------------------------------------------------------------------------- retrieval


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
        return pd.DataFrame(
            [
                {
                    "rank": r.rank,
                    "patient": r.chunk.patient,
                    "date": r.chunk.date.isoformat(),
                    "passage": r.chunk.id,
                    "rerank": r.rerank,
                    "semantic": r.semantic,
                    "lexical": r.lexical,
                    "medication": r.medication,
                    "score": r.score,
                }
                for r in self.results
            ],
            columns=["rank", "patient", "date", "passage", "rerank", "semantic", "lexical", "medication", "score"],
        )

    def __str__(self) -> str:
        """Audit trail and table."""
        shown = self.table().to_string(index=False, float_format=lambda x: f"{x:.3f}") if self.results else "no result"
        return f"{self.audit}\n{shown}"


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
        self.bm25 = bm25s.BM25()
        self.bm25.index(_tokens(texts), show_progress=False)
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
        query = Query(
            question,
            query.intent,
            frozenset({patient}) if patient else query.patients,
            query.drugs,
            since or query.since,
            until or query.until,
            query.symptoms,
        )
        parsed = time.perf_counter() - start
        found = self.candidates(query, settings)
        chosen = best_fused(found, settings)
        began = time.perf_counter()
        reranks = self.rerank(found, chosen)
        reranked = time.perf_counter() - began
        components = weighted(found, chosen, reranks, settings)
        order = np.lexsort((chosen, -components.sum(axis=1)))[:k]
        results = tuple(
            Result(rank, self.chunks[int(found.rows[chosen[i]])], float(components[i].sum()), *components[i].tolist())
            for rank, i in enumerate(order, start=1)
        )
        counts = {
            "passages": len(self.chunks),
            "after filters": found.searched,
            "FAISS": int(np.isfinite(found.semantic).sum()),
            "BM25": int(np.isfinite(found.lexical).sum()),
            "either": len(found.rows),
            "reranked": len(chosen) if self.reranker else 0,
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
        either = np.array(sorted(by_meaning.keys() | by_word.keys()), dtype=np.int64)
        matches = None
        if query.drugs:
            named = [of for drug in query.drugs if (of := self._rows_of_drug.get(drug)) is not None]
            matches = np.any([of[either] for of in named], axis=0) if named else np.zeros(len(either), dtype=bool)
        return Candidates(
            query,
            filters,
            len(rows),
            either,
            np.array([by_meaning.get(row, np.nan) for row in either.tolist()]),
            np.array([by_word.get(row, np.nan) for row in either.tolist()]),
            matches,
            {"filter": filtered - start, "search": time.perf_counter() - filtered},
        )

    def rerank(self, found: Candidates, chosen: Integers) -> Floats:
        """The reranker's raw scores of the chosen candidates; zeros where there is no reranker."""
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
        words = _tokens([text])[0]
        if not words:  # a question of nothing but the commonest words
            return {}
        scores = np.where(keep, self.bm25.get_scores(words), 0.0)
        best = np.argpartition(-scores, min(k, len(scores)) - 1)[:k]
        return {row: score for row, score in zip(best.tolist(), scores[best].tolist(), strict=True) if score > 0}


def _tokens(texts: list[str]) -> list[list[str]]:
    """Lower-case words and numbers without the commonest English words."""
    words = r"(?u)\b\w+\b"  # a single digit or letter too: "2 tablets", "3 Hz"
    return bm25s.tokenize(texts, token_pattern=words, return_ids=False, show_progress=False)


def min_max(scores: Floats) -> Floats:
    """Scores brought to 0 to 1; NaN (not found) becomes 0, and equal scores become 1."""
    known = scores[np.isfinite(scores)]
    if not len(known):
        return np.zeros(len(scores))
    low, high = known.min(), known.max()
    scaled = (scores - low) / (high - low) if high > low else np.where(np.isfinite(scores), 1.0, np.nan)
    return np.nan_to_num(scaled, nan=0.0)


def best_fused(found: Candidates, settings: Settings) -> Integers:
    """Places in `found.rows` of the best candidates by the two first scores, at most `settings.reranked`."""
    fused = settings.w_semantic * min_max(found.semantic) + settings.w_lexical * min_max(found.lexical)
    return np.lexsort((np.arange(len(fused)), -fused))[: settings.reranked]


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
