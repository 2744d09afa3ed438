"""Encoders of texts into vectors of length 1, so that an inner product is a cosine.

The default, all-MiniLM-L6-v2 (Reimers & Gurevych 2019), stands in for the hosted ada-002 of side_effects.md (Methods).
A vector does not depend on what is encoded beside it, nor on the processor but in the seventh digit: activations are
neither quantised nor rounded, and texts never padded.
"""

import hashlib
import logging
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from tqdm import tqdm

from helpers.neighbours import text_digest
from resources import artifacts, datasets
from resources.settings import DERIVED, PublicError, threads

# OpenVINO reports its use to its maker on import if this package can be imported; without it, it takes its own stub.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
import openvino as ov  # noqa: E402

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
INSTALL = ".venv/bin/python -m pip install -e '.[encoders]'"
"""The line, typed in the project's folder, that brings what models from a hub need."""
BATCH_TOKENS = (
    2048  # tokens per batch of one thread: enough to keep it busy, few enough to stay in its cache
)
TOKENISED_AT_ONCE = 8192
VECTORS = DERIVED / "vectors"
FILE = "vectors.npz"
KEPT_FROM = 256
MATCHING_LAYERS = {"microsoft/deberta-xlarge-mnli": 40}
"""The layer whose token vectors BERTScore takes, where its authors tuned one on human judgements (WMT16)."""


class EncoderUnavailable(PublicError, RuntimeError):
    """No encoder of that name can be loaded; the message says what to install."""


class Encoder(ABC):
    """Turns texts into vectors of length 1.

    `engine` is what runs it, with version and precision; `digest` is of what decides the vectors; `truncated` counts
    texts of the last `encode` beyond `max_tokens` (two special ones included), whose rest left no trace.
    """

    name: str
    engine: str
    digest: str
    dimension: int
    max_tokens: int
    truncated: int = 0

    def encode(self, texts: Sequence[str], progress: bool = True) -> Floats:
        """Vectors of `texts`, float32 of shape (n, dimension); each distinct text is encoded once."""
        unique, rows = _distinct(texts)
        vectors, cut = self._encode(unique, progress)
        self.truncated = int(cut[rows].sum())
        if self.truncated:
            seen = f"the {self.max_tokens} tokens that {self.name} sees"
            log.warning(
                "%d of %d texts are longer than %s; the rest was left out.",
                self.truncated,
                len(texts),
                seen,
            )
        return vectors[rows]

    def count_truncated(self, texts: Sequence[str]) -> int:
        """How many of `texts` are longer than `max_tokens`, without encoding them."""
        return int(self._cut(list(texts)).sum())

    def token_vectors(self, texts: Sequence[str], progress: bool = True) -> list[Floats]:
        """Vectors of length 1 of each text's tokens but [CLS] and [SEP], float32 (tokens, d), for BERTScore."""
        unique, rows = _distinct(texts)
        vectors, cut = self._encode_tokens(unique, progress)
        self.truncated = int(cut[rows].sum())
        return [vectors[row] for row in rows]

    def _encode_tokens(self, texts: list[str], progress: bool) -> tuple[list[Floats], Flags]:
        """Vectors of the tokens of distinct texts, and which texts were cut."""
        raise EncoderUnavailable(
            f"{self.name} gives no vectors of tokens. Use {DEFAULT_ENCODER!r} or a hub's model."
        )

    @abstractmethod
    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, Flags]:
        """Vectors of distinct texts, and which texts were cut."""

    @abstractmethod
    def _cut(self, texts: list[str]) -> Flags:
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
        self.digest = text_digest([datasets.digest(weights), datasets.digest(tokenizer), "f32"])
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._threads = threads()
        # one stream of work a thread beats one stream on all threads by a quarter; others use the same cores
        streams = {
            "NUM_STREAMS": self._threads,
            "INFERENCE_NUM_THREADS": self._threads,
            "ENABLE_CPU_PINNING": False,
        }
        # in bfloat16, the default where there is hardware for it, processors differ in the third digit: other texts are
        # retrieved, and prompts have no stored replies; it is a third faster
        exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
        self._model = ov.Core().compile_model(weights, "CPU", streams | exact)
        self.dimension = self._model.output(0).get_partial_shape()[2].get_length()
        precision = self._model.get_property("INFERENCE_PRECISION_HINT").to_string()
        self.engine = f"openvino {ov.get_version().partition('-')[0]} {precision}"
        # OpenVINO looks numpy up at its first use; two threads that come to that at once wait for each other for ever.
        self.encode([""], progress=False)

    def _encode_tokens(self, texts: list[str], progress: bool) -> tuple[list[Floats], Flags]:
        """The last hidden states, of the first 512 tokens."""
        return self._run(texts, self.positions, lambda states: states[:, 1:-1], progress)

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, Flags]:
        vectors, cut = self._run(
            texts, self.max_tokens, lambda states: states.mean(axis=1), progress
        )
        return np.array(vectors, dtype=np.float32).reshape(-1, self.dimension), cut

    def _run(
        self, texts: list[str], longest: int, read: Callable[[Floats], Floats], progress: bool
    ) -> tuple[list[Floats], Flags]:
        """What `read` takes of last hidden states (texts, tokens, d), brought to length 1, by text; which were cut."""
        tokens, cut = self._tokens(texts, longest)
        found: dict[int, Floats] = {}
        # Threads of Python's own, each with a request. OpenVINO's queue calls back from its threads. One of those may
        # still wait for the interpreter when the model is dropped, and who drops it waits for that thread: a deadlock.
        free: SimpleQueue[ov.InferRequest] = SimpleQueue()
        for _ in range(self._threads):
            free.put(self._model.create_infer_request())

        def infer(rows: Integers) -> int:
            ids = np.stack([tokens[row] for row in rows]).astype(np.int64)
            request = free.get()
            request.infer(
                {
                    "input_ids": ids,
                    "attention_mask": np.ones_like(ids),
                    "token_type_ids": np.zeros_like(ids),
                }
            )
            vectors = read(
                request.get_output_tensor(0).data
            )  # the request's own memory, until its next use
            found.update(
                zip(
                    rows.tolist(),
                    vectors / np.linalg.norm(vectors, axis=-1, keepdims=True),
                    strict=True,
                )
            )
            free.put(request)
            return len(rows)

        with (
            ThreadPoolExecutor(self._threads) as pool,
            tqdm(
                total=len(tokens), desc=f"encode by {self.name}", unit="text", disable=not progress
            ) as bar,
        ):
            for done in pool.map(infer, _batches(tokens)):
                bar.update(done)
        return [found[row] for row in range(len(texts))], cut

    def _cut(self, texts: list[str]) -> Flags:
        return self._tokens(texts, self.max_tokens)[1]

    def _tokens(self, texts: list[str], longest: int) -> tuple[list[npt.NDArray[np.int32]], Flags]:
        tokens: list[npt.NDArray[np.int32]] = []
        cut = np.zeros(len(texts), dtype=np.bool_)
        self._tokenizer.enable_truncation(longest)
        # in parts, for an encoding takes a hundred times the memory of its token numbers
        for start in range(0, len(texts), TOKENISED_AT_ONCE):
            for encoding in self._tokenizer.encode_batch_fast(
                texts[start : start + TOKENISED_AT_ONCE]
            ):
                cut[len(tokens)] = bool(encoding.overflowing)
                tokens.append(np.array(encoding.ids, dtype=np.int32))
        return tokens, cut


