"""Reverse queries (side_effects.md, Table 4): the queries, the form of an answer, and the authors' released answers."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from helpers.completions import Reply
from helpers.results.answers import Answer, Item
from helpers.results.metrics import set_scores

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


# ------------------------------------------------------------------------------------------------------------- queries


@dataclass(frozen=True)
class Query:
    """One reverse query with its true answer."""

    effect: str
    drugs: frozenset[str]

    @property
    def unit(self) -> str:
        """The effect."""
        return self.effect

    @property
    def cluster(self) -> str:
        """The effect: queries are independent."""
        return self.effect

    @property
    def text(self) -> str:
        """The query in words."""
        return QUESTION.format(side_effect=self.effect)

    @property
    def gold(self) -> str:
        """Nothing: the true set is in the items of an answer."""
        return ""

    @property
    def strata(self) -> dict[str, str]:
        """Tier, first letter, and whether a drug with an awkward name is in the true set."""
        comma, short = any("," in drug for drug in self.drugs), any(len(drug) == 1 for drug in self.drugs)
        return {
            "tier": self.tier,
            "first letter": "a" if self.effect.startswith("a") else "another",
            "true set": "a name with a comma" if comma else "a name of one letter" if short else "neither",
        }

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

    Reading takes as long as the slowest reply, since all prompts of a query are under way at once. A stored reply has
    the time that it took when it was made.

    Args:
        query: what was asked.
        drugs: the returned set, names as `canonical` writes them.
        retrieval: seconds.
        replies: of the LLM, one for each prompt.
        shown: relevant drugs whose text in the prompt lists the effect; None where no window cuts the texts.
    """
    reading = max((reply.seconds for reply in replies if reply.status != "overflow"), default=0.0)
    found = frozenset(drugs)
    values = {
        **set_scores(found, query.drugs),
        "exact": found == query.drugs,
        "relevant": len(query.drugs),
        "returned": len(found),
        "latency": retrieval + reading,
        "retrieval_seconds": retrieval,
        "llm_seconds": reading,
        "read_tokens": sum(reply.prompt_tokens for reply in replies),
        "written_tokens": sum(reply.generated_tokens for reply in replies),
    }
    return Answer(
        answer="\n\n".join(reply.text for reply in replies) or None,
        cut=any(reply.status == "cut" for reply in replies),
        overflow=any(reply.status == "overflow" for reply in replies),
        items=[
            Item(
                drug,
                gold=drug in query.drugs,
                predicted=drug in found,
                strata={} if shown is None else {"window": "inside" if drug in shown else "beyond"},
            )
            for drug in sorted(found | query.drugs)
        ],
        measures={name: (float(value), 1.0) for name, value in values.items()}
        | {"throughput": (1.0, retrieval + reading)},
        requests=[reply.key for reply in replies if reply.key],
    )


def weighted(rows: Sequence[Answer], benchmark: Sequence[Query]) -> list[Answer]:
    """The rows of one arm with each tier as heavy as in the benchmark, so that a subset estimates the same means.

    Args:
        rows: of one arm.
        benchmark: all queries.
    """
    tiers = [row.strata["tier"] for row in rows]
    there = [query.tier for query in benchmark]
    weight = {tier: there.count(tier) / len(there) * len(rows) / tiers.count(tier) for tier in set(tiers)}
    return [
        replace(
            row,
            measures={
                **row.measures,
                **{name: (w * top, w * bottom) for name in METRICS for top, bottom in [row.measures[name]]},
            },
        )
        for row, tier in zip(rows, tiers, strict=True)
        for w in [weight[tier]]
    ]


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


# ------------------------------------------------------------------------------------------------ the authors' answers


def released_answers(path: Path, run: str, truth: Mapping[str, frozenset[str]], model: str) -> list[Answer]:
    """One released run as rows: JSON, for each architecture a row a query with its counts; the sets are not released.

    The scores are computed from the counts. An empty answer has precision 0, as in the authors' code.

    Args:
        path: of the file.
        run: its date, as the files have it.
        truth: drugs of each effect.
        model: the paper's name of who read the texts; the graph's rows have none.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    rows = []
    for arm, name in {"graphrag": "GraphRAG", "format_b": "Format_B_Chunked", "format_a": "Format_A"}.items():
        details = content[name]["detailed_results"]
        for query, row in zip(asked([row["side_effect"] for row in details], truth), details, strict=True):
            hits, false, missed = row["true_positives"], row["false_positives"], row["false_negatives"]
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
            rows.append(
                Answer(
                    arm=arm,
                    unit=query.unit,
                    cluster=query.cluster,
                    source="released",
                    run=run,
                    model="" if arm == "graphrag" else model,
                    strata=query.strata,
                    question=query.text,
                    measures={measure: (float(value), 1.0) for measure, value in values.items()}
                    | {"throughput": (1.0, float(row["latency"]))},
                )
            )
    return rows
