"""What the book's pages say of printed numbers and claims over all papers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Final

import pandas as pd

from evaluation import figures
from evaluation.published import Kind
from evaluation.vocabulary import REASONS, TESTED
from publish import claim_pages, pictures, pieces
from publish.chapters import PageError, shown_profile
from publish.pieces import ACROSS, Measured, spaced
from publish.run_pages import RunPages
from publish.scoreboard import ledger, scoreboard

PAPERS: Final = {
    "side_effects": ("drug side effects", "nygren2025side"),
    "drug_interactions": ("drug interactions", "mohamed_drugrag"),
    "biomedrag": ("extraction and classification", "li2024biomedrag"),
    "clinical_notes": ("notes on neurological patients", "clinicalnotes"),
    "qa_rag": ("regulatory guidance", "kim2024qarag"),
    ACROSS: ("this book's own questions, across the papers", ""),
}
"""Subject of each paper and its key in `book/references.bib`, in the order of the book."""


def subject_of(paper: str) -> str:
    """Return the subject of a paper, "" if it has none."""
    return PAPERS.get(paper, ("", ""))[0]


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows by paper, in the order of `PAPERS`, others last; within a paper as they were."""
    positions = {paper: i for i, paper in enumerate(PAPERS)}
    by_position = rows["paper"].map(positions).fillna(len(positions))
    order = by_position.argsort(kind="stable")
    return rows.iloc[order].reset_index(drop=True)


@dataclass(frozen=True)
class Bar:
    """A printed number in a picture, with what became of it."""

    label: str
    colour: str
    rescored: Measured
    rerun: Measured

    def row(self) -> dict[str, Any]:
        """Return the values that the picture draws."""
        row: dict[str, Any] = {
            "label": self.label,
            "colour": self.colour,
            "printed": self.rerun.number.value,
        }
        for kind, cell in (("rescored", self.rescored), ("rerun", self.rerun)):
            is_available = cell.is_available
            row[kind] = cell.row[cell.group] if is_available else None
            row[f"{kind}_low"] = cell["low"] if is_available else None
            row[f"{kind}_high"] = cell["high"] if is_available else None
        return row

    def words(self) -> str:
        """Say what the picture shows of the number."""
        return (
            f"{self.label}: printed {spaced(self.rerun.number.printed)}, "
            f"rescored {self.rescored.text()}, rerun {self.rerun.text()}"
        )