def from_hub(made: str, name: str) -> Any:  # noqa: ANN401  # a class of a library that need not be installed
    """The model `name` of a hub or a folder, by a class of sentence-transformers, or an EncoderUnavailable."""
    what = {"SentenceTransformer": "encoder", "CrossEncoder": "cross-encoder"}[made]
    try:
        import sentence_transformers  # noqa: PLC0415  # an extra: the default needs no torch

        return getattr(sentence_transformers, made)(name)
    except (ImportError, OSError, ValueError) as error:
        raise EncoderUnavailable(
            f"The {what} {name!r} needs sentence-transformers (the extra `encoders`: in the project's folder {INSTALL})"
            f" and a model hub that has it. Or use {DEFAULT_ENCODER!r}, which needs neither. The library says: {error}"
        ) from error


class SentenceTransformers(Encoder):
    """Any sentence-transformers model by name, from a hub or a folder; needs the extra `encoders`."""

    def __init__(self, name: str) -> None:
        """Load the model; see `from_hub`."""
        self._model = from_hub("SentenceTransformer", name)
        self.name = name
        self.engine = (
            f"sentence-transformers {version('sentence-transformers')} on {self._model.device}"
        )
        self.dimension = int(self._model.encode([name], show_progress_bar=False).shape[1])
        self.max_tokens = int(self._model.max_seq_length or sys.maxsize)
        weights = hashlib.sha256()
        for key, tensor in sorted(self._model.state_dict().items()):
            weights.update(key.encode())
            weights.update(tensor.float().cpu().numpy().tobytes())
        self.digest = weights.hexdigest()

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, Flags]:
        vectors = self._model.encode(
            texts, normalize_embeddings=True, convert_to_numpy=True, show_progress_bar=progress
        )
        return np.asarray(vectors, dtype=np.float32).reshape(-1, self.dimension), self._cut(texts)

    def _encode_tokens(self, texts: list[str], progress: bool) -> tuple[list[Floats], Flags]:
        """Of the layer that `MATCHING_LAYERS` names, else of the last."""
        import torch  # noqa: PLC0415  # comes with the extra

        layer, found = MATCHING_LAYERS.get(self.name, -1), []
        options = {
            "truncation": True,
            "max_length": self.max_tokens,
            "return_special_tokens_mask": True,
        }
        for text in tqdm(texts, desc=f"encode by {self.name}", unit="text", disable=not progress):
            fields = self._model.tokenizer(text, return_tensors="pt", **options)
            own = fields.pop("special_tokens_mask")[0] == 0
            with torch.inference_mode():
                states = self._model[0].auto_model(
                    **fields.to(self._model.device), output_hidden_states=True
                )
            vectors = states.hidden_states[layer][0].float().cpu()[own]
            found.append(torch.nn.functional.normalize(vectors, dim=1).numpy())
        return found, self._cut(texts)

    def _cut(self, texts: list[str]) -> Flags:
        lengths = (
            [len(ids) for ids in self._model.tokenizer(texts, verbose=False)["input_ids"]]
            if texts
            else []
        )
        return np.array(lengths, dtype=np.int64) > self.max_tokens


