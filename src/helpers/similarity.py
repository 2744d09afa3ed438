"""How near an answer is to a reference answer: BERTScore, and the cosine of sentence vectors.

BERTScore (Zhang et al. 2020) is qa_rag.md's only score of answers (sections 2.3 and 3.1); drug_interactions.md compares
answers with references by the cosine (Setup), and has BERTScore beside it here. The package `bert-score` is not used:
its last release fails with transformers 5 on just the encoder that qa_rag.md used (microsoft/deberta-xlarge-mnli), and
needs torch where the default encoder does not. Scores of different encoders are different scales: an answer's score
means something only beside another answer's, by the same encoder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from helpers.vectors import Encoder, Floats

PAIRS_AT_ONCE = 256
"""Pairs whose token vectors are held in memory together: some 300 MB for long answers."""


@dataclass(frozen=True)
class BertScores:
    """BERTScore of n answers.

    Attributes:
        precision: (n,) for each answer, the mean over its tokens of the best cosine with a token of the reference.
        recall: (n,) the same from the reference's tokens to the answer's.
        f1: (n,) harmonic mean of both.
        cut: answers and references (a repeated text counts each time) longer than the encoder sees; the rest of such a
            text is not scored.
    """

    precision: NDArray[np.float64]
    recall: NDArray[np.float64]
    f1: NDArray[np.float64]
    cut: int


def bertscore_arms(
    arms: Mapping[str, Sequence[str]], references: Sequence[str], encoder: Encoder, *, progress: bool = True
) -> dict[str, BertScores]:
    """BERTScore of each arm's answers to the same questions, without idf weights or rescaling, as in qa_rag.md.

    The tokens [CLS] and [SEP] take no part (Zhang et al. match words; their package lets a word match [CLS] too). An
    empty answer scores 0. The references are encoded once.

    Args:
        arms: name -> n answers.
        references: n texts, one an answer.
        encoder: gives the token vectors; qa_rag.md's is `vectors.encoder("microsoft/deberta-xlarge-mnli")`.
        progress: whether to show progress bars.

    Raises:
        ValueError: the numbers of texts differ, or a reference is empty.
        EncoderUnavailable: the encoder gives no token vectors.
    """
    for answers in arms.values():
        _paired(answers, references)
    if blank := [row for row, text in enumerate(references) if not text.strip()]:
        raise ValueError(f"An empty reference cannot be matched: row {blank[0]}. Drop such rows and count them.")
    matched: dict[str, list[tuple[float, float]]] = {arm: [] for arm in arms}
    cut = dict.fromkeys(arms, 0)
    for start in range(0, len(references), PAIRS_AT_ONCE):
        rows = slice(start, start + PAIRS_AT_ONCE)
        wanted = encoder.token_vectors(references[rows], progress)
        cut_references = encoder.truncated
        for arm, answers in arms.items():
            given = encoder.token_vectors(answers[rows], progress)
            cut[arm] += encoder.truncated + cut_references
            matched[arm] += [match(a, b) for a, b in zip(given, wanted, strict=True)]
    return {arm: _scores(matched[arm], cut[arm]) for arm in arms}


def _scores(matched: Sequence[tuple[float, float]], cut: int) -> BertScores:
    precision, recall = np.array(matched, dtype=float).reshape(-1, 2).T
    # a mean cosine below 0 is possible, a harmonic mean of it is not
    usable = (precision > 0) & (recall > 0)
    both = np.where(usable, precision + recall, 1.0)
    return BertScores(precision, recall, np.where(usable, 2 * precision * recall / both, 0.0), cut)


def match(answer: Floats, reference: Floats) -> tuple[float, float]:
    """Precision and recall of one answer by greedy matching (Zhang et al. 2020, section 3).

    Args:
        answer: (tokens, d), vectors of length 1.
        reference: (tokens, d), likewise.
    """
    if not len(answer) or not len(reference):
        return 0.0, 0.0
    cosines = answer @ reference.T
    return float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean())


def sentence_similarity_arms(
    arms: Mapping[str, Sequence[str]], references: Sequence[str], encoder: Encoder, *, progress: bool = True
) -> dict[str, NDArray[np.float64]]:
    """Cosine of the vectors of each answer and its reference, (n,), by arm; all texts are encoded together.

    Raises:
        ValueError: the numbers of texts differ.
    """
    for answers in arms.values():
        _paired(answers, references)
    texts = [text for of in (references, *arms.values()) for text in of]
    wanted, *given = np.split(encoder.encode(texts, progress).astype(np.float64), len(arms) + 1)
    return {arm: (vectors * wanted).sum(axis=1) for arm, vectors in zip(arms, given, strict=True)}


def _paired(answers: Sequence[str], references: Sequence[str]) -> None:
    if len(answers) != len(references):
        raise ValueError(f"Each answer needs one reference: {len(answers)} answers, {len(references)} references.")
