"""Sentence vectors: encoders of texts.

The default encoder is all-MiniLM-L6-v2 (Reimers & Gurevych 2019), read from its ONNX file and run by OpenVINO on the
processor: no torch, no hub. It stands in for the hosted ada-002 of side_effects.md (Methods, "Text RAG framework");
vectors have length 1, so that an inner product is the cosine similarity that the paper's store used.

Activations stay in floating point (bfloat16 where the processor has instructions for it, else float32). They are not
quantised on the fly: that takes its scale from the whole batch, and a text would get another vector in other company
(cosine down to 0.990; between the two floating-point kinds it is above 0.9999).
Texts are batched by equal length and never padded, so a text's vector does not depend on what is encoded beside it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from queue import SimpleQueue
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from tqdm import tqdm

from helpers import datasets
from helpers.settings import PublicError

# OpenVINO reports its use to its maker on import if this package can be imported; without it, it takes its own stub.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
import openvino as ov  # noqa: E402

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
BATCH_TOKENS = 2048
"""Tokens encoded at once by one thread: enough to keep it busy, few enough to stay in its cache."""
TOKENISED_AT_ONCE = 8192
MATCHING_LAYERS = {"microsoft/deberta-xlarge-mnli": 40}
"""The layer whose token vectors BERTScore takes, where its authors tuned one on human judgements (WMT16)."""


class EncoderUnavailable(PublicError, RuntimeError):
    """No encoder of that name can be loaded; the message says what to install."""


class Encoder(ABC):
    """Turns texts into vectors of length 1.

    Attributes:
        name: the model's name.
        engine: what runs it, with version and precision, for the record.
        digest: SHA-256 of what decides the vectors (weights and tokeniser).
        dimension: numbers in a vector.
        max_tokens: tokens of a text that the model sees, its two special tokens included.
        truncated: texts of the last `encode` that were longer; what follows `max_tokens` left no trace in their vector.
    """

    name: str
    engine: str
    digest: str
    dimension: int
    max_tokens: int
    truncated: int = 0

    def encode(self, texts: Sequence[str], progress: bool = True) -> Floats:
        """Vectors of `texts`, float32 of shape (n, dimension), each of Euclidean length 1.

        A text that occurs several times is encoded once. Texts over `max_tokens` are counted in `truncated` and in a
        logged warning.

        Raises:
            TypeError: `texts` is one string, or holds something that is not a string.
        """
        if isinstance(texts, str):
            raise TypeError("encode takes a list of texts, not one string. Write encode([text]).")
        texts = list(texts)
        for row, text in enumerate(texts):
            if not isinstance(text, str):
                raise TypeError(f"encode takes strings; text {row} is {text!r}. Drop or fill missing values first.")
        unique = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        rows = np.fromiter((unique[text] for text in texts), dtype=np.int64, count=len(texts))
        vectors, cut = self._encode(list(unique), progress)
        self.truncated = int(cut[rows].sum())
        if self.truncated:
            log.warning(
                "%d of %d texts are longer than the %d tokens that %s sees; the rest of them was left out.",
                self.truncated,
                len(texts),
                self.max_tokens,
                self.name,
            )
        return vectors[rows]

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of `texts` are longer than `max_tokens`, without encoding them."""
        return int(self._cut(list(texts)).sum())

    def token_vectors(self, texts: Sequence[str], progress: bool = True) -> list[Floats]:
        """Hidden states of each text's own tokens (no [CLS], no [SEP]), float32 of shape (tokens, d), each of length 1.

        What BERTScore matches (Zhang et al. 2020, section 3). An empty text has none. Texts longer than the model has
        positions for are counted in `truncated`.

        Raises:
            EncoderUnavailable: this encoder gives one vector a text and no more.
        """
        raise EncoderUnavailable(f"{self.name} gives no vectors of tokens. Use {DEFAULT_ENCODER!r} or a hub's model.")

    @abstractmethod
    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, npt.NDArray[np.bool_]]:
        """Vectors of distinct texts, and which texts were cut."""

    @abstractmethod
    def _cut(self, texts: list[str]) -> npt.NDArray[np.bool_]:
        """Which texts are longer than `max_tokens`."""


