"""What a run of answers about charts reports: accuracy, citations, paired test, claims, the medication timeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.dates import DateFormatter, YearLocator
from matplotlib.figure import Figure

from helpers.results import figures
from helpers.results.metrics import Paired, Score, bootstrap, paired_means, proportion
from helpers.results.record import Run
from helpers.results.verdicts import ALPHA, Tested, above, all_of
from papers.clinical_notes.answers import (
    KINDS,
    NOT_FOUND,
    ChartQuestion,
    Cited,
    Right,
    Value,
    answers_right,
    citations,
    is_right,
    is_unparsed,
    read_dose,
    supports,
)
from papers.clinical_notes.gold import Chart, Charts
from papers.clinical_notes.questions import exposures

CLAIM = "clinical_notes.claim."
TOLD, ABSENT = "all that the chart tells", "not in the chart"
GROUPS = (*KINDS, ABSENT)
HALF = 0.5
"""From which share on a kind of question counts as answered, and answers as backed; a bound of this project."""
MARKERS = ("o", "s", "D", "^")
RAG = "model, retrieved passages"
ORACLE = "model, right passages"
CODE = "code, extracted registry"
CEILING = "code, registry without errors"
COLOURS = ("#125ee0", "#c35410", "#af219d", "#079c6b")
LANE = "#125ee0"


# -------------------------------------------------------------------------------------------------------------- scores


def share(flags: Sequence[bool], clusters: Sequence[str], unparsed: int = 0) -> Score:
    """A share with its interval: Wilson's, or where several rows belong together a bootstrap over clusters."""
    if len(set(clusters)) == len(clusters):
        return proportion(sum(flags), len(flags), unparsed=unparsed)
    return replace(bootstrap([float(flag) for flag in flags], clusters=clusters), unparsed=unparsed)


def marked(charts: Charts, caption: str) -> str:
    """A caption that says first what the charts are."""
    return f"{charts.mark}. {caption}"


def correctness(
    questions: Sequence[ChartQuestion],
    by_model: Mapping[str, Sequence[Cited]],
    by_code: Mapping[str, Sequence[Value | None]],
) -> dict[str, list[bool]]:
    """Which questions each way of answering has right, in their order."""
    right = {
        name: [answers_right(q, a) for q, a in zip(questions, answers, strict=True)]
        for name, answers in by_model.items()
    }
    return right | {
        name: [is_right(q, value) for q, value in zip(questions, values, strict=True)]
        for name, values in by_code.items()
    }


def group(question: ChartQuestion) -> str:
    """The kind of a question, or that its answer is not in the chart."""
    return question.kind if question.answerable else ABSENT


def _of(questions: Sequence[ChartQuestion], name: str) -> list[int]:
    """Places of the questions of a group, or of all that the chart answers."""
    return [i for i, q in enumerate(questions) if group(q) == name or (name == TOLD and q.answerable)]


def _share(questions: Sequence[ChartQuestion], flags: Sequence[bool], of: Sequence[int], unparsed: int = 0) -> Score:
    return share([flags[i] for i in of], [questions[i].patient for i in of], unparsed)


def questions_words(questions: Sequence[ChartQuestion]) -> str:
    """How many questions there are, and about how many patients."""
    return f"{len(questions)} questions about {len({q.patient for q in questions})} patients"


def right_passages_words(questions: Sequence[ChartQuestion], right: Sequence[Right]) -> str:
    """For how many questions not all passages that hold a part of the answer could be shown."""
    cut = [question.kind for question, of in zip(questions, right, strict=True) if of.left_out]
    if not cut:
        return "All passages that hold a part of an answer are shown."
    kinds = ", ".join(f"{kind} {cut.count(kind)}" for kind in KINDS if kind in cut)
    return (
        f"Of {len(cut)} questions ({kinds}) not all passages that hold a part of the answer could be shown, but the "
        "first and the last by date: an answer that is a list may then be incomplete with the right passages too."
    )


