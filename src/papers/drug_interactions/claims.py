"""The paper's claims about its answers, decided by the tests that `data/published/drug_interactions.yml` states."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.stats import kendalltau

from helpers.results import figures
from helpers.results.metrics import Paired, Score, bootstrap, paired_means
from helpers.results.record import Run
from helpers.results.verdicts import Tested, Verdict, above, all_of, below, better
from papers.drug_interactions.answering import ARMS, Arm
from papers.drug_interactions.judge import useful
from papers.drug_interactions.judge_report import error_rates, truth_of_ratings, worth_in_words
from papers.drug_interactions.medquad_report import compare_similarity
from papers.drug_interactions.qa_report import (
    BASELINES,
    COSINE,
    PAPER,
    PRINTED,
    Compared,
    Measured,
    compare_ratings,
    compare_sets,
    label,
)
from papers.drug_interactions.questions import Asked

SWAPPED = 2 / 3
"""Kendall's tau of two orders of the paper's four arms that differ in one pair of neighbours."""


def decide_claims(
    run: Run,
    measured: Sequence[Measured],
    known: Sequence[Asked],
    example: Paired,
    passage_tokens: int,
    alone: str,
    draws: int,
) -> None:
    """Decide the claims.

    Args:
        run: keeps them.
        measured: the larger model's answers, and the smaller one's if there are two, with the judge's ratings.
        known: the questions with known answers.
        example: first statements with one example against those without.
        passage_tokens: length of a passage of text RAG.
        alone: why one model answers, if it does.
        draws: of the tests and of the bootstrap.
    """
    of = measured[0]
    truth = truth_of_ratings(of, known)
    judge = worth_in_words(truth, error_rates(of, known, draws))
    _decide_baselines(run, of, judge, draws, judge_useful=useful(truth), passage_tokens=passage_tokens)
    _decide_on_sets(run, of, known, draws)
    _decide_judged(run, of, judge, draws, judge_useful=useful(truth))
    _decide_shorter(run, of, draws)
    _claim(
        run,
        "one_example_helps",
        better(example, example.p),
        f"Right at the first try with one example minus without, in points: {figures.points(example)}, "
        f"{figures.p_words(example.p)}, on {example.n} questions.",
        example.p,
    )
    _decide_larger(run, measured, alone, draws)
    _claim(
        run,
        "latency_like_agentic",
        "not run",
        "No question was timed from end to end: requests are sent several at once, so that the seconds kept of each "
        "hold its waiting for the others, and those of the agent's queries and of finding passages are not kept.",
    )


def _claim(run: Run, name: str, verdict: Verdict, why: str, p: float | None = None) -> None:
    run.claim(f"{PAPER}.claim.{name}", verdict, why, p=p)


# ---------------------------------------------------------------------------------------------- against the baselines


def _decide_baselines(
    run: Run, of: Measured, judge: str, draws: int, *, judge_useful: bool, passage_tokens: int
) -> None:
    near = [c for c in compare_similarity(of, draws) if c.measure == COSINE]
    rated = compare_ratings(of, draws) if judge_useful else []
    sets = compare_sets(of, draws)
    setting = (
        f"The questions with known answers are written from this graph, and a passage of text has {passage_tokens} "
        "tokens."
    )
    by_judge = _against(rated) if rated else f"By the judge's rating: not run, for {judge}."
    rest = "" if rated else " Decided on the cosine alone."
    _claim(
        run,
        "drugrag_beats_baselines",
        all_of([_ahead(near), *([_ahead(rated)] if rated else [])]),
        f"{by_judge} {_against(near)}{rest} {setting}",
        _largest([*rated, *near]),
    )
    _claim(run, "drugrag_nearest_to_references", _ahead(near), _against(near), _largest(near))
    _claim(run, "drugrag_beats_baselines_on_sets", _ahead(sets), f"{_against(sets)} {setting}", _largest(sets))


def _ahead(compared: Sequence[Compared]) -> Tested:
    """Whether DrugRAG is better than each baseline."""
    return all_of(better(c.test, c.adjusted) for c in compared)


def _largest(compared: Sequence[Compared]) -> float:
    return max(c.adjusted for c in compared)


def _against(compared: Sequence[Compared]) -> str:
    """The differences to each baseline by one measure, in a sentence that says the verdict of this measure."""
    told = "; ".join(f"{label(c.other)} {figures.points(c.test)}, {figures.p_words(c.adjusted)}" for c in compared)
    first = compared[0]
    return (
        f"{first.measure[0].upper()}{first.measure[1:]}, in points, DrugRAG minus: {told}, on {first.test.n} "
        f"questions: {_ahead(compared)}."
    )


def _decide_on_sets(run: Run, of: Measured, known: Sequence[Asked], draws: int) -> None:
    f1 = {arm: of.sets[arm].f1.to_numpy() for arm in ARMS}
    about = of.about[: len(known)]
    more = paired_means(f1["agentic"], f1["text"], clusters=about, draws=draws)
    graph = paired_means(f1["drugrag"], f1["agentic"], clusters=about, draws=draws)
    # how much further it is from agentic RAG to DrugRAG than from text RAG to agentic RAG
    further = bootstrap(f1["drugrag"] - 2 * f1["agentic"] + f1["text"], clusters=about, draws=draws)
    _claim(
        run,
        "agentic_adds_little",
        all_of([better(more, more.p), above(further, 0)]),
        f"F1 of the answer set, in points: agentic RAG minus text RAG {figures.points(more)}, "
        f"{figures.p_words(more.p)}; DrugRAG minus agentic RAG {figures.points(graph)}.",
        more.p,
    )
    hops = [i for i, q in enumerate(known) if q.form.kind == "two"]
    chained = paired_means(f1["drugrag"][hops], f1["text"][hops], clusters=[about[i] for i in hops], draws=draws)
    _claim(
        run,
        "multi_hop",
        better(chained, chained.p),
        f"F1 of the answer set on {len(hops)} two-hop questions, in points: DrugRAG minus text RAG "
        f"{figures.points(chained)}, {figures.p_words(chained.p)}; {chained.b} are better and {chained.c} worse.",
        chained.p,
    )


# ---------------------------------------------------------------------------------------------------- by the judge


def _decide_judged(run: Run, of: Measured, judge: str, draws: int, *, judge_useful: bool) -> None:
    if not judge_useful:
        for name in ("drugrag_varies_least", "judge_ranks_as_humans"):
            _claim(run, name, "not run", f"{judge[0].upper()}{judge[1:]}, so that its ratings decide nothing.")
        return
    apart = {arm: spread_difference(of.marks("drugrag"), of.marks(arm), of.about, draws) for arm in BASELINES}
    _claim(
        run,
        "drugrag_varies_least",
        all_of(below(score, 0) for score in apart.values()),
        "Standard deviation of the normalised rating, in points, DrugRAG minus: "
        + "; ".join(f"{label(arm)} {_points(score)}" for arm, score in apart.items())
        + f", on {len(of.about)} questions.",
    )
    marks = np.array([of.marks(arm, medquad=False) for arm in PRINTED])
    truth = np.array([of.sets[arm].f1 for arm in PRINTED])
    tau = rank_agreement(marks, truth, of.about[: marks.shape[1]], draws)
    _claim(
        run,
        "judge_ranks_as_humans",
        above(tau, SWAPPED),
        f"By the judge: {_order(marks)}. By the F1 of the answer sets: {_order(truth)}. Kendall's tau-b of the two: "
        f"{figures.score_text(tau, 'count', digits=2)}.",
    )


def _points(score: Score) -> str:
    value, low, high = (figures.signed(100 * x, 1) for x in (score.value, score.low, score.high))
    return f"{value} [{low}, {high}]"


def _order(values: np.ndarray) -> str:
    """The paper's arms by their means, the highest first."""
    means: dict[Arm, float] = dict(zip(PRINTED, values.mean(axis=1), strict=True))
    return ", ".join(f"{label(arm)} {means[arm]:.2f}" for arm in sorted(means, key=lambda arm: -means[arm]))


