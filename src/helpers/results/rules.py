"""Decides the claims of a paper by the rules that `data/published` declares for them.

The arms that a rule names are the family of its tests, so an arm added elsewhere cannot change a verdict.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any

import pandas as pd

from helpers.results import figures, verdicts
from helpers.results.measures import measure_label, unit
from helpers.results.metrics import Score
from helpers.results.outcomes import PAIRING, Comparison, Outcomes
from helpers.results.published import Basis, Rule
from helpers.results.record import Run
from helpers.results.verdicts import Interval, Tested, Untested, Verdict

SOURCES: Mapping[Basis, str] = {"printed": "printed", "rescored": "released", "rerun": "rerun"}
TOLD: Mapping[Basis, str] = {"printed": "printed numbers", "rescored": "released answers", "rerun": "this run"}
Judge = Callable[[Interval], Tested]
FORCED = 0.98  # share of units in which arms that were handed the same cannot but tie


def disagreements(run: Run) -> figures.Html:
    """Where the run's paper disagrees with itself or with its release, from `data/published`, as a table."""
    at_odds = any(c.numbers for c in run.printed.contradictions)
    rows = []
    for c in run.printed.contradictions:
        first, *others = (f"{place.what} ({place.where})" for place in c.says)
        rows.append({"about": c.about, "one place": first, "another place": "; ".join(others)})
        if at_odds:
            numbers = dict.fromkeys(run.printed.number(id).printed for id in c.numbers)
            rows[-1]["printed numbers at odds"] = ", ".join(numbers)
    return figures.table(pd.DataFrame(rows), "Statements that do not go together")


@dataclass(frozen=True)
class Decision:
    """A verdict and the numbers that led to it, in a sentence; see `records.Finding`. p is adjusted within the rule."""

    verdict: Verdict
    why: str
    p: float | None = None
    reason: Untested | None = None
    needed: int | None = None


def decide(run: Run, outcomes: Outcomes, *claims: str, **facts: Any) -> figures.Html:  # noqa: ANN401  # for a rule's function
    """Decide claims of the run's paper, named without its name and `claim`, report them, and show them as a table.

    `facts` are what the functions that rules name ask for, by the name of their parameter; `served`, if given, are the
    models that a rule's scope is about, in place of those that answered.
    """
    rows = []
    for name in claims:
        claim = run.printed.claim(f"{run.paper}.claim.{name}")
        if claim.why_not:
            run.claim(claim.id, "cannot be run", claim.why_not, reason="not public")
            rows.append(
                {"claim": claim.text, "on": "", "verdict": "cannot be run", "because": claim.why_not, "rule": ""}
            )
            continue
        if claim.rule is None:
            raise ValueError(f"{claim.id} declares no rule. Add one in data/published/{run.paper}.yml.")
        for kind in claim.rule.of:
            decision = evaluate(claim.rule, outcomes, kind, paper=run.paper, facts=facts)
            rule = claim.rule.words(outcomes.label)
            run.claim(claim.id, test=rule, kind=kind, **vars(decision))
            told = {"verdict": decision.verdict, "because": decision.why, "rule": rule}
            rows.append({"claim": claim.text, "on": TOLD[kind], **told})
    return figures.table(pd.DataFrame(rows), "Claims", sample=outcomes.sample)


def evaluate(
    rule: Rule, outcomes: Outcomes, kind: Basis, *, paper: str, facts: Mapping[str, Any] | None = None
) -> Decision:
    """The verdict of a rule on the rows of one source; `paper` has its functions, and `facts` what these ask for."""
    facts = facts or {}
    found = _evaluated(rule, outcomes.where(source=SOURCES[kind]), kind, paper, facts, 1)
    mine = outcomes.where(source="rerun", **({"arm": rule.arms} if rule.arms else {}))
    served: Iterable[str] = facts.get("served") or mine.frame.model.unique() if kind == "rerun" and rule.scope else ()
    other = [m for m in served if m and not any(word.lower() in m.lower() for word in rule.scope)]
    if found.verdict in verdicts.TESTED and other:
        why = f"The claim is about {' and '.join(rule.scope)} models; {' and '.join(other)} answered. {found.why}"
        return Decision("not run", why, found.p, "stand-in")
    if kind == "rescored" and found.verdict == "undecided":
        why = f"{found.why} No more answers are released than these."
        return Decision("cannot be run", why, found.p, "not public", found.needed)
    return found


def _evaluated(rule: Rule, rows: Outcomes, kind: Basis, paper: str, facts: Mapping[str, Any], parts: int) -> Decision:
    if rule.function:
        function = getattr(importlib.import_module(f"papers.{paper}.rules"), rule.function)
        decision: Decision = function(rows, **facts)
        return decision
    if rule.all_of:
        parts *= len(rule.all_of)
        return _joined([_evaluated(part, rows, kind, paper, facts, parts) for part in rule.all_of])
    rows = rows.where(**rule.where)
    if missing := [arm for arm in rule.arms if arm not in rows.measured(rule.measure)]:
        names = ", ".join(rows.label(arm) for arm in missing)
        source = "released answers" if kind == "rescored" else "answers"
        why = f"There are no {source} of {names} with the measure {measure_label(rule.measure)}."
        return Decision("not run", why, reason="no answers")
    mine = rows.where(arm=rule.arms)
    return _compared(rule, mine, parts) if rule.than else _bounded(rule, mine, parts)


