"""Begins an experiment of your own: notebook, sizes, paper's numbers, place in the book.

`medrerun new-experiment first_try my_paper` fills the templates in `notebooks/template/`.
"""

import argparse
import json
import re
import sys
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from publish import launch
from resources.settings import NOTEBOOKS, PROFILES, PUBLISHED, ROOT, PublicError, run_command_line

TEMPLATE: Final = NOTEBOOKS / "template"
CONTENTS: Final = ROOT / "book" / "_toc.yml"
TRIALS: Final = ROOT / "data" / "trials.yml"
SIZES: Final = {"smoke": 8, "laptop": 40, "paper": 400}  # questions of the template in each profile


class ExperimentError(PublicError, ValueError):
    """The experiment cannot be begun; the message says why, and what to do."""


@dataclass(frozen=True)
class Experiment:
    """A new experiment, and the texts of its files."""

    name: str
    paper: str
    notebook: str
    """Name of the notebook, with its number and without `.ipynb`."""

    def files(self) -> dict[Path, str]:
        """Return the text of each file that is new or added to."""
        files = {NOTEBOOKS / f"{self.notebook}.ipynb": self._notebook_text()}
        numbers = PUBLISHED / f"{self.paper}.yml"
        if not numbers.exists():
            files[numbers] = self._from_template("published.yml")
            declared = TRIALS.read_text(encoding="utf-8").rstrip()
            trial = self._from_template("trials.yml")
            files[TRIALS] = f"{declared}\n\n# --- {self.paper}\n{trial}"
        for profile, questions in SIZES.items():
            path = PROFILES / f"{profile}.yml"
            before = path.read_text(encoding="utf-8").rstrip()
            files[path] = f"{before}\n\n{self.notebook}:\n  questions: {questions}\n"
        contents = CONTENTS.read_text(encoding="utf-8")
        others = _notebooks_of(self.paper)
        files[CONTENTS] = with_place(contents, self.notebook, self.paper, others)
        return files

    def _notebook_text(self) -> str:
        template = json.loads(self._from_template("experiment.ipynb"))
        content = launch.with_cell(template, self.notebook)
        return json.dumps(content, indent=1, ensure_ascii=False) + "\n"

    def _from_template(self, file: str) -> str:
        """Return the text of a template with this experiment's names."""
        text = (TEMPLATE / file).read_text(encoding="utf-8")
        text = text.replace("00_my_paper_my_experiment", self.notebook)
        names = {"my_paper": self.paper, "my_experiment": self.name}
        return re.sub(r"\bmy_(paper|experiment)\b", lambda match: names[match[0]], text)


def begin(name: str, paper: str) -> list[Path]:
    """Write the files of a new experiment.

    Args:
        name: Name of the experiment.
        paper: Its paper, which may be a new one.

    Returns:
        The files that were written or added to.

    Raises:
        ExperimentError: A name has other characters than it may, or the experiment exists.
    """
    _check_name("NAME", name)
    _check_name("PAPER", paper)
    existing = sorted(NOTEBOOKS.glob(f"*_{paper}_{name}.ipynb"))
    if existing:
        raise ExperimentError(f"{existing[0].relative_to(ROOT)} exists. Choose another NAME.")
    notebook = f"{_next_number():02}_{paper}_{name}"
    # every text is made before the first is written
    files = Experiment(name, paper, notebook).files()
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


def _check_name(what: str, name: str) -> None:
    if not re.fullmatch(r"[a-z][a-z0-9_]*", name):
        raise ExperimentError(
            f"{what} is made of a-z, 0-9 and _, and begins with a letter; found {name!r}. "
            "For example: medrerun new-experiment first_try my_paper"
        )


def _next_number() -> int:
    """Return the number of the next notebook."""
    matches = [re.match(r"\d+", path.name) for path in NOTEBOOKS.glob("*.ipynb")]
    return max((int(match[0]) for match in matches if match), default=-1) + 1


def _notebooks_of(paper: str) -> list[str]:
    """Return the notebooks that report on a paper."""
    mark = f'paper=\\"{paper}\\"'
    return [
        path.stem for path in NOTEBOOKS.glob("*.ipynb") if mark in path.read_text(encoding="utf-8")
    ]


def with_place(contents: str, notebook: str, paper: str, others: Collection[str]) -> str:
    """Return the table of contents with a new notebook.

    Args:
        contents: Text of `book/_toc.yml`.
        notebook: Name of the new notebook.
        paper: Name of its paper.
        others: The paper's notebooks, after which the new one comes. If the contents have none
            of them, the notebook begins a new part before the last one.
    """
    lines = contents.rstrip().splitlines()
    added = [f"      - file: notebooks/{notebook}"]
    after = 0
    for number, line in enumerate(lines, 1):
        if line.strip().removeprefix("- file: notebooks/") in others:
            after = number
    if not after:
        captions = [line.lstrip().startswith("- caption:") for line in lines]
        after = max(index for index, is_caption in enumerate(captions) if is_caption)
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
