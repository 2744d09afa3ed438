"""The book as a reader meets it: it builds with any run or none, fails on faults, and works in a browser."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from browsing import Theme, empty_page, faults, served, visit, watching
from hypothesis import given, strategies as st
from playwright.sync_api import Browser
from pypdf import PdfReader

from evaluation import answers, figures, published, record, verdicts
from evaluation.answers import Answer, Item
from evaluation.metrics import Score, proportion
from evaluation.outcomes import Outcomes
from evaluation.records import Finding, load
from helpers.llm import Usage
from helpers.requests import Row, plain, request_key, write as write_requests
from publish import book, pictures, pieces, scoreboard, site_check, staged_notebooks, viewer
from publish.chapters import Chapter
from publish.pages import Pages
from resources.datasets import Located
from resources.settings import NOTEBOOKS, RESULTS

REPOSITORY = Path(__file__).resolve().parents[1]
CHAPTER = "01_side_effects_forward"
BOARD = "scoreboard-side_effects"
MODEL = "Stand-in-1B"
PAGES = [
    "index",
    "findings",
    "audit",
    "how-to-read",
    "scoreboard",
    BOARD,
    "answers",
    "gallery",
    "launch",
    "paper-side_effects",
    "paper-biomedrag",
    f"notebooks/{CHAPTER}",
    f"notebooks/{CHAPTER}_sample",
    "provenance",
    "your-own",
    "own-model",
    "own-table",
    "own-paper",
    "helpers",
    "scale",
    "bibliography",
    "samples",
]
ARMS = {
    "closed_book": (262, 12_278),
    "format_a": (351, 16_924),
    "format_b": (387, 18_844),
    "graphrag": (399, 19_520),
}
"""Right answers in the fixture's rerun (of 400) and in what it rescored (of 19,520)."""


# -- a project with runs ----------------------------------------------------------------------------------------------


def cell(kind: str, source: str, **more: Any) -> dict[str, Any]:
    code: dict[str, Any] = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": source} | code | more


def shown(html: figures.Html) -> list[dict[str, Any]]:
    data = {"text/html": html.html, "text/plain": repr(html)}
    return [{"output_type": "execute_result", "execution_count": 1, "metadata": {}, "data": data}]


def notebook(
    *, sample: bool = False, source: bool = False, title: str = "Forward questions"
) -> dict[str, Any]:
    """A small notebook; as it ran, or its source without outputs."""
    figures.use_style()
    frame = pd.DataFrame({"label": ["GraphRAG"], "colour": ["#079c6b"], "printed": [1.0]})
    for name in ("rescored", "rerun"):
        frame[[name, f"{name}_low", f"{name}_high"]] = [0.9, 0.8, 0.95]
    table = figures.table(
        pd.DataFrame({"Accuracy": [proportion(399, 400)]}), "By arm", sample=sample
    )
    told = {"claim": "One text a pair is found more often than one a drug. " * 2}
    told |= {"verdict": "agrees", "because": "399 of 400 are right. " * 4}
    sentences = figures.table(pd.DataFrame([told]), "Verdicts", sample=sample)
    claim = published.published("side_effects").claim("side_effects.claim.pairs_beat_lists")
    found = Finding(id=claim.id, verdict="agrees", test="x", why="36 of 400 answers more.")
    listed = verdicts.findings([claim], [found], sample=sample)
    picture = figures.figure(
        pictures.scoreboard_picture(frame), alt="GraphRAG is best.", sample=sample
    )
    prompt = figures.prompt_box(
        [{"role": "user", "content": "Is <b>rash</b> an effect?\n\nAnswer YES or NO."}]
    )
    words = {"text/markdown": "GraphRAG is best.", "text/plain": ""}
    answer = [{"output_type": "display_data", "metadata": {}, "data": words}]
    cells = [
        cell(
            "markdown",
            f"# {title}\n\n(target)=\nThe paper {{cite}}`nygren2025side` asks a question.",
        ),
        cell("code", "pairs = 400", metadata={"tags": ["parameters"]}),
        cell(
            "code",
            "open_()",
            metadata={"tags": ["opening"]},
            outputs=[*answer, *shown(table)],
        ),
        *(
            cell("code", f"{html.text.split()[0]}()", outputs=shown(html))
            for html in (table, sentences, listed, picture, prompt)
        ),
    ]
    for each in cells if source else ():
        each.update({"outputs": []} if each["cell_type"] == "code" else {})
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 4, "metadata": {"kernelspec": kernel}, "cells": cells}


