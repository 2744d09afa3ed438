"""What became of a printed number or a claim: its cells on the scoreboard or in the ledger.

A number has a match, a claim a verdict and an answer to whether it holds here; see
`evaluation.vocabulary`.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from evaluation.decisions import is_model_of
from evaluation.published import Basis, Claim, Kind, Number
from evaluation.records import ClaimAnswer, Finding, HereFinding, Record, Value
from evaluation.vocabulary import ANSWERED_HERE, FOR_ANY_MODEL, TESTED, Match

SLACK: Final = 1e-9
"""Relative slack of every comparison: a value on the border of its tolerance is within it."""
BY: Final = "rerun by "
"""Begins the names of the columns that have another model's rerun."""
HERE_BY: Final = "here by "
"""Begins the names of the columns that say whether a claim holds by another model."""
_NO_VALUE: Final[dict[str, Any]] = {
    "value": None,
    "n": None,
    "low": None,
    "high": None,
    "unparsed": None,
    "model": "",
    "notebook": "",
    "note": "",
}
Row = dict[str, Any]
Runs = Sequence[Record]


def number_row(number: Number, own: Runs, reference: Runs, others: Mapping[str, Runs]) -> Row:
    """Return a number's row of the scoreboard.

    Args:
        number: A printed number.
        own: This machine's runs.
        reference: The kept runs.
        others: Runs of other models, by model.
    """
    reference_cell = _number_cell(
        number, "rerun", reference, "no reference run gives this value yet"
    )
    own_cell = _number_cell(number, "rerun", own, "not yet run here")
    by_model = {
        f"{BY}{model}": _number_cell(number, "rerun", runs, "not yet run")
        for model, runs in others.items()
    }
    shown = "rerun" if _is_own_cell_shown(own_cell, reference_cell) else "reference"
    return {
        "table": number.table,
        "row": number.row,
        "column": number.column,
        "unit": number.unit,
        "printed": number.printed,
        "value": number.value,
        "printed_n": number.n,
        "printed_model": number.model or "",
        "note": number.note,
        "rescored": _rescored_cell(number, own, reference),
        "reference": reference_cell,
        "rerun": own_cell,
        **by_model,
        "shown": shown,
    }


def _is_own_cell_shown(own: Row, reference: Row) -> bool:
    """Whether this machine's rerun goes before the reference."""
    if own["verdict"] == "SAMPLE":
        return False
    if own["value"] is not None:
        return True
    return bool(own["notebook"]) and reference["value"] is None


def _rescored_cell(number: Number, own: Runs, reference: Runs) -> Row:
    """Return this machine's rescored value if it is on real data, or else the kept one.

    If there is neither, the cell has a value of the sample or a reason.
    """
    own_cell = _number_cell(number, "rescored", own, "not yet rescored")
    reference_cell = _number_cell(number, "rescored", reference, "not yet rescored")
    if own_cell["value"] is not None and own_cell["verdict"] != "SAMPLE":
        return own_cell
    if own_cell["notebook"] and reference_cell["value"] is None:
        return own_cell
    return reference_cell


def claim_row(claim: Claim, own: Runs, reference: Runs, others: Mapping[str, Runs]) -> Row:
    """Return a claim's row of the ledger.

    Args:
        claim: A claim of a paper.
        own: This machine's runs.
        reference: The kept runs.
        others: Runs of other models, by model.
    """
    both = [*own, *reference]
    no_reference = claim.why_not or "no reference run tests this claim yet"
    no_own = claim.why_not or "not yet run here"
    groups = {
        "printed": _claim_cell(
            claim, "printed", both, "the printed numbers do not test this claim"
        ),
        "rescored": _claim_cell(claim, "rescored", both, "no released files test this claim"),
        "reference": _claim_cell(claim, "rerun", reference, claim.closed or no_reference),
        "rerun": _claim_cell(claim, "rerun", own, claim.closed or no_own),
    }
    here_cells = {
        "here_reference": _here_cell(claim, reference, claim.by_construction or no_reference),
        "here_own": _here_cell(claim, own, claim.by_construction or no_own),
    }
    for model, runs in others.items():
        of_model = _claim_cell(claim, "rerun", runs, "not yet run")
        groups[f"{BY}{model}"] = _with_common_reason(claim, of_model, groups["reference"])
        here_of_model = _here_cell(claim, runs, "not yet run")
        here_cells[f"{HERE_BY}{model}"] = _with_common_reason(
            claim, here_of_model, here_cells["here_reference"]
        )
    _name_arms([*groups.values(), *here_cells.values()])
    shown = _shown_rerun(claim, groups)
    basis = _basis(groups, shown)
    is_own_here_shown = _is_own_here_shown(claim, own, here_cells)
    row = {
        "claim": claim.text,
        "where": claim.where,
        "note": claim.note,
        **groups,
        **here_cells,
        "here": here_cells["here_own" if is_own_here_shown else "here_reference"],
        "shown": shown,
        "basis": basis,
    }
    return row | {key: groups[basis][key] for key in ("verdict", "why", "reason")}


