"""The rehearsal of the paper profile: small, without a GPU, and honest about what it fills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from evaluation.published import published
from publish import rehearse, scoreboard
from resources.engine_install import EMBEDDED_MODELS
from resources.parameters import declared
from resources.settings import NOTEBOOKS, read_profile

SMALLEST = "SmolLM2-135M-Instruct"


def flat(value: Any) -> list[Any]:
    parts = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    )
    return [value] if parts is None else [leaf for part in parts for leaf in flat(part)]


@pytest.mark.parametrize("notebook", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_rehearsal_walks_the_papers_paths_in_two_steps_with_models_that_need_no_gpu(
    notebook: Path,
):
    paper, smoke = (
        read_profile(profile).get(notebook.stem) or {} for profile in ("paper", "smoke")
    )
    values = rehearse.rehearsed(paper, smoke, declared(notebook))
    assert values.keys() == {**paper, **smoke}.keys()
    assert values.keys() <= declared(notebook).keys()
    second_base = values.pop("second_small_model", "MedLLaMA")
    assert "MedLLaMA" in second_base, "the name fills the rows of the paper's second model"
    assert not [name for name in flat(values) if isinstance(name, str) and "/" in name]
    assert {
        values.get(f"{kind}_model") or SMALLEST for kind in ("small", "second", "llm")
    } <= EMBEDDED_MODELS.keys()
    steps = [values[k] for k in values if k.endswith("steps")] + [
        values[k]["steps"] for k in values if k == "finetune"
    ]
    assert set(steps) <= {2}
    recipe = paper.get("lora_recipe")
    limits = {"longest": 1024, "longest_of_many": 1024, "rank": 8}
    for key, value in (recipe or {}).items():
        assert values["lora_recipe"][key] == min(value, limits.get(key, value)), key


def test_a_rehearsal_is_a_project_of_links_with_a_paper_profile_of_its_own(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setattr(rehearse, "FOLDER", tmp_path / "rehearsal")
    for _ in range(2):  # again, as after an edit
        rehearse.prepare()
    profile = yaml.safe_load((tmp_path / "rehearsal/notebooks/profiles/paper.yml").read_text())
    assert profile["defaults"]["llm_model"] == SMALLEST
    assert (tmp_path / "rehearsal/src/helpers").is_dir()
    assert (tmp_path / "rehearsal/notebooks/15_qarag_finetune.ipynb").is_file()
    assert not (tmp_path / "rehearsal/_build").exists()


def test_every_promised_number_is_listed_as_filled_explained_or_empty(monkeypatch, capsys):
    board = scoreboard.scoreboard("qa_rag", "laptop")
    first, second, *_ = (
        number.id for number in published("qa_rag").numbers if not number.why_no_rerun
    )
    rerun, notebook = (
        board["id"].map({first: 0.5}),
        board["id"].map({first: "a", second: "b"}).fillna(""),
    )
    monkeypatch.setattr(
        scoreboard, "scoreboard", lambda **_: board.assign(rerun=rerun, rerun_notebook=notebook)
    )
    cells = rehearse.promised().set_index("id")
    assert set(cells.index) <= set(board["id"])
    assert cells.status[[first, second]].tolist() == ["filled", "explained"]
    assert set(cells.status.drop([first, second])) == {"EMPTY"}
    assert rehearse.main(["--report"]) == 0
    output = capsys.readouterr().out
    assert output.count("EMPTY  ") == len(cells) - 2
    assert f"{len(cells)} promised numbers" in output
