"""Rules of claims in `data/published/side_effects.yml` that the grammar of rules cannot express.

Each takes the rows of a run, and facts that a notebook hands over, and returns a Decision.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import permutation_test, rankdata

from evaluation import decisions, figures
from evaluation.answers import Item
from evaluation.decisions import Decision, Part
from evaluation.metrics import Score, bootstrap, proportion, ratio, wilson
from evaluation.outcomes import Outcomes
from evaluation.paired import paired_means
from evaluation.published import Kind, Published
from evaluation.record import Run
from papers.side_effects.corpus import Question
from papers.side_effects.data import LEAST, Knowledge, Sider, by_name, with_least
from papers.side_effects.forward import ARMS
from papers.side_effects.reverse import TIERS, Query, tier_of

FAST = 100
"""Text takes more than this many times as long as the graph: orders of magnitude (Abstract)."""
MIN_QUERIES = 6
"""With fewer no paired randomisation test can be significant at 5 %: 2 / 2**5 is 0.06."""
MIN_CORRELATED_QUERIES = 4
"""With fewer a rank correlation has no interval."""
NORMAL_95 = 1.96
"""Half-width of a 95 % interval, in standard errors of a normal distribution."""


def model_difference_small(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401  # other rules' facts
    """Decide whether the choice of arm matters more than that of model (Table 3; Discussion).

    The smallest difference between neighbouring arms, minus the largest between models, with a
    bootstrap over drugs.
    """
    rows = outcomes.where(arm=ARMS).frame
    models = sorted(rows.model.unique())
    if len(models) < 2:
        return Decision("not tested", "It needs the answers of two models.", reason="one model")
    # the arms may have answered different numbers of questions
    answerer = rows.model.astype(str) + rows.arm.astype(str)
    n_answerers = answerer.groupby(rows.unit).transform("nunique")
    rows = rows[n_answerers == len(models) * len(ARMS)]
    hits, n_questions = _hits_per_drug(rows, models)

    def margin(times_drawn: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the margin of each draw; a draw says how often each drug is in it."""
        n_drawn = (times_drawn @ n_questions)[:, None, None]
        accuracy = (times_drawn @ hits.transpose(0, 2, 1)).transpose(1, 0, 2) / n_drawn
        between_arms = np.abs(np.diff(accuracy, axis=2)).min(axis=(1, 2))
        between_models = (accuracy.max(axis=1) - accuracy.min(axis=1)).max(axis=1)
        return np.asarray(between_arms - between_models)

    n_drugs = len(n_questions)
    equal_chances = np.full(n_drugs, 1 / n_drugs)
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(n_drugs, equal_chances, size=outcomes.draws)
    value = float(margin(np.ones((1, n_drugs), dtype=np.int64))[0])
    low, high = (float(bound) for bound in np.percentile(margin(drawn), [2.5, 97.5]))
    n = int(n_questions.sum())
    points = figures.points_text(value, min(low, value), max(high, value))
    why = (
        f"Smallest difference between neighbouring arms minus largest difference between "
        f"{' and '.join(models)}: {points} points, n = {n:,}."
    )
    return Decision(decisions.above(Score(value, n, low, high), 0), why)


