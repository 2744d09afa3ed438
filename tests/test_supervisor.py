"""What keeps an embedded server running: shared, awaited, restarted and stopped, whatever happens around it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from conftest import as_a_user, still_running

Run = Callable[..., subprocess.CompletedProcess[str]]
Start = Callable[..., subprocess.Popen[str]]

USE = """
import sys, time
from resources import services, supervisor
from resources.engines import Launch

def launch(say):
    port = services.free_port()
    serve = f"sleep {sys.argv[2]}; exec {sys.executable} -m http.server {port} --bind 127.0.0.1"
    at = f"http://127.0.0.1:{port}/"
    return Launch("llm", ["/bin/sh", "-c", serve], {}, at, {"base_url": at, "version": "plain"})

print(supervisor.ensure(services.SERVICES / "llm-plain", launch)["base_url"], flush=True)
time.sleep(float(sys.argv[1]))
"""
KEEP = """
from resources import services, supervisor
supervisor.keep(services.SERVICES / "llm-plain")
"""
SERVICES = ("-m", "resources.services")
END = 60.0
"""Seconds in which all that was started must have ended."""


@pytest.fixture
def folder(project: Path) -> Path:
    return project / "_build" / "services" / "llm-plain"


@pytest.fixture
def hold(start_in: Start) -> Callable[..., subprocess.Popen[str]]:
    """Start a process that uses the server, which is ready `slow` seconds after it is started."""
    return lambda slow=0, **variables: start_in(
        sys.executable, "-c", USE, "120", str(slow), **variables
    )


def address(user: subprocess.Popen[str]) -> str:
    assert user.stdout
    return user.stdout.readline().strip()


def processes(folder: Path) -> dict[str, psutil.Process]:
    pids = json.loads((folder / "pids.json").read_text())
    return {role: psutil.Process(pid) for role, pid in pids.items()}


def runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def wait_for(condition: Callable[[], object], seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(condition())


def nothing_is_left(project: Path) -> bool:
    wait_for(lambda: not still_running(project), END)
    assert not still_running(project)
    return True


# --------------------------------------------------------------------------------- who needs a server


def test_a_server_ends_with_the_killed_process_that_asked_for_it(project, hold):
    user = hold()
    assert address(user)
    user.kill()
    user.wait()
    assert nothing_is_left(project)


def test_a_server_that_two_processes_use_ends_with_the_last_of_them(project, folder, hold):
    first, second = hold(), hold()
    assert address(first) == address(second)
    served = processes(folder)
    first.kill()
    first.wait()
    time.sleep(2)
    assert all(map(runs, served.values()))
    second.kill()
    second.wait()
    assert nothing_is_left(project)


def test_two_notebooks_of_one_make_share_a_server_that_ends_with_the_make(project, folder, hold):
    make = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    owner = {"SERVERS_OWNER": str(make.pid)}
    first = hold(**owner)
    url = address(first)
    served = processes(folder)
    first.kill()
    first.wait()
    time.sleep(2)
    second = hold(**owner)
    assert address(second) == url
    assert processes(folder) == served
    second.kill()
    make.kill()
    make.communicate()
    second.wait()
    assert nothing_is_left(project)


@pytest.mark.slow
def test_a_server_that_was_started_by_hand_stays_until_it_is_stopped(folder, hold, run_in):
    user = hold()
    url = address(user)
    run_in(sys.executable, "-c", KEEP)
    user.kill()
    user.wait()
    time.sleep(2)
    listed = run_in(sys.executable, *SERVICES, "status").stdout
    assert url in listed
    assert "used by: kept" in listed
    assert address(hold()) == url
    served = processes(folder)
    assert "llm-plain" in run_in(sys.executable, *SERVICES, "stop").stderr
    assert not any(map(runs, served.values()))


def test_a_server_whose_starter_is_killed_before_it_is_ready_ends(project, folder, hold):
    starter = hold(slow=60)
    assert wait_for((folder / "pids.json").exists)
    starter.kill()
    starter.wait()
    assert nothing_is_left(project)


@pytest.mark.slow
def test_the_status_names_who_uses_a_server(hold, run_in):
    user = hold()
    url = address(user)
    listed = run_in(sys.executable, *SERVICES, "status").stdout
    assert url in listed
    assert f"used by: {user.pid}" in listed


def test_other_programs_files_among_the_users_are_left_alone(folder, hold):
    url = address(hold())
    strange = [folder / "users" / name for name in (".nfs1", ".DS_Store")]
    for path in strange:
        path.write_bytes(b"\xff\x00")
    served = processes(folder)
    time.sleep(1)
    assert all(map(runs, served.values()))
    assert address(hold()) == url
    assert all(path.exists() for path in strange)


def test_a_server_does_not_run_for_a_process_that_has_the_number_of_an_earlier_user(
    project, folder, hold
):
    user = hold()
    assert address(user)
    (folder / "users" / str(os.getpid())).touch()  # as if this process had a dead user's number
    processes(folder)["supervisor"].kill()
    assert wait_for(lambda: not still_running(project)[1:])
    second = hold()
    assert address(second)
    user.kill()
    second.kill()
    user.wait()
    second.wait()
    assert nothing_is_left(project)


def test_a_server_becomes_ready_behind_a_proxy(hold):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        proxy = f"http://127.0.0.1:{silent.getsockname()[1]}"
        user = hold(HTTP_PROXY=proxy, http_proxy=proxy, ALL_PROXY=proxy, NO_PROXY="", no_proxy="")
        assert address(user)


# ------------------------------------------------------------------------------------- what is killed


def test_a_killed_supervisor_takes_its_server_along(project, folder, hold):
    user = hold()
    assert address(user)
    served = processes(folder)
    served["supervisor"].kill()
    assert wait_for(lambda: not runs(served["server"]), END)
    assert address(hold()), "another server is started"
    assert not runs(served["server"])


@pytest.mark.slow
def test_who_asks_for_a_server_that_restarts_waits_for_it(folder, hold, run_in):
    # longer than the Python that asks for the status takes to start on a busy machine
    url = address(hold(slow=5))
    first = processes(folder)
    first["server"].kill()
    assert wait_for(lambda: not (folder / "endpoint.json").exists())
    assert "none yet" in run_in(sys.executable, *SERVICES, "status").stdout
    assert address(hold()) == url
    second = processes(folder)
    assert second["supervisor"] == first["supervisor"]
    assert second["server"] != first["server"]


def test_a_supervisor_that_cannot_go_on_takes_its_server_along(folder, hold):
    port = address(hold()).rpartition(":")[2].strip("/")
    served = processes(folder)
    (folder / "pids.json").unlink()
    (folder / "pids.json" / "in the way").mkdir(parents=True)
    served["server"].kill()
    assert wait_for(lambda: not runs(served["supervisor"]))
    assert not [
        process
        for process in psutil.process_iter(["cmdline"])
        if port in (process.info["cmdline"] or [])
    ]


@pytest.fixture
def run_of_make(project: Path, start_in: Start) -> subprocess.Popen[str]:
    """A make that runs a make that runs what uses the server, all of them with a guard."""
    (project / "use.py").write_text(USE)
    guard = f"{sys.executable} -m resources.run_guard $$PPID $$$$ >/dev/null 2>&1 &"
    inner = "for i in 1 2; do $(MAKE) -k -f own.mk inner; done"
    (project / "own.mk").write_text(
        "SHELL := /bin/bash\n"
        f"all:\n\t@export SERVERS_OWNER=$$PPID; {guard} {inner}\n"
        f"inner:\n\t@{sys.executable} use.py 120 0\n"
    )
    return start_in("make", "--no-print-directory", "-f", "own.mk", "all")


@pytest.mark.parametrize(
    "victim",
    [
        "make",
        "user",
        *(
            pytest.param(victim, marks=pytest.mark.slow)
            for victim in ("shell", "inner make", "server", "supervisor")
        ),
    ],
)
@pytest.mark.slow
def test_kill_9_of_any_process_of_a_make_leaves_nothing(project, folder, run_of_make, victim):
    make = psutil.Process(run_of_make.pid)
    assert address(run_of_make)
    shell = next(child for child in make.children() if "run_guard" not in child.cmdline())
    inner_make = next(child for child in shell.children() if child.name() == "make")
    user = next(
        child for child in inner_make.children(recursive=True) if "use.py" in child.cmdline()
    )
    served = processes(folder)
    victims = {"make": make, "shell": shell, "inner make": inner_make, "user": user, **served}
    victims[victim].kill()
    if victim not in ("make", "shell"):  # the run goes on, until it is ended
        time.sleep(1)
        make.kill()
    run_of_make.wait()
    assert nothing_is_left(project)


def test_a_make_that_ends_by_itself_leaves_nothing(project, folder, run_of_make):
    assert address(run_of_make)
    make = psutil.Process(run_of_make.pid)
    for number in range(2):
        users = [child for child in make.children(recursive=True) if "use.py" in child.cmdline()]
        users[-1].send_signal(signal.SIGTERM)
        assert number or address(run_of_make)
    run_of_make.wait()
    assert nothing_is_left(project)


# ---------------------------------------------------------------------------------------- a disk that takes no more


FULL = """
import resource
from resources.engines import write_secret
from resources.settings import DERIVED
DERIVED.mkdir(parents=True, exist_ok=True)
# files can be made, but take not a byte
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
write_secret(DERIVED / "secret", "a password")
"""


def test_a_full_disk_leaves_no_half_secret(project, run_in):
    process = run_in(sys.executable, "-c", FULL)
    assert "OSError" in process.stderr
    assert not list((project / "data" / "derived").iterdir())


GRAPH = """
import sys
from helpers import graph
with graph.connect() as db:
    if sys.argv[1:]:
        db._write("CREATE (:Kept {name: 'x'})")
    print(db.read_untrusted("MATCH (n:Kept) RETURN n.name AS name").rows)
"""


@pytest.mark.engine
@pytest.mark.parametrize("damaged", [False, True])
def test_a_graph_outlives_its_passwords(project, run_in, damaged):
    assert "'x'" in run_in(sys.executable, "-c", GRAPH, "write").stdout
    assert run_in(sys.executable, "-m", "resources.services", "stop").returncode == 0
    users = project / "_build" / "graph" / "config" / "server-users.jsonl"
    assert users.exists()
    if damaged:
        users.write_text("{")
    again = run_in(sys.executable, "-c", GRAPH)
    assert "'x'" in again.stdout, again.stderr


@pytest.mark.skipif(
    os.geteuid() == 0 and not shutil.which("setpriv"), reason="root may write everywhere"
)
def test_a_folder_that_may_not_be_written_is_named(project, run_in):
    (project / "_build").mkdir(exist_ok=True)
    (project / "_build").chmod(0o555)
    process = run_in(*as_a_user(sys.executable, "-m", "resources.services", "start", "graph"))
    (project / "_build").chmod(0o755)
    assert process.returncode == 1
    assert len(process.stderr.splitlines()) == 1
    assert re.search(
        rf"{re.escape(str(project / '_build'))}\S* may not be written", process.stderr
    ), process.stderr
