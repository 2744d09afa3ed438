"""Which modules and data files decide the result of a notebook, and what these say now."""

import ast
import hashlib
import json
import re
import sys
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from evaluation.published import paper_of
from resources.download import write_whole
from resources.settings import BUILD, DATA, ROOT

SOURCE = ROOT / "src"
NEVER_DECIDE = ("__init__.py", "launch.py")
"""No result depends on how a notebook was opened, and the packages' own files are empty."""
FILES = [path for path in SOURCE.rglob("*.py") if path.name not in NEVER_DECIDE]
MODULES = {".".join(path.relative_to(SOURCE).with_suffix("").parts): path for path in FILES}
SCRIPTS = {path.name: name for name, path in MODULES.items()}
DATA_FILES = {path.name for path in DATA.glob("*.yml")} - {"registry.yml"}
"""Data files that a module may name; of the registry, only what a notebook reads matters."""
LOADS_RULES = "evaluation.rules"
"""This module imports the rules of a notebook's paper by name."""
READS_RUNS = "evaluation.stored_runs"
"""This module reads what other notebooks left."""
ANALYSED = BUILD / "analysed.json"
"""What is known of each module, by the digest of its file."""
PYTHON_MAGICS = ("%%time", "%%timeit", "%%capture", "%%prun")
"""Magics of a whole cell whose body stays Python."""
_FILE_NAME = re.compile(r"[\w.-]+\.(?:py|yml)")
# a magic, a shell command or a question, the name that it is assigned to included
_NOT_PYTHON = re.compile(
    r"^([ \t]*)(?:[\w., \t]+=[ \t]*)?(?:[%!?]|[\w.]+\?\??[ \t]*$)(?:\\\n|.)*", re.MULTILINE
)


@dataclass(frozen=True)
class Code:
    """What Python source says, as far as others depend on it.

    Attributes:
        digest: of the code, without comments, docstrings and layout.
        imports: dotted names that may be modules.
        files: file names that stand in it as text.
        readable: False if it is no valid Python, so that it may depend on anything.
    """

    digest: str
    imports: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    readable: bool = True


def analyse(source: str) -> Code:
    """Return what Python source says."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return Code(_sha256(source), readable=False)
    imports: set[str] = set()
    files: set[str] = set()
    for node in _nodes_that_run(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            imports.add(str(node.module))
            imports.update(f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Import):
            imports.update(alias.name for alias in node.names)
        elif isinstance(node, ast.Constant) and _FILE_NAME.fullmatch(str(node.value)):
            files.add(str(node.value))
    return Code(_code_digest(tree), tuple(sorted(imports)), tuple(sorted(files)))


def _nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield all nodes but those that only a type checker reads."""
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        yield node
        if isinstance(node, ast.If) and _is_type_checking(node.test):
            pending.extend(node.orelse)
        else:
            pending.extend(ast.iter_child_nodes(node))


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _code_digest(tree: ast.AST) -> str:
    """Return the digest of code without its docstrings; the tree is changed."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(body, list):
            node.body = [line for line in body if not _is_text(line)]  # type: ignore[attr-defined]
    return _sha256(ast.dump(tree))


def _is_text(line: ast.stmt) -> bool:
    """Tell whether a statement is text alone, as a docstring is."""
    return isinstance(line, ast.Expr) and isinstance(line.value, ast.Constant)


def _sha256(text: str | bytes) -> str:
    content = text.encode() if isinstance(text, str) else text
    return hashlib.sha256(content).hexdigest()


@cache
def _analysed_before() -> dict[str, Code]:
    """Return what an earlier process has found out, for analysing all modules takes seconds."""
    try:
        stored = json.loads(ANALYSED.read_text(encoding="utf-8"))
        if stored["python"] != sys.version:
            return {}
        return {key: _as_code(fields) for key, fields in stored["modules"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _as_code(fields: dict[str, object]) -> Code:
    code = Code(**fields)  # type: ignore[arg-type]  # a wrong field is a TypeError
    return Code(code.digest, tuple(code.imports), tuple(code.files), code.readable)


def modules_now() -> dict[str, Code]:
    """Return what each module says now, by its dotted name."""
    before = _analysed_before()
    known: dict[str, Code] = {}
    modules: dict[str, Code] = {}
    for name, path in MODULES.items():
        content = path.read_bytes()
        key = _sha256(content)
        known[key] = before.get(key) or analyse(content.decode("utf-8", errors="replace"))
        modules[name] = known[key]
    if known.keys() != before.keys():
        stored = {key: asdict(code) for key, code in known.items()}
        write_whole(ANALYSED, json.dumps({"python": sys.version, "modules": stored}))
        before.clear()
        before.update(known)
    return modules


def imported(source: str) -> set[str]:
    """Return the project's modules that source imports, or names as a script to run."""
    return _modules_of(analyse(source))


