"""Read a table of the user, from CSV, TSV or Excel, and find its columns by their names."""

import io
import re
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from helpers import texts
from helpers.texts import TextError

EXCEL = (".xlsx", ".xlsm")
SEPARATORS = (",", ";", "\t", "|")
"""What may separate the cells of a text file; the one that its first line has most often does."""
OTHER_KINDS = {
    ".doc": "a Word file",
    ".docx": "a Word file",
    ".odt": "a text document",
    ".ods": "an OpenDocument table",
    ".pdf": "a PDF file",
    ".xls": "an old Excel file",
}
"""Files that are taken for tables, and are none that can be read."""
MAX_UNPACKED = 300_000_000
"""Bytes that a workbook may have unpacked."""
FIRST_ROW = 2
"""Number of the first row in the file: the names of the columns are row 1."""


def read_table(path: Path) -> pd.DataFrame:
    """Read a table with column names in its first line; the cells are text, as they are written.

    Of a workbook, the first sheet is read.

    Args:
        path: File that ends in .csv, .tsv, .txt, .xlsx or .xlsm.

    Returns:
        The table; the index of a row is its number in the file, where the names have number 1.

    Raises:
        TextError: It is no such table, or has no row.
    """
    kind = OTHER_KINDS.get(path.suffix.lower())
    if kind and path.is_file():
        raise TextError(
            f"it is {kind}; a CSV, TSV or Excel (.xlsx) file is needed. Save the table as one."
        )
    if path.suffix.lower() in EXCEL:
        table = _read_workbook(path)
    else:
        first_line = texts.read(path).partition("\n")[0]
        separator = max(SEPARATORS, key=first_line.count)
        table = texts.read_csv(path, (), separator, blank_lines=True)
    table.columns = pd.Index([str(column).strip() for column in table.columns])
    table.index = pd.RangeIndex(FIRST_ROW, FIRST_ROW + len(table))
    is_blank = (table == "").all(axis=1)
    table = table[~is_blank]
    if table.empty:
        raise TextError("it has no row.")
    return table


def _read_workbook(path: Path) -> pd.DataFrame:
    content = texts.read_bytes(path)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            n_bytes = sum(member.file_size for member in archive.infolist())
        if n_bytes > MAX_UNPACKED:
            raise TextError(
                f"it unpacks to {n_bytes / 1e6:,.0f} MB; at most {MAX_UNPACKED / 1e6:,.0f} are "
                "read. Save the sheet as CSV."
            )
        return pd.read_excel(io.BytesIO(content), dtype=str, keep_default_na=False)
    except TextError:
        raise
    except Exception as error:  # a damaged workbook ends its reader with whatever it leads to
        found = " ".join(str(error).split()) or type(error).__name__
        raise TextError(
            f"it cannot be read as an Excel workbook ({found}). Save it anew, or as CSV."
        ) from None


def find_column(
    table: pd.DataFrame, chosen: str, names: Sequence[str], option: str, *, needed: bool = True
) -> str:
    """Find the column of a table that holds one kind of value.

    Args:
        table: What `read_table` returns.
        chosen: The column that the user names; empty to find it.
        names: Names that such a column may have, whatever their case, punctuation and plural; an
            error shows the first.
        option: How the user can name the column, such as ``--drug-column``.
        needed: Whether a table without the column is an error, and one with several; else the first
            is meant.

    Returns:
        The column's name as the table has it; empty if there is none and none is needed.

    Raises:
        TextError: The column is missing, or several could be meant.
    """
    found = ", ".join(map(str, table.columns))
    if chosen:
        if chosen in table.columns:
            return chosen
        raise TextError(f"there is no column {chosen!r} among: {found}. Correct {option}.")
    matches = _matching_columns(list(table.columns), names)
    if len(matches) == 1 or (matches and not needed):
        return matches[0]
    if len(matches) > 1:
        raise TextError(f"several columns fit: {', '.join(matches)}. Name one of them by {option}.")
    if needed:
        raise TextError(
            f"a column such as {names[0]!r} is needed; none was found among: {found}. "
            f"Name it by {option}."
        )
    return ""


def _matching_columns(columns: Sequence[str], names: Sequence[str]) -> list[str]:
    keys = {_name_key(name) for name in names}
    return [column for column in columns if _name_key(column) in keys]


def _name_key(name: str) -> str:
    """A column's name without case, spaces, punctuation and a plural ending such as "(s)"."""
    singular = re.sub(r"\((?:e?s)\)", "", name.lower())
    letters = re.sub(r"[\W_]+", "", singular)
    return letters.removesuffix("s") if len(letters) > len("pts") else letters
