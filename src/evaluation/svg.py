"""Draw a matplotlib figure as SVG within a page, whose text is read aloud and follows its theme."""

import io
import re
from typing import Final

import matplotlib as mpl
from matplotlib.figure import Figure
from matplotlib.text import Text

from evaluation.markup import UNSEEN, escape

INK: Final = "#102030"
"""Stands in matplotlib for the colour of the text around; `figure_svg` makes it `currentColor`."""
PAGE_FONT: Final = "var(--pst-font-family-base, system-ui), sans-serif"
_POWER: Final = re.compile(r"\$\\mathdefault\{-?[\d.]*(\\times)?(\d+\^\{-?[\d.]+\})?\}\$")
"""What matplotlib's own formatters write on a logarithmic axis."""
# A date or a version in the file would make every run differ.
_NO_METADATA: Final = {"Date": None, "Creator": None, "Format": None, "Type": None}
POINTS_PER_REM: Final = 12


def figure_svg(figure: Figure, alt: str) -> str:
    """The figure as an element of a page; ``alt`` says what there is to see."""
    _draw_texts_literally(figure)
    text = _saved(figure, alt)
    element = text[text.index("<svg") :].strip()
    element = _without_unused(element)
    element = re.sub(rf"(?i){INK}", "currentColor", element)
    element = re.sub(r"'DejaVu Sans'(, sans-serif)?", PAGE_FONT, element)
    element = _opening_tag(element, alt) + element.partition(">")[2]
    lines = re.sub(r"\s*\n\s*", "\n", element)
    return UNSEEN.sub("\N{REPLACEMENT CHARACTER}", lines)


def _draw_texts_literally(figure: Figure) -> None:
    """Let a dollar begin no formula, half of which would be an error."""
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            axis.get_ticklabels(which="both")  # written only now
    for text in figure.findobj(Text):
        if "$" in text.get_text():
            is_power = bool(_POWER.fullmatch(text.get_text()))
            text.set_parse_math(is_power)


def _saved(figure: Figure, alt: str) -> str:
    """The SVG that matplotlib writes.

    Its ids are its own: a browser takes a pattern of the first figure on the page with its
    id, even of one that is hidden.
    """
    buffer = io.StringIO()
    with mpl.rc_context({"svg.hashsalt": f"{alt} {figure.get_size_inches()}"}):
        figure.savefig(buffer, format="svg", metadata=_NO_METADATA)
    return buffer.getvalue()


def _without_unused(element: str) -> str:
    """Remove metadata, comments, unused ids, and rules that would reach the page."""
    element = re.sub(r"<metadata>.*?</metadata>", "", element, flags=re.DOTALL)
    # Names that nothing refers to would repeat from figure to figure of a page.
    used_ids = set(re.findall(r'(?:href="#|url\(#)([\w.-]+)', element))

    def keep_used(match: re.Match[str]) -> str:
        return match[0] if match[1] in used_ids else ""

    element = re.sub(r' id="([\w.-]+)"', keep_used, element)
    # Its rule for every element would reach the page; the opening tag says the same.
    element = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>", "", element, flags=re.DOTALL)
    # Comments repeat each text.
    return re.sub(r"<!--.*?-->\s*", "", element, flags=re.DOTALL)


def _opening_tag(element: str, alt: str) -> str:
    width = _size_in_points(element, "width")
    height = _size_in_points(element, "height")
    style = f"max-width:{width / POINTS_PER_REM:.1f}rem;stroke-linejoin:round;stroke-linecap:butt"
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'role="img" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}" '
        f'style="{style}" aria-label="{escape(alt)}">'
    )


def _size_in_points(element: str, side: str) -> float:
    match = re.search(rf'{side}="([\d.]+)pt"', element)
    if match is None:
        raise ValueError(f"matplotlib wrote an SVG without {side} in points.")
    return float(match[1])
