"""Fine-tune the encoder of BiomedRAG's chunk scorer, or encode by it.

`training_child.py` runs it in the LLM engine's environment; nothing imports it. A vector is the
mean of the last hidden states of a text's tokens, at length 1, as sentence-transformers makes it.
A change of what is computed needs another `encoder_tuning.METHOD`.
"""

import math
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import normalize
from transformers import AutoModel, AutoTokenizer, get_linear_schedule_with_warmup, set_seed

ENCODED_AT_ONCE = 64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def mean_loss(
    similarities: Any,  # noqa: ANN401  # a tensor
    loglikelihoods: Any,  # noqa: ANN401  # a tensor
    objective: str,
    eta: float,
) -> Any:  # noqa: ANN401  # a tensor
    """Compute the loss of `scorer.mean_loss`.

    Args:
        similarities: Cosines, of shape (n_inputs, max_documents).
        loglikelihoods: log P_LLM(y | d, x), likewise; -inf where there is no document.
        objective: The loss.
        eta: Temperature of the softmax.
    """
    mask = loglikelihoods > -math.inf
    logs = torch.log_softmax(similarities.masked_fill(~mask, -math.inf) / eta, dim=1)
    p, q = logs.exp(), torch.softmax(loglikelihoods, dim=1)
    if objective == "kl":
        return (torch.special.xlogy(q, q) - q * logs.masked_fill(~mask, 0.0)).sum(1).mean()
    if objective == "each":
        return (p - q).abs().sum(1).mean()
    gap = loglikelihoods.max(1).values.exp() - p.max(1).values
    return (gap.abs() if objective == "text" else gap).mean()


class TextEncoder:
    """A model with its tokeniser."""

    def __init__(self, base: str, max_tokens: int) -> None:
        """Load both."""
        self.tokenizer = AutoTokenizer.from_pretrained(base)
        self.model = AutoModel.from_pretrained(base, dtype=torch.float32).to(DEVICE)
        self.max_tokens = min(max_tokens, self.model.config.max_position_embeddings)

    def __call__(self, texts: Sequence[str]) -> Any:  # noqa: ANN401  # a tensor
        """Encode texts.

        Returns:
            The vectors, of shape (n_texts, dimension).
        """
        fields = self.tokenizer(
            list(texts),
            padding=True,
            truncation=True,
            max_length=self.max_tokens,
            return_tensors="pt",
        ).to(DEVICE)
        states = self.model(**fields).last_hidden_state
        mask = fields["attention_mask"].unsqueeze(-1)
        return normalize((states * mask).sum(1) / mask.sum(1), dim=1)

    def similarities(self, inputs: Sequence[dict[str, Any]]) -> tuple[Any, Any]:
        """Compare inputs with their documents.

        Returns:
            Cosines and log-likelihoods, both of shape (n_inputs, max_documents).
        """
        texts = []
        for item in inputs:
            texts += [item["text"], *item["documents"]]
        vectors = self(texts)
        shape = (len(inputs), max(len(item["documents"]) for item in inputs))
        cosines = torch.zeros(shape, device=DEVICE)
        loglikelihoods = torch.full(shape, -math.inf, device=DEVICE)
        start = 0
        for row, item in enumerate(inputs):
            n = len(item["documents"])
            cosines[row, :n] = vectors[start + 1 : start + 1 + n] @ vectors[start]
            loglikelihoods[row, :n] = torch.tensor(item["loglikelihoods"], device=DEVICE)
            start += 1 + n
        return cosines, loglikelihoods


def main(job: dict[str, Any], folder: Path, say: Callable[..., None]) -> None:
    """Write the vectors of the job's texts, or the encoder tuned on its inputs."""
    torch.set_num_threads(job["threads"])
    if "texts" in job:
        encode(job, folder, say)
    else:
        tune(job, folder, say)


def tune(job: dict[str, Any], folder: Path, say: Callable[..., None]) -> None:
    """Fine-tune all weights of the base by AdamW.

    The learning rate rises for a tenth of the steps, then falls to 0.
    """
    inputs, began, done = job["inputs"], time.perf_counter(), 0
    set_seed(job["seed"])
    encoder = TextEncoder(job["base"], job["max_tokens"])
    encoder.model.train()
    optimiser = torch.optim.AdamW(encoder.model.parameters(), lr=job["rate"], weight_decay=0.01)
    steps = job["epochs"] * math.ceil(len(inputs) / job["batch"])
    schedule = get_linear_schedule_with_warmup(optimiser, steps // 10, steps)
    for _ in range(job["epochs"]):
        order, total = torch.randperm(len(inputs)).tolist(), 0.0
        for start in range(0, len(order), job["batch"]):
            rows = order[start : start + job["batch"]]
            cosines, loglikelihoods = encoder.similarities([inputs[row] for row in rows])
            loss = mean_loss(cosines, loglikelihoods, job["objective"], job["eta"])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(encoder.model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            optimiser.zero_grad()
            total += float(loss.detach()) * len(rows)
            done += 1
            say(step=done)
        say(step=done, loss=total / len(order))
    folder.mkdir()
    encoder.model.save_pretrained(folder)
    encoder.tokenizer.save_pretrained(folder)
    size = encoder.model.config.hidden_size
    seconds = time.perf_counter() - began
    say(done=True, dimension=size, max_tokens=encoder.max_tokens, seconds=seconds)


def encode(job: dict[str, Any], folder: Path, say: Callable[..., None]) -> None:
    """Write the texts' vectors in their order; texts of about the same length share a batch."""
    encoder = TextEncoder(job["base"], job["max_tokens"])
    encoder.model.eval()
    texts = job["texts"]
    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    vectors = np.empty((len(texts), encoder.model.config.hidden_size), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(order), ENCODED_AT_ONCE):
            rows = order[start : start + ENCODED_AT_ONCE]
            vectors[rows] = encoder([texts[row] for row in rows]).cpu().numpy()
            say(step=start + len(rows))
    folder.mkdir()
    np.save(folder / "vectors.npy", vectors)
    say(done=True)
