"""Which helpers and kept data files each notebook uses, as rules for make.

Standard library only: it runs before anything is set up.

python3 src/helpers/dependencies.py > _build/dependencies.mk
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HELPERS = ROOT / "src" / "helpers"
MODULES = {
    ".".join(path.relative_to(HELPERS).with_suffix("").parts): path
    for path in HELPERS.rglob("*.py")
    if path.name not in {"__init__.py", "launch.py"}
}
"""Path of each helper by its dotted name, as `llm` or `side_effects.forward`.

Without the module that brings the project to where it is missing: no number depends on that.
"""
SCRIPTS = {path.name: name for name, path in MODULES.items()}
DATA = ROOT / "data"
REGISTRY = "registry.yml"
"""Not a dependency: the entries that a notebook reads are part of its parameters' digest (see `run`)."""


def imported(source: str) -> set[str]:
    """Dotted names of the helper modules that Python source imports, wherever in it, or names as a script to run."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in SCRIPTS:
            named.add(SCRIPTS[node.value])
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "helpers":
            named |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return {name.removeprefix("helpers.") for name in named} & set(MODULES)


def notebook_source(path: Path) -> str:
    """The Python of a notebook's code cells, without magics."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    lines = [line for c in cells if c["cell_type"] == "code" for line in "".join(c["source"]).splitlines()]
    return "\n".join(line for line in lines if not line.lstrip().startswith(("%", "!")))


def used_modules(path: Path) -> list[str]:
    """Helper modules that a notebook needs, those that its helpers import included."""
    waiting = imported(notebook_source(path))
    used: set[str] = set()
    while waiting:
        name = waiting.pop()
        used.add(name)
        waiting |= imported(MODULES[name].read_text(encoding="utf-8")) - used
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


def main() -> None:
    """Write one rule a notebook: its executed copy depends on the helpers and the data files it uses."""
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        sys.stdout.write(f"$(EXECUTED)/{notebook.stem}.ipynb: {' '.join(needs(notebook))}\n")


if __name__ == "__main__":
    main()
