"""The book's look: figures, tables, scores and prompts, in a notebook and in the book, in light and in dark."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
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

from evaluation.markup import UNSEEN, Markup, escape, readable

if TYPE_CHECKING:
    from evaluation.metrics import Score
    from evaluation.paired import Paired


ARMS: Final[dict[str, tuple[str, str]]] = {
    "closed_book": ("Closed book", "#c35410"),
    "format_a": ("RAG, Format A", "#af219d"),
    "format_b": ("RAG, Format B", "#125ee0"),
    "graphrag": ("GraphRAG", "#079c6b"),
    "majority": ("Majority (floor)", "#808080"),
    "lookup": ("Lookup (ceiling)", "#808080"),
}
"""Label and colour of each arm: 3:1 contrast on white and on the dark theme, apart for the colour-blind."""
SCORES: Final = "application/vnd.rag-scores+json"  # the kind of an output that says how its table of scores was made
HUES: Final = {
    "orange": "#c35410",
    "magenta": "#af219d",
    "blue": "#125ee0",
    "green": "#079c6b",
    "grey": "#808080",
}
"""Colours of arms; in a page `var(--rag-orange, #c35410)` and so on, which a style sheet changes without a rerun."""
INK: Final = "#102030"  # stands in matplotlib for the colour of the text around; `figure` makes it `currentColor`
_FONT: Final = "var(--pst-font-family-base, system-ui), sans-serif"
# what matplotlib's own formatters write on a logarithmic axis
_POWER: Final = re.compile(r"\$\\mathdefault\{-?[\d.]*(\\times)?(\d+\^\{-?[\d.]+\})?\}\$")
_EMPTY: Final = "\N{EN DASH}"
_MINUS: Final = "\N{MINUS SIGN}"
_WRITTEN: Final = re.compile(
    rf"{_EMPTY}|[<~+{_MINUS}-]? ?\d[\d,.]*( ?%| s| pp| /s)?( \[[^]]*\])?(, [\d,]+ unparsed)?"
)
_MARKDOWN: Final = {ord(character): f"&#{ord(character)};" for character in "\\`*_[]{}$|~.:@"}
NO_MATH: Final = "tex2jax_ignore mathjax_ignore"  # classes of an element in which MathJax takes a dollar for a dollar


def inline(text: str) -> Markup:
    """Text of a model or a document for a sentence in Markdown: neither Markdown nor MathJax finds anything in it."""
    return Markup(f'<span class="{NO_MATH}">{escape(text).translate(_MARKDOWN)}</span>')


# Enough for a notebook opened outside the book; the book's own style sheet has the rest.
_STYLE: Final = Markup(
    "<style>.rag-scroll{overflow-x:auto}.rag-table caption{text-align:left;caption-side:top;font-weight:600}"
    ".rag-table td,.rag-table th{text-align:left!important;vertical-align:top}"
    ".rag-table .num{text-align:right!important;font-variant-numeric:tabular-nums}"
    ".rag-figure{margin:1em 0}.rag-figure svg{width:100%;height:auto}"
    ".rag-prompt pre{white-space:pre-wrap}.rag-prompt,.rag-figure figcaption{overflow-wrap:anywhere}</style>"
)


def arm_colour(arm: str) -> str:
    """The colour that an arm has in every figure, as `#rrggbb`; a KeyError if `ARMS` lacks it."""
    if arm not in ARMS:
        raise KeyError(
            f"There is no arm {arm!r}. The arms are {', '.join(ARMS)}; figures.ARMS takes a new one."
        )
    return ARMS[arm][1]


def use_style() -> None:
    """Give every figure of this process the book's look. Call it once, in the set-up cell."""
    inked = (
        "text.color",
        "axes.labelcolor",
        "axes.edgecolor",
        "xtick.color",
        "ytick.color",
        "axes.titlecolor",
    )
    small = ("xtick.labelsize", "ytick.labelsize", "legend.fontsize")
    look = {
        **dict.fromkeys(inked, INK),
        **dict.fromkeys(("figure.facecolor", "axes.facecolor", "savefig.facecolor"), "none"),
        **dict.fromkeys(("legend.frameon", "axes.spines.top", "axes.spines.right"), False),
        **dict.fromkeys(small, 10.5),
        **{"grid.color": "#808080", "grid.alpha": 0.3, "lines.linewidth": 2},
        **{
            "axes.titlelocation": "left",
            "axes.titleweight": "bold",
            "axes.titlesize": 12,
            "axes.labelsize": 11,
        },
        **{"font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans"]},
        **{"figure.figsize": (7.2, 4.0), "figure.constrained_layout.use": True},
        # text stays text: small, searchable, and set in the font of the page; the same figure is the same file
        **{"svg.fonttype": "none", "svg.hashsalt": "medical-rag-book"},
    }
    sns.set_theme(
        style="ticks", palette=list(dict.fromkeys(colour for _, colour in ARMS.values())), rc=look
    )


