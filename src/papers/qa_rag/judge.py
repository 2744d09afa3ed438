"""RAGAS' context precision and context recall with the served model as judge, and how good that judge is.

Definitions (Es et al. 2023; qa_rag.md, section 3.1): precision is the mean, over the contexts that the judge calls
useful, of the share of useful ones down to that place; recall is the share of the reference answer's statements that
the judge finds in the contexts. RAGAS shows its judge whole contexts; six of 8,000 characters do not fit a small
model's window, so the judge here reads the window of a context that is nearest to what it is asked about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from helpers.llm import LLM
from papers.qa_rag import data
from papers.qa_rag.data import Question
from papers.qa_rag.retrieval import Searcher

SYSTEM = "You check whether an excerpt of regulatory guidance supports an answer."
STATEMENTS = 4
"""Statements of an answer that are looked for; the first ones, for an answer may have dozens."""
ANSWER_CHARACTERS = 400
"""Of the reference answer that the judge is shown beside an excerpt."""


def context_precision(useful: Sequence[bool]) -> float:
    """RAGAS' context precision of ranked contexts; 0 if none is useful."""
    found = np.asarray(useful, dtype=bool)
    if not found.any():
        return 0.0
    shares = np.cumsum(found) / np.arange(1, len(found) + 1)
    return float(shares[found].mean())


def statements(answer: str, most: int = STATEMENTS) -> list[str]:
    """The first sentences of an answer with three words or more; the whole answer if it has none such."""
    parts = [part.strip() for part in re.split(r"(?<=[.?!;])\s+|\n+", answer)]
    return [part for part in parts if len(part.split()) >= 3][:most] or [answer.strip()]


@dataclass(frozen=True)
class Verdicts:
    """What the judge said of one question's contexts.

    Attributes:
        useful: P(YES) of each context, in their order.
        supported: P(YES) of each statement, by the context whose window is nearest to it.
    """

    useful: tuple[float, ...]
    supported: tuple[float, ...]

    @property
    def precision(self) -> float:
        """RAGAS' context precision."""
        return context_precision([p >= 0.5 for p in self.useful])

    @property
    def recall(self) -> float:
        """RAGAS' context recall."""
        return float(np.mean([p >= 0.5 for p in self.supported]))


class Judge:
    """A language model that judges contexts."""

    def __init__(self, searcher: Searcher, model: LLM) -> None:
        """Take the model and the searcher that picks what it reads."""
        self.name = model.endpoint.model
        self._searcher, self._model = searcher, model

    def useful_prompt(self, question: Question, excerpt: str) -> list[dict[str, str]]:
        """Is this context useful for the answer?"""
        answer = question.answer[:ANSWER_CHARACTERS]
        return _asked(
            f"Question: {question.body}\n\nAnswer: {answer}\n\nExcerpt:\n{excerpt.strip()}\n\n"
            "Was the excerpt useful to arrive at this answer? Answer YES or NO."
        )

    def supported_prompt(self, statement: str, excerpt: str) -> list[dict[str, str]]:
        """Does this statement stand in the context?"""
        return _asked(
            f"Excerpt:\n{excerpt.strip()}\n\nStatement: {statement}\n\n"
            "Can the statement be attributed to the excerpt? Answer YES or NO."
        )

    def judge(self, questions: Sequence[Question], contexts: Mapping[str, Sequence[int]]) -> dict[str, Verdicts]:
        """Both verdicts for each question on its contexts (rows of the corpus, best first)."""
        useful, supported = [], []
        for question in questions:
            rows = contexts[question.id]
            useful += [
                self.useful_prompt(question, excerpt) for excerpt in self._searcher.excerpts(question.answer, rows)
            ]
            supported += [
                self.supported_prompt(statement, self._nearest(statement, rows))
                for statement in statements(question.answer)
            ]
        first, second = (
            iter(self._yes(prompts, label))
            for prompts, label in (
                (useful, "judge: useful?"),
                (supported, "judge: supported?"),
            )
        )
        return {
            q.id: Verdicts(
                tuple(next(first) for _ in contexts[q.id]), tuple(next(second) for _ in statements(q.answer))
            )
            for q in questions
        }

    def check(self, questions: Sequence[Question], right: Mapping[str, int], wrong: Mapping[str, int]) -> Quality:
        """The judge on contexts whose verdict is known.

        Args:
            questions: with an answer that stands word by word in a passage.
            right: question id -> row of that passage.
            wrong: question id -> row of a passage of another document that was retrieved for it and holds none of it.
        """
        useful, supported, truth = [], [], []
        for question in questions:
            for row, holds in ((right[question.id], True), (wrong[question.id], False)):
                useful.append(self.useful_prompt(question, self._searcher.excerpts(question.answer, [row])[0]))
                first = statements(question.answer)[0]
                supported.append(self.supported_prompt(first, self._searcher.excerpts(first, [row])[0]))
                truth.append(holds)
        return Quality(
            tuple(truth), tuple(self._yes(useful, "check: useful?")), tuple(self._yes(supported, "check: supported?"))
        )

    def _nearest(self, statement: str, rows: Sequence[int]) -> str:
        scores = self._searcher.window_scores([statement])[0]
        return self._searcher.excerpts(statement, [max(rows, key=lambda row: scores[row])])[0]

    def _yes(self, prompts: Sequence[list[dict[str, str]]], label: str) -> list[float]:
        choices = self._model.choose_many(prompts, ["YES", "NO"], label=label)
        return [float(np.exp(choice.logprobs["YES"])) for choice in choices]


@dataclass(frozen=True)
class Quality:
    """The judge's P(YES) where the verdict is known: YES for the passage that holds the answer, NO for the other."""

    truth: tuple[bool, ...]
    useful: tuple[float, ...]
    supported: tuple[float, ...]


def known_pairs(
    questions: Sequence[Question], searcher: Searcher, rankings: Mapping[str, Sequence[int]]
) -> tuple[list[Question], dict[str, int], dict[str, int]]:
    """Questions with a passage that holds the answer, that passage, and the best ranked one that holds none of it."""
    chosen, right, wrong = [], {}, {}
    row_of = {passage.id: row for row, passage in enumerate(searcher.corpus.passages)}
    for question in questions:
        holding = data.answer_passages(question, searcher.corpus)
        documents = data.source_documents(question, searcher.corpus)
        other = next(
            (
                row
                for row in rankings.get(question.id, ())
                if searcher.corpus.passages[row].document not in documents
                and not data.held(question.answer, searcher.corpus.passages[row].text)
            ),
            None,
        )
        if holding and other is not None:
            chosen.append(question)
            right[question.id] = row_of[max(holding, key=lambda id: holding[id])]
            wrong[question.id] = other
    return chosen, right, wrong


def _asked(text: str) -> list[dict[str, str]]:
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
