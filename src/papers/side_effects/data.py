"""SIDER 4.1 and what the paper on drug side effects (side_effects.md) made of it: filters, the benchmark's drugs, gaps.

A line of SIDER states one term that one label gives for one compound, so a drug and effect pair can have many lines. A
drug can be a compound (flat or stereo STITCH id) or a name, and several compounds can share a name. What "141,209
associations, 1,106 drugs, 4,073 terms" counts is therefore to be found out; `readings` tries each way.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure
from numpy.typing import NDArray

from helpers.results import figures, verdicts
from helpers.results.metrics import Score
from helpers.results.published import Published
from helpers.results.record import Run
from papers.side_effects.forward import MODELS, Question, share_of

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

LEFT = 0.7
"""Where a logarithmic axis of whole numbers begins."""

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

TIERS = {
    "under 5": 1,
    "5 to 19 (rare)": 5,
    "20 to 99 (small)": 20,
    "100 to 499 (medium)": 100,
    "500 and more (large)": 500,
}
"""Fewest drugs of a side effect in each tier of the reverse queries; the paper has no name for the first."""

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


def readings_table(tried: pd.DataFrame) -> pd.DataFrame:
    """All readings in short: a row a filter; drugs, and distinct pairs, by each identity of a drug."""
    pairs = tried[tried.counted == "pairs"]
    wide = pairs.pivot_table(index="kept", columns="drug", values=["drugs", "associations"], sort=False)
    table = pd.DataFrame({"what is kept": list(dict.fromkeys(tried.kept))}).set_index("what is kept")
    table["lines"] = tried[tried.counted == "lines"].groupby("kept").associations.first()
    table["terms"] = tried.groupby("kept").effects.first()
    for what, word in {"drugs": "drugs by", "associations": "pairs by"}.items():
        for identity in IDENTITIES.values():
            table[f"{word} {identity}"] = wide[what, identity].astype(int)
    return table


def nearest_table(tried: pd.DataFrame, n: int = 8) -> pd.DataFrame:
    """The readings nearest to the printed counts."""
    best = tried.sort_values("off", kind="stable").head(n).drop(columns="off").assign(off=lambda t: tried.off[t.index])
    names = {"kept": "what is kept", "counted": "associations are", "drug": "a drug is a", "off": "off by"}
    return best.rename(columns=names)


def report_triple(run: Run, tried: pd.DataFrame | None) -> dict[str, float]:
    """Report the three counts under the nearest reading, with the reading and the distinct pairs in the note.

    Returns:
        What was reported, by id; nothing without SIDER.
    """
    ids = [f"side_effects.text.{id}" for id in TRIPLE]
    if tried is None:
        for id in ids:
            run.not_run(id, "SIDER is not part of the bundled sample.", kind="rescored")
        return {}
    best = tried.iloc[int(tried.off.to_numpy().argmin())]
    pairs = tried[(tried.kept == best.kept) & (tried.drug == best.drug) & (tried.counted == "pairs")].iloc[0]
    note = (
        f"The nearest of {len(tried)} readings: {best.kept}; a drug is a {best.drug}; associations are {best.counted}. "
        f"Distinct pairs: {pairs.associations:,}."
    )
    values = {id: float(best[column]) for id, column in zip(ids, ("associations", "drugs", "effects"), strict=True)}
    for id, value in values.items():
        run.rescored(id, value, note=note, source=FILES["meddra_all_se.tsv.gz"])
    return values


def funnel(sider: Sider, released: Knowledge) -> pd.DataFrame:
    """From all of SIDER to the released data, step by step."""
    many = {name for name, effects in by_name(sider.kept).items() if len(effects) >= LEAST}
    steps = {
        "all of meddra_all_se": sider.lines,
        "preferred terms": sider.terms,
        "... of compounds with an ATC code in SIDER": sider.kept,
        f"... of names with at least {LEAST} terms": sider.kept[sider.kept.name.isin(many)],
        f"... of the {len(released)} names with the most": sider.kept[sider.kept.name.isin(released)],
    }
    rows = {
        label: {
            "lines": len(lines),
            "compounds": lines.flat.nunique(),
            "names as written": lines.written.nunique(),
            "names in lower case": lines.name.nunique(),
            "terms": lines.effect.nunique(),
            "distinct pairs by name": len(lines.drop_duplicates(["name", "effect"])),
        }
        for label, lines in steps.items()
    }
    return pd.DataFrame(rows).T.rename_axis("step")


def code_years(atc: pd.DataFrame) -> pd.DataFrame:
    """Codes of groups that the WHO introduced after SIDER 4.1 (October 2015), by whose rows they are.

    A10BK came into force in January 2017, J05AP in January 2018 (WHO Collaborating Centre for Drug Statistics
    Methodology, alterations in ATC classification).
    """
    groups = {"A10BK": 2017, "J05AP": 2018}
    rows = []
    for own, part in atc.groupby("own", sort=False):
        row: dict[str, object] = {
            "part of the file": "SIDER's own" if own else "added since",
            "rows": len(part),
            "compounds": part.flat.nunique(),
        }
        row |= {
            f"codes in {group} (since {year})": int(part.code.str.startswith(group).sum())
            for group, year in groups.items()
        }
        rows.append(row)
    return pd.DataFrame(rows)


# ------------------------------------------------------------------------------------------------ the released subset


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


def decide_all_drugs(run: Run, sider: Sider | None, released: Knowledge) -> None:
    """The claim that the benchmark has each drug with at least ten preferred terms."""
    claim = "side_effects.claim.every_drug_with_ten_effects"
    if sider is None:
        run.claim(claim, "not run", "SIDER is not part of the bundled sample.")
        return
    knowledge = by_name(sider.kept)
    enough = {name for name, effects in knowledge.items() if len(effects) >= LEAST}
    out = enough - set(released)
    most = max((len(knowledge[name]) for name in out), default=0)
    words = f"{len(enough):,} drugs have at least {LEAST} preferred terms and an ATC code, {len(out):,} are not in it"
    run.claim(
        claim,
        verdicts.exactly(not out),
        f"{words} (with at most {most} terms); its own drugs have at least {min(map(len, released.values()))}.",
    )


def shared_names(sider: Sider, released: Knowledge) -> pd.DataFrame:
    """Released names that stand for several compounds with an ATC code, with the ATC groups that meet in them."""
    part = sider.kept[sider.kept.name.isin(released)]
    compounds = part.groupby("name").flat.unique()
    codes = sider.atc[sider.atc.own].groupby("flat").code.agg(lambda c: sorted({code[0] for code in c}))
    rows = [
        {
            "name": name,
            "compounds": len(flats),
            "terms": len(released[str(name)]),
            "ATC groups": ", ".join(GROUPS[g] for g in sorted({g for flat in flats for g in codes[flat]})),
        }
        for name, flats in compounds.items()
        if len(flats) > 1
    ]
    table = pd.DataFrame(rows, columns=["name", "compounds", "terms", "ATC groups"])
    return table.sort_values(["compounds", "terms"], ascending=False, kind="stable")


# ------------------------------------------------------------------------------------------------- other released data


def origins(
    released: Knowledge,
    sider: Sider,
    benchmark: Sequence[Question],
    truth: Mapping[str, Sequence[str]],
    older: Mapping[str, Sequence[str]],
) -> pd.DataFrame:
    """What each released file holds, set against SIDER.

    Args:
        released: the Format A file.
        sider: the original.
        benchmark: the forward benchmark.
        truth: the graph's drugs of each effect, as released.
        older: the drugs of each effect in the reverse queries of September 2025.
    """
    edges = {(drug, effect) for drug, effects in released.items() for effect in effects}
    graph = {(drug, effect) for effect, drugs in truth.items() for drug in drugs}
    of_effect = sider.terms.groupby("effect").name.agg(set).to_dict()
    equal = sum(set(drugs) == of_effect.get(effect) for effect, drugs in older.items())
    no_term = len(older.keys() - of_effect.keys())
    outside = {q.side_effect for q in benchmark} - {effect for _, effect in edges}
    rows = [
        ("Format A", len(released), len({e for _, e in edges}), len(edges), "see the rules above"),
        (
            "graph, ground truth of the reverse queries",
            len({d for d, _ in graph}),
            len(truth),
            len(graph),
            f"{len(graph ^ edges):,} pairs differ from Format A",
        ),
        (
            "forward benchmark",
            len({q.drug for q in benchmark}),
            len({q.side_effect for q in benchmark}),
            len(benchmark),
            f"{len(outside)} terms occur with none of its drugs",
        ),
        (
            "reverse queries of September 2025",
            len({d for drugs in older.values() for d in drugs}),
            len(older),
            sum(map(len, older.values())),
            f"{equal} of {len(older)} answers are all of SIDER's drugs, {no_term} terms are no PT",
        ),
    ]
    return pd.DataFrame(rows, columns=["file", "drugs", "terms", "pairs", "against the others"])


def read_statistics(path: Path) -> dict[str, int]:
    """The counts of `dataset_statistics.txt`: lines `name: number`."""
    found = re.findall(r"^(\w+): (\d+)\s*$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: int(number) for name, number in found}


def statistics_table(stated: Mapping[str, int], benchmark: Sequence[Question], released: Knowledge) -> pd.DataFrame:
    """The authors' own counts beside a recount."""
    counted = {
        "total_evaluation_pairs": len(benchmark),
        "unique_drugs": len({q.drug for q in benchmark}),
        "unique_side_effects": len({q.side_effect for q in benchmark}),
        "positive_pairs": sum(q.label for q in benchmark),
        "negative_pairs": sum(not q.label for q in benchmark),
        "format_a_entries": len(released),
        "format_b_entries": sum(map(len, released.values())),
    }
    rows = [(name.replace("_", " "), stated.get(name), count) for name, count in counted.items()]
    return pd.DataFrame(rows, columns=["what", "stated", "recounted"])


