"""The store of requests to language models and their replies.

A reply holds wherever the same model is served. Runs use an SQLite file; rows travel, and
lie in git, as Parquet (`helpers.request_files`).
"""

import hashlib
import json
import os
import sqlite3
import sys
import threading
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from operator import attrgetter
from pathlib import Path

from helpers.request_files import read, read_table, write, write_table
from helpers.request_rows import (
    ATTRIBUTES,
    COLUMNS,
    LATER_COLUMNS,
    SCHEMA,
    Kind,
    Row,
    StoreError,
    plain,
    request_key,
)
from resources.settings import DATA, DERIVED, run_command_line, settings

__all__ = [
    "COLUMNS",
    "FRESH",
    "RELEASED",
    "SCHEMA",
    "STORE",
    "Kind",
    "Row",
    "Store",
    "StoreError",
    "plain",
    "read",
    "read_table",
    "request_key",
    "store",
    "working",
    "write",
    "write_table",
]

STORE = DERIVED / "requests"
FRESH = DERIVED / "requests-fresh"
"""Of runs with ANSWERS=fresh: begins empty; an interrupted run resumes from it."""
RELEASED = DATA / "requests"
"""The reference run's requests, one Parquet file for each notebook and step."""

_DATABASE = "requests.sqlite"
_NAMES = ", ".join(COLUMNS)
_MARKS = ", ".join("?" * len(COLUMNS))
_SELECT = f"SELECT {_NAMES} FROM requests"  # noqa: S608  # names of the columns
_AMONG = "WHERE key IN (SELECT value FROM json_each(?))"
_INSERT = f"INSERT OR REPLACE INTO requests ({_NAMES}) VALUES ({_MARKS})"  # noqa: S608
_SELECT_CHECKS = f"SELECT key, same FROM checks {_AMONG} AND engine = ?"  # noqa: S608
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_values_of = attrgetter(*ATTRIBUTES)
_KIND_OF_ERROR = 0xFF
"""The low byte of SQLite's code of an error; the rest says more of it."""


def working() -> Path:
    """The folder of the store that runs use."""
    return FRESH if settings().answers == "fresh" else STORE


