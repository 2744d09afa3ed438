"""Servers of others: chapters of the smoke profile, asked of vLLM, llama.cpp, transformers and a LiteLLM proxy.

`make test-interop` runs them. What ran with which goes to data/foreign_servers.json, which a page of the book shows.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from test_not_run import project  # noqa: F401  # a fixture

from evaluation import records
from resources import engine_install, engines, services
from resources.settings import BUILD, ROOT

# by a signal: a chapter that hangs fails alone, and the servers are ended
pytestmark = [pytest.mark.engine, pytest.mark.slow, pytest.mark.timeout(1800, method="signal")]
MODEL = "SmolLM2-135M-Instruct"
HUB_NAME = f"HuggingFaceTB/{MODEL}"
"""The name by which a server lists it that lists the hub's cache."""
KEY = "sk-only-on-loopback"
RESULTS = ROOT / "data" / "foreign_servers.json"
CHAPTERS = os.environ.get("CHAPTERS", "01_side_effects_forward 06_interactions_qa").split()
START_SECONDS = 300


@dataclass(frozen=True)
class Foreign:
    """A server of others.

    Attributes:
        package: The module that gives its version.
        command: Arguments after the interpreter; ``{weights}``, ``{gguf}`` and ``{port}`` are filled in.
        engine: The project's environment that has it; empty for one of its own.
        requirements: What that one has.
        model: The name that it gives the model; empty for `MODEL`.
        behind: The server that it passes requests on to.
        environment: Further variables, filled in like the arguments.
    """

    package: str
    command: Sequence[str]
    engine: engine_install.EngineName | None = None
    requirements: Sequence[str] = ()
    model: str = ""
    behind: str = ""
    environment: dict[str, str] = field(default_factory=dict)

    def python(self) -> Path:
        """The interpreter of its environment, which is made on first need."""
        if self.engine:
            engine_install.install(self.engine, print)
            return engine_install.engine_python(self.engine)
        folder = BUILD / f"interop-{self.package}"
        if not (folder / "bin" / "python").exists():
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q"]
            subprocess.run([*pip, *self.requirements], check=True)
        return folder / "bin" / "python"


