"""FAISS indexes of vectors: build, search, save, load."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

import faiss
import numpy as np

from helpers.vectors import Encoder, Floats, Integers, text_digest
from resources import artifacts
from resources.settings import DERIVED, threads

Kind = Literal["flat", "ivf", "ivfpq"]
INDEXES = DERIVED / "indexes"
FILE = "index.faiss"
CODES = 256  # centres that a byte of a product-quantised vector chooses among
POINTS = 64
"""Vectors a cluster that k-means is trained on, at most: FAISS's 256 add minutes at a million and little recall."""
PROBED = 32  # clusters that a search looks into
ROUNDING = 2e-6
"""Scores of equal texts differ by less: in float32 the last digits depend on the processor and on the batch."""
TIED = 200  # further vectors that a search looks at, for as many may tie with the k-th


class Index:
    """A FAISS index over vectors of length 1, searched by inner product (cosine); a vector's id is its row when built.

    Its kind is flat (exact), ivf (searches the nearest clusters) or ivfpq (of quantised vectors on the disk).
    """

    def __init__(self, index: faiss.Index, kind: Kind) -> None:
        """Wrap a FAISS index; use `build` or `load`."""
        self._index = index
        self.kind = kind
        self.size, self.dimension = int(index.ntotal), int(index.d)

    @classmethod
    def build(cls, vectors: Floats, kind: Kind = "flat") -> Self:
        """An index of `vectors`, float32 of shape (n, d)."""
        vectors = _checked(vectors)
        n, d = vectors.shape
        if kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, not {kind!r}.")
        if n < (least := CODES if kind == "ivfpq" else 1):
            raise ValueError(
                f"An index of the kind {kind} needs {least} vectors at least, and there are {n}."
            )
        clusters = max(1, min(int(4 * n**0.5), n // 39))  # FAISS asks for 39 vectors a cluster
        quantised = max(m for m in range(1, max(1, d // 4) + 1) if d % m == 0)
        recipe = {
            "flat": "Flat",
            "ivf": f"IVF{clusters},Flat",
            "ivfpq": f"IVF{clusters},PQ{quantised}",
        }[kind]
        faiss.omp_set_num_threads(threads())
        index = faiss.index_factory(d, recipe, faiss.METRIC_INNER_PRODUCT)
        if kind != "flat":
            inverted = cast(Any, faiss).extract_index_ivf(index)
            inverted.nprobe, inverted.cp.max_points_per_centroid = PROBED, POINTS
        index.train(vectors)
        index.add(vectors)
        return cls(index, kind)

    def search(
        self, queries: Floats, k: int, within: Integers | None = None
    ) -> tuple[Floats, Integers]:
        """Scores and ids of the `k` nearest vectors of each query (m, d), best first; equally near ones by their ids.

        `within` are distinct ids to search among, for a filter that goes before the search. Both results have the shape
        (m, min(k, size or ids given)); an approximate index that finds fewer fills up with the id -1.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}.")
        queries = _checked(queries)
        if queries.shape[1] != self.dimension:
            found = (
                f"The queries have {queries.shape[1]} numbers each and the index {self.dimension}"
            )
            raise ValueError(f"{found}: encode both with the same encoder.")
        faiss.omp_set_num_threads(threads())
        engine, parameters = cast(Any, faiss), None
        if within is not None:
            if not len(within):  # FAISS takes no search for nothing
                return np.empty((len(queries), 0), np.float32), np.empty(
                    (len(queries), 0), np.int64
                )
            ids_of = np.ascontiguousarray(within, dtype=np.int64)
            if self.kind == "flat":  # looks at these ids alone
                parameters = engine.SearchParameters(sel=engine.IDSelectorArray(ids_of))
            else:
                parameters = engine.SearchParametersIVF(
                    sel=engine.IDSelectorBatch(ids_of), nprobe=PROBED
                )
        many = min(k + TIED, self.size if within is None else len(within))
        scores, ids = cast(Any, self._index).search(queries, many, params=parameters)
        # neighbours whose order rounding may have made are ordered by their ids
        groups = np.cumsum(np.diff(scores, axis=1, prepend=scores[:, :1]) < -ROUNDING, axis=1)
        best = np.lexsort((ids, groups), axis=1)[:, :k]
        return np.take_along_axis(scores, best, axis=1), np.take_along_axis(ids, best, axis=1)

    def save(self, folder: Path) -> None:
        """Write the index to `folder`, in place of what is there."""
        with artifacts.replacing(folder) as part:
            part.mkdir()
            try:
                faiss.write_index(self._index, str(part / FILE))
            except RuntimeError as error:
                raise OSError(
                    f"The index could not be written to {folder}: {error}. Is the disk full?"
                ) from error
            artifacts.write_log(part, FILE, {"kind": self.kind, "faiss": faiss.__version__})

    @classmethod
    def load(cls, folder: Path) -> Self:
        """The index saved in `folder`; FileNotFoundError if there is none, ValueError if it is damaged."""
        kind = artifacts.read_log(folder, FILE)["kind"]
        return cls(
            faiss.read_index(str(folder / FILE), faiss.IO_FLAG_MMAP if kind == "ivfpq" else 0), kind
        )


def cached_index(
    name: str, texts: Sequence[str], encoder: Encoder, kind: Kind = "flat", *, progress: bool = True
) -> Index:
    """The index of `texts`, whose ids are their places, kept on the disk; see `artifacts.kept`."""

    def make(folder: Path) -> Index:
        index = Index.build(encoder.encode(texts, progress), kind)
        index.save(folder)
        return index

    return artifacts.kept(
        INDEXES, name, [encoder.digest, kind, text_digest(texts)], Index.load, make
    )


def _checked(vectors: Floats) -> Floats:
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if vectors.ndim != 2:
        raise ValueError(
            f"Vectors must be a matrix with one vector a row; this has the shape {vectors.shape}."
        )
    if not np.isfinite(vectors).all():
        raise ValueError("Every number of a vector must be finite; some are not.")
    return vectors
