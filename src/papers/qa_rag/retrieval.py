"""Two-track retrieval over guidance (qa_rag.md, sections 2.2 to 2.4): chunks, FAISS, BM25, the arms, rerankers.

An arm asks with one or more texts (the question, a hypothetical answer, ...), takes so many passages for each, and
keeps the best six by a reranker. The paper gives one vector to a chunk of 10,000 characters; its encoder and its
reranker read 512 tokens, the one used here 256. What lies behind that leaves no trace in such a vector. So each passage
is also cut into windows that fit, and can be found by its best one: the difference is what the cut costs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol, cast

import bm25s
import numpy as np
import numpy.typing as npt
import pypdf
from pypdf.errors import DependencyError, FileNotDecryptedError
from tqdm import tqdm

from helpers import texts
from helpers.llm import LLM
from helpers.settings import PublicError
from helpers.vectors import Encoder, Floats, Index, cached_index
from papers.clinical_notes.passages import chunk_spans
from papers.clinical_notes.rerankers import CrossEncoder
from papers.qa_rag.data import Corpus, Passage, Question

Rows = npt.NDArray[np.int64]
Scores = npt.NDArray[np.float64]
Search = Literal["start", "windows", "words"]

KINDS = (".txt", ".md", ".mmd", ".pdf")
"""Of files that are read as documents."""
CHUNK, OVERLAP = 10_000, 2_000
"""Characters of a chunk and of what two share (section 2.2)."""
WINDOW, WINDOW_OVERLAP = 700, 100
"""Characters of what is read at once: some 160 tokens, so that the encoder reads all of it and a prompt stays short."""
CANDIDATES, KEPT = 24, 6
"""Passages before and after reranking (section 3.3)."""
PAPER_RERANKER = "BAAI/bge-reranker-large"
FUSION = 60
"""The constant of reciprocal rank fusion (Cormack et al. 2009)."""


class FolderError(PublicError, ValueError):
    """A folder holds no document that can be read; the message says why and what to do."""


# ------------------------------------------------------------------------------------------------- from a raw folder


def read_folder(folder: Path, size: int = CHUNK, overlap: int = OVERLAP) -> tuple[Corpus, dict[str, str]]:
    """A folder's text and PDF files (.txt, .md, .mmd, .pdf), cut into chunks as in the paper (section 2.2).

    The paper reads scanned documents by OCR; here a PDF must hold text.

    Returns:
        The corpus, its documents named by their files; and of each file and folder that was left out, why.

    Raises:
        FolderError: there is no such folder, or no file in it holds text that can be read.
    """
    if not folder.is_dir():
        raise FolderError(f"There is no folder {folder}. Name one that holds {', '.join(KINDS)} files.")
    files, left_out = _documents(folder)
    passages: list[Passage] = []
    for path in tqdm(files, desc="read documents", unit="file", disable=len(files) < 10):
        name = _name(path, folder)
        try:
            text = _text(path)
        except texts.TextError as error:
            left_out[name] = str(error)
            continue
        spans = chunk_spans(text, size, overlap)
        passages += [Passage(f"{name}:{start}", name, text[start:end].strip()) for start, end in spans]
    if not passages:
        found = "".join(f"\n  {name}: {why}" for name, why in left_out.items()) or " there is none."
        raise FolderError(f"A document with text was needed ({', '.join(KINDS)}); in {folder}:{found}")
    return Corpus(tuple(passages)), left_out


def _documents(folder: Path) -> tuple[list[Path], dict[str, str]]:
    """What is named as a document in a folder and in those within it, and the folders that cannot be opened, with why.

    `Path.rglob` ends at some 1,000 folders within each other, and leaves out without a word what it may not open.
    """
    found, closed, folders = [], {}, [folder]
    for within in folders:  # grows
        try:
            for path in within.iterdir():
                if path.is_dir() and not path.is_symlink():
                    folders.append(path)
                if path.suffix.lower() in KINDS:
                    found.append(path)
        except OSError as error:
            closed[_name(within, folder)] = f"the folder cannot be opened ({error.strerror})."
    return sorted(found), closed


def _name(path: Path, folder: Path) -> str:
    # a name of an older system may not be UTF-8
    return os.fsencode(path.relative_to(folder)).decode(errors="replace")


def _text(path: Path) -> str:
    text = (_pdf(path) if path.suffix.lower() == ".pdf" else texts.read(path)).strip()
    if not text:
        raise texts.TextError("it holds no text. Run OCR on scanned pages.")
    return text


def _pdf(path: Path) -> str:
    texts.need_file(path)
    try:
        return "\n\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages)
    except (FileNotDecryptedError, DependencyError):
        raise texts.TextError("it is encrypted. Save it without a password.") from None
    except Exception as error:  # a damaged PDF ends the reader with whatever its bytes lead to
        raise texts.TextError(f"it cannot be read as PDF ({error}). Mend it, or save it anew.") from error


# ------------------------------------------------------------------------------------------------------------ search


class Searcher:
    """A corpus with its indexes.

    Attributes:
        corpus: the passages; a passage's row is its place there.
        encode: the encoder of both indexes.
    """

    def __init__(self, corpus: Corpus, encode: Encoder, *, progress: bool = True) -> None:
        """Take the corpus; indexes are built, or loaded, when they are first searched."""
        self.corpus, self.encode = corpus, encode
        self._texts = [passage.text for passage in corpus.passages]
        self._progress = progress

    @cached_property
    def starts(self) -> Index:
        """One vector a passage, of as much of its beginning as the encoder reads."""
        return cached_index("qa-rag", self._texts, self.encode, progress=self._progress)

    @cached_property
    def cut(self) -> int:
        """Passages that are longer than the encoder reads."""
        return self.encode.count_truncated(self._texts)

    @cached_property
    def windows(self) -> tuple[str, ...]:
        """Every window of every passage, in order."""
        return tuple(text[a:b] for text in self._texts for a, b in chunk_spans(text, WINDOW, WINDOW_OVERLAP))

    @cached_property
    def owner(self) -> Rows:
        """(windows,) row of each window's passage."""
        counts = [len(chunk_spans(text, WINDOW, WINDOW_OVERLAP)) for text in self._texts]
        return np.repeat(np.arange(len(self._texts)), counts)

    @cached_property
    def _window_index(self) -> Index:
        return cached_index("qa-rag-windows", self.windows, self.encode, progress=self._progress)

    @cached_property
    def _words(self) -> bm25s.BM25:
        index = bm25s.BM25()
        index.index(_tokens(self._texts), show_progress=False)
        return index

    def search(self, texts: Sequence[str], k: int, by: Search = "start") -> list[list[int]]:
        """Rows of the `k` best passages for each text, best first.

        Args:
            texts: what to ask with.
            k: how many; fewer where there are fewer, or where no word of the text stands in more (BM25).
            by: the vector of a passage's beginning, its best window, or its words (BM25).
        """
        if by == "start":
            vectors = self.encode.encode(texts, progress=False)
            return [rows.tolist() for rows in self.starts.search(vectors, k)[1]]
        scores = self.window_scores(texts) if by == "windows" else self._word_scores(texts)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        least = -1.0 if by == "windows" else 0.0
        return [[row for row in rows.tolist() if of[row] > least] for rows, of in zip(order, scores, strict=True)]

    def window_scores(self, texts: Sequence[str]) -> Scores:
        """Cosine of each text with the best window of each passage, (texts, passages)."""
        scores = self._cosines(texts)
        best = np.full((len(texts), len(self.corpus)), -1.0)
        for row in range(len(texts)):
            np.maximum.at(best[row], self.owner, scores[row])
        return best

    def shown(self, questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[tuple[str, str]]:
        """Each question with each excerpt of its passages, one after another."""
        return [
            (question, excerpt)
            for question, chosen in zip(questions, rows, strict=True)
            for excerpt in self.excerpts(question, chosen)
        ]

    def excerpts(self, text: str, rows: Sequence[int]) -> list[str]:
        """The window of each passage that is nearest to the text: what a model with a short context is shown of it."""
        cosines = self._cosines([text])[0]
        shown = []
        for row in rows:
            windows = np.flatnonzero(self.owner == row)
            shown.append(self.windows[windows[np.argmax(cosines[windows])]])
        return shown

    def _cosines(self, texts: Sequence[str]) -> Floats:
        """(texts, windows)."""
        found, ids = self._window_index.search(self.encode.encode(texts, progress=False), len(self.windows))
        cosines = np.empty_like(found)
        np.put_along_axis(cosines, ids, found, axis=1)
        return cosines

    def _word_scores(self, texts: Sequence[str]) -> Scores:
        asked = _tokens(list(texts))
        nothing = np.zeros(len(self.corpus))
        return np.array([self._words.get_scores(words) if words else nothing for words in asked], dtype=np.float64)


def _tokens(texts: Sequence[str]) -> list[list[str]]:
    words = r"(?u)\b\w+\b"
    return cast(
        list[list[str]], bm25s.tokenize(list(texts), token_pattern=words, return_ids=False, show_progress=False)
    )


# -------------------------------------------------------------------------------------------------------------- arms


@dataclass(frozen=True)
class Arm:
    """A way of finding six passages.

    Attributes:
        label: as a reader sees it.
        tracks: (kind of query, passages that each of its texts brings).
        by: the search.
        reranked: whether the reranker orders what was found; otherwise its order stays (that of the search, or of
            reciprocal rank fusion where there are several texts).
        row: the paper's row, as in the ids of its printed numbers; empty for what the paper does not have.
    """

    label: str
    tracks: tuple[tuple[str, int], ...]
    by: Search = "start"
    reranked: bool = True
    row: str = ""


ARMS: dict[str, Arm] = {
    "qa_rag": Arm("question (12) + hypothetical answer (12): QA-RAG", (("question", 12), ("tuned", 12)), row="qa_rag"),
    "multiquery": Arm(
        "multiquery: question (6) + three more (6 each)", (("question", 6), ("multi", 6)), row="multiquery"
    ),
    "hyde": Arm("HyDE, a larger model's document (24)", (("hyde", 24),), row="hyde"),
    "question": Arm("only question (24)", (("question", 24),), row="question"),
    "tuned": Arm("only hypothetical answer, fine-tuned (24)", (("tuned", 24),), row="hypothetical"),
    "base": Arm("only hypothetical answer, not fine-tuned (24)", (("base", 24),)),
    "bare": Arm("only question, without the guideline that it names (24)", (("bare", 24),)),
    "bare_tuned": Arm("the same (12) + hypothetical answer (12)", (("bare", 12), ("tuned", 12))),
    "bm25": Arm("BM25, question", (("question", 24),), by="words", reranked=False),
    "bm25_bare": Arm("BM25, question without the guideline that it names", (("bare", 24),), by="words", reranked=False),
    "fused": Arm(
        "reciprocal rank fusion of question and hypothetical answer", (("question", 24), ("tuned", 24)), reranked=False
    ),
    "windows": Arm("only question, by the best window of a passage", (("question", 24),), by="windows", reranked=False),
    # fused, for the order by the question's best window would be that of `windows`
    "qa_rag_windows": Arm(
        "QA-RAG, by the best window of a passage, reciprocal rank fusion",
        (("question", 12), ("tuned", 12)),
        by="windows",
        reranked=False,
    ),
    "reference": Arm("the FDA's own answer as the query (24)", (("reference", 24),)),
}
"""The paper's five rows (Table 3), what they leave open, and plain baselines."""

ABLATIONS: dict[str, Arm] = {
    "question_12": Arm("only question (12)", (("question", 12),), row="question"),
    "tuned_12": Arm("only hypothetical answer (12)", (("tuned", 12),), row="hypothetical"),
}
"""Rows of Table 5."""

Queries = Mapping[str, Mapping[str, Sequence[str]]]
"""Kind of query -> question id -> texts. A kind may know fewer questions than another."""


def plain_queries(questions: Iterable[Question]) -> dict[str, dict[str, list[str]]]:
    """The queries that need no model: the question, the question without the guideline's title, the FDA's answer."""
    questions = list(questions)
    return {
        "question": {q.id: [q.text] for q in questions},
        "bare": {q.id: [q.body] for q in questions},
        "reference": {q.id: [q.answer] for q in questions},
    }


def fuse(rankings: Iterable[Sequence[int]]) -> list[int]:
    """Reciprocal rank fusion: every row of any ranking once, best first."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for place, row in enumerate(ranking, start=1):
            scores[row] = scores.get(row, 0.0) + 1 / (FUSION + place)
    return sorted(scores, key=lambda row: (-scores[row], row))


def candidates(
    searcher: Searcher, arm: Arm, queries: Queries, ids: Sequence[str], by: Search | None = None
) -> dict[str, list[int]]:
    """What an arm finds for each question that all of its queries know, before reranking: rows, best first.

    A passage that two queries bring counts once, so there may be fewer than 24.

    Args:
        by: searches otherwise than the arm does.
    """
    known = [id for id in ids if all(id in queries.get(kind, {}) for kind, _ in arm.tracks)]
    found: dict[str, list[list[int]]] = {id: [] for id in known}
    for kind, k in arm.tracks:
        asked = [(id, text) for id in known for text in queries[kind][id]]
        if asked:
            for (id, _), rows in zip(asked, searcher.search([text for _, text in asked], k, by or arm.by), strict=True):
                found[id].append(rows)
    return {id: fuse(rankings) for id, rankings in found.items()}


# --------------------------------------------------------------------------------------------------------- rerankers


class Reranker(Protocol):
    """Scores passages against a question; higher is better, in any unit."""

    name: str

    def score_many(self, questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Scores]:
        """One score for each row of each question."""


class BestWindow:
    """Cosine of the question with the passage's best window: the encoder, reading all of the passage."""

    def __init__(self, searcher: Searcher) -> None:
        """Take the searcher whose windows are compared."""
        self.name = f"best window, {searcher.encode.name}"
        self._searcher = searcher

    def score_many(self, questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Scores]:
        """Cosines."""
        scores = self._searcher.window_scores(questions)
        return [of[np.asarray(chosen, dtype=np.int64)] for of, chosen in zip(scores, rows, strict=True)]


class Crossed:
    """A trained cross-encoder by name, the paper's bge-reranker-large for one. It cuts what it cannot read."""

    def __init__(self, searcher: Searcher, model: str) -> None:
        """Load the model.

        Raises:
            papers.clinical_notes.rerankers.RerankerUnavailable: sentence-transformers is not installed, or no hub
                gives the model.
        """
        # it reads the passages' texts and nothing else of them
        self._model = CrossEncoder(cast(Any, searcher.corpus.passages), model)
        self.name = self._model.name

    def score_many(self, questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Scores]:
        """The model's relevance scores."""
        asked = list(zip(questions, rows, strict=True))
        bar = tqdm(asked, desc=f"rerank by {self.name}", unit="question")
        return [self._model.score(question, np.asarray(chosen, dtype=np.int64)) for question, chosen in bar]


SYSTEM = "You judge whether an excerpt of regulatory guidance helps to answer a question."


class ProbabilityOfYes:
    """The probability that a language model says YES when asked whether an excerpt answers the question."""

    def __init__(self, searcher: Searcher, model: LLM) -> None:
        """Take the model and the searcher that picks the excerpts."""
        self.name = f"P(YES), {model.endpoint.model}"
        self._searcher, self._model = searcher, model

    def prompt(self, question: str, excerpt: str) -> list[dict[str, str]]:
        """What the model is asked."""
        asked = "Does the excerpt help to answer the question? Answer YES or NO."
        return _about(question, excerpt, asked)

    def score_many(self, questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Scores]:
        """Probabilities."""
        prompts = [self.prompt(question, excerpt) for question, excerpt in self._searcher.shown(questions, rows)]
        choices = self._model.choose_many(prompts, ["YES", "NO"], label="rerank by P(YES)")
        return _by_question([float(np.exp(choice.logprobs["YES"])) for choice in choices], rows)


class ScoringAgent:
    """The paper's first idea (section 2.4): a language model writes a score of 0 to 10 for each passage.

    Attributes:
        unread: answers of the last call without such a number; they score -1, below every other.
        asked: passages of the last call.
    """

    def __init__(self, searcher: Searcher, model: LLM) -> None:
        """Take the model and the searcher that picks the excerpts."""
        self.name = f"scoring agent, {model.endpoint.model}"
        self._searcher, self._model = searcher, model
        self.unread = self.asked = 0

    def prompt(self, question: str, excerpt: str) -> list[dict[str, str]]:
        """What the model is asked."""
        asked = "How relevant is the excerpt to the question? Answer with a number from 0 (not at all) to 10 (fully)."
        return _about(question, excerpt, asked)

    def score_many(self, questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Scores]:
        """Scores of 0 to 10; -1 where none could be read."""
        prompts = [self.prompt(question, excerpt) for question, excerpt in self._searcher.shown(questions, rows)]
        replies = self._model.chat_many(prompts, max_tokens=6, label="rerank by scoring agent")
        scores = [read_score(reply.text) for reply in replies]
        self.asked, self.unread = len(scores), scores.count(None)
        return _by_question([-1.0 if score is None else score for score in scores], rows)


def read_score(text: str) -> float | None:
    """The first number in an answer if it lies within 0 and 10, as in `8`, `8/10`, `Score: 7.5`; else None."""
    number = re.search(r"\d+(?:\.\d+)?", text)
    value = float(number[0]) if number else -1.0
    return value if 0 <= value <= 10 else None


def _about(question: str, excerpt: str, asked: str) -> list[dict[str, str]]:
    return [
        {"role": "system", "content": SYSTEM},
        {"role": "user", "content": f"Excerpt:\n{excerpt.strip()}\n\nQuestion: {question}\n\n{asked}"},
    ]


def _by_question(scores: Sequence[float], rows: Sequence[Sequence[int]]) -> list[Scores]:
    return np.split(np.array(scores, dtype=np.float64), np.cumsum([len(of) for of in rows])[:-1])


def rerank(
    found: Mapping[str, Sequence[int]], reranker: Reranker | None, texts: Mapping[str, str]
) -> dict[str, list[int]]:
    """What was found in the order of a reranker's scores against the question as released; equals stay in order."""
    if reranker is None or not found:
        return {id: list(rows) for id, rows in found.items()}
    scores = reranker.score_many([texts[id] for id in found], list(found.values()))
    return {
        id: [rows[i] for i in np.argsort(-of, kind="stable")]
        for (id, rows), of in zip(found.items(), scores, strict=True)
    }


def rank(
    searcher: Searcher,
    arm: Arm,
    queries: Queries,
    questions: Sequence[Question],
    reranker: Reranker | None,
    by: Search | None = None,
) -> dict[str, list[int]]:
    """An arm from its queries to its ranking: question id -> rows, best first; the first `KEPT` are its contexts."""
    found = candidates(searcher, arm, queries, [question.id for question in questions], by)
    return rerank(found, reranker if arm.reranked else None, {question.id: question.text for question in questions})
