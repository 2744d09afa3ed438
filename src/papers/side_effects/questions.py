"""Questions beyond the paper (side_effects.md, Discussion), and who makes the query.

Code makes it, or an LLM. data/side_effect_questions.yml has the forms; here names are drawn, and
the right answer is plain Python.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from evaluation import figures
from evaluation.answers import Answer, Item
from evaluation.metrics import set_scores
from helpers.graph import Graph
from helpers.llm import LLM
from papers.side_effects.facts import CLASS_NAMES, QUESTIONS, Facts
from rag.names import Vocabulary
from rag.prompts import Message, chat_messages
from rag.text_to_cypher import Attempt, write_and_run

Parameters = dict[str, Any]
Names = frozenset[str]
Draw = Callable[[Facts, np.random.Generator], Parameters | None]
Truth = Callable[[Facts, Parameters], Names]

LARGEST = 60
"""Names that the right answer to a question may have; `read_untrusted` returns at most 100 rows."""
MAX_DRAWS = 2000
"""How often names are drawn for one question."""
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
        name: Id of the form.
        kind: One of `KINDS`.
        meaning: What it asks for, in words for a model that chooses among the forms.
        wordings: The template, then paraphrases.
        cypher: Its query, with the question's names as parameters; its column is ``answer``.
        draw: Draws the names, or None where a draw gives no question.
        truth: Computes the right answer.
    """

    name: str
    kind: str
    meaning: str
    wordings: tuple[str, ...]
    cypher: str
    draw: Draw
    truth: Truth


@dataclass(frozen=True)
class FormQuestion:
    """One question of the benchmark.

    Attributes:
        form: Its form.
        text: The question in words.
        paraphrased: Whether the wording is not the template.
        parameters: The names in it.
        answer: The right answer.
    """

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


def _draw_class(facts: Facts, rng: np.random.Generator, least: int = 2) -> str:
    """Draw a class with a plain name and at least ``least`` drugs."""
    large = [name for name in CLASS_NAMES.values() if len(facts.members.get(name, ())) >= least]
    return _pick(rng, large)


def _draw_organ(facts: Facts, rng: np.random.Generator) -> str:
    return _pick(rng, set(facts.organs.values()))


def _draw_class_alone(facts: Facts, rng: np.random.Generator) -> Parameters:
    return {"cls": _draw_class(facts, rng)}


def _draw_class_effect(facts: Facts, rng: np.random.Generator) -> Parameters:
    class_name = _draw_class(facts, rng, 1)
    drug = _pick(rng, facts.members[class_name])
    return {"cls": class_name, "effect": _pick(rng, facts.effects[drug])}


def _draw_top(facts: Facts, rng: np.random.Generator) -> Parameters | None:
    drug = _pick(rng, facts.effects)
    shares = [share for share, _ in facts.ranked[drug]]
    # a rank at which the next one is less frequent, so that the answer is one set
    last = min(7, len(shares))
    clear = [n for n in range(2, last) if shares[n - 1] > shares[n]]
    if not clear:
        return None
    n = _pick(rng, map(str, clear))
    return {"drug": drug, "n": int(n)}


SHARES = ("0.01", "0.05", "0.1", "0.2")
"""Shares of patients that questions name."""


def _draw_drug_share(facts: Facts, rng: np.random.Generator) -> Parameters:
    drug = _pick(rng, facts.effects)
    return {"drug": drug, "share": float(_pick(rng, SHARES))}


def _draw_drug_organ(facts: Facts, rng: np.random.Generator) -> Parameters:
    drug = _pick(rng, facts.effects)
    return {"drug": drug, "organ": _draw_organ(facts, rng)}


def _draw_class_organ(facts: Facts, rng: np.random.Generator) -> Parameters:
    n = int(rng.integers(2, 6))
    class_name = _draw_class(facts, rng)
    return {"n": n, "cls": class_name, "organ": _draw_organ(facts, rng)}


def _draw_pair(facts: Facts, rng: np.random.Generator) -> Parameters | None:
    """Draw two drugs of one class: two that have little in common are seldom compared."""
    members = facts.members[_draw_class(facts, rng)]
    first = _pick(rng, members)
    second = _pick(rng, members)
    if first == second:
        return None
    return {"a": first, "b": second}


def _draw_pair_organ(facts: Facts, rng: np.random.Generator) -> Parameters | None:
    pair = _draw_pair(facts, rng)
    if pair is None:
        return None
    return {**pair, "organ": _draw_organ(facts, rng)}


