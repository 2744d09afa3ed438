"""FAISS indexes of vectors: build, search, save, load."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

import faiss
import numpy as np
from filelock import FileLock

from helpers import datasets
from helpers.settings import DERIVED, PublicError
from helpers.vectors import Encoder, Floats, Integers, text_digest, threads

log = logging.getLogger(__name__)

Kind = Literal["flat", "ivf", "hnsw", "ivfpq"]
INDEXES = DERIVED / "indexes"
CODES = 256
"""Centres that a byte of a product-quantised vector chooses among."""


class StaleIndex(PublicError, ValueError):
    """The saved index was built from something else, or there is none; build it again."""


class CorruptIndex(PublicError, ValueError):
    """The saved index cannot be read, or its content is not what was saved."""


class Index:
    """A FAISS index over vectors of length 1, searched by inner product (cosine).

    Attributes:
        kind: flat (exact), ivf or hnsw (approximate, for more vectors than an exact search is fast enough for), or
            ivfpq (coarser, for more vectors than memory holds).
        size: number of vectors; a vector's id is its row when built.
        dimension: numbers in a vector.
    """

    def __init__(self, index: faiss.Index, kind: Kind) -> None:
        """Wrap a FAISS index; use `build` or `load`."""
        self._index = index
        self.kind = kind
        self.size = int(index.ntotal)
        self.dimension = int(index.d)

    @classmethod
    def build(cls, vectors: Floats, kind: Kind = "flat", **parameters: int) -> Index:
        """An index of `vectors`, float32 of shape (n, d).

        Args:
            vectors: one vector a row, normalised to length 1 if scores are to be cosines.
            kind: flat is exact; ivf looks into the nearest of `nlist` clusters; hnsw walks a graph of near neighbours;
                ivfpq is ivf over product-quantised vectors of `m` bytes each, which stay on the disk once saved.
            parameters: by FAISS's names. ivf: `nlist` clusters (default 4 sqrt(n), at most n / 39, for FAISS asks for
                39 vectors a cluster), of which a search looks into `nprobe` (32). hnsw: `M` neighbours a vector (32),
                `efConstruction` and `efSearch` candidates while it builds and searches (128 each). ivfpq: those of ivf,
                and `m`, a divisor of d (the largest up to d / 4).

        Raises:
            ValueError: no vectors, a wrong shape, a number that is not finite, an unknown kind or parameter, or for
                ivfpq fewer vectors than a byte has values.
        """
        vectors = _checked(vectors)
        n, d = vectors.shape
        if n == 0:
            raise ValueError("An index needs at least one vector, and there is none.")
        if kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, not {kind!r}.")
        if kind == "ivfpq" and n < CODES:
            raise ValueError(f"An ivfpq index needs at least {CODES} vectors, and there are {n}. Use a flat one.")
        clusters = {"nlist": max(1, min(int(4 * n**0.5), n // 39)), "nprobe": 32}
        known = {
            "flat": {},
            "ivf": clusters,
            "hnsw": {"M": 32, "efConstruction": 128, "efSearch": 128},
            "ivfpq": clusters | {"m": max(m for m in range(1, max(1, d // 4) + 1) if d % m == 0)},
        }[kind]
        if unknown := sorted(parameters.keys() - known.keys()):
            raise ValueError(f"A {kind} index has no {', '.join(unknown)}. It takes: {', '.join(known) or 'nothing'}.")
        chosen = known | parameters
        faiss.omp_set_num_threads(threads())
        recipes = {"flat": "Flat", "ivf": "IVF{nlist},Flat", "hnsw": "HNSW{M},Flat", "ivfpq": "IVF{nlist},PQ{m}"}
        recipe = recipes[kind].format(**chosen)
        index = faiss.index_factory(d, recipe, faiss.METRIC_INNER_PRODUCT)
        for parameter in chosen.keys() - {"nlist", "M", "m"}:
            faiss.ParameterSpace().set_index_parameter(index, parameter, chosen[parameter])
        index.train(vectors)
        index.add(vectors)
        return cls(index, kind)

    def search(self, queries: Floats, k: int, within: Integers | None = None) -> tuple[Floats, Integers]:
        """Scores and ids of the `k` nearest vectors of each query, best first.

        Args:
            queries: float32 of shape (m, d).
            k: how many; an index with fewer vectors returns all of them.
            within: distinct ids to search among, for a filter that goes before the search; all of them if left out.

        Returns:
            Scores (float32) and ids (int64), both of shape (m, min(k, size or ids given)). An approximate index that
            finds fewer fills up with the id -1.

        Raises:
            ValueError: `k` below 1, or queries of another dimension.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}.")
        queries = _checked(queries)
        if queries.shape[1] != self.dimension:
            raise ValueError(
                f"The queries have {queries.shape[1]} numbers each and the index {self.dimension}: encode both with "
                "the same encoder."
            )
        faiss.omp_set_num_threads(threads())
        if within is None:
            scores, ids = self._index.search(queries, min(k, self.size))
            return scores, ids
        k = min(k, len(within))
        if not k:  # FAISS takes no search for nothing
            return np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64)
        ids_of, engine, index = np.ascontiguousarray(within, dtype=np.int64), cast(Any, faiss), cast(Any, self._index)
        if self.kind == "flat":  # looks at these ids alone
            parameters = engine.SearchParameters(sel=engine.IDSelectorArray(ids_of))
        elif self.kind in ("ivf", "ivfpq"):
            parameters = engine.SearchParametersIVF(sel=engine.IDSelectorBatch(ids_of), nprobe=index.nprobe)
        else:
            parameters = engine.SearchParametersHNSW(sel=engine.IDSelectorBatch(ids_of), efSearch=index.hnsw.efSearch)
        scores, ids = index.search(queries, k, params=parameters)
        return scores, ids

    def save(self, folder: Path, built_from: str) -> None:
        """Write the index to `folder`, which then holds `index.faiss` and `index.json`.

        Args:
            folder: made if need be; an index in it is replaced.
            built_from: SHA-256 of what the index was built from; `load` asks for the same.

        Raises:
            OSError: it cannot be written, for example because the disk is full; no half index is left.
        """
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / "index.faiss.part"
        about = folder / "index.json.part"
        try:
            try:
                faiss.write_index(self._index, str(part))
            except RuntimeError as error:
                raise OSError(f"The index could not be written to {folder}: {error}. Is the disk full?") from error
            about.write_text(
                json.dumps(
                    {
                        "built_from": built_from,
                        "kind": self.kind,
                        "size": self.size,
                        "dimension": self.dimension,
                        "sha256": datasets.digest(part),
                        "mtime_ns": part.stat().st_mtime_ns,
                        "faiss": faiss.__version__,
                    },
                    indent=1,
                )
            )
            # the description last: it vouches for the file that it names
            part.replace(folder / "index.faiss")
            about.replace(folder / "index.json")
        finally:
            part.unlink(missing_ok=True)
            about.unlink(missing_ok=True)

    @classmethod
    def load(cls, folder: Path, built_from: str) -> Index:
        """The index saved in `folder`; of one by ivfpq, what a search looks at is read from the disk.

        A file that has not been touched since it was saved is not hashed again.

        Raises:
            StaleIndex: there is none, or it was built from something else.
            CorruptIndex: its files are damaged.
        """
        about, file = folder / "index.json", folder / "index.faiss"
        if not about.exists():
            raise StaleIndex(f"There is no index in {folder}. Build and save it first.")
        try:
            stated = json.loads(about.read_text())
            found, kind, sha256 = stated["built_from"], stated["kind"], stated["sha256"]
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptIndex(f"{about} cannot be read ({error!r}). Delete {folder} and build it again.") from None
        if found != built_from:
            raise StaleIndex(
                f"The index in {folder} was built from {found[:12]}; {built_from[:12]} was asked for. Build it again."
            )
        touched = not file.exists() or file.stat().st_mtime_ns != stated.get("mtime_ns")
        if touched and (not file.exists() or datasets.digest(file) != sha256):
            raise CorruptIndex(f"{file} is missing or damaged: its SHA-256 should be {sha256}. Build it again.")
        return cls(faiss.read_index(str(file), faiss.IO_FLAG_MMAP if kind == "ivfpq" else 0), kind)


