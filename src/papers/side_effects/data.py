"""SIDER 4.1 and what the paper on drug side effects (side_effects.md) made of it: filters, the benchmark's drugs, gaps.

A line of SIDER states one term that one label gives for one compound, so a drug and effect pair can have many lines. A
drug can be a compound (flat or stereo STITCH id) or a name, and several compounds can share a name. What "141,209
associations, 1,106 drugs, 4,073 terms" counts is therefore to be found out; `readings` tries each way.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from helpers.results.published import Published
from helpers.results.record import Run
from papers.side_effects.corpus import Question
from papers.side_effects.forward import share_of

Knowledge = Mapping[str, frozenset[str]]
"""Side effects of each drug, by name."""

FILES = {
    name: f"side_effects/sider/{name}"
    for name in (
        "meddra_all_se.tsv.gz",
        "drug_atc.tsv",
        "drug_names.tsv",
        "meddra_freq.tsv.gz",
        "meddra_all_indications.tsv.gz",
    )
}
"""SIDER's files, by their own name."""

ATC_SHA256 = "b457e124cc13c482bbe3afcf76c43bd53764c14d40da563785e20146c2e0f229"
"""Digest of `drug_atc.tsv` in a copy of SIDER 4.1 with nothing added, 1,560 lines (Git LFS pointer in
github.com/soluchi07/ADE-project). The fetched file goes on after them."""

TRIPLE = ("associations", "marketed_drugs", "preferred_terms")
"""The ids, after `side_effects.text.`, of the three counts that the paper prints for its filtered SIDER."""

IDENTITIES = {
    "flat": "compound",
    "stereo": "stereoisomer",
    "written": "name as written",
    "name": "name in lower case",
}
"""What can count as one drug: column of the lines -> words."""

LEAST = 10
"""Fewest preferred terms of a drug in the benchmark (Methods, "Evaluation subset")."""
PER_LABEL = 10
"""Pairs of each label that a drug has in the benchmark."""

GROUPS = {
    "A": "Alimentary tract and metabolism",
    "B": "Blood",
    "C": "Cardiovascular system",
    "D": "Dermatologicals",
    "G": "Genito-urinary and sex hormones",
    "H": "Systemic hormones",
    "J": "Anti-infectives",
    "L": "Antineoplastic, immunomodulating",
    "M": "Musculo-skeletal system",
    "N": "Nervous system",
    "P": "Antiparasitic",
    "R": "Respiratory system",
    "S": "Sensory organs",
    "V": "Various",
}
"""The anatomical main groups of the ATC classification."""


# -------------------------------------------------------------------------------------------------------------- files


@dataclass(frozen=True)
class Sider:
    """The parts of SIDER 4.1 that the paper's filter reads.

    Attributes:
        lines: one row a line of `meddra_all_se`: flat, stereo, label (UMLS id found on the label), kind (PT, LLT or
            empty), umls, effect (lower case), written (the drug's name), name (the same in lower case).
        atc: flat, code, and `own`: whether the row is of SIDER itself.
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
    """Read `meddra_all_se.tsv.gz`, `drug_names.tsv` and `drug_atc.tsv`.

    Raises:
        ValueError: a compound with side effects has no name.
    """
    columns = ["flat", "stereo", "label", "kind", "umls", "effect"]
    lines = _read(effects, columns)
    written = read_names(names)
    if unnamed := sorted(set(lines.flat) - set(written)):
        raise ValueError(f"{names.name} names no drug for {len(unnamed)} compounds, such as {unnamed[0]}.")
    lines["effect"] = lines.effect.str.lower()
    lines["written"] = lines.flat.map(written)
    lines["name"] = lines.written.str.lower()
    return Sider(lines, read_atc(atc))


def _read(path: Path, columns: Sequence[str]) -> pd.DataFrame:
    return pd.read_csv(path, sep="\t", header=None, names=list(columns), dtype=str, keep_default_na=False)


def read_names(path: Path) -> dict[str, str]:
    """Name of each compound. The header lines that the fetched file repeats are no compounds."""
    table = _read(path, ["flat", "written"])
    table = table[table.flat != "stitch_id"]
    return dict(zip(table.flat, table.written, strict=True))


def read_atc(path: Path) -> pd.DataFrame:
    """ATC codes: flat, code, own.

    SIDER's own list is in ascending order. The rows of the fetched file that follow where the order breaks were put
    there by whoever published it; `own` is False for them.
    """
    table = _read(path, ["flat", "code"])
    rows = list(zip(table.flat, table.code, strict=True))
    own = next((i for i in range(1, len(rows)) if rows[i] < rows[i - 1]), len(rows))
    return table.assign(own=np.arange(len(rows)) < own)


def atc_digest(atc: pd.DataFrame) -> str:
    """SHA-256 of SIDER's own part of the list, as a file; `ATC_SHA256` if nothing was added or lost."""
    own = atc[atc.own]
    text = "".join(f"{flat}\t{code}\n" for flat, code in zip(own.flat, own.code, strict=True))
    return hashlib.sha256(text.encode()).hexdigest()


