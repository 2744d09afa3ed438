"""List the ordinary files inside a user's folder, and what is left out and why."""

import os
import unicodedata
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path

from resources.settings import PublicError

HIDDEN_PREFIXES = (".", "~$")
"""Beginnings of names that programs give to what nobody should see."""

MAX_ENTRIES = 100_000
"""Files and folders that are looked at, those within folders included."""

OTHER_FOLDER = "it is a link that leaves the folder. Copy what it points to into the folder."

PLACEHOLDER = "\N{REPLACEMENT CHARACTER}"
LINE_ENDS = ("Zl", "Zp")
"""Unicode categories of line and paragraph separators."""


class FolderError(PublicError, ValueError):
    """Raised when a folder is missing, too large, or without a readable document.

    The message says what to do.
    """


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
class Listing:
    """The files of a folder with those that are no document.

    Attributes:
        root: The folder, without links.
        kinds: Endings of the files that are looked for, in small letters.
        folders: Folders to look into.
        files: Where each file is that has the ending of a document; a link by its target.
        names: Name of each entry, for messages and citations.
        left_out: Reason by name.
    """

    root: Path
    kinds: Collection[str]
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
        if suffix in self.kinds:
            self.files[path] = target
            return
        ending = f"files that end in {printable(suffix)}" if suffix else "files without an ending"
        self.left_out[self.name(path)] = (
            f"{ending} are not read. Save it as {', '.join(self.kinds)}."
        )

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


def list_files(folder: Path, kinds: Collection[str]) -> Listing:
    """List the files of a folder and of those within it.

    Args:
        folder: The folder, or a link to it.
        kinds: Endings of the files that are looked for, in small letters, such as ``.pdf``.

    Raises:
        FolderError: There is no such folder, or it is too large.
    """
    if not folder.is_dir():
        raise FolderError(
            f"There is no folder {folder}. Name one that holds {', '.join(kinds)} files."
        )
    root = folder.resolve(strict=True)
    listing = Listing(root, kinds, folders=[root])
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
