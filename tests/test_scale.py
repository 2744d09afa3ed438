"""Servers by address, and an array of notebooks."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from test_run import PUBLISHED, write_notebook

from helpers.requests import Store

REPOSITORY = Path(__file__).resolve().parents[1]
COMPOSE = (REPOSITORY / "compose.yaml").read_text()
SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE)["services"]


# -- servers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SERVICES)
def test_a_server_is_pinned_watched_and_reachable_from_this_machine_only(name: str) -> None:
    service = SERVICES[name]
    assert re.search(r":v?\d+\.\d+\.\d+(-\w+)?$", service["image"]), "an exact version"
    assert service["healthcheck"]["test"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])


def test_the_servers_secrets_come_from_the_environment_and_nothing_starts_without_them() -> None:
    secrets = [
        value
        for service in SERVICES.values()
        for key, value in service["environment"].items()
        if "memory" not in key and "timeout" not in key
    ]
    assert all("${" in value for value in secrets)
    assert set(re.findall(r"\$\{(\w+):\?", COMPOSE)) == {"NEO4J_PASSWORD", "LLM_API_KEY"}
    explained = (REPOSITORY / ".env.example").read_text()
    for name in re.findall(r"\$\{(\w+)", COMPOSE):
        assert re.search(rf"^#?{name}=", explained, re.MULTILINE), f"{name} is not in .env.example"


def test_the_images_have_the_engines_version_and_the_two_models_fit_one_gpu() -> None:
    groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["dependency-groups"]
    (version,) = [group.partition("==")[2] for group in groups["vllm"] if "vllm==" in group]
    models = {name: service for name, service in SERVICES.items() if "vllm" in service["image"]}
    assert len(models) == 2
    assert {service["image"] for service in models.values()} == {f"vllm/vllm-openai:v{version}"}
    shares = [
        re.search(r"memory-utilization=\$\{LLM_GPU_MEMORY:-(.+?)\}", str(s["command"]))
        for s in models.values()
    ]
    assert sum(float(share[1]) for share in shares if share) <= 0.95
    assert len({port for service in models.values() for port in service["ports"]}) == 2


def test_the_page_names_the_limits_that_the_graph_server_gets() -> None:
    page = (REPOSITORY / "book" / "your-own.md").read_text()
    limits = re.findall(r"^\| `(\S+)` \| `(\S+)` \|", page, re.MULTILINE)
    assert [name for name, _ in limits] == [
        "db.transaction.timeout",
        "db.memory.transaction.max",
        "dbms.memory.transaction.total.max",
    ]
    for name, value in limits:
        variable = "NEO4J_" + name.replace("_", "__").replace(".", "_")
        assert SERVICES["neo4j"]["environment"][variable] == value


def test_every_make_target_of_the_page_exists() -> None:
    targets = re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE)
    for page in ("scale", "launch", "own-model", "own-table", "own-paper"):
        text = (REPOSITORY / "book" / f"{page}.md").read_text()
        assert set(re.findall(r"(?:^|`|&& )make ([a-z-]+)", text, re.MULTILINE)) <= set(targets)


# -- the array --------------------------------------------------------------------------------------------------------


def bare(**variables: str) -> dict[str, str]:
    """The environment with no setting of this machine's but those given."""
    ours = ("PYTHONPATH", "PROFILE", "MEDRAG_ROOT", "LLM_", "NEO4J_", "MAKE", "MFLAGS")
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | variables


TASKS = "data/derived/requests/tasks"


