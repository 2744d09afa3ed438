"""SIDER 4.1 and what the paper made of it (side_effects.md): what its counts count, and how its drugs were chosen.

A line of SIDER states one term that one label gives for one compound; several compounds can share a name.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
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
"""Digest of `drug_atc.tsv` in a copy of SIDER 4.1 with nothing added, 1,560 lines (Git LFS pointer in
github.com/soluchi07/ADE-project). The fetched file continues after them."""

COUNTS = {"associations": "associations", "marketed_drugs": "drugs", "preferred_terms": "effects"}
"""What the paper counts in its filtered SIDER: id after `side_effects.text.` -> column of `readings`."""
IDENTITIES = {
    "flat": "compound",
    "stereo": "stereoisomer",
    "written": "name as written",
    "name": "name in lower case",
}
"""What can count as one drug: column of the lines -> words."""
LEAST = 10
"""Fewest preferred terms of a drug in the benchmark, and effects drawn for it (Methods, "Evaluation subset")."""


@dataclass(frozen=True)
class Sider:
    """The parts of SIDER 4.1 that the paper's filter reads.

    A row of `lines` is a line of `meddra_all_se`: flat, stereo, label (UMLS id found on the label), kind (PT, LLT or
    empty), umls, effect (lower case), written (the drug's name), name (the same in lower case). `own` in `atc` (flat,
    code, own) tells whether a row is of SIDER itself.
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
    def kept(self) -> pd.DataFrame:
        """The lines that the paper's sentence describes: a preferred term, of a compound with a code in SIDER."""
        return self.terms[self.terms.flat.isin(self.coded)]


def read_sider(effects: Path, names: Path, atc: Path) -> Sider:
    """Read `meddra_all_se.tsv.gz`, `drug_names.tsv` and `drug_atc.tsv`; a compound without a name is a `ValueError`."""
    lines = _read(effects, "flat", "stereo", "label", "kind", "umls", "effect")
    written = read_names(names)
    if unnamed := sorted(set(lines.flat) - set(written)):
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
    """Name of each compound. The header lines that the fetched file repeats are no compounds."""
    table = _read(path, "flat", "written")
    table = table[table.flat != "stitch_id"]
    return dict(zip(table.flat, table.written, strict=True))


def read_atc(path: Path) -> pd.DataFrame:
    """ATC codes: flat, code, own.

    SIDER's own list is in ascending order. What follows where the order breaks was added later; its `own` is False.
    """
    table = _read(path, "flat", "code")
    rows = list(zip(table.flat, table.code, strict=True))
    own = next((i for i in range(1, len(rows)) if rows[i] < rows[i - 1]), len(rows))
    return table.assign(own=np.arange(len(rows)) < own)


def atc_digest(atc: pd.DataFrame) -> str:
    """SHA-256 of SIDER's own part of the list, as a file; `ATC_SHA256` if nothing was added or lost."""
    own = atc[atc.own]
    return hashlib.sha256((own.flat + "\t" + own.code + "\n").str.cat().encode()).hexdigest()


def read_frequencies(path: Path, names: Mapping[str, str]) -> pd.DataFrame:
    """`meddra_freq.tsv.gz` without placebo arms: the columns of `Sider.lines` and the stated frequency."""
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
    """Lines that each filter keeps: every kind of term by every ATC list, and two stricter forms of the paper's."""
    lists = {
        ", ATC code in SIDER": sider.coded,
        ", ATC code in SIDER or added since": frozenset(sider.atc.flat),
    }
    kept = {}
    for kind, values in {
        "preferred terms": ["PT"],
        "lowest level terms": ["LLT"],
        "any term": ["PT", "LLT", ""],
    }.items():
        kept[kind] = sider.lines[sider.lines.kind.isin(values)]
        kept |= {kind + atc: kept[kind][kept[kind].flat.isin(of)] for atc, of in lists.items()}
    paper = "preferred terms, ATC code in SIDER"
    kept[f"{paper}, drugs with at least {LEAST}"] = sider.kept[
        sider.kept.name.isin(with_least(by_name(sider.kept)))
    ]
    kept[f"{paper}, frequency known"] = frequencies[
        (frequencies.kind == "PT") & frequencies.flat.isin(sider.coded)
    ]
    return kept


def readings(kept: Mapping[str, pd.DataFrame], printed: Published) -> pd.DataFrame:
    """Each filter, counted in each way: associations as lines or as distinct pairs, and drugs by each identity.

    Returns:
        A row a reading: kept, counted ("lines" or "pairs"), drug, associations, drugs, effects, and `off`, the mean of
        the three relative differences from the printed counts.
    """
    rows = [
        (label, counted, words, n, lines[drug].nunique(), lines.effect.nunique())
        for label, lines in kept.items()
        for drug, words in IDENTITIES.items()
        for counted, n in (
            ("lines", len(lines)),
            ("pairs", lines.groupby([drug, "effect"], sort=False).ngroups),
        )
    ]
    table = pd.DataFrame(rows, columns=["kept", "counted", "drug", *COUNTS.values()])
    stated = np.array([printed.number(f"side_effects.text.{id}").value for id in COUNTS])
    return table.assign(
        off=np.abs(table[list(COUNTS.values())].to_numpy() / stated - 1).mean(axis=1)
    )


