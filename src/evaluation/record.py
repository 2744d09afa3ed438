"""What a run leaves behind: values, reasons, claims and provenance, in one JSON file for each notebook and profile."""

from __future__ import annotations

import inspect
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from math import inf
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from evaluation import answers, records
from evaluation.answers import Answer, Unit, make_row
from evaluation.metrics import Score
from evaluation.provenance import Json, machine, public_parameters
from evaluation.published import Basis, Kind, RecordError, published
from evaluation.records import Verdict
from helpers import neighbours
from resources.download import digest
from resources.settings import BUILD, NOTEBOOKS, Profile, profile_model, run_name, settings

if TYPE_CHECKING:
    import pandas as pd

    from evaluation.outcomes import Outcomes
    from helpers.graph import Graph
    from helpers.llm import LLM, Usage
    from helpers.vectors import Encoder
    from resources.datasets import Located


Arm = Callable[[Sequence[Any]], Sequence[Answer]]  # takes units, gives an answer to each


class Run:
    """What one notebook reports while it runs; `start` makes one. Reporting an id again replaces what was there.

    An id that the paper's YAML does not declare, and a value that does not fit, is a RecordError.
    """

    def __init__(
        self, notebook: str, paper: str, profile: Profile, parameters: dict[str, Json]
    ) -> None:
        """Begin a run; `start` is the way in."""
        if not re.match(records.NAME, notebook):
            raise RecordError(
                f"A notebook is named by letters, digits, - and _, without a folder; found {notebook!r}."
            )
        if profile not in get_args(Profile):
            raise RecordError(
                f"There is no profile {profile!r}; use one of {', '.join(get_args(Profile))}."
            )
        for name, value in parameters.items():
            try:
                json.dumps(value, allow_nan=False)
            except (TypeError, ValueError) as error:
                advice = "Use text, finite numbers, lists."
                raise RecordError(
                    f"The parameter {name} cannot be kept in a record: {error}. {advice}"
                ) from error
        self.notebook, self.paper, self.profile = notebook, paper, profile
        self.printed = published(paper)
        self.sample = self.synthetic = False
        self._parameters = parameters
        self._created, self._began = datetime.now(UTC), time.monotonic()
        self._values: dict[tuple[str, str], records.Value] = {}
        self._reasons: dict[tuple[str, str], records.Reason] = {}
        self._claims: dict[tuple[str, str], records.Finding] = {}
        self._data: dict[str, records.DataUsed] = {}
        self._models: dict[tuple[str, str], records.ModelUsed] = {}
        self._timings: list[records.Timing] = []
        self._counted: list[object] = []
        self._tokens = dict.fromkeys(
            ("prompt", "generated", "requests", "cached", "checked", "same"), 0
        )
        self._requests: dict[str, str] = {}
        self._licences: set[str] = set()
        self._withheld = self._own = self._opened = False

    def opening(self, text: str) -> None:
        """Show the chapter's answer, in Markdown, below the notebook's first cell."""
        from IPython.display import Markdown, display  # noqa: PLC0415  # for notebooks alone

        display(Markdown(text), display_id="answer", update=self._opened)
        self._opened = True

    def data(self, *files: Located) -> None:
        """Note data files. One sample file makes the whole run a SAMPLE."""
        from resources.registry import registry  # noqa: PLC0415  # pydantic over the whole registry

        for file in files:
            self._data[file.name] = records.DataUsed.model_validate(file, from_attributes=True)
            self.sample = self.sample or file.sample
            entry = registry().get(file.name)
            self._own = self._own or (entry is None and not file.sample)
            if entry and not file.sample:
                self._licences.add(entry.licence)
                self._withheld = self._withheld or not entry.redistributable

    def generated_data(self, name: str, sha256: str, source: str) -> None:
        """Note data that the run made itself, from a seed: nobody's, free to pass on."""
        self._data[name] = records.DataUsed(name=name, sha256=sha256, source=source, sample=False)
        self.synthetic = True

    def model(
        self, name: str, sha256: str | None, engine: str, version: str | None, role: str
    ) -> None:
        """Note a model, its engine and what it did (chat, encoder). What a server does not tell is None."""
        told = {"name": name, "sha256": sha256, "engine": engine, "version": version, "role": role}
        self._models[name, role] = records.ModelUsed.model_validate(told)

    def model_used(self, used: LLM | Encoder | Graph, role: str) -> None:
        """Note what answered, encoded or held the graph, and what it did; of an LLM also what was asked of it, once.

        Call it when the work is done: stored requests may be asked again now.
        """
        llm: Any = used
        of: Any = getattr(used, "endpoint", used)
        if not hasattr(used, "endpoint"):
            self.model(of.name, of.digest, "encoder", of.engine, role)
        elif hasattr(of, "model_sha256"):
            if llm not in self._counted:
                self._counted.append(llm)
                llm.recheck_stored()
                self.count_requests(llm.usage, f"requests to {of.model}")
            engine, version = llm.engine_and_version
            self.model(of.model, of.model_sha256, engine, version, role)
        else:
            self.model(of.engine, "", "graph", of.version, role)

    def timing(self, name: str, seconds: float, **counts: float) -> None:
        """Note what a step took, and how many of what it did."""
        self._timings.append(
            records.validate_part(records.Timing, name, name=name, seconds=seconds, counts=counts)
        )

    def count_requests(self, usage: Usage, name: str = "language model") -> None:
        """Note what was asked of a language model: tokens, requests and seconds, those of kept answers included."""
        checked = sum(usage.checked.values())
        counts = (
            usage.prompt_tokens,
            usage.generated_tokens,
            usage.requests,
            usage.cached,
            checked,
            usage.same,
        )
        self._tokens = {
            key: before + n for (key, before), n in zip(self._tokens.items(), counts, strict=True)
        }
        self._requests |= usage.keys
        self.timing(name, usage.seconds, requests=usage.requests, kept_seconds=usage.kept_seconds)

    def answer(
        self,
        arms: Mapping[str, Arm],
        units: Sequence[Unit],
        *,
        model: str = "",
        split: str = "test",
    ) -> list[Answer]:
        """Rows of the table of answers: what each arm says of each unit; `model` answers for arms that ask one."""
        rows = []
        for arm, ask in arms.items():
            replies = ask(units)
            if len(replies) != len(units):
                raise RecordError(
                    f"{arm} gave {len(replies)} answers to {len(units)} units; one for each is needed."
                )
            rows += [
                make_row(
                    a,
                    unit,
                    arm=arm,
                    run=self.profile,
                    model=model if a.requests else a.model,
                    split=split,
                )
                for a, unit in zip(replies, units, strict=True)
            ]
        return rows

    def report(
        self, outcomes: Outcomes, place: str, measures: Sequence[str], *, model: str
    ) -> None:
        """Report scores, released and the run's by `model`, for numbers `place.arm.measure`, or `place.arm` (first)."""
        for number in self.printed.numbers:
            arm, _, measure = (whole := number.id.removeprefix(f"{place}.")).rpartition(".")
            if whole in outcomes.arms:
                arm, measure = whole, measures[0]
            if not number.id.startswith(f"{place}.") or measure not in measures:
                continue
            released = outcomes.where(source="released", model=number.model or "", arm=arm)
            if len(released.frame):
                self.rescored(
                    number.id, released.score(measure), source=(number.rescore_from or ("",))[0]
                )
            if model:
                mine = outcomes.where(source="rerun", arm=arm)
                self.rerun_of(number.id, mine, measure, model=model if number.model else "")

    def live(self, measure: Callable[[], Sequence[Answer]]) -> pd.DataFrame | list[Answer]:
        """Rows of repetition 1 that only a live server can make: now, or with ANSWERS=stored-only the stored ones."""
        if settings().answers != "stored-only":
            return list(measure())
        stored = answers.read(answers.newest(self.notebook, self.profile))
        mine = stored["model"].isin(
            ["", profile_model(self.profile)]
        )  # and not the times of the reference's model
        return stored[mine & (stored["repeat"] == 1)]

    def rescored(
        self,
        id: str,
        score: Score | float,
        *,
        n: int | None = None,
        note: str = "",
        source: str = "",
    ) -> None:
        """Report a printed number as recomputed from the registry's file `source`; a plain count was made on `n`."""
        self._report(id, "rescored", score, n=n, note=note, source=source)

    def rerun(self, id: str, score: Score | float, *, model: str = "", note: str = "") -> None:
        """Report a printed number as made here; `model` is required if the printed number was made by one."""
        printed_model = self.printed.number(id).model
        if printed_model and not model:
            raise RecordError(
                f"{id} was printed for {printed_model}: name the model of this rerun, model=..."
            )
        self._report(id, "rerun", score, model=model, note=note)

    def rerun_of(
        self, id: str, rows: Outcomes, measure: str, *, model: str = "", note: str = ""
    ) -> None:
        """Report a measure of rerun rows; precision, if no answer is positive, is undefined and hence not run."""
        if measure == "precision" and len(rows.frame) and not rows.arms_with(measure):
            self.not_run(
                id, f"None of {len(rows.frame)} answers is positive, so precision is undefined."
            )
        else:
            self.rerun(id, rows.score(measure), model=model, note=note)

    def not_run(
        self, id: str, why: str, *, kind: Kind = "rerun", status: records.Status = "not run"
    ) -> None:
        """Say why a number has no value in this run, though it could have one."""
        self.printed.number(id)
        self._reasons[kind, id] = records.validate_part(
            records.Reason, id, id=id, kind=kind, status=status, why=why
        )
        self._values.pop((kind, id), None)

    def cannot_run(self, id: str, why: str, *, kind: Kind = "rerun") -> None:
        """Say why a number cannot have a value."""
        self.not_run(id, why, kind=kind, status="cannot be run")

    def claim(
        self,
        id: str,
        verdict: Verdict,
        why: str,
        *,
        test: str = "",
        kind: Basis = "rerun",
        **more: Any,  # noqa: ANN401
    ) -> None:  # p, reason and needed
        """Decide a claim on this run's data, by the stated test unless another one is named; see `records.Finding`."""
        test = test or self.printed.claim(id).decided_by
        told = {"verdict": verdict, "why": why, "test": test, **more}
        self._claims[id, kind] = records.validate_part(
            records.Finding, id, id=id, kind=kind, **told
        )

    @property
    def claims(self) -> list[records.Finding]:
        """The verdicts so far, those on released answers before those on reruns of the same claim."""
        place = {id: i for i, (id, _) in enumerate(self._claims)}
        return sorted(
            self._claims.values(), key=lambda found: (place[found.id], found.kind == "rerun")
        )

    def save(self, path: Path | None = None, *, outcomes: Outcomes | None = None) -> Path:
        """Write the record, whole or not at all, and beside it the run's own answers and requests; return its path."""
        name = run_name(self.profile)
        path = path or records.RECORDS / name / f"{self.notebook}.json"
        beside: list[Path] = []
        if outcomes is not None and not self._own:
            licence = "; ".join(sorted(self._licences)) or "CC0-1.0"
            folder = answers.BUILT / name / self.notebook
            answers.write(folder, outcomes.frame[outcomes.frame.source == "rerun"], licence=licence)
            released = outcomes.frame[outcomes.frame.source == "released"]
            answers.write(answers.authors(self.notebook, name), released, licence=licence)
            beside += sorted(folder.glob("*.parquet"))
        if self._requests and not self._own:
            beside.append(records.requests_file(path))
            records.write_whole(
                beside[-1], json.dumps({"withheld": self._withheld, "requests": self._requests})
            )
        if not self._own:
            beside += self._note_searches(name)
        record = records.Record(
            schema=records.SCHEMA,
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
            provenance=records.Provenance(
                **machine(),
                data=list(self._data.values()),
                models=list(self._models.values()),
                parameters=self._parameters,
                tokens=self._tokens,
                timings=self._timings,
                answers=settings().answers,
            ),
            arms={arm: outcomes.labels[arm] for arm in outcomes.arms if arm in outcomes.labels}
            if outcomes
            else {},
            files={
                p.relative_to(BUILD).as_posix(): digest(p)
                for p in beside
                if p.is_relative_to(BUILD)
            },
        )
        records.write(path, record)
        return path

    def _note_searches(self, run: str) -> list[Path]:
        """Note how many searches were stored, and write the results that were used.

        Returns:
            The file; none if nothing was searched.
        """
        file = neighbours.export_run(run, self.notebook)
        neighbours.check_replayed()
        counts = neighbours.COUNTS
        if file is None:
            return []
        self.timing(
            "searches by meaning",
            counts.searching,
            queries=counts.queries,
            stored=counts.stored,
            checked=counts.checked,
            same=counts.same,
        )
        return [file]

    def _report(
        self, id: str, kind: Kind, score: Score | float, *, n: int | None = None, **texts: str
    ) -> None:
        number = self.printed.number(id)
        if not isinstance(score, Score | Real):
            raise RecordError(
                f"{id}: a Score or a number is needed, found {score!r}. No value: say so with not_run()."
            )
        of = (
            asdict(score)
            if isinstance(score, Score)
            else {"value": float(score), "n": n, "low": None, "high": None}
        )
        value = records.validate_part(records.Value, id, id=id, kind=kind, **of, **texts)
        low, high = {"fraction": (0.0, 1.0), "percentage_points": (-100.0, 100.0)}.get(
            number.unit, (0.0, inf)
        )
        for found in (value.value, value.low, value.high):
            if found is not None and not low <= found <= high:
                raise RecordError(
                    f"{id} is in the unit {number.unit}, from {low:g} to {high:g}; found {found:g}."
                )
        self._values[kind, id] = value
        self._reasons.pop((kind, id), None)


def start(
    *,
    notebook: str,
    paper: str,
    profile: Profile | None = None,
    parameters: dict[str, Json] | None = None,
) -> Run:
    """Begin the record of one notebook, by default with its own `profile` and its `public_parameters`."""
    from evaluation import figures  # noqa: PLC0415  # a second of plotting libraries, for notebooks alone

    figures.use_style()
    caller = inspect.currentframe()
    names = caller.f_back.f_globals if caller and caller.f_back else {}
    if parameters is None:
        declared = public_parameters(NOTEBOOKS / f"{notebook}.ipynb")
        parameters = {name: names[name] for name in declared if name != "profile"}
    run = Run(notebook, paper, profile or names["profile"], parameters)
    run.opening("*The answer appears here when all cells have run.*")
    return run
