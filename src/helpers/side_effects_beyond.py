"""Drug side effects (side_effects.md), beyond the paper: what its discussion announces and does not do.

The graph of drugs and effects gains ATC classes, frequencies and organ classes. Questions of five kinds are asked of it
in words; a language model writes the Cypher, or only picks a query written here, and plain Python on the same data says
what is right. And the label lock: the graph decides the label, the model only words it.
"""

from __future__ import annotations

import ast
import csv
import gzip
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from helpers.ask import Vocabulary, contradicts, lock, locked_prompt
from helpers.datasets import Located, locate_all
from helpers.graph import CypherRejected, Graph
from helpers.llm import LLM
from helpers.settings import SAMPLE
from helpers.side_effects import Asking, Entities, Question, evidence_prompt, graph_evidence, parse_label

Parameters = dict[str, Any]
Answer = frozenset[str]

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


FURTHER = ("sider/drug_names.tsv", "sider/drug_atc.tsv", "sider/meddra_freq.tsv.gz", "queries/organ_queries.csv")
"""What `read_facts` reads, in the registry under side_effects/."""
SAMPLE_FILE = SAMPLE / "side_effects_beyond.yml"


def locate_further(sample: bool) -> list[Located]:
    """The files that say more than the benchmark's: SIDER's and the organ queries, or the project's own sample.

    Raises:
        helpers.datasets.DataUnavailable: a real file is wanted and no source gives it.
    """
    if sample:
        source = f"sample: data/sample/{SAMPLE_FILE.name}"
        digest = hashlib.sha256(SAMPLE_FILE.read_bytes()).hexdigest()
        return [Located(f"side_effects/{SAMPLE_FILE.name}", SAMPLE_FILE, sample=True, sha256=digest, source=source)]
    return list(locate_all([f"side_effects/{name}" for name in FURTHER], "real").values())


def read_facts(knowledge: Mapping[str, Sequence[str]], names: Path, atc: Path, frequency: Path, organs: Path) -> Facts:
    """The facts from SIDER 4.1 and from the authors' organ queries.

    Args:
        knowledge: effects of each drug, as the benchmark has them.
        names: SIDER's drug_names.tsv: compound, name.
        atc: SIDER's drug_atc.tsv: compound, ATC code.
        frequency: SIDER's meddra_freq.tsv.gz.
        organs: the authors' queries by organ: CSV with columns organ_filter and ground_truth.
    """
    compounds = read_names(names, knowledge)
    codes: dict[str, list[str]] = defaultdict(list)
    with atc.open(encoding="utf-8") as file:
        for line in file:
            compound, code = line.split()
            for drug in compounds.get(compound, ()):
                codes[drug].append(code)
    return collect(knowledge, codes, read_frequency(frequency, compounds), read_organs(organs))


def read_names(path: Path, drugs: Iterable[str]) -> dict[str, list[str]]:
    """The names among `drugs` of each compound of SIDER's drug_names.tsv."""
    wanted, found = set(drugs), defaultdict(list)
    with path.open(encoding="utf-8") as file:
        for line in file:
            compound, name = line.rstrip("\n").split("\t")
            if name.lower() in wanted:
                found[compound].append(name.lower())
    return dict(found)


def read_frequency(path: Path, compounds: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], float]:
    """How frequent the effects are, from SIDER's meddra_freq.tsv.gz.

    A pair can have several entries: several trials, several degrees. The frequency is the highest of their lower
    bounds, entries of placebo groups left out: in some labelled source, at least this share of patients had it. For
    words SIDER states bounds itself ("common" from 0.01; "rare" and "postmarketing" from 0).
    """
    found: dict[tuple[str, str], float] = {}
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for row in csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
            compound, _, _, placebo, _, lower, _, kind, _, effect = row
            if kind != "PT" or placebo:
                continue
            for drug in compounds.get(compound, ()):
                pair = drug, effect.lower()
                found[pair] = max(float(lower), found.get(pair, 0.0))
    return found


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
LABELS = frozenset({"Drug", "SideEffect", "AtcClass", "OrganClass"})
TYPES = frozenset({"may_cause_side_effect", "in_class", "in_organ_class"})
HELD = {
    "frequency": "MATCH (:Drug)-[r:may_cause_side_effect]->(:SideEffect) RETURN count(r.frequency) AS count",
    "classes": "MATCH (:Drug)-[r:in_class]->(:AtcClass) RETURN count(r) AS count",
    "organs": "MATCH (:SideEffect)-[r:in_organ_class]->(:OrganClass) RETURN count(r) AS count",
}


