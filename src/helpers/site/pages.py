"""What the book's pages may say of a result: each function is called from a template in `book/*.md`.

A function gives Markdown or HTML, drawn from the published numbers and from the records of the runs that are shown.
"""

from __future__ import annotations

import json
import math
import re
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

import pandas as pd

from helpers.registry import registry
from helpers.results import figures
from helpers.results.markup import Markup, escape
from helpers.results.published import Basis, Kind, Number, published
from helpers.results.published import papers as declared_papers
from helpers.results.records import Record
from helpers.results.verdicts import TESTED, UNTESTED
from helpers.settings import RESULTS, ROOT, Settings
from helpers.site import costs, pictures, viewer
from helpers.site.chapters import REAL_PROFILES, Chapter, PageError, read_notebook, shown_profile
from helpers.site.launch import repository_url
from helpers.site.scoreboard import BY, ledger, models, scoreboard

PAPERS: Final = {
    "side_effects": "nygren2025side",
    "drug_interactions": "mohamed_drugrag",
    "biomedrag": "li2024biomedrag",
    "clinical_notes": "clinicalnotes",
    "qa_rag": "kim2024qarag",
}
"""The papers in the order of the book, with their keys in `book/references.bib`."""
_NONE: Final = "\N{EN DASH}"
_TOGETHER: Final = re.compile(r"(?<=\b[np]) (?=[=<] \d)|(?<=\b[np] [=<]) (?=\d)|(?<=\d) (?=%)")
"""Spaces at which no line may end."""
_NO_LLM = frozenset({"graph", "encoder", "spaCy"})
"""Engines, as records name them, that serve no language model."""
SUBJECTS: Final = {
    "side_effects": "drug side effects",
    "drug_interactions": "drug interactions",
    "biomedrag": "extraction and classification",
    "clinical_notes": "notes on neurological patients",
    "qa_rag": "regulatory guidance",
    "across_papers": "across the papers",
}

QUICK: Final = 10_000
"""Tokens a second, read and written, by which the page on scale counts the time of a server that was not measured."""

SOURCES: Final[dict[Basis, str]] = {"printed": "printed numbers", "rescored": "released answers", "rerun": "rerun"}


# -- small pieces -----------------------------------------------------------------------------------------------------


def verdict(text: str) -> Markup:
    """A verdict with its mark; colour is never its only sign."""
    return Markup('<span class="rag-verdict" data-verdict="{0}">{0}</span>').format(text)


def run_line(record: Record) -> str:
    """One line that says which run this is: date, profile, commit, models, duration."""
    machine = record.provenance
    commit = f"commit {machine.commit[:10]}" if machine.commit else "outside version control"
    models = ", ".join(_answering(record))
    return "; ".join(
        part
        for part in (
            f"{record.created:%d %B %Y}".lstrip("0"),
            f"profile {record.profile}",
            commit + (" with changes" if machine.dirty else ""),
            models,
            duration(record.took) + _kept(machine.tokens),
        )
        if part
    )


def _kept(tokens: Mapping[str, int]) -> str:
    """How many replies were stored, and how many of those that were asked again were the same."""
    if not tokens["cached"]:
        return ""
    checked = tokens.get("checked", 0)
    again = f", {tokens['same']:,} of {checked:,} asked again gave the same reply" if checked else ""
    return f", {tokens['cached']:,} of {tokens['requests']:,} replies stored{again}"


def findings(record: Record) -> Markup:
    """The paper's claims that a run tests: a line each, with the evidence folded; empty if it tests none."""
    lines = []
    for claim in published(record.paper).claims:
        found = [one for one in record.claims if one.id == claim.id]
        if not found:
            continue
        marks = Markup(" ").join(
            Markup('<span class="rag-source">{} {}</span>').format(
                SOURCES[one.kind], verdict("SAMPLE" if record.sample and one.verdict in TESTED else one.verdict)
            )
            for one in found
        )
        told = Markup("").join(Markup("<p>{}: {}</p>").format(SOURCES[one.kind].capitalize(), one.why) for one in found)
        rule = Markup("<p>Rule: {}</p>").format(found[0].test)
        lines.append(
            Markup("<li><details><summary>{} {}</summary>{}{}</details></li>").format(claim.text, marks, told, rule)
        )
    if not lines:
        return Markup()
    lead = Markup('<p class="rag-lead">The paper\N{RIGHT SINGLE QUOTATION MARK}s claims</p>')
    return lead + Markup('<ul class="rag-findings">{}</ul>').format(Markup("\n").join(lines))


