"""Covers metrics.py: values by hand and against scikit-learn and statsmodels, intervals, paired tests, bad input."""

from __future__ import annotations

import time
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given, settings, strategies as st
from sklearn import metrics as sk
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint

from evaluation import answers
from evaluation.metrics import (
    DRAWS,
    auc,
    bootstrap,
    percentile,
    proportion,
    ratio,
    set_scores,
    wilson,
)
from evaluation.paired import holm, paired_means

NAMES = ["accuracy", "f1", "precision", "sensitivity", "specificity"]
ANSWERS = st.lists(
    st.tuples(st.booleans(), st.sampled_from([True, False, None]), st.sampled_from("abcde")),
    min_size=1,
    max_size=60,
)
PROBABILITIES = st.lists(
    st.tuples(st.booleans(), st.floats(0, 1, allow_subnormal=False)), min_size=2, max_size=40
).filter(lambda rows: len({label for label, _ in rows}) == 2)


def columns(rows):
    return [list(column) for column in zip(*rows, strict=True)]


def binary_scores(truth, answer, *, clusters=None, draws=DRAWS):
    """The five scores of YES/NO answers, each on the rows that count for it."""
    measures_of_rows = [
        answers.binary(bool(t), bool(a)) for t, a in zip(truth, answer, strict=True)
    ]
    scores = {}
    for name in NAMES:
        rows = [row for row, measures in enumerate(measures_of_rows) if name in measures]
        if rows:
            tops, bottoms = zip(*(measures_of_rows[row][name] for row in rows), strict=True)
            groups = None if clusters is None else [clusters[row] for row in rows]
            scores[name] = ratio(tops, bottoms, clusters=groups, draws=draws)
    return scores


# --- YES/NO scores -------------------------------------------------------------------------------------------------


def test_scores_by_hand():
    # tp 2, fn 1, fp 1, tn 4
    truth = [True, True, True, False, False, False, False, False]
    answer = [True, True, False, True, False, False, False, False]
    scores = binary_scores(truth, answer)
    assert {name: (score.value, score.n) for name, score in scores.items()} == {
        "accuracy": (6 / 8, 8),
        "f1": (2 / 3, 8),
        "precision": (2 / 3, 3),
        "sensitivity": (2 / 3, 3),
        "specificity": (4 / 5, 5),
    }
    assert (scores["accuracy"].low, scores["accuracy"].high) == pytest.approx(
        proportion_confint(6, 8, method="wilson")
    )


@given(ANSWERS)
def test_scores_agree_with_sklearn_when_an_unread_answer_counts_as_no(rows):
    truth, answer, _ = columns(rows)
    scores = binary_scores(truth, answer, draws=100)
    labels = [bool(a) for a in answer]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [
            sk.accuracy_score(truth, labels),
            sk.f1_score(truth, labels, zero_division=0),
            sk.precision_score(truth, labels, zero_division=0),
            sk.recall_score(truth, labels, zero_division=0),
            sk.recall_score(truth, labels, pos_label=False, zero_division=0),
        ]
    assert [scores[name].value if name in scores else 0.0 for name in NAMES] == pytest.approx(
        expected
    )


@given(ANSWERS, st.booleans())
def test_intervals_contain_the_value_and_lie_in_0_to_1(rows, clustered):
    truth, answer, drugs = columns(rows)
    scores = binary_scores(truth, answer, clusters=drugs if clustered else None, draws=100)
    for score in scores.values():
        assert 0 <= score.low <= score.value <= score.high <= 1


@given(ANSWERS, st.booleans(), st.randoms(use_true_random=False))
def test_the_order_of_the_rows_does_not_matter(rows, clustered, random):
    shuffled = random.sample(rows, len(rows))
    results = []
    for part in (rows, shuffled):
        truth, answer, drugs = columns(part)
        results.append(
            binary_scores(truth, answer, clusters=drugs if clustered else None, draws=100)
        )
    assert results[0] == results[1]


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_f1_follows_from_the_counts(tp, fp, fn, tn):
    if tp + fp + fn + tn == 0:
        return
    truth = [True] * tp + [False] * fp + [True] * fn + [False] * tn
    answer = [True] * (tp + fp) + [False] * (fn + tn)
    expected = 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0
    assert binary_scores(truth, answer, draws=100)["f1"].value == expected


