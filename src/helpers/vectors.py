"""Encoders that map texts to vectors of length 1, so that an inner product is a cosine.

The default, all-MiniLM-L6-v2 (Reimers & Gurevych 2019), stands in for ada-002, the hosted encoder
of the paper on drug side effects (its Methods). With this default, the vector of a text does not
depend on the texts that are encoded with it, because texts are never padded. The vector depends on
the processor only in the seventh digit, because activations are neither quantised nor rounded.
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
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from tokenizers import Tokenizer
from tqdm import tqdm

from helpers.neighbours import text_digest
from resources import artifacts, datasets
from resources.settings import DERIVED, PublicError, threads

# OpenVINO reports its use to its maker on import if this package can be imported; without it, it
# takes its own stub.
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
import openvino as ov  # noqa: E402

__all__ = ["Encoder", "EncoderUnavailable", "Remembering", "encoder"]

log = logging.getLogger(__name__)

Floats = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

DEFAULT_ENCODER = "all-MiniLM-L6-v2"
INSTALL = ".venv/bin/python -m pip install -e '.[encoders]'"
"""The line, typed in the project's folder, that brings what models from a hub need."""
BATCH_TOKENS = 2048
"""Tokens per batch of one thread: enough to keep it busy, few enough to stay in its cache."""
TOKENISED_AT_ONCE = 8192
"""Texts that are tokenised together: an encoding takes a hundred times its tokens' memory."""
VECTORS = DERIVED / "vectors"
FILE = "vectors.npz"
MIN_STORED = 256
"""Number of new texts from which on `Remembering` stores their vectors."""
MATCHING_LAYERS = {"microsoft/deberta-xlarge-mnli": 40}
"""The layer whose token vectors BERTScore takes, where its authors tuned one on human judgements
(WMT16)."""


class EncoderUnavailable(PublicError, RuntimeError):
    """Raised when no encoder of that name can be loaded. The message says what to install."""


class Encoder(ABC):
    """Turns texts into vectors of length 1.

    Attributes:
        name: The model's name.
        engine: The software that runs the model, with version and precision.
        digest: Digest of all that decides the vectors.
        dimension: Number of components of a vector.
        max_tokens: Largest number of tokens of a text that the model reads, including two
            special tokens.
        truncated: Number of texts of the last call whose end the model did not read, because
            they were too long.
    """

    name: str
    engine: str
    digest: str
    dimension: int
    max_tokens: int
    truncated: int = 0

    def encode(self, texts: Sequence[str], progress: bool = True) -> Floats:
        """Encode texts, each distinct text once.

        Args:
            texts: Strings, in any number.
            progress: Whether to show a bar.

        Returns:
            Vectors of length 1, as an array (texts, dimension).
        """
        unique, rows = _distinct(texts)
        vectors, truncated = self._encode(unique, progress)
        self.truncated = int(truncated[rows].sum())
        if self.truncated:
            log.warning(
                "%d of %d texts are longer than the %d tokens that %s sees; the rest was left out.",
                self.truncated,
                len(texts),
                self.max_tokens,
                self.name,
            )
        return vectors[rows]

    def count_truncated(self, texts: Sequence[str]) -> int:
        """Count the texts that are longer than `max_tokens`, without encoding them."""
        return int(self._find_truncated(list(texts)).sum())

    def token_vectors(self, texts: Sequence[str], progress: bool = True) -> list[Floats]:
        """Encode the tokens of texts, without [CLS] and [SEP], for BERTScore.

        Args:
            texts: Strings, in any number.
            progress: Whether to show a bar.

        Returns:
            Vectors of length 1 of each text's tokens, as arrays (tokens, dimension).
        """
        unique, rows = _distinct(texts)
        vectors, truncated = self._encode_tokens(unique, progress)
        self.truncated = int(truncated[rows].sum())
        return [vectors[row] for row in rows]

    def _encode_tokens(self, texts: list[str], progress: bool) -> tuple[list[Floats], Flags]:
        """Vectors of the tokens of distinct texts, and which texts were truncated."""
        raise EncoderUnavailable(
            f"{self.name} gives no vectors of tokens. Use {DEFAULT_ENCODER!r} or a hub's model."
        )

    @abstractmethod
    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, Flags]:
        """Vectors of distinct texts, and which texts were truncated."""

    @abstractmethod
    def _find_truncated(self, texts: list[str]) -> Flags:
        """Which texts are longer than `max_tokens`."""


