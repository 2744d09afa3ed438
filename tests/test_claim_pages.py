"""Every table and figure is accounted for, and every count of claims adds up and leads to its list."""

import re
from collections import Counter

import pandas as pd
import pytest

from evaluation.answers import Answer, to_frame
from evaluation.published import Exhibit, papers, published
from helpers.thoughts import split_thought
from publish import claim_pages, viewer
from resources.settings import NOTEBOOKS

ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5}
SUBJECTS = {"side_effects": "drug side effects", "qa_rag": "regulatory guidance"}


def test_every_printed_number_stands_in_an_exhibit_or_in_the_text() -> None:
    homeless = []
    for paper in papers():
        printed = published(paper)
        for number in printed.numbers:
            places = [exhibit.name for exhibit in printed.exhibits if exhibit.has(number)]
            if number.table != "Text" and len(places) != 1:
                homeless.append((number.id, number.table, places))
    assert not homeless


def test_the_exhibits_of_a_paper_are_numbered_without_a_gap() -> None:
    for paper in papers():
        numbers: dict[str, list[int]] = {}
        for exhibit in published(paper).exhibits:
            kind, _, number = exhibit.name.partition(" ")
            if kind in ("Table", "Figure"):
                numbers.setdefault(kind, []).append(ROMAN.get(number) or int(number))
        for kind, found in numbers.items():
            assert found == list(range(1, len(found) + 1)), (paper, kind)


def test_an_exhibit_is_shown_in_chapters_that_exist() -> None:
    chapters = {path.stem for path in NOTEBOOKS.glob("*.ipynb")}
    for exhibit in claim_pages.all_exhibits(papers()):
        assert chapters.issuperset(exhibit.chapters), exhibit.name


@pytest.mark.parametrize(
    "fields",
    [{"shown": "rendered"}, {"shown": "partly", "chapters": ["01_x"]}, {"shown": "impossible"}],
)
def test_an_exhibit_says_where_it_is_or_why_it_is_not(fields: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="Table 1"):
        Exhibit.model_validate({"name": "Table 1", "what": "x", **fields})


@pytest.fixture
def claims() -> pd.DataFrame:
    answers = [
        ("side_effects", "agrees", "with the claim"),
        ("side_effects", "not tested", "against it"),
        ("side_effects", "SAMPLE", "SAMPLE"),
        ("qa_rag", "cannot be tested", "not run"),
        ("qa_rag", "inconclusive", "inconclusive"),
    ]
    rows = []
    for i, (paper, verdict, here) in enumerate(answers):
        row = {"id": f"{paper}.claim.c{i}", "paper": paper, "claim": f"claim <{i}>"}
        basis = "rescored" if verdict == "inconclusive" else "printed"
        rows.append(row | {"verdict": verdict, "here_answer": here, "basis": basis})
    return pd.DataFrame(rows)


def test_the_counts_of_both_questions_add_up(claims: pd.DataFrame) -> None:
    for question in claim_pages.QUESTIONS:
        assert sum(question.counts(claims)) == len(claims)


def test_verdicts_by_printed_numbers_are_counted_apart(claims: pd.DataFrame) -> None:
    text = claim_pages.balance(claims)
    assert (
        "1 claim agrees (by printed numbers alone), 1 is inconclusive, 1 cannot be tested" in text
    )
    assert text.count("printed numbers") == 1
    twice = pd.concat([claims, claims])
    assert "2 claims agree (both by printed numbers alone)" in claim_pages.balance(twice)
    released = pd.concat([claims, claims.assign(basis="rescored")])
    assert "2 claims agree (1 by printed numbers alone)" in claim_pages.balance(released)


def test_the_books_own_claims_are_about_no_papers_system(claims: pd.DataFrame) -> None:
    text = claim_pages.balance(claims.assign(paper="across_papers"))
    assert "the paper's system" not in text
    assert text.startswith("We asked one question about each of 5 claims. Does it hold here")


def test_each_count_leads_to_the_list_of_so_many_claims(claims: pd.DataFrame) -> None:
    table = claim_pages.counts_table(claims, SUBJECTS)
    lists = claim_pages.lists(claims, SUBJECTS)
    links = re.findall(r'href="scoreboard\.html#([\w-]+)">(\d+)<', table)
    assert len(links) >= 2 * 5
    ids = Counter(re.findall(r'id="([\w-]+)"', lists))
    for anchor, count in links:
        assert ids[anchor] == 1, anchor
        heading = lists.partition(f'id="{anchor}"')[2].partition("</p>")[0]
        assert f"({count})" in heading
    assert lists.count("<li>") == 2 * len(claims)
    assert "claim <0>" not in lists, "text is escaped"


def answer_row(**fields: object) -> dict[str, object]:
    row = Answer(arm="a", unit="u", model="m", measures={"accuracy": (1.0, 1.0)}, **fields)  # type: ignore[arg-type]
    [record] = to_frame([row]).to_dict("records")
    return {str(name): value for name, value in record.items()}


def test_a_reply_that_was_not_parsed_is_never_called_right() -> None:
    shown = viewer._answer(answer_row(answer="Hm.", predicted="NO", parsed=False), {}, set())
    assert (shown["mark"], shown["read"]) == ("unparsed", None)
    assert viewer._answer(answer_row(answer="NO", predicted="NO"), {}, set())["mark"] == ""


def test_an_answer_is_marked_by_its_own_measure_before_a_judges_rating() -> None:
    """Only a part of the answers is rated, so a mean of both would be of neither."""
    row = answer_row(answer="Take it with food.")
    row["measures"] = {"rating": (0.25, 1.0), "cosine": (0.61, 1.0)}
    shown = viewer._answer(row, {}, {"cosine", "rating"})
    assert shown["score"] == 0.61
    assert shown["mark"].startswith("cosine")
    assert len(shown["measures"]) == 1
    assert shown["measures"][0].startswith("rating")


def test_a_thought_stands_apart_from_what_was_said() -> None:
    reply = "<think>Perhaps yes.</think>\nNO"
    assert split_thought(reply).thought.strip() == "Perhaps yes."
    shown = viewer._answer(answer_row(answer=reply, predicted="NO"), {}, set())
    assert (shown["thought"], shown["said"]) == ("Perhaps yes.", "NO")
