"""Questions about drugs with known answers: written from the gold graph, and MedQuAD's with their reference answers.

The paper's 100 expert questions are not released, and its Table II is headed MedQuAD.
"""

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal, TypeAlias, TypeVar

import numpy as np
import yaml

from evaluation.answers import PlainUnit
from papers.drug_interactions.corpora import CorpusError
from papers.drug_interactions.graph import KnowledgeGraph
from resources.settings import DATA

Parameters = Mapping[str, str]
Role = Literal["drug", "effect", "yes or no", "choice"]
Truth: TypeAlias = Callable[[KnowledgeGraph, Parameters], frozenset[str]]
Draw: TypeAlias = "Callable[[Source], dict[str, str]]"


@dataclass(frozen=True)
class Form:
    """One form of question, as in `data/interaction_questions.yml`: `role` is what its answer consists of.

    `truth` gives the right names, and for a yes any at all; `draw` the names of one question.
    """

    name: str
    kind: str
    role: Role
    wordings: Sequence[str]
    cypher: str
    truth: Truth
    draw: Draw


# two letters at least, and nothing that a sentence or a Cypher string could take for its own
_PLAIN = re.compile(r"[a-z][a-z-]+(?: [a-z-]+){0,3}")
_SYLLABLES = (
    "bra",
    "cel",
    "dor",
    "fen",
    "gal",
    "lum",
    "mir",
    "nov",
    "pra",
    "sel",
    "tov",
    "vel",
    "zan",
)
_ENDINGS = ("livir", "matol", "ruxine", "sopril", "tezone", "vonide")


@dataclass(frozen=True)
class Source:
    """What questions are drawn from: a graph, the brand names of its drugs that it lacks, and chance."""

    graph: KnowledgeGraph
    brands: Mapping[str, str]
    rng: np.random.Generator

    def pick(self, names: Iterable[str]) -> str:
        """One of the names that can stand in a question without being misread; `NoName` if there is none."""
        ordered = sorted(name for name in set(names) if _PLAIN.fullmatch(name))
        if not ordered:
            raise NoName
        return ordered[int(self.rng.integers(len(ordered)))]

    @property
    def effects(self) -> set[str]:
        """All side effects."""
        return set().union(*self.graph.effects.values())


class NoName(Exception):
    """No name, or the same one twice: this draw gives no question."""


def _different(**names: str) -> dict[str, str]:
    if len(set(names.values())) < len(names):
        raise NoName
    return names


def _pair(source: Source) -> dict[str, str]:
    """Two drugs that interact, the second of which causes something."""
    b = source.pick(name for name in source.graph.effects if source.graph.partners.get(name))
    return {"a": source.pick(source.graph.partners[b]), "b": b}


def _culprit(source: Source) -> dict[str, str]:
    pair = _pair(source)
    return {"a": pair["a"], "effect": source.pick(source.graph.effects[pair["b"]])}


def _common(source: Source) -> dict[str, str]:
    """Two drugs that both interact with a third one."""
    around = source.graph.partners[source.pick(source.graph.partners)]
    return _different(a=source.pick(around), b=source.pick(around))


def _added(source: Source) -> dict[str, str]:
    """A drug to be added to two others, with one of which at least it interacts."""
    c = source.pick(source.graph.partners)
    try:
        a = source.pick(source.graph.partners[c])
    except NoName:
        a = c
    names = _different(a=a, b=source.pick(source.graph.partners), c=c)
    return names if source.rng.random() < 0.5 else names | {"a": names["b"], "b": a}


def _checked_pair(source: Source) -> dict[str, str]:
    """Two drugs, half of the time such as interact with each other."""
    a = source.pick(source.graph.partners)
    return _different(
        a=a,
        b=source.pick(
            source.graph.partners[a] if source.rng.random() < 0.5 else source.graph.partners
        ),
    )


def _checked_effect(source: Source) -> dict[str, str]:
    """A drug that has effects and an effect, half of the time one of them."""
    a = source.pick(source.graph.effects)
    return {
        "a": a,
        "effect": source.pick(
            source.graph.effects[a] if source.rng.random() < 0.5 else source.effects
        ),
    }


def _invented(source: Source) -> dict[str, str]:
    """The name of a drug that there is not."""
    name = "".join(str(source.rng.choice(of)) for of in (_SYLLABLES, _SYLLABLES, _ENDINGS))
    if name in source.graph.nodes:
        raise NoName
    return {"a": name}


def _partners(graph: KnowledgeGraph, names: Parameters, key: str = "a") -> frozenset[str]:
    return frozenset(graph.partners.get(names[key], ()))


