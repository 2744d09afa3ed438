"""Stored records of runs: their parts, their seal, and reading them."""

import hashlib
import json
import logging
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from pydantic import Field, StringConstraints, ValidationError, model_validator

from evaluation.provenance import scrubbed, without_addresses
from evaluation.published import Basis, Entry, Kind, RecordError, Strict
from evaluation.vocabulary import (
    FORMER_REASONS,
    FORMER_VERDICTS,
    HereAnswer,
    Reason as WhyUnanswered,
    Verdict,
)
from resources.download import digest, write_whole
from resources.settings import BUILD, Profile, profile_model

log = logging.getLogger(__name__)

Status = Literal["not run", "cannot be run"]
RECORDS = BUILD / "records"
SCHEMA: Literal[1] = 1
PartT = TypeVar("PartT", bound=Strict)
Why = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
NAME = r"^[\w-]+$"
# entries of a record that are no free text, so that nothing is looked for in them
_NOT_TEXT = frozenset(
    {"id", "kind", "status", "verdict", "answer", "sha256", "created", "commit", "packages"}
)
_NOT_TEXT |= {"files", "notebook", "paper", "profile"}


class Value(Entry):
    """One number as rescored or rerun. A plain count has no interval: low and high are None."""

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


class ArmValue(Strict):
    """An arm, and its score."""

    label: str
    value: float


class Estimate(Strict):
    """A value with its 95 % interval that entered an answer about a claim."""

    label: str = Field(description="what was measured, for a reader")
    value: float
    low: float
    high: float
    n: int = Field(description="rows that it was measured on")
    unit: str = Field(description="of the measure, see `measures.unit`")
    difference: bool = Field(default=False, description="first arm minus second")
    bound: float | None = Field(default=None, description="where the claim's truth turns")
    arms: list[ArmValue] = Field(
        default_factory=list,
        description="of a difference or a ratio both arms, of a score its arm; empty if unknown",
    )
    measure: str = Field(default="", description="name of the measure; empty if it is unknown")
    where: dict[str, list[str]] = Field(
        default_factory=dict,
        description="columns and strata with the values that its rows have; empty if unknown",
    )


class ClaimAnswer(Entry):
    """What the answers to both questions about a claim have in common."""

    test: str
    p: float | None = None
    why: Why
    reason: WhyUnanswered | None = None
    needed: int | None = Field(
        default=None, description="units that would decide it, if it is inconclusive"
    )
    estimates: list[Estimate] = Field(default_factory=list)
    ties: list[Estimate] = Field(
        default_factory=list,
        description="differences that decided nothing: all arms got the same facts",
    )
    models: list[str] = Field(
        default_factory=list, description="the models whose answers decided it"
    )


class Finding(ClaimAnswer):
    """Does a claim hold for the paper's system? By one basis; see `vocabulary`."""

    kind: Basis = "rerun"
    verdict: Verdict

    @model_validator(mode="before")
    @classmethod
    def _read_former_words(cls, fields: Any) -> Any:  # noqa: ANN401
        """Read a record that was written before there were two questions."""
        if not isinstance(fields, dict):
            return fields
        verdict, reason = str(fields.get("verdict")), str(fields.get("reason"))
        if reason == "left open":
            return fields | {"verdict": "inconclusive", "reason": None}
        current = dict(fields)
        if verdict in FORMER_VERDICTS:
            current["verdict"] = FORMER_VERDICTS[verdict]
        if reason in FORMER_REASONS:
            current["reason"] = FORMER_REASONS[reason]
        return current


class HereFinding(ClaimAnswer):
    """Does a claim hold here, by the models that ran? Never counted as a verdict."""

    answer: HereAnswer


