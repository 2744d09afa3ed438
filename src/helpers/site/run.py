"""Runs a notebook headless: resolves its parameters from a profile, executes it by papermill, keeps what it leaves.

python -m helpers.site.run parameters --profile laptop      write _build/params/laptop/*.yml, touching only what changed
python -m helpers.site.run notebook NB --profile laptop     execute one notebook
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from helpers import registry
from helpers.results import records
from helpers.results.published import paper_of
from helpers.settings import (
    BUILD,
    NOTEBOOKS,
    PUBLISHED,
    ROOT,
    of_model,
    public,
    refused,
    run_name,
    settings,
    told,
)
from helpers.site.parameters import cells_of, check_profile, parameters

KERNEL_SECONDS = 300
"""That a kernel may take to answer; on a machine where everything waits, a minute is not enough."""
CLOCK_SLACK = 60.0
"""Seconds by which clocks of a machine and of its disk may differ."""
INTERRUPTED = "The run was interrupted."


# ------------------------------------------------------------------------------------------------------- parameters


def write_parameters(profile: str) -> None:
    """Write each notebook's parameters to `_build/params`, leaving a file alone when nothing in it changed.

    It is dated anew where the run it led to is damaged or of the future, so that make runs the notebook again.

    A comment holds a digest of what else decides the notebook's numbers: the published numbers of its paper, its
    entries of the data registry, and whether stored replies may answer. So make sees a change of any.
    """
    folder = BUILD / "params" / run_name(profile)
    folder.mkdir(parents=True, exist_ok=True)
    notebooks = sorted(p.stem for p in NOTEBOOKS.glob("*.ipynb"))
    check_profile(profile, notebooks)
    for notebook in notebooks:
        values = parameters(notebook, profile)
        _file_by_model(notebook, profile, values.get("llm_model", ""))
        text = f"# inputs: {_inputs_digest(notebook)}\n" + yaml.safe_dump(values)
        if settings().answers == "fresh":
            text = "# ANSWERS=fresh\n" + text
        path = folder / f"{notebook}.yml"
        executed, _ = _outputs(notebook, profile)
        if not path.exists() or path.read_text() != text:
            part = path.with_suffix(f".{os.getpid()}")  # whole, for another make may be reading it
            part.write_text(text)
            part.replace(path)
        if executed.exists() and (why := _why_again(notebook, profile, executed)):
            sys.stderr.write(f"{why}; {notebook} runs again.\n")
            newer = max(time.time(), executed.stat().st_mtime + 1)
            os.utime(path, (newer, newer))


def _why_again(notebook: str, profile: str, executed: Path) -> str:
    """Why a run that has left its notebook does not count; empty if it does."""
    if damaged := records.damaged(notebook, run_name(profile)):
        return f"{damaged.relative_to(ROOT)} is missing or damaged"
    if executed.stat().st_mtime > time.time() + CLOCK_SLACK:  # an edit of now would be older, and not be seen
        return f"{executed.relative_to(ROOT)} is dated in the future, as when the clock was set back"
    return ""


def _outputs(notebook: str, profile: str) -> tuple[Path, Path]:
    """Where a run leaves its notebook and its record."""
    name = run_name(profile)
    return BUILD / "executed" / name / f"{notebook}.ipynb", BUILD / "records" / name / f"{notebook}.json"


def _file_by_model(notebook: str, profile: str, model: str) -> None:
    """Move a run of the profile that another model made, as before an edit of the profile, beside the run to come."""
    kept = BUILD / "records" / profile / f"{notebook}.json"
    if run_name(profile) != profile or records.damaged(notebook, profile):
        return
    left = json.loads(kept.read_text("utf-8"))
    if (was := left["provenance"]["parameters"].get("llm_model", model)) == model:
        return
    name = of_model(profile, was)
    left_by_it = (
        f"executed/{profile}/{notebook}.ipynb",
        f"records/{profile}/{notebook}.*",
        f"answers/{profile}/{notebook}",
    )
    for source in [p for of in (*left_by_it, f"records/{profile}/requests/{notebook}.json") for p in BUILD.glob(of)]:
        target = BUILD / source.relative_to(BUILD).as_posix().replace(f"/{profile}/", f"/{name}/", 1)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.rmtree(target, ignore_errors=True)
        source.replace(target)
    left["files"] = {p.replace(f"/{profile}/", f"/{name}/", 1): digest for p, digest in left["files"].items()}
    left["seal"] = records.seal(left)
    (BUILD / "records" / name / f"{notebook}.json").write_text(f"{json.dumps(left, indent=1, ensure_ascii=False)}\n")


def _inputs_digest(notebook: str) -> str:
    read = [e.model_dump(mode="json") for e in registry.registry().values() if notebook in e.readers]
    paper = PUBLISHED / f"{paper_of(NOTEBOOKS / f'{notebook}.ipynb')}.yml"
    published = paper.read_text(encoding="utf-8") if paper.is_file() else ""
    return hashlib.sha256((json.dumps(read, sort_keys=True, default=str) + published).encode()).hexdigest()[:16]


# --------------------------------------------------------------------------------------------------------- execution


class _Progress(logging.Handler):
    """Shows a notebook's own progress bars and messages, as they come, under the name of the notebook."""

    def __init__(self, notebook: str) -> None:
        super().__init__()
        self.notebook = notebook
        self.cells = len(cells_of(NOTEBOOKS / f"{notebook}.ipynb"))
        self.shown = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        # papermill logs what a cell shows as INFO and what it writes to stderr, messages and bars, as WARNING
        if record.levelno < logging.WARNING and not record.getMessage().startswith("Executing Cell"):
            return
        for line in record.getMessage().replace("\r", "\n").splitlines():
            text = line.strip().rstrip("-")
            if text.startswith("Executing Cell "):
                text = f"cell {text.removeprefix('Executing Cell ')} of {self.cells}"
            if not text:
                continue
            moving = text.startswith("cell ") or ("%|" in text and "100%|" not in text)
            # a bar moves many times a second: in a terminal in place, in a log a line every ten seconds
            wait = 0.2 if sys.stderr.isatty() else 10.0
            if moving and time.monotonic() - self.shown < wait:
                continue
            if moving:
                self.shown = time.monotonic()
            width = shutil.get_terminal_size().columns - len(self.notebook) - 4
            if sys.stderr.isatty():
                sys.stderr.write(f"\r  {self.notebook}: {text[:width].ljust(width)}" + ("" if moving else "\n"))
            else:
                sys.stderr.write(f"  {self.notebook}: {text}\n")
            sys.stderr.flush()


