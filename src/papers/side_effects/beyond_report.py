"""What a run on the questions beyond the paper (side_effects.md, Discussion) reports: tables, a figure, claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers.results import figures, verdicts
from helpers.results.metrics import Paired, Score, bootstrap, mcnemar, p50, proportion, set_scores
from helpers.results.record import Run
from papers.side_effects.cypher import Outcome, named, slips
from papers.side_effects.facts import Facts
from papers.side_effects.label_lock import Reading
from papers.side_effects.questions import FORMS, KINDS

Outcomes = Mapping[str, Sequence[Outcome]]

ARMS = {
    "written": ("Query written here (ceiling)", figures.arm_colour("lookup")),
    "chosen": ("LLM picks the query", figures.arm_colour("graphrag")),
    "generated": ("LLM writes the Cypher", figures.arm_colour("closed_book")),
}
"""Label and colour of the ways to get a query."""
STAGES = ("first try", "repaired", "failed")
LOCKS = {
    "unlocked": "unlocked: the GraphRAG arm",
    "leading": "unlocked, the question suggests the opposite",
    "label": "label locked, words as written",
    "checked": "label locked, words checked",
}
"""Label of the ways to get an answer from evidence."""
EVIDENCE = {"effects that are listed": True, "effects that are not": False}
"""What the evidence says. A leading question suggests the opposite, so the two are never thrown together: a model that
always says NO contradicts the first wherever it is asked, and the second nowhere."""


def opening(outcomes: Outcomes, readings: Mapping[str, Sequence[Reading]], *, model: str, sample: bool) -> str:
    """The page's answer, in Markdown, from what the run found."""
    written, chosen, generated = (exact_score(outcomes[arm]) for arm in ("written", "chosen", "generated"))
    right = sum(o.exact for o in outcomes["written"])
    best = max(chosen.value, generated.value)
    strays = {name: any(r.contradicts for r in mine) for name, mine in readings.items()}
    strength = "kept to its evidence here"
    if strays["leading"]:
        strength = "can be talked out of its evidence"
    if strays["unlocked"]:
        strength = "contradicts its evidence"
    shares = {
        name: " and ".join(
            f"{figures.score_text(contradicting(some))} of those about {what}" for what, some in strata(mine).items()
        )
        for name, mine in readings.items()
    }
    said_no = " and ".join(figures.score_text(saying_no(some)) for some in strata(readings["leading"]).values())
    replaced = sum(r.replaced for r in readings["checked"])
    lines = (
        f"**The graph {'extends as announced' if written.value == 1 else 'does not answer everything'}.** "
        f"{right} of {written.n} questions about drug classes, frequency, organ classes, two drugs and paths are "
        "answered by one query each exactly as plain Python answers them on the same data.",
        f"**Understanding the question {'is another matter' if best < 1 else 'is no obstacle'}.** {model} gets the "
        f"exact answer to {figures.score_text(chosen)} of the questions if it picks the query, "
        f"to {figures.score_text(generated)} if it writes the Cypher.",
        f"**Without a lock the model {strength}.** Its answers contradict it in {shares['unlocked']}; where the "
        f"question suggests the opposite, in {shares['leading']}, saying NO to {said_no}. With the label locked, its "
        f"words do in {shares['label']}; with the words checked too none can, for which {replaced} of "
        f"{len(readings['checked'])} sentences had to be replaced.",
    )
    return "\n".join([*(["**SAMPLE**", ""] if sample else []), *(f"- {line}" for line in lines)])


# ----------------------------------------------------------------------------------------------------------- the data


def facts_table(facts: Facts) -> pd.DataFrame:
    """What the graph holds, in numbers."""
    pairs = sum(map(len, facts.effects.values()))
    in_organ = sum(e in facts.organs for of_drug in facts.effects.values() for e in of_drug)
    rows = {
        "drugs": (len(facts.effects), None),
        "drug and effect pairs": (pairs, None),
        "of these with a frequency": (len(facts.frequency), len(facts.frequency) / pairs),
        "of these with an organ class": (in_organ, in_organ / pairs),
        "drugs with an ATC code": (sum(map(bool, facts.classes.values())), None),
        "ATC classes, four levels": (len(facts.codes), None),
        "of these with a plain name": (sum(name != code for name, code in facts.codes.items()), None),
        "drug and class pairs": (sum(map(len, facts.classes.values())), None),
        "effects with an organ class": (len(facts.organs), None),
    }
    return pd.DataFrame(
        {
            "what": list(rows),
            "count": [count for count, _ in rows.values()],
            "share of the pairs": [share for _, share in rows.values()],
        }
    )


