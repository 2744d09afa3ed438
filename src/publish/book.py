"""Builds the book: stages pages and notebooks, runs Jupyter Book with warnings as errors, and looks the result over.

python -m publish.book build                 _build/html/index.html (or: make book)
python -m publish.book picture FILE.svg      the scoreboard's picture alone, for pages elsewhere

Here an errored notebook, an unknown key of `_config.yml` and a page that loads something from elsewhere are errors.
"""

import argparse
import ast
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlsplit

import jinja2
import jupyter_book
import yaml

from evaluation import compare, verdicts
from evaluation.figures import SCORES, inline
from evaluation.markup import escape
from evaluation.outcomes import Outcomes
from evaluation.published import RecordError
from evaluation.records import Record
from publish import viewer
from publish.chapters import Chapter, PageError, chapters, heading
from publish.pages import Pages
from publish.pieces import findings, run_line
from resources.parameters import read_notebook
from resources.settings import BUILD, ROOT, run_command_line

BOOK: Final = ROOT / "book"
STAGED: Final = BUILD / "book-src"
WORK: Final = BUILD / "book-work"
SITE: Final = BUILD / "html"
NOT_STAGED: Final = ("ext", "reference")
HEADLINE: Final = (
    "side_effects.table1",
    "accuracy",
)  # beginning and end of the ids that the picture shows
WIDGETS: Final = "application/vnd.jupyter.widget"
ELSEWHERE: Final = ("http:", "https:", "//")
CLAIMS: Final = f'<ul class="{verdicts.FINDINGS_CLASS}'
_LISTED: Final = '<p>The <a href="#claims">list of claims</a> above has each verdict, its evidence and its rule.</p>'
Columns = Callable[[dict[str, Any]], str]


def build() -> Path:
    """Stage, build and check the book, and put it in the place of the last one, which an error leaves alone."""
    check_config(ROOT / "_config.yml")
    # else Sphinx neither renews the navigation of a page that did not change nor warns again of what it has read
    shutil.rmtree(WORK, ignore_errors=True)
    sys.stderr.write("1 of 3: pages are written from the runs ...\n")
    stage()
    sys.stderr.write("2 of 3: Jupyter Book builds the site; this takes a minute or two ...\n")
    built = _jupyter_book()
    sys.stderr.write("3 of 3: links and pages are checked ...\n")
    if problems := sorted(check_site(built)):
        raise PageError(
            "The built site is not right:\n" + "\n".join(f"  {problem}" for problem in problems)
        )
    shutil.rmtree(SITE, ignore_errors=True)
    built.rename(SITE)
    return SITE / "index.html"


def check_config(path: Path) -> None:
    """Refuse, by a PageError, a key of `_config.yml` that Jupyter Book would pass over without a word."""
    package = Path(jupyter_book.__file__).parent
    known = yaml.safe_load((package / "default_config.yml").read_text(encoding="utf-8"))
    schema = json.loads((package / "config_schema.json").read_text(encoding="utf-8"))
    for key, part in schema["properties"].items():
        if known.get(key) is None or isinstance(known[key], dict):
            known[key] = (known.get(key) or {}) | dict.fromkeys(part.get("properties", {}))
    unknown = []
    for key, value in yaml.safe_load(path.read_text(encoding="utf-8")).items():
        below = known.get(key)
        unknown += [key] if key not in known else []
        unknown += (
            [f"{key}.{name}" for name in value if name not in below]
            if below and isinstance(value, dict)
            else []
        )
    if unknown:
        raise PageError(
            f"{path.name} has unknown keys: {', '.join(unknown)}. Known are {', '.join(sorted(known))}."
        )


