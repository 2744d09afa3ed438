"""Which methods are better for each task, and what they cost, as tables and figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import fill
from typing import Any, Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import seaborn.objects as so
from matplotlib.figure import Figure

from evaluation import figures, paired
from evaluation.book_links import answers_address
from evaluation.figures import HUES
from evaluation.markup import Markup, escape, fine_print, sortable
from evaluation.outcomes import Comparison
from evaluation.stored_runs import StoredRun
from papers.across_papers.methods import Method, TaskResult

COLOURS: Final = {"simple": HUES["blue"], "neither": HUES["grey"], "other": HUES["orange"]}
"""Colour of a task by what is better; the tasks are listed in this order."""
KINDS: Final = {"no language model": HUES["blue"], "language model": HUES["orange"]}
"""Colour of a method by what it asks."""
COLUMNS_OF_PANELS: Final = 3
PHONE_COLUMNS: Final = 1
DIRECTION: Final = "simple method minus\nmethod with a language\nmodel, in points"
"""What the axis of differences shows, in lines that fit a phone."""
PANEL_HEIGHT: Final = 2.1
"""Height in inches of a row of panels."""
PANEL_CHARACTERS: Final = 26
"""Characters of a line of a panel's title, which is no wider than the panel."""
ANSWERS: Final = "../"
"""What leads from a chapter to the page of answers."""


@dataclass(frozen=True)
class Pair:
    """A task with the comparison of its best simple method with the best other one."""

    result: TaskResult
    comparison: Comparison
    simple: Method
    other: Method

    @property
    def test(self) -> paired.Paired:
        """The paired test of the two."""
        return self.comparison.test

    @property
    def words(self) -> str:
        """The task in words."""
        return self.result.task.words

    @property
    def basis(self) -> str:
        """The measure, and the number of questions that are compared."""
        return f"({self.result.note}, n = {self.test.n:,})"

    def wrapped(self, characters: int) -> str:
        """The task, and on lines of its own its basis.

        Args:
            characters: Characters that fit on one line.
        """
        basis = self.basis.replace(" = ", "\N{NO-BREAK SPACE}=\N{NO-BREAK SPACE}")
        return f"{fill(self.words, characters)}\n{fill(basis, characters)}"

    def row(self) -> dict[str, Any]:
        """Return the pair as a row of a table."""
        simple = Markup("<strong>simple method</strong>")
        words = {"simple": simple, "other": "language model", "neither": "not significant"}
        better = escape(words[self.result.better]) + fine_print(self.result.task.remark)
        return {
            "Task": _task_cell(self.result),
            "Better": better,
            "Best simple method": _method_cell(self.result, self.simple),
            "Best with a language model": _method_cell(self.result, self.other),
            "Difference in points": sortable(self.test.difference, figures.points(self.test)),
            "p (Holm)": figures.p_text(self.comparison.p),
            "Cost of the method with a language model": _compare_costs(self.simple, self.other),
        }


