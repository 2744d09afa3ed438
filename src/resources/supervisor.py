"""Keep an embedded server running until the last process that it runs for has ended.

A supervisor (`python -m resources.supervisor FOLDER LOCK`) starts the server, checks its health,
restarts it once if it dies, and ends it when nobody needs it. The folder of a server holds:

    lock            held by whoever asks for the server
    running         locked for as long as a supervisor, or what is left of its server, runs
    users/<pid>     a process that the server runs for; `users/kept`: until `make stop`
    endpoint.json   what a client needs, while the server is ready
    pids.json       supervisor and server, for the status
    failed.txt      why the supervisor gave the server up
    stop            asks the supervisor to end

A process that asks for a server is its user. If `SERVERS_OWNER` names another process, such as the
make that runs several notebooks, that one is the user in its place.
"""

import contextlib
import errno
import fcntl
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil
from filelock import FileLock, Timeout

from resources.download import read_json
from resources.engines import Launch, write_secret
from resources.server_reaper import end_process_group
from resources.settings import (
    HIDDEN,
    LOGS,
    SECRET_NAME,
    PublicError,
    explain_os_error,
    hide_secrets,
)

OWNER_VARIABLE = "SERVERS_OWNER"
"""Names the process that embedded servers run for; unset, it is the process that asks for one."""
KEPT = "kept"
"""Stands among the users for somebody who started the server by hand."""
POLL = 0.2
"""Seconds between two looks at a server and its users."""
HEALTH_EVERY = 5.0
"""Seconds between two health checks of a server that is ready."""
UNHEALTHY_AFTER = 12
"""Failed health checks in a row, one minute, after which a server that runs counts as dead."""
ENOUGH_FILES = 4096
"""Open files that any server can do with."""
TOO_MANY_FILES = os.strerror(errno.EMFILE)
"""What a server's log says where the system's limit is too low."""
END_TIMEOUT = 30.0
"""Seconds that a supervisor may take to end its server."""


class ServiceError(PublicError, RuntimeError):
    """A server cannot be reached or started; the message says what was tried and what to do."""


def say(text: str) -> None:
    """Write a line for the user to stderr."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


# ------------------------------------------------------------------------------------------------
# For those who use a server
# ------------------------------------------------------------------------------------------------


def ensure(folder: Path, launch: Callable[[Callable[[str], None]], Launch]) -> dict[str, Any]:
    """Return the endpoint of a folder's server, and start the server if it does not run.

    Args:
        folder: The folder of the server.
        launch: Says how to start the server. It gets a function that writes a line for the user.

    Raises:
        ServiceError: The server does not start, or its folder cannot be used.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        LOGS.mkdir(parents=True, exist_ok=True)
        # a supervisor ends its server for want of users only while nobody holds this lock
        with FileLock(folder / "lock"):
            ready = _wait_until_ready(folder)
            if not ready:
                _forget(folder)
                _start(folder, launch(say))
                ready = _wait_until_ready(folder)
            if not ready:
                raise ServiceError(_why_not_started(folder))
            _add_user(folder, str(_owner()))
            return ready
    except OSError as error:
        why = explain_os_error(error)
        raise ServiceError(f"The embedded {_kind(folder)} server cannot be used. {why}") from error


def keep(folder: Path) -> None:
    """Keep a server that runs until somebody stops it."""
    _add_user(folder, KEPT)


def is_supervised(folder: Path) -> bool:
    """Whether a supervisor starts, watches or ends the server."""
    try:
        file = (folder / "running").open("rb")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def endpoint(folder: Path) -> dict[str, Any]:
    """Return what a client needs; empty while the server is not ready."""
    return read_json(folder / "endpoint.json")


def running(folder: Path) -> dict[str, Any]:
    """Return the endpoint of a server that is ready and was not asked to end; else empty."""
    if not is_supervised(folder) or (folder / "stop").exists():
        return {}
    return endpoint(folder)


def users(folder: Path) -> list[str]:
    """Return the process numbers that the server runs for, and `kept` if somebody started it."""
    found = []
    for path in (folder / "users").glob("*"):
        # else a file of the system's, such as .DS_Store or .nfs0001
        if path.name == KEPT or path.name.isdecimal():
            found.append(path.name)
    return sorted(found)


def processes(folder: Path) -> list[psutil.Process]:
    """Return the processes of a server that is supervised."""
    pid = read_json(folder / "pids.json").get("server")
    if not isinstance(pid, int) or not is_supervised(folder):
        return []
    try:
        server = psutil.Process(pid)
        return [server, *server.children(recursive=True)]
    except psutil.Error:
        return []


