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
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from resources import datasets, engine_install, network, parameters, registry, services
from resources.engine_install import GIB
from resources.llm_servers import llm_servers
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

DISK_NEEDED = 12
"""GiB that engine, weights and indexes of the laptop profile take together, with room."""
ENCODERS = ("encoder", "reranker_encoder", "cross_encoder", "reranker")
"""Parameters that name an encoder."""
GET_CHROMIUM = "Install it (Debian: apt-get install chromium), or set CHROMIUM to its path."
REQUIRED = ("graph", "LLM")
"""Parts without which no notebook runs: `make doctor` fails if one of them is missing."""


class Finding(NamedTuple):
    """One part of the set-up."""

    part: str
    uses: str
    """What will be used, and why."""
    hint: str
    """What is missing, and the line that gets it; empty when nothing is missing."""


def browser() -> str | None:
    """Return the path of a Chromium that the tests can drive.

    It is `CHROMIUM`, or else the system's, or else playwright's own.
    """
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
    memory = psutil.virtual_memory().total / GIB
    free = shutil.disk_usage(ROOT).free / GIB
    uses = (
        f"Python {platform.python_version()}, {os.cpu_count() or 1} cores, {memory:.0f} GiB memory"
    )
    hint = "" if free > DISK_NEEDED else f"free disk: {DISK_NEEDED} GiB are needed at first set-up"
    return f"{uses}, {free:.0f} GiB disk", hint


def _graph() -> tuple[str, str]:
    s = settings()
    if not s.neo4j_uri:
        return "embedded ArcadeDB over Bolt on loopback (NEO4J_URI is not set)", ""
    uses = f"{s.neo4j_uri}, database {s.neo4j_database} (NEO4J_URI)"
    if not s.neo4j_password:
        return uses, "set NEO4J_PASSWORD"
    try:
        # the driver is only needed where a server is named
        from helpers import graph  # noqa: PLC0415

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
    hint = "" if engine_install.installed(engine) else "make setup"
    return f"{model} by embedded {engine} ({why})", hint


def _parameters() -> list[dict[str, Any]]:
    """Return what this profile gives each notebook, its own defaults included."""
    return [
        parameters.declared(path) | parameters.parameters(path.stem, settings().profile)
        for path in _notebooks()
    ]


def _notebooks() -> list[Path]:
    return sorted(NOTEBOOKS.glob("*.ipynb"))


ROLES = {
    "llm_model": "answerer",
    "large_model": "large",
    "second_model": "second",
    "larger_model": "larger",
    "small_model": "small",
    "second_small_model": "second small",
    "judge_model": "judge",
    "teacher_model": "teacher",
}
"""Parameters that name a language model, and what the model does."""


def _models_by_role() -> dict[tuple[str, str], list[str]]:
    """Return the notebooks in which each model of this profile has each role."""
    models: dict[tuple[str, str], list[str]] = {}
    for path, values in zip(_notebooks(), _parameters(), strict=True):
        for name, role in ROLES.items():
            if values.get(name):
                models.setdefault((role, values[name]), []).append(path.stem[:2])
        if base := values.get("finetune", {}).get("base"):
            models.setdefault(("fine-tuned", base), []).append(path.stem[:2])
    return models


def _roles() -> list[Finding]:
    """Return whether each language model of this profile is served, by its role."""
    found = []
    for (role, model), notebooks in _models_by_role().items():
        why = services.why_not_served(model, exact=role != "answerer")
        uses = f"{model}, in {', '.join(notebooks)}"
        if not why:
            uses += ": served" if llm_servers() else ": by the embedded engine"
        hint = f"not run: {hide_secrets(why)}" if why else ""
        found.append(Finding(f"role: {role}", hide_secrets(uses), hint))
    return found


def _encoders() -> tuple[str, str]:
    encoders: set[str] = set()
    for values in _parameters():
        encoders |= {values[name] for name in ENCODERS if values.get(name)}
    entries = registry.registry()
    hub = sorted(name for name in encoders if f"models/{name}/model.onnx" not in entries)
    if not hub:
        return ", ".join(sorted(encoders)) or "none", ""
    is_installed = importlib.util.find_spec("sentence_transformers")
    return f"{', '.join(hub)} from a hub", "" if is_installed else "pip install '.[encoders]'"


def _adapters() -> tuple[str, str]:
    bases = _adapter_bases()
    if not bases:
        return "none: this profile trains no model", ""
    uses = f"LoRA adapters of {', '.join(sorted(bases))}, trained by the notebooks"
    engine, why = engine_install.choose_engine(min(bases))
    if engine != "vllm":
        hint = (
            f"{engine} trains and serves none ({why}), so stored replies are shown; "
            "LLM_ENGINE=vllm does"
        )
        return uses, hint
    base_url = settings().llm_base_url
    if not base_url:
        return f"{uses} and served by embedded vLLM", ""
    return _adapters_of_server(uses, bases, base_url)


