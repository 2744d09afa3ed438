"""The table of answers: a row for each arm and unit (a question, a pair, a note): what was asked, said, read and true.

Everything that a chapter shows is read off these rows. A run writes them to `_build/answers`; those of the reference
run are in `data/answers`, one Parquet file for each notebook and arm.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from helpers.results.measures import Measures, binary
from helpers.results.requests import StoreError, read_table, write_table
from helpers.settings import BUILD, DATA, run_name

BUILT = BUILD / "answers"
RELEASED = DATA / "answers"

TEXTS = ("question", "answer", "predicted", "gold")
"""What a licence can forbid to pass on; the ids of items stay."""

_NAMED = pa.dictionary(pa.int16(), pa.string())
_STRATUM = pa.struct([("name", pa.string()), ("value", pa.string())])
_ITEM = pa.struct(
    {
        **dict.fromkeys(("id", "label"), pa.string()),
        **dict.fromkeys(("gold", "predicted"), pa.bool_()),
        **{"rank": pa.int32(), "score": pa.float32(), "strata": pa.list_(_STRATUM)},
    }
)
_MEASURE = pa.struct([("name", pa.string()), ("top", pa.float64()), ("bottom", pa.float64())])
_TYPES = {
    **dict.fromkeys(("source", "run", "model", "task", "split", "arm"), _NAMED),
    **dict.fromkeys(("unit", "of"), pa.string()),
    "repeat": pa.int16(),
    "cluster": pa.string(),
    "strata": pa.list_(_STRATUM),
    **dict.fromkeys(TEXTS, pa.string()),
    **dict.fromkeys(("parsed", "cut", "overflow"), pa.bool_()),
    "items": pa.list_(_ITEM),
    "measures": pa.list_(_MEASURE),
    "requests": pa.list_(pa.string()),
}
SCHEMA = pa.schema([pa.field(name, kind, nullable=name in TEXTS) for name, kind in _TYPES.items()])
KEY = ("source", "run", "model", "task", "split", "arm", "unit", "of", "repeat")
"""What tells the rows apart."""


@dataclass(frozen=True)
class Item:
    """A member of a set, a ranked passage, a triple or a span. What does not apply is None."""

    id: str
    label: str = ""
    gold: bool | None = None
    predicted: bool | None = None
    rank: int | None = None
    score: float | None = None
    strata: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Answer:
    """One row. An arm gives what it said, `answered` adds what it was asked.

    Attributes:
        arm: the architecture that answered.
        unit: what was asked about, by an id that is the same in every run and profile.
        cluster: units that are resampled and permuted together share it (a drug, a patient, a document).
        source: rerun, or released by the authors.
        run: the profile, or the release.
        model: who answered; empty for an arm without a model.
        task, split: corpus or sub-task; test, held-out or taught.
        of: whose answer is judged, if this is a judge's.
        repeat: which repetition.
        strata: groups that the unit belongs to, by name.
        question, answer, predicted, gold: what was asked, said, read and true.
        parsed, cut, overflow: whether the answer could be read, met its token limit, or had too long a prompt.
        items: of an answer that is a set or a ranking.
        measures: name -> (top, bottom); a score is the sum of the tops over that of the bottoms.
        requests: keys in `results.requests`.
    """

    arm: str = ""
    unit: str = ""
    cluster: str = ""
    source: str = "rerun"
    run: str = ""
    model: str = ""
    task: str = ""
    split: str = "test"
    of: str = ""
    repeat: int = 0
    strata: Mapping[str, str] = field(default_factory=dict)
    question: str | None = None
    answer: str | None = None
    predicted: str | None = None
    gold: str | None = None
    parsed: bool = True
    cut: bool = False
    overflow: bool = False
    items: Sequence[Item] = ()
    measures: Measures = field(default_factory=dict)
    requests: Sequence[str] = ()


COLUMNS = [f.name for f in fields(Answer)]


class Unit(Protocol):
    """What is asked about: see the attributes of the same names in `Answer`; `text` is the question."""

    @property
    def unit(self) -> str: ...  # noqa: D102
    @property
    def cluster(self) -> str: ...  # noqa: D102
    @property
    def text(self) -> str: ...  # noqa: D102
    @property
    def gold(self) -> str: ...  # noqa: D102
    @property
    def strata(self) -> Mapping[str, str]: ...  # noqa: D102


def answered(said: Answer, unit: Unit, **row: Any) -> Answer:  # noqa: ANN401  # columns of the row
    """A row: what an arm said, about this unit.

    A first answer of YES or NO gets the five measures of `binary`; an unread one counts as NO.
    """
    measures = dict(said.measures)
    if unit.gold in ("YES", "NO") and not said.repeat:
        measures = {**binary(unit.gold == "YES", said.predicted == "YES"), **measures}
    return replace(
        said,
        unit=unit.unit,
        cluster=unit.cluster,
        question=unit.text,
        gold=unit.gold,
        strata={**unit.strata, **said.strata},
        measures=measures,
        **row,
    )


# ------------------------------------------------------------------------------------------------------------- files


def write(folder: Path, frame: pd.DataFrame, *, licence: str, withheld: bool = False) -> None:
    """Write a run's rows, one file for each arm; files of arms that are no longer there go.

    The same rows give the same bytes: they are sorted, and nothing in a file depends on when or where it was written.

    Args:
        folder: of the notebook.
        frame: the rows, with the columns of `Answer`.
        licence: of the texts in them.
        withheld: leave out the texts, whose licence does not allow them to be passed on.

    Raises:
        ValueError: two rows have the same key.
    """
    if (twice := frame.duplicated(list(KEY))).any():
        raise ValueError(f"Rows of the table of answers differ in {', '.join(KEY)}; twice: {frame[twice].iloc[0].unit}")
    written = set()
    for arm, rows in frame.sort_values(list(KEY), kind="stable").groupby("arm", sort=True):
        path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', str(arm))}.parquet"
        metadata = {"licence": licence, "texts": "withheld" if withheld else "included"}
        table = pa.table(_columns(rows, withheld=withheld), schema=SCHEMA.with_metadata(metadata))
        write_table(path, table, write_page_checksum=True)
        written.add(path)
    for path in set(folder.glob("*.parquet")) - written:
        path.unlink()


def _columns(rows: pd.DataFrame, *, withheld: bool) -> dict[str, list[Any]]:
    columns = {name: rows[name].tolist() for name in COLUMNS}
    columns["strata"] = [_pairs(of) for of in columns["strata"]]
    columns["measures"] = [
        [{"name": name, "top": top, "bottom": bottom} for name, (top, bottom) in sorted(of.items())]
        for of in columns["measures"]
    ]
    columns["items"] = [[vars(item) | {"strata": _pairs(item.strata)} for item in of] for of in columns["items"]]
    columns["requests"] = [list(of) for of in columns["requests"]]
    return columns | ({name: [None] * len(rows) for name in TEXTS} if withheld else {})


def _pairs(strata: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in sorted(strata.items())]


def read(folder: Path, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """The rows of a notebook, in the order of their key.

    Args:
        folder: of the notebook, or one file.
        columns: of `Answer`, with those of `KEY`; without `items` and texts a large table is read in a fraction of
            the time.

    Raises:
        StoreError: a file is missing or is no table of answers; the message names the command that restores it.
    """
    paths = [folder] if folder.is_file() else sorted(folder.glob("*.parquet"))
    if not paths:
        raise StoreError(f"{folder} has no answers. Make them: make notebook NB={folder.name}")
    frames = []
    for path in paths:
        restore = f"git checkout -- {path}" if RELEASED in path.parents else f"make notebook NB={folder.name}"
        options = {"columns": [*columns], "schema": SCHEMA, "page_checksum_verification": True}
        values = read_table(path, "table of answers", restore, **options).to_pydict()
        for name in {"strata", "measures", "items"} & values.keys():
            values[name] = [_restored(name, of) for of in values[name]]
        frames.append(pd.DataFrame(values))
    return pd.concat(frames, ignore_index=True).sort_values(list(KEY), kind="stable", ignore_index=True)


def _restored(column: str, stored: list[dict[str, Any]]) -> object:
    if column == "strata":
        return {pair["name"]: pair["value"] for pair in stored}
    if column == "measures":
        return {measure["name"]: (measure["top"], measure["bottom"]) for measure in stored}
    return [Item(**{**item, "strata": _restored("strata", item["strata"] or [])}) for item in stored]


def newest(notebook: str, profile: str) -> Path:
    """Where a notebook's rows are: this machine's run, which has all texts, or else the reference run's."""
    name = run_name(profile)
    places = (BUILT / name / notebook, RELEASED / released(notebook, name))
    return next((place for place in places if any(place.glob("*.parquet"))), RELEASED / notebook)


def released(notebook: str, name: str) -> str:
    """The folder of a run among the reference's answers and requests; a further model's is `<notebook>@<model>`."""
    return f"{notebook}{''.join(name.partition('@')[1:])}"
