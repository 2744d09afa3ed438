"""What a run leaves behind: values, reasons, claims and provenance, in one JSON file."""

from __future__ import annotations

import inspect
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from math import inf
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from evaluation import answers, records
from evaluation.answers import NOT_RUN, Answer, NotRunError, Unit, make_row, not_run_row
from evaluation.metrics import Score
from evaluation.provenance import Json, machine, public_parameters
from evaluation.published import Basis, Kind, Number, RecordError, published
from evaluation.vocabulary import HereAnswer, Verdict
from helpers import neighbours
from helpers.completions import CapabilityError
from resources.download import digest
from resources.settings import BUILD, NOTEBOOKS, Profile, profile_model, run_name, settings

if TYPE_CHECKING:
    import pandas as pd

    from evaluation.outcomes import Outcomes
    from helpers.graph import Graph
    from helpers.llm import LLM, Usage
    from helpers.vectors import Encoder
    from resources.datasets import Located


Arm = Callable[[Sequence[Any]], Sequence[Answer]]
"""Takes units and returns an answer to each."""
_VALUE_RANGES: Mapping[str, tuple[float, float]] = {
    "fraction": (0.0, 1.0),
    "percentage_points": (-100.0, 100.0),
}
"""Smallest and largest value by unit; other units are not negative."""
FREE_LICENCE = "CC0-1.0"
"""Licence of answers to data that nobody owns."""


