"""Decides the claims of a paper by the rules that `data/published` declares for them.

The arms that a rule names are the family of its tests, so an arm added elsewhere cannot change a verdict.
"""

import importlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from statistics import NormalDist
from typing import Any, Final

from evaluation import figures
from evaluation.markup import Markup
from evaluation.measures import measure_label, unit
from evaluation.metrics import Score
from evaluation.outcomes import PAIRING, Comparison, Outcomes
from evaluation.paired import Paired
from evaluation.published import ON_PAR, WORTHWHILE, Basis, Claim, Rule
from evaluation.record import Run
from evaluation.records import TESTED, Finding, Tested, Untested, Verdict

SOURCES: Mapping[Basis, str] = {"printed": "printed", "rescored": "released", "rerun": "rerun"}
TOLD: Mapping[Basis, str] = {
    "printed": "printed numbers",
    "rescored": "released files",
    "rerun": "rerun",
}
LISTED = (
    "rag-findings"  # class of the list of verdicts; the book shows one list in the place of all
)
FORCED = 0.98  # share of units in which arms that were handed the same cannot but tie

ALPHA: Final = 0.05

# not scipy's, which takes most of a second to import, at each `make` and in each kernel
_quantile: Final = NormalDist().inv_cdf


Interval = Score | Paired  # a value on n units, with its 95 % interval
Judge = Callable[[Interval], Tested]


def disagreements(run: Run) -> figures.Html:
    """Where the run's paper disagrees with itself or with its release, from `data/published`: a line each, folded."""
    line, lines = Markup("<li><details><summary>{}</summary>{}</details></li>"), []
    for c in run.printed.contradictions:
        told = [f"{place.what} ({place.where})" for place in c.says]
        if numbers := dict.fromkeys(run.printed.number(id).printed for id in c.numbers):
            told.append(f"Printed numbers at odds: {', '.join(numbers)}.")
        lines.append(
            line.format(c.about, Markup("").join(Markup("<p>{}</p>").format(text) for text in told))
        )
    head = Markup(
        '<p class="rag-lead">Contradictory statements</p><ul class="rag-folded {}">{}</ul>'
    )
    shown = head.format(figures.NO_MATH, Markup("").join(lines))
    return figures.Html(str(shown), "\n".join(text.striptags() for text in lines))


@dataclass(frozen=True)
class Decision:
    """A verdict and the numbers that led to it, in a sentence; see `records.Finding`. p is adjusted within the rule."""

    verdict: Verdict
    why: str
    p: float | None = None
    reason: Untested | None = None
    needed: int | None = None


def decide(run: Run, outcomes: Outcomes, *claims: str, **facts: Any) -> figures.Html:  # noqa: ANN401  # for a rule's function
    """Decide claims of the run's paper, named without its name and `claim`, report them, and show them as a list.

    `facts` are what the functions that rules name ask for, by the name of their parameter; `served`, if given, are the
    models that a rule's scope is about, in place of those that answered, and all of the scope's must be among them; of
    released answers, those `scored_by`.
    """
    decided = [run.printed.claim(f"{run.paper}.claim.{name}") for name in claims]
    for claim in decided:
        if claim.why_not:
            run.claim(
                claim.id,
                "cannot be run",
                claim.why_not,
                reason="not public" if claim.test else "undefined",
            )
        elif claim.unasked:
            run.claim(claim.id, "not run", claim.unasked, reason="no answers")
        elif rule := claim.rule:
            for kind in rule.of:
                found = evaluate(rule, outcomes, kind, paper=run.paper, facts=facts)
                if found.needed:
                    found = replace(
                        found, why=f"{found.why} A verdict would need about {found.needed:,} units."
                    )
                run.claim(claim.id, test=rule.words(outcomes.label), kind=kind, **vars(found))
        else:
            raise ValueError(
                f"{claim.id} declares no rule. Add one in data/published/{run.paper}.yml."
            )
    return findings(decided, run.claims, sample=run.sample)


