"""A notebook where nothing is set up: alone in an empty folder, on Binder, in a container, in CI."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml

from publish import dependencies, launch
from resources import settings
from resources.engine_install import EMBEDDED_MODELS
from resources.settings import NOTEBOOKS

REPOSITORY = Path(__file__).resolve().parents[1]
NAMES = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
FORWARD = "01_side_effects_forward"


def bare(**variables: str) -> dict[str, str]:
    """The environment of a machine that knows nothing of the project."""
    ours = (
        "PYTHONPATH",
        "PROFILE",
        "MEDRAG_ROOT",
        "REPOSITORY_URL",
        "LLM_",
        "NEO4J_",
        "MAKE",
        "MFLAGS",
        "PYTEST_",
    )
    return {k: v for k, v in os.environ.items() if not k.startswith(ours)} | variables


def cells(notebook: Path) -> list[str]:
    return [
        "".join(c["source"])
        for c in json.loads(notebook.read_text())["cells"]
        if c["cell_type"] == "code"
    ]


def launch_cell() -> str:
    content = json.loads((NOTEBOOKS / f"{FORWARD}.ipynb").read_text())
    [cell] = [
        cell
        for cell in launch.with_cell(content, FORWARD)["cells"]
        if cell.get("id") == launch.CELL_ID
    ]
    return "".join(cell["source"])


def run_cells(folder: Path, sources: list[str], **variables: str) -> str:
    """What Python prints when it runs these cells in a folder."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(sources)],
        cwd=folder,
        env=bare(**variables),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def opened(folder: Path, notebook: Path, then: str, **variables: str) -> str:
    """What Python prints after a notebook's first two cells, parameters and launch, and a line more."""
    return run_cells(folder, [*cells(notebook)[:2], then], **variables)


@pytest.mark.parametrize("name", NAMES)
def test_every_notebook_has_the_launch_cell_of_today(name: str) -> None:
    content = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    assert launch.with_cell(content, name) == content, (
        "run `PYTHONPATH=src .venv/bin/python -m publish.launch`"
    )
    assert sum("globals().update(" in "".join(cell["source"]) for cell in content["cells"]) == 1


@pytest.mark.slow
def test_a_notebook_alone_in_an_empty_folder_fetches_its_project(
    checkout: Path, tmp_path: Path
) -> None:
    """As on Colab: the notebook is all there is. It clones, installs what is missing, and reads the sample."""
    wheels, site, empty = (tmp_path / name for name in ("wheels", "site", "empty"))
    for folder in (wheels, empty):
        folder.mkdir()
    with zipfile.ZipFile(wheels / "not_there_yet-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("not_there_yet.py", "")
        wheel.writestr(
            "not_there_yet-1.0.dist-info/METADATA",
            "Metadata-Version: 2.1\nName: not-there-yet\nVersion: 1.0\n",
        )
        wheel.writestr(
            "not_there_yet-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n"
        )
        wheel.writestr("not_there_yet-1.0.dist-info/RECORD", "")
    project = checkout / "pyproject.toml"
    project.write_text(
        project.read_text().replace('  "jinja2>=3.1",', '  "jinja2>=3.1",\n  "not-there-yet>=1",')
    )
    git = ["git", "-C", str(checkout), "-c", "user.name=x", "-c", "user.email=x@example.org"]
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        subprocess.run([*git, *command], check=True)

    name = "00_side_effects_data"
    (empty / f"{name}.ipynb").write_bytes((NOTEBOOKS / f"{name}.ipynb").read_bytes())
    offline = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(wheels), "PIP_TARGET": str(site)}
    drugs = "from resources import datasets; found = datasets.locate('side_effects/drug_names.csv', data)"
    sources = [
        *cells(empty / f"{name}.ipynb")[:2],
        drugs,
        "print(data, found.sample, found.path, os.getcwd())",
    ]
    said = run_cells(empty, sources, REPOSITORY_URL=checkout.as_uri(), **offline)
    assert (site / "not_there_yet.py").exists(), "what was missing is installed"
    clone = empty / "medical-rag-book"
    sample = clone / "data" / "sample" / "side_effects" / "drug_names.csv"
    assert said == f"sample True {sample} {clone}", "the smoke profile, the clone's sample"
    # a session that starts anew finds the clone, and the profile stays
    again = run_cells(empty, [*cells(empty / f"{name}.ipynb")[:2], "print(data)"], **offline)
    assert again == "sample"


