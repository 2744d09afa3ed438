"""Your own table of drugs and side effects: what the four arms of the first chapter need, from one CSV."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from helpers import texts
from papers.side_effects.corpus import Question
from resources.settings import PublicError

COLUMNS = ("drug", "side_effect")


class TableError(PublicError, ValueError):
    """The table cannot be used; the message says what was needed and what was found."""


def read(path: str | Path) -> dict[str, tuple[str, ...]]:
    """The side effects of each drug, in small letters, from a CSV with the columns drug and side_effect, a pair a row.

    `TableError` if there is no such CSV, a column is missing, a name is empty, or there is no row.
    """
    try:
        table = texts.read_csv(Path(path), COLUMNS)
    except texts.TextError as error:
        raise TableError(f"{path}: {error}") from error
    pairs = table[list(COLUMNS)].apply(lambda column: column.str.strip().str.lower())
    if (empty := pairs.eq("").any(axis=1)).any():
        where = f"line {int(empty.to_numpy().argmax()) + 2} lacks a name"
        raise TableError(f"{path}: {where}. Each row needs a drug and a side effect.")
    return {
        str(drug): tuple(dict.fromkeys(of_drug))
        for drug, of_drug in pairs.groupby("drug", sort=False)["side_effect"]
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
            drawn += [
                Question(drug, pool[i], label)
                for i in sorted(rng.choice(len(pool), count, replace=False))
            ]
    if not drawn:
        raise TableError(
            "Every drug of the table has every side effect of it, so that no question has the answer NO."
        )
    return drawn


def digest(knowledge: Mapping[str, Sequence[str]]) -> str:
    """SHA-256 of the knowledge, by which a graph that is loaded already is known."""
    lines = sorted(f"{drug}\t{effect}" for drug, effects in knowledge.items() for effect in effects)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
