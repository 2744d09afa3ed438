"""The landing page's rows and the papers' own pages name claims and numbers that exist."""

import pytest

from evaluation import records
from evaluation.published import papers, published
from publish import diagrams, headlines, paper_pages, pieces
from publish.book import BOOK
from resources.settings import RESULTS

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


def test_the_row_of_qa_rag_says_where_its_lead_is_undecided() -> None:
    first = HEADLINES["qa_rag"].headlines[0]
    assert first.words.endswith("(undecided where both search the same documents).")
    record = records.load(RESULTS / "laptop" / "17_qarag_answers.json")
    same_documents = f"{first.claim}_same_documents"
    verdicts = {found.verdict for found in record.claims if found.id == same_documents}
    assert verdicts == {"inconclusive"}


@pytest.mark.parametrize("paper", HEADLINES)
def test_a_papers_page_shows_what_it_promises(paper: str) -> None:
    text = (BOOK / f"paper-{paper}.md").read_text(encoding="utf-8")
    for function in ("headlines", "balance", "diagram", "untested"):
        assert f'{{{{ {function}("{paper}") }}}}' in text


def test_what_decided_a_claim_here_has_both_arms_their_difference_and_n() -> None:
    difference = {
        "label": "graph minus text, accuracy, a-model",
        "value": 0.08,
        "low": 0.03,
        "high": 0.13,
        "n": 100,
        "unit": "fraction",
        "difference": True,
    }
    arms = [{"label": "graph", "value": 1.0}, {"label": "text", "value": 0.92}]
    words = paper_pages._estimate_in_words({**difference, "arms": arms}, "a-model")
    assert words == (
        "Accuracy is 100.0 % for graph and 92.0 % for text, a difference of +8.0 [+3.0, +13.0] "
        "points (n = 100)."
    )
    of_data = {**difference, "label": "graph minus text, accuracy, GIT-RE", "arms": arms}
    assert paper_pages._estimate_in_words(of_data, "a-model").startswith(
        "For GIT-RE, accuracy is 100.0 %"
    )
    of_kind = {**of_data, "label": "graph minus text, F1 (kind: two hops)"}
    where = {"source": ["rerun"], "kind": ["two hops"]}
    assert paper_pages._estimate_in_words({**of_kind, "where": where}, "a-model").startswith(
        "On questions of the kind \N{LEFT DOUBLE QUOTATION MARK}two hops\N{RIGHT DOUBLE QUOTATION MARK}, "
        "F1 is 100.0 %"
    )
    # a record from before the arms were kept
    words = paper_pages._estimate_in_words({**difference, "arms": []})
    assert words == "graph minus text, accuracy, a-model: +8.0 [+3.0, +13.0] points, n = 100"
    score = {**difference, "label": "graph", "difference": False, "arms": []}
    assert paper_pages._estimate_in_words(score) == "graph: 8.0 % [3.0, 13.0], n = 100"
    # a score names its arm, and a ratio two
    ratio = {**score, "arms": arms, "bound": 0.5}
    assert paper_pages._estimate_in_words(ratio) == "graph: 8.0 % [3.0, 13.0], n = 100"
    assert paper_pages._closest_by_arms([ratio]) == {}


@pytest.mark.parametrize(
    ("label", "measure"),
    [
        (
            "graph minus text, cosine (sort: side effects or precautions, interactions)",
            "cosine (sort: side effects or precautions, interactions)",
        ),
        ("graph minus text, share right, GIT-RE", "share right, GIT-RE"),
        ("graph minus text, accuracy, a-model", "accuracy"),
    ],
)
def test_a_measure_keeps_its_brackets_and_data_set_and_not_the_model(
    label: str, measure: str
) -> None:
    arms = [{"label": "graph"}, {"label": "text"}]
    assert paper_pages._measure_of({"label": label, "arms": arms}, "a-model") == measure


@pytest.mark.parametrize(("reason", "says"), [("another model", True), ("by construction", False)])
def test_the_page_says_what_a_test_needs_besides_another_model(reason: str, says: bool) -> None:
    row = {
        "paper": "side_effects",
        "id": "side_effects.claim.lists_fail_by_window",
        "claim": "Lists under-retrieve.",
        "reason": reason,
    }
    assert ("The test also needs a larger prompt" in paper_pages._with_needs(row)) == says


def test_a_headline_that_does_not_agree_says_why_on_its_row() -> None:
    why = "Of 8 differences, 1 is significant & 7 are not."
    inconclusive = paper_pages._folded_reason({"verdict": "inconclusive", "why": why})
    assert "<summary>Why &#34;inconclusive&#34;</summary>" in inconclusive
    assert "1 is significant &amp; 7 are not." in inconclusive
    for verdict in ("agrees", "cannot be tested", "not tested"):
        assert not paper_pages._folded_reason({"verdict": verdict, "why": why})


def test_a_long_reason_is_cut_and_linked_to_the_whole() -> None:
    row = {
        "verdict": "inconclusive",
        "why": "Of 8 differences (p = 0.02), 1 is significant. One is negative. On DDI, we count "
        "368 rows. On ADInt, we count 720 rows.",
        "paper": "biomedrag",
        "id": "biomedrag.claim.superior",
    }
    shown = paper_pages._folded_reason(row)
    assert "368 rows." in shown
    assert "720 rows." not in shown
    assert 'href="scoreboard-biomedrag.html#biomedrag.claim.superior"' in shown
