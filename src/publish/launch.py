"""Lets a notebook run where nothing is set up: alone on Colab, on Binder, in an editor.

Each notebook holds the same short cell, which does nothing where the helpers can be imported.
`PYTHONPATH=src .venv/bin/python -m publish.launch` writes it into every notebook.
Only the standard library is imported at first.
"""

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(os.environ.get("MEDRAG_ROOT", Path(__file__).resolve().parents[2]))
CELL_ID = "launch"

CELL = """\
# Opened alone, as on Colab: find the project or clone REPOSITORY_URL, install what is missing,
# take the smallest sizes.
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

if importlib.util.find_spec("helpers") is None:
    here, url = Path.cwd(), os.environ.get("REPOSITORY_URL") or "{url}"
    folders = (here, *here.parents)
    clone = here / "medical-rag-book"
    root = next((folder for folder in folders if (folder / "src" / "helpers").is_dir()), clone)
    if not root.exists() and subprocess.call(["git", "clone", "-q", "--depth=1", url, root]):
        sys.exit(
            "Where is the project? In a cell above: %env REPOSITORY_URL=https://... "
            "Then run this one again."
        )
    sys.path.insert(0, str(root / "src"))
    launch = importlib.import_module("publish.launch")
    globals().update(launch.set_up("{notebook}"))"""


def set_up(notebook: str) -> dict[str, Any]:
    """Prepare the project for a notebook that was opened alone, and go to its folder.

    Returns:
        The notebook's parameters of `PROFILE`; empty if that is not set.

    Raises:
        RuntimeError: Python has another version, or a package cannot be installed.
    """
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if not (3, 11) <= sys.version_info[:2] < (3, 13):
        raise RuntimeError(
            f"Python {project['requires-python']} is needed; this is {sys.version.split()[0]}."
        )
    _install_packages(missing(project["dependencies"]))
    _install_venv()
    current_folder = Path.cwd().resolve()
    if ROOT not in (current_folder, *current_folder.parents):  # a clone that the cell made
        os.environ.setdefault("PROFILE", "smoke")
    os.chdir(ROOT)
    profile = os.environ.get("PROFILE")
    return _profile_parameters(notebook, profile) if profile else {}


def _install_packages(requirements: Sequence[str]) -> None:
    if not requirements:
        return
    sys.stderr.write(f"Installing {len(requirements)} packages: {', '.join(requirements)}\n")
    command = [sys.executable, "-m", "pip", "install", "-q", *requirements]
    if subprocess.run(command, check=False).returncode:
        raise RuntimeError(
            f"pip could not install {' '.join(requirements)}. Its message above says why."
        )
    importlib.invalidate_caches()


def _install_venv() -> None:
    """Install `ensurepip`, which Debian and Ubuntu, so Colab too, leave out of Python.

    The LLM engine's own environment is made with it.
    """
    if importlib.util.find_spec("ensurepip") is not None:
        return
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    command = ["apt-get", "install", "-y", "-qq", package]
    if shutil.which("apt-get") is None or subprocess.run(command, check=False).returncode:
        raise RuntimeError(
            f"{package} is needed for the LLM engine. Install it: sudo {' '.join(command)}"
        )


def _profile_parameters(notebook: str, profile: str) -> dict[str, Any]:
    if profile == "smoke" and not (ROOT / ".venv-llm").exists():
        # llama.cpp is a small fetch; vLLM is gigabytes
        os.environ.setdefault("LLM_ENGINE", "llamacpp")
    # it needs packages that may have been installed just now
    from resources import parameters  # noqa: PLC0415

    values = parameters.parameters(notebook, profile)
    sys.stderr.write(
        f"Profile {profile}: {values}. "
        "For other sizes, assign to these names in a cell of your own.\n"
    )
    return values


def missing(requirements: Iterable[str]) -> list[str]:
    """Return the requirements of which no version is installed.

    An older version is accepted: a hosted notebook would have to restart to use a newer one.
    """
    distributions = importlib.metadata.distributions()
    installed = {_normal_name(distribution.name or "") for distribution in distributions}
    names = {requirement: re.split(r"[^\w.-]", requirement)[0] for requirement in requirements}
    return [
        requirement for requirement, name in names.items() if _normal_name(name) not in installed
    ]


def _normal_name(package: str) -> str:
    """Return a package's name as PyPI compares it."""
    return re.sub(r"[-_.]+", "-", package).lower()


def repository_url() -> str:
    """Return the address on GitHub, or "" if none is known.

    It is `REPOSITORY_URL`, for a fork, or else that of CITATION.cff or of git's remote `origin`.
    """
    match = re.fullmatch(r"(https://github\.com/[^/\s@]+/[^/\s@]+?)(?:\.git)?/?", _known_address())
    return match[1] if match else ""


def clone_address() -> str:
    """Return the address, on any server, from which `git clone` fetches the project; "" if unknown.

    It comes from where `repository_url` looks. An address with a name or a secret in it, or one
    that only this machine understands, is not shown.
    """
    match = re.fullmatch(r"(https://[^/\s@]+/[^\s@]+?)(?:\.git)?/?", _known_address())
    return match[1] if match else ""


def _known_address() -> str:
    """Return the project's address as somebody wrote it, or "" if nobody did."""
    url = os.environ.get("REPOSITORY_URL") or cited_url()
    if not url and shutil.which("git"):
        command = ["git", "-C", str(ROOT), "remote", "get-url", "origin"]
        url = subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    return url


def cited_url() -> str:
    """The project's own address, `repository-code` of CITATION.cff; empty where that has none."""
    citation = ROOT / "CITATION.cff"
    text = citation.read_text(encoding="utf-8") if citation.is_file() else ""
    match = re.search(r"^repository-code: *[\"']?([^\"'\s]+)", text, re.MULTILINE)
    return match[1] if match else ""


def with_cell(content: dict[str, Any], notebook: str) -> dict[str, Any]:
    """Return a notebook's JSON with the launch cell below its parameters.

    The new cell replaces the one that the notebook had.
    """
    cells = [cell for cell in content["cells"] if cell.get("id") != CELL_ID]
    tags = [cell["metadata"].get("tags", []) for cell in cells]
    below = next(number for number, names in enumerate(tags, 1) if "parameters" in names)
    cell = {
        "cell_type": "code",
        "execution_count": None,
        "id": CELL_ID,
        "metadata": {"tags": ["remove-cell"]},  # the book shows what it runs, not how it got there
        "outputs": [],
        "source": CELL.format(url=cited_url(), notebook=notebook).splitlines(keepends=True),
    }
    return content | {"cells": [*cells[:below], cell, *cells[below:]]}


def main() -> None:
    """Write the cell into every notebook where it is missing or another."""
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        before = path.read_text(encoding="utf-8")
        content = with_cell(json.loads(before), path.stem)
        after = json.dumps(content, indent=1, ensure_ascii=False) + "\n"
        if after != before:
            path.write_text(after, encoding="utf-8")
            sys.stdout.write(f"{path.name}: launch cell written\n")


if __name__ == "__main__":
    main()