def _joined(parts: list[Decision]) -> Decision:
    if absent := next((part for part in parts if part.verdict not in verdicts.TESTED), None):
        return absent
    tested: list[Any] = [part.verdict for part in parts]
    ps = [part.p for part in parts if part.p is not None]
    verdict = verdicts.all_of(tested)
    units = max((part.needed for part in parts if part.needed), default=None) if verdict == "undecided" else None
    return Decision(verdict, " ".join(part.why for part in parts), max(ps, default=None), needed=units)


def _compared(rule: Rule, rows: Outcomes, parts: int) -> Decision:
    family = rows.against(list(product(rule.first, rule.than)), rule.measure, each=rule.each)
    told = "; ".join(_told(c, rows, rule.measure) for c in family) + "."
    p = max(c.p for c in family)
    if rule.tie and (same := _handed_alike(rule, rows)) >= FORCED:
        why = f"A tie is forced: in {figures.number(same)} of the units the arms were handed the same. {told}"
        return Decision("not run", why, p, "forced tie")
    clusters = rows.frame.cluster.nunique()
    if rule.better and 2.0 ** (1 - clusters) >= verdicts.ALPHA / len(family):
        why = f"A randomisation of {clusters} clusters cannot be significant, whatever the answers. {told}"
        return Decision("not run", why, p, "too few")
    default = verdicts.WORTHWHILE if rule.better else verdicts.ON_PAR
    margin = default if rule.margin is None else rule.margin
    if rule.better:
        judges: list[Judge] = [partial(verdicts.better, p=c.p, worthwhile=margin) for c in family]
    else:
        judges = [partial(verdicts.on_par, margin=margin)] * len(family)
    measured = [(c.test, c.test.difference, c.test.n) for c in family]
    return _judged(told, p, judges, measured, parts, (0.0, margin) if rule.better else (-margin,))


def _judged(
    told: str,
    p: float | None,
    judges: Sequence[Judge],
    measured: Sequence[tuple[Interval, float, int]],
    parts: int,
    bounds: tuple[float, ...],
) -> Decision:
    """The decision on intervals with their values and units, and how many units would decide it if it is undecided."""
    found = [judge(of[0]) for judge, of in zip(judges, measured, strict=True)]
    wider = [verdicts.widened(interval, value, parts * len(measured)) for interval, value, _ in measured]
    verdict = verdicts.all_of(found, [judge(interval) for judge, interval in zip(judges, wider, strict=True)])
    open_ = [verdicts.needed(*of, *bounds) for of, one in zip(measured, found, strict=True) if one != "agrees"]
    units = max((n for n in open_ if n), default=None)
    if verdict != "undecided" or units is None:
        return Decision(verdict, told, p)
    return Decision(verdict, f"{told} About {units:,} units would decide.", p, needed=units)


def _told(c: Comparison, rows: Outcomes, measure: str) -> str:
    first, second = rows.label(c.first), rows.label(c.second)
    with_model = f" with {c.model}" if c.model else ""
    return (
        f"{first} {figures.score_text(c.scores[0], unit(measure))}, {second} "
        f"{figures.score_text(c.scores[1], unit(measure))}{with_model}; difference {figures.points(c.test)} points, "
        f"{figures.p_words(c.p)}, n = {c.test.n:,}"
    )


def _handed_alike(rule: Rule, rows: Outcomes) -> float:
    handed = rows.frame.assign(handed=[of.get(rule.tie) for of in rows.frame.measures]).dropna(subset="handed")
    return float((handed.groupby(list(PAIRING)).handed.nunique() == 1).mean()) if len(handed) else 0.0


def _bounded(rule: Rule, rows: Outcomes, parts: int) -> Decision:
    values = rows.frame[rule.each].unique() if rule.each else ()
    within = {str(value): rows.where(**{rule.each: str(value)}) for value in values} or {"": rows}
    scores: dict[str, Score] = {name: part.score(rule.measure, rule.arm) for name, part in within.items()}
    of = [" or ".join(values) for values in rule.where.values()]
    told = "; ".join(
        f"{', '.join([rows.label(rule.arm), *of])}{f' with {name}' if name else ''}: {measure_label(rule.measure)} "
        f"{figures.score_text(score, unit(rule.measure))}, n = {score.n:,}"
        for name, score in scores.items()
    )
    bound = rule.bound or 0.0
    if rule.exactly:
        return Decision(verdicts.exactly(all(score.value == bound for score in scores.values())), f"{told}.")
    judge = partial(verdicts.above if rule.above else verdicts.below, bound=bound)
    measured = [(s, s.value, s.n) for s in scores.values()]
    return _judged(f"{told}.", None, [judge] * len(scores), measured, parts, (bound,))