def test_a_score_without_denominator_is_0_with_the_widest_interval():
    f1 = binary_scores([False, False], [False, False])["f1"]
    assert (f1.value, f1.low, f1.high) == (0.0, 0.0, 1.0)


def test_the_bootstrap_of_drugs_is_the_same_each_time():
    rng = np.random.default_rng(1)
    truth, answer, drugs = rng.random(200) < 0.5, rng.random(200) < 0.5, rng.integers(20, size=200)
    assert binary_scores(truth, answer, clusters=drugs) == binary_scores(
        truth, answer, clusters=drugs
    )


def test_answers_that_hang_together_widen_the_interval():
    right = np.repeat([True] * 30 + [False] * 20, 20)  # a drug is all right or all wrong
    drugs = np.repeat(np.arange(50), 20)
    truth = np.ones(1000, dtype=bool)
    alone, together = binary_scores(truth, right), binary_scores(truth, right, clusters=drugs)
    assert together["accuracy"].value == alone["accuracy"].value
    # 50 drugs say as much as 50 rows
    by_drug = proportion(30, 50)
    assert together["accuracy"].high - together["accuracy"].low == pytest.approx(
        by_drug.high - by_drug.low, abs=0.02
    )
    assert together["f1"].high - together["f1"].low > 3 * (alone["f1"].high - alone["f1"].low)


def test_100_percent_is_not_certainty():
    truth = [True, False] * 500
    perfect = binary_scores(truth, truth, clusters=[i // 10 for i in range(1000)])
    assert (perfect["accuracy"].value, perfect["accuracy"].high) == (1, 1)
    assert perfect["accuracy"].low == pytest.approx(
        proportion_confint(100, 100, method="wilson")[0]
    )
    assert perfect["f1"].low == perfect["accuracy"].low


def test_the_clustered_bootstrap_agrees_with_drawing_drugs_one_by_one():
    rng = np.random.default_rng(2)
    drugs = np.repeat(np.arange(40), 10)
    truth = np.tile([True] * 5 + [False] * 5, 40)
    answer = truth ^ (rng.random(400) < np.repeat(rng.beta(1, 3, 40), 10))
    slow = []
    for _ in range(600):
        rows = np.concatenate([np.flatnonzero(drugs == drug) for drug in rng.integers(40, size=40)])
        slow.append(sk.f1_score(truth[rows], answer[rows]))
    f1 = binary_scores(truth, answer, clusters=drugs)["f1"]
    assert [f1.low, f1.high] == pytest.approx(np.percentile(slow, [2.5, 97.5]), abs=0.015)


def test_a_full_benchmark_is_scored_within_a_second_and_a_half():
    rng = np.random.default_rng(0)
    truth = np.tile([True] * 10 + [False] * 10, 976)
    answer = truth ^ (rng.random(19520) < 0.2)
    drugs = [f"drug {i // 20}" for i in range(19520)]
    for clusters in (None, drugs):
        start = time.process_time()
        binary_scores(truth, answer, clusters=clusters)
        assert time.process_time() - start < 1.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([], []), "at least one row"),
        (([True, False], [1]), "p_yes 1, y_true 2"),
        (([True, None], [1, 0]), "1 of 2 have neither"),
        ((["YES", "NO"], [1, 0]), "found 'YES'. Parse the answers first"),
        (([2, 0], [1, 0]), "found 2"),
        (([[True, False]], [1, 0]), r"\(1, 2\)"),
    ],
)
def test_input_that_cannot_be_scored_is_refused_with_what_was_found(arguments, message):
    with pytest.raises(ValueError, match=message):
        auc(*arguments)