def _answering(record: Record) -> list[str]:
    """The language models whose answers the numbers are made of, with their engines."""
    served = {model.name: f"{model.name} on {model.engine} {model.version}" for model in record.provenance.models}
    names = dict.fromkeys(value.model for value in record.values if value.kind == "rerun" and value.model)
    if not names:  # a run that answers questions which the paper does not ask
        names = dict.fromkeys(model.name for model in record.provenance.models if model.engine not in _NO_LLM)
    return [served.get(name, name) for name in names]


def duration(seconds: float) -> str:
    """Seconds as a person says them: `48 s`, `12 min`, `1 h 05 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02} min"


def _spaced(text: str) -> str:
    """`62.90%` as `62.90 %`, and a true minus sign."""
    return text.replace("%", " %").replace("-", "\N{MINUS SIGN}")


def _bare(text: str) -> str:
    return re.sub(r"[^\d.,+\N{MINUS SIGN}-]", "", text)


def _figure(value: float, text: str) -> Markup:
    """A number as it is read, with the value that it is sorted by."""
    return Markup('<data class="rag-number" value="{!r}">{}</data>').format(float(value), text)


def _absent(status: str, why: str = "") -> Markup:
    words = "not run yet" if status == "not run" else status
    title = Markup(' title="{}"').format(why) if why else ""
    return Markup('<span class="rag-absent"{}>{}</span>').format(title, words)


@dataclass(frozen=True)
class _Measured:
    """A value of the scoreboard, written as the paper writes the number."""

    number: Number
    row: dict[str, Any]
    group: str

    @property
    def there(self) -> bool:
        # a value from the sample never stands where a real one belongs
        return not pd.isna(self.row[self.group]) and self["verdict"] != "SAMPLE"

    def html(self, *, bounds: bool = True) -> Markup:
        if not self.there:
            return _absent(self.verdict, self["why"])
        value = self.row[self.group]
        text = _figure(value, self._show(value))
        return text + Markup(" ") + self.bounds() if bounds and self.bounds() else text

    def bounds(self) -> Markup:
        """The interval, if there is one."""
        if pd.isna(self["low"]):
            return Markup()
        low, high = (_bare(self._show(self[end])) for end in ("low", "high"))
        return Markup('<span class="rag-interval">[{}, {}]</span>').format(low, high)

    def basis(self) -> Markup:
        """The interval and n, as the small print below the value."""
        parts = [self.bounds()] if self.there else []
        if self.there and not pd.isna(self["n"]):
            parts.append(Markup('<span class="rag-number">n = {}</span>').format(figures.number(self["n"], "count")))
        return Markup(", ").join(part for part in parts if part)

    def text(self) -> str:
        """The value alone, or the word for why there is none."""
        return self._show(self.row[self.group]) if self.there else self.verdict

    @property
    def verdict(self) -> str:
        return "not run" if self["verdict"] == "SAMPLE" else self["verdict"]

    def _show(self, value: float) -> str:
        return _spaced(self.number.show(value))

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401  # as pandas gives it
        return self.row[f"{self.group}_{key}"]


# -- what the templates call ------------------------------------------------------------------------------------------


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    """The rows by paper, in the order of `PAPERS`, others last; within a paper as they were."""
    place = {paper: i for i, paper in enumerate(PAPERS)}
    return table.sort_values(
        "paper", key=lambda names: names.map(lambda name: place.get(name, len(place))), kind="stable"
    ).reset_index(drop=True)


class Pages:
    """The functions of the templates, bound to the runs that this build shows."""

    def __init__(self, all_chapters: Sequence[Chapter]) -> None:
        """Make them for these chapters."""
        self.chapters = all_chapters

    def functions(self) -> dict[str, Callable[..., str]]:
        """The functions by the names that a template uses."""
        names = (
            "asked value printed picture headline tally outcomes reasons papers experiments downloads runs software "
            "models sources data parameters timings faults settings_table launch_links costs rates memory file"
        )
        return {name: getattr(self, name) for name in names.split()} | {"verdict": verdict}

    @cached_property
    def _answered(self) -> dict[str, set[str]]:
        return {chapter.name: viewer.arms(chapter) for chapter in self.chapters}

    @cached_property
    def board(self) -> pd.DataFrame:
        """The scoreboard of the profile that is shown, the papers in the order of the book."""
        return _in_order(scoreboard(profile=shown_profile()))

    @cached_property
    def claims(self) -> pd.DataFrame:
        """The ledger of the profile that is shown, the papers in the order of the book."""
        return _in_order(ledger(profile=shown_profile()))

    @cached_property
    def _rows(self) -> dict[str, dict[str, Any]]:
        return {str(row["id"]): {str(key): item for key, item in row.items()} for row in self.board.to_dict("records")}

    def _measured(self, id: str, kind: Kind) -> _Measured:
        number, row = _number(id), self._rows[id]
        return _Measured(number, row, row["shown"] if kind == "rerun" else kind)

    def asked(self, id: str) -> str:
        """How many questions a printed number was measured on."""
        return figures.number(_number(id).n, "count")

    def printed(self, id: str) -> str:
        """A number as it is printed."""
        number = _number(id)
        return _figure(number.value, _spaced(number.printed))

    def value(self, id: str, kind: Kind = "rerun") -> str:
        """A rescored or rerun number with its interval, or why there is none."""
        return self._measured(id, kind).html()

    def _select(self, prefix: str, column: str) -> list[str]:
        ids = [id for id in self._rows if id.startswith(f"{prefix}.") and id.endswith(f".{column}")]
        if not ids:
            raise PageError(f"No printed number begins with {prefix} and ends with {column}; see data/published.")
        return ids

    def headline(self, prefix: str, column: str) -> str:
        """A small table of one column of a paper's table: printed, rescored, rerun."""
        rows = []
        for id in self._select(prefix, column):
            rescored, rerun = self._measured(id, "rescored"), self._measured(id, "rerun")
            rows.append(
                {
                    "Arm": _label(id, rerun.number),
                    "Printed": self.printed(id),
                    "Rescored": rescored.html(bounds=False),
                    "Rerun": rerun.html(bounds=False) + _why(rerun.basis()),
                }
            )
        number = rerun.number
        caption = f"{number.column}: {number.table}" + (f", {number.model}" if number.model else "")
        return _flat(figures.table(pd.DataFrame(rows), f"{caption}, beside the run that is shown here"))

    def drawn(self, prefix: str, column: str, *, narrow: bool = False) -> figures.Picture:
        """One column of a paper's table as a picture: printed, rescored and rerun of each arm."""
        rows, said, models = [], [], []
        for id in self._select(prefix, column):
            rescored, rerun = self._measured(id, "rescored"), self._measured(id, "rerun")
            number, arm = rerun.number, id.split(".")[2]
            colour = figures.arm_colour(arm) if arm in figures.ARMS else "#808080"
            row: dict[str, Any] = {"label": _label(id, number), "colour": colour, "printed": number.value}
            for kind, cell in (("rescored", rescored), ("rerun", rerun)):
                ends = {f"{kind}_{end}": cell[end] if cell.there else None for end in ("low", "high")}
                row |= {kind: cell.row[cell.group] if cell.there else None} | ends
            rows.append(row)
            said.append(
                f"{row['label']}: printed {_spaced(number.printed)}, rescored {rescored.text()}, rerun {rerun.text()}"
            )
            models += [rerun["model"]] if rerun.there and rerun["model"] else []
        frame = pd.DataFrame(rows)
        caption = f"{number.column} of each arm, as printed for {number.model} ({number.table})"
        caption += ", rescored from the authors' released answers" if frame["rescored"].notna().any() else ""
        caption += f", rerun with {', '.join(dict.fromkeys(models))}" if models else "; not rerun yet"
        caption += ". Bars are 95 % intervals." if frame[["rescored", "rerun"]].notna().any(axis=None) else "."
        figures.use_style()
        drawn = pictures.scoreboard_picture(frame, narrow=narrow)
        return figures.figure(drawn, alt="; ".join(said) + ".", caption=caption)

    def picture(self, prefix: str, column: str) -> str:
        """The same for a page: one picture for wide screens, one for narrow ones."""
        return _for_screens(partial(self.drawn, prefix, column))

    @staticmethod
    def reasons() -> str:
        """Why claims are not tested: each reason code with its meaning."""
        return "; ".join(f"*{code}*: {text[0].lower()}{text[1:-1]}" for code, text in UNTESTED.items())

    def tally(self) -> str:
        """What became of the printed numbers, in two sentences."""
        real = self.board["rescored"].notna() & self.board["rescored_verdict"].ne("SAMPLE")
        agree = int((real & self.board["rescored_verdict"].eq("agrees")).sum())
        rerun = [self._measured(id, "rerun") for id in self._rows]
        done = [cell["verdict"] for cell in rerun if cell.there and cell["verdict"] != "not compared"]
        if not (real.any() or done):
            return f"{len(self.board)} numbers are printed. None of them has been tested here yet."
        return (
            f"The papers print {len(self.board)} numbers. {int(real.sum())} can be rescored from released files, and "
            f"{agree} of these match to the last digit. {len(done)} are rerun here: {done.count('agrees')} lie within "
            f"the stated tolerance, {done.count('differs')} outside it, {done.count('undecided')} are too uncertain to "
            f"tell, and for {done.count('stand-in')} another model answered, so they are not compared."
        )

    def outcomes(self) -> str:
        """What became of the claims of every paper, as a picture with its numbers in words."""
        words = ("agrees", "differs", "undecided", "not tested")
        named = dict(zip(words, ("holds", "does not hold", "undecided", "not tested"), strict=True))
        counts = {
            SUBJECTS.get(paper, paper): [verdicts.count(word) for word in words]
            for paper, verdicts in self._verdicts().items()
        }
        told = "; ".join(
            f"{subject}: " + ", ".join(f"{n} {named[word]}" for word, n in zip(words, of, strict=True) if n)
            for subject, of in counts.items()
        )
        caption = (
            f"The {len(self.claims)} claims of the papers. Released answers decide where the authors published any."
        )
        figures.use_style()

        def drawn(*, narrow: bool) -> figures.Picture:
            picture = pictures.shares_picture(counts, [named[word] for word in words], narrow=narrow)
            return figures.figure(picture, alt=f"{told}.", caption=caption)

        return _for_screens(drawn)

    def _verdicts(self) -> dict[str, list[str]]:
        """The verdicts of each paper's claims; every reason why there is none is `not tested`."""
        found: dict[str, list[str]] = {}
        for row in self.claims.to_dict("records"):
            tested = row["verdict"] in TESTED
            found.setdefault(row["paper"], []).append(row["verdict"] if tested else "not tested")
        return found

    def papers(self) -> str:
        """Each paper: its subject, how many of its claims hold, and links to its numbers and chapters."""
        told = []
        verdicts = self._verdicts()
        for paper in dict.fromkeys((*PAPERS, *declared_papers())):
            own = [chapter for chapter in self.chapters if chapter.paper == paper]
            links = " · ".join(f"[{chapter.title}](notebooks/{chapter.name}.ipynb)" for chapter in own)
            subject = SUBJECTS[paper].capitalize() if paper in SUBJECTS else published(paper).title
            cited = f" {{cite:p}}`{PAPERS[paper]}`" if paper in PAPERS else ""
            board = f"[Numbers and claims]({self.page_of(paper)}.md)"
            told.append(
                f"**{subject}**{cited}. {_balance(verdicts.get(paper, []))} {board}.\n\n{links or 'No chapter yet.'}"
            )
        return "\n\n".join(told)

    @staticmethod
    def page_of(paper: str) -> str:
        """The page with a paper's numbers and claims."""
        return f"scoreboard-{paper}"

    def boards(self) -> dict[str, str]:
        """The pages with the numbers and claims of each paper: name and Markdown."""
        pages = {}
        for paper in dict.fromkeys((*PAPERS, *declared_papers())):
            subject = SUBJECTS[paper].capitalize() if paper in SUBJECTS else published(paper).title
            pages[f"{self.page_of(paper)}.md"] = (
                "---\nhtml_theme.sidebar_secondary.remove: true\n---\n"
                f"# {subject}: numbers and claims\n\n"
                f"{_balance(self._verdicts().get(paper, []))} [How to read the verdicts](how-to-read.md).\n\n"
                f"## Claims\n\n{self.ledger(paper)}\n\n## Numbers\n\n{self.scoreboard(paper)}\n"
            )
        return pages

    # -- the scoreboard page

    def experiments(self) -> str:
        """One row an experiment: what became of its numbers and claims, and which run that is from."""
        words = {"yours": "your run", "reference": "reference run", "none": "not run yet"}
        rows = []
        for chapter in self.chapters:
            experiment = _link(chapter.name, chapter.title)
            if chapter.paper and chapter.paper in SUBJECTS:
                experiment += _why(SUBJECTS[chapter.paper])
            told = run_line(chapter.record) if chapter.record else ""
            rows.append(
                {
                    "Experiment": experiment,
                    "Rescored": self._share(chapter.name, "rescored"),
                    "Rerun": self._share(chapter.name, "rerun"),
                    "Claims": self._held(chapter.name),
                    "Run": escape(words[chapter.origin]) + _why(told),
                }
            )
        caption = "numbers rescored to the last printed digit, numbers rerun within tolerance, claims that hold"
        return self._table(rows, f"{len(rows)} experiments: {caption}")

    def _share(self, notebook: str, kind: Kind) -> Markup:
        """How many of a notebook's values of this kind agree with the printed ones; speed is not compared."""
        cells = [self._measured(id, kind) for id in self._rows]
        mine = [c for c in cells if c.there and c["notebook"] == notebook and c["verdict"] in TESTED]
        if not mine and any(c.there and c["notebook"] == notebook and c["verdict"] == "stand-in" for c in cells):
            return _absent("stand-in")
        agree = sum(cell["verdict"] == "agrees" for cell in mine)
        return _figure(agree / len(mine), f"{agree} of {len(mine)}") if mine else escape(_NONE)

    def _held(self, notebook: str) -> Markup:
        """How many of the claims that a notebook's shown run tests hold in it, and how many it leaves open."""
        tested = [
            row["verdict"]
            for row in self.claims.to_dict("records")
            if row["verdict"] in TESTED and notebook == row[f"{row['basis']}_notebook"]
        ]
        if not tested:
            return escape(_NONE)
        held, left = tested.count("agrees"), tested.count("undecided")
        return _figure(held / len(tested), f"{held} of {len(tested)}") + _why(f"{left} undecided" if left else "")

    def scoreboard(self, paper: str) -> str:
        """Every number that a paper prints, beside what became of it; the page's script adds sorting and filters.

        In the order of its tables, those first of which something became.
        """
        measured = {
            id: (self._measured(id, "rescored"), self._measured(id, "rerun"))
            for id, row in self._rows.items()
            if row["paper"] == paper
        }
        others = models(self.board[self.board["paper"] == paper])
        rows = []
        for id in sorted(measured, key=lambda id: not any(cell.there for cell in measured[id])):
            row, (rescored, rerun) = self._rows[id], measured[id]
            notebook = rerun["notebook"] or rescored["notebook"]
            there = any(chapter.name == notebook for chapter in self.chapters)
            name = _link(notebook, row["row"]) if there else escape(row["row"])
            rows.append(
                {
                    "Table": row["table"],
                    "Quantity": Markup('<span id="{}">{}</span>').format(id, name) + _why(row["column"]),
                    "Printed": self.printed(id),
                    "Rescored": self._cell(rescored),
                    "Rerun": self._cell(rerun),
                    **{model: self._cell(_Measured(_number(id), row, f"{BY}{model}")) for model in others},
                }
            )
        caption = f"Every printed number, {len(rows)} in all"
        return _flat(figures.table(pd.DataFrame(rows), caption, classes="rag-sortable rag-cards rag-board"))

    def _cell(self, cell: _Measured) -> Markup:
        if not cell.there:
            # that nothing has been run needs no second sentence
            why = cell["why"] if cell["notebook"] or cell.verdict != "not run" else ""
            return _absent(cell.verdict) + _why(why)
        small: list[str] = [] if cell.verdict == "not compared" else [verdict(cell.verdict)]
        small += [f"n = {figures.number(cell['n'], 'count')}"] if not pd.isna(cell["n"]) else []
        small += [f"{cell['unparsed']} unparsed"] if not pd.isna(cell["unparsed"]) and cell["unparsed"] else []
        small += [text for text in (cell["model"], "reference run" * (cell.group == "reference")) if text]
        if (arms := self._answered.get(cell["notebook"])) and cell.group != "rescored":
            arm = next((part for part in cell.number.id.split(".") if part in arms), "")
            small.append(Markup('<a href="{}">answers</a>').format(viewer.link(cell["notebook"], arm)))
        return cell.html() + _why(Markup("; ").join(small))

    def ledger(self, paper: str) -> str:
        """The claims of a paper: the rule, and what the released answers and the rerun say, each with its reason."""
        others = models(self.claims[self.claims["paper"] == paper])
        rows = [
            {
                "Claim": escape(row["claim"]) + _why(row["where"]) + _folded("Rule", row[f"{row['shown']}_test"]),
                "Published evidence": self._said(row, "printed" if row["printed_notebook"] else "rescored"),
                "Rerun": self._said(row, row["shown"]),
                **{model: self._said(row, f"{BY}{model}") for model in others},
            }
            for row in self.claims.to_dict("records")
            if row["paper"] == paper
        ]
        return _flat(
            figures.table(pd.DataFrame(rows), f"{len(rows)} claims", classes="rag-sortable rag-cards rag-claims")
        )

    @staticmethod
    def _said(row: Mapping[Any, Any], group: str) -> Markup:
        if not row[f"{group}_notebook"]:
            return _absent("not run") if group == row["shown"] else escape(_NONE)
        reason = f" ({row[f'{group}_reason']})" if row[f"{group}_reason"] else ""
        why = row[f"{group}_why"]
        told = escape("printed numbers: " if group == "printed" else "")
        return told + verdict(row[f"{group}_verdict"]) + reason + _folded("Evidence", why)

    def downloads(self) -> str:
        """Links to the scoreboard as data, which `files` writes."""
        return ", ".join(f'<a href="{name}" download>{name}</a>' for name in self.files())

    def files(self) -> dict[str, str]:
        """The scoreboard as data: file name and content."""
        return {
            "scoreboard.csv": self.board.to_csv(index=False),
            "scoreboard.json": self.board.to_json(orient="records", indent=1) or "",
            "claims.json": self.claims.to_json(orient="records", indent=1) or "",
        }

    # -- the provenance page

    def runs(self) -> str:
        """Each notebook: what is shown, and how its last run on this machine ended."""
        words = {"yours": "your run", "reference": "reference run", "none": "not run yet"}
        rows = []
        for chapter in self.chapters:
            common = {"Notebook": _link(chapter.name, chapter.title)}
            rows.append(common | {"Shown": words[chapter.origin]} | _run_columns(chapter.record))
            if chapter.beside:
                mark = "SAMPLE run" if chapter.beside[1].sample else "smoke run"
                sample = {"Notebook": _link(f"{chapter.name}_sample", f"{chapter.title} ({mark})")}
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
                "SHA-256": _hash(model.sha256) if model.sha256 else "",
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
                "File": escape(entry.name) + _why(entry.what) + Markup("<br>") + _hash(entry.sha256),
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
                basis = _why(f"scaled from {cost.basis}" if scaled else "recorded")
                rows.append(
                    {
                        "Profile": profile,
                        "Notebook": (name if cost.notebook == costs.ALL else _link(cost.notebook, name)) + basis,
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
                server = f"{figures.inline(', '.join(_answering(record)))}, on {record.provenance.cores} cores"
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
        return _flat(figures.table(pd.DataFrame(rows).astype(object), caption, classes="rag-cards"))


def _number(id: str) -> Number:
    return published(id.partition(".")[0]).number(id)


def _label(id: str, number: Number) -> str:
    return figures.ARMS[arm][0] if (arm := id.split(".")[2]) in figures.ARMS else number.row


def _why(text: str) -> Markup:
    """Small print. No line ends between a number and its letter or its per cent."""
    joined = type(text)(_TOGETHER.sub("\N{NO-BREAK SPACE}", text))
    return Markup('<span class="rag-why">{}</span>').format(joined) if text else Markup()


def _for_screens(drawn: Callable[..., figures.Picture]) -> str:
    """One picture for wide screens, one for narrow ones."""
    wide, narrow = _flat(drawn(narrow=False)), _flat(drawn(narrow=True))
    return f'<div class="rag-wide">{wide}</div><div class="rag-narrow">{narrow}</div>'


def _folded(word: str, text: str) -> Markup:
    return Markup('<details class="rag-why"><summary>{}</summary>{}</details>').format(word, text)


def _balance(verdicts: Sequence[str]) -> str:
    """How many claims hold, do not, are left open and were not tested, in a sentence."""
    hold, fail, left = (verdicts.count(word) for word in TESTED)
    rest = len(verdicts) - hold - fail - left
    if not verdicts:
        return "It states no claim that is tested here."
    return f"Of {len(verdicts)} claims {hold} hold, {fail} do not, {left} are undecided, and {rest} were not tested."


def _hash(sha256: str) -> Markup:
    return Markup('<span class="rag-hash">{}</span>').format(sha256)


def _link(page: str, title: str) -> Markup:
    return Markup('<a href="notebooks/{}.html">{}</a>').format(page, title)


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
        ", ".join(_answering(record)),
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


def _flat(shown: figures.Html) -> str:
    """HTML on one line, so that Markdown takes it as one block."""
    return re.sub(r"\s*\n\s*", " ", shown.html)