class BoardPages(RunPages):
    """What the pages say of the scoreboard and the ledger; templates call the functions."""

    @cached_property
    def board(self) -> pd.DataFrame:
        """The scoreboard of the profile that is shown, the papers in the order of the book."""
        return _in_order(scoreboard(profile=shown_profile()))

    @cached_property
    def claims(self) -> pd.DataFrame:
        """The ledger of the profile that is shown, the papers in the order of the book."""
        return _in_order(ledger(profile=shown_profile()))

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        """The rows of the scoreboard by their number's id."""
        rows = {}
        for row in self.board.to_dict("records"):
            rows[str(row["id"])] = {str(key): item for key, item in row.items()}
        return rows

    def _measured(self, number_id: str, kind: Kind) -> Measured:
        row = self._rows[number_id]
        group = row["shown"] if kind == "rerun" else kind
        return Measured(pieces.number_of(number_id), row, group)

    def n_questions(self, number_id: str) -> str:
        """Return how many questions a printed number was measured on."""
        return figures.number(pieces.number_of(number_id).n, "count")

    def drawn(self, prefix: str, column: str, *, narrow: bool = False) -> figures.Picture:
        """Draw one column of a paper's table: printed, rescored and rerun of each arm.

        Args:
            prefix: Beginning of the numbers' ids.
            column: End of the numbers' ids.
            narrow: Whether the picture is for a phone.

        Raises:
            PageError: No number has such an id.
        """
        bars = []
        for number_id in self._rows:
            if number_id.startswith(f"{prefix}.") and number_id.endswith(f".{column}"):
                bars.append(self._bar(number_id))
        if not bars:
            raise PageError(
                f"No printed number begins with {prefix} and ends with {column}; "
                "see data/published."
            )
        frame = pd.DataFrame([bar.row() for bar in bars])
        alt = "; ".join(bar.words() for bar in bars)
        caption = _picture_caption(bars, frame)
        figures.use_style()
        picture = pictures.scoreboard_picture(frame, narrow=narrow)
        return figures.figure(picture, alt=f"{alt}.", caption=caption)

    def _bar(self, number_id: str) -> Bar:
        rescored = self._measured(number_id, "rescored")
        rerun = self._measured(number_id, "rerun")
        arm = number_id.split(".")[2]
        label, colour = figures.ARMS.get(arm, (rerun.number.row, "#808080"))
        return Bar(label, colour, rescored, rerun)

    def picture(self, prefix: str, column: str) -> str:
        """Return what `drawn` draws, for wide screens and for narrow ones."""
        return pieces.for_screens(partial(self.drawn, prefix, column))

    @staticmethod
    def reasons() -> str:
        """Return the rows of a table: why a question about a claim has no answer."""
        return "\n".join(f"| *{code}* | {meaning} |" for code, meaning in REASONS.items())

    def tally(self) -> str:
        """Say what became of the printed numbers and the claims; no count is zero."""
        rescored = self.board["rescored"].notna() & self.board["rescored_verdict"].ne("SAMPLE")
        agree = int((rescored & self.board["rescored_verdict"].eq("matches")).sum())
        reruns = [self._measured(number_id, "rerun") for number_id in self._rows]
        compared = _compared(reruns)
        n_available = sum(cell.is_available for cell in reruns)
        if not (rescored.any() or compared):
            return f"{len(self.board)} numbers are printed. None of them has been tested here yet."
        pairs = zip(reruns, rescored, strict=True)
        neither = sum(not (cell.is_available or is_rescored) for cell, is_rescored in pairs)
        untested = ~self._stated["verdict"].isin([*TESTED, "cannot be tested"])
        untestable = self._stated["verdict"].eq("cannot be tested")
        sentences = [
            f"The papers print {len(self.board)} numbers and state {len(self._stated)} claims. "
            f"{_untested_words(int(untested.sum()), int(untestable.sum()))}. "
            f"Of the numbers, {neither} were neither rescored nor rerun."
        ]
        if rescored.any():
            sentences.append(
                f"We rescored {rescored.sum()} numbers from released files, and {agree} of these "
                "match within the stated tolerance."
            )
        if compared:
            sentences.append(_reruns_in_words(compared))
        if n_available > len(compared):
            sentences.append(_speeds_in_words(n_available - len(compared)))
        return " ".join(sentences)

    @property
    def _stated(self) -> pd.DataFrame:
        """The claims of the papers, without the book's own."""
        return self.claims[self.claims["paper"] != ACROSS]

    @cached_property
    def _subjects(self) -> dict[str, str]:
        """The subject of each paper that states claims, in the order of the book."""
        return {paper: subject_of(paper) or paper for paper in dict.fromkeys(self._stated["paper"])}

    def outcomes(self) -> str:
        """Draw what became of the claims of every paper by both questions, with counts in words."""
        panels = {}
        texts = []
        for question in claim_pages.QUESTIONS:
            counts = {}
            labels = [question.label(word) for word in question.words]
            for paper, subject in self._subjects.items():
                of_paper = self._stated[self._stated["paper"] == paper]
                counts[subject] = question.counts(of_paper)
                words = _count_words(labels, counts[subject])
                texts.append(f"{question.title} {subject}: {words}")
            panels[question.title] = (counts, labels)
        caption = (
            f"The {len(self._stated)} claims of the papers, by the answers to two questions. "
            "Where authors released their answers, these answers decide the first question. The "
            f"second question is about the models that ran here{self._models_here()}, so its "
            "answer is not a verdict on a paper."
        )
        alt = "; ".join(texts)
        figures.use_style()

        def draw(*, narrow: bool) -> figures.Picture:
            picture = pictures.questions_picture(panels, narrow=narrow)
            return figures.figure(picture, alt=f"{alt}.", caption=caption)

        return pieces.for_screens(draw)

    def _models_here(self) -> str:
        """Name the models that most claims were asked of here; empty if there are none."""
        models = [name for name in self._stated["here_models"] if name]
        if not models:
            return ""
        commonest = pd.Series(models).value_counts().index[0]
        return f" (mostly {commonest})"

    def claim_counts(self) -> str:
        """Tabulate the claims of every paper by the answers to both questions, with links."""
        return claim_pages.counts_table(self._stated, self._subjects)

    def claim_lists(self) -> str:
        """List the claims of every paper by the answers to both questions."""
        return claim_pages.lists(self._stated, self._subjects)

    def coverage(self) -> str:
        """Say how many tables and figures of the papers the book shows, and in which way."""
        exhibits = claim_pages.all_exhibits(list(PAPERS))
        return (
            f"Of the {len(exhibits)} tables and figures of the papers, the book "
            f"{claim_pages.coverage_words(exhibits)}."
        )


