"""Tells whether a result is still that of its inputs: code, notebook, parameters, data and rules.

The digests of all inputs are noted before a notebook starts. So a file that is edited during the
run makes its result stale, whatever the clock says.
"""

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import yaml

from evaluation import records, stored_runs
from evaluation.published import paper_of
from publish import dependencies
from resources import registry
from resources.download import write_whole
from resources.parameters import parameters
from resources.settings import BUILD, NOTEBOOKS, PUBLISHED, ROOT, run_name, settings

BOOK = BUILD / "html" / "index.html"
BOOK_NOTE = BUILD / "inputs" / "book.json"
BOOK_FOLDERS = ("book", "data/answers", "data/published", "data/results", "notebooks")
"""Folders whose files the book shows, apart from this machine's runs."""
BOOK_FILES = ("_config.yml", "data/registry.yml", "CITATION.cff", "compose.yaml", "slurm.sh")
GENERATED = {"__pycache__", ".ipynb_checkpoints"}
"""Folders that Python and Jupyter leave among the sources."""
BOOK_ENVIRONMENT = ("REPOSITORY_URL", "REPOSITORY_BRANCH")
NOT_RUN = "it has not run yet"


def notebook_inputs(notebook: str, profile: str) -> dict[str, str]:
    """Return the digest of all that decides a notebook's result, by the name of the input."""
    path = NOTEBOOKS / f"{notebook}.ipynb"
    inputs = dependencies.digests(path)
    inputs[f"notebooks/{path.name}"] = file_digest(path)
    parameter_text = yaml.safe_dump(parameters(notebook, profile))
    inputs[f"the parameters of {profile}"] = _text_digest(parameter_text)
    inputs["its entries of data/registry.yml"] = _text_digest(_registry_entries(notebook))
    published = PUBLISHED / f"{paper_of(path)}.yml"
    if published.is_file():
        inputs[f"data/published/{published.name}"] = file_digest(published)
    if settings().answers == "fresh":
        inputs["ANSWERS"] = "fresh"
    if dependencies.reads_runs(path):
        for other, record in stored_runs.records_of_others(notebook, profile).items():
            inputs[f"the run of {other}"] = file_digest(record)
    return inputs


def _registry_entries(notebook: str) -> str:
    entries = registry.registry().values()
    read = [entry.model_dump(mode="json") for entry in entries if notebook in entry.readers]
    return json.dumps(read, sort_keys=True, default=str)


def file_digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def note_path(notebook: str, profile: str) -> Path:
    """Return where the inputs of a notebook's last run are noted."""
    return BUILD / "inputs" / run_name(profile) / f"{notebook}.json"


def note(path: Path, inputs: dict[str, str]) -> None:
    """Note the inputs of a result."""
    write_whole(path, json.dumps(inputs, indent=1) + "\n")


def noted(path: Path) -> dict[str, Any]:
    """Return the inputs of a result as they were noted; empty if they are missing or damaged."""
    try:
        inputs = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return inputs if isinstance(inputs, dict) else {}


def why_stale(notebook: str, profile: str) -> str:
    """Return why a notebook has to run again; empty if its result is up to date."""
    executed = BUILD / "executed" / run_name(profile) / f"{notebook}.ipynb"
    if not executed.exists():
        return NOT_RUN
    damaged = records.damaged(notebook, run_name(profile))
    if damaged:
        return f"{damaged.relative_to(ROOT)} is missing or damaged"
    path = note_path(notebook, profile)
    if not path.exists():
        return "what it was made from is not known"
    return changes(noted(path), notebook_inputs(notebook, profile))


def changes(before: dict[str, Any], now: dict[str, str]) -> str:
    """Return which inputs changed, in a few words; empty if none did."""
    changed = [name for name in sorted({*before, *now}) if before.get(name) != now.get(name)]
    if not changed:
        return ""
    if len(changed) == 1:
        return f"{changed[0]} changed"
    return f"{changed[0]} and {len(changed) - 1} other inputs changed"


def book_is_stale() -> bool:
    """Tell whether the book shows anything else than it would if it were built now."""
    return not BOOK.exists() or noted(BOOK_NOTE) != book_inputs()


def book_inputs() -> dict[str, str]:
    """Return the digest of everything that the book shows, by the name of the input."""
    paths = [ROOT / name for name in BOOK_FILES]
    for folder in BOOK_FOLDERS:
        paths += (ROOT / folder).rglob("*")
    # a run's record stands for the run
    paths += (BUILD / "records").glob("*/*.json")
    paths += (BUILD / "failed").glob("*/*.ipynb")
    inputs = {}
    for path in sorted(paths):
        if path.is_file() and not GENERATED & set(path.parts):
            inputs[path.relative_to(ROOT).as_posix()] = file_digest(path)
    for name, code in dependencies.modules_now().items():
        if name.startswith(("publish.", "evaluation.")):
            inputs[name] = code.digest
    inputs["run"] = run_name(settings().profile)
    for name in BOOK_ENVIRONMENT:
        inputs[name] = os.environ.get(name, "")
    return inputs
