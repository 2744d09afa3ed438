"""Drug side effects (side_effects.md): the arms, and the authors' released predictions.

The paper asks "Is E an adverse effect of D?" of a closed-book LLM, of text RAG over two formats of SIDER, and of a
graph. Here each arm is one function of the same signature: questions in, predictions out.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from helpers.completions import Choice, Reply, label_probability
from helpers.graph import Graph
from helpers.llm import LLM
from helpers.rag.prompts import chat
from helpers.results.answers import Answer, answered
from helpers.results.audit import PLACE
from helpers.results.intervals import Column
from helpers.results.metrics import Score, ratio, threshold
from papers.side_effects.corpus import QUESTION, Question, TextStore, place_of

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
# The paper prints no closed-book prompt, so its wording is open; these differ in what a model may fall for.
CLOSED_BOOK_WORDINGS = {
    "as the retrieval arms ask": INSTRUCTION_CLOSED_BOOK,
    "no explanation asked": "You are asked to answer the following question with a single word: YES or NO. "
    "Question:\n\n",
    "label first": "Answer with a single word, YES or NO. ",
}
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


Arm = Callable[[Sequence[Question]], list[Answer]]
"""An architecture under comparison: questions in, one answer for each out."""


def said(
    label: bool | None, *, p_yes: float | None = None, handed: bool | None = None, reply: Reply | Choice | None = None
) -> Answer:
    """One answer of an arm.

    Args:
        label: True for YES, False for NO, None where neither was found in the reply.
        p_yes: probability of YES against NO at the first token. Where neither is among the likeliest, the measure of
            that name takes what the label says: 1, 0 or one half.
        handed: whether retrieval found the pair; None for an arm that retrieves nothing.
        reply: the LLM's; None for an arm without an LLM.
    """
    of_label = {True: 1.0, False: 0.0, None: 0.5}[label]
    words = {True: "YES", False: "NO", None: None}[label]
    return Answer(
        answer=words if reply is None else getattr(reply, "text", words),
        predicted=words,
        parsed=label is not None,
        measures={"p_yes": (of_label if p_yes is None else p_yes, 1.0)}
        | ({} if handed is None else {"handed": (float(handed), 1.0)}),
        requests=[] if reply is None else [reply.key],
    )


def share_of(hits: Column, clusters: Column) -> Score:
    """Share of hits with its 95 % interval over what belongs together (drugs, queries).

    Whole clusters are drawn; where every row is one of its own, the interval is Wilson's.

    Args:
        hits: (n,) True or False.
        clusters: (n,) names of what rows belong together.

    Raises:
        ValueError: there are no rows.
    """
    return ratio(hits, np.ones(len(hits)), clusters=clusters)


# ------------------------------------------------------------------------------------------------ entity recognition


@dataclass(frozen=True)
class Entities:
    """Drug and side effect as an LLM read them from a question; empty where the line could not be parsed.

    `request` is the key of the request that read them, and tells no two of them apart.
    """

    drug: str = ""
    side_effect: str = ""
    request: str = field(default="", compare=False)


_ENTITIES = re.compile(
    r"^\s*(?:drug\s*:\s*)?(?P<drug>[^|\n]+?)\s*\|\s*(?:side\s*effect\s*:\s*)?(?P<effect>[^|\n]+)", re.IGNORECASE
)


def parse_entities(reply: str) -> Entities:
    """The second stage of the paper's entity recognition: a regular expression over the LLM's line."""
    found = _ENTITIES.search(reply)
    if not found:
        return Entities()
    drug, effect = (_clean(found[name]) for name in ("drug", "effect"))
    return Entities(drug, effect)


def _clean(text: str) -> str:
    return text.splitlines()[0].strip().strip("\"'`*").removesuffix(".").strip().lower()


def recognition_prompt(question: Question) -> list[dict[str, str]]:
    """The first stage: the messages that ask the LLM for the two names, with two made-up examples."""
    examples = [
        (QUESTION.format(side_effect=effect, drug=drug), f"{drug} | {effect}") for drug, effect in RECOGNITION_EXAMPLES
    ]
    return chat(RECOGNITION, question.text, examples)


def recognise(
    llm: LLM, questions: Sequence[Question], *, temperature: float = 0.1, top_p: float = 0.9
) -> list[Entities]:
    """Drug and side effect of each question: temperature 0.1, then regex (Methods, "Entity recognition module").

    They are read from the question, as the Results say; the Methods read them from the retrieved context.
    """
    replies = llm.chat_many(
        [recognition_prompt(q) for q in questions],
        max_tokens=64,
        temperature=temperature,
        top_p=top_p,
        stop=["\n"],
        label="entity recognition",
    )
    return [replace(parse_entities(reply.text), request=reply.key) for reply in replies]


# --------------------------------------------------------------------------------------------------------------- arms


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
        return self.llm.chat_many(
            prompts,
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            stop=self.stop,
            logprobs=True,
            label=label,
        )


LABEL = re.compile(r"^\W*(yes|no)\b", re.IGNORECASE)
"""How a reply begins that can be read."""


def parse_label(reply: str) -> bool | None:
    """YES or NO if the reply begins with it, whatever its case; else None, to be counted."""
    found = LABEL.match(reply)
    return None if found is None else found[1].lower() == "yes"


def closed_book_prompt(question: Question, instruction: str = INSTRUCTION_CLOSED_BOOK) -> list[dict[str, str]]:
    """The question alone."""
    return [{"role": "user", "content": instruction + question.text}]


def evidence_prompt(question: Question, evidence: str) -> list[dict[str, str]]:
    """The question followed by what retrieval found, as one sentence."""
    return [{"role": "user", "content": f"{INSTRUCTION}{question.text}\n\nRAG Results:\n\n{evidence}"}]


def text_evidence(entities: Entities, *, found: bool) -> str:
    """The sentence that the filtering module of text RAG writes."""
    if found:
        return (
            f"Yes, the side effect {entities.side_effect} is listed as an adverse effect, adverse reaction or side "
            f"effect of the drug {entities.drug}"
        )
    return (
        f"No, the side effect {entities.side_effect} is not listed as an adverse effect, adverse reaction or side "
        f"effect of the drug {entities.drug}"
    )


def graph_evidence(entities: Entities, *, found: bool) -> str:
    """The sentence that GraphRAG makes of the Cypher query's answer."""
    negation = "" if found else "not "
    return (
        f"{entities.drug.capitalize()} is {negation}known to be associated with {entities.side_effect} as a side effect"
    )


