"""Read the documents of a folder of the user, and name what was left out and why.

A folder may hold anything: links to other places, pipes, huge files, damaged documents.
Only ordinary files inside the folder are opened, and nothing is left out in silence.
"""

import io
import os
import unicodedata
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pypdf
from pypdf.errors import DependencyError, FileNotDecryptedError
from tqdm import tqdm

from helpers import texts
from helpers.texts import TextError
from resources.settings import PublicError

KINDS = (".txt", ".md", ".mmd", ".pdf")
"""Endings of the files that are read."""

HIDDEN_PREFIXES = (".", "~$")
"""Beginnings of names that programs give to what nobody should see."""

MAX_ENTRIES = 100_000
"""Files and folders that are looked at, those within folders included."""

MAX_CHARACTERS = 100_000_000
"""Characters of text that all documents of a folder may have together."""

MAX_NAMES = 5
"""Names that a message lists."""

PLACEHOLDER = "\N{REPLACEMENT CHARACTER}"
LINE_ENDS = ("Zl", "Zp")
"""Unicode categories of line and paragraph separators."""

OTHER_FOLDER = "it is a link that leaves the folder. Copy what it points to into the folder."


class FolderError(PublicError, ValueError):
    """A folder holds no document that can be read; the message says why and what to do."""


@dataclass(frozen=True)
class Document:
    """The text of one file; ``name`` is its path within the folder."""

    name: str
    text: str


@dataclass(frozen=True)
class Folder:
    """What was read in a folder.

    Attributes:
        documents: The documents, in the order of their paths.
        left_out: Name of each file or folder that was not read, with the reason.
    """

    documents: tuple[Document, ...]
    left_out: Mapping[str, str]


def read_folder(folder: Path) -> Folder:
    """Read the documents in a folder and in the folders within it.

    Raises:
        FolderError: There is no such folder, it is too large, or it has no document with text.
    """
    listing = _list_files(folder)
    left_out = listing.left_out
    documents = []
    characters = 0
    progress = tqdm(
        sorted(listing.files.items()),
        desc="read documents",
        unit="file",
        disable=len(listing.files) < 10,
    )
    for path, file in progress:
        name = listing.names[path]
        try:
            text = _read_text(file, path.suffix.lower())
        except TextError as error:
            left_out[name] = printable(str(error))
            continue
        characters += len(text)
        if characters > MAX_CHARACTERS:
            left_out[name] = f"the folder has more than {MAX_CHARACTERS:,} characters of text."
            continue
        documents.append(Document(name, text))
    if not documents:
        found = "; ".join(describe(left_out)) or "it is empty."
        raise FolderError(
            f"A document with text was needed ({', '.join(KINDS)}) in {folder}: {found}"
        )
    return Folder(tuple(documents), left_out)


def describe(left_out: Mapping[str, str]) -> list[str]:
    """Write one line for each reason, with the first names that it concerns.

    Args:
        left_out: Reason by name, as in ``Folder``.
    """
    names_by_reason = defaultdict(list)
    for name, reason in left_out.items():
        names_by_reason[reason].append(name)
    lines = []
    for reason, names in names_by_reason.items():
        listed = ", ".join(names[:MAX_NAMES])
        if len(names) > MAX_NAMES:
            listed += f" and {len(names) - MAX_NAMES:,} more"
        lines.append(f"{listed}: {reason}")
    return lines


def printable(text: str) -> str:
    """Replace line ends and other characters that a terminal does not show."""
    if text.isprintable():
        return text
    characters = [PLACEHOLDER if _is_control(character) else character for character in text]
    return "".join(characters)


def _is_control(character: str) -> bool:
    category = unicodedata.category(character)
    return category.startswith("C") or category in LINE_ENDS


