"""Parameters from profiles, and make: what reruns, what fails, what is left behind."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import psutil
import pytest
import yaml
from conftest import new_project, processor_seconds, python_says, running_in
from filelock import FileLock
from nbclient.client import NotebookClient
from nbclient.exceptions import DeadKernelError

from evaluation import records, reference
from helpers.requests import StoreError
from publish import dependencies, kernel, run, schedule
from resources import parameters
from resources.settings import NOTEBOOKS, PROFILES, run_command_line

PUBLISHED = """
paper: demo
title: Demonstration
numbers:
  - {id: demo.table1.row.accuracy, table: Table 1, row: Row, column: Accuracy, printed: 50.0%, value: 0.5,
     unit: fraction, n: 10, why_not: nothing is released}
claims: []
"""


def write_notebook(
    project: Path, name: str, *cells: str, parameters: str = "profile = 'smoke'\nsize = 1"
) -> None:
    save = f"""
from evaluation import record
run = record.start(notebook={name!r}, paper="demo", profile=profile, parameters={{"size": size}})
run.rerun("demo.table1.row.accuracy", 0.5)
run.save()
"""
    notebook = nbformat.v4.new_notebook()
    notebook.metadata["kernelspec"] = {
        "name": "python3",
        "display_name": "Python 3",
        "language": "python",
    }
    tagged = nbformat.v4.new_code_cell(parameters)
    tagged.metadata["tags"] = ["parameters"]
    notebook.cells = [
        tagged,
        *(nbformat.v4.new_code_cell(cell) for cell in cells),
        nbformat.v4.new_code_cell(save),
    ]
    nbformat.write(notebook, project / "notebooks" / f"{name}.ipynb")


def with_demo(project: Path) -> Path:
    (project / "data" / "published" / "demo.yml").write_text(PUBLISHED)
    (project / "data" / "registry.yml").write_text("files: {}\n")
    (project / "notebooks" / "profiles" / "smoke.yml").write_text("defaults:\n  size: 2\n")
    write_notebook(
        project, "01_demo_first", "from helpers import texts\nprint('a first result', size)"
    )
    write_notebook(project, "02_demo_second")
    os.utime(project / "requirements.lock", (0, 0))
    return project


@pytest.fixture
def demo(project: Path) -> Path:
    """A project with two small notebooks."""
    return with_demo(project)


def make(run_in, *targets: str, **variables: str) -> subprocess.CompletedProcess[str]:
    return run_in(
        "make",
        "--no-print-directory",
        "PROFILE=smoke",
        f"PYTHON={sys.executable}",
        *targets,
        **variables,
    )


def executed(project: Path, name: str) -> Path:
    return project / "_build" / "executed" / "smoke" / f"{name}.ipynb"


# ------------------------------------------------------------------------------------------------------- parameters


def test_every_profile_fits_every_notebook():
    names = [p.stem for p in NOTEBOOKS.glob("*.ipynb")]
    assert names
    for profile in (p.stem for p in PROFILES.glob("*.yml")):
        for name in names:
            assert parameters.parameters(name, profile)["profile"] == profile


def test_notebooks_are_stored_without_outputs():
    for path in NOTEBOOKS.glob("*.ipynb"):
        cells = json.loads(path.read_text())["cells"]
        assert not any(c.get("outputs") or c.get("execution_count") for c in cells), path.name


def test_no_run_of_this_machine_has_left_the_kept_reference():
    """A number that moved beyond its tolerance fails the tests, and is named."""
    check = [sys.executable, "-m", "publish.scoreboard", "--check", "--profile", "laptop"]
    environment = {**os.environ, "COLUMNS": "200", "PYTHONPATH": str(NOTEBOOKS.parent / "src")}
    process = subprocess.run(check, capture_output=True, text=True, env=environment, check=False)
    if process.returncode == 2:
        pytest.skip(process.stdout.strip().splitlines()[-1])
    assert process.returncode == 0, process.stdout


def test_a_helper_used_through_another_is_a_dependency(tmp_path):
    modules = dependencies.used_modules(NOTEBOOKS / "01_side_effects_forward.ipynb")
    through = {
        "helpers.llm",
        *(f"resources.{name}" for name in ("services", "engines", "settings")),
    }
    assert {"papers.side_effects.forward", *through} <= set(modules)
    assert "publish.book" not in modules
    assert not {
        name
        for name in modules
        if name.startswith(("papers.clinical_notes", "papers.drug_interactions"))
    }


def test_a_script_that_a_helper_runs_is_a_dependency():
    scripts = {
        f"resources.{name}" for name in ("lora_train", "dequantise", "vllm_plugin.lora_on_cpu")
    }
    assert scripts <= set(dependencies.used_modules(NOTEBOOKS / "15_qarag_finetune.ipynb"))
    assert "resources.lora_train" not in dependencies.used_modules(
        NOTEBOOKS / "01_side_effects_forward.ipynb"
    )


def test_a_data_file_that_a_helper_names_is_a_dependency():
    files = dependencies.digests(NOTEBOOKS / "03_side_effects_misspelling.ipynb")
    assert "data/other_names.yml" in files
    assert "data/other_names.yml" not in dependencies.digests(
        NOTEBOOKS / "02_side_effects_reverse.ipynb"
    )
    assert "data/registry.yml" not in files  # of which only the entries that it reads matter
    assert all((NOTEBOOKS.parent / path).is_file() for path in files)


def test_a_reference_keeps_what_was_saved_beside_the_record(tmp_path, monkeypatch):
    build, results, book = (tmp_path / name for name in ("build", "results", "reference"))
    for name, folder in {"BUILD": build, "RESULTS": results, "REFERENCE": book}.items():
        monkeypatch.setattr(reference, name, folder)
    monkeypatch.setattr(records, "BUILD", build)
    monkeypatch.setattr(records, "RECORDS", build / "records")
    files = {
        "executed/laptop/01_x.ipynb": '{"cells": [], "metadata": {}}',
        "executed/laptop/02_x.part.ipynb": '{"cells": [], "metadata": {}}',
        "records/laptop/01_x.json": '{"sample": false}',
        "records/laptop/01_x.sets.json.gz": "sets",
        "records/laptop/01_x_other.json": '{"sample": false}',
    }
    for name, text in files.items():
        (build / name).parent.mkdir(parents=True, exist_ok=True)
        (build / name).write_text(text)
    assert reference.keep_reference("laptop") == 0
    assert sorted(path.name for path in (results / "laptop").iterdir()) == [
        "01_x.json",
        "01_x.sets.json.gz",
    ]
    (build / "records/laptop/01_x.sets.json.gz").write_bytes(bytes(reference.REFERENCE_LIMIT + 1))
    with pytest.raises(StoreError, match="are kept in git"):
        reference.keep_reference("laptop")


def test_a_smoke_run_is_no_reference_even_on_real_data(tmp_path, monkeypatch, capsys):
    for name in ("BUILD", "RESULTS", "REFERENCE"):
        monkeypatch.setattr(reference, name, tmp_path / name)
    monkeypatch.setattr(records, "RECORDS", tmp_path / "BUILD" / "records")
    for name, text in {"executed": ".ipynb", "records": ".json"}.items():
        (tmp_path / "BUILD" / name / "smoke").mkdir(parents=True)
        (tmp_path / "BUILD" / name / "smoke" / f"01_x{text}").write_text(
            '{"sample": false, "cells": [], "metadata": {}}'
        )
    with pytest.raises(StoreError, match="no run of profile smoke"):
        reference.keep_reference("smoke")
    assert "mean nothing" in capsys.readouterr().err
    assert not (tmp_path / "REFERENCE").exists()


def test_a_run_whose_record_is_missing_or_was_set_aside_is_not_kept_and_said(
    tmp_path, monkeypatch, capsys
):
    for name in ("BUILD", "RESULTS", "REFERENCE"):
        monkeypatch.setattr(reference, name, tmp_path / name)
    monkeypatch.setattr(records, "BUILD", tmp_path / "BUILD")
    monkeypatch.setattr(records, "RECORDS", tmp_path / "BUILD" / "records")
    files = {
        "executed/laptop/01_x.ipynb": '{"cells": [], "metadata": {}}',
        "executed/laptop/02_x.ipynb": '{"cells": [], "metadata": {}}',
        "executed/laptop/03_x.ipynb": '{"cells": [',
        "records/laptop/01_x.json": '{"sample": false}',
        "records/laptop/03_x.json": '{"sample": false}',
        "records/laptop/01_x.json.corrupt": "{",  # of an earlier run
        "records/laptop/02_x.json.corrupt": "{",
    }
    for name, text in files.items():
        (tmp_path / "BUILD" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "BUILD" / name).write_text(text)
    assert reference.keep_reference("laptop") == 0
    assert [path.name for path in (tmp_path / "RESULTS" / "laptop").iterdir()] == ["01_x.json"]
    assert [path.name for path in (tmp_path / "REFERENCE").iterdir()] == ["01_x.ipynb"]
    output = capsys.readouterr().err
    assert "02_x: not kept" in output
    assert "03_x: not kept" in output


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"defaults": {"sise": 2}}, "Did you mean size"),
        ({"01_demo_first": {"sise": 2}}, "Did you mean size"),
        ({"01_demo_frist": {"size": 2}}, "Did you mean 01_demo_first"),
    ],
)
def test_a_misspelt_parameter_or_section_is_named(demo, run_in, profile, message):
    (demo / "notebooks" / "profiles" / "smoke.yml").write_text(yaml.safe_dump(profile))
    process = run_in(sys.executable, "-m", "medrerun", "run", PROFILE="smoke")
    assert process.returncode == 1
    assert message in process.stderr


def test_the_time_left_is_the_reference_runs_at_this_machines_pace(tmp_path, monkeypatch):
    monkeypatch.setattr(run, "BUILD", tmp_path)
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(records, "BUILD", tmp_path)
    monkeypatch.setattr(records, "RECORDS", tmp_path / "records")

    def write(place: str, content: dict[str, object]) -> None:
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(json.dumps(content))

    assert run.time_left("laptop", ["a", "b"], 1) == "", "no reference run"
    for name, seconds in (("a", 100), ("b", 300)):
        write(f"results/laptop/{name}.json", {"seconds": seconds})
    assert run.time_left("laptop", ["a", "b"], 2) == "; about 3 min left"
    write("executed/laptop/a.ipynb", {"metadata": {}, "cells": []})
    assert run.time_left("laptop", ["a", "b"], 2) == "; about 3 min left", (
        "without its record, a run tells no pace"
    )
    write("records/laptop/a.json", {"seconds": 400})
    assert run.time_left("laptop", ["a", "b"], 2) == "; about 14 min left", (
        "the last one runs alone"
    )
    write("executed/laptop/b.ipynb", {"metadata": {}, "cells": []})
    write("records/laptop/b.json", {"seconds": 400})
    assert run.time_left("laptop", ["a", "b"], 2) == ""


def test_an_unknown_profile_is_named(ready, run_in):
    process = run_in("make", "PROFILE=huge", "notebooks")
    assert process.returncode == 2
    assert "PROFILE='huge'" in process.stderr
    assert "'smoke'" in process.stderr


def test_the_order_in_a_profile_changes_no_parameter(tmp_path, monkeypatch):
    """A draw that goes through the names of a parameter depends on the values alone."""
    (tmp_path / "some.yml").write_text(
        "03_side_effects_misspelling:\n  llm_names: {misspelt: 4, brand: 1, absent: 2}\n  draws: 5\n"
    )
    monkeypatch.setattr("resources.settings.PROFILES", tmp_path)
    values = parameters.parameters("03_side_effects_misspelling", "some")
    assert list(values) == ["draws", "llm_names", "profile"]
    assert list(values["llm_names"]) == ["absent", "brand", "misspelt"]


def test_a_notebook_without_parameters_cell_is_named(demo, run_in):
    path = demo / "notebooks" / "01_demo_first.ipynb"
    path.write_text(path.read_text().replace('"parameters"', '"other"'))
    process = run_in(sys.executable, "-m", "medrerun", "run", PROFILE="smoke")
    assert "needs one cell tagged `parameters`" in process.stderr


# -------------------------------------------------------------------------------------------------------------- make


def marked(demo: Path) -> Path:
    # the stamp lies in the shared environment: touch nothing there that a real set-up would not have
    stamp = demo / ".venv" / "installed"
    if not stamp.exists():
        stamp.touch()
    return demo


@pytest.fixture
def ready(demo: Path) -> Path:
    """The demo with its environment marked as set up, and a book, so that no page is made to be read before it."""
    (demo / "_build" / "html").mkdir(parents=True)
    (demo / "_build" / "html" / "index.html").touch()
    return marked(demo)


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A demo whose notebooks have run, and what that said."""
    project = marked(with_demo(new_project(tmp_path_factory.mktemp("first") / "project")))
    process = make(running_in(project), "notebooks")
    assert process.returncode == 0, process.stderr
    return project, process.stderr