@pytest.mark.parametrize("given", [{}, {"REPOSITORY_URL": ""}])
def test_a_notebook_alone_that_knows_no_address_asks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: dict[str, str]
) -> None:
    monkeypatch.setattr(launch, "cited_url", lambda: "")
    command = [sys.executable, "-c", launch_cell()]
    done = subprocess.run(
        command, cwd=tmp_path, env=bare(**given), capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "%env REPOSITORY_URL=" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


def test_a_notebook_in_its_project_finds_it_and_keeps_its_own_sizes(checkout: Path) -> None:
    folder = checkout / "notebooks"
    said = opened(
        folder,
        folder / f"{FORWARD}.ipynb",
        "import os, helpers; print(pairs, os.getcwd(), helpers.__file__)",
    )
    assert said == f"480 {checkout} {checkout / 'src' / 'helpers' / '__init__.py'}"


def test_jupyterlab_opens_a_notebook_with_the_sizes_of_the_profile(checkout: Path) -> None:
    programs = checkout / ".venv" / "bin"
    programs.mkdir(parents=True)
    for name, stand_in in (
        ("jupyter", f'cd notebooks && exec {sys.executable} -c "$CELLS"'),
        ("python", f'exec {sys.executable} "$@"'),
    ):
        (programs / name).write_text(f"#!/bin/sh\n{stand_in}\n")
        (programs / name).chmod(0o755)
    (checkout / ".venv" / "installed").touch()
    code = "\n".join(
        [*cells(checkout / "notebooks" / f"{FORWARD}.ipynb")[:2], "print(pairs, profile)"]
    )
    command = [
        "make",
        "--no-print-directory",
        "-C",
        str(checkout),
        "lab",
        "PROFILE=smoke",
    ]
    done = subprocess.run(command, env=bare(CELLS=code), capture_output=True, text=True, check=True)
    assert done.stdout == "16 smoke\n"


def test_binder_gives_a_notebook_the_smallest_sizes(checkout: Path) -> None:
    done = subprocess.run(
        [checkout / ".binder" / "start", "env"],
        env=bare(),
        capture_output=True,
        text=True,
        check=True,
    )
    given = dict(
        line.split("=", 1)
        for line in done.stdout.splitlines()
        if line.startswith(("PROFILE=", "LLM_ENGINE="))
    )
    assert given == {"PROFILE": "smoke", "LLM_ENGINE": "llamacpp"}
    folder = checkout / "notebooks"
    assert (
        opened(folder, folder / f"{FORWARD}.ipynb", "print(pairs, profile)", **given) == "16 smoke"
    )


def test_where_the_helpers_are_there_the_cell_does_nothing(checkout: Path, tmp_path: Path) -> None:
    then = f"import os; print(pairs, os.getcwd() == {str(tmp_path)!r})"
    path = str(checkout / "src")
    assert (
        opened(
            tmp_path,
            checkout / "notebooks" / f"{FORWARD}.ipynb",
            then,
            PYTHONPATH=path,
            PROFILE="smoke",
        )
        == "480 True"
    )


def test_only_what_is_not_there_in_any_version_counts_as_missing() -> None:
    assert launch.missing(
        ["pytest>=99", "No.Such-Thing[extra]>=1; python_version > '3'", "PyYAML"]
    ) == ["No.Such-Thing[extra]>=1; python_version > '3'"]


def test_the_address_is_the_forks_then_the_projects_then_gits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(launch, "ROOT", tmp_path)
    monkeypatch.delenv("REPOSITORY_URL", raising=False)
    assert launch.repository_url() == ""
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    remote = ["git", "-C", str(tmp_path), "remote"]
    subprocess.run(
        [*remote, "add", "origin", "https://user:token@github.com/secret/name.git"], check=True
    )
    assert launch.repository_url() == "", "an address with a secret in it is never shown"
    assert launch.clone_address() == ""
    subprocess.run([*remote, "set-url", "origin", "https://git.example.org/a/name.git"], check=True)
    assert launch.repository_url() == "", "the buttons lead to GitHub alone"
    assert launch.clone_address() == "https://git.example.org/a/name"
    subprocess.run([*remote, "set-url", "origin", str(tmp_path)], check=True)
    assert launch.clone_address() == "", "no reader has the folder of this machine"
    subprocess.run([*remote, "set-url", "origin", "https://github.com/clone/name.git"], check=True)
    assert launch.repository_url() == "https://github.com/clone/name"
    (tmp_path / "CITATION.cff").write_text(
        'version: 1\nrepository-code: "https://github.com/project/name"\n'
    )
    assert launch.repository_url() == "https://github.com/project/name"
    assert "https://github.com/project/name" in launch_cell()
    monkeypatch.setenv("REPOSITORY_URL", "https://github.com/fork/name")
    assert launch.repository_url() == "https://github.com/fork/name"
    assert "https://github.com/project/name" in launch_cell(), (
        "what is committed does not depend on who looks"
    )


def test_no_run_depends_on_how_a_notebook_was_opened() -> None:
    assert "launch" not in dependencies.used_modules(NOTEBOOKS / f"{FORWARD}.ipynb")


# -- what other services read -----------------------------------------------------------------------------------------


def test_binder_installs_the_locked_versions() -> None:
    folder = REPOSITORY / ".binder"
    environment = yaml.safe_load((folder / "environment.yml").read_text())
    script = (folder / "postBuild").read_text()
    [lock] = re.findall(r"pip install .*--no-deps --require-hashes -r (\S+)", script)
    assert (REPOSITORY / lock).is_file()
    [model] = re.findall(r"medrerun data --fetch (\S+)", script)
    assert model == EMBEDDED_MODELS[settings.read_profile("smoke")["defaults"]["llm_model"]].source
    minimum = (REPOSITORY / ".python-version").read_text().strip()
    assert f"python={minimum}" in environment["dependencies"]
    for script in ("postBuild", "start"):
        assert os.access(folder / script, os.X_OK)
        subprocess.run(["bash", "-n", folder / script], check=True)


def make_targets() -> set[str]:
    return set(re.findall(r"^([a-z0-9-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))


def test_the_container_sets_itself_up() -> None:
    container = json.loads((REPOSITORY / ".devcontainer" / "devcontainer.json").read_text())
    assert container["postCreateCommand"].removeprefix("make ") in make_targets()
    assert re.search(r":\d+-3\.11-", container["image"])


def test_the_workflows_pin_their_actions_and_can_write_nothing_but_the_pages_and_an_issue() -> None:
    writing: dict[str, set[str]] = {}
    pins: set[str] = set()
    for path in sorted((REPOSITORY / ".github" / "workflows").glob("*.yml")):
        text = path.read_text()
        workflow = yaml.safe_load(text)
        for action, comment in re.findall(r"uses: (\S+)(.*)", text):
            assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action), action
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), f"{action} says which version it is"
            pins.add(action)
        assert workflow["permissions"] == {"contents": "read"}
        for name, job in workflow["jobs"].items():
            assert job["timeout-minutes"], name
            given = {what for what, may in job.get("permissions", {}).items() if may == "write"}
            writing |= {name: given} if given else {}
        runs = [
            step["run"]
            for job in workflow["jobs"].values()
            for step in job["steps"]
            if "run" in step
        ]
        assert {
            target for run in runs for target in re.findall(r"\bmake ([a-z0-9-]+)", run)
        } <= make_targets()
        if path.name == "book.yml":
            assert set(workflow["jobs"]["publish"]["needs"]) == workflow["jobs"].keys() - {
                "publish"
            }
    assert writing == {"publish": {"pages", "id-token"}, "rebuild": {"issues"}}
    assert len(pins) == len({action.partition("@")[0] for action in pins}), (
        "one version of each action"
    )
