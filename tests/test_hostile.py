"""Text of models, documents and servers is shown as it is: nothing of it becomes an element, an attribute or a formula.

Every public function that gives HTML is asked twice, with hostile and with harmless text, and must give the same
elements and attributes; what it shows of the harmless text it must show of the hostile one.
"""

from __future__ import annotations

import importlib
import inspect
import io
import json
import pkgutil
import re
import tempfile
import warnings
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from itertools import zip_longest
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

import matplotlib.pyplot as plt
import pandas as pd
import pytest
import yaml
from markdown_it.renderer import RendererHTML
from myst_parser.config.main import MdParserConfig
from myst_parser.parsers.mdit import create_md_parser
from rich.console import Console

import evaluation
import helpers
import papers
import publish
import rag
import resources
from evaluation import (
    answers,
    compare,
    figures,
    markup,
    published,
    record,
    records,
    rules,
    verdicts,
)
from evaluation.answers import Answer, make_row
from evaluation.markup import fine_print, sortable
from evaluation.metrics import proportion
from evaluation.outcomes import Outcomes
from helpers.llm import Usage
from helpers.requests import Store
from papers.across_papers import methods, what_to_build
from papers.across_papers.questions import KindQuestion
from papers.qa_rag import judge
from publish import (
    board_tables,
    chapters,
    pages,
    pieces,
    run_pages,
    scoreboard,
    staged_notebooks,
    viewer,
)
from rag.system_answer import Evidence, SystemAnswer
from resources import settings
from resources.datasets import Located

CHAPTER = "01_side_effects_forward"
HARMLESS = "harmless"
HOSTILE = [
    "<script>alert('x')</script>",
    "<img src=x onerror=alert(1)><svg/onload=alert(1)>",
    '" onmouseover="alert(1)" x=\'y\'><b>',
    "</td></table></div></svg></style></pre><h1>out</h1>",
    "<!-- never closed",
    "--> <!DOCTYPE x> <?php x ?>",
    "]]> <![CDATA[x]]>",
    r"costs $5 or $\frac{$ or \(x\) or $$y$$",
    r"$\mathdefault{\frac{}$",
    "{{ 7 * 7 }} {% raw %} {{ undefined }}",
    "`code` ``` {cite}`nygren2025side` {raw}`html`",
    "```{raw} html\n<b>raw</b>\n```",
    "one\n\n# heading\n\n- item\n\n:::{admonition} x\ninside\n:::\n\n(target)=\n\n---\n",
    "one\r\r[link](https://example.org) ![image](x.png)\r\n\r\n| a | b |\n|---|---|\n| c | d |",
    "*stars* __lines__ ~~gone~~ [text]{.class} www.example.org https://example.org x@example.org",
    "a & b &lt;b&gt; &#60;b&#62; &amp;",
    "[red]rich[/] [/nothing] [link=https://example.org]",
    "nul \0 escape \x1b[31m bell \x07 delete \x7f next \x85 \u2028 \u2029 \ufffe",
    "right \u202e to left \u2066 \u2067",
    "w" * 5000,
]
SURROGATES = "half \ud83d of a pair \udfff"  # which JSON and models may give, and no file can hold
IN_A_LINE = " ".join([*HOSTILE, SURROGATES])
IN_BLOCKS = "\n\n".join(["```{raw} html\n<b>first</b>\n```", "# heading", *reversed(HOSTILE)])
"""Each has all of it: some does harm only within a line, some only where a line or the whole begins."""