@pytest.fixture
def ran(first: tuple[Path, str], ready: Path) -> Path:
    """A copy of the demo whose notebooks have run."""
    shutil.rmtree(ready)
    return Path(shutil.copytree(first[0], ready, symlinks=True))


@pytest.mark.slow
def test_notebooks_that_start_at_once_have_kernels_of_their_own(ready, run_in):
    """Sockets of two kernels in one folder took the same names: one never answered, or the two heard each other."""
    write_notebook(ready, "03_demo", "print('one of many')")
    process = run_in("make", "PROFILE=smoke", "notebooks", "JOBS=3")
    assert process.returncode == 0, process.stderr
    assert process.stderr.count("done in") == 3
    assert not [*ready.glob("*ipc*"), *(ready / "notebooks").glob("*ipc*")]


def test_only_what_an_edit_touches_runs_again(ran, run_in):
    before = processor_seconds()
    assert "done in" not in make(run_in, "notebooks").stderr
    assert processor_seconds() - before < 3

    helper = ran / "src/helpers/texts.py"  # used by the first only
    helper.write_text(f"{helper.read_text()}\n\n# a comment is no code\n")
    (ran / "notebooks" / "02_demo_second.ipynb").touch()
    assert "done in" not in make(run_in, "notebooks").stderr

    helper.write_text(f"{helper.read_text()}\nADDED = 1\n")
    again = make(run_in, "notebooks").stderr
    assert "src/helpers/texts.py changed; 01_demo_first runs again" in again
    assert "01_demo_first: done" in again
    assert "02_demo_second" not in again

    write_notebook(ran, "02_demo_second", "print('edited')")
    again = make(run_in, "notebooks").stderr
    assert "02_demo_second: done" in again
    assert "01_demo_first" not in again

    (ran / "notebooks/profiles/smoke.yml").write_text(
        "defaults:\n  size: 2\n02_demo_second:\n  size: 3\n"
    )
    again = make(run_in, "notebooks").stderr
    assert "02_demo_second: done" in again
    assert "01_demo_first" not in again


