"""Runs a notebook headless: resolves its parameters from a profile, executes it by papermill, keeps what it leaves.

python -m publish.run parameters --profile laptop      write _build/params/laptop/*.yml, touching only what changed
python -m publish.run notebook NB --profile laptop     execute one notebook
"""

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
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml
from filelock import FileLock, Timeout

from evaluation import records
from evaluation.published import paper_of
from resources import registry
from resources.parameters import check_profile, parameters, read_notebook
from resources.settings import (
    BUILD,
    NOTEBOOKS,
    PUBLISHED,
    RESULTS,
    ROOT,
    explain_os_error,
    hide_secrets,
    run_command_line,
    run_name,
    settings,
)

KERNEL_SECONDS = 300  # that a kernel may take to answer; on a machine where everything waits, a minute is not enough
SETTLED = 60.0  # seconds added to both sides of a pace, because the first notebooks are short and tell little
CLOCK_SLACK = 60.0  # seconds by which clocks of a machine and of its disk may differ
INTERRUPTED = "The run was interrupted."
FIRST = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>body{{max-width:60rem;margin:auto;padding:1rem;font:1rem/1.5 system-ui}}img,svg{{max-width:100%}}
td,th{{padding:.2rem .6rem;text-align:left;vertical-align:top}}
.jp-RenderedHTMLCommon{{overflow-x:auto}}.anchor-link{{display:none}}</style></head>
<body>{body}</body></html>
"""


def write_parameters(profile: str) -> None:
    """Write each notebook's parameters to `_build/params`, leaving a file alone when nothing in it changed.

    A comment holds a digest of what else decides its numbers: its paper's published numbers, its entries of the data
    registry, whether stored replies may answer. Where the run it led to is damaged or of the future, it is dated anew.
    """
    notebooks = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
    check_profile(profile, notebooks)
    for notebook in notebooks:
        text = "# ANSWERS=fresh\n" if settings().answers == "fresh" else ""
        text += (
            f"# inputs: {_inputs_digest(notebook)}\n{yaml.safe_dump(parameters(notebook, profile))}"
        )
        path, executed = (
            _left("params", notebook, profile, ".yml"),
            _left("executed", notebook, profile),
        )
        if (
            not path.exists() or path.read_bytes() != text.encode()
        ):  # bytes, for damaged ones may be no text
            records.write_whole(path, text)  # for another make may be reading it
        why = ""
        if executed.exists() and (damaged := records.damaged(notebook, run_name(profile))):
            why = f"{damaged.relative_to(ROOT)} is missing or damaged"
        elif executed.exists() and executed.stat().st_mtime > time.time() + CLOCK_SLACK:
            # an edit of now would be older, and not be seen
            why = f"{executed.relative_to(ROOT)} is dated in the future, as when the clock was set back"
        if why:
            sys.stderr.write(f"{why}; {notebook} runs again.\n")
            newer = max(time.time(), executed.stat().st_mtime + 1)
            os.utime(path, (newer, newer))


def _left(what: str, notebook: str, profile: str, suffix: str = ".ipynb") -> Path:
    """Where a run has its parameters, and leaves its notebook, `executed` or `failed`, and its record."""
    return BUILD / what / run_name(profile) / f"{notebook}{suffix}"


def _inputs_digest(notebook: str) -> str:
    read = [
        e.model_dump(mode="json") for e in registry.registry().values() if notebook in e.readers
    ]
    paper = PUBLISHED / f"{paper_of(NOTEBOOKS / f'{notebook}.ipynb')}.yml"
    published = paper.read_text(encoding="utf-8") if paper.is_file() else ""
    return hashlib.sha256(
        (json.dumps(read, sort_keys=True, default=str) + published).encode()
    ).hexdigest()[:16]


class _Progress(logging.Handler):
    """Shows a notebook's own progress bars and messages, as they come, under the name of the notebook."""

    def __init__(self, notebook: str) -> None:
        super().__init__()
        self.notebook = notebook
        self.cells = len(read_notebook(NOTEBOOKS / f"{notebook}.ipynb")["cells"])
        self.shown = 0.0

    def emit(self, record: logging.LogRecord) -> None:
        # papermill logs what a cell shows as INFO and what it writes to stderr, messages and bars, as WARNING
        if record.levelno < logging.WARNING and not record.getMessage().startswith(
            "Executing Cell"
        ):
            return
        terminal = sys.stderr.isatty()
        width = shutil.get_terminal_size().columns - len(self.notebook) - 4
        for line in record.getMessage().replace("\r", "\n").splitlines():
            text = re.sub(
                r"^Executing Cell (\S+?)-*$", rf"cell \1 of {self.cells}", line.strip()
            ).rstrip("-")
            moving = text.startswith("cell ") or ("%|" in text and "100%|" not in text)
            # a bar moves many times a second: in a terminal in place, in a log a line every ten seconds
            if not text or (moving and time.monotonic() - self.shown < (0.2 if terminal else 10.0)):
                continue
            self.shown = time.monotonic() if moving else self.shown
            shown = (
                f"\r  {self.notebook}: {text[:width].ljust(width)}"
                if terminal
                else f"  {self.notebook}: {text}"
            )
            sys.stderr.write(shown + ("" if moving and terminal else "\n"))
            sys.stderr.flush()


