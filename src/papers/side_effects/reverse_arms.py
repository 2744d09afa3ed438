"""The arms of reverse queries (side_effects.md, Table 4).

An arm takes queries about a side effect and returns the set of drugs that may cause it. Queries are
asked one after another, so a latency is what somebody who asks one question waits for. The text
stores are built of names as `reverse.tidy` writes them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from scipy.stats import linregress

from evaluation import figures
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from helpers.completions import Reply
from helpers.counting import counted
from helpers.graph import Graph
from helpers.neighbours import stopwatch
from papers.side_effects import forward
from papers.side_effects.corpus import TextStore, find_term
from papers.side_effects.reverse import (
    BEYOND,
    INSIDE,
    QUESTION,
    TIERS,
    Query,
    canonical,
    make_answer,
    parse_drugs,
)
from papers.side_effects.rules import times_as_long
from rag.prompts import Message, chat_messages, user_message

LABELS = {
    "graphrag": "GraphRAG (graph only)",
    "graph_llm": "GraphRAG (graph and LLM)",
    "format_b": "RAG (Format B, LLM copies names)",
    "format_b_named": "RAG (Format B, LLM names the effect)",
    "format_b_filter": "RAG (Format B, filter)",
    "format_a": "RAG (Format A, LLM)",
}
TEXT = figures.arm_colour("format_a")
COLOURS = {
    "graphrag": figures.arm_colour("graphrag"),
    "graph_llm": figures.arm_colour("graphrag"),
    "format_b": TEXT,
    "format_b_named": TEXT,
    "format_b_filter": TEXT,
    "format_a": TEXT,
}
"""One colour for each source: the graph, or texts of either format."""
PAPERS_COMPARISON = ("format_b", "graphrag")
SPEEDS = {
    "an LLM for the text only, as in the paper": PAPERS_COMPARISON,
    "no LLM on either side": ("format_b_filter", "graphrag"),
    "an LLM on both sides": ("format_b", "graph_llm"),
}
"""The slower and the faster arm of each comparison of Format B with the graph."""
MARKERS = {"format_b": "o", "format_a": "x"}
LINE_STYLES = {"format_b": "-", "format_a": "--"}
"""How the two text arms, which share a colour, are told apart in one panel."""
LINES = {"format_b": "relevant", "format_a": "returned"}
"""The names over which the latency of a text arm is drawn.