def test_clusters_need_a_name_in_every_row_and_a_bootstrap_needs_draws():
    with pytest.raises(ValueError, match="1 rows have none"):
        ratio([1, 0], [1, 1], clusters=["a", None])
    with pytest.raises(ValueError, match="at least 100 draws"):
        ratio([1, 0], [1, 1], draws=10)


@given(st.integers(1, 10_000), st.data())
def test_a_proportion_has_wilsons_interval(n, data):
    k = data.draw(st.integers(0, n))
    score = proportion(k, n)
    assert (score.low, score.high) == pytest.approx(
        proportion_confint(k, n, method="wilson"), abs=1e-12
    )
    assert 0 <= score.low <= score.value <= score.high <= 1


@pytest.mark.parametrize(("k", "n"), [(0, 0), (3, 2), (-1, 2)])
def test_a_proportion_of_nothing_is_refused(k, n):
    with pytest.raises(ValueError, match=f"found k={k}, n={n}"):
        proportion(k, n)


# --- paired tests --------------------------------------------------------------------------------------------------


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([]) == []


@settings(max_examples=10)  # statsmodels collects garbage at each call
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_never_lowers_a_p_value_and_keeps_their_order(ps):
    corrected = holm(ps)
    assert all(p - 1e-12 <= q <= 1 for p, q in zip(ps, corrected, strict=True))
    by_p = [q for _, q in sorted(zip(ps, corrected, strict=True))]
    assert all(a <= b + 1e-12 for a, b in pairwise(by_p))
    assert corrected == list(multipletests(ps, method="holm")[1])


@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_holm_refuses_what_is_no_p_value(p):
    with pytest.raises(ValueError, match="within 0 and 1"):
        holm([0.5, p])


# --- probabilities -------------------------------------------------------------------------------------------------


@given(PROBABILITIES)
def test_auc_agrees_with_sklearn_and_its_interval_contains_it(rows):
    truth, p = columns(rows)
    score = auc(truth, p)
    assert score.value == pytest.approx(sk.roc_auc_score(truth, p))
    assert 0 <= score.low <= score.value <= score.high <= 1


def test_auc_has_delongs_interval():
    rng = np.random.default_rng(5)
    truth = rng.random(300) < 0.4
    p = rng.normal(truth * 1.0)
    yes, no = p[truth], p[~truth]
    above = (yes[:, None] > no[None, :]).astype(float)
    delong = np.sqrt(
        above.mean(axis=1).var(ddof=1) / len(yes) + above.mean(axis=0).var(ddof=1) / len(no)
    )
    score = auc(truth, p)
    half = 1.959964 * delong / (score.value * (1 - score.value))
    logit = np.log(score.value / (1 - score.value))
    assert [score.low, score.high] == pytest.approx(
        1 / (1 + np.exp(-(logit + np.array([-half, half])))), abs=5e-4
    )


def error_of(score):
    """The standard error that an interval on the logit scale was made of."""
    return np.log(score.high / (1 - score.high) / (score.low / (1 - score.low))) / 2 / 1.959964


def test_few_rows_of_a_label_widen_the_interval_of_auc_as_delong_has_it():
    p_yes, p_no = np.array([0.5, 2.5, 3.5]), np.arange(200) / 100
    above = (p_yes[:, None] > p_no[None, :]) + 0.5 * (p_yes[:, None] == p_no[None, :])
    delong = np.sqrt(above.mean(axis=1).var(ddof=1) / 3 + above.mean(axis=0).var(ddof=1) / 200)
    score = auc([True] * 3 + [False] * 200, np.concatenate([p_yes, p_no]))
    assert error_of(score) * score.value * (1 - score.value) == pytest.approx(delong, rel=1e-6)


