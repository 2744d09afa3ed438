"""What a run of answers about charts reports: accuracy, citations, paired test, claims, the medication timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers import figures
from helpers.clinical_answers import (
    KINDS,
    NOT_FOUND,
    ChartQuestion,
    Cited,
    Value,
    answers_right,
    citation_counts,
    is_right,
    is_unparsed,
    supports,
)
from helpers.clinical_gold import Chart
from helpers.clinical_questions import exposures
from helpers.clinical_retrieval_report import p_text
from helpers.metrics import Paired, Score, mcnemar, proportion
from helpers.record import Run

CLAIM = "clinical_notes.claim."
RAG = "language model with passages"
CODE = "code on the registry"
CEILING = "code on a registry without errors"
COLOURS = ("#125ee0", "#c35410", "#af219d", "#079c6b", "#8a6d00", "#5b5bd6", "#b3261e", "#4b7f52")


# -------------------------------------------------------------------------------------------------------------- scores


def correctness(
    questions: Sequence[ChartQuestion], answers: Sequence[Cited], by_code: Mapping[str, Sequence[Value | None]]
) -> dict[str, list[bool]]:
    """Which questions each way of answering has right, in their order."""
    right = {RAG: [answers_right(q, a) for q, a in zip(questions, answers, strict=True)]}
    return right | {
        name: [is_right(q, value) for q, value in zip(questions, values, strict=True)]
        for name, values in by_code.items()
    }


def group(question: ChartQuestion) -> str:
    """The kind of a question, or that its answer is not in the chart."""
    return question.kind if question.answerable else "not in the chart"


def accuracy_table(
    run: Run, questions: Sequence[ChartQuestion], answers: Sequence[Cited], right: Mapping[str, Sequence[bool]]
) -> pd.DataFrame:
    """Share of right answers by kind and way, kept in the record; unread answers of the model are counted as wrong."""
    rows = []
    for name in (*KINDS, "not in the chart", "all"):
        of = [i for i, q in enumerate(questions) if name in (group(q), "all")]
        if not of:
            continue
        unread = sum(is_unparsed(answers[i]) for i in of)
        row: dict[str, object] = {"question": name, "n": len(of)}
        for way, flags in right.items():
            k = sum(flags[i] for i in of)
            score = proportion(k, len(of), unparsed=unread if way == RAG else 0)
            run.extra(f"answers.{_id(way)}.{_id(name)}", f"right answers, {way}, {name}", score)
            row[way] = Score(score.value, score.n, score.low, score.high)
        rows.append(row | {"answers that could not be read": unread})
    return pd.DataFrame(rows)


def citations_table(run: Run, questions: Sequence[ChartQuestion], answers: Sequence[Cited]) -> pd.DataFrame:
    """How good the citations are, kept in the record."""
    counts = citation_counts(questions, answers)
    labels = {
        "cited": "answers that cite a shown passage",
        "resolve": "citations whose number is that of a shown passage",
        "precision": "precision: cited passages that hold the answer",
        "recall": "recall: shown passages that hold the answer and are cited",
    }
    rows = []
    for name, label in labels.items():
        hits, of = (sum(column) for column in zip(*counts.get(name, [(0, 0)]), strict=True))
        score = proportion(hits, of) if of else None
        if score:
            run.extra(f"answers.citations.{name}", label, score)
        rows.append({"what": label, "of": of, "share": score})
    return pd.DataFrame(rows)


def found_table(run: Run, questions: Sequence[ChartQuestion], answers: Sequence[Cited]) -> pd.DataFrame:
    """How often the model says that the chart does not tell, where it does not and where it does."""
    rows = []
    shown = [any(supports(q, c) for c in a.shown) for q, a in zip(questions, answers, strict=True)]
    cases = {
        "the chart does not tell": [i for i, q in enumerate(questions) if not q.answerable],
        "the chart tells, and a shown passage does": [i for i, q in enumerate(questions) if q.answerable and shown[i]],
        "the chart tells, but no shown passage does": [
            i for i, q in enumerate(questions) if q.answerable and not shown[i]
        ],
    }
    for name, of in cases.items():
        if not of:
            continue
        silent = proportion(sum(answers[i].not_found for i in of), len(of))
        right = proportion(sum(answers_right(questions[i], answers[i]) for i in of), len(of))
        run.extra(f"answers.not_found.{_id(name)}", f"says {NOT_FOUND!r} where {name}", silent)
        rows.append({"where": name, "questions": len(of), f"says {NOT_FOUND!r}": silent, "right": right})
    return pd.DataFrame(rows)


def compare(right: Mapping[str, Sequence[bool]]) -> Paired:
    """McNemar's exact test of code on the registry against the model with passages, on the same questions."""
    return mcnemar(right[CODE], right[RAG])