def _modules_of(code: Code) -> set[str]:
    if not code.readable:
        return set(MODULES)
    scripts = {SCRIPTS[name] for name in code.files if name in SCRIPTS}
    return scripts | (set(code.imports) & set(MODULES))


def notebook_code(path: Path) -> Code:
    """Return what the code cells of a notebook say; one that is being written may say anything."""
    try:
        return analyse(notebook_source(path))
    except (SyntaxError, ValueError, KeyError, TypeError):
        return Code(_sha256(path.read_bytes()), readable=False)


def notebook_source(path: Path) -> str:
    """Return the Python of a notebook's code cells, with `pass` for what only IPython understands.

    Raises:
        SyntaxError: a cell is no valid Python; the message names it.
    """
    sources = []
    for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"], 1):
        text = "".join(cell["source"]) if cell["cell_type"] == "code" else ""
        sources.append(_python_of_cell(text, number))
    return "\n".join(sources)


def _python_of_cell(text: str, number: int) -> str:
    if text.lstrip().startswith("%%"):
        magic, _, body = text.lstrip().partition("\n")
        text = body if magic.startswith(PYTHON_MAGICS) else ""
    if _is_python(text):
        return text
    text = _NOT_PYTHON.sub(r"\1pass", text)
    if _is_python(text):
        return text
    raise SyntaxError(f"cell {number} is no valid Python")


def _is_python(text: str) -> bool:
    try:
        ast.parse(text)
    except SyntaxError:
        return False
    return True


def used_modules(notebook: Path, modules: dict[str, Code] | None = None) -> list[str]:
    """Return the modules that a notebook needs, also those that its modules import.

    Args:
        notebook: Path of the notebook.
        modules: What `modules_now` returns, if it is known already.
    """
    modules = modules or modules_now()
    pending = _modules_of(notebook_code(notebook))
    used: set[str] = set()
    while pending:
        name = pending.pop()
        used.add(name)
        needed = _modules_of(modules[name])
        if name == LOADS_RULES:
            needed |= {f"papers.{paper_of(notebook)}.rules"} & set(MODULES)
        pending |= needed - used
    return sorted(used)


def reads_runs(notebook: Path) -> bool:
    """Tell whether a notebook reads what others left."""
    return READS_RUNS in used_modules(notebook)


def named_data_files(notebook: Path, modules: Collection[Code]) -> list[Path]:
    """Return the data files that a notebook or one of these modules names."""
    files: set[str] = set()
    for code in (notebook_code(notebook), *modules):
        files.update(code.files if code.readable else DATA_FILES)
    return [DATA / name for name in sorted(files & DATA_FILES)]


def digests(notebook: Path) -> dict[str, str]:
    """Return the digest of each module and data file that a notebook uses, by its path."""
    modules = modules_now()
    used = used_modules(notebook, modules)
    found = {_place(MODULES[name]): modules[name].digest for name in used}
    for path in named_data_files(notebook, [modules[name] for name in used]):
        found[_place(path)] = _sha256(path.read_bytes())
    return found


def _place(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
