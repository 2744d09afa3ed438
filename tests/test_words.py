"""What the book and the READMEs say in words: their commands, verdicts and terms."""

from __future__ import annotations

import json
import re
import typing
from pathlib import Path

import pytest
from test_book import CHAPTER, notebook, save_record, write

from helpers.results import records
from helpers.results.records import TESTED, Verdict
from helpers.results.rules import claim_word
from publish import book
from publish.chapters import Chapter

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [*(REPOSITORY / "book").glob("*.md"), *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md"))]
READ = (REPOSITORY / "book" / "how-to-read.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", [*PAGES, REPOSITORY / "data" / "README.md"], ids=lambda path: path.name)
def test_a_command_works_as_it_is_written(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"python -m helpers", text):
        line = text[text.rfind("\n", 0, found.start()) : found.start()]
        block = text[: found.start()].rpartition("```")[2]
        assert ".venv/bin/" in line, line
        assert "PYTHONPATH=src" in line or "export PYTHONPATH=src" in block, line


def test_every_verdict_is_explained_for_what_it_is_given_to() -> None:
    numbers, claims = READ.split("## Verdicts on claims")
    of_claims = set(re.findall(r'verdict\("([\w ]+)"\)', claims))
    assert of_claims == set(map(claim_word, typing.get_args(Verdict)))
    of_numbers = {*typing.get_args(Verdict), "not compared", "SAMPLE"}
    assert set(re.findall(r'verdict\("([\w ]+)"\)', numbers)) == of_numbers
    assert set(TESTED) <= of_claims


def test_the_glossary_is_in_order_and_has_each_term_once() -> None:
    terms = re.findall(r"^(.+)\n: ", READ.partition("## Glossary")[2], re.MULTILINE)
    assert terms == sorted(set(terms), key=str.lower)
    words = ["synthetic", "stand-in", "unparsed", "Holm", "HyDE", "RAGAS", "LoRA", "Med7", "tier", "micro-F1"]
    assert set(words) <= set(terms)


@pytest.mark.parametrize(("origin", "synthetic"), [("yours", True), ("yours", False), ("reference", True)])
def test_a_chapter_says_whether_its_data_are_real(
    tmp_path: Path, origin: typing.Literal["yours", "reference"], synthetic: bool
) -> None:
    run = records.load(save_record(tmp_path / "record.json", "laptop", sample=False))
    path = write(tmp_path / f"{CHAPTER}.ipynb", notebook())
    chapter = Chapter(CHAPTER, origin, path, run.model_copy(update={"synthetic": synthetic}))
    [(_, staged)] = book._notebooks(chapter)
    assert ("on synthetic data" in staged) == synthetic
    assert ("on real data" in staged) == (not synthetic)


def cells(path: Path, kind: str) -> list[dict[str, typing.Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


def test_the_tables_of_all_chapters_are_few_and_short() -> None:
    tables = []
    for path in sorted((REPOSITORY / "book" / "reference").glob("*.ipynb")):
        outputs = [output for cell in cells(path, "code") for output in cell["outputs"]]
        shown = "".join("".join(output.get("data", {}).get("text/html", "")) for output in outputs)
        tables += re.findall(r"<table.*?</table>", shown, re.DOTALL)
    words = [len(re.findall(r"\w+", re.sub("<[^>]+>", " ", t))) for t in tables]
    assert 0 < len(words) <= 130
    assert sum(words) <= 20_000


@pytest.mark.parametrize("path", sorted((REPOSITORY / "notebooks").glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_is_short(path: Path) -> None:
    prose = cells(path, "markdown")
    assert len(prose) + len(cells(path, "code")) <= 25
    assert sum(len(re.findall(r"\w+", "".join(cell["source"]))) for cell in prose) <= 900


def test_the_code_is_short() -> None:
    modules = {path: len(path.read_text("utf-8").splitlines()) for path in (REPOSITORY / "src").rglob("*.py")}
    notebooks = (cell for path in (REPOSITORY / "notebooks").glob("*.ipynb") for cell in cells(path, "code"))
    code = sum(len("".join(cell["source"]).splitlines()) for cell in notebooks)
    assert sum(modules.values()) + code <= 29_000
    assert sum(n for path, n in modules.items() if "helpers" in path.parts) <= 9_500
    assert max(modules.values()) <= 400
