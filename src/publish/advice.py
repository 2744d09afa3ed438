"""What the page on building says of the tasks: which methods are better, and what they cost."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from textwrap import fill
from typing import Any, Final

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from evaluation import figures, paired
from evaluation.markup import Markup, escape
from evaluation.outcomes import Comparison
from publish import viewer
from publish.methods import Method, TaskResult
from publish.pieces import fine_print, for_screens, link_to, sortable, table
from resources.settings import hide_secrets

COLOURS: Final = {"simple": "#125ee0", "neither": "#808080", "other": "#c35410"}
ORDER: Final = ("simple", "neither", "other")
"""In which the tasks are listed, by what is better."""


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

    def row(self) -> dict[str, Any]:
        """Return the pair as a row of a table."""
        simple = Markup("<strong>simple method</strong>")
        words = {"simple": simple, "other": "LLM or paper's", "neither": "not significant"}
        return {
            "Task": _task_link(self.result),
            "Better": words[self.result.better],
            "Best simple method": _method_link(self.result, self.simple),
            "Best with an LLM, or the paper's": _method_link(self.result, self.other),
            "Difference in points": sortable(self.test.difference, figures.points(self.test)),
            "p (Holm)": figures.p_text(self.comparison.p),
            "Cost of the second": _cost_ratio(self.simple, self.other),
        }


@dataclass(frozen=True)
class Advice:
    """What the page on building says of the tasks that the runs answer."""

    all_results: Sequence[TaskResult]
    """Of which p is not adjusted."""

    @cached_property
    def results(self) -> list[TaskResult]:
        """The tasks, p adjusted: first where the simple method is better, last without a match."""
        comparisons = [result.comparison for result in self.all_results if result.comparison]
        p_values = [comparison.test.p for comparison in comparisons]
        adjusted = iter(paired.holm(p_values) if p_values else [])
        results = []
        for result in self.all_results:
            if result.comparison:
                comparison = replace(result.comparison, p=next(adjusted))
                results.append(replace(result, comparison=comparison))
            else:
                results.append(result)
        return sorted(results, key=_order)

    @property
    def _pairs(self) -> list[Pair]:
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
        verdicts = [pair.result.better for pair in self._pairs]
        if not verdicts:
            return "No run shown compares methods with and without a language model."
        counts = {word: figures.in_words(verdicts.count(word)) for word in COLOURS}
        n_tasks = figures.in_words(len(verdicts))
        return (
            f"**The simple method is better on {counts['simple']} of {n_tasks} tasks.** The method "
            "with a language model, or the paper's own, is better on "
            f"{counts['other']}. On {counts['neither']}, the "
            "difference is not significant."
        )

    def table(self) -> str:
        """Return a row for each task: the best simple method, the best other one, and the test."""
        rows = [pair.row() for pair in self._pairs]
        return table(
            rows,
            f"{len(rows)} tasks: the best simple method, and the best with an LLM "
            "or from the paper",
        )

    def picture(self) -> str:
        """Return the differences of the table, drawn for wide and for narrow screens."""
        return for_screens(self._draw) if self._pairs else ""

    def _draw(self, *, narrow: bool) -> figures.Picture:
        figures.use_style()
        pairs = self._pairs
        labels = [fill(pair.words, 22 if narrow else 50) for pair in pairs]
        height = sum(0.4 + 0.2 * label.count("\n") for label in labels) + 0.9
        fig, ax = plt.subplots(figsize=(4.2 if narrow else 7.4, height))
        _draw_differences(ax, pairs)
        ax.axvline(0, linestyle=":", color=figures.INK, linewidth=1)
        ax.set_yticks(range(len(labels)), labels)
        ax.set_ylim(len(labels) - 0.5, -0.5)
        ax.set_xlabel("difference in points")
        alt = "; ".join(f"{pair.words} {figures.points(pair.test)}" for pair in pairs)
        caption = (
            "Best simple method minus best with a language model, or the paper's; 95 % intervals. "
            "Blue: the simple one is better; orange: the other; grey: not significant (Holm)."
        )
        return figures.figure(fig, alt=f"{alt}.", caption=caption)

    def methods(self) -> str:
        """Return every method of every task, with all that the figure shows."""
        rows = []
        for result in self.results:
            rows += [_method_row(result, method) for method in result.methods.values()]
        caption = f"{len(rows)} methods for {len(self.results)} tasks"
        return table(rows, caption, "rag-cards rag-sortable")

    def files(self) -> dict[str, str]:
        """Return the data of the figure as a script.

        A page opened from the disk may not fetch a file.
        """
        listed = []
        for result in self.results:
            points = [_point(result, method) for method in result.methods.values()]
            listed.append({"name": result.task.words, "measure": result.note, "points": points})
        data = json.dumps(hide_secrets(listed), separators=(",", ":"))
        return {"build-points.js": f"window.METHODS = {data};\n"}


def _order(result: TaskResult) -> tuple[int, float]:
    """Sort tasks by what is better, and by how much."""
    if result.comparison is None:
        return len(ORDER), 0.0
    return ORDER.index(result.better), -result.comparison.test.difference


def _draw_differences(ax: Axes, pairs: Sequence[Pair]) -> None:
    for y, pair in enumerate(pairs):
        colour = COLOURS[pair.result.better]
        ax.hlines(y, 100 * pair.test.low, 100 * pair.test.high, color=colour)
        ax.plot(100 * pair.test.difference, y, "o", color=colour)


def _method_row(result: TaskResult, method: Method) -> dict[str, Any]:
    """Return a method as a row of a table."""
    tokens = "not stored" if method.tokens is None else _cost(method.tokens)
    return {
        "Task": _task_link(result),
        "Method": _method_link(result, method),
        "Tokens a question": tokens,
        "Seconds a question": _cost(method.seconds, " s"),
        "Indexing": _cost(method.prepared, " s"),
    }


def _point(result: TaskResult, method: Method) -> dict[str, Any]:
    """Return a method as a point of the figure."""
    return {
        "label": method.label,
        "model": method.model,
        "asks": method.asks,
        "tokens": method.tokens,
        "seconds": method.seconds,
        "value": method.score.value,
        "low": method.score.low,
        "high": method.score.high,
        "n": method.score.n,
        "href": _address(result, method),
    }


def _address(result: TaskResult, method: Method) -> str:
    """Return the address of a method's answers."""
    return viewer.link(result.task.notebook, method.arm, model=method.model)


def _task_link(result: TaskResult) -> Markup:
    return link_to(result.task.notebook, result.task.words) + fine_print(result.note)


def _method_link(result: TaskResult, method: Method) -> Markup:
    link = Markup('<a href="{}">{}</a> ').format(_address(result, method), method.label)
    score = sortable(method.score.value, figures.score_text(method.score))
    model = method.model or "no language model"
    return link + score + fine_print(f"n = {method.score.n:,}, {model}")


def _cost_ratio(simple: Method, other: Method) -> str:
    """Say what the other method costs more than the simple one."""
    text = "tokens not stored"
    if not other.asks:
        text = "neither asks a language model"
    elif other.tokens is not None:
        text = f"{other.tokens:,.0f} tokens a question, against none"
    if simple.seconds and other.seconds:
        ratio = float(f"{other.seconds / simple.seconds:.2g}")
        text += f"; {ratio:,.6g} times the seconds"
    return text


def _cost(value: float | None, unit: str = "") -> Markup:
    if value is None:
        return escape("\N{EN DASH}")
    digits = f"{value:,.0f}" if value >= 10 or not value else f"{value:.2g}"
    return sortable(value, digits + unit)
