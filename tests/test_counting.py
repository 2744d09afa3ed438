"""Counts with their nouns."""

from __future__ import annotations

import pytest

from helpers.counting import counted, part_in_words


@pytest.mark.parametrize(
    ("n", "text"), [(0, "0 rows"), (1, "1 row"), (2, "2 rows"), (1234, "1,234 rows")]
)
def test_a_count_has_the_number_of_its_noun(n: int, text: str) -> None:
    assert counted(n, "row") == text


def test_a_noun_may_have_its_verb() -> None:
    assert counted(1, "note has", "notes have") == "1 note has"
    assert counted(2, "note has", "notes have") == "2 notes have"


@pytest.mark.parametrize(
    ("n", "n_all", "text"),
    [
        (0, 2, "0 of the 2 rows"),
        (0, 1, "0 of the 1 row"),
        (1, 1, "the only row"),
        (2, 2, "both rows"),
        (1200, 1234, "1,200 of the 1,234 rows"),
        (1234, 1234, "all 1,234 rows"),
    ],
)
def test_a_part_is_written_with_the_whole(n: int, n_all: int, text: str) -> None:
    assert part_in_words(n, n_all, "row") == text
