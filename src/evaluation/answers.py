"""The table of answers: a row for each arm and unit (a question, a pair, a note): what was asked, said, read and true.

A run writes them to `_build/answers`; those of the reference run are in `data/answers`, a Parquet file for each arm.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from evaluation.measures import Measures, binary
from helpers.requests import StoreError, read_table, write_table
from resources.settings import BUILD, DATA, run_name

BUILT = BUILD / "answers"
RELEASED = DATA / "answers"

TEXTS = (
    "question",
    "answer",
    "predicted",
    "gold",
)  # what a licence can forbid to pass on; ids stay

_STRATA = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
_ITEM = {
    **dict.fromkeys(("id", "label"), pa.string()),
    **dict.fromkeys(("gold", "predicted"), pa.bool_()),
    **{"rank": pa.int32(), "score": pa.float32(), "strata": _STRATA},
}
_MEASURE = {"name": pa.string(), "top": pa.float64(), "bottom": pa.float64()}
_TYPES = {
    **dict.fromkeys(
        ("source", "run", "model", "task", "split", "arm"), pa.dictionary(pa.int16(), pa.string())
    ),
    **{
        "unit": pa.string(),
        "of": pa.string(),
        "repeat": pa.int16(),
        "cluster": pa.string(),
        "strata": _STRATA,
    },
    **dict.fromkeys(TEXTS, pa.string()),
    **dict.fromkeys(("parsed", "cut", "overflow"), pa.bool_()),
    **{"items": pa.list_(pa.struct(_ITEM)), "measures": pa.list_(pa.struct(_MEASURE))},
    "requests": pa.list_(pa.string()),
}
SCHEMA = pa.schema([pa.field(name, kind, nullable=name in TEXTS) for name, kind in _TYPES.items()])
KEY = (
    "source",
    "run",
    "model",
    "task",
    "split",
    "arm",
    "unit",
    "of",
    "repeat",
)  # what tells the rows apart


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
    """One row. An arm gives what it said, `answered` adds what it was asked."""

    arm: str = ""  # the architecture that answered
    unit: str = ""  # what was asked about, by an id that is the same in every run and profile
    cluster: str = ""  # shared by units that are resampled and permuted together (a drug, a patient, a document)
    source: str = "rerun"  # or released, by the authors
    run: str = ""  # the profile, or the release
    model: str = ""  # who answered; empty for an arm without a model
    task: str = ""  # corpus or sub-task
    split: str = "test"  # or held-out, or taught
    of: str = ""  # whose answer is judged, if this is a judge's
    repeat: int = 0  # which repetition
    strata: Mapping[str, str] = field(
        default_factory=dict
    )  # groups that the unit belongs to, by name
    question: str | None = None  # what was asked, said, read and true
    answer: str | None = None
    predicted: str | None = None
    gold: str | None = None
    parsed: bool = True  # the answer could be read
    cut: bool = False  # it met its token limit
    overflow: bool = False  # its prompt was too long
    items: Sequence[Item] = ()  # of an answer that is a set or a ranking
    measures: Measures = field(default_factory=dict)
    requests: Sequence[str] = ()  # keys in `results.requests`


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


@dataclass(frozen=True)
class PlainUnit:
    """A `Unit` that is written down; a paper's own adds what its arms read."""

    unit: str
    cluster: str
    text: str
    gold: str
    strata: Mapping[str, str] = field(default_factory=dict)


def make_row(said: Answer, unit: Unit, **row: Any) -> Answer:  # noqa: ANN401  # columns of the row
    """A row: what an arm said, about this unit; a first YES or NO with its `binary` measures, an unread one as NO."""
    asked: Any = {
        "unit": unit.unit,
        "cluster": unit.cluster,
        "question": unit.text,
        "gold": unit.gold,
    }
    first = unit.gold in ("YES", "NO") and not said.repeat
    measures = binary(unit.gold == "YES", said.predicted == "YES") if first else {}
    strata = {**unit.strata, **said.strata}
    return replace(said, **asked, strata=strata, measures={**measures, **said.measures}, **row)


