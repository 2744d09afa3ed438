"""Reverse queries (side_effects.md, Table 4).

The queries, the form of an answer, and the authors' released answers.
"""

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from evaluation.answers import Answer, Item, make_row
from evaluation.metrics import set_scores
from helpers.completions import Reply, count_tokens
from helpers.thoughts import without_thought
from rag.replies import bare_name, listed_texts, plain_text

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

INSIDE, BEYOND, ABSENT = "inside", "beyond", "not in the prompt"
"""Where a prompt has a drug's effect: shown, after the cut of its list, or without its list."""


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
        return {"tier": self.tier, "true set": self._awkward_names}

    @property
    def _awkward_names(self) -> str:
        if any("," in drug for drug in self.drugs):
            return "a name with a comma"
        if any(len(drug) == 1 for drug in self.drugs):
            return "a name of one letter"
        return "neither"

    @property
    def tier(self) -> str:
        """The tier of its number of drugs.

        Raises:
            ValueError: No tier has so few.
        """
        tier = tier_of(len(self.drugs))
        if tier is None:
            raise ValueError(
                f"{self.effect!r} has {len(self.drugs)} drugs, and the smallest tier begins at 5."
            )
        return tier


Arm = Callable[[Sequence[Query]], list[Answer]]
"""An architecture under comparison: it takes queries and returns one answer per query."""


def make_answer(
    query: Query,
    drugs: Collection[str],
    retrieval: float,
    replies: Sequence[Reply] = (),
    *,
    in_window: Mapping[str, str] | None = None,
) -> Answer:
    """Compare the returned set with the true one, and measure what it took.

    Reading takes as long as the slowest reply, for a query's prompts are under way at once.

    Args:
        query: The query with its true set.
        drugs: The returned set.
        retrieval: Seconds of the retrieval.
        replies: The LLM's replies to the query's prompts.
        in_window: `INSIDE` or `BEYOND` for each relevant drug whose text is in the prompt; any
            other is `ABSENT`. None where no window cuts the texts.
    """
    seconds = [reply.seconds for reply in replies if reply.status != "overflow"]
    reading = max(seconds, default=0.0)
    returned = frozenset(drugs)
    values = {
        **set_scores(returned, query.drugs),
        "exact": returned == query.drugs,
        "relevant": len(query.drugs),
        "returned": len(returned),
        "latency": retrieval + reading,
        "llm_seconds": reading,
        **_token_counts(replies),
    }
    measures = {name: (float(value), 1.0) for name, value in values.items()}
    texts = [reply.text for reply in replies]
    statuses = [reply.status for reply in replies]
    requests = [reply.key for reply in replies if reply.key]
    return Answer(
        answer="\n\n".join(texts) or None,
        cut="cut" in statuses,
        overflow="overflow" in statuses,
        items=_set_items(returned, query.drugs, in_window),
        measures={**measures, "throughput": (1.0, retrieval + reading)},
        requests=requests,
    )


def _token_counts(replies: Sequence[Reply]) -> dict[str, int]:
    """Tokens that the LLM read and wrote; empty where the engine did not count them."""
    if count_tokens(replies) is None:
        return {}
    n_read = sum(reply.prompt_tokens or 0 for reply in replies)
    n_written = sum(reply.generated_tokens or 0 for reply in replies)
    return {"read_tokens": n_read, "written_tokens": n_written}


def _set_items(
    returned: frozenset[str], relevant: frozenset[str], in_window: Mapping[str, str] | None
) -> list[Item]:
    items = []
    for drug in sorted(returned | relevant):
        strata = {}
        if in_window is not None:
            strata["window"] = in_window.get(drug, ABSENT)
        item = Item(drug, gold=drug in relevant, predicted=drug in returned, strata=strata)
        items.append(item)
    return items


def weight_as_benchmark(rows: Sequence[Answer], benchmark: Sequence[Query]) -> list[Answer]:
    """Weight the rows so that a subset estimates the means of the benchmark.

    Args:
        rows: The rows of one arm, or of several arms that answered the same queries.
        benchmark: All queries.

    Returns:
        The rows, with each tier as heavy as in the benchmark.
    """
    n_in_benchmark = Counter(query.tier for query in benchmark)
    n_in_rows = Counter(row.strata["tier"] for row in rows)
    weights = {}
    for tier, n in n_in_rows.items():
        weights[tier] = n_in_benchmark[tier] / len(benchmark) * len(rows) / n
    weighted = []
    for row in rows:
        weight = weights[row.strata["tier"]]
        measures = dict(row.measures)
        for name in METRICS:
            top, bottom = row.measures[name]
            measures[name] = (weight * top, weight * bottom)
        weighted.append(replace(row, measures=measures))
    return weighted


