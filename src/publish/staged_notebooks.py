"""Notebooks as the book shows them: title, claims, which run, text and code."""

import ast
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from evaluation import book_links, compare, verdicts
from evaluation.figures import SCORES, inline
from evaluation.markup import escape
from evaluation.outcomes import Outcomes
from evaluation.records import Record
from publish import viewer
from publish.chapter_extras import Exhibit, footer, label_code, number_exhibits, open_core
from publish.chapters import Chapter, PageError, heading
from publish.diagrams import diagram_of, small_diagrams
from publish.headlines import read_headlines
from publish.pieces import ACROSS, findings, kind_of_data, run_line
from resources.parameters import read_notebook
from resources.settings import ROOT

WIDGETS: Final = "application/vnd.jupyter.widget"
CLAIMS: Final = f'<ul class="{verdicts.FINDINGS_CLASS}'
_LISTED: Final = (
    '<p>The <a href="#claims">list of claims</a> above has each verdict, its evidence and its '
    "rule.</p>"
)
Cell = dict[str, Any]
Output = dict[str, Any]
MakeTable = Callable[[dict[str, Any]], str]
"""Makes the HTML of a table from its scores."""


@dataclass(frozen=True)
class StagedPage:
    """A notebook as Jupyter Book reads it.

    Attributes:
        name: Its name, without an ending.
        content: Its JSON.
        exhibits: Its figures and tables, numbered.
    """

    name: str
    content: str
    exhibits: list[Exhibit]


def staged_notebooks(chapter: Chapter) -> Iterator[StagedPage]:
    """Yield the pages of a chapter: itself, and a run on the sample if there is one."""
    line = f":::{{div}} rag-run\n{_run_sentences(chapter)}\n:::"
    notebook = StagedNotebook(
        chapter.notebook,
        line,
        chapter.record,
        make_table=_linked_tables(chapter),
        chapter=chapter,
    )
    yield notebook.page(chapter.name)
    if chapter.beside:
        path, record = chapter.beside
        mark = "SAMPLE run" if record.sample else "smoke run"
        text = (
            "This run used the small bundled sample. It shows that the software works, and is no "
            "evidence about the paper. "
            f"The chapter itself is [here]({chapter.name}.ipynb)"
        )
        banner = (
            f":::{{admonition}} {mark}\n:class: warning\n{text}. {inline(run_line(record))}.\n:::"
        )
        sample = StagedNotebook(path, "", record, suffix=f" ({mark})", banner=banner)
        yield sample.page(f"{chapter.name}_sample")


def _run_sentences(chapter: Chapter) -> str:
    """Say which run of a chapter is shown, with links to its other run and to its answers."""
    record = chapter.record
    data = f"{kind_of_data(record) if record else 'real'} data"
    sentences = {
        "yours": f"**Run on the machine that built this book**, with {data}.",
        "reference": f"**Reference results**, with {data}. `make reproduce` shows your results.",
        "none": "**Not run yet.** This page shows only the code, which `make reproduce` runs.",
    }[chapter.origin]
    if chapter.beside:
        sentences += f" A [smaller run]({chapter.name}_sample.ipynb) shows that the software works."
    if record:
        sentences += f" {inline(run_line(record))}."
    if viewer.arms(chapter):
        sentences += (
            f' <a href="../{book_links.answers_address(chapter.name)}">See every answer</a>.'
        )
    return sentences


def _linked_tables(chapter: Chapter) -> MakeTable | None:
    """Return what makes a table of scores or tests anew, with links; None without rows."""
    arms = viewer.arms(chapter)
    if not arms:
        return None
    own, others = viewer.rows(chapter)
    outcomes = Outcomes(own)

    def address(arm: str, against: str = "", model: str = "", text: str = "") -> str:
        if not {arm, against or arm} <= arms:
            return ""
        model = model or _only_model(own, [arm, against])
        return "../" + book_links.answers_address(
            chapter.name, arm, against, model=model, text=text
        )

    def make_table(scores: Mapping[str, Any]) -> str:
        if "tested" in scores:
            return compare.link_comparisons(scores, address).html
        return compare.add_model_columns(outcomes, scores, others, address).html

    return make_table


