"""Training in the LLM engine's own environment, as a process of its own: the notebooks' environment has no torch.

`run` runs a script there, by way of `training_child.py`, and shows how far it is. `kept` gives what a training with the
same content left, and trains where there is none. What a training leaves is a folder of weights with their log.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from filelock import FileLock
from tqdm import tqdm

from helpers import datasets, engine_install
from helpers.engine_install import EngineError
from helpers.settings import LOGS

log = logging.getLogger(__name__)

T = TypeVar("T")

LOG = "training.json"
CHILD = Path(__file__).with_name("training_child.py")

# ------------------------------------------------------------------------------------------------------- the process


def prepare(base: str) -> None:
    """Install the environment that training a model needs, if it is not there.

    Raises:
        EngineError: this machine's LLM engine has no torch, or it cannot be installed.
    """
    engine, why = engine_install.choose_engine(base)
    if engine != "vllm":
        raise EngineError(
            f"Training needs torch and PEFT, which come with vLLM's environment; this machine uses {engine} ({why}). "
            "Set LLM_ENGINE=vllm, or train on a machine that runs vLLM."
        )
    engine_install.install("vllm", say)


def say(text: str) -> None:
    """Tell the user."""
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


def run(
    script: Path, job: Mapping[str, Any], out: Path, *, doing: str, total: int, unit: str = "step", bar: bool = True
) -> list[dict[str, Any]]:
    """Run a script of `training_child.py`; what it told, the summary last.

    Args:
        script: defines `main(job, folder, say)`.
        job: for the script, as JSON; `base` names the model, a folder or a hub's repository.
        out: folder that the script writes to.
        doing: what it does, for the progress bar and for errors.
        total: `step` of the last line that it tells.
        unit: of a step.
        bar: whether to show the progress.

    Raises:
        EngineError: it failed; the message has the end of its output.
    """
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{script.stem}.log"
    described = out.with_name("job.json")
    described.write_text(json.dumps(job), encoding="utf-8")
    # -P: the modules beside the script are not importable there, for `datasets` is a package that PEFT may import
    command = [str(engine_install.engine_python("vllm")), "-P", str(CHILD), str(script), str(described), str(out)]
    quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"} if Path(job["base"]).exists() else {}
    lines: list[dict[str, Any]] = []
    with path.open("ab") as errors, tqdm(total=total, desc=doing, unit=unit, disable=not bar) as progress:
        start = errors.tell()
        process = subprocess.Popen(
            command,
            # it ends when this pipe closes, also if this process is killed
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env={**os.environ, **engine_install.KEEP_MEMORY, **quiet},
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


# ------------------------------------------------------------------------------------------------- what it leaves


@contextmanager
def replacing(folder: Path) -> Iterator[Path]:
    """A folder to write to, which takes the place of `folder` when all went well and else leaves nothing."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}.") as temporary:
        part = Path(temporary) / "made"
        yield part
        shutil.rmtree(folder, ignore_errors=True)
        part.rename(folder)


def write_log(folder: Path, weights: str, told: Mapping[str, Any]) -> None:
    """Write the log of a training beside its weights, with their digest."""
    text = json.dumps({"sha256": datasets.digest(folder / weights), **told}, indent=1)
    (folder / LOG).write_text(text + "\n", encoding="utf-8")


def read_log(folder: Path, weights: str) -> dict[str, Any]:
    """The log that `write_log` wrote.

    Raises:
        FileNotFoundError: there is none.
        ValueError: the weights or the log are damaged.
    """
    told: dict[str, Any] = json.loads((folder / LOG).read_text(encoding="utf-8"))
    if (found := datasets.digest(folder / weights)) != told["sha256"]:
        raise ValueError(f"{folder / weights} is damaged: its SHA-256 should be {told['sha256']}, found {found}.")
    return told


def kept(
    parent: Path, name: str, decided_by: Sequence[object], load: Callable[[Path], T], make: Callable[[Path], T]
) -> T:
    """What was made of this content: loaded if it was made before, else made now.

    It lies in `parent/<name>-<start of the content's hash>`. Notebooks that want the same one wait for the first to
    make it. A damaged one is set aside, with a logged warning, and made again.

    Args:
        parent: folder of all of its kind.
        name: for the folder.
        decided_by: all that decides the result, as JSON can hold it.
        load: reads a folder; raises FileNotFoundError if there is none, and ValueError, KeyError or TypeError if it is
            damaged.
        make: makes the folder.
    """
    decides = json.dumps(list(decided_by), sort_keys=True, ensure_ascii=False)
    folder = parent / f"{name}-{hashlib.sha256(decides.encode()).hexdigest()[:12]}"
    parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        try:
            return load(folder)
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError) as error:
            aside = folder.with_name(f"{folder.name}.bad-{os.urandom(4).hex()}")
            folder.rename(aside)
            log.warning("%s It was set aside as %s and is made again.", error, aside.name)
        return make(folder)
