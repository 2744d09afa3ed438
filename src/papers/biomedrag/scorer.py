"""The tailored chunk scorer of BiomedRAG and its losses (biomedrag.md, section 4.2.3).

P_T(d | x) is a softmax over similarities of encoder vectors after a learned projection W, which begins as the identity:
an untrained scorer is plain cosine. The encoder is frozen, so training takes seconds; `encoder_tuning` fine-tunes it.

The printed objective compares two maxima, max_d P_T(d | x) and max_d P_LLM(y | d, x), and is blind to *which* document
attains them. It is the default here; the other objectives are named in `Objective`.
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
"""text: | max P_T - max P_LLM |, as printed. code: max P_LLM - max P_T with its sign, as in the released code, where a
cosine stands for P_LLM. each: sum over documents of | P_T - P_LLM |, P_LLM normalised over the documents. kl: the
Kullback-Leibler divergence of the same two distributions (Shi et al. 2023, REPLUG)."""

ETA: Final = 0.1  # temperature of the softmax; the paper gives no value
RATE: Final = 3e-3  # learning rate of Adam
DECAY: Final = 1e-2
"""Weight of |W - I|^2, which keeps a scorer near plain cosine where there is little to learn from."""


@dataclass(frozen=True)
class Scorer:
    """P_T(d | x): softmax of cosine(W E(x), W E(d)) / eta.

    `projection` is W, of shape (dimension, dimension), `eta` the temperature; `losses` are those of each epoch, before
    its step, and empty for the plain cosine; `encoder` is E where it is the scorer's own, else None.
    """

    projection: Floats
    eta: float = ETA
    losses: tuple[float, ...] = ()
    encoder: Encoder | None = None

    def weights(self, x: Floats, documents: Floats) -> Floats:
        """P_T(d | x) for E(x), of shape (dimension,), and each E(d), of shape (documents, dimension)."""
        batch = padded([x], [documents])
        u, v = batch.x @ self.projection.T, batch.d @ self.projection.T
        lengths = np.linalg.norm(u, axis=-1)[:, None] * np.linalg.norm(v, axis=-1)
        return softmax(np.einsum("nk,njk->nj", u, v) / lengths / self.eta, axis=1)[0]

    def choose(self, x: Floats, documents: Floats) -> int:
        """Row of the likeliest document; of equals the first."""
        return int(np.argmax(self.weights(x, documents)))


def cosine_scorer(dimension: int, eta: float = ETA) -> Scorer:
    """The untrained scorer: plain cosine (the paper's ablation WTCS)."""
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
    """Fit W by Adam on all inputs in one batch, from the identity; the losses leave the decay out.

    For each input there are E(x), of shape (dimension,), E(d) of its documents, of shape (documents, dimension), and
    log P_LLM(y | d, x), of shape (documents,). `eta` is the temperature; a step of the `epochs` sees every input.

    Raises ValueError: no inputs, lengths that differ, or an unknown objective.
    """
    if not inputs or not len(inputs) == len(documents) == len(loglikelihoods):
        raise ValueError(
            f"Training needs one array of each kind an input; found {len(inputs)} inputs, {len(documents)} arrays of "
            f"documents and {len(loglikelihoods)} of likelihoods."
        )
    check(objective)
    batch = padded(inputs, documents)
    taught = np.full(batch.mask.shape, -np.inf, dtype=np.float32)
    for row, values in enumerate(loglikelihoods):
        taught[row, : len(values)] = values
    projection = identity = np.eye(batch.x.shape[1], dtype=np.float32)
    moments = np.zeros((2, *projection.shape), dtype=np.float32)
    losses = []
    for epoch in range(1, epochs + 1):
        loss, gradient = loss_and_gradient(projection, batch, taught, objective, eta)
        losses.append(loss)
        gradient += 2 * DECAY * (projection - identity)
        moments[0] = 0.9 * moments[0] + 0.1 * gradient
        moments[1] = 0.999 * moments[1] + 0.001 * gradient**2
        step = moments[0] / (1 - 0.9**epoch) / (np.sqrt(moments[1] / (1 - 0.999**epoch)) + 1e-8)
        projection = projection - RATE * step
    return Scorer(projection, eta, tuple(losses))


def check(objective: str) -> None:
    """Raise a ValueError if there is no such objective."""
    if objective not in get_args(Objective):
        raise ValueError(
            f"The objective is one of {', '.join(get_args(Objective))}; found {objective!r}."
        )


@dataclass(frozen=True)
class Batch:
    """Vectors of several inputs: x (n, dimension), d (n, most documents, dimension), mask (n, most documents)."""

    x: Floats
    d: Floats
    mask: NDArray[np.bool_]


def padded(
    inputs: Sequence[Floats], documents: Sequence[Floats], dtype: type[np.floating] = np.float32
) -> Batch:
    """Inputs and their documents in one batch."""
    x: Floats = np.stack([np.asarray(vector, dtype=dtype) for vector in inputs])
    most = max(len(of_one) for of_one in documents)
    d: Floats = np.zeros((len(x), most, x.shape[1]), dtype=dtype)
    mask = np.zeros((len(x), most), dtype=np.bool_)
    for row, of_one in enumerate(documents):
        d[row, : len(of_one)], mask[row, : len(of_one)] = of_one, True
    return Batch(x, d, mask)


def loss_and_gradient(
    projection: Floats, batch: Batch, loglikelihoods: Floats, objective: Objective, eta: float
) -> tuple[float, Floats]:
    """The mean loss over the inputs, and its gradient in W.

    `loglikelihoods`, of shape (n, most documents), are -inf where there is no document.
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
    by_u = (
        np.einsum("nj,njk->nk", by_similarity, v_unit)
        - (by_similarity * cosine).sum(1, keepdims=True) * u_unit
    ) / u_length
    by_v = by_similarity[..., None] * (u_unit[:, None] - cosine[..., None] * v_unit) / v_length
    # as one matrix product each, which einsum would not make of them
    dimension = len(projection)
    return loss, by_u.T @ batch.x + by_v.reshape(-1, dimension).T @ batch.d.reshape(-1, dimension)


def mean_loss(
    similarities: Floats, loglikelihoods: Floats, objective: Objective, eta: float
) -> tuple[float, Floats]:
    """The mean loss, and its derivative in the similarities; both arguments are -inf where there is no document."""
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
