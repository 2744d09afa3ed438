"""Reverse queries: parsers, sampling, the arms on a small knowledge, rescoring, weights, claims, kept sets."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr
from test_graph import graph_server

from helpers.graph import connect
from helpers.llm import LLM, Reply
from helpers.results import figures, published, record
from helpers.vectors import encoder
from papers.side_effects import forward as se
from papers.side_effects import reverse as sr
from papers.side_effects import reverse_report as report
from papers.side_effects.reverse import Asking, Query, Result, Window, canonical, parse_drugs

KNOWLEDGE = sr.tidy(
    {
        "aspirin": ["nausea", "hallucination, visual", "gastric ulcer", "abdominal pain"],
        "1,25(OH)2D3": ["nausea", "gastric ulcer"],
        "v": ["Nausea", "pain"],
        "5-fu": ["nausea", "hallucination, visual", "gastric ulcer"],
        "miglitol": ["nausea", "flatulence"],
        "acth(1-39": ["flatulence", "nausea"],
    }
)
TRUTH = sr.invert(KNOWLEDGE)

word = st.text(st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=2, max_size=10).filter(
    lambda w: w not in {"and", "drug", "drugs", "answer", "the", "is", "are", "include", "includes", "including"}
)
names = st.lists(word, min_size=1, max_size=15, unique=True)


# ------------------------------------------------------------------------------------------------------------- parsing


@given(names, st.sampled_from([", ", ",", "\n", "\n- ", "; "]))
def test_a_list_of_names_is_read_back_however_it_is_written(drugs, separator):
    assert parse_drugs(separator.join(drugs)) == set(drugs)


@given(names)
def test_a_numbered_list_is_read_back(drugs):
    assert parse_drugs("\n".join(f"{i}. {d.upper()}" for i, d in enumerate(drugs, 1))) == set(drugs)


@given(st.lists(st.sampled_from(sorted(KNOWLEDGE)), min_size=1, unique=True))
def test_names_with_a_comma_a_digit_or_one_letter_survive(drugs):
    assert parse_drugs(", ".join(drugs), {"1,25(oh)2d3"}) == set(drugs)


@pytest.mark.parametrize(
    ("reply", "drugs"),
    [
        ("Drugs that cause nausea: aspirin, miglitol.", {"aspirin", "miglitol"}),
        ("Drugs that cause hallucination, visual: aspirin, 5-fu", {"aspirin", "5-fu"}),
        ("Drugs that cause hallucination, visual:\n- aspirin\n- 5-fu", {"aspirin", "5-fu"}),
        ("The drugs that may cause nausea are aspirin, miglitol, and v.", {"aspirin", "miglitol", "v"}),
        ("**Answer:** aspirin, `v`", {"aspirin", "v"}),
        ("1. Aspirin\n2. 5-FU\n10) Miglitol", {"aspirin", "5-fu", "miglitol"}),
        ("- aspirin: listed in the texts\n- v: listed too", {"aspirin", "v"}),
        ("aspirin: nausea, miglitol: nausea", {"aspirin", "miglitol"}),
        ("", set()),
    ],
)
def test_the_forms_in_which_models_answer(reply, drugs):
    assert parse_drugs(reply) == drugs


def test_a_plain_split_breaks_the_name_with_a_comma_and_loses_the_short_one():
    assert sr.parse_plain("aspirin, 1,25(oh)2d3, v") == {"aspirin", "25(oh)2d3"}
    assert parse_drugs("aspirin, 1,25(oh)2d3, v", {"1,25(oh)2d3"}) == {"aspirin", "1,25(oh)2d3", "v"}


# ------------------------------------------------------------------------------------------------------------- queries


def test_case_and_white_space_do_not_tell_names_apart():
    assert canonical(" Hallucination,  Visual\n") == "hallucination, visual"
    assert TRUTH["nausea"] == frozenset(KNOWLEDGE)
    assert sr.asked(["NAUSEA"], TRUTH)[0].drugs == TRUTH["nausea"]


@pytest.mark.parametrize(
    ("drugs", "tier"),
    [
        (4, None),
        (5, "rare"),
        (19, "rare"),
        (20, "small"),
        (99, "small"),
        (100, "medium"),
        (500, "large"),
        (915, "large"),
    ],
)
def test_tiers_as_printed(drugs, tier):
    assert sr.tier_of(drugs) == tier


def benchmark() -> list[Query]:
    return [
        Query(f"effect {tier} {i}", frozenset(f"d{j}" for j in range(int(low) + i)))
        for tier, (low, _) in sr.TIERS.items()
        for i in range(8)
    ]


@given(st.dictionaries(st.sampled_from(list(sr.TIERS)), st.integers(0, 10)), st.integers(0, 3))
def test_a_subset_has_the_tiers_asked_for_and_does_not_depend_on_the_order(per_tier, seed):
    queries = benchmark()
    subset = sr.stratified(queries, per_tier, seed)
    assert subset == sr.stratified(queries[::-1], per_tier, seed)
    assert len(set(subset)) == len(subset)
    for tier in sr.TIERS:
        assert sum(q.tier == tier for q in subset) == min(8, per_tier.get(tier, 0))


def test_a_larger_subset_holds_the_smaller_one():
    small = sr.stratified(benchmark(), {"rare": 2, "large": 1}, 7)
    assert set(small) < set(sr.stratified(benchmark(), {"rare": 4, "small": 3, "large": 2}, 7))


def test_an_unknown_tier_or_effect_is_refused():
    with pytest.raises(ValueError, match="no tier"):
        sr.stratified(benchmark(), {"huge": 1}, 0)
    with pytest.raises(ValueError, match="not in the ground truth"):
        sr.asked(["no such effect"], TRUTH)


# ---------------------------------------------------------------------------------------------------------------- arms


@pytest.fixture(scope="module")
def stores() -> tuple[se.TextStore, se.TextStore]:
    encode = encoder()
    return se.format_a_store(KNOWLEDGE, encode)[0], se.format_b_store(KNOWLEDGE, encode)[0]


def queries_of(*effects: str) -> list[Query]:
    return sr.asked(effects, TRUTH)


def test_format_b_with_a_filter_returns_the_catalogued_sets(stores):
    queries = queries_of("nausea", "hallucination, visual", "flatulence", "pain")
    results = sr.format_b_filter(stores[1], stores[1].index.size)(queries)
    assert [r.drugs for r in results] == [q.drugs for q in queries]
    assert all(r.seconds > 0 for r in results)


def test_too_few_sentences_retrieved_means_too_few_drugs(stores):
    (result,) = sr.format_b_filter(stores[1], 2)(queries_of("nausea"))
    assert len(result.drugs) <= 2


def test_the_dense_retriever_returns_as_many_drugs_as_are_relevant(stores):
    queries = queries_of("nausea", "flatulence")
    for query, result in zip(queries, sr.dense(stores[1], "{side_effect}")(queries), strict=True):
        assert len(result.drugs) == len(query.drugs)


def test_documents_lose_drugs_at_each_step(stores):
    whole = Window(documents=10, characters=10_000, prompt_characters=100_000)
    lists = sr.lists_of(stores[0], "pain", whole)
    drugs = [{stores[0].pairs[i][0] for i in rows} for rows in (lists.holding, lists.prompted, lists.visible)]
    # "abdominal pain" holds the words of "pain" without being it
    assert drugs == [{"v", "aspirin"}, {"v", "aspirin"}, {"v"}]
    narrow = sr.lists_of(stores[0], "gastric ulcer", Window(documents=10, characters=105, prompt_characters=10**6))
    assert len(narrow.holding) == 3
    assert {stores[0].pairs[i][0] for i in narrow.visible} == set()
    one = sr.lists_of(stores[0], "nausea", Window(documents=1))
    assert len(one.prompted) == 1
    assert sr.lists_of(stores[0], "nausea", Window(prompt_characters=10)).prompted == []


@given(st.integers(60, 200))
def test_an_effect_is_visible_only_if_its_whole_term_is(stores, characters):
    row = list(KNOWLEDGE).index("aspirin")
    text = stores[0].texts[row]
    for effect in KNOWLEDGE["aspirin"]:
        end = text.index(effect) + len(effect)
        assert sr.lists_within(stores[0], row, effect, characters) == (characters >= end)


class Scripted(LLM):
    """A client without a server: answers are given by a function of the prompt."""

    def __init__(self, answer: Callable[[str], Reply], concurrency: int = 16) -> None:
        self.answer, self.concurrency = answer, concurrency
        self.asked: list[tuple[Any, dict[str, Any]]] = []

    def chat_many(self, prompts, **options):
        self.asked += [(p, options) for p in prompts]
        return [self.answer(p[0]["content"]) for p in prompts]


def overflow(_: str) -> Reply:
    """What the client records for a prompt that does not fit."""
    return Reply("", "overflow", 0, 0, 0.5)


def echo(prompt: str) -> Reply:
    """What a model that copies without a slip would answer."""
    names = [line.split()[2] for line in prompt.splitlines() if line.startswith("The drug ")]
    return Reply(", ".join(names), "complete", 10, 5, 1.0)


def test_format_b_merges_its_chunks_and_counts(stores):
    llm = Scripted(echo)
    arm = sr.format_b_llm(stores[1], stores[1].index.size, Asking(llm, frozenset({"1,25(oh)2d3"})), chunk=4)
    (result,) = arm(queries_of("nausea"))
    assert result.drugs == TRUTH["nausea"]
    assert len(llm.asked) == 2
    assert (result.retrieved, result.prompt_tokens, result.generated_tokens) == (6, 20, 10)
    # both chunks are under way at once: the slower one decides
    assert result.steps["read"] == 1.0
    assert result.seconds == pytest.approx(sum(result.steps.values()))


def test_an_llm_that_names_the_effect_copies_no_drug(stores):
    queries = queries_of("nausea", "hallucination, visual", "pain")
    said = iter([' "Nausea."', "hallucination, visual", "the pain"])
    llm = Scripted(lambda _: Reply(next(said), "complete", 30, 4, 0.5))
    results = sr.format_b_named(stores[1], stores[1].index.size, Asking(llm))(queries)
    assert [r.drugs for r in results] == [queries[0].drugs, queries[1].drugs, frozenset()]
    assert [r.replies for r in results] == [("nausea",), ("hallucination, visual",), ("the pain",)]
    assert all(r.steps["read"] == 0.5 and r.steps["retrieve"] > 0 for r in results)
    assert [messages[-1]["content"] for messages, _ in llm.asked] == [q.text for q in queries]


def test_an_overflow_is_counted_and_nothing_is_returned_for_it(stores):
    arm = sr.format_b_llm(stores[1], 1000, Asking(Scripted(overflow)), chunk=200)
    (result,) = arm(queries_of("nausea"))
    assert (result.drugs, result.overflow) == (frozenset(), 1)


def test_more_chunks_than_the_client_sends_at_once_are_refused(stores):
    arm = sr.format_b_llm(stores[1], 1000, Asking(Scripted(echo, concurrency=2)), chunk=1)
    with pytest.raises(ValueError, match="concurrency=6"):
        arm(queries_of("nausea"))


def test_format_a_shows_the_model_the_beginning_of_each_document(stores):
    llm = Scripted(echo)
    (result,) = sr.format_a_llm(stores[0], Window(documents=3, characters=90), Asking(llm))(queries_of("nausea"))
    (messages, options) = llm.asked[0]
    texts = messages[0]["content"].partition("Texts:\n\n")[2].partition("\n\nQuestion")[0].splitlines()
    assert [len(text) for text in texts] == [90, 90, 90]
    assert (result.retrieved, result.prompted) == (6, 3)
    assert options["temperature"] == 0.1
    assert options["overflow"] == "record"


def test_no_drug_or_effect_stands_in_an_instruction():
    examples = " ".join(message["content"] for message in sr.naming_prompt("")).lower()
    assert not any(effect in examples for effect in TRUTH)
    fixed = (sr.EXTRACTION + sr.WORDING + examples + "".join(sr.TEMPLATES)).lower()
    assert not any(f" {drug} " in fixed or f"{drug}," in fixed for drug in KNOWLEDGE if len(drug) > 1)


@pytest.mark.engine
def test_the_graph_returns_the_catalogued_sets_and_nothing_for_the_unknown(small_llm, tmp_path):
    # a server of the test's own: on the shared one it would put its few drugs in the place of a running notebook's
    with graph_server(tmp_path) as endpoint, connect(endpoint) as graph:
        se.load_graph(graph, KNOWLEDGE, "test of reverse queries")
        queries = queries_of("nausea", "hallucination, visual", "pain")
        assert [r.drugs for r in sr.graph_only(graph)(queries)] == [q.drugs for q in queries]
        assert sr.expand(graph, " NAUSEA ") != []
        assert sr.expand(graph, "it's \\' } RETURN 1 //") == []
        worded = sr.graph_llm(graph, Asking(LLM(small_llm, folder=None)), chunk=4)(queries)
        assert [len(r.replies) for r in worded] == [2, 1, 1]
        assert all(r.prompt_tokens and r.retrieved == len(q.drugs) for q, r in zip(queries, worded, strict=True))


# ------------------------------------------------------------------------------------------------------------- results


def results_of(*sets: frozenset[str]) -> list[Result]:
    return [Result(s, {"retrieve": 0.25, "read": 0.5}) for s in sets]


def test_scores_of_a_result():
    query = Query("e", frozenset("abcdefgh"))
    row = sr.score([query], results_of(frozenset("abcdxy"))).iloc[0]
    assert (row.tier, row.relevant, row.returned, row.seconds) == ("rare", 8, 6, 0.75)
    assert (row.recall, row.precision) == (0.5, pytest.approx(4 / 6))
    assert row.f1 == pytest.approx(2 * 4 / (6 + 8))


def test_kept_sets_are_read_back(tmp_path):
    queries = benchmark()[:3]
    sets = [frozenset({"d0", "hallucinated, name"}), frozenset(), queries[2].drugs]
    path = sr.keep_sets(tmp_path / "sets" / "x.json.gz", {"arm": queries}, {"arm": results_of(*sets)})
    relevant, returned = sr.read_sets(path)
    assert relevant == {q.effect: q.drugs for q in queries}
    assert returned == {"arm": {q.effect: s for q, s in zip(queries, sets, strict=True)}}
    once = path.read_bytes()
    assert sr.keep_sets(path, {"arm": queries}, {"arm": results_of(*sets)}).read_bytes() == once


def released_run(tmp_path):
    def rows(hits):
        return [
            {
                "side_effect": f"E{i}",
                "tier": tier,
                "true_positives": hit,
                "false_positives": 1,
                "false_negatives": 10 - hit,
                "recall": 0,  # not to be believed: it is recomputed
                "latency": 2.0 * i + 1,
            }
            for i, (tier, hit) in enumerate(zip(["large", "rare", "rare"], hits, strict=True))
        ]

    content = {
        name: {"detailed_results": rows(hits), "total_time": 10.0}
        for name, hits in {"GraphRAG": [10, 10, 10], "Format_B_Chunked": [9, 10, 8], "Format_A": [0, 5, 1]}.items()
    }
    path = tmp_path / "released.json"
    path.write_text(json.dumps(content))
    return sr.read_released(path)


def test_released_scores_are_recomputed_from_the_counts(tmp_path):
    table = released_run(tmp_path)["format_b"]
    assert table.recall.tolist() == [0.9, 1.0, 0.8]
    assert table.precision.tolist() == pytest.approx([9 / 10, 10 / 11, 8 / 9])
    assert table.effect.tolist() == ["e0", "e1", "e2"]
    assert table.attrs["total"] == 10.0


def test_plain_and_macro_means_differ_where_tiers_do(tmp_path):
    table = released_run(tmp_path)["format_b"]
    assert report.mean_over_tiers(table, "recall", report.weights(table)).value == pytest.approx(0.9)
    assert report.mean_over_tiers(table, "recall", report.macro(table)).value == pytest.approx((0.9 + 0.9) / 2)


@given(st.lists(st.tuples(st.sampled_from(list(sr.TIERS)), st.floats(0, 1)), min_size=1, max_size=30))
def test_with_the_benchmarks_own_weights_the_mean_is_the_plain_mean(rows):
    table = pd.DataFrame(rows, columns=["tier", "recall"])
    score = report.mean_over_tiers(table, "recall", report.weights(table), draws=100)
    assert score.value == pytest.approx(table.recall.mean())
    assert 0 <= score.low <= score.value <= score.high <= 1
    assert score.n == len(table)


def test_a_subset_is_weighted_as_the_benchmark_is():
    whole = pd.DataFrame({"tier": ["rare"] * 9 + ["large"]})
    subset = pd.DataFrame({"tier": ["rare", "large"], "recall": [1.0, 0.0]})
    assert report.mean_over_tiers(subset, "recall", report.weights(whole)).value == pytest.approx(0.9)


def test_a_tier_of_the_benchmark_without_a_query_is_an_error():
    whole = pd.DataFrame({"tier": ["rare", "large"]})
    with pytest.raises(ValueError, match="large"):
        report.mean_over_tiers(pd.DataFrame({"tier": ["rare"], "recall": [1.0]}), "recall", report.weights(whole))


def test_all_perfect_is_not_surely_perfect():
    table = pd.DataFrame({"tier": ["rare"] * 10, "recall": np.ones(10)})
    score = report.mean_over_tiers(table, "recall", report.weights(table))
    assert score.value == 1.0
    assert 0.6 < score.low < 1.0


def test_the_seconds_a_name_costs_are_found_again():
    relevant = np.array([5, 50, 200, 600, 900])
    cost = report.cost_per_name(pd.DataFrame({"relevant": relevant, "seconds": 2 + 0.33 * relevant}), "relevant")
    assert (cost.fixed, cost.per_name, cost.r2) == (pytest.approx(2), pytest.approx(0.33), pytest.approx(1))


# -------------------------------------------------------------------------------------------------------------- report


def made_up_run() -> tuple[list[Query], dict[str, pd.DataFrame]]:
    """Thirty queries of two tiers, and arms of which it is known what they do."""
    sizes = [5 + i for i in range(15)] + [20 + 5 * i for i in range(15)]
    queries = [Query(f"effect {n}", frozenset(f"drug{j}" for j in range(n))) for n in sizes]

    def table(share: float, wrong: int, seconds: Callable[[int], float]) -> pd.DataFrame:
        results = [
            Result(
                frozenset(sorted(q.drugs)[: round(share * len(q.drugs))]) | {f"other{i}" for i in range(wrong)},
                {"retrieve": 0.001, "read": seconds(len(q.drugs)), "parse": 0.0001},
                replies=(", ".join(sorted(q.drugs)),),
            )
            for q in queries
        ]
        return sr.score(queries, results)

    return queries, {
        "graph_only": table(1, 0, lambda n: 0.001),
        "graph_llm": table(1, 1, lambda n: 0.05 * n),
        "format_b_llm": table(0.98, 0, lambda n: 0.1 * n),
        "format_b_named": table(1, 0, lambda n: 0.5),
        "format_b_filter": table(1, 0, lambda n: 0.02),
        "format_a_llm": table(0.2, 1, lambda n: 3.0),
        "format_a_filter": table(0.3, 0, lambda n: 0.02),
        "format_a_top": table(0.1, 0, lambda n: 0.02),
        "dense": table(0.8, 2, lambda n: 0.02),
    }


def seen_in_time(queries: list[Query], inside: float = 0.9, beyond: float = 0.1) -> pd.DataFrame:
    """Half of each query's drugs within the window, and these shares returned of either half."""
    half = np.array([len(q.drugs) // 2 for q in queries])
    return pd.DataFrame(
        {
            "effect": [q.effect for q in queries],
            "relevant": 2 * half,
            "inside": half,
            "beyond": half,
            "inside_returned": (inside * half).round(),
            "beyond_returned": (beyond * half).round(),
        }
    )


def decide(run: record.Run, queries: list[Query], tables: dict[str, pd.DataFrame], window: pd.DataFrame) -> None:
    benchmark = pd.DataFrame({"tier": [q.tier for q in queries]})
    report.decide_claims(run, tables, benchmark, window, 200, model="m", released={}, shown=window)


def verdict_on(run: record.Run, claim: str) -> tuple[str, str]:
    return next((c.verdict, c.why) for c in run.claims if c.id == f"side_effects.claim.{claim}")


def test_a_run_reports_every_printed_number_and_decides_every_claim(tmp_path):
    queries, tables = made_up_run()
    run = record.start(notebook="02_x", paper="side_effects", profile="smoke", parameters={})
    benchmark = pd.DataFrame({"tier": [q.tier for q in queries]})
    report.report_arms(run, tables, benchmark, "some model", 200)
    decide(run, queries, tables, seen_in_time(queries))
    kept = record.load(run.save(tmp_path / "record.json"))

    rerun = {v.id: v for v in kept.values if v.kind == "rerun"}
    printed = {n.id for n in run.printed.numbers if n.table == "Table 4"}
    assert set(rerun) == printed
    exact = rerun["side_effects.table4.graphrag.recall"]
    assert exact.value == 1
    assert exact.low is not None
    assert exact.low < 1
    assert rerun["side_effects.table4.format_b.throughput"].value == pytest.approx(
        1 / rerun["side_effects.table4.format_b.latency"].value
    )
    verdicts = {c.id.removeprefix("side_effects.claim."): c.verdict for c in kept.claims}
    assert verdicts == {
        "graph_returns_exact_sets": "differs",  # the LLM added a name
        "graph_is_near_instant": "agrees",
        "graph_is_faster_than_text": "agrees",
        "pairs_nearly_exact_on_sets": "agrees",
        "pairs_slow_with_set_size": "agrees",
        "lists_under_retrieve": "agrees",
        "lists_fail_by_window": "agrees",
    }


@pytest.mark.parametrize(
    ("inside", "beyond", "verdict"), [(0.9, 0.1, "agrees"), (0.1, 0.9, "differs"), (0.5, 0.5, "undecided")]
)
def test_the_window_is_judged_within_queries(inside, beyond, verdict):
    queries, tables = made_up_run()
    run = record.start(notebook="02_x", paper="side_effects", profile="smoke", parameters={})
    window = seen_in_time(queries, inside, beyond)
    if inside == beyond:
        window[["inside", "beyond", "relevant"]], window[["inside_returned", "beyond_returned"]] = (100, 100, 200), 50
    decide(run, queries, tables, window)
    assert verdict_on(run, "lists_fail_by_window")[0] == verdict


def test_one_drug_within_the_window_of_six_queries_shows_nothing():
    """As in a run of 6 queries: 0 of 1 within the window returned, 9 of 875 beyond it."""
    queries, tables = made_up_run()
    run = record.start(notebook="02_x", paper="side_effects", profile="smoke", parameters={})
    window = pd.DataFrame(
        {
            "effect": [q.effect for q in queries[:6]],
            "relevant": [6, 7, 20, 21, 258, 564],
            "inside": [0, 0, 1, 0, 0, 0],
            "beyond": [6, 7, 19, 21, 258, 564],
            "inside_returned": [0] * 6,
            "beyond_returned": [1, 1, 2, 1, 1, 3],
        }
    )
    decide(run, queries, tables, window)
    verdict, why = verdict_on(run, "lists_fail_by_window")
    assert verdict == "undecided"
    assert "0 of 1 relevant drugs" in why
    assert "9 of 875 of those beyond it" in why


def test_the_speed_of_leaving_the_model_out_is_told_from_the_graphs():
    queries, tables = made_up_run()
    found = report.speeds(tables, 200)
    assert found["paper"].value > 1000
    assert found["without"].value == pytest.approx(0.0211 / 0.0021, rel=0.1)
    assert found["with"].value == pytest.approx(2, rel=0.1)
    run = record.start(notebook="02_x", paper="side_effects", profile="smoke", parameters={})
    decide(run, queries, tables, seen_in_time(queries))
    _, why = verdict_on(run, "graph_is_faster_than_text")
    assert "without an LLM on either side" in why
    assert "with an LLM on both sides" in why
    assert "Most of the graph's speed is that of leaving" in report.opening(found, sample=False)
    # a graph that is as fast with a model in it owes nothing to leaving it out
    fast = tables | {"graph_llm": tables["graph_only"], "format_b_filter": tables["format_b_llm"]}
    assert "stays open" in report.opening(report.speeds(fast, 200), sample=False)


def test_latency_is_compared_on_the_queries_that_both_arms_answered():
    slow = pd.DataFrame({"effect": list("abc"), "seconds": [2.0, 4.0, 900.0]})
    fast = pd.DataFrame({"effect": list("ba"), "seconds": [2.0, 1.0]})
    ratio = report.times_as_long(slow, fast, 200)
    assert (ratio.value, ratio.n) == (2.0, 2)
    tables = made_up_run()[1]
    apart = tables | {"graph_llm": tables["graph_llm"][:3], "format_b_llm": tables["format_b_llm"][3:]}
    assert "with" not in report.speeds(apart, 200)


def test_six_exact_sets_do_not_show_that_sets_are_nearly_exact():
    """Whatever the number of names: what was drawn are queries."""
    queries, tables = made_up_run()
    few = [queries[i] for i in (0, 1, 2, 27, 28, 29)]
    whole = tables["graph_only"][tables["graph_only"].effect.isin([q.effect for q in few])]
    run = record.start(notebook="02_x", paper="side_effects", profile="smoke", parameters={})
    benchmark = pd.DataFrame({"tier": [q.tier for q in queries]})
    report.report_arms(run, tables | {"format_b_llm": whole}, benchmark, "m", 200)
    decide(run, queries, tables | {"format_b_llm": whole}, seen_in_time(queries))
    verdict, why = verdict_on(run, "pairs_nearly_exact_on_sets")
    assert verdict == "undecided"
    printed = run._values["rerun", "side_effects.table4.format_b.f1"]
    assert printed.low is not None
    assert printed.high is not None
    assert f"[{100 * printed.low:.1f}, {100 * printed.high:.1f}], n = 6 queries" in why


def test_a_rank_correlation_of_few_rows_has_its_exact_p():
    few = report.rank_correlation([6, 7, 20, 21, 258, 564], [2, 1, 4, 3, 6, 5])
    assert few.rho == pytest.approx(spearmanr([6, 7, 20, 21, 258, 564], [2, 1, 4, 3, 6, 5]).statistic)
    assert few.p == pytest.approx(42 / 720)  # scipy's approximation says 0.04
    assert few.low < 0 < few.rho < few.high
    many = report.rank_correlation(range(40), range(40))
    assert many.p < 0.001
    assert many.low > 0.99
    assert report.rank_correlation([1, 2, 3], [1, 2, 3]).p == 1
    assert report.rank_correlation([1, 1, 1, 1], [1, 2, 3, 4]).rho == 0


def test_released_recall_is_told_by_the_first_letter(tmp_path):
    released = dict.fromkeys(report.RUNS, released_run(tmp_path))
    released[next(iter(report.RUNS))]["format_a"].loc[1, "effect"] = "ache"
    window = pd.DataFrame({"effect": ["e0", "ache", "e2"], "relevant": 10, "inside": [0, 9, 1]})
    run = record.start(notebook="02_x", paper="side_effects", profile="smoke", parameters={})
    table = report.letters_table(run, released, window, 200)
    assert table["the effect begins with"].tolist() == ['"a"', "another letter"] * 2
    assert [score.value for score in table.recall[:2]] == pytest.approx([0.5, 0.05])
    assert [score.n for score in table.recall[:2]] == [1, 2]
    assert "rho" in report.place_words(released, window)


def test_tables_and_figures_of_a_run():
    queries, tables = made_up_run()
    benchmark = pd.DataFrame({"tier": [q.tier for q in queries]})
    arms = report.arms_table(tables, benchmark, 100)
    assert arms.loc[arms["100 % by construction?"].str.startswith("yes"), "arm"].tolist() == [
        "GraphRAG, graph only",
        "RAG, Format B, filter",
    ]
    latency = report.latency_table(tables)
    assert latency[latency.tier == "all"].arm.tolist() == list(report.LABELS.values())
    steps = report.steps_table(tables, ["format_b_llm"])
    assert [float(share.split()[0]) > 99 for share in steps["share of the LLM"]] == [True, True]
    figures.use_style()
    picture = figures.figure(
        report.draw_by_size(tables, list(report.LABELS), {}, published.published("side_effects")), alt="Drawn."
    )
    assert all(label in picture.svg for label in report.LABELS.values())


def test_an_arm_that_was_not_asked_in_every_tier_has_no_mean_and_that_is_said():
    queries, tables = made_up_run()
    benchmark = pd.DataFrame({"tier": [q.tier for q in queries]})
    some = tables | {"graph_llm": tables["graph_llm"][:2], "format_b_llm": tables["format_b_llm"][13:16]}
    arms = report.arms_table(some, benchmark, 100).set_index("arm")
    assert arms.loc["GraphRAG, graph + LLM", "F1"] == "\N{EN DASH}"
    assert "%" in str(arms.loc["RAG, Format B, LLM", "F1"])
    said = report.gaps(some, benchmark)
    assert "GraphRAG, graph + LLM was not asked in tier small" in said
    assert "one query in tier small, whose spread the intervals do not hold: RAG, Format B, LLM." in said
    assert report.gaps(tables, benchmark) == ""
    assert report.describe_by_size(some, ["graph_only", "graph_llm"]).endswith(" none.")


def test_slips_of_copying_are_told_apart():
    query = Query("e", frozenset({"aspirin", "miglitol", "lithium", "zinc", "ibuprofen"}))
    said = ("aspirin, miglitool", "lithium, metformin, the texts")
    result = Result(frozenset().union(*map(parse_drugs, said)), {}, cut=1, replies=(*said, ""))
    (row,) = report.slips_table([query], [result], frozenset(), query.drugs | {"metformin"}).to_dict("records")
    told = {column: row[column] for column in ("left out", "altered", "other drugs", "no drug", "empty", "cut")}
    assert told == {"left out": 2, "altered": 1, "other drugs": 1, "no drug": 1, "empty": 1, "cut": 1}
    assert row["for example"] == "miglitol as miglitool; the texts"


def test_what_a_figure_says_of_itself_is_made_of_its_values():
    _, tables = made_up_run()
    words = report.describe_by_size(tables, ["graph_only", "format_b_llm"])
    assert "tiers rare, small" in words
    assert "GraphRAG, graph only 0.0021 0.0021; RAG, Format B, LLM 1.2 5.5" in words
    assert words.endswith("GraphRAG, graph only 100.0 100.0; RAG, Format B, LLM 100.0 98.9.")
    line = pd.DataFrame({"relevant": [5, 50, 900], "seconds": [2.0, 11.0, 181.0]})
    said = report.describe_cost({"20251103": {"format_b": line}})
    assert "explains 100 %" in said
    assert "2.0 to 181 seconds" in said


def test_losses_are_told_apart(stores):
    queries = queries_of("nausea")
    everything = sr.format_b_filter(stores[1], 1000)(queries)
    said = "aspirin, 1,25(oh)2d3, v, 5-fu, ibuprofen"
    read = [Result(frozenset(), {}, replies=(said,))]
    table = report.losses_table(queries, everything, read, frozenset({"1,25(oh)2d3"})).set_index("after")
    lost, others = table["lost so far"], table["others there"]
    assert lost.tolist() == [0, 2, 2, 4]
    assert others["parsed, names with a comma kept whole"] == 1
    assert others["parsed, split at every comma"] == 2


def test_the_window_tells_where_an_effect_stands(stores):
    queries = queries_of("gastric ulcer")
    # of aspirin, 5-fu and 1,25(oh)2d3, only the last has it early in its list
    text = stores[0].texts[list(KNOWLEDGE).index("1,25(oh)2d3")]
    characters = text.index("gastric ulcer") + len("gastric ulcer")
    table = report.window_counts(queries, [Result(frozenset({"1,25(oh)2d3"}), {})], stores[0], characters)
    columns = ["relevant", "inside", "beyond", "inside_returned", "beyond_returned"]
    assert table[columns].to_numpy().tolist() == [[3, 1, 2, 1, 0]]
