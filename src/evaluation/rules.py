"""Answer both questions about the claims of a paper by the rules declared in `data/published`.

Does a claim hold for the paper's system, and does it hold here? One rule answers both, on different
rows (see `evaluation.vocabulary`). Which rows these are is decided here and nowhere else, so that
rules, and the functions of a paper's module ``rules``, never look at the name of a model.

The tests of a rule form one family for the correction of p-values. The family consists
of the arms that the rule names, so an arm added elsewhere cannot change a verdict.
"""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from types import ModuleType
from typing import Any, Final, Literal

import pandas as pd

from evaluation import decisions, evidence, figures
from evaluation.answers import COLUMNS, NotRunError
from evaluation.decisions import Decision, Interval, Part
from evaluation.interactions import interaction
from evaluation.measures import (
    has_long_words,
    measure_label,
    measure_of,
    measure_words,
    unit,
    with_article,
)
from evaluation.metrics import Score
from evaluation.outcomes import PAIRING_COLUMNS, Comparison, Outcomes
from evaluation.published import Basis, Claim, Rule, rows_in_words
from evaluation.record import Run
from evaluation.records import ArmValue
from evaluation.verdicts import findings
from evaluation.vocabulary import HERE_BY_TESTED, TESTED, Reason, Tested

FORCED_TIE_SHARE: Final = 0.98
"""Arms that got the same evidence for this share of units tell nothing about retrieval."""

SOURCES: Mapping[Basis, str] = {
    "printed": "printed",
    "rescored": "released",
    "rerun": "rerun",
}
"""The value of the column ``source`` in the rows that each basis uses."""
Question = Literal["paper", "here"]
"""Does a claim hold for the paper's system, or here? See `evaluation.vocabulary`."""
_UNANSWERED: Final[tuple[Reason, ...]] = (
    "another model",
    "no answers",
    "published, not fetched",
    "judge at chance",
    "forced tie",
    "same facts",
    "by construction",
)
"""Reasons by which the next rule of `first_of` is asked."""
_FETCHABLE: Final[tuple[Reason, ...]] = ("another model", "no answers")
"""Reasons that fetching what a rule names as `published` would remove."""


def decide(run: Run, outcomes: Outcomes, *claims: str, **facts: Any) -> figures.Html:  # noqa: ANN401
    """Answer both questions about claims of the run's paper, report and list the answers.

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
    return _decide(run, outcomes, claims, facts, ("paper", "here"))


def decide_for_paper(run: Run, outcomes: Outcomes, *claims: str, **facts: Any) -> figures.Html:  # noqa: ANN401
    """Answer as `decide` does, but only whether the claims hold for the paper's system.

    For claims about rows that the authors released, of which this notebook reruns nothing.
    """
    return _decide(run, outcomes, claims, facts, ("paper",))


def decide_here(run: Run, outcomes: Outcomes, *claims: str, **facts: Any) -> figures.Html:  # noqa: ANN401
    """Answer as `decide` does, but only whether the claims hold here.

    For claims that another notebook decides by released rows, which this one does not load.
    """
    return _decide(run, outcomes, claims, facts, ("here",))


def _decide(
    run: Run,
    outcomes: Outcomes,
    claims: Sequence[str],
    facts: Mapping[str, Any],
    questions: Sequence[Question],
) -> figures.Html:
    declared = [run.printed.claim(f"{run.paper}.claim.{name}") for name in claims]
    for claim in declared:
        _decide_claim(run, outcomes, claim, facts, questions)
    return findings(declared, run.claims, run.here_findings, sample=run.sample)


def _decide_claim(
    run: Run,
    outcomes: Outcomes,
    claim: Claim,
    facts: Mapping[str, Any],
    questions: Sequence[Question],
) -> None:
    if claim.why_not:
        _report_untested(run, claim)
        return
    if claim.unasked:
        run.claim(claim.id, "not tested", claim.unasked, reason="no answers")
        run.claim_here(claim.id, "not run", claim.unasked, reason="no answers")
        return
    rule = claim.rule
    if rule is None:
        raise ValueError(f"{claim.id} declares no rule. Add one in data/published/{run.paper}.yml.")
    if "paper" in questions:
        _decide_for_paper(run, outcomes, claim, rule, facts)
    if "here" not in questions:
        return
    decision = evaluate_here(rule, outcomes, paper=run.paper, facts=facts)
    answer = HERE_BY_TESTED.get(decision.verdict, "not run")
    run.claim_here(claim.id, answer, **_as_reported(decision, rule, outcomes))


def _report_untested(run: Run, claim: Claim) -> None:
    """Report why no notebook decides a claim."""
    reason = claim.why_closed
    run.claim(claim.id, "cannot be tested", claim.why_not, reason=reason)
    if claim.by_construction:
        run.claim_here(claim.id, "not run", claim.by_construction, reason="by construction")
    else:
        run.claim_here(claim.id, "not run", claim.why_not, reason=reason)


def _decide_for_paper(
    run: Run, outcomes: Outcomes, claim: Claim, rule: Rule, facts: Mapping[str, Any]
) -> None:
    """Say by each source of the rule whether the claim holds for the paper's system."""
    if claim.closed:
        words = rule.words(outcomes.label)
        run.claim(claim.id, "cannot be tested", claim.closed, test=words, reason="not public")
        return
    for kind in rule.bases:
        decision = evaluate(rule, outcomes, kind, paper=run.paper, facts=facts)
        run.claim(claim.id, decision.verdict, kind=kind, **_as_reported(decision, rule, outcomes))


