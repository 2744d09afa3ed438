"""Plot scores as dots with their 95 % intervals, one panel per measure or group."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import seaborn.objects as so
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from evaluation import figures
from evaluation.measures import unit
from evaluation.metrics import Score

WIDTH = 7.4
"""Width of the figure in inches."""
PHONE_WIDTH = 4.2
"""The same for a phone, where the panels stand below one another."""
PHONE_CHARACTERS_PER_LABEL = 22
"""Characters of an arm's label that fit on one line there."""
MARGIN_HEIGHT = 1.0
"""Height in inches of what is not rows: tick labels, axis labels and margins."""
CHARACTERS_PER_FIGURE = 64
"""Characters of an axis label that fit side by side over the width of the figure."""
CHARACTERS_PER_LABEL = 34
"""Characters of an arm's label that fit on one line."""


@dataclass(frozen=True)
class Panel:
    """One panel of an interval plot.

    Attributes:
        title: What the panel shows, for the horizontal axis.
        measure: The measure, which decides the unit and the scale of the axis.
        scores: Score of each arm that has the measure.
    """

    title: str
    measure: str
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class PlotRow:
    """One row of an interval plot: an arm, its label and its colour."""

    arm: str
    label: str
    colour: str


@dataclass(frozen=True)
class RowSize:
    """Height of a row in inches and size of its label in points."""

    height: float
    font_size: float


WIDE_ROWS = RowSize(height=0.5, font_size=10.5)
NARROW_ROWS = RowSize(height=0.33, font_size=9)
MAX_WIDE_ROWS = 7
"""More arms than this get narrow rows, so the figure fits on the first screen."""


@dataclass(frozen=True)
class Layout:
    """How the panels of an interval plot stand.

    Attributes:
        row_size: Size of the rows.
        figure_size: Width and height in inches.
        label_width: Characters of an arm's label on one line.
        title_width: Characters of a panel's title on one line.
        facets: What seaborn divides the panels by.
    """

    row_size: RowSize
    figure_size: tuple[float, float]
    label_width: int
    title_width: int
    facets: dict[str, Any]


def interval_plot(
    panels: Sequence[Panel],
    rows: Sequence[PlotRow],
    chance: float | None = None,
    *,
    is_narrow: bool = False,
) -> Figure:
    """Draw the score of each arm as a dot with its 95 % interval.

    Args:
        panels: The panels from left to right. They share the horizontal axis if they
            all show the same measure.
        rows: The arms from top to bottom.
        chance: Value to mark in the first panel with a dotted line.
        is_narrow: Whether it is for a phone, with one panel below the other.

    Returns:
        The figure. The caller closes it.
    """
    arms = [row.arm for row in rows]
    colours = {row.arm: row.colour for row in rows}
    layout = _layout(panels, len(rows), is_narrow=is_narrow)
    same_measure = len({panel.measure for panel in panels}) == 1
    figure = plt.figure(figsize=layout.figure_size)
    (
        so.Plot(
            _long_table(panels),
            x="score",
            y="arm",
            xmin="low",
            xmax="high",
            color="arm",
        )
        .facet(**layout.facets)
        .add(so.Range(linewidth=2.2), orient="y", legend=False)
        .add(so.Dot(pointsize=7, artist_kws={"clip_on": False}), orient="y", legend=False)
        .scale(y=so.Nominal(order=arms), color=so.Nominal(colours, order=arms))
        .share(x=same_measure, y=True)
        .label(x="", y="", title="")
        .theme(mpl.rcParams)
        .on(figure)
        .plot()
    )
    for axes, panel in zip(figure.axes, panels, strict=True):
        _format_axes(axes, panel, layout.title_width)
        # of panels above another one, too
        axes.tick_params(axis="x", labelbottom=True)
        axes.xaxis.label.set_visible(True)
    first_panel = figure.axes[0]
    labels = [textwrap.fill(row.label, layout.label_width) for row in rows]
    first_panel.set_yticks(range(len(rows)), labels, fontsize=layout.row_size.font_size)
    if chance is not None:
        first_panel.axvline(chance, linestyle=":", color=figures.INK, linewidth=1)
    return figure


def _layout(panels: Sequence[Panel], n_rows: int, *, is_narrow: bool) -> Layout:
    """Return the sizes of a plot and the order of its panels."""
    titles = [panel.title for panel in panels]
    if is_narrow:
        height = (WIDE_ROWS.height * n_rows + MARGIN_HEIGHT) * len(panels)
        return Layout(
            row_size=WIDE_ROWS,
            figure_size=(PHONE_WIDTH, height),
            label_width=PHONE_CHARACTERS_PER_LABEL,
            title_width=PHONE_CHARACTERS_PER_LABEL,
            facets={"row": "panel", "order": titles},
        )
    row_size = WIDE_ROWS if n_rows <= MAX_WIDE_ROWS else NARROW_ROWS
    return Layout(
        row_size=row_size,
        figure_size=(WIDTH, row_size.height * n_rows + MARGIN_HEIGHT),
        label_width=CHARACTERS_PER_LABEL,
        title_width=CHARACTERS_PER_FIGURE // len(panels),
        facets={"col": "panel", "order": titles},
    )


def describe_scores(panels: Sequence[Panel], rows: Sequence[PlotRow]) -> str:
    """Write the scores of an interval plot as text, for readers who cannot see it.

    Args:
        panels: The panels of the plot.
        rows: The arms from top to bottom.

    Returns:
        For example ``GraphRAG: accuracy 99.9 %, f1 99.8 %; Closed book: accuracy 52.1
        %.``
    """
    descriptions = []
    for row in rows:
        scores = []
        for panel in panels:
            if row.arm in panel.scores:
                value = figures.number(panel.scores[row.arm].value, unit(panel.measure))
                scores.append(f"{panel.title} {value}")
        descriptions.append(f"{row.label}: {', '.join(scores)}")
    return f"{'; '.join(descriptions)}."


def _long_table(panels: Sequence[Panel]) -> pd.DataFrame:
    """One row per panel and arm."""
    rows = []
    for panel in panels:
        for arm, score in panel.scores.items():
            rows.append(
                {
                    "panel": panel.title,
                    "arm": arm,
                    "score": score.value,
                    "low": score.low,
                    "high": score.high,
                }
            )
    return pd.DataFrame(rows, columns=["panel", "arm", "score", "low", "high"])


def _format_axes(axes: Axes, panel: Panel, label_width: int) -> None:
    """Give a panel the axis of its unit."""
    measure_unit = unit(panel.measure)
    title = panel.title
    if measure_unit == "seconds":
        if "seconds" not in title:
            title = f"{title}, in seconds"
        _use_log_scale(axes)
    elif measure_unit == "fraction":
        axes.xaxis.set_major_formatter(lambda value, _: figures.number(value, digits=0))
        axes.set_xlim(right=1)
    else:
        axes.set_xlim(left=0)
    axes.set_xlabel(textwrap.fill(title, label_width))
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)


def _use_log_scale(axes: Axes) -> None:
    axes.set_xscale("log")
    left, right = axes.get_xlim()
    few_powers_of_ten = right < 50 * left
    ticks = (1.0, 2.0, 5.0) if few_powers_of_ten else (1.0,)
    axes.xaxis.set_major_locator(LogLocator(subs=ticks))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
