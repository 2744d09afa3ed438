"""Printed, rescored and rerun side by side: the scoreboard, the ledger of claims, and drift from the kept reference."""

import argparse
import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, get_args

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from evaluation.decisions import is_model_of
from evaluation.published import Basis, Claim, Kind, Number, Unit, papers, published
from evaluation.records import TESTED, Record, Value, other_models, records
from evaluation.verdicts import verdict_label
from resources.settings import RESULTS, Profile, run_command_line, run_name, settings

SLACK = 1e-9  # relative slack of every comparison, so that a value on the border of its tolerance counts as within it
# how far a rerun may always lie from the kept reference; other units are not compared
DRIFT_FLOOR: dict[Unit, float] = {"fraction": 0.01, "percentage_points": 1.0, "count": 0.0}
BY = "rerun by "  # begins the names of the columns that have another model's rerun
_NO_VALUE = dict.fromkeys(("value", "n", "low", "high", "unparsed")) | dict.fromkeys(
    ("model", "notebook", "note"), ""
)
NARROW = 16  # characters of a line for each column, below which a table is printed as a list
Row = dict[str, Any]
Runs = Sequence[Record]


def scoreboard(paper: str | None = None, profile: Profile | None = None) -> pd.DataFrame:
    """Every printed number, with what became of it: of one paper or all, by the runs of a profile or the setting's.

    Groups of columns, each with `_n`, `_low`, `_verdict` and so on: `rescored`, `reference` (the kept run's rerun),
    `rerun` (this machine's) and `rerun by <model>`. A verdict is agrees, differs, undecided (only the interval reaches
    within the tolerance), stand-in (another model answered), not compared (speed), SAMPLE, not run or cannot be run.
    `shown` says which rerun the book shows: this machine's on real data, or else the reference.
    """
    return _frame("numbers", _number_row, paper, profile)


def ledger(paper: str | None = None, profile: Profile | None = None) -> pd.DataFrame:
    """Every claim, with `_verdict`, `_why`, `_test` and so on for `printed` and each group of the scoreboard.

    `verdict` and `why` are those of `basis`: the authors' released answers or the printed numbers if these test the
    claim, or else the rerun `shown`; that is another model's if only this is within the claim's scope.
    """
    return _frame("claims", _claim_row, paper, profile)


def models(board: pd.DataFrame) -> list[str]:
    """The other models that have a column on a scoreboard or ledger, and a rerun in one of its rows."""
    groups = [
        str(c).removesuffix("_notebook")
        for c in board.columns
        if c.startswith(BY) and c.endswith("_notebook")
    ]
    return [group.removeprefix(BY) for group in groups if board[f"{group}_notebook"].ne("").any()]


def _frame(
    part: str, row: Callable[..., Row], paper: str | None, profile: Profile | None
) -> pd.DataFrame:
    """A row for each number or claim of one paper or all; a cell of it, by its group, becomes columns."""
    profile = profile or settings().profile
    # this machine's runs, the kept ones, and those of other models
    runs = records(run_name(profile)), records(profile, RESULTS), other_models(profile, RESULTS)
    entries = [
        (name, entry)
        for name in ([paper] if paper else papers())
        for entry in getattr(published(name), part)
    ]
    frame = pd.DataFrame(
        [_columns({"id": entry.id, "paper": name} | row(entry, *runs)) for name, entry in entries]
    )
    groups = [
        column.removesuffix("_verdict") for column in frame.columns if column.endswith("_verdict")
    ]
    kinds = dict.fromkeys(
        (c for c in frame.columns if c.endswith(("_n", "_unparsed", "_needed"))), "Int64"
    )
    kinds |= dict.fromkeys(
        (f"{group}{end}" for group in groups for end in ("", "_low", "_high", "_p")), "float64"
    )
    return frame.astype({column: kind for column, kind in kinds.items() if column in frame.columns})


def _columns(row: Row) -> Row:
    cells = {name: of if isinstance(of, dict) else {"value": of} for name, of in row.items()}
    return {
        name if key == "value" else f"{name}_{key}": of[key]
        for name, of in cells.items()
        for key in of
    }


