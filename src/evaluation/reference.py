"""Make this machine's run the reference that a fresh clone shows.

Records, notebooks, answers, requests and adapters go into the folders that git keeps.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq

from evaluation import answers, records
from helpers import neighbours, requests
from helpers.requests import StoreError
from resources import artifacts, engines, lora
from resources.settings import BUILD, RESULTS, ROOT, run_command_line, run_name, settings

REFERENCE = ROOT / "book" / "reference"
REFERENCE_LIMIT = 600_000
"""Bytes that a file of a run kept in git may have."""


def keep_reference(profile: str) -> int:
    """Keep this machine's runs of a profile in git, each with what it saved beside its record.

    Returns:
        0, the status of the command.

    Raises:
        StoreError: If there is no run to keep, or a file is too large.
    """
    name = run_name(profile)
    n_kept = 0
    for executed in sorted((BUILD / "executed" / name).glob("*.ipynb")):
        if executed.stem.endswith(".part"):  # what an interrupted run left half-written
            continue
        why = _why_not(executed.stem, profile)
        if why:
            sys.stderr.write(f"{executed.stem}: not kept, {why}\n")
            continue
        _keep_run(executed, name, is_chapter=name == profile)
        n_kept += 1
        sys.stderr.write(f"{executed.stem}: kept as the reference\n")
    if not n_kept:
        raise StoreError(
            f"There is no run of profile {profile} to keep. Run `make reproduce PROFILE={profile}`."
        )
    return 0


def _keep_run(executed: Path, name: str, *, is_chapter: bool) -> None:
    """Keep one run.

    Args:
        executed: The executed notebook.
        name: Name of the run.
        is_chapter: Whether the notebook is kept; a further model adds columns, not chapters.
    """
    notebook = _without_progress(executed)
    saved = _files_beside_record(executed.stem, name)
    sizes = {path.name: path.stat().st_size for path in saved}
    _check_sizes(sizes | {executed.name: len(notebook)})
    results = RESULTS / name
    results.mkdir(parents=True, exist_ok=True)
    REFERENCE.mkdir(parents=True, exist_ok=True)
    for path in saved:
        shutil.copyfile(path, results / path.name)
    if is_chapter:
        (REFERENCE / executed.name).write_bytes(notebook)
    _keep_answers(executed.stem, name)


def _files_beside_record(notebook: str, name: str) -> list[Path]:
    """The record and what was saved as `<notebook>.<what>` beside it, if it is complete."""
    paths = sorted((BUILD / "records" / name).glob(f"{notebook}.*"))
    return [path for path in paths if path.suffix not in (".part", ".corrupt")]


def _check_sizes(sizes: Mapping[str, int]) -> None:
    large = []
    for file, size in sizes.items():
        if size > REFERENCE_LIMIT:
            large.append(f"{file} has {size:,} bytes")
    if large:
        raise StoreError(
            f"{'; '.join(large)}; at most {REFERENCE_LIMIT:,} are kept in git. "
            "Draw fewer points, or a picture in place of a vector figure; keep fewer values."
        )


def _why_not(notebook: str, profile: str) -> str:
    """Why a run cannot be a reference; empty if it can."""
    name = run_name(profile)
    if profile == "smoke":
        return "numbers of the smoke profile mean nothing, whatever their data"
    damaged = records.damaged(notebook, name)
    if damaged:
        run_again = f"Run `make notebook NB={notebook} PROFILE={profile}`"
        return f"{damaged.name} is missing or damaged. {run_again}"
    record = BUILD / "records" / name / f"{notebook}.json"
    if json.loads(record.read_text(encoding="utf-8"))["sample"]:
        return "it ran on SAMPLE data"
    n_new = _count_new_requests(notebook, name)
    if not n_new or notebook in os.environ.get("CHANGED", "").split():
        return ""
    hint = f"If a prompt changed on purpose, say so: make reference CHANGED={notebook}"
    return f"{n_new} of its requests are not the last reference's. {hint}"


def _count_new_requests(notebook: str, name: str) -> int:
    """Count the requests that the last reference lacks; 0 if there is none."""
    folder = requests.RELEASED / answers.released(notebook, name)
    released: set[str] = set()
    for path in folder.glob("*.parquet"):
        released.update(row.key for row in requests.read(path))
    if not released:
        return 0
    return len(_read_requests(notebook, name).steps.keys() - released)


@dataclass(frozen=True)
class _Requests:
    """The requests that a run left.

    Attributes:
        steps: The step of each request, by its key.
        withheld: The tasks whose prompts and texts may not be passed on.
    """

    steps: Mapping[str, str]
    withheld: Sequence[str]


def _read_requests(notebook: str, name: str) -> _Requests:
    path = records.requests_file(BUILD / "records" / name / f"{notebook}.json")
    if not path.is_file():
        return _Requests({}, withheld=())
    content = json.loads(path.read_text("utf-8"))
    return _Requests(content["requests"], content["withheld"])


def _keep_answers(notebook: str, name: str) -> None:
    """Release the answers and requests of a run; texts that may not be passed on are left out."""
    used = _read_requests(notebook, name)
    folder = answers.released(notebook, name)
    built = answers.BUILT / name / notebook
    files = sorted(built.glob("*.parquet"))
    if files:
        licence = pq.read_schema(files[0]).metadata[b"licence"].decode()
        released = answers.RELEASED / folder
        answers.write(released, answers.read(built), licence=licence, withheld=used.withheld)
    neighbours.release(name, notebook)
    rows = requests.store(requests.working()).get(used.steps)
    withheld_steps = _withheld_steps(answers.read(built), used) if files else set()
    _keep_adapters(rows.values())
    for path in (requests.RELEASED / folder).glob("*.parquet"):
        path.unlink()
    for step, step_rows in _rows_by_step(used, rows).items():
        path = requests.RELEASED / folder / f"{step}.parquet"
        requests.write(path, step_rows, prompts=step not in withheld_steps)


def _withheld_steps(frame: pd.DataFrame, used: _Requests) -> set[str]:
    """The steps, by the names of their files, that asked for rows whose texts are withheld."""
    if answers.ALL_TASKS in used.withheld:
        return {_file_name(step) for step in used.steps.values()}
    rows = frame[answers.are_of(frame, used.withheld)]
    keys = {key for keys in rows.requests for key in keys}
    return {_file_name(step) for key, step in used.steps.items() if key in keys}


def _file_name(step: str) -> str:
    """A step's name as that of a file."""
    return re.sub(r"[^a-z0-9]+", "_", step.lower()).strip("_")


