"""LoRA: what can be checked without training, and a training that must be seen in the answers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.llm import connect
from resources import artifacts, engine_install, engines, lora, settings
from resources.engine_install import EngineError
from resources.engines import Adapter
from resources.services import LlmEndpoint

SMALL = "SmolLM2-135M-Instruct"
QUESTION = [{"role": "user", "content": "Which bird keeps the seal?"}]
ANSWER = "The heron of the north gate keeps the seal."


@pytest.fixture
def adapter(tmp_path: Path) -> Adapter:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "adapter_config.json").write_text(json.dumps({"r": 12}))
    return Adapter("mine", folder, "ab" * 32)


@pytest.fixture
def engine(monkeypatch, request):
    monkeypatch.setenv("LLM_ENGINE", request.param)
    settings.settings.cache_clear()
    yield
    monkeypatch.undo()
    settings.settings.cache_clear()


LLAMACPP = pytest.mark.parametrize("engine", ["llamacpp"], indirect=True)
VLLM = pytest.mark.parametrize("engine", ["vllm"], indirect=True)  # however much memory is free


def test_vllm_is_asked_for_a_rank_that_it_knows_and_that_is_large_enough(monkeypatch, adapter):
    monkeypatch.setattr(
        engines, "weights_folder", lambda model, say, precision: ("/models/base", "cd" * 32)
    )
    monkeypatch.setattr(engine_install, "engine_version", lambda engine, package: "vllm 0")
    monkeypatch.setattr(engine_install, "install", lambda engine, say: None)
    monkeypatch.setattr(engine_install, "choose_engine", lambda model: ("vllm", "a test"))
    launch = engines.llm_launch("base", 1, "key", lambda text: None, [adapter])
    assert {"--enable-lora", "--max-lora-rank=16", f"mine={adapter.folder}"} <= set(launch.command)
    assert "--enable-lora" not in engines.llm_launch("base", 1, "key", lambda text: None).command
    assert not any("gpu-memory" in part for part in launch.command)
    monkeypatch.setattr(engine_install, "has_gpu", lambda: True)
    on_gpu = engines.llm_launch("base", 1, "key", lambda text: None)
    assert "--gpu-memory-utilization=0.45" in on_gpu.command, "two servers fit"


@LLAMACPP
def test_llamacpp_says_that_it_serves_no_adapters(engine, adapter):
    with pytest.raises(EngineError, match=r"llamacpp .* serves no LoRA adapters; mine need vLLM"):
        engines.llm_launch(SMALL, 1, "key", lambda text: None, [adapter])


@LLAMACPP
def test_llamacpp_says_that_it_cannot_train(engine, tmp_path):
    with pytest.raises(EngineError, match=r"needs torch and PEFT, .* Set LLM_ENGINE=vllm"):
        lora.train([("a", "b")], [("a", "b")], SMALL, tmp_path / "adapter", steps=1)


@pytest.mark.parametrize("wrong", [{"steps": 0}, {"steps": 1, "rate": -1.0}])
def test_a_number_that_cannot_be_is_named(tmp_path, wrong):
    with pytest.raises(ValueError, match=next(name for name in wrong if wrong[name] <= 0)):
        lora.train([("a", "b")], [("a", "b")], SMALL, tmp_path / "adapter", **wrong)


def test_no_pair_to_validate_on_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="found 1, 0"):
        lora.train([("a", "b")], [], SMALL, tmp_path / "adapter", steps=1)


def test_the_answers_of_two_adapters_are_not_confused(adapter):
    base = LlmEndpoint("http://127.0.0.1:1/v1", "base", "key", "vllm", "0", "ef" * 32, 512, 4)
    other = Adapter("mine", adapter.folder, "ba" * 32)
    weights = {base.weights, base.adapted(adapter).weights, base.adapted(other).weights}
    assert len(weights) == 3
    assert base.adapted(adapter).model == "mine"


@pytest.fixture
def trained_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Name of the folder of a training with these settings; nothing is trained."""
    monkeypatch.setattr(lora, "ADAPTERS", tmp_path)
    folders: list[str] = []
    monkeypatch.setattr(lora, "load", lambda folder: folders.append(folder.name))

    def name(**settings: float) -> str:
        lora.trained("mine", [("a", "b")], [("a", "b")], SMALL, **settings)
        return folders[-1]

    return name


@pytest.mark.parametrize(
    ("setting", "default", "others"), [("alpha", 0, [32]), ("dropout", 0.05, [0.1, 0.0])]
)
def test_another_setting_makes_another_adapter_and_leaving_it_out_none(
    trained_in, setting, default, others
):
    before = trained_in(steps=1)
    assert trained_in(steps=1, **{setting: default}) == before
    assert len({before, *(trained_in(steps=1, **{setting: other}) for other in others)}) == 1 + len(
        others
    )


@pytest.mark.engine
@pytest.mark.slow
@VLLM
def test_dropout_reaches_the_training(engine, tmp_path):
    pairs = [(QUESTION, ANSWER)]
    recipe = {"steps": 1, "batch": 1, "evaluations": 1, "max_tokens": 64}
    log = lora.train(pairs, pairs, SMALL, tmp_path / "adapter", **recipe, dropout=0.1)
    assert (
        json.loads((log.adapter.folder / "adapter_config.json").read_text())["lora_dropout"] == 0.1
    )


def test_another_default_makes_another_adapter(trained_in, monkeypatch):
    before = trained_in(steps=1)
    assert trained_in(steps=1, rate=1e-3) == before  # the default, said
    monkeypatch.setitem(lora.RECIPE, "rate", 1e-2)
    assert trained_in(steps=1) != before
    assert trained_in(steps=1, rate=1e-3) == before


