"""Reverse queries (side_effects.md, Table 4): a side effect in, the set of drugs that may cause it out.

Each arm is one function of the same signature: queries in, one returned set with its latency each out. Queries are
asked one after another, so that a latency is what somebody who asks one question waits for. The text stores are built
of names as `tidy` writes them.
"""

from __future__ import annotations

import ast
import gzip
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd

from helpers.graph import Graph
from helpers.llm import LLM, Reply
from helpers.results.metrics import set_scores
from papers.side_effects.forward import TextStore, read_format_a

TIERS: dict[str, tuple[int, float]] = {
    "rare": (5, 19),
    "small": (20, 99),
    "medium": (100, 499),
    "large": (500, math.inf),
}
"""Fewest and most matching drugs of a query of each tier (Results, "Reverse queries")."""
METRICS = ("recall", "precision", "f1")

QUESTION = "Which drugs cause {side_effect}?"
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


# ------------------------------------------------------------------------------------------------------------- queries


@dataclass(frozen=True)
class Query:
    """One reverse query with its true answer."""

    effect: str
    drugs: frozenset[str]

    @property
    def text(self) -> str:
        """The query in words."""
        return QUESTION.format(side_effect=self.effect)

    @property
    def tier(self) -> str:
        """The tier of its number of drugs.

        Raises:
            ValueError: fewer drugs than any tier has.
        """
        tier = tier_of(len(self.drugs))
        if tier is None:
            raise ValueError(f"{self.effect!r} has {len(self.drugs)} drugs, and the smallest tier begins at 5.")
        return tier


@dataclass(frozen=True)
class Result:
    """What an arm returned to one query.

    Attributes:
        drugs: the returned set, names as `canonical` writes them.
        steps: seconds of each step (retrieve, read, parse), in the order in which they were taken.
        retrieved: texts, or names from the graph, that retrieval gave.
        prompted: how many of these the LLM was shown; 0 for an arm without one.
        overflow: prompts that did not fit the context; what they held is missing from the set.
        cut: answers that were stopped at the longest length allowed.
        prompt_tokens, generated_tokens: of all prompts of the query.
        replies: the LLM's words, a text a prompt.
    """

    drugs: frozenset[str]
    steps: dict[str, float]
    retrieved: int = 0
    prompted: int = 0
    overflow: int = 0
    cut: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0
    replies: tuple[str, ...] = field(default=(), repr=False)

    @property
    def seconds(self) -> float:
        """From the query to the complete set (Methods, "Evaluation metrics")."""
        return sum(self.steps.values())


Arm = Callable[[Sequence[Query]], list[Result]]
"""An architecture under comparison: queries in, one result for each out."""


def canonical(name: str) -> str:
    """A name as sets are compared: without regard to case and to white space around or within."""
    return " ".join(name.casefold().split())


def tier_of(drugs: int) -> str | None:
    """The tier of a query with so many matching drugs; None below the smallest."""
    return next((tier for tier, (low, high) in TIERS.items() if low <= drugs <= high), None)