def closed_book(asking: Asking, instruction: str = INSTRUCTION_CLOSED_BOOK) -> Arm:
    """The LLM alone."""

    def arm(questions: Sequence[Question]) -> list[Answer]:
        replies = asking.answers([closed_book_prompt(q, instruction) for q in questions], "closed-book")
        return [said(parse_label(r.text), p_yes=label_probability(r.first_token), reply=r) for r in replies]

    return arm


def constrained_closed_book(llm: LLM, instruction: str = INSTRUCTION_CLOSED_BOOK) -> Arm:
    """The LLM alone, decoding constrained to YES or NO, at temperature 0."""

    def arm(questions: Sequence[Question]) -> list[Answer]:
        prompts = [closed_book_prompt(q, instruction) for q in questions]
        choices = llm.choose_many(prompts, ["YES", "NO"], label="closed-book, constrained")
        return [said(c.answer == "YES", p_yes=math.exp(c.logprobs["YES"]), reply=c) for c in choices]

    return arm


def text_rag(asking: Asking, store: TextStore, k: int, recognised: Mapping[Question, Entities], label: str) -> Arm:
    """Text RAG: retrieve k units, check whether one of them states the pair, tell the LLM (Fig. 1c, d).

    The filter, not the LLM, reads the retrieved text: the LLM sees its verdict as a sentence.
    """

    def arm(questions: Sequence[Question]) -> list[Answer]:
        hits: Iterable[NDArray[np.int64]] = store.search(questions, k) if questions else ()
        found = []
        for question, numbers in zip(questions, hits, strict=True):
            e = recognised[question]
            units = (store.pairs[i] for i in numbers if i >= 0)
            found.append(any(drug == e.drug and e.side_effect in effects for drug, effects in units))
        return _answer_from_evidence(asking, questions, recognised, found, text_evidence, label)

    return arm


def graph_rag(asking: Asking, graph: Graph, recognised: Mapping[Question, Entities]) -> Arm:
    """GraphRAG: ask the graph for the edge, tell the LLM (Fig. 2b; Methods, "GraphRAG framework")."""

    def arm(questions: Sequence[Question]) -> list[Answer]:
        found = [edge_exists(graph, recognised[q]) for q in questions]
        return _answer_from_evidence(asking, questions, recognised, found, graph_evidence, "GraphRAG")

    return arm