def organ_table(facts: Facts) -> pd.DataFrame:
    """The organ classes: how many effects, and the ones that most drugs have."""
    drugs = Counter(effect for of_drug in facts.effects.values() for effect in of_drug)
    rows = []
    for organ in sorted(set(facts.organs.values())):
        effects = sorted((e for e, o in facts.organs.items() if o == organ), key=lambda e: (-drugs[e], e))
        rows.append({"organ class": organ, "effects": len(effects), "the most frequent": ", ".join(effects[:5])})
    return pd.DataFrame(rows)


# ---------------------------------------------------------------------------------------------------------- questions


def forms_table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """The forms, each with its first question: names in an answer, answers as plain Python has them, median ms."""
    rows = []
    for form in FORMS:
        mine = [o for o in outcomes if o.asked.form is form]
        if mine:
            rows.append(
                {
                    "kind": KINDS[form.kind],
                    "for example": mine[0].asked.text,
                    "questions": len(mine),
                    "names": f"{min(len(o.asked.answer) for o in mine)} to {max(len(o.asked.answer) for o in mine)}",
                    "right": sum(o.exact for o in mine),
                    "ms": 1000 * p50([o.attempts[-1].seconds for o in mine]),
                }
            )
    return pd.DataFrame(rows)


def exact_score(outcomes: Sequence[Outcome]) -> Score:
    """Execution accuracy: the share of questions whose set is exactly right."""
    return proportion(sum(o.exact for o in outcomes), len(outcomes))


def accuracy_table(outcomes: Outcomes, draws: int) -> pd.DataFrame:
    """Execution accuracy and mean precision, recall and F1 of the returned sets, by arm and kind."""
    rows = []
    for arm, of_arm in outcomes.items():
        for kind, label in (("", "all"), *KINDS.items()):
            mine = [o for o in of_arm if kind in ("", o.asked.form.kind)]
            sets = [set_scores(o.returned, o.asked.answer) for o in mine]
            stages: Counter[str] = Counter(o.stage for o in mine)
            rows.append(
                {
                    "who makes the query": ARMS[arm][0] if not kind else "",
                    "questions": f"{label} ({len(mine)})",
                    "exactly right": exact_score(mine),
                    **{
                        metric: figures.number(float(np.mean([s[metric] for s in sets])))
                        for metric in ("precision", "recall")
                    },
                    "F1": bootstrap([s["f1"] for s in sets], draws=draws),
                    **{stage: stages[stage] for stage in STAGES},
                }
            )
    return pd.DataFrame(rows)


def wording_table(outcomes: Outcomes) -> pd.DataFrame:
    """Execution accuracy of templates and of paraphrases."""
    rows = []
    for arm, of_arm in outcomes.items():
        row: dict[str, object] = {"who makes the query": ARMS[arm][0]}
        for paraphrased, name in ((False, "template"), (True, "paraphrase")):
            mine = [o for o in of_arm if o.asked.paraphrased == paraphrased]
            row[name] = exact_score(mine) if mine else None
        rows.append(row)
    return pd.DataFrame(rows)


def reasons_table(outcomes: Outcomes) -> pd.DataFrame:
    """Why questions failed, by arm."""
    counts = {ARMS[arm][0]: Counter(o.reason for o in of_arm if not o.exact) for arm, of_arm in outcomes.items()}
    reasons = sorted({r for c in counts.values() for r in c}, key=lambda r: -sum(c[r] for c in counts.values()))
    return pd.DataFrame(
        [{"reason": r, **{arm: c[r] for arm, c in counts.items()}} for r in reasons], columns=["reason", *counts]
    )


