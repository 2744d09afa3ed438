"""What notebook 01 shows beyond its rows of answers: the data, and where Format A's released answers break off."""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from evaluation import audit, figures
from evaluation.metrics import Score, ratio
from evaluation.outcomes import Outcomes
from evaluation.published import Number
from evaluation.record import Run
from papers.side_effects.corpus import Question
from papers.side_effects.forward import ARMS, METRICS, MODELS

LABELS = {arm: label for arm, (label, _) in figures.ARMS.items()} | {
    "format_a_cut": "RAG, Format A, documents cut"
}


def report_data(run: Run, benchmark: Sequence[Question]) -> figures.Html:
    """Report the benchmark's counts and show them beside the printed ones; a sample has none to report."""
    per_label = pd.crosstab([q.drug for q in benchmark], [q.label for q in benchmark])
    counts = {
        "pairs": len(benchmark),
        "drugs": len({q.drug for q in benchmark}),
        "effects": len({q.side_effect for q in benchmark}),
        "positives_per_drug": per_label[True].mean(),
        "negatives_per_drug": per_label[False].mean(),
    }
    rows = []
    for name, count in counts.items():
        number = run.printed.number(f"side_effects.text.{name}")
        rows.append({"what": number.column, "printed": number.printed, "counted": f"{count:,.6g}"})
        if run.sample:
            run.not_run(number.id, "The data are SAMPLE.", kind="rescored")
        else:
            run.rescored(number.id, float(count), source="side_effects/evaluation_dataset.csv")
    return figures.table(pd.DataFrame(rows), "The benchmark", sample=run.sample)


def answer(outcomes: Outcomes, model: str) -> str:
    """The chapter's answer in three sentences, from the rows."""
    rerun = outcomes.where(source="rerun", model=[model, ""])
    closed, *others = (rerun.score("accuracy", arm) for arm in ARMS)
    lowest = min(score.value for score in others)
    told = (
        f"Without retrieval, {model} is right in {figures.score_text(closed)} of {closed.n:,} pairs; chance is 50 %. "
        f"With retrieval or a graph it is right in at least {figures.number(lowest)}, because the filter or the query "
        "answers the question and the model repeats it."
    )
    released = outcomes.where(source="released")
    if not len(released.frame):
        return told
    gains = ", ".join(
        f"{figures.points(c.test)} points with {c.model}"
        for c in released.compare([("format_b", "format_a")], "accuracy", within="model")
    )
    return (
        f"{told} In the released answers, pairs (Format B) beat lists (Format A) by {gains}: the lists mostly "
        "miss effects beyond character 2,000, as if the prompts had been cut there."
    )


def report_tables(run: Run, outcomes: Outcomes, model: str, second_model: str, why: str) -> None:
    """Report Tables 1 to 3: the released answers of both models, and this run's.

    `model` and `second_model` answered here for the paper's first and second model; `why` there is no second, if so.
    """
    released = outcomes.where(source="released")
    names = {}
    for (paper_model, table), served in zip(MODELS.items(), (model, second_model), strict=True):
        names[paper_model] = (
            run.printed.number(f"side_effects.{table}.graphrag.accuracy").model or ""
        )
        mine = outcomes.where(source="rerun", model=served or "none")
        run.report(released.concat(mine), f"side_effects.{table}", METRICS, model=served)
        for arm in ARMS:
            number = run.printed.number(f"side_effects.table3.{arm}.{paper_model}")
            if len(released.frame):
                score = released.where(model=names[paper_model]).score("accuracy", arm)
                run.rescored(number.id, score, source=number.rescore_from[0])
            if served:
                run.rerun(number.id, mine.score("accuracy", arm), model=served)
    for arm in ARMS:
        number = run.printed.number(f"side_effects.table3.{arm}.difference")
        if len(released.frame):
            points, note = _difference(
                released.where(arm=arm), names["qwen"], names["llama"], number
            )
            run.rescored(number.id, points, source=number.rescore_from[0], note=note)
        if second_model:
            points, note = _difference(
                outcomes.where(source="rerun", arm=arm), model, second_model, number
            )
            run.rerun(number.id, points, model=f"{model} and {second_model}", note=note)
    for id in (number.id for number in run.printed.numbers):
        of_second = id.startswith("side_effects.table2.") or (
            ".table3." in id and not id.endswith(".qwen")
        )
        if of_second and not second_model:
            run.not_run(id, why)
        elif id.startswith("side_effects.text.chatgpt_") and not id.endswith("_drugs"):
            run.cannot_run(id, "A hosted model of 2023 or 2024, no longer served in that version.")


