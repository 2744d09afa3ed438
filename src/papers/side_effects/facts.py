"""What the graph of drugs and effects gains beyond the paper (side_effects.md): classes, frequency, organ classes.

The facts as plain Python, which decides what the right answer to a question is, and the same facts in the graph.
"""

from __future__ import annotations

import ast
import csv
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import yaml

from helpers.datasets import Located, locate_all
from helpers.graph import Graph
from helpers.rag.names import Vocabulary
from helpers.settings import SAMPLE
from papers.side_effects import data as side_effects_data

CLASS_NAMES = {
    # anatomical main groups
    "A": "digestive and metabolic drugs",
    "B": "blood drugs",
    "C": "cardiovascular drugs",
    "D": "skin drugs",
    "G": "urogenital drugs and sex hormones",
    "H": "systemic hormones",
    "J": "systemic anti-infectives",
    "L": "cancer and immune drugs",
    "M": "musculoskeletal drugs",
    "N": "nervous system drugs",
    "P": "antiparasitic drugs",
    "R": "respiratory drugs",
    "S": "eye and ear drugs",
    "V": "various drugs",
    # groups within them
    "A02BA": "H2 blockers",
    "A02BC": "proton pump inhibitors",
    "A04A": "antiemetics",
    "A06A": "laxatives",
    "A10A": "insulins",
    "A10BB": "sulfonylureas",
    "B01A": "antithrombotics",
    "C01B": "antiarrhythmics",
    "C03": "diuretics",
    "C07A": "beta blockers",
    "C08": "calcium channel blockers",
    "C09A": "ACE inhibitors",
    "C09C": "angiotensin receptor blockers",
    "C10AA": "statins",
    "H02A": "systemic corticosteroids",
    "J01": "antibiotics",
    "J01C": "penicillins",
    "J01FA": "macrolides",
    "J01MA": "fluoroquinolones",
    "J02A": "antifungals",
    "J05A": "antivirals",
    "L01": "cancer drugs",
    "L04A": "immunosuppressants",
    "M01A": "NSAIDs",
    "M03": "muscle relaxants",
    "M05BA": "bisphosphonates",
    "N01": "anaesthetics",
    "N02A": "opioids",
    "N02CC": "triptans",
    "N03A": "antiepileptics",
    "N04B": "dopaminergic drugs",
    "N05A": "antipsychotics",
    "N05BA": "benzodiazepines",
    "N05C": "hypnotics",
    "N06A": "antidepressants",
    "N06AA": "tricyclic antidepressants",
    "N06AB": "SSRIs",
    "N06D": "dementia drugs",
    "P01B": "antimalarials",
    "R03": "asthma drugs",
    "R06A": "antihistamines",
}
"""Plain names of the classes that questions name. SIDER has codes only; a class without a name goes by its code."""

LEVELS = (1, 3, 4, 5)
"""Characters of an ATC code that name its first four levels; the fifth is the substance."""
WORDS = {"very common": 0.1, "common": 0.01, "uncommon": 0.001, "rare": 0.0}
"""Lower bound of the share of patients that a package leaflet's words stand for (CIOMS); used for the sample."""


# --------------------------------------------------------------------------------------------------------------- data


@dataclass(frozen=True)
class Facts:
    """All that the questions are about, as plain Python.

    Attributes:
        effects: side effects of each drug.
        codes: ATC code of each class, by the class' name.
        classes: names of the classes that each drug is in, of all four levels.
        frequency: of a (drug, effect), as a share of patients, where a label states one.
        organs: organ class of an effect, where the data give one.
        digest: of all this; decides whether a graph that is there holds the same.
    """

    effects: Mapping[str, tuple[str, ...]]
    codes: Mapping[str, str]
    classes: Mapping[str, frozenset[str]]
    frequency: Mapping[tuple[str, str], float]
    organs: Mapping[str, str]
    digest: str

    @cached_property
    def members(self) -> dict[str, frozenset[str]]:
        """The drugs of each class."""
        found: dict[str, set[str]] = defaultdict(set)
        for drug, names in self.classes.items():
            for name in names:
                found[name].add(drug)
        return {name: frozenset(drugs) for name, drugs in found.items()}

    @cached_property
    def effect_set(self) -> dict[str, frozenset[str]]:
        """The effects of each drug, without their order."""
        return {drug: frozenset(of_drug) for drug, of_drug in self.effects.items()}

    @cached_property
    def ranked(self) -> dict[str, list[tuple[float, str]]]:
        """(frequency, effect) of each drug, the most frequent first."""
        found: dict[str, list[tuple[float, str]]] = {drug: [] for drug in self.effects}
        for (drug, effect), share in self.frequency.items():
            found[drug].append((share, effect))
        return {drug: sorted(pairs, key=lambda pair: (-pair[0], pair[1])) for drug, pairs in found.items()}

    def of_organ(self, drug: str, organ: str) -> frozenset[str]:
        """The effects of a drug that are in an organ class."""
        return frozenset(e for e in self.effect_set[drug] if self.organs.get(e) == organ)

    @property
    def vocabulary(self) -> Vocabulary:
        """Every name that a question may use."""
        effects = {effect for of_drug in self.effects.values() for effect in of_drug}
        return Vocabulary.of(drug=self.effects, effect=effects, cls=self.codes, organ=set(self.organs.values()))


