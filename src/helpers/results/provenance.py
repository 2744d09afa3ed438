"""What a run was made with and on: code, machine, packages. It tells what was run, never whose machine it was."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import tomllib
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import TypeAlias

import psutil
from pydantic import BaseModel, ConfigDict

from helpers.settings import ROOT, public, settings

Json: TypeAlias = "str | int | float | bool | list[Json] | dict[str, Json] | None"

CODE = Path(__file__).resolve().parents[3]
"""Where the code lies, which is not ROOT if `MEDRAG_ROOT` moved that."""

_ADDRESS = re.compile(r"\b[\w+]+://\S+")


class Machine(BaseModel):
    """The code's commit, and the machine and packages that ran it."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    commit: str | None
    dirty: bool | None
    python: str
    platform: str
    cpu: str
    cores: int
    memory_gb: float
    packages: dict[str, str]


def machine() -> Machine:
    """This machine as it is now. Without git, or outside a clone, commit and dirty are None."""
    commit, dirty = _git()
    affinity = getattr(os, "sched_getaffinity", None)
    return Machine(
        commit=commit,
        dirty=dirty,
        python=platform.python_version(),
        platform=f"{platform.system()} {platform.machine()}",
        cpu=_cpu(),
        cores=len(affinity(0)) if affinity else (psutil.cpu_count() or 1),
        memory_gb=round(psutil.virtual_memory().total / 1e9, 1),
        packages=_packages(),
    )


def scrubbed(value: Json, keep: frozenset[str] = frozenset()) -> Json:
    """The same value with users, hosts, absolute paths and secrets taken out of its texts.

    Addresses of the settings are replaced by what they are, paths within the project are made relative, other absolute
    paths become "(path)". Entries named like a secret are blanked. Halves of surrogate pairs, which no file can hold,
    and control characters, which a terminal obeys, become U+FFFD.

    Args:
        value: as JSON would hold it.
        keep: keys whose entries are no free text and stay as they are.
    """
    addresses, paths = _addresses(), _paths()

    def named(text: str) -> str:
        for address, name in addresses.items():
            text = text.replace(address, name)
        return text

    def without_paths(text: str) -> str:
        for pattern, instead in paths:
            text = pattern.sub(instead, text)
        return text

    # an address as a whole, before parts of it are hidden
    return _in_texts(without_paths, public(_in_texts(named, value, keep), keep), keep)


def without_addresses(value: Json) -> Json:
    """The same value with every URI replaced by "(address)": a server's name says whose it is, not what was run."""
    return _in_texts(lambda text: _ADDRESS.sub("(address)", text), value)


def _in_texts(change: Callable[[str], str], value: Json, keep: frozenset[str] = frozenset()) -> Json:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_in_texts(change, item, keep) for item in value]
    if isinstance(value, dict):
        return {key: item if key in keep else _in_texts(change, item, keep) for key, item in value.items()}
    return value


def _addresses() -> dict[str, str]:
    """The addresses of the settings, as they are set and as messages show them, and their variables."""
    named = {name: getattr(settings(), name) for name in ("data_mirror", "neo4j_uri", "llm_base_url")}
    return {way: name.upper() for name, value in named.items() if value for way in (value, public(value))}


def _paths() -> list[tuple[re.Pattern[str], str]]:
    """Patterns of paths, and of what is no text, and what stands in their place, in the order in which they apply."""
    rules = [
        (r"[\0-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}"),
        (r"file://", ""),
        (re.escape(f"{ROOT}/"), ""),
        (rf"{re.escape(str(ROOT))}(?![\w.-])", "."),
        (rf"{re.escape(str(Path.home()))}(?![\w.-])", "~"),
        (r"(?<![\w:/.~])(?:~|/[\w.@+-]+)(?:/[\w.@+-]+)+/?", "(path)"),
        (r"\b[A-Za-z]:\\\S+", "(path)"),
    ]
    return [(re.compile(pattern), instead) for pattern, instead in rules]


def _git() -> tuple[str | None, bool | None]:
    def git(*arguments: str) -> list[str]:
        command = ["git", "--no-optional-locks", "-C", str(CODE), *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=30).stdout.splitlines()

    try:
        top, commit = git("rev-parse", "--show-toplevel", "HEAD")
        # a copy that lies inside some other repository must not be given that one's commit
        return (commit, bool(git("status", "--porcelain"))) if Path(top).resolve() == CODE else (None, None)
    except (OSError, subprocess.SubprocessError):
        return None, None


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    names = re.findall(r"^model name\s*:\s*(.+)$", info.read_text("utf-8"), re.M) if info.is_file() else []
    return names[0] if names else platform.processor() or "unknown"


def _packages() -> dict[str, str]:
    """Installed versions of the project's own dependencies."""
    project = CODE / "pyproject.toml"
    wanted = tomllib.loads(project.read_text("utf-8"))["project"]["dependencies"] if project.is_file() else []
    versions = {}
    for requirement in wanted:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # an optional one on this machine
    return versions


def public_parameters(notebook: Path) -> list[str]:
    """The names that a notebook's cell `parameters` declares, without those whose comment begins with `private`."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if "parameters" in cell["metadata"].get("tags", [])]
    lines = [line for source in sources for line in source.splitlines()]
    assigned = (re.match(r"(\w+) = .*?(?:# *(.*))?$", line) for line in lines)
    return [found[1] for found in assigned if found and not (found[2] or "").startswith("private")]
