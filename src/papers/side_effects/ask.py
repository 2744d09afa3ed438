"""Ask the graph in words: a question, the names in it, the Cypher, the evidence, and the answer.

The label is locked (`label_lock`). Names travel as parameters, never as text of a query.
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

ROWS = 50  # names that an answer in words lists at most; the evidence holds all of them

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
        rf"(?:what|which)(?: are| is)?(?: the)?(?: known)? {_THING} (?:of|with|from|does|do|has|have) "
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
    "forward": "MATCH (d:Drug {name: $drug})-[r:may_cause_side_effect]->(e:SideEffect {name: $effect})\n"
    "RETURN d.name AS drug, e.name AS side_effect, r.frequency AS frequency",
    "reverse": "MATCH (d:Drug)-[r:may_cause_side_effect]->(e:SideEffect {name: $effect})\n"
    "RETURN d.name AS drug, r.frequency AS frequency ORDER BY drug",
    "effects": "MATCH (d:Drug {name: $drug})-[r:may_cause_side_effect]->(e:SideEffect)\n"
    "RETURN e.name AS side_effect, r.frequency AS frequency ORDER BY side_effect",
}


@dataclass(frozen=True)
class Answer:
    """What became of a question: forward (a drug and an effect), reverse (an effect), effects (a drug), or unread.

    The query is empty if a name was not found or the question not understood. The rows are the evidence. The label is
    whether the pair of a forward question is listed.
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
    """Answer a question from the graph; one that is not understood or names what is not there is told so.

    `EXAMPLES` shows the forms that are understood. The vocabulary is read from the graph if left out. The language
    model words the answer to a forward question; its wording is replaced where it does not say what the graph says.
    """
    vocabulary = vocabulary or Vocabulary.read(graph)
    kind, spans = parse(question, vocabulary)
    names = tuple(vocabulary.normalise(text, role) for role, text in spans.items())
    if kind == "unread" or any(name.name is None for name in names):
        return Answer(question, kind, names, "", {}, [], None, _not_found(kind, names))
    parameters = {name.role: name.name for name in names}
    rows = graph.read(CYPHER[kind], **parameters)
    label = bool(rows) if kind == "forward" else None
    return Answer(
        question,
        kind,
        names,
        CYPHER[kind],
        parameters,
        rows,
        label,
        _worded(kind, names, rows, llm),
    )


def parse(question: str, vocabulary: Vocabulary) -> tuple[str, dict[str, str]]:
    """The kind of a question and the names in it as written, by role; ("unread", {}) if it has none of the forms.

    Of several ways to read it, the one whose names the graph has word for word is taken, else the first.
    """
    text = " ".join(question.split()).rstrip("?!. ")
    readings = []
    for kind, pattern in PATTERNS:
        if match := re.fullmatch(pattern, text, re.IGNORECASE):
            bare = {
                role: re.sub(r"(?i)^(?:the|an?) ", "", of.strip(" \"'`"))
                for role, of in match.groupdict().items()
            }
            readings.append((kind, bare))
    exact = (
        r
        for r in readings
        if all(vocabulary.normalise(t, role).distance == 0 for role, t in r[1].items())
    )
    return next(exact, readings[0] if readings else ("unread", {}))


def _not_found(kind: str, names: Sequence[Normalised]) -> str:
    if kind == "unread":
        return f"This question has none of the forms that are understood. For example: {' '.join(EXAMPLES)}"
    words = {"drug": "drug", "effect": "side effect"}
    return " ".join(
        f"The graph has no {words[name.role]} {name.written!r}. Nearest: {', '.join(name.nearest) or 'none'}."
        for name in names
        if name.name is None
    )


def _worded(
    kind: str, names: Sequence[Normalised], rows: Sequence[Mapping[str, Any]], llm: LLM | None
) -> str:
    of = {name.role: str(name.name) for name in names}
    if kind == "forward":
        drug, effect, listed = of["drug"], of["effect"], bool(rows)
        wording = ""
        if llm is not None:
            wording = llm.chat_many(
                [locked_prompt(drug, effect, listed=listed)], max_tokens=48, label="word"
            )[0].text
        text = lock(drug, effect, listed=listed, wording=wording)[0]
        if rows and rows[0]["frequency"]:
            text += (
                f" Stated frequency: at least {figures.number(rows[0]['frequency'])} of patients."
            )
    elif kind == "reverse":
        text = f"{_listing([row['drug'] for row in rows], 'drug')} listed with {of['effect']}"
    else:
        text = f"{_listing([row['side_effect'] for row in rows], 'side effect')} listed for {of['drug']}"
    read_as = [f"{name.written} was read as {name.name}" for name in names if name.distance]
    return " ".join([text.rstrip(".") + ".", *(f"({reading}.)" for reading in read_as)])


def _listing(names: Sequence[str], what: str) -> str:
    if not names:
        return f"No {what} is"
    count = f"{_count(names, what)} {'is' if len(names) == 1 else 'are'}"
    shown = "; ".join(names[:ROWS]) + (
        f"; and {len(names) - ROWS:,} more" if len(names) > ROWS else ""
    )
    return f"{shown}: {count}"


def _count(things: Sequence[object], what: str) -> str:
    return f"{len(things):,} {what}{'' if len(things) == 1 else 's'}"


def show(given: Answer, *, sample: bool = False) -> figures.Html:
    """An answer as a table: each step, and what came of it."""
    read = "; ".join(
        f"{name.role}: {name.written} → {name.name or 'not found'}"
        + (f" ({_count(range(name.distance), 'edit')})" if name.name and name.distance else "")
        for name in given.names
    )
    evidence = "; ".join(
        ", ".join(f"{k}: {v}" for k, v in row.items() if v is not None) for row in given.rows[:5]
    )
    more = f"; and {len(given.rows) - 5:,} more rows" if len(given.rows) > 5 else ""
    results = {
        "understand the question": given.kind,
        "normalise the names": read,
        "ask the graph": f"{given.cypher}   parameters: {given.parameters}"
        if given.cypher
        else "not asked",
        "evidence": f"{_count(given.rows, 'row')}: {evidence}{more}" if given.rows else "no rows",
        "word the answer": given.text,
    }
    return figures.table(
        pd.DataFrame(results.items(), columns=["step", "result"]), given.question, sample=sample
    )