def _draw_drug_effect(facts: Facts, rng: np.random.Generator) -> Parameters:
    drug = _pick(rng, facts.effects)
    return {"drug": drug, "effect": _pick(rng, facts.effects[drug])}


def _in_class_with(facts: Facts, class_name: str, effect: str) -> Names:
    members = facts.members[class_name]
    return frozenset(drug for drug in members if effect in facts.effect_set[drug])


def _class_drugs(facts: Facts, parameters: Parameters) -> Names:
    return _in_class_with(facts, parameters["cls"], parameters["effect"])


def _count_class_effects(facts: Facts, class_name: str) -> Counter[str]:
    """Number of the class' drugs that have each effect."""
    counts: Counter[str] = Counter()
    for drug in facts.members[class_name]:
        counts.update(facts.effect_set[drug])
    return counts


def _effects_of_all(facts: Facts, parameters: Parameters) -> Names:
    n_drugs = len(facts.members[parameters["cls"]])
    counts = _count_class_effects(facts, parameters["cls"])
    return frozenset(effect for effect, n in counts.items() if n >= n_drugs)


def _effects_of_majority(facts: Facts, parameters: Parameters) -> Names:
    half = 0.5 * len(facts.members[parameters["cls"]])
    counts = _count_class_effects(facts, parameters["cls"])
    return frozenset(effect for effect, n in counts.items() if n > half)


def _most_frequent(facts: Facts, parameters: Parameters) -> Names:
    ranked = facts.ranked[parameters["drug"]][: parameters["n"]]
    return frozenset(effect for _, effect in ranked)


def _at_least_as_frequent(facts: Facts, parameters: Parameters) -> Names:
    ranked = facts.ranked[parameters["drug"]]
    return frozenset(effect for share, effect in ranked if share >= parameters["share"])


def _organ_effects(facts: Facts, parameters: Parameters) -> Names:
    return facts.of_organ(parameters["drug"], parameters["organ"])


def _class_drugs_by_organ(facts: Facts, parameters: Parameters) -> Names:
    """Drugs of the class with at least ``n`` effects in the organ class."""
    drugs = set()
    for drug in facts.members[parameters["cls"]]:
        effects = facts.of_organ(drug, parameters["organ"])
        if len(effects) >= parameters["n"]:
            drugs.add(drug)
    return frozenset(drugs)


def _shared_effects(facts: Facts, parameters: Parameters) -> Names:
    return facts.effect_set[parameters["a"]] & facts.effect_set[parameters["b"]]


def _only_effects(facts: Facts, parameters: Parameters) -> Names:
    return facts.effect_set[parameters["a"]] - facts.effect_set[parameters["b"]]


def _shared_organ_effects(facts: Facts, parameters: Parameters) -> Names:
    organ = parameters["organ"]
    return facts.of_organ(parameters["a"], organ) & facts.of_organ(parameters["b"], organ)


def _classmates(facts: Facts, parameters: Parameters) -> Names:
    """Other drugs of a drug's classes that have the effect."""
    drug = parameters["drug"]
    classmates: set[str] = set()
    for class_name in facts.classes[drug]:
        classmates |= _in_class_with(facts, class_name, parameters["effect"])
    return frozenset(classmates - {drug})


DRAWS_AND_TRUTHS: dict[str, tuple[Draw, Truth]] = {
    "class_drugs": (_draw_class_effect, _class_drugs),
    "class_all": (_draw_class_alone, _effects_of_all),
    "class_most": (_draw_class_alone, _effects_of_majority),
    "frequency_top": (_draw_top, _most_frequent),
    "frequency_at_least": (_draw_drug_share, _at_least_as_frequent),
    "organ_effects": (_draw_drug_organ, _organ_effects),
    "organ_class": (_draw_class_organ, _class_drugs_by_organ),
    "compare_shared": (_draw_pair, _shared_effects),
    "compare_only": (_draw_pair, _only_effects),
    "why_effects": (_draw_pair_organ, _shared_organ_effects),
    "why_classmates": (_draw_drug_effect, _classmates),
}
"""How the names of each form are drawn, and its right answer."""


def _make_form(name: str, written: Mapping[str, Any]) -> Form:
    draw, truth = DRAWS_AND_TRUTHS[name]
    return Form(name, **written, draw=draw, truth=truth)


FORMS = tuple(_make_form(name, written) for name, written in QUESTIONS["forms"].items())


