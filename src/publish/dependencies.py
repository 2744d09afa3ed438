"""Which helpers and kept data files each notebook uses, as rules for make.

Standard library only, for it runs before anything is set up: python3 src/publish/dependencies.py
"""

import ast
import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src"
# without `launch`, for no number depends on how a notebook was opened
FILES = [path for path in SOURCE.rglob("*.py") if path.name not in {"__init__.py", "launch.py"}]
MODULES = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in FILES}
SCRIPTS = {path.name: name for name, path in MODULES.items()}
DATA = ROOT / "data"
# the registry's entries that a notebook reads are part of its parameters' digest (see `run`)
KEPT = {path.name for path in DATA.glob("*.yml")} - {"registry.yml"}
PYTHON_MAGICS = (
    "%%time",
    "%%timeit",
    "%%capture",
    "%%prun",
)  # magics of a whole cell whose body stays Python
# a magic, a shell command or a question, the name that it is assigned to included
_NOT_PYTHON = re.compile(
    r"^([ \t]*)(?:[\w., \t]+=[ \t]*)?(?:[%!?]|[\w.]+\?\??[ \t]*$)(?:\\\n|.)*", re.MULTILINE
)


def imported(source: str, file: str = "<notebook>") -> set[str]:
    """Dotted names of the project's modules that Python source imports, wherever in it, or names as a script to run."""
    named: set[str] = set()
    for node in ast.walk(ast.parse(source, file)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in SCRIPTS:
            named.add(SCRIPTS[node.value])
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            named |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            named |= {alias.name for alias in node.names}
    return named & set(MODULES)


def notebook_source(path: Path) -> str:
    """The Python of a notebook's code cells, `pass` for what only IPython understands; a SyntaxError names the cell."""
    found = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], 1):
        text = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
        if text.lstrip().startswith("%%"):
            magic, _, body = text.lstrip().partition("\n")
            text = body if magic.startswith(PYTHON_MAGICS) else ""
        try:
            ast.parse(text)
        except SyntaxError:
            text = _NOT_PYTHON.sub(r"\1pass", text)
            try:
                ast.parse(text)
            except SyntaxError as error:
                raise SyntaxError(f"cell {number}: {error.msg}") from None
        found.append(text)
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


def needs(notebook: Path) -> list[str]:
    """Paths of the modules that a notebook uses and of the data files that any of them names, below the root."""
    modules = [MODULES[name] for name in used_modules(notebook)]
    sources = [
        notebook_source(notebook),
        *(module.read_text(encoding="utf-8") for module in modules),
    ]
    named = {
        node.value
        for source in sources
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant)
    }
    return [
        path.relative_to(ROOT).as_posix()
        for path in (*modules, *(DATA / name for name in sorted(KEPT & named)))
    ]


def main() -> None:
    """Write one rule a notebook: its executed copy depends on the helpers and the data files it uses."""
    everything = [
        path.relative_to(ROOT).as_posix()
        for path in (*MODULES.values(), *(DATA / n for n in sorted(KEPT)))
    ]
    for notebook in sorted((ROOT / "notebooks").glob("*.ipynb")):
        try:
            needed = needs(notebook)
        except (SyntaxError, ValueError, KeyError, TypeError) as error:
            # one that is being written must not keep the others from running
            sys.stderr.write(
                f"{notebook.name} or a helper of it cannot be read ({error}): it depends on all.\n"
            )
            needed = everything
        sys.stdout.write(f"$(EXECUTED)/{notebook.stem}.ipynb: {' '.join(needed)}\n")


if __name__ == "__main__":
    main()