def _number_row(number: Number, own: Runs, kept: Runs, others: Mapping[str, Runs]) -> Row:
    # this machine's rescored value if it is on real data, or else the kept one, or else a SAMPLE or a reason
    mine, theirs = (_cell(number, "rescored", runs, "not yet rescored") for runs in (own, kept))
    real = mine["value"] is not None and mine["verdict"] != "SAMPLE"
    there = _cell(number, "rerun", kept, "no reference run has it yet")
    here = _cell(number, "rerun", own, "not yet run on this machine")
    says = here["value"] is not None or (here["notebook"] and there["value"] is None)
    return {
        **{
            key: getattr(number, key)
            for key in ("table", "row", "column", "unit", "printed", "value")
        },
        **{"printed_n": number.n, "printed_model": number.model or "", "note": number.note},
        "rescored": mine if real or (mine["notebook"] and theirs["value"] is None) else theirs,
        **{"reference": there, "rerun": here},
        **{
            f"{BY}{model}": _cell(number, "rerun", runs, "not yet run")
            for model, runs in others.items()
        },
        "shown": "rerun" if says and here["verdict"] != "SAMPLE" else "reference",
    }


def _claim_row(claim: Claim, own: Runs, kept: Runs, others: Mapping[str, Runs]) -> Row:
    groups = {
        "printed": _decided(claim, "printed", [*own, *kept], "the printed numbers do not test it"),
        "rescored": _decided(claim, "rescored", [*own, *kept], "no released files test it"),
        "reference": _decided(
            claim, "rerun", kept, claim.why_not or "no reference run tests it yet"
        ),
        "rerun": _decided(claim, "rerun", own, claim.why_not or "not yet run on this machine"),
        **{
            f"{BY}{model}": _decided(claim, "rerun", runs, "not yet run")
            for model, runs in others.items()
        },
    }
    verdicts = {group: cell["verdict"] for group, cell in groups.items()}
    says = (
        verdicts["rerun"] != "SAMPLE"
        and verdicts["reference"] not in TESTED
        and groups["rerun"]["notebook"]
    )
    newer = verdicts["rerun"] in TESTED or says or not groups["reference"]["notebook"]
    shown = "rerun" if newer else "reference"
    if claim.rule and claim.rule.scope and verdicts[shown] not in TESTED:
        named = [by for by in groups if by.startswith(BY) and is_model_of(by, claim.rule.scope)]
        shown = next((by for by in named if verdicts[by] in TESTED), shown)
    given = [by for by in ("rescored", "printed") if verdicts[by] in (*TESTED, "cannot be run")]
    basis = [
        *given,
        *(by for by in (shown, "rescored", "printed") if groups[by]["notebook"]),
        shown,
    ][0]
    row = {
        "claim": claim.text,
        "where": claim.where,
        "note": claim.note,
        **groups,
        "shown": shown,
        "basis": basis,
    }
    return row | {key: groups[basis][key] for key in ("verdict", "why", "reason")}


def _newest(runs: Runs, part: str, id: str, kind: Basis) -> tuple[Record, Any] | tuple[None, None]:
    """The newest of these runs with such an entry, and the entry; a tested claim, then real data, go before others."""
    found = [
        (run, entry)
        for run in runs
        for entry in getattr(run, part)
        if (entry.id, entry.kind) == (id, kind)
    ]
    if not found:
        return None, None
    return max(
        found,
        key=lambda of: (getattr(of[1], "verdict", "") in TESTED, not of[0].sample, of[0].created),
    )


def _cell(number: Number, kind: Kind, runs: Runs, empty: str) -> Row:
    """A number's cell from the newest of these runs that has it, or the reason why none has."""
    run, value = _newest(runs, "values", number.id, kind)
    if run and value:
        verdict, why = (
            ("SAMPLE", "made from sample data: not compared")
            if run.sample
            else _judge(number, value)
        )
        known = value.model and number.model
        if known and _plain(value.model) not in map(_plain, (number.model or "").split(" or ")):
            verdict = verdict if verdict in ("SAMPLE", "not compared") else "stand-in"
            why = f"{value.model} stands in for {number.model}; {why}"
        measured = value.model_dump(include=_NO_VALUE.keys() - {"notebook"})
        return {"verdict": verdict, "why": why, **_NO_VALUE, **measured, "notebook": run.notebook}
    run, reason = _newest(runs, "reasons", number.id, kind)
    if run and reason:
        return {"verdict": reason.status, "why": reason.why, **_NO_VALUE, "notebook": run.notebook}
    never = number.why_not if kind == "rescored" else number.why_no_rerun
    return {"verdict": "cannot be run" if never else "not run", "why": never or empty, **_NO_VALUE}