def run_as(root: Path, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    return subprocess.run(
        command, cwd=root, env=bare(**variables), capture_output=True, text=True, check=False
    )


@pytest.mark.slow
def test_a_task_of_the_array_runs_its_notebook_and_brings_everything_back(
    project: Path, tmp_path: Path
) -> None:
    (project / "data" / "published" / "demo.yml").write_text(PUBLISHED)
    (project / "data" / "registry.yml").write_text("files: {}\n")
    (project / "notebooks" / "profiles" / "smoke.yml").write_text("defaults:\n  size: 2\n")
    answer = "from resources.settings import DERIVED\n(DERIVED / 'requests' / 'answer').write_text('kept')"
    write_notebook(project, "01_demo_first", "raise SystemExit('another task, that shall not run')")
    write_notebook(project, "02_demo_second", answer)
    os.utime(project / "requirements.lock", (0, 0))
    node = tmp_path / "node"
    node.mkdir()
    slurm = {
        "SLURM_SUBMIT_DIR": str(project),
        "SLURM_ARRAY_TASK_ID": "2",
        "TMPDIR": str(node),
        "PROFILE": "smoke",
    }
    process = run_as(project, "bash", str(REPOSITORY / "slurm.sh"), **slurm)
    assert process.returncode == 0, process.stderr
    build = project / "_build"
    saved = json.loads((build / "records" / "smoke" / "02_demo_second.json").read_text())
    assert saved["provenance"]["parameters"] == {"size": 2}
    assert not (build / "records" / "smoke" / "01_demo_first.json").exists()
    assert (project / TASKS / "smoke-02_demo_second" / "answer").read_text() == "kept"
    assert [path.name for path in (build / "inputs" / "smoke").iterdir()] == ["02_demo_second.json"]
    assert not list(node.iterdir()), "nothing stays on the node"
    command = [sys.executable, "-m", "medrerun", "run", "02_demo_second"]
    again = run_as(project, *command, PROFILE="smoke", PYTHONPATH=str(project / "src"))
    assert again.returncode == 0, again.stderr
    assert "done in" not in again.stderr, "make takes it for its own run"


SBATCH = """
for last; do :; done
for id in 1 2; do SLURM_ARRAY_TASK_ID=$id SLURM_SUBMIT_DIR=$PWD bash "$last" & done
wait
"""
STORES = """
from helpers.requests import STORE, Row, Store, plain, request_key
prompt = [{{"role": "user", "content": "{0}"}}]
key = request_key("chat", "declared:m", {{}}, prompt)
reply = plain({{"text": "{0}"}})
Store(STORE).add([Row(key, "chat", "declared:m", plain({{}}), plain(prompt), reply, 1, 1, 0.1, "e", "now")])
from resources.lora import ADAPTERS
(ADAPTERS / "{0}").mkdir(parents=True)
(ADAPTERS / "{0}" / "weights").write_text("{0}")
"""


@pytest.mark.slow
def test_an_array_of_two_leaves_records_replies_and_adapters_where_a_local_run_finds_them(
    project: Path, tmp_path: Path
) -> None:
    (project / "data" / "published" / "demo.yml").write_text(PUBLISHED)
    (project / "data" / "registry.yml").write_text("files: {}\n")
    (project / "notebooks" / "profiles" / "smoke.yml").write_text("defaults:\n  size: 2\n")
    names = [f"0{i}_demo_{word}" for i, word in enumerate(("one", "two"))]
    for name in names:
        write_notebook(project, name, STORES.format(name))
    os.utime(project / "requirements.lock", (0, 0))
    for folder in ("node", "bin"):
        (tmp_path / folder).mkdir()
    command(tmp_path / "bin", "sbatch", SBATCH)
    path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    script = str(REPOSITORY / "slurm.sh")
    process = run_as(
        project,
        "sbatch",
        "--array=1-2",
        script,
        PATH=path,
        PROFILE="smoke",
        TMPDIR=str(tmp_path / "node"),
    )
    assert process.returncode == 0, process.stderr
    records = sorted(
        path.stem for path in (project / "_build" / "records" / "smoke").glob("*.json")
    )
    assert records == names
    rows = Store(project / "data" / "derived" / "requests").rows()
    assert sorted(json.loads(row.reply)["text"] for row in rows) == names
    adapters = project / "data" / "derived" / "adapters"
    assert sorted((adapters / name / "weights").read_text() for name in names) == names
    assert not list((tmp_path / "node").iterdir())


@pytest.fixture
def task(project: Path, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a task of the array as Slurm does, on a node whose disk is the folder `node`."""
    (project / "data" / "registry.yml").write_text("files: {}\n")
    (project / "data" / "published" / "demo.yml").write_text(PUBLISHED)
    (project / "notebooks" / "profiles" / "smoke.yml").write_text("defaults:\n  size: 2\n")
    os.utime(project / "requirements.lock", (0, 0))
    (tmp_path / "node").mkdir()
    (tmp_path / "bin").mkdir()
    started: list[subprocess.Popen[str]] = []

    def start(script: str = (REPOSITORY / "slurm.sh").read_text()) -> subprocess.Popen[str]:
        (tmp_path / "slurm.sh").write_text(script)
        slurm = {
            "SLURM_SUBMIT_DIR": str(project),
            "SLURM_ARRAY_TASK_ID": "1",
            "TMPDIR": str(tmp_path / "node"),
        }
        environment = bare(
            **slurm, PROFILE="smoke", PATH=f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        )
        # what is started where Ctrl-C is ignored ignores it too
        of_tests = signal.signal(signal.SIGINT, signal.default_int_handler)
        process = subprocess.Popen(
            ["bash", str(tmp_path / "slurm.sh")], env=environment, stderr=subprocess.PIPE, text=True
        )
        signal.signal(signal.SIGINT, of_tests)
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            for child in psutil.Process(process.pid).children(recursive=True):
                child.kill()
            process.kill()


def wait_for(pattern: str, folder: Path) -> Path:
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        if path := next(folder.glob(pattern), None):
            return path
        time.sleep(0.1)
    raise AssertionError(f"no {pattern} in {folder}")


def command(folder: Path, name: str, script: str) -> None:
    """Put a command before the system's own."""
    (folder / name).write_text(f"#!/bin/bash\n{script}\n")
    (folder / name).chmod(0o755)


def left_on(node: Path) -> list[Path]:
    """Folders that tasks have left; where a kernel had to be killed, the file of its ports stays."""
    return [path for path in node.iterdir() if path.is_dir()]


@pytest.mark.slow
def test_a_task_that_is_cut_short_ends_its_notebook_and_brings_its_answers_back(
    task: Callable[..., subprocess.Popen[str]], project: Path, tmp_path: Path
) -> None:
    answer = "from resources.settings import DERIVED\n(DERIVED / 'requests' / 'answer').write_text('kept')"
    write_notebook(project, "01_demo_first", f"{answer}\nimport time\ntime.sleep(600)")
    process = task()
    wait_for("*/data/derived/requests/answer", tmp_path / "node")
    began = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=400)
    assert process.returncode == 143, errors
    assert time.monotonic() - began < 300, "it did not wait for the notebook's own end"
    build = project / "_build"
    assert (project / TASKS / "smoke-01_demo_first" / "answer").read_text() == "kept"
    assert not [*build.rglob("*.part*"), *(build / "executed").rglob("*.ipynb")]
    assert not left_on(tmp_path / "node"), "nothing stays on the node"


def test_a_run_that_does_not_end_is_ended_and_its_answers_come_back(
    task: Callable[..., subprocess.Popen[str]], project: Path, tmp_path: Path
) -> None:
    write_notebook(project, "01_demo_first")
    script = "trap '' INT TERM; touch $2/data/derived/requests/answer; sleep 600; sleep 600"
    command(tmp_path / "bin", "make", script)
    process = task((REPOSITORY / "slurm.sh").read_text().replace("{1..120}", "{1..2}"))
    wait_for("*/data/derived/requests/answer", tmp_path / "node")
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 143, errors
    assert (project / TASKS / "smoke-01_demo_first" / "answer").exists()
    assert not list((tmp_path / "node").iterdir())


def test_a_task_that_is_cut_short_before_its_run_began_ends_cleanly(
    task: Callable[..., subprocess.Popen[str]], project: Path, tmp_path: Path
) -> None:
    write_notebook(project, "01_demo_first")
    command(tmp_path / "bin", "tar", f"touch {tmp_path / 'copying'}; sleep 2; exit 0")
    process = task()
    wait_for("copying", tmp_path)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=240)
    assert process.returncode == 143
    assert errors == ""
    assert not list((tmp_path / "node").iterdir())


def test_a_task_without_a_notebook_says_so(project: Path) -> None:
    slurm = {"SLURM_SUBMIT_DIR": str(project), "SLURM_ARRAY_TASK_ID": "9"}
    process = run_as(project, "bash", str(REPOSITORY / "slurm.sh"), **slurm)
    assert process.returncode == 2
    assert "no notebook number 9" in process.stderr
