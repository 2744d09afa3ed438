"""Which run of each notebook the book shows: this machine's, or else the reference run."""

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, get_args

from evaluation.published import paper_of
from evaluation.records import RECORDS, Record, damaged, records
from resources.parameters import read_notebook
from resources.settings import (
    BUILD,
    NOTEBOOKS,
    RESULTS,
    ROOT,
    Profile,
    PublicError,
    run_name,
    settings,
)

REFERENCE: Final = ROOT / "book" / "reference"
REAL_PROFILES: Final[tuple[Profile, ...]] = ("laptop", "paper")

log = logging.getLogger(__name__)


class PageError(PublicError, ValueError):
    """A page or notebook that cannot be shown; the message says which, why, and what to do."""


@dataclass(frozen=True)
class Chapter:
    """A notebook and the runs of it that can be shown.

    Of `origin` "yours" is this machine's run on real data, "reference" the kept one, "none" the bare source. `beside`
    is this machine's run on the sample or of the smoke profile, `failed` the notebook of a last run that failed.
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
    """The title of a notebook: the first line of its first cell; a PageError if that is none."""
    cells = read_notebook(notebook)["cells"]
    match = (
        re.match(r"# +(.+)", cells[0]["source"])
        if cells and cells[0]["cell_type"] == "markdown"
        else None
    )
    if match is None:
        raise PageError(
            f"{notebook.name} has no title. Begin its first cell, of Markdown, with a line `# Title`."
        )
    return match.group(1).strip()


def shown_profile() -> Profile:
    """The profile that the book shows, never smoke: PROFILE if it has a run on real data; runs here go before kept."""
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
    names = map(run_name, dict.fromkeys((profile, *get_args(Profile))))
    mine = {run: {record.notebook: record for record in records(run)} for run in names}
    kept = {record.notebook: record for record in records(profile, RESULTS)}
    found = []
    for source in sorted(NOTEBOOKS.glob("*.ipynb")):
        name, reference = source.stem, REFERENCE / source.name
        left = [
            (BUILD / "executed" / run / source.name, of[name])
            for run, of in mine.items()
            if name in of
        ]
        runs = [(path, record) for path, record in left if path.is_file() and _is_whole(record)]
        beside = next(
            ((path, record) for path, record in runs if record.sample or record.profile == "smoke"),
            None,
        )
        failures = (BUILD / "failed" / run / source.name for run in mine)
        failed = next((path for path in failures if path.is_file()), None)
        own = [
            (path, record)
            for path, record in runs
            if record.profile == profile and not record.sample
        ]
        if own:
            found.append(Chapter(name, "yours", *own[0], beside=beside, failed=failed))
        elif reference.is_file() and name in kept:
            found.append(Chapter(name, "reference", reference, kept[name], beside, failed))
        else:
            found.append(Chapter(name, "none", source, None, beside, failed))
    return found


def _is_whole(record: Record) -> bool:
    if found := damaged(record.notebook, run_name(record.profile)):
        log.warning(
            "%s is damaged or missing, and is not shown. Run `make notebook NB=%s`.",
            found,
            record.notebook,
        )
    return found is None