def findings(claims: Iterable[Claim], found: Iterable[Finding], *, sample: bool) -> figures.Html:
    """Those of the claims that have verdicts: a line each, with evidence and rule folded; empty if there are none."""
    lines = []
    line = Markup("<li><details><summary>{}{}</summary>{}<p>Rule: {}</p></details></li>")
    verdicts = list(found)
    for claim in claims:
        if not (mine := [one for one in verdicts if one.id == claim.id]):
            continue
        marks, told = Markup(" "), Markup()
        for one in mine:
            word = "SAMPLE" if sample and one.verdict in TESTED else one.verdict
            marks += Markup('<span class="rag-source">{} {}</span> ').format(
                TOLD[one.kind], tested(word, one.reason)
            )
            told += Markup("<p>{}: {}</p>").format(TOLD[one.kind].capitalize(), one.why)
        if claim.note:
            told += Markup("<p>{}</p>").format(claim.note)
        lines.append(line.format(claim.text, marks.rstrip(), told, mine[0].test))
    shown = Markup('<ul class="{} {}">{}</ul>').format(
        LISTED, figures.NO_MATH, Markup("\n").join(lines)
    )
    return figures.Html(str(shown) if lines else "", "\n".join(text.striptags() for text in lines))


def verdict(text: str) -> Markup:
    """A verdict with its mark; colour is never its only sign."""
    return Markup('<span class="rag-verdict" data-verdict="{0}">{0}</span>').format(text)


def tested(text: str, reason: str | None) -> Markup:
    """A claim's verdict with its mark, and in a word why there is none: what is not run has not been tested."""
    return verdict(claim_word(text)) + (f" ({reason})" if reason else "")


def claim_word(text: str) -> str:
    """A claim's verdict as a reader sees it."""
    return text.replace("run", "tested")


def evaluate(
    rule: Rule,
    outcomes: Outcomes,
    kind: Basis,
    *,
    paper: str,
    facts: Mapping[str, Any] | None = None,
) -> Decision:
    """The verdict of a rule on the rows of one source; `paper` has its functions, and `facts` what these ask for."""
    facts = facts or {}
    found = _evaluated(rule, outcomes.where(source=SOURCES[kind]), kind, paper, facts, 1)
    mine = outcomes.where(source="rerun", **({"arm": rule.arms} if rule.arms else {}))
    answered = facts.get("served") or mine.frame.model.unique()
    named = (
        answered if kind == "rerun" else facts.get("scored_by", ())
    )  # printed numbers have neither
    other = [m for m in dict.fromkeys(named) if m and not is_of(m, rule.scope)]
    if kind == "rerun" and not all(
        word.lower() in " ".join(facts.get("served") or rule.scope).lower() for word in rule.scope
    ):
        other = [*dict.fromkeys(named)]
    about = figures.listed(
        [*{re.sub(r"\W", "", name.lower()): name for name in rule.scope}.values()]
    )
    found = stand_in(found, f"{about} models", other if rule.scope else ())
    if kind != "rerun" and found.verdict == "undecided":
        what = "released answers" if kind == "rescored" else "printed numbers"
        why = f"{found.why} The {what} are inconclusive."
        return Decision("cannot be run", why, found.p, "left open", found.needed)
    return found


def is_of(model: str, names: Iterable[str]) -> bool:
    """Whether a model is one of these, by whole parts of its name: `gpt-4-0613` is a GPT-4, `gpt-4o` is not."""
    return any(
        re.search(rf"(?<![a-z\d]){re.escape(name)}(?![a-z\d]|\.\d)", model, re.I) for name in names
    )


def stand_in(found: Decision, about: str, used: Sequence[str]) -> Decision:
    """The same decision, but not run for a stand-in if something was `used` that the claim is not `about`."""
    if not used or found.verdict not in TESTED:
        return found
    why = f"The claim is about {about}; this run used {figures.listed(used)}. {found.why}"
    return Decision("not run", why, found.p, "stand-in")


