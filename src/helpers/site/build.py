"""What each task of the papers takes: quality and cost of every method, and whether a method without an LLM does it.

All of it is computed from the rows of the table of answers and from the requests that they name. `book/build.yml` alone
is written by hand: what is asked, by which measure, and which arms compete for it.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from textwrap import fill
from typing import Any, Final

import matplotlib.pyplot as plt
import pandas as pd
import yaml

from helpers.results import answers, compare, figures, paired
from helpers.results.markup import Markup, escape
from helpers.results.measures import measure_label
from helpers.results.metrics import Score
from helpers.results.outcomes import Comparison, Outcomes
from helpers.results.records import Record
from helpers.results.requests import RELEASED, Store, working
from helpers.settings import ROOT, public
from helpers.site import viewer
from helpers.site.chapters import Chapter
from helpers.site.pieces import fine_print, flat, for_screens, link_to, sortable

LEVEL: Final = 0.05
"""Below this adjusted p one method is called better."""
READ: Final = (*answers.KEY, "cluster", "strata", "parsed", "measures", "requests")
"""The columns of a row that are needed."""


@dataclass(frozen=True)
class Task:
    """Something that several arms of one notebook do: an entry of `book/build.yml`, which explains the attributes."""

    notebook: str
    words: str
    measure: str
    arms: Mapping[str, str]
    only: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    paper: str = ""
    seconds: str = ""
    prepared: Mapping[str, str] = field(default_factory=dict)


def tasks() -> list[Task]:
    """The tasks in the order of the book."""
    return [Task(**entry) for entry in yaml.safe_load((ROOT / "book" / "build.yml").read_text(encoding="utf-8"))]


@dataclass(frozen=True)
class Method:
    """An arm with its model.

    Attributes:
        model: the LLM that it asks, if it `asks` one: if one of its rows names a request.
        score: on the questions that all arms of the task answered.
        tokens: read and written for a question; None where a request is not stored.
        seconds: median for a question; None where questions were not asked one at a time.
        prepared: seconds before the first question; None where they were not measured.
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
class Found:
    """A task with its methods, and the best simple one against the best with an LLM or of the paper."""

    task: Task
    record: Record
    methods: Mapping[str, Method]
    comparison: Comparison | None

    @property
    def better(self) -> str:
        """Which of the two is: simple, other, or neither."""
        test = self.comparison
        return ("simple" if test.test.difference > 0 else "other") if test and test.p < LEVEL else "neither"

    @property
    def note(self) -> str:
        """The measure, and what the questions are about if that is nobody."""
        return measure_label(self.task.measure) + ", synthetic charts" * self.record.synthetic


def compared(task: Task, record: Record, rows: pd.DataFrame, store: Store) -> Found | None:
    """What the rows of a notebook, of all its models, say of a task; None if they have none of it. p is not adjusted.

    The timings are those of the record, the tokens those of the requests in the store.
    """
    try:
        chosen = Outcomes(rows).where(source="rerun", split="test", of="", arm=[*task.arms], **task.only).frame
    except KeyError:
        return None
    # arms of several sub-tasks are compared on the questions that they share
    chosen = chosen.assign(task="")
    scored = chosen[[task.measure in of for of in chosen.measures]]
    units = [set(of.unit) for _, of in scored.groupby("arm")]
    shared = set.intersection(*units) if units else set()
    methods: dict[str, Method] = {}
    parts = []
    for (arm, model), of in scored[scored.unit.isin(shared)].groupby(["arm", "model"], sort=False):
        if shared <= set(of.unit):
            parts.append(of.assign(arm=f"{arm}|{model}"))
            timed = chosen[(chosen.arm == arm) & chosen.model.isin(["", model])]
            methods[f"{arm}|{model}"] = _method(task, record, of, timed, store)
    sides: tuple[list[str], list[str]] = ([], [])
    for name, method in methods.items():
        sides[method.arm == task.paper if task.paper else method.asks].append(name)
    comparison = None
    if all(sides):
        first, second = (
            max(side, key=lambda name: (methods[name].score.value, -(methods[name].tokens or 0))) for side in sides
        )
        [comparison] = Outcomes(pd.concat(parts)).against([(first, second)], task.measure)
    return Found(task, record, methods, comparison) if methods else None