class MiniLM(Encoder):
    """all-MiniLM-L6-v2: mean of the last hidden states, int8 weights, 256 tokens as it prescribes.

    Attributes:
        positions: Tokens that the model can see at all. Its own configuration stops at 256 for
            vectors of whole texts.
    """

    name = DEFAULT_ENCODER
    max_tokens = 256
    positions = 512

    def __init__(self) -> None:
        """Fetch the weights if need be and compile them for this processor."""
        weights = datasets.fetch(f"models/{self.name}/model.onnx")
        tokenizer = datasets.fetch(f"models/{self.name}/tokenizer.json")
        self.digest = text_digest([datasets.digest(weights), datasets.digest(tokenizer), "f32"])
        self._tokenizer = Tokenizer.from_file(str(tokenizer))
        self._tokenizer.no_padding()
        self._threads = threads()
        # One stream of work a thread beats one stream on all threads by a quarter; others use the
        # same cores.
        streams = {
            "NUM_STREAMS": self._threads,
            "INFERENCE_NUM_THREADS": self._threads,
            "ENABLE_CPU_PINNING": False,
        }
        # In bfloat16, the default where there is hardware for it, processors differ in the third
        # digit: other texts are retrieved, and prompts have no stored replies; it is a third
        # faster.
        exact = {"INFERENCE_PRECISION_HINT": "f32", "DYNAMIC_QUANTIZATION_GROUP_SIZE": 0}
        self._model = ov.Core().compile_model(weights, "CPU", streams | exact)
        self.dimension = self._model.output(0).get_partial_shape()[2].get_length()
        precision = self._model.get_property("INFERENCE_PRECISION_HINT").to_string()
        self.engine = f"openvino {ov.get_version().partition('-')[0]} {precision}"
        # OpenVINO looks numpy up at its first use; two threads that come to that at once wait for
        # each other for ever.
        self.encode([""], progress=False)

    def _encode_tokens(self, texts: list[str], progress: bool) -> tuple[list[Floats], Flags]:
        """The last hidden states, of the first 512 tokens."""
        return self._run(texts, self.positions, _without_special_tokens, progress)

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, Flags]:
        vectors, truncated = self._run(texts, self.max_tokens, _mean_over_tokens, progress)
        matrix = np.array(vectors, dtype=np.float32).reshape(-1, self.dimension)
        return matrix, truncated

    def _run(
        self,
        texts: list[str],
        max_tokens: int,
        pool: Callable[[Floats], Floats],
        progress: bool,
    ) -> tuple[list[Floats], Flags]:
        """Run the model.

        Args:
            texts: Distinct texts.
            max_tokens: Tokens that are read of each.
            pool: What to take of the last hidden states of equally long texts,
                (texts, tokens, dimension).
            progress: Whether to show a bar.

        Returns:
            What was taken, brought to length 1, by text; which texts were truncated.
        """
        tokens, truncated = self._tokenize(texts, max_tokens)
        vectors: dict[int, Floats] = {}
        # Threads of Python's own, each with a request. OpenVINO's queue calls back from its
        # threads. One of those may still wait for the interpreter when the model is dropped, and
        # who drops it waits for that thread: a deadlock.
        free_requests: SimpleQueue[ov.InferRequest] = SimpleQueue()
        for _ in range(self._threads):
            free_requests.put(self._model.create_infer_request())

        def infer(rows: Integers) -> int:
            ids = np.stack([tokens[row] for row in rows]).astype(np.int64)
            inputs = {
                "input_ids": ids,
                "attention_mask": np.ones_like(ids),
                "token_type_ids": np.zeros_like(ids),
            }
            request = free_requests.get()
            request.infer(inputs)
            # The tensor is the request's own memory, until its next use.
            pooled = pool(request.get_output_tensor(0).data)
            pooled = pooled / np.linalg.norm(pooled, axis=-1, keepdims=True)
            free_requests.put(request)
            vectors.update(zip(rows.tolist(), pooled, strict=True))
            return len(rows)

        label = f"encode by {self.name}"
        bar = tqdm(total=len(tokens), desc=label, unit="text", disable=not progress)
        with ThreadPoolExecutor(self._threads) as executor, bar:
            for n_done in executor.map(infer, _batches(tokens)):
                bar.update(n_done)
        return [vectors[row] for row in range(len(texts))], truncated

    def _find_truncated(self, texts: list[str]) -> Flags:
        return self._tokenize(texts, self.max_tokens)[1]

    def _tokenize(
        self, texts: list[str], max_tokens: int
    ) -> tuple[list[npt.NDArray[np.int32]], Flags]:
        tokens: list[npt.NDArray[np.int32]] = []
        truncated = np.zeros(len(texts), dtype=np.bool_)
        self._tokenizer.enable_truncation(max_tokens)
        for start in range(0, len(texts), TOKENISED_AT_ONCE):
            part = texts[start : start + TOKENISED_AT_ONCE]
            for encoding in self._tokenizer.encode_batch_fast(part):
                truncated[len(tokens)] = bool(encoding.overflowing)
                tokens.append(np.array(encoding.ids, dtype=np.int32))
        return tokens, truncated


