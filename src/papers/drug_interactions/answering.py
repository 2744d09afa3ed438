"""The arms of drug_interactions.md (Setup): no retrieval, text RAG, agentic RAG, DrugRAG, and graph first, then text.

An arm gives evidence for each question; the large model answers from it; the names in its words are read off again.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, get_args

from helpers.completions import Message, Reply
from helpers.indexes import Index, cached_index
from helpers.llm import LLM
from helpers.rag.names import Vocabulary
from helpers.rag.prompts import chat
from helpers.vectors import Encoder
from papers.drug_interactions.corpora import Chunk
from papers.drug_interactions.cypher import Retrieved
from papers.drug_interactions.questions import NO, NOT_KNOWN, YES, Answer, Asked

Arm = Literal["none", "text", "agentic", "drugrag", "hybrid"]
ARMS: tuple[Arm, ...] = get_args(Arm)

TEXT_K = 5
"""Passages of text RAG (Setup: Normal RAG)."""
AGENT_K = 3
"""Passages of each of the two rounds of agentic RAG (Setup: Agentic RAG)."""
QUERY_TOKENS = 24
TOP_P = 0.9
"""Of sampling (System: answer generation module)."""
Source = Literal["nothing", "passages", "facts"]


@dataclass(frozen=True)
class Evidence:
    """What an arm found for a question: lines of one kind, which may be none."""

    source: Source
    lines: tuple[str, ...] = ()


# ---------------------------------------------------------------------------------------------------------- text RAG


@dataclass(frozen=True)
class Passages:
    """The text in passages, indexed for search by meaning (FAISS, exact, cosine)."""

    texts: tuple[str, ...]
    encoder: Encoder
    index: Index

    @classmethod
    def of(cls, chunks: Sequence[Chunk], encoder: Encoder) -> Passages:
        """Index the texts of chunks, or load the index if it was built before."""
        texts = tuple(chunk.text for chunk in chunks)
        return cls(texts, encoder, cached_index("interactions", texts, encoder))

    def search(self, queries: Sequence[str], k: int) -> list[tuple[int, ...]]:
        """The `k` passages nearest to each query, by number, best first."""
        if not queries:
            return []
        _, ids = self.index.search(self.encoder.encode(queries, progress=False), k)
        return [tuple(int(i) for i in row) for row in ids]


def text_evidence(passages: Passages, questions: Sequence[str]) -> list[Evidence]:
    """The five nearest passages of each question."""
    found = passages.search(questions, TEXT_K)
    return [Evidence("passages", tuple(passages.texts[i] for i in of)) for of in found]


@dataclass(frozen=True)
class Search:
    """What the retrieval agent did for one question: two queries, and the passages of each round, by number."""

    queries: tuple[str, str]
    rounds: tuple[tuple[int, ...], tuple[int, ...]]

    @property
    def again(self) -> int:
        """Passages of the second round that the first had already."""
        return len(set(self.rounds[0]).intersection(self.rounds[1]))

    def evidence(self, passages: Passages) -> Evidence:
        """The passages of both rounds, each once."""
        kept = dict.fromkeys([*self.rounds[0], *self.rounds[1]])
        return Evidence("passages", tuple(passages.texts[i] for i in kept))


FIRST = (
    "You look things up in a pharmacology textbook. Write one short search query for what is needed to answer the "
    "question: which interaction or side effect of which drug. Write the query only."
)
SECOND = (
    "You look things up in a pharmacology textbook. A first search found these passages. Write one short search query, "
    "other than the first, for what is still missing to answer the question. Write the query only."
)


def agentic_search(llm: LLM, passages: Passages, questions: Sequence[str]) -> list[Search]:
    """Two rounds of three passages; the small model writes both queries, the second in view of what the first found."""

    def written(prompts: Sequence[Sequence[Message]], label: str) -> list[str]:
        replies = llm.chat_many(prompts, max_tokens=QUERY_TOKENS, stop=["\n"], label=label)
        # the question itself if the model wrote nothing
        return [r.text.strip().strip("\"'") or question for r, question in zip(replies, questions, strict=True)]

    first = written([chat(FIRST, q) for q in questions], "search, round 1")
    found = passages.search(first, AGENT_K)
    prompts = [
        chat(SECOND, f"{numbered([passages.texts[i] for i in of])}\n\nFirst query: {query}\nQuestion: {question}")
        for of, query, question in zip(found, first, questions, strict=True)
    ]
    second = written(prompts, "search, round 2")
    again = passages.search(second, AGENT_K)
    return [Search(*of) for of in zip(zip(first, second, strict=True), zip(found, again, strict=True), strict=True)]


# ------------------------------------------------------------------------------------------------------------ graph


def graph_evidence(retrieved: Sequence[Retrieved]) -> list[Evidence]:
    """The facts of each question's query, or of the search for names where no query found any."""
    return [Evidence("facts", r.facts) for r in retrieved]


def hybrid_evidence(retrieved: Sequence[Retrieved], texts: Sequence[Evidence]) -> list[Evidence]:
    """The facts of a question's query, or its passages where no query found any (Discussion: generality)."""
    return [t if r.empty else Evidence("facts", r.facts) for r, t in zip(retrieved, texts, strict=True)]


# ------------------------------------------------------------------------------------------------------------ answers

