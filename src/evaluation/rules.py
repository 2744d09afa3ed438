"""Decide the claims of a paper by the rules declared in `data/published`.

The tests of a rule form one family for the correction of p-values. The family consists
of the arms that the rule names, so an arm added elsewhere cannot change a verdict.
"""

import importlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from types import ModuleType
from typing import Any, Final

from evaluation import decisions, figures
from evaluation.answers import NotRunError
from evaluation.decisions import Decision, Part
from evaluation.measures import measure_label, unit
from evaluation.metrics import Score
from evaluation.outcomes import PAIRING_COLUMNS, Comparison, Outcomes
from evaluation.published import ON_PAR, WORTHWHILE, Basis, Claim, Rule
from evaluation.record import Run
from evaluation.records import Untested
from evaluation.verdicts import findings

FORCED_TIE_SHARE: Final = 0.98
"""Arms that got the same evidence for this share of units cannot but tie."""

SOURCES: Mapping[Basis, str] = {
    "printed": "printed",
    "rescored": "released",
    "rerun": "rerun",
}
"""The value of the column ``source`` in the rows that each basis uses."""


def decide(run: Run, outcomes: Outcomes, *claims: str, **facts: Any) -> figures.Html:  # noqa: ANN401
    """Decide claims of the run's paper, report them to the run and list them.

    Args:
        run: The run to report to. Its paper declares the claims.
        outcomes: The answers of all sources.
        *claims: Names of the claims, without the paper's name and "claim".
        **facts: Arguments of the functions that rules name; see `evaluate`.

    Returns:
        The list of verdicts.

    Raises:
        ValueError: If a claim declares no rule.
    """
    declared = [run.printed.claim(f"{run.paper}.claim.{name}") for name in claims]
    for claim in declared:
        _decide_claim(run, outcomes, claim, facts)
    return findings(declared, run.claims, sample=run.sample)


def _decide_claim(run: Run, outcomes: Outcomes, claim: Claim, facts: Mapping[str, Any]) -> None:
    if claim.why_not:
        reason: Untested = "not public" if claim.test else "undefined"
        run.claim(claim.id, "cannot be run", claim.why_not, reason=reason)
        return
    if claim.unasked:
        run.claim(claim.id, "not run", claim.unasked, reason="no answers")
        return
    rule = claim.rule
    if rule is None:
        raise ValueError(f"{claim.id} declares no rule. Add one in data/published/{run.paper}.yml.")
    for kind in rule.bases:
        decision = evaluate(rule, outcomes, kind, paper=run.paper, facts=facts)
        why = decision.why
        if decision.needed:
            why += f" A verdict would need about {decision.needed:,} units."
        run.claim(
            claim.id,
            decision.verdict,
            why,
            test=rule.words(outcomes.label),
            kind=kind,
            p=decision.p,
            reason=decision.reason,
            needed=decision.needed,
        )


def evaluate(
    rule: Rule,
    outcomes: Outcomes,
    kind: Basis,
    *,
    paper: str,
    facts: Mapping[str, Any] | None = None,
) -> Decision:
    """Apply a rule to the rows of one source.

    Args:
        rule: What must hold, from the claim's entry in `data/published`.
        outcomes: The answers of all sources.
        kind: What to decide by: printed numbers, released answers or this run's
            answers.
        paper: Name of the paper, whose module ``rules`` has the functions of its rules.
        facts: Arguments of these functions, and the names of models: ``served``, those
            that served this run, and ``scored_by``, those that scored released answers.

    Returns:
        The decision. It is "not run" if a model answered that the claim is not about,
        and "cannot be run" if released or printed data leave the claim open.
    """
    context = _Context(kind, paper, facts or {})
    rows = outcomes.where(source=SOURCES[kind])
    try:
        decision = _evaluate_rows(rule, rows, context, n_parts=1)
    except NotRunError as error:
        return Decision("not run", str(error), reason="no answers")
    if rule.scope:
        others = _models_outside_scope(rule, outcomes, context)
        about = f"{_scope_in_words(rule)} models"
        decision = decisions.require_own_models(decision, about, others)
    if kind == "rerun" or decision.verdict != "undecided":
        return decision
    data = "released answers" if kind == "rescored" else "printed numbers"
    return replace(
        decision,
        verdict="cannot be run",
        why=f"{decision.why} The {data} are inconclusive.",
        reason="left open",
    )


