"""BERTScore: properties that hold for any texts, and cases worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings as examples, strategies as st

from evaluation.similarity import bertscore_arms, match
from helpers import vectors
from helpers.vectors import Encoder, EncoderUnavailable

REFERENCE = "DMF holders can pay the fee before a letter of authorization is requested."
NEAR = "The fee may be paid by DMF holders before anyone requests a letter of authorization."
FAR = "Store the capsules in a dry place at room temperature."


def bertscore(answers: list[str], references: list[str], encoder: Encoder) -> np.ndarray:
    return bertscore_arms({"": answers}, references, encoder)[""]


@pytest.fixture(scope="module")
def minilm() -> Encoder:
    return vectors.encoder()


def unit(rows: list[list[float]]) -> np.ndarray:
    matrix = np.array(rows, dtype=np.float32)
    return matrix / np.linalg.norm(matrix, axis=1, keepdims=True)


tokens = st.integers(1, 6).flatmap(
    lambda n: st.lists(
        st.lists(st.floats(-1, 1), min_size=3, max_size=3).filter(lambda v: sum(map(abs, v)) > 0.1),
        min_size=n,
        max_size=n,
    )
)


@given(tokens, tokens)
def test_matching_swaps_precision_and_recall_and_stays_within_cosines(
    first: list[list[float]], second: list[list[float]]
) -> None:
    a, b = unit(first), unit(second)
    assert match(a, b) == pytest.approx(match(b, a)[::-1], abs=1e-6)
    assert all(-1 - 1e-5 <= value <= 1 + 1e-5 for value in match(a, b))
    assert match(a, a) == pytest.approx((1, 1), abs=1e-5)


@given(tokens, tokens)
def test_matching_does_not_depend_on_the_order_of_tokens_and_more_answer_never_lowers_recall(
    first: list[list[float]], second: list[list[float]]
) -> None:
    a, b = unit(first), unit(second)
    assert match(a[::-1], b) == pytest.approx(match(a, b), abs=1e-5)
    assert match(np.vstack([a, b]), b)[1] >= match(a, b)[1] - 1e-6


def test_a_case_by_hand() -> None:
    answer, reference = unit([[1, 0], [0, 1]]), unit([[1, 0]])
    assert match(answer, reference) == pytest.approx((0.5, 1.0))
    assert match(unit([[1, 1]]), reference) == pytest.approx((2**-0.5, 2**-0.5))


@examples(max_examples=15)
@given(
    st.lists(
        st.text(st.characters(codec="utf-8"), max_size=40).filter(str.strip), min_size=1, max_size=3
    )
)
def test_any_text_is_identical_to_itself(minilm: Encoder, texts: list[str]) -> None:
    nonempty = [t for t, v in zip(texts, minilm.token_vectors(texts, False), strict=True) if len(v)]
    scores = bertscore(nonempty, nonempty, minilm)
    assert scores[:, 0] == pytest.approx(np.ones(len(nonempty)), abs=1e-4)
    assert scores[:, 2] == pytest.approx(np.ones(len(nonempty)), abs=1e-4)


def test_a_paraphrase_scores_above_another_subject(minilm: Encoder) -> None:
    scores = bertscore([NEAR, FAR, ""], [REFERENCE] * 3, minilm)
    for values in scores.T:
        assert 1 > values[0] > values[1] > values[2] == 0


def test_swapping_the_sides_swaps_precision_and_recall(minilm: Encoder) -> None:
    forward = bertscore([NEAR, FAR], [REFERENCE] * 2, minilm)
    reverse = bertscore([REFERENCE] * 2, [NEAR, FAR], minilm)
    assert forward[:, 0] == pytest.approx(reverse[:, 1], abs=1e-6)
    assert forward[:, 2] == pytest.approx(reverse[:, 2], abs=1e-6)


def test_a_score_does_not_depend_on_what_is_scored_beside_it(minilm: Encoder) -> None:
    alone = bertscore([NEAR], [REFERENCE], minilm)
    among = bertscore([FAR, NEAR, "x " * 300], [FAR, REFERENCE, FAR], minilm)
    assert among[1, 2] == pytest.approx(alone[0, 2], abs=1e-6)


def test_arms_scored_together_score_as_each_alone(minilm: Encoder) -> None:
    arms, references = {"near": [NEAR, FAR], "far": [FAR, FAR]}, [REFERENCE, NEAR]
    together = bertscore_arms(arms, references, minilm)
    for arm, answers in arms.items():
        assert together[arm] == pytest.approx(bertscore(answers, references, minilm))


def test_what_is_cut_leaves_no_trace(minilm: Encoder) -> None:
    long = "fee " * 600
    scores = bertscore([long, NEAR], [REFERENCE, long], minilm)
    with_tail = bertscore([long + FAR, NEAR], [REFERENCE, long], minilm)
    assert with_tail[:, 2] == pytest.approx(scores[:, 2])


def test_token_vectors_leave_out_the_special_tokens(minilm: Encoder) -> None:
    states = minilm.token_vectors(["fee", "", "fee"], False)
    assert [len(v) for v in states] == [1, 0, 1]
    assert np.linalg.norm(states[0], axis=1) == pytest.approx(np.ones(1), abs=1e-5)


def test_wrong_input_is_refused(minilm: Encoder) -> None:
    with pytest.raises(ValueError, match="one reference"):
        bertscore([NEAR], [], minilm)
    with pytest.raises(ValueError, match="row 1"):
        bertscore([NEAR, FAR], [REFERENCE, " "], minilm)


def test_an_encoder_without_token_vectors_says_so() -> None:
    class Sentences(Encoder):
        name = digest = "sentences"

        def _encode(self, texts: list[str], progress: bool) -> tuple[np.ndarray, np.ndarray]:
            return np.ones((len(texts), 1), np.float32), self._find_truncated(texts)

        def _find_truncated(self, texts: list[str]) -> np.ndarray:
            return np.zeros(len(texts), np.bool_)

    with pytest.raises(EncoderUnavailable, match="no vectors of tokens"):
        bertscore([NEAR], [REFERENCE], Sentences())
