"""Rules of claims in `data/published/side_effects.yml` that compare more than arms: rows in, a Decision out."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import permutation_test, rankdata

from evaluation import decisions, figures
from evaluation.decisions import Decision, Part
from evaluation.metrics import Score, bootstrap, proportion, ratio
from evaluation.outcomes import Outcomes
from evaluation.paired import paired_means
from evaluation.published import Kind
from evaluation.record import Run
from papers.side_effects.corpus import Question
from papers.side_effects.data import LEAST, Knowledge, Sider, by_name, with_least
from papers.side_effects.forward import ARMS

FAST = 100
"""Orders of magnitude: text takes more than this many times as long as the graph (Abstract; Table 4)."""
LEAST_QUERIES = 6
"""With fewer no paired randomisation test can be significant at 5 %: 2 / 2**5 is 0.06."""


def model_difference_small(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401  # facts that other rules ask for
    """Whether the choice of arm matters more than that of model (Table 3; Discussion), with a bootstrap over drugs."""
    rows = outcomes.where(arm=ARMS).frame
    models = sorted(rows.model.unique())
    # the arms may have answered different numbers of questions
    of = rows.model.astype(str) + rows.arm.astype(str)
    rows = rows[of.groupby(rows.unit).transform("nunique") == len(models) * len(ARMS)]
    if len(models) < 2:
        return Decision("not run", "It needs the answers of two models.", reason="one model")
    right = (rows.predicted == "YES") == (rows.gold == "YES")
    hits = rows.assign(right=right).pivot_table("right", "cluster", ["model", "arm"], aggfunc="sum")
    # (models, arms, drugs), and the questions of each drug
    counts = np.array(
        [[hits[model, arm].to_numpy() for arm in ARMS] for model in models], dtype=float
    )
    asked = (
        rows[(rows.arm == ARMS[0]) & (rows.model == models[0])].groupby("cluster").size().to_numpy()
    )
    drawn = np.random.default_rng(0).multinomial(
        len(asked), np.full(len(asked), 1 / len(asked)), size=outcomes.draws
    )

    def margin(times: NDArray[np.int64]) -> NDArray[np.float64]:
        accuracy = (times @ counts.transpose(0, 2, 1)).transpose(1, 0, 2) / (times @ asked)[
            :, None, None
        ]
        between_arms = np.abs(np.diff(accuracy, axis=2)).min(axis=(1, 2))
        return np.asarray(between_arms - (accuracy.max(axis=1) - accuracy.min(axis=1)).max(axis=1))

    value = float(margin(np.ones((1, len(asked)), dtype=np.int64))[0])
    low, high = (float(x) for x in np.percentile(margin(drawn), [2.5, 97.5]))
    why = (
        f"Smallest difference between neighbouring arms minus largest difference between {' and '.join(models)}: "
        f"{figures.points_text(value, min(low, value), max(high, value))} points, n = {int(asked.sum()):,}."
    )
    return Decision(decisions.above(Score(value, int(asked.sum()), low, high), 0), why)


AGAINST_GRAPH = 0.8
"""The confidence that the authors' `graphrag.py` records for an answer that contradicts the graph."""
FEWEST_ERRORS = 5  # errors below which a run cannot tell where they come from


def _errors(outcomes: Outcomes) -> pd.DataFrame | Decision:
    """GraphRAG's wrong answers, or the decision that they are too few."""
    rows = outcomes.where(arm="graphrag").frame
    wrong = rows[(rows.predicted == "YES") != (rows.gold == "YES")]
    if len(wrong) >= FEWEST_ERRORS:
        return wrong
    why = f"GraphRAG has too few wrong answers ({len(wrong)}; at least {FEWEST_ERRORS} are needed)."
    units = math.ceil(FEWEST_ERRORS * len(rows) / len(wrong)) if len(wrong) else None
    return Decision("undecided", why, needed=units)