def tidy(knowledge: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """The same side effects of each drug, every name as `canonical` writes it."""
    return {canonical(drug): tuple(map(canonical, effects)) for drug, effects in knowledge.items()}


def invert(knowledge: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """The drugs of each side effect, from the side effects of each drug."""
    drugs: dict[str, set[str]] = {}
    for drug, effects in knowledge.items():
        for effect in effects:
            drugs.setdefault(effect, set()).add(drug)
    return {effect: frozenset(of_effect) for effect, of_effect in drugs.items()}


def read_truth(path: Path) -> dict[str, frozenset[str]]:
    """The authors' ground truth: JSON, the drugs of each side effect as their graph gave them."""
    content: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    return {canonical(effect): frozenset(map(canonical, drugs)) for effect, drugs in content.items()}


def read_older(path: Path) -> pd.DataFrame:
    """The authors' older set of queries: CSV with columns side_effect and expected_drugs (a Python list as text).

    Returns:
        Columns effect, expected_drugs (frozenset).
    """
    table = pd.read_csv(path, usecols=["side_effect", "expected_drugs"])
    drugs = [frozenset(map(canonical, ast.literal_eval(text))) for text in table.expected_drugs]
    return pd.DataFrame({"effect": table.side_effect.map(canonical), "expected_drugs": drugs})


def all_queries(truth: Mapping[str, frozenset[str]]) -> list[Query]:
    """One query for each effect that has enough drugs for a tier, by name."""
    return [Query(effect, truth[effect]) for effect in sorted(truth) if tier_of(len(truth[effect]))]


def asked(effects: Iterable[str], truth: Mapping[str, frozenset[str]]) -> list[Query]:
    """The queries about some effects, in their order.

    Raises:
        ValueError: an effect is not in the truth.
    """
    names = [canonical(effect) for effect in effects]
    if missing := [name for name in names if name not in truth]:
        raise ValueError(f"{len(missing)} effects are not in the ground truth, for example {missing[:3]}.")
    return [Query(name, truth[name]) for name in names]


def stratified(queries: Sequence[Query], per_tier: Mapping[str, int], seed: int) -> list[Query]:
    """So many queries of each tier, drawn without replacement; all of a tier that has no more.

    A larger number takes the same queries and more. The order of `queries` does not matter.

    Raises:
        ValueError: a tier that does not exist.
    """
    if unknown := per_tier.keys() - TIERS.keys():
        raise ValueError(f"There is no tier {sorted(unknown)}; the tiers are {', '.join(TIERS)}.")
    taken = []
    for tier in TIERS:
        of_tier = sorted((q for q in queries if q.tier == tier), key=lambda q: q.effect)
        # a generator of its own for each tier, so that one tier's number does not move another's draw
        order = np.random.default_rng([seed, list(TIERS).index(tier)]).permutation(len(of_tier))
        taken += [of_tier[i] for i in order[: per_tier.get(tier, 0)]]
    return taken


# ------------------------------------------------------------------------------------------------------------- parsing

_MARK = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)](?=\s))\s*")
_LEAD = re.compile(r"^(?:(?:and|drugs?|answer|the drugs?)\b(?!-)\s*:?\s*)+", re.IGNORECASE)
_SENTENCE = re.compile(r"^.*\b(?:are|is|includes?|including)\s+")


def parse_drugs(reply: str, with_comma: Iterable[str] = ()) -> frozenset[str]:
    """The set of names in an LLM's answer: comma-separated, bulleted, numbered, or in a sentence.

    Args:
        reply: the answer.
        with_comma: known names that hold a comma themselves ("1,25(oh)2d3"); they stay whole.
    """
    text = reply.casefold()
    found = set()
    for name in sorted(map(canonical, with_comma), key=len, reverse=True):
        whole = re.compile(rf"(?<![\w,]){re.escape(name)}(?![\w(])")
        if whole.search(text):
            found.add(name)
            text = whole.sub(", ", text)
    for line in text.splitlines():
        for i, piece in enumerate(re.split(r"[,;]", _listed(line))):
            name = _LEAD.sub("", _MARK.sub("", piece).strip())
            name = _SENTENCE.sub("", name) if i == 0 else name
            found.add(canonical(name.partition(": ")[0].strip(" \t\"'`*:").removesuffix(".")))
    return frozenset(name for name in found if name)


def _listed(line: str) -> str:
    """The part of a line that holds names: after what introduces a list, or before a remark on a bulleted name."""
    if line.rstrip().endswith(":"):
        return ""
    if _MARK.match(line):
        return _MARK.sub("", line).partition(": ")[0]
    # several colons: each name has its own remark
    return line.partition(": ")[2] if line.count(": ") == 1 else line


def parse_plain(reply: str) -> frozenset[str]:
    """The same as a plain client does it: split at every comma, drop pieces of one character.

    What the authors' client does to a comma-separated answer. It breaks "1,25(oh)2d3" and loses the drug "v".
    """
    pieces = reply.split(",") if "," in reply else reply.splitlines()
    return frozenset(canonical(piece) for piece in pieces if len(piece.strip()) > 1)


