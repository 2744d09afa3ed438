"""Questions beyond the paper (side_effects.md, Discussion): classes, frequency, organ classes, two drugs, paths.

Each form of question has its wordings, the query that answers it, and the right answer in plain Python.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from papers.side_effects.facts import CLASS_NAMES, Facts

Parameters = dict[str, Any]
Answer = frozenset[str]

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

    @property
    def unit(self) -> str:
        """The question."""
        return self.text

    @property
    def cluster(self) -> str:
        """The question: they are independent."""
        return self.text

    @property
    def gold(self) -> str:
        """Nothing: the right set is in the items of an answer."""
        return ""

    @property
    def strata(self) -> dict[str, str]:
        """Its kind and wording."""
        return {"kind": KINDS[self.form.kind], "wording": "paraphrase" if self.paraphrased else "template"}


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