def paper_rules(paper: str) -> ModuleType:
    """The module ``rules`` of a paper, which has the functions that its rules name."""
    return importlib.import_module(f"papers.{paper}.rules")


@dataclass(frozen=True)
class _Context:
    """What a rule is evaluated with, besides the rows; see `evaluate`."""

    kind: Basis
    paper: str
    facts: Mapping[str, Any]


def _models_outside_scope(rule: Rule, outcomes: Outcomes, context: _Context) -> list[str]:
    """Names of the models that were used and that the claim is not about.

    A rerun must also cover the whole scope: if one of its models is missing, all models
    of the run are returned.
    """
    models = _models_used(rule, outcomes, context)
    served = context.facts.get("served")
    if context.kind == "rerun" and served:
        served_names = " ".join(served).lower()
        if not all(name.lower() in served_names for name in rule.scope):
            return models
    named = [model for model in models if model]
    return [model for model in named if not decisions.is_model_of(model, rule.scope)]


def _models_used(rule: Rule, outcomes: Outcomes, context: _Context) -> list[str]:
    """Names of the models that answered, or that scored released answers."""
    if context.kind != "rerun":
        return list(dict.fromkeys(context.facts.get("scored_by", ())))
    served = context.facts.get("served")
    if served:
        return list(dict.fromkeys(served))
    rows = outcomes.where(source="rerun")
    if rule.arms:
        rows = rows.where(arm=rule.arms)
    return list(dict.fromkeys(rows.frame.model))


def _scope_in_words(rule: Rule) -> str:
    """The models that a claim is about; spellings such as GPT-4 and gpt4 count once."""
    spellings = {re.sub(r"\W", "", name.lower()): name for name in rule.scope}
    return figures.listed(list(spellings.values()))


def _evaluate_rows(rule: Rule, rows: Outcomes, context: _Context, n_parts: int) -> Decision:
    """Apply a rule, or each of its parts, to the rows of one source.

    Args:
        rule: What must hold. A rule with ``all_of`` has parts.
        rows: The rows of the source.
        context: What else the rule is evaluated with.
        n_parts: Number of parts of the claim of which this rule is one.
    """
    if rule.function:
        function = getattr(paper_rules(context.paper), rule.function)
        decision: Decision = function(rows, **context.facts)
        return decision
    if rule.all_of:
        n_parts *= len(rule.all_of)
        return decisions.join(
            [_evaluate_rows(part, rows, context, n_parts) for part in rule.all_of]
        )
    rows = rows.where(**rule.where)
    answered = rows.arms_with(rule.measure)
    missing = [arm for arm in rule.arms if arm not in answered]
    if missing:
        return _no_answers(rows, missing, rule.measure, context.kind)
    rows = rows.where(arm=rule.arms)
    if rule.than:
        return _decide_comparison(rule, rows, n_parts)
    return _decide_bound(rule, rows, n_parts)


def _no_answers(rows: Outcomes, missing: Sequence[str], measure: str, kind: Basis) -> Decision:
    answers = "answers are released" if kind == "rescored" else "answers in this run"
    labels = ", ".join(rows.label(arm) for arm in missing)
    reasons = dict.fromkeys(rows.why_not_run(arm) for arm in missing)
    why = f"{labels}: no {answers}, so the {measure_label(measure)} is unknown."
    return Decision("not run", " ".join([why, *reasons]).strip(), reason="no answers")


