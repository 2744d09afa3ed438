"""What a run of reverse queries (side_effects.md, Table 4) reports: rescoring, means, claims, tables and figures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein
from scipy.stats import linregress, rankdata

from helpers.results import figures, verdicts
from helpers.results.metrics import DRAWS, Score, bootstrap, p50, p95, paired_means, proportion
from helpers.results.published import Published
from helpers.results.record import Run
from papers.side_effects.forward import TextStore, share_of
from papers.side_effects.reverse import (
    METRICS,
    TIERS,
    Query,
    Result,
    lists_within,
    parse_drugs,
    parse_plain,
)

PRINTED = ("graphrag", "format_b", "format_a")
"""The arms of Table 4, in its order."""
LABELS = {
    "graph_only": "GraphRAG, graph only",
    "graph_llm": "GraphRAG, graph + LLM",
    "format_b_llm": "RAG, Format B, LLM",
    "format_b_named": "RAG, Format B, LLM names the effect",
    "format_b_filter": "RAG, Format B, filter",
    "format_a_llm": "RAG, Format A, LLM",
    "format_a_filter": "RAG, Format A, filter",
    "format_a_top": "RAG, Format A, top k, filter",
    "dense": "Dense retrieval, R results",
}
FAMILY = {
    "graph_only": "graphrag",
    "graph_llm": "graphrag",
    "format_b_llm": "format_b",
    "format_b_named": "format_b",
    "format_b_filter": "format_b",
    "format_a_llm": "format_a",
    "format_a_filter": "format_a",
    "format_a_top": "format_a",
    "dense": "closed_book",
}
"""Whose colour an arm has in the figures."""
BY_CONSTRUCTION = {
    "graph_only": "yes: the truth is the graph that is asked",
    "format_b_named": "no: another effect may be named; what follows is read back from the template",
    "format_b_filter": "yes, once every sentence is retrieved: the filter reads back the template",
}
RERUN = {"graphrag": "graph_only", "format_b": "format_b_llm", "format_a": "format_a_llm"}
"""The arm that stands beside each row of Table 4. The authors' GraphRAG row has no LLM in it."""
RUNS = {"20251103": "3 November 2025", "20251128": "28 November 2025"}
"""The two released runs; Table 4 prints the first."""

Tables = Mapping[str, pd.DataFrame]
Weights = Mapping[str, float]


def released_name(run: str) -> str:
    """The registry's name of a released run."""
    return f"side_effects/released/reverse_{run}.json"


# --------------------------------------------------------------------------------------------------------------- means


def weights(benchmark: pd.DataFrame) -> dict[str, float]:
    """The share of each tier in the benchmark: with them a subset estimates the plain mean over all its queries."""
    shares = benchmark.tier.value_counts(normalize=True)
    return {tier: float(shares[tier]) for tier in TIERS if tier in shares}


def macro(benchmark: pd.DataFrame) -> dict[str, float]:
    """The same weight for each tier of the benchmark."""
    tiers = [tier for tier in TIERS if (benchmark.tier == tier).any()]
    return dict.fromkeys(tiers, 1 / len(tiers))


def mean_over_tiers(table: pd.DataFrame, column: str, of_tier: Weights, *, draws: int = DRAWS, seed: int = 0) -> Score:
    """Weighted mean of the tiers' means, with a bootstrap over queries within each tier.

    Where every value is the same 0 or 1 the draws say nothing, and the interval is that of a proportion.

    Args:
        table: a row a query, with its tier.
        column: what to average.
        of_tier: the weight of each tier; they add up to 1.
        draws, seed: of the bootstrap.

    Raises:
        ValueError: a tier that has a weight has no query.
    """
    if missing := [tier for tier in of_tier if not (table.tier == tier).any()]:
        raise ValueError(f"No query of the tiers {', '.join(missing)}. Ask at least one, two for an interval.")
    values = table[column].to_numpy(dtype=float)
    if values.min() == values.max() and values[0] in (0.0, 1.0):
        return proportion(int(values.sum()), len(values))
    rng = np.random.default_rng(seed)
    mean, drawn = 0.0, np.zeros(draws)
    for tier, weight in of_tier.items():
        of = np.sort(values[(table.tier == tier).to_numpy()])
        mean += weight * of.mean()
        drawn += weight * of[rng.integers(len(of), size=(draws, len(of)))].mean(axis=1)
    low, high = np.percentile(drawn, [2.5, 97.5])
    return Score(float(mean), len(values), float(min(low, mean)), float(max(high, mean)))


def asked_all(table: pd.DataFrame, of_tier: Weights) -> bool:
    """Whether an arm was asked in every tier that has a weight, so that it has a mean over them."""
    return set(of_tier) <= set(table.tier)


def rate(seconds: Score) -> Score:
    """Queries a second, from the mean seconds a query."""
    return Score(1 / seconds.value, seconds.n, 1 / seconds.high, 1 / seconds.low)


def summary(table: pd.DataFrame, of_tier: Weights, draws: int) -> dict[str, Score]:
    """Recall, precision, F1, latency and throughput as Table 4 has them."""
    scores = {m: mean_over_tiers(table, m, of_tier, draws=draws) for m in METRICS}
    scores["latency"] = mean_over_tiers(table, "seconds", of_tier, draws=draws)
    scores["throughput"] = rate(scores["latency"])
    return scores


