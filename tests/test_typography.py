"""Words are whole after typesetting, and characters with a meaning of their own stay."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from helpers.typography import normalise


@pytest.mark.parametrize(
    ("text", "right"),
    [
        (
            "e\ufb03cacy, \ufb01rst, \ufb02ow, a\ufb00ord, ba\ufb04ed",
            "efficacy, first, flow, afford, baffled",
        ),
        ("effi\u00adcacy", "efficacy"),
        ("effi\u00ad\ncacy", "efficacy"),
        ("effi\u200bcacy\ufeff", "efficacy"),
        ("treat-\nment of pain", "treatment of pain"),
        ("Treat-  \n  ment of pain", "Treatment of pain"),
        ("treat\u2010\nment of pain", "treatment of pain"),
        ("after COVID-\n19", "after COVID-19"),
        ("anti-\nTNF", "anti-TNF"),
        ("5-\n10 mg", "5-10 mg"),
        ("state-of-the-\nart care", "state-of-the-art care"),
        ("a double-blind trial, again double-\nblind", "a double-blind trial, again double-blind"),
        (
            "what is double and what is blind: double-\nblind",
            "what is double and what is blind: double-blind",
        ),
        ("with it and out of it, without; with-\nout", "with it and out of it, without; without"),
        ("half \ud835 and whole \ud835\udc00", "half \ufffd and whole \U0001d400"),
        ("two\u2028lines\x0cand\x1ba page", "two\nlines and a page"),
    ],
)
def test_words_are_whole(text: str, right: str) -> None:
    assert normalise([text]) == [right]


@pytest.mark.parametrize(
    "text",
    [
        "10\u00b2 cells, 5 \u00b5g, \u00bd tablet, 37 \u00b0C, Drug\u2122, \u2265 3",
        "- first\n- second",
        "1 -\n2",
        "a table\n-----\nof one",
        "na\u00efve caf\u00e9 \u65e5\u672c\u8a9e",
        "non-breaking hyphen 5\u201110",
        "",
    ],
)
def test_what_has_a_meaning_of_its_own_stays(text: str) -> None:
    assert normalise([text]) == [text]


def test_one_page_tells_how_a_word_of_another_is_written() -> None:
    assert normalise(["a follow-\nup", "the follow-up"]) == ["a follow-up", "the follow-up"]


@given(st.lists(st.text(st.characters(exclude_categories=[])), max_size=4))
def test_any_text_is_normalised_and_can_be_stored(parts: list[str]) -> None:
    found = normalise(parts)
    assert len(found) == len(parts)
    for part in found:
        part.encode("utf-8")