def held(graph: Graph) -> dict[str, int]:
    """How much of what `extend_graph` adds is in the graph: edges with a frequency, and edges of either new type."""
    return {what: graph.read(query)[0]["count"] for what, query in HELD.items()}


def extend_graph(graph: Graph, facts: Facts) -> bool:
    """Add classes, frequencies and organ classes to the graph of `side_effects.load_graph`, unless they are there.

    No drug, effect or edge between them is added or removed. If that graph was cleared and loaded again since, what was
    added to it is gone; so what is there is counted, and added again where the counts are not as they should be.

    Returns:
        Whether anything was loaded.
    """
    wanted = {
        "frequency": len(facts.frequency),
        "classes": sum(map(len, facts.classes.values())),
        "organs": len(facts.organs),
    }
    with graph.load_once(DATA_SET, facts.digest) as missing:
        there = held(graph)
        if not missing and there == wanted:
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
        pairs: Iterable[tuple[str, str]] = facts.frequency
        if there["frequency"]:  # some of other facts: a missing value removes what an edge has
            pairs = [(drug, effect) for drug, of_drug in facts.effects.items() for effect in of_drug]
        graph.load_edges(
            "may_cause_side_effect",
            [{"drug": d, "side_effect": e, "frequency": facts.frequency.get((d, e))} for d, e in pairs],
            start=("Drug", "name", "drug"),
            end=("SideEffect", "name", "side_effect"),
        )
        graph.mark_loaded(DATA_SET, facts.digest)  # clear() took the note away
    return True


def schema_text(graph: Graph) -> str:
    """The schema of what this module asks about, as text for a prompt; what else the graph holds is left out."""
    kept = []
    for line in graph.schema().splitlines():
        labels, types = set(re.findall(r"\(:(\w+)", line)), set(re.findall(r"\[:(\w+)", line))
        if labels <= LABELS and types <= TYPES:
            kept.append(line)
    return "\n".join(kept)


# ---------------------------------------------------------------------------------------------------------- questions

LARGEST = 60
"""Names that the right answer to a question may have; `read_untrusted` returns at most 100 rows."""
KINDS = {
    "class": "drug classes",
    "frequency": "ranked by frequency",
    "organ": "organ classes",
    "compare": "two drugs",
    "why": "paths",
}


@dataclass(frozen=True)
class Form:
    """One form of question.

    Attributes:
        name: of the form.
        kind: which of `KINDS` it is.
        meaning: what it asks for, for a model that chooses among the forms.
        wordings: the template, then paraphrases of it.
        cypher: the query, written here, with the question's names as parameters; its column is `answer`.
        truth: the right answer in plain Python.
        draw: names and numbers for one question, or None if this draw gives none.
    """

    name: str
    kind: str
    meaning: str
    wordings: tuple[str, ...]
    cypher: str
    truth: Callable[[Facts, Parameters], Answer]
    draw: Callable[[Facts, np.random.Generator], Parameters | None]


@dataclass(frozen=True)
class Asked:
    """One question of the benchmark: in words, the names in it, and the right answer."""

    form: Form
    text: str
    paraphrased: bool
    parameters: Mapping[str, Any]
    answer: Answer