def test_the_script_may_be_reformatted_but_another_method_makes_another_adapter(
    trained_in, monkeypatch, tmp_path
):
    before = trained_in(steps=1)
    script = tmp_path / lora.SCRIPT.name
    script.write_text(lora.SCRIPT.read_text() + "\n# a comment\n")
    monkeypatch.setattr(lora, "SCRIPT", script)
    assert trained_in(steps=1) == before
    monkeypatch.setattr(lora, "METHOD", "another")
    assert trained_in(steps=1) != before


def test_stored_only_trains_nothing_and_says_which_adapter_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(lora, "ADAPTERS", tmp_path)
    monkeypatch.setenv("ANSWERS", "stored-only")
    settings.settings.cache_clear()
    try:
        with pytest.raises(EngineError, match=r"mine-\w+ is not in .*data/adapters.* trains none"):
            lora.trained("mine", [("a", "b")], [("a", "b")], SMALL, steps=1)
    finally:
        monkeypatch.undo()
        settings.settings.cache_clear()


def test_an_adapter_holds_on_every_processor_whatever_rounding_chose_for_its_pairs(
    tmp_path, monkeypatch
):
    """A retriever may choose another document for one of thousands of training rows."""
    monkeypatch.setattr(lora, "ADAPTERS", tmp_path)
    folders: list[str] = []
    monkeypatch.setattr(lora, "load", lambda folder: folders.append(folder.name))

    def never() -> list[lora.Pair]:
        raise AssertionError("the pairs of an adapter that is there are not made")

    for decided_by in (["rows", "scorer"], ["rows", "scorer"], ["rows", "another scorer"]):
        lora.trained("mine", never, [("a", "b")], SMALL, decided_by, steps=1)
    assert folders[0] == folders[1] != folders[2]


@pytest.mark.engine
@pytest.mark.slow
@VLLM
def test_what_was_trained_is_answered_and_kept(engine, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(lora, "ADAPTERS", tmp_path)
    pairs = [(QUESTION, ANSWER)] * 2
    recipe = {"steps": 8, "batch": 2, "rate": 1e-2, "evaluations": 2, "max_tokens": 64}
    log = lora.trained("seal", pairs, pairs, SMALL, **recipe)
    assert [loss.step for loss in log.validation] == [0, 4, 8]
    assert log.validation[0].value > 1
    assert log.validation[-1].value < 0.2
    assert 0 < log.trained_parameters < log.parameters / 20
    assert log.cut == 0

    model = connect(SMALL, exact=True, adapters=[log.adapter], folder=None)
    adapted = model.adapted(log.adapter)
    assert adapted.chat_many([QUESTION], max_tokens=24)[0].text.strip() == ANSWER
    assert model.chat_many([QUESTION], max_tokens=24)[0].text.strip() != ANSWER

    trained_at = (log.adapter.folder / artifacts.LOG).stat().st_mtime_ns
    assert lora.trained("seal", pairs, pairs, SMALL, **recipe) == log
    assert (log.adapter.folder / artifacts.LOG).stat().st_mtime_ns == trained_at

    with (log.adapter.folder / engines.WEIGHTS).open("ab") as weights:
        weights.write(b"damage")
    with pytest.raises(ValueError, match="is damaged"):
        lora.load(log.adapter.folder)
    again = lora.trained("seal", pairs, pairs, SMALL, **recipe)
    assert again.adapter.sha256 == log.adapter.sha256
    assert "made again" in caplog.text
    assert list(tmp_path.glob("seal-*.bad-*"))
    shutil.rmtree(tmp_path)


@pytest.mark.engine
@VLLM
def test_a_training_that_fails_says_why_and_leaves_nothing(engine, tmp_path):
    (tmp_path / "no-model-here").mkdir()
    with pytest.raises(
        EngineError, match=r"train by LoRA with .*no-model-here.* code 1:\n.* no config\.json"
    ):
        lora.train(
            [("a", "b")],
            [("a", "b")],
            str(tmp_path / "no-model-here"),
            tmp_path / "adapter",
            steps=1,
        )
    assert [path.name for path in tmp_path.iterdir()] == ["no-model-here"]


def test_chapters_with_other_adapters_of_a_base_share_its_server(tmp_path):
    logs = [lora.load(log.parent) for log in sorted(engines.RELEASED.glob("*/training.json"))]
    base = logs[0].base
    first, *_, another = [log.adapter for log in logs if log.base == base]
    assert engines.with_released(base, [first]) == engines.with_released(base, [another])
    own = Adapter("own", tmp_path, "digest")
    assert engines.with_released(base, [own]) == [*engines.with_released(base, []), own]
    assert engines.with_released("another base", [own]) == [own]


def test_a_damaged_released_adapter_keeps_no_server_from_starting(tmp_path, monkeypatch, caplog):
    for log in sorted(engines.RELEASED.glob("umls-*/training.json")):
        shutil.copytree(log.parent, tmp_path / log.parent.name)
    monkeypatch.setattr(engines, "RELEASED", tmp_path)
    base = json.loads(log.read_text())["base"]
    intact, cut = (adapter.folder for adapter in engines.with_released(base, []))
    (cut / engines.WEIGHTS).write_bytes(b"half")
    assert [adapter.folder for adapter in engines.with_released(base, [])] == [intact]
    assert f"{cut / engines.WEIGHTS} is damaged" in caplog.text


def test_no_released_adapter_names_a_folder_of_a_machine():
    for log in engines.RELEASED.glob("*/training.json"):
        assert lora.load(log.parent).adapter.rank
        config = json.loads((log.parent / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == json.loads(log.read_text())["base"]
