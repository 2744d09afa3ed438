"""The measures of one answer: what goes into them, their names for a reader and their units."""

import re
from collections.abc import Collection, Hashable, Mapping
from functools import lru_cache

_NAMED = re.compile(r"(\w+)\((\w+)(?:, *(\w+))?\)")  # `median(seconds)`, `auc(p_yes)`, `spearman(size, seconds)`
UNITS = {
    **{"seconds": "seconds", "latency": "seconds", "throughput": "per_second", "correlation": "ratio"},
    **dict.fromkeys(("tokens", "characters", "words", "names"), "count"),
}
"""Unit of a measure by the last word of its name; anything else is a fraction."""

Measures = Mapping[str, tuple[float, float]]  # name -> (top, bottom); a score is the sum of tops over that of bottoms


@lru_cache
def binary(gold: bool, predicted: bool) -> Measures:
    """The measures of one YES/NO answer in whose denominators it is (side_effects, Methods, "Evaluation metrics")."""
    true, same = gold and predicted, float(gold == predicted)
    measures = {"accuracy": (same, 1.0), "f1": (2.0 * true, float(2 * true + (gold != predicted)))}
    if predicted:
        measures["precision"] = (float(gold), 1.0)
    measures["sensitivity" if gold else "specificity"] = (same, 1.0)
    return measures


def of_sets(gold: Collection[Hashable], found: Collection[Hashable]) -> dict[str, tuple[float, float]]:
    """Precision, recall and F1 of a set against the gold set, as far as there is anything to find or found."""
    hits = float(len(set(gold) & set(found)))
    parts = {
        "precision": (hits, float(len(found))),
        "recall": (hits, float(len(gold))),
        "f1": (2 * hits, float(len(gold) + len(found))),
    }
    return {name: ratio for name, ratio in parts.items() if ratio[1]}


def parts(measure: str) -> tuple[str, str, str]:
    """The statistic that a measure names, its measure, and the second one; what it does not name is empty."""
    named = _NAMED.fullmatch(measure)
    return (named[1], named[2], named[3] or "") if named else ("", measure, "")


def unit(measure: str) -> str:
    """The unit of a measure, as `figures.number` takes it."""
    statistic, base, _ = parts(measure)
    return "ratio" if statistic in ("auc", "spearman") else UNITS.get(base.split("_")[-1], "fraction")


def measure_label(measure: str) -> str:
    """A measure as a reader sees it."""
    statistic, base, second = parts(measure)
    text = re.sub(r"\bf1\b", "F1", base.replace("_", " "))
    special = {"": text, "auc": "AUC", "spearman": f"rank correlation, {text} and {second}"}
    return special.get(statistic, f"{text}, {statistic}")
