"""The arms of reverse queries (side_effects.md, Table 4): a side effect in, the set of drugs that may cause it out.

Each arm takes queries and gives one answer for each, whose items are the drugs. Queries are asked one after another, so
that a latency is what somebody who asks one question waits for. The text stores are built of names as `tidy` writes
them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

from helpers.completions import Reply
from helpers.graph import Graph
from helpers.llm import LLM
from helpers.rag.prompts import chat
from helpers.results.answers import Answer
from papers.side_effects.corpus import TextStore, place_of
from papers.side_effects.reverse import QUESTION, Arm, Query, canonical, parse_drugs, returned

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
TEMPLATES = (
    "{side_effect}",
    "Which drugs cause {side_effect}?",
    "may cause {side_effect} as an adverse effect",
    "The drug may cause {side_effect} as an adverse effect, adverse reaction, or side effect.",
)
"""Ways to write a query for the dense retriever; the best is chosen on effects that no query asks about."""


@dataclass(frozen=True)
class Asking:
    """How an arm asks its LLM (Methods, "LLM inference": temperature 0.1, top_p 0.9).

    Attributes:
        llm: answers; all prompts of one query are sent to it at once.
        with_comma: names that hold a comma, for the parser.
        tokens_per_drug: room in the answer for each name that could be in it; a name takes about five.
        most_tokens: longest answer, whatever the number of names (Methods: 4,096 for reverse queries).
    """

    llm: LLM
    with_comma: frozenset[str] = frozenset()
    tokens_per_drug: int = 8
    most_tokens: int = 4096
    temperature: float = 0.1
    top_p: float = 0.9

    def replies(self, prompts: Sequence[list[dict[str, str]]], names: int, label: str) -> list[Reply]:
        """A reply to each prompt of one query.

        Args:
            prompts: of one query.
            names: the most names that one answer can hold.
            label: what the progress bar says.

        Raises:
            ValueError: more prompts than the client sends at once, which would make the time wrong.
        """
        if len(prompts) > self.llm.concurrency:
            raise ValueError(
                f"{len(prompts)} prompts for one query, and the client sends {self.llm.concurrency} at once. Connect "
                f"with concurrency={len(prompts)} or more, or make the chunks larger."
            )
        return self.llm.chat_many(
            prompts,
            max_tokens=min(self.most_tokens, self.tokens_per_drug * names + 64),
            temperature=self.temperature,
            top_p=self.top_p,
            overflow="record",
            label=label,
        )

    def drugs(self, replies: Sequence[Reply]) -> frozenset[str]:
        """The names in all replies to one query."""
        return frozenset().union(*(parse_drugs(reply.text, self.with_comma) for reply in replies))


def wording_prompt(effect: str, drugs: Sequence[str]) -> list[dict[str, str]]:
    """The drugs that the graph gave, for the LLM to answer with."""
    asked = f"Question: {_question(effect)}\nAll {len(drugs)} drugs, separated by commas:"
    return [{"role": "user", "content": f"{WORDING}{', '.join(drugs)}\n\n{asked}"}]


def extraction_prompt(effect: str, texts: Sequence[str]) -> list[dict[str, str]]:
    """Retrieved texts, for the LLM to list the drugs."""
    listed = "\n".join(texts)
    return [{"role": "user", "content": f"{EXTRACTION}{listed}\n\nQuestion: {_question(effect)}"}]


def naming_prompt(question: str) -> list[dict[str, str]]:
    """The messages that ask which effect a question is about, with made-up examples."""
    return chat(NAMING, question, [(_question(effect), effect) for effect in NAMING_EXAMPLES])


def _question(effect: str) -> str:
    return QUESTION.format(side_effect=effect)


def expand(graph: Graph, effect: str) -> list[str]:
    """The drugs of an effect by one parameterised Cypher expansion; none for an effect that the graph does not have."""
    return [canonical(drug) for row in graph.read(EXPANSION, side_effect=canonical(effect)) for drug in row["drugs"]]


def _timed(find: Callable[[], list[str]]) -> tuple[list[str], float]:
    began = time.perf_counter()
    return find(), time.perf_counter() - began


def _chunks(texts: Sequence[str], size: int) -> list[Sequence[str]]:
    return [texts[start : start + size] for start in range(0, len(texts), size)]


def retrieved_by(find: Callable[[Query], list[str]]) -> Arm:
    """An arm without an LLM: the drugs that retrieval finds are the answer."""
    return lambda queries: [returned(query, *_timed(partial(find, query))) for query in queries]


def graph_only(graph: Graph) -> Arm:
    """GraphRAG as the authors measured it: the graph's answer is the answer, and no LLM sees it."""
    return retrieved_by(lambda query: expand(graph, query.effect))


