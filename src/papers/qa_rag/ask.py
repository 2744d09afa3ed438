"""Ask a folder of guidance documents in words: passages of both tracks, answer, and sources.

The steps are the paper's (QA-RAG, Figure 1).
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from evaluation import figures
from helpers import documents, vectors
from helpers.llm import LLM
from papers.qa_rag.answers import CitedAnswer, make_excerpts, prompt, read
from papers.qa_rag.data import Corpus, Passage, share_held
from papers.qa_rag.retrieval import N_SELECTED, BestWindow, rerank
from papers.qa_rag.search import Searcher
from rag.retrieval import chunk_spans, reciprocal_rank_fusion

log = logging.getLogger(__name__)

MAX_CHARACTERS = 4800
"""Characters of passages in the prompt: about 1,200 tokens."""

N_CANDIDATES = 12
"""Passages of each track (section 3.3)."""

CHUNK = 10_000
"""Characters of a chunk (section 2.2)."""

OVERLAP = 2_000
"""Characters that two chunks share (section 2.2)."""

MAX_FILE_NAME_BYTES = 200
"""File systems take 255 bytes, those of the ending and a number included."""


@dataclass(frozen=True)
class OwnAnswer:
    """What became of a question.

    Attributes:
        question: The question.
        hypothetical: The answer from own knowledge that was searched with.
        answer: The answer from the excerpts.
        found_by: What found each excerpt: question, hypothetical answer, or both.
    """

    question: str
    hypothetical: str
    answer: CitedAnswer
    found_by: tuple[str, ...]

    @property
    def quoted(self) -> float:
        """Share of the answer's sequences of eight words that its sources hold word by word."""
        return share_held(self.answer.text, [excerpt.text for excerpt in self.answer.excerpts])

    def citation(self, number: int) -> str:
        """The file of an excerpt, and its pages or sections, such as ``guide.pdf, page 3``."""
        excerpt = self.answer.excerpts[number - 1]
        return ", ".join([excerpt.passage.document, *excerpt.places])

    def _repr_html_(self) -> str:
        return show(self).html

    def __str__(self) -> str:
        """The answer, and the documents that it names."""
        cited = [f"[{number}] {self.citation(number)}" for number in self.answer.cited]
        return f"{self.answer.text}\n{'; '.join(cited) or 'It names no source.'}"


def read_folder(folder: Path) -> tuple[Corpus, Mapping[str, str]]:
    """Read the documents of a folder in chunks (section 2.2).

    Returns:
        The chunks, and the reason for each file or folder that was left out, by its name.

    Raises:
        FolderError: There is no such folder, or no file in it holds text that can be read.
    """
    found = documents.read_folder(folder)
    passages = []
    for document in found.documents:
        passages += chunk(document)
    return Corpus(tuple(passages)), found.left_out


def chunk(document: documents.Document) -> list[Passage]:
    """Cut a document into chunks that know their pages or sections."""
    passages = []
    for start, end in chunk_spans(document.text, CHUNK, OVERLAP):
        text = document.text[start:end]
        first = start + len(text) - len(text.lstrip())
        places = document.places_within(first, end)
        passage = Passage(f"{document.name}:{start}", document.name, text.strip(), places)
        passages.append(passage)
    return passages


def library(folder: Path, encoder: str = vectors.DEFAULT_ENCODER) -> Searcher:
    """Make a folder of guidance documents ready to be asked.

    A logged warning says what is left out.

    Raises:
        FolderError: There is no such folder, or nothing in it can be read.
    """
    corpus, left_out = read_folder(folder)
    for line in documents.describe(left_out):
        log.warning("Left out: %s", line)
    return Searcher(corpus, vectors.encoder(encoder))


