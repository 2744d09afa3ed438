"""Your own table of drugs and side effects: what the arms of notebook 01 need, from one CSV."""

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
    """Read the side effects of each drug, in lower case, from a CSV with a pair in each row.

    Args:
        path: File with the columns drug and side_effect.

    Returns:
        The side effects of each drug, in the order of the file, without repetition.

    Raises:
        TableError: There is no such CSV, a column is missing, a name is empty or there is no row.
    """
    try:
        table = texts.read_csv(Path(path), COLUMNS)
    except texts.TextError as error:
        raise TableError(f"{path}: {error}") from error
    pairs = table[list(COLUMNS)].apply(lambda column: column.str.strip().str.lower())
    lacks_name = pairs.eq("").any(axis=1)
    if lacks_name.any():
        header_and_first = 2
        line = int(lacks_name.to_numpy().argmax()) + header_and_first
        raise TableError(
            f"{path}: line {line} lacks a name. Each row needs a drug and a side effect."
        )
    knowledge = {}
    for drug, side_effects in pairs.groupby("drug", sort=False)["side_effect"]:
        knowledge[str(drug)] = tuple(dict.fromkeys(side_effects))
    return knowledge


def questions(knowledge: Mapping[str, Sequence[str]], per_drug: int, seed: int) -> list[Question]:
    """Draw a balanced benchmark.

    Args:
        knowledge: The side effects of each drug.
        per_drug: Number of effects drawn for each drug that it has, and as many that only others
            have; fewer where there are fewer.
        seed: Seed of the draw.

    Returns:
        The questions, by drug.

    Raises:
        TableError: No drug has an effect and lacks one.
    """
    rng = np.random.default_rng(seed)
    all_effects = sorted({effect for effects in knowledge.values() for effect in effects})
    drawn: list[Question] = []
    for drug in sorted(knowledge):
        known = sorted(knowledge[drug])
        unknown = [effect for effect in all_effects if effect not in knowledge[drug]]
        count = min(per_drug, len(known), len(unknown))
        for label, pool in ((True, known), (False, unknown)):
            positions = sorted(rng.choice(len(pool), count, replace=False))
            drawn += [Question(drug, pool[position], label) for position in positions]
    if not drawn:
        raise TableError(
            "Every drug of the table has every side effect of it, so that no question has the "
            "answer NO."
        )
    return drawn


def digest(knowledge: Mapping[str, Sequence[str]]) -> str:
    """Return the SHA-256 of the knowledge, by which a graph that is loaded already is known."""
    lines = sorted(f"{drug}\t{effect}" for drug, effects in knowledge.items() for effect in effects)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()
