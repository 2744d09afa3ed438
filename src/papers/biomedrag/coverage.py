"""What a run can fill of each table and figure of biomedrag.md, and what would fill the rest."""

from collections import Counter, defaultdict
from typing import Final

import pandas as pd

from evaluation import figures
from evaluation.published import Number, Published
from papers.biomedrag.study import ROWS

NEVER: Final = "no run"
LLAMA2: Final = "LLaMA2 13B, fine-tuned"
MEDLLAMA: Final = "MedLLaMA 13B, fine-tuned"
GPT4: Final = "GPT-4, prompted"
ENCODERS: Final = "BERT, BioBERT, GatorTron, fine-tuned"
OTHERS: Final = "other systems' code"
FILLERS: Final = (LLAMA2, MEDLLAMA, GPT4, ENCODERS, OTHERS, NEVER)
"""What may fill a printed number, in the order of the table's columns."""
_N_NOT_READ: Final = "n not read"
"""In the row of a value of Figure 2 whose n was not read from the axis."""
_ENCODER_ROWS: Final = ("bert", "biobert", "gatortron")
_RESULTS: Final = ("Table 1", "Table 2", "Table 3", "Table 4", "Figure 2", "Figure 3", "Text")


def filler_of(number: Number) -> str:
    """Return what would fill a printed number: one of `FILLERS`."""
    if number.why_no_rerun or _N_NOT_READ in number.row:
        return NEVER
    row = _system_of(number)
    if row.startswith("medllama"):
        return MEDLLAMA
    if row.startswith("gpt4"):
        return GPT4
    if row in _ENCODER_ROWS:
        return ENCODERS
    return LLAMA2 if row in ROWS else OTHERS


def _system_of(number: Number) -> str:
    """Return the system of a printed number as the ids of Tables 1 and 2 name it."""
    _, table, row, column = number.id.split(".")
    if table == "table3":
        return row.rpartition("_")[0]
    if table == "text":
        return column.rpartition("_")[2]
    if table in ("table4", "figure3"):
        return "llama2"
    if table == "figure2":
        return "medllama" if column == "medllama_top1" else "llama2"
    return row


def table(printed: Published) -> figures.Html:
    """Count the numbers of each table and figure by what would fill them in a rerun."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for number in printed.numbers:
        place = number.table.partition(" (")[0]
        counts[place][filler_of(number)] += 1
    rows = []
    for place in _RESULTS:
        row = {"where": place, "printed numbers": counts[place].total()}
        row |= {filler: counts[place][filler] for filler in FILLERS}
        rows.append(row)
    caption = (
        "How many printed numbers each kind of rerun can repeat. A smaller model may stand in for "
        f'the model that a column names. The column "{NEVER}" counts the values of Figure 2 whose '
        "n we did not read, the F1 values that the paper cites from other papers, and numbers that "
        "are not results, such as counts of texts."
    )
    return figures.table(pd.DataFrame(rows), caption)
