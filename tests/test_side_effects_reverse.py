"""Reverse queries: parsers, sampling, the arms on a small knowledge, rescoring, weights, claims."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from short_answers import assert_short_answer
from test_graph import graph_server

from evaluation import figures, record, rules
from evaluation.answers import Answer, Item, make_row
from evaluation.outcomes import Outcomes
from helpers.completions import Reply
from helpers.graph import connect
from helpers.llm import LLM
from helpers.vectors import encoder
from papers.side_effects import (
    corpus,
    reverse as sr,
    reverse_arms as arms,
    rules as paper_rules,
)
from papers.side_effects.reverse import Query, canonical, parse_drugs
from papers.side_effects.reverse_arms import SetGenerator, Window

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

word = st.text(
    st.characters(codec="ascii", categories=["Ll", "Nd"]), min_size=2, max_size=10
).filter(
    lambda w: (
        w
        not in {
            "and",
            "drug",
            "drugs",
            "answer",
            "the",
            "is",
            "are",
            "include",
            "includes",
            "including",
        }
    )
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
        (
            "The drugs that may cause nausea are aspirin, miglitol, and v.",
            {"aspirin", "miglitol", "v"},
        ),
        ("**Answer:** aspirin, `v`", {"aspirin", "v"}),
        ("1. Aspirin\n2. 5-FU\n10) Miglitol", {"aspirin", "5-fu", "miglitol"}),
        ("- aspirin: listed in the texts\n- v: listed too", {"aspirin", "v"}),
        ("aspirin: nausea, miglitol: nausea", {"aspirin", "miglitol"}),
        ("", set()),
    ],
)
def test_the_forms_in_which_models_answer(reply, drugs):
    assert parse_drugs(reply) == drugs


# ------------------------------------------------------------------------------------------------------------- queries


def test_case_and_white_space_do_not_tell_names_apart():
    assert canonical(" Hallucination,  Visual\n") == "hallucination, visual"
    assert TRUTH["nausea"] == frozenset(KNOWLEDGE)
    assert sr.make_queries(["NAUSEA"], TRUTH)[0].drugs == TRUTH["nausea"]


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
        sr.make_queries(["no such effect"], TRUTH)


# ---------------------------------------------------------------------------------------------------------------- arms


@pytest.fixture(scope="module")
def stores() -> tuple[corpus.TextStore, corpus.TextStore]:
    encode = encoder()
    return corpus.format_a_store(KNOWLEDGE, encode), corpus.format_b_store(KNOWLEDGE, encode)


def queries_of(*effects: str) -> list[Query]:
    return [Query(canonical(effect), TRUTH[canonical(effect)]) for effect in effects]


def drugs(answer: Answer) -> set[str]:
    """The returned set."""
    return {item.id for item in answer.items if item.predicted}


def value(answer: Answer, measure: str) -> float:
    top, bottom = answer.measures[measure]
    return top / bottom


def test_format_b_with_a_filter_returns_the_catalogued_sets(stores):
    queries = queries_of("nausea", "hallucination, visual", "flatulence", "pain")
    results = arms.FormatBFilter(stores[1], stores[1].index.size)(queries)
    assert [drugs(r) for r in results] == [q.drugs for q in queries]
    assert all(value(r, "latency") > 0 for r in results)


def test_too_few_sentences_retrieved_means_too_few_drugs(stores):
    (result,) = arms.FormatBFilter(stores[1], 2)(queries_of("nausea"))
    assert len(drugs(result)) <= 2


def test_documents_lose_drugs_at_each_step(stores):
    def texts(
        effect: str, documents: int = 10, characters: int = 10_000, **sizes: int
    ) -> list[str]:
        window = Window(documents, characters, **sizes)
        rows = arms.documents_in_window(stores[0], effect, window)
        return [stores[0].texts[row][:characters] for row in rows]

    # "abdominal pain" holds the words of "pain" without being it
    assert {text.split()[2] for text in texts("pain")} == {"v", "aspirin"}
    rows = [stores[0].texts.index(text) for text in texts("pain")]
    assert [arms.lists_within(stores[0], row, "pain", 10_000) for row in rows].count(True) == 1
    assert [len(text) for text in texts("gastric ulcer", characters=105)] == [105] * 3
    assert not any("gastric ulcer" in text for text in texts("gastric ulcer", characters=105))
    assert len(texts("nausea", documents=1)) == 1
    assert texts("nausea", prompt_characters=10) == []
    assert len(texts("nausea", characters=100, prompt_characters=250)) == 2


@given(st.integers(60, 200))
def test_an_effect_is_visible_only_if_its_whole_term_is(stores, characters):
    row = list(KNOWLEDGE).index("aspirin")
    text = stores[0].texts[row]
    for effect in KNOWLEDGE["aspirin"]:
        end = text.index(effect) + len(effect)
        assert arms.lists_within(stores[0], row, effect, characters) == (characters >= end)


class Scripted(LLM):
    """A client without a server: answers are given by a function of the prompt."""

    def __init__(self, answer: Callable[[str], Reply], concurrency: int = 16) -> None:
        self.answer, self.concurrency = answer, concurrency
        self.prompts: list[tuple[Any, dict[str, Any]]] = []

    def chat_many(self, prompts, **options):
        self.prompts += [(p, options) for p in prompts]
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
    arm = arms.FormatBLlm(
        stores[1],
        stores[1].index.size,
        SetGenerator(llm, with_comma=frozenset({"1,25(oh)2d3"})),
        chunk=4,
    )
    (result,) = arm(queries_of("nausea"))
    assert drugs(result) == TRUTH["nausea"]
    assert len(llm.prompts) == 2
    assert (value(result, "read_tokens"), value(result, "written_tokens")) == (20, 10)
    # both chunks are under way at once: the slower one decides
    assert value(result, "llm_seconds") == 1.0
    assert 1.0 < value(result, "latency") < 2.0


def test_an_llm_that_names_the_effect_copies_no_drug(stores):
    queries = queries_of("nausea", "hallucination, visual", "pain")
    texts = iter([' "Nausea."', "hallucination, visual", "the pain"])
    llm = Scripted(lambda _: Reply(next(texts), "complete", 30, 4, 0.5))
    results = arms.FormatBNamed(stores[1], stores[1].index.size, SetGenerator(llm))(queries)
    assert [drugs(r) for r in results] == [queries[0].drugs, queries[1].drugs, frozenset()]
    assert [r.predicted for r in results] == ["nausea", "hallucination, visual", "the pain"]
    assert [value(r, "named") for r in results] == [1, 1, 0]
    assert all(value(r, "llm_seconds") == 0.5 for r in results)
    assert [messages[-1]["content"] for messages, _ in llm.prompts] == [q.text for q in queries]


def test_an_overflow_is_counted_and_nothing_is_returned_for_it(stores):
    arm = arms.FormatBLlm(stores[1], 1000, SetGenerator(Scripted(overflow)), chunk=200)
    (result,) = arm(queries_of("nausea"))
    assert (drugs(result), result.overflow) == (set(), True)


def test_more_chunks_than_the_client_sends_at_once_are_refused(stores):
    arm = arms.FormatBLlm(stores[1], 1000, SetGenerator(Scripted(echo, concurrency=2)), chunk=1)
    with pytest.raises(ValueError, match="concurrency=6"):
        arm(queries_of("nausea"))


def test_format_a_shows_the_model_the_beginning_of_each_document(stores):
    llm = Scripted(echo)
    window = Window(documents=3, characters=95)
    (result,) = arms.FormatALlm(stores[0], window, SetGenerator(llm))(queries_of("nausea"))
    (messages, options) = llm.prompts[0]
    texts = (
        messages[0]["content"].partition("Texts:\n\n")[2].partition("\n\nQuestion")[0].splitlines()
    )
    assert len(texts) == 3
    assert max(len(text) for text in texts) == 95
    inside = {item.id for item in result.items if item.strata["window"] == "inside"}
    assert inside == {text.split()[2] for text in texts if "nausea" in text}
    assert 0 < len(inside) < len(result.items), "a document that is not in the prompt shows nothing"
    assert options["temperature"] == 0.1
    assert options["overflow"] == "record"


def test_no_drug_or_effect_stands_in_an_instruction():
    examples = " ".join(message["content"] for message in arms.naming_prompt("")).lower()
    assert not any(effect in examples for effect in TRUTH)
    fixed = (arms.EXTRACTION + arms.WORDING + examples).lower()
    assert not any(
        f" {drug} " in fixed or f"{drug}," in fixed for drug in KNOWLEDGE if len(drug) > 1
    )


@pytest.mark.engine
def test_the_graph_returns_the_catalogued_sets_and_nothing_for_the_unknown(small_llm, tmp_path):
    # a server of the test's own: on the shared one it would put its few drugs in the place of a running notebook's
    with graph_server(tmp_path) as endpoint, connect(endpoint) as graph:
        corpus.load_graph(graph, KNOWLEDGE, "test of reverse queries")
        queries = queries_of("nausea", "hallucination, visual", "pain")
        assert [{i.id for i in r.items if i.predicted} for r in arms.GraphOnly(graph)(queries)] == [
            q.drugs for q in queries
        ]
        assert arms.expand(graph, " NAUSEA ") != []
        assert arms.expand(graph, "it's \\' } RETURN 1 //") == []
        worded = arms.GraphLlm(graph, SetGenerator(LLM(small_llm, folder=None)), chunk=4)(queries)
        assert [len(r.requests) for r in worded] == [2, 1, 1]
        assert all(value(r, "read_tokens") for r in worded)


# ------------------------------------------------------------------------------------------------------------- results


def test_scores_of_an_answer():
    query = Query("e", frozenset("abcdefgh"))
    row = sr.make_answer(query, frozenset("abcdxy"), 0.25, [Reply("", "complete", 1, 1, 0.5)])
    assert (value(row, "relevant"), value(row, "returned"), value(row, "latency")) == (8, 6, 0.75)
    assert (value(row, "recall"), value(row, "precision"), value(row, "exact")) == (
        0.5,
        pytest.approx(4 / 6),
        0,
    )
    assert value(row, "f1") == pytest.approx(2 * 4 / (6 + 8))
    assert {item.id for item in row.items if item.gold} == query.drugs


def released_file(tmp_path, hits: Sequence[int], drugs: int = 10):
    details = [
        {
            "side_effect": f"E{i}",
            "true_positives": hit,
            "false_positives": 1,
            "false_negatives": drugs - hit,
            "recall": 0,  # not to be believed: it is recomputed
            "latency": 2.0 * i + 1,
        }
        for i, hit in enumerate(hits)
    ]
    path = tmp_path / "released.json"
    arms = ("GraphRAG", "Format_B_Chunked", "Format_A")
    path.write_text(json.dumps({name: {"detailed_results": details} for name in arms}))
    return path


def test_released_scores_are_recomputed_from_the_counts(tmp_path):
    truth = {f"e{i}": frozenset(f"d{j}" for j in range(10)) for i in range(3)}
    rows = sr.read_released_answers(released_file(tmp_path, [9, 10, 8]), "20251103", truth, "m")
    out = Outcomes(rows, draws=200).where(arm="format_b")
    assert out.frame.unit.tolist() == ["e0", "e1", "e2"]
    assert out.score("recall").value == pytest.approx(0.9)
    assert out.score("precision").value == pytest.approx((9 / 10 + 10 / 11 + 8 / 9) / 3)
    assert out.score("throughput").value == pytest.approx(1 / out.score("latency").value)


def made_up(
    share: float,
    wrong: int,
    seconds: Callable[[int], float],
    queries: Sequence[Query],
    not_shown: str = sr.BEYOND,
    **row: Any,
) -> list:
    """An arm that returns a share of each set, of its end if negative, some wrong names, and takes so long for each."""
    rows = []
    for query in queries:
        ordered = sorted(query.drugs, reverse=share < 0)
        names = {*ordered[: round(abs(share) * len(ordered))], *(f"other{i}" for i in range(wrong))}
        reply = Reply("", "complete", 0, 0, seconds(len(ordered)))
        in_window = dict.fromkeys(sorted(query.drugs), not_shown)
        in_window |= dict.fromkeys([*in_window][: (len(ordered) + 1) // 2], sr.INSIDE)
        rows.append(
            make_row(
                sr.make_answer(query, names, 0.001, [reply], in_window=in_window), query, **row
            )
        )
    return rows


def thirty() -> list[Query]:
    sizes = [5 + i for i in range(15)] + [20 + 5 * i for i in range(15)]
    return [Query(f"effect {n}", frozenset(f"drug{j:03}" for j in range(n))) for n in sizes]


PAPERS = "Qwen2.5-7B-Instruct"  # a model that the claims are about
BEHAVIOUR: dict[str, tuple[float, int, Callable[[int], float]]] = {
    "graphrag": (1, 0, lambda n: 0.0),
    "graph_llm": (1, 1, lambda n: 0.05 * n),
    "format_b": (0.98, 0, lambda n: 0.1 * n),
    "format_b_filter": (1, 0, lambda n: 0.02),
    "format_a": (0.4, 1, lambda n: 3.0),
}


def page(
    queries: Sequence[Query] | None = None, **other: tuple[float, int, Callable[[int], float]]
) -> Outcomes:
    used_queries = thirty() if queries is None else queries
    rows = [
        row
        for arm, how in {**BEHAVIOUR, **other}.items()
        for row in sr.weight_as_benchmark(
            made_up(*how, used_queries, arm=arm, model="" if arm == "graphrag" else PAPERS),
            thirty(),
        )
    ]
    return Outcomes(rows, labels=arms.LABELS, draws=200)


@pytest.fixture
def run() -> record.Run:
    return record.start(notebook="02_x", paper="side_effects", profile="smoke", parameters={})


CLAIMS = {
    "graph_is_faster_than_text": "agrees",
    "pairs_nearly_exact_on_sets": "agrees",
    "pairs_slow_with_set_size": "agrees",
    "lists_under_retrieve": "agrees",
    "lists_fail_by_window": "agrees",
}


BY_GRAPH = {"graph_returns_exact_sets": "not run", "graph_is_near_instant": "with the claim"}
"""Claims about the graph alone; another store than the paper's tests them here only, if at all."""


