"""What the book's pages say of the runs: what was read, asked and spent, and what they quote."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from pathlib import Path
from typing import Any, Final, Literal

from evaluation import audit
from evaluation.markup import Markup, escape, fine_print
from evaluation.outcomes import Outcomes
from evaluation.published import Basis, published
from evaluation.records import Record
from evaluation.verdicts import evidence_lines
from evaluation.vocabulary import HereAnswer, Verdict
from publish import viewer
from publish.chapters import Chapter
from publish.durations import duration
from publish.launch import repository_url
from publish.pieces import answering, digits, engine_words, folded, kind_of_data, link_to, table
from publish.replayed import Replayed, replayed_sentences, replies_of, searches_of, total_of
from resources.parameters import read_notebook
from resources.registry import registry
from resources.settings import RESULTS, ROOT, Settings

GPU_RATE: Final = 2_500
"""Tokens a second, in and out, that one GPU is assumed to take, as in `medrerun plan`."""
PRICE_IN: Final = 0.15
"""Dollars for a million tokens in that a hosted model is assumed to cost."""
PRICE_OUT: Final = 0.60
"""Dollars for a million tokens out that a hosted model is assumed to cost."""
FOREIGN_SERVERS: Final = ROOT / "data" / "foreign_servers.json"
"""What `make test-interop` ran with servers of others."""
TIME: Final = "Time without stored replies"
"""The column that says how long a run takes if no reply is stored."""
ORIGINS: Final = {"yours": "your run", "reference": "reference run", "none": "not run yet"}


@dataclass(frozen=True)
class ChapterAudit:
    """What the audit says of a chapter, as rows of tables."""

    verdicts: dict[str, str]
    """The verdict of each check."""
    findings: list[dict[str, Any]]


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
                why = f"last run failed: {_first_error(chapter.failed)}"
                rows.append(common | {"Shown": why} | _run_columns(None))
        return table(rows, "The notebooks, each with the run that this book shows")

    def samples(self) -> str:
        """Return a list of the runs on the sample."""
        lines = []
        for chapter in self.chapters:
            if chapter.beside:
                title = f"{chapter.name[:2]} \N{MIDDLE DOT} {chapter.title}"
                lines.append(f"- [{title}](notebooks/{chapter.name}_sample.ipynb)")
        return "\n".join(lines) or "This build shows no run on the sample."

    def replayed(self) -> str:
        """Say which share of the runs was replayed, and how much of it was equal again."""
        return replayed_sentences(self._records)

    def replayed_table(self) -> str:
        """Return what each run replayed from what is stored, and what it made again."""
        rows = []
        for record in self._records:
            replies, searches = replies_of(record), searches_of(record)
            if replies.total or searches.total:
                link = link_to(record.notebook, record.notebook)
                answers = {"Notebook": link, "ANSWERS": record.provenance.answers}
                rows.append(answers | _replayed_columns(replies, searches))
        if rows:
            replies = total_of(map(replies_of, self._records))
            searches = total_of(map(searches_of, self._records))
            rows.append({"Notebook": Markup("<b>all</b>"), "ANSWERS": ""})
            rows[-1] |= _replayed_columns(replies, searches)
        caption = (
            "Replies and searches of each run, with the number that came from the store, and the "
            "number of repeated ones that matched"
        )
        return table(rows, caption)

    def software(self) -> str:
        """Python, machine, engines and packages of the runs that are shown."""
        facts: dict[str, dict[str, None]] = {}
        for record in self._records:
            machine = record.provenance
            processor = f"{machine.cpu}, {machine.cores} cores, {machine.memory_gb:g} GB"
            stated = {
                "Python": machine.python,
                "Platform": machine.platform,
                "Processor": processor,
            }
            for name, version in (stated | machine.packages).items():
                facts.setdefault(name, {})[version] = None
        rows = [{"Name": name, "Version": ", ".join(versions)} for name, versions in facts.items()]
        return table(rows, "Software that made the runs shown")

    def models(self) -> str:
        """The models that answered, with engine and digest."""
        licences = {entry.sha256: entry.licence for entry in registry().values() if entry.sha256}
        rows = {}
        for record in self._records:
            for model in record.provenance.models:
                rows[model.name, model.role, model.sha256] = {
                    "Model": model.name,
                    "Role": model.role,
                    "Engine": engine_words(model),
                    "Licence": licences.get(model.sha256 or "", ""),
                    "SHA-256": digits(model.sha256) if model.sha256 else "",
                }
        return table([*rows.values()], "Models and engines of the runs shown")

    def sources(self) -> str:
        """Say where the registry's data come from.

        There is a row for each place, with its licence and what to cite.
        """
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
        """Return the data files that the runs shown have read, all if there is no run."""
        sources: dict[str, str] = {}
        for record in self._records:
            sources |= {file.name: file.source for file in record.provenance.data}
        rows = []
        for entry in registry().values():
            if entry.kind != "data" or (sources and entry.name not in sources):
                continue
            name = escape(entry.name) + fine_print(entry.what)
            row = {
                "File": name + Markup("<br>") + digits(entry.digest),
                "Bytes": entry.size or "?",
                "Source": sources.get(entry.name, "not read yet"),
            }
            rows.append(row)
        return table(rows, "Data files, each with its SHA-256 or with git's digest")

    def parameters(self) -> str:
        """The parameters of each run that is shown."""
        rows = [
            {"Notebook": record.notebook, "Parameter": name, "Value": _parameter_text(value)}
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
        versions = found["versions"]
        commit = (versions["commit"] or "unknown")[:10]
        where = f"Python {versions['python']}, {versions['platform']}, commit {commit}"
        caption = (
            f"Faults and bad inputs with seed {found['seed']}. The run took "
            f"{found['minutes']:.0f} minutes ({where})"
        )
        return table(rows, caption)

    def benchmarks(self) -> str:
        """What `make bench` measured last, and where."""
        path = RESULTS / "bench.json"
        found = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else []
        rows = []
        for row in found:
            measured = row["found"] + fine_print(f"{row['machine']}, {row['day']}")
            rows.append({"What": row["what"], "Size": row["size"], "Measured": measured})
        return table(rows, "Speed and memory at several sizes")

    def settings_table(self) -> str:
        """Every setting with its default and its meaning, from the class that reads them."""
        rows = []
        schema = Settings.model_json_schema()["properties"]
        for name, field in Settings.model_fields.items():
            variable = Markup("<code>{}</code>").format(name.upper())
            choices = " | ".join(schema[name].get("enum", ()))
            meaning = "; ".join(part for part in (field.description, choices) if part)
            default = "unset" if field.default is None else str(field.default)
            rows.append({"Variable": variable, "Default": default, "Meaning": meaning})
        return table(rows, "Environment variables, or lines of .env")

    def launch_links(self) -> str:
        """Where the buttons of this build lead, in a sentence."""
        url = repository_url()
        if url:
            name = url.removeprefix("https://")
            return f"The rocket above a notebook opens it from [{name}]({url})."
        return (
            "This build names no address of the project on GitHub, so its pages have no launch "
            "buttons. Whoever builds the book can give the address in `CITATION.cff` "
            "(`repository-code`) or in `REPOSITORY_URL`."
        )

    def costs(self) -> str:
        """Return requests, tokens and time of each notebook shown that asks a language model.

        They are counted as if nothing were stored.
        """
        records = [record for record in self._records if _tokens_of(record)]
        rows = [_cost_row(record) for record in records]
        if records:
            rows.append(_total_cost_row(records))
        return table(
            rows,
            'Requests to language models. "One GPU" and "Hosted" are estimates, for one GPU that '
            f"processes {GPU_RATE:,} tokens a second and for a hosted model that costs "
            f"{PRICE_IN:.2f} dollars per million tokens of prompts and {PRICE_OUT:.2f} dollars per "
            "million tokens of replies",
        )

    def cost_words(self) -> str:
        """Say what the runs shown asked of language models, and how long they took."""
        records = [record for record in self._records if _tokens_of(record)]
        if not records:
            return ""
        tokens = [record.provenance.tokens for record in records]
        n_requests = sum(counts["requests"] for counts in tokens)
        millions_in = sum(counts["prompt"] for counts in tokens) / 1e6
        millions_out = sum(counts["generated"] for counts in tokens) / 1e6
        seconds_anew = sum(max(record.took, record.asking_seconds) for record in records)
        seconds_replayed = sum(record.seconds for record in records)
        return (
            f"The runs shown need {n_requests:,} requests to language models, with "
            f"{millions_in:.1f} million tokens of prompts and {millions_out:.1f} million tokens of "
            f"replies. Without stored replies, the runs would take about {duration(seconds_anew)}. "
            f"With the stored replies, they took {duration(seconds_replayed)}. One GPU that "
            f"processes {GPU_RATE:,} tokens a second would need about "
            f"{duration(sum(map(_tokens_of, records)) / GPU_RATE)}. A hosted model that costs "
            f"{PRICE_IN:.2f} dollars per million tokens of prompts and {PRICE_OUT:.2f} dollars per "
            "million tokens of replies would cost about "
            f"{_dollars(millions_in * 1e6, millions_out * 1e6):.2f} dollars."
        )

    def servers(self) -> str:
        """Return which chapters of the smoke profile ran with which servers of others."""
        if not FOREIGN_SERVERS.exists():
            return ""
        results = json.loads(FOREIGN_SERVERS.read_text(encoding="utf-8"))
        rows = []
        for name, server in results.items():
            for chapter, ran in sorted(server["chapters"].items()):
                rows.append(
                    {
                        "Server": name,
                        "Version": server["version"],
                        "Chapter": chapter[:2],
                        "Requests": f"{ran['requests']:,}",
                        "What differed": ran["notes"] or "nothing",
                    }
                )
        return table(
            rows,
            "Chapters of the smoke profile that ran with third-party servers. The last column says "
            "how requests, or the model that the server named, differed from what was intended",
        )

    def file(self, path: str) -> str:
        """A file of the project, to be shown in a block of code."""
        return (ROOT / path).read_text(encoding="utf-8").rstrip()

    def evidence(
        self, claim_id: str, kind: Basis | Literal["here"], answer: Verdict | HereAnswer
    ) -> str:
        """Return a claim with its evidence folded; empty if no run shown gave it.

        Args:
            claim_id: A declared claim.
            kind: What the evidence is from; ``here`` for the second question.
            answer: What the run must have said of the claim.
        """
        claim = published(claim_id.partition(".")[0]).claim(claim_id)
        for record in self._records:
            if record.sample:
                continue
            answers: dict[tuple[str, str, str], str] = {}
            for finding in record.claims:
                answers[finding.id, finding.kind, finding.verdict] = finding.why
            for here_finding in record.here_findings:
                answers[here_finding.id, "here", here_finding.answer] = here_finding.why
            if (claim.id, kind, answer) in answers:
                why = answers[claim.id, kind, answer]
                evidence = folded("Evidence", evidence_lines(f"{why} {claim.note}"))
                return f"<p><em>{escape(claim.text)}</em></p>{evidence}"
        return ""

    def exhibit(self, notebook: str, beginning: str) -> str:
        """Return the figure or table of a chapter whose caption begins so.

        It is empty if the run that is shown has none.
        """
        for output in self._outputs_of(notebook):
            html = "".join(output.get("data", {}).get("text/html", ""))
            if _caption(html).startswith(beginning):
                return re.sub(r"\s*\n\s*", " ", html)
        return ""

    def opening(self, notebook: str) -> str:
        """Return the answer at the beginning of a chapter; empty if no run of it is shown."""
        for output in self._outputs_of(notebook):
            text = "".join(output.get("data", {}).get("text/markdown", ""))
            if text:
                return text
        return ""

    def _outputs_of(self, notebook: str) -> Iterator[dict[str, Any]]:
        """Yield the outputs of the run on real data that is shown of a chapter."""
        for chapter in self.chapters:
            if chapter.name == notebook and chapter.record and not chapter.record.sample:
                yield from _outputs(chapter.notebook)


def audit_chapter(chapter: Chapter) -> ChapterAudit:
    """Return what the audit says of the rows of a chapter that has answers."""
    rows, _ = viewer.rows(chapter)
    labels = chapter.record.arms if chapter.record else None
    outcomes = Outcomes(rows, labels=labels, draws=audit.DRAWS)
    checks = audit.audit(outcomes, max_groups=2)
    words = checks.verdict.str.partition(":")[0]
    if rows.question.isna().all():
        needs_texts = checks.verdict.str.contains("needs (?:question|predicted)")
        words = words.mask(needs_texts, "texts withheld")
    is_found = words.str.startswith("found")
    found = checks[is_found].drop(columns="verdict").to_dict("records")
    words = words.replace({"not applicable": "", "not found": "no"})
    link = link_to(chapter.name, chapter.name)
    verdicts = {"chapter": link, **dict(zip(checks.check, words, strict=True))}
    findings = []
    for row in found:
        findings.append({"chapter": link} | {str(name): value for name, value in row.items()})
    return ChapterAudit(verdicts, findings)


def _parameter_text(value: object) -> str:
    """A parameter as text; of a mapping its names and values, `rare 10, small 40`."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {item}" for name, item in value.items())
    return str(value)


