"""Printed, rescored, rerun: the numbers a paper prints, what a run leaves behind, and the two side by side.

`data/published/<paper>.yml` states every printed number and every claim once. A notebook calls `start`, reports to the
`Run` it gets, and saves one JSON file. `scoreboard` and `ledger` put these files beside what is printed, and `compare`
holds a run against the reference that is kept in `data/results`.
"""

from __future__ import annotations

import argparse
import difflib
import json
import logging
import math
import os
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar, get_args

import pandas as pd
import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from rich.console import Console
from rich.table import Table

from helpers.metrics import Score
from helpers.provenance import Json, Machine, machine, scrubbed, without_addresses
from helpers.settings import BUILD, PUBLISHED, RESULTS, Profile, settings

if TYPE_CHECKING:
    from helpers.datasets import Located

log = logging.getLogger(__name__)

Unit = Literal["fraction", "percentage_points", "seconds", "per_second", "count"]
Kind = Literal["rescored", "rerun"]
Status = Literal["not run", "cannot be run"]
Verdict = Literal["agrees", "differs", "not run", "cannot be run"]

RECORDS = BUILD / "records"
SCHEMA: Literal[1] = 1
SLACK = 1e-9
"""Relative slack of every comparison, so that a value on the border of its tolerance counts as within it."""
RERUN_TOLERANCE: dict[Unit, float | None] = {
    "fraction": 0.02,
    "percentage_points": 2.0,
    "count": 0.5,
    "seconds": None,
    "per_second": None,
}
"""How far a rerun may lie from the printed number, unless the number states its own. None: not compared, because speed
is a property of the machine."""
DRIFT_FLOOR: dict[Unit, float | None] = {
    "fraction": 0.01,
    "percentage_points": 1.0,
    "count": 0.0,
    "seconds": None,
    "per_second": None,
}
"""How far a rerun may always lie from the kept reference. None: not compared."""

_ID = r"^[a-z0-9_]+(\.[a-z0-9_]+)+$"
_NAME = r"^[\w-]+$"
_NUMERAL = re.compile(r"\d[\d,]*(?:\.(\d+))?")
# Entries of a record that are no free text, so that nothing is looked for in them.
_NOT_TEXT = frozenset(
    {"id", "kind", "status", "verdict", "sha256", "created", "notebook", "paper", "profile", "commit", "packages"}
)

T = TypeVar("T")
EntryT = TypeVar("EntryT", bound="_Entry")


class RecordError(ValueError):
    """Something about a published number or a record is wrong; the message says what, and what to do."""


class UnknownId(RecordError):
    """An id that the paper's file in `data/published` does not have; the message names the nearest ones."""


class CorruptRecord(RecordError):
    """A record that cannot be read. It was set aside."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, frozen=True)


class _Entry(_Model):
    id: str = Field(pattern=_ID)


# --- what is printed ---------------------------------------------------------------------------------------------


class Tolerance(_Model):
    """How far a value may lie from the printed one, in the number's unit; what is left out takes the default."""

    rescored: float | None = Field(default=None, ge=0, description="default: half of the last printed digit")
    rerun: float | None = Field(default=None, ge=0, description="default: RERUN_TOLERANCE of the unit")
    drift: float | None = Field(default=None, ge=0, description="from the kept reference; default: see `compare`")