def _judge(number: Number, value: Value) -> tuple[str, str]:
    tolerance = number.within(value.kind)
    if tolerance is None:
        return "not compared", "speed depends on the machine"
    # a rescored value is judged by its last printed digit, so it is shown with more
    more = 1 if value.kind == "rescored" else 0
    limit = number.show(tolerance, more).lstrip("+")
    apart = f"{number.show(value.value, 2 * more)} against {number.printed} printed"
    if _near(value.value, number.value, tolerance):
        return "agrees", f"{apart}; within the tolerance of {limit}"
    beyond, nearest = f"{apart}; beyond the tolerance of {limit}", value.value
    if value.kind == "rerun" and value.low is not None and value.high is not None:
        nearest = min(max(number.value, value.low), value.high)
    if _near(nearest, number.value, tolerance):
        return "undecided", f"{beyond}, but the interval reaches within it"
    return "differs", beyond


def _decided(claim: Claim, kind: Basis, runs: Runs, empty: str) -> Row:
    """What the newest of these runs says about a claim; one that decides it goes before one that only says why not."""
    run, found = _newest(runs, "claims", claim.id, kind)
    if run is None or found is None:
        row = {"verdict": "not run", "why": empty, "test": claim.decided_by, "notebook": ""}
        return row | dict.fromkeys(("p", "reason", "needed"))
    verdict = "SAMPLE" if run.sample and found.verdict in TESTED else found.verdict
    of_run = {key: getattr(found, key) for key in ("why", "test", "p", "reason", "needed")}
    return of_run | {"verdict": verdict, "notebook": run.notebook}


