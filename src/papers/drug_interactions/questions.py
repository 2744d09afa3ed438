"""Questions about drugs with known answers: written from the gold graph, and MedQuAD's with their reference answers.

The paper's 100 expert questions are not released, and its Table II is headed MedQuAD. So there are two sets here: one
whose right answers are sets that plain Python reads off the gold graph, and MedQuAD's questions about drugs.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np

from papers.drug_interactions.corpora import CAUSES, INTERACTS, CorpusError
from papers.drug_interactions.graph import QUESTIONS, KnowledgeGraph

Parameters = Mapping[str, str]
Drawn: TypeAlias = dict[str, str] | None
Answer = frozenset[str]
Role = Literal["drug", "effect", "yes or no", "choice"]

MEDQUAD = "drug_interactions/medquad_answers.zip"

YES: Answer = frozenset({"yes"})
NO: Answer = frozenset({"no"})
NOT_KNOWN: Answer = frozenset({"not known"})
LARGEST = 10
"""Names that a right answer may have: as many facts as are retrieved (Methods, C)."""
KINDS = {
    "one": "one hop",
    "two": "two hops",
    "three": "three drugs",
    "check": "yes or no",
    "brand": "brand names",
    "unknown": "unknown names",
}


@dataclass(frozen=True)
class Form:
    """One form of question.

    Attributes:
        name: of the form.
        kind: which of `KINDS` it is.
        role: what its answer consists of; a choice is among names of the question.
        wordings: the template, then paraphrases of it.
        cypher: the query, written here, with the question's names as parameters; its column is `answer`.
        truth: the right names in plain Python; a yes or no is whether there are any.
        draw: names for one question, or None if this draw gives none.
        follow_ups: what one may ask next with another name in the place of the last one, or nothing.
    """

    name: str
    kind: str
    role: Role
    wordings: tuple[str, ...]
    cypher: str
    truth: Callable[[KnowledgeGraph, Parameters], frozenset[str]]
    draw: Callable[[Source], dict[str, str] | None]
    follow_ups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """One question with the names in it and its right answer.

    Attributes:
        parameters: the names, as the question writes them.
        meant: the names as the graph has them; they differ for a brand.
        answer: names, or one of `YES`, `NO`, `NOT_KNOWN`.
    """

    form: Form
    text: str
    paraphrased: bool
    parameters: Mapping[str, str]
    answer: Answer
    meant: Mapping[str, str]

    @property
    def about(self) -> str:
        """The first name that is asked about, a drug mostly: questions about the same one belong together."""
        return next(iter(self.meant.values()))

    cluster = about

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
        return {"kind": KINDS[self.form.kind], "form": self.form.name}


@dataclass(frozen=True)
class FollowUp:
    """A question that only its history makes whole: "And with warfarin?"."""

    first: Asked
    then: Asked

    @property
    def text(self) -> str:
        """Both questions."""
        return f"{self.first.text} {self.then.text}"

    @property
    def unit(self) -> str:
        """The form, and both questions."""
        return f"{self.then.form.name}: {self.text}"

    @property
    def cluster(self) -> str:
        """What the second question is about."""
        return self.then.about

    @property
    def gold(self) -> str:
        """The right answer to the second question."""
        return self.then.gold

    @property
    def strata(self) -> Mapping[str, str]:
        """Those of the second question."""
        return self.then.strata


@dataclass(frozen=True)
class Reference:
    """A question of MedQuAD with its answer.

    Attributes:
        sort: what sort of question it is by its wording.
        about: the address of the page that answers it, one a drug: questions of the same page belong together.
    """

    text: str
    answer: str
    sort: str
    about: str

    @property
    def unit(self) -> str:
        """Its words."""
        return self.text

    @property
    def cluster(self) -> str:
        """The page that answers it."""
        return self.about

    @property
    def gold(self) -> str:
        """The reference answer."""
        return self.answer

    @property
    def strata(self) -> Mapping[str, str]:
        """What it asks for."""
        return {"sort": self.sort}


# ------------------------------------------------------------------------------------------------------------ drawing


# two letters at least, and nothing that a sentence or a Cypher string could take for its own
_PLAIN = re.compile(r"[a-z][a-z-]+(?: [a-z-]+){0,3}")
_SYLLABLES = ("bra", "cel", "dor", "fen", "gal", "lum", "mir", "nov", "pra", "sel", "tov", "vel", "zan")
_ENDINGS = ("livir", "matol", "ruxine", "sopril", "tezone", "vonide")


@dataclass(frozen=True)
class Source:
    """What questions are drawn from: a graph, the brand names of its drugs that it lacks, and chance."""

    graph: KnowledgeGraph
    brands: Mapping[str, str]
    rng: np.random.Generator

    def pick(self, names: Iterable[str]) -> str | None:
        """One of the names, of those that can stand in a question without being misread; None if there is none."""
        ordered = sorted(name for name in set(names) if _PLAIN.fullmatch(name))
        return ordered[int(self.rng.integers(len(ordered)))] if ordered else None

    @property
    def effects(self) -> set[str]:
        """The side effects that a drug causes."""
        return {fact.end for fact in self.graph.of_type(CAUSES)}


def _with_partners(source: Source) -> Drawn:
    a = source.pick(source.graph.partners)
    return {"a": a} if a else None


def _with_effects(source: Source) -> Drawn:
    a = source.pick(source.graph.effects)
    return {"a": a} if a else None


def _effect(source: Source) -> Drawn:
    effect = source.pick(source.effects)
    return {"effect": effect} if effect else None


def _pair(source: Source) -> Drawn:
    """Two drugs that interact, the second of which causes something."""
    b = source.pick(name for name in source.graph.effects if source.graph.partners.get(name))
    a = source.pick(source.graph.partners[b]) if b else None
    return {"a": a, "b": b} if a and b else None


def _culprit(source: Source) -> Drawn:
    pair = _pair(source)
    effect = source.pick(source.graph.effects[pair["b"]]) if pair else None
    return {"a": pair["a"], "effect": effect} if pair and effect else None


def _common(source: Source) -> Drawn:
    """Two drugs that both interact with a third one."""
    middle = source.pick(source.graph.partners)
    around = source.graph.partners[middle] if middle else set()
    a, b = source.pick(around), source.pick(around)
    return {"a": a, "b": b} if a and b and a != b else None


def _added(source: Source) -> Drawn:
    """A drug to be added to two others, with one of which at least it interacts."""
    c = source.pick(source.graph.partners)
    a = source.pick(source.graph.partners[c]) if c else None
    b = source.pick(source.graph.partners)
    if not (a and b and c) or len({a, b, c}) < 3:
        return None
    return {"a": a, "b": b, "c": c} if source.rng.random() < 0.5 else {"a": b, "b": a, "c": c}


def _three(source: Source) -> Drawn:
    names = [name for name in (source.pick(source.graph.effects) for _ in range(3)) if name]
    return dict(zip("abc", names, strict=True)) if len(set(names)) == 3 else None


def _checked_pair(source: Source) -> Drawn:
    """Two drugs that have interactions, half of the time with each other."""
    a = source.pick(source.graph.partners)
    b = source.pick(source.graph.partners[a] if a and source.rng.random() < 0.5 else source.graph.partners)
    return {"a": a, "b": b} if a and b and a != b else None


def _checked_effect(source: Source) -> Drawn:
    """A drug that has effects and an effect, half of the time one of them."""
    a = source.pick(source.graph.effects)
    effect = source.pick(source.graph.effects[a] if a and source.rng.random() < 0.5 else source.effects)
    return {"a": a, "effect": effect} if a and effect else None


def _branded_partners(source: Source) -> Drawn:
    a = source.pick(brand for brand, drug in source.brands.items() if drug in source.graph.partners)
    return {"a": a} if a else None


def _branded_effects(source: Source) -> Drawn:
    a = source.pick(brand for brand, drug in source.brands.items() if drug in source.graph.effects)
    return {"a": a} if a else None


def _invented(source: Source) -> Drawn:
    """The name of a drug that there is not."""
    name = "".join(str(source.rng.choice(of)) for of in (_SYLLABLES, _SYLLABLES, _ENDINGS))
    return None if name in source.graph.nodes else {"a": name}


# -------------------------------------------------------------------------------------------------------------- forms

_DRUG, _EFFECT = QUESTIONS.labels["Drug"], QUESTIONS.labels["SideEffect"]
_WITH, _CAUSES = QUESTIONS.types[INTERACTS], QUESTIONS.types[CAUSES]

_PARTNERS = f"MATCH (:{_DRUG} {{name: $a}})-[:{_WITH}]-(d:{_DRUG}) RETURN DISTINCT d.name AS answer"
_EFFECTS = f"MATCH (:{_DRUG} {{name: $a}})-[:{_CAUSES}]->(e:{_EFFECT}) RETURN DISTINCT e.name AS answer"
_PARTNER_WORDINGS = (
    "Which drugs interact with {a}?",
    "Someone takes {a}. Which other drugs is it known to interact with?",
    "Name the drugs that should not be combined with {a} without a second look, because the two interact.",
)
_EFFECT_WORDINGS = (
    "Which side effects can {a} cause?",
    "What should a patient who is given {a} be watched for?",
    "Name the adverse effects that {a} has been blamed for.",
)


def _partners(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return frozenset(graph.partners.get(names["a"], ()))


def _effects(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return frozenset(graph.effects.get(names["a"], ()))


def _causing(graph: KnowledgeGraph, effect: str) -> frozenset[str]:
    return frozenset(fact.start for fact in graph.of_type(CAUSES) if fact.end == effect)


FORMS = (
    Form(
        "partners",
        "one",
        "drug",
        _PARTNER_WORDINGS,
        _PARTNERS,
        _partners,
        _with_partners,
        ("And with {a}?", "What about {a}?"),
    ),
    Form(
        "effects",
        "one",
        "effect",
        _EFFECT_WORDINGS,
        _EFFECTS,
        _effects,
        _with_effects,
        ("And {a}?", "What about {a}?"),
    ),
    Form(
        "causes",
        "one",
        "drug",
        (
            "Which drugs can cause {effect}?",
            "A patient has {effect}. Which drugs could be behind it?",
            "Name the drugs that {effect} has been put down to.",
        ),
        f"MATCH (d:{_DRUG})-[:{_CAUSES}]->(:{_EFFECT} {{name: $effect}}) RETURN DISTINCT d.name AS answer",
        lambda graph, names: _causing(graph, names["effect"]),
        _effect,
        ("And {effect}?", "What about {effect}?"),
    ),
    Form(
        "combined",
        "two",
        "effect",
        (
            "What side effects of {b} should be monitored when {a}, which interacts with it, is taken too?",
            "{a} raises the levels of {b}; which side effects could this cause?",
            "{b} interacts with {a}. If that makes {b} act more strongly, which of its adverse effects may show?",
        ),
        f"MATCH (:{_DRUG} {{name: $a}})-[:{_WITH}]-(:{_DRUG} {{name: $b}})-[:{_CAUSES}]->(e:{_EFFECT}) "
        "RETURN DISTINCT e.name AS answer",
        lambda graph, names: frozenset(
            graph.effects[names["b"]] if names["b"] in graph.partners.get(names["a"], ()) else ()
        ),
        _pair,
    ),
    Form(
        "chain",
        "two",
        "effect",
        (
            "Which side effects can the drugs cause that interact with {a}?",
            "{a} interacts with some drugs. What adverse effects do those drugs have?",
            "Through its interactions, {a} may bring out the side effects of other drugs. Which ones?",
        ),
        f"MATCH (:{_DRUG} {{name: $a}})-[:{_WITH}]-(:{_DRUG})-[:{_CAUSES}]->(e:{_EFFECT}) "
        "RETURN DISTINCT e.name AS answer",
        lambda graph, names: frozenset(graph.two_hops(names["a"])),
        _with_partners,
        ("And those that interact with {a}?", "What about {a}?"),
    ),
    Form(
        "culprit",
        "two",
        "drug",
        (
            "Which drugs interact with {a} and can cause {effect}?",
            "A patient on {a} gets {effect}. Which drugs that interact with {a} are known to cause it?",
            "Of the drugs that {a} interacts with, name those that have {effect} as a side effect.",
        ),
        f"MATCH (:{_DRUG} {{name: $a}})-[:{_WITH}]-(d:{_DRUG})-[:{_CAUSES}]->(:{_EFFECT} {{name: $effect}}) "
        "RETURN DISTINCT d.name AS answer",
        lambda graph, names: _partners(graph, names) & _causing(graph, names["effect"]),
        _culprit,
    ),
    Form(
        "common",
        "three",
        "drug",
        (
            "Which drugs interact with both {a} and {b}?",
            "A patient takes {a} and {b}. Which other drugs interact with each of the two?",
            "Name the drugs that are known to interact with {a} and also with {b}.",
        ),
        f"MATCH (:{_DRUG} {{name: $a}})-[:{_WITH}]-(d:{_DRUG})-[:{_WITH}]-(:{_DRUG} {{name: $b}}) "
        "RETURN DISTINCT d.name AS answer",
        lambda graph, names: _partners(graph, names) & _partners(graph, {"a": names["b"]}),
        _common,
    ),
    Form(
        "added",
        "three",
        "choice",
        (
            "A patient takes {a} and {b}. Which of the two interacts with {c}?",
            "{c} is to be added to {a} and {b}. With which of the two does it interact, or with both?",
            "Of {a} and {b}, name what interacts with {c}.",
        ),
        f"MATCH (d:{_DRUG})-[:{_WITH}]-(:{_DRUG} {{name: $c}}) WHERE d.name IN [$a, $b] "
        "RETURN DISTINCT d.name AS answer",
        lambda graph, names: _partners(graph, {"a": names["c"]}) & {names["a"], names["b"]},
        _added,
    ),
    Form(
        "union",
        "three",
        "effect",
        (
            "Which side effects can {a}, {b} or {c} cause?",
            "A patient is given {a}, {b} and {c}. What are the known adverse effects of the three, taken together?",
            "Name everything that {a}, {b} and {c} have been blamed for.",
        ),
        f"MATCH (d:{_DRUG})-[:{_CAUSES}]->(e:{_EFFECT}) WHERE d.name IN [$a, $b, $c] RETURN DISTINCT e.name AS answer",
        lambda graph, names: frozenset().union(*(graph.effects.get(names[key], set()) for key in "abc")),
        _three,
    ),
    Form(
        "interact",
        "check",
        "yes or no",
        (
            "Does {a} interact with {b}?",
            "Is there a known interaction of {a} and {b}?",
            "Are {a} and {b} known to interact, yes or no?",
        ),
        f"MATCH (:{_DRUG} {{name: $a}})-[:{_WITH}]-(d:{_DRUG} {{name: $b}}) RETURN DISTINCT d.name AS answer",
        lambda graph, names: _partners(graph, names) & {names["b"]},
        _checked_pair,
    ),
    Form(
        "cause",
        "check",
        "yes or no",
        (
            "Can {a} cause {effect}?",
            "Is {effect} a known side effect of {a}?",
            "Has {a} been blamed for {effect}, yes or no?",
        ),
        f"MATCH (:{_DRUG} {{name: $a}})-[:{_CAUSES}]->(e:{_EFFECT} {{name: $effect}}) RETURN DISTINCT e.name AS answer",
        lambda graph, names: _effects(graph, names) & {names["effect"]},
        _checked_effect,
    ),
    Form("brand_partners", "brand", "drug", _PARTNER_WORDINGS, _PARTNERS, _partners, _branded_partners),
    Form("brand_effects", "brand", "effect", _EFFECT_WORDINGS, _EFFECTS, _effects, _branded_effects),
    Form("unknown_partners", "unknown", "drug", _PARTNER_WORDINGS, _PARTNERS, _partners, _invented),
    Form("unknown_effects", "unknown", "effect", _EFFECT_WORDINGS, _EFFECTS, _effects, _invented),
)


# ---------------------------------------------------------------------------------------------------------- questions


def answer_of(form: Form, parameters: Parameters, names: frozenset[str]) -> Answer:
    """An answer from the names that a query or a reading of facts gave: a yes or no, the names, or not known.

    It is a yes if a name that the question holds is among them: a list of other side effects is none.
    """
    if form.role == "yes or no":
        return YES if names.intersection(parameters.values()) else NO
    return names or NOT_KNOWN


def make_questions(graph: KnowledgeGraph, brands: Mapping[str, str], per_form: int, seed: int) -> list[Asked]:
    """A seeded benchmark: of each form so many questions, its wordings in turn, each with its right answer.

    No right answer holds more than `LARGEST` names. A small graph may give fewer questions of a form.

    Args:
        graph: the gold graph of drugs and side effects.
        brands: brand names that the graph lacks, with the drug of the graph that each stands for.
        per_form: of each form.
        seed: of the draw.
    """
    asked: list[Asked] = []
    for number, form in enumerate(FORMS):
        source = Source(graph, brands, np.random.default_rng([seed, number]))
        seen: set[tuple[str, ...]] = set()
        for question in _drawn(form, source):
            if (key := tuple(question.parameters.values())) in seen:
                continue
            if (
                form.role == "yes or no"
                and sum(a.form is form and a.answer == question.answer for a in asked) >= (per_form + 1) // 2
            ):
                continue  # as many that are right with yes as with no
            seen.add(key)
            asked.append(_worded(question, form.wordings, (number + len(seen) - 1) % len(form.wordings)))
            if len(seen) == per_form:
                break
    return asked


def _drawn(form: Form, source: Source) -> Iterator[Asked]:
    for _ in range(400):
        names = form.draw(source)
        if names:
            meant = {
                key: source.brands.get(name, name) if form.kind == "brand" else name for key, name in names.items()
            }
            truth = form.truth(source.graph, meant)
            known = truth or form.kind == "unknown" or form.role == "yes or no"
            if known and len(truth) <= LARGEST:
                yield Asked(form, "", False, names, answer_of(form, meant, truth), meant)


def _worded(question: Asked, wordings: tuple[str, ...], number: int) -> Asked:
    return replace(question, text=wordings[number].format(**question.parameters), paraphrased=number > 0)


def make_follow_ups(graph: KnowledgeGraph, n: int, seed: int) -> list[FollowUp]:
    """So many pairs of a question and one that follows it up with another name ("What about Drug X with Drug Z?")."""
    forms = [form for form in FORMS if form.follow_ups]
    pairs: list[FollowUp] = []
    for number, form in enumerate(forms):
        source = Source(graph, {}, np.random.default_rng([seed, 100 + number]))
        drawn = _drawn(form, source)
        for i in range(n // len(forms) + (number < n % len(forms))):
            first = next(drawn, None)
            then = next((q for q in drawn if first and q.parameters != first.parameters), None)
            if first and then:
                follow_up = _worded(then, form.follow_ups, i % len(form.follow_ups))
                pairs.append(FollowUp(_worded(first, form.wordings, 0), follow_up))
    return pairs


def spread(questions: Sequence[Asked], n: int) -> list[Asked]:
    """So many of the questions, each form in turn, in the order in which they were made."""
    of_form: dict[str, list[int]] = {}
    for i, question in enumerate(questions):
        of_form.setdefault(question.form.name, []).append(i)
    turns = [i for turn in zip_longest(*of_form.values()) for i in turn if i is not None]
    return [questions[i] for i in sorted(turns[:n])]


# ------------------------------------------------------------------------------------------------------------ MedQuAD

_ROW = re.compile(r"Question: (?P<question>.*?)\s*\nURL: (?P<url>\S+)\s*\nAnswer: (?P<answer>.*?)\)?\s*", re.DOTALL)
_SORTS = {
    "side effects": r"side effects",
    "precautions, interactions": r"precautions|interactions|important warning|dietary",
    "brand names": r"brand names",
    "use and dose": r"prescribed|be used|dosage|forget a dose|storage|overdose",
}


def read_medquad(path: Path) -> list[Reference]:
    """MedQuAD's questions about drugs that have an answer, each once, in the order of the file.

    The drug part of the collection itself is released without its answers, for copyright. Of its questions those have
    one that were among the judged answers for TREC LiveQA 2017; they are told by the address of their page.

    Raises:
        CorpusError: the archive is not as released.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".csv") and not n.startswith("__MACOSX"))
            text = archive.read(name).decode("utf-8", errors="replace")
        rows = [row["Answer"] for row in csv.DictReader(io.StringIO(text, newline=""))]
    except (zipfile.BadZipFile, ValueError, KeyError) as error:
        raise CorpusError(f"{path.name} is not MedQuAD's archive of judged answers: {error}") from error
    found: dict[str, Reference] = {}
    for number, row in enumerate(rows, start=1):
        match = _ROW.fullmatch(row.strip())
        if match is None:
            raise CorpusError(f"{path.name}, row {number}: needed question, URL and answer, found {row[:60]!r}.")
        if "/druginfo/" in match["url"] and match["answer"]:
            question = " ".join(match["question"].split()).replace(" ?", "?")
            sort = next((sort for sort, words in _SORTS.items() if re.search(words, question)), "other")
            found.setdefault(question, Reference(question, " ".join(match["answer"].split()), sort, match["url"]))
    return list(found.values())


def sample_references(references: Sequence[Reference], n: int, seed: int) -> list[Reference]:
    """So many of them by chance, each sort in turn."""
    order = np.random.default_rng(seed).permutation(len(references))
    of_sort: dict[str, list[Reference]] = {sort: [] for sort in (*_SORTS, "other")}
    for i in order:
        of_sort[references[i].sort].append(references[i])
    return [r for turn in zip_longest(*of_sort.values()) for r in turn if r is not None][:n]
