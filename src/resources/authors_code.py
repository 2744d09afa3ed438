"""Prompts that authors released within Python code: read from its syntax tree, never run and never copied."""

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from resources import datasets
from resources.datasets import DataUnavailable, Located
from resources.download import DataError

T = TypeVar("T")


class NotInCode(DataError):
    """A released file lacks the text that is read from it; the message says which."""


@dataclass(frozen=True)
class Code:
    """A released Python file, whose texts are read for `str.format`: `{query['drug']}` has the field `drug`."""

    path: Path

    def _nodes(self, function: str) -> list[ast.expr | ast.stmt]:
        """The nodes of a function, or of the whole file without one, in the order of the code."""
        tree: ast.AST = ast.parse(self.path.read_text(encoding="utf-8"))
        if function:
            named = (
                n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == function
            )
            tree = next(named, ast.Module([], []))
        placed = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)]
        return sorted(placed, key=lambda node: (node.lineno, node.col_offset))

    def assigned(self, name: str, function: str = "") -> list[str]:
        """Every text that is assigned to a name, or NotInCode."""
        assigned = (
            _template(node.value)
            for node in self._nodes(function)
            if isinstance(node, ast.Assign)
            and [ast.unparse(target) for target in node.targets] == [name]
            if isinstance(node.value, ast.JoinedStr)
            or isinstance(getattr(node.value, "value", None), str)
        )
        return self._some(assigned, f"{name} = ... in {function or 'the file'}")

    def with_fields(self, function: str, *fields: str) -> str:
        """The first text of a function that has just these fields, or NotInCode."""
        texts = [node for node in self._nodes(function) if isinstance(node, ast.JoinedStr)]
        found = (
            _template(t)
            for t in texts
            if {_field(v) for v in t.values if isinstance(v, ast.FormattedValue)} == {*fields}
        )
        return self._some(found, f"a text with {fields} in {function}")[0]

    def messages(self, function: str) -> list[tuple[str, str]]:
        """Roles and contents of the first list of chat messages in a function, or NotInCode."""
        found = (
            [_message(part) for part in node.elts if isinstance(part, ast.Dict)]
            for node in self._nodes(function)
            if isinstance(node, ast.List)
            and node.elts
            and all(isinstance(part, ast.Dict) for part in node.elts)
        )
        return self._some(found, f"messages in {function}")[0]

    def _some(self, found: Iterable[T], what: str) -> list[T]:
        if not (texts := list(found)):
            raise NotInCode(
                f"{self.path} should hold {what}; it does not. Fetch it again, or check its revision."
            )
        return texts


def _template(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    braces = str.maketrans({"{": "{{", "}": "}}"})
    return "".join(
        str(p.value).translate(braces) if isinstance(p, ast.Constant) else f"{{{_field(p)}}}"
        for p in parts
    )


def _field(node: ast.expr) -> str:
    of = node.value if isinstance(node, ast.FormattedValue) else node
    key = of.slice if isinstance(of, ast.Subscript) else of
    return str(key.value) if isinstance(key, ast.Constant) else ast.unparse(key)


def _message(node: ast.Dict) -> tuple[str, str]:
    of = {
        ast.literal_eval(k): v for k, v in zip(node.keys, node.values, strict=True) if k is not None
    }
    return str(ast.literal_eval(of["role"])), _template(of["content"])


def released(names: Iterable[str], *, sample: bool) -> tuple[dict[str, Code], list[Located], str]:
    """The released files of the registry by name, what was located, and why there are none, if there are none."""
    if sample:
        return {}, [], "The data are SAMPLE; the authors' code is read with the real data only."
    try:
        files = datasets.locate_all(names, "real")
    except DataUnavailable as error:
        return {}, [], f"The authors' code could not be fetched. {str(error).splitlines()[0]}"
    return {name: Code(file.path) for name, file in files.items()}, list(files.values()), ""
