"""From a question in words to an answer of the graph: the query written here, written by an LLM, or picked by one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from helpers.graph import Graph
from helpers.llm import LLM
from helpers.rag.names import Vocabulary
from helpers.rag.prompts import chat
from helpers.rag.text_to_cypher import Attempt, write_and_run
from helpers.results import figures
from helpers.results.answers import Answer, Item
from helpers.results.metrics import set_scores
from papers.side_effects.questions import FORMS, Asked, Form, Parameters

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

    The measure `exact` is execution accuracy: the set is exactly the right one. The stratum `outcome` says how it came
    about, or why it failed.

    Args:
        asked: the question.
        attempts: statements in their order.
        requests: keys of what was asked of a model.
    """
    last = attempts[-1]
    values = {
        "exact": last.returned == asked.answer,
        "first_try": last.returned == asked.answer and len(attempts) == 1,
        **set_scores(last.returned, asked.answer),
    }
    return Answer(
        answer=last.cypher,
        strata={"outcome": _outcome(asked, attempts)},
        items=[
            Item(name, gold=name in asked.answer, predicted=name in last.returned)
            for name in sorted(last.returned | asked.answer)
        ],
        measures={name: (float(value), 1.0) for name, value in values.items()} | {"seconds": (last.seconds, 1.0)},
        requests=requests,
    )


def _outcome(asked: Asked, attempts: Sequence[Attempt]) -> str:
    last, right = attempts[-1], asked.answer
    if last.returned == right:
        return "right at the first try" if len(attempts) == 1 else "right after a repair"
    if last.cypher != asked.form.cypher and last.cypher in _WRITTEN:
        return "another query picked"
    if last.problem:
        return _PROBLEMS.get(last.problem.split(":")[0], "statement refused by the server")
    if last.returned < right:
        return "some names missing"
    if last.returned > right:
        return "names too many"
    return "other names" if last.returned.isdisjoint(right) else "some missing, some too many"


_WRITTEN = frozenset(form.cypher for form in FORMS)
_PROBLEMS = {
    "No statement": "no statement in the reply",
    "Name missing": "a name not found in the question",
    "No rows": "no rows",
    "Wrong column": "wrong column returned",
    "Too many rows": "more than 100 rows",
    "Stopped": "ran too long",
    "Not allowed": "more than reading",
}


def cypher_prompt(schema: str, question: str) -> list[dict[str, str]]:
    """The schema and two examples first, so that all questions share them, then the question."""
    return chat(INSTRUCTION.format(schema=schema), question, EXAMPLES)


def text_to_cypher(llm: LLM, graph: Graph, schema: str, *, repairs: int = 1, max_tokens: int = 160) -> Arm:
    """The model writes the Cypher; a statement that fails or finds nothing goes back to it with the problem.

    Args:
        llm: the model.
        graph: where the statements run, read-only.
        schema: its schema as text.
        repairs: how often a statement may go back.
        max_tokens: longest reply.
    """

    def arm(questions: Sequence[Asked]) -> list[Answer]:
        prompts = [cypher_prompt(schema, question.text) for question in questions]
        tried = write_and_run(llm, graph, prompts, repairs=repairs, max_tokens=max_tokens)
        return [
            returned(question, [attempt for attempt, _ in of], [reply.key for _, reply in of])
            for question, of in zip(questions, tried, strict=True)
        ]

    return arm


def written_cypher(graph: Graph) -> Arm:
    """The ceiling: the query of the question's form with its names as parameters, no model."""

    def one(question: Asked) -> Answer:
        found = graph.read_untrusted(question.form.cypher, **question.parameters)
        return returned(question, [Attempt(question.form.cypher, _names(found.rows), "", found.seconds)])

    return lambda questions: [one(question) for question in questions]


def _names(rows: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    return frozenset(str(row["answer"]) for row in rows)


# ------------------------------------------------------------------------------------------------- choosing the query

CHOOSING = "Which form has the question? Answer with its name only.\n\n"


def choosing_prompt(question: str) -> list[dict[str, str]]:
    """The forms and what each asks for, then the question."""
    forms = "\n".join(f"{form.name}: {form.meaning}" for form in FORMS)
    return chat(CHOOSING + forms, question)


def chosen_query(llm: LLM, graph: Graph, vocabulary: Vocabulary) -> Arm:
    """The model only picks the form; the names come from the vocabulary, the query is the form's own."""
    by_name = {form.name: form for form in FORMS}

    def run(form: Form, text: str) -> Attempt:
        try:
            found = graph.read_untrusted(form.cypher, **read_parameters(form, text, vocabulary))
        except LookupError:
            return Attempt(form.cypher, problem="Name missing: a name that the query needs is not in the question.")
        problem = "" if found.rows else "No rows: it matches nothing."
        return Attempt(form.cypher, _names(found.rows), problem, found.seconds)

    def arm(questions: Sequence[Asked]) -> list[Answer]:
        choices = llm.choose_many([choosing_prompt(q.text) for q in questions], list(by_name), label="choose a query")
        return [
            returned(question, [run(by_name[choice.answer], question.text)], [choice.key])
            for question, choice in zip(questions, choices, strict=True)
        ]

    return arm


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
