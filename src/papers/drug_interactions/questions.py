"""Questions about drugs with known answers: written from the gold graph, and MedQuAD's.

The paper's 100 expert questions are not released, and its Table II is headed MedQuAD.
"""

import csv
import io
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, TypeVar

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
    """One form of question, as in `data/interaction_questions.yml`.

    Attributes:
        name: Its key in the file, after "brand" or "unknown" if it asks for such names.
        kind: What it is counted with.
        role: What its answer consists of.
        wordings: Its texts, with the keys of names in braces.
        cypher: The right query.
        truth: Gives the right names, and for a yes any at all.
        draw: Gives the names of one question.
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
    """What questions are drawn from.

    Attributes:
        graph: The graph that has the answers.
        brands: Names that the graph lacks, with the drugs that they stand for.
        rng: Draws the names.
    """

    graph: KnowledgeGraph
    brands: Mapping[str, str]
    rng: np.random.Generator

    def pick(self, names: Iterable[str]) -> str:
        """Draw one of the names that a question can hold without being misread.

        Raises:
            NoName: If there is none.
        """
        ordered = sorted(name for name in set(names) if _PLAIN.fullmatch(name))
        if not ordered:
            raise NoName
        position = int(self.rng.integers(len(ordered)))
        return ordered[position]

    def is_heads(self) -> bool:
        """Toss a coin."""
        return bool(self.rng.random() < 0.5)

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


def _draw_interacting(source: Source) -> dict[str, str]:
    """Draw a drug that interacts with another."""
    return {"a": source.pick(source.graph.partners)}


def _draw_causing(source: Source) -> dict[str, str]:
    """Draw a drug that has side effects."""
    return {"a": source.pick(source.graph.effects)}


def _draw_effect(source: Source) -> dict[str, str]:
    """Draw a side effect."""
    return {"effect": source.pick(source.effects)}


def _draw_pair(source: Source) -> dict[str, str]:
    """Draw two drugs that interact, the second of which causes something."""
    graph = source.graph
    second = source.pick(name for name in graph.effects if graph.partners.get(name))
    first = source.pick(graph.partners[second])
    return {"a": first, "b": second}


def _draw_culprit(source: Source) -> dict[str, str]:
    """Draw a drug, and a side effect of another that it interacts with."""
    pair = _draw_pair(source)
    effect = source.pick(source.graph.effects[pair["b"]])
    return {"a": pair["a"], "effect": effect}


def _draw_common(source: Source) -> dict[str, str]:
    """Draw two drugs that both interact with a third one."""
    third = source.pick(source.graph.partners)
    around = source.graph.partners[third]
    first = source.pick(around)
    return _different(a=first, b=source.pick(around))


def _draw_added(source: Source) -> dict[str, str]:
    """Draw a drug to be added to two others, with one of which at least it interacts."""
    added = source.pick(source.graph.partners)
    try:
        partner = source.pick(source.graph.partners[added])
    except NoName:
        partner = added
    names = _different(a=partner, b=source.pick(source.graph.partners), c=added)
    if source.is_heads():
        return names
    return names | {"a": names["b"], "b": partner}


def _draw_three(source: Source) -> dict[str, str]:
    """Draw three drugs that have side effects."""
    return _different(**{key: source.pick(source.graph.effects) for key in "abc"})


def _draw_pair_to_check(source: Source) -> dict[str, str]:
    """Draw two drugs, half of the time such as interact with each other."""
    partners = source.graph.partners
    first = source.pick(partners)
    others = partners[first] if source.is_heads() else partners
    return _different(a=first, b=source.pick(others))


def _draw_effect_to_check(source: Source) -> dict[str, str]:
    """Draw a drug that has effects and an effect, half of the time one of them."""
    drug = source.pick(source.graph.effects)
    effects = source.graph.effects[drug] if source.is_heads() else source.effects
    return {"a": drug, "effect": source.pick(effects)}


def _draw_brand_interacting(source: Source) -> dict[str, str]:
    """Draw the brand name of a drug that interacts with another."""
    return {"a": _pick_brand(source, source.graph.partners)}


def _draw_brand_causing(source: Source) -> dict[str, str]:
    """Draw the brand name of a drug that has side effects."""
    return {"a": _pick_brand(source, source.graph.effects)}


def _pick_brand(source: Source, drugs: Container[str]) -> str:
    return source.pick(brand for brand, drug in source.brands.items() if drug in drugs)


def _invent(source: Source) -> dict[str, str]:
    """Make the name of a drug that there is not."""
    parts = [str(source.rng.choice(part)) for part in (_SYLLABLES, _SYLLABLES, _ENDINGS)]
    name = "".join(parts)
    if name in source.graph.nodes:
        raise NoName
    return {"a": name}


def _partners(graph: KnowledgeGraph, names: Parameters, key: str = "a") -> frozenset[str]:
    return frozenset(graph.partners.get(names[key], ()))


def _effects(graph: KnowledgeGraph, names: Parameters, key: str = "a") -> frozenset[str]:
    return frozenset(graph.effects.get(names[key], ()))


def _causing(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return frozenset(drug for drug, effects in graph.effects.items() if names["effect"] in effects)


def _combined_effects(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return _effects(graph, names, "b") if names["b"] in _partners(graph, names) else frozenset()


def _effects_of_partners(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return frozenset(graph.two_hops(names["a"]))


def _culprits(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return _partners(graph, names) & _causing(graph, names)


def _common_partners(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return _partners(graph, names) & _partners(graph, names, "b")


def _partners_of_added(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return _partners(graph, names, "c") & {names["a"], names["b"]}


def _effects_of_three(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return frozenset().union(*(_effects(graph, names, key) for key in "abc"))


def _interacting(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return _partners(graph, names) & {names["b"]}


def _caused(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return _effects(graph, names) & {names["effect"]}


class _Rule(NamedTuple):
    """How a form draws its names, and which answer is right."""

    truth: Truth
    draw: Draw


_RULES: dict[str, _Rule] = {
    "partners": _Rule(_partners, _draw_interacting),
    "effects": _Rule(_effects, _draw_causing),
    "causes": _Rule(_causing, _draw_effect),
    "combined": _Rule(_combined_effects, _draw_pair),
    "chain": _Rule(_effects_of_partners, _draw_interacting),
    "culprit": _Rule(_culprits, _draw_culprit),
    "common": _Rule(_common_partners, _draw_common),
    "added": _Rule(_partners_of_added, _draw_added),
    "union": _Rule(_effects_of_three, _draw_three),
    "interact": _Rule(_interacting, _draw_pair_to_check),
    "cause": _Rule(_caused, _draw_effect_to_check),
}
_BRANDED: dict[str, Draw] = {"partners": _draw_brand_interacting, "effects": _draw_brand_causing}
_UNKNOWN: dict[str, Draw] = {"partners": _invent, "effects": _invent}

_WRITTEN = yaml.safe_load((DATA / "interaction_questions.yml").read_text(encoding="utf-8"))


def _make_forms() -> Iterator[Form]:
    for name, rule in _RULES.items():
        yield Form(name, **_WRITTEN[name], truth=rule.truth, draw=rule.draw)
    for kind, draws in (("brand names", _BRANDED), ("unknown names", _UNKNOWN)):
        prefix, _ = kind.split()
        for name, draw in draws.items():
            written = _WRITTEN[name] | {"kind": kind}
            yield Form(f"{prefix}_{name}", **written, truth=_RULES[name].truth, draw=draw)


FORMS = tuple(_make_forms())
"""All forms, in the order in which questions are made."""

Answer = frozenset[str]
Grouped = TypeVar("Grouped")

MEDQUAD = "drug_interactions/medquad_answers.zip"

YES: Answer = frozenset({"yes"})
NO: Answer = frozenset({"no"})
NOT_KNOWN: Answer = frozenset({"not known"})
MAX_NAMES = 10
"""Names that a right answer may have: as many facts as are retrieved (Methods, C)."""


@dataclass(frozen=True)
class Asked:
    """One question.

    Attributes:
        form: Its form.
        text: Its words.
        parameters: The names in it as it writes them.
        answer: The right answer: a set of names, or one of `YES`, `NO`, `NOT_KNOWN`.
        meant: The names as the graph has them.
    """

    form: Form
    text: str
    parameters: Mapping[str, str]
    answer: Answer
    meant: Mapping[str, str]

    @property
    def cluster(self) -> str:
        """The first name that is asked about: questions about the same one belong together."""
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
    """Return the answer from the names that a query or a reading of facts gave.

    It is a yes if a name that the question holds is among them: a list of other side effects is
    none.

    Returns:
        A yes or no, the names, or not known.
    """
    if form.role == "yes or no":
        return YES if names.intersection(parameters.values()) else NO
    return names or NOT_KNOWN


def make_questions(
    graph: KnowledgeGraph, brands: Mapping[str, str], per_form: int, seed: int
) -> list[Asked]:
    """Make a seeded benchmark with right answers.

    Args:
        graph: The graph that has the answers. A small one may give fewer questions of a form.
        brands: Names that the graph lacks, with their drugs.
        per_form: Questions of each form, which has its wordings in turn.
        seed: Seed of the names.
    """
    questions: list[Asked] = []
    for number, form in enumerate(FORMS):
        source = Source(graph, brands, np.random.default_rng([seed, number]))
        questions += _questions_of_form(form, source, per_form, first_wording=number)
    return questions


def _questions_of_form(
    form: Form, source: Source, per_form: int, *, first_wording: int
) -> list[Asked]:
    questions: list[Asked] = []
    used_names: set[tuple[str, ...]] = set()
    n_with_answer: Counter[Answer] = Counter()
    is_yes_or_no = form.role == "yes or no"
    max_alike = (per_form + 1) // 2
    for question in _draw_questions(form, source):
        names = tuple(question.parameters.values())
        # of a yes or no as many that are right with yes as with no
        enough_alike = is_yes_or_no and n_with_answer[question.answer] >= max_alike
        if names in used_names or enough_alike:
            continue
        used_names.add(names)
        n_with_answer[question.answer] += 1
        wording = form.wordings[(first_wording + len(questions)) % len(form.wordings)]
        questions.append(replace(question, text=wording.format(**question.parameters)))
        if len(questions) == per_form:
            break
    return questions


MAX_DRAWS = 400
"""Draws of names for the questions of one form."""


def _draw_questions(form: Form, source: Source) -> Iterator[Asked]:
    """Yield questions without their words, whose answers are known and not too long."""
    may_be_empty = form.kind == "unknown names" or form.role == "yes or no"
    for _ in range(MAX_DRAWS):
        try:
            names = form.draw(source)
        except NoName:
            continue
        meant = names
        if form.kind == "brand names":
            meant = {key: source.brands.get(name, name) for key, name in names.items()}
        truth = form.truth(source.graph, meant)
        is_known = truth or may_be_empty
        if is_known and len(truth) <= MAX_NAMES:
            yield Asked(form, "", names, answer_of(form, meant, truth), meant)


def _in_turn(groups: Mapping[str, Sequence[Grouped]]) -> list[Grouped]:
    """Return one of each group in turn."""
    items: list[Grouped] = []
    for turn in zip_longest(*groups.values()):
        items += [item for item in turn if item is not None]
    return items


@dataclass(frozen=True)
class FollowUp:
    """A question that cannot be understood without the one before it (Methods, D).

    Attributes:
        first: The question before.
        question: The follow-up, such as "What about warfarin?".
    """

    first: Asked
    question: Asked


_FOLLOW_UPS: dict[str, list[str]] = _WRITTEN["follow_ups"]
"""Wordings of follow-ups by the form of their first question."""


def follow_up_questions(
    graph: KnowledgeGraph, questions: Iterable[Asked], n: int, seed: int
) -> list[FollowUp]:
    """Write follow-ups of questions, with right answers: the same form, other names.

    Args:
        graph: The graph that has the answers.
        questions: The questions before; those of `_FOLLOW_UPS` are taken, each form in turn.
        n: Number of follow-ups.
        seed: Seed of the names.
    """
    firsts = [question for question in questions if question.form.name in _FOLLOW_UPS]
    source = Source(graph, {}, np.random.default_rng(seed))
    follow_ups: list[FollowUp] = []
    used_texts: set[str] = set()
    for first in spread_questions(firsts, n):
        wordings = _FOLLOW_UPS[first.form.name]
        wording = wordings[len(follow_ups) % len(wordings)]
        for question in _draw_follow_ups(first, wording, source):
            if question.text not in used_texts:
                used_texts.add(question.text)
                follow_ups.append(FollowUp(first, question))
                break
    return follow_ups


def _draw_follow_ups(first: Asked, wording: str, source: Source) -> Iterator[Asked]:
    """Yield the same form with other names."""
    for _ in range(MAX_DRAWS):
        try:
            names = _next_names(first, source)
        except NoName:
            continue
        truth = first.form.truth(source.graph, names)
        if names != first.parameters and _is_askable(first.form, names, truth):
            answer = answer_of(first.form, names, truth)
            yield Asked(first.form, wording.format(**names), names, answer, names)


def _next_names(first: Asked, source: Source) -> dict[str, str]:
    """Draw the names of a follow-up; of a pair to check the first one stays."""
    if first.form.role != "yes or no":
        return first.form.draw(source)
    drug = first.parameters["a"]
    partners = source.graph.partners
    pool = partners.get(drug, ()) if source.is_heads() else partners
    return {"a": drug, "b": source.pick(pool)}


def _is_askable(form: Form, names: Parameters, truth: frozenset[str]) -> bool:
    """Whether the names are distinct, and the answer is known and not too long."""
    are_distinct = len(set(names.values())) == len(names)
    is_known = bool(truth) or form.role == "yes or no"
    return are_distinct and is_known and len(truth) <= MAX_NAMES


def spread_questions(questions: Sequence[Asked], n: int) -> list[Asked]:
    """Return `n` of the questions, each form in turn, in the order in which they were made."""
    positions: dict[str, list[int]] = {}
    for position, question in enumerate(questions):
        positions.setdefault(question.form.name, []).append(position)
    selected = _in_turn(positions)[:n]
    return [questions[position] for position in sorted(selected)]


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
"""The sorts of MedQuAD's questions, each with the words that tell it; the first that fits."""
SORTS_IN_SCOPE = ("side effects", "precautions, interactions")
"""The sorts that ask for what a graph of interactions and side effects can hold."""


