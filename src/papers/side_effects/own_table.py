"""Your own table of drugs and side effects: for the arms of notebook 01, and for the system."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from evaluation import figures
from helpers import tables, texts
from helpers.counting import counted
from papers.side_effects.catalogue import NO_FREQUENCY, Catalogue, Frequency, Pair
from papers.side_effects.corpus import Question
from papers.side_effects.facts import WORDS, Facts
from resources.settings import PublicError

COLUMNS = ("drug", "side_effect")
NAMES = {
    "drug": [
        "drug",
        "drug name",
        "drugs",
        "medicine",
        "medication",
        "substance",
        "compound",
        "active ingredient",
        "generic name",
        "product",
        "treatment",
    ],
    "effect": [
        "effect",
        "side effect",
        "side effects",
        "side effect name",
        "effects",
        "adverse effect",
        "adverse effects",
        "adverse reaction",
        "adverse reactions",
        "adverse event",
        "adverse events",
        "reaction",
        "event",
        "term",
        "preferred term",
        "pt",
        "symptom",
    ],
    "frequency": ["frequency", "incidence", "rate", "percent", "percentage", "share", "how often"],
    "class": ["class", "drug class", "atc class", "therapeutic class", "group"],
    "organ": ["organ", "organ class", "organ system", "system organ class", "soc"],
}
"""Names that a column of each kind may have; the last three kinds may be missing."""
SEVERAL = re.compile(r"\s*[;|\n]\s*")
"""What separates several names in one cell."""
LIST_COMMA = re.compile(r",(?!\d)")
"""A comma that may separate names, unlike that in "2,4-dinitrophenol"."""
MAX_COLUMNS = 8
"""Columns that a message names."""
NEEDED = ("drug", "effect")
"""The kinds of column that each table has."""


class TableError(PublicError, ValueError):
    """The table cannot be used; the message says what was needed and what was found."""


@dataclass(frozen=True)
class Layout:
    """How a table is laid out; a column without a name here is found by its usual names.

    Attributes:
        drug: The column of drugs.
        effect: The column of side effects.
        frequency: The column of frequencies.
        drug_class: The column of drug classes.
        organ: The column of organ classes.
        separator: What else than ";", "|" and a line end separates several effects in a cell.
    """

    drug: str = ""
    effect: str = ""
    frequency: str = ""
    drug_class: str = ""
    organ: str = ""
    separator: str = ""

    @property
    def columns(self) -> dict[str, str]:
        """The named columns, by kind."""
        return {
            "drug": self.drug,
            "effect": self.effect,
            "frequency": self.frequency,
            "class": self.drug_class,
            "organ": self.organ,
        }


FOUND_BY_NAME = Layout()


@dataclass(frozen=True)
class OwnRow:
    """One pair of a drug and a side effect, in lower case.

    Attributes:
        number: Number of its row in the file.
        drug: Name of the drug.
        effect: Name of the side effect.
        frequency: The frequency as it is written; empty if there is none.
        classes: The classes of the drug.
        organ: The organ class of the effect; empty if there is none.
    """

    number: int
    drug: str
    effect: str
    frequency: str = ""
    classes: tuple[str, ...] = ()
    organ: str = ""

    @property
    def pair(self) -> Pair:
        """Drug and side effect."""
        return self.drug, self.effect


@dataclass(frozen=True)
class OwnTable:
    """A table that was read.

    Attributes:
        rows: Its pairs of a drug and a side effect.
        unread: Its columns that hold none of what the system reads.
        lacking: The kinds of column, such as "frequency", that were not found in it.
    """

    rows: list[OwnRow]
    unread: tuple[str, ...]
    lacking: tuple[str, ...]


def read(path: str | Path, layout: Layout = FOUND_BY_NAME) -> dict[str, tuple[str, ...]]:
    """Read the side effects of each drug, in lower case.

    Args:
        path: CSV, TSV or Excel file with a pair in each row.
        layout: What its columns are.

    Returns:
        The side effects of each drug, in the order of the file, without repetition.

    Raises:
        TableError: There is no such table, a column is missing, a name is empty or there is no row.
    """
    return _list_effects(read_table(path, layout).rows)


def _list_effects(rows: Sequence[OwnRow]) -> dict[str, tuple[str, ...]]:
    effects: dict[str, dict[str, None]] = {}
    for row in rows:
        effects.setdefault(row.drug, {})[row.effect] = None
    return {drug: tuple(of_drug) for drug, of_drug in effects.items()}


def read_table(path: str | Path, layout: Layout = FOUND_BY_NAME) -> OwnTable:
    """Read the pairs of a table, and which of its columns were not read; see `read`.

    Raises:
        TableError: See `read`.
    """
    try:
        table = tables.read_table(Path(path))
        columns = _find_columns(table, layout)
    except texts.TextError as error:
        raise TableError(f"{path}: {error}") from error
    if layout.separator:
        effects = table[columns["effect"]].str.replace(layout.separator, ";", regex=False)
        table = table.assign(**{columns["effect"]: effects})
    rows = list(_rows(table, columns))
    incomplete = [row for row in rows if "" in row.pair]
    if incomplete:
        raise TableError(
            f"{path}: row {incomplete[0].number} lacks a name. Each row needs a drug and a side "
            "effect."
        )
    unread = [str(column) for column in table.columns if column not in columns.values()]
    lacking = [kind for kind, column in columns.items() if not column]
    return OwnTable(rows, tuple(unread), tuple(lacking))


def _find_columns(table: pd.DataFrame, layout: Layout) -> dict[str, str]:
    """Find the column of each kind; empty for a kind that the table lacks and may lack.

    Raises:
        TextError: Columns are missing; the message names all of them.
    """
    columns: dict[str, str] = {}
    problems: list[str] = []
    for kind, chosen in layout.columns.items():
        option = f"--{kind}-column"
        try:
            columns[kind] = tables.find_column(
                table, chosen, NAMES[kind], option, needed=kind in NEEDED
            )
        except texts.TextError as error:
            problem = str(error)
            problems.append(problem[0].upper() + problem[1:] if problems else problem)
    if problems:
        raise texts.TextError(" ".join(problems))
    return columns


def _rows(table: pd.DataFrame, columns: Mapping[str, str]) -> Iterator[OwnRow]:
    """Yield a row for each drug and each side effect of a row of the table."""
    present = {kind: column for kind, column in columns.items() if column}
    for number, cells in zip(table.index, table.to_dict("records"), strict=True):
        names = {kind: _names(cells[column]) for kind, column in present.items()}
        classes = tuple(filter(None, names.get("class", ())))
        frequency = " ".join(str(cells.get(columns["frequency"], "")).split())
        (organ, *_) = names.get("organ", [""])
        for drug, effect in product(names["drug"], names["effect"]):
            yield OwnRow(int(number), drug, effect, frequency, classes, organ)


def _names(cell: object) -> list[str]:
    names = [" ".join(name.split()) for name in SEVERAL.split(str(cell).lower())]
    not_empty = list(filter(None, names))
    return not_empty or [""]


def read_catalogue(path: str | Path, layout: Layout = FOUND_BY_NAME) -> Catalogue:
    """Read a table as what the system answers from; see `read_table`.

    A column of frequencies, of drug classes and of organ classes is used if there is one.

    Raises:
        TableError: See `read`.
    """
    table = read_table(path, layout)
    rows = table.rows
    name = Path(path).name
    frequencies = _read_frequencies(rows, name)
    sources: dict[Pair | str, str] = {}
    for pair, numbers in _numbers_of_pairs(rows).items():
        word = "row" if len(numbers) == 1 else "rows"
        sources[pair] = f"{name}, {word} {', '.join(map(str, numbers))}"
    facts = _facts(rows, frequencies)
    return Catalogue(
        name,
        facts.digest,
        facts,
        frequencies,
        sources,
        is_own=True,
        notes=_note_on_lists(rows),
        citations=(f"{name}, yours",),
        no_frequency=_why_no_frequency(table),
        note_on_unread=_note_on_unread(table),
    )


def _why_no_frequency(table: OwnTable) -> str:
    """What an answer says of a pair without a frequency."""
    if "frequency" not in table.lacking:
        return NO_FREQUENCY
    if not table.unread:
        return "The table has no column of frequencies."
    return (
        "No column of the table was read as frequency. Not read: "
        f"{_quoted(table.unread)}. If one of them has the frequency, name it by --frequency-column."
    )


def _note_on_unread(table: OwnTable) -> str:
    """Name the columns that were not read, and the options that read them; empty if all were."""
    options = [f"--{kind}-column" for kind in table.lacking]
    if not options or not table.unread:
        return ""
    return (
        f"Columns of the table that were not read: {_quoted(table.unread)}. "
        f"To read one, name it by {' or '.join(options)}."
    )


def _quoted(columns: Sequence[str]) -> str:
    names = [repr(column) for column in columns[:MAX_COLUMNS]]
    n_more = len(columns) - MAX_COLUMNS
    return figures.listed([*names, f"{n_more:,} more"] if n_more > 0 else names)


def _note_on_lists(rows: Sequence[OwnRow]) -> tuple[str, ...]:
    """Say that effects with a comma were each read as one, for they may be lists."""
    with_comma = [row for row in rows if LIST_COMMA.search(row.effect)]
    if not with_comma:
        return ()
    first = with_comma[0]
    cells = counted(len(with_comma), "cell")
    example = f"{first.effect!r} in row {first.number}"
    if len(with_comma) == 1:
        read = f"contains a comma and was read as one effect: {example}"
    else:
        read = f"contain a comma, and each was read as one effect, such as {example}"
    note = f"{cells} of effects {read}. If it is a list, add --separator ','."
    return (note,)


def _numbers_of_pairs(rows: Sequence[OwnRow]) -> dict[Pair, list[int]]:
    numbers: dict[Pair, list[int]] = {}
    for row in rows:
        numbers.setdefault(row.pair, []).append(row.number)
    return numbers


def _facts(rows: Sequence[OwnRow], frequencies: Mapping[Pair, tuple[Frequency, ...]]) -> Facts:
    effects = _list_effects(rows)
    classes = _classes_of_drugs(rows)
    names = sorted(frozenset().union(*classes.values()))
    organs = {row.effect: row.organ for row in rows if row.organ}
    shares = _highest_lows(frequencies)
    everything = [
        sorted(effects.items()),
        sorted((drug, sorted(names)) for drug, names in classes.items()),
        sorted(shares.items()),
        sorted(organs.items()),
    ]
    sha256 = hashlib.sha256(repr(everything).encode()).hexdigest()
    return Facts(effects, dict(zip(names, names, strict=True)), classes, shares, organs, sha256)


def _classes_of_drugs(rows: Sequence[OwnRow]) -> dict[str, frozenset[str]]:
    classes: dict[str, frozenset[str]] = {}
    for row in rows:
        classes[row.drug] = classes.get(row.drug, frozenset()) | set(row.classes)
    return classes


def _highest_lows(frequencies: Mapping[Pair, tuple[Frequency, ...]]) -> dict[Pair, float]:
    """Return the highest lower bound of each pair, by which effects are ranked."""
    shares: dict[Pair, float] = {}
    for pair, statements in frequencies.items():
        lows = [statement.low for statement in statements if statement.low is not None]
        if lows:
            shares[pair] = max(lows)
    return shares


RANGE = re.compile(
    r"(?P<low>\d+(?:[.,]\d+)?)\s*%?(?:\s*(?:-|\u2013|to)\s*(?P<high>\d+(?:[.,]\d+)?))?\s*%?"
)
"""A number or a range, with or without a per cent sign."""


@dataclass(frozen=True)
class Bounds:
    """The numbers in a frequency as it is written.

    Attributes:
        low: The smaller number.
        high: The larger number.
        has_sign: Whether it has a per cent sign.
    """

    low: float
    high: float
    has_sign: bool


def _read_bounds(written: str) -> Bounds | None:
    match = RANGE.fullmatch(written)
    if match is None:
        return None
    low = float(match["low"].replace(",", "."))
    high = float((match["high"] or match["low"]).replace(",", "."))
    return Bounds(low, high, "%" in written)


def _read_frequencies(rows: Sequence[OwnRow], name: str) -> dict[Pair, tuple[Frequency, ...]]:
    """Read the frequencies; what is no number or range is a statement in words.

    Numbers without a per cent sign are shares if none in the table is above 1, else per cent.
    """
    with_frequency = [row for row in rows if row.frequency]
    bounds = {row.frequency: _read_bounds(row.frequency) for row in with_frequency}
    numbers = filter(None, bounds.values())
    unsigned = [number.high for number in numbers if not number.has_sign]
    factor = 1.0 if max(unsigned, default=0.0) <= 1 else 0.01
    statements: dict[Pair, list[Frequency]] = {}
    for row in with_frequency:
        source = f"{name}, row {row.number}"
        statement = _make_frequency(row.frequency, bounds[row.frequency], factor, source)
        statements.setdefault(row.pair, []).append(statement)
    return {pair: tuple(of_pair) for pair, of_pair in statements.items()}


def _make_frequency(written: str, bounds: Bounds | None, factor: float, source: str) -> Frequency:
    if bounds is None:
        return Frequency.read(written, WORDS.get(written.lower()), None, source)
    factor = 0.01 if bounds.has_sign else factor
    return Frequency.read(written, factor * bounds.low, factor * bounds.high, source)


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