def canonical(name: str) -> str:
    """Write a name as sets are compared: without regard to case and white space."""
    return " ".join(name.casefold().split())


def tier_of(n_drugs: int) -> str | None:
    """Return the tier of a query with ``n_drugs`` matching drugs; None below the smallest."""
    for tier, (low, high) in TIERS.items():
        if low <= n_drugs <= high:
            return tier
    return None


def tidy(knowledge: Mapping[str, Sequence[str]]) -> dict[str, tuple[str, ...]]:
    """Write every name of the knowledge as `canonical` does."""
    return {canonical(drug): tuple(map(canonical, effects)) for drug, effects in knowledge.items()}


def invert(knowledge: Mapping[str, Sequence[str]]) -> dict[str, frozenset[str]]:
    """Turn the side effects of each drug into the drugs of each side effect."""
    drugs: dict[str, set[str]] = {}
    for drug, effects in knowledge.items():
        for effect in effects:
            drugs.setdefault(effect, set()).add(drug)
    return {effect: frozenset(of_effect) for effect, of_effect in drugs.items()}


def read_truth(path: Path) -> dict[str, frozenset[str]]:
    """Read the authors' ground truth: the drugs of each side effect as their graph has them."""
    content: dict[str, list[str]] = json.loads(path.read_text(encoding="utf-8"))
    truth = {}
    for effect, drugs in content.items():
        truth[canonical(effect)] = frozenset(map(canonical, drugs))
    return truth


def make_queries(effects: Iterable[str], truth: Mapping[str, frozenset[str]]) -> list[Query]:
    """Make the queries about some effects, in their order.

    Args:
        effects: Names of side effects.
        truth: The drugs of each side effect.

    Raises:
        ValueError: An effect is not in the truth.
    """
    names = [canonical(effect) for effect in effects]
    missing = [name for name in names if name not in truth]
    if missing:
        raise ValueError(
            f"{len(missing)} effects are not in the ground truth, for example {missing[:3]}."
        )
    return [Query(name, truth[name]) for name in names]


def stratified(queries: Sequence[Query], per_tier: Mapping[str, int], seed: int) -> list[Query]:
    """Draw queries of each tier; a larger number takes the same queries and more.

    Args:
        queries: The queries to draw from.
        per_tier: Number of queries by tier; all are taken if there are fewer.
        seed: Seed of the draw.

    Raises:
        ValueError: There is no such tier.
    """
    unknown = per_tier.keys() - TIERS.keys()
    if unknown:
        raise ValueError(f"There is no tier {sorted(unknown)}; the tiers are {', '.join(TIERS)}.")
    selected = []
    for number, tier in enumerate(TIERS):
        in_tier = [query for query in queries if query.tier == tier]
        in_tier.sort(key=lambda query: query.effect)
        # a generator for each tier, so that one tier's number does not move another's draw
        order = np.random.default_rng([seed, number]).permutation(len(in_tier))
        n_queries = per_tier.get(tier, 0)
        selected += [in_tier[i] for i in order[:n_queries]]
    return selected


BOLD_ITEM_PATTERN = re.compile(
    r"^(?P<bullet>\s*(?:[-*•]|\d{1,3}[.)])\s*)\*\*(?P<name>[^*\n]+)\*\*(?!\s*[,;]).*$", re.MULTILINE
)
"""A bulleted name in bold type, with a remark."""
REMARK_PATTERN = re.compile(r"\s+[-–—]\s+.*$")  # noqa: RUF001  # dashes
"""A remark on a bulleted name."""
BULLET_PATTERN = re.compile(r"^\s*(?:[-*•]|\d{1,3}[.)](?=\s))\s*")
"""A bullet or a number before a name."""
LEAD_PATTERN = re.compile(r"^(?:(?:and|drugs?|answer|the drugs?)\b(?!-)\s*:?\s*)+", re.IGNORECASE)
"""Words before the first name of a list, and "and" before the last one."""
SENTENCE_PATTERN = re.compile(r"^.*\b(?:are|is|includes?|including)\s+")
"""The beginning of a sentence that lists names."""