def _evaluated(
    rule: Rule, rows: Outcomes, kind: Basis, paper: str, facts: Mapping[str, Any], parts: int
) -> Decision:
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
        source = "answers are released" if kind == "rescored" else "answers in this run"
        why = f"{names}: no {source}, so the {measure_label(rule.measure)} is unknown."
        return Decision("not run", why, reason="no answers")
    mine = rows.where(arm=rule.arms)
    return _compared(rule, mine, parts) if rule.than else _bounded(rule, mine, parts)


def _joined(parts: list[Decision]) -> Decision:
    if absent := next((part for part in parts if part.verdict not in TESTED), None):
        return absent
    tested: list[Any] = [part.verdict for part in parts]
    ps = [part.p for part in parts if part.p is not None]
    verdict = all_of(tested)
    units = (
        max((part.needed for part in parts if part.needed), default=None)
        if verdict == "undecided"
        else None
    )
    return Decision(
        verdict, " ".join(part.why for part in parts), max(ps, default=None), needed=units
    )


def _compared(rule: Rule, rows: Outcomes, parts: int) -> Decision:
    family = rows.against(list(product(rule.first, rule.than)), rule.measure, each=rule.each)
    told = "; ".join(_told(c, rows, rule.measure) for c in family) + "."
    p = max(c.p for c in family)
    if rule.tie and (same := _handed_alike(rule, rows)) >= FORCED:
        why = f"The tie is forced: the arms got the same evidence in {figures.number(same)} of units. {told}"
        return Decision("not run", why, p, "forced tie")
    parted = rows.frame.groupby(rule.each) if rule.each else [("", rows.frame)]
    clusters = min(part.cluster.nunique() for _, part in parted)
    if few := too_few(clusters, told, len(family) if rule.better else 1):
        return few
    margin = WORTHWHILE if rule.better else ON_PAR
    if rule.better:
        gains = [(partial(better, p=c.p, worthwhile=margin), c.test) for c in family]
        return judged(told, p, gains, (0.0, margin), parts)
    return judged(
        told, p, [(partial(on_par, margin=margin), c.test) for c in family], (-margin,), parts
    )


def too_few(clusters: int, told: str, tests: int = 1) -> Decision | None:
    """The decision on so few clusters that no randomisation of theirs can be significant in a family of `tests`."""
    if 2.0 ** (1 - clusters) < ALPHA / tests:
        return None
    why = f"A randomisation of {clusters} clusters cannot be significant, whatever the answers. {told}"
    return Decision("not run", why, reason="too few")


def judged(
    told: str,
    p: float | None,
    of: Sequence[tuple[Judge, Interval]],
    bounds: Sequence[float],
    parts: int = 1,
) -> Decision:
    """The decision on a claim that holds only if each interval agrees with its judge.

    One refutes it at Bonferroni's level for their number, times `parts` if they are part of a larger claim. If it is
    undecided, `bounds` are what the intervals would have to exclude, and the decision says how many units that takes.
    """
    verdict = all_of(
        [judge(one) for judge, one in of],
        [judge(widened(one, parts * len(of))) for judge, one in of],
    )
    units = max(
        filter(None, (needed(one, *bounds) for judge, one in of if judge(one) != "agrees")),
        default=None,
    )
    return Decision(verdict, told, p, needed=units if verdict == "undecided" else None)


def _told(c: Comparison, rows: Outcomes, measure: str) -> str:
    arms = zip((c.first, c.second), c.scores, strict=True)
    scored = ", ".join(
        f"{rows.label(arm)} {figures.score_text(score, unit(measure))}" for arm, score in arms
    )
    with_model = f" with {c.model}" if c.model else ""
    difference = f"{measure_label(measure)} {figures.points(c.test)} points, {figures.p_words(c.p)}, n = {c.test.n:,}"
    return f"{scored}{with_model}; difference in {difference}"