# --------------------------------------------------------------------------------------- the authors' own two runs


def rescore(run: Run, released: Mapping[str, Tables], edges: int, draws: int) -> dict[str, dict[str, dict[str, Score]]]:
    """Recompute every cell of Table 4 from both released runs; the first is what the table prints.

    Args:
        run: takes the values of the first run, and of the second what the paper does not print.
        released: tables by run and arm.
        edges: of the released ground truth.
        draws: of the bootstrap over queries.

    Returns:
        The scores by run, arm and column.
    """
    scores = {
        name: {arm: summary(table, weights(table), draws) for arm, table in tables.items()}
        for name, tables in released.items()
    }
    first, second = RUNS
    for arm in PRINTED:
        for column, score in scores[first][arm].items():
            run.rescored(_cell(arm, column), score, source=released_name(first))
            run.extra(
                f"reverse_{second}.{arm}.{column}",
                f"{figures.arm_label(arm)}, {column}, run of {RUNS[second]}",
                scores[second][arm][column],
            )
    asked = len(released[first]["graphrag"])
    run.rescored("side_effects.text.reverse_queries", float(asked), source=released_name(first))
    run.rescored(
        "side_effects.text.reverse_truth_edges", float(edges), source="side_effects/reverse/neo4j_ground_truth.json"
    )
    return scores


def nothing_rescored(run: Run) -> None:
    """Say that a sample has none of the authors' answers."""
    for arm in PRINTED:
        for column in (*METRICS, "latency", "throughput"):
            run.not_run(_cell(arm, column), "The data are SAMPLE.", kind="rescored")
    for name in ("reverse_queries", "reverse_truth_edges"):
        run.not_run(f"side_effects.text.{name}", "The data are SAMPLE.", kind="rescored")


def _cell(arm: str, column: str) -> str:
    return f"side_effects.table4.{arm}.{column}"


def printed_table(printed: Published) -> pd.DataFrame:
    """Table 4 as printed."""
    return pd.DataFrame(
        [
            {"architecture": figures.arm_label(arm)}
            | {column: printed.number(_cell(arm, column)).printed for column in (*METRICS, "latency", "throughput")}
            for arm in PRINTED
        ]
    ).rename(columns={"f1": "F1", "latency": "average latency"})


def rescored_table(
    printed: Published, released: Mapping[str, Tables], rescored: Mapping[str, Mapping[str, Mapping[str, Score]]]
) -> pd.DataFrame:
    """Table 4 beside both released runs: their plain means with intervals, and the means over tiers."""
    rows = []
    for arm in PRINTED:
        for column in (*METRICS, "latency"):
            number = printed.number(_cell(arm, column))
            row = {
                "architecture": figures.arm_label(arm) if column == "recall" else "",
                "column": {"f1": "F1"}.get(column, column),
                "printed": number.printed,
            }
            for name, label in RUNS.items():
                score = rescored[name][arm][column]
                table = released[name][arm]
                by_tier = mean_over_tiers(table, "seconds" if column == "latency" else column, macro(table), draws=100)
                row[f"{label}: mean of {score.n}"] = figures.score_text(score, number.unit, digits=2)
                row[f"{label}: mean of tiers"] = figures.number(by_tier.value, number.unit, digits=2)
            rows.append(row)
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Cost:
    """A straight line through latency by number of names: seconds for none, seconds for each, share explained."""

    fixed: float
    per_name: float
    r2: float


def cost_per_name(table: pd.DataFrame, column: str) -> Cost:
    """Latency against a number of names, by least squares.

    Args:
        table: a row a query, with its seconds.
        column: the number of names, `relevant` or `returned`.
    """
    line = linregress(table[column], table.seconds)
    return Cost(float(line.intercept), float(line.slope), float(line.rvalue**2))


def cost_table(released: Mapping[str, Tables]) -> pd.DataFrame:
    """What a query costs before the first name, and for each name, in the released runs."""
    rows = []
    for arm, column in (("format_b", "relevant"), ("format_a", "returned"), ("graphrag", "relevant")):
        for name, label in RUNS.items():
            cost = cost_per_name(released[name][arm], column)
            rows.append(
                {
                    "architecture": figures.arm_label(arm),
                    "run": label,
                    "line over": "names to return" if column == "relevant" else "names returned",
                    "seconds before the first name": f"{cost.fixed:.2f}",
                    "seconds a name": f"{cost.per_name:.4f}",
                    "variance explained": f"{100 * cost.r2:.1f} %",
                }
            )
    return pd.DataFrame(rows)


def odd_names_table(released: Tables, truth: Mapping[str, frozenset[str]], names: Sequence[str]) -> pd.DataFrame:
    """False positives of the released Format B run, by whether a drug with an awkward name is in the true answer.

    Args:
        released: one run's tables.
        truth: drugs of each effect.
        names: the awkward names.
    """
    table = released["format_b"]
    rows = []
    for name in names:
        holds = table.effect.map(lambda effect, name=name: name in truth[effect])
        for there in (True, False):
            of = table[holds == there]
            rows.append(
                {
                    "drug": name if there else "",
                    "in the true answer": "yes" if there else "no",
                    "queries": len(of),
                    "with a false positive": int((of.fp > 0).sum()),
                    "false positives": int(of.fp.sum()),
                    "with a missed drug": int((of.fn > 0).sum()),
                    "missed drugs": int(of.fn.sum()),
                }
            )
    return pd.DataFrame(rows)


