"""What the first chapter reports: rescoring, paired tests, the break in Format A, and the claims."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import published, record
from helpers.side_effects import forward as se
from helpers.side_effects import forward_report as report
from helpers.side_effects.forward import Prediction, Question


@pytest.fixture
def run() -> record.Run:
    return record.start(notebook="01_side_effects_forward", paper="side_effects", profile="smoke", parameters={})


def questions(n: int = 40) -> list[Question]:
    return [Question(f"drug{i // 4}", f"effect{i}", i % 2 == 0) for i in range(n)]


def predictions(asked: list[Question], wrong: int, evidence_right: bool = True) -> list[Prediction]:
    """All right but the first `wrong`."""
    return [
        Prediction(q.label if i >= wrong else not q.label, 0.9 if q.label else 0.1, q.label == evidence_right)
        for i, q in enumerate(asked)
    ]


def decided(run: record.Run, claim: str) -> str:
    return next(c.verdict for c in run.claims if c.id == f"side_effects.claim.{claim}")


def arms(asked: list[Question], **wrong: int) -> dict[str, list[Prediction]]:
    return {
        arm: predictions(asked, wrong[arm]) for arm in ("closed_book", "format_a", "format_b", "graphrag", "lookup")
    }


def decide(run: record.Run, asked: list[Question], answers: dict[str, list[Prediction]]) -> None:
    scores = report.score_arms(asked, answers, draws=200)
    tests = report.paired_tests({arm: se.correct(asked, of_arm) for arm, of_arm in answers.items()})
    report.decide_arm_claims(run, scores, tests, asked, answers)


def test_claims_that_hold_agree(run):
    asked = questions(400)
    decide(run, asked, arms(asked, closed_book=150, format_a=100, format_b=30, graphrag=0, lookup=0))
    for claim in (
        "closed_book_is_unreliable",
        "retrieval_beats_closed_book",
        "pairs_beat_lists",
        "graphrag_beats_text_rag",
    ):
        assert decided(run, claim) == "agrees", claim
    assert decided(run, "graphrag_reaches_ceiling") == "agrees"
    assert decided(run, "residual_errors_are_llm_mislabels") == "not run"  # there is no error to explain


def test_claims_that_fail_differ(run):
    asked = questions(400)
    decide(run, asked, arms(asked, closed_book=10, format_a=30, format_b=30, graphrag=30, lookup=0))
    for claim in (
        "closed_book_is_unreliable",
        "retrieval_beats_closed_book",
        "pairs_beat_lists",
        "graphrag_reaches_ceiling",
    ):
        assert decided(run, claim) == "differs", claim


@pytest.mark.parametrize(("evidence_right", "verdict"), [(True, "agrees"), (False, "differs")])
def test_a_wrong_answer_is_the_models_only_if_its_evidence_was_right(run, evidence_right, verdict):
    asked = questions(400)
    answers = arms(asked, closed_book=150, format_a=100, format_b=30, graphrag=0, lookup=0)
    answers["graphrag"] = predictions(asked, 2, evidence_right)
    decide(run, asked, answers)
    assert decided(run, "residual_errors_are_llm_mislabels") == verdict


def test_an_unparsed_answer_counts_as_no_and_is_counted():
    asked = [Question("a", "x", True), Question("b", "y", False)]
    scores = report.score_arms(asked, {"arm": [Prediction(None), Prediction(None)]}, draws=200)["arm"]
    assert scores["accuracy"].value == 0.5
    assert scores["accuracy"].unparsed == 2
    assert scores["sensitivity"].value == 0


@given(st.integers(1, 300), st.integers(1, 300))
def test_the_break_is_found_where_it_is(before, after):
    offsets = pd.DataFrame(
        {
            "model": "m",
            "offset": np.arange(before + after) * 10,
            "found": [True] * before + [False] * after,
        }
    )
    (cliff,) = report.cliffs(offsets)
    assert cliff.offset == before * 10
    assert (cliff.before.value, cliff.after.value) == (1.0, 0.0)


def test_without_held_out_drugs_there_is_no_calibrated_score():
    asked = questions()
    answers = predictions(asked, 3)
    row = report.calibrate("graphrag", ([], []), (asked, answers), draws=200)
    assert row.threshold is None
    assert row.calibrated is None
    assert 0.9 < row.auc.value <= 1


def test_a_threshold_set_elsewhere_mends_a_model_that_always_says_no():
    asked = questions(200)
    shy = [Prediction(False, 0.3 if q.label else 0.1) for q in asked]
    row = report.calibrate("closed_book", (asked[:40], shy[:40]), (asked[40:], shy[40:]), draws=200)
    assert row.plain.value == 0.5
    assert row.calibrated is not None
    assert row.calibrated.value == 1.0


def test_rescoring_fills_every_cell_of_the_three_tables(run):
    asked = questions(80)
    table = pd.DataFrame(
        {
            "drug": [q.drug for q in asked],
            "side_effect": [q.side_effect for q in asked],
            "label": [q.label for q in asked],
            "answer": pd.Series([q.label for q in asked[:-4]] + [None] * 4, dtype=object),
        }
    )
    released = {(arm, model): table for arm in se.ARMS for model in se.MODELS}
    report.rescore(run, released, draws=200)
    given_ids = {v["id"] for v in [value.model_dump() for value in run._values.values()]}
    wanted = {
        n.id
        for n in published.published("side_effects").numbers
        if n.id.split(".")[1] in ("table1", "table2", "table3")
    }
    assert given_ids == wanted


def test_false_positives_are_sorted_by_what_they_share():
    released = pd.DataFrame(
        {
            "drug": ["a"] * 5,
            "side_effect": ["oral disorder", "pain", "joint swelling", "fever", "rash"],
            "label": [False, False, False, False, True],
            "answer": pd.Series([True, True, True, False, True], dtype=object),
        }
    )
    counts = se.false_positives(released, {"a": ["disorder", "abdominal pain", "swelling face", "rash"]})
    assert counts.tolist() == [1, 1, 1, 0]


def test_the_data_claims_notice_a_pair_that_contradicts_its_label(run):
    asked = [Question("a", f"e{i}", i < 10) for i in range(20)]
    report.decide_data_claims(run, asked, {"a": [f"e{i}" for i in range(10)]}, longest=9)
    assert decided(run, "benchmark_is_balanced") == "agrees"
    assert decided(run, "benchmark_labels_hold") == "agrees"
    assert decided(run, "lists_exceed_10000_characters") == "differs"
    report.decide_data_claims(run, asked, {"a": ["e11"]}, longest=10_001)
    assert decided(run, "benchmark_labels_hold") == "differs"
