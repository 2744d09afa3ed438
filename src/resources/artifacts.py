"""What was made once and is stored: folders that are written whole, checked when read, and made again if damaged."""

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
DAMAGED = (ValueError, KeyError, TypeError)  # what reading a damaged log raises
LOG = "training.json"  # digests of a folder's files, and what is to be known of their making


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A folder to write to, which takes the place of `folder` when all went well and else leaves nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        part = Path(temporary) / "made"
        yield part
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)


def write_log(folder: Path, weights: str, told: Mapping[str, Any]) -> None:
    """Write the log of a training beside its weights, with the digests of all files that are there."""
    files = {path.name: datasets.digest(path) for path in sorted(folder.iterdir())}
    text = json.dumps({"sha256": files[weights], "files": files, **told}, indent=1)
    (folder / LOG).write_text(text + "\n", encoding="utf-8")


def read_log(folder: Path, weights: str) -> dict[str, Any]:
    """The log that `write_log` wrote; FileNotFoundError if there is none, ValueError if it or a file is damaged."""
    told: dict[str, Any] = json.loads((folder / LOG).read_text(encoding="utf-8"))
    for name, digest in {
        **told.pop("files", {}),
        weights: told["sha256"],
    }.items():  # older logs have the weights' only
        if (found := datasets.digest(folder / name)) != digest:
            raise ValueError(
                f"{folder / name} is damaged: its SHA-256 should be {digest}, found {found}."
            )
    return told


def kept(
    parent: Path,
    name: str,
    decided_by: Sequence[object],
    load: Callable[[Path], T],
    make: Callable[[Path], T],
    released: Path | None = None,
) -> T:
    """What lies in `parent` or, as it was released, in `released`, as `<name>-<hash of decided_by>`; else made now.

    Notebooks that want the same wait for the first. `load` raises FileNotFoundError if there is none; what it finds
    damaged (ValueError, KeyError, TypeError) is set aside with a warning and made again.
    """
    decides = json.dumps(list(decided_by), sort_keys=True, ensure_ascii=False)
    folder = parent / f"{name}-{hashlib.sha256(decides.encode()).hexdigest()[:12]}"
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
        if released and (theirs := released / folder.name).is_dir():
            try:
                return load(theirs)
            except (FileNotFoundError, *DAMAGED) as error:
                log.warning("%s It is made again.", error)
        for left in folder.parent.glob(f".{folder.name}.*"):  # of one that was killed
            shutil.rmtree(left, ignore_errors=True)
        return make(folder)