Format A returns few of the relevant ones.
"""

EXPANSION = """
MATCH (s:SideEffect {name: $side_effect})<-[:may_cause_side_effect]-(d:Drug)
RETURN collect(d.name) AS drugs
"""
# The authors' client shortens the Format B sentence like this in the prompt; what is indexed is the
# complete sentence.
EVIDENCE_B = "The drug {drug} may cause {side_effect} as an adverse effect."

# The part that all prompts of an arm share comes first, so that an engine that caches prefixes
# reads it once.
EXTRACTION = (
    "You are given texts about drugs and their adverse effects. List every drug that the texts "
    "associate with the adverse effect asked for. Give only the names of the drugs, written as in "
    "the texts, separated by commas, each name once. Base your answer strictly on the texts."
    "\n\nTexts:\n\n"
)
WORDING = (
    "You are given the drugs that a knowledge graph associates with an adverse effect. Answer the "
    "question by listing every one of them and no other. Give only the names, written as in the "
    "graph, separated by commas.\n\nDrugs of the graph: "
)
NAMING = (
    "Which adverse effect does the question ask about? Answer with its name alone, letter for "
    "letter as it stands in the question."
)
NAMING_EXAMPLES = ("glassy elbow", "singing, nocturnal", "blue laughter syndrome")
"""None of them is an effect: a test item must never be in a prompt."""

PromptWriter = Callable[[str, Sequence[str]], list[Message]]
"""Writes a prompt of an effect and of names that retrieval found."""


@dataclass(frozen=True)
class SetGenerator(forward.Generator):
    """An LLM that is sent all prompts of one query at once (Methods, "LLM inference").

    Attributes:
        max_tokens: Longest reply, in tokens.
        with_comma: Names that the parser does not split.
        tokens_per_drug: Room in a reply for each name that could be in it, in tokens.
    """

    max_tokens: int = 4096
    with_comma: frozenset[str] = frozenset()
    tokens_per_drug: int = 8

    def generate_at_once(
        self, prompts: Sequence[list[Message]], n_names: int, label: str
    ) -> list[Reply]:
        """Ask for a reply to each prompt of one query.

        Args:
            prompts: The messages of each prompt.
            n_names: Number of names that a reply has room for.
            label: Name of this step in progress bars and in the record of the run.

        Raises:
            ValueError: The client does not send as many prompts at once.
        """
        if len(prompts) > self.llm.concurrency:
            raise ValueError(
                f"{len(prompts)} prompts for one query, and the client sends "
                f"{self.llm.concurrency} at once. Connect with concurrency={len(prompts)} or more, "
                "or make the chunks larger."
            )
        max_tokens = min(self.max_tokens, self.tokens_per_drug * n_names + 64)
        return self.llm.chat_many(
            prompts, max_tokens=max_tokens, overflow="record", label=label, **self.sampling
        )

    def parse_replies(self, replies: Sequence[Reply]) -> frozenset[str]:
        """Read the names in all replies to one query."""
        drugs: set[str] = set()
        for reply in replies:
            drugs |= parse_drugs(reply.text, self.with_comma)
        return frozenset(drugs)


def wording_prompt(effect: str, drugs: Sequence[str]) -> list[Message]:
    """Build the prompt with the drugs that the graph has, for the LLM to answer with."""
    question = QUESTION.format(side_effect=effect)
    request = f"Question: {question}\nAll {len(drugs)} drugs, separated by commas:"
    return user_message(f"{WORDING}{', '.join(drugs)}\n\n{request}")


def extraction_prompt(effect: str, texts: Sequence[str]) -> list[Message]:
    """Build the prompt with retrieved texts, for the LLM to list the drugs."""
    listed = "\n".join(texts)
    question = QUESTION.format(side_effect=effect)
    return user_message(f"{EXTRACTION}{listed}\n\nQuestion: {question}")


def sentences_prompt(effect: str, drugs: Sequence[str]) -> list[Message]:
    """Build the prompt with a Format B sentence about each drug."""
    sentences = [EVIDENCE_B.format(drug=drug, side_effect=effect) for drug in drugs]
    return extraction_prompt(effect, sentences)


def naming_prompt(question: str) -> list[Message]:
    """Build the prompt that asks which effect a question is about, with made-up examples."""
    examples = [(QUESTION.format(side_effect=effect), effect) for effect in NAMING_EXAMPLES]
    return chat_messages(NAMING, question, examples)


def expand(graph: Graph, effect: str) -> list[str]:
    """Find the drugs of an effect by one parameterised Cypher expansion.

    Returns:
        The drugs; none for an effect that the graph does not have.
    """
    rows = graph.read(EXPANSION, side_effect=canonical(effect))
    return [canonical(drug) for row in rows for drug in row["drugs"]]


def find_stating_drugs(store: TextStore, effect: str, k: int) -> list[str]:
    """Find the drugs of the Format B sentences that state an effect.

    Only the k sentences nearest to the effect are searched; the nearest comes first.
    """
    no_rows = np.empty(0, dtype=np.int64)
    stating = store.rows_of_effect.get(effect, no_rows)
    (rows,) = store.index.nearest([effect], k, keep=stating)
    return [store.pairs[row][0] for row in rows]


class Retrieved(NamedTuple):
    """The names or texts that retrieval found, and its seconds."""

    found: list[str]
    seconds: float


def _time(search: Callable[[], list[str]]) -> Retrieved:
    with stopwatch() as watch:
        found = search()
    return Retrieved(found, watch.seconds)


@dataclass(frozen=True)
class GraphOnly:
    """GraphRAG as the authors measured it: the graph's answer is the answer, without an LLM."""

    graph: Graph

    def __call__(self, queries: Sequence[Query]) -> list[Answer]:
        """Answer each query."""
        answers = []
        for query in queries:
            drugs, seconds = _time(partial(expand, self.graph, query.effect))
            answers.append(make_answer(query, drugs, seconds))
        return answers


