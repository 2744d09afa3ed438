"""Ask the graph in words.

A question, the names in it, the Cypher, the evidence, and the answer. The label is locked
(`label_lock`). Names are sent as parameters, never as text of a query.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from evaluation import figures
from helpers.graph import Graph
from helpers.llm import LLM
from papers.side_effects.label_lock import lock, locked_prompt
from rag.names import Normalised, Vocabulary

MAX_LISTED = 50
"""Names that an answer in words lists at most; the evidence has all of them."""
MAX_SHOWN_ROWS = 5
"""Rows of the evidence that a table shows at most."""
ROLE_WORDS = {"drug": "drug", "effect": "side effect"}

_THING = r"(?:side effects?|adverse effects?|adverse (?:drug )?reactions?|adverse events?)"
_CAUSE = r"(?:causes?|leads? to|produces?|triggers?|gives?|induces?|brings? on)"
_MAY = r"(?:can |could |may |might |will )?"
_DRUGS = r"(?:which|what) (?:drugs?|medicines?|medications?)"
PATTERNS = (
    (
        "forward",
        rf"(?:is|are|can|could|may|might) (?P<effect>.+?) (?:be )?(?:an? )?(?:known )?{_THING} "
        r"(?:of|with|from) (?P<drug>.+)",
    ),
    ("forward", rf"(?:does|do|can|could|may|might|will) (?P<drug>.+?) {_CAUSE} (?P<effect>.+)"),
    ("reverse", rf"{_DRUGS} {_MAY}(?:{_CAUSE}|have|has) (?P<effect>.+?)(?: as an? {_THING})?"),
    (
        "effects",
        rf"(?:what|which)(?: are| is)?(?: the)?(?: known)? {_THING} "
        r"(?:of|with|from|does|do|has|have) "
        r"(?P<drug>.+?)(?: have| cause| lead to)?",
    ),
    ("effects", rf"what (?:does|do|can|could|may|might) (?P<drug>.+?) {_CAUSE}"),
)
"""The forms that are understood, with the names in them by role."""
EXAMPLES = (
    "Is nausea an adverse effect of metformin?",
    "Which drugs cause tinnitus?",
    "What are the side effects of metformin?",
)
CYPHER = {
    "forward": "MATCH (d:Drug {name: $drug})-[r:may_cause_side_effect]->"
    "(e:SideEffect {name: $effect})\n"
    "RETURN d.name AS drug, e.name AS side_effect, r.frequency AS frequency",
    "reverse": "MATCH (d:Drug)-[r:may_cause_side_effect]->(e:SideEffect {name: $effect})\n"
    "RETURN d.name AS drug, r.frequency AS frequency ORDER BY drug",
    "effects": "MATCH (d:Drug {name: $drug})-[r:may_cause_side_effect]->(e:SideEffect)\n"
    "RETURN e.name AS side_effect, r.frequency AS frequency ORDER BY side_effect",
}


@dataclass(frozen=True)
class Answer:
    """The answer to a question, with all that it was made from.

    Attributes:
        question: The question.
        kind: ``forward`` (a drug and an effect), ``reverse`` (an effect), ``effects`` (a drug), or
            ``unread``.
        names: The names in the question.
        cypher: The query; empty if a name was not found or the question not understood.
        parameters: The query's parameters.
        rows: The evidence.
        label: Whether the pair of a forward question is listed.
        text: The answer in words.
    """

    question: str
    kind: str
    names: tuple[Normalised, ...]
    cypher: str
    parameters: dict[str, Any]
    rows: list[dict[str, Any]]
    label: bool | None
    text: str

    def _repr_html_(self) -> str:
        return show(self).html

    def __str__(self) -> str:
        """The answer in words."""
        return self.text


def answer(
    question: str, graph: Graph, *, vocabulary: Vocabulary | None = None, llm: LLM | None = None
) -> Answer:
    """Answer a question from the graph.

    Args:
        question: The question; `EXAMPLES` shows the forms that are understood.
        graph: The graph to read.
        vocabulary: The names that the graph has; read from it if left out.
        llm: Words the answer to a forward question; its wording is replaced where it does not state
            what the graph states.

    Returns:
        The answer; where a name is unknown or the question is not understood, it states so.
    """
    vocabulary = vocabulary or Vocabulary.read(graph)
    kind, spans = parse(question, vocabulary)
    names = tuple(vocabulary.normalise(text, role) for role, text in spans.items())
    if kind == "unread":
        text = (
            "This question has none of the forms that are understood. "
            f"For example: {' '.join(EXAMPLES)}"
        )
        return Answer(question, kind, names, "", {}, [], None, text)
    if any(name.name is None for name in names):
        return Answer(question, kind, names, "", {}, [], None, _word_unknown_names(names))
    parameters = {name.role: name.name for name in names}
    rows = graph.read(CYPHER[kind], **parameters)
    label = bool(rows) if kind == "forward" else None
    text = _word_answer(kind, names, rows, llm)
    return Answer(question, kind, names, CYPHER[kind], parameters, rows, label, text)


def parse(question: str, vocabulary: Vocabulary) -> tuple[str, dict[str, str]]:
    """Read the kind of a question and the names in it.

    Of several ways to read it, the one whose names the graph has word for word counts, else the
    first.

    Returns:
        The kind and the names as written, by role; ``("unread", {})`` if it has none of the forms.
    """
    text = " ".join(question.split()).rstrip("?!. ")
    readings = []
    for kind, pattern in PATTERNS:
        match = re.fullmatch(pattern, text, re.IGNORECASE)
        if match:
            spans = {role: _bare_name(span) for role, span in match.groupdict().items()}
            readings.append((kind, spans))
    for kind, spans in readings:
        names = [vocabulary.normalise(span, role) for role, span in spans.items()]
        if all(name.distance == 0 for name in names):
            return kind, spans
    return readings[0] if readings else ("unread", {})


def _bare_name(span: str) -> str:
    """A name without quotes and article."""
    return re.sub(r"(?i)^(?:the|an?) ", "", span.strip(" \"'`"))


def _word_unknown_names(names: Sequence[Normalised]) -> str:
    sentences = []
    for name in names:
        if name.name is None:
            nearest = ", ".join(name.nearest) or "none"
            role = ROLE_WORDS[name.role]
            sentences.append(f"The graph has no {role} {name.written!r}. Nearest: {nearest}.")
    return " ".join(sentences)


def _word_answer(
    kind: str, names: Sequence[Normalised], rows: Sequence[Mapping[str, Any]], llm: LLM | None
) -> str:
    name_by_role = {name.role: str(name.name) for name in names}
    if kind == "forward":
        text = _word_pair(name_by_role["drug"], name_by_role["effect"], rows, llm)
    elif kind == "reverse":
        drugs = [row["drug"] for row in rows]
        text = f"{_word_list(drugs, 'drug')} listed with {name_by_role['effect']}"
    else:
        effects = [row["side_effect"] for row in rows]
        text = f"{_word_list(effects, 'side effect')} listed for {name_by_role['drug']}"
    sentences = [text.rstrip(".") + "."]
    for name in names:
        if name.distance:
            sentences.append(f"({name.written} was read as {name.name}.)")
    return " ".join(sentences)


def _word_pair(drug: str, effect: str, rows: Sequence[Mapping[str, Any]], llm: LLM | None) -> str:
    listed = bool(rows)
    wording = ""
    if llm is not None:
        prompt = locked_prompt(drug, effect, listed=listed)
        (reply,) = llm.chat_many([prompt], max_tokens=48, label="word")
        wording = reply.text
    text, _ = lock(drug, effect, listed=listed, wording=wording)
    if rows and rows[0]["frequency"]:
        frequency = figures.number(rows[0]["frequency"])
        text += f" Stated frequency: at least {frequency} of patients."
    return text


def _word_list(names: Sequence[str], noun: str) -> str:
    """Names and their number, up to the verb."""
    if not names:
        return f"No {noun} is"
    listed = "; ".join(names[:MAX_LISTED])
    if len(names) > MAX_LISTED:
        listed += f"; and {len(names) - MAX_LISTED:,} more"
    verb = "is" if len(names) == 1 else "are"
    return f"{listed}: {_count(len(names), noun)} {verb}"


def _count(n: int, noun: str) -> str:
    plural = "" if n == 1 else "s"
    return f"{n:,} {noun}{plural}"


def show(answered: Answer, *, sample: bool = False) -> figures.Html:
    """Show an answer as a table of the steps and their results."""
    query = "not asked"
    if answered.cypher:
        query = f"{answered.cypher}   parameters: {answered.parameters}"
    results = {
        "understand the question": answered.kind,
        "normalise the names": "; ".join(_describe_name(name) for name in answered.names),
        "ask the graph": query,
        "evidence": _describe_rows(answered.rows),
        "word the answer": answered.text,
    }
    table = pd.DataFrame(results.items(), columns=["step", "result"])
    return figures.table(table, answered.question, sample=sample)


def _describe_name(name: Normalised) -> str:
    if not name.name:
        return f"{name.role}: {name.written} → not found"
    text = f"{name.role}: {name.written} → {name.name}"
    if name.distance:
        text += f" ({_count(name.distance, 'edit')})"
    return text


def _describe_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    if not rows:
        return "no rows"
    described = []
    for row in rows[:MAX_SHOWN_ROWS]:
        cells = [f"{column}: {value}" for column, value in row.items() if value is not None]
        described.append(", ".join(cells))
    text = f"{_count(len(rows), 'row')}: {'; '.join(described)}"
    if len(rows) > MAX_SHOWN_ROWS:
        text += f"; and {len(rows) - MAX_SHOWN_ROWS:,} more rows"
    return text