def _only_model(rows: Any, arms: list[str]) -> str:  # noqa: ANN401  # a DataFrame
    """Return the model that the run asked for these arms, "" if there are several or none."""
    rerun = rows[rows.arm.isin(arms) & (rows.source == "rerun")]
    models = set(rerun.model) - {""}
    return models.pop() if len(models) == 1 else ""


@dataclass(frozen=True)
class StagedNotebook:
    """A notebook as the book shows it.

    Outputs of cells tagged `opening` and the claims stand at its beginning, with the run.
    """

    path: Path
    run: str = ""
    """Markdown that says which run is shown."""
    record: Record | None = None
    suffix: str = ""
    """What the title ends with, for a run beside the chapter's."""
    banner: str = ""
    """Markdown below the title."""
    make_table: MakeTable | None = None
    chapter: Chapter | None = None
    """The chapter whose architecture and footer the page shows."""

    def page(self, name: str) -> StagedPage:
        """Return the page of that name.

        Raises:
            PageError: A cell ended in an error that its tags do not allow.
        """
        notebook = read_notebook(self.path)
        for key in ("widgets", "papermill"):
            notebook["metadata"].pop(key, None)
        claims = findings(self.record) if self.record else ""
        opening: list[Output] = []
        for number, cell in enumerate(notebook["cells"], 1):
            if cell["cell_type"] == "code":
                self._stage_code(cell, number, has_claims=bool(claims))
                opening += _take_opening(cell)
            elif self.suffix:
                # the chapter beside it has the same targets
                cell["source"] = re.sub(r"(?m)^\([\w-]+\)=\n", "", cell["source"])
        cells = list(join_cells(notebook["cells"]))
        text = cells[0]["source"].partition("\n")[2]
        cells[0]["source"] = f"{text}\n\n{claims}\n\n{self.run}\n\n{self._diagram()}"
        cells = [self._title_cell(), *_opening_cells(opening), *cells]
        exhibits = number_exhibits(cells, self.path.stem[:2].strip("_"))
        label_code(cells)
        open_core(cells)
        notebook["cells"] = cells + self._footer_cells(exhibits)
        return StagedPage(name, json.dumps(notebook), exhibits)

    def _diagram(self) -> str:
        """Return the architecture that the chapter is about, "" if there is none."""
        if self.chapter is None or not self.chapter.paper:
            return ""
        if self.chapter.paper == ACROSS:
            methods = {paper: entry.method for paper, entry in read_headlines().items()}
            return small_diagrams(methods, "../")
        return diagram_of(self.chapter.paper, "../", self.chapter.name)

    def _footer_cells(self, exhibits: list[Exhibit]) -> list[Cell]:
        if self.chapter is None:
            return []
        has_tables = any(exhibit.kind == "Table" for exhibit in exhibits)
        source = footer(self.chapter, has_tables=has_tables)
        return [{"cell_type": "markdown", "metadata": {}, "source": source}]

    def _title_cell(self) -> Cell:
        number = re.match(r"\d+(?=_)", self.path.stem)
        title = heading(self.path)
        if number:
            title = f"{number[0]} \N{MIDDLE DOT} {title}"
        source = f"# {title}{self.suffix}\n\n{self.banner}"
        return {"cell_type": "markdown", "metadata": {}, "source": source}

    def _stage_code(self, cell: Cell, number: int, *, has_claims: bool) -> None:
        """Change a cell of code to what the book shows of it."""
        tags = cell["metadata"].setdefault("tags", [])
        tags.append("hide-input")  # a click shows the code
        cell["outputs"] = [output for output in cell["outputs"] if not _is_widget(output)]
        for output in cell["outputs"]:
            if output["output_type"] == "error" and "raises-exception" not in tags:
                raise self._error(output, number)
            self._stage_output(output, has_claims=has_claims)
        cell["outputs"] = _once_listed(cell["outputs"])

    def _error(self, output: Output, number: int) -> PageError:
        path = self.path
        if path.is_relative_to(ROOT):
            path = path.relative_to(ROOT)
        return PageError(
            f"{path}: cell {number} ended in {output['ename']}: {output['evalue']}. "
            "A notebook with an error is no result. Mend it and run it again."
        )

    def _stage_output(self, output: Output, *, has_claims: bool) -> None:
        """Change an output to what the book shows of it."""
        data = output.get("data", {})
        scores = data.pop(SCORES, None)
        if scores and self.make_table:
            data["text/html"] = self.make_table(scores)
        text = "".join(data.get("text/markdown", ""))
        if text:
            data["text/markdown"] = re.sub(r"(?<=\d) (?=%)", "\N{NO-BREAK SPACE}", text)
        sentence = _sentence(data)
        if sentence:
            output["data"] = {"text/html": f"<p>{escape(sentence)}</p>"}
        elif has_claims and CLAIMS in "".join(data.get("text/html", "")):
            output["data"] = {"text/html": _LISTED}


