"""Which run of each notebook the book shows: this machine's, or else the reference run."""

from __future__ import annotations

import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, get_args

from helpers.results.published import paper_of
from helpers.results.records import RECORDS, Record, damaged, records
from helpers.settings import BUILD, NOTEBOOKS, RESULTS, ROOT, Profile, PublicError, run_name, settings

REFERENCE: Final = ROOT / "book" / "reference"
REAL_PROFILES: Final[tuple[Profile, ...]] = ("laptop", "paper")


log = logging.getLogger(__name__)


class PageError(PublicError, ValueError):
    """A page or notebook that cannot be shown; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Chapter:
    """A notebook and the runs of it that can be shown.

    Attributes:
        name: of the notebook, without its suffix.
        origin: "yours" if `notebook` is this machine's run on real data, "reference" if it is the kept one, "none" if
            it is the bare source.
        notebook: the one to show.
        record: that of the run that is shown, if there is one.
        beside: this machine's run on the sample, or of the smoke profile: notebook and record.
        failed: the notebook of this machine's last run, if that failed.
    """

    name: str
    origin: Literal["yours", "reference", "none"]
    notebook: Path
    record: Record | None = None
    beside: tuple[Path, Record] | None = None
    failed: Path | None = None

    @property
    def paper(self) -> str | None:
        """The paper that the notebook reports on."""
        return paper_of(self.notebook)

    @property
    def title(self) -> str:
        """The notebook's heading."""
        return heading(self.notebook)


def heading(notebook: Path) -> str:
    """The title of a notebook: the first line of its first cell.

    Raises:
        PageError: it does not begin with a title.
    """
    cells = read_notebook(notebook)["cells"]
    match = re.match(r"# +(.+)", cells[0]["source"]) if cells and cells[0]["cell_type"] == "markdown" else None
    if match is None:
        raise PageError(f"{notebook.name} has no title. Begin its first cell, of Markdown, with a line `# Title`.")
    return match.group(1).strip()


def read_notebook(path: Path) -> dict[str, Any]:
    """A notebook as its JSON says, each cell's source as one text.

    Raises:
        PageError: it is no notebook of format 4.
    """
    # nbformat would validate it, at the price of several seconds of imports
    try:
        notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
    except (ValueError, KeyError, TypeError) as error:
        raise PageError(
            f"{path.name} is not a notebook of format 4 ({error!r}). Save it again from Jupyter; a run is made anew by "
            "`make reproduce`."
        ) from error
    return notebook


def shown_profile() -> Profile:
    """The profile whose runs the book shows.

    It is the setting PROFILE where that has a run on real data; a run of this machine goes before a kept one. The
    smoke profile is never the book's.
    """
    wanted = [p for p in dict.fromkeys((settings().profile, *REAL_PROFILES)) if p != "smoke"]
    for folder in (RECORDS, RESULTS):
        for profile in wanted:
            name = run_name(profile) if folder == RECORDS else profile
            if any(not record.sample for record in records(name, folder)):
                return profile
    return wanted[0]


def chapters() -> list[Chapter]:
    """Every notebook of the project, with what there is to show of it."""
    profile = shown_profile()
    every = tuple(dict.fromkeys((profile, *get_args(Profile))))
    mine = {p: {record.notebook: record for record in records(run_name(p))} for p in every}
    kept = {record.notebook: record for record in records(profile, RESULTS)}
    return [_chapter(path.stem, profile, mine, kept) for path in sorted(NOTEBOOKS.glob("*.ipynb"))]


def _chapter(name: str, profile: Profile, mine: dict[Profile, dict[str, Record]], kept: dict[str, Record]) -> Chapter:
    runs = [(_executed(name, p), found[name]) for p, found in mine.items() if name in found]
    runs = [(path, record) for path, record in runs if path.is_file() and _is_whole(record)]
    beside = next(((path, record) for path, record in runs if record.sample or record.profile == "smoke"), None)
    failed = next((path for p in mine if (path := BUILD / "failed" / run_name(p) / f"{name}.ipynb").is_file()), None)
    own = [(path, record) for path, record in runs if record.profile == profile and not record.sample]
    reference = REFERENCE / f"{name}.ipynb"
    if own:
        return Chapter(name, "yours", *own[0], beside=beside, failed=failed)
    if reference.is_file() and name in kept:
        return Chapter(name, "reference", reference, kept[name], beside, failed)
    return Chapter(name, "none", NOTEBOOKS / f"{name}.ipynb", None, beside, failed)


def _is_whole(record: Record) -> bool:
    if found := damaged(record.notebook, run_name(record.profile)):
        log.warning("%s is damaged or missing, and is not shown. Run `make notebook NB=%s`.", found, record.notebook)
    return found is None


def _executed(name: str, profile: Profile) -> Path:
    return BUILD / "executed" / run_name(profile) / f"{name}.ipynb"