def _as_reported(decision: Decision, rule: Rule, outcomes: Outcomes) -> dict[str, Any]:
    """The fields that an answer to either question has."""
    why = decision.why
    needed = decisions.two_digits(decision.needed) if decision.needed else None
    if needed:
        why += (
            " If the true values are those found here, a test of this claim needs about "
            f"{needed:,} rows for a power of 80 %."
        )
    return {
        "why": why,
        "test": rule.words(outcomes.label),
        "p": decision.p,
        "reason": decision.reason,
        "needed": needed,
        "estimates": list(decision.estimates),
        "ties": list(decision.ties),
        "models": list(decision.models),
    }


def evaluate(
    rule: Rule,
    outcomes: Outcomes,
    kind: Basis,
    *,
    paper: str,
    facts: Mapping[str, Any] | None = None,
) -> Decision:
    """Ask whether a claim holds for the paper's system, by the rows of one source.

    Args:
        rule: What must hold, from the claim's entry in `data/published`.
        outcomes: The answers of all sources.
        kind: What to decide by: printed numbers, released answers or this run's
            answers.
        paper: Name of the paper, whose module ``rules`` has the functions of its rules.
        facts: Arguments of these functions, and the names of models: ``served``, those
            that served this run, and ``scored_by``, those that scored released answers.

    Returns:
        The decision. It is "not tested" if only models answered, or judged, that the
        claim is not about.
    """
    context = _Context(kind, paper, "paper", facts or {})
    if others := _foreign_helpers(rule, context):
        if kind == "rerun":
            decision = decisions.another_model(rule.scope, others, "ran")
        else:
            scored = "scores by {}"
            decision = decisions.another_model(rule.scope, others, "scored the answers", scored)
        return _name_unfetched(decision, rule, context)
    return _ask(rule, outcomes.where(source=SOURCES[kind]), context)


