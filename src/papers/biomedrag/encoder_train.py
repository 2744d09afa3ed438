"""Fine-tune the encoder of BiomedRAG's chunk scorer, or encode by it. Run by `training_child.py`, never imported.

A vector is the mean of the last hidden states of a text's tokens, at length 1, as sentence-transformers makes it.
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


def mean_loss(similarities: Any, taught: Any, objective: str, eta: float) -> Any:  # noqa: ANN401  # tensors
    """The loss of `scorer.mean_loss`, of tensors (inputs, most documents); `taught` is -inf where there is none."""
    mask = taught > -math.inf
    logs = torch.log_softmax(similarities.masked_fill(~mask, -math.inf) / eta, dim=1)
    p, q = logs.exp(), torch.softmax(taught, dim=1)
    if objective == "kl":
        return (torch.special.xlogy(q, q) - q * logs.masked_fill(~mask, 0.0)).sum(1).mean()
    if objective == "each":
        return (p - q).abs().sum(1).mean()
    gap = taught.max(1).values.exp() - p.max(1).values
    return (gap.abs() if objective == "text" else gap).mean()


class TextEncoder:
    """A model with its tokeniser."""

    def __init__(self, base: str, max_tokens: int) -> None:
        """Load both."""
        self.tokenizer = AutoTokenizer.from_pretrained(base)
        self.model = AutoModel.from_pretrained(base, dtype=torch.float32).to(DEVICE)
        self.longest = min(max_tokens, self.model.config.max_position_embeddings)

    def __call__(self, texts: Sequence[str]) -> Any:  # noqa: ANN401  # a tensor
        """Vectors, (texts, dimension)."""
        fields = self.tokenizer(
            list(texts), padding=True, truncation=True, max_length=self.longest, return_tensors="pt"
        ).to(DEVICE)
        states = self.model(**fields).last_hidden_state
        mask = fields["attention_mask"].unsqueeze(-1)
        return normalize((states * mask).sum(1) / mask.sum(1), dim=1)

    def similarities(self, inputs: Sequence[dict[str, Any]]) -> tuple[Any, Any]:
        """Cosines of inputs and their documents, and what was taught of them; both (inputs, most documents)."""
        vectors = self([text for one in inputs for text in (one["text"], *one["documents"])])
        shape = (len(inputs), max(len(one["documents"]) for one in inputs))
        cosines, taught = (
            torch.zeros(shape, device=DEVICE),
            torch.full(shape, -math.inf, device=DEVICE),
        )
        start = 0
        for row, one in enumerate(inputs):
            n = len(one["documents"])
            cosines[row, :n] = vectors[start + 1 : start + 1 + n] @ vectors[start]
            taught[row, :n] = torch.tensor(one["loglikelihoods"], device=DEVICE)
            start += 1 + n
        return cosines, taught


def main(job: dict[str, Any], folder: Path, say: Callable[..., None]) -> None:
    """Write the vectors of the job's texts, or the encoder tuned on its inputs."""
    torch.set_num_threads(job["threads"])
    if "texts" in job:
        encode(job, folder, say)
    else:
        tune(job, folder, say)


def tune(job: dict[str, Any], folder: Path, say: Callable[..., None]) -> None:
    """Fine-tune all weights of the base by AdamW; the rate rises for a tenth of the steps, then falls to 0."""
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
            loss = mean_loss(
                *encoder.similarities([inputs[row] for row in rows]), job["objective"], job["eta"]
            )
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
    say(done=True, dimension=size, max_tokens=encoder.longest, seconds=time.perf_counter() - began)


def encode(job: dict[str, Any], folder: Path, say: Callable[..., None]) -> None:
    """Write the texts' vectors in their order; texts of one length stand in one batch as far as may be."""
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
