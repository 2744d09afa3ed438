"""What a run reports of MedQuAD's questions about drugs: what they ask, and how near answers are to the references.

drug_interactions.md (Setup, Results) has the cosine of embeddings; BERTScore stands beside it. Both say how alike two
texts are, not whether what they say is true.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pandas as pd

from helpers.results import figures
from helpers.results.metrics import bootstrap
from helpers.results.record import Run
from papers.drug_interactions.answering import ARMS, Arm
from papers.drug_interactions.qa_report import COSINE, Bench, Compared, Measured, Nearness, compare, label
from papers.drug_interactions.questions import Reference

FLOOR = "the reference of another question"


def medquad_table(references: Sequence[Reference], asked: Sequence[Reference]) -> pd.DataFrame:
    """MedQuAD's questions about drugs by what they ask for: how many there are, and how many are asked here."""
    there, here = (Counter(r.sort for r in of) for of in (references, asked))
    first = {r.sort: r.text for r in reversed(references)}
    return pd.DataFrame(
        [
            {"about": sort, "for example": first[sort], "with an answer": n, "asked here": here[sort]}
            for sort, n in there.most_common()
        ]
    )


def similarity_table(run: Run, of: Measured, bench: Bench, draws: int) -> pd.DataFrame:
    """One row an arm: mean cosine, BERTScore's precision, recall and F1, each with its interval; kept in the record.

    The last row is the floor: what the reference of another question scores.
    """
    words = {arm: [len(a.text.split()) for a in of.medquad[arm]] for arm in ARMS}
    rows = [_row(run, arm, label(arm), of.near[arm], words[arm], draws) for arm in ARMS]
    if len(bench.medquad) > 1:
        lengths = [len(reference.answer.split()) for reference in bench.medquad]
        rows.append(_row(run, "floor", FLOOR, bench.floor, lengths, draws))
    return pd.DataFrame(rows)


def _row(run: Run, id: str, name: str, near: Nearness, words: Sequence[int], draws: int) -> dict[str, object]:
    scored = near.bertscore
    measures = {
        "cosine": near.cosine,
        "BERTScore precision": scored.precision,
        "BERTScore recall": scored.recall,
        "BERTScore F1": scored.f1,
    }
    scores = {measure: bootstrap(values, draws=draws) for measure, values in measures.items()}
    for measure, score in scores.items():
        kept = measure.lower().replace(" ", "_")
        run.extra(f"questions.similarity.{id}.{kept}", f"{name}, MedQuAD: {measure} with the reference", score)
    return (
        {"answer": name, "n": len(near.cosine)}
        | {measure: figures.score_text(score, "count", digits=2) for measure, score in scores.items()}
        | {
            "words, mean": round(sum(words) / len(words)),
            "texts cut for the cosine": near.cut,
            "texts cut for BERTScore": scored.cut,
        }
    )


def similarity_by_sort(near: Mapping[Arm, Nearness], references: Sequence[Reference]) -> pd.DataFrame:
    """Mean cosine and BERTScore F1 by arm, for each sort of question.

    Without intervals: a few answers of one sort say nothing of how sure their mean is.
    """
    rows = []
    for sort in dict.fromkeys(r.sort for r in references):
        at = [i for i, r in enumerate(references) if r.sort == sort]
        for measure in ("cosine", "BERTScore F1"):
            row: dict[str, object] = {"about": sort, "n": len(at), "measure": measure}
            for arm in ARMS:
                values = near[arm].cosine if measure == "cosine" else near[arm].bertscore.f1
                row[label(arm)] = figures.number(float(values[at].mean()), "count", digits=2)
            rows.append(row)
    return pd.DataFrame(rows)


def compare_similarity(of: Measured, draws: int) -> list[Compared]:
    """DrugRAG against each baseline by the cosine and by each of BERTScore's three, each corrected by itself."""
    measures: dict[str, Callable[[Nearness], np.ndarray]] = {
        COSINE: lambda near: near.cosine,
        "BERTScore precision": lambda near: near.bertscore.precision,
        "BERTScore recall": lambda near: near.bertscore.recall,
        "BERTScore F1": lambda near: near.bertscore.f1,
    }
    about = of.about[-len(of.near["drugrag"].cosine) :]
    return [
        test
        for name, measure in measures.items()
        for test in compare({arm: measure(near) for arm, near in of.near.items()}, name, draws, clusters=about)
    ]
