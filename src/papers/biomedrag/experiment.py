"""One corpus of BiomedRAG under study: teach a scorer, run the arms on the same rows, score and test them.

The floors answer the whole test split. Arms with a language model answer a subset of its rows, the same for each, and
the floors are scored on that subset too wherever they stand beside them.
"""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from helpers.llm import LLM
from helpers.results.metrics import DRAWS, Paired, Score, proportion
from papers.biomedrag import encoder_tuning
from papers.biomedrag.arms import Arm, Prediction
from papers.biomedrag.corpora import Example, Task
from papers.biomedrag.encoder_tuning import TuningLog
from papers.biomedrag.memory import Memory, pair_vectors
from papers.biomedrag.scorer import (
    ETA,
    Choices,
    Floats,
    Objective,
    Scorer,
    Taught,
    cross_validate,
    teach,
    train,
)
from papers.biomedrag.scoring import (
    Part,
    Scores,
    compare,
    f1_gain,
    items,
    right,
    right_triples,
    score_labels,
    score_triples,
    shared_texts,
    texts,
)

FOLDS = 5


@dataclass(frozen=True)
class Lesson:
    """What teaching a scorer gave.

    Attributes:
        taught: inputs, documents and the LLM's log-likelihoods.
        choices: what each scorer chose for inputs outside its training folds.
        scorer: trained on all inputs with the objective asked for; it serves the arm.
        seconds: that the likelihoods and the training took, and the fine-tuning when it was done.
        requests: (x, d, y) that were asked about.
        tuned: the encoder that was fine-tuned, if one was; then it is the scorer's.
    """

    taught: tuple[Taught, ...]
    choices: Choices
    scorer: Scorer
    seconds: dict[str, float]
    requests: int
    tuned: TuningLog | None = None


def learn(
    memory: Memory,
    llm: LLM,
    examples: Sequence[Example],
    *,
    objective: Objective = "text",
    eta: float = ETA,
    epochs: int = 100,
    seed: int = 0,
    permuted: int = 2,
    diverse: bool = True,
    tuned_encoder: str = "",
) -> Lesson:
    """Ask the LLM for P_LLM(y | d, x) of each candidate of each example, and train scorers on it.

    Args:
        memory: where candidates come from.
        llm: the teacher.
        examples: inputs with answers, none of them in the memory.
        objective: of the scorer that is kept.
        eta: temperature of P_T.
        epochs: of training a projection.
        seed: of the folds.
        permuted: see `Memory.candidates`.
        diverse: see `Memory.candidates`.
        tuned_encoder: an encoder to fine-tune beside the projections, see `encoder_tuning.tuned`; it gives the scorer
            that is kept. None is if it is empty.

    Raises:
        ValueError: there are fewer examples than folds.
        helpers.engines.EngineError: the encoder cannot be loaded or fine-tuned.
        helpers.llm.CapabilityError: the engine gives no log-probabilities of a prompt.
    """
    texts = [e.text for e in examples]
    candidates = memory.candidates(texts, diverse=diverse, permuted=permuted)
    began = time.perf_counter()
    taught = teach(llm, examples, candidates)
    asked = time.perf_counter()
    inputs, vectors = pair_vectors(texts, candidates, memory.encoder)
    values = [t.loglikelihoods for t in taught]
    choices = cross_validate(list(inputs), vectors, values, folds=FOLDS, seed=seed, eta=eta, epochs=epochs)
    scorer = train(list(inputs), vectors, values, objective=objective, eta=eta, epochs=epochs)
    seconds = {"likelihoods": asked - began, "training": time.perf_counter() - asked}
    tuned = None
    if tuned_encoder:
        tuned = encoder_tuning.tuned(taught, tuned_encoder, objective=objective, eta=eta, folds=FOLDS, seed=seed)
        choices, scorer = tuned.beside(choices, taught), tuned.scorer()
        seconds["fine-tuning"] = tuned.seconds
    return Lesson(tuple(taught), choices, scorer, seconds, sum(map(len, candidates)), tuned)


