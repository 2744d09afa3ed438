"""Executes one notebook with the parameters of a profile, and keeps what it leaves.

python -m publish.run NOTEBOOK
"""

import argparse
import json
import re
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from filelock import BaseFileLock, FileLock, Timeout

from evaluation import records
from publish import freshness
from publish.durations import duration
from publish.kernel import execute_cells
from resources.parameters import parameters
from resources.settings import (
    BUILD,
    NOTEBOOKS,
    RESULTS,
    ROOT,
    hide_secrets,
    run_command_line,
    run_name,
    settings,
)

SETTLED = 60.0
"""Seconds added to both sides of a pace, because the first notebooks are short and tell little."""
FIRST_PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width"><meta name="color-scheme" content="light dark">
<style>body{{max-width:60rem;margin:auto;padding:1rem;font:1rem/1.5 system-ui}}
img,svg{{max-width:100%}}
td,th{{padding:.2rem .6rem;text-align:left;vertical-align:top}}
.jp-RenderedHTMLCommon{{overflow-x:auto}}.anchor-link{{display:none}}</style></head>
<body>{body}</body></html>
"""


def run_file(kind: str, notebook: str, profile: str, suffix: str = ".ipynb") -> Path:
    """Return where a run leaves its notebook (`executed`, `failed`) or its record (`records`)."""
    return BUILD / kind / run_name(profile) / f"{notebook}{suffix}"


def execute(notebook: str, profile: str, jobs: int = 1) -> int:
    """Execute a notebook with the parameters of a profile.

    The result is moved into place only if every cell ran and the run record was written; else the
    run is kept under `_build/failed`. While another process executes the notebook, this one waits,
    and then executes it only if it is still stale.

    Args:
        notebook: its name.
        profile: sizes and models.
        jobs: notebooks of all that run at once; 0 if not all are to run.

    Returns:
        0, or 1 if it failed.
    """
    executed = run_file("executed", notebook, profile)
    executed.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(executed.with_suffix(".lock"))
    waited = _acquire(lock, notebook)
    try:
        if waited and not freshness.why_stale(notebook, profile):
            sys.stderr.write(f"  {notebook}: done by the other make\n")
            return 0
        names = sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb"))
        place = f"[{names.index(notebook) + 1}/{len(names)}]"
        sys.stderr.write(f"{place} {notebook} ({profile}){time_left(profile, names, jobs)}\n")
        return _execute_alone(notebook, profile)
    finally:
        lock.release()


def _acquire(lock: BaseFileLock, notebook: str) -> bool:
    """Acquire the lock of a notebook; returns whether it had to be waited for."""
    try:
        lock.acquire(timeout=0)
    except Timeout:
        sys.stderr.write(f"{notebook} is being executed by another make; waiting for it ...\n")
        lock.acquire()
        return True
    return False


def _execute_alone(notebook: str, profile: str) -> int:
    start = time.monotonic()
    executed = run_file("executed", notebook, profile)
    part = executed.with_suffix(".part.ipynb")
    note = freshness.note_path(notebook, profile)
    note.unlink(missing_ok=True)
    is_plan = settings().answers == "plan"
    # a plan leaves nothing that could be up to date, or read
    inputs = {} if is_plan else freshness.notebook_inputs(notebook, profile)
    try:
        failure = hide_secrets(_failure(notebook, profile, part))
        if part.exists():
            _seal(part)
        if failure:
            _report_failure(notebook, profile, part, failure)
            return 1
        part.replace(executed)
    finally:
        part.unlink(missing_ok=True)
    if not is_plan:
        freshness.note(note, inputs)
    run_file("failed", notebook, profile).unlink(missing_ok=True)
    sys.stderr.write(f"  {notebook}: done in {time.monotonic() - start:.0f} s\n")
    if is_plan:
        return 0
    page = _first_page(notebook, executed)
    sys.stderr.write(f"  To read it before the book is built, open {page}\n")
    change = freshness.changes(inputs, freshness.notebook_inputs(notebook, profile))
    if change:
        sys.stderr.write(f"  While {notebook} ran, {change}: the next run executes it again.\n")
    return 0


def _failure(notebook: str, profile: str, part: Path) -> str:
    """Execute a notebook into `part`; returns why it failed or left no record, or nothing."""
    record = run_file("records", notebook, profile, ".json")
    before = _version(record)
    values = parameters(notebook, profile)
    failure = execute_cells(NOTEBOOKS / f"{notebook}.ipynb", part, values)
    if failure:
        return failure
    if _version(record) != before:
        return ""
    place = record.relative_to(ROOT)
    return (
        f"{notebook} ended without a run record at {place}: "
        "it must call record.start(...) and save()."
    )


def _version(path: Path) -> tuple[int, int] | None:
    """Return what differs each time that a file is replaced, whatever the clock says."""
    return (path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None


def _report_failure(notebook: str, profile: str, part: Path, failure: str) -> None:
    if settings().answers == "collect":  # which ends where the replies to requests would be needed
        sys.stderr.write(f"  {notebook}: {failure.strip().splitlines()[-1]}\n")
        return
    hint = "Results so far are stored, and the next run resumes from them."
    if part.exists():
        failed = run_file("failed", notebook, profile)
        failed.parent.mkdir(parents=True, exist_ok=True)
        part.replace(failed)
        hint = f"The run up to the error is in {failed.relative_to(ROOT)}. {hint}"
    sys.stderr.write(f"\n{failure}\n\n{notebook} failed. {hint}\n")


def _seal(executed: Path) -> None:
    """Hide secrets in what the cells show, errors of other libraries included; then seal it."""
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    names = frozenset({"output_type", "name", "metadata"})
    for cell in notebook["cells"]:
        if "outputs" in cell:
            cell["outputs"] = hide_secrets(cell["outputs"], keep=names)
    notebook["metadata"]["seal"] = records.seal({"cells": notebook["cells"]})
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    executed.write_text(f"{text}\n", encoding="utf-8")


def time_left(profile: str, notebooks: Sequence[str], jobs: int) -> str:
    """Say about how long the others take, by the reference run and this machine's pace so far."""
    reference = _seconds_by_notebook(RESULTS / profile, notebooks)
    done = [name for name in reference if _is_done(name, profile)]
    pending = [name for name in reference if name not in done]
    if not pending or not jobs:
        return ""
    own = _seconds_by_notebook(BUILD / "records" / run_name(profile), done)
    reference_seconds = sum(reference[name] for name in done)
    pace = (sum(own.values()) + SETTLED) / (reference_seconds + SETTLED)
    seconds_left = sum(reference[name] for name in pending) * pace
    return f"; about {duration(seconds_left / min(jobs, len(pending)))} left"


