"""Your own table of drugs and side effects: what the four arms of the first chapter need, from one CSV."""

import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from helpers import texts
from helpers.settings import PublicError
from papers.side_effects.corpus import Question

COLUMNS = ("drug", "side_effect")


class TableError(PublicError, ValueError):
    """The table cannot be used; the message says what was needed and what was found."""


def read(path: str | Path) -> dict[str, tuple[str, ...]]:
    """The side effects of each drug, in small letters, from a CSV with the columns drug and side_effect, a pair a row.

    `TableError` if there is no such CSV, a column is missing, a name is empty, or there is no row.
    """
    try:
        # literally: a name may be "NA" or "None"
        table = pd.read_csv(io.StringIO(texts.read(Path(path))), dtype=str, keep_default_na=False)
    except (texts.TextError, pd.errors.EmptyDataError, pd.errors.ParserError) as error:
        found = str(error).strip().rstrip(".")
        raise TableError(f"{path}: {found}. A CSV with the columns {', '.join(COLUMNS)} is needed.") from error
    if not isinstance(table.index, pd.RangeIndex):
        raise TableError(f"{path}: rows have more cells than the first has columns. Put names with a comma in quotes.")
    if lacking := [column for column in COLUMNS if column not in table]:
        found = ", ".join(map(str, table.columns)) or "none"
        raise TableError(
            f"{path} needs the columns {', '.join(COLUMNS)}; {', '.join(lacking)} is missing among: {found}."
        )
    pairs = table[list(COLUMNS)].apply(lambda column: column.str.strip().str.lower())
    empty = pairs.isna() | pairs.eq("")  # a short row has no cell at all
    if table.empty or empty.any(axis=None):
        where = f"line {int(empty.any(axis=1).to_numpy().argmax()) + 2} lacks a name" if len(table) else "it has no row"
        raise TableError(f"{path}: {where}. Each row needs a drug and a side effect.")
    return {
        str(drug): tuple(dict.fromkeys(of_drug)) for drug, of_drug in pairs.groupby("drug", sort=False)["side_effect"]
    }


def questions(knowledge: Mapping[str, Sequence[str]], each: int, seed: int) -> list[Question]:
    """A balanced benchmark: of each drug up to `each` effects that it has, and as many that only others have.

    `TableError` if no drug has an effect and lacks one.
    """
    rng = np.random.default_rng(seed)
    every = sorted({effect for effects in knowledge.values() for effect in effects})
    drawn: list[Question] = []
    for drug in sorted(knowledge):
        known = sorted(knowledge[drug])
        unknown = [effect for effect in every if effect not in knowledge[drug]]
        count = min(each, len(known), len(unknown))
        for label, pool in ((True, known), (False, unknown)):
            drawn += [Question(drug, pool[i], label) for i in sorted(rng.choice(len(pool), count, replace=False))]
    if not drawn:
        raise TableError("Every drug of the table has every side effect of it, so that no question has the answer NO.")
    return drawn


def digest(knowledge: Mapping[str, Sequence[str]]) -> str:
    """SHA-256 of the knowledge, by which a graph that is loaded already is known."""
    lines = sorted(f"{drug}\t{effect}" for drug, effects in knowledge.items() for effect in effects)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
