"""A matplotlib figure as SVG: text that can be read and searched, ink of the page's colour, no date."""

from __future__ import annotations

import io
import re
from typing import Final, cast

import matplotlib as mpl
from matplotlib.figure import Figure as MplFigure
from matplotlib.text import Text

from helpers.results.markup import UNSEEN, escape

INK: Final = "#102030"
"""Stands for "the colour of the text around" in matplotlib; `figure` turns it into `currentColor`."""
_FONT: Final = "var(--pst-font-family-base, system-ui), sans-serif"
# what matplotlib's own formatters write on a logarithmic axis
_POWER: Final = re.compile(r"\$\\mathdefault\{-?[\d.]*(\\times)?(\d+\^\{-?[\d.]+\})?\}\$")


def _as_written(fig: MplFigure) -> None:
    """Have every text of a figure drawn as it is written: a dollar begins no formula, half of which is an error."""
    for axes in fig.axes:
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_ticklabels(which="both")  # written only now
    for text in fig.findobj(lambda artist: isinstance(artist, Text) and "$" in artist.get_text()):
        cast(Text, text).set_parse_math(bool(_POWER.fullmatch(cast(Text, text).get_text())))


def as_svg(fig: MplFigure, alt: str) -> str:
    """The figure as an element of a page; `alt` says what there is to see."""
    _as_written(fig)
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
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", re.sub(r"\s*\n\s*", "\n", body))