def decide(run: record.Run, out: Outcomes, *claims: str) -> dict[str, str]:
    rules.decide(run, out, *(claims or (*CLAIMS, *BY_GRAPH)))
    return {c.id.rpartition(".")[2]: c.verdict for c in run.claims if c.kind == "rerun"}


def test_a_run_reports_every_printed_number_and_decides_every_claim(run):
    out = page()
    run.report(out, "side_effects.table4", sr.METRICS, model=PAPERS)
    assert {id for _, id in run._values} == {
        n.id for n in run.printed.numbers if n.table == "Table 4"
    }
    values = {
        id.removeprefix("side_effects.table4."): value for (_, id), value in run._values.items()
    }
    assert values["graphrag.recall"].value == 1
    assert values["graphrag.recall"].low < 1
    assert (values["graphrag.f1"].model, values["format_b.f1"].model) == ("", PAPERS)
    assert values["format_b.throughput"].value == pytest.approx(
        1 / values["format_b.latency"].value
    )
    assert decide(run, out) == CLAIMS
    here = {finding.id.rpartition(".")[2]: finding for finding in run.here_findings}
    assert {name: here[name].answer for name in BY_GRAPH} == BY_GRAPH
    assert here["graph_returns_exact_sets"].reason == "by construction"
    assert not any(here[name].models for name in BY_GRAPH), "no language model takes part"