def evaluate_here(
    rule: Rule,
    outcomes: Outcomes,
    *,
    paper: str,
    facts: Mapping[str, Any] | None = None,
) -> Decision:
    """Ask whether a claim holds here, by the rerun rows of whatever models ran.

    Args:
        rule: The rule that also answers the first question.
        outcomes: The answers of all sources.
        paper: As in `evaluate`.
        facts: As in `evaluate`.

    Returns:
        The decision. It is "not tested" if the rule reads nothing that a run makes: a
        function that is asked of printed numbers or of released files alone. Its models are
        those that answered, and those that served them, such as an encoder that searched.
    """
    if rule.function and "rerun" not in rule.bases:
        why = "The rule reads only printed numbers or released files."
        return Decision("not tested", why, reason="printed only")
    rows = outcomes.where(source=SOURCES["rerun"])
    facts = facts or {}
    decision = _ask(rule, rows, _Context("rerun", paper, "here", facts))
    models = (*decision.models, *facts.get("served", ()))
    return decisions.with_models(replace(decision, models=()), models)


def paper_rules(paper: str) -> ModuleType:
    """The module ``rules`` of a paper, which has the functions that its rules name."""
    return importlib.import_module(f"papers.{paper}.rules")


@dataclass(frozen=True)
class _Context:
    """What a rule is evaluated with, besides the rows; see `evaluate`.

    Attributes:
        kind: What decides.
        paper: Name of the paper.
        question: Which of the two questions is asked.
        facts: Arguments of functions, and names of models.
    """

    kind: Basis
    paper: str
    question: Question
    facts: Mapping[str, Any]

    @property
    def is_scoped(self) -> bool:
        """Whether models outside the scope of a rule are left out."""
        return self.question == "paper" and self.kind == "rerun"


@dataclass(frozen=True)
class _Scoped:
    """Rows of a rule, without those of models that the claim is not about.

    Attributes:
        rows: The remaining rows.
        others: Names of the models whose rows were left out.
        judges: Names of judges that the claim is not about.
    """

    rows: Outcomes
    others: list[str] = field(default_factory=list)
    judges: list[str] = field(default_factory=list)

    def has_any(self, arms: Iterable[str]) -> bool:
        """Whether any of these arms has rows left."""
        return not set(arms).isdisjoint(self.rows.arms)


def _foreign_helpers(rule: Rule, context: _Context) -> list[str]:
    """Models outside the scope that served arms or scored answers without answering themselves.

    An encoder that searches is one: its name is in no row. A rerun must be served by all models of
    the scope, for each of them has a part of its own in the paper's system.
    """
    fact = "served" if context.kind == "rerun" else "scored_by"
    helpers = list(dict.fromkeys(context.facts.get(fact, ())))
    if not rule.scope or not helpers:
        return []
    together = " ".join(helpers)
    is_covered = all(decisions.is_model_of(together, [name]) for name in rule.scope)
    if context.kind == "rerun" and not is_covered:
        return helpers
    return [name for name in helpers if not decisions.is_model_of(name, rule.scope)]


def _within_scope(rule: Rule, rows: Outcomes, context: _Context) -> _Scoped:
    """Leave out the rows of models that the claim is not about.

    A judge answers no question: its own rows stay, whatever the scope, and `judges` names those
    that a claim about ratings is about. An arm without a language model is of no model.
    """
    if not context.is_scoped:
        return _Scoped(rows)
    is_judge = rows.frame["of"] != ""
    judges = _models_outside(rule.judges, rows.frame.model[is_judge])
    if context.facts.get("served"):
        return _Scoped(rows, judges=judges)
    foreign = _models_outside(rule.scope, rows.frame.model[~is_judge])
    is_foreign = ~is_judge & rows.frame.model.isin(foreign)
    concerned = rows.select(is_foreign)
    if rule.arms:
        concerned = concerned.where(arm=rule.arms)
    others = list(concerned.frame.model.unique())
    return _Scoped(rows.select(~is_foreign), others, judges)


def _models_outside(names: Sequence[str], models: pd.Series) -> list[str]:
    """The models of some rows that have none of these names; none if no name is required."""
    if not names:
        return []
    answered = [model for model in models.unique() if model]
    return [model for model in answered if not decisions.is_model_of(model, names)]


