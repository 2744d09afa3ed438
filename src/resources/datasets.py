"""A verified copy of each file of the registry: `fetch` brings it to `data/raw`, `locate` says which file to open."""

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
    """See `locate_all`."""
    return locate_all([name], data)[name]


def locate_all(names: Iterable[str], data: str = "auto") -> dict[str, Located]:
    """The files to open for `names`: all of them real or all of them samples, never a mixture.

    `data` is "real", "sample", or "auto": the real files, and if no source gives one, the samples with a warning.
    Wrong content is a HashMismatch; a sample never stands in for it.
    """
    if data not in ("auto", "real", "sample"):
        raise ValueError(f"data must be auto, real or sample, not {data!r}.")
    names = list(names)
    if data == "sample":
        return {name: _sample(name) for name in names}
    try:
        found = {name: (fetch(name), entry_of(name)) for name in names}
        return {
            n: Located(n, p, False, e.sha256 or digest(p), _verified(e) or "")
            for n, (p, e) in found.items()
        }
    except DataUnavailable as error:
        if data == "real" or not all(entry_of(name).sample for name in names):
            raise
        log.warning("%s\nThe bundled sample is used instead of the real data.", error)
        return {name: _sample(name) for name in names}


def at_hand(names: Iterable[str]) -> dict[str, Located]:
    """The real files to open for those of `names` that a source gives: files that the reference run did not have."""
    found = {}
    for name in names:
        with contextlib.suppress(DataUnavailable):
            found[name] = locate(name, "real")
    return found


def _sample(name: str) -> Located:
    sample = entry_of(name).sample
    if sample is None:
        having = ", ".join(n for n, e in registry().items() if e.sample)
        raise DataUnavailable(
            f"{name} has no bundled sample. Use the real file (data: real). With a sample: {having}."
        )
    if not (SAMPLE / sample).is_file():
        raise DataUnavailable(
            f"The bundled sample {SAMPLE / sample} is missing. Restore it from version control."
        )
    return Located(
        name, SAMPLE / sample, True, digest(SAMPLE / sample), f"sample: data/sample/{sample}"
    )


def fetch(name: str) -> Path:
    """The verified file `data/raw/<name>`, fetched if it is not there: from `DATA_MIRROR`, then the sources in order.

    NotEnoughSpace leaves no half file; DataUnavailable says that no source gave the file, and HashMismatch that it has
    other content, kept as `<file>.bad-<start of its SHA-256>`.
    """
    entry, target = entry_of(name), RAW / name
    if _verified(entry):
        return target
    for folder in (target.parent, _state(entry, "").parent):
        folder.mkdir(parents=True, exist_ok=True)
    with FileLock(_state(entry, ".lock")):
        if not _verified(entry):  # no other process fetched it while this one waited
            if target.exists():
                try:
                    download.verify(target, entry.digest, entry.size)
                except HashMismatch as error:
                    log.warning("%s: %s. It is fetched anew.", name, error)
            _fetch(entry, target)
    return target


