"""FAISS indexes of vectors (build, search, save and load), and texts searched by meaning."""

import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self, cast, get_args

import faiss
import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from helpers.neighbours import (
    TOLERANCE,
    Check,
    Find,
    Query,
    Result,
    Search,
    replay_or_search,
    rows_digest,
    text_digest,
)
from helpers.recheck import check_generator
from helpers.vectors import Encoder, Floats, Integers
from resources import artifacts
from resources.settings import DERIVED, threads

__all__ = ["Index", "Result", "TextIndex", "cached_index"]

Kind = Literal["flat", "ivf", "ivfpq"]
INDEXES = DERIVED / "indexes"
FILE = "index.faiss"
CODES = 256
"""Centres that a byte of a product-quantised vector chooses among."""
POINTS_PER_CLUSTER = 64
"""Vectors that k-means is trained on: FAISS's 256 add minutes at a million and little recall."""
PROBED_CLUSTERS = 32
"""Clusters that a search looks into."""
ROUNDING = 2e-6
"""Scores of equal texts differ by less: float32 depends on the processor and on the batch."""
MAX_TIES = 200
"""Further vectors that a search looks at, for as many may tie with the k-th."""


class Index:
    """A FAISS index over vectors of length 1, searched by inner product (cosine).

    The id of a vector is its row in the array from which the index was built.

    Attributes:
        kind: flat (exact), ivf (searches only the nearest clusters), or ivfpq (searches the
            nearest clusters of quantised vectors on the disk).
        size: Number of vectors.
        dimension: Number of components of each vector.
    """

    def __init__(self, index: faiss.Index, kind: Kind) -> None:
        """Wrap a FAISS index; use `build` or `load`."""
        self._index = index
        self.kind = kind
        self.size = int(index.ntotal)
        self.dimension = int(index.d)

    @classmethod
    def build(cls, vectors: Floats, kind: Kind = "flat") -> Self:
        """Build an index.

        Args:
            vectors: Vectors of length 1, as a float32 array (n, d).
            kind: Kind of the index.

        Returns:
            The index.

        Raises:
            ValueError: If the kind is unknown, or there are too few vectors for it.
        """
        vectors = _checked(vectors)
        n_vectors, dimension = vectors.shape
        if kind not in get_args(Kind):
            raise ValueError(f"kind must be one of {', '.join(get_args(Kind))}, not {kind!r}.")
        least = CODES if kind == "ivfpq" else 1
        if n_vectors < least:
            raise ValueError(
                f"An index of the kind {kind} needs {least} vectors at least, and there are "
                f"{n_vectors}."
            )
        faiss.omp_set_num_threads(threads())
        recipe = _recipe(kind, n_vectors, dimension)
        index = faiss.index_factory(dimension, recipe, faiss.METRIC_INNER_PRODUCT)
        if kind != "flat":
            inverted = cast(Any, faiss).extract_index_ivf(index)
            inverted.nprobe = PROBED_CLUSTERS
            inverted.cp.max_points_per_centroid = POINTS_PER_CLUSTER
        index.train(vectors)
        index.add(vectors)
        return cls(index, kind)

    def search(
        self, queries: Floats, k: int, within: Integers | None = None
    ) -> tuple[Floats, Integers]:
        """Find the vectors nearest to each query. Equally near vectors come in the order of ids.

        Args:
            queries: Vectors of length 1, as an array (m, d).
            k: Number of vectors to find.
            within: Distinct ids to search among, for a filter that is applied before the search.

        Returns:
            Scores and ids, best first, as two arrays (m, min(k, vectors searched)). If an
            approximate index finds fewer vectors, the remaining ids are -1.

        Raises:
            ValueError: If `k` is below 1, or the queries do not have the index's dimension.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, not {k}.")
        queries = _checked(queries)
        if queries.shape[1] != self.dimension:
            raise ValueError(
                f"The queries have {queries.shape[1]} numbers each and the index {self.dimension}: "
                "encode both with the same encoder."
            )
        n_searched = self.size if within is None else len(within)
        if n_searched == 0:  # FAISS takes no search for nothing
            nothing = np.empty((len(queries), 0))
            return nothing.astype(np.float32), nothing.astype(np.int64)
        faiss.omp_set_num_threads(threads())
        parameters = None if within is None else self._parameters(within)
        n_found = min(k + MAX_TIES, n_searched)
        scores, ids = cast(Any, self._index).search(queries, n_found, params=parameters)
        best = _order_ties_by_id(scores, ids)[:, :k]
        return np.take_along_axis(scores, best, axis=1), np.take_along_axis(ids, best, axis=1)

    def _parameters(self, within: Integers) -> faiss.SearchParameters:
        """Restrict a search to these ids."""
        engine: Any = faiss
        ids = np.ascontiguousarray(within, dtype=np.int64)
        if self.kind == "flat":  # looks at these ids alone
            return engine.SearchParameters(sel=engine.IDSelectorArray(ids))
        selector = engine.IDSelectorBatch(ids)
        return engine.SearchParametersIVF(sel=selector, nprobe=PROBED_CLUSTERS)

    def save(self, folder: Path) -> None:
        """Write the index to `folder`, and replace the folder's former content.

        Raises:
            OSError: If the index cannot be written.
        """
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
        """Read the index saved in `folder`.

        A FileNotFoundError means that there is no index, and a ValueError that it is damaged.
        """
        kind = artifacts.read_log(folder, FILE)["kind"]
        flags = faiss.IO_FLAG_MMAP if kind == "ivfpq" else 0
        return cls(faiss.read_index(str(folder / FILE), flags), kind)


def _recipe(kind: Kind, n_vectors: int, dimension: int) -> str:
    """FAISS's description of an index."""
    if kind == "flat":
        return "Flat"
    max_clusters = n_vectors // 39  # FAISS asks for 39 vectors a cluster
    clusters = max(1, min(int(4 * n_vectors**0.5), max_clusters))
    if kind == "ivf":
        return f"IVF{clusters},Flat"
    parts = max(1, dimension // 4)
    while dimension % parts:
        parts -= 1
    return f"IVF{clusters},PQ{parts}"


def _order_ties_by_id(scores: Floats, ids: Integers) -> Integers:
    """Places in each row, best first, where neighbours tie whose order rounding may have made."""
    steps = np.diff(scores, axis=1, prepend=scores[:, :1])
    groups = np.cumsum(steps < -ROUNDING, axis=1)
    return np.lexsort((ids, groups), axis=1)


def cached_index(
    name: str, texts: Sequence[str], encoder: Encoder, kind: Kind = "flat", *, progress: bool = True
) -> Index:
    """Load the index of texts from the disk, or build it and keep it there.

    Args:
        name: Beginning of the name of the index's folder.
        texts: The texts. The id of a text is its position.
        encoder: The encoder of the texts.
        kind: Kind of the index.
        progress: Whether to show a bar.

    Returns:
        The index.
    """

    def make(folder: Path) -> Index:
        parts = folder.with_name(f"{folder.name}.parts")
        index = Index.build(_encode_in_parts(texts, encoder, parts, progress), kind)
        index.save(folder)
        shutil.rmtree(parts, ignore_errors=True)
        return index

    decided_by = [encoder.digest, kind, text_digest(texts)]
    return artifacts.load_or_make(INDEXES, name, decided_by, Index.load, make)


PART_TEXTS = 2048
"""Texts that are encoded between two writes to the disk: some seconds of work."""


def _encode_in_parts(
    texts: Sequence[str], encoder: Encoder, folder: Path, progress: bool
) -> Floats:
    """Encode texts part by part; a run that was ended has left its parts in the folder."""
    if len(texts) <= PART_TEXTS:
        return encoder.encode(texts, progress)
    folder.mkdir(exist_ok=True)
    parts = []
    label = f"encode by {encoder.name}"
    with tqdm(total=len(texts), desc=label, unit="text", disable=not progress) as bar:
        for start in range(0, len(texts), PART_TEXTS):
            part = texts[start : start + PART_TEXTS]
            parts.append(_load_or_encode(part, encoder, folder / f"{start}.npy"))
            bar.update(len(part))
    return np.concatenate(parts)


def _load_or_encode(texts: Sequence[str], encoder: Encoder, path: Path) -> Floats:
    try:
        vectors: Floats = np.load(path)
    except (OSError, ValueError, EOFError):
        vectors = encoder.encode(texts, progress=False)
        unfinished = path.with_suffix(".part")
        with unfinished.open("wb") as file:
            np.save(file, vectors)
        unfinished.replace(path)
    return vectors


CHECKED_NEIGHBOURS = 20
"""Neighbours of a query that a check encodes, at most."""
CHECKED_TEXTS = 1000
"""Texts besides them that a check encodes, at most."""
CHECKED_AT_ONCE = 16


class TextIndex:
    """Texts that are searched by meaning. The id of a text is its position.

    Results are stored (see `neighbours`). When a search is not stored, the index is loaded from
    the disk, or the texts are encoded and the index is built.

    Attributes:
        texts: The texts.
        encoder: The encoder of texts and queries.
        kind: Kind of the FAISS index.
        name: Name of the index on the disk. An index without a name is not kept on the disk.
    """

    def __init__(
        self, texts: Sequence[str], encoder: Encoder, name: str = "", kind: Kind = "flat"
    ) -> None:
        """Take the texts; nothing is encoded yet."""
        self.texts = texts
        self.encoder = encoder
        self.name = name
        self.kind = kind

    @property
    def size(self) -> int:
        """Number of texts."""
        return len(self.texts)

    @cached_property
    def digest(self) -> str:
        """Digest of the texts."""
        return text_digest(self.texts)

    @property
    def is_built(self) -> bool:
        """Whether the index is on the disk."""
        return bool(self.name) and _index_folder(self).is_dir()

    @cached_property
    def index(self) -> Index:
        """The index over the texts' vectors, built or loaded at first use."""
        if self.name:
            index = cached_index(self.name, self.texts, self.encoder, self.kind)
        else:
            index = Index.build(self.encoder.encode(self.texts, progress=False), self.kind)
        # The first search is slower, and a stored time must not depend on which one that was.
        index.search(self.encoder.encode(self.texts[:1], progress=False), 1)
        return index

    def nearest(
        self, queries: Sequence[str], k: int, keep: Integers | None = None
    ) -> list[Integers]:
        """Find the texts nearest to each query.

        Args:
            queries: Texts, in any number.
            k: Number of nearest texts among which the search selects.
            keep: Ids that the search may select. The default is all ids.

        Returns:
            For each query, the selected ids among the `k` nearest texts, best first.
        """
        marks = None if keep is None else set(keep.tolist())

        def find(missing: list[Query]) -> list[Result]:
            results = []
            for result in self._search(missing, k):
                ids = result.ids.tolist()
                if marks is not None:
                    ids = [row for row in ids if row in marks]
                ids = np.array(ids, dtype=np.int64)
                results.append(Result(ids, seconds=result.seconds))
            return results

        filter_digest = "" if keep is None else rows_digest(keep)
        check = self._check(None if keep is None else keep)
        results = self._replay(f"nearest {k}", queries, filter_digest, find, check)
        return [result.ids for result in results]

    def search(
        self, queries: Sequence[str], k: int, within: Integers | None = None
    ) -> list[Result]:
        """Find the texts nearest to each query, with their cosines.

        Args:
            queries: Texts, in any number.
            k: Number of texts to find.
            within: Distinct ids to search among. The default is all ids.

        Returns:
            For each query, the ids and cosines of the `k` nearest texts, best first. If there are
            fewer texts, the result of a flat index contains all of them.
        """

        def find(missing: list[Query]) -> list[Result]:
            return self._search(missing, k, within)

        filter_digest = "" if within is None else rows_digest(within)
        return self._replay(f"search {k}", queries, filter_digest, find, self._check(within))

    def cosines(self, query: str, rows: Integers) -> npt.NDArray[np.float64]:
        """Compare a query with some of the texts.

        Args:
            query: The text with which the texts are compared.
            rows: Distinct ids of the texts, as an array (n,).

        Returns:
            The cosine with each text, as an array (n,).
        """

        def find(missing: list[Query]) -> list[Result]:
            (found,) = self._search(missing, len(rows), rows)
            cosine_of = dict(zip(found.ids.tolist(), found.scores.tolist(), strict=True))
            scores = np.array([cosine_of[row] for row in rows.tolist()])
            return [Result(np.empty(0, dtype=np.int64), scores, found.seconds)]

        def check(queries: list[Query], results: list[Result], seconds: float) -> list[bool]:
            some = rows[:CHECKED_NEIGHBOURS]
            stored = results[0].scores[: len(some)]
            return [np.allclose(self.cosines_now(query, some), stored, rtol=0, atol=TOLERANCE)]

        if len(rows) == 0:
            return np.empty(0)
        (result,) = self._replay("cosines", [query], rows_digest(rows), find, check)
        return result.scores

    def _replay(
        self, operation: str, queries: Sequence[str], filter_digest: str, find: Find, check: Check
    ) -> list[Result]:
        search = Search(f"{operation} {self.kind}", self.encoder.digest, self.digest, self.size)
        return replay_or_search(search, [(text, filter_digest) for text in queries], find, check)

    def _search(
        self, queries: Sequence[Query], k: int, within: Integers | None = None
    ) -> list[Result]:
        """Search the index; each result has its share of the time."""
        index = self.index
        began = time.perf_counter()
        vectors = self.encoder.encode(_texts_of(queries), progress=False)
        scores, ids = index.search(vectors, k, within)
        seconds = (time.perf_counter() - began) / len(queries)
        results = []
        for row_scores, row_ids in zip(scores, ids, strict=True):
            found = row_ids >= 0  # an approximate index fills up with -1
            results.append(Result(row_ids[found], row_scores[found].astype(float), seconds))
        return results

    def _check(self, allowed: Integers | None) -> Check:
        """Make a check of results, which may have the `allowed` ids only."""
        rows = np.arange(self.size) if allowed is None else allowed
        return _NeighbourCheck(self, rows)

    def cosines_now(self, query: str, rows: Integers) -> Floats:
        """Do the same as `cosines`, but encode only these texts and store nothing."""
        vector = self.encoder.encode([query], progress=False)[0]
        return self.encode_rows(rows) @ vector

    def encode_rows(self, rows: Integers) -> Floats:
        """Encode the texts with these ids, as an array (n, dimension)."""
        if len(rows) == 0:
            return np.empty((0, self.encoder.dimension), dtype=np.float32)
        return self.encoder.encode([self.texts[row] for row in rows], progress=False)


@dataclass(frozen=True)
class _NeighbourCheck:
    """Checks stored neighbours by encoding them and random texts.

    A result holds if the cosines of its neighbours fall, and no random text that it lacks is
    nearer than the last of them.

    Attributes:
        index: The index that was searched.
        rows: Ids that a result may have.
    """

    index: TextIndex
    rows: Integers

    def __call__(self, queries: list[Query], results: list[Result], seconds: float) -> list[bool]:
        """Say of as many results as the seconds allow, at least one, whether they hold."""
        deadline = time.perf_counter() + seconds
        query_vectors = self.index.encoder.encode(_texts_of(queries), progress=False)
        same: list[bool] = []
        least: list[float] = []
        for vector, result in zip(query_vectors, results, strict=True):
            if same and time.perf_counter() > deadline:
                break
            cosines = self.index.encode_rows(result.ids[:CHECKED_NEIGHBOURS]) @ vector
            same.append(bool((np.diff(cosines) < TOLERANCE).all()))
            least.append(float(cosines[-1]) if len(cosines) else np.inf)
        if self.index.kind == "flat":  # another kind may lack near texts
            for some, vectors in self._random_texts(deadline):
                for place, bound in enumerate(least):
                    nearer = some[vectors @ query_vectors[place] > bound + TOLERANCE]
                    same[place] &= bool(np.isin(nearer, results[place].ids).all())
        return same

    def _random_texts(self, deadline: float) -> Iterator[tuple[Integers, Floats]]:
        """Ids and vectors of random texts, some at a time, until the deadline."""
        drawn = check_generator(self.index.digest).permutation(self.rows)[:CHECKED_TEXTS]
        for start in range(0, len(drawn), CHECKED_AT_ONCE):
            if time.perf_counter() > deadline:
                return
            some = drawn[start : start + CHECKED_AT_ONCE]
            yield some, self.index.encode_rows(some)


def _index_folder(texts: TextIndex) -> Path:
    decided_by = [texts.encoder.digest, texts.kind, texts.digest]
    return artifacts.folder_of(INDEXES, texts.name, decided_by)


def _texts_of(queries: Sequence[Query]) -> list[str]:
    """The text of each query, which has a filter's digest beside it."""
    return [query if isinstance(query, str) else query[0] for query in queries]


def _checked(vectors: Floats) -> Floats:
    vectors = np.ascontiguousarray(vectors, dtype=np.float32)
    if vectors.ndim != 2:
        raise ValueError(
            f"Vectors must be a matrix with one vector a row; this has the shape {vectors.shape}."
        )
    if not np.isfinite(vectors).all():
        raise ValueError("Every number of a vector must be finite; some are not.")
    return vectors