class Number(_Entry):
    """One printed number and its place in the paper.

    A fraction is stored within 0 and 1 however it is printed; a difference in percentage points as points.
    """

    table: str
    row: str
    column: str
    value: float
    printed: str = Field(description="as it stands in the paper, with its digits and its unit")
    unit: Unit
    n: int | None = Field(default=None, ge=1, description="what the paper says it was measured on")
    model: str | None = Field(
        default=None, description="the language model that made it, if one did; `A or B` if unsaid"
    )
    tolerance: Tolerance = Tolerance()
    rescore_from: tuple[str, ...] = Field(default=(), description="names in data/registry.yml")
    why_not: str | None = Field(default=None, description="why it cannot be rescored")
    why_no_rerun: str | None = Field(default=None, description="why it cannot be rerun by anyone")
    also: tuple[str, ...] = Field(default=(), description="other places where the paper prints it")
    note: str = ""

    @model_validator(mode="after")
    def _consistent(self) -> Number:
        if bool(self.rescore_from) == bool(self.why_not):
            raise ValueError(f"{self.id}: needs either rescore_from or why_not")
        numeral = _NUMERAL.search(self.printed)
        if numeral is None:
            raise ValueError(f"{self.id}: printed {self.printed!r} holds no number")
        stated = float(numeral[0].replace(",", "")) * self._scale
        value = abs(self.value) if self.unit == "percentage_points" else self.value
        if not math.isclose(stated, value, rel_tol=1e-12, abs_tol=1e-12):
            raise ValueError(f"{self.id}: printed {self.printed!r} is {stated}, not {self.value}")
        return self

    @property
    def _scale(self) -> float:
        return 0.01 if self.unit == "fraction" and "%" in self.printed else 1.0

    @property
    def _decimals(self) -> int:
        numeral = _NUMERAL.search(self.printed)
        return len(numeral[1] or "") if numeral else 0

    def within(self, kind: Kind) -> float | None:
        """The tolerance that holds for a value of this kind; None if it is not compared."""
        if kind == "rerun":
            stated = self.tolerance.rerun
            return RERUN_TOLERANCE[self.unit] if stated is None else stated
        stated = self.tolerance.rescored
        return 0.5 * 10**-self._decimals * self._scale if stated is None else stated

    def show(self, value: float, digits: int = 0) -> str:
        """A value written as the paper writes this number, with so many digits more."""
        places = self._decimals + digits
        if self.unit == "percentage_points":
            return f"{value:+.{places}f} points"
        suffix = {"seconds": " s", "per_second": " per second"}.get(self.unit, "%" if self._scale != 1 else "")
        return f"{value / self._scale:,.{places}f}{suffix}"


class Claim(_Entry):
    """A finding in words, and the test that decides it on a run's own data."""

    text: str
    where: str
    test: str
    note: str = ""


class Setting(_Model):
    """A parameter that the paper states; not a result."""

    name: str
    value: str
    where: str
    note: str = ""


class Published(_Model):
    """All that one paper prints."""

    paper: str
    title: str
    settings: tuple[Setting, ...] = ()
    numbers: tuple[Number, ...]
    claims: tuple[Claim, ...]

    @model_validator(mode="after")
    def _ids(self) -> Published:
        entries: tuple[_Entry, ...] = (*self.numbers, *self.claims)
        ids = [entry.id for entry in entries]
        for id in ids:
            if ids.count(id) > 1:
                raise ValueError(f"{id}: the id is used twice")
            if not id.startswith(f"{self.paper}."):
                raise ValueError(f"{id}: an id starts with {self.paper}.")
        return self

    def number(self, id: str) -> Number:
        """The number of that id.

        Raises:
            UnknownId: there is none.
        """
        return _find(id, self.numbers, f"printed number of {self.paper}")

    def claim(self, id: str) -> Claim:
        """The claim of that id.

        Raises:
            UnknownId: there is none.
        """
        return _find(id, self.claims, f"claim of {self.paper}")


def papers() -> list[str]:
    """The papers that have a file in `data/published`."""
    return sorted(path.stem for path in PUBLISHED.glob("*.yml"))


@lru_cache
def published(paper: str) -> Published:
    """What a paper prints, from `data/published/<paper>.yml`.

    Raises:
        RecordError: there is no such file, or an entry of it is wrong.
    """
    path = PUBLISHED / f"{paper}.yml"
    if not path.is_file():
        raise RecordError(f"No published numbers for {paper!r}: {path} is missing. There are: {', '.join(papers())}.")
    try:
        return Published.model_validate(yaml.safe_load(path.read_text("utf-8")))
    except (yaml.YAMLError, ValidationError) as error:
        raise RecordError(f"{path} cannot be used. Correct this and try again:\n{error}") from error


