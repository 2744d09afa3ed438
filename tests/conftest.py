"""What several test files share: a small real LLM, and a project folder of a test's own."""

from __future__ import annotations

import gc
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import hypothesis
import psutil
import pytest
from playwright.sync_api import Browser, sync_playwright

# a sample of stored requests is asked again only where a test is about that
os.environ.setdefault("ANSWERS", "stored")

from helpers import neighbours
from publish import doctor
from resources import services
from resources.services import LlmEndpoint
from resources.settings import RESULTS

# how long an example takes depends on what else the machine does, and says nothing of the code
hypothesis.settings.register_profile("quick", deadline=None, max_examples=25)
hypothesis.settings.register_profile("weekly", deadline=None, max_examples=300)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))

REPOSITORY = Path(__file__).resolve().parents[1]
SMALL_MODEL = "SmolLM2-135M-Instruct"


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what asks the small LLM that tests and the smoke profile share."""
    for item in items:
        if "small_llm" in getattr(item, "fixturenames", ()) or item.path.stem == "test_smoke":
            item.add_marker(pytest.mark.llm)


def pytest_sessionfinish() -> None:
    """Let what the tests made be freed at the end, else libraries report it as leaked."""
    gc.unfreeze()


@pytest.fixture(autouse=True, scope="module")
def _objects_of_earlier_tests_are_not_searched_for_garbage() -> None:
    """Each collection would go through all that modules and caches hold: a fifth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True, scope="session")
def _searches_of_shared_fixtures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What several tests share leaves the searches of this project's own runs alone, too."""
    with pytest.MonkeyPatch.context() as patch:
        _use_store(patch, tmp_path_factory.mktemp("searches"))
        yield


@pytest.fixture(autouse=True)
def own_searches(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of searches of the test's own, so that a test sees none of another one's results."""
    folder = tmp_path_factory.getbasetemp() / f"searches-{next(_NUMBERS)}"  # made on first use
    _use_store(monkeypatch, folder)
    return folder


def _use_store(patch: pytest.MonkeyPatch, folder: Path) -> None:
    patch.setattr(neighbours, "STORE", folder / "own")
    patch.setattr(neighbours, "RELEASED", folder / "released")
    patch.setattr(neighbours, "BUILT", folder / "built")
    patch.setattr(neighbours, "COUNTS", neighbours.Counts())


_NUMBERS = count()


def processor_seconds() -> float:
    """Of the commands that have ended: unlike the time of day, it does not depend on what else the machine does."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def python_says(code: str, *arguments: str, **variables: str) -> str:
    """What a new Python that finds the project's modules prints, with these variables of its environment."""
    environment = os.environ | {"PYTHONPATH": str(REPOSITORY / "src")} | variables
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=True
    ).stdout


def as_a_user(*command: str) -> list[str]:
    """A command without root's leave to write where nobody may."""
    return (
        ["setpriv", "--bounding-set=-dac_override", *command] if os.geteuid() == 0 else [*command]
    )


@pytest.fixture(scope="session")
def small_llm() -> LlmEndpoint:
    """The smoke profile's model behind the embedded engine; shared with the notebooks of the same run."""
    return services.llm_endpoint(SMALL_MODEL)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, from `CHROMIUM` or the path."""
    if (executable := doctor.browser()) is None:
        pytest.skip(
            "no Chromium on this machine: install it (apt-get install chromium) or name it in CHROMIUM"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """The folder of a model to train, as far as what starts the training looks into it."""
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def make_wheel(folder: Path, name: str, version: str, *requires: str) -> Path:
    """A wheel with one empty module, in a folder of wheels."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    members = {
        f"{module}.py": "",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    members[f"{info}/RECORD"] = "".join(f"{member},,\n" for member in [*members, f"{info}/RECORD"])
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in members.items():
            wheel.writestr(member, text)
    return path