def _with_common_reason(claim: Claim, cell: Row, reference: Row) -> Row:
    """Return a cell of a model without a run, with the reference's reason if no model matters."""
    is_common = bool(claim.why_not) or reference["reason"] in FOR_ANY_MODEL
    if cell["notebook"] or not is_common:
        return cell
    return {**reference, "notebook": "", "models": ""}


def _name_arms(cells: Sequence[Row]) -> None:
    """Word the rule where no run has decided by it as a run has, which knows the arms' names."""
    rules_of_runs = [cell["test"] for cell in cells if cell["notebook"]]
    for cell in cells:
        if not cell["notebook"] and rules_of_runs:
            cell["test"] = rules_of_runs[0]


def _is_own_here_shown(claim: Claim, own: Runs, here_cells: Mapping[str, Row]) -> bool:
    """Whether what this machine's models say of a claim goes before the reference.

    On real data it does also where it is only a reason why they say nothing. On the sample it does
    where the reference says nothing.
    """
    if here_cells["here_own"]["answer"] in ANSWERED_HERE:
        return True
    if not here_cells["here_reference"]["notebook"]:
        return True
    real_runs = [run for run in own if not run.sample]
    return any(finding.id == claim.id for run in real_runs for finding in run.here_findings)


def _shown_rerun(claim: Claim, groups: Mapping[str, Row]) -> str:
    """Return the group of the rerun that the book shows for a claim."""
    shown = "rerun" if _is_own_rerun_shown(groups) else "reference"
    scopes = claim.rule.scopes if claim.rule else ()
    if not scopes or groups[shown]["verdict"] in TESTED:
        return shown
    for group, cell in groups.items():
        is_within_scope = group.startswith(BY) and is_model_of(group, scopes)
        if is_within_scope and cell["verdict"] in TESTED:
            return group
    return shown


def _is_own_rerun_shown(groups: Mapping[str, Row]) -> bool:
    """Whether this machine's rerun goes before the reference."""
    own, reference = groups["rerun"], groups["reference"]
    if own["verdict"] in TESTED or not reference["notebook"]:
        return True
    if own["verdict"] == "SAMPLE" or reference["verdict"] in TESTED:
        return False
    return bool(own["notebook"])


def _basis(groups: Mapping[str, Row], shown: str) -> str:
    """Return the group whose verdict is the claim's.

    What printed numbers leave open, a rerun of the paper's system may decide.
    """
    is_open = groups["printed"]["verdict"] == "inconclusive"
    is_decisive = groups[shown]["verdict"] in ("agrees", "differs")
    if is_open and is_decisive and groups["rescored"]["verdict"] not in TESTED:
        return shown
    for group in ("rescored", "printed"):
        if groups[group]["verdict"] in (*TESTED, "cannot be tested"):
            return group
    for group in (shown, "rescored", "printed"):
        if groups[group]["notebook"]:
            return group
    return shown


def _newest(
    runs: Runs, part: str, entry_id: str, kind: Basis
) -> tuple[Record, Any] | tuple[None, None]:
    """Return the newest of these runs that has such an entry, and the entry.

    A tested claim, and then real data, go before others.
    """
    newest = None
    newest_rank: tuple[Any, ...] = ()
    for run in runs:
        for entry in getattr(run, part):
            if entry.id != entry_id or getattr(entry, "kind", kind) != kind:
                continue
            rank = (_is_answered(entry), not run.sample, run.created)
            if newest is None or rank > newest_rank:
                newest, newest_rank = (run, entry), rank
    return newest or (None, None)


def _is_answered(entry: object) -> bool:
    """Whether an entry answers one of the two questions about a claim."""
    if isinstance(entry, Finding):
        return entry.verdict in TESTED
    return isinstance(entry, HereFinding) and entry.answer in ANSWERED_HERE


def _number_cell(number: Number, kind: Kind, runs: Runs, empty: str) -> Row:
    """Return a number's cell from the newest of these runs that has it, or why none has."""
    run, value = _newest(runs, "values", number.id, kind)
    if run and value:
        return _value_cell(number, run, value)
    run, reason = _newest(runs, "reasons", number.id, kind)
    if run and reason:
        return {"verdict": reason.status, "why": reason.why, **_NO_VALUE, "notebook": run.notebook}
    if kind == "rescored":
        never, not_yet = number.why_not, number.not_read
    else:
        never, not_yet = number.why_no_rerun, None
    verdict: Match = "cannot be run" if never else "not run"
    return {"verdict": verdict, "why": never or not_yet or empty, **_NO_VALUE}