# --- what a run leaves behind ------------------------------------------------------------------------------------


class Value(_Entry):
    """One number as rescored or rerun. Without an interval (a plain count) low and high are None."""

    kind: Kind
    value: float
    n: int | None
    low: float | None
    high: float | None
    unparsed: int = 0
    model: str = ""
    note: str = ""
    cell: str = Field(default="", description="the notebook's cell that made it")
    source: str = Field(default="", description="the file it was rescored from")


class Reason(_Entry):
    """Why a number has no value."""

    kind: Kind
    status: Status
    why: str = Field(min_length=1)


class Finding(_Entry):
    """What a run says about a claim."""

    verdict: Verdict
    test: str
    p: float | None
    why: str = Field(min_length=1)


class Extra(_Entry):
    """A value that the paper does not print."""

    label: str
    value: float
    n: int
    low: float
    high: float
    unparsed: int


class Timing(_Model):
    """Seconds of one step, with counts of what it did."""

    name: str
    seconds: float
    counts: dict[str, float] = {}


class DataUsed(_Model):
    """A data file that was read."""

    name: str
    sha256: str
    source: str
    sample: bool


class ModelUsed(_Model):
    """A model that answered, and the engine that served it."""

    name: str
    sha256: str | None
    engine: str
    version: str | None
    role: str


class Provenance(Machine):
    """What a run was made with and on. It names no user, host, absolute path or secret."""

    data: list[DataUsed]
    models: list[ModelUsed]
    parameters: dict[str, Any]
    tokens: dict[str, int]
    timings: list[Timing]


class Record(_Model):
    """All that one notebook leaves, as it is kept in JSON."""

    version: Literal[1] = Field(alias="schema")
    notebook: str = Field(pattern=_NAME)
    paper: str
    profile: Profile
    sample: bool
    created: datetime
    seconds: float
    values: list[Value]
    reasons: list[Reason]
    claims: list[Finding]
    extras: list[Extra]
    provenance: Provenance


