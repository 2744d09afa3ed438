"""What runs have left, as it is stored: the parts of a record, its seal, and reading it."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import Field, StringConstraints, ValidationError

from helpers.download import digest
from helpers.results.provenance import Json, Machine, scrubbed, without_addresses
from helpers.results.published import Basis, Entry, Kind, Number, RecordError, Strict
from helpers.results.verdicts import Untested, Verdict
from helpers.settings import BUILD, Profile, profile_model

log = logging.getLogger(__name__)

Status = Literal["not run", "cannot be run"]
RECORDS = BUILD / "records"
SCHEMA: Literal[1] = 1
PartT = TypeVar("PartT", bound=Strict)
Why = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
NAME = r"^[\w-]+$"
# Entries of a record that are no free text, so that nothing is looked for in them.
_NOT_TEXT = frozenset({"id", "kind", "status", "verdict", "sha256", "created", "commit", "packages", "files"})
_NOT_TEXT |= {"notebook", "paper", "profile"}


class CorruptRecord(RecordError):
    """A record that cannot be read. It was set aside."""


class Value(Entry):
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


class Reason(Entry):
    """Why a number has no value."""

    kind: Kind
    status: Status
    why: Why


class Finding(Entry):
    """A claim's verdict by the printed numbers, the authors' released answers (rescored), or the run's own (rerun)."""

    kind: Basis = "rerun"
    verdict: Verdict
    test: str
    p: float | None
    why: Why
    reason: Untested | None = None
    needed: int | None = Field(default=None, description="units that would decide it, if it is undecided")


class Extra(Entry):
    """A value that the paper does not print."""

    label: str
    value: float
    n: int
    low: float
    high: float
    unparsed: int


class Timing(Strict):
    """Seconds of one step, with counts of what it did."""

    name: str
    seconds: float
    counts: dict[str, float] = Field(default_factory=dict)


class DataUsed(Strict):
    """A data file that was read."""

    name: str
    sha256: str
    source: str
    sample: bool


class ModelUsed(Strict):
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


class Record(Strict):
    """All that one notebook leaves, as it is kept in JSON."""

    version: Literal[1] = Field(alias="schema")
    notebook: str = Field(pattern=NAME)
    paper: str
    profile: Profile
    sample: bool
    synthetic: bool = False
    created: datetime
    seconds: float
    values: list[Value]
    reasons: list[Reason]
    claims: list[Finding]
    extras: list[Extra]
    provenance: Provenance
    files: dict[str, str] = Field(default_factory=dict, description="what was saved with it, under _build: SHA-256")
    seal: str = Field(default="", description="see `seal`")

    @property
    def asking_seconds(self) -> float:
        """Seconds that the language models took, for kept answers those when they were made."""
        return sum(step.seconds for step in self.provenance.timings if "kept_seconds" in step.counts)

    @property
    def took(self) -> float:
        """Seconds of the run, and those that its kept answers took when they were made."""
        return self.seconds + sum(step.counts.get("kept_seconds", 0.0) for step in self.provenance.timings)


def requests_file(record: Path) -> Path:
    """Where a run leaves the keys of its requests, by step, beside its record."""
    return record.parent / "requests" / record.name


def seal(content: Mapping[str, Any]) -> str:
    """SHA-256 of what is written as JSON, without its entry `seal`: one flipped bit can make another number."""
    whole = {key: value for key, value in content.items() if key != "seal"}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def damaged(notebook: str, name: str) -> Path | None:
    """The first file of a run on this machine that is missing, or is not as the run left it; None if all are whole.

    What a run of an earlier version left has no seal, and counts as whole if it can be read.
    """
    kept = RECORDS / name / f"{notebook}.json"
    for path in (BUILD / "executed" / name / f"{notebook}.ipynb", kept):
        try:
            content = json.loads(path.read_bytes())
            sealed = content if path == kept else {"seal": content["metadata"].get("seal"), "cells": content["cells"]}
            if not content or (sealed.get("seal") and sealed["seal"] != seal(sealed)):
                return path
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return path
    beside = {BUILD / name: sha256 for name, sha256 in content.get("files", {}).items()}
    return next((path for path, sha256 in beside.items() if not path.is_file() or digest(path) != sha256), None)


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
            if isinstance(plain, dict) and plain.get("seal", "") not in ("", seal(plain)):
                raise ValueError("its content is not what was written")
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


def records(name: str, folder: Path | None = None) -> list[Record]:
    """Every readable record of a profile, by notebook: of this machine's runs, or the kept ones with `folder=RESULTS`.

    The name of a run with a further model is that of `run_name`.

    A record that cannot be read is logged as a warning and left out.
    """
    found = []
    for path in sorted(((folder or RECORDS) / name).glob("*.json")):
        try:
            found.append(load(path))
        except (RecordError, OSError) as error:
            log.warning("%s", error)
    return found


def other_models(profile: Profile, kept: Path) -> dict[str, list[Record]]:
    """The records on real data by another model than the one that the settings name, by model.

    Args:
        profile: whose runs; this machine's go before those of the folder `kept`.
        kept: the reference runs.
    """
    found: dict[tuple[str, str], Record] = {}
    for folder in (kept, RECORDS):
        for name in (profile, *sorted(path.name for path in folder.glob(f"{profile}@*"))):
            for run in records(name, folder):
                model = str(run.provenance.parameters.get("llm_model") or "")
                if model not in ("", profile_model(profile)) and not run.sample:
                    found[model, run.notebook] = run
    return {m: [run for (of, _), run in found.items() if of == m] for m in sorted({of for of, _ in found})}


def noted(kind: type[PartT], what: str, /, **fields: Any) -> PartT:  # noqa: ANN401  # checked here
    """A part of a record.

    Raises:
        RecordError: a field does not fit; the message names `what`, the field and what was found.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        wrong = (f"{'.'.join(map(str, e['loc']))}: {e['msg']}, found {e['input']!r}" for e in error.errors())
        raise RecordError(f"{what} cannot be reported. {'; '.join(wrong)}.") from None


def in_unit(number: Number, **fields: Any) -> Value:  # noqa: ANN401  # of a Value
    """The value of a printed number; a RecordError if it or its interval cannot be in the number's unit."""
    value = noted(Value, number.id, id=number.id, **fields)
    low = {"fraction": 0.0, "percentage_points": -100.0}.get(number.unit, 0.0)
    high = {"fraction": 1.0, "percentage_points": 100.0}.get(number.unit, math.inf)
    for found in (value.value, value.low, value.high):
        if found is not None and not low <= found <= high:
            raise RecordError(f"{number.id} is in the unit {number.unit}, from {low:g} to {high:g}; found {found:g}.")
    return value


def strict_json(what: str, value: Json) -> None:
    """Refuse what JSON cannot hold."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RecordError(f"{what} cannot be kept in a record: {error}. Use text, finite numbers, lists.") from error


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number in strict JSON")


def write(path: Path, record: Record) -> None:
    """Write a record, whole or not at all: without secrets, addresses and paths, and sealed.

    Raises:
        OSError: the file cannot be written. What was there before is untouched.
    """
    plain: dict[str, Any] = record.model_dump(mode="json", by_alias=True)
    plain["provenance"]["parameters"] = without_addresses(plain["provenance"]["parameters"])
    plain = cast("dict[str, Any]", scrubbed(plain, keep=_NOT_TEXT))
    text = json.dumps({**plain, "seal": seal(plain)}, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n")


def write_whole(path: Path, text: str) -> None:
    """Write a text, and bring it to the disk; or leave what was there before."""
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