def collect(
    knowledge: Mapping[str, Sequence[str]],
    atc: Mapping[str, Iterable[str]],
    frequency: Mapping[tuple[str, str], float],
    organs: Mapping[str, str],
) -> Facts:
    """Put the pieces together, keeping what concerns the drugs and effects of `knowledge`.

    Args:
        knowledge: effects of each drug.
        atc: full ATC codes of each drug.
        frequency: share of patients by (drug, effect).
        organs: organ class by effect.
    """
    effects = {drug: tuple(of_drug) for drug, of_drug in knowledge.items()}
    known = {(drug, effect) for drug, of_drug in effects.items() for effect in of_drug}
    terms = {effect for _, effect in known}
    codes: dict[str, str] = {}
    classes: dict[str, frozenset[str]] = {}
    for drug in effects:
        prefixes = {code[:length] for code in atc.get(drug, ()) for length in LEVELS}
        named = {CLASS_NAMES.get(code, code): code for code in prefixes}
        codes |= named
        classes[drug] = frozenset(named)
    kept = {pair: share for pair, share in frequency.items() if pair in known}
    of_organ = {effect: organ for effect, organ in organs.items() if effect in terms}
    everything = [
        sorted(known),
        sorted(codes.items()),
        sorted((d, sorted(c)) for d, c in classes.items()),
        sorted(kept.items()),
        sorted(of_organ.items()),
    ]
    digest = hashlib.sha256(repr(everything).encode()).hexdigest()
    return Facts(effects, codes, classes, kept, of_organ, digest)


FURTHER = {
    "names": "side_effects/sider/drug_names.tsv",
    "atc": "side_effects/sider/drug_atc.tsv",
    "frequency": "side_effects/sider/meddra_freq.tsv.gz",
    "organs": "side_effects/queries/comprehensive_organ_queries.csv",
}
"""The files that say more than the benchmark's: SIDER's, and the authors' queries by organ class."""
SAMPLE_FILE = SAMPLE / "side_effects_beyond.yml"


def load_facts(knowledge: Mapping[str, Sequence[str]], sample: bool) -> tuple[Facts, list[Located]]:
    """The facts about the drugs of `knowledge`, and the files that they were read from.

    Args:
        knowledge: effects of each drug, as the benchmark has them.
        sample: read the project's own sample in place of the real files.

    Raises:
        helpers.datasets.DataUnavailable: a real file is wanted and no source gives it.
    """
    if sample:
        source = f"sample: data/sample/{SAMPLE_FILE.name}"
        digest = hashlib.sha256(SAMPLE_FILE.read_bytes()).hexdigest()
        file = Located(f"side_effects/{SAMPLE_FILE.name}", SAMPLE_FILE, sample=True, sha256=digest, source=source)
        return read_sample(knowledge, file.path), [file]
    files = locate_all(FURTHER.values(), "real")
    return read_facts(knowledge, **{role: files[name].path for role, name in FURTHER.items()}), list(files.values())


def read_facts(
    knowledge: Mapping[str, Sequence[str]], *, names: Path, atc: Path, frequency: Path, organs: Path
) -> Facts:
    """The facts from SIDER 4.1 and from the authors' organ queries.

    A drug has the ATC codes of all compounds of its name that SIDER itself codes; what the publisher of the file added
    to SIDER's list is left out. A pair can have several frequencies, from several trials. The one that counts is the
    highest of their lower bounds, entries of placebo groups left out: in some labelled source, at least this share of
    patients had it. For words SIDER states bounds itself ("common" from 0.01; "rare" and "postmarketing" from 0).

    Args:
        knowledge: effects of each drug, as the benchmark has them.
        names: SIDER's drug_names.tsv.
        atc: SIDER's drug_atc.tsv.
        frequency: SIDER's meddra_freq.tsv.gz.
        organs: the authors' queries by organ: CSV with columns organ_filter and ground_truth.
    """
    compounds = side_effects_data.read_names(names)
    listed = side_effects_data.read_atc(atc)
    coded = listed[listed.own]
    by_name = coded.groupby(coded.flat.map(compounds).str.lower()).code
    codes = {str(name): list(of_name) for name, of_name in by_name}
    stated = side_effects_data.read_frequencies(frequency, compounds)
    stated = stated[stated.kind == "PT"]
    shares: dict[tuple[str, str], float] = {}
    for drug, effect, low in zip(stated.name, stated.effect, stated.low.astype(float), strict=True):
        shares[drug, effect] = max(low, shares.get((drug, effect), 0.0))
    return collect(knowledge, codes, shares, read_organs(organs))