def _decide_comparison(rule: Rule, rows: Outcomes, n_parts: int) -> Decision:
    """Decide a rule with `better` or `on_par` by paired tests."""
    pairs = product(rule.first, rule.than)
    comparisons = rows.compare(pairs, rule.measure, within=rule.each)
    described = [_describe_comparison(c, rows, rule.measure) for c in comparisons]
    why = f"{'; '.join(described)}."
    p = max(comparison.p for comparison in comparisons)

    if rule.tie:
        same_evidence = _share_of_same_evidence(rule.tie, rows)
        if same_evidence >= FORCED_TIE_SHARE:
            return _forced_tie(same_evidence, why, p)

    n_clusters = _smallest_cluster_count(_group(rows, rule.each).values())
    n_tests = len(comparisons) if rule.better else 1
    if not decisions.enough_clusters(n_clusters, n_tests):
        return decisions.too_few_clusters(n_clusters, why)

    parts = [_part_of_comparison(rule, comparison) for comparison in comparisons]
    bounds = (0.0, WORTHWHILE) if rule.better else (-ON_PAR,)
    return decisions.decide_by_intervals(parts, bounds, why=why, p=p, n_parts=n_parts)


def _part_of_comparison(rule: Rule, comparison: Comparison) -> Part:
    if rule.better:
        return Part(comparison.test, partial(decisions.better, p=comparison.p))
    return Part(comparison.test, decisions.on_par)


def _decide_bound(rule: Rule, rows: Outcomes, n_parts: int) -> Decision:
    """Decide a rule with `above`, `below` or `exactly` by scores."""
    groups = _group(rows, rule.each)
    scores = [group.score(rule.measure, rule.arm) for group in groups.values()]
    described = [
        _describe_score(rule, rows, name, score) for name, score in zip(groups, scores, strict=True)
    ]
    why = f"{'; '.join(described)}."
    bound = rule.bound or 0.0
    if rule.exactly:
        holds = all(score.value == bound for score in scores)
        return Decision(decisions.exactly(holds), why)
    n_clusters = _smallest_cluster_count(groups.values())
    if not decisions.enough_clusters(n_clusters):
        return decisions.too_few_clusters(n_clusters, why)
    criterion = partial(decisions.above if rule.above else decisions.below, bound=bound)
    parts = [Part(score, criterion) for score in scores]
    return decisions.decide_by_intervals(parts, (bound,), why=why, n_parts=n_parts)


def _group(rows: Outcomes, column: str) -> dict[str, Outcomes]:
    """The rows of each value of a column, in the order of the rows."""
    if not column:
        return {"": rows}
    values = rows.frame[column].unique()
    return {value: rows.where(**{column: value}) for value in values}


def _smallest_cluster_count(groups: Iterable[Outcomes]) -> int:
    return min(group.frame.cluster.nunique() for group in groups)


def _forced_tie(same_evidence: float, why: str, p: float) -> Decision:
    share = figures.number(same_evidence)
    tie = f"The tie is forced: the arms got the same evidence in {share} of units."
    return Decision("not run", f"{tie} {why}", p, reason="forced tie")


def _share_of_same_evidence(measure: str, rows: Outcomes) -> float:
    """Share of units for which a measure has the same value in all arms."""
    values = [measures.get(measure) for measures in rows.frame.measures]
    frame = rows.frame.assign(evidence=values).dropna(subset="evidence")
    if frame.empty:
        return 0.0
    n_values = frame.groupby(PAIRING_COLUMNS).evidence.nunique()
    return float((n_values == 1).mean())


def _describe_comparison(comparison: Comparison, rows: Outcomes, measure: str) -> str:
    first_score, second_score = comparison.scores
    measure_unit = unit(measure)
    first = figures.score_text(first_score, measure_unit)
    second = figures.score_text(second_score, measure_unit)
    scores = f"{rows.label(comparison.first)} {first}, {rows.label(comparison.second)} {second}"
    if comparison.model:
        scores += f" with {comparison.model}"
    difference = f"{measure_label(measure)} {figures.points(comparison.test)} points"
    p = figures.p_words(comparison.p)
    return f"{scores}; difference in {difference}, {p}, n = {comparison.test.n:,}"


def _describe_score(rule: Rule, rows: Outcomes, group: str, score: Score) -> str:
    """A score with its arm and what it was restricted to."""
    conditions = [" or ".join(values) for values in rule.where.values()]
    subject = ", ".join([rows.label(rule.arm), *conditions])
    if group:
        subject += f" with {group}"
    text = figures.score_text(score, unit(rule.measure))
    return f"{subject}: {measure_label(rule.measure)} {text}, n = {score.n:,}"
