"""Forward queries of side_effects.md: is E an adverse effect of drug D?

An arm is a system under comparison. It takes questions and returns one answer per
question. Arms with retrieval look up whether a source lists the pair, and hand the
result to the LLM as one sentence.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from evaluation.answers import Answer, make_row
from evaluation.audit import PLACE
from helpers.completions import Reply, label_probability
from helpers.graph import Graph
from helpers.llm import LLM
from helpers.thoughts import without_thought
from papers.side_effects.corpus import (
    QUESTION,
    Entities,
    Question,
    TextStore,
    find_term,
    yes_no_answer,
)
from rag.prompts import Message, chat_messages, user_message
from rag.replies import answer_text, bare_name

ARMS = ("closed_book", "format_a", "format_b", "graphrag")
MODELS = {"qwen": "table1", "llama": "table2"}
"""The table of the paper that holds the results of each model."""
METRICS = ("accuracy", "f1", "precision", "sensitivity", "specificity")


# A short answer saves time: one generated token costs as much as ten prompt tokens.
RECOGNITION = (
    "Extract the drug and the side effect from the question. Copy both exactly as they "
    "are written. Answer in one line: the drug, a vertical bar, the side effect."
)
RECOGNITION_EXAMPLES = (
    ("drugname", "ringing in the left ear"),
    ("compound 17-x", "itching, severe"),
)
"""Invented pairs of a drug and a side effect: a test item must never be in a prompt."""

ENTITIES_PATTERN = re.compile(
    r"^\s*(?:drug\s*:\s*)?(?P<drug>[^|\n]+?)"
    r"\s*\|\s*(?:side\s*effect\s*:\s*)?(?P<side_effect>[^|\n]+)",
    re.IGNORECASE,
)


def recognition_prompt(question: Question) -> list[Message]:
    """Build the prompt that asks for the drug and the side effect of a question."""
    examples = []
    for drug, side_effect in RECOGNITION_EXAMPLES:
        example_question = QUESTION.format(side_effect=side_effect, drug=drug)
        examples.append((example_question, f"{drug} | {side_effect}"))
    return chat_messages(RECOGNITION, question.text, examples)


def parse_entities(reply: str) -> Entities:
    """Read the two names from the LLM's reply, for example ``metformin | nausea``.

    Args:
        reply: The text of the reply.

    Returns:
        The names in lower case, or empty names if the reply has another form.
    """
    match = ENTITIES_PATTERN.search(answer_text(reply).strip("| \n"))
    if match is None:
        return Entities()
    return Entities(_clean_name(match["drug"]), _clean_name(match["side_effect"]))


def _clean_name(text: str) -> str:
    return bare_name(text.splitlines()[0]).lower()


def recognise_entities(llm: LLM, questions: Sequence[Question]) -> list[Entities]:
    """Extract drug and side effect with an LLM (Methods, "Entity recognition module").

    Args:
        llm: The LLM to ask.
        questions: Questions of the form "Is E an adverse effect of D?".

    Returns:
        The entities of each question, with the key of the request that gave them.
    """
    replies = llm.chat_many(
        [recognition_prompt(question) for question in questions],
        max_tokens=64,
        temperature=0.1,
        top_p=0.9,
        stop=["\n"],
        label="entity recognition",
    )
    return [replace(parse_entities(reply.text), request=reply.key) for reply in replies]


INSTRUCTION = (
    "You are asked to answer the following question with a single word: YES or NO. "
    "Base your answer strictly on the RAG Results provided below. After your YES or NO "
    "answer, briefly explain your reasoning using the information from the RAG "
    "Results. Do not infer or speculate beyond the information provided. "
    "Question:\n\n"
)
"""The prompt with evidence (Results, "Prompt structure")."""

INSTRUCTION_CLOSED_BOOK = (
    "You are asked to answer the following question with a single word: YES or NO. "
    "After your YES or NO answer, briefly explain your reasoning. Question:\n\n"
)
"""The same prompt without the sentences about evidence."""

LABEL_PATTERN = re.compile(r"^\W*(yes|no)\b", re.IGNORECASE)
"""A reply that begins with the label."""


@dataclass(frozen=True)
class Generator:
    """An LLM with the decoding parameters of the paper (Methods, "LLM inference").

    Attributes:
        llm: The LLM to ask.
        max_tokens: Longest reply, in tokens.
        temperature: Sampling temperature.
        top_p: Probability mass of nucleus sampling.
        stop: Strings that end a reply.
    """

    llm: LLM
    max_tokens: int = 512
    temperature: float = 0.1
    top_p: float = 0.9
    stop: tuple[str, ...] = ()

    @property
    def sampling(self) -> dict[str, Any]:
        """Temperature and top_p, as keyword arguments of ``LLM.chat_many``."""
        return {"temperature": self.temperature, "top_p": self.top_p}

    def generate(self, prompts: Sequence[list[Message]], label: str) -> list[Reply]:
        """Ask for one reply per prompt.

        Args:
            prompts: The messages of each prompt.
            label: Name of this step in progress bars and in the record of the run.

        Returns:
            The replies in the order of ``prompts``, with the likeliest first tokens.
        """
        return self.llm.chat_many(
            prompts,
            max_tokens=self.max_tokens,
            stop=self.stop,
            logprobs=True,
            label=label,
            **self.sampling,
        )


def parse_label(reply: str, pattern: re.Pattern[str] = LABEL_PATTERN) -> bool | None:
    """Read YES or NO from a reply.

    Args:
        reply: The text of the reply.
        pattern: Regular expression whose first group is the label.

    Returns:
        True for YES, False for NO, or None if the pattern does not match.
    """
    match = pattern.search(without_thought(reply))
    if match is None and pattern is LABEL_PATTERN:
        match = pattern.search(answer_text(reply))
    if match is None:
        return None
    return match[1].lower() == "yes"


def closed_book_prompt(question: Question) -> list[Message]:
    """Build the prompt with the question alone."""
    return user_message(INSTRUCTION_CLOSED_BOOK + question.text)


def evidence_prompt(question: Question, evidence: str) -> list[Message]:
    """Build the prompt with the question and the sentence that retrieval produced."""
    return user_message(f"{INSTRUCTION}{question.text}\n\nRAG Results:\n\n{evidence}")


def text_evidence(entities: Entities, *, found: bool) -> str:
    """Write the sentence of the filtering module of text RAG (Fig. 1d)."""
    label = "Yes" if found else "No"
    listed = "listed" if found else "not listed"
    return (
        f"{label}, the side effect {entities.side_effect} is {listed} as an adverse "
        f"effect, adverse reaction or side effect of the drug {entities.drug}"
    )


def graph_evidence(entities: Entities, *, found: bool) -> str:
    """Write the sentence that GraphRAG makes of the query result (Fig. 2b)."""
    known = "known" if found else "not known"
    return (
        f"{entities.drug.capitalize()} is {known} to be associated with "
        f"{entities.side_effect} as a side effect"
    )


@dataclass(frozen=True)
class Evidence:
    """What retrieval found for one question.

    Attributes:
        entities: The pair that was looked up.
        found: Whether the source lists the pair.
        sentence: The result in words, for the prompt.
    """

    entities: Entities
    found: bool
    sentence: str


@dataclass(frozen=True)
class ClosedBook:
    """The LLM answers from its own knowledge."""

    generator: Generator

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        prompts = [closed_book_prompt(question) for question in questions]
        replies = self.generator.generate(prompts, label="closed-book")
        return [
            yes_no_answer(
                parse_label(reply.text),
                p_yes=label_probability(reply.first_token),
                reply=reply,
            )
            for reply in replies
        ]


@dataclass(frozen=True)
class TextRag:
    """Text RAG: search passages, filter them for the pair, hand the result to the LLM.

    The filter, not the LLM, reads the passages (Fig. 1c, d).

    Attributes:
        generator: The LLM that answers.
        store: The indexed passages.
        k: Number of passages to retrieve per question.
        recognised: Drug and side effect of each question.
        label: Name of the arm in progress bars and in the record of the run.
    """

    generator: Generator
    store: TextStore
    k: int
    recognised: Mapping[Question, Entities]
    label: str

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        evidence = self.retrieve(questions)
        return answer_with_evidence(self.generator, questions, evidence, self.label)

    def retrieve(self, questions: Sequence[Question]) -> list[Evidence]:
        """Look up the pair of each question in its ``k`` nearest passages."""
        if not questions:
            return []
        passages = self.store.search(questions, self.k)
        evidence = []
        for question, passage_ids in zip(questions, passages, strict=True):
            entities = self.recognised[question]
            found = any(self._lists_pair(passage_id, entities) for passage_id in passage_ids)
            sentence = text_evidence(entities, found=found)
            evidence.append(Evidence(entities, found, sentence))
        return evidence

    def _lists_pair(self, passage_id: int, entities: Entities) -> bool:
        if passage_id < 0:  # FAISS returns -1 if there are fewer than k passages
            return False
        drug, side_effects = self.store.pairs[passage_id]
        return drug == entities.drug and entities.side_effect in side_effects


@dataclass(frozen=True)
class GraphRag:
    """GraphRAG: query the graph for the edge and hand the result to the LLM.

    Source: Fig. 2b and Methods, "GraphRAG framework".

    Attributes:
        generator: The LLM that answers.
        graph: The graph of drugs and side effects.
        recognised: Drug and side effect of each question.
    """

    generator: Generator
    graph: Graph
    recognised: Mapping[Question, Entities]

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        evidence = self.retrieve(questions)
        return answer_with_evidence(self.generator, questions, evidence, "GraphRAG")

    def retrieve(self, questions: Sequence[Question]) -> list[Evidence]:
        """Look up the pair of each question in the graph."""
        evidence = []
        for question in questions:
            entities = self.recognised[question]
            found = edge_exists(self.graph, entities)
            sentence = graph_evidence(entities, found=found)
            evidence.append(Evidence(entities, found, sentence))
        return evidence


EDGE_QUERY = """
MATCH (d:Drug)-[:may_cause_side_effect]->(s:SideEffect)
WHERE d.name = $drug AND s.name = $side_effect
RETURN d.name AS drug, s.name AS side_effect
"""


def edge_exists(graph: Graph, entities: Entities) -> bool:
    """Whether the graph has an edge from the drug to the side effect."""
    rows = graph.read(EDGE_QUERY, drug=entities.drug, side_effect=entities.side_effect)
    return bool(rows)


def answer_with_evidence(
    generator: Generator,
    questions: Sequence[Question],
    evidence: Sequence[Evidence],
    label: str,
) -> list[Answer]:
    """Ask the LLM each question together with its evidence.

    Args:
        generator: The LLM that answers.
        questions: Questions, in the order of ``evidence``.
        evidence: What retrieval found for each question.
        label: Name of this step in progress bars and in the record of the run.

    Returns:
        One answer per question. Its requests are those of the entity recognition and of
        the answer.
    """
    prompts = [
        evidence_prompt(question, item.sentence)
        for question, item in zip(questions, evidence, strict=True)
    ]
    replies = generator.generate(prompts, label)
    answers = []
    for item, reply in zip(evidence, replies, strict=True):
        answer = yes_no_answer(
            parse_label(reply.text),
            p_yes=label_probability(reply.first_token),
            found=item.found,
            reply=reply,
        )
        requests = [key for key in (item.entities.request, reply.key) if key]
        answers.append(replace(answer, requests=requests))
    return answers


@dataclass(frozen=True)
class MajorityBaseline:
    """The floor: the same label for every question."""

    label: bool

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        return [yes_no_answer(self.label) for _ in questions]


@dataclass(frozen=True)
class LookupBaseline:
    """The ceiling: a lookup of the true names in the knowledge itself, without an LLM.

    Attributes:
        knowledge: The side effects of each drug.
    """

    knowledge: Mapping[str, Sequence[str]]

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        answers = []
        for question in questions:
            side_effects = self.knowledge.get(question.drug, ())
            answers.append(yes_no_answer(question.side_effect in side_effects))
        return answers


RELEASED_LABELS = {"YES": True, "NO": False}
"""Labels in the released files; any other, such as UNKNOWN, counts as unparsed."""

MAX_PROMPT_CHARACTERS: Final = 2000
"""Prompt length of the authors' client (`vllm_model.py`, `_safe_generate_response`)."""

