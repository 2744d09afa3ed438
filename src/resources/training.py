"""Training as a process in the LLM engine's environment (the notebooks' has no torch)."""

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tqdm import tqdm

from resources import engine_install
from resources.engine_install import EngineError
from resources.settings import LOGS
from resources.supervisor import say

CHILD = Path(__file__).with_name("training_child.py")


def prepare(base: str) -> None:
    """Install what training a model needs; EngineError if this machine's LLM engine has no torch."""
    engine, why = engine_install.choose_engine(base)
    if engine != "vllm":
        found = f"Training needs torch and PEFT, of vLLM's environment; this machine uses {engine} ({why})"
        raise EngineError(f"{found}. Set LLM_ENGINE=vllm, or train on a machine that runs vLLM.")
    engine_install.install("vllm", say)


def run(
    script: Path,
    job: Mapping[str, Any],
    out: Path,
    *,
    doing: str,
    total: int,
    unit: str = "step",
    bar: bool = True,
) -> list[dict[str, Any]]:
    """Run `main(job, out, say)` of a script by `training_child.py`; what it said, the summary last; `total` steps."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path, described = LOGS / f"{script.stem}.log", out.with_name("job.json")
    described.write_text(json.dumps(job), encoding="utf-8")
    # -P: the modules beside the script are not importable there, for `datasets` is a package that PEFT may import
    command = [
        str(engine_install.engine_python("vllm")),
        "-P",
        str(CHILD),
        str(script),
        str(described),
        str(out),
    ]
    quiet = (
        {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        if Path(job["base"]).exists()
        else {}
    )
    lines: list[dict[str, Any]] = []
    with (
        path.open("ab") as errors,
        tqdm(total=total, desc=doing, unit=unit, disable=not bar) as progress,
    ):
        start = errors.tell()
        env = {**os.environ, **engine_install.KEEP_MEMORY, **quiet}
        # it ends when its stdin closes, also if this process is killed
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=env
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
        tail = "\n".join(path.read_bytes()[start:].decode(errors="replace").splitlines()[-8:])
        raise EngineError(
            f"Could not {doing} with {job['base']}; the process ended with code {process.returncode}:\n{tail}\n"
            f"The whole output is in {path}. With too little memory, take a smaller base, batch or max_tokens."
        )
    return lines
