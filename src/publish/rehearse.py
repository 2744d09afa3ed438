"""Rehearses the paper profile on a small machine: its paths at smoke sizes.

python -m publish.rehearse [NOTEBOOK ...]

The rehearsal has a project of links in `_build/rehearsal`, with a profile `paper` of its own. In the
end, it lists each printed number that a rerun is promised for: filled or not, and why.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import yaml

from evaluation.published import papers, published
from helpers.vectors import DEFAULT_ENCODER
from resources.parameters import declared
from resources.settings import BUILD, NOTEBOOKS, ROOT, read_profile, run_command_line

FOLDER = BUILD / "rehearsal"
STEPS = 2  # of every training
MOST = 8  # of what the paper profile counts and the smoke profile does not name
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
    """The parameters of a notebook: paths of the paper profile, numbers of smoke, models of what it declares.

    A second model is the laptop profile's.
    """
    return {
        name: _small(name, paper.get(name), smoke.get(name), defaults[name])
        for name in {**smoke, **paper}
    }


def _small(name: str, paper: Any, smoke: Any, default: Any) -> Any:  # noqa: ANN401  # whatever YAML holds
    if name.endswith("steps"):
        return STEPS
    if isinstance(paper, str):
        model = (
            read_profile("laptop")["defaults"]["llm_model"]
            if name.endswith("_model") and not default
            else default
        )
        return DEFAULT_ENCODER if name in ("encoder", "reranker_encoder") else model
    if isinstance(paper, dict) and smoke is None and "longest" in paper:
        # a laptop has no memory for longer texts
        return paper | {"longest": min(1024, paper["longest"]), "rank": min(8, paper["rank"])}
    if isinstance(paper, list | bool) or (isinstance(paper, dict) and smoke is None):
        return paper
    if smoke is None:
        return min(paper, default or paper, MOST)
    return {**smoke, "steps": STEPS} if isinstance(smoke, dict) and "steps" in smoke else smoke


def prepare() -> None:
    """Link the project's parts into `FOLDER`, and write the rehearsal's profile there."""
    paper, smoke = read_profile("paper"), read_profile("smoke")
    notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
    whole: dict[str, Any] = {"defaults": {**smoke["defaults"], "data": "auto"}}
    for path in notebooks:
        whole[path.stem] = rehearsed(
            paper.get(path.stem) or {}, smoke.get(path.stem) or {}, declared(path)
        )
    shutil.rmtree(FOLDER / "notebooks", ignore_errors=True)
    (FOLDER / "notebooks" / "profiles").mkdir(parents=True)
    for source in (*(ROOT / name for name in LINKED), *notebooks):
        link = FOLDER / source.relative_to(ROOT)
        if source.exists() and not link.is_symlink():
            link.symlink_to(source)
    (FOLDER / "notebooks" / "profiles" / "paper.yml").write_text(
        yaml.safe_dump(whole), encoding="utf-8"
    )


def promised() -> pd.DataFrame:
    """Every printed number that a rerun is promised for: id, whether filled, explained or EMPTY, with what or why not.

    A chapter that finished without a value, as for a judge at chance or another system, has explained it.
    """
    from publish.scoreboard import scoreboard  # noqa: PLC0415  # a second, which preparing should not cost

    ids = {
        number.id
        for paper in papers()
        for number in published(paper).numbers
        if not number.why_no_rerun
    }
    board = scoreboard(profile="paper")
    board = board[board["id"].isin(ids)]
    filled = board["rerun"].notna()
    told = board["rerun_why"].where(~filled, board["rerun_notebook"] + " " + board["rerun_model"])
    status = filled.map({True: "filled", False: "explained"}).where(
        board["rerun_notebook"] != "", "EMPTY"
    )
    return board[["id", "paper"]].assign(status=status, why=told)


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
    environment = dict(os.environ)
    environment |= {"MEDRAG_ROOT": str(FOLDER), "PYTHONPATH": str(ROOT / "src"), "PROFILE": "paper"}
    # an empty variable counts as unset, whatever stands in .env
    environment |= {"LLM_BASE_URL": "", "LLM_MODEL": ""}
    statuses = []
    for arguments in (["medrerun", "run", "--", *names], ["publish.rehearse", "--report"]):
        command = [sys.executable, "-m", *arguments]
        statuses.append(subprocess.run(command, env=environment, check=False).returncode)
    return max(statuses)


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