def test_a_finished_chapter_can_be_read_before_the_book_is_built(first):
    lines = first[1].splitlines()
    [page] = [
        Path(line.rpartition(" ")[2]) for line in lines if line.endswith("01_demo_first.html")
    ]
    assert "a first result" in page.read_text()
    assert not re.search(r"(?:src|href)=\"?(?:https?:)?//", page.read_text())


def test_a_notebook_that_fails_or_leaves_no_record_is_told_and_tried_again(ready, run_in):
    write_notebook(
        ready,
        "01_demo_first",
        "before = 'computed'\nprint(before)",
        "raise ValueError('planted fault')",
    )
    path = ready / "notebooks" / "02_demo_second.ipynb"
    path.write_text(path.read_text().replace("run.save()", "pass"))
    process = make(run_in, "notebooks")
    assert process.returncode != 0
    assert "ValueError: planted fault" in process.stderr
    assert "02_demo_second ended without a run record" in process.stderr  # the others still run
    assert not executed(ready, "01_demo_first").exists()
    assert not executed(ready, "02_demo_second").exists()
    failed_notebook = (ready / "_build/failed/smoke/01_demo_first.ipynb").read_text()
    assert "computed" in failed_notebook
    assert "planted fault" in failed_notebook

    write_notebook(ready, "01_demo_first")
    assert make(run_in, "notebook", "NB=01_demo_first").returncode == 0
    assert executed(ready, "01_demo_first").exists()
    assert not (ready / "_build/failed/smoke/01_demo_first.ipynb").exists()


