"""The drawn architectures: each part leads to a chapter and to code that exist, and is legible."""

import importlib
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml

from evaluation.published import papers
from publish import diagrams
from resources.settings import NOTEBOOKS

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


@pytest.mark.parametrize("paper", PAPERS)
def test_every_part_but_the_answer_leads_somewhere(paper: str) -> None:
    diagram = read(paper)
    assert set(diagram.parts) - {edge.start for edge in diagram.edges} == {"answer"}


@pytest.mark.parametrize("paper", PAPERS)
def test_an_arrow_that_passes_other_parts_runs_through_none(paper: str) -> None:
    diagram = read(paper)
    svg = re.findall(r"<svg.*?</svg>", diagrams.diagram_of(paper))[0]
    boxes = []
    for link in ElementTree.fromstring(svg).iter("a"):
        rectangle = link.find("rect")
        assert rectangle is not None
        boxes.append([float(rectangle.attrib[key]) for key in ("x", "y", "width", "height")])
    lines = re.findall(r'd="M[\d.]+ [\d.]+ L([\d.]+) ([\d.]+) L([\d.]+) [\d.]+ L', svg)
    assert len(lines) == sum(edge.above is not None for edge in diagram.edges)
    for line in lines:
        x1, height, x2 = map(float, line)
        for x, y, box_width, box_height in boxes:
            is_level = y < height < y + box_height
            is_between = max(min(x1, x2), x) < min(max(x1, x2), x + box_width)
            assert not (is_level and is_between), (paper, line)


def test_arrows_beside_a_phones_column_do_not_lie_on_each_other() -> None:
    for paper in PAPERS:
        svg = re.findall(r"<svg.*?</svg>", diagrams.diagram_of(paper))[1]
        lines = re.findall(r"M[\d.]+ ([\d.]+) L([\d.]+) [\d.]+ L[\d.]+ ([\d.]+) L", svg)
        spans = []
        for y1, x, y2 in lines:
            low, high = sorted((float(y1), float(y2)))
            spans.append((x, low, high))
        for i, (x, low, high) in enumerate(spans):
            for other_x, other_low, other_high in spans[i + 1 :]:
                assert x != other_x or high < other_low or other_high < low, (paper, x)


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
    assert f'href="{address}"' in html