def _ask(rule: Rule, rows: Outcomes, context: _Context) -> Decision:
    """Apply a rule to rows some of which may stand for an arm that was not run."""
    try:
        return _evaluate_rows(rule, rows, context, n_parts=1)
    except NotRunError as error:
        return Decision("not tested", str(error), reason="no answers")


def _evaluate_rows(rule: Rule, rows: Outcomes, context: _Context, n_parts: int) -> Decision:
    """Apply a rule, or each of its parts, to the rows of one source.

    Args:
        rule: What must hold. A rule with ``all_of`` has parts.
        rows: The rows of the source.
        context: What else the rule is evaluated with.
        n_parts: Number of parts of the claim of which this rule is one.
    """
    scoped = _within_scope(rule, rows, context)
    if refusal := _refusal(rule, scoped, context):
        return _name_unfetched(refusal, rule, context)
    if rule.function:
        return _evaluate_function(rule, scoped, context)
    if rule.first_of:
        return _evaluate_first(rule.first_of, scoped.rows, context, n_parts)
    if rule.all_of:
        n_parts *= len(rule.all_of)
        parts = [_evaluate_rows(part, scoped.rows, context, n_parts) for part in rule.all_of]
        return decisions.join(parts)
    return _evaluate_grammar(rule, scoped.rows, n_parts)


def _refusal(rule: Rule, scoped: _Scoped, context: _Context) -> Decision | None:
    """Why a rule cannot be asked of these rows, if it cannot."""
    if refusal := _refusal_by_system(rule, context):
        return refusal
    if scoped.judges:
        return decisions.another_model(rule.judges, scoped.judges, about="ratings by {}")
    if rule.parts and scoped.others and not scoped.has_any(rule.arms):
        return decisions.another_model(rule.scope, scoped.others)
    if rule.function or rule.parts:
        return None
    missing = _arms_without_answers(rule, scoped.rows)
    return _no_answers(rule, missing, scoped, context.kind) if missing else None


def _name_unfetched(decision: Decision, rule: Rule, context: _Context) -> Decision:
    """Say what is published and was not fetched, where that is why a rule tested nothing."""
    is_fetchable = rule.published and decision.reason in _FETCHABLE
    if not is_fetchable or context.question != "paper":
        return decision
    why = f"{rule.published} are published, but were not fetched for this run."
    if decision.reason == "another model":
        why += f" {decision.why}"
    return replace(decision, why=why, reason="published, not fetched")


def _replacement(rule: Rule) -> str:
    """Say that another system ran, and what in the place of which part, if the rule tells."""
    what = f" {evidence.sentence_case(rule.replaces)}." if rule.replaces else ""
    return f"This run replaces a part of the paper's system.{what}"


def _refusal_by_system(rule: Rule, context: _Context) -> Decision | None:
    """Why a rule cannot be asked of the system that ran, if it cannot."""
    repeated = _served_twice(context.facts.get("served", ())) if rule.distinct else ""
    if repeated:
        why = f"The claim is about two different models, but here {repeated} served as both."
        return Decision("not tested", why, reason="one model")
    if rule.here_only and context.question == "paper":
        return Decision("not tested", _replacement(rule), reason="another system")
    if context.kind in rule.by_construction:
        why = " ".join(rule.by_construction[context.kind].split())
        return Decision("cannot be tested", why, reason="by construction")
    return None


def _served_twice(served: Sequence[str]) -> str:
    """The first model that served in two parts; empty if each part had its own."""
    for position, model in enumerate(served):
        if model in served[:position]:
            return model
    return ""