class Run:
    """What one notebook reports while it runs; `start` makes one.

    Reporting an id again replaces what was there. An id that the paper's YAML does not declare,
    and a value that does not fit, is a RecordError.
    """

    def __init__(
        self, notebook: str, paper: str, profile: Profile, parameters: dict[str, Json]
    ) -> None:
        """Begin a run; notebooks call `start`.

        Args:
            notebook: Name of the notebook, without a folder.
            paper: Name of the paper.
            profile: Name of the profile.
            parameters: Parameters that enter the record, by name.

        Raises:
            RecordError: If a name is wrong, or JSON cannot hold a parameter.
        """
        if not re.match(records.NAME, notebook):
            raise RecordError(
                "A notebook is named by letters, digits, - and _, without a folder; "
                f"found {notebook!r}."
            )
        if profile not in get_args(Profile):
            raise RecordError(
                f"There is no profile {profile!r}; use one of {', '.join(get_args(Profile))}."
            )
        _check_parameters(parameters)
        self.notebook = notebook
        self.paper = paper
        self.profile = profile
        self.printed = published(paper)
        self.sample = False
        self.synthetic = False
        self._parameters = parameters
        self._created = datetime.now(UTC)
        self._began = time.monotonic()
        self._values: dict[tuple[str, str], records.Value] = {}
        self._reasons: dict[tuple[str, str], records.Reason] = {}
        self._claims: dict[tuple[str, str], records.Finding] = {}
        self._here: dict[str, records.HereFinding] = {}
        self._data: dict[str, records.DataUsed] = {}
        self._models: dict[tuple[str, str], records.ModelUsed] = {}
        self._timings: list[records.Timing] = []
        self._counted: list[object] = []
        self._tokens = dict.fromkeys(
            ("prompt", "generated", "requests", "cached", "checked", "same"), 0
        )
        self._requests: dict[str, str] = {}
        self._licences: set[str] = set()
        self._withheld_tasks: set[str] = set()
        self._own = False
        self._opened = False

    def opening(self, text: str | Callable[..., str], *arguments: object) -> None:
        """Show the chapter's answer, in Markdown, below the notebook's first cell.

        Args:
            text: The answer, or what writes it; if that needs an arm that was not run, the
                reason is shown. Paragraphs after the first one stand below the chapter's figure.
            *arguments: Of what writes it.
        """
        from IPython.display import Markdown, display  # noqa: PLC0415  # for notebooks alone

        if not isinstance(text, str):
            try:
                text = text(*arguments)
            except NotRunError as error:
                text = f"**Not run:** {error}"
        display(Markdown(text), display_id="answer", update=self._opened)
        self._opened = True

    def data(self, *files: Located, task: str = "") -> None:
        """Note data files. One sample file makes the whole run a SAMPLE.

        Args:
            *files: Files as `datasets.locate` finds them.
            task: The task whose rows alone hold texts of these files; by default all rows may.
        """
        from resources.registry import registry  # noqa: PLC0415  # pydantic over the whole registry

        for file in files:
            self._data[file.name] = records.DataUsed.model_validate(file, from_attributes=True)
            if file.sample:
                self.sample = True
                continue
            entry = registry().get(file.name)
            if entry is None:
                self._own = True
                continue
            self._licences.add(entry.licence)
            if not entry.redistributable:
                self._withheld_tasks.add(task or answers.ALL_TASKS)

    def generated_data(self, name: str, sha256: str, source: str) -> None:
        """Note data that the run generated from a seed: nobody's, free to pass on."""
        self._data[name] = records.DataUsed(name=name, sha256=sha256, source=source, sample=False)
        self.synthetic = True

    def model(
        self, name: str, sha256: str | None, engine: str, version: str | None, role: str
    ) -> None:
        """Note a model, its engine and its role.

        Args:
            name: Name of the model.
            sha256: Digest of its weights; None if the server does not name it.
            engine: The engine that served it.
            version: Version of the engine; None if the server does not name it.
            role: What the model did, for example ``answers the questions``.
        """
        self._models[name, role] = records.ModelUsed(
            name=name, sha256=sha256, engine=engine, version=version, role=role
        )

    def model_used(self, used: LLM | Encoder | Graph, role: str) -> None:
        """Note what answered, encoded or held the graph; of an LLM also its requests, once.

        Call it when the work is done: stored requests may be asked again now.
        """
        client: Any = used
        if not hasattr(client, "endpoint"):
            self.model(client.name, client.digest, "encoder", client.engine, role)
        elif hasattr(client.endpoint, "model_sha256"):
            self._llm_used(client, role)
        else:
            self.model(client.endpoint.engine, "", "graph", client.endpoint.version, role)

    def _llm_used(self, llm: LLM, role: str) -> None:
        endpoint = llm.endpoint
        if llm not in self._counted:
            self._counted.append(llm)
            llm.recheck_stored()
            self.count_requests(llm.usage, f"requests to {endpoint.model}")
        engine, version = llm.engine_and_version
        self.model(endpoint.model, endpoint.model_sha256, engine, version, role)

    def timing(self, name: str, seconds: float, **counts: float) -> None:
        """Note how long a step took, and how many of what it did."""
        self._timings.append(
            records.validate_part(records.Timing, name, name=name, seconds=seconds, counts=counts)
        )

    def count_requests(self, usage: Usage, name: str = "language model") -> None:
        """Note tokens, requests and seconds of a language model, stored replies included."""
        counts = {
            "prompt": usage.prompt_tokens,
            "generated": usage.generated_tokens,
            "requests": usage.requests,
            "cached": usage.cached,
            "checked": sum(usage.checked.values()),
            "same": usage.same,
        }
        for name_of_count, count in counts.items():
            self._tokens[name_of_count] += count
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
        """Ask each arm about each unit.

        Args:
            arms: What answers, by name.
            units: Questions that all arms are asked.
            model: Name of the model that answers for arms that send requests.
            split: The split that the units belong to.

        Returns:
            Rows of the table of answers. Those of an arm that the server is not able to
            serve have no measures, and the reason as the stratum `answers.NOT_RUN`.

        Raises:
            RecordError: If an arm does not return one answer per unit.
        """
        rows: list[Answer] = []
        for arm, ask in arms.items():
            try:
                replies = ask(units)
            except CapabilityError as error:
                task = rows[0].task if rows else str(getattr(ask, "task", ""))
                columns = {"arm": arm, "run": self.profile, "model": model, "split": split}
                rows += [not_run_row(unit, str(error), task=task, **columns) for unit in units]
                continue
            if len(replies) != len(units):
                raise RecordError(
                    f"{arm} gave {len(replies)} answers to {len(units)} units; "
                    "one for each is needed."
                )
            for reply, unit in zip(_alike(replies), units, strict=True):
                row_model = model if reply.requests else reply.model
                rows.append(
                    make_row(reply, unit, arm=arm, run=self.profile, model=row_model, split=split)
                )
        return rows

    def report(
        self, outcomes: Outcomes, place: str, measures: Sequence[str], *, model: str
    ) -> None:
        """Report the scores of a table: those of released answers and of the run.

        Args:
            outcomes: The answers of all sources.
            place: Beginning of the ids of the table's numbers, ``place.arm.measure``, or
                ``place.arm`` for the first measure.
            measures: The measures to report.
            model: Name of the model of this run; if empty, its scores are not reported.
        """
        for number in self.printed.numbers:
            if not number.id.startswith(f"{place}."):
                continue
            arm, measure = _arm_and_measure(number.id, place, outcomes, measures)
            if measure not in measures:
                continue
            released = outcomes.where(source="released", model=number.model or "", arm=arm)
            if len(released.frame):
                source = number.rescore_from[0] if number.rescore_from else ""
                self.rescored(number.id, released.score(measure), source=source)
            if model:
                own_rows = outcomes.where(source="rerun", arm=arm)
                number_model = model if number.model else ""
                self.rerun_of(number.id, own_rows, measure, model=number_model)

    def live(self, measure: Callable[[], Sequence[Answer]]) -> pd.DataFrame | list[Answer]:
        """Rows of repetition 1, which only a live server can make.

        With ANSWERS=stored they are the stored ones if the model has any, with
        ANSWERS=stored-only in any case; the record says so.
        """
        setting = settings().answers
        if setting not in ("stored", "stored-only"):
            return list(measure())
        own_model = profile_model(self.profile)
        rows = answers.read(answers.timed(self.notebook, self.profile))
        # The times of the reference's model are not those of this one.
        stored = rows[rows["model"].isin(["", own_model]) & (rows["repeat"] == 1)]
        if setting == "stored" and own_model not in set(stored["model"]):
            return list(measure())
        self.timing(records.STORED_TIMES, 0, questions=len(stored))
        return stored

    def rescored(
        self,
        number_id: str,
        score: Score | float,
        *,
        n: int | None = None,
        note: str = "",
        source: str = "",
    ) -> None:
        """Report a printed number as recomputed from released files.

        Args:
            number_id: Id of the printed number.
            score: The score, or a plain count.
            n: What a plain count was made on.
            note: A remark for readers.
            source: Name of the file in the registry.
        """
        self._report(number_id, "rescored", score, n=n, note=note, source=source)

    def rerun(
        self, number_id: str, score: Score | float, *, model: str = "", note: str = ""
    ) -> None:
        """Report a printed number as rerun here.

        Args:
            number_id: Id of the printed number.
            score: The score, or a plain count.
            model: Name of the model; required if the printed number was made by one.
            note: A remark for readers.

        Raises:
            RecordError: If the model is missing.
        """
        printed_model = self.printed.number(number_id).model
        if printed_model and not model:
            raise RecordError(
                f"{number_id} was printed for {printed_model}: "
                "name the model of this rerun, model=..."
            )
        self._report(number_id, "rerun", score, model=model, note=note)

    def rerun_of(
        self, number_id: str, rows: Outcomes, measure: str, *, model: str = "", note: str = ""
    ) -> None:
        """Report a measure of rerun rows.

        Args:
            number_id: Id of the printed number.
            rows: The rows of this run.
            measure: The measure. Precision is undefined, hence not run, if no answer is positive.
            model: As in `rerun`.
            note: As in `rerun`.
        """
        if measure == "precision" and len(rows.frame) and not rows.arms_with(measure):
            why = f"None of {len(rows.frame)} answers is positive, so precision is undefined."
            self.not_run(number_id, why)
            return
        try:
            score = rows.score(measure)
        except NotRunError as error:
            self.not_run(number_id, str(error))
            return
        self.rerun(number_id, score, model=model, note=note)

    def not_run(
        self,
        number_id: str,
        why: str,
        *,
        kind: Kind = "rerun",
        status: records.Status = "not run",
    ) -> None:
        """Say why a number has no value in this run.

        Args:
            number_id: Id of the printed number.
            why: The reason, in words.
            kind: Which of its values is missing.
            status: Whether the number could have a value.
        """
        self.printed.number(number_id)
        self._reasons[kind, number_id] = records.validate_part(
            records.Reason, number_id, id=number_id, kind=kind, status=status, why=why
        )
        self._values.pop((kind, number_id), None)

    def cannot_run(self, number_id: str, why: str, *, kind: Kind = "rerun") -> None:
        """Say why a number cannot have a value."""
        self.not_run(number_id, why, kind=kind, status="cannot be run")

    def claim(
        self,
        claim_id: str,
        verdict: Verdict,
        why: str,
        *,
        test: str = "",
        kind: Basis = "rerun",
        **more: Any,  # noqa: ANN401
    ) -> None:
        """Say whether a claim holds for the paper's system.

        Args:
            claim_id: Id of the claim.
            verdict: Whether it holds, or why it was not tested.
            why: The numbers that led to it, in words.
            test: The test, in place of the declared one.
            kind: What it was decided by.
            **more: Further fields of `records.Finding`: p, reason, needed, estimates and models.
        """
        test = test or self.printed.claim(claim_id).decided_by
        self._claims[claim_id, kind] = records.validate_part(
            records.Finding,
            claim_id,
            id=claim_id,
            kind=kind,
            verdict=verdict,
            why=why,
            test=test,
            **more,
        )

    def claim_here(
        self,
        claim_id: str,
        answer: HereAnswer,
        why: str,
        *,
        test: str = "",
        **more: Any,  # noqa: ANN401
    ) -> None:
        """Say whether a claim holds here, by the models that ran.

        Args:
            claim_id: Id of the claim.
            answer: Whether it holds here, or that nothing was run.
            why: The numbers that led to it, in words.
            test: The test, in place of the declared one.
            **more: Further fields of `records.HereFinding`: p, reason, needed, estimates and
                models.
        """
        test = test or self.printed.claim(claim_id).decided_by
        self._here[claim_id] = records.validate_part(
            records.HereFinding,
            claim_id,
            id=claim_id,
            answer=answer,
            why=why,
            test=test,
            **more,
        )

    @property
    def here_findings(self) -> list[records.HereFinding]:
        """The answers to the second question so far, in the order of the claims."""
        return list(self._here.values())

    @property
    def claims(self) -> list[records.Finding]:
        """The verdicts so far, those of reruns after other ones of the same claim."""
        position = {claim_id: i for i, (claim_id, _) in enumerate(self._claims)}

        def order(finding: records.Finding) -> tuple[int, bool]:
            return position[finding.id], finding.kind == "rerun"

        return sorted(self._claims.values(), key=order)

    def save(self, path: Path | None = None, *, outcomes: Outcomes | None = None) -> Path:
        """Write the record, whole or not at all, and the run's answers and requests.

        Args:
            path: File of the record; by default in `records.RECORDS`.
            outcomes: The answers. Those about data of one's own are not written.

        Returns:
            The file of the record.
        """
        name = run_name(self.profile)
        path = path or records.RECORDS / name / f"{self.notebook}.json"
        saved: list[Path] = []
        if not self._own:
            if outcomes is not None:
                saved += self._save_answers(name, outcomes)
            if self._requests:
                saved.append(self._save_requests(path))
            saved += self._note_searches(name)
        records.write(path, self._record(outcomes, saved))
        return path

    def _save_answers(self, name: str, outcomes: Outcomes) -> list[Path]:
        """Write the answers of the run, and apart from them the released ones.

        Returns:
            The files of the run's answers.
        """
        licence = "; ".join(sorted(self._licences)) or FREE_LICENCE
        folder = answers.BUILT / name / self.notebook
        was_run = outcomes.frame.strata.map(lambda strata: NOT_RUN not in strata).astype(bool)
        frame = outcomes.frame[was_run]
        answers.write(folder, frame[frame.source == "rerun"], licence=licence)
        released = frame[frame.source == "released"]
        answers.write(answers.authors(self.notebook, name), released, licence=licence)
        return sorted(folder.glob("*.parquet"))

    def _save_requests(self, record: Path) -> Path:
        """Write the keys of the run's requests."""
        path = records.requests_file(record)
        content = {"withheld": sorted(self._withheld_tasks), "requests": self._requests}
        records.write_whole(path, json.dumps(content))
        return path

    def _record(self, outcomes: Outcomes | None, saved: Sequence[Path]) -> records.Record:
        labels = {}
        if outcomes:
            labels = {arm: outcomes.labels[arm] for arm in outcomes.arms if arm in outcomes.labels}
        provenance = records.Provenance(
            **machine(),
            data=list(self._data.values()),
            models=list(self._models.values()),
            parameters=self._parameters,
            tokens=self._tokens,
            timings=self._timings,
            answers=settings().answers,
        )
        return records.Record(
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
            here_findings=self.here_findings,
            provenance=provenance,
            arms=labels,
            files=_digests(saved),
        )

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
        self,
        number_id: str,
        kind: Kind,
        score: Score | float,
        *,
        n: int | None = None,
        **texts: str,
    ) -> None:
        number = self.printed.number(number_id)
        if isinstance(score, Score):
            numbers: dict[str, Any] = asdict(score)
        elif isinstance(score, Real):
            numbers = {"value": float(score), "n": n, "low": None, "high": None}
        else:
            raise RecordError(
                f"{number_id}: a Score or a number is needed, found {score!r}. "
                "No value: say so with not_run()."
            )
        value = records.validate_part(
            records.Value, number_id, id=number_id, kind=kind, **numbers, **texts
        )
        _check_range(number, value)
        self._values[kind, number_id] = value
        self._reasons.pop((kind, number_id), None)


