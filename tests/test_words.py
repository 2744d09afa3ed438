"""What the book and the READMEs say in words: their commands, verdicts and terms."""

from __future__ import annotations

import re
import typing
from pathlib import Path

import pytest
from test_book import CHAPTER, notebook, save_record, write

from evaluation import records
from evaluation.verdicts import here_word
from evaluation.vocabulary import HereAnswer, Match, Verdict
from publish.chapters import Chapter
from publish.pieces import kind_of_data
from publish.staged_notebooks import staged_notebooks
from resources.settings import RESULTS

REPOSITORY = Path(__file__).resolve().parents[1]
PAGES = [
    *(REPOSITORY / "book").glob("*.md"),
    *(REPOSITORY / name for name in ("README.md", "CONTRIBUTING.md")),
]
READ = (REPOSITORY / "book" / "how-to-read.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "page", [*PAGES, REPOSITORY / "data" / "README.md"], ids=lambda path: path.name
)
def test_a_command_works_as_it_is_written(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    for found in re.finditer(r"python -m helpers", text):
        line = text[text.rfind("\n", 0, found.start()) : found.start()]
        block = text[: found.start()].rpartition("```")[2]
        assert ".venv/bin/" in line, line
        assert "PYTHONPATH=src" in line or "export PYTHONPATH=src" in block, line


def test_every_word_is_explained_for_what_it_is_given_to() -> None:
    numbers, claims = READ.split("## Verdicts on claims")
    of_claims = set(re.findall(r'verdict\("([\w ]+)"\)', claims))
    here_words = map(here_word, typing.get_args(HereAnswer))
    assert of_claims == {*typing.get_args(Verdict), *here_words}
    assert set(re.findall(r'verdict\("([\w ]+)"\)', numbers)) == set(typing.get_args(Match))


def test_the_glossary_is_in_order_and_has_each_term_once() -> None:
    terms = re.findall(r"^(.+)\n: ", READ.partition("## Glossary")[2], re.MULTILINE)
    assert terms == sorted(set(terms), key=str.lower)
    words = [
        "synthetic",
        "stand-in",
        "unparsed",
        "Holm",
        "HyDE",
        "RAGAS",
        "LoRA",
        "Med7",
        "tier",
        "micro-F1",
    ]
    assert set(words) <= set(terms)


@pytest.mark.parametrize(
    ("origin", "synthetic"), [("yours", True), ("yours", False), ("reference", True)]
)
def test_a_chapter_says_whether_its_data_are_real(
    tmp_path: Path, origin: typing.Literal["yours", "reference"], synthetic: bool
) -> None:
    run = records.load(save_record(tmp_path / "record.json", "laptop", sample=False))
    path = write(tmp_path / f"{CHAPTER}.ipynb", notebook())
    chapter = Chapter(CHAPTER, origin, path, run.model_copy(update={"synthetic": synthetic}))
    [page] = staged_notebooks(chapter)
    staged = page.content
    assert ("synthetic data" in staged) == synthetic
    assert ("with real data" in staged) == (not synthetic)


def test_a_chapter_with_real_and_generated_data_names_both() -> None:
    use_it, notes = (
        records.load(RESULTS / "laptop" / f"{name}.json")
        for name in ("19_use_it", "14_notes_answers")
    )
    assert kind_of_data(use_it) == "real and synthetic"
    assert kind_of_data(notes) == "synthetic"