@dataclass(frozen=True)
class FormatBFilter:
    """Format B, exhaustive retrieval, and a filter in the LLM's place.

    Attributes:
        store: The sentences.
        k: Number of sentences to retrieve.
    """

    store: TextStore
    k: int

    def __call__(self, queries: Sequence[Query]) -> list[Answer]:
        """Answer each query."""
        answers = []
        for query in queries:
            drugs, seconds = _time(partial(find_stating_drugs, self.store, query.effect, self.k))
            answers.append(make_answer(query, drugs, seconds))
        return answers


@dataclass(frozen=True)
class Prompter:
    """How retrieved names reach the LLM.

    Attributes:
        write: Writes a prompt.
        chunk: Number of names in a prompt.
        label: Name of the step in progress bars and in the record of the run.
    """

    write: PromptWriter
    chunk: int
    label: str


def copy_names(
    query: Query, retrieved: Retrieved, generator: SetGenerator, prompter: Prompter
) -> Answer:
    """Have the LLM copy the names that retrieval found; what it writes is the answer."""
    names = retrieved.found
    prompts = []
    for start in range(0, len(names), prompter.chunk):
        part = names[start : start + prompter.chunk]
        prompts.append(prompter.write(query.effect, part))
    n_names = min(prompter.chunk, len(names))
    replies = generator.generate_at_once(prompts, n_names, prompter.label)
    drugs = generator.parse_replies(replies)
    return make_answer(query, drugs, retrieved.seconds, replies)


@dataclass(frozen=True)
class GraphLlm:
    """GraphRAG with the LLM at the end: it words the graph's list.

    Attributes:
        graph: The graph of drugs and side effects.
        generator: The LLM that words.
        chunk: Number of names in a prompt.
    """

    graph: Graph
    generator: SetGenerator
    chunk: int

    def __call__(self, queries: Sequence[Query]) -> list[Answer]:
        """Answer each query."""
        prompter = Prompter(wording_prompt, self.chunk, "graph and LLM")
        answers = []
        for query in queries:
            retrieved = _time(partial(self._expand_sorted, query.effect))
            answers.append(copy_names(query, retrieved, self.generator, prompter))
        return answers

    def _expand_sorted(self, effect: str) -> list[str]:
        return sorted(expand(self.graph, effect))


@dataclass(frozen=True)
class FormatBLlm:
    """Format B as in the paper: an LLM lists the drugs of the retrieved sentences.

    Attributes:
        store: The sentences.
        k: Number of sentences to retrieve.
        generator: The LLM that lists.
        chunk: Number of sentences in a prompt; the authors' client: 200.
    """

    store: TextStore
    k: int
    generator: SetGenerator
    chunk: int

    def __call__(self, queries: Sequence[Query]) -> list[Answer]:
        """Answer each query."""
        prompter = Prompter(sentences_prompt, self.chunk, "Format B")
        answers = []
        for query in queries:
            retrieved = _time(partial(find_stating_drugs, self.store, query.effect, self.k))
            answers.append(copy_names(query, retrieved, self.generator, prompter))
        return answers


@dataclass(frozen=True)
class FormatBNamed:
    """Format B whose LLM names the effect of the question; its sentences give the drugs.

    What the LLM writes does not grow with the set. The measure ``named`` is whether the name is
    right.

    Attributes:
        store: The sentences.
        k: Number of sentences to retrieve.
        generator: The LLM that names.
    """

    store: TextStore
    k: int
    generator: SetGenerator

    def __call__(self, queries: Sequence[Query]) -> list[Answer]:
        """Answer each query."""
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query) -> Answer:
        (reply,) = self.generator.llm.chat_many(
            [naming_prompt(query.text)],
            max_tokens=48,
            stop=["\n"],
            label="Format B, the effect's name",
            **self.generator.sampling,
        )
        name = canonical(reply.text.strip(" \t\"'`*."))
        drugs, seconds = _time(partial(self._find, name))
        answer = make_answer(query, drugs, seconds, [reply])
        measures = {**answer.measures, "named": (float(name == query.effect), 1.0)}
        return replace(answer, predicted=name, measures=measures)

    def _find(self, name: str) -> list[str]:
        return find_stating_drugs(self.store, name, self.k) if name else []


