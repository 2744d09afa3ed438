"""Forms of question about a graph of drugs and side effects: wordings, Cypher, right answers, names drawn by chance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from papers.drug_interactions.corpora import CAUSES, INTERACTS
from papers.drug_interactions.graph import QUESTIONS, KnowledgeGraph

Parameters = Mapping[str, str]
Drawn: TypeAlias = dict[str, str] | None
Role = Literal["drug", "effect", "yes or no", "choice"]

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
    draw: Callable[[Source], Drawn]
    follow_ups: tuple[str, ...] = ()


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


def _one(key: str, names: Callable[[Source], Iterable[str]]) -> Callable[[Source], Drawn]:
    """Draws one name."""

    def draw(source: Source) -> Drawn:
        name = source.pick(names(source))
        return {key: name} if name else None

    return draw


_with_partners = _one("a", lambda source: source.graph.partners)


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


def _branded(known: Callable[[KnowledgeGraph], Mapping[str, object]]) -> Callable[[Source], Drawn]:
    """Draws the brand name of a known drug."""
    return _one("a", lambda source: [brand for brand, drug in source.brands.items() if drug in known(source.graph)])


def _invented(source: Source) -> Drawn:
    """The name of a drug that there is not."""
    name = "".join(str(source.rng.choice(of)) for of in (_SYLLABLES, _SYLLABLES, _ENDINGS))
    return None if name in source.graph.nodes else {"a": name}


# -------------------------------------------------------------------------------------------------------------- forms

_DRUG, _EFFECT = QUESTIONS.labels["Drug"], QUESTIONS.labels["SideEffect"]
_WITH, _CAUSES = QUESTIONS.types[INTERACTS], QUESTIONS.types[CAUSES]


def _partners(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return frozenset(graph.partners.get(names["a"], ()))


def _effects(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return frozenset(graph.effects.get(names["a"], ()))


def _causing(graph: KnowledgeGraph, effect: str) -> frozenset[str]:
    return frozenset(fact.start for fact in graph.of_type(CAUSES) if fact.end == effect)


_PARTNERS = Form(
    "partners",
    "one",
    "drug",
    (
        "Which drugs interact with {a}?",
        "Someone takes {a}. Which other drugs is it known to interact with?",
        "Name the drugs that should not be combined with {a} without a second look, because the two interact.",
    ),
    f"MATCH (:{_DRUG} {{name: $a}})-[:{_WITH}]-(d:{_DRUG}) RETURN DISTINCT d.name AS answer",
    _partners,
    _with_partners,
    ("And with {a}?", "What about {a}?"),
)
_EFFECTS = Form(
    "effects",
    "one",
    "effect",
    (
        "Which side effects can {a} cause?",
        "What should a patient who is given {a} be watched for?",
        "Name the adverse effects that {a} has been blamed for.",
    ),
    f"MATCH (:{_DRUG} {{name: $a}})-[:{_CAUSES}]->(e:{_EFFECT}) RETURN DISTINCT e.name AS answer",
    _effects,
    _one("a", lambda source: source.graph.effects),
    ("And {a}?", "What about {a}?"),
)


def _of_kind(form: Form, kind: str, draw: Callable[[Source], Drawn]) -> Form:
    """The same question about names of another kind."""
    return replace(form, name=f"{kind}_{form.name}", kind=kind, draw=draw, follow_ups=())


FORMS = (
    _PARTNERS,
    _EFFECTS,
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
        _one("effect", lambda source: source.effects),
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
    _of_kind(_PARTNERS, "brand", _branded(lambda graph: graph.partners)),
    _of_kind(_EFFECTS, "brand", _branded(lambda graph: graph.effects)),
    _of_kind(_PARTNERS, "unknown", _invented),
    _of_kind(_EFFECTS, "unknown", _invented),
)
"""All forms, in the order in which questions are made."""
