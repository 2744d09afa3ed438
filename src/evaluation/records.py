"""Stored records of runs: their parts, their seal, and reading them."""

import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from pydantic import Field, StringConstraints, ValidationError

from evaluation.provenance import scrubbed, without_addresses
from evaluation.published import Basis, Entry, Kind, RecordError, Strict
from resources.download import digest, write_whole
from resources.settings import BUILD, Profile, profile_model

log = logging.getLogger(__name__)

Tested = Literal["agrees", "differs", "undecided"]
Verdict = Literal["agrees", "differs", "undecided", "not run", "cannot be run"]

TESTED: Final[tuple[Tested, ...]] = (
    "agrees",
    "differs",
    "undecided",
)  # the verdicts of a claim that a run has tested

Untested = Literal[
    "stand-in",
    "forced tie",
    "too few",
    "no answers",
    "judge at chance",
    "one model",
    "left open",
    "undefined",
    "not public",
]
UNTESTED: Final[dict[Untested, str]] = {
    "stand-in": "The claim concerns other models (name one in LLM_MODEL or the notebook's parameters).",
    "forced tie": "All arms received the same fact for every question (incomplete knowledge would test it).",
    "too few": "With so few units, no test could be conclusive (increase the profile's sizes).",
    "no answers": "An arm in the claim has no answers here (the evidence says how to add it).",
    "judge at chance": "The judge cannot tell right from wrong answers (a larger model may).",
    "one model": "The claim compares models, and one has answered (name a second one).",
    "left open": "The released or printed data are inconclusive (a further release may help).",
    "undefined": "The paper defines no measure of it (only its authors can).",
    "not public": "The required data or models are not public (only their release would help).",
}
"""Why a claim is not tested, in a word and in a sentence."""
CLOSED: Final = (
    "left open",
    "undefined",
    "not public",
)  # those by which nobody can test it on public data

Status = Literal["not run", "cannot be run"]
RECORDS = BUILD / "records"
SCHEMA: Literal[1] = 1
PartT = TypeVar("PartT", bound=Strict)
Why = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
NAME = r"^[\w-]+$"
# entries of a record that are no free text, so that nothing is looked for in them
_NOT_TEXT = frozenset(
    {"id", "kind", "status", "verdict", "sha256", "created", "commit", "packages", "files"}
)
_NOT_TEXT |= {"notebook", "paper", "profile"}


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
    p: float | None = None
    why: Why
    reason: Untested | None = None
    needed: int | None = Field(
        default=None, description="units that would decide it, if it is undecided"
    )


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


class Provenance(Strict):
    """What a run was made with and on, as `machine` tells it. It names no user, host, absolute path or secret."""

    commit: str | None
    dirty: bool | None
    python: str
    platform: str
    cpu: str
    cores: int
    memory_gb: float
    packages: dict[str, str]
    data: list[DataUsed]
    models: list[ModelUsed]
    parameters: dict[str, Any]
    tokens: dict[str, int]
    timings: list[Timing]
    answers: str = ""  # the setting ANSWERS


class Record(Strict):
    """Everything that one notebook records, as stored in JSON."""

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
    extras: list[Any] = Field(default_factory=list, description="of earlier versions")
    provenance: Provenance
    arms: dict[str, str] = Field(
        default_factory=dict, description="labels of the arms that answered"
    )
    files: dict[str, str] = Field(
        default_factory=dict, description="what was saved with it, under _build: SHA-256"
    )
    seal: str = Field(default="", description="see `seal`")

    @property
    def asking_seconds(self) -> float:
        """Seconds that the language models took, for kept answers those when they were made."""
        return sum(
            step.seconds for step in self.provenance.timings if "kept_seconds" in step.counts
        )

    @property
    def took(self) -> float:
        """Seconds of the run, and those that its kept answers took when they were made."""
        return self.seconds + sum(
            step.counts.get("kept_seconds", 0.0) for step in self.provenance.timings
        )


def requests_file(record: Path) -> Path:
    """Where a run leaves the keys of its requests, by step, beside its record."""
    return record.parent / "requests" / record.name