_ROW = re.compile(r"^\|(?P<cells>.+)\|\s*$")
_ARMS = {"pure llm": "closed_book", "format a": "format_a", "format b": "format_b", "graphrag": "graphrag"}


def read_accuracies(report: Path) -> dict[tuple[str, str], str]:
    """Accuracy by (arm, model) as a report of the authors prints it; the first that it prints counts.

    The reports are Markdown: one has a table a model, named by the heading above it, the other a column Model.
    """
    found: dict[tuple[str, str], str] = {}
    heading, columns = "", list[str]()
    for line in report.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            heading, columns = line.lower(), []
        match = _ROW.match(line)
        if not match:
            continue
        cells = [cell.strip().strip("*").lower() for cell in match["cells"].split("|")]
        if not columns:
            columns = cells
        row = dict(zip(columns, cells, strict=False))
        arm = next((arm for words, arm in _ARMS.items() if row.get("architecture", "").startswith(words)), None)
        where = row.get("model", heading)
        model = next((model for model in MODELS if model in where), None)
        if arm and model and "accuracy" in row:
            found.setdefault((arm, model), row["accuracy"].replace("%", " %"))
    return found


def accuracies_table(printed: Published, reports: Mapping[str, Path]) -> pd.DataFrame:
    """Accuracy of each arm and model, as printed and in the authors' reports."""
    read = {label: read_accuracies(path) for label, path in reports.items()}
    rows = []
    for model, table in MODELS.items():
        for arm in dict.fromkeys(_ARMS.values()):
            number = printed.number(f"side_effects.{table}.{arm}.accuracy")
            row = {
                "model": number.model,
                "architecture": figures.arm_label(arm),
                "printed": number.printed.replace("%", " %"),
            }
            rows.append(row | {label: values.get((arm, model)) for label, values in read.items()})
    return pd.DataFrame(rows)


