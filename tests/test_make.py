"""What make takes from the settings, and when it builds the book anew."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import psutil
import pytest
from conftest import REPOSITORY, make_wheel

from medrerun import set_up
from publish import freshness, schedule, serving
from publish.chapters import heading

PROFILES = ("smoke", "laptop", "paper")
PYTHON = f"PYTHON={sys.executable}"
PYENV = Path.home() / ".pyenv" / "versions"


@pytest.fixture
def ready(project: Path) -> Path:
    """A project that is set up, without a notebook."""
    for profile in PROFILES:
        (project / "notebooks" / "profiles" / f"{profile}.yml").touch()
    os.utime(project / "requirements.lock", (0, 0))
    stamp = project / ".venv" / "installed"
    if not stamp.exists():
        stamp.touch()
    return project


def make(project: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    environment = {
        k: v
        for k, v in os.environ.items()
        if not k.startswith(("MAKE", "MFLAGS", "PROFILE", "PORT", "REPOSITORY_"))
    }
    python = [] if any(name.startswith("PYTHON=") for name in arguments) else [PYTHON]
    command = ["make", "--no-print-directory", *python, *arguments]
    return subprocess.run(
        command,
        cwd=project,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


def test_only_the_settings_read_the_profile_of_env(ready: Path) -> None:
    (ready / ".env").write_text("export PROFILE = 'paper'  # for a look\nLLM_MODEL=a/b\n")
    in_project = {"MEDRAG_ROOT": str(ready), "PYTHONPATH": str(ready / "src"), "LLM_MODEL": ""}
    output = subprocess.run(
        [sys.executable, "-m", "medrerun", "settings", "PROFILE", "LLM_MODEL"],
        env={k: v for k, v in os.environ.items() if k not in ("PROFILE", "LLM_MODEL")} | in_project,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output == "paper\na/b\n"
    assert ".env" not in re.sub(r"(?m)^#.*", "", (REPOSITORY / "Makefile").read_text())


def test_a_uv_that_is_not_the_locked_one_is_never_run(project: Path) -> None:
    (project / ".venv").unlink()
    # a set-up that was interrupted, or one without Debian's python3-venv, has left this
    half_made = [sys.executable, "-m", "venv", "--without-pip", str(project / ".venv")]
    subprocess.run(half_made, check=True)
    wheels = project / "wheels"
    make_wheel(wheels, "uv", "0.13.9")
    digest = hashlib.sha256(make_wheel(wheels, "needed", "1.0").read_bytes()).hexdigest()
    (project / "requirements.lock").write_text(f"needed==1.0 --hash=sha256:{digest}\n")
    (project / "locks").mkdir()
    shutil.copy2(REPOSITORY / "locks" / "uv.txt", project / "locks")
    (project / "notebooks" / "profiles" / "laptop.yml").touch()
    local = {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels)}
    process = make(project, ".venv/installed", **local)
    assert process.returncode == 0, process.stderr
    (site,) = (project / ".venv" / "lib").glob("python*/site-packages")
    assert (site / "needed.py").exists()
    assert not (site / "uv.py").exists()


def test_the_set_up_takes_the_versions_of_python_that_the_project_declares() -> None:
    declared = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    oldest, newest = ("{}.{}".format(*version) for version in (set_up.OLDEST, set_up.NEWEST))
    after_newest = f"3.{set_up.NEWEST[1] + 1}"
    assert declared["requires-python"] == f">={oldest},<{after_newest}"
    assert oldest == (REPOSITORY / ".python-version").read_text().strip()
    assert newest != after_newest


def other_pythons() -> list[Path]:
    """Pythons of this machine that the project does not support."""
    paths = []
    folders = [*map(Path, os.environ["PATH"].split(os.pathsep)), *PYENV.glob("*/bin")]
    for folder in folders:
        for minor in (8, 9, 10, 13, 14):
            path = folder / f"python3.{minor}"
            works = (
                path.exists()
                and not subprocess.run(
                    [path, "-c", "import venv, ensurepip"], capture_output=True, check=False
                ).returncode
            )
            if works:
                paths.append(path)
    return paths


@pytest.mark.slow
def test_where_the_systems_python_is_too_old_or_too_new_another_one_is_taken(project: Path) -> None:
    pythons = other_pythons()
    if not pythons:
        pytest.skip("this machine has no Python that is too old or too new")
    (project / "locks").mkdir()
    shutil.copy2(REPOSITORY / "locks" / "uv.txt", project / "locks")
    wheel = make_wheel(project / "wheels", "needed", "1.0")
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (project / "requirements.lock").write_text(f"needed==1.0 --hash=sha256:{digest}\n")
    environment = project / ".venv"
    environment.unlink()
    offline = {"UV_PYTHON_PREFERENCE": "only-managed", "UV_PYTHON_DOWNLOADS": "never"}
    refused = make(project, f"PYTHON={pythons[0]}", ".venv/installed", **offline)
    assert refused.returncode != 0
    assert "Install Python 3.11 to 3.12, and try again" in refused.stderr
    for python in (pythons[0], pythons[-1]):
        shutil.rmtree(project / "_build", ignore_errors=True)
        shutil.rmtree(environment, ignore_errors=True)
        variables = {"UV_FIND_LINKS": str(project / "wheels"), "PIP_FIND_LINKS": ""}
        process = make(project, f"PYTHON={python}", ".venv/installed", **variables)
        assert process.returncode == 0, process.stderr
        assert "uv finds or fetches one" in process.stdout
        version = subprocess.run(
            [
                environment / "bin" / "python",
                "-c",
                "import needed, sys; print(sys.version_info[:2])",
            ],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert version.strip() in ("(3, 11)", "(3, 12)")


@pytest.mark.slow
def test_a_set_up_without_a_network_says_so_before_pip_does(project: Path) -> None:
    (project / ".venv").unlink()
    (project / "locks").mkdir()
    shutil.copy2(REPOSITORY / "locks" / "uv.txt", project / "locks")
    (project / "requirements.lock").write_text(f"needed==1.0 --hash=sha256:{'0' * 64}\n")
    (project / "notebooks" / "profiles" / "laptop.yml").touch()
    index = "http://name:s3cret@127.0.0.1:9/simple/"
    cut = {
        "PIP_CONFIG_FILE": os.devnull,
        "PIP_FIND_LINKS": "",
        "PIP_INDEX_URL": index,
        "PIP_NO_CACHE_DIR": "1",
    }
    clean = {
        name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))
    }
    assert set_up.REACH_SECONDS <= 5
    with subprocess.Popen(
        ["make", f"PYTHON={sys.executable}", ".venv/installed"],
        cwd=project,
        env=clean | cut,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr
        first = process.stderr.readline()
        assert first.startswith(
            "No network: packages cannot be fetched from http://127.0.0.1:9/simple/."
        )
        assert "s3cret" not in first
    assert process.returncode != 0


PARTS = """
quick: ; @echo all is well
wrong: ; @echo what went wrong; sleep 2; exit 3
long: ; @echo $$$$ > sleeping; echo begun; exec sleep 600
"""


def make_side_by_side(folder: Path, *targets: str) -> subprocess.CompletedProcess[str]:
    (folder / "Makefile").write_text(PARTS)
    code = "import sys, pathlib, side_by_side; sys.exit(side_by_side.run(sys.argv[1:], pathlib.Path()))"
    return subprocess.run(
        [sys.executable, "-c", code, *targets],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY / "tests")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_parts_made_side_by_side_name_their_lines(tmp_path: Path) -> None:
    process = make_side_by_side(tmp_path, "quick")
    assert process.returncode == 0, process.stderr
    assert "quick | all is well" in process.stdout
    assert "quick | passed after" in process.stdout


def test_a_part_that_fails_ends_the_others_and_is_named_with_its_last_lines(tmp_path: Path) -> None:
    process = make_side_by_side(tmp_path, "long", "wrong")
    assert process.returncode == 1
    assert "long  | begun" in process.stdout
    last_lines = process.stdout[process.stdout.index("wrong failed; long did not finish.") :]
    assert "what went wrong" in last_lines
    assert not psutil.pid_exists(int((tmp_path / "sleeping").read_text()))


def test_a_jupyterlab_gets_the_port_that_was_asked_for(ready: Path) -> None:
    assert '--port="$PORT"' in make(ready, "-n", "lab", "PORT=8899").stdout
    assert "--port" not in make(ready, "-n", "lab").stdout


def test_the_book_is_stale_when_another_profile_address_or_file_is_to_be_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in freshness.BOOK_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(freshness, "BOOK", tmp_path / "index.html")
    monkeypatch.setattr(freshness, "BOOK_NOTE", tmp_path / "book.json")
    monkeypatch.setattr(freshness, "BOOK_FOLDERS", ())
    assert freshness.book_is_stale()
    (tmp_path / "index.html").touch()
    assert freshness.book_is_stale(), "nobody knows what it was built from"
    freshness.note(freshness.BOOK_NOTE, freshness.book_inputs())
    assert not freshness.book_is_stale()
    monkeypatch.setenv("REPOSITORY_URL", "https://github.com/owner/name")
    assert freshness.book_is_stale()
    monkeypatch.delenv("REPOSITORY_URL")
    monkeypatch.setattr(freshness, "run_name", lambda _: "paper")
    assert freshness.book_is_stale()
    monkeypatch.undo()
    inputs = freshness.book_inputs()
    assert len(inputs) > 100
    assert not [name for name in inputs if "__pycache__" in name], "which building leaves there"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["JOBS=0", "notebooks"], "JOBS must be a whole number of at least 1; found JOBS=0."),
        (["JOBS=two", "reproduce"], "JOBS=two"),
        (["notebook"], "Name a notebook, or some of them"),
        (["NB=99_none", "notebook"], "found '99_none'"),
        (["reprodoce"], "`make help`"),
    ],
)
def test_what_cannot_be_asked_of_make_is_named(
    ready: Path, arguments: list[str], message: str
) -> None:
    process = make(ready, *arguments, PROFILE="smoke", MEDRAG_ROOT=str(ready))
    assert process.returncode != 0
    assert message in process.stderr.splitlines()[0]
    assert "Traceback" not in process.stderr


def test_the_chapters_are_listed_with_number_and_title() -> None:
    lines = run_medrerun("run", "--list").stdout.splitlines()
    chapters = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))
    expected = [[path.stem[:2], path.stem, heading(path)] for path in chapters]
    assert [line.split(maxsplit=2) for line in lines] == expected
    single = run_medrerun("run", "--list", chapters[6].stem).stdout
    assert single.split(maxsplit=2) == [*expected[6][:2], f"{expected[6][2]}\n"]


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("6", "06_interactions_qa"),
        ("06", "06_interactions_qa"),
        ("0", "00_side_effects_data"),
        ("Forward", "01_side_effects_forward"),
        ("06_interaction_qa", "06_interactions_qa"),
        ("qarag", "15_qarag_finetune, 16_qarag_retrieval, 17_qarag_answers"),
    ],
)
def test_a_name_of_no_notebook_is_answered_with_the_nearest(text: str, nearest: str) -> None:
    with pytest.raises(schedule.ScheduleError) as error:
        schedule.select([text])
    assert f"found {text!r}. Did you mean {nearest}" in str(error.value)
    assert "`medrerun run --list`" in str(error.value)


def test_a_name_that_is_near_to_none_is_answered_with_all() -> None:
    process = run_medrerun("run", "99")
    assert process.returncode == 1
    assert len(process.stderr.splitlines()) == 1
    for path in (REPOSITORY / "notebooks").glob("*.ipynb"):
        assert path.stem in process.stderr


@pytest.mark.parametrize("port", ["abc", "0", "70000"])
def test_a_port_that_is_none_is_named(port: str) -> None:
    process = run_medrerun("serve", "--port", port)
    assert process.returncode == 1
    assert process.stderr == f"PORT must be from 1 to 65535; found PORT={port}.\n"


def test_a_port_that_is_taken_is_named_with_one_to_choose() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(serving.ServingError) as error:
            serving.serve(port)
    assert f"Port {port} cannot be used" in str(error.value)
    assert f"make serve PORT={port + 1}" in str(error.value)


def run_medrerun(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "medrerun", *arguments],
        env=os.environ | {"PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


GIVEN = (
    "ANSWERS",
    "ARM",
    "CHANGED",
    "CHECK",
    "DATA_MIRROR",
    "FILE",
    "FILES",
    "FOLDER",
    "JOBS",
    "LLM_API_KEY",
    "LLM_BASE_URL",
    "LLM_ENGINE",
    "LLM_MODEL",
    "MEASURE",
    "MODELS",
    "NAME",
    "NB",
    "NEO4J_PASSWORD",
    "NEO4J_URI",
    "OMP_NUM_THREADS",
    "PAPER",
    "PORT",
    "PROFILE",
    "PYTHON",
    "REPOSITORY_BRANCH",
    "REPOSITORY_URL",
    "SEED",
    "TORCH",
    "TRIAL",
    "UNIT",
)


def code(name: str) -> str:
    """Text that runs unquoted, between single or double quotes, as a line of its own, or by make."""
    commands = [f"touch ran-{name}-{way}" for way in range(6)]
    return (
        "x'; {}; '\"; {}; \"`{}`$({})$(shell {}); {}\n".format(*commands) + f"touch ran-{name}-line"
    )


def with_stand_ins(project: Path) -> dict[str, str]:
    """Replace all programs of a project by one that does nothing; the path to find them by."""
    programs = project.parent / "programs"
    programs.mkdir()
    (project / ".venv").unlink()
    folder = project / ".venv" / "bin"
    folder.mkdir(parents=True)
    of_project = ("python", "uv", "ruff", "mypy", "jupyter", "medrerun")
    of_machine = ("python3", "uv", "apt-get")
    for path in (*(folder / name for name in of_project), *(programs / n for n in of_machine)):
        path.write_text("#!/bin/sh\nexit 0\n")
        path.chmod(0o755)
    (project / ".venv" / "installed").touch()
    (project / "notebooks" / "01_demo.ipynb").write_text('{"cells": []}')
    return {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}


def every_target() -> list[str]:
    """All targets that a user may name, but for a notebook's."""
    lines = (REPOSITORY / "Makefile").read_text().splitlines()
    return [line.partition(":")[0] for line in lines if re.match(r"[a-z][a-z0-9-]*:(?!=)", line)]


@pytest.mark.parametrize("origin", ["environment", "command line", ".env"])
def test_no_setting_reaches_a_shell_or_make_as_code(ready: Path, origin: str) -> None:
    path = with_stand_ins(ready)
    values = {name: code(name) for name in GIVEN}
    assignments = [f"{name}={value}" for name, value in values.items()]
    if origin == "environment":
        make(ready, "-k", *every_target(), **values, **path)
    elif origin == "command line":
        make(ready, "-k", *every_target(), *assignments, **path)
    else:
        (ready / ".env").write_text("\n".join(assignments))
        make(ready, "-k", *every_target(), **path)
    assert not [*ready.rglob("ran-*")]


def test_no_name_of_a_target_or_of_a_folder_reaches_a_shell_as_code(ready: Path) -> None:
    path = with_stand_ins(ready)
    folder = ready.parent / code("folder")
    ready.rename(folder)
    make(folder, "-k", *every_target(), **path)
    make(folder, code("target"), **path)
    assert not [*folder.rglob("ran-*")]
