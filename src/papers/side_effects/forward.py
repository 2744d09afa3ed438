"""Is E an adverse effect of D? The arms of side_effects.md, questions in and answers out, and the released answers."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from evaluation.answers import Answer, make_row
from evaluation.audit import PLACE
from helpers.completions import Reply, label_probability
from helpers.graph import Graph
from helpers.llm import LLM
from papers.side_effects.corpus import QUESTION, Arm, Entities, Question, TextStore, place_of, said
from rag.prompts import arm_of, chat_messages, each, user_message

ARMS = ("closed_book", "format_a", "format_b", "graphrag")
MODELS = {"qwen": "table1", "llama": "table2"}
"""The paper's two models, by the table that holds their results."""
METRICS = ("accuracy", "f1", "precision", "sensitivity", "specificity")

# The prompt of "Prompt structure" in the paper's Results; without evidence it loses the sentences about evidence.
INSTRUCTION = (
    "You are asked to answer the following question with a single word: YES or NO. Base your answer strictly on the "
    "RAG Results provided below. After your YES or NO answer, briefly explain your reasoning using the information "
    "from the RAG Results. Do not infer or speculate beyond the information provided. Question:\n\n"
)
INSTRUCTION_CLOSED_BOOK = (
    "You are asked to answer the following question with a single word: YES or NO. After your YES or NO answer, "
    "briefly explain your reasoning. Question:\n\n"
)
# The answer is short because each token of it costs as much as ten of the question.
RECOGNITION = (
    "Extract the drug and the side effect from the question. Copy both exactly as they are written. Answer in one "
    "line: the drug, a vertical bar, the side effect."
)
# Neither pair is in any data set here: no test item may stand in a prompt.
RECOGNITION_EXAMPLES = (
    ("drugname", "ringing in the left ear"),
    ("compound 17-x", "itching, severe"),
)
_ENTITIES = re.compile(
    r"^\s*(?:drug\s*:\s*)?(?P<drug>[^|\n]+?)\s*\|\s*(?:side\s*effect\s*:\s*)?(?P<effect>[^|\n]+)",
    re.IGNORECASE,
)


def parse_entities(reply: str) -> Entities:
    """The second stage of the paper's entity recognition: a regular expression over the LLM's line."""
    found = _ENTITIES.search(reply)
    names = found.group("drug", "effect") if found else ()
    return Entities(
        *(
            name.splitlines()[0].strip().strip("\"'`*").removesuffix(".").strip().lower()
            for name in names
        )
    )


def recognition_prompt(question: Question) -> list[dict[str, str]]:
    """The first stage: the messages that ask the LLM for the two names, with two made-up examples."""
    examples = [
        (QUESTION.format(side_effect=effect, drug=drug), f"{drug} | {effect}")
        for drug, effect in RECOGNITION_EXAMPLES
    ]
    return chat_messages(RECOGNITION, question.text, examples)


def recognise(llm: LLM, questions: Sequence[Question]) -> list[Entities]:
    """Drug and side effect of each question: temperature 0.1, then regex (Methods, "Entity recognition module")."""
    prompts = [recognition_prompt(q) for q in questions]
    sampling: dict[str, Any] = {"temperature": 0.1, "top_p": 0.9, "stop": ["\n"]}
    replies = llm.chat_many(prompts, max_tokens=64, label="entity recognition", **sampling)
    return [replace(parse_entities(reply.text), request=reply.key) for reply in replies]


@dataclass(frozen=True)
class Asking:
    """How an arm asks its LLM (Methods, "LLM inference")."""

    llm: LLM
    max_tokens: int = 512
    temperature: float = 0.1
    top_p: float = 0.9
    stop: tuple[str, ...] = ()

    def answers(self, prompts: Sequence[list[dict[str, str]]], label: str) -> list[Reply]:
        """One free reply a prompt, with the likeliest first tokens."""
        more: dict[str, Any] = {"stop": self.stop, "logprobs": True, **self.sampling}
        return self.llm.chat_many(prompts, max_tokens=self.max_tokens, label=label, **more)

    @property
    def sampling(self) -> dict[str, Any]:
        """Temperature and top_p."""
        return {"temperature": self.temperature, "top_p": self.top_p}


LABEL = re.compile(r"^\W*(yes|no)\b", re.IGNORECASE)
"""How a reply begins that can be read."""


def parse_label(reply: str, label: re.Pattern[str] = LABEL) -> bool | None:
    """YES or NO if the reply begins with it, or as `label` says, whatever its case; else None, to be counted."""
    found = label.search(reply)
    return None if found is None else found[1].lower() == "yes"


def closed_book_prompt(question: Question) -> list[dict[str, str]]:
    """The question alone."""
    return user_message(INSTRUCTION_CLOSED_BOOK + question.text)


def evidence_prompt(question: Question, evidence: str) -> list[dict[str, str]]:
    """The question followed by what retrieval found, as one sentence."""
    return [
        {"role": "user", "content": f"{INSTRUCTION}{question.text}\n\nRAG Results:\n\n{evidence}"}
    ]


def text_evidence(entities: Entities, *, found: bool) -> str:
    """The sentence that the filtering module of text RAG writes."""
    label, listed = ("Yes", "listed") if found else ("No", "not listed")
    return (
        f"{label}, the side effect {entities.side_effect} is {listed} as an adverse effect, adverse reaction or side "
        f"effect of the drug {entities.drug}"
    )