def make_questions(facts: Facts, per_kind: int, seed: int) -> list[FormQuestion]:
    """Make a benchmark of forms and wordings in turn.

    A question whose answer is empty or has more than `LARGEST` names is not asked.

    Args:
        facts: All that the questions are about.
        per_kind: Number of questions of each kind.
        seed: Seed of the draw.

    Raises:
        ValueError: The data give too few questions.
    """
    questions: list[FormQuestion] = []
    for number, kind in enumerate(KINDS):
        rng = np.random.default_rng([seed, number])
        forms = [form for form in FORMS if form.kind == kind]
        texts: set[str] = set()
        for i in range(per_kind):
            form = forms[i % len(forms)]
            wording = (i // len(forms)) % len(form.wordings)
            question = _draw_question(facts, form, wording, texts, rng)
            if question is None:
                raise ValueError(
                    f"The data give no {i + 1}. question of the form {form.name}. "
                    "Ask for fewer of a kind."
                )
            texts.add(question.text)
            questions.append(question)
    return questions


def _draw_question(
    facts: Facts, form: Form, wording: int, texts: set[str], rng: np.random.Generator
) -> FormQuestion | None:
    """Draw a question whose text is new; None if `MAX_DRAWS` draws give none."""
    for _ in range(MAX_DRAWS):
        parameters = form.draw(facts, rng)
        if parameters is None:
            continue
        right = form.truth(facts, parameters)
        if not 1 <= len(right) <= LARGEST:
            continue
        percent = 100 * parameters.get("share", 0)
        text = form.wordings[wording].format(**parameters, percent=f"{percent:g}")
        if text not in texts:
            return FormQuestion(form, text, wording > 0, parameters, right)
    return None


LABELS = {
    "written": "Query written here (ceiling)",
    "chosen": "LLM picks the query",
    "generated": "LLM writes the Cypher",
}
COLOURS = {
    "written": figures.arm_colour("lookup"),
    "chosen": figures.arm_colour("graphrag"),
    "generated": figures.arm_colour("closed_book"),
}

INSTRUCTION = (
    "You translate a question into one openCypher statement that reads this graph.\n\n"
    "{schema}\n\n"
    "Names are as the question writes them; copy them exactly, with their case. frequency is a "
    "share of patients (0.1 is\n10 %) and is missing on edges for which no label states one. "
    "in_class leads to every class that a drug is in.\n"
    "RETURN one column of names, called answer, and nothing else. Write the statement only."
)
# Neither name is in any data set here, and neither form is asked.
EXAMPLES = (
    (
        "Which side effects does drugname have?",
        "MATCH (d:Drug {name: 'drugname'})-[:may_cause_side_effect]->(e:SideEffect) "
        "RETURN DISTINCT e.name AS answer",
    ),
    (
        "Which organ classes does the class classname touch?",
        "MATCH (c:AtcClass {name: 'classname'})<-[:in_class]-(d:Drug)"
        "-[:may_cause_side_effect]->(e:SideEffect)"
        "-[:in_organ_class]->(o:OrganClass) RETURN DISTINCT o.name AS answer",
    ),
)


def make_answer(
    question: FormQuestion, attempts: Sequence[Attempt], requests: Sequence[str] = ()
) -> Answer:
    """Compare the set that the last attempt returned with the right one.

    The measure ``exact`` is execution accuracy: the set is exactly the right one.

    Args:
        question: The question with its right answer.
        attempts: At least one statement.
        requests: Keys of the requests that made them.
    """
    last = attempts[-1]
    values = {
        "exact": last.returned == question.answer,
        **set_scores(last.returned, question.answer),
    }
    measures = {name: (float(value), 1.0) for name, value in values.items()}
    items = []
    for name in sorted(last.returned | question.answer):
        item = Item(name, gold=name in question.answer, predicted=name in last.returned)
        items.append(item)
    return Answer(
        answer=last.cypher,
        items=items,
        measures={**measures, "seconds": (last.seconds, 1.0)},
        requests=requests,
    )


def cypher_prompt(schema: str, question: str) -> list[Message]:
    """Build the prompt: the schema and two examples, which all questions share, come first."""
    return chat_messages(INSTRUCTION.format(schema=schema), question, EXAMPLES)


@dataclass(frozen=True)
class TextToCypher:
    """The model writes the Cypher; what fails or finds nothing goes back to it.

    Attributes:
        llm: The LLM that writes.
        graph: The graph to read.
        schema: The graph's schema, for the prompt.
        repairs: How often a statement may go back.
        max_tokens: Longest statement, in tokens.
    """

    llm: LLM
    graph: Graph
    schema: str
    repairs: int = 1
    max_tokens: int = 160

    def __call__(self, questions: Sequence[FormQuestion]) -> list[Answer]:
        """Answer each question."""
        prompts = [cypher_prompt(self.schema, question.text) for question in questions]
        turns = write_and_run(
            self.llm, self.graph, prompts, repairs=self.repairs, max_tokens=self.max_tokens
        )
        answers = []
        for question, attempts_with_replies in zip(questions, turns, strict=True):
            attempts = [attempt for attempt, _ in attempts_with_replies]
            requests = [reply.key for _, reply in attempts_with_replies]
            answers.append(make_answer(question, attempts, requests))
        return answers


@dataclass(frozen=True)
class WrittenCypher:
    """The ceiling: the query of the question's form with its names as parameters, no model."""

    graph: Graph

    def __call__(self, questions: Sequence[FormQuestion]) -> list[Answer]:
        """Answer each question."""
        answers = []
        for question in questions:
            attempt = run_form(self.graph, question.form, question.parameters)
            answers.append(make_answer(question, [attempt]))
        return answers


def run_form(graph: Graph, form: Form, parameters: Mapping[str, Any]) -> Attempt:
    """Run the query of a form."""
    result = graph.read_untrusted(form.cypher, **parameters)
    names = frozenset(str(row["answer"]) for row in result.rows)
    return Attempt(form.cypher, names, seconds=result.seconds)


CHOOSING = "Which form has the question? Answer with its name only.\n\n"


class NamedForm(Protocol):
    """A form that a model can choose."""

    @property
    def name(self) -> str:
        """Id of the form."""

    @property
    def meaning(self) -> str:
        """What it asks for, in words for the model."""


def choosing_prompt(question: str, forms: Sequence[NamedForm] = FORMS) -> list[Message]:
    """Build the prompt: the forms and what each asks for, then the question."""
    meanings = [f"{form.name}: {form.meaning}" for form in forms]
    return chat_messages(CHOOSING + "\n".join(meanings), question)


@dataclass(frozen=True)
class ChosenQuery:
    """The model only picks the form; the query is the form's own.

    Attributes:
        llm: The LLM that picks.
        graph: The graph to read.
        vocabulary: Finds the names in a question.
    """

    llm: LLM
    graph: Graph
    vocabulary: Vocabulary

    def __call__(self, questions: Sequence[FormQuestion]) -> list[Answer]:
        """Answer each question."""
        forms = {form.name: form for form in FORMS}
        prompts = [choosing_prompt(question.text) for question in questions]
        choices = self.llm.choose_many(prompts, choices=list(forms), label="choose a query")
        answers = []
        for question, choice in zip(questions, choices, strict=True):
            attempt = self._run(forms[choice.answer], question.text)
            answers.append(make_answer(question, [attempt], [choice.key]))
        return answers

    def _run(self, form: Form, text: str) -> Attempt:
        try:
            parameters = read_parameters(form.cypher, text, self.vocabulary)
            return run_form(self.graph, form, parameters)
        except LookupError:
            return Attempt(form.cypher)  # a name that the query needs is not in the question


NUMBER_PATTERN = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<percent> ?%)?")
"""A number, with or without a per cent sign."""
PARAMETER_PATTERN = re.compile(r"\$(\w+)")
"""A parameter of a query."""