def _handed_alike(rule: Rule, rows: Outcomes) -> float:
    handed = rows.frame.assign(handed=[of.get(rule.tie) for of in rows.frame.measures]).dropna(
        subset="handed"
    )
    return (
        float((handed.groupby(list(PAIRING)).handed.nunique() == 1).mean()) if len(handed) else 0.0
    )


def _bounded(rule: Rule, rows: Outcomes, parts: int) -> Decision:
    values = rows.frame[rule.each].unique() if rule.each else ()
    within = {str(value): rows.where(**{rule.each: str(value)}) for value in values} or {"": rows}
    scores: dict[str, Score] = {
        name: part.score(rule.measure, rule.arm) for name, part in within.items()
    }
    of = [" or ".join(values) for values in rule.where.values()]
    told = "; ".join(
        f"{', '.join([rows.label(rule.arm), *of])}{f' with {name}' if name else ''}: {measure_label(rule.measure)} "
        f"{figures.score_text(score, unit(rule.measure))}, n = {score.n:,}"
        for name, score in scores.items()
    )
    bound = rule.bound or 0.0
    if rule.exactly:
        return Decision(exactly(all(score.value == bound for score in scores.values())), f"{told}.")
    if few := too_few(min(part.frame.cluster.nunique() for part in within.values()), f"{told}."):
        return few
    judge = partial(above if rule.above else below, bound=bound)
    return judged(f"{told}.", None, [(judge, score) for score in scores.values()], (bound,), parts)


def widened(interval: Interval, parts: int) -> Interval:
    """The interval of one of several parts at Bonferroni's level: either side grows by the ratio of normal quantiles.

    One part refutes a claim, so refutation uses it; support needs all, with plain intervals (Berger 1982).
    """
    if parts == 1:
        return interval
    value, wider = interval.value, _quantile(ALPHA / 2 / parts) / _quantile(ALPHA / 2)
    return Score(
        value,
        interval.n,
        value - wider * (value - interval.low),
        value + wider * (interval.high - value),
    )


def needed(interval: Interval, *bounds: float) -> int | None:
    """Units with which the interval would exclude the nearest bound with a power of 80 %."""
    value, factor = interval.value, 1 + _quantile(1 - 0.8) / _quantile(ALPHA / 2)
    sides = {
        bound: value - interval.low if bound < value else interval.high - value for bound in bounds
    }
    reach = [
        factor * side / (value - of)
        for of, side in sides.items()
        if side > 0 and abs(value - of) > 1e-9
    ]
    return min((max(interval.n + 1, math.ceil(interval.n * of**2)) for of in reach), default=None)


def better(difference: Interval, p: float, *, worthwhile: float = WORTHWHILE) -> Tested:
    """Agrees if the first arm is significantly better, differs if there is no room for a gain that is `worthwhile`."""
    if p < ALPHA and difference.low + difference.high > 0:
        return "agrees"
    return "differs" if difference.high < worthwhile else "undecided"


def on_par(difference: Interval, *, margin: float = ON_PAR) -> Tested:
    """Whether the first arm is at most `margin` worse than the second (a test of non-inferiority)."""
    return above(difference, -margin)


def above(value: Interval, bound: float) -> Tested:
    """Whether a value lies above a bound: agrees or differs if its whole interval says so, else undecided."""
    return "agrees" if value.low > bound else "differs" if value.high <= bound else "undecided"


def below(value: Interval, bound: float) -> Tested:
    """Whether a value lies below a bound."""
    return "agrees" if value.high < bound else "differs" if value.low >= bound else "undecided"


def all_of(verdicts: Iterable[Tested], widened: Iterable[Tested] | None = None) -> Tested:
    """The verdict of a claim that holds only if each part does; only the parts `widened`, if given, refute it."""
    found = set(verdicts)
    if not found:
        raise ValueError("A claim needs at least one part that was tested.")
    refuted = "differs" in (found if widened is None else set(widened))
    return "differs" if refuted else "agrees" if found == {"agrees"} else "undecided"


def exactly(holds: bool) -> Tested:
    """The verdict where counting decides and nothing is sampled."""
    return "agrees" if holds else "differs"
