"""What the book's pages may say of a result: each function gives Markdown or HTML to a template in `book/*.md`."""

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any, Final

import pandas as pd

from evaluation import audit, figures
from evaluation.markup import Markup, escape
from evaluation.published import Kind, papers as declared_papers, published
from evaluation.records import CLOSED, TESTED, UNTESTED
from evaluation.verdicts import verdict_mark, verdict_with_reason
from helpers import requests
from publish import methods, pictures, pieces, viewer
from publish.advice import Advice
from publish.board_cells import BY
from publish.board_tables import models
from publish.chapters import Chapter, PageError, shown_profile
from publish.pieces import ACROSS, Measured, fine_print, folded, link_to, sortable, spaced, table
from publish.run_pages import ORIGINS, Checked, RunPages, checked
from publish.scoreboard import ledger, scoreboard

# in the order of the book: subject, and key in `book/references.bib`
PAPERS: Final = {
    "side_effects": ("drug side effects", "nygren2025side"),
    "drug_interactions": ("drug interactions", "mohamed_drugrag"),
    "biomedrag": ("extraction and classification", "li2024biomedrag"),
    "clinical_notes": ("notes on neurological patients", "clinicalnotes"),
    "qa_rag": ("regulatory guidance", "kim2024qarag"),
    ACROSS: ("this book's own questions, across the papers", ""),
}
OUTCOMES: Final = (*TESTED, "not tested")
FUNCTIONS: Final = (
    "asked picture tally outcomes reasons papers experiments downloads runs software models "
    "sources data parameters faults benchmarks settings_table launch_links costs file evidence exhibit audited"
)
"""What a template may call, beside `verdict` and what `Advice` says."""
_NONE: Final = "\N{EN DASH}"
Answered = tuple[tuple[dict[str, Any], dict[str, str]], list[methods.TaskResult], Checked]
"""What the viewer, the page on building and the audit say of a chapter."""