def new_project(root: Path) -> Path:
    """A project in this folder: the code and the Makefile copied, the environment shared, no notebook."""
    root.mkdir()
    for name in ("Makefile", "pyproject.toml", "requirements.lock", "_config.yml"):
        if (REPOSITORY / name).exists():
            shutil.copy2(REPOSITORY / name, root / name)
    shutil.copytree(REPOSITORY / "src", root / "src")  # with what Python has compiled
    (root / ".venv").symlink_to(Path(sys.prefix), target_is_directory=True)
    (root / "notebooks" / "profiles").mkdir(parents=True)
    (root / "data" / "published").mkdir(parents=True)
    return root


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project folder of the test's own."""
    return new_project(tmp_path / "project")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """The project as a fresh clone has it, edits that are not committed included."""
    root = tmp_path / "checkout"
    listed = ["git", "-C", str(REPOSITORY), "ls-files", "-co", "--exclude-standard"]
    for name in subprocess.run(
        listed, capture_output=True, text=True, check=True
    ).stdout.splitlines():
        if (source := REPOSITORY / name).is_file() and not source.is_symlink():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, root / name)
    for compiled in (REPOSITORY / "src").rglob("__pycache__"):
        shutil.copytree(compiled, root / compiled.relative_to(REPOSITORY), dirs_exist_ok=True)
    return root


def own_environment(project: Path) -> dict[str, str]:
    """The environment of a command in a project, without the settings of this machine."""
    foreign = {
        "NEO4J_URI",
        "LLM_BASE_URL",
        "LLM_MODEL",
        "LLM_API_KEY",
        "LLM_ENGINE",
        "DATA_MIRROR",
        "PROFILE",
        "SERVERS_OWNER",
    }
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in foreign and not name.startswith(("MAKE", "MFLAGS"))
    }
    return own | {"MEDRAG_ROOT": str(project), "PYTHONPATH": str(project / "src")}


def running_in(project: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs a command in a project, with settings of the test's choosing only."""

    def run(
        *command: str, timeout: float = 240, **variables: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=project,
            env=own_environment(project) | variables,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


def still_running(project: Path) -> list[str]:
    """The command lines of the processes that work in a project."""
    command_lines = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            works_here = process.environ().get("MEDRAG_ROOT") == str(project)
            if works_here and process.status() != psutil.STATUS_ZOMBIE:
                command_lines.append(" ".join(process.cmdline()))
    return command_lines


@pytest.fixture
def run_in(project: Path) -> Iterator[Callable[..., subprocess.CompletedProcess[str]]]:
    """Run a command in the test's own project; servers that it started are stopped."""
    run = running_in(project)
    yield run
    if (project / "_build" / "services").exists():
        run(sys.executable, "-m", "resources.services", "stop")


@pytest.fixture
def start_in(project: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a command in the test's own project; whatever still runs after the test is killed."""
    started = []

    def start(*command: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=project,
            env=own_environment(project) | variables,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
    for survivor in psutil.process_iter():
        with suppress(psutil.Error):
            if survivor.environ().get("MEDRAG_ROOT") == str(project):
                survivor.kill()


@pytest.fixture
def note_measurement(capsys) -> Callable[[str, str, str], None]:
    """Prints what a benchmark measured, and stores it for the page on scale, in place of what it measured before."""
    bench = RESULTS / "bench.json"

    def note(subject: str, size: str, result: str) -> None:
        with capsys.disabled():
            sys.stdout.write(f"\n{subject}, {size}: {result}\n")
        rows = json.loads(bench.read_text(encoding="utf-8")) if bench.is_file() else []
        machine = f"{len(os.sched_getaffinity(0))} cores, {platform.machine()}"
        row = {
            "what": subject,
            "size": size,
            "found": result,
            "machine": machine,
            "day": f"{datetime.now(UTC):%Y-%m-%d}",
        }
        rows = [other for other in rows if (other["what"], other["size"]) != (subject, size)] + [
            row
        ]
        bench.parent.mkdir(parents=True, exist_ok=True)
        bench.write_text(
            json.dumps(sorted(rows, key=lambda r: (r["what"], r["size"])), indent=1) + "\n",
            encoding="utf-8",
        )

    return note
