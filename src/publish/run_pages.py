"""What the book's pages say of the runs: what was read, asked and spent, and what pages quote of them."""

import json
import re
from collections.abc import Sequence
from html import unescape
from typing import Any, Final

from evaluation import audit, figures
from evaluation.markup import Markup, escape
from evaluation.outcomes import Outcomes
from evaluation.published import Basis, published
from evaluation.records import Record, Verdict
from publish import viewer
from publish.chapters import Chapter
from publish.launch import repository_url
from publish.pieces import answering, digits, duration, fine_print, link_to, table
from resources.parameters import read_notebook
from resources.registry import registry
from resources.settings import RESULTS, ROOT, Settings

QUICK: Final = 10_000  # tokens a second, in and out, by which the page on scale counts a server that was not measured
ORIGINS: Final = {"yours": "your run", "reference": "reference run", "none": "not run yet"}
Checked = tuple[
    dict[str, str], list[dict[str, Any]]
]  # verdicts of a chapter by check, and what was found


class RunPages:
    """What the pages say of the runs of these chapters; each function is called from a template."""

    def __init__(self, all_chapters: Sequence[Chapter]) -> None:
        """Nothing is read yet."""
        self.chapters = all_chapters
        self._records = [chapter.record for chapter in all_chapters if chapter.record]

    def runs(self) -> str:
        """Each notebook: what is shown, and how its last run on this machine ended."""
        rows = []
        for chapter in self.chapters:
            common = {"Notebook": link_to(chapter.name, chapter.title)}
            rows.append(common | {"Shown": ORIGINS[chapter.origin]} | _run_columns(chapter.record))
            if chapter.beside:
                mark = "SAMPLE run" if chapter.beside[1].sample else "smoke run"
                sample = {
                    "Notebook": link_to(f"{chapter.name}_sample", f"{chapter.title} ({mark})")
                }
                rows.append(sample | {"Shown": "beside it"} | _run_columns(chapter.beside[1]))
            if chapter.failed:
                errors = (
                    f"{output['ename']}: {output['evalue']}".splitlines()[0][:200]
                    for cell in read_notebook(chapter.failed)["cells"]
                    for output in cell.get("outputs", ())
                    if output["output_type"] == "error"
                )
                why = f"last run failed: {next(errors, 'it left no run record')}"
                rows.append(common | {"Shown": why} | _run_columns(None))
        return table(rows, "Notebooks, and the run of each that is shown")

    def software(self) -> str:
        """Python, machine, engines and packages of the runs that are shown."""
        facts: dict[str, dict[str, None]] = {}
        for machine in (record.provenance for record in self._records):
            processor = f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:g} GB"
            stated = {
                "Python": machine.python,
                "Platform": machine.platform,
                "Processor": processor,
            }
            for name, version in (stated | machine.packages).items():
                facts.setdefault(name, {})[version] = None
        rows = [{"Name": name, "Version": ", ".join(versions)} for name, versions in facts.items()]
        return table(rows, "What the runs shown were made with")

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
        return table([*rows.values()], "Models and engines of the runs shown")

    def sources(self) -> str:
        """Where the registry's data come from: one row for each place, with its licence and what to cite."""
        groups: dict[tuple[str, str, str], list[int]] = {}
        for entry in registry().values():
            if entry.kind == "data":
                place = entry.origin.rpartition("/") if entry.origin else (entry.name, "", "")
                key = (f"{place[0]} {place[2][:10]}".strip(), entry.licence, entry.citation)
                groups.setdefault(key, []).append(entry.bytes)
        rows = [
            {
                "Source": source,
                "Licence": licence,
                "Cite": cite,
                "Files": len(sizes),
                "Bytes": sum(sizes),
            }
            for (source, licence, cite), sizes in groups.items()
        ]
        return table(rows, "Sources of the data")

    def data(self) -> str:
        """The data files that the runs shown have read, or all of the registry if there is no run."""
        read = {used.name: used for record in self._records for used in record.provenance.data}
        rows = [
            {
                "File": escape(entry.name)
                + fine_print(entry.what)
                + Markup("<br>")
                + digits(entry.digest),
                "Bytes": entry.size or "?",
                "Source": read[entry.name].source if entry.name in read else "not read yet",
            }
            for entry in registry().values()
            if entry.kind == "data" and (entry.name in read or not read)
        ]
        return table(rows, "Data files, each with its SHA-256 or git's digest")

    def parameters(self) -> str:
        """The parameters of each run that is shown."""
        rows = [
            {"Notebook": record.notebook, "Parameter": name, "Value": str(value)}
            for record in self._records
            for name, value in record.provenance.parameters.items()
        ]
        return table(rows, "Parameters of the runs shown")

    def faults(self) -> str:
        """What became of the faults and the bad inputs of `make test-faults`, by class."""
        path = RESULTS / "faults.json"
        if not path.is_file():
            return "Not run yet."
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = [
            {
                "Class": kind.capitalize(),
                "Tried": n["tried"],
                "Survived": n["survived"],
                "Skipped": n["skipped"],
            }
            for kind, n in found["classes"].items()
        ]
        made = found["versions"]
        where = f"Python {made['python']}, {made['platform']}, commit {(made['commit'] or 'unknown')[:10]}"
        return table(
            rows,
            f"Faults and bad inputs, seed {found['seed']}; {where}, {found['minutes']:.0f} min",
        )

    def benchmarks(self) -> str:
        """What `make bench` measured last, and where."""
        path = RESULTS / "bench.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        rows = []
        for row in found:
            measured = row["found"] + fine_print(f"{row['machine']}, {row['day']}")
            rows.append({"What": row["what"], "Size": row["size"], "Measured": measured})
        return table(rows, "Speed and memory at ten times the sizes of this book")

    def settings_table(self) -> str:
        """Every setting with its default and its meaning, from the class that reads them."""
        rows, schema = [], Settings.model_json_schema()["properties"]
        for name, field in Settings.model_fields.items():
            variable = Markup("<code>{}</code>").format(name.upper())
            meaning = "; ".join(
                part
                for part in (field.description, " | ".join(schema[name].get("enum", ())))
                if part
            )
            default = "unset" if field.default is None else str(field.default)
            rows.append({"Variable": variable, "Default": default, "Meaning": meaning})
        return table(rows, "Environment variables, or lines of .env")

    def launch_links(self) -> str:
        """Where the buttons of this build lead, in a sentence."""
        if url := repository_url():
            return f"The rocket above a notebook opens it from [{url.removeprefix('https://')}]({url})."
        mend = "name one in `CITATION.cff` (`repository-code`) or by `REPOSITORY_URL`"
        return f"This build knows no public address of the project, so its pages have no launch buttons: {mend}."

    def costs(self) -> str:
        """Requests, tokens and time of each notebook shown that asks a language model, as if nothing were stored."""
        rows = []
        for record in self._records:
            tokens, seconds = record.provenance.tokens, record.asking_seconds
            if both := tokens["prompt"] + tokens["generated"]:
                row = {
                    "Notebook": link_to(
                        record.notebook, Markup("_<wbr>").join(record.notebook.split("_"))
                    ),
                    "Requests": f"{tokens['requests']:,}",
                    "Tokens in": f"{tokens['prompt']:,}",
                    "Tokens out": f"{tokens['generated']:,}",
                    "Tokens a second": f"{both / seconds:,.0f}" if seconds else "\N{EN DASH}",
                    "Took": duration(max(record.took, seconds)),
                    "Fast server": duration(both / QUICK),
                }
                rows.append(row)
        return table(
            rows,
            f"Requests to the language model; fast server: {QUICK:,} tokens a second, in and out",
        )

    def file(self, path: str) -> str:
        """A file of the project, to be shown in a block of code."""
        return (ROOT / path).read_text(encoding="utf-8").rstrip()

    def evidence(self, id: str, kind: Basis, verdict: Verdict) -> str:
        """A claim, which must be declared, with its evidence as a paragraph; empty if no run shown gave it."""
        claim = published(id.partition(".")[0]).claim(id)
        for record in self._records:
            for one in () if record.sample else record.claims:
                if (one.id, one.kind, one.verdict) == (claim.id, kind, verdict):
                    return f"*{figures.inline(claim.text)}* {figures.inline(f'{one.why} {claim.note}'.rstrip())}"
        return ""

    def exhibit(self, notebook: str, beginning: str) -> str:
        """The figure or table of a chapter whose caption begins so; empty if the run that is shown has none."""
        shown = (
            of for of in self.chapters if of.name == notebook and of.record and not of.record.sample
        )
        for cell in (
            cell for chapter in shown for cell in read_notebook(chapter.notebook)["cells"]
        ):
            for output in cell.get("outputs", ()):
                html = "".join(output.get("data", {}).get("text/html", ""))
                caption = re.search(r"<(figcaption|caption)>(.*?)</\1>", html, re.DOTALL)
                if caption and unescape(Markup(caption[2]).striptags()).startswith(beginning):
                    return re.sub(r"\s*\n\s*", " ", html)
        return ""


