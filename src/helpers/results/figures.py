"""The book's look: figures, tables, scores and prompts, the same in a notebook and in the book, in light and in dark.

A figure is drawn as SVG whose ink is the colour of the text around it, so that one file serves both themes.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

import markupsafe
import matplotlib.pyplot as plt
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure as MplFigure

from helpers.results.markup import Markup, escape, readable
from helpers.results.svg import INK, as_svg

if TYPE_CHECKING:
    from helpers.results.metrics import Score
    from helpers.results.paired import Paired


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


_EMPTY: Final = "\N{EN DASH}"
_MINUS: Final = "\N{MINUS SIGN}"
_WRITTEN: Final = re.compile(rf"{_EMPTY}|[<~+{_MINUS}-]? ?\d[\d,.]*( ?%| s| pp| /s)?( \[[^]]*\])?(, [\d,]+ unparsed)?")


_MARKDOWN: Final = {ord(character): f"&#{ord(character)};" for character in "\\`*_[]{}$|~.:@"}
_NO_MATH: Final = "tex2jax_ignore mathjax_ignore"
"""Classes of an element in which MathJax takes a dollar for a dollar."""


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


def arm_colour(arm: str) -> str:
    """The colour that an arm has in every figure, as `#rrggbb`.

    Raises:
        KeyError: the arm is not in `ARMS`.
    """
    if arm not in ARMS:
        raise KeyError(f"There is no arm {arm!r}. The arms are {', '.join(ARMS)}; figures.ARMS takes a new one.")
    return ARMS[arm][1]


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
    svg = as_svg(fig, alt)
    plt.close(fig)
    html = (
        f'<figure class="rag-figure {_NO_MATH}">{_STYLE}<div class="rag-scroll" role="group" tabindex="0" '
        f'aria-label="{escape(alt)}">{svg}</div>'
    )
    if caption or sample:
        html += f"<figcaption>{_caption(caption, sample=sample)}</figcaption>"
    return Picture(f"{html}</figure>", f"{'SAMPLE. ' if sample else ''}{caption or alt}", svg)


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
