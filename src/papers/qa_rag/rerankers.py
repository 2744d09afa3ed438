"""The rerankers of Table 2 (QA-RAG, section 2.4), each an order of the same candidates."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np
from tqdm import tqdm

from helpers.completions import Choice, Reply
from helpers.llm import LLM
from helpers.rag.prompts import chat
from helpers.rag.rerank import CrossEncoder, RerankerUnavailable
from helpers.results.answers import Answer
from papers.qa_rag.data import Question
from papers.qa_rag.retrieval import Gold, Relevance, Reranker, best_window, rerank, rows_of
from papers.qa_rag.search import Searcher

PAPER_RERANKER = "BAAI/bge-reranker-large"
SYSTEM = "You judge whether an excerpt of regulatory guidance helps to answer a question."
LABELS = {
    "as_found": "As found (fused ranks)",
    "best_window": "Best window, by the encoder",
    "p_yes": "P(YES) of the language model",
    "scoring_agent": "Scoring agent",
    "bge_reranker": f"Cross-encoder {PAPER_RERANKER}",
    "cross_encoder": "Another cross-encoder",
}


def cross_encoder(searcher: Searcher, model: str) -> Reranker:
    """A trained cross-encoder by name.

    Raises:
        RerankerUnavailable: sentence-transformers is not installed, or no hub gives the model.
    """
    trained = CrossEncoder([passage.text for passage in searcher.corpus.passages], model)

    def score(questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Relevance]:
        bar = tqdm(list(zip(questions, rows, strict=True)), desc=f"rerank by {trained.name}", unit="question")
        return [Relevance(trained.score(question, np.asarray(chosen, dtype=np.int64))) for question, chosen in bar]

    return score


def chosen(name: str, searcher: Searcher) -> tuple[tuple[str, Reranker], dict[str, str]]:
    """The reranker of the arms, by its place in `LABELS`; and those that did not run, with the reason.

    Args:
        name: a cross-encoder of a hub, the paper's is `PAPER_RERANKER`; empty for the encoder on windows.
        searcher: the corpus.
    """
    windows = ("best_window", best_window(searcher))
    if not name:
        return windows, {PAPER_RERANKER: "no package carries it; name it as `reranker` where a hub can be reached"}
    try:
        return ("bge_reranker" if name == PAPER_RERANKER else "cross_encoder", cross_encoder(searcher, name)), {}
    except RerankerUnavailable as error:
        return windows, {name: str(error)}


def yes_prompt(question: str, excerpt: str) -> list[dict[str, str]]:
    """What the model is asked about one excerpt, for the probability of its YES."""
    return _about(question, excerpt, "Does the excerpt help to answer the question? Answer YES or NO.")


def agent_prompt(question: str, excerpt: str) -> list[dict[str, str]]:
    """What the scoring agent is asked about one excerpt."""
    asked = "How relevant is the excerpt to the question? Answer with a number from 0 (not at all) to 10 (fully)."
    return _about(question, excerpt, asked)


def _about(question: str, excerpt: str, asked: str) -> list[dict[str, str]]:
    return chat(SYSTEM, f"Excerpt:\n{excerpt.strip()}\n\nQuestion: {question}\n\n{asked}")


def probability_of_yes(searcher: Searcher, model: LLM) -> Reranker:
    """The probability that a language model says YES when asked whether an excerpt answers the question."""

    def score(questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Relevance]:
        prompts = [yes_prompt(*shown) for shown in searcher.shown(questions, rows)]
        choices = model.choose_many(prompts, ["YES", "NO"], label="rerank by P(YES)")
        return _by_question([float(np.exp(choice.logprobs["YES"])) for choice in choices], choices, rows)

    return score


def scoring_agent(searcher: Searcher, model: LLM) -> Reranker:
    """The paper's first idea (section 2.4): a language model writes a score of 0 to 10 for each passage."""

    def score(questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Relevance]:
        prompts = [agent_prompt(*shown) for shown in searcher.shown(questions, rows)]
        replies = model.chat_many(prompts, max_tokens=6, label="rerank by scoring agent")
        return _by_question([read_score(reply.text) for reply in replies], replies, rows)

    return score


def read_score(text: str) -> float:
    """The first number in an answer if it lies within 0 and 10, as in `8`, `8/10`, `Score: 7.5`; else NaN."""
    number = re.search(r"\d+(?:\.\d+)?", text)
    value = float(number[0]) if number else np.nan
    return value if 0 <= value <= 10 else np.nan


def _by_question(
    scores: Sequence[float], replies: Sequence[Reply | Choice], rows: Sequence[Sequence[int]]
) -> list[Relevance]:
    ends = np.cumsum([0, *map(len, rows)]).tolist()
    return [
        Relevance(np.array(scores[a:b], dtype=np.float64), tuple(reply.key for reply in replies[a:b]))
        for a, b in pairwise(ends)
    ]


def ordering(
    searcher: Searcher, found: Mapping[str, Sequence[int]], reranker: Reranker | None, gold: Gold
) -> Callable[[Sequence[Question]], list[Answer]]:
    """An arm: the same candidates in one reranker's order, or as found."""

    def ask(questions: Sequence[Question]) -> list[Answer]:
        mine = {q.id: found[q.id] for q in questions}
        ranked, told = rerank(mine, reranker, {q.id: q.text for q in questions})
        passages = {id: [searcher.corpus.passages[row] for row in rows] for id, rows in ranked.items()}
        return rows_of(passages, gold, told=told, task="rerank")

    return ask