@dataclass(frozen=True)
class Window:
    """How much of the Format A documents reaches the LLM, by default as in the authors' client.

    Attributes:
        documents: Largest number of documents.
        characters: Characters of each document.
        prompt_characters: Characters of all documents; the first that does not fit is left out,
            and so are all after it.
    """

    documents: int = 100
    characters: int = 300
    prompt_characters: int = 20_000


def documents_in_window(store: TextStore, effect: str, window: Window) -> list[int]:
    """Return the documents with the effect's words that reach the prompt, nearest first."""
    containing = [row for row, text in enumerate(store.texts) if effect in text]
    (rows,) = store.index.nearest([effect], store.index.size, keep=np.array(containing, dtype=int))
    nearest = [int(row) for row in rows[: window.documents]]
    lengths = [len(store.texts[row][: window.characters]) for row in nearest]
    n_fitting = sum(length <= window.prompt_characters for length in accumulate(lengths))
    return nearest[:n_fitting]


def lists_within(store: TextStore, row: int, effect: str, characters: int) -> bool:
    """Whether the first ``characters`` of a Format A document have the complete term."""
    _, effects = store.pairs[row]
    if effect not in effects:
        return False
    end = find_term(effect, store.texts[row]) + len(effect)
    return end <= characters


def shown_by_client(store: TextStore, queries: Sequence[Query]) -> list[float]:
    """Share of each query's drugs whose effect the authors' client can show at most.

    Args:
        store: The documents of Format A.
        queries: The queries.

    Returns:
        One share a query, as if the documents that show the effect were the nearest ones.
    """
    client = Window()
    shares = []
    for query in queries:
        rows = store.rows_of_effect.get(query.effect, ())
        n_shown = sum(lists_within(store, row, query.effect, client.characters) for row in rows)
        shares.append(min(n_shown, client.documents) / len(query.drugs))
    return shares


@dataclass(frozen=True)
class FormatALlm:
    """Format A as in the authors' client: one LLM answer from the beginnings of the documents.

    Attributes:
        store: The documents.
        window: How much of them reaches the LLM.
        generator: The LLM that lists.
    """

    store: TextStore
    window: Window
    generator: SetGenerator

    def __call__(self, queries: Sequence[Query]) -> list[Answer]:
        """Answer each query."""
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query) -> Answer:
        with stopwatch() as watch:
            documents = documents_in_window(self.store, query.effect, self.window)
            texts = [self.store.texts[row][: self.window.characters] for row in documents]
        prompts = [extraction_prompt(query.effect, texts)] if texts else []
        replies = self.generator.generate_at_once(prompts, len(texts), "Format A")
        drugs = self.generator.parse_replies(replies)
        in_window = self._places_of_effect(query, documents)
        return make_answer(query, drugs, watch.seconds, replies, in_window=in_window)

    def _places_of_effect(self, query: Query, documents: Sequence[int]) -> dict[str, str]:
        """Say whether the prompt shows the effect, of each relevant drug whose document it has."""
        places = {}
        for row in documents:
            drug, _ = self.store.pairs[row]
            if drug not in query.drugs:
                continue
            is_shown = lists_within(self.store, row, query.effect, self.window.characters)
            places[drug] = INSIDE if is_shown else BEYOND
        return places


def speeds(outcomes: Outcomes) -> pd.DataFrame:
    """Mean latency of Format B as a multiple of the graph's, on queries that both answered."""
    rows = []
    for words, arms in SPEEDS.items():
        ratio = times_as_long(outcomes, *arms)
        if ratio:
            digits = 1 if ratio.value < 100 else 0
            rows.append((words, figures.score_text(ratio, "count", digits=digits), ratio.n))
    return pd.DataFrame(rows, columns=["with", "times as long", "queries"])


def speed_without_llm(outcomes: Outcomes) -> str:
    """Say how many times as long as the graph Format B takes, without a model on either side."""
    ratio = times_as_long(outcomes, *SPEEDS["no LLM on either side"])
    if ratio is None:
        return ""
    return (
        f" Without an LLM on either side, text takes {_about(ratio.value)} times as long as the "
        "graph."
    )


