"""Draws the architecture of a paper from `book/diagrams/<paper>.yml`, as SVG of the book's own.

A file names the diagram, its parts and the arrows between them. Each part has the name that the
paper gives it, a place on a grid, the chapter that shows it, and the code that is it. A wide screen
gets the grid. A phone gets the same parts in one column: an arrow leads to the part right below,
and a part says in words from which others it reads.
"""

import ast
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal, cast, get_args

import yaml

from evaluation.markup import Markup
from publish import diagram_lines
from publish.diagram_lines import Box, Line, Port, Side
from publish.launch import repository_url
from resources.settings import ROOT, PublicError

Family = Literal["data", "graph", "text", "model", "trained"]
"""What a part is: it has the colour of the methods of its kind in the book's figures."""
FAMILIES: Final = {
    "data": "data",
    "graph": "graph",
    "text": "text and vectors",
    "model": "language model",
    "trained": "trained model",
}
"""Words of the legend."""

SOURCE: Final = Path(__file__).resolve().parents[1]
"""The folder of the packages."""
DIAGRAMS: Final = ROOT / "book" / "diagrams"
WIDE_BOX: Final = (158.0, 80.0)
"""Width and height of a part on a wide screen, in user units; the page shows one as one pixel."""
WIDE_GAP: Final = (22.0, 18.0)
NARROW_WIDTH: Final = 330.0
NARROW_PADDING: Final = 22.0
"""Height of a part in a phone's column that its text does not take."""
NARROW_GAP: Final = 20.0
NAME_SIZE: Final = 13
NOTE_SIZE: Final = 11.5
LINE: Final = 14.5
"""Distance of two lines of text."""
PADDING: Final = 8
"""Room to the left and to the right of a part's text, at least."""
NAME_CHARACTER: Final = 0.68
NOTE_CHARACTER: Final = 0.58
"""Width of an average character, as a share of the size of the letters: of a wide font, as the
reader's may be."""


@dataclass(frozen=True)
class Part:
    """One part of an architecture.

    Attributes:
        key: Its name within the file.
        name: What the paper calls it.
        note: What it is or does, in a few words.
        family: Its kind.
        place: Column and row on the grid of a wide screen, from 1; rows may be fractions.
        chapter: The notebook that shows it.
        code: The module, class or function that is it, with its path of packages.
    """

    key: str
    name: str
    note: str
    family: Family
    place: tuple[float, float]
    chapter: str
    code: str

    @property
    def module(self) -> str:
        """The module that `code` is or lies in."""
        parts = self.code.split(".")
        while not _module_file(parts).is_file():
            parts.pop()
        return ".".join(parts)

    @property
    def source(self) -> str:
        """Path of the module's file within the project."""
        return _module_file(self.module.split(".")).relative_to(SOURCE.parent).as_posix()

    @property
    def name_in_module(self) -> str:
        """The name of the class or function within its module; "" if the part is a module."""
        return self.code.removeprefix(self.module).removeprefix(".")

    @property
    def line(self) -> int:
        """The line of the module's file in which the class or function begins."""
        tree: ast.AST = ast.parse((SOURCE.parent / self.source).read_text(encoding="utf-8"))
        line = 1
        for name in filter(None, self.name_in_module.split(".")):
            tree = _definition(tree, name)
            line = getattr(tree, "lineno", line)
        return line


def _definition(tree: ast.AST, name: str) -> ast.AST:
    """Return the class or function of a name right below a module or a class.

    A name that the module imports or assigns leaves the tree as it is.
    """
    for node in ast.iter_child_nodes(tree):
        if getattr(node, "name", None) == name:
            return node
    return tree


def _module_file(parts: Sequence[str]) -> Path:
    package = SOURCE.joinpath(*parts)
    initial = package / "__init__.py"
    return initial if initial.is_file() else package.with_suffix(".py")


