"""What the graph gains beyond the paper (side_effects.md): classes, frequencies, organ classes.

The facts as plain Python decide what the right answer to a question is; the same facts are loaded
into the graph.
"""

import ast
import csv
import hashlib
import re
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

import yaml

from helpers.graph import Graph
from papers.side_effects import data as side_effects_data
from rag.names import Vocabulary
from resources.datasets import Located, locate_all
from resources.settings import DATA, SAMPLE

Key = TypeVar("Key")
Value = TypeVar("Value")

QUESTIONS: dict[str, Any] = yaml.safe_load(
    (DATA / "side_effect_questions.yml").read_text(encoding="utf-8")
)
"""The forms of question, and plain names of the classes that they name."""
CLASS_NAMES: dict[str, str] = QUESTIONS["classes"]
LEVELS = (1, 3, 4, 5)
"""Characters of an ATC code that name its first four levels; the fifth is the substance."""
WORDS = {"very common": 0.1, "common": 0.01, "uncommon": 0.001, "rare": 0.0}
"""Lower bound of the share of patients that a leaflet's words stand for (CIOMS); for the sample."""


@dataclass(frozen=True)
class Facts:
    """All that the questions are about.

    Attributes:
        effects: The side effects of each drug.
        codes: The ATC code of each class, by its name.
        classes: The names of the classes of each drug.
        frequency: Share of patients by (drug, effect), where a label states one.
        organs: The organ class of an effect, where it is known.
        digest: Decides whether a graph that is there holds the same.
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
        members: dict[str, set[str]] = {name: set() for name in self.codes}
        for drug, class_names in self.classes.items():
            for name in class_names & members.keys():
                members[name].add(drug)
        return {name: frozenset(drugs) for name, drugs in members.items()}

    @cached_property
    def effect_set(self) -> dict[str, frozenset[str]]:
        """The effects of each drug, without their order."""
        return {drug: frozenset(effects) for drug, effects in self.effects.items()}

    @cached_property
    def ranked(self) -> dict[str, list[tuple[float, str]]]:
        """The stated frequencies and effects of each drug, the most frequent first."""
        ranked: dict[str, list[tuple[float, str]]] = {drug: [] for drug in self.effects}
        by_share = sorted(self.frequency.items(), key=lambda stated: (-stated[1], stated[0]))
        for (drug, effect), share in by_share:
            ranked[drug].append((share, effect))
        return ranked

    def of_organ(self, drug: str, organ: str) -> frozenset[str]:
        """Return the effects of a drug that are in an organ class."""
        effects = self.effect_set[drug]
        return frozenset(effect for effect in effects if self.organs.get(effect) == organ)

    @property
    def vocabulary(self) -> Vocabulary:
        """Every name that a question may use."""
        effects = set(chain.from_iterable(self.effects.values()))
        organs = set(self.organs.values())
        return Vocabulary.by_role(drug=self.effects, effect=effects, cls=self.codes, organ=organs)


def collect(
    knowledge: Mapping[str, Sequence[str]],
    atc: Mapping[str, Iterable[str]],
    frequency: Mapping[tuple[str, str], float],
    organs: Mapping[str, str],
) -> Facts:
    """Put the pieces together.

    Args:
        knowledge: The side effects of each drug; only what concerns these is used.
        atc: The full ATC codes of each drug.
        frequency: Share of patients by (drug, effect).
        organs: The organ class of each effect.
    """
    effects = {drug: tuple(listed) for drug, listed in knowledge.items()}
    known = {(drug, effect) for drug, listed in effects.items() for effect in listed}
    terms = {effect for _, effect in known}
    code_of_class: dict[str, str] = {}
    classes: dict[str, frozenset[str]] = {}
    for drug in effects:
        codes = _codes_of_all_levels(atc.get(drug, ()))
        names = {CLASS_NAMES.get(code, code): code for code in codes}
        code_of_class |= names
        classes[drug] = frozenset(names)
    known_frequency = _select(frequency, known)
    known_organs = _select(organs, terms)
    everything = [
        sorted(known),
        sorted(code_of_class.items()),
        sorted((drug, sorted(names)) for drug, names in classes.items()),
        sorted(known_frequency.items()),
        sorted(known_organs.items()),
    ]
    digest = hashlib.sha256(repr(everything).encode()).hexdigest()
    return Facts(effects, code_of_class, classes, known_frequency, known_organs, digest)


def _select(values: Mapping[Key, Value], keys: Container[Key]) -> dict[Key, Value]:
    return {key: value for key, value in values.items() if key in keys}


def _codes_of_all_levels(codes: Iterable[str]) -> set[str]:
    return {code[:length] for code in codes for length in LEVELS}


FURTHER = {
    "names": "side_effects/sider/drug_names.tsv",
    "atc": "side_effects/sider/drug_atc.tsv",
    "frequency": "side_effects/sider/meddra_freq.tsv.gz",
    "organs": "side_effects/queries/comprehensive_organ_queries.csv",
}
"""The files beyond the benchmark's: SIDER's, and the authors' queries by organ class."""
SAMPLE_FILE = SAMPLE / "side_effects_beyond.yml"


def load_facts(knowledge: Mapping[str, Sequence[str]], sample: bool) -> tuple[Facts, list[Located]]:
    """Read the facts about the drugs of `knowledge`.

    Args:
        knowledge: The side effects of each drug.
        sample: Whether to read the project's sample in place of the real files.

    Returns:
        The facts, and the files that they were read from.
    """
    if sample:
        file = Located(
            f"side_effects/{SAMPLE_FILE.name}",
            SAMPLE_FILE,
            sample=True,
            sha256=hashlib.sha256(SAMPLE_FILE.read_bytes()).hexdigest(),
            source=f"sample: data/sample/{SAMPLE_FILE.name}",
        )
        return read_sample(knowledge, file.path), [file]
    files = locate_all(FURTHER.values(), "real")
    paths = {role: files[name].path for role, name in FURTHER.items()}
    return read_facts(knowledge, **paths), list(files.values())


