"""The arms of reverse queries (side_effects.md, Table 4): a side effect in, the set of drugs that may cause it out.

Queries are asked one after another, so a latency is what somebody who asks one question waits for. The text stores are
built of names as `reverse.tidy` writes them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import linregress

from evaluation import figures
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from helpers.completions import Reply
from helpers.graph import Graph
from helpers.neighbours import stopwatch
from papers.side_effects import forward
from papers.side_effects.corpus import TextStore, find_term
from papers.side_effects.reverse import QUESTION, Arm, Query, canonical, parse_drugs, returned
from papers.side_effects.rules import times_as_long
from rag.prompts import chat_messages, user_message

LABELS = {
    "graphrag": "GraphRAG, graph only",
    "graph_llm": "GraphRAG, graph and LLM",
    "format_b": "RAG, Format B, LLM copies names",
    "format_b_named": "RAG, Format B, LLM names the effect",
    "format_b_filter": "RAG, Format B, filter",
    "format_a": "RAG, Format A, LLM",
}
COLOURS = {
    arm: figures.arm_colour("graphrag" if arm.startswith("graph") else arm[:8]) for arm in LABELS
}
SPEEDS = {
    "an LLM for the text only, as in the paper": ("format_b", "graphrag"),
    "no LLM on either side": ("format_b_filter", "graphrag"),
    "an LLM on both sides": ("format_b", "graph_llm"),
}
"""The slower and the faster arm of each comparison of Format B with the graph."""
LINES = {"format_b": "relevant", "format_a": "returned"}
"""The names over which the latency of a text arm is drawn: Format A returns few of the relevant ones."""

Prompt = list[dict[str, str]]
EXPANSION = """
MATCH (s:SideEffect {name: $side_effect})<-[:may_cause_side_effect]-(d:Drug)
RETURN collect(d.name) AS drugs
"""
# The authors' client shortens the Format B sentence like this in the prompt; what is indexed is the whole sentence.
EVIDENCE_B = "The drug {drug} may cause {side_effect} as an adverse effect."

# The part that all prompts of an arm share stands first, so that an engine that keeps prefixes reads it once.
EXTRACTION = (
    "You are given texts about drugs and their adverse effects. List every drug that the texts associate with the "
    "adverse effect asked for. Give only the names of the drugs, written as in the texts, separated by commas, each "
    "name once. Base your answer strictly on the texts.\n\nTexts:\n\n"
)
WORDING = (
    "You are given the drugs that a knowledge graph associates with an adverse effect. Answer the question by listing "
    "every one of them and no other. Give only the names, written as in the graph, separated by commas.\n\nDrugs of "
    "the graph: "
)
NAMING = (
    "Which adverse effect does the question ask about? Answer with its name alone, letter for letter as it stands in "
    "the question."
)
# None is an effect: no test item may stand in a prompt.
NAMING_EXAMPLES = ("glassy elbow", "singing, nocturnal", "blue laughter syndrome")


@dataclass(frozen=True)
class Asking(forward.Generator):
    """How an arm asks its LLM, all prompts of one query at once (Methods, "LLM inference").

    The parser keeps names `with_comma` whole. An answer has room for so many tokens per name that could be in it.
    """

    max_tokens: int = 4096
    with_comma: frozenset[str] = frozenset()
    tokens_per_drug: int = 8

    def replies(self, prompts: Sequence[Prompt], names: int, label: str) -> list[Reply]:
        """A reply, with room for so many names, to each prompt of one query; more than go at once are an error."""
        if len(prompts) > self.llm.concurrency:
            raise ValueError(
                f"{len(prompts)} prompts for one query, and the client sends {self.llm.concurrency} at once. Connect "
                f"with concurrency={len(prompts)} or more, or make the chunks larger."
            )
        room = min(self.max_tokens, self.tokens_per_drug * names + 64)
        return self.llm.chat_many(
            prompts, max_tokens=room, overflow="record", label=label, **self.sampling
        )

    def drugs(self, replies: Sequence[Reply]) -> frozenset[str]:
        """The names in all replies to one query."""
        return frozenset().union(*(parse_drugs(reply.text, self.with_comma) for reply in replies))


def wording_prompt(effect: str, drugs: Sequence[str]) -> Prompt:
    """The drugs that the graph gave, for the LLM to answer with."""
    asked = f"Question: {QUESTION.format(side_effect=effect)}\nAll {len(drugs)} drugs, separated by commas:"
    return user_message(f"{WORDING}{', '.join(drugs)}\n\n{asked}")


def extraction_prompt(effect: str, texts: Sequence[str]) -> Prompt:
    """Retrieved texts, for the LLM to list the drugs."""
    listed = "\n".join(texts)
    return [
        {
            "role": "user",
            "content": f"{EXTRACTION}{listed}\n\nQuestion: {QUESTION.format(side_effect=effect)}",
        }
    ]


def naming_prompt(question: str) -> Prompt:
    """The messages that ask which effect a question is about, with made-up examples."""
    return chat_messages(
        NAMING,
        question,
        [(QUESTION.format(side_effect=effect), effect) for effect in NAMING_EXAMPLES],
    )


def expand(graph: Graph, effect: str) -> list[str]:
    """The drugs of an effect by one parameterised Cypher expansion; none for an effect that the graph does not have."""
    return [
        canonical(drug)
        for row in graph.read(EXPANSION, side_effect=canonical(effect))
        for drug in row["drugs"]
    ]


def _timed(find: Callable[[], list[str]]) -> tuple[list[str], float]:
    with stopwatch() as watch:
        names = find()
    return names, watch.seconds


def retrieved_by(find: Callable[[Query], list[str]]) -> Arm:
    """An arm without an LLM: the drugs that retrieval finds are the answer."""
    return lambda queries: [returned(query, *_timed(partial(find, query))) for query in queries]


def copied_by(
    asking: Asking,
    find: Callable[[Query], list[str]],
    prompt: Callable[[str, Sequence[str]], Prompt],
    chunk: int,
    label: str,
) -> Arm:
    """An arm whose LLM copies the names that retrieval finds, so many in a prompt; what it writes is the answer."""

    def one(query: Query) -> Answer:
        found, seconds = _timed(partial(find, query))
        prompts = [
            prompt(query.effect, found[start : start + chunk])
            for start in range(0, len(found), chunk)
        ]
        replies = asking.replies(prompts, min(chunk, len(found)), label)
        return returned(query, asking.drugs(replies), seconds, replies)

    return lambda queries: [one(query) for query in queries]


def graph_only(graph: Graph) -> Arm:
    """GraphRAG as the authors measured it: the graph's answer is the answer, and no LLM sees it."""
    return retrieved_by(lambda query: expand(graph, query.effect))