def stage() -> None:
    """Write what Jupyter Book shall read to `_build/book-src`; a PageError says what cannot be shown."""
    every = chapters()
    pages = Pages(every)
    files: dict[str, bytes | str] = {}
    for chapter in every:
        files |= {f"notebooks/{name}.ipynb": text for name, text in _notebooks(chapter)}
        pages.read(chapter)
    boards = pages.boards()
    titles = {name: text.partition("# ")[2].partition(":")[0] for name, text in boards.items()}
    # the pages are Markdown, and their functions escape what they show
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)  # noqa: S701
    for path in sorted(BOOK.rglob("*")):
        place = path.relative_to(BOOK)
        if not path.is_file() or place.parts[0] in NOT_STAGED or path.name.startswith("."):
            continue
        files[place.as_posix()] = path.read_bytes()
        if path.suffix == ".md":
            try:
                page = environment.from_string(path.read_text(encoding="utf-8")).render(
                    pages.functions()
                )
            except (jinja2.TemplateError, PageError, RecordError, TypeError) as error:
                told = f"{error}. The functions of a page are in publish.pages."
                raise PageError(f"book/{place.as_posix()}: {told}") from error
            files[place.as_posix()] = page
    files["_toc.yml"] = yaml.safe_dump(_contents(every, titles), sort_keys=False)
    files |= boards | {
        f"downloads/{name}": text for name, text in {**pages.files(), **pages.scripts()}.items()
    }
    shutil.rmtree(STAGED, ignore_errors=True)
    for name, content in files.items():
        path = STAGED / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def _contents(every: list[Chapter], boards: Mapping[str, str]) -> dict[str, Any]:
    """The table of contents, with a run on the sample below its chapter, and each paper's numbers below the board."""
    contents: dict[str, Any] = yaml.safe_load((BOOK / "_toc.yml").read_text(encoding="utf-8"))
    beside = {f"notebooks/{chapter.name}" for chapter in every if chapter.beside}
    pages = [page for part in contents["parts"] for page in part["chapters"]]
    for page in pages:
        if page["file"] == "scoreboard":
            page["sections"] = [
                {"file": name.removesuffix(".md"), "title": title} for name, title in boards.items()
            ]
        if page["file"] in beside:
            page.setdefault("sections", []).append({"file": f"{page['file']}_sample"})
    listed = {page["file"] for page in pages if page["file"].startswith("notebooks/")}
    if lacking := sorted(listed ^ {f"notebooks/{chapter.name}" for chapter in every}):
        raise PageError(
            f"book/_toc.yml and the folder notebooks/ do not fit together: {', '.join(lacking)}. "
            "Each notebook needs one entry, and each entry a notebook."
        )
    return contents


def _notebooks(chapter: Chapter) -> Iterator[tuple[str, str]]:
    """The staged notebooks of a chapter: name, content."""
    data = "synthetic data" if chapter.record and chapter.record.synthetic else "real data"
    told = {
        "yours": f"**Your run**, on {data}.",
        "reference": f"**Reference results**, on {data}; `make reproduce` shows your own.",
        "none": "**Not run yet.** This is the source alone; `make reproduce` runs it.",
    }[chapter.origin]
    told += f" [A run on the sample]({chapter.name}_sample.ipynb)." if chapter.beside else ""
    run = f" {inline(run_line(chapter.record))}." if chapter.record else ""
    run += (
        f' <a href="../{viewer.link(chapter.name)}">See every answer</a>.'
        if viewer.arms(chapter)
        else ""
    )
    line = f":::{{div}} rag-run\n{told}{run}\n:::"
    yield chapter.name, _staged(chapter.notebook, line, chapter.record, columns=_columns(chapter))
    if chapter.beside:
        path, record = chapter.beside
        mark = "SAMPLE run" if record.sample else "smoke run"
        text = (
            "Computed on the small bundled sample: it shows that the software works and is no evidence "
            f"about the paper. The chapter itself is [here]({chapter.name}.ipynb)"
        )
        banner = (
            f":::{{admonition}} {mark}\n:class: warning\n{text}. {inline(run_line(record))}.\n:::"
        )
        yield f"{chapter.name}_sample", _staged(path, "", record, f" ({mark})", banner)