def number(value: float | None, unit: str = "fraction", *, digits: int | None = None) -> str:
    """One number with its unit: `96.5 %`, `0.09 s`, `11 /s`, `19,520`, `+0.31 pp`; a dash if there is none."""
    if value is None or pd.isna(value):
        return _EMPTY
    formats = {  # z: what is rounded to nothing has no minus sign
        "fraction": ("z.1f", " %"),
        "seconds": ("z,.2f", " s"),
        "per_second": ("z,.3g", " /s"),
        "count": ("z,.0f", ""),
        "ratio": ("z.2f", ""),
        "percentage_points": ("+z.2f", " pp"),
    }
    if unit not in formats:
        raise ValueError(f"There is no unit {unit!r}. The units are {', '.join(formats)}.")
    how, suffix = formats[unit]
    if digits is not None:
        how = re.sub(r"\d[fg]", f"{digits}f", how)
    return f"{100 * value if unit == 'fraction' else float(value):{how}}{suffix}".replace(
        "-", _MINUS
    )


def in_words(n: int) -> str:
    """A count as a sentence writes it: zero to nine in words."""
    words = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
    return words[n] if n < len(words) else number(n, "count")


def listed(items: Sequence[str]) -> str:
    """`a, b and c`."""
    return " and ".join(filter(None, (", ".join(items[:-1]), *items[-1:])))


def score_text(score: Score | None, unit: str = "fraction", *, digits: int | None = None) -> str:
    """A score with its 95 % interval and its unparsed answers: `96.5 % [95.9, 97.0]`.

    Seconds below 0.05 have four digits, and a share that would round to 100.0 % two.
    """
    if score is None or pd.isna(score.value):
        return _EMPTY
    if unit == "seconds" and digits is None and 0 < score.value < 0.05:
        digits = 4
    if unit == "fraction" and digits is None and 0.9995 <= score.value < 1:
        digits = 2
    text = number(score.value, unit, digits=digits) + interval(
        score.low, score.high, unit, digits=digits
    )
    return f"{text}, {score.unparsed:,} unparsed" if score.unparsed else text


def interval(
    low: float | None, high: float | None, unit: str = "fraction", *, digits: int | None = None
) -> str:
    """The bounds alone, without their unit: ` [95.9, 97.0]`; empty text if there are none."""
    if low is None or high is None or pd.isna(low) or pd.isna(high):
        return ""
    bounds = (number(bound, unit, digits=digits).split(" ")[0] for bound in (low, high))
    return f" [{', '.join(bounds)}]"


def signed(value: float, digits: int) -> str:
    """A difference: `+0.010`."""
    return f"{value:+z.{digits}f}".replace("-", _MINUS)


def points(test: Paired | pd.Series) -> str:
    """A difference of shares in hundredths, with its 95 % interval: `+15.0 [+2.8, +26.2]`."""
    return points_text(test.difference, test.low, test.high)


def points_text(value: float, low: float, high: float) -> str:
    """The same of three numbers."""
    return f"{signed(100 * value, 1)} [{signed(100 * low, 1)}, {signed(100 * high, 1)}]"