def _difference(of_arm: Outcomes, first: str, second: str, number: Number) -> tuple[Score, str]:
    """The accuracy of one model minus that of another, in points, and what UNKNOWN as a wrong answer makes of it."""
    rows = of_arm.frame
    rows = rows[rows.groupby("unit").model.transform("nunique") == rows.model.nunique()]
    # one arm by two models: each model is an arm of its own here
    found = (
        Outcomes(rows.assign(arm=rows.model), draws=of_arm.draws)
        .compare([(first, second)], "accuracy")[0]
        .test
    )
    strict = (rows.predicted == rows.gold).groupby(rows.model).mean()
    wrong = number.show(100 * (strict[first] - strict[second]), 1)
    note = f"UNKNOWN counts as NO, as in Tables 1 and 2; where it counts as wrong, the difference is {wrong}."
    points = Score(100 * found.difference, found.n, 100 * found.low, 100 * found.high)
    return points, "" if rows.parsed.all() else note


def sides(outcomes: Outcomes, cut: int) -> str:
    """Format A's share of documented effects found that end before and beyond a character, and Format B's before it."""
    rows = outcomes.where(arm="format_a", gold="YES").frame
    rows = rows.assign(
        place=[of[audit.PLACE][0] if audit.PLACE in of else np.nan for of in rows.measures]
    )
    within = outcomes.where(arm="format_b", unit=list(rows.unit[rows.place <= cut].unique()))

    def found(part: pd.DataFrame) -> str:
        return figures.score_text(
            ratio(part.predicted == "YES", np.ones(len(part)), clusters=part.cluster)
        )

    return " ".join(
        f"{model} finds {found(of[of.place <= cut])} of the effects before it, of which Format B finds "
        f"{found(within.where(model=str(model)).frame)}, and {found(of[of.place > cut])} of those beyond it."
        for model, of in rows.groupby("model")
    )


def recorded(files: Iterable[Path]) -> list[tuple[bool, float]]:
    """Whether each released prediction is right, and the confidence that it records; UNKNOWN is NO."""
    rows = [
        row for file in files for row in json.loads(file.read_text("utf-8"))["detailed_results"]
    ]
    return [
        ((row["predicted"] == "YES") == bool(row["true_label"]), row["confidence"]) for row in rows
    ]


def confidences(of: Iterable[tuple[bool, float]]) -> str:
    """The confidences of `recorded` in words."""
    told = (
        f"{sure:g} for {n:,} {'right' if right else 'wrong'}"
        for (right, sure), n in sorted(Counter(of).items())
    )
    return f"Recorded confidence of GraphRAG's answers: {', '.join(told)}"


def draw_places(outcomes: Outcomes, cut: int, width: int = 100, last: int = 3000) -> Figure:
    """Share of right answers by the measure `place`, a line a model, with 95 % intervals over drugs.

    A dashed line stands at `cut`; a bin is `width` characters wide; rows beyond `last` are in the last bin.
    """
    rows = outcomes.frame[[audit.PLACE in of for of in outcomes.frame.measures]]
    places = np.array([of[audit.PLACE][0] for of in rows.measures])
    rows = rows.assign(
        bin=(places.clip(0, last - 1) // width).astype(int), found=rows.predicted == "YES"
    )
    fig, axes = plt.subplots()
    colours = (figures.arm_colour("format_b"), figures.arm_colour("closed_book"))
    for colour, (model, of) in zip(colours, rows.groupby("model"), strict=True):
        shares = [
            ratio(part.found, np.ones(len(part)), clusters=part.cluster)
            for _, part in of.groupby("bin")
        ]
        centres = (np.unique(of.bin) + 0.5) * width
        axes.plot(centres, [s.value for s in shares], "o-", markersize=4, color=colour, label=model)
        axes.fill_between(
            centres, [s.low for s in shares], [s.high for s in shares], color=colour, alpha=0.2
        )
    axes.axvline(cut, color=figures.INK, linestyle="--", linewidth=1.2)
    axes.set(
        xlabel=f"character of the prompt at which the effect ends (last bin: {last - width:,} and beyond)"
    )
    axes.set(ylabel="share found", ylim=(-0.02, 1.02), xlim=(0, last))
    axes.yaxis.set_major_formatter(lambda value, _: f"{100 * value:.0f} %")
    axes.legend()
    return fig


def by_name(outcomes: Outcomes, label: str) -> Outcomes:
    """False pairs by arm and model, with the stratum `name`: whether the question holds the label inside a word."""
    rows = outcomes.where(gold="NO").frame
    holds = rows.question.str.contains(label, case=False)
    strata = holds.map(lambda hit: {"name": f'"{label}" in the name' if hit else "other names"})
    # the panel of the few rows comes first
    rows = rows.assign(strata=strata, arm=rows.arm.map(outcomes.label) + ", " + rows.model).loc[
        (~holds).sort_values().index
    ]
    return Outcomes(rows, draws=outcomes.draws)
