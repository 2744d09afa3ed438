"""Draw one measure of many arms and groups as a heat map: a cell for each arm and group."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from evaluation import figures
from evaluation.measures import measure_label, unit
from evaluation.metrics import Score
from evaluation.outcomes import Outcomes

HEAD_HEIGHT = 0.9
"""Height in inches of the groups' names."""
POINTS_PER_INCH = 72
CELL_SHARE = 0.94
"""Width of a cell, as a share of its column."""
INTERVAL_CHARACTER = 0.52
"""Width of an average character of an interval, as a share of the size of the letters."""
MAX_STRENGTH = 0.55
"""Opacity of the cell of a full score: the ink on it is legible in light and in dark pages."""


@dataclass(frozen=True)
class Column:
    """One group of units.

    Attributes:
        name: What the units have in common.
        n: Number of units.
        scores: Score of each arm that has the measure.
    """

    name: str
    n: int
    scores: Mapping[str, Score]


@dataclass(frozen=True)
class Layout:
    """How large the cells are, and where the arms' names stand.

    Attributes:
        width: Width of the figure in inches.
        row_height: Height of a row in inches.
        label_height: The part of a row that the arm's name takes above the cells; 0 if the name
            stands to the left.
        label_width: Characters of an arm's name that fit on one line.
        head_width: Characters of the groups' names that fit side by side.
        font_size: Size of the intervals and the groups' names in points; scores and the arms'
            names are larger.
    """

    width: float
    row_height: float
    label_height: float
    label_width: int
    head_width: int
    font_size: float


WIDE = Layout(
    width=7.4,
    row_height=0.46,
    label_height=0,
    label_width=26,
    head_width=60,
    font_size=9,
)
NARROW = Layout(
    width=4.2,
    row_height=0.72,
    label_height=0.38,
    label_width=44,
    head_width=42,
    font_size=9.8,
)
"""For a phone, which shows a point as 1.18 pixels."""


def heat_map(rows: Outcomes, measure: str, caption: str, *, by: str) -> figures.Picture:
    """Draw the score of each arm in each group of units.

    Args:
        rows: Answers of several arms, with the stratum.
        measure: A share, such as `f1`.
        caption: A sentence; how to read the cells is added.
        by: The stratum that divides the units.

    Returns:
        The figure; its cells have the score and its 95 % interval.
    """
    arms = [arm for arm in rows.arms if arm in rows.arms_with(measure)]
    columns = []
    for name in rows.strata(by):
        group = rows.where(**{by: name})
        scored = group.arms_with(measure)
        scores = {arm: group.score(measure, arm) for arm in arms if arm in scored}
        n_units = max((score.n for score in scores.values()), default=0)
        columns.append(Column(name, n_units, scores))
    labels = [rows.label(arm) for arm in arms]
    alt = _describe(columns, arms, labels, measure)
    text = f"{caption} A higher score has a stronger colour. Brackets give 95 % intervals."
    if not _have_room(columns, unit(measure), NARROW):
        text += " Narrow screens do not show the intervals."
    return figures.figure(
        draw(columns, arms, labels, measure),
        narrow=draw(columns, arms, labels, measure, NARROW),
        alt=alt,
        caption=text,
        sample=rows.sample,
    )