def _adapter_bases() -> set[str]:
    """Return the models of which this profile trains adapters."""
    all_parameters = _parameters()
    adapted = [values for values in all_parameters if values.get("lora_steps")]
    bases = {values["small_model"] for values in adapted}
    bases |= {values["second_small_model"] for values in adapted} - {""}
    return bases | {values["finetune"]["base"] for values in all_parameters if "finetune" in values}


def _adapters_of_server(uses: str, bases: set[str], base_url: str) -> tuple[str, str]:
    """Return `uses` and what the reader's own server lacks of these models and their adapters."""
    try:
        cards = services.served(llm_servers()[0])
    except services.ServiceError as error:
        return uses, str(error)
    served = {card["id"] for card in cards}
    hints = [
        f"serve {name} at {base_url} with vLLM's --enable-lora" for name in sorted(bases - served)
    ]
    adapters = _trained_adapters(bases)
    modules = [f"{path.name}={path}" for path in adapters if path.name not in served]
    if modules:
        hints.append(f"start vLLM there with --enable-lora --lora-modules {' '.join(modules)}")
    if hints:
        return uses, "; ".join(hints)
    return f"{uses} and served at {base_url} (LLM_BASE_URL)", ""


def _trained_adapters(bases: set[str]) -> list[Path]:
    """Return the folders of the adapters that were trained of these models."""
    # a second to import, needed only with a server of one's own
    from resources import artifacts, lora  # noqa: PLC0415

    folders = []
    for log in sorted(lora.ADAPTERS.glob(f"[!.]*/{artifacts.LOG}")):
        base = json.loads(log.read_text(encoding="utf-8"))["base"]
        if base in bases:
            folders.append(log.parent)
    return folders


def _browser() -> tuple[str, str]:
    chromium = browser()
    if chromium:
        return chromium, ""
    return "none, needed by `make test` only", "apt-get install chromium"


def _proxy() -> tuple[str, str]:
    names = [name for name in os.environ if name.lower() in network.PROXY_VARIABLES]
    return ", ".join(sorted(names)) or "none", network.proxy_problem()


def _files(kind: str) -> tuple[str, str]:
    """Return how many files of a kind are present, and the hint to fetch the rest."""
    entries = registry.registry().items()
    names = [name for name, entry in entries if entry.kind == kind]
    missing = [name for name in names if not (datasets.RAW / name).exists()]
    hint = ""
    if missing:
        hint = "make data (or leave it: each is fetched on first need)"
    if kind == "model" and missing:
        hint = f"not here: {', '.join(missing)}; {hint}"
    return f"{len(names) - len(missing)} of {len(names)}", hint


def _weights() -> tuple[str, str]:
    count, hint = _files("model")
    return f"{count} weights are here", hint


def _data() -> tuple[str, str]:
    count, hint = _files("data")
    mirror = settings().data_mirror
    source = "the sources (DATA_MIRROR is not set)"
    if mirror:
        source = f"DATA_MIRROR={mirror}, then the sources"
    return f"{count} files are here; the rest from {source}", hint


def _profile() -> tuple[str, str]:
    return f"{settings().profile} (PROFILE is smoke, laptop or paper)", ""


PARTS: dict[str, Callable[[], tuple[str, str]]] = {
    "machine": _machine,
    "profile": _profile,
    "graph": _graph,
    "LLM": _llm,
    "encoders": _encoders,
    "adapters": _adapters,
    "proxy": _proxy,
    "weights": _weights,
    "data": _data,
    "browser": _browser,
}
"""What examines each part of the set-up; it returns what will be used, and the hint."""


def findings() -> list[Finding]:
    """Return what was found of each part; one that cannot be examined says why."""
    found = []
    for name, examine in PARTS.items():
        try:
            uses, hint = examine()
        except PublicError as error:
            uses, hint = "cannot be told", str(error)
        found.append(Finding(*hide_secrets([name, uses, hint])))
        if name == "LLM":
            found += _roles()
    return found


def _table(found: Sequence[Finding]) -> Table:
    columns = ("part", "what will be used, and why", "what is missing, and what mends it")
    table = Table(title=f"doctor: {BUILD.parent.name}")
    for column in columns:
        table.add_column(column, overflow="fold")
    for part, uses, hint in found:
        # literally: `.[encoders]` is no markup
        cells = [escape(text) for text in (part, uses, hint or "-")]
        table.add_row(*cells, style="yellow" if hint else "green")
    return table


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
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
    found = findings()
    console.print(_table(found))
    required = [finding for finding in found if finding.part in REQUIRED]
    return int(any(finding.hint for finding in required))


if __name__ == "__main__":
    sys.exit(run_command_line(main))
