"""The drawn architectures: each part leads to a chapter and to code that exist, and is legible."""

import importlib
import itertools
import re
from itertools import pairwise
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from matplotlib.font_manager import FontProperties
from matplotlib.textpath import TextPath

from evaluation.published import papers
from publish import diagrams
from resources.settings import NOTEBOOKS

Segment = tuple[tuple[float, float], tuple[float, float]]
PAPERS = sorted(path.stem for path in diagrams.DIAGRAMS.glob("*.yml"))


def read(paper: str) -> diagrams.Diagram:
    diagram = diagrams.read_diagram(paper)
    assert diagram is not None
    return diagram


def test_every_paper_with_a_system_has_a_diagram() -> None:
    assert set(PAPERS) == set(papers()) - {"across_papers"}


@pytest.mark.parametrize("paper", PAPERS)
def test_each_part_leads_to_a_chapter_and_to_code_that_exist(paper: str) -> None:
    for part in read(paper).parts.values():
        assert (NOTEBOOKS / f"{part.chapter}.ipynb").is_file(), part
        found: object = importlib.import_module(part.module)
        for name in part.code.removeprefix(part.module).split(".")[1:]:
            found = getattr(found, name)


@pytest.mark.parametrize("paper", PAPERS)
def test_a_reader_finds_each_part_in_its_file_at_its_line(paper: str) -> None:
    html = diagrams.diagram_of(paper)
    for part in read(paper).parts.values():
        if part.name_in_module:
            assert f"{part.source}:{part.line}<" in html
            lines = (diagrams.SOURCE.parent / part.source).read_text("utf-8").splitlines()
            name = part.code.rpartition(".")[2]
            assert re.search(rf"\b(class|def) {name}\b", lines[part.line - 1]), part


@pytest.mark.parametrize("paper", PAPERS)
def test_no_two_parts_overlap_and_each_text_stays_within_its_box(paper: str) -> None:
    html = diagrams.diagram_of(paper)
    for svg in re.findall(r"<svg.*?</svg>", html):
        rectangles = []
        for link in ElementTree.fromstring(svg).iter("a"):
            rectangle = link.find("rect")
            assert rectangle is not None
            box = {key: float(rectangle.attrib[key]) for key in ("x", "y", "width", "height")}
            for text in link.findall("text"):
                assert box["y"] + 8 <= float(text.attrib["y"]) <= box["y"] + box["height"] - 2
            rectangles.append(box)
        for i, first in enumerate(rectangles):
            for second in rectangles[i + 1 :]:
                apart_x = abs(first["x"] - second["x"]) >= first["width"]
                apart_y = abs(first["y"] - second["y"]) >= first["height"]
                assert apart_x or apart_y, (first, second)


def test_the_scorer_of_biomedrag_is_drawn_as_the_paper_names_it_and_leads_to_the_scorer() -> None:
    parts = read("biomedrag").parts
    assert parts["scorer"].name == "Tailored chunk scorer"
    assert parts["scorer"].source.endswith("scorer.py")
    assert parts["candidates"].name == "Chunk retriever"
    assert parts["candidates"].name_in_module == "Memory.retrieve"


@pytest.mark.parametrize("paper", PAPERS)
def test_every_part_but_the_answer_leads_somewhere(paper: str) -> None:
    diagram = read(paper)
    assert set(diagram.parts) - {edge.start for edge in diagram.edges} == {"answer"}


def wide_lines(paper: str) -> list[tuple[diagrams.Edge, list[tuple[float, float]]]]:
    """Points along each arrow of a wide screen's drawing."""
    svg = re.findall(r"<svg.*?</svg>", diagrams.diagram_of(paper))[0]
    edges = read(paper).edges
    paths = re.findall(r'class="rag-edge" d="([^"]+)"', svg)
    assert len(paths) == len(edges)
    lines = []
    for edge, path in zip(edges, paths, strict=True):
        numbers = [float(number) for number in re.findall(r"-?[\d.]+", path)]
        corners = list(zip(numbers[::2], numbers[1::2], strict=True))
        if "C" in path:
            corners = [bezier(corners, step / 40) for step in range(41)]
        lines.append((edge, corners))
    return lines


def bezier(points: list[tuple[float, float]], t: float) -> tuple[float, float]:
    while len(points) > 1:
        points = [
            (x1 + t * (x2 - x1), y1 + t * (y2 - y1)) for (x1, y1), (x2, y2) in pairwise(points)
        ]
    return points[0]


def side_of(point: tuple[float, float], line: Segment) -> float:
    (x1, y1), (x2, y2) = line
    return (x2 - x1) * (point[1] - y1) - (y2 - y1) * (point[0] - x1)


def meet(first: Segment, second: Segment) -> bool:
    """Whether two straight lines cross or lie on each other."""
    for axis in (0, 1):
        low, high = sorted(point[axis] for point in first)
        other_low, other_high = sorted(point[axis] for point in second)
        if high < other_low or other_high < low:
            return False
    apart = side_of(second[0], first) * side_of(second[1], first) > 0
    return not apart and side_of(first[0], second) * side_of(first[1], second) <= 0


