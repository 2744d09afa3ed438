"""Printed, rescored and rerun side by side: the scoreboard, and the ledger of claims.

python -m publish.scoreboard [--paper PAPER] [--verdict VERDICT] [--check]
"""

import argparse
import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import get_args

import pandas as pd
from rich.console import Console
from rich.markup import escape

from evaluation.published import Claim, Number, papers, published
from evaluation.records import Record, other_models, records
from evaluation.vocabulary import Verdict
from publish.board_cells import Row, claim_row, number_row
from publish.board_tables import board_table, claim_table, print_list, print_table, summary_table
from publish.drift import compare
from resources.settings import RESULTS, Profile, run_command_line, run_name, settings


def scoreboard(paper: str | None = None, profile: Profile | None = None) -> pd.DataFrame:
    """Return every printed number, with what became of it.

    Groups of columns, each with `_n`, `_low`, `_verdict` and so on: `rescored`, `reference` (the
    kept run's rerun), `rerun` (this machine's) and `rerun by <model>`. `_verdict` is a
    `vocabulary.Match`. `shown` says which rerun the book shows: this machine's on real data, or
    else the reference.

    Args:
        paper: By default all papers.
        profile: Profile of the runs; by default the setting's.
    """
    return _frame("numbers", number_row, paper, profile)


def ledger(paper: str | None = None, profile: Profile | None = None) -> pd.DataFrame:
    """Return every claim, with what became of it.

    It has `_verdict`, `_why`, `_test` and so on for `printed` and each group of the scoreboard.
    `verdict` and `why` are those of `basis`: the authors' released answers or the printed numbers
    if these test the claim, or else the rerun `shown`; that is another model's if only this is
    within the claim's scope. `here_answer`, `here_why` and so on say whether the claim holds by the
    models that ran, whatever they are; `here by <model>` does so for another model.

    Args:
        paper: By default all papers.
        profile: Profile of the runs; by default the setting's.
    """
    return _frame("claims", claim_row, paper, profile)


def _frame(
    part: str, make_row: Callable[..., Row], paper: str | None, profile: Profile | None
) -> pd.DataFrame:
    """Return a row for each number or claim; a cell of it becomes columns of its group."""
    profile = profile or settings().profile
    own = records(run_name(profile))
    reference = records(profile, RESULTS)
    others = other_models(profile, RESULTS)
    rows = []
    for name in [paper] if paper else papers():
        entries: Iterable[Number | Claim] = getattr(published(name), part)
        for entry in entries:
            row = make_row(entry, own, reference, others)
            rows.append(_columns({"id": entry.id, "paper": name} | row))
    frame = pd.DataFrame(rows)
    return frame.astype(_column_types(frame.columns))


def _column_types(columns: Iterable[str]) -> dict[str, str]:
    """Return the types of the columns with counts and with values."""
    names = list(columns)
    types = {name: "Int64" for name in names if name.endswith(("_n", "_unparsed", "_needed"))}
    groups = [name.removesuffix("_verdict") for name in names if name.endswith("_verdict")]
    for group in groups:
        values = [f"{group}{end}" for end in ("", "_low", "_high", "_p")]
        types |= {name: "float64" for name in values if name in names}
    return types


def _columns(row: Row) -> Row:
    """Return a row in which each cell's parts are columns, `<group>` for its value."""
    columns: Row = {}
    for name, cell in row.items():
        if not isinstance(cell, dict):
            columns[name] = cell
            continue
        for key, item in cell.items():
            columns[name if key == "value" else f"{name}_{key}"] = item
    return columns


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what became of each paper, or of one.

    Returns:
        0; with `--check` 1 if a number drifted, and 2 if there is nothing to compare.
    """
    parser = argparse.ArgumentParser(
        prog="python -m publish.scoreboard", description="Printed, rescored, rerun."
    )
    parser.add_argument("--paper", help="every number and claim of this paper")
    parser.add_argument("--verdict", choices=get_args(Verdict), help="claims with this verdict")
    parser.add_argument("--profile", choices=get_args(Profile), default=settings().profile)
    parser.add_argument(
        "--check", action="store_true", help="exit 1 if a number drifted from the reference"
    )
    options = parser.parse_args(arguments)
    if options.paper and options.paper not in papers():
        parser.exit(
            2,
            f"There is no paper {options.paper!r}. Use medrerun scoreboard {'|'.join(papers())}\n",
        )
    logging.basicConfig(format="%(levelname)s: %(message)s")
    console = Console()
    if options.check:
        return _check(console, options.paper, options.profile)
    if options.verdict:
        _print_claims(console, options.paper, options.profile, options.verdict)
    else:
        _print(console, options.paper, options.profile)
    return 0


def _print_claims(console: Console, paper: str | None, profile: Profile, verdict: Verdict) -> None:
    """Print the claims of a paper, or of all, that have this verdict."""
    claims = ledger(paper, profile)
    chosen = claims[claims["verdict"] == verdict]
    if chosen.empty:
        console.print(f"No claim of {paper or 'the papers'} has the verdict {verdict!r}.")
        return
    print_list(console, claim_table(chosen))


def _print(console: Console, paper: str | None, profile: Profile) -> None:
    """Print the numbers and claims of a paper, or a summary of all."""
    board = scoreboard(paper, profile)
    claims = ledger(paper, profile)
    if not paper:
        hint = "One paper's numbers and claims: medrerun scoreboard side_effects"
        console.print(summary_table(board, claims), hint)
        return
    if len(board):
        for (_, table), rows in board.groupby(["paper", "table"], sort=False):
            print_table(console, board_table(escape(f"{paper}: {table}"), rows))
    print_list(console, claim_table(claims))


def _check(console: Console, paper: str | None, profile: Profile) -> int:
    """Print the drift of this machine's runs from the reference; returns the exit status."""
    pairs = _runs_with_reference(console, paper, profile)
    if not pairs:
        console.print(
            f"Nothing to compare for the profile {profile}: "
            "run `make reproduce` on real data first."
        )
        return 2
    n_drifts = 0
    for run, reference in pairs:
        for drift in compare(run, reference):
            n_drifts += 1
            where = f"{run.notebook}: {drift.id} ({drift.kind})"
            console.print(
                f"[red]drift[/] {where}: {escape(drift.why)}; allowed {drift.allowed:.4g}"
            )
    if n_drifts:
        return 1
    names = ", ".join(run.notebook for run, _ in pairs)
    console.print(f"No drift from the reference: {names}.")
    return 0


def _runs_with_reference(
    console: Console, paper: str | None, profile: Profile
) -> list[tuple[Record, Record]]:
    """Return this machine's runs on real data, each with its kept run; say which are on samples."""
    references = {run.notebook: run for run in records(profile, RESULTS)}
    pairs = []
    for run in records(run_name(profile)):
        reference = references.get(run.notebook)
        if reference is None or paper not in (None, run.paper):
            continue
        if run.sample or reference.sample:
            console.print(
                f"{run.notebook}: made from sample data, "
                "so there is no reference to compare it with."
            )
        else:
            pairs.append((run, reference))
    return pairs


if __name__ == "__main__":
    sys.exit(run_command_line(main))
