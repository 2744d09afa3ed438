"""The two pictures of the book's pages: printed, rescored and rerun of each arm, and how counts divide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure as MplFigure

from helpers.results.figures import number
from helpers.results.svg import INK

if TYPE_CHECKING:
    pass


KINDS: Final = ("printed", "rescored", "rerun")


def scoreboard_picture(df: pd.DataFrame, *, narrow: bool = False) -> MplFigure:
    """Printed, rescored and rerun side by side, one line of the picture per row: a dot, and its 95 % interval.

    Args:
        df: rows of one unit, "fraction", in the order to draw. Columns: `label`, `colour`, `printed`, and for each of
            `rescored` and `rerun` the value and `<kind>_low`, `<kind>_high`. An empty value is not drawn.
        narrow: for a phone.

    Returns:
        The matplotlib figure, for `figure`.
    """
    labels = list(df["label"])
    fig, axes = plt.subplots(figsize=(4.0, 0.95 * len(labels) + 1.3) if narrow else (7.2, 0.68 * len(labels) + 1.2))
    offsets = dict(zip(KINDS, (-0.24, 0.0, 0.24), strict=True))
    markers = dict(zip(KINDS, ("D", "o", "o"), strict=True))
    for y, row in enumerate(df.to_dict("records")):
        for kind in KINDS:
            value = row[kind]
            if pd.isna(value):
                continue
            colour = row["colour"]
            at = y + offsets[kind]
            if kind != "printed" and not pd.isna(row[f"{kind}_low"]):
                axes.hlines(at, row[f"{kind}_low"], row[f"{kind}_high"], color=colour, linewidth=2.2)
            axes.plot(
                value,
                at,
                markers[kind],
                color=colour,
                markerfacecolor=colour if kind == "rerun" else "none",
                markersize=6.5,
                markeredgewidth=1.8,
                clip_on=False,
                zorder=3,
            )
            beside = row.get(f"{kind}_high")
            axes.annotate(
                number(value),
                (value if kind == "printed" or pd.isna(beside) else beside, at),
                xytext=(9, 0),
                textcoords="offset points",
                va="center",
                fontsize=9.5,
            )
    axes.set_yticks(range(len(labels)), [label.replace(", ", ",\n") for label in labels] if narrow else labels)
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.02)
    axes.grid(axis="x")
    low = min((float(row[k]) for row in df.to_dict("records") for k in KINDS if not pd.isna(row[k])), default=0.0)
    axes.set_xlim(0.5 if low >= 0.52 else 0.0, 1.0)
    axes.xaxis.set_major_formatter(lambda x, _: number(x, digits=0))
    handles = [
        mpl.lines.Line2D(
            [],
            [],
            linestyle="none",
            marker=markers[kind],
            color=INK,
            markerfacecolor=INK if kind == "rerun" else "none",
            markeredgewidth=1.8,
            label=kind,
        )
        for kind in KINDS
    ]
    fig.legend(handles=handles, loc="outside lower center", ncols=3, handletextpad=0.2, columnspacing=1.4)
    return fig


def shares_picture(rows: Mapping[str, Sequence[int]], names: Sequence[str], *, narrow: bool = False) -> MplFigure:
    """How counts divide: a bar for each row, its parts told apart by colour, hatching and number.

    Args:
        rows: label -> counts of the parts.
        names: of the parts, four at most.
        narrow: for a phone.

    Returns:
        The matplotlib figure, for `figure`.
    """
    looks = (("#079c6b", ""), ("#c35410", "//"), ("#808080", "..."), ("none", ""))
    fig, axes = plt.subplots(figsize=(4.0 if narrow else 7.2, 0.55 * len(rows) + 1.0))
    labels = [label.replace(" and ", " and\n").replace(" on ", " on\n") if narrow else label for label in rows]
    left = [0.0] * len(rows)
    for part, (name, (colour, hatch)) in enumerate(zip(names, looks, strict=False)):
        widths = [counts[part] for counts in rows.values()]
        bars = axes.barh(
            labels,
            widths,
            left=left,
            color=colour,
            hatch=hatch,
            edgecolor=INK,
            linewidth=0.8,
            height=0.62,
            label=name,
        )
        # on a white patch, for a hatch runs through a number
        inside = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"} if colour != "none" else None
        for bar, width in zip(bars, widths, strict=True):
            if width:
                middle = (bar.get_x() + width / 2, bar.get_y() + bar.get_height() / 2)
                axes.annotate(
                    str(width),
                    middle,
                    ha="center",
                    va="center",
                    fontsize=9.5,
                    bbox=inside,
                    color="#000000" if inside else INK,
                )
        left = [at + width for at, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.xaxis.set_visible(False)
    axes.spines["bottom"].set_visible(False)
    fig.legend(loc="outside lower center", ncols=2 if narrow else len(names), handletextpad=0.5, columnspacing=1.4)
    return fig