def _hits_per_drug(
    rows: pd.DataFrame, models: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Count right answers, of shape (models, arms, drugs), and the questions of each drug."""
    is_right = (rows.predicted == "YES") == (rows.gold == "YES")
    rows = rows.assign(right=is_right)
    table = rows.pivot_table("right", "cluster", ["model", "arm"], aggfunc="sum")
    columns = [(model, arm) for model in models for arm in ARMS]
    hits = table[columns].to_numpy(dtype=float).T.reshape(len(models), len(ARMS), -1)
    of_one_answerer = rows[(rows.arm == ARMS[0]) & (rows.model == models[0])]
    n_questions = of_one_answerer.groupby("cluster").size().to_numpy()
    return hits, np.asarray(n_questions, dtype=np.int64)


NOT_THE_GRAPHS = 0.8
"""The confidence that the authors' `graphrag.py` records where the answer is not the graph's.

It is also recorded where the query of the graph failed, for then the graph's answer is ERROR.
"""
MIN_ERRORS = 5
"""With fewer errors a run cannot tell where they come from."""
WITH_RETRIEVAL = [arm for arm in ARMS if arm != "closed_book"]
"""The architectures whose prompts hold what was retrieved."""


def _graphrag_errors(outcomes: Outcomes) -> pd.DataFrame | Decision:
    """Return GraphRAG's wrong answers, or the decision that they are too few."""
    rows = outcomes.where(arm="graphrag").frame
    wrong = rows[(rows.predicted == "YES") != (rows.gold == "YES")]
    if len(wrong) >= MIN_ERRORS:
        return wrong
    why = f"GraphRAG has too few wrong answers ({len(wrong)}; at least {MIN_ERRORS} are needed)."
    units = math.ceil(MIN_ERRORS * len(rows) / len(wrong)) if len(wrong) else None
    return Decision("inconclusive", why, needed=units)


def residual_errors_not_retrieval(
    outcomes: Outcomes,
    *,
    recorded: Sequence[float] = (),
    **_: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the graph held the true fact for each error of GraphRAG (Results).

    Args:
        outcomes: Answers of GraphRAG. A rerun knows the fact that it put into the prompt.
        recorded: The confidences that the authors recorded with their released errors.
    """
    wrong = _graphrag_errors(outcomes)
    if isinstance(wrong, Decision):
        return wrong
    if (wrong.source == "released").all():
        return _released_errors_decision(recorded)
    found = wrong.measures.map(lambda measures: measures["handed"][0])
    n_held = int((found == (wrong.gold == "YES")).sum())
    why = f"In {n_held} of {len(wrong)} wrong answers the prompt stated the true fact."
    return Decision(decisions.exactly(n_held == len(wrong)), why)


def _released_errors_decision(recorded: Sequence[float]) -> Decision:
    """Decide from the recorded confidences: an error that is the graph's own answer refutes."""
    n_other = sum(confidence == NOT_THE_GRAPHS for confidence in recorded)
    if n_other < len(recorded):
        n_graphs = len(recorded) - n_other
        why = f"{n_graphs} of {len(recorded)} errors are the graph's own answer."
        return Decision("differs", why)
    why = (
        f"All {n_other} errors have the recorded confidence of {NOT_THE_GRAPHS}. The code records "
        "it where the model contradicts the graph, and also where the query of the graph failed; "
        "the prompts and replies are not released."
    )
    return Decision("inconclusive", why)


def residual_errors_are_llm_mislabels(
    outcomes: Outcomes,
    *,
    recorded: Sequence[float] = (),
    **_: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether each error of GraphRAG is the model's: not retrieval's, nor the parser's.

    The released parser takes "yes" within a name for the answer; a rerun's takes whole words alone.

    Args:
        outcomes: Answers of GraphRAG, and of text retrieval about the same pairs.
        recorded: The confidences that the authors recorded with their released errors.
    """
    wrong = _graphrag_errors(outcomes)
    if isinstance(wrong, Decision) or not (wrong.source == "released").all():
        return residual_errors_not_retrieval(outcomes)
    name_has_yes = wrong.question.str.contains(r"\wyes|yes\w", case=False)
    within = (wrong.predicted == "YES") & name_has_yes
    if not within.any():
        return _released_errors_decision(recorded)
    same_pairs = outcomes.where(arm=WITH_RETRIEVAL, unit=[*wrong.unit[within]]).frame
    others = same_pairs.drop(index=wrong.index[within])
    counts = [
        f"{outcomes.label(str(arm))} {(rows.predicted == 'YES').sum()} of {len(rows)}"
        for arm, rows in others.groupby("arm", sort=False)
    ]
    why = (
        f'{within.sum()} of {len(wrong)} errors are YES to an effect with "yes" in its name '
        '("eyes"), which the released parser reads as YES wherever a reply repeats the name. '
        f"YES in the other answers about these pairs: {', '.join(counts)}. "
        "The replies are not released."
    )
    return Decision("inconclusive", why)


def larger_models_also_struggle(
    _: Outcomes,
    *,
    printed: Published,
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the hosted models fall short of GraphRAG, by the printed numbers (Results).

    The drugs are the units of both intervals: no answers about a drug can make their mean less
    certain than one answer of YES or NO would.
    """
    hosted = [
        printed.number(f"side_effects.text.{name}").value for name in ("chatgpt_3_5", "chatgpt_4")
    ]
    with_graph = [
        printed.number(f"side_effects.{table}.graphrag.accuracy").value
        for table in ("table1", "table2")
    ]
    n_hosted = int(printed.number("side_effects.text.chatgpt_drugs").value)
    n_graph = int(printed.number("side_effects.text.drugs").value)
    best_hosted = _wilson_score(max(hosted), n_hosted)
    graph = _wilson_score(min(with_graph), n_graph)
    why = (
        f"Printed: closed book with a hosted model at most {figures.score_text(best_hosted)}, "
        f"{n_hosted} drugs; GraphRAG with a compact one at least {figures.score_text(graph)}, "
        f"{n_graph} drugs."
    )
    return Decision(decisions.below(best_hosted, graph.low), why)


def _wilson_score(share: float, n: int) -> Score:
    """Return a printed share with Wilson's interval over ``n`` units."""
    return Score(share, n, *wilson(share * n, n))


def benchmark_is_balanced(
    _: Outcomes,
    *,
    benchmark: Sequence[Question],
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether each drug has ten pairs of either label and no pair is double (Methods)."""
    drugs = [question.drug for question in benchmark]
    labels = [question.label for question in benchmark]
    per_drug = pd.crosstab(drugs, labels)
    counts = per_drug.to_numpy()
    has_ten = bool((counts == 10).all())
    is_distinct = len(set(benchmark)) == len(benchmark)
    why = (
        f"{len(benchmark):,} distinct pairs of {len(per_drug):,} drugs; rows for each drug and "
        f"label: {counts.min()} to {counts.max()}."
    )
    return Decision(decisions.exactly(has_ten and is_distinct), why)


def benchmark_labels_hold(
    _: Outcomes,
    *,
    benchmark: Sequence[Question],
    knowledge: Mapping[str, Sequence[str]],
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the labels agree with the knowledge, terms with a comma included (Methods)."""
    known = {(drug, effect) for drug, effects in knowledge.items() for effect in effects}
    positives = [question for question in benchmark if question.label]
    negatives = [question for question in benchmark if not question.label]
    unsupported = sum((q.drug, q.side_effect) not in known for q in positives)
    contradicted = sum((q.drug, q.side_effect) in known for q in negatives)
    why = (
        f"{unsupported} positive pairs are not in their drug's document, "
        f"{contradicted} negative pairs are."
    )
    return Decision(decisions.exactly(unsupported + contradicted == 0), why)


def lists_exceed_10000_characters(
    _: Outcomes,
    *,
    longest: int,
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the longest Format A document exceeds 10,000 characters (Results)."""
    why = f"The longest document has {longest:,} characters."
    return Decision(decisions.exactly(longest > 10_000), why)


def every_drug_with_ten_effects(
    _: Outcomes,
    *,
    sider: Sider | None,
    released: Knowledge,
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether each drug with an ATC code and ten terms in SIDER is in the benchmark."""
    if sider is None:
        return Decision(
            "not tested", "SIDER is not part of the bundled sample.", reason="no answers"
        )
    knowledge = by_name(sider.coded_terms)
    enough = set(with_least(knowledge))
    missing = enough - set(released)
    most_terms = max((len(knowledge[name]) for name in missing), default=0)
    fewest_terms = min(map(len, released.values()))
    why = (
        f"{len(enough):,} drugs have at least {LEAST} preferred terms and an ATC code; "
        f"{len(missing):,} are not in the benchmark (with at most {most_terms} terms); "
        f"its own drugs have at least {fewest_terms}."
    )
    return Decision(decisions.exactly(not missing), why)


def times_as_long(outcomes: Outcomes, slow: str, fast: str) -> Score | None:
    """Return the mean latency of one arm as a multiple of another's.

    Args:
        outcomes: Answers with the measure ``latency``.
        slow: The arm above the line of the ratio.
        fast: The arm below it.

    Returns:
        The ratio over the queries that both answered, with a bootstrap over queries; None if
        they share none.
    """
    slow_rows, fast_rows = _latency(outcomes, slow), _latency(outcomes, fast)
    both = slow_rows.join(fast_rows, how="inner", lsuffix="_slow", rsuffix="_fast")
    if both.empty:
        return None
    # the arm with fewer queries was drawn by tier; its weights restore the benchmark's tiers
    has_fewer = "slow" if len(slow_rows) < len(fast_rows) else "fast"
    weight = both[f"weight_{has_fewer}"]
    return ratio(
        weight * both.seconds_slow,
        weight * both.seconds_fast,
        clusters=both.index.to_numpy(),
        draws=outcomes.draws,
    )


def _latency(outcomes: Outcomes, arm: str) -> pd.DataFrame:
    """Return the seconds and the weight of each query of an arm."""
    rows = outcomes.frame[outcomes.frame.arm == arm]
    weighted = [measures["latency"] for measures in rows.measures]
    table = pd.DataFrame(weighted, columns=["seconds", "weight"], index=rows.unit)
    table["seconds"] /= table.weight
    return table


def reverse_queries_span_tiers(
    _: Outcomes,
    *,
    queries: Sequence[Query],
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the released queries span the four tiers, and none is outside (Results)."""
    n_drugs = [len(query.drugs) for query in queries]
    sizes = Counter(map(tier_of, n_drugs))
    outside = sizes.pop(None, 0)
    counts = ", ".join(f"{tier} {sizes[tier]}" for tier in TIERS)
    why = f"Queries by tier: {counts}; {outside} of {len(queries)} are in no tier."
    return Decision(decisions.exactly(not outside and len(sizes) == len(TIERS)), why)


def graph_is_faster_than_text(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether Format B with its LLM takes over 100 times as long as the graph (Table 4)."""
    score = times_as_long(outcomes, "format_b", "graphrag")
    if score is None:
        return Decision("not tested", "No query was answered by both.", reason="no answers")
    times = f"{figures.score_text(score, 'count')} times as long on the same {score.n} queries"
    why = f"Format B with a language model takes {times} as the graph without one."
    return Decision(decisions.above(score, FAST), why)


def pairs_slow_with_set_size(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether Format B takes longer for larger sets (Results, second key finding).

    Spearman's rank correlation, p by permutation, with the interval of Bonett and Wright (2000).
    """
    relevant = rankdata(outcomes.values("relevant", "format_b"))
    seconds = rankdata(outcomes.values("latency", "format_b"))
    n = len(relevant)
    if n < MIN_CORRELATED_QUERIES or not np.ptp(relevant) or not np.ptp(seconds):
        why = f"{n} queries of Format B give no rank correlation."
        return Decision("not tested", why, reason="too few")

    def correlation(ranks: NDArray[np.float64]) -> float:
        return float(np.corrcoef(ranks, seconds)[0, 1])

    test = permutation_test(
        (relevant,),
        correlation,
        permutation_type="pairings",
        n_resamples=outcomes.draws,
        rng=np.random.default_rng(0),
    )
    score = _correlation_score(float(test.statistic), n)
    p = float(test.pvalue)
    interval = f"{score.value:.2f} [{score.low:.2f}, {score.high:.2f}]"
    found = f"{interval}, {figures.p_words(p)}, n = {n}".replace("-", "\u2212")
    why = f"Rank correlation of latency and number of relevant drugs: {found}."
    return Decision(decisions.better(score, p), why, p)


def _correlation_score(rho: float, n: int) -> Score:
    """Return a rank correlation with its 95 % interval (Bonett and Wright 2000)."""
    half_width = NORMAL_95 * np.sqrt((1 + rho**2 / 2) / (n - 3))
    z = np.arctanh(np.clip(rho, -1 + 1e-9, 1 - 1e-9))
    low = float(np.tanh(z - half_width))
    high = float(np.tanh(z + half_width))
    return Score(rho, n, min(low, rho), max(high, rho))


@dataclass(frozen=True)
class _WindowHits:
    """Whether Format A returned the relevant drugs of one query.

    Attributes:
        within: One value for each drug whose effect lies in the prompt's window.
        beyond: One value for each other relevant drug.
    """

    within: list[bool]
    beyond: list[bool]

    @property
    def has_both(self) -> bool:
        """Whether there are drugs on both sides."""
        return bool(self.within and self.beyond)

    @classmethod
    def of_items(cls, items: Sequence[Item]) -> "_WindowHits":
        """Read the relevant items of a query."""
        sides: dict[str, list[bool]] = {"inside": [], "beyond": []}
        for item in items:
            side = item.strata.get("window")
            if item.gold and side in sides:
                sides[side].append(bool(item.predicted))
        return cls(sides["inside"], sides["beyond"])


def lists_fail_by_window(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether Format A returns drugs whose effect lies in the window more often than others.

    A query is one effect: letter and size are the same on both sides (Results, third key finding).
    """
    rows = outcomes.where(arm="format_a").frame
    queries = [_WindowHits.of_items(items) for items in rows["items"]]
    within = list(chain.from_iterable(query.within for query in queries))
    beyond = list(chain.from_iterable(query.beyond for query in queries))
    both = [query for query in queries if query.has_both]
    why = (
        f"Returned, by whether the effect lies in the window: {_share_in_words(within, 'within')} "
        f"and {_share_in_words(beyond, 'beyond')}; {len(both)} of {len(rows)} queries have both."
    )
    if len(both) < MIN_QUERIES:
        return Decision("not tested", f"{why} A test needs {MIN_QUERIES}.", reason="too few")
    share_within = np.array([np.mean(query.within) for query in both])
    share_beyond = np.array([np.mean(query.beyond) for query in both])
    test = paired_means(share_within, share_beyond, draws=outcomes.draws)
    points = figures.points(test)
    why += f" Within minus beyond, mean of these: {points} points, {figures.p_words(test.p)}."
    return Decision(decisions.better(test, test.p), why, test.p)


def _share_in_words(hits: Sequence[bool], where: str) -> str:
    share = sum(hits) / len(hits) if hits else None
    return f"{figures.number(share)} of {len(hits):,} relevant drugs {where} it"


def recovered(outcomes: Outcomes, arm: str, condition: str = "normalised") -> Score | None:
    """Return F1 of Table 5 under a condition as a share of F1 with names spelt right.

    Args:
        outcomes: Rows whose arms are named ``<condition>.<arm>``.
        arm: The arm, for example ``format_b``.
        condition: The condition whose F1 is compared with that of ``correct``.

    Returns:
        The share with a bootstrap over drugs; a share of 0 or 1 has Wilson's interval over the
        drugs. None if F1 with the right names is 0.
    """
    sums = np.hstack([_f1_sums(outcomes, f"{name}.{arm}") for name in ("correct", condition)])
    n_drugs = len(sums)
    if not sums[:, 0].sum():
        return None

    def share(drawn: NDArray[np.float64]) -> float:
        """Return the share over the drawn drugs; 0 where F1 with the right names is 0."""
        right_top, right_bottom, top, bottom = sums[drawn.astype(np.int64)].sum(axis=0)
        if not right_top or not bottom:
            return 0.0
        return float(top / bottom / (right_top / right_bottom))

    score = bootstrap(np.arange(n_drugs), share, draws=outcomes.draws)
    if score.low == score.high and score.value in (0.0, 1.0):
        wilson = proportion(round(score.value * n_drugs), n_drugs)
        score = replace(score, low=wilson.low, high=wilson.high)
    n = int((outcomes.frame.arm == f"correct.{arm}").sum())
    # a draw in which the two conditions have different false positives can exceed 1
    return replace(score, n=n, high=min(score.high, 1.0))


def _f1_sums(outcomes: Outcomes, arm: str) -> NDArray[np.float64]:
    """Sum numerator and denominator of F1 by drug; the shape is (drugs, 2)."""
    rows = outcomes.frame[outcomes.frame.arm == arm]
    parts = pd.DataFrame([measures["f1"] for measures in rows.measures])
    return parts.groupby(rows.cluster.to_numpy()).sum().to_numpy()


def normalisation_recovers(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether a corrected name recovers over half of F1 (Table 5)."""
    arms = ("format_b", "graphrag")
    if not {f"normalised.{arm}" for arm in arms} <= set(outcomes.arms):
        why = "There are no answers with corrected names."
        return Decision("not tested", why, reason="no answers")
    shares = {arm: recovered(outcomes, arm) for arm in arms}
    found = [share for share in shares.values() if share is not None]
    words = [f"{figures.ARMS[arm][0]} {figures.score_text(share)}" for arm, share in shares.items()]
    why = f"Recovered share of F1, intervals over drugs: {', '.join(words)}."
    if len(found) < len(arms):
        return Decision("inconclusive", why)
    criterion = partial(decisions.above, bound=0.5)
    parts = [Part(share, criterion) for share in found]
    return decisions.decide_by_intervals(parts, (0.5,), why=why)


def report_shares(
    run: Run, outcomes: Outcomes, kind: Kind, *, model: str = "", source: str = ""
) -> None:
    """Report the shares of F1 that the text derives from Table 5: recovered, lost, lost in the end.

    Args:
        run: The run to report to.
        outcomes: Rows of one run: this one's, or released ones.
        kind: ``rerun`` or ``rescored``.
        model: The model that answered a rerun.
        source: The registry's file of released rows.
    """
    for arm in ("format_b", "graphrag"):
        recovery_id, loss_id, final_loss_id = (
            f"side_effects.text.{name}.{arm}"
            for name in ("recovery", "degradation", "degradation_left")
        )
        recovery = recovered(outcomes, arm)
        misspelt = recovered(outcomes, arm, "misspelt")
        if recovery is None or misspelt is None:
            why = "F1 with names spelt right is 0, so there is nothing to recover."
            for number_id in (recovery_id, loss_id, final_loss_id):
                run.not_run(number_id, why, kind=kind)
            continue
        scores = {
            recovery_id: recovery,
            loss_id: _complement(misspelt),
            final_loss_id: _complement(recovery),
        }
        for number_id, score in scores.items():
            if kind == "rescored":
                run.rescored(number_id, score, source=source)
            else:
                run.rerun(number_id, score, model=model)


def _complement(share: Score) -> Score:
    """Return one minus a share, with its interval."""
    return Score(1 - share.value, share.n, 1 - share.high, 1 - share.low)