def _seconds_by_notebook(folder: Path, notebooks: Sequence[str]) -> dict[str, float]:
    seconds = {}
    for name in notebooks:
        path = folder / f"{name}.json"
        if path.exists():
            seconds[name] = float(json.loads(path.read_text(encoding="utf-8"))["seconds"])
    return seconds


def _is_done(notebook: str, profile: str) -> bool:
    executed = run_file("executed", notebook, profile)
    return executed.exists() and not records.damaged(notebook, run_name(profile))


def _first_page(notebook: str, executed: Path) -> Path:
    """Write a run as one page without its code, to be read before the book is built."""
    from nbconvert import HTMLExporter  # noqa: PLC0415  # a second

    exporter = HTMLExporter(template_name="basic", exclude_input=True, exclude_output_prompt=True)
    body, _ = exporter.from_filename(str(executed))
    body = re.sub(r" ?\{cite\S*?\}<code>.*?</code>", "", body)
    page = BUILD / "first" / f"{notebook}.html"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(FIRST_PAGE.format(title=notebook, body=body), encoding="utf-8")
    return page


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m publish.run", description=__doc__)
    parser.add_argument("notebook")
    parser.add_argument("--jobs", type=int, default=1, help="notebooks of all that run at once")
    options = parser.parse_args(arguments)
    return execute(options.notebook, settings().profile, options.jobs)


if __name__ == "__main__":
    sys.exit(run_command_line(main))
