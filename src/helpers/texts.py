"""Read a text file or a CSV of the user: exactly, or not at all."""

import codecs
import io
import os
import re
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from resources.settings import PublicError

MAX_BYTES = 100_000_000
"""Largest file of the user that is read. A sparse file can claim any size."""

OPEN_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
"""Without O_NONBLOCK, opening a named pipe waits for somebody to write to it."""


_TOO_MANY = re.compile(
    r"Expected (?P<expected>\d+) fields in line (?P<line>\d+), saw (?P<found>\d+)"
)
"""How pandas says that a line has more cells than columns."""


class TextError(PublicError, ValueError):
    """A file is no text that can be read.

    The message says what was needed, what was found and what to do.
    """


def read(path: Path) -> str:
    """Read a text file in UTF-8, or in UTF-16 with a byte order mark; no encoding is guessed.

    Raises:
        TextError: The file cannot be opened, is too large, or is no text in these encodings.
    """
    return decode(read_bytes(path))


def read_bytes(path: Path, max_bytes: int = MAX_BYTES, flags: int = 0) -> bytes:
    """Read an ordinary file.

    Args:
        path: Where it is; links are followed unless ``flags`` forbid it.
        max_bytes: Largest file that is read.
        flags: Further flags of ``os.open``, such as ``os.O_NOFOLLOW``.

    Raises:
        TextError: It is no ordinary file, cannot be opened, or is too large.
    """
    try:
        _check_kind(path.stat().st_mode)
        with open(os.open(path, OPEN_FLAGS | flags), "rb") as file:  # noqa: PTH123  # by its number
            # What is open now may be another file than the one that was there before.
            _check_kind(os.fstat(file.fileno()).st_mode)
            content = file.read(max_bytes + 1)
    except FileNotFoundError:
        raise TextError(f"a file was needed, {_what_is_missing(path)} was found.") from None
    except OSError as error:
        raise TextError(f"the file cannot be opened ({error.strerror}).") from error
    if len(content) > max_bytes:
        limit = f"{max_bytes / 1e6:,.0f} MB"
        raise TextError(f"the file has more than {limit}, the most that is read. Divide it.")
    return content


def _check_kind(mode: int) -> None:
    if stat.S_ISDIR(mode):
        raise TextError("a file was needed, a folder was found.")
    if not stat.S_ISREG(mode):
        raise TextError("a file was needed, a pipe, a socket or a device was found.")


def _what_is_missing(path: Path) -> str:
    return "a broken link" if path.is_symlink() else "nothing"


def decode(content: bytes) -> str:
    """Decode UTF-8, or UTF-16 with a byte order mark, with line ends as ``\\n``.

    Raises:
        TextError: The bytes are no text in these encodings.
    """
    is_wide = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if is_wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1:,} ({error.object[error.start]:#04x})"
        raise TextError(f"UTF-8 was needed, and {byte} is none. Save the file as UTF-8.") from None
    position = text.find("\0")
    if position >= 0:
        raise TextError(
            f"text was needed, and character {position + 1:,} is NUL, as in binary files and in "
            "UTF-16 without a byte order mark. Save the file as UTF-8."
        )
    return text.replace("\r\n", "\n").replace("\r", "\n")


def lines(path: Path) -> Iterator[str]:
    """Yield the lines of a file in UTF-8 that are not blank, without their ends."""
    with path.open(encoding="utf-8", newline="\n") as file:
        for line in file:
            if line.strip():
                yield line.rstrip("\r\n")


def read_csv(
    path: Path, columns: Sequence[str], separator: str = ",", *, blank_lines: bool = False
) -> pd.DataFrame:
    """Read a CSV, its cells as they are written, missing ones empty.

    Args:
        path: Where the file is.
        columns: Columns that it must have.
        separator: What separates two cells.
        blank_lines: Whether a blank line is a row, so that a row's number is its place in the file.

    Raises:
        TextError: It is no CSV, lacks one of ``columns``, or has no row.
    """
    needed = f" with the columns {', '.join(columns)}" if columns else ""
    try:
        # Literally: a name may be "NA" or "None".
        content = io.StringIO(read(path))
        table = pd.read_csv(
            content,
            sep=separator,
            dtype=str,
            keep_default_na=False,
            skip_blank_lines=not blank_lines,
        )
    except TextError as error:
        found = str(error).strip().rstrip(".")
        raise TextError(f"{found}. A CSV{needed} is needed.") from error
    except pd.errors.EmptyDataError as error:
        raise TextError(f"the file is empty. A CSV{needed} is needed.") from error
    except pd.errors.ParserError as error:
        raise TextError(f"{_explain_parser(error, separator)} A CSV{needed} is needed.") from error
    if not isinstance(table.index, pd.RangeIndex):
        raise TextError(
            "rows have more cells than the first has columns. Put names with a comma in quotes."
        )
    missing = [column for column in columns if column not in table]
    if missing:
        found = ", ".join(map(str, table.columns))
        raise TextError(f"the table lacks {' and '.join(missing)}. Its columns are: {found}.")
    if table.empty:
        raise TextError("it has no row.")
    return table


def _explain_parser(error: pd.errors.ParserError, separator: str) -> str:
    """Say which line has too many cells, or else what pandas says."""
    match = _TOO_MANY.search(str(error))
    if match is None:
        return f"{str(error).strip().rstrip('.')}."
    name = "a tab" if separator == "\t" else repr(separator)
    return (
        f"line {match['line']} has {match['found']} cells, where {match['expected']} columns are. "
        f"Put a cell that has {name} in it in quotes, or remove it."
    )
