"""What the landing page and a paper's own page say: headline claims, diagram, what is untested.

`book/papers.yml` chooses the headline claims and puts them into plain words. Verdicts, values and
intervals come from the runs that the book shows.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

import pandas as pd

from evaluation import figures
from evaluation.figures import standalone_svg
from evaluation.markup import Markup, escape, fine_print
from evaluation.published import Kind
from evaluation.verdicts import here_word, verdict_with_reason
from evaluation.vocabulary import REASONS, TESTED
from publish import claim_pages, pieces
from publish.board_pages import BoardPages, subject_of
from publish.chapter_extras import Exhibit, gallery, tables_archive
from publish.chapters import Chapter, PageError
from publish.diagrams import diagram_of
from publish.headlines import HEADLINES, Headline, PaperHeadlines, read_headlines
from publish.launch import clone_address
from publish.pieces import Measured, table
from publish.staged_notebooks import StagedPage

_NONE: Final = "\N{EN DASH}"
ARCHIVE: Final = "medical-rag-book.tar.gz"
MAKE_IT: Final = (
    "make book        # this book from the reference results",
    "make reproduce   # every result made again here; it says first how long that takes",
)
"""Commands for whoever has the project."""
WITHOUT_ADDRESS: Final = (
    "This build knows no public address of the project. The project is the folder in which these "
    "pages were built. In that folder, this page is `_build/html/index.html`. If you have only the "
    "pages, ask whoever gave them to you for the project. They pack it by:"
)
"""What a reader does where no address is known."""


class PaperPages(BoardPages):
    """What pages say of a whole paper; templates call the functions."""

    @cached_property
    def _headlines(self) -> dict[str, PaperHeadlines]:
        return read_headlines()

    @cached_property
    def _claim_rows(self) -> dict[str, dict[str, Any]]:
        """The rows of the ledger by their claim's id."""
        rows = {}
        for row in self.claims.to_dict("records"):
            rows[str(row["id"])] = {str(key): value for key, value in row.items()}
        return rows

    @staticmethod
    def diagram(paper: str) -> str:
        """Return the diagram of a paper's architecture, with its table of parts."""
        return diagram_of(paper)

    @staticmethod
    def get_it() -> str:
        """Say where the project is, with the commands that fetch it and make the book."""
        url = clone_address()
        if url:
            folder = url.rpartition("/")[2]
            return _commands(f"git clone --depth 1 {url}.git && cd {folder}", *MAKE_IT)
        pack = _commands(
            "cd medical-rag-book     # the folder of whoever built these pages",
            f"git archive --prefix=medical-rag-book/ -o ../{ARCHIVE} HEAD   # about 60 MB",
        )
        unpack = _commands(f"tar xzf {ARCHIVE} && cd medical-rag-book", *MAKE_IT)
        name_it = "`REPOSITORY_URL=https://... make book` names an address here, once there is one."
        return f"{WITHOUT_ADDRESS}\n\n{pack}\n\nYou unpack it by:\n\n{unpack}\n\n{name_it}"

    def balance(self, paper: str) -> str:
        """Say how many claims of a paper have each answer to both questions."""
        return claim_pages.balance(self.claims[self.claims["paper"] == paper])

    def landing(self) -> str:
        """Return one row for each paper: its first headline, printed, rescored, here, verdict."""
        rows = []
        for paper, headlines in self._headlines.items():
            link = Markup('<a href="paper-{}.html">{}</a>').format(paper, headlines.method)
            subject = fine_print(subject_of(paper))
            rows.append({"Paper": link + subject} | self._headline_row(headlines.headlines[0]))
        return table(rows, "The headline claim of each paper", "rag-cards rag-landing")

    def landing_notes(self) -> str:
        """Explain the reasons that stand in the rows of `landing`."""
        reasons = set()
        for headlines in self._headlines.values():
            row = self._claim_rows.get(headlines.headlines[0].claim, {})
            reasons |= {row.get("reason"), row.get("here_reason")}
        texts = []
        for code, meaning in REASONS.items():
            if code in reasons:
                texts.append(f"*{code.capitalize()}*: {meaning[0].lower()}{meaning[1:]}")
        return " ".join(texts)

    def headlines(self, paper: str) -> str:
        """Return a paper's headline claims, each with its number and its two answers."""
        rows = [self._headline_row(headline) for headline in self._headlines[paper].headlines]
        return table(rows, "The headline claims, in plain words", "rag-cards rag-landing")

    def _headline_row(self, headline: Headline) -> dict[str, Any]:
        row = self._claim_rows.get(headline.claim)
        if row is None:
            raise PageError(f"{HEADLINES.name}: there is no claim {headline.claim}.")
        cells: dict[str, Any] = {"Claim": escape(headline.words) + self._note(headline)}
        cells["Printed"] = _printed(headline)
        cells["Rescored"] = self._value(headline, "rescored")
        cells["Rerun here"] = self._rerun(headline, row)
        cells["Does it hold?"] = verdict_with_reason(row["verdict"], row["reason"])
        cells["Does it hold here?"] = self._answer_here(row)
        return cells

    def _rerun(self, headline: Headline, row: Mapping[str, Any]) -> Markup:
        """Return the values that decided whether a claim holds here, each with its n.

        Ties that are forced follow as such. Where nothing was decided, the rerun of the headline's
        number stands alone.
        """
        if not row["here_estimates"]:
            return self._value(headline, "rerun") + fine_print(headline.rerun_note)
        models = row["here_models"] or ""
        lines = [escape(_estimate_in_words(each, models)) for each in row["here_estimates"]]
        ties = "; ".join(_estimate_in_words(estimate, models) for estimate in row["here_ties"])
        forced = fine_print(f"Forced tie, which decides nothing: {ties}") if ties else Markup()
        remarks = forced + fine_print(headline.rerun_note)
        return Markup("<br>").join(lines) + (_folded(remarks) if remarks else Markup())

    @staticmethod
    def _note(headline: Headline) -> Markup:
        if not headline.measure:
            return Markup()
        return fine_print(f"number: {headline.measure}")

    def _value(self, headline: Headline, kind: Kind) -> Markup:
        """Return the rescored or rerun value of a headline's number, with its interval and n.

        The value that it is compared with stands below it.
        """
        if not headline.number:
            return escape(_NONE)
        cell = self._measured(headline.number, kind)
        if not cell.is_available:
            return escape(_NONE)
        values = _with_n(cell)
        if headline.against:
            other = self._measured(headline.against, kind)
            values += _beside(headline, _with_n(other) if other.is_available else escape(_NONE))
        model = cell["model"] if kind == "rerun" else ""
        return values + fine_print(model or "")

    @staticmethod
    def _answer_here(row: dict[str, Any]) -> Markup:
        answer = verdict_with_reason(here_word(row["here_answer"]), row["here_reason"])
        return answer + fine_print(row["here_models"] or "")

    @cached_property
    def _figures(self) -> list[tuple[str, str, Exhibit, str]]:
        """Figures of the staged chapters: chapter, its title, the figure, its file."""
        return []

    def add_exhibits(self, chapter: Chapter, page: StagedPage) -> dict[str, bytes | str]:
        """Keep the figures of a staged chapter for the gallery.

        Returns:
            The files that its page and the gallery lead to: its tables, and its figures.
        """
        files: dict[str, bytes | str] = {}
        if page.name != chapter.name:  # a run on the sample beside the chapter
            return files
        archive = tables_archive(page.exhibits)
        if archive:
            files[f"downloads/tables-{chapter.name}.zip"] = archive
        for exhibit in page.exhibits:
            if exhibit.kind == "Figure" and exhibit.svg:
                file = f"{exhibit.anchor}.svg"
                files[f"downloads/{file}"] = standalone_svg(exhibit.svg)
                self._figures.append((chapter.name, chapter.title, exhibit, file))
        return files

    def figures_gallery(self) -> str:
        """Return all figures of the chapters, each leading to where it stands."""
        return gallery(self._figures)

    def untested(self, paper: str) -> str:
        """Return what keeps each untested claim of a paper from a verdict, by reason."""
        by_reason: dict[str, list[str]] = {}
        for row in self._claim_rows.values():
            if row["paper"] == paper and row["verdict"] not in TESTED:
                by_reason.setdefault(str(row["reason"] or ""), []).append(str(row["claim"]))
        if not by_reason:
            return "Every claim has a verdict."
        texts = []
        for reason, claims in by_reason.items():
            meaning = REASONS.get(reason, "No run of this book has tested these yet.")  # type: ignore[call-overload]
            listed = "\n".join(f"- {escape(claim)}" for claim in claims)
            texts.append(f"**{len(claims)} of the claims.** {meaning}\n\n{listed}")
        return "\n\n".join(texts)


