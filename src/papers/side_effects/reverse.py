"""Reverse queries (side_effects.md, Table 4): the queries, the form of an answer, and the authors' released answers."""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from evaluation.answers import Answer, Item, make_row
from evaluation.metrics import set_scores
from helpers.completions import Reply, count_tokens
from helpers.thoughts import without_thought

TIERS: dict[str, tuple[int, float]] = {
    "rare": (5, 19),
    "small": (20, 99),
    "medium": (100, 499),
    "large": (500, math.inf),
}
"""Fewest and most matching drugs of a query of each tier (Results, "Reverse queries")."""
METRICS = ("recall", "precision", "f1", "latency", "throughput")
"""The columns of Table 4."""

QUESTION = "Which drugs cause {side_effect}?"


@dataclass(frozen=True)
class Query:
    """One reverse query with its true answer; queries are independent."""

    effect: str
    drugs: frozenset[str]
    gold = ""  # the true set is in the items of an answer

    @property
    def unit(self) -> str:
        """The effect."""
        return self.effect

    cluster = unit

    @property
    def text(self) -> str:
        """The query in words."""
        return QUESTION.format(side_effect=self.effect)

    @property
    def strata(self) -> dict[str, str]:
        """Tier, and whether a drug with an awkward name is in the true set."""
        comma, short = (
            any("," in drug for drug in self.drugs),
            any(len(drug) == 1 for drug in self.drugs),
        )
        true_set = (
            "a name with a comma" if comma else "a name of one letter" if short else "neither"
        )
        return {"tier": self.tier, "true set": true_set}

    @property
    def tier(self) -> str:
        """The tier of its number of drugs; a `ValueError` if no tier has so few."""
        tier = tier_of(len(self.drugs))
        if tier is None:
            raise ValueError(
                f"{self.effect!r} has {len(self.drugs)} drugs, and the smallest tier begins at 5."
            )
        return tier


Arm = Callable[[Sequence[Query]], list[Answer]]
"""An architecture under comparison: queries in, one answer for each out."""


def returned(
    query: Query,
    drugs: Collection[str],
    retrieval: float,
    replies: Sequence[Reply] = (),
    *,
    shown: Collection[str] | None = None,
) -> Answer:
    """One answer of an arm: the returned set beside the true one, and what it took.

    Retrieval is in seconds. Reading takes as long as the slowest reply, for a query's prompts are under way at once.
    `shown` are the relevant drugs whose text in the prompt lists the effect; None where no window cuts the texts.
    """
    reading = max((reply.seconds for reply in replies if reply.status != "overflow"), default=0.0)
    found = frozenset(drugs)
    values = {
        **set_scores(found, query.drugs),
        "exact": found == query.drugs,
        "relevant": len(query.drugs),
        "returned": len(found),
        "latency": retrieval + reading,
        "llm_seconds": reading,
    }
    if count_tokens(replies) is not None:
        values["read_tokens"] = sum(reply.prompt_tokens or 0 for reply in replies)
        values["written_tokens"] = sum(reply.generated_tokens or 0 for reply in replies)

    def window(drug: str) -> dict[str, str]:
        return {} if shown is None else {"window": "inside" if drug in shown else "beyond"}

    return Answer(
        answer="\n\n".join(reply.text for reply in replies) or None,
        cut=any(reply.status == "cut" for reply in replies),
        overflow=any(reply.status == "overflow" for reply in replies),
        items=[
            Item(d, gold=d in query.drugs, predicted=d in found, strata=window(d))
            for d in sorted(found | query.drugs)
        ],
        measures={name: (float(value), 1.0) for name, value in values.items()}
        | {"throughput": (1.0, retrieval + reading)},
        requests=[reply.key for reply in replies if reply.key],
    )


