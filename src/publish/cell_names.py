"""Finds the cells of a notebook on which no later cell depends."""

import ast
from collections.abc import Sequence

_OWN_SCOPE = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.Lambda)
"""Expressions whose variables are theirs alone."""
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def read_by_no_later_cell(sources: Sequence[str]) -> list[bool]:
    """Say of each cell whether no later cell reads a name that it binds or changes.

    Args:
        sources: The code of the cells, in their order.
    """
    needed_later: set[str] = set()
    independent = []
    for source in reversed(sources):
        statements = ast.parse(source).body
        bound = set().union(*(_bound_names(statement) for statement in statements))
        independent.append(not bound & needed_later)
        needed_later |= _needed_names(statements)
    return independent[::-1]


def _needed_names(statements: Sequence[ast.stmt]) -> set[str]:
    """Return the names that a cell reads before it binds them."""
    needed: set[str] = set()
    bound: set[str] = set()
    for statement in statements:
        own = _bound_names(statement)
        if isinstance(statement, ast.For | ast.With):
            needed |= _read_names(statement) - bound - own
        else:
            needed |= _read_names(statement) - bound
        bound |= own
    return needed


def _read_names(node: ast.AST) -> set[str]:
    """Return the names that code reads; `x += 1` reads x."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        return {node.id}
    read: set[str] = set()
    for child in ast.iter_child_nodes(node):
        read |= _read_names(child)
    if isinstance(node, ast.AugAssign):
        read.add(_base_name(node.target))
    return read - _own_variables(node)


def _own_variables(node: ast.AST) -> set[str]:
    """Return the loop variables of a comprehension."""
    variables: set[str] = set()
    for loop in getattr(node, "generators", []):
        variables |= _bound_names(loop.target)
    return variables


def _bound_names(node: ast.AST) -> set[str]:
    """Return the names that code binds or whose objects it changes by an item or attribute."""
    if isinstance(node, _OWN_SCOPE):
        return set()
    if isinstance(node, _DEFINITIONS):
        return {node.name}
    if isinstance(node, ast.alias):
        return {(node.asname or node.name).partition(".")[0]}
    is_target = isinstance(getattr(node, "ctx", None), ast.Store)
    if is_target and isinstance(node, ast.Name | ast.Subscript | ast.Attribute):
        return {_base_name(node)}
    bound: set[str] = set()
    for child in ast.iter_child_nodes(node):
        bound |= _bound_names(child)
    return bound


def _base_name(node: ast.expr) -> str:
    """Return the name of `name`, `name[...]`, `name.attribute` and the like; else nothing."""
    while isinstance(node, ast.Subscript | ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""