def read_frequencies(path: Path, names: Mapping[str, str]) -> pd.DataFrame:
    """`meddra_freq.tsv.gz` without placebo arms: the columns of `Sider.lines` and the stated frequency."""
    columns = ["flat", "stereo", "label", "placebo", "frequency", "low", "high", "kind", "umls", "effect"]
    table = _read(path, columns)
    table = table[table.placebo == ""]
    written = table.flat.map(names)
    return table.assign(effect=table.effect.str.lower(), written=written, name=written.str.lower())


def read_indications(path: Path) -> pd.DataFrame:
    """`meddra_all_indications.tsv.gz`: flat, label, method, concept, kind, umls, effect (lower case)."""
    table = _read(path, ["flat", "label", "method", "concept", "kind", "umls", "effect"])
    return table.assign(effect=table.effect.str.lower())


# ------------------------------------------------------------------------------------------- ways to count the triple


def filters(sider: Sider, frequencies: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Lines that each filter keeps: every kind of term by every ATC list, and two stricter forms of the paper's."""
    lists = {
        "": None,
        "ATC code in SIDER": sider.coded,
        "ATC code in SIDER or added since": frozenset(sider.atc.flat),
    }
    kinds = {"preferred terms": ["PT"], "lowest level terms": ["LLT"], "any term": ["PT", "LLT", ""]}
    kept = {}
    for kind, values in kinds.items():
        of_kind = sider.lines[sider.lines.kind.isin(values)]
        for atc, compounds in lists.items():
            kept[f"{kind}, {atc}" if atc else kind] = (
                of_kind if compounds is None else of_kind[of_kind.flat.isin(compounds)]
            )
    many = {name for name, effects in by_name(sider.kept).items() if len(effects) >= LEAST}
    paper = "preferred terms, ATC code in SIDER"
    kept[f"{paper}, drugs with at least {LEAST}"] = sider.kept[sider.kept.name.isin(many)]
    with_frequency = (frequencies.kind == "PT") & frequencies.flat.isin(sider.coded)
    kept[f"{paper}, frequency known"] = frequencies[with_frequency]
    return kept


def readings(kept: Mapping[str, pd.DataFrame], printed: Published) -> pd.DataFrame:
    """Each filter, counted in each way: associations as lines or as distinct pairs, and drugs by each identity.

    Returns:
        A row a reading: kept, counted ("lines" or "pairs"), drug, associations, drugs, effects, and `off`, the mean of
        the three relative differences from the printed counts.
    """
    stated = np.array([printed.number(f"side_effects.text.{id}").value for id in TRIPLE])
    rows = []
    for label, lines in kept.items():
        effect, names = pd.factorize(lines.effect)
        effects = len(names)
        for column, drug in IDENTITIES.items():
            number, values = pd.factorize(lines[column])
            drugs = len(values)
            pairs = len(np.unique(number * effects + effect))
            for counted, associations in {"lines": len(lines), "pairs": pairs}.items():
                off = float(np.abs(np.array([associations, drugs, effects]) / stated - 1).mean())
                rows.append((label, counted, drug, associations, drugs, effects, off))
    columns = ["kept", "counted", "drug", "associations", "drugs", "effects", "off"]
    return pd.DataFrame(rows, columns=columns)


def report_triple(run: Run, tried: pd.DataFrame | None) -> None:
    """Report the three counts under the nearest reading, with the reading and the distinct pairs in the note."""
    ids = [f"side_effects.text.{id}" for id in TRIPLE]
    if tried is None:
        for id in ids:
            run.not_run(id, "SIDER is not part of the bundled sample.", kind="rescored")
        return
    best = tried.iloc[int(tried.off.to_numpy().argmin())]
    pairs = tried[(tried.kept == best.kept) & (tried.drug == best.drug) & (tried.counted == "pairs")].iloc[0]
    note = (
        f"The nearest of {len(tried)} readings: {best.kept}; a drug is a {best.drug}; associations are {best.counted}. "
        f"Distinct pairs: {pairs.associations:,}."
    )
    for id, column in zip(ids, ("associations", "drugs", "effects"), strict=True):
        run.rescored(id, float(best[column]), note=note, source=FILES["meddra_all_se.tsv.gz"])


def by_name(lines: pd.DataFrame) -> dict[str, frozenset[str]]:
    """Side effects of each drug, a drug being a name in lower case, in alphabetical order of the names."""
    distinct = lines.drop_duplicates(["name", "effect"])
    return {str(name): frozenset(effects) for name, effects in distinct.groupby("name").effect}


def with_most(knowledge: Knowledge, n: int, least: int = LEAST) -> list[str]:
    """The n drugs with the most effects, of those with at least `least`; of equals the alphabetically first."""
    enough = [name for name, effects in knowledge.items() if len(effects) >= least]
    return sorted(enough, key=lambda name: (-len(knowledge[name]), name))[:n]


def hypotheses(sider: Sider, released: Knowledge) -> pd.DataFrame:
    """Which rule picks the released drugs, and states their effects.

    Returns:
        A row a rule: how many drugs it picks, how many of them are released, how many released it leaves out, how many
        that it picks are not released, pairs of shared drugs that only the release or only the rule has, and whether
        drugs, their order and all pairs are the same.
    """
    n = len(released)
    with_any = sider.terms[sider.terms.flat.isin(sider.atc.flat)]
    sources = {
        "no ATC code needed": by_name(sider.terms),
        "ATC code in SIDER or added since": by_name(with_any),
        "ATC code in SIDER": by_name(sider.kept),
    }
    rows = []
    for source, knowledge in sources.items():
        picks = {
            f"at least {LEAST} terms": [name for name, effects in knowledge.items() if len(effects) >= LEAST],
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


def doubtful_labels(benchmark: Sequence[Question], sider: Sider, indications: pd.DataFrame) -> pd.DataFrame:
    """Labels of the benchmark that SIDER itself speaks against, with intervals over drugs.

    A negative is contradicted if any compound of that name has the effect, under whatever kind of term. A positive is
    doubtful if SIDER lists it as an indication of the drug too, by any method of detection.
    """
    stated = set(zip(sider.lines.name, sider.lines.effect, strict=True))
    names = sider.kept.drop_duplicates("flat").set_index("flat").name
    treated = indications[(indications.kind == "PT") & indications.flat.isin(names.index)]
    indicated = set(zip(treated.flat.map(names), treated.effect, strict=True))
    against = {
        "pairs labelled NO that SIDER states for a compound of that name": (False, stated),
        "pairs labelled YES whose effect is also an indication of the drug": (True, indicated),
    }
    rows = []
    for words, (label, known) in against.items():
        asked = [q for q in benchmark if q.label == label]
        hits = [(q.drug, q.side_effect) in known for q in asked]
        rows.append((words, sum(hits), len(asked), share_of(hits, [q.drug for q in asked])))
    return pd.DataFrame(rows, columns=["labels", "pairs", "of", "share"])


def redrawn_terms(knowledge: Knowledge, vocabulary: Iterable[str], draws: int, seed: int) -> NDArray[np.int64]:
    """How many distinct terms the benchmark has when it is drawn anew, (draws,).

    Each drug gets ten of its effects and ten of the others in the vocabulary, without replacement (Methods,
    "Evaluation subset").

    Raises:
        ValueError: a drug has fewer than ten effects, or fewer than ten others are left.
    """
    terms = sorted(vocabulary)
    number = {term: i for i, term in enumerate(terms)}
    rng = np.random.default_rng(seed)
    pools = []
    for drug, effects in knowledge.items():
        known = np.array(sorted(number[e] for e in effects))
        other = np.setdiff1d(np.arange(len(terms)), known, assume_unique=True)
        if min(len(known), len(other)) < PER_LABEL:
            raise ValueError(
                f"{drug} has {len(known)} effects and {len(other)} others; {PER_LABEL} of each are needed."
            )
        pools += [known, other]
    sizes = []
    for _ in range(draws):
        asked = np.zeros(len(terms), dtype=bool)
        for pool in pools:
            asked[rng.choice(pool, PER_LABEL, replace=False, shuffle=False)] = True
        sizes.append(int(asked.sum()))
    return np.array(sizes)


_DRAW = """
import json, random, sys
given = json.load(sys.stdin)
random.seed(given["seed"])
json.dump({d: random.sample(list(set(e)), given["n"]) for d, e in given["effects"].items()}, sys.stdout)
"""


def drawn_under(hash_seed: int, knowledge: Knowledge, seed: int = 42) -> dict[str, set[str]]:
    """Ten effects of each drug, drawn in a Python process of its own from a list that was made of a set.

    The order of a set of strings depends on `PYTHONHASHSEED`, which Python picks at random unless it is set.
    """
    given = {"seed": seed, "n": PER_LABEL, "effects": {drug: sorted(effects) for drug, effects in knowledge.items()}}
    done = subprocess.run(
        [sys.executable, "-c", _DRAW],
        input=json.dumps(given),
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        check=True,
    )
    return {drug: set(effects) for drug, effects in json.loads(done.stdout).items()}


def overlap_table(draws: Mapping[str, Mapping[str, set[str]]], knowledge: Knowledge) -> pd.DataFrame:
    """Positives that each draw shares with the first, and what chance alone would give."""
    (first, reference), *others = draws.items()
    drawn = sum(map(len, reference.values()))
    chance = sum(PER_LABEL * PER_LABEL / len(knowledge[drug]) for drug in reference)
    rows = []
    for label, other in others:
        shared = sum(len(effects & other[drug]) for drug, effects in reference.items())
        rows.append((f"{first} and {label}", drawn, shared, round(chance)))
    return pd.DataFrame(rows, columns=["draws", "positives", "shared", "shared by chance"])


def left_out(sider: Sider, released: Knowledge) -> pd.DataFrame:
    """Drugs of each ATC group by what became of them; a drug with codes of several groups counts in each.

    Returns:
        Index: the group's name. Columns: released; too few effects (a code in SIDER, but not among the released);
        code added since (none in SIDER); share (the two last, of all). The group of which most is left out is first.
    """
    names = sider.lines.drop_duplicates("flat").set_index("flat").name
    drugs = sider.atc.assign(name=sider.atc.flat.map(names), group=sider.atc.code.str[0].map(GROUPS)).dropna()
    coded = set(drugs.name[drugs.own])
    kinds = ("released", "too few effects", "code added since")
    fate = [kinds[0] if n in released else kinds[1] if n in coded else kinds[2] for n in drugs.name]
    distinct = drugs.assign(fate=fate).drop_duplicates(["name", "group"])
    table = pd.crosstab(distinct.group, distinct.fate).reindex(columns=list(kinds), fill_value=0)
    table["share"] = 1 - table.released / table.sum(axis=1)
    return table.sort_values("share", ascending=False).rename_axis("ATC group")
