"""What each task of `book/build.yml` takes: quality and cost of each method, and whether one without an LLM does it."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from textwrap import fill
from typing import Final

import matplotlib.pyplot as plt
import pandas as pd
import yaml

from evaluation import figures, paired
from evaluation.markup import Markup, escape
from evaluation.measures import measure_label
from evaluation.metrics import Score
from evaluation.outcomes import Comparison, Outcomes
from evaluation.records import Record
from helpers.requests import Store
from publish import viewer
from publish.chapters import Chapter
from publish.pieces import fine_print, for_screens, link_to, sortable, table
from resources.settings import ROOT, hide_secrets

LEVEL: Final = 0.05  # below this adjusted p one method is called better
COLOURS: Final = {"simple": "#125ee0", "neither": "#808080", "other": "#c35410"}


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
    texts: str = ""


def tasks() -> list[Task]:
    """The tasks in the order of the book."""
    return [
        Task(**entry)
        for entry in yaml.safe_load((ROOT / "book" / "build.yml").read_text(encoding="utf-8"))
    ]


@dataclass(frozen=True)
class Method:
    """An arm with its model, which is empty unless it `asks` one, as its rows show by naming requests.

    Its score is on the questions that all arms answered. What is not known is None: tokens of a question, the median of
    the seconds of questions asked one at a time, and `prepared`, the seconds before the first question.
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
    methods: Mapping[str, Method]
    comparison: Comparison | None
    note: str  # the measure, and what the questions are about if that is nobody

    @property
    def better(self) -> str:
        """Which of the two is: simple, other, or neither."""
        test = self.comparison
        return (
            ("simple" if test.test.difference > 0 else "other")
            if test and test.p < LEVEL
            else "neither"
        )


def found_in(chapter: Chapter, store: Store) -> list[Found]:
    """The tasks that a chapter with answers has rows of, of all its models."""
    of = [task for task in tasks() if task.notebook == chapter.name]
    if not of or chapter.record is None:
        return []
    own, others = viewer.rows(chapter)
    rows = pd.concat([own, *others.values()])
    return [one for task in of if (one := compared(task, chapter.record, rows, store))]


def compared(task: Task, record: Record, rows: pd.DataFrame, store: Store) -> Found | None:
    """What the rows of a notebook, of all its models, say of a task; None if they have none of it. p is not adjusted.

    The timings are those of the record, the tokens those of the requests in the store.
    """
    try:
        chosen = (
            Outcomes(rows)
            .where(source="rerun", split="test", of="", arm=[*task.arms], **task.only)
            .frame
        )
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
            timed = chosen[(chosen.arm == arm) & (chosen.model == model)]
            methods[f"{arm}|{model}"] = _method(task, record, of, timed, store)
    best: dict[bool, str] = {}
    for name, one in sorted(
        methods.items(), key=lambda item: (-item[1].score.value, item[1].tokens or 0)
    ):
        best.setdefault(one.arm == task.paper if task.paper else one.asks, name)
    comparison = None
    if len(best) == 2:
        [comparison] = Outcomes(pd.concat(parts)).compare([(best[False], best[True])], task.measure)
    texts = task.texts or "synthetic charts" * record.synthetic
    note = measure_label(task.measure) + (f", {texts}" if texts else "")
    return Found(task, methods, comparison, note) if methods else None


def _method(
    task: Task, record: Record, rows: pd.DataFrame, timed: pd.DataFrame, store: Store
) -> Method:
    arm, keys = str(rows.arm.iloc[0]), [key for of in rows.requests for key in of]
    stored = store.get(keys)
    counts = [stored[key].tokens for key in keys if key in stored]
    tokens = [count for count in counts if count is not None]
    each = sum(tokens) / len(rows) if len(tokens) == len(keys) else None
    waited = [of[task.seconds][0] for of in timed.measures if task.seconds in of]
    seconds = statistics.median(waited) if waited else None
    prepared = {step.name: step.seconds for step in record.provenance.timings}.get(
        task.prepared.get(arm, "")
    )
    score = replace(Outcomes(rows).score(task.measure), unparsed=0)
    model = str(rows.model.iloc[0]) if keys else ""
    return Method(arm, task.arms[arm], model, bool(keys), score, each, seconds, prepared)