class Run:
    """What one notebook reports while it runs; `start` makes one. Reporting an id again replaces what was there."""

    def __init__(self, notebook: str, paper: str, profile: Profile, parameters: dict[str, Json]) -> None:
        """Begin a run; `start` is the way in."""
        if not re.match(_NAME, notebook):
            raise RecordError(f"A notebook is named by letters, digits, - and _, without a folder; found {notebook!r}.")
        if profile not in get_args(Profile):
            raise RecordError(f"There is no profile {profile!r}; use one of {', '.join(get_args(Profile))}.")
        for name, value in parameters.items():
            _strict_json(f"The parameter {name}", value)
        self.notebook, self.paper, self.profile = notebook, paper, profile
        self.printed = published(paper)
        self.sample = False
        self._parameters = parameters
        self._created, self._began = datetime.now(UTC), time.monotonic()
        self._values: dict[tuple[str, str], Value] = {}
        self._reasons: dict[tuple[str, str], Reason] = {}
        self._claims: dict[str, Finding] = {}
        self._extras: dict[str, Extra] = {}
        self._data: dict[str, DataUsed] = {}
        self._models: dict[tuple[str, str], ModelUsed] = {}
        self._timings: list[Timing] = []
        self._tokens = dict.fromkeys(("prompt", "generated", "requests", "cached"), 0)

    def data(self, located: Located) -> None:
        """Note a data file. One sample file makes the whole run a SAMPLE."""
        self._data[located.name] = DataUsed(
            name=located.name, sha256=located.sha256, source=located.source, sample=located.sample
        )
        self.sample = self.sample or located.sample

    def model(self, name: str, sha256: str | None, engine: str, version: str | None, role: str) -> None:
        """Note a model, its engine and what it did (chat, encoder). What a server does not tell is None."""
        self._models[name, role] = ModelUsed(name=name, sha256=sha256, engine=engine, version=version, role=role)

    def timing(self, name: str, seconds: float, **counts: float) -> None:
        """Note what a step took, and how many of what it did."""
        checked = {key: _finite(f"{name}, {key}", count) for key, count in counts.items()}
        self._timings.append(Timing(name=name, seconds=_finite(name, seconds), counts=checked))

    def tokens(self, *, prompt: int = 0, generated: int = 0, requests: int = 0, cached: int = 0) -> None:
        """Add to the counts of tokens and requests; cached are the requests answered from the cache."""
        for name, count in (("prompt", prompt), ("generated", generated), ("requests", requests), ("cached", cached)):
            self._tokens[name] += count

    def rescored(
        self, id: str, score: Score | float, *, n: int | None = None, note: str = "", source: str = ""
    ) -> None:
        """Report a printed number as recomputed from released outputs.

        Args:
            id: of the number.
            score: with its interval, or a plain number (a count, a size).
            n: what a plain number was counted on.
            note: a remark for the reader.
            source: the registry's name of the file.

        Raises:
            UnknownId: the paper prints no such number.
            RecordError: the value is not finite, or is not in the number's unit.
        """
        self._report(id, "rescored", score, n=n, note=note, source=source)

    def rerun(self, id: str, score: Score | float, *, model: str = "", note: str = "", cell: str = "") -> None:
        """Report a printed number as made here, by running the method.

        Args:
            id: of the number.
            score: with its interval, or a plain number.
            model: the language model that made it; required if the printed number was made by one.
            note: a remark for the reader.
            cell: the notebook's cell.

        Raises:
            UnknownId: the paper prints no such number.
            RecordError: the value is not finite, is not in the number's unit, or its model is not named.
        """
        printed_model = self.printed.number(id).model
        if printed_model and not model:
            raise RecordError(f"{id} was printed for {printed_model}: name the model of this rerun, model=...")
        self._report(id, "rerun", score, model=model, note=note, cell=cell)

    def not_run(self, id: str, why: str, *, kind: Kind = "rerun") -> None:
        """Say why a number has no value in this run, though it could have one."""
        self._explain(id, "not run", why, kind)

    def cannot_run(self, id: str, why: str, *, kind: Kind = "rerun") -> None:
        """Say why a number cannot have a value."""
        self._explain(id, "cannot be run", why, kind)

    def claim(self, id: str, verdict: Verdict, why: str, *, test: str = "", p: float | None = None) -> None:
        """Decide a claim on this run's data.

        Args:
            id: of the claim.
            verdict: agrees, differs, not run, cannot be run.
            why: the numbers that decided it, in a sentence.
            test: the test as carried out; the one stated for the claim if left out.
            p: its p-value, if it has one.

        Raises:
            UnknownId: the paper makes no such claim.
            RecordError: the verdict is none of the four, or a reason is missing, or p is not finite.
        """
        stated = self.printed.claim(id)
        if verdict not in get_args(Verdict):
            raise RecordError(f"{id}: a verdict is one of {', '.join(get_args(Verdict))}; found {verdict!r}.")
        p = None if p is None else _finite(id, p)
        self._claims[id] = Finding(id=id, verdict=verdict, test=test or stated.test, p=p, why=_said(id, why))

    @property
    def claims(self) -> list[Finding]:
        """The claims decided so far, in that order."""
        return list(self._claims.values())

    def extra(self, id: str, label: str, score: Score) -> None:
        """Report a value that the paper does not print.

        Raises:
            RecordError: the paper does print it, or the value is not finite.
        """
        if any(id == number.id for number in self.printed.numbers):
            raise RecordError(f"{id} is a printed number: report it with rescored() or rerun().")
        if not re.match(_ID, id):
            raise RecordError(f"An id is words of a-z, 0-9 and _ joined by full stops; found {id!r}.")
        for bound in (score.value, score.low, score.high):
            _finite(id, bound)
        self._extras[id] = Extra(id=id, label=label, **asdict(score))

    def save(self, path: Path | None = None) -> Path:
        """Write the record, whole or not at all.

        Args:
            path: where to; `_build/records/<profile>/<notebook>.json` if left out.

        Returns:
            The path.

        Raises:
            OSError: the file cannot be written. What was there before is untouched.
        """
        path = path or RECORDS / self.profile / f"{self.notebook}.json"
        record = Record(
            schema=SCHEMA,
            notebook=self.notebook,
            paper=self.paper,
            profile=self.profile,
            sample=self.sample,
            created=self._created.replace(microsecond=0),
            seconds=round(time.monotonic() - self._began, 3),
            values=list(self._values.values()),
            reasons=list(self._reasons.values()),
            claims=list(self._claims.values()),
            extras=list(self._extras.values()),
            provenance=Provenance(
                **machine().model_dump(),
                data=list(self._data.values()),
                models=list(self._models.values()),
                parameters=self._parameters,
                tokens=self._tokens,
                timings=self._timings,
            ),
        )
        plain = record.model_dump(mode="json", by_alias=True)
        plain["provenance"]["parameters"] = without_addresses(plain["provenance"]["parameters"])
        text = json.dumps(scrubbed(plain, keep=_NOT_TEXT), indent=1, ensure_ascii=False, allow_nan=False)
        _write(path, f"{text}\n")
        return path

    def _report(self, id: str, kind: Kind, score: Score | float, *, n: int | None = None, **texts: str) -> None:
        number = self.printed.number(id)
        if isinstance(score, Score):
            measured: dict[str, Any] = asdict(score)
        elif isinstance(score, Real):
            measured = {"value": float(score), "n": n, "low": None, "high": None}
        else:
            raise RecordError(f"{id}: a Score or a number is needed, found {score!r}. No value: say so with not_run().")
        for key in ("value", "low", "high"):
            if measured[key] is not None:
                _in_unit(number, measured[key])
        self._values[kind, id] = Value.model_validate({"id": id, "kind": kind, **measured, **texts})
        self._reasons.pop((kind, id), None)

    def _explain(self, id: str, status: Status, why: str, kind: Kind) -> None:
        self.printed.number(id)
        self._reasons[kind, id] = Reason(id=id, kind=kind, status=status, why=_said(id, why))
        self._values.pop((kind, id), None)


