"""What a run leaves behind: values, reasons, claims and provenance, in one JSON file for each notebook and profile.

A notebook calls `start`, reports to the `Run` it gets, and saves. Ids are those of `data/published`.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import logging
import math
import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

from pydantic import Field

from helpers.download import digest
from helpers.results import answers
from helpers.results.answers import Answer, Unit, answered
from helpers.results.metrics import Score
from helpers.results.provenance import Json, Machine, machine, scrubbed, without_addresses
from helpers.results.published import ID, Basis, Entry, Kind, Number, RecordError, Strict, published
from helpers.results.verdicts import Untested, Verdict
from helpers.settings import BUILD, NOTEBOOKS, Profile, profile_model, run_name, settings

if TYPE_CHECKING:
    import pandas as pd

    from helpers.datasets import Located
    from helpers.graph import Graph
    from helpers.llm import LLM, Usage
    from helpers.results.outcomes import Outcomes
    from helpers.vectors import Encoder

log = logging.getLogger(__name__)

Status = Literal["not run", "cannot be run"]

RECORDS = BUILD / "records"
SCHEMA: Literal[1] = 1

_NAME = r"^[\w-]+$"

# Entries of a record that are no free text, so that nothing is looked for in them.
_NOT_TEXT = frozenset(
    {
        "id",
        "kind",
        "status",
        "verdict",
        "sha256",
        "created",
        "notebook",
        "paper",
        "profile",
        "commit",
        "packages",
        "files",
    }
)


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
    why: str = Field(min_length=1)


class Finding(Entry):
    """A claim's verdict by the printed numbers, the authors' released answers (rescored), or the run's own (rerun)."""

    kind: Basis = "rerun"
    verdict: Verdict
    test: str
    p: float | None
    why: str = Field(min_length=1)
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
    notebook: str = Field(pattern=_NAME)
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
        self.synthetic = False
        self._parameters = parameters
        self._created, self._began = datetime.now(UTC), time.monotonic()
        self._values: dict[tuple[str, str], Value] = {}
        self._reasons: dict[tuple[str, str], Reason] = {}
        self._claims: dict[tuple[str, str], Finding] = {}
        self._extras: dict[str, Extra] = {}
        self._data: dict[str, DataUsed] = {}
        self._models: dict[tuple[str, str], ModelUsed] = {}
        self._timings: list[Timing] = []
        self._tokens = dict.fromkeys(("prompt", "generated", "requests", "cached", "checked", "same"), 0)
        self._requests: dict[str, str] = {}
        self._licences: set[str] = set()
        self._withheld = self._own = False

    def data(self, located: Located) -> None:
        """Note a data file. One sample file makes the whole run a SAMPLE."""
        self._data[located.name] = DataUsed(
            name=located.name, sha256=located.sha256, source=located.source, sample=located.sample
        )
        self.sample = self.sample or located.sample
        from helpers.datasets import registry  # noqa: PLC0415  # pydantic over the whole registry

        entry = registry().get(located.name)
        self._own = self._own or (entry is None and not located.sample)
        if entry and not located.sample:
            self._licences.add(entry.licence)
            self._withheld = self._withheld or not entry.redistributable

    def made(self, name: str, sha256: str, source: str) -> None:
        """Note data that the run made itself, from a seed: nobody's, free to pass on."""
        self._data[name] = DataUsed(name=name, sha256=sha256, source=source, sample=False)
        self.synthetic = True

    def model(self, name: str, sha256: str | None, engine: str, version: str | None, role: str) -> None:
        """Note a model, its engine and what it did (chat, encoder). What a server does not tell is None."""
        self._models[name, role] = ModelUsed(name=name, sha256=sha256, engine=engine, version=version, role=role)

    def model_used(self, used: LLM | Encoder | Graph, role: str) -> None:
        """Note what answered, encoded or held the graph, and what it did; call it when the work is done."""
        endpoint: Any = getattr(used, "endpoint", None)
        if endpoint is None:
            encoder: Any = used
            self.model(encoder.name, encoder.digest, engine="encoder", version=encoder.engine, role=role)
        elif hasattr(endpoint, "model_sha256"):
            self.model(endpoint.model, endpoint.model_sha256, endpoint.engine, endpoint.version, role)
        else:
            self.model(endpoint.engine, "", engine="graph", version=endpoint.version, role=role)

    def timing(self, name: str, seconds: float, **counts: float) -> None:
        """Note what a step took, and how many of what it did."""
        checked = {key: _finite(f"{name}, {key}", count) for key, count in counts.items()}
        self._timings.append(Timing(name=name, seconds=_finite(name, seconds), counts=checked))

    def asked(self, usage: Usage, name: str = "language model") -> None:
        """Note what was asked of a language model: tokens, requests and seconds, those of kept answers included."""
        counts = {
            "prompt": usage.prompt_tokens,
            "generated": usage.generated_tokens,
            "requests": usage.requests,
            "cached": usage.cached,
            "checked": sum(usage.checked.values()),
            "same": usage.same,
        }
        for key, count in counts.items():
            self._tokens[key] += count
        self._requests |= usage.keys
        self.timing(name, usage.seconds, requests=usage.requests, kept_seconds=usage.kept_seconds)

    def answer(
        self,
        arms: Mapping[str, Callable[[Sequence[Any]], Sequence[Answer]]],
        units: Sequence[Unit],
        *,
        model: str = "",
        split: str = "test",
    ) -> list[Answer]:
        """Rows of the table of answers: what each arm says about each unit.

        Args:
            arms: name -> the architecture: units in, an answer for each out.
            units: what is asked about.
            model: who answers, for arms that ask one; another arm may name an encoder.
            split: test, held-out or taught.

        Raises:
            RecordError: an arm has not one answer for each unit.
        """
        rows = []
        for arm, ask in arms.items():
            said = ask(units)
            if len(said) != len(units):
                raise RecordError(f"{arm} gave {len(said)} answers to {len(units)} units; one for each is needed.")
            rows += [
                answered(a, unit, arm=arm, run=self.profile, model=model if a.requests else a.model, split=split)
                for a, unit in zip(said, units, strict=True)
            ]
        return rows

    def report(self, outcomes: Outcomes, place: str, measures: Sequence[str], *, model: str) -> None:
        """Report an arm's scores beside each printed number: released answers, then this run's.

        The id of a number is `place.arm.measure`, or `place.arm` for the first measure.

        Args:
            outcomes: rows of both sources; released ones are those of the printed number's model.
            place: where the paper prints the numbers.
            measures: of each arm.
            model: of the rerun, for numbers that a model made; empty if this run has none, for released answers alone.
        """
        for number in self.printed.numbers:
            arm, _, measure = (whole := number.id.removeprefix(f"{place}.")).rpartition(".")
            if whole in outcomes.arms:
                arm, measure = whole, measures[0]
            if not number.id.startswith(f"{place}.") or measure not in measures:
                continue
            released = outcomes.where(source="released", model=number.model or "", arm=arm)
            if len(released.frame):
                self.rescored(number.id, released.score(measure), source=(number.rescore_from or ("",))[0])
            if model:
                rerun = outcomes.where(source="rerun", arm=arm).score(measure)
                self.rerun(number.id, rerun, model=model if number.model else "")

    def live(self, measure: Callable[[], Sequence[Answer]], repeat: int = 1) -> pd.DataFrame | list[Answer]:
        """Rows that only a live server can make, such as times: made now, or with ANSWERS=stored-only as stored.

        Args:
            measure: makes the rows.
            repeat: their number of repetition, by which the stored ones are found.
        """
        if settings().answers != "stored-only":
            return list(measure())
        stored = answers.read(answers.newest(self.notebook, self.profile))
        mine = stored["model"].isin(["", profile_model(self.profile)])  # and not the times of the reference's model
        return stored[mine & (stored["repeat"] == repeat)]

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

    def claim(
        self,
        id: str,
        verdict: Verdict,
        why: str,
        *,
        test: str = "",
        p: float | None = None,
        kind: Basis = "rerun",
        reason: Untested | None = None,
        needed: int | None = None,
    ) -> None:
        """Decide a claim on this run's data.

        Args:
            id: of the claim.
            verdict: agrees, differs, undecided, not run, cannot be run; `verdicts` has the rules for the first three.
            why: the numbers that decided it, in a sentence.
            test: the test as carried out; the one stated for the claim if left out.
            p: its p-value, if it has one.
            kind: what tested it: the printed numbers, the authors' released answers, or this run's.
            reason: why it is not tested, if it is not.
            needed: units that would decide it, if it is undecided.

        Raises:
            UnknownId: the paper makes no such claim.
            RecordError: the verdict is none of these, or a reason is missing, or p is not finite.
        """
        stated = self.printed.claim(id)
        if verdict not in get_args(Verdict):
            raise RecordError(f"{id}: a verdict is one of {', '.join(get_args(Verdict))}; found {verdict!r}.")
        p = None if p is None else _finite(id, p)
        test = test or stated.decided_by
        self._claims[id, kind] = Finding(
            id=id, kind=kind, verdict=verdict, test=test, p=p, why=_said(id, why), reason=reason, needed=needed
        )

    @property
    def claims(self) -> list[Finding]:
        """The claims decided so far, those on released answers before those on reruns of the same claim."""
        place = {id: i for i, (id, _) in enumerate(self._claims)}
        return sorted(self._claims.values(), key=lambda found: (place[found.id], found.kind == "rerun"))

    def extra(self, id: str, label: str, score: Score) -> None:
        """Report a value that the paper does not print.

        Raises:
            RecordError: the paper does print it, or the value is not finite.
        """
        if any(id == number.id for number in self.printed.numbers):
            raise RecordError(f"{id} is a printed number: report it with rescored() or rerun().")
        if not re.match(ID, id):
            raise RecordError(f"An id is words of a-z, 0-9 and _ joined by full stops; found {id!r}.")
        for bound in (score.value, score.low, score.high):
            _finite(id, bound)
        self._extras[id] = Extra(id=id, label=label, **asdict(score))

    def save(self, path: Path | None = None, *, outcomes: Outcomes | None = None) -> Path:
        """Write the record, whole or not at all, and beside it the answers and requests of the run.

        Args:
            path: where to; `_build/records/<run>/<notebook>.json` if left out; see `run_name`.
            outcomes: the answers; those released by authors are not written, since they are read anew from their files.

        Returns:
            The path.

        Raises:
            OSError: the file cannot be written. What was there before is untouched.
        """
        name = run_name(self.profile)
        path = path or RECORDS / name / f"{self.notebook}.json"
        beside: list[Path] = []
        if outcomes is not None and not self._own:
            mine = outcomes.frame[outcomes.frame.source == "rerun"]
            licence = "; ".join(sorted(self._licences)) or "CC0-1.0"
            folder = answers.BUILT / name / self.notebook
            answers.write(folder, mine, licence=licence)
            beside += sorted(folder.glob("*.parquet"))
        if self._requests and not self._own:
            _write(requests_file(path), json.dumps({"withheld": self._withheld, "requests": self._requests}))
            beside.append(requests_file(path))
        record = Record(
            schema=SCHEMA,
            notebook=self.notebook,
            paper=self.paper,
            profile=self.profile,
            sample=self.sample,
            synthetic=self.synthetic,
            created=self._created.replace(microsecond=0),
            seconds=round(time.monotonic() - self._began, 3),
            values=list(self._values.values()),
            reasons=list(self._reasons.values()),
            claims=self.claims,
            extras=list(self._extras.values()),
            provenance=Provenance(
                **machine().model_dump(),
                data=list(self._data.values()),
                models=list(self._models.values()),
                parameters=self._parameters,
                tokens=self._tokens,
                timings=self._timings,
            ),
            files={p.relative_to(BUILD).as_posix(): digest(p) for p in beside if p.is_relative_to(BUILD)},
        )
        plain: dict[str, Any] = record.model_dump(mode="json", by_alias=True)
        plain["provenance"]["parameters"] = without_addresses(plain["provenance"]["parameters"])
        plain = cast("dict[str, Any]", scrubbed(plain, keep=_NOT_TEXT))
        text = json.dumps({**plain, "seal": seal(plain)}, indent=1, ensure_ascii=False, allow_nan=False)
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


