"""What the book's pages say of a result; templates in `book/*.md` call the functions.

Each function returns Markdown or HTML.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import pandas as pd

from evaluation import audit, figures
from evaluation.markup import Markup, escape, fine_print, sortable
from evaluation.published import Kind, papers as declared_papers, published
from evaluation.verdicts import evidence_lines, here_word, verdict_mark, verdict_with_reason
from evaluation.vocabulary import ANSWERED_HERE, TESTED
from publish import claim_pages, number_rows, pieces, selections, viewer
from publish.board_cells import BY, HERE_BY
from publish.board_pages import PAPERS, subject_of
from publish.board_tables import models
from publish.paper_pages import PaperPages
from publish.pieces import Measured, folded, link_to, spaced, table
from publish.run_pages import ORIGINS

FUNCTIONS: Final = (
    "n_questions picture tally outcomes reasons papers experiments downloads runs software models "
    "sources data parameters faults benchmarks settings_table launch_links costs servers file "
    "evidence exhibit audited"
    " diagram balance landing headlines untested figures_gallery get_it opening"
    " claim_counts claim_lists coverage replayed replayed_table"
    " landing_notes cost_words samples citation"
)
"""What a template may call, beside `verdict`."""
_NONE: Final = "\N{EN DASH}"
PUBLISHED_EVIDENCE: Final = "Paper's system: published evidence"
"""The column of verdicts by printed numbers and released files; left out where there are none."""


class Pages(PaperPages):
    """The functions of the templates, bound to the runs that this build shows."""

    def functions(self) -> dict[str, Callable[..., str]]:
        """Return the functions by the names that a template uses."""
        functions: dict[str, Callable[..., str]] = {
            name: getattr(self, name) for name in FUNCTIONS.split()
        }
        functions["verdict"] = verdict_mark
        return functions

    def audited(self) -> str:
        """Return what the audit says of the rows of each chapter.

        It gives the verdicts, and the figures of what the audit finds.
        """
        audits = [answers.audit for answers in self.answers.values()]
        if not audits:
            return "No run has answers to audit."
        verdicts = table(
            [chapter.verdicts for chapter in audits],
            "Seven checks of each chapter's answers. A cell is empty where a check does not apply",
            "",
        )
        findings: list[dict[str, Any]] = []
        for chapter in audits:
            findings += chapter.findings
        if not findings:
            return verdicts
        caption = f"What the checks found, with numbers for at most two groups each. {audit.SUBSET}"
        return f"{verdicts}\n\n{table(findings, caption, '')}"

    def _papers(self) -> Iterator[tuple[str, str, str]]:
        """Yield each paper, its subject and the balance of its claims, in the book's order."""
        for paper in dict.fromkeys((*PAPERS, *declared_papers())):
            claims = self.claims[self.claims["paper"] == paper]
            balance = self.balance(paper) if len(claims) else "It states no claim."
            yield paper, _title(paper), balance

    def papers(self, *, chapters: bool = True) -> str:
        """Return each paper's subject with links.

        Args:
            chapters: Whether to list the paper's chapters, or else how many of its claims hold.
        """
        texts = []
        for paper, subject, balance in self._papers():
            key = PAPERS.get(paper, ("", ""))[1]
            citation = f" {{cite:p}}`{key}`" if key else ""
            numbers = f"[Numbers and claims](scoreboard-{paper}.md)"
            if not chapters:
                texts.append(f"**{subject}**{citation}. {balance} {numbers}.")
            else:
                texts.append(f"**{subject}**{citation}. {numbers}.")
                texts.append(self._chapter_links(paper) or "No chapter yet.")
        return "\n\n".join(texts)

    def _chapter_links(self, paper: str) -> str:
        """Return a list of a paper's chapters."""
        chapters = [chapter for chapter in self.chapters if chapter.paper == paper]
        return "\n".join(
            f"- [{chapter.name[:2]} · {chapter.title}](notebooks/{chapter.name}.ipynb)"
            for chapter in chapters
        )

    def boards(self) -> dict[str, str]:
        """Return the pages with the numbers and claims of each paper: name and Markdown."""
        return {
            f"scoreboard-{paper}.md": (
                "---\nhtml_theme.sidebar_secondary.remove: true\n---\n"
                f"# {subject}: numbers and claims\n\n"
                f"{balance} [How to read the verdicts](how-to-read.md).\n\n"
                f"## Claims\n\n{self.ledger(paper)}\n\n"
                f"## Tables and figures\n\n{self._exhibits(paper)}\n\n"
                f"## Numbers\n\n{self.scoreboard(paper)}\n"
            )
            for paper, subject, balance in self._papers()
        }

    def _exhibits(self, paper: str) -> str:
        return claim_pages.exhibits_table(paper, self.board) or "There are none."

    def experiments(self) -> str:
        """Return a row for each experiment: its numbers, its claims, and their run."""
        rows = []
        for chapter in self.chapters:
            title = link_to(chapter.name, chapter.title)
            run = pieces.run_line(chapter.record) if chapter.record else ""
            row = {
                "Experiment": title + fine_print(subject_of(chapter.paper or "")),
                "Rescored": self._share(chapter.name, "rescored"),
                "Rerun": self._share(chapter.name, "rerun"),
                "Claims": self._claims_that_hold(chapter.name),
                "Run": escape(ORIGINS[chapter.origin]) + fine_print(run),
            }
            rows.append(row)
        return table(
            rows,
            "Compared numbers that match within their tolerance (rescored and rerun), and tested "
            f"claims that hold for the paper's system, in each of {len(rows)} experiments",
        )

    def _share(self, notebook: str, kind: Kind) -> Markup:
        """Return how many of a notebook's values agree with the printed ones.

        Speed is not compared.
        """
        cells = [self._measured(number_id, kind) for number_id in self._rows]
        available = [cell for cell in cells if cell.is_available]
        verdicts = [cell["verdict"] for cell in available if cell["notebook"] == notebook]
        compared = [word for word in verdicts if word in ("matches", "differs", "inconclusive")]
        if not compared and "another model" in verdicts:
            return pieces.absent("another model")
        return _share_of(compared, "matches")

    def _claims_that_hold(self, notebook: str) -> Markup:
        """Return how many of the claims that a notebook tests hold or stay open."""
        tested = []
        for row in self.claims.to_dict("records"):
            is_decided_here = row[f"{row['basis']}_notebook"] == notebook
            if is_decided_here and row["verdict"] in TESTED:
                tested.append(row["verdict"])
        n_inconclusive = tested.count("inconclusive")
        remark = f"{n_inconclusive} inconclusive" if n_inconclusive else ""
        return _share_of(tested, "agrees") + fine_print(remark)

    def scoreboard(self, paper: str) -> str:
        """Return every number that a paper prints, those first of which something became."""
        others = models(self.board[self.board["paper"] == paper])
        tested: list[dict[str, Any]] = []
        untested: list[dict[str, Any]] = []
        for number_id, row in self._rows.items():
            if row["paper"] != paper:
                continue
            rescored = self._measured(number_id, "rescored")
            rerun = self._measured(number_id, "rerun")
            cells = self._number_row(rescored, rerun, others)
            is_tested = rescored.is_available or rerun.is_available
            (tested if is_tested else untested).append(cells)
        rows = tested + untested
        if not rows:
            return "There are none."
        caption = f"Every printed number, {len(rows)} in all"
        return table(rows, caption, "rag-sortable rag-cards rag-board")

    def _number_row(self, rescored: Measured, rerun: Measured, others: list[str]) -> dict[str, Any]:
        """Return a printed number, and what became of it.

        Args:
            rescored: The rescored value.
            rerun: The value of the rerun that is shown.
            others: Other models, each of which has a column.
        """
        number, row = rerun.number, rerun.row
        notebook = rerun["notebook"] or rescored["notebook"]
        is_shown = notebook in {chapter.name for chapter in self.chapters}
        name = link_to(notebook, row["row"]) if is_shown else escape(row["row"])
        anchor = Markup('<span id="{}">{}</span>').format(number.id, name)
        cells = {
            "Table": row["table"],
            "Quantity": anchor + fine_print(row["column"]) + fine_print(row["note"]),
            "Printed": sortable(number.value, spaced(number.printed)),
            "Rescored": self._cell(rescored),
            "Rerun": self._cell(rerun),
        }
        for model in others:
            cells[model] = self._cell(Measured(number, row, f"{BY}{model}"))
        return cells

    def _cell(self, cell: Measured) -> Markup:
        """Return a value with its verdict and details, or why there is none."""
        if not cell.is_available:
            is_unread = cell.group == "rescored" and bool(cell.number.not_read)
            # that nothing has been run needs no second sentence
            if cell.verdict == "not run" and not cell["notebook"] and not is_unread:
                return pieces.absent(cell.verdict)
            # a run says why it gives no value, and may have computed one
            word = cell.verdict.replace("not run", "no value")
            return pieces.absent(word) + fine_print(cell["why"])
        details = _details(cell)
        link = self._answers_link(cell)
        if link:
            details.append(link)
        remark = folded("Remark", cell["note"]) if cell["note"] else Markup()
        return cell.html() + fine_print(Markup("; ").join(details)) + remark

    def _answers_link(self, cell: Measured) -> Markup:
        """Return a link to the answers that a value was computed from; empty if there are none."""
        notebook = cell["notebook"]
        if notebook not in self.answers or cell.group == "rescored":
            return Markup()
        lists = self.answers[notebook].lists
        selection, selected = number_rows.rows_of_number(cell.number.id, cell["model"], lists)
        if selection is None or selected is None:
            return Markup()
        return selections.link(notebook, selection, selected.words(selection))

    def ledger(self, paper: str) -> str:
        """Return the claims of a paper, each with its rule, its verdicts and their reasons."""
        claims = self.claims[self.claims["paper"] == paper]
        others = [model for model in models(claims) if _has_answers(claims, model)]
        rows = [_claim_row(row, others, self.answers) for row in claims.to_dict("records")]
        if all(row.get(PUBLISHED_EVIDENCE, _NONE) == _NONE for row in rows):
            for row in rows:
                row.pop(PUBLISHED_EVIDENCE, None)
        caption = f"{len(rows)} claims, each with its answers and their evidence"
        return table(rows, caption, "rag-sortable rag-cards rag-claims")

    def downloads(self) -> str:
        """Return links to the scoreboard as data, which `files` writes."""
        return ", ".join(f'<a href="{name}" download>{name}</a>' for name in self.files())

    def files(self) -> dict[str, str]:
        """Return the scoreboard as data: file name and content."""
        return {
            "scoreboard.csv": self.board.to_csv(index=False),
            "scoreboard.json": self.board.to_json(orient="records", indent=1) or "",
            "claims.json": self.claims.to_json(orient="records", indent=1) or "",
        }

    def scripts(self) -> dict[str, str]:
        """Return the data of the answer viewer, as scripts."""
        files: dict[str, str] = {}
        entries = []
        for answers in self.answers.values():
            files |= answers.scripts
            entries.append({**answers.entry, "paper": _title(answers.entry["paper"])})
        return files | viewer.index(entries)


