"""What the book adds to a chapter: numbers of its figures and tables, its tables as CSV, a footer.

The numbers follow the order of the page. A figure for wide screens and the same for phones share
one number.
"""

import csv
import io
import re
import textwrap
import zipfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any, Final, Literal

from bs4 import BeautifulSoup

from evaluation.formats import listed
from evaluation.markup import Markup, escape
from publish import viewer
from publish.board_pages import PAPERS
from publish.chapters import Chapter

Kind = Literal["Figure", "Table"]
Cell = dict[str, Any]

_CAPTION: Final = re.compile(r"<(figcaption|caption)>")
_KINDS: Final[dict[str, Kind]] = {"figcaption": "Figure", "caption": "Table"}
_SVG: Final = re.compile(r"<svg.*?</svg>", re.DOTALL)
_HEADING: Final = re.compile(r"^##+ +(.+?)\s*$", re.MULTILINE)
"""Headings of sections; a chapter's title is above them."""
SETTING_UP: Final = "that sets up the chapter"
_ANSWERS: Final = re.compile(r"\b(run|study)\.answer\(")
_LABEL: Final = re.compile(r'<span class="rag-label"[^>]*>([^<]+)</span>')
GALLERY_CHARACTERS: Final = 120
"""Length of a caption in the gallery; the chapter shows all of it."""
ZIP_TIME: Final = (1980, 1, 1, 0, 0, 0)
"""Time of the files in an archive, so that equal tables give equal bytes."""


@dataclass(frozen=True)
class Exhibit:
    """A figure or table of a chapter.

    Attributes:
        kind: Whether it is a figure or a table.
        number: Its number, such as ``12.3``.
        html: The output that shows it.
    """

    kind: Kind
    number: str
    html: str

    @property
    def anchor(self) -> str:
        """Where it stands on its page."""
        return f"{self.kind.lower()}-{self.number.replace('.', '-')}"

    @property
    def caption(self) -> str:
        """Its caption as text."""
        tag = "figcaption" if self.kind == "Figure" else "caption"
        match = re.search(rf"<{tag}>(.*?)</{tag}>", self.html, re.DOTALL)
        if match is None:
            return ""
        without_label = re.sub(r'<span class="rag-label".*?</span>', "", match[1])
        text = unescape(re.sub(r"<[^>]+>", "", without_label))
        return _one_line(text)

    @property
    def svg(self) -> str:
        """The drawing of a figure."""
        match = _SVG.search(self.html)
        return match[0] if match else ""

    def csv(self) -> str:
        """Return a table as CSV, with a mark by which Excel knows its encoding."""
        text = io.StringIO("\N{ZERO WIDTH NO-BREAK SPACE}")
        text.seek(0, io.SEEK_END)
        csv.writer(text).writerows(self.rows())
        return text.getvalue()

    def rows(self) -> list[list[str]]:
        """Return the cells of a table as text, the header first."""
        page = BeautifulSoup(self.html, "html.parser")
        rows = []
        for row in page.select("table tr"):
            texts = [cell.get_text(" ") for cell in row.find_all(["th", "td"])]
            rows.append([_one_line(text) for text in texts])
        return rows


def _one_line(text: str) -> str:
    return " ".join(text.split())


def number_exhibits(cells: Iterable[Cell], chapter: str) -> list[Exhibit]:
    """Number the figures and tables of a staged notebook, in place.

    Args:
        cells: The cells in the order of the page.
        chapter: What the numbers begin with, such as ``12``.

    Returns:
        The figures and tables in their order.
    """
    exhibits: list[Exhibit] = []
    for data in _html_outputs(cells):
        text = "".join(data["text/html"])
        match = _CAPTION.search(text)
        if match is None or "rag-" not in text:
            continue
        kind = _KINDS[match[1]]
        count = sum(exhibit.kind == kind for exhibit in exhibits) + 1
        number = f"{chapter}.{count}" if chapter else str(count)
        exhibit = Exhibit(kind, number, text)
        exhibits.append(exhibit)
        data["text/html"] = _labelled(text, exhibit)
    return exhibits


def _html_outputs(cells: Iterable[Cell]) -> Iterator[dict[str, Any]]:
    for cell in cells:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:
                yield data


def _labelled(text: str, exhibit: Exhibit) -> str:
    """Put the number before each caption of an output; only the first is the target of links."""
    tag = "figcaption" if exhibit.kind == "Figure" else "caption"
    label = f"{exhibit.kind} {exhibit.number}"
    first = f'<{tag}><span class="rag-label" id="{exhibit.anchor}">{label}</span> '
    other = f'<{tag}><span class="rag-label">{label}</span> '
    before, _, after = text.partition(f"<{tag}>")
    return before + first + after.replace(f"<{tag}>", other)


