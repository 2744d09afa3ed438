"""What the pages say of replayed replies and searches is what the records count."""

from collections.abc import Callable

import pytest

from evaluation import record
from evaluation.records import STORED_TIMES, Record, load
from helpers.usage import Usage
from publish import pieces
from publish.replayed import Replayed, replayed_sentences
from publish.run_pages import RunPages

Make = Callable[..., Record]


@pytest.fixture
def make(tmp_path) -> Make:
    """Make a record with these counts of replies and of searches."""

    def make_record(replies: Replayed, searches: Replayed, notebook: str = "01_toy") -> Record:
        run = record.start(notebook=notebook, paper="side_effects", profile="laptop", parameters={})
        run.count_requests(
            Usage(
                requests=replies.total,
                cached=replies.stored,
                checked={"step": replies.repeated},
                same=replies.same,
            )
        )
        counts = {
            "queries": searches.total,
            "stored": searches.stored,
            "checked": searches.repeated,
            "same": searches.same,
        }
        run.timing("searches by meaning", 0.1, **counts)
        return load(run.save(tmp_path / f"{notebook}.json"))

    return make_record


@pytest.mark.parametrize(
    ("replies", "searches", "text"),
    [
        (Replayed(), Replayed(), ""),
        (
            Replayed(9, 9, 3, 2),
            Replayed(1000, 999, 5, 5),
            "All 9 replies and 999 of 1,000 (99.9 %) searches were replayed from stored results. "
            "We re-asked 3 stored questions; 2 replies matched. "
            "We repeated 5 stored searches; all results matched.",
        ),
        (
            Replayed(20_000, 19_999, 4, 4),
            Replayed(7, 7),
            "19,999 of 20,000 (99.9 %) replies and all 7 searches were replayed from stored results. "
            "We re-asked 4 stored questions; all replies matched. "
            "We repeated no stored searches.",
        ),
        (
            Replayed(),
            Replayed(8, 4),
            "4 of 8 (50.0 %) searches were replayed from stored results. No stored result was repeated.",
        ),
        (Replayed(5), Replayed(), "None of 5 replies were replayed from stored results."),
        (
            Replayed(2, 2, 1, 0),
            Replayed(2, 2, 1, 1),
            "All 2 replies and all 2 searches were replayed from stored results. "
            "We re-asked one of the stored questions; the reply did not match. "
            "We repeated one of the stored searches; the result matched.",
        ),
    ],
)
def test_a_run_says_what_it_replayed_and_what_was_equal_again(make, replies, searches, text):
    stored_record = make(replies, searches)
    assert replayed_sentences([stored_record]) == text
    assert pieces.run_line(stored_record).endswith(text.removesuffix("."))


def test_the_book_adds_up_its_runs(make):
    first = make(Replayed(10, 10, 2, 1), Replayed(6, 6, 3, 3))
    second = make(Replayed(10, 5, 2, 2), Replayed(4, 0), notebook="02_toy")
    assert replayed_sentences([first, second]) == (
        "15 of 20 (75.0 %) replies and 6 of 10 (60.0 %) searches were replayed from stored results. "
        "We re-asked 4 stored questions; 3 replies matched. "
        "We repeated 3 stored searches; all results matched."
    )
    pages = RunPages([])
    pages._records = [first, second]
    rows = pages.replayed_table().split("<tr>")
    assert len(rows) == 1 + 1 + 2 + 1, "a heading, a row for each run, and their sum"
    assert "3 of 4" in rows[-1]
    assert "3 of 3" in rows[-1]


def test_stored_times_of_single_questions_are_said_to_be_of_an_earlier_run(tmp_path):
    run = record.start(notebook="01_toy", paper="side_effects", profile="laptop", parameters={})
    run.count_requests(Usage(requests=2, cached=2))
    run.timing(STORED_TIMES, 0, questions=9)
    text = replayed_sentences([load(run.save(tmp_path / "01_toy.json"))])
    assert text.endswith("The times of questions asked one at a time come from an earlier run.")