def start(*, notebook: str, paper: str, profile: Profile, parameters: dict[str, Json]) -> Run:
    """Begin the record of one notebook.

    Args:
        notebook: its name without folder and suffix.
        paper: whose numbers it reports.
        profile: smoke, laptop or paper.
        parameters: the notebook's parameters, as JSON can hold them.

    Raises:
        RecordError: the paper has no published numbers, the profile does not exist, the name is no name, or a
            parameter cannot be kept.
    """
    return Run(notebook, paper, profile, parameters)


def load(path: Path) -> Record:
    """Read a record. A file that cannot be understood is set aside as `<file>.corrupt`.

    Raises:
        CorruptRecord: it could not be understood.
        RecordError: it was written by another version of this module.
        OSError: it could not be read at all.
    """
    try:
        plain = json.loads(path.read_text("utf-8"), parse_constant=_no_constant)
        schema = plain.get("schema") if isinstance(plain, dict) else None
        if not isinstance(schema, int) or schema == SCHEMA:
            return Record.model_validate(plain)
    except ValueError as error:  # JSON, UTF-8 and pydantic raise kinds of it
        aside = path.with_name(f"{path.name}.corrupt")
        path.replace(aside)
        problem = " ".join(str(error).split())[:200]
        raise CorruptRecord(
            f"The record {path} cannot be understood ({problem}). It was set aside as {aside.name}; run its notebook "
            f"again to have a new one."
        ) from error
    raise RecordError(
        f"The record {path} is of schema {schema}, and this version reads schema {SCHEMA}. Run its notebook again."
    )


