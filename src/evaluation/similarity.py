"""How near an answer is to a reference answer: BERTScore (Zhang et al. 2020; qa_rag.md, sections 2.3 and 3.1).

The package `bert-score` fails with transformers 5 on qa_rag.md's encoder.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from helpers.vectors import Encoder, Floats

PAIRS_AT_ONCE = (
    256  # pairs whose token vectors are held in memory together: some 300 MB for long answers
)


def bertscore_arms(
    arms: Mapping[str, Sequence[str]], references: Sequence[str], encoder: Encoder
) -> dict[str, NDArray[np.float64]]:
    """BERTScore of each arm's n answers to the same questions, without idf weights or rescaling, as in qa_rag.md.

    (n, 3): the mean over the answer's tokens of the best cosine with a token of the reference (precision), the same the
    other way round (recall), and their harmonic mean.
    The tokens [CLS] and [SEP] take no part (Zhang et al. match words; their package lets a word match [CLS] too). An
    empty answer scores 0; an empty reference is a ValueError.
    """
    if lengths := {len(answers) for answers in arms.values()} - {len(references)}:
        raise ValueError(
            f"Each answer needs one reference: {lengths.pop()} answers, {len(references)} references."
        )
    if blank := [row for row, text in enumerate(references) if not text.strip()]:
        raise ValueError(
            f"An empty reference cannot be matched: row {blank[0]}. Drop such rows and count them."
        )
    matched: dict[str, list[tuple[float, float]]] = {arm: [] for arm in arms}
    for start in range(0, len(references), PAIRS_AT_ONCE):
        rows = slice(start, start + PAIRS_AT_ONCE)
        wanted = encoder.token_vectors(references[rows], progress=False)
        for arm, answers in arms.items():
            given = encoder.token_vectors(answers[rows], progress=False)
            matched[arm] += [match(a, b) for a, b in zip(given, wanted, strict=True)]
    # a mean cosine below 0 is possible, a harmonic mean of it is not
    scored = {
        arm: [(p, r, 2 * p * r / (p + r) if min(p, r) > 0 else 0.0) for p, r in of]
        for arm, of in matched.items()
    }
    return {arm: np.array(of, dtype=float).reshape(-1, 3) for arm, of in scored.items()}


def match(answer: Floats, reference: Floats) -> tuple[float, float]:
    """Precision and recall of one answer by greedy matching (Zhang et al. 2020, section 3); vectors (tokens, d)."""
    if not len(answer) or not len(reference):
        return 0.0, 0.0
    cosines = answer @ reference.T
    return float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())
