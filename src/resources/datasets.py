"""A verified copy of each file of the registry.

`fetch` brings a file to `data/raw`; `locate` says which file to open.
"""

import argparse
import contextlib
import errno
import glob
import json
import logging
import os
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from filelock import FileLock
from rich.console import Console
from rich.table import Table

from resources import download
from resources.download import (
    DataError,
    HashMismatch,
    NotEnoughSpace,
    Piece,
    SourceError,
    digest,
    human,
)
from resources.registry import Entry, RegistryError, entry_of, registry
from resources.settings import RAW, ROOT, SAMPLE, SettingsError, run_command_line, settings

log = logging.getLogger(__name__)
GITHUB = r"^https://(raw\.githubusercontent|github)\.com/"
"""How the addresses begin of what a mirror holds under `github/`."""


class DataUnavailable(DataError):
    """No source gave the file."""


@dataclass(frozen=True)
class Located:
    """The file to open for `name`, and where its content came from."""

    name: str
    path: Path
    sample: bool
    sha256: str
    source: str


def locate(name: str, data: str = "auto") -> Located:
    """Return the file to open for a name; see `locate_all`."""
    return locate_all([name], data)[name]


def locate_all(names: Iterable[str], data: str = "auto") -> dict[str, Located]:
    """Return the files to open, by name: all of them real or all of them samples.

    Args:
        names: Names of the registry.
        data: "real", "sample", or "auto": the real files, and if no source gives one, the samples
            with a warning. A sample never stands in for wrong content.

    Raises:
        ValueError: `data` is another word.
        DataUnavailable: No source gives a file, and there are no samples or they are not wanted.
        HashMismatch: A file has other content.
    """
    if data not in ("auto", "real", "sample"):
        raise ValueError(f"data must be auto, real or sample, not {data!r}.")
    names = list(names)
    if data == "sample":
        return _samples(names)
    try:
        # all are fetched before the first is read
        paths = {name: fetch(name) for name in names}
        return {name: _located(name, path) for name, path in paths.items()}
    except DataUnavailable as error:
        if data == "real" or not _have_samples(names):
            raise
        log.warning("%s\nThe bundled sample is used instead of the real data.", error)
        return _samples(names)


def locate_available(names: Iterable[str]) -> dict[str, Located]:
    """Return the real files that a source gives, by name.

    It is for files that the reference run did not have, so that another run may lack them.
    """
    found = {}
    for name in names:
        with contextlib.suppress(DataUnavailable):
            found[name] = locate(name, "real")
    return found


def _located(name: str, path: Path) -> Located:
    entry = entry_of(name)
    sha256 = entry.sha256 or digest(path)
    return Located(name, path, sample=False, sha256=sha256, source=_verified(entry) or "")


def _have_samples(names: list[str]) -> bool:
    return all(entry_of(name).sample for name in names)


def _samples(names: list[str]) -> dict[str, Located]:
    return {name: _sample(name) for name in names}


def _sample(name: str) -> Located:
    sample = entry_of(name).sample
    if sample is None:
        with_sample = [name for name, entry in registry().items() if entry.sample]
        raise DataUnavailable(
            f"{name} has no bundled sample. Use the real file (data: real). With a sample: "
            f"{', '.join(with_sample)}."
        )
    path = SAMPLE / sample
    if not path.is_file():
        raise DataUnavailable(
            f"The bundled sample {path} is missing. Restore it from version control."
        )
    source = f"sample: data/sample/{sample}"
    return Located(name, path, sample=True, sha256=digest(path), source=source)


def fetch(name: str) -> Path:
    """Return the verified file `data/raw/<name>`, fetched if it is not there.

    `DATA_MIRROR` is asked first, then the sources in order. A full disk leaves no half file.

    Raises:
        DataUnavailable: No source gave the file.
        HashMismatch: It has other content, which lies in `<file>.bad-<start of its SHA-256>`.
        NotEnoughSpace: The disk has no room for it.
    """
    entry, target = entry_of(name), RAW / name
    if _verified(entry):
        return target
    for folder in (target.parent, _state(entry, "").parent):
        folder.mkdir(parents=True, exist_ok=True)
    with FileLock(_state(entry, ".lock")):
        if not _verified(entry):  # no other process fetched it while this one waited
            if target.exists():
                _set_aside(entry, target)
            _fetch(entry, target)
    return target


