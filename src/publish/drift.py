"""Drift: numbers of a run that moved away from the kept reference."""

from typing import Final, NamedTuple

from evaluation.published import Kind, Number, Unit, published
from evaluation.records import Record, Value
from publish.board_cells import is_near

DRIFT_FLOOR: Final[dict[Unit, float]] = {
    "fraction": 0.01,
    "percentage_points": 1.0,
    "count": 0.0,
}
"""How far a rerun may always lie from the kept reference; other units are not compared."""


class Drift(NamedTuple):
    """A number that moved away from the kept reference, or is gone."""

    id: str
    kind: Kind
    allowed: float
    why: str


def compare(run: Record, reference: Record) -> list[Drift]:
    """Return the reference's numbers that this run does not give again.

    A rescored number shall be the same. A rerun one may move by its `drift`, or else by half the
    reference's interval or `DRIFT_FLOOR`, whichever is more. Speed is not compared, nor is a
    rerun by another model, nor anything if either run had only sample data.
    """
    if run.sample or reference.sample:
        return []
    values = {(value.kind, value.id): value for value in run.values}
    numbers = {number.id: number for number in published(reference.paper).numbers}
    drifts = []
    for old in reference.values:
        new = values.get((old.kind, old.id))
        if new and new.model != old.model:
            continue
        drift = _drift(numbers.get(old.id), old, new)
        if drift:
            drifts.append(drift)
    return drifts


def _drift(number: Number | None, old: Value, new: Value | None) -> Drift | None:
    """Return the drift between a value of the reference and the run's, if it is any."""
    if number is None:
        return Drift(old.id, old.kind, 0.0, "the reference has an unknown id")
    allowed = _allowed_drift(number, old)
    if allowed is None:
        return None
    why = "this run has no value"
    if new:
        if is_near(new.value, old.value, allowed):
            return None
        why = f"now {number.show(new.value, 2)}, reference {number.show(old.value, 2)}"
    return Drift(old.id, old.kind, allowed, why)


def _allowed_drift(number: Number, old: Value) -> float | None:
    """Return how far a value may lie from the reference; None if it is not compared."""
    if old.kind == "rescored":
        return 0.0
    if number.tolerance.drift is not None:
        return number.tolerance.drift
    floor = DRIFT_FLOOR.get(number.unit)
    if floor is None or old.low is None or old.high is None:
        return floor
    return max(floor, (old.high - old.low) / 2)
