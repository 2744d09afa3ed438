"""No password, key or token reaches a message, a log, a record, a page or a kept notebook, whoever quotes it."""

from __future__ import annotations

import importlib
import json
import logging
import os
import pkgutil
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from hypothesis import given, strategies as st

import evaluation
import helpers
import publish
import rag
import resources
from evaluation import figures, record
from evaluation.provenance import scrubbed
from helpers import graph
from publish import chapters, doctor, pages
from resources import datasets, services, settings, supervisor
from resources.download import SourceError, download
from resources.engines import Launch
from resources.services import GraphEndpoint, LlmEndpoint
from resources.settings import PublicError, SettingsError, hide_secrets

CLOSED = "127.0.0.1:9"
SECRETS = {
    "NEO4J_URI": f"bolt://graph-user:graph-in-uri@{CLOSED}",
    "NEO4J_PASSWORD": "graph-word",
    "NEO4J_READER_PASSWORD": "reader-word",
    "LLM_BASE_URL": f"http://llm-user:llm-in-url@{CLOSED}/v1?api_key=llm-in-query",
    "LLM_API_KEY": "llm-key",
    "DATA_MIRROR": f"http://mirror-user:mirr%40r-word@{CLOSED}/m?token=mirror-token&sig=mirror-signature",
    "HTTPS_PROXY": "http://proxy-user:proxy-word@proxy.example:3128",
    "PIP_INDEX_URL": "https://index-token-1234@pypi.example/simple",
    "SOME_ACCESS_TOKEN": "environment-token",
}
WORDS = (
    *(
        "graph-in-uri",
        "graph-word",
        "reader-word",
        "llm-in-url",
        "llm-in-query",
        "llm-key",
        "mirr%40r-word",
    ),
    *(
        "mirr@r-word",
        "mirror-token",
        "mirror-signature",
        "proxy-word",
        "index-token-1234",
        "environment-token",
    ),
)
ENVELOPES = ("{}", "quoted by httpx: '{}'", '["{}"]', "<{}>", "({}).", "a line\n{}\nanother")


def leaked(text: str) -> list[str]:
    return [word for word in WORDS if word in text]


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Settings of which each holds a secret."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    settings.settings.cache_clear()
    yield
    monkeypatch.undo()
    settings.settings.cache_clear()


# ---------------------------------------------------------------------------------------------------- the one function


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("envelope", ENVELOPES)
def test_a_known_secret_is_hidden_wherever_it_is(envelope: str) -> None:
    for value in (*SECRETS.values(), *WORDS):
        assert not leaked(hide_secrets(envelope.format(value))), value
    nested = hide_secrets(
        {"log": [envelope.format(value) for value in WORDS], "n": 3, "none": None}
    )
    assert not leaked(json.dumps(nested))
    assert (nested["n"], nested["none"]) == (3, None)


@pytest.mark.parametrize("scheme", ["http", "https", "bolt+s", "neo4j", "postgresql"])
@pytest.mark.parametrize(
    "login", ["user:hunter2", ":hunter2", "hunter2", "user:hunter2@more", "user:hun/hunter2"]
)
def test_an_address_that_no_setting_names_loses_its_user_and_password(
    scheme: str, login: str
) -> None:
    text = hide_secrets(
        f"tried {scheme}://{login}@host.example:7687/db?policy=eu&access_token=hunter2&X-Amz-Signature=hunter2"
    )
    assert "hunter2" not in text
    assert f"{scheme}://host.example:7687/db?policy=eu&access_token=(hidden)" in text


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:8000/v1",
        "https://raw.githubusercontent.com/a/b/0123/data/x@2.csv",
        "http://gpu:8000/packages/@scope/name",
        "Is 3:1 = 3? mail someone@example.org; key = value",
        "https://pubmed.ncbi.nlm.nih.gov/?term=rash&page=2",
        "tokens=3, prompt_tokens=4",
    ],
)
def test_what_holds_no_secret_stays_as_it_is(text: str) -> None:
    assert hide_secrets(text) == text


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists))
def test_hiding_twice_hides_no_more(value: Any) -> None:
    assert hide_secrets(hide_secrets(value)) == hide_secrets(value)


