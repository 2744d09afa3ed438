"""The arms of drug_interactions.md (Setup): none, text RAG, agentic RAG, DrugRAG, and a hybrid.

An arm gives evidence for each question; the large model answers from it; the names in its words
are read off again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from helpers.completions import Message, Reply
from helpers.indexes import TextIndex
from helpers.llm import LLM
from helpers.thoughts import without_thought
from helpers.vectors import Encoder
from papers.drug_interactions.corpora import Chunk, chunks as cut_chunks
from papers.drug_interactions.cypher import MAX_TURNS, History, Retrieved
from papers.drug_interactions.questions import NO, NOT_KNOWN, YES, Answer, Asked
from rag.names import Vocabulary
from rag.prompts import chat_messages, user_message, with_history
from rag.replies import answer_text

Arm = Literal[
    "alone",
    "none",
    "text",
    "agentic",
    "drugrag",
    "hybrid",
    "ingested",
    "read",
    "history",
    "no_history",
]
ARMS: tuple[Arm, ...] = ("alone", "none", "text", "agentic", "drugrag", "hybrid")
"""Those that answer all questions; the others ask graphs that were read from text."""

FoundBy = Literal["", "model's statement", "relaxed statement", "search"]
"""What found the facts of a question."""

WINDOW_TOKENS = 60
"""Words and punctuation marks of a window, by which a longer passage is searched."""
TEXT_K = 5
"""Passages of text RAG (Setup: Normal RAG)."""
AGENT_K = 3
"""Passages of each of the two rounds of agentic RAG (Setup: Agentic RAG)."""
QUERY_TOKENS = 24
TOP_P = 0.9
"""Of sampling (System: answer generation module)."""


@dataclass(frozen=True)
class Evidence:
    """What an arm found for a question.

    Attributes:
        source: The kind of the lines; `question` is the paper's "question alone", with no rules.
        lines: Passages or facts; there may be none.
        requests: Keys of the requests that it took.
        found_by: What found the facts: a statement of the model, its relaxed form, or else the
            search for names, whether it found any or not. Empty for other lines than facts.
    """

    source: Literal["question", "nothing", "passages", "facts"]
    lines: tuple[str, ...] = ()
    requests: tuple[str, ...] = ()
    found_by: FoundBy = ""


@dataclass(frozen=True)
class Passages:
    """The text in passages, indexed for search by meaning (FAISS, exact, cosine).

    A passage of the paper's length is longer than what the encoder reads, which would leave most of
    it out. So each is searched by its windows, runs of whole sentences: it is as near to a query
    as the nearest of them.

    Attributes:
        texts: The passages.
        index: Their windows.
        passage_of: The passage of each window, by number.
    """

    texts: tuple[str, ...]
    index: TextIndex
    passage_of: tuple[int, ...]

    @classmethod
    def from_chunks(
        cls, chunks: Sequence[Chunk], encoder: Encoder, window_tokens: int = WINDOW_TOKENS
    ) -> Passages:
        """Take the texts of chunks.

        Args:
            chunks: The passages.
            encoder: Encodes windows and queries.
            window_tokens: Words and punctuation marks that a window of several sentences has at
                most.
        """
        windows = []
        passage_of = []
        for number, chunk in enumerate(chunks):
            for window in cut_chunks(chunk.sentences, window_tokens):
                windows.append(window.text)
                passage_of.append(number)
        texts = tuple(chunk.text for chunk in chunks)
        return cls(texts, TextIndex(windows, encoder, "interactions"), tuple(passage_of))

    def search(self, queries: Sequence[str], k: int) -> list[list[int]]:
        """Find the `k` passages nearest to each query, by number, best first."""
        max_windows = max(Counter(self.passage_of).values())
        n_windows = min(k * max_windows, len(self.passage_of))
        results = []
        for rows in self.index.nearest(queries, n_windows):
            passages = dict.fromkeys(self.passage_of[row] for row in rows.tolist())
            results.append(list(passages)[:k])
        return results

    def reading(self) -> str:
        """Return how many passages the encoder reads in part, in a sentence."""
        encoder = self.index.encoder
        n_cut = encoder.count_truncated(self.index.texts)
        n_cut_whole = encoder.count_truncated(self.texts)
        verb = "is" if n_cut_whole == 1 else "are"
        text = (
            f"The encoder {encoder.name} reads at most {encoder.max_tokens} tokens, and "
            f"{n_cut_whole:,} of the {len(self.texts):,} passages {verb} longer"
        )
        n_windows = len(self.passage_of)
        if n_windows == len(self.texts):
            return f"{text}. It reads only the beginning of a longer passage."
        return (
            f"{text}. It reads all passages in {n_windows:,} windows, and truncates the {n_cut:,} "
            "windows that are longer."
        )

    def evidence(self, rows: Sequence[int], *requests: str) -> Evidence:
        """Take passages by number."""
        return Evidence("passages", tuple(self.texts[row] for row in rows), requests)


def text_evidence(passages: Passages, questions: Sequence[str]) -> list[Evidence]:
    """Take the five nearest passages of each question."""
    return [passages.evidence(rows) for rows in passages.search(questions, TEXT_K)]


FIRST = (
    "You look things up in a pharmacology textbook. Write one short search query for what is "
    "needed to answer the question: which interaction or side effect of which drug. Write the "
    "query only."
)
SECOND = (
    "You look things up in a pharmacology textbook. A first search found these passages. Write one "
    "short search query, other than the first, for what is still missing to answer the question. "
    "Write the query only."
)


@dataclass(frozen=True)
class Round:
    """One round of search: a query for each question, and the passages that it finds."""

    queries: list[str]
    requests: list[str]
    rows: list[list[int]]


def agentic_evidence(llm: LLM, passages: Passages, questions: Sequence[str]) -> list[Evidence]:
    """Search in two rounds of three passages each (Setup: Agentic RAG).

    The small model writes both queries, the second in view of what the first found.
    """
    prompts = [chat_messages(FIRST, question) for question in questions]
    first = _search(llm, passages, questions, prompts, "search, round 1")
    prompts = []
    for question, query, rows in zip(questions, first.queries, first.rows, strict=True):
        lines = _numbered(passages.evidence(rows).lines)
        text = f"{lines}\n\nFirst query: {query}\nQuestion: {question}"
        prompts.append(chat_messages(SECOND, text))
    second = _search(llm, passages, questions, prompts, "search, round 2")
    evidence = []
    for number in range(len(questions)):
        rows = list(dict.fromkeys(first.rows[number] + second.rows[number]))
        requests = (first.requests[number], second.requests[number])
        evidence.append(passages.evidence(rows, *requests))
    return evidence


def _search(
    llm: LLM,
    passages: Passages,
    questions: Sequence[str],
    prompts: Sequence[Sequence[Message]],
    label: str,
) -> Round:
    """Search for the query of each reply, or for the question if the model wrote nothing."""
    replies = llm.chat_many(prompts, max_tokens=QUERY_TOKENS, stop=["\n"], label=label)
    queries = []
    for reply, question in zip(replies, questions, strict=True):
        query = reply.text.strip().strip("\"'")
        queries.append(query or question)
    requests = [reply.key for reply in replies]
    return Round(queries, requests, passages.search(queries, AGENT_K))


def graph_evidence(retrieved: Sequence[Retrieved]) -> list[Evidence]:
    """Take the rows of each question's query, or else the facts of the search for names."""
    return [Evidence("facts", item.facts, item.requests, _found_by(item)) for item in retrieved]


