"""Probabilities of whole answers and texts from those of their tokens."""

import math
from collections.abc import Iterable, Mapping, Sequence


def choice_logprobs(
    steps: Iterable[tuple[str, Mapping[str, float]]], choices: Sequence[str]
) -> dict[str, float]:
    """Compute the log-probability of each choice from one constrained answer.

    At each token, the alternatives that lead to some choice share its probability. One
    that was not generated gives its share to the choices that it leads to, evenly (exact
    for two choices). The one that was generated carries its share to the next token.

    Args:
        steps: Each generated token, with the log-probabilities of its alternatives.
        choices: None may be the beginning of another.

    Returns:
        Log-probabilities whose probabilities sum to 1; -inf for a choice that no
        alternative leads to.
    """
    mass = dict.fromkeys(choices, 0.0)
    written, carried = "", 1.0
    for token, alternatives in steps:
        shares = _shares(token, alternatives, written, choices)
        for alternative, share in shares.items():
            if alternative != token:
                _give(mass, _led_to(written + alternative, choices), carried * share)
        # what leads to no choice cannot have been generated, so nothing is known of it
        carried *= shares.get(token, 0.0) if shares else 1.0
        written += token
        if len(_led_to(written, choices)) <= 1:
            break
    for choice in _led_to(written, choices):
        mass[choice] += carried
    return {choice: math.log(m) if m > 0 else -math.inf for choice, m in mass.items()}


def _shares(
    token: str, alternatives: Mapping[str, float], written: str, choices: Sequence[str]
) -> dict[str, float]:
    """Probabilities of the alternatives that lead to some choice; they sum to 1."""
    weights = {}
    for alternative in {**alternatives, token: 0.0}:
        if alternative and _led_to(written + alternative, choices):
            weights[alternative] = math.exp(alternatives.get(alternative, -math.inf))
    total = math.fsum(weights.values())
    if not total:
        return {}
    return {key: weight / total for key, weight in weights.items()}


def _led_to(text: str, choices: Sequence[str]) -> list[str]:
    """The choices that begin with a text, or that a text begins with."""
    return [choice for choice in choices if _one_begins_the_other(choice, text)]


def _one_begins_the_other(first: str, second: str) -> bool:
    return first.startswith(second) or second.startswith(first)


def _give(mass: dict[str, float], choices: Sequence[str], share: float) -> None:
    for choice in choices:
        mass[choice] += share / len(choices)


def continuation_logprobs(
    tokens: Sequence[str], logprobs: Sequence[float | None], context: str, continuation: str
) -> list[float] | None:
    """Find the log-probabilities of a continuation's tokens.

    A token across the border belongs to the continuation.

    Args:
        tokens: Those of context and continuation. They may begin with one that the text
            does not show, such as `<s>`.
        logprobs: One for each token; None for the first.
        context: The text before the continuation.
        continuation: The text that is scored.

    Returns:
        One value for each token of the continuation; None if the tokens do not join to it.
    """
    text = context + continuation
    end, values = len(text), []
    for token, value in zip(reversed(tokens), reversed(logprobs), strict=True):
        if end <= len(context):
            break
        if not text[:end].endswith(token):
            return None
        end -= len(token)
        if value is not None:
            values.append(value)
    return values[::-1] if end <= len(context) else None