def checked(chapter: Chapter) -> Checked:
    """What the audit says of the rows of a chapter that has answers."""
    rows = viewer.rows(chapter)[0]
    told = audit.audit(
        Outcomes(rows, labels=chapter.record.arms if chapter.record else None, draws=audit.DRAWS),
        max_groups=2,
    )
    words = told.verdict.str.partition(":")[0]
    if rows.question.isna().all():
        words = words.mask(
            told.verdict.str.contains("needs (?:question|predicted)"), "texts withheld"
        )
    found = told[words.str.startswith("found")].drop(columns="verdict").to_dict("records")
    words, named = (
        words.replace({"not applicable": "", "not found": "no"}),
        link_to(chapter.name, chapter.name),
    )
    verdicts = {"chapter": named, **dict(zip(told.check, words, strict=True))}
    return verdicts, [
        {"chapter": named, **{str(name): of for name, of in row.items()}} for row in found
    ]


def _run_columns(record: Record | None) -> dict[str, str]:
    if record is None:
        return dict.fromkeys(("Profile", "Data", "Model", "Date", "Commit", "Took"), "")
    machine = record.provenance
    return {
        "Profile": record.profile,
        "Data": "SAMPLE" if record.sample else "synthetic" if record.synthetic else "real",
        "Model": ", ".join(answering(record)),
        "Date": f"{record.created:%Y-%m-%d}",
        "Commit": f"{machine.commit[:10]}{' with changes' * bool(machine.dirty)}"
        if machine.commit
        else "unknown",
        "Took": duration(record.took),
    }
