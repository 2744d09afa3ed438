"""The ablation (biomedrag.md, section 2.3 and 2.4): Table 4, Figures 2 and 3, and their rerun."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd

from evaluation import figures
from evaluation.metrics import ALPHA, Score
from evaluation.outcomes import PAIRING_COLUMNS, Comparison, Outcomes
from evaluation.record import Run
from helpers.counting import part_in_words
from papers.biomedrag.gains import change_in_words, direction, gains, size_in_words
from papers.biomedrag.retriever import UNTAUGHT
from papers.biomedrag.study import COLOURS, LABELS, Cell, report_cell

PLACES: Final = {"GIT": ("te", "git_triple_f1"), "GIT-RE": ("re", "git_re_f1")}
"""How the ids of Table 4 and Figure 3 name each data set."""
VARIANTS: Final = {"biomedrag": "whole", "cosine": "without_scorer", "plain": "without_diversity"}
"""The row of Table 4 that an arm is compared with."""
_PARTS: Final = (("the trained scorer", "cosine"), ("the diversity step", "plain"))
"""The parts of the method, and the arm without each."""
_WHAT: Final = {
    "the trained scorer": "which chooses the document",
    "the diversity step": "which adds documents that combine retrieved pairs in different orders",
}
"""What each part does, in a clause."""
WHOLE_METHOD: Final = "whole"
"""Row of Table 4 that repeats Table 1, so chapters 07 and 08 fill it."""
MAX_ESTIMATES: Final = 3
"""Estimates that the first paragraph of the page's answer may give."""
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
    lengths = {chunked(m): f"BiomedRAG (chunks of {m} words)" for m in words if m != BEST_WORDS}
    variants = {"cosine": LABELS["cosine"], "plain": LABELS["plain"], **lengths}
    all_labels = {**LABELS, **lengths}
    for arm, label in variants.items():
        all_labels[tuned(arm)] = f"Fine-tuned LLM with {label}"
    for n in counts:
        all_labels[knn(n)] = f"{n} nearest (RA-KNN-{n})" if n else "none (LLM alone)"
    for n in counts:
        all_labels[tuned(knn(n))] = f"Fine-tuned LLM with {n} nearest"
    return all_labels


def colours(arms: Iterable[str]) -> dict[str, str]:
    """Colour all arms: the language model alone, and the arms that retrieve."""
    alone = {knn(0), tuned(knn(0))}
    hues = {True: figures.HUES["orange"], False: figures.HUES["magenta"]}
    return {arm: COLOURS.get(arm, hues[arm in alone]) for arm in arms}


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
                "F1 in this run": reruns.score("f1", arm) if arm in reruns.arms else None,
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
        return None if variant == WHOLE_METHOD else Cell(number, data, variant, column)
    if table == "figure3":
        measure = row.removeprefix("git_").removeprefix("re_").removeprefix("triple_")
        return Cell(number, data, column, measure)
    if table == "figure2" and row.startswith("git"):
        return Cell(number, data, column, "f1")
    return None


def summary(out: Outcomes, counts: Sequence[int]) -> str:
    """Write the page's answer: what each part of the method adds, and the best n of RA-KNN-n.

    Fine-tuned variants, the paper's own comparison, come first where there are any. Every
    comparison is named, whether it is significant or not.
    """
    if "biomedrag" not in out.arms:
        return UNTAUGHT
    is_tuned = {tuned(arm) for _, arm in _PARTS} <= set(out.arms)
    removals = _removals(out, is_tuned=is_tuned)
    details = [
        *[removal.sentence() for removal in removals],
        *_equal_choices_text(out),
        "Each p is adjusted by Holm's method for the two data sets of a comparison. This page "
        f"compares BiomedRAG with {figures.in_words(_n_variants(out))} other arms on each data "
        "set.",
        *_best_counts(out, counts),
    ]
    kind = "fine-tuned" if is_tuned else "prompted"
    return f"{_answer(removals, kind)}\n\n{' '.join(details)}"


@dataclass(frozen=True)
class _Removal:
    """The whole method against the method without one part, on one data set."""

    part: str
    data: str
    comparison: Comparison

    @property
    def is_significant(self) -> bool:
        return self.comparison.p < ALPHA

    def finding(self, *, has_size: bool) -> str:
        """Say whether accuracy is higher or lower with the part, and by how much."""
        text = f"{direction(self.comparison)} on {self.data}"
        return f"{text}, by {size_in_words(self.comparison)}" if has_size else text

    def sentence(self) -> str:
        change = change_in_words(self.comparison)
        p = figures.p_words(self.comparison.p)
        return f"On {self.data}, accuracy is {change} with {self.part} than without it ({p})."


