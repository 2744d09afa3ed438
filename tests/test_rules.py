"""What a rule says of rows that could, and of rows that could not, decide a claim."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from evaluation import decisions, metrics, rules
from evaluation.answers import Answer
from evaluation.metrics import Score, proportion
from evaluation.outcomes import Outcomes
from evaluation.paired import paired_means
from evaluation.published import Rule
from evaluation.vocabulary import TESTED

SMALL = "Qwen2.5-Coder-1.5B-Instruct"


def outcomes(*, model: str = SMALL, source: str = "rerun", **arms: list[int]) -> Outcomes:
    return Outcomes(
        [
            Answer(
                source=source,
                run="laptop",
                model=model,
                task="t",
                arm=arm,
                unit=str(i),
                cluster=str(i),
                measures={"accuracy": (float(right), 1.0)},
            )
            for arm, answers in arms.items()
            for i, right in enumerate(answers)
        ],
        draws=1000,
    )


def decide_rerun(rows: Outcomes, **rule: Any) -> decisions.Decision:
    return rules.evaluate(Rule(**rule), rows, "rerun", paper="side_effects")


def decide_here(rows: Outcomes, **rule: Any) -> decisions.Decision:
    return rules.evaluate_here(Rule(**rule), rows, paper="side_effects")


def test_a_model_outside_the_scope_of_a_claim_answers_only_whether_it_holds_here():
    rows = outcomes(a=[1] * 40, b=[0] * 40)
    assert decide_rerun(rows, better="a", than="b").verdict == "agrees"
    assert decide_rerun(rows, better="a", than="b", scope=["1.5B", "gpt"]).verdict == "agrees"
    scoped: Any = {"better": "a", "than": "b", "scope": ["7B", "8B"]}
    other = decide_rerun(rows, **scoped)
    assert (other.verdict, other.reason) == ("not tested", "another model")
    assert SMALL in other.why
    assert not other.estimates, "a model outside the scope leaves no number with the verdict"
    own = decide_here(rows, **scoped)
    assert (own.verdict, own.models) == ("agrees", (SMALL,))
    (difference,) = own.estimates
    assert (difference.value, difference.n, difference.difference) == (1.0, 40, True)
    assert difference.low < 1.0
    twice = rules.evaluate(
        Rule(better=("a",), than=("b",), scope=("7B",)),
        rows,
        "rerun",
        paper="toy",
        facts={"served": [SMALL, SMALL]},
    )
    assert twice.why.count(SMALL) == 1


def test_a_model_that_searched_is_named_with_the_model_that_answered():
    rows = outcomes(a=[1] * 40, b=[0] * 40)
    rule = Rule(better=("a",), than=("b",))
    facts = {"served": ["encoder", "encoder"]}
    decision = rules.evaluate_here(rule, rows, paper="toy", facts=facts)
    assert decision.models == (SMALL, "encoder")
    nothing = rules.evaluate_here(Rule(better=("c",), than=("b",)), rows, paper="toy", facts=facts)
    assert nothing.models == ()


def test_models_that_replace_those_of_several_parts_are_named_in_one_sentence():
    rows = outcomes(a=[1] * 40, b=[0] * 40)
    compared: Any = {"better": ("a",), "than": ("b",)}
    parts = [Rule(**compared, scope=scope) for scope in (("LLaMA2", "llama-2"), ("GPT-4",))]
    decision = decide_rerun(rows, first_of=tuple(parts))
    assert decision.reason == "another model"
    about = "GPT-4 and llama-2 models"
    assert decision.why == f"The claim is about {about}, but here {SMALL} answered."


def test_a_part_that_replaces_something_says_so_in_a_sentence():
    rows = outcomes(a=[1] * 40, b=[0] * 40)
    compared: Any = {"better": ("a",), "than": ("b",), "here_only": True}
    frame = "This run replaces a part of the paper's system."
    assert decide_rerun(rows, **compared).why == frame
    replaces = "a prompted model stands in for a fine-tuned one"
    told = decide_rerun(rows, **compared, replaces=replaces)
    assert told.why == f"{frame} A prompted model stands in for a fine-tuned one."


def test_released_answers_are_of_the_papers_own_models():
    rows = outcomes(source="released", a=[1] * 40, b=[0] * 40)
    rule = Rule(better=("a",), than=("b",), scope=("GPT-4",), of=("rescored",))
    assert rules.evaluate(rule, rows, "rescored", paper="side_effects").verdict == "agrees"
    # but by a model that is not the paper's, if one scored them here
    decision = rules.evaluate(
        rule, rows, "rescored", paper="side_effects", facts={"scored_by": [SMALL]}
    )
    assert (decision.verdict, decision.reason) == ("not tested", "another model")


def test_rows_of_models_within_the_scope_decide_beside_those_of_others():
    large = outcomes(model="Llama-3.3-70B", a=[1] * 40, b=[0] * 40)
    small = outcomes(model=SMALL, c=[1] * 40)
    rule: Any = {"better": "a", "than": "b", "scope": ["70B"]}
    decision = decide_rerun(large.concat(small), **rule)
    assert (decision.verdict, decision.models) == ("agrees", ("Llama-3.3-70B",))


def test_a_judge_is_no_answering_model():
    rows = outcomes(model="Llama-3.3-70B", a=[1] * 40, b=[0] * 40)
    judge_rows = outcomes(model="GPT-4.1-mini", judge=[1] * 40)
    judge_rows.frame["of"] = "a"
    rule: Any = {"better": "a", "than": "b", "scope": ["Llama-3.3"]}
    assert decide_rerun(rows.concat(judge_rows), **rule).verdict == "agrees"
    assert decide_rerun(rows.concat(judge_rows), **rule, judges=["GPT-4.1"]).verdict == "agrees"
    other = decide_rerun(rows.concat(judge_rows), **rule, judges=["Claude"])
    assert (other.verdict, other.reason) == ("not tested", "another model")
    assert "GPT-4.1-mini" in other.why
    assert decide_here(rows.concat(judge_rows), **rule, judges=["Claude"]).verdict == "agrees"


def test_the_first_rule_with_answers_decides_and_some_are_asked_here_alone():
    rows = outcomes(tuned=[0] * 40, plain=[1] * 40, prompted=[1] * 40, none=[0] * 40)
    parts: Any = [
        {"better": "tuned", "than": "plain", "scope": ["Llama"]},
        {"better": "prompted", "than": "none", "here_only": True},
    ]
    decision = decide_rerun(rows, first_of=parts)
    assert (decision.verdict, decision.reason) == ("not tested", "another system")
    assert decide_here(rows, first_of=parts).verdict == "differs", "the first has answers here"
    prompted = rows.where(arm=["prompted", "none"])
    assert decide_here(prompted, first_of=parts).verdict == "agrees"


def test_what_is_published_and_was_not_fetched_is_the_reason():
    rows = outcomes(a=[1] * 40, b=[0] * 40, c=[1] * 40)
    weights: Any = {"scope": ["BERT"], "published": "The weights of BERT"}
    decision = decide_rerun(rows, better="a", than="b", **weights)
    assert (decision.verdict, decision.reason) == ("not tested", "published, not fetched")
    assert decision.why.startswith("The weights of BERT are published, but were not fetched")
    assert SMALL in decision.why
    parts: Any = [
        {"better": "a", "than": "d", "published": "The scores of d"},
        {"better": "a", "than": "b", "here_only": True},
    ]
    decision = decide_rerun(rows, first_of=parts)
    assert (decision.verdict, decision.reason) == ("not tested", "published, not fetched")
    assert decision.why == "The scores of d are published, but were not fetched for this run."
    assert decide_here(rows, first_of=parts).verdict == "agrees"
    parts[1] = {"better": "a", "than": "b"}
    assert decide_rerun(rows, first_of=parts).verdict == "agrees", "the next rule has answers"


def test_here_no_rule_of_released_scores_alone_is_asked():
    rows = outcomes(a=[1] * 40, b=[0] * 40)
    parts: Any = [
        {"better": "b", "than": "a", "of": ["rescored"]},
        {"better": "a", "than": "b", "here_only": True},
    ]
    decision = decide_here(rows, first_of=parts)
    assert decision.verdict == "agrees"
    assert decision.why.count("difference") == 1


def test_a_family_adjusts_p_and_decides_nothing():
    rows = outcomes(a=[1] * 30 + [0] * 10, b=[1] * 22 + [0] * 18, c=[1] * 29 + [0] * 11)
    alone = decide_rerun(rows, better="a", than="b")
    family = decide_rerun(rows, better="a", than="b", family=["c", "absent"])
    assert alone.p is not None
    assert family.p == pytest.approx(2 * alone.p)
    assert family.verdict == alone.verdict == "agrees"
    assert [part.label for part in family.estimates] == ["a minus b, accuracy"]
    assert "the comparisons with c" in Rule(better=("a",), than=("b",), family=("c",)).words()


@pytest.mark.parametrize(
    "condition", [{"where": {"kind": ["x"]}}, {"interaction": {"kind": ["x", "y"]}}]
)
def test_rows_without_the_stratum_of_a_rule_answer_nothing(condition):
    """Released rows may have a stratum that new ones lack; a chapter goes on."""
    rows = outcomes(a=[1] * 40, b=[0] * 40)
    decision = decide_here(rows, better="a", than="b", **condition)
    assert (decision.verdict, decision.reason) == ("not tested", "no answers")


def test_a_claim_is_not_asked_of_rows_that_could_only_confirm_it():
    rows = outcomes(graph=[1] * 40).concat(outcomes(source="released", graph=[1] * 40))
    rule: Any = {"exactly": "graph", "bound": 1, "of": ["rescored", "rerun"]}
    rule["by_construction"] = {"rerun": "the truth is read\nfrom the graph"}
    for decision in (decide_rerun(rows, **rule), decide_here(rows, **rule)):
        assert (decision.verdict, decision.reason) == ("cannot be tested", "by construction")
        assert decision.why == "the truth is read from the graph"
    released = rules.evaluate(Rule(**rule), rows, "rescored", paper="side_effects")
    assert released.verdict == "agrees"
    first_of = [rule, {"below": "graph", "bound": 2}]
    assert decide_here(rows, first_of=first_of).verdict == "agrees", "the next rule is asked"


def test_a_difference_names_both_arms_and_a_forced_tie_stays_apart():
    tied = outcomes(a=[1] * 40, b=[1] * 40)
    for measures in tied.frame.measures:
        measures["handed"] = (1.0, 1.0)
    rows = tied.concat(outcomes(own_a=[1] * 40, own_b=[1] * 10 + [0] * 30))
    tie: Any = {"better": "a", "than": "b", "tie": "handed"}
    decision = decide_here(rows, first_of=[tie, {"better": "own_a", "than": "own_b"}])
    (estimate,) = decision.estimates
    assert [(arm.label, arm.value) for arm in estimate.arms] == [("own_a", 1.0), ("own_b", 0.25)]
    (forced,) = decision.ties
    assert [arm.label for arm in forced.arms] == ["a", "b"]
    assert decide_here(tied, **tie).ties == decision.ties


def test_an_estimate_states_its_arms_its_measure_and_what_its_rows_meet():
    rows = outcomes(a=[1] * 40, b=[0] * 40)
    rows.frame["task"] = ["in" if int(unit) < 20 else "out" for unit in rows.frame.unit]
    of_task = {"source": ["rerun"], "task": ["in"]}

    (score,) = decide_here(rows, above="a", bound=0.5, where={"task": ["in"]}).estimates
    assert (score.measure, score.where, score.n) == ("accuracy", of_task, 20)
    assert [(arm.label, arm.value) for arm in score.arms] == [("a", 1.0)]

    (difference,) = decide_here(rows, better="a", than="b", where={"task": ["in"]}).estimates
    assert (difference.measure, difference.where, difference.n) == ("accuracy", of_task, 20)

    by_task = decide_here(rows, better="a", than="b", each="task").estimates
    assert [estimate.where["task"] for estimate in by_task] == [["in"], ["out"]]

    interaction = {"task": ["out", "in"]}
    (gain,) = decide_here(rows, better="a", than="b", interaction=interaction).estimates
    assert (gain.measure, gain.where["task"], gain.n) == ("accuracy", ["out", "in"], 40)


def test_a_function_is_asked_here_only_if_it_reads_a_rerun():
    rule: Any = {"function": "benchmark_is_balanced", "words": "x", "of": ["rescored"]}
    decision = decide_here(outcomes(a=[1]), **rule)
    assert (decision.verdict, decision.reason) == ("not tested", "printed only")


@pytest.mark.parametrize(
    ("n_better", "margin", "verdict"),
    [(10, 0.1, "agrees"), (10, 0.4, "differs"), (10, 0.25, "inconclusive"), (1, 0, "inconclusive")],
)
def test_the_words_of_a_claim_can_ask_for_a_margin(n_better, margin, verdict):
    better = [1] * n_better + [0] * (40 - n_better)
    rows = outcomes(a=better * 5, b=[0] * 200)
    if margin:
        assert decide_rerun(rows, better="a", than="b", margin=margin).verdict == verdict
    else:
        assert decide_rerun(outcomes(a=better, b=[0] * 40), better="a", than="b").verdict == verdict


@pytest.mark.parametrize(
    ("a", "verdict"),
    [([1, 0] * 200, "agrees"), ([1] * 400, "differs"), ([1, 0] * 10, "inconclusive")],
)
def test_equivalence_has_two_bounds(a, verdict):
    b = ([1, 0] * 200)[: len(a)]
    rows = outcomes(a=[*a[1:], a[0]], b=b) if verdict == "inconclusive" else outcomes(a=a, b=b)
    assert decide_rerun(rows, equivalent="a", than="b", margin=0.05).verdict == verdict


@pytest.mark.parametrize(
    ("inside", "outside", "verdict"),
    [(35, 5, "agrees"), (5, 35, "differs"), (20, 16, "inconclusive")],
)
def test_whether_a_gain_depends_on_a_condition_is_an_interaction(inside, outside, verdict):
    rng = np.random.default_rng(0)
    n = 40
    gains = [1] * inside + [0] * (n - inside) + [1] * outside + [0] * (n - outside)
    base = list(rng.integers(0, 2, 2 * n) * 0)
    rows = outcomes(a=gains, b=base)
    rows.frame["task"] = ["in" if int(unit) < n else "out" for unit in rows.frame.unit]
    rule: Any = {"better": "a", "than": "b", "interaction": {"task": ["in", "out"]}}
    decision = decide_rerun(rows, **rule)
    assert decision.verdict == verdict
    (difference,) = decision.estimates
    assert math.isclose(difference.value, (inside - outside) / n)
    if verdict == "inconclusive":  # though each gain is significant on its own
        for task in ("in", "out"):
            assert decide_rerun(rows.where(task=task), better="a", than="b").verdict == "agrees"


@pytest.mark.parametrize(("n", "verdict"), [(5, "not tested"), (6, "agrees")])
def test_so_few_units_that_nothing_could_be_significant_are_too_few(n, verdict):
    decision = decide_rerun(outcomes(a=[1] * n, b=[0] * n), better="a", than="b")
    assert decision.verdict == verdict
    assert (decision.reason == "too few") == (verdict == "not tested")


@pytest.mark.parametrize("rule", [{"above": "a", "bound": 0.5}, {"on_par": "a", "than": "b"}])
def test_many_rows_of_few_clusters_are_too_few(rule):
    for clusters, verdict in ((5, "not tested"), (100, "agrees")):
        rows = outcomes(a=[1] * 400, b=[1] * 400)
        rows.frame["cluster"] = [f"c{int(unit) % clusters}" for unit in rows.frame.unit]
        assert decide_rerun(rows, **rule).verdict == verdict


@pytest.mark.parametrize(
    ("model", "same"),
    [
        ("gpt-4-0613", True),
        ("openai/GPT-4", True),
        ("gpt-4o-mini", False),
        ("gpt-4.1-nano", False),
        ("gpt-45", False),
    ],
)
def test_a_model_is_of_a_claims_scope_by_its_whole_name(model, same):
    assert decisions.is_model_of(model, ["GPT-4"]) == same


def test_one_of_many_parts_refutes_only_at_bonferronis_level():
    scores = [1] * 21 + [0] * 29
    assert decide_rerun(outcomes(a=scores), above="a", bound=0.56).verdict == "differs"
    names = list("abcdefgh")
    arms: dict[str, Any] = {name: scores if name == "a" else [1] * 50 for name in names}
    rows = outcomes(**arms)
    parts = tuple(Rule(above=name, bound=0.56) for name in names)
    assert decide_rerun(rows, all_of=parts).verdict == "inconclusive"


def test_an_undecided_claim_names_the_units_that_would_decide_it():
    rng = np.random.default_rng(0)
    first, second = ([int(x < p) for x in rng.random(60)] for p in (0.62, 0.5))
    decision = decide_rerun(outcomes(a=first, b=second), better="a", than="b")
    assert decision.verdict == "inconclusive"
    assert decision.needed


def test_a_part_that_points_against_the_claim_says_alone_what_would_decide_it():
    against = decisions.Part(proportion(20, 50), partial(decisions.above, bound=0.5))
    near = decisions.Part(proportion(26, 50), partial(decisions.above, bound=0.5))
    decision = decisions.decide_by_intervals([against, near], (0.5,), why="")
    corrected = decisions.bonferroni_interval(against.interval, 2)
    assert decision.verdict == "inconclusive"
    assert decision.needed == decisions.required_units(corrected, [0.5])


def test_no_number_of_units_decides_a_value_on_the_bound():
    criterion = partial(decisions.above, bound=0.5)
    parts = [decisions.Part(proportion(hits, 60), criterion) for hits in (30, 34)]
    decision = decisions.decide_by_intervals(parts, (0.5,), why="")
    assert decision.verdict == "inconclusive"
    assert decision.needed is None


def test_the_units_needed_give_the_power_that_they_promise():
    rng = np.random.default_rng(1)
    true, bound = 0.62, 0.5
    n_units = decisions.required_units(proportion(31, 50), [bound])
    assert n_units is not None
    scores = [proportion(int(rng.binomial(n_units, true)), n_units) for _ in range(400)]
    assert 0.7 < np.mean([decisions.above(score, bound) == "agrees" for score in scores]) < 0.95


@pytest.mark.parametrize("n_hits", [0, 120])
def test_a_share_of_none_or_all_needs_the_units_that_wilsons_interval_needs(n_hits):
    """With no hit, its upper end falls below 2 % at 189 units, and with all hits likewise."""
    bound = 0.02 if n_hits == 0 else 0.98
    n_units = decisions.required_units(proportion(n_hits, 120), [bound])
    assert n_units == 189
    assert proportion(0, n_units).high < 0.02 < proportion(0, n_units - 1).high


@given(st.floats(0, 1), st.floats(0.001, 0.5), st.integers(1, 30))
def test_an_interval_of_several_parts_holds_that_of_one(value, half, parts):
    score = Score(value, 100, value - half, value + half)
    wide = decisions.bonferroni_interval(score, parts)
    assert wide.low <= score.low + 1e-12
    assert wide.high >= score.high - 1e-12
    assert math.isclose(value - wide.low, wide.high - value, abs_tol=1e-9)


def test_bonferronis_interval_of_a_mean_is_the_normal_one():
    values = np.random.default_rng(2).normal(0.3, 1, 4000)
    score = metrics.bootstrap(values)
    wide = decisions.bonferroni_interval(score, 5)
    half = 2.5758 * values.std(ddof=1) / math.sqrt(len(values))  # the normal quantile of 0.995
    assert math.isclose(wide.high - score.value, half, rel_tol=0.05)


def test_a_rule_about_a_measure_that_no_answer_has_tests_nothing():
    decision = decide_rerun(outcomes(a=[1] * 40), above="a", bound=0.5, measure="cites")
    assert (decision.verdict, decision.reason) == ("not tested", "no answers")


def interval(low: float, high: float) -> Score:
    return Score((low + high) / 2, 100, low, high)


@pytest.mark.parametrize(
    ("low", "high", "p", "verdict"),
    [
        (0.03, 0.26, 0.02, "agrees"),
        (-0.13, 0.24, 1.0, "inconclusive"),  # as wide as a run of 16 questions leaves it
        (0.11, 0.78, 0.25, "inconclusive"),  # six questions cannot be significant
        (-0.004, 0.010, 0.6, "inconclusive"),  # a small gain refutes no claim of a gain
        (-0.15, -0.05, 0.001, "differs"),
        (-0.27, 0.0, 0.07, "inconclusive"),
        (-0.296, -0.023, 0.083, "inconclusive"),  # the test says what the interval does not
    ],
)
def test_better_and_worse_need_significance_and_the_whole_interval(low, high, p, verdict):
    assert decisions.better(interval(low, high), p) == verdict


def test_parity_is_not_the_lack_of_a_significant_difference():
    assert decisions.on_par(interval(-0.389, 0.014)) == "inconclusive"
    assert decisions.on_par(interval(-0.03, 0.04)) == "agrees"
    assert decisions.on_par(interval(-0.776, -0.493)) == "differs"


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(-1, 1))
def test_above_and_below_never_both_hold(low, width, bound):
    value = interval(low, low + width)
    above, below = decisions.above(value, bound), decisions.below(value, bound)
    assert "agrees" in (above, below) or {above, below} <= {"inconclusive", "differs"}
    assert not (above == below == "agrees")
    assert (above == "inconclusive") == (low <= bound < low + width)


@given(st.lists(st.sampled_from(TESTED), min_size=1))
def test_one_part_refuted_refutes_the_claim(parts):
    verdict = decisions.all_of(parts)
    assert (verdict == "differs") == ("differs" in parts)
    assert (verdict == "agrees") == all(part == "agrees" for part in parts)
    with pytest.raises(ValueError, match="at least one part"):
        decisions.all_of([])


def test_more_questions_decide_what_few_leave_open():
    rng = np.random.default_rng(0)
    for n, verdict in ((8, "inconclusive"), (2000, "agrees")):
        right = (rng.random(n) < 0.6).astype(float)
        test = paired_means(right, np.zeros(n) + 0.5, draws=500)
        assert decisions.better(test, test.p) == verdict


@pytest.mark.parametrize(
    ("families", "words"),
    [
        (("", ""), "two of the three intervals still refute"),
        (("", "second reading"), "two intervals, from families of three each, still refute"),
        (("", "", "", ""), "four intervals, from families of three each, still refute"),
    ],
)
def test_corrected_intervals_are_counted_in_their_families(
    families: Sequence[str], words: str
) -> None:
    corrections = [
        decisions.Correction("x is 1", 3, refutes=True, family=family) for family in families
    ]
    assert f"After Bonferroni's correction, {words} the claim." in decisions.corrected_text(
        corrections
    )