_MADE_UP = re.compile(r"_(?:effect|drug)_\d+")


def inventory(files: Mapping[str, Path]) -> pd.DataFrame:
    """The query sets that the paper does not use: questions, and how many come with an answer or a placeholder for one.

    Args:
        files: CSV files with a column `query`, by what they are.
    """
    rows = []
    for what, path in files.items():
        table = pd.read_csv(path, dtype=str)
        answers = [c for c in table.columns if c.startswith(("ground_truth", "expected_"))]
        given = table[answers].notna().any(axis=1)
        made_up = table[answers].apply(lambda c: c.str.contains(_MADE_UP)).eq(True).any(axis=1)
        rows.append((what, len(table), table["query"].nunique(), int((given & ~made_up).sum()), int(made_up.sum())))
    columns = ["set", "questions", "distinct", "with an answer", "with a placeholder for one"]
    return pd.DataFrame(rows, columns=columns)


# --------------------------------------------------------------------------------------------- quality of the labels


def report_labels(run: Run, benchmark: Sequence[Question], sider: Sider, indications: pd.DataFrame) -> pd.DataFrame:
    """Labels of the benchmark that SIDER itself speaks against, counted and kept as extras.

    A negative is contradicted if any compound of that name has the effect, under whatever kind of term. A positive is
    doubtful if SIDER lists it as an indication of the drug too, by any method of detection.
    """
    stated = set(zip(sider.lines.name, sider.lines.effect, strict=True))
    names = sider.kept.drop_duplicates("flat").set_index("flat").name
    treated = indications[(indications.kind == "PT") & indications.flat.isin(names.index)]
    indicated = set(zip(treated.flat.map(names), treated.effect, strict=True))
    positives = [q for q in benchmark if q.label]
    negatives = [q for q in benchmark if not q.label]
    scores: dict[str, tuple[str, Score]] = {
        "negatives_documented": (
            "pairs labelled NO that SIDER states for a compound of that name",
            share_of([(q.drug, q.side_effect) in stated for q in negatives], [q.drug for q in negatives]),
        ),
        "positives_indicated": (
            "pairs labelled YES whose effect is also an indication of the drug",
            share_of([(q.drug, q.side_effect) in indicated for q in positives], [q.drug for q in positives]),
        ),
    }
    for id, (label, score) in scores.items():
        run.extra(f"labels.{id}", label, score)
    rows = [(label, round(s.value * s.n), s.n, s) for label, s in scores.values()]
    return pd.DataFrame(rows, columns=["labels", "pairs", "of", "share"])