def test_auc_over_clusters_has_obuchowskis_variance():
    rng = np.random.default_rng(8)
    n, drugs = 60, rng.integers(12, size=60)
    truth = (rng.random(n) < 0.3) & (drugs < 5)  # five drugs at most have a YES
    p = rng.normal(truth * 1.0 + 0.5 * drugs % 2)
    above = (p[truth][:, None] > p[~truth][None, :]).astype(float)
    value = above.mean()

    def summed(values, clusters):
        return np.array([(values[clusters == drug] - value).sum() for drug in np.unique(drugs)])

    x, y = summed(above.mean(axis=1), drugs[truth]), summed(above.mean(axis=0), drugs[~truth])
    m, k = truth.sum(), (~truth).sum()
    with_yes, with_no, all_clusters = (
        len(set(clusters)) for clusters in (drugs[truth], drugs[~truth], drugs)
    )
    s10 = with_yes / ((with_yes - 1) * m) * (x**2).sum()
    s01 = with_no / ((with_no - 1) * k) * (y**2).sum()
    s11 = all_clusters / (all_clusters - 1) * (x * y).sum()
    error = np.sqrt(s10 / m + s01 / k + 2 * s11 / (m * k))
    score = auc(truth, p, clusters=drugs)
    assert error_of(score) * score.value * (1 - score.value) == pytest.approx(error, rel=1e-6)


def test_one_drug_with_a_yes_says_little_about_auc():
    score = auc(
        [True] * 4 + [False] * 40, [*[30.5] * 4, *range(40)], clusters=[0] * 4 + list(range(1, 41))
    )
    assert score.high - score.low > 0.7


def test_the_interval_of_auc_over_drugs_covers_what_a_bootstrap_over_drugs_does():
    rng = np.random.default_rng(6)
    drugs = np.repeat(np.arange(60), 10)
    truth = np.tile([True] * 5 + [False] * 5, 60)
    p = rng.normal(truth * 1.0 + np.repeat(rng.normal(scale=2, size=60), 10))
    draws = []
    for _ in range(600):
        rows = (rng.integers(60, size=60)[:, None] * 10 + np.arange(10)).ravel()
        draws.append(sk.roc_auc_score(truth[rows], p[rows]))
    score = auc(truth, p, clusters=drugs)
    assert [score.low, score.high] == pytest.approx(np.percentile(draws, [2.5, 97.5]), abs=0.015)


def test_a_perfect_order_is_not_certainty_and_one_label_has_no_auc():
    score = auc([True] * 20 + [False] * 30, [0.9] * 20 + [0.1] * 30)
    assert (score.value, score.low) == (
        1,
        pytest.approx(proportion_confint(20, 20, method="wilson")[0]),
    )
    with pytest.raises(ValueError, match="found 2 YES and 0 NO"):
        auc([True, True], [0.2, 0.3])
    with pytest.raises(ValueError, match="p_yes needs finite numbers; 1 of 2"):
        auc([True, False], [0.2, float("nan")])


# --- sets, speeds, anything else -----------------------------------------------------------------------------------


def test_set_scores_by_hand():
    assert set_scores(["a", "b", "c", "c"], ["b", "c", "d", "e"]) == {
        "recall": 0.5,
        "precision": pytest.approx(2 / 3),
        "f1": pytest.approx(4 / 7),
    }
    assert set_scores([], ["a"]) == {"recall": 0.0, "precision": 0.0, "f1": 0.0}
    with pytest.raises(ValueError, match="relevant set is empty"):
        set_scores(["a"], [])


@given(st.sets(st.sampled_from("abcdefgh")), st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_the_f1_of_a_set_is_the_harmonic_mean(returned, relevant):
    scores = set_scores(returned, relevant)
    recall, precision = scores["recall"], scores["precision"]
    expected = 2 * recall * precision / (recall + precision) if recall + precision else 0
    assert scores["f1"] == pytest.approx(expected)


VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=30)


@given(VALUES, st.randoms(use_true_random=False))
def test_a_bootstrap_contains_its_value_whatever_the_order(values, random):
    score = bootstrap(values, draws=100)
    assert score.value == pytest.approx(np.mean(values), abs=1e-6)
    assert score.low <= score.value <= score.high
    assert score == bootstrap(random.sample(values, len(values)), draws=100)


def test_a_bootstrap_of_the_mean_has_about_the_textbook_interval():
    values = np.random.default_rng(7).normal(10, 2, size=400)
    score = bootstrap(values)
    assert score.n == 400
    assert (score.high - score.low) / 2 == pytest.approx(1.96 * values.std() / 20, rel=0.1)


