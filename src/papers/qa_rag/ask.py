"""Ask a folder of guidance documents in words: the passages of both tracks, the answer, and the sources it names.

The steps are the paper's (QA-RAG, Figure 1).
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pandas as pd

from evaluation import figures
from helpers import documents, vectors
from helpers.llm import LLM
from papers.qa_rag.answers import Given, excerpts, prompt, read
from papers.qa_rag.data import Corpus, Passage, held
from papers.qa_rag.retrieval import KEPT, best_window, rerank
from papers.qa_rag.search import Searcher
from rag.retrieval import chunk_spans, reciprocal_rank_fusion

log = logging.getLogger(__name__)

CHARACTERS = 4800  # of passages in the prompt: about 1,200 tokens
CANDIDATES = 12  # passages of each track (section 3.3)
CHUNK, OVERLAP = 10_000, 2_000
"""Characters of a chunk and of what two share (section 2.2)."""


@dataclass(frozen=True)
class Answered:
    """What became of a question: the answer from own knowledge that was searched with, and that from the excerpts.

    `by` says what found each excerpt: question, hypothetical answer, or both.
    """

    question: str
    hypothetical: str
    given: Given
    by: tuple[str, ...]

    @property
    def quoted(self) -> float:
        """Share of the answer's sequences of eight words that its sources hold word by word."""
        return held(self.given.text, [excerpt.text for excerpt in self.given.shown])

    def _repr_html_(self) -> str:
        return show(self).html

    def __str__(self) -> str:
        """The answer, and the documents that it names."""
        cited = "; ".join(
            f"[{n}] {self.given.shown[n - 1].passage.document}" for n in self.given.cited
        )
        return f"{self.given.text}\n{cited or 'It names no source.'}"


def read_folder(folder: Path) -> tuple[Corpus, Mapping[str, str]]:
    """Read the documents of a folder in chunks (section 2.2).

    Returns:
        The chunks, and the reason for each file or folder that was left out, by its name.

    Raises:
        FolderError: There is no such folder, or no file in it holds text that can be read.
    """
    read = documents.read_folder(folder)
    passages = []
    for document in read.documents:
        for start, end in chunk_spans(document.text, CHUNK, OVERLAP):
            text = document.text[start:end].strip()
            passages.append(Passage(f"{document.name}:{start}", document.name, text))
    return Corpus(tuple(passages)), read.left_out


def library(folder: Path, encoder: str = vectors.DEFAULT_ENCODER) -> Searcher:
    """A folder of guidance documents, ready to be asked; a logged warning says what is left out.

    Raises FolderError: there is no such folder, or nothing in it can be read.
    """
    corpus, left_out = read_folder(folder)
    for line in documents.describe(left_out):
        log.warning("Left out: %s", line)
    return Searcher(corpus, vectors.encoder(encoder))


def write_folder(passages: Iterable[Passage], folder: Path) -> Path:
    """Write passages as a folder of text files, one a document, named by its title, and numbered where two share it."""
    folder.mkdir(parents=True, exist_ok=True)
    texts_by_title: dict[str, list[str]] = {}
    for passage in passages:
        texts_by_title.setdefault(passage.document, []).append(passage.text)
    named: set[str] = set()
    for title, parts in texts_by_title.items():
        # file systems take 255 bytes, and some take capitals for small letters
        short = (
            re.sub(r"[^\w()-]+", " ", title).strip().encode()[:200].decode(errors="ignore")
            or "untitled"
        )
        name = next(
            n
            for i in count(1)
            if (n := short if i == 1 else f"{short} ({i})").casefold() not in named
        )
        named.add(name.casefold())
        (folder / f"{name}.txt").write_text("\n\n".join(parts), encoding="utf-8")
    return folder


def answer(
    question: str,
    searcher: Searcher,
    llm: LLM,
    *,
    characters: int = CHARACTERS,
    max_tokens: int = 160,
) -> Answered:
    """Answer a question from the documents of a `library`, by the passages that it and a hypothetical answer find.

    Of more than `characters` of passages the parts nearest to the question are shown.

    Raises ValueError: there is no question; ContextOverflowError: the prompt does not fit; ask for fewer characters.
    """
    if not question.strip():
        raise ValueError(
            "There is no question. Write one, such as: How long should reference samples be kept?"
        )
    guess = llm.chat_many([prompt(question, ())], max_tokens=96, label="hypothetical answer")[
        0
    ].text.strip()
    # an empty hypothetical answer finds nothing
    tracks = {"question": question, "hypothetical answer": guess or question}
    found = dict(
        zip(tracks, searcher.search(list(tracks.values()), CANDIDATES, by="windows"), strict=True)
    )
    ranked = rerank(
        {"": reciprocal_rank_fusion(found.values())}, best_window(searcher), {"": question}
    )[0][""][:KEPT]
    best = [searcher.corpus.passages[row] for row in ranked]
    by = {
        passage.id: " and ".join(track for track, rows in found.items() if row in rows)
        for row, passage in zip(ranked, best, strict=True)
    }
    shown = excerpts(question, best, characters)
    reply = llm.chat_many([prompt(question, shown)], max_tokens=max_tokens, label="answer")[0]
    return Answered(
        question, guess, read(reply, shown), tuple(by[excerpt.passage.id] for excerpt in shown)
    )


def show(answered: Answered, *, sample: bool = False) -> figures.Html:
    """An answer with its sources as a table: those that it names first."""
    given = answered.given
    rows = [
        {
            "": f"[{n}]",
            "document": excerpt.passage.document,
            "passage": excerpt.text,
            "found by": by,
        }
        for n, (excerpt, by) in enumerate(zip(given.shown, answered.by, strict=True), start=1)
    ]
    rows.sort(key=lambda row: int(row[""][1:-1]) not in given.cited)
    named = ", ".join(f"[{n}]" for n in given.cited)
    text = (
        f"{f'It names {named}.' if named else 'It names no source: check it before you rely on it.'} "
        f"{figures.number(answered.quoted, digits=0)} of its word sequences are in the passages word by word. "
        f"Without sources the model said: {answered.hypothetical}"
    )
    table = figures.table(
        pd.DataFrame(rows), f"Sources of the answer to: {answered.question}", sample=sample
    )
    head = figures.prompt_box(
        [{"role": "question", "content": answered.question}], answer=given.text
    )
    html = f"{head.html}<p>{figures.inline(text)}</p>{table.html}"
    return figures.Html(html, f"{answered.question}\n{given.text}\n{text}\n{table.text}")
