"""What a notebook is run with: the parameters that it declares, and what a profile and the settings give them."""

import ast
import difflib
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

from resources.settings import NOTEBOOKS, PublicError, SettingsError, read_profile, settings


class NotebookError(PublicError, ValueError):
    """A file that is no notebook; the message says which, why, and what to do."""


def read_notebook(path: Path) -> dict[str, Any]:
    """A notebook as its JSON says, each cell's source as one text; a NotebookError if it is none of format 4."""
    # nbformat would validate it, at the price of several seconds of imports
    try:
        notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
    except (ValueError, KeyError, TypeError) as error:
        why = f"{path.name} is no notebook of format 4 ({error!r})"
        raise NotebookError(
            f"{why}. Save it again from Jupyter; `make reproduce` makes a run anew."
        ) from error
    return notebook


def declared(notebook: Path) -> dict[str, Any]:
    """Parameters with their defaults, plain assignments of literals in the one cell tagged `parameters`."""
    tagged = [
        c
        for c in read_notebook(notebook)["cells"]
        if "parameters" in c.get("metadata", {}).get("tags", [])
    ]
    if len(tagged) != 1:
        raise SettingsError(
            f"{notebook.name} needs one cell tagged `parameters`; it has {len(tagged)}."
        )
    values: dict[str, Any] = {}
    for node in ast.parse(tagged[0]["source"]).body:
        if not (
            isinstance(node, ast.Assign)
            and len(node.targets) == 1
            and isinstance(node.targets[0], ast.Name)
        ):
            raise SettingsError(
                f"{notebook.name}: the cell `parameters` may hold only `name = value` lines."
            )
        values[node.targets[0].id] = ast.literal_eval(node.value)
    return values


def parameters(notebook: str, profile: str) -> dict[str, Any]:
    """What a profile and the settings give a notebook: `LLM_MODEL` before its section, that before the defaults."""
    whole, known = read_profile(profile), declared(NOTEBOOKS / f"{notebook}.ipynb")
    section = whole.get(notebook) or {}
    _need_known(
        profile, section, known, f"gives {notebook} the parameter {{!r}}, which it does not declare"
    )
    values = {**(whole.get("defaults") or {}), **section, "profile": profile}
    if settings().llm_model:
        values["llm_model"] = settings().llm_model
    return {name: value for name, value in values.items() if name in known}


def check_profile(profile: str, notebooks: list[str]) -> None:
    """Every key of a profile is a notebook or `defaults`, and every default is declared by some notebook."""
    whole = read_profile(profile)
    everything = {name for nb in notebooks for name in declared(NOTEBOOKS / f"{nb}.ipynb")}
    _need_known(
        profile,
        whole,
        ["defaults", *notebooks],
        "has a section {!r}, but there is no such notebook",
    )
    _need_known(
        profile,
        whole.get("defaults") or {},
        everything,
        "has the default {!r}, which no notebook declares",
    )


def _need_known(profile: str, given: Iterable[str], known: Collection[str], problem: str) -> None:
    if name := next((name for name in given if name not in known), None):
        near = difflib.get_close_matches(name, known, n=3)
        hint = (
            f"Did you mean {' or '.join(near)}?"
            if near
            else f"There are: {', '.join(sorted(known))}."
        )
        raise SettingsError(f"notebooks/profiles/{profile}.yml {problem.format(name)}. {hint}")
