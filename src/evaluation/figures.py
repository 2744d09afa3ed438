"""The look of figures, tables and prompts, in a notebook and in the book, in light and in dark."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, cast

import markupsafe
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.artist import Artist
from matplotlib.figure import Figure as MplFigure

from evaluation.formats import (
    MINUS,
    NO_BREAK_SPACE,
    NO_VALUE,
    in_words,
    interval,
    is_written,
    listed,
    number,
    p_text,
    p_words,
    points,
    points_text,
    score_text,
    signed,
    unbroken,
)
from evaluation.markup import Markup, escape, readable
from evaluation.svg import INK, figure_svg

if TYPE_CHECKING:
    from evaluation.metrics import Score

__all__ = [
    "ARMS",
    "HUES",
    "INK",
    "NO_MATH",
    "SCORES",
    "Html",
    "Picture",
    "arm_colour",
    "figure",
    "in_words",
    "inline",
    "interval",
    "is_written",
    "listed",
    "number",
    "p_text",
    "p_words",
    "points",
    "points_text",
    "prompt_box",
    "score_text",
    "signed",
    "standalone_svg",
    "table",
    "unbroken",
    "use_style",
]

ARMS: Final[dict[str, tuple[str, str]]] = {
    "closed_book": ("Closed book", "#c35410"),
    "format_a": ("RAG (Format A)", "#af219d"),
    "format_b": ("RAG (Format B)", "#af219d"),
    "graphrag": ("GraphRAG", "#079c6b"),
    "majority": ("Majority (floor)", "#808080"),
    "lookup": ("Lookup (ceiling)", "#808080"),
}
"""Label and colour of each arm.

The contrast is 3:1 on white and on the dark theme; the colour-blind can tell colours apart.
"""
PHONE_WIDTH: Final = 4.2
"""Width of a figure for a phone, in inches."""
PHONE_CHARACTERS: Final = 42
"""Characters of an axis label that fit on one line there."""
PHONE_LEGEND_CHARACTERS: Final = 34
"""Characters of an entry of a legend that fit on one line there, beside its marker."""
LEGEND_LINE: Final = 0.24
"""Height of a line of a legend, in inches."""
SCORES: Final = "application/vnd.rag-scores+json"
"""The kind of an output that says how its table of scores was made."""
HUES: Final = {
    "orange": "#c35410",
    "magenta": "#af219d",
    "blue": "#125ee0",
    "green": "#079c6b",
    "grey": "#808080",
}
"""Colours of arms; in a page `var(--rag-orange, #c35410)` and so on, for its style sheet.

A family of methods has one colour in all chapters and diagrams. A language model without retrieval
is orange, retrieval from text is magenta, and a graph or a registry is green. Methods without a
language model, such as a trained classifier, are blue. Floors, ceilings and references are grey.
"""
NO_MATH: Final = "tex2jax_ignore mathjax_ignore"
"""Classes of an element in which MathJax takes a dollar for a dollar."""
_MARKDOWN: Final = {ord(character): f"&#{ord(character)};" for character in "\\`*_[]{}$|~.:@"}
# Enough for a notebook opened outside the book; the book's own style sheet has the rest.
_STYLE: Final = Markup(
    "<style>.rag-scroll{overflow-x:auto}.rag-table caption{text-align:left;caption-side:top;"
    "font-weight:600}"
    ".rag-table td,.rag-table th{text-align:left!important;vertical-align:top}"
    ".rag-table .num{text-align:right!important;font-variant-numeric:tabular-nums}"
    ".rag-figure{margin:1em 0}.rag-figure svg{width:100%;height:auto}"
    # without weight, for the book's style sheet shows it on a phone
    ":where(.rag-narrow){display:none}"
    ".rag-prompt pre{white-space:pre-wrap}.rag-prompt,.rag-figure figcaption"
    "{overflow-wrap:anywhere}</style>"
)
_STANDALONE_STYLE: Final = (
    "<style>:root{color:#1f2328}@media (prefers-color-scheme:dark){:root{color:#e6edf3}}</style>"
)
_RC: Final = {
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "axes.titlecolor": INK,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "legend.frameon": False,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "legend.fontsize": 10.5,
    "grid.color": "#808080",
    "grid.alpha": 0.3,
    "lines.linewidth": 2,
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 12,
    "axes.labelsize": 11,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],
    "figure.figsize": (7.2, 4.0),
    "figure.constrained_layout.use": True,
    # Text stays text: small, searchable, and set in the font of the page.
    "svg.fonttype": "none",
    # The same figure is the same file.
    "svg.hashsalt": "medical-rag-book",
}
_SAMPLE_LOOK: Final[dict[str, Any]] = {
    "rotation": 25,
    "fontsize": 56,
    "weight": "bold",
    "color": INK,
    "alpha": 0.14,
}
Format: TypeAlias = "str | Callable[[Any], str] | None"
"""How a cell is written: a unit of `number`, or a function of the cell."""


def inline(text: str) -> Markup:
    """Text of a model or a document for a sentence in Markdown.

    Neither Markdown nor MathJax finds anything in it.
    """
    escaped = escape(text).translate(_MARKDOWN)
    return Markup(f'<span class="{NO_MATH}">{escaped}</span>')


def arm_colour(arm: str) -> str:
    """The colour that an arm has in every figure, as `#rrggbb`.

    Raises:
        KeyError: If `ARMS` lacks the arm.
    """
    if arm not in ARMS:
        raise KeyError(
            f"There is no arm {arm!r}. The arms are {', '.join(ARMS)}; "
            "figures.ARMS takes a new one."
        )
    return ARMS[arm][1]


def use_style() -> None:
    """Give every figure of this process the book's look. Call it once, in the set-up cell."""
    sns.set_theme(style="ticks", palette=list(HUES.values()), rc=_RC)


