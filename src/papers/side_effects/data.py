"""SIDER 4.1 and what the paper made of it (side_effects.md): its counts, its choice of drugs.

A line of SIDER states one term that one label gives for one compound; several compounds can share
a name.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from evaluation import figures
from evaluation.published import Published
from evaluation.record import Run

Knowledge = Mapping[str, frozenset[str]]
"""Side effects of each drug, by name."""

FILES = {
    name: f"side_effects/sider/{name}"
    for name in ("meddra_all_se.tsv.gz", "drug_atc.tsv", "drug_names.tsv", "meddra_freq.tsv.gz")
}
ATC_SHA256 = "b457e124cc13c482bbe3afcf76c43bd53764c14d40da563785e20146c2e0f229"
"""Digest of `drug_atc.tsv` in a copy of SIDER 4.1 with nothing added, 1,560 lines.

Source: the Git LFS pointer in github.com/soluchi07/ADE-project. The fetched file continues after
these lines.
"""

COUNTS = {"associations": "associations", "marketed_drugs": "drugs", "preferred_terms": "effects"}
"""What the paper counts in its SIDER: id after `side_effects.text.` -> column of `readings`."""
IDENTITIES = {
    "flat": "compound",
    "stereo": "stereoisomer",
    "written": "name as written",
    "name": "name in lower case",
}
"""What can count as one drug: column of the lines -> words."""
KINDS_OF_TERM = {
    "preferred terms": ["PT"],
    "lowest level terms": ["LLT"],
    "any term": ["PT", "LLT", ""],
}
"""What can count as a term: words -> values of the column `kind`."""
LEAST = 10
"""Fewest preferred terms of a drug in the benchmark, and effects drawn for it.

Source: Methods, "Evaluation subset".
"""


@dataclass(frozen=True)
class Sider:
    """The parts of SIDER 4.1 that the paper's filter reads.

    Attributes:
        lines: A row per line of `meddra_all_se`: flat, stereo, label (UMLS id found on the label),
            kind (PT, LLT or empty), umls, effect (lower case), written (the drug's name), name (the
            same in lower case).
        atc: A row per ATC code: flat, code, own (whether the row is of SIDER itself).
    """

    lines: pd.DataFrame
    atc: pd.DataFrame

    @cached_property
    def coded(self) -> frozenset[str]:
        """Compounds (flat ids) that SIDER itself gives an ATC code."""
        return frozenset(self.atc.flat[self.atc.own])

    @cached_property
    def terms(self) -> pd.DataFrame:
        """The lines that state a preferred term."""
        return self.lines[self.lines.kind == "PT"]

    @cached_property
    def coded_terms(self) -> pd.DataFrame:
        """The lines that the paper's sentence describes: preferred terms of coded compounds."""
        return self.terms[self.terms.flat.isin(self.coded)]


def read_sider(effects: Path, names: Path, atc: Path) -> Sider:
    """Read the three files of SIDER.

    Args:
        effects: `meddra_all_se.tsv.gz`.
        names: `drug_names.tsv`.
        atc: `drug_atc.tsv`.

    Raises:
        ValueError: A compound has no name.
    """
    lines = _read(effects, "flat", "stereo", "label", "kind", "umls", "effect")
    written = read_names(names)
    unnamed = sorted(set(lines.flat) - set(written))
    if unnamed:
        raise ValueError(
            f"{names.name} names no drug for {len(unnamed)} compounds, such as {unnamed[0]}."
        )
    return Sider(_named(lines, written), read_atc(atc))


def _read(path: Path, *columns: str) -> pd.DataFrame:
    return pd.read_csv(
        path, sep="\t", header=None, names=list(columns), dtype=str, keep_default_na=False
    )