# not a word of yes and no: told to begin with it where it fits, a small model answers Yes, and no more, to everything
_ANSWER = (
    "You answer questions about drugs as an expert, in one or two short sentences. Name every drug or side effect that "
    "is asked for. "
)
_RULES: dict[Source, str] = {
    "nothing": "If you do not know, write: Not known.",
    "passages": "Rely on the passages alone. If they do not tell, write: Not known.",
    "facts": "Rely on the facts alone, which come from a graph. If they do not tell, write: Not known.",
}


def numbered(lines: Sequence[str]) -> str:
    """Passages under their numbers."""
    return "\n".join(f"[{i}] {line}" for i, line in enumerate(lines, start=1))


def answer_prompt(question: str, evidence: Evidence, history: Sequence[tuple[str, str]] = ()) -> list[dict[str, str]]:
    """What the large model is asked (System: answer generation module): rules, earlier turns, evidence and question."""
    shown = {
        "nothing": "",
        "passages": f"Passages:\n{numbered(evidence.lines)}\n",
        "facts": "Facts:\n" + ("\n".join(f"- {line}" for line in evidence.lines) or "- none found") + "\n",
    }
    asked = f"{shown[evidence.source]}Question: {question}"
    return chat(_ANSWER + _RULES[evidence.source], asked, history)


@dataclass(frozen=True)
class Answered:
    """An answer of an arm: the evidence that was shown, and the words of the model."""

    evidence: Evidence = field(repr=False)
    reply: Reply

    @property
    def text(self) -> str:
        """The answer in one line."""
        return " ".join(self.reply.text.split())


def answer_all(
    llm: LLM,
    questions: Sequence[str],
    evidence: Sequence[Evidence],
    *,
    histories: Sequence[Sequence[tuple[str, str]]] | None = None,
    max_tokens: int,
    temperature: float,
    label: str,
) -> list[Answered]:
    """The large model's answer to each question from its evidence and earlier turns (question, answer).

    A prompt over the context is not asked; its answer is empty and its status `overflow`, to be counted.
    """
    turns = histories or [()] * len(questions)
    replies = llm.chat_many(
        [answer_prompt(*of) for of in zip(questions, evidence, turns, strict=True)],
        max_tokens=max_tokens,
        temperature=temperature,
        top_p=TOP_P,
        overflow="record",
        label=f"answer, {label}",
    )
    return [Answered(found, reply) for found, reply in zip(evidence, replies, strict=True)]


# ----------------------------------------------------------------------------------------------------- reading answers


_CLAUSE = re.compile(r"[.;]\s+|[.;]$|,?\s+but\s+|,?\s+while\s+|\n")
_DENIED = re.compile(r"\b(?:not|no|neither|nor|cannot|n't|without|unlikely)\b|n't\b", re.IGNORECASE)
_IGNORANT = re.compile(
    r"\bnot known\b|\bunknown\b|\bno (?:information|facts?|data|known)\b|\bnone found\b|"
    r"\b(?:do|does|did|is|are|was) not (?:tell|mention\w*|provide\w*|specif\w+|state\w*|contain|include|found|listed|"
    r"available|say)\b",
    re.IGNORECASE,
)
_INTERACTING = re.compile(r"\b(?:interacts?|can cause|causes|is a known|has been (?:linked|associated|blamed))\b", re.I)


def read_answer(asked: Asked, text: str, vocabulary: Vocabulary) -> Answer:
    """Read an answer as a set of names of the graph, a yes or no, or "not known"; empty if nothing could be read.

    Names count as the graph spells them, word for word. Those that the question holds do not, unless it is among them
    that is to be chosen; nor do those of a clause that denies something.
    """
    ignorant = bool(_IGNORANT.search(text))
    if asked.form.role == "yes or no":
        return _yes_or_no(text, ignorant=ignorant)
    stated = " . ".join(clause for clause in _CLAUSE.split(text) if clause and not _DENIED.search(clause))
    own = {name.lower() for name in (*asked.parameters.values(), *asked.meant.values())}
    if asked.form.role == "choice":
        options = [asked.parameters["a"], asked.parameters["b"]]
        linked = set(_linked(stated, vocabulary)["drug"])
        names = frozenset(options if re.search(r"\bboth\b", stated, re.I) else linked.intersection(options))
    else:
        names = frozenset(n for n in _linked(stated, vocabulary)[asked.form.role] if n not in own)
    return names or (NOT_KNOWN if ignorant else frozenset())


def _linked(text: str, vocabulary: Vocabulary) -> dict[str, list[str]]:
    """The names in a text; a bracket that opens or closes before or after one is not part of it."""
    return vocabulary.link(re.sub(r"(?<!\w)[(\[]|[)\]](?!\w)", " ", text))


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
    if asked.form.role == "yes or no":
        together = any(all(name in line.lower() for name in asked.meant.values()) for line in evidence.lines)
        return frozenset(list(asked.meant.values())[-1:]) if together else frozenset()
    found = _linked(" . ".join(evidence.lines), vocabulary)
    if asked.form.role == "choice":
        return frozenset(found["drug"]).intersection((asked.parameters["a"], asked.parameters["b"]))
    own = {*asked.parameters.values(), *asked.meant.values()}
    return frozenset(found[asked.form.role]) - own
