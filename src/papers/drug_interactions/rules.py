"""Rules of claims in `data/published/drug_interactions.yml` that compare more than arms: rows in, a Decision out."""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import kendalltau

from evaluation import decisions, figures
from evaluation.decisions import Decision, Part
from evaluation.metrics import Score, bootstrap
from evaluation.outcomes import Outcomes
from evaluation.published import Published, Rule
from evaluation.rules import evaluate
from papers.drug_interactions.qa import BASELINES, PASS, useful

SWAPPED = 2 / 3
"""Kendall's tau of two orders of the paper's four arms that differ in one pair of neighbours."""
PAPERS = (*BASELINES, "drugrag")
JUDGE = "GPT-4.1"  # the judge of the paper's ratings (Setup, metrics)
Floats = NDArray[np.float64]


def _ahead(measure: str, *tasks: str) -> Rule:
    return Rule(better=("drugrag",), than=BASELINES, measure=measure, where={"task": tasks})


def worth(outcomes: Outcomes, truth: Score | None) -> str:
    """What the judge can be used for, in half a sentence."""
    if truth is None:
        return "whether the judge tells right from wrong is unknown, as the answers are all right or all wrong"
    can = "tells" if useful(truth) else "does not tell"
    missed, passed = (
        figures.score_text(outcomes.where(task="judge").score(m)) for m in ("missed", "passed")
    )
    return (
        f"the judge {can} right from wrong in {truth.n} answers with a known truth (AUC "
        f"{figures.score_text(truth, 'ratio')}, where 0.5 is chance; it marks {missed} of the right answers below "
        f"{PASS} of 5, and {passed} of the wrong ones {PASS} or 5)"
    )


def _at_chance(outcomes: Outcomes, truth: Score | None) -> Decision:
    return Decision(
        "not run", f"Its ratings are not used: {worth(outcomes, truth)}.", reason="judge at chance"
    )


def beats_baselines(outcomes: Outcomes, *, truth: Score | None, **_: Any) -> Decision:  # noqa: ANN401  # facts of other rules
    """Whether DrugRAG leads by the cosine and by the paper's judge, if above chance (Table II; Results)."""
    cosine = _ahead("cosine", "medquad")
    if useful(truth) and not _other_judges(outcomes):
        both = Rule(all_of=(_ahead("rating", "known", "medquad"), cosine))
        return evaluate(both, outcomes, "rerun", paper="drug_interactions")
    found = evaluate(cosine, outcomes, "rerun", paper="drug_interactions")
    judges = f"the judge is {figures.listed(_other_judges(outcomes))}, the paper's is {JUDGE}"
    unused = judges if useful(truth) else worth(outcomes, truth)
    why = f"By the cosine alone: {found.why} The rating is not used: {unused}."
    return Decision(found.verdict, why, found.p, found.reason, found.needed)


def _other_judges(outcomes: Outcomes) -> list[str]:
    """The models that judged and are not the paper's judge."""
    return [
        name
        for name in outcomes.where(task="judge").frame.model.unique()
        if JUDGE.lower() not in name.lower()
    ]