def end(folder: Path) -> None:
    """End a server and its supervisor, whoever uses it.

    Raises:
        ServiceError: The server still runs after `END_TIMEOUT`.
    """
    deadline = time.monotonic() + END_TIMEOUT
    while is_supervised(folder):
        if time.monotonic() > deadline:
            pid = read_json(folder / "pids.json").get("supervisor", "unknown")
            raise ServiceError(
                f"The embedded {_kind(folder)} server does not end. Kill its supervisor: {pid}."
            )
        (folder / "stop").touch()
        time.sleep(POLL)
    _forget(folder)


def _kind(folder: Path) -> str:
    return folder.name.partition("-")[0]


def _owner() -> int:
    named = os.environ.get(OWNER_VARIABLE, "")
    if named.isdecimal() and psutil.pid_exists(int(named)):
        return int(named)
    return os.getpid()


def _add_user(folder: Path, name: str) -> None:
    (folder / "users").mkdir(exist_ok=True)
    (folder / "users" / name).touch()


def _forget(folder: Path) -> None:
    """Remove what a server that has ended left in its folder."""
    for name in ("endpoint.json", "pids.json", "launch.json", "stop", "failed.txt"):
        (folder / name).unlink(missing_ok=True)
    for name in users(folder):
        (folder / "users" / name).unlink(missing_ok=True)


def _start(folder: Path, launch: Launch) -> None:
    """Start the supervisor of a server."""
    write_secret(folder / "launch.json", json.dumps(asdict(launch)))
    # a package cache of one notebook must not decide where the supervisor finds this module, and
    # what ends the processes of a run must let the supervisor end its server in order
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    environment.pop(OWNER_VARIABLE, None)
    with (folder / "running").open("wb") as lock, (folder / "supervisor.log").open("wb") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        # the supervisor inherits the lock: the system frees it when the last of its holders ends
        subprocess.Popen(
            [sys.executable, "-m", "resources.supervisor", str(folder), str(lock.fileno())],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
            start_new_session=True,
            env=environment,
            pass_fds=[lock.fileno()],
        )


def _wait_until_ready(folder: Path) -> dict[str, Any]:
    """Wait while a supervisor starts or ends the server; return an empty endpoint without one."""
    start = last_line = time.monotonic()
    waited = False
    while is_supervised(folder):
        if ready := running(folder):
            if waited:
                say(f"  {_kind(folder)}: ready after {time.monotonic() - start:.0f} s")
            return ready
        if time.monotonic() - last_line > 15:
            last_line = time.monotonic()
            say(f"  {_kind(folder)}: starting, {last_line - start:.0f} s ...")
        waited = True
        time.sleep(POLL)
    return {}


def _why_not_started(folder: Path) -> str:
    try:
        why = (folder / "failed.txt").read_text()
    except FileNotFoundError:
        last_lines = (folder / "supervisor.log").read_text().splitlines()[-1:]
        why = " ".join(["its supervisor ended.", *last_lines])
    kind = _kind(folder)
    return (
        f"The embedded {kind} server did not start: {why}\n"
        f"The whole log is {LOGS / f'{kind}.log'}. `make doctor` shows what is missing."
    )


# ------------------------------------------------------------------------------------------------
# The supervisor
# ------------------------------------------------------------------------------------------------