def _interruptible() -> None:
    """Make nbclient end when it is interrupted.

    On Ctrl-C it stops the kernel and forgets its connection. If that happens between two looks at whether the kernel
    is alive, the next look fails on the forgotten connection, and the wait for the cell's answer never ends.
    """
    from nbclient.client import NotebookClient  # noqa: PLC0415
    from nbclient.exceptions import DeadKernelError  # noqa: PLC0415

    look = NotebookClient._async_check_alive

    async def look_if_connected(self: NotebookClient) -> None:
        if self.kc is None:
            raise DeadKernelError(INTERRUPTED)
        await look(self)

    NotebookClient._async_check_alive = look_if_connected  # type: ignore[method-assign]


def execute(notebook: str, profile: str, needs: Sequence[Path] = ()) -> int:
    """Execute a notebook with its profile's parameters.

    The result is moved into place only when every cell ran and the run record was written. A failed run is kept under
    `_build/failed`, its error shown in place, and told. Where another process executes the notebook, this one waits,
    and then executes it only if it is still older than a file of `needs`.

    Returns:
        0, or 1 when the notebook failed.

    Raises:
        OSError: something could not be written.
    """
    target, kept_record = _outputs(notebook, profile)
    failed = BUILD / "failed" / run_name(profile) / f"{notebook}.ipynb"
    part = target.with_suffix(".part.ipynb")
    for path in (target, failed):
        path.parent.mkdir(parents=True, exist_ok=True)
    with _alone(notebook, target.with_suffix(".lock")) as waited:
        if waited and _up_to_date(target, needs):
            sys.stderr.write(f"  {notebook}: done by the other make\n")
            return 0
        others = sorted(p.stem for p in NOTEBOOKS.glob("*.ipynb"))
        sys.stderr.write(f"[{others.index(notebook) + 1}/{len(others)}] {notebook} ({profile})\n")
        given = BUILD / "params" / run_name(profile) / f"{notebook}.yml"
        values = yaml.safe_load(given.read_text()) or {}
        if given.stat().st_mtime > time.time():  # else it stays newer than what is made from it now
            os.utime(given)
        start, before = time.monotonic(), _version(kept_record)
        try:
            why = _run_cells(notebook, values, part)
            if not why and _version(kept_record) == before:
                why = (
                    f"{notebook} ended without a run record at {kept_record.relative_to(ROOT)}: it must "
                    "call record.start(...) and save()."
                )
            if why and settings().answers == "collect":
                sys.stderr.write(f"  {notebook}: {public(why).strip().splitlines()[-1]}\n")
                return 1
            if why:
                kept = ""
                if part.exists():
                    _hide_secrets(part)
                    part.replace(failed)
                    kept = f" Up to there it is kept as {failed.relative_to(ROOT)}."
                sys.stderr.write(
                    f"\n{public(why)}\n\n{notebook} failed.{kept} What was computed is kept too, and the next "
                    "run goes on from there.\n"
                )
                return 1
            _hide_secrets(part)
            part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        failed.unlink(missing_ok=True)
        sys.stderr.write(f"  {notebook}: done in {time.monotonic() - start:.0f} s\n")
    return 0