@pytest.mark.parametrize(
    ("seconds", "verdict"), [(3.0, "agrees"), (0.006, "differs"), (0.009, "inconclusive")]
)
def test_each_text_format_takes_more_than_ten_times_as_long(run, seconds, verdict):
    """The graph takes 0.001 seconds, and so does each retrieval."""
    out = page(format_a=(0.2, 1, lambda n: seconds + 0.001 * (n % 3 - 1)))
    claim = "graph_is_faster_than_text"
    assert decide(run, out, claim) == {claim: verdict}


@pytest.mark.parametrize(
    ("share", "verdict", "by_points", "by_errors"),
    [
        (0.3, "agrees", "holds", "holds"),
        (0.98, "inconclusive", "does not hold", "holds"),
    ],
)
def test_the_graph_is_far_above_text_by_points_and_by_errors(
    run, share, verdict, by_points, by_errors
):
    """A text arm that lacks little leaves no room for ten points; the answer key lacks nothing."""
    out = page(format_b=(share, 0, lambda n: 0.1 * n))
    claim = "graphrag_far_above_text_on_sets"
    assert decide(run, out, claim) == {claim: verdict}
    why = next(c.why for c in run.claims if c.kind == "rerun")
    assert f"a lead of more than ten points of F1, the claim {by_points}" in why
    assert f"text retrieval's F1 and 100 %, the claim {by_errors}" in why
    assert "by construction, because the graph is also the answer key" in why


