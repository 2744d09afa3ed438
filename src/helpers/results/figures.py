"""The book's look: figures, tables, scores and prompts, the same in a notebook and in the book, in light and in dark.

A figure is drawn as SVG whose ink is the colour of the text around it, so that one file serves both themes.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import markupsafe
import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure as MplFigure
from matplotlib.text import Text

from helpers.settings import public

if TYPE_CHECKING:
    from helpers.results.metrics import Score
    from helpers.results.paired import Paired

INK: Final = "#102030"
"""Stands for "the colour of the text around" in matplotlib; `figure` turns it into `currentColor`."""

ARMS: Final[dict[str, tuple[str, str]]] = {
    "closed_book": ("Closed book", "#c35410"),
    "format_a": ("RAG, Format A", "#af219d"),
    "format_b": ("RAG, Format B", "#125ee0"),
    "graphrag": ("GraphRAG", "#079c6b"),
    "majority": ("Majority (floor)", "#808080"),
    "lookup": ("Lookup (ceiling)", "#808080"),
}
"""Label and colour of each arm. The colours keep 3:1 contrast on white and on the dark theme, and stay apart under
the three common kinds of colour blindness."""

KINDS: Final = ("printed", "rescored", "rerun")

_EMPTY: Final = "\N{EN DASH}"
_MINUS: Final = "\N{MINUS SIGN}"
_WRITTEN: Final = re.compile(rf"{_EMPTY}|[<~+{_MINUS}-]? ?\d[\d,.]*( ?%| s| pp| /s)?( \[[^]]*\])?(, [\d,]+ unparsed)?")
_FONT: Final = "var(--pst-font-family-base, system-ui), sans-serif"

_UNSEEN: Final = re.compile(
    "[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_LINE_END: Final = re.compile("\r\n?|[\x85\u2028\u2029]")
_MARKDOWN: Final = {ord(character): f"&#{ord(character)};" for character in "\\`*_[]{}$|~.:@"}
# what matplotlib's own formatters write on a logarithmic axis
_POWER: Final = re.compile(r"\$\\mathdefault\{-?[\d.]*(\\times)?(\d+\^\{-?[\d.]+\})?\}\$")
_NO_MATH: Final = "tex2jax_ignore mathjax_ignore"
"""Classes of an element in which MathJax takes a dollar for a dollar."""


class Markup(markupsafe.Markup):
    """HTML of a page. Text that is put into it, by `format`, `+` or `join`, goes through `escape`."""

    __slots__ = ()

    @classmethod
    def escape(cls, s: object, /) -> Markup:
        """The text as HTML; what is HTML already stays as it is."""
        if hasattr(s, "__html__"):
            return cls(s.__html__())
        # a line's end by its number: an empty line would end a block of HTML within Markdown
        return cls(str(markupsafe.escape(readable(str(s)))).replace("\n", "&#10;"))


escape = Markup.escape
"""Text from anywhere as HTML that shows it and does nothing else; every text that enters a page goes through here."""


def readable(text: str) -> str:
    """The text without secrets, its lines ended by `\\n`, and U+FFFD for each character that steers instead of showing.

    These are control characters, halves of surrogate pairs, and the marks that turn the direction of all that follows.
    """
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", _LINE_END.sub("\n", public(text)))


def inline(text: str) -> Markup:
    """Text of a model or a document for a sentence in Markdown: neither Markdown nor MathJax finds anything in it."""
    return Markup(f'<span class="{_NO_MATH}">{escape(text).translate(_MARKDOWN)}</span>')


# Enough for a notebook opened outside the book; the book's own style sheet has the rest.
_STYLE: Final = Markup(
    "<style>.rag-scroll{overflow-x:auto}.rag-table caption{text-align:left;caption-side:top;font-weight:600}"
    ".rag-table td,.rag-table th{text-align:left!important;vertical-align:top}"
    ".rag-table .num{text-align:right!important;white-space:nowrap;font-variant-numeric:tabular-nums}"
    ".rag-figure{margin:1em 0}.rag-figure svg{width:100%;height:auto}"
    ".rag-prompt pre{white-space:pre-wrap}.rag-prompt,.rag-figure figcaption{overflow-wrap:anywhere}</style>"
)


def arm_label(arm: str) -> str:
    """The name of an arm as a reader sees it.

    Raises:
        KeyError: the arm is not in `ARMS`.
    """
    return _arm(arm)[0]


def arm_colour(arm: str) -> str:
    """The colour that an arm has in every figure, as `#rrggbb`.

    Raises:
        KeyError: the arm is not in `ARMS`.
    """
    return _arm(arm)[1]


def palette(arms: Iterable[str], *, by_label: bool = False) -> dict[str, str]:
    """Colours for seaborn's `palette=`, keyed by arm or, if asked, by its label."""
    return {arm_label(arm) if by_label else arm: arm_colour(arm) for arm in arms}


