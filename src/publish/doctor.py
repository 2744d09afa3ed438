"""Says what a run will use and why, what is missing, and the line that mends it.

python -m publish.doctor [--install]
"""

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from resources import datasets, engine_install, network, parameters, registry, services
from resources.engine_install import GIB
from resources.settings import (
    BUILD,
    NOTEBOOKS,
    ROOT,
    PublicError,
    hide_secrets,
    profile_model,
    run_command_line,
    settings,
)

DISK_NEEDED = (
    12  # GiB that engine, weights and indexes of the laptop profile take together, with room
)
ENCODERS = (
    "encoder",
    "reranker_encoder",
    "cross_encoder",
    "reranker",
)  # parameters that name an encoder
GET_CHROMIUM = "Install it (Debian: apt-get install chromium), or set CHROMIUM to its path."
REQUIRED = ("graph", "LLM")
"""Parts without which no notebook runs: `make doctor` fails if one of them is missing."""


class Finding(NamedTuple):
    """One part of the set-up: what will be used and why; `mend` is empty when nothing is missing."""

    part: str
    uses: str
    mend: str


def browser() -> str | None:
    """Path of a Chromium that the tests can drive: `CHROMIUM`, else the system's, else playwright's own."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, names)), None)
    if found or importlib.util.find_spec("playwright") is None:
        return found
    from playwright.sync_api import sync_playwright  # noqa: PLC0415  # it comes with the tests only

    with sync_playwright() as playwright:
        path = playwright.chromium.executable_path
    return path if Path(path).exists() else None


def install_browser() -> int:
    """Install a Chromium if there is none; returns 0, or 1 if that failed."""
    if browser():
        return 0
    sys.stderr.write("Installing Chromium for the tests ...\n")
    playwright = [sys.executable, "-m", "playwright", "install", "chromium"]
    commands = [playwright]
    if os.geteuid() == 0 and shutil.which("apt-get"):
        commands = [["apt-get", "update", "-qq"], ["apt-get", "install", "-y", "-qq", "chromium"]]
    for command in commands:
        subprocess.run(command, capture_output=True, check=False)
    if browser():
        return 0
    sys.stderr.write(f"The tests of the book need Chromium. {GET_CHROMIUM}\n")
    return 1


def _machine() -> tuple[str, str]:
    memory, free = psutil.virtual_memory().total / GIB, shutil.disk_usage(ROOT).free / GIB
    uses = (
        f"Python {platform.python_version()}, {os.cpu_count() or 1} cores, {memory:.0f} GiB memory"
    )
    mend = "" if free > DISK_NEEDED else f"free disk: {DISK_NEEDED} GiB are needed at first set-up"
    return f"{uses}, {free:.0f} GiB disk", mend


def _graph() -> tuple[str, str]:
    s = settings()
    if not s.neo4j_uri:
        return "embedded ArcadeDB over Bolt on loopback (NEO4J_URI is not set)", ""
    uses = f"{s.neo4j_uri}, database {s.neo4j_database} (NEO4J_URI)"
    if not s.neo4j_password:
        return uses, "set NEO4J_PASSWORD"
    try:
        from helpers import graph  # noqa: PLC0415  # the driver is only needed where a server is named

        graph.connect().close()
    except Exception as error:  # whatever is wrong is what the reader of this table wants to know
        return uses, str(error)
    safer = "; for generated Cypher, a user without write rights (NEO4J_READER_USER) is safer"
    return uses + safer * (not s.neo4j_reader_user), ""


def _llm() -> tuple[str, str]:
    s = settings()
    model = profile_model(s.profile)
    if s.llm_base_url:
        try:
            services.llm_endpoint(model)
        except services.ServiceError as error:
            return f"{s.llm_base_url} (LLM_BASE_URL)", str(error)
        return f"{model} at {s.llm_base_url} (LLM_BASE_URL)", ""
    if s.profile == "paper":
        return model, "the paper profile wants a server: set LLM_BASE_URL and LLM_MODEL"
    engine, why = engine_install.choose_engine(model)
    return f"{model} by embedded {engine} ({why})", "" if engine_install.installed(
        engine
    ) else "make setup"


def _parameters() -> list[dict[str, Any]]:
    """What this profile gives each notebook, its own defaults included."""
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    return [
        parameters.declared(path) | parameters.parameters(path.stem, settings().profile)
        for path in paths
    ]


def _encoders() -> tuple[str, str]:
    named = {values[name] for values in _parameters() for name in ENCODERS if values.get(name)}
    hub = sorted(name for name in named if f"models/{name}/model.onnx" not in registry.registry())
    if not hub:
        return ", ".join(sorted(named)) or "none", ""
    there = importlib.util.find_spec("sentence_transformers")
    return f"{', '.join(hub)} from a hub", "" if there else "pip install '.[encoders]'"


def _adapters() -> tuple[str, str]:
    given, s = _parameters(), settings()
    bases = {values["small_model"] for values in given if values.get("lora_steps")}
    bases |= {values["finetune"]["base"] for values in given if "finetune" in values}
    if not bases:
        return "none: this profile trains no model", ""
    uses = f"LoRA adapters of {', '.join(sorted(bases))}, trained by the notebooks"
    engine, why = engine_install.choose_engine(min(bases))
    if engine != "vllm":
        return (
            uses,
            f"{engine} trains and serves none ({why}), so stored replies are shown; LLM_ENGINE=vllm does",
        )
    if not s.llm_base_url:
        return f"{uses} and served by embedded vLLM", ""
    from resources import artifacts, lora  # noqa: PLC0415  # a second to import, needed only with a server of one's own

    try:
        cards = services.served(
            s.llm_base_url, s.llm_api_key.get_secret_value() if s.llm_api_key else "none"
        )
    except services.ServiceError as error:
        return uses, str(error)
    served = {card["id"] for card in cards}
    logs = sorted(lora.ADAPTERS.glob(f"[!.]*/{artifacts.LOG}"))
    trained = [
        log.parent for log in logs if json.loads(log.read_text(encoding="utf-8"))["base"] in bases
    ]
    modules = [f"{path.name}={path}" for path in trained if path.name not in served]
    mend = [
        f"serve {name} at {s.llm_base_url} with vLLM's --enable-lora"
        for name in sorted(bases - served)
    ]
    mend += (
        [f"start vLLM there with --enable-lora --lora-modules {' '.join(modules)}"]
        if modules
        else []
    )
    return uses if mend else f"{uses} and served at {s.llm_base_url} (LLM_BASE_URL)", "; ".join(
        mend
    )


def _browser() -> tuple[str, str]:
    chromium = browser()
    return (
        chromium or "none, needed by `make test` only",
        "" if chromium else "apt-get install chromium",
    )


def _proxy() -> tuple[str, str]:
    names = [name for name in os.environ if name.lower() in network.PROXY_VARIABLES]
    return ", ".join(sorted(names)) or "none", network.proxy_problem()


def _fetched(kind: str, here: str) -> tuple[str, str]:
    there = [
        (datasets.RAW / name).exists()
        for name, entry in registry.registry().items()
        if entry.kind == kind
    ]
    mend = "" if all(there) else "make data (or leave it: each is fetched on first need)"
    return f"{sum(there)} of {len(there)} {here}", mend


def findings() -> list[Finding]:
    """Each part of the set-up in turn; a part that cannot be examined says why."""
    mirror = settings().data_mirror
    source = (
        f"DATA_MIRROR={mirror}, then the sources"
        if mirror
        else "the sources (DATA_MIRROR is not set)"
    )
    parts: dict[str, Callable[[], tuple[str, str]]] = {
        "machine": _machine,
        "profile": lambda: (f"{settings().profile} (PROFILE=smoke|laptop|paper)", ""),
        **{"graph": _graph, "LLM": _llm, "encoders": _encoders, "adapters": _adapters},
        "proxy": _proxy,
        "weights": lambda: _fetched("model", "weights are here"),
        "data": lambda: _fetched("data", f"files are here; the rest from {source}"),
        "browser": _browser,
    }
    found = []
    for name, part in parts.items():
        try:
            found.append((name, *part()))
        except PublicError as error:
            found.append((name, "cannot be told", str(error)))
    return [Finding(*hide_secrets([*finding])) for finding in found]


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m publish.doctor", description=__doc__)
    parser.add_argument(
        "--install", action="store_true", help="install the LLM engine that the settings ask for"
    )
    parser.add_argument(
        "--browser", action="store_true", help="install Chromium, for the tests of the book"
    )
    options, console, s = parser.parse_args(arguments), Console(), settings()
    if options.browser:
        return install_browser()
    if options.install:
        if not s.llm_base_url:
            engine_install.install_chosen(profile_model(s.profile), console.print)
        return 0
    columns = ("part", "what will be used, and why", "what is missing, and what mends it")
    table = Table(*columns, title=f"doctor: {BUILD.parent.name}")
    found = findings()
    for part, uses, mend in found:
        # literally: `.[encoders]` is no markup
        table.add_row(*map(escape, (part, uses, mend or "-")), style="yellow" if mend else "green")
    console.print(table)
    return int(any(finding.mend for finding in found if finding.part in REQUIRED))


if __name__ == "__main__":
    sys.exit(run_command_line(main))
