"""Questions beyond the paper (side_effects.md, Discussion), and who makes the query: code, or an LLM.

data/side_effect_questions.yml has the forms; here names are drawn, and the right answer is plain Python.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from evaluation import figures
from evaluation.answers import Answer, Item
from evaluation.metrics import set_scores
from helpers.graph import Graph
from helpers.llm import LLM
from papers.side_effects.facts import CLASS_NAMES, QUESTIONS, Facts
from rag.names import Vocabulary
from rag.prompts import chat_messages, each
from rag.text_to_cypher import Attempt, write_and_run

Parameters = dict[str, Any]
Names = frozenset[str]
Draw = Callable[[Facts, np.random.Generator], Parameters | None]
Truth = Callable[[Facts, Parameters], Names]

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

    `meaning` is what it asks for, told to a model that chooses among the forms. The wordings are the template, then
    paraphrases. The query takes the question's names as parameters; its column is `answer`. A draw may give none.
    """

    name: str
    kind: str
    meaning: str
    wordings: tuple[str, ...]
    cypher: str
    draw: Draw
    truth: Truth


@dataclass(frozen=True)
class Asked:
    """One question of the benchmark: in words, the names in it, and the right answer."""

    form: Form
    text: str
    paraphrased: bool
    parameters: Mapping[str, Any]
    answer: Names
    gold = ""  # the right set is in the items of an answer

    @property
    def unit(self) -> str:
        """The question; questions are independent."""
        return self.text

    cluster = unit

    @property
    def strata(self) -> dict[str, str]:
        """Its kind and wording."""
        return {
            "kind": KINDS[self.form.kind],
            "wording": "paraphrase" if self.paraphrased else "template",
        }


def _pick(rng: np.random.Generator, names: Iterable[str]) -> str:
    ordered = sorted(names)
    return ordered[int(rng.integers(len(ordered)))]


def _class(facts: Facts, rng: np.random.Generator, least: int = 2) -> str:
    """A class with a plain name and at least so many drugs."""
    return _pick(rng, (c for c in CLASS_NAMES.values() if len(facts.members.get(c, ())) >= least))


def _organ(facts: Facts, rng: np.random.Generator) -> str:
    return _pick(rng, set(facts.organs.values()))


def _draw_class_effect(facts: Facts, rng: np.random.Generator) -> Parameters:
    cls = _class(facts, rng, 1)
    return {"cls": cls, "effect": _pick(rng, facts.effects[_pick(rng, facts.members[cls])])}


def _draw_top(facts: Facts, rng: np.random.Generator) -> Parameters | None:
    drug = _pick(rng, facts.effects)
    shares = [share for share, _ in facts.ranked[drug]]
    # a rank at which the next one is less frequent, so that the answer is one set
    clear = [n for n in range(2, min(7, len(shares))) if shares[n - 1] > shares[n]]
    return {"drug": drug, "n": int(_pick(rng, map(str, clear)))} if clear else None


def _draw_pair(facts: Facts, rng: np.random.Generator) -> Parameters | None:
    """Two drugs of one class, for two drugs that have little in common are seldom compared."""
    members = facts.members[_class(facts, rng)]
    a, b = _pick(rng, members), _pick(rng, members)
    return {"a": a, "b": b} if a != b else None


def _draw_pair_organ(facts: Facts, rng: np.random.Generator) -> Parameters | None:
    pair = _draw_pair(facts, rng)
    return pair and {**pair, "organ": _organ(facts, rng)}


def _draw_drug_effect(facts: Facts, rng: np.random.Generator) -> Parameters:
    drug = _pick(rng, facts.effects)
    return {"drug": drug, "effect": _pick(rng, facts.effects[drug])}


def _in_class_with(facts: Facts, cls: str, effect: str) -> Names:
    return frozenset(drug for drug in facts.members[cls] if effect in facts.effect_set[drug])


def _shared_by(facts: Facts, cls: str, least: float, *, more: bool = False) -> Names:
    """Effects that this share of a class' drugs have, or more than this share."""
    members = facts.members[cls]
    counts = Counter(effect for drug in members for effect in facts.effect_set[drug])
    wanted = least * len(members)
    return frozenset(e for e, n in counts.items() if (n > wanted if more else n >= wanted))


