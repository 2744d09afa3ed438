"""The doctor: what will be used and why, what is missing, and the line that mends it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from helpers import doctor, engines, settings


@pytest.fixture(autouse=True)
def fresh_settings():
    yield
    settings.settings.cache_clear()


def finding(part: str) -> doctor.Finding:
    settings.settings.cache_clear()
    return next(f for f in doctor.findings() if f.part.lower() == part)


def test_every_part_is_named():
    assert {f.part for f in doctor.findings()} == {"machine", "profile", "graph", "LLM", "weights", "data", "browser"}


def test_a_server_that_does_not_answer_is_told_with_the_line_that_mends_it(monkeypatch):
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:9/v1")
    assert "unset LLM_BASE_URL" in finding("llm").mend
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:9")
    assert "NEO4J_PASSWORD" in finding("graph").mend


def test_the_paper_profile_asks_for_a_server(monkeypatch):
    monkeypatch.setenv("PROFILE", "paper")
    assert "LLM_BASE_URL" in finding("llm").mend


def test_a_wrong_setting_is_an_error_of_one_line(run_in, project):
    (project / "data" / "registry.yml").write_text("files: {}\n")
    (project / "notebooks" / "profiles" / "laptop.yml").write_text("defaults: {}\n")
    done = run_in(sys.executable, "-m", "helpers.doctor", LLM_ENGINE="ollama")
    assert done.returncode == 1
    assert "LLM_ENGINE" in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


def test_a_chromium_that_playwright_installed_is_found_where_the_system_has_none(monkeypatch, tmp_path):
    monkeypatch.delenv("CHROMIUM", raising=False)
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path))
    assert doctor.browser() is None
    with sync_playwright() as playwright:
        place = Path(playwright.chromium.executable_path)
    place.parent.mkdir(parents=True)
    place.touch()
    assert doctor.browser() == str(place)


def test_little_memory_means_the_smaller_engine(monkeypatch):
    monkeypatch.setattr(engines, "available_memory", lambda: 4 * engines.GIB)
    monkeypatch.setattr(engines, "_cpu_flags", lambda: {"avx512f"})
    monkeypatch.setattr(engines.sys, "platform", "linux")
    engine, why = engines.choose_engine("Qwen2.5-Coder-1.5B-Instruct")
    assert engine == "llamacpp"
    assert "GiB" in why


def test_an_old_processor_means_the_engine_that_runs_anywhere(monkeypatch):
    monkeypatch.setattr(engines, "_cpu_flags", lambda: {"avx2"})
    monkeypatch.setattr(shutil, "which", lambda _: None)
    assert engines.choose_engine("SmolLM2-135M-Instruct")[0] == "llamacpp"


def test_a_wanted_engine_is_taken_and_the_reason_said(monkeypatch):
    monkeypatch.setenv("LLM_ENGINE", "llamacpp")
    settings.settings.cache_clear()
    assert engines.choose_engine("SmolLM2-135M-Instruct") == ("llamacpp", "LLM_ENGINE=llamacpp")


def test_a_broken_installation_shows_the_end_of_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(engines, "LOGS", tmp_path)
    with pytest.raises(engines.EngineError, match=r"(?s)no such thing.*install-vllm\.log.*LLM_ENGINE"):
        engines._run_logged([sys.executable, "-c", "import sys; sys.exit('no such thing')"], "vllm")


def test_a_secret_is_its_owners_alone(tmp_path):
    path = tmp_path / "secret"
    engines.write_secret(path, "x")
    assert path.stat().st_mode & 0o077 == 0
