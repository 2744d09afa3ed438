"""What the page of findings quotes: the evidence of a claim from a record, and a figure or a table from a chapter.

Both are empty where the run that is shown has no such thing, so a template leaves the finding out.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from html import unescape

from helpers.results import figures
from helpers.results.markup import Markup
from helpers.results.published import Basis, published
from helpers.results.verdicts import Verdict
from helpers.site.chapters import Chapter, read_notebook

_CAPTION = re.compile(r"<(figcaption|caption)>(.*?)</\1>", re.DOTALL)


class Quotes:
    """The functions of the page, bound to the runs that a build shows."""

    def __init__(self, chapters: Sequence[Chapter]) -> None:
        """Quote these chapters."""
        self.chapters = chapters

    def functions(self) -> dict[str, Callable[..., str]]:
        """The functions by the names that a template uses."""
        return {"evidence": self.evidence, "exhibit": self.exhibit}

    def evidence(self, id: str, kind: Basis, verdict: Verdict) -> str:
        """What decided a claim, with its numbers, as a paragraph; empty if no run that is shown decided it so.

        Args:
            id: of the claim, in `data/published`.
            kind: printed, rescored or rerun.
            verdict: on which the finding rests.

        Raises:
            UnknownId: there is no such claim.
        """
        claim = published(id.partition(".")[0]).claim(id)
        for record in (chapter.record for chapter in self.chapters if chapter.record and not chapter.record.sample):
            for one in record.claims:
                if (one.id, one.kind, one.verdict) == (claim.id, kind, verdict):
                    return f"*{figures.inline(claim.text)}* {figures.inline(one.why)}"
        return ""

    def exhibit(self, notebook: str, beginning: str) -> str:
        """The figure or table of a chapter whose caption begins so; empty if the run shown has none.

        Args:
            notebook: whose run is shown.
            beginning: of the caption's text.
        """
        for chapter in self.chapters:
            if chapter.name != notebook or chapter.record is None or chapter.record.sample:
                continue
            for cell in read_notebook(chapter.notebook)["cells"]:
                for output in cell.get("outputs", ()):
                    html = "".join(output.get("data", {}).get("text/html", ""))
                    caption = _CAPTION.search(html)
                    if caption and unescape(Markup(caption[2]).striptags()).startswith(beginning):
                        return re.sub(r"\s*\n\s*", " ", html)
        return ""
