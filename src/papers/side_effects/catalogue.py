"""What the system answers from: a catalogue of listed side effects, and where each listing is from.

A catalogue is SIDER as the paper uses it, or a table of one's own (`own_table`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from papers.side_effects import corpus, data as side_effects_data
from papers.side_effects.facts import FURTHER, Facts, load_facts
from resources.datasets import locate_all

Pair = tuple[str, str]
"""Drug and side effect."""
FILES = ("side_effects/data_format_a.csv", "side_effects/side_effects.csv")
FIRST_LINE = 1
FIRST_ROW = 2
"""Number of the first row of a table; row 1 has the names of its columns."""
NO_FREQUENCY = "No frequency is stated."
SIDER_SUBJECT = "The paper's selection from SIDER 4.1"
"""The catalogue has the drugs of the benchmark only, and SIDER has more."""


class Frequency(NamedTuple):
    """One statement of how often an effect occurs.

    Attributes:
        words: The statement as it is written, such as ``25.5%`` or ``very common``.
        low: Smallest share of patients that it stands for; None for words of unknown meaning.
        high: Largest share of patients that it stands for; so too.
        source: Where it is written.
        is_number: Whether it states a number, not a word such as ``common``.
    """

    words: str
    low: float | None
    high: float | None
    source: str
    is_number: bool

    @classmethod
    def read(cls, words: str, low: float | None, high: float | None, source: str) -> "Frequency":
        """Make a statement; one with bounds and a digit states a number."""
        has_bounds = low is not None and high is not None
        is_number = has_bounds and any(map(str.isdigit, words))
        return cls(words, low, high, source, is_number)


@dataclass(frozen=True)
class Catalogue:
    """Listed side effects with their sources.

    Attributes:
        name: What it is called in answers.
        digest: Digest of the listings, by which a graph that is loaded already is known.
        facts: The side effects, classes, organ classes and highest lower frequencies.
        frequencies: Every statement of the frequency of a pair.
        sources: Where a listing is written, by pair, or by drug if a drug's list is one row.
        is_own: Whether it is a table of one's own.
        notes: What a reader of every answer must know.
        citations: What an answer cites.
        no_frequency: What an answer says of a pair without a frequency.
        note_on_unread: Columns of an own table that were not read, and how they are; empty if all
            were.
        subject: What the first words of a sentence about it call it.
    """

    name: str
    digest: str
    facts: Facts
    frequencies: Mapping[Pair, tuple[Frequency, ...]]
    sources: Mapping[Pair | str, str]
    is_own: bool = False
    notes: tuple[str, ...] = ()
    citations: tuple[str, ...] = ()
    no_frequency: str = NO_FREQUENCY
    note_on_unread: str = ""
    subject: str = "The table"

    def source(self, drug: str, effect: str) -> str:
        """Return where the listing of a pair is written."""
        return self.sources.get((drug, effect)) or self.sources.get(drug, "")

    def frequency_in_words(self, drug: str, effect: str) -> str:
        """Write the range of all statements about a pair; empty if there is none."""
        statements = self.frequencies.get((drug, effect))
        if not statements:
            return ""
        numbers = [statement for statement in statements if statement.is_number]
        where = "in the table" if self.is_own else "on labels"
        parts = [f"{_range_in_words(numbers)} {where}"] if numbers else []
        if len(numbers) < len(statements):
            words = {statement.words for statement in statements if not statement.is_number}
            parts.append(f"in words: {', '.join(sorted(words))}")
        return "; ".join(parts)


def _range_in_words(numbers: list[Frequency]) -> str:
    low = min(statement.low or 0.0 for statement in numbers)
    high = max(statement.high or 0.0 for statement in numbers)
    count = "in 1 statement" if len(numbers) == 1 else f"across {len(numbers)} statements"
    shares = f"{100 * low:.3g}"
    if low != high:
        shares += f" to {100 * high:.3g}"
    return f"{shares} % of patients, {count}"


def read_sider(data: str = "auto") -> Catalogue:
    """Read SIDER as the authors filter it, with classes, organ classes and frequencies.

    Args:
        data: "real", "sample", or "auto": real data if a source gives it, else the sample.
    """
    located = locate_all(FILES, data)
    knowledge_file, terms_file = located.values()
    knowledge = corpus.read_knowledge(knowledge_file.path, corpus.read_terms(terms_file.path))
    facts, files = load_facts(knowledge, knowledge_file.sample)
    rows = enumerate(knowledge, start=FIRST_ROW)
    sources: dict[Pair | str, str] = {
        drug: f"{knowledge_file.path.name}, row {row}" for row, drug in rows
    }
    if knowledge_file.sample:
        note = "SAMPLE: the bundled sample answers, not SIDER. It is not for medical use."
        return Catalogue(
            "the sample",
            knowledge_file.sha256,
            facts,
            {},
            sources,
            notes=(note,),
            subject="The sample",
        )
    paths = {file.name: file.path for file in files}
    frequencies = read_frequencies(paths[FURTHER["names"]], paths[FURTHER["frequency"]])
    return Catalogue(
        "SIDER 4.1",
        knowledge_file.sha256,
        facts,
        frequencies,
        sources,
        citations=(
            f"SIDER 4.1 (Kuhn et al. 2016), as the authors of the paper filter it: "
            f"{knowledge_file.path.name} (Nygren et al. 2025)",
            f"Frequencies: SIDER 4.1, {paths[FURTHER['frequency']].name}",
        ),
        subject=SIDER_SUBJECT,
    )


def read_frequencies(names: Path, frequency: Path) -> dict[Pair, tuple[Frequency, ...]]:
    """Read every statement of a frequency in SIDER, placebo groups left out.

    SIDER does not say which statements are of one label. Lines that differ only in the
    stereoisomer, or in the words of the label for the effect, are taken once.

    Args:
        names: SIDER's names of compounds.
        frequency: `meddra_freq.tsv.gz`.
    """
    compounds = side_effects_data.read_names(names)
    table = side_effects_data.read_frequencies(frequency, compounds)
    terms = table[table.kind == "PT"]
    distinct = terms.drop_duplicates(["flat", "effect", "frequency", "low", "high"])
    statements: dict[Pair, list[Frequency]] = {}
    lines = distinct.index + FIRST_LINE
    columns = (distinct.name, distinct.effect, distinct.frequency, distinct.low, distinct.high)
    for line, drug, effect, words, low, high in zip(lines, *columns, strict=True):
        source = f"{frequency.name}, line {line}"
        statement = Frequency.read(words, float(low), float(high), source)
        statements.setdefault((drug, effect), []).append(statement)
    return {pair: tuple(of_pair) for pair, of_pair in statements.items()}