def _set_aside(entry: Entry, target: Path) -> None:
    try:
        download.verify(target, entry.digest, entry.size)
    except HashMismatch as error:
        log.warning("%s: %s. It is fetched anew.", entry.name, error)


def _fetch(entry: Entry, target: Path) -> None:
    """Ask the sources in order until one gives the file."""
    part = target.with_name(f"{target.name}.part")
    present = part.stat().st_size if part.exists() else 0
    download.need_space(part, entry.bytes - present)
    failures: list[str] = []
    for source, pieces in _ways(entry):
        _announce(entry, source)
        try:
            _fetch_from(entry, source, pieces, target)
            return
        except (SourceError, HashMismatch) as error:
            level = logging.WARNING if isinstance(error, HashMismatch) else logging.INFO
            log.log(level, "  %s", error)
            failures.append(f"  {len(failures) + 1}. {source}: {error}")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            raise _full_disk(entry, target) from None
    raise _not_fetched(entry, target, failures)


def _announce(entry: Entry, source: str) -> None:
    # notebooks show warnings alone, and whoever waits for a large file should know
    level = logging.WARNING if entry.bytes > download.LARGE else logging.INFO
    size = human(entry.bytes) if entry.sha256 else "size unknown"
    log.log(level, "Fetching %s (%s) from %s", entry.name, size, source)