def graph_llm(graph: Graph, asking: Asking, chunk: int) -> Arm:
    """GraphRAG with the LLM at the end: it words the graph's list, and what it says is what counts.

    Args:
        graph: gives the list.
        asking: the LLM.
        chunk: names in a prompt, so that no list is too long for the context.
    """

    def one(query: Query) -> Answer:
        drugs, seconds = _timed(lambda: sorted(expand(graph, query.effect)))
        prompts = [wording_prompt(query.effect, part) for part in _chunks(drugs, chunk)]
        replies = asking.replies(prompts, min(chunk, len(drugs)), "graph and LLM")
        return returned(query, asking.drugs(replies), seconds, replies)

    return lambda queries: [one(query) for query in queries]


def sentences_of(store: TextStore, effect: str, k: int) -> list[str]:
    """The drugs of the Format B sentences that state an effect, among the k sentences nearest to it, nearest first."""
    vector = store.encoder.encode([effect], progress=False)
    ids = store.index.search(vector, k)[1][0]
    stated = (store.pairs[i] for i in ids if i >= 0)
    return [drug for drug, effects in stated if effect in effects]


def format_b_filter(store: TextStore, k: int) -> Arm:
    """Format B, exhaustive retrieval, and a regular expression in the LLM's place.

    Args:
        store: one sentence a pair.
        k: how many sentences to retrieve; those about another effect are filtered out.
    """
    return retrieved_by(lambda query: sentences_of(store, query.effect, k))


def format_b_llm(store: TextStore, k: int, asking: Asking, chunk: int) -> Arm:
    """Format B as in the paper: exhaustive retrieval, then an LLM lists the drugs, so many sentences at a time.

    Args:
        store: one sentence a pair.
        k: how many sentences to retrieve; those about another effect are filtered out.
        asking: the LLM.
        chunk: sentences in a prompt (the authors: 200).
    """

    def one(query: Query) -> Answer:
        drugs, seconds = _timed(lambda: sentences_of(store, query.effect, k))
        texts = [EVIDENCE_B.format(drug=drug, side_effect=query.effect) for drug in drugs]
        prompts = [extraction_prompt(query.effect, part) for part in _chunks(texts, chunk)]
        replies = asking.replies(prompts, min(chunk, len(texts)), "Format B")
        return returned(query, asking.drugs(replies), seconds, replies)

    return lambda queries: [one(query) for query in queries]


def format_b_named(store: TextStore, k: int, asking: Asking) -> Arm:
    """Format B, with the LLM to understand the question and no LLM to copy the answer.

    The LLM names the effect that the question is about, all sentences of that effect are retrieved, and the drugs are
    read from them by the template. What the LLM writes does not grow with the set. The measure `named` is whether the
    name is right.

    Args:
        store: one sentence a pair.
        k: how many sentences to retrieve; those about another effect are filtered out.
        asking: the LLM.
    """

    def one(query: Query) -> Answer:
        replies = asking.llm.chat_many(
            [naming_prompt(query.text)],
            max_tokens=48,
            temperature=asking.temperature,
            top_p=asking.top_p,
            stop=["\n"],
            label="Format B, the effect's name",
        )
        named = canonical(replies[0].text.strip(" \t\"'`*."))
        answer = returned(query, *_timed(lambda: sentences_of(store, named, k) if named else []), replies)
        right = {"named": (float(named == query.effect), 1.0)}
        return replace(answer, predicted=named, measures={**answer.measures, **right})

    return lambda queries: [one(query) for query in queries]


@dataclass(frozen=True)
class Window:
    """How much of the Format A documents reaches the LLM. The defaults are those of the authors' client.

    Attributes:
        documents: at most so many.
        characters: of the beginning of each.
        prompt_characters: of all together; a document that does not fit whole is left out.
    """

    documents: int = 100
    characters: int = 300
    prompt_characters: int = 20_000


@dataclass(frozen=True)
class Lists:
    """What becomes of the Format A documents on their way to the LLM: row numbers, nearest first.

    Attributes:
        holding: hold the words of the effect somewhere ("pain" is also held by "abdominal pain").
        prompted: those of them that fit into the prompt.
        visible: those of them whose part in the prompt lists the effect.
    """

    holding: list[int]
    prompted: list[int]
    visible: list[int]