def agentic_adds_little(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether agentic RAG gains on text RAG, and DrugRAG gains more on agentic RAG than that (Results)."""
    known = outcomes.where(task="known")
    more, graph = known.compare([("agentic", "text"), ("drugrag", "agentic")], "f1")
    of = [known.values("f1", arm) for arm in ("drugrag", "agentic", "text")]
    further = bootstrap(of[0] - 2 * of[1] + of[2], clusters=_clusters(known), draws=outcomes.draws)
    # the second test is no part of the rule: the first p needs no adjustment
    p = more.test.p
    why = (
        f"F1 of the answer set: agentic RAG minus text RAG {figures.points(more.test)} points, {figures.p_words(p)}; "
        f"DrugRAG minus agentic RAG {figures.points(graph.test)} points, n = {more.test.n}."
    )
    gains = [
        Part(more.test, partial(decisions.better, p=p)),
        Part(further, partial(decisions.above, bound=0)),
    ]
    return decisions.decide_by_intervals(gains, (0.0,), why=why, p=p)


def smaller_prompt(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether prompts with facts have fewer tokens than those with five passages (Discussion, speed)."""
    rows = outcomes.where(task=["known", "medquad"])
    if not {"drugrag", "text"} <= rows.arms_with("prompt_tokens"):
        return Decision(
            "not run", "No question has both prompts within the context.", reason="no answers"
        )
    (found,) = rows.compare([("drugrag", "text")], "prompt_tokens")
    test = found.test
    value, low, high = (figures.signed(of, 0) for of in (test.value, test.low, test.high))
    why = (
        f"Tokens of the answer's prompt, facts minus five passages: {value} [{low}, {high}], n = {test.n}; "
        f"mean with facts: {found.scores[0].value:.0f}."
    )
    return Decision(decisions.below(test, 0), why, test.p)


def larger_answers_better(
    outcomes: Outcomes,
    *,
    models: Sequence[str],
    alone: str,
    **_: Any,  # noqa: ANN401
) -> Decision:
    """Whether the larger of two models, the first, answers better from the same facts (Abstract; System)."""
    if len(models) < 2:
        return Decision("not run", f"One model answers. {alone}", reason="one model")
    large, small = models
    sizes = [parameters(name) for name in models]
    if None in sizes or (sizes[0] or 0) <= (sizes[1] or 0):
        why = f"{large} is not larger than {small} by the billions of parameters in their names."
        return Decision("not run", why, reason="stand-in")
    frame = outcomes.where(task="known", arm="drugrag", model=list(models)).frame
    (found,) = Outcomes(frame.assign(arm=frame.model), draws=outcomes.draws).compare(
        [(large, small)], "f1"
    )
    test = found.test
    why = f"F1 of DrugRAG's answer sets, {large} minus {small}: {figures.points(test)} points, n = {test.n}."
    return Decision(
        decisions.better(test, test.p), f"{why[:-1]}, {figures.p_words(test.p)}.", test.p
    )


def parameters(model: str) -> float | None:
    """Billions of parameters in the name of a model, such as 1.5 in `Qwen2.5-1.5B`; None if it has none."""
    named = re.search(r"(?<![\d.])(\d+(?:\.\d+)?)b(?![a-z])", model, re.IGNORECASE)
    return float(named[1]) if named else None


def varies_least(outcomes: Outcomes, *, truth: Score | None, **_: Any) -> Decision:  # noqa: ANN401
    """Whether the standard deviation of DrugRAG's ratings is below that of each baseline (Results, consistency)."""
    if not useful(truth):
        return _at_chance(outcomes, truth)
    rows = outcomes.where(task=["known", "medquad"])
    mine, clusters = rows.values("rating", "drugrag"), _clusters(rows)
    apart = {
        arm: _spread_difference(mine, rows.values("rating", arm), clusters, outcomes.draws)
        for arm in BASELINES
    }
    told = "; ".join(
        f"{rows.label(a)} {figures.points_text(s.value, s.low, s.high)}" for a, s in apart.items()
    )
    why = f"Standard deviation of the rating in points, DrugRAG minus: {told}, n = {len(mine)}."
    criterion = partial(decisions.below, bound=0)
    parts = [Part(score, criterion) for score in apart.values()]
    decision = decisions.decide_by_intervals(parts, (0.0,), why=why)
    return decisions.require_own_models(decision, f"ratings by {JUDGE}", _other_judges(outcomes))


def judge_ranks(outcomes: Outcomes, *, truth: Score | None, **_: Any) -> Decision:  # noqa: ANN401
    """Whether the judge orders the paper's four arms as the F1 of the answer sets does (Setup, metrics)."""
    if not useful(truth):
        return _at_chance(outcomes, truth)
    known = outcomes.where(task="known")
    marks, f1 = (np.array([known.values(m, arm) for arm in PAPERS]) for m in ("rating", "f1"))
    tau = _rank_agreement(marks, f1, _clusters(known), outcomes.draws)
    orders = (
        ", ".join(known.label(PAPERS[i]) for i in np.argsort(-of.mean(axis=1), kind="stable"))
        for of in (marks, f1)
    )
    why = "By the judge: {}. By F1: {}. Kendall's tau-b: {}.".format(
        *orders, figures.score_text(tau, "ratio")
    )
    return Decision(decisions.above(tau, SWAPPED), why)


def _clusters(rows: Outcomes) -> list[str]:
    return list(rows.frame[rows.frame.arm == "drugrag"].cluster)


def _spread_difference(a: Floats, b: Floats, clusters: Sequence[str], draws: int) -> Score:
    """Standard deviation of (n,) values `a` minus that of `b`."""

    def apart(rows: Floats) -> float:
        at = rows.astype(int)
        return float(a[at].std() - b[at].std())

    return bootstrap(np.arange(len(a)), apart, clusters=clusters, draws=draws)


def _rank_agreement(a: Floats, b: Floats, clusters: Sequence[str], draws: int) -> Score:
    """Kendall's tau-b between the orders of k arms by two (k, n) measures; 0 where one has all arms alike."""

    def tau(rows: Floats) -> float:
        # sums of the same marks in another order differ in their last digits, and are ties
        means = [np.round(of[:, rows.astype(int)].mean(axis=1), 9) for of in (a, b)]
        return float(np.nan_to_num(kendalltau(*means).statistic))

    return bootstrap(np.arange(a.shape[1]), tau, clusters=clusters, draws=draws)


def gain_over_no_retrieval(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Whether Table II as printed holds the gain over no retrieval that the abstract states."""
    return _gain(printed, "gain_no_retrieval")


def gain_over_text(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """The same of both text baselines; the abstract speaks of them in the plural."""
    return _gain(printed, "gain_rag_text")


def readings(best: float, base: float) -> tuple[float, float, float]:
    """A gain in Table II in points, relative to the baseline, and relative to its rating from 1 to 5.

    Table II is normalised from ratings of 1 to 5 (Setup), so that x stands for a rating of 1 + 4x.
    """
    return best - base, best / base - 1, 4 * (best - base) / (1 + 4 * base)


GAINS = {"gain_no_retrieval": ("no_retrieval",), "gain_rag_text": ("rag_text", "graphrag")}
"""The gains that the abstract states, and the baselines in Table II."""


def _gain(printed: Published, number: str) -> Decision:
    """Whether the large model's gains lie within 2.5 points of the stated one; undecided if the two need two scales.

    The abstract does not say of which scale its gains are.
    """
    best, told = printed.number("drug_interactions.table2.drugrag.llama_70b"), []
    scales: dict[str, set[int]] = {}
    for name, arms in GAINS.items():
        stated = printed.number(f"drug_interactions.text.{name}").value
        bases = [printed.number(f"drug_interactions.table2.{arm}.llama_70b") for arm in arms]
        gains = [readings(best.value, base.value) for base in bases]
        away = [max(abs(gain - stated) for gain in of) for of in zip(*gains, strict=True)]
        scales[name] = {scale for scale, distance in enumerate(away) if distance <= 0.025 + 1e-9}
        if name == number:
            told = [
                f"{100 * points:.1f} points or {100 * relative:.1f} % more than {base.row} ({base.printed}), "
                f"{100 * rated:.1f} % by the rating of 1 to 5"
                for base, (points, relative, rated) in zip(bases, gains, strict=True)
            ]
            told.append(f"the paper says about {100 * stated:.0f} %")
    why = f"DrugRAG's score is {best.printed}: {'; '.join(told)}."
    if scales[number] and not set.intersection(*scales.values()):
        return Decision("undecided", f"{why} The two stated gains hold on different scales.")
    return Decision(decisions.exactly(bool(scales[number])), why)
