"""The arms of drug_interactions.md (Setup): no retrieval, text RAG, agentic RAG, DrugRAG, and graph first, then text.

An arm gives evidence for each question; the large model answers from it; the names in its words are read off again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from helpers.completions import Message, Reply
from helpers.indexes import TextIndex
from helpers.llm import LLM
from helpers.thoughts import without_thought
from helpers.vectors import Encoder
from papers.drug_interactions.corpora import Chunk
from papers.drug_interactions.cypher import Retrieved
from papers.drug_interactions.questions import NO, NOT_KNOWN, YES, Answer, Asked
from rag.names import Vocabulary
from rag.prompts import chat_messages

Arm = Literal["none", "text", "agentic", "drugrag", "hybrid", "ingested", "read"]
ARMS: tuple[Arm, ...] = ("none", "text", "agentic", "drugrag", "hybrid")
"""Those that answer all questions; the others ask graphs that were read from text."""

TEXT_K = 5  # passages of text RAG (Setup: Normal RAG)
AGENT_K = 3  # passages of each of the two rounds of agentic RAG (Setup: Agentic RAG)
QUERY_TOKENS = 24
TOP_P = 0.9  # of sampling (System: answer generation module)


@dataclass(frozen=True)
class Evidence:
    """What an arm found for a question: lines of one kind, which may be none, and the requests that it took."""

    source: Literal["nothing", "passages", "facts"]
    lines: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()


@dataclass(frozen=True)
class Passages:
    """The text in passages, indexed for search by meaning (FAISS, exact, cosine)."""

    texts: tuple[str, ...]
    index: TextIndex

    @classmethod
    def of(cls, chunks: Sequence[Chunk], encoder: Encoder) -> Passages:
        """Take the texts of chunks."""
        texts = tuple(chunk.text for chunk in chunks)
        return cls(texts, TextIndex(texts, encoder, "interactions"))

    def search(self, queries: Sequence[str], k: int) -> list[list[int]]:
        """The `k` passages nearest to each query, by number, best first."""
        return [rows.tolist() for rows in self.index.nearest(queries, k)]

    def evidence(self, rows: Sequence[int], *requests: str) -> Evidence:
        """Passages by number."""
        return Evidence("passages", tuple(self.texts[i] for i in rows), requests)


def text_evidence(passages: Passages, questions: Sequence[str]) -> list[Evidence]:
    """The five nearest passages of each question."""
    return [passages.evidence(found) for found in passages.search(questions, TEXT_K)]


FIRST = (
    "You look things up in a pharmacology textbook. Write one short search query for what is needed to answer the "
    "question: which interaction or side effect of which drug. Write the query only."
)
SECOND = (
    "You look things up in a pharmacology textbook. A first search found these passages. Write one short search query, "
    "other than the first, for what is still missing to answer the question. Write the query only."
)


def agentic_evidence(llm: LLM, passages: Passages, questions: Sequence[str]) -> list[Evidence]:
    """Two rounds of three passages; the small model writes both queries, the second in view of what the first found."""

    def written(prompts: Sequence[Sequence[Message]], label: str) -> tuple[list[str], list[str]]:
        replies = llm.chat_many(prompts, max_tokens=QUERY_TOKENS, stop=["\n"], label=label)
        # the question itself if the model wrote nothing
        queries = [
            r.text.strip().strip("\"'") or question
            for r, question in zip(replies, questions, strict=True)
        ]
        return queries, [r.key for r in replies]

    first, asked = written([chat_messages(FIRST, q) for q in questions], "search, round 1")
    found = passages.search(first, AGENT_K)
    prompts = [
        chat_messages(
            SECOND,
            f"{_numbered(passages.evidence(of).lines)}\n\nFirst query: {query}\nQuestion: {question}",
        )
        for of, query, question in zip(found, first, questions, strict=True)
    ]
    second, asked_again = written(prompts, "search, round 2")
    told = zip(found, passages.search(second, AGENT_K), asked, asked_again, strict=True)
    return [passages.evidence(list(dict.fromkeys(a + b)), *requests) for a, b, *requests in told]


def graph_evidence(retrieved: Sequence[Retrieved]) -> list[Evidence]:
    """The rows of each question's query, or the facts of the search for names where no query found any."""
    return [Evidence("facts", r.facts, r.requests) for r in retrieved]


def hybrid_evidence(retrieved: Sequence[Retrieved], texts: Sequence[Evidence]) -> list[Evidence]:
    """The rows of a question's query, or its passages where no query found any (Discussion: generality)."""
    told = zip(graph_evidence(retrieved), retrieved, texts, strict=True)
    return [
        facts if r.last.returned else replace(text, requests=r.requests) for facts, r, text in told
    ]