# ---------------------------------------------------------------------------------------------------------------- arms


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

    def read(
        self, prompts: Sequence[list[dict[str, str]]], names: int, steps: dict[str, float], label: str, **counts: int
    ) -> Result:
        """Ask all prompts of one query, parse the answers, merge the sets.

        The time of reading is that of the slowest answer, since all are under way at once. It is stored with an answer,
        so that one that comes from the disk still says what it took.

        Args:
            prompts: of one query.
            names: the most names that one answer can hold.
            steps: seconds of the steps before.
            label: what the progress bar says.
            counts: further fields of the result.

        Raises:
            ValueError: more prompts than the client sends at once, which would make the time wrong.
        """
        if len(prompts) > self.llm.concurrency:
            raise ValueError(
                f"{len(prompts)} prompts for one query, and the client sends {self.llm.concurrency} at once. Connect "
                f"with concurrency={len(prompts)} or more, or make the chunks larger."
            )
        replies: list[Reply] = self.llm.chat_many(
            prompts,
            max_tokens=min(self.most_tokens, self.tokens_per_drug * names + 64),
            temperature=self.temperature,
            top_p=self.top_p,
            overflow="record",
            label=label,
        )
        began = time.perf_counter()
        drugs = frozenset().union(*(parse_drugs(reply.text, self.with_comma) for reply in replies))
        steps = steps | {
            "read": max((reply.seconds for reply in replies if reply.status != "overflow"), default=0.0),
            "parse": time.perf_counter() - began,
        }
        return Result(
            drugs,
            steps,
            overflow=sum(reply.status == "overflow" for reply in replies),
            cut=sum(reply.status == "cut" for reply in replies),
            prompt_tokens=sum(reply.prompt_tokens for reply in replies),
            generated_tokens=sum(reply.generated_tokens for reply in replies),
            replies=tuple(reply.text for reply in replies),
            **counts,
        )


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
    messages = [{"role": "system", "content": NAMING}]
    for effect in NAMING_EXAMPLES:
        messages += [{"role": "user", "content": _question(effect)}, {"role": "assistant", "content": effect}]
    return [*messages, {"role": "user", "content": question}]


def _question(effect: str) -> str:
    return QUESTION.format(side_effect=effect)


def expand(graph: Graph, effect: str) -> list[str]:
    """The drugs of an effect by one parameterised Cypher expansion; none for an effect that the graph does not have."""
    return [canonical(drug) for row in graph.read(EXPANSION, side_effect=canonical(effect)) for drug in row["drugs"]]


def graph_only(graph: Graph) -> Arm:
    """GraphRAG as the authors measured it: the graph's answer is the answer, and no LLM sees it."""

    def one(query: Query) -> Result:
        began = time.perf_counter()
        drugs = expand(graph, query.effect)
        return Result(frozenset(drugs), {"retrieve": time.perf_counter() - began}, retrieved=len(drugs))

    return lambda queries: [one(query) for query in queries]


def graph_llm(graph: Graph, asking: Asking, chunk: int) -> Arm:
    """GraphRAG with the LLM at the end: it words the graph's list, and what it says is what counts.

    Args:
        graph: gives the list.
        asking: the LLM.
        chunk: names a prompt, so that no list is too long for the context.
    """

    def one(query: Query) -> Result:
        began = time.perf_counter()
        drugs = sorted(expand(graph, query.effect))
        chunks = [drugs[start : start + chunk] for start in range(0, len(drugs), chunk)]
        steps = {"retrieve": time.perf_counter() - began}
        prompts = [wording_prompt(query.effect, part) for part in chunks]
        counts = {"retrieved": len(drugs), "prompted": len(drugs)}
        return asking.read(prompts, min(chunk, len(drugs)), steps, "graph and LLM", **counts)

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

    def one(query: Query) -> Result:
        began = time.perf_counter()
        drugs = sentences_of(store, query.effect, k)
        return Result(frozenset(drugs), {"retrieve": time.perf_counter() - began}, retrieved=len(drugs))

    return lambda queries: [one(query) for query in queries]


def format_b_llm(store: TextStore, k: int, asking: Asking, chunk: int) -> Arm:
    """Format B as in the paper: exhaustive retrieval, then an LLM lists the drugs, so many sentences at a time.

    Args:
        store: one sentence a pair.
        k: how many sentences to retrieve; those about another effect are filtered out.
        asking: the LLM.
        chunk: sentences a prompt (the authors: 200).
    """

    def one(query: Query) -> Result:
        began = time.perf_counter()
        drugs = sentences_of(store, query.effect, k)
        texts = [EVIDENCE_B.format(drug=drug, side_effect=query.effect) for drug in drugs]
        chunks = [texts[start : start + chunk] for start in range(0, len(texts), chunk)]
        steps = {"retrieve": time.perf_counter() - began}
        prompts = [extraction_prompt(query.effect, part) for part in chunks]
        counts = {"retrieved": len(texts), "prompted": len(texts)}
        return asking.read(prompts, min(chunk, len(texts)), steps, "Format B", **counts)

    return lambda queries: [one(query) for query in queries]


