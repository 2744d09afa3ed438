"""What a chapter's answer must look like: first a few plain sentences, then the details."""

from __future__ import annotations

MOST_WORDS = 70
MOST_INTERVALS = 3


def assert_short_answer(text: str) -> None:
    """Check that the first paragraph is short and that details follow in a second one, if any."""
    first = text.partition("\n\n")[0]
    assert len(first.split()) <= MOST_WORDS, first
    assert first.count("[") <= MOST_INTERVALS, first
    assert ";" not in first
    assert "(" not in first, "fairness is said in words"