def questions_table(questions: Sequence[ChartQuestion]) -> pd.DataFrame:
    """How many questions of each kind there are, with one as an example and its answer."""
    rows = []
    for name in GROUPS:
        of = [q for q in questions if group(q) == name]
        if of:
            right = " or ".join(spoken(v) for v in of[0].truth) if of[0].truth else NOT_FOUND
            patients = len({q.patient for q in of})
            rows.append(
                {"kind": name, "n": len(of), "patients": patients, "for example": of[0].text, "right is": right}
            )
    return pd.DataFrame(rows)


def accuracy_table(
    run: Run,
    questions: Sequence[ChartQuestion],
    by_model: Mapping[str, Sequence[Cited]],
    right: Mapping[str, Sequence[bool]],
) -> pd.DataFrame:
    """Share of right answers by kind and way, kept in the record; unread answers of the model are counted as wrong."""
    rows = []
    for name in (*KINDS, TOLD, ABSENT):
        of = _of(questions, name)
        if not of:
            continue
        patients = len({questions[i].patient for i in of})
        row: dict[str, object] = {"question": name, "n": len(of), "patients": patients}
        for way, flags in right.items():
            unread = sum(is_unparsed(by_model[way][i]) for i in of) if way in by_model else 0
            score = _share(questions, flags, of, unread)
            run.extra(f"answers.{_id(way)}.{_id(name)}", f"right answers, {way}, {name}", score)
            row[way] = score
        rows.append(row)
    return pd.DataFrame(rows)


def draw_accuracy(questions: Sequence[ChartQuestion], right: Mapping[str, Sequence[bool]]) -> Figure:
    """Right answers by kind of question and way of answering, with 95 % intervals."""
    names = [name for name in GROUPS if _of(questions, name)]
    fig, axes = plt.subplots(figsize=(7.2, 0.5 * len(names) + 1.5))
    for i, (way, flags) in enumerate(right.items()):
        scores = [_share(questions, flags, _of(questions, name)) for name in names]
        at = np.arange(len(names)) + 0.19 * (i - (len(right) - 1) / 2)
        axes.hlines(at, [s.low for s in scores], [s.high for s in scores], color=COLOURS[i], linewidth=1.6)
        axes.plot([s.value for s in scores], at, MARKERS[i], color=COLOURS[i], markersize=6, label=way, clip_on=False)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.set_xlim(0, 1)
    axes.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)
    fig.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return fig


def accuracy_words(questions: Sequence[ChartQuestion], right: Mapping[str, Sequence[bool]]) -> str:
    """What the figure of right answers shows, in words."""
    parts = []
    for name in GROUPS:
        if of := _of(questions, name):
            counts = ", ".join(f"{way} {sum(flags[i] for i in of)}" for way, flags in right.items())
            parts.append(f"{name}, of {len(of)}: {counts}")
    return f"Right answers by kind of question. {'; '.join(parts)}."


def citations_table(run: Run, questions: Sequence[ChartQuestion], answers: Sequence[Cited]) -> pd.DataFrame:
    """How good the citations are, kept in the record."""
    found = citations(questions, answers)
    labels = {
        "cited": "answers that cite a shown passage",
        "resolve": "citations whose number is that of a shown passage",
        "precision": "precision: cited passages that hold the answer",
        "recall": "recall: shown passages that hold the answer and are cited",
    }
    rows = []
    for name, label in labels.items():
        score = _cited(found[name])
        if score:
            run.extra(f"answers.citations.{name}", label, score)
        patients = len({patient for patient, _ in found[name]})
        rows.append({"what": label, "of": len(found[name]), "patients": patients, "share": score})
    return pd.DataFrame(rows)