def _outputs(notebook: Path) -> Iterator[dict[str, Any]]:
    """Yield what the cells of a notebook show."""
    for cell in read_notebook(notebook)["cells"]:
        yield from cell.get("outputs", ())


def _first_error(notebook: Path) -> str:
    """Return the first line of the error that a notebook ended in."""
    for output in _outputs(notebook):
        if output["output_type"] == "error":
            return f"{output['ename']}: {output['evalue']}".splitlines()[0][:200]
    return "it left no run record"


def _caption(html: str) -> str:
    """Return the caption of a figure or table, "" if it has none."""
    match = re.search(r"<(figcaption|caption)>(.*?)</\1>", html, re.DOTALL)
    return unescape(Markup(match[2]).striptags()) if match else ""


def _tokens_of(record: Record) -> int:
    """Return the tokens of a run, in and out."""
    tokens = record.provenance.tokens
    return tokens["prompt"] + tokens["generated"]


def _cost_row(record: Record) -> dict[str, Any]:
    """Return what a run asked, and how long that took."""
    tokens = record.provenance.tokens
    n_tokens = _tokens_of(record)
    seconds = record.asking_seconds
    title = Markup("_<wbr>").join(record.notebook.split("_"))
    return {
        "Notebook": link_to(record.notebook, title),
        "Requests": f"{tokens['requests']:,}",
        "Tokens in": f"{tokens['prompt']:,}",
        "Tokens out": f"{tokens['generated']:,}",
        "Tokens a second": f"{n_tokens / seconds:,.0f}" if seconds else "\N{EN DASH}",
        "Took": duration(max(record.took, seconds)),
        "One GPU": duration(n_tokens / GPU_RATE),
        "Hosted": f"{_dollars(tokens['prompt'], tokens['generated']):.2f} dollars",
    }