class _Users:
    """The users of a server, each known by its process and not by its number alone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: dict[str, psutil.Process] = {}

    def any_alive(self) -> bool:
        """Whether there is a user; those that have ended are removed."""
        any_alive = False
        for name in users(self._folder):
            if self._is_alive(name):
                any_alive = True
            else:
                self._processes.pop(name, None)
                (self._folder / "users" / name).unlink(missing_ok=True)
        return any_alive

    def _is_alive(self, name: str) -> bool:
        if name == KEPT:
            return True
        try:
            if name not in self._processes:
                self._processes[name] = psutil.Process(int(name))
            process = self._processes[name]
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False


class _Health:
    """Whether a server answers: asked often until it is ready, and then every few seconds."""

    def __init__(self, launch: Launch) -> None:
        self.ready = False
        self._launch = launch
        self._started = time.monotonic()
        self._next_check = 0.0
        self._failures = 0
        # the server is on loopback, where no proxy leads
        self._client = httpx.Client(timeout=5, trust_env=False)

    def problem(self) -> str:
        """Check the server if it is time to; return why it counts as dead, or nothing."""
        now = time.monotonic()
        if now >= self._next_check:
            self._check()
            self._next_check = now + (HEALTH_EVERY if self.ready else POLL)
        if self.ready and self._failures >= UNHEALTHY_AFTER:
            return f"the {self._launch.name} server stopped answering"
        limit = self._launch.start_timeout
        if not self.ready and now - self._started > limit:
            return f"the {self._launch.name} server was not ready after {limit:.0f} s"
        return ""

    def _check(self) -> None:
        try:
            healthy = self._client.get(self._launch.ready_url).status_code < 400
        except httpx.HTTPError:
            healthy = False
        self._failures = 0 if healthy else self._failures + 1
        self.ready = self.ready or healthy


@dataclass
class Supervisor:
    """Runs one server.

    Attributes:
        lock: File descriptor of the lock on `running`, which whoever may outlive this process gets.
        signalled: Whether a signal asked this process to end.
    """

    folder: Path
    launch: Launch
    lock: int
    signalled: bool = field(default=False, init=False)

    def run(self) -> int:
        """Run the server until nobody needs it, and return the exit status: 1 if it died twice."""
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._on_signal)
        log = LOGS / f"{self.launch.name}.log"
        why, log_start = "", 0
        for next_step in ("restarting it once", "giving up"):
            log_start = log.stat().st_size if log.exists() else 0
            why = self._serve(log)
            if not why:
                _forget(self.folder)
                return 0
            with log.open("a") as out:
                out.write(f"--- {time.strftime('%Y-%m-%dT%H:%M:%S')} {why}; {next_step}\n")
        own_log = log.read_bytes()[log_start:].decode(errors="replace")
        tail = "\n  ".join(own_log.splitlines()[-12:])
        text = f"{why}. The last lines of its log:\n  {tail}"
        if TOO_MANY_FILES in own_log:
            text = explain_os_error(OSError(errno.EMFILE, TOO_MANY_FILES))
        (self.folder / "failed.txt").write_text(self._hide_own_secrets(text))
        return 1

    def _on_signal(self, *_: object) -> None:
        self.signalled = True

    def _serve(self, log: Path) -> str:
        """Start the server and watch it until it ends; return why it died, or nothing."""
        with log.open("ab") as out:
            server = subprocess.Popen(
                self.launch.command,
                env={**os.environ, **self.launch.environment},
                cwd=LOGS,  # ArcadeDB writes a log of its own where it is started
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        reaper = self._start_reaper(server.pid)
        try:
            pids = {"supervisor": os.getpid(), "server": server.pid}
            write_secret(self.folder / "pids.json", json.dumps(pids))
            return self._watch(server)
        finally:  # whatever happens, no server is left without a supervisor
            with contextlib.suppress(OSError):
                (self.folder / "endpoint.json").unlink()
            end_process_group(server.pid)
            reaper.kill()
            reaper.communicate()

    def _start_reaper(self, server: int) -> subprocess.Popen[bytes]:
        """Start what ends the server if this process is killed."""
        script = str(Path(__file__).with_name("server_reaper.py"))
        return subprocess.Popen(
            [sys.executable, "-S", script, str(server), str(self.folder)],
            stdin=subprocess.PIPE,
            start_new_session=True,
            pass_fds=[self.lock],
        )

    def _watch(self, server: subprocess.Popen[bytes]) -> str:
        """Watch the server while somebody needs it; return why it died, or nothing."""
        health = _Health(self.launch)
        served_users = _Users(self.folder)
        while server.poll() is None:
            if self._must_end(served_users):
                return ""
            if why := health.problem():
                return why
            # a damaged endpoint is written again
            if health.ready and endpoint(self.folder) != self.launch.endpoint:
                write_secret(self.folder / "endpoint.json", json.dumps(self.launch.endpoint))
            time.sleep(POLL)
        return f"the {self.launch.name} server ended with code {server.returncode}"

    def _must_end(self, served_users: _Users) -> bool:
        if self.signalled or (self.folder / "stop").exists():
            return True
        if served_users.any_alive():
            return False
        try:
            with FileLock(self.folder / "lock").acquire(timeout=0):
                if served_users.any_alive():
                    return False
                # whoever asks from now on waits until this server has ended, and starts another
                (self.folder / "endpoint.json").unlink(missing_ok=True)
                return True
        except Timeout:  # somebody asks for the server
            return False

    def _hide_own_secrets(self, text: str) -> str:
        """Hide also the secrets that were made for this server alone."""
        text = hide_secrets(text)
        for name, value in self.launch.endpoint.items():
            if SECRET_NAME.search(name):
                text = text.replace(value, HIDDEN)
        return text


def _raise_limit_on_files() -> None:
    """Let the server open as many files as the system allows: a server has many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < ENOUGH_FILES:
        enough = ENOUGH_FILES if hard == resource.RLIM_INFINITY else min(hard, ENOUGH_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (enough, hard))


def main(folder: Path, lock: int) -> int:
    """Supervise the server that the folder's `launch.json` describes."""
    _raise_limit_on_files()
    launch = Launch(**json.loads((folder / "launch.json").read_text()))
    (folder / "launch.json").unlink()
    return Supervisor(folder, launch, lock).run()


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
