"""Keeps an embedded server running for as long as a process holds it.

All that is known of a server lies in its folder:

    leases/<pid>    a process that uses it; `pinned` stands for the user who started it by hand
    pids.json       its supervisor and the server
    endpoint.json   what a client needs, while the server is ready
    failed.txt      why the supervisor gave it up
    stop            asks the supervisor to end

The supervisor, a process beside the server, checks its health, restarts it once if it dies, and stops it once no lease
is alive.

    python -m helpers.supervisor FOLDER
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil
from filelock import FileLock

from helpers.engines import Launch, write_secret
from helpers.settings import HIDDEN, LOGS, SECRET_NAME, PublicError, public, refused

GRACE = 60.0
"""Seconds without a living lease after which an embedded server stops: long enough for the next notebook to start."""
HEALTH_EVERY = 5.0
UNHEALTHY_AFTER = 12
"""Failed health checks in a row (one minute) after which a server that still runs counts as dead."""


class ServiceError(PublicError, RuntimeError):
    """A server cannot be reached or started; the message says what was tried and what to do."""


# ------------------------------------------------------------------------------------------------------- processes


class Mark(NamedTuple):
    """A process, told from others that have had or will have its number.

    Attributes:
        pid: its number.
        boot: the boot that `began` counts from; empty where the system names none.
        began: seconds from the boot to its start, which no step of the clock moves; without a boot, since 1970.
    """

    pid: int
    boot: str
    began: float


@lru_cache
def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def mark(pid: int) -> Mark:
    """The mark of a process.

    Raises:
        psutil.NoSuchProcess: there is none.
    """
    if sys.platform != "linux":
        return Mark(pid, "", psutil.Process(pid).create_time())
    try:
        # after the name in brackets, which may hold anything, start the state and the other fields
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    return Mark(pid, _boot(), int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def alive(marked: Mark) -> bool:
    """Whether that very process still runs."""
    try:
        return _same(mark(marked.pid), marked) and psutil.Process(marked.pid).status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def _same(one: Mark, other: Mark) -> bool:
    return one.boot == other.boot and abs(one.began - other.began) < 1


def family(folder: Path) -> list[psutil.Process]:
    """The processes of a folder's server: of the session that it leads, or led."""
    server = pids(folder).get("server")
    return session(server) if server else []


