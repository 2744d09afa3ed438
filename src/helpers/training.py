"""Training as a process in the LLM engine's environment (the notebooks' has no torch), and what is kept of it."""

import hashlib
import json
import logging
import os
import shutil
import subprocess
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
from helpers.supervisor import say

log = logging.getLogger(__name__)
T = TypeVar("T")
LOG = "training.json"
CHILD = Path(__file__).with_name("training_child.py")


def prepare(base: str) -> None:
    """Install what training a model needs; EngineError if this machine's LLM engine has no torch."""
    engine, why = engine_install.choose_engine(base)
    if engine != "vllm":
        found = f"Training needs torch and PEFT, of vLLM's environment; this machine uses {engine} ({why})"
        raise EngineError(f"{found}. Set LLM_ENGINE=vllm, or train on a machine that runs vLLM.")
    engine_install.install("vllm", say)


def run(
    script: Path, job: Mapping[str, Any], out: Path, *, doing: str, total: int, unit: str = "step", bar: bool = True
) -> list[dict[str, Any]]:
    """Run `main(job, out, say)` of a script by `training_child.py`; what it said, the summary last; `total` steps."""
    LOGS.mkdir(parents=True, exist_ok=True)
    path, described = LOGS / f"{script.stem}.log", out.with_name("job.json")
    described.write_text(json.dumps(job), encoding="utf-8")
    # -P: the modules beside the script are not importable there, for `datasets` is a package that PEFT may import
    command = [str(engine_install.engine_python("vllm")), "-P", str(CHILD), str(script), str(described), str(out)]
    quiet = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"} if Path(job["base"]).exists() else {}
    lines: list[dict[str, Any]] = []
    with path.open("ab") as errors, tqdm(total=total, desc=doing, unit=unit, disable=not bar) as progress:
        start = errors.tell()
        env = {**os.environ, **engine_install.KEEP_MEMORY, **quiet}
        # it ends when its stdin closes, also if this process is killed
        pipe = subprocess.PIPE
        process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=errors, text=True, env=env)
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
    """Write the log of a training beside its weights, with the digests of all files that are there."""
    files = {path.name: datasets.digest(path) for path in sorted(folder.iterdir())}
    text = json.dumps({"sha256": files[weights], "files": files, **told}, indent=1)
    (folder / LOG).write_text(text + "\n", encoding="utf-8")


def read_log(folder: Path, weights: str) -> dict[str, Any]:
    """The log that `write_log` wrote; FileNotFoundError if there is none, ValueError if it or a file is damaged."""
    told: dict[str, Any] = json.loads((folder / LOG).read_text(encoding="utf-8"))
    for name, digest in {**told.pop("files", {}), weights: told["sha256"]}.items():  # older logs have the weights' only
        if (found := datasets.digest(folder / name)) != digest:
            raise ValueError(f"{folder / name} is damaged: its SHA-256 should be {digest}, found {found}.")
    return told


def load_or_make(folder: Path, load: Callable[[Path], T], make: Callable[[Path], T], released: Path | None = None) -> T:
    """What lies in `folder` or, as it was released, in `released`; else it is made now.

    Notebooks that want the same wait for the first. `load` raises FileNotFoundError if there is none; what it finds
    damaged (ValueError, KeyError, TypeError) is set aside with a warning and made again.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(f"{folder}.lock"):
        try:
            return load(folder)
        except FileNotFoundError:
            pass
        except (ValueError, KeyError, TypeError) as error:
            aside = folder.with_name(f"{folder.name}.bad-{os.urandom(4).hex()}")
            folder.rename(aside)
            log.warning("%s It was set aside as %s and is made again.", error, aside.name)
        if released and released.is_dir():
            return load(released)
        for left in folder.parent.glob(f".{folder.name}.*"):  # of one that was killed
            shutil.rmtree(left, ignore_errors=True)
        return make(folder)


def kept(
    parent: Path,
    name: str,
    decided_by: Sequence[object],
    load: Callable[[Path], T],
    make: Callable[[Path], T],
    released: Path | None = None,
) -> T:
    """See `load_or_make`; the folder is `<name>-<start of the hash of decided_by>`, in `parent` and in `released`."""
    decides = json.dumps(list(decided_by), sort_keys=True, ensure_ascii=False)
    folder = parent / f"{name}-{hashlib.sha256(decides.encode()).hexdigest()[:12]}"
    return load_or_make(folder, load, make, released and released / folder.name)
