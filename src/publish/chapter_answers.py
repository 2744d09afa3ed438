"""What the viewer and the audit say of a chapter's answers."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from helpers import requests
from publish import viewer
from publish.chapters import Chapter
from publish.run_pages import ChapterAudit, audit_chapter
from publish.selections import QuestionLists


@dataclass(frozen=True)
class ChapterAnswers:
    """What the viewer and the audit say of a chapter."""

    entry: dict[str, Any]
    """The chapter in the viewer's index."""
    scripts: dict[str, str]
    """The viewer's scripts by their names."""
    audit: ChapterAudit

    @cached_property
    def lists(self) -> QuestionLists:
        """The questions that the viewer lists."""
        return QuestionLists(self.entry, self.scripts)


def chapter_answers(chapter: Chapter) -> ChapterAnswers | None:
    """Read a chapter's answers; None if it has none."""
    if not viewer.arms(chapter):
        return None
    store = requests.store(requests.working())
    entry, scripts = viewer.scripts(chapter, store)
    return ChapterAnswers(entry, scripts, audit_chapter(chapter))
