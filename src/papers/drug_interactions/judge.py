"""A language model as judge (drug_interactions.md, Setup): correctness and clarity from 1 to 5, blind to the arm.

What the judge is worth is measured too: whether it agrees with itself when it is asked again with the scale turned
round, and whether it rates answers known to be right above answers known to be wrong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from helpers.llm import LLM
from helpers.rag.prompts import chat
from helpers.results.metrics import Score

MARKS = range(1, 6)
CHOICES = tuple(f"{correctness} {clarity}" for correctness, clarity in product(MARKS, MARKS))


@dataclass(frozen=True)
class Judged:
    """An answer to be rated; the judge is not told whose. Without a reference it rates as the paper's does."""

    question: str
    answer: str
    reference: str = ""


@dataclass(frozen=True)
class Rating:
    """Two marks from 1 to 5, and the key of the request."""

    correctness: int
    clarity: int
    key: str = ""

    @property
    def overall(self) -> float:
        """Their mean; the paper rounds it to the nearest half, which it is already (Setup: metrics)."""
        return (self.correctness + self.clarity) / 2

    @property
    def normalised(self) -> float:
        """The overall mark from 0 (all ones) to 1 (all fives)."""
        return (self.overall - 1) / 4


_SCALES = {
    "correctness": ("wholly wrong or no answer", "mostly wrong", "half right", "mostly right", "right and complete"),
    "clarity": ("cannot be understood", "hard to follow", "understandable", "clear", "very clear"),
}


def judge_prompt(judged: Judged, *, downwards: bool = False) -> list[dict[str, str]]:
    """The scales, then question, reference and answer, so that answers to one question share the most.

    `downwards` lists the scales from 5 to 1; the marks mean the same.
    """
    order = sorted(MARKS, reverse=downwards)
    scales = "\n".join(
        f"{name}: " + "; ".join(f"{mark} {words[mark - 1]}" for mark in order) for name, words in _SCALES.items()
    )
    reference = f"Right answer: {judged.reference}\n" if judged.reference else ""
    compared = "Compare it with the right answer. " if judged.reference else ""
    return chat(
        f"You rate an answer to a question about drugs. {compared}Give two marks, first correctness, then clarity, "
        f"with a space between them.\n{scales}",
        f"Question: {judged.question}\n{reference}Answer: {judged.answer or '(none)'}",
    )


def rate(llm: LLM, judged: Sequence[Judged], *, downwards: bool = False, seed: int = 0) -> list[Rating]:
    """The judge's marks for each answer, in the order given; they are asked for in another order, drawn by chance.

    Answers to the same question with the same words get the same marks.
    """
    order = np.random.default_rng(seed).permutation(len(judged))
    prompts = [judge_prompt(judged[i], downwards=downwards) for i in order]
    label = "judge, scale downwards" if downwards else "judge"
    choices = llm.choose_many(prompts, CHOICES, label=label)
    ratings: list[Rating | None] = [None] * len(judged)
    for i, choice in zip(order, choices, strict=True):
        correctness, clarity = choice.answer.split()
        ratings[i] = Rating(int(correctness), int(clarity), choice.key)
    return [rating for rating in ratings if rating]


def useful(truth: Score | None) -> bool:
    """Whether a judge can tell right from wrong: its area under the curve is above chance, interval and all."""
    return truth is not None and truth.low > 0.5
