"""Claims of BiomedRAG that its printed numbers decide: are the differences chance?

Systems that answered the same rows are compared by McNemar's test, which needs the rows where just
one of them is right. The paper prints no such counts. But two printed shares of n rows bound them,
and so the p-value: it is lowest where the weaker system is right nowhere that the stronger one is
wrong, and highest where that happens as often as the two counts allow. A claim is decided only if
every p-value in this range says the same.
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
from evaluation.vocabulary import Tested

INTERACTIONS: Final = 368
"""Test rows of DDI that state an interaction.

More of the printed recalls are whole numbers of these than of all 1,376 (`balance.digits_table`),
so the claims about DDI are tested on them.
"""
TRIPLES: Final = (
    "significant_on_git",
    "better_on_chemprot",
    "better_on_ddi",
    "knn_below_none_on_ddi",
    "best_parts",
    "onerel_beats_unirel",
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
    "rt_10",
    "rt_5",
    "rt_1",
    "rt_20",
    "bert",
    "biobert",
    "gpt4",
    "medllama",
    "llama2",
    "medllama_br",
)


def _numbers(pattern: str, names: Sequence[str]) -> list[str]:
    return [pattern.format(name) for name in names]


_BEST_SYSTEMS: Final = {
    "ddi": "uie_large_ddi.{}_recall",
    "chemprot": "e2h_large_chemprot.{}_recall",
    "git": "onerel_git.{}_f1",
}
"""The best other system of Table 3 on each data set.

OneRel's three columns are out of order: its recall is the third.
"""


def _best_parts() -> dict[str, list[str]]:
    compared = {}
    for data, other in _BEST_SYSTEMS.items():
        for part in ("head", "tail", "relation"):
            ours = f"table3.llama2_br_{data}.{part}_recall"
            compared[ours] = [f"table3.{other.format(part)}"]
    return compared


def _gains(data: str) -> dict[str, list[str]]:
    """Return the three language models of Table 2 with BiomedRAG, each against itself alone."""
    return {
        f"table2.{name}_br.{data}_recall": [f"table2.{name}.{data}_recall"]
        for name in ("medllama", "llama2", "gpt4")
    }


COMPARED: Final = {
    "significant_on_git": {
        "table1.llama2_br.git_recall": [
            *_numbers("table1.{}.git_recall", _SYSTEMS),
            "table1.onerel.git_f1",
        ]
    },
    "better_on_chemprot": {
        "table1.llama2_br.chemprot_recall": [
            *_numbers("table1.{}.chemprot_recall", _SYSTEMS),
            "table1.onerel.chemprot_f1",
        ]
    },
    "significant_on_git_re": {
        "table1.llama2_br.git_re_recall": [
            *_numbers("table1.{}.git_re_recall", _RELATION_SYSTEMS),
            "table4.re_without_scorer.recall",
            "table4.re_without_diversity.recall",
        ]
    },
    "better_on_ddi": {"table1.llama2_br.ddi_f1": ["table1.llama2.ddi_f1", "text.ddi.spbere"]},
    "better_on_ade": _gains("ade"),
    "better_on_mtsamples": _gains("mtsamples"),
    "better_on_umls": _gains("umls"),
    "better_on_adint": _gains("adint"),
    "one_sentence_best_on_ade": {"figure2.ade.top1": ["figure2.ade.other*"]},
    "onerel_beats_unirel": {
        f"table1.onerel.{data}_f1": [f"table1.unirel.{data}_recall"]
        for data in ("ddi", "chemprot", "git")
    },
    "superior_everywhere": {
        "table1.llama2_br.git_recall": ["figure2.git.llama2_top20"],
        "table1.llama2_br.ddi_f1": ["table1.llama2.ddi_f1"],
        "table1.llama2_br.chemprot_recall": ["figure2.chemprot.top1"],
        "table1.llama2_br.git_re_recall": ["figure2.git_re.llama2_top20"],
        "table2.medllama_br.ade_recall": ["figure2.ade.top1"],
        "table2.gpt4_br.mtsamples_recall": ["table2.gpt4.mtsamples_recall"],
        "table2.llama2_br.umls_recall": ["figure2.umls.top10"],
        "table2.llama2_br.adint_recall": ["figure2.adint.other1"],
    },
    "knn_below_none_on_ddi": {"table1.llama2.ddi_f1": ["figure2.ddi.*"]},
    "best_parts": _best_parts(),
}
"""For each claim that printed numbers decide: the number that it calls higher, and the others."""
_SIGNIFICANT: Final = (
    "significant_on_git",
    "significant_on_git_re",
    "best_parts",
    "onerel_beats_unirel",
)
"""Claims that a difference refutes if it cannot be significant.

