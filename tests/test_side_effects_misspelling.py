"""Misspelt drug names: the benchmark, each normaliser, what is recovered, and the released files."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import DamerauLevenshtein
from test_graph import graph_server

from helpers import graph
from helpers.llm import LLM
from helpers.results import record
from helpers.settings import RAW, SAMPLE
from papers.side_effects import forward as se
from papers.side_effects import misspelling as mm
from papers.side_effects import misspelling_report as report
from papers.side_effects.forward import Question
from papers.side_effects.misspelling import Answered, Normalised, Query

DRUGS = sorted(yaml.safe_load((SAMPLE / "side_effects.yml").read_text(encoding="utf-8")))
names = st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1, max_size=14)


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    return mm.benchmark(DRUGS, seed=1)


# -------------------------------------------------------------------------------------------------------------- names


@given(name=names, kind=st.sampled_from(mm.EDITS), edits=st.integers(1, 3), seed=st.integers(0, 99))
def test_a_misspelling_is_exactly_so_many_edits_away(name, kind, edits, seed):
    typed = mm.perturb(name, kind, edits, np.random.default_rng(seed))
    if typed is None:
        return
    assert DamerauLevenshtein.distance(typed, name) == edits
    assert len(typed) - len(name) == {"insert": edits, "delete": -edits}.get(kind, 0)
    if kind == "transpose":
        assert Counter(typed) == Counter(name)


@pytest.mark.parametrize("name", ["5-fu", "1,25(oh)2d3"])
def test_only_letters_are_touched(name):
    rng = np.random.default_rng(0)
    for kind in ("delete", "substitute"):
        if typed := mm.perturb(name, kind, 1, rng):
            assert [c for c in typed if not c.isalpha()] == [c for c in name if not c.isalpha()]


def test_a_name_too_short_or_all_alike_is_not_perturbed():
    rng = np.random.default_rng(0)
    assert mm.perturb("v", "insert", 1, rng) is None
    assert mm.perturb("abcde", "delete", 2, rng) is None
    assert mm.perturb("aaaa", "transpose", 1, rng) is None


@pytest.mark.parametrize(("kind", "edits"), [("swap", 1), ("insert", 0)])
def test_an_unknown_edit_is_refused(kind, edits):
    with pytest.raises(ValueError, match="An edit is one of"):
        mm.perturb("metformin", kind, edits, np.random.default_rng(0))


def test_the_benchmark_is_seeded_and_independent_of_the_order_of_the_drugs(queries):
    assert queries == mm.benchmark(DRUGS[::-1], seed=1)
    assert queries != mm.benchmark(DRUGS, seed=2)


@settings(max_examples=20)
@given(st.lists(names, min_size=4, max_size=30, unique=True), st.integers(0, 9))
def test_no_misspelling_is_a_drugs_name(drugs, seed):
    assert not {q.typed for q in mm.perturbed(drugs, seed)} & set(drugs)


def test_the_benchmark_has_every_kind_and_keeps_right_names(queries):
    kinds = Counter(q.kind for q in queries)
    assert set(kinds) >= {*mm.EDITS, "brand", "correct", "absent"}
    assert kinds["correct"] == len(DRUGS)
    assert all(q.typed == q.drug for q in queries if q.kind == "correct")
    assert all(q.drug is None for q in queries if q.kind == "absent")
    assert all(q.typed not in DRUGS for q in queries if q.kind != "correct")


def test_other_names_are_lower_case_said_once_and_disjoint():
    lists = yaml.safe_load(mm.OTHER_NAMES.read_text(encoding="utf-8"))
    asked = [name for kind in mm.OTHER_KINDS for name in lists[f"{kind}s"]] + lists["absent"]
    assert Counter(asked).most_common(1)[0][1] == 1
    assert all(name == name.lower() for name in asked)
    assert not set(lists["absent"]) & {d for kind in mm.OTHER_KINDS for of in lists[f"{kind}s"].values() for d in of}


def test_the_real_benchmark_has_over_a_thousand_names():
    path = RAW / "side_effects" / "drug_names.csv"
    if not path.is_file():
        pytest.skip("the real file has not been fetched")
    real = mm.benchmark(pd.read_csv(path).drug_name, seed=20251121)
    asked = [q for q in real if q.kind not in ("correct", "absent")]
    assert len(asked) > 1000
    cells = Counter((q.kind, q.edits) for q in asked if q.kind in mm.EDITS)
    assert min(cells.values()) > 150


def test_a_subset_is_even_over_kinds_and_edits(queries):
    sizes = {"misspelt": 24, "absent": 3}
    drawn = mm.subset(queries, sizes, seed=3)
    assert Counter(mm.group(q) for q in drawn) == sizes
    assert set(Counter((q.kind, q.edits) for q in drawn if q.kind in mm.EDITS).values()) == {2}
    assert drawn == mm.subset(queries, sizes, seed=3)
    with pytest.raises(ValueError, match="No query is 'brands'"):
        mm.subset(queries, {"brands": 1}, seed=3)


def test_a_name_as_near_to_another_drug_is_ambiguous():
    mine = [Query("prednisolne", "prednisolone", "delete", 1), Query("prednisone", "prednisolone", "delete", 2)]
    assert mm.ambiguous(mine, ["prednisolone", "metformin"]).value == 0
    assert mm.ambiguous(mine[1:], ["prednisolone", "prednisane"]).value == 1


def test_the_papers_list_is_read_and_a_drug_that_is_not_known_has_no_answer(tmp_path):
    path = tmp_path / "names.csv"
    path.write_bytes(
        "\ufeffOriginal,Spelling error,,Comments\nlatanoprost ,latanaprost,,x\nmiglitol,miglitilol,,y\n".encode()
    )
    truths = mm.read_misspellings(path)
    assert truths == {"latanaprost": "latanoprost", "miglitilol": "miglitol"}
    assert [q.drug for q in mm.paper_queries(truths, ["latanoprost"])] == ["latanoprost", None]
    assert [q.edits for q in mm.paper_queries(truths, ["latanoprost"])] == [1, 2]


# -------------------------------------------------------------------------------------------------------- normalisers


def drugs_of(normaliser: mm.Normaliser, *typed: str) -> list[str | None]:
    return [result.drug for result in normaliser(list(typed))]


RANKERS = {
    "edits": mm.by_edits(DRUGS),
    "winkler": mm.by_edits(DRUGS, "jaro_winkler"),
    "ngrams": mm.by_ngrams(DRUGS),
}


@pytest.mark.parametrize("name", RANKERS)
def test_a_ranker_knows_a_right_name_mends_a_slip_and_has_a_cut(name):
    ranker = RANKERS[name]
    normaliser = mm.nearest(ranker, 0.4)
    assert drugs_of(normaliser, *DRUGS) == DRUGS
    assert drugs_of(normaliser, "metfromin", "furosemid") == ["metformin", "furosemide"]
    assert drugs_of(mm.nearest(ranker, 0.99), "metfromin") == [None]
    assert ranker([], 3) == []
    ranked = ranker(["metfromin"], 5)[0]
    assert [s for _, s in ranked] == sorted((s for _, s in ranked), reverse=True)
    assert len({d for d, _ in ranked}) == 5
    assert ranker(DRUGS[:1], 1)[0][0][1] == pytest.approx(1)


@given(st.lists(names, max_size=5))
def test_without_normalisation_only_right_names_are_found(typed):
    assert drugs_of(mm.unchanged(DRUGS), *typed, "metformin")[-1] == "metformin"
    assert all(d is None or d == t for d, t in zip(drugs_of(mm.unchanged(DRUGS), *typed), typed, strict=True))


def test_the_dictionary_knows_trade_names_and_answers_in_our_names():
    pytest.importorskip("drug_named_entity_recognition")
    exact = mm.by_dictionary(["acetaminophen", "fluoxetine"], fuzzy=False)
    assert drugs_of(exact, "tylenol", "paracetamol", "prozac", "floxetine", "breakfast") == [
        "acetaminophen",
        "acetaminophen",
        "fluoxetine",
        None,
        None,
    ]
    fuzzy = mm.by_dictionary(["paracetamol", "metformin"])
    assert drugs_of(fuzzy, "tylenol", "metforminn") == ["paracetamol", "metformin"]


def test_in_turn_asks_the_next_only_where_nothing_was_found():
    seen: list[list[str]] = []

    def second(typed):
        seen.append(list(typed))
        return [Normalised("x", tokens=3) for _ in typed]

    results = mm.in_turn(mm.unchanged(DRUGS), second)(["metformin", "typo"])
    assert [r.drug for r in results] == ["metformin", "x"]
    assert seen == [["typo"]]
    assert [r.tokens for r in results] == [0, 3]


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("Fluoxetine", "fluoxetine"),
        (' "fluoxetine". It is', "fluoxetine"),
        ("5-fu\n", "5-fu"),
        ("", ""),
        ("**x**", "x"),
    ],
)
def test_the_word_is_read_from_a_reply(reply, word):
    assert mm.parse_spelling(reply) == word


def test_no_test_item_stands_in_a_prompt(queries):
    spelling = " ".join(m["content"] for m in mm.spelling_prompt("TYPED")[:-1]).lower()
    choosing = mm.choosing_prompt("TYPED", [])[0]["content"].lower()
    known = (
        {q.typed for q in queries} | set(DRUGS) | set(report.PROMPTED) | {"fluoxetine", "ropinirole", "griseofulvin"}
    )
    real = RAW / "side_effects" / "drug_names.csv"
    if real.is_file():
        drugs = list(pd.read_csv(real).drug_name)
        known |= {q.typed for q in mm.benchmark(drugs, seed=20251121)}
    for prompt in (spelling, choosing):
        assert not set(prompt.replace(".", " ").replace(",", " ").split()) & known


def test_candidates_are_listed_in_alphabetical_order_whatever_the_ranking():
    listed = mm.choosing_prompt("metfromin", ["aspirin", "metformin"])[-1]["content"]
    assert listed.index("1. aspirin") < listed.index("2. metformin") < listed.index("0. none")


# ------------------------------------------------------------------------------------------------------------ scoring


def test_outcomes_are_scored_by_group():
    queries = [
        Query("aspirn", "aspirin", "delete", 1),
        Query("aspirin", "aspirin", "correct"),
        Query("holiday", None, "absent"),
        Query("ibuprofem", "ibuprofen", "substitute", 1),
    ]
    results = [Normalised("aspirin"), Normalised("aspirin"), Normalised("haloperidol"), Normalised(None)]
    assert mm.right(queries, results).tolist() == [True, True, False, False]
    score = mm.correction(queries, results, "misspelt")
    assert score is not None
    assert (score.value, score.n) == (0.5, 2)
    assert mm.correction(queries, results, "brand") is None


def test_the_names_of_one_drug_are_no_independent_names():
    """Ten misspellings of each of four drugs, which a normaliser mends all or not at all."""
    queries = [Query(f"{drug}{i}", drug, "insert", 1) for drug in ("a", "b", "c", "d") for i in range(10)]
    results = [Normalised(q.drug if q.drug in ("a", "b") else None) for q in queries]
    score = mm.correction(queries, results, "misspelt")
    assert score is not None
    assert (score.value, score.n) == (0.5, 40)
    assert score.high - score.low > 0.8  # Wilson over 40 names: 0.3
    alone = mm.correction(queries[::10], results[::10], "misspelt")
    assert alone is not None
    assert (alone.low, alone.high) == pytest.approx((0.15, 0.85), abs=0.01)


def test_a_higher_cut_corrects_less_and_forces_less(queries):
    curve = mm.trade_off(RANKERS["edits"], queries, [0.0, 0.5, 0.8, 1.0])
    for column in ("corrected", "wrong", "forced"):
        assert curve[column].is_monotonic_decreasing
    assert curve.forced.iloc[0] == 1
    assert curve.iloc[-1][["corrected", "wrong", "forced"]].sum() == 0


def test_the_right_drug_is_more_often_among_more_candidates(queries):
    misspelt = [q for q in queries if mm.group(q) == "misspelt"]
    one, five = (mm.candidate_recall(RANKERS["edits"], misspelt, k).value for k in (1, 5))
    assert one <= five <= 1


def answered(answers: list[bool]) -> Answered:
    drugs = [f"d{i // 4}" for i in range(len(answers))]
    return Answered(drugs, [i % 2 == 0 for i in range(len(answers))], list(answers))


def test_the_recovered_share_is_over_drugs_and_never_surer_than_they_are():
    perfect = answered([i % 2 == 0 for i in range(36)])
    nothing = answered([False] * 36)
    seven = answered([i % 2 == 0 and i < 28 for i in range(36)])
    share = mm.recovered(perfect, seven, draws=300)
    assert share is not None
    assert share.value == pytest.approx(0.875)  # 7 of 9 drugs: 2 x 7/9 / (1 + 7/9)
    assert share.low < 0.75
    assert share.high > 0.95
    whole = mm.recovered(perfect, perfect, draws=300)
    assert whole is not None
    assert whole.value == 1
    assert whole.low < 0.75
    lost = mm.recovered(perfect, nothing, draws=300)
    assert lost is not None
    assert (lost.value, lost.low) == (0, 0)
    assert lost.high > 0.2
    assert mm.recovered(nothing, perfect, draws=300) is None


# --------------------------------------------------------------------------------------------------------- downstream


def test_questions_are_asked_under_another_name():
    questions = [Question("aspirin", "nausea", True), Question("ibuprofen", "rash", False)]
    renamed = mm.renamed(questions, {"aspirin": "aspirn"})
    assert [q.drug for q in renamed] == ["aspirn", "ibuprofen"]
    assert mm.as_asked(renamed)[renamed[0]] == se.Entities("aspirn", "nausea")
    assert mm.questions_of(questions, ["ibuprofen"]) == questions[1:]

    def echo(asked):
        return [se.said(q.drug == "aspirin") for q in asked]

    result = mm.ask_as(echo, questions, {"aspirin": "aspirn"})
    assert (result.drugs, result.labels, result.answers) == (["aspirin", "ibuprofen"], [True, False], [False, False])


@pytest.mark.engine
def test_the_graph_finds_only_what_was_normalised(tmp_path):
    knowledge = {"aspirin": ["nausea", "rash"], "ibuprofen": ["rash"]}
    questions = [Question(d, e, e in of) for d, of in knowledge.items() for e in ("nausea", "rash")]
    queries = [
        Query("aspirn", "aspirin", "delete", 1),
        Query("holiday", None, "absent"),
        Query("ibuprofen", "ibuprofen", "correct"),
    ]
    with graph_server(tmp_path) as server, graph.connect(server) as g:
        se.load_graph(g, knowledge, "0" * 64)
        pairs = [(q.drug, q.side_effect) for q in questions]
        assert mm.known_edges(g, pairs) == {(d, e) for d, of in knowledge.items() for e in of}
        assert [p.predicted for p in mm.graph_alone(g)(questions)] == [q.gold for q in questions]
        followed = mm.downstream(
            g,
            questions,
            queries,
            {
                "right": [Normalised("aspirin"), Normalised("ibuprofen"), Normalised("ibuprofen")],
                "wrong": [Normalised("ibuprofen"), Normalised(None), Normalised(None)],
                "none": [Normalised(None), Normalised(None), Normalised(None)],
            },
        )
    assert followed["right"].drugs == ["aspirin"] * 2
    assert [f.answers for f in followed.values()] == [[True, True], [False, True], [False, False]]


@pytest.mark.engine
def test_both_language_model_normalisers_answer_every_name(small_llm, tmp_path):
    llm = LLM(small_llm, folder=tmp_path)
    typed = ["metfromin", "aspirin", "holiday"]
    spelled = mm.by_llm(llm, DRUGS)(typed)
    chosen = mm.by_llm_choice(llm, RANKERS["edits"], k=3)(typed)
    for results in (spelled, chosen):
        assert len(results) == 3
        assert all(r.tokens > 0 and r.drug in {None, *DRUGS} for r in results)
    assert all(r.words in "0123" for r in chosen)
    for name, result in zip(typed, chosen, strict=True):
        assert result.drug in {None, *(d for d, _ in RANKERS["edits"]([name], 3)[0])}


# --------------------------------------------------------------------------------------------------------------- report


def metrics(tp: int, fp: int, fn: int, tn: int) -> dict[str, int]:
    return {"tp": tp, "fp": fp, "fn": fn, "tn": tn}


def test_released_confusion_counts_give_back_their_f1(tmp_path):
    path = tmp_path / "recovery.json"
    results = {"perfect": (9, 1, 0, 8), "raw_misspelled": (0, 0, 9, 9), "llm_corrected": (7, 0, 2, 9)}
    entry = {
        "architecture": "graphrag",
        "results": {name: {"metrics": metrics(*of)} for name, of in results.items()},
    }
    path.write_text(json.dumps([entry]))
    counts = report.read_recovery(path)
    assert counts["graphrag", "normalised"].f1.value == pytest.approx(0.875)
    assert counts["graphrag", "correct"].f1.value == pytest.approx(18 / 19)
    assert counts["graphrag", "misspelt"].f1.value == 0


def test_the_papers_numbers_are_rescored_from_the_released_files():
    paths = {name: RAW / name for name in report.RELEASED}
    if not all(path.is_file() for path in paths.values()):
        pytest.skip("the released files have not been fetched")
    run = record.start(notebook="test", paper="side_effects", profile="laptop", parameters={})
    drugs = list(pd.read_csv(RAW / "side_effects" / "drug_names.csv").drug_name)
    scores = report.rescore(run, paths, drugs)
    assert scores["normalised.graphrag"].value == pytest.approx(0.875)
    assert (scores["all"].value, scores["all"].n) == (0.8, 10)
    assert scores["prompted_left_out"].n == 7
    runs = report.released_runs_table(paths)
    assert (runs["in Table 5"] == "yes").sum() == 2
    assert len(report.spelling_runs_table(paths)) == 4
    truths = mm.read_misspellings(paths[report.NAMES])
    assert set(report.PROMPTED) < set(truths)


def scores_of(**values: float) -> dict[str, record.Score]:
    return {name.replace("__", "."): record.Score(v, 9, max(0.0, v - 0.3), v) for name, v in values.items()}


@pytest.mark.parametrize(
    ("misspelt", "recovery", "verdicts"),
    [
        (0.0, 0.9, ["agrees", "agrees"]),
        (0.1, 0.7, ["differs", "undecided"]),  # from 0.4 to 0.7: one half lies within
        (0.1, 0.3, ["differs", "differs"]),
    ],
)
def test_claims_follow_their_stated_tests(misspelt, recovery, verdicts):
    run = record.start(notebook="test", paper="side_effects", profile="laptop", parameters={})
    scores = scores_of(
        correct__format_b=0.9,
        correct__graphrag=1.0,
        misspelt__format_b=0.0,
        misspelt__graphrag=misspelt,
        recovery__format_b=0.9,
        recovery__graphrag=recovery,
    )
    report.decide_claims(run, scores, "some model")
    assert [claim.verdict for claim in run.claims] == verdicts
    assert "corrected by some model" in run.claims[1].why


def test_an_arm_that_finds_nothing_under_the_right_name_leaves_both_claims_open():
    run = record.start(notebook="test", paper="side_effects", profile="laptop", parameters={})
    scores = scores_of(correct__format_b=0.0, correct__graphrag=1.0, misspelt__format_b=0.0, misspelt__graphrag=0.0)
    report.decide_claims(run, scores | scores_of(recovery__graphrag=0.9), "m")
    assert [claim.verdict for claim in run.claims] == ["undecided", "undecided"]


@pytest.mark.parametrize(
    ("larger", "verdict"),
    [(None, "not run"), (("large", list("abcdefgh")), "agrees"), (("large", ["", *"xxxxxxx"]), "undecided")],
)
def test_the_claim_on_larger_models_needs_a_larger_model(larger, verdict):
    run = record.start(notebook="test", paper="side_effects", profile="laptop", parameters={})
    report.decide_larger_claim(run, list("abcdefgh"), ["?"] * 8, larger)
    assert [claim.verdict for claim in run.claims] == [verdict]


def test_tables_and_figures_hold_every_normaliser(queries):
    outcomes = {"none": mm.normalise(mm.unchanged(DRUGS), queries)}
    outcomes |= {n: mm.normalise(mm.nearest(RANKERS[n], 0.6), queries) for n in ("edits", "winkler")}
    accuracy = report.accuracy_table(queries, outcomes)
    assert len(accuracy) == 3
    assert [s.value for s in accuracy["right names kept"]] == [1, 1, 1]
    assert accuracy["misspelt"].iloc[0].value == 0
    assert report.cost_table(outcomes)["tokens a name"].tolist() == [0, 0, 0]
    assert len(report.edits_table(queries, outcomes)) == len(report.mistakes_table(queries, outcomes)) == 3
    assert report.paired_table(queries, outcomes)["better"].tolist()[:1] == ["edit distance"]
    assert set(report.benchmark_table(queries)["all"]) > {24}
    drawn = {name: (queries, of) for name, of in outcomes.items()}
    figure = report.draw_edits(queries, drawn)
    assert [t.get_text() for t in figure.axes[0].get_xticklabels()] == ["right name", "1 edit", "2 edits", "3 edits"]
    curves = {"edits": mm.trade_off(RANKERS["edits"], queries, [0.2, 0.6])}
    assert report.draw_trade_off(curves, drawn).axes[0].get_xlabel()
    said = report.describe_edits(drawn)
    assert "no normalisation 100, 0, 0, 0;" in said
    assert all(report.label(name) in said for name in drawn)
    assert "lines reach: edit distance" in report.describe_trade_off(curves, drawn, forced=1.0)
    assert "no normalisation 0 and 0;" in report.describe_trade_off(curves, drawn)
