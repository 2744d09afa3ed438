"""The table of answers: one row per arm and unit (a question, a pair, a note).

A row holds what was asked, what the arm replied, how the reply was read, and what is true. A run
writes the rows to `_build/answers`; those of the reference run are in `data/answers`, a Parquet
file for each arm.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Protocol

import pandas as pd
import pyarrow as pa

from evaluation.arrow_columns import to_list
from evaluation.measures import Measures, binary
from helpers.requests import StoreError, read_table, write_table
from resources.settings import BUILD, DATA, PublicError, run_name

BUILT = BUILD / "answers"
RELEASED = DATA / "answers"
TIMED = DATA / "timings"
"""Rows that only a live server can make, of recorded profiles: `<run>/<notebook>`."""

TEXTS = ("question", "answer", "predicted", "gold")
"""Columns that a licence can forbid to pass on; ids stay."""
LABELS = ("predicted", "gold")
"""Those that may be a label, which is nobody's text."""
ALL_TASKS = "*"
"""Stands for all tasks where the tasks are named whose texts are withheld."""

_STRATA = pa.list_(pa.struct([("name", pa.string()), ("value", pa.string())]))
_ITEM = {
    "id": pa.string(),
    "label": pa.string(),
    "gold": pa.bool_(),
    "predicted": pa.bool_(),
    "rank": pa.int32(),
    "score": pa.float32(),
    "strata": _STRATA,
}
_MEASURE = {"name": pa.string(), "top": pa.float64(), "bottom": pa.float64()}
_CATEGORY = pa.dictionary(pa.int16(), pa.string())
_TYPES = {
    "source": _CATEGORY,
    "run": _CATEGORY,
    "model": _CATEGORY,
    "task": _CATEGORY,
    "split": _CATEGORY,
    "arm": _CATEGORY,
    "unit": pa.string(),
    "of": pa.string(),
    "repeat": pa.int16(),
    "cluster": pa.string(),
    "strata": _STRATA,
    "question": pa.string(),
    "answer": pa.string(),
    "predicted": pa.string(),
    "gold": pa.string(),
    "parsed": pa.bool_(),
    "cut": pa.bool_(),
    "overflow": pa.bool_(),
    "items": pa.list_(pa.struct(_ITEM)),
    "measures": pa.list_(pa.struct(_MEASURE)),
    "requests": pa.list_(pa.string()),
}
SCHEMA = pa.schema([pa.field(name, kind, nullable=name in TEXTS) for name, kind in _TYPES.items()])
RELEASED_MODEL = "released"
"""Begins the names of the models of released answers, wherever these are shown."""
NOT_RUN = "not run"
"""Stratum of the rows that stand for an arm that was not run; its value is the reason."""
KEY = ("source", "run", "model", "task", "split", "arm", "unit", "of", "repeat")
"""Columns that tell the rows apart."""


class NotRunError(PublicError, ValueError):
    """A result needs an arm that was not run; the message is the reason."""


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
    """One row. An arm fills in its reply, `make_row` adds the question.

    Attributes:
        arm: The architecture that answered.
        unit: Id of the question, the same in every run and profile.
        cluster: Shared by units that are resampled and permuted together (a drug, a patient).
        source: ``rerun``, or ``released`` by the authors.
        run: The profile, or the release.
        model: The language model; empty for an arm without one.
        task: Corpus or sub-task.
        split: ``test``, ``held-out`` or ``taught``.
        judged_arm: The arm whose answer a judge's row is about; the column ``of``.
        repeat: Number of the repetition.
        strata: Groups that the unit belongs to, by name.
        question: The question.
        answer: The reply.
        predicted: What was read from the reply.
        gold: What is true.
        parsed: Whether the reply could be read.
        cut: Whether the reply met its token limit.
        overflow: Whether the prompt was too long.
        items: Members of an answer that is a set or a ranking.
        measures: Numerator and denominator of each measure.
        requests: Keys in `helpers.requests`.
    """

    arm: str = ""
    unit: str = ""
    cluster: str = ""
    source: str = "rerun"
    run: str = ""
    model: str = ""
    task: str = ""
    split: str = "test"
    judged_arm: str = ""
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


_COLUMN_BY_FIELD = {"judged_arm": "of"}
COLUMNS = [_COLUMN_BY_FIELD.get(f.name, f.name) for f in fields(Answer)]
SCORE_COLUMNS = [name for name in COLUMNS if name not in ("question", "answer", "items")]
"""Columns that scores and costs need; the others take most of the time to read."""