def read_organs(path: Path) -> dict[str, str]:
    """The organ class of each effect that the authors' queries by organ name as an answer.

    Raises:
        ValueError: an effect is in two organ classes.
    """
    found: dict[str, str] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for effect in ast.literal_eval(row["ground_truth"]):
                if found.setdefault(effect, row["organ_filter"]) != row["organ_filter"]:
                    raise ValueError(f"{path.name}: {effect} is both {found[effect]} and {row['organ_filter']}.")
    return found


def read_sample(knowledge: Mapping[str, Sequence[str]], path: Path) -> Facts:
    """The facts of the bundled sample: YAML with atc, frequency (in words) and organs."""
    table = yaml.safe_load(path.read_text(encoding="utf-8"))
    frequency = {
        (drug, effect): WORDS[word]
        for drug, of_drug in table["frequency"].items()
        for word, effects in of_drug.items()
        for effect in effects
    }
    organs = {effect: organ for organ, effects in table["organs"].items() for effect in effects}
    return collect(knowledge, table["atc"], frequency, organs)


# -------------------------------------------------------------------------------------------------------------- graph

DATA_SET = "side_effects_beyond"
EDGES = (
    ("Drug", "may_cause_side_effect", "SideEffect"),
    ("Drug", "in_class", "AtcClass"),
    ("SideEffect", "in_organ_class", "OrganClass"),
)
LABELS = frozenset(label for start, _, end in EDGES for label in (start, end))
TYPES = frozenset(type_ for _, type_, _ in EDGES)
WITH_FREQUENCY = """
MATCH (d:Drug)-[r:may_cause_side_effect]->(e:SideEffect) WHERE r.frequency IS NOT NULL
RETURN d.name AS drug, e.name AS effect
"""


def extend_graph(graph: Graph, facts: Facts) -> bool:
    """Add classes, frequencies and organ classes to the graph of `side_effects.load_graph`, unless they are there.

    No drug, effect or edge between them is added or removed. If that graph is cleared and loaded again, what was added
    to it is gone, and the next call adds it again.

    Returns:
        Whether anything was loaded.
    """
    with graph.load_once(DATA_SET, facts.digest) as missing:
        if not missing:
            return False
        graph.clear("AtcClass", "OrganClass")
        # changes no drug, but ties the note on this data set to them: whoever clears the drugs clears it too
        graph.load_nodes("Drug", [{"name": drug} for drug in facts.effects], key="name", progress=False)
        for label in ("AtcClass", "OrganClass"):
            graph.constraint(label, "name")
        classes = [{"name": name, "code": code} for name, code in sorted(facts.codes.items())]
        graph.load_nodes("AtcClass", classes, key="name", progress=False)
        organs = [{"name": organ} for organ in sorted(set(facts.organs.values()))]
        graph.load_nodes("OrganClass", organs, key="name", progress=False)
        graph.load_edges(
            "in_class",
            [{"drug": drug, "cls": name} for drug, names in facts.classes.items() for name in sorted(names)],
            start=("Drug", "name", "drug"),
            end=("AtcClass", "name", "cls"),
        )
        graph.load_edges(
            "in_organ_class",
            [{"effect": effect, "organ": organ} for effect, organ in facts.organs.items()],
            start=("SideEffect", "name", "effect"),
            end=("OrganClass", "name", "organ"),
        )
        # what other facts left on an edge goes: a missing value removes the property
        left = {(row["drug"], row["effect"]): None for row in graph.read(WITH_FREQUENCY)}
        graph.load_edges(
            "may_cause_side_effect",
            [{"drug": d, "effect": e, "frequency": share} for (d, e), share in (left | dict(facts.frequency)).items()],
            start=("Drug", "name", "drug"),
            end=("SideEffect", "name", "effect"),
        )
    return True


def schema_text(graph: Graph) -> str:
    """The schema of what this module asks about, as text for a prompt; what else the graph holds is left out."""
    kept = []
    for line in graph.schema().splitlines():
        labels, types = set(re.findall(r"\(:(\w+)", line)), set(re.findall(r"\[:(\w+)", line))
        if labels <= LABELS and types <= TYPES:
            kept.append(line)
    return "\n".join(kept)
