"""The result of a paired test in words, for the summaries of the chapters."""

from evaluation.metrics import ALPHA
from evaluation.outcomes import Comparison


def verdict(comparison: Comparison, *, if_higher: str, if_lower: str) -> str:
    """Say whether the first arm's score differs significantly from the second's, and how.

    Args:
        comparison: The test.
        if_higher: A comparative for a first arm with a higher score, or with the same one.
        if_lower: A comparative for a first arm with a lower score.
    """
    comparative = if_lower if comparison.test.difference < 0 else if_higher
    prefix = "significantly" if comparison.p < ALPHA else "not significantly"
    return f"{prefix} {comparative}"