def _columns(chapter: Chapter) -> Columns | None:
    """Makes a table of scores or tests anew, linked to rows, scores with other models' columns; None without rows."""
    if not (arms := viewer.arms(chapter)):
        return None
    own, others = viewer.rows(chapter)
    outcomes = Outcomes(own)

    def address(arm: str, against: str = "", model: str = "", text: str = "") -> str:
        asked = (
            {model}
            if model
            else {*own.model[own.arm.isin([arm, against]) & (own.source == "rerun")]} - {""}
        )
        model = (
            asked.pop() if len(asked) == 1 else ""
        )  # the table's numbers are of all that the run asked
        shown = viewer.link(chapter.name, arm, against, model=model, text=text)
        return f"../{shown}" if {arm, against or arm} <= arms else ""

    def made(scores: Mapping[str, Any]) -> str:
        if "tested" in scores:
            return compare.link_comparisons(scores, address).html
        return compare.add_model_columns(outcomes, scores, others, address).html

    return made


def _staged(
    path: Path,
    told: str,
    record: Record | None,
    suffix: str = "",
    banner: str = "",
    columns: Columns | None = None,
) -> str:
    """A notebook as the book shows it: title, what cells tagged `opening` show, claims, which run, text and code."""
    number = re.match(r"\d+(?=_)", path.stem)
    title = f"{number[0]} \N{MIDDLE DOT} {heading(path)}" if number else heading(path)
    notebook = read_notebook(path)
    notebook["metadata"] = {
        k: v for k, v in notebook["metadata"].items() if k not in ("widgets", "papermill")
    }
    listed = findings(record) if record else ""
    opening: list[dict[str, Any]] = []
    for place, cell in enumerate(notebook["cells"], 1):
        if cell["cell_type"] == "code":
            tags = cell["metadata"].setdefault("tags", [])
            tags.append("hide-input")  # a click shows the code
            cell["outputs"] = [
                o
                for o in cell["outputs"]
                if not any(m.startswith(WIDGETS) for m in o.get("data", ()))
            ]
            for output in cell["outputs"]:
                if output["output_type"] == "error" and "raises-exception" not in tags:
                    shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
                    raise PageError(
                        f"{shown}: cell {place} ended in {output['ename']}: {output['evalue']}. A notebook with an "
                        "error is no result. Mend it and run it again."
                    )
                if (scores := output.get("data", {}).pop(SCORES, None)) and columns:
                    output["data"]["text/html"] = columns(scores)
                if text := "".join(output.get("data", {}).get("text/markdown", "")):
                    output["data"]["text/markdown"] = re.sub(
                        r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", text
                    )
                if said := _sentence(output.get("data", {})):
                    output["data"] = {"text/html": f"<p>{escape(said)}</p>"}
                if listed and CLAIMS in "".join(output.get("data", {}).get("text/html", "")):
                    output["data"] = {"text/html": _LISTED}
            if "opening" in tags:
                opening += filter(_opens, cell["outputs"])
                cell["outputs"] = [o for o in cell["outputs"] if not _opens(o)]
        elif suffix:
            # the chapter beside it has the same targets
            cell["source"] = re.sub(r"(?m)^\([\w-]+\)=\n", "", cell["source"])
    notebook["cells"] = list(_joined(notebook["cells"]))
    first = notebook["cells"][0]
    first["source"] = f"{first['source'].partition(chr(10))[2]}\n\n{listed}\n\n{told}"
    head = {"cell_type": "markdown", "metadata": {}, "source": f"# {title}{suffix}\n\n{banner}"}
    # MyST-NB leaves out cells without a source
    code = {
        "cell_type": "code",
        "metadata": {"tags": ["remove-input"]},
        "execution_count": None,
        "source": "...",
    }
    notebook["cells"][:0] = [head, code | {"outputs": opening}] if opening else [head]
    return json.dumps(notebook)


