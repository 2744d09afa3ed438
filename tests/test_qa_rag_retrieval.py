"""QA-RAG's retrieval: folders, search by beginning, window and word, arms, rerankers, measures, the judge's scores."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st
from short_answers import assert_short_answer

from evaluation import decisions, record, rules
from evaluation.answers import RELEASED, Answer, make_row, read
from evaluation.audit import OWN
from evaluation.outcomes import Outcomes
from evaluation.published import Claim, published
from helpers import vectors
from helpers.completions import Choice, Reply
from papers.qa_rag import (
    authors,
    data,
    differences,
    folder,
    judge,
    openings,
    released,
    rerankers,
    retrieval as qr,
)
from papers.qa_rag.data import Corpus, Passage
from papers.qa_rag.retrieval import Query
from papers.qa_rag.search import WINDOW, Searcher
from rag.retrieval import reciprocal_rank_fusion
from resources.settings import read_profile

FILLER = "Records are kept in good order and are shown to an inspector who asks for them. "


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


@pytest.fixture(scope="module")
def searcher(sample: data.Data) -> Searcher:
    return Searcher(sample.corpus, vectors.encoder())


# ------------------------------------------------------------------------------------------------------------ folders


def test_a_folder_becomes_chunks_that_overlap(tmp_path: Path) -> None:
    long = " ".join(f"Rule {i} says that {FILLER}" for i in range(320))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "long.txt").write_text(long, encoding="utf-8")
    (tmp_path / "short.txt").write_text("Storage of samples")
    (tmp_path / "empty.md").write_text(" \n")
    corpus, left_out = folder.read_folder(tmp_path)
    assert list(left_out) == ["empty.md"]
    assert corpus.documents == ("short.txt", "sub/long.txt")
    chunks = [p.text for p in corpus.passages if p.document == "sub/long.txt"]
    assert len(chunks) == 4
    assert all(len(chunk) <= folder.CHUNK for chunk in chunks)
    for first, second in pairwise(chunks):
        shared = next(n for n in range(len(second), 0, -1) if first.endswith(second[:n]))
        assert folder.OVERLAP / 2 < shared <= folder.OVERLAP


def test_a_word_with_a_ligature_is_found_by_every_search(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("The e\ufb03cacy of the vaccine, and its treat-\nment.")
    (tmp_path / "b.txt").write_text("Storage of samples")
    library = folder.open_library(tmp_path).searcher
    for query in ("efficacy", "treatment"):
        assert library.search([query], 2, "words") == [[0]]
        assert library.search([query], 1, "windows") == [[0]]
        assert query in library.excerpts(query, [0])[0]


# ------------------------------------------------------------------------------------------------------------- search


def test_what_lies_behind_the_encoders_end_is_found_by_its_window_and_its_words_only() -> None:
    text = "How are kangaroos counted at the aquarium?"
    hidden = FILLER * 30 + "Kangaroos at the aquarium are counted by two divers. " + FILLER * 10
    others = [f"Passage {i} on the aquarium. {FILLER * 20}" for i in range(6)]
    corpus = Corpus(
        tuple(Passage(f"p{i}", f"d{i}", text) for i, text in enumerate([*others, hidden]))
    )
    search = Searcher(corpus, vectors.encoder())
    assert search.n_cut == 7
    assert search.search([text], 1, "windows") == [[6]]
    assert search.search([text], 1, "words") == [[6]]
    assert search.search([text], 3, "start")[0].count(6) == 0
    question = data.Question("q", text, "By two divers.", "", "", text)
    queries = qr.plain_queries([question])
    for name, is_found in (("question", False), ("windows", True)):
        arm = replace(qr.ARMS[name], tracks=(("question", 3),))
        candidates = qr.find_candidates(search, arm, queries, [question])
        assert (6 in candidates["q"]) == is_found, name
    assert "two divers" in search.excerpts(text, [6])[0]
    assert all(len(window) <= WINDOW for window in search.windows)


def test_best_windows_are_the_same_with_an_index_of_all_windows_and_without(
    sample: data.Data, searcher: Searcher
) -> None:
    without = Searcher(sample.corpus, searcher.encode, index_windows=False)
    rows = [0, 3, 5]
    for number, text in enumerate(["How long are samples kept?", "Which label is needed?"]):
        windows, scores = searcher.best_windows(text, rows)
        # the results of both are stored alike, so they are computed here
        computed = without._cosines_of_passages(text, rows)
        best = [int(places[np.argmax(cosines)]) for places, cosines in computed]
        assert best == windows.tolist(), number
        highest = [float(np.max(cosines)) for _, cosines in computed]
        assert np.allclose(highest, scores, atol=1e-5)


def test_words_that_stand_nowhere_find_nothing(searcher: Searcher) -> None:
    assert searcher.search(["zyxwv qqqq"], 5, "words") == [[]]
    assert searcher.search(["the of and"], 5, "words") == [[]]


@given(st.lists(st.lists(st.integers(0, 30), unique=True, max_size=12), max_size=4))
def test_fusion_keeps_each_row_once_and_a_lone_order_as_it_is(rankings: list[list[int]]) -> None:
    order = reciprocal_rank_fusion(rankings)
    assert sorted(order) == sorted({row for ranking in rankings for row in ranking})
    if len(rankings) == 1:
        assert order == rankings[0]


def test_fusion_prefers_what_both_found() -> None:
    assert reciprocal_rank_fusion([[1, 2, 3], [4, 2, 5]])[0] == 2


def test_an_arm_that_lacks_a_text_finds_with_its_other_track_and_counts_as_unread(
    sample: data.Data, searcher: Searcher
) -> None:
    questions = sample.test[:2]
    queries = qr.plain_queries(questions)
    queries["tuned"] = {
        questions[0].id: Query((questions[0].answer,), "key"),
        questions[1].id: Query(()),
    }
    candidates = qr.find_candidates(searcher, qr.ARMS["qa_rag"], queries, questions)
    assert 12 <= len(candidates[questions[0].id]) == len(set(candidates[questions[0].id])) <= 24
    assert len(candidates[questions[1].id]) == min(12, len(sample.corpus))
    gold = qr.find_gold(questions, sample.corpus)
    both, alone = (
        qr.Retrieval(searcher, qr.ARMS[arm], queries, qr.BestWindow(searcher), gold)(questions)
        for arm in ("qa_rag", "hypothetical")
    )
    assert [(a.parsed, a.requests) for a in both] == [(True, ["key"]), (False, [])]
    assert not any(item.rank for item in alone[1].items)
    assert set(alone[1].measures) == set(both[1].measures)
    assert not any(top for top, _ in alone[1].measures.values())


def test_the_exclusion_rule_hides_an_own_document_from_the_question_and_not_from_a_hypothetical_answer(
    sample: data.Data, searcher: Searcher
) -> None:
    title = next(d for d in sample.corpus.documents if "-" not in d)
    question = replace(sample.test[0], source=title)
    queries = qr.plain_queries([question]) | {
        "tuned": {question.id: Query((question.answer,), "key")}
    }

    def documents_of(arm: qr.ArmConfig) -> set[str]:
        rows = qr.find_candidates(
            searcher,
            replace(arm, tracks=tuple((k, len(sample.corpus)) for k, _ in arm.tracks)),
            queries,
            [question],
        )
        return {searcher.corpus.passages[row].document for row in rows[question.id]}

    assert title in documents_of(qr.PRINTED["question"]) & documents_of(qr.AUTHORS["qa_rag_rule"])
    assert title not in documents_of(qr.AUTHORS["question_rule"]) | documents_of(
        qr.AUTHORS["qa_rag_removed"]
    )


def test_the_answer_as_a_query_finds_the_passage_that_holds_it(
    sample: data.Data, searcher: Searcher
) -> None:
    gold = qr.find_gold(sample.test, sample.corpus)
    arm = qr.Retrieval(
        searcher,
        qr.ARMS["reference"],
        qr.plain_queries(sample.test),
        qr.BestWindow(searcher),
        gold,
    )
    rows = [a for a in arm(sample.test) if "answer_found" in a.measures]
    assert rows
    assert all(
        a.measures["answer_found"] == (1.0, 1.0) and any(item.gold for item in a.items)
        for a in rows
    )


def test_a_reranker_orders_and_what_it_could_not_read_comes_last() -> None:
    scores = qr.Relevance(np.array([1.0, np.nan, 9.0, 1.0]), ("a", "b"))
    order, relevance = qr.rerank({"q": [4, 5, 6, 7]}, lambda *_: [scores], {"q": "?"})
    assert order == {"q": [6, 4, 7, 5]}
    gold = qr.Gold({}, {}, {})
    (row,) = qr.make_rows({"q": [Passage("p", "d", "t")]}, gold, relevance=relevance)
    assert not row.parsed
    assert list(row.requests) == ["a", "b"]


# ----------------------------------------------------------------------------------------------------- reading answers


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("8", 8.0),
        ("Score: 7.5/10", 7.5),
        ("10", 10.0),
        ("0", 0.0),
        ("11", np.nan),
        ("very", np.nan),
        ("", np.nan),
    ],
)
def test_a_score_is_read_or_counted_as_unread(text: str, score: float) -> None:
    assert rerankers.read_score(text) == pytest.approx(score, nan_ok=True)


def test_three_questions_are_read_off_a_list() -> None:
    text = "1. How long are samples kept?\n\n- When may samples be destroyed?\n3) Who keeps the samples?\n4. And why?"
    assert qr.read_queries(text) == [
        "How long are samples kept?",
        "When may samples be destroyed?",
        "Who keeps the samples?",
    ]
    assert qr.read_queries("Sure!") == []
    assert qr.read_queries(
        "How long is it?\nHow long is it\nHow long, is it?\nWho keeps the samples?"
    ) == [
        "How long is it?",
        "Who keeps the samples?",
    ]


@given(st.text(min_size=1, max_size=300))
def test_statements_come_from_the_answer(answer: str) -> None:
    statements = judge.statements(answer)
    assert 1 <= len(statements) <= judge.MAX_STATEMENTS
    assert all(statement in answer for statement in statements)


# ------------------------------------------------------------------------------------------------------------ measures


def test_context_precision_is_ragas() -> None:
    # two useful ones at places 3 and 4: (1/3 + 2/4) / 2
    assert qr.context_precision([False, False, True, True, False]) == pytest.approx(5 / 12)
    assert qr.context_precision([True, False]) == 1.0
    assert qr.context_precision([False]) == 0.0


@given(st.lists(st.booleans(), min_size=1, max_size=8))
def test_context_precision_never_falls_when_a_useful_context_moves_up(useful: list[bool]) -> None:
    assert qr.context_precision(sorted(useful, reverse=True)) >= qr.context_precision(useful)


def test_documents_count_where_their_first_passage_is() -> None:
    passages = [Passage(f"p{i}", f"d{i // 2}", f"text {i}") for i in range(8)]
    gold = qr.Gold(
        {"q": frozenset({"p7"})},
        {"q": frozenset({"d3"}), "r": frozenset({"d0"})},
        {"q": frozenset({"d0"})},
    )
    measures = qr.measure_rankings(
        {"q": [*passages[:3], *passages[6:]], "r": [], "s": passages[:1]}, gold
    )
    assert measures["q"]["mrr"] == pytest.approx(1 / 3)  # documents d0, d1, d3
    assert measures["q"]["answer_found"] == measures["q"]["guideline_found"] == 1
    assert measures["q"]["precision_without_judge"] == pytest.approx(1 / 5)
    assert measures["r"] == {"document_recall": 0, "mrr": 0, "ndcg": 0}
    assert measures["s"] == {}


def test_only_the_six_passages_that_are_kept_count() -> None:
    ranking = [
        Passage(f"p{i}", "first" if i < qr.N_SELECTED else "second", f"text {i}") for i in range(9)
    ]
    measures = qr.measure_rankings({"q": ranking}, qr.Gold({}, {"q": frozenset({"second"})}, {}))
    assert set(measures["q"].values()) == {0.0}  # though it is the second of two documents


# -------------------------------------------------------------------------------------------------------------- claims


def rows(arm: str, values: list[float], measure: str, task: str = "") -> list[Answer]:
    """One question of each document, with these values."""
    return [
        Answer(
            arm=arm,
            unit=f"q{i}",
            cluster=f"document {i}",
            task=task,
            measures={measure: (value, 1.0)},
        )
        for i, value in enumerate(values)
    ]


def decide(claim: str, answers: list[Answer]) -> decisions.Decision:
    """Whether a claim holds here."""
    rule = published("qa_rag").claim(f"qa_rag.claim.{claim}").rule
    assert rule
    return rules.evaluate_here(rule, Outcomes(answers, draws=200), paper="qa_rag")


BETTER, WORSE, EITHER = [1.0] * 12, [-1.0] * 12, [1.0, -1.0] * 6


@pytest.mark.parametrize(
    ("values", "verdict"), [(BETTER, "agrees"), (WORSE, "differs"), (EITHER, "inconclusive")]
)
def test_claims_are_decided_by_the_declared_rules(values: list[float], verdict: str) -> None:
    zero = [0.0] * 12
    tuned = rows("hypothetical", values, "document_recall") + rows("hyde", zero, "document_recall")
    assert decide("fine_tuned_beats_hyde", tuned).verdict == verdict
    orders = rows("bge_reranker", values, "ndcg", "rerank") + rows(
        "scoring_agent", zero, "ndcg", "rerank"
    )
    assert decide("reranker_beats_agent", orders).verdict == verdict


def test_answers_to_the_authors_prompt_decide_before_those_to_the_books_if_it_has_the_question() -> (
    None
):
    orders = rows("best_window", BETTER, "ndcg", "rerank")
    orders += rows("scoring_agent", WORSE, "ndcg", "rerank")
    other_reranker = decide("reranker_beats_agent", orders)
    assert (other_reranker.verdict, other_reranker.reason) == ("not tested", "no answers")
    orders += rows("bge_reranker", [0.0] * 12, "ndcg", "rerank")
    orders += rows("authors_agent", BETTER, "ndcg", "rerank")  # its prompt omits the question
    assert decide("reranker_beats_agent", orders).verdict == "agrees"
    measure = "precision_without_judge"
    for question, ending in (("question", "_same_documents"), ("question_rule", "")):
        claim = f"hypothetical_beats_question{ending}"
        searches = rows(question, [0.0] * 12, measure) + rows("hypothetical", WORSE, measure)
        assert decide(claim, searches).verdict == "differs"
        searches += rows("hypothetical_authors", BETTER, measure)
        assert decide(claim, searches).verdict == "agrees"


@pytest.mark.parametrize(
    ("claim", "own", "authors", "other"),
    [
        ("beats_conventional_rag", "qa_rag_rule", "qa_rag_authors_rule", "question_rule"),
        ("beats_conventional_rag_same_documents", "qa_rag", "qa_rag_authors", "question"),
        ("answer_track_helps", "qa_rag", "qa_rag_authors", "question_12"),
    ],
)
def test_a_claim_over_all_questions_is_asked_of_arms_with_the_rule_and_its_twin_of_those_without(
    claim: str, own: str, authors: str, other: str
) -> None:
    measure = "precision_without_judge"
    searches = rows(own, WORSE, measure) + rows(other, [0.0] * 12, measure)
    assert decide(claim, searches).verdict == "differs"
    searches += rows(authors, BETTER, measure)
    assert decide(claim, searches).verdict == "agrees"
    assert {"qa_rag_authors", "qa_rag_authors_rule", "hypothetical_12_authors"} <= set(qr.AUTHORS)


def _rules_by_the_authors_message() -> list[tuple[str, str, str]]:
    """First arm, second arm and measure of what decides here, from the declared rules."""
    compared = []
    for claim in published("qa_rag").claims:
        parts = claim.rule.first_of if claim.rule else ()
        for part in parts:
            for rule in part.all_of or (part,):
                is_asked = rule.here_only and any("authors" in arm for arm in rule.first)
                if is_asked and rule.measure != "ndcg":
                    compared += [(rule.first[0], other, rule.measure) for other in rule.than]
    return compared


def test_the_table_of_deciding_comparisons_has_those_of_the_rules() -> None:
    declared = _rules_by_the_authors_message()
    shown = {(*pair, measure) for measure, pairs in differences.DECIDING for pair in pairs}
    assert declared
    assert set(declared) <= shown
    answers = rows("hypothetical_authors", BETTER, "document_recall")
    answers += rows("hyde_authors", [0.0] * 12, "document_recall")
    table = differences.deciding_table(Outcomes(answers, draws=200))
    assert table[["measure", "n", "adjusted"]].to_numpy().tolist() == [
        ["document recall", 12, "no"]
    ]


def test_here_too_p_is_adjusted_over_the_comparisons_of_table_5() -> None:
    found = [0.6, 0.4, 0.5, 0.6, 0.5, 0.6, 0.5, 0.6, 0.5, 0.5, 0.5, 0.6]  # seven above a half
    searches = []
    for measure in ("precision_without_judge", "answer_found"):
        searches += rows("qa_rag_authors", found, measure)
        searches += rows("hypothetical_12_authors", [0.5] * 12, measure)
    alone = decide("both_tracks_help", searches)
    for measure in ("precision_without_judge", "answer_found"):
        searches += rows("question_12", found, measure)
    in_family = decide("both_tracks_help", searches)
    assert alone.p is not None
    assert in_family.p == pytest.approx(min(1.0, 2 * alone.p))
    table = differences.deciding_table(Outcomes(searches, draws=200))
    assert set(table.adjusted) == {"Holm over two"}
    assert table.p.tolist()[0] == table.p.tolist()[2]


def test_the_name_of_an_arm_has_commas_and_colons_in_parentheses_alone() -> None:
    labels = qr.LABELS | judge.LABELS | released.ARMS | released.AGENT_LABELS | authors.LABELS
    for label in labels.values():
        outside = re.sub(r"\(.*?\)", "", label)
        assert not set(outside) & {",", ":"}, label


def test_the_opening_has_what_was_found_first_and_the_differences_below() -> None:
    found = {"question": [0.0, 0.0, 1.0, 0.0] * 6, "hypothetical": [1.0, 1.0, 1.0, 0.0] * 6}
    searches = []
    for arm, values in found.items():
        for place, row in enumerate(rows(arm, values, "answer_found")):
            own = data.REMOVED if place % 2 else data.UNRECOGNISED
            searches.append(replace(row, source="released", strata={data.OWN: own}))
    for arm in ("question", "bm25_bare", "qa_rag", "question_rule", "qa_rag_rule"):
        searches += rows(
            arm, found["hypothetical" if "qa_rag" in arm else "question"], "answer_found"
        )
    opening = openings.retrieval(Outcomes(searches, labels=qr.LABELS, draws=200))
    first, below = opening.split("\n\n")
    assert "75.0 % of 24 questions, significantly more than the search by question" in first
    assert "25.0 %" in first
    assert_short_answer(opening)
    assert "the authors' code removed this document" in below
    assert "after Holm's correction over two tests" in below


def test_the_fine_tuned_model_is_compared_with_hyde_by_the_authors_prompts_if_they_ran() -> None:
    answers = rows("hypothetical", WORSE, "document_recall")
    answers += rows("hyde", [0.0] * 12, "document_recall")
    assert decide("fine_tuned_beats_hyde", answers).verdict == "differs"
    answers += rows("hypothetical_authors", BETTER, "document_recall")
    answers += rows("hyde_authors", [0.0] * 12, "document_recall")
    assert decide("fine_tuned_beats_hyde", answers).verdict == "agrees"


def test_dense_search_is_asked_here_alone_for_the_papers_index_is_not_searched() -> None:
    rule = published("qa_rag").claim("qa_rag.claim.dense_beats_sparse").rule
    assert rule
    answers = rows("question", BETTER, "answer_found") + rows("bm25", [0.0] * 12, "answer_found")
    assert decide("dense_beats_sparse", answers).verdict == "agrees"
    out = Outcomes(answers, draws=200)
    for encoder in ("all-MiniLM-L6-v2", "BAAI/LLM-Embedder"):
        facts = {"served": [encoder]}
        decision = rules.evaluate(rule, out, "rerun", paper="qa_rag", facts=facts)
        assert (decision.verdict, decision.reason) == ("not tested", "another system")
        assert "the paper's index" in decision.why


def _claims_by_either_prompt() -> list[Claim]:
    """The claims that answers to the authors' message decide here, or those to this project's."""
    claims = []
    for claim in published("qa_rag").claims:
        if claim.rule and any(arm.endswith("_authors") for arm in claim.rule.arms):
            claims.append(claim)
    return claims


@pytest.mark.parametrize("claim", _claims_by_either_prompt(), ids=lambda claim: claim.id)
def test_a_note_says_where_the_choice_of_prompt_decides_what_holds_here(claim: Claim) -> None:
    out = Outcomes(read(RELEASED / "16_qarag_retrieval"), draws=2000)
    assert claim.rule
    by_authors, by_project = claim.rule.first_of[-2:]
    verdicts = set()
    for rule in (by_authors, by_project):
        verdicts.add(rules.evaluate_here(rule, out, paper="qa_rag").verdict)
    assert ("decides the verdict." in claim.note) == (len(verdicts) > 1)


def test_no_verdict_on_the_papers_system_rests_on_a_stand_in() -> None:
    """A rerun gives a verdict on the paper's system only if the rule names the paper's models."""
    unguarded = []
    for claim in published("qa_rag").claims:
        rule = claim.rule
        if rule and "rerun" in rule.bases and not (rule.here_only or rule.scope):
            unguarded.append(claim.id)
    assert not unguarded


def test_without_an_adapter_the_arms_that_need_one_are_missing_and_their_claim_is_not_run() -> None:
    arms = qr.arms_with_queries({"question": {}, "bare": {}, "reference": {}})
    plain = {"question", "bare", "bm25", "bm25_bare", "windows", "windows_bare"}
    plain |= {"reference", "question_12"}
    assert set(arms) == plain
    assert (
        decide("fine_tuned_beats_hyde", rows("question", BETTER, "document_recall")).verdict
        == "not tested"
    )


# ----------------------------------------------------------------------------------------------------------- the judge


@pytest.mark.parametrize(
    ("recall", "n", "unfit", "result"),
    [
        (1.0, 40, "", ("agrees", None)),
        (0.4, 40, "", ("differs", None)),
        (1.0, 5, "", ("not tested", "too few")),
        (1.0, 0, "", ("not tested", "no answers")),
        (1.0, 40, "It accepts everything", ("not tested", "judge at chance")),
    ],
)
def test_recall_is_asked_of_a_judge_that_is_fit(
    recall: float, n: int, unfit: str, result: tuple[str, str | None]
) -> None:
    judged = rows("qa_rag", [recall] * n, "recall", "judged")
    judged = [replace(row, strata={"holds": data.WHOLE_ANSWER}) for row in judged]
    answers = judged + rows("question", [0.0] * 8, "answer_found")
    rule = published("qa_rag").claim("qa_rag.claim.recall_is_recall").rule
    assert rule
    decision = rules.evaluate_here(
        rule, Outcomes(answers, draws=200), paper="qa_rag", facts={"unfit": {"recall": unfit}}
    )
    assert (decision.verdict, decision.reason) == result


def run_with_judge(sample: data.Data, accepted: int) -> tuple[record.Run, str]:
    """A run whose judge accepts every passage with the answer, and so many of twelve others; and what is shown."""
    run = record.start(
        notebook="16_qarag_retrieval", paper="qa_rag", profile="smoke", parameters={}
    )
    checked = [
        make_row(Answer(predicted="YES" if truth == "YES" or i < accepted else "NO"), pair, arm=arm)
        for i in range(12)
        for truth in ("YES", "NO")
        for pair in [
            judge.Known(
                f"q{i}, {truth}", f"document {i}", "Why?", truth, question=sample.test[0], row=0
            )
        ]
        for arm in judge.CHECKED_BY.values()
    ]
    refused = {
        m: judge.unfit(Outcomes(checked, draws=200), m, "a judge") for m in ("precision", "recall")
    }
    contexts = [
        Answer(
            arm=arm,
            unit=f"q{i}",
            cluster=f"d{i}",
            measures={"precision": (first, 1.0), "recall": (0.5, 1.0)},
        )
        for arm, first in {"qa_rag": 1.0, "qa_rag_agent": 0.25, "question_12": 0.75}.items()
        for i in range(4)
    ]
    return run, judge.report(
        run, Outcomes(contexts, draws=200), refused, "a judge", "No adapter was trained."
    ).text


def test_a_judge_that_accepts_everything_reruns_no_table(sample: data.Data) -> None:
    run, report = run_with_judge(sample, 12)
    assert run._values == {}
    assert "0.717" not in report
    assert "rejects 0.0 %" in report
    assert "(sensitivity)" in report
    reasons = {reason.id: reason.why for reason in run._reasons.values()}
    assert "rejects 0.0 %" in reasons["qa_rag.table3.qa_rag.precision"]
    assert "100.0 %" in reasons["qa_rag.table3.qa_rag.precision"]  # what it gave
    assert reasons["qa_rag.table3.hypothetical.precision"] == "No adapter was trained."
    assert "rejects 0.0 %" in reasons["qa_rag.table2.hyde.recall_agent"]
    assert "It gave" not in reasons["qa_rag.table2.hyde.recall_agent"]
    assert len(reasons) == 36  # every number of Tables 2, 3 and 5


def test_a_judge_that_passes_its_check_reruns_the_tables(sample: data.Data) -> None:
    run, report = run_with_judge(sample, 1)
    assert "0.717" in report
    assert "did not rerun" not in report
    values = {value.id: value.value for value in run._values.values()}
    assert values == {
        "qa_rag.table2.qa_rag.precision_reranker": 1.0,
        "qa_rag.table2.qa_rag.recall_reranker": 0.5,
        "qa_rag.table2.qa_rag.precision_agent": 0.25,
        "qa_rag.table2.qa_rag.recall_agent": 0.5,
        "qa_rag.table3.qa_rag.precision": 1.0,
        "qa_rag.table3.qa_rag.recall": 0.5,
        "qa_rag.table5.qa_rag.precision": 1.0,
        "qa_rag.table5.qa_rag.recall": 0.5,
        "qa_rag.table5.question.precision": 0.75,
        "qa_rag.table5.question.recall": 0.5,
    }
    reasons = {reason.id: reason.why for reason in run._reasons.values()}
    assert "other arms" in reasons["qa_rag.table3.hyde.precision"]


def test_the_paper_profile_judges_every_arm_of_the_tables() -> None:
    arms = {judge.judged_arm(number.id) for number in published("qa_rag").numbers} - {""}
    assert len(arms) == 12
    judged_arms = read_profile("paper")["16_qarag_retrieval"]["judged_arms"]
    assert arms == {
        *judged_arms,
        *(f"{arm}{judge.AGENT}" for arm in judged_arms if f"{arm}{judge.AGENT}" in judge.LABELS),
    }
    assert set(judged_arms) <= set(qr.ARMS)


def test_a_judge_reads_the_six_that_the_scoring_agent_selects_and_finds_nothing_in_none(
    sample: data.Data, searcher: Searcher
) -> None:
    gold = qr.find_gold(sample.test, sample.corpus)
    questions = [q for q in sample.test if q.id in gold.passages][:2]
    passages_with_answer = {q.id: gold.passages[q.id] for q in questions}

    class Scripted:
        """Gives 9 to an excerpt of a passage with an answer and 1 to others; accepts every excerpt but the first."""

        def chat_many(self, prompts: list[list[dict[str, str]]], **_: object) -> list[Reply]:
            texts = [
                p.text
                for p in sample.corpus.passages
                if p.id in frozenset().union(*passages_with_answer.values())
            ]
            excerpts = [
                str(p[-1]["content"]).partition("Excerpt:\n")[2].partition("\n\nQuestion:")[0]
                for p in prompts
            ]
            return [
                Reply("9" if any(s in t for t in texts) else "1", "complete", 1, 1, 0.1)
                for s in excerpts
            ]

        def choose_many(self, prompts: list[object], *_: object, **__: object) -> list[Choice]:
            says = [{"YES": -0.1, "NO": -2.4}, {"YES": -2.4, "NO": -0.1}]
            return [Choice("", says[i == 0], 1, 0, 0.1) for i in range(len(prompts))]

    model = Scripted()
    agent = rerankers.ScoringAgent(searcher, model)  # type: ignore[arg-type]
    queries = qr.plain_queries(questions)
    six = qr.Retrieval(searcher, qr.ARMS["question"], queries, agent).select_ids(questions)
    assert all(
        len(ids) == qr.N_SELECTED and ids[0] in frozenset().union(*passages_with_answer.values())
        for ids in six.values()
    )
    reader = judge.Judge(searcher, model)  # type: ignore[arg-type]
    judged_rows = judge.JudgedContexts(reader, six | {questions[1].id: []})(questions)
    assert judged_rows[0].measures["precision"][0] == pytest.approx(
        qr.context_precision([False, *[True] * 5])
    )
    assert judged_rows[1].measures == {"precision": (0.0, 1.0), "recall": (0.0, 1.0)}
    assert not judged_rows[1].requests


def test_the_judge_of_precision_sees_question_and_context_and_no_answer(
    sample: data.Data, searcher: Searcher
) -> None:
    gold = qr.find_gold(sample.test, sample.corpus)
    question = next(q for q in sample.test if q.id in gold.passages)
    passages = sample.corpus.passages
    row = next(n for n, p in enumerate(passages) if p.id not in gold.passages[question.id])

    class Remembers:
        def __init__(self) -> None:
            self.prompts: list[list[dict[str, str]]] = []

        def choose_many(
            self, prompts: list[list[dict[str, str]]], *_: object, **__: object
        ) -> list[Choice]:
            self.prompts += prompts
            return [Choice("", {"YES": -0.1, "NO": -2.4}, 1, 0, 0.1) for _ in prompts]

    model = Remembers()
    reader = judge.Judge(searcher, model)  # type: ignore[arg-type]
    judge.JudgedContexts(reader, {question.id: [passages[row].id]})([question])
    precision, *recall = (prompt[-1]["content"] for prompt in model.prompts)
    assert question.text in precision
    (window,) = searcher.excerpts(question.text, [row])
    assert window.strip() in precision
    assert data.words(question.answer)[:80] not in data.words(precision)
    assert len(recall) == len(judge.statements(question.answer))
    pair = judge.Known("q, NO", "d", "", "NO", question=question, row=row)
    assert reader.useful_prompt(pair)[-1]["content"] == precision


def test_known_passages_hold_the_answer_or_none_of_it(
    sample: data.Data, searcher: Searcher
) -> None:
    candidates = qr.find_candidates(
        searcher, qr.ARMS["question"], qr.plain_queries(sample.test), sample.test
    )
    pairs = judge.known(sample.test, searcher, candidates)
    assert pairs
    for pair in pairs:
        share = data.share_held(pair.question.answer, [sample.corpus.passages[pair.row].text])
        assert share >= data.MIN_SHARE_HELD if pair.gold == "YES" else share == 0


def test_a_reranker_that_cannot_be_had_is_named(searcher: Searcher) -> None:
    (arm, _), missing = rerankers.choose_reranker("nobody/no-such-model", searcher)
    assert arm == "best_window"
    assert "hub" in missing["nobody/no-such-model"]


def test_a_chapter_may_ask_one_question_of_a_claim() -> None:
    """Chapter 16 has no released scores, chapter 17 no searches of its own: none says "not tested"."""
    claim = "qa_rag.claim.beats_conventional_rag_same_documents"
    measures = {
        "rerun": ("precision_without_judge", ""),
        "released": ("precision", "contexts"),
    }
    rows = []
    for source, (measure, task) in measures.items():
        for arm, value in (("qa_rag", 0.9), ("question", 0.5)):
            for i in range(12):
                row = Answer(arm=arm, unit=f"q{i}", cluster=f"d{i}", source=source, task=task)
                rows.append(replace(row, measures={measure: (value, 1.0)}))
    rows = [replace(row, strata={OWN: data.UNRECOGNISED}) for row in rows]
    outcomes = Outcomes(rows, draws=300)
    run = record.start(
        notebook="16_qarag_retrieval", paper="qa_rag", profile="smoke", parameters={}
    )
    table = rules.decide_here(run, outcomes, claim.removeprefix("qa_rag.claim."))
    assert [(answer.id, answer.answer) for answer in run.here_findings] == [
        (claim, "with the claim")
    ]
    assert not run.claims
    assert "with the claim" in table.html
    assert "released files" not in table.html
    assert "(task: )" not in table.html
    run = record.start(notebook="17_qarag_answers", paper="qa_rag", profile="smoke", parameters={})
    table = rules.decide_for_paper(run, outcomes, claim.removeprefix("qa_rag.claim."))
    assert [(claim_record.kind, claim_record.verdict) for claim_record in run.claims] == [
        ("rescored", "agrees")
    ]
    assert not run.here_findings
    assert "with the claim" not in table.html
