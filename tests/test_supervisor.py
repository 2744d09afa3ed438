"""What keeps an embedded server running: shared, awaited, restarted and stopped, whatever happens around it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from conftest import as_a_user

Run = Callable[..., subprocess.CompletedProcess[str]]

USE = """
import sys, time
from resources import services, supervisor
from resources.engines import Launch

def launch(say):
    port = services._free_port()
    serve = f"sleep {sys.argv[2]}; exec {sys.executable} -m http.server {port} --bind 127.0.0.1"
    at = f"http://127.0.0.1:{port}/"
    return Launch("llm", ["/bin/sh", "-c", serve], {}, at, {"base_url": at, "version": "plain"})

print(supervisor.ensure(services.SERVICES / "llm-plain", launch)["base_url"], flush=True)
time.sleep(float(sys.argv[1]))
"""
# the kernel's own tables, but for the time of the boot: so they look once the clock has been set an hour forward
CLOCK_SET = """
import os, pathlib, re, tempfile
import psutil
seen = pathlib.Path(tempfile.mkdtemp())
for name in os.listdir("/proc"):
    if name != "stat":
        (seen / name).symlink_to(f"/proc/{name}")
text = pathlib.Path("/proc/stat").read_text()
(seen / "stat").write_text(re.sub(r"btime ([0-9]+)", lambda found: f"btime {int(found[1]) + 3600}", text))
psutil.PROCFS_PATH = str(seen)
"""
SERVICES = (
    "import sys; from resources import services; "
    "from resources.settings import run_command_line; sys.exit(run_command_line(services.main))"
)


@pytest.fixture
def folder(project: Path) -> Path:
    return project / "_build" / "services" / "llm-plain"


@pytest.fixture
def hold(project: Path, run_in: Run) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a process that uses the server, which is ready `slow` seconds after it is started."""
    environment = os.environ | {"MEDRAG_ROOT": str(project), "PYTHONPATH": str(project / "src")}
    users = []

    def start(slow: float = 0) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", USE, "120", str(slow)]
        users.append(subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True))
        return users[-1]

    yield start
    for user in users:
        user.kill()
        user.communicate()


def address(user: subprocess.Popen[str]) -> str:
    assert user.stdout
    return user.stdout.readline().strip()


def processes(folder: Path) -> dict[str, psutil.Process]:
    return {
        role: psutil.Process(mark[0])
        for role, mark in json.loads((folder / "pids.json").read_text()).items()
    }


def runs(process: psutil.Process) -> bool:
    return process.is_running() and process.status() != psutil.STATUS_ZOMBIE


def wait_for(condition: Callable[[], object], seconds: float = 40) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(condition())


@pytest.mark.skipif(sys.platform != "linux", reason="shows psutil another /proc")
def test_a_server_is_known_after_the_clock_was_set(folder, hold, run_in):
    user = hold()
    at = address(user)
    server = processes(folder)["server"]
    listed = run_in(sys.executable, "-c", CLOCK_SET + SERVICES, "status").stdout
    assert at in listed
    assert str(user.pid) in listed
    assert run_in(sys.executable, "-c", CLOCK_SET + USE, "0", "0").stdout.strip() == at
    assert "llm-plain" in run_in(sys.executable, "-c", CLOCK_SET + SERVICES, "stop").stderr
    assert not runs(server)


def test_other_programs_files_among_the_leases_are_left_alone(folder, hold):
    at = address(hold())
    strange = [folder / "leases" / name for name in (".nfs1", ".DS_Store", "11", "12")]
    for path in strange[:3]:
        path.write_bytes(b"\xff\x00")
    strange[3].mkdir()
    watching = processes(folder)
    time.sleep(1)
    assert all(map(runs, watching.values()))
    assert address(hold()) == at
    assert all(path.exists() for path in strange)


def test_a_server_without_supervisor_is_listed_and_can_be_stopped(folder, hold, run_in):
    at = address(hold())
    left = processes(folder)
    left["supervisor"].kill()
    listed = run_in(sys.executable, "-m", "resources.services", "status").stdout
    assert "llm-plain" in listed
    assert "supervisor has ended" in listed
    assert at in listed
    run_in(sys.executable, "-m", "resources.services", "stop")
    assert not runs(left["server"])
    assert (
        "no embedded server" in run_in(sys.executable, "-m", "resources.services", "status").stdout
    )


def test_who_asks_for_a_server_that_restarts_waits_for_it(folder, hold, run_in):
    at = address(hold(slow=1.5))
    first = processes(folder)
    first["server"].kill()
    assert wait_for(lambda: not (folder / "endpoint.json").exists())
    assert "none yet" in run_in(sys.executable, "-m", "resources.services", "status").stdout
    assert address(hold()) == at
    second = processes(folder)
    assert second["supervisor"] == first["supervisor"]
    assert second["server"] != first["server"]


def test_a_server_whose_starter_was_killed_meanwhile_is_awaited(folder, hold):
    starter = hold(slow=2)
    assert wait_for((folder / "pids.json").exists)
    starting = processes(folder)
    starter.kill()
    assert address(hold())
    assert processes(folder) == starting


def test_a_supervisor_that_cannot_go_on_takes_its_server_along(folder, hold):
    port = address(hold()).rpartition(":")[2].strip("/")
    watching = processes(folder)
    (folder / "pids.json").unlink()
    (folder / "pids.json" / "in the way").mkdir(parents=True)
    watching["server"].kill()
    assert wait_for(lambda: not runs(watching["supervisor"]))
    assert not [
        found for found in psutil.process_iter(["cmdline"]) if port in (found.info["cmdline"] or [])
    ]


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
    done = run_in(sys.executable, "-c", FULL)
    assert "OSError" in done.stderr
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
    done = run_in(*as_a_user(sys.executable, "-m", "resources.services", "start", "graph"))
    (project / "_build").chmod(0o755)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1
    assert re.search(rf"{re.escape(str(project / '_build'))}\S* may not be written", done.stderr), (
        done.stderr
    )
