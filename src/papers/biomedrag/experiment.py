"""Teaching a scorer of BiomedRAG on a corpus, and drawing rows (biomedrag.md, section 4.2.3)."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.llm import LLM
from papers.biomedrag import encoder_tuning
from papers.biomedrag.corpora import Example
from papers.biomedrag.encoder_tuning import TuningLog
from papers.biomedrag.memory import Memory, pair_vectors
from papers.biomedrag.scorer import ETA, Choices, Objective, Scorer, Taught, cross_validate, teach, train

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
        helpers.engine_install.EngineError: the encoder cannot be loaded or fine-tuned.
        helpers.completions.CapabilityError: the engine gives no log-probabilities of a prompt.
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
