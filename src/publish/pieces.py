"""Small pieces of a page: a table, a number with its interval, fine print, what folds."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from evaluation import figures, verdicts
from evaluation.markup import Markup, escape, sortable
from evaluation.published import Number, published
from evaluation.records import ModelUsed, Record
from publish.durations import duration
from publish.replayed import replayed_sentences
from resources.registry import registry

ACROSS: Final = "across_papers"  # what this book asks of its own; the claims are no paper's
_NO_LLM = frozenset({"graph", "encoder", "spaCy"})
"""Engines, as records name them, that serve no language model."""
_ASKED_AGAIN = re.compile(r"(?:; )?asked again: ([^;]+)")
"""What a record says of the engine that answered a sample of its stored questions again."""


def run_line(record: Record) -> str:
    """Say which run this is, in sentences without the last full stop.

    They have date, profile, commit, models and duration, how much was replayed from what is
    stored, and how much of that was equal when made again.
    """
    machine = record.provenance
    commit = f"commit {machine.commit[:10]}" if machine.commit else "code outside version control"
    commit += " with uncommitted changes" if machine.dirty else ""
    date = f"{record.created:%d %B %Y}".lstrip("0")
    used = figures.listed([f"the profile {record.profile}", commit, *answering(record)])
    which_run = f"The run of {date} used {used}. The run took {_time_taken(record)}"
    replayed = replayed_sentences([record]).removesuffix(".")
    return f"{which_run}. {replayed}" if replayed else which_run


def _time_taken(record: Record) -> str:
    """Say how long a run took, and how long its replies took when they were made."""
    took = duration(record.seconds)
    if record.provenance.tokens["cached"]:
        took += f" ({duration(record.took)} without stored replies)"
    return took


def reads_other_runs(record: Record) -> bool:
    """Whether a run reads no data but the answers of other runs, whose data are of both kinds."""
    return record.paper == ACROSS and not record.provenance.data


def kind_of_data(record: Record) -> str:
    """Say whether a run used real data, data that this project generated, or both."""
    if reads_other_runs(record):
        return "real and synthetic"
    if not record.synthetic:
        return "real"
    is_any_real = any(file.name in registry() for file in record.provenance.data)
    return "real and synthetic" if is_any_real else "synthetic"


def findings(record: Record) -> Markup:
    """Return the claims of the paper, or of this book, that a run tests, with a lead.

    It is empty if the run tests none.
    """
    claims = published(record.paper).claims
    is_own = record.paper == ACROSS
    of_papers_system = () if is_own else record.claims
    listed = verdicts.findings(claims, of_papers_system, record.here_findings, sample=record.sample)
    whose = "This book" if is_own else "The paper"
    models = dict.fromkeys(name for found in record.here_findings for name in found.models)
    by_models = ""
    if models:
        quoted = "\N{LEFT DOUBLE QUOTATION MARK}Here\N{RIGHT DOUBLE QUOTATION MARK}"
        by_models = f". {quoted} refers to this run with {figures.listed(list(models))}."
    lead = Markup(
        '<p class="rag-lead" id="claims">{}\N{RIGHT SINGLE QUOTATION MARK}s claims{}</p>'
    ).format(whose, by_models)
    return lead + Markup(_below_claims(listed.html, models)) if listed.html else Markup()


def _below_claims(listed: str, models: Iterable[str]) -> str:
    """Return a list of claims whose answers stand below them.

    Each names its models only where they are not all of the list's, which the lead names.
    """
    every_model = escape(figures.listed(list(models)))
    listed = listed.replace(f'"rag-source">Here, by {every_model}: ', '"rag-source">Here: ')
    return re.sub(
        r'(<span class="rag-source">.*?)</summary>',
        r'<span class="rag-answers">\1</span></summary>',
        listed,
        flags=re.DOTALL,
    )


def answering(record: Record) -> list[str]:
    """Return the language models whose answers the numbers are made of, with their engines."""
    used = record.provenance.models
    engines = {model.name: f"{model.name} on {engine_words(model)}" for model in used}
    values = [value for value in record.values if value.kind == "rerun"]
    names = [value.model for value in values if value.model]
    if not names:  # a run that answers questions which the paper does not ask
        names = [model.name for model in used if model.engine not in _NO_LLM]
    return [engines.get(name, name) for name in dict.fromkeys(names)]


def engine_words(model: ModelUsed) -> str:
    """Return the engine of a model with its version, which may begin with the engine's name."""
    version = _ASKED_AGAIN.sub(r" (stored questions re-asked on \1)", model.version or "").strip()
    if version.startswith(model.engine):
        return version
    return f"{model.engine} {version}".rstrip()