def _joined(cells: Iterable[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Cells, of which code that shows nothing is joined with the code after it: one box to unfold, not several.

    Cells that no page shows are left out, for else their code would be shown with that of their neighbours.
    """
    shown = [cell for cell in cells if "remove-cell" not in cell["metadata"].get("tags", ())]
    silent: list[str] = []
    for cell, following in pairwise([*shown, {"cell_type": ""}]):
        if cell["cell_type"] == following["cell_type"] == "code" and not cell["outputs"]:
            silent.append(cell["source"])
        else:
            yield cell | {"source": "\n\n".join([*silent, cell["source"]])}
            silent = []


def _sentence(data: Mapping[str, Any]) -> str:
    """The text that a cell ends with, which a notebook shows as Python writes it, in quotes; empty if it is none."""
    text = "".join(data["text/plain"]) if data.keys() == {"text/plain"} else ""
    return str(ast.literal_eval(text)) if text[:1] in ("'", '"') else ""


def _opens(output: Mapping[str, Any]) -> bool:
    data = output.get("data", {})
    return "text/markdown" in data or "<figure" in "".join(data.get("text/html", ""))


def _jupyter_book() -> Path:
    """Run Jupyter Book on what is staged; returns the folder of the site."""
    command = [str(Path(sys.executable).with_name("jupyter-book")), "build", str(STAGED)]
    command += [
        "--config",
        str(ROOT / "_config.yml"),
        "--path-output",
        str(WORK),
        "-W",
        "--keep-going",
        "-q",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        said = re.sub(r"\x1b\[[0-9;]*m", "", done.stdout + done.stderr)
        lines = [
            line for line in said.splitlines() if re.search(r"WARNING|ERROR|Error|error", line)
        ]
        raise PageError("Jupyter Book failed:\n" + "\n".join(lines or said.splitlines()[-20:]))
    site = WORK / "_build" / "html"
    # the theme's 1.5 MB of icons as a script: those of its buttons come from its font anyway
    for script in site.glob("_static/scripts/fontawesome.js*"):
        script.unlink()
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        page.write_text(
            re.sub(r"<script [^>]*fontawesome\.js[^>]*></script>", "", text), encoding="utf-8"
        )
    return site


class _Links(HTMLParser):
    """Anchors, links and loaded files of one page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.without_alt = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given["id"]} if "id" in given else set()
        if tag == "a" and "href" in given:
            self.links.add(given["href"])
        if tag == "link" and given.get("rel") in ("stylesheet", "preload", "modulepreload", "icon"):
            self.loads.add(given.get("href", ""))
        self.loads |= {given["src"]} if "src" in given else set()
        self.without_alt += tag == "img" and "alt" not in given


def check_site(site: Path) -> Iterator[str]:
    """What is wrong with a built site: broken links, files from elsewhere, images without alternative text."""
    pages = {
        path: _Links(path.read_text(encoding="utf-8"))
        for path in site.rglob("*.html")
        if not path.relative_to(site).parts[0].startswith("_")
    }
    for path, page in pages.items():
        name = path.relative_to(site)
        if page.without_alt:
            yield f"{name}: {page.without_alt} images have no alternative text"
        yield from (
            f"{name}: asks another site for {url}"
            for url in page.loads
            if url.startswith(ELSEWHERE)
        )
        for url in {*page.links, *page.loads}:
            parts = urlsplit(url)
            if parts.scheme or url.startswith(ELSEWHERE) or url in ("", "#"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.exists():
                yield f"{name}: {url} leads nowhere"
            elif "=" in parts.fragment:  # filters of the answer viewer
                continue
            elif (
                target in pages
                and parts.fragment
                and unquote(parts.fragment) not in pages[target].ids
            ):
                yield f"{name}: {url} names a place that its page does not have"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m publish.book", description="Build the book.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("build", help="the whole book, under _build/html")
    commands.add_parser("picture", help="the scoreboard's picture alone").add_argument(
        "file", type=Path
    )
    given = parser.parse_args(arguments)
    made = (
        Pages(chapters()).drawn(*HEADLINE).save(given.file)
        if given.command == "picture"
        else build()
    )
    sys.stdout.write(f"Made: {made}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
