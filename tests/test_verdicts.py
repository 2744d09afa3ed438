"""Claims are refuted only by an interval that leaves no room for them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from helpers.results import verdicts
from helpers.results.metrics import Score
from helpers.results.paired import paired_means


def interval(low: float, high: float) -> Score:
    return Score((low + high) / 2, 100, low, high)


@pytest.mark.parametrize(
    ("low", "high", "p", "verdict"),
    [
        (0.03, 0.26, 0.02, "agrees"),
        (-0.13, 0.24, 1.0, "undecided"),  # as wide as a run of 16 questions leaves it
        (0.11, 0.78, 0.25, "undecided"),  # six questions cannot be significant
        (-0.004, 0.010, 0.6, "differs"),  # room for one point at most
        (-0.15, -0.05, 0.001, "differs"),
        (-0.27, 0.0, 0.07, "differs"),
    ],
)
def test_better_needs_significance_and_worse_needs_the_whole_interval(low, high, p, verdict):
    assert verdicts.better(interval(low, high), p) == verdict


def test_parity_is_not_the_lack_of_a_significant_difference():
    assert verdicts.on_par(interval(-0.389, 0.014)) == "undecided"
    assert verdicts.on_par(interval(-0.03, 0.04)) == "agrees"
    assert verdicts.on_par(interval(-0.776, -0.493)) == "differs"


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(-1, 1))
def test_above_and_below_never_both_hold(low, width, bound):
    value = interval(low, low + width)
    above, below = verdicts.above(value, bound), verdicts.below(value, bound)
    assert "agrees" in (above, below) or {above, below} <= {"undecided", "differs"}
    assert not (above == below == "agrees")
    assert (above == "undecided") == (low <= bound < low + width)


@given(st.lists(st.sampled_from(verdicts.TESTED), min_size=1))
def test_one_part_refuted_refutes_the_claim(parts):
    found = verdicts.all_of(parts)
    assert (found == "differs") == ("differs" in parts)
    assert (found == "agrees") == all(part == "agrees" for part in parts)
    with pytest.raises(ValueError, match="at least one part"):
        verdicts.all_of([])


def test_more_questions_decide_what_few_leave_open():
    rng = np.random.default_rng(0)
    for n, verdict in ((8, "undecided"), (2000, "agrees")):
        right = (rng.random(n) < 0.6).astype(float)
        test = paired_means(right, np.zeros(n) + 0.5, draws=500)
        assert verdicts.better(test, test.p) == verdict