def read_parameters(cypher: str, text: str, vocabulary: Vocabulary) -> Parameters:
    """Read the parameters of a query off a question, without a model.

    Args:
        cypher: The query that needs the parameters.
        text: The question.
        vocabulary: The names that a question may use.

    Raises:
        LookupError: The question lacks one.
    """
    linked = vocabulary.link(text)
    parameters: Parameters = {}
    for name in dict.fromkeys(PARAMETER_PATTERN.findall(cypher)):
        if name == "a":
            parameters[name] = linked["drug"][0]
        elif name == "b":
            parameters[name] = linked["drug"][1]
        elif name == "share":
            parameters[name] = _read_share(text)
        elif name == "n":
            parameters[name] = _read_count(text)
        elif name == "side_effect":
            parameters[name] = linked["effect"][0]
        else:
            parameters[name] = linked[name][0]
    return parameters


def _read_share(text: str) -> float:
    for match in NUMBER_PATTERN.finditer(text):
        if match["percent"]:
            return float(match["number"]) / 100
    raise LookupError("The question has no number for share.")


def _read_count(text: str) -> int:
    for match in NUMBER_PATTERN.finditer(text):
        if not match["percent"] and match["number"].isdigit():
            return int(match["number"])
    raise LookupError("The question has no number for n.")