def _arm(arm: str) -> tuple[str, str]:
    try:
        return ARMS[arm]
    except KeyError:
        message = (
            f"There is no arm {arm!r}. The arms are {', '.join(ARMS)}; helpers.results.figures.ARMS takes a new one."
        )
        raise KeyError(message) from None


def use_style() -> None:
    """Give every figure of this process the book's look. Call it once, in the set-up cell."""
    sns.set_theme(
        context="notebook",
        style="ticks",
        palette=list(dict.fromkeys(colour for _, colour in ARMS.values())),
        rc={
            **dict.fromkeys(
                ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color", "axes.titlecolor"),
                INK,
            ),
            "figure.facecolor": "none",
            "axes.facecolor": "none",
            "savefig.facecolor": "none",
            "legend.frameon": False,
            "grid.color": "#808080",
            "grid.alpha": 0.3,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "axes.titlesize": 12,
            "axes.labelsize": 11,
            "xtick.labelsize": 10.5,
            "ytick.labelsize": 10.5,
            "legend.fontsize": 10.5,
            "lines.linewidth": 2,
            "font.family": "sans-serif",
            "font.sans-serif": ["DejaVu Sans"],
            "figure.figsize": (7.2, 4.0),
            "figure.constrained_layout.use": True,
            # text stays text: small, searchable, and set in the font of the page
            "svg.fonttype": "none",
            # the same figure is the same file
            "svg.hashsalt": "medical-rag-book",
        },
    )


# -- numbers ----------------------------------------------------------------------------------------------------------


def number(value: float | None, unit: str = "fraction", *, digits: int | None = None) -> str:
    """One number with its unit: `96.5 %`, `0.09 s`, `11 /s`, `19,520`, `+0.31 pp`; a dash if there is none.

    `unit` is that of the published numbers: fraction, seconds, per_second, count or percentage_points; or ratio, for an
    AUC or a correlation. A fraction is shown in per cent, percentage points are given as such. What is rounded to
    nothing has no minus sign.

    Raises:
        ValueError: the unit is not one of these.
    """
    if value is None or pd.isna(value):
        return _EMPTY
    formats: dict[str, Callable[[float, int | None], str]] = {
        "fraction": lambda x, d: f"{100 * x:z.{1 if d is None else d}f} %",
        "seconds": lambda x, d: f"{x:z,.{2 if d is None else d}f} s",
        "per_second": lambda x, d: f"{x:z,.{d}f} /s" if d is not None else f"{x:,.3g} /s",
        "count": lambda x, d: f"{x:z,.{d or 0}f}",
        "ratio": lambda x, d: f"{x:z.{2 if d is None else d}f}",
        "percentage_points": lambda x, d: f"{x:+z.{2 if d is None else d}f} pp",
    }
    if unit not in formats:
        raise ValueError(f"There is no unit {unit!r}. The units are {', '.join(formats)}.")
    return formats[unit](float(value), digits).replace("-", _MINUS)


def score_text(score: Score | None, unit: str = "fraction", *, digits: int | None = None) -> str:
    """A score with its 95 % interval: `96.5 % [95.9, 97.0]`. Answers that did not parse are counted after it.

    Less than 50 ms has four digits: `0.0034 s [0.0028, 0.0039]`.
    """
    if score is None or pd.isna(score.value):
        return _EMPTY
    if unit == "seconds" and digits is None and 0 < score.value < 0.05:
        digits = 4
    text = number(score.value, unit, digits=digits) + interval(score.low, score.high, unit, digits=digits)
    return f"{text}, {score.unparsed:,} unparsed" if score.unparsed else text


