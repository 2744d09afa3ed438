"""What a run was made with and on: code, machine, packages. It tells what was run, never whose machine it was."""

import json
import os
import platform
import re
import subprocess
import tomllib
from contextlib import suppress
from functools import reduce
from importlib import metadata
from pathlib import Path
from typing import Any, TypeAlias

import psutil

from resources.settings import ROOT, hide_secrets, settings

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

CODE = (
    Path(__file__).resolve().parents[2]
)  # where the code lies, which is not ROOT if `MEDRAG_ROOT` moved that


def machine() -> dict[str, Any]:
    """The code's commit, and the machine and packages that run it. Outside a clone, commit and dirty are None."""
    commit, dirty = _git()
    affinity = getattr(os, "sched_getaffinity", None)
    info = Path("/proc/cpuinfo")
    cpu = re.search(
        r"^model name\s*:\s*(.+)$", info.read_text("utf-8") if info.is_file() else "", re.M
    )
    return {
        "commit": commit,
        "dirty": dirty,
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cpu": cpu[1] if cpu else platform.processor() or "unknown",
        "cores": len(affinity(0)) if affinity else (psutil.cpu_count() or 1),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "packages": _packages(),
    }


def _git() -> tuple[str | None, bool | None]:
    def git(*arguments: str) -> list[str]:
        command = ["git", "--no-optional-locks", "-C", str(CODE), *arguments]
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=30
        ).stdout.splitlines()

    try:
        top, commit = git("rev-parse", "--show-toplevel", "HEAD")
        # a copy that lies inside some other repository must not be given that one's commit
        return (
            (commit, bool(git("status", "--porcelain")))
            if Path(top).resolve() == CODE
            else (None, None)
        )
    except (OSError, subprocess.SubprocessError):
        return None, None


def _packages() -> dict[str, str]:
    """Installed versions of the project's own dependencies."""
    project = CODE / "pyproject.toml"
    wanted = (
        tomllib.loads(project.read_text("utf-8"))["project"]["dependencies"]
        if project.is_file()
        else []
    )
    versions = {}
    for requirement in wanted:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        with suppress(metadata.PackageNotFoundError):  # an optional one on this machine
            versions[name] = metadata.version(name)
    return versions


def scrubbed(value: Json, keep: frozenset[str] = frozenset()) -> Json:
    """The same value with users, hosts, absolute paths and secrets taken out of its texts.

    Addresses of the settings are replaced by what they are, paths within the project made relative, others "(path)";
    halves of surrogate pairs and control characters become U+FFFD. Entries of the keys `keep` are no free text.
    """
    settled = {
        name.upper(): getattr(settings(), name)
        for name in ("data_mirror", "neo4j_uri", "llm_base_url")
    }
    addresses = {
        re.escape(way): name for name, of in settled.items() if of for way in (of, hide_secrets(of))
    }
    paths = {
        r"[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]": "\N{REPLACEMENT CHARACTER}",
        r"file://": "",
        re.escape(f"{ROOT}/"): "",
        rf"{re.escape(str(ROOT))}(?![\w.-])": ".",
        rf"{re.escape(str(Path.home()))}(?![\w.-])": "~",
        r"(?<![\w:/.~])(?:~|/[\w.@+-]+)(?:/[\w.@+-]+)+/?": "(path)",
        r"\b[A-Za-z]:\\\S+": "(path)",
    }
    # an address as a whole, before parts of it are hidden
    return _replaced(hide_secrets(_replaced(value, addresses, keep), keep), paths, keep)


def without_addresses(value: Json) -> Json:
    """The same value with every URI replaced by "(address)": a server's name says whose it is, not what was run."""
    return _replaced(value, {r"\b[\w+]+://\S+": "(address)"})


def _replaced(value: Json, patterns: dict[str, str], keep: frozenset[str] = frozenset()) -> Json:
    """The value with each pattern replaced in its texts, one pattern after the other."""
    if isinstance(value, str):
        return reduce(
            lambda text, pattern: re.sub(pattern, patterns[pattern], text), patterns, value
        )
    if isinstance(value, list):
        return [_replaced(item, patterns, keep) for item in value]
    if isinstance(value, dict):
        return {
            key: item if key in keep else _replaced(item, patterns, keep)
            for key, item in value.items()
        }
    return value


def public_parameters(notebook: Path) -> list[str]:
    """The names that a notebook's cell `parameters` declares, without those whose comment begins with `private`."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    sources = [
        "".join(cell["source"])
        for cell in cells
        if "parameters" in cell["metadata"].get("tags", [])
    ]
    assigned = (
        re.match(r"(\w+) = .*?(?:# *(.*))?$", line)
        for source in sources
        for line in source.splitlines()
    )
    return [found[1] for found in assigned if found and not (found[2] or "").startswith("private")]