def lists_of(store: TextStore, effect: str, window: Window) -> Lists:
    """All Format A documents by their nearness to the effect, and which of them survive each step."""
    vector = store.encoder.encode([effect], progress=False)
    ids = [int(i) for i in store.index.search(vector, store.index.size)[1][0] if i >= 0]
    holding = [i for i in ids if effect in store.texts[i]]
    prompted: list[int] = []
    room = window.prompt_characters
    for i in holding[: window.documents]:
        room -= len(store.texts[i][: window.characters])
        if room < 0:
            break
        prompted.append(i)
    return Lists(holding, prompted, [i for i in prompted if lists_within(store, i, effect, window.characters)])


def lists_within(store: TextStore, row: int, effect: str, characters: int) -> bool:
    """Whether the first `characters` of a Format A document hold the whole term."""
    return effect in store.pairs[row][1] and place_of(effect, store.texts[row]) + len(effect) <= characters


def shown_in(store: TextStore, query: Query, characters: int) -> frozenset[str]:
    """The relevant drugs whose Format A document lists the effect within its first `characters`."""
    return frozenset(
        drug
        for row, (drug, _) in enumerate(store.pairs)
        if drug in query.drugs and lists_within(store, row, query.effect, characters)
    )


def with_window(rows: Sequence[Answer], store: TextStore, characters: int) -> list[Answer]:
    """The rows with the measure `shown`: share of relevant drugs whose Format A document lists the effect in time.

    Args:
        rows: of reverse queries.
        store: one document a drug.
        characters: of the beginning of a document that a prompt shows.
    """
    relevant: dict[str, list[bool]] = {}
    for row, (_, effects) in enumerate(store.pairs):
        for effect in effects:
            relevant.setdefault(effect, []).append(lists_within(store, row, effect, characters))
    return [
        replace(row, measures={**row.measures, "shown": (sum(of) / len(of), 1.0)})
        for row in rows
        for of in [relevant[row.unit]]
    ]


def format_a_llm(store: TextStore, window: Window, asking: Asking) -> Arm:
    """Format A as in the authors' client: documents that hold the effect, the beginning of each, one LLM answer."""

    def one(query: Query) -> Answer:
        began = time.perf_counter()
        texts = [store.texts[i][: window.characters] for i in lists_of(store, query.effect, window).prompted]
        seconds = time.perf_counter() - began
        prompts = [extraction_prompt(query.effect, texts)] if texts else []
        replies = asking.replies(prompts, len(texts), "Format A")
        shown = shown_in(store, query, window.characters)
        return returned(query, asking.drugs(replies), seconds, replies, shown=shown)

    return lambda queries: [one(query) for query in queries]


def format_a_filter(store: TextStore, step: Callable[[str], Sequence[int]]) -> Arm:
    """Format A without an LLM: the drugs of the documents that one step leaves.

    Args:
        store: one document a drug.
        step: rows of an effect's documents; a step of `lists_of`, for example.
    """
    return retrieved_by(lambda query: [store.pairs[i][0] for i in step(query.effect)])


def nearest_lists(store: TextStore, effect: str, k: int) -> list[int]:
    """Rows of the k nearest Format A documents that list the effect (the paper's Methods: k = 5)."""
    ids = store.index.search(store.encoder.encode([effect], progress=False), k)[1][0]
    return [int(i) for i in ids if i >= 0 and effect in store.pairs[i][1]]


def dense(store: TextStore, template: str) -> Arm:
    """Dense retrieval alone: the first distinct drugs of the nearest sentences, as many as are relevant.

    No filter looks at the effect, so that recall and precision are the same number, the R-precision. Knowing how many
    are relevant is an advantage that no real system has.

    Args:
        store: one sentence a pair.
        template: how the query is written, with the field `side_effect`.
    """

    def find(query: Query) -> list[str]:
        vector = store.encoder.encode([template.format(side_effect=query.effect)], progress=False)
        wanted, k = len(query.drugs), 2 * len(query.drugs)
        while True:
            ids = [i for i in store.index.search(vector, k)[1][0] if i >= 0]
            drugs = list(dict.fromkeys(store.pairs[i][0] for i in ids))[:wanted]
            if len(drugs) == wanted or k >= store.index.size:
                return drugs
            k *= 2

    return retrieved_by(find)