@dataclass(frozen=True)
class Edge:
    """An arrow from one part to another.

    Attributes:
        start: Key of the part where it begins.
        end: Key of the part that it points to.
        word: What stands on it, or "".
        above: The row of a wide screen's grid above which it runs, where it has to pass other
            parts; without it, the arrow is a curve between its two parts.
        leave: Where on its start it begins, such as ``bottom 0.5``.
        arrive: Where on its end it arrives. With both and no `above`, the arrow has a corner.
    """

    start: str
    end: str
    word: str = ""
    above: float | None = None
    leave: Port | None = None
    arrive: Port | None = None


@dataclass(frozen=True)
class Diagram:
    """An architecture.

    Attributes:
        paper: The paper's name.
        title: What is drawn.
        source: The figures of the paper that it redraws.
        alt: What it shows, for who does not see it.
        parts: Its parts by their keys, in the order of a phone's column.
        edges: Its arrows.
    """

    paper: str
    title: str
    source: str
    alt: str
    parts: Mapping[str, Part]
    edges: tuple[Edge, ...]


class DiagramError(PublicError, ValueError):
    """A file of a diagram is not right; the message says what to change."""


def read_diagram(paper: str) -> Diagram | None:
    """Read the diagram of a paper; None if it has none.

    Raises:
        DiagramError: The file names a part that it does not describe, or an unknown family.
    """
    path = DIAGRAMS / f"{paper}.yml"
    if not path.is_file():
        return None
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    parts = {key: _read_part(key, fields, path) for key, fields in content["parts"].items()}
    edges = tuple(_read_edge(fields, path) for fields in content["edges"])
    for edge in edges:
        missing = {edge.start, edge.end} - set(parts)
        if missing:
            raise DiagramError(
                f"{path.name}: an arrow needs a part that is described, "
                f"and there is none named {', '.join(sorted(missing))}."
            )
    alt = " ".join(content["alt"].split())
    return Diagram(paper, content["title"], content["source"], alt, parts, edges)


def _read_part(key: str, fields: Mapping[str, Any], path: Path) -> Part:
    family = fields["family"]
    if family not in get_args(Family):
        raise DiagramError(
            f"{path.name}: the part {key} needs a family among {', '.join(get_args(Family))}, "
            f"not {family!r}."
        )
    column, row = fields["place"]
    return Part(
        key,
        str(fields["name"]),
        str(fields["note"]),
        family,
        (float(column), float(row)),
        fields["chapter"],
        fields["code"],
    )


def _read_edge(fields: Sequence[Any], path: Path) -> Edge:
    """Read an arrow: start, end, word, the row above which it runs, and a mapping of its ports."""
    plain = [field for field in fields if not isinstance(field, Mapping)]
    edge = Edge(*plain)
    for field in fields:
        if isinstance(field, Mapping):
            leave = _read_port(field["leave"], path)
            arrive = _read_port(field["arrive"], path)
            edge = replace(edge, leave=leave, arrive=arrive)
    return edge


def _read_port(words: str, path: Path) -> Port:
    side, _, share = words.partition(" ")
    if side not in get_args(Side):
        raise DiagramError(
            f"{path.name}: an arrow leaves or arrives at {', '.join(get_args(Side))}, not {side!r}."
        )
    return Port(cast("Side", side), float(share or 0.5))


def diagram_html(diagram: Diagram, prefix: str = "", chapter: str = "") -> str:
    """Return a diagram for a page, on one line.

    Args:
        diagram: What to draw.
        prefix: What leads from the page to the book's root, such as ``../``.
        chapter: The notebook whose parts are stressed; by default none.
    """
    wide = _Drawing(diagram, _wide_boxes(diagram), prefix, chapter, is_column=False)
    narrow = _Drawing(diagram, _narrow_boxes(diagram), prefix, chapter, is_column=True)
    caption = f"{diagram.title}. Redrawn after {diagram.source}. Each part links to its chapter."
    figure = Markup(
        '<figure class="rag-diagram">'
        '<div class="rag-wide">{}</div><div class="rag-narrow">{}</div>'
        "<figcaption>{}{}</figcaption></figure>"
    ).format(wide.svg(), narrow.svg(), caption, _legend(diagram))
    return str(figure)


