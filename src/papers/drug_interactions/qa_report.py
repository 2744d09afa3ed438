"""What notebook 06 reports beside claims: printed numbers (Table II and the running text) and the page's answer."""

import re
from collections.abc import Sequence
from dataclasses import replace

import matplotlib.pyplot as plt
import pandas as pd

from evaluation import figures
from evaluation.metrics import Score
from evaluation.outcomes import Outcomes
from evaluation.published import Published
from evaluation.record import Run
from papers.drug_interactions.answering import ARMS, Arm
from papers.drug_interactions.qa import BASELINES, useful
from papers.drug_interactions.rules import readings, worth

PRINTED: dict[Arm, str] = {
    "none": "no_retrieval",
    "text": "rag_text",
    "agentic": "graphrag",
    "drugrag": "drugrag",
}
"""The row of Table II that each arm is held against; the row called GraphRAG has the rating of agentic RAG."""
RATINGS: dict[str, Arm] = {
    "normalised.drugrag": "drugrag",
    "normalised.rag_text": "text",
    "normalised.no_retrieval": "none",
    "normalised.agentic": "agentic",
    "agentic": "agentic",
}
GAINS: dict[str, Arm] = {"gain_no_retrieval": "none", "gain_rag_text": "text"}
TABLE, TEXT = "drug_interactions.table2.", "drug_interactions.text."


def numbers(
    run: Run, both: Outcomes, models: Sequence[str], writer: str, truth: Score | None, alone: str
) -> None:
    """Report the printed numbers that these answers measure. A judge at chance fills none.

    `both` has the rows of all models; `models` are the answering one and, if a second one answered, the smaller, or
    else `alone` says why. `writer` wrote the Cypher, and `truth` is the AUC of the judge, right answers against wrong.
    """
    large = models[0]
    out = both.where(model=large)
    medquad = out.where(task="medquad")
    rated = {f"{TEXT}{id}": (large, arm) for id, arm in RATINGS.items()}
    for arm, row in PRINTED.items():
        rated[f"{TABLE}{row}.llama_70b"] = (large, arm)
        if len(models) > 1:
            rated[f"{TABLE}{row}.llama_8b"] = (models[1], arm)
        else:
            run.not_run(
                f"{TABLE}{row}.llama_8b",
                f"One model answers, in the place of the larger one. {alone}",
            )
    if useful(truth):
        for id, (model, arm) in rated.items():
            score = both.where(model=model, task="medquad").score("rating", arm)
            run.rerun(id, score, model=model, note="Normalised rating of MedQuAD's drug questions.")
        for id, arm in GAINS.items():
            if base := medquad.score("rating", arm).value:
                gain = medquad.score("rating", "drugrag").value / base - 1
                run.rerun(
                    TEXT + id, gain, model=large, note="Relative gain of the normalised rating."
                )
            else:
                run.not_run(
                    TEXT + id, "The baseline's rating is zero, so that no relative gain exists."
                )
        family = out.where(task=["known", "medquad"]).compare(
            [("drugrag", arm) for arm in BASELINES], "rating"
        )
        run.rerun(
            f"{TEXT}p",
            max(c.p for c in family),
            model=large,
            note="The largest of three, on the rating.",
        )
    else:
        for id in [*rated, *(TEXT + id for id in (*GAINS, "p"))]:
            run.not_run(id, f"The rating is not used: {worth(out, truth)}.")
    _unrated(run, both, large, writer)


def _unrated(run: Run, both: Outcomes, large: str, writer: str) -> None:
    """The printed numbers that need no judge: cosines, steps of the Cypher, times."""
    out = both.where(model=large)
    medquad = out.where(task="medquad")
    cosines: dict[str, Arm] = {"similarity": "drugrag", "similarity_next_best": "agentic"}
    for id, arm in cosines.items():
        score = medquad.score("cosine", arm)
        # the printed scale begins at 0, a cosine does not
        score = replace(
            score, value=max(score.value, 0.0), low=max(score.low, 0.0), high=max(score.high, 0.0)
        )
        note = (
            "Cosine to MedQuAD's answer, by the encoder of this run; a mean below zero counts as 0."
        )
        run.rerun(TEXT + id, score, model=large, note=note)
    written = both.where(task="cypher", arm="example")
    for step in ("first_try", "repaired", "simplified"):
        share = written.score(step)
        of_hundred = Score(100 * share.value, share.n, 100 * share.low, 100 * share.high)
        run.rerun(f"{TEXT}cypher.{step}", of_hundred, model=writer, note=f"of {share.n} questions")
    note = "95th percentile, repairs and waiting for other requests included."
    run.rerun(f"{TEXT}cypher_seconds", written.score("p95(seconds)"), model=writer, note=note)
    for end, q in (("low", 5), ("high", 95)):
        note = f"{q}th percentile of DrugRAG's answers, waiting for other requests included."
        score = out.where(task="known").score(f"p{q}(seconds)", "drugrag")
        run.rerun(f"{TEXT}answer_seconds.{end}", score, model=large, note=note)


