"""Limits on what a reader must hold in mind at once, for all code in `src`.

The limits apply to single statements and functions. They do not count lines or tokens,
so neither longer lines nor extra lines help to meet them. ruff checks the rest.
"""

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[1] / "src"
MAX_BRANCHES_PER_STATEMENT = 2
"""Loops, filters, conditional expressions and boolean operators within a statement."""
MAX_NESTING = 3
"""Calls and comprehensions within the arguments of one another."""
MAX_COMPLEXITY = 10
"""Branches of a function, those within its statements included, plus one."""
MIN_PARAMETERS_WITH_ARGS_SECTION = 4
SHARED_PACKAGES = ("resources", "helpers", "rag", "evaluation")
"""What several papers use. Only here must a docstring list arguments; elsewhere it may."""

BANNED_NAMES = frozenset(
    {
        "apart",
        "asked",
        "at",
        "few",
        "given",
        "here",
        "kept",
        "made",
        "mend",
        "mine",
        "most",
        "of",
        "one",
        "put",
        "said",
        "taken",
        "there",
        "told",
        "tried",
        "waiting",
        "wanted",
        "whole",
    }
)
"""Words that do not say what a value is."""

COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BLOCKS = (ast.If, ast.For, ast.While, ast.ExceptHandler, ast.match_case)
VACUOUS = re.compile(r"^\s+\*{0,2}\w+: (?:The|A|An) \w+\.$", re.MULTILINE)


def branches(node: ast.AST) -> int:
    """Count the branches that one expression node adds."""
    if isinstance(node, ast.comprehension):
        return 1 + len(node.ifs)
    if isinstance(node, ast.BoolOp):
        return len(node.values) - 1
    return int(isinstance(node, ast.IfExp | ast.Lambda | ast.NamedExpr))


def expressions(statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the expression nodes of a statement, without those of its body."""
    nodes: list[ast.AST] = [statement]
    while nodes:
        for child in ast.iter_child_nodes(nodes.pop()):
            if not isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case):
                yield child
                nodes.append(child)


def nesting(node: ast.AST) -> int:
    """Return how deep calls and comprehensions are nested; chained calls are flat."""
    if isinstance(node, ast.Call):
        arguments = [nesting(child) for child in (*node.args, *node.keywords)]
        return max(1 + max(arguments, default=0), nesting(node.func))
    children = [
        nesting(child) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)
    ]
    level = isinstance(node, (*COMPREHENSIONS, ast.IfExp, ast.Lambda))
    return level + max(children, default=0)


def complexity(function: ast.AST) -> int:
    """Return the cyclomatic complexity, with the branches within statements."""
    nodes = list(ast.walk(function))
    blocks = sum(isinstance(node, BLOCKS) for node in nodes)
    return 1 + blocks + sum(branches(node) for node in nodes)


def bound_names(node: ast.AST) -> list[str]:
    """Return the names that a node defines."""
    if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
        return [node.name.strip("_")]
    if isinstance(node, ast.arg):
        return [node.arg]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    return []


def has_nested_comprehension(node: ast.AST) -> bool:
    """Whether a node is a comprehension with another one inside."""
    if not isinstance(node, COMPREHENSIONS):
        return False
    return sum(isinstance(child, COMPREHENSIONS) for child in ast.walk(node)) > 1


def check_statement(statement: ast.stmt) -> Iterator[str]:
    """Yield the problems of one statement."""
    if isinstance(statement, (*FUNCTIONS, ast.ClassDef)):
        return
    nodes = list(expressions(statement))
    if sum(branches(node) for node in nodes) > MAX_BRANCHES_PER_STATEMENT:
        yield "too many branches in one statement"
    if any(nesting(node) > MAX_NESTING for node in nodes):
        yield "calls are nested too deeply"
    if any(has_nested_comprehension(node) for node in nodes):
        yield "nested comprehension"


def check_function(
    function: ast.FunctionDef | ast.AsyncFunctionDef, *, shared: bool
) -> Iterator[str]:
    """Yield the problems of one function."""
    if complexity(function) > MAX_COMPLEXITY:
        yield f"complexity of {function.name}"
    if shared and not function.name.startswith("_"):
        yield from check_docstring(function)


def raises_error(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a function raises an error of its own."""
    raises = [node for node in ast.walk(function) if isinstance(node, ast.Raise)]
    return any(node.exc for node in raises)


def check_docstring(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    """Yield what the docstring of a public function lacks."""
    docstring = ast.get_docstring(function) or ""
    arguments = function.args.args + function.args.kwonlyargs
    names = {argument.arg for argument in arguments} - {"self", "cls"}
    if len(names) >= MIN_PARAMETERS_WITH_ARGS_SECTION and "Args:" not in docstring:
        yield f"{function.name} needs a section Args"
    if raises_error(function) and "Raises:" not in docstring:
        yield f"{function.name} needs a section Raises"
    if VACUOUS.search(docstring):
        yield f"a description in {function.name} repeats the name"


def check(tree: ast.Module, *, shared: bool) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each problem of a module."""
    for node in ast.walk(tree):
        line = getattr(node, "lineno", 0)
        for name in bound_names(node):
            if name in BANNED_NAMES:
                yield line, f"the name {name!r} does not say what it is"
        if isinstance(node, ast.stmt):
            for problem in check_statement(node):
                yield line, problem
        if isinstance(node, FUNCTIONS):
            for problem in check_function(node, shared=shared):
                yield line, problem


def modules(packages: Sequence[str]) -> list[Path]:
    """Return the files of these folders and modules of `src`."""
    files: list[Path] = []
    for package in packages:
        path = SOURCE / package
        files += [path] if path.is_file() else sorted(path.rglob("*.py"))
    return files


def problems_of(path: Path) -> Iterator[str]:
    """Yield the problems of a module, each with its file and line."""
    name = path.relative_to(SOURCE)
    shared = name.parts[0] in SHARED_PACKAGES
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for line, problem in sorted(check(tree, shared=shared)):
        yield f"{name}:{line}: {problem}"


def all_problems(packages: Sequence[str]) -> list[str]:
    """Return every problem of these packages."""
    return [problem for path in modules(packages) for problem in problems_of(path)]


def test_all_code_is_readable() -> None:
    """No module exceeds a limit."""
    assert len(modules(["."])) > 1
    assert all_problems(["."]) == []


HARD_TO_READ = """
def told(one, two, three, four):
    \"\"\"Tell.

    Args:
        one: The one.
    \"\"\"
    kept = [x for x in (y for y in one if y) if x and two]
    return f(g(h(i(kept))))
"""


def test_what_is_hard_to_read_is_found() -> None:
    """Each limit finds the code that exceeds it."""
    problems = {problem for _, problem in check(ast.parse(HARD_TO_READ), shared=True)}
    assert problems == {
        "the name 'told' does not say what it is",
        "the name 'one' does not say what it is",
        "the name 'kept' does not say what it is",
        "too many branches in one statement",
        "nested comprehension",
        "calls are nested too deeply",
        "a description in told repeats the name",
    }


if __name__ == "__main__":
    print("\n".join(all_problems(sys.argv[1:] or ["."])))  # noqa: T201
