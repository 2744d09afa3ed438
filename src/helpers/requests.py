"""Requests to language models and their replies: one row for each distinct request, found by what decides the reply.

A reply holds wherever the same weights are served. Runs use an SQLite file; rows travel, and lie in git, as Parquet.
"""

from __future__ import annotations

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
from dataclasses import astuple, dataclass, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from resources.services import DECLARED
from resources.settings import DATA, DERIVED, PublicError, run_command_line, settings

Kind = Literal["chat", "choose", "loglikelihood"]

STORE = DERIVED / "requests"
FRESH = (
    DERIVED / "requests-fresh"
)  # of runs with ANSWERS=fresh: begins empty; an interrupted run resumes from it
RELEASED = (
    DATA / "requests"
)  # the reference run's requests, one Parquet file for each notebook and step


def working() -> Path:
    """The folder of the store that runs use."""
    return FRESH if settings().answers == "fresh" else STORE


class StoreError(PublicError, RuntimeError):
    """A file of requests cannot be used; the message names it and the command that restores it."""


def plain(value: object) -> str:
    """A value as canonical JSON: sorted keys, ASCII, and null for a number that is not finite."""
    # six decimals of a log-probability are more than two runs of one engine agree on
    exact = json.loads(
        json.dumps(value), parse_float=lambda x: round(float(x), 6), parse_constant=lambda _: None
    )
    return json.dumps(exact, sort_keys=True, separators=(",", ":"), allow_nan=False)


def request_key(kind: Kind, weights: str, parameters: Mapping[str, Any], prompt: object) -> str:
    """The key of a request: 24 hexadecimal digits of SHA-256 over all that decides its reply, and nothing else.

    `weights`: their digest with precision and adapter, or a declared name; `prompt`: messages, or two texts.
    """
    return hashlib.sha256(plain([kind, weights, parameters, prompt]).encode()).hexdigest()[:24]


@dataclass(frozen=True)
class Row:
    """One request and its reply, as it is stored.

    Attributes:
        key: What finds the row; see `request_key`.
        weights: The original model and its adapter, which decide the reply.
        parameters: Canonical JSON, as are `prompt` and `reply`.
        prompt: None where it may not be passed on.
        prompt_tokens: None where the server did not count them; so `generated_tokens`.
        seconds: What the request took, the server's queue included.
        engine: What served the model, with its version.
        asked: When, in ISO 8601.
        digest: Of the whole row.
        served_sha256: Digest of the file that served the model; empty in rows of older
            versions, which the original file served.
        precision: That of the weights as served; empty in rows of older versions, whose
            `weights` name it.
    """

    key: str
    kind: Kind
    weights: str
    parameters: str
    prompt: str | None
    reply: str
    prompt_tokens: int | None
    generated_tokens: int | None
    seconds: float
    engine: str
    asked: str
    digest: str = ""
    served_sha256: str = ""
    precision: str = ""

    @property
    def intact(self) -> bool:
        """Whether the row is what was written, and its key that of its prompt."""
        try:
            asked = (json.loads(self.parameters), json.loads(self.prompt or "null"))
            known = self.prompt is None or self.key == request_key(self.kind, self.weights, *asked)
            return known and self.digest == self._digest()
        except (ValueError, TypeError, AttributeError):
            return False

    @property
    def source(self) -> str:
        """Engine, version and precision that gave the reply."""
        precision = self.precision
        if not precision and not self.weights.startswith(DECLARED):
            precision = self.weights.partition(":")[2].partition("+")[0]
        if not precision or f"({precision})" in self.engine:
            return self.engine
        return f"{self.engine} ({precision})"

    @property
    def tokens(self) -> int | None:
        """Tokens of prompt and reply together; None where the server did not count them."""
        if self.prompt_tokens is None or self.generated_tokens is None:
            return None
        return self.prompt_tokens + self.generated_tokens

    def sealed(self, *, prompt: bool = True) -> Row:
        """The row with its digest, without its prompt if that may not be passed on."""
        row = replace(self, prompt=self.prompt if prompt else None, seconds=round(self.seconds, 3))
        return replace(row, digest=row._digest())

    def _digest(self) -> str:
        names = [name for name in COLUMNS if name not in ("digest", *_LATER_COLUMNS)]
        if self.served_sha256 or self.precision:
            names += _LATER_COLUMNS
        values = [getattr(self, name) for name in names]
        return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:16]


