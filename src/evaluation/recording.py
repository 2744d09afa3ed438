"""Put a profile's replies and searches into the repository: a run of it asks and encodes nothing.

A run with `ANSWERS=stored-only` then answers everything from `data/requests/<profile>` and
`data/retrieval/<profile>`, and takes the times of single questions from `data/timings/<profile>`.
"""

import json
import shutil
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evaluation import answers, records
from helpers import neighbours, requests
from helpers.requests import Row, StoreError
from resources import artifacts, engines, lora
from resources.settings import BUILD, run_command_line, run_name, settings

TIMES_LICENCE = "CC0-1.0"
"""Licence of the times and of the questions that they belong to, which the project made."""
MAX_BYTES = 2 * 2**20
"""Largest file that is kept in git."""


@dataclass(frozen=True)
class Recorded:
    """What was recorded.

    Attributes:
        n_replies: Number of replies in the folder.
        changes: How many replies of each notebook are new, and how many are no longer there.
    """

    n_replies: int
    changes: dict[str, tuple[int, int]]

    def text(self, folder: Path) -> str:
        """Say how many replies there are, and what changed by notebook."""
        lines = [f"{self.n_replies:,} replies are in {folder}."]
        for notebook, (n_new, n_dropped) in self.changes.items():
            lines.append(f"{notebook}: {n_new:,} new, {n_dropped:,} no longer asked")
        return "\n".join(lines)


def record_replies(profile: str) -> Recorded:
    """Write the replies that this machine's run of a profile used, a file for each notebook.

    Replies that another folder of `data/requests` has are not written again. Adapters
    that gave some of the replies go to `data/adapters`, results of searches to
    `data/retrieval`.

    Returns:
        How many replies there are, and what changed.

    Raises:
        StoreError: If there is no run, a reply is not stored, or a file is too large.
    """
    runs = sorted((BUILD / "records" / run_name(profile)).glob("*.json"))
    if not runs:
        raise StoreError(
            f"There is no run of profile {profile} to record. "
            f"Run `make reproduce PROFILE={profile}`."
        )
    folder = requests.RELEASED / profile
    other_keys = _released_keys(except_for=folder)
    n_replies = 0
    changes = {}
    for run in runs:
        neighbours.release(run_name(profile), run.stem)
        _record_times(run.stem, profile)
        rows = [row for row in _rows_of(run) if row.key not in other_keys]
        path = folder / run.with_suffix(".parquet").name
        before = {row.key for row in requests.read(path)} if path.exists() else set()
        path.unlink(missing_ok=True)
        if rows:
            requests.write(path, rows)
            _check_size(path)
            _release_adapters(rows)
            n_replies += len(rows)
        now = {row.key for row in rows}
        if now != before:
            changes[run.stem] = (len(now - before), len(before - now))
    return Recorded(n_replies, changes)


def _record_times(notebook: str, profile: str) -> None:
    """Write the rows that only a live server can make, those of repetition 1."""
    own_run = answers.BUILT / run_name(profile) / notebook
    if not any(own_run.glob("*.parquet")):
        return
    rows = answers.read(own_run)
    timed = rows[rows["repeat"] == 1]
    if len(timed):
        folder = answers.TIMED / run_name(profile) / notebook
        answers.write(folder, timed, licence=TIMES_LICENCE)


def _rows_of(run: Path) -> list[Row]:
    """The rows of the store that the record of a run names."""
    listed = records.requests_file(run)
    if not listed.is_file():
        return []
    keys = json.loads(listed.read_text("utf-8"))["requests"]
    rows = requests.store(requests.working()).get(keys)
    if missing := keys.keys() - rows.keys():
        raise StoreError(
            f"{len(missing)} replies of {run.stem} are not stored. "
            f"Run `make notebook NB={run.stem}` again, and see that the disk has room."
        )
    return list(rows.values())


def _released_keys(except_for: Path) -> set[str]:
    """Keys of all replies in the repository but those in one folder."""
    paths = [path for path in requests.RELEASED.glob("*/*.parquet") if path.parent != except_for]
    keys: set[str] = set()
    for path in paths:
        keys.update(row.key for row in requests.read(path))
    return keys


def _check_size(path: Path) -> None:
    size = path.stat().st_size
    if size > MAX_BYTES:
        path.unlink()
        raise StoreError(
            f"{path} would have {size:,} bytes; at most {MAX_BYTES:,} are kept in git. Ask less "
            "in notebooks/profiles."
        )


def _release_adapters(rows: Iterable[Row]) -> None:
    """Copy the adapters that gave some of these replies to those in the repository."""
    weights = {row.weights for row in rows}
    for log in lora.ADAPTERS.glob(f"[!.]*/{artifacts.LOG}"):
        digest = json.loads(log.read_text("utf-8"))["sha256"]
        if any(name.endswith(f"+{digest}") for name in weights):
            released = engines.RELEASED / log.parent.name
            shutil.copytree(log.parent, released, dirs_exist_ok=True)


def main() -> int:
    """Record the profile of the settings."""
    profile = settings().profile
    recorded = record_replies(profile)
    sys.stdout.write(f"{recorded.text(requests.RELEASED / profile)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
