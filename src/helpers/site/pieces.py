"""Small pieces of a page: a verdict, a number with its interval, fine print, what folds."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pandas as pd

from helpers.results import figures
from helpers.results.markup import Markup
from helpers.results.published import Basis, Number, published
from helpers.results.records import Record
from helpers.results.verdicts import TESTED

_TOGETHER: Final = re.compile(r"(?<=\b[np]) (?=[=<] \d)|(?<=\b[np] [=<]) (?=\d)|(?<=\d) (?=%)")
"""Spaces at which no line may end."""
_NO_LLM = frozenset({"graph", "encoder", "spaCy"})
"""Engines, as records name them, that serve no language model."""
SOURCES: Final[dict[Basis, str]] = {"printed": "printed numbers", "rescored": "released answers", "rerun": "rerun"}


def verdict(text: str) -> Markup:
    """A verdict with its mark; colour is never its only sign."""
    return Markup('<span class="rag-verdict" data-verdict="{0}">{0}</span>').format(text)


def run_line(record: Record) -> str:
    """One line that says which run this is: date, profile, commit, models, duration."""
    machine = record.provenance
    commit = f"commit {machine.commit[:10]}" if machine.commit else "outside version control"
    models = ", ".join(answering(record))
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


def answering(record: Record) -> list[str]:
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


def spaced(text: str) -> str:
    """`62.90%` as `62.90 %`, and a true minus sign."""
    return text.replace("%", " %").replace("-", "\N{MINUS SIGN}")


def bare(text: str) -> str:
    """A number without its unit."""
    return re.sub(r"[^\d.,+\N{MINUS SIGN}-]", "", text)


def sortable(value: float, text: str) -> Markup:
    """A number as it is read, with the value that it is sorted by."""
    return Markup('<data class="rag-number" value="{!r}">{}</data>').format(float(value), text)


def absent(status: str, why: str = "") -> Markup:
    """The word for why there is no value."""
    words = "not run yet" if status == "not run" else status
    title = Markup(' title="{}"').format(why) if why else ""
    return Markup('<span class="rag-absent"{}>{}</span>').format(title, words)


@dataclass(frozen=True)
class Measured:
    """A value of the scoreboard, written as the paper writes the number."""

    number: Number
    row: dict[str, Any]
    group: str

    @property
    def there(self) -> bool:
        """Whether there is a value."""
        # a value from the sample never stands where a real one belongs
        return not pd.isna(self.row[self.group]) and self["verdict"] != "SAMPLE"

    def html(self, *, bounds: bool = True) -> Markup:
        """The value with its interval, or the word for why there is none."""
        if not self.there:
            return absent(self.verdict, self["why"])
        value = self.row[self.group]
        text = sortable(value, self._show(value))
        return text + Markup(" ") + self.bounds() if bounds and self.bounds() else text

    def bounds(self) -> Markup:
        """The interval, if there is one."""
        if pd.isna(self["low"]):
            return Markup()
        low, high = (bare(self._show(self[end])) for end in ("low", "high"))
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
        """What became of it."""
        return "not run" if self["verdict"] == "SAMPLE" else self["verdict"]

    def _show(self, value: float) -> str:
        return spaced(self.number.show(value))

    def __getitem__(self, key: str) -> Any:  # noqa: ANN401  # as pandas gives it
        """A column of the scoreboard."""
        return self.row[f"{self.group}_{key}"]


def number_of(id: str) -> Number:
    """The printed number of that id."""
    return published(id.partition(".")[0]).number(id)


def label_of(id: str, number: Number) -> str:
    """The arm of a number, as a reader sees it."""
    return figures.ARMS[arm][0] if (arm := id.split(".")[2]) in figures.ARMS else number.row


def fine_print(text: str) -> Markup:
    """Small print. No line ends between a number and its letter or its per cent."""
    joined = type(text)(_TOGETHER.sub("\N{NO-BREAK SPACE}", text))
    return Markup('<span class="rag-why">{}</span>').format(joined) if text else Markup()


def for_screens(drawn: Callable[..., figures.Picture]) -> str:
    """One picture for wide screens, one for narrow ones."""
    wide, narrow = flat(drawn(narrow=False)), flat(drawn(narrow=True))
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


def flat(shown: figures.Html) -> str:
    """HTML on one line, so that Markdown takes it as one block."""
    return re.sub(r"\s*\n\s*", " ", shown.html)
