"""Which helpers and kept data files each notebook uses, as rules for make.

Standard library only: it runs before anything is set up.

python3 src/helpers/site/dependencies.py > _build/dependencies.mk
"""

from __future__ import annotations

import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
SOURCE = ROOT / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts): path
    for path in SOURCE.rglob("*.py")
    if path.name not in {"__init__.py", "launch.py"}
}
"""Path of each module by its dotted name, as `helpers.llm` or `papers.side_effects.forward`.

Without the module that brings the project to where it is missing: no number depends on that.
"""
SCRIPTS = {path.name: name for name, path in MODULES.items()}
DATA = ROOT / "data"
REGISTRY = "registry.yml"
"""Not a dependency: the entries that a notebook reads are part of its parameters' digest (see `run`)."""


PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Magics of a whole cell whose body stays Python."""
_NOT_PYTHON = re.compile(r"^([ \t]*)(?:[\w., \t]+=[ \t]*)?(?:[%!?]|[\w.]+\?\??[ \t]*$)(?:\\\n|.)*", re.MULTILINE)
"""A magic, a shell command or a question, the name that it is assigned to included."""


def imported(source: str, file: str = "<notebook>") -> set[str]:
    """Dotted names of the project's modules that Python source imports, wherever in it, or names as a script to run.

    Raises:
        SyntaxError: it is not Python.
    """
    named: set[str] = set()
    for node in ast.walk(ast.parse(source, file)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in SCRIPTS:
            named.add(SCRIPTS[node.value])
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            named |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return named & set(MODULES)


def python_of(cell: str) -> str:
    """The Python of a code cell, `pass` standing for what IPython alone understands.

    Raises:
        SyntaxError: what is left is not Python.
    """
    if cell.lstrip().startswith("%%"):
        magic, _, cell = cell.lstrip().partition("\n")
        if not magic.startswith(PYTHON_MAGICS):
            return ""
    try:
        ast.parse(cell)
    except SyntaxError:
        cell = _NOT_PYTHON.sub(r"\1pass", cell)
        ast.parse(cell)
    return cell


def notebook_source(path: Path) -> str:
    """The Python of a notebook's code cells, without magics.

    Raises:
        SyntaxError: a cell is not Python; the message says which.
    """
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    found = []
    for number, cell in enumerate(cells, 1):
        if cell["cell_type"] == "code":
            try:
                found.append(python_of("".join(cell["source"])))
            except SyntaxError as error:
                raise SyntaxError(f"cell {number}: {error.msg}") from None
    return "\n".join(found)


def used_modules(path: Path) -> list[str]:
    """Modules that a notebook needs, those that its modules import included."""
    waiting = imported(notebook_source(path))
    used: set[str] = set()
    while waiting:
        name = waiting.pop()
        used.add(name)
        waiting |= imported(MODULES[name].read_text(encoding="utf-8"), MODULES[name].name) - used
    return sorted(used)


def named_data(source: str) -> set[str]:
    """Files that lie in `data/` itself and that Python source names, as `DATA / "other_names.yml"` does."""
    texts = {node.value for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant)}
    return {path.name for path in DATA.glob("*.*") if path.is_file() and path.name in texts} - {REGISTRY}


def needs(notebook: Path) -> list[str]:
    """Paths of what a notebook's executed copy depends on, from the root of the repository."""
    modules = used_modules(notebook)
    sources = [notebook_source(notebook), *(MODULES[name].read_text(encoding="utf-8") for name in modules)]
    data = sorted(set().union(*map(named_data, sources)))
    return [*(MODULES[name].relative_to(ROOT).as_posix() for name in modules), *(f"data/{name}" for name in data)]


def everything() -> list[str]:
    """Paths of all helpers and kept data files, for a notebook that cannot be read."""
    data = (path for path in sorted(DATA.glob("*.yml")) if path.name != REGISTRY)
    return [path.relative_to(ROOT).as_posix() for path in (*MODULES.values(), *data)]


def main() -> None:
    """Write one rule a notebook: its executed copy depends on the helpers and the data files it uses."""
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        try:
            needed = needs(notebook)
        except (SyntaxError, ValueError, KeyError, TypeError) as error:
            # one that is being written must not keep the others from running
            sys.stderr.write(
                f"{notebook.name} or a helper of it cannot be read ({error}): it depends on all of them.\n"
            )
            needed = everything()
        sys.stdout.write(f"$(EXECUTED)/{notebook.stem}.ipynb: {' '.join(needed)}\n")


if __name__ == "__main__":
    main()
