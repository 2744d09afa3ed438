"""Forms of question about a graph of drugs and side effects: wordings, Cypher, right answers, names drawn by chance."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np
import yaml

from helpers.settings import DATA
from papers.drug_interactions.corpora import CAUSES
from papers.drug_interactions.graph import KnowledgeGraph

Parameters = Mapping[str, str]
Drawn: TypeAlias = dict[str, str] | None
Role = Literal["drug", "effect", "yes or no", "choice"]
Truth: TypeAlias = "Callable[[KnowledgeGraph, Parameters], frozenset[str]]"
Draw: TypeAlias = "Callable[[Source], Drawn]"
FILE = DATA / "interaction_questions.yml"

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
    """One form of question, as in `data/interaction_questions.yml`.

    Attributes:
        role: what its answer consists of; a choice is among names of the question.
        truth: the right names in plain Python; a yes or no is whether there are any.
        draw: names for one question, or None if this draw gives none.
    """

    name: str
    kind: str
    role: Role
    wordings: Sequence[str]
    cypher: str
    truth: Truth
    draw: Draw
    follow_ups: Sequence[str] = ()


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


def _one(key: str, names: Callable[[Source], Iterable[str]]) -> Draw:
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


def _branded(known: Callable[[KnowledgeGraph], Mapping[str, object]]) -> Draw:
    """Draws the brand name of a known drug."""
    return _one("a", lambda source: [brand for brand, drug in source.brands.items() if drug in known(source.graph)])


def _invented(source: Source) -> Drawn:
    """The name of a drug that there is not."""
    name = "".join(str(source.rng.choice(of)) for of in (_SYLLABLES, _SYLLABLES, _ENDINGS))
    return None if name in source.graph.nodes else {"a": name}


# -------------------------------------------------------------------------------------------------------------- forms


def _partners(graph: KnowledgeGraph, names: Parameters, key: str = "a") -> frozenset[str]:
    return frozenset(graph.partners.get(names[key], ()))


def _effects(graph: KnowledgeGraph, names: Parameters, key: str = "a") -> frozenset[str]:
    return frozenset(graph.effects.get(names[key], ()))


def _causing(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return frozenset(fact.start for fact in graph.of_type(CAUSES) if fact.end == names["effect"])


def _combined(graph: KnowledgeGraph, names: Parameters) -> frozenset[str]:
    return _effects(graph, names, "b") if names["b"] in _partners(graph, names) else frozenset()


_RULES: dict[str, tuple[Truth, Draw]] = {
    "partners": (_partners, _with_partners),
    "effects": (_effects, _one("a", lambda source: source.graph.effects)),
    "causes": (_causing, _one("effect", lambda source: source.effects)),
    "combined": (_combined, _pair),
    "chain": (lambda graph, names: frozenset(graph.two_hops(names["a"])), _with_partners),
    "culprit": (lambda graph, names: _partners(graph, names) & _causing(graph, names), _culprit),
    "common": (lambda graph, names: _partners(graph, names) & _partners(graph, names, "b"), _common),
    "added": (lambda graph, names: _partners(graph, names, "c") & {names["a"], names["b"]}, _added),
    "union": (lambda graph, names: frozenset().union(*(_effects(graph, names, key) for key in "abc")), _three),
    "interact": (lambda graph, names: _partners(graph, names) & {names["b"]}, _checked_pair),
    "cause": (lambda graph, names: _effects(graph, names) & {names["effect"]}, _checked_effect),
}
_OTHER_NAMES: dict[str, dict[str, Draw]] = {
    "brand": {"partners": _branded(lambda graph: graph.partners), "effects": _branded(lambda graph: graph.effects)},
    "unknown": {"partners": _invented, "effects": _invented},
}


def _forms() -> Iterator[Form]:
    written = yaml.safe_load(FILE.read_text(encoding="utf-8"))
    for name, (truth, draw) in _RULES.items():
        yield Form(name, **written[name], truth=truth, draw=draw)
    for kind, draws in _OTHER_NAMES.items():
        for name, draw in draws.items():
            same = written[name] | {"kind": kind, "follow_ups": ()}
            yield Form(f"{kind}_{name}", **same, truth=_RULES[name][0], draw=draw)


FORMS = tuple(_forms())
"""All forms, in the order in which questions are made."""
