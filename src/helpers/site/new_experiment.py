"""Begins an experiment of your own: a notebook that runs, its sizes, its paper's numbers, its place in the book.

make new-experiment NAME=first_try PAPER=my_paper

The templates are `notebooks/template/`: a notebook that runs in the smoke profile, and the YAML of what a paper prints.
Nothing that exists is changed but for three profiles and the table of contents, which get an entry each.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import Final

import yaml

from helpers.settings import NOTEBOOKS, PROFILES, PUBLISHED, ROOT, PublicError, told
from helpers.site import launch

TEMPLATE: Final = NOTEBOOKS / "template"
CONTENTS: Final = ROOT / "book" / "_toc.yml"
SIZES: Final = {"smoke": 8, "laptop": 40, "paper": 400}
"""Questions of the template in each profile."""
OWN_PAPER: Final = re.compile(r"\bmy_paper\b")
OWN_NAME: Final = re.compile(r"\bmy_experiment\b")


class ExperimentError(PublicError, ValueError):
    """The experiment cannot be begun; the message says why, and what to do."""


def begin(name: str, paper: str) -> list[Path]:
    """Write the files of a new experiment.

    Args:
        name: of the experiment: a-z, 0-9 and _, a letter first.
        paper: of one in `data/published`, or of a new one, written alike.

    Returns:
        What was written or added to.

    Raises:
        ExperimentError: a name is no name, or the experiment exists.
    """
    for what, given in (("NAME", name), ("PAPER", paper)):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", given):
            raise ExperimentError(
                f"{what} is made of a-z, 0-9 and _, and begins with a letter; found {given!r}. For example: "
                "make new-experiment NAME=first_try PAPER=my_paper"
            )
    if there := sorted(NOTEBOOKS.glob(f"*_{paper}_{name}.ipynb")):
        raise ExperimentError(f"{there[0].relative_to(ROOT)} exists. Choose another NAME.")
    numbers = (re.match(r"\d+", path.name) for path in NOTEBOOKS.glob("*.ipynb"))
    notebook = f"{max((int(n[0]) for n in numbers if n), default=-1) + 1:02}_{paper}_{name}"

    # every text is made before the first is written
    texts = {NOTEBOOKS / f"{notebook}.ipynb": _notebook(notebook, name, paper)}
    declared = PUBLISHED / f"{paper}.yml"
    if not declared.exists():
        texts[declared] = _named((TEMPLATE / "published.yml").read_text(encoding="utf-8"), name, paper)
    for profile, questions in SIZES.items():
        path = PROFILES / f"{profile}.yml"
        texts[path] = f"{path.read_text(encoding='utf-8').rstrip()}\n\n{notebook}:\n  questions: {questions}\n"
    texts[CONTENTS] = with_place(CONTENTS.read_text(encoding="utf-8"), notebook, paper)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


def with_place(contents: str, notebook: str, paper: str) -> str:
    """The book's table of contents with a new notebook.

    It stands after the last notebook of its paper; the first of a paper begins a part before the book's last one.
    """
    lines = contents.rstrip().splitlines()
    files = [page["file"] for part in yaml.safe_load(contents)["parts"] for page in part["chapters"]]
    own = [file for file in files if re.fullmatch(rf"notebooks/\d+_{paper}_\w+", file)]
    if own:
        after = next(i for i, line in enumerate(lines, 1) if line.split("file: ")[-1].strip() == own[-1])
        added = [f"      - file: notebooks/{notebook}"]
    else:
        after = max(i for i, line in enumerate(lines) if line.lstrip().startswith("- caption:"))
        caption = paper.replace("_", " ").capitalize()
        added = [f"  - caption: {caption}", "    chapters:", f"      - file: notebooks/{notebook}"]
    return "\n".join([*lines[:after], *added, *lines[after:]]) + "\n"


def _notebook(notebook: str, name: str, paper: str) -> str:
    source = (TEMPLATE / "experiment.ipynb").read_text(encoding="utf-8")
    source = _named(source.replace("00_my_paper_my_experiment", notebook), name, paper)
    content = launch.with_cell(json.loads(source), notebook)
    return json.dumps(content, indent=1, ensure_ascii=False) + "\n"


def _named(text: str, name: str, paper: str) -> str:
    return OWN_NAME.sub(name, OWN_PAPER.sub(paper, text))


def main(arguments: list[str] | None = None) -> int:
    """The command line. Returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m helpers.site.new_experiment", description="Begin an experiment.")
    parser.add_argument("--name", required=True)
    parser.add_argument("--paper", required=True)
    options = parser.parse_args(arguments)
    try:
        written = begin(options.name, options.paper)
    except ExperimentError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    for path in written:
        sys.stdout.write(f"  {path.relative_to(ROOT)}\n")
    sys.stdout.write(f"Run it: make notebook NB={written[0].stem} PROFILE=smoke, and then: make book\n")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
