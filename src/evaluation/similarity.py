"""How near an answer is to a reference answer, by an encoder.

BERTScore: Zhang et al. 2020; qa_rag.md, sections 2.3 and 3.1. The package `bert-score` fails with
transformers 5 on qa_rag.md's encoder. Scores are stored (see `helpers.neighbours`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from helpers.neighbours import (
    Check,
    Find,
    Query,
    Result,
    Search,
    check_by_repeating,
    replay_or_search,
)
from helpers.vectors import Encoder, Floats

Scores = NDArray[np.float64]
Pair = tuple[str, str]
"""An answer and its reference."""

PAIRS_AT_ONCE = 256
"""Pairs whose token vectors are in memory together: some 300 MB for long answers."""
NO_IDS = np.empty(0, dtype=np.int64)


def bertscore_arms(
    arms: Mapping[str, Sequence[str]], references: Sequence[str], encoder: Encoder
) -> dict[str, Scores]:
    """Compute BERTScore of each arm's answers, without idf weights or rescaling, as in qa_rag.md.

    The tokens [CLS] and [SEP] take no part (Zhang et al. match words; their package lets a word
    match [CLS] too). An empty answer scores 0.

    Args:
        arms: The n answers of each arm to the same questions.
        references: The n reference answers.
        encoder: Gives vectors of tokens.

    Returns:
        For each arm (n, 3): precision, the mean over the answer's tokens of the best cosine with
        a token of the reference; recall, the same the other way round; their harmonic mean.

    Raises:
        ValueError: If an arm has another number of answers, or a reference is empty.
    """
    _check_lengths(arms, references)
    pairs: list[Pair] = []
    for reference_and_answers in zip(references, *arms.values(), strict=True):
        reference, *answers = reference_and_answers
        pairs += [(answer, reference) for answer in answers]

    def find(missing: list[Query]) -> list[Result]:
        results = []
        for start in range(0, len(missing), PAIRS_AT_ONCE):
            results += _match_pairs(missing[start : start + PAIRS_AT_ONCE], encoder)
        return results

    results = _replay("BERTScore", pairs, encoder, find, check_by_repeating(find))
    scores = [_with_f1(*result.scores.tolist()) for result in results]
    of_questions = np.array(scores, dtype=float).reshape(len(references), len(arms), 3)
    return {arm: of_questions[:, place] for place, arm in enumerate(arms)}


def _check_lengths(arms: Mapping[str, Sequence[str]], references: Sequence[str]) -> None:
    for answers in arms.values():
        if len(answers) != len(references):
            raise ValueError(
                "Each answer needs one reference: "
                f"{len(answers)} answers, {len(references)} references."
            )
    for row, reference in enumerate(references):
        if not reference.strip():
            raise ValueError(
                f"An empty reference cannot be matched: row {row}. Drop such rows and count them."
            )


def _replay(
    operation: str, pairs: Sequence[Pair], encoder: Encoder, find: Find, check: Check
) -> list[Result]:
    search = Search(operation, encoder.digest, texts="", size=2 * len(set(pairs)))
    return replay_or_search(search, pairs, find, check)


def _match_pairs(pairs: Sequence[Query], encoder: Encoder) -> list[Result]:
    """Precision and recall of each pair."""
    answers = encoder.token_vectors([pair[0] for pair in pairs], progress=False)
    references = encoder.token_vectors([pair[1] for pair in pairs], progress=False)
    results = []
    for answer, reference in zip(answers, references, strict=True):
        scores = np.array(match(answer, reference))
        results.append(Result(NO_IDS, scores))
    return results


def _with_f1(precision: float, recall: float) -> tuple[float, float, float]:
    """Add the harmonic mean; a mean cosine below 0 is possible, a harmonic mean of it is not."""
    if min(precision, recall) <= 0:
        return precision, recall, 0.0
    return precision, recall, 2 * precision * recall / (precision + recall)


def match(answer: Floats, reference: Floats) -> tuple[float, float]:
    """Precision and recall of one answer by greedy matching (Zhang et al. 2020, section 3).

    Args:
        answer: Vectors of the answer's tokens, (tokens, d).
        reference: Vectors of the reference's tokens, (tokens, d).

    Returns:
        Precision and recall; 0 if there is no token.
    """
    if len(answer) == 0 or len(reference) == 0:
        return 0.0, 0.0
    cosines = answer @ reference.T
    return float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())


def text_cosines(pairs: Sequence[Pair], encoder: Encoder) -> list[float]:
    """Compute the cosine of each answer with its reference; 0 for an empty answer.

    An encoder has a vector for no words, too.
    """

    def find(missing: list[Query]) -> list[Result]:
        answers = encoder.encode([pair[0] for pair in missing], progress=False)
        references = encoder.encode([pair[1] for pair in missing], progress=False)
        cosines = np.einsum("ij,ij->i", answers.astype(float), references.astype(float))
        return [Result(NO_IDS, cosines[row : row + 1]) for row in range(len(missing))]

    worded = [pair for pair in pairs if pair[0].strip()]
    results = _replay("cosine", worded, encoder, find, check_by_repeating(find))
    cosines = [result.scores.item() for result in results]
    cosine_of = dict(zip(worded, cosines, strict=True))
    return [cosine_of.get(pair, 0.0) for pair in pairs]