class Store:
    """Requests and their replies on disk, shared by processes.

    Nothing that is wrong with it stops a run: what cannot be read is asked again, what
    cannot be written is not stored, and a warning names the folder.
    """

    def __init__(self, folder: Path = STORE, released: Path | None = None) -> None:
        """Open the store; a file that is no database is set aside, never deleted.

        Args:
            folder: Where it is.
            released: A folder whose Parquet files are taken in once.
        """
        self.folder = folder
        self._lock = threading.RLock()
        self._warned: set[str] = set()
        self._db = _open_database(":memory:")  # in place of a file that cannot be opened
        with self._harmless("opened"):
            folder.mkdir(parents=True, exist_ok=True)
            self._db = self._open(released)
        self._take_in(released)

    def _open(self, released: Path | None) -> sqlite3.Connection:
        """Open the file, in place of a damaged one if need be."""
        try:
            return _open_database(self.folder / _DATABASE)
        except sqlite3.DatabaseError as error:
            if getattr(error, "sqlite_errorcode", 0) & _KIND_OF_ERROR not in _DAMAGE:
                raise
            problem = str(error)
        stamp = time.strftime("%Y%m%dT%H%M%S")
        aside = self.folder.rename(self.folder.with_name(f"{self.folder.name}.corrupt-{stamp}"))
        self.folder.mkdir()
        hint = "The reference's replies are taken in again, " if released else ""
        self._warn(
            f"The stored requests were no database ({problem}). Set aside as {aside}. {hint}others "
            "are asked again, unless you exported them: medrerun requests import "
            "requests.parquet"
        )
        return _open_database(self.folder / _DATABASE)

    def _take_in(self, released: Path | None) -> None:
        """Take in the reference's files, and the stores of tasks that ran elsewhere."""
        files = sorted(released.glob("*/*.parquet")) if released else []
        if released and not files:
            self._warn(
                f"{released} has no requests, so models are asked. Restore it: git checkout -- "
                f"{released}"
            )
        files += sorted(self.folder.glob(f"tasks/*/{_DATABASE}"))
        known: set[tuple[str, str]] = set()
        with self._harmless("read"):
            known = set(self._db.execute("SELECT file, digest FROM taken_in"))
        for file in files:
            mark = ("/".join(file.parts[-2:]), hashlib.sha256(file.read_bytes()).hexdigest())
            if mark in known:
                continue
            with self._harmless("read"):
                self.merge(file if file.suffix == ".parquet" else file.parent, differing=True)
                with self._db:
                    self._db.execute("INSERT OR REPLACE INTO taken_in VALUES (?, ?)", mark)

    def get(self, keys: Iterable[str] | None = None) -> dict[str, Row]:
        """Return the intact rows among these keys, or all of them."""
        rows: list[Row] = []
        with self._harmless("read"), self._lock:
            if keys is None:
                selected = self._db.execute(_SELECT)
            else:
                selected = self._db.execute(f"{_SELECT} {_AMONG}", [json.dumps(list(keys))])
            rows = [Row(*values) for values in selected]
        intact = {row.key: row for row in rows if row.intact}
        n_damaged = len(rows) - len(intact)
        if n_damaged:
            self._warn(
                f"{n_damaged} damaged rows of the stored requests in {self.folder} are asked again."
            )
        return intact

    def rows(self) -> list[Row]:
        """Return all intact rows, by key."""
        return sorted(self.get().values(), key=lambda row: row.key)

    def add(self, rows: Sequence[Row]) -> None:
        """Store rows, replacing those of the same key, whose checks were of another reply."""
        self._add_sealed([row.sealed() for row in rows])

    def _add_sealed(self, rows: Sequence[Row]) -> None:
        with self._harmless("written"), self._lock, self._db:
            self._db.executemany(_INSERT, [_values_of(row) for row in rows])
            self._db.executemany("DELETE FROM checks WHERE key = ?", [(row.key,) for row in rows])

    def add_first(self, row: Row) -> Row:
        """Store a reply, unless another run that asked at the same time stored one before.

        Returns:
            The row that later runs find.
        """
        with self._harmless("written"), self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            earlier = self.get([row.key]).get(row.key)
            if earlier and not _may_fit_another_context(earlier):
                return earlier
            self.add([row])
        return row

    def checks(self, keys: Iterable[str], engine: str) -> dict[str, bool]:
        """Whether an engine that was asked again here gave the stored replies, by key."""
        checks: list[tuple[str, int]] = []
        with self._harmless("read"), self._lock:
            checks = self._db.execute(_SELECT_CHECKS, [json.dumps(list(keys)), engine]).fetchall()
        return {key: bool(same) for key, same in checks}

    def add_checks(self, same: Mapping[str, bool], engine: str) -> None:
        """Note of requests whether the engine gave the stored reply again."""
        with self._harmless("written"), self._lock, self._db:
            rows = [(key, engine, is_same) for key, is_same in same.items()]
            self._db.executemany("INSERT OR REPLACE INTO checks VALUES (?, ?, ?)", rows)

    def merge(self, path: Path, *, differing: bool = False) -> int:
        """Take in the rows of a Parquet file or of a store's folder.

        Of two rows of a key the stored one stays: a prompt that is there is worth more
        than one left out.

        Args:
            path: The file or folder.
            differing: Whether it may have other replies to stored requests.

        Returns:
            The number of new rows.

        Raises:
            StoreError: If it has other replies and may not.
        """
        rows = Store(path).rows() if path.is_dir() else read(path)
        stored = self.get(row.key for row in rows)
        if not differing:
            _check_same_replies(path, rows, stored)
        new = [row for row in rows if row.key not in stored]
        self._add_sealed(new)
        return len(new)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _harmless(self, action: str) -> Iterator[None]:
        """Turn an error of the disk or the database into a warning."""
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            self._warn(
                f"The stored requests in {self.folder} cannot be {action} ({error}). The run goes "
                "on without them. See that the disk has room and that the folder may be written to."
            )

    def _warn(self, message: str) -> None:
        """Warn once of each kind of trouble, not at each request."""
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, stacklevel=4)


