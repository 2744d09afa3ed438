"""Claims of BiomedRAG that its printed numbers decide: can the differences be chance on so many rows?

Systems that answered the same rows are compared by McNemar's test, which needs the rows where just one of them is
right. The paper prints no such counts. But two printed shares of n rows bound them, and so the p-value: it is lowest
where the weaker system is right nowhere that the stronger one is wrong, and highest where that happens as often as the
two counts allow. A claim is decided only if every p-value in this range says the same.
"""

from collections.abc import Sequence
from fnmatch import fnmatch
from typing import Final

import pandas as pd
from scipy.stats import binomtest

from evaluation import figures
from evaluation.decisions import Decision, all_of
from evaluation.metrics import ALPHA
from evaluation.paired import holm
from evaluation.published import Number, Published
from evaluation.records import Tested

INTERACTIONS: Final = 368
"""Test rows of DDI that state an interaction. More of the printed recalls are whole numbers of these than of all 1,376
(`balance.digits_table`), so the claims about DDI are tested on them."""
TRIPLES: Final = (
    "significant_on_git",
    "better_on_chemprot",
    "better_on_ddi",
    "knn_below_none_on_ddi",
    "best_parts",
)
"""Claims about triples that the printed numbers decide."""

_SYSTEMS: Final = (
    "unirel",
    "uie_base",
    "e2h_large",
    "e2h_base",
    "uie_large",
    "gpt4",
    "medllama",
    "llama2",
)
_RELATION_SYSTEMS: Final = (
    "rt_10", "rt_5", "rt_1", "rt_20", "bert", "biobert", "gpt4", "medllama", "llama2", "medllama_br",
)  # fmt: skip
COMPARED: Final = {
    # OneRel's three columns are out of order: its recall is the third
    "significant_on_git": {
        "table1.llama2_br.git_recall": [f"table1.{name}.git_recall" for name in _SYSTEMS]
        + ["table1.onerel.git_f1"]
    },
    "better_on_chemprot": {
        "table1.llama2_br.chemprot_recall": [f"table1.{name}.chemprot_recall" for name in _SYSTEMS]
        + ["table1.onerel.chemprot_f1"]
    },
    "significant_on_git_re": {
        "table1.llama2_br.git_re_recall": [
            f"table1.{name}.git_re_recall" for name in _RELATION_SYSTEMS
        ]
        + ["table4.re_without_scorer.recall", "table4.re_without_diversity.recall"]
    },
    "better_on_ddi": {"table1.llama2_br.ddi_f1": ["table1.llama2.ddi_f1", "text.ddi.spbere"]},
    "better_on_ade": {
        f"table2.{name}_br.ade_recall": [f"table2.{name}.ade_recall"]
        for name in ("medllama", "llama2", "gpt4")
    },
    "knn_below_none_on_ddi": {"table1.llama2.ddi_f1": ["figure2.ddi.*"]},
    "best_parts": {
        f"table3.llama2_br_{data}.{part}_recall": [f"table3.{other.format(part)}"]
        for data, other in {
            "ddi": "uie_large_ddi.{}_recall",
            "chemprot": "e2h_large_chemprot.{}_recall",
            "git": "onerel_git.{}_f1",
        }.items()
        for part in ("head", "tail", "relation")
    },
}
"""For each claim that printed numbers decide: the number that is said to be higher, and those that it is held
against."""
_SIGNIFICANT: Final = ("significant_on_git", "significant_on_git_re", "best_parts")
"""Claims that a difference refutes if it cannot be significant. The others are about better scores alone."""
_OTHER_COUNTS: Final = " Precision and F1 are shares of other counts and are not tested."
_NEAREST: Final = " Where no count of the rows gives a printed share, the nearest count is tested."
_MORE: Final = {
    "significant_on_git": _NEAREST + _OTHER_COUNTS,
    "better_on_ddi": f"{_NEAREST} The printed recall of BiomedRAG is below that of LLaMA2 13B alone. SPBERE's F1 is "
    "from its own paper.",
    "better_on_chemprot": _OTHER_COUNTS,
    "better_on_ade": " The 99.89 of MedLLaMA 13B + BiomedRAG is no count of 500 rows; the nearest count is tested.",
    "best_parts": " LLaMA2 13B alone, whose whole triples come nearer, is not in Table 3.",
}