# without yes and no: a small model asked to begin with either answers only Yes, to everything
_ANSWER = (
    "You answer questions about drugs as an expert, in one or two short sentences. Name every drug or side effect that "
    "is asked for. "
)
_RULES = {
    "nothing": "If you do not know, write: Not known.",
    "passages": "Rely on the passages alone. If they do not tell, write: Not known.",
    "facts": "Rely on the facts alone, which come from a graph. If they do not tell, write: Not known.",
}


def _numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"[{i}] {line}" for i, line in enumerate(lines, start=1))


def answer_prompt(question: str, evidence: Evidence) -> list[dict[str, str]]:
    """What the large model is asked (System: answer generation module): rules, evidence and question."""
    shown = {
        "nothing": "",
        "passages": f"Passages:\n{_numbered(evidence.lines)}\n",
        "facts": "Facts:\n"
        + ("\n".join(f"- {line}" for line in evidence.lines) or "- none found")
        + "\n",
    }
    return chat_messages(
        _ANSWER + _RULES[evidence.source], f"{shown[evidence.source]}Question: {question}"
    )


def answer_all(
    llm: LLM,
    questions: Sequence[str],
    evidence: Sequence[Evidence],
    max_tokens: int,
    temperature: float,
    label: str,
) -> list[Reply]:
    """The large model's answer to each question from its evidence; a prompt over the context is recorded, not asked."""
    return llm.chat_many(
        [answer_prompt(*of) for of in zip(questions, evidence, strict=True)],
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=TOP_P,
        overflow="record",
        label=f"answer, {label}",
    )


_CLAUSE = re.compile(r"[.;]\s+|[.;]$|,?\s+but\s+|,?\s+while\s+|\n")
_DENIED = re.compile(r"\b(?:not|no|neither|nor|cannot|n't|without|unlikely)\b|n't\b", re.IGNORECASE)
_IGNORANT = re.compile(
    r"\bnot known\b|\bunknown\b|\bno (?:information|facts?|data|known)\b|\bnone found\b|"
    r"\b(?:do|does|did|is|are|was) not (?:tell|mention\w*|provide\w*|specif\w+|state\w*|contain|include|found|listed|"
    r"available|say)\b",
    re.IGNORECASE,
)
_INTERACTING = re.compile(
    r"\b(?:interacts?|can cause|causes|is a known|has been (?:linked|associated|blamed))\b", re.I
)


def read_answer(asked: Asked, text: str, vocabulary: Vocabulary) -> Answer:
    """Read an answer as a set of names of the graph, a yes or no, or "not known"; empty if nothing could be read.

    Names count as the graph spells them, word for word. Those that the question holds do not, unless it is among them
    that is to be chosen; nor do those of a clause that denies something.
    """
    text = without_thought(text)
    ignorant = bool(_IGNORANT.search(text))
    if asked.form.role == "yes or no":
        return _yes_or_no(text, ignorant=ignorant)
    stated = " . ".join(
        clause for clause in _CLAUSE.split(text) if clause and not _DENIED.search(clause)
    )
    if asked.form.role == "choice" and re.search(r"\bboth\b", stated, re.I):
        return frozenset((asked.parameters["a"], asked.parameters["b"]))
    return _names(asked, stated, vocabulary) or (NOT_KNOWN if ignorant else frozenset())


def _names(asked: Asked, text: str, vocabulary: Vocabulary) -> frozenset[str]:
    """The names of the right kind in a text; a bracket that opens or closes before or after one is not part of it."""
    linked = vocabulary.link(re.sub(r"(?<!\w)[(\[]|[)\]](?!\w)", " ", text))
    if asked.form.role == "choice":
        return frozenset(linked["drug"]).intersection(
            (asked.parameters["a"], asked.parameters["b"])
        )
    own = {name.lower() for name in (*asked.parameters.values(), *asked.meant.values())}
    return frozenset(linked[asked.form.role]) - own


def _yes_or_no(text: str, *, ignorant: bool) -> Answer:
    first = re.match(r"\W*(yes|no)\b(?!\s+(?:information|facts?|data))", text, re.IGNORECASE)
    if first:
        return YES if first[1].lower() == "yes" else NO
    if ignorant:
        return NOT_KNOWN
    if _DENIED.search(text):
        return NO
    return YES if _INTERACTING.search(text) else frozenset()


def names_in_evidence(asked: Asked, evidence: Evidence, vocabulary: Vocabulary) -> frozenset[str]:
    """The names of the right kind that stand in evidence, without those of the question: retrieval with no model.

    For a yes or no it is the last name of the question, if one line holds all of its names.
    """
    if asked.form.role != "yes or no":
        return _names(asked, " . ".join(evidence.lines), vocabulary)
    together = any(
        all(name in line.lower() for name in asked.meant.values()) for line in evidence.lines
    )
    return frozenset(list(asked.meant.values())[-1:]) if together else frozenset()
