"""QA-RAG's retrieval: folders, search by beginning, window and word, arms, rerankers, measures, the judge's scores."""

from __future__ import annotations

import os
import subprocess
from itertools import pairwise
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import pandas as pd
import pypdf
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import vectors
from helpers.results import record
from papers.qa_rag import data, judge
from papers.qa_rag import retrieval as qr
from papers.qa_rag import retrieval_report as report
from papers.qa_rag.data import Corpus, Passage

FILLER = "Records are kept in good order and are shown to an inspector who asks for them. "


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


@pytest.fixture(scope="module")
def searcher(sample: data.Data) -> qr.Searcher:
    return qr.Searcher(sample.corpus, vectors.encoder(), progress=False)


# ------------------------------------------------------------------------------------------------------------ folders


def write_pdf(path: Path, pages: list[str]) -> None:
    from matplotlib.backends.backend_pdf import PdfPages

    with mpl.rc_context({"pdf.fonttype": 42}), PdfPages(path) as pdf:
        for text in pages:
            figure = plt.figure()
            figure.text(0.1, 0.5, text)
            pdf.savefig(figure)
            plt.close(figure)


def test_a_folder_of_text_and_pdf_becomes_chunks(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    long = " ".join(f"Rule {i} says that {FILLER}" for i in range(320))
    (tmp_path / "sub" / "long.txt").write_text(long, encoding="utf-8")
    write_pdf(tmp_path / "two.pdf", ["Storage of samples", "Transport of samples"])
    (tmp_path / "empty.md").write_text(" \n")
    (tmp_path / "image.png").write_bytes(b"no document")
    corpus, left_out = qr.read_folder(tmp_path)
    assert list(left_out) == ["empty.md"]
    assert set(corpus.documents) == {"sub/long.txt", "two.pdf"}
    chunks = [p.text for p in corpus.passages if p.document == "sub/long.txt"]
    assert len(chunks) == 4
    assert all(len(chunk) <= qr.CHUNK for chunk in chunks)
    for one, two in pairwise(chunks):
        shared = next(n for n in range(len(two), 0, -1) if one.endswith(two[:n]))
        assert qr.OVERLAP / 2 < shared <= qr.OVERLAP
    (pdf,) = [p.text for p in corpus.passages if p.document == "two.pdf"]
    assert "Storage of samples" in pdf
    assert "Transport of samples" in pdf


def test_a_folder_without_text_says_what_it_found(tmp_path: Path) -> None:
    with pytest.raises(qr.FolderError, match="There is no folder"):
        qr.read_folder(tmp_path / "none")
    write_pdf(tmp_path / "scan.pdf", [""])
    (tmp_path / "broken.pdf").write_bytes(b"%PDF-1.7 and nothing more")
    with pytest.raises(qr.FolderError, match=r"(?s)scan\.pdf: it holds no text\. Run OCR") as error:
        qr.read_folder(tmp_path)
    assert "broken.pdf: it cannot be read as PDF" in str(error.value)


def test_what_cannot_be_read_is_left_out_with_the_reason_and_the_rest_is_read(tmp_path: Path) -> None:
    write_pdf(tmp_path / "open.pdf", ["Storage of samples"])
    locked = pypdf.PdfWriter(clone_from=tmp_path / "open.pdf")
    locked.encrypt("secret", algorithm="RC4-128")
    locked.write(tmp_path / "locked.pdf")
    (tmp_path / "good.txt").write_text("Records are kept for a year.", encoding="utf-8")
    (tmp_path / "marked.txt").write_text("5 \u00b5g a day", encoding="utf-16")
    (tmp_path / "unmarked.txt").write_text("5 mg a day", encoding="utf-16-le")
    (tmp_path / "latin.txt").write_text("5 \u00b5g a day", encoding="latin-1")
    (tmp_path / "binary.md").write_bytes(b"a\0b")
    (tmp_path / "empty.txt").touch()
    (tmp_path / "gone.txt").symlink_to(tmp_path / "nowhere")
    os.mkfifo(tmp_path / "pipe.pdf")
    os.mkfifo(tmp_path / "pipe.txt")
    (tmp_path / "folder.txt").mkdir()
    (tmp_path / "folder.txt" / "within.txt").write_text("Samples are kept cold.")
    (tmp_path / os.fsdecode(b"caf\xe9.txt")).write_text("Labels are printed.")
    corpus, left_out = qr.read_folder(tmp_path)
    texts = {p.document: p.text for p in corpus.passages}
    assert set(texts) == {"open.pdf", "good.txt", "marked.txt", "folder.txt/within.txt", "caf\ufffd.txt"}
    assert texts["marked.txt"] == "5 \u00b5g a day"
    reasons = {
        "locked.pdf": "encrypted",
        "unmarked.txt": "NUL",
        "latin.txt": "UTF-8",
        "binary.md": "NUL",
        "empty.txt": "no text",
        "gone.txt": "broken link",
        "pipe.pdf": "a pipe",
        "pipe.txt": "a pipe",
        "folder.txt": "a folder",
    }
    assert set(left_out) == set(reasons)
    assert all(reason in left_out[name] and "\n" not in left_out[name] for name, reason in reasons.items())


def test_folders_within_folders_are_read_however_deep(tmp_path: Path) -> None:
    deep = tmp_path
    for _ in range(1500):
        deep /= "d"
        deep.mkdir()
    (deep / "x.txt").write_text("Records are kept for a year.")
    try:
        corpus, left_out = qr.read_folder(tmp_path)
    finally:
        subprocess.run(["rm", "-r", tmp_path / "d"], check=True)  # deeper than Python's own way goes
    assert (len(corpus), left_out) == (1, {})


# ------------------------------------------------------------------------------------------------------------- search


def test_what_lies_behind_the_encoders_end_is_found_by_its_window_and_its_words_only() -> None:
    asked = "How are kangaroos counted at the aquarium?"
    hidden = FILLER * 30 + "Kangaroos at the aquarium are counted by two divers. " + FILLER * 10
    others = [f"Passage {i} on the aquarium. {FILLER * 20}" for i in range(6)]
    corpus = Corpus(tuple(Passage(f"p{i}", f"d{i}", text) for i, text in enumerate([*others, hidden])))
    search = qr.Searcher(corpus, vectors.encoder(), progress=False)
    assert search.cut == 7
    assert search.search([asked], 1, "windows") == [[6]]
    assert search.search([asked], 1, "words") == [[6]]
    assert search.search([asked], 3, "start")[0].count(6) == 0
    assert "two divers" in search.excerpts(asked, [6])[0]
    assert all(len(window) <= qr.WINDOW for window in search.windows)


def test_words_that_stand_nowhere_find_nothing(searcher: qr.Searcher) -> None:
    assert searcher.search(["zyxwv qqqq"], 5, "words") == [[]]
    assert searcher.search(["the of and"], 5, "words") == [[]]


@given(st.lists(st.lists(st.integers(0, 30), unique=True, max_size=12), max_size=4))
def test_fusion_keeps_each_row_once_and_a_lone_order_as_it_is(rankings: list[list[int]]) -> None:
    fused = qr.fuse(rankings)
    assert sorted(fused) == sorted({row for ranking in rankings for row in ranking})
    if len(rankings) == 1:
        assert fused == rankings[0]


def test_fusion_prefers_what_both_found() -> None:
    assert qr.fuse([[1, 2, 3], [4, 2, 5]])[0] == 2


def test_an_arm_asks_only_what_all_of_its_queries_know(sample: data.Data, searcher: qr.Searcher) -> None:
    queries = qr.plain_queries(sample.test)
    ids = [question.id for question in sample.test]
    assert qr.candidates(searcher, qr.ARMS["qa_rag"], queries, ids) == {}
    queries["tuned"] = {ids[0]: [sample.test[0].answer]}
    found = qr.candidates(searcher, qr.ARMS["qa_rag"], queries, ids)
    assert list(found) == ids[:1]
    assert 12 <= len(found[ids[0]]) <= 24
    assert len(set(found[ids[0]])) == len(found[ids[0]])


def test_the_answer_as_a_query_finds_the_passage_that_holds_it(sample: data.Data, searcher: qr.Searcher) -> None:
    gold = report.gold_of(sample.test, sample.corpus)
    queries = qr.plain_queries(sample.test)
    ranked = qr.rank(searcher, qr.ARMS["reference"], queries, sample.test, None)
    table = report.measure(report.ids_of(ranked, sample.corpus), gold, sample.corpus)
    assert table[report.ANSWER].mean() == 1.0
    assert "ceiling" not in report.label("reference")  # word search may find more
    reranked = qr.rank(searcher, qr.ARMS["reference"], queries, sample.test, qr.BestWindow(searcher))
    assert {id: set(rows) for id, rows in reranked.items()} == {id: set(rows) for id, rows in ranked.items()}


# ----------------------------------------------------------------------------------------------------- reading answers


@pytest.mark.parametrize(
    ("text", "score"),
    [("8", 8.0), ("Score: 7.5/10", 7.5), ("10", 10.0), ("0", 0.0), ("11", None), ("very", None), ("", None)],
)
def test_a_score_is_read_or_counted_as_unread(text: str, score: float | None) -> None:
    assert qr.read_score(text) == score


def test_three_questions_are_read_off_a_list() -> None:
    text = "1. How long are samples kept?\n\n- When may samples be destroyed?\n3) Who keeps the samples?\n4. And why?"
    assert report.read_queries(text) == [
        "How long are samples kept?",
        "When may samples be destroyed?",
        "Who keeps the samples?",
    ]
    assert report.read_queries("Sure!") == []
    assert report.read_queries("How long is it?\nHow long is it\nHow long, is it?\nWho keeps the samples?") == [
        "How long is it?",
        "Who keeps the samples?",
    ]


@given(st.text(min_size=1, max_size=300))
def test_statements_come_from_the_answer(answer: str) -> None:
    found = judge.statements(answer)
    assert 1 <= len(found) <= judge.STATEMENTS
    assert all(statement in answer for statement in found)


# ------------------------------------------------------------------------------------------------------------ measures


def test_context_precision_is_ragas() -> None:
    # two useful ones at places 3 and 4: (1/3 + 2/4) / 2
    assert judge.context_precision([False, False, True, True, False]) == pytest.approx(5 / 12)
    assert judge.context_precision([True, False]) == 1.0
    assert judge.context_precision([False]) == 0.0


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_context_precision_never_falls_when_a_useful_context_moves_up(useful: list[bool]) -> None:
    assert judge.context_precision(sorted(useful, reverse=True)) >= judge.context_precision(useful)


def test_documents_stand_where_their_first_passage_stands() -> None:
    corpus = Corpus(tuple(Passage(f"p{i}", f"d{i // 2}", f"text {i}") for i in range(8)))
    gold = report.Gold(
        {"q": frozenset({"p7"})},
        {"q": frozenset({"d3"}), "r": frozenset({"d0"})},
        {"q": frozenset({"d0"})},
        dict.fromkeys("qrs", "one document"),
    )
    table = report.measure({"q": ["p0", "p1", "p2", "p6", "p7"], "r": [], "s": ["p0"]}, gold, corpus)
    assert table.loc["q", "MRR"] == pytest.approx(1 / 3)  # documents d0, d1, d3
    assert table.loc["q", report.ANSWER] == 1
    assert table.loc["q", report.PRECISION] == pytest.approx(1 / 5)
    assert table.loc["q", report.NAMED] == 1
    assert (table.loc["r", list(report.DOCUMENT_MEASURES)] == 0).all()
    assert table[report.ANSWER].isna().tolist() == [False, True, True]
    assert table.loc["s", list(report.MEASURES)].isna().all()


def test_only_the_six_passages_that_are_kept_count() -> None:
    corpus = Corpus(tuple(Passage(f"p{i}", "first" if i < qr.KEPT else "second", f"text {i}") for i in range(9)))
    sources = {"q": frozenset({"second"})}
    table = report.measure({"q": [p.id for p in corpus.passages]}, report.Gold({}, sources, {}, {"q": "d"}), corpus)
    assert (table.loc["q", list(report.DOCUMENT_MEASURES)] == 0).all()  # though it is the second of two documents


def measured(found: list[float], documents: int = 0) -> pd.DataFrame:
    """Measures of questions of so many documents; one of each if left out."""
    columns = dict.fromkeys(report.MEASURES, found)
    sources = [f"document {i % (documents or len(found))}" for i in range(len(found))]
    return pd.DataFrame(columns | {report.SOURCE: sources}, index=[f"q{i}" for i in range(len(found))])


def start() -> record.Run:
    return record.start(notebook="16_qarag_retrieval", paper="qa_rag", profile="smoke", parameters={})


PAPERS = f"cross-encoder {qr.PAPER_RERANKER}"
BETTER, WORSE, EITHER = [1.0] * 12, [-1.0] * 12, [1.0, -1.0] * 6


@pytest.mark.parametrize(("tuned", "verdict"), [(BETTER, "agrees"), (WORSE, "differs"), (EITHER, "undecided")])
def test_claims_are_decided_by_the_stated_tests(tuned: list[float], verdict: str) -> None:
    run = start()
    tables = {"tuned": measured(tuned), "base": measured([0.0] * 12)}
    orders = {report.AS_FOUND: measured([1.0] * 12), PAPERS: measured(tuned), "agent": measured([0.0] * 12)}
    _, tests = report.rerankers_table(run, orders, "agent", {}, 200)
    report.decide_reranker(run, tests, PAPERS, {}, 3)
    report.decide_fine_tuned(run, tables, 200)
    assert [claim.verdict for claim in run.claims] == [verdict, verdict]


def test_a_stand_in_never_decides_the_claim_on_the_papers_reranker() -> None:
    run = start()
    orders = {"best window": measured(BETTER), "P(YES), a model": measured(BETTER), "agent": measured([0.0] * 12)}
    _, tests = report.rerankers_table(run, orders, "agent", {qr.PAPER_RERANKER: "no hub"}, 200)
    report.decide_reranker(run, tests, "best window", {qr.PAPER_RERANKER: "no hub"}, 0)
    (claim,) = run.claims
    assert claim.verdict == "not run"
    assert claim.p is None
    assert "no hub" in claim.why
    assert "stand-in: P(YES), a model, +100.0" in claim.why


def test_without_an_adapter_the_arms_that_need_one_are_missing_and_their_claim_is_not_run() -> None:
    arms = report.answerable({**qr.ARMS, **qr.ABLATIONS}, {"question": {}, "bare": {}, "reference": {}})
    assert set(arms) == {"question", "bare", "bm25", "bm25_bare", "windows", "reference", "question_12"}
    run = start()
    report.decide_fine_tuned(run, {}, 200, "No adapter was trained.")
    assert run.claims[-1].verdict == "not run"
    report.not_rerun(run, ["question"], "No adapter was trained.")
    reasons = {reason.id: reason.why for reason in run._reasons.values()}
    assert reasons["qa_rag.table3.qa_rag.precision"] == "No adapter was trained."
    assert "other arms" in reasons["qa_rag.table3.hyde.precision"]
    tables = {arm: measured(BETTER) for arm in arms}
    theirs = {arm: measured(BETTER) for arm in report.RELEASED}
    assert "Run again on these passages, most is found by" in report.summary(tables, theirs, 200)


def test_questions_of_one_document_count_once() -> None:
    tables = {"qa_rag": measured([1.0] * 12, documents=3), "hyde": measured([0.0] * 12, documents=3)}
    ((test, p),) = report.compare(tables, "qa_rag", ["hyde"], 200).values()
    assert test.n == 12
    assert p > 0.05  # three documents all differ in one direction by chance


def test_the_arms_that_search_by_windows_can_differ(sample: data.Data, searcher: qr.Searcher) -> None:
    queries = qr.plain_queries(sample.test) | {"tuned": {q.id: [q.answer] for q in sample.test}}
    ranked = {
        name: qr.rank(searcher, qr.ARMS[name], queries, sample.test, qr.BestWindow(searcher))
        for name in ("windows", "qa_rag_windows")
    }
    six = {name: {id: rows[: qr.KEPT] for id, rows in of.items()} for name, of in ranked.items()}
    assert six["windows"] != six["qa_rag_windows"]


# ----------------------------------------------------------------------------------------------------------- the judge


def judged(yes_to_others: int) -> tuple[record.Run, dict[str, judge.Verdicts]]:
    """A run whose judge says YES to every passage with the answer, and to so many of twelve others."""
    run = start()
    told = tuple([0.9] * 12 + [0.9] * yes_to_others + [0.1] * (12 - yes_to_others))
    quality = report.quality_scores(judge.Quality((True,) * 12 + (False,) * 12, told, told))
    verdicts = {f"q{i}": judge.Verdicts((0.9, 0.1), (0.9,)) for i in range(4)}
    gold = report.Gold({}, {}, {}, {id: f"document {id}" for id in verdicts})
    report.ragas_table(run, {"qa_rag": verdicts}, quality, gold, "a judge", 200, "note")
    return run, verdicts


def test_a_judge_that_says_yes_to_everything_reruns_no_table() -> None:
    run, _ = judged(12)
    assert run._values == {}
    reasons = [reason.why for reason in run._reasons.values()]
    assert len(reasons) == 4
    assert all("says YES to 100.0 %" in why and "NO to 0.0 %" in why for why in reasons)
    assert {"ragas.qa_rag.precision", "ragas.qa_rag.recall"} <= set(run._extras)


def test_a_judge_that_passes_its_check_reruns_the_tables() -> None:
    run, verdicts = judged(1)
    assert run._reasons == {}
    assert {value.id for value in run._values.values()} >= {
        "qa_rag.table3.qa_rag.precision",
        "qa_rag.table3.qa_rag.recall",
    }
    assert next(iter(verdicts.values())).precision == 1.0


# -------------------------------------------------------------------------------------------------------------- arms


def test_arms_are_compared_on_the_questions_that_both_answered() -> None:
    tables = {"qa_rag": measured([1.0, 1.0, 0.0, 1.0]), "hyde": measured([0.0, 1.0])}
    ((test, _),) = report.compare(tables, "qa_rag", ["hyde"], 200).values()
    assert (test.n, test.b, test.c) == (2, 1, 0)
    assert report.compare(tables | {"multiquery": measured([])}, "qa_rag", ["multiquery"], 200) == {}


def test_a_reranker_that_cannot_be_had_is_said(searcher: qr.Searcher) -> None:
    chosen, missing = report.reranker_of("nobody/no-such-model", searcher)
    assert isinstance(chosen, qr.BestWindow)
    assert "hub" in missing["nobody/no-such-model"]