class MiniLM(Encoder):
    """all-MiniLM-L6-v2: mean of the last hidden states, int8 weights, 256 tokens as in its own configuration."""

    name = DEFAULT_ENCODER
    max_tokens = 256
    positions = 512
    """Tokens that the model can see at all. Its own configuration stops at 256 for vectors of whole texts."""

    def __init__(self) -> None:
        """Fetch the weights if need be and compile them for this processor."""
        weights = datasets.fetch(f"models/{self.name}/model.onnx")
        tokenizer = datasets.fetch(f"models/{self.name}/tokenizer.json")
        self.digest = text_digest([datasets.digest(weights), datasets.digest(tokenizer)])
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._threads = threads()
        self._model = ov.Core().compile_model(
            weights,
            "CPU",
            {
                # one stream of work a thread beats one stream on all threads by a quarter
                "NUM_STREAMS": self._threads,
                "INFERENCE_NUM_THREADS": self._threads,
                # other notebooks and the LLM server use the same cores
                "ENABLE_CPU_PINNING": False,
                "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0,
            },
        )
        self.dimension = self._model.output(0).get_partial_shape()[2].get_length()
        precision = self._model.get_property("INFERENCE_PRECISION_HINT").to_string()
        self.engine = f"openvino {ov.get_version().partition('-')[0]} {precision}"
        # OpenVINO looks numpy up at its first use; two threads that come to that at once wait for each other for ever.
        self._states(self._model.create_infer_request(), np.zeros((1, 2), dtype=np.int64))

    @staticmethod
    def _states(request: ov.InferRequest, ids: Integers) -> Floats:
        """The last hidden states (texts, tokens, d); the memory is the request's, until its next use."""
        request.infer({"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})
        return cast(Floats, request.get_output_tensor(0).data)

    def token_vectors(self, texts: Sequence[str], progress: bool = True) -> list[Floats]:
        """See `Encoder.token_vectors`; the last hidden states, of the first 512 tokens."""
        unique = {text: row for row, text in enumerate(dict.fromkeys(texts))}
        tokens, cut = self._tokens(list(unique), self.positions)
        found: list[Floats] = [np.empty((0, self.dimension), np.float32)] * len(unique)

        def keep(states: Floats, rows: Integers) -> None:
            lengths = np.linalg.norm(states, axis=2, keepdims=True)
            for row, vectors in zip(rows, (states / lengths)[:, 1:-1], strict=True):
                found[row] = vectors

        self._run(tokens, keep, progress)
        self.truncated = sum(bool(cut[unique[text]]) for text in texts)
        return [found[unique[text]] for text in texts]

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, npt.NDArray[np.bool_]]:
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        tokens, cut = self._tokens(texts, self.max_tokens)

        def keep(states: Floats, rows: Integers) -> None:
            means = states.mean(axis=1)
            vectors[rows] = means / np.linalg.norm(means, axis=1, keepdims=True)

        self._run(tokens, keep, progress)
        return vectors, cut

    def _run(
        self, tokens: list[npt.NDArray[np.int32]], keep: Callable[[Floats, Integers], None], progress: bool
    ) -> None:
        """Give the last hidden states of each batch, (texts, tokens, d), and the rows of its texts to `keep`."""
        # Threads of Python's own, each with a request. OpenVINO's queue calls back from its threads. One of those may
        # still wait for the interpreter when the model is dropped, and who drops it waits for that thread: a deadlock.
        free: SimpleQueue[ov.InferRequest] = SimpleQueue()
        for _ in range(self._threads):
            free.put(self._model.create_infer_request())

        def infer(rows: Integers) -> int:
            ids = np.stack([tokens[row] for row in rows]).astype(np.int64)
            request = free.get()
            keep(self._states(request, ids), rows)
            free.put(request)
            return len(rows)

        with (
            ThreadPoolExecutor(self._threads) as pool,
            tqdm(total=len(tokens), desc=f"encode by {self.name}", unit="text", disable=not progress) as bar,
        ):
            for texts in pool.map(infer, _batches(tokens)):
                bar.update(texts)

    def _cut(self, texts: list[str]) -> npt.NDArray[np.bool_]:
        return self._tokens(texts, self.max_tokens)[1]

    def _tokens(self, texts: list[str], longest: int) -> tuple[list[npt.NDArray[np.int32]], npt.NDArray[np.bool_]]:
        tokens: list[npt.NDArray[np.int32]] = []
        cut = np.zeros(len(texts), dtype=np.bool_)
        self._tokenizer.enable_truncation(longest)
        # in parts, for an encoding takes a hundred times the memory of its token numbers
        for start in range(0, len(texts), TOKENISED_AT_ONCE):
            for encoding in self._tokenizer.encode_batch_fast(texts[start : start + TOKENISED_AT_ONCE]):
                cut[len(tokens)] = bool(encoding.overflowing)
                tokens.append(np.array(encoding.ids, dtype=np.int32))
        return tokens, cut


class SentenceTransformers(Encoder):
    """Any sentence-transformers model by name, from a hub or a folder; needs the extra `encoders`."""

    def __init__(self, name: str) -> None:
        """Load the model.

        Raises:
            EncoderUnavailable: sentence-transformers is not installed, or it cannot load the model.
        """
        try:
            import sentence_transformers  # noqa: PLC0415  # an extra: the default needs no torch
        except ImportError:
            raise EncoderUnavailable(
                f"The encoder {name!r} needs sentence-transformers, which is not installed. Install the extra "
                f"`encoders` (pip install '.[encoders]'), or use {DEFAULT_ENCODER!r}, which needs nothing more."
            ) from None
        try:
            self._model = sentence_transformers.SentenceTransformer(name)
        except (OSError, ValueError) as error:
            raise EncoderUnavailable(
                f"The encoder {name!r} could not be loaded. Check its name and that a model hub can be "
                f"reached, or use {DEFAULT_ENCODER!r}. The library says: {error}"
            ) from error
        self.name = name
        self.engine = f"sentence-transformers {sentence_transformers.__version__} on {self._model.device}"
        self.dimension = int(self._model.encode([name], show_progress_bar=False).shape[1])
        self.max_tokens = int(self._model.max_seq_length or sys.maxsize)
        weights = hashlib.sha256()
        for key, tensor in sorted(self._model.state_dict().items()):
            weights.update(key.encode())
            weights.update(tensor.float().cpu().numpy().tobytes())
        self.digest = weights.hexdigest()

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, npt.NDArray[np.bool_]]:
        vectors = self._model.encode(
            texts, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=progress
        )
        return np.asarray(vectors, dtype=np.float32).reshape(-1, self.dimension), self._cut(texts)

    def token_vectors(self, texts: Sequence[str], progress: bool = True) -> list[Floats]:
        """See `Encoder.token_vectors`; of the layer that `MATCHING_LAYERS` names, else of the last."""
        import torch  # noqa: PLC0415  # comes with the extra

        layer = MATCHING_LAYERS.get(self.name, -1)
        found: dict[str, Floats] = {}
        for text in tqdm(list(dict.fromkeys(texts)), desc=f"encode by {self.name}", unit="text", disable=not progress):
            fields = self._model.tokenizer(
                text,
                truncation=True,
                max_length=self.max_tokens,
                return_special_tokens_mask=True,
                return_tensors="pt",
            )
            own = fields.pop("special_tokens_mask")[0] == 0
            with torch.inference_mode():
                states = self._model[0].auto_model(**fields.to(self._model.device), output_hidden_states=True)
            vectors = states.hidden_states[layer][0].float().cpu()[own]
            found[text] = torch.nn.functional.normalize(vectors, dim=1).numpy()
        self.truncated = self.count_truncated(texts)
        return [found[text] for text in texts]

    def _cut(self, texts: list[str]) -> npt.NDArray[np.bool_]:
        lengths = [len(ids) for ids in self._model.tokenizer(texts, verbose=False)["input_ids"]] if texts else []
        return np.array(lengths, dtype=np.int64) > self.max_tokens