def graph_evidence(entities: Entities, *, found: bool) -> str:
    """The sentence that GraphRAG makes of the Cypher query's answer."""
    negation = "" if found else "not "
    return (
        f"{entities.drug.capitalize()} is {negation}known to be associated with "
        f"{entities.side_effect} as a side effect"
    )


def closed_book(asking: Asking) -> Arm:
    """The LLM alone."""
    return each(
        partial(asking.answers, label="closed-book"),
        closed_book_prompt,
        lambda _, r: said(parse_label(r.text), p_yes=label_probability(r.first_token), reply=r),
    )


@arm_of
def _with_evidence(
    questions: Sequence[Question],
    asking: Asking,
    recognised: Mapping[Question, Entities],
    find: Callable[[Sequence[Question], Sequence[Entities]], Sequence[bool]],
    sentence: Callable[..., str],
    label: str,
) -> list[Answer]:
    entities = [recognised[question] for question in questions]
    found = find(questions, entities)
    told = (sentence(e, found=f) for e, f in zip(entities, found, strict=True))
    replies = asking.answers(
        [evidence_prompt(q, e) for q, e in zip(questions, told, strict=True)], label
    )
    return [
        replace(
            said(parse_label(r.text), p_yes=label_probability(r.first_token), handed=f, reply=r),
            requests=[key for key in (e.request, r.key) if key],
        )
        for e, f, r in zip(entities, found, replies, strict=True)
    ]


def text_rag(
    asking: Asking, store: TextStore, k: int, recognised: Mapping[Question, Entities], label: str
) -> Arm:
    """Text RAG: retrieve k units, check whether one of them states the pair, tell the LLM (Fig. 1c, d).

    The filter, not the LLM, reads the retrieved text: the LLM sees its verdict as a sentence.
    """

    def find(questions: Sequence[Question], entities: Sequence[Entities]) -> list[bool]:
        nearest = store.search(questions, k) if questions else ()
        return [
            any(store.pairs[i][0] == e.drug and e.side_effect in store.pairs[i][1] for i in numbers)
            for e, numbers in zip(entities, nearest, strict=True)
        ]

    return _with_evidence(asking, recognised, find, text_evidence, label)


def graph_rag(asking: Asking, graph: Graph, recognised: Mapping[Question, Entities]) -> Arm:
    """GraphRAG: ask the graph for the edge, tell the LLM (Fig. 2b; Methods, "GraphRAG framework")."""

    def find(_: Sequence[Question], entities: Sequence[Entities]) -> list[bool]:
        return [edge_exists(graph, e) for e in entities]

    return _with_evidence(asking, recognised, find, graph_evidence, "GraphRAG")


EDGE = """
MATCH (d:Drug)-[:may_cause_side_effect]->(s:SideEffect)
WHERE d.name = $drug AND s.name = $side_effect
RETURN d.name AS drug, s.name AS side_effect
"""


def edge_exists(graph: Graph, entities: Entities) -> bool:
    """Whether the graph has the edge, by the paper's query with its values as parameters."""
    return bool(graph.read(EDGE, drug=entities.drug, side_effect=entities.side_effect))


def majority(label: bool) -> Arm:
    """The floor: the more frequent label, whatever is asked."""
    return lambda questions: [said(label) for _ in questions]


def lookup(knowledge: Mapping[str, Sequence[str]]) -> Arm:
    """The ceiling: a set in memory, asked with the true names and no LLM."""
    edges = {(d, e) for d, effects in knowledge.items() for e in effects}
    return lambda questions: [said((q.drug, q.side_effect) in edges) for q in questions]


def released_answers(path: Path, arm: str, model: str) -> list[Answer]:
    """One released prediction file as rows: JSON with `detailed_results`, a row a pair. UNKNOWN is not parsed."""
    labels = {"YES": True, "NO": False}
    rows = json.loads(path.read_text(encoding="utf-8"))["detailed_results"]
    asked = [Question(row["drug"], row["side_effect"], bool(row["true_label"])) for row in rows]
    told = [said(labels.get(row["predicted"])) for row in rows]
    return [
        make_row(a, q, arm=arm, model=model, source="released")
        for a, q in zip(told, asked, strict=True)
    ]


CUT: Final = 2000
"""Characters of a prompt that the authors' client sends (`vllm_model.py`, `_safe_generate_response`)."""
_AROUND: Final = 371
"""Characters of their Format A prompt before the first list, without drug and effect (`rag_format_a.py`)."""


def placed(rows: Sequence[Answer], texts: Mapping[str, str]) -> list[Answer]:
    """The rows; those of Format A on a pair of its drug's list, in `texts`, get `place`: where in it the effect ends.

    A filter reads the list alone. In the authors' prompt the question, with both names, and a line with the drug stand
    before the first list, which is taken for the drug's own.
    """
    made = []
    for row in rows:
        drug, _, effect = row.unit.partition(" | ")
        at = place_of(effect, texts[drug]) if row.gold == "YES" and "format_a" in row.arm else -1
        before = (
            _AROUND + len(2 * drug + effect)
            if row.source == "released" or row.arm == "authors_format_a"
            else 0
        )
        place = {PLACE: (float(before + at + len(effect)), 1.0)} if at >= 0 else {}
        made.append(replace(row, measures={**row.measures, **place}))
    return made