EDGE = """
MATCH (d:Drug)-[:may_cause_side_effect]->(s:SideEffect)
WHERE d.name = $drug AND s.name = $side_effect
RETURN d.name AS drug, s.name AS side_effect
"""


def edge_exists(graph: Graph, entities: Entities) -> bool:
    """Whether the graph has the edge, by the paper's query with its values as parameters."""
    return bool(graph.read(EDGE, drug=entities.drug, side_effect=entities.side_effect))


def _answer_from_evidence(
    asking: Asking,
    questions: Sequence[Question],
    recognised: Mapping[Question, Entities],
    found: Sequence[bool],
    sentence: Callable[..., str],
    label: str,
) -> list[Answer]:
    prompts = [evidence_prompt(q, sentence(recognised[q], found=f)) for q, f in zip(questions, found, strict=True)]
    replies = asking.answers(prompts, label)
    return [
        replace(
            said(parse_label(r.text), p_yes=label_probability(r.first_token), handed=f, reply=r),
            requests=[key for key in (recognised[q].request, r.key) if key],
        )
        for q, r, f in zip(questions, replies, found, strict=True)
    ]


def majority(label: bool) -> Arm:
    """The floor: the more frequent label, whatever is asked."""
    return lambda questions: [said(label) for _ in questions]


def lookup(knowledge: Mapping[str, Sequence[str]]) -> Arm:
    """The ceiling: a set in memory, asked with the true names and no LLM."""
    edges = {(d, e) for d, effects in knowledge.items() for e in effects}
    return lambda questions: [said((q.drug, q.side_effect) in edges) for q in questions]


def calibrated(rows: Sequence[Answer], held_out: Sequence[Answer]) -> list[Answer]:
    """The rows with the measure `calibrated`: accuracy with the threshold on P(YES) that is best on held-out drugs.

    A small model may rank the pairs well and still put its threshold in the wrong place.
    """
    moved = []
    for arm in dict.fromkeys(row.arm for row in held_out):
        taught = [row for row in held_out if row.arm == arm]
        cut = threshold([row.gold == "YES" for row in taught], [row.measures["p_yes"][0] for row in taught])
        for row in (row for row in rows if row.arm == arm):
            right = (row.measures["p_yes"][0] >= cut) == (row.gold == "YES")
            moved.append(replace(row, measures={**row.measures, "calibrated": (float(right), 1.0)}))
    arms = {row.arm for row in held_out}
    return [*moved, *(row for row in rows if row.arm not in arms)]


# ------------------------------------------------------------------------------------------ the authors' predictions


def released_answers(path: Path, arm: str, model: str) -> list[Answer]:
    """One released prediction file as rows: JSON with `detailed_results`, a row a pair. UNKNOWN is not parsed.

    Args:
        path: of the file.
        arm: whose answers they are.
        model: the paper's name of who answered.
    """
    table = pd.DataFrame(json.loads(path.read_text(encoding="utf-8"))["detailed_results"])
    labels = {"YES": True, "NO": False}
    return [
        answered(said(labels.get(answer)), Question(drug, effect, bool(label)), arm=arm, model=model, source="released")
        for drug, effect, label, answer in table[["drug", "side_effect", "true_label", "predicted"]].itertuples(
            index=False, name=None
        )
    ]


def released_name(arm: str, model: str) -> str:
    """The registry's name of an arm's released predictions; `model` is qwen or llama."""
    return f"side_effects/released/{arm}_{model}.json"


CUT: Final = 2000
"""Characters of a prompt that the authors' client sends (`vllm_model.py`, `_safe_generate_response`)."""
_AROUND: Final = 371
"""Characters of their Format A prompt before the first list, without drug and effect (`rag_format_a.py`)."""


def placed(rows: Sequence[Answer], format_a: Path) -> list[Answer]:
    """The rows; those on a pair of its drug's list also have `place`, where in the authors' prompt the effect ends.

    The drug's own list is taken for the first one retrieved. It follows the question, which has both names, and a line
    with the drug.

    Args:
        rows: of Format A.
        format_a: CSV with columns drug, text.
    """
    texts: dict[str, str] = dict(pd.read_csv(format_a)[["drug", "text"]].itertuples(index=False))
    made = []
    for row in rows:
        drug, _, effect = row.unit.partition(" | ")
        at = place_of(effect, texts[drug]) if row.gold == "YES" else -1
        place = {PLACE: (float(_AROUND + 2 * len(drug) + 2 * len(effect) + at), 1.0)} if at >= 0 else {}
        made.append(replace(row, measures={**row.measures, **place}))
    return made