def table_two(run: Run, both: Outcomes, models: Sequence[str], truth: Score | None) -> pd.DataFrame:
    """Table II: the printed ratings, those of this run where the judge is above chance, and the F1 of the sets."""
    rows = []
    for arm in ARMS:
        row: dict[str, object] = {"setting": both.label(arm)}
        for size in ("70b", "8b"):
            row[f"printed, {size.upper()}"] = (
                run.printed.number(f"{TABLE}{PRINTED[arm]}.llama_{size}").printed
                if arm in PRINTED
                else None
            )
        for model in models:
            mine = both.where(model=model, arm=arm)
            rating = (
                mine.where(task="medquad").score("rating") if useful(truth) else "judge at chance"
            )
            row |= {
                f"rating, {model}": rating,
                f"F1, {model}": mine.where(task="known").score("f1"),
            }
        rows.append(row)
    return pd.DataFrame(rows)


def answer(out: Outcomes, verdict: str) -> str:
    """The page's answer in Markdown, from the rows of the larger model; `verdict` is on DrugRAG's lead in the sets."""
    known, medquad = out.where(task="known"), out.where(task="medquad")
    first = out.where(task="cypher", arm="example").score("first_try")
    leads = {
        "agrees": "DrugRAG gives more of the right names than no retrieval, text RAG and agentic RAG",
        "differs": "DrugRAG does not give more of the right names than no retrieval, text RAG and agentic RAG",
        "not run": "None of the paper's models ran, so no claim about DrugRAG's lead is tested",
    }.get(
        verdict, "DrugRAG is not significantly better than every baseline at giving the right names"
    )

    def told(of: Outcomes, measure: str, arm: str) -> str:
        return re.sub(r", ([\d,]+ unparsed)", r" (\1)", figures.score_text(of.score(measure, arm)))

    def against(of: Outcomes, measure: str) -> str:
        best = max(BASELINES, key=lambda arm: of.score(measure, arm).value)
        ours, theirs = told(of, measure, "drugrag"), told(of, measure, best)
        return f"{ours}, against {theirs} for the best of the paper's baselines, {out.label(best)}"

    return (
        f"**{leads}.** On {known.score('f1', 'drugrag').n} questions written from the graph that DrugRAG queries, "
        f"which favours it, its F1 is {against(known, 'f1')}; on a graph read from text it is "
        f"{told(known, 'f1', 'ingested')}. Its cosine to the answers of {medquad.score('cosine', 'drugrag').n} MedQuAD "
        f"questions is {against(medquad, 'cosine')}; the first Cypher statement is right for "
        f"{figures.score_text(first)} of {first.n} questions."
    )


def gains(printed: Published) -> figures.Picture:
    """DrugRAG's printed gains, read in three ways: arithmetic on Table II, its larger model; no answer is rescored."""
    ours = printed.number(f"{TABLE}drugrag.llama_70b").value
    fig, axes = plt.subplots(figsize=(7.4, 2.2))
    told = []
    for y, (name, arm) in enumerate(GAINS.items()):
        claim, theirs = (
            printed.number(f"{TEXT}{name}"),
            printed.number(f"{TABLE}{PRINTED[arm]}.llama_70b").value,
        )
        ways = ("difference of the scores", "of the score from 0 to 1", "of the mark from 1 to 5")
        read = dict(zip(ways, readings(ours, theirs), strict=True))
        for marker, (way, value) in zip("o^s", read.items(), strict=True):
            axes.plot(
                value, y, marker, color=figures.arm_colour("graphrag"), label="" if y else way
            )
        axes.plot(
            claim.value,
            y,
            "|",
            markersize=22,
            color=figures.INK,
            label="" if y else "printed in the text",
        )
        values = ", ".join(
            f"{way} {100 * of:.1f} {'points' if way == ways[0] else '%'}"
            for way, of in read.items()
        )
        told.append(f"{claim.row}: printed {claim.printed}; {values}")
    axes.set_yticks(range(len(GAINS)), [printed.number(f"{TEXT}{name}").row for name in GAINS])
    axes.set(ylim=(len(GAINS) - 0.5, -0.5), xlim=(0, None))
    axes.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    caption = f"Arithmetic on printed numbers. {'. '.join(told)}."
    return figures.figure(fig, alt=caption, caption=caption)
