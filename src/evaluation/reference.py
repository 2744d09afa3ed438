"""Makes this machine's run the reference that a fresh clone shows: records, notebooks, answers, requests, adapters."""

import json
import os
import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from evaluation import answers, records
from helpers import neighbours, requests
from helpers.requests import StoreError
from resources import artifacts, engines, lora
from resources.settings import BUILD, RESULTS, ROOT, run_command_line, run_name, settings

REFERENCE = ROOT / "book" / "reference"
REFERENCE_LIMIT = 500_000  # bytes that a file of a run kept in git may have


def keep_reference(profile: str) -> int:
    """Keep this machine's runs of a profile in git, with what each saved as `<notebook>.<what>` beside its record."""
    kept, name = 0, run_name(profile)
    # what an interrupted run left half-written is no run
    whole = (
        path
        for path in (BUILD / "executed" / name).glob("*.ipynb")
        if not path.stem.endswith(".part")
    )
    for executed in sorted(whole):
        if why := _why_not(executed.stem, profile):
            sys.stderr.write(f"{executed.stem}: not kept, {why}\n")
            continue
        notebook, records_ = _without_progress(executed), BUILD / "records" / name
        # but not what is half-written, nor what could not be read and was set aside
        beside = [
            p
            for p in sorted(records_.glob(f"{executed.stem}.*"))
            if p.suffix not in (".part", ".corrupt")
        ]
        sizes = {path.name: path.stat().st_size for path in beside} | {executed.name: len(notebook)}
        if large := [
            f"{file} has {size:,} bytes" for file, size in sizes.items() if size > REFERENCE_LIMIT
        ]:
            mend = "Draw fewer points, or a picture in place of a vector figure; keep fewer values."
            raise StoreError(
                f"{'; '.join(large)}; at most {REFERENCE_LIMIT:,} are kept in git. {mend}"
            )
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
        raise StoreError(
            f"There is no run of profile {profile} to keep. Run `make reproduce PROFILE={profile}`."
        )
    return 0


def _why_not(notebook: str, profile: str) -> str:
    """Why a run cannot be a reference; empty if it can."""
    name = run_name(profile)
    if profile == "smoke":
        return "numbers of the smoke profile mean nothing, whatever their data"
    if damaged := records.damaged(notebook, name):
        return f"{damaged.name} is missing or damaged. Run `make notebook NB={notebook} PROFILE={profile}`"
    if json.loads((BUILD / "records" / name / f"{notebook}.json").read_text(encoding="utf-8"))[
        "sample"
    ]:
        return "it ran on SAMPLE data"
    folder = requests.RELEASED / answers.released(notebook, name)
    released = {row.key for path in folder.glob("*.parquet") for row in requests.read(path)}
    new = len(_asked(notebook, name)["requests"].keys() - released) if released else 0
    if not new or notebook in os.environ.get("CHANGED", "").split():
        return ""
    mend = f"If a prompt changed on purpose, say so: make reference CHANGED={notebook}"
    return f"{new} of its requests are not the last reference's. {mend}"


def _asked(notebook: str, name: str) -> dict[str, Any]:
    path = records.requests_file(BUILD / "records" / name / f"{notebook}.json")
    return (
        dict(json.loads(path.read_text("utf-8")))
        if path.is_file()
        else {"withheld": False, "requests": {}}
    )


def _keep_answers(notebook: str, name: str) -> None:
    """Release the answers and requests of a run: texts that may not be passed on stay out."""
    asked, folder = _asked(notebook, name), answers.released(notebook, name)
    built = answers.BUILT / name / notebook
    if files := sorted(built.glob("*.parquet")):
        licence, withheld = (
            pq.read_schema(files[0]).metadata[b"licence"].decode(),
            asked["withheld"],
        )
        answers.write(
            answers.RELEASED / folder, answers.read(built), licence=licence, withheld=withheld
        )
    neighbours.release(name, notebook)
    rows = requests.store(requests.working()).get(asked["requests"])
    for log in lora.ADAPTERS.glob(f"[!.]*/{artifacts.LOG}"):
        if any(
            row.weights.endswith(json.loads(log.read_text("utf-8"))["sha256"])
            for row in rows.values()
        ):
            shutil.copytree(log.parent, engines.RELEASED / log.parent.name, dirs_exist_ok=True)
    for path in (requests.RELEASED / folder).glob("*.parquet"):
        path.unlink()
    steps: dict[str, list[requests.Row]] = {}
    for key, step in asked["requests"].items():
        if key in rows:
            steps.setdefault(re.sub(r"[^a-z0-9]+", "_", step.lower()).strip("_"), []).append(
                rows[key]
            )
    for step, of_step in steps.items():
        requests.write(
            requests.RELEASED / folder / f"{step}.parquet", of_step, prompts=not asked["withheld"]
        )


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


if __name__ == "__main__":
    sys.exit(run_command_line(lambda: keep_reference(settings().profile)))
