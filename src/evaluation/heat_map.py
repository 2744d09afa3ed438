"""Draw one measure of many arms and groups as a heat map: a cell for each arm and group."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from evaluation import figures
from evaluation.measures import measure_label, unit
from evaluation.metrics import Score
from evaluation.outcomes import Outcomes

WIDTH = 7.4
"""Width of the figure in inches."""
ROW_HEIGHT = 0.46
HEAD_HEIGHT = 0.9
"""Height in inches of the groups' names."""
CHARACTERS_PER_LABEL = 26
"""Characters of an arm's label that fit on one line."""
CHARACTERS_PER_HEAD = 60
"""Characters of the groups' names that fit side by side."""
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
    figure = draw(columns, arms, labels, measure)
    alt = _describe(columns, arms, labels, measure)
    text = f"{caption} Darker cells are higher; brackets hold 95 % intervals."
    return figures.figure(figure, alt=alt, caption=text, sample=rows.sample)


def draw(
    columns: Sequence[Column], arms: Sequence[str], labels: Sequence[str], measure: str
) -> Figure:
    """Draw the cells.

    Args:
        columns: The groups from left to right.
        arms: The arms from top to bottom.
        labels: Their names for readers.
        measure: The measure, which decides the unit.

    Returns:
        The figure. The caller closes it.
    """
    figure, axes = plt.subplots(figsize=(WIDTH, ROW_HEIGHT * len(arms) + HEAD_HEIGHT))
    for x, column in enumerate(columns):
        for y, arm in enumerate(arms):
            if arm in column.scores:
                _draw_cell(axes, x, y, column.scores[arm], unit(measure))
    head_width = max(8, CHARACTERS_PER_HEAD // max(len(columns), 1))
    heads = [f"{textwrap.fill(column.name, head_width)}\nn = {column.n}" for column in columns]
    names = [textwrap.fill(label, CHARACTERS_PER_LABEL) for label in labels]
    axes.set_xticks(range(len(columns)), heads, fontsize=9.5)
    axes.set_yticks(range(len(arms)), names, fontsize=10)
    axes.xaxis.tick_top()
    axes.set(xlim=(-0.5, len(columns) - 0.5), ylim=(len(arms) - 0.5, -0.5))
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure


def _draw_cell(axes: Axes, x: int, y: int, score: Score, measure_unit: str) -> None:
    strength = MAX_STRENGTH * min(max(score.value, 0.0), 1.0)
    cell = Rectangle((x - 0.47, y - 0.46), 0.94, 0.92, color=figures.HUES["blue"], alpha=strength)
    axes.add_patch(cell)
    value = figures.number(score.value, measure_unit, digits=0)
    ends = [figures.number(end, measure_unit, digits=0) for end in (score.low, score.high)]
    low, high = (end.split()[0] for end in ends)
    axes.text(x, y - 0.17, value, ha="center", va="center", fontsize=10.5)
    axes.text(x, y + 0.22, f"[{low}, {high}]", ha="center", va="center", fontsize=9)


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
