"""Small pieces of a page: a table, a verdict, a number with its interval, fine print, what folds, and pictures."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure as MplFigure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.text import Text

from evaluation import figures, verdicts
from evaluation.figures import INK
from evaluation.markup import Markup
from evaluation.published import Number, published
from evaluation.records import Record

_TOGETHER: Final = re.compile(r"(?<=\b[np]) (?=[=<] \d)|(?<=\b[np] [=<]) (?=\d)|(?<=\d) (?=%)")
"""Spaces at which no line may end."""
ACROSS: Final = "across_papers"  # what this book asks of its own; the claims are no paper's
_NO_LLM = frozenset(
    {"graph", "encoder", "spaCy"}
)  # engines, as records name them, that serve no language model
KINDS = {
    "printed": (-0.24, "D"),
    "rescored": (0.0, "o"),
    "rerun": (0.24, "o"),
}  # place on a line, and marker


def run_line(record: Record) -> str:
    """One line that says which run this is: date, profile, commit, models, duration, stored and equal replies."""
    machine, tokens = record.provenance, record.provenance.tokens
    commit = f"commit {machine.commit[:10]}" if machine.commit else "outside version control"
    commit += " with changes" if machine.dirty else ""
    took = duration(record.seconds)
    if tokens["cached"]:
        took += f" with {tokens['cached']:,} of {tokens['requests']:,} replies stored"
        took += f" ({duration(record.took)} originally)"
        if checked := tokens.get("checked", 0):
            took += f", {tokens['same']:,} of {checked:,} asked again gave the same reply"
    elif tokens["requests"]:
        took += f", all {tokens['requests']:,} replies new"
    day, models = f"{record.created:%d %B %Y}".lstrip("0"), ", ".join(answering(record))
    mode = f"ANSWERS={machine.answers}" if machine.answers else ""
    return "; ".join(
        part for part in (day, f"profile {record.profile}", commit, models, mode, took) if part
    )


def findings(record: Record) -> Markup:
    """The claims of the paper, or of this book, that a run tests, with a lead; empty if it tests none."""
    listed = verdicts.findings(published(record.paper).claims, record.claims, sample=record.sample)
    whose = "This book" if record.paper == ACROSS else "The paper"
    lead = Markup(
        '<p class="rag-lead" id="claims">{}\N{RIGHT SINGLE QUOTATION MARK}s claims</p>'
    ).format(whose)
    return lead + listed if listed.html else Markup()


def answering(record: Record) -> list[str]:
    """The language models whose answers the numbers are made of, with their engines."""
    served = {
        model.name: f"{model.name} on {model.engine} {model.version}"
        for model in record.provenance.models
    }
    names = dict.fromkeys(
        value.model for value in record.values if value.kind == "rerun" and value.model
    )
    if not names:  # a run that answers questions which the paper does not ask
        names = dict.fromkeys(
            model.name for model in record.provenance.models if model.engine not in _NO_LLM
        )
    return [served.get(name, name) for name in names]


def duration(seconds: float) -> str:
    """Seconds as a person says them: `48 s`, `12 min`, `1 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def spaced(text: str) -> str:
    """`62.90%` as `62.90 %`, and a true minus sign."""
    return text.replace("%", " %").replace("-", "\N{MINUS SIGN}")


def sortable(value: float, text: str) -> Markup:
    """A number as displayed, with the value that it is sorted by."""
    return Markup('<data class="rag-number" value="{!r}">{}</data>').format(float(value), text)


def absent(status: str) -> Markup:
    """The word for why there is no value."""
    return Markup('<span class="rag-absent">{}</span>').format(
        status.replace("not run", "not run yet")
    )


@dataclass(frozen=True)
class Measured:
    """A value of the scoreboard, written as the paper writes the number; `measured["n"]` is a column of its group."""

    number: Number
    row: dict[str, Any]
    group: str

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401  # as pandas gives it
        """A column of the scoreboard."""
        return self.row[f"{self.group}_{key}"]

    @property
    def there(self) -> bool:
        """Whether there is a value; one from the sample never replaces a real one."""
        return not pd.isna(self.row[self.group]) and self["verdict"] != "SAMPLE"

    @property
    def verdict(self) -> str:
        """What became of it."""
        return "not run" if self["verdict"] == "SAMPLE" else self["verdict"]

    def text(self) -> str:
        """The value alone, or the word for why there is none."""
        return spaced(self.number.show(self.row[self.group])) if self.there else self.verdict

    def html(self) -> Markup:
        """A value that is there, with its interval."""
        text = sortable(self.row[self.group], self.text())
        return text if pd.isna(self["low"]) else text + Markup(" ") + self._bounds()

    def _bounds(self) -> Markup:
        """The interval without its unit."""
        shown = (spaced(self.number.show(self[end])) for end in ("low", "high"))
        low, high = (re.sub(r"[^\d.,+\N{MINUS SIGN}-]", "", text) for text in shown)
        return Markup('<span class="rag-interval">[{}, {}]</span>').format(low, high)


def number_of(id: str) -> Number:
    """The printed number of that id."""
    return published(id.partition(".")[0]).number(id)


def fine_print(text: str) -> Markup:
    """Small print. No line ends between a number and its letter or its per cent."""
    joined = type(text)(_TOGETHER.sub("\N{NO-BREAK SPACE}", text))
    return Markup('<span class="rag-why">{}</span>').format(joined) if text else Markup()


def for_screens(drawn: Callable[..., figures.Picture]) -> str:
    """One picture for wide screens, one for narrow ones."""
    wide, narrow = (flat(drawn(narrow=narrow)) for narrow in (False, True))
    return f'<div class="rag-wide">{wide}</div><div class="rag-narrow">{narrow}</div>'


def folded(word: str, text: str) -> Markup:
    """A text behind a word that opens it."""
    return Markup('<details class="rag-why"><summary>{}</summary>{}</details>').format(word, text)


def digits(sha256: str) -> Markup:
    """A digest."""
    return Markup('<span class="rag-hash">{}</span>').format(sha256)


def link_to(page: str, title: str) -> Markup:
    """A link to a chapter."""
    return Markup('<a href="notebooks/{}.html">{}</a>').format(page, title)


def table(rows: list[dict[str, Any]], caption: str, classes: str = "rag-cards") -> str:
    """Rows as a table of a page, or that there are none yet."""
    return (
        flat(figures.table(pd.DataFrame(rows).astype(object), caption, classes=classes))
        if rows
        else "Not run yet."
    )


def flat(shown: figures.Html) -> str:
    """HTML on one line, so that Markdown takes it as one block."""
    return re.sub(r"\s*\n\s*", " ", shown.html)


def scoreboard_picture(df: pd.DataFrame, *, narrow: bool = False) -> MplFigure:
    """Printed, rescored and rerun side by side, one line of the picture per row; `narrow` is for a phone.

    The rows, of fractions, have `label`, `colour`, `printed`, for `rescored` and `rerun` the value, `<kind>_low` and
    `<kind>_high`; what is empty is not drawn.
    """
    labels = list(df["label"])
    fig, axes = plt.subplots(
        figsize=(4.0, 0.95 * len(labels) + 1.3) if narrow else (7.2, 0.68 * len(labels) + 1.2)
    )
    rows, edge = df.to_dict("records"), {"markeredgewidth": 1.8}
    for y, row in enumerate(rows):
        for kind, (offset, marker) in KINDS.items():
            value, colour, at = row[kind], row["colour"], y + offset
            if pd.isna(value):
                continue
            high = row.get(f"{kind}_high", math.nan)
            if kind != "printed" and not pd.isna(row[f"{kind}_low"]):
                axes.hlines(at, row[f"{kind}_low"], high, color=colour, linewidth=2.2)
            looks: dict[str, Any] = {
                "color": colour,
                "markerfacecolor": colour if kind == "rerun" else "none",
                **edge,
            }
            axes.plot(value, at, marker, clip_on=False, zorder=3, markersize=6.5, **looks)
            beside = value if kind == "printed" or pd.isna(high) else high
            right: dict[str, Any] = {
                "xytext": (9, 0),
                "textcoords": "offset points",
                "va": "center",
                "fontsize": 9.5,
            }
            axes.annotate(figures.number(value), (beside, at), **right)
    axes.set_yticks(
        range(len(labels)), [label.replace(", ", ",\n") for label in labels] if narrow else labels
    )
    axes.set_ylim(len(labels) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)
    axes.margins(x=0.02)
    axes.grid(axis="x")
    low = min(
        (float(row[kind]) for row in rows for kind in KINDS if not pd.isna(row[kind])), default=0.0
    )
    axes.set_xlim(0.5 if low >= 0.52 else 0.0, 1.0)
    axes.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
    drawn: dict[str, Any] = {"linestyle": "none", "color": INK, **edge}
    handles = [
        Line2D(
            [],
            [],
            marker=marker,
            markerfacecolor=INK if kind == "rerun" else "none",
            label=kind,
            **drawn,
        )
        for kind, (_, marker) in KINDS.items()
    ]
    fig.legend(
        handles=handles, loc="outside lower center", ncols=3, handletextpad=0.2, columnspacing=1.4
    )
    return fig


def shares_picture(
    rows: Mapping[str, Sequence[int]], names: Sequence[str], *, narrow: bool = False
) -> MplFigure:
    """How counts divide: a bar for each row, with the counts of at most four parts; `narrow` is for a phone."""
    looks = (("#079c6b", ""), ("#c35410", "//"), ("#808080", "..."), ("none", ""))
    fig, axes = plt.subplots(figsize=(4.0 if narrow else 7.2, 0.55 * len(rows) + 1.0))
    labels = [
        label.replace(" and ", " and\n").replace(" on ", " on\n") if narrow else label
        for label in rows
    ]
    left, drawn = [0.0] * len(rows), list[tuple[Text, Rectangle]]()
    for part, (name, (colour, hatch)) in enumerate(zip(names, looks, strict=False)):
        widths = [counts[part] for counts in rows.values()]
        filled: dict[str, Any] = {
            "color": colour,
            "hatch": hatch,
            "edgecolor": INK,
            "linewidth": 0.8,
            "height": 0.62,
        }
        bars = axes.barh(labels, widths, left=left, label=name, **filled)
        # on a white patch, for a hatch runs through a number
        patch = {"boxstyle": "round,pad=0.15", "facecolor": "white", "edgecolor": "none"}
        inside: dict[str, Any] = (
            {"bbox": patch, "color": "#000000"} if colour != "none" else {"color": INK}
        )
        words = [str(width) if width else "" for width in widths]
        drawn += zip(
            axes.bar_label(bars, words, label_type="center", fontsize=9.5, **inside),
            bars,
            strict=True,
        )
        left = [at + width for at, width in zip(left, widths, strict=True)]
    axes.invert_yaxis()
    axes.tick_params(axis="y", length=0)
    for spine in ("left", "bottom"):
        axes.spines[spine].set_visible(False)
    axes.xaxis.set_visible(False)
    fig.legend(
        loc="outside lower center",
        ncols=2 if narrow else len(names),
        handletextpad=0.5,
        columnspacing=1.4,
    )
    fig.draw_without_rendering()
    for label, bar in drawn:  # a number that fills its part would touch the next one
        label.set_visible(1.5 * label.get_window_extent().width <= bar.get_window_extent().width)
    return fig