@pytest.mark.parametrize(("share", "verdict"), [(0.2, "agrees"), (0.7, "differs")])
def test_lists_find_few_drugs_if_fewer_than_half(run, share, verdict):
    """However many more another arm finds."""
    out = page(format_a=(share, 0, lambda n: 3.0))
    assert decide(run, out, "lists_under_retrieve") == {"lists_under_retrieve": verdict}


@pytest.mark.parametrize("claim", ["lists_under_retrieve", "lists_fail_by_window"])
def test_a_prompt_that_shows_few_effects_leaves_no_answer_that_could_contradict(run, claim):
    """The prompt shows the effect of every tenth drug at most; the others have no list in it."""
    rows = made_up(0.1, 0, lambda n: 3.0, thirty(), sr.ABSENT, arm="format_a", model=PAPERS)
    hidden = [
        replace(row, items=[replace(item, strata=few(i, item)) for i, item in enumerate(row.items)])
        for row in rows
    ]
    out = Outcomes(hidden, labels=arms.LABELS, draws=200)
    assert decide(run, out, claim) == {claim: "cannot be tested"}
    finding = next(c for c in run.claims if c.kind == "rerun")
    assert finding.reason == "by construction"
    assert "On average over the queries, a perfect reader would find" in finding.why


def few(position: int, item: Item) -> dict[str, str]:
    """Show the effect of every tenth item."""
    if "window" not in item.strata:
        return dict(item.strata)
    return dict(item.strata) | {"window": sr.ABSENT if position % 10 else sr.INSIDE}