def graph_llm(graph: Graph, asking: Asking, chunk: int) -> Arm:
    """GraphRAG with the LLM at the end: it words the graph's list, so many names at a time."""
    return copied_by(
        asking,
        lambda query: sorted(expand(graph, query.effect)),
        wording_prompt,
        chunk,
        "graph and LLM",
    )


def sentences_of(store: TextStore, effect: str, k: int) -> list[str]:
    """The drugs of the Format B sentences that state an effect, among the k sentences nearest to it, nearest first."""
    stating = store.rows_of_effect.get(effect, np.empty(0, dtype=np.int64))
    (rows,) = store.index.nearest([effect], k, keep=stating)
    return [store.pairs[row][0] for row in rows]


def format_b_filter(store: TextStore, k: int) -> Arm:
    """Format B, exhaustive retrieval of k sentences, and a regular expression in the LLM's place."""
    return retrieved_by(lambda query: sentences_of(store, query.effect, k))


def format_b_llm(store: TextStore, k: int, asking: Asking, chunk: int) -> Arm:
    """Format B as in the paper: k sentences, then an LLM lists the drugs, so many sentences at a time (paper: 200)."""

    def prompt(effect: str, drugs: Sequence[str]) -> Prompt:
        return extraction_prompt(
            effect, [EVIDENCE_B.format(drug=drug, side_effect=effect) for drug in drugs]
        )

    return copied_by(
        asking, lambda query: sentences_of(store, query.effect, k), prompt, chunk, "Format B"
    )


def format_b_named(store: TextStore, k: int, asking: Asking) -> Arm:
    """Format B whose LLM names the effect that the question is about; the drugs are read from its sentences.

    What the LLM writes does not grow with the set. The measure `named` is whether the name is right.
    """

    def one(query: Query) -> Answer:
        replies = asking.llm.chat_many(
            [naming_prompt(query.text)],
            max_tokens=48,
            stop=["\n"],
            label="Format B, the effect's name",
            **asking.sampling,
        )
        named = canonical(replies[0].text.strip(" \t\"'`*."))
        answer = returned(
            query, *_timed(lambda: sentences_of(store, named, k) if named else []), replies
        )
        right = {"named": (float(named == query.effect), 1.0)}
        return replace(answer, predicted=named, measures={**answer.measures, **right})

    return lambda queries: [one(query) for query in queries]