def test_a_short_password_hides_no_part_of_a_word(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEO4J_PASSWORD", "graph")
    settings.settings.cache_clear()
    try:
        assert hide_secrets("graphrag, the graph: graph") == "graphrag, the (hidden): (hidden)"
    finally:
        settings.settings.cache_clear()


# -------------------------------------------------------------------------------------------------- where it must pass


def errors() -> list[type[Exception]]:
    """Every error that a module outside the papers defines."""
    errors_by_name = {}
    # `launch` runs before anything is installed, and so does `env_file`, whose messages name lines
    # and hold no value; the errors of `llm` quote servers, and are hidden where a run is kept
    left_out = ("helpers.llm", "publish.launch", "resources.env_file")
    packages = (evaluation, helpers, publish, rag, resources)
    for module in chain(
        *(pkgutil.walk_packages(package.__path__, f"{package.__name__}.") for package in packages)
    ):
        try:
            content = vars(importlib.import_module(module.name))
        except ModuleNotFoundError:
            continue  # a program of another environment
        for thing in content.values():
            own = (
                isinstance(thing, type)
                and issubclass(thing, Exception)
                and thing.__module__ == module.name
            )
            if own and module.name not in left_out:
                errors_by_name[f"{module.name}.{thing.__name__}"] = thing
    return list(errors_by_name.values())


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("kind", errors(), ids=lambda kind: kind.__name__)
def test_no_error_tells_what_it_quotes(kind: type[Exception]) -> None:
    error = kind(f"failed: {' '.join((*SECRETS.values(), *WORDS))}")
    assert not leaked(f"{error} {error!r}")
    assert "failed: bolt://127.0.0.1:9" in str(error)
    assert issubclass(kind, PublicError)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NEO4J_URI", "http://user:hunter2@host"),
        ("NEO4J_URI", "user:hunter2@host"),
        ("LLM_BASE_URL", "ftp://user:hunter2@host/v1"),
        ("LLM_BASE_URL", "user:hunter2@host/v1?token=hunter2"),
        ("LLM_BASE_URL", "http://user:hunter2@/v1"),
        ("LLM_BASE_URL", "http://user:hunter2@host:port/v1"),
        ("PROFILE", "https://user:hunter2@host"),
    ],
)
def test_a_setting_that_is_refused_is_told_without_its_password(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    settings.settings.cache_clear()
    try:
        with pytest.raises(SettingsError, match=name) as caught:
            settings.settings()
        assert "hunter2" not in f"{caught.value} {caught.value!r}"
    finally:
        settings.settings.cache_clear()


@pytest.mark.usefixtures("secrets")
def test_servers_that_do_not_answer_are_told_without_secrets(tmp_path: Path) -> None:
    with pytest.raises(services.ServiceError, match="cannot be reached") as llm:
        services.llm_endpoint("model")
    with pytest.raises(graph.GraphError, match="NEO4J_USER") as bolt:
        graph.connect()  # whose driver refuses a user in the address, and quotes it
    with pytest.raises(SourceError, match="cannot be reached") as source:
        download(f"{SECRETS['DATA_MIRROR']}/file", 3, "0" * 64, tmp_path / "file.part")
    for caught in (llm, bolt, source):
        assert not leaked(f"{caught.value} {caught.value!r}")
    report = json.dumps(doctor.findings())
    assert not leaked(report)
    assert f"bolt://{CLOSED}" in report
    assert f"http://{CLOSED}/v1" in report


@pytest.mark.usefixtures("secrets")
def test_a_mirror_that_is_no_folder_is_told_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATA_MIRROR", "ftp://mirror-user:mirror-token@host/x?sig=mirror-signature")
    settings.settings.cache_clear()
    with pytest.raises(SettingsError, match="no such folder") as caught:
        datasets._folder(str(settings.settings().data_mirror))
    assert not leaked(str(caught.value))


@pytest.mark.usefixtures("secrets")
def test_endpoints_and_launches_show_no_secret() -> None:
    uri, url = SECRETS["NEO4J_URI"], SECRETS["LLM_BASE_URL"]
    objects = [
        GraphEndpoint(
            uri, "u", "graph-word", "neo4j", "r", "reader-word", "neo4j", "", embedded=False
        ),
        LlmEndpoint(url, "model", "llm-key", "vllm", "", "", 0, 1),
        Launch("llm", ["run"], {"KEY": "llm-key"}, "http://x", {"api_key": "llm-key"}),
    ]
    assert not leaked(repr(objects))
    assert f"http://{CLOSED}/v1" in repr(objects)


@pytest.mark.usefixtures("secrets")
def test_no_line_of_a_log_tells_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    url = SECRETS["LLM_BASE_URL"]
    with caplog.at_level(logging.DEBUG), pytest.raises(openai.APIConnectionError):
        openai.OpenAI(base_url=url, api_key="llm-key", max_retries=1).models.list()
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.INFO, logger="httpx"):
        logging.getLogger("httpx").info("HTTP Request: GET %s", httpx.URL(url))
        logging.getLogger("some.library").error("with %s", list(SECRETS.values()))
    assert "HTTP Request: GET http://" in caplog.text
    assert not leaked(caplog.text)


def test_a_terminal_does_not_obey_what_an_error_quotes() -> None:
    error = PublicError("The server refused: \x1b[31mred\x07\r\x9b2J.\nCheck it.")
    assert str(error) == "The server refused: �[31mred���2J.\nCheck it."


