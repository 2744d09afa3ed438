"""What a notebook is run with: the parameters that it declares, and what a profile and the settings give them."""

from __future__ import annotations

import ast
import difflib
import json
from pathlib import Path
from typing import Any

from helpers.settings import (
    NOTEBOOKS,
    ROOT,
    SettingsError,
    read_profile,
    settings,
)


class ParameterError(SettingsError):
    """A profile gives a notebook a parameter that it does not have, or a notebook declares none, or is none."""


def cells_of(notebook: Path) -> list[dict[str, Any]]:
    """The cells of a notebook; a ParameterError if it is none."""
    try:
        return list(json.loads(notebook.read_text(encoding="utf-8"))["cells"])
    except (ValueError, KeyError, TypeError) as error:
        raise ParameterError(
            f"{notebook.relative_to(ROOT)} is no notebook ({error}). Save it again, or restore it from version control."
        ) from None


def declared(notebook: Path) -> dict[str, Any]:
    """Parameters that a notebook declares in its cell tagged `parameters`, with their defaults.

    Raises:
        ParameterError: there is no such cell, or it holds more than plain assignments of literals.
    """
    tagged = [c for c in cells_of(notebook) if "parameters" in c.get("metadata", {}).get("tags", [])]
    if len(tagged) != 1:
        raise ParameterError(f"{notebook.name} needs one cell tagged `parameters`; it has {len(tagged)}.")
    values: dict[str, Any] = {}
    for node in ast.parse("".join(tagged[0]["source"])).body:
        if not (isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)):
            raise ParameterError(f"{notebook.name}: the cell `parameters` may hold only `name = value` lines.")
        values[node.targets[0].id] = ast.literal_eval(node.value)
    return values


def parameters(notebook: str, profile: str) -> dict[str, Any]:
    """What a profile and the settings give a notebook.

    The profile's section for the notebook goes before its defaults; `LLM_MODEL` goes before both.

    Raises:
        ParameterError: the profile names a notebook or a parameter that does not exist.
    """
    whole = read_profile(profile)
    known = declared(NOTEBOOKS / f"{notebook}.ipynb")
    section = dict(whole.get(notebook) or {})
    for name in section:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3)
            raise ParameterError(
                f"notebooks/profiles/{profile}.yml gives {notebook} the parameter {name!r}, which it does not declare."
                + (f" Did you mean {' or '.join(near)}?" if near else f" It declares: {', '.join(known)}.")
            )
    values = {k: v for k, v in (whole.get("defaults") or {}).items() if k in known} | section
    if "profile" in known:
        values["profile"] = profile
    if "llm_model" in known and settings().llm_model:
        values["llm_model"] = settings().llm_model
    return values


def check_profile(profile: str, notebooks: list[str]) -> None:
    """Every key of a profile is a notebook or `defaults`, and every default is declared by some notebook."""
    whole = read_profile(profile)
    for key in whole:
        if key != "defaults" and key not in notebooks:
            near = difflib.get_close_matches(key, notebooks, n=2)
            raise ParameterError(
                f"notebooks/profiles/{profile}.yml has a section {key!r}, but there is no such notebook."
                + (f" Did you mean {near[0]!r}?" if near else "")
            )
    everything = {name for nb in notebooks for name in declared(NOTEBOOKS / f"{nb}.ipynb")}
    for name in whole.get("defaults") or {}:
        if name not in everything:
            near = difflib.get_close_matches(name, everything, n=2)
            raise ParameterError(
                f"notebooks/profiles/{profile}.yml has the default {name!r}, which no notebook declares."
                + (f" Did you mean {near[0]!r}?" if near else "")
            )