def spaced(text: str) -> str:
    """`62.90%` as `62.90 %`, and a true minus sign."""
    return text.replace("%", " %").replace("-", "\N{MINUS SIGN}")


def absent(status: str) -> Markup:
    """The word for why there is no value."""
    return Markup('<span class="rag-absent">{}</span>').format(
        status.replace("not run", "not run yet")
    )


@dataclass(frozen=True)
class Measured:
    """A value of the scoreboard, written as the paper writes the number.

    `measured["n"]` is a column of its group.
    """

    number: Number
    row: dict[str, Any]
    group: str

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401  # as pandas gives it
        """A column of the scoreboard."""
        return self.row[f"{self.group}_{key}"]

    @property
    def is_available(self) -> bool:
        """Whether there is a value; one from the sample never replaces a real one."""
        return not pd.isna(self.row[self.group]) and self["verdict"] != "SAMPLE"

    @property
    def verdict(self) -> str:
        """What became of it."""
        return "not run" if self["verdict"] == "SAMPLE" else self["verdict"]

    def text(self) -> str:
        """The value alone, or the word for why there is none."""
        return spaced(self.number.show(self.row[self.group])) if self.is_available else self.verdict

    def html(self) -> Markup:
        """A value that is there, with its interval."""
        text = sortable(self.row[self.group], self.text())
        return text if pd.isna(self["low"]) else text + Markup(" ") + self._bounds()

    def _bounds(self) -> Markup:
        """The interval without its unit."""
        shown = (spaced(self.number.show(self[end])) for end in ("low", "high"))
        low, high = (re.sub(r"[^\d.,+\N{MINUS SIGN}-]", "", text) for text in shown)
        return Markup('<span class="rag-interval">[{}, {}]</span>').format(low, high)


def number_of(number_id: str) -> Number:
    """Return the printed number of that id."""
    return published(number_id.partition(".")[0]).number(number_id)


def for_screens(drawn: Callable[..., figures.Picture]) -> str:
    """One picture for wide screens, one for narrow ones."""
    wide, narrow = (flat(drawn(narrow=narrow)) for narrow in (False, True))
    return f'<div class="rag-wide">{wide}</div><div class="rag-narrow">{narrow}</div>'


def folded(word: str, text: str) -> Markup:
    """A text behind a word that opens it."""
    return Markup('<details class="rag-why"><summary>{}</summary>{}</details>').format(word, text)


def digits(sha256: str) -> Markup:
    """A digest."""
    return Markup('<span class="rag-hash">{}</span>').format(sha256)


def link_to(page: str, title: str) -> Markup:
    """A link to a chapter."""
    return Markup('<a href="notebooks/{}.html">{}</a>').format(page, title)


def table(rows: list[dict[str, Any]], caption: str, classes: str = "rag-cards") -> str:
    """Rows as a table of a page, or that there are none yet."""
    if not rows:
        return "Not run yet."
    frame = pd.DataFrame(rows).astype(object)
    return flat(figures.table(frame, caption, classes=classes))


def flat(shown: figures.Html) -> str:
    """HTML on one line, so that Markdown takes it as one block."""
    return re.sub(r"\s*\n\s*", " ", shown.html)
