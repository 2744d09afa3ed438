"""Parquet files: requests and their replies as they travel and lie in git, and tables as such."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from helpers.request_rows import ATTRIBUTES, COLUMNS, LATER_COLUMNS, SCHEMA, Row, StoreError


def write(path: Path, rows: Iterable[Row], *, prompts: bool = True) -> None:
    """Write rows as Parquet, by key.

    Args:
        path: Of the file; its folder is made.
        rows: Those of declared weights, which hold on this machine alone, are left out.
        prompts: Whether the prompts may be passed on.
    """
    shared = [row.sealed(prompt=prompts) for row in rows if row.is_shareable]
    shared.sort(key=lambda row: row.key)
    columns = []
    for name in ATTRIBUTES:
        columns.append([getattr(row, name) for row in shared])
    write_table(path, pa.table(columns, schema=SCHEMA))


def read(path: Path) -> list[Row]:
    """Read the rows of a Parquet file of requests.

    Raises:
        StoreError: If it is no such file, or a row is damaged.
    """
    restore = f"git checkout -- {path}"
    table = read_table(path, "file of requests", restore, schema=SCHEMA)
    columns = [table[name].to_pylist() for name in COLUMNS]
    rows = [_row(values) for values in zip(*columns, strict=True)]
    damaged = [row.key for row in rows if not row.intact]
    if damaged:
        raise StoreError(
            f"{path} has {len(damaged)} damaged rows, {damaged[0]} for one. Restore it: {restore}"
        )
    return rows


def _row(values: tuple[Any, ...]) -> Row:
    """A row of a file, which an older version may have written without the last columns."""
    n_old = len(COLUMNS) - len(LATER_COLUMNS)
    later = [value or "" for value in values[n_old:]]
    return Row(*values[:n_old], *later)


def write_table(path: Path, table: pa.Table, **options: Any) -> None:  # noqa: ANN401  # of pyarrow's writer
    """Write a table as Parquet, whole or not at all, and two writings of the same rows alike."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    pq.write_table(
        table, part, compression="zstd", compression_level=19, write_statistics=False, **options
    )
    part.replace(path)


def read_table(path: Path, what: str, restore: str, **options: Any) -> pa.Table:  # noqa: ANN401  # of pyarrow's reader
    """Read a Parquet file.

    Args:
        path: Of the file.
        what: Its content in words, for the error.
        restore: The command that restores it.
        **options: Of `pyarrow.parquet.read_table`.

    Raises:
        StoreError: If it cannot be read.
    """
    try:
        table = pq.read_table(path, **options)
        table.validate(full=True)
    except (pa.ArrowException, OSError, TypeError) as error:
        problem = " ".join(str(error).split())[:200]
        raise StoreError(f"{path} is no {what} ({problem}). Restore it: {restore}") from None
    return table
