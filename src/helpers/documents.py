"""Read the documents in a user's folder, and name what was left out and why.

A folder may contain links to other places, pipes, huge files or damaged documents. Only ordinary
files inside the folder are opened. Whatever is left out is named with the reason.
"""

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

from tqdm import tqdm

from helpers import document_formats, texts
from helpers.document_formats import Section
from helpers.folders import FolderError, list_files, printable
from helpers.texts import TextError
from helpers.typography import normalise
from resources.download import write_whole

__all__ = [
    "Document",
    "Folder",
    "FolderError",
    "Place",
    "describe",
    "no_text_error",
    "read_documents",
    "read_folder",
]

TEXT_KINDS = (".txt", ".md", ".mmd")
KINDS = (*TEXT_KINDS, *document_formats.READERS)
"""Endings of the files that are read."""

MAX_SECONDS = 120.0
"""Seconds of computing that one document may take."""

MAX_MEMORY = 2 * 2**30
"""Bytes of memory that the process of the readers may take."""

MAX_CHARACTERS = 100_000_000
"""Characters of text that all documents of a folder may have together."""

MAX_NAMES = 5
"""Names that a message lists."""

READER_PACKAGES = ("pypdf", "mammoth", "beautifulsoup4")
"""Another version of these may read another text."""

OWN_FILE_MODE = 0o600
"""Of files with text of own documents: for their owner alone."""

NO_TEXT = "it holds no text."
NO_TEXT_ON_PAGES = f"{NO_TEXT} Run OCR on scanned pages."


@dataclass(frozen=True)
class Place:
    """The character at which a part of a text begins, and the part's name, such as ``page 3``."""

    start: int
    name: str


@dataclass(frozen=True)
class Document:
    """The text of one file.

    Attributes:
        name: Path of the file within the folder.
        text: The text as it is searched and shown (see ``typography``).
        places: Where the pages or sections of the text begin, in order.
    """

    name: str
    text: str
    places: tuple[Place, ...] = ()

    def places_within(self, start: int, end: int) -> tuple[Place, ...]:
        """Return the places within a part of the text, counted from the beginning of this part."""
        before = [place for place in self.places if place.start <= start]
        within = [place for place in self.places if start < place.start < end]
        first = [Place(0, before[-1].name)] if before else []
        return (*first, *(Place(place.start - start, place.name) for place in within))


@dataclass(frozen=True)
class Folder:
    """The documents of a folder, and what was left out.

    Attributes:
        documents: The documents, in the order of their paths.
        left_out: Name of each file, folder or page that was not read, with the reason.
    """

    documents: tuple[Document, ...]
    left_out: Mapping[str, str]


def read_folder(folder: Path, cache: Path | None = None) -> Folder:
    """Read the documents in a folder and in the folders within it.

    Args:
        folder: The folder. Its hidden files and folders are left out.
        cache: The folder in which the text of PDF, Word and HTML documents is kept, so that each
            document is read only once. With None, no text is kept.

    Raises:
        FolderError: If there is no such folder, if it is too large, or if it has no document with
            text.
    """
    found = read_documents(folder, cache)
    if not found.documents:
        raise no_text_error(folder, KINDS, found.left_out)
    return found


def read_documents(
    folder: Path, cache: Path | None = None, *, other_kinds: Sequence[str] = ()
) -> Folder:
    """Read the documents in a folder as ``read_folder`` does; there may be none.

    Args:
        folder: Where to look; hidden files and folders are left out.
        cache: The folder in which the text of documents is kept, as in ``read_folder``.
        other_kinds: Endings of the files that the caller reads. The result does not name them.

    Raises:
        FolderError: If there is no such folder, or if it is too large.
    """
    listing = list_files(folder, (*KINDS, *other_kinds))
    left_out = listing.left_out
    documents = []
    n_characters = 0
    document_files = {}
    for path, file in sorted(listing.files.items()):
        if path.suffix.lower() in KINDS:
            document_files[path] = file
    progress = tqdm(
        document_files.items(),
        desc="read documents",
        unit="file",
        disable=len(document_files) < 10,
    )
    with FormatReader(MAX_SECONDS, MAX_MEMORY, cache) as reader:
        for path, file in progress:
            name = listing.names[path]
            try:
                sections = _read_sections(file, path.suffix.lower(), reader)
                document = _document(name, sections)
            except TextError as error:
                left_out[name] = printable(" ".join(str(error).split()))
                continue
            n_characters += len(document.text)
            if n_characters > MAX_CHARACTERS:
                left_out[name] = f"the folder has more than {MAX_CHARACTERS:,} characters of text."
                continue
            documents.append(document)
            left_out |= _empty_places(name, sections)
    return Folder(tuple(documents), left_out)


def no_text_error(folder: Path, kinds: Sequence[str], left_out: Mapping[str, str]) -> FolderError:
    """Return the error of a folder without text, with the reasons of what was left out.

    Args:
        folder: Where the documents were looked for.
        kinds: Endings of the files that are read.
        left_out: The reason for each file, folder or page that was left out, by its name.
    """
    found = "; ".join(describe(left_out)[:MAX_NAMES]) or "it is empty."
    return FolderError(f"A document with text was needed ({', '.join(kinds)}) in {folder}: {found}")


