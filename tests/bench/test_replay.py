"""A chapter from stored replies, and the same chapter with every reply asked anew, in the smoke profile."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from test_not_run import project  # noqa: F401  # a fixture

from resources.services import LlmEndpoint
from resources.settings import ROOT

CHAPTER = "06_interactions_qa"
pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]


def seconds(folder: Path, answers: str, server: LlmEndpoint) -> float:
    """How long the chapter took from its process's start to its end."""
    variables = {
        "PROFILE": "smoke",
        "ANSWERS": answers,
        "MEDRAG_ROOT": str(folder),
        "PYTHONPATH": str(ROOT / "src"),
        "LLM_BASE_URL": server.base_url,
        "LLM_API_KEY": server.api_key,
    }
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-m", "publish.run", CHAPTER],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return time.perf_counter() - start


def test_a_replay_is_faster_than_asking_anew(
    project: Path,  # noqa: F811
    small_llm: LlmEndpoint,
    note_measurement,
) -> None:
    replay_seconds = seconds(project, "stored-only", small_llm)
    asking_seconds = seconds(project, "fresh", small_llm)
    note_measurement(
        f"Chapter {CHAPTER}, replayed and asked anew",
        "smoke profile",
        f"from stored replies and searches {replay_seconds:.0f} s; all asked and searched anew "
        f"{asking_seconds:.0f} s, by {small_llm.model}",
    )
    assert replay_seconds < asking_seconds
