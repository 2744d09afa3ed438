"""An index of 1,500 texts, built or loaded, and searched."""

import hashlib
import sys

import numpy as np

from helpers import indexes, vectors
from resources.settings import run_command_line


class Letters(vectors.Encoder):
    """Vectors that cost nothing: a digest of the text."""

    name, engine, digest, dimension, max_tokens = "letters", "none", "0", 64, 512

    def _encode(self, texts, progress):
        matrix = (
            np.array(
                [list(hashlib.sha512(text.encode()).digest()) for text in texts], dtype=np.float32
            )
            - 127
        )
        return matrix / np.linalg.norm(matrix, axis=1, keepdims=True), self._find_truncated(texts)

    def _find_truncated(self, texts):
        return np.zeros(len(texts), dtype=bool)


def main():
    letters = Letters()
    index = indexes.cached_index(
        "demo", [f"text {i}" for i in range(1500)], letters, progress=False
    )
    scores, ids = index.search(letters.encode(["text 3", "text 99", "other"]), 4)
    print(ids.tolist(), scores.round(4).tolist())
    return 0


sys.exit(run_command_line(main))
