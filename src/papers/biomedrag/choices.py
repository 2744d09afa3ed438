"""What each scorer of BiomedRAG chose for the inputs that the language model taught it on (biomedrag.md, 4.2.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import pandas as pd

from helpers.results import figures
from helpers.results.answers import Answer
from helpers.results.outcomes import Outcomes
from helpers.results.record import Run
from papers.biomedrag.corpora import Corpus
from papers.biomedrag.encoder_tuning import TUNED, UNTUNED
from papers.biomedrag.experiment import Lesson
from papers.biomedrag.memory import Document
from papers.biomedrag.study import Asked, units

SCORERS: Final = {
    "text": "trained, the printed loss",
    "code": "trained, the released code's loss",
    "each": "trained, a loss for each document",
    "kl": "trained, Kullback-Leibler",
    TUNED: "encoder fine-tuned",
    UNTUNED: "that encoder before, plain cosine",
    "cosine": "plain cosine",
    "random": "random, never trained",
    "first": "always the nearest sentence",
    "best": "the LLM's own choice (ceiling)",
}
"""Label of each scorer that chooses for the taught inputs."""


def chosen(run: Run, corpus: Corpus, lesson: Lesson) -> list[Answer]:
    """What each scorer chose for taught inputs outside its training folds, as rows of the split `taught`.

    The measures are the teacher's log-likelihood of the true label after the chosen document, and whether the document
    shows that label.
    """

    def choosing(scorer: str) -> Callable[[Sequence[Asked]], list[Answer]]:
        picked = zip(lesson.taught, lesson.choices.rows[scorer], lesson.choices.values[scorer], strict=True)
        answers = [
            Answer(
                task=corpus.name,
                answer=taught.documents[row].text,
                measures={
                    "log_likelihood": (float(value), 1.0),
                    "shows_label": (
                        float(any(s.label == taught.example.label for s in taught.documents[row].shots)),
                        1,
                    ),
                },
            )
            for taught, row, value in picked
        ]
        return lambda _: answers

    arms = {name: choosing(name) for name in SCORERS if name in lesson.choices.values}
    return run.answer(arms, units(corpus, [t.example for t in lesson.taught]), split="taught")


def shown(out: Outcomes, name: str) -> figures.Html:
    """Each scorer on the taught inputs of a data set, and its difference from plain cosine."""
    of = out.where(task=name, split="taught")
    found = of.against([(arm, "cosine") for arm in SCORERS if arm != "cosine" and arm in of.arms], "log_likelihood")
    minus = {c.first: c for c in found}
    rows = [
        {
            "scorer": SCORERS[arm],
            "log-likelihood of the label": figures.score_text(of.score("log_likelihood", arm), "ratio"),
            "minus cosine": figures.difference(minus[arm].test, 2) if arm in minus else None,
            "p (Holm)": figures.p_text(minus[arm].p) if arm in minus else None,
            "shows the label": of.score("shows_label", arm),
        }
        for arm in SCORERS
        if arm in of.arms
    ]
    n = of.score("shows_label", "cosine").n
    caption = f"{name}: the documents that each scorer chose for {n} inputs that it was not trained on"
    return figures.table(pd.DataFrame(rows), caption, sample=out.sample)


def _shown(document: Document) -> set[str]:
    return {shot.label for shot in document.shots}


def report_lesson(run: Run, name: str, lesson: Lesson) -> None:
    """Report what teaching took, and the encoder that was fine-tuned, if one was."""
    run.timing(f"{name}: likelihoods", lesson.seconds["likelihoods"], pairs=lesson.requests)
    run.timing(f"{name}: training the scorers", lesson.seconds["training"])
    if log := lesson.tuned:
        run.timing(
            f"{name}: fine-tuning the encoder", log.seconds, inputs=len(lesson.taught), parameters=log.parameters
        )
        engine = lesson.scorer.encoder.engine if lesson.scorer.encoder else None
        run.model(f"{log.base}, fine-tuned", log.sha256, "encoder", engine, f"{name}: scores documents")