@dataclass
class _Listing:
    """The files of a folder while it is walked.

    Attributes:
        root: The folder, without links.
        folders: Folders to look into.
        files: Where each file is that has the ending of a document; a link by its target.
        names: Name of each entry, for messages and citations.
        left_out: Reason by name.
    """

    root: Path
    folders: list[Path] = field(default_factory=list)
    files: dict[Path, Path] = field(default_factory=dict)
    names: dict[Path, str] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    _used_names: set[str] = field(default_factory=set)

    def add(self, entry: os.DirEntry[str]) -> None:
        """Take note of a file, a folder or a link."""
        path = Path(entry.path)
        name = self.name(path)
        if entry.name.startswith(HIDDEN_PREFIXES):
            self.left_out[name] = "it is hidden."
        elif entry.is_symlink():
            self._add_link(path)
        elif entry.is_dir(follow_symlinks=False):
            self.folders.append(path)
        elif entry.is_file(follow_symlinks=False):
            self._add_file(path, path)
        else:
            self.left_out[name] = "it is a pipe, a socket or a device."

    def _add_link(self, path: Path) -> None:
        name = self.name(path)
        path.stat()  # the system gives up on a long chain of links, ``resolve`` does not
        target = path.resolve(strict=True)
        if not target.is_relative_to(self.root):
            self.left_out[name] = OTHER_FOLDER
        elif target.is_dir():
            self.left_out[name] = "it is a link to a folder, which is read where it is."
        else:
            self._add_file(path, target)

    def _add_file(self, path: Path, target: Path) -> None:
        suffix = path.suffix.lower()
        if suffix in KINDS:
            self.files[path] = target
            return
        ending = f"files that end in {printable(suffix)}" if suffix else "files without an ending"
        self.left_out[self.name(path)] = f"{ending} are not read. Save it as {', '.join(KINDS)}."

    def drop_second_names(self) -> None:
        """Leave out links to files that are read under their own name."""
        for path, target in list(self.files.items()):
            if path != target and target in self.files:
                self.left_out[self.name(path)] = f"it is a link to {self.name(target)}."
                del self.files[path]

    def name(self, path: Path) -> str:
        """The path within the folder as it can be printed; no two have the same."""
        if path in self.names:
            return self.names[path]
        # A name of an older system may not be UTF-8.
        encoded = os.fsencode(path.relative_to(self.root))
        first_choice = printable(encoded.decode(errors="replace"))
        name = first_choice
        number = 2
        while name in self._used_names:
            name = f"{first_choice} ({number})"
            number += 1
        self._used_names.add(name)
        self.names[path] = name
        return name


def _list_files(folder: Path) -> _Listing:
    if not folder.is_dir():
        raise FolderError(
            f"There is no folder {folder}. Name one that holds {', '.join(KINDS)} files."
        )
    root = folder.resolve(strict=True)
    listing = _Listing(root, folders=[root])
    n_entries = 0
    # `Path.rglob` ends at some 1,000 folders within each other, and passes over in silence
    # what it may not open.
    for current in listing.folders:  # grows
        try:
            entries = list(os.scandir(current))
        except OSError as error:
            listing.left_out[listing.name(current)] = _cannot_open("the folder", error)
            continue
        n_entries += len(entries)
        if n_entries > MAX_ENTRIES:
            raise FolderError(
                f"At most {MAX_ENTRIES:,} files and folders are looked at, {folder} has more. "
                "Name a folder that holds the documents alone."
            )
        for entry in entries:
            try:
                listing.add(entry)
            except FileNotFoundError:
                listing.left_out[listing.name(Path(entry.path))] = "it is a broken link."
            except OSError as error:
                listing.left_out[listing.name(Path(entry.path))] = _cannot_open("it", error)
    listing.drop_second_names()
    return listing


def _cannot_open(what: str, error: OSError) -> str:
    return f"{what} cannot be opened ({error.strerror})."


def _read_text(path: Path, suffix: str) -> str:
    # The listing has resolved all links; one that has come since is refused.
    content = texts.read_bytes(path, flags=os.O_NOFOLLOW)
    text = _read_pdf(content) if suffix == ".pdf" else texts.decode(content)
    if not text.strip():
        raise TextError("it holds no text. Run OCR on scanned pages.")
    return text.strip()


def _read_pdf(content: bytes) -> str:
    try:
        reader = pypdf.PdfReader(io.BytesIO(content))
        return "\n\n".join(page.extract_text() for page in reader.pages)
    except (FileNotDecryptedError, DependencyError):
        raise TextError("it is encrypted. Save it without a password.") from None
    except Exception as error:  # a damaged PDF ends the reader with whatever its bytes lead to
        raise TextError(f"it cannot be read as PDF ({error}). Mend it, or save it anew.") from error
