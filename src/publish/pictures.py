"""Pictures of a page: a table printed, rescored and rerun, and how counts divide."""

import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from evaluation import figures
from evaluation.figures import INK


@dataclass(frozen=True)
class Kind:
    """How the values of one kind are drawn."""

    offset: float
    """Distance from the middle of the row, in rows."""
    marker: str


KINDS = {
    "printed": Kind(-0.24, "D"),
    "rescored": Kind(0.0, "o"),
    "rerun": Kind(0.24, "o"),
}
MARKER_EDGE = 1.8
"""Width of the line around a marker, in points."""
BESIDE: dict[str, Any] = {
    "xytext": (9, 0),
    "textcoords": "offset points",
    "va": "center",
    "fontsize": 9.5,
}
"""Where a number stands: right of its marker."""
NARROW_TITLE = 26
"""Characters of a line of a panel's title on a phone."""
WIDE_TITLE = 36
"""Characters of a line of a panel's title on a wide screen."""
ROW_HEIGHT = 0.5
"""Inches between the middles of two bars."""
BAR_HEIGHT = 0.5
"""Height of a bar, in rows; numbers of two bars have room between them."""
TITLE_PAD = 12
"""Points between a panel's title and its first bar, for a number above the bar."""
SMALL_NUMBER = 9
"""Size of a number that stands above a part too narrow for it."""
SHARE_LOOKS = (
    ("#079c6b", ""),
    ("#c35410", "//"),
    ("#808080", "..."),
    ("#c8c8c8", "xx"),
    ("none", ""),
)
"""Colour and hatch of each part of a bar; the last is that of no answer."""


def scoreboard_picture(df: pd.DataFrame, *, narrow: bool = False) -> MplFigure:
    """Draw printed, rescored and rerun values side by side, one line of the picture per row.

    Args:
        df: Rows of fractions with `label`, `colour`, `printed`, and for `rescored` and `rerun`
            the value, `<kind>_low` and `<kind>_high`. What is empty is not drawn.
        narrow: Whether the picture is for a phone.
    """
    labels = list(df["label"])
    size = (4.0, 0.95 * len(labels) + 1.3) if narrow else (7.2, 0.68 * len(labels) + 1.2)
    fig, axes = plt.subplots(figsize=size)
    rows = df.to_dict("records")
    for y, row in enumerate(rows):
        for kind in KINDS:
            if not pd.isna(row[kind]):
                _draw_value(axes, y, row, kind)
    if narrow:
        labels = [label.replace(", ", ",\n") for label in labels]
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.02)
    axes.grid(axis="x")
    axes.set_xlim(0.5 if _lowest(rows) >= 0.52 else 0.0, 1.0)
    axes.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
    handles = [_legend_marker(kind) for kind in KINDS]
    fig.legend(
        handles=handles, loc="outside lower center", ncols=3, handletextpad=0.2, columnspacing=1.4
    )
    return fig


def _draw_value(axes: Axes, row_number: int, row: Mapping[Any, Any], kind: str) -> None:
    """Draw one value with its interval and its number."""
    value, colour = row[kind], row["colour"]
    y = row_number + KINDS[kind].offset
    low = row.get(f"{kind}_low", math.nan)
    high = row.get(f"{kind}_high", math.nan)
    if kind != "printed" and not pd.isna(low):
        axes.hlines(y, low, high, color=colour, linewidth=2.2)
    looks: dict[str, Any] = {
        "color": colour,
        "markerfacecolor": colour if kind == "rerun" else "none",
        "markeredgewidth": MARKER_EDGE,
    }
    marker = KINDS[kind].marker
    axes.plot(value, y, marker, clip_on=False, zorder=3, markersize=6.5, **looks)
    x = value if kind == "printed" or pd.isna(high) else high
    axes.annotate(figures.number(value), (x, y), **BESIDE)


def _lowest(rows: Sequence[Mapping[Any, Any]]) -> float:
    """Return the lowest value of all rows, 0 if there is none."""
    values: list[float] = []
    for row in rows:
        values += [float(row[kind]) for kind in KINDS if not pd.isna(row[kind])]
    return min(values, default=0.0)


def _legend_marker(kind: str) -> Line2D:
    return Line2D(
        [],
        [],
        marker=KINDS[kind].marker,
        markerfacecolor=INK if kind == "rerun" else "none",
        label=kind,
        linestyle="none",
        color=INK,
        markeredgewidth=MARKER_EDGE,
    )