def _found_by(retrieved: Retrieved) -> FoundBy:
    if not retrieved.last.returned:
        return "search"
    last_step, _ = retrieved.attempts[-1]
    return "relaxed statement" if last_step == "simplified" else "model's statement"


def hybrid_evidence(retrieved: Sequence[Retrieved], texts: Sequence[Evidence]) -> list[Evidence]:
    """Take the rows of a question's query, or else its passages (Discussion: generality)."""
    evidence = []
    for item, text in zip(retrieved, texts, strict=True):
        if item.last.returned:
            evidence.append(Evidence("facts", item.facts, item.requests))
        else:
            evidence.append(replace(text, requests=item.requests))
    return evidence


# without yes and no: a small model asked to begin with either answers only Yes, to everything
_ANSWER = (
    "You answer questions about drugs as an expert, in one or two short sentences. Name every drug "
    "or side effect that is asked for. "
)
_RULES = {
    "nothing": "If you do not know, write: Not known.",
    "passages": "Rely on the passages alone. If they do not tell, write: Not known.",
    "facts": (
        "Rely on the facts alone, which come from a graph. If they do not tell, write: Not known."
    ),
}


def _numbered(lines: Sequence[str]) -> str:
    return "\n".join(f"[{i}] {line}" for i, line in enumerate(lines, start=1))


def answer_prompt(question: str, evidence: Evidence, history: History = ()) -> list[dict[str, str]]:
    """Build the large model's prompt (System: answer generation).

    It has rules, the earlier questions and answers of a conversation, evidence, and the question.
    """
    if evidence.source == "question":
        return user_message(question)
    text = f"{_evidence_text(evidence)}Question: {question}"
    messages = chat_messages(_ANSWER + _RULES[evidence.source], text)
    turns = [(f"Question: {turn.question}", turn.answer) for turn in history[-MAX_TURNS:]]
    return with_history(messages, turns)


