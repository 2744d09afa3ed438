"""Printed, rescored and rerun side by side: the scoreboard, the ledger of claims, and drift from the kept reference."""

from __future__ import annotations

import argparse
import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeVar, get_args

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from helpers.results.published import Basis, Claim, Kind, Number, Unit, papers, published
from helpers.results.records import Record, Value, other_models, records
from helpers.results.verdicts import TESTED
from helpers.settings import RESULTS, Profile, run_name, settings, told

SLACK = 1e-9
"""Relative slack of every comparison, so that a value on the border of its tolerance counts as within it."""
DRIFT_FLOOR: dict[Unit, float | None] = {
    "fraction": 0.01,
    "percentage_points": 1.0,
    "count": 0.0,
    "seconds": None,
    "per_second": None,
}
"""How far a rerun may always lie from the kept reference. None: not compared."""

BY = "rerun by "
"""Begins the names of the columns that have another model's rerun."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell of the scoreboard: a value with its verdict, or no value and the reason."""

    verdict: str
    why: str
    value: float | None = None
    n: int | None = None
    low: float | None = None
    high: float | None = None
    unparsed: int | None = None
    model: str = ""
    notebook: str = ""
    note: str = ""


def scoreboard(paper: str | None = None, profile: Profile | None = None) -> pd.DataFrame:
    """Every printed number, with what became of it.

    Args:
        paper: one paper; all of them if left out.
        profile: whose runs; the setting PROFILE if left out.

    Returns:
        One row a number: id, paper, table, row, column, unit, printed, value, printed_n, printed_model, note, and
        groups of columns: `rescored`, `reference` (the kept run's rerun), `rerun` (that of this machine) and, for each
        other model, `rerun by <model>`, each with
        `_n`, `_low`, `_high`, `_unparsed`, `_verdict`, `_why`, `_model`, `_notebook` and `_note`. Each group has a
        verdict of its own: agrees, differs, undecided (only the interval reaches within the tolerance), stand-in
        (another model answered: not compared), not compared (speed), SAMPLE, not run or cannot be run, and there is
        always a why. `shown` says which rerun the book shows: this machine's on real data, or else the reference.
    """
    profile = profile or settings().profile
    own, kept = records(run_name(profile)), records(profile, RESULTS)
    others = other_models(profile, RESULTS)
    rows = []
    for name in [paper] if paper else papers():
        rows += [_row(name, number, own, kept, others) for number in published(name).numbers]
    frame = pd.DataFrame(rows)
    counts = [column for column in frame.columns if column.endswith(("_n", "_unparsed"))]
    groups = ("rescored", "reference", "rerun", *(f"{BY}{model}" for model in others))
    floats = [f"{group}{end}" for group in groups for end in ("", "_low", "_high")]
    return frame.astype(dict.fromkeys(counts, "Int64") | dict.fromkeys(floats, "float64"))


def ledger(paper: str | None = None, profile: Profile | None = None) -> pd.DataFrame:
    """Every claim, with its verdict on the kept run and on this machine's.

    Returns:
        One row a claim: id, paper, claim, where, note; for `printed` and each group of the scoreboard the columns
        `_verdict`, `_why`, `_reason`, `_needed`, `_test`, `_p` and `_notebook`; `shown`, as on the scoreboard; then
        `verdict` and `why` of the authors' released answers or the printed numbers if these test the claim, or else of
        the rerun shown; `basis` is the group that they are taken from. A claim about models that the shown run did not
        ask is shown by another model's rerun, if that is within its scope.
    """
    profile = profile or settings().profile
    own, kept = records(run_name(profile)), records(profile, RESULTS)
    others = other_models(profile, RESULTS)
    rows = []
    for name in [paper] if paper else papers():
        for claim in published(name).claims:
            row = {"id": claim.id, "paper": name, "claim": claim.text, "where": claim.where, "note": claim.note}
            groups = {
                "printed": _decided(claim, "printed", [*own, *kept], "the printed numbers do not test it"),
                "rescored": _decided(claim, "rescored", [*own, *kept], "no released answers test it"),
                "reference": _decided(claim, "rerun", kept, claim.why_not or "no reference run tests it yet"),
                "rerun": _decided(claim, "rerun", own, claim.why_not or "not yet run on this machine"),
            }
            groups |= {f"{BY}{model}": _decided(claim, "rerun", runs, "not yet run") for model, runs in others.items()}
            for group, decided in groups.items():
                row |= {f"{group}_{key}": value for key, value in decided.items()}
            here, there = (groups[group]["verdict"] for group in ("rerun", "reference"))
            says = here != "SAMPLE" and there not in TESTED and groups["rerun"]["notebook"]
            nothing = not groups["reference"]["notebook"]
            row["shown"] = "rerun" if here in TESTED or says or nothing else "reference"
            if claim.rule and claim.rule.scope and groups[row["shown"]]["verdict"] not in TESTED:
                within = (group for group in groups if group.startswith(BY) and groups[group]["verdict"] in TESTED)
                row["shown"] = next(within, row["shown"])
            decide = [g for g in ("rescored", "printed") if groups[g]["verdict"] in (*TESTED, "cannot be run")]
            row["basis"] = (decide or [row["shown"]])[0]
            chosen = groups[row["basis"]]
            rows.append({**row, "verdict": chosen["verdict"], "why": chosen["why"]})
    counts = {f"{group}_needed": "Int64" for group in groups}
    return pd.DataFrame(rows).astype({f"{group}_p": "float64" for group in groups} | counts)