def test_the_queries_are_in_the_papers_tiers(run):
    queries = [
        sr.Query(f"e{n}", frozenset(f"d{i}" for i in range(n))) for n in (5, 19, 20, 100, 499, 500)
    ]
    small = sr.Query("e4", frozenset(f"d{i}" for i in range(4)))
    rule = paper_rules.reverse_queries_span_tiers
    assert rule(Outcomes([]), queries=queries).verdict == "agrees"
    assert rule(Outcomes([]), queries=queries[:-1]).verdict == "differs", "no large one"
    assert rule(Outcomes([]), queries=[*queries, small]).verdict == "differs"


def test_a_ratio_of_times_weighs_the_tiers_as_the_benchmark_does():
    """One of nine small queries was drawn, and the only large one."""
    queries = thirty()[:9] + thirty()[15:16]
    drawn = [queries[0], queries[-1]]
    n_large = len(queries[-1].drugs)
    slow = made_up(1, 0, lambda n: 100.0 if n == n_large else 1.0, drawn, arm="slow")
    fast = made_up(1, 0, lambda n: 1.0, queries, arm="fast")
    rows = [*sr.weight_as_benchmark(slow, queries), *sr.weight_as_benchmark(fast, queries)]
    ratio = paper_rules.times_as_long(Outcomes(rows, draws=200), "slow", "fast")
    assert ratio is not None
    assert ratio.value == pytest.approx(0.9 * 1 + 0.1 * 100, rel=0.01)


def test_a_subset_is_weighted_as_the_benchmark_is():
    queries = thirty()[:9] + thirty()[15:16]
    two = [queries[0], queries[-1]]
    rows = made_up(1, 0, float, two[:1], arm="x") + made_up(0, 0, float, two[1:], arm="x")
    assert Outcomes(rows, draws=200).score("recall").value == 0.5
    assert Outcomes(sr.weight_as_benchmark(rows, queries), draws=200).score(
        "recall"
    ).value == pytest.approx(0.9)