@contextmanager
def _alone(notebook: str, lock: Path) -> Iterator[bool]:
    """Keep other processes from executing a notebook; True if this one had to wait for another."""
    alone = FileLock(lock)
    try:
        alone.acquire(timeout=0)
        waited = False
    except Timeout:
        sys.stderr.write(f"{notebook} is being executed by another make; waiting for it ...\n")
        alone.acquire()
        waited = True
    try:
        yield waited
    finally:
        alone.release()


def _up_to_date(target: Path, needs: Sequence[Path]) -> bool:
    return target.exists() and all(path.stat().st_mtime <= target.stat().st_mtime for path in needs)


def _version(path: Path) -> tuple[int, int]:
    """Differs each time that a file is replaced, whatever the clock says."""
    found = path.stat() if path.exists() else None
    return (found.st_ino, found.st_mtime_ns) if found else (0, 0)


def _run_cells(notebook: str, values: dict[str, Any], part: Path) -> str:
    """Execute a notebook into `part`. Returns why it failed, or nothing."""
    import papermill  # noqa: PLC0415  # a second to import, which writing parameters should not cost
    from papermill.exceptions import PapermillExecutionError  # noqa: PLC0415
    from traitlets.config import Config  # noqa: PLC0415

    logger = logging.getLogger("papermill")
    logger.handlers, logger.propagate = [_Progress(notebook)], False
    logger.setLevel(logging.INFO)
    _interruptible()
    try:
        # Sockets in the file system in place of TCP ports that others on the machine could connect to; in a folder of
        # this run's own, for in a shared one two kernels that start at once take the same names.
        with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:
            own = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/at"}})
            papermill.execute_notebook(
                str(NOTEBOOKS / f"{notebook}.ipynb"),
                str(part),
                parameters=values,
                cwd=str(ROOT),
                progress_bar=False,
                log_output=True,
                kernel_name="python3",
                start_timeout=KERNEL_SECONDS,
                config=own if sys.platform != "win32" else None,
            )
    except PapermillExecutionError as error:
        return _refused_there(error.evalue) or "\n".join(str(error).splitlines()[-25:])
    except RuntimeError as error:  # of a kernel that died, or did not start
        if str(error) == INTERRUPTED:
            raise KeyboardInterrupt from None
        return (
            f"The kernel ended before the notebook did ({error}). The system ends it when memory runs out: then close "
            "other programs, or set JOBS=1 or a smaller PROFILE."
        )
    return ""


def _refused_there(said: str) -> str:
    """What to do about a refusal of the system's, as a kernel says it: `[Errno 28] No space left: 'path'`."""
    match = re.fullmatch(r"\[Errno (\d+)\] ([^:]*)(?:: '(.*)')?", said)
    return refused(OSError(int(match[1]), match[2], match[3])) if match else ""


def _hide_secrets(executed: Path) -> None:
    """Take passwords, keys and tokens out of what the cells show, errors of other libraries included; then seal it."""
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if "outputs" in cell:
            cell["outputs"] = public(cell["outputs"], keep=frozenset({"output_type", "name", "metadata"}))
    notebook["metadata"]["seal"] = records.seal({"cells": notebook["cells"]})
    executed.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m helpers.site.run", description="Run notebooks headless.")
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("parameters", "notebook"):
        sub = commands.add_parser(name)
        sub.add_argument("--profile", default=os.environ.get("PROFILE", "laptop"))
        if name == "notebook":
            sub.add_argument("notebook")
            sub.add_argument("--needs", nargs="*", type=Path, default=(), help="files that it is made from")
    options = parser.parse_args(arguments)
    if options.command == "parameters":
        write_parameters(options.profile)
    else:
        return execute(options.notebook, options.profile, options.needs)
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