def mcnemar_range(first: int, second: int, n: int) -> tuple[float, float]:
    """The lowest and the highest p-value of McNemar's exact test of two arms with so many of n rows right.

    Raises ValueError: a count is not within 0 and n.
    """
    if not (0 <= first <= n and 0 <= second <= n):
        raise ValueError(f"Counts within 0 and {n} are needed; found {first} and {second}.")
    apart, fewer = abs(first - second), min(first, second)
    # rows that the weaker arm alone has right: none, or all that the stronger one leaves
    most = min(fewer, n - max(first, second))
    low, high = (
        float(binomtest(only, apart + 2 * only).pvalue) if apart + only else 1.0
        for only in (0, most)
    )
    return low, high


def verdict(difference: float, low: float, high: float, *, significantly: bool) -> Tested:
    """Whether a printed difference is one, by the lowest and the highest p-value that it may have.

    If it is said to be significant, it is refuted also where it cannot be.
    """
    if difference <= 0 or (significantly and low >= ALPHA):
        return "differs"
    return "agrees" if high < ALPHA else "undecided"


def tests(printed: Published, claim: str) -> pd.DataFrame:
    """The range of McNemar's p of each comparison of a claim, adjusted by Holm over them; differences in points.

    Raises ValueError: the paper does not say how many rows a share was counted on.
    """
    pairs = [
        (printed.number(f"biomedrag.{ours}"), other)
        for ours, patterns in COMPARED[claim].items()
        for pattern in patterns
        for other in printed.numbers
        if fnmatch(other.id, f"biomedrag.{pattern}")
    ]
    ranges = [
        mcnemar_range(round(ours.value * _rows(ours)), round(o.value * _rows(ours)), _rows(ours))
        for ours, o in pairs
    ]
    lows, highs = (holm(side) for side in zip(*ranges, strict=True))
    rows = []
    for (ours, other), (least, _), low, high in zip(pairs, ranges, lows, highs, strict=True):
        part = f", {other.id.rpartition('.')[2].partition('_')[0]}" if claim == "best_parts" else ""
        difference = 100 * (ours.value - other.value)
        rows.append(
            {
                "printed": f"{ours.row}, {ours.column}: {ours.printed}",
                "against": other.row.removeprefix("Relation Extraction, ") + part,
                "theirs": other.printed,
                "difference": difference,
                "rows": _rows(ours),
                "low": low,
                "high": high,
                # refuted by its own p: an adjusted one grows with each further comparison
                "verdict": verdict(difference, least, high, significantly=claim in _SIGNIFICANT),
            }
        )
    return pd.DataFrame(rows)


def _rows(number: Number) -> int:
    if number.n is None:
        raise ValueError(
            f"{number.id} has no n, so its share is no count. Give it one in data/published."
        )
    return INTERACTIONS if "ddi" in number.id else number.n


def decision(printed: Published, claim: str) -> Decision:
    """What the printed numbers say about a claim; where they do not decide it, the paired answers would have to."""
    table = tests(printed, claim)
    decided = all_of(table["verdict"])
    # of the rows that the verdict hangs on, the one with the smallest difference
    weakest = table[table["verdict"] == decided].sort_values("difference").iloc[0]
    surely = int(((table["high"] < ALPHA) & (table["difference"] > 0)).sum())
    low, high = figures.p_words(weakest["low"]), figures.p_words(weakest["high"])
    why = (
        f"{surely} of {len(table)} printed differences are significant for every pairing of the rows; the least clear "
        f"is {figures.signed(weakest['difference'], 2)} points against {weakest['against']} on {weakest['rows']:,} "
        f"rows (McNemar, Holm: {low if low == high else f'from {low} to {high}'})."
    )
    if claim.endswith("_on_ddi"):
        why += f" This counts the {INTERACTIONS} test rows with an interaction, as the printed recalls suggest."
    why += _MORE.get(claim, "")
    if decided == "undecided":
        why += " The required paired answers are not public."
        return Decision("cannot be run", why, reason="not public")
    return Decision(decided, why)


def shown(printed: Published, claims: Sequence[str]) -> figures.Html:
    """The comparisons of some claims, a row each."""
    table = pd.concat([tests(printed, claim) for claim in claims], ignore_index=True)
    table["difference"] = [figures.signed(x, 2) for x in table["difference"]]
    for side in ("low", "high"):
        table[side] = table[side].map(figures.p_text)
    names = {
        "difference": "difference, points",
        "low": "p (Holm), lowest",
        "high": "p (Holm), highest",
    }
    return figures.table(
        table.rename(columns=names),
        "Printed numbers: the range of McNemar's p that they allow, adjusted by Holm",
    )
