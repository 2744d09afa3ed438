"""The tailored chunk scorer of BiomedRAG (biomedrag.md, section 4.2.3), taught by the LLM.

P_LLM(y | d, x) is read from the served model's log-likelihoods, one request for each input x, document d and answer y,
and kept for ever. vLLM computes a prompt anew when it is asked for its log-probabilities, cached prefix or not, so
these prompts hold nothing that all have in common: no instruction, just document, input and answer.

P_T(d | x) is a softmax over similarities of encoder vectors after a learned projection W, which begins as the identity:
an untrained scorer is plain cosine. The encoder stays frozen, so training takes seconds; the variant that fine-tunes
the encoder is in `encoder_tuning`.

The printed objective compares two maxima, max_d P_T(d | x) and max_d P_LLM(y | d, x), and is blind to *which* document
attains them. It is the default here, for it is the text; the other objectives are named in `Objective`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from helpers.completions import Loglikelihood
from helpers.llm import LLM
from helpers.vectors import Encoder
from papers.biomedrag.corpora import Example
from papers.biomedrag.memory import Document

Floats = NDArray[np.floating]

Objective = Literal["text", "code", "each", "kl"]
"""text: | max P_T - max P_LLM |, as printed. code: max P_LLM - max P_T with its sign, as in the released code, where a
cosine stands for P_LLM. each: sum over documents of | P_T - P_LLM |, P_LLM normalised over the documents. kl: the
Kullback-Leibler divergence of the same two distributions (Shi et al. 2023, REPLUG)."""

ETA: Final = 0.1
"""Temperature of the softmax; the paper gives no value."""


# ------------------------------------------------------------------------------------------------ what the LLM says


@dataclass(frozen=True)
class Taught:
    """One input, its documents, and what the LLM makes of each.

    Attributes:
        example: x with its answer y.
        documents: the candidates d.
        loglikelihoods: (documents,) natural logarithm of P_LLM(y | d, x).
    """

    example: Example
    documents: tuple[Document, ...]
    loglikelihoods: Floats


def likelihood_prompt(example: Example, document: Document) -> tuple[str, str]:
    """Context and continuation whose log-likelihood is log P_LLM(y | d, x): document, input, and the label as y.

    The answer is the label also where triples are extracted: the released scorer is taught on the relation.
    """
    shots = "".join(f"{shot.text} => {shot.label}\n" for shot in document.shots)
    return f"{shots}{example.text} =>", f" {example.label}"


def teach(
    llm: LLM, examples: Sequence[Example], documents: Sequence[Sequence[Document]], *, label: str = "P_LLM"
) -> list[Taught]:
    """Ask for log P_LLM(y | d, x) of every document of every input, all in one batch.

    Raises:
        helpers.completions.CapabilityError: the engine gives no log-probabilities of a prompt.
    """
    prompts = [likelihood_prompt(x, d) for x, of_x in zip(examples, documents, strict=True) for d in of_x]
    answers: list[Loglikelihood] = llm.loglikelihood_many(prompts, label=label)
    taught, start = [], 0
    for x, of_x in zip(examples, documents, strict=True):
        values = np.array([a.total for a in answers[start : start + len(of_x)]])
        taught.append(Taught(x, tuple(of_x), values))
        start += len(of_x)
    return taught


# ----------------------------------------------------------------------------------------------------- the scorer


@dataclass(frozen=True)
class Scorer:
    """P_T(d | x): softmax of cosine(W E(x), W E(d)) / eta.

    Attributes:
        projection: W, of shape (dimension, dimension).
        eta: temperature.
        losses: of each epoch, before its step; empty for the plain cosine.
        objective: what it was trained on; empty for the plain cosine.
        of_documents: another projection for the documents; None takes the same.
        encoder: E, where it is the scorer's own; None takes that of the memory.
    """

    projection: Floats
    eta: float = ETA
    losses: tuple[float, ...] = ()
    objective: str = ""
    of_documents: Floats | None = None
    encoder: Encoder | None = None

    def weights(self, x: NDArray[np.floating], documents: NDArray[np.floating]) -> Floats:
        """P_T(d | x) of each document.

        Args:
            x: E(x), of shape (dimension,).
            documents: E(d), of shape (documents, dimension).
        """
        other = self.projection if self.of_documents is None else self.of_documents
        return _softmax(_cosines(self.projection, other, _padded([x], [documents])), self.eta)[0]

    def choose(self, x: NDArray[np.floating], documents: NDArray[np.floating]) -> int:
        """Row of the likeliest document; of equals the first."""
        return int(np.argmax(self.weights(x, documents)))


def cosine_scorer(dimension: int, eta: float = ETA) -> Scorer:
    """The untrained scorer: plain cosine (the paper's ablation WTCS)."""
    return Scorer(np.eye(dimension, dtype=np.float32), eta)


def random_scorer(dimension: int, seed: int, eta: float = ETA) -> Scorer:
    """Two projections drawn at random, of inputs and of documents, and never trained.

    The released scorer is one attention head with a projection for each. Its training loop makes it anew at each step,
    gives its weights to no optimiser, and saves it.
    """
    draw = np.random.default_rng(seed)
    x, d = (draw.normal(size=(dimension, dimension)).astype(np.float32) for _ in range(2))
    return Scorer(x, eta, objective="random", of_documents=d)


def train(
    inputs: Sequence[NDArray[np.floating]],
    documents: Sequence[NDArray[np.floating]],
    loglikelihoods: Sequence[Floats],
    *,
    objective: Objective = "text",
    eta: float = ETA,
    epochs: int = 100,
    learning_rate: float = 3e-3,
    decay: float = 1e-2,
) -> Scorer:
    """Fit W by Adam on all inputs at once, from the identity.

    Args:
        inputs: E(x) of each input, of shape (dimension,).
        documents: E(d) of each input's documents, of shape (documents, dimension).
        loglikelihoods: log P_LLM(y | d, x), one array an input.
        objective: see `Objective`.
        eta: temperature.
        epochs: steps; one step sees every input.
        learning_rate: of Adam.
        decay: weight of |W - I|^2 in the loss, which keeps the scorer near plain cosine where there is little to learn
            from; it is not in the losses that are returned.

    Raises:
        ValueError: no inputs, lengths that differ, or an unknown objective.
    """
    if not inputs or not len(inputs) == len(documents) == len(loglikelihoods):
        raise ValueError(
            f"Training needs one array of each kind an input; found {len(inputs)} inputs, {len(documents)} arrays of "
            f"documents and {len(loglikelihoods)} of likelihoods."
        )
    check(objective)
    batch = _padded(inputs, documents)
    taught = np.full(batch.mask.shape, -np.inf, dtype=np.float32)
    for row, values in enumerate(loglikelihoods):
        taught[row, : len(values)] = values
    projection = identity = np.eye(batch.x.shape[1], dtype=np.float32)
    moments = np.zeros((2, *projection.shape), dtype=np.float32)
    losses = []
    for epoch in range(1, epochs + 1):
        loss, gradient = loss_and_gradient(projection, batch, taught, objective, eta)
        losses.append(loss)
        gradient += 2 * decay * (projection - identity)
        moments[0] = 0.9 * moments[0] + 0.1 * gradient
        moments[1] = 0.999 * moments[1] + 0.001 * gradient**2
        step = moments[0] / (1 - 0.9**epoch) / (np.sqrt(moments[1] / (1 - 0.999**epoch)) + 1e-8)
        projection = projection - learning_rate * step
    return Scorer(projection, eta, tuple(losses), objective)


def check(objective: str) -> None:
    """Raise a ValueError if there is no such objective."""
    if objective not in get_args(Objective):
        raise ValueError(f"The objective is one of {', '.join(get_args(Objective))}; found {objective!r}.")


@dataclass(frozen=True)
class Batch:
    """Vectors of several inputs: x (n, dimension), d (n, most documents, dimension), mask (n, most documents)."""

    x: Floats
    d: Floats
    mask: NDArray[np.bool_]


def loss_and_gradient(
    projection: Floats, batch: Batch, loglikelihoods: Floats, objective: Objective, eta: float
) -> tuple[float, Floats]:
    """The mean loss over the inputs, and its gradient in W.

    Args:
        projection: W.
        batch: vectors.
        loglikelihoods: (n, most documents), -inf where there is no document.
        objective: see `Objective`.
        eta: temperature.
    """
    u, v = batch.x @ projection.T, batch.d @ projection.T
    u_length = np.linalg.norm(u, axis=-1, keepdims=True)
    v_length = np.linalg.norm(v, axis=-1, keepdims=True)
    v_length[~batch.mask] = 1.0
    u_unit, v_unit = u / u_length, v / v_length
    cosine = np.einsum("nk,njk->nj", u_unit, v_unit)
    p = _softmax(np.where(batch.mask, cosine, -np.inf), eta)
    loss, by_similarity = _objective(p, loglikelihoods, batch.mask, objective, eta)
    by_similarity = np.where(batch.mask, by_similarity, 0.0) / len(p)
    # d cosine / d u and d cosine / d v of every pair
    by_u = (
        np.einsum("nj,njk->nk", by_similarity, v_unit) - (by_similarity * cosine).sum(1, keepdims=True) * u_unit
    ) / u_length
    by_v = by_similarity[..., None] * (u_unit[:, None] - cosine[..., None] * v_unit) / v_length
    # as one matrix product each, which einsum would not make of them
    dimension = len(projection)
    return loss, by_u.T @ batch.x + by_v.reshape(-1, dimension).T @ batch.d.reshape(-1, dimension)


def _objective(
    p: Floats, loglikelihoods: Floats, mask: NDArray[np.bool_], objective: Objective, eta: float
) -> tuple[float, Floats]:
    """The mean loss, and the derivative of each input's own loss in its similarities."""
    rows = np.arange(len(p))
    q = np.exp(loglikelihoods - loglikelihoods.max(1, keepdims=True))
    q /= q.sum(1, keepdims=True)
    if objective == "kl":
        logs = np.log(np.where(q > 0, q, 1.0)) - np.log(np.where(mask, p, 1.0))
        return float((q * logs).sum(1).mean()), (p - q) / eta
    if objective == "each":
        loss, by_p = np.abs(p - q).sum(1), np.sign(p - q)
    else:
        best = p.argmax(1)
        gap = np.exp(loglikelihoods.max(1)) - p[rows, best]
        loss = np.abs(gap) if objective == "text" else gap
        by_p = np.zeros_like(p)
        by_p[rows, best] = -np.sign(gap) if objective == "text" else -1.0
    return float(loss.mean()), p * (by_p - (p * by_p).sum(1, keepdims=True)) / eta


def _softmax(similarities: Floats, eta: float) -> Floats:
    scaled = similarities / eta
    weights = np.exp(scaled - scaled.max(axis=1, keepdims=True))
    normal: Floats = weights / weights.sum(axis=1, keepdims=True)
    return normal


def _cosines(projection: Floats, of_documents: Floats, batch: Batch) -> Floats:
    u, v = batch.x @ projection.T, batch.d @ of_documents.T
    lengths = np.linalg.norm(u, axis=-1)[:, None] * np.where(batch.mask, np.linalg.norm(v, axis=-1), 1.0)
    return np.where(batch.mask, np.einsum("nk,njk->nj", u, v) / lengths, -np.inf)


def _padded(
    inputs: Sequence[NDArray[np.floating]],
    documents: Sequence[NDArray[np.floating]],
    dtype: type[np.floating] = np.float32,
) -> Batch:
    x: Floats = np.stack([np.asarray(vector, dtype=dtype) for vector in inputs])
    most = max(len(of_one) for of_one in documents)
    d: Floats = np.zeros((len(x), most, x.shape[1]), dtype=dtype)
    mask = np.zeros((len(x), most), dtype=np.bool_)
    for row, of_one in enumerate(documents):
        d[row, : len(of_one)], mask[row, : len(of_one)] = of_one, True
    return Batch(x, d, mask)


# -------------------------------------------------------------------------------------- which scorer chooses better


@dataclass(frozen=True)
class Choices:
    """What scorers chose for inputs that they were not trained on, all from the same candidates.

    Attributes:
        rows: name of the scorer -> (n,) row of the document that it chose.
        values: name -> (n,) log P_LLM(y | chosen document, x).
        losses: name -> training losses, averaged over the folds.
    """

    rows: dict[str, NDArray[np.int64]]
    values: dict[str, Floats]
    losses: dict[str, Floats]


def folds_of(n: int, folds: int, seed: int) -> NDArray[np.int64]:
    """The fold of each of n inputs, drawn by chance.

    Raises:
        ValueError: there are fewer inputs than folds.
    """
    if n < folds:
        raise ValueError(f"{folds} folds need at least as many inputs; found {n}.")
    fold: NDArray[np.int64] = np.random.default_rng(seed).permutation(n) % folds
    return fold


def cross_validate(
    inputs: Sequence[NDArray[np.floating]],
    documents: Sequence[NDArray[np.floating]],
    loglikelihoods: Sequence[Floats],
    *,
    objectives: Sequence[Objective] = get_args(Objective),
    folds: int = 5,
    seed: int = 0,
    eta: float = ETA,
    epochs: int = 100,
) -> Choices:
    """Let each scorer choose for every input, trained on the other folds' inputs.

    Beside the trained ones stand `cosine`, `random` (see `random_scorer`), `first` (always d0) and `best` (what the LLM
    itself likes best, the ceiling).

    Raises:
        ValueError: there are fewer inputs than folds.
    """
    n = len(inputs)
    fold = folds_of(n, folds, seed)
    dimension = len(inputs[0])
    rows: dict[str, NDArray[np.int64]] = {name: np.zeros(n, dtype=np.int64) for name in objectives}
    losses: dict[str, Floats] = {name: np.zeros(epochs) for name in objectives}
    for name in objectives:
        for held in range(folds):
            seen = np.flatnonzero(fold != held)
            scorer = train(
                [inputs[i] for i in seen],
                [documents[i] for i in seen],
                [loglikelihoods[i] for i in seen],
                objective=name,
                eta=eta,
                epochs=epochs,
            )
            losses[name] += np.array(scorer.losses) / folds
            for i in np.flatnonzero(fold == held):
                rows[name][i] = scorer.choose(inputs[i], documents[i])
    fixed = {"cosine": cosine_scorer(dimension, eta), "random": random_scorer(dimension, seed, eta)}
    for label, scorer in fixed.items():
        rows[label] = np.array([scorer.choose(x, d) for x, d in zip(inputs, documents, strict=True)])
    rows["first"] = np.zeros(n, dtype=np.int64)
    rows["best"] = np.array([int(np.argmax(values)) for values in loglikelihoods])
    values = {name: np.array([loglikelihoods[i][row] for i, row in enumerate(of)]) for name, of in rows.items()}
    return Choices(rows, values, losses)