def models(board: pd.DataFrame) -> list[str]:
    """The other models that have a column on a scoreboard or ledger, and a rerun in one of its rows."""
    groups = [str(c).removesuffix("_notebook") for c in board.columns if c.startswith(BY) and c.endswith("_notebook")]
    return [group.removeprefix(BY) for group in groups if board[f"{group}_notebook"].ne("").any()]


@dataclass(frozen=True, slots=True)
class Drift:
    """A number that moved away from the kept reference, or is gone."""

    id: str
    kind: Kind
    now: float | None
    reference: float
    allowed: float
    why: str


def compare(run: Record, reference: Record) -> list[Drift]:
    """The reference's numbers that this run does not give again.

    A rescored number shall be the same, because it is arithmetic on the same files. A rerun number may move by its
    stated `drift`; if it has none, by half the width of the reference's interval or by DRIFT_FLOOR, whichever is more.
    Speed is not compared, nor is a rerun by another model, nor anything if either run had only SAMPLE data.
    """
    if run.sample or reference.sample:
        return []
    now = {(value.kind, value.id): value for value in run.values}
    numbers = {number.id: number for number in published(reference.paper).numbers}
    drifts = []
    for old in reference.values:
        new = now.get((old.kind, old.id))
        if old.id not in numbers:
            drifts.append(Drift(old.id, old.kind, None, old.value, 0.0, "the reference has an unknown id"))
            continue
        allowed = _allowed(numbers[old.id], old)
        if allowed is None or (new is not None and new.model != old.model):
            continue
        if new is None:
            drifts.append(Drift(old.id, old.kind, None, old.value, allowed, "this run has no value"))
        elif not _near(new.value, old.value, allowed):
            moved, was = (numbers[old.id].show(value.value, 2) for value in (new, old))
            drifts.append(Drift(old.id, old.kind, new.value, old.value, allowed, f"now {moved}, reference {was}"))
    return drifts


def _allowed(number: Number, old: Value) -> float | None:
    if old.kind == "rescored":
        return 0.0
    if number.tolerance.drift is not None:
        return number.tolerance.drift
    floor = DRIFT_FLOOR[number.unit]
    if floor is None or old.low is None or old.high is None:
        return floor
    return max(floor, (old.high - old.low) / 2)


def _latest(runs: Sequence[Record], entries: Callable[[Record], Iterable[T]]) -> tuple[Record, T] | tuple[None, None]:
    """The first of these entries in the newest run that has one, real data before SAMPLE, and that run."""
    for run in sorted(runs, key=lambda run: (not run.sample, run.created), reverse=True):
        for entry in entries(run):
            return run, entry
    return None, None


def _row(
    paper: str,
    number: Number,
    own: Sequence[Record],
    kept: Sequence[Record],
    others: Mapping[str, Sequence[Record]],
) -> dict[str, Any]:
    """One row of the scoreboard."""
    groups = {
        "rescored": _rescored(number, own, kept),
        "reference": _cell(number, "rerun", kept, "no reference run has it yet"),
        "rerun": _cell(number, "rerun", own, "not yet run on this machine"),
    }
    groups |= {f"{BY}{model}": _cell(number, "rerun", runs, "not yet run") for model, runs in others.items()}
    row: dict[str, Any] = {"id": number.id, "paper": paper}
    row |= {key: getattr(number, key) for key in ("table", "row", "column", "unit", "printed", "value")}
    row |= {"printed_n": number.n, "printed_model": number.model or "", "note": number.note}
    for group, cell in groups.items():
        row |= {group if key == "value" else f"{group}_{key}": value for key, value in asdict(cell).items()}
    return {**row, "shown": _shown_rerun(groups)}