def _interruptible() -> None:
    """Make nbclient end when it is interrupted between two looks at whether the kernel lives, not wait for ever."""
    from nbclient.client import NotebookClient  # noqa: PLC0415
    from nbclient.exceptions import DeadKernelError  # noqa: PLC0415

    look = NotebookClient._async_check_alive

    async def look_if_connected(self: NotebookClient) -> None:
        if self.kc is None:
            raise DeadKernelError(INTERRUPTED)
        await look(self)

    NotebookClient._async_check_alive = look_if_connected  # type: ignore[method-assign]


def execute(notebook: str, profile: str, needs: Sequence[Path] = (), jobs: int = 1) -> int:
    """Execute a notebook with its profile's parameters; 0, or 1 when it failed, with the run under `_build/failed`.

    The result is moved into place only when every cell ran and the run record was written. While another process
    executes the notebook, this one waits, and then executes it only if it is still older than a file of `needs`.
    `jobs` notebooks of all run at once; 0 if not all are to run.
    """
    target, failed = (_left(what, notebook, profile) for what in ("executed", "failed"))
    for path in (target, failed):
        path.parent.mkdir(parents=True, exist_ok=True)
    lock, waited = FileLock(target.with_suffix(".lock")), False
    try:
        held = lock.acquire(timeout=0)
    except Timeout:
        sys.stderr.write(f"{notebook} is being executed by another make; waiting for it ...\n")
        held, waited = lock.acquire(), True
    with held:
        if (
            waited
            and target.exists()
            and all(p.stat().st_mtime <= target.stat().st_mtime for p in needs)
        ):
            sys.stderr.write(f"  {notebook}: done by the other make\n")
            return 0
        others = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
        place = f"[{others.index(notebook) + 1}/{len(others)}]"
        sys.stderr.write(f"{place} {notebook} ({profile}){_time_left(profile, others, jobs)}\n")
        start, part = time.monotonic(), target.with_suffix(".part.ipynb")
        try:
            why = hide_secrets(_why_not(notebook, profile, part))
            if part.exists():
                _hide_secrets(part)
            if why and settings().answers == "collect":
                sys.stderr.write(f"  {notebook}: {why.strip().splitlines()[-1]}\n")
            elif why:
                kept = "Results so far are stored, and the next run resumes from them."
                if part.exists():
                    part.replace(failed)
                    kept = f"The run up to the error is in {failed.relative_to(ROOT)}. {kept}"
                sys.stderr.write(f"\n{why}\n\n{notebook} failed. {kept}\n")
            else:
                part.replace(target)
        finally:
            part.unlink(missing_ok=True)
        if not why:
            failed.unlink(missing_ok=True)
            sys.stderr.write(f"  {notebook}: done in {time.monotonic() - start:.0f} s\n")
            sys.stderr.write(
                f"  To read it before the book is built, open {_page(notebook, target)}\n"
            )
    return int(bool(why))


def _time_left(profile: str, notebooks: Sequence[str], jobs: int) -> str:
    """About how long the others take, by this machine's pace so far and the reference, itself a first run, if any."""
    from publish.pieces import duration  # noqa: PLC0415  # and pandas, which writing parameters should not cost

    def seconds(record: Path) -> float:
        return float(json.loads(record.read_text("utf-8"))["seconds"])

    took = {
        path.stem: seconds(path)
        for path in (RESULTS / profile).glob("*.json")
        if path.stem in notebooks
    }
    executed = [notebook for notebook in took if _left("executed", notebook, profile).exists()]
    done = [notebook for notebook in executed if not records.damaged(notebook, run_name(profile))]
    waiting = [notebook for notebook in took if notebook not in done]
    left, there = (sum(took[notebook] for notebook in of) for of in (waiting, done))
    here = sum(seconds(_left("records", notebook, profile, ".json")) for notebook in done)
    pace = (here + SETTLED) / (there + SETTLED)
    return (
        f"; about {duration(left * pace / min(jobs, len(waiting)))} left"
        if waiting and jobs
        else ""
    )