def _folded(remarks: Markup) -> Markup:
    """Return remarks on what decided a claim, which a click shows."""
    return Markup("<details><summary>How it was decided</summary>{}</details>").format(remarks)


def _commands(*lines: str) -> str:
    """Return commands as a block of a page."""
    return "\n".join(["```bash", *lines, "```"])


def _printed(headline: Headline) -> Markup:
    """Return a headline's printed number, and below it the one that it is compared with."""
    if not headline.number:
        return escape(_NONE)
    printed = _unbroken(headline.number)
    if not headline.against:
        return printed
    return printed + _beside(headline, _unbroken(headline.against))


def _unbroken(number_id: str) -> Markup:
    """Return a printed number that stands on one line."""
    text = pieces.spaced(pieces.number_of(number_id).printed)
    return escape(text.replace(" ", "\N{NO-BREAK SPACE}"))


def _with_n(cell: Measured) -> Markup:
    """Return a value with its interval and the number of questions that it rests on."""
    if pd.isna(cell["n"]):
        return cell.html()
    return cell.html() + Markup(", n&nbsp;=&nbsp;{}").format(f"{int(cell['n']):,}")


def _estimate_in_words(estimate: Mapping[str, Any], models: str = "") -> str:
    """Write what decided an answer: of a difference both arms, else the value; and its n.

    Args:
        estimate: A value or difference with its interval.
        models: The models that answered, as the row names them beside the answer.
    """
    unit = estimate["unit"]
    n = f"n = {estimate['n']:,}"
    low, high = estimate["low"], estimate["high"]
    if not estimate["difference"]:
        value = figures.number(estimate["value"], unit)
        return f"{estimate['label']}: {value}{figures.interval(low, high, unit)}, {n}"
    difference = f"{figures.number(estimate['value'], unit)}{figures.interval(low, high, unit)}"
    if unit == "fraction":
        difference = f"{figures.points_text(estimate['value'], low, high)} points"
    if not estimate["arms"]:
        return f"{estimate['label']}: {difference}, {n}"
    arms = [f"{arm['label']} {figures.number(arm['value'], unit)}" for arm in estimate["arms"]]
    return f"{_measure_of(estimate, models)}: {' against '.join(arms)}; {difference}, {n}"


def _measure_of(estimate: Mapping[str, Any], models: str) -> str:
    """Return the measure of a difference, which its label names after the arms.

    A data set that the label names stays; the one model of the row stands beside the answer.
    """
    names = " minus ".join(arm["label"] for arm in estimate["arms"])
    measure = str(estimate["label"]).removeprefix(f"{names}, ")
    return measure.removesuffix(f", {models}")


def _beside(headline: Headline, value: Markup) -> Markup:
    """Return the value that a headline's number is compared with, and what has it."""
    return fine_print(Markup("{}: {}").format(headline.other, value))
