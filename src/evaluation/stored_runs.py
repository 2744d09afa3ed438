"""The newest run of each notebook: this machine's, or else the reference's.

A notebook that imports this module reads the answers of others, so it runs after them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from evaluation import answers, records
from evaluation.records import Record
from resources.settings import NOTEBOOKS, RESULTS, run_name

REFERENCE_PROFILES: Final = ("laptop", "paper")
"""Profiles that a reference may be of; the first one that has a run is read."""


@dataclass(frozen=True)
class RunFiles:
    """Where a run left its record and its answers.

    Attributes:
        record: File of the record.
        answers: Folder of the answers.
        is_reference: Whether git keeps the run.
    """

    record: Path
    answers: Path
    is_reference: bool

    @property
    def is_complete(self) -> bool:
        """Whether the run has a record and answers."""
        return self.record.is_file() and any(self.answers.glob("*.parquet"))


@dataclass(frozen=True)
class StoredRun:
    """A run whose answers another notebook reads."""

    files: RunFiles
    record: Record

    @property
    def origin(self) -> str:
        """Whose run it is, for a reader."""
        if self.files.is_reference:
            return "reference run"
        return "run of the SAMPLE" if self.record.sample else "run on the same machine"


def newest_files(notebook: str, profile: str) -> RunFiles | None:
    """Return the files of a notebook's newest run; None if it has none with answers."""
    name = run_name(profile)
    own = RunFiles(
        records.RECORDS / name / f"{notebook}.json", answers.BUILT / name / notebook, False
    )
    if own.is_complete:
        return own
    for reference_name in dict.fromkeys((name, *REFERENCE_PROFILES)):
        folder = answers.RELEASED / answers.released(notebook, reference_name)
        reference = RunFiles(RESULTS / reference_name / f"{notebook}.json", folder, True)
        if reference.is_complete:
            return reference
    return None


def newest_run(notebook: str, profile: str) -> StoredRun | None:
    """Return a notebook's newest run; None if it has none with answers.

    Raises:
        RecordError: If its record is damaged.
    """
    files = newest_files(notebook, profile)
    return StoredRun(files, records.load(files.record)) if files else None


def records_of_others(notebook: str, profile: str) -> dict[str, Path]:
    """Return the record of every other notebook's newest run that has answers, by notebook."""
    found = {}
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files = newest_files(path.stem, profile)
        if files and path.stem != notebook:
            found[path.stem] = files.record
    return found
