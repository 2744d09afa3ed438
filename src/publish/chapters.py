"""Which run of each notebook the book shows: this machine's, or else the reference run."""

import logging
import re
from collections.abc import Iterable, Mapping
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

    Of `origin` "yours" is this machine's run on real data, "reference" the kept one, "none" the
    bare source. `beside` is this machine's run on the sample or of the smoke profile, `failed`
    the notebook of a last run that failed.
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
    """Return the title of a notebook, which is the first line of its first cell.

    Raises:
        PageError: The first cell is none of Markdown that begins with a title.
    """
    cells = read_notebook(notebook)["cells"]
    match = None
    if cells and cells[0]["cell_type"] == "markdown":
        match = re.match(r"# +(.+)", cells[0]["source"])
    if match is None:
        raise PageError(
            f"{notebook.name} has no title. "
            "Begin its first cell, of Markdown, with a line `# Title`."
        )
    return match.group(1).strip()


def shown_profile() -> Profile:
    """Return the profile that the book shows, which is never smoke.

    It is `PROFILE` or else another one, whichever first has a run on real data. Runs of this
    machine go before the kept ones.
    """
    profiles = [
        profile
        for profile in dict.fromkeys((settings().profile, *REAL_PROFILES))
        if profile != "smoke"
    ]
    for folder in (RECORDS, RESULTS):
        for profile in profiles:
            name = run_name(profile) if folder == RECORDS else profile
            if any(not record.sample for record in records(name, folder)):
                return profile
    return profiles[0]


def chapters() -> list[Chapter]:
    """Return every notebook of the project, with what can be shown of it."""
    profile = shown_profile()
    runs = map(run_name, dict.fromkeys((profile, *get_args(Profile))))
    records_by_run = {run: _records_by_notebook(run) for run in runs}
    reference_records = _records_by_notebook(profile, RESULTS)
    return [
        _chapter(source, profile, records_by_run, reference_records.get(source.stem))
        for source in sorted(NOTEBOOKS.glob("*.ipynb"))
    ]


def _records_by_notebook(run: str, folder: Path | None = None) -> dict[str, Record]:
    return {record.notebook: record for record in records(run, folder)}


def _chapter(
    source: Path,
    profile: Profile,
    records_by_run: Mapping[str, Mapping[str, Record]],
    reference_record: Record | None,
) -> Chapter:
    """Return what can be shown of one notebook.

    Args:
        source: The notebook without outputs.
        profile: Profile that the book shows.
        records_by_run: This machine's records by run and notebook; those of `profile` come first.
        reference_record: Record of the kept run.
    """
    name = source.stem
    own, beside = None, None
    for path, record in _runs_of(source, records_by_run):
        if record.sample or record.profile == "smoke":
            beside = beside or (path, record)
        elif record.profile == profile:
            own = own or (path, record)
    failed = _failed_run(source, records_by_run)
    reference = REFERENCE / source.name
    if own:
        return Chapter(name, "yours", *own, beside=beside, failed=failed)
    if reference.is_file() and reference_record:
        return Chapter(name, "reference", reference, reference_record, beside, failed)
    return Chapter(name, "none", source, None, beside, failed)


def _failed_run(source: Path, runs: Iterable[str]) -> Path | None:
    """Return the notebook of the last run that failed."""
    paths = [BUILD / "failed" / run / source.name for run in runs]
    return next((path for path in paths if path.is_file()), None)


def _runs_of(
    source: Path, records_by_run: Mapping[str, Mapping[str, Record]]
) -> list[tuple[Path, Record]]:
    """Return this machine's runs of a notebook whose files are complete."""
    runs = []
    for run, own_records in records_by_run.items():
        record = own_records.get(source.stem)
        path = BUILD / "executed" / run / source.name
        if record and path.is_file() and _is_complete(record):
            runs.append((path, record))
    return runs


def _is_complete(record: Record) -> bool:
    problem = damaged(record.notebook, run_name(record.profile))
    if problem:
        log.warning(
            "%s is damaged or missing, and is not shown. Run `make notebook NB=%s`.",
            problem,
            record.notebook,
        )
    return problem is None