def test_six_exact_sets_do_not_show_that_sets_are_nearly_exact(run):
    """However many names they hold: what was drawn are queries."""
    few = [thirty()[i] for i in (0, 1, 2, 27, 28, 29)]
    verdicts = decide(
        run, page(few, format_b=(1, 0, lambda n: 0.1 * n)), "pairs_nearly_exact_on_sets"
    )
    assert verdicts == {"pairs_nearly_exact_on_sets": "inconclusive"}


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.5, "agrees"), (-0.5, "differs"), (1.0, "inconclusive")]
)
def test_the_window_is_judged_within_queries(run, share, verdict):
    """The first half of each set lies in the window."""
    out = page(format_a=(share, 0, lambda n: 3.0))
    assert decide(run, out, "lists_fail_by_window") == {"lists_fail_by_window": verdict}


@pytest.mark.parametrize(
    ("share", "not_shown", "verdict"),
    [
        (0.4, sr.BEYOND, "agrees"),
        (0.4, sr.ABSENT, "agrees"),
        (0.0, sr.ABSENT, "differs"),
    ],
)
def test_the_window_is_the_reason_only_if_it_hides_most_missed_drugs(
    run, share, not_shown, verdict
):
    """Half of each set is shown; the others are cut off, or their lists are not in the prompt."""
    rows = made_up(share, 0, lambda n: 3.0, thirty(), not_shown, arm="format_a", model=PAPERS)
    out = Outcomes(rows, labels=arms.LABELS, draws=200)
    assert decide(run, out, "lists_fail_by_window") == {"lists_fail_by_window": verdict}
    n_absent = re.search(r"([\d,]+) have no list in the prompt", run.claims[0].why)
    assert n_absent, run.claims[0].why
    assert (n_absent[1] == "0") == (not_shown == sr.BEYOND)


def test_few_queries_show_nothing_about_the_window(run):
    assert decide(run, page(thirty()[:5]), "lists_fail_by_window") == {
        "lists_fail_by_window": "not tested"
    }
    assert run.claims[0].reason == "too few"
    assert "of 5 queries have drugs of both kinds" in run.claims[0].why


def test_the_speed_of_leaving_the_model_out_is_told_from_the_graphs():
    table = arms.speeds(page())
    assert len(table) == 3
    with_model, without, both = (
        float(text.split()[0].replace(",", "")) for text in table["times as long"]
    )
    assert with_model > 1000
    assert without == pytest.approx(0.021 / 0.001, rel=0.1)
    assert f"takes about {without:.0f} times as long" in arms.speed_without_llm(page())
    assert both == pytest.approx(2, rel=0.1)


def test_the_answer_tells_what_the_rows_hold():
    text = arms.answer(page(), PAPERS)
    assert f"{PAPERS} copies drug names and reaches an F1 of 9" in text
    assert "on a sample" not in text
    assert "times as long as the graph" in text
    assert "sentences (Format B) for all 30 queries" in text
    assert_short_answer(text)


def test_the_answer_says_on_how_few_queries_it_rests():
    queries = thirty()
    few = made_up(*BEHAVIOUR["format_b"], queries[:10], arm="format_b", model=PAPERS)
    others = page().where(arm=["graphrag", "format_a"])
    text = arms.answer(others.concat(few), PAPERS)
    assert "on a sample of the queries" in text
    assert "(Format B) for 10 of 30 queries, and lists" in text
    assert "On 10 queries, Format B took" in text


def test_a_released_run_is_told_what_the_clients_window_could_show(run):
    """It decides nevertheless, for its prompts are not released."""
    released = [replace(row, items=[], source="released") for row in released_lists(0.1)]
    out = Outcomes(released, labels=arms.LABELS, draws=200)
    rules.decide(run, out, "lists_under_retrieve", shown_by_client=[0.02] * 30)
    finding = next(c for c in run.claims if c.kind == "rescored")
    assert finding.verdict == "agrees"
    assert "a perfect reader of the run's prompts would have found at most 2.0 %" in finding.why


