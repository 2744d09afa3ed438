"""Begins an experiment of your own: a notebook that runs, its sizes, its paper's numbers, its place in the book.

`medrerun new-experiment first_try my_paper` fills the templates in `notebooks/template/`.
"""

import argparse
import json
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

from publish import launch
from resources.settings import NOTEBOOKS, PROFILES, PUBLISHED, ROOT, PublicError, run_command_line

TEMPLATE: Final = NOTEBOOKS / "template"
CONTENTS: Final = ROOT / "book" / "_toc.yml"
SIZES: Final = {"smoke": 8, "laptop": 40, "paper": 400}  # questions of the template in each profile


class ExperimentError(PublicError, ValueError):
    """The experiment cannot be begun; the message says why, and what to do."""


def begin(name: str, paper: str) -> list[Path]:
    """Write the files of a new experiment, and return what was written or added to; the paper may be a new one."""
    for what, given in (("NAME", name), ("PAPER", paper)):
        if not re.fullmatch(r"[a-z][a-z0-9_]*", given):
            raise ExperimentError(
                f"{what} is made of a-z, 0-9 and _, and begins with a letter; found {given!r}. For example: "
                "medrerun new-experiment first_try my_paper"
            )
    if there := sorted(NOTEBOOKS.glob(f"*_{paper}_{name}.ipynb")):
        raise ExperimentError(f"{there[0].relative_to(ROOT)} exists. Choose another NAME.")
    numbers = [
        int(n[0]) for path in NOTEBOOKS.glob("*.ipynb") if (n := re.match(r"\d+", path.name))
    ]
    notebook = f"{max(numbers, default=-1) + 1:02}_{paper}_{name}"

    def template(file: str) -> str:
        text = (
            (TEMPLATE / file)
            .read_text(encoding="utf-8")
            .replace("00_my_paper_my_experiment", notebook)
        )
        return re.sub(
            r"\bmy_(paper|experiment)\b", lambda m: paper if m[1] == "paper" else name, text
        )

    # every text is made before the first is written
    content = launch.with_cell(json.loads(template("experiment.ipynb")), notebook)
    texts = {
        NOTEBOOKS / f"{notebook}.ipynb": json.dumps(content, indent=1, ensure_ascii=False) + "\n"
    }
    if not (declared := PUBLISHED / f"{paper}.yml").exists():
        texts[declared] = template("published.yml")
    for profile, questions in SIZES.items():
        path = PROFILES / f"{profile}.yml"
        texts[path] = (
            f"{path.read_text(encoding='utf-8').rstrip()}\n\n{notebook}:\n  questions: {questions}\n"
        )
    own = [
        path.stem
        for path in NOTEBOOKS.glob("*.ipynb")
        if f'paper=\\"{paper}\\"' in path.read_text(encoding="utf-8")
    ]
    texts[CONTENTS] = with_place(CONTENTS.read_text(encoding="utf-8"), notebook, paper, own)
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
    return list(texts)


def with_place(contents: str, notebook: str, paper: str, others: Collection[str]) -> str:
    """The table of contents with a new notebook after its paper's `others`, or in a new part before the last one."""
    lines = contents.rstrip().splitlines()
    added = [f"      - file: notebooks/{notebook}"]
    own = [
        i
        for i, line in enumerate(lines, 1)
        if line.strip().removeprefix("- file: notebooks/") in others
    ]
    after = (
        own[-1]
        if own
        else max(i for i, line in enumerate(lines) if line.lstrip().startswith("- caption:"))
    )
    if not own:
        added[:0] = [f"  - caption: {paper.replace('_', ' ').capitalize()}", "    chapters:"]
    return "\n".join([*lines[:after], *added, *lines[after:]]) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m publish.new_experiment", description="Begin an experiment."
    )
    parser.add_argument("--name", required=True)
    parser.add_argument("--paper", required=True)
    options = parser.parse_args(arguments)
    written = begin(options.name, options.paper)
    sys.stdout.writelines(f"  {path.relative_to(ROOT)}\n" for path in written)
    sys.stdout.write(
        f"Run it: make notebook NB={written[0].stem} PROFILE=smoke, and then: make book\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