def tiers_table(
    truth: Mapping[str, frozenset[str]], benchmark: Sequence[Query], asked: Sequence[Query]
) -> pd.DataFrame:
    """How many effects a tier has, how many the benchmark asks about, and how many this run asks an LLM about."""
    rows = []
    for tier, (low, high) in TIERS.items():
        rows.append(
            {
                "tier": tier,
                "drugs": f"{low}+" if np.isinf(high) else f"{low} to {high:.0f}",
                "effects in the graph": sum(low <= len(drugs) <= high for drugs in truth.values()),
                "queries": sum(q.tier == tier for q in benchmark),
                "of them asked of the LLM": sum(q.tier == tier for q in asked),
            }
        )
    return pd.DataFrame(rows)


def older_ceiling(queries: pd.DataFrame, known: frozenset[str]) -> Score:
    """The best recall that a graph of `known` drugs can have on the older set of queries, which names more drugs.

    Args:
        queries: columns expected_drugs (sets).
        known: drugs of the graph.
    """
    return bootstrap([len(drugs & known) / len(drugs) for drugs in queries.expected_drugs], draws=200)


# --------------------------------------------------------------------------------------------------- this run's arms


def report_arms(run: Run, tables: Tables, benchmark: pd.DataFrame, model: str, draws: int) -> None:
    """Report the rerun beside Table 4, and what the paper does not print as extras.

    A subset is weighted by the tiers of the benchmark, so that it estimates the same mean.
    """
    for arm, ours in RERUN.items():
        plain = weights(benchmark)
        for column, score in summary(tables[ours], plain, draws).items():
            note = f"{score.n} queries, weighted by tier as the benchmark is. {gaps({ours: tables[ours]}, benchmark)}"
            run.rerun(_cell(arm, column), score, model="" if arm == "graphrag" else model, note=note.strip())
    for ours, table in tables.items():
        for metric in METRICS if asked_all(table, macro(benchmark)) else ():
            run.extra(
                f"reverse.{ours}.{metric}_macro",
                f"{LABELS[ours]}: {metric}, mean of the tiers' means",
                mean_over_tiers(table, metric, macro(benchmark), draws=draws),
            )
        for tier in macro(table):
            of = table[table.tier == tier]
            run.extra(f"reverse.{ours}.{tier}_f1", f"{LABELS[ours]}: F1, tier {tier}", bootstrap(of.f1, draws=draws))
            run.extra(
                f"reverse.{ours}.{tier}_p50",
                f"{LABELS[ours]}: median latency in seconds, tier {tier}",
                bootstrap(of.seconds, p50, draws=draws),
            )