@pytest.mark.usefixtures("secrets")
def test_a_record_keeps_no_secret(tmp_path: Path) -> None:
    all_secrets = " and ".join((*SECRETS.values(), *WORDS))
    run = record.start(
        notebook="01_x",
        paper="side_effects",
        profile="smoke",
        parameters={"served": all_secrets, "api_key": "abc"},
    )
    run.model(all_secrets, None, engine=all_secrets, version=all_secrets, role=all_secrets)
    run.not_run("side_effects.table1.graphrag.f1", f"it says {all_secrets} \x1b[31m")
    text = run.save(tmp_path / "record.json").read_text(encoding="utf-8")
    assert not leaked(text)
    assert "\\u001b" not in text, "a terminal would obey it"
    assert '"abc"' not in text
    assert scrubbed(f"asked {SECRETS['LLM_BASE_URL']}") == "asked LLM_BASE_URL"


@pytest.mark.usefixtures("secrets")
def test_pages_and_tables_show_no_secret_of_a_notebook_that_failed(tmp_path: Path) -> None:
    """The page on provenance quotes the error of a failed notebook, also of one that another version left behind."""
    text = f"LLM_BASE_URL={SECRETS['LLM_BASE_URL']} failed"
    error = {"output_type": "error", "ename": "ServiceError", "evalue": text, "traceback": []}
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "source": "# T", "metadata": {}}]
    cells.append({"cell_type": "code", "source": "", "metadata": {}, "outputs": [error]})
    path = tmp_path / "01_x.ipynb"
    path.write_text(json.dumps({"cells": cells}))
    page = pages.Pages([chapters.Chapter("01_x", "none", path, failed=path)]).runs()
    assert "last run failed: ServiceError: LLM_BASE_URL=http://" in page
    assert not leaked(page)
    box = figures.prompt_box([{"role": "user", "content": text}], answer=text, caption=text)
    assert not leaked(box.html + repr(box) + figures.inline(text))


FAILS = """
import httpx, logging, os, sys
print("asked", os.environ["LLM_BASE_URL"])
logging.getLogger("x").error("with %s", os.environ["LLM_API_KEY"])
sys.stderr.write(os.environ["NEO4J_URI"] + chr(10))
{}
"""


ENDINGS = {
    "01_demo_fails": "raise RuntimeError(os.environ['DATA_MIRROR'])",
    "02_demo_shows": "os.environ['LLM_BASE_URL']",
}


def test_what_a_notebook_shows_and_how_it_fails_is_kept_and_told_without_secrets(
    project: Path,
) -> None:
    from test_run import PUBLISHED, write_notebook

    (project / "data" / "published" / "demo.yml").write_text(PUBLISHED)
    (project / "data" / "registry.yml").write_text("files: {}\n")
    (project / "notebooks" / "profiles" / "smoke.yml").write_text("defaults:\n  size: 2\n")
    for name, ending in ENDINGS.items():
        write_notebook(project, name, FAILS.format(ending))
    environment = (
        os.environ
        | SECRETS
        | {"MEDRAG_ROOT": str(project), "PYTHONPATH": str(project / "src"), "PROFILE": "smoke"}
    )

    def run_output(notebook: str) -> str:
        command = [sys.executable, "-m", "publish.run", notebook]
        process = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=300, check=False
        )
        assert not leaked(process.stdout + process.stderr)
        return process.stdout + process.stderr

    for name, ending in ENDINGS.items():
        fails = "RuntimeError: http://127.0.0.1:9/m" in run_output(name)
        assert fails == ending.startswith("raise")
        [path] = (project / "_build").glob(f"*/smoke/{name}.ipynb")
        notebook_text = path.read_text(encoding="utf-8")
        assert f"asked http://{CLOSED}/v1" in notebook_text
        assert not leaked(notebook_text)


@pytest.mark.usefixtures("secrets")
def test_a_server_that_ends_is_told_without_the_secrets_that_it_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LOGS", tmp_path)
    monkeypatch.setattr(supervisor.signal, "signal", lambda *_: None)
    folder = tmp_path / "llm"
    (folder / "users").mkdir(parents=True)
    (folder / "users" / str(os.getpid())).touch()
    script = "import os; print('started with', os.environ['OWN'], os.environ['LLM_BASE_URL'], flush=True)"
    own = "own-key-of-it"
    launch = Launch(
        "llm", [sys.executable, "-c", script], {"OWN": own}, f"http://{CLOSED}", {"api_key": own}
    )
    began = time.monotonic()
    with (folder / "running").open("wb") as lock:
        assert supervisor.Supervisor(folder, launch, lock.fileno()).run() == 1
    failed = (folder / "failed.txt").read_text()
    assert "started with" in failed
    assert not leaked(failed)
    assert own not in failed
    assert time.monotonic() - began < 240