def _alike(replies: Sequence[Answer]) -> list[Answer]:
    """Drop the probability of YES where it is known of some answers of an arm alone.

    An AUC of those answers, such as the ones without a thought, would not be that of the arm.
    """
    if all("p_yes" in reply.measures for reply in replies):
        return list(replies)
    alike = []
    for reply in replies:
        measures = {name: ratio for name, ratio in reply.measures.items() if name != "p_yes"}
        alike.append(replace(reply, measures=measures))
    return alike


def _check_parameters(parameters: Mapping[str, Json]) -> None:
    """Refuse a parameter that JSON cannot hold."""
    for name, value in parameters.items():
        try:
            json.dumps(value, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise RecordError(
                f"The parameter {name} cannot be kept in a record: {error}. "
                "Use text, finite numbers, lists."
            ) from error


def _arm_and_measure(
    number_id: str, place: str, outcomes: Outcomes, measures: Sequence[str]
) -> tuple[str, str]:
    """The arm and the measure that an id of a table names; by default the first measure."""
    rest = number_id.removeprefix(f"{place}.")
    if rest in outcomes.arms:
        return rest, measures[0]
    arm, _, measure = rest.rpartition(".")
    return arm, measure


def _check_range(number: Number, value: records.Value) -> None:
    """Refuse a value or a bound that the unit of a number does not have."""
    low, high = _VALUE_RANGES.get(number.unit, (0.0, inf))
    for bound in (value.value, value.low, value.high):
        if bound is not None and not low <= bound <= high:
            raise RecordError(
                f"{number.id} is in the unit {number.unit}, from {low:g} to {high:g}; "
                f"found {bound:g}."
            )


def _digests(files: Sequence[Path]) -> dict[str, str]:
    """The SHA-256 of the files under _build, by path."""
    digests = {}
    for file in files:
        if file.is_relative_to(BUILD):
            digests[file.relative_to(BUILD).as_posix()] = digest(file)
    return digests


def start(
    *,
    notebook: str,
    paper: str,
    profile: Profile | None = None,
    parameters: dict[str, Json] | None = None,
) -> Run:
    """Begin the record of one notebook, and give its figures the book's look.

    Args:
        notebook: Name of the notebook.
        paper: Name of the paper that it reports on.
        profile: Name of the profile; by default the notebook's variable ``profile``.
        parameters: Parameters for the record; by default those that the notebook declares
            without a comment that begins with ``private``.
    """
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