def interval(low: float | None, high: float | None, unit: str = "fraction", *, digits: int | None = None) -> str:
    """The bounds alone, without their unit: ` [95.9, 97.0]`; empty text if there are none."""
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return ""
    bounds = (number(bound, unit, digits=digits).split(" ")[0] for bound in (low, high))
    return f" [{', '.join(bounds)}]"


def signed(value: float, digits: int) -> str:
    """A difference: `+0.010`."""
    return f"{value:+z.{digits}f}".replace("-", _MINUS)


def difference(test: Paired | pd.Series, digits: int) -> str:
    """What a paired test found, with its 95 % interval: `+0.010 [+0.002, +0.018]`."""
    return f"{signed(test.difference, digits)} [{signed(test.low, digits)}, {signed(test.high, digits)}]"


def points(test: Paired | pd.Series) -> str:
    """A difference of shares in hundredths, with its 95 % interval: `+15.0 [+2.8, +26.2]`."""
    return points_text(test.difference, test.low, test.high)


def points_text(value: float, low: float, high: float) -> str:
    """The same of three numbers."""
    bounds = (signed(100 * bound, 1) for bound in (low, high))
    return f"{signed(100 * value, 1)} [{', '.join(bounds)}]"


def p_text(p: float) -> str:
    """A p-value in a table: `0.042`, `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_words(p: float) -> str:
    """A p-value in a sentence: `p = 0.042`, `p < 0.001`."""
    return f"p {p_text(p)}" if p < 0.001 else f"p = {p_text(p)}"


# -- tables -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Html:
    """Something a notebook shows: HTML for the page, plain text for a terminal."""

    html: str
    text: str

    def _repr_html_(self) -> str:
        return self.html

    def __html__(self) -> str:
        """What a template writes."""
        return self.html

    def __repr__(self) -> str:
        """What a terminal shows."""
        return readable(self.text)


SCORES: Final = "application/vnd.rag-scores+json"
"""The kind of an output that says how its table of scores was made."""


@dataclass(frozen=True)
class ScoreTable(Html):
    """A table of scores, with what the book needs to add another model's column."""

    scores: dict[str, Any]

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {"text/html": self.html, "text/plain": repr(self), SCORES: self.scores}


def table(
    df: pd.DataFrame,
    caption: str,
    *,
    sample: bool = False,
    formats: Mapping[str, str | Callable[[Any], str]] | None = None,
    classes: str = "",
) -> Html:
    """A table in the book's look, in a frame that scrolls sideways where the screen is narrow.

    Numbers and scores, also if written already, stand to the right, text to the left; a missing value is a dash. A
    named index becomes the first column, an unnamed one is left out. On a phone each cell can carry its column's name
    (`data-label`).

    Args:
        df: one row per line. A cell of type `markupsafe.Markup` is taken as HTML, any other text is escaped.
        caption: what the table shows; it is also the name that a screen reader says.
        sample: the numbers come from the bundled sample: the caption says SAMPLE.
        formats: column -> unit of `number` ("fraction", "seconds", ...), or a function of the cell. The default
            shows whole numbers with a comma, other numbers with three decimals, scores by `score_text`.
        classes: further CSS classes of the table.

    Raises:
        ValueError: the columns have several levels, or `formats` names a column that is not there.
    """
    if df.columns.nlevels > 1:
        raise ValueError("A table has one row of column names; these have several levels. Join them into one first.")
    if df.index.name is not None:
        df = df.reset_index()
    formats = formats or {}
    if unknown := [name for name in formats if name not in df.columns]:
        raise ValueError(f"formats names {unknown}, but the columns are {list(df.columns)}.")
    numeric = {column: _is_numeric(df[column]) or isinstance(formats.get(column), str) for column in df.columns}
    cells = [
        {column: _cell(value, formats.get(column)) for column, value in zip(df.columns, row, strict=True)}
        for row in df.itertuples(index=False, name=None)
    ]
    heading = _caption(caption, sample=sample)
    out = [
        f'<div class="rag-scroll {_NO_MATH}" role="region" tabindex="0" aria-label="{escape(caption)}">{_STYLE}',
        f'<table class="rag-table {escape(classes)}"><caption>{heading}</caption><thead><tr>',
        *(f'<th scope="col"{_num(numeric[column])}>{escape(column)}</th>' for column in df.columns),
        "</tr></thead><tbody>",
    ]
    for row in cells:
        tds = (
            f'<td data-label="{escape(column)}"{_num(numeric[column])}>{escape(cell)}</td>'
            for column, cell in row.items()
        )
        out.append(f"<tr>{''.join(tds)}</tr>")
    out.append("</tbody></table></div>")
    words = [
        [cell.striptags() if isinstance(cell, markupsafe.Markup) else cell for cell in row.values()] for row in cells
    ]
    plain = pd.DataFrame(words, columns=df.columns).to_string(index=False)
    return Html("".join(out), f"{'SAMPLE. ' if sample else ''}{caption}\n{plain}")