@dataclass(frozen=True)
class Window:
    """How much of the Format A documents reaches the LLM, by default as in the authors' client.

    At most so many documents, the beginning of each, and of these those that fit whole into the prompt.
    """

    documents: int = 100
    characters: int = 300
    prompt_characters: int = 20_000


def texts_of(store: TextStore, effect: str, window: Window) -> list[str]:
    """What the window shows of the Format A documents that hold the effect's words, nearest first."""
    having = np.array([row for row, text in enumerate(store.texts) if effect in text], dtype=int)
    (rows,) = store.index.nearest([effect], store.index.size, keep=having)
    holding = [store.texts[row][: window.characters] for row in rows]
    lengths = accumulate(map(len, holding[: window.documents]))
    return holding[: sum(length <= window.prompt_characters for length in lengths)]


def lists_within(store: TextStore, row: int, effect: str, characters: int) -> bool:
    """Whether the first `characters` of a Format A document hold the whole term."""
    return (
        effect in store.pairs[row][1]
        and find_term(effect, store.texts[row]) + len(effect) <= characters
    )


def format_a_llm(store: TextStore, window: Window, asking: Asking) -> Arm:
    """Format A as in the authors' client: documents that hold the effect, the beginning of each, one LLM answer."""

    def one(query: Query) -> Answer:
        texts, seconds = _timed(partial(texts_of, store, query.effect, window))
        replies = asking.replies(
            [extraction_prompt(query.effect, texts)] if texts else [], len(texts), "Format A"
        )
        relevant = (row for row, (drug, _) in enumerate(store.pairs) if drug in query.drugs)
        shown = {
            store.pairs[r][0]
            for r in relevant
            if lists_within(store, r, query.effect, window.characters)
        }
        return returned(query, asking.drugs(replies), seconds, replies, shown=shown)

    return lambda queries: [one(query) for query in queries]


def speeds(outcomes: Outcomes) -> pd.DataFrame:
    """Mean latency of Format B as a multiple of the graph's, on the queries that both answered."""
    found = {words: times_as_long(outcomes, *arms) for words, arms in SPEEDS.items()}
    digits = {words: 1 if score and score.value < 100 else 0 for words, score in found.items()}
    rows = [
        (w, figures.score_text(s, "count", digits=digits[w]), s.n) for w, s in found.items() if s
    ]
    return pd.DataFrame(rows, columns=["with", "times as long", "queries"])


def answer(outcomes: Outcomes, model: str) -> str:
    """The chapter's answer, from the rows of this run."""
    exact, found = outcomes.score("f1", "format_b"), outcomes.score("recall", "format_a")
    times = {words: times_as_long(outcomes, *arms) for words, arms in SPEEDS.items()}
    told = "; ".join(
        f"{float(f'{t.value:.2g}'):,.6g} with {words} (n = {t.n})"
        for words, t in times.items()
        if t
    )
    return (
        f"The graph is exact by construction. Format B with {model} reaches an F1 of {figures.score_text(exact)} on "
        f"{exact.n} queries, and Format A finds {figures.score_text(found)} of the drugs on {found.n}. Format B's "
        f"latency in this run, as a multiple of the graph's, is {told}. So copying names with a language model "
        "explains most of the printed difference in time."
    )


def cost_words(authors: Outcomes) -> str:
    """What `draw_cost` shows of one released run, in words made of its values."""
    lines = []
    for arm, names in LINES.items():
        line = linregress(authors.values(names, arm), authors.values("latency", arm))
        lines.append(
            f"{authors.label(arm)}: {line.intercept:.1f} s and {line.slope:.2f} s per {names} name, which explain "
            f"{figures.number(line.rvalue**2)} of the variance"
        )
    return f"Latency by number of names, released run. {'; '.join(lines)}."


def draw_cost(authors: Outcomes) -> Figure:
    """Latency of the released text arms by number of names: relevant ones (Format B), returned ones (Format A)."""
    fig, axes = plt.subplots(figsize=(7.2, 3.8))
    for arm, names in LINES.items():
        x, y = authors.values(names, arm), authors.values("latency", arm)
        line, ends = linregress(x, y), np.array([0, x.max()])
        axes.plot(
            x,
            y,
            "o",
            markersize=4,
            alpha=0.6,
            color=COLOURS[arm],
            label=f"{authors.label(arm)}, names {names}",
        )
        axes.plot(ends, line.intercept + line.slope * ends, color=COLOURS[arm], linewidth=1.4)
    axes.set(xlabel="names", ylabel="seconds")
    axes.set_ylim(bottom=0)
    axes.legend()
    return fig