def _has_answers(claims: pd.DataFrame, model: str) -> bool:
    """Whether a model says of any of these claims if it holds here."""
    return bool(claims[f"{HERE_BY}{model}_answer"].isin(ANSWERED_HERE).any())


def _title(paper: str | None) -> str:
    """Return a paper's subject, or else its title."""
    if not paper:
        return "Other"
    return subject_of(paper).capitalize() or published(paper).title


def _share_of(words: list[str], good: str) -> Markup:
    """Return how many of some words are the good one."""
    if not words:
        return escape(_NONE)
    n_good = words.count(good)
    return sortable(n_good / len(words), f"{n_good} of {len(words)}")


def _details(cell: Measured) -> list[str]:
    """Return what stands below a value: verdict, questions, model and so on."""
    details: list[str] = [verdict_mark(cell.verdict)]
    if not pd.isna(cell["n"]):
        details.append(f"n = {figures.number(cell['n'], 'count')}")
    if not pd.isna(cell["unparsed"]) and cell["unparsed"]:
        details.append(f"{cell['unparsed']} unparsed")
    origin = "reference run" if cell.group == "reference" else ""
    details += [text for text in (cell["model"], origin) if text]
    return details


def _claim_row(
    row: Mapping[Any, Any], others: list[str], read: Mapping[str, Any]
) -> dict[str, Any]:
    """Return a claim, and what is said of it.

    Args:
        row: A row of the ledger.
        others: Other models, each of which has a column.
        read: What the viewer says of each notebook that it has rows of.
    """
    anchor = Markup('<span id="{}">{}</span>').format(row["id"], row["claim"])
    remark = folded("Remark", row["note"]) if row["note"] else Markup()
    claim = anchor + fine_print(row["where"])
    evidence = "printed" if row["printed_notebook"] else "rescored"
    rule = folded("Rule", row[f"{row['shown']}_test"])
    cells = {
        "Claim": claim + remark + rule + claim_pages.folded_trial(row["id"]),
    }
    if row["paper"] != pieces.ACROSS:  # this book's own claims are about no paper's system
        cells[PUBLISHED_EVIDENCE] = _verdict_cell(row, evidence, read)
        cells["Paper's system: rerun"] = _verdict_cell(row, row["shown"], read)
    cells["Here"] = _here_cell(row, "here", read)
    for model in others:
        cells[f"Here: {model}"] = _here_cell(row, f"{HERE_BY}{model}", read)
    return cells