def parts_table(diagram: Diagram, prefix: str = "") -> str:
    """Return the parts of a diagram, with the chapter and the code of each, as HTML.

    Args:
        diagram: What is described.
        prefix: What leads from the page to the book's root.
    """
    url = repository_url()
    rows = []
    for part in diagram.parts.values():
        name, line = part.name_in_module, f":{part.line}" if part.name_in_module else ""
        place = Markup("<code>{}{}</code>").format(part.source, line)
        if url:
            address = f"{url}/blob/main/{part.source}#L{part.line}"
            place = Markup('<a href="{}">{}</a>').format(address, place)
        row = Markup(
            '<tr><td>{}</td><td><a href="{}">{}</a></td><td>{}</td><td>{}</td></tr>'
        ).format(
            part.name,
            _chapter_address(part, prefix),
            part.chapter[:2],
            place,
            Markup("<code>{}</code>").format(name) if name else "the module",
        )
        rows.append(row)
    head = Markup(
        "<tr><th>Part</th><th>Chapter</th><th>File and line</th><th>Class or function</th></tr>"
    )
    table = Markup(
        '<div class="rag-scroll"><table class="rag-table"><thead>{}</thead>'
        "<tbody>{}</tbody></table></div>"
    ).format(head, Markup("").join(rows))
    return str(
        Markup("<details><summary>Where each part is in the code</summary>{}</details>").format(
            table
        )
    )


def _chapter_address(part: Part, prefix: str) -> str:
    return f"{prefix}notebooks/{part.chapter}.html"


def _legend(diagram: Diagram) -> Markup:
    """Return the kinds of parts that the diagram has, each beside its colour."""
    present = {part.family for part in diagram.parts.values()}
    items = [
        Markup('<span class="rag-key rag-{}">{}</span>').format(family, words)
        for family, words in FAMILIES.items()
        if family in present
    ]
    return Markup('<span class="rag-keys">{}</span>').format(Markup(" ").join(items))


def _wide_boxes(diagram: Diagram) -> dict[str, Box]:
    width, height = WIDE_BOX
    boxes = {}
    for key, part in diagram.parts.items():
        column, row = part.place
        x = 4 + (column - 1) * (width + WIDE_GAP[0])
        y = 4 + (row - 1) * (height + WIDE_GAP[1])
        boxes[key] = Box(x, y, width, height)
    return boxes


def _narrow_boxes(diagram: Diagram) -> dict[str, Box]:
    boxes = {}
    y = 4.0
    for key, part in diagram.parts.items():
        texts = _texts(part, NARROW_WIDTH, _sources(diagram, key))
        height = LINE * len(texts) + NARROW_PADDING
        boxes[key] = Box(4, y, NARROW_WIDTH, height)
        y += height + NARROW_GAP
    return boxes


def _is_next(diagram: Diagram, edge: Edge) -> bool:
    """Whether an arrow leads to the part right below its start in a phone's column."""
    keys = list(diagram.parts)
    return keys.index(edge.end) == keys.index(edge.start) + 1


def _sources(diagram: Diagram, key: str) -> str:
    """Return from where a part of a phone's column reads, other than from the part above it."""
    names = []
    start = "from: "
    for edge in diagram.edges:
        if edge.end != key:
            continue
        if _is_next(diagram, edge):
            start = "also from: "
            continue
        word = f" ({edge.word})" if edge.word else ""
        names.append(diagram.parts[edge.start].name + word)
    return start + ", ".join(names) if names else ""


@dataclass(frozen=True)
class _Text:
    """A line of text in a part, with its CSS class."""

    css_class: str
    text: str


