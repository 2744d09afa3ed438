"""What was made once and is stored.

Folders are written whole, checked when they are read, and made again if they are damaged.
"""

import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock

from resources import datasets

log = logging.getLogger(__name__)
T = TypeVar("T")
DAMAGED = (ValueError, KeyError, TypeError)
"""What reading a damaged log raises."""
LOG = "training.json"
"""Has the digests of a folder's files, and what is to be known of their making."""


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """Give a folder to write to, which replaces `folder` if all goes well and else is gone."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        part = Path(temporary) / "made"
        yield part
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)


def write_log(folder: Path, weights: str, content: Mapping[str, Any]) -> None:
    """Write the log of a training beside its weights, with the digests of all files there."""
    files = {path.name: datasets.digest(path) for path in sorted(folder.iterdir())}
    text = json.dumps({"sha256": files[weights], "files": files, **content}, indent=1)
    (folder / LOG).write_text(text + "\n", encoding="utf-8")


def read_log(folder: Path, weights: str) -> dict[str, Any]:
    """Return the log that `write_log` wrote.

    Raises:
        FileNotFoundError: There is none.
        ValueError: It is damaged, or one of the files is.
    """
    content: dict[str, Any] = json.loads((folder / LOG).read_text(encoding="utf-8"))
    # older logs have the digest of the weights only
    digests = {**content.pop("files", {}), weights: content["sha256"]}
    for name, digest in digests.items():
        found = datasets.digest(folder / name)
        if found != digest:
            raise ValueError(
                f"{folder / name} is damaged: its SHA-256 should be {digest}, found {found}."
            )
    return content


def folder_of(parent: Path, name: str, decided_by: Sequence[object]) -> Path:
    """Return the folder of what these inputs make, which need not be there; see `load_or_make`."""
    decides = json.dumps(list(decided_by), sort_keys=True, ensure_ascii=False)
    return parent / f"{name}-{hashlib.sha256(decides.encode()).hexdigest()[:12]}"


def load_or_make(
    parent: Path,
    name: str,
    decided_by: Sequence[object],
    load: Callable[[Path], T],
    make: Callable[[Path], T],
    released: Path | None = None,
) -> T:
    """Return what was made once from the same inputs, or make it now.

    It is called `<name>-<hash of decided_by>`. Notebooks that want the same wait for the first.

    Args:
        parent: Folder of what this machine made.
        name: What it is.
        decided_by: All that decides the content, as JSON can hold it.
        load: Reads a folder; FileNotFoundError if there is none, one of `DAMAGED` if it is damaged:
            then it is set aside with a warning and made again.
        make: Makes a folder.
        released: Folder of what the reference run made.
    """
    folder = folder_of(parent, name, decided_by)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        try:
            return load(folder)
        except FileNotFoundError:
            pass
        except DAMAGED as error:
            aside = folder.with_name(f"{folder.name}.bad-{os.urandom(4).hex()}")
            folder.rename(aside)
            log.warning("%s It was set aside as %s and is made again.", error, aside.name)
        if released and (released / folder.name).is_dir():
            try:
                return load(released / folder.name)
            except (FileNotFoundError, *DAMAGED) as error:
                log.warning("%s It is made again.", error)
        for half in folder.parent.glob(f".{folder.name}.*"):  # of one that was killed
            shutil.rmtree(half, ignore_errors=True)
        return make(folder)