def report_triple(run: Run, tried: pd.DataFrame | None) -> None:
    """Report the three counts under the nearest reading, with the reading and the distinct pairs in the note."""
    if tried is None:
        for id in COUNTS:
            run.not_run(
                f"side_effects.text.{id}",
                "SIDER is not part of the bundled sample.",
                kind="rescored",
            )
        return
    best = tried.iloc[int(tried.off.to_numpy().argmin())]
    pairs = tried[
        (tried.kept == best.kept) & (tried.drug == best.drug) & (tried.counted == "pairs")
    ].iloc[0]
    note = (
        f"The nearest of {len(tried)} readings: {best.kept}; a drug is a {best.drug}; associations are {best.counted}. "
        f"Distinct pairs: {pairs.associations:,}."
    )
    for id, column in COUNTS.items():
        run.rescored(
            f"side_effects.text.{id}",
            float(best[column]),
            note=note,
            source=FILES["meddra_all_se.tsv.gz"],
        )


def by_name(lines: pd.DataFrame) -> dict[str, frozenset[str]]:
    """Side effects of each drug, a drug being a name in lower case, in alphabetical order of the names."""
    distinct = lines.drop_duplicates(["name", "effect"])
    return {str(name): frozenset(effects) for name, effects in distinct.groupby("name").effect}


def with_least(knowledge: Knowledge, least: int = LEAST) -> list[str]:
    """The drugs with at least so many effects."""
    return [name for name, effects in knowledge.items() if len(effects) >= least]


def with_most(knowledge: Knowledge, n: int, least: int = LEAST) -> list[str]:
    """The n drugs with the most effects, of those with at least `least`; of equals the alphabetically first."""
    return sorted(with_least(knowledge, least), key=lambda name: (-len(knowledge[name]), name))[:n]


def hypotheses(sider: Sider, released: Knowledge) -> pd.DataFrame:
    """A row for each rule that may have picked the released drugs: how drugs, their order and their pairs compare."""
    n = len(released)
    sources = {
        "no ATC code needed": sider.terms,
        "ATC code in SIDER or added since": sider.terms[sider.terms.flat.isin(sider.atc.flat)],
        "ATC code in SIDER": sider.kept,
    }
    rows = []
    for source, lines in sources.items():
        knowledge = by_name(lines)
        picks = {
            f"at least {LEAST} terms": with_least(knowledge),
            f"the {n} names with the most terms": with_most(knowledge, n),
        }
        for rule, drugs in picks.items():
            shared = released.keys() & set(drugs)
            rows.append(
                {
                    "of drugs with": source,
                    "take": rule,
                    "drugs": len(drugs),
                    "released": len(shared),
                    "not released": len(drugs) - len(shared),
                    "released, not taken": n - len(shared),
                    "pairs only released": sum(len(released[d] - knowledge[d]) for d in shared),
                    "pairs only by the rule": sum(len(knowledge[d] - released[d]) for d in shared),
                    "same order": "yes" if drugs == list(released) else "no",
                }
            )
    return pd.DataFrame(rows)


def draw_selection(sider: Sider, released: Knowledge) -> Figure:
    """Preferred terms of each drug with an ATC code in SIDER, most first, and the least that the paper states."""
    knowledge = by_name(sider.kept)
    names = sorted(knowledge, key=lambda name: -len(knowledge[name]))
    fig, axes = plt.subplots(figsize=(7, 2.8))
    for colour, label, of in (
        ("graphrag", "in the benchmark", True),
        ("closed_book", "left out", False),
    ):
        at = [i for i, name in enumerate(names, 1) if (name in released) is of]
        counts = [len(knowledge[names[i - 1]]) for i in at]
        axes.plot(
            at,
            counts,
            ".",
            markersize=3,
            color=figures.arm_colour(colour),
            label=f"{label}: {len(at):,} drugs",
        )
    axes.axhline(LEAST, color=figures.INK, linestyle="--", linewidth=1.2)
    axes.annotate(
        f"{LEAST} terms, as the paper states", (0, LEAST), (4, -12), textcoords="offset points"
    )
    axes.set(xlabel="drugs by number of terms", ylabel="terms", yscale="log")
    axes.yaxis.set_major_formatter("{x:,.0f}")
    axes.legend(markerscale=3)
    return fig


_DRAW = """
import json, random, sys
given = json.load(sys.stdin)
random.seed(given["seed"])
json.dump({d: random.sample(list(set(e)), given["n"]) for d, e in given["effects"].items()}, sys.stdout)
"""


def drawn_under(hash_seed: int, knowledge: Knowledge, seed: int = 42) -> dict[str, set[str]]:
    """Ten effects of each drug, drawn from a list made of a set, in a Python process with this `PYTHONHASHSEED`."""
    given = {
        "seed": seed,
        "n": LEAST,
        "effects": {drug: sorted(effects) for drug, effects in knowledge.items()},
    }
    done = subprocess.run(
        [sys.executable, "-c", _DRAW],
        input=json.dumps(given),
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {drug: set(effects) for drug, effects in json.loads(done.stdout).items()}


def overlap_table(
    draws: Mapping[str, Mapping[str, set[str]]], knowledge: Knowledge
) -> pd.DataFrame:
    """Positives that each draw shares with the first, and what chance alone would give."""
    (first, reference), *others = draws.items()
    drawn = sum(map(len, reference.values()))
    chance = round(sum(LEAST * LEAST / len(knowledge[drug]) for drug in reference))
    rows = [
        (
            f"{first} and {label}",
            drawn,
            sum(len(of & other[drug]) for drug, of in reference.items()),
            chance,
        )
        for label, other in others
    ]
    return pd.DataFrame(rows, columns=["draws", "positives", "shared", "shared by chance"])
