"""The rerankers of Table 2 (QA-RAG, section 2.4), each an order of the same candidates."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from tqdm import tqdm

from evaluation.answers import Answer
from helpers.llm import LLM
from helpers.vectors import EncoderUnavailable
from papers.qa_rag.data import Question
from papers.qa_rag.retrieval import BestWindow, Gold, Relevance, Reranker, make_rows, rerank
from papers.qa_rag.search import Searcher
from rag.prompts import Message, chat_messages
from rag.replies import answer_text
from rag.retrieval import CrossEncoder

PAPER_RERANKER = "BAAI/bge-reranker-large"
SYSTEM = "You judge whether an excerpt of regulatory guidance helps to answer a question."
LABELS = {
    "as_found": "As found (fused ranks)",
    "best_window": "Best window (encoder)",
    "scoring_agent": "Scoring agent",
    "bge_reranker": f"Cross-encoder {PAPER_RERANKER}",
    "cross_encoder": "Another cross-encoder",
}
Prompt: TypeAlias = Callable[[str, str, str], Sequence[Message]]
"""What a scoring agent is asked, of a question, an excerpt and the title of its document."""

MAX_SCORE = 10.0
"""Highest score of the scoring agent."""


@dataclass(frozen=True)
class TrainedReranker:
    """A cross-encoder that reads the question and a passage together."""

    model: CrossEncoder

    def __call__(self, questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Relevance]:
        """Score the rows of each question."""
        pairs = list(zip(questions, rows, strict=True))
        progress = tqdm(pairs, desc=f"rerank by {self.model.name}", unit="question")
        relevance = []
        for question, rows_of_question in progress:
            scores = self.model.score(question, np.asarray(rows_of_question, dtype=np.int64))
            relevance.append(Relevance(scores))
        return relevance


def choose_reranker(name: str, searcher: Searcher) -> tuple[tuple[str, Reranker], dict[str, str]]:
    """Choose the reranker of the arms.

    Args:
        name: A cross-encoder of a hub; empty for the encoder on windows.
        searcher: The corpus.

    Returns:
        The key of ``LABELS`` with the reranker, and those that did not run with the reason.
    """
    windows = ("best_window", BestWindow(searcher))
    if not name:
        why = (
            "No package contains this model. It runs if a model hub can be reached and the "
            'parameter "reranker" names it'
        )
        return windows, {PAPER_RERANKER: why}
    texts = [passage.text for passage in searcher.corpus.passages]
    try:
        trained = TrainedReranker(CrossEncoder(texts, name))
    except EncoderUnavailable as error:
        return windows, {name: str(error)}
    key = "bge_reranker" if name == PAPER_RERANKER else "cross_encoder"
    return (key, trained), {}


def agent_prompt(question: str, excerpt: str, _title: str = "") -> list[Message]:
    """Build the prompt of the scoring agent about one excerpt."""
    instruction = (
        "How relevant is the excerpt to the question? Answer with a number from 0 (not at all) to "
        "10 (fully)."
    )
    return chat_messages(
        SYSTEM, f"Excerpt:\n{excerpt.strip()}\n\nQuestion: {question}\n\n{instruction}"
    )


@dataclass(frozen=True)
class ScoringAgent:
    """The paper's first idea (section 2.4): a language model writes a score of 0 to 10.

    It sees the window of each passage that is nearest to the question.

    Attributes:
        searcher: The corpus.
        model: The language model.
        prompt: What it is asked.
        note: Ends the name of this step in progress bars and in the record of the run.
    """

    searcher: Searcher
    model: LLM
    prompt: Prompt = agent_prompt
    note: str = ""

    def __call__(self, questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Relevance]:
        """Score the rows of each question."""
        prompts: list[Sequence[Message]] = []
        for question, rows_of_question in zip(questions, rows, strict=True):
            prompts += self._prompts(question, rows_of_question)
        label = f"rerank by scoring agent{self.note}"
        replies = self.model.chat_many(prompts, max_tokens=6, label=label)
        scores = np.array([read_score(reply.text) for reply in replies])
        ends = np.cumsum([0, *map(len, rows)]).tolist()
        relevance = []
        for start, end in pairwise(ends):
            requests = tuple(reply.key for reply in replies[start:end])
            relevance.append(Relevance(scores[start:end], requests))
        return relevance

    def _prompts(self, question: str, rows: Sequence[int]) -> list[Sequence[Message]]:
        passages = self.searcher.corpus.passages
        excerpts = self.searcher.excerpts(question, rows)
        return [
            self.prompt(question, excerpt, passages[row].document)
            for row, excerpt in zip(rows, excerpts, strict=True)
        ]


_SCALE = re.compile(r"\(?\b(?:on a scale )?(?:of |from )?0 ?(?:to|-|–) ?10\b\)?", re.IGNORECASE)  # noqa: RUF001
"""The range of scores, where a reply repeats it before the score."""


def read_score(text: str) -> float:
    """Read the first number of a reply, as in ``8``, ``8/10``, ``Score: 7.5``.

    Returns:
        The number, or NaN if there is none or it is not within 0 and 10.
    """
    answer = _SCALE.sub("", answer_text(text))
    number = re.search(r"(?<![\w.])-?\d+(?:[.,]\d+)?", answer)
    value = float(number[0].replace(",", ".")) if number else np.nan
    return value if 0 <= value <= MAX_SCORE else np.nan


@dataclass(frozen=True)
class Reordering:
    """An arm: the same candidates in one reranker's order, or as found.

    Attributes:
        searcher: The corpus.
        found: Rows of the candidates, by question id.
        reranker: Orders them; None leaves them as found.
        gold: What should be found.
    """

    searcher: Searcher
    found: Mapping[str, Sequence[int]]
    reranker: Reranker | None
    gold: Gold

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Order the candidates of each question, and measure the first of them."""
        found = {question.id: self.found[question.id] for question in questions}
        texts = {question.id: question.text for question in questions}
        ranked, relevance = rerank(found, self.reranker, texts)
        passages = self.searcher.corpus.passages
        rankings = {}
        for question_id, rows in ranked.items():
            rankings[question_id] = [passages[row] for row in rows]
        return make_rows(rankings, self.gold, relevance=relevance, task="rerank")
