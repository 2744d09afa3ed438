"""The landing page's rows and the papers' own pages name claims and numbers that exist."""

import pytest

from evaluation.published import papers, published
from publish import diagrams, headlines, pieces
from publish.book import BOOK

HEADLINES = headlines.read_headlines()


def test_each_paper_has_headlines_a_page_and_a_diagram() -> None:
    expected = set(papers()) - {"across_papers"}
    assert set(HEADLINES) == expected
    assert {path.stem.removeprefix("paper-") for path in BOOK.glob("paper-*.md")} == expected
    assert {path.stem for path in diagrams.DIAGRAMS.glob("*.yml")} == expected


@pytest.mark.parametrize("paper", HEADLINES)
def test_each_headline_is_a_claim_of_its_paper_with_a_printed_number(paper: str) -> None:
    claims = {claim.id for claim in published(paper).claims}
    for headline in HEADLINES[paper].headlines:
        assert headline.claim in claims
        assert bool(headline.number) == bool(headline.measure)
        if headline.number:
            assert pieces.number_of(headline.number).printed
        assert bool(headline.against) == bool(headline.other)
        if headline.against:
            compared = [pieces.number_of(name) for name in (headline.number, headline.against)]
            assert compared[0].unit == compared[1].unit, "two measures are not compared"
            assert compared[0].printed != compared[1].printed


@pytest.mark.parametrize("paper", HEADLINES)
def test_a_papers_page_shows_what_it_promises(paper: str) -> None:
    text = (BOOK / f"paper-{paper}.md").read_text(encoding="utf-8")
    for function in ("headlines", "balance", "diagram", "untested"):
        assert f'{{{{ {function}("{paper}") }}}}' in text