def _classmates(facts: Facts, drug: str, effect: str) -> Names:
    """Other drugs of a drug's classes that have the effect."""
    return frozenset().union(
        *(_in_class_with(facts, cls, effect) for cls in facts.classes[drug])
    ) - {drug}


_MADE: dict[str, tuple[Draw, Truth]] = {
    "class_drugs": (_draw_class_effect, lambda f, p: _in_class_with(f, p["cls"], p["effect"])),
    "class_all": (
        lambda f, rng: {"cls": _class(f, rng)},
        lambda f, p: _shared_by(f, p["cls"], 1.0),
    ),
    "class_most": (
        lambda f, rng: {"cls": _class(f, rng)},
        lambda f, p: _shared_by(f, p["cls"], 0.5, more=True),
    ),
    "frequency_top": (
        _draw_top,
        lambda f, p: frozenset(e for _, e in f.ranked[p["drug"]][: p["n"]]),
    ),
    "frequency_at_least": (
        lambda f, rng: {
            "drug": _pick(rng, f.effects),
            "share": float(_pick(rng, ("0.01", "0.05", "0.1", "0.2"))),
        },
        lambda f, p: frozenset(e for share, e in f.ranked[p["drug"]] if share >= p["share"]),
    ),
    "organ_effects": (
        lambda f, rng: {"drug": _pick(rng, f.effects), "organ": _organ(f, rng)},
        lambda f, p: f.of_organ(p["drug"], p["organ"]),
    ),
    "organ_class": (
        lambda f, rng: {
            "n": int(rng.integers(2, 6)),
            "cls": _class(f, rng),
            "organ": _organ(f, rng),
        },
        lambda f, p: frozenset(
            d for d in f.members[p["cls"]] if len(f.of_organ(d, p["organ"])) >= p["n"]
        ),
    ),
    "compare_shared": (_draw_pair, lambda f, p: f.effect_set[p["a"]] & f.effect_set[p["b"]]),
    "compare_only": (_draw_pair, lambda f, p: f.effect_set[p["a"]] - f.effect_set[p["b"]]),
    "why_effects": (
        _draw_pair_organ,
        lambda f, p: f.of_organ(p["a"], p["organ"]) & f.of_organ(p["b"], p["organ"]),
    ),
    "why_classmates": (_draw_drug_effect, lambda f, p: _classmates(f, p["drug"], p["effect"])),
}
"""How the names of each form are drawn, and its right answer."""
FORMS = tuple(
    Form(name, **written, draw=_MADE[name][0], truth=_MADE[name][1])
    for name, written in QUESTIONS["forms"].items()
)