def report_comparison(run: Run, test: Paired) -> None:
    """Keep the difference in the record."""
    score = Score(test.difference, test.n, test.low, test.high)
    run.extra("answers.code_less_model", "right answers, code on the registry less model with passages", score)


def examples(questions: Sequence[ChartQuestion], answers: Sequence[Cited], each: int = 1) -> pd.DataFrame:
    """Of each kind, questions with the model's words beside what is right."""
    rows = []
    for name in (*KINDS, "not in the chart"):
        of = [i for i, q in enumerate(questions) if group(q) == name][:each]
        for i in of:
            q, a = questions[i], answers[i]
            rows.append(
                {
                    "question": q.text,
                    "answer": a.reply.text or a.reply.status,
                    "cites": ", ".join(c.id for c in a.passages) or "nothing shown",
                    "right is": " or ".join(_spoken(v) for v in q.truth) if q.truth else NOT_FOUND,
                    "verdict": "right" if answers_right(q, a) else "not read" if is_unparsed(a) else "wrong",
                }
            )
    return pd.DataFrame(rows)


def _spoken(value: Value) -> str:
    if isinstance(value, frozenset):
        return ", ".join(sorted(value))
    if isinstance(value, tuple):
        return f"{value[0]} to {value[1]}"
    return f"{value:g}" if isinstance(value, float) else value


def points(test: Paired) -> str:
    """A difference of two accuracies in points with its interval."""
    value, low, high = 100 * test.difference, 100 * test.low, 100 * test.high
    return figures.number(value, "count", digits=1) + figures.interval(low, high, "count", digits=1)


def decide_claims(
    run: Run,
    questions: Sequence[ChartQuestion],
    answers: Sequence[Cited],
    right: Mapping[str, Sequence[bool]],
) -> None:
    """The paper's statements about its answers, by the tests that `data/published/clinical_notes.yml` states."""
    told = [i for i, q in enumerate(questions) if q.answerable]
    shares = {}
    for kind in KINDS:
        of = [i for i in told if questions[i].kind == kind]
        if of:
            shares[kind] = proportion(sum(right[RAG][i] for i in of), len(of))
    holds = all(score.value >= 0.5 for score in shares.values()) and len(shares) == len(KINDS)
    run.claim(
        CLAIM + "answers_seven_kinds",
        "agrees" if holds else "differs",
        "Right answers by kind: " + "; ".join(f"{kind} {figures.score_text(s)}" for kind, s in shares.items()) + ".",
    )
    counts = citation_counts(questions, answers)
    hits, of_citations = (sum(column) for column in zip(*counts.get("precision", [(0, 0)]), strict=True))
    cited, of_answers = (sum(column) for column in zip(*counts.get("cited", [(0, 0)]), strict=True))
    if of_citations and of_answers:
        precise, backed = proportion(hits, of_citations), proportion(cited, of_answers)
        run.claim(
            CLAIM + "answers_backed_by_evidence",
            "agrees" if precise.low > 0.5 and backed.low > 0.5 else "differs",
            f"{figures.score_text(backed)} of the answers cite a shown passage; {figures.score_text(precise)} of the "
            "citations lead to a passage that holds the answer.",
        )
    else:
        run.claim(
            CLAIM + "answers_backed_by_evidence",
            "differs",
            f"The model gave {of_answers} answers, none of which cites a passage.",
        )


def summary(right: Mapping[str, Sequence[bool]], model: str) -> str:
    """The page's answer in two sentences."""
    n = len(right[RAG])
    shares = {way: proportion(sum(flags), n) for way, flags in right.items()}
    test = compare(right)
    words = "The difference is more than chance" if test.p < 0.05 else "That difference can be chance"
    return (
        f"**{model} with retrieved passages answers {figures.score_text(shares[RAG])} of {n} questions of the paper's "
        f"seven kinds; a few lines of code on the registry answer {figures.score_text(shares[CODE])} of the same.** "
        f"{words} ({points(test)} points for the code, p {p_text(test.p)}); on a registry without extraction errors "
        f"the code would reach {figures.score_text(shares[CEILING])}."
    )


# ------------------------------------------------------------------------------------------------------- the timeline


