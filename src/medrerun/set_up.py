"""Makes the project's environment: python3 src/medrerun/set_up.py

It runs before anything is installed, by the Python of the system, which may be one that the
project does not support. So it needs the standard library of Python 3.7 alone.
"""

from __future__ import annotations

import os
import re
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

OLDEST, NEWEST = (3, 11), (3, 12)
"""The versions of Python that the locked packages have wheels for; see pyproject.toml."""
ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / ".venv"
BOOTSTRAP = ROOT / "_build" / "bootstrap"
"""Where uv is installed if the system's Python cannot make the project's environment."""
PYPI = "https://pypi.org/simple/"
REACH_SECONDS = 4
"""Seconds in which the package index is reached, the look-up of its name included."""
SCRIPT = """#!{python}
import sys

sys.path.insert(0, {source!r})

from medrerun.main import main

main()
"""
"""The command. Only it finds the code: a notebook that is opened alone must set itself up."""


def main() -> int:
    """Make the environment, or bring it up to date; returns the exit status."""
    exists = _has_pip(VENV)
    task = "Comparing .venv with requirements.lock" if exists else "Setting up .venv"
    size = "" if exists else " (once; 0.5 GB to fetch)"
    sys.stdout.write(f"{task}{size} ...\n")
    sys.stdout.flush()
    _warn_without_network()
    if not exists:
        if OLDEST <= sys.version_info[:2] <= NEWEST:
            _run(sys.executable, "-m", "venv", "--clear", VENV)
        else:
            _make_with_another_python()
    python = _python_of(VENV)
    uv_installed = _pip_install(python, ROOT / "locks" / "uv.txt", quiet=True)
    if uv_installed:
        sync = (VENV / "bin" / "uv", "pip", "sync", "--python", python, "--require-hashes")
        progress = () if sys.stderr.isatty() else ("-q",)
        _run(*sync, *progress, ROOT / "requirements.lock")
    elif not _pip_install(python, ROOT / "requirements.lock"):
        return 1
    if not VENV.is_symlink():  # the environment of another copy of the project
        _install_command(python)
    return 0


def _python_of(environment: Path) -> Path:
    return environment / "bin" / "python"


def _has_pip(environment: Path) -> bool:
    """Tell whether an environment is whole; one that was interrupted has a Python without pip."""
    command = [str(_python_of(environment)), "-m", "pip", "--version"]
    quiet = subprocess.DEVNULL
    try:
        return subprocess.run(command, stdout=quiet, stderr=quiet, check=False).returncode == 0
    except OSError:
        return False


def _run(*command: str | Path) -> None:
    """Run a command; the script ends if it fails, and the command has said why."""
    done = subprocess.run([str(part) for part in command], check=False)
    if done.returncode:
        sys.exit(done.returncode)


def _pip_install(python: Path, lock: Path, quiet: bool = False) -> bool:
    """Install what a lock names, with the digests that it names; returns whether it could be."""
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    # a lock is complete; with dependencies pip refuses what locks/overrides.txt changes
    command += ["--no-deps", "--require-hashes", "-r", str(lock)]
    errors = subprocess.DEVNULL if quiet else None
    return subprocess.run(command, stderr=errors, check=False).returncode == 0


def _make_with_another_python() -> None:
    """Make the environment by uv with a Python that fits; uv fetches one if the system has none."""
    found = "{}.{}".format(*sys.version_info)
    versions_needed = "{}.{} to {}.{}".format(*OLDEST, *NEWEST)
    sys.stdout.write(
        f"Python {versions_needed} is needed; this is {found}, so uv finds or fetches one ...\n"
    )
    sys.stdout.flush()
    _run(sys.executable, "-m", "venv", "--clear", BOOTSTRAP)
    remedy = f"Install Python {versions_needed}, and try again: make PYTHON=python3.11"
    if not _pip_install(_python_of(BOOTSTRAP), ROOT / "locks" / "uv.txt"):
        sys.exit(f"uv could not be installed. {remedy}")
    versions = ">={}.{},<{}.{}".format(*OLDEST, NEWEST[0], NEWEST[1] + 1)
    command = [str(BOOTSTRAP / "bin" / "uv"), "venv", "-q", "--clear", "--seed"]
    command += ["--python", versions, str(VENV)]
    if subprocess.run(command, check=False).returncode:
        sys.exit(f"uv found no such Python, and could fetch none. {remedy}")


def _install_command(python: Path) -> None:
    """Install the command `medrerun`, which runs the code in this folder."""
    script = VENV / "bin" / "medrerun"
    source = str(ROOT / "src")
    script.write_text(SCRIPT.format(python=python, source=source), encoding="utf-8")
    script.chmod(0o755)


def _warn_without_network() -> None:
    """Say at once if packages cannot be fetched: pip and uv try for long, and end in a trace."""
    if os.environ.get("PIP_NO_INDEX") or os.environ.get("UV_OFFLINE"):
        return
    index = _index()
    if _is_reachable(f"{index.rstrip('/')}/pip/"):
        return
    os.environ["PIP_RETRIES"] = os.environ["UV_HTTP_RETRIES"] = "0"
    shown = re.sub(r"//[^/@]*@", "//", index)  # without a login
    sys.stderr.write(
        f"No network: packages cannot be fetched from {shown}. "
        "Those in a local folder or a cache can.\n"
    )
    sys.stderr.flush()


def _index() -> str:
    """Return the address of the package index that pip is configured with."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
    found = re.findall(r"^[^=\s]*[.]index-url='([^']+)'", done.stdout.decode(), re.MULTILINE)
    return str(found[-1]) if found else PYPI


def _is_reachable(url: str) -> bool:
    """Tell whether a server answers, be it with an error."""
    answers = []

    def ask() -> None:
        try:
            urllib.request.urlopen(url, timeout=REACH_SECONDS - 1)  # noqa: S310  # pip's own setting
        except urllib.error.HTTPError:
            pass
        except urllib.error.URLError as error:
            if not isinstance(error.reason, ssl.SSLError):
                return
        except (OSError, ValueError):
            return
        answers.append(url)

    # the look-up of a name has no limit of its own
    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(REACH_SECONDS)
    return bool(answers)


if __name__ == "__main__":
    sys.exit(main())
