"""One chapter by each embedded engine, with no reply at hand: `make test-engines` runs it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import yaml
from conftest import REPOSITORY, running_in

from resources import engine_install

pytestmark = [pytest.mark.engine, pytest.mark.timeout(1800)]
CHAPTER = "01_side_effects_forward"
LINKED = ("src", "book", ".venv", ".venv-llm", "locks", "_config.yml", "pyproject.toml")
OF_DATA = ("published", "sample", "raw", "registry.yml")


def project_without_replies(root: Path) -> Path:
    """A project of links with one chapter, in which nothing is stored."""
    links = [REPOSITORY / name for name in LINKED]
    links += [
        path for path in (REPOSITORY / "data").iterdir() if path.suffix or path.name in OF_DATA
    ]
    links += [REPOSITORY / "notebooks" / f"{CHAPTER}.ipynb"]
    for source in links:
        link = root / source.relative_to(REPOSITORY)
        link.parent.mkdir(parents=True, exist_ok=True)
        if source.exists():
            link.symlink_to(source)
    smoke = yaml.safe_load((REPOSITORY / "notebooks" / "profiles" / "smoke.yml").read_text())
    profiles = root / "notebooks" / "profiles"
    profiles.mkdir()
    sizes = {name: smoke[name] for name in ("defaults", CHAPTER)}
    # of other notebooks' parameters there is none here
    del sizes["defaults"]["epochs"]
    (profiles / "smoke.yml").write_text(yaml.safe_dump(sizes))
    return root


@pytest.mark.parametrize("engine", ["vllm", "llamacpp"])
def test_a_chapter_runs_by_an_engine_that_answers_all_of_its_requests(
    tmp_path: Path, engine: str
) -> None:
    if engine == "vllm" and engine_install.choose_engine("SmolLM2-135M-Instruct")[0] != engine:
        pytest.skip("this machine cannot run vLLM")
    project = project_without_replies(tmp_path / "project")
    settings = {"PROFILE": "smoke", "ANSWERS": "fresh", "LLM_ENGINE": engine}
    run = running_in(project)
    process = run(sys.executable, "-m", "medrerun", "run", CHAPTER, timeout=1700, **settings)
    assert process.returncode == 0, process.stderr[-3000:]
    record = json.loads((project / "_build" / "records" / "smoke" / f"{CHAPTER}.json").read_text())
    assert engine in {model["engine"] for model in record["provenance"]["models"]}
    tokens = record["provenance"]["tokens"]
    assert tokens["requests"] > 0
    assert tokens["cached"] == 0