def _evaluate_grammar(rule: Rule, rows: Outcomes, n_parts: int) -> Decision:
    """Apply a rule with a verb that compares arms, all of which have answers."""
    rows = rows.where(**rule.where).where(arm=[*rule.arms, *rule.family])
    if rule.interaction:
        decision = _decide_interaction(rule, rows, n_parts)
    elif rule.than:
        decision = _decide_comparison(rule, rows, n_parts)
    else:
        decision = _decide_bound(rule, rows, n_parts)
    return decisions.with_models(decision, rows.where(arm=rule.arms).frame.model)


def _evaluate_function(rule: Rule, scoped: _Scoped, context: _Context) -> Decision:
    """Ask a paper's function; not one that has only rows of other models before it."""
    frame = scoped.rows.frame
    is_judge = frame["of"] != ""
    nobody = not frame.model[~is_judge].any()
    if scoped.others and nobody:
        decision = decisions.another_model(rule.scope, scoped.others)
        if rule.also_needs:
            decision = replace(decision, why=f"{decision.why} {rule.also_needs}")
        return _name_unfetched(decision, rule, context)
    function = getattr(paper_rules(context.paper), rule.function)
    decision = function(scoped.rows, **context.facts)
    return decisions.with_models(decision, scoped.rows.frame.model)


def _evaluate_first(
    rules: Sequence[Rule], rows: Outcomes, context: _Context, n_parts: int
) -> Decision:
    """The decision of the first rule that has answers, or why the last one has none."""
    skipped: list[Decision] = []
    for rule in _asked_of(rules, context):
        decision = _evaluate_rows(rule, rows, context, n_parts)
        if decision.reason not in _UNANSWERED:
            break
        skipped.append(decision)
    unfetched = [part for part in skipped if part.reason == "published, not fetched"]
    is_partial_support = rule.partial and decision.verdict == "agrees"
    if unfetched and (is_partial_support or decision.verdict not in TESTED):
        return unfetched[0]
    return _with_skipped(decision, skipped)


def _with_skipped(decision: Decision, skipped: Sequence[Decision]) -> Decision:
    """Add to a decision why earlier rules had no answer, and their ties."""
    others = [earlier for earlier in skipped if earlier is not decision]
    ties = decisions.ties_of([decision, *others])
    return replace(decision, why=decisions.reasons_of([decision, *skipped]), ties=ties)


def _asked_of(rules: Sequence[Rule], context: _Context) -> list[Rule]:
    """The rules that one source can answer; printed and released numbers have some of their own."""
    of_printed = [rule for rule in rules if rule.bases == ("printed",)]
    if context.kind == "printed":
        return of_printed
    others = [rule for rule in rules if rule not in of_printed]
    if context.question == "paper":
        return others
    return [rule for rule in others if rule.bases != ("rescored",)]


def _arms_without_answers(rule: Rule, rows: Outcomes) -> list[str]:
    """The arms of a rule of which no row has the measure, within each of the rule's conditions."""
    if rows.frame.empty or not all(map(rows.has_column, (*rule.where, *rule.interaction))):
        return list(rule.arms)
    rows = rows.where(**rule.where)
    missing = []
    for part in (rows, *_under_each_condition(rule, rows)):
        answered = part.arms_with(rule.measure)
        missing += [arm for arm in rule.arms if arm not in answered]
    return list(dict.fromkeys(missing))


def _under_each_condition(rule: Rule, rows: Outcomes) -> list[Outcomes]:
    """The rows under each condition of an interaction; none where there is no interaction."""
    parts = []
    for name, values in rule.interaction.items():
        parts += [rows.where(**{name: value}) for value in values]
    return parts


def _no_answers(rule: Rule, missing: Sequence[str], scoped: _Scoped, kind: Basis) -> Decision:
    """The decision where an arm has no answers, or only other models' answers."""
    if scoped.others:
        return decisions.another_model(rule.scope, scoped.others)
    names = [scoped.rows.label(arm) for arm in missing]
    has_none = "The authors released no" if kind == "rescored" else "The chapter's run has no"
    why = f"{has_none} results of {figures.listed(names)}."
    reasons = dict.fromkeys(scoped.rows.why_not_run(arm) for arm in missing)
    return Decision("not tested", " ".join([why, *reasons]).strip(), reason="no answers")