def arms_table(tables: Tables, benchmark: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Every arm: scores weighted as the benchmark, F1 as the mean of tiers, and what did not fit or was cut.

    An arm that was not asked in every tier has no such means; its scores are in `by_tier_table`.
    """
    rows = []
    for arm, table in tables.items():
        means = [(m, weights(benchmark)) for m in METRICS] + [("f1", macro(benchmark))]
        names = ("recall", "precision", "F1", "F1, mean of tiers")
        every = asked_all(table, macro(benchmark))
        rows.append(
            {
                "arm": LABELS[arm],
                "queries": len(table),
                **{
                    name: figures.score_text(mean_over_tiers(table, metric, of, draws=draws) if every else None)
                    for name, (metric, of) in zip(names, means, strict=True)
                },
                "prompts too long": int(table.overflow.sum()),
                "answers cut": int(table.cut.sum()),
                "100 % by construction?": BY_CONSTRUCTION.get(arm, "no"),
            }
        )
    return pd.DataFrame(rows)


def gaps(tables: Tables, benchmark: pd.DataFrame) -> str:
    """What the profile's sizes take from the table of all arms, in words; empty if nothing."""
    none: dict[str, list[str]] = {}
    one: dict[str, list[str]] = {}
    for arm, table in tables.items():
        for tier in macro(benchmark):
            asked, there = ((of.tier == tier).sum() for of in (table, benchmark))
            if asked < min(2, there):
                (one if asked else none).setdefault(LABELS[arm], []).append(tier)
    said = [f"{arm} was not asked in {_and(tiers)}, so it has no mean." for arm, tiers in none.items()]
    for tiers in sorted({_and(tiers) for tiers in one.values()}):
        arms = "; ".join(arm for arm, of in one.items() if _and(of) == tiers)
        said.append(f"Asked one query in {tiers}, whose spread the intervals do not hold: {arms}.")
    return " ".join(said)


def _and(tiers: Sequence[str]) -> str:
    return f"tier{'s' * (len(tiers) > 1)} {' and '.join(tiers)}"


def by_tier_table(tables: Tables, draws: int) -> pd.DataFrame:
    """Recall, precision and F1 of each arm and tier, with a bootstrap over its queries."""
    rows = []
    for arm, table in tables.items():
        for i, tier in enumerate(macro(table)):
            of = table[table.tier == tier]
            rows.append(
                {
                    "arm": LABELS[arm] if i == 0 else "",
                    "tier": tier,
                    "queries": len(of),
                    **{{"f1": "F1"}.get(m, m): _mean(of[m], draws) for m in METRICS},
                }
            )
    return pd.DataFrame(rows)


def _mean(values: pd.Series, draws: int) -> str:
    """The mean with its interval; one query alone has none."""
    score = bootstrap(values, draws=draws)
    return figures.score_text(score) if len(values) > 1 else figures.number(score.value)


def latency_table(tables: Tables) -> pd.DataFrame:
    """Median, 95th percentile and mean of the latency to the complete set, in milliseconds, by arm and tier."""
    rows = []
    for arm, table in tables.items():
        groups = {"all": table} | {tier: table[table.tier == tier] for tier in macro(table)}
        for name, of in groups.items():
            ms = 1000 * of.seconds
            rows.append(
                {
                    "arm": LABELS[arm] if name == "all" else "",
                    "tier": name,
                    "queries": len(of),
                    "p50": _ms(p50(ms)),
                    "p95": _ms(p95(ms)),
                    "mean": _ms(float(ms.mean())),
                }
            )
    return pd.DataFrame(rows)


def _ms(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def steps_table(tables: Tables, arms: Sequence[str]) -> pd.DataFrame:
    """Where the time goes: mean seconds of each step, tokens read and written, seconds a name."""
    rows = []
    for arm in arms:
        table = tables[arm]
        for i, tier in enumerate(macro(table)):
            of = table[table.tier == tier]
            total = of.seconds.sum()
            rows.append(
                {
                    "arm": LABELS[arm] if i == 0 else "",
                    "tier": tier,
                    "names to return": f"{of.relevant.mean():,.0f}",
                    "retrieval": f"{of.retrieve.mean():.3f} s",
                    "LLM": f"{of['read'].mean():.3f} s",
                    "parsing": f"{of.parse.mean():.4f} s",
                    "share of the LLM": f"{100 * of['read'].sum() / total:.1f} %",
                    "tokens read": f"{of.prompt_tokens.mean():,.0f}",
                    "tokens written": f"{of.generated_tokens.mean():,.0f}",
                }
            )
    return pd.DataFrame(rows)


def losses_table(
    queries: Sequence[Query], exhaustive: Sequence[Result], read: Sequence[Result], with_comma: frozenset[str]
) -> pd.DataFrame:
    """Where Format B loses drugs: at retrieval, in the LLM's answer, at the parser; over all queries together.

    The intervals are over queries.

    Args:
        queries: those that the LLM was asked.
        exhaustive: what retrieval gave (the filter's sets).
        read: what the LLM made of it.
        with_comma: names that hold a comma.
    """
    relevant = [q.drugs for q in queries]

    def union(parser: Callable[[str], frozenset[str]]) -> list[frozenset[str]]:
        return [frozenset().union(*map(parser, result.replies)) for result in read]

    stages = {
        "retrieved": [r.drugs for r in exhaustive],
        "in the LLM's answer, as text": [
            frozenset(d for d in q if _said(d, result.replies)) for q, result in zip(relevant, read, strict=True)
        ],
        "parsed, names with a comma kept whole": union(lambda text: parse_drugs(text, with_comma)),
        "parsed, split at every comma": union(parse_plain),
    }
    of_query = [query.effect for query in queries for _ in query.drugs]
    rows = []
    for stage, sets in stages.items():
        there = [drug in s for s, q in zip(sets, relevant, strict=True) for drug in q]
        rows.append(
            {
                "after": stage,
                "relevant drugs there": sum(there),
                "lost so far": len(there) - sum(there),
                "others there": sum(len(s - q) for s, q in zip(sets, relevant, strict=True)),
                "recall over all names": figures.score_text(share_of(there, of_query), digits=2),
            }
        )
    return pd.DataFrame(rows)


def slips_table(
    queries: Sequence[Query], results: Sequence[Result], with_comma: frozenset[str], known: frozenset[str]
) -> pd.DataFrame:
    """What an LLM that copies names did to each query's set: left out, altered, added, cut.

    A returned name that is not relevant is told apart: a missed name with a slip in it (at least 80 % of the letters,
    by edits), another drug of the knowledge, or no drug at all.

    Args:
        queries: those that the LLM was asked.
        results: what it made of them.
        with_comma: names that hold a comma.
        known: all drugs of the knowledge.
    """
    rows = []
    for query, result in zip(queries, results, strict=True):
        missed, others = sorted(query.drugs - result.drugs), sorted(result.drugs - query.drugs)
        altered = {name: near[0] for name in others if (near := _near(name, missed))}
        drugs = [name for name in others if name in known and name not in altered]
        nothing = [name for name in others if name not in known and name not in altered]
        examples = [f"{drug} as {name}" for name, drug in altered.items()] + nothing + drugs
        read = [parse_drugs(reply, with_comma) for reply in result.replies]
        rows.append(
            {
                "effect": query.effect,
                "tier": query.tier,
                "names": len(query.drugs),
                "left out": len(set(missed) - set(altered.values())),
                "altered": len(altered),
                "other drugs": len(drugs),
                "no drug": len(nothing),
                "answers": len(read),
                "empty": sum(not of_reply for of_reply in read),
                "cut": result.cut,
                "for example": "; ".join(example[:40] for example in examples[:2]),
            }
        )
    return pd.DataFrame(rows)


def _near(name: str, missed: Sequence[str]) -> tuple[str, float] | None:
    found = process.extractOne(name, missed, scorer=DamerauLevenshtein.normalized_similarity, score_cutoff=0.8)
    return None if found is None else (found[0], found[1])


def _said(drug: str, replies: Sequence[str]) -> bool:
    return any(drug in reply.casefold() for reply in replies)


def template_table(tuned: Mapping[str, Sequence[float]], draws: int) -> pd.DataFrame:
    """R-precision of each way to write the dense query, on effects that are not in the test."""
    return pd.DataFrame(
        {
            "the query as": list(tuned),
            "R-precision": [bootstrap(values, draws=draws) for values in tuned.values()],
            "queries": [len(values) for values in tuned.values()],
        }
    )


def stages_table(stages: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    """What each step between Format A's documents and its answer leaves: mean of the queries."""
    return pd.DataFrame(
        {
            "after": list(stages),
            "queries": [len(t) for t in stages.values()],
            "drugs": [f"{t.returned.mean():,.1f}" for t in stages.values()],
            "recall": [figures.score_text(bootstrap(t.recall, draws=500)) for t in stages.values()],
            "precision": [figures.score_text(bootstrap(t.precision, draws=500)) for t in stages.values()],
            "F1": [figures.score_text(bootstrap(t.f1, draws=500)) for t in stages.values()],
        }
    )


def result_table(
    printed: Published,
    rescored: Mapping[str, Mapping[str, Mapping[str, Score]]],
    tables: Tables,
    benchmark: pd.DataFrame,
    draws: int,
) -> pd.DataFrame:
    """Table 4: printed, rescored, rerun."""
    rows = []
    first = next(iter(RUNS))
    for arm, ours in RERUN.items():
        rerun = summary(tables[ours], weights(benchmark), draws)
        for column in (*METRICS, "latency", "throughput"):
            number = printed.number(_cell(arm, column))
            old = rescored[first][arm][column] if rescored else None
            digits = {"fraction": 2, "seconds": 4 if rerun[column].value < 0.1 else 2}.get(number.unit)
            rows.append(
                {
                    "architecture": LABELS[ours] if column == "recall" else "",
                    "column": {"f1": "F1"}.get(column, column),
                    "printed": number.printed,
                    "rescored (n = 121)": figures.score_text(old, number.unit, digits=digits) if old else None,
                    "rerun here": figures.score_text(rerun[column], number.unit, digits=digits),
                    "queries": rerun[column].n,
                }
            )
    return pd.DataFrame(rows)


# -------------------------------------------------------------------------------------------------------------- claims


def within_window(queries: Sequence[Query], store: TextStore, characters: int) -> pd.DataFrame:
    """A row a query: effect, relevant, and how many relevant drugs list the effect within the characters shown."""
    rows = {drug: row for row, (drug, _) in enumerate(store.pairs)}
    inside = [sum(lists_within(store, rows[d], q.effect, characters) for d in q.drugs) for q in queries]
    return pd.DataFrame(
        {"effect": [q.effect for q in queries], "relevant": [len(q.drugs) for q in queries], "inside": inside}
    )


def window_counts(
    queries: Sequence[Query], results: Sequence[Result], store: TextStore, characters: int
) -> pd.DataFrame:
    """What Format A returned of the relevant drugs, by whether their list shows the effect within the window.

    Returns:
        A row a query: effect, relevant, inside, beyond (relevant drugs on either side), inside_returned,
        beyond_returned.
    """
    rows = {drug: row for row, (drug, _) in enumerate(store.pairs)}
    table = within_window(queries, store, characters)
    hits = [[d for d in q.drugs if d in r.drugs] for q, r in zip(queries, results, strict=True)]
    table["beyond"] = table.relevant - table.inside
    table["inside_returned"] = [
        sum(lists_within(store, rows[d], q.effect, characters) for d in of) for q, of in zip(queries, hits, strict=True)
    ]
    table["beyond_returned"] = [len(of) for of in hits] - table.inside_returned
    return table


@dataclass(frozen=True)
class Rank:
    """Spearman's rank correlation over n rows, with a 95 % interval and a two-sided p-value."""

    rho: float
    low: float
    high: float
    p: float
    n: int

    def __str__(self) -> str:
        """`rho = 0.83 [0.10, 0.98], n = 6, p = 0.058`."""
        rho, low, high = (f"{x:z.2f}".replace("-", "\N{MINUS SIGN}") for x in (self.rho, self.low, self.high))
        return f"rho = {rho} [{low}, {high}], n = {self.n}, {figures.p_words(self.p)}"


def rank_correlation(a: Sequence[float] | pd.Series, b: Sequence[float] | pd.Series, draws: int = DRAWS) -> Rank:
    """Spearman's rho; p by permutation, exact up to seven rows; the interval is Bonett and Wright's (2000).

    Args:
        a, b: (n,) numbers.
        draws: permutations drawn where there are more than seven rows.
    """
    x, y = rankdata(a), rankdata(b)
    n = len(x)
    if n < 4 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return Rank(0.0, -1.0, 1.0, 1.0, n)
    x, y = (x - x.mean()) / x.std(), (y - y.mean()) / y.std()
    rho = float(x @ y / n)
    if n <= 7:
        p = float(np.mean([abs(x @ y[list(order)] / n) >= abs(rho) - 1e-9 for order in permutations(range(n))]))
    else:
        orders = np.random.default_rng(0).permuted(np.tile(y, (draws, 1)), axis=1)
        p = float((1 + (np.abs(orders @ x / n) >= abs(rho) - 1e-9).sum()) / (draws + 1))
    half = 1.96 * np.sqrt((1 + rho**2 / 2) / (n - 3))
    z = np.arctanh(np.clip(rho, -1 + 1e-9, 1 - 1e-9))
    return Rank(rho, float(min(np.tanh(z - half), rho)), float(max(np.tanh(z + half), rho)), p, n)


def letters_table(run: Run, released: Mapping[str, Tables], window: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Recall of the released Format A by the first letter of the effect, kept in the record too.

    The lists are alphabetical, so that an effect that begins with "a" stands at the beginning of every list.

    Args:
        run: takes the recalls.
        released: tables by run and arm.
        window: of `within_window`, for the same queries.
        draws: of the bootstrap over queries.
    """
    rows = []
    for name, label in RUNS.items():
        table = released[name]["format_a"].merge(window[["effect", "inside"]], on="effect", validate="one_to_one")
        first = table.effect.str.startswith("a")
        for letter, words, of in (("a", '"a"', table[first]), ("others", "another letter", table[~first])):
            if not len(of):
                continue
            recall = bootstrap(of.recall, draws=draws)
            run.extra(
                f"reverse_{name}.format_a.recall_{letter}",
                f"recall of Format A, effects with {words}, run of {label}",
                recall,
            )
            rows.append(
                {
                    "run of": label,
                    "the effect begins with": words,
                    "queries": len(of),
                    "recall": recall,
                    "relevant drugs whose list shows it in time": bootstrap(of.inside / of.relevant, draws=draws),
                }
            )
    return pd.DataFrame(rows)


def place_words(released: Mapping[str, Tables], window: pd.DataFrame) -> str:
    """How the released recall of Format A goes with the share of relevant drugs whose effect is within the window."""
    table = released[next(iter(RUNS))]["format_a"].merge(window[["effect", "inside"]], on="effect")
    shown = table.inside / table.relevant
    rest = ~table.effect.str.startswith("a")
    return (
        "On the authors' run, whose sets are not released, a query's recall goes with the share of its drugs whose "
        f"effect lies within the window: {rank_correlation(table.recall, shown)}; without the effects in "
        f'"a" {rank_correlation(table.recall[rest], shown[rest])}.'
    )


def times_as_long(slow: pd.DataFrame, fast: pd.DataFrame, draws: int, seed: int = 0) -> Score:
    """Mean seconds of one arm as a multiple of another's, on the queries that both were asked; bootstrap over them.

    Args:
        slow: a row a query, with effect and seconds.
        fast: the same of the other arm.
        draws, seed: of the bootstrap.
    """
    both = slow[["effect", "seconds"]].merge(fast[["effect", "seconds"]], on="effect", validate="one_to_one")
    a, b = both.seconds_x.to_numpy(), both.seconds_y.to_numpy()
    drawn = np.random.default_rng(seed).integers(len(both), size=(draws, len(both)))
    value = float(a.sum() / b.sum())
    low, high = np.percentile(a[drawn].sum(axis=1) / b[drawn].sum(axis=1), [2.5, 97.5])
    return Score(value, len(both), float(min(low, value)), float(max(high, value)))


SPEEDS = {
    "paper": ("format_b_llm", "graph_only", "with an LLM on the side of the text alone, as the paper compares"),
    "without": ("format_b_filter", "graph_only", "without an LLM on either side"),
    "with": ("format_b_llm", "graph_llm", "with an LLM on both sides"),
}
"""The slower arm, the faster one, and the words, of each comparison of Format B with the graph."""


def speeds(tables: Tables, draws: int) -> dict[str, Score]:
    """How many times as long as the graph Format B takes, in each of `SPEEDS` whose arms have queries in common."""
    return {
        way: times_as_long(tables[slow], tables[fast], draws)
        for way, (slow, fast, _) in SPEEDS.items()
        if set(tables[slow].effect) & set(tables[fast].effect)
    }


def speed_words(found: Mapping[str, Score]) -> str:
    """The comparisons in words."""
    return "; ".join(f"{_times(score)} {SPEEDS[way][2]}" for way, score in found.items())


def opening(found: Mapping[str, Score], *, sample: bool) -> str:
    """The page's answer on speed, in Markdown, from what the run found."""
    like = max(score.high for way, score in found.items() if way != "paper")
    first = (
        "Most of the graph's speed is that of leaving the language model out"
        if like < found["paper"].low
        else "How much of the graph's speed is that of leaving the language model out stays open"
    )
    words = f"**{first}.** Format B takes as long as the graph times: {speed_words(found)}."
    return "\n\n".join([*(["**SAMPLE**"] if sample else []), words])


def _times(score: Score) -> str:
    value, low, high = (f"{x:,.0f}" if x >= 10 else f"{x:.1f}" for x in (score.value, score.low, score.high))
    return f"{value} [{low}, {high}] (n = {score.n})"


LEAST_QUERIES = 6
"""Of fewer queries no paired randomisation test can find anything at 5 %."""


def decide_claims(
    run: Run,
    tables: Tables,
    benchmark: pd.DataFrame,
    window: pd.DataFrame,
    draws: int,
    *,
    model: str,
    released: Mapping[str, Tables],
    shown: pd.DataFrame,
) -> None:
    """The claims about reverse queries, each by the test that `data/published/side_effects.yml` states for it.

    Args:
        run: takes the verdicts.
        tables: a row a query, by arm.
        benchmark: the tier of each query of the whole benchmark.
        window: of `window_counts`, for Format A with the LLM.
        draws: of the bootstraps.
        model: the LLM.
        released: the authors' tables by run and arm; empty for a sample.
        shown: of `within_window`, for the released queries and the authors' window.
    """
    claim = "side_effects.claim."
    alone, worded, text = tables["graph_only"], tables["graph_llm"], tables["format_b_llm"]
    first = released.get(next(iter(RUNS)), {})
    exact = {n: int(((t.recall == 1) & (t.precision == 1)).sum()) for n, t in (("alone", alone), ("worded", worded))}
    run.claim(
        claim + "graph_returns_exact_sets",
        verdicts.exactly(exact["alone"] == len(alone) and exact["worded"] == len(worded)),
        f"The graph alone returns {exact['alone']} of {len(alone)} sets exactly, by construction; with {model} wording "
        f"them {exact['worded']} of {len(worded)} are exact (of at most {int(worded.relevant.max()):,} names).",
    )
    slow = bootstrap(alone.seconds, p95, draws=draws)
    run.claim(
        claim + "graph_is_near_instant",
        verdicts.below(slow, 1),
        f"95th percentile of {len(alone)} queries: {1000 * slow.value:.1f} ms [{1000 * slow.low:.1f}, "
        f"{1000 * slow.high:.1f}].",
    )
    found = speeds(tables, draws)
    run.claim(
        claim + "graph_is_faster_than_text",
        verdicts.above(found["paper"], 100),
        f"Format B's mean latency as a multiple of the graph's: {speed_words(found)}. What is compared in the paper is "
        "a graph without a language model and text with one.",
    )
    exactness = mean_over_tiers(text, "f1", weights(benchmark), draws=draws)
    named = mean_over_tiers(tables["format_b_named"], "f1", weights(benchmark), draws=draws)
    run.claim(
        claim + "pairs_nearly_exact_on_sets",
        verdicts.above(exactness, 0.95),
        f"F1 of Format B with {model} copying the names is {_percent(exactness)} queries with "
        f"{int(text.relevant.sum()):,} names. With the LLM only naming the effect it is {_percent(named)} queries."
        + _released_sentence(first, lambda t: f"{_percent(summary(t, weights(t), draws)['f1'])} queries"),
    )
    rho = rank_correlation(text.relevant, text.seconds)
    run.claim(
        claim + "pairs_slow_with_set_size",
        verdicts.better(rho, rho.p, worthwhile=0.1),
        f"Latency and number of relevant drugs: {rho}."
        + _released_sentence(first, lambda t: str(rank_correlation(t.relevant, t.seconds))),
        p=rho.p,
    )
    both = tables["format_a_llm"].merge(text, on="effect", validate="one_to_one")
    gap = paired_means(both.recall_x, both.recall_y, draws=draws)
    run.claim(
        claim + "lists_under_retrieve",
        verdicts.below(gap, 0),
        f"Recall of Format A minus that of Format B is {figures.points(gap)} points on the same {gap.n} queries.",
        p=gap.p,
    )
    _decide_window(run, claim + "lists_fail_by_window", window, place_words(released, shown) if released else "", draws)


def _released_sentence(first: Tables, words: Callable[[pd.DataFrame], str]) -> str:
    return f" On the authors' run: {words(first['format_b'])}." if first else ""


def _decide_window(run: Run, claim: str, window: pd.DataFrame, released: str, draws: int) -> None:
    """Whether, within a query, Format A returns the drugs whose effect is within the window more often than others.

    A query is one effect, so that its first letter and its size are the same on both sides.
    """
    on_both = window[(window.inside > 0) & (window.beyond > 0)]
    words = (
        f"Returned: {window.inside_returned.sum()} of {window.inside.sum():,} relevant drugs whose effect lies within "
        f"the window, {window.beyond_returned.sum()} of {window.beyond.sum():,} of those beyond it, in {len(window)} "
        f"queries; {len(on_both)} of them have drugs on both sides"
    )
    if len(on_both) < LEAST_QUERIES:
        run.claim(claim, "undecided", f"{words}, too few to tell. {released}".strip())
        return
    shares = (on_both.inside_returned / on_both.inside, on_both.beyond_returned / on_both.beyond)
    test = paired_means(*shares, draws=draws)
    run.claim(
        claim,
        verdicts.better(test, test.p),
        f"{words}. Within minus beyond, mean of these: {figures.points(test)} points. {released}".strip(),
        p=test.p,
    )


def _percent(score: Score) -> str:
    return f"{100 * score.value:.1f} % [{100 * score.low:.1f}, {100 * score.high:.1f}], n = {score.n:,}"


# ------------------------------------------------------------------------------------------------------------- figures


def draw_by_size(tables: Tables, arms: Sequence[str], released: Tables, printed: Published) -> Figure:
    """Latency and F1 of each query against its number of matching drugs, logarithmic; the printed means as diamonds.

    Args:
        tables: this run, by arm.
        arms: which to draw.
        released: the authors' run, drawn small and open; empty where there is none.
        printed: whose Table 4 is marked, at the mean number of drugs of the released queries.
    """
    fig, (top, bottom) = plt.subplots(2, 1, sharex=True, figsize=(7.2, 7.6))
    markers = dict(zip(LABELS, "osD*vP^Xd", strict=True))
    for arm in arms:
        table, colour = tables[arm], figures.arm_colour(FAMILY[arm])
        filled = colour if arm in ("graph_only", "format_b_llm", "format_a_llm", "dense") else "none"
        style = {"linestyle": "none", "marker": markers[arm], "markersize": 5.5, "alpha": 0.85}
        for axes, column in ((top, "seconds"), (bottom, "f1")):
            axes.plot(table.relevant, table[column], color=colour, markerfacecolor=filled, label=LABELS[arm], **style)
    for arm, table in released.items():
        colour = figures.arm_colour(arm)
        for axes, column in ((top, "seconds"), (bottom, "f1")):
            # as a picture: hundreds of dots behind the others, and two fifths of the file otherwise
            axes.plot(table.relevant, table[column], ".", markersize=3.5, color=colour, alpha=0.45, rasterized=True)
        at = table.relevant.mean()
        for axes, column in ((top, "latency"), (bottom, "f1")):
            number = printed.number(_cell(arm, column))
            axes.plot(
                at, number.value, "D", markersize=9, markerfacecolor="none", markeredgecolor=colour, markeredgewidth=2
            )
            axes.annotate(
                f"printed {number.printed}",
                (at, number.value),
                xytext=(9, -12 if number.value > 0.9 and column == "f1" and arm == "format_b" else 5),
                textcoords="offset points",
                fontsize=9,
                color=colour,
            )
    top.set(xscale="log", yscale="log", ylabel="time to the complete set")
    bottom.set(xlabel="drugs that match the query", ylabel="F1")
    bottom.set_ylim(-0.03, 1.06)
    bottom.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    low, high = bottom.get_xlim()
    ticks = [n for n in (5, 10, 20, 50, 100, 200, 500, 1000) if low <= n <= high]
    bottom.set_xticks(ticks, [f"{n:,}" for n in ticks])
    bottom.minorticks_off()
    top.yaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    top.minorticks_off()
    top.grid(visible=True, axis="y")
    bottom.grid(visible=True, axis="y")
    handles, labels = top.get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=2, handletextpad=0.3)
    return fig


def describe_by_size(tables: Tables, arms: Sequence[str]) -> str:
    """What `draw_by_size` shows, in words made of its values: each arm's median latency and mean F1 by tier."""
    latency, exactness = [], []
    tiers = [tier for tier in TIERS if any((tables[arm].tier == tier).any() for arm in arms)]
    for arm in arms:
        by_tier = tables[arm].groupby("tier")
        seconds, f1 = by_tier.seconds.median().to_dict(), by_tier.f1.mean().to_dict()
        latency.append(f"{LABELS[arm]} {' '.join(_short(seconds[t]) if t in seconds else 'none' for t in tiers)}")
        exactness.append(f"{LABELS[arm]} {' '.join(f'{100 * f1[t]:.1f}' if t in f1 else 'none' for t in tiers)}")
    return (
        f"Two panels against the number of matching drugs. Above, latency, in median seconds of the tiers "
        f"{', '.join(tiers)}: {'; '.join(latency)}. Below, F1, in mean per cent of the same tiers: "
        f"{'; '.join(exactness)}."
    )


def _short(seconds: float) -> str:
    return f"{seconds:.1f}" if seconds >= 1 else f"{seconds:.2g}"


def describe_cost(released: Mapping[str, Tables]) -> str:
    """What `draw_cost` shows, in words made of its values."""
    table = released[next(iter(RUNS))]["format_b"]
    cost = cost_per_name(table, "relevant")
    return (
        f"Latency against the number of names for the released run. A straight line explains {100 * cost.r2:.0f} % of "
        f"the variance of Format B's {len(table)} points, which range from {table.seconds.min():.1f} to "
        f"{table.seconds.max():.0f} seconds."
    )


def draw_cost(released: Mapping[str, Tables]) -> Figure:
    """Latency of the released text arms against the number of names: to return (Format B), returned (Format A)."""
    fig, axes = plt.subplots(figsize=(7.2, 3.8))
    first = next(iter(RUNS))
    for arm, column in (("format_b", "relevant"), ("format_a", "returned")):
        table, colour = released[first][arm], figures.arm_colour(arm)
        cost = cost_per_name(table, column)
        axes.plot(
            table[column],
            table.seconds,
            "o",
            markersize=4,
            alpha=0.6,
            color=colour,
            label=f"{figures.arm_label(arm)}: {cost.fixed:.1f} s + {cost.per_name:.2f} s a name",
        )
        ends = np.array([0, table[column].max()])
        axes.plot(ends, cost.fixed + cost.per_name * ends, color=colour, linewidth=1.4)
    axes.set(xlabel="names (Format B: matching drugs; Format A: drugs returned)", ylabel="seconds")
    axes.set_ylim(bottom=0)
    axes.legend()
    return fig
