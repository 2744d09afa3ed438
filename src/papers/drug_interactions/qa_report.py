"""What notebook 06 reports beside claims: printed numbers (Table II and the running text) and the page's answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from helpers.results import figures
from helpers.results.metrics import Score
from helpers.results.outcomes import Outcomes
from helpers.results.published import Published
from helpers.results.record import Run
from helpers.results.svg import INK
from helpers.results.verdicts import ALPHA
from papers.drug_interactions.answering import ARMS, Arm
from papers.drug_interactions.judge import useful
from papers.drug_interactions.qa import BASELINES
from papers.drug_interactions.rules import worth

PRINTED: dict[Arm, str] = {"none": "no_retrieval", "text": "rag_text", "agentic": "graphrag", "drugrag": "drugrag"}
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


def numbers(run: Run, both: Outcomes, models: Sequence[str], writer: str, truth: Score | None, alone: str) -> None:
    """Report the printed numbers that these answers measure. A judge at chance fills none.

    Args:
        run: takes them.
        both: rows of all models.
        models: the answering model and, if a second one answered, the smaller.
        writer: the model that wrote the Cypher.
        truth: the AUC of the judge, right answers against wrong ones.
        alone: why one model answered, if it did.
    """
    out = both.where(model=models[0])
    medquad = out.where(task="medquad")
    note = "Normalised rating of MedQuAD's drug questions."
    reason = "" if useful(truth) else f"The rating is not used: {worth(out, truth)}."
    rated = {f"{TEXT}{id}": (medquad, models[0], arm) for id, arm in RATINGS.items()}
    for arm, row in PRINTED.items():
        rated[f"{TABLE}{row}.llama_70b"] = (medquad, models[0], arm)
        if len(models) > 1:
            rated[f"{TABLE}{row}.llama_8b"] = (both.where(model=models[1], task="medquad"), models[1], arm)
        else:
            run.not_run(f"{TABLE}{row}.llama_8b", f"One model answers, in the place of the larger one. {alone}")
    for id, (rows, model, arm) in rated.items():
        if reason:
            run.not_run(id, reason)
        else:
            run.rerun(id, rows.score("rating", arm), model=model, note=note)
    for id, arm in GAINS.items():
        base = 0.0 if reason else medquad.score("rating", arm).value
        if base:
            gain = medquad.score("rating", "drugrag").value / base - 1
            run.rerun(TEXT + id, gain, model=models[0], note="Relative gain of the normalised rating.")
        else:
            run.not_run(TEXT + id, reason or "The baseline's rating is zero, so that no relative gain exists.")
    if reason:
        run.not_run(f"{TEXT}p", reason)
    else:
        family = out.where(task=["known", "medquad"]).against([("drugrag", arm) for arm in BASELINES], "rating")
        run.rerun(f"{TEXT}p", max(c.p for c in family), model=models[0], note="The largest of three, on the rating.")
    _unrated(run, both, models[0], writer)


def _unrated(run: Run, both: Outcomes, model: str, writer: str) -> None:
    """The printed numbers that need no judge: cosines, steps of the Cypher, times."""
    out = both.where(model=model)
    medquad = out.where(task="medquad")
    cosines: dict[str, Arm] = {"similarity": "drugrag", "similarity_next_best": "agentic"}
    for id, arm in cosines.items():
        score = medquad.score("cosine", arm)
        # the printed scale begins at 0, a cosine does not
        score = replace(score, value=max(score.value, 0.0), low=max(score.low, 0.0), high=max(score.high, 0.0))
        note = "Cosine to MedQuAD's answer, by the encoder of this run; a mean below zero counts as 0."
        run.rerun(TEXT + id, score, model=model, note=note)
    written = both.where(task="cypher", arm="example")
    for step in ("first_try", "repaired", "simplified"):
        share = written.score(step)
        of_hundred = Score(100 * share.value, share.n, 100 * share.low, 100 * share.high)
        run.rerun(f"{TEXT}cypher.{step}", of_hundred, model=writer, note=f"of {share.n} questions")
    note = "95th percentile, repairs and waiting for other requests included."
    run.rerun(f"{TEXT}cypher_seconds", written.score("p95(seconds)"), model=writer, note=note)
    answers = out.where(task="known", arm="drugrag").frame
    spent = [of["seconds"][0] for of in answers.measures if "seconds" in of]
    for end, share_ in (("low", 5), ("high", 95)):
        note = f"{share_}th percentile of DrugRAG's answers, waiting for other requests included."
        run.rerun(f"{TEXT}answer_seconds.{end}", float(np.percentile(spent, share_)), model=model, note=note)


def table_two(run: Run, both: Outcomes, models: Sequence[str], truth: Score | None) -> pd.DataFrame:
    """Table II: the printed ratings, those of this run where the judge is above chance, and the F1 of the sets."""
    rows = []
    for arm in ARMS:
        row: dict[str, object] = {"setting": both.label(arm)}
        for size in ("70b", "8b"):
            row[f"printed, {size.upper()}"] = (
                run.printed.number(f"{TABLE}{PRINTED[arm]}.llama_{size}").printed if arm in PRINTED else None
            )
        for model in models:
            mine = both.where(model=model, arm=arm)
            rating = mine.where(task="medquad").score("rating") if useful(truth) else "judge at chance"
            row |= {f"rating, {model}": rating, f"F1, {model}": mine.where(task="known").score("f1")}
        rows.append(row)
    return pd.DataFrame(rows)


def answer(out: Outcomes, verdict: str, truth: Score | None) -> str:
    """The page's answer in Markdown, from the rows of the larger model; `verdict` is on DrugRAG's lead in the sets."""
    known, medquad = out.where(task="known"), out.where(task="medquad")
    written = out.where(task="cypher", arm="example")
    leads = {
        "agrees": "gives more of the right names than no retrieval, text RAG and agentic RAG",
        "differs": "does not give more of the right names than no retrieval, text RAG and agentic RAG",
    }.get(verdict, "is not significantly better than every baseline at giving the right names")
    family = known.against([("drugrag", arm) for arm in BASELINES], "f1")
    sure = [c for c in family if c.p < ALPHA]
    scores = "; ".join(
        f"{out.label(arm)} {figures.score_text(known.score('f1', arm))} and "
        f"{figures.score_text(medquad.score('cosine', arm))}"
        for arm in ARMS
    )
    first = written.score("first_try")
    judge = worth(out, truth)
    return (
        f"**In short.** DrugRAG {leads}, on {known.score('f1', 'drugrag').n} questions written from this graph: "
        f"{len(sure)} of {len(family)} differences are significant after Holm correction. The retrieval's truth and "
        "the questions' truth are the same graph, which favours DrugRAG. F1 of the answer set and cosine to MedQuAD's "
        f"answer: {scores}.\n\nThe first Cypher statement is right for {figures.score_text(first)} of {first.n} "
        f"questions. {judge[0].upper()}{judge[1:]}."
    )


def gains(printed: Published) -> figures.Picture:
    """DrugRAG's printed gains, read in three ways: arithmetic on Table II, its larger model; no answer is rescored.

    The judge's scale from 1 to 5 is set on 0 to 1 there (Setup), so x stands for 1 + 4x.
    """
    ours = printed.number(f"{TABLE}drugrag.llama_70b").value
    fig, axes = plt.subplots(figsize=(7.4, 2.2))
    told = []
    for y, (name, arm) in enumerate(GAINS.items()):
        claim, theirs = printed.number(f"{TEXT}{name}"), printed.number(f"{TABLE}{PRINTED[arm]}.llama_70b").value
        read = {
            "difference of the scores": ours - theirs,
            "of the score from 0 to 1": ours / theirs - 1,
            "of the mark from 1 to 5": (1 + 4 * ours) / (1 + 4 * theirs) - 1,
        }
        for marker, (way, value) in zip("o^s", read.items(), strict=True):
            axes.plot(value, y, marker, color=figures.arm_colour("graphrag"), label="" if y else way)
        axes.plot(claim.value, y, "|", markersize=22, color=INK, label="" if y else "printed in the text")
        values = ", ".join(f"{way} {figures.number(value)}" for way, value in read.items())
        told.append(f"{claim.row}: printed {claim.printed}; {values}")
    axes.set_yticks(range(len(GAINS)), [printed.number(f"{TEXT}{name}").row for name in GAINS])
    axes.set(ylim=(len(GAINS) - 0.5, -0.5), xlim=(0, None))
    axes.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    caption = f"Arithmetic on printed numbers. {'. '.join(told)}."
    return figures.figure(fig, alt=caption, caption=caption)
