"""Counts with their nouns."""

from __future__ import annotations

import pytest

from helpers.counting import counted


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1234, "1,234 rows")]
)
def test_a_count_has_the_number_of_its_noun(n: int, text: str) -> None:
    assert counted(n, "row") == text


def test_a_noun_may_have_its_verb() -> None:
    assert counted(1, "note has", "notes have") == "1 note has"
    assert counted(2, "note has", "notes have") == "2 notes have"