def _fetch_from(entry: Entry, source: str, pieces: list[Piece], target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    download.bring(pieces, entry.size, entry.digest, part)
    with part.open("rb+") as file:
        os.fsync(file.fileno())
    part.replace(target)
    download.note_of(part).unlink(missing_ok=True)
    download.write_whole(_state(entry, ".json"), json.dumps(_stamp(entry, source)))


def _full_disk(entry: Entry, target: Path) -> NotEnoughSpace:
    """Remove the halves of a file, and say that the disk is full."""
    for half in target.parent.glob(f"{glob.escape(target.name)}.*part*"):
        half.unlink()
    return NotEnoughSpace(
        f"The disk of {target.parent} filled up while {entry.name} ({human(entry.bytes)}) was "
        "fetched. Free some space and fetch again."
    )


def _not_fetched(entry: Entry, target: Path, failures: list[str]) -> DataError:
    """Say what each source answered, and what to do."""
    report = "\n".join([f"{entry.name} could not be fetched. Asked in this order:", *failures])
    pattern = f"{glob.escape(target.name)}.bad-*"
    bad = sorted(str(path) for path in target.parent.glob(pattern))
    if bad:
        return HashMismatch(
            f"{report}\nSet aside, because digest {entry.digest} was needed: {', '.join(bad)}.\n"
            "Delete that and fetch again. If a source has really changed, check it and pin its new "
            "content in data/registry.yml."
        )
    mirror = "set" if settings().data_mirror else "unset"
    return DataUnavailable(
        f"{report}\nCheck the network, or set DATA_MIRROR to a folder or URL that holds "
        f"{entry.mirror} (it is now {mirror})."
    )


def _ways(entry: Entry) -> Iterator[tuple[str, list[Piece]]]:
    """Yield each source's label, and what the file is joined from there."""
    if mirror := settings().data_mirror:
        yield from _ways_of_mirror(entry, mirror)
    for source in entry.all_sources:
        yield source.carried()


def _ways_of_mirror(entry: Entry, mirror: str) -> Iterator[tuple[str, list[Piece]]]:
    is_url = mirror.startswith(("http://", "https://"))
    root = mirror.rstrip("/") if is_url else _folder(mirror)
    # by its place in its origin, or by its name, so that another checkout's data/raw is a mirror
    for place in dict.fromkeys((entry.mirror, entry.name)):
        yield f"DATA_MIRROR/{place}", [_piece_of_mirror(root, place)]
    for source in entry.sources:
        if not re.match(GITHUB, source.url):
            continue
        pieces, places = [], []
        for carrier, member in source.carried()[1]:
            place = re.sub(GITHUB, "github/", str(carrier))
            places.append(place)
            pieces.append(_piece_of_mirror(root, place, member))
        more = ", ..." if source.pieces else ""
        yield f"DATA_MIRROR/{places[0]}{more}", pieces


def _piece_of_mirror(root: Path | str, place: str, member: str = "") -> Piece:
    carrier = root / place if isinstance(root, Path) else f"{root}/{quote(place)}"
    return Piece(carrier, member)


def _folder(mirror: str) -> Path:
    path = Path(mirror).expanduser()
    for folder in (path, ROOT / path):
        if folder.is_dir():
            return folder
    raise SettingsError(
        f"DATA_MIRROR={mirror}: no such folder. Correct it, or unset it to use the public sources."
    )


def _verified(entry: Entry) -> str | None:
    """Return where the file came from if it is there with the right content, else None.

    Only what is not stamped is hashed.
    """
    target = RAW / entry.name
    if not target.is_file():
        return None
    stamp = download.read_json(_state(entry, ".json"))
    source = str(stamp.get("source", "unknown (found in data/raw)"))
    if stamp != _stamp(entry, source):
        if digest(target, entry.digest) != entry.digest:
            return None
        # where the folder may only be read, the next use hashes it again
        with contextlib.suppress(OSError):
            download.write_whole(_state(entry, ".json"), json.dumps(_stamp(entry, source)))
    return source


def _stamp(entry: Entry, source: str) -> dict[str, Any]:
    """Return what is noted of a verified file, so that it is not hashed at every use."""
    stat = (RAW / entry.name).stat()
    return {
        "sha256": entry.digest,
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "source": source,
    }


def _state(entry: Entry, suffix: str) -> Path:
    return RAW / ".state" / f"{entry.name.replace('/', '__')}{suffix}"


def _presence(entry: Entry) -> str:
    """Say where a file came from, or why it is not there."""
    if source := _verified(entry):
        address = source.partition("://")[2] or source
        return f"from {re.split('[/ ]', address)[0]}"
    if (RAW / entry.name).exists():
        return "[red]wrong content[/red]"
    return "sample only" if entry.sample else "no"


def _table(entries: list[Entry]) -> Table:
    columns = ("name", "what", "bytes", "there?", "licence", "used by")
    table = Table(*columns, title="Data and models")
    table.columns[0].overflow = table.columns[5].overflow = "fold"
    table.columns[2].no_wrap = True
    table.columns[2].justify = "right"
    present_bytes = 0
    for entry in entries:
        presence = _presence(entry)
        if presence.startswith("from "):
            present_bytes += entry.bytes
        size = f"{entry.bytes:,}" if entry.sha256 else "?"
        readers = "\n".join(entry.readers)
        table.add_row(entry.name, entry.what, size, presence, entry.licence, readers)
    total = sum(entry.bytes for entry in entries)
    table.caption = f"{human(present_bytes)} of {human(total)} are here"
    return table


def _chosen_entries(names: list[str], notebook: str) -> list[Entry]:
    """Return the entries of these names, or all, that a notebook reads, if one is named."""
    entries = [entry_of(name) for name in names] or list(registry().values())
    if not notebook:
        return entries
    chosen = [entry for entry in entries if notebook in entry.readers]
    if not chosen:
        readers = {reader for entry in entries for reader in entry.readers}
        raise RegistryError(
            f"No file here is read by {notebook!r}. Notebooks with data: "
            f"{', '.join(sorted(readers))}."
        )
    return chosen


def _fetch_all(entries: list[Entry]) -> bool:
    """Fetch what is not there; return whether a file is missing that a run needs."""
    failed = False
    for entry in entries:
        try:
            fetch(entry.name)
        except (DataUnavailable, HashMismatch) as error:
            log.error("%s", error)
            # of a file that nobody had a copy of, no run depends
            failed = failed or bool(entry.sha256)
    return failed


def main(arguments: list[str] | None = None) -> int:
    """Run the command line: list the files, or fetch them."""
    parser = argparse.ArgumentParser(
        "python -m resources.datasets", description="List or fetch data and models."
    )
    parser.add_argument("names", nargs="*", help="names in the registry (default: all)")
    parser.add_argument("--for", dest="notebook", default="", help="only what this notebook reads")
    parser.add_argument("--fetch", action="store_true", help="fetch what is not there")
    options = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    entries = _chosen_entries(options.names, options.notebook)
    failed = False
    if options.fetch:
        try:
            failed = _fetch_all(entries)
        except KeyboardInterrupt:
            log.error("Interrupted. Fetching again resumes from what has arrived.")
            return 130
    Console(width=None if sys.stdout.isatty() else 180).print(_table(entries))
    return int(failed)


if __name__ == "__main__":
    sys.exit(run_command_line(main))