def test_a_bootstrap_over_drugs_draws_whole_drugs():
    # one value a drug, ten times over: the rows say no more than the drugs
    drugs = np.repeat(np.arange(30), 10)
    values = np.repeat(np.random.default_rng(8).normal(size=30), 10)
    rows, clustered = bootstrap(values), bootstrap(values, clusters=drugs)
    assert clustered.high - clustered.low > 2.5 * (rows.high - rows.low)
    assert clustered == bootstrap(values[::-1], clusters=drugs[::-1])


def test_percentiles_and_their_intervals():
    values = list(range(1, 102))
    score = bootstrap(values, percentile(95))
    assert score.low < score.value == 96 < score.high


def test_all_right_in_a_bootstrap_has_the_interval_of_a_proportion():
    score = bootstrap([1.0] * 50)
    assert (score.value, score.low) == (
        1,
        pytest.approx(proportion_confint(50, 50, method="wilson")[0]),
    )


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=1, max_size=30))
@example([(0.0, 1.0)] * 40)
def test_a_paired_difference_of_means_turns_its_sign_with_its_arms(rows):
    a, b = np.array(rows).T
    forward, reverse = paired_means(a, b, draws=100), paired_means(b, a, draws=100)
    assert forward.difference == pytest.approx(-reverse.difference)
    assert (forward.b, forward.c, forward.p) == (reverse.c, reverse.b, reverse.p)
    if abs(forward.difference) == 1:
        assert (forward.low, forward.high) == (-reverse.high, -reverse.low)
    assert forward.low <= forward.difference <= forward.high
    assert 0 < forward.p <= 1


def test_a_clear_paired_difference_is_significant_and_none_is_not():
    rng = np.random.default_rng(0)
    base = rng.random(80)
    assert paired_means(base + 0.1 + rng.normal(0, 0.05, 80), base).p < 0.01
    same = paired_means(base, base)
    assert same.p == 1
    assert same.low == -same.high < 0
    assert paired_means(base + rng.normal(0, 0.1, 80), base).p > 0.01


@pytest.mark.parametrize("worse", [1, 2, 3])
def test_a_few_rows_that_differ_do_not_bound_the_difference_at_zero(worse):
    a, b = np.ones(80), np.ones(80)
    a[:worse] = 0
    test = paired_means(a, b)
    assert test.high > 0.005
    reverse = paired_means(b, a)
    assert (reverse.low, reverse.high) == pytest.approx((-test.high, -test.low), abs=0.015)


def test_clusters_that_are_all_alike_do_not_make_a_value_certain():
    """Of each of 50 drugs, one answer of two is right: another drug might have none or both."""
    right = np.tile([1.0, 0.0], 50)
    drugs = np.repeat(np.arange(50), 2)
    score = ratio(right, np.ones(100), clusters=drugs)
    assert score.low == pytest.approx(0.5 - 0.5 * wilson(0, 50)[1])
    assert score.high == pytest.approx(0.5 + 0.5 * wilson(0, 50)[1])
    gain = paired_means(np.ones(100), right, clusters=drugs)
    assert gain.low < 0.5 < gain.high


def test_rows_that_belong_together_count_once_in_a_paired_test():
    gain = np.repeat([1.0, 1.0, 1.0, -1.0], 25)  # four documents, 25 questions each
    rows = paired_means(gain, np.zeros(100))
    documents = paired_means(gain, np.zeros(100), clusters=np.repeat(list("abcd"), 25))
    assert rows.difference == documents.difference == 0.5
    assert rows.p < 0.001
    assert documents.p > 0.3, "three of four is nothing"
    assert documents.high - documents.low > 2 * (rows.high - rows.low)
    assert (documents.b, documents.c) == (75, 25)
    alone = paired_means(gain, np.zeros(100), clusters=np.arange(100))
    assert (alone.p, alone.low, alone.high) == pytest.approx(
        (rows.p, rows.low, rows.high), abs=0.05
    )
