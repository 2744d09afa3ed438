"""The headline claims of each paper in plain words, from `book/papers.yml`."""

from dataclasses import dataclass
from typing import Any, Final

import yaml

from resources.settings import ROOT

HEADLINES: Final = ROOT / "book" / "papers.yml"


@dataclass(frozen=True)
class Headline:
    """A claim that a paper stands for.

    Attributes:
        claim: Its id.
        words: The claim in plain words.
        number: Id of the printed number that stands for it, or "".
        measure: What that number measures.
        against: Id of the printed number that it is compared with, or "".
        other: What has that number.
        tie: Of what the differences are that decide nothing, where there are some.
        rerun_note: What the answers of this book's run are, where the row would mislead without it.
    """

    claim: str
    words: str
    number: str = ""
    measure: str = ""
    against: str = ""
    other: str = ""
    tie: str = ""
    rerun_note: str = ""


@dataclass(frozen=True)
class PaperHeadlines:
    """The headlines of a paper, the weightiest first, and the name of its method."""

    method: str
    headlines: tuple[Headline, ...]


def read_headlines() -> dict[str, PaperHeadlines]:
    """Read the headlines of the papers, in the order of the file."""
    content: dict[str, Any] = yaml.safe_load(HEADLINES.read_text(encoding="utf-8"))
    papers = {}
    for paper, fields in content.items():
        headlines = tuple(Headline(**entry) for entry in fields["headlines"])
        papers[paper] = PaperHeadlines(fields["method"], headlines)
    return papers