def _without_special_tokens(states: Floats) -> Floats:
    return states[:, 1:-1]


def _mean_over_tokens(states: Floats) -> Floats:
    return states.mean(axis=1)


def from_hub(kind: Literal["SentenceTransformer", "CrossEncoder"], name: str) -> Any:  # noqa: ANN401  # of a library that need not be installed
    """Load a model by a class of sentence-transformers.

    Args:
        kind: Name of the class.
        name: Name of the model on a hub, or a folder.

    Returns:
        The model.

    Raises:
        EncoderUnavailable: If the library is not installed, or no hub has the model.
    """
    what = {"SentenceTransformer": "encoder", "CrossEncoder": "cross-encoder"}[kind]
    try:
        import sentence_transformers  # noqa: PLC0415  # an extra: the default needs no torch

        return getattr(sentence_transformers, kind)(name)
    except (ImportError, OSError, ValueError) as error:
        raise EncoderUnavailable(
            f"The {what} {name!r} needs sentence-transformers (the extra `encoders`: in the "
            f"project's folder {INSTALL}) and a model hub that has it. Or use "
            f"{DEFAULT_ENCODER!r}, which needs neither. The library says: {error}"
        ) from error


class SentenceTransformers(Encoder):
    """Any sentence-transformers model, from a hub or a folder; needs the extra `encoders`."""

    def __init__(self, name: str) -> None:
        """Load the model; see `from_hub`."""
        self._model = from_hub("SentenceTransformer", name)
        self.name = name
        package = version("sentence-transformers")
        self.engine = f"sentence-transformers {package} on {self._model.device}"
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
        matrix = np.asarray(vectors, dtype=np.float32).reshape(-1, self.dimension)
        return matrix, self._find_truncated(texts)

    def _encode_tokens(self, texts: list[str], progress: bool) -> tuple[list[Floats], Flags]:
        """Vectors of the layer that `MATCHING_LAYERS` names, else of the last."""
        import torch  # noqa: PLC0415  # comes with the extra

        layer = MATCHING_LAYERS.get(self.name, -1)
        options = {
            "truncation": True,
            "max_length": self.max_tokens,
            "return_special_tokens_mask": True,
        }
        vectors = []
        for text in tqdm(texts, desc=f"encode by {self.name}", unit="text", disable=not progress):
            fields = self._model.tokenizer(text, return_tensors="pt", **options)
            is_word = fields.pop("special_tokens_mask")[0] == 0
            fields = fields.to(self._model.device)
            with torch.inference_mode():
                states = self._model[0].auto_model(**fields, output_hidden_states=True)
            words = states.hidden_states[layer][0].float().cpu()[is_word]
            vectors.append(torch.nn.functional.normalize(words, dim=1).numpy())
        return vectors, self._find_truncated(texts)

    def _find_truncated(self, texts: list[str]) -> Flags:
        if not texts:
            return np.zeros(0, dtype=np.bool_)
        token_ids = self._model.tokenizer(texts, verbose=False)["input_ids"]
        lengths = np.array([len(ids) for ids in token_ids], dtype=np.int64)
        return lengths > self.max_tokens