def cached_index(
    name: str,
    texts: Sequence[str],
    encoder: Encoder,
    kind: Kind = "flat",
    *,
    progress: bool = True,
    **parameters: int,
) -> Index:
    """The index of `texts`, loaded if it was built before from the same texts, encoder, kind and parameters.

    It lies in `data/derived/indexes/<name>-<start of that hash>`. Notebooks that want the same one wait for the first
    to build it. A damaged one is set aside, with a logged warning, and built again.

    Args:
        name: what the index holds, for its folder.
        texts: the texts; a text's id is its place in them.
        encoder: turns them into vectors.
        kind: of the index, as in `Index.build`.
        progress: whether to show a progress bar while encoding.
        parameters: for `Index.build`.
    """
    settled = json.dumps({"encoder": encoder.digest, "kind": kind, **parameters}, sort_keys=True)
    built_from = text_digest([settled, *texts])
    folder = INDEXES / f"{name}-{built_from[:12]}"
    INDEXES.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        try:
            return Index.load(folder, built_from)
        except StaleIndex:
            pass
        except CorruptIndex as error:
            aside = folder.with_name(f"{folder.name}.bad-{os.urandom(4).hex()}")
            folder.rename(aside)
            log.warning("%s It was set aside as %s and is built again.", error, aside)
        index = Index.build(encoder.encode(texts, progress), kind, **parameters)
        index.save(folder, built_from)
        return index


def _checked(vectors: Floats) -> Floats:
    """The vectors as FAISS wants them.

    Raises:
        ValueError: not a matrix, or not all of its numbers are finite.
    """
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if vectors.ndim != 2:
        raise ValueError(f"Vectors must be a matrix with one vector a row; this has the shape {vectors.shape}.")
    if not np.isfinite(vectors).all():
        raise ValueError("Every number of a vector must be finite; some are not.")
    return vectors
