"""What a notebook is run with.

It declares parameters, and a profile and the settings give them values.
"""

import ast
import difflib
import json
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import yaml

from resources.settings import NOTEBOOKS, PublicError, SettingsError, read_profile, settings


class NotebookError(PublicError, ValueError):
    """A file that is no notebook; the message says which, why, and what to do."""


def read_notebook(path: Path) -> dict[str, Any]:
    """Return a notebook as its JSON says, each cell's source as one text.

    Raises:
        NotebookError: It is no notebook of format 4.
    """
    # nbformat would validate it, at the price of several seconds of imports
    try:
        notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        for cell in notebook["cells"]:
            cell["source"] = "".join(cell["source"])
    except (ValueError, KeyError, TypeError) as error:
        raise NotebookError(
            f"{path.name} is no notebook of format 4 ({error!r}). Save it again from Jupyter; "
            "`make reproduce` makes a run anew."
        ) from error
    return notebook


def declared(notebook: Path) -> dict[str, Any]:
    """Return the parameters of a notebook with their defaults.

    They are plain assignments of literals in the one cell tagged `parameters`.

    Raises:
        SettingsError: There is no such cell, or several, or it holds something else.
    """
    sources = []
    for cell in read_notebook(notebook)["cells"]:
        if "parameters" in cell.get("metadata", {}).get("tags", []):
            sources.append(cell["source"])
    if len(sources) != 1:
        raise SettingsError(
            f"{notebook.name} needs one cell tagged `parameters`; it has {len(sources)}."
        )
    values: dict[str, Any] = {}
    for node in ast.parse(sources[0]).body:
        targets = node.targets if isinstance(node, ast.Assign) else []
        if len(targets) != 1 or not isinstance(targets[0], ast.Name):
            raise SettingsError(
                f"{notebook.name}: the cell `parameters` may hold only `name = value` lines."
            )
        assert isinstance(node, ast.Assign)
        values[targets[0].id] = ast.literal_eval(node.value)
    return values


def parameters(notebook: str, profile: str) -> dict[str, Any]:
    """Return what a profile and the settings give a notebook.

    `LLM_MODEL` goes before the notebook's section, and that before the defaults. Names are in
    alphabetical order, within a parameter too: a draw by name must not depend on the order in
    which a profile lists them.

    Raises:
        SettingsError: The section has a parameter that the notebook does not declare.
    """
    content = read_profile(profile)
    known = declared(NOTEBOOKS / f"{notebook}.ipynb")
    section = content.get(notebook) or {}
    problem = f"gives {notebook} the parameter {{!r}}, which it does not declare"
    _require_known(profile, section, known, problem)
    values = {**(content.get("defaults") or {}), **section, "profile": profile}
    if settings().llm_model:
        values["llm_model"] = settings().llm_model
    used = {name: value for name, value in values.items() if name in known}
    in_order: dict[str, Any] = yaml.safe_load(yaml.safe_dump(used, sort_keys=True))
    return in_order


def check_profile(profile: str, notebooks: list[str]) -> None:
    """Check the keys of a profile.

    Raises:
        SettingsError: A section is of no notebook, or no notebook declares a default.
    """
    content = read_profile(profile)
    every_name = set[str]()
    for notebook in notebooks:
        every_name |= declared(NOTEBOOKS / f"{notebook}.ipynb").keys()
    sections = ["defaults", *notebooks]
    problem = "has a section {!r}, but there is no such notebook"
    _require_known(profile, content, sections, problem)
    defaults = content.get("defaults") or {}
    problem = "has the default {!r}, which no notebook declares"
    _require_known(profile, defaults, every_name, problem)


def _require_known(
    profile: str, names: Iterable[str], known: Collection[str], problem: str
) -> None:
    for name in names:
        if name in known:
            continue
        near = difflib.get_close_matches(name, known, n=3)
        hint = f"There are: {', '.join(sorted(known))}."
        if near:
            hint = f"Did you mean {' or '.join(near)}?"
        raise SettingsError(f"notebooks/profiles/{profile}.yml {problem.format(name)}. {hint}")
