"""The rerankers of Table 2 (QA-RAG, section 2.4), each an order of the same candidates."""

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import TypeAlias

import numpy as np
from tqdm import tqdm

from evaluation.answers import Answer
from helpers.completions import Message
from helpers.llm import LLM
from helpers.thoughts import without_thought
from helpers.vectors import EncoderUnavailable
from papers.qa_rag.data import Question
from papers.qa_rag.retrieval import Gold, Relevance, Reranker, best_window, rerank, rows_of
from papers.qa_rag.search import Searcher
from rag.prompts import arm_of, chat_messages
from rag.retrieval import CrossEncoder

PAPER_RERANKER = "BAAI/bge-reranker-large"
SYSTEM = "You judge whether an excerpt of regulatory guidance helps to answer a question."
LABELS = {
    "as_found": "As found (fused ranks)",
    "best_window": "Best window, by the encoder",
    "scoring_agent": "Scoring agent",
    "bge_reranker": f"Cross-encoder {PAPER_RERANKER}",
    "cross_encoder": "Another cross-encoder",
}
Prompt: TypeAlias = Callable[[str, str, str], Sequence[Message]]
"""What a scoring agent is asked, of a question, an excerpt and the title of its document."""


def _cross_encoder(searcher: Searcher, model: str) -> Reranker:
    trained = CrossEncoder([passage.text for passage in searcher.corpus.passages], model)

    def score(questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Relevance]:
        bar = tqdm(
            list(zip(questions, rows, strict=True)),
            desc=f"rerank by {trained.name}",
            unit="question",
        )
        return [
            Relevance(trained.score(question, np.asarray(chosen, dtype=np.int64)))
            for question, chosen in bar
        ]

    return score


def chosen(name: str, searcher: Searcher) -> tuple[tuple[str, Reranker], dict[str, str]]:
    """The reranker of the arms, by its place in `LABELS`; and those that did not run, with the reason.

    `name` is a cross-encoder of a hub; empty for the encoder on windows.
    """
    windows = ("best_window", best_window(searcher))
    if not name:
        return windows, {
            PAPER_RERANKER: "no package carries it; name it as `reranker` where a hub can be reached"
        }
    try:
        return (
            "bge_reranker" if name == PAPER_RERANKER else "cross_encoder",
            _cross_encoder(searcher, name),
        ), {}
    except EncoderUnavailable as error:
        return windows, {name: str(error)}


def agent_prompt(question: str, excerpt: str, _title: str = "") -> list[dict[str, str]]:
    """What the scoring agent is asked about one excerpt."""
    asked = "How relevant is the excerpt to the question? Answer with a number from 0 (not at all) to 10 (fully)."
    return chat_messages(SYSTEM, f"Excerpt:\n{excerpt.strip()}\n\nQuestion: {question}\n\n{asked}")


def scoring_agent(
    searcher: Searcher, model: LLM, prompt: Prompt = agent_prompt, told: str = ""
) -> Reranker:
    """The paper's first idea (section 2.4): a language model writes a score of 0 to 10 for each passage.

    It sees the window of each passage that is nearest to the question.
    """

    def score(questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Relevance]:
        prompts = [
            prompt(question, excerpt, searcher.corpus.passages[row].document)
            for question, chosen in zip(questions, rows, strict=True)
            for row, excerpt in zip(chosen, searcher.excerpts(question, chosen), strict=True)
        ]
        replies = model.chat_many(prompts, max_tokens=6, label=f"rerank by scoring agent{told}")
        scores = np.array([read_score(reply.text) for reply in replies])
        ends = np.cumsum([0, *map(len, rows)]).tolist()
        return [
            Relevance(scores[a:b], tuple(reply.key for reply in replies[a:b]))
            for a, b in pairwise(ends)
        ]

    return score


def read_score(text: str) -> float:
    """The first number in an answer if it lies within 0 and 10, as in `8`, `8/10`, `Score: 7.5`; else NaN."""
    text = without_thought(text)
    number = re.search(r"\d+(?:\.\d+)?", text)
    value = float(number[0]) if number else np.nan
    return value if 0 <= value <= 10 else np.nan


@arm_of
def ordering(
    questions: Sequence[Question],
    searcher: Searcher,
    found: Mapping[str, Sequence[int]],
    reranker: Reranker | None,
    gold: Gold,
) -> list[Answer]:
    """An arm: the same candidates in one reranker's order, or as found."""
    ranked, told = rerank(
        {q.id: found[q.id] for q in questions}, reranker, {q.id: q.text for q in questions}
    )
    passages = {id: [searcher.corpus.passages[row] for row in rows] for id, rows in ranked.items()}
    return rows_of(passages, gold, told=told, task="rerank")