def draw(
    columns: Sequence[Column],
    arms: Sequence[str],
    labels: Sequence[str],
    measure: str,
    layout: Layout = WIDE,
) -> Figure:
    """Draw the cells.

    Args:
        columns: The groups from left to right.
        arms: The arms from top to bottom.
        labels: Their names for readers.
        measure: The measure, which decides the unit.
        layout: Sizes, for a wide screen by default.

    Returns:
        The figure. The caller closes it.
    """
    height = layout.row_height * len(arms) + HEAD_HEIGHT
    figure, axes = plt.subplots(figsize=(layout.width, height))
    has_intervals = _have_room(columns, unit(measure), layout)
    for x, column in enumerate(columns):
        for y, arm in enumerate(arms):
            if arm in column.scores:
                cell = _cell(column.scores[arm], unit(measure), has_interval=has_intervals)
                _draw_cell(axes, x, y, cell, layout)
    head_width = max(7, layout.head_width // max(len(columns), 1))
    heads = []
    for column in columns:
        name = textwrap.fill(column.name, head_width, break_long_words=False)
        heads.append(f"{name}\nn = {column.n}")
    axes.set_xticks(range(len(columns)), heads, fontsize=layout.font_size + 0.5)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(arms) - 0.5, -0.5))
    _name_arms(axes, labels, layout)
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _name_arms(axes: Axes, labels: Sequence[str], layout: Layout) -> None:
    """Write the arms' names to the left of their cells, or above them."""
    names = [textwrap.fill(label, layout.label_width) for label in labels]
    if not layout.label_height:
        axes.set_yticks(range(len(names)), names, fontsize=layout.font_size + 1)
        return
    axes.set_yticks([])
    for y, name in enumerate(names):
        top = y - 0.5 + 0.85 * layout.label_height
        axes.text(-0.47, top, name, va="bottom", fontsize=layout.font_size + 1)


@dataclass(frozen=True)
class Cell:
    """What stands in a cell.

    Attributes:
        strength: Opacity of its colour.
        value: The score as text.
        interval: Its interval as text, or "".
    """

    strength: float
    value: str
    interval: str


def _cell(score: Score, measure_unit: str, *, has_interval: bool) -> Cell:
    strength = MAX_STRENGTH * min(max(score.value, 0.0), 1.0)
    value = figures.number(score.value, measure_unit, digits=0)
    return Cell(strength, value, _interval_text(score, measure_unit) if has_interval else "")


def _interval_text(score: Score, measure_unit: str) -> str:
    ends = [figures.number(end, measure_unit, digits=0) for end in (score.low, score.high)]
    low, high = (end.split()[0] for end in ends)
    return f"[{low}, {high}]"


def _have_room(columns: Sequence[Column], measure_unit: str, layout: Layout) -> bool:
    """Whether the cells are wide enough for the intervals, if the names stand above them."""
    if not layout.label_height:
        return True
    texts = []
    for column in columns:
        texts += [_interval_text(score, measure_unit) for score in column.scores.values()]
    n_characters = max((len(text) for text in texts), default=0)
    text_width = n_characters * INTERVAL_CHARACTER * layout.font_size
    cell_width = CELL_SHARE * layout.width * POINTS_PER_INCH / max(len(columns), 1)
    return text_width <= cell_width


def _draw_cell(axes: Axes, x: int, y: int, cell: Cell, layout: Layout) -> None:
    top = y - 0.46 + layout.label_height
    height = 0.92 - layout.label_height
    left = x - CELL_SHARE / 2
    colour = figures.HUES["blue"]
    frame = Rectangle((left, top), CELL_SHARE, height, color=colour, alpha=cell.strength)
    axes.add_patch(frame)
    place: dict[str, Any] = {"ha": "center", "va": "center"}
    value_height = 0.31 if cell.interval else 0.5
    axes.text(x, top + value_height * height, cell.value, fontsize=layout.font_size + 1.5, **place)
    axes.text(x, top + 0.74 * height, cell.interval, fontsize=layout.font_size, **place)


def _describe(
    columns: Sequence[Column], arms: Sequence[str], labels: Sequence[str], measure: str
) -> str:
    """Return the scores as text, for readers who cannot see the figure."""
    descriptions = []
    for arm, label in zip(arms, labels, strict=True):
        scores = []
        for column in columns:
            if arm in column.scores:
                value = figures.number(column.scores[arm].value, unit(measure))
                scores.append(f"{column.name} {value}")
        descriptions.append(f"{label}: {', '.join(scores)}")
    return f"{measure_label(measure)} by group. {'; '.join(descriptions)}."