@dataclass(frozen=True)
class Advice:
    """What the page on building says of the tasks that the runs answer."""

    every: Sequence[Found]

    @cached_property
    def found(self) -> list[Found]:
        """The tasks, p adjusted: first where the simple method is better, last where it has no match."""
        both = [one.comparison for one in self.every if one.comparison]
        adjusted = iter(paired.holm([comparison.test.p for comparison in both]) if both else [])

        def place(one: Found) -> tuple[int, float]:
            order = ("simple", "neither", "other")
            return (
                (order.index(one.better), -one.comparison.test.difference)
                if one.comparison
                else (3, 0.0)
            )

        tested = (
            (one, one.comparison and replace(one.comparison, p=next(adjusted)))
            for one in self.every
        )
        return sorted((replace(one, comparison=test) for one, test in tested), key=place)

    @property
    def _pairs(self) -> list[tuple[Found, Comparison, Method, Method]]:
        compared = ((one, one.comparison) for one in self.found if one.comparison)
        return [
            (one, test, one.methods[test.first], one.methods[test.second]) for one, test in compared
        ]

    def summary(self) -> str:
        """On how many tasks the simple method is better."""
        verdicts = [one.better for one, *_ in self._pairs]
        if not verdicts:
            return "No run shown compares methods with and without a language model."
        of = {word: figures.in_words(verdicts.count(word)) for word in COLOURS}
        return (
            f"**The simple method is better on {of['simple']} of {figures.in_words(len(verdicts))} tasks.** The method "
            f"with a language model, or the paper's own, is better on {of['other']}. On {of['neither']}, the "
            "difference is not significant."
        )

    def table(self) -> str:
        """A row for each task: the best simple method, the best with an LLM, and the test between them."""
        simple = Markup("<strong>simple method</strong>")
        words = {"simple": simple, "other": "LLM or paper's", "neither": "not significant"}
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
        return table(
            rows,
            f"{len(rows)} tasks: the best simple method, and the best with an LLM or from the paper",
        )

    def picture(self) -> str:
        """The differences of the table, one picture for wide screens and one for narrow ones; empty if none."""
        return for_screens(self._drawn) if self._pairs else ""

    def _drawn(self, *, narrow: bool) -> figures.Picture:
        figures.use_style()
        labels = [fill(one.task.words, 22 if narrow else 50) for one, *_ in self._pairs]
        height = sum(0.4 + 0.2 * label.count("\n") for label in labels) + 0.9
        fig, ax = plt.subplots(figsize=(4.2 if narrow else 7.4, height))
        for y, (one, test, *_) in enumerate(self._pairs):
            ax.hlines(y, 100 * test.test.low, 100 * test.test.high, color=COLOURS[one.better])
            ax.plot(100 * test.test.difference, y, "o", color=COLOURS[one.better])
        ax.axvline(0, linestyle=":", color=figures.INK, linewidth=1)
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(len(labels) - 0.5, -0.5)
        ax.set_xlabel("difference in points")
        said = "; ".join(
            f"{one.task.words} {figures.points(test.test)}" for one, test, *_ in self._pairs
        )
        caption = (
            "Best simple method minus best with a language model, or the paper's; 95 % intervals. "
        )
        caption += (
            "Blue: the simple one is better; orange: the other; grey: not significant (Holm)."
        )
        return figures.figure(fig, alt=f"{said}.", caption=caption)

    def methods(self) -> str:
        """Every method of every task, with all that the figure shows."""
        rows = [
            {
                "Task": _task(one),
                "Method": _scored(one, method),
                "Tokens a question": "not stored"
                if method.tokens is None
                else _cost(method.tokens),
                "Seconds a question": _cost(method.seconds, " s"),
                "Indexing": _cost(method.prepared, " s"),
            }
            for one in self.found
            for method in one.methods.values()
        ]
        return table(
            rows, f"{len(rows)} methods for {len(self.found)} tasks", "rag-cards rag-sortable"
        )

    def files(self) -> dict[str, str]:
        """The data of the figure as a script, for a page opened from the disk may not fetch a file."""
        listed = []
        for one in self.found:
            points = [
                {
                    name: getattr(of, name)
                    for name in ("label", "model", "asks", "tokens", "seconds")
                }
                | {name: getattr(of.score, name) for name in ("value", "low", "high", "n")}
                | {"href": viewer.link(one.task.notebook, of.arm, model=of.model)}
                for of in one.methods.values()
            ]
            listed.append({"name": one.task.words, "measure": one.note, "points": points})
        return {
            "build-points.js": f"window.METHODS = {json.dumps(hide_secrets(listed), separators=(',', ':'))};\n"
        }


def _task(one: Found) -> Markup:
    return link_to(one.task.notebook, one.task.words) + fine_print(one.note)


def _scored(one: Found, method: Method) -> Markup:
    address = viewer.link(one.task.notebook, method.arm, model=method.model)
    link = Markup('<a href="{}">{}</a> ').format(address, method.label)
    score = sortable(method.score.value, figures.score_text(method.score))
    return (
        link + score + fine_print(f"n = {method.score.n:,}, {method.model or 'no language model'}")
    )


def _ratio(simple: Method, other: Method) -> str:
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