def test_a_test_of_lists_needs_a_wider_window_besides_the_papers_models(run):
    """A model of the paper alone would leave the claims by construction."""
    rows = [replace(row, model="another-model") for row in released_lists(0.1)]
    claims = ("lists_under_retrieve", "lists_fail_by_window")
    rules.decide(run, Outcomes(rows, labels=arms.LABELS, draws=200), *claims)
    for name in claims:
        finding = next(c for c in run.claims if c.id.endswith(name) and c.kind == "rerun")
        assert finding.reason == "another model"
        assert "The test also needs a larger prompt" in finding.why


def released_lists(share: float) -> list[Answer]:
    return made_up(share, 0, lambda n: 3.0, thirty(), arm="format_a", model=PAPERS)


def test_the_clients_window_shows_the_effects_at_the_beginning_of_a_list():
    """A short list is shown whole; in a long one the last effect lies beyond the window."""
    lists = {"short": ["rash"], "long": [*(f"effect number {i}" for i in range(40)), "rash"]}
    format_a = corpus.format_a_store(lists, encoder())
    assert arms.shown_by_client(format_a, [Query("rash", frozenset(lists))]) == [0.5]


def test_latency_is_compared_on_the_queries_that_both_arms_answered():
    queries = thirty()
    rows = made_up(1, 0, lambda n: 1.0, queries[:2], arm="fast") + made_up(
        1, 0, lambda n: 3.0, queries[1:], arm="slow"
    )
    ratio = paper_rules.times_as_long(Outcomes(rows, draws=200), "slow", "fast")
    assert ratio is not None
    assert (ratio.n, ratio.value) == (1, pytest.approx(3, rel=0.01))
    assert paper_rules.times_as_long(Outcomes(rows[2:], draws=200), "slow", "fast") is None


def test_a_rank_correlation_of_few_queries_has_its_exact_p(run):
    sizes, order = [6, 7, 20, 21, 90, 95], [2, 1, 4, 3, 6, 5]
    queries = [Query(f"e{n}", frozenset(f"d{j}" for j in range(n))) for n in sizes]
    seconds = dict(zip(sizes, order, strict=True))
    out = Outcomes(
        made_up(1, 0, lambda n: seconds[n], queries, arm="format_b", model=PAPERS), draws=2000
    )
    assert decide(run, out, "pairs_slow_with_set_size") == {
        "pairs_slow_with_set_size": "inconclusive"
    }
    assert next(c.p for c in run.claims if c.kind == "rerun") == pytest.approx(
        42 / 720
    )  # an approximation says 0.04


def test_the_seconds_that_a_name_costs_are_found_again():
    queries = thirty()
    rows = made_up(1, 0, lambda n: 2 + 0.33 * n, queries, arm="format_b")
    rows += made_up(0.5, 0, lambda n: 4 + 0.66 * (n // 2), queries, arm="format_a")
    out = Outcomes(rows, labels=arms.LABELS)
    words = arms.cost_words(out)
    assert "a line of 2.0 s plus 0.33 s per relevant name explains 100.0 %" in words
    figures.use_style()
    assert figures.figure(arms.draw_cost(out), alt=words).svg


def test_the_window_tells_where_an_effect_stands(stores):
    (query,) = queries_of("gastric ulcer")
    # of aspirin, 5-fu and 1,25(oh)2d3, only the last has it early in its list
    text = stores[0].texts[list(KNOWLEDGE).index("1,25(oh)2d3")]
    window = Window(characters=text.index("gastric ulcer") + len("gastric ulcer"))
    (answer,) = arms.FormatALlm(stores[0], window, SetGenerator(Scripted(echo)))([query])
    inside = {item.id for item in answer.items if item.strata["window"] == "inside"}
    assert inside == {"1,25(oh)2d3"}
    # its document does not reach a prompt that has room for none
    window = Window(characters=window.characters, prompt_characters=10)
    (answer,) = arms.FormatALlm(stores[0], window, SetGenerator(Scripted(echo)))([query])
    assert {item.strata["window"] for item in answer.items} == {sr.ABSENT}
