"""What the page of findings quotes: the evidence of a claim from a record, and a figure or a table from a chapter.

Both are empty where the runs that are shown have no such thing, so a template leaves the finding out.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape

import pandas as pd

from helpers.results import answers, audit, figures
from helpers.results.markup import Markup
from helpers.results.outcomes import Outcomes
from helpers.results.published import Basis, published
from helpers.results.verdicts import Verdict
from helpers.site import viewer
from helpers.site.chapters import Chapter, read_notebook
from helpers.site.pieces import flat

DRAWS = 500
"""Of the audit: enough to tell 0.05 apart, and fast."""
_CAPTION = re.compile(r"<(figcaption|caption)>(.*?)</\1>", re.DOTALL)


def evidence(chapters: Sequence[Chapter], id: str, kind: Basis, verdict: Verdict) -> str:
    """A claim and the numbers that decided it, as a paragraph; empty if no run that is shown decided it so.

    Raises:
        UnknownId: there is no such claim in `data/published`.
    """
    claim = published(id.partition(".")[0]).claim(id)
    for record in (chapter.record for chapter in chapters if chapter.record and not chapter.record.sample):
        for one in record.claims:
            if (one.id, one.kind, one.verdict) == (claim.id, kind, verdict):
                return f"*{figures.inline(claim.text)}* {figures.inline(one.why)}"
    return ""


def exhibit(chapters: Sequence[Chapter], notebook: str, beginning: str) -> str:
    """The figure or table of a chapter whose caption begins so; empty if the run that is shown has none."""
    for chapter in chapters:
        if chapter.name != notebook or chapter.record is None or chapter.record.sample:
            continue
        for cell in read_notebook(chapter.notebook)["cells"]:
            for output in cell.get("outputs", ()):
                html = "".join(output.get("data", {}).get("text/html", ""))
                caption = _CAPTION.search(html)
                if caption and unescape(Markup(caption[2]).striptags()).startswith(beginning):
                    return re.sub(r"\s*\n\s*", " ", html)
    return ""


def audited(chapters: Sequence[Chapter]) -> str:
    """What the audit says of the rows of each chapter: verdicts, and the figures of what it finds."""
    verdicts, found = [], []
    for chapter in chapters:
        if chapter.record is None or not viewer.arms(chapter):
            continue
        rows = answers.read(answers.newest(chapter.name, chapter.record.profile), audit.READ)
        told = audit.audit(Outcomes(rows, draws=DRAWS), most=2)
        words = told.verdict.str.partition(":")[0].where(told.verdict != "found", "found in " + told.groups)
        verdicts.append({"chapter": chapter.name, **dict(zip(told.check, words, strict=True))})
        told = told[told.verdict == "found"].drop(columns="verdict")
        found += [{"chapter": chapter.name, **row} for row in told.to_dict("records")]
    if not verdicts:
        return "No run has answers to audit."
    shown = [figures.table(pd.DataFrame(verdicts), "Seven checks of the answers of each chapter")]
    shown += [figures.table(pd.DataFrame(found), "What was found, with figures of two groups at most")] if found else []
    return "\n\n".join(flat(one) for one in shown)
