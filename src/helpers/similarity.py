"""How near an answer is to a reference answer: BERTScore, and the cosine of sentence vectors.

BERTScore (Zhang et al. 2020) scores qa_rag.md's answers (sections 2.3 and 3.1), the cosine drug_interactions.md's
(Setup). The package `bert-score` fails with transformers 5 on qa_rag.md's encoder.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helpers.vectors import Encoder, Floats

PAIRS_AT_ONCE = 256  # pairs whose token vectors are held in memory together: some 300 MB for long answers


@dataclass(frozen=True)
class BertScores:
    """BERTScore of n answers: the mean over the answer's tokens of the best cosine with a token of the reference
    (precision), the same the other way round (recall), and their harmonic mean."""

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]


def bertscore_arms(
    arms: Mapping[str, Sequence[str]], references: Sequence[str], encoder: Encoder
) -> dict[str, BertScores]:
    """BERTScore of each arm's n answers to the same questions, without idf weights or rescaling, as in qa_rag.md.

    The tokens [CLS] and [SEP] take no part (Zhang et al. match words; their package lets a word match [CLS] too). An
    empty answer scores 0; an empty reference is a ValueError.
    """
    _paired(arms, references)
    if blank := [row for row, text in enumerate(references) if not text.strip()]:
        raise ValueError(f"An empty reference cannot be matched: row {blank[0]}. Drop such rows and count them.")
    matched: dict[str, list[tuple[float, float]]] = {arm: [] for arm in arms}
    for start in range(0, len(references), PAIRS_AT_ONCE):
        rows = slice(start, start + PAIRS_AT_ONCE)
        wanted = encoder.token_vectors(references[rows], progress=False)
        for arm, answers in arms.items():
            given = encoder.token_vectors(answers[rows], progress=False)
            matched[arm] += [match(a, b) for a, b in zip(given, wanted, strict=True)]
    # a mean cosine below 0 is possible, a harmonic mean of it is not
    scored = {
        arm: [(p, r, 2 * p * r / (p + r) if min(p, r) > 0 else 0.0) for p, r in of] for arm, of in matched.items()
    }
    columns = {arm: np.array(of, dtype=float).reshape(-1, 3) for arm, of in scored.items()}
    return {arm: BertScores(of[:, 0], of[:, 1], of[:, 2]) for arm, of in columns.items()}


def match(answer: Floats, reference: Floats) -> tuple[float, float]:
    """Precision and recall of one answer by greedy matching (Zhang et al. 2020, section 3); vectors (tokens, d)."""
    if not len(answer) or not len(reference):
        return 0.0, 0.0
    cosines = answer @ reference.T
    return float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())


def sentence_similarity_arms(
    arms: Mapping[str, Sequence[str]], references: Sequence[str], encoder: Encoder
) -> dict[str, NDArray[np.float64]]:
    """Cosine of the vectors of each answer and its reference, (n,), by arm; all texts are encoded together."""
    _paired(arms, references)
    texts = [text for of in (references, *arms.values()) for text in of]
    wanted, *given = np.split(encoder.encode(texts, progress=False).astype(np.float64), len(arms) + 1)
    return {arm: (vectors * wanted).sum(axis=1) for arm, vectors in zip(arms, given, strict=True)}


def _paired(arms: Mapping[str, Sequence[str]], references: Sequence[str]) -> None:
    for answers in arms.values():
        if len(answers) != len(references):
            raise ValueError(f"Each answer needs one reference: {len(answers)} answers, {len(references)} references.")