def read_medquad(path: Path) -> list[PlainUnit]:
    """Read MedQuAD's questions about drugs that have an answer, each once.

    The drug part of the collection is released without its answers, for copyright. Of its questions
    those have one that were among the judged answers for TREC LiveQA 2017; they are told by the
    address of their page, which is the cluster.

    Raises:
        CorpusError: If the archive is not as released.
    """
    units: dict[str, PlainUnit] = {}
    for number, row in enumerate(_read_judged_answers(path), start=1):
        match = _ROW.fullmatch(row.strip())
        if match is None:
            raise CorpusError(
                f"{path.name}, row {number}: needed question, URL and answer, found {row[:60]!r}."
            )
        if "/druginfo/" in match["url"] and match["answer"]:
            unit = _medquad_unit(match)
            units.setdefault(unit.text, unit)
    return list(units.values())


def _read_judged_answers(path: Path) -> list[str]:
    """Read the answers in the table of an archive; each has its question and URL."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".csv")]
            (table,) = (name for name in names if not name.startswith("__MACOSX"))
            text = archive.read(table).decode("utf-8", errors="replace")
        return [row["Answer"] for row in csv.DictReader(io.StringIO(text, newline=""))]
    except (zipfile.BadZipFile, ValueError, KeyError) as error:
        raise CorpusError(
            f"{path.name} is not MedQuAD's archive of judged answers: {error}"
        ) from error


def _medquad_unit(match: re.Match[str]) -> PlainUnit:
    question = " ".join(match["question"].split()).replace(" ?", "?")
    answer = " ".join(match["answer"].split())
    sort = next(sort for sort, words in _SORTS.items() if re.search(words, question))
    return PlainUnit(question, match["url"], question, answer, {"sort": sort})


def sample_references(references: Sequence[PlainUnit], n: int, seed: int) -> list[PlainUnit]:
    """Draw `n` of MedQuAD's questions, each sort in turn."""
    by_sort: dict[str, list[PlainUnit]] = {sort: [] for sort in _SORTS}
    for position in np.random.default_rng(seed).permutation(len(references)):
        reference = references[position]
        by_sort[reference.strata["sort"]].append(reference)
    return _in_turn(by_sort)[:n]