def _dollars(n_in: float, n_out: float) -> float:
    """Return what these tokens cost at the assumed prices."""
    return (n_in * PRICE_IN + n_out * PRICE_OUT) / 1e6


def _total_cost_row(records: Sequence[Record]) -> dict[str, Any]:
    """Return the sum of what several runs asked."""
    sums = dict.fromkeys(("requests", "prompt", "generated"), 0)
    for record in records:
        for name in sums:
            sums[name] += record.provenance.tokens[name]
    n_tokens = sum(_tokens_of(record) for record in records)
    seconds = sum(record.asking_seconds for record in records)
    took = sum(max(record.took, record.asking_seconds) for record in records)
    return {
        "Notebook": Markup("<b>all</b>"),
        "Requests": f"{sums['requests']:,}",
        "Tokens in": f"{sums['prompt']:,}",
        "Tokens out": f"{sums['generated']:,}",
        "Tokens a second": f"{n_tokens / seconds:,.0f}" if seconds else "\N{EN DASH}",
        "Took": duration(took),
        "One GPU": duration(n_tokens / GPU_RATE),
        "Hosted": f"{_dollars(sums['prompt'], sums['generated']):.2f} dollars",
    }


def _replayed_columns(replies: Replayed, searches: Replayed) -> dict[str, str]:
    """Return the cells of counts of replies and of searches; empty where there are none."""
    columns = {}
    for name, counts in (("Replies", replies), ("Searches", searches)):
        is_any = counts.total > 0
        columns[name] = f"{counts.total:,}" if is_any else ""
        columns[f"{name} stored"] = f"{counts.stored:,}" if is_any else ""
        equal = f"{counts.same:,} of {counts.repeated:,}" if counts.repeated else ""
        columns[f"Repeated {name.lower()} that matched"] = equal
    return columns


def _run_columns(record: Record | None) -> dict[str, str]:
    """Return which run a record is of; empty cells without one."""
    if record is None:
        return dict.fromkeys(("Profile", "Data", "Model", "Date", "Commit", TIME), "")
    machine = record.provenance
    commit = "unknown"
    if machine.commit:
        commit = f"{machine.commit[:10]}{' with uncommitted changes' * bool(machine.dirty)}"
    return {
        "Profile": record.profile,
        "Data": "SAMPLE" if record.sample else kind_of_data(record),
        "Model": ", ".join(answering(record)),
        "Date": f"{record.created:%Y-%m-%d}",
        "Commit": commit,
        TIME: duration(record.took),
    }