class Remembering(Encoder):
    """An encoder that remembers another encoder's vectors and encodes each text only once.

    If at least 256 texts of a call (`MIN_STORED`) are new, their vectors are stored for the next
    run that encodes the same texts with the same weights.
    """

    def __init__(self, inner: Encoder) -> None:
        """Begin with nothing remembered."""
        self.name = inner.name
        self.engine = inner.engine
        self.digest = inner.digest
        self.dimension = inner.dimension
        self.max_tokens = inner.max_tokens
        self._inner = inner
        self._known: dict[str, tuple[Floats, np.bool_]] = {}

    def _encode(self, texts: list[str], progress: bool) -> tuple[Floats, Flags]:
        new = [text for text in texts if text not in self._known]
        if new:
            vectors, truncated = self._load_or_encode(new, progress)
            self._known.update(zip(new, zip(vectors, truncated, strict=True), strict=True))
        known = [self._known[text] for text in texts]
        matrix = np.array([vector for vector, _ in known], dtype=np.float32)
        flags = np.array([is_truncated for _, is_truncated in known], dtype=np.bool_)
        return matrix.reshape(-1, self.dimension), flags

    def _load_or_encode(self, texts: list[str], progress: bool) -> tuple[Floats, Flags]:
        if len(texts) < MIN_STORED:
            return self._inner._encode(texts, progress)

        def load(folder: Path) -> tuple[Floats, Flags]:
            artifacts.read_log(folder, FILE)
            with np.load(folder / FILE) as arrays:
                return arrays["vectors"], arrays["cut"]

        def make(folder: Path) -> tuple[Floats, Flags]:
            vectors, truncated = self._inner._encode(texts, progress)
            with artifacts.replacing(folder) as part:
                part.mkdir()
                np.savez(part / FILE, vectors=vectors, cut=truncated)
                artifacts.write_log(part, FILE, {"engine": self.engine})
            return vectors, truncated

        decided_by = [self.digest, text_digest(texts)]
        return artifacts.load_or_make(VECTORS, self.name, decided_by, load, make)

    def _find_truncated(self, texts: list[str]) -> Flags:
        return self._inner._find_truncated(texts)


def encoder(name: str = DEFAULT_ENCODER) -> Encoder:
    """Load an encoder. A process keeps the two encoders that it used last.

    Args:
        name: `DEFAULT_ENCODER`, or the name of a sentence-transformers model.

    Returns:
        The encoder.

    Raises:
        EncoderUnavailable: If no encoder of that name can be loaded.
    """
    return _loaded(name)


@lru_cache(maxsize=2)
def _loaded(name: str) -> Encoder:
    return MiniLM() if name == DEFAULT_ENCODER else SentenceTransformers(name)


def _distinct(texts: Sequence[str]) -> tuple[list[str], Integers]:
    """The texts without repetition, and the place of each text among these.

    Raises:
        TypeError: If this is no list of texts.
    """
    if isinstance(texts, str):
        raise TypeError("encode takes a list of texts, not one string. Write encode([text]).")
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise TypeError(
                f"encode takes strings; text {row} is {text!r}. Drop or fill missing values."
            )
    unique = {text: row for row, text in enumerate(dict.fromkeys(texts))}
    return list(unique), np.array([unique[text] for text in texts], dtype=np.int64)


def _batches(tokens: list[npt.NDArray[np.int32]]) -> Iterator[Integers]:
    """Rows of equally long texts, the longest first, about `BATCH_TOKENS` tokens at a time."""
    lengths = np.array([len(ids) for ids in tokens], dtype=np.int64)
    for length in np.unique(lengths)[::-1]:
        rows = np.flatnonzero(lengths == length)
        size = max(1, BATCH_TOKENS // int(length))
        for start in range(0, len(rows), size):
            yield rows[start : start + size]
