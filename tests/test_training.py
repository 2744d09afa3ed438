"""Training as a process of its own: what it says, how it fails, what is kept. The scripts here need no torch."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from resources import artifacts, engine_install, training
from resources.engine_install import EngineError

SCRIPT = """
from pathlib import Path
Path({marker!r}).touch()

def main(job, folder, say):
    folder.mkdir()
    print("a library's chatter")
    for step in range(1, job["steps"] + 1):
        say(step=step, loss=1 / step)
    if job["fails"]:
        raise RuntimeError("the loss is no number")
    (folder / "weights").write_text("w" * job["steps"])
    say(done=True, parameters=7)
"""


@pytest.fixture
def script(tmp_path: Path, monkeypatch) -> Path:
    monkeypatch.setattr(engine_install, "engine_python", lambda engine: Path(sys.executable))
    monkeypatch.setattr(training, "LOGS", tmp_path / "logs")
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(marker=str(tmp_path / "loaded")))
    return path


def trained(script: Path, base: object, out: Path, *, fails: bool = False) -> list[dict]:
    job = {"base": str(base), "steps": 3, "fails": fails}
    with artifacts.replacing(out) as part:
        return training.run(script, job, part, doing="train", total=3)


def test_a_script_says_its_steps_and_leaves_its_folder(script, base, tmp_path):
    log = trained(script, base, tmp_path / "out")
    assert log == [*({"step": s, "loss": 1 / s} for s in (1, 2, 3)), {"parameters": 7}]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["weights"]
    assert "chatter" in (tmp_path / "logs" / "script.log").read_text()


def test_a_script_that_fails_says_why_and_leaves_what_was_there(script, base, tmp_path):
    trained(script, base, tmp_path / "out")
    before = sorted(tmp_path.iterdir())
    with pytest.raises(
        EngineError, match=r"(?s)Could not train with .*code 1:.*the loss is no number.*script.log"
    ):
        trained(script, base, tmp_path / "out", fails=True)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "out" / "weights").exists()


def test_a_base_that_is_no_model_is_found_before_the_script_is_loaded(
    script, base, tmp_path, monkeypatch
):
    (base / "config.json").unlink()
    with pytest.raises(EngineError, match=r"it has no config\.json"):
        trained(script, base, tmp_path / "out")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EngineError, match="no model hub gave a model of that name"):
        trained(script, "nobody/no-such-model", tmp_path / "out")
    assert not (tmp_path / "loaded").exists()
    assert not (tmp_path / "out").exists()


def test_what_was_made_is_kept_until_it_is_damaged_or_its_content_changes(tmp_path, caplog):
    folders: list[Path] = []

    def make(folder: Path) -> dict:
        with artifacts.replacing(folder) as part:
            part.mkdir()
            (part / "weights").write_text("w")
            artifacts.write_log(part, "weights", {"run": len(folders)})
        folders.append(folder)
        return load(folder)

    def load(folder: Path) -> dict:
        return artifacts.read_log(folder, "weights")

    def make_artifact(*content: object) -> dict:
        return artifacts.load_or_make(tmp_path, "a", content, load, make)

    first = make_artifact("a text", 1)
    shutil.rmtree(folders.pop())
    killed = tmp_path / f".{next(tmp_path.glob('a-*.lock')).stem}.half"
    killed.mkdir()
    first = make_artifact("a text", 1)
    assert not killed.exists()
    assert make_artifact("a text", 1) == first
    # elsewhere it is taken as it was released
    elsewhere = artifacts.load_or_make(
        tmp_path / "elsewhere", "a", ["a text", 1], load, make, released=tmp_path
    )
    assert elsewhere == first
    assert len(folders) == 1
    make_artifact("a text", 2)
    assert len(set(folders)) == 2

    (folders[0] / "weights").write_text("damage")
    with pytest.raises(ValueError, match="is damaged"):
        load(folders[0])
    assert make_artifact("a text", 1)["run"] == 2
    (folders[0] / artifacts.LOG).write_text("{")
    assert make_artifact("a text", 1)["run"] == 3
    assert caplog.text.count("made again") == 2
    assert len(list(tmp_path.glob("a-*.bad-*"))) == 2
    assert json.loads((folders[0] / artifacts.LOG).read_text())["run"] == 3
    # a released one that is damaged is no dead end
    (folders[0] / "weights").write_text("damage")
    assert (
        artifacts.load_or_make(
            tmp_path / "third", "a", ["a text", 1], load, make, released=tmp_path
        )["run"]
        == 4
    )
    assert caplog.text.count("made again") == 3


def test_on_a_gpu_the_llm_servers_end_before_a_training(script, base, tmp_path, monkeypatch):
    stopped = []

    def stop(kind: str) -> list[str]:
        stopped.append(kind)
        return ["llm-x"]

    monkeypatch.setattr(training.services, "stop", stop)
    monkeypatch.setattr(engine_install, "has_gpu", lambda: False)
    trained(script, base, tmp_path / "without")
    assert stopped == []
    monkeypatch.setattr(engine_install, "has_gpu", lambda: True)
    trained(script, base, tmp_path / "with")
    assert stopped == ["llm"]