def _about(value: float) -> str:
    """Round a factor to two digits."""
    two_digits = float(f"{value:.2g}")
    return f"about {two_digits:,.6g}"


def answer(outcomes: Outcomes, model: str) -> str:
    """Write the chapter's answer.

    Args:
        outcomes: The rows of this run.
        model: Name of the language model.
    """
    exact = outcomes.score("f1", "format_b")
    is_sample = exact.n < outcomes.score("f1", "graphrag").n
    which = " on a sample of the queries" if is_sample else ""
    recall = outcomes.score("recall", "format_a")
    text = (
        "The graph returns the set of drugs with an effect exactly, because the right answers are "
        f"read from it. From retrieved sentences, {model} copies drug names and reaches an F1 of "
        f"{figures.score_text(exact)}{which}. From lists, of which the prompt shows only the "
        f"beginning, the model finds {figures.score_text(recall)} of a query's drugs.\n\n"
        f"The model read sentences (Format B) for {_queries_in_words(outcomes, 'format_b')}, and "
        f"lists (Format A) for {_queries_in_words(outcomes, 'format_a')}."
    )
    ratio = times_as_long(outcomes, *PAPERS_COMPARISON)
    if ratio is None:
        return text
    return (
        f"{text} On {counted(ratio.n, 'query', 'queries')}, Format B took {_about(ratio.value)} "
        "times as long as the graph, mainly because a language model copies each name. The section "
        "“Like for like” compares Format B and the graph without a language model."
    )


def _queries_in_words(outcomes: Outcomes, arm: str) -> str:
    """Say how many of the graph's queries an arm answered, and how many of the largest."""
    all_queries = outcomes.where(arm="graphrag")
    answered = outcomes.where(arm=arm)
    n_queries = len(all_queries.frame)
    if len(answered.frame) == n_queries:
        return f"all {counted(n_queries, 'query', 'queries')}"
    *_, largest = TIERS
    n_large = _n_of_tier(answered, largest)
    n_large_queries = _n_of_tier(all_queries, largest)
    words = f"{len(answered.frame):,} of {counted(n_queries, 'query', 'queries')}"
    if not n_large_queries:
        return words
    large = counted(n_large_queries, f"{largest} one")
    return f"{words}, among them {n_large} of the {large} ({TIERS[largest][0]} drugs or more)"


def _n_of_tier(outcomes: Outcomes, tier: str) -> int:
    return sum(strata.get("tier") == tier for strata in outcomes.frame.strata)


def cost_words(authors: Outcomes) -> str:
    """Describe what `draw_cost` shows of one released run."""
    lines = []
    for arm, names in LINES.items():
        line = linregress(authors.values(names, arm), authors.values("latency", arm))
        explained = figures.number(line.rvalue**2)
        lines.append(
            f"For {authors.label(arm)}, a line of {line.intercept:.1f} s plus {line.slope:.2f} s "
            f"per {names} name explains {explained} of the variance."
        )
    points = "Each point is a query."
    return f"Seconds per query by number of names, in the released run. {points} {' '.join(lines)}"


def draw_cost(authors: Outcomes) -> Figure:
    """Draw the latency of the released text arms by number of names.

    The names are the relevant ones for Format B and the returned ones for Format A.
    """
    fig, axes = plt.subplots(figsize=(7.2, 3.8))
    for arm, names in LINES.items():
        n_names = authors.values(names, arm)
        latency = authors.values("latency", arm)
        axes.plot(
            n_names,
            latency,
            MARKERS[arm],
            markersize=4,
            alpha=0.6,
            color=COLOURS[arm],
            label=f"{authors.label(arm)}, names {names}",
        )
        line = linregress(n_names, latency)
        ends = np.array([0, n_names.max()])
        height = line.intercept + line.slope * ends
        axes.plot(ends, height, LINE_STYLES[arm], color=COLOURS[arm], linewidth=1.4)
    axes.set(xlabel="names", ylabel="seconds")
    axes.set_ylim(bottom=0)
    axes.legend()
    return fig
