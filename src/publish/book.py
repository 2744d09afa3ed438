"""Builds the book: stages pages and notebooks, runs Jupyter Book, and looks the result over.

python -m publish.book build                 _build/html/index.html (or: make book)
python -m publish.book picture FILE.svg      the scoreboard's picture alone, for pages elsewhere

A warning of Jupyter Book, an errored notebook, an unknown key of `_config.yml` and a page that
loads something from elsewhere are errors.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import jinja2
import jupyter_book
import yaml

from evaluation.published import RecordError
from publish.chapter_answers import ChapterAnswers, chapter_answers
from publish.chapters import Chapter, PageError, chapters
from publish.glossary import glossary_script
from publish.pages import Pages
from publish.site_check import check_site
from publish.staged_notebooks import StagedPage, staged_notebooks
from resources.settings import BUILD, ROOT, available_cores, run_command_line

SOURCE: Final = Path(__file__).resolve().parents[1]
BOOK: Final = ROOT / "book"
STAGED: Final = BUILD / "book-src"
WORK: Final = BUILD / "book-work"
SITE: Final = BUILD / "html"
NOT_STAGED: Final = ("ext", "reference")
MOVED: Final = {"build.html": "notebooks/20_what_to_build.html"}
"""Addresses that pages had, with where they lead now."""
UNUSED_SCRIPTS: Final = ("fontawesome.js",)
OF_SEARCH: Final = ("searchtools.js", "language_data.js", "searchindex.js")
"""Scripts that only the page of search results needs; a search from another page opens it."""
HEADLINE: Final = ("side_effects.table1", "accuracy")
"""Beginning and end of the ids that the picture shows."""


def build() -> Path:
    """Stage, build and check the book, and put it in the place of the last one.

    An error leaves the last book alone.

    Returns:
        The first page.

    Raises:
        PageError: Something cannot be shown, or the site is not right.
    """
    check_config(ROOT / "_config.yml")
    # else Sphinx neither renews the navigation of a page that did not change nor warns again of
    # what it has read
    shutil.rmtree(WORK, ignore_errors=True)
    sys.stderr.write("1 of 3: pages are written from the runs ...\n")
    stage()
    sys.stderr.write("2 of 3: Jupyter Book builds the site; this takes a minute or two ...\n")
    built = _jupyter_book()
    sys.stderr.write("3 of 3: links and pages are checked ...\n")
    problems = [f"  {problem}" for problem in sorted(check_site(built))]
    if problems:
        raise PageError("The built site is not right:\n" + "\n".join(problems))
    shutil.rmtree(SITE, ignore_errors=True)
    built.rename(SITE)
    return SITE / "index.html"


def check_config(path: Path) -> None:
    """Refuse a key of `_config.yml` that Jupyter Book would pass over without a word.

    Raises:
        PageError: There is such a key.
    """
    known = _known_keys()
    unknown = []
    for key, value in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        if key not in known:
            unknown.append(key)
        elif known[key] and isinstance(value, dict):
            unknown += [f"{key}.{name}" for name in value if name not in known[key]]
    if unknown:
        raise PageError(
            f"{path.name} has unknown keys: {', '.join(unknown)}. "
            f"Known are {', '.join(sorted(known))}."
        )


def _known_keys() -> dict[str, Any]:
    """Return the keys that Jupyter Book knows, each with the keys below it."""
    package = Path(jupyter_book.__file__).parent
    known: dict[str, Any] = yaml.safe_load(
        (package / "default_config.yml").read_text(encoding="utf-8")
    )
    schema = json.loads((package / "config_schema.json").read_text(encoding="utf-8"))
    for key, part in schema["properties"].items():
        below = known.get(key)
        if below is None or isinstance(below, dict):
            known[key] = (below or {}) | dict.fromkeys(part.get("properties", {}))
    return known


@dataclass(frozen=True)
class StagedChapter:
    """A chapter with its pages, and with what is said of its answers if it has some."""

    chapter: Chapter
    pages: list[StagedPage]
    answers: ChapterAnswers | None


def stage() -> None:
    """Write what Jupyter Book shall read to `_build/book-src`.

    Raises:
        PageError: Something cannot be shown.
    """
    all_chapters = chapters()
    staged_chapters = _stage_chapters(all_chapters)
    pages = Pages(all_chapters)
    pages.answers = {
        staged.chapter.name: staged.answers for staged in staged_chapters if staged.answers
    }
    files: dict[str, bytes | str] = {}
    for staged in staged_chapters:
        for page in staged.pages:
            files[f"notebooks/{page.name}.ipynb"] = page.content
            files |= pages.add_exhibits(staged.chapter, page)
    boards = pages.boards()
    files |= _book_files(pages)
    files["_toc.yml"] = yaml.safe_dump(_contents(all_chapters, boards), sort_keys=False)
    files |= boards
    for name, text in {**pages.files(), **pages.scripts()}.items():
        files[f"downloads/{name}"] = text
    for address, target in MOVED.items():
        files[f"downloads/{address}"] = _redirection(target)
    shutil.rmtree(STAGED, ignore_errors=True)
    for name, content in files.items():
        path = STAGED / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _stage_chapters(all_chapters: Sequence[Chapter]) -> list[StagedChapter]:
    """Stage the chapters, as many at once as there are processors."""
    with ProcessPoolExecutor(available_cores()) as pool:
        return list(pool.map(_stage_chapter, all_chapters))


def _stage_chapter(chapter: Chapter) -> StagedChapter:
    """Write a chapter's pages, and read its answers; they share its rows."""
    return StagedChapter(chapter, list(staged_notebooks(chapter)), chapter_answers(chapter))


