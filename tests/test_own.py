"""A model, a table and a paper of the reader's own: what the pages say works, word by word."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pandas as pd
import pytest
import yaml
from hypothesis import example, given, strategies as st
from test_graph import users_server

from papers.side_effects import own_table
from publish import new_experiment
from resources.services import LlmEndpoint

REPOSITORY = Path(__file__).resolve().parents[1]
NAME = "Reader/Own-1B"


def blocks(page: str) -> list[str]:
    """The Python of a page, block by block."""
    return re.findall(
        r"^```python\n(.*?)^```",
        (REPOSITORY / "book" / f"{page}.md").read_text(),
        re.MULTILINE | re.DOTALL,
    )


def test_the_code_of_the_pages_agrees_with_the_modules_it_calls(tmp_path: Path) -> None:
    paths = []
    for page in ("own-model", "own-table"):
        path = tmp_path / f"{page.replace('-', '_')}.py"
        path.write_text("".join(blocks(page)))
        paths.append(str(path))
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(REPOSITORY / "pyproject.toml"),
        *paths,
    ]
    process = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stdout + process.stderr


def run_python(
    root: Path, code: str, folder: Path, **variables: str
) -> subprocess.CompletedProcess[str]:
    ours = ("LLM_", "NEO4J_", "PROFILE", "MAKE", "MFLAGS")
    foreign = {k: v for k, v in os.environ.items() if not k.startswith(ours)}
    environment = (
        foreign | {"MEDRAG_ROOT": str(root), "PYTHONPATH": str(REPOSITORY / "src")} | variables
    )
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server of the OpenAI API that is no engine the project knows: it says YES where the evidence does, else NO."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self, content: object) -> None:
            body = json.dumps(content).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self) -> None:
            self.answer(
                {
                    "object": "list",
                    "data": [{"id": NAME, "object": "model", "owned_by": "the reader"}],
                }
            )

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = "YES" if "\n\nYes, the side effect" in body["messages"][-1]["content"] else "NO"
            choice = {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": text},
            }
            usage = {"prompt_tokens": 30, "completion_tokens": 1, "total_tokens": 31}
            self.answer(
                {
                    "id": "1",
                    "object": "chat.completion",
                    "created": 0,
                    "model": NAME,
                    "choices": [choice],
                    "usage": usage,
                }
            )

        def log_message(self, *args: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/v1"
        server.shutdown()


# -- a model ----------------------------------------------------------------------------------------------------------


def test_the_page_on_ones_own_model_asks_it(address: str, tmp_path: Path) -> None:
    [code] = blocks("own-model")
    process = run_python(tmp_path, code, tmp_path, LLM_BASE_URL=address, LLM_MODEL=NAME)
    assert process.returncode == 0, process.stderr
    assert process.stdout == "NO complete 30 1\nlog-probabilities: no\n"


# -- a table ----------------------------------------------------------------------------------------------------------


def page_table(folder: Path) -> Path:
    """The table that the page shows."""
    text = (REPOSITORY / "book" / "own-table.md").read_text()
    [rows] = re.findall(r":caption: my_table\.csv\n\n(.*?)```", text, re.DOTALL)
    path = folder / "my_table.csv"
    path.write_text(rows)
    return path


def test_the_page_on_ones_own_table_makes_its_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page_table(tmp_path)
    monkeypatch.chdir(tmp_path)
    exec(compile(blocks("own-table")[0], "own-table.md", "exec"), {})
    lines = capsys.readouterr().out.splitlines()
    assert "YES Is tinnitus an adverse effect of aspirin?" in lines
    assert (
        sum(line.startswith("YES") for line in lines)
        == sum(line.startswith("NO ") for line in lines)
        == 5
    )


@pytest.mark.engine
def test_the_page_on_ones_own_table_runs_the_four_arms_on_either_graph_server(
    checkout: Path,
    run_in: Callable[..., subprocess.CompletedProcess[str]],
    small_llm: LlmEndpoint,
    tmp_path: Path,
) -> None:
    page_table(tmp_path)
    server = {
        "LLM_BASE_URL": small_llm.base_url,
        "LLM_MODEL": small_llm.model,
        "LLM_API_KEY": small_llm.api_key,
    }
    (checkout / "data" / "raw").symlink_to(REPOSITORY / "data" / "raw")
    code = f"import os; os.chdir({str(tmp_path)!r})\n" + "\n".join(blocks("own-table"))
    with users_server() if (uri := os.environ.get("NEO4J_URI", "")) else nullcontext():
        process = run_in(
            sys.executable, "-c", code, MEDRAG_ROOT=str(checkout), NEO4J_URI=uri, **server
        )
    stopped = run_in(sys.executable, "-m", "resources.services", "stop", MEDRAG_ROOT=str(checkout))
    assert process.returncode == 0, process.stderr[-2000:]
    assert stopped.returncode == 0
    arms = [line for line in process.stdout.splitlines() if "n = 10" in line]
    assert [line.split("  ")[0].strip() for line in arms] == [
        "closed book",
        "format A",
        "format B",
        "graph",
    ]


NAMES = st.text(
    st.characters(categories=["Ll", "Lu", "Nd"], include_characters=" -,'\""), min_size=1
).filter(str.strip)


@given(st.lists(st.tuples(NAMES, NAMES), min_size=1, max_size=20))
@example([("NA", "null")])
def test_a_table_is_read_whatever_its_names_are(
    tmp_path_factory: pytest.TempPathFactory, pairs: list[tuple[str, str]]
) -> None:
    path = tmp_path_factory.mktemp("table") / "t.csv"
    pd.DataFrame(pairs, columns=list(own_table.COLUMNS)).assign(more=1).to_csv(path, index=False)
    knowledge = own_table.read(path)
    assert {(d, e) for d, effects in knowledge.items() for e in effects} == {
        (d.strip().lower(), e.strip().lower()) for d, e in pairs
    }
    assert all(len(set(effects)) == len(effects) for effects in knowledge.values())


@given(
    st.dictionaries(st.sampled_from("abcd"), st.sets(st.integers(0, 8).map(str), min_size=1)),
    st.integers(1, 4),
)
def test_the_questions_are_balanced_and_true_to_the_table(
    knowledge: dict[str, set[str]], n_each: int
) -> None:
    all_effects = set().union(*knowledge.values())
    table = {drug: tuple(sorted(effects)) for drug, effects in knowledge.items()}
    if all(effects == all_effects for effects in knowledge.values()):
        with pytest.raises(own_table.TableError, match="no question has the answer NO"):
            own_table.questions(table, n_each, seed=1)
        return
    pairs = own_table.questions(table, n_each, seed=1)
    assert pairs == own_table.questions(table, n_each, seed=1)
    assert len(set(pairs)) == len(pairs)
    assert all(q.label == (q.side_effect in knowledge[q.drug]) for q in pairs)
    for drug in knowledge:
        labels = [q.label for q in pairs if q.drug == drug]
        assert labels.count(True) == labels.count(False) <= n_each


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"drug,dose\na,b\n", "'effect' is needed; none was found among: drug, dose"),
        (b"drug,side_effect\na,b\n ,c\n", "row 3 lacks a name"),
        (b"drug,side_effect\n", "it has no row"),
        (b"", "the file is empty"),
        ("drug,side_effect\nmat\xe9,b\n".encode("latin-1"), r"byte 21 \(0xe9\).* UTF-8"),
        ("drug,side_effect\na,b\n".encode("utf-16-le"), "NUL.* UTF-8"),
        (b"drug,side_effect\na,b\0c\n", "NUL"),
        (b'drug,side_effect\n"a,b\n', "EOF inside string"),
        (b"drug,side_effect\na,b\nc,d,e\n", "line 3 has 3 cells"),
        (b"drug,side_effect\nacid, folic,nausea\n", "comma in quotes"),
    ],
)
def test_a_table_that_cannot_be_used_says_why(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(own_table.TableError, match=message):
        own_table.read(path)


def test_what_is_no_file_is_no_table(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.csv")
    for path, problem in (
        (tmp_path, "a folder"),
        (tmp_path / "none.csv", "nothing"),
        (tmp_path / "pipe.csv", "a pipe"),
    ):
        with pytest.raises(own_table.TableError, match=f"{path}.*{problem}"):
            own_table.read(path)


def test_a_table_in_utf_16_that_says_so_is_read(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("drug,side_effect\nmat\xe9,rash\n", encoding="utf-16")
    assert own_table.read(path) == {"mat\xe9": ("rash",)}


# -- a paper ----------------------------------------------------------------------------------------------------------


def begin(checkout: Path, name: str, paper: str) -> subprocess.CompletedProcess[str]:
    arguments = ["--name", name, "--paper", paper]
    code = "import sys; from resources.settings import run_command_line; from publish import new_experiment as n\n"
    return run_python(
        checkout, f"{code}sys.exit(run_command_line(lambda: n.main({arguments})))", checkout
    )


@pytest.fixture
def bare(checkout: Path) -> Path:
    """The project without the reference's answers and pages, which take a book long to show."""
    shutil.rmtree(checkout / "data" / "answers")
    shutil.rmtree(checkout / "book" / "reference")
    return checkout