def _once_listed(outputs: Sequence[Output]) -> list[Output]:
    """Refer to the list of claims once, however many of a cell's outputs it replaces."""
    shown: list[Output] = []
    for output in outputs:
        is_listed = output.get("data", {}).get("text/html") == _LISTED
        if not (is_listed and output in shown):
            shown.append(output)
    return shown


def join_cells(cells: Iterable[Cell]) -> Iterator[Cell]:
    """Yield cells, joining code that shows nothing with the code after it.

    The reader has one box to unfold, not several. Cells that no page shows are left out, for else
    their code would be shown with that of their neighbours.
    """
    shown = [cell for cell in cells if "remove-cell" not in cell["metadata"].get("tags", ())]
    silent: list[str] = []
    for cell, following in pairwise([*shown, {"cell_type": ""}]):
        if cell["cell_type"] == following["cell_type"] == "code" and not cell["outputs"]:
            silent.append(cell["source"])
        else:
            yield cell | {"source": "\n\n".join([*silent, cell["source"]])}
            silent = []


def _is_widget(output: Output) -> bool:
    return any(name.startswith(WIDGETS) for name in output.get("data", ()))


def _take_opening(cell: Cell) -> list[Output]:
    """Take from a cell tagged `opening` the outputs that stand at the beginning."""
    if "opening" not in cell["metadata"]["tags"]:
        return []
    opening = [output for output in cell["outputs"] if _opens(output)]
    cell["outputs"] = [output for output in cell["outputs"] if not _opens(output)]
    return opening


def _opening_cells(outputs: list[Output]) -> list[Cell]:
    """Return a cell that shows these outputs, none without outputs.

    Of the answer, the first paragraph stands above the figures and the others below them.
    """
    if not outputs:
        return []
    above: list[Output] = []
    below: list[Output] = []
    for output in outputs:
        answer, _, details = _markdown(output).partition("\n\n")
        if details:
            above.append(_with_markdown(output, answer))
            below.append(_with_markdown(output, details))
        else:
            above.append(output)
    cell = {
        "cell_type": "code",
        "metadata": {"tags": ["remove-input"]},
        "execution_count": None,
        "source": "...",  # MyST-NB leaves out cells without a source
        "outputs": above + below,
    }
    return [cell]


def _markdown(output: Output) -> str:
    return "".join(output.get("data", {}).get("text/markdown", ""))


def _with_markdown(output: Output, text: str) -> Output:
    return {**output, "data": {"text/markdown": text}}


def _sentence(data: Mapping[str, Any]) -> str:
    """Return the text that a cell ends with, "" if it ends with none.

    A notebook shows the text as Python writes it, in quotes.
    """
    text = "".join(data["text/plain"]) if data.keys() == {"text/plain"} else ""
    return str(ast.literal_eval(text)) if text[:1] in ("'", '"') else ""


def _opens(output: Output) -> bool:
    data = output.get("data", {})
    return "text/markdown" in data or "<figure" in "".join(data.get("text/html", ""))