def seal(content: Mapping[str, Any]) -> str:
    """SHA-256 of what is written as JSON, without its entry `seal`: one flipped bit can make another number."""
    whole = {key: value for key, value in content.items() if key != "seal"}
    return hashlib.sha256(json.dumps(whole, sort_keys=True).encode()).hexdigest()


def damaged(notebook: str, name: str) -> Path | None:
    """The first file of a run on this machine that is missing or not as the run left it, by its seal if it has one."""
    kept = RECORDS / name / f"{notebook}.json"
    for path in (BUILD / "executed" / name / f"{notebook}.ipynb", kept):
        try:
            content = json.loads(path.read_bytes())
            sealed = (
                content
                if path == kept
                else {"seal": content["metadata"].get("seal"), "cells": content["cells"]}
            )
            if not content or (sealed.get("seal") and sealed["seal"] != seal(sealed)):
                return path
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return path
    beside = {BUILD / name: sha256 for name, sha256 in content.get("files", {}).items()}
    return next(
        (path for path, sha256 in beside.items() if not path.is_file() or digest(path) != sha256),
        None,
    )


def load(path: Path) -> Record:
    """Read a record. One that cannot be understood is set aside as `<file>.corrupt`, with a RecordError."""
    try:
        plain = json.loads(path.read_text("utf-8"))
        schema = plain.get("schema") if isinstance(plain, dict) else None
        if not isinstance(schema, int) or schema == SCHEMA:
            if isinstance(plain, dict) and plain.get("seal", "") not in ("", seal(plain)):
                raise ValueError("its content is not what was written")
            return Record.model_validate(plain)
    except ValueError as error:  # JSON, UTF-8 and pydantic raise kinds of it
        aside = path.with_name(f"{path.name}.corrupt")
        path.replace(aside)
        problem, mend = (
            " ".join(str(error).split())[:200],
            "run its notebook again to have a new one",
        )
        why = f"The record {path} cannot be understood ({problem}). It was set aside as {aside.name}; {mend}."
        raise RecordError(why) from error
    why = f"The record {path} is of schema {schema}, and this version reads schema {SCHEMA}. Run its notebook again."
    raise RecordError(why)


def records(name: str, folder: Path | None = None) -> list[Record]:
    """The records of a `run_name` here, or in a folder, by notebook; one that cannot be read is left out and told."""
    found = []
    for path in sorted(((folder or RECORDS) / name).glob("*.json")):
        try:
            found.append(load(path))
        except (RecordError, OSError) as error:
            log.warning("%s", error)
    return found


def other_models(profile: Profile, kept: Path) -> dict[str, list[Record]]:
    """The records on real data by other models than the settings', by model; this machine's before those `kept`."""
    found: dict[tuple[str, str], Record] = {}
    for folder in (kept, RECORDS):
        for name in (profile, *sorted(path.name for path in folder.glob(f"{profile}@*"))):
            for run in records(name, folder):
                model = str(run.provenance.parameters.get("llm_model") or "")
                if model not in ("", profile_model(profile)) and not run.sample:
                    found[model, run.notebook] = run
    return {
        m: [run for (of, _), run in found.items() if of == m]
        for m in sorted({of for of, _ in found})
    }


def validate_part(kind: type[PartT], what: str, /, **fields: Any) -> PartT:  # noqa: ANN401  # checked here
    """A part of a record; a RecordError names `what`, the field that does not fit and what was found."""
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        wrong = (
            f"{'.'.join(map(str, e['loc']))}: {e['msg']}, found {e['input']!r}"
            for e in error.errors()
        )
        raise RecordError(f"{what} cannot be reported. {'; '.join(wrong)}.") from None


def write(path: Path, record: Record) -> None:
    """Write a record, whole or not at all: without secrets, addresses and paths, and sealed."""
    plain: dict[str, Any] = record.model_dump(mode="json", by_alias=True)
    plain["provenance"]["parameters"] = without_addresses(plain["provenance"]["parameters"])
    plain = cast("dict[str, Any]", scrubbed(plain, keep=_NOT_TEXT))
    text = json.dumps({**plain, "seal": seal(plain)}, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n")
