"""Numbers of figures and tables, tables as CSV, and the gallery."""

import copy
import csv
import io
import zipfile
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd

from evaluation import figures
from publish import chapter_extras, staged_notebooks


def cell(*outputs: figures.Html) -> dict[str, Any]:
    shown = [{"output_type": "display_data", "data": {"text/html": o.html}} for o in outputs]
    return {"cell_type": "code", "outputs": shown}


def a_table(caption: str) -> figures.Html:
    rows = pd.DataFrame({"Arm": ["a <b>", "c, d"], "F1": [0.5, 0.25]})
    return figures.table(rows, caption)


def a_figure(caption: str) -> figures.Picture:
    fig, axes = plt.subplots()
    axes.plot([1, 2])
    return figures.figure(fig, alt="a line", caption=caption)


def test_figures_and_tables_are_counted_apart_in_the_order_of_the_page() -> None:
    cells = [
        cell(a_table("First & foremost")),
        {"cell_type": "markdown", "source": "text"},
        cell(a_figure("A line"), a_table("Second")),
    ]
    exhibits = chapter_extras.number_exhibits(cells, "12")
    assert [(e.kind, e.number, e.caption) for e in exhibits] == [
        ("Table", "12.1", "First & foremost"),
        ("Figure", "12.1", "A line"),
        ("Table", "12.2", "Second"),
    ]
    html = cells[2]["outputs"][1]["data"]["text/html"]
    assert '<caption><span class="rag-label" id="table-12-2">Table 12.2</span> Second' in html


def test_a_figure_for_two_widths_has_one_number_and_one_target() -> None:
    wide, narrow = a_figure("Shares").html, a_figure("Shares").html
    both = figures.Html(f"<div>{wide}</div><div>{narrow}</div>", "")
    cells = [cell(both)]
    assert len(chapter_extras.number_exhibits(cells, "3")) == 1
    html = cells[0]["outputs"][0]["data"]["text/html"]
    assert html.count("Figure 3.1") == 2
    assert html.count('id="figure-3-1"') == 1


def test_tables_come_back_from_the_archive_as_they_were_shown() -> None:
    exhibits = chapter_extras.number_exhibits([cell(a_table("Scores"))], "7")
    content = chapter_extras.tables_archive(exhibits)
    assert content == chapter_extras.tables_archive(exhibits), "the same bytes each time"
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        text = archive.read("table-7-1.csv").decode("utf-8-sig")
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[0] == ["Arm", "F1"]
    assert [row[0] for row in rows[1:]] == ["a <b>", "c, d"]


def test_a_chapter_without_tables_has_no_archive() -> None:
    assert chapter_extras.tables_archive([]) == b""


def test_the_gallery_leads_to_each_figure_and_escapes_its_title() -> None:
    [exhibit] = chapter_extras.number_exhibits([cell(a_figure("A line"))], "5")
    html = chapter_extras.gallery([("05_x", "Drugs <in> text", exhibit, "figure-5-1.svg")])
    assert 'href="notebooks/05_x.html#figure-5-1"' in html
    assert "<in>" not in html


def test_a_button_says_which_figures_its_code_makes_or_else_its_section() -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "source": "## The data\n\ntext", "metadata": {}},
        cell() | {"metadata": {}},
        cell(a_figure("A line"), a_table("Scores")) | {"metadata": {"tags": ["hide-input"]}},
    ]
    chapter_extras.number_exhibits(cells, "4")
    chapter_extras.label_code(cells)
    shown = [c["metadata"]["mystnb"]["code_prompt_show"] for c in cells[1:]]
    assert shown == ["Show the code for: The data", "Show the code of Figure 4.1 and Table 4.1"]
    assert cells[2]["metadata"]["tags"] == ["hide-input"]


def code(source: str, *tags: str) -> dict[str, Any]:
    return {"cell_type": "code", "source": source, "metadata": {"tags": ["hide-input", *tags]}}


def test_the_code_in_which_the_arms_answer_is_open_once() -> None:
    cells = [code("a = 1"), code("rows = run.answer(arms, asked)"), code("run.answer(more)")]
    chapter_extras.open_core(cells)
    assert [c["metadata"]["tags"] for c in cells] == [["hide-input"], [], ["hide-input"]]


def test_a_cell_that_is_tagged_as_the_core_is_open_in_place_of_it() -> None:
    cells = [code("rank()", "core"), code("rows = run.answer(arms, asked)")]
    chapter_extras.open_core(cells)
    assert [c["metadata"]["tags"] for c in cells] == [["core"], ["hide-input"]]


def test_several_lists_of_claims_in_a_cell_are_referred_to_once() -> None:
    claims = {"output_type": "display_data", "data": {"text/html": f"{staged_notebooks.CLAIMS}'>"}}
    table = {"output_type": "display_data", "data": {"text/html": "<table></table>"}}
    outputs = [claims, table, copy.deepcopy(claims)]
    cell: dict[str, Any] = {"metadata": {}, "outputs": outputs}
    notebook = staged_notebooks.StagedNotebook(Path("a.ipynb"))
    notebook._stage_code(cell, 1, has_claims=True)
    shown = [output["data"]["text/html"] for output in cell["outputs"]]
    assert len(shown) == 2
    assert "list of claims" in shown[0]
    assert shown[1] == "<table></table>"
