"""Keeps an embedded server running for as long as a process holds it. All that is known of it lies in its folder:

    leases/<pid>    a process that uses it; `pinned` stands for the user who started it by hand
    pids.json       its supervisor and the server
    endpoint.json   what a client needs, while the server is ready
    failed.txt      why the supervisor gave it up
    stop            asks the supervisor to end

The supervisor, a process (python -m resources.supervisor FOLDER) beside the server, checks its health, restarts it once
if it dies, and stops it once no lease is alive.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import psutil
from filelock import FileLock

from resources.download import read_json
from resources.engines import Launch, write_secret
from resources.settings import (
    HIDDEN,
    LOGS,
    SECRET_NAME,
    PublicError,
    explain_os_error,
    hide_secrets,
)

GRACE = 180.0
"""Seconds without a living lease after which an embedded server stops: long enough for the next notebook to start."""
HEALTH_EVERY = 5.0
UNHEALTHY_AFTER = 12  # failed health checks in a row (one minute) after which a server that still runs counts as dead


class ServiceError(PublicError, RuntimeError):
    """A server cannot be reached or started; the message says what was tried and what to do."""


class Mark(NamedTuple):
    """A process, distinguished from others that had or will have its number."""

    pid: int
    boot: str  # that `began` counts from; empty where the system names none
    began: (
        float  # seconds from the boot, which no step of the clock moves; without a boot, since 1970
    )


def mark(pid: int) -> Mark:
    """The mark of a process; psutil.NoSuchProcess if there is none."""
    if sys.platform != "linux":
        return Mark(pid, "", psutil.Process(pid).create_time())
    try:
        # after the name in brackets, which may hold anything, start the state and the other fields
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        raise psutil.NoSuchProcess(pid) from None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return Mark(pid, boot, int(fields[19]) / os.sysconf("SC_CLK_TCK"))


def alive(marked: Mark | None) -> bool:
    """Whether that very process still runs."""
    if marked is None:
        return False
    try:
        return (
            _same(mark(marked.pid), marked)
            and psutil.Process(marked.pid).status() != psutil.STATUS_ZOMBIE
        )
    except psutil.Error:
        return False


def _same(one: Mark, other: Mark) -> bool:
    return one.boot == other.boot and abs(one.began - other.began) < 1


def session(leader: Mark | None) -> list[psutil.Process]:
    """The processes of the session that a process leads, or led."""
    if leader is None:
        return []
    with contextlib.suppress(psutil.NoSuchProcess):
        if not _same(mark(leader.pid), leader):  # another one's number by now
            return []
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            this = mark(process.pid)
            of_session = os.getsid(process.pid) == leader.pid and this.boot == leader.boot
            if (
                of_session
                and this.began >= leader.began
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def _terminate(server: Mark) -> None:
    # with all of its session: vLLM's engine is a process beside it, and outlives it if it is killed
    with contextlib.suppress(psutil.NoSuchProcess):
        if alive(server):
            leader = psutil.Process(server.pid)
            leader.terminate()
            psutil.wait_procs([leader], timeout=15)
    members = session(server)
    for member in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(members, timeout=5)


def pids(folder: Path) -> dict[str, Mark]:
    """The processes `supervisor` and `server` as they were started, whether they still run or not."""
    try:
        return {role: Mark(*marked) for role, marked in read_json(folder / "pids.json").items()}
    except TypeError:  # damaged
        return {}


def supervised(folder: Path) -> bool:
    """Whether a supervisor starts, watches or restarts the server, and was not asked to end."""
    return alive(pids(folder).get("supervisor")) and not (folder / "stop").exists()


def endpoint(folder: Path) -> dict[str, Any]:
    """What a client needs; empty while the server is not ready."""
    return read_json(folder / "endpoint.json")


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
    while alive(found.get("supervisor")) and time.monotonic() < deadline:
        (folder / "stop").touch()
        time.sleep(0.2)
    if "server" in found:
        _terminate(found["server"])
    _forget(folder)


def _forget(folder: Path) -> None:
    for name in ("endpoint.json", "pids.json", "launch.json", "stop", "failed.txt"):
        (folder / name).unlink(missing_ok=True)


def ensure(folder: Path, launch: Callable[[Callable[[str], None]], Launch]) -> dict[str, Any]:
    """Endpoint of a folder's server, held for this process and started by `launch` if need be; or a ServiceError."""
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
            write_secret(folder / "launch.json", json.dumps(asdict(launch(say))))
            with (folder / "supervisor.log").open("wb") as log:
                supervisor = subprocess.Popen(
                    [sys.executable, "-m", "resources.supervisor", str(folder)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=log,
                    start_new_session=True,
                    # a package cache of one notebook must not decide where the supervisor finds this module
                    env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
                )
            return _wait_ready(folder, mark(supervisor.pid))
    except OSError as error:
        kind = folder.name.partition("-")[0]
        raise ServiceError(
            f"The embedded {kind} server cannot be used. {explain_os_error(error)}"
        ) from error


def _wait_ready(folder: Path, supervisor: Mark) -> dict[str, Any]:
    name = folder.name.partition("-")[0]
    start = told = time.monotonic()
    while True:
        watched = alive(supervisor)
        if ready := running(folder):
            say(f"  {name}: ready after {time.monotonic() - start:.0f} s")
            return ready
        if not watched:
            failed, last = (
                folder / "failed.txt",
                (folder / "supervisor.log").read_text().splitlines()[-1:],
            )
            why = (
                failed.read_text()
                if failed.exists()
                else " ".join(["its supervisor ended.", *last])
            )
            raise ServiceError(
                f"The embedded {name} server did not start: {why}\nThe whole log is {LOGS / f'{name}.log'}. "
                "`make doctor` shows what is missing."
            )
        if time.monotonic() - told > 15:
            told = time.monotonic()
            say(f"  {name}: starting, {told - start:.0f} s ...")
        time.sleep(0.2)


def say(text: str) -> None:
    """Tell the user, on stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def supervise(folder: Path) -> int:
    """Run one server until nobody holds it: start, watch, restart once, stop. Returns the exit code."""
    spec = Launch(**json.loads((folder / "launch.json").read_text()))
    (folder / "launch.json").unlink()
    asked: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, _: asked.append(number))
    log = LOGS / f"{spec.name}.log"
    for last_chance in (False, True):
        with log.open("ab") as out:
            offset = out.tell()
            server = psutil.Popen(
                spec.command,
                env={**os.environ, **spec.environment},
                cwd=LOGS,  # ArcadeDB writes a log of its own where it is started
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        ours = {"supervisor": mark(os.getpid()), "server": mark(server.pid)}
        try:
            write_secret(folder / "pids.json", json.dumps(ours))
            reason, ready = "", False
            for reason in _watch(spec, server, folder):
                ready = ready or reason == "ready"
                # what is damaged is written again, unless another supervisor has taken over
                if (found := pids(folder)) != ours:
                    if (other := found.get("supervisor")) != ours["supervisor"] and alive(other):
                        asked.append(signal.SIGTERM)
                    else:
                        write_secret(folder / "pids.json", json.dumps(ours))
                if ready and endpoint(folder) != spec.endpoint:
                    write_secret(folder / "endpoint.json", json.dumps(spec.endpoint))
                if unwanted := reason == "idle" or bool(asked) or (folder / "stop").exists():
                    break
        finally:  # whatever happens, no server is left without a supervisor
            with contextlib.suppress(OSError):
                (folder / "endpoint.json").unlink()
            _terminate(ours["server"])
        if unwanted:
            _forget(folder)
            return 0
        with log.open("a") as out:
            then = "giving up" if last_chance else "restarting it once"
            out.write(f"--- {time.strftime('%Y-%m-%dT%H:%M:%S')} {reason}; {then}\n")
    tail = log.read_bytes()[offset:].decode(errors="replace").splitlines()[-12:]
    said = hide_secrets(f"{reason}. The last lines of its log:\n  " + "\n  ".join(tail))
    # those that were made for this server alone
    for secret in (value for name, value in spec.endpoint.items() if SECRET_NAME.search(name)):
        said = said.replace(secret, HIDDEN)
    (folder / "failed.txt").write_text(said)
    return 1


def _watch(spec: Launch, server: psutil.Popen, folder: Path) -> Iterator[str]:
    """Yield `ready`, `running` or `idle` while the server lives, then why it is held for dead."""
    started, ready, checked, failures = time.monotonic(), False, 0.0, 0
    idle_since: float | None = None
    # the server is on loopback, where no proxy leads
    with httpx.Client(timeout=5, trust_env=False) as http:
        while server.poll() is None:
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
        yield f"the {spec.name} server ended with code {server.returncode}"


if __name__ == "__main__":
    sys.exit(supervise(Path(sys.argv[1])))
