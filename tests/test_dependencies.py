"""What make takes a notebook to depend on, also while somebody is still writing it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from publish import dependencies


def write(project: Path, name: str, *cells: str) -> Path:
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
    path = project / "notebooks" / f"{name}.ipynb"
    nbformat.write(notebook, path)
    return path


def rules(project: Path) -> tuple[dict[str, set[str]], str]:
    """What each notebook depends on, and what was said on stderr."""
    script = [sys.executable, str(project / "src" / "publish" / "dependencies.py")]
    done = subprocess.run(script, capture_output=True, text=True, check=True)
    lines = (line.partition(":") for line in done.stdout.splitlines())
    return {Path(target).stem: set(needed.split()) for target, _, needed in lines}, done.stderr


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
def test_a_notebook_that_is_being_written_is_named_and_depends_on_every_helper(
    project: Path, half: str
) -> None:
    write(project, "01_whole", "from evaluation import metrics")
    write(project, "02_half", "from evaluation import metrics", half)
    (project / "notebooks" / "03_empty.ipynb").touch()
    needed, said = rules(project)
    assert "src/helpers/llm.py" not in needed["01_whole"]
    for name in ("02_half", "03_empty"):
        assert {"src/helpers/llm.py", "src/evaluation/metrics.py"} <= needed[name]
        assert name in said
    assert "cell 2" in said
    assert "01_whole" not in said


def test_a_helper_that_is_being_written_is_named(project: Path) -> None:
    write(project, "01_whole", "from evaluation import metrics")
    write(project, "02_half", "from papers.side_effects import own_table")
    (project / "src" / "papers" / "side_effects" / "own_table.py").write_text("def unfinished(\n")
    needed, said = rules(project)
    assert "src/helpers/llm.py" in needed["02_half"]
    assert "src/helpers/llm.py" not in needed["01_whole"]
    assert "own_table.py, line 1" in said


def test_make_stops_servers_whatever_stands_in_a_notebook(project: Path) -> None:
    (project / "notebooks" / "profiles" / "smoke.yml").touch()
    write(project, "01_half", "def unfinished(")
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    for target in ("stop", "status", "doctor", "lab"):
        asked = ["make", "-n", "PROFILE=smoke", "PYTHON=false", target]
        done = subprocess.run(
            asked, cwd=project, env=clean, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


LAYERS = {
    "resources": 0,
    "helpers": 1,
    "rag": 2,
    "evaluation": 2,
    "papers": 3,
    "publish": 4,
    "medrerun": 4,
}
"""A package imports itself and those of lower layers."""


def may_import(name: str, used: str) -> bool:
    package, paper, *_ = name.split(".")
    used_package, used_paper, *_ = used.split(".")
    if package != used_package:
        return LAYERS[used_package] < LAYERS[package]
    # the chapter across papers compares the arms of several
    return package != "papers" or paper in (used_paper, "across_papers")


def test_imports_go_one_way_and_no_paper_imports_another() -> None:
    wrong = [
        f"{name} imports {used}"
        for name, path in dependencies.MODULES.items()
        for used in dependencies.imported(path.read_text("utf-8"))
        if not may_import(name, used)
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