class Advice:
    """What the runs say of the tasks: first those where the simple method is better."""

    def __init__(self, results: Sequence[TaskResult]) -> None:
        """Sort the tasks; their p-values are adjusted already."""
        self.results = sorted(results, key=_order)

    @property
    def runs(self) -> list[StoredRun]:
        """The runs that answered, in the order of the book."""
        runs = {result.run.record.notebook: result.run for result in self.results if result.run}
        return [runs[notebook] for notebook in sorted(runs)]

    @property
    def is_sample(self) -> bool:
        """Whether a run used sample data or sizes that mean nothing."""
        return any(run.record.sample or run.record.profile == "smoke" for run in self.runs)

    @property
    def pairs(self) -> list[Pair]:
        """The tasks that methods of both kinds do."""
        pairs = []
        for result in self.results:
            comparison = result.comparison
            if comparison:
                simple = result.methods[comparison.first]
                other = result.methods[comparison.second]
                pairs.append(Pair(result, comparison, simple, other))
        return pairs

    def summary(self) -> str:
        """Say on how many tasks the simple method is better."""
        pairs = self.pairs
        if not pairs:
            return "No run compares simple methods with methods that use a language model."
        verdicts = [pair.result.better for pair in pairs]
        counts = {word: figures.in_words(verdicts.count(word)) for word in COLOURS}
        n_tasks = figures.in_words(len(pairs))
        mark = "**SAMPLE.** " if self.is_sample else ""
        return (
            f"{mark}**On {counts['simple']} of {n_tasks} tasks, the best simple method scores "
            "significantly higher than the best method with a language model.** "
            f"The simple method scores significantly lower on {counts['other']} of the tasks. On "
            f"{counts['neither']}, the difference is not significant. {self._not_counted()}"
            "Each task has its own measure, such as accuracy or F1. A task has "
            f"{_range_in_words(pairs)}. The figure names the measure and the number of questions "
            "of each task. We test each difference with a paired test, and correct the p-values "
            f"over the {n_tasks} tasks with Holm's method."
        )

    def _not_counted(self) -> str:
        """Name the tasks for which the paper's own method uses no language model."""
        own = [result.task.words for result in self.results if result.task.paper]
        if not own:
            return ""
        tasks = figures.listed([f'"{words}"' for words in own])
        return (
            "We leave out the tasks for which the paper's own method uses no language model: "
            f"{tasks}. "
        )

    def table(self) -> figures.Html:
        """Return a row for each task: the best simple method, the best other one, and the test."""
        rows = [pair.row() for pair in self.pairs]
        caption = (
            "The best simple method and the best method with a language model, for "
            f"{_counted(len(rows), 'task')}"
        )
        return self._table(rows, caption, "rag-cards")

    def methods_table(self) -> figures.Html:
        """Return every method of every task, with its score and its costs."""
        rows = []
        for result in self.results:
            rows += [_method_row(result, method) for method in result.methods.values()]
        caption = (
            "Score and cost of each method, with each model, for "
            f"{_counted(len(self.results), 'task')}; higher scores are better"
        )
        return self._table(rows, caption, "rag-cards rag-sortable")

    def runs_table(self) -> figures.Html:
        """Return the run of each chapter whose answers are compared.

        The origin of each run stands in it if they differ.
        """
        is_mixed = len({run.origin for run in self.runs}) > 1
        rows = []
        for run in self.runs:
            record = run.record
            row: dict[str, Any] = {"Chapter": _chapter_link(record.notebook, record.notebook[:2])}
            if is_mixed:
                row["Run"] = run.origin
            row |= {
                "Profile": record.profile,
                "Date": f"{record.created:%Y-%m-%d}",
                "Commit": (record.provenance.commit or "")[:10],
            }
            rows.append(row)
        return self._table(
            rows, f"The {len(rows)} runs whose answers this page compares", "rag-cards"
        )

    def _table(self, rows: list[dict[str, Any]], caption: str, classes: str) -> figures.Html:
        frame = pd.DataFrame(rows).astype(object)
        return figures.table(frame, caption, sample=self.is_sample, classes=classes)

    def differences(self) -> figures.Picture | None:
        """Plot the differences of the table, for wide and for narrow screens.

        Returns:
            The figure; None if no task has methods of both kinds.
        """
        if not self.pairs:
            return None
        alt = "; ".join(
            f"{pair.words} {pair.basis} {figures.points(pair.test)}" for pair in self.pairs
        )
        caption = (
            "Best simple method minus best method with a language model, in points of the measure "
            "beside each task, on the n questions that all methods of the task answered. Lines are "
            "95 % intervals, not corrected for the number of tasks. Dots are blue where the simple "
            "method is better, orange where the method with a language model is better, and grey "
            "where the difference is not significant (with Holm's correction)."
        )
        return figures.figure(
            plot_differences(self.pairs, width=7.4, characters=50),
            narrow=plot_differences(self.pairs, width=4.2, characters=22),
            alt=f"{alt}.",
            caption=caption,
            sample=self.is_sample,
        )

    def costs(self) -> figures.Picture | None:
        """Plot the score of each method against its tokens, a panel for each task.

        Returns:
            The figure; None if there is no method whose tokens are stored.
        """
        points = _cost_points(self.results)
        if points.empty:
            return None
        caption = (
            "Score of each method against the number of tokens (prompt and completion) that it "
            "uses per question. The axis of tokens is logarithmic beyond 10. Lines are 95 % "
            "intervals. Blue squares are methods without a language model. Orange dots are methods "
            "with one. Higher and further to the left is better. The next table names the "
            "methods."
        )
        described = [_describe_costs(result) for result in self.results]
        alt = " ".join(described)
        return figures.figure(
            plot_costs(points, width=7.4, n_columns=COLUMNS_OF_PANELS),
            narrow=plot_costs(points, width=4.2, n_columns=PHONE_COLUMNS),
            alt=alt,
            caption=caption,
            sample=self.is_sample,
        )