def residual_errors_not_retrieval(
    outcomes: Outcomes,
    *,
    recorded: Sequence[float] = (),
    **_: Any,  # noqa: ANN401
) -> Decision:
    """Whether the graph held the true fact for each error of GraphRAG (Results, forward queries).

    A rerun knows the fact that it put into the prompt. `recorded` are the confidences of the released errors.
    """
    wrong = _errors(outcomes)
    if isinstance(wrong, Decision):
        return wrong
    if (wrong.source == "released").all():
        held = sum(value == AGAINST_GRAPH for value in recorded)
        why = f"{held} of {len(wrong)} errors have the confidence of an answer against the graph ({AGAINST_GRAPH})."
    else:
        held = sum(
            of["handed"][0] == (gold == "YES")
            for of, gold in zip(wrong.measures, wrong.gold, strict=True)
        )
        why = f"In {held} of {len(wrong)} wrong answers the prompt stated the true fact."
    return Decision(decisions.exactly(held == len(wrong)), why)


def residual_errors_are_llm_mislabels(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether each error of GraphRAG is the model's (Results, forward queries): not retrieval's, and not the parser's.

    The released parser takes "yes" within a name for the answer; a rerun's takes whole words alone.
    """
    wrong = _errors(outcomes)
    if isinstance(wrong, Decision) or not (wrong.source == "released").all():
        return residual_errors_not_retrieval(outcomes)
    within = (wrong.predicted == "YES") & wrong.question.str.contains(r"\wyes|yes\w", case=False)
    if not within.any():
        return Decision(
            "agrees", f'None of {len(wrong)} errors is YES to an effect with "yes" in its name.'
        )
    same = outcomes.where(arm=["graphrag", "format_b"], unit=[*wrong.unit[within]]).frame
    others = same.drop(index=wrong.index[within])
    why = (
        f'{within.sum()} of {len(wrong)} errors are YES to an effect with "yes" in its name ("eyes"), which the '
        "released parser reads as YES wherever a reply repeats the name. The other answers about these pairs, by "
        f"GraphRAG and Format B, are NO in {(others.predicted == 'NO').sum()} of {len(others)}. The replies are not "
        "released."
    )
    return Decision("undecided", why)


def benchmark_is_balanced(_: Outcomes, *, benchmark: Sequence[Question], **__: Any) -> Decision:  # noqa: ANN401
    """Whether each drug has ten pairs of either label, and no pair occurs twice (Methods, "Evaluation subset")."""
    per_drug = pd.crosstab([q.drug for q in benchmark], [q.label for q in benchmark])
    holds = bool((per_drug == 10).all(axis=None)) and len(set(benchmark)) == len(benchmark)
    span = f"{per_drug.to_numpy().min()} to {per_drug.to_numpy().max()}"
    why = f"{len(benchmark):,} distinct pairs of {len(per_drug):,} drugs; rows for each drug and label: {span}."
    return Decision(decisions.exactly(holds), why)


def benchmark_labels_hold(
    _: Outcomes,
    *,
    benchmark: Sequence[Question],
    knowledge: Mapping[str, Sequence[str]],
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Whether the labels agree with the knowledge, terms with a comma included (Methods, "Evaluation subset")."""
    known = {(drug, effect) for drug, effects in knowledge.items() for effect in effects}
    unsupported = sum(q.label and (q.drug, q.side_effect) not in known for q in benchmark)
    contradicted = sum(not q.label and (q.drug, q.side_effect) in known for q in benchmark)
    why = f"{unsupported} positive pairs are not in their drug's document, {contradicted} negative pairs are."
    return Decision(decisions.exactly(not unsupported and not contradicted), why)


def lists_exceed_10000_characters(_: Outcomes, *, longest: int, **__: Any) -> Decision:  # noqa: ANN401
    """Whether the longest Format A document has more than 10,000 characters (Results, RAG framework)."""
    return Decision(
        decisions.exactly(longest > 10_000), f"The longest document has {longest:,} characters."
    )


def every_drug_with_ten_effects(
    _: Outcomes,
    *,
    sider: Sider | None,
    released: Knowledge,
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Whether each drug name with an ATC code in SIDER and ten preferred terms is in the benchmark (Methods)."""
    if sider is None:
        return Decision("not run", "SIDER is not part of the bundled sample.", reason="no answers")
    knowledge = by_name(sider.kept)
    enough = set(with_least(knowledge))
    out = enough - set(released)
    most = max((len(knowledge[name]) for name in out), default=0)
    why = (
        f"{len(enough):,} drugs have at least {LEAST} preferred terms and an ATC code; {len(out):,} are not in the "
        f"benchmark (with at most {most} terms); its own drugs have at least {min(map(len, released.values()))}."
    )
    return Decision(decisions.exactly(not out), why)


def times_as_long(outcomes: Outcomes, slow: str, fast: str) -> Score | None:
    """Mean latency of one arm as a multiple of another's, with a bootstrap over the queries that both answered."""
    series = [
        pd.Series(
            outcomes.values("latency", arm), index=outcomes.frame.unit[outcomes.frame.arm == arm]
        )
        for arm in (slow, fast)
    ]
    both = pd.concat(series, axis=1, join="inner")
    return (
        ratio(both[0], both[1], clusters=both.index.to_numpy(), draws=outcomes.draws)
        if len(both)
        else None
    )


def graph_returns_exact_sets(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether the graph returns every set exactly (Table 4); a language model that words its list is told as well."""
    exact = {
        arm: outcomes.values("exact", arm)
        for arm in ("graphrag", "graph_llm")
        if arm in outcomes.arms
    }
    if "graphrag" not in exact:
        return Decision("not run", "There are no answers of the graph.", reason="no answers")
    told = (
        f"{outcomes.label(arm)}: {(of == 1).sum()} of {len(of)} sets" for arm, of in exact.items()
    )
    holds = decisions.exactly(bool((exact["graphrag"] == 1).all()))
    return Decision(holds, f"Exact sets: {'; '.join(told)}. The queried graph is the truth.")


def graph_is_faster_than_text(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether Format B with its LLM takes more than 100 times as long as the graph without one (Table 4)."""
    score = times_as_long(outcomes, "format_b", "graphrag")
    if score is None:
        return Decision("not run", "No query was answered by both.", reason="no answers")
    times = f"{figures.score_text(score, 'count')} times as long on the same {score.n} queries"
    why = f"Format B with a language model takes {times} as the graph without one."
    return Decision(decisions.above(score, FAST), why)


def pairs_slow_with_set_size(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether Format B takes longer for larger sets (Results, reverse queries, second key finding).

    Spearman's rank correlation, p by permutation, with the interval of Bonett and Wright (2000).
    """
    relevant, seconds = (
        rankdata(outcomes.values(name, "format_b")) for name in ("relevant", "latency")
    )
    n = len(relevant)
    if n < 4 or not np.ptp(relevant) or not np.ptp(seconds):
        return Decision(
            "not run", f"{n} queries of Format B give no rank correlation.", reason="too few"
        )

    def correlation(x: NDArray[np.float64]) -> float:
        return float(np.corrcoef(x, seconds)[0, 1])

    test = permutation_test(
        (relevant,),
        correlation,
        permutation_type="pairings",
        n_resamples=outcomes.draws,
        rng=np.random.default_rng(0),
    )
    rho = float(test.statistic)
    half = 1.96 * np.sqrt((1 + rho**2 / 2) / (n - 3))
    z = np.arctanh(np.clip(rho, -1 + 1e-9, 1 - 1e-9))
    score = Score(rho, n, float(min(np.tanh(z - half), rho)), float(max(np.tanh(z + half), rho)))
    p = float(test.pvalue)
    found = f"{rho:.2f} [{score.low:.2f}, {score.high:.2f}], {figures.p_words(p)}, n = {n}".replace(
        "-", "\u2212"
    )
    why = f"Rank correlation of latency and number of relevant drugs: {found}."
    return Decision(decisions.better(score, p, worthwhile=0.1), why, p)


def lists_fail_by_window(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether, within a query, Format A returns drugs whose effect lies in the prompt's window more often than others.

    A query is one effect: letter and size are the same on both sides (Results, reverse queries, third key finding).
    """
    rows = outcomes.where(arm="format_a").frame
    sides: list[list[list[bool | None]]] = [
        [
            [i.predicted for i in items if i.gold and i.strata.get("window") == side]
            for side in ("inside", "beyond")
        ]
        for items in rows["items"]
    ]
    shown = [[bool(hit) for of in sides for hit in of[k]] for k in (0, 1)]
    told = " and ".join(
        f"{figures.number(sum(of) / len(of) if of else None)} of {len(of):,} relevant drugs {where} it"
        for of, where in zip(shown, ("within", "beyond"), strict=True)
    )
    both = [of for of in sides if all(of)]
    why = f"Returned, by whether the effect lies in the window: {told}; {len(both)} of {len(rows)} queries have both."
    if len(both) < LEAST_QUERIES:
        return Decision("not run", f"{why} A test needs {LEAST_QUERIES}.", reason="too few")
    within, beyond = (
        np.array([np.mean([bool(hit) for hit in of[k]]) for of in both]) for k in (0, 1)
    )
    test = paired_means(within, beyond, draws=outcomes.draws)
    why += f" Within minus beyond, mean of these: {figures.points(test)} points, {figures.p_words(test.p)}."
    return Decision(decisions.better(test, test.p), why, test.p)


def recovered(outcomes: Outcomes, arm: str, condition: str = "normalised") -> Score | None:
    """F1 of Table 5 under a condition as a share of F1 with names spelt right, with a bootstrap over drugs.

    None if F1 with the right names is 0. A share of 0 or 1 has Wilson's interval over the drugs.
    """
    parts = []
    for name in ("correct", condition):
        rows = outcomes.frame[outcomes.frame.arm == f"{name}.{arm}"]
        parts.append(
            pd.DataFrame([of["f1"] for of in rows.measures]).groupby(rows.cluster.to_numpy()).sum()
        )
    sums = np.hstack(parts)
    if not sums[:, 0].sum():
        return None

    def share(drawn: NDArray[np.float64]) -> float:
        top, bottom, other, below = sums[drawn.astype(np.int64)].sum(axis=0)
        return float(other / below / (top / bottom)) if top and below else 0.0

    score = bootstrap(np.arange(len(sums)), share, draws=outcomes.draws)
    if score.low == score.high and score.value in (0.0, 1.0):
        sure = proportion(round(score.value * len(sums)), len(sums))
        score = replace(score, low=sure.low, high=sure.high)
    # a draw in which the two conditions have different false positives can exceed 1
    return replace(
        score, n=int((outcomes.frame.arm == f"correct.{arm}").sum()), high=min(score.high, 1.0)
    )


def normalisation_recovers(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether correcting the name recovers more than half of F1, for Format B and for GraphRAG (Table 5)."""
    arms = ("format_b", "graphrag")
    if not {f"normalised.{arm}" for arm in arms} <= set(outcomes.arms):
        return Decision(
            "not run", "There are no answers with corrected names.", reason="no answers"
        )
    shares = {arm: recovered(outcomes, arm) for arm in arms}
    found = [share for share in shares.values() if share is not None]
    told = ", ".join(
        f"{figures.ARMS[arm][0]} {figures.score_text(share)}" for arm, share in shares.items()
    )
    why = f"Recovered share of F1, intervals over drugs: {told}."
    if len(found) < len(arms):
        return Decision("undecided", why)
    criterion = partial(decisions.above, bound=0.5)
    parts = [Part(share, criterion) for share in found]
    return decisions.decide_by_intervals(parts, (0.5,), why=why)


def report_shares(
    run: Run, outcomes: Outcomes, kind: Kind, *, model: str = "", source: str = ""
) -> None:
    """Report what the text derives from Table 5: the shares of F1 recovered, lost to misspelling, and lost in the end.

    `outcomes` has the rows of one run: this one's by `model`, or released ones of the registry's file `source`.
    """
    for arm in ("format_b", "graphrag"):
        ids = [
            f"side_effects.text.{name}.{arm}"
            for name in ("recovery", "degradation", "degradation_left")
        ]
        back, kept = recovered(outcomes, arm), recovered(outcomes, arm, "misspelt")
        if back is None or kept is None:
            for id in ids:
                run.not_run(
                    id, "F1 with names spelt right is 0, so there is nothing to recover.", kind=kind
                )
            continue
        lost, left = (Score(1 - of.value, of.n, 1 - of.high, 1 - of.low) for of in (kept, back))
        for id, score in zip(ids, (back, lost, left), strict=True):
            if kind == "rescored":
                run.rescored(id, score, source=source)
            else:
                run.rerun(id, score, model=model)
