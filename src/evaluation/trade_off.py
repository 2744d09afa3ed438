"""Plot a score of each arm against its time, with a label for each dot.

Labels have the colour of the text, with a dot of the arm's colour beside.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import ConnectionPatch
from matplotlib.ticker import NullFormatter

from evaluation import figures
from evaluation.measures import measure_label, measure_words, unit
from evaluation.metrics import Score
from evaluation.outcomes import Outcomes

WIDTH, HEIGHT = 7.4, 3.9
"""Size of the figure in inches."""
MIN_GAP = 0.085
"""Smallest distance of two labels, as a share of the height."""
DOT_X, LABEL_X = 1.04, 1.06
"""Where the dots of the labels stand, and where labels begin, as a share of the axes' width."""
PHONE_DOT_X, PHONE_LABEL_X = 1.06, 1.1
"""The same on a phone."""
PHONE_WIDTH = 4.2
PHONE_LINE = 0.22
"""Height in inches of a label on a phone, where the labels stand below the axes."""


@dataclass(frozen=True)
class Dot:
    """One arm.

    Attributes:
        label: Its name for readers.
        colour: Its colour.
        time: Its time, with its interval.
        score: Its score, with its interval.
    """

    label: str
    colour: str
    time: Score
    score: Score


def trade_off(rows: Outcomes, time: str, score: str, caption: str) -> figures.Picture:
    """Draw the score of each arm against its time, on a logarithmic axis.

    Args:
        rows: Answers of several arms; an arm without both measures is left out.
        time: The measure of time, such as ``median(seconds)``.
        score: The measure of quality, a share such as ``accuracy``.
        caption: A sentence; how to read the dots is added.

    Returns:
        The figure.
    """
    measured = rows.arms_with(time) & rows.arms_with(score)
    arms = [arm for arm in rows.arms if arm in measured]
    dots = []
    for arm in arms:
        colour = rows.colours.get(arm, figures.HUES["grey"])
        dots.append(Dot(rows.label(arm), colour, rows.score(time, arm), rows.score(score, arm)))
    words = (_time_axis(time), measure_label(score))
    text = f"{caption} Higher and further to the left is better. Lines are 95 % intervals."
    alt = f"{caption} {'; '.join(_describe(dot, time, score) for dot in dots)}."
    return figures.figure(
        draw(dots, *words),
        narrow=draw_narrow(dots, *words),
        alt=alt,
        caption=text,
        sample=rows.sample,
    )


def _time_axis(time: str) -> str:
    """Label the axis of a time: `median latency in seconds, logarithmic scale`."""
    words = measure_words(time)
    in_seconds = "" if "seconds" in words else " in seconds"
    return f"{words}{in_seconds}, logarithmic scale"


def draw(dots: Sequence[Dot], x_label: str, y_label: str) -> Figure:
    """Draw the dots; their labels stand beside the axes, each linked to its dot.

    Returns:
        The figure. The caller closes it.
    """
    figure, axes = plt.subplots(figsize=(WIDTH, HEIGHT))
    _draw_dots(axes, dots, x_label, y_label)
    _link_labels(axes, dots, [dot.label for dot in dots], (DOT_X, LABEL_X))
    return figure


def draw_narrow(dots: Sequence[Dot], x_label: str, y_label: str) -> Figure:
    """Draw the dots for a phone; each has a number, which the list below the axes explains.

    Returns:
        The figure. The caller closes it.
    """
    labels_height = PHONE_LINE * len(dots)
    figure, (axes, label_axes) = plt.subplots(
        2, 1, figsize=(PHONE_WIDTH, HEIGHT + labels_height), height_ratios=(HEIGHT, labels_height)
    )
    _draw_dots(axes, dots, x_label, y_label)
    numbers = range(1, len(dots) + 1)
    _link_labels(axes, dots, [str(number) for number in numbers], (PHONE_DOT_X, PHONE_LABEL_X))
    label_axes.set_axis_off()
    label_axes.set(xlim=(0, 1), ylim=(0, 1))
    for number, dot in zip(numbers, dots, strict=True):
        height = 1 - (number - 0.5) / len(dots)
        words = f"{number}  {dot.label}"
        label_axes.plot(0.01, height, "o", color=dot.colour, markersize=7, clip_on=False)
        label_axes.text(0.05, height, words, va="center", fontsize=10)
    return figure


def _link_labels(
    axes: Axes, dots: Sequence[Dot], labels: Sequence[str], places: tuple[float, float]
) -> None:
    """Write a label beside the axes for each dot, with a line to the dot.

    Args:
        axes: The axes, with the dots.
        dots: The dots.
        labels: Their labels.
        places: Where the dot of a label stands and where its text begins, as shares of the width.
    """
    dot_x, label_x = places
    low, high = axes.get_ylim()
    positions = _label_positions(dots, low, high)
    for dot, label, position in zip(dots, labels, positions, strict=True):
        link = ConnectionPatch(
            (dot.time.value, dot.score.value),
            (dot_x, position),
            coordsA="data",
            coordsB="axes fraction",
            axesA=axes,
            color=dot.colour,
            linewidth=0.6,
            alpha=0.6,
        )
        axes.add_artist(link)
        beside: dict[str, Any] = {"transform": axes.transAxes, "clip_on": False}
        # a dash, which is not taken for a further dot
        axes.plot(dot_x, position, "_", color=dot.colour, markersize=8, **beside)
        axes.text(label_x, position, label, va="center", fontsize=10, **beside)


def _draw_dots(axes: Axes, dots: Sequence[Dot], x_label: str, y_label: str) -> None:
    """Draw each arm with both of its intervals."""
    for dot in dots:
        x, y = dot.time.value, dot.score.value
        axes.plot([x, x], [dot.score.low, dot.score.high], color=dot.colour, linewidth=1.4)
        axes.plot([dot.time.low, dot.time.high], [y, y], color=dot.colour, linewidth=1.4)
        axes.plot(x, y, "o", color=dot.colour, markersize=7)
    axes.set(xscale="log", xlabel=x_label, ylabel=y_label)
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.yaxis.set_major_formatter(lambda value, _: figures.number(value, digits=0))


def _label_positions(dots: Sequence[Dot], low: float, high: float) -> list[float]:
    """Return the height of each label, near that of its dot, without overlaps.

    Of dots at about the same height, the slowest has the highest label, so that the line from a
    faster dot passes below the slower ones.
    """
    heights = [(dot.score.value - low) / (high - low) for dot in dots]
    rows = [round(height / MIN_GAP) for height in heights]
    from_top = sorted(range(len(dots)), key=lambda i: (-rows[i], -dots[i].time.value))
    positions = [0.0] * len(dots)
    ceiling = 1.0
    for i in from_top:
        positions[i] = min(heights[i], ceiling)
        ceiling = positions[i] - MIN_GAP
    return positions


def _describe(dot: Dot, time: str, score: str) -> str:
    value = figures.number(dot.score.value, unit(score))
    seconds = figures.number(dot.time.value, unit(time))
    return f"{dot.label}: {value} in {seconds}"