def label_code(cells: Iterable[Cell]) -> None:
    """Say on the button of each folded cell what its code makes, in place.

    Args:
        cells: The cells in the order of the page, after `number_exhibits`.
    """
    what_section = SETTING_UP
    for cell in cells:
        if cell["cell_type"] == "markdown":
            headings = _HEADING.findall(cell["source"])
            if headings:
                what_section = f"for: {headings[-1]}"
            continue
        labels = _LABEL.findall("".join(_texts(cell)))
        what = f"of {_listed_labels(labels)}" if labels else what_section
        prompts = {"code_prompt_show": f"Show the code {what}", "code_prompt_hide": "Hide the code"}
        cell["metadata"]["mystnb"] = prompts


def _listed_labels(labels: Iterable[str]) -> str:
    """The labels of exhibits, those of a kind together: `Figure 4.1 and Tables 4.1 and 4.2`."""
    by_kind: dict[str, list[str]] = {}
    for label in dict.fromkeys(labels):
        kind, _, number = label.rpartition(" ")
        by_kind.setdefault(kind, []).append(number)
    return listed(
        [f"{kind}{'s' * (len(numbers) > 1)} {listed(numbers)}" for kind, numbers in by_kind.items()]
    )


def open_core(cells: Iterable[Cell]) -> None:
    """Unfold the code in which a chapter's arms answer for the first time, in place.

    It is the core of the method. A cell can also be tagged `core` by hand.
    """
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    for cell in _core(code):
        cell["metadata"]["tags"] = [tag for tag in _tags(cell) if tag != "hide-input"]


def _core(code: Sequence[Cell]) -> list[Cell]:
    """Return the cells tagged as the core, or else the first in which arms answer."""
    tagged = [cell for cell in code if "core" in _tags(cell)]
    answering = [cell for cell in code if _ANSWERS.search(cell["source"])]
    return tagged or answering[:1]


def _tags(cell: Cell) -> list[str]:
    return list(cell["metadata"].get("tags", ()))


def _texts(cell: Cell) -> Iterator[str]:
    for data in _html_outputs([cell]):
        yield "".join(data["text/html"])


def tables_archive(exhibits: Iterable[Exhibit]) -> bytes:
    """Return the tables of a chapter as CSV files in a zip archive; empty without tables."""
    tables = [exhibit for exhibit in exhibits if exhibit.kind == "Table"]
    if not tables:
        return b""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED) as archive:
        for table in tables:
            entry = zipfile.ZipInfo(f"{table.anchor}.csv", ZIP_TIME)
            archive.writestr(entry, table.csv())
    return content.getvalue()


def footer(chapter: Chapter, *, has_tables: bool) -> str:
    """Return what a reader may do next with a chapter, as Markdown.

    Args:
        chapter: The chapter.
        has_tables: Whether its tables can be downloaded.
    """
    key = PAPERS.get(chapter.paper or "", ("", ""))[1]
    cited = f", and cite {{cite:t}}`{key}`" if key else ""
    lines = [
        "---",
        "",
        "## Use this chapter",
        "",
        f"- **Run it**: `make notebook NB={chapter.name}`, or `make lab` to edit it; "
        "[get the project first](../index.md#get-it-and-what-it-costs).",
        f"- **Cite it**: give the commit at the top of the chapter{cited}; see "
        "[how to cite](../index.md#cite).",
        "- **Its data**: [sources, licences and digests](../provenance.md).",
    ]
    if has_tables:
        name = f"../tables-{chapter.name}.zip"
        link = Markup('<a href="{}" download>CSV files</a>').format(name)
        lines.append(f"- **Its tables**: {link}.")
    if viewer.arms(chapter):
        link = Markup('<a href="../answers.html#nb={}">every answer</a>').format(chapter.name)
        texts = "with the prompts and the retrieved texts, as far as licences allow"
        lines.append(f"- **Its answers**: {link}, {texts}.")
    return "\n".join(lines)


def gallery(figures: Iterable[tuple[str, str, Exhibit, str]]) -> str:
    """Return the figures of all chapters as pictures that lead to where they stand.

    Args:
        figures: Name and title of the chapter, the figure, and the name of its file.
    """
    items = []
    for name, title, exhibit, file in figures:
        address = f"notebooks/{name}.html#{exhibit.anchor}"
        words = textwrap.shorten(
            exhibit.caption, GALLERY_CHARACTERS, placeholder=" \N{HORIZONTAL ELLIPSIS}"
        )
        item = Markup(
            '<figure><a href="{}"><img src="{}" loading="lazy" alt="{}"></a>'
            '<figcaption><a href="{}">Figure {}</a> {}<span class="rag-why">{}</span></figcaption>'
            "</figure>"
        ).format(address, file, exhibit.caption or title, address, exhibit.number, words, title)
        items.append(item)
    return f'<div class="rag-gallery">{escape("") + Markup("").join(items)}</div>'
