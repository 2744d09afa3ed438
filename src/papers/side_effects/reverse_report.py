"""What notebook 02 shows beyond its rows: the cost of a name, and three comparisons of speed."""

from __future__ import annotations

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import linregress

from helpers.results import figures
from helpers.results.outcomes import Outcomes
from papers.side_effects.rules import times_as_long, values

LABELS = {
    "graphrag": "GraphRAG, graph only",
    "graph_llm": "GraphRAG, graph and LLM",
    "format_b": "RAG, Format B, LLM copies names",
    "format_b_named": "RAG, Format B, LLM names the effect",
    "format_b_filter": "RAG, Format B, filter",
    "format_a": "RAG, Format A, LLM",
    "dense": "Dense retrieval, R results",
}
COLOURS = {
    arm: figures.arm_colour(of)
    for of, arms in {
        "graphrag": ("graphrag", "graph_llm"),
        "format_b": ("format_b", "format_b_named", "format_b_filter"),
        "format_a": ("format_a",),
        "closed_book": ("dense",),
    }.items()
    for arm in arms
}
RUNS = {"20251103": "3 November 2025", "20251128": "28 November 2025"}
"""The two released runs; Table 4 prints the first."""
SPEEDS = {
    "an LLM on the side of the text alone, as in the paper": ("format_b", "graphrag"),
    "no LLM on either side": ("format_b_filter", "graphrag"),
    "an LLM on both sides": ("format_b", "graph_llm"),
}
"""The slower and the faster arm of each comparison of Format B with the graph."""
LINES = {"format_b": "relevant", "format_a": "returned"}
"""The names over which the latency of a text arm is drawn: Format A returns few of the relevant ones."""


def speeds(outcomes: Outcomes) -> pd.DataFrame:
    """Mean latency of Format B as a multiple of the graph's, on the queries that both answered."""
    found = {words: times_as_long(outcomes, *arms) for words, arms in SPEEDS.items()}
    return pd.DataFrame(
        [
            {"with": words, "times as long": figures.score_text(score, "count", digits=1), "queries": score.n}
            for words, score in found.items()
            if score
        ]
    )


def answer(outcomes: Outcomes, model: str) -> str:
    """The chapter's answer, from the rows of this run."""
    exact, found = outcomes.score("f1", "format_b"), outcomes.score("recall", "format_a")
    times = {words: times_as_long(outcomes, *arms) for words, arms in SPEEDS.items()}
    told = "; ".join(f"{float(f'{t.value:.2g}'):,.6g} times with {words}" for words, t in times.items() if t)
    return (
        f"The graph is exact by construction. Format B with {model} reaches an F1 of {figures.score_text(exact)}, and "
        f"Format A finds {figures.score_text(found)} of the drugs. Format B takes as long as the graph {told}. So most "
        "of the difference in time that the paper prints is a language model copying names."
    )


def cost_words(authors: Outcomes) -> str:
    """What `draw_cost` shows, in words made of its values.

    Args:
        authors: rows of one released run.
    """
    lines = []
    for arm, names in LINES.items():
        line = linregress(values(authors, names, arm), values(authors, "latency", arm))
        lines.append(
            f"{authors.label(arm)}: {line.intercept:.1f} s and {line.slope:.2f} s for each name {names}, which explain "
            f"{figures.number(line.rvalue**2)} of the variance"
        )
    return f"Latency by number of names, released run. {'; '.join(lines)}."


def draw_cost(authors: Outcomes) -> Figure:
    """Latency of the released text arms by number of names: relevant ones (Format B), returned ones (Format A)."""
    fig, axes = plt.subplots(figsize=(7.2, 3.8))
    for arm, names in LINES.items():
        x, y = values(authors, names, arm), values(authors, "latency", arm)
        line, ends = linregress(x, y), np.array([0, x.max()])
        axes.plot(x, y, "o", markersize=4, alpha=0.6, color=COLOURS[arm], label=f"{authors.label(arm)}, names {names}")
        axes.plot(ends, line.intercept + line.slope * ends, color=COLOURS[arm], linewidth=1.4)
    axes.set(xlabel="names", ylabel="seconds")
    axes.set_ylim(bottom=0)
    axes.legend()
    return fig