FORMAT_A_PREAMBLE_CHARACTERS: Final = 371
"""Length of their Format A prompt before the list, without names (`rag_format_a`)."""


def read_released_answers(path: Path, arm: str, model: str) -> list[Answer]:
    """Read the predictions that the authors released.

    Args:
        path: JSON file whose ``detailed_results`` have one row per pair.
        arm: Name of the arm.
        model: Name of the model that answered.

    Returns:
        One answer per pair.
    """
    rows = json.loads(path.read_text(encoding="utf-8"))["detailed_results"]
    answers = []
    for row in rows:
        question = Question(row["drug"], row["side_effect"], bool(row["true_label"]))
        answer = yes_no_answer(RELEASED_LABELS.get(row["predicted"]))
        answers.append(make_row(answer, question, arm=arm, model=model, source="released"))
    return answers


def add_term_positions(
    rows: Sequence[Answer], questions: Iterable[Question], lists: Mapping[str, str]
) -> list[Answer]:
    """Measure where the side effect ends: in its Format A document, or in the authors' prompt.

    Args:
        rows: Answers of any arm.
        questions: The questions that they answer, and perhaps others.
        lists: The Format A document of each drug.

    Returns:
        The rows. Those of Format A whose pair is in the drug's list have the measure
        ``place``, in characters.
    """
    by_unit = {question.unit: question for question in questions}
    return [_with_term_position(row, by_unit[row.unit], lists) for row in rows]


def _with_term_position(row: Answer, question: Question, lists: Mapping[str, str]) -> Answer:
    if row.gold != "YES" or "format_a" not in row.arm:
        return row
    start = find_term(question.side_effect, lists[question.drug])
    if start < 0:
        return row
    end = start + len(question.side_effect)
    if row.source == "released" or row.arm == "authors_format_a":
        # The authors' LLM reads the list itself. Their prompt names the drug twice and
        # the side effect once before the list.
        end += FORMAT_A_PREAMBLE_CHARACTERS
        end += 2 * len(question.drug) + len(question.side_effect)
    return replace(row, measures={**row.measures, PLACE: (float(end), 1.0)})
