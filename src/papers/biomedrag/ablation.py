"""The ablation (biomedrag.md, section 2.3 and 2.4): Table 4, Figures 2 and 3, beside one prompted model's answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pandas as pd

from helpers.results import figures
from helpers.results.outcomes import Outcomes
from helpers.results.record import Run
from papers.biomedrag.study import LABELS, gain

PLACES: Final = {"GIT": ("te", "git_triple_f1"), "GIT-RE": ("re", "git_re_f1")}
"""How the ids of Table 4 and Figure 3 name each data set."""
VARIANTS: Final = {"biomedrag": "whole", "cosine": "without_scorer", "plain": "without_diversity"}
"""The row of Table 4 beside which an arm is shown."""
BEST: Final = 5
"""Words of a chunk in the whole method."""
_FINE_TUNED: Final = "Printed for LLaMA2 13B, fine-tuned anew for each variant; this notebook prompts one model."


def knn(n: int) -> str:
    """The arm RA-KNN-n."""
    return f"knn_{n}"


def chunked(words: int) -> str:
    """The arm with chunks of so many words; that of the whole method is BiomedRAG itself."""
    return "biomedrag" if words == BEST else f"m{words}"


def labels(counts: Sequence[int], words: Sequence[int]) -> dict[str, str]:
    """Labels of all arms, in the order of tables."""
    lengths = {chunked(m): f"BiomedRAG, chunks of {m} words" for m in words if m != BEST}
    return LABELS | lengths | {knn(n): f"{n} nearest (RA-KNN-{n})" if n else "none (LLM alone)" for n in counts}


def table4(run: Run, out: Outcomes, caption: str) -> figures.Html:
    """The whole, without scorer, without diversity: printed F1 and that of this run."""
    rows = []
    for name, (place, _) in PLACES.items():
        of = out.where(task=name)
        for arm, row in VARIANTS.items():
            printed = run.printed.number(f"biomedrag.table4.{place}_{row}.f1").printed
            rows.append({"data": name, "arm": of.label(arm), "printed F1": printed, "rerun F1": of.score("f1", arm)})
    return figures.table(pd.DataFrame(rows), caption, sample=out.sample)


def figure3(run: Run, out: Outcomes, words: Sequence[int], caption: str) -> figures.Html:
    """F1 by words of a chunk: printed, and of this run."""
    rows = []
    for name, (place, figure) in PLACES.items():
        of = out.where(task=name)
        for m in words:
            id = f"biomedrag.table4.{place}_whole.f1" if m == BEST else f"biomedrag.figure3.{figure}.m{m}"
            printed = run.printed.number(id).printed
            rows.append({"data": name, "m": m, "printed F1": printed, "rerun F1": of.score("f1", chunked(m))})
    return figures.table(pd.DataFrame(rows), caption, sample=out.sample)


def report_reasons(run: Run) -> None:
    """Say why Table 4, Figure 3, Figure 2 on GIT and GIT-RE, and two claims have no rerun."""
    for number in run.printed.numbers:
        _, table, row, _ = number.id.split(".", 3)
        ours = table in ("table4", "figure3") or (table == "figure2" and row in ("git", "git_re"))
        if ours and not number.why_no_rerun:
            run.not_run(number.id, _FINE_TUNED)
    elsewhere = "Lengths of a chunk are tried on GIT and GIT-RE alone, where the paper prints them."
    run.claim("biomedrag.claim.five_words_elsewhere", "not run", elsewhere, reason="no answers")
    run.claim(
        "biomedrag.claim.less_training_time", "not run", "This notebook fine-tunes no model.", reason="no answers"
    )


def summary(out: Outcomes, counts: Sequence[int]) -> str:
    """The page's answer: BiomedRAG against its ablations, and the best n of RA-KNN-n."""
    said = []
    for name in PLACES:
        of = out.where(task=name)
        reached = {n: of.score("f1", knn(n)).value for n in counts}
        top = max(reached, key=reached.__getitem__)
        minus = {arm: gain(of, "biomedrag", arm) for arm in ("cosine", "plain")}
        told = {arm: figures.points_text(g.value, g.low, g.high) for arm, g in minus.items()}
        whole = of.score("f1", "biomedrag")
        said.append(
            f"On **{name}** ({whole.n} rows) BiomedRAG has F1 {figures.score_text(whole)}. The trained scorer changes "
            f"it by {told['cosine']} points, diversity by {told['plain']}. Of the n nearest sentences tried, n = {top} "
            f"is best with {figures.score_text(of.score('f1', knn(top)))}."
        )
    return " ".join(said)
