"""Claims of BiomedRAG that its printed numbers decide: are the differences larger than chance on so many rows?"""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd
from statsmodels.stats.proportion import proportions_ztest

from helpers import figures
from helpers.metrics import holm
from helpers.published import Number, Published
from helpers.record import Run


def against_others(printed: Published) -> dict[str, tuple[Number, dict[str, Number]]]:
    """For each claim the printed number of LLaMA2 13B + BiomedRAG, and those that it is said to be better than."""
    recalls = {
        number.row: number
        for number in printed.numbers
        if number.id.startswith("biomedrag.table1.") and number.id.endswith(".git_recall")
    }
    best = recalls.pop(printed.number("biomedrag.table1.llama2_br.git_recall").row)
    recalls["LLaMA2 13B, RA-KNN-20 (F1)"] = printed.number("biomedrag.figure2.git.llama2_top20")
    on_ddi = {
        "LLaMA2 13B": printed.number("biomedrag.table1.llama2.ddi_f1"),
        "SPBERE": printed.number("biomedrag.text.ddi.spbere"),
    }
    return {
        "significant_on_git": (best, recalls),
        "better_on_ddi": (printed.number("biomedrag.table1.llama2_br.ddi_f1"), on_ddi),
    }


def tests(first: Number, others: Mapping[str, Number]) -> pd.DataFrame:
    """Two-proportion z-tests of one printed share against others, as counts of the first one's rows.

    Returns:
        A row a comparison: against, printed, difference in points, p (Holm).

    Raises:
        ValueError: the paper does not say how many rows the first number was counted on.
    """
    n = first.n
    if n is None:
        raise ValueError(f"{first.id} has no n, so its share is no count. Give it one in data/published.")
    ps = [
        float(proportions_ztest([round(first.value * n), round(other.value * n)], [n, n])[1])
        for other in others.values()
    ]
    return pd.DataFrame(
        {
            "against": list(others),
            "printed": [other.printed for other in others.values()],
            "difference, points": [100 * (first.value - other.value) for other in others.values()],
            "p (Holm)": holm(ps),
        }
    )


def decide(run: Run) -> pd.DataFrame:
    """Decide both claims; the table has a row for each comparison."""
    tables = []
    for claim, (first, others) in against_others(run.printed).items():
        table = tests(first, others)
        clear = (table["p (Holm)"] < 0.05) & (table["difference, points"] > 0)
        weakest = table.sort_values("p (Holm)").iloc[-1]
        run.claim(
            f"biomedrag.claim.{claim}",
            "agrees" if clear.all() else "differs",
            f"{clear.sum()} of {len(table)} printed differences are significant on {first.n:,} rows; the least clear "
            f"is {figures.signed(weakest['difference, points'], 2)} points over {weakest.against} "
            f"({figures.p_words(weakest['p (Holm)'])}).",
            p=float(weakest["p (Holm)"]),
        )
        tables.append(table.assign(printed_first=f"{first.row}, {first.column}: {first.printed}"))
    joined = pd.concat(tables, ignore_index=True).rename(columns={"printed_first": "printed"} | {"printed": "theirs"})
    return joined[["printed", "against", "theirs", "difference, points", "p (Holm)"]]