def records(profile: Profile, folder: Path | None = None) -> list[Record]:
    """Every readable record of a profile, by notebook: of this machine's runs, or the kept ones with `folder=RESULTS`.

    A record that cannot be read is logged as a warning and left out.
    """
    found = []
    for path in sorted(((folder or RECORDS) / profile).glob("*.json")):
        try:
            found.append(load(path))
        except (RecordError, OSError) as error:
            log.warning("%s", error)
    return found


# --- side by side ------------------------------------------------------------------------------------------------


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
    stand_in: bool = False
    notebook: str = ""
    note: str = ""


def scoreboard(paper: str | None = None, profile: Profile | None = None) -> pd.DataFrame:
    """Every printed number, with what became of it.

    Args:
        paper: one paper; all of them if left out.
        profile: whose runs; the setting PROFILE if left out.

    Returns:
        One row a number: id, paper, table, row, column, unit, printed, value, printed_n, printed_model, note, and three
        groups of columns: `rescored`, `reference` (the kept run's rerun) and `rerun` (that of this machine), each with
        `_n`, `_low`, `_high`, `_unparsed`, `_verdict`, `_why`, `_model`, `_stand_in`, `_notebook` and `_note`. A
        group's verdict is agrees, differs, not compared (speed), SAMPLE, not run or cannot be run, and there is always
        a why. `verdict` and `why` sum the row up and `decided_by` says which group they are from: this machine's rerun
        on real data, or else the reference, or else what was rescored. A SAMPLE takes no other value's place.
    """
    profile = profile or settings().profile
    own, kept = records(profile), records(profile, RESULTS)
    rows = []
    for name in [paper] if paper else papers():
        rows += [_row(name, number, own, kept) for number in published(name).numbers]
    frame = pd.DataFrame(rows)
    counts = [column for column in frame.columns if column.endswith(("_n", "_unparsed"))]
    floats = [f"{group}{end}" for group in ("rescored", "reference", "rerun") for end in ("", "_low", "_high")]
    return frame.astype(dict.fromkeys(counts, "Int64") | dict.fromkeys(floats, "float64"))


def ledger(paper: str | None = None, profile: Profile | None = None) -> pd.DataFrame:
    """Every claim, with its verdict on the kept run and on this machine's.

    Returns:
        One row a claim: id, paper, claim, where, note, and for `reference` and `rerun` the columns `_verdict`, `_why`,
        `_test`, `_p` and `_notebook`; then `verdict` and `why` of this machine's run on real data, or else of the
        reference.
    """
    profile = profile or settings().profile
    own, kept = records(profile), records(profile, RESULTS)
    rows = []
    for name in [paper] if paper else papers():
        for claim in published(name).claims:
            row = {"id": claim.id, "paper": name, "claim": claim.text, "where": claim.where, "note": claim.note}
            reference = _decided(claim, kept, "no reference run decides it yet")
            rerun = _decided(claim, own, "not yet run on this machine")
            for group, decided in (("reference", reference), ("rerun", rerun)):
                row |= {f"{group}_{key}": value for key, value in decided.items()}
            settled = ("agrees", "differs")
            chosen = reference if reference["verdict"] in settled and rerun["verdict"] not in settled else rerun
            rows.append({**row, "verdict": chosen["verdict"], "why": chosen["why"]})
    return pd.DataFrame(rows).astype({"reference_p": "float64", "rerun_p": "float64"})


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