def format_b_named(store: TextStore, k: int, asking: Asking) -> Arm:
    """Format B, with the LLM to understand the question and no LLM to copy the answer.

    The LLM names the effect that the question is about, all sentences of that effect are retrieved, and the drugs are
    read from them by the template. What the LLM writes does not grow with the set.

    Args:
        store: one sentence a pair.
        k: how many sentences to retrieve; those about another effect are filtered out.
        asking: the LLM.
    """

    def one(query: Query) -> Result:
        (reply,) = asking.llm.chat_many(
            [naming_prompt(query.text)],
            max_tokens=48,
            temperature=asking.temperature,
            top_p=asking.top_p,
            stop=["\n"],
            label="Format B, the effect's name",
        )
        began = time.perf_counter()
        named = canonical(reply.text.strip(" \t\"'`*."))
        drugs = sentences_of(store, named, k) if named else []
        return Result(
            frozenset(drugs),
            {"retrieve": time.perf_counter() - began, "read": reply.seconds},
            retrieved=len(drugs),
            cut=int(reply.status == "cut"),
            prompt_tokens=reply.prompt_tokens,
            generated_tokens=reply.generated_tokens,
            replies=(named,),
        )

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
    text, effects = store.texts[row], store.pairs[row][1]
    shown = text[:characters]
    if text[characters : characters + 1] not in ("", ","):
        # the last term is cut within a word, and could be another term by chance
        shown = shown.rpartition(",")[0]
    return effect in effects and effect in read_format_a(shown, {e for e in effects if ", " in e})[1]


def format_a_llm(store: TextStore, window: Window, asking: Asking) -> Arm:
    """Format A as in the authors' client: documents that hold the effect, the beginning of each, one LLM answer."""

    def one(query: Query) -> Result:
        began = time.perf_counter()
        lists = lists_of(store, query.effect, window)
        texts = [store.texts[i][: window.characters] for i in lists.prompted]
        steps = {"retrieve": time.perf_counter() - began}
        prompts = [extraction_prompt(query.effect, texts)] if texts else []
        counts = {"retrieved": len(lists.holding), "prompted": len(texts)}
        return asking.read(prompts, len(texts), steps, "Format A", **counts)

    return lambda queries: [one(query) for query in queries]


def format_a_filter(store: TextStore, step: Callable[[str], Sequence[int]]) -> Arm:
    """Format A without an LLM: the drugs of the documents that one step leaves.

    Args:
        store: one document a drug.
        step: rows of an effect's documents; a step of `lists_of`, for example.
    """

    def one(query: Query) -> Result:
        began = time.perf_counter()
        drugs = [store.pairs[i][0] for i in step(query.effect)]
        return Result(frozenset(drugs), {"retrieve": time.perf_counter() - began}, retrieved=len(drugs))

    return lambda queries: [one(query) for query in queries]


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

    def one(query: Query) -> Result:
        began = time.perf_counter()
        vector = store.encoder.encode([template.format(side_effect=query.effect)], progress=False)
        wanted, k = len(query.drugs), 2 * len(query.drugs)
        while True:
            ids = [i for i in store.index.search(vector, k)[1][0] if i >= 0]
            drugs = list(dict.fromkeys(store.pairs[i][0] for i in ids))[:wanted]
            if len(drugs) == wanted or k >= store.index.size:
                break
            k *= 2
        return Result(frozenset(drugs), {"retrieve": time.perf_counter() - began}, retrieved=len(ids))

    return lambda queries: [one(query) for query in queries]


def tune_dense(
    store: TextStore, queries: Sequence[Query], templates: Sequence[str] = TEMPLATES
) -> dict[str, list[float]]:
    """R-precision of each template on each query; for queries that are not in the test."""
    return {
        template: [
            set_scores(result.drugs, query.drugs)["f1"]
            for query, result in zip(queries, dense(store, template)(queries), strict=True)
        ]
        for template in templates
    }