@pytest.mark.slow
def test_two_makes_in_one_tree_execute_a_notebook_once(ready, run_in):
    once = "import time\nwith open('ran', 'a') as ran: print('once', file=ran)\ntime.sleep(4)"
    write_notebook(ready, "01_demo_first", once)
    with ThreadPoolExecutor(2) as at_once:
        processes = list(
            at_once.map(lambda _: make(run_in, "notebook", "NB=01_demo_first"), range(2))
        )
    assert [d.returncode for d in processes] == [0, 0], processes
    assert (ready / "ran").read_text() == "once\n"
    assert sorted(d.stderr.count("waiting for it") for d in processes) == [0, 1]


def test_a_module_edited_while_its_notebook_runs_makes_the_result_stale(ready, run_in):
    edit = "from pathlib import Path\nfrom resources.settings import ROOT\n"
    edit += "path = ROOT / 'src/helpers/texts.py'\n"
    edit += "path.write_text(path.read_text() + '\\nEDITED = 1\\n')"
    use = "from helpers import texts\nprint(hasattr(texts, 'EDITED'))"
    write_notebook(
        ready, "01_demo_first", use, f"if not hasattr(texts, 'EDITED'):\n    exec({edit!r})"
    )
    first = make(run_in, "notebook", "NB=01_demo_first")
    assert "While 01_demo_first ran, src/helpers/texts.py changed" in first.stderr
    again = make(run_in, "notebook", "NB=01_demo_first")
    assert "01_demo_first: done" in again.stderr
    assert "True" in executed(ready, "01_demo_first").read_text()
    assert "done in" not in make(run_in, "notebook", "NB=01_demo_first").stderr