def _named(lines: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    written = lines.flat.map(names)
    return lines.assign(effect=lines.effect.str.lower(), written=written, name=written.str.lower())


def read_names(path: Path) -> dict[str, str]:
    """Read the name of each compound.

    The header lines that the fetched file repeats are no compounds.
    """
    table = _read(path, "flat", "written")
    table = table[table.flat != "stitch_id"]
    return dict(zip(table.flat, table.written, strict=True))


def read_atc(path: Path) -> pd.DataFrame:
    """Read the ATC codes.

    SIDER's own list is in ascending order. What follows where the order breaks was added later.

    Returns:
        A row per line: flat, code, own (False for what was added).
    """
    table = _read(path, "flat", "code")
    rows = list(zip(table.flat, table.code, strict=True))
    n_own = _sorted_prefix_length(rows)
    return table.assign(own=np.arange(len(rows)) < n_own)


def _sorted_prefix_length(rows: Sequence[tuple[str, str]]) -> int:
    """Number of rows before the first one that is smaller than its predecessor."""
    for i in range(1, len(rows)):
        if rows[i] < rows[i - 1]:
            return i
    return len(rows)


def atc_digest(atc: pd.DataFrame) -> str:
    """SHA-256 of SIDER's own part of the list, as a file.

    It is `ATC_SHA256` if nothing was added or lost.
    """
    own = atc[atc.own]
    lines = own.flat + "\t" + own.code + "\n"
    return hashlib.sha256(lines.str.cat().encode()).hexdigest()


def read_frequencies(path: Path, names: Mapping[str, str]) -> pd.DataFrame:
    """Read `meddra_freq.tsv.gz` without placebo arms.

    Returns:
        The columns of `Sider.lines` and the stated frequency.
    """
    table = _read(
        path,
        "flat",
        "stereo",
        "label",
        "placebo",
        "frequency",
        "low",
        "high",
        "kind",
        "umls",
        "effect",
    )
    return _named(table[table.placebo == ""], names)


def filters(sider: Sider, frequencies: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Select lines in each way that the paper's sentence allows.

    Args:
        sider: The lines and ATC codes.
        frequencies: What `read_frequencies` returns.

    Returns:
        The selected lines by the filter in words: every kind of term by every ATC list, and two
        stricter forms of the paper's.
    """
    atc_lists = {
        ", ATC code in SIDER": sider.coded,
        ", ATC code in SIDER or added since": frozenset(sider.atc.flat),
    }
    selected = {}
    for kind, values in KINDS_OF_TERM.items():
        lines = sider.lines[sider.lines.kind.isin(values)]
        selected[kind] = lines
        for words, compounds in atc_lists.items():
            selected[kind + words] = lines[lines.flat.isin(compounds)]
    papers_filter = "preferred terms, ATC code in SIDER"
    drugs = with_least(by_name(sider.coded_terms))
    has_enough = sider.coded_terms.name.isin(drugs)
    selected[f"{papers_filter}, drugs with at least {LEAST}"] = sider.coded_terms[has_enough]
    is_term = (frequencies.kind == "PT") & frequencies.flat.isin(sider.coded)
    selected[f"{papers_filter}, frequency known"] = frequencies[is_term]
    return selected


def readings(selected: Mapping[str, pd.DataFrame], printed: Published) -> pd.DataFrame:
    """Count each filter in each way.

    Associations are lines or distinct pairs; drugs are counted by each identity.

    Args:
        selected: The lines of each filter.
        printed: The paper's numbers.

    Returns:
        A row per reading: kept, counted ("lines" or "pairs"), drug, associations, drugs, effects,
        and `off`, the mean of the three relative differences from the printed counts.
    """
    rows = []
    for label, lines in selected.items():
        for drug, words in IDENTITIES.items():
            n_drugs = lines[drug].nunique()
            n_effects = lines.effect.nunique()
            n_pairs = lines.groupby([drug, "effect"], sort=False).ngroups
            rows.append((label, "lines", words, len(lines), n_drugs, n_effects))
            rows.append((label, "pairs", words, n_pairs, n_drugs, n_effects))
    count_columns = list(COUNTS.values())
    table = pd.DataFrame(rows, columns=["kept", "counted", "drug", *count_columns])
    values = [printed.number(f"side_effects.text.{name}").value for name in COUNTS]
    ratios = table[count_columns].to_numpy() / np.array(values)
    return table.assign(off=np.abs(ratios - 1).mean(axis=1))


def report_triple(run: Run, table: pd.DataFrame | None) -> None:
    """Report the three counts under the nearest reading, which the note names.

    Args:
        run: The run to report to.
        table: The readings; None without SIDER.
    """
    if table is None:
        for name in COUNTS:
            run.not_run(
                f"side_effects.text.{name}",
                "SIDER is not part of the bundled sample.",
                kind="rescored",
            )
        return
    best = table.iloc[int(table.off.to_numpy().argmin())]
    same_filter = (table.kept == best.kept) & (table.drug == best.drug)
    pairs = table[same_filter & (table.counted == "pairs")].iloc[0]
    note = (
        f"Of {len(table)} readings of SIDER, one {_fit_in_words(best.off)} the printed counts. The "
        f'filter of this reading is "{best.kept}" (chapter 00). The reading counts drugs by '
        f'"{best.drug}", and {_COUNTED_IN_WORDS[best.counted]} as one association. With '
        f"the same drugs, there are {pairs.associations:,} distinct pairs."
    )
    for name, column in COUNTS.items():
        run.rescored(
            f"side_effects.text.{name}",
            float(best[column]),
            note=note,
            source=FILES["meddra_all_se.tsv.gz"],
        )


_COUNTED_IN_WORDS = {"lines": "each line of SIDER's file", "pairs": "each distinct pair"}
"""What a reading counts as one association."""


def _fit_in_words(off: float) -> str:
    """Say how near a reading comes to the printed counts, as a verb."""
    return "comes nearest to" if off else "gives exactly"


def by_name(lines: pd.DataFrame) -> dict[str, frozenset[str]]:
    """Group the side effects by drug, a drug being a name in lower case.

    Returns:
        The effects of each drug, in alphabetical order of the names.
    """
    distinct = lines.drop_duplicates(["name", "effect"])
    return {str(name): frozenset(effects) for name, effects in distinct.groupby("name").effect}


def with_least(knowledge: Knowledge, least: int = LEAST) -> list[str]:
    """List the drugs that have at least ``least`` effects."""
    return [name for name, effects in knowledge.items() if len(effects) >= least]


def with_most(knowledge: Knowledge, n: int, least: int = LEAST) -> list[str]:
    """List the n drugs with the most effects, of those with at least ``least``.

    Of drugs with equally many, the alphabetically first come first.
    """
    drugs = with_least(knowledge, least)
    return sorted(drugs, key=lambda name: (-len(knowledge[name]), name))[:n]


def hypotheses(sider: Sider, released: Knowledge) -> pd.DataFrame:
    """Compare rules that may have picked the released drugs.

    Args:
        sider: The lines and ATC codes.
        released: The effects of each released drug, in the order of the file.

    Returns:
        A row per rule: how its drugs, their order and their pairs compare with the released ones.
    """
    n = len(released)
    has_any_code = sider.terms.flat.isin(sider.atc.flat)
    sources = {
        "no ATC code needed": sider.terms,
        "ATC code in SIDER or added since": sider.terms[has_any_code],
        "ATC code in SIDER": sider.coded_terms,
    }
    rows = []
    for source, lines in sources.items():
        knowledge = by_name(lines)
        picks = {
            f"at least {LEAST} terms": with_least(knowledge),
            f"the {n} names with the most terms": with_most(knowledge, n),
        }
        for rule, drugs in picks.items():
            comparison = _compare_drugs(drugs, knowledge, released)
            rows.append({"of drugs with": source, "take": rule, **comparison})
    return pd.DataFrame(rows)


def _compare_drugs(
    drugs: Sequence[str], knowledge: Knowledge, released: Knowledge
) -> dict[str, int | str]:
    shared = released.keys() & set(drugs)
    n_only_released = sum(len(released[drug] - knowledge[drug]) for drug in shared)
    n_only_by_rule = sum(len(knowledge[drug] - released[drug]) for drug in shared)
    return {
        "drugs": len(drugs),
        "released": len(shared),
        "not released": len(drugs) - len(shared),
        "released, not taken": len(released) - len(shared),
        "pairs only in the release": n_only_released,
        "pairs only under the rule": n_only_by_rule,
        "same order": "yes" if drugs == list(released) else "no",
    }


def answer(readings: pd.DataFrame | None, selections: pd.DataFrame | None) -> str:
    """Write the chapter's answer.

    Args:
        readings: The readings of the printed counts; None without SIDER's files.
        selections: The rules that may have picked the drugs, of `hypotheses`; None without them.
    """
    if readings is None or selections is None:
        return "The bundled sample contains no SIDER file, so these questions cannot be answered."
    best = readings.nsmallest(1, "off").iloc[0]
    rule = selections[selections["same order"] == "yes"].iloc[0]
    return (
        f"One way to filter and count SIDER's files {_fit_in_words(best.off)} the three counts "
        f"that the paper prints, and it counts {best.counted} as associations. The drugs of the "
        f"benchmark are {rule['take']}, whereas the paper states a minimum number of terms. Nobody "
        "can draw the benchmark's questions again, because the draw depends on the order of a "
        "Python set, which changes from process to process.\n\n"
        f'This way of counting keeps "{best.kept}", takes each "{best.drug}" as one drug, and '
        f"gives {best.associations:,} associations, {best.drugs:,} drugs and {best.effects:,} "
        f"terms. The benchmark's drugs come from the drugs with an {rule['of drugs with']}. ATC is "
        "the WHO's classification of drugs."
    )


def describe_selection(sider: Sider) -> str:
    """Say what `draw_selection` shows, and which names it merges."""
    caption = (
        "Number of side-effect terms of each drug that has an ATC code in SIDER. The benchmark "
        "contains the drugs with the most terms."
    )
    n_written = sider.coded_terms.written.nunique()
    n_drugs = sider.coded_terms.name.nunique()
    if n_written == n_drugs:
        return caption
    return (
        f"{caption} Names that differ only in capital letters count as one drug here, so SIDER's "
        f"{n_written:,} names with an ATC code are {n_drugs:,} drugs."
    )


def draw_selection(sider: Sider, released: Knowledge) -> Figure:
    """Draw the number of preferred terms of each drug with an ATC code in SIDER, most first.

    A line marks the least that the paper states.
    """
    knowledge = by_name(sider.coded_terms)
    names = sorted(knowledge, key=lambda name: -len(knowledge[name]))
    ranks = {name: rank for rank, name in enumerate(names, start=1)}
    in_benchmark = [name for name in names if name in released]
    left_out = [name for name in names if name not in released]
    fig, axes = plt.subplots(figsize=(7, 2.8))
    for colour, label, drugs in (
        ("graphrag", "in the benchmark", in_benchmark),
        ("closed_book", "left out", left_out),
    ):
        axes.plot(
            [ranks[drug] for drug in drugs],
            [len(knowledge[drug]) for drug in drugs],
            ".",
            markersize=3,
            color=figures.arm_colour(colour),
            label=f"{label}: {len(drugs):,} drugs",
        )
    axes.axhline(LEAST, color=figures.INK, linestyle="--", linewidth=1.2)
    axes.annotate(
        f"{LEAST} terms, as the paper states", (0, LEAST), (4, -12), textcoords="offset points"
    )
    axes.set(xlabel="drugs, in order of their number of terms", ylabel="terms", yscale="log")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(markerscale=3)
    return fig


_DRAW = """
import json, random, sys
task = json.load(sys.stdin)
random.seed(task["seed"])
draws = {drug: random.sample(list(set(e)), task["n"]) for drug, e in task["effects"].items()}
json.dump(draws, sys.stdout)
"""


def drawn_under(hash_seed: int, knowledge: Knowledge, seed: int = 42) -> dict[str, set[str]]:
    """Draw ten effects of each drug from a list made of a set, as the authors do.

    Args:
        hash_seed: `PYTHONHASHSEED` of the Python process that draws.
        knowledge: The effects of each drug.
        seed: Seed of the draw.
    """
    task = {
        "seed": seed,
        "n": LEAST,
        "effects": {drug: sorted(effects) for drug, effects in knowledge.items()},
    }
    process = subprocess.run(
        [sys.executable, "-c", _DRAW],
        input=json.dumps(task),
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {drug: set(effects) for drug, effects in json.loads(process.stdout).items()}


def overlap_table(
    draws: Mapping[str, Mapping[str, set[str]]], knowledge: Knowledge
) -> pd.DataFrame:
    """Count the positives that each draw shares with the first, and what chance would give."""
    (first_label, first), *others = draws.items()
    n_drawn = sum(len(effects) for effects in first.values())
    expected = [LEAST * LEAST / len(knowledge[drug]) for drug in first]
    by_chance = round(sum(expected))
    rows = []
    for label, other in others:
        shared = sum(len(effects & other[drug]) for drug, effects in first.items())
        rows.append((f"{first_label} and {label}", n_drawn, shared, by_chance))
    return pd.DataFrame(rows, columns=["draws", "positives", "shared", "shared by chance"])