def _decide_interaction(rule: Rule, rows: Outcomes, n_parts: int) -> Decision:
    """Decide whether a gain is larger under one condition than under another."""
    ((name, values),) = rule.interaction.items()
    parts = []
    texts = []
    inside, outside = (rows_in_words({name: [value]}) for value in values)
    for first, second in product(rule.first, rule.than):
        difference = interaction(rows, (first, second), rule.measure, (name, values))
        measure = measure_label(rule.measure)
        label = (
            f"{rows.label(first)} minus {rows.label(second)}, {measure}: "
            f"{name} {values[0]} minus {values[1]}"
        )
        words = (
            f"the lead of {rows.label(first)} over {rows.label(second)} in {measure} {inside}, "
            f"minus the lead {outside},"
        )
        part = Part(
            difference,
            Criterion(rule),
            label,
            unit(rule.measure),
            rule.boundary,
            words=words,
            measure=rule.measure,
            where=rows.where(**rule.interaction).conditions,
        )
        parts.append(part)
        texts.append(
            f"The lead of {rows.label(first)} over {rows.label(second)} in {measure} {inside}, "
            f"minus the lead {outside}, is {figures.points(difference)} points "
            f"(n = {difference.n:,})."
        )
    why = " ".join(texts)
    n_clusters = rows.frame.cluster.nunique()
    if not decisions.enough_clusters(n_clusters):
        return decisions.too_few_clusters(n_clusters, why)
    return decisions.decide_by_intervals(parts, (rule.boundary,), why=why, n_parts=n_parts)


def _decide_comparison(rule: Rule, rows: Outcomes, n_parts: int) -> Decision:
    """Decide a rule with `better`, `on_par` or `equivalent` by paired tests."""
    comparisons = _compare_in_family(rule, rows)
    rows = rows.where(arm=rule.arms)
    described = [_describe_comparison(c, rows, rule) for c in comparisons]
    why = " ".join(described)
    p = max(comparison.p for comparison in comparisons)

    parts = [_part_of_comparison(rule, comparison, rows) for comparison in comparisons]
    if rule.tie:
        same_evidence = _share_of_same_evidence(rule.tie, rows)
        if same_evidence >= FORCED_TIE_SHARE:
            decision = _forced_tie if _have_same_prompts(rows) else _same_facts
            return decision(same_evidence, why, p, parts)

    n_clusters = _smallest_cluster_count(_group(rows, rule.each).values())
    n_tests = len(comparisons) if rule.better else 1
    if not decisions.enough_clusters(n_clusters, n_tests):
        return decisions.too_few_clusters(n_clusters, why)

    bounds = (rule.boundary, -rule.boundary) if rule.equivalent else (rule.boundary,)
    return decisions.decide_by_intervals(parts, bounds, why=why, p=p, n_parts=n_parts)


def _compare_in_family(rule: Rule, rows: Outcomes) -> list[Comparison]:
    """The comparisons of a rule, their p adjusted for those against its `family`, too."""
    with_answers = rows.arms_with(rule.measure)
    others = [arm for arm in rule.family if arm in with_answers]
    pairs = product(rule.first, [*rule.than, *others])
    comparisons = rows.compare(pairs, rule.measure, within=rule.each)
    return [comparison for comparison in comparisons if comparison.second in rule.than]