COLUMNS = tuple(f.name for f in fields(Row))
_LATER_COLUMNS = ("served_sha256", "precision")
"""Empty in rows that were written before there were these, and then no part of their digest."""
_TYPES = {"int | None": pa.int32(), "float": pa.float64()}
_NULLABLE = ("prompt", "prompt_tokens", "generated_tokens", *_LATER_COLUMNS)
_SELECT = f"SELECT {', '.join(COLUMNS)} FROM requests"  # noqa: S608  # names of the columns
_AMONG = "WHERE key IN (SELECT value FROM json_each(?))"
_MARKS = ", ".join("?" * len(COLUMNS))
_INSERT = f"INSERT OR REPLACE INTO requests ({', '.join(COLUMNS)}) VALUES ({_MARKS})"  # noqa: S608  # names and marks
SCHEMA = pa.schema(
    [
        pa.field(f.name, _TYPES.get(str(f.type), pa.string()), f.name in _NULLABLE)
        for f in fields(Row)
    ]
)


class Store:
    """Requests and their replies on disk, shared by processes; nothing that is wrong with it stops a run.

    What cannot be read is asked again, what cannot be written is not stored, and a warning names the folder. The
    Parquet files of the folder `released` are taken in once.
    """

    def __init__(self, folder: Path = STORE, released: Path | None = None) -> None:
        """Open the store; a file that is no database is set aside, never deleted."""
        self.folder = folder
        self._lock = threading.RLock()
        self._warned: set[str] = set()
        self._db = _opened(":memory:")  # in place of a file that cannot be opened
        with self._harmless("opened"):
            folder.mkdir(parents=True, exist_ok=True)
            try:
                self._db = _opened(folder / "requests.sqlite")
            except sqlite3.DatabaseError as error:
                # the low byte is the kind of error, the rest says more of it
                if getattr(error, "sqlite_errorcode", 0) & 0xFF not in (
                    sqlite3.SQLITE_CORRUPT,
                    sqlite3.SQLITE_NOTADB,
                ):
                    raise
                aside = folder.rename(
                    folder.with_name(f"{folder.name}.corrupt-{time.strftime('%Y%m%dT%H%M%S')}")
                )
                folder.mkdir()
                mend = "The reference's replies are taken in again, " if released else ""
                mend += "others are asked again, unless you exported them: medrerun requests import requests.parquet"
                self._warn(
                    f"The stored requests were no database ({error}). Set aside as {aside}. {mend}"
                )
                self._db = _opened(folder / "requests.sqlite")
        others = sorted(released.glob("*/*.parquet")) if released else []
        if released and not others:
            self._warn(
                f"{released} has no requests, so models are asked. Restore it: git checkout -- {released}"
            )
        for file in (*others, *sorted(folder.glob("tasks/*/requests.sqlite"))):
            mark = ("/".join(file.parts[-2:]), hashlib.sha256(file.read_bytes()).hexdigest())
            with self._harmless("read"):
                if mark not in self._db.execute("SELECT file, digest FROM taken_in").fetchall():
                    self.merge(file if file.suffix == ".parquet" else file.parent, differing=True)
                    with self._db:
                        self._db.execute("INSERT OR REPLACE INTO taken_in VALUES (?, ?)", mark)

    def get(self, keys: Iterable[str] | None = None) -> dict[str, Row]:
        """The intact rows among these keys, or all of them."""
        found: list[Row] = []
        with self._harmless("read"), self._lock:
            query = (
                (_SELECT,) if keys is None else (f"{_SELECT} {_AMONG}", [json.dumps(list(keys))])
            )
            found = [Row(*row) for row in self._db.execute(*query)]
        intact = {row.key: row for row in found if row.intact}
        if damaged := len(found) - len(intact):
            self._warn(
                f"{damaged} damaged rows of the stored requests in {self.folder} are asked again."
            )
        return intact

    def rows(self) -> list[Row]:
        """All intact rows, by key."""
        return sorted(self.get().values(), key=lambda row: row.key)

    def put(self, rows: Sequence[Row]) -> None:
        """Store rows, replacing those of the same key, whose checks were of another reply."""
        with self._harmless("written"), self._lock, self._db:
            self._db.executemany(_INSERT, [astuple(row.sealed()) for row in rows])
            self._db.executemany("DELETE FROM checks WHERE key = ?", [(row.key,) for row in rows])

    def put_first(self, row: Row) -> Row:
        """Store a reply, unless another run that asked at once stored one before; the one that later runs find."""
        with self._harmless("written"), self._lock, self._db:
            self._db.execute("BEGIN IMMEDIATE")
            there = self.get([row.key]).get(row.key)
            if (
                there and json.loads(there.reply).get("status") != "overflow"
            ):  # another context may have been too short
                return there
            self.put([row])
        return row

    def checks(self, keys: Iterable[str], engine: str) -> dict[str, bool]:
        """Of these requests those that the engine was asked again here, and whether it gave the stored reply."""
        query, found = f"SELECT key, same FROM checks {_AMONG} AND engine = ?", []  # noqa: S608  # a constant
        with self._harmless("read"), self._lock:
            found = self._db.execute(query, [json.dumps(list(keys)), engine]).fetchall()
        return {key: bool(same) for key, same in found}

    def put_checks(self, same: Mapping[str, bool], engine: str) -> None:
        """Note of requests whether the engine gave the stored reply again."""
        with self._harmless("written"), self._lock, self._db:
            rows = [(key, engine, of) for key, of in same.items()]
            self._db.executemany("INSERT OR REPLACE INTO checks VALUES (?, ?, ?)", rows)

    def merge(self, path: Path, *, differing: bool = False) -> int:
        """Take in new rows of a Parquet file or a store's folder, none of them `differing` unless allowed; how many."""
        rows = Store(path).rows() if path.is_dir() else read(path)
        have = self.get(row.key for row in rows)
        differ = [row.key for row in rows if row.key in have and have[row.key].reply != row.reply]
        if differ and not differing:
            mend = (
                "The replies of one set of weights belong in one store: import into another folder."
            )
            raise StoreError(
                f"{path} answers {len(differ)} stored requests differently, {differ[0]} for one. {mend}"
            )
        # of two rows the stored one stays: a prompt that is there is worth more than one left out
        self.put(new := [row for row in rows if row.key not in have])
        return len(new)

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    @contextmanager
    def _harmless(self, what: str) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            mend = "The run goes on without them. See that the disk has room and that the folder may be written to."
            self._warn(f"The stored requests in {self.folder} cannot be {what} ({error}). {mend}")

    def _warn(self, message: str) -> None:
        if message not in self._warned:  # once for each kind of trouble, not for each request
            self._warned.add(message)
            warnings.warn(message, stacklevel=4)