# ------------------------------------------------------------------------------------------------------- the sampling


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


def spread(sizes: NDArray[np.int64]) -> Score:
    """Mean of the redraws, and the range that holds 95 % of them."""
    low, high = np.quantile(sizes, [0.025, 0.975])
    return Score(float(sizes.mean()), len(sizes), float(low), float(high))


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


def draw_redraws(sizes: NDArray[np.int64], marks: Mapping[str, float]) -> Figure:
    """How many distinct terms the benchmark has in each redraw, and where the marked counts lie."""
    fig, axis = plt.subplots(figsize=(7.2, 2.9))
    sns.histplot(x=sizes, ax=axis, color=figures.arm_colour("majority"), binwidth=4, edgecolor="none")
    for (label, at), arm in zip(marks.items(), ("closed_book", "format_b"), strict=True):
        axis.axvline(at, color=figures.arm_colour(arm), label=f"{label}: {at:,.0f}")
    axis.set(xlabel="distinct terms in the benchmark", ylabel="redraws")
    axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
    fig.legend(loc="outside lower center", ncols=2)
    return fig


# ------------------------------------------------------------------------------------------------------ distributions


def tiers_table(sets: Mapping[str, Knowledge]) -> pd.DataFrame:
    """Effects in each tier of the reverse queries, and the share of all pairs that they hold, for each set of drugs."""
    edges = [*TIERS.values(), np.inf]
    table = pd.DataFrame({"drugs with the effect": list(TIERS)}).set_index("drugs with the effect")
    for label, knowledge in sets.items():
        drugs = drugs_of_effects(knowledge)
        tier = pd.cut(drugs, edges, right=False, labels=list(TIERS))
        table[f"effects, {label}"] = tier.value_counts(sort=False)
        table[f"share of pairs, {label}"] = drugs.groupby(tier, observed=False).sum() / drugs.sum()
    return table


def drugs_of_effects(knowledge: Knowledge) -> pd.Series:
    """How many drugs each effect has."""
    return pd.Series([e for effects in knowledge.values() for e in effects]).value_counts()