def test_a_new_experiment_passes_lint_and_has_its_place_in_the_book(bare: Path) -> None:
    process = begin(bare, "first_try", "own_paper")
    assert process.returncode == 0, process.stderr
    [path] = (bare / "notebooks").glob("*_own_paper_first_try.ipynb")
    assert f"make notebook NB={path.stem}" in process.stdout
    assert (
        "my_paper"
        not in path.read_text() + (bare / "data" / "published" / "own_paper.yml").read_text()
    )
    for check in (["check", "-q"], ["format", "-q", "--check"]):
        command = [str(Path(sys.executable).with_name("ruff")), *check, str(path)]
        ruff = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ruff.returncode == 0, ruff.stdout

    profiles = "('smoke', 'laptop', 'paper')"
    code = (
        "from publish import book, schedule; from resources.parameters import check_profile; "
        f"[check_profile(p, schedule.notebook_names()) for p in {profiles}]; book.stage()"
    )
    staged = run_python(bare, code, bare)
    assert staged.returncode == 0, staged.stderr[-3000:]
    pages = bare / "_build" / "book-src"
    parts = yaml.safe_load((pages / "_toc.yml").read_text())["parts"]
    assert f"notebooks/{path.stem}" in [page["file"] for part in parts for page in part["chapters"]]
    assert "EXAMPLE, not from a paper" in (pages / "scoreboard-own_paper.md").read_text()
    assert path.stem in (pages / "index.md").read_text()
    sizes = yaml.safe_load((bare / "notebooks" / "profiles" / "smoke.yml").read_text())
    assert sizes[path.stem]["questions"] == new_experiment.SIZES["smoke"]