def write(folder: Path, frame: pd.DataFrame, *, licence: str, withheld: bool = False) -> None:
    """Write a run's rows, one file for each arm in place of earlier ones, without their texts if `withheld`.

    The same rows give the same bytes. A ValueError if two rows have the same key.
    """
    if (twice := frame.duplicated(list(KEY))).any():
        raise ValueError(
            f"Rows of the table of answers differ in {', '.join(KEY)}; twice: {frame[twice].iloc[0].unit}"
        )
    if withheld:  # a cluster, too, may be named by its text; YES and NO are nobody's
        digests = frame.cluster.map(lambda of: sha256(of.encode()).hexdigest()[:16])
        kept = {
            name: frame[name].where(frame[name].isin(["YES", "NO"]), None)
            for name in ("predicted", "gold")
        }
        frame = frame.assign(**dict.fromkeys(TEXTS) | kept, cluster=digests)
    schema = SCHEMA.with_metadata(
        {"licence": licence, "texts": "withheld" if withheld else "included"}
    )
    written = set()
    for arm, rows in frame.sort_values(list(KEY), kind="stable").groupby("arm", sort=True):
        path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '_', str(arm))}.parquet"
        write_table(path, pa.table(_columns(rows), schema=schema), write_page_checksum=True)
        written.add(path)
    for path in set(folder.glob("*.parquet")) - written:
        path.unlink()


def _columns(rows: pd.DataFrame) -> dict[str, list[Any]]:
    columns = {name: rows[name].tolist() for name in COLUMNS}
    columns["strata"] = [sorted(of.items()) for of in columns["strata"]]
    columns["measures"] = [
        [(name, *of) for name, of in sorted(measures.items())] for measures in columns["measures"]
    ]
    columns["items"] = [
        [vars(x) | {"strata": sorted(x.strata.items())} for x in of] for of in columns["items"]
    ]
    return columns | {"requests": [list(of) for of in columns["requests"]]}


def read(folder: Path, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """The rows of a notebook's folder, or of one file, by their key, which must be among `columns`; or a StoreError."""
    paths = [folder] if folder.is_file() else sorted(folder.glob("*.parquet"))
    if not paths:
        raise StoreError(f"{folder} has no answers. Make them: make notebook NB={folder.name}")
    frames = []
    for path in paths:
        restore = (
            f"git checkout -- {path}"
            if RELEASED in path.parents
            else f"make notebook NB={folder.name}"
        )
        options = {"columns": [*columns], "schema": SCHEMA, "page_checksum_verification": True}
        values = read_table(path, "table of answers", restore, **options).to_pydict()
        for name in {"strata", "measures", "items"} & values.keys():
            values[name] = [_restored(name, of) for of in values[name]]
        frames.append(pd.DataFrame(values))
    return pd.concat(frames, ignore_index=True).sort_values(
        list(KEY), kind="stable", ignore_index=True
    )


def _restored(column: str, stored: list[dict[str, Any]]) -> object:
    if column == "strata":
        return {pair["name"]: pair["value"] for pair in stored}
    if column == "measures":
        return {measure["name"]: (measure["top"], measure["bottom"]) for measure in stored}
    return [
        Item(**{**item, "strata": _restored("strata", item["strata"] or [])}) for item in stored
    ]


def authors(notebook: str, name: str) -> Path:
    """Where a run writes the rows of the authors' released answers, which no reference includes."""
    return BUILT.with_name("authors") / name / notebook


def newest(notebook: str, profile: str) -> Path:
    """Where a notebook's rows are: this machine's run, which has all texts, or else the reference run's."""
    name = run_name(profile)
    places = (BUILT / name / notebook, RELEASED / released(notebook, name))
    return next((place for place in places if any(place.glob("*.parquet"))), RELEASED / notebook)


def released(notebook: str, name: str) -> str:
    """The folder of a run among the reference's answers and requests; a further model's is `<notebook>@<model>`."""
    return f"{notebook}{''.join(name.partition('@')[1:])}"
