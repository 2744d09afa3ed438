"""What the book's pages may say of a result: each function is called from a template in `book/*.md`.

A function gives Markdown or HTML, drawn from the published numbers and from the records of the runs that are shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final

import pandas as pd

from helpers.results import figures
from helpers.results.markup import Markup, escape
from helpers.results.published import Kind, published
from helpers.results.published import papers as declared_papers
from helpers.results.verdicts import TESTED, UNTESTED
from helpers.site import pictures, viewer
from helpers.site.build import Advice
from helpers.site.chapters import PageError, shown_profile
from helpers.site.findings import audited, evidence, exhibit
from helpers.site.pieces import (
    Measured,
    absent,
    fine_print,
    flat,
    folded,
    for_screens,
    label_of,
    link_to,
    number_of,
    run_line,
    sortable,
    spaced,
    verdict,
)
from helpers.site.run_pages import RunPages
from helpers.site.scoreboard import BY, ledger, models, scoreboard

PAPERS: Final = {
    "side_effects": "nygren2025side",
    "drug_interactions": "mohamed_drugrag",
    "biomedrag": "li2024biomedrag",
    "clinical_notes": "clinicalnotes",
    "qa_rag": "kim2024qarag",
}
"""The papers in the order of the book, with their keys in `book/references.bib`."""
_NONE: Final = "\N{EN DASH}"
SUBJECTS: Final = {
    "side_effects": "drug side effects",
    "drug_interactions": "drug interactions",
    "biomedrag": "extraction and classification",
    "clinical_notes": "notes on neurological patients",
    "qa_rag": "regulatory guidance",
    "across_papers": "across the papers",
}


# -- small pieces -----------------------------------------------------------------------------------------------------


# -- what the templates call ------------------------------------------------------------------------------------------


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """The rows by paper, in the order of `PAPERS`, others last; within a paper as they were."""
    place = {paper: i for i, paper in enumerate(PAPERS)}
    return table.sort_values(
        "paper", key=lambda names: names.map(lambda name: place.get(name, len(place))), kind="stable"
    ).reset_index(drop=True)


class Pages(RunPages):
    """The functions of the templates, bound to the runs that this build shows."""

    def functions(self) -> dict[str, Callable[..., str]]:
        """The functions by the names that a template uses."""
        names = (
            "asked value printed picture headline tally outcomes reasons papers experiments downloads runs software "
            "models sources data parameters timings faults settings_table launch_links costs rates memory file"
        )
        own = {name: getattr(self, name) for name in names.split()} | {"verdict": verdict}
        quoting = {of.__name__: partial(of, self.chapters) for of in (audited, evidence, exhibit)}
        return own | self.advice.functions() | quoting

    @cached_property
    def advice(self) -> Advice:
        """What the page on building says."""
        return Advice(self.chapters)

    @cached_property
    def _answered(self) -> dict[str, set[str]]:
        return {chapter.name: viewer.arms(chapter) for chapter in self.chapters}

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
        return {str(row["id"]): {str(key): item for key, item in row.items()} for row in self.board.to_dict("records")}

    def _measured(self, id: str, kind: Kind) -> Measured:
        number, row = number_of(id), self._rows[id]
        return Measured(number, row, row["shown"] if kind == "rerun" else kind)

    def asked(self, id: str) -> str:
        """How many questions a printed number was measured on."""
        return figures.number(number_of(id).n, "count")

    def printed(self, id: str) -> str:
        """A number as it is printed."""
        number = number_of(id)
        return sortable(number.value, spaced(number.printed))

    def value(self, id: str, kind: Kind = "rerun") -> str:
        """A rescored or rerun number with its interval, or why there is none."""
        return self._measured(id, kind).html()

    def _select(self, prefix: str, column: str) -> list[str]:
        ids = [id for id in self._rows if id.startswith(f"{prefix}.") and id.endswith(f".{column}")]
        if not ids:
            raise PageError(f"No printed number begins with {prefix} and ends with {column}; see data/published.")
        return ids

    def headline(self, prefix: str, column: str) -> str:
        """A small table of one column of a paper's table: printed, rescored, rerun."""
        rows = []
        for id in self._select(prefix, column):
            rescored, rerun = self._measured(id, "rescored"), self._measured(id, "rerun")
            rows.append(
                {
                    "Arm": label_of(id, rerun.number),
                    "Printed": self.printed(id),
                    "Rescored": rescored.html(bounds=False),
                    "Rerun": rerun.html(bounds=False) + fine_print(rerun.basis()),
                }
            )
        number = rerun.number
        caption = f"{number.column}: {number.table}" + (f", {number.model}" if number.model else "")
        return flat(figures.table(pd.DataFrame(rows), f"{caption}, beside the run that is shown here"))

    def drawn(self, prefix: str, column: str, *, narrow: bool = False) -> figures.Picture:
        """One column of a paper's table as a picture: printed, rescored and rerun of each arm."""
        rows, said, models = [], [], []
        for id in self._select(prefix, column):
            rescored, rerun = self._measured(id, "rescored"), self._measured(id, "rerun")
            number, arm = rerun.number, id.split(".")[2]
            colour = figures.arm_colour(arm) if arm in figures.ARMS else "#808080"
            row: dict[str, Any] = {"label": label_of(id, number), "colour": colour, "printed": number.value}
            for kind, cell in (("rescored", rescored), ("rerun", rerun)):
                ends = {f"{kind}_{end}": cell[end] if cell.there else None for end in ("low", "high")}
                row |= {kind: cell.row[cell.group] if cell.there else None} | ends
            rows.append(row)
            said.append(
                f"{row['label']}: printed {spaced(number.printed)}, rescored {rescored.text()}, rerun {rerun.text()}"
            )
            models += [rerun["model"]] if rerun.there and rerun["model"] else []
        frame = pd.DataFrame(rows)
        caption = f"{number.column} of each arm, as printed for {number.model} ({number.table})"
        caption += ", rescored from the authors' released answers" if frame["rescored"].notna().any() else ""
        caption += f", rerun with {', '.join(dict.fromkeys(models))}" if models else "; not rerun yet"
        caption += ". Bars are 95 % intervals." if frame[["rescored", "rerun"]].notna().any(axis=None) else "."
        figures.use_style()
        drawn = pictures.scoreboard_picture(frame, narrow=narrow)
        return figures.figure(drawn, alt="; ".join(said) + ".", caption=caption)

    def picture(self, prefix: str, column: str) -> str:
        """The same for a page: one picture for wide screens, one for narrow ones."""
        return for_screens(partial(self.drawn, prefix, column))

    @staticmethod
    def reasons() -> str:
        """Why claims are not tested: each reason code with its meaning."""
        return "; ".join(f"*{code}*: {text[0].lower()}{text[1:-1]}" for code, text in UNTESTED.items())

    def tally(self) -> str:
        """What became of the printed numbers, in two sentences."""
        real = self.board["rescored"].notna() & self.board["rescored_verdict"].ne("SAMPLE")
        agree = int((real & self.board["rescored_verdict"].eq("agrees")).sum())
        rerun = [self._measured(id, "rerun") for id in self._rows]
        done = [cell["verdict"] for cell in rerun if cell.there and cell["verdict"] != "not compared"]
        if not (real.any() or done):
            return f"{len(self.board)} numbers are printed. None of them has been tested here yet."
        return (
            f"The papers print {len(self.board)} numbers. {int(real.sum())} can be rescored from released files, and "
            f"{agree} of these match to the last digit. {len(done)} are rerun here: {done.count('agrees')} lie within "
            f"the stated tolerance, {done.count('differs')} outside it, {done.count('undecided')} are too uncertain to "
            f"tell, and for {done.count('stand-in')} another model answered, so they are not compared."
        )

    def outcomes(self) -> str:
        """What became of the claims of every paper, as a picture with its numbers in words."""
        words = ("agrees", "differs", "undecided", "not tested")
        named = dict(zip(words, ("holds", "does not hold", "undecided", "not tested"), strict=True))
        counts = {
            SUBJECTS.get(paper, paper): [verdicts.count(word) for word in words]
            for paper, verdicts in self._verdicts().items()
        }
        told = "; ".join(
            f"{subject}: " + ", ".join(f"{n} {named[word]}" for word, n in zip(words, of, strict=True) if n)
            for subject, of in counts.items()
        )
        caption = (
            f"The {len(self.claims)} claims of the papers. Released answers decide where the authors published any."
        )
        figures.use_style()

        def drawn(*, narrow: bool) -> figures.Picture:
            picture = pictures.shares_picture(counts, [named[word] for word in words], narrow=narrow)
            return figures.figure(picture, alt=f"{told}.", caption=caption)

        return for_screens(drawn)

    def _verdicts(self) -> dict[str, list[str]]:
        """The verdicts of each paper's claims; every reason why there is none is `not tested`."""
        found: dict[str, list[str]] = {}
        for row in self.claims.to_dict("records"):
            tested = row["verdict"] in TESTED
            found.setdefault(row["paper"], []).append(row["verdict"] if tested else "not tested")
        return found

    def papers(self) -> str:
        """Each paper: its subject, how many of its claims hold, and links to its numbers and chapters."""
        told = []
        verdicts = self._verdicts()
        for paper in dict.fromkeys((*PAPERS, *declared_papers())):
            own = [chapter for chapter in self.chapters if chapter.paper == paper]
            links = " · ".join(f"[{chapter.title}](notebooks/{chapter.name}.ipynb)" for chapter in own)
            subject = SUBJECTS[paper].capitalize() if paper in SUBJECTS else published(paper).title
            cited = f" {{cite:p}}`{PAPERS[paper]}`" if paper in PAPERS else ""
            board = f"[Numbers and claims]({self.page_of(paper)}.md)"
            told.append(
                f"**{subject}**{cited}. {_balance(verdicts.get(paper, []))} {board}.\n\n{links or 'No chapter yet.'}"
            )
        return "\n\n".join(told)

    @staticmethod
    def page_of(paper: str) -> str:
        """The page with a paper's numbers and claims."""
        return f"scoreboard-{paper}"

    def boards(self) -> dict[str, str]:
        """The pages with the numbers and claims of each paper: name and Markdown."""
        pages = {}
        for paper in dict.fromkeys((*PAPERS, *declared_papers())):
            subject = SUBJECTS[paper].capitalize() if paper in SUBJECTS else published(paper).title
            pages[f"{self.page_of(paper)}.md"] = (
                "---\nhtml_theme.sidebar_secondary.remove: true\n---\n"
                f"# {subject}: numbers and claims\n\n"
                f"{_balance(self._verdicts().get(paper, []))} [How to read the verdicts](how-to-read.md).\n\n"
                f"## Claims\n\n{self.ledger(paper)}\n\n## Numbers\n\n{self.scoreboard(paper)}\n"
            )
        return pages

    # -- the scoreboard page

    def experiments(self) -> str:
        """One row an experiment: what became of its numbers and claims, and which run that is from."""
        words = {"yours": "your run", "reference": "reference run", "none": "not run yet"}
        rows = []
        for chapter in self.chapters:
            experiment = link_to(chapter.name, chapter.title)
            if chapter.paper and chapter.paper in SUBJECTS:
                experiment += fine_print(SUBJECTS[chapter.paper])
            told = run_line(chapter.record) if chapter.record else ""
            rows.append(
                {
                    "Experiment": experiment,
                    "Rescored": self._share(chapter.name, "rescored"),
                    "Rerun": self._share(chapter.name, "rerun"),
                    "Claims": self._held(chapter.name),
                    "Run": escape(words[chapter.origin]) + fine_print(told),
                }
            )
        caption = "numbers rescored to the last printed digit, numbers rerun within tolerance, claims that hold"
        return self._table(rows, f"{len(rows)} experiments: {caption}")

    def _share(self, notebook: str, kind: Kind) -> Markup:
        """How many of a notebook's values of this kind agree with the printed ones; speed is not compared."""
        cells = [self._measured(id, kind) for id in self._rows]
        mine = [c for c in cells if c.there and c["notebook"] == notebook and c["verdict"] in TESTED]
        if not mine and any(c.there and c["notebook"] == notebook and c["verdict"] == "stand-in" for c in cells):
            return absent("stand-in")
        agree = sum(cell["verdict"] == "agrees" for cell in mine)
        return sortable(agree / len(mine), f"{agree} of {len(mine)}") if mine else escape(_NONE)

    def _held(self, notebook: str) -> Markup:
        """How many of the claims that a notebook's shown run tests hold in it, and how many it leaves open."""
        tested = [
            row["verdict"]
            for row in self.claims.to_dict("records")
            if row["verdict"] in TESTED and notebook == row[f"{row['basis']}_notebook"]
        ]
        if not tested:
            return escape(_NONE)
        held, left = tested.count("agrees"), tested.count("undecided")
        return sortable(held / len(tested), f"{held} of {len(tested)}") + fine_print(
            f"{left} undecided" if left else ""
        )

    def scoreboard(self, paper: str) -> str:
        """Every number that a paper prints, beside what became of it; the page's script adds sorting and filters.

        In the order of its tables, those first of which something became.
        """
        measured = {
            id: (self._measured(id, "rescored"), self._measured(id, "rerun"))
            for id, row in self._rows.items()
            if row["paper"] == paper
        }
        others = models(self.board[self.board["paper"] == paper])
        rows = []
        for id in sorted(measured, key=lambda id: not any(cell.there for cell in measured[id])):
            row, (rescored, rerun) = self._rows[id], measured[id]
            notebook = rerun["notebook"] or rescored["notebook"]
            there = any(chapter.name == notebook for chapter in self.chapters)
            name = link_to(notebook, row["row"]) if there else escape(row["row"])
            rows.append(
                {
                    "Table": row["table"],
                    "Quantity": Markup('<span id="{}">{}</span>').format(id, name) + fine_print(row["column"]),
                    "Printed": self.printed(id),
                    "Rescored": self._cell(rescored),
                    "Rerun": self._cell(rerun),
                    **{model: self._cell(Measured(number_of(id), row, f"{BY}{model}")) for model in others},
                }
            )
        caption = f"Every printed number, {len(rows)} in all"
        return flat(figures.table(pd.DataFrame(rows), caption, classes="rag-sortable rag-cards rag-board"))

    def _cell(self, cell: Measured) -> Markup:
        if not cell.there:
            # that nothing has been run needs no second sentence
            why = cell["why"] if cell["notebook"] or cell.verdict != "not run" else ""
            return absent(cell.verdict) + fine_print(why)
        small: list[str] = [] if cell.verdict == "not compared" else [verdict(cell.verdict)]
        small += [f"n = {figures.number(cell['n'], 'count')}"] if not pd.isna(cell["n"]) else []
        small += [f"{cell['unparsed']} unparsed"] if not pd.isna(cell["unparsed"]) and cell["unparsed"] else []
        small += [text for text in (cell["model"], "reference run" * (cell.group == "reference")) if text]
        if (arms := self._answered.get(cell["notebook"])) and cell.group != "rescored":
            arm = next((part for part in cell.number.id.split(".") if part in arms), "")
            small.append(Markup('<a href="{}">answers</a>').format(viewer.link(cell["notebook"], arm)))
        return cell.html() + fine_print(Markup("; ").join(small))

    def ledger(self, paper: str) -> str:
        """The claims of a paper: the rule, and what the released answers and the rerun say, each with its reason."""
        others = models(self.claims[self.claims["paper"] == paper])
        rows = [
            {
                "Claim": escape(row["claim"]) + fine_print(row["where"]) + folded("Rule", row[f"{row['shown']}_test"]),
                "Published evidence": self._said(row, "printed" if row["printed_notebook"] else "rescored"),
                "Rerun": self._said(row, row["shown"]),
                **{model: self._said(row, f"{BY}{model}") for model in others},
            }
            for row in self.claims.to_dict("records")
            if row["paper"] == paper
        ]
        return flat(
            figures.table(pd.DataFrame(rows), f"{len(rows)} claims", classes="rag-sortable rag-cards rag-claims")
        )

    @staticmethod
    def _said(row: Mapping[Any, Any], group: str) -> Markup:
        if not row[f"{group}_notebook"]:
            return absent("not run") if group == row["shown"] else escape(_NONE)
        reason = f" ({row[f'{group}_reason']})" if row[f"{group}_reason"] else ""
        why = row[f"{group}_why"]
        told = escape("printed numbers: " if group == "printed" else "")
        return told + verdict(row[f"{group}_verdict"]) + reason + folded("Evidence", why)

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


def _balance(verdicts: Sequence[str]) -> str:
    """How many claims hold, do not, are left open and were not tested, in a sentence."""
    hold, fail, left = (verdicts.count(word) for word in TESTED)
    rest = len(verdicts) - hold - fail - left
    if not verdicts:
        return "It states no claim that is tested here."
    return f"{len(verdicts)} claims: {hold} hold, {fail} fail, {left} undecided, {rest} not tested."
