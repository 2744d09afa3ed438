"""The measures of one answer: what goes into them, their names for a reader and their units."""

import re
from collections.abc import Collection, Hashable, Mapping
from functools import lru_cache

_NAMED = re.compile(r"(\w+)\((\w+)\)")
"""A measure that names a statistic: `median(seconds)`, `p95(seconds)`, `auc(p_yes)`."""
UNITS = {
    "seconds": "seconds",
    "latency": "seconds",
    "throughput": "per_second",
    "correlation": "ratio",
    "names": "ratio",
    "tokens": "count",
    "characters": "count",
    "words": "count",
    "place": "count",
}
"""Unit of a measure by the last word of its name; anything else is a fraction."""
LABELS = {
    "p yes": "probability of YES",
    "ndcg": "nDCG",
    "right": "accuracy",
    "rescued": (
        "share resolved by a later step among the first statements that wrongly found nothing"
    ),
    "first statement": "share of right first statements",
    "found nothing": "share of the wrong first statements that found nothing",
    "by query": "share of retrievals by a query",
    "by models query": "share of retrievals by the model's own query",
    "retrieval precision": "precision without the search for names",
    "candidates outside": "candidates outside the patient or period",
    "cites": "share of answers that cite a passage",
    "cited passage holds right answer": "share of cited passages that contain the right answer",
    "spelt": "share of names spelt correctly",
    "faiss rank correlation": "rank correlation with FAISS",
}
"""Measures whose name, even with blanks, does not tell a reader enough."""
WORDS = {
    "answer_found": "share of questions whose answer is found",
    "contradicts": "share of sentences that contradict the label",
    "exact": "share of exact sets",
    "drug_f1": "F1 of the drugs",
    "drug_overlap_f1": "F1 of the drug spans by overlap",
    "taken_strength_f1": "F1 of the strengths of drugs taken",
    "symptoms_precision": "precision of the symptoms",
    "symptoms_recall": "recall of the symptoms",
    "effectiveness_precision": "precision of the effectiveness",
    "effectiveness_recall": "recall of the effectiveness",
}
"""Measures whose label does not read well in a sentence."""
STATISTICS = {"median": "median", "p5": "5th percentile", "p95": "95th percentile"}
"""Statistics of a measure, in words."""

Measures = Mapping[str, tuple[float, float]]
"""Numerator and denominator by measure; a score divides the sums of both."""


@lru_cache
def binary(gold: bool, predicted: bool) -> Measures:
    """The measures of one YES/NO answer (side_effects, Methods, "Evaluation metrics").

    Returns:
        Those in whose denominators the answer is.
    """
    is_hit = gold and predicted
    is_right = float(gold == predicted)
    f1_denominator = float(2 * is_hit + (gold != predicted))
    measures = {"accuracy": (is_right, 1.0), "f1": (2.0 * is_hit, f1_denominator)}
    if predicted:
        measures["precision"] = (float(gold), 1.0)
    measures["sensitivity" if gold else "specificity"] = (is_right, 1.0)
    return measures


def set_measures(
    gold: Collection[Hashable], found: Collection[Hashable]
) -> dict[str, tuple[float, float]]:
    """Precision, recall and F1 of a set against the gold set.

    Returns:
        Numerator and denominator of each measure whose denominator is not 0.
    """
    n_hits = float(len(set(gold) & set(found)))
    n_found = float(len(found))
    n_gold = float(len(gold))
    ratios = {
        "precision": (n_hits, n_found),
        "recall": (n_hits, n_gold),
        "f1": (2 * n_hits, n_gold + n_found),
    }
    return {name: ratio for name, ratio in ratios.items() if ratio[1]}


def parts(measure: str) -> tuple[str, str]:
    """The statistic that a measure names, empty if it names none, and the measure that it is of."""
    named = _NAMED.fullmatch(measure)
    return (named[1], named[2]) if named else ("", measure)


def unit(measure: str) -> str:
    """The unit of a measure, as `figures.number` takes it."""
    statistic, base = parts(measure)
    return "ratio" if statistic == "auc" else UNITS.get(base.split("_")[-1], "fraction")


@lru_cache
def measure_label(measure: str) -> str:
    """A measure as a reader sees it."""
    statistic, base = parts(measure)
    text = re.sub(r"\b(f1|mrr)\b", lambda found: found[0].upper(), base.replace("_", " "))
    text = LABELS.get(text, text)
    return {"": text, "auc": "AUC"}.get(statistic, f"{text}, {statistic}")


@lru_cache
def measure_words(measure: str) -> str:
    """A measure within a sentence: `median latency`, `95th percentile of the latency`."""
    statistic, base = parts(measure)
    if statistic == "median":
        return f"median {measure_label(base)}"
    if statistic in STATISTICS:
        return f"{STATISTICS[statistic]} of the {measure_label(base)}"
    return WORDS.get(measure, measure_label(measure))


def with_article(measure: str) -> str:
    """A measure within a sentence, a share with its article: `the share of exact sets`."""
    words = measure_words(measure)
    takes_article = words.startswith(("share ", "median ")) or " of " in words
    return f"the {words}" if takes_article else words


def measure_of(measure: str, arm: str, subject: str = "") -> str:
    """A measure and the arm that it is of: `the recall of A`, or `for A, the share of ...`.

    Args:
        measure: Name of a measure.
        arm: Name of an arm, for a reader.
        subject: What of the measure is meant, such as its interval: `the interval of`.
    """
    words = f"{subject} the {measure_words(measure)}".lstrip()
    return f"for {arm}, {words}" if has_long_words(measure) else f"{words} of {arm}"


def has_long_words(measure: str) -> bool:
    """Whether a measure in words has an "of" already, which that of an arm would be taken for."""
    return measure in WORDS or measure_words(measure).startswith(("share ", "of the "))