class Unit(Protocol):
    """A question: see the attributes of the same names in `Answer`; `text` is the question."""

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


def make_row(answer: Answer, unit: Unit, **columns: Any) -> Answer:  # noqa: ANN401
    """Make a row of an arm's answer to a unit.

    Args:
        answer: What the arm replied, and how it was read.
        unit: What was asked.
        **columns: Further fields of the row.

    Returns:
        The row. A first answer to a YES/NO question has the `binary` measures; one that could
        not be parsed counts as NO.
    """
    measures: Measures = {}
    if unit.gold in ("YES", "NO") and not answer.repeat:
        measures = binary(unit.gold == "YES", answer.predicted == "YES")
    return replace(
        answer,
        unit=unit.unit,
        cluster=unit.cluster,
        question=unit.text,
        gold=unit.gold,
        strata={**unit.strata, **answer.strata},
        measures={**measures, **answer.measures},
        **columns,
    )


def not_run_row(unit: Unit, why: str, **columns: Any) -> Answer:  # noqa: ANN401
    """Make the row of an arm that was not run; it has no measures and is not stored.

    Args:
        unit: What would have been asked.
        why: What the arm needs and the server cannot do.
        **columns: Further fields of the row.
    """
    return Answer(
        unit=unit.unit,
        cluster=unit.cluster,
        question=unit.text,
        gold=unit.gold,
        strata={**unit.strata, NOT_RUN: why},
        **columns,
    )


def to_frame(rows: Iterable[Answer]) -> pd.DataFrame:
    """The rows as a frame with the columns `COLUMNS`."""
    # vars() is much faster than dataclasses.asdict(), which copies every item and measure.
    frame = pd.DataFrame([vars(row) for row in rows], columns=[f.name for f in fields(Answer)])
    return frame.rename(columns=_COLUMN_BY_FIELD)


def write(
    folder: Path, frame: pd.DataFrame, *, licence: str, withheld: Collection[str] = ()
) -> None:
    """Write a run's rows, one file for each arm in place of earlier ones.

    Args:
        folder: Folder of the files.
        frame: The rows. The same rows give the same bytes.
        licence: Licence of the texts, which the files name.
        withheld: The tasks whose texts are left out.

    Raises:
        ValueError: If two rows have the same key.
    """
    is_repeated = frame.duplicated(list(KEY))
    if is_repeated.any():
        unit = frame[is_repeated].iloc[0].unit
        raise ValueError(f"Rows of the table of answers differ in {', '.join(KEY)}; twice: {unit}")
    frame = _without_texts(frame, are_of(frame, withheld))
    written = set()
    for arm, rows in frame.sort_values(list(KEY), kind="stable").groupby("arm", sort=True):
        path = arm_file(folder, str(arm))
        texts = _which_texts(are_of(rows, withheld))
        schema = SCHEMA.with_metadata({"licence": licence, "texts": texts})
        write_table(path, pa.table(_to_stored(rows), schema=schema), write_page_checksum=True)
        written.add(path)
    for path in set(folder.glob("*.parquet")) - written:
        path.unlink()


def are_of(frame: pd.DataFrame, tasks: Collection[str]) -> "pd.Series[bool]":
    """Say of each row whether it is of one of these tasks, or `ALL_TASKS` is among them."""
    if ALL_TASKS in tasks:
        return pd.Series(True, index=frame.index)
    return frame.task.isin(tasks)


def arm_file(folder: Path, arm: str) -> Path:
    """The file of an arm's rows."""
    file_name = re.sub(r"[^A-Za-z0-9_.-]+", "_", arm)
    return folder / f"{file_name}.parquet"


def _which_texts(is_withheld: "pd.Series[bool]") -> str:
    """Say which texts a file has, given the rows whose texts are withheld."""
    if is_withheld.all():
        return "withheld"
    return "partly withheld" if is_withheld.any() else "included"


def _without_texts(frame: pd.DataFrame, is_withheld: "pd.Series[bool]") -> pd.DataFrame:
    """The rows, some without their texts. YES and NO are nobody's; a text may name a cluster."""
    if not is_withheld.any():
        return frame
    columns: dict[str, Any] = {}
    for name in TEXTS:
        is_label = frame[name].isin(["YES", "NO"]) & (name in LABELS)
        columns[name] = frame[name].where(~is_withheld | is_label, None)
    digests = frame.cluster.map(_short_digest)
    columns["cluster"] = frame.cluster.where(~is_withheld, digests)
    return frame.assign(**columns)


def _short_digest(text: str) -> str:
    return sha256(text.encode()).hexdigest()[:16]