def _removals(out: Outcomes, *, is_tuned: bool) -> list[_Removal]:
    removals = []
    for part, arm in _PARTS:
        pair = ("lora_rag", tuned(arm)) if is_tuned else ("biomedrag", arm)
        for name, comparison in gains(out, list(PLACES), pair).items():
            removals.append(_Removal(part, name, comparison))
    return removals


def _equal_choices_text(out: Outcomes) -> list[str]:
    """Count the rows for which the scorer chooses as cosine similarity does; empty if none.

    Equal choices give equal prompts, so only the other rows can tell the two arms apart.
    """
    counts = []
    for name in PLACES:
        frame = out.where(task=name, arm=["biomedrag", "cosine"]).frame
        answered = frame[frame.requests.map(len) > 0]
        with_prompts = answered.assign(prompt=answered.requests.map(tuple))
        prompts = with_prompts.groupby(PAIRING_COLUMNS, dropna=False).prompt
        n_prompts = prompts.nunique()[prompts.size() == 2]
        n_equal = int((n_prompts == 1).sum())
        if n_equal:
            equal_rows = part_in_words(n_equal, len(n_prompts), "row")
            counts.append(f"for {equal_rows} of {name}")
    if not counts:
        return []
    return [
        "The scorer of the prompted model chooses the same document as cosine similarity "
        f"{figures.listed(counts)}. On these rows, the arm without the scorer has the same prompts "
        "as BiomedRAG."
    ]


def _answer(removals: Sequence[_Removal], kind: str) -> str:
    """Say which parts change the accuracy significantly, which do not, and how firm that is."""
    significant = [removal for removal in removals if removal.is_significant]
    sentences = _significant_texts(significant, kind)
    unclear = _unclear_texts(removals)
    if not significant:
        parts = " nor ".join(f"{part}, {what}," for part, what in _WHAT.items())
        sentences.append(f"**Neither {parts} changes the {kind} model's accuracy significantly.**")
    elif unclear:
        sentences.append(f"We found no significant difference {', or '.join(unclear)}.")
    if len(sentences) <= 2:
        sentences.append("These results are exploratory, because this page makes many comparisons.")
    return " ".join(sentences)


def _significant_texts(significant: Sequence[_Removal], kind: str) -> list[str]:
    """Say in a sentence for each part on which data sets it changes the accuracy."""
    has_size = len(significant) <= MAX_ESTIMATES
    sentences = []
    for part, what in _WHAT.items():
        found = [r.finding(has_size=has_size) for r in significant if r.part == part]
        if found:
            changes = f"{', and '.join(found)}," if has_size else " and ".join(found)
            sentences.append(
                f"**With {part}, {what}, the {kind} model's accuracy is significantly {changes} "
                "than without it.**"
            )
    return sentences


def _unclear_texts(removals: Sequence[_Removal]) -> list[str]:
    """Say for each part on which data sets it does not change the accuracy significantly."""
    others = [removal for removal in removals if not removal.is_significant]
    texts = []
    for part in _WHAT:
        names = [removal.data for removal in others if removal.part == part]
        if names:
            texts.append(f"for {part} on {figures.listed(names)}")
    return texts


def _n_variants(out: Outcomes) -> int:
    """Count the other arms of the prompted model, each of which is compared with BiomedRAG."""
    prompted = [arm for arm in out.arms if not arm.startswith("lora")]
    return len(prompted) - prompted.count("biomedrag")


def _best_counts(out: Outcomes, counts: Sequence[int]) -> list[str]:
    """Say which n of RA-KNN-n has the highest F1 on each data set, and how clearly."""
    texts = []
    unclear = []
    for name in PLACES:
        best, is_clear = _best_count(out.where(task=name), [n for n in counts if n])
        texts.append(f"n = {best} on {name}")
        if not is_clear:
            unclear.append(name)
    sentences = [
        "RA-KNN-n shows the n nearest sentences. Of the values of n that we tried, the F1 of "
        f"RA-KNN-n is highest with {figures.listed(texts)}."
    ]
    if unclear:
        sentences.append(
            f"On {figures.listed(unclear)}, the 95 % interval of this F1 overlaps with the 95 % "
            "interval of the F1 with another n."
        )
    return sentences


def _best_count(out: Outcomes, counts: Sequence[int]) -> tuple[int, bool]:
    """Return the n with the highest F1, and whether its interval is apart from all others."""
    scores = {n: out.score("f1", knn(n)) for n in counts}
    best = max(scores, key=lambda n: scores[n].value)
    overlapping = [n for n, score in scores.items() if _overlap(scores[best], score)]
    return best, overlapping == [best]


def _overlap(first: Score, second: Score) -> bool:
    """Whether two 95 % intervals share a value."""
    return first.low <= second.high and second.low <= first.high
