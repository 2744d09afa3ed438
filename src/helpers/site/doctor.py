"""Says what a run will use and why, what is missing, and the line that mends it.

python -m helpers.site.doctor [--install] [--browser]
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from helpers import datasets, engine_install, registry, services
from helpers.engine_install import GIB
from helpers.settings import BUILD, NOTEBOOKS, ROOT, SettingsError, profile_model, public, settings, told
from helpers.site import parameters

DISK_NEEDED = 12 * GIB
"""Bytes that engine, weights and indexes of the laptop profile take together, with room."""


ENCODERS = ("encoder", "reranker_encoder", "cross_encoder", "reranker")
"""The notebooks' parameters that name an encoder."""


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
    memory = psutil.virtual_memory().total / GIB
    free = shutil.disk_usage(ROOT).free
    uses = f"Python {platform.python_version()}, {cores} cores, {memory:.0f} GiB memory, {free / GIB:.0f} GiB disk"
    mend = "" if free > DISK_NEEDED else f"free disk: {DISK_NEEDED / GIB:.0f} GiB are needed at first set-up"
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
    engine, why = engine_install.choose_engine(model)
    mend = "" if engine_install.installed(engine) else "make setup"
    return Finding("LLM", f"{model} by embedded {engine} ({why})", mend)


def _parameters() -> list[dict[str, Any]]:
    """What this profile gives each notebook, its own defaults included."""
    paths = sorted(NOTEBOOKS.glob("*.ipynb"))
    return [parameters.declared(path) | parameters.parameters(path.stem, settings().profile) for path in paths]


def _encoders() -> Finding:
    named = {values[name] for values in _parameters() for name in ENCODERS if values.get(name)}
    hub = sorted(name for name in named if f"models/{name}/model.onnx" not in registry.registry())
    if not hub:
        return Finding("encoders", ", ".join(sorted(named)) or "none")
    mend = "" if importlib.util.find_spec("sentence_transformers") else "pip install '.[encoders]'"
    return Finding("encoders", f"{', '.join(hub)} from a hub", mend)


def _adapters() -> Finding:
    bases = {values["small_model"] for values in _parameters() if values.get("lora_steps")}
    bases |= {values["finetune"]["base"] for values in _parameters() if "finetune" in values}
    if not bases:
        return Finding("adapters", "none: this profile trains no model")
    uses = f"LoRA adapters of {', '.join(sorted(bases))}, trained by the notebooks"
    s = settings()
    engine, why = engine_install.choose_engine(min(bases))
    if engine != "vllm":
        return Finding("adapters", uses, f"{engine} trains and serves none ({why}): set LLM_ENGINE=vllm")
    if not s.llm_base_url:
        return Finding("adapters", f"{uses} and served by embedded vLLM")
    try:
        cards = services.served(s.llm_base_url, s.llm_api_key.get_secret_value() if s.llm_api_key else "none")
    except services.ServiceError as error:
        return Finding("adapters", uses, str(error))
    served = {card["id"] for card in cards}
    modules = [f"{path.name}={path}" for path in _trained(bases) if path.name not in served]
    if not modules and bases <= served:
        return Finding("adapters", f"{uses} and served at {s.llm_base_url} (LLM_BASE_URL)")
    mend = [f"serve {name} at {s.llm_base_url} with vLLM's --enable-lora" for name in sorted(bases - served)]
    if modules:
        mend.append(f"start vLLM there with --enable-lora --lora-modules {' '.join(modules)}")
    return Finding("adapters", uses, "; ".join(mend))


def _trained(bases: set[str]) -> list[Path]:
    """Folders of the adapters of these models that this machine has trained."""
    from helpers import lora, training  # noqa: PLC0415  # a second to import, needed only with a server of one's own

    logs = sorted(lora.ADAPTERS.glob(f"[!.]*/{training.LOG}"))
    return [log.parent for log in logs if json.loads(log.read_text(encoding="utf-8"))["base"] in bases]


def _models() -> Finding:
    names = [n for n, e in registry.registry().items() if e.kind == "model"]
    missing = [n for n in names if not (datasets.RAW / n).exists()]
    here = f"{len(names) - len(missing)} of {len(names)} weights are here"
    return Finding("weights", here, "make data (or leave it: each is fetched on first need)" if missing else "")


def _data() -> Finding:
    s = settings()
    names = [n for n, e in registry.registry().items() if e.kind == "data"]
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
    for part in (_machine, _profile, _graph, _llm, _encoders, _adapters, _models, _data, _browser):
        try:
            found.append(part())
        except (SettingsError, datasets.DataError, engine_install.EngineError) as error:
            found.append(Finding(part.__name__.strip("_"), "cannot be told", str(error)))
    return [Finding(*public(list(astuple(finding)))) for finding in found]


def main(arguments: list[str] | None = None) -> int:
    """The command line. Exit code 1 when the settings cannot be used."""
    parser = argparse.ArgumentParser(prog="python -m helpers.site.doctor", description=__doc__)
    parser.add_argument("--install", action="store_true", help="install the LLM engine that the settings ask for")
    parser.add_argument("--browser", action="store_true", help="install Chromium for the tests, if there is none")
    options = parser.parse_args(arguments)
    console = Console()
    try:
        s = settings()
        if options.install and not s.llm_base_url:
            engine_install.install_chosen(profile_model(s.profile), console.print)
        if options.browser:
            install_browser(console.print)
    except (SettingsError, engine_install.EngineError, RuntimeError) as error:
        console.print(str(error), markup=False, style="red")
        return 1
    if options.install or options.browser:
        return 0
    table = Table(
        "part", "what will be used, and why", "what is missing, and what mends it", title=f"doctor: {BUILD.parent.name}"
    )
    for finding in findings():
        style = "yellow" if finding.mend else "green"
        # as it is written: `.[encoders]` is no markup
        table.add_row(*map(escape, (finding.part, finding.uses, finding.mend or "-")), style=style)
    console.print(table)
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