def read_facts(
    knowledge: Mapping[str, Sequence[str]], *, names: Path, atc: Path, frequency: Path, organs: Path
) -> Facts:
    """Read the facts from SIDER 4.1 and from the authors' organ queries.

    A drug has the ATC codes of all compounds of its name that SIDER itself codes. Of several
    frequencies of a pair, the highest lower bound counts, placebo groups left out. For words SIDER
    states bounds itself ("common" from 0.01; "rare" and "postmarketing" from 0).

    Args:
        knowledge: The side effects of each drug.
        names: The file of `FURTHER` with this name; so are the others.
        atc: See ``names``.
        frequency: See ``names``.
        organs: See ``names``.
    """
    compounds = side_effects_data.read_names(names)
    listed = side_effects_data.read_atc(atc)
    coded = listed[listed.own]
    drugs = coded.flat.map(compounds).str.lower()
    codes = {str(drug): list(codes_of_drug) for drug, codes_of_drug in coded.groupby(drugs).code}
    stated = side_effects_data.read_frequencies(frequency, compounds)
    stated = stated[stated.kind == "PT"]
    bounds = sorted(zip(stated.low.astype(float), stated.name, stated.effect, strict=True))
    # of a pair the last stays, which is the highest
    shares = {(drug, effect): low for low, drug, effect in bounds}
    return collect(knowledge, codes, shares, read_organs(organs))


def read_organs(path: Path) -> dict[str, str]:
    """Read the organ class of each effect in the authors' queries by organ.

    Raises:
        ValueError: An effect is in two classes.
    """
    organs: dict[str, str] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            organ = row["organ_filter"]
            for effect in ast.literal_eval(row["ground_truth"]):
                if organs.setdefault(effect, organ) != organ:
                    raise ValueError(f"{path.name}: {effect} is both {organs[effect]} and {organ}.")
    return organs


def read_sample(knowledge: Mapping[str, Sequence[str]], path: Path) -> Facts:
    """Read the facts of the bundled sample: YAML with atc, frequency (in words) and organs."""
    table = yaml.safe_load(path.read_text(encoding="utf-8"))
    frequency: dict[tuple[str, str], float] = {}
    for drug, effects_by_word in table["frequency"].items():
        for word, effects in effects_by_word.items():
            frequency |= {(drug, effect): WORDS[word] for effect in effects}
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
    """Add classes, frequencies and organ classes to the graph of `corpus.load_graph`.

    No drug, effect or edge between them is added or removed.

    Returns:
        Whether anything was loaded; nothing is where the graph holds these facts already.
    """
    with graph.load_once("side_effects_beyond", facts.digest) as missing:
        if missing:
            graph.clear("AtcClass", "OrganClass")
            _load_nodes(graph, facts)
            _load_classes(graph, facts)
            _load_organs(graph, facts)
            _load_frequencies(graph, facts)
    return missing


def _load_nodes(graph: Graph, facts: Facts) -> None:
    # changes no drug, but ties the note on this data set to them: who clears the drugs clears it
    drugs = [{"name": drug} for drug in facts.effects]
    graph.load_nodes("Drug", drugs, key="name", progress=False)
    classes = [{"name": name, "code": code} for name, code in sorted(facts.codes.items())]
    organ_names = sorted(set(facts.organs.values()))
    organs = [{"name": organ} for organ in organ_names]
    for label, nodes in {"AtcClass": classes, "OrganClass": organs}.items():
        graph.constraint(label, "name")
        graph.load_nodes(label, nodes, key="name", progress=False)


def _load_classes(graph: Graph, facts: Facts) -> None:
    edges = [
        {"drug": drug, "cls": name}
        for drug, names in facts.classes.items()
        for name in sorted(names)
    ]
    drug_end, class_end = ("Drug", "name", "drug"), ("AtcClass", "name", "cls")
    graph.load_edges("in_class", edges, start=drug_end, end=class_end)


def _load_organs(graph: Graph, facts: Facts) -> None:
    edges = [{"effect": effect, "organ": organ} for effect, organ in facts.organs.items()]
    effect_end, organ_end = ("SideEffect", "name", "effect"), ("OrganClass", "name", "organ")
    graph.load_edges("in_organ_class", edges, start=effect_end, end=organ_end)


def _load_frequencies(graph: Graph, facts: Facts) -> None:
    # what other facts left on an edge goes: a missing value removes the property
    shares: dict[tuple[str, str], float | None] = {
        (row["drug"], row["effect"]): None for row in graph.read(WITH_FREQUENCY)
    }
    shares |= facts.frequency
    edges = [
        {"drug": drug, "effect": effect, "frequency": share}
        for (drug, effect), share in shares.items()
    ]
    drug_end, effect_end = ("Drug", "name", "drug"), ("SideEffect", "name", "effect")
    graph.load_edges("may_cause_side_effect", edges, start=drug_end, end=effect_end)


def schema_text(graph: Graph) -> str:
    """Write the schema of what this module asks about, for a prompt; the rest is left out."""
    lines = []
    for line in graph.schema().splitlines():
        names = re.findall(r"[([]:(\w+)", line)
        if KNOWN.issuperset(names):
            lines.append(line)
    return "\n".join(lines)