def write(path: Path, content: dict[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def answered() -> tuple[list[Answer], list[Row]]:
    """Three arms on sixty questions; closed book is wrong on the odd ones. Texts are as hostile as they may be."""
    rows, requests = [], []
    for i in range(60):
        prompt = [{"role": "user", "content": f"Is <b>rash {i}</b> an effect?"}]
        key = request_key("chat", "w", {}, prompt)
        requests.append(
            Row(
                key,
                "chat",
                "w",
                plain({}),
                plain(prompt),
                plain({"text": "YES"}),
                9,
                1,
                0.1,
                "e",
                "now",
            )
        )
        for arm, right in (("closed_book", i % 2 == 0), ("graphrag", True), ("lookup", True)):
            rows.append(
                Answer(
                    arm=arm,
                    unit=f"drug | effect {i}",
                    cluster="drug",
                    run="laptop",
                    model=MODEL if arm != "lookup" else "",
                    question=f"Is rash {i} </script><script>alert(1)</script> an effect?",
                    answer="YES" if right else "<img src=x onerror=alert(1)>",
                    predicted="YES" if right else "NO",
                    gold="YES",
                    measures={"accuracy": (float(right), 1.0)},
                    items=[Item(id="1", label="<b>a sentence</b>", rank=1)],
                    requests=[key] if arm != "lookup" else [],
                )
            )
    return rows, requests


def save_record(path: Path, profile: str, *, sample: bool, right: int = 0) -> Path:
    """A record made by the API of the notebooks; `right` further answers are right in every arm but GraphRAG."""
    sizes: dict[str, Any] = {"pairs": 400, "second_model": ""}
    run = record.start(notebook=CHAPTER, paper="side_effects", profile=profile, parameters=sizes)  # type: ignore[arg-type]
    run.data(
        Located("side_effects/evaluation_dataset.csv", Path("x"), sample, "a" * 64, "DATA_MIRROR")
    )
    run.model(MODEL, "b" * 64, engine="vLLM", version="0.0", role="answers the questions")
    run.count_requests(
        Usage(requests=1600, prompt_tokens=160_000, generated_tokens=3_200, seconds=12.5)
    )
    for arm, (again, released) in ARMS.items():
        for table in ("table1", "table2"):
            run.rescored(f"side_effects.{table}.{arm}.accuracy", proportion(released, 19_520))
        more = right if arm != "graphrag" else 0
        run.rerun(
            f"side_effects.table1.{arm}.accuracy",
            proportion(again + more, 400, unparsed=1),
            model=MODEL,
        )
        run.rerun(f"side_effects.table1.{arm}.f1", Score(0.5, 400, 0.4, 0.6), model=MODEL)
        run.not_run(f"side_effects.table2.{arm}.accuracy", "one model is served here")
    run.claim("side_effects.claim.pairs_beat_lists", "agrees", "36 of 400 answers more", p=0.00001)
    return run.save(path)


AS_MEDRERUN_DOES = f"""
import runpy, sys
sys.path.insert(0, {str(REPOSITORY / "src")!r})
runpy.run_module("publish.book", run_name="__main__", alter_sys=True)
"""
"""Runs the builder as `medrerun` does, without PYTHONPATH."""


@dataclass
class Project:
    """A project folder of its own: the book's sources, and whatever runs a test puts beside them."""

    root: Path
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def site(self) -> Path:
        return self.root / "_build" / "html"

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR") if name in os.environ}
        environment = kept | {"MEDRAG_ROOT": str(self.root)} | self.settings
        command = [sys.executable, "-c", AS_MEDRERUN_DOES, *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )

    def build(self) -> str:
        """Build; returns what it said, and fails the test if the build failed."""
        done = self.command("build")
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def refused(self) -> str:
        """Build, which must fail; returns the error."""
        done = self.command("build")
        assert done.returncode == 1, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done.stderr

    def text(self, page: str) -> str:
        return (self.site / f"{page}.html").read_text(encoding="utf-8")

    def run(self, profile: str, *, sample: bool, right: int = 0) -> None:
        """Leave what a run of this machine leaves."""
        build = self.root / "_build"
        write(build / "executed" / profile / f"{CHAPTER}.ipynb", notebook(sample=sample))
        save_record(
            build / "records" / profile / f"{CHAPTER}.json", profile, sample=sample, right=right
        )

    def keep_reference(self) -> None:
        write(self.root / "book" / "reference" / f"{CHAPTER}.ipynb", notebook())
        save_record(
            self.root / "data" / "results" / "laptop" / f"{CHAPTER}.json", "laptop", sample=False
        )
        rows, requests = answered()
        answers.write(
            self.root / "data" / "answers" / CHAPTER, Outcomes(rows).frame, licence="CC0-1.0"
        )
        write_requests(self.root / "data" / "requests" / CHAPTER / "chat.parquet", requests)


def new_project(root: Path) -> Project:
    shutil.copytree(
        REPOSITORY / "book",
        root / "book",
        ignore=shutil.ignore_patterns("reference", "__pycache__"),
    )
    shutil.copytree(REPOSITORY / "data" / "published", root / "data" / "published")
    for path in (REPOSITORY / "data").glob("*.yml"):
        shutil.copy(path, root / "data")
    for name in ("profiles", "template"):
        shutil.copytree(REPOSITORY / "notebooks" / name, root / "notebooks" / name)
    for name in ("_config.yml", "slurm.sh"):
        shutil.copy(REPOSITORY / name, root)
    contents = yaml.safe_load((root / "book" / "_toc.yml").read_text(encoding="utf-8"))
    source = notebook(source=True)
    for page in (page for part in contents["parts"] for page in part["chapters"]):
        if page["file"].startswith("notebooks/"):
            write(root / f"{page['file']}.ipynb", source)
    return Project(root)


@pytest.fixture(scope="session")
def project(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Project:
    """A built book with a reference run and a run on the sample, on GitHub; one for all workers."""
    folder = tmp_path_factory.getbasetemp()
    if worker_id != "master":
        folder = folder.parent
    project = Project(folder / "book", {"REPOSITORY_URL": "https://github.com/owner/name"})
    built = folder / "book-is-built"
    with (folder / "book.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not built.exists():
            new_project(project.root)
            project.keep_reference()
            project.run("smoke", sample=True)
            project.build()
            built.touch()
    return project


@pytest.fixture
def empty(tmp_path: Path) -> Project:
    """A project that has never run anything."""
    return new_project(tmp_path / "project")


# -- without a build --------------------------------------------------------------------------------------------------


def printed_numbers(paper: str) -> dict[str, published.Number]:
    """Every printed number of a paper, by its id."""
    return {number.id: number for number in published.published(paper).numbers}


def test_the_configuration_of_this_repository_is_known() -> None:
    book.check_config(REPOSITORY / "_config.yml")


@pytest.mark.parametrize(
    "line", ["titel: A book", "html: {favicn: x}", "execute: {execute_notebook: off}"]
)
def test_an_unknown_key_of_the_configuration_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "_config.yml"
    path.write_text(line, encoding="utf-8")
    word = re.findall(r"titel|favicn|execute_notebook\b", line)[-1]
    with pytest.raises(book.PageError, match=word):
        book.check_config(path)


def test_a_built_site_is_searched_for_what_a_reader_would_trip_over(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="here"><a href="b.html#there">x</a><a href="#here">y</a>', encoding="utf-8"
    )
    (tmp_path / "b.html").write_text(
        '<a href="c.html">x</a><img src="https://example.org/x.png"><script src="//cdn.example.org/x.js"></script>'
        '<a href="https://example.org">fine</a><a href="a.html#nowhere">x</a>',
        encoding="utf-8",
    )
    assert sorted(site_check.check_site(tmp_path)) == [
        "a.html: b.html#there names a place that its page does not have",
        "b.html: 1 images have no alternative text",
        "b.html: a.html#nowhere names a place that its page does not have",
        "b.html: asks another site for //cdn.example.org/x.js",
        "b.html: asks another site for https://example.org/x.png",
        "b.html: c.html leads nowhere",
    ]


# -- builds -----------------------------------------------------------------------------------------------------------


@pytest.mark.book
@pytest.mark.slow
def test_a_project_where_no_run_went_well_has_a_book_that_says_so(empty: Project) -> None:
    broken = notebook()
    broken["cells"][2]["outputs"] = [
        {"output_type": "error", "ename": "OSError", "evalue": "full", "traceback": []}
    ]
    write(empty.root / "_build" / "failed" / "laptop" / f"{CHAPTER}.ipynb", broken)
    empty.build()
    assert "last run failed: OSError: full" in empty.text("provenance")
    assert "None of them has been tested here yet" in empty.text("index")
    assert "Not run yet" in empty.text(f"notebooks/{CHAPTER}")
    board = empty.text(BOARD)
    assert f"{len(printed_numbers('side_effects'))} in all" in board
    assert "data-verdict=agrees" not in board.replace('"', "")
    assert not (empty.site / f"notebooks/{CHAPTER}_sample.html").exists()
    assert "github.com/owner" not in board, "no repository, no buttons"
    assert (empty.site / "scoreboard.json").exists()


@pytest.mark.book
@pytest.mark.slow
def test_your_own_run_takes_the_references_place(empty: Project) -> None:
    empty.keep_reference()
    empty.run("laptop", sample=False, right=10)
    empty.build()
    chapter = empty.text(f"notebooks/{CHAPTER}")
    assert "Run on the machine that built this book" in chapter
    assert "Reference results" not in chapter
    closed = f"{(ARMS['closed_book'][0] + 10) / 4:.2f} %"
    assert closed in empty.text("paper-side_effects")
    assert closed in empty.text(BOARD)


@pytest.mark.book
def test_a_run_on_the_sample_never_stands_in_the_place_of_a_chapter(empty: Project) -> None:
    empty.run("laptop", sample=True)
    empty.build()
    assert "Not run yet" in empty.text(f"notebooks/{CHAPTER}")
    assert "SAMPLE run" in empty.text(f"notebooks/{CHAPTER}_sample")
    board, landing = empty.text(BOARD), empty.text("index")
    for right, _ in ARMS.values():
        assert f">{right / 4:.2f} %<" not in board + landing


@pytest.mark.book
def test_a_broken_link_fails_the_build_and_the_last_book_stays(empty: Project) -> None:
    page = empty.root / "book" / "how-to-read.md"
    with page.open("a", encoding="utf-8") as file:
        file.write("\n[A page that is not there](nowhere.md)\n")
    empty.site.mkdir(parents=True)
    (empty.site / "index.html").write_text("the last book", encoding="utf-8")
    error = empty.refused()
    assert "how-to-read.md" in error
    assert "nowhere.md" in error
    assert empty.text("index") == "the last book"


@pytest.mark.book
def test_a_notebook_with_an_error_fails_the_build(empty: Project) -> None:
    empty.keep_reference()
    broken = notebook()
    broken["cells"][2]["outputs"] = [
        {"output_type": "error", "ename": "ValueError", "evalue": "no", "traceback": []}
    ]
    write(empty.root / "book" / "reference" / f"{CHAPTER}.ipynb", broken)
    error = empty.refused()
    assert f"book/reference/{CHAPTER}.ipynb: cell 3 ended in ValueError: no" in error


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            repr("60 'patients' & 975 <notes>"),
            "<p>60 &#39;patients&#39; &amp; 975 &lt;notes&gt;</p>",
        ),
        ("12", None),
    ],
)
def test_a_sentence_that_a_cell_ends_with_is_shown_without_pythons_quotes(
    tmp_path: Path, text: str, shown: str | None
) -> None:
    made = notebook()
    made["cells"][2]["outputs"] = [
        {"output_type": "execute_result", "metadata": {}, "data": {"text/plain": [text]}}
    ]
    staged = staged_notebooks.StagedNotebook(write(tmp_path / "a.ipynb", made)).page("a").content
    data = [
        output["data"] for cell in json.loads(staged)["cells"] for output in cell.get("outputs", ())
    ]
    assert ({"text/html": shown} if shown else {"text/plain": [text]}) in data


def test_the_answer_stands_above_the_figure_and_its_details_below(tmp_path: Path) -> None:
    def display(kind: str, text: str) -> dict[str, Any]:
        return {"output_type": "display_data", "metadata": {}, "data": {kind: text}}

    tags = {"tags": ["opening"]}
    answer = display("text/markdown", "It is right.\n\nOf 60 answers, 2 are wrong.")
    figure = display("text/html", "<figure>drawn</figure>")
    cells = [
        cell("markdown", "# A chapter\n\nWhat it asks."),
        cell("code", "open_()", metadata=tags, outputs=[answer]),
        cell("code", "draw()", metadata=tags, outputs=[figure]),
    ]
    path = write(tmp_path / "a.ipynb", {"nbformat": 4, "metadata": {}, "cells": cells})
    page = staged_notebooks.StagedNotebook(path).page("a").content
    texts = ("It is right.", "drawn", "Of 60 answers, 2 are wrong.", "What it asks.")
    positions = [page.index(text) for text in texts]
    assert positions == sorted(positions)


def test_code_that_shows_nothing_shares_a_box_with_the_code_after_it() -> None:
    def code(source: str, *outputs: str, tags: tuple[str, ...] = ()) -> dict[str, Any]:
        return {
            "cell_type": "code",
            "source": source,
            "outputs": list(outputs),
            "metadata": {"tags": tags},
        }

    text: dict[str, Any] = {"cell_type": "markdown", "source": "text", "metadata": {}}
    hidden = code("hidden", tags=("remove-cell",))
    cells = [
        code("a"),
        hidden,
        code("b"),
        code("c", "shown"),
        code("d"),
        text,
        code("e"),
        code("f"),
        hidden,
    ]
    joined = list(staged_notebooks.join_cells(cells))
    assert [cell["source"] for cell in joined] == ["a\n\nb\n\nc", "d", "text", "e\n\nf"]
    assert joined[0]["outputs"] == ["shown"]


@pytest.mark.book
def test_an_unknown_key_in_the_configuration_fails_the_build(empty: Project) -> None:
    with (empty.root / "_config.yml").open("a", encoding="utf-8") as file:
        file.write("\nexecut: {}\n")
    assert "_config.yml has unknown keys: execut." in empty.refused()


@pytest.mark.book
def test_a_misspelt_id_in_a_page_is_an_error_that_names_the_page_and_the_nearest_id(
    empty: Project,
) -> None:
    with (empty.root / "book" / "index.md").open("a", encoding="utf-8") as file:
        file.write('\n{{ n_questions("side_effects.table1.graphrag.acuracy") }}\n')
    error = empty.refused()
    assert "book/index.md" in error
    assert "side_effects.table1.graphrag.accuracy" in error


@pytest.mark.book
def test_a_notebook_without_a_place_in_the_contents_is_an_error(empty: Project) -> None:
    write(empty.root / "notebooks" / "99_new.ipynb", notebook(source=True))
    assert "notebooks/99_new" in empty.refused()


@pytest.mark.book
@pytest.mark.slow
def test_the_same_runs_give_the_same_book(project: Project) -> None:
    before = {path: path.read_bytes() for path in project.site.rglob("*.html")}
    project.build()
    assert before == {path: path.read_bytes() for path in project.site.rglob("*.html")}


@pytest.mark.book
def test_the_picture_for_the_readme_is_made_of_the_same_numbers(
    project: Project, tmp_path: Path
) -> None:
    assert project.command("picture", str(tmp_path / "a.svg")).returncode == 0
    text = (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert f"rerun {ARMS['format_b'][0] / 4:.2f} %" in text


@pytest.mark.book
def test_the_buttons_lead_to_the_notebook_that_a_reader_can_run(project: Project) -> None:
    for page in (f"notebooks/{CHAPTER}", f"notebooks/{CHAPTER}_sample"):
        links = re.findall(r'href="(https://(?:mybinder|colab|github)[^"]+)"', project.text(page))
        opened = [link for link in links if link.endswith(".ipynb")]
        assert len(opened) >= 3, "Binder, Colab, edit"
        assert all(re.search(rf"(?<!book)/notebooks/{CHAPTER}\.ipynb$", link) for link in opened), (
            opened
        )
    assert "https://github.com/owner/name/edit/main/book/index.md" in project.text("index")


# -- in a browser -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def address(project: Project) -> Iterator[str]:
    """The book served on this machine."""
    with served(project.site) as address:
        yield address


@pytest.mark.book
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_every_page_is_whole_and_keeps_to_itself(
    browser: Browser, address: str, theme: Theme, width: int
) -> None:
    pages = [f"{name}.html" for name in [*PAGES, "search", "genindex"]]
    assert not faults(browser, address, pages, width=width, theme=theme)


@pytest.mark.book
@pytest.mark.parametrize("width", [390, 1024, 1300, 1800])
def test_the_contents_of_a_long_page_are_at_hand_at_every_width(
    browser: Browser, address: str, width: int
) -> None:
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.goto(f"{address}/how-to-read.html")
    if width < 1200:
        page.locator(".secondary-toggle").click()
    elif width <= 1500:
        page.locator(".rag-contents summary").click()
    links = page.get_by_role("link", name="Glossary")
    assert [link for link in links.all() if link.is_visible()]
    page.close()


@pytest.mark.book
def test_a_term_is_explained_where_it_is_first_used(browser: Browser, address: str) -> None:
    page = empty_page(browser)
    page.goto(f"{address}/index.html")
    term = page.locator(".rag-term").first
    assert len(term.get_attribute("data-meaning") or "") > 20
    term.focus()
    shown = "(element) => getComputedStyle(element, '::after').content"
    # a style's text has a backslash before each quotation mark
    text = str(term.evaluate(shown)).strip('"').replace('\\"', '"')
    assert text == term.get_attribute("data-meaning")
    page.close()


@pytest.mark.book
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_text_can_be_read_in_both_themes(browser: Browser, address: str, theme: Theme) -> None:
    contrasts = """(selector) => {
        const parse = (text) => (text.match(/[\\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
        const light = ([r, g, b]) => [r, g, b]
            .map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
            .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
        const contrast = (element) => {
            let ground = element, colour;
            do { colour = parse(getComputedStyle(ground).backgroundColor); ground = ground.parentElement; }
            while (ground && colour[3] === 0);
            const [a, b] = [light(parse(getComputedStyle(element).color)), light(colour)].sort((x, y) => y - x);
            return (a + 0.05) / (b + 0.05);
        };
        return [...document.querySelectorAll(`.bd-article :is(${selector})`)]
            .filter((element) => element.checkVisibility({visibilityProperty: true}) && element.offsetWidth)
            .map((element) => [contrast(element), element.className, element.innerText.slice(0, 40)]);
    }"""
    places = [
        ("index", "figcaption, .rag-table td, .rag-why, .rag-interval, p"),
        (
            BOARD,
            ".rag-verdict, .rag-absent, .rag-why, .rag-tools label, .rag-tools output, th button",
        ),
        (
            f"notebooks/{CHAPTER}_sample",
            ".rag-sample, .rag-turn pre, .rag-role, .rag-table td, .admonition p",
        ),
        ("provenance", ".rag-hash, .rag-table td"),
        (f"notebooks/{CHAPTER}", "div.cell_output :is(p, a, li, summary)"),
    ]
    for name, selector in places:
        with visit(browser, f"{address}/{name}.html", theme=theme) as seen:
            found = seen.page.evaluate(contrasts, selector)
            assert found, (name, selector)
            assert not [(name, *one) for one in found if one[0] < 4.5]


@pytest.mark.book
def test_a_style_sheet_redraws_figures(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/notebooks/{CHAPTER}.html") as seen:
        seen.page.add_style_tag(content=":root { --rag-green: rgb(1, 2, 3); }")
        dot = seen.page.locator(".rag-figure svg [style*='--rag-green']").first
        assert dot.evaluate("of => [getComputedStyle(of).fill, getComputedStyle(of).stroke]").count(
            "rgb(1, 2, 3)"
        )


@pytest.mark.book
def test_every_number_on_the_scoreboard_is_that_of_its_record(
    browser: Browser, address: str, project: Project
) -> None:
    kept = project.root / "data" / "results" / "laptop" / f"{CHAPTER}.json"
    values = {
        (value["kind"], value["id"]): value
        for value in json.loads(kept.read_text(encoding="utf-8"))["values"]
    }
    with visit(browser, f"{address}/{BOARD}.html") as seen:
        seen.page.locator(".rag-scroll:has(.rag-board) + .rag-more").click()
        rows = seen.page.evaluate(
            """[...document.querySelectorAll('.rag-board tbody tr')].map((row) => [row.querySelector('[id]').id,
                Object.fromEntries([...row.cells].map((cell) => [cell.dataset.label, cell.innerText]))])"""
        )
    numbers = printed_numbers("side_effects")
    assert {id for id, _ in rows} == set(numbers)
    for id, cells in rows:
        number = numbers[id]
        assert cells["Printed"] == number.printed.replace("%", " %").replace("-", "\N{MINUS SIGN}")
        for kind in ("rescored", "rerun"):
            value = values.get((kind, id))
            text = cells[kind.capitalize()]
            if value is None:
                assert re.match("not run yet|cannot be run|no value", text), (id, text)
                continue
            shown = [float(figure) for figure in re.findall(r"\d+\.\d+", text)[:3]]
            scale = 100 if "%" in number.printed else 1
            assert shown == pytest.approx(
                [scale * value[end] for end in ("value", "low", "high")], abs=0.005
            )
            assert f"n = {value['n']:,}" in text.replace("\N{NO-BREAK SPACE}", " ")
        if id.endswith("accuracy") and "table1" in id:
            assert MODEL in cells["Rerun"]
            assert "1 unparsed" in cells["Rerun"]
        if id.endswith("accuracy") and "table2" in id:
            assert "one model is served here" in cells["Rerun"]


@pytest.mark.book
def test_the_scoreboard_is_sorted_and_filtered_by_hand_and_by_keyboard(
    browser: Browser, address: str
) -> None:
    with visit(browser, f"{address}/{BOARD}.html") as seen:
        page = seen.page
        tools = page.get_by_role("search", name="Every printed number")
        every = page.locator(".rag-board tbody tr")
        visible = page.locator(".rag-board tbody tr:visible")
        assert tools.locator("output").inner_text() == f"{every.count()} of {every.count()} rows"
        assert visible.count() == 40, "a page without end helps nobody"
        page.get_by_role("button", name=f"Show all {every.count()} rows").first.click()
        assert visible.count() == every.count()
        tools.get_by_label("Contains").fill("graphrag accuracy")
        assert 0 < visible.count() < every.count()
        assert all("GraphRAG" in text for text in visible.all_inner_texts())
        tools.get_by_label("Contains").fill("")
        tools.get_by_label("Rescored").select_option("matches")
        agree = page.locator(
            ".rag-board td[data-label=Rescored] .rag-verdict[data-verdict=matches]"
        )
        assert visible.count() == agree.count()
        tools.get_by_label("Rescored").select_option("")
        page.get_by_role("button", name="Printed").first.focus()
        page.keyboard.press("Enter")
        assert page.locator(".rag-board th[aria-sort=ascending]").inner_text().startswith("Printed")
        numbers = {id: number.value for id, number in printed_numbers("side_effects").items()}
        order = [
            numbers[id]
            for id in page.eval_on_selector_all(".rag-board [id]", "(all) => all.map((e) => e.id)")
        ]
        assert order == sorted(numbers.values())


@pytest.mark.book
def test_the_scoreboard_prints_what_was_measured_on_few_pages(
    browser: Browser, address: str
) -> None:
    with visit(browser, f"{address}/{BOARD}.html") as seen:
        seen.page.emulate_media(media="print")
        printed = seen.page.locator(".rag-board tbody tr:visible")
        assert 0 < printed.count() < seen.page.locator(".rag-board tbody tr").count()
        assert not [
            text
            for text in printed.all_inner_texts()
            if text.count("not run") + text.count("cannot") == 2
        ]
        assert len(re.findall(rb"/Type\s*/Page\b", seen.page.pdf(format="A4"))) <= 20


@pytest.mark.book
def test_the_scoreboard_begins_with_a_row_an_experiment(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/scoreboard.html") as seen:
        first = seen.page.locator(".bd-article table", has_text="Experiment").first
        row = first.locator("tbody tr", has=seen.page.locator(f"a[href*='{CHAPTER}.html']"))
        cells = dict(
            zip(
                first.locator("th").all_inner_texts(),
                row.locator("td").all_inner_texts(),
                strict=True,
            )
        )
        assert cells["Claims"] == "1 of 1"
        assert re.fullmatch(r"\d+ of 8", cells["Rescored"])
        assert cells["Rerun"] == "another model"
        assert cells["Run"].startswith("reference run")


@pytest.mark.book
def test_a_link_to_a_number_shows_its_row(browser: Browser, address: str) -> None:
    last = list(printed_numbers("side_effects"))[-1]
    with visit(browser, f"{address}/{BOARD}.html#{last}") as seen:
        assert seen.page.locator(f"[id='{last}']").is_visible()


@pytest.mark.book
def test_the_table_of_the_scoreboard_becomes_cards_on_a_phone(
    browser: Browser, address: str
) -> None:
    with visit(browser, f"{address}/{BOARD}.html", width=390) as seen:
        box = seen.page.locator(".rag-board tbody tr").first.bounding_box()
        assert box
        assert box["x"] + box["width"] <= 390
        label = "getComputedStyle(document.querySelector('.rag-board td[data-label=Printed]'), '::before').content"
        assert seen.page.evaluate(label) == '"Printed"'


@pytest.mark.book
def test_only_tables_of_sentences_become_cards_on_a_phone(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/notebooks/{CHAPTER}.html", width=390) as seen:
        shown = (
            "label => getComputedStyle(document.querySelector(`td[data-label=${label}]`)).display"
        )
        assert [seen.page.evaluate(shown, label) for label in ("because", "Accuracy")] == [
            "flow-root",
            "table-cell",
        ]


@pytest.mark.book
def test_search_finds_a_word_of_the_book(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/search.html?q=GraphRAG") as seen:
        hit = seen.page.locator("ul.search li a").first
        hit.wait_for()
        found = seen.page.locator("ul.search li a").all_inner_texts()
        assert "How to read this book" in found


@pytest.mark.book
def test_links_and_citations_lead_somewhere(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/index.html") as seen:
        page = seen.page
        page.locator("a", has_text="Nygren").first.click()
        page.wait_for_url("**/bibliography.html#*")
        name = page.url.split("#")[1]
        assert "Nygren" in page.locator(f"[id='{name}']").inner_text()
        page.goto(f"{address}/{BOARD}.html")
        page.locator(".rag-board tbody a").first.click()
        page.wait_for_url(f"**/notebooks/{CHAPTER}.html")
        page.locator(".rag-run a").first.click()
        page.wait_for_url(f"**/notebooks/{CHAPTER}_sample.html")
        assert "SAMPLE run" in page.locator(".bd-article h1").inner_text()
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent").strip() == "Skip to main content"


@pytest.mark.book
def test_the_run_on_the_sample_is_marked_wherever_it_shows_something(
    browser: Browser, address: str
) -> None:
    with visit(browser, f"{address}/notebooks/{CHAPTER}_sample.html") as seen:
        page = seen.page
        assert page.locator(".admonition-title").first.inner_text() == "SAMPLE run"
        for caption in page.locator(".rag-table caption, .rag-figure figcaption").all_inner_texts():
            assert "SAMPLE" in caption
        assert page.locator(".rag-figure svg text", has_text="SAMPLE").count() == 1
    with visit(browser, f"{address}/notebooks/{CHAPTER}.html") as seen:
        assert seen.page.locator(".rag-run").inner_text().startswith("Reference results")
        assert seen.page.locator(".rag-sample").count() == 0
        assert "Is <b>rash</b> an effect?" in seen.page.inner_text(".rag-turn pre")


@pytest.mark.book
def test_a_page_lists_each_verdict_once(project: Project) -> None:
    page = project.text(f"notebooks/{CHAPTER}")
    assert page.count(f'<ul class="{verdicts.FINDINGS_CLASS}') == page.count('id="claims"') == 1
    assert page.count('href="#claims"') == 1, "in the place of the run's own list"


@pytest.mark.book
def test_a_chapter_opens_with_what_its_run_says_of_the_claims(
    browser: Browser, address: str
) -> None:
    claim = published.published("side_effects").claim("side_effects.claim.pairs_beat_lists")
    for page, verdict in ((CHAPTER, "agrees"), (f"{CHAPTER}_sample", "SAMPLE")):
        with visit(browser, f"{address}/notebooks/{page}.html") as seen:
            opening = seen.page.locator(".rag-findings li")
            line = " ".join(opening.first.inner_text().split())
            assert line == f"{claim.text} rerun: {verdict}", "the evidence is folded"
            opening.first.locator("summary").click()
            assert seen.page.get_by_text("36 of 400 answers more").first.is_visible()
            blocks = seen.page.locator(
                ".bd-article h1, .bd-article .cell, .rag-findings"
            ).all_inner_texts()
            assert blocks[1].strip() == "GraphRAG is best.", (
                "the answer comes below the title, without its code"
            )
            assert blocks[2] == seen.page.locator(".rag-findings").inner_text(), "then the claims"
            assert not seen.page.get_by_text("pairs = 400").first.is_visible(), (
                "parameters are folded"
            )


@pytest.mark.book
def test_the_book_opens_from_the_disk_without_a_server(browser: Browser, project: Project) -> None:
    page = empty_page(browser)
    errors: list[str] = []
    page.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((project.site / f"{BOARD}.html").as_uri())
    assert "rows" in page.locator(".rag-tools output").first.inner_text()
    page.goto((project.site / "search.html").as_uri() + "?q=GraphRAG")
    page.locator("ul.search li a").first.wait_for()
    assert not errors
    page.close()


@pytest.mark.book
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_a_reader_gets_from_the_front_page_to_the_questions_that_an_arm_got_wrong_and_back(
    browser: Browser, address: str, width: int, theme: Theme
) -> None:
    with visit(browser, f"{address}/index.html", width=width, theme=theme) as seen:
        page = seen.page
        page.locator(".bd-article a", has_text="Numbers and claims").first.click()
        page.wait_for_url(f"**/{BOARD}.html")
        row = page.locator(
            ".rag-board tr", has=page.locator("[id='side_effects.table1.closed_book.accuracy']")
        )
        assert re.search(r"65\.50\s%\s\[60\.71, 69\.99\]", row.inner_text()), (
            "the row says how certain its number is"
        )
        row.get_by_role("link", name="see the 60 answers").click()
        page.wait_for_url("**/answers.html#nb=*")
        assert page.locator("[name=arm]").input_value() == "closed_book"
        assert f"model={MODEL}" in page.url, "the number is of one model"
        if width == 390:
            assert not page.locator("[name=show]").is_visible(), "the questions come first"
            page.locator("summary", has_text="Filters").click()
        page.get_by_label("Show").select_option("wrong")
        page.locator(".rag-tools output", has_text="30 of 60 questions").wait_for()
        page.get_by_role("navigation", name="Questions").get_by_role("link", name="rash 7 ").click()
        page.locator("article h2", has_text="rash 7 ").wait_for()
        assert "</script><script>alert(1)</script>" in page.locator("article h2").inner_text()
        page.locator("summary", has_text="Prompt 1 of 1").click()
        assert page.locator(".rag-turn pre").first.inner_text() == "Is <b>rash 7</b> an effect?"
        assert page.locator("article img, article b").count() == 0
        here = page.url
        page.goto(f"{address}/index.html")
        page.goto(here)
        page.locator("article h2", has_text="rash 7 ").wait_for()
        page.go_back()
        page.wait_for_url("**/index.html")


@pytest.mark.book
def test_the_viewer_is_used_from_the_disk_and_by_keyboard(
    browser: Browser, project: Project
) -> None:
    page = empty_page(browser)
    errors: list[str] = []
    page.on(
        "console", lambda message: errors.append(message.text) if message.type == "error" else None
    )
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto((project.site / "answers.html").as_uri())
    page.locator(".rag-tools output", has_text="30 of 60 questions").wait_for()
    assert page.locator("[name=show]").input_value() == "disagree", "it opens on what differs"
    assert "where arms disagree" in page.locator(".rag-tools output").inner_text(), "and says so"
    page.get_by_label("Show").select_option("all")
    page.locator(".rag-tools output", has_text="60 of 60 questions").wait_for()
    assert page.locator("nav[aria-label=Questions] li").count() == 50
    page.get_by_role("link", name="Next page").focus()
    page.keyboard.press("Enter")
    page.locator("nav[aria-label=Questions] ol[start='51']").wait_for()
    page.get_by_label("Show").focus()
    page.get_by_label("Show").select_option("disagree")
    page.locator(".rag-tools output", has_text="30 of 60 questions").wait_for()
    assert page.evaluate("document.activeElement.name") == "show", (
        "the control that was used keeps the focus"
    )
    arms = page.locator("[name=arm] option").evaluate_all(
        "options => options.map((option) => option.value)"
    )
    page.locator("[name=arm]").select_option(arms[1])
    page.locator("[name=against]").select_option(arms[2])
    page.locator(".rag-tools output", has_text="30 of 60 questions").wait_for()
    assert page.locator(".rag-answered").count() == 2
    page.locator("[name=arm]").select_option("")
    page.locator("[name=against]").wait_for(state="detached")
    assert not errors
    page.close()


def chapter_in_viewer(folder: Path, name: str) -> tuple[str, pd.DataFrame]:
    """The viewer's page with the reference answers of one chapter alone, and these."""
    kept = Chapter(
        name, "reference", NOTEBOOKS / f"{name}.ipynb", load(RESULTS / "laptop" / f"{name}.json")
    )
    for path, text in Pages([kept]).scripts().items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    shutil.copy(REPOSITORY / "book" / "assets" / "viewer.js", folder)
    (folder / "answers.html").write_text(
        '<div id="rag-viewer"></div><script src="viewer.js"></script>'
    )
    return (folder / "answers.html").as_uri(), pd.concat(
        [viewer.rows(kept)[0], *viewer.rows(kept)[1].values()]
    )


@pytest.mark.book
@pytest.mark.parametrize(
    ("chapter", "has_timed", "has_unparsed"),
    [("18_across_papers", True, False), ("01_side_effects_forward", False, True)],
)
def test_an_answer_is_right_or_wrong_or_unparsed_and_together_they_are_all_that_was_asked(
    browser: Browser, tmp_path: Path, chapter: str, has_timed: bool, has_unparsed: bool
) -> None:
    url, rows = chapter_in_viewer(tmp_path, chapter)
    scored = rows[["accuracy" in of for of in rows.measures]]
    page = empty_page(browser)
    assert (rows.repeat.nunique() > 1) == has_timed, "some rows are only timed"
    assert (not scored.parsed.all()) == has_unparsed, "some replies could not be read"
    for (arm, model), of in scored.groupby(["arm", "model"]):
        is_right = pd.Series([m["accuracy"][0] == 1 for m in of.measures], index=of.index)
        counts = {
            "right": (is_right & of.parsed).sum(),
            "wrong": (~is_right & of.parsed).sum(),
            "unparsed": (~of.parsed).sum(),
        }
        page.goto(f"{url}#nb={chapter}&arm={arm}&model={model}&show=wrong")
        page.reload()
        shown = f"{counts['wrong']:,} of {len(of):,} questions"
        page.locator("output", has_text=re.compile(f"^{shown}")).wait_for(timeout=5000)
        tally = page.locator(".rag-tally").inner_text()
        words = ", ".join(f"{count:,} {word}" for word, count in counts.items() if count)
        assert f": {words}; {len(of):,} asked." in tally, (arm, model)
        by_default = (is_right & ~of.parsed).sum()
        if by_default:
            assert f"count {by_default} of these {counts['unparsed']} as right" in tally
    page.close()


@pytest.mark.book
def test_of_two_arms_with_scores_the_largest_difference_is_first(
    browser: Browser, tmp_path: Path
) -> None:
    url, rows = chapter_in_viewer(tmp_path, "15_qarag_finetune")
    scores = pd.Series([m["f1"][0] / m["f1"][1] for m in rows.measures], index=rows.index)
    by_arm = rows.assign(score=scores).set_index(["task", "split", "unit", "arm"]).score.unstack()
    gaps = (by_arm["tuned"] - by_arm["base"]).abs()
    page = empty_page(browser)
    page.goto(f"{url}#nb=15_qarag_finetune&arm=tuned&against=base")
    page.locator("output", has_text=f"{len(gaps)} of {len(gaps)} questions").wait_for()
    first = page.locator(".rag-scores").first.inner_text()
    named = re.fullmatch(r"Fine-tuned ([\d.]+), Not fine-tuned ([\d.]+)", first)
    assert named, first
    tuned, base = map(float, named.groups())
    assert abs(tuned - base) == pytest.approx(gaps.max(), abs=0.011)
    assert page.locator(".rag-answered .rag-verdict").count() == 2, "both scores are shown"
    page.close()


@pytest.mark.book
def test_a_list_of_thousands_of_questions_is_short_and_names_each(
    browser: Browser, tmp_path: Path
) -> None:
    url, rows = chapter_in_viewer(tmp_path, "01_side_effects_forward")
    listed = (tmp_path / "answers" / "01_side_effects_forward.js").stat().st_size
    names = (tmp_path / "answers").glob("01_side_effects_forward-names-*.js")
    assert listed < 150_000
    n_bytes = listed + sum(path.stat().st_size for path in names)
    page = empty_page(browser)
    loaded: list[str] = []
    page.on("request", lambda request: loaded.append(request.url))
    page.goto(f"{url}#nb=01_side_effects_forward&show=all")
    page.locator("article h2").wait_for()
    assert len([url for url in loaded if "-names-" in url]) == 1, "the rest loads when needed"
    n_questions = int(page.locator("output").inner_text().split()[2].replace(",", ""))
    assert n_questions >= rows.unit.nunique()
    assert n_bytes / n_questions < 60
    links = page.locator("nav[aria-label=Questions] li").all_inner_texts()
    assert [*{*links} - {*rows.question}] == []
    heading = page.locator("article h2").inner_text()
    assert heading == links[0]
    drug, effect = rows[rows.question == heading].unit.iloc[0].split(" | ")
    page.get_by_label("Contains").fill(f"{effect.upper()} an adverse effect of {drug}")
    page.keyboard.press("Enter")
    page.locator("output", has_text="1 of ").wait_for(timeout=5000)
    page.close()


@pytest.mark.book
def test_where_no_question_matches_the_viewer_says_which_filter_to_lift(
    browser: Browser, address: str
) -> None:
    filters = f"arm=graphrag&model={MODEL}&show=wrong&text=rash"
    with visit(browser, f"{address}/answers.html#nb={CHAPTER}&{filters}") as seen:
        page = seen.page
        page.locator(".rag-tools output", has_text="0 of 60 questions").wait_for()
        assert "answered wrongly" in page.locator(".rag-nothing").inner_text()
        assert "rash" not in page.locator(".rag-nothing").inner_text(), "it would not help"
        page.get_by_role("link", name="Lift").first.click()
        page.locator(".rag-tools output", has_text="60 of 60 questions").wait_for()
        assert page.locator(".rag-question h2").count() == 1


@pytest.mark.book
def test_questions_that_can_be_read_come_before_those_that_are_withheld(
    browser: Browser, tmp_path: Path
) -> None:
    url, rows = chapter_in_viewer(tmp_path, "13_notes_retrieval")
    assert 0 < rows.question.notna().mean() < 1
    page = empty_page(browser)
    page.goto(f"{url}#nb=13_notes_retrieval&show=all")
    shown = page.locator("output").inner_text()
    found = re.search(r"([\d,]+) of ([\d,]+) readable", shown)
    assert found, shown
    assert int(found[1].replace(",", "")) < int(found[2].replace(",", ""))
    assert "withheld" not in page.locator("nav[aria-label=Questions] li").first.inner_text()
    page.close()


@pytest.mark.book
@pytest.mark.parametrize("width", [390, 768, 1024, 1280, 1440, 1920])
def test_the_headline_claims_are_within_their_frame_at_every_width(
    browser: Browser, address: str, width: int
) -> None:
    with visit(browser, f"{address}/index.html", width=width) as seen:
        frame = seen.page.locator(".rag-scroll:has(table.rag-landing)")
        assert frame.evaluate("(e) => e.scrollWidth <= e.clientWidth")
        claim = frame.locator("td[data-label=Claim]").first.bounding_box()
        assert claim
        assert claim["width"] > 200


@pytest.mark.book
@pytest.mark.parametrize("page", ["index", f"notebooks/{CHAPTER}"])
def test_a_page_prints_dark_on_white_from_the_dark_theme(
    browser: Browser, address: str, page: str
) -> None:
    with visit(browser, f"{address}/{page}.html", theme="dark") as seen:
        seen.page.emulate_media(media="print")
        variables = """() => ['background', 'text-base'].map((name) =>
            getComputedStyle(document.documentElement).getPropertyValue(`--pst-color-${name}`).trim())"""
        assert seen.page.evaluate(variables) == ["#fff", "#222832"]
        ground = "(element) => getComputedStyle(element).backgroundColor"
        assert seen.page.locator("body").evaluate(ground) in (
            "rgba(0, 0, 0, 0)",
            "rgb(255, 255, 255)",
        )


@pytest.mark.book
def test_what_is_folded_is_printed_and_no_table_is_cut_or_tiny(
    browser: Browser, address: str, tmp_path: Path
) -> None:
    with visit(browser, f"{address}/paper-side_effects.html") as seen:
        seen.page.pdf(path=tmp_path / "page.pdf", prefer_css_page_size=True)
        printed = "".join(page.extract_text() for page in PdfReader(tmp_path / "page.pdf").pages)
        assert "src/papers/side_effects/corpus.py" in "".join(printed.split()), "parts of a diagram"
    with visit(browser, f"{address}/index.html", width=718) as seen:
        seen.page.emulate_media(media="print")
        dot = "(mark) => getComputedStyle(mark, '::before').printColorAdjust"
        assert seen.page.locator(".rag-verdict").first.evaluate(dot) == "exact"
        sizes = """(table) => [...table.querySelectorAll('td, td *')]
            .filter((e) => e.checkVisibility())
            .map((e) => parseFloat(getComputedStyle(e).fontSize) * getComputedStyle(table).zoom)"""
        for table in seen.page.locator("table.rag-table").all():
            points = [0.75 * pixels for pixels in table.evaluate(sizes)]
            assert min(points, default=7) >= 7
            box = table.bounding_box()
            assert box is None or box["x"] + box["width"] <= 718


@pytest.mark.book
@pytest.mark.parametrize("width", [390, 1440])
def test_what_is_touched_has_room_for_a_finger(browser: Browser, address: str, width: int) -> None:
    targets = ".bd-article :is(summary, button, a.rag-to-rows, .rag-counts a)"
    small = """(elements) => elements.filter((e) => e.checkVisibility())
        .filter((e) => Math.min(e.getBoundingClientRect().width, e.getBoundingClientRect().height) < 24)
        .map((e) => e.outerHTML.slice(0, 80))"""
    for name in ("index", BOARD, "paper-side_effects", f"notebooks/{CHAPTER}"):
        with visit(browser, f"{address}/{name}.html", width=width) as seen:
            assert seen.page.locator(targets).evaluate_all(small) == [], name


@pytest.mark.book
def test_what_a_cell_printed_wraps_on_a_phone(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/notebooks/{CHAPTER}.html", width=390) as seen:
        wide = """(output) => {
            const text = document.createElement('pre');
            text.textContent = 'MATCH (d:Drug)-[:may_cause_side_effect]->(s:SideEffect) RETURN s.name';
            output.append(text);
            return text.scrollWidth - text.clientWidth;
        }"""
        assert seen.page.locator("div.cell_output .text_html").first.evaluate(wide) <= 0


@pytest.mark.book
def test_the_search_index_loads_when_something_is_searched(browser: Browser, address: str) -> None:
    with watching(browser, address, width=1280, theme="light") as seen:
        loaded: list[str] = []
        seen.page.on("request", lambda request: loaded.append(request.url))
        seen.page.goto(f"{address}/index.html", wait_until="networkidle")
        assert not [url for url in loaded if "searchindex" in url]
        seen.page.keyboard.press("Control+k")
        seen.page.keyboard.type("scoreboard")
        seen.page.keyboard.press("Enter")
        seen.page.wait_for_url("**/search.html?q=scoreboard")
        seen.page.locator("#search-results li a").first.wait_for()
        assert not seen.errors


@pytest.mark.book
def test_a_chapter_leads_to_the_words_and_the_entry_to_cite(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/notebooks/{CHAPTER}.html") as seen:
        seen.page.get_by_role("link", name="how to cite").click()
        seen.page.wait_for_url("**/index.html#cite")
        assert "@misc{medical-rag-rerun," in seen.page.locator("#cite").inner_text()


@pytest.mark.book
def test_the_ways_on_from_a_page_have_the_width_of_a_phone(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/how-to-read.html", width=390) as seen:
        boxes = [link.bounding_box() for link in seen.page.locator(".prev-next-area a").all()]
        assert len(boxes) == 2
        assert all(box and box["width"] > 300 for box in boxes)
        assert boxes[0]["y"] < boxes[1]["y"]  # type: ignore[index]


@pytest.mark.book
def test_claims_are_filtered_by_their_verdicts(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/{BOARD}.html") as seen:
        tools = seen.page.locator("form", has=seen.page.get_by_label("Paper's system: rerun"))
        tools.get_by_label("Paper's system: rerun").select_option("agrees")
        assert tools.locator("output").inner_text().startswith("1 of ")


@given(st.lists(st.text("ab |{}0", min_size=1), min_size=1, max_size=3), st.text("ab Is{}01"))
def test_a_question_is_rebuilt_from_its_wording(parts: list[str], between: str) -> None:
    id = " | ".join(parts)
    for question in (between.join(parts), between, between + id):
        if wording := viewer._wording(id, question):
            assert (
                re.sub(r"\{(\d+)\}", lambda found: id.split(" | ")[int(found[1])], wording)
                == question
            )
    assert (
        viewer._wording("drug | rash", "Is rash an effect of drug?") == "Is {1} an effect of {0}?"
    )


@pytest.mark.book
def test_a_score_between_right_and_wrong_is_shown_as_its_value(
    browser: Browser, tmp_path: Path
) -> None:
    url, _ = chapter_in_viewer(tmp_path, "15_qarag_finetune")
    page = empty_page(browser)
    page.goto(url)
    marks = page.locator(".rag-verdict").all_inner_texts()
    assert len(marks) == 2
    assert page.locator("[name=paper] option").all_inner_texts() == ["Regulatory guidance"]
    assert all(re.fullmatch(r"F1 0\.\d\d", mark) for mark in marks), marks
    assert "_" not in page.locator(".rag-answered .rag-facts").first.inner_text()
    page.close()


@pytest.mark.book
def test_the_landing_page_says_how_much_was_not_tested(project: Project) -> None:
    said = re.sub(r"<[^>]+>", "", project.text("index"))
    papers = (
        paper for paper in published.papers() if paper != "across_papers"
    )  # which no paper claims
    claims = [claim for paper in papers for claim in published.published(paper).claims]
    untestable = sum(bool(claim.why_not or claim.closed) for claim in claims)
    assert f"Of the claims, {len(claims) - 1 - untestable} were not tested" in said
    assert f"{untestable} cannot be" in said
    assert re.search(r"Of the numbers, \d{3} were neither rescored nor rerun\.", said)
    assert " 0 " not in said.partition("The papers print")[2].partition("Findings")[0]


def test_a_narrow_terminal_shows_the_claims_of_a_paper_as_a_list(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert scoreboard.main(["--paper", "across_papers"]) == 0
    shown = capsys.readouterr().out
    claim = published.published("across_papers").claims[0].text
    assert claim in " ".join(shown.split())
    assert re.search(r"\n    why: ", shown)


def test_the_claims_with_one_verdict_are_listed_with_their_ids_and_notebooks(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    ledger = scoreboard.ledger()
    assert scoreboard.main(["--verdict", "differs"]) == 0
    shown = capsys.readouterr().out
    for name, verdict in zip(ledger.id, ledger.verdict, strict=True):
        assert (name in shown) == (verdict == "differs"), name
    assert "98 %" in shown, "the rule of filter_decides, with its bound"
    assert "01_side_effects_forward" in shown


def test_the_scoreboard_of_a_paper_that_there_is_not_names_those_that_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as refused:
        scoreboard.main(["--paper", "foo"])
    assert refused.value.code == 2
    assert "medrerun scoreboard across_papers|" in capsys.readouterr().err


@pytest.mark.book
def test_the_claims_of_a_paper_are_read_on_a_phone(browser: Browser, address: str) -> None:
    with visit(browser, f"{address}/{BOARD}.html", width=390) as seen:
        cell = seen.page.locator(".rag-claims tbody tr").first.locator("td").first.bounding_box()
        assert cell
        assert cell["width"] > 300


@pytest.mark.book
def test_the_former_address_of_what_to_build_leads_to_its_chapter(
    browser: Browser, address: str
) -> None:
    with visit(browser, f"{address}/build.html") as seen:
        seen.page.wait_for_url("**/notebooks/20_what_to_build.html")
        assert not seen.errors


@pytest.mark.book
def test_the_scoreboard_can_be_taken_along(project: Project) -> None:
    rows = json.loads((project.site / "scoreboard.json").read_text(encoding="utf-8"))
    csv = pd.read_csv(project.site / "scoreboard.csv")
    assert [row["id"] for row in rows] == csv["id"].tolist()
    of = {row["id"]: row for row in rows}["side_effects.table1.graphrag.accuracy"]
    assert of["reference"] == ARMS["graphrag"][0] / 400
    claims = json.loads((project.site / "claims.json").read_text(encoding="utf-8"))
    printed = [
        claim.id for paper in published.papers() for claim in published.published(paper).claims
    ]
    assert {claim["id"] for claim in claims} == set(printed)


@pytest.mark.book
def test_every_setting_is_on_the_page_that_explains_them(project: Project) -> None:
    page = project.text("your-own")
    for name in ("NEO4J_URI", "LLM_BASE_URL", "LLM_ENGINE", "DATA_MIRROR", "PROFILE"):
        assert f"<code>{name}</code>" in page


@pytest.mark.book
def test_what_the_runs_cost_is_counted_from_their_records(project: Project) -> None:
    rows = [
        re.sub(r"<[^>]+>", "|", row)
        for row in re.findall(r"<tr>.*?</tr>", project.text("scale"), re.DOTALL)
    ]
    row = next(row for row in rows if "1,600" in row).replace("\N{NO-BREAK SPACE}", " ")
    assert "160,000" in row
    assert "3,200" in row
    assert "|13,056|" in row, "163,200 tokens in 12.5 s"
    assert re.search(r"\|1[23] s\|", row), "of answers; the fixture does nothing else"
    assert "|65 s|" in row, "163,200 tokens at 2,500 a second"
    assert "|0.03 dollars|" in row, "at 0.15 and 0.60 dollars a million"


@pytest.mark.book
def test_files_that_a_page_shows_are_shown_as_they_are(project: Project) -> None:
    for page, path in (("scale", "slurm.sh"), ("own-paper", "notebooks/template/published.yml")):
        shown = unescape(re.sub(r"<[^>]+>", "", project.text(page)))
        assert (REPOSITORY / path).read_text().rstrip() in shown


@pytest.mark.book
def test_no_page_names_a_folder_of_the_machine_that_built_it(project: Project) -> None:
    pages = list(project.site.rglob("*.html"))
    assert project.site / "helpers.html" in pages
    for page in pages:
        text = page.read_text()
        assert str(project.root) not in text, page
        assert str(REPOSITORY) not in text, page


@pytest.mark.book
def test_no_file_name_became_a_link_to_a_strangers_site(project: Project) -> None:
    for page in project.site.rglob("*.html"):
        links = re.findall(r'href="http://([^"/:]+)', page.read_text())
        assert not [host for host in links if host not in ("127.0.0.1", "localhost")], page


def test_claims_that_a_run_does_not_test_are_folded_behind_those_that_it_tests() -> None:
    record = load(RESULTS / "laptop" / "06_interactions_qa.json")
    tested, untested = str(pieces.findings(record)).split("<ul><li>")
    n_untested = untested.count("<summary>")
    assert f"<summary>{n_untested} claims that this run does not test</summary>" in tested
    assert set(re.findall('data-verdict="([^"]+)"', untested)) == {"cannot be tested", "not asked"}
    n_tested = tested.count("<summary>") - 1
    claims = {finding.id for finding in [*record.claims, *record.here_findings]}
    assert n_tested + n_untested == len(claims)


def test_two_untested_claims_keep_the_order_of_the_paper() -> None:
    record = load(RESULTS / "laptop" / "02_side_effects_reverse.json")
    listed = unescape(pieces.findings(record))
    of_run = {finding.id for finding in [*record.claims, *record.here_findings]}
    in_order = [claim for claim in published.published(record.paper).claims if claim.id in of_run]
    places = [listed.index(claim.text) for claim in in_order]
    assert len(places) == 9
    assert places == sorted(places)
    assert "claims that this run does not test" not in listed


@pytest.mark.parametrize(
    ("name", "whose"), [("17_qarag_answers", "The paper"), ("18_across_papers", "This book")]
)
def test_a_chapter_says_whose_claims_it_lists(name: str, whose: str) -> None:
    told = unescape(pieces.findings(load(RESULTS / "laptop" / f"{name}.json")))
    assert re.search(rf">{whose}.s claims. .Here. refers to this run with [^<]+<", told)
