"""What notebook 01 shows beyond its rows of answers: the data, and where Format A's released answers break off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers.results import audit, figures
from helpers.results.metrics import Score
from helpers.results.outcomes import Outcomes
from helpers.results.record import Run
from helpers.results.svg import INK
from papers.side_effects.corpus import Question
from papers.side_effects.forward import ARMS, METRICS, MODELS, share_of

LABELS = {arm: label for arm, (label, _) in figures.ARMS.items()} | {"format_a_cut": "RAG, Format A, documents cut"}


def report_data(run: Run, benchmark: Sequence[Question]) -> None:
    """Count the benchmark and report the counts beside those that the text prints; a sample has none to report."""
    per_label = pd.crosstab([q.drug for q in benchmark], [q.label for q in benchmark])
    counts = {
        "pairs": len(benchmark),
        "drugs": len({q.drug for q in benchmark}),
        "effects": len({q.side_effect for q in benchmark}),
        "positives_per_drug": per_label[True].mean(),
        "negatives_per_drug": per_label[False].mean(),
    }
    for name, count in counts.items():
        number = f"side_effects.text.{name}"
        if run.sample:
            run.not_run(number, "The data are SAMPLE.", kind="rescored")
        else:
            run.rescored(number, float(count), source="side_effects/evaluation_dataset.csv")


def describe_data(benchmark: Sequence[Question], knowledge: Mapping[str, Sequence[str]], longest: int) -> pd.DataFrame:
    """What there is, in numbers."""
    sizes = sorted(map(len, knowledge.values()))
    rows = {
        "pairs in the benchmark": len(benchmark),
        "drugs": len({q.drug for q in benchmark}),
        "distinct side effects asked about": len({q.side_effect for q in benchmark}),
        "drugs in the knowledge": len(knowledge),
        "documented drug and effect pairs": sum(sizes),
        "distinct documented effects": len({e for effects in knowledge.values() for e in effects}),
        "fewest effects of a drug": sizes[0],
        "most effects of a drug": sizes[-1],
        "characters of the longest Format A document": longest,
    }
    return pd.DataFrame({"what": list(rows), "count": list(rows.values())})


def answer(outcomes: Outcomes, model: str) -> str:
    """The chapter's answer in three sentences, from the rows."""
    rerun = outcomes.where(source="rerun", model=[model, ""])
    accuracy = {arm: rerun.score("accuracy", arm) for arm in ARMS}
    closed, lowest = (
        accuracy["closed_book"],
        min(score.value for arm, score in accuracy.items() if arm != "closed_book"),
    )
    told = (
        f"Without retrieval, {model} is right in {figures.score_text(closed)} of {closed.n} pairs; chance is 50 %. "
        f"With retrieval or a graph it is right in at least {figures.number(lowest)}, because the filter or the query "
        "answers the question and the model repeats it."
    )
    released = outcomes.where(source="released")
    if not len(released.frame):
        return told
    gains = ", ".join(
        f"{figures.points(c.test)} points with {c.model}"
        for c in released.against([("format_b", "format_a")], "accuracy", each="model")
    )
    return (
        f"{told} In the released answers, pairs (Format B) beat lists (Format A) by {gains}: the lists were cut off, "
        "as shown below."
    )


def report_tables(run: Run, outcomes: Outcomes, model: str, second_model: str, why: str) -> None:
    """Report Tables 1 to 3: the released answers of both models, and this run's.

    Args:
        run: takes the values.
        outcomes: rows of both sources.
        model, second_model: who answered here for the paper's first and second model; the second may be empty.
        why: there is no second model, for what has no rerun.
    """
    for table, here in (("table1", model), ("table2", second_model)):
        mine = outcomes.where(source="rerun", model=here) if here else outcomes.where(source="none")
        run.report(outcomes.where(source="released").and_(mine.frame), f"side_effects.{table}", METRICS, model=here)
        if not here:
            for number in run.printed.numbers:
                if number.id.startswith(f"side_effects.{table}."):
                    run.not_run(number.id, why)
    for hosted in ("chatgpt_3_5", "chatgpt_4"):
        run.cannot_run(
            f"side_effects.text.{hosted}", "A hosted model of 2023 or 2024, no longer served in that version."
        )
    _report_table3(run, outcomes, model, second_model, why)


def _report_table3(run: Run, outcomes: Outcomes, model: str, second_model: str, why: str) -> None:
    here = {"qwen": model, "llama": second_model}
    names = {
        m: run.printed.number(f"side_effects.{table}.graphrag.accuracy").model or "" for m, table in MODELS.items()
    }
    for arm in ARMS:
        of_arm = outcomes.where(arm=arm)
        for paper_model, name in names.items():
            id = f"side_effects.table3.{arm}.{paper_model}"
            released = of_arm.where(source="released", model=name)
            if len(released.frame):
                run.rescored(id, released.score("accuracy"), source=run.printed.number(id).rescore_from[0])
            if here[paper_model]:
                rerun = of_arm.where(source="rerun", model=here[paper_model])
                run.rerun(id, rerun.score("accuracy"), model=here[paper_model])
            else:
                run.not_run(id, why)
        difference = f"side_effects.table3.{arm}.difference"
        released = of_arm.where(source="released")
        if len(released.frame):
            # one arm by two models: each model is an arm of its own here
            by_model = Outcomes(released.frame.assign(arm=released.frame.model), draws=outcomes.draws)
            found = by_model.against([(names["qwen"], names["llama"])], "accuracy")[0].test
            points = Score(100 * found.difference, found.n, 100 * found.low, 100 * found.high)
            run.rescored(difference, points, source=run.printed.number(difference).rescore_from[0])
        if not second_model:
            run.not_run(difference, why)


def draw_places(outcomes: Outcomes, cut: int, width: int = 100, last: int = 3000) -> Figure:
    """Share of right answers by the measure `place`, a line a model, with 95 % intervals over drugs.

    Args:
        outcomes: rows of one arm.
        cut: the place of a dashed line.
        width: of a bin in characters.
        last: where the drawing ends; later rows are in the last bin.
    """
    rows = outcomes.frame[[audit.PLACE in of for of in outcomes.frame.measures]]
    places = np.array([of[audit.PLACE][0] for of in rows.measures])
    fig, axes = plt.subplots()
    colours = (figures.arm_colour("format_b"), figures.arm_colour("closed_book"))
    for colour, (model, of) in zip(
        colours, rows.assign(bin=(places.clip(0, last - 1) // width).astype(int)).groupby("model"), strict=True
    ):
        bins = {int(str(at)): share_of(in_bin.predicted == "YES", in_bin.cluster) for at, in_bin in of.groupby("bin")}
        centres = [(at + 0.5) * width for at in bins]
        axes.plot(centres, [s.value for s in bins.values()], "o-", markersize=4, color=colour, label=model)
        axes.fill_between(
            centres, [s.low for s in bins.values()], [s.high for s in bins.values()], color=colour, alpha=0.2
        )
    axes.axvline(cut, color=INK, linestyle="--", linewidth=1.2)
    axes.set(xlabel=f"character of the prompt at which the effect ends (last bin: {last - width:,} and beyond)")
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