def describe(left_out: Mapping[str, str]) -> list[str]:
    """Write one line for each reason, with some of the files, folders or pages left out for it.

    Args:
        left_out: The reason for each file, folder or page, by its name, as in ``Folder``.
    """
    names_by_reason = defaultdict(list)
    for name, reason in left_out.items():
        names_by_reason[reason].append(name)
    lines = []
    for reason, names in names_by_reason.items():
        lines.append(f"{_first_names(names)}: {reason}")
    return lines


def _first_names(names: Sequence[str]) -> str:
    listed = ", ".join(names[:MAX_NAMES])
    n_more = len(names) - MAX_NAMES
    return f"{listed} and {n_more:,} more" if n_more > 0 else listed


@dataclass
class FormatReader:
    """The process of ``document_formats``; it starts with the first document that needs it.

    Attributes:
        seconds: Seconds of computing that one document may take.
        max_memory: Bytes that the process may take.
        cache: Where the text of documents is kept; nowhere if it is None.
    """

    seconds: float
    max_memory: int
    cache: Path | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        """Nothing is started yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """End the process."""
        self._end()

    def read(self, content: bytes, suffix: str) -> list[Section]:
        """Read one document.

        Args:
            content: The bytes of the document.
            suffix: A key of ``document_formats.READERS``.

        Raises:
            TextError: The document cannot be read, or its reader took too much time or memory.
        """
        if self.cache is None:
            return self._read_now(content, suffix)
        path = self.cache / f"{_content_digest(content, suffix)}.json"
        sections = _cached_sections(path)
        if sections is None:
            sections = self._read_now(content, suffix)
            rows = [asdict(section) for section in sections]
            write_whole(path, json.dumps(rows), OWN_FILE_MODE)
        return sections

    def _read_now(self, content: bytes, suffix: str) -> list[Section]:
        if self._process is None:
            self._process = _start_process(self.max_memory)
        request = {"size": len(content), "suffix": suffix, "seconds": self.seconds}
        reply = _ask(self._process, json.dumps(request).encode() + b"\n" + content)
        if not reply:
            raise TextError(self._reason_of_end())
        answer = json.loads(reply)
        if "error" in answer:
            raise TextError(answer["error"])
        return [Section(**section) for section in answer["sections"]]

    def _reason_of_end(self) -> str:
        code = self._end()
        if code == -signal.SIGPROF:
            return f"it takes more than {self.seconds:.0f} s to read. Divide it, or save it anew."
        limit = f"{self.max_memory / 2**30:.1f} GB"
        return f"it takes more than {limit} of memory, or ends its reader (code {code}). Divide it."

    def _end(self) -> int | None:
        process, self._process = self._process, None
        if process is None:
            return None
        with process:
            process.kill()  # no effect on one that has ended
        return process.returncode


def _content_digest(content: bytes, suffix: str) -> str:
    """Digest of all that decides the text of a document."""
    readers = [f"{package} {version(package)}" for package in READER_PACKAGES]
    head = "\n".join([suffix, *readers, ""])
    return hashlib.sha256(head.encode() + content).hexdigest()


def _cached_sections(path: Path) -> list[Section] | None:
    """The sections in a file, or None if it is missing or damaged."""
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
        return [Section(**row) for row in rows]
    except (OSError, ValueError, TypeError):
        return None


def _start_process(max_memory: int) -> subprocess.Popen[bytes]:
    source = Path(document_formats.__file__).parents[1]
    search_path = [str(source), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return subprocess.Popen(
        [sys.executable, "-m", document_formats.__name__, str(max_memory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, search_path))},
    )


def _ask(process: subprocess.Popen[bytes], request: bytes) -> bytes:
    """Send a request; the reply is empty if the process has ended."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("The process of the readers was needed with pipes to it.")
    try:
        process.stdin.write(request)
        process.stdin.flush()
    except BrokenPipeError:
        return b""
    return process.stdout.readline()


MARKDOWN_HEADING = re.compile(r"^#{1,6}[ \t]+(?P<title>\S.*)$", re.MULTILINE)


def _read_sections(path: Path, suffix: str, reader: FormatReader) -> list[Section]:
    # The listing has resolved all links; one that has come since is refused.
    content = texts.read_bytes(path, flags=os.O_NOFOLLOW)
    if not content:
        raise TextError("it is empty.")
    if suffix in TEXT_KINDS:
        return [Section("", texts.decode(content))]
    return reader.read(content, suffix)


def _document(name: str, sections: Sequence[Section]) -> Document:
    texts_of_sections = normalise([section.text for section in sections])
    text = ""
    places = []
    for section, section_text in zip(sections, texts_of_sections, strict=True):
        if not section_text.strip():
            continue
        if text:
            text += "\n\n"
        if section.place:
            places.append(Place(len(text), section.place))
        text += section_text.strip()
    if not text:
        raise TextError(NO_TEXT_ON_PAGES if name.lower().endswith(".pdf") else NO_TEXT)
    if name.lower().endswith(".md"):
        places = _headings(text)
    return Document(name, text, tuple(places))


def _headings(text: str) -> list[Place]:
    """The headings of a text in Markdown."""
    places = []
    for match in MARKDOWN_HEADING.finditer(text):
        title = match["title"].rstrip("# ")
        places.append(Place(match.start(), f"section {title}"))
    return places


def _empty_places(name: str, sections: Sequence[Section]) -> dict[str, str]:
    """The pages of a document that hold no text, though others do."""
    named = [section for section in sections if section.place]
    empty = [section.place for section in named if not section.text.strip()]
    if not empty:
        return {}
    return {f"{name}, {_first_names(empty)}": NO_TEXT_ON_PAGES}