def _here_cell(row: Mapping[Any, Any], group: str, read: Mapping[str, Any]) -> Markup:
    """Return whether a claim holds by the models that ran, with its evidence."""
    if not row[f"{group}_notebook"] and not row[f"{group}_reason"]:
        return pieces.absent("not run")
    answer = verdict_with_reason(here_word(row[f"{group}_answer"]), row[f"{group}_reason"])
    links = claim_pages.rows_link(row, group, read) if row[f"{group}_models"] else Markup()
    evidence = folded("Evidence", evidence_lines(row[f"{group}_why"]))
    return answer + claim_pages.here_words(row, group) + evidence + Markup(" ") + links


def _verdict_cell(row: Mapping[Any, Any], group: str, read: Mapping[str, Any]) -> Markup:
    """Return the verdict of a group on a claim, with its evidence and a link to its rows."""
    if not row[f"{group}_notebook"]:
        has_published_evidence = row["printed_notebook"] or row["rescored_notebook"]
        if group == row["shown"] and not has_published_evidence:
            return pieces.absent("not tested")
        return escape(_NONE)
    verdict = verdict_with_reason(row[f"{group}_verdict"], row[f"{group}_reason"])
    evidence = folded("Evidence", evidence_lines(row[f"{group}_why"]))
    origin = "printed numbers: " if group == "printed" else ""
    is_tested = row[f"{group}_verdict"] in TESTED
    link = claim_pages.rows_link(row, group, read) if is_tested else Markup()
    return escape(origin) + verdict + evidence + Markup(" ") + link