def _row(paper: str, number: Number, own: Sequence[Record], kept: Sequence[Record]) -> dict[str, Any]:
    """One row of the scoreboard."""
    groups = {
        "rescored": _rescored(number, own, kept),
        "reference": _cell(number, "rerun", kept, "no reference run has it yet"),
        "rerun": _cell(number, "rerun", own, "not yet run on this machine"),
    }
    row: dict[str, Any] = {"id": number.id, "paper": paper}
    row |= {key: getattr(number, key) for key in ("table", "row", "column", "unit", "printed", "value")}
    row |= {"printed_n": number.n, "printed_model": number.model or "", "note": number.note}
    for group, cell in groups.items():
        row |= {group if key == "value" else f"{group}_{key}": value for key, value in asdict(cell).items()}
    decided_by = _decider(groups)
    return {**row, "verdict": groups[decided_by].verdict, "why": groups[decided_by].why, "decided_by": decided_by}


def _cell(number: Number, kind: Kind, runs: Sequence[Record], empty: str) -> Cell:
    """A number's cell from the newest of these runs that has it, or the reason why none has."""
    run, value = _latest(runs, lambda run: (v for v in run.values if (v.id, v.kind) == (number.id, kind)))
    if run and value:
        stand_in = _stands_in(value.model, number.model)
        verdict, why = ("SAMPLE", "made from sample data: not compared") if run.sample else _judge(number, value)
        return Cell(
            verdict=verdict,
            why=f"{value.model} stands in for {number.model}; {why}" if stand_in else why,
            value=value.value,
            n=value.n,
            low=value.low,
            high=value.high,
            unparsed=value.unparsed,
            model=value.model,
            stand_in=stand_in,
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
    verdict = "agrees" if _near(value.value, number.value, tolerance) else "differs"
    # a rescored value is judged by its last printed digit, so it is shown with more
    more = 1 if value.kind == "rescored" else 0
    limit = number.show(tolerance, more).lstrip("+")
    apart = f"{number.show(value.value, 2 * more)} against {number.printed} printed"
    return verdict, f"{apart}; {'within' if verdict == 'agrees' else 'beyond'} the tolerance of {limit}"


def _decided(claim: Claim, runs: Sequence[Record], empty: str) -> dict[str, Any]:
    """What the newest of these runs says about a claim."""
    run, found = _latest(runs, lambda run: (f for f in run.claims if f.id == claim.id))
    if not (run and found):
        return {"verdict": "not run", "why": empty, "test": claim.test, "p": None, "notebook": ""}
    verdict = "SAMPLE" if run.sample and found.verdict in ("agrees", "differs") else found.verdict
    return {"verdict": verdict, "why": found.why, "test": found.test, "p": found.p, "notebook": run.notebook}


def _decider(groups: dict[str, Cell]) -> str:
    """Which group's verdict sums up the row."""
    for group in ("rerun", "reference", "rescored"):
        if groups[group].value is not None and groups[group].verdict != "SAMPLE":
            return group
    return "rerun" if groups["rerun"].notebook or not groups["reference"].notebook else "reference"


def _near(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance + SLACK * max(1.0, abs(b))


def _stands_in(used: str, printed: str | None) -> bool:
    """Whether a model is another one than was printed; owner, case and punctuation of a name do not matter."""

    def plain(model: str) -> str:
        return re.sub(r"[^a-z0-9]", "", model.rsplit("/", 1)[-1].lower())

    return bool(used and printed) and plain(used) not in map(plain, (printed or "").split(" or "))


# --- small checks --------------------------------------------------------------------------------------------------


def _find(id: str, entries: Sequence[EntryT], what: str) -> EntryT:
    ids = [entry.id for entry in entries]
    if id in ids:
        return entries[ids.index(id)]
    near = difflib.get_close_matches(id, ids, n=3, cutoff=0.4)
    hint = f"Nearest: {', '.join(near)}." if near else "None is like it."
    raise UnknownId(f"{id!r} is not the id of a {what}. {hint} The ids stand in data/published.")


def _finite(id: str, value: float) -> float:
    if not math.isfinite(value):
        raise RecordError(f"{id}: a finite number is needed, found {value}. Report why it is missing with not_run().")
    return float(value)


def _in_unit(number: Number, value: float) -> float:
    value = _finite(number.id, value)
    low = {"fraction": 0.0, "percentage_points": -100.0}.get(number.unit, 0.0)
    high = {"fraction": 1.0, "percentage_points": 100.0}.get(number.unit, math.inf)
    if not low <= value <= high:
        raise RecordError(f"{number.id} is in the unit {number.unit}, from {low:g} to {high:g}; found {value:g}.")
    return value


def _said(id: str, why: str) -> str:
    if not why.strip():
        raise RecordError(f"{id}: say why, in a sentence.")
    return why.strip()


def _strict_json(what: str, value: Json) -> None:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RecordError(f"{what} cannot be kept in a record: {error}. Use text, finite numbers, lists.") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in strict JSON")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        error.add_note(f"The record {path} was not written; what was there before is untouched.")
        raise


# --- in the terminal -----------------------------------------------------------------------------------------------

_COLOURS = {"agrees": "green", "differs": "red", "SAMPLE": "yellow", "not compared": "cyan"}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print scoreboard and ledger; with `--check`, hold this machine's runs against the kept reference.

    Returns:
        0; with `--check` 1 if a number drifted, and 2 if there was nothing to compare.
    """
    parser = argparse.ArgumentParser(prog="python -m helpers.record", description="Printed, rescored, rerun.")
    parser.add_argument("--paper", choices=papers(), help="one paper; default: all")
    parser.add_argument("--profile", choices=get_args(Profile), default=settings().profile)
    parser.add_argument("--check", action="store_true", help="exit 1 if a number drifted from the kept reference")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(levelname)s: %(message)s")
    console = Console()
    if options.check:
        return _check(console, options.paper, options.profile)
    board = scoreboard(options.paper, options.profile)
    for (paper, table), rows in board.groupby(["paper", "table"], sort=False):
        console.print(_board(f"{paper}: {table}", rows))
    console.print(_claims(ledger(options.paper, options.profile)))
    return 0


def _check(console: Console, paper: str | None, profile: Profile) -> int:
    both = records(profile), records(profile, RESULTS)
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
        console.print(f"[red]drift[/] {name}: {drift.id} ({drift.kind}): {drift.why}; allowed {drift.allowed:.4g}")
    if not drifts:
        console.print(f"No drift from the kept reference: {', '.join(real)}.")
    return 1 if drifts else 0


def _board(title: str, frame: pd.DataFrame) -> Table:
    table = Table("place", "printed", "rescored", "reference", "this machine", "verdict", title=title)
    for row in frame.to_dict("records"):
        number = published(row["paper"]).number(row["id"])
        cells = [
            _coloured(_shown(number, row, group), row[f"{group}_verdict"])
            for group in ("rescored", "reference", "rerun")
        ]
        table.add_row(
            f"{row['row']}: {row['column']}", row["printed"], *cells, _coloured(row["verdict"], row["verdict"])
        )
    return table


def _shown(number: Number, row: dict[Any, Any], group: str) -> str:
    if pd.isna(row[group]):
        return str(row[f"{group}_verdict"])
    return number.show(row[group]) + (" (stand-in)" if row[f"{group}_stand_in"] else "")


def _claims(frame: pd.DataFrame) -> Table:
    table = Table("claim", "reference", "this machine", "why", title="Claims")
    for row in frame.to_dict("records"):
        verdicts = [_coloured(row[f"{group}_verdict"], row[f"{group}_verdict"]) for group in ("reference", "rerun")]
        table.add_row(row["claim"], *verdicts, row["why"])
    return table


def _coloured(text: str, verdict: str) -> str:
    colour = _COLOURS.get(verdict, "dim")
    return f"[{colour}]{text}[/]"


if __name__ == "__main__":
    sys.exit(main())