def _effects(graph: KnowledgeGraph, names: Parameters, key: str = "a") -> frozenset[str]:
    return frozenset(graph.effects.get(names[key], ()))


def _causing(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return frozenset(drug for drug, effects in graph.effects.items() if names["effect"] in effects)


def _combined(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return _effects(graph, names, "b") if names["b"] in _partners(graph, names) else frozenset()


_RULES: dict[str, tuple[Truth, Draw]] = {
    "partners": (_partners, lambda source: {"a": source.pick(source.graph.partners)}),
    "effects": (_effects, lambda source: {"a": source.pick(source.graph.effects)}),
    "causes": (_causing, lambda source: {"effect": source.pick(source.effects)}),
    "combined": (_combined, _pair),
    "chain": (
        lambda g, n: frozenset(g.two_hops(n["a"])),
        lambda source: {"a": source.pick(source.graph.partners)},
    ),
    "culprit": (lambda graph, names: _partners(graph, names) & _causing(graph, names), _culprit),
    "common": (
        lambda graph, names: _partners(graph, names) & _partners(graph, names, "b"),
        _common,
    ),
    "added": (lambda graph, names: _partners(graph, names, "c") & {names["a"], names["b"]}, _added),
    "union": (
        lambda graph, names: frozenset().union(*(_effects(graph, names, key) for key in "abc")),
        lambda source: _different(**{key: source.pick(source.graph.effects) for key in "abc"}),
    ),
    "interact": (lambda graph, names: _partners(graph, names) & {names["b"]}, _checked_pair),
    "cause": (lambda graph, names: _effects(graph, names) & {names["effect"]}, _checked_effect),
}
_BRANDED: dict[str, Draw] = {
    "partners": lambda source: {
        "a": source.pick(b for b, of in source.brands.items() if of in source.graph.partners)
    },
    "effects": lambda source: {
        "a": source.pick(b for b, of in source.brands.items() if of in source.graph.effects)
    },
}


_WRITTEN = yaml.safe_load((DATA / "interaction_questions.yml").read_text(encoding="utf-8"))
FORMS = (
    *(
        Form(name, **_WRITTEN[name], truth=truth, draw=draw)
        for name, (truth, draw) in _RULES.items()
    ),
    *(
        Form(
            f"{kind.split()[0]}_{name}",
            **_WRITTEN[name] | {"kind": kind},
            truth=_RULES[name][0],
            draw=draw,
        )
        for kind, draws in (
            ("brand names", _BRANDED),
            ("unknown names", dict.fromkeys(_BRANDED, _invented)),
        )
        for name, draw in draws.items()
    ),
)
"""All forms, in the order in which questions are made."""

Answer = frozenset[str]
Grouped = TypeVar("Grouped")

MEDQUAD = "drug_interactions/medquad_answers.zip"

YES: Answer = frozenset({"yes"})
NO: Answer = frozenset({"no"})
NOT_KNOWN: Answer = frozenset({"not known"})
LARGEST = 10
"""Names that a right answer may have: as many facts as are retrieved (Methods, C)."""


@dataclass(frozen=True)
class Asked:
    """One question: the names in it as it writes them and as the graph has them (`meant`), and its right answer.

    The answer is a set of names, or one of `YES`, `NO`, `NOT_KNOWN`.
    """

    form: Form
    text: str
    parameters: Mapping[str, str]
    answer: Answer
    meant: Mapping[str, str]

    @property
    def cluster(self) -> str:
        """The first name that is asked about, a drug mostly: questions about the same one belong together."""
        return next(iter(self.meant.values()))

    @property
    def unit(self) -> str:
        """Its form and its words."""
        return f"{self.form.name}: {self.text}"

    @property
    def gold(self) -> str:
        """The right answer in words, for a judge and a reader."""
        if self.answer == NOT_KNOWN:
            return "Not known; there is no such drug."
        words = ", ".join(sorted(self.answer))
        return f"{words[0].upper()}{words[1:]}."

    @property
    def strata(self) -> Mapping[str, str]:
        """The kind of question, and its form."""
        return {"kind": self.form.kind, "form": self.form.name}


def answer_of(form: Form, parameters: Parameters, names: frozenset[str]) -> Answer:
    """An answer from the names that a query or a reading of facts gave: a yes or no, the names, or not known.

    It is a yes if a name that the question holds is among them: a list of other side effects is none.
    """
    if form.role == "yes or no":
        return YES if names.intersection(parameters.values()) else NO
    return names or NOT_KNOWN


def make_questions(
    graph: KnowledgeGraph, brands: Mapping[str, str], per_form: int, seed: int
) -> list[Asked]:
    """A seeded benchmark: of each form so many questions, its wordings in turn, each with its right answer.

    A small graph may give fewer questions of a form. `brands` are names that the graph lacks, with their drugs.
    """
    asked: list[Asked] = []
    for number, form in enumerate(FORMS):
        source = Source(graph, brands, np.random.default_rng([seed, number]))
        seen: set[tuple[str, ...]] = set()
        for question in _drawn(form, source):
            key = tuple(question.parameters.values())
            alike = sum(a.form is form and a.answer == question.answer for a in asked)
            # of a yes or no as many that are right with yes as with no
            if key in seen or (form.role == "yes or no" and alike >= (per_form + 1) // 2):
                continue
            wording = form.wordings[(number + len(seen)) % len(form.wordings)]
            seen.add(key)
            asked.append(replace(question, text=wording.format(**question.parameters)))
            if len(seen) == per_form:
                break
    return asked


def _drawn(form: Form, source: Source) -> Iterator[Asked]:
    for _ in range(400):
        try:
            names = form.draw(source)
        except NoName:
            continue
        meant = {
            key: source.brands.get(name, name) if form.kind == "brand names" else name
            for key, name in names.items()
        }
        truth = form.truth(source.graph, meant)
        known = truth or form.kind == "unknown names" or form.role == "yes or no"
        if known and len(truth) <= LARGEST:
            yield Asked(form, "", names, answer_of(form, meant, truth), meant)


def _in_turn(groups: Mapping[str, Sequence[Grouped]]) -> list[Grouped]:
    """One of each group in turn."""
    return [one for turn in zip_longest(*groups.values()) for one in turn if one is not None]


def spread(questions: Sequence[Asked], n: int) -> list[Asked]:
    """So many of the questions, each form in turn, in the order in which they were made."""
    of_form: dict[str, list[int]] = {}
    for i, question in enumerate(questions):
        of_form.setdefault(question.form.name, []).append(i)
    return [questions[i] for i in sorted(_in_turn(of_form)[:n])]


_ROW = re.compile(
    r"Question: (?P<question>.*?)\s*\nURL: (?P<url>\S+)\s*\nAnswer: (?P<answer>.*?)\)?\s*",
    re.DOTALL,
)
_SORTS = {
    "side effects": r"side effects",
    "precautions, interactions": r"precautions|interactions|important warning|dietary",
    "brand names": r"brand names",
    "use and dose": r"prescribed|be used|dosage|forget a dose|storage|overdose",
    "other": "",
}


def read_medquad(path: Path) -> list[PlainUnit]:
    """MedQuAD's questions about drugs that have an answer, each once; the cluster is the address of the drug's page.

    The drug part of the collection is released without its answers, for copyright. Of its questions those have one
    that were among the judged answers for TREC LiveQA 2017; they are told by the address of their page.

    Raises CorpusError: the archive is not as released.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = (
                n for n in archive.namelist() if n.endswith(".csv") and not n.startswith("__MACOSX")
            )
            text = archive.read(name).decode("utf-8", errors="replace")
        rows = [row["Answer"] for row in csv.DictReader(io.StringIO(text, newline=""))]
    except (zipfile.BadZipFile, ValueError, KeyError) as error:
        raise CorpusError(
            f"{path.name} is not MedQuAD's archive of judged answers: {error}"
        ) from error
    found: dict[str, PlainUnit] = {}
    for number, row in enumerate(rows, start=1):
        match = _ROW.fullmatch(row.strip())
        if match is None:
            raise CorpusError(
                f"{path.name}, row {number}: needed question, URL and answer, found {row[:60]!r}."
            )
        if "/druginfo/" in match["url"] and match["answer"]:
            question = " ".join(match["question"].split()).replace(" ?", "?")
            sort = next(sort for sort, words in _SORTS.items() if re.search(words, question))
            answer = " ".join(match["answer"].split())
            found.setdefault(
                question, PlainUnit(question, match["url"], question, answer, {"sort": sort})
            )
    return list(found.values())


def sample_references(references: Sequence[PlainUnit], n: int, seed: int) -> list[PlainUnit]:
    """So many of them by chance, each sort in turn."""
    of_sort: dict[str, list[PlainUnit]] = {sort: [] for sort in _SORTS}
    for i in np.random.default_rng(seed).permutation(len(references)):
        of_sort[references[i].strata["sort"]].append(references[i])
    return _in_turn(of_sort)[:n]