def spread_difference(a: np.ndarray, b: np.ndarray, clusters: Sequence[str], draws: int) -> Score:
    """Standard deviation of the first arm minus that of the second, with an interval over questions.

    Args:
        a: (n,) values of the first arm.
        b: (n,) values of the second arm, of the same questions.
        clusters: (n,) what each question is about.
        draws: of the bootstrap.
    """

    def apart(rows: np.ndarray) -> float:
        at = rows.astype(int)
        return float(a[at].std() - b[at].std())

    return bootstrap(np.arange(len(a)), apart, clusters=clusters, draws=draws)


def rank_agreement(a: np.ndarray, b: np.ndarray, clusters: Sequence[str], draws: int) -> Score:
    """Kendall's tau-b between the orders of k arms by two measures of n questions, with an interval over questions.

    Ties count as such; where a measure has all arms alike, it has no order, and tau is 0.

    Args:
        a: (k, n) by one measure.
        b: (k, n) by another.
        clusters: (n,) what each question is about.
        draws: of the bootstrap.
    """

    def tau(rows: np.ndarray) -> float:
        # sums of the same marks in another order differ in their last digits, and are ties
        means = [np.round(of[:, rows.astype(int)].mean(axis=1), 9) for of in (a, b)]
        return float(np.nan_to_num(kendalltau(*means).statistic))

    return bootstrap(np.arange(a.shape[1]), tau, clusters=clusters, draws=draws)


# ------------------------------------------------------------------------------------------------------- and the rest


def _decide_shorter(run: Run, of: Measured, draws: int) -> None:
    replies = zip(of.replies("drugrag"), of.replies("text"), of.about, strict=True)
    fit = [
        (a.prompt_tokens, b.prompt_tokens, about) for a, b, about in replies if "overflow" not in (a.status, b.status)
    ]
    if not fit:
        _claim(run, "smaller_prompt", "not run", "Of no question do both prompts fit into the context.")
        return
    facts, passages, about = zip(*fit, strict=True)
    test = paired_means(facts, passages, clusters=about, draws=draws)
    _claim(
        run,
        "smaller_prompt",
        below(test, 0),
        f"Tokens of the answer's prompt, with facts minus with five passages: {figures.difference(test, 0)}, on "
        f"{test.n} questions; {np.mean(facts):.0f} with facts on average.",
        test.p,
    )


def _decide_larger(run: Run, measured: Sequence[Measured], alone: str, draws: int) -> None:
    name = "larger_model_answers_better"
    if len(measured) < 2:
        _claim(run, name, "not run", f"One model answers, so that there are no two to compare. {alone}")
        return
    large, small = measured
    about = large.about[: len(large.known["drugrag"])]
    test = paired_means(large.sets["drugrag"].f1, small.sets["drugrag"].f1, clusters=about, draws=draws)
    _claim(
        run,
        name,
        better(test, test.p),
        f"F1 of DrugRAG's answer sets by {large.model} minus by {small.model}, in points: {figures.points(test)}, "
        f"{figures.p_words(test.p)}, on {test.n} questions.",
        test.p,
    )
