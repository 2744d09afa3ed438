"""What the landing page and a paper's own page say: headline claims, diagram, what is untested.

`book/papers.yml` chooses the headline claims and puts them into plain words. Verdicts, values and
intervals come from the runs that the book shows.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pandas as pd

from evaluation import evidence, figures, formats
from evaluation.figures import standalone_svg
from evaluation.markup import Markup, escape, fine_print
from evaluation.published import Kind, published, rows_in_words
from evaluation.verdicts import here_word, verdict_with_reason
from evaluation.vocabulary import ANSWERED_HERE, REASONS, TESTED
from publish import claim_pages, pieces
from publish.board_pages import BoardPages, subject_of
from publish.chapter_answers import ChapterAnswers, chapter_answers
from publish.chapter_extras import Exhibit, gallery, tables_archive
from publish.chapters import Chapter, PageError
from publish.citation import citation
from publish.diagrams import diagram_of
from publish.headlines import HEADLINES, Headline, PaperHeadlines, read_headlines
from publish.launch import clone_address
from publish.pieces import Measured, table
from publish.staged_notebooks import StagedPage

_NONE: Final = "\N{EN DASH}"
_SPACE: Final = "\N{NO-BREAK SPACE}"
_DATA_SET: Final = re.compile(r"(?P<measure>.+), (?P<name>[^(),]+)")
"""A measure whose label ends with the name of a data set or model."""
_SENTENCE_END: Final = re.compile(r"(?<=[.)]) (?=[A-Z])")
_N_REASONS: Final = 3
"""Number of sentences of a reason on a headline's row."""
ARCHIVE: Final = "medical-rag-book.tar.gz"
MAKE_IT: Final = (
    "# this book from the reference results",
    "make book",
    "# every result made again here; it says first how long that takes",
    "make reproduce",
)
"""Commands for whoever has the project."""
WITHOUT_ADDRESS: Final = (
    "This build names no public address of the project. The project is the folder in which these "
    "pages were built. In that folder, this page is `_build/html/index.html`. If you have only the "
    "pages, ask whoever gave them to you for the project. They pack the project with:"
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
            return _commands(f"git clone --depth 1 {url}.git \\", f"  && cd {folder}", *MAKE_IT)
        pack = _commands(
            "# the folder of whoever built these pages",
            "cd medical-rag-book",
            "# about 60 MB",
            "git archive --prefix=medical-rag-book/ \\",
            f"  -o ../{ARCHIVE} HEAD",
        )
        unpack = _commands(f"tar xzf {ARCHIVE} && cd medical-rag-book", *MAKE_IT)
        name_it = (
            "Once the project has an address, `REPOSITORY_URL=https://... make book` names it here."
        )
        return (
            f"{WITHOUT_ADDRESS}\n\n{pack}\n\nYou unpack the archive with:\n\n{unpack}\n\n{name_it}"
        )

    @staticmethod
    def citation() -> str:
        """Say how the book is cited, with a BibTeX entry."""
        return citation()

    def balance(self, paper: str) -> str:
        """Say how many claims of a paper have each answer to both questions."""
        return claim_pages.balance(self.claims[self.claims["paper"] == paper])

    def landing(self) -> str:
        """Return one row for each paper: its first headline, both answers and the numbers."""
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
        numbers = [
            _released_differences(row),
            _printed(headline),
            self._rescored(headline),
            _folded_reason(row),
            self._folded_rerun(headline, row),
        ]
        lines = [Markup('<div class="rag-line">{}</div>').format(line) for line in numbers if line]
        return {
            "Claim": escape(headline.words),
            "Does it hold?": self._verdict(row),
            "Does it hold here?": self._answer_here(row),
            "Numbers": Markup("").join(lines) or escape(_NONE),
        }

    def _verdict(self, row: Mapping[str, Any]) -> Markup:
        """Return whether a claim holds for the paper's system, linked to the rows that decided."""
        verdict = verdict_with_reason(row["verdict"], row["reason"])
        if row["verdict"] not in TESTED:
            return verdict
        return claim_pages.link_verdict(verdict, row, row["basis"], self.answers)

    def _answer_here(self, row: Mapping[str, Any]) -> Markup:
        """Return whether a claim holds here, linked to the rows that decided."""
        answer = verdict_with_reason(here_word(row["here_answer"]), row["here_reason"])
        if row["here_answer"] in ANSWERED_HERE:
            answer = claim_pages.link_verdict(answer, row, "here", self.answers)
        return answer + fine_print(row["here_models"] or "")

    def _rescored(self, headline: Headline) -> Markup:
        """Return the rescored values of a headline, with their interval and n."""
        return _named_line("Rescored", self._values(headline, "rescored"))

    def _values(self, headline: Headline, kind: Kind) -> Markup:
        """Return a headline's value, and the one that it is compared with; empty without one."""
        cell = self._measured(headline.number, kind) if headline.number else None
        if cell is None or not cell.is_available:
            return Markup()
        values = cell.html()
        other = self._measured(headline.against, kind) if headline.against else None
        if other is not None and other.is_available:
            values += Markup("; {} {}").format(headline.other, other.html())
        return values + _n_of(cell)

    def _folded_rerun(self, headline: Headline, row: Mapping[str, Any]) -> Markup:
        """Return what ran here, which a click shows: what decided, ties and remarks.

        Where nothing was decided, the rerun of the headline's number stands alone.
        """
        models = row["here_models"] or ""
        estimates = sorted(row["here_estimates"], key=claim_pages.distance_from_bound)
        lines = [self._estimate_line(estimate, row, models) for estimate in estimates]
        if not lines:
            lines = [self._values(headline, "rerun")]
        shown = [line for line in [*lines, _ties(headline, row, models)] if line]
        words = "Rerun here" if shown else "Remark"
        if headline.rerun_note:
            shown.append(fine_print(headline.rerun_note))
        return _unfolds(words, Markup("<br>").join(shown)) if shown else Markup()

    def _estimate_line(
        self, estimate: Mapping[str, Any], row: Mapping[str, Any], models: str
    ) -> Markup:
        """Return what decided an answer, and whether its second arm only guesses."""
        words = escape(_estimate_in_words(estimate, models))
        answers = self.answers.get(row["here_notebook"])
        if answers is None or not estimate["difference"] or not estimate["arms"]:
            return words
        label = estimate["arms"][1]["label"]
        arms = [arm for arm, name in answers.entry["arms"].items() if name == label]
        if not arms or not answers.lists.is_at_floor(arms[0], models):
            return words
        return words + fine_print(f"{label} is no better than guessing.")

    @cached_property
    def answers(self) -> dict[str, ChapterAnswers]:
        """What is said of the answers of each chapter that has some."""
        read = {chapter.name: chapter_answers(chapter) for chapter in self.chapters}
        return {name: answers for name, answers in read.items() if answers}

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
                by_reason.setdefault(str(row["reason"] or ""), []).append(_with_needs(row))
        if not by_reason:
            return "Every claim has a verdict."
        texts = []
        for reason, claims in by_reason.items():
            meaning = REASONS.get(reason, "No run of this book has tested these yet.")  # type: ignore[call-overload]
            listed = "\n".join(f"- {escape(claim)}" for claim in claims)
            count = "one claim" if len(claims) == 1 else f"{len(claims)} claims"
            name = (reason or "not tested").capitalize()
            texts.append(f"**{name}** ({count}). {meaning}\n\n{listed}")
        return "\n\n".join(texts)


def _with_needs(row: Mapping[str, Any]) -> str:
    """Return a claim with what its test needs besides the models that it is about."""
    rule = published(str(row["paper"])).claim(str(row["id"])).rule
    is_by_others = row["reason"] == "another model"
    needs = rule.also_needs if rule and is_by_others else ""
    return f"{row['claim']} {needs}".strip()


def _unfolds(words: str, text: Markup) -> Markup:
    """Return a text that a click on some words shows."""
    return Markup("<details><summary>{}</summary>{}</details>").format(words, text)


def _folded_reason(row: Mapping[str, Any]) -> Markup:
    """Return why a tested claim does not hold for the paper's system; empty where it holds.

    A long reason is cut to its first sentences, with a link to the whole on the scoreboard.
    """
    if row["verdict"] not in TESTED or row["verdict"] == "agrees":
        return Markup()
    sentences = _SENTENCE_END.split(row["why"])
    text = escape(" ".join(sentences[:_N_REASONS]))
    if len(sentences) > _N_REASONS:
        address = f"scoreboard-{row['paper']}.html#{row['id']}"
        text += Markup(' <a href="{}">The whole reason</a>').format(address)
    return _unfolds(f'Why "{row["verdict"]}"', text)


def _ties(headline: Headline, row: Mapping[str, Any], models: str) -> Markup:
    """Return the differences that decided nothing, folded; empty if there are none."""
    ties = [escape(_estimate_in_words(tie, models)) for tie in row["here_ties"]]
    if not ties:
        return Markup()
    words = f"{headline.tie or 'A comparison on the same facts'}, which cannot decide the claim"
    return _unfolds(words, Markup("<br>").join(ties))


def _named_line(name: str, text: Markup) -> Markup:
    """Return a line of the numbers that begins with what they are; empty without text."""
    return Markup('<span class="rag-kind">{}</span> {}').format(name, text) if text else Markup()


def _released_differences(row: Mapping[str, Any]) -> Markup:
    """Return by how much the released answers differ that decided a claim.

    Of several models, it is the difference nearest to where the claim's truth turns.
    """
    closest = _closest_by_arms(row["rescored_estimates"])
    if row["basis"] != "rescored" or not closest:
        return Markup()
    differences = [_difference_of_arms(*arms, estimate) for arms, estimate in closest.items()]
    if len({first for first, _ in closest}) == 1:
        differences = [_difference_over(second, found) for (_, second), found in closest.items()]
    n = max(estimate["n"] for estimate in closest.values())
    n_models = len(row["rescored_estimates"]) // len(closest)
    among = _among_models(len(differences), n_models)
    text = f"{figures.listed(differences)}, n = {n:,}{among}"
    return _named_line("Released files", escape(_together(text)))


def _among_models(n_differences: int, n_models: int) -> str:
    """Say of differences that each is the smallest of several models; empty for one model."""
    if n_models < 2:
        return ""
    each = "each " if n_differences > 1 else ""
    smallest = "smaller" if n_models == 2 else "smallest"
    return f" ({each}the {smallest} of the differences of {n_models} models)"


def _closest_by_arms(
    estimates: Iterable[Mapping[str, Any]],
) -> dict[tuple[str, str], Mapping[str, Any]]:
    """Return the difference of each two arms that is nearest to where the claim's truth turns."""
    closest: dict[tuple[str, str], Mapping[str, Any]] = {}
    for estimate in sorted(estimates, key=claim_pages.distance_from_bound):
        if estimate["difference"] and estimate["arms"]:
            first, second = (arm["label"] for arm in estimate["arms"])
            closest.setdefault((first, second), estimate)
    return closest


def _difference_of_arms(first: str, second: str, estimate: Mapping[str, Any]) -> str:
    """Return a difference between two arms, both named."""
    return f"{first} {_difference_over(second, estimate)}"


def _difference_over(second: str, estimate: Mapping[str, Any]) -> str:
    """Return a difference with the arm that is surpassed."""
    return f"{_difference(estimate)} over {second}"


def _difference(estimate: Mapping[str, Any]) -> str:
    """Return a difference with its interval, of shares in points."""
    value, low, high = (estimate[key] for key in ("value", "low", "high"))
    if estimate["unit"] == "fraction":
        return f"{figures.points_text(value, low, high)} points"
    return (
        f"{figures.number(value, estimate['unit'])}{figures.interval(low, high, estimate['unit'])}"
    )


def _together(text: str) -> str:
    """Return a text in which no line ends within an interval."""
    return re.sub(r"(?<=\[)[^\]]*(?=\])", lambda match: match[0].replace(" ", _SPACE), text)


def _commands(*lines: str) -> str:
    """Return commands as a block of a page."""
    return "\n".join(["```bash", *lines, "```"])


def _printed(headline: Headline) -> Markup:
    """Return a headline's printed number, and the one that it is compared with."""
    if not headline.number:
        return Markup()
    printed = Markup("{} {}").format(headline.measure, _unbroken(headline.number))
    if headline.against:
        printed += Markup("; {} {}").format(headline.other, _unbroken(headline.against))
    return _named_line("Printed", printed)


def _unbroken(number_id: str) -> Markup:
    """Return a printed number that stands on one line."""
    text = pieces.spaced(pieces.number_of(number_id).printed)
    return escape(text.replace(" ", "\N{NO-BREAK SPACE}"))


def _n_of(cell: Measured) -> Markup:
    """Return the number of questions that a value rests on."""
    if pd.isna(cell["n"]):
        return Markup()
    return Markup("; n&nbsp;=&nbsp;{}").format(f"{cell['n']:,.0f}")


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
    difference = _difference(estimate)
    if not estimate["arms"]:
        return f"{estimate['label']}: {difference}, {n}"
    measure = _measure_in_words(_measure_of(estimate, models), estimate.get("where") or {})
    names = formats.quoted_names([arm["label"] for arm in estimate["arms"]])
    values = [figures.number(arm["value"], unit) for arm in estimate["arms"]]
    arms = [f"{value} for {name}" for value, name in zip(values, names, strict=True)]
    return f"{measure} is {' and '.join(arms)}, a difference of {difference} ({n})."


def _measure_in_words(measure: str, where: Mapping[str, Sequence[str]]) -> str:
    """Return a measure as a sentence begins, its data set and rows in front: `For GIT, recall`.

    Args:
        measure: It may end with conditions, as in `F1 (kind: two hops)`.
        where: Values of each stratum; those of the conditions stand in words.
    """
    data_set = _DATA_SET.fullmatch(measure)
    words = data_set["measure"] if data_set else measure
    for name, values in where.items():
        condition = f" ({name}: {', '.join(values)})"
        if words.endswith(condition):
            words = f"{rows_in_words({name: values})}, {words.removesuffix(condition)}"
    if data_set:
        words = f"for {data_set['name']}, {words}"
    words = re.sub(r"(?<!the )\bshare ", "the share ", words)
    return evidence.sentence_case(words)


def _measure_of(estimate: Mapping[str, Any], models: str) -> str:
    """Return the measure of a difference, which its label names after the arms.

    A data set that the label names stays; the one model of the row stands beside the answer.
    """
    names = " minus ".join(arm["label"] for arm in estimate["arms"])
    measure = str(estimate["label"]).removeprefix(f"{names}, ")
    return measure.removesuffix(f", {models}")