def _evidence_text(evidence: Evidence) -> str:
    if evidence.source == "nothing":
        return ""
    if evidence.source == "passages":
        return f"Passages:\n{_numbered(evidence.lines)}\n"
    lines = [f"- {line}" for line in evidence.lines] or ["- none found"]
    return "\n".join(["Facts:", *lines, ""])


def answer_all(
    llm: LLM,
    prompts: Sequence[Sequence[Message]],
    max_tokens: int,
    temperature: float,
    label: str,
) -> list[Reply]:
    """Let the large model answer.

    A prompt that exceeds the context is recorded and not sent.

    Args:
        llm: The large model.
        prompts: One for each question; see `answer_prompt`.
        max_tokens: Longest answer.
        temperature: Of sampling.
        label: Name of the arm in progress bars and in the record of the run.
    """
    return llm.chat_many(
        prompts,
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
    r"\b(?:do|does|did|is|are|was) not (?:tell|mention\w*|provide\w*|specif\w+|state\w*|contain|"
    r"include|found|listed|available|say)\b",
    re.IGNORECASE,
)
_INTERACTING = re.compile(
    r"\b(?:interacts?|can cause|causes|is a known|has been (?:linked|associated|blamed))\b", re.I
)


_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_UNSURE = re.compile(r"\W*(?:i (?:do not|don't) know\b|$)", re.IGNORECASE)


def abstains(text: str) -> bool:
    """Whether each sentence of an answer says that something is not known, or there is none."""
    for sentence in _SENTENCE_END.split(without_thought(text).strip()):
        if not _IGNORANT.search(sentence) and not _UNSURE.match(sentence):
            return False
    return True


def read_answer(question: Asked, text: str, vocabulary: Vocabulary) -> Answer:
    """Read an answer: a set of names of the graph, a yes or no, or "not known".

    Names count as the graph spells them, word for word. Those that the question holds do not,
    unless they are to be chosen from; nor do those of a clause that denies something.

    Returns:
        The names; none if nothing could be read.
    """
    text = without_thought(text)
    is_ignorant = bool(_IGNORANT.search(text))
    if question.form.role == "yes or no":
        return _yes_or_no(text, is_ignorant=is_ignorant)
    stated = _stated(text)
    if question.form.role == "choice" and re.search(r"\bboth\b", stated, re.IGNORECASE):
        return _choices(question)
    names = _names(question, stated, vocabulary)
    if is_ignorant and not names:
        return NOT_KNOWN
    return names


def _stated(text: str) -> str:
    """The clauses that deny nothing."""
    clauses = []
    for clause in _CLAUSE.split(text):
        if clause and not _DENIED.search(clause):
            clauses.append(clause)
    return " . ".join(clauses)


def _choices(question: Asked) -> frozenset[str]:
    return frozenset((question.parameters["a"], question.parameters["b"]))


def _names(question: Asked, text: str, vocabulary: Vocabulary) -> frozenset[str]:
    """The names of the right kind in a text; brackets around one are not part of it."""
    linked = vocabulary.link(re.sub(r"(?<!\w)[(\[]|[)\]](?!\w)", " ", text))
    if question.form.role == "choice":
        return _choices(question).intersection(linked["drug"])
    own_names = (*question.parameters.values(), *question.meant.values())
    return frozenset(linked[question.form.role]) - {name.lower() for name in own_names}


_FIRST_LABEL = re.compile(r"\W*(yes|no)\b(?!\s+(?:information|facts?|data))", re.IGNORECASE)


def _yes_or_no(text: str, *, is_ignorant: bool) -> Answer:
    first = _FIRST_LABEL.match(text) or _FIRST_LABEL.match(answer_text(text))
    if first:
        return YES if first[1].lower() == "yes" else NO
    if is_ignorant:
        return NOT_KNOWN
    if _DENIED.search(text):
        return NO
    return YES if _INTERACTING.search(text) else frozenset()


def names_in_evidence(
    question: Asked, evidence: Evidence, vocabulary: Vocabulary
) -> frozenset[str]:
    """Find the names of the right kind in evidence: retrieval with no model.

    Those of the question do not count. For a yes or no it is the last name of the question, if one
    line holds all of its names.
    """
    if question.form.role != "yes or no":
        return _names(question, " . ".join(evidence.lines), vocabulary)
    names = list(question.meant.values())
    for line in evidence.lines:
        if all(name in line.lower() for name in names):
            return frozenset(names[-1:])
    return frozenset()