# ------------------------------------------------------------------------------------------------------------- results


def score(queries: Sequence[Query], results: Sequence[Result]) -> pd.DataFrame:
    """A row a query: effect, tier, relevant, returned, recall, precision, f1, seconds, each step, and the counts."""
    rows = [
        {
            "effect": query.effect,
            "tier": query.tier,
            "relevant": len(query.drugs),
            "returned": len(result.drugs),
            **set_scores(result.drugs, query.drugs),
            "seconds": result.seconds,
            **{step: result.steps.get(step, 0.0) for step in ("retrieve", "read", "parse")},
            "retrieved": result.retrieved,
            "prompted": result.prompted,
            "overflow": result.overflow,
            "cut": result.cut,
            "prompt_tokens": result.prompt_tokens,
            "generated_tokens": result.generated_tokens,
        }
        for query, result in zip(queries, results, strict=True)
    ]
    return pd.DataFrame(rows)


def read_released(path: Path) -> dict[str, pd.DataFrame]:
    """One released run: JSON, for each architecture a row a query with its counts; the sets are not released.

    Returns:
        By arm (graphrag, format_b, format_a): effect, tier, relevant, returned, tp, fp, fn, recall, precision, f1,
        seconds. The three scores are recomputed from the counts. `attrs["total"]` holds the run's own clock in seconds.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    runs = {"graphrag": "GraphRAG", "format_b": "Format_B_Chunked", "format_a": "Format_A"}
    tables = {}
    for arm, name in runs.items():
        rows = pd.DataFrame(content[name]["detailed_results"])
        hits, false, missed = rows.true_positives, rows.false_positives, rows.false_negatives
        table = pd.DataFrame(
            {
                "effect": rows.side_effect.map(canonical),
                "tier": rows.tier,
                "relevant": hits + missed,
                "returned": hits + false,
                "tp": hits,
                "fp": false,
                "fn": missed,
                "recall": hits / (hits + missed),
                # an empty answer has precision 0, as in the authors' code
                "precision": (hits / (hits + false)).fillna(0.0),
                "f1": 2 * hits / (2 * hits + false + missed),
                "seconds": rows.latency,
            }
        )
        table.attrs["total"] = float(content[name]["total_time"])
        tables[arm] = table
    return tables


def keep_sets(path: Path, queries: Mapping[str, Sequence[Query]], results: Mapping[str, Sequence[Result]]) -> Path:
    """Keep every returned set as compressed JSON: names once, sets as their numbers.

    The same sets make the same file.

    Args:
        path: where to, ending in .json.gz.
        queries: of each arm.
        results: of each arm.
    """
    relevant = {q.effect: q.drugs for of_arm in queries.values() for q in of_arm}
    every = frozenset().union(*relevant.values(), *(r.drugs for of_arm in results.values() for r in of_arm))
    names = sorted(every)
    number = {name: i for i, name in enumerate(names)}
    content = {
        "names": names,
        "relevant": {effect: sorted(number[d] for d in drugs) for effect, drugs in relevant.items()},
        "returned": {
            arm: {
                q.effect: {"drugs": sorted(number[d] for d in r.drugs), "seconds": round(r.seconds, 5)}
                for q, r in zip(queries[arm], results[arm], strict=True)
            }
            for arm in results
        },
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    text = json.dumps(content, separators=(",", ":"), ensure_ascii=False) + "\n"
    part.write_bytes(gzip.compress(text.encode(), mtime=0))
    part.replace(path)
    return path


def read_sets(path: Path) -> tuple[dict[str, frozenset[str]], dict[str, dict[str, frozenset[str]]]]:
    """What `keep_sets` kept: the relevant drugs of each effect, and the returned ones of each arm and effect."""
    content = json.loads(gzip.decompress(path.read_bytes()))
    names = content["names"]
    relevant = {effect: frozenset(names[i] for i in ids) for effect, ids in content["relevant"].items()}
    returned = {
        arm: {effect: frozenset(names[i] for i in kept["drugs"]) for effect, kept in of_arm.items()}
        for arm, of_arm in content["returned"].items()
    }
    return relevant, returned