def _texts(part: Part, width: float, sources: str = "") -> list[_Text]:
    """Break what stands in a part into lines that fit its width."""
    texts = [_Text("rag-name", text) for text in _wrap(part.name, width, NAME_SIZE, NAME_CHARACTER)]
    for words, css_class in ((part.note, "rag-note"), (sources, "rag-note rag-from")):
        for text in _wrap(words, width, NOTE_SIZE, NOTE_CHARACTER):
            texts.append(_Text(css_class, text))
    return texts


@dataclass(frozen=True)
class _Drawing:
    """One SVG of a diagram.

    Attributes:
        diagram: What is drawn.
        boxes: Where each part is.
        prefix: What leads to the book's root.
        chapter: The notebook whose parts are stressed.
        is_column: Whether the parts stand in one column.
    """

    diagram: Diagram
    boxes: Mapping[str, Box]
    prefix: str
    chapter: str
    is_column: bool

    def svg(self) -> Markup:
        """Return the SVG."""
        right = max(box.x + box.width for box in self.boxes.values())
        width = right + 4
        height = self._bottom() + 4
        marker = f"rag-arrow-{self.diagram.paper}-{'narrow' if self.is_column else 'wide'}"
        head = Markup(
            '<defs><marker id="{}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
            'markerHeight="7" orient="auto-start-reverse">'
            '<path class="rag-head" d="M0 0 L8 4 L0 8 z"/></marker></defs>'
        ).format(marker)
        arrows = [self._arrow(edge, marker) for edge in self._edges()]
        parts = [self._part(part) for part in self.diagram.parts.values()]
        label = f"{self.diagram.title}. {self.diagram.alt}"
        return Markup(
            '<svg viewBox="0 0 {:.0f} {:.0f}" role="group" aria-label="{}" '
            'style="max-width:{:.0f}px">{}{}{}</svg>'
        ).format(width, height, label, width, head, Markup("").join(arrows), Markup("").join(parts))

    def shapes(self) -> Markup:
        """Return the boxes and lines alone, for a picture that is too small for words."""
        right = max(box.x + box.width for box in self.boxes.values())
        bottom = self._bottom()
        lines = []
        for edge in self.diagram.edges:
            path = self._wide_line(edge).path
            lines.append(Markup('<path class="rag-edge" d="{}"/>').format(path))
        rectangles = [_rectangle(part, self.boxes[part.key]) for part in self._parts()]
        return Markup('<svg viewBox="0 0 {:.0f} {:.0f}" aria-hidden="true">{}{}</svg>').format(
            right + 4, bottom + 4, Markup("").join(lines), Markup("").join(rectangles)
        )

    def _parts(self) -> Iterable[Part]:
        return self.diagram.parts.values()

    def _bottom(self) -> float:
        """Return where the lowest part or arrow ends."""
        bottom = max(box.y + box.height for box in self.boxes.values())
        if self.is_column:
            return bottom
        lanes = [_lane_height(edge.above) for edge in self.diagram.edges if edge.above]
        return max([bottom, *lanes])

    def _edges(self) -> list[Edge]:
        """Return the arrows that are drawn: on a phone, those to the part below."""
        if not self.is_column:
            return list(self.diagram.edges)
        return [edge for edge in self.diagram.edges if _is_next(self.diagram, edge)]

    def _arrow(self, edge: Edge, marker: str) -> Markup:
        if self.is_column:
            line = diagram_lines.down(self.boxes[edge.start], self.boxes[edge.end])
        else:
            line = self._wide_line(edge)
        arrow = Markup('<path class="rag-edge" d="{}" marker-end="url(#{})"/>').format(
            line.path, marker
        )
        if not edge.word or self.is_column:
            return arrow
        x, y = line.word_place
        word = Markup('<text class="rag-word" x="{:.0f}" y="{:.0f}">{}</text>').format(
            x, y, edge.word
        )
        return arrow + word

    def _wide_line(self, edge: Edge) -> Line:
        """Return the line of an arrow on a wide screen."""
        start, end = self.boxes[edge.start], self.boxes[edge.end]
        if edge.above is not None:
            height = _lane_height(edge.above)
            return diagram_lines.passing(start, edge.leave, end, edge.arrive, height)
        if edge.leave and edge.arrive:
            return diagram_lines.bent(start, edge.leave, end, edge.arrive)
        return diagram_lines.curve(start, end, goes_back=self._has_opposite(edge))

    def _has_opposite(self, edge: Edge) -> bool:
        """Whether another arrow joins the same parts the other way, and is named first."""
        opposite = [(other.start, other.end) for other in self.diagram.edges]
        position = opposite.index((edge.start, edge.end))
        return (edge.end, edge.start) in opposite[:position]

    def _part(self, part: Part) -> Markup:
        box = self.boxes[part.key]
        sources = _sources(self.diagram, part.key) if self.is_column else ""
        texts = _texts(part, box.width, sources)
        middle, _ = box.middle
        lines = []
        y = box.y + (box.height - LINE * len(texts)) / 2 + LINE - 3
        for text in texts:
            line = Markup('<text class="{}" x="{:.0f}" y="{:.1f}">{}</text>').format(
                text.css_class, middle, y, text.text
            )
            lines.append(line)
            y += LINE
        return Markup(
            '<a href="{}" class="rag-part rag-{}{}"><title>{}</title>'
            '<rect x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}" rx="8"/>{}</a>'
        ).format(
            _chapter_address(part, self.prefix),
            part.family,
            " rag-here" if part.chapter == self.chapter else "",
            f"{part.name}: {_as_sentence(part.note)} Chapter {part.chapter[:2]}, {part.code}",
            box.x,
            box.y,
            box.width,
            box.height,
            Markup("").join(lines),
        )