class Remembering(Encoder):
    """Another encoder's vectors, each text encoded once however often it is asked for."""

    def __init__(self, inner: Encoder) -> None:
        """Begin with nothing remembered."""
        self.name, self.engine, self.digest = inner.name, inner.engine, inner.digest
        self.dimension, self.max_tokens = inner.dimension, inner.max_tokens
        self._inner = inner
        self._known: dict[str, tuple[Floats, bool]] = {}

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, npt.NDArray[np.bool_]]:
        new = [text for text in texts if text not in self._known]
        if new:
            vectors, cut = self._inner._encode(new, progress)
            self._known |= {text: (vectors[row], bool(cut[row])) for row, text in enumerate(new)}
        rows = [self._known[text] for text in texts]
        vectors = np.stack([vector for vector, _ in rows]) if rows else np.empty((0, self.dimension), np.float32)
        return vectors, np.array([cut for _, cut in rows], dtype=np.bool_)

    def _cut(self, texts: list[str]) -> npt.NDArray[np.bool_]:
        return self._inner._cut(texts)


def encoder(name: str = DEFAULT_ENCODER) -> Encoder:
    """The encoder of that name, loaded once a process.

    Args:
        name: all-MiniLM-L6-v2, which needs no hub, or any sentence-transformers model where the extra `encoders` is
            installed.

    Raises:
        EncoderUnavailable: the name needs something that is not installed or cannot be loaded.
        helpers.datasets.DataUnavailable: the weights are not here and no source gave them.
    """
    return _loaded(name)


@lru_cache(maxsize=2)
def _loaded(name: str) -> Encoder:
    return MiniLM() if name == DEFAULT_ENCODER else SentenceTransformers(name)


def threads() -> int:
    """Threads to compute with: `OMP_NUM_THREADS`, else the processors that this process may use."""
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    if wanted.isdecimal() and int(wanted) > 0:
        return int(wanted)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _batches(tokens: list[npt.NDArray[np.int32]]) -> Iterator[Integers]:
    """Rows of equally long texts, the longest first, about `BATCH_TOKENS` tokens at a time."""
    lengths = np.array([len(ids) for ids in tokens], dtype=np.int64)
    for length in np.unique(lengths)[::-1]:
        rows = np.flatnonzero(lengths == length)
        yield from np.split(rows, range(size := max(1, BATCH_TOKENS // int(length)), len(rows), size))


def text_digest(texts: Sequence[Any]) -> str:
    """SHA-256 of a sequence of strings, of each with its length so that ["ab"] is not ["a", "b"]."""
    content = hashlib.sha256()
    for text in texts:
        coded = text.encode("utf-8", "surrogatepass")
        content.update(len(coded).to_bytes(8, "little"))
        content.update(coded)
    return content.hexdigest()
