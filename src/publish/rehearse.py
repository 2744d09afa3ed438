"""Rehearses the paper profile on a small machine: its paths at smoke sizes.

python -m publish.rehearse [NOTEBOOK ...]

The rehearsal has a project of links in `_build/rehearsal`, with a profile `paper` of its own. In
the end, it lists each printed number that a rerun is promised for: filled or not, and why.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from evaluation.published import papers, published
from helpers.vectors import DEFAULT_ENCODER
from resources import engines, training
from resources.engine_install import EngineError
from resources.parameters import declared
from resources.settings import BUILD, NOTEBOOKS, ROOT, read_profile, run_command_line
from resources.supervisor import say

FOLDER = BUILD / "rehearsal"
STEPS = 2  # of every training
MAX_COUNT = 8  # of what the paper profile counts and the smoke profile does not name
ANSWERING = "large_model"
"""Names a model that answers in place of the profile's; beside it, the second one would be none."""
SECOND_BASE = FOLDER / "MedLLaMA-stand-in"
"""A link to the smallest model's weights: the name fills the rows of the paper's second model."""
LINKED = (
    "Makefile",
    "src",
    "data",
    ".venv",
    ".venv-llm",
    "locks",
    "requirements.lock",
    "pyproject.toml",
    "book",
)


def rehearsed(
    paper: Mapping[str, Any], smoke: Mapping[str, Any], defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the rehearsal's parameters of a notebook.

    They take the paths of the paper profile, the numbers of the smoke profile and the models
    that the notebook declares. A second model is the laptop profile's, and a second one that is
    fine-tuned is the smallest under another name.

    Args:
        paper: Parameters in the paper profile.
        smoke: Parameters in the smoke profile.
        defaults: Values that the notebook declares.
    """
    return {
        name: _small_value(name, paper.get(name), smoke.get(name), defaults[name])
        for name in {**smoke, **paper}
    }


LARGEST = {"longest": 1024, "longest_of_many": 1024, "rank": 8}
"""Largest values of a recipe for training that a laptop has the memory for."""


# profiles hold whatever YAML holds
def _small_value(name: str, paper: Any, smoke: Any, default: Any) -> Any:  # noqa: ANN401
    if name.endswith("steps"):
        return STEPS
    if isinstance(paper, str):
        return _small_model(name, default)
    if smoke is None or isinstance(paper, list | bool):
        return _without_smoke_value(paper, default)
    if isinstance(smoke, dict) and "steps" in smoke:
        return {**smoke, "steps": STEPS}
    return smoke


def _small_model(name: str, default: Any) -> Any:  # noqa: ANN401
    """Return the encoder or LLM that stands in for a name of the paper profile."""
    if name in ("encoder", "reranker_encoder"):
        return DEFAULT_ENCODER
    if name == "second_small_model":
        return str(SECOND_BASE)
    if name.endswith("_model") and not default and name != ANSWERING:
        return read_profile("laptop")["defaults"]["llm_model"]
    return default


def _without_smoke_value(paper: Any, default: Any) -> Any:  # noqa: ANN401
    """Return the small form of a parameter for which the smoke profile has no number."""
    if isinstance(paper, list | bool):
        return paper
    if not isinstance(paper, dict):
        return min(paper, default or paper, MAX_COUNT)
    if "longest" not in paper:
        return paper
    # a laptop has no memory for longer texts
    return {name: min(value, LARGEST.get(name, value)) for name, value in paper.items()}


def prepare() -> None:
    """Link the project's parts into `FOLDER`, and write the rehearsal's profile there."""
    paper, smoke = read_profile("paper"), read_profile("smoke")
    notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
    profile: dict[str, Any] = {"defaults": {**smoke["defaults"], "data": "auto"}}
    for path in notebooks:
        profile[path.stem] = rehearsed(
            paper.get(path.stem) or {}, smoke.get(path.stem) or {}, declared(path)
        )
    link_project(FOLDER, "paper", profile)


def link_project(folder: Path, profile: str, content: Mapping[str, Any]) -> None:
    """Make a project of links to this one, with one profile of its own.

    Args:
        folder: The project's folder; what runs left there stays.
        profile: Name of the profile.
        content: What it says.
    """
    shutil.rmtree(folder / "notebooks", ignore_errors=True)
    (folder / "notebooks" / "profiles").mkdir(parents=True)
    for source in (*(ROOT / name for name in LINKED), *sorted(NOTEBOOKS.glob("*.ipynb"))):
        link = folder / source.relative_to(ROOT)
        if source.exists() and not link.is_symlink():
            link.symlink_to(source)
    path = folder / "notebooks" / "profiles" / f"{profile}.yml"
    path.write_text(yaml.safe_dump(dict(content)), encoding="utf-8")


def promised() -> pd.DataFrame:
    """Return every printed number that a rerun is promised for.

    A chapter that finished without a value, as for a judge at chance or another system, has
    explained it.

    Returns:
        Columns `id`, `paper`, `status` (filled, explained or EMPTY) and `why`, which says with
        what it is filled, or why it is not.
    """
    # the import takes a second, which preparing should not cost
    from publish.scoreboard import scoreboard  # noqa: PLC0415

    numbers = [number for paper in papers() for number in published(paper).numbers]
    ids = {number.id for number in numbers if not number.why_no_rerun}
    board = scoreboard(profile="paper")
    board = board[board["id"].isin(ids)]
    filled = board["rerun"].notna()
    why = board["rerun_why"].where(~filled, board["rerun_notebook"] + " " + board["rerun_model"])
    status = filled.map({True: "filled", False: "explained"}).where(
        board["rerun_notebook"] != "", "EMPTY"
    )
    return board[["id", "paper"]].assign(status=status, why=why)


def report() -> None:
    """Print what became of each number that a rerun is promised for, and a summary."""
    cells = promised()
    for cell in cells.itertuples():
        sys.stdout.write(f"{cell.status:9}  {cell.id}: {cell.why}\n")
    for paper, rows in cells.groupby("paper", sort=False):
        counts = [f"{n} {status}" for status, n in rows["status"].value_counts().items()]
        sys.stdout.write(f"{paper}: {len(rows)} promised numbers, {', '.join(counts)}\n")


def rehearse(names: Sequence[str]) -> int:
    """Run notebooks in the rehearsal's own project, and report; returns 1 if one failed."""
    prepare()
    _link_second_base()
    environment = dict(os.environ)
    environment |= {"MEDRAG_ROOT": str(FOLDER), "PYTHONPATH": str(ROOT / "src"), "PROFILE": "paper"}
    # an empty variable counts as unset, whatever stands in .env
    environment |= {"LLM_BASE_URL": "", "LLM_MODEL": ""}
    statuses = []
    for arguments in (["medrerun", "run", "--", *names], ["publish.rehearse", "--report"]):
        command = [sys.executable, "-m", *arguments]
        statuses.append(subprocess.run(command, env=environment, check=False).returncode)
    return max(statuses)


def _link_second_base() -> None:
    """Make `SECOND_BASE`; without an engine that trains, the notebooks say what they lack."""
    SECOND_BASE.unlink(missing_ok=True)
    model = read_profile("smoke")["defaults"]["llm_model"]
    try:
        training.prepare(model)
    except EngineError as error:
        say(str(error))
        return
    weights, _ = engines.weights_folder(model, say)
    SECOND_BASE.symlink_to(weights)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m publish.rehearse", description=__doc__)
    parser.add_argument("notebooks", nargs="*", help="default: all")
    parser.add_argument("--report", action="store_true", help="report on the last rehearsal")
    options = parser.parse_args(arguments)
    if options.report:
        report()
        return 0
    return rehearse(options.notebooks)


if __name__ == "__main__":
    sys.exit(run_command_line(main))
