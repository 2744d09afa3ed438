"""Quality and cost of each method, simple ones too, for the tasks of `data/build_tasks.yml`."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Final

import pandas as pd
import yaml

from evaluation import answers, compare, paired
from evaluation.measures import measure_label
from evaluation.metrics import DRAWS, Score
from evaluation.outcomes import Comparison, Outcomes
from evaluation.records import Record
from evaluation.stored_runs import StoredRun, newest_run
from helpers import requests
from helpers.requests import Store
from resources.settings import DATA

LEVEL: Final = 0.05
"""Below this adjusted p one method is called better."""


@dataclass(frozen=True)
class Task:
    """Something that several arms of one notebook do.

    It is an entry of `data/build_tasks.yml`, which explains the attributes.
    """

    notebook: str
    words: str
    measure: str
    arms: Mapping[str, str]
    only: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    paper: Sequence[str] = ()
    seconds: str = ""
    prepared: Mapping[str, str] = field(default_factory=dict)
    texts: str = ""
    remark: str = ""


def tasks() -> list[Task]:
    """Return the tasks in the order of the book."""
    text = (DATA / "build_tasks.yml").read_text(encoding="utf-8")
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

    The comparison is of the best simple one with the best that asks an LLM.
    """

    task: Task
    methods: Mapping[str, Method]
    comparison: Comparison | None
    note: str
    """The measure, and what the questions are about if that is nobody."""
    run: StoredRun | None = None

    @property
    def better(self) -> str:
        """Which of the two is better: simple, other (asks an LLM), or neither."""
        if self.comparison is None or self.comparison.p >= LEVEL:
            return "neither"
        return "simple" if self.comparison.test.difference > 0 else "other"


@dataclass(frozen=True)
class RunAnswers:
    """What a run answered.

    Attributes:
        record: The run, which has the timings.
        rows: Rows of all its models.
        store: Requests, which have the tokens.
        draws: Number of bootstrap samples and permutations.
    """

    record: Record
    rows: pd.DataFrame
    store: Store
    draws: int = DRAWS


def read_results(profile: str, draws: int = DRAWS) -> list[TaskResult]:
    """Compare the methods of every task that the newest runs answer, by all their models.

    The p-values are adjusted over the tasks by Holm's method.

    Args:
        profile: Name of the profile. Where it has no run, the reference's is read.
        draws: Number of bootstrap samples and permutations.
    """
    store = requests.store(requests.working())
    results = []
    for notebook, own_tasks in groupby(tasks(), key=lambda task: task.notebook):
        run = newest_run(notebook, profile)
        if run is None:
            continue
        run_answers = RunAnswers(run.record, _read_rows(run, profile), store, draws)
        for task in own_tasks:
            result = compare_methods(task, run_answers)
            if result:
                results.append(replace(result, run=run))
    return adjust_p_values(results)


def _read_rows(run: StoredRun, profile: str) -> pd.DataFrame:
    """Return the rows of a run and those of other models."""
    own = answers.read(run.files.answers, answers.SCORE_COLUMNS)
    others = compare.others(run.record.notebook, profile)
    return pd.concat([own, *(rows[answers.SCORE_COLUMNS] for rows in others.values())])


def adjust_p_values(results: Sequence[TaskResult]) -> list[TaskResult]:
    """Adjust the p-values of the tasks' comparisons by Holm's method."""
    p_values = [result.comparison.test.p for result in results if result.comparison]
    adjusted_p = iter(paired.holm(p_values))
    adjusted = []
    for result in results:
        if result.comparison:
            comparison = replace(result.comparison, p=next(adjusted_p))
            adjusted.append(replace(result, comparison=comparison))
        else:
            adjusted.append(result)
    return adjusted


def compare_methods(task: Task, run: RunAnswers) -> TaskResult | None:
    """Return what a run of the task's notebook says of it; None if it has nothing of it.

    The p of the comparison is not adjusted.
    """
    task_rows = _rows_of(task, run.rows)
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
        methods[name] = _method(task, run, own_rows, timed)
        parts.append(own_rows.assign(arm=name))
    if not methods:
        return None
    pair = _best_pair(task, methods)
    comparison = None
    if pair:
        outcomes = Outcomes(pd.concat(parts), draws=run.draws)
        [comparison] = outcomes.compare([pair], task.measure)
    return TaskResult(task, methods, comparison, _note(task, run.record))


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
    """Return the best simple method and the best that asks an LLM.

    Returns:
        Their names; None if there is only one kind, or if the paper's own asks no LLM: the task
        then sets no simple method against an LLM.
    """
    if task.paper:
        return None
    best: dict[bool, str] = {}
    for name in sorted(methods, key=lambda name: _rank(methods[name])):
        best.setdefault(methods[name].asks, name)
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


def _method(task: Task, run: RunAnswers, rows: pd.DataFrame, timed: pd.DataFrame) -> Method:
    """Return the score and the costs of a method.

    Args:
        task: The task that it is for.
        run: The run that has the method.
        rows: The method's rows that are compared.
        timed: All its rows, of which some were timed.
    """
    arm = str(rows.arm.iloc[0])
    keys = list(chain.from_iterable(rows.requests))
    waits = [measures[task.seconds][0] for measures in timed.measures if task.seconds in measures]
    timings = {step.name: step.seconds for step in run.record.provenance.timings}
    score = Outcomes(rows, draws=run.draws).score(task.measure)
    return Method(
        arm=arm,
        label=task.arms[arm],
        model=str(rows.model.iloc[0]) if keys else "",
        asks=bool(keys),
        score=replace(score, unparsed=0),
        tokens=_tokens_each(keys, len(rows), run.store),
        seconds=statistics.median(waits) if waits else None,
        prepared=timings.get(task.prepared.get(arm, "")),
    )


def _tokens_each(keys: Sequence[str], n_questions: int, store: Store) -> float | None:
    """Return the tokens of a question, None if those of a request are not stored."""
    stored = store.get(keys)
    counts = [stored[key].tokens for key in keys if key in stored]
    tokens = [count for count in counts if count is not None]
    return sum(tokens) / n_questions if len(tokens) == len(keys) else None