def _num(numeric: bool) -> str:
    return ' class="num"' if numeric else ""


def _caption(caption: str, *, sample: bool) -> Markup:
    mark = Markup('<strong class="rag-sample">SAMPLE</strong> ') if sample else Markup()
    return mark + caption.replace(" %", "\N{NO-BREAK SPACE}%")


def _is_score(value: object) -> bool:
    return all(hasattr(value, name) for name in ("value", "low", "high", "unparsed"))


def _is_number(value: object) -> bool:
    return pd.api.types.is_number(value) and not isinstance(value, bool)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA


def _is_numeric(column: pd.Series) -> bool:
    values = [value for value in column if not _is_missing(value) and value != ""]
    return bool(values) and all(_is_score(value) or _is_number(value) or _is_written(value) for value in values)


def _is_written(value: object) -> bool:
    """Whether a text is a number as `number` or `score_text` or a paper writes it."""
    return isinstance(value, str) and not isinstance(value, markupsafe.Markup) and bool(_WRITTEN.fullmatch(value))


def _cell(value: object, fmt: str | Callable[[Any], str] | None) -> str:
    if callable(fmt):
        text = fmt(value)
    elif _is_score(value):
        text = score_text(cast("Score", value), fmt or "fraction")
    elif _is_missing(value):
        text = _EMPTY
    elif _is_number(value) and fmt:
        text = number(cast("float", value), fmt)
    elif _is_number(value):
        x = cast("float", value)
        text = (f"{x:,.0f}" if float(x).is_integer() else f"{x:,.3f}").replace("-", _MINUS)
    else:
        # a number and its per cent sign stay on one line
        text = value if isinstance(value, markupsafe.Markup) else str(value).replace(" %", "\N{NO-BREAK SPACE}%")
    return text


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, repr=False)  # a repr of its own would hold the whole figure, twice
class Picture(Html):
    """A figure as `figure` made it; `save` writes it to a file of its own."""

    svg: str = ""

    def save(self, path: Path) -> Path:
        """Write a stand-alone SVG, whose ink follows the light or dark theme of whoever shows it."""
        style = (
            "<style>:root{color:#1f2328}@media (prefers-color-scheme:dark){:root{color:#e6edf3}}</style>"  # ink on page
        )
        head, tag_end, body = self.svg.partition(">")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{head}{tag_end}{style}{body}\n", encoding="utf8")
        return path


