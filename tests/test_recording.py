"""Replies that are put into the repository: a later run of the profile finds them all, and no model is needed."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_requests import row

from evaluation import answers, record, recording
from evaluation.answers import Answer, PlainUnit, make_row, to_frame
from helpers import requests
from helpers.requests import Store, StoreError, write
from resources import engines, lora
from resources.settings import settings

ADAPTER = "cd" * 32
ADAPTED = f"{'ab' * 32}:bf16+{ADAPTER}"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run of the smoke profile with two replies, one of them by an adapter; the folder of its record."""
    store = tmp_path / "store"
    rows = [row("a"), row("b", weights=ADAPTED)]
    Store(store).add([*rows, row("of another run")])
    monkeypatch.setattr(requests, "STORE", store)
    monkeypatch.setattr(requests, "RELEASED", tmp_path / "released")
    monkeypatch.setattr(recording, "BUILD", tmp_path / "_build")
    monkeypatch.setattr(answers, "BUILT", tmp_path / "_build" / "answers")
    monkeypatch.setattr(answers, "TIMED", tmp_path / "timings")
    monkeypatch.setattr(engines, "RELEASED", tmp_path / "adapters")
    monkeypatch.setattr(lora, "ADAPTERS", tmp_path / "trained")
    requests.store.cache_clear()
    for name, digest in (("mine", ADAPTER), ("another", "ef" * 32)):
        folder = tmp_path / "trained" / name
        folder.mkdir(parents=True)
        (folder / "training.json").write_text(json.dumps({"sha256": digest}))
    records = tmp_path / "_build" / "records" / "smoke"
    (records / "requests").mkdir(parents=True)
    (records / "01_one.json").write_text("{}")
    keys = {r.key: "a step" for r in rows}
    (records / "requests" / "01_one.json").write_text(json.dumps({"requests": keys}))
    yield records
    requests.store.cache_clear()


def test_a_fresh_store_finds_every_reply_of_a_recorded_run(run, tmp_path):
    write(tmp_path / "released" / "nb" / "step.parquet", [row("elsewhere")])
    assert recording.record_replies("smoke").n_replies == 2
    fresh = Store(tmp_path / "fresh", tmp_path / "released")
    assert fresh.get() == {
        r.key: r for r in (row("a"), row("b", weights=ADAPTED), row("elsewhere"))
    }
    assert [path.name for path in (tmp_path / "adapters").iterdir()] == ["mine"]
    content = (tmp_path / "released" / "smoke" / "01_one.parquet").read_bytes()
    recording.record_replies("smoke")
    assert (tmp_path / "released" / "smoke" / "01_one.parquet").read_bytes() == content


def test_new_and_dropped_replies_are_counted_by_notebook(run, tmp_path):
    folder = tmp_path / "released" / "smoke"
    assert "01_one: 2 new, 0 no longer asked" in recording.record_replies("smoke").text(folder)
    assert "01_one" not in recording.record_replies("smoke").text(folder)
    listed = run / "requests" / "01_one.json"
    (kept, *_) = json.loads(listed.read_text())["requests"]
    listed.write_text(json.dumps({"requests": {kept: "a step"}}))
    assert "01_one: 0 new, 1 no longer asked" in recording.record_replies("smoke").text(folder)


def test_the_times_of_single_questions_are_recorded_and_found_without_a_server(run, tmp_path):
    unit = PlainUnit("a", "a", "a question", "yes")
    timed = Answer(repeat=1, model="m", measures={"seconds": (0.5, 1.0)})
    rows = to_frame([make_row(Answer("yes"), unit, arm="x"), make_row(timed, unit, arm="x")])
    built = answers.BUILT / "smoke" / "01_one"
    answers.write(built, rows, licence="CC0-1.0")
    recording.record_replies("smoke")
    shutil.rmtree(built)
    (timed_row,) = answers.read(answers.timed("01_one", "smoke")).to_dict("records")
    assert (timed_row["repeat"], timed_row["measures"]) == (1, {"seconds": (0.5, 1.0)})


def test_a_reply_that_the_repository_has_is_not_recorded_twice(run, tmp_path):
    write(tmp_path / "released" / "nb" / "step.parquet", [row("a")])
    assert recording.record_replies("smoke").n_replies == 1
    recorded = requests.read(tmp_path / "released" / "smoke" / "01_one.parquet")
    assert [r.key for r in recorded] == [row("b", weights=ADAPTED).key]


def test_a_reply_that_is_not_stored_is_missed_by_name(run):
    listed = run / "requests" / "01_one.json"
    keys = json.loads(listed.read_text())["requests"] | {"f" * 24: "a step"}
    listed.write_text(json.dumps({"requests": keys}))
    with pytest.raises(StoreError, match="1 replies of 01_one are not stored"):
        recording.record_replies("smoke")


def test_too_large_a_file_is_refused_and_a_profile_that_did_not_run_is_named(
    run, tmp_path, monkeypatch
):
    monkeypatch.setattr(recording, "MAX_BYTES", 100)
    with pytest.raises(StoreError, match=r"01_one\.parquet would have"):
        recording.record_replies("smoke")
    assert not list((tmp_path / "released").glob("smoke/*"))
    with pytest.raises(StoreError, match="no run of profile laptop"):
        recording.record_replies("laptop")


LAPTOP_MODEL = "Qwen2.5-Coder-1.5B-Instruct"


@pytest.mark.parametrize(
    ("setting", "stored_model", "is_measured"),
    [
        ("check", LAPTOP_MODEL, True),
        ("stored", LAPTOP_MODEL, False),
        ("stored", "another", True),
        ("stored-only", LAPTOP_MODEL, False),
        ("stored-only", "another", False),
    ],
)
def test_single_questions_are_timed_unless_the_times_of_the_same_model_are_stored(
    run, monkeypatch, setting, stored_model, is_measured
):
    monkeypatch.setenv("ANSWERS", setting)
    settings.cache_clear()
    unit = PlainUnit("a", "a", "a question", "yes")
    timed = Answer(repeat=1, model=stored_model, measures={"seconds": (0.5, 1.0)})
    stored = [make_row(Answer("yes", repeat=1), unit, arm="x"), make_row(timed, unit, arm="y")]
    answers.write(answers.TIMED / "laptop" / "01_toy", to_frame(stored), licence="CC0-1.0")
    a_run = record.start(notebook="01_toy", paper="side_effects", profile="laptop", parameters={})
    measured = make_row(Answer("measured"), unit, arm="y")
    rows = a_run.live(lambda: [measured])
    settings.cache_clear()
    if isinstance(rows, list):
        assert is_measured
        assert rows == [measured]
    else:
        assert not is_measured
        own_arms = ["x", "y"] if stored_model == LAPTOP_MODEL else ["x"]
        assert sorted(rows["arm"]) == own_arms
