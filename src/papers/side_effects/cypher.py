"""From a question in words to an answer of the graph: the query written here, written by an LLM, or picked by one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from helpers.graph import CypherRejected, Graph
from helpers.llm import LLM
from papers.side_effects.facts import EDGES, LABELS, PROPERTIES, TYPES
from papers.side_effects.questions import FORMS, Answer, Asked, Form, Parameters
from papers.side_effects.vocabulary import Vocabulary

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
        returned: the names in its column.
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
        if last.cypher != self.asked.form.cypher and last.cypher in _WRITTEN:
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
    """Run a statement that a model wrote, read-only, and read its column of names: the only one, or `answer`."""
    if not cypher:
        return Attempt(cypher, problem="No statement: the reply holds none.")
    try:
        found = graph.read_untrusted(cypher, max_rows=max_rows, timeout=timeout)
    except CypherRejected as error:
        message = str(error)
        kind = "Stopped" if "was stopped" in message else "Refused" if "refused it" in message else "Not allowed"
        return Attempt(cypher, problem=f"{kind}: {message[:300]}")
    if found.truncated:
        return Attempt(cypher, problem=f"Too many rows: more than {max_rows}.", seconds=found.seconds)
    if not found.rows:
        return Attempt(cypher, problem="No rows: it matches nothing.", seconds=found.seconds)
    columns = list(found.rows[0])
    column = columns[0] if len(columns) == 1 else "answer"
    values = [row.get(column) for row in found.rows]
    if not all(isinstance(value, str) for value in values):
        there = ", ".join(columns)
        return Attempt(cypher, problem=f"Wrong column: one column of names, called answer, is needed; found {there}.")
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


_STRING = re.compile(r"'([^']*)'|\"([^\"]*)\"")
_NODE = r"\(\s*(\w*)\s*(?::\s*(\w+))?[^()]*\)"
_EDGE = re.compile(rf"(?={_NODE}\s*(<?)-\[\s*\w*\s*:\s*(\w+)[^\]]*\]-(>?)\s*{_NODE})")
_PROPERTY = re.compile(r"\b[A-Za-z_]\w*\.([A-Za-z_]\w*)|[{,]\s*(\w+)\s*:")


_NAMED = re.compile(r":\s*(\w+)\s*\{\s*name\s*:\s*(?:'([^']*)'|\"([^\"]*)\")")
_KIND = {"drug": "Drug", "a": "Drug", "b": "Drug", "effect": "SideEffect", "cls": "AtcClass", "organ": "OrganClass"}


def named(asked: Asked) -> dict[str, str]:
    """The names in a question, with the label of the node that each is the name of."""
    return {asked.parameters[role]: label for role, label in _KIND.items() if role in asked.parameters}


def slips(cypher: str, names: Mapping[str, str]) -> list[str]:
    """What is wrong with a statement at sight, whatever it is meant to ask.

    Args:
        cypher: the statement.
        names: of the question, with the label of each; any other text in quotes is a slip.
    """
    found = []
    if {a or b for a, b in _STRING.findall(cypher)} - set(names):
        found.append("a name that is not the question's")
    if any(label in LABELS and names.get(a or b, label) != label for label, a, b in _NAMED.findall(cypher)):
        found.append("a name as that of another kind of node")
    bare = _STRING.sub("''", cypher)
    nodes, edges = re.findall(_NODE, bare), _EDGE.findall(bare)
    used = {label for _, label in nodes if label} | {type_ for _, _, _, type_, *_ in edges}
    if used - LABELS - TYPES or {a or b for a, b in _PROPERTY.findall(bare)} - PROPERTIES:
        found.append("a label, type or property that the graph does not have")
    labels = {variable: label for variable, label in nodes if variable and label}
    if any(left and right for _, _, left, _, right, *_ in edges):
        # some servers read it as either direction, others refuse it
        found.append("an arrowhead at both ends of an edge")
    for a, label_a, left, type_, right, b, label_b in edges:
        ends = (label_a or labels.get(a), label_b or labels.get(b))
        both = bool(left) == bool(right)
        ways = [ends] * (both or bool(right)) + [ends[::-1]] * (both or bool(left))
        if type_ in TYPES and not any(_joins(start, type_, end) for start, end in ways):
            found.append("an edge between the wrong nodes or against its direction")
            break
    return found


def _joins(start: str | None, type_: str, end: str | None) -> bool:
    return any(type_ == t and start in (None, s) and end in (None, e) for s, t, e in EDGES)


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
            attempt = Attempt(form.cypher, problem="Name missing: a name that the query needs is not in the question.")
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