@pytest.mark.slow
def test_a_run_whose_inputs_were_not_noted_runs_again(ran, run_in):
    notes = ran / "_build" / "inputs" / "smoke"
    (notes / "01_demo_first.json").unlink()
    (notes / "02_demo_second.json").write_text("[")
    process = make(run_in, "notebooks")
    for name in ("01_demo_first", "02_demo_second"):
        assert f"{name}: done" in process.stderr


@pytest.mark.slow
def test_what_make_started_ends_with_it(ready, run_in):
    write_notebook(
        ready, "01_demo_first", "import time\nopen('began', 'w').close()\ntime.sleep(60)"
    )
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    environment = {**clean, "MEDRAG_ROOT": str(ready), "PYTHONPATH": str(ready / "src")}
    process = subprocess.Popen(
        ["make", "PROFILE=smoke", "notebook", "NB=01_demo_first"],
        cwd=ready,
        env=environment,
        start_new_session=True,
        stderr=subprocess.DEVNULL,
    )
    wait_for((ready / "began").exists)
    started = psutil.Process(process.pid).children(recursive=True)
    assert len(started) >= 2
    process.kill()
    process.wait()
    wait_for(lambda: not any(child.is_running() for child in started))
    assert not executed(ready, "01_demo_first").exists()


def test_odd_surroundings_are_no_obstacle(ready, run_in, tmp_path):
    """Each alone is a trial of `make test-faults`."""
    temporary = tmp_path / ("x" * 130)
    temporary.mkdir()
    surroundings = {"LC_ALL": "POSIX", "CDPATH": ".:/tmp", "TMPDIR": str(temporary)}
    place = Path(shutil.move(ready, tmp_path / "prüjekt {b}"))
    run = running_in(place)
    process = make(run, "notebook", "NB=01_demo_first", **surroundings)
    assert process.returncode == 0, process.stderr
    assert "done in" in process.stderr


@pytest.mark.slow
def test_closed_output_a_file_in_place_of_a_folder_and_a_colon_are_survived_or_told(
    ready, run_in, tmp_path
):
    command = f"{sys.executable} -m medrerun run 01_demo_first"
    silent = run_in("bash", "-c", f"exec >&-; {command}", PROFILE="smoke")
    assert silent.returncode == 0, silent.stderr
    shutil.rmtree(ready / "_build")
    (ready / "_build").write_text("in the way", encoding="utf-8")
    blocked = run_in("bash", "-c", command, PROFILE="smoke")
    assert blocked.returncode == 1
    assert "where a folder is needed. Move or delete that file" in blocked.stderr
    place = ready
    for name in ("a:b", os.fsdecode(b"pr\xfcjekt")):
        place = Path(shutil.move(place, tmp_path / name))
        refused = running_in(place)("bash", "-c", command, PROFILE="smoke", PYTHONPATH="src")
        assert refused.returncode == 1
        assert "Rename that folder" in refused.stderr
        assert refused.stderr.count("\n") == 1


