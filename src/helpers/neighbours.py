"""Search results, stored by what decides them, so that a rerun encodes nothing.

The last digits of a vector depend on the processor, and so does the order of texts that are
nearly equally near. With stored results every processor works with the neighbours of the
reference run. A result is ids and scores; no text is stored, only digests.

Runs use an SQLite file; results travel, and lie in git, as Parquet.
"""

import hashlib
import json
import shutil
import sqlite3
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from helpers.recheck import ASKING_SHARE, chapter_seconds, check_generator
from helpers.requests import StoreError, read_table, write_table
from resources.settings import BUILD, DATA, DERIVED, PublicError, run_command_line, settings

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Query = str | tuple[str, ...]
"""A text, or all that a result depends on: a pair of texts, a text and the digest of a filter."""

STORE = DERIVED / "retrieval"
FRESH = DERIVED / "retrieval-fresh"
"""Results of runs with ANSWERS=fresh; an interrupted run resumes from them."""
RELEASED = DATA / "retrieval"
"""The reference run's results: a folder for each run, with a file for each notebook."""
BUILT = BUILD / "retrieval"
"""The results that this machine's runs used, in the same order."""

MILLIONTHS = 1_000_000
"""Scores are rounded to this: further digits of a cosine depend on the processor."""
LIVE_TEXTS = 1000
"""With ANSWERS=stored-only a search that encodes at most so many texts is not an error."""
RELEASED_BYTES = 2 * 1024 * 1024
"""Size that a file in git may have."""


class MissingSearchError(PublicError, RuntimeError):
    """A search is not stored, and this run may not make it."""


@dataclass(frozen=True)
class Result:
    """What was found for one query.

    Attributes:
        ids: Ids of the texts found, best first, or other numbers that the search returns.
        scores: The score of each text, rounded to millionths. May be empty.
        seconds: Seconds that the search took when it was made. If the search function does not
            time itself, the seconds include the building of an index.
    """

    ids: Integers
    scores: Floats = field(default_factory=lambda: np.empty(0))
    seconds: float = 0.0


@dataclass(frozen=True)
class Search:
    """All that decides a result but the query.

    Attributes:
        operation: What is searched for, with its parameters: "nearest 10 flat". A change
            of what a result means needs another name.
        encoder: Digest of the encoder.
        texts: Digest of the texts that are searched; empty if the query has them all.
        size: Number of texts that a search encodes if it is not stored.
    """

    operation: str
    encoder: str
    texts: str
    size: int

    @property
    def key(self) -> str:
        """16 hexadecimal digits of all that decides a result."""
        return text_digest([self.operation, self.encoder, self.texts])[:16]


@dataclass
class Counts:
    """What a process searched.

    Attributes:
        queries: Distinct queries.
        stored: Those among them whose result was stored.
        checked: Stored results that were computed again, in part.
        same: Those among them that agreed.
        searching: Seconds of the searches that were made.
        recorded: Seconds that all results took when they were made.
        elapsed: Seconds of this process.
    """

    queries: int = 0
    stored: int = 0
    checked: int = 0
    same: int = 0
    searching: float = 0.0
    recorded: float = 0.0
    elapsed: float = 0.0


Find = Callable[[list[Query]], list[Result]]
"""Makes the search: a result for each query."""
Check = Callable[[list[Query], list[Result], float], list[bool]]
"""Whether stored results hold: queries, their results, and the seconds to spend."""


def replay_or_search(
    search: Search, queries: Sequence[Query], find: Find, check: Check
) -> list[Result]:
    """Give the stored result of each query; make and store the others.

    Args:
        search: What decides the results besides the queries.
        queries: The queries, in any number and order.
        find: Makes the search for queries without a stored result.
        check: Computes stored results again, for ANSWERS=check.

    Returns:
        A result for each query.

    Raises:
        MissingSearchError: If ANSWERS=stored-only and a large search is not stored.
    """
    began = time.perf_counter()
    store = results_store(working_folder())
    digest_of = {query: query_digest(query) for query in queries}
    stored = store.get(search.key, list(digest_of.values()))
    missing = [query for query, digest in digest_of.items() if digest not in stored]
    new = _search_missing(search, missing, find)
    store.insert(search.key, new)
    store.note_used(search.key, digest_of.values())
    COUNTS.queries += len(digest_of)
    COUNTS.stored += len(stored)
    if stored and settings().answers == "check":
        known = {query: stored[digest] for query, digest in digest_of.items() if digest in stored}
        _REPLAYED.append(_Replayed(search, known, check))
    results = {**stored, **new}
    COUNTS.recorded += sum(result.seconds for result in results.values())
    COUNTS.elapsed += time.perf_counter() - began
    return [results[digest_of[query]] for query in queries]


