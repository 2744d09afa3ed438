"""A chapter from stored replies, and the same chapter with every reply asked anew, in the smoke profile."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from test_not_run import project, run_chapter  # noqa: F401  # a fixture

from resources.services import LlmEndpoint

CHAPTER = "06_interactions_qa"
pytestmark = [pytest.mark.bench, pytest.mark.timeout(1800)]


def seconds(folder: Path, answers: str, server: LlmEndpoint) -> float:
    """How long the chapter took from its process's start to its end."""
    start = time.perf_counter()
    run_chapter(CHAPTER, folder, server.base_url, ANSWERS=answers, LLM_API_KEY=server.api_key)
    return time.perf_counter() - start


def test_a_replay_is_faster_than_asking_anew(
    project: Path,  # noqa: F811
    small_llm: LlmEndpoint,
    note_measurement,
) -> None:
    # the replies of a server that gives no revision are its own: it is asked once, and stored
    seconds(project, "stored", small_llm)
    replay_seconds = seconds(project, "stored-only", small_llm)
    asking_seconds = seconds(project, "fresh", small_llm)
    note_measurement(
        f"Chapter {CHAPTER}, replayed and asked anew",
        "smoke profile",
        f"from stored replies and searches {replay_seconds:.0f} s; all asked and searched anew "
        f"{asking_seconds:.0f} s, by {small_llm.model}",
    )
    assert replay_seconds < asking_seconds