def _in_order(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows by paper, in the order of `PAPERS`, others last; within a paper as they were."""
    place = {paper: i for i, paper in enumerate(PAPERS)}
    by_place = rows["paper"].map(lambda paper: place.get(paper, len(place)))
    return rows.iloc[by_place.argsort(kind="stable")].reset_index(drop=True)


class Pages(RunPages):
    """The functions of the templates, bound to the runs that this build shows."""

    def functions(self) -> dict[str, Callable[..., str]]:
        """The functions by the names that a template uses."""
        advice = {
            f"advice_{name}": getattr(self.advice, name)
            for name in ("summary", "table", "picture", "methods")
        }
        return (
            {name: getattr(self, name) for name in FUNCTIONS.split()}
            | {"verdict": verdict_mark}
            | advice
        )

    @cached_property
    def _read(self) -> dict[str, Answered]:
        return {}

    def read(self, chapter: Chapter) -> None:
        """Keep what the viewer, the page on building and the audit say of a chapter; that reads its rows."""
        if chapter.name not in self._read and viewer.arms(chapter):
            store = requests.store(requests.working())
            found = methods.task_results(chapter, store)
            self._read[chapter.name] = viewer.scripts(chapter, store), found, checked(chapter)

    def _answers(self) -> list[Answered]:
        for chapter in self.chapters:
            self.read(chapter)
        return [*self._read.values()]

    @cached_property
    def advice(self) -> Advice:
        """What the page on building says."""
        return Advice([one for _, found, _ in self._answers() for one in found])

    def audited(self) -> str:
        """What the audit says of the rows of each chapter: verdicts, and the figures of what it finds."""
        every = [of for *_, of in self._answers()]
        if not every:
            return "No run has answers to audit."
        verdicts = table(
            [of for of, _ in every],
            "Seven checks of each chapter's answers (empty: not applicable)",
            "",
        )
        found = [row for _, rows in every for row in rows]
        shown = (
            table(found, f"Findings, with numbers for at most two groups; {audit.SUBSET}", "")
            if found
            else ""
        )
        return "\n\n".join(part for part in (verdicts, shown) if part)

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
        return {
            str(row["id"]): {str(key): item for key, item in row.items()}
            for row in self.board.to_dict("records")
        }

    def _measured(self, id: str, kind: Kind) -> Measured:
        number, row = pieces.number_of(id), self._rows[id]
        return Measured(number, row, row["shown"] if kind == "rerun" else kind)

    def asked(self, id: str) -> str:
        """How many questions a printed number was measured on."""
        return figures.number(pieces.number_of(id).n, "count")

    def drawn(self, prefix: str, column: str, *, narrow: bool = False) -> figures.Picture:
        """One column of a paper's table as a picture: printed, rescored and rerun of each arm."""
        ids = [id for id in self._rows if id.startswith(f"{prefix}.") and id.endswith(f".{column}")]
        if not ids:
            raise PageError(
                f"No printed number begins with {prefix} and ends with {column}; see data/published."
            )
        rows, said, models = [], [], []
        for id in ids:
            rescored, rerun = self._measured(id, "rescored"), self._measured(id, "rerun")
            number = rerun.number
            label, colour = figures.ARMS.get(id.split(".")[2], (number.row, "#808080"))
            row: dict[str, Any] = {"label": label, "colour": colour, "printed": number.value}
            for kind, cell in (("rescored", rescored), ("rerun", rerun)):
                found = (
                    (cell.row[cell.group], cell["low"], cell["high"])
                    if cell.is_available
                    else (None, None, None)
                )
                row |= dict(zip((kind, f"{kind}_low", f"{kind}_high"), found, strict=True))
            rows.append(row)
            told = f"{label}: printed {spaced(number.printed)}, rescored {rescored.text()}, rerun {rerun.text()}"
            said.append(told)
            models += [rerun["model"]] if rerun.is_available and rerun["model"] else []
        frame = pd.DataFrame(rows)
        caption = f"{number.column} of each arm, as printed for {number.model} ({number.table})"
        caption += (
            ", rescored from the authors' released answers"
            if frame["rescored"].notna().any()
            else ""
        )
        caption += (
            f", rerun with {', '.join(dict.fromkeys(models))}" if models else "; not rerun yet"
        )
        caption += (
            ". Bars are 95 % intervals."
            if frame[["rescored", "rerun"]].notna().any(axis=None)
            else "."
        )
        figures.use_style()
        drawn = pictures.scoreboard_picture(frame, narrow=narrow)
        return figures.figure(drawn, alt="; ".join(said) + ".", caption=caption)

    def picture(self, prefix: str, column: str) -> str:
        """The same for a page: one picture for wide screens, one for narrow ones."""
        return pieces.for_screens(partial(self.drawn, prefix, column))

    @staticmethod
    def reasons(verdict: str) -> str:
        """Why claims are not tested, or cannot be: each reason code with its meaning."""
        of = [code for code in UNTESTED if (code in CLOSED) == (verdict == "cannot be run")]
        return "; ".join(
            f"*{code}*: {UNTESTED[code][0].lower()}{UNTESTED[code][1:-1]}" for code in of
        )

    def tally(self) -> str:
        """What became of the printed numbers, and how many claims and numbers have no verdict; no count is zero."""
        real = self.board["rescored"].notna() & self.board["rescored_verdict"].ne("SAMPLE")
        agree = int((real & self.board["rescored_verdict"].eq("agrees")).sum())
        rerun = [self._measured(id, "rerun") for id in self._rows]
        done = [
            cell["verdict"]
            for cell in rerun
            if cell.is_available and cell["verdict"] != "not compared"
        ]
        if not (real.any() or done):
            return f"{len(self.board)} numbers are printed. None of them has been tested here yet."
        neither = sum(
            not (cell.is_available or rescored) for cell, rescored in zip(rerun, real, strict=True)
        )
        ends = {
            "{} lie within the stated tolerance": done.count("agrees"),
            "{} lie outside it": done.count("differs"),
            "{} are undecided": done.count("undecided"),
            "{} come from another model and are not compared": done.count("stand-in"),
        }
        none = self._stated[~self._stated["verdict"].isin(TESTED)]
        open_ = none["reason"].eq("left open").sum()
        return (
            f"The papers print {len(self.board)} numbers and state {len(self._stated)} claims. "
            f"{len(none)} of the claims have no verdict{f' ({open_} after an inconclusive test)' * bool(open_)}; "
            f"{neither} of the numbers were neither rescored nor rerun. {real.sum()} numbers can be rescored from "
            f"released files, and {agree} of these match to the last digit. {len(done)} are rerun here: "
            f"{figures.listed([text.format(n) for text, n in ends.items() if n])}."
        )

    @property
    def _stated(self) -> pd.DataFrame:
        return self.claims[self.claims["paper"] != ACROSS]

    def _verdicts(self, paper: str) -> list[str]:
        found = self.claims[self.claims["paper"] == paper]["verdict"]
        return [word if word in TESTED else "not tested" for word in found]

    def outcomes(self) -> str:
        """What became of the claims of every paper, as a picture with its numbers in words."""
        verdicts = {paper: self._verdicts(paper) for paper in dict.fromkeys(self._stated["paper"])}
        counts = {
            _subject(paper) or paper: [of.count(word) for word in OUTCOMES]
            for paper, of in verdicts.items()
        }
        told = "; ".join(
            f"{subject}: "
            + ", ".join(f"{n} {word}" for word, n in zip(OUTCOMES, of, strict=True) if n)
            for subject, of in counts.items()
        )
        caption = f"The {len(self._stated)} claims of the papers. Verdicts use the authors' answers where released."
        figures.use_style()

        def drawn(*, narrow: bool) -> figures.Picture:
            picture = pictures.shares_picture(counts, OUTCOMES, narrow=narrow)
            return figures.figure(picture, alt=f"{told}.", caption=caption)

        return pieces.for_screens(drawn)

    def _papers(self) -> Iterator[tuple[str, str, str]]:
        """Each paper with its subject and the balance of its claims, in the order of the book."""
        for paper in dict.fromkeys((*PAPERS, *declared_papers())):
            verdicts = self._verdicts(paper)
            counts = (f"{word} {n}" for word in OUTCOMES if (n := verdicts.count(word)))
            balance = f"{len(verdicts)} claims: {', '.join(counts)}."
            yield (
                paper,
                _named(paper),
                balance if verdicts else "It states no claim that is tested here.",
            )

    def papers(self, *, chapters: bool = True) -> str:
        """Each paper: its subject, how many of its claims hold, and links to its numbers and to its `chapters`."""
        told = []
        for paper, subject, balance in self._papers():
            own = [
                (chapter.name, chapter.title) for chapter in self.chapters if chapter.paper == paper
            ]
            links = "\n".join(
                f"- [{name[:2]} · {title}](notebooks/{name}.ipynb)" for name, title in own
            )
            cited = f" {{cite:p}}`{key}`" if (key := PAPERS.get(paper, ("", ""))[1]) else ""
            told.append(
                f"**{subject}**{cited}. {balance} [Numbers and claims](scoreboard-{paper}.md)."
            )
            told += [links or "No chapter yet."] if chapters else []
        return "\n\n".join(told)

    def boards(self) -> dict[str, str]:
        """The pages with the numbers and claims of each paper: name and Markdown."""
        return {
            f"scoreboard-{paper}.md": (
                "---\nhtml_theme.sidebar_secondary.remove: true\n---\n"
                f"# {subject}: numbers and claims\n\n"
                f"{balance} [How to read the verdicts](how-to-read.md).\n\n"
                f"## Claims\n\n{self.ledger(paper)}\n\n## Numbers\n\n{self.scoreboard(paper)}\n"
            )
            for paper, subject, balance in self._papers()
        }

    def experiments(self) -> str:
        """One row an experiment: what became of its numbers and claims, and which run that is from."""
        rows = [
            {
                "Experiment": link_to(chapter.name, chapter.title)
                + fine_print(_subject(chapter.paper or "")),
                "Rescored": self._share(chapter.name, "rescored"),
                "Rerun": self._share(chapter.name, "rerun"),
                "Claims": self._held(chapter.name),
                "Run": escape(ORIGINS[chapter.origin])
                + fine_print(pieces.run_line(chapter.record) if chapter.record else ""),
            }
            for chapter in self.chapters
        ]
        caption = "numbers rescored to the last printed digit, numbers rerun within tolerance, claims that hold"
        return table(rows, f"{len(rows)} experiments: {caption}")

    def _share(self, notebook: str, kind: Kind) -> Markup:
        """How many of a notebook's values of this kind agree with the printed ones; speed is not compared."""
        cells = [self._measured(id, kind) for id in self._rows]
        verdicts = [
            cell["verdict"] for cell in cells if cell.is_available and cell["notebook"] == notebook
        ]
        tested = [word for word in verdicts if word in TESTED]
        return pieces.absent("stand-in") if not tested and "stand-in" in verdicts else _part(tested)

    def _held(self, notebook: str) -> Markup:
        """How many of the claims that a notebook's shown run tests hold in it, and how many it leaves open."""
        rows = (row for row in self.claims.to_dict("records") if row["verdict"] in TESTED)
        tested = [row["verdict"] for row in rows if notebook == row[f"{row['basis']}_notebook"]]
        left = tested.count("undecided")
        return _part(tested) + fine_print(f"{left} undecided" if left else "")

    def scoreboard(self, paper: str) -> str:
        """Every number that a paper prints, beside what became of it: those first of which something became."""
        others = models(self.board[self.board["paper"] == paper])
        names, rows = {chapter.name for chapter in self.chapters}, []
        for id, row in self._rows.items():
            if row["paper"] == paper:
                rescored, rerun = self._measured(id, "rescored"), self._measured(id, "rerun")
                notebook = rerun["notebook"] or rescored["notebook"]
                name = link_to(notebook, row["row"]) if notebook in names else escape(row["row"])
                columns = {
                    "Table": row["table"],
                    "Quantity": Markup('<span id="{}">{}</span>').format(id, name)
                    + fine_print(row["column"])
                    + fine_print(row["note"]),
                    "Printed": sortable(rerun.number.value, spaced(rerun.number.printed)),
                    "Rescored": self._cell(rescored),
                    "Rerun": self._cell(rerun),
                    **{
                        model: self._cell(Measured(rerun.number, row, f"{BY}{model}"))
                        for model in others
                    },
                }
                rows.append((not (rescored.is_available or rerun.is_available), columns))
        shown = [shown for _, shown in sorted(rows, key=lambda row: row[0])]
        board = table(
            shown, f"Every printed number, {len(rows)} in all", "rag-sortable rag-cards rag-board"
        )
        return board if rows else "No printed number is declared."

    def _cell(self, cell: Measured) -> Markup:
        if not cell.is_available:
            # that nothing has been run needs no second sentence
            why = cell["why"] if cell["notebook"] or cell.verdict != "not run" else ""
            return pieces.absent(cell.verdict) + fine_print(why)
        small: list[str] = [] if cell.verdict == "not compared" else [verdict_mark(cell.verdict)]
        small += [f"n = {figures.number(cell['n'], 'count')}"] if not pd.isna(cell["n"]) else []
        small += (
            [f"{cell['unparsed']} unparsed"]
            if not pd.isna(cell["unparsed"]) and cell["unparsed"]
            else []
        )
        small += [
            text
            for text in (cell["model"], "reference run" * (cell.group == "reference"), cell["note"])
            if text
        ]
        self._answers()
        if cell["notebook"] in self._read and cell.group != "rescored":
            listed = self._read[cell["notebook"]][0][0]
            arm = next((part for part in cell.number.id.split(".") if part in listed["arms"]), "")
            model = cell["model"] if cell["model"] in listed["models"] else ""
            small.append(
                Markup('<a href="{}">answers</a>').format(
                    viewer.link(cell["notebook"], arm, model=model)
                )
            )
        return cell.html() + fine_print(Markup("; ").join(small))

    def ledger(self, paper: str) -> str:
        """The claims of a paper: the rule, and what the released answers and the rerun say, each with its reason."""
        claims = self.claims[self.claims["paper"] == paper]
        others = models(claims)
        rows = [
            {
                "Claim": escape(row["claim"])
                + fine_print(row["where"])
                + (fine_print(row["note"]) if row["note"] else Markup())
                + folded("Rule", row[f"{row['shown']}_test"]),
                "Published evidence": self._said(
                    row, "printed" if row["printed_notebook"] else "rescored"
                ),
                "Rerun": self._said(row, row["shown"]),
                **{model: self._said(row, f"{BY}{model}") for model in others},
            }
            for row in claims.to_dict("records")
        ]
        return table(rows, f"{len(rows)} claims", "rag-sortable rag-cards rag-claims")

    @staticmethod
    def _said(row: Mapping[Any, Any], group: str) -> Markup:
        if not row[f"{group}_notebook"]:
            published = row["printed_notebook"] or row["rescored_notebook"]
            return (
                pieces.absent("not run")
                if group == row["shown"] and not published
                else escape(_NONE)
            )
        said = verdict_with_reason(row[f"{group}_verdict"], row[f"{group}_reason"]) + folded(
            "Evidence", row[f"{group}_why"]
        )
        return escape("printed numbers: " if group == "printed" else "") + said

    def downloads(self) -> str:
        """Links to the scoreboard as data, which `files` writes."""
        return ", ".join(f'<a href="{name}" download>{name}</a>' for name in self.files())

    def files(self) -> dict[str, str]:
        """The scoreboard as data: file name and content."""
        return {
            "scoreboard.csv": self.board.to_csv(index=False),
            "scoreboard.json": self.board.to_json(orient="records", indent=1) or "",
            "claims.json": self.claims.to_json(orient="records", indent=1) or "",
        }

    def scripts(self) -> dict[str, str]:
        """The data of the answer viewer and of the figure on building, as scripts: file name and content."""
        of = [scripts for scripts, *_ in self._answers()]
        written = {name: text for _, files in of for name, text in files.items()}
        listed = [{**listed, "paper": _named(listed["paper"])} for listed, _ in of]
        return written | viewer.index(listed) | self.advice.files()


def _subject(paper: str) -> str:
    return PAPERS.get(paper, ("", ""))[0]


def _named(paper: str | None) -> str:
    """A paper by its subject, or else by its title."""
    return _subject(paper or "").capitalize() or (published(paper).title if paper else "Other")


def _part(verdicts: list[str]) -> Markup:
    agree = verdicts.count("agrees")
    return (
        sortable(agree / len(verdicts), f"{agree} of {len(verdicts)}")
        if verdicts
        else escape(_NONE)
    )