def _check_same_replies(path: Path, rows: Sequence[Row], stored: Mapping[str, Row]) -> None:
    repeated = [row for row in rows if row.key in stored]
    different = [row.key for row in repeated if stored[row.key].reply != row.reply]
    if different:
        raise StoreError(
            f"{path} answers {len(different)} stored requests differently, {different[0]} for one. "
            "The replies of one model belong in one store: import into another folder."
        )


def _may_fit_another_context(row: Row) -> bool:
    """Whether the prompt did not fit the context of the server that was asked."""
    return bool(json.loads(row.reply).get("status") == "overflow")


@lru_cache
def store(folder: Path = STORE) -> Store:
    """The store of requests in a folder; the project's own also has the reference run's."""
    return Store(folder, RELEASED if folder == STORE else None)


def _open_database(path: Path | str) -> sqlite3.Connection:
    """Open a file of requests, and make or update its tables."""
    db = sqlite3.connect(path, timeout=60, check_same_thread=False)
    try:
        _prepare(db)
    except sqlite3.Error:
        db.close()
        if isinstance(path, Path) and path.is_file() and not os.access(path.parent, os.W_OK):
            uri = f"{path.as_uri()}?immutable=1"
            return sqlite3.connect(uri, uri=True, check_same_thread=False)
        raise
    return db


def _prepare(db: sqlite3.Connection) -> None:
    db.execute("PRAGMA journal_mode=WAL")
    db.execute("PRAGMA synchronous=NORMAL")
    columns = _NAMES.replace("key,", "key PRIMARY KEY,", 1)
    db.execute(f"CREATE TABLE IF NOT EXISTS requests ({columns}) WITHOUT ROWID")
    _add_later_columns(db)
    db.execute("CREATE TABLE IF NOT EXISTS taken_in (file PRIMARY KEY, digest) WITHOUT ROWID")
    db.execute(
        "CREATE TABLE IF NOT EXISTS checks (key, engine, same, PRIMARY KEY (key, engine)) "
        "WITHOUT ROWID"
    )


def _add_later_columns(db: sqlite3.Connection) -> None:
    """Bring a file of an older version up to date."""
    if _missing_columns(db):
        db.execute("BEGIN IMMEDIATE")  # another process may do the same
        for name in _missing_columns(db):
            db.execute(f"ALTER TABLE requests ADD COLUMN {name} DEFAULT ''")
        db.commit()


def _missing_columns(db: sqlite3.Connection) -> list[str]:
    present = {column[1] for column in db.execute("PRAGMA table_info(requests)")}
    return [name for name in LATER_COLUMNS if name not in present]


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry stored requests between machines.

    Args:
        arguments: `export FILE` writes them, `import FILE ...` takes in files or stores.

    Raises:
        StoreError: If no file is named, or there is nothing to export.
    """
    command, *names = (sys.argv[1:] if arguments is None else arguments) or [""]
    paths = [Path(name) for name in names]
    if command == "import" and paths:
        _import(paths)
    elif command == "export" and len(paths) == 1 and not paths[0].is_dir():
        _export(paths[0])
    else:
        raise StoreError(
            f"Name one file to write, or what to take in; found {names}: medrerun requests export "
            "FILE, or medrerun requests import FILE ..."
        )
    return 0


def _import(paths: Iterable[Path]) -> None:
    own = Store(STORE)
    for path in paths:
        sys.stdout.write(f"{own.merge(path)} new requests from {path}.\n")


def _export(path: Path) -> None:
    rows = Store(STORE).rows()
    if not rows:
        raise StoreError(
            f"{STORE} has no request to export: run a notebook that asks a model, or mend the "
            "folder."
        )
    write(path, rows)
    n_shared = sum(row.is_shareable for row in rows)
    n_own = len(rows) - n_shared
    note = f"; {n_own} of models without a digest stay on this machine" if n_own else ""
    sys.stdout.write(f"{n_shared} requests are in {path}{note}.\n")


if __name__ == "__main__":
    sys.exit(run_command_line(main))
