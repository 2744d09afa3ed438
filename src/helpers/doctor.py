"""Says what a run will use and why, what is missing, and the line that mends it.

python -m helpers.doctor [--install] [--browser]
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil
from rich.console import Console
from rich.table import Table

from helpers import datasets, engines, services
from helpers.settings import BUILD, ROOT, SettingsError, profile_model, settings

DISK_NEEDED = 12 * engines.GIB
"""Bytes that engine, weights and indexes of the laptop profile take together, with room."""


@dataclass(frozen=True)
class Finding:
    """One part of the set-up: what will be used and why; `mend` is empty when nothing is missing."""

    part: str
    uses: str
    mend: str = ""


def browser() -> str | None:
    """Path of a Chromium that the tests can drive: `CHROMIUM`, else the system's, else playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    system = next((path for name in names if (path := shutil.which(name))), None)
    return os.environ.get("CHROMIUM") or system or _playwrights()


def _playwrights() -> str | None:
    if importlib.util.find_spec("playwright") is None:
        return None
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # it comes with the tests only

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def install_browser(say: Callable[[str], None]) -> None:
    """Install Chromium, by the system's package manager where that is allowed, else by playwright.

    Raises:
        RuntimeError: neither way worked.
    """
    if browser():
        return
    ways: list[list[list[str]]] = []
    if shutil.which("apt-get") and os.geteuid() == 0:
        ways.append([["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]])
    ways.append([[sys.executable, "-m", "playwright", "install", "chromium"]])
    for commands in ways:
        say(f"Installing Chromium for the tests ({commands[-1][0]}) ...")
        done = [subprocess.run(c, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False) for c in commands]
        if done[-1].returncode == 0:
            return
    raise RuntimeError(
        "The tests of the book need Chromium. Install it (Debian: apt-get install chromium), or set "
        "CHROMIUM to its path."
    )


def _machine() -> Finding:
    cores = os.cpu_count() or 1
    memory = psutil.virtual_memory().total / engines.GIB
    free = shutil.disk_usage(ROOT).free
    uses = (
        f"Python {platform.python_version()}, {cores} cores, {memory:.0f} GiB memory, {free / engines.GIB:.0f} GiB disk"
    )
    mend = "" if free > DISK_NEEDED else f"free disk: {DISK_NEEDED / engines.GIB:.0f} GiB are needed at first set-up"
    return Finding("machine", uses, mend)


def _profile() -> Finding:
    return Finding("profile", f"{settings().profile} (PROFILE=smoke|laptop|paper)")


def _graph() -> Finding:
    s = settings()
    if s.neo4j_uri:
        mend = "" if s.neo4j_password else "set NEO4J_PASSWORD"
        mend = mend or _answers_bolt()
        if not mend and not s.neo4j_reader_user:
            mend = "for generated Cypher, a user without write rights: NEO4J_READER_USER and NEO4J_READER_PASSWORD"
        return Finding("graph", f"{s.neo4j_uri}, database {s.neo4j_database} (NEO4J_URI)", mend)
    return Finding("graph", "embedded ArcadeDB over Bolt on loopback (NEO4J_URI is not set)")


def _answers_bolt() -> str:
    from helpers import graph  # noqa: PLC0415  # the driver is only needed where a server is named

    try:
        graph.connect().close()
    except Exception as error:  # whatever is wrong is what the reader of this table wants to know
        return str(error)
    return ""


def _llm() -> Finding:
    s = settings()
    model = profile_model(s.profile)
    if s.llm_base_url:
        try:
            services.llm_endpoint(model)
        except services.ServiceError as error:
            return Finding("LLM", f"{s.llm_base_url} (LLM_BASE_URL)", str(error))
        return Finding("LLM", f"{model} at {s.llm_base_url} (LLM_BASE_URL)")
    if s.profile == "paper":
        return Finding("LLM", f"{model}", "the paper profile wants a server: set LLM_BASE_URL and LLM_MODEL")
    engine, why = engines.choose_engine(model)
    mend = "" if engines.installed(engine) else "make setup"
    return Finding("LLM", f"{model} by embedded {engine} ({why})", mend)


def _models() -> Finding:
    names = [n for n, e in datasets.registry().items() if e.kind == "model"]
    missing = [n for n in names if not (datasets.RAW / n).exists()]
    here = f"{len(names) - len(missing)} of {len(names)} weights are here"
    return Finding("weights", here, "make data (or leave it: each is fetched on first need)" if missing else "")


def _data() -> Finding:
    s = settings()
    names = [n for n, e in datasets.registry().items() if e.kind == "data"]
    missing = [n for n in names if not (datasets.RAW / n).exists()]
    source = (
        f"DATA_MIRROR={s.data_mirror}, then the sources" if s.data_mirror else "the sources (DATA_MIRROR is not set)"
    )
    here = f"{len(names) - len(missing)} of {len(names)} files are here; the rest from {source}"
    return Finding("data", here, "make data (or leave it: each is fetched on first need)" if missing else "")


def _browser() -> Finding:
    path = browser()
    return Finding("browser", path or "none, needed by `make test` only", "" if path else "apt-get install chromium")


def findings() -> list[Finding]:
    """Each part of the set-up in turn; a part that cannot be examined says why."""
    found = []
    for part in (_machine, _profile, _graph, _llm, _models, _data, _browser):
        try:
            found.append(part())
        except (SettingsError, datasets.DataError, engines.EngineError) as error:
            found.append(Finding(part.__name__.strip("_"), "cannot be told", str(error)))
    return found


def main(arguments: list[str] | None = None) -> int:
    """The command line. Exit code 1 when the settings cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m helpers.doctor", description=__doc__)
    parser.add_argument("--install", action="store_true", help="install the LLM engine that the settings ask for")
    parser.add_argument("--browser", action="store_true", help="install Chromium for the tests, if there is none")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        s = settings()
        if options.install and not s.llm_base_url:
            engine, _ = engines.choose_engine(profile_model(s.profile))
            if not engines.installed(engine):
                engines.install(engine, console.print)
        if options.browser:
            install_browser(console.print)
    except (SettingsError, engines.EngineError, RuntimeError) as error:
        console.print(str(error), markup=False, style="red")
        return 1
    if options.install or options.browser:
        return 0
    table = Table(
        "part", "what will be used, and why", "what is missing, and what mends it", title=f"doctor: {BUILD.parent.name}"
    )
    for finding in findings():
        style = "yellow" if finding.mend else "green"
        table.add_row(finding.part, finding.uses, finding.mend or "-", style=style)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
