"""What the book's pages say of the runs: what was read, asked and spent."""

from __future__ import annotations

import json
import math
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

import pandas as pd

from helpers.registry import registry
from helpers.results import figures
from helpers.results.markup import Markup, escape
from helpers.results.records import Record
from helpers.settings import RESULTS, ROOT, Settings
from helpers.site import costs
from helpers.site.chapters import REAL_PROFILES, Chapter, read_notebook
from helpers.site.launch import repository_url
from helpers.site.pieces import answering, digits, duration, fine_print, flat, link_to

QUICK: Final = 10_000
"""Tokens a second, read and written, by which the page on scale counts the time of a server that was not measured."""


class RunPages:
    """What the pages say of the runs: what was read, asked and spent."""

    def __init__(self, all_chapters: Sequence[Chapter]) -> None:
        """Make them for these chapters."""
        self.chapters = all_chapters

    def runs(self) -> str:
        """Each notebook: what is shown, and how its last run on this machine ended."""
        words = {"yours": "your run", "reference": "reference run", "none": "not run yet"}
        rows = []
        for chapter in self.chapters:
            common = {"Notebook": link_to(chapter.name, chapter.title)}
            rows.append(common | {"Shown": words[chapter.origin]} | _run_columns(chapter.record))
            if chapter.beside:
                mark = "SAMPLE run" if chapter.beside[1].sample else "smoke run"
                sample = {"Notebook": link_to(f"{chapter.name}_sample", f"{chapter.title} ({mark})")}
                rows.append(sample | {"Shown": "beside it"} | _run_columns(chapter.beside[1]))
            if chapter.failed:
                rows.append(common | {"Shown": f"last run failed: {_failure(chapter.failed)}"} | _run_columns(None))
        return self._table(rows, "Notebooks, and the run of each that is shown")

    def software(self) -> str:
        """Python, machine, engines and packages of the runs that are shown."""
        facts: dict[str, dict[str, None]] = {}
        for record in self._records:
            machine = record.provenance
            stated = {
                "Python": machine.python,
                "Platform": machine.platform,
                "Processor": f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:g} GB",
                **machine.packages,
            }
            for name, version in stated.items():
                facts.setdefault(name, {})[version] = None
        return self._table(
            [{"Name": name, "Version": ", ".join(versions)} for name, versions in facts.items()],
            "What the runs shown were made with",
        )

    def models(self) -> str:
        """The models that answered, with engine and digest."""
        licences = {entry.sha256: entry.licence for entry in registry().values()}
        rows = {
            (model.name, model.role, model.sha256): {
                "Model": model.name,
                "Role": model.role,
                "Engine": f"{model.engine} {model.version}",
                "Licence": licences.get(model.sha256 or "", ""),
                "SHA-256": digits(model.sha256) if model.sha256 else "",
            }
            for record in self._records
            for model in record.provenance.models
        }
        return self._table(list(rows.values()), "Models and engines of the runs shown")

    def sources(self) -> str:
        """Where the registry's data come from: one row for each place, with its licence and what to cite."""
        groups: dict[tuple[str, str, str], list[int]] = {}
        for entry in registry().values():
            if entry.kind == "data":
                place = entry.origin.rpartition("/") if entry.origin else (entry.name, "", "")
                key = (f"{place[0]} {place[2][:10]}".strip(), entry.licence, entry.citation)
                groups.setdefault(key, []).append(entry.bytes)
        rows = [
            {"Source": source, "Licence": licence, "Cite": cite, "Files": len(sizes), "Bytes": sum(sizes)}
            for (source, licence, cite), sizes in groups.items()
        ]
        return self._table(rows, "Sources of the data")

    def data(self) -> str:
        """The data files that the runs shown have read, or all of the registry if there is no run."""
        read = {used.name: used for record in self._records for used in record.provenance.data}
        rows = [
            {
                "File": escape(entry.name) + fine_print(entry.what) + Markup("<br>") + digits(entry.sha256),
                "Bytes": entry.bytes,
                "Had from": read[entry.name].source if entry.name in read else "not read yet",
            }
            for entry in registry().values()
            if entry.kind == "data" and (entry.name in read or not read)
        ]
        return self._table(rows, "Data files, each with its SHA-256")

    def parameters(self) -> str:
        """The parameters of each run that is shown."""
        rows = [
            {"Notebook": record.notebook, "Parameter": name, "Value": str(value)}
            for record in self._records
            for name, value in record.provenance.parameters.items()
        ]
        return self._table(rows, "Parameters of the runs shown")

    def timings(self) -> str:
        """What the steps of each run took."""
        rows = []
        for record in self._records:
            for step in record.provenance.timings:
                counts = ", ".join(f"{name} {figures.number(count, 'count')}" for name, count in step.counts.items())
                rows.append(
                    {
                        "Notebook": record.notebook,
                        "Step": step.name,
                        "Counts": counts,
                        "Seconds": f"{step.seconds:,.1f}",
                    }
                )
            rows.append(
                {"Notebook": record.notebook, "Step": "whole notebook", "Seconds": f"{record.took:,.1f}"}
                | {
                    "Counts": ", ".join(
                        f"{k} {figures.number(v, 'count')}" for k, v in record.provenance.tokens.items()
                    )
                }
            )
        return self._table(rows, "Steps of the runs shown, in seconds")

    def faults(self) -> str:
        """What became of the faults and the bad inputs of `make test-faults`, by class."""
        path = RESULTS / "faults.json"
        if not path.is_file():
            return "Not run yet."
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            {"Class": kind.capitalize(), "Tried": n["tried"], "Survived": n["survived"], "Skipped": n["skipped"]}
            for kind, n in found["classes"].items()
        ]
        made = found["versions"]
        where = f"Python {made['python']}, {made['platform']}, commit {(made['commit'] or 'unknown')[:10]}"
        return self._table(rows, f"Faults and bad inputs, seed {found['seed']}; {where}, {found['minutes']:.0f} min")

    def settings_table(self) -> str:
        """Every setting with its default and its meaning, from the class that reads them."""
        rows = []
        for name, field in Settings.model_fields.items():
            choices = _choices(field.annotation)
            meaning = "; ".join(part for part in (field.description, " | ".join(choices)) if part)
            default = "unset" if field.default is None else str(field.default)
            rows.append(
                {"Variable": Markup("<code>{}</code>").format(name.upper()), "Default": default, "Meaning": meaning}
            )
        return self._table(rows, "Environment variables, or lines of .env")

    # -- the pages on scale and on one's own

    def launch_links(self) -> str:
        """Where the buttons of this build lead, in a sentence."""
        if url := repository_url():
            return f"The rocket above a notebook opens it from [{url.removeprefix('https://')}]({url})."
        return (
            "This build knows no public address of the project, so its pages have no launch buttons: name one in "
            "`CITATION.cff` (`repository-code`) or by `REPOSITORY_URL`."
        )

    def costs(self) -> str:
        """Requests, tokens and time of each notebook in each profile, from the records."""
        rows: list[dict[str, Any]] = []
        for profile in costs.profiles():
            each = costs.costs(profile)
            singly = each if profile in REAL_PROFILES else []
            for cost in [*singly, costs.total(each, profile)] if each else []:
                scaled = cost.basis != cost.profile
                seconds = cost.seconds if not scaled else None
                quick = cost.tokens.times(1 / QUICK, 1 / QUICK)
                name = Markup("_<wbr>").join(cost.notebook.split("_"))
                basis = fine_print(f"scaled from {cost.basis}" if scaled else "recorded")
                rows.append(
                    {
                        "Profile": profile,
                        "Notebook": (name if cost.notebook == costs.ALL else link_to(cost.notebook, name)) + basis,
                        "Requests": _span(cost.requests),
                        "Tokens in": _span(cost.prompt),
                        "Tokens out": _span(cost.generated),
                        "Took": duration(seconds) if seconds is not None else "\N{EN DASH}",
                        "Fast server": _lasting(quick),
                    }
                )
        caption = (
            "What each profile asks of the language model, with no answer kept from before. Took: at the rate of the "
            f"recorded run; fast server: at {QUICK:,} tokens a second, in and out"
        )
        return self._table(rows, caption)

    def rates(self) -> str:
        """The tokens a second that the recorded runs reached, a sentence for each model and machine."""
        reached: dict[str, list[float]] = {}
        for record in self._records:
            if (cost := costs.recorded(record)) and cost.rate:
                server = f"{figures.inline(', '.join(answering(record)))}, on {record.provenance.cores} cores"
                reached.setdefault(server, []).append(cost.rate)
        said = [
            f"{server}: {_span(costs.Range(round(min(each)), round(max(each))))} tokens a second, read and written, in "
            f"{len(each)} notebook{'s' if len(each) > 1 else ''}."
            for server, each in reached.items()
        ]
        return " ".join(said) or "No run has been timed yet."

    def memory(self) -> str:
        """The models that each profile names, and the memory that serving them takes."""
        rows = [
            {"Profile": profile, "Model": model, "Memory": costs.memory(model)}
            for profile in costs.profiles()
            for model in costs.models(profile)
        ]
        return self._table(rows, "Memory for the language models of each profile")

    def file(self, path: str) -> str:
        """A file of the project as it is, to be put into a block of code."""
        return (ROOT / path).read_text(encoding="utf-8").rstrip()

    @property
    def _records(self) -> list[Record]:
        return [chapter.record for chapter in self.chapters if chapter.record]

    @staticmethod
    def _table(rows: list[dict[str, Any]], caption: str) -> str:
        if not rows:
            return "Not run yet."
        return flat(figures.table(pd.DataFrame(rows).astype(object), caption, classes="rag-cards"))


