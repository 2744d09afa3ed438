"""Claims of BiomedRAG that its printed numbers decide: can the differences be chance on so many rows?

Systems that answered the same rows are compared by McNemar's test, which needs the rows where just one of them is
right. The paper prints no such counts. But two printed shares of n rows bound them, and so the p-value: it is lowest
where the weaker system is right nowhere that the stronger one is wrong, and highest where that happens as often as the
two counts allow. A claim is decided only if every p-value in this range says the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import pandas as pd
from scipy.stats import binomtest

from helpers.results import figures
from helpers.results.paired import holm
from helpers.results.published import Number, Published
from helpers.results.rules import Decision
from helpers.results.verdicts import ALPHA, Tested, all_of

INTERACTIONS: Final = 368
"""Test rows of DDI that state an interaction. More of the printed recalls are whole numbers of these than of all 1,376
(`balance.grains`), so the claims about DDI are tested on them."""
TRIPLES: Final = ("significant_on_git", "better_on_ddi", "knn_below_none_on_ddi", "best_parts")
"""Claims about triples that the printed numbers decide."""
RELATIONS: Final = ("significant_on_git_re",)
"""Claims about relations that the printed numbers decide."""

_BASELINES: Final = ("unirel", "onerel", "uie_base", "e2h_large", "e2h_base", "uie_large", "gpt4", "medllama", "llama2")
_RELATION_SYSTEMS: Final = (
    "rt_10", "rt_5", "rt_1", "rt_20", "bert", "biobert", "gpt4", "medllama", "llama2", "medllama_br",
)  # fmt: skip
_PARTS: Final = {"ddi": "uie_large", "chemprot": "e2h_large", "git": "onerel"}


@dataclass(frozen=True)
class Compared:
    """Two printed shares of the same rows.

    Attributes:
        first: the one that is said to be higher.
        second: the other.
        against: the system of the second, and of what it is a share.
        n: rows.
    """

    first: Number
    second: Number
    against: str
    n: int

    @property
    def difference(self) -> float:
        """First less second, in points."""
        return 100 * (self.first.value - self.second.value)

    @property
    def p(self) -> tuple[float, float]:
        """The lowest and the highest p-value of McNemar's exact test that the two shares allow."""
        return mcnemar_range(round(self.first.value * self.n), round(self.second.value * self.n), self.n)


def mcnemar_range(first: int, second: int, n: int) -> tuple[float, float]:
    """The lowest and the highest p-value of McNemar's exact test of two arms with so many of n rows right.

    Raises:
        ValueError: a count is not within 0 and n.
    """
    if not (0 <= first <= n and 0 <= second <= n):
        raise ValueError(f"Counts within 0 and {n} are needed; found {first} and {second}.")
    apart, fewer = abs(first - second), min(first, second)
    # rows that the weaker arm alone has right: none, or all that the stronger one leaves
    most = min(fewer, n - max(first, second))
    low, high = (float(binomtest(only, apart + 2 * only).pvalue) if apart + only else 1.0 for only in (0, most))
    return low, high


def comparisons(printed: Published, claim: str) -> list[Compared]:
    """The printed shares that decide a claim.

    Raises:
        ValueError: no printed shares decide it, or the paper does not say how many rows one was counted on.
    """

    def number(id: str) -> Number:
        return printed.number(f"biomedrag.{id}")

    def recall(place: str, measure: str) -> Number:
        # OneRel's three columns are out of order: its recall is the third
        return number(f"{place}.{measure.replace('recall', 'f1') if 'onerel' in place else measure}")

    if claim == "significant_on_git":
        ours = number("table1.llama2_br.git_recall")
        others = [recall(f"table1.{system}", "git_recall") for system in _BASELINES]
        return [Compared(ours, other, other.row, _rows(ours)) for other in others]
    if claim == "significant_on_git_re":
        ours = number("table1.llama2_br.git_re_recall")
        others = [number(f"table1.{system}.git_re_recall") for system in _RELATION_SYSTEMS]
        others += [number(f"table4.re_without_{part}.recall") for part in ("scorer", "diversity")]
        return [Compared(ours, other, other.row.removeprefix("Relation Extraction, "), _rows(ours)) for other in others]
    if claim == "better_on_ddi":
        ours, others = number("table1.llama2_br.ddi_f1"), [number("table1.llama2.ddi_f1"), number("text.ddi.spbere")]
        return [Compared(ours, other, other.row, _rows(ours)) for other in others]
    if claim == "knn_below_none_on_ddi":
        alone = number("table1.llama2.ddi_f1")
        drawn = [other for other in printed.numbers if other.id.startswith("biomedrag.figure2.ddi.")]
        return [Compared(alone, other, other.row, _rows(alone)) for other in drawn]
    if claim == "best_parts":
        return [
            Compared(number(f"table3.llama2_br_{data}.{part}_recall"), other, f"{other.row}, {part}", _rows(other))
            for data, system in _PARTS.items()
            for part in ("head", "tail", "relation")
            for other in [recall(f"table3.{system}_{data}", f"{part}_recall")]
        ]
    raise ValueError(f"The printed numbers do not decide {claim!r}; they do {', '.join(TRIPLES + RELATIONS)}.")