def _cell(number: Number, kind: Kind, runs: Sequence[Record], empty: str) -> Cell:
    """A number's cell from the newest of these runs that has it, or the reason why none has."""
    run, value = _latest(runs, lambda run: (v for v in run.values if (v.id, v.kind) == (number.id, kind)))
    if run and value:
        verdict, why = ("SAMPLE", "made from sample data: not compared") if run.sample else _judge(number, value)
        if _stands_in(value.model, number.model):
            verdict = verdict if verdict in ("SAMPLE", "not compared") else "stand-in"
            why = f"{value.model} stands in for {number.model}; {why}"
        return Cell(
            verdict=verdict,
            why=why,
            value=value.value,
            n=value.n,
            low=value.low,
            high=value.high,
            unparsed=value.unparsed,
            model=value.model,
            notebook=run.notebook,
            note=value.note,
        )
    run, reason = _latest(runs, lambda run: (r for r in run.reasons if (r.id, r.kind) == (number.id, kind)))
    if run and reason:
        return Cell(reason.status, reason.why, notebook=run.notebook)
    never = number.why_not if kind == "rescored" else number.why_no_rerun
    return Cell("cannot be run", never) if never else Cell("not run", empty)


def _rescored(number: Number, own: Sequence[Record], kept: Sequence[Record]) -> Cell:
    """This machine's rescored value if it is on real data, or else the kept one, or else a SAMPLE or a reason."""
    empty = "not yet rescored"
    here, there = (_cell(number, "rescored", runs, empty) for runs in (own, kept))
    if here.value is not None and here.verdict != "SAMPLE":
        return here
    return there if there.value is not None or not here.notebook else here


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
    if value.kind == "rerun" and _reaches(value, number.value, tolerance):
        return "undecided", f"{apart}; beyond the tolerance of {limit}, but the interval reaches within it"
    return "differs", f"{apart}; beyond the tolerance of {limit}"


def _reaches(value: Value, printed: float, tolerance: float) -> bool:
    """Whether some of a value's interval lies within the tolerance."""
    if value.low is None or value.high is None:
        return False
    nearest = min(max(printed, value.low), value.high)
    return _near(nearest, printed, tolerance)


def _decided(claim: Claim, kind: Basis, runs: Sequence[Record], empty: str) -> dict[str, Any]:
    """What the newest of these runs says about a claim; one that decides it goes before one that only says why not."""
    mine = [(run, f) for run in runs for f in run.claims if (f.id, f.kind) == (claim.id, kind)]
    if not mine:
        row = {"verdict": "not run", "why": empty, "test": claim.decided_by, "notebook": ""}
        return row | {"p": None, "reason": None, "needed": None}
    run, found = max(mine, key=lambda pair: (pair[1].verdict in TESTED, not pair[0].sample, pair[0].created))
    verdict = "SAMPLE" if run.sample and found.verdict in TESTED else found.verdict
    of_run = {key: getattr(found, key) for key in ("why", "test", "p", "reason", "needed")}
    return of_run | {"verdict": verdict, "notebook": run.notebook}


def _shown_rerun(groups: dict[str, Cell]) -> str:
    """Which rerun the book shows: this machine's if it is on real data and has something to say, if only why not."""
    own, reference = groups["rerun"], groups["reference"]
    if own.verdict == "SAMPLE":
        return "reference"
    return "rerun" if own.value is not None or (own.notebook and reference.value is None) else "reference"