def _part_of_comparison(rule: Rule, comparison: Comparison, rows: Outcomes) -> Part:
    label = (
        f"{rows.label(comparison.first)} minus {rows.label(comparison.second)}, "
        f"{_measure_within_strata(rule)}"
    )
    if comparison.model:
        label += f", {comparison.model}"
    criterion = Criterion(rule, comparison.p)
    names = (rows.label(comparison.first), rows.label(comparison.second))
    arms = [
        ArmValue(label=name, value=score.value)
        for name, score in zip(names, comparison.scores, strict=True)
    ]
    where = _where_in_words(rule, _strata(rule), comparison)
    words = f"{measure_of(rule.measure, names[0])} minus that of {names[1]}"
    return Part(
        comparison.test,
        criterion,
        label,
        unit(rule.measure),
        rule.boundary,
        words=f"{where}, {words}" if where else words,
        arms=tuple(arms),
        measure=comparison.measure,
        where=comparison.conditions,
    )


@dataclass(frozen=True)
class Criterion:
    """Whether one interval meets a rule of the grammar.

    Attributes:
        rule: The rule.
        p: The adjusted p-value of a difference; 0 for a score, which has none.
    """

    rule: Rule
    p: float = 0.0

    def __call__(self, interval: Interval) -> Tested:
        """Judge an interval."""
        rule = self.rule
        if rule.interaction or rule.above:
            return decisions.above(interval, rule.boundary)
        if rule.below:
            return decisions.below(interval, rule.boundary)
        if rule.better:
            return decisions.better(interval, self.p, margin=rule.boundary)
        if rule.equivalent:
            return decisions.equivalent(interval, margin=rule.tolerated)
        return decisions.on_par(interval, margin=rule.tolerated)


def _decide_bound(rule: Rule, rows: Outcomes, n_parts: int) -> Decision:
    """Decide a rule with `above`, `below` or `exactly` by scores."""
    groups = _group(rows, rule.each)
    parts = []
    described = []
    for name, group in groups.items():
        score = group.score(rule.measure, rule.arm)
        parts.append(_part_of_score(rule, group, name, score))
        described.append(_describe_score(rule, group, name, score))
    why = " ".join(described)
    bound = rule.boundary
    if rule.exactly:
        holds = all(part.interval.value == bound for part in parts)
        estimates = tuple(part.estimate() for part in parts)
        return Decision(decisions.exactly(holds), why, estimates=estimates)
    n_clusters = _smallest_cluster_count(groups.values())
    if not decisions.enough_clusters(n_clusters):
        return decisions.too_few_clusters(n_clusters, why)
    return decisions.decide_by_intervals(parts, (bound,), why=why, n_parts=n_parts)


def _part_of_score(rule: Rule, rows: Outcomes, group: str, score: Score) -> Part:
    """The part of a claim about the score of some rows, which are called by their group."""
    arm = ArmValue(label=rows.label(rule.arm), value=score.value)
    return Part(
        score,
        Criterion(rule),
        _label_of_score(rule, rows, group),
        unit(rule.measure),
        rule.boundary,
        words=_score_in_words(rule, rows, group),
        arms=(arm,),
        measure=rule.measure,
        where=rows.conditions,
    )


def _group(rows: Outcomes, column: str) -> dict[str, Outcomes]:
    """The rows of each value of a column, in the order of the rows."""
    if not column:
        return {"": rows}
    values = rows.frame[column].unique()
    return {value: rows.where(**{column: value}) for value in values}


def _smallest_cluster_count(groups: Iterable[Outcomes]) -> int:
    return min(group.frame.cluster.nunique() for group in groups)


def _forced_tie(same_evidence: float, why: str, p: float, parts: Sequence[Part]) -> Decision:
    share = figures.number(same_evidence)
    are_ties = "comparison is a forced tie" if len(parts) == 1 else "comparisons are forced ties"
    tie = (
        f"The next {are_ties}, because the compared methods got the same evidence for {share} of "
        "the questions."
    )
    ties = tuple(part.estimate() for part in parts)
    return Decision("not tested", f"{tie} {why}", p, reason="forced tie", ties=ties)