The others are about better scores alone.
"""
_OTHER_COUNTS: Final = " Precision and F1 are shares of other counts and are not tested."
_NEAREST: Final = " Where no count of the rows gives a printed share, the nearest count is tested."
_MORE: Final = {
    "significant_on_git": _NEAREST + _OTHER_COUNTS,
    "better_on_ddi": _NEAREST
    + " The printed recall of BiomedRAG is below that of LLaMA2 13B alone. SPBERE's F1 is from its "
    "own paper.",
    "better_on_chemprot": _OTHER_COUNTS,
    "better_on_ade": " The 99.89 of MedLLaMA 13B + BiomedRAG is no count of 500 rows; the nearest "
    "count is tested.",
    "onerel_beats_unirel": _NEAREST
    + " The recall of OneRel is its third column; as the columns are headed, its F1 on DDI (22.09) "
    "is below that of UniRel (27.13), too.",
    "superior_everywhere": _NEAREST
    + " On each data set the best row with BiomedRAG is compared with the best other one, of a "
    "table or of Figure 2.",
    "best_parts": " Table 3 lacks LLaMA2 13B alone, which comes nearer in whole triples.",
}


def mcnemar_range(first: int, second: int, n: int) -> tuple[float, float]:
    """Bound the p-value of McNemar's exact test of two arms.

    Args:
        first: Number of rows that one arm has right.
        second: Number of rows that the other arm has right.
        n: Number of rows.

    Returns:
        The lowest and the highest p-value.

    Raises:
        ValueError: A count is not within 0 and n.
    """
    if not (0 <= first <= n and 0 <= second <= n):
        raise ValueError(f"Counts within 0 and {n} are needed; found {first} and {second}.")
    difference = abs(first - second)
    # rows that only the weaker arm has right: none, or all that the stronger one leaves
    max_only_weaker = min(first, second, n - max(first, second))
    return _mcnemar_p(difference, 0), _mcnemar_p(difference, max_only_weaker)


def _mcnemar_p(difference: int, only_weaker: int) -> float:
    n_discordant = difference + 2 * only_weaker
    if n_discordant == 0:
        return 1.0
    return float(binomtest(only_weaker, n_discordant).pvalue)


def verdict(difference: float, low: float, high: float, *, significantly: bool) -> Tested:
    """Decide whether a printed difference is more than chance.

    Args:
        difference: The number that the claim calls higher, minus the other.
        low: The lowest p-value that the difference may have.
        high: The highest p-value that it may have.
        significantly: Whether the claim calls the difference significant. Then it is refuted also
            where it cannot be.
    """
    if difference <= 0 or (significantly and low >= ALPHA):
        return "differs"
    return "agrees" if high < ALPHA else "inconclusive"


def comparisons(printed: Published, claim: str) -> pd.DataFrame:
    """List the comparisons of a claim, with the range of McNemar's p, adjusted by Holm over them.

    Differences are in points.

    Raises:
        ValueError: The paper does not say how many rows a share was counted on.
    """
    pairs = _pairs(printed, claim)
    ranges = [_p_range(ours, other) for ours, other in pairs]
    lows = holm([low for low, _ in ranges])
    highs = holm([high for _, high in ranges])
    rows = []
    for i, (ours, other) in enumerate(pairs):
        against = other.row.removeprefix("Relation Extraction, ")
        if claim == "best_parts":
            measure = other.id.rpartition(".")[2]
            against += f", {measure.partition('_')[0]}"
        difference = 100 * (ours.value - other.value)
        # refuted by its own p: an adjusted one grows with each further comparison
        own_low = ranges[i][0]
        found = verdict(difference, own_low, highs[i], significantly=claim in _SIGNIFICANT)
        rows.append(
            {
                "printed": f"{ours.row}, {ours.column}: {ours.printed}",
                "against": against,
                "theirs": other.printed,
                "difference": difference,
                "rows": _n_rows(ours),
                "low": lows[i],
                "high": highs[i],
                "verdict": found,
            }
        )
    return pd.DataFrame(rows)


def _pairs(printed: Published, claim: str) -> list[tuple[Number, Number]]:
    """Return the pairs of printed numbers that a claim compares."""
    pairs = []
    for ours, patterns in COMPARED[claim].items():
        number = printed.number(f"biomedrag.{ours}")
        for pattern in patterns:
            others = [n for n in printed.numbers if fnmatch(n.id, f"biomedrag.{pattern}")]
            pairs += [(number, other) for other in others]
    return pairs


def _p_range(ours: Number, other: Number) -> tuple[float, float]:
    n = _n_rows(ours)
    return mcnemar_range(round(ours.value * n), round(other.value * n), n)


def _n_rows(number: Number) -> int:
    if number.n is None:
        raise ValueError(
            f"{number.id} has no n, so its share is no count. Give it one in data/published."
        )
    return INTERACTIONS if "ddi" in number.id else number.n


def decision(printed: Published, claim: str) -> Decision:
    """Decide a claim by the printed numbers; else the paired answers would have to decide it."""
    table = comparisons(printed, claim)
    decided = all_of(table["verdict"])
    why = _reason(table, table["verdict"] == decided)
    if claim.endswith("_on_ddi"):
        why += (
            f" This counts the {INTERACTIONS} test rows with an interaction, as the printed "
            "recalls suggest."
        )
    why += _MORE.get(claim, "")
    if decided == "inconclusive":
        why += " The required paired answers are not public."
        return Decision("cannot be tested", why, reason="not public")
    return Decision(decided, why)


def _reason(table: pd.DataFrame, is_decisive: pd.Series) -> str:
    """Say how many differences are significant, and which decisive one is the smallest."""
    is_significant = (table["high"] < ALPHA) & (table["difference"] > 0)
    weakest = table[is_decisive].sort_values("difference").iloc[0]
    low, high = figures.p_words(weakest["low"]), figures.p_words(weakest["high"])
    p = low if low == high else f"from {low} to {high}"
    return (
        f"{int(is_significant.sum())} of {len(table)} printed differences are significant for "
        f"every pairing of the rows; the least clear is "
        f"{figures.signed(weakest['difference'], 2)} points against {weakest['against']} on "
        f"{weakest['rows']:,} rows (McNemar, Holm: {p})."
    )


def comparison_table(printed: Published, claims: Sequence[str]) -> figures.Html:
    """Show the comparisons of some claims, a row each."""
    table = pd.concat([comparisons(printed, claim) for claim in claims], ignore_index=True)
    table["difference"] = [figures.signed(value, 2) for value in table["difference"]]
    for bound in ("low", "high"):
        table[bound] = table[bound].map(figures.p_text)
    names = {
        "difference": "difference, points",
        "low": "p (Holm), lowest",
        "high": "p (Holm), highest",
    }
    return figures.table(
        table.rename(columns=names),
        "Printed numbers: the range of McNemar's p that they allow, adjusted by Holm",
    )