@lru_cache
def store(folder: Path = STORE) -> Store:
    """The store of requests in a folder, one for each process; the project's own also has the reference run's."""
    return Store(folder, RELEASED if folder == STORE else None)


def _opened(path: Path | str) -> sqlite3.Connection:
    db = sqlite3.connect(path, timeout=60, check_same_thread=False)
    try:
        db.execute("PRAGMA journal_mode=WAL")
        db.execute("PRAGMA synchronous=NORMAL")
        columns = ", ".join(f"{name}{' PRIMARY KEY' if name == 'key' else ''}" for name in COLUMNS)
        db.execute(f"CREATE TABLE IF NOT EXISTS requests ({columns}) WITHOUT ROWID")
        _add_later_columns(db)
        db.execute("CREATE TABLE IF NOT EXISTS taken_in (file PRIMARY KEY, digest) WITHOUT ROWID")
        db.execute(
            "CREATE TABLE IF NOT EXISTS checks (key, engine, same, PRIMARY KEY (key, engine)) WITHOUT ROWID"
        )
    except sqlite3.Error:
        db.close()
        if isinstance(path, Path) and path.is_file() and not os.access(path.parent, os.W_OK):
            return sqlite3.connect(
                f"{path.as_uri()}?immutable=1", uri=True, check_same_thread=False
            )
        raise
    return db