class Remembering(Encoder):
    """Another encoder's vectors, each text encoded once however often it is asked for.

    Those of `KEPT_FROM` new texts or more are stored, for the next run that encodes the same with the same weights.
    """

    def __init__(self, inner: Encoder) -> None:
        """Begin with nothing remembered."""
        self.name, self.engine, self.digest = inner.name, inner.engine, inner.digest
        self.dimension, self.max_tokens = inner.dimension, inner.max_tokens
        self._inner = inner
        self._known: dict[str, tuple[Floats, np.bool_]] = {}

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, Flags]:
        if new := [text for text in texts if text not in self._known]:
            self._known |= dict(
                zip(new, zip(*self._stored(new, progress), strict=True), strict=True)
            )
        found = [self._known[text] for text in texts]
        vectors = np.array([vector for vector, _ in found], dtype=np.float32).reshape(
            -1, self.dimension
        )
        return vectors, np.array([cut for _, cut in found], dtype=np.bool_)

    def _stored(self, texts: list[str], progress: bool) -> tuple[Floats, Flags]:
        if len(texts) < KEPT_FROM:
            return self._inner._encode(texts, progress)

        def load(folder: Path) -> tuple[Floats, Flags]:
            artifacts.read_log(folder, FILE)
            with np.load(folder / FILE) as kept:
                return kept["vectors"], kept["cut"]

        def make(folder: Path) -> tuple[Floats, Flags]:
            vectors, cut = self._inner._encode(texts, progress)
            with artifacts.replacing(folder) as part:
                part.mkdir()
                np.savez(part / FILE, vectors=vectors, cut=cut)
                artifacts.write_log(part, FILE, {"engine": self.engine})
            return vectors, cut

        return artifacts.kept(VECTORS, self.name, [self.digest, text_digest(texts)], load, make)

    def _cut(self, texts: list[str]) -> Flags:
        return self._inner._cut(texts)


def encoder(name: str = DEFAULT_ENCODER) -> Encoder:
    """The encoder of that name, loaded once a process: `DEFAULT_ENCODER`, or a sentence-transformers model."""
    return _loaded(name)


@lru_cache(maxsize=2)
def _loaded(name: str) -> Encoder:
    return MiniLM() if name == DEFAULT_ENCODER else SentenceTransformers(name)


def _distinct(texts: Sequence[str]) -> tuple[list[str], Integers]:
    """The texts without repetition, and the row of each text among these; a TypeError for what is no list of texts."""
    if isinstance(texts, str):
        raise TypeError("encode takes a list of texts, not one string. Write encode([text]).")
    if wrong := [(row, text) for row, text in enumerate(texts) if not isinstance(text, str)]:
        raise TypeError(
            "encode takes strings; text {} is {!r}. Drop or fill missing values.".format(*wrong[0])
        )
    unique = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    return list(unique), np.array([unique[text] for text in texts], dtype=np.int64)


def _batches(tokens: list[npt.NDArray[np.int32]]) -> Iterator[Integers]:
    """Rows of equally long texts, the longest first, about `BATCH_TOKENS` tokens at a time."""
    lengths = np.array([len(ids) for ids in tokens], dtype=np.int64)
    for length in np.unique(lengths)[::-1]:
        rows = np.flatnonzero(lengths == length)
        yield from np.split(
            rows, range(size := max(1, BATCH_TOKENS // int(length)), len(rows), size)
        )
