"""What the settings read from `.env`, and that make reads the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, new_project, running_in
from hypothesis import given, strategies as st

from resources import env_file
from resources.env_file import EnvFileError, read_env_file

Run = Callable[..., subprocess.CompletedProcess[str]]

SHOW = (
    "from resources.settings import settings, run_command_line\n"
    "def show():\n    s = settings()\n    print(s.profile, s.llm_model)\n    return 0\n"
    "raise SystemExit(run_command_line(show))"
)
MAKE_READS = ("-I", "-S", "src/resources/env_file.py", "PROFILE", "RUN")


def read_file(tmp_path: Path, content: str | bytes) -> dict[str, str]:
    path = tmp_path / ".env"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return read_env_file(path)


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("NAME=plain", "plain"),
        ("NAME = spaces around ", "spaces around"),
        ("export NAME=exported", "exported"),
        ("NAME=value # a comment", "value"),
        ("NAME=a#b", "a#b"),
        ("NAME= # nothing", ""),
        ("NAME=", ""),
        ("NAME='single # quoted $ ${X} \\n'", "single # quoted $ ${X} \\n"),
        ('NAME="double # quoted"  # and a comment', "double # quoted"),
        (r'NAME="a \"quote\" and a \\ and a line\nend"', 'a "quote" and a \\ and a line\nend'),
        ("NAME=carriage return\r", "carriage return"),
        ("NAME=first\nNAME=last", "last"),
        ("OTHER=folder\nNAME=${OTHER}/file", "folder/file"),
        ("# NAME=no\n\nNAME=yes", "yes"),
        ("NAME=umläut", "umläut"),
        ("NAME=a=b", "a=b"),
    ],
)
def test_a_line_of_the_file_is_read(tmp_path: Path, line: str, value: str) -> None:
    assert read_file(tmp_path, line)["NAME"] == value


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be"])
def test_a_file_of_any_unicode_encoding_with_its_mark_is_read(
    tmp_path: Path, encoding: str
) -> None:
    marks = {"utf-16-le": b"\xff\xfe", "utf-16-be": b"\xfe\xff"}
    content = marks.get(encoding, b"") + "NAME=übel\n".encode(encoding)
    assert read_file(tmp_path, content) == {"NAME": "übel"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("A=1\nno assignment\n", "Line 2 of .* is not NAME=value"),
        ("A='open", "Line 1"),
        ('A="open', "Line 1"),
        ("A='x' y", "Line 1"),
        ("A=1\nB=übel\n".encode("latin-1"), "Line 2 of .* is not UTF-8. Save it as UTF-8"),
        ("A=1\n".encode("utf-16-le"), "without its mark. Save it as UTF-8"),
        (b"A=1\n" * 3_000_000, "12,000,000 bytes"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_line(
    tmp_path: Path, content: str | bytes, message: str
) -> None:
    with pytest.raises(EnvFileError, match=message) as error:
        read_file(tmp_path, content)
    assert "\n" not in str(error.value)


def test_the_message_about_a_line_does_not_show_its_secret(tmp_path: Path) -> None:
    with pytest.raises(EnvFileError) as error:
        read_file(tmp_path, "NEO4J_PASSWORD='hunter2")
    assert "hunter2" not in str(error.value)


@given(st.text(st.characters(exclude_characters="'\r\n\0", exclude_categories=["Cs"])))
def test_a_value_in_single_quotes_is_as_it_stands(value: str) -> None:
    assert env_file._parse_value(f"'{value}'", {}) == value


@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_what_is_no_file_is_refused_at_once(project: Path, run_in: Run, kind: str) -> None:
    path = project / ".env"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.mkdir()
    for command in (("-c", SHOW), MAKE_READS):
        process = run_in(sys.executable, *command, timeout=240)
        assert process.returncode == 1
        assert f"{path} is no regular file." in process.stderr
        assert len(process.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("content", "run"),
    [
        ("PROFILE=paper\n", "paper"),
        ("PROFILE='smoke' # for a look\nLLM_MODEL=other/7B\n", "smoke@other_7B"),
        ("LLM_MODEL=own-model", "laptop"),
        ("LLM_MODEL=\"a'; touch x; '\"", "laptop@a_touch_x_"),
        ("export PROFILE = paper\r\n", "paper"),
        ("", "laptop"),
    ],
)
def test_make_and_the_settings_read_the_same(
    project: Path, run_in: Run, content: str, run: str
) -> None:
    for profile in ("smoke", "laptop", "paper"):
        path = project / "notebooks" / "profiles" / f"{profile}.yml"
        path.write_text(f"defaults:\n  llm_model: {profile.replace('laptop', 'own')}-model\n")
    (project / ".env").write_text(content)
    output = run_in(sys.executable, *MAKE_READS).stdout.split()
    assert output == [run.partition("@")[0], run]
    code = "from resources.settings import run_name, settings as s; print(run_name(s().profile))"
    assert run_in(sys.executable, "-c", code).stdout.split() == [run]


def test_make_finds_the_model_of_each_profile_as_yaml_does() -> None:
    for path in (REPOSITORY / "notebooks" / "profiles").glob("*.yml"):
        defaults = yaml.safe_load(path.read_text(encoding="utf-8"))["defaults"]
        assert env_file._own_model(path.stem) == defaults.get("llm_model", "")


def test_a_profile_that_a_shell_could_run_is_refused(project: Path, run_in: Run) -> None:
    process = run_in(sys.executable, *MAKE_READS, PROFILE="x'; touch y; '")
    assert process.returncode == 1
    assert not process.stdout
    assert "PROFILE must have letters" in process.stderr


def test_the_environment_goes_before_the_file(project: Path, run_in: Run) -> None:
    (project / ".env").write_text("PROFILE=paper\nLLM_MODEL=of-the-file\n")
    assert run_in(sys.executable, "-c", SHOW, PROFILE="smoke").stdout == "smoke of-the-file\n"


# ------------------------------------------------------------------------------------ surroundings


USE_GRAPH = """
from helpers import graph
with graph.connect() as db:
    print(db.read("RETURN 1 AS one"))
"""


@pytest.mark.engine
def test_the_graph_is_served_in_a_folder_that_is_not_ascii(tmp_path: Path) -> None:
    project = new_project(tmp_path / "prüjekt")
    process = running_in(project)(sys.executable, "-c", USE_GRAPH, LC_ALL="POSIX")
    assert "{'one': 1}" in process.stdout, process.stderr


@pytest.mark.engine
def test_a_low_limit_on_open_files_is_raised_or_named(project: Path, run_in: Run) -> None:
    use = (sys.executable, "-c", USE_GRAPH)
    process = run_in("prlimit", "--nofile=64:4096", *use)
    assert "{'one': 1}" in process.stdout, process.stderr
    process = run_in("prlimit", "--nofile=64:64", *use)
    assert "Too many files are open at once. Raise the limit (ulimit -n 1024)" in process.stderr
    # nothing is damaged, and nothing is loaded again
    assert not list((project / "_build" / "graph").glob("databases.bad-*"))


def test_a_command_prints_a_warning_as_its_sentences_alone():
    code = (
        "import warnings; from resources.settings import run_command_line; "
        "run_command_line(lambda: warnings.warn('A limit ended a thought.'))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stderr == "A limit ended a thought.\n"