def _as_sentence(note: str) -> str:
    """End a note with a full stop, unless it is a question."""
    return note if note.endswith("?") else f"{note}."


def _rectangle(part: Part, box: Box) -> Markup:
    """Return a part without words."""
    return Markup(
        '<g class="rag-part rag-{}"><rect x="{:.0f}" y="{:.0f}" width="{:.0f}" height="{:.0f}" '
        'rx="8"/></g>'
    ).format(part.family, box.x, box.y, box.width, box.height)


def _wrap(text: str, width: float, size: float, character: float) -> list[str]:
    """Break a text into lines that fit a box."""
    characters = int((width - 2 * PADDING) / (size * character))
    return textwrap.wrap(text, characters)


def _lane_height(row: float) -> float:
    """Return the height of an arrow that runs above a row of the grid."""
    return 4 + (row - 1) * (WIDE_BOX[1] + WIDE_GAP[1]) - WIDE_GAP[1] / 2


def diagram_of(paper: str, prefix: str = "", chapter: str = "") -> str:
    """Return the diagram of a paper for a page, with its table of parts; "" if it has none.

    Args:
        paper: The paper's name.
        prefix: What leads from the page to the book's root.
        chapter: The notebook whose parts are stressed.
    """
    diagram = read_diagram(paper)
    if diagram is None:
        return ""
    return diagram_html(diagram, prefix, chapter) + parts_table(diagram, prefix)


def small_diagrams(papers: Mapping[str, str], prefix: str = "") -> str:
    """Return the shapes of several architectures in a row, each leading to its paper's page.

    Args:
        papers: Name of each method by its paper.
        prefix: What leads from the page to the book's root.
    """
    items = []
    for paper, method in papers.items():
        diagram = read_diagram(paper)
        if diagram is None:
            continue
        drawing = _Drawing(diagram, _wide_boxes(diagram), prefix, "", is_column=False)
        item = Markup('<a href="{}paper-{}.html">{}<span>{}</span></a>').format(
            prefix, paper, drawing.shapes(), method
        )
        items.append(item)
    return str(Markup('<div class="rag-shapes">{}</div>').format(Markup("").join(items)))
