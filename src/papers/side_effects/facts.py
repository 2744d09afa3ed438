"""What the graph gains beyond the paper (side_effects.md): classes, frequency, organ classes.

Facts as plain Python, which decides what the right answer to a question is, and the same facts in the graph.
"""

import ast
import csv
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from helpers.graph import Graph
from papers.side_effects import data as side_effects_data
from rag.names import Vocabulary
from resources.datasets import Located, locate_all
from resources.settings import DATA, SAMPLE

QUESTIONS: dict[str, Any] = yaml.safe_load(
    (DATA / "side_effect_questions.yml").read_text(encoding="utf-8")
)
"""The forms of question, and plain names of the classes that they name."""
CLASS_NAMES: dict[str, str] = QUESTIONS["classes"]
LEVELS = (1, 3, 4, 5)
"""Characters of an ATC code that name its first four levels; the fifth is the substance."""
WORDS = {"very common": 0.1, "common": 0.01, "uncommon": 0.001, "rare": 0.0}
"""Lower bound of the share of patients that a package leaflet's words stand for (CIOMS); used for the sample."""


@dataclass(frozen=True)
class Facts:
    """All that the questions are about, as plain Python: the effects and classes of each drug, codes by class.

    Frequencies are shares of patients by (drug, effect), where a label states one; `organs` has an organ class for some
    effects. The digest of all this decides whether a graph that is there holds the same.
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
        return {
            name: frozenset(drug for drug, of in self.classes.items() if name in of)
            for name in self.codes
        }

    @cached_property
    def effect_set(self) -> dict[str, frozenset[str]]:
        """The effects of each drug, without their order."""
        return {drug: frozenset(of_drug) for drug, of_drug in self.effects.items()}

    @cached_property
    def ranked(self) -> dict[str, list[tuple[float, str]]]:
        """(frequency, effect) of each drug, the most frequent first."""
        found: dict[str, list[tuple[float, str]]] = {drug: [] for drug in self.effects}
        for (drug, effect), share in sorted(
            self.frequency.items(), key=lambda stated: (-stated[1], stated[0])
        ):
            found[drug].append((share, effect))
        return found

    def of_organ(self, drug: str, organ: str) -> frozenset[str]:
        """The effects of a drug that are in an organ class."""
        return frozenset(e for e in self.effect_set[drug] if self.organs.get(e) == organ)

    @property
    def vocabulary(self) -> Vocabulary:
        """Every name that a question may use."""
        effects = {effect for of_drug in self.effects.values() for effect in of_drug}
        return Vocabulary.of(
            drug=self.effects, effect=effects, cls=self.codes, organ=set(self.organs.values())
        )


def collect(
    knowledge: Mapping[str, Sequence[str]],
    atc: Mapping[str, Iterable[str]],
    frequency: Mapping[tuple[str, str], float],
    organs: Mapping[str, str],
) -> Facts:
    """Put the pieces together, keeping what concerns the drugs and effects of `knowledge`.

    `atc` has the full codes of each drug, `frequency` shares of patients by (drug, effect), `organs` classes by effect.
    """
    effects = {drug: tuple(of_drug) for drug, of_drug in knowledge.items()}
    known = {(drug, effect) for drug, of_drug in effects.items() for effect in of_drug}
    terms = {effect for _, effect in known}
    prefixes = {
        drug: {code[:length] for code in atc.get(drug, ()) for length in LEVELS} for drug in effects
    }
    codes = {CLASS_NAMES.get(code, code): code for of in prefixes.values() for code in of}
    classes = {
        drug: frozenset(CLASS_NAMES.get(code, code) for code in of) for drug, of in prefixes.items()
    }
    kept = {pair: share for pair, share in frequency.items() if pair in known}
    of_organ = {effect: organ for effect, organ in organs.items() if effect in terms}
    of_drug = sorted((drug, sorted(names)) for drug, names in classes.items())
    everything = [
        sorted(known),
        sorted(codes.items()),
        of_drug,
        sorted(kept.items()),
        sorted(of_organ.items()),
    ]
    return Facts(
        effects,
        codes,
        classes,
        kept,
        of_organ,
        hashlib.sha256(repr(everything).encode()).hexdigest(),
    )


FURTHER = {
    "names": "side_effects/sider/drug_names.tsv",
    "atc": "side_effects/sider/drug_atc.tsv",
    "frequency": "side_effects/sider/meddra_freq.tsv.gz",
    "organs": "side_effects/queries/comprehensive_organ_queries.csv",
}
"""The files that say more than the benchmark's: SIDER's, and the authors' queries by organ class."""
SAMPLE_FILE = SAMPLE / "side_effects_beyond.yml"