def slips_table(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """What is wrong at sight with the last statements of failed questions, and of those that are right."""
    counts: dict[bool, Counter[str]] = {False: Counter(), True: Counter()}
    for outcome in outcomes:
        counts[outcome.exact].update(_slips(outcome) or ["none of these"])
    total = Counter(o.exact for o in outcomes)
    found = sorted(counts[False] | counts[True], key=lambda slip: (slip == "none of these", -counts[False][slip]))
    return pd.DataFrame(
        [
            {
                "in the last statement": slip,
                f"of {total[False]} that failed": counts[False][slip],
                f"of {total[True]} that are right": counts[True][slip],
            }
            for slip in found
        ]
    )


def _slips(outcome: Outcome) -> list[str]:
    return slips(outcome.attempts[-1].cypher, named(outcome.asked))


def failures_table(outcomes: Sequence[Outcome], most: int = 6) -> pd.DataFrame:
    """Some failed questions, of different reasons first, with the statement and what was wrong."""
    failed = [o for o in outcomes if not o.exact]
    seen: Counter[str] = Counter()
    order: list[tuple[int, int, Outcome]] = []
    for outcome in failed:
        order.append((seen[outcome.reason], len(order), outcome))
        seen[outcome.reason] += 1
    return pd.DataFrame(
        [
            {
                "question": o.asked.text,
                "last statement": o.attempts[-1].cypher,
                "reason": o.reason,
                "wrong at sight": "; ".join(_slips(o)),
                "right": len(o.asked.answer),
                "returned": len(o.returned),
            }
            for _, _, o in sorted(order, key=lambda entry: entry[:2])[:most]
        ],
        columns=["question", "last statement", "reason", "wrong at sight", "right", "returned"],
    )


def compare_arms(outcomes: Outcomes) -> Paired:
    """McNemar's exact test on the same questions: the model picks against the model writes."""
    return mcnemar([o.exact for o in outcomes["chosen"]], [o.exact for o in outcomes["generated"]])


def as_score(test: Paired) -> Score:
    """The difference that a paired test found, for the record."""
    return Score(test.difference, test.n, test.low, test.high)


def comparison_sentence(test: Paired) -> str:
    """The test in words."""
    return (
        f"Only picking is right in {test.b} questions, only writing in {test.c}: a difference of "
        f"{figures.points(test)} points, {figures.p_words(test.p)} (McNemar, exact)."
    )


def draw_accuracy(outcomes: Outcomes) -> Figure:
    """Execution accuracy by kind and arm, with 95 % intervals."""
    fig, axes = plt.subplots(figsize=(7.2, 4.0))
    offsets = np.linspace(-0.22, 0.22, len(outcomes))
    for offset, (arm, of_arm) in zip(offsets, outcomes.items(), strict=True):
        label, colour = ARMS[arm]
        scores = [exact_score([o for o in of_arm if o.asked.form.kind == kind]) for kind in KINDS]
        y = np.arange(len(KINDS)) + offset
        axes.hlines(y, [s.low for s in scores], [s.high for s in scores], color=colour, linewidth=2.2)
        axes.plot([s.value for s in scores], y, "o", color=colour, label=label, clip_on=False)
    axes.set_yticks(range(len(KINDS)), list(KINDS.values()))
    axes.invert_yaxis()
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
    axes.set_xlabel("questions answered exactly")
    axes.grid(axis="x")
    fig.legend(loc="outside lower center", ncols=1)
    return fig


def accuracy_words(outcomes: Outcomes) -> str:
    """What `draw_accuracy` shows, in words."""
    arms = []
    for arm, of_arm in outcomes.items():
        shares = (
            f"{words} {figures.number(exact_score([o for o in of_arm if o.asked.form.kind == kind]).value, digits=0)}"
            for kind, words in KINDS.items()
        )
        arms.append(f"{ARMS[arm][0]}: {', '.join(shares)}.")
    return " ".join(["Share of questions answered exactly, with 95 % intervals.", *arms])


def report_questions(run: Run, outcomes: Outcomes, draws: int) -> None:
    """Keep execution accuracy and F1 in the record, and decide whether the graph extends as announced."""
    for arm, of_arm in outcomes.items():
        label = ARMS[arm][0]
        run.extra(f"beyond.{arm}.exact", f"execution accuracy: {label}", exact_score(of_arm))
        f1 = [set_scores(o.returned, o.asked.answer)["f1"] for o in of_arm]
        run.extra(f"beyond.{arm}.f1", f"mean F1 of the returned sets: {label}", bootstrap(f1, draws=draws))
        for kind, name in KINDS.items():
            score = exact_score([o for o in of_arm if o.asked.form.kind == kind])
            run.extra(f"beyond.{arm}.{kind}.exact", f"execution accuracy, {name}: {label}", score)
    first = proportion(sum(o.stage == "first try" for o in outcomes["generated"]), len(outcomes["generated"]))
    run.extra("beyond.generated.first_try", "execution accuracy at the first try: LLM writes the Cypher", first)
    written, chosen, generated = (exact_score(outcomes[arm]) for arm in ("written", "chosen", "generated"))
    run.claim(
        "side_effects.claim.graph_extends_to_richer_questions",
        verdicts.exactly(written.value == 1),
        f"{sum(o.exact for o in outcomes['written'])} of {written.n} questions of five kinds have exactly the answer "
        f"that plain Python gives. The language model gets there in {figures.score_text(chosen)} by picking the query, "
        f"in {figures.score_text(generated)} by writing it.",
    )


# --------------------------------------------------------------------------------------------------------- label lock


def contradicting(readings: Sequence[Reading], *, label_only: bool = False) -> Score:
    """Share of answers whose label or words contradict the evidence, or whose label alone does."""
    return proportion(sum(r.wrong_label if label_only else r.contradicts for r in readings), len(readings))


def saying_no(readings: Sequence[Reading]) -> Score:
    """Share of answers that begin with NO."""
    return proportion(sum(r.label is False for r in readings), len(readings))


def strata(readings: Sequence[Reading]) -> dict[str, list[Reading]]:
    """The answers by what their evidence says; what no answer is about is left out."""
    found = {what: [r for r in readings if r.question.label == listed] for what, listed in EVIDENCE.items()}
    return {what: mine for what, mine in found.items() if mine}


def lock_table(readings: Mapping[str, Sequence[Reading]]) -> pd.DataFrame:
    """How often the answers contradict their evidence, by way of answering and by what the evidence says.

    A drug has one pair of each kind as long as there are enough drugs, so the answers of a row are independent.
    """
    rows = []
    for name, of_way in readings.items():
        for what, mine in strata(of_way).items():
            rows.append(
                {
                    "answers": LOCKS[name],
                    "about": what,
                    "n": len(mine),
                    "label contradicts": contradicting(mine, label_only=True),
                    "label or words contradict": contradicting(mine),
                    "says NO": saying_no(mine),
                    "no YES or NO": sum(r.label is None for r in mine),
                    "words unclear": sum(r.unclear for r in mine),
                    "sentences replaced": sum(r.replaced for r in mine) if name == "checked" else None,
                }
            )
    return pd.DataFrame(rows)


def contradictions_table(readings: Mapping[str, Sequence[Reading]], most: int = 3) -> pd.DataFrame:
    """Some answers that contradict their evidence, of each way of answering."""
    return pd.DataFrame(
        [
            {
                "answers": LOCKS[name],
                "evidence": f"{r.question.drug}, {r.question.side_effect}: "
                + ("listed" if r.question.label else "not listed"),
                "answer": r.text,
            }
            for name, mine in readings.items()
            for r in [r for r in mine if r.contradicts][:most]
        ],
        columns=["answers", "evidence", "answer"],
    )


def report_lock(run: Run, readings: Mapping[str, Sequence[Reading]]) -> None:
    """Keep the shares in the record, and decide whether locking the label gives fidelity.

    The words of the last way are made to fit by the same rules that judge them, so the one before decides.
    """
    for name, of_way in readings.items():
        for what, mine in strata(of_way).items():
            id, words = f"label_lock.{name}.{'listed' if EVIDENCE[what] else 'not_listed'}", f"{what}, {LOCKS[name]}"
            label = replace(contradicting(mine, label_only=True), unparsed=sum(r.label is None for r in mine))
            run.extra(id, f"label or words contradict, {words}", contradicting(mine))
            run.extra(f"{id}.label", f"label contradicts the evidence, {words}", label)
            run.extra(f"{id}.says_no", f"answers NO, {words}", saying_no(mine))
    replaced = proportion(sum(r.replaced for r in readings["checked"]), len(readings["checked"]))
    run.extra("label_lock.checked.replaced", "sentences that the check replaced", replaced)
    locked = readings["label"]
    texts = [
        f"{LOCKS[name]}: "
        + ", ".join(f"{figures.score_text(contradicting(mine))} about {what}" for what, mine in strata(of_way).items())
        for name, of_way in readings.items()
    ]
    run.claim(
        "side_effects.claim.label_lock_gives_fidelity",
        verdicts.exactly(not any(r.contradicts for r in locked)),
        f"Contradict their evidence: {'; '.join(texts)}. The verdict is that of the locked label with the words as the "
        f"model wrote them; of these {len(locked)} sentences {sum(r.unclear for r in locked)} neither affirm nor deny "
        "clearly, and the rules cannot judge them.",
    )