def _add_later_columns(db: sqlite3.Connection) -> None:
    """Bring a file of an older version up to date."""
    db.execute("BEGIN IMMEDIATE")  # another process may do the same
    present = {column[1] for column in db.execute("PRAGMA table_info(requests)")}
    for name in _LATER_COLUMNS:
        if name not in present:
            db.execute(f"ALTER TABLE requests ADD COLUMN {name} DEFAULT ''")
    db.commit()


def write(path: Path, rows: Iterable[Row], *, prompts: bool = True) -> None:
    """Write rows as Parquet, by key; rows of declared weights, which hold on this machine alone, are left out."""
    shared = sorted(
        (r.sealed(prompt=prompts) for r in rows if DECLARED not in r.weights), key=lambda r: r.key
    )
    write_table(
        path,
        pa.table({name: [getattr(row, name) for row in shared] for name in COLUMNS}, schema=SCHEMA),
    )


def read(path: Path) -> list[Row]:
    """The rows of a Parquet file of requests; a StoreError if it is no such file, or a row is damaged."""
    restore = f"git checkout -- {path}"
    table = read_table(path, "file of requests", restore, schema=SCHEMA)
    rows = []
    for values in table.to_pylist():
        later = {name: values[name] or "" for name in _LATER_COLUMNS}
        rows.append(Row(**{**values, **later}))
    if damaged := [row.key for row in rows if not row.intact]:
        raise StoreError(
            f"{path} has {len(damaged)} damaged rows, {damaged[0]} for one. Restore it: {restore}"
        )
    return rows


def write_table(path: Path, table: pa.Table, **options: Any) -> None:  # noqa: ANN401  # of pyarrow's writer
    """Write a table as Parquet, whole or not at all, without what differs between two writings of the same rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    pq.write_table(
        table, part, compression="zstd", compression_level=19, write_statistics=False, **options
    )
    part.replace(path)


def read_table(path: Path, what: str, restore: str, **options: Any) -> pa.Table:  # noqa: ANN401  # of pyarrow's reader
    """A Parquet file; a StoreError if it is no `what`, with the command that restores it."""
    try:
        table = pq.read_table(path, **options)
        table.validate(full=True)
    except (pa.ArrowException, OSError, TypeError) as error:
        problem = " ".join(str(error).split())[:200]
        raise StoreError(f"{path} is no {what} ({problem}). Restore it: {restore}") from None
    return table


def main(arguments: Sequence[str] | None = None) -> int:
    """Carry stored requests between machines: `export FILE` writes them, `import FILE ...` takes in files or stores."""
    command, *names = (sys.argv[1:] if arguments is None else arguments) or [""]
    mine, paths = Store(STORE), [*map(Path, names)]
    if command == "import" and paths:
        for path in paths:
            sys.stdout.write(f"{mine.merge(path)} new requests from {path}.\n")
        return 0
    if (
        command != "export" or len(paths) != 1 or paths[0].is_dir()
    ):  # a folder, as is no name at all
        ways = "medrerun requests export FILE, or medrerun requests import FILE ..."
        raise StoreError(f"Name one file to write, or what to take in; found {names}: {ways}")
    if not (rows := mine.rows()):
        raise StoreError(
            f"{STORE} has no request to export: run a notebook that asks a model, or mend the folder."
        )
    write(paths[0], rows)
    own = sum(DECLARED in row.weights for row in rows)
    left = f"; {own} of models without a digest stay on this machine" if own else ""
    sys.stdout.write(f"{len(rows) - own} requests are in {paths[0]}{left}.\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