def _redirection(target: str) -> str:
    """Return a page that leads to another one."""
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><title>Moved</title>'
        # else a browser asks for an icon that the site does not have
        '<link rel="icon" href="data:,">'
        f'<meta http-equiv="refresh" content="0; url={target}">'
        f'<p>This page has moved: <a href="{target}">read it here</a>.</p></html>\n'
    )


def _book_files(pages: Pages) -> dict[str, bytes | str]:
    """Return the files of `book/`, of which pages are templates."""
    # the pages are Markdown, and their functions escape what they show
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)  # noqa: S701
    files: dict[str, bytes | str] = {}
    for path in sorted(BOOK.rglob("*")):
        place = path.relative_to(BOOK)
        if not path.is_file() or place.parts[0] in NOT_STAGED or path.name.startswith("."):
            continue
        if path.suffix == ".md":
            files[place.as_posix()] = _page(path, environment, pages)
        else:
            files[place.as_posix()] = path.read_bytes()
    files["assets/glossary.js"] = glossary_script(BOOK / "how-to-read.md")
    return files


def _page(path: Path, environment: jinja2.Environment, pages: Pages) -> str:
    """Return the Markdown of a page; a PageError says what its template cannot show."""
    try:
        template = environment.from_string(path.read_text(encoding="utf-8"))
        return template.render(pages.functions())
    except (jinja2.TemplateError, PageError, RecordError, TypeError) as error:
        raise PageError(
            f"book/{path.relative_to(BOOK).as_posix()}: {error}. "
            "The functions of a page are in publish.pages."
        ) from error


def _contents(all_chapters: list[Chapter], boards: Mapping[str, str]) -> dict[str, Any]:
    """Return the table of contents.

    The runs on the sample stand together at the end, and each paper's numbers below the scoreboard.

    Args:
        all_chapters: Chapters of the book.
        boards: Pages with the numbers of each paper: name and Markdown.
    """
    contents: dict[str, Any] = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    pages: list[dict[str, Any]] = []
    for part in contents["parts"]:
        pages += part["chapters"]
    for page in pages:
        if page["file"] == "scoreboard":
            page["sections"] = [_board_entry(name, text) for name, text in boards.items()]
    _check_contents(pages, all_chapters)
    samples = [f"notebooks/{chapter.name}_sample" for chapter in all_chapters if chapter.beside]
    if samples:
        sections = [{"file": file} for file in samples]
        contents["parts"][-1]["chapters"].append({"file": "samples", "sections": sections})
    return contents


def _check_contents(pages: list[dict[str, Any]], all_chapters: list[Chapter]) -> None:
    """Refuse a table of contents that lacks a notebook, or has one that is none."""
    listed = {page["file"] for page in pages if page["file"].startswith("notebooks/")}
    existing = {f"notebooks/{chapter.name}" for chapter in all_chapters}
    if listed != existing:
        raise PageError(
            "book/_toc.yml and the folder notebooks/ do not fit together: "
            f"{', '.join(sorted(listed ^ existing))}. "
            "Each notebook needs one entry, and each entry a notebook."
        )


def _board_entry(name: str, text: str) -> dict[str, str]:
    """Return the entry of a page with a paper's numbers; its title ends before the colon."""
    title = text.partition("# ")[2].partition(":")[0]
    return {"file": name.removesuffix(".md"), "title": title}


def _jupyter_book() -> Path:
    """Run Jupyter Book on what is staged; returns the folder of the site."""
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(STAGED)]
    command += ["--config", str(ROOT / "_config.yml"), "--path-output", str(WORK)]
    command += ["-W", "--keep-going", "-q"]
    # the book's extension imports this package, which `medrerun` finds without PYTHONPATH
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    result = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    if result.returncode:
        output = re.sub(r"\x1b\[[0-9;]*m", "", result.stdout + result.stderr)
        lines = output.splitlines()
        problems = [line for line in lines if re.search(r"WARNING|ERROR|Error|error", line)]
        raise PageError("Jupyter Book failed:\n" + "\n".join(problems or lines[-20:]))
    site = WORK / "_build" / "html"
    # the theme's 1.5 MB of icons as a script: those of its buttons come from its font anyway
    for script in site.glob("_static/scripts/fontawesome.js*"):
        script.unlink()
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        unused = UNUSED_SCRIPTS if page.name == "search.html" else (*UNUSED_SCRIPTS, *OF_SEARCH)
        page.write_text(_without_scripts(text, unused), encoding="utf-8")
    return site


def _without_scripts(text: str, names: Sequence[str]) -> str:
    """Return a page that does not load some scripts."""
    pattern = "|".join(re.escape(name) for name in names)
    return re.sub(rf'<script [^>]*src="[^"]*(?:{pattern})[^>]*></script>', "", text)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m publish.book", description="Build the book.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="the whole book, under _build/html")
    picture = commands.add_parser("picture", help="the scoreboard's picture alone")
    picture.add_argument("file", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "picture":
        sys.stdout.write(f"Made: {Pages(chapters()).drawn(*HEADLINE).save(options.file)}\n")
    else:
        sys.stdout.write(f"Made: {build()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