def _value_cell(number: Number, run: Record, value: Value) -> Row:
    """Return the cell of a value that a run has."""
    verdict, why = _judge(number, value)
    if run.sample:
        verdict, why = "SAMPLE", "made from sample data: not compared"
    if _is_stand_in(number, value):
        verdict = verdict if verdict in ("SAMPLE", "not compared") else "another model"
        why = f"{value.model} answered in place of {number.model}; {why}"
    measured = value.model_dump(include=_NO_VALUE.keys() - {"notebook"})
    return {"verdict": verdict, "why": why, **_NO_VALUE, **measured, "notebook": run.notebook}


def _is_stand_in(number: Number, value: Value) -> bool:
    """Whether another model than the paper's gave a value."""
    if not (value.model and number.model):
        return False
    models = [_plain_model(name) for name in number.model.split(" or ")]
    return _plain_model(value.model) not in models


def _judge(number: Number, value: Value) -> tuple[Match, str]:
    """Return how a value matches the printed one, and why."""
    tolerance = number.within(value.kind)
    if tolerance is None:
        return "not compared", "speed depends on the machine"
    # a rescored value is judged by its last printed digit, so it is shown with more
    more_digits = 1 if value.kind == "rescored" else 0
    limit = number.show(tolerance, more_digits).lstrip("+")
    shown = number.show(value.value, 2 * more_digits)
    values = f"the value here is {shown}, and the paper prints {number.printed}"
    if is_near(value.value, number.value, tolerance):
        return "matches", f"{values} (within the tolerance of {limit})"
    why = f"{values} (beyond the tolerance of {limit})"
    nearest = _nearest_value(number, value)
    if is_near(nearest, number.value, tolerance):
        return "inconclusive", f"{why}, but the interval overlaps the tolerance"
    return "differs", why


def _nearest_value(number: Number, value: Value) -> float:
    """Return the value of a rerun's interval that is nearest to the printed one."""
    if value.kind == "rerun" and value.low is not None and value.high is not None:
        return min(max(number.value, value.low), value.high)
    return value.value


def _claim_cell(claim: Claim, kind: Basis, runs: Runs, empty: str) -> Row:
    """Return what the newest of these runs says about a claim.

    A run that decides the claim goes before one that only says why it does not.
    """
    run, decision = _newest(runs, "claims", claim.id, kind)
    if run is None or decision is None:
        return _untested_cell(claim, kind, empty)
    is_sample = run.sample and decision.verdict in TESTED
    verdict = "SAMPLE" if is_sample else decision.verdict
    return {"verdict": verdict, "notebook": run.notebook, **_evidence(decision)}


def _untested_cell(claim: Claim, kind: Basis, empty: str) -> Row:
    """Return the cell of a claim that no run has; whether nobody can test it, its entry says."""
    row = {"verdict": "not tested", "why": empty, "test": claim.decided_by, "notebook": ""}
    row |= _NO_EVIDENCE
    if kind == "rerun" and (claim.why_not or claim.closed):
        row |= {"verdict": "cannot be tested", "reason": claim.why_closed}
    return row


def _here_cell(claim: Claim, runs: Runs, empty: str) -> Row:
    """Return whether a claim holds by the models that ran, from the newest of these runs."""
    run, finding = _newest(runs, "here_findings", claim.id, "rerun")
    if run and finding:
        is_sample = run.sample and finding.answer in ANSWERED_HERE
        answer = "SAMPLE" if is_sample else finding.answer
        return {"answer": answer, "notebook": run.notebook, **_evidence(finding)}
    row = {"answer": "not run", "why": empty, "test": claim.decided_by, "notebook": ""}
    run, finding = _newest(runs, "claims", claim.id, "rerun")
    if run and not run.here_findings:
        why = "This run is older than this question of the project."
        return row | _NO_EVIDENCE | {"why": why, "reason": "not recorded"}
    return row | _NO_EVIDENCE


_NO_EVIDENCE: Final[dict[str, Any]] = {
    "p": None,
    "reason": None,
    "needed": None,
    "models": "",
    "estimates": (),
    "ties": (),
}


def _evidence(answer: ClaimAnswer) -> Row:
    """Return what led to an answer about a claim."""
    row = {key: getattr(answer, key) for key in ("why", "test", "p", "reason", "needed")}
    estimates = [estimate.model_dump() for estimate in answer.estimates]
    ties = [estimate.model_dump() for estimate in answer.ties]
    return row | {"models": ", ".join(answer.models), "estimates": estimates, "ties": ties}


def is_near(a: float, b: float, tolerance: float) -> bool:
    """Whether two values lie within a tolerance of each other, with `SLACK`."""
    return abs(a - b) <= tolerance + SLACK * max(1.0, abs(b))


def _plain_model(model: str) -> str:
    """Return a model's name without owner, case and punctuation."""
    return re.sub(r"[^a-z0-9]", "", model.rsplit("/", 1)[-1].lower())