def _search_missing(search: Search, missing: list[Query], find: Find) -> dict[str, Result]:
    """Make the search for queries without a stored result; results by the queries' digests."""
    if not missing:
        return {}
    if settings().answers == "stored-only" and search.size > LIVE_TEXTS:
        raise MissingSearchError(
            f"{len(missing)} searches ({search.operation}, in {search.size:,} texts) are not "
            "stored, and ANSWERS=stored-only encodes no large set of texts. Record them: "
            "make record"
        )
    began = time.perf_counter()
    results = find(missing)
    elapsed = time.perf_counter() - began
    COUNTS.searching += elapsed
    new = {}
    for query, result in zip(missing, results, strict=True):
        scores = np.round(result.scores, 6)
        seconds = round(result.seconds or elapsed / len(missing), 5)
        new[query_digest(query)] = Result(result.ids, scores, seconds)
    return new


def check_by_repeating(find: Find) -> Check:
    """Make a check that searches for a query again, as long as the time allows."""

    def check(queries: list[Query], results: list[Result], seconds: float) -> list[bool]:
        deadline = time.perf_counter() + seconds
        same: list[bool] = []
        for query, stored in zip(queries, results, strict=True):
            if same and time.perf_counter() > deadline:
                break
            again = find([query])[0]
            scores_agree = np.allclose(stored.scores, again.scores, rtol=0, atol=TOLERANCE)
            same.append(np.array_equal(stored.ids, again.ids) and scores_agree)
        return same

    return check


def no_check(queries: list[Query], results: list[Result], seconds: float) -> list[bool]:
    """Check nothing: the search takes longer than a check may."""
    return []


TOLERANCE = 1e-5
"""Cosines that differ by less agree."""
CHECKED_QUERIES = 5
"""Results of one search that are checked, at most."""
MIN_CHECK_SECONDS = 0.05
"""No check begins with less."""

COUNTS = Counts()
"""Of this process, which is one notebook's."""


@dataclass(frozen=True)
class _Replayed:
    """Stored results that were given, with what checks them."""

    search: Search
    results: Mapping[Query, Result]
    check: Check


_REPLAYED: list[_Replayed] = []
"""What a check may draw from, with ANSWERS=check."""


def check_replayed() -> None:
    """Compute a sample of the stored results that were given again; `COUNTS` has what agreed.

    It takes a chapter's share of `check_seconds`. The sample is drawn by `check_generator`: some
    queries of one search after another, each with half of the seconds that are left.
    """
    replayed = list(_REPLAYED)
    _REPLAYED.clear()
    end = time.perf_counter() + chapter_seconds(1 - ASKING_SHARE)
    for place in check_generator("searches").permutation(len(replayed)):
        seconds = (end - time.perf_counter()) / 2
        if seconds < MIN_CHECK_SECONDS:
            break
        _check_sample(replayed[place], seconds)
    _REPLAYED.clear()  # what a check itself has replayed


def _check_sample(replayed: _Replayed, seconds: float) -> None:
    queries = list(replayed.results)
    chosen = check_generator(replayed.search.key).permutation(len(queries))[:CHECKED_QUERIES]
    sample = [queries[row] for row in chosen]
    same = replayed.check(sample, [replayed.results[query] for query in sample], seconds)
    COUNTS.checked += len(same)
    COUNTS.same += sum(same)


def query_digest(query: Query) -> str:
    """16 hexadecimal digits of a query."""
    parts = [query] if isinstance(query, str) else query
    return text_digest(parts)[:16]


def text_digest(texts: Sequence[str]) -> str:
    """SHA-256 of texts, each with its length, so that ["ab"] is not ["a", "b"]."""
    content = hashlib.sha256()
    for text in texts:
        coded = text.encode("utf-8", "surrogatepass")
        content.update(len(coded).to_bytes(8, "little"))
        content.update(coded)
    return content.hexdigest()


def rows_digest(rows: Integers | Sequence[int]) -> str:
    """16 hexadecimal digits of rows in their order."""
    return hashlib.sha256(np.asarray(rows, dtype=np.int64).tobytes()).hexdigest()[:16]


@dataclass
class Stopwatch:
    """Seconds of a step; see `stopwatch`."""

    seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Stopwatch]:
    """Time a step; a search counts what it took when it was made, stored or not."""
    watch = Stopwatch()
    began, before = time.perf_counter(), replace(COUNTS)
    yield watch
    elapsed = time.perf_counter() - began
    searches = COUNTS.elapsed - before.elapsed
    watch.seconds = elapsed - searches + COUNTS.recorded - before.recorded


_SELECT = (
    "SELECT query, ids, scores, seconds, checksum FROM results WHERE search = ? "
    "AND query IN (SELECT value FROM json_each(?))"
)


