"""Read a text file or a CSV of the user: exactly, or not at all."""

import codecs
import io
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pandas as pd

from resources.settings import PublicError


class TextError(PublicError, ValueError):
    """A file is no text that can be read; the message says what was needed, what was found and what to do."""


def read(path: Path) -> str:
    """The text of a file in UTF-8, or in UTF-16 with a byte order mark; a TextError, as no encoding is guessed."""
    try:
        need_file(path)
        with path.open("rb") as file:
            wide = file.read(2) in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
        text = path.read_text(encoding="utf-16" if wide else "utf-8-sig")
    except UnicodeDecodeError as error:
        byte = f"byte {error.start + 1:,} ({error.object[error.start]:#04x})"
        raise TextError(f"UTF-8 was needed, and {byte} is none. Save the file as UTF-8.") from None
    except OSError as error:
        raise TextError(f"the file cannot be opened ({error.strerror}).") from error
    if "\0" in text:
        found = (
            f"text was needed, and character {text.index(chr(0)) + 1:,} is NUL, as in binary files"
        )
        raise TextError(f"{found} and in UTF-16 without a byte order mark. Save the file as UTF-8.")
    return text


def lines(path: Path) -> Iterator[str]:
    """The lines of a file in UTF-8 that are not blank, without their ends."""
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from (line.rstrip("\r\n") for line in file if line.strip())


def read_csv(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    """A CSV, its cells as they are written, missing ones empty; a TextError unless it has these columns and a row."""
    try:
        # literally: a name may be "NA" or "None"
        table = pd.read_csv(io.StringIO(read(path)), dtype=str, keep_default_na=False)
    except (TextError, pd.errors.EmptyDataError, pd.errors.ParserError) as error:
        found = str(error).strip().rstrip(".")
        raise TextError(
            f"{found}. A CSV with the columns {', '.join(columns)} is needed."
        ) from error
    if not isinstance(table.index, pd.RangeIndex):
        raise TextError(
            "rows have more cells than the first has columns. Put names with a comma in quotes."
        )
    if lacking := [column for column in columns if column not in table]:
        found = ", ".join(map(str, table.columns))
        raise TextError(
            f"the columns {', '.join(columns)} are needed; {', '.join(lacking)} is missing among: {found}."
        )
    if table.empty:
        raise TextError("it has no row.")
    return table


def need_file(path: Path) -> None:
    """A TextError unless there is a file to open: to open a pipe is to wait for who writes to it."""
    if not path.is_file():
        other = "a pipe, a device or a broken link" if os.path.lexists(path) else "nothing"
        raise TextError(f"a file was needed, {'a folder' if path.is_dir() else other} was found.")
