"""What make takes a notebook to depend on, also while somebody is still writing it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import nbformat
import pytest
from conftest import python_says

from evaluation.published import paper_of
from publish import dependencies
from resources.settings import NOTEBOOKS


def write(project: Path, name: str, *cells: str) -> Path:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    path = project / "notebooks" / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


STALE = """
import json, sys
from pathlib import Path
from publish import dependencies

names, modules = map(str.split, sys.argv[1:])
digests = lambda: {n: dependencies.digests(dependencies.ROOT / "notebooks" / f"{n}.ipynb") for n in names}
before, stale = digests(), []
for module in modules:
    path = dependencies.MODULES[module]
    source = path.read_text()
    path.write_text(f"{source}\\n\\nADDED = 1\\n")
    after = digests()
    path.write_text(source)
    stale.append([name for name in names if before[name] != after[name]])
print(json.dumps(stale))
"""


def stale_after(project: Path, modules: list[str], notebooks: list[str]) -> list[set[str]]:
    """Per module, the notebooks of which an input changes when it is edited."""
    place = {"MEDRAG_ROOT": str(project), "PYTHONPATH": str(project / "src")}
    output = python_says(STALE, " ".join(notebooks), " ".join(modules), **place)
    return [set(names) for names in json.loads(output)]


@pytest.mark.parametrize(
    "cell",
    [
        "%%bash\nfor f in *; do echo $f; done",
        "%%writefile x.txt\nnot Python at all",
        "x = !ls",
        "files, = !ls -l \\\n   -a",
        "start = %time",
        "%matplotlib inline\nprint(1)",
        "if True:\n    !pip list\nelse:\n    %time",
        "print?",
        "str.join??",
        "?print",
    ],
)
def test_what_only_ipython_understands_is_no_obstacle(tmp_path: Path, cell: str) -> None:
    (tmp_path / "notebooks").mkdir()
    use = "from evaluation import metrics"
    path = write(tmp_path, "x", *((cell, use) if cell.startswith("%%") else (f"{cell}\n{use}",)))
    assert "evaluation.metrics" in dependencies.used_modules(path)


def test_the_body_of_a_timed_cell_and_a_line_that_begins_with_a_per_cent_sign_are_python(
    tmp_path: Path,
) -> None:
    (tmp_path / "notebooks").mkdir()
    timed = "%%time\nfrom evaluation import metrics"
    formatted = 'text = (\n    "%s"\n    % "x"\n)\nfrom helpers import vectors'
    assert {"evaluation.metrics", "helpers.vectors"} <= set(
        dependencies.used_modules(write(tmp_path, "x", timed, formatted))
    )


@pytest.mark.parametrize("half", ["def unfinished(", "for x in"])
def test_a_notebook_that_is_being_written_depends_on_every_module(project: Path, half: str) -> None:
    write(project, "01_whole", "from evaluation import metrics")
    write(project, "02_half", "from evaluation import metrics", half)
    (project / "notebooks" / "03_empty.ipynb").touch()
    names = ["01_whole", "02_half", "03_empty"]
    assert stale_after(project, ["helpers.llm"], names) == [{"02_half", "03_empty"}]


def test_who_uses_a_module_that_is_being_written_depends_on_every_module(project: Path) -> None:
    write(project, "01_whole", "from evaluation import metrics")
    write(project, "02_half", "from papers.side_effects import own_table")
    (project / "src" / "papers" / "side_effects" / "own_table.py").write_text("def unfinished(\n")
    assert stale_after(project, ["helpers.llm"], ["01_whole", "02_half"]) == [{"02_half"}]


def test_every_notebook_depends_on_the_rules_of_its_paper() -> None:
    """`evaluation.rules` imports them by name."""
    rules = [path for path in dependencies.MODULES if path.startswith("papers.")]
    rules = [name for name in rules if name.endswith(".rules")]
    assert len(rules) > 1
    for module in rules:
        paper = module.split(".")[1]
        own = {path.stem for path in NOTEBOOKS.glob("*.ipynb") if paper_of(path) == paper}
        using = {
            path.stem
            for path in NOTEBOOKS.glob("*.ipynb")
            if module in dependencies.used_modules(path)
        }
        assert own <= using
        assert using


def test_what_only_a_type_checker_imports_is_no_dependency() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from helpers import llm\n"
        "else:\n    from evaluation import metrics\n"
    )
    assert dependencies.imported(source) == {"evaluation.metrics"}


def test_an_edit_changes_the_notebooks_that_import_the_module(project: Path) -> None:
    """Compared with what Python itself imports, for a module of each kind."""
    write(project, "01_llm", "from helpers import llm")
    write(project, "02_none", "print(1)")
    write(project, "03_rules", 'from evaluation import rules\nrecord.start(paper="side_effects")')
    write(project, "04_other_rules", 'from evaluation import rules\nrecord.start(paper="qa_rag")')
    names = ["01_llm", "02_none", "03_rules", "04_other_rules"]
    source = project / "src"
    place = {"MEDRAG_ROOT": str(project), "PYTHONPATH": str(source)}
    modules_of = {
        "01_llm": "helpers.llm",
        "03_rules": "evaluation.rules, papers.side_effects.rules",
        "04_other_rules": "evaluation.rules, papers.qa_rag.rules",
    }
    imports: dict[str, set[str]] = {"02_none": set()} | {
        name: set(python_says(f"import sys, {modules}; print(*sys.modules)", **place).split())
        for name, modules in modules_of.items()
    }
    modules = ["helpers.requests", "papers.side_effects.rules", "papers.qa_rag.rules"]
    modules += ["evaluation.rules", "resources.settings"]
    expected = [{name for name in names if module in imports[name]} for module in modules]
    assert stale_after(project, modules, names) == expected
    assert len({*map(frozenset, expected)}) == len(modules) - 1


def test_comments_docstrings_and_layout_are_no_code() -> None:
    code = 'def f(a):\n    """What it does."""\n    return a\n'
    other = 'def f(\n    a,\n):\n    """Other words."""\n    # why\n    return a\n'
    assert dependencies.analyse(code).digest == dependencies.analyse(other).digest
    assert dependencies.analyse(code).digest != dependencies.analyse("def f(a): return -a").digest


def test_make_stops_servers_whatever_stands_in_a_notebook(project: Path) -> None:
    (project / "notebooks" / "profiles" / "smoke.yml").touch()
    write(project, "01_half", "def unfinished(")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    for target in ("stop", "status", "doctor", "lab"):
        command = ["make", "-n", "PROFILE=smoke", "PYTHON=false", target]
        process = subprocess.run(
            command, cwd=project, env=clean, capture_output=True, text=True, check=False
        )
        assert process.returncode == 0, process.stderr


LAYERS = {
    "resources": 0,
    "helpers": 1,
    "rag": 2,
    "evaluation": 2,
    "papers": 3,
    "publish": 4,
    "medrerun": 5,
}
"""A package imports itself and those of lower layers."""


def may_import(name: str, dependency: str) -> bool:
    package, paper, *_ = name.split(".")
    used_package, used_paper, *_ = dependency.split(".")
    if package != used_package:
        return LAYERS[used_package] < LAYERS[package]
    # the chapter across papers compares the arms of several
    return package != "papers" or paper in (used_paper, "across_papers")


def test_imports_go_one_way_and_no_paper_imports_another() -> None:
    wrong = [
        f"{name} imports {dependency}"
        for name, path in dependencies.MODULES.items()
        for dependency in dependencies.imported(path.read_text("utf-8"))
        if not may_import(name, dependency)
    ]
    assert wrong == []


@pytest.mark.parametrize("name", ["06_interactions_qa", "18_across_papers"])
def test_a_change_of_the_prompts_of_01_leaves_notebooks_fresh_that_do_not_ask_them(
    name: str,
) -> None:
    of_first, of_other = (
        dependencies.used_modules(dependencies.ROOT / "notebooks" / f"{notebook}.ipynb")
        for notebook in ("01_side_effects_forward", name)
    )
    assert "papers.side_effects.forward" in of_first
    assert "papers.side_effects.corpus" in of_other
    assert "papers.side_effects.forward" not in of_other
