"""What a run was made with and on: code, machine, packages; never whose machine it was."""

import json
import platform
import re
import subprocess
import tomllib
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from resources.settings import ROOT, available_cores, hide_secrets, settings

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

CODE = Path(__file__).resolve().parents[2]
"""Where the code lies, which is not ROOT if `MEDRAG_ROOT` moved that."""
CPU_INFO = Path("/proc/cpuinfo")
_ADDRESS_SETTINGS = ("data_mirror", "neo4j_uri", "llm_base_url")
_PATH = "(path)"


def machine() -> dict[str, Any]:
    """The code's commit, and the machine and packages that run it.

    Outside a clone, commit and dirty are None.
    """
    commit, dirty = _git_state()
    return {
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": _cpu(),
        "cores": available_cores(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "packages": _packages(),
    }


def _cpu() -> str:
    text = CPU_INFO.read_text("utf-8") if CPU_INFO.is_file() else ""
    match = re.search(r"^model name\s*:\s*(.+)$", text, re.MULTILINE)
    return match[1] if match else platform.processor() or "unknown"


def _git_state() -> tuple[str | None, bool | None]:
    """The commit, and whether files differ from it."""
    try:
        top, commit = _git("rev-parse", "--show-toplevel", "HEAD")
        # A copy that lies inside some other repository must not be given that one's commit.
        if Path(top).resolve() != CODE:
            return None, None
        return commit, bool(_git("status", "--porcelain"))
    except (OSError, subprocess.SubprocessError):
        return None, None


def _git(*arguments: str) -> list[str]:
    command = ["git", "--no-optional-locks", "-C", str(CODE), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=30)
    return done.stdout.splitlines()


@cache
def _packages() -> dict[str, str]:
    """Installed versions of the project's own dependencies, looked up once in a process."""
    project = CODE / "pyproject.toml"
    if not project.is_file():
        return {}
    content = tomllib.loads(project.read_text("utf-8"))
    versions = {}
    for requirement in content["project"]["dependencies"]:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        with suppress(metadata.PackageNotFoundError):  # an optional one on this machine
            versions[name] = metadata.version(name)
    return versions


def scrubbed(value: Json, keep: frozenset[str] = frozenset()) -> Json:
    """The same value with users, hosts, absolute paths and secrets taken out of its texts.

    Addresses of the settings are replaced by the names of the settings. Paths within the project
    become relative, others "(path)"; halves of surrogate pairs and control characters U+FFFD.

    Args:
        value: What JSON can hold.
        keep: Keys whose entries are no free text.
    """
    root = re.escape(str(ROOT))
    home = re.escape(str(Path.home()))
    paths = {
        r"[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]": "\N{REPLACEMENT CHARACTER}",
        r"file://": "",
        rf"{root}/": "",
        rf"{root}(?![\w.-])": ".",
        rf"{home}(?![\w.-])": "~",
        r"(?<![\w:/.~])(?:~|/[\w.@+-]+)(?:/[\w.@+-]+)+/?": _PATH,
        r"\b[A-Za-z]:\\\S+": _PATH,
    }
    # An address as a whole is replaced before parts of it are hidden.
    without_settings = _replaced(value, _addresses(), keep)
    return _replaced(hide_secrets(without_settings, keep), paths, keep)


def _addresses() -> dict[str, str]:
    """The name of each setting that has an address, by pattern."""
    names = {}
    for setting in _ADDRESS_SETTINGS:
        address = getattr(settings(), setting)
        if address:
            names[re.escape(address)] = setting.upper()
            names[re.escape(hide_secrets(address))] = setting.upper()
    return names


def without_addresses(value: Json) -> Json:
    """The same value with every URI replaced by "(address)".

    A server's name says whose it is, not what was run.
    """
    return _replaced(value, {r"\b[\w+]+://\S+": "(address)"})


def _replaced(value: Json, patterns: dict[str, str], keep: frozenset[str] = frozenset()) -> Json:
    """The value with each pattern replaced in its texts, one pattern after the other."""
    if isinstance(value, str):
        for pattern, replacement in patterns.items():
            value = re.sub(pattern, replacement, value)
        return value
    if isinstance(value, list):
        return [_replaced(item, patterns, keep) for item in value]
    if isinstance(value, dict):
        replaced = {}
        for key, item in value.items():
            replaced[key] = item if key in keep else _replaced(item, patterns, keep)
        return replaced
    return value


def public_parameters(notebook: Path) -> list[str]:
    """The names that a notebook's cell `parameters` declares.

    Those whose comment begins with `private` are left out.
    """
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    names = []
    for cell in cells:
        if "parameters" in cell["metadata"].get("tags", []):
            source = "".join(cell["source"])
            names += _public_names(source)
    return names


def _public_names(source: str) -> list[str]:
    names = []
    for line in source.splitlines():
        match = re.match(r"(\w+) = .*?(?:# *(.*))?$", line)
        comment = match[2] if match else None
        if match and not (comment or "").startswith("private"):
            names.append(match[1])
    return names