def _cited(found: Sequence[tuple[str, bool]]) -> Score | None:
    return share([good for _, good in found], [patient for patient, _ in found]) if found else None


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
        silent = _share(questions, [a.not_found for a in answers], of)
        right = _share(questions, [answers_right(q, a) for q, a in zip(questions, answers, strict=True)], of)
        run.extra(f"answers.not_found.{_id(name)}", f"says {NOT_FOUND!r} where {name}", silent)
        rows.append({"where": name, "questions": len(of), f"says {NOT_FOUND!r}": silent, "right": right})
    return pd.DataFrame(rows)


def compare(questions: Sequence[ChartQuestion], right: Mapping[str, Sequence[bool]]) -> Paired:
    """Code on the registry minus the model with passages, on the questions that the chart answers, by patient."""
    of = _of(questions, TOLD)
    code, model = ([float(right[way][i]) for i in of] for way in (CODE, RAG))
    return paired_means(code, model, clusters=[questions[i].patient for i in of])


def report_comparison(run: Run, test: Paired) -> None:
    """Keep the difference in the record."""
    score = Score(test.difference, test.n, test.low, test.high)
    run.extra("answers.code_less_model", "right answers, code on the registry minus model with passages", score)


def examples(questions: Sequence[ChartQuestion], answers: Sequence[Cited], each: int = 1) -> pd.DataFrame:
    """Of each kind, questions with the model's words beside what is right."""
    rows = []
    for name in GROUPS:
        for i in _of(questions, name)[:each]:
            q, a = questions[i], answers[i]
            rows.append(
                {
                    "question": q.text,
                    "answer": a.reply.text or a.reply.status,
                    "cites": ", ".join(c.id for c in a.passages) or "nothing shown",
                    "right is": " or ".join(spoken(v) for v in q.truth) if q.truth else NOT_FOUND,
                    "verdict": "right" if answers_right(q, a) else "not read" if is_unparsed(a) else "wrong",
                }
            )
    return pd.DataFrame(rows)


def spoken(value: Value) -> str:
    """A value as a reader says it."""
    if isinstance(value, frozenset):
        return ", ".join(sorted(value))
    if isinstance(value, tuple):
        return f"{value[0]} to {value[1]}"
    return f"{value:g}" if isinstance(value, float) else value


def decide_claims(
    run: Run,
    questions: Sequence[ChartQuestion],
    answers: Sequence[Cited],
    right: Mapping[str, Sequence[bool]],
) -> None:
    """The paper's statements about its answers, by the tests that `data/published/clinical_notes.yml` states."""
    shares = {kind: _share(questions, right[RAG], of) for kind in KINDS if (of := _of(questions, kind))}
    unasked: list[Tested] = ["undecided"] * (len(KINDS) - len(shares))
    run.claim(
        CLAIM + "answers_seven_kinds",
        all_of([*(above(score, HALF) for score in shares.values()), *unasked]),
        f"Right answers by kind, bar {figures.number(HALF, digits=0)}: "
        + "; ".join(f"{kind} {figures.score_text(score)} of {score.n}" for kind, score in shares.items())
        + ".",
    )
    found = citations(questions, answers)
    backed, precise = _cited(found["cited"]), _cited(found["precision"])
    if backed is None:
        run.claim(
            CLAIM + "answers_backed_by_evidence", "undecided", "The model gave no answer that could cite a passage."
        )
        return
    words = (
        "none cites a passage of a question that the chart answers"
        if precise is None
        else f"{figures.score_text(precise)} of the {precise.n} citations lead to a passage that holds the answer"
    )
    run.claim(
        CLAIM + "answers_backed_by_evidence",
        all_of([above(backed, HALF), "undecided" if precise is None else above(precise, HALF)]),
        f"{figures.score_text(backed)} of {backed.n} answers cite a shown passage; {words}; bar for both "
        f"{figures.number(HALF, digits=0)}.",
    )