def _span(of: costs.Range) -> str:
    """A count; one that is between bounds with two digits that mean something, rounded away from the middle."""
    if of.low == of.high:
        return f"{of.low:,.0f}"
    unit = [10.0 ** (math.floor(math.log10(end)) - 1) if end >= 10 else 1.0 for end in (of.low, of.high)]
    return f"{math.floor(of.low / unit[0]) * unit[0]:,.0f} to {math.ceil(of.high / unit[1]) * unit[1]:,.0f}"


def _lasting(of: costs.Range) -> str:
    return duration(of.low) if of.low == of.high else f"{duration(of.low)} to {duration(of.high)}"


def _run_columns(record: Record | None) -> dict[str, str]:
    names = ("Profile", "Data", "Model", "Date", "Commit", "Took")
    if record is None:
        return dict.fromkeys(names, "")
    machine = record.provenance
    values = (
        record.profile,
        "SAMPLE" if record.sample else "synthetic" if record.synthetic else "real",
        ", ".join(answering(record)),
        f"{record.created:%Y-%m-%d}",
        f"{machine.commit[:10]}{' with changes' if machine.dirty else ''}" if machine.commit else "unknown",
        duration(record.took),
    )
    return dict(zip(names, values, strict=True))


def _failure(notebook: Path) -> str:
    for cell in read_notebook(notebook)["cells"]:
        for output in cell.get("outputs", ()):
            if output["output_type"] == "error":
                return f"{output['ename']}: {output['evalue']}".splitlines()[0][:200]
    return "it left no run record"


def _choices(annotation: object) -> list[str]:
    if get_origin(annotation) is Literal:
        return [str(choice) for choice in get_args(annotation)]
    if get_origin(annotation) in (Union, types.UnionType):
        return [choice for part in get_args(annotation) for choice in _choices(part)]
    return []
