"""Released results: what is read, what is refused, the tests between arms, and words that follow the values."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from helpers.results import figures, record
from helpers.results.metrics import Score, paired_means
from helpers.similarity import BertScores
from papers.qa_rag import data, released
from papers.qa_rag import released_report as report
from papers.qa_rag.data import QaRagDataError
from papers.qa_rag.encoders import PAPER_ENCODER
from papers.qa_rag.released import ANSWERS, RAGAS, Released

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


def ragas(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"precision": values, "recall": values / 2})


@pytest.fixture
def made(sample: data.Data) -> Released:
    """Results in the released form, of the sample's questions; QA-RAG is best on every one."""
    n = len(sample.test)
    of = {arm: ragas(np.linspace(0.2, 0.6, n) + (0.3 if arm == "qa_rag" else 0)) for arm in RAGAS}
    means = pd.DataFrame(0.5, index=list(ANSWERS), columns=["precision", "recall", "f1"])
    return Released(of, {arm: [f"{arm} says {i}" for i in range(n)] for arm in ANSWERS}, means, "encoder", ())


def apart_of(sample: data.Data) -> data.Data:
    """The sample as if each test question were of another document."""
    return replace(sample, test=tuple(replace(q, source=q.id) for q in sample.test))


@pytest.fixture
def run() -> record.Run:
    return record.start(notebook="17_qarag_answers", paper="qa_rag", profile="smoke", parameters={})


def test_ragas_of_other_questions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = {"question": ["As described in G , Why?", "How?"], "context_precision": [1, 0.5], "context_recall": [0, 1]}
    pd.DataFrame(rows).to_csv(path)
    assert released.read_ragas(path, ["As described in G, why?", "How?"]).recall.tolist() == [0, 1]
    with pytest.raises(QaRagDataError, match="test questions in order"):
        released.read_ragas(path, ["How?", "As described in G, why?"])
    with pytest.raises(QaRagDataError, match="test questions in order"):
        released.read_ragas(path, ["As described in G, why?"])
    pd.DataFrame(rows | {"context_recall": [None, 1]}).to_csv(path)
    with pytest.raises(QaRagDataError, match="every row"):
        released.read_ragas(path, ["As described in G, why?", "How?"])


def test_answers_that_are_missing_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(json.dumps(["a", "b"]))
    assert released.read_answers(path, 2) == ["a", "b"]
    for wrong in (["a"], ["a", " "], {"a": "b"}):
        path.write_text(json.dumps(wrong))
        with pytest.raises(QaRagDataError, match="2 answers"):
            released.read_answers(path, 2)


def test_the_authors_means_are_read_by_arm(tmp_path: Path) -> None:
    path = tmp_path / "b.csv"
    path.write_text(
        ",precision,recall,f1\nQA_RAG,.5,.6,.55\nMultiquery_questions,.1,.1,.1\nHyDE_with_reranker,.1,.1,.1\n"
        "Only_question,.2,.2,.2\nOnly_hypothetical_answer,.3,.3,.3\n"
    )
    assert released.read_bertscore(path).f1["qa_rag"] == 0.55
    path.write_text(",precision,recall,f1\nQA_RAG,.5,.6,.55\n")
    with pytest.raises(QaRagDataError, match="Only_question"):
        released.read_bertscore(path)


def test_the_encoder_is_read_from_the_authors_notebook(tmp_path: Path) -> None:
    path = tmp_path / "n.ipynb"
    path.write_text(json.dumps({"cells": [{"source": "compute(lang='en', model_type='some/encoder')"}]}))
    assert released.read_encoder(path) == "some/encoder"
    path.write_text("{}")
    with pytest.raises(QaRagDataError, match="found none"):
        released.read_encoder(path)


def test_a_constant_gain_is_significant_and_none_is_not() -> None:
    base = RNG.random(40)
    values = {"a": base + 0.1, "b": base, "c": base + 0.1}
    tests = released.against("a", values, list(range(40)), draws=500).set_index("other")
    assert tests.difference["b"] == pytest.approx(0.1)
    assert tests.p_holm["b"] < 0.05
    assert (tests.better["b"], tests.worse["b"]) == (40, 0)
    assert tests.difference["c"] == 0
    assert tests.p["c"] == 1
    assert (tests.p_holm >= tests.p).all()
    # forty questions of four documents are four
    tests = released.against("a", values, [row % 4 for row in range(40)], draws=500).set_index("other")
    assert tests.p["b"] > 0.05