def _same_facts(same_evidence: float, why: str, p: float, parts: Sequence[Part]) -> Decision:
    share = figures.number(same_evidence)
    next_ones = "comparison" if len(parts) == 1 else "comparisons"
    wording = (
        f"In the next {next_ones}, the methods got the same facts in different words for {share} "
        "of the questions. A difference between these methods therefore comes from the wording of "
        "the prompts."
    )
    ties = tuple(part.estimate() for part in parts)
    return Decision("not tested", f"{wording} {why}", p, reason="same facts", ties=ties)


def _share_of_same_evidence(measure: str, rows: Outcomes) -> float:
    """Share of units for which a measure has the same value in all arms."""
    values = rows.frame.measures.map(lambda measures: measures.get(measure))
    return _share_alike(rows, values)


def _have_same_prompts(rows: Outcomes) -> bool:
    """Whether all arms asked the same of the model, so that no reply can differ."""
    return _share_alike(rows, rows.frame.requests.map(tuple)) >= FORCED_TIE_SHARE


def _share_alike(rows: Outcomes, values: "pd.Series[Any]") -> float:
    """Share of units for which a value is the same in all arms; rows without it are left out."""
    frame = rows.frame.assign(compared=values).dropna(subset="compared")
    if frame.empty:
        return 0.0
    n_values = frame.groupby(PAIRING_COLUMNS).compared.nunique()
    return float((n_values == 1).mean())


def _strata(rule: Rule) -> dict[str, tuple[str, ...]]:
    """The strata that a rule is restricted to, without columns that all rows have."""
    return {name: tuple(values) for name, values in rule.where.items() if name not in COLUMNS}


def _measure_within_strata(rule: Rule) -> str:
    """The measure, and the strata that a rule is restricted to: `F1 (kind: medications)`."""
    conditions = [f"{name}: {', '.join(values)}" for name, values in _strata(rule).items()]
    label = measure_label(rule.measure)
    return f"{label} ({'; '.join(conditions)})" if conditions else label


def _describe_comparison(comparison: Comparison, rows: Outcomes, rule: Rule) -> str:
    where = _where_in_words(rule, _strata(rule), comparison)
    return evidence.comparison_sentence(
        comparison,
        (rows.label(comparison.first), rows.label(comparison.second)),
        with_article(rule.measure),
        unit=unit(rule.measure),
        condition=evidence.sentence_case(where) if where else "",
    )


def _where_in_words(
    rule: Rule, strata: Mapping[str, Sequence[str]], comparison: Comparison | None = None
) -> str:
    """Where a comparison or score holds, as its sentence begins: `on GIT, on questions ...`."""
    words = []
    if comparison and comparison.model:
        words.append(f"{'with' if rule.each == 'model' else 'on'} {comparison.model}")
    conditions = rows_in_words(strata)
    if conditions:
        words.append(conditions)
    return ", ".join(words)


def _describe_score(rule: Rule, rows: Outcomes, group: str, score: Score) -> str:
    """A score with its arm and what it was restricted to."""
    words = _score_in_words(rule, rows, group)
    return evidence.score_sentence(words, score, unit(rule.measure))


def _score_in_words(rule: Rule, rows: Outcomes, group: str) -> str:
    """What a score measures, as a sentence begins: `the recall of Text RAG`."""
    where = _where_in_words(rule, rule.where)
    words = measure_of(rule.measure, rows.label(rule.arm))
    if group:
        words += f" with {group}"
    return f"{where}, {words}" if where else words


def _label_of_score(rule: Rule, rows: Outcomes, group: str) -> str:
    """The measure, the arm and what its rows were restricted to: `Recall of Text RAG (plain)`."""
    measure = evidence.sentence_case(measure_words(rule.measure))
    preposition = "for" if has_long_words(rule.measure) else "of"
    label = f"{measure} {preposition} {rows.label(rule.arm)}"
    conditions = [" or ".join(values) for values in rule.where.values()]
    if conditions:
        label += f" ({', '.join(conditions)})"
    return f"{label} with {group}" if group else label