def summary(charts: Charts, questions: Sequence[ChartQuestion], right: Mapping[str, Sequence[bool]], model: str) -> str:
    """The page's answer in a few sentences: on the questions that the chart answers, and apart on the others."""
    told, absent = _of(questions, TOLD), _of(questions, ABSENT)
    shares = {way: figures.score_text(_share(questions, flags, told)) for way, flags in right.items()}
    test = compare(questions, right)
    words = "The difference is more than chance" if test.p < ALPHA else "That difference can be chance"
    silent = (
        f" Where the chart does not tell ({len(absent)} questions), the model says so in "
        f"{figures.score_text(_share(questions, right[RAG], absent))}, the code in "
        f"{figures.score_text(_share(questions, right[CODE], absent))}."
        if absent
        else ""
    )
    return (
        f"**On {charts.mark}: {model} with retrieved passages answers {shares[RAG]} of {len(told)} questions of the "
        f"paper's seven kinds, about {len({questions[i].patient for i in told})} patients; a few lines of code on the "
        f"registry answer {shares[CODE]} of the same.** The bar of this project is {figures.number(HALF, digits=0)} of "
        f"each kind. {words} ({figures.points(test)} points for the code, by patient, {figures.p_words(test.p)}); on a "
        f"registry without extraction errors the code would reach {shares[CEILING]}, and the model, given the right "
        f"passages, {shares[ORACLE]}.{silent}"
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


def registry_doses(registry: pd.DataFrame, patient: str, antiseizure: Sequence[str]) -> pd.DataFrame:
    """The same table as `daily_doses`, from a registry's rows; a registry knows no actions."""
    rows = registry[(registry.patient_id == patient) & registry.medication.isin(list(antiseizure))]
    once = [read_dose(str(text)) if text else None for text in rows.medication_dosage]
    times = pd.to_numeric(rows.intake_times_per_day, errors="coerce").to_numpy()
    table = pd.DataFrame(
        {
            "drug": rows.medication.to_numpy(),
            "date": pd.to_datetime(rows.note_date).to_numpy(),
            "mg": np.array([np.nan if mg is None else mg for mg in once], dtype=float) * times,
            "action": "continue",
        }
    )
    return table.sort_values("date", kind="stable").reset_index(drop=True)


def registry_words(gold: pd.DataFrame, found: pd.DataFrame) -> str:
    """How the registry's timeline differs from the gold one, in words."""
    missed, invented = sorted(set(gold.drug) - set(found.drug)), sorted(set(found.drug) - set(gold.drug))
    doses = set(zip(found.drug, found.date, found.mg, strict=True))
    known = gold.dropna(subset="mg")
    same = sum(row in doses for row in zip(known.drug, known.date, known.mg, strict=True))
    return (
        f"{same} of the {len(known)} dated daily doses are in the registry as they are; drugs that it lacks: "
        f"{', '.join(missed) or 'none'}; drugs that it adds: {', '.join(invented) or 'none'}."
    )


def draw_timeline(doses: pd.DataFrame, seizures: pd.DataFrame | None = None) -> Figure:
    """Swim lanes: a lane a drug, whose bar is as high as its daily dose is large, and below them the seizures.

    Args:
        doses: drug, date, mg a day, action; as `daily_doses` gives them.
        seizures: date and rate a month, or None to leave them out.
    """
    drugs = list(dict.fromkeys(doses.drug))[::-1]  # the first one on top
    height = max(1.0, 0.55 * len(drugs))
    if seizures is None:
        fig, lanes = plt.subplots(figsize=(7.2, height + 0.6))
    else:
        fig, (lanes, below) = plt.subplots(2, 1, figsize=(7.2, height + 2.0), sharex=True, height_ratios=[height, 1.2])
        _draw_seizures(below, seizures)
    # numbers nearer to each other than this would overlap
    apart = (doses.date.max() - doses.date.min()) / 22
    for lane, drug in enumerate(drugs):
        of = doses[doses.drug == drug]
        known = of.dropna(subset="mg").drop_duplicates("date", keep="last")
        top = known.mg.max() if len(known) else 1.0
        days = [*known.date, of.date.max()]
        for begin, until, mg in zip(days[:-1], days[1:], known.mg, strict=True):
            lanes.fill_between([begin, until], lane, lane + 0.62 * mg / top, color=LANE, alpha=0.6, linewidth=0)
        lanes.plot(of.date, np.full(len(of), lane), "|", color=figures.INK, markersize=5, markeredgewidth=1)
        changed, written = known[known.mg.diff().fillna(1) != 0], None
        for begin, mg in zip(changed.date, changed.mg, strict=True):
            if written is None or begin - written >= apart:
                lanes.annotate(f"{mg:g}", (begin, lane), xytext=(1, -10), textcoords="offset points", fontsize=7.5)
                written = begin
        stopped = of[of.action == "stop"]
        lanes.plot(stopped.date, np.full(len(stopped), lane), "X", color=figures.INK, markersize=6.5)
    lanes.set_yticks(np.arange(len(drugs)) + 0.25, drugs)
    lanes.set_ylim(-0.4, len(drugs))
    lanes.tick_params(axis="y", length=0)
    lanes.spines["left"].set_visible(False)
    lanes.xaxis.set_major_locator(YearLocator())
    lanes.xaxis.set_major_formatter(DateFormatter("%Y"))
    return fig


def _draw_seizures(axes: Axes, seizures: pd.DataFrame) -> None:
    axes.plot(seizures.date, seizures.rate, color="#808080", linewidth=1, zorder=1)
    free = seizures.rate == 0
    for of, colour, label in ((~free, "#b3261e", "seizures"), (free, "#079c6b", "seizure-free")):
        if of.any():
            axes.plot(seizures.date[of], seizures.rate[of], "o", color=colour, markersize=5, label=label)
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(-0.35, 100)
    axes.set_yticks([0, 1, 4, 12, 30], ["0", "1", "4", "12", "30"])
    axes.set_yticks([], minor=True)
    axes.tick_params(axis="y", labelsize=8.5)
    axes.set_ylabel("seizures\na month")
    axes.legend(loc="upper right", ncols=2)


def seizure_rates(chart: Chart) -> pd.DataFrame:
    """Dated seizures a month of a chart, from its own sentences that give a number: date, rate."""
    own = [(pd.Timestamp(s.date), s.per_month) for s in chart.seizures if s.copied_from is None]
    table = pd.DataFrame(own, columns=["date", "rate"]).dropna()
    return table.sort_values("date").reset_index(drop=True)


def timeline_words(chart: Chart, doses: pd.DataFrame) -> str:
    """What the timeline shows, for who cannot see it."""
    spans = exposures(chart)
    parts = []
    for drug, of in doses.groupby("drug", sort=False):
        known = of.mg.dropna()
        steps = list(dict.fromkeys(f"{mg:g}" for mg in (known.iloc[0], known.max()))) if len(known) else []
        dose = f", {' to '.join(steps)} mg a day" if steps else ""
        parts.append(f"{drug} from {spans[str(drug)][0]} to {spans[str(drug)][1]}{dose}")
    rates = seizure_rates(chart).rate.tolist()
    course = f"Seizures a month from {rates[0]:g} at first to {rates[-1]:g} at last" if rates else "No seizure counts"
    return f"Swim lanes of patient {chart.patient_id}: {'; '.join(parts)}. {course}; outcome {chart.outcome}."


def richest(charts: Sequence[Chart], antiseizure: Sequence[str], n: int) -> list[Chart]:
    """The `n` charts with most antiseizure drugs, in order of that number."""
    return sorted(charts, key=lambda c: (-len(set(daily_doses(c, antiseizure).drug)), c.patient_id))[:n]


def _id(name: str) -> str:
    return "_".join("".join(c if c.isalnum() else " " for c in name.lower()).split())