def session(leader: Mark) -> list[psutil.Process]:
    """The processes of the session that a process leads, or led."""
    with contextlib.suppress(psutil.NoSuchProcess):
        if not _same(mark(leader.pid), leader):  # another one's number by now
            return []
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            this = mark(process.pid)
            of_session = os.getsid(process.pid) == leader.pid and this.boot == leader.boot
            if of_session and this.began >= leader.began and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def _terminate(server: Mark, wait: float = 15.0) -> None:
    """End a server and all that it started, also what it left behind if it is dead already.

    It leads a session of its own: vLLM's engine is a process beside the server, and outlives it when that is killed.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        if alive(server):
            leader = psutil.Process(server.pid)
            leader.terminate()
            psutil.wait_procs([leader], timeout=wait)
    members = session(server)
    for member in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(members, timeout=5)


# ----------------------------------------------------------------------------------------------------------- state


def _state(path: Path) -> dict[str, Any]:
    """What a file of a server's folder holds; empty without one."""
    try:
        return dict(json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return {}


def pids(folder: Path) -> dict[str, Mark]:
    """The processes `supervisor` and `server` as they were started, whether they still run or not."""
    return {role: Mark(*marked) for role, marked in _state(folder / "pids.json").items()}


def supervised(folder: Path) -> bool:
    """Whether a supervisor starts, watches or restarts the server, and was not asked to end."""
    supervisor = pids(folder).get("supervisor")
    return supervisor is not None and alive(supervisor) and not (folder / "stop").exists()


def endpoint(folder: Path) -> dict[str, Any]:
    """What a client needs; empty while the server is not ready."""
    return _state(folder / "endpoint.json")


def running(folder: Path) -> dict[str, Any]:
    """The endpoint of a server that is ready and supervised; else empty."""
    return endpoint(folder) if supervised(folder) else {}


def _lease(folder: Path) -> None:
    (folder / "leases").mkdir(parents=True, exist_ok=True)
    write_secret(folder / "leases" / str(os.getpid()), json.dumps(mark(os.getpid())))


def living_leases(folder: Path) -> dict[str, float]:
    """Leases whose process is alive, and when it began (seconds since 1970); dead ones are removed."""
    living = {}
    for path in (folder / "leases").glob("*"):
        if path.name == "pinned":
            living[path.name] = 0.0
        elif path.name.isdecimal():  # else a file of the system's, such as .DS_Store or .nfs0001
            # another process, looking too, may have removed it
            with contextlib.suppress(OSError, ValueError, TypeError, psutil.Error):
                if alive(Mark(*json.loads(path.read_text()))):
                    living[path.name] = psutil.Process(int(path.name)).create_time()
                else:
                    path.unlink()
    return living


def end(folder: Path) -> None:
    """End a server and its supervisor, or what a killed supervisor left behind, and forget them."""
    found = pids(folder)
    deadline = time.monotonic() + 30
    while "supervisor" in found and alive(found["supervisor"]) and time.monotonic() < deadline:
        (folder / "stop").touch()
        time.sleep(0.2)
    if "server" in found:
        _terminate(found["server"])
    _forget(folder)


def _forget(folder: Path) -> None:
    for name in ("endpoint.json", "pids.json", "launch.json", "stop", "failed.txt"):
        (folder / name).unlink(missing_ok=True)


# -------------------------------------------------------------------------------------------------- start and share


def ensure(folder: Path, launch: Callable[[Callable[[str], None]], Launch]) -> dict[str, Any]:
    """Endpoint of a folder's server, held for this process; started if it does not run, awaited if it restarts.

    Args:
        folder: the server's.
        launch: how to start it; is given what to tell the user by.

    Raises:
        ServiceError: it did not start, or something cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        LOGS.mkdir(parents=True, exist_ok=True)
        with FileLock(folder / "lock"):
            _lease(folder)
            if ready := running(folder):
                return ready
            if supervised(folder):  # being restarted, or started by a process that has ended since
                return _wait_ready(folder, pids(folder)["supervisor"])
            end(folder)
            return _wait_ready(folder, _start(folder, launch(say)))
    except OSError as error:
        raise ServiceError(f"The embedded {_kind(folder)} server cannot be used. {refused(error)}") from error


def _start(folder: Path, spec: Launch) -> Mark:
    """Start a supervisor, which starts the server."""
    write_secret(folder / "launch.json", json.dumps(spec.as_json()))
    with (folder / "supervisor.log").open("wb") as log:
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "helpers.supervisor", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            # A package cache of one notebook must not decide where the supervisor finds this module.
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )
    return mark(supervisor.pid)


def _wait_ready(folder: Path, supervisor: Mark) -> dict[str, Any]:
    name = _kind(folder)
    start = told = time.monotonic()
    while True:
        watched = alive(supervisor)
        if ready := running(folder):
            say(f"  {name}: ready after {time.monotonic() - start:.0f} s")
            return ready
        if not watched:
            failed, last = folder / "failed.txt", (folder / "supervisor.log").read_text().splitlines()[-1:]
            why = failed.read_text() if failed.exists() else " ".join(["its supervisor ended.", *last])
            raise ServiceError(
                f"The embedded {name} server did not start: {why}\nThe whole log is {_log(name)}. "
                "`make doctor` shows what is missing."
            )
        if time.monotonic() - told > 15:
            told = time.monotonic()
            say(f"  {name}: starting, {told - start:.0f} s ...")
        time.sleep(0.2)


def _kind(folder: Path) -> str:
    return folder.name.partition("-")[0]


def _log(name: str) -> Path:
    return LOGS / f"{name}.log"


def say(text: str) -> None:
    """Tell the user, on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


# ------------------------------------------------------------------------------------------------------- supervise


def supervise(folder: Path) -> int:
    """Run one server until nobody holds it: start, watch, restart once, stop. Returns the exit code."""
    spec = Launch(**json.loads((folder / "launch.json").read_text()))
    (folder / "launch.json").unlink()
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: asked.append(number))
    signal.signal(signal.SIGINT, lambda number, _: asked.append(number))
    me = mark(os.getpid())
    for last_chance in (False, True):
        with _log(spec.name).open("ab") as log:
            offset = log.tell()
            server = psutil.Popen(
                spec.command,
                env={**os.environ, **spec.environment},
                cwd=LOGS,  # ArcadeDB writes a log of its own where it is started
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        this = mark(server.pid)
        try:
            write_secret(folder / "pids.json", json.dumps({"supervisor": me, "server": this}))
            reason, wanted = "", True
            for reason in _watch(spec, server, folder):
                if reason == "ready":
                    write_secret(folder / "endpoint.json", json.dumps(spec.endpoint))
                wanted = not (reason == "idle" or asked or (folder / "stop").exists())
                if not wanted:
                    break
        finally:  # whatever happens, no server is left without a supervisor
            with contextlib.suppress(OSError):
                (folder / "endpoint.json").unlink()
            _terminate(this)
        if not wanted:
            _forget(folder)
            return 0
        _stamped_log(spec.name, f"{reason}; {'giving up' if last_chance else 'restarting it once'}")
    tail = _log(spec.name).read_bytes()[offset:].decode(errors="replace").splitlines()[-12:]
    said = public(f"{reason}. The last lines of its log:\n  " + "\n  ".join(tail))
    # those that were made for this server alone
    for secret in (value for name, value in spec.endpoint.items() if SECRET_NAME.search(name)):
        said = said.replace(secret, HIDDEN)
    (folder / "failed.txt").write_text(said)
    return 1


def _watch(spec: Launch, server: psutil.Popen, folder: Path) -> Iterator[str]:
    """Yield `starting`, `ready`, `running` or `idle` while the server lives, then why it is held for dead."""
    started = time.monotonic()
    ready = False
    idle_since: float | None = None
    checked = failures = 0.0
    # the server is on loopback, where no proxy leads
    with httpx.Client(timeout=5, headers=spec.ready_headers, trust_env=False) as http:
        while True:
            if server.poll() is not None:
                yield f"the {spec.name} server ended with code {server.returncode}"
                return
            now = time.monotonic()
            if now - checked > (HEALTH_EVERY if ready else 0.2):
                checked = now
                try:
                    healthy = http.get(spec.ready_url).status_code < 400
                except httpx.HTTPError:
                    healthy = False
                failures = 0 if healthy else failures + 1
                if healthy and not ready:
                    ready = True
                    yield "ready"
            if not ready and now - started > spec.start_timeout:
                yield f"the {spec.name} server was not ready after {spec.start_timeout:.0f} s"
                return
            if ready and failures >= UNHEALTHY_AFTER:
                yield f"the {spec.name} server stopped answering"
                return
            idle_since = None if living_leases(folder) else idle_since or now
            yield "idle" if idle_since and now - idle_since > GRACE else "running"
            time.sleep(0.2)


def _stamped_log(name: str, text: str) -> None:
    with _log(name).open("a") as log:
        log.write(f"--- {time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n")


if __name__ == "__main__":
    sys.exit(supervise(Path(sys.argv[1])))
