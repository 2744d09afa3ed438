"""Prompts that authors released within Python code.

They are read from its syntax tree; the code is never run and never copied.
"""

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
    """A released Python file whose texts become templates for `str.format`.

    `{query['drug']}` has the field `drug`.
    """

    path: Path

    def assigned(self, name: str, function: str = "") -> list[str]:
        """Return every text that is assigned to a name, in a function or anywhere.

        Raises:
            NotInCode: There is none.
        """
        texts = []
        for node in self._nodes(function):
            if not isinstance(node, ast.Assign):
                continue
            targets = [ast.unparse(target) for target in node.targets]
            if targets == [name] and _is_text(node.value):
                texts.append(_template(node.value))
        return self._require(texts, f"{name} = ... in {function or 'the file'}")

    def with_fields(self, function: str, *fields: str) -> str:
        """Return the first text of a function that has just these fields.

        Raises:
            NotInCode: There is none.
        """
        texts = []
        for node in self._nodes(function):
            if isinstance(node, ast.JoinedStr) and _fields(node) == set(fields):
                texts.append(_template(node))
        return self._require(texts, f"a text with {fields} in {function}")[0]

    def messages(self, function: str) -> list[tuple[str, str]]:
        """Return roles and contents of the first list of chat messages in a function.

        Raises:
            NotInCode: There is none.
        """
        lists = []
        for node in self._nodes(function):
            if not isinstance(node, ast.List):
                continue
            entries = [part for part in node.elts if isinstance(part, ast.Dict)]
            if entries and len(entries) == len(node.elts):
                lists.append([_message(entry) for entry in entries])
        return self._require(lists, f"messages in {function}")[0]

    def _nodes(self, function: str) -> list[ast.expr | ast.stmt]:
        """Return the nodes of a function, or of the whole file without one, in their order."""
        tree: ast.AST = ast.parse(self.path.read_text(encoding="utf-8"))
        if function:
            tree = _find_function(tree, function)
        nodes = [node for node in ast.walk(tree) if isinstance(node, ast.expr | ast.stmt)]
        return sorted(nodes, key=lambda node: (node.lineno, node.col_offset))

    def _require(self, found: list[T], what: str) -> list[T]:
        if not found:
            raise NotInCode(
                f"{self.path} should hold {what}; it does not. Fetch it again, or check its "
                "revision."
            )
        return found


def _find_function(tree: ast.AST, name: str) -> ast.AST:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == name:
            return node
    return ast.Module([], [])


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.JoinedStr):
        return True
    return isinstance(getattr(node, "value", None), str)


def _template(node: ast.expr) -> str:
    parts = node.values if isinstance(node, ast.JoinedStr) else [node]
    braces = str.maketrans({"{": "{{", "}": "}}"})
    pieces = []
    for part in parts:
        if isinstance(part, ast.Constant):
            pieces.append(str(part.value).translate(braces))
        else:
            pieces.append(f"{{{_field(part)}}}")
    return "".join(pieces)


def _fields(text: ast.JoinedStr) -> set[str]:
    return {_field(part) for part in text.values if isinstance(part, ast.FormattedValue)}


def _field(node: ast.expr) -> str:
    value = node.value if isinstance(node, ast.FormattedValue) else node
    key = value.slice if isinstance(value, ast.Subscript) else value
    return str(key.value) if isinstance(key, ast.Constant) else ast.unparse(key)


def _message(node: ast.Dict) -> tuple[str, str]:
    values = {}
    for key, value in zip(node.keys, node.values, strict=True):
        if key is not None:
            values[ast.literal_eval(key)] = value
    return str(ast.literal_eval(values["role"])), _template(values["content"])


def released(names: Iterable[str], *, sample: bool) -> tuple[dict[str, Code], list[Located], str]:
    """Return the released files by name, what was located, and why there are none, if so."""
    if sample:
        return {}, [], "The data are SAMPLE; the authors' code is read with the real data only."
    try:
        files = datasets.locate_all(names, "real")
    except DataUnavailable as error:
        return {}, [], f"The authors' code could not be fetched. {str(error).splitlines()[0]}"
    return {name: Code(file.path) for name, file in files.items()}, list(files.values()), ""