def load_facts(knowledge: Mapping[str, Sequence[str]], sample: bool) -> tuple[Facts, list[Located]]:
    """The facts about the drugs of `knowledge`, real or the project's sample, and the files they were read from."""
    if sample:
        source = f"sample: data/sample/{SAMPLE_FILE.name}"
        digest = hashlib.sha256(SAMPLE_FILE.read_bytes()).hexdigest()
        file = Located(
            f"side_effects/{SAMPLE_FILE.name}",
            SAMPLE_FILE,
            sample=True,
            sha256=digest,
            source=source,
        )
        return read_sample(knowledge, file.path), [file]
    files = locate_all(FURTHER.values(), "real")
    return read_facts(
        knowledge, **{role: files[name].path for role, name in FURTHER.items()}
    ), list(files.values())


def read_facts(
    knowledge: Mapping[str, Sequence[str]], *, names: Path, atc: Path, frequency: Path, organs: Path
) -> Facts:
    """The facts from SIDER 4.1 and from the authors' organ queries.

    A drug has the ATC codes of all compounds of its name that SIDER itself codes. Of several frequencies of a pair, the
    highest lower bound counts, placebo groups left out. For words SIDER states bounds itself ("common" from 0.01;
    "rare" and "postmarketing" from 0). The paths are those of `FURTHER`.
    """
    compounds = side_effects_data.read_names(names)
    listed = side_effects_data.read_atc(atc)
    coded = listed[listed.own]
    codes = {
        str(name): list(of)
        for name, of in coded.groupby(coded.flat.map(compounds).str.lower()).code
    }
    stated = side_effects_data.read_frequencies(frequency, compounds)
    stated = stated[stated.kind == "PT"]
    bounds = sorted(zip(stated.low.astype(float), stated.name, stated.effect, strict=True))
    shares = {
        (drug, effect): low for low, drug, effect in bounds
    }  # of a pair the last, which is the highest
    return collect(knowledge, codes, shares, read_organs(organs))


def read_organs(path: Path) -> dict[str, str]:
    """The organ class of each effect in the authors' queries by organ; one in two classes is a `ValueError`."""
    found: dict[str, str] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            for effect in ast.literal_eval(row["ground_truth"]):
                if found.setdefault(effect, row["organ_filter"]) != row["organ_filter"]:
                    raise ValueError(
                        f"{path.name}: {effect} is both {found[effect]} and {row['organ_filter']}."
                    )
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


KNOWN = {
    "Drug",
    "SideEffect",
    "AtcClass",
    "OrganClass",
    "may_cause_side_effect",
    "in_class",
    "in_organ_class",
}
"""Labels and edge types that this module asks about."""
WITH_FREQUENCY = """
MATCH (d:Drug)-[r:may_cause_side_effect]->(e:SideEffect) WHERE r.frequency IS NOT NULL
RETURN d.name AS drug, e.name AS effect
"""


def extend_graph(graph: Graph, facts: Facts) -> bool:
    """Add classes, frequencies and organ classes to the graph of `corpus.load_graph`, unless they are there.

    No drug, effect or edge between them is added or removed. Returns whether anything was loaded.
    """
    with graph.load_once("side_effects_beyond", facts.digest) as missing:
        if not missing:
            return False
        graph.clear("AtcClass", "OrganClass")
        # changes no drug, but ties the note on this data set to them: whoever clears the drugs clears it too
        graph.load_nodes(
            "Drug", [{"name": drug} for drug in facts.effects], key="name", progress=False
        )
        classes = [{"name": name, "code": code} for name, code in sorted(facts.codes.items())]
        organs = [{"name": organ} for organ in sorted(set(facts.organs.values()))]
        for label, nodes in {"AtcClass": classes, "OrganClass": organs}.items():
            graph.constraint(label, "name")
            graph.load_nodes(label, nodes, key="name", progress=False)
        graph.load_edges(
            "in_class",
            [
                {"drug": drug, "cls": name}
                for drug, names in facts.classes.items()
                for name in sorted(names)
            ],
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
            [
                {"drug": d, "effect": e, "frequency": share}
                for (d, e), share in (left | dict(facts.frequency)).items()
            ],
            start=("Drug", "name", "drug"),
            end=("SideEffect", "name", "effect"),
        )
    return True


def schema_text(graph: Graph) -> str:
    """The schema of what this module asks about, as text for a prompt; what else the graph holds is left out."""
    lines = graph.schema().splitlines()
    return "\n".join(line for line in lines if KNOWN.issuperset(re.findall(r"[([]:(\w+)", line)))