def _near(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance + SLACK * max(1.0, abs(b))


def _plain(model: str) -> str:
    """A model's name without owner, case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", model.rsplit("/", 1)[-1].lower())


class Drift(NamedTuple):
    """A number that moved away from the kept reference, or is gone."""

    id: str
    kind: Kind
    allowed: float
    why: str


def compare(run: Record, reference: Record) -> list[Drift]:
    """The reference's numbers that this run does not give again; none if either run had only SAMPLE data.

    A rescored number shall be the same, a rerun one may move by its `drift`, or else by half the reference's interval
    or DRIFT_FLOOR, whichever is more. Speed is not compared, nor is a rerun by another model.
    """
    now = {(value.kind, value.id): value for value in run.values}
    numbers = {number.id: number for number in published(reference.paper).numbers}
    drifts = []
    for old in () if run.sample or reference.sample else reference.values:
        new, number, why = now.get((old.kind, old.id)), numbers.get(old.id), ""
        allowed = _allowed(number, old) if number else 0.0
        if allowed is None or (new and new.model != old.model):
            continue
        if number is None or new is None:
            why = "this run has no value" if number else "the reference has an unknown id"
        elif not _near(new.value, old.value, allowed):
            why = f"now {number.show(new.value, 2)}, reference {number.show(old.value, 2)}"
        drifts += [Drift(old.id, old.kind, allowed, why)] if why else []
    return drifts


def _allowed(number: Number, old: Value) -> float | None:
    if old.kind == "rescored" or number.tolerance.drift is not None:
        return number.tolerance.drift if old.kind == "rerun" else 0.0
    floor = DRIFT_FLOOR.get(number.unit)
    return (
        floor
        if floor is None or old.low is None or old.high is None
        else max(floor, (old.high - old.low) / 2)
    )


_COLOURS = {
    "agrees": "green",
    "differs": "red",
    "undecided": "magenta",
    "SAMPLE": "yellow",
    "not compared": "cyan",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what became of each paper, or of one; with `--check` the drift: 1 if any, 2 if nothing to compare."""
    parser = argparse.ArgumentParser(
        prog="python -m publish.scoreboard", description="Printed, rescored, rerun."
    )
    parser.add_argument("--paper", help="every number and claim of this paper")
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
    board, claims = (
        scoreboard(options.paper, options.profile),
        ledger(options.paper, options.profile),
    )
    if not options.paper:
        console.print(
            _summary(board, claims),
            "One paper's numbers and claims: medrerun scoreboard side_effects",
        )
        return 0
    for (paper, table), rows in board.groupby(["paper", "table"], sort=False) if len(board) else ():
        _print(console, _board(escape(f"{paper}: {table}"), rows))
    _print(console, _claims(claims))
    return 0


def _print(console: Console, table: Table) -> None:
    """A table, or a list of its rows where its columns would be narrow."""
    if console.width >= NARROW * len(table.columns):
        console.print(table)
        return
    console.print(f"\n[bold]{table.title}[/]\n")
    for first, *others in zip(*(column.cells for column in table.columns), strict=True):
        console.print(first)
        for column, cell in zip(table.columns[1:], others, strict=True):
            if cell not in (_coloured("not run"), _coloured("not tested")):
                console.print(Padding(f"{column.header}: {cell}", (0, 0, 0, 4)))


def _summary(board: pd.DataFrame, claims: pd.DataFrame) -> Table:
    """A row for each paper: its numbers rescored and rerun, and its claims, by verdict."""
    table = Table("paper", "numbers", "rescored", "rerun", "claims")
    for paper in dict.fromkeys([*board["paper"], *claims["paper"]]):
        numbers = board[board["paper"] == paper].to_dict("records")
        rescored = [row["rescored_verdict"] for row in numbers]
        rerun = [row[f"{row['shown']}_verdict"] for row in numbers]
        cells = []
        for verdicts in (
            rescored,
            rerun,
            claims[claims["paper"] == paper]["verdict"].map(verdict_label),
        ):
            counts = Counter(verdicts)
            words = sorted(counts, key=lambda word: [*_COLOURS, word].index(word))
            cells.append(", ".join(_coloured(f"{counts[word]} {word}", word) for word in words))
        table.add_row(escape(str(paper)), str(len(numbers)), *cells)
    return table


def _check(console: Console, paper: str | None, profile: Profile) -> int:
    kept = {run.notebook: run for run in records(profile, RESULTS)}
    real = []
    for run in records(run_name(profile)):
        if (reference := kept.get(run.notebook)) is None or paper not in (None, run.paper):
            continue
        if run.sample or reference.sample:
            console.print(
                f"{run.notebook}: made from sample data, so there is no reference to compare it with."
            )
        else:
            real.append((run, reference))
    if not real:
        console.print(
            f"Nothing to compare for the profile {profile}: run `make reproduce` on real data first."
        )
        return 2
    drifts = [(run.notebook, drift) for run, reference in real for drift in compare(run, reference)]
    for name, drift in drifts:
        where = f"{name}: {drift.id} ({drift.kind})"
        console.print(f"[red]drift[/] {where}: {escape(drift.why)}; allowed {drift.allowed:.4g}")
    if not drifts:
        console.print(f"No drift from the reference: {', '.join(run.notebook for run, _ in real)}.")
    return 1 if drifts else 0


def _board(title: str, frame: pd.DataFrame) -> Table:
    groups = {"rescored": "rescored", "reference": "reference", "rerun": "this machine"}
    groups |= {f"{BY}{model}": escape(model) for model in models(frame)}
    table = Table("place", "printed", *groups.values(), title=title)
    for row in frame.to_dict("records"):
        number, cells = published(row["paper"]).number(row["id"]), []
        for group in groups:
            verdict = row[f"{group}_verdict"]
            mark = " (stand-in)" if verdict == "stand-in" else ""
            cells.append(
                _coloured(
                    verdict if pd.isna(row[group]) else number.show(row[group]) + mark, verdict
                )
            )
        table.add_row(escape(f"{row['row']}: {row['column']}"), escape(row["printed"]), *cells)
    return table


def _claims(frame: pd.DataFrame) -> Table:
    groups = {"printed": "printed numbers", "rescored": "released files", "reference": "reference"}
    groups |= {
        "rerun": "this machine",
        **{f"{BY}{model}": escape(model) for model in models(frame)},
    }
    table = Table("claim", *groups.values(), "why", title="Claims")
    for row in frame.to_dict("records"):
        verdicts = [_coloured(verdict_label(row[f"{group}_verdict"])) for group in groups]
        table.add_row(escape(row["claim"]), *verdicts, escape(row["why"]))
    return table


def _coloured(text: str, verdict: str = "") -> str:
    return f"[{_COLOURS.get(verdict or text, 'dim')}]{escape(text)}[/]"


if __name__ == "__main__":
    sys.exit(run_command_line(main))
