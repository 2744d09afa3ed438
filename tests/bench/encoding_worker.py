"""One way of encoding or searching by words, in a process of its own: prints its time and memory.

`python encoding_worker.py WAY FOLDER`, where FOLDER has the texts and the tokenizer. Each way runs
in the environment of its own libraries, and imports nothing else.
"""

import json
import re
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path

STATUS = Path("/proc/self/status")
THREADS = 2
QUERIES = 50
REPETITIONS = 200
"""Of the multiplication of matrices as large as those of one batch."""
SHAPE = (2048, 384, 1536)
LAYERS = {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12}
"""The architecture of all-MiniLM-L6-v2; how long it takes does not depend on its weights."""

Way = Callable[[list[str]], object]


def encode_here(folder: Path) -> Way:
    """Encode as the project does."""
    from helpers import vectors

    encoder = vectors.encoder()
    return lambda texts: encoder.encode(texts, progress=False)


def encode_by_torch(folder: Path) -> Way:
    """Encode by sentence-transformers, with a model of the same architecture."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    torch.set_num_threads(THREADS)
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"), sep_token="[SEP]", **special
    )
    tokenizer.save_pretrained(folder / "model")
    BertModel(BertConfig(intermediate_size=1536, **LAYERS)).save_pretrained(folder / "model")
    words = Transformer(str(folder / "model"), max_seq_length=256)
    model = SentenceTransformer(modules=[words, Pooling(384)], device="cpu")
    return lambda texts: model.encode(texts, normalize_embeddings=True, show_progress_bar=False)


def search_here(folder: Path) -> Way:
    """Index and search by words as the project does."""
    from rag.retrieval import bm25_index, bm25_scores

    return lambda texts: bm25_scores(bm25_index(texts), texts[:QUERIES], len(texts))


def search_by_rank_bm25(folder: Path) -> Way:
    """Index and search by rank_bm25, with its README's way of splitting into words."""
    from rank_bm25 import BM25Okapi

    def search(texts: list[str]) -> object:
        words = [text.split(" ") for text in texts]
        index = BM25Okapi(words)
        return [index.get_scores(query) for query in words[:QUERIES]]

    return search


def multiply(folder: Path) -> Way:
    """Multiply matrices: the processor's own rate."""
    import numpy as np

    rows, inner, columns = SHAPE
    left = np.ones((rows, inner), dtype=np.float32)
    right = np.ones((inner, columns), dtype=np.float32)

    def run(texts: list[str]) -> None:
        for _ in range(REPETITIONS):
            left @ right

    return run


WAYS: dict[str, Callable[[Path], Way]] = {
    "here": encode_here,
    "torch": encode_by_torch,
    "words here": search_here,
    "rank_bm25": search_by_rank_bm25,
    "matrices": multiply,
}


def peak_megabytes() -> float:
    """Return the most memory that this program has used.

    Where Linux tells it, the peak of the process that started this one does not count.
    """
    if STATUS.is_file():
        peak = re.search(r"^VmHWM:\s+(\d+) kB$", STATUS.read_text(), re.MULTILINE)
        if peak:
            return int(peak[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    """Time one way; its first use, which is slower, does not count."""
    folder = Path(sys.argv[2])
    texts = json.loads((folder / "texts.json").read_text(encoding="utf-8"))
    run = WAYS[sys.argv[1]](folder)
    run(texts[:8])
    began = time.perf_counter()
    run(texts)
    seconds = time.perf_counter() - began
    sys.stdout.write(json.dumps({"seconds": seconds, "megabytes": peak_megabytes()}) + "\n")


if __name__ == "__main__":
    main()
