"""Sentences for the evidence of a claim: a score, and a difference between two arms."""

from collections.abc import Sequence
from dataclasses import replace

from evaluation import formats
from evaluation.metrics import Score
from evaluation.outcomes import Comparison


def score_sentence(label: str, score: Score, unit: str = "fraction") -> str:
    """State a score: `Recall of Text RAG is 8.0 % [5.4, 11.3] (n = 121).`

    Args:
        label: What was measured, and of which arm.
        score: Its value, interval and number of units.
        unit: As in `formats.number`.
    """
    n = f"n = {score.n:,}"
    if score.unparsed:
        n += f", {score.unparsed:,} unparsed"
    return f"{sentence_case(label)} is {_value(score, unit)} ({n})."


def comparison_sentence(
    comparison: Comparison,
    arms: Sequence[str],
    measure: str,
    *,
    unit: str = "fraction",
    condition: str = "",
) -> str:
    """State the scores of two arms, and their difference with its test.

    `On GIT, F1 is 44.5 % [40.1, 49.0] for A and 38.7 % [34.4, 43.2] for B, a difference of
    +5.8 [+1.7, +9.9] points (p = 0.019, n = 465).`

    Args:
        comparison: Scores and test.
        arms: Names of the two arms.
        measure: What was measured.
        unit: The scores', as in `formats.number`.
        condition: Where or with which model, as the sentence begins: `On GIT`.
    """
    first, second = (_value_with_unparsed(score, unit) for score in comparison.scores)
    test = comparison.test
    subject = f"{condition}, {measure}" if condition else sentence_case(measure)
    names = formats.quoted_names(arms)
    return (
        f"{subject} is {first} for {names[0]} and {second} for {names[1]}, a difference of "
        f"{formats.points(test)} points ({formats.p_words(comparison.p)}, n = {test.n:,})."
    )


def _value(score: Score, unit: str) -> str:
    """The score with its interval, without the count of its unparsed answers."""
    return formats.score_text(replace(score, unparsed=0), unit)


def _value_with_unparsed(score: Score, unit: str) -> str:
    value = _value(score, unit)
    return f"{value} ({score.unparsed:,} unparsed)" if score.unparsed else value


def sentence_case(text: str) -> str:
    """Begin a sentence with a capital; a name such as nDCG stays."""
    return text[0].upper() + text[1:] if text[:2].islower() else text