def _method(task: Task, record: Record, rows: pd.DataFrame, timed: pd.DataFrame, store: Store) -> Method:
    arm, keys = str(rows.arm.iloc[0]), [key for of in rows.requests for key in of]
    stored = store.get(keys)
    tokens = [stored[key].prompt_tokens + stored[key].generated_tokens for key in keys if key in stored]
    waited = [of[task.seconds][0] for of in timed.measures if task.seconds in of]
    steps = {step.name: step.seconds for step in record.provenance.timings}
    return Method(
        arm,
        task.arms[arm],
        str(rows.model.iloc[0]) if keys else "",
        bool(keys),
        replace(Outcomes(rows).score(task.measure), unparsed=0),
        sum(tokens) / len(rows) if len(tokens) == len(keys) else None,
        statistics.median(waited) if waited else None,
        steps.get(task.prepared.get(arm, "")),
    )


class Advice:
    """What the page on building says, of the chapters that a build shows."""

    def __init__(self, chapters: Sequence[Chapter]) -> None:
        """Nothing is read yet."""
        self.chapters = {chapter.name: chapter for chapter in chapters}

    def functions(self) -> dict[str, Callable[..., str]]:
        """The functions by the names that a template uses."""
        return {f"advice_{name}": getattr(self, name) for name in ("summary", "table", "picture", "methods")}

    @cached_property
    def found(self) -> list[Found]:
        """The tasks that the runs answer: first where the simple method is better, last where it has no match."""
        store = Store(working(), RELEASED)
        every: list[Found] = []
        for name, of in groupby(tasks(), key=lambda task: task.notebook):
            chapter = self.chapters.get(name)
            if chapter is None or chapter.record is None or not viewer.arms(chapter):
                continue
            profile = chapter.record.profile
            own = answers.read(answers.newest(name, profile), READ)
            rows = pd.concat([own, *compare.others(name, profile).values()])
            every += [one for task in of if (one := compared(task, chapter.record, rows, store))]
        both = [one for one in every if one.comparison]
        adjusted = iter(paired.holm([one.comparison.test.p for one in both if one.comparison]) if both else [])
        every = [replace(one, comparison=one.comparison and replace(one.comparison, p=next(adjusted))) for one in every]
        order = ("simple", "neither", "other")
        return sorted(
            every,
            key=lambda one: (order.index(one.better), -one.comparison.test.difference) if one.comparison else (3, 0.0),
        )

    @property
    def _pairs(self) -> list[tuple[Found, Comparison, Method, Method]]:
        return [
            (one, test, one.methods[test.first], one.methods[test.second])
            for one in self.found
            if (test := one.comparison)
        ]

    def summary(self) -> str:
        """On how many tasks the simple method is better, and on which."""
        verdicts = [one.better for one, *_ in self._pairs]
        if not verdicts:
            return "No run that is shown compares a method without a language model with one that asks one."
        lines = [
            f"- {figures.inline(one.task.words)} {figures.inline(first.label)} is better by "
            f"{figures.points(test.test)} points ({figures.p_words(test.p)})."
            for one, test, first, _ in self._pairs
            if one.better == "simple"
        ]
        head = (
            f"**The simple method is better on {len(lines)} of {len(verdicts)} tasks.** The other one, which asks a "
            f"language model or is the paper's own, is better on {verdicts.count('other')}. On "
            f"{verdicts.count('neither')} the run cannot tell them apart."
        )
        return "\n".join([head, "", *lines])

    def table(self) -> str:
        """A row for each task: the best simple method, the best with an LLM, and the test between them."""
        words = {"simple": Markup("<strong>simple method</strong>"), "other": "the other", "neither": "cannot tell"}
        rows = [
            {
                "Task": _task(one),
                "Better": words[one.better],
                "Best simple method": _scored(one, first),
                "Best with an LLM, or the paper's": _scored(one, second),
                "Difference in points": sortable(test.test.difference, figures.points(test.test)),
                "p (Holm)": figures.p_text(test.p),
                "Cost of the second": _ratio(first, second),
            }
            for one, test, first, second in self._pairs
        ]
        return _shown(rows, f"{len(rows)} tasks: the best method without a language model, and the best with one")

    def picture(self) -> str:
        """The differences of the table, one picture for wide screens and one for narrow ones; empty if none."""
        return for_screens(self._drawn) if self._pairs else ""

    def _drawn(self, *, narrow: bool) -> figures.Picture:
        figures.use_style()
        labels = [fill(one.task.words, 22 if narrow else 50) for one, *_ in self._pairs]
        height = sum(0.4 + 0.2 * label.count("\n") for label in labels) + 0.9
        fig, ax = plt.subplots(figsize=(4.2 if narrow else 7.4, height))
        colours = {"simple": "#125ee0", "neither": "#808080", "other": "#c35410"}
        for y, (one, test, *_) in enumerate(self._pairs):
            ax.hlines(y, 100 * test.test.low, 100 * test.test.high, color=colours[one.better])
            ax.plot(100 * test.test.difference, y, "o", color=colours[one.better])
        ax.axvline(0, linestyle=":", color=figures.INK, linewidth=1)
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(len(labels) - 0.5, -0.5)
        ax.set_xlabel("difference in points")
        said = "; ".join(f"{one.task.words} {figures.points(test.test)}" for one, test, *_ in self._pairs)
        caption = "Best simple method minus best with a language model, or the paper's; 95 % intervals. "
        caption += "Blue: the simple one is better; orange: the other; grey: cannot be told (Holm)."
        return figures.figure(fig, alt=f"{said}.", caption=caption)

    def methods(self) -> str:
        """Every method of every task, with all that the figure shows."""
        rows = [
            {
                "Task": _task(one),
                "Method": _scored(one, method),
                "Tokens a question": "not stored" if method.tokens is None else _cost(method.tokens),
                "Seconds a question": _cost(method.seconds, " s"),
                "Indexing": _cost(method.prepared, " s"),
            }
            for one in self.found
            for method in one.methods.values()
        ]
        return _shown(rows, f"{len(rows)} methods for {len(self.found)} tasks", "rag-sortable")

    def files(self) -> dict[str, str]:
        """The data of the figure as a script, for a page opened from the disk may not fetch a file."""
        listed = [
            {"name": one.task.words, "measure": one.note, "points": [_point(one, of) for of in one.methods.values()]}
            for one in self.found
        ]
        return {"build-points.js": f"window.METHODS = {json.dumps(public(listed), separators=(',', ':'))};\n"}