class ResultStore:
    """Stored results in a folder, shared by processes; nothing that is wrong with it stops a run.

    What cannot be read is searched again, what cannot be written is not stored, and a warning
    says so.
    """

    def __init__(self, folder: Path, released: Path | None = None) -> None:
        """Open the store.

        Args:
            folder: Where the SQLite file lies.
            released: Folder of the reference's Parquet files, which are taken in once.
        """
        self.folder = folder
        self.used: set[tuple[str, str]] = set()
        self._lock = threading.RLock()
        self._warned = False
        self._db = _connect(":memory:")
        with self._harmless("opened"):
            folder.mkdir(parents=True, exist_ok=True)
            self._db = self._open_file()
        if released:
            self._take_in(released)

    def _open_file(self) -> sqlite3.Connection:
        path = self.folder / "retrieval.sqlite"
        try:
            return _connect(path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # busy, full or forbidden
                raise
            aside = path.with_name(f"{path.name}.corrupt-{time.strftime('%Y%m%dT%H%M%S')}")
            path.rename(aside)
            self._warn(f"The stored searches were no database ({error}); set aside as {aside}.")
            return _connect(path)

    def _take_in(self, released: Path) -> None:
        """Store the reference's results, in place of this machine's own."""
        for path in sorted(released.glob("*/*.parquet")):
            mark = (
                f"{path.parent.name}/{path.name}",
                hashlib.sha256(path.read_bytes()).hexdigest(),
            )
            with self._harmless("read"), self._lock:
                if mark in self._db.execute("SELECT file, digest FROM taken_in").fetchall():
                    continue
                self.take_in_file(path)
                with self._db:
                    self._db.execute("INSERT OR REPLACE INTO taken_in VALUES (?, ?)", mark)

    def take_in_file(self, path: Path) -> int:
        """Store all results of a Parquet file.

        Returns:
            How many there are.
        """
        by_search = read(path)
        for key, results in by_search.items():
            self.insert(key, results)
        return sum(map(len, by_search.values()))

    def get(self, key: str, digests: Sequence[str]) -> dict[str, Result]:
        """Read the intact results of one search, by the digests of their queries."""
        rows = []
        with self._harmless("read"), self._lock:
            rows = self._db.execute(_SELECT, (key, json.dumps(list(digests)))).fetchall()
        results = {}
        for digest, ids, scores, seconds, checksum in rows:
            if checksum == _checksum(key, digest, ids, scores):
                results[digest] = _unpack(ids, scores, seconds)
        return results

    def insert(self, key: str, results: Mapping[str, Result]) -> None:
        """Store results of one search, by the digests of their queries."""
        rows = []
        for digest, result in results.items():
            ids, scores = _pack(result)
            checksum = _checksum(key, digest, ids, scores)
            rows.append((key, digest, ids, scores, result.seconds, checksum))
        with self._harmless("written"), self._lock, self._db:
            self._db.executemany("INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?)", rows)

    def note_used(self, key: str, digests: Iterable[str]) -> None:
        """Remember what this process searched, for `export_used`."""
        self.used |= {(key, digest) for digest in digests}

    def export_used(self, path: Path) -> int:
        """Write the results that this process used.

        Returns:
            How many there are. Without any, no file is written.
        """
        by_search: dict[str, dict[str, Result]] = {}
        for key in sorted({key for key, _ in self.used}):
            digests = sorted(digest for used_key, digest in self.used if used_key == key)
            by_search[key] = self.get(key, digests)
        count = sum(map(len, by_search.values()))
        if count:
            write(path, by_search)
        return count

    @contextmanager
    def _harmless(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, StoreError) as error:
            self._warn(
                f"The stored searches in {self.folder} cannot be {what} ({error}). The run goes "
                "on without them. See that the disk has room and that the folder may be written to."
            )

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(message, stacklevel=4)


def working_folder() -> Path:
    """The folder of the store that runs use."""
    return FRESH if settings().answers == "fresh" else STORE


@lru_cache
def results_store(folder: Path) -> ResultStore:
    """The store in a folder, one for each process; the project's own has the reference's, too."""
    return ResultStore(folder, RELEASED if folder == STORE else None)


def _connect(path: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        columns = "search, query, ids, scores, seconds, checksum, PRIMARY KEY (search, query)"
        db.execute(f"CREATE TABLE IF NOT EXISTS results ({columns}) WITHOUT ROWID")
        db.execute("CREATE TABLE IF NOT EXISTS taken_in (file PRIMARY KEY, digest) WITHOUT ROWID")
    except sqlite3.Error:
        db.close()
        raise
    return db


def _pack(result: Result) -> tuple[bytes, bytes]:
    scores = np.rint(result.scores * MILLIONTHS).astype("<i4")
    return result.ids.astype("<i4").tobytes(), scores.tobytes()


def _unpack(ids: bytes, scores: bytes, seconds: float) -> Result:
    millionths = np.frombuffer(scores, dtype="<i4")
    rows = np.frombuffer(ids, dtype="<i4").astype(np.int64)
    return Result(rows, np.round(millionths / MILLIONTHS, 6), seconds)


def _checksum(key: str, digest: str, ids: bytes, scores: bytes) -> int:
    name = f"{key} {digest} ".encode()
    return zlib.crc32(name + ids + b" " + scores)


_NUMBERS = pa.list_(pa.field("element", pa.int32(), nullable=False))
SCHEMA = pa.schema(
    [
        pa.field("search", pa.string(), nullable=False),
        pa.field("query", pa.binary(8), nullable=False),
        pa.field("ids", _NUMBERS, nullable=False),
        pa.field("scores", _NUMBERS, nullable=False),
        pa.field("seconds", pa.float32(), nullable=False),
    ]
)
_ENCODINGS = {
    "ids.list.element": "DELTA_BINARY_PACKED",
    "scores.list.element": "DELTA_BINARY_PACKED",
}


def write(path: Path, results: Mapping[str, Mapping[str, Result]]) -> None:
    """Write results as Parquet: by search, and by query's digest."""
    rows = []
    for key, of_search in sorted(results.items()):
        for digest, result in sorted(of_search.items()):
            scores = np.rint(result.scores * MILLIONTHS).astype(int).tolist()
            row = (key, bytes.fromhex(digest), result.ids.tolist(), scores, result.seconds)
            rows.append(dict(zip(SCHEMA.names, row, strict=True)))
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    options = {"use_dictionary": ["search", "query", "seconds"], "column_encoding": _ENCODINGS}
    write_table(path, table, write_page_checksum=True, **options)


def read(path: Path) -> dict[str, dict[str, Result]]:
    """Read a Parquet file of results.

    Returns:
        Results by search and by query's digest.

    Raises:
        StoreError: If it is no such file, or damaged.
    """
    table = read_table(
        path,
        "file of searches",
        f"git checkout -- {path}",
        schema=SCHEMA,
        page_checksum_verification=True,
    )
    results: dict[str, dict[str, Result]] = {}
    for row in table.to_pylist():
        scores = np.round(np.array(row["scores"], dtype=float) / MILLIONTHS, 6)
        ids = np.array(row["ids"], dtype=np.int64)
        of_search = results.setdefault(row["search"], {})
        of_search[row["query"].hex()] = Result(ids, scores, round(row["seconds"], 5))
    return results


def built_file(run: str, notebook: str) -> Path:
    """Where the results lie that a notebook used in a run; see `settings.model_run_name`."""
    return BUILT / run / f"{notebook}.parquet"


def export_run(run: str, notebook: str) -> Path | None:
    """Write the results that this process used, for `release`.

    Returns:
        The file; None if nothing was searched.
    """
    path = built_file(run, notebook)
    path.unlink(missing_ok=True)
    return path if results_store(working_folder()).export_used(path) else None


def release(run: str, notebook: str) -> None:
    """Keep the results that a notebook used in a run as the reference's.

    Args:
        run: The folder of the run: a profile, with another model's name behind it if need be.
        notebook: The notebook's name.

    Raises:
        StoreError: If the file is too large for git.
    """
    built, released = built_file(run, notebook), RELEASED / run / f"{notebook}.parquet"
    released.unlink(missing_ok=True)
    if not built.exists():
        return
    if (size := built.stat().st_size) > RELEASED_BYTES:
        raise StoreError(
            f"{built} has {size:,} bytes; at most {RELEASED_BYTES:,} are kept in git. Store fewer "
            "neighbours of each query."
        )
    released.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(built, released)


def main(arguments: Sequence[str]) -> int:
    """Carry stored results between runs: `release RUN`, or `import FILE ...`.

    Raises:
        StoreError: If the arguments are others, or there is nothing to release.
    """
    command, *names = arguments or [""]
    if command == "import" and names:
        for name in names:
            count = results_store(STORE).take_in_file(Path(name))
            sys.stdout.write(f"{count} results taken in from {name}.\n")
        return 0
    if command != "release" or len(names) != 1:
        raise StoreError(
            f"Found {list(arguments)}. Say `release RUN`, to keep a run's results as the "
            "reference's, or `import FILE ...`, to take in results of another machine."
        )
    run = names[0]
    built = sorted((BUILT / run).glob("*.parquet"))
    if not built:
        raise StoreError(f"{BUILT / run} has no results: no run of that name has searched.")
    for path in built:
        release(run, path.stem)
        sys.stdout.write(f"{RELEASED / run / path.name}\n")
    return 0


def _command_line() -> int:
    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run_command_line(_command_line))
