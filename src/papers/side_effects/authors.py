"""The authors' own prompts as arms of notebook 01, read from their released code.

The code of September 2025, behind the released answers, lacks its client; the client is that of
November. Unlike the paper's text, Format A has no filter, ten units are retrieved for both
formats, and the true names stand in for recognised ones. As in the client, a prompt is cut to
2,000 characters. `resources.authors_code` reads the files.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from evaluation.answers import Answer
from helpers.completions import label_probability
from helpers.graph import Graph
from papers.side_effects.corpus import (
    Arm,
    Entities,
    Question,
    TextStore,
    find_term,
    yes_no_answer,
)
from papers.side_effects.forward import MAX_PROMPT_CHARACTERS, Generator, edge_exists, parse_label
from rag.prompts import Message
from resources.authors_code import Code

MODULES = ("vllm_model", "rag_format_a", "rag_format_b", "graphrag")
FILES = tuple(f"side_effects/code/{name}.py" for name in MODULES)
"""The released files, by their names in the registry of data."""
LABELS = {
    "authors_query": "Closed book (authors' prompt for one question)",
    "authors_batch": "Closed book (authors' prompt for a batch)",
    "authors_format_a": "RAG (Format A, authors' prompt)",
    "authors_format_b": "RAG (Format B, authors' prompt)",
    "authors_graphrag": "GraphRAG (authors' prompt)",
}
K = 10
"""Units that the code retrieves for both formats; the paper says 5 for Format A."""
CLOSED_BOOK_TEMPERATURE = 0.3
"""Temperature of the client where nothing is retrieved; the paper says 0.1."""
LABEL_PATTERN = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
"""The first YES or NO of a reply, as a word: one prompt lets the model repeat the request first."""


class EvidenceSource(Protocol):
    """Writes what stands in the prompt beside each question."""

    def evidence(self, questions: Sequence[Question]) -> list[str]:
        """Return one text per question."""
        ...

    def states(self, question: Question, prompt: str) -> bool | None:
        """Whether a prompt with this evidence states the pair; None where nothing is retrieved."""
        ...


@dataclass(frozen=True)
class NoEvidence:
    """Nothing beside the question."""

    def evidence(self, questions: Sequence[Question]) -> list[str]:
        """Return an empty text per question."""
        return [""] * len(questions)

    def states(self, question: Question, prompt: str) -> bool | None:
        """Nothing is retrieved."""
        return None


@dataclass(frozen=True)
class Lists:
    """The documents of Format A, without a filter.

    Attributes:
        store: The indexed documents.
        document: Template of one document in the prompt.
    """

    store: TextStore
    document: str

    def evidence(self, questions: Sequence[Question]) -> list[str]:
        """Write the ``K`` nearest documents of each question."""
        return [self._documents(numbers) for numbers in self.store.search(questions, K)]

    def states(self, question: Question, prompt: str) -> bool | None:
        """Whether the drug's list reaches the prompt as far as the end of the effect."""
        for (drug, effects), text in zip(self.store.pairs, self.store.texts, strict=True):
            if drug == question.drug and question.side_effect in effects:
                end = find_term(question.side_effect, text) + len(question.side_effect)
                return text[:end] in prompt
        return False

    def _documents(self, numbers: NDArray[np.int64]) -> str:
        documents = []
        for number in numbers:
            drug, _ = self.store.pairs[number]
            text = self.store.texts[number]
            documents.append(self.document.format(drug_name=drug, drug_text=text))
        return "\n\n".join(documents)


@dataclass(frozen=True)
class Pairs:
    """The sentences of Format B, filtered by the drug alone.

    Attributes:
        store: The indexed sentences.
        pair: Template of one pair in the prompt.
        nothing: Template of the text where no pair is left.
    """

    store: TextStore
    pair: str
    nothing: str

    def evidence(self, questions: Sequence[Question]) -> list[str]:
        """Write those of the ``K`` nearest pairs whose drug contains the asked one."""
        nearest = self.store.search(questions, K)
        return [
            self._pairs(question, numbers)
            for question, numbers in zip(questions, nearest, strict=True)
        ]

    def states(self, question: Question, prompt: str) -> bool | None:
        """Whether a line of the prompt is the asked pair."""
        line = self.pair.format(pair_drug=question.drug, pair_effect=question.side_effect)
        return line in prompt.splitlines()

    def _pairs(self, question: Question, numbers: NDArray[np.int64]) -> str:
        lines = []
        for number in numbers:
            drug, (side_effect,) = self.store.pairs[number]
            if question.drug.lower() in drug.lower():
                lines.append(self.pair.format(pair_drug=drug, pair_effect=side_effect))
        return "\n".join(lines) or _fill(self.nothing, question)


