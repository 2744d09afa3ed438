"""Plot scores as dots with their 95 % intervals, one panel per measure or group."""

import math
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
CHARACTERS_PER_INCH = 11
"""Characters of a label that fit on an inch."""
PANEL_PADDING = 0.1
"""Room in inches to either side of a panel, so that the numbers of neighbours stand apart."""
MIN_PANEL_WIDTH = 1.0
"""Width in inches that a panel needs; more panels than fit side by side take further rows."""
NO_ANSWERS = "no answers"
NO_VALUE = "no value"
"""What stands in a row of a panel where the arm has no score."""
MISSING_OPACITY = 0.75
"""Opacity of these words: grey, and legible in light and in dark pages."""
CHARACTERS_PER_LABEL = 34
"""Characters of an arm's label that fit on one line."""
CHARACTERS_BESIDE_MANY = 24
MANY_PANELS = 4
"""The same beside so many panels or more."""


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
LINE_SPACING = 1.2
"""Distance of two lines of a label, as a multiple of its font size."""
POINTS_PER_INCH = 72
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
        panels: The panels from left to right. They share the span of the horizontal axis if
            they all show the same measure, or shares.
        rows: The arms from top to bottom.
        chance: Value to mark in the first panel with a dotted line.
        is_narrow: Whether it is for a phone, with one panel below the other.

    Returns:
        The figure. The caller closes it.
    """
    arms = [row.arm for row in rows]
    colours = {row.arm: row.colour for row in rows}
    layout = _layout(panels, rows, is_narrow=is_narrow)
    figure = plt.figure(figsize=layout.figure_size)
    if not is_narrow:
        figure.set_layout_engine("constrained", w_pad=PANEL_PADDING)
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
        .share(x=_have_one_span(panels), y=True)
        .label(x="", y="", title="")
        .theme(mpl.rcParams)
        .on(figure)
        .plot()
    )
    for axes, panel in zip(figure.axes, panels, strict=True):
        _format_axes(axes, panel, layout.title_width)
        _write_missing(axes, panel, panels, arms)
        # of panels above another one, too
        axes.tick_params(axis="x", labelbottom=True)
        axes.xaxis.label.set_visible(True)
    first_panel = figure.axes[0]
    labels = [textwrap.fill(row.label, layout.label_width) for row in rows]
    first_panel.set_yticks(range(len(rows)), labels, fontsize=layout.row_size.font_size)
    if chance is not None:
        first_panel.axvline(chance, linestyle=":", color=figures.INK, linewidth=1)
    return figure


def _have_one_span(panels: Sequence[Panel]) -> bool:
    """Whether the panels can be compared by eye: they show one measure, or all show shares."""
    measures = {panel.measure for panel in panels}
    return len(measures) == 1 or {unit(measure) for measure in measures} == {"fraction"}


def _layout(panels: Sequence[Panel], rows: Sequence[PlotRow], *, is_narrow: bool) -> Layout:
    """Return the sizes of a plot and the order of its panels."""
    titles = [panel.title for panel in panels]
    if is_narrow:
        row_height = max(WIDE_ROWS.height, _label_height(rows, PHONE_CHARACTERS_PER_LABEL))
        panel_height = row_height * len(rows) + MARGIN_HEIGHT
        return Layout(
            row_size=WIDE_ROWS,
            figure_size=(PHONE_WIDTH, panel_height * len(panels)),
            label_width=PHONE_CHARACTERS_PER_LABEL,
            title_width=PHONE_CHARACTERS_PER_LABEL,
            facets={"row": "panel", "order": titles},
        )
    row_size = WIDE_ROWS if len(rows) <= MAX_WIDE_ROWS else NARROW_ROWS
    has_many = len(panels) >= MANY_PANELS
    label_width = CHARACTERS_BESIDE_MANY if has_many else CHARACTERS_PER_LABEL
    panels_width = WIDTH - _label_inches(rows, label_width)
    n_columns = _n_columns(len(panels), panels_width)
    n_panel_rows = math.ceil(len(panels) / n_columns)
    panel_width = panels_width / n_columns - 2 * PANEL_PADDING
    return Layout(
        row_size=row_size,
        figure_size=(WIDTH, (row_size.height * len(rows) + MARGIN_HEIGHT) * n_panel_rows),
        label_width=label_width,
        title_width=int(panel_width * CHARACTERS_PER_INCH),
        facets={"col": "panel", "order": titles, "wrap": n_columns},
    )


def _label_height(rows: Sequence[PlotRow], label_width: int) -> float:
    """Return the height in inches of the label with the most lines, as wide rows write it."""
    wrapped = [textwrap.wrap(row.label, label_width) for row in rows]
    n_lines = max(map(len, wrapped), default=0)
    return n_lines * LINE_SPACING * WIDE_ROWS.font_size / POINTS_PER_INCH


def _label_inches(rows: Sequence[PlotRow], label_width: int) -> float:
    """Return about how much of the width the arms' labels take."""
    n_characters = max((len(row.label) for row in rows), default=0)
    return min(n_characters, label_width) / CHARACTERS_PER_INCH


def _n_columns(n_panels: int, width: float) -> int:
    """Return how many panels stand side by side, about as many in each row."""
    n_fitting = max(1, int(width / (MIN_PANEL_WIDTH + 2 * PANEL_PADDING)))
    n_rows = math.ceil(n_panels / n_fitting)
    return max(1, math.ceil(n_panels / max(n_rows, 1)))


def write_in_empty_row(axes: Axes, row: int, words: str) -> None:
    """Write why a row of a panel is empty, in grey; rows count from 0 at the top."""
    place = axes.get_yaxis_transform()
    look: dict[str, Any] = {"fontsize": 10, "alpha": MISSING_OPACITY}
    axes.text(0.96, row, words, transform=place, ha="right", va="center", **look)


def missing_words(arm: str, panels: Sequence[Panel]) -> str:
    """Return what stands where an arm has no score in a panel.

    Panels of one measure divide the questions, so the arm has no answers there. Panels of several
    measures are about the same answers, so the measure has no value.
    """
    is_absent = all(arm not in panel.scores for panel in panels)
    one_measure = len({panel.measure for panel in panels}) == 1
    return NO_ANSWERS if is_absent or one_measure else NO_VALUE


def _write_missing(axes: Axes, panel: Panel, panels: Sequence[Panel], arms: Sequence[str]) -> None:
    for row, arm in enumerate(arms):
        if arm not in panel.scores:
            write_in_empty_row(axes, row, missing_words(arm, panels))


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
            else:
                value = missing_words(row.arm, panels)
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
    axes.set_xlabel(textwrap.fill(title, label_width, break_long_words=False))
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