@pytest.mark.slow
def test_too_few_open_files_are_told_in_a_line_and_too_low_a_limit_of_ones_own_is_raised(
    ready, run_in
):
    command = f"{sys.executable} -m medrerun run 01_demo_first"
    too_few = run_in("bash", "-c", f"ulimit -n 64; {command}", PROFILE="smoke")
    assert too_few.returncode == 1
    assert too_few.stderr.startswith("A run needs 512 open files; the limit here is 64.")
    assert too_few.stderr.count("\n") == 1
    own = run_in("bash", "-c", f"ulimit -S -n 64; {command}", PROFILE="smoke")
    assert own.returncode == 0, own.stderr
    assert "cannot be opened" not in own.stderr


def wait_for(condition, seconds: float = 240) -> None:
    """Wait until a condition holds, or fail."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.mark.slow
def test_who_waited_executes_what_has_changed_since(ran, run_in):
    with (
        ThreadPoolExecutor(1) as pool,
        FileLock(executed(ran, "01_demo_first").with_suffix(".lock")),
    ):
        write_notebook(ran, "01_demo_first", "print('edited')")
        second_run = pool.submit(make, run_in, "notebook", "NB=01_demo_first")
        time.sleep(5)
        assert not second_run.done()
    # the lock is free, and nobody has executed what was edited
    assert second_run.result().returncode == 0
    assert "edited" in executed(ran, "01_demo_first").read_text()


@pytest.mark.slow
def test_a_killed_kernel_is_told_and_the_next_run_recovers(ready, run_in):
    write_notebook(ready, "01_demo_first", "print('before')", "import os\nos.kill(os.getpid(), 9)")
    process = make(run_in, "notebook", "NB=01_demo_first")
    assert process.returncode != 0
    assert "Traceback" not in process.stderr
    assert "memory" in process.stderr
    assert "before" in (ready / "_build/failed/smoke/01_demo_first.ipynb").read_text()
    write_notebook(ready, "01_demo_first")
    assert make(run_in, "notebook", "NB=01_demo_first").returncode == 0


@pytest.mark.slow
def test_a_killed_notebook_process_is_told_and_others_go_on(ready, run_in):
    write_notebook(ready, "01_demo_first", "import os\nos.kill(os.getppid(), 9)")
    process = make(run_in, "notebook", "NB=01_demo_first")
    assert process.returncode != 0
    assert "01_demo_first: its process was killed from outside" in process.stderr
    assert "Run it again" in process.stderr


@pytest.mark.slow
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a file that is always full")
def test_a_full_disk_is_told_in_a_line(ready, run_in):
    write_notebook(ready, "01_demo_first", "with open('/dev/full', 'w') as full: full.write('x')")
    process = make(run_in, "notebook", "NB=01_demo_first")
    assert process.returncode != 0
    assert "Traceback" not in process.stderr
    assert "Free some space" in process.stderr


@pytest.mark.slow
def test_a_damaged_run_is_told_and_made_anew(ran, run_in):
    damaged = [
        ran / "_build" / path
        for path in ("executed/smoke/01_demo_first.ipynb", "records/smoke/02_demo_second.json")
    ]
    for path in damaged:
        path.write_text(path.read_text()[:100])
    process = make(run_in, "notebooks")
    assert process.returncode == 0
    for path in damaged:
        assert f"{path.name} is missing or damaged" in process.stderr
        assert f"{path.stem}: done" in process.stderr
        assert json.loads(path.read_text())
    assert "done in" not in make(run_in, "notebooks").stderr


def test_a_notebook_that_is_none_is_named(ready, run_in):
    path = ready / "notebooks" / "01_demo_first.ipynb"
    path.write_text(path.read_text()[:100])
    process = make(run_in, "notebook", "NB=02_demo_second")
    assert "01_demo_first.ipynb is no notebook" in process.stderr
    assert "Traceback" not in process.stderr


@pytest.mark.slow
def test_a_record_counts_though_the_clock_was_set_back_meanwhile(ready, run_in):
    path = ready / "notebooks" / "01_demo_first.ipynb"
    path.write_text(
        path.read_text().replace("run.save()", "import os; os.utime(run.save(), (0, 0))")
    )
    process = make(run_in, "notebook", "NB=01_demo_first")
    assert process.returncode == 0, process.stderr


def test_ctrl_c_between_two_looks_at_the_kernel_ends_the_wait_too():
    """Else nbclient waits for ever for a cell of the kernel that it has stopped, one time in ten or so."""
    kernel.make_interruptible()
    client = NotebookClient(nbformat.v4.new_notebook())
    client.kc = None  # as the interrupt leaves it
    with pytest.raises(DeadKernelError):
        asyncio.run(client._async_check_alive())


@pytest.mark.engine
def test_ctrl_c_leaves_no_server_and_no_half_written_output(ready, run_in):
    write_notebook(
        ready,
        "01_demo_first",
        "import time\nfrom resources import services\nservices.graph_endpoint()\ntime.sleep(120)",
    )
    # without the flags and the jobs of a make that runs these tests
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
    environment = {**clean, "MEDRAG_ROOT": str(ready), "PYTHONPATH": str(ready / "src")}
    # what a shell without job control starts in the background ignores Ctrl-C, and so does all that is started by it
    of_tests = signal.signal(signal.SIGINT, signal.default_int_handler)
    process = subprocess.Popen(
        ["make", "--no-print-directory", "PROFILE=smoke", "notebook", "NB=01_demo_first"],
        cwd=ready,
        env=environment,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    signal.signal(signal.SIGINT, of_tests)
    endpoint = ready / "_build" / "services" / "graph" / "endpoint.json"
    deadline = time.monotonic() + 240
    while not endpoint.exists() and time.monotonic() < deadline:
        time.sleep(0.2)
    assert endpoint.exists()
    pid = json.loads((endpoint.parent / "pids.json").read_text())["server"]
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(timeout=240) != 0
    deadline = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not Path(f"/proc/{pid}").exists()
    assert not list((ready / "_build").rglob("*.part*"))
    assert not executed(ready, "01_demo_first").exists()


def test_a_run_that_is_asked_to_end_ends_without_a_traceback(ready, start_in):
    """The whole group gets the signal, and make passes it on: it comes twice."""
    write_notebook(
        ready, "01_demo_first", "open('began', 'w').close()\nimport time\ntime.sleep(60)"
    )
    command = ["make", "PROFILE=smoke", "notebook", "NB=01_demo_first"]
    process = start_in("bash", "-c", f"exec {' '.join(command)} 2>&1")
    wait_for((ready / "began").exists)
    os.killpg(process.pid, signal.SIGTERM)
    output, _ = process.communicate(timeout=240)
    assert process.returncode != 0
    assert "Traceback" not in output
    assert not executed(ready, "01_demo_first").exists()


def test_a_folder_that_is_removed_during_a_run_is_told_with_what_to_do(capsys):
    def command():
        raise FileNotFoundError("output folder _build/executed doesn't exist.")

    assert run_command_line(command) == 1
    assert "run the same command again" in capsys.readouterr().err


def test_what_runs_a_notebook_does_not_load_what_draws_figures():
    heavy = "{'matplotlib', 'seaborn', 'scipy', 'sklearn'}"
    code = f"import sys, publish.run, publish.schedule; print({heavy} & set(sys.modules))"
    assert python_says(code) == "set()\n"


def test_an_engine_is_installed_ahead_only_for_notebooks_that_have_a_model(monkeypatch):
    installed = []
    monkeypatch.setattr(schedule, "install_engine", lambda: installed.append("engine"))
    monkeypatch.setattr(schedule, "run_at_once", lambda *_: 0)
    schedule.run_stale(["13_notes_retrieval"], again=True)
    assert installed == []
    schedule.run_stale(["13_notes_retrieval 14_notes_answers"], again=True)
    assert installed == ["engine"]