def _page(notebook: str, executed: Path) -> Path:
    """A run as one page without its code, to be read before the book is built."""
    from nbconvert import HTMLExporter  # noqa: PLC0415  # a second, which later runs should not cost

    exporter = HTMLExporter(template_name="basic", exclude_input=True, exclude_output_prompt=True)
    body = re.sub(r" ?\{cite\S*?\}<code>.*?</code>", "", exporter.from_filename(str(executed))[0])
    page = BUILD / "first" / f"{notebook}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(FIRST.format(title=notebook, body=body), encoding="utf-8")
    return page


def _why_not(notebook: str, profile: str, part: Path) -> str:
    """Execute a notebook into `part`. Returns why it failed or left no record, or nothing."""
    import papermill  # noqa: PLC0415  # a second to import, which writing parameters should not cost
    from papermill.exceptions import PapermillExecutionError  # noqa: PLC0415
    from traitlets.config import Config  # noqa: PLC0415

    given, record = (
        _left("params", notebook, profile, ".yml"),
        _left("records", notebook, profile, ".json"),
    )
    values = yaml.safe_load(given.read_text()) or {}
    if given.stat().st_mtime > time.time():  # else it stays newer than what is made from it now
        os.utime(given)
    logger = logging.getLogger("papermill")
    logger.handlers, logger.propagate = [_Progress(notebook)], False
    logger.setLevel(logging.INFO)
    _interruptible()
    before = _version(record)
    try:
        # Sockets in the file system in place of TCP ports that others on the machine could connect to; in a folder of
        # this run's own, because in a shared one two kernels that start together take the same names.
        with tempfile.TemporaryDirectory(prefix="kernel-") as sockets:
            own = Config({"KernelManager": {"transport": "ipc", "ip": f"{sockets}/at"}})
            shown: dict[str, Any] = {"progress_bar": False, "log_output": True}
            kernel: dict[str, Any] = {
                "kernel_name": "python3",
                "start_timeout": KERNEL_SECONDS,
                "cwd": str(ROOT),
            }
            kernel["config"] = own if sys.platform != "win32" else None
            kernel["extra_arguments"] = [
                "--log-level=50"
            ]  # it is ended by an interrupt, which is no error
            source = NOTEBOOKS / f"{notebook}.ipynb"
            papermill.execute_notebook(str(source), str(part), parameters=values, **shown, **kernel)
    except PapermillExecutionError as error:
        # a refusal of the system's, as a kernel says it: `[Errno 28] No space left: 'path'`
        if match := re.fullmatch(r"\[Errno (\d+)\] ([^:]*)(?:: '(.*)')?", error.evalue):
            return explain_os_error(OSError(int(match[1]), match[2], match[3]))
        return "\n".join(str(error).splitlines()[-25:])
    except RuntimeError as error:  # of a kernel that died, or did not start
        if str(error) == INTERRUPTED:
            raise KeyboardInterrupt from None
        why = "The system ends it when memory runs out: then close other programs, or set JOBS=1 or a smaller PROFILE."
        return f"The kernel ended before the notebook did ({error}). {why}"
    if _version(record) != before:
        return ""
    place = record.relative_to(ROOT)
    return f"{notebook} ended without a run record at {place}: it must call record.start(...) and save()."


def _version(path: Path) -> tuple[int, int] | None:
    """Differs each time that a file is replaced, whatever the clock says."""
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


def _hide_secrets(executed: Path) -> None:
    """Take passwords, keys and tokens out of what the cells show, errors of other libraries included; then seal it."""
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    for cell in notebook["cells"]:
        if "outputs" in cell:
            cell["outputs"] = hide_secrets(
                cell["outputs"], keep=frozenset({"output_type", "name", "metadata"})
            )
    notebook["metadata"]["seal"] = records.seal({"cells": notebook["cells"]})
    executed.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m publish.run", description="Run notebooks headless."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for sub in (commands.add_parser("parameters"), commands.add_parser("notebook")):
        sub.add_argument("--profile", default=os.environ.get("PROFILE", "laptop"))
    sub.add_argument("notebook")
    sub.add_argument("--needs", nargs="*", type=Path, default=(), help="files that it is made from")
    sub.add_argument(
        "--jobs",
        type=int,
        default=1,
        help="notebooks of all that run at once; 0 if not all are to run",
    )
    options = parser.parse_args(arguments)
    if options.command == "notebook":
        return execute(options.notebook, options.profile, options.needs, options.jobs)
    write_parameters(options.profile)
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