def _to_stored(rows: pd.DataFrame) -> dict[str, list[Any]]:
    """The columns as a file stores them: mappings as sorted lists of pairs."""
    columns = {name: rows[name].tolist() for name in COLUMNS}
    columns["strata"] = [sorted(strata.items()) for strata in columns["strata"]]
    columns["measures"] = [_stored_measures(measures) for measures in columns["measures"]]
    columns["items"] = [_stored_items(items) for items in columns["items"]]
    columns["requests"] = [list(keys) for keys in columns["requests"]]
    return columns


def _stored_measures(measures: Measures) -> list[tuple[str, float, float]]:
    return [(name, *ratio) for name, ratio in sorted(measures.items())]


def _stored_items(items: Sequence[Item]) -> list[dict[str, Any]]:
    return [vars(item) | {"strata": sorted(item.strata.items())} for item in items]


def read(folder: Path, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Read the rows of a notebook, sorted by their key.

    Args:
        folder: The notebook's folder, or one file.
        columns: Columns to read. The key must be among them.

    Raises:
        StoreError: If there is no file, or one is damaged.
    """
    paths = [folder] if folder.is_file() else sorted(folder.glob("*.parquet"))
    if not paths:
        raise StoreError(f"{folder} has no answers. Make them: make notebook NB={folder.name}")
    frames = [_read_file(path, folder.name, columns) for path in paths]
    frame = pd.concat(frames, ignore_index=True)
    return frame.sort_values(list(KEY), kind="stable", ignore_index=True)


def _read_file(path: Path, notebook: str, columns: Sequence[str]) -> pd.DataFrame:
    restore = f"make notebook NB={notebook}"
    if RELEASED in path.parents:
        restore = f"git checkout -- {path}"
    table = read_table(
        path,
        "table of answers",
        restore,
        columns=list(columns),
        schema=SCHEMA,
        page_checksum_verification=True,
    )
    values = {name: to_list(table.column(name)) for name in table.column_names}
    for name in values.keys() & _FROM_STORED.keys():
        restore_cell = _FROM_STORED[name]
        values[name] = [restore_cell(stored) for stored in values[name]]
    return pd.DataFrame(values)


def _strata_of(stored: Sequence[Mapping[str, str]]) -> dict[str, str]:
    return {pair["name"]: pair["value"] for pair in stored}


def _measures_of(stored: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    return {measure["name"]: (measure["top"], measure["bottom"]) for measure in stored}


def _items_of(stored: Sequence[Mapping[str, Any]]) -> list[Item]:
    items = []
    for item in stored:
        strata = _strata_of(item["strata"] or [])
        items.append(Item(**{**item, "strata": strata}))
    return items


_FROM_STORED: Mapping[str, Callable[[Any], object]] = {
    "strata": _strata_of,
    "measures": _measures_of,
    "items": _items_of,
}
"""How the cells of a column are restored from a file."""


def authors(notebook: str, name: str) -> Path:
    """The folder of the authors' released answers, which no reference includes."""
    return BUILT.with_name("authors") / name / notebook


def read_released(notebook: str, name: str) -> pd.DataFrame:
    """The authors' released answers, as those of models named ``released, <model>``.

    A run on this machine makes them from the authors' files; without such a run there are none.

    Args:
        notebook: Name of the notebook.
        name: Name of the run, as `run_name` gives it.
    """
    folder = authors(notebook, name)
    if not any(folder.glob("*.parquet")):
        return to_frame([])
    rows = read(folder)
    return rows.assign(model=[released_model(model) for model in rows.model])


def released_model(model: str) -> str:
    """The name of a model of released answers, apart from the same model here."""
    return f"{RELEASED_MODEL}, {model}" if model else RELEASED_MODEL


def newest(notebook: str, profile: str) -> Path:
    """The folder of a notebook's rows: this machine's, which have all texts, or the reference's."""
    name = run_name(profile)
    for folder in (BUILT / name / notebook, RELEASED / released(notebook, name)):
        if any(folder.glob("*.parquet")):
            return folder
    return RELEASED / notebook


def timed(notebook: str, profile: str) -> Path:
    """The folder with a notebook's recorded times: the profile's own, or else its newest rows."""
    recorded = TIMED / run_name(profile) / notebook
    return recorded if any(recorded.glob("*.parquet")) else newest(notebook, profile)


def released(notebook: str, name: str) -> str:
    """Name of a run's folder among the reference's; a further model's is ``<notebook>@<model>``."""
    _, at_sign, model = name.partition("@")
    return f"{notebook}{at_sign}{model}"