FOREIGN = {
    "vLLM": Foreign(
        package="vllm",
        engine="vllm",
        command=[
            "-m",
            "vllm.entrypoints.openai.api_server",
            "--model={weights}",
            f"--served-model-name={MODEL}",
            "--host=127.0.0.1",
            "--port={port}",
            "--max-model-len=4096",
            "--max-num-seqs=8",
            "--dtype=bfloat16",
            "--enforce-eager",
            "--kv-cache-memory-bytes=536870912",
        ],
        environment={"HF_HUB_OFFLINE": "1", "VLLM_API_KEY": KEY, "VLLM_NO_USAGE_STATS": "1"},
    ),
    "llama.cpp": Foreign(
        package="xllamacpp",
        engine="llamacpp",
        command=[
            str(ROOT / "src" / "resources" / "llamacpp_server.py"),
            "--model={gguf}",
            f"--name={MODEL}",
            "--port={port}",
            "--context=4096",
            "--parallel=2",
            "--threads=1",
        ],
        environment={"LLAMACPP_API_KEY": KEY},
    ),
    "transformers serve": Foreign(
        package="transformers",
        engine="vllm",
        command=[
            "{bin}/transformers",
            "serve",
            HUB_NAME,
            "--host=127.0.0.1",
            "--port={port}",
        ],
        model=HUB_NAME,
        environment={"HF_HUB_OFFLINE": "1", "HF_HUB_CACHE": "{cache}"},
    ),
    "LiteLLM proxy": Foreign(
        package="litellm",
        requirements=["litellm[proxy]==1.80.10"],
        command=[
            "-m",
            "litellm.proxy.proxy_cli",
            "--config={config}",
            "--host=127.0.0.1",
            "--port={port}",
        ],
        behind="llama.cpp",
        environment={"LITELLM_MASTER_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    ),
}


@contextmanager
def running(name: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The address of a server that runs, and the name that it gives the model."""
    foreign = FOREIGN[name]
    if foreign.behind:
        with running(foreign.behind, folder) as (behind, model):
            config = folder / "litellm.yaml"
            params = {"model": f"openai/{model}", "api_base": behind, "api_key": KEY}
            config.write_text(
                json.dumps({"model_list": [{"model_name": MODEL, "litellm_params": params}]})
            )
            with _started(foreign, folder, {"config": str(config)}) as foreign_server:
                yield foreign_server
    else:
        with _started(foreign, folder, _weights(foreign, folder)) as foreign_server:
            yield foreign_server


def _weights(foreign: Foreign, folder: Path) -> dict[str, str]:
    """What the model is loaded from: a file for llama.cpp, or a folder, also as the hub's cache has it."""
    if foreign.engine == "llamacpp":
        source = engine_install.EMBEDDED_MODELS[MODEL].source
        return {"gguf": str(engines.datasets.fetch(source))}
    weights, _ = engines.weights_folder(MODEL, print)
    revision = "0" * 40
    cached = folder / "hub" / f"models--{HUB_NAME.replace('/', '--')}"
    (cached / "refs").mkdir(parents=True)
    (cached / "refs" / "main").write_text(revision)
    (cached / "snapshots").mkdir()
    shutil.copytree(weights, cached / "snapshots" / revision, copy_function=os.symlink)
    return {"weights": weights, "cache": str(folder / "hub")}


@contextmanager
def _started(foreign: Foreign, folder: Path, values: dict[str, str]) -> Iterator[tuple[str, str]]:
    port = services.free_port()
    python = foreign.python()
    values = values | {"port": str(port), "bin": str(python.parent)}
    arguments = [part.format(**values) for part in foreign.command]
    environment = {name: text.format(**values) for name, text in foreign.environment.items()}
    with (folder / f"{foreign.package}.log").open("wb") as log:
        process = subprocess.Popen(
            [str(python), *arguments],
            env=os.environ | environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            url = f"http://127.0.0.1:{port}/v1"
            _wait_for(url, process, Path(log.name))
            yield url, foreign.model.format(**values) or MODEL
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)


def _wait_for(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
        try:
            headers = {"Authorization": f"Bearer {KEY}"}
            if httpx.get(f"{url}/models", headers=headers, timeout=5).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(1)
    raise AssertionError(
        f"no answer within {START_SECONDS} s: {log.read_text(errors='replace')[-3000:]}"
    )


@dataclass(frozen=True)
class Server:
    """A server that runs: whose, where, and the name that it gives the model."""

    name: str
    url: str
    model: str


@pytest.fixture(scope="module", params=FOREIGN)
def server(request: pytest.FixtureRequest, tmp_path_factory: Any) -> Iterator[Server]:
    with running(request.param, tmp_path_factory.mktemp("server")) as (url, model):
        yield Server(request.param, url, model)


@pytest.mark.parametrize("chapter", CHAPTERS)
def test_a_chapter_completes_with_a_server_of_others(server, chapter, project):  # noqa: F811
    process = _run(chapter, project, server.url, server.model)
    assert process.returncode == 0, process.stderr[-3000:]
    _note(server.name, chapter, _take_record(chapter, project))


def _run(chapter: str, folder: Path, url: str, model: str) -> subprocess.CompletedProcess[str]:
    variables = {"PROFILE": "smoke", "LLM_BASE_URL": url, "LLM_API_KEY": KEY, "ANSWERS": "fresh"}
    variables |= {"LLM_MODEL": model if model != MODEL else "", "MEDRAG_ROOT": str(folder)}
    for store in (folder / "data").glob("derived/requests-fresh/*"):
        store.unlink()  # replies of the server before
    return subprocess.run(
        [sys.executable, "-m", "publish.run", chapter],
        env=os.environ | variables | {"PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )


def _take_record(chapter: str, folder: Path) -> records.Record:
    """The record of the last run, which is removed so that the next server's is alone."""
    (path,) = (folder / "_build" / "records").glob(f"smoke*/{chapter}.json")
    record = records.Record.model_validate_json(path.read_text())
    path.unlink()
    return record


def _note(name: str, chapter: str, record: records.Record) -> None:
    """Add what ran to the file that the book shows."""
    results: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    server = results.setdefault(name, {"chapters": {}})
    server["version"] = _version(FOREIGN[name])
    models = [m for m in record.provenance.models if m.engine not in ("encoder", "graph")]
    tokens = record.provenance.tokens
    server["chapters"][chapter] = {
        "requests": tokens["requests"],
        "notes": _without_version(models[0].version or "") if models else "",
    }
    RESULTS.write_text(json.dumps(dict(sorted(results.items())), indent=1) + "\n")


def _without_version(text: str) -> str:
    """What was not as it was meant: all but the engine's version."""
    return "; ".join(part for part in text.split("; ") if "request" in part or "repl" in part)


def _version(foreign: Foreign) -> str:
    code = "from importlib.metadata import packages_distributions, version; "
    code += f"print(version(packages_distributions()['{foreign.package}'][0]))"
    python = str(foreign.python())
    process = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return f"{foreign.package} {process.stdout.strip()}".strip()
