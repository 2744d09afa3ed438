"""The ablation (biomedrag.md, section 2.3 and 2.4): Table 4, Figures 2 and 3, and their rerun."""

from collections.abc import Sequence
from typing import Final

import pandas as pd

from evaluation import figures
from evaluation.metrics import Score
from evaluation.outcomes import Outcomes
from evaluation.record import Run
from papers.biomedrag.retriever import UNTAUGHT
from papers.biomedrag.study import LABELS, Cell, gain, report_cell

PLACES: Final = {"GIT": ("te", "git_triple_f1"), "GIT-RE": ("re", "git_re_f1")}
"""How the ids of Table 4 and Figure 3 name each data set."""
VARIANTS: Final = {"biomedrag": "whole", "cosine": "without_scorer", "plain": "without_diversity"}
"""The row of Table 4 that an arm is compared with."""
_PARTS: Final = (("the trained scorer", "cosine"), ("diversity", "plain"))
"""The parts of the method, and the arm without each."""
BEST_WORDS: Final = 5
"""Words of a chunk in the whole method."""


def knn(n: int) -> str:
    """Name the arm RA-KNN-n."""
    return f"knn_{n}"


def chunked(words: int) -> str:
    """Name the arm with chunks of so many words; that of the whole method is BiomedRAG itself."""
    return "biomedrag" if words == BEST_WORDS else f"m{words}"


def tuned(arm: str) -> str:
    """Name the arm of a model that is fine-tuned with the documents of an arm."""
    return "lora_rag" if arm == "biomedrag" else f"lora_{arm}"


def labels(counts: Sequence[int], words: Sequence[int]) -> dict[str, str]:
    """Label all arms, in the order of tables.

    Args:
        counts: The n of RA-KNN-n.
        words: Words of a chunk.
    """
    lengths = {chunked(m): f"BiomedRAG, chunks of {m} words" for m in words if m != BEST_WORDS}
    variants = {"cosine": LABELS["cosine"], "plain": LABELS["plain"], **lengths}
    all_labels = {**LABELS, **lengths}
    for arm, label in variants.items():
        all_labels[tuned(arm)] = f"Fine-tuned LLM with {label}"
    for n in counts:
        all_labels[knn(n)] = f"{n} nearest (RA-KNN-{n})" if n else "none (LLM alone)"
    for n in counts:
        all_labels[tuned(knn(n))] = f"Fine-tuned LLM with {n} nearest"
    return all_labels


def reproduction_table(run: Run, out: Outcomes, words: Sequence[int], caption: str) -> figures.Html:
    """Show F1 printed in Table 4 and Figure 3, and of this run.

    The rows are the whole method, the method without one part, and by words of a chunk.
    """
    rows = []
    for name, (place, figure) in PLACES.items():
        numbers = {arm: f"table4.{place}_{row}.f1" for arm, row in VARIANTS.items()}
        for m in words:
            if m != BEST_WORDS:
                numbers[chunked(m)] = f"figure3.{figure}.m{m}"
        reruns = out.where(task=name)
        for arm, number in numbers.items():
            printed = run.printed.number(f"biomedrag.{number}").printed
            row = {
                "data": name,
                "arm": reruns.label(arm),
                "printed F1": printed,
                "rerun F1": reruns.score("f1", arm) if arm in reruns.arms else None,
            }
            if "lora" in out.arms:
                row["fine-tuned F1"] = reruns.format_score("f1", tuned(arm))
            rows.append(row)
    return figures.table(pd.DataFrame(rows), caption, sample=out.sample)


def report(run: Run, out: Outcomes) -> None:
    """Report the fine-tuned arms for Table 4 and Figures 2 and 3, of GIT and GIT-RE, or why not."""
    for number in run.printed.numbers:
        cell = None if number.why_no_rerun else _cell_of(number.id)
        if cell:
            report_cell(run, out, cell)


def _cell_of(number: str) -> Cell | None:
    """Return the cell of a printed number that the ablation reruns, if it does."""
    _, table, row, column = (*number.split("."), "")[:4]
    is_relations = row.startswith(("re_", "git_re")) and not row.startswith("git_relation")
    data = "GIT-RE" if is_relations else "GIT"
    if table == "table4":
        variant = row.partition("_")[2]
        return Cell(number, data, variant, column)
    if table == "figure3":
        measure = row.removeprefix("git_").removeprefix("re_").removeprefix("triple_")
        return Cell(number, data, column, measure)
    if table == "figure2" and row.startswith("git"):
        return Cell(number, data, column, "f1")
    return None


def summary(out: Outcomes, counts: Sequence[int]) -> str:
    """Write the page's answer: what removing a part changes, and the best n of RA-KNN-n.

    Fine-tuned variants, the paper's own comparison, come first where there are any.
    """
    if "biomedrag" not in out.arms:
        return UNTAUGHT
    is_tuned = {tuned(arm) for _, arm in _PARTS} <= set(out.arms)
    gains = _gains(out, is_tuned=is_tuned)
    clear = [f"{part} on {name}" for (part, name), score in gains.items() if _is_clear(score)]
    finding = "Removing no part clearly changed F1"
    if clear:
        finding = f"Removing {figures.listed(clear)} clearly changed F1"
    used = "fine-tuned" if is_tuned else "prompted"
    largest = max(gains, key=lambda key: abs(gains[key].value))
    best = [f"n = {_best_count(out.where(task=name), counts)} on {name}" for name in PLACES]
    return (
        f"**{finding} of the {used} model.** The largest difference is that by {largest[0]} on "
        f"{largest[1]}, {_points(gains[largest])} points, and RA-KNN-n scored best with "
        f"{figures.listed(best)} of the n tried."
    )


def _gains(out: Outcomes, *, is_tuned: bool) -> dict[tuple[str, str], Score]:
    """Return what each part adds to F1 on each data set."""
    gains = {}
    for part, arm in _PARTS:
        first, second = ("lora_rag", tuned(arm)) if is_tuned else ("biomedrag", arm)
        for name in PLACES:
            gains[part, name] = gain(out.where(task=name), first, second)
    return gains


def _is_clear(score: Score) -> bool:
    """Whether the 95 % interval of a difference excludes zero."""
    return score.low > 0 or score.high < 0


def _points(score: Score) -> str:
    return figures.points_text(score.value, score.low, score.high)


def _best_count(out: Outcomes, counts: Sequence[int]) -> int:
    f1 = {n: out.score("f1", knn(n)).value for n in counts}
    return max(f1, key=f1.__getitem__)
