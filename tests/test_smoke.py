"""The smoke profile end to end: make runs the notebook through the real servers, and the book shows it as SAMPLE."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import nbformat
import pytest
from browsing import Theme, faults, served
from conftest import processor_seconds
from playwright.sync_api import Browser

from helpers.settings import BUILD, ROOT

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1200)]
NAME = "01_side_effects_forward"


def make(*targets: str) -> subprocess.CompletedProcess[str]:
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS", "OMP_"))}
    return subprocess.run(
        ["make", "--no-print-directory", "PROFILE=smoke", *targets],
        cwd=ROOT,
        env=clean | {"PROFILE": "smoke"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def reproduced() -> str:
    # two at once, as far as neither waits for the servers that both share
    done = make("reproduce", "JOBS=2")
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def test_the_record_says_what_ran(reproduced):
    record = json.loads((BUILD / "records" / "smoke" / f"{NAME}.json").read_text())
    assert record["sample"] is True
    reruns = {v["id"] for v in record["values"] if v["kind"] == "rerun"}
    for arm in ("closed_book", "format_a", "format_b", "graphrag"):
        assert f"side_effects.table1.{arm}.accuracy" in reruns
    assert all(v["n"] and v["low"] is not None for v in record["values"] if v["kind"] == "rerun")
    engines = {m["engine"] for m in record["provenance"]["models"]}
    assert engines & {"vllm", "llamacpp"}
    assert "graph" in engines
    tokens = record["provenance"]["tokens"]
    assert tokens["requests"] > 0


def test_every_table_and_figure_says_sample(reproduced):
    notebook = nbformat.read(BUILD / "executed" / "smoke" / f"{NAME}.ipynb", as_version=4)
    tables = [
        html
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if "<table" in (html := str(output.get("data", {}).get("text/html", "")))
    ]
    # what the paper prints, and where it disagrees with itself, is real in every run
    measured = [t for t in tables if "as printed" not in t and "Statements that do not go together" not in t]
    assert len(measured) > 3
    assert all("SAMPLE" in t for t in measured)


def test_a_second_make_does_nothing_and_takes_no_time(reproduced, small_llm):
    """Nor does it wait for a server that somebody else, here this test, holds."""
    before = processor_seconds()
    again = make("reproduce")
    assert again.returncode == 0
    assert "done in" not in again.stderr
    assert processor_seconds() - before < 5


@pytest.mark.parametrize("notebook", [NAME, "18_across_papers"])
def test_a_replay_from_stored_requests_asks_the_model_nothing_and_gives_the_same_numbers(reproduced, notebook):
    path = BUILD / "records" / "smoke" / f"{notebook}.json"
    before = json.loads(path.read_text())
    done = subprocess.run(
        [sys.executable, "-m", "helpers.site.run", "notebook", notebook, "--profile", "smoke"],
        cwd=ROOT,
        env={**os.environ, "PROFILE": "smoke", "ANSWERS": "stored-only", "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    after = json.loads(path.read_text())
    tokens = after["provenance"]["tokens"]
    assert tokens["cached"] == tokens["requests"] == before["provenance"]["tokens"]["requests"]
    for part in ("values", "claims", "reasons"):
        assert after[part] == before[part]


def test_the_book_shows_the_sample_run_beside_the_reference(reproduced):
    pages = {p.relative_to(BUILD / "html").as_posix(): p.read_text() for p in (BUILD / "html").rglob("*.html")}
    assert any("SAMPLE" in text and NAME in name for name, text in pages.items())


@pytest.mark.parametrize(("width", "theme"), [(390, "dark"), (1280, "light")])
def test_every_page_of_the_book_is_whole_on_a_phone_and_on_a_desk(
    reproduced: str, browser: Browser, width: int, theme: Theme
) -> None:
    site = BUILD / "html"
    pages = sorted(path.relative_to(site).as_posix() for path in site.rglob("*.html") if "_static" not in path.parts)
    with served(site) as address:
        assert not faults(browser, address, pages, width=width, theme=theme)
