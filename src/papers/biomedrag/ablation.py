"""The ablation (biomedrag.md, section 2.3 and 2.4): Table 4, Figures 2 and 3, beside one prompted model's answers."""

from collections.abc import Sequence
from typing import Final

import pandas as pd

from evaluation import figures
from evaluation.outcomes import Outcomes
from evaluation.record import Run
from papers.biomedrag.retriever import UNTAUGHT
from papers.biomedrag.study import LABELS, cell, gain

PLACES: Final = {"GIT": ("te", "git_triple_f1"), "GIT-RE": ("re", "git_re_f1")}
"""How the ids of Table 4 and Figure 3 name each data set."""
VARIANTS: Final = {"biomedrag": "whole", "cosine": "without_scorer", "plain": "without_diversity"}
"""The row of Table 4 beside which an arm is shown."""
BEST: Final = 5  # words of a chunk in the whole method


def knn(n: int) -> str:
    """The arm RA-KNN-n."""
    return f"knn_{n}"


def chunked(words: int) -> str:
    """The arm with chunks of so many words; that of the whole method is BiomedRAG itself."""
    return "biomedrag" if words == BEST else f"m{words}"


def tuned(arm: str) -> str:
    """The arm of a model that is fine-tuned with the documents of an arm."""
    return "lora_rag" if arm == "biomedrag" else f"lora_{arm}"


def labels(counts: Sequence[int], words: Sequence[int]) -> dict[str, str]:
    """Labels of all arms, in the order of tables."""
    lengths = {chunked(m): f"BiomedRAG, chunks of {m} words" for m in words if m != BEST}
    variants = {arm: LABELS[arm] for arm in ("cosine", "plain")} | lengths
    lengths |= {tuned(arm): f"Fine-tuned LLM with {label}" for arm, label in variants.items()}
    nearest = {knn(n): f"{n} nearest (RA-KNN-{n})" if n else "none (LLM alone)" for n in counts}
    return (
        LABELS
        | lengths
        | nearest
        | {tuned(knn(n)): f"Fine-tuned LLM with {n} nearest" for n in counts}
    )


def beside(run: Run, out: Outcomes, words: Sequence[int], caption: str) -> figures.Html:
    """F1 printed in Table 4 and Figure 3, and of this run: the whole, without one part, and by words of a chunk."""
    rows = []
    for name, (place, figure) in PLACES.items():
        of = out.where(task=name)
        printed = {arm: f"table4.{place}_{row}.f1" for arm, row in VARIANTS.items()}
        printed |= {chunked(m): f"figure3.{figure}.m{m}" for m in words if m != BEST}
        for arm, id in printed.items():
            stated, rerun = (
                run.printed.number(f"biomedrag.{id}").printed,
                arm in of.arms and of.score("f1", arm),
            )
            row = {
                "data": name,
                "arm": of.label(arm),
                "printed F1": stated,
                "rerun F1": rerun or None,
            }
            rows.append(
                row
                | (
                    {"fine-tuned F1": of.format_score("f1", tuned(arm))}
                    if "lora" in out.arms
                    else {}
                )
            )
    return figures.table(pd.DataFrame(rows), caption, sample=out.sample)


def report(run: Run, out: Outcomes) -> None:
    """Report the fine-tuned arms beside Table 4 and Figure 3; of these and of Figure 2 on GIT and GIT-RE, why not."""
    for number in run.printed.numbers:
        _, table, of, last = (*number.id.split("."), "")[:4]
        name = (
            "GIT-RE"
            if of.startswith(("re_", "git_re")) and not of.startswith("git_relation")
            else "GIT"
        )
        if number.why_no_rerun:
            continue
        if table == "table4":
            cell(run, number.id, out, name, of.partition("_")[2], last)
        elif table == "figure3":
            measure = of.removeprefix("git_").removeprefix("re_").removeprefix("triple_")
            cell(run, number.id, out, name, last, measure)
        elif table == "figure2" and of.startswith("git"):
            cell(run, number.id, out, name, last, "f1")


def summary(out: Outcomes, counts: Sequence[int]) -> str:
    """The page's answer in three sentences: BiomedRAG against its ablations, and the best n of RA-KNN-n."""
    if "biomedrag" not in out.arms:
        return UNTAUGHT
    said, tops, sure = [], [], []
    for name in PLACES:
        of = out.where(task=name)
        reached = {n: of.score("f1", knn(n)).value for n in counts}
        top = max(reached, key=reached.__getitem__)
        minus = {arm: gain(of, "biomedrag", arm) for arm in ("cosine", "plain")}
        scorer, diversity = (figures.points_text(g.value, g.low, g.high) for g in minus.values())
        sure += [
            f"{of.label(arm)} on {name}" for arm, g in minus.items() if g.low > 0 or g.high < 0
        ]
        whole, nearest = (of.score("f1", arm) for arm in ("biomedrag", knn(top)))
        said.append(
            f"on **{name}** (n = {whole.n}, F1 {figures.score_text(whole)}) the trained scorer changes it by {scorer} "
            f"points, diversity by {diversity}"
        )
        tops.append(f"n = {top} on {name} ({figures.score_text(nearest)})")
    apart = f"only for {figures.listed(sure)}" if sure else "for no ablation"
    best = f"The best n tried for RA-KNN-n is {' and '.join(tops)}."
    return f"**The 95 % interval of the change in F1 excludes zero {apart}.** O{'; '.join(said)[1:]}. {best}"