STORED_TIMES: Final = "times of single questions, stored"
"""The step of a record that took the times of single questions from an earlier run."""


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
    """What a run was made with and on. It names no user, host, absolute path or secret."""

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
    here_findings: list[HereFinding] = Field(
        default_factory=list, description="answers to the second question about the claims"
    )
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
    """SHA-256 of JSON content without its entry `seal`: one flipped bit can make another number."""
    sealed = {key: value for key, value in content.items() if key != "seal"}
    text = json.dumps(sealed, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


_UNREADABLE: Final = (OSError, ValueError, KeyError, TypeError, AttributeError)
"""What reading a damaged file can raise."""


def damaged(notebook: str, name: str) -> Path | None:
    """The first file of a run on this machine that is missing or not as the run left it."""
    executed = BUILD / "executed" / name / f"{notebook}.ipynb"
    record = RECORDS / name / f"{notebook}.json"
    try:
        content = json.loads(executed.read_bytes())
        sealed = {"seal": content["metadata"].get("seal"), "cells": content["cells"]}
        is_intact = _is_intact(sealed)
    except _UNREADABLE:
        is_intact = False
    if not is_intact:
        return executed
    try:
        content = json.loads(record.read_bytes())
        digests = dict(content.get("files", {}))
        is_intact = bool(content) and _is_intact(content)
    except _UNREADABLE:
        is_intact = False
    return _changed_file(digests) if is_intact else record


def _changed_file(digests: Mapping[str, str]) -> Path | None:
    """The first file under _build that is missing or has another SHA-256 than the one noted."""
    for name, sha256 in digests.items():
        path = BUILD / name
        if not path.is_file() or digest(path) != sha256:
            return path
    return None


def _is_intact(content: Mapping[str, Any]) -> bool:
    """Whether content is as it was sealed; what has no seal is taken for intact."""
    return not content.get("seal") or content["seal"] == seal(content)


def load(path: Path) -> Record:
    """Read a record.

    Raises:
        RecordError: If it is of another version, or cannot be understood; it is then set aside as
            ``<file>.corrupt``.
    """
    try:
        plain = json.loads(path.read_text("utf-8"))
        schema = plain.get("schema") if isinstance(plain, dict) else None
        if not isinstance(schema, int) or schema == SCHEMA:
            if isinstance(plain, dict) and not _is_intact(plain):
                raise ValueError("its content is not what was written")
            return Record.model_validate(plain)
    except ValueError as error:  # JSON, UTF-8 and pydantic raise kinds of it
        aside = path.with_name(f"{path.name}.corrupt")
        path.replace(aside)
        problem = " ".join(str(error).split())[:200]
        raise RecordError(
            f"The record {path} cannot be understood ({problem}). "
            f"It was set aside as {aside.name}; run its notebook again to have a new one."
        ) from error
    raise RecordError(
        f"The record {path} is of schema {schema}, and this version reads schema {SCHEMA}. "
        "Run its notebook again."
    )


def records(name: str, folder: Path | None = None) -> list[Record]:
    """Read the records of a run, by notebook; one that cannot be read is left out, with a warning.

    Args:
        name: Name of the run, as `run_name` gives it.
        folder: Folder of all runs; by default this machine's.
    """
    found = []
    for path in sorted(((folder or RECORDS) / name).glob("*.json")):
        try:
            found.append(load(path))
        except (RecordError, OSError) as error:
            log.warning("%s", error)
    return found


def other_models(profile: Profile, reference: Path) -> dict[str, list[Record]]:
    """The records on real data by other models than the settings', by model.

    Args:
        profile: Name of the profile.
        reference: Folder of the reference's records. This machine's take their place.
    """
    own = profile_model(profile)
    latest: dict[tuple[str, str], Record] = {}
    for record in (*_all_records(profile, reference), *_all_records(profile, RECORDS)):
        model = str(record.provenance.parameters.get("llm_model") or "")
        if model not in ("", own) and not record.sample:
            latest[model, record.notebook] = record
    by_model: dict[str, list[Record]] = {}
    for (model, _), record in latest.items():
        by_model.setdefault(model, []).append(record)
    return {model: by_model[model] for model in sorted(by_model)}


def _all_records(profile: Profile, folder: Path) -> list[Record]:
    """The records of a profile and of its further models."""
    further = sorted(path.name for path in folder.glob(f"{profile}@*"))
    found = records(profile, folder)
    for name in further:
        found += records(name, folder)
    return found


def validate_part(kind: type[PartT], subject: str, /, **fields: Any) -> PartT:  # noqa: ANN401
    """Make a part of a record.

    Args:
        kind: What to make.
        subject: What it is about, for the error.
        **fields: Its fields.

    Raises:
        RecordError: If a field does not fit; the message names it and what was found.
    """
    try:
        return kind.model_validate(fields)
    except ValidationError as error:
        problems = [_problem_text(details) for details in error.errors()]
        raise RecordError(f"{subject} cannot be reported. {'; '.join(problems)}.") from None


def _problem_text(details: Mapping[str, Any]) -> str:
    place = ".".join(str(part) for part in details["loc"])
    return f"{place}: {details['msg']}, found {details['input']!r}"


def write(path: Path, record: Record) -> None:
    """Write a record, whole or not at all: without secrets, addresses and paths, and sealed."""
    plain: dict[str, Any] = record.model_dump(mode="json", by_alias=True)
    plain["provenance"]["parameters"] = without_addresses(plain["provenance"]["parameters"])
    plain = cast("dict[str, Any]", scrubbed(plain, keep=_NOT_TEXT))
    text = json.dumps({**plain, "seal": seal(plain)}, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, f"{text}\n")
