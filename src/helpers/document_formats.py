"""Read PDF, Word and HTML documents, in a process of its own.

A document that is made so can keep its reader busy without end, or fill the memory. So
``python -m helpers.document_formats`` gets the bytes of documents, one after the other, and
answers with their text. It opens no file, and the system ends it if it takes too much.
"""

import codecs
import io
import json
import os
import re
import resource
import signal
import sys
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

import mammoth
import pypdf
from bs4 import BeautifulSoup, NavigableString
from bs4.dammit import EncodingDetector
from pypdf.errors import FileNotDecryptedError

from resources.settings import PublicError

MAX_UNPACKED: Final = 300_000_000
"""Bytes that a Word document may have unpacked."""


class FormatError(PublicError):
    """A document cannot be read; the message says why and what to do."""


@dataclass(frozen=True)
class Section:
    """A part of a document: ``place`` says where it is, such as ``page 3``."""

    place: str
    text: str


def read_pdf(content: bytes) -> list[Section]:
    """Read the pages of a PDF. It may be encrypted if it needs no password to be read.

    Raises:
        FormatError: It needs a password.
    """
    try:
        pages = pypdf.PdfReader(io.BytesIO(content)).pages
        return [
            Section(f"page {number}", page.extract_text())
            for number, page in enumerate(pages, start=1)
        ]
    except FileNotDecryptedError:
        raise FormatError("it is encrypted. Save it without a password.") from None


def read_docx(content: bytes) -> list[Section]:
    """Read a Word document by its headings, without pictures.

    Raises:
        FormatError: It unpacks to too much.
    """
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        n_bytes = sum(member.file_size for member in archive.infolist())
    if n_bytes > MAX_UNPACKED:
        raise FormatError(
            f"it unpacks to {n_bytes / 1e6:,.0f} MB; at most {MAX_UNPACKED / 1e6:,.0f} are read."
        )
    page = mammoth.convert_to_html(io.BytesIO(content), convert_image=lambda _image: [])
    return _sections_of_page(page.value)


def read_html(content: bytes) -> list[Section]:
    """Read a page in HTML by its headings, in UTF-8 or in the encoding that it declares.

    Raises:
        FormatError: Its bytes are not of that encoding.
    """
    content, marked = EncodingDetector.strip_byte_order_mark(content)
    declared = EncodingDetector.find_declared_encoding(content, is_html=True)
    encoding = marked or declared or "utf-8"
    try:
        if codecs.lookup(encoding).name in ("iso8859-1", "ascii"):
            encoding = "windows-1252"  # what browsers take these names for
        page = content.decode(encoding)
    except (LookupError, UnicodeDecodeError):
        raise FormatError(
            f"its encoding should be {encoding}, and its bytes are not. Save it as UTF-8."
        ) from None
    return _sections_of_page(page)


UNSEEN = ["head", "script", "style", "template", "svg"]
"""Elements whose text is not shown."""

HIDDEN_STYLE = re.compile(r"\b(?:display\s*:\s*none|visibility\s*:\s*hidden)\b", re.IGNORECASE)
"""A style by which a browser does not show an element."""

HEADINGS = ["h1", "h2", "h3", "h4", "h5", "h6"]
PARAGRAPHS = ["article", "blockquote", "div", "dl", "ol", "p", "pre", "section", "table", "ul"]
LINES = ["br", "dd", "dt", "li", "tr"]
CELLS = ["td", "th"]
ENDS = {
    **dict.fromkeys(HEADINGS + PARAGRAPHS, "\n\n"),
    **dict.fromkeys(LINES, "\n"),
    **dict.fromkeys(CELLS, "\t"),
}
"""What separates an element from the text around it."""

SECTION_START = "\x1d"
MAX_PLACE_CHARACTERS = 100


def _sections_of_page(page: str) -> list[Section]:
    soup = BeautifulSoup(page.replace(SECTION_START, " "), "html.parser")
    unseen = soup.find_all(UNSEEN) + soup.find_all(hidden=True)
    unseen += soup.find_all(style=HIDDEN_STYLE)
    for element in unseen:
        element.decompose()
    for string in soup.find_all(string=True):
        if type(string) is NavigableString and string.find_parent("pre") is None:
            string.replace_with(re.sub(r"\s+", " ", string))
    for element in soup.find_all(list(ENDS)):
        element.insert_before(ENDS[element.name])
        element.insert_after(ENDS[element.name])
    for title in soup.find_all(HEADINGS):
        title.insert_before(SECTION_START)
    before_headings, *sections = soup.get_text().split(SECTION_START)
    found = [Section("", _tidy(before_headings))]
    for text in map(_tidy, sections):
        heading = text.partition("\n")[0][:MAX_PLACE_CHARACTERS]
        found.append(Section(f"section {heading}" if heading else "", text))
    return found


def _tidy(text: str) -> str:
    """Take out blanks at the ends of lines, and blank lines but for one between paragraphs."""
    cells = re.sub(r"\t+", "\t", text)
    lines = re.sub(r"[ \t]*\n[ \t]*", "\n", cells)
    return re.sub(r"\n{3,}", "\n\n", lines).strip()


READERS: Mapping[str, Callable[[bytes], list[Section]]] = {
    ".pdf": read_pdf,
    ".docx": read_docx,
    ".html": read_html,
    ".htm": read_html,
}
"""The reader of each ending."""


def _answer(suffix: str, content: bytes) -> dict[str, Any]:
    try:
        sections = READERS[suffix](content)
    except FormatError as error:
        return {"error": str(error)}
    except MemoryError:  # what is left of the document may fill the memory for the next one
        os._exit(1)
    except Exception as error:  # a damaged document ends its reader with whatever its bytes lead to
        kind = suffix.removeprefix(".")
        found = str(error) or type(error).__name__
        return {"error": f"it cannot be read as {kind} ({found}). Mend it, or save it anew."}
    return {"sections": [asdict(section) for section in sections]}


def main() -> None:
    """Answer each request on standard input: a line in JSON, then the bytes of the document.

    The argument of the command is the memory that the process may take, in bytes.
    """
    max_memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (max_memory, max_memory))
    replies = sys.stdout
    sys.stdout = sys.stderr  # a library that prints does not disturb the replies
    for line in sys.stdin.buffer:
        request = json.loads(line)
        content = sys.stdin.buffer.read(request["size"])
        # The system ends the process after so many seconds of computing.
        signal.setitimer(signal.ITIMER_PROF, request["seconds"])
        reply = json.dumps(_answer(request["suffix"], content))
        signal.setitimer(signal.ITIMER_PROF, 0)
        replies.write(reply + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