@dataclass(frozen=True, repr=False)
class Html:
    """Something a notebook shows.

    Attributes:
        html: For the page.
        text: For a terminal.
        scores: How a table of scores was made, for the columns of other models.
    """

    html: str
    text: str
    scores: dict[str, Any] | None = None

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        bundle: dict[str, Any] = {"text/html": self.html, "text/plain": repr(self)}
        if self.scores:
            bundle[SCORES] = self.scores
        return bundle

    def __html__(self) -> str:
        """What a template writes."""
        return self.html

    def __repr__(self) -> str:
        """What a terminal shows."""
        return readable(self.text)


@dataclass(frozen=True)
class _Column:
    """A column: its escaped name, how cells are written, and whether they are numbers."""

    name: Markup
    fmt: Format
    is_numeric: bool

    @property
    def css_class(self) -> str:
        return ' class="num"' if self.is_numeric else ""

    def write(self, value: object) -> str:
        text = _cell(value, self.fmt)
        return unbroken(text) if self.is_numeric else text


def table(
    df: pd.DataFrame,
    caption: str,
    *,
    sample: bool = False,
    formats: Mapping[str, str | Callable[[Any], str]] | None = None,
    classes: str = "",
) -> Html:
    """Show a table in the book's look, in a frame that scrolls sideways on a narrow screen.

    Args:
        df: The cells. One of type `markupsafe.Markup` is taken as HTML, other text is escaped, a
            missing value is a dash. A named index becomes the first column.
        caption: Caption of the table.
        sample: Whether the table says SAMPLE.
        formats: A unit of `number`, or a function of the cell, for columns.
        classes: Further CSS classes of the table.

    Raises:
        ValueError: If column names have several levels, or ``formats`` names an unknown column.
    """
    if df.columns.nlevels > 1:
        raise ValueError(
            "A table has one row of column names; these have several levels. "
            "Join them into one first."
        )
    if df.index.name is not None:
        df = df.reset_index()
    columns = _columns(df, formats or {})
    rows = [_write_row(columns, row) for row in df.itertuples(index=False, name=None)]
    html = _table_html(columns, rows, _caption(caption, sample=sample), caption, classes)
    plain = pd.DataFrame([_plain(row) for row in rows], columns=df.columns)
    mark = "SAMPLE. " if sample else ""
    return Html(html, f"{mark}{caption}\n{plain.to_string(index=False)}")


def _columns(df: pd.DataFrame, formats: Mapping[str, str | Callable[[Any], str]]) -> list[_Column]:
    unknown = [name for name in formats if name not in df.columns]
    if unknown:
        raise ValueError(f"formats names {unknown}, but the columns are {list(df.columns)}.")
    columns = []
    for name in df.columns:
        fmt = formats.get(name)
        is_numeric = isinstance(fmt, str) or _is_numeric(df[name])
        columns.append(_Column(escape(name), fmt, is_numeric))
    return columns