class Page(HTMLParser):
    """What a browser makes of a piece of HTML: elements with their attributes, and the text between them."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[str] = []
        self.other: list[str] = []
        self.text = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append(
            (
                tag,
                tuple(
                    f"{n}={v}" if n in ("class", "href", "src", "style") else n for n, v in attrs
                ),
            )
        )
        self.values += [value or "" for _, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        self.other.append(data)

    def handle_pi(self, data: str) -> None:
        self.other.append(data)

    def handle_decl(self, decl: str) -> None:
        self.other.append(decl)

    def unknown_decl(self, data: str) -> None:
        self.other.append(data)

    def shows(self, text: str) -> bool:
        """Whether a text is read or heard, however its lines are broken."""
        expected = " ".join(markup.readable(text).split())
        content = " ".join([self.text, *self.values]).replace("\N{NO-BREAK SPACE}", " ")
        return expected in " ".join(content.split())


def as_page(markdown: str) -> str:
    """What the book makes of Markdown, with the extensions of its configuration."""
    extensions = yaml.safe_load((settings.ROOT / "_config.yml").read_text(encoding="utf-8"))
    config = MdParserConfig(enable_extensions=set(extensions["parse"]["myst_enable_extensions"]))
    return str(create_md_parser(config, RendererHTML).render(markdown))


# ------------------------------------------------------------------------------------------------------- the renderers


def table(text: str) -> str:
    frame = pd.DataFrame(
        {text: [text, text], "b": [1, text]}, index=pd.Index([text, "x"], name="name")
    )
    return figures.table(frame, text, sample=True, formats={"b": str}).html


def cells_of_html(text: str) -> str:
    filled = markup.Markup("<b>{}</b>").format(text) + text + markup.Markup(", ").join([text, text])
    return figures.table(pd.DataFrame({"a": [filled]}), "x").html


def figure(text: str) -> str:
    return figures.figure(plt.figure(), alt=f"It says {text}.", caption=text, sample=True).html


def prompt_box(text: str) -> str:
    return figures.prompt_box([{"role": text, "content": text}], answer=text, caption=text).html


def from_a_system(text: str) -> str:
    """The answer of a system to a question, with all that it rests on."""
    return SystemAnswer(
        text,
        text,
        evidence=(Evidence(text, text),),
        citations=(text,),
        statement=text,
        parameters={"a": text},
        notes=(text,),
    )._repr_html_()


def outcomes(text: str) -> Outcomes:
    """Two arms, one of them named by the text, and a stratum of that name."""
    rows = [
        make_row(
            Answer(predicted=label, strata={"kind": text}, measures={"seconds": (1.0, 1.0)}),
            question,
            arm=arm,
        )
        for question in (
            KindQuestion("plain", text, True, (text,), text),
            KindQuestion("both", text, False, ("d",), text),
        )
        for arm, label in (("graph", question.gold), ("text", "YES"))
    ]
    return Outcomes(rows, labels={"graph": text, "text": "Text"}, draws=100)


def decided(text: str) -> str:
    run = record.start(
        notebook="18_across_papers", paper="across_papers", profile="smoke", parameters={}
    )
    return rules.decide(run, outcomes(text), "hybrid_beats_dense", "names_normalised_help").html


def findings(text: str) -> str:
    claim = (
        published.published("side_effects")
        .claims[0]
        .model_copy(update={"text": text, "note": text})
    )
    finding = records.Finding.model_construct(id=claim.id, verdict=text, test=text, why=text)
    return verdicts.findings([claim], [finding], sample=False).html


def disagreements(text: str) -> str:
    run = record.start(notebook=CHAPTER, paper="side_effects", profile="smoke", parameters={})
    odd = run.printed.contradictions[0]
    places = tuple(place.model_copy(update={"what": text, "where": text}) for place in odd.says)
    odd = odd.model_copy(update={"about": text, "says": places})
    run.printed = run.printed.model_copy(update={"contradictions": (odd,)})
    return verdicts.disagreements(run).html


def of_a_judge(text: str) -> str:
    run = record.start(
        notebook="16_qarag_retrieval", paper="qa_rag", profile="smoke", parameters={}
    )
    run.printed = run.printed.model_copy(update={"numbers": ()})
    return judge.report(run, Outcomes([]), {"precision": text, "recall": text}, text, text).html


def dots(text: str) -> str:
    # under the project's own names: a longer one leaves the axis fewer numbers, which is no fault
    return Outcomes(outcomes(text).frame, draws=100).interval_plot(["accuracy"], text).html


def advice(text: str) -> str:
    """The chapter on what to build, of one task whose names and model are the text."""
    rows = outcomes(text).frame
    rows["model"] = [text if arm == "text" else "" for arm in rows.arm]
    rows["requests"] = [["key"] if arm == "text" else [] for arm in rows.arm]
    task = methods.Task(
        CHAPTER, text, "accuracy", {"graph": text, "text": text}, remark=text, texts=text
    )
    run = record.start(notebook=CHAPTER, paper="side_effects", profile="smoke", parameters={})
    with tempfile.TemporaryDirectory() as folder:
        stored_record = records.load(run.save(Path(folder) / "r.json"))
        task_result = methods.compare_methods(
            task, methods.RunAnswers(stored_record, rows, Store(Path(folder)))
        )
    assert task_result
    chapter = what_to_build.Advice([task_result])
    # the figures hold names of the project alone; a longer one takes more lines of them
    # an address may hold the model's name, in its own code
    html = chapter.table().html + chapter.methods_table().html
    return re.sub(r"&amp;model=[\w.%~-]*", "", html)


def beside_models(out: Outcomes, text: str) -> str:
    scores = out.table(["accuracy"], text).scores
    assert scores
    return compare.add_model_columns(out, scores, {text: out.frame}, lambda *_: "answers.html").html


def linked_tests(out: Outcomes, text: str) -> str:
    scores = out.comparison_table(out.compare([("graph", "text")], "accuracy"), text).scores
    assert scores
    return compare.link_comparisons(scores, lambda *_: "answers.html").html


DIRECT: dict[str, Callable[[str], str]] = {
    "papers.across_papers.what_to_build.Advice": advice,
    "evaluation.rules.decide": decided,
    "evaluation.verdicts.disagreements": disagreements,
    "evaluation.verdicts.evidence_lines": lambda text: verdicts.evidence_lines(
        f"{text}, n = 1; {text}"
    ),
    "evaluation.verdicts.findings": findings,
    "evaluation.verdicts.verdict_mark": verdicts.verdict_mark,
    "evaluation.verdicts.verdict_with_reason": lambda text: verdicts.verdict_with_reason(
        text, text
    ),
    "evaluation.outcomes.Outcomes.table": lambda text: (
        outcomes(text).table(["accuracy"], text, by="kind").html
    ),
    "evaluation.outcomes.Outcomes.reproduction_table": lambda text: (
        outcomes(text)
        .reproduction_table(published.published("across_papers"), "none", ["accuracy"], text)
        .html
    ),
    "evaluation.outcomes.Outcomes.interval_plot": dots,
    "evaluation.outcomes.Outcomes.comparison_table": lambda text: (
        outcomes(text)
        .comparison_table(outcomes(text).compare([("graph", "text")], "accuracy"), text)
        .html
    ),
    "evaluation.compare.add_model_columns": lambda text: beside_models(outcomes(text), text),
    "evaluation.compare.link_comparisons": lambda text: linked_tests(outcomes(text), text),
    "evaluation.figures.table": table,
    "evaluation.markup.Markup": cells_of_html,
    "evaluation.figures.figure": figure,
    "evaluation.figures.prompt_box": prompt_box,
    "evaluation.figures.inline": lambda text: as_page(
        f"A model says {figures.inline(text)}, and **{figures.inline(text)}**."
    ),
    "evaluation.markup.sortable": lambda text: sortable(1.0, text),
    "publish.pieces.absent": pieces.absent,
    "evaluation.markup.fine_print": fine_print,
    "publish.pieces.folded": lambda text: pieces.folded(text, text),
    "publish.pieces.digits": pieces.digits,
    "publish.pieces.link_to": lambda text: pieces.link_to("01_x", text),
    "qa_rag.judge.report": of_a_judge,
    "rag.system_answer": from_a_system,
}
OF_A_RECORD = {
    "publish.pieces.findings",
    "publish.selections.link",
    "publish.selections.linked",
    *(
        f"publish.claim_pages.{name}"
        for name in ("folded_trial", "here_words", "link_verdict", "rows_link")
    ),
    *(f"publish.pages.Pages.{name}" for name in pages.Pages([]).functions()),
}


def own_functions(module: ModuleType) -> Iterator[tuple[str, FunctionType]]:
    """The public functions of a module, and of its classes where they are part of the API of notebooks."""
    for name, thing in vars(module).items():
        if getattr(thing, "__module__", "") != module.__name__ or name.startswith("_"):
            continue
        if inspect.isfunction(thing):
            yield name, thing
        if inspect.isclass(thing) and module.__name__.startswith("evaluation"):
            for method, function in vars(thing).items():
                if inspect.isfunction(function):
                    yield f"{name}.{method}", function


def gives_html(function: FunctionType) -> bool:
    """By its annotation: a class, or the name of one."""
    returned = str(inspect.signature(function).return_annotation).rstrip("'>")
    return returned.rpartition(".")[2] in ("Html", "Picture", "Markup")


def modules_that_make_html() -> Iterator[ModuleType]:
    """The others pass on what functions of these made."""
    packages = (evaluation, helpers, papers, publish, rag, resources)
    for package in packages:
        for module_info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            try:
                module = importlib.import_module(module_info.name)
            except ModuleNotFoundError:
                continue  # a program of another environment
            if re.search(r"\b(Html|Picture|Markup)\(", inspect.getsource(module)):
                yield module


def test_no_function_that_gives_html_is_missing_here() -> None:
    functions = {
        f"{module.__name__.removeprefix('papers.')}.{name}"
        for module in modules_that_make_html()
        for name, function in own_functions(module)
        if gives_html(function)
    }
    assert len(functions) > len(DIRECT) / 2, "the modules have moved"
    assert functions - {*DIRECT, *OF_A_RECORD} == set()


def harm(hostile: str, harmless: str, text: str) -> str:
    """In what the hostile page differs from the harmless one but for the text; nothing, if it is as it should be."""
    hostile.encode("utf-8")
    bad, good = Page(hostile), Page(harmless)
    if bad.elements != good.elements:
        return f"other elements or attributes: {first_difference(bad.elements, good.elements)}"
    if bad.other != good.other:
        return f"comments or declarations: {bad.other}"
    if good.shows(HARMLESS) and not bad.shows(text):
        return "the text is not shown"
    return ""


def first_difference(texts: list[Any], others: list[Any]) -> tuple[Any, Any]:
    """The first pair of elements that are not equal."""
    return next(pair for pair in zip_longest(texts, others) if pair[0] != pair[1])


@pytest.mark.parametrize("name", DIRECT)
def test_hostile_text_is_shown_and_does_nothing(name: str) -> None:
    harmless = DIRECT[name](HARMLESS)
    assert Page(harmless).shows(HARMLESS)
    for text in (IN_A_LINE, IN_BLOCKS):
        if harm(DIRECT[name](text), harmless, text):
            harm_by_part = {part[:40]: harm(DIRECT[name](part), harmless, part) for part in HOSTILE}
            pytest.fail(f"{harm(DIRECT[name](text), harmless, text)}; one by one: {harm_by_part}")


def test_a_terminal_is_shown_hostile_text_and_does_not_obey_it() -> None:
    for text in (IN_A_LINE, IN_BLOCKS):
        box = repr(figures.prompt_box([{"role": text, "content": text}]))
        box.encode("utf-8")
        assert not set(box) & set("\0\x07\x1b\x7f\u202e")


def draw(words: str) -> str:
    """A drawing with these words in each place that can hold some."""
    fig, axes = plt.subplots()
    axes.barh([words, "b"], [1, 2], label=words)
    axes.set(title=words, xlabel=words)
    axes.annotate(words, (0, 0))
    axes.legend(title=words)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that the font lacks a control character
        return figures.figure(fig, alt="x").svg


FORMULAS = [text for text in HOSTILE if "$" in text]


@pytest.mark.parametrize(
    "text", [" ".join(text for text in HOSTILE if "$" not in text), *FORMULAS], ids=lambda _: ""
)
def test_a_figure_draws_hostile_text_as_it_is(text: str) -> None:
    figures.use_style()
    svg = draw(text)
    ET.fromstring(svg)  # a file of its own is XML
    bad, good = Page(svg), Page(draw(HARMLESS))
    assert {tag for tag, _ in bad.elements} <= {tag for tag, _ in good.elements}
    assert not bad.other
    for word in markup.readable(text).split():
        assert bad.text.count(word) >= 5, word


def test_a_logarithmic_axis_keeps_its_powers() -> None:
    figures.use_style()
    fig, axes = plt.subplots()
    axes.plot([1, 1e6], [1, 10])
    axes.set(xscale="log", title="costs $5 and $6")
    text = Page(figures.figure(fig, alt="x").svg).text
    assert "mathdefault" not in text
    assert "costs $5 and $6" in text


# ---------------------------------------------------------------------------------------------------------- the pages


@pytest.fixture
def book_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], pages.Pages]:
    """The pages of a book whose only run has a text in every place that can hold one."""
    folder = tmp_path / "records"
    for module in (records, chapters):
        monkeypatch.setattr(module, "RECORDS", folder)
    for module in (run_pages, chapters, scoreboard):
        monkeypatch.setattr(module, "RESULTS", tmp_path / "none")
    monkeypatch.setattr(answers, "BUILT", tmp_path / "answers")
    viewer._rows.cache_clear()  # of another test's folder of the same name
    monkeypatch.setattr(answers, "RELEASED", tmp_path / "none")

    def make(text: str) -> pages.Pages:
        run = record.start(
            notebook=CHAPTER,
            paper="side_effects",
            profile="laptop",
            parameters={"p": text, "q": [text]},
        )
        run.data(Located("side_effects/evaluation_dataset.csv", Path("x"), False, "a" * 64, text))
        run.model(text, "b" * 64, engine=text, version=text, role=text)
        run.count_requests(
            Usage(requests=10, prompt_tokens=1_000, generated_tokens=100, seconds=2.0), text
        )
        run.timing(text, 1.0, **{text: 3.0})
        run.rescored(
            "side_effects.table1.graphrag.accuracy", proportion(9, 10), note=text, source=text
        )
        run.rerun("side_effects.table1.graphrag.accuracy", proportion(9, 10), model=text, note=text)
        run.not_run("side_effects.table1.graphrag.f1", text)
        run.cannot_run("side_effects.table1.format_a.f1", text)
        for claim in run.printed.claims:
            run.claim(claim.id, "agrees", text, test=text, p=0.01)
        path = run.save(folder / "laptop" / f"{CHAPTER}.json")
        rows = outcomes(text).frame
        rows["arm"] = rows["arm"].map({"graph": "graphrag", "text": "format_b"})
        answers.write(answers.BUILT / "laptop" / CHAPTER, rows, licence="CC0-1.0")
        # as it was before it was saved: a record may be of another version, or another's
        plain = json.loads(path.read_text(encoding="utf-8"))
        for part in ("values", "reasons", "claims"):
            for entry in plain[part]:
                entry |= {
                    key: text
                    for key in ("note", "model", "cell", "source", "why", "test", "label")
                    if entry.get(key)
                }
        origin = plain["provenance"]
        origin |= dict.fromkeys(("python", "platform", "cpu", "commit"), text) | {
            "packages": {text: text}
        }
        origin["parameters"] = {text: text}
        origin["data"][0]["source"] = text
        origin["models"] = [
            {**origin["models"][0], **dict.fromkeys(("name", "engine", "version", "role"), text)}
        ]
        origin["timings"] = [
            {**step, "name": text, "counts": {**step["counts"], text: 1.0}}
            for step in origin["timings"]
        ]
        path.write_text(json.dumps({**plain, "seal": records.seal(plain)}), encoding="utf-8")
        error = {"output_type": "error", "ename": text, "evalue": text, "traceback": [text]}
        cells: list[dict[str, object]] = [
            {"cell_type": "markdown", "source": "# Title", "metadata": {}}
        ]
        cells.append({"cell_type": "code", "source": "", "metadata": {}, "outputs": [error]})
        failed = tmp_path / f"{CHAPTER}.ipynb"
        failed.write_text(json.dumps({"cells": cells, "metadata": {}}), encoding="utf-8")
        source = settings.NOTEBOOKS / f"{CHAPTER}.ipynb"
        return pages.Pages(
            [chapters.Chapter(CHAPTER, "yours", source, records.load(path), None, failed)]
        )

    return make


def page_texts(book: pages.Pages) -> dict[str, str]:
    """What each function of the pages gives, and the beginning of the staged notebook, as HTML of the book."""
    number = "side_effects.table1.graphrag.accuracy"
    arguments = {
        "n_questions": [number],
        "printed": [number],
        "value": [number],
        "verdict": ["agrees"],
        "file": ["CITATION.cff"],
    }
    arguments |= {
        name: ["side_effects"] for name in ("diagram", "balance", "headlines", "untested")
    }
    arguments |= {name: ["side_effects.table1", "accuracy"] for name in ("picture",)}
    arguments |= {
        "evidence": ["side_effects.claim.pairs_beat_lists", "rerun", "agrees"],
        "exhibit": [CHAPTER, "x"],
        "opening": [CHAPTER],
    }
    texts = {
        name: str(function(*arguments.get(name, []))) for name, function in book.functions().items()
    }
    chapter = book.chapters[0]
    assert chapter.record
    texts |= {"scoreboard": book.scoreboard("side_effects"), "ledger": book.ledger("side_effects")}
    pages = {page.name: page for page in staged_notebooks.staged_notebooks(chapter)}
    cells = json.loads(pages[CHAPTER].content)["cells"]
    # what is within the directive is Markdown too
    texts["staged"] = re.sub(
        r"(?m)^:(::|class:).*\n?", "", "\n\n".join(cell["source"] for cell in cells[:2])
    )
    return {
        name: as_page(f"Before.\n\n{text} after.\n\nLast.")
        for name, text in texts.items()
        if name != "file"
    }


def test_every_function_of_the_pages_shows_a_hostile_record_as_text(
    book_of: Callable[[str], pages.Pages],
) -> None:
    harmless = page_texts(book_of(HARMLESS))
    showing = {name for name, page in harmless.items() if Page(page).shows(HARMLESS)}
    assert showing >= {
        *(
            "scoreboard",
            "ledger",
            "experiments",
            "runs",
            "software",
            "models",
            "data",
            "parameters",
        ),
        *("picture", "staged", "evidence"),
    }
    text = " ".join(HOSTILE)
    faults = {
        name: harm(page, harmless[name], text) for name, page in page_texts(book_of(text)).items()
    }
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_the_terminals_scoreboard_shows_a_hostile_record_as_text(
    book_of: Callable[[str], pages.Pages],
) -> None:
    text = " ".join(HOSTILE)
    book_of(text)
    terminal = io.StringIO()
    console = Console(file=terminal, width=20_000)
    board = scoreboard.scoreboard("side_effects", "laptop")
    console.print(board_tables.board_table("x", board[board["table"] == board["table"].iloc[0]]))
    console.print(board_tables.claim_table(scoreboard.ledger("side_effects", "laptop")))
    output = terminal.getvalue()
    # the terminal has its own sign for what it cannot show
    words = [word for word in markup.readable(text).split() if "\ufffd" not in word]
    assert [word for word in words if word not in output] == []
