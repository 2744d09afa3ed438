"""Plot printed and rerun values side by side, one row per arm, in groups."""

import textwrap
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import matplotlib.pyplot as plt
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D

from evaluation import figures
from evaluation.metrics import Score

WIDTH = 7.4
"""Width of the figure in inches."""
PHONE_WIDTH = 4.2
"""The same for a phone, where labels take several lines."""
CHARACTERS = 60
PHONE_CHARACTERS = 22
"""Characters of a label that fit on one line, on a wide screen and on a phone."""
LINE_HEIGHT = 0.18
"""Height in inches of each further line of a label."""
ROW_HEIGHT = 0.32
"""Height of a row in inches; the title of a group takes one, too."""
MARGIN_HEIGHT = 0.6
LEFT_END = -0.03
"""Where the axis of shares begins: a dot at 0 stays clear of the labels."""
KEY_HEIGHT = 0.24
"""Height in inches of a line of the colour key."""


@dataclass(frozen=True)
class Dumbbell:
    """One row: a share as the paper prints it, and as this run finds it.

    Attributes:
        label: Name of the arm.
        printed: The printed share; None if the paper has none.
        score: The share of this run; None if it has none.
        colour: Colour of the arm.
    """

    label: str
    printed: float | None
    score: Score | None
    colour: str

    @property
    def is_empty(self) -> bool:
        """Whether there is no value at all."""
        return self.printed is None and self.score is None


def plot(
    groups: Mapping[str, Sequence[Dumbbell]],
    *,
    is_narrow: bool = False,
    key: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """Draw a ring for the printed share, a dot for this run's, and its 95 % interval.

    A thin line joins ring and dot.

    Args:
        groups: The rows of each group, from top to bottom.
        is_narrow: Whether it is for a phone.
        key: The colours by what they stand for; without rows of a colour it is left out.

    Returns:
        The figure. The caller closes it.
    """
    n_lines = len(groups) + sum(map(len, groups.values()))
    row_height = ROW_HEIGHT + (LINE_HEIGHT if is_narrow else 0)
    dots = _key(groups, key or {})
    n_key_lines = len(dots) if is_narrow else min(len(dots), 1)
    height = row_height * n_lines + MARGIN_HEIGHT + KEY_HEIGHT * n_key_lines
    figure, axes = plt.subplots(figsize=(PHONE_WIDTH if is_narrow else WIDTH, height))
    labels = []
    for title, rows in groups.items():
        labels.append(title)
        for row in rows:
            _draw_row(axes, row, height=len(labels))
            labels.append(row.label)
    _name_rows(axes, labels, groups, is_narrow=is_narrow)
    axes.set_ylim(n_lines - 0.4, -0.6)
    axes.set(xlim=(LEFT_END, 1), xticks=(0, 0.25, 0.5, 0.75, 1))
    axes.xaxis.set_major_formatter(lambda value, _: figures.number(value, digits=0))
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0, pad=6)
    if dots:
        look: dict[str, Any] = {"handletextpad": 0.6, "columnspacing": 1.4}
        handles = cast("list[Artist]", [*dots.values()])  # a tuple of dots has a handler
        figure.legend(
            handles,
            list(dots),
            handler_map={tuple: HandlerTuple(ndivide=None)},
            loc="outside lower center",
            ncols=1 if is_narrow else len(dots),
            **look,
        )
    return figure


def _key(
    groups: Mapping[str, Sequence[Dumbbell]], colours_by_words: Mapping[str, Sequence[str]]
) -> dict[str, tuple[Line2D, ...]]:
    """Return a dot of each colour that has a row, by what it stands for."""
    present = {row.colour for rows in groups.values() for row in rows}
    key = {}
    for words, colours in colours_by_words.items():
        shown = [colour for colour in colours if colour in present]
        if shown:
            key[words] = tuple(_key_dot(colour) for colour in shown)
    return key


def _key_dot(colour: str) -> Line2D:
    return Line2D([], [], marker="o", linestyle="none", color=colour, markersize=7)


def _name_rows(
    axes: Axes, labels: Sequence[str], titles: Collection[str], *, is_narrow: bool
) -> None:
    """Write the names of rows and groups, the latter in bold."""
    width = PHONE_CHARACTERS if is_narrow else CHARACTERS
    axes.set_yticks(range(len(labels)), [textwrap.fill(label, width) for label in labels])
    for text, label in zip(labels, axes.get_yticklabels(), strict=True):
        if text in titles:
            label.set_fontweight("bold")


def _draw_row(axes: Axes, row: Dumbbell, height: int) -> None:
    if row.score is not None and row.printed is not None:
        axes.hlines(height, row.score.value, row.printed, color=figures.INK, linewidth=0.7)
    if row.score is not None:
        axes.hlines(height, row.score.low, row.score.high, color=row.colour, linewidth=2.2)
        axes.plot(row.score.value, height, "o", color=row.colour, markersize=7, clip_on=False)
    if row.printed is not None:
        axes.plot(
            row.printed,
            height,
            "o",
            markersize=7,
            markerfacecolor="none",
            markeredgecolor=row.colour,
            markeredgewidth=1.6,
            clip_on=False,
        )


def describe(groups: Mapping[str, Sequence[Dumbbell]]) -> str:
    """Write the values of a plot as text, for readers who cannot see it."""
    sentences = []
    for title, rows in groups.items():
        parts = []
        for row in rows:
            printed = f"printed {figures.number(row.printed)}" if row.printed is not None else ""
            rerun = f"here {figures.number(row.score.value)}" if row.score is not None else ""
            values = ", ".join(filter(None, (printed, rerun)))
            parts.append(f"{row.label}: {values}")
        sentences.append(f"{title}. {'; '.join(parts)}.")
    return " ".join(sentences)