@pytest.mark.engine
def test_a_new_experiment_runs_in_smoke_and_stands_in_the_book_as_a_sample(
    bare: Path, small_llm: LlmEndpoint
) -> None:
    assert begin(bare, "first_try", "own_paper").returncode == 0
    [path] = (bare / "notebooks").glob("*_own_paper_first_try.ipynb")
    steps = f"run.execute({path.stem!r}, 'smoke'); book.stage()"
    server = {
        "LLM_BASE_URL": small_llm.base_url,
        "LLM_MODEL": small_llm.model,
        "LLM_API_KEY": small_llm.api_key,
    }
    ran = run_python(
        bare, f"from publish import book, run; {steps}", bare, PROFILE="smoke", **server
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    record = json.loads((bare / "_build" / "records" / "smoke" / f"{path.stem}.json").read_text())
    assert record["sample"] is True
    assert {value["id"]: value["n"] for value in record["values"]} == {
        "own_paper.first_try.closed_book.accuracy": 8,
        "own_paper.first_try.with_evidence.accuracy": 8,
    }
    assert [claim["id"] for claim in record["claims"]] == ["own_paper.claim.evidence_helps"]
    assert record["provenance"]["tokens"]["requests"] == 16
    page = (bare / "_build" / "book-src" / "notebooks" / f"{path.stem}_sample.ipynb").read_text()
    assert "SAMPLE" in page


def test_a_further_experiment_of_a_paper_stands_after_its_last_and_leaves_its_numbers_alone(
    checkout: Path,
) -> None:
    published = checkout / "data" / "published" / "side_effects.yml"
    before = published.read_text()
    for paper, caption in (
        ("side_effects", "GraphRAG for side effects"),
        ("clinical_notes", "Registry and search for notes"),
    ):
        assert begin(checkout, "another", paper).returncode == 0
        contents = yaml.safe_load((checkout / "book" / "_toc.yml").read_text())
        [part] = [part for part in contents["parts"] if part["caption"] == caption]
        assert part["chapters"][-1]["file"].endswith(f"_{paper}_another")
    assert published.read_text() == before
    again = begin(checkout, "another", "side_effects")
    assert again.returncode == 1
    assert "exists. Choose another NAME." in again.stderr


@pytest.mark.parametrize(
    ("name", "paper"), [("", "own"), ("First", "own"), ("first", "../own"), ("first", "")]
)
def test_a_name_that_is_none_is_refused_before_anything_is_written(name: str, paper: str) -> None:
    with pytest.raises(new_experiment.ExperimentError, match="medrerun new-experiment"):
        new_experiment.begin(name, paper)


def test_the_first_experiment_of_a_paper_begins_a_part_before_the_last() -> None:
    contents = (
        "format: jb-book\nroot: index\nparts:\n  - caption: A\n    chapters:\n      - file: notebooks/00_a_x\n"
        "  - caption: Behind\n    chapters:\n      - file: p\n"
    )
    parts = yaml.safe_load(new_experiment.with_place(contents, "01_b_y", "b", ["00_b_x"]))["parts"]
    assert [part["caption"] for part in parts] == ["A", "B", "Behind"]
    assert parts[1]["chapters"] == [{"file": "notebooks/01_b_y"}]