@pytest.mark.parametrize("paper", PAPERS)
def test_no_arrow_runs_through_a_part(paper: str) -> None:
    svg = re.findall(r"<svg.*?</svg>", diagrams.diagram_of(paper))[0]
    boxes = []
    for link in ElementTree.fromstring(svg).iter("a"):
        rectangle = link.find("rect")
        assert rectangle is not None
        boxes.append([float(rectangle.attrib[key]) for key in ("x", "y", "width", "height")])
    for edge, line in wide_lines(paper):
        for segment in pairwise(line):
            points = [bezier(list(segment), step / 60) for step in range(61)]
            for (x, y), (left, top, width, height) in itertools.product(points, boxes):
                is_inside = left + 1 < x < left + width - 1 and top + 1 < y < top + height - 1
                assert not is_inside, (paper, edge, (x, y))


@pytest.mark.parametrize("paper", PAPERS)
def test_arrows_cross_only_where_no_drawing_can_do_without(paper: str) -> None:
    lines = wide_lines(paper)
    crossed = []
    for (first, line), (second, other) in itertools.combinations(lines, 2):
        if {first.start, first.end} & {second.start, second.end}:
            continue  # they may meet at the part
        if any(meet(*pair) for pair in itertools.product(pairwise(line), pairwise(other))):
            crossed.append((first.start, first.end, second.start, second.end))
    unavoidable = {"side_effects": [("question", "answer", "entities", "cypher")]}
    assert crossed == unavoidable.get(paper, [])


@pytest.mark.parametrize("paper", PAPERS)
def test_a_phone_says_in_words_what_no_arrow_shows(paper: str) -> None:
    diagram = read(paper)
    svg = ElementTree.fromstring(re.findall(r"<svg.*?</svg>", diagrams.diagram_of(paper))[1])
    arrows = [path for path in svg.iter("path") if path.get("class") == "rag-edge"]
    texts = {}
    for key, link in zip(diagram.parts, svg.iter("a"), strict=True):
        texts[key] = " ".join(text.text or "" for text in link.findall("text"))
    keys = list(diagram.parts)
    n_adjacent = 0
    for edge in diagram.edges:
        if keys.index(edge.end) == keys.index(edge.start) + 1:
            n_adjacent += 1
            continue
        sources = texts[edge.end].partition("from: ")[2]
        assert diagram.parts[edge.start].name in sources
        assert edge.word in sources
    assert len(arrows) == n_adjacent


@pytest.mark.parametrize("paper", PAPERS)
def test_each_name_leaves_room_in_its_box_in_a_wide_font_too(paper: str) -> None:
    for svg in re.findall(r"<svg.*?</svg>", diagrams.diagram_of(paper)):
        for link in ElementTree.fromstring(svg).iter("a"):
            rectangle = link.find("rect")
            assert rectangle is not None
            for text in link.findall("text"):
                is_name = text.get("class") == "rag-name"
                font = FontProperties(family="DejaVu Sans", weight="bold" if is_name else "normal")
                size = diagrams.NAME_SIZE if is_name else diagrams.NOTE_SIZE
                width = TextPath((0, 0), text.text or "", size=size, prop=font).get_extents().width
                assert width + 8 <= float(rectangle.attrib["width"]), text.text


def test_the_parts_of_the_chapter_are_stressed_and_links_lead_from_its_folder() -> None:
    html = diagrams.diagram_of("biomedrag", "../", "07_biomedrag_triples")
    assert html.count("rag-here") >= 2 * len(read("biomedrag").parts)
    assert 'href="../notebooks/07_biomedrag_triples.html"' in html
    assert "rag-here" not in diagrams.diagram_of("biomedrag")


def test_a_word_of_the_file_cannot_become_markup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = yaml.safe_load((diagrams.DIAGRAMS / "qa_rag.yml").read_text())
    content["parts"]["answer"]["note"] = "</text><script>alert(1)</script>"
    (tmp_path / "qa_rag.yml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(diagrams, "DIAGRAMS", tmp_path)
    assert "<script" not in diagrams.diagram_of("qa_rag")


def test_an_arrow_to_nowhere_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = yaml.safe_load((diagrams.DIAGRAMS / "qa_rag.yml").read_text())
    content["edges"].append(["answer", "nowhere"])
    (tmp_path / "qa_rag.yml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(diagrams, "DIAGRAMS", tmp_path)
    with pytest.raises(diagrams.DiagramError, match="nowhere"):
        diagrams.read_diagram("qa_rag")


def test_an_arrow_that_leaves_at_no_side_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = yaml.safe_load((diagrams.DIAGRAMS / "qa_rag.yml").read_text())
    content["edges"].append(["tuned", "answer", {"leave": "front", "arrive": "left"}])
    (tmp_path / "qa_rag.yml").write_text(yaml.safe_dump(content))
    monkeypatch.setattr(diagrams, "DIAGRAMS", tmp_path)
    with pytest.raises(diagrams.DiagramError, match="left, right, top, bottom, not 'front'"):
        diagrams.read_diagram("qa_rag")


def test_a_paper_without_a_file_has_no_diagram() -> None:
    assert diagrams.diagram_of("across_papers") == ""


def test_the_small_shapes_lead_to_the_papers_pages_and_hold_no_link_within_a_link() -> None:
    html = diagrams.small_diagrams({"qa_rag": "QA <RAG>", "across_papers": "none"}, "../")
    assert html.count("<a ") == 1
    assert 'href="../paper-qa_rag.html"' in html
    assert "QA &lt;RAG&gt;" in html


def test_where_the_repository_is_known_each_part_leads_to_its_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REPOSITORY_URL", "https://github.com/owner/name")
    html = diagrams.diagram_of("biomedrag")
    address = "https://github.com/owner/name/blob/main/src/papers/biomedrag/corpora.py"
    line = read("biomedrag").parts["labelled"].line
    assert f'href="{address}#L{line}"' in html
