"""Read the table of answers that an audit is asked about: a run's, a release's or one's own."""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from evaluation import answers
from evaluation.answers import Answer
from evaluation.audit_checks import JUDGE_SCORES, OWN, PLACE
from evaluation.outcomes import Outcomes
from helpers.requests import StoreError
from helpers.texts import TextError, read_csv

RUN_COLUMNS: Final = (
    *answers.KEY,
    "cluster",
    "strata",
    "question",
    "predicted",
    "gold",
    "parsed",
    "measures",
)
"""Columns of a run's answers that are read."""
REQUIRED_COLUMNS: Final = ("question", "predicted", "gold")
"""Columns of a table of one's own."""
TEXT_COLUMNS: Final = (*REQUIRED_COLUMNS, "arm", "model", "task", "split", "unit", "cluster")
"""Columns that become fields of `Answer` as they are."""


def read(path: Path) -> Outcomes:
    """Read a folder of answers, or a CSV or Parquet file with question, predicted and gold.

    A table of one's own may have further columns of `answers.Answer` that are text,
    ``place``, ``own document``, and scores of a judge; see book/audit.md.

    Raises:
        StoreError: If the table cannot be audited.
    """
    if path.is_dir() or _is_of_a_run(path):
        return Outcomes(answers.read(path, RUN_COLUMNS))
    try:
        out = Outcomes(_read_own_table(path))
    except TextError as error:
        raise StoreError(f"{path}: {error}") from None
    _check_own_table(path, out.frame)
    return out


def _is_of_a_run(path: Path) -> bool:
    """Whether a file has the columns of a run's answers; a damaged one may have."""
    if path.suffix.lower() != ".parquet":
        return False
    try:
        names = pq.read_schema(path).names
    except pa.ArrowInvalid:
        return True
    return set(RUN_COLUMNS) <= set(names)


def _check_own_table(path: Path, frame: pd.DataFrame) -> None:
    """Refuse a table without test rows, with two rows of one key, or with labels of two kinds."""
    splits = sorted(set(frame.split))
    if "test" not in splits:
        raise StoreError(f"{path} has no row of the split test. Its splits: {', '.join(splits)}.")
    is_repeated = frame.duplicated(list(answers.KEY))
    if is_repeated.any():
        row = frame[is_repeated].iloc[0]
        raise StoreError(
            f"{path} has two rows of the arm {row.arm!r} and the unit {row.unit!r}. "
            "Add the column arm (the system) or unit (an id of the question), or remove one."
        )
    rows = frame[frame.of == ""]
    if len(rows) and not set(rows.predicted) & set(rows.gold):
        raise StoreError(
            f"{path}: no answer in predicted ({_examples(rows.predicted)}) is among gold "
            f"({_examples(rows.gold)}). They are compared as written."
        )


def _examples(column: pd.Series) -> str:
    """The first three values of a column."""
    values = sorted({repr(value) for value in column})
    return ", ".join(values[:3])


def _read_own_table(path: Path) -> list[Answer]:
    rows = []
    # The first line has the names of the columns.
    for line, cells in enumerate(_own_cells(path), start=2):
        if not (cells["question"] and cells["gold"]):
            raise TextError(f"line {line} lacks a question or a right answer (gold).")
        rows.append(_own_row(cells, line))
    return rows


def _own_cells(path: Path) -> Iterator[dict[str, str]]:
    """The cells of each row; an empty one of a column that may be missing is left out."""
    for record in _own_frame(path).to_dict("records"):
        cells = {str(name): str(cell).strip() for name, cell in record.items()}
        required = {name: cells[name] for name in REQUIRED_COLUMNS}
        yield {name: cell for name, cell in cells.items() if cell} | required


def _own_frame(path: Path) -> pd.DataFrame:
    suffix = path.suffix.lower()
    if suffix == ".csv":
        return read_csv(path, REQUIRED_COLUMNS)
    if suffix != ".parquet":
        raise TextError("a CSV or Parquet file, or a folder of a run's answers, was needed.")
    table = pd.read_parquet(path)
    missing = sorted(set(REQUIRED_COLUMNS) - set(table.columns))
    if missing:
        found = ", ".join(map(str, table.columns))
        raise TextError(f"the table lacks {' and '.join(missing)}. Its columns are: {found}.")
    return table.astype(str).where(table.notna(), "")


def _own_row(cells: Mapping[str, str], line: int) -> Answer:
    unit = cells.get("unit", cells["question"])
    fields: dict[str, Any] = {"unit": unit, "cluster": unit}
    fields |= {name: cells[name] for name in TEXT_COLUMNS if name in cells}
    if "repeat" in cells:
        fields["repeat"] = int(_number(cells, "repeat", line))
    measures = {}
    for name in (PLACE, *JUDGE_SCORES):
        if name in cells:
            measures[name] = (_number(cells, name, line), 1.0)
    if not cells.get("of"):
        measures["accuracy"] = (float(cells["predicted"] == cells["gold"]), 1.0)
    return Answer(
        **fields,
        judged_arm=cells.get("of", ""),
        parsed=bool(cells["predicted"]),
        strata={OWN: cells[OWN]} if OWN in cells else {},
        measures=measures,
    )


def _number(cells: Mapping[str, str], name: str, line: int) -> float:
    with suppress(ValueError):
        number = float(cells[name])
        if math.isfinite(number):
            return number
    raise TextError(
        f"line {line}: {name} needs a number such as 1200 or 0.5, and is {cells[name]!r}."
    )