def daily_doses(chart: Chart, antiseizure: Sequence[str]) -> pd.DataFrame:
    """Dated doses of a chart's regular antiseizure drugs, from its own sentences: drug, date, mg a day, action."""
    rows = [
        {
            "drug": m.drug,
            "date": pd.Timestamp(m.date),
            "mg": m.dose_mg * m.times_per_day if m.dose_mg and m.times_per_day else np.nan,
            "action": m.action,
        }
        for m in chart.medications
        if m.copied_from is None and not m.past and m.action != "single dose" and m.drug in antiseizure
    ]
    table = pd.DataFrame(rows, columns=["drug", "date", "mg", "action"])
    return table.sort_values("date", kind="stable").reset_index(drop=True)


def draw_timeline(chart: Chart, doses: pd.DataFrame) -> Figure:
    """Swim lanes: a lane a drug, whose bar is as high as its dose is large, and below them the seizures.

    Args:
        chart: whose seizures are drawn.
        doses: from `daily_doses`.
    """
    spans = exposures(chart)
    drugs = list(dict.fromkeys(doses.drug))[::-1]  # the first one on top
    fig, (lanes, below) = plt.subplots(
        2, 1, figsize=(7.2, 0.62 * len(drugs) + 2.6), sharex=True, height_ratios=[max(1.0, 0.62 * len(drugs)), 1.1]
    )
    for lane, drug in enumerate(drugs):
        of = doses[doses.drug == drug]
        known = of.dropna(subset="mg").drop_duplicates("date", keep="last")
        colour, end = COLOURS[lane % len(COLOURS)], pd.Timestamp(spans[drug][1])
        top = known.mg.max() if len(known) else 1.0
        days = [*known.date, max(end, known.date.max())] if len(known) else []
        for begin, until, mg in zip(days[:-1], days[1:], known.mg, strict=True):
            lanes.fill_between([begin, until], lane, lane + 0.75 * mg / top, color=colour, alpha=0.75, linewidth=0)
        changed = known[known.mg.diff().fillna(1) != 0]
        for begin, mg in zip(changed.date, changed.mg, strict=True):
            lanes.annotate(
                f"{mg:g}", (begin, lane), xytext=(1, -9), textcoords="offset points", fontsize=7.5, clip_on=False
            )
        stopped = of[of.action == "stop"]
        lanes.plot(stopped.date, np.full(len(stopped), lane + 0.12), "X", color=figures.INK, markersize=6)
    lanes.set_yticks(np.arange(len(drugs)) + 0.35, drugs)
    lanes.set_ylim(-0.35, len(drugs))
    lanes.tick_params(axis="both", length=0)
    lanes.spines["left"].set_visible(False)
    own = [(pd.Timestamp(s.date), s.per_month) for s in chart.seizures if s.copied_from is None]
    rates = pd.DataFrame(own, columns=["date", "rate"]).dropna().sort_values("date")
    below.plot(rates.date, rates.rate, color="#808080", linewidth=1, zorder=1)
    free = rates.rate == 0
    below.plot(rates.date[~free], rates.rate[~free], "o", color="#b3261e", markersize=5, label="seizures")
    below.plot(rates.date[free], rates.rate[free], "o", color="#079c6b", markersize=5, label="seizure-free")
    below.set_yscale("symlog", linthresh=1)
    below.set_ylim(-0.3, max(30.0, rates.rate.max() if len(rates) else 1) * 1.4)
    below.yaxis.set_major_formatter(lambda y, _: f"{y:g}")
    below.set_ylabel("seizures\na month")
    fig.legend(*below.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def timeline_words(chart: Chart, doses: pd.DataFrame) -> str:
    """What the timeline shows, for who cannot see it."""
    spans = exposures(chart)
    parts = []
    for drug, of in doses.groupby("drug", sort=False):
        known = of.mg.dropna()
        dose = f", {known.iloc[0]:g} to {known.max():g} mg a day" if len(known) else ""
        parts.append(f"{drug} from {spans[str(drug)][0]} to {spans[str(drug)][1]}{dose}")
    rates = [s.per_month for s in chart.seizures if s.copied_from is None and s.per_month is not None]
    course = f"Seizures a month from {rates[0]:g} at first to {rates[-1]:g} at last" if rates else "No seizure counts"
    return f"Swim lanes of patient {chart.patient_id}: {'; '.join(parts)}. {course}; outcome {chart.outcome}."


def richest(charts: Sequence[Chart], antiseizure: Sequence[str], n: int) -> list[Chart]:
    """The `n` charts with most antiseizure drugs, in order of that number."""
    return sorted(charts, key=lambda c: (-len(set(daily_doses(c, antiseizure).drug)), c.patient_id))[:n]


def _id(name: str) -> str:
    return "_".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
