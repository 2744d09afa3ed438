"""What each task of `book/build.yml` takes: quality and cost of each method, simple ones too."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final

import pandas as pd
import yaml

from evaluation.measures import measure_label
from evaluation.metrics import Score
from evaluation.outcomes import Comparison, Outcomes
from evaluation.records import Record
from helpers.requests import Store
from publish import viewer
from publish.chapters import Chapter
from resources.settings import ROOT

LEVEL: Final = 0.05
"""Below this adjusted p one method is called better."""


@dataclass(frozen=True)
class Task:
    """Something that several arms of one notebook do.

    It is an entry of `book/build.yml`, which explains the attributes.
    """

    notebook: str
    words: str
    measure: str
    arms: Mapping[str, str]
    only: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    paper: str = ""
    seconds: str = ""
    prepared: Mapping[str, str] = field(default_factory=dict)
    texts: str = ""


def tasks() -> list[Task]:
    """Return the tasks in the order of the book."""
    text = (ROOT / "book" / "build.yml").read_text(encoding="utf-8")
    return [Task(**entry) for entry in yaml.safe_load(text)]


@dataclass(frozen=True)
class Method:
    """An arm with its model, which is empty unless it `asks` one.

    Its rows show that it asks one by naming requests.
    Its score is on the questions that all arms answered. What is not known is None: tokens of a
    question, the median of the seconds of questions asked one at a time, and `prepared`, the
    seconds before the first question.
    """

    arm: str
    label: str
    model: str
    asks: bool
    score: Score
    tokens: float | None
    seconds: float | None
    prepared: float | None


@dataclass(frozen=True)
class TaskResult:
    """A task with its methods.

    The comparison is of the best simple one with the best of an LLM or of the paper.
    """

    task: Task
    methods: Mapping[str, Method]
    comparison: Comparison | None
    note: str
    """The measure, and what the questions are about if that is nobody."""

    @property
    def better(self) -> str:
        """Which of the two is: simple, other, or neither."""
        if self.comparison is None or self.comparison.p >= LEVEL:
            return "neither"
        return "simple" if self.comparison.test.difference > 0 else "other"


def task_results(chapter: Chapter, store: Store) -> list[TaskResult]:
    """Return the tasks that a chapter with answers has rows of, of all its models."""
    own_tasks = [task for task in tasks() if task.notebook == chapter.name]
    if not own_tasks or chapter.record is None:
        return []
    own, others = viewer.rows(chapter)
    rows = pd.concat([own, *others.values()])
    results = [compare_methods(task, chapter.record, rows, store) for task in own_tasks]
    return [result for result in results if result]


def compare_methods(
    task: Task, record: Record, rows: pd.DataFrame, store: Store
) -> TaskResult | None:
    """Return what the rows of a notebook say of a task; None if they have none of it.

    The p of the comparison is not adjusted.

    Args:
        task: A task of the notebook.
        record: The notebook's run, which has the timings.
        rows: Rows of all its models.
        store: Requests, which have the tokens.
    """
    task_rows = _rows_of(task, rows)
    if task_rows is None:
        return None
    scored = task_rows[[task.measure in measures for measures in task_rows.measures]]
    units = [set(arm_rows.unit) for _, arm_rows in scored.groupby("arm")]
    shared_units = set.intersection(*units) if units else set()
    shared = scored[scored.unit.isin(shared_units)]
    methods: dict[str, Method] = {}
    parts = []
    for (arm, model), own_rows in shared.groupby(["arm", "model"], sort=False):
        if not shared_units <= set(own_rows.unit):
            continue
        name = f"{arm}|{model}"
        timed = task_rows[(task_rows.arm == arm) & (task_rows.model == model)]
        methods[name] = _method(task, record, own_rows, timed, store)
        parts.append(own_rows.assign(arm=name))
    if not methods:
        return None
    pair = _best_pair(task, methods)
    comparison = None
    if pair:
        [comparison] = Outcomes(pd.concat(parts)).compare([pair], task.measure)
    return TaskResult(task, methods, comparison, _note(task, record))


def _rows_of(task: Task, rows: pd.DataFrame) -> pd.DataFrame | None:
    """Return the rows of a task's arms, None if an arm or a part is absent."""
    conditions = {"source": "rerun", "split": "test", "of": "", "arm": [*task.arms], **task.only}
    try:
        task_rows = Outcomes(rows).where(**conditions).frame
    except KeyError:
        return None
    # arms of several sub-tasks are compared on the questions that they share
    return task_rows.assign(task="")


def _best_pair(task: Task, methods: Mapping[str, Method]) -> tuple[str, str] | None:
    """Return the best simple method and the best other one, None if there is only one kind."""
    best: dict[bool, str] = {}
    for name in sorted(methods, key=lambda name: _rank(methods[name])):
        method = methods[name]
        is_other = method.arm == task.paper if task.paper else method.asks
        best.setdefault(is_other, name)
    return (best[False], best[True]) if len(best) == 2 else None


def _rank(method: Method) -> tuple[float, float]:
    """Sort methods by score, and those of equal scores by tokens."""
    return -method.score.value, method.tokens or 0


def _note(task: Task, record: Record) -> str:
    texts = task.texts
    if not texts and record.synthetic:
        texts = "synthetic charts"
    label = measure_label(task.measure)
    return f"{label}, {texts}" if texts else label


def _method(
    task: Task, record: Record, rows: pd.DataFrame, timed: pd.DataFrame, store: Store
) -> Method:
    """Return the score and the costs of a method.

    Args:
        task: The task that it is for.
        record: The run, which has the timings.
        rows: The method's rows that are compared.
        timed: All its rows, of which some were timed.
        store: Requests, which have the tokens.
    """
    arm = str(rows.arm.iloc[0])
    keys = list(chain.from_iterable(rows.requests))
    waits = [measures[task.seconds][0] for measures in timed.measures if task.seconds in measures]
    timings = {step.name: step.seconds for step in record.provenance.timings}
    return Method(
        arm=arm,
        label=task.arms[arm],
        model=str(rows.model.iloc[0]) if keys else "",
        asks=bool(keys),
        score=replace(Outcomes(rows).score(task.measure), unparsed=0),
        tokens=_tokens_each(keys, len(rows), store),
        seconds=statistics.median(waits) if waits else None,
        prepared=timings.get(task.prepared.get(arm, "")),
    )


def _tokens_each(keys: Sequence[str], n_questions: int, store: Store) -> float | None:
    """Return the tokens of a question, None if those of a request are not stored."""
    stored = store.get(keys)
    counts = [stored[key].tokens for key in keys if key in stored]
    tokens = [count for count in counts if count is not None]
    return sum(tokens) / n_questions if len(tokens) == len(keys) else None
