"""Tables of a user: which files are read, how columns are found, and what an error says."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from helpers.tables import find_column, read_table
from helpers.texts import TextError

ROWS = [["Aspirin", "tinnitus, both ears"], ["NA", "null"]]


@pytest.mark.parametrize(
    ("name", "separator"),
    [("t.csv", ","), ("t.csv", ";"), ("t.tsv", "\t"), ("t.txt", "|"), ("t.xlsx", "")],
)
def test_a_table_is_read_as_it_is_written(tmp_path: Path, name: str, separator: str) -> None:
    path = tmp_path / name
    table = pd.DataFrame(ROWS, columns=["Drug name ", "Side_Effect"])
    if separator:
        table.to_csv(path, sep=separator, index=False)
    else:
        table.to_excel(path, index=False)
    frame = read_table(path)
    assert frame.to_numpy().tolist() == ROWS
    assert list(frame.columns) == ["Drug name", "Side_Effect"]
    assert list(frame.index) == [2, 3]


def test_a_row_has_the_number_that_a_reader_of_the_file_sees(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("drug,effect\n\na,b\n\n\nc,d\n")
    assert list(read_table(path).index) == [3, 6]


def test_columns_are_found_by_name_or_named() -> None:
    table = pd.DataFrame([["a", "b", "c"]], columns=["Drug-Name", "PT", "event"])
    assert find_column(table, "", ["drug", "drug name"], "--drug-column") == "Drug-Name"
    assert find_column(table, "event", ["pt"], "--effect-column") == "event"
    assert find_column(table, "", ["organ"], "", needed=False) == ""
    for name in ("Side effect(s)", "side_effects", "SideEffect", "SIDE EFFECT:"):
        table_of_one = pd.DataFrame([["a"]], columns=[name])
        assert find_column(table_of_one, "", ["side effect"], "--effect-column") == name
    patients = pd.DataFrame([["12"]], columns=["PTs"])
    assert find_column(patients, "", ["pt"], "", needed=False) == ""
    with pytest.raises(TextError, match=r"several columns fit: PT, event.*--effect-column"):
        find_column(table, "", ["pt", "event"], "--effect-column")
    with pytest.raises(TextError, match=r"no column 'x' among: Drug-Name, PT, event"):
        find_column(table, "x", ["pt"], "--effect-column")
    with pytest.raises(TextError, match="'dose' is needed; none was found among: Drug-Name"):
        find_column(table, "", ["dose"], "--dose-column")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"drug,effect\n", "it has no row"),
        ("t.csv", b"drug,effect\n\n,\n", "it has no row"),
        ("t.csv", b"", "the file is empty"),
        ("t.csv", b"drug,effect\na,b\nc,d,e\n", "line 3 has 3 cells, where 2 columns are"),
        ("t.docx", b"PK\x03\x04", "it is a Word file; a CSV, TSV or Excel"),
        ("t.csv", b"drug,effect\nacid, folic,nausea\n", "comma in quotes"),
        ("t.xlsx", b"drug,effect\na,b\n", "cannot be read as an Excel workbook"),
        ("t.xlsx", b"PK\x03\x04" + b"x" * 99, "cannot be read as an Excel workbook"),
    ],
)
def test_a_table_that_cannot_be_used_says_why_in_a_line(
    tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(TextError, match=message) as error:
        read_table(path)
    assert "\n" not in str(error.value)