def parse_drugs(reply: str, with_comma: Iterable[str] = ()) -> frozenset[str]:
    """Read the names in an LLM's answer.

    They may be comma-separated, bulleted, numbered, in JSON, or in a sentence.

    Args:
        reply: The text of the reply.
        with_comma: Names that contain a comma and stay whole, such as "1,25(oh)2d3".
    """
    listed = listed_texts(reply)
    if listed is not None:
        return frozenset(_read_name(text, is_first=False) for text in listed) - {""}
    text = BOLD_ITEM_PATTERN.sub(r"\g<bullet>\g<name>", without_thought(reply))
    text = plain_text(text).casefold()
    names, text = _take_names_with_comma(text, with_comma)
    for line in text.splitlines():
        pieces = re.split(r"[,;]", _strip_introduction(line.strip("| \t")))
        for i, piece in enumerate(pieces):
            names.add(_read_name(piece, is_first=i == 0))
    return frozenset(name for name in names if name)


def _take_names_with_comma(text: str, with_comma: Iterable[str]) -> tuple[set[str], str]:
    """Find names that contain a comma.

    Returns:
        The names, and the text without them.
    """
    names = set()
    for name in sorted(map(canonical, with_comma), key=len, reverse=True):
        pattern = re.compile(rf"(?<![\w,]){re.escape(name)}(?![\w(])")
        if pattern.search(text):
            names.add(name)
            text = pattern.sub(", ", text)
    return names, text


def _strip_introduction(line: str) -> str:
    """The part of a line that holds names.

    It follows what introduces a list, or comes before a remark on a bulleted name.
    """
    if line.rstrip().endswith(":"):
        return ""
    if BULLET_PATTERN.match(line):
        name = BULLET_PATTERN.sub("", line).partition(": ")[0]
        return REMARK_PATTERN.sub("", name)
    # several colons: each name has its own remark
    return line.partition(": ")[2] if line.count(": ") == 1 else line


def _read_name(piece: str, *, is_first: bool) -> str:
    """A name without what is around it; only the first one can be after words of a sentence."""
    without_bullet = BULLET_PATTERN.sub("", piece).strip()
    name = LEAD_PATTERN.sub("", without_bullet)
    if is_first:
        name = SENTENCE_PATTERN.sub("", name)
    before_remark = name.partition(": ")[0]
    return canonical(bare_name(before_remark.strip(" \t:|-[]")))


RELEASED_NAMES = {
    "graphrag": "GraphRAG",
    "format_b": "Format_B_Chunked",
    "format_a": "Format_A",
}
"""Name of each arm in the released files."""


def read_released_answers(
    path: Path, run: str, truth: Mapping[str, frozenset[str]], model: str
) -> list[Answer]:
    """Read one released run.

    The file has the counts of each query; the returned sets are not released. An empty answer has
    precision 0, as in the authors' code.

    Args:
        path: JSON file with the results of each architecture.
        run: Name of the run.
        truth: The drugs of each side effect.
        model: Name of the model that read the texts; the graph's rows have none.

    Returns:
        One row per architecture and query.
    """
    content = json.loads(path.read_text(encoding="utf-8"))
    answers = []
    for arm, name in RELEASED_NAMES.items():
        rows = content[name]["detailed_results"]
        queries = make_queries([row["side_effect"] for row in rows], truth)
        arm_model = "" if arm == "graphrag" else model
        for query, row in zip(queries, rows, strict=True):
            answer = Answer(measures=_released_measures(row))
            answers.append(
                make_row(answer, query, arm=arm, source="released", run=run, model=arm_model)
            )
    return answers


def _released_measures(row: Mapping[str, Any]) -> dict[str, tuple[float, float]]:
    hits = row["true_positives"]
    false = row["false_positives"]
    missed = row["false_negatives"]
    n_returned = hits + false
    values = {
        "recall": hits / (hits + missed),
        "precision": hits / n_returned if n_returned else 0.0,
        "f1": 2 * hits / (2 * hits + false + missed),
        "exact": float(not false and not missed),
        "relevant": hits + missed,
        "returned": n_returned,
        "false_names": false,
        "missed_names": missed,
        "latency": row["latency"],
    }
    measures = {measure: (float(value), 1.0) for measure, value in values.items()}
    return {**measures, "throughput": (1.0, float(row["latency"]))}