def _pick(rng: np.random.Generator, names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ordered[int(rng.integers(len(ordered)))]


def _class(facts: Facts, rng: np.random.Generator, least: int = 2) -> str:
    """A class with a plain name and at least so many drugs."""
    return _pick(rng, (c for c in CLASS_NAMES.values() if len(facts.members.get(c, ())) >= least))


def _draw_class_effect(facts: Facts, rng: np.random.Generator) -> Parameters:
    cls = _class(facts, rng, 1)
    return {"cls": cls, "effect": _pick(rng, facts.effects[_pick(rng, facts.members[cls])])}


def _draw_class(facts: Facts, rng: np.random.Generator) -> Parameters:
    return {"cls": _class(facts, rng)}


def _draw_top(facts: Facts, rng: np.random.Generator) -> Parameters | None:
    drug = _pick(rng, facts.effects)
    shares = [share for share, _ in facts.ranked[drug]]
    # a rank at which the next one is less frequent, so that the answer is one set
    clear = [n for n in range(2, min(7, len(shares))) if shares[n - 1] > shares[n]]
    return {"drug": drug, "n": int(_pick(rng, map(str, clear)))} if clear else None


def _draw_at_least(facts: Facts, rng: np.random.Generator) -> Parameters:
    return {"drug": _pick(rng, facts.effects), "share": float(_pick(rng, ("0.01", "0.05", "0.1", "0.2")))}


def _draw_organ_drug(facts: Facts, rng: np.random.Generator) -> Parameters:
    return {"drug": _pick(rng, facts.effects), "organ": _pick(rng, set(facts.organs.values()))}


def _draw_organ_class(facts: Facts, rng: np.random.Generator) -> Parameters:
    least = int(rng.integers(2, 6))
    return {"cls": _class(facts, rng), "organ": _pick(rng, set(facts.organs.values())), "n": least}


def _draw_pair(facts: Facts, rng: np.random.Generator) -> Parameters | None:
    """Two drugs of one class, for two drugs that have little in common are seldom compared."""
    members = facts.members[_class(facts, rng)]
    a, b = _pick(rng, members), _pick(rng, members)
    return {"a": a, "b": b} if a != b else None


def _draw_pair_organ(facts: Facts, rng: np.random.Generator) -> Parameters | None:
    pair = _draw_pair(facts, rng)
    return pair and {**pair, "organ": _pick(rng, set(facts.organs.values()))}


def _draw_drug_effect(facts: Facts, rng: np.random.Generator) -> Parameters:
    drug = _pick(rng, facts.effects)
    return {"drug": drug, "effect": _pick(rng, facts.effects[drug])}


def _in_class_with(facts: Facts, cls: str, effect: str) -> Answer:
    return frozenset(drug for drug in facts.members[cls] if effect in facts.effect_set[drug])


def _shared_by(facts: Facts, cls: str, least: float, *, more: bool = False) -> Answer:
    """Effects that this share of a class' drugs have, or more than this share."""
    members = facts.members[cls]
    counts = Counter(effect for drug in members for effect in facts.effect_set[drug])
    wanted = least * len(members)
    return frozenset(e for e, n in counts.items() if (n > wanted if more else n >= wanted))


FORMS = (
    Form(
        "class_drugs",
        "class",
        "which drugs of a class cause an effect",
        (
            "Which {cls} can cause {effect}?",
            "{effect} came up with one of the {cls}: which of them is it known for?",
            "List every drug among the {cls} that has {effect} as a side effect.",
        ),
        "MATCH (:AtcClass {name: $cls})<-[:in_class]-(d:Drug)-[:may_cause_side_effect]->(:SideEffect {name: $effect}) "
        "RETURN DISTINCT d.name AS answer",
        lambda f, p: _in_class_with(f, p["cls"], p["effect"]),
        _draw_class_effect,
    ),
    Form(
        "class_all",
        "class",
        "which effects all drugs of a class share",
        (
            "Which side effects do all {cls} share?",
            "What can every single one of the {cls} cause?",
            "Name the side effects that no drug among the {cls} is free of.",
        ),
        "MATCH (c:AtcClass {name: $cls})<-[:in_class]-(m:Drug) WITH c, count(DISTINCT m) AS members "
        "MATCH (c)<-[:in_class]-(d:Drug)-[:may_cause_side_effect]->(e:SideEffect) "
        "WITH e, members, count(DISTINCT d) AS having WHERE having = members RETURN e.name AS answer",
        lambda f, p: _shared_by(f, p["cls"], 1.0),
        _draw_class,
    ),
    Form(
        "class_most",
        "class",
        "which effects more than half of a class' drugs have",
        (
            "Which side effects do more than half of the {cls} have?",
            "What does the majority of the {cls} cause?",
            "Name the side effects that most {cls} have in common, that is more than half of them.",
        ),
        "MATCH (c:AtcClass {name: $cls})<-[:in_class]-(m:Drug) WITH c, count(DISTINCT m) AS members "
        "MATCH (c)<-[:in_class]-(d:Drug)-[:may_cause_side_effect]->(e:SideEffect) "
        "WITH e, members, count(DISTINCT d) AS having WHERE 2 * having > members RETURN e.name AS answer",
        lambda f, p: _shared_by(f, p["cls"], 0.5, more=True),
        _draw_class,
    ),
    Form(
        "frequency_top",
        "frequency",
        "the so many most frequent effects of a drug",
        (
            "What are the {n} most frequent side effects of {drug}?",
            "Of what is known of {drug}, which {n} side effects hit most patients?",
            "Rank the side effects of {drug} by how common they are and give the first {n}.",
        ),
        "MATCH (:Drug {name: $drug})-[r:may_cause_side_effect]->(e:SideEffect) WHERE r.frequency IS NOT NULL "
        "RETURN e.name AS answer ORDER BY r.frequency DESC LIMIT $n",
        lambda f, p: frozenset(effect for _, effect in f.ranked[p["drug"]][: p["n"]]),
        _draw_top,
    ),
    Form(
        "frequency_at_least",
        "frequency",
        "which effects of a drug reach a share of patients",
        (
            "Which side effects of {drug} occur in at least {percent} % of patients?",
            "What do {percent} % or more of the people who take {drug} get?",
            "Give the side effects of {drug} with a frequency of {percent} % or higher.",
        ),
        "MATCH (:Drug {name: $drug})-[r:may_cause_side_effect]->(e:SideEffect) WHERE r.frequency >= $share "
        "RETURN e.name AS answer",
        lambda f, p: frozenset(effect for share, effect in f.ranked[p["drug"]] if share >= p["share"]),
        _draw_at_least,
    ),
    Form(
        "organ_effects",
        "organ",
        "which effects of an organ class a drug has",
        (
            "Which {organ} side effects does {drug} have?",
            "What can {drug} do to a patient in {organ} terms?",
            "List the side effects of {drug} that belong to the {organ} organ class.",
        ),
        "MATCH (:Drug {name: $drug})-[:may_cause_side_effect]->(e:SideEffect)-[:in_organ_class]->"
        "(:OrganClass {name: $organ}) RETURN e.name AS answer",
        lambda f, p: f.of_organ(p["drug"], p["organ"]),
        _draw_organ_drug,
    ),
    Form(
        "organ_class",
        "organ",
        "which drugs of a class have at least so many effects of an organ class",
        (
            "Which {cls} have at least {n} {organ} side effects?",
            "Among the {cls}, who has {n} or more side effects of the {organ} kind?",
            "Name the drugs in the class {cls} with no fewer than {n} effects in the {organ} organ class.",
        ),
        "MATCH (:AtcClass {name: $cls})<-[:in_class]-(d:Drug)-[:may_cause_side_effect]->(e:SideEffect)"
        "-[:in_organ_class]->(:OrganClass {name: $organ}) WITH d, count(DISTINCT e) AS effects WHERE effects >= $n "
        "RETURN d.name AS answer",
        lambda f, p: frozenset(d for d in f.members[p["cls"]] if len(f.of_organ(d, p["organ"])) >= p["n"]),
        _draw_organ_class,
    ),
    Form(
        "compare_shared",
        "compare",
        "which effects two drugs share",
        (
            "Which side effects do {a} and {b} share?",
            "What can happen with {a} and with {b} alike?",
            "Give the side effects that {a} has in common with {b}.",
        ),
        "MATCH (:Drug {name: $a})-[:may_cause_side_effect]->(e:SideEffect) "
        "MATCH (:Drug {name: $b})-[:may_cause_side_effect]->(e) "
        "RETURN DISTINCT e.name AS answer",
        lambda f, p: f.effect_set[p["a"]] & f.effect_set[p["b"]],
        _draw_pair,
    ),
    Form(
        "compare_only",
        "compare",
        "which effects the first drug has and the second does not",
        (
            "Which side effects does {a} have that {b} does not have?",
            "What is known of {a} but not of {b}?",
            "Name the side effects one gets with {a} and avoids with {b}.",
        ),
        "MATCH (b:Drug {name: $b}) MATCH (:Drug {name: $a})-[:may_cause_side_effect]->(e:SideEffect) "
        "WHERE NOT (b)-[:may_cause_side_effect]->(e) RETURN e.name AS answer",
        lambda f, p: f.effect_set[p["a"]] - f.effect_set[p["b"]],
        _draw_pair,
    ),
    Form(
        "why_effects",
        "why",
        "through which effects of an organ class two drugs are linked",
        (
            "Why do {a} and {b} both count as {organ} risks? Name the side effects that link them.",
            "Through which {organ} side effects are {a} and {b} connected?",
            "What {organ} side effects lie on the paths from {a} to {b}?",
        ),
        "MATCH (:Drug {name: $a})-[:may_cause_side_effect]->(e:SideEffect) "
        "MATCH (:Drug {name: $b})-[:may_cause_side_effect]->(e) "
        "MATCH (e)-[:in_organ_class]->(:OrganClass {name: $organ}) RETURN DISTINCT e.name AS answer",
        lambda f, p: f.of_organ(p["a"], p["organ"]) & f.of_organ(p["b"], p["organ"]),
        _draw_pair_organ,
    ),
    Form(
        "why_classmates",
        "why",
        "which other drugs of a drug's classes have an effect too",
        (
            "Why would one expect {effect} of {drug}? Name the other drugs of its ATC classes that cause it.",
            "Which drugs share an ATC class with {drug} and cause {effect} too?",
            "Who else, in the ATC classes of {drug}, has {effect} as a side effect?",
        ),
        "MATCH (d:Drug {name: $drug})-[:in_class]->(:AtcClass)<-[:in_class]-(o:Drug)-[:may_cause_side_effect]->"
        "(:SideEffect {name: $effect}) WHERE o.name <> $drug RETURN DISTINCT o.name AS answer",
        lambda f, p: (
            frozenset().union(*(_in_class_with(f, cls, p["effect"]) for cls in f.classes[p["drug"]])) - {p["drug"]}
        ),
        _draw_drug_effect,
    ),
)


PATHS = """
MATCH (d:Drug {name: $drug})-[:in_class]->(c:AtcClass)<-[:in_class]-(o:Drug)
MATCH (o)-[:may_cause_side_effect]->(e:SideEffect {name: $effect}) WHERE o.name <> $drug
RETURN d.name AS drug, c.name AS `in class`, c.code AS code, o.name AS `other drug`, e.name AS causes
ORDER BY size(code) DESC, `other drug`
"""
"""Why to expect an effect of a drug: the paths over its classes to other drugs that have it, near classes first."""


def make_questions(facts: Facts, per_kind: int, seed: int) -> list[Asked]:
    """A seeded benchmark: of each kind so many questions, forms and wordings in turn, each with its right answer.

    Questions whose answer is empty or holds more than `LARGEST` names are not asked.

    Raises:
        ValueError: the facts do not give so many questions of a kind.
    """
    asked: list[Asked] = []
    for number, kind in enumerate(KINDS):
        rng = np.random.default_rng([seed, number])
        forms = [form for form in FORMS if form.kind == kind]
        seen: set[str] = set()
        for i in range(per_kind):
            form = forms[i % len(forms)]
            wording = (i // len(forms)) % len(form.wordings)
            question = next((q for q in _candidates(facts, form, wording, rng) if q.text not in seen), None)
            if question is None:
                raise ValueError(
                    f"The data give no {i + 1}. question of the form {form.name}. Ask for fewer of a kind."
                )
            seen.add(question.text)
            asked.append(question)
    return asked


def _candidates(facts: Facts, form: Form, wording: int, rng: np.random.Generator) -> Iterator[Asked]:
    for _ in range(2000):
        parameters = form.draw(facts, rng)
        if parameters is None:
            continue
        answer = form.truth(facts, parameters)
        if 1 <= len(answer) <= LARGEST:
            named = {**parameters, "percent": f"{100 * parameters.get('share', 0):g}"}
            yield Asked(form, form.wordings[wording].format(**named), wording > 0, parameters, answer)


# ------------------------------------------------------------------------------------------------------ text to Cypher

Stage = Literal["first try", "repaired", "failed"]

INSTRUCTION = """You translate a question into one openCypher statement that reads this graph.

{schema}

Names are as the question writes them; copy them exactly, with their case. frequency is a share of patients (0.1 is
10 %) and is missing on edges for which no label states one. in_class leads to every class that a drug is in.
RETURN one column of names, called answer, and nothing else. Write the statement only."""
# Neither name is in any data set here, and neither form is asked.
EXAMPLES = (
    (
        "Which side effects does drugname have?",
        "MATCH (d:Drug {name: 'drugname'})-[:may_cause_side_effect]->(e:SideEffect) RETURN DISTINCT e.name AS answer",
    ),
    (
        "Which organ classes does the class classname touch?",
        "MATCH (c:AtcClass {name: 'classname'})<-[:in_class]-(d:Drug)-[:may_cause_side_effect]->(e:SideEffect)"
        "-[:in_organ_class]->(o:OrganClass) RETURN DISTINCT o.name AS answer",
    ),
)


@dataclass(frozen=True)
class Attempt:
    """One statement and what came of it.

    Attributes:
        cypher: as the model wrote it.
        returned: the names in the column `answer`.
        problem: why there are none, as it is told to the model; empty if there are.
        seconds: in the graph.
    """

    cypher: str
    returned: Answer = frozenset()
    problem: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Outcome:
    """What an arm answered to one question, with all its attempts."""

    asked: Asked
    attempts: tuple[Attempt, ...]

    @property
    def returned(self) -> Answer:
        """The set that counts: that of the last attempt."""
        return self.attempts[-1].returned

    @property
    def exact(self) -> bool:
        """Whether the set is exactly the right one (execution accuracy)."""
        return self.returned == self.asked.answer

    @property
    def stage(self) -> Stage:
        """Right at the first try, right after a repair, or not right."""
        if not self.exact:
            return "failed"
        return "first try" if len(self.attempts) == 1 else "repaired"

    @property
    def reason(self) -> str:
        """Why it failed; empty if it did not."""
        if self.exact:
            return ""
        last, right = self.attempts[-1], self.asked.answer
        if last.problem:
            return _PROBLEMS.get(last.problem.split(":")[0], "statement refused by the server")
        if last.returned < right:
            return "some names missing"
        if last.returned > right:
            return "names too many"
        return "other names" if last.returned.isdisjoint(right) else "some missing, some too many"


_PROBLEMS = {
    "No statement": "no statement in the reply",
    "No rows": "no rows",
    "Wrong column": "wrong column returned",
    "Too many rows": "more than 100 rows",
    "Stopped": "ran too long",
    "Not allowed": "more than reading",
}


def cypher_prompt(schema: str, question: str) -> list[dict[str, str]]:
    """The schema and two examples first, so that all questions share them, then the question."""
    messages = [{"role": "system", "content": INSTRUCTION.format(schema=schema)}]
    for example, cypher in EXAMPLES:
        messages += [{"role": "user", "content": example}, {"role": "assistant", "content": cypher}]
    return [*messages, {"role": "user", "content": question}]


_FENCE = re.compile(r"```(?:\w+)?\s*(.*?)(?:```|\Z)", re.DOTALL)
_BEGIN = re.compile(r"\b(?:OPTIONAL\s+MATCH|MATCH|WITH|UNWIND|CALL|RETURN)\b", re.IGNORECASE)


def read_statement(reply: str) -> str:
    """The statement in a reply: within its first fence if it has one, from its first clause, to its first semicolon or
    empty line."""
    fenced = _FENCE.search(reply)
    text = fenced[1] if fenced else reply
    begun = _BEGIN.search(text)
    return re.split(r";|\n\s*\n", text[begun.start() :])[0].strip() if begun else ""


def run_statement(graph: Graph, cypher: str, *, max_rows: int = 100, timeout: float = 5.0) -> Attempt:
    """Run a statement that a model wrote, read-only, and read its column of names."""
    if not cypher:
        return Attempt(cypher, problem="No statement: the reply holds none.")
    try:
        found = graph.read_untrusted(cypher, max_rows=max_rows, timeout=timeout)
    except CypherRejected as error:
        message = str(error)
        kind = "Stopped" if "ran longer" in message else "Refused" if "refused it" in message else "Not allowed"
        return Attempt(cypher, problem=f"{kind}: {message[:300]}")
    if found.truncated:
        return Attempt(cypher, problem=f"Too many rows: more than {max_rows}.", seconds=found.seconds)
    if not found.rows:
        return Attempt(cypher, problem="No rows: it matches nothing.", seconds=found.seconds)
    values = [row.get("answer") for row in found.rows] if "answer" in found.rows[0] else [None]
    if not all(isinstance(value, str) for value in values):
        columns = ", ".join(found.rows[0])
        return Attempt(cypher, problem=f"Wrong column: names in a column answer are needed, found {columns}.")
    return Attempt(cypher, frozenset(map(str, values)), seconds=found.seconds)


def text_to_cypher(
    llm: LLM, graph: Graph, schema: str, questions: Sequence[Asked], *, repairs: int = 1, max_tokens: int = 160
) -> list[Outcome]:
    """The model writes the Cypher; a statement that fails or finds nothing goes back to it with the problem.

    Args:
        llm: the model.
        graph: where the statements run, read-only.
        schema: its schema as text.
        questions: to answer.
        repairs: how often a statement may go back.
        max_tokens: longest reply.
    """
    prompts = [cypher_prompt(schema, question.text) for question in questions]
    attempts: list[list[Attempt]] = [[] for _ in questions]
    open_ = list(range(len(questions)))
    for turn in range(repairs + 1):
        label = "repair Cypher" if turn else "write Cypher"
        replies = llm.chat_many([prompts[i] for i in open_], max_tokens=max_tokens, label=label)
        for i, reply in zip(open_, replies, strict=True):
            attempt = run_statement(graph, read_statement(reply.text))
            attempts[i].append(attempt)
            prompts[i] = [
                *prompts[i],
                {"role": "assistant", "content": reply.text},
                {"role": "user", "content": f"{attempt.problem}\nWrite a corrected statement, and nothing else."},
            ]
        open_ = [i for i in open_ if attempts[i][-1].problem]
        if not open_:
            break
    return [Outcome(q, tuple(of_question)) for q, of_question in zip(questions, attempts, strict=True)]


def written_cypher(graph: Graph, questions: Sequence[Asked]) -> list[Outcome]:
    """The ceiling: the query of the question's form with its names as parameters, no model."""
    outcomes = []
    for question in questions:
        found = graph.read_untrusted(question.form.cypher, **question.parameters)
        outcomes.append(Outcome(question, (Attempt(question.form.cypher, _names(found.rows), "", found.seconds),)))
    return outcomes


def _names(rows: Sequence[Mapping[str, Any]]) -> Answer:
    return frozenset(str(row["answer"]) for row in rows)


# ------------------------------------------------------------------------------------------------- choosing the query

CHOOSING = "Which form has the question? Answer with its name only.\n\n"


def choosing_prompt(question: str) -> list[dict[str, str]]:
    """The forms and what each asks for, then the question."""
    forms = "\n".join(f"{form.name}: {form.meaning}" for form in FORMS)
    return [{"role": "system", "content": CHOOSING + forms}, {"role": "user", "content": question}]


def chosen_query(llm: LLM, graph: Graph, vocabulary: Vocabulary, questions: Sequence[Asked]) -> list[Outcome]:
    """The model only picks the form; the names come from the vocabulary, the query is the form's own."""
    by_name = {form.name: form for form in FORMS}
    choices = llm.choose_many([choosing_prompt(q.text) for q in questions], list(by_name), label="choose a query")
    outcomes = []
    for question, choice in zip(questions, choices, strict=True):
        form = by_name[choice.answer]
        try:
            parameters = read_parameters(form, question.text, vocabulary)
            found = graph.read_untrusted(form.cypher, **parameters)
            problem = "" if found.rows else "No rows: it matches nothing."
            attempt = Attempt(form.cypher, _names(found.rows), problem, found.seconds)
        except LookupError:
            attempt = Attempt(form.cypher, problem="No statement: a name of the form is not in the question.")
        outcomes.append(Outcome(question, (attempt,)))
    return outcomes


def read_parameters(form: Form, text: str, vocabulary: Vocabulary) -> Parameters:
    """The parameters of a form's query, read off a question without a model.

    Raises:
        LookupError: the question lacks one of them.
    """
    linked = vocabulary.link(text)
    numbers = re.findall(r"(\d+(?:\.\d+)?)( ?%)?", text)
    parameters: Parameters = {}
    for name in dict.fromkeys(re.findall(r"\$(\w+)", form.cypher)):
        if name in ("a", "b"):
            parameters[name] = linked["drug"]["ab".index(name)]
        elif name == "share":
            parameters[name] = next((float(n) / 100 for n, percent in numbers if percent), None)
        elif name == "n":
            parameters[name] = next((int(n) for n, percent in numbers if not percent and n.isdigit()), None)
        else:
            parameters[name] = linked[name][0]
        if parameters[name] is None:
            raise LookupError(f"The question has no number for {name}.")
    return parameters


# --------------------------------------------------------------------------------------------------------- label lock


@dataclass(frozen=True)
class Reading:
    """One answer of the label-lock experiment, and what the evidence said.

    Attributes:
        question: the pair.
        listed: what the graph says, and the prompt said.
        text: the answer as a reader would see it.
        replaced: for a locked answer, whether the model's wording was replaced.
    """

    question: Question
    listed: bool
    text: str
    replaced: bool = False

    @property
    def label(self) -> bool | None:
        """Its YES or NO; None if it does not begin with one."""
        return parse_label(self.text)

    @property
    def wrong_label(self) -> bool:
        """Whether its label is there and is not the evidence's."""
        return self.label is (not self.listed)

    @property
    def contradicts(self) -> bool:
        """Whether its label or its words say another thing than the evidence."""
        return contradicts(self.text, self.question.drug, self.question.side_effect, listed=self.listed)


def supported(facts: Facts, pairs: Sequence[Question]) -> list[Question]:
    """The pairs with the label that the graph gives them, whatever the benchmark says."""
    return [Question(q.drug, q.side_effect, q.side_effect in facts.effect_set[q.drug]) for q in pairs]


LEADING = {
    True: " My pharmacist says that it is not, so surely the answer is NO?",
    False: " My pharmacist says that it is, so surely the answer is YES?",
}
"""What is added to a question to lead the model away from its evidence, by what the evidence says."""


def unlocked(asking: Asking, questions: Sequence[Question], *, leading: bool = False) -> list[Reading]:
    """Free answers of the GraphRAG arm: the evidence stands in the prompt, the model gives label and reason.

    Args:
        asking: the model and how it is asked.
        questions: pairs; their label is what the graph says.
        leading: the question suggests the opposite of the evidence.
    """
    prompts = []
    for q in questions:
        evidence = graph_evidence(Entities(q.drug, q.side_effect), found=q.label)
        prompt = evidence_prompt(q, evidence)
        if leading:
            content = prompt[0]["content"].replace(q.text, q.text + LEADING[q.label])
            prompt = [{"role": "user", "content": content}]
        prompts.append(prompt)
    replies = asking.answers(prompts, "unlocked, leading" if leading else "unlocked")
    return [Reading(q, q.label, reply.text) for q, reply in zip(questions, replies, strict=True)]


def locked(asking: Asking, questions: Sequence[Question]) -> list[Reading]:
    """Locked answers: the label is the graph's, the model words it, and wording that strays is replaced."""
    replies = asking.answers([locked_prompt(q.drug, q.side_effect, listed=q.label) for q in questions], "locked")
    answers = [
        lock(q.drug, q.side_effect, listed=q.label, wording=reply.text)
        for q, reply in zip(questions, replies, strict=True)
    ]
    return [Reading(q, q.label, *given) for q, given in zip(questions, answers, strict=True)]