def questions_picture(
    panels: Mapping[str, tuple[Mapping[str, Sequence[int]], Sequence[str]]],
    *,
    narrow: bool = False,
) -> MplFigure:
    """Draw how counts divide by several questions, a panel with a bar for each row.

    Args:
        panels: By title, label and counts of each bar, and the names of the parts, at most five.
        narrow: Whether the picture is for a phone, with one panel below the other.
    """
    n_rows = max(len(rows) for rows, _ in panels.values())
    n_panels = len(panels)
    height = ROW_HEIGHT * n_rows + 1.25
    if narrow:
        fig, axes = plt.subplots(n_panels, 1, figsize=(4.0, n_panels * (height + 0.5)))
    else:
        fig, axes = plt.subplots(1, n_panels, figsize=(9.4, height + 0.3), sharey=True)
    drawn: list[NumberedPart] = []
    for panel, (title, (rows, names)) in zip(np.atleast_1d(axes), panels.items(), strict=True):
        drawn += _draw_shares(panel, rows, names, narrow=narrow)
        words = textwrap.fill(title, NARROW_TITLE if narrow else WIDE_TITLE)
        panel.set_title(words, fontsize=10.5, loc="left", pad=TITLE_PAD)
    for panel in np.atleast_1d(axes):
        panel.set_ylim(n_rows - 0.5, -0.5)  # the first bar on top, in panels that share an axis too
    fig.draw_without_rendering()
    for part in drawn:
        part.move_number_if_narrow()
    return fig


@dataclass(frozen=True)
class NumberedPart:
    """A part of a bar with its number.

    Attributes:
        axes: The panel.
        label: The number in the middle of the part.
        bar: The part.
        is_even: Whether its number stands above the bar where it has no room within, or else below;
            so the numbers of two narrow parts side by side are not read as one.
    """

    axes: Axes
    label: Text
    bar: Rectangle
    is_even: bool

    def move_number_if_narrow(self) -> None:
        """Put a number that would fill its part, and touch the next one, beside it."""
        width = self.label.get_window_extent().width
        if 1.5 * width <= self.bar.get_window_extent().width:
            return
        x = self.bar.get_x() + self.bar.get_width() / 2
        height = 0 if self.is_even else self.bar.get_height()
        self.axes.annotate(
            self.label.get_text(),
            (x, self.bar.get_y() + height),
            xytext=(0, 1 if self.is_even else -1),
            textcoords="offset points",
            ha="center",
            va="bottom" if self.is_even else "top",
            fontsize=SMALL_NUMBER,
            color=INK,
        )
        self.label.set_visible(False)


def _draw_shares(
    axes: Axes, rows: Mapping[str, Sequence[int]], names: Sequence[str], *, narrow: bool
) -> list[NumberedPart]:
    """Draw a bar for each row, divided into parts, with a legend below; returns its numbers."""
    labels = _wrapped(rows)
    starts = [0.0] * len(rows)
    drawn: list[NumberedPart] = []
    for part, name in enumerate(names):
        widths = [counts[part] for counts in rows.values()]
        bars = axes.barh(labels, widths, left=starts, label=name, **_bar_looks(part, len(names)))
        words = [str(width) if width else "" for width in widths]
        looks = _number_looks(part, len(names))
        texts = axes.bar_label(bars, words, label_type="center", fontsize=10.5, **looks)
        for text, bar in zip(texts, bars, strict=True):
            drawn.append(NumberedPart(axes, text, bar, is_even=part % 2 == 0))
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    _hide_frame(axes)
    axes.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        ncols=2 if narrow else 3,
        fontsize=10.5,
        handletextpad=0.5,
        columnspacing=1.2,
        frameon=False,
    )
    return drawn


def _wrapped(labels: Iterable[str]) -> list[str]:
    """Return labels with line ends for a narrow picture."""
    return [label.replace(" and ", " and\n").replace(" on ", " on\n") for label in labels]


def _looks_of(part: int, n_parts: int) -> tuple[str, str]:
    """Return colour and hatch of a part; the last one, without an answer, is empty."""
    return SHARE_LOOKS[-1] if part == n_parts - 1 else SHARE_LOOKS[part]


def _bar_looks(part: int, n_parts: int) -> dict[str, Any]:
    """Return how the bars of a part are drawn."""
    colour, hatch = _looks_of(part, n_parts)
    return {
        "color": colour,
        "hatch": hatch,
        "edgecolor": INK,
        "linewidth": 0.8,
        "height": BAR_HEIGHT,
    }


def _number_looks(part: int, n_parts: int) -> dict[str, Any]:
    """Return how a number within the bars of a part is drawn."""
    colour, _ = _looks_of(part, n_parts)
    if colour == "none":
        return {"color": INK}
    # on a white patch, for a hatch runs through a number
    patch = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
    return {"bbox": patch, "color": "#000000"}


def _hide_frame(axes: Axes) -> None:
    """Show the labels of the bars alone."""
    axes.tick_params(axis="y", length=0)
    for spine in ("left", "bottom"):
        axes.spines[spine].set_visible(False)
    axes.xaxis.set_visible(False)