def p_text(p: float) -> str:
    """A p-value in a table: `0.042`, `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def p_words(p: float) -> str:
    """A p-value in a sentence, on one line: `p = 0.042`, `p < 0.001`."""
    return f"p {'' if p < 0.001 else '= '}{p_text(p)}".replace(" ", "\N{NO-BREAK SPACE}")


@dataclass(frozen=True, repr=False)
class Html:
    """Something a notebook shows: HTML for the page, plain text for a terminal."""

    html: str
    text: str
    scores: dict[str, Any] | None = (
        None  # how a table of scores was made, for the columns of other models
    )

    def _repr_mimebundle_(self, **_: object) -> dict[str, Any]:
        return {
            "text/html": self.html,
            "text/plain": repr(self),
            **({SCORES: self.scores} if self.scores else {}),
        }

    def __html__(self) -> str:
        """What a template writes."""
        return self.html

    def __repr__(self) -> str:
        """What a terminal shows."""
        return readable(self.text)


def table(
    df: pd.DataFrame,
    caption: str,
    *,
    sample: bool = False,
    formats: Mapping[str, str | Callable[[Any], str]] | None = None,
    classes: str = "",
) -> Html:
    """A table in the book's look, in a frame that scrolls sideways where the screen is narrow; a `sample` says SAMPLE.

    A cell of type `markupsafe.Markup` is taken as HTML, any other text is escaped; a missing value is a dash. `formats`
    gives columns a unit of `number`, or a function of the cell. A named index becomes the first column.
    """
    if df.columns.nlevels > 1:
        raise ValueError(
            "A table has one row of column names; these have several levels. Join them into one first."
        )
    if df.index.name is not None:
        df = df.reset_index()
    how = dict(formats or {})
    if unknown := [name for name in how if name not in df.columns]:
        raise ValueError(f"formats names {unknown}, but the columns are {list(df.columns)}.")
    numeric = [_is_numeric(df[column]) or isinstance(how.get(column), str) for column in df.columns]
    columns = [
        (escape(name), ' class="num"' * right)
        for name, right in zip(df.columns, numeric, strict=True)
    ]
    rows = [
        [
            unbroken(cell) if right else cell
            for cell, right in zip(map(_cell, row, map(how.get, df.columns)), numeric, strict=True)
        ]
        for row in df.itertuples(index=False, name=None)
    ]
    head = "".join(f'<th scope="col"{right}>{name}</th>' for name, right in columns)
    body = ""
    for row in rows:
        cells = (
            f'<td data-label="{n}"{right}>{escape(v)}</td>'
            for (n, right), v in zip(columns, row, strict=True)
        )
        body += f"<tr>{''.join(cells)}</tr>"
    html = (
        f'<div class="rag-scroll {NO_MATH}" role="region" tabindex="0" aria-label="{escape(caption)}">{_STYLE}'
        f'<table class="rag-table {escape(classes)}"><caption>{_caption(caption, sample=sample)}</caption>'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )
    words = [
        [cell.striptags() if isinstance(cell, markupsafe.Markup) else cell for cell in row]
        for row in rows
    ]
    plain = pd.DataFrame(words, columns=df.columns).to_string(index=False)
    return Html(html, f"{'SAMPLE. ' if sample else ''}{caption}\n{plain}")


def _caption(caption: str, *, sample: bool) -> Markup:
    mark = Markup('<strong class="rag-sample">SAMPLE</strong> ') if sample else Markup()
    return mark + caption.replace(" %", "\N{NO-BREAK SPACE}%")


def _is_score(value: object) -> bool:
    return all(hasattr(value, name) for name in ("value", "low", "high", "unparsed"))


def _is_number(value: object) -> bool:
    return pd.api.types.is_number(value) and not isinstance(value, bool)


def is_written(value: object) -> bool:
    """Whether a text, or what a link shows, is a number or a score as `number`, `score_text` or a paper writes it."""
    text = value.striptags() if isinstance(value, markupsafe.Markup) else value
    return isinstance(text, str) and bool(_WRITTEN.fullmatch(text))


def unbroken(text: str) -> str:
    """A number or score that breaks only before its interval and its unparsed answers; HTML stays as it is."""
    if isinstance(text, markupsafe.Markup):
        return text
    return re.sub(r"(?<!\],) (?!\[)", "\N{NO-BREAK SPACE}", text)


def _is_missing(value: object) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value)) or value is pd.NA


def _is_numeric(column: pd.Series) -> bool:
    """Whether a column has numbers and scores alone, as such or written."""
    values = [value for value in column if not _is_missing(value) and value != ""]
    return bool(values) and all(
        _is_score(value) or _is_number(value) or is_written(value) for value in values
    )


def _cell(value: object, fmt: str | Callable[[Any], str] | None) -> str:
    if callable(fmt):
        return fmt(value)
    if _is_score(value):
        return score_text(cast("Score", value), fmt or "fraction")
    if _is_missing(value):
        return _EMPTY
    if _is_number(value):
        x = cast("float", value)
        plain = f"{x:,.0f}" if float(x).is_integer() else f"{x:,.3f}"
        return number(x, fmt) if fmt else plain.replace("-", _MINUS)
    # a number and its per cent sign stay on one line
    return (
        value
        if isinstance(value, markupsafe.Markup)
        else str(value).replace(" %", "\N{NO-BREAK SPACE}%")
    )


def _as_svg(fig: MplFigure, alt: str) -> str:
    """The figure as an element of a page; `alt` says what there is to see."""
    # every text is drawn literally: a dollar begins no formula, half of which would be an error
    for axes in fig.axes:
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_ticklabels(which="both")  # written only now
    for artist in fig.findobj(lambda artist: isinstance(artist, Text) and "$" in artist.get_text()):
        cast(Text, artist).set_parse_math(bool(_POWER.fullmatch(cast(Text, artist).get_text())))
    buffer = io.StringIO()
    # a date or a version in the file would make every run differ
    # ids of its own: a browser takes a pattern of the first figure on the page with its id, even of one that is hidden
    with mpl.rc_context({"svg.hashsalt": f"{alt} {fig.get_size_inches()}"}):
        fig.savefig(
            buffer,
            format="svg",
            metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
        )
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
    width, height = (
        float(re.search(rf'{side}="([\d.]+)pt"', body).group(1))  # type: ignore[union-attr]
        for side in ("width", "height")
    )
    tag = (
        f'<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" role="img" '
        f'viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'style="max-width:{width / 12:.1f}rem;stroke-linejoin:round;stroke-linecap:butt" aria-label="{escape(alt)}">'
    )
    body = tag + body.partition(">")[2]
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", re.sub(r"\s*\n\s*", "\n", body))


@dataclass(frozen=True, repr=False)
class Picture(Html):
    """A figure as `figure` made it; `save` writes it to a file of its own."""

    svg: str = ""

    def save(self, path: Path) -> Path:
        """Write a stand-alone SVG, whose ink follows the light or dark theme of whoever shows it."""
        style = "<style>:root{color:#1f2328}@media (prefers-color-scheme:dark){:root{color:#e6edf3}}</style>"
        head, tag_end, body = self.svg.partition(">")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{head}{tag_end}{style}{body}\n", encoding="utf8")
        return path


def figure(fig: MplFigure, *, alt: str, caption: str = "", sample: bool = False) -> Picture:
    """Close a matplotlib figure and give it to the page as SVG that a reader can hear (`alt`) and read in the dark."""
    if not alt.strip():
        raise ValueError("A figure needs `alt`: a sentence that says what it shows.")
    if sample:
        look: Any = {"rotation": 25, "fontsize": 56, "weight": "bold", "color": INK, "alpha": 0.14}
        fig.text(0.5, 0.5, "SAMPLE", ha="center", va="center", **look)
    svg = _as_svg(fig, alt)
    plt.close(fig)
    hues = {colour: f"var(--rag-{name}, {colour})" for name, colour in HUES.items()}
    hued = re.sub("|".join(hues), lambda match: hues[match[0]], svg)
    html = (
        f'<figure class="rag-figure {NO_MATH}">{_STYLE}<div class="rag-scroll" role="group" tabindex="0" '
        f'aria-label="{escape(alt)}">{hued}</div>'
    )
    if caption or sample:
        html += f"<figcaption>{_caption(caption, sample=sample)}</figcaption>"
    return Picture(f"{html}</figure>", f"{'SAMPLE. ' if sample else ''}{caption or alt}", svg=svg)


def prompt_box(
    messages: Sequence[Mapping[str, str]], *, answer: str = "", caption: str = ""
) -> Html:
    """A prompt as the model sees it, message by message, and the answer if there is one. All text is escaped."""
    turns = [(message["role"], message["content"]) for message in messages] + [
        ("answer", answer)
    ] * bool(answer)
    rows = "".join(
        f'<div class="rag-turn{" rag-answer" * (role == "answer")}"><span class="rag-role">{escape(role)}</span>'
        f"<pre>{escape(content)}</pre></div>"
        for role, content in turns
    )
    head = f'<p class="rag-prompt-caption">{escape(caption)}</p>' if caption else ""
    text = "\n".join(f"[{role}] {content}" for role, content in turns)
    return Html(f'<div class="rag-prompt {NO_MATH}">{_STYLE}{head}{rows}</div>', text)