def _point(one: Found, method: Method) -> dict[str, Any]:
    of = {name: getattr(method, name) for name in ("label", "model", "asks", "tokens", "seconds")}
    score = {name: getattr(method.score, name) for name in ("value", "low", "high", "n")}
    return {**of, **score, "href": viewer.link(one.task.notebook, method.arm)}


def _task(one: Found) -> Markup:
    return link_to(one.task.notebook, one.task.words) + fine_print(one.note)


def _scored(one: Found, method: Method) -> Markup:
    link = Markup('<a href="{}">{}</a> ').format(viewer.link(one.task.notebook, method.arm), method.label)
    score = sortable(method.score.value, figures.score_text(method.score))
    return link + score + fine_print(f"n = {method.score.n:,}, {method.model or 'no language model'}")


def _ratio(simple: Method, other: Method) -> str:
    """What the second method costs beside the first."""
    told = "neither asks a language model" if not other.asks else "tokens not stored"
    if other.asks and other.tokens is not None:
        told = f"{other.tokens:,.0f} tokens a question, against none"
    if simple.seconds and other.seconds:
        told += f"; {float(f'{other.seconds / simple.seconds:.2g}'):,.6g} times the seconds"
    return told


def _cost(value: float | None, unit: str = "") -> Markup:
    if value is None:
        return escape("\N{EN DASH}")
    return sortable(value, (f"{value:,.0f}" if value >= 10 or not value else f"{value:.2g}") + unit)


def _shown(rows: list[dict[str, Any]], caption: str, classes: str = "") -> str:
    classes = f"rag-cards {classes}"
    return flat(figures.table(pd.DataFrame(rows).astype(object), caption, classes=classes)) if rows else "Not run yet."