def test_the_difference_that_so_many_questions_show_is_found_by_the_test_as_often_as_said() -> None:
    rng = np.random.default_rng(1)
    second, noise = rng.random(60), rng.normal(0, 0.1, 60)
    documents = list(range(60))
    needed = released.detectable(second + noise, second, documents)
    found = 0
    for _ in range(100):
        first = second + needed + rng.normal(0, noise.std(ddof=1), 60)
        found += paired_means(first, second, draws=200).p < 0.05
    assert 65 <= found <= 95
    assert released.detectable(second + noise, second, documents, power=0.95) > needed
    # where questions of one document differ alike, fewer things were observed
    twice = released.detectable(np.repeat(second + noise, 2), np.repeat(second, 2), np.repeat(documents, 2))
    assert twice == pytest.approx(needed)


def test_contexts_that_carry_over_do_so_within_questions() -> None:
    contexts = {arm: RNG.random(60) for arm in "abc"}
    level = 10 * RNG.random(60)  # an easy question is easy for every arm: no part of the matter
    documents = [row // 2 for row in range(60)]

    def carried(answers: dict[str, np.ndarray]) -> tuple[Score, float]:
        return released.carries_over(contexts, answers, documents, seed=0, draws=200)

    r, p = carried({arm: of + level for arm, of in contexts.items()})
    assert r.low > 0.99
    assert p < 0.05
    r, p = carried({arm: RNG.random(60) for arm in "abc"})
    assert abs(r.value) < 0.3
    assert r.low < r.value < r.high
    r, p = carried(dict.fromkeys("abc", level))
    assert (r.value, p) == (0.0, 1.0)


def test_who_holds_the_answer_is_counted_without_a_judge(sample: data.Data) -> None:
    held = released.holding(sample)
    assert set(held) == set(sample.released)
    assert len(held) == len(sample.test)
    tests = released.holding_tests(sample, held, 200)
    assert set(tests.other) == set(held) - {"qa_rag"}
    for question in sample.test:
        there = set(data.answer_passages(question, sample.corpus, released.WHOLE))
        assert held.qa_rag[question.id] == bool(there & set(sample.released["qa_rag"][question.id]))


def test_a_judge_is_split_by_what_the_contexts_hold(sample: data.Data, made: Released) -> None:
    held = released.holding(sample)
    judged = released.judged_where(sample, made, draws=200)
    counts = {arm: of["held"].n if "held" in of else 0 for arm, of in judged.items()}
    assert counts == {arm: held[arm].sum() for arm in RAGAS}
    assert any(counts.values())
    assert report.judge_words(judged).count("whole answer") == sum("held" in of for of in judged.values())
    figures.use_style()
    alt = report.judge_words(judged)
    assert figures.figure(report.draw_judge(judged), alt=alt).svg


def test_the_same_contexts_are_found_however_the_judge_differs(sample: data.Data, made: Released) -> None:
    twice = released.judged_twice(sample, made)
    for question, first, second in zip(twice.question, twice["first"], twice["second"], strict=True):
        assert sample.released[first][question] == sample.released[second][question]
    none = report.twice_words(twice.iloc[:0])
    assert "never asked" in none
    one = pd.DataFrame([("q", "a", "b", 0.25, 1.0)], columns=list(twice.columns))
    assert "0.75 apart on average" in report.twice_words(one)


def test_a_passage_that_the_smaller_pool_kept_and_the_larger_lost_is_found(
    sample: data.Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ranking(*passages: tuple[str, float]) -> dict[str, tuple[data.Context, ...]]:
        return {"q": tuple(data.Context("q", "D", text, relevance) for text, relevance in passages)}

    made = {
        "qa_rag": ranking(("a", 3.0), ("b", 1.0)),
        "question": ranking(("a", 3.0), ("b", 1.0)),
        "hypothetical": ranking(("d", 2.0), ("e", 1.0)),
        "question_12": ranking(("c", 2.0), ("e", 0.5)),  # c outranks b; e does not
        "hypothetical_12": ranking(("d", 2.0), ("f", 0.5)),
    }
    by_path = {file.path: arm for arm, name in data.CONTEXTS.items() for file in sample.files if file.name == name}
    monkeypatch.setattr(released, "read_contexts", lambda path: made[by_path[path]])
    rows = released.outranked(sample).set_index(["larger", "smaller"])
    assert rows.passages["question", "question_12"] == 1
    assert rows.passages["hypothetical", "hypothetical_12"] == 0
    assert rows.questions["qa_rag", "hypothetical_12"] == 1
    assert len(report.outranked_table(rows.reset_index())) == len(released.LARGER)


def test_every_number_that_a_file_gives_is_reported(sample: data.Data, made: Released, run: record.Run) -> None:
    found = released.rescore(run, sample, made, draws=200)
    named = {n.id for n in run.printed.numbers if n.rescore_from}
    assert set(found) == named
    sizes = {value.id: value.n for value in run._values.values()}
    assert sizes["qa_rag.text.pairs"] == sizes["qa_rag.text.test_share"] == len(sample.questions)
    assert sizes["qa_rag.table3.qa_rag.precision"] == len(sample.test)
    table = report.rescored_table(run, found)
    assert table["numbers printed"].sum() >= table.rescored.sum() == len(found)
    # the sample's results are not the paper's
    assert (table["to the last digit"] < table.rescored).any()


def test_a_difference_of_rounded_values_is_within_its_tolerance(run: record.Run) -> None:
    number = run.printed.number("qa_rag.text.ablation_loss")
    assert abs(0.01768 - number.value) < (number.within("rescored") or 0) < abs(0.0155 - number.value)


def test_claims_on_contexts_follow_the_values(sample: data.Data, made: Released, run: record.Run) -> None:
    apart = apart_of(sample)
    report.decide_contexts(run, apart, made, report.context_tests(apart, made, 500), 500)
    report.decide_printed(run)
    verdicts = {claim.id.rsplit(".", 1)[-1]: claim.verdict for claim in run.claims}
    assert verdicts["context_precision"] == verdicts["context_recall"] == verdicts["both_tracks_help"] == "agrees"
    assert verdicts["hypothetical_beats_question"] == "undecided"  # both have the same values
    assert verdicts["same_order"] == "agrees"
    assert verdicts["question_is_worst"] == "differs"


def test_what_an_interval_leaves_open_is_undecided(sample: data.Data, made: Released, run: record.Run) -> None:
    noise = np.where(np.arange(len(sample.test)) % 2, 0.3, -0.3)
    for arm, table in made.ragas.items():
        table[["precision", "recall"]] = 0.5
        if arm == "qa_rag":
            table[["precision", "recall"]] += noise[:, None]
    apart = apart_of(sample)
    report.decide_contexts(run, apart, made, report.context_tests(apart, made, 500), 500)
    verdicts = {claim.id.rsplit(".", 1)[-1]: claim.verdict for claim in run.claims}
    assert verdicts["context_precision"] == verdicts["context_recall"] == verdicts["both_tracks_help"] == "undecided"


def test_the_p_of_a_claim_is_that_of_the_part_that_decides_it() -> None:
    rows = [("a", 0.3, 0.2, 0.4, 0.01), ("b", -0.3, -0.4, -0.2, 0.02), ("c", 0.1, -0.1, 0.3, 0.6)]
    tests = pd.DataFrame(rows, columns=["other", "difference", "low", "high", "p_holm"])
    assert report.all_better(tests) == ("differs", 0.02)
    assert report.all_better(tests[tests.other != "b"]) == ("undecided", 0.6)
    assert report.all_better(tests[tests.other == "a"]) == ("agrees", 0.01)


def test_a_judge_that_sees_what_is_there_is_believed(run: record.Run) -> None:
    report.decide_judge(run, {"qa_rag": {"held": Score(0.97, 30, 0.93, 1.0)}})
    assert run.claims[-1].verdict == "agrees"
    report.decide_judge(run, {"qa_rag": {"held": Score(0.38, 37, 0.27, 0.5)}})
    assert run.claims[-1].verdict == "differs"
    report.decide_judge(run, {"qa_rag": {"held": Score(0.92, 5, 0.6, 1.0)}})
    assert run.claims[-1].verdict == "undecided"
    report.decide_judge(run, {"qa_rag": {"none": Score(0.1, 5, 0.0, 0.2)}})
    assert run.claims[-1].verdict == "not run"


def test_answers_are_compared_and_shown(sample: data.Data, made: Released, run: record.Run) -> None:
    n = len(sample.test)
    base = RNG.random(n) / 2
    scores = {arm: BertScores(base, base, base + (0.1 if arm == "qa_rag" else 0), 0) for arm in ANSWERS}
    own = list(range(n))
    tests = released.against("qa_rag", {arm: of.f1 for arm, of in scores.items()}, own, draws=500)
    report.decide_answers(run, sample, made, scores, tests, seed=0, draws=200)
    assert {claim.id: claim.verdict for claim in run.claims}["qa_rag.claim.answers_best"] == "agrees"
    table = report.answers_table(run, sample, made, scores, dict.fromkeys(ANSWERS, base), draws=200)
    assert table.iloc[0]["released answers of"] == "QA-RAG"
    figures.use_style()
    assert f"{n} questions" in report.power_words(run, sample, scores, "an encoder")
    assert "of another encoder" in report.power_words(run, sample, scores, "an encoder")
    assert "of another encoder" not in report.power_words(run, sample, scores, PAPER_ENCODER)
    alt = report.differences_words(run, tests)
    assert "printed +0.010" in alt
    assert figures.figure(report.draw_differences(run, tests), alt=alt).svg