def _write_row(columns: Sequence[_Column], row: tuple[object, ...]) -> list[str]:
    return [column.write(value) for column, value in zip(columns, row, strict=True)]


def _table_html(
    columns: Sequence[_Column],
    rows: Sequence[Sequence[str]],
    heading: Markup,
    label: str,
    classes: str,
) -> str:
    head = "".join(f'<th scope="col"{column.css_class}>{column.name}</th>' for column in columns)
    body = "".join(_row_html(columns, row) for row in rows)
    return (
        f'<div class="rag-scroll {NO_MATH}" role="region" tabindex="0" '
        f'aria-label="{escape(label)}">{_STYLE}'
        f'<table class="rag-table {escape(classes)}"><caption>{heading}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _row_html(columns: Sequence[_Column], row: Sequence[str]) -> str:
    cells = []
    for column, text in zip(columns, row, strict=True):
        label = f'data-label="{column.name}"'
        cells.append(f"<td {label}{column.css_class}>{escape(text)}</td>")
    return f"<tr>{''.join(cells)}</tr>"


def _plain(row: Sequence[str]) -> list[str]:
    """The cells for a terminal."""
    return [text.striptags() if isinstance(text, markupsafe.Markup) else text for text in row]


def _caption(caption: str, *, sample: bool) -> Markup:
    mark = Markup('<strong class="rag-sample">SAMPLE</strong> ') if sample else Markup()
    return mark + caption.replace(" %", f"{NO_BREAK_SPACE}%")


def _is_score(value: object) -> bool:
    return all(hasattr(value, name) for name in ("value", "low", "high", "unparsed"))


def _is_number(value: object) -> bool:
    return pd.api.types.is_number(value) and not isinstance(value, bool)


def _is_missing(value: object) -> bool:
    if value is None or value is pd.NA:
        return True
    return isinstance(value, float) and math.isnan(value)


def _is_numeric(column: pd.Series) -> bool:
    """Whether a column has numbers and scores alone, as such or written."""
    values = [value for value in column if not _is_missing(value)]
    filled = [value for value in values if value != ""]
    return bool(filled) and all(_is_number_or_score(value) for value in filled)


def _is_number_or_score(value: object) -> bool:
    return _is_score(value) or _is_number(value) or is_written(value)


def _cell(value: object, fmt: Format) -> str:
    if callable(fmt):
        return fmt(value)
    if _is_score(value):
        return score_text(cast("Score", value), fmt or "fraction")
    if _is_missing(value) or _is_number(value):
        return _number_cell(cast("float | None", value), fmt)
    if isinstance(value, markupsafe.Markup):
        return value
    # A number and its per cent sign stay on one line.
    return str(value).replace(" %", f"{NO_BREAK_SPACE}%")


def _number_cell(value: float | None, unit: str | None) -> str:
    if value is None or pd.isna(value):
        return NO_VALUE
    if unit:
        return number(value, unit)
    digits = 0 if float(value).is_integer() else 3
    return f"{value:,.{digits}f}".replace("-", MINUS)


@dataclass(frozen=True, repr=False)
class Picture(Html):
    """A figure as `figure` made it.

    Attributes:
        svg: The figure as an element of a page.
    """

    svg: str = ""

    def save(self, path: Path) -> Path:
        """Write a stand-alone SVG, whose ink follows the light or dark theme of its viewer."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(standalone_svg(self.svg), encoding="utf8")
        return path


def standalone_svg(svg: str) -> str:
    """Return a figure of a page as a file whose ink follows its viewer's light or dark theme."""
    head, tag_end, body = svg.partition(">")
    return f"{head}{tag_end}{_STANDALONE_STYLE}{body}\n"


def figure(
    fig: MplFigure,
    *,
    alt: str,
    caption: str = "",
    sample: bool = False,
    narrow: MplFigure | Literal["resized"] | None = None,
) -> Picture:
    """Close a matplotlib figure and show it as SVG that is read aloud, and visible in the dark.

    Args:
        fig: The figure, which is closed.
        alt: A sentence that says what the figure shows, for readers who cannot see it.
        caption: Caption below the figure.
        sample: Whether the figure says SAMPLE.
        narrow: The same figure for a phone, which is closed, or "resized" where `fig` needs no more
            than another size; without it, `fig` scrolls there.

    Raises:
        ValueError: If ``alt`` is empty.
    """
    if not alt.strip():
        raise ValueError("A figure needs `alt`: a sentence that says what it shows.")
    if sample:
        _mark_sample(fig)
    svg = figure_svg(fig, alt)
    html = f'<figure class="rag-figure {NO_MATH}">{_STYLE}'
    if narrow is None:
        html += _scrolling(svg, alt)
    else:
        narrow_figure = _narrow_figure(fig, narrow, sample=sample)
        narrow_svg = figure_svg(narrow_figure, alt)
        plt.close(narrow_figure)
        html += _scrolling(svg, alt, "rag-wide") + _scrolling(narrow_svg, alt, "rag-narrow")
    plt.close(fig)
    if caption or sample:
        html += f"<figcaption>{_caption(caption, sample=sample)}</figcaption>"
    mark = "SAMPLE. " if sample else ""
    return Picture(f"{html}</figure>", f"{mark}{caption or alt}", svg=svg)


def _mark_sample(fig: MplFigure) -> None:
    fig.text(0.5, 0.5, "SAMPLE", ha="center", va="center", **_SAMPLE_LOOK)


def _narrow_figure(
    fig: MplFigure, narrow: MplFigure | Literal["resized"], *, sample: bool
) -> MplFigure:
    """Return what a phone shows of a figure: another one, or the same with another width."""
    if narrow != "resized":
        if sample:
            _mark_sample(narrow)
        return narrow
    fig.set_size_inches(PHONE_WIDTH, fig.get_figheight())
    for axes in fig.axes:
        axes.set_xlabel(textwrap.fill(axes.get_xlabel(), PHONE_CHARACTERS))
    _put_legend_below(fig)
    return fig


def _put_legend_below(fig: MplFigure) -> None:
    """Move the legends of all panels below them, where a narrow panel would not hold them."""
    entries: dict[str, Artist] = {}
    marker_scale = 1.0
    for axes in fig.axes:
        legend = axes.get_legend()
        if legend is not None:
            handles, labels = axes.get_legend_handles_labels()
            entries |= {str(label): handle for label, handle in zip(labels, handles, strict=True)}
            marker_scale = legend.markerscale
            legend.remove()
    if not entries:
        return
    labels = [textwrap.fill(label, PHONE_LEGEND_CHARACTERS) for label in entries]
    n_lines = sum(1 + label.count("\n") for label in labels)
    width, height = fig.get_size_inches()
    fig.set_size_inches(width, height + LEGEND_LINE * n_lines)
    fig.legend(list(entries.values()), labels, loc="outside lower center", markerscale=marker_scale)


def _scrolling(svg: str, alt: str, css_class: str = "") -> str:
    """A drawing in a frame that scrolls sideways where the screen is narrower."""
    classes = f"rag-scroll {css_class}".rstrip()
    return (
        f'<div class="{classes}" role="group" tabindex="0" aria-label="{escape(alt)}">'
        f"{_with_hues(svg)}</div>"
    )


def _with_hues(svg: str) -> str:
    """Let the page's style sheet choose the colours of arms."""
    variables = {colour: f"var(--rag-{name}, {colour})" for name, colour in HUES.items()}
    pattern = "|".join(variables)
    return re.sub(pattern, lambda match: variables[match[0]], svg)


def prompt_box(
    messages: Sequence[Mapping[str, str]], *, answer: str = "", caption: str = ""
) -> Html:
    """Show a prompt as the model sees it, message by message, and the answer if there is one."""
    turns = [(message["role"], message["content"]) for message in messages]
    if answer:
        turns.append(("answer", answer))
    rows = "".join(_turn_html(role, content) for role, content in turns)
    head = f'<p class="rag-prompt-caption">{escape(caption)}</p>' if caption else ""
    html = f'<div class="rag-prompt {NO_MATH}">{_STYLE}{head}{rows}</div>'
    text = "\n".join(f"[{role}] {content}" for role, content in turns)
    return Html(html, text)


def _turn_html(role: str, content: str) -> str:
    css_class = "rag-turn rag-answer" if role == "answer" else "rag-turn"
    return (
        f'<div class="{css_class}"><span class="rag-role">{escape(role)}</span>'
        f"<pre>{escape(content)}</pre></div>"
    )