def start(
    *, notebook: str, paper: str, profile: Profile | None = None, parameters: dict[str, Json] | None = None
) -> Run:
    """Begin the record of one notebook.

    Args:
        notebook: its name without folder and suffix.
        paper: whose numbers it reports.
        profile: smoke, laptop or paper; default: what the caller's variable of that name says.
        parameters: as JSON can hold them; default: the caller's values of all that the notebook's cell `parameters`
            declares, except lines whose comment begins with `private`.

    Raises:
        RecordError: the paper has no published numbers, the profile does not exist, the name is no name, or a
            parameter cannot be kept.
    """
    from helpers.results import figures  # noqa: PLC0415  # a second of plotting libraries, for notebooks alone

    figures.use_style()
    caller = inspect.currentframe()
    names = caller.f_back.f_globals if caller and caller.f_back else {}
    if parameters is None:
        declared = public_parameters(NOTEBOOKS / f"{notebook}.ipynb")
        parameters = {name: names[name] for name in declared if name != "profile"}
    return Run(notebook, paper, profile or names["profile"], parameters)


def public_parameters(notebook: Path) -> list[str]:
    """The names that a notebook's cell `parameters` declares, without those whose comment begins with `private`."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    lines = [line for source in sources for line in source.splitlines()]
    assigned = (re.match(r"(\w+) = .*?(?:# *(.*))?$", line) for line in lines)
    return [found[1] for found in assigned if found and not (found[2] or "").startswith("private")]


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


# --- small checks --------------------------------------------------------------------------------------------------


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