def figure(fig: MplFigure, *, alt: str, caption: str = "", sample: bool = False) -> Picture:
    """Close a matplotlib figure and give it to the page as SVG that a reader can hear, search and read in the dark.

    Args:
        fig: drawn under `use_style`. Draw many thousand points with `rasterized=True`.
        alt: what there is to see, for who cannot see it; it must say the finding, not "a plot".
        caption: stands under the figure.
        sample: the figure shows the bundled sample: SAMPLE is written across it and before the caption.

    Raises:
        ValueError: `alt` is empty.
    """
    if not alt.strip():
        raise ValueError("A figure needs `alt`: a sentence that says what it shows.")
    if sample:
        fig.text(
            0.5, 0.5, "SAMPLE", ha="center", va="center", rotation=25, fontsize=56, weight="bold", color=INK, alpha=0.14
        )
    _as_written(fig)
    svg = _svg(fig, alt)
    plt.close(fig)
    html = (
        f'<figure class="rag-figure {_NO_MATH}">{_STYLE}<div class="rag-scroll" role="group" tabindex="0" '
        f'aria-label="{escape(alt)}">{svg}</div>'
    )
    if caption or sample:
        html += f"<figcaption>{_caption(caption, sample=sample)}</figcaption>"
    return Picture(f"{html}</figure>", f"{'SAMPLE. ' if sample else ''}{caption or alt}", svg)


def _as_written(fig: MplFigure) -> None:
    """Have every text of a figure drawn as it is written: a dollar begins no formula, half of which is an error."""
    for axes in fig.axes:
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_ticklabels(which="both")  # written only now
    for text in fig.findobj(lambda artist: isinstance(artist, Text) and "$" in artist.get_text()):
        cast(Text, text).set_parse_math(bool(_POWER.fullmatch(cast(Text, text).get_text())))


def _svg(fig: MplFigure, alt: str) -> str:
    buffer = io.StringIO()
    # a date or a version in the file would make every run differ
    # ids of its own: a browser takes a pattern of the first figure on the page with its id, even of one that is hidden
    with mpl.rc_context({"svg.hashsalt": f"{alt} {fig.get_size_inches()}"}):
        fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    text = buffer.getvalue()
    body = text[text.index("<svg") :].strip()
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    # names that nothing refers to would repeat from figure to figure of a page
    used = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', body))
    body = re.sub(r' id="([\w.-]+)"', lambda m: m.group(0) if m.group(1) in used else "", body)
    # its rule for every element would reach the page around it; the attribute of the tag below says the same
    body = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", body, flags=re.DOTALL)
    # the comments repeat each text
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    body = re.sub(rf"(?i){INK}", "currentColor", body)
    body = re.sub(r"'DejaVu Sans'(, sans-serif)?", _FONT, body)
    width, height = (float(re.search(rf'{side}="([\d.]+)pt"', body).group(1)) for side in ("width", "height"))  # type: ignore[union-attr]
    tag = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'style="max-width:{width / 12:.1f}rem;stroke-linejoin:round;stroke-linecap:butt" aria-label="{escape(alt)}">'
    )
    body = tag + body.partition(">")[2]
    return _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", re.sub(r"\s*\n\s*", "\n", body))


def scoreboard_picture(df: pd.DataFrame, *, narrow: bool = False, title: str = "") -> MplFigure:
    """Printed, rescored and rerun side by side, one line of the picture per row: a dot, and its 95 % interval.

    Args:
        df: rows of one unit, "fraction", in the order to draw. Columns: `label`, `colour`, `printed`, and for each of
            `rescored` and `rerun` the value and `<kind>_low`, `<kind>_high`. An empty value is not drawn.
        narrow: for a phone.
        title: stands above.

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
    if title:
        axes.set_title(title, loc="left", x=0)
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


# -- prompts ----------------------------------------------------------------------------------------------------------


def prompt_box(messages: Sequence[Mapping[str, str]], *, answer: str = "", caption: str = "") -> Html:
    """A prompt as the model sees it, message by message, and the answer if there is one. All text is escaped.

    Args:
        messages: chat messages with `role` and `content`.
        answer: what the model said.
        caption: stands above.
    """
    turns = [(message["role"], message["content"]) for message in messages]
    if answer:
        turns.append(("answer", answer))
    rows = "".join(
        f'<div class="rag-turn{" rag-answer" * (role == "answer")}"><span class="rag-role">{escape(role)}</span>'
        f"<pre>{escape(content)}</pre></div>"
        for role, content in turns
    )
    head = f'<p class="rag-prompt-caption">{escape(caption)}</p>' if caption else ""
    text = "\n".join(f"[{role}] {content}" for role, content in turns)
    return Html(f'<div class="rag-prompt {_NO_MATH}">{_STYLE}{head}{rows}</div>', text)