@dataclass(frozen=True)
class Edges:
    """The graph's answer as a sentence.

    Attributes:
        graph: The graph of drugs and side effects.
        yes: Template for an edge that is there.
        no: Template for an edge that is not.
    """

    graph: Graph
    yes: str
    no: str

    def evidence(self, questions: Sequence[Question]) -> list[str]:
        """Write whether the graph has the edge of each question."""
        return [self._sentence(question) for question in questions]

    def states(self, question: Question, prompt: str) -> bool | None:
        """Whether the prompt says that the edge is there."""
        return _fill(self.yes, question) in prompt

    def _sentence(self, question: Question) -> str:
        entities = Entities(question.drug, question.side_effect)
        template = self.yes if edge_exists(self.graph, entities) else self.no
        return _fill(template, question)


@dataclass(frozen=True)
class AuthorsArm:
    """One of the authors' prompts.

    Attributes:
        generator: The LLM that answers.
        system: The system message.
        template: The user message, with fields for the names and the evidence.
        source: What writes the evidence.
        label: Name of the arm in progress bars and in the record of the run.
    """

    generator: Generator
    system: str
    template: str
    source: EvidenceSource
    label: str

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        prompts = [
            self._prompt(question, evidence)
            for question, evidence in zip(questions, self.source.evidence(questions), strict=True)
        ]
        replies = self.generator.generate(prompts, self.label)
        return [
            yes_no_answer(
                parse_label(reply.text, LABEL_PATTERN),
                p_yes=label_probability(reply.first_token),
                found=self.source.states(question, prompt[-1]["content"]),
                reply=reply,
            )
            for question, prompt, reply in zip(questions, prompts, replies, strict=True)
        ]

    def _prompt(self, question: Question, evidence: str) -> list[Message]:
        content = cut(_fill(self.template, question, evidence))
        return [{"role": "system", "content": self.system}, {"role": "user", "content": content}]


def arms(
    generator: Generator,
    codes: Mapping[str, Code],
    format_a: TextStore,
    format_b: TextStore,
    graph: Graph,
) -> dict[str, Arm]:
    """Make the five arms from the authors' code.

    Args:
        generator: The LLM that answers.
        codes: The files of ``FILES``, by name; empty where they could not be fetched.
        format_a: The documents of Format A.
        format_b: The sentences of Format B.
        graph: The graph of drugs and side effects.

    Returns:
        The arms by name; none without the code.

    Raises:
        NotInCode: A file lacks a prompt.
    """
    if not codes:
        return {}
    client, code_a, code_b, code_graph = (codes[name] for name in FILES)
    (_, system), *_ = client.messages("generate_response")
    document = code_a.with_fields("query_batch", "drug_name", "drug_text")
    pair = code_b.with_fields("query_batch", "pair_drug", "pair_effect")
    (nothing,) = code_b.assigned("context", "query_batch")
    yes, no = code_graph.assigned("graph_result", "query_batch")
    closed_book = replace(generator, temperature=CLOSED_BOOK_TEMPERATURE)

    def arm(
        name: str, code: Code, function: str, source: EvidenceSource, answerer: Generator
    ) -> AuthorsArm:
        template = code.assigned("prompt", function)[0]
        return AuthorsArm(answerer, system.format(), template, source, LABELS[name])

    batch = "query_batch"
    lists = Lists(format_a, document)
    pairs = Pairs(format_b, pair, nothing)
    edges = Edges(graph, yes, no)
    nothing_retrieved = NoEvidence()
    return {
        "authors_query": arm("authors_query", client, "query", nothing_retrieved, closed_book),
        "authors_batch": arm("authors_batch", client, batch, nothing_retrieved, closed_book),
        "authors_format_a": arm("authors_format_a", code_a, batch, lists, generator),
        "authors_format_b": arm("authors_format_b", code_b, batch, pairs, generator),
        "authors_graphrag": arm("authors_graphrag", code_graph, batch, edges, generator),
    }


def _fill(template: str, question: Question, evidence: str = "") -> str:
    return template.format(
        drug=question.drug,
        side_effect=question.side_effect,
        context=evidence,
        graph_result=evidence,
    )


def cut(prompt: str) -> str:
    """Cut a prompt as the client does (`_safe_generate_response`)."""
    if len(prompt) <= MAX_PROMPT_CHARACTERS:
        return prompt
    return prompt[:MAX_PROMPT_CHARACTERS] + "..."