def _counted(n: int, noun: str) -> str:
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _range_in_words(pairs: Sequence[Pair]) -> str:
    """Say how many questions the tasks have."""
    numbers = [pair.test.n for pair in pairs]
    if min(numbers) == max(numbers):
        return f"{min(numbers):,} questions"
    return f"{min(numbers):,} to {max(numbers):,} questions"


def plot_differences(pairs: Sequence[Pair], width: float, characters: int) -> Figure:
    """Draw the difference of each pair in points, with its 95 % interval.

    Args:
        pairs: The pairs, from top to bottom.
        width: Width of the figure in inches.
        characters: Characters of a task that fit on one line.

    Returns:
        The figure. The caller closes it.
    """
    labels = [pair.wrapped(characters) for pair in pairs]
    bounds = [(pair.test.difference, pair.test.low, pair.test.high) for pair in pairs]
    table = 100 * pd.DataFrame(bounds, columns=["difference", "low", "high"])
    table["task"] = labels
    table["better"] = [pair.result.better for pair in pairs]
    height = sum(0.4 + 0.2 * label.count("\n") for label in labels) + 1.2
    figure = plt.figure(figsize=(width, height))
    (
        so.Plot(table, x="difference", y="task", xmin="low", xmax="high", color="better")
        .add(so.Range(linewidth=2.2), orient="y", legend=False)
        .add(so.Dot(pointsize=7), orient="y", legend=False)
        .scale(y=so.Nominal(order=labels), color=so.Nominal(COLOURS, order=list(COLOURS)))
        .label(x=DIRECTION, y="")
        .theme(mpl.rcParams)
        .on(figure)
        .plot()
    )
    figure.axes[0].axvline(0, linestyle=":", color=figures.INK, linewidth=1)
    return figure


