"""Training as a process in the LLM engine's environment (the notebooks' has no torch)."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from resources import engine_install, services
from resources.engine_install import EngineError
from resources.settings import LOGS
from resources.supervisor import say

CHILD = Path(__file__).with_name("training_child.py")


def prepare(base: str) -> None:
    """Install what training a model needs.

    Raises:
        EngineError: This machine's LLM engine has no torch, or cannot be installed.
    """
    engine, why = engine_install.choose_engine(base)
    if engine != "vllm":
        raise EngineError(
            "Training needs torch and PEFT, of vLLM's environment; this machine uses "
            f"{engine} ({why}). Set LLM_ENGINE=vllm, or train on a machine that runs vLLM."
        )
    engine_install.install("vllm", say)


def run(
    script: Path, job: Mapping[str, Any], out: Path, *, doing: str, total: int, bar: bool = True
) -> list[dict[str, Any]]:
    """Run `main(job, out, say)` of a script by `training_child.py`.

    Args:
        script: Defines `main`.
        job: What it is to do, as JSON can hold it, with the model as `base`.
        out: The folder that it writes to.
        doing: Says in the progress bar, and in an error, what it does.
        total: Steps that it takes.
        bar: Whether to show a progress bar.

    Returns:
        What it said, the summary last.

    Raises:
        EngineError: It fails; the message has the last lines of its log.
    """
    free_gpu()
    LOGS.mkdir(parents=True, exist_ok=True)
    log = LOGS / f"{script.stem}.log"
    job_file = out.with_name("job.json")
    job_file.write_text(json.dumps(job), encoding="utf-8")
    python = str(engine_install.engine_python("vllm"))
    # -P: the modules beside the script are not importable there, for PEFT may import `datasets`
    command = [python, "-P", str(CHILD), str(script), str(job_file), str(out)]
    lines: list[dict[str, Any]] = []
    with log.open("ab") as errors, tqdm(total=total, desc=doing, disable=not bar) as progress:
        log_start = errors.tell()
        # it ends when its stdin closes, also if this process is killed
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=_environment(job["base"]),
        )
        try:
            assert process.stdout is not None
            for text in process.stdout:
                lines.append(json.loads(text))
                progress.update(lines[-1].get("step", progress.n) - progress.n)
            process.wait()
        finally:
            process.kill()
            process.wait()
    if process.returncode or not lines or not lines[-1].pop("done", False):
        tail = log.read_bytes()[log_start:].decode(errors="replace").splitlines()[-8:]
        shown = "\n".join(tail)
        raise EngineError(
            f"Could not {doing} with {job['base']}; the process ended with code "
            f"{process.returncode}:\n{shown}\nThe whole output is in {log}. With too little "
            "memory, take a smaller base, batch or max_tokens."
        )
    return lines


def free_gpu() -> None:
    """End the embedded LLM servers, which hold a GPU's memory; they start anew when asked again."""
    if engine_install.has_gpu():
        for name in services.stop("llm"):
            say(f"The GPU is needed for training: {name} was ended, and starts anew when needed.")


def _environment(base: str) -> dict[str, str]:
    """Return the environment of a training; a base that lies here needs no hub."""
    environment = {**os.environ, **engine_install.KEEP_MEMORY}
    if Path(base).exists():
        environment |= {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    return environment
