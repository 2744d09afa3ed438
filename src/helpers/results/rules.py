"""Decides the claims of a paper by the rules that `data/published` declares for them.

A rule names arms, a measure and what must hold. The arms that it names are the family of its tests, so an arm added
elsewhere cannot change a verdict. What the grammar cannot express is a function in the paper's own module `rules`,
which the rule names.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import pandas as pd

from helpers.results import figures, verdicts
from helpers.results.metrics import Score
from helpers.results.outcomes import PAIRING, Comparison, Outcomes, measure_label, unit
from helpers.results.published import Kind, Rule
from helpers.results.record import Run
from helpers.results.verdicts import Verdict

SOURCES: Mapping[Kind, str] = {"rescored": "released", "rerun": "rerun"}
FORCED = 0.98
"""Share of units in which arms that were handed the same cannot but tie."""


@dataclass(frozen=True)
class Decision:
    """A verdict, the numbers that led to it in a sentence, and the p-value of the test if it has one."""

    verdict: Verdict
    why: str
    p: float | None = None


def decide(run: Run, outcomes: Outcomes, *claims: str, **facts: Any) -> figures.Html:  # noqa: ANN401  # for a rule's function
    """Decide claims of the run's paper by their rules, and report them to the run.

    Args:
        run: takes the verdicts.
        outcomes: rows of the arms that the rules name.
        claims: ids without the paper's name and `claim`.
        facts: what the functions that rules name ask for, by the name of their parameter.

    Returns:
        The claims with their rules and verdicts, as a table.

    Raises:
        UnknownId: the paper makes no such claim.
        ValueError: a claim declares no rule.
    """
    rows = []
    for name in claims:
        claim = run.printed.claim(f"{run.paper}.claim.{name}")
        if claim.rule is None:
            raise ValueError(f"{claim.id} declares no rule. Add one in data/published/{run.paper}.yml.")
        for kind in claim.rule.of:
            decision = evaluate(claim.rule, outcomes, kind, paper=run.paper, facts=facts)
            run.claim(
                claim.id, decision.verdict, decision.why, test=claim.rule.words(outcomes.label), p=decision.p, kind=kind
            )
            rows.append(
                {
                    "claim": claim.text,
                    "on": "released answers" if kind == "rescored" else "this run",
                    "verdict": decision.verdict,
                    "because": decision.why,
                    "rule": claim.rule.words(outcomes.label),
                }
            )
    return figures.table(pd.DataFrame(rows), "Claims", sample=outcomes.sample)


def evaluate(
    rule: Rule, outcomes: Outcomes, kind: Kind, *, paper: str, facts: Mapping[str, Any] | None = None
) -> Decision:
    """The verdict of a rule on the rows of one source."""
    if rule.function:
        function = getattr(importlib.import_module(f"papers.{paper}.rules"), rule.function)
        decision: Decision = function(outcomes.where(source=SOURCES[kind]), **(facts or {}))
        return decision
    if rule.all_of:
        parts = [evaluate(part, outcomes, kind, paper=paper, facts=facts) for part in rule.all_of]
        return _joined(parts)
    rows = outcomes.where(source=SOURCES[kind], **rule.where)
    if missing := [arm for arm in rule.arms if arm not in rows.arms]:
        names = ", ".join(outcomes.label(arm) for arm in missing)
        return Decision(
            "not run", f"There are no {'released answers' if kind == 'rescored' else 'answers'} of {names}."
        )
    mine = rows.where(arm=rule.arms)
    return _compared(rule, mine) if rule.than else _bounded(rule, mine)


def _joined(parts: list[Decision]) -> Decision:
    if absent := next((part for part in parts if part.verdict not in verdicts.TESTED), None):
        return absent
    tested: list[Any] = [part.verdict for part in parts]
    ps = [part.p for part in parts if part.p is not None]
    return Decision(verdicts.all_of(tested), " ".join(part.why for part in parts), max(ps, default=None))


def _compared(rule: Rule, rows: Outcomes) -> Decision:
    family = rows.against(list(product(rule.first, rule.than)), rule.measure, each=rule.each)
    told = "; ".join(_told(c, rows, rule.measure) for c in family) + "."
    p = max(c.p for c in family)
    if rule.tie and (same := _handed_alike(rule, rows)) >= FORCED:
        return Decision(
            "not run",
            f"A tie is forced: in {figures.number(same)} of the units the arms were handed the same. {told}",
            p,
        )
    if rule.better:
        margin = verdicts.WORTHWHILE if rule.margin is None else rule.margin
        return Decision(verdicts.all_of(verdicts.better(c.test, c.p, worthwhile=margin) for c in family), told, p)
    margin = verdicts.ON_PAR if rule.margin is None else rule.margin
    return Decision(verdicts.all_of(verdicts.on_par(c.test, margin=margin) for c in family), told, p)


def _told(c: Comparison, rows: Outcomes, measure: str) -> str:
    first, second = rows.label(c.first), rows.label(c.second)
    with_model = f" with {c.model}" if c.model else ""
    return (
        f"{first} {figures.score_text(c.scores[0], unit(measure))}, {second} "
        f"{figures.score_text(c.scores[1], unit(measure))}{with_model}; difference {figures.points(c.test)} points, "
        f"{figures.p_words(c.p)}, n = {c.test.n:,}"
    )


def _handed_alike(rule: Rule, rows: Outcomes) -> float:
    """Share of units for which the measure `tie` is the same in all arms of the rule."""
    handed = rows.frame.assign(handed=[of.get(rule.tie) for of in rows.frame.measures]).dropna(subset="handed")
    return float((handed.groupby(list(PAIRING)).handed.nunique() == 1).mean()) if len(handed) else 0.0


def _bounded(rule: Rule, rows: Outcomes) -> Decision:
    values = rows.frame[rule.each].unique() if rule.each else ()
    parts = {str(value): rows.where(**{rule.each: str(value)}) for value in values} or {"": rows}
    scores: dict[str, Score] = {name: part.score(rule.measure, rule.arm) for name, part in parts.items()}
    told = "; ".join(
        f"{rows.label(rule.arm)}{f' with {name}' if name else ''}: {measure_label(rule.measure)} "
        f"{figures.score_text(score, unit(rule.measure))}, n = {score.n:,}"
        for name, score in scores.items()
    )
    bound = rule.bound or 0.0
    if rule.exactly:
        return Decision(verdicts.exactly(all(score.value == bound for score in scores.values())), f"{told}.")
    judge = verdicts.above if rule.above else verdicts.below
    return Decision(verdicts.all_of(judge(score, bound) for score in scores.values()), f"{told}.")
