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
    report.decide_arm_claims(run, scores, asked, answers, model="m", released={}, draws=200)


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
    assert decided(run, "residual_errors_are_llm_mislabels") == "undecided"  # there is no error to explain


def test_claims_that_fail_differ(run):
    asked = questions(1600)
    decide(run, asked, arms(asked, closed_book=10, format_a=120, format_b=120, graphrag=120, lookup=0))
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


def test_what_few_drugs_leave_open_is_undecided(run):
    """Without an error GraphRAG is at the ceiling, and two formats tie; ten drugs do not show either."""
    asked = questions(40)
    decide(run, asked, arms(asked, closed_book=12, format_a=0, format_b=0, graphrag=0, lookup=0))
    assert decided(run, "graphrag_reaches_ceiling") == "undecided"
    assert decided(run, "pairs_beat_lists") == "undecided"
    assert decided(run, "closed_book_is_unreliable") == "undecided"
    many = questions(1600)
    decide(run, many, arms(many, closed_book=600, format_a=0, format_b=0, graphrag=0, lookup=0))
    assert decided(run, "graphrag_reaches_ceiling") == "agrees"
    assert decided(run, "pairs_beat_lists") == "differs"


def test_the_questions_about_one_drug_are_one_observation():
    """Twenty pairs of one drug won together are no twenty wins."""
    better, worse = np.array([True] * 20 + [False] * 20), np.zeros(40, dtype=bool)
    alone = report.paired_tests({"graphrag": better, "format_a": worse}, [f"drug{i}" for i in range(40)])
    together = report.paired_tests({"graphrag": better, "format_a": worse}, ["a"] * 20 + ["b"] * 20)
    assert alone.p.item() < 0.001
    assert together.p.item() > 0.5
    assert together.low.item() < alone.low.item()


def test_a_forced_tie_is_called_forced_and_the_released_answers_stand_beside_it(run):
    asked = questions(400)
    answers = arms(asked, closed_book=150, format_a=0, format_b=0, graphrag=0, lookup=0)
    scores = report.score_arms(asked, answers, draws=200)
    wrong = {"closed_book": 150, "format_a": 100, "format_b": 20, "graphrag": 0}
    released = {
        (arm, model): report.answers_table(asked, predictions(asked, wrong[arm]))
        for arm in se.ARMS
        for model in se.MODELS
    }
    report.decide_arm_claims(run, scores, asked, answers, model="m", released=released, draws=200)
    why = next(c.why for c in run.claims if c.id.endswith("pairs_beat_lists"))
    assert "400 of 400" in why
    assert "forced" in why
    assert "On the released answers: RAG, Format B minus RAG, Format A: +20.0" in why
    assert "Llama-3.1-8B-Instruct" in why
    astray = answers | {"format_a": predictions(asked, 0, evidence_right=False)}
    assert "forced" not in report.forced_words(asked, astray)


@pytest.mark.parametrize(
    ("llama", "verdict"), [((0, 6, 12, 18), "agrees"), ((0, 14, 12, 18), "differs"), ((0, 9, 12, 18), "undecided")]
)
def test_the_released_answers_decide_whether_the_model_matters_less(run, llama, verdict):
    """Qwen is right in 0, 6, 12 and 18 of the 20 pairs of a drug, arm after arm."""

    def table(rights: float) -> pd.DataFrame:
        rows = [(f"d{i}", f"e{j}", True, j < rights + (i % 2)) for i in range(60) for j in range(20)]
        return pd.DataFrame(rows, columns=["drug", "side_effect", "label", "answer"])

    released = {(arm, "qwen"): table(n) for arm, n in zip(se.ARMS, (0, 6, 12, 18), strict=True)}
    released |= {(arm, "llama"): table(n) for arm, n in zip(se.ARMS, llama, strict=True)}
    report.decide_models_claim(run, released, {}, draws=200)
    assert decided(run, "model_difference_small") == verdict
    assert "on the released answers" in run.claims[-1].why


def test_without_any_answers_of_two_models_the_models_are_not_compared(run):
    report.decide_models_claim(run, {}, {}, draws=200)
    assert decided(run, "model_difference_small") == "not run"


def test_letter_and_place_are_told_apart():
    rows = [
        ("m", f"d{i}", effect, at, at < 100) for i in range(9) for effect, at in (("ache", 10), ("rash", 50 + 9 * i))
    ]
    offsets = pd.DataFrame(rows, columns=["model", "drug", "side_effect", "offset", "found"])
    breaks = report.cliffs(offsets)
    first, other = report.letters_table(offsets, breaks).to_dict("records")
    assert (first["the effect begins with"], first["of these found"]) == ('"a"', None)  # none can stand there
    assert (other["of them found"].value, other["of these found"].value) == (1.0, 0.0)
    assert "100 % before character 104 and 0 % from there on" in report.describe_cliff(breaks)


def test_the_break_is_as_sure_as_its_drugs_are_many():
    """All effects of a drug are found or missed together."""
    rows = [("m", f"d{i}", f"e{j}", 10 * j, i < 5) for i in range(10) for j in range(30)]
    offsets = pd.DataFrame(rows, columns=["model", "drug", "side_effect", "offset", "found"])
    (cliff,) = report.cliffs(offsets)
    side = max(cliff.before, cliff.after, key=lambda score: score.n)
    assert 0.4 < side.value < 0.6
    assert side.high - side.low > 0.4  # Wilson over 300 rows: 0.11


def test_what_the_model_said_is_told_by_this_runs_values():
    asked = questions(80)
    shy = [Prediction(False, 0.3 if q.label else 0.1) for q in asked]
    run = record.start(notebook="01_side_effects_forward", paper="side_effects", profile="smoke", parameters={})
    table = report.report_wordings(run, asked, {"shy": shy, "bold": predictions(asked, 2)}, draws=200)
    whole = report.score_arms(asked, {"a": predictions(asked, 0)}, draws=200)["a"]
    words = report.differs_words(whole, whole, 1550, table, "some model")
    assert "some model says YES to 0.0 %" in words
    assert "(bold) is right in 97.5 %" in words
    assert "after 1,550 characters 100.0 %" in words


@given(st.integers(1, 300), st.integers(1, 300))
def test_the_break_is_found_where_it_is(before, after):
    offsets = pd.DataFrame(
        {
            "model": "m",
            "drug": "d",
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