def write_folder(passages: Iterable[Passage], folder: Path) -> Path:
    """Write passages as a folder of text files, one a document.

    A file is named by the title of its document, and numbered where two share a name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts_by_title: dict[str, list[str]] = {}
    for passage in passages:
        texts_by_title.setdefault(passage.document, []).append(passage.text)
    used_names: set[str] = set()
    for title, texts in texts_by_title.items():
        name = _unused_name(_file_name(title), used_names)
        used_names.add(name.casefold())
        (folder / f"{name}.txt").write_text("\n\n".join(texts), encoding="utf-8")
    return folder


def _file_name(title: str) -> str:
    plain = re.sub(r"[^\w()-]+", " ", title).strip()
    return plain.encode()[:MAX_FILE_NAME_BYTES].decode(errors="ignore") or "untitled"


def _unused_name(name: str, used_names: set[str]) -> str:
    """The name, numbered if it is used; some file systems take capitals for small letters."""
    unused = name
    number = 2
    while unused.casefold() in used_names:
        unused = f"{name} ({number})"
        number += 1
    return unused


def answer(
    question: str,
    searcher: Searcher,
    llm: LLM,
    *,
    max_characters: int = MAX_CHARACTERS,
    max_tokens: int = 160,
) -> OwnAnswer:
    """Answer a question from a `library`, by passages that it and a hypothetical answer find.

    Args:
        question: The question.
        searcher: The library.
        llm: The model that answers.
        max_characters: Of more characters of passages the parts nearest to the question are shown.
        max_tokens: Longest answer, in tokens.

    Raises:
        ValueError: There is no question.
        ContextOverflowError: The prompt does not fit; ask for fewer characters.
    """
    if not question.strip():
        raise ValueError(
            "There is no question. Write one, such as: How long should reference samples be kept?"
        )
    hypothetical = _hypothetical_answer(question, llm)
    passages, found_by = _find_passages(question, hypothetical, searcher)
    excerpts = make_excerpts(question, passages, max_characters)
    (reply,) = llm.chat_many([prompt(question, excerpts)], max_tokens=max_tokens, label="answer")
    return OwnAnswer(
        question,
        hypothetical,
        read(reply, excerpts),
        tuple(found_by[excerpt.passage.id] for excerpt in excerpts),
    )


def _hypothetical_answer(question: str, llm: LLM) -> str:
    prompts = [prompt(question, ())]
    (reply,) = llm.chat_many(prompts, max_tokens=96, label="hypothetical answer")
    return reply.text.strip()


def _find_passages(
    question: str, hypothetical: str, searcher: Searcher
) -> tuple[list[Passage], dict[str, str]]:
    """The passages of both tracks, best first, and what found each, by its id."""
    # an empty hypothetical answer finds nothing
    tracks = {"question": question, "hypothetical answer": hypothetical or question}
    results = searcher.search(list(tracks.values()), N_CANDIDATES, by="windows")
    rows_by_track = dict(zip(tracks, results, strict=True))
    fused = {"": reciprocal_rank_fusion(results)}
    ranked, _ = rerank(fused, BestWindow(searcher), {"": question})
    passages = []
    found_by = {}
    for row in ranked[""][:N_SELECTED]:
        passage = searcher.corpus.passages[row]
        passages.append(passage)
        finders = [track for track, rows in rows_by_track.items() if row in rows]
        found_by[passage.id] = " and ".join(finders)
    return passages, found_by


def show(own: OwnAnswer, *, sample: bool = False) -> figures.Html:
    """Show an answer with its sources as a table: those that it names first."""
    cited = own.answer.cited
    numbers = range(1, len(own.answer.excerpts) + 1)
    rows = []
    for number in sorted(numbers, key=lambda number: number not in cited):
        row = {
            "": f"[{number}]",
            "document": own.citation(number),
            "passage": own.answer.excerpts[number - 1].text,
            "found by": own.found_by[number - 1],
        }
        rows.append(row)
    named = ", ".join(f"[{number}]" for number in cited)
    names = f"It names {named}."
    if not named:
        names = "It names no source: check it before you rely on it."
    text = (
        f"{names} {figures.number(own.quoted, digits=0)} of its word sequences are in the passages "
        f"word by word. Without sources the model said: {own.hypothetical}"
    )
    table = figures.table(
        pd.DataFrame(rows), f"Sources of the answer to: {own.question}", sample=sample
    )
    messages = [{"role": "question", "content": own.question}]
    head = figures.prompt_box(messages, answer=own.answer.text)
    html = f"{head.html}<p>{figures.inline(text)}</p>{table.html}"
    return figures.Html(html, f"{own.question}\n{own.answer.text}\n{text}\n{table.text}")
