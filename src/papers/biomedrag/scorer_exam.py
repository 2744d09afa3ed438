"""How well the trained scorer ranks, on the sentences that taught it and on others.

The paper shows what its scorer contributes (Table 4), not whether it ranks as the language model
does. Here its choice is compared with the document after which the language model gives the true
label the highest probability.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from evaluation import figures
from evaluation.metrics import Score, proportion
from helpers.vectors import Floats
from papers.biomedrag.memory import Memory, pair_vectors
from papers.biomedrag.retriever import Lesson, Teaching
from papers.biomedrag.scorer import Objective, Scorer, cosine_scorer, mean_loss_of, train

FOLDS: Final = 5
"""Parts of all sentences, each of which is left out once."""
OBJECTIVES: Final[tuple[Objective, ...]] = ("text", "kl")
"""The printed loss, and one that sees which document is best."""
STEPS: Final = (0, 1, 2, 5, 10, 20, 50, 100)
"""Epochs at which the loss is shown."""


@dataclass(frozen=True)
class Sheet:
    """Sentences with the vectors of their candidates and the likelihoods after each.

    Attributes:
        inputs: E(x) of each sentence, of shape (dimension,).
        documents: E(d) of its candidates, of shape (n_documents, dimension).
        loglikelihoods: log P_LLM(y | d, x), of shape (n_documents,).
    """

    inputs: Sequence[Floats]
    documents: Sequence[Floats]
    loglikelihoods: Sequence[Floats]

    def __len__(self) -> int:
        """Return the number of sentences."""
        return len(self.inputs)

    def part(self, rows: Sequence[int]) -> "Sheet":
        """Return the sentences in these positions."""
        inputs = [self.inputs[row] for row in rows]
        documents = [self.documents[row] for row in rows]
        loglikelihoods = [self.loglikelihoods[row] for row in rows]
        return Sheet(inputs, documents, loglikelihoods)


def sheet_of(lesson: Lesson, memory: Memory) -> Sheet:
    """Encode the sentences of a lesson and their candidates."""
    inputs, documents = pair_vectors(lesson.texts, lesson.candidates, memory.encoder)
    return Sheet(list(inputs), documents, lesson.loglikelihoods)


def agreement(scorer: Scorer, sheet: Sheet) -> Score:
    """Return how often a scorer chooses the document that the language model reads best."""
    return proportion(_n_agreeing(scorer, sheet), len(sheet))


def _n_agreeing(scorer: Scorer, sheet: Sheet) -> int:
    n_agreeing = 0
    rows = zip(sheet.inputs, sheet.documents, sheet.loglikelihoods, strict=True)
    for text, documents, values in rows:
        n_agreeing += scorer.choose(text, documents) == int(np.argmax(values))
    return n_agreeing


def by_chance(sheet: Sheet) -> float:
    """Return how many choices would agree if a document were drawn for each sentence."""
    return sum(1 / len(documents) for documents in sheet.documents)


def held_out_agreement(sheet: Sheet, objective: Objective, teaching: Teaching) -> Score:
    """Train on all but one of `FOLDS` parts in turn, and count agreement on the part left out."""
    n_agreeing = 0
    for taught, left_out in _folds(len(sheet)):
        scorer = _trained(sheet.part(taught), objective, teaching, teaching.epochs)
        n_agreeing += _n_agreeing(scorer, sheet.part(left_out))
    return proportion(n_agreeing, len(sheet))


def _folds(n: int) -> Iterator[tuple[list[int], list[int]]]:
    rows = np.arange(n)
    for fold in range(FOLDS):
        is_left_out = rows % FOLDS == fold
        yield rows[~is_left_out].tolist(), rows[is_left_out].tolist()


def _trained(sheet: Sheet, objective: Objective, teaching: Teaching, epochs: int) -> Scorer:
    return train(
        sheet.inputs,
        sheet.documents,
        sheet.loglikelihoods,
        objective=objective,
        eta=teaching.eta,
        epochs=epochs,
    )


def table(taught: Sheet, others: Sheet, teaching: Teaching) -> figures.Html:
    """Show agreement with the language model, by loss and by number of sentences that teach.

    Args:
        taught: Sentences that teach the scorer of the run.
        others: Further sentences.
        teaching: How scorers are trained.
    """
    both = Sheet(
        [*taught.inputs, *others.inputs],
        [*taught.documents, *others.documents],
        [*taught.loglikelihoods, *others.loglikelihoods],
    )
    cosine = cosine_scorer(len(both.inputs[0]), teaching.eta)
    chance_share = figures.number(by_chance(others) / len(others))
    rows: list[dict[str, object]] = [
        {
            "scorer": "none, a document drawn at random",
            "taught on": 0,
            "on these": None,
            "on others": chance_share,
        },
        {
            "scorer": "cosine",
            "taught on": 0,
            "on these": None,
            "on others": agreement(cosine, others),
        },
    ]
    for objective in OBJECTIVES:
        scorer = _trained(taught, objective, teaching, teaching.epochs)
        rows.append(
            {
                "scorer": f"loss {objective}",
                "taught on": len(taught),
                "on these": agreement(scorer, taught),
                "on others": agreement(scorer, others),
            }
        )
    for objective in OBJECTIVES:
        rows.append(
            {
                "scorer": f"loss {objective}, {FOLDS}-fold cross-validation",
                "taught on": len(both) - len(both) // FOLDS,
                "on these": None,
                "on others": held_out_agreement(both, objective, teaching),
            }
        )
    caption = (
        "Agreement, which is how often a scorer chooses the document after which the language "
        'model gives the true label the highest probability. "Taught on" is the number of '
        'sentences that taught the scorer. "On these" and "on others" give the agreement on these '
        "sentences and on other sentences. Higher is better."
    )
    return figures.table(pd.DataFrame(rows), caption)


def loss_plot(taught: Sheet, others: Sheet, teaching: Teaching) -> figures.Picture:
    """Plot the loss on the sentences that teach, and on others, by epoch and objective."""
    epochs = [step for step in STEPS if step <= teaching.epochs]
    losses: dict[str, tuple[list[float], list[float]]] = {}
    alt = []
    for objective in OBJECTIVES:
        own, other = [], []
        for step in epochs:
            scorer = _trained(taught, objective, teaching, step)
            own.append(_loss(scorer, taught, objective))
            other.append(_loss(scorer, others, objective))
        losses[objective] = (own, other)
        alt.append(
            f"Loss {objective}: {own[0]:.2f} to {own[-1]:.2f} on the sentences that teach, "
            f"{other[0]:.2f} to {other[-1]:.2f} on others."
        )
    caption = (
        f"Loss of the scorer on the {len(taught)} sentences that taught it and on {len(others)} "
        "other sentences, by training epoch. Each panel shows one of the two losses. Lower is "
        "better."
    )
    wide, wide_panels = plt.subplots(1, len(losses), figsize=(7.4, 2.8))
    narrow, narrow_panels = plt.subplots(len(losses), 1, figsize=(4.2, 2.2 * len(losses)))
    _draw_losses(wide_panels, epochs, losses)
    _draw_losses(narrow_panels, epochs, losses)
    return figures.figure(wide, narrow=narrow, alt=" ".join(alt), caption=caption)


def _draw_losses(
    panels: Sequence[Axes],
    epochs: Sequence[int],
    losses: Mapping[str, tuple[list[float], list[float]]],
) -> None:
    """Draw the loss by epoch, a panel for each objective."""
    for axes, (objective, (own, other)) in zip(panels, losses.items(), strict=True):
        axes.plot(epochs, own, label="sentences that teach")
        axes.plot(epochs, other, linestyle="--", label="other sentences")
        axes.set_xlabel(f"epochs, loss {objective}")
        axes.set_ylim(bottom=0)
    panels[0].legend()


def _loss(scorer: Scorer, sheet: Sheet, objective: Objective) -> float:
    return mean_loss_of(scorer, sheet.inputs, sheet.documents, sheet.loglikelihoods, objective)