def plot_costs(points: pd.DataFrame, width: float, n_columns: int) -> Figure:
    """Draw score against tokens, a panel for each task.

    Args:
        points: A row for each method, as `_cost_points` makes it.
        width: Width of the figure in inches.
        n_columns: How many panels stand side by side.

    Returns:
        The figure. The caller closes it.
    """
    titles = points["panel"].unique()
    n_rows = -(-len(titles) // n_columns)
    figure = plt.figure(figsize=(width, PANEL_HEIGHT * n_rows + 0.4))
    (
        so.Plot(
            points,
            x="tokens",
            y="score",
            ymin="low",
            ymax="high",
            color="kind",
            marker="kind",
            group="label",
        )
        .facet(col="panel", order=list(titles), wrap=n_columns)
        .add(so.Range(linewidth=1.4), orient="x", legend=False)
        .add(so.Dot(pointsize=6), legend=False)
        .scale(
            color=so.Nominal(KINDS, order=list(KINDS)),
            marker=so.Nominal(["s", "o"], order=list(KINDS)),
        )
        .label(x="tokens a question", y="", title="")
        .theme(mpl.rcParams)
        .on(figure)
        .plot()
    )
    for axes, title in zip(figure.axes, titles, strict=True):
        axes.set_title(title, fontsize=9.5)
        axes.set_ylim(-0.03, 1.03)
        axes.set_xscale("symlog", linthresh=10)
        axes.set_xlim(left=-2, right=2 * points["tokens"].max())
        axes.set_xticks([0, 10, 100, 1000], ["0", "10", "100", "1,000"])
        axes.yaxis.set_major_formatter(lambda value, _: figures.number(value, digits=0))
        axes.tick_params(labelsize=9)
    return figure


def _cost_points(results: Sequence[TaskResult]) -> pd.DataFrame:
    """Return a row for each method whose tokens are known, as `plot_costs` draws it."""
    rows = []
    for result in results:
        for method in result.methods.values():
            if method.tokens is None:
                continue
            row = {
                "task": result.task.words,
                "panel": fill(result.task.words, PANEL_CHARACTERS),
                "label": method.label,
                "kind": "language model" if method.asks else "no language model",
                "tokens": method.tokens,
                "score": method.score.value,
                "low": method.score.low,
                "high": method.score.high,
            }
            rows.append(row)
    return pd.DataFrame(rows)


def _describe_costs(result: TaskResult) -> str:
    """Write the points of a panel as text, for readers who cannot see it."""
    methods = []
    for method in result.methods.values():
        if method.tokens is not None:
            score = figures.number(method.score.value)
            methods.append(f"{method.label} {score} with {method.tokens:,.0f} tokens")
    return f"{result.task.words} {', '.join(methods)}."


def _order(result: TaskResult) -> tuple[int, float]:
    """Sort tasks by what is better, and by how much."""
    if result.comparison is None:
        return len(COLOURS), 0.0
    return list(COLOURS).index(result.better), -result.comparison.test.difference


def _method_row(result: TaskResult, method: Method) -> dict[str, Any]:
    tokens = "not stored" if method.tokens is None else _cost(method.tokens)
    return {
        "Task": _task_cell(result),
        "Method": _method_cell(result, method),
        "Tokens a question": tokens,
        "Seconds a question": _cost(method.seconds, " s"),
        "Training the scorer": _cost(method.prepared, " s"),
    }


def _task_cell(result: TaskResult) -> Markup:
    link = _chapter_link(result.task.notebook, result.task.words)
    return link + fine_print(result.note)


def _chapter_link(notebook: str, text: str) -> Markup:
    return Markup('<a href="{}.html">{}</a>').format(notebook, text)


def _method_cell(result: TaskResult, method: Method) -> Markup:
    """Return a method with its score, its model, and a link to its answers."""
    address = ANSWERS + answers_address(result.task.notebook, method.arm, model=method.model)
    link = Markup('<a href="{}">{}</a> ').format(address, method.label)
    score = sortable(method.score.value, figures.score_text(method.score))
    model = method.model or "no language model"
    return link + score + fine_print(f"n = {method.score.n:,}, {model}")


def _compare_costs(simple: Method, other: Method) -> str:
    """Say what the other method costs more than the simple one."""
    text = "tokens not stored"
    if other.tokens is not None:
        text = f"{other.tokens:,.0f} tokens a question (the simple method: none)"
    if simple.seconds and other.seconds:
        ratio = float(f"{other.seconds / simple.seconds:.2g}")
        text += f"; {ratio:,.6g} times the seconds of the simple method"
    return text


def _cost(value: float | None, unit: str = "") -> Markup:
    if value is None:
        return escape("\N{EN DASH}")
    digits = f"{value:,.0f}" if value >= 10 or not value else f"{value:.2g}"
    return sortable(value, digits + unit)