def weighted(rows: Sequence[Answer], benchmark: Sequence[Query]) -> list[Answer]:
    """The rows of one arm with each tier as heavy as in the benchmark, so that a subset estimates the same means."""
    there, here = (
        Counter(tiers)
        for tiers in ((q.tier for q in benchmark), (row.strata["tier"] for row in rows))
    )
    weight = {tier: there[tier] / len(benchmark) * len(rows) / n for tier, n in here.items()}
    made = []
    for row in rows:
        w = weight[row.strata["tier"]]
        of = {name: (w * row.measures[name][0], w * row.measures[name][1]) for name in METRICS}
        made.append(replace(row, measures={**row.measures, **of}))
    return made


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
    return {
        canonical(effect): frozenset(map(canonical, drugs)) for effect, drugs in content.items()
    }


def asked(effects: Iterable[str], truth: Mapping[str, frozenset[str]]) -> list[Query]:
    """The queries about some effects, in their order; one that is not in the truth is a `ValueError`."""
    names = [canonical(effect) for effect in effects]
    if missing := [name for name in names if name not in truth]:
        raise ValueError(
            f"{len(missing)} effects are not in the ground truth, for example {missing[:3]}."
        )
    return [Query(name, truth[name]) for name in names]


def stratified(queries: Sequence[Query], per_tier: Mapping[str, int], seed: int) -> list[Query]:
    """So many queries of each tier, or all that it has; a larger number takes the same queries and more."""
    if unknown := per_tier.keys() - TIERS.keys():
        raise ValueError(f"There is no tier {sorted(unknown)}; the tiers are {', '.join(TIERS)}.")
    taken = []
    for tier in TIERS:
        of_tier = sorted((q for q in queries if q.tier == tier), key=lambda q: q.effect)
        # a generator of its own for each tier, so that one tier's number does not move another's draw
        order = np.random.default_rng([seed, list(TIERS).index(tier)]).permutation(len(of_tier))
        taken += [of_tier[i] for i in order[: per_tier.get(tier, 0)]]
    return taken


_MARK = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)](?=\s))\s*")
_LEAD = re.compile(r"^(?:(?:and|drugs?|answer|the drugs?)\b(?!-)\s*:?\s*)+", re.IGNORECASE)
_SENTENCE = re.compile(r"^.*\b(?:are|is|includes?|including)\s+")


def parse_drugs(reply: str, with_comma: Iterable[str] = ()) -> frozenset[str]:
    """The names in an LLM's answer: comma-separated, bulleted, numbered, or in a sentence.

    Names `with_comma`, such as "1,25(oh)2d3", stay whole.
    """
    reply = without_thought(reply)
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


def released_answers(
    path: Path, run: str, truth: Mapping[str, frozenset[str]], model: str
) -> list[Answer]:
    """One released run as rows: JSON, for each architecture the counts of each query; the sets are not released.

    An empty answer has precision 0, as in the authors' code. `model` read the texts; the graph's rows have none.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for arm, name in {
        "graphrag": "GraphRAG",
        "format_b": "Format_B_Chunked",
        "format_a": "Format_A",
    }.items():
        details = content[name]["detailed_results"]
        for query, row in zip(
            asked([row["side_effect"] for row in details], truth), details, strict=True
        ):
            hits, false, missed = (
                row["true_positives"],
                row["false_positives"],
                row["false_negatives"],
            )
            values = {
                "recall": hits / (hits + missed),
                "precision": hits / (hits + false) if hits + false else 0.0,
                "f1": 2 * hits / (2 * hits + false + missed),
                "exact": float(not false and not missed),
                "relevant": hits + missed,
                "returned": hits + false,
                "false_names": false,
                "missed_names": missed,
                "latency": row["latency"],
            }
            measures = {measure: (float(value), 1.0) for measure, value in values.items()}
            said = Answer(measures=measures | {"throughput": (1.0, float(row["latency"]))})
            by = "" if arm == "graphrag" else model
            rows.append(make_row(said, query, arm=arm, source="released", run=run, model=by))
    return rows
