"""Makes this machine's run the reference that a fresh clone shows: records, notebooks, answers and requests.

python -m helpers.results.reference --profile laptop
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from helpers.results import answers, records, requests
from helpers.settings import BUILD, RESULTS, ROOT, run_name, told

REFERENCE = ROOT / "book" / "reference"
REFERENCE_LIMIT = 500_000
"""Bytes that a file of a run kept in git may have: an executed notebook, a record, what a run saved beside it."""


def keep_reference(profile: str) -> int:
    """Keep this machine's runs of a profile in git: records in `data/results`, notebooks in `book/reference`.

    What a notebook saved beside its record under the record's name (`<notebook>.<what>`) is kept with it, and so are
    its answers and requests. Runs on the sample are refused: a reference is a run on real data. So is a run of the
    reference profile whose requests are not those of the last reference, unless its notebook is named in CHANGED.
    """
    kept, name = 0, run_name(profile)
    changed = os.environ.get("CHANGED", "").split()
    # what an interrupted run left half-written is no run
    whole = (path for path in (BUILD / "executed" / name).glob("*.ipynb") if not path.stem.endswith(".part"))
    for executed in sorted(whole):
        kept_record = BUILD / "records" / name / f"{executed.stem}.json"
        try:
            content = json.loads(kept_record.read_text(encoding="utf-8"))
            notebook = _without_progress(executed)
        except (FileNotFoundError, ValueError):
            sys.stderr.write(
                f"{executed.stem}: not kept, its notebook or its record is missing or damaged. "
                f"Run `make notebook NB={executed.stem} PROFILE={profile}`\n"
            )
            continue
        if (damaged := records.damaged(executed.stem, name)) is not None:
            sys.stderr.write(
                f"{executed.stem}: not kept, {damaged.name} is damaged. "
                f"Run `make notebook NB={executed.stem} PROFILE={profile}`\n"
            )
            continue
        if content["sample"]:
            sys.stderr.write(f"{executed.stem}: not kept, it ran on SAMPLE data\n")
            continue
        if (new := _new_requests(executed.stem, name)) and executed.stem not in changed:
            sys.stderr.write(
                f"{executed.stem}: not kept, {new} of its requests are not the last reference's. If a prompt changed "
                f"on purpose, say so: make reference CHANGED={executed.stem}\n"
            )
            continue
        # but not what is half-written, nor what could not be read and was set aside
        beside = [
            p for p in sorted(kept_record.parent.glob(f"{executed.stem}.*")) if p.suffix not in (".part", ".corrupt")
        ]
        large = {path.name: path.stat().st_size for path in beside} | {executed.name: len(notebook)}
        if large := {name: size for name, size in large.items() if size > REFERENCE_LIMIT}:
            for name, size in large.items():
                sys.stderr.write(
                    f"{name} has {size:,} bytes; at most {REFERENCE_LIMIT:,} are kept in git. "
                    "Draw fewer points, or a picture in place of a vector figure; keep fewer values.\n"
                )
            return 1
        (RESULTS / name).mkdir(parents=True, exist_ok=True)
        REFERENCE.mkdir(parents=True, exist_ok=True)
        for path in beside:
            shutil.copyfile(path, RESULTS / name / path.name)
        if name == profile:  # a further model adds columns, not chapters
            (REFERENCE / executed.name).write_bytes(notebook)
        _keep_answers(executed.stem, name)
        kept += 1
        sys.stderr.write(f"{executed.stem}: kept as the reference\n")
    if not kept:
        sys.stderr.write(f"There is no run of profile {profile} to keep. Run `make reproduce PROFILE={profile}`.\n")
        return 1
    return 0


def _asked(notebook: str, name: str) -> dict[str, Any]:
    """Keys of a run's requests by step, and whether their prompts are withheld; empty for a run without any."""
    path = records.requests_file(BUILD / "records" / name / f"{notebook}.json")
    return dict(json.loads(path.read_text("utf-8"))) if path.is_file() else {}


def _new_requests(notebook: str, name: str) -> int:
    """How many of a run's requests the released ones of its notebook lack; 0 where none were released yet."""
    folder = requests.RELEASED / answers.released(notebook, name)
    released = {row.key for path in folder.glob("*.parquet") for row in requests.read(path)}
    return len(_asked(notebook, name).get("requests", {}).keys() - released) if released else 0


def _keep_answers(notebook: str, name: str) -> None:
    """Release the answers and requests of a run: texts that may not be passed on stay out."""
    asked = _asked(notebook, name)
    built = answers.BUILT / name / notebook
    if any(built.glob("*.parquet")):
        licence = next(pq.read_schema(path).metadata[b"licence"] for path in built.glob("*.parquet")).decode()
        withheld = bool(asked.get("withheld"))
        answers.write(
            answers.RELEASED / answers.released(notebook, name), answers.read(built), licence=licence, withheld=withheld
        )
    rows = requests.Store(requests.working(), requests.RELEASED).get(asked.get("requests", {}))
    folder = requests.RELEASED / answers.released(notebook, name)
    for path in folder.glob("*.parquet"):
        path.unlink()
    steps: dict[str, list[requests.Row]] = {}
    for key, step in asked.get("requests", {}).items():
        if key in rows:
            steps.setdefault(re.sub(r"[^a-z0-9]+", "_", step.lower()).strip("_"), []).append(rows[key])
    for step, of_step in steps.items():
        requests.write(folder / f"{step}.parquet", of_step, prompts=not asked["withheld"])


def _without_progress(executed: Path) -> bytes:
    """An executed notebook as JSON, without what its cells wrote to stderr, and without this machine's paths."""
    notebook = json.loads(executed.read_text(encoding="utf-8"))
    notebook["metadata"].pop("seal", None)  # of the whole
    for path in ("input_path", "output_path"):
        notebook["metadata"].get("papermill", {}).pop(path, None)
    for cell in notebook["cells"]:
        if "outputs" in cell:
            cell["outputs"] = [o for o in cell["outputs"] if o.get("name") != "stderr"]
    return (json.dumps(notebook, indent=1, ensure_ascii=False) + "\n").encode()


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m helpers.results.reference", description=__doc__)
    parser.add_argument("--profile", default="laptop")
    try:
        return keep_reference(parser.parse_args(arguments).profile)
    except requests.StoreError as error:
        sys.stderr.write(f"{error}\n")
        return 1


if __name__ == "__main__":
    sys.exit(told(main))