def _near(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance + SLACK * max(1.0, abs(b))


def _stands_in(used: str, printed: str | None) -> bool:
    """Whether a model is another one than was printed; owner, case and punctuation of a name do not matter."""

    def plain(model: str) -> str:
        return re.sub(r"[^a-z0-9]", "", model.rsplit("/", 1)[-1].lower())

    return bool(used and printed) and plain(used) not in map(plain, (printed or "").split(" or "))


# --- in the terminal -----------------------------------------------------------------------------------------------

_COLOURS = {"agrees": "green", "differs": "red", "undecided": "magenta", "SAMPLE": "yellow", "not compared": "cyan"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what became of each paper, or one paper's numbers and claims; with `--check`, this machine's drift.

    Returns:
        0; with `--check` 1 if a number drifted, and 2 if there was nothing to compare.
    """
    parser = argparse.ArgumentParser(prog="python -m helpers.site.scoreboard", description="Printed, rescored, rerun.")
    parser.add_argument("--paper", choices=papers(), help="every number and claim of this paper")
    parser.add_argument("--profile", choices=get_args(Profile), default=settings().profile)
    parser.add_argument("--check", action="store_true", help="exit 1 if a number drifted from the kept reference")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(levelname)s: %(message)s")
    console = Console()
    if options.check:
        return _check(console, options.paper, options.profile)
    board, claims = scoreboard(options.paper, options.profile), ledger(options.paper, options.profile)
    if not options.paper:
        console.print(_summary(board, claims))
        console.print("One paper's numbers and claims: make scoreboard PAPER=side_effects")
        return 0
    for (paper, table), rows in board.groupby(["paper", "table"], sort=False):
        console.print(_board(escape(f"{paper}: {table}"), rows))
    console.print(_claims(claims))
    return 0


def _summary(board: pd.DataFrame, claims: pd.DataFrame) -> Table:
    """A row for each paper: its numbers rescored and rerun, and its claims, by verdict."""
    table = Table("paper", "numbers", "rescored", "rerun", "claims")
    for paper in dict.fromkeys([*board["paper"], *claims["paper"]]):
        numbers = board[board["paper"] == paper].to_dict("records")
        rescored = [row["rescored_verdict"] for row in numbers]
        rerun = [row[f"{row['shown']}_verdict"] for row in numbers]
        stated = claims[claims["paper"] == paper]["verdict"].tolist()
        table.add_row(escape(str(paper)), str(len(numbers)), _counted(rescored), _counted(rerun), _counted(stated))
    return table


def _counted(verdicts: Iterable[str]) -> str:
    counts = Counter(verdicts)
    words = [word for word in (*_COLOURS, "stand-in", "not run", "cannot be run") if counts[word]]
    return ", ".join(_coloured(f"{counts[word]} {word}", word) for word in words)


def _check(console: Console, paper: str | None, profile: Profile) -> int:
    both = records(run_name(profile)), records(profile, RESULTS)
    own, kept = ({run.notebook: run for run in runs if paper in (None, run.paper)} for runs in both)
    shared = sorted(own.keys() & kept.keys())
    real = [name for name in shared if not own[name].sample and not kept[name].sample]
    for name in [name for name in shared if name not in real]:
        console.print(f"{name}: made from sample data, so there is nothing to hold it against.")
    if not real:
        console.print(f"Nothing to compare for the profile {profile}: run `make reproduce` on real data first.")
        return 2
    drifts = [(name, drift) for name in real for drift in compare(own[name], kept[name])]
    for name, drift in drifts:
        console.print(
            f"[red]drift[/] {name}: {drift.id} ({drift.kind}): {escape(drift.why)}; allowed {drift.allowed:.4g}"
        )
    if not drifts:
        console.print(f"No drift from the kept reference: {', '.join(real)}.")
    return 1 if drifts else 0


def _board(title: str, frame: pd.DataFrame) -> Table:
    others = models(frame)
    table = Table("place", "printed", "rescored", "reference", "this machine", *map(escape, others), title=title)
    for row in frame.to_dict("records"):
        number = published(row["paper"]).number(row["id"])
        cells = [
            _coloured(_shown(number, row, group), row[f"{group}_verdict"])
            for group in ("rescored", "reference", "rerun", *(f"{BY}{model}" for model in others))
        ]
        table.add_row(
            escape(f"{row['row']}: {row['column']}"),
            escape(row["printed"]),
            *cells,
        )
    return table


def _shown(number: Number, row: dict[Any, Any], group: str) -> str:
    if pd.isna(row[group]):
        return str(row[f"{group}_verdict"])
    return number.show(row[group]) + (" (stand-in)" if row[f"{group}_verdict"] == "stand-in" else "")


def _claims(frame: pd.DataFrame) -> Table:
    others = models(frame)
    groups = ("printed", "rescored", "reference", "rerun", *(f"{BY}{model}" for model in others))
    names = ("printed numbers", "released answers", "reference", "this machine", *map(escape, others))
    table = Table("claim", *names, "why", title="Claims")
    for row in frame.to_dict("records"):
        verdicts = [_coloured(row[f"{group}_verdict"], row[f"{group}_verdict"]) for group in groups]
        table.add_row(escape(row["claim"]), *verdicts, escape(row["why"]))
    return table


def _coloured(text: str, verdict: str) -> str:
    colour = _COLOURS.get(verdict, "dim")
    return f"[{colour}]{escape(text)}[/]"


if __name__ == "__main__":
    sys.exit(told(main))