def _fetch(entry: Entry, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    download.need_space(part, entry.bytes - (part.stat().st_size if part.exists() else 0))
    tried: list[str] = []
    for source, pieces in _ways(entry):
        # notebooks show warnings alone, and whoever waits for a large file should know
        level = logging.WARNING if entry.bytes > download.LARGE else logging.INFO
        size = human(entry.bytes) if entry.sha256 else "size unknown"
        log.log(level, "Fetching %s (%s) from %s", entry.name, size, source)
        try:
            download.bring(pieces, entry.size, entry.digest, part)
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(target)
            download.note_of(part).unlink(missing_ok=True)
            download.write_whole(_state(entry, ".json"), json.dumps(_stamp(entry, source)))
            return
        except (SourceError, HashMismatch) as error:
            log.log(
                logging.WARNING if isinstance(error, HashMismatch) else logging.INFO, "  %s", error
            )
            tried.append(f"  {len(tried) + 1}. {source}: {error}")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            for half in target.parent.glob(f"{glob.escape(target.name)}.*part*"):
                half.unlink()
            full = f"The disk of {target.parent} filled up while {entry.name} ({human(entry.bytes)}) was fetched"
            raise NotEnoughSpace(f"{full}. Free some space and fetch again.") from None
    report = "\n".join([f"{entry.name} could not be fetched. Asked in this order:", *tried])
    bad = sorted(str(path) for path in target.parent.glob(f"{glob.escape(target.name)}.bad-*"))
    if bad:
        raise HashMismatch(
            f"{report}\nSet aside, because digest {entry.digest} was needed: {', '.join(bad)}.\nDelete that and fetch "
            "again. If a source has really changed, check it and pin its new content in data/registry.yml."
        )
    raise DataUnavailable(
        f"{report}\nCheck the network, or set DATA_MIRROR to a folder or URL that holds {entry.mirror} "
        f"(it is now {'set' if settings().data_mirror else 'unset'})."
    )


def _ways(entry: Entry) -> Iterator[tuple[str, list[Piece]]]:
    """Each source's label, and what the file is joined from there."""
    if mirror := settings().data_mirror:
        root = mirror.rstrip("/") if mirror.startswith(("http://", "https://")) else _folder(mirror)

        def held(place: str, member: str = "") -> Piece:
            return Piece(
                root / place if isinstance(root, Path) else f"{root}/{quote(place)}", member
            )

        # by its place in its origin, or by its name: so the data/raw of another checkout is a mirror too
        for place in dict.fromkeys((entry.mirror, entry.name)):
            yield f"DATA_MIRROR/{place}", [held(place)]
        for source in entry.sources:
            if re.match(GITHUB, source.url):
                places = [
                    (re.sub(GITHUB, "github/", str(of)), member)
                    for of, member in source.carried()[1]
                ]
                yield (
                    f"DATA_MIRROR/{places[0][0]}{', ...' if source.pieces else ''}",
                    [held(*of) for of in places],
                )
    for source in entry.all_sources:
        yield source.carried()


def _folder(mirror: str) -> Path:
    given = Path(mirror).expanduser()
    for folder in (given, ROOT / given):
        if folder.is_dir():
            return folder
    raise SettingsError(
        f"DATA_MIRROR={mirror}: no such folder. Correct it, or unset it to use the public sources."
    )


def _verified(entry: Entry) -> str | None:
    """Where the file came from if it is there with the right content, else None. Hashes only what is not stamped."""
    target = RAW / entry.name
    if not target.is_file():
        return None
    stamp = download.read_json(_state(entry, ".json"))
    source = str(stamp.get("source", "unknown (found in data/raw)"))
    if stamp != _stamp(entry, source):
        if digest(target, entry.digest) != entry.digest:
            return None
        with contextlib.suppress(
            OSError
        ):  # a folder that may only be read: the next use hashes it again
            download.write_whole(_state(entry, ".json"), json.dumps(_stamp(entry, source)))
    return source


def _stamp(entry: Entry, source: str) -> dict[str, Any]:
    """What is noted of a verified file, so that a large one is not hashed at every use."""
    stat = (RAW / entry.name).stat()
    return {
        "sha256": entry.digest,
        "size": stat.st_size,
        "mtime_ns": stat.st_mtime_ns,
        "source": source,
    }


def _state(entry: Entry, suffix: str) -> Path:
    return RAW / ".state" / f"{entry.name.replace('/', '__')}{suffix}"


def _table(entries: list[Entry]) -> Table:
    table, here = (
        Table("name", "what", "bytes", "there?", "licence", "used by", title="Data and models"),
        0,
    )
    table.columns[0].overflow = table.columns[5].overflow = "fold"
    table.columns[2].no_wrap, table.columns[2].justify = True, "right"
    for entry in entries:
        if source := _verified(entry):
            here += entry.bytes
            there = f"from {re.split('[/ ]', source.partition('://')[2] or source)[0]}"
        elif (RAW / entry.name).exists():
            there = "[red]wrong content[/red]"
        else:
            there = "sample only" if entry.sample else "no"
        size = f"{entry.bytes:,}" if entry.sha256 else "?"
        table.add_row(entry.name, entry.what, size, there, entry.licence, "\n".join(entry.readers))
    table.caption = f"{human(here)} of {human(sum(entry.bytes for entry in entries))} are here"
    return table


def main(arguments: list[str] | None = None) -> int:
    """The command line: list the files, or fetch them."""
    parser = argparse.ArgumentParser(
        "python -m resources.datasets", description="List or fetch data and models."
    )
    parser.add_argument("names", nargs="*", help="names in the registry (default: all)")
    parser.add_argument(
        "--for", dest="notebook", metavar="NOTEBOOK", help="only what this notebook reads"
    )
    parser.add_argument("--fetch", action="store_true", help="fetch what is not there")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    entries, failed = [entry_of(name) for name in given.names] or list(registry().values()), 0
    if given.notebook:
        having = ", ".join(sorted({reader for entry in entries for reader in entry.readers}))
        entries = [entry for entry in entries if given.notebook in entry.readers]
        if not entries:
            raise RegistryError(
                f"No file here is read by {given.notebook!r}. Notebooks with data: {having}."
            )
    try:
        for entry in entries if given.fetch else ():
            try:
                fetch(entry.name)
            except (DataUnavailable, HashMismatch) as error:
                log.error("%s", error)
                failed |= bool(entry.sha256)  # of what no copy was at hand, no run depends
    except KeyboardInterrupt:
        log.error("Interrupted. Fetching again resumes from what has arrived.")
        return 130
    Console(width=None if sys.stdout.isatty() else 180).print(_table(entries))
    return failed


if __name__ == "__main__":
    sys.exit(run_command_line(main))
