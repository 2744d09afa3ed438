"""The tailored chunk scorer of BiomedRAG and its losses (biomedrag.md, section 4.2.3).

P_T(d | x) is a softmax over similarities of encoder vectors after a learned projection W, which
begins as the identity: an untrained scorer is plain cosine. The encoder is frozen, so training
takes seconds; `encoder_tuning` fine-tunes it.

The printed objective compares two maxima, max_d P_T(d | x) and max_d P_LLM(y | d, x), and is blind
to *which* document attains them. It is the default here; `Objective` names the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from helpers.vectors import Encoder

Floats = NDArray[np.floating]

Objective = Literal["text", "code", "each", "kl"]
"""The loss of the scorer.

- text: | max P_T - max P_LLM |, as printed.
- code: max P_LLM - max P_T with its sign, as in the released code, where a cosine stands for P_LLM.
- each: sum over documents of | P_T - P_LLM |, P_LLM normalised over the documents.
- kl: the Kullback-Leibler divergence of the same two distributions (Shi et al. 2023, REPLUG).
"""

ETA: Final = 0.1
"""Temperature of the softmax; the paper gives no value."""
LEARNING_RATE: Final = 3e-3
DECAY: Final = 1e-2
"""Weight of |W - I|^2, which keeps a scorer near plain cosine if there is little to learn from."""


@dataclass(frozen=True)
class Scorer:
    """P_T(d | x): softmax of cosine(W E(x), W E(d)) / eta.

    Attributes:
        projection: W, of shape (dimension, dimension).
        eta: Temperature of the softmax.
        losses: The loss of each epoch, before its step; empty for the plain cosine.
        encoder: E if the scorer has its own, else None.
    """

    projection: Floats
    eta: float = ETA
    losses: tuple[float, ...] = ()
    encoder: Encoder | None = None

    def weights(self, x: Floats, documents: Floats) -> Floats:
        """Compute P_T(d | x) of each document.

        Args:
            x: E(x), of shape (dimension,).
            documents: E(d) of each document, of shape (n_documents, dimension).

        Returns:
            The probabilities, of shape (n_documents,).
        """
        batch = padded([x], [documents])
        u, v = batch.x @ self.projection.T, batch.d @ self.projection.T
        lengths = np.linalg.norm(u, axis=-1)[:, None] * np.linalg.norm(v, axis=-1)
        return softmax(np.einsum("nk,njk->nj", u, v) / lengths / self.eta, axis=1)[0]

    def choose(self, x: Floats, documents: Floats) -> int:
        """Return the row of the likeliest document; of equal ones the first."""
        return int(np.argmax(self.weights(x, documents)))


def cosine_scorer(dimension: int, eta: float = ETA) -> Scorer:
    """Return the untrained scorer: plain cosine (the paper's ablation WTCS)."""
    return Scorer(np.eye(dimension, dtype=np.float32), eta)


def train(
    inputs: Sequence[Floats],
    documents: Sequence[Floats],
    loglikelihoods: Sequence[Floats],
    *,
    objective: Objective = "text",
    eta: float = ETA,
    epochs: int = 100,
) -> Scorer:
    """Fit W by Adam on all inputs in one batch, from the identity.

    Args:
        inputs: E(x) of each input, of shape (dimension,).
        documents: E(d) of each input's documents, of shape (n_documents, dimension).
        loglikelihoods: log P_LLM(y | d, x) of each input's documents, of shape (n_documents,).
        objective: The loss.
        eta: Temperature of the softmax.
        epochs: Number of steps; each sees every input.

    Returns:
        The trained scorer. Its losses leave the decay out.

    Raises:
        ValueError: There are no inputs, lengths differ, or the objective is unknown.
    """
    if not inputs or not len(inputs) == len(documents) == len(loglikelihoods):
        raise ValueError(
            f"Training needs one array of each kind an input; found {len(inputs)} inputs, "
            f"{len(documents)} arrays of documents and {len(loglikelihoods)} of likelihoods."
        )
    check_objective(objective)
    batch = padded(inputs, documents)
    targets = _padded_targets(loglikelihoods, batch)
    identity = np.eye(batch.x.shape[1], dtype=np.float32)
    projection = identity
    moments = np.zeros((2, *projection.shape), dtype=np.float32)
    losses = []
    for epoch in range(1, epochs + 1):
        loss, gradient = loss_and_gradient(projection, batch, targets, objective, eta)
        losses.append(loss)
        gradient += 2 * DECAY * (projection - identity)
        moments[0] = 0.9 * moments[0] + 0.1 * gradient
        moments[1] = 0.999 * moments[1] + 0.001 * gradient**2
        mean = moments[0] / (1 - 0.9**epoch)
        deviation = np.sqrt(moments[1] / (1 - 0.999**epoch))
        step = mean / (deviation + 1e-8)
        projection = projection - LEARNING_RATE * step
    return Scorer(projection, eta, tuple(losses))


def mean_loss_of(
    scorer: Scorer,
    inputs: Sequence[Floats],
    documents: Sequence[Floats],
    loglikelihoods: Sequence[Floats],
    objective: Objective,
) -> float:
    """Compute the mean loss of a scorer over inputs, see `train` for the arguments."""
    batch = padded(inputs, documents)
    targets = _padded_targets(loglikelihoods, batch)
    loss, _ = loss_and_gradient(scorer.projection, batch, targets, objective, scorer.eta)
    return loss


def _padded_targets(loglikelihoods: Sequence[Floats], batch: "Batch") -> Floats:
    targets = np.full(batch.mask.shape, -np.inf, dtype=np.float32)
    for row, values in enumerate(loglikelihoods):
        targets[row, : len(values)] = values
    return targets


def check_objective(objective: str) -> None:
    """Check that an objective is one of ``Objective``.

    Raises:
        ValueError: There is no such objective.
    """
    objectives = get_args(Objective)
    if objective not in objectives:
        raise ValueError(f"The objective is one of {', '.join(objectives)}; found {objective!r}.")


@dataclass(frozen=True)
class Batch:
    """Vectors of several inputs, filled up to the same number of documents.

    Attributes:
        x: E(x) of each input, of shape (n, dimension).
        d: E(d) of its documents, of shape (n, max_documents, dimension).
        mask: Where there is a document, of shape (n, max_documents).
    """

    x: Floats
    d: Floats
    mask: NDArray[np.bool_]


def padded(
    inputs: Sequence[Floats], documents: Sequence[Floats], dtype: type[np.floating] = np.float32
) -> Batch:
    """Put inputs and their documents into one batch."""
    x: Floats = np.stack([np.asarray(vector, dtype=dtype) for vector in inputs])
    max_documents = max(len(vectors) for vectors in documents)
    d: Floats = np.zeros((len(x), max_documents, x.shape[1]), dtype=dtype)
    mask = np.zeros((len(x), max_documents), dtype=np.bool_)
    for row, vectors in enumerate(documents):
        d[row, : len(vectors)] = vectors
        mask[row, : len(vectors)] = True
    return Batch(x, d, mask)


def loss_and_gradient(
    projection: Floats, batch: Batch, loglikelihoods: Floats, objective: Objective, eta: float
) -> tuple[float, Floats]:
    """Compute the mean loss over the inputs, and its gradient in W.

    Args:
        projection: W, of shape (dimension, dimension).
        batch: The inputs and their documents.
        loglikelihoods: log P_LLM(y | d, x), of shape (n, max_documents); -inf where there is no
            document.
        objective: The loss.
        eta: Temperature of the softmax.
    """
    u, v = batch.x @ projection.T, batch.d @ projection.T
    u_length = np.linalg.norm(u, axis=-1, keepdims=True)
    v_length = np.linalg.norm(v, axis=-1, keepdims=True)
    v_length[~batch.mask] = 1.0
    u_unit, v_unit = u / u_length, v / v_length
    cosine = np.einsum("nk,njk->nj", u_unit, v_unit)
    loss, by_similarity = mean_loss(
        np.where(batch.mask, cosine, -np.inf), loglikelihoods, objective, eta
    )
    # d cosine / d u and d cosine / d v of every pair
    towards_documents = np.einsum("nj,njk->nk", by_similarity, v_unit)
    along_input = (by_similarity * cosine).sum(1, keepdims=True) * u_unit
    by_u = (towards_documents - along_input) / u_length
    by_v = by_similarity[..., None] * (u_unit[:, None] - cosine[..., None] * v_unit) / v_length
    # as one matrix product each, which einsum would not make of them
    dimension = len(projection)
    return loss, by_u.T @ batch.x + by_v.reshape(-1, dimension).T @ batch.d.reshape(-1, dimension)


def mean_loss(
    similarities: Floats, loglikelihoods: Floats, objective: Objective, eta: float
) -> tuple[float, Floats]:
    """Compute the mean loss, and its derivative in the similarities.

    Args:
        similarities: Cosines, of shape (n, max_documents); -inf where there is no document.
        loglikelihoods: log P_LLM(y | d, x), likewise.
        objective: The loss.
        eta: Temperature of the softmax.
    """
    mask = similarities > -np.inf
    p = softmax(similarities / eta, axis=1)
    rows = np.arange(len(p))
    q = softmax(loglikelihoods, axis=1)
    if objective == "kl":
        logs = np.log(np.where(q > 0, q, 1.0)) - np.log(np.where(mask, p, 1.0))
        loss, slope = (q * logs).sum(1), (p - q) / eta
    else:
        if objective == "each":
            loss, by_p = np.abs(p - q).sum(1), np.sign(p - q)
        else:
            best = p.argmax(1)
            gap = np.exp(loglikelihoods.max(1)) - p[rows, best]
            loss = np.abs(gap) if objective == "text" else gap
            by_p = np.zeros_like(p)
            by_p[rows, best] = -np.sign(gap) if objective == "text" else -1.0
        slope = p * (by_p - (p * by_p).sum(1, keepdims=True)) / eta
    return float(loss.mean()), np.where(mask, slope, 0.0) / len(p)
