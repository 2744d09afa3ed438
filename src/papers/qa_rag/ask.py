"""Ask a folder of guidance documents in words: the passages of both tracks, the answer, and the sources it names.

The steps are the paper's (QA-RAG, Figure 1).
"""

import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import pandas as pd
import pypdf
from pypdf.errors import DependencyError, FileNotDecryptedError
from tqdm import tqdm

from evaluation import figures
from helpers import texts, vectors
from helpers.llm import LLM
from papers.qa_rag.answers import Given, excerpts, prompt, read
from papers.qa_rag.data import Corpus, Passage, held
from papers.qa_rag.retrieval import KEPT, best_window, rerank
from papers.qa_rag.search import Searcher
from rag.retrieval import chunk_spans, reciprocal_rank_fusion
from resources.settings import PublicError

log = logging.getLogger(__name__)

CHARACTERS = 4800  # of passages in the prompt: about 1,200 tokens
CANDIDATES = 12  # passages of each track (section 3.3)
KINDS = (".txt", ".md", ".mmd", ".pdf")
"""Of files that are read as documents."""
CHUNK, OVERLAP = 10_000, 2_000
"""Characters of a chunk and of what two share (section 2.2)."""


class FolderError(PublicError, ValueError):
    """A folder holds no document that can be read; the message says why and what to do."""


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


def read_folder(folder: Path) -> tuple[Corpus, dict[str, str]]:
    """A folder's text and PDF files (`KINDS`) in chunks (section 2.2); and why each file or folder was left out.

    Raises FolderError: there is no such folder, or no file in it holds text that can be read.
    """
    if not folder.is_dir():
        raise FolderError(
            f"There is no folder {folder}. Name one that holds {', '.join(KINDS)} files."
        )
    files, left_out = _documents(folder)
    passages: list[Passage] = []
    for path in tqdm(files, desc="read documents", unit="file", disable=len(files) < 10):
        name = _name(path, folder)
        try:
            text = _text(path)
        except texts.TextError as error:
            left_out[name] = str(error)
            continue
        spans = chunk_spans(text, CHUNK, OVERLAP)
        passages += [
            Passage(f"{name}:{start}", name, text[start:end].strip()) for start, end in spans
        ]
    if not passages:
        found = "".join(f"\n  {name}: {why}" for name, why in left_out.items()) or " there is none."
        raise FolderError(
            f"A document with text was needed ({', '.join(KINDS)}); in {folder}:{found}"
        )
    return Corpus(tuple(passages)), left_out


def _documents(folder: Path) -> tuple[list[Path], dict[str, str]]:
    """What is named as a document in a folder and those within it, and why a folder cannot be opened."""
    # `Path.rglob` ends at some 1,000 folders within each other, and leaves out without a word what it may not open
    found, closed, folders = [], {}, [folder]
    for within in folders:  # grows
        try:
            for path in within.iterdir():
                if path.is_dir() and not path.is_symlink():
                    folders.append(path)
                if path.suffix.lower() in KINDS:
                    found.append(path)
        except OSError as error:
            closed[_name(within, folder)] = f"the folder cannot be opened ({error.strerror})."
    return sorted(found), closed


def _name(path: Path, folder: Path) -> str:
    # a name of an older system may not be UTF-8
    return os.fsencode(path.relative_to(folder)).decode(errors="replace")


def _text(path: Path) -> str:
    text = (_pdf(path) if path.suffix.lower() == ".pdf" else texts.read(path)).strip()
    if not text:
        raise texts.TextError("it holds no text. Run OCR on scanned pages.")
    return text


def _pdf(path: Path) -> str:
    texts.need_file(path)
    try:
        return "\n\n".join(page.extract_text() for page in pypdf.PdfReader(path).pages)
    except (FileNotDecryptedError, DependencyError):
        raise texts.TextError("it is encrypted. Save it without a password.") from None
    except Exception as error:  # a damaged PDF ends the reader with whatever its bytes lead to
        raise texts.TextError(
            f"it cannot be read as PDF ({error}). Mend it, or save it anew."
        ) from error


def library(folder: Path, encoder: str = vectors.DEFAULT_ENCODER) -> Searcher:
    """A folder of guidance documents, ready to be asked; each file that is left out is named in a logged warning.

    Raises FolderError: there is no such folder, or nothing in it can be read.
    """
    corpus, left_out = read_folder(folder)
    for name, why in left_out.items():
        log.warning("%s was left out: %s", name, why)
    return Searcher(corpus, vectors.encoder(encoder))


def write_folder(passages: Iterable[Passage], folder: Path) -> Path:
    """Write passages as a folder of text files, one a document, named by its title, and numbered where two share it."""
    folder.mkdir(parents=True, exist_ok=True)
    documents: dict[str, list[str]] = {}
    for passage in passages:
        documents.setdefault(passage.document, []).append(passage.text)
    named: set[str] = set()
    for title, parts in documents.items():
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