def _rows(number: Number) -> int:
    if number.n is None:
        raise ValueError(f"{number.id} has no n, so its share is no count. Give it one in data/published.")
    return INTERACTIONS if "ddi" in number.id else number.n


def verdict(difference: float, low: float, high: float, *, significantly: bool) -> Tested:
    """Whether a printed difference is one, by the lowest and the highest p-value that it may have.

    Args:
        difference: that is said to be positive.
        low: p-value.
        high: p-value.
        significantly: whether it is said to be significant; only then is it refuted where it cannot be.
    """
    if difference <= 0 or (significantly and low >= ALPHA):
        return "differs"
    return "agrees" if high < ALPHA else "undecided"


def tests(compared: Sequence[Compared], *, significantly: bool = True) -> pd.DataFrame:
    """The range of McNemar's p of each comparison, adjusted by Holm over them.

    Returns:
        A row a comparison: first, against, printed, difference (points), rows, low, high, verdict.
    """
    lows, highs = (holm([each.p[side] for each in compared]) for side in (0, 1))
    return pd.DataFrame(
        [
            {
                "first": f"{each.first.row}, {each.first.column}: {each.first.printed}",
                "against": each.against,
                "printed": each.second.printed,
                "difference": each.difference,
                "rows": each.n,
                "low": low,
                "high": high,
                "verdict": verdict(each.difference, low, high, significantly=significantly),
            }
            for each, low, high in zip(compared, lows, highs, strict=True)
        ]
    )


def decision(printed: Published, claim: str) -> Decision:
    """What the printed numbers say about a claim; where they do not decide it, the paired answers would have to."""
    table = tests(comparisons(printed, claim), significantly=not claim.endswith("_on_ddi"))
    decided = all_of(table["verdict"])
    # of the rows that the verdict hangs on, the one with the smallest difference
    weakest = table[table["verdict"] == decided].sort_values("difference").iloc[0]
    why = _why(table, weakest, claim)
    if decided == "undecided":
        why += " The paired answers, which would decide it, are not public."
        return Decision("cannot be run", why, reason="not public")
    return Decision(decided, why)


def shown(printed: Published, claims: Sequence[str]) -> figures.Html:
    """The comparisons of some claims, a row each."""
    of_claims = [tests(comparisons(printed, c), significantly=not c.endswith("_on_ddi")) for c in claims]
    table = pd.concat(of_claims, ignore_index=True)
    rows = pd.DataFrame(
        {
            "printed": table["first"],
            "against": table["against"],
            "theirs": table["printed"],
            "difference, points": [figures.signed(x, 2) for x in table["difference"]],
            "rows": table["rows"],
            "p (Holm), lowest": table["low"].map(figures.p_text),
            "p (Holm), highest": table["high"].map(figures.p_text),
            "verdict": table["verdict"],
        }
    )
    return figures.table(rows, "Printed numbers: the range of McNemar's p that they allow, adjusted by Holm")


def _why(table: pd.DataFrame, weakest: pd.Series, claim: str) -> str:
    surely = int(((table["high"] < ALPHA) & (table["difference"] > 0)).sum())
    low, high = figures.p_words(weakest["low"]), figures.p_words(weakest["high"])
    why = (
        f"{surely} of {len(table)} printed differences are significant however the rows pair up; the least clear is "
        f"{figures.signed(weakest['difference'], 2)} points against {weakest['against']} on {weakest['rows']:,} rows "
        f"(McNemar, Holm: {low if low == high else f'from {low} to {high}'})."
    )
    if claim.endswith("_on_ddi"):
        why += f" Counted are the {INTERACTIONS} test rows that state an interaction, as the printed recalls suggest."
    return why + _MORE.get(claim, "")


_MORE: Final = {
    "significant_on_git": " Precision and F1 are shares of other counts and are not tested.",
    "better_on_ddi": " The printed recall of BiomedRAG is below that of LLaMA2 13B alone. SPBERE's F1 is from its "
    "own paper.",
    "best_parts": " LLaMA2 13B alone, whose whole triples come nearer, is not in Table 3.",
}