def draw(examples: Sequence[Example], n: int, seed: int) -> list[Example]:
    """At most `n` rows drawn by chance without repeats of a row, in their order."""
    order = np.random.default_rng(seed).permutation(len(examples))[:n]
    return [examples[i] for i in sorted(order)]


# -------------------------------------------------------------------------------------------------------- one corpus


@dataclass
class Study:
    """The answers of each arm to the rows of one corpus.

    Attributes:
        task: what is asked.
        rows: the rows that every arm answered.
        answers: predictions by arm, in the order the arms were run.
    """

    task: Task
    rows: Sequence[Example]
    answers: dict[str, list[Prediction]] = field(default_factory=dict)

    def run(self, arms: Mapping[str, Arm]) -> None:
        """Let each arm answer the rows."""
        for name, arm in arms.items():
            self.answers[name] = arm(self.rows)

    def scores(self, part: Part = "triple", draws: int = DRAWS) -> dict[str, Scores]:
        """Micro precision, recall and F1 of each arm; `part` is that of a triple (Table 3)."""
        return {name: score(self.task, self.rows, given, part, draws) for name, given in self.answers.items()}

    def right(self, name: str) -> list[bool]:
        """Which rows an arm has right."""
        given = self.answers[name]
        if self.task == "triples":
            return right_triples(self.rows, [p.triples or None for p in given])
        return right(self.rows, [p.label for p in given])

    def against(self, name: str, others: Iterable[str]) -> dict[str, Paired]:
        """Paired tests of one arm against others: of which rows each has right, by text (`scoring.compare`)."""
        return {
            other: compare(self.right(name), self.right(other), shared_texts(self.rows))
            for other in others
            if other in self.answers
        }

    def gain(self, first: str, second: str, draws: int = DRAWS) -> Score:
        """F1 of one arm less that of another, as a fraction, bootstrapped over texts."""

        def told(of: Example | Prediction) -> frozenset[Hashable]:
            return items(of.triples) if self.task == "triples" else frozenset({of.label} - {None})

        gold, one, other = (list(map(told, of)) for of in (self.rows, self.answers[first], self.answers[second]))
        return f1_gain(gold, one, other, texts(self.rows), draws=draws)

    def commonest(self, label: str) -> Score:
        """Share of the rows that have a label: what always answering it reaches."""
        return proportion(sum(row.label == label for row in self.rows), len(self.rows))


def score(
    task: Task, rows: Sequence[Example], predictions: Sequence[Prediction], part: Part = "triple", draws: int = DRAWS
) -> Scores:
    """Micro precision, recall and F1 of one arm's predictions."""
    if task == "triples":
        return score_triples(rows, [p.triples or None for p in predictions], part, draws=draws)
    return score_labels(rows, [p.label for p in predictions], draws=draws)


# ------------------------------------------------------------------------------------------- what was chosen, and paid


def documents_chosen(choices: Choices, taught: Sequence[Taught], name: str) -> int:
    """How many different documents a scorer chose."""
    return len({t.documents[row].text for t, row in zip(taught, choices.rows[name], strict=True)})


def label_hits(choices: Choices, taught: Sequence[Taught], name: str) -> float:
    """Share of inputs whose chosen document shows the true label."""
    return float(
        np.mean(
            [
                any(shot.label == t.example.label for shot in t.documents[row].shots)
                for t, row in zip(taught, choices.rows[name], strict=True)
            ]
        )
    )


def cost(predictions: Sequence[Prediction]) -> dict[str, float]:
    """What one answer of an arm cost on average: prompt and generated tokens, seconds at the server, overflows."""
    asked = [p for p in predictions if p.prompt_tokens]
    if not asked:
        return {"prompt": 0.0, "longest": 0.0, "generated": 0.0, "seconds": 0.0, "overflows": 0.0}
    tokens: Floats = np.array([p.prompt_tokens for p in asked], dtype=float)
    return {
        "prompt": float(tokens.mean()),
        "longest": float(tokens.max()),
        "generated": float(np.mean([p.generated_tokens for p in asked])),
        "seconds": float(np.mean([p.seconds for p in asked])),
        "overflows": float(sum(p.overflow for p in predictions)),
    }