def make_questions(facts: Facts, per_kind: int, seed: int) -> list[Asked]:
    """A seeded benchmark: of each kind so many questions, forms and wordings in turn, each with its right answer.

    One whose answer is empty or has more than `LARGEST` names is not asked. Too few in the data are a `ValueError`.
    """
    asked: list[Asked] = []
    for number, kind in enumerate(KINDS):
        rng = np.random.default_rng([seed, number])
        forms = [form for form in FORMS if form.kind == kind]
        seen: set[str] = set()
        for i in range(per_kind):
            form = forms[i % len(forms)]
            wording = (i // len(forms)) % len(form.wordings)
            question = next(
                (q for q in _candidates(facts, form, wording, rng) if q.text not in seen), None
            )
            if question is None:
                raise ValueError(
                    f"The data give no {i + 1}. question of the form {form.name}. Ask for fewer of a kind."
                )
            seen.add(question.text)
            asked.append(question)
    return asked


def _candidates(
    facts: Facts, form: Form, wording: int, rng: np.random.Generator
) -> Iterator[Asked]:
    for _ in range(2000):
        parameters = form.draw(facts, rng)
        if parameters is None:
            continue
        answer = form.truth(facts, parameters)
        if 1 <= len(answer) <= LARGEST:
            named = {**parameters, "percent": f"{100 * parameters.get('share', 0):g}"}
            yield Asked(
                form, form.wordings[wording].format(**named), wording > 0, parameters, answer
            )


LABELS = {
    "written": "Query written here (ceiling)",
    "chosen": "LLM picks the query",
    "generated": "LLM writes the Cypher",
}
COLOURS = {
    arm: figures.arm_colour(of)
    for arm, of in {"written": "lookup", "chosen": "graphrag", "generated": "closed_book"}.items()
}
Arm = Callable[[Sequence[Asked]], list[Answer]]
"""A way to get a query: questions in, one answer for each out."""

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


def returned(asked: Asked, attempts: Sequence[Attempt], requests: Sequence[str] = ()) -> Answer:
    """One answer of an arm: the set that its last attempt returned, beside the right one.

    The measure `exact` is execution accuracy: the set is exactly the right one.
    """
    last = attempts[-1]
    values = {"exact": last.returned == asked.answer, **set_scores(last.returned, asked.answer)}
    return Answer(
        answer=last.cypher,
        items=[
            Item(name, gold=name in asked.answer, predicted=name in last.returned)
            for name in sorted(last.returned | asked.answer)
        ],
        measures={name: (float(value), 1.0) for name, value in values.items()}
        | {"seconds": (last.seconds, 1.0)},
        requests=requests,
    )


def cypher_prompt(schema: str, question: str) -> list[dict[str, str]]:
    """The schema and two examples first, so that all questions share them, then the question."""
    return chat_messages(INSTRUCTION.format(schema=schema), question, EXAMPLES)


def text_to_cypher(
    llm: LLM, graph: Graph, schema: str, *, repairs: int = 1, max_tokens: int = 160
) -> Arm:
    """The model writes the Cypher; a statement that fails or finds nothing goes back to it with the problem."""
    return each(
        partial(write_and_run, llm, graph, repairs=repairs, max_tokens=max_tokens),
        lambda question: cypher_prompt(schema, question.text),
        lambda question, of: returned(
            question, [attempt for attempt, _ in of], [reply.key for _, reply in of]
        ),
    )


def written_cypher(graph: Graph) -> Arm:
    """The ceiling: the query of the question's form with its names as parameters, no model."""
    return lambda questions: [returned(q, [_run(graph, q.form, q.parameters)]) for q in questions]


def _run(graph: Graph, form: Form, parameters: Mapping[str, Any]) -> Attempt:
    found = graph.read_untrusted(form.cypher, **parameters)
    return Attempt(
        form.cypher, frozenset(str(row["answer"]) for row in found.rows), seconds=found.seconds
    )


CHOOSING = "Which form has the question? Answer with its name only.\n\n"


def choosing_prompt(question: str) -> list[dict[str, str]]:
    """The forms and what each asks for, then the question."""
    return chat_messages(
        CHOOSING + "\n".join(f"{form.name}: {form.meaning}" for form in FORMS), question
    )


def chosen_query(llm: LLM, graph: Graph, vocabulary: Vocabulary) -> Arm:
    """The model only picks the form; the names come from the vocabulary, the query is the form's own."""
    by_name = {form.name: form for form in FORMS}

    def run(form: Form, text: str) -> Attempt:
        try:
            return _run(graph, form, read_parameters(form, text, vocabulary))
        except LookupError:
            return Attempt(form.cypher)  # a name that the query needs is not in the question

    return each(
        partial(llm.choose_many, choices=list(by_name), label="choose a query"),
        lambda question: choosing_prompt(question.text),
        lambda question, choice: returned(
            question, [run(by_name[choice.answer], question.text)], [choice.key]
        ),
    )


def read_parameters(form: Form, text: str, vocabulary: Vocabulary) -> Parameters:
    """The parameters of a form's query, read off a question without a model; a `LookupError` if it lacks one."""
    linked = vocabulary.link(text)
    numbers = re.findall(r"(\d+(?:\.\d+)?)( ?%)?", text)
    parameters: Parameters = {}
    for name in dict.fromkeys(re.findall(r"\$(\w+)", form.cypher)):
        if name in ("a", "b"):
            parameters[name] = linked["drug"]["ab".index(name)]
        elif name == "share":
            parameters[name] = next((float(n) / 100 for n, percent in numbers if percent), None)
        elif name == "n":
            parameters[name] = next(
                (int(n) for n, percent in numbers if not percent and n.isdigit()), None
            )
        else:
            parameters[name] = linked[name][0]
        if parameters[name] is None:
            raise LookupError(f"The question has no number for {name}.")
    return parameters