def _untested_words(n_untested: int, n_untestable: int) -> str:
    """Say how many claims have no verdict about the paper's system; no count is zero."""
    words = f"Of the claims, {n_untested} were not tested for the paper's system"
    return f"{words}, and {n_untestable} cannot be tested" if n_untestable else words


def _compared(reruns: Iterable[Measured]) -> list[Measured]:
    """Return the reruns that are compared with the printed numbers."""
    available = [cell for cell in reruns if cell.is_available]
    return [cell for cell in available if cell["verdict"] != "not compared"]


def _reruns_in_words(reruns: Sequence[Measured]) -> str:
    """Say how many numbers were rerun, and what became of those that could also differ."""
    words = "We reran one number." if len(reruns) == 1 else f"We reran {len(reruns)} numbers."
    free = []
    for cell in reruns:
        is_forced = cell.number.by_construction and cell["verdict"] == "matches"
        if not is_forced:
            free.append(cell["verdict"])
    n_forced = len(reruns) - len(free)
    if not n_forced:
        return f"{words} Of these, {_count_reruns(free)}."
    forced, it_tests = ("one matches", "the match tests")
    if n_forced > 1:
        forced, it_tests = (f"{n_forced} match", "these matches test")
    words = f"{words} Of these numbers, {forced} by construction, so {it_tests} nothing."
    if set(free) == {"another model"}:
        return f"{words} {_others_by_another_model(len(free))}"
    return f"{words} Of the other {len(free)}, {_count_reruns(free)}." if free else words


def _speeds_in_words(count: int) -> str:
    """Say how many printed times and rates were measured here, which are not compared."""
    if count == 1:
        return (
            "We also measured one printed time or rate. We do not compare this number, because it "
            "depends on the machine."
        )
    return (
        f"We also measured {count} printed times and rates. We do not compare these numbers, "
        "because they depend on the machine."
    )


def _others_by_another_model(count: int) -> str:
    """Say why the reruns that do not match by construction are not compared."""
    if count == 1:
        return (
            "The other rerun number comes from a model other than the paper's, so we do not "
            "compare this number."
        )
    return (
        f"The other {count} rerun numbers come from models other than the papers', so we do not "
        "compare these numbers."
    )


def _count_reruns(verdicts: list[str]) -> str:
    """Say how many reruns have each verdict."""
    endings = {
        "matches": ("lies within the stated tolerance", "lie within the stated tolerance"),
        "differs": ("lies outside the tolerance", "lie outside the tolerance"),
        "inconclusive": ("is inconclusive", "are inconclusive"),
        "another model": (
            "comes from a model other than the paper's, so we do not compare it",
            "come from a model other than the paper's, so we do not compare them",
        ),
    }
    texts = []
    for verdict, ending in endings.items():
        count = verdicts.count(verdict)
        if count:
            texts.append(f"{count} {ending[count > 1]}")
        elif verdict == "matches" and set(verdicts) != {"another model"}:
            texts.append("none lies within the stated tolerance")
    return figures.listed(texts)


def _count_words(words: Iterable[str], counts: Iterable[int]) -> str:
    """Say how many claims have each answer; no count is zero."""
    pairs = zip(words, counts, strict=True)
    return ", ".join(f"{count} {word}" for word, count in pairs if count)


def _picture_caption(bars: list[Bar], frame: pd.DataFrame) -> str:
    """Say what a picture of the scoreboard shows."""
    number = bars[-1].rerun.number
    reruns = [bar.rerun for bar in bars if bar.rerun.is_available]
    models = [cell["model"] for cell in reruns if cell["model"]]
    caption = f"{number.column} of each arm, as printed for {number.model} ({number.table})"
    if frame["rescored"].notna().any():
        caption += ", rescored from the authors' released answers"
    if models:
        caption += f", rerun with {', '.join(dict.fromkeys(models))}"
    else:
        caption += "; not rerun yet"
    if frame[["rescored", "rerun"]].notna().any(axis=None):
        caption += ". Bars are 95 % intervals"
    return f"{caption}."
