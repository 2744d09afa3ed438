"""Notebooks use only the public names of the helper module, and the book documents them all."""

import ast
import importlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

import helpers
from resources.settings import NOTEBOOKS, ROOT

PAGE = (ROOT / "book" / "helpers.md").read_text(encoding="utf-8")


def cells(path: Path) -> Iterator[ast.Module]:
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] == "code":
            yield ast.parse("".join(cell["source"]))


def used_names(trees: list[ast.Module]) -> set[tuple[str, str]]:
    """Modules of the package that some code imports, each with the names it takes from them."""
    modules: dict[str, str] = {}
    names: set[tuple[str, str]] = set()
    nodes = [node for tree in trees for node in ast.walk(tree)]
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "helpers":
            modules |= {name.asname or name.name: name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("helpers."):
            module = str(node.module).removeprefix("helpers.")
            names |= {(module, name.name) for name in node.names}
        elif isinstance(node, ast.Import):
            names |= {(name.name, "") for name in node.names if name.name.startswith("helpers.")}
    names |= {(module, "") for module in modules.values()}
    for node in nodes:
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)):
            continue
        if node.value.id in modules:
            names.add((modules[node.value.id], node.attr))
    return names


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.rglob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_uses_only_public_names(path: Path) -> None:
    for module, name in used_names(list(cells(path))):
        assert module in helpers.__all__, f"helpers.{module}"
        if name:
            public = importlib.import_module(f"helpers.{module}").__all__
            assert name in public, f"helpers.{module}.{name}"


def test_a_name_that_is_not_public_is_found() -> None:
    code = "from helpers import llm\nfrom helpers.batch import pend\nllm.STORE"
    assert used_names([ast.parse(code)]) == {("llm", ""), ("llm", "STORE"), ("batch", "pend")}


@pytest.mark.parametrize("module", helpers.__all__)
def test_every_public_module_is_documented_and_so_are_its_names(module: str) -> None:
    assert f".. automodule:: helpers.{module}" in PAGE
    imported = importlib.import_module(f"helpers.{module}")
    for name in imported.__all__:
        value = getattr(imported, name)
        if callable(value):
            assert value.__doc__, f"helpers.{module}.{name}"
