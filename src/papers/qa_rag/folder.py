"""A folder of own documents as passages that are searched (QA-RAG, section 2.2)."""

import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from helpers import documents, vectors
from helpers.counting import counted
from papers.qa_rag.data import Corpus, Data, Passage, Question, answer_passages
from papers.qa_rag.search import Search, Searcher
from rag.retrieval import chunk_spans
from resources.settings import DERIVED

CHUNK = 10_000
"""Characters of a chunk (section 2.2)."""

OVERLAP = 2_000
"""Characters that two chunks share (section 2.2)."""

READ_DOCUMENTS = DERIVED / "own" / "documents"
"""The text of own documents, so that the next question reads no file again. Nothing exports it."""

N_TIMED = 8
"""Passages that are encoded to estimate how long all of them take."""

N_DEMONSTRATED = 3
"""Test questions whose documents `write_released` writes."""

MAX_FILE_NAME_BYTES = 200
"""File systems take 255 bytes, those of the ending and a number included."""


@dataclass(frozen=True)
class Library:
    """A folder that is ready to be asked.

    Attributes:
        searcher: Its passages with their indexes.
        left_out: Reason for each file or folder that was not read, by its name.
    """

    searcher: Searcher
    left_out: Mapping[str, str]

    @property
    def corpus(self) -> Corpus:
        """The passages."""
        return self.searcher.corpus

    def contents(self, by: Search = "start") -> str:
        """What was read, and how long its index takes if there is none yet.

        Args:
            by: What of a passage is searched.
        """
        n_documents = counted(len(self.corpus.documents), "document")
        text = f"{n_documents}, {counted(len(self.corpus), 'passage')}"
        if by == "words":
            return f"{text}; a search by words needs no index."
        if self.searcher.is_indexed:
            return f"{text}; the index is there."
        seconds = self._seconds_of_index()
        took = f"about {seconds:.0f} s" if seconds < 90 else f"about {seconds / 60:.0f} minutes"
        return f"{text}; the index takes {took}, once. If it is ended, the next run goes on."

    def _seconds_of_index(self) -> float:
        passages = self.corpus.passages
        step = max(1, len(passages) // N_TIMED)
        timed = [passage.text for passage in passages[::step][:N_TIMED]]
        began = time.perf_counter()
        self.searcher.encode.encode(timed, progress=False)
        seconds = (time.perf_counter() - began) / len(timed)
        return seconds * len(passages)


def open_library(folder: Path, encoder: str = vectors.DEFAULT_ENCODER) -> Library:
    """Read a folder of documents; its index is made at the first search.

    Raises:
        FolderError: There is no such folder, or nothing in it can be read.
        EncoderUnavailable: There is no such encoder.
    """
    corpus, left_out = read_folder(folder)
    searcher = Searcher(corpus, vectors.encoder(encoder), index_windows=False)
    return Library(searcher, left_out)


def read_folder(folder: Path) -> tuple[Corpus, Mapping[str, str]]:
    """Read the documents of a folder in chunks (section 2.2).

    Returns:
        The chunks, and the reason for each file or folder that was left out, by its name.

    Raises:
        FolderError: There is no such folder, or no file in it holds text that can be read.
    """
    found = documents.read_folder(folder, READ_DOCUMENTS)
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


def write_released(released: Data, folder: Path) -> list[Question]:
    """Write released passages as a folder, for those who have no documents of their own.

    Args:
        released: The released data.
        folder: Where the files go, one a document.

    Returns:
        Test questions whose answer some document holds; the folder has what was retrieved for them.
    """
    questions: list[Question] = []
    ids: dict[str, None] = {}
    for question in released.test:
        holding = answer_passages(question, released.corpus)
        if not holding or len(questions) == N_DEMONSTRATED:
            continue
        questions.append(question)
        ids |= dict.fromkeys([*released.released["qa_rag"][question.id], *holding])
    write_folder([released.corpus.by_id[passage_id] for passage_id in ids], folder)
    return questions


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