def _keep_adapters(rows: Collection[requests.Row]) -> None:
    """Release the adapters that gave some of the replies."""
    for log in lora.ADAPTERS.glob(f"[!.]*/{artifacts.LOG}"):
        sha256 = json.loads(log.read_text("utf-8"))["sha256"]
        if any(row.weights.endswith(sha256) for row in rows):
            released = engines.RELEASED / log.parent.name
            shutil.copytree(log.parent, released, dirs_exist_ok=True)


def _rows_by_step(
    used: _Requests, rows: Mapping[str, requests.Row]
) -> dict[str, list[requests.Row]]:
    """The rows of each step, by a name for its file."""
    by_step: dict[str, list[requests.Row]] = {}
    for key, step in used.steps.items():
        if key in rows:
            by_step.setdefault(_file_name(step), []).append(rows[key])
    return by_step


def _without_progress(executed: Path) -> bytes:
    """An executed notebook as JSON, without its output to stderr and this machine's paths."""
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    notebook["metadata"].pop("seal", None)  # of the whole
    for path in ("input_path", "output_path"):
        notebook["metadata"].get("papermill", {}).pop(path, None)
    for cell in notebook["cells"]:
        if "outputs" in cell:
            cell["outputs"] = [o for o in cell["outputs"] if o.get("name") != "stderr"]
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    return f"{text}\n".encode()


def main() -> int:
    """Keep the runs of the settings' profile."""
    return keep_reference(settings().profile)


if __name__ == "__main__":
    sys.exit(run_command_line(main))