def draw_reach(sets: Mapping[str, Knowledge]) -> Figure:
    """How many drugs have more than so many effects, and how many effects more than so many drugs."""
    fig, axes = plt.subplots(1, 2, figsize=(7.6, 3.8))
    looks = [("majority", "-"), ("format_b", "--"), ("graphrag", "-")][-len(sets) :]
    for (label, knowledge), (arm, line) in zip(sets.items(), looks, strict=True):
        counts = (np.array([len(effects) for effects in knowledge.values()]), drugs_of_effects(knowledge).to_numpy())
        look = {"color": figures.arm_colour(arm), "linestyle": line, "label": label}
        for axis, values in zip(axes, counts, strict=True):
            at, n = np.unique(values, return_counts=True)
            # a point a value, not a drug; the first shows that all have more than none
            axis.step([LEFT, *at], [len(values), *(len(values) - n.cumsum())], where="post", **look)
    axes[0].set(xscale="log", xlabel="effects of a drug", ylabel="drugs with more")
    axes[1].set(xscale="log", yscale="log", xlabel="drugs of an effect", ylabel="effects with more")
    for axis in axes:
        axis.set_xlim(left=LEFT)
        axis.yaxis.set_major_formatter(lambda y, _: f"{y:,.0f}")
        axis.xaxis.set_major_formatter(lambda x, _: f"{x:,.0f}")
        axis.grid()
    handles, labels = axes[0].get_legend_handles_labels()
    fig.legend(handles, labels, loc="outside lower center", ncols=len(sets))
    return fig


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


def draw_left_out(table: pd.DataFrame) -> Figure:
    """Share of each ATC group's drugs that is released, has too few effects, or got its code too late."""
    fig, axis = plt.subplots(figsize=(7.4, 4.8))
    counts = table.drop(columns="share")
    shares = counts.div(counts.sum(axis=1), axis=0)
    colours = [figures.arm_colour(arm) for arm in ("graphrag", "majority", "closed_book")]
    left = np.zeros(len(shares))
    for column, colour in zip(shares.columns, colours, strict=True):
        axis.barh(shares.index, shares[column], left=left, color=colour, label=column, height=0.75)
        left += shares[column].to_numpy()
    for y, total in enumerate(counts.sum(axis=1)):
        axis.annotate(f"{total}", (1.0, y), xytext=(6, 0), textcoords="offset points", va="center", fontsize=9.5)
    axis.invert_yaxis()
    axis.set(xlim=(0, 1), xlabel="share of the group's drugs (their number at the right)")
    axis.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
    axis.tick_params(axis="y", length=0)
    fig.legend(loc="outside lower center", ncols=3)
    return fig


# ------------------------------------------------------------------------------------------------------------- report


def report_edges(run: Run, truth: Mapping[str, Sequence[str]] | None) -> dict[str, float]:
    """Report the edges of the released ground truth of the reverse queries; by id, as `report_triple` does."""
    id = "side_effects.text.reverse_truth_edges"
    if truth is None:
        run.not_run(id, "The ground truth is not part of the bundled sample.", kind="rescored")
        return {}
    edges = {(drug, effect) for effect, drugs in truth.items() for drug in drugs}
    note = (
        f"The released ground truth: distinct pairs of {len({drug for drug, _ in edges}):,} drugs and {len(truth):,} "
        "effects. The printed number counts lines of SIDER, of which one edge can have several."
    )
    run.rescored(id, float(len(edges)), note=note, source="side_effects/reverse/neo4j_ground_truth.json")
    return {id: float(len(edges))}


def counts_table(printed: Published, rescored: Mapping[str, float]) -> pd.DataFrame:
    """The counts that this notebook covers, printed and rescored."""
    numbers = [printed.number(f"side_effects.text.{id}") for id in (*TRIPLE, "reverse_truth_edges")]
    rows = [(n.column, n.row, n.printed, rescored.get(n.id)) for n in numbers]
    return pd.DataFrame(rows, columns=["count", "where", "printed", "rescored"])


def not_in_sample(what: str) -> figures.Html:
    """What stands in place of a table that needs SIDER itself."""
    table = pd.DataFrame({"what": [what], "why there is nothing": ["not part of the bundled sample"]})
    return figures.table(table, f"{what}: not part of the bundled sample", sample=True)
