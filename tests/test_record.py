"""What a run may report, the file it leaves, the scoreboard, the ledger, drift: published, record, scoreboard."""

from __future__ import annotations

import errno
import getpass
import json
import logging
import os
import platform
import re
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, strategies as st

from evaluation import answers, provenance, published, record, records
from evaluation.metrics import Score, proportion
from evaluation.outcomes import Outcomes
from evaluation.published import RecordError, UnknownId
from helpers.llm import Usage
from publish import board_tables, drift, pieces, scoreboard
from resources.datasets import Located
from resources.settings import ROOT, settings

TOY = """
paper: toy
title: A toy
numbers:
  - {id: toy.table1.arm.accuracy, table: Table 1, row: Arm, column: Accuracy, printed: 62.90%, value: 0.629,
     unit: fraction, n: 1000, model: Qwen2.5-7B-Instruct, rescore_from: [toy/released.json]}
  - {id: toy.table1.arm.f1, table: Table 1, row: Arm, column: F1, printed: "0.858", value: 0.858, unit: fraction,
     model: Qwen2.5-7B-Instruct, rescore_from: [toy/released.json], tolerance: {rerun: 0.1, drift: 0.05}}
  - {id: toy.table1.arm.latency, table: Table 1, row: Arm, column: Latency, printed: 82.44 s, value: 82.44,
     unit: seconds, rescore_from: [toy/released.json]}
  - {id: toy.table1.difference, table: Table 1, row: Arm, column: Difference, printed: Llama +0.31%, value: -0.31,
     unit: percentage_points, rescore_from: [toy/released.json]}
  - {id: toy.text.pairs, table: Text, row: Data, column: Pairs, printed: "19,520", value: 19520, unit: count,
     why_not: the data are not released, why_no_rerun: a count of data}
claims:
  - {id: toy.claim.pairs_beat_lists, text: Pairs beat lists., where: Table 1, test: McNemar.}
"""
ACCURACY, F1, LATENCY = "toy.table1.arm.accuracy", "toy.table1.arm.f1", "toy.table1.arm.latency"
DIFFERENCE, PAIRS, CLAIM = "toy.table1.difference", "toy.text.pairs", "toy.claim.pairs_beat_lists"
QWEN = "Qwen2.5-7B-Instruct"


@pytest.fixture(autouse=True)
def toy(tmp_path, monkeypatch):
    """A paper of the test's own, and folders of its own for records."""
    for module, name in ((published, "PUBLISHED"), (records, "RECORDS"), (scoreboard, "RESULTS")):
        (tmp_path / name.lower()).mkdir()
        monkeypatch.setattr(module, name, tmp_path / name.lower())
    (published.PUBLISHED / "toy.yml").write_text(TOY)
    published.published.cache_clear()
    yield
    published.published.cache_clear()


def start(notebook: str = "01_toy", **parameters) -> record.Run:
    return record.start(notebook=notebook, paper="toy", profile="laptop", parameters=parameters)


def located(sample: bool = False, source: str = "https://example.org/released.json") -> Located:
    return Located(
        "toy/released.json", Path("released.json"), sample=sample, sha256="0" * 64, source=source
    )


def keep(run: record.Run) -> Path:
    """Save a run as the kept reference."""
    return run.save(scoreboard.RESULTS / "laptop" / f"{run.notebook}.json")


def board() -> pd.DataFrame:
    return scoreboard.scoreboard("toy", "laptop").set_index("id")


# --- what is printed -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("value: 0.629", "value: 0.692"), "printed '62.90%' is 0.629, not 0.692"),
        (("unit: seconds", "unit: minutes"), "percentage_points"),
        (("id: toy.text.pairs", f"id: {F1}"), "the id is used twice"),
        (("id: toy.text.pairs", "id: other.text.pairs"), "an id starts with toy."),
        (("id: toy.text.pairs", "id: toy.Text"), "pattern"),
        (("why_not: the data are not released, ", ""), "needs rescore_from, why_not or not_read"),
        (("column: Pairs", "colunm: Pairs"), "colunm"),
        (("claims:", "claims: ]"), "toy.yml"),
    ],
)
def test_a_slip_in_the_published_numbers_is_an_error_that_names_it(change, message):
    old, new = change
    (published.PUBLISHED / "toy.yml").write_text(TOY.replace(old, new, 1))
    with pytest.raises(RecordError, match=message) as error:
        published.published("toy")
    assert "toy.yml" in str(error.value)


def test_an_unknown_paper_names_those_there_are():
    with pytest.raises(RecordError, match="There are: toy"):
        published.published("toi")


def test_a_value_is_shown_the_way_it_is_printed():
    texts = {number.id: number.show(number.value) for number in published.published("toy").numbers}
    assert texts == {
        ACCURACY: "62.90%",
        F1: "0.858",
        LATENCY: "82.44 s",
        DIFFERENCE: "-0.31 points",
        PAIRS: "19,520",
    }
    assert published.published("toy").number(ACCURACY).show(0.62899, 1) == "62.899%"


# --- what a run may report -----------------------------------------------------------------------------------------


def test_an_unknown_id_is_an_error_that_names_near_ones():
    run = start()
    with pytest.raises(UnknownId, match=ACCURACY):
        run.rescored("toy.table1.arm.acuracy", 0.6)
    with pytest.raises(UnknownId, match=CLAIM):
        run.claim("toy.claim.pair_beats_lists", "agrees", "it does")
    for report in (run.not_run, run.cannot_run):
        with pytest.raises(UnknownId, match=F1):
            report("toy.table1.arm.f2", "no time")


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_value_that_is_no_finite_number_is_refused_with_its_id(bad):
    run = start()
    with pytest.raises(RecordError, match=rf"{F1}.*finite number, found (nan|inf)"):
        run.rescored(F1, bad)
    with pytest.raises(RecordError, match=F1):
        run.rerun(F1, Score(0.5, 10, 0.4, bad), model=QWEN)
    with pytest.raises(RecordError, match=CLAIM):
        run.claim(CLAIM, "agrees", "it does", p=bad)
    with pytest.raises(RecordError, match=r"load.*rows"):
        run.timing("load", 1.0, rows=bad)
    with pytest.raises(RecordError, match="The parameter temperature"):
        start(temperature=bad)


def test_a_value_in_another_unit_is_refused():
    with pytest.raises(RecordError, match=r"in the unit fraction, from 0 to 1; found 62\.9"):
        start().rescored(ACCURACY, 62.9)
    with pytest.raises(RecordError, match="a Score or a number is needed, found None"):
        start().rescored(ACCURACY, None)  # type: ignore[arg-type]


def test_a_rerun_of_a_models_number_names_its_model():
    with pytest.raises(RecordError, match=f"printed for {QWEN}: name the model"):
        start().rerun(ACCURACY, proportion(6, 10))


def test_other_bad_reports_are_refused():
    run = start()
    with pytest.raises(RecordError, match=r"verdict.*'agrees', 'differs'.*found 'yes'"):
        run.claim(CLAIM, "yes", "it does")  # type: ignore[arg-type]
    with pytest.raises(RecordError, match=rf"{F1}.*why"):
        run.not_run(F1, " ")
    with pytest.raises(
        RecordError, match="There is no profile 'desktop'; use one of smoke, laptop, paper"
    ):
        record.start(notebook="01_toy", paper="toy", profile="desktop", parameters={})  # type: ignore[arg-type]
    with pytest.raises(RecordError, match="without a folder"):
        start(notebook="../01_toy")


# --- the file ------------------------------------------------------------------------------------------------------


def test_a_record_comes_back_as_it_was_saved():
    run = start(pairs=400, arms=["format_a", "graphrag"])
    run.data(located())
    run.model(QWEN, "1" * 64, "vllm", "0.32.0", "chat")
    run.model("hosted", None, "unknown", None, "judge")
    run.count_requests(
        Usage(requests=1, prompt_tokens=100, generated_tokens=3, seconds=12.5), "closed book"
    )
    run.count_requests(Usage(requests=1, cached=1, prompt_tokens=50, seconds=2.5, kept_seconds=2.5))
    run.rescored(F1, Score(0.8583, 19520, 0.852, 0.864, 2), source="toy/released.json")
    run.rescored(LATENCY, 82.4444, n=121)
    run.rerun(ACCURACY, proportion(240, 400, unparsed=3), model=QWEN, note="greedy")
    run.not_run(F1, "no time")
    run.claim(CLAIM, "agrees", "9 points", p=0.001)
    path = run.save()
    assert path == records.RECORDS / "laptop" / "01_toy.json"

    reloaded = records.load(path)
    assert (reloaded.notebook, reloaded.paper, reloaded.profile, reloaded.sample) == (
        "01_toy",
        "toy",
        "laptop",
        False,
    )
    assert [(v.id, v.kind, v.value, v.n, v.low, v.unparsed) for v in reloaded.values] == [
        (F1, "rescored", 0.8583, 19520, 0.852, 2),
        (LATENCY, "rescored", 82.4444, 121, None, 0),
        (ACCURACY, "rerun", 0.6, 400, proportion(240, 400).low, 3),
    ]
    assert [(r.id, r.kind, r.status, r.why) for r in reloaded.reasons] == [
        (F1, "rerun", "not run", "no time")
    ]
    assert reloaded.claims[0].test == "McNemar."
    origin = reloaded.provenance
    assert origin.parameters == {"pairs": 400, "arms": ["format_a", "graphrag"]}
    assert origin.tokens == {
        "prompt": 150,
        "generated": 3,
        "requests": 2,
        "cached": 1,
        "checked": 0,
        "same": 0,
    }
    assert origin.timings[0].counts == {"requests": 1, "kept_seconds": 0}
    assert (reloaded.asking_seconds, reloaded.took) == (15.0, reloaded.seconds + 2.5)
    assert origin.data[0].source == "https://example.org/released.json"
    assert [model.sha256 for model in origin.models] == ["1" * 64, None]
    assert origin.packages["pydantic"]
    assert json.loads(path.read_text())["schema"] == 1


@given(st.floats(0, 1), st.integers(1, 10**6), st.text(max_size=20))
def test_any_score_survives_the_file(value, n, note):
    run = start()
    run.rerun(ACCURACY, Score(value, n, value, value), model=QWEN, note=note)
    reloaded = records.load(run.save())
    assert (reloaded.values[0].value, reloaded.values[0].n) == (value, n)


def test_reporting_again_replaces_what_was_there():
    run = start()
    run.not_run(ACCURACY, "not yet")
    run.rerun(ACCURACY, 0.5, model=QWEN)
    run.rerun(ACCURACY, 0.6, model=QWEN)
    run.cannot_run(F1, "no labels")
    reloaded = records.load(run.save())
    assert [(v.id, v.value) for v in reloaded.values] == [(ACCURACY, 0.6)]
    assert [(r.id, r.status) for r in reloaded.reasons] == [(F1, "cannot be run")]


def test_a_full_disk_leaves_the_old_record_and_no_half_of_a_new_one(monkeypatch):
    path = start().save()
    before = path.read_bytes()
    run = start()
    run.rescored(F1, 0.5)

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left") as error:
        run.save()
    assert "was not written" in error.value.__notes__[0]
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"schema": 1}', '{"schema": "one"}', "\xff\xfe", "NAN"],
    ids=["empty", "half", "list", "fields missing", "odd schema", "not UTF-8", "NaN"],
)
def test_a_corrupt_record_is_set_aside_and_the_scoreboard_goes_on(text, caplog):
    good = start("02_toy")
    good.rescored(F1, 0.858)
    good.save()
    run = start()
    run.rescored(ACCURACY, 0.629)
    path = run.save()
    path.write_bytes(
        path.read_bytes().replace(b"0.629", b"NaN") if text == "NAN" else text.encode("latin-1")
    )
    with caplog.at_level(logging.WARNING):
        assert board().loc[F1, "rescored"] == 0.858
    assert "cannot be understood" in caplog.text
    assert "01_toy.json.corrupt" in caplog.text
    assert not path.exists()
    assert path.with_name("01_toy.json.corrupt").exists()


def test_a_record_of_another_version_stays_where_it_is(caplog):
    path = start().save()
    path.write_text(path.read_text().replace('"schema": 1', '"schema": 2'))
    with caplog.at_level(logging.WARNING):
        assert records.records("laptop") == []
    assert "schema 2" in caplog.text
    assert path.exists()


# --- what a record must not tell -----------------------------------------------------------------------------------


def test_a_record_names_no_user_host_path_or_secret(monkeypatch):
    for name, value in {
        "NEO4J_URI": "bolt://graph.clinic.example:7687",
        "NEO4J_PASSWORD": "hunter2",
        "LLM_BASE_URL": "http://gpu7.clinic.example:8000/v1",
        "LLM_API_KEY": "sk-abc123",
        "DATA_MIRROR": "/srv/alice/mirror",
    }.items():
        monkeypatch.setenv(name, value)
    settings.cache_clear()
    try:
        run = start(
            uri="neo4j://bob:pw@db.clinic.example",
            api_key="zzz",
            max_tokens=8,
            cache=f"{Path.home()}/cache",
            served=["http://other.clinic.example"],
        )
        run.data(located(source=f"{ROOT}/data/raw/x.json, from file:///srv/alice/mirror/x.json"))
        run.model(
            "m", None, "vllm at http://gpu7.clinic.example:8000/v1 with sk-abc123", None, "chat"
        )
        run.rescored(F1, 0.8, note="read /home/carol/out.json and C:\\Users\\dave\\x, YES/NO, 3/4")
        run.not_run(ACCURACY, "graph at bolt://graph.clinic.example:7687 refused hunter2")
        text = run.save().read_text()
    finally:
        settings.cache_clear()
    for secret in (
        "clinic",
        "hunter2",
        "sk-abc123",
        "zzz",
        "alice",
        "bob",
        "carol",
        "dave",
        str(Path.home()),
        str(ROOT),
    ):
        assert secret not in text, secret
    user, host = getpass.getuser(), platform.node()
    assert f"/{user}" not in text
    assert host not in text
    content = json.loads(text)
    assert content["provenance"]["parameters"]["max_tokens"] == 8
    assert content["provenance"]["data"][0]["source"].startswith("data/raw/x.json")
    assert content["values"][0]["note"] == "read (path) and (path) YES/NO, 3/4"


def test_provenance_gives_the_commit_of_the_code_and_does_without_git(monkeypatch):
    commit = subprocess.run(
        ["git", "-C", str(provenance.CODE), "rev-parse", "--verify", "-q", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    ).stdout.strip()
    this_machine = provenance.machine()
    assert (this_machine["commit"] or "") == commit
    assert (this_machine["dirty"] is None) == (this_machine["commit"] is None)
    assert this_machine["cores"] >= 1
    monkeypatch.setenv("PATH", "")
    without = provenance.machine()
    assert (without["commit"], without["dirty"]) == (None, None)


# --- side by side --------------------------------------------------------------------------------------------------


def test_every_empty_cell_has_a_reason():
    rows = board()
    assert len(rows) == 5
    for group in ("rescored", "reference", "rerun"):
        assert rows[group].isna().all()
        assert (rows[f"{group}_why"].str.len() > 0).all()
        assert set(rows[f"{group}_verdict"]) <= {"not run", "cannot be run"}
    assert rows.loc[ACCURACY, "rerun_why"] == "not yet run here"
    assert rows.loc[PAIRS, "rescored_why"] == "the data are not released"
    assert rows.loc[PAIRS, "rerun_why"] == "a count of data"


@pytest.mark.parametrize(
    ("id", "value", "verdict"),
    [
        (F1, 0.8585, "matches"),  # on the border: half of the last printed digit
        (F1, 0.8575, "matches"),
        (F1, 0.858501, "differs"),
        (F1, 0.857499, "differs"),
        (ACCURACY, 0.62905, "matches"),
        (ACCURACY, 0.629051, "differs"),
        (LATENCY, 82.4444, "matches"),
        (LATENCY, 82.446, "differs"),
        (DIFFERENCE, -0.3125, "matches"),
        (DIFFERENCE, 0.31, "differs"),
    ],
)
def test_rescored_matches_up_to_half_of_the_last_printed_digit(id, value, verdict):
    run = start()
    run.rescored(id, value)
    run.save()
    row = board().loc[id]
    assert row["rescored_verdict"] == verdict
    assert row["printed"] in row["rescored_why"]


@pytest.mark.parametrize(
    ("id", "value", "verdict"),
    [
        (ACCURACY, 0.649, "matches"),  # 0.629 + 0.02
        (ACCURACY, 0.609, "matches"),
        (ACCURACY, 0.6491, "differs"),
        (F1, 0.758, "matches"),  # its own tolerance of 0.1
        (F1, 0.757, "differs"),
        (LATENCY, 0.2, "not compared"),
        (DIFFERENCE, 1.69, "matches"),
    ],
)
def test_a_rerun_matches_within_its_tolerance(id, value, verdict):
    run = start()
    run.rerun(id, value, model=QWEN)
    run.save()
    row = board().loc[id]
    assert (row["rerun_verdict"], row["shown"]) == (verdict, "rerun")


@pytest.mark.parametrize(
    ("value", "verdict"),
    [
        (proportion(32, 50), "matches"),  # 64 %, within two points of 62.9 %
        (proportion(35, 50), "inconclusive"),  # 70 % [56, 81]: some of it lies within the tolerance
        (proportion(45, 50), "differs"),  # 90 % [79, 96]
        (proportion(5, 50), "differs"),
    ],
)
def test_a_rerun_whose_interval_reaches_within_the_tolerance_is_inconclusive(value, verdict):
    run = start()
    run.rerun(ACCURACY, value, model=QWEN)
    run.save()
    row = board().loc[ACCURACY]
    assert row["rerun_verdict"] == verdict
    assert ("but the interval overlaps the tolerance" in row["rerun_why"]) == (
        verdict == "inconclusive"
    )


@pytest.mark.parametrize(
    ("model", "stand_in"),
    [
        (QWEN, False),
        ("Qwen/Qwen2.5-7B-Instruct", False),
        ("qwen2.5-7b-instruct", False),
        ("SmolLM2-135M", True),
    ],
)
def test_a_stand_in_model_is_said(model, stand_in):
    run = start()
    run.rerun(ACCURACY, proportion(50, 100), model=model)
    run.save()
    row = board().loc[ACCURACY]
    assert row["rerun_model"] == model
    assert (row["rerun_verdict"] == "another model") == stand_in
    assert (f"{model} answered in place of {QWEN}" in row["rerun_why"]) == stand_in


def test_sample_data_never_gives_a_verdict_nor_takes_the_place_of_real_data():
    reference = start()
    reference.data(located())
    reference.rescored(F1, 0.858)
    reference.rerun(ACCURACY, proportion(63, 100), model=QWEN)
    reference.claim(CLAIM, "agrees", "9 points")
    keep(reference)
    run = start()
    run.data(located(sample=True))
    run.rescored(F1, 0.5)
    run.rescored(LATENCY, 1.0)
    run.rerun(ACCURACY, proportion(63, 100), model=QWEN)
    run.rerun(F1, 0.858, model=QWEN)
    run.claim(CLAIM, "differs", "no")
    run.save()
    rows = board()
    assert rows.loc[ACCURACY, "rerun"] == 0.63
    assert rows.loc[ACCURACY, "rerun_verdict"] == "SAMPLE"
    assert tuple(rows.loc[ACCURACY, ["reference_verdict", "shown"]]) == ("matches", "reference")
    assert tuple(rows.loc[F1, ["rescored", "rescored_verdict", "rerun_verdict"]]) == (
        0.858,
        "matches",
        "SAMPLE",
    )
    assert tuple(rows.loc[LATENCY, ["rescored", "rescored_verdict"]]) == (1.0, "SAMPLE")
    claim = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (claim["rerun_verdict"], claim["reference_verdict"], claim["verdict"]) == (
        "SAMPLE",
        "agrees",
        "agrees",
    )


def test_this_machines_run_is_shown_in_place_of_the_reference_where_it_has_a_value():
    reference = start()
    reference.rescored(F1, 0.859)
    reference.rerun(ACCURACY, proportion(630, 1000), model=QWEN)
    reference.cannot_run(F1, "needs a larger machine")
    keep(reference)
    alone = board()
    assert tuple(alone.loc[ACCURACY, ["reference_verdict", "shown"]]) == ("matches", "reference")
    assert tuple(alone.loc[F1, ["rescored", "reference_why"]]) == (0.859, "needs a larger machine")
    run = start()
    run.rescored(F1, 0.858)
    run.rerun(ACCURACY, proportion(500, 1000), model=QWEN)
    run.not_run(LATENCY, "switched off")
    run.save()
    rows = board()
    assert tuple(rows.loc[ACCURACY, ["reference", "rerun", "rerun_verdict", "shown"]]) == (
        0.63,
        0.5,
        "differs",
        "rerun",
    )
    assert rows.loc[ACCURACY, "rerun_n"] == 1000
    assert rows.loc[F1, "rescored"] == 0.858
    assert rows.loc[LATENCY, "rerun_why"] == "switched off"


def test_a_reason_of_this_machine_does_not_hide_what_the_reference_rescored():
    reference = start()
    reference.rescored(F1, 0.858)
    keep(reference)
    run = start()
    run.not_run(F1, "the file could not be reached", kind="rescored")
    run.cannot_run(ACCURACY, "the file is gone", kind="rescored")
    run.save()
    rows = board()
    assert rows.loc[F1, "rescored_verdict"] == "matches"
    assert tuple(rows.loc[ACCURACY, ["rescored_verdict", "rescored_why"]]) == (
        "cannot be run",
        "the file is gone",
    )


def test_released_answers_and_the_rerun_each_have_a_verdict_and_the_released_ones_decide():
    run = start()
    run.claim(CLAIM, "agrees", "9 points", kind="rescored")
    run.claim(CLAIM, "not tested", "a tie is forced", kind="rerun", reason="forced tie")
    run.save()
    row = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (row["rescored_verdict"], row["rerun_verdict"], row["rerun_reason"]) == (
        "agrees",
        "not tested",
        "forced tie",
    )
    assert (row["verdict"], row["why"]) == ("agrees", "9 points")


def test_a_notebook_that_leaves_a_claim_open_does_not_undo_what_another_decided():
    run = start("02_toy")
    run.claim(CLAIM, "differs", "3 of 4 answers less")
    run.save()
    later = start("01_toy")
    later.claim(CLAIM, "not tested", "another notebook asks this")
    later.save()
    row = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (row["verdict"], row["rerun_notebook"]) == ("differs", "02_toy")


@pytest.mark.parametrize("answer", ["with the claim", "not run"])
def test_what_this_machines_models_say_goes_before_the_reference_also_as_a_reason(answer):
    reference = start()
    reference.claim_here(CLAIM, "against it", "-9 points")
    keep(reference)
    run = start()
    run.claim_here(CLAIM, answer, "as it went here")
    run.save()
    row = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (row["here_answer"], row["here_why"]) == (answer, "as it went here")


def test_a_claim_that_a_run_is_too_small_for_is_neither_held_nor_refuted_by_it():
    run = start()
    run.claim(CLAIM, "inconclusive", "+4 [0, +18] points")
    run.save()
    row = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (row["verdict"], row["why"]) == ("inconclusive", "+4 [0, +18] points")


@pytest.mark.parametrize(
    ("verdict", "basis"),
    [("agrees", "printed"), ("cannot be tested", "printed"), ("not tested", "rerun")],
)
def test_printed_numbers_decide_a_claim_where_they_can(verdict, basis):
    run = start()
    run.claim(CLAIM, verdict, "as printed", kind="printed")
    run.claim(CLAIM, "inconclusive", "as rerun")
    run.save()
    row = scoreboard.ledger("toy", "laptop").iloc[0]
    assert row["basis"] == basis
    assert row["verdict"] == (verdict if basis == "printed" else "inconclusive")


def test_a_rerun_decides_what_printed_numbers_leave_open():
    run = start()
    run.claim(CLAIM, "inconclusive", "as printed", kind="printed")
    run.claim(CLAIM, "differs", "as rerun")
    run.save()
    row = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (row["basis"], row["verdict"]) == ("rerun", "differs")


def test_the_ledger_says_what_decided_each_claim_and_why_one_is_open():
    empty = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (empty["verdict"], empty["why"], empty["rerun_test"]) == (
        "not tested",
        "not yet run here",
        "McNemar.",
    )
    run = start()
    run.claim(CLAIM, "differs", "2 points", test="McNemar, 400 pairs", p=0.4)
    run.save()
    row = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (row["verdict"], row["rerun_p"], row["rerun_test"], row["why"]) == (
        "differs",
        0.4,
        "McNemar, 400 pairs",
        "2 points",
    )


# --- drift ---------------------------------------------------------------------------------------------------------


def drifts(report_now, report_then) -> list[drift.Drift]:
    runs = []
    for report in (report_now, report_then):
        run = start()
        report(run)
        runs.append(records.load(run.save()))
    return drift.compare(*runs)


def rerun(id: str, score: Score | float, model: str = QWEN):
    return lambda run: run.rerun(id, score, model=model)


@pytest.mark.parametrize(
    ("value", "reference", "has_drift"),
    [
        (rerun(ACCURACY, 0.61), rerun(ACCURACY, 0.6), False),  # the floor of 0.01
        (rerun(ACCURACY, 0.611), rerun(ACCURACY, 0.6), True),
        (
            rerun(ACCURACY, 0.63),
            rerun(ACCURACY, Score(0.6, 400, 0.56, 0.64)),
            False,
        ),  # half of its interval
        (rerun(ACCURACY, 0.65), rerun(ACCURACY, Score(0.6, 400, 0.56, 0.64)), True),
        (
            rerun(F1, 0.55),
            rerun(F1, Score(0.6, 400, 0.59, 0.61)),
            False,
        ),  # its declared drift of 0.05
        (rerun(F1, 0.54), rerun(F1, Score(0.6, 400, 0.5, 0.7)), True),
        (rerun(ACCURACY, 0.9, "another"), rerun(ACCURACY, 0.6), False),
        (rerun(LATENCY, 9.0), rerun(LATENCY, 1.0), False),
        (lambda run: run.rescored(F1, 0.8581), lambda run: run.rescored(F1, 0.858), True),
        (lambda run: run.rescored(F1, 0.858), lambda run: run.rescored(F1, 0.858), False),
        (lambda run: None, rerun(ACCURACY, 0.6), True),
        (rerun(ACCURACY, 0.6), lambda run: None, False),
    ],
)
def test_drift_is_a_number_that_left_the_reference(value, reference, has_drift):
    assert bool(drifts(value, reference)) == has_drift


def test_sample_runs_do_not_drift():
    def sample(run):
        run.data(located(sample=True))

    assert drifts(sample, rerun(ACCURACY, 0.6)) == []


def test_check_exits_1_on_drift_and_names_it(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    check = ["--check", "--profile", "laptop"]
    assert scoreboard.main(check) == 2
    assert "Nothing to compare" in capsys.readouterr().out
    for value, save in ((0.6, keep), (0.6, record.Run.save)):
        run = start()
        run.rerun(ACCURACY, value, model=QWEN)
        save(run)
    assert scoreboard.main(check) == 0
    assert "No drift" in capsys.readouterr().out
    run = start()
    run.rerun(ACCURACY, 0.7, model=QWEN)
    run.save()
    assert scoreboard.main(check) == 1
    assert f"{ACCURACY} (rerun): now 70.0000%, reference 60.0000%" in capsys.readouterr().out


def test_the_terminal_shows_scoreboard_and_ledger(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    run = start()
    run.rerun(ACCURACY, 0.7, model="SmolLM2-135M")
    run.save()
    assert scoreboard.main(["--profile", "laptop"]) == 0
    assert "1 another model" in capsys.readouterr().out
    assert scoreboard.main(["--profile", "laptop", "--paper", "toy"]) == 0
    out = capsys.readouterr().out
    assert "70.00% (another model)" in out
    assert "Pairs beat lists." in out
    with pytest.raises(SystemExit):
        scoreboard.main(["--paper", "toi"])


def test_a_run_says_how_many_of_its_answers_came_from_the_disk():
    cold, warm = start(), start("02_toy")
    cold.count_requests(Usage(requests=5, prompt_tokens=100, generated_tokens=10, seconds=600))
    warm.count_requests(
        Usage(
            requests=5,
            cached=4,
            prompt_tokens=100,
            generated_tokens=10,
            seconds=600,
            kept_seconds=540,
        )
    )
    for run in (cold, warm):
        run.save()
    lines = {r.notebook: pieces.run_line(r) for r in records.records("laptop")}
    assert "stored replies" not in lines["01_toy"]
    assert re.search(r" \d s \(9 min without stored replies\)\.", lines["02_toy"])
    assert "4 of 5 (80.0 %) replies" in lines["02_toy"]


def test_data_that_a_run_makes_itself_is_nobodys_own_and_its_rows_and_requests_are_written(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(answers, "BUILT", tmp_path / "answers")
    run = start()
    run.generated_data("toy/charts", "0" * 64, "SYNTHETIC charts, seed 1")
    run.count_requests(Usage(keys={"k": "step"}))
    row = answers.Answer("a", "u", "u", measures={"m": (1.0, 1.0)})
    path = run.save(outcomes=Outcomes([row], labels={"a": "The first", "b": "No answers"}))
    assert records.load(path).synthetic
    assert records.load(path).arms == {"a": "The first"}
    assert len(answers.read(tmp_path / "answers" / "laptop" / "01_toy")) == 1
    assert json.loads(records.requests_file(path).read_text())["requests"] == {"k": "step"}


def test_another_model_adds_a_column_and_a_claim_is_decided_within_its_scope(monkeypatch, capsys):
    toy = TOY.replace(
        "test: McNemar.}", "rule: {better: [a], than: [b], measure: accuracy, scope: [Qwen2.5-7B]}}"
    )
    (published.PUBLISHED / "toy.yml").write_text(toy)
    published.published.cache_clear()
    own = start(llm_model="Qwen2.5-Coder-1.5B-Instruct")
    own.rerun(ACCURACY, proportion(300, 400), model="Qwen2.5-Coder-1.5B-Instruct")
    own.claim(CLAIM, "not tested", "Another model answered.", reason="another model")
    keep(own)
    before = board().loc[ACCURACY]
    with monkeypatch.context() as patch:
        patch.setenv("LLM_MODEL", QWEN)
        settings.cache_clear()
        other = start(llm_model=QWEN)
        other.rerun(ACCURACY, proportion(244, 400), model=QWEN)
        other.claim(CLAIM, "agrees", "9 points", p=0.001)
        assert other.save().parent.name == f"laptop@{QWEN}"
        assert board_tables.models(board()) == ["Qwen2.5-Coder-1.5B-Instruct"], (
            "the reference has a column beside it"
        )
    settings.cache_clear()
    line = board().loc[ACCURACY]
    assert (line["reference"], line["shown"], line["rerun_verdict"]) == (
        0.75,
        "reference",
        "not run",
    )
    assert all(str(line[name]) == str(before[name]) for name in before.index), (
        "what was there is not replaced"
    )
    assert (line[f"rerun by {QWEN}"], line[f"rerun by {QWEN}_verdict"]) == (0.61, "matches")
    claim = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (claim["reference_reason"], claim["verdict"], claim["shown"]) == (
        "another model",
        "agrees",
        f"rerun by {QWEN}",
    )
    (published.PUBLISHED / "toy.yml").write_text(
        toy.replace("scope: [Qwen2.5-7B]", "scope: [Llama]")
    )
    published.published.cache_clear()
    assert scoreboard.ledger("toy", "laptop").iloc[0]["shown"] == "reference", (
        "a record from before the scope"
    )
    (published.PUBLISHED / "toy.yml").write_text(toy)
    published.published.cache_clear()
    monkeypatch.setenv("COLUMNS", "200")
    assert scoreboard.main(["--paper", "toy"]) == 0
    assert QWEN in capsys.readouterr().out


def test_another_model_decides_no_claim_about_any_model():
    own, other = start(llm_model="Qwen2.5-Coder-1.5B-Instruct"), start(llm_model="tiny")
    own.claim(CLAIM, "inconclusive", "1 point", p=0.4)
    keep(own)
    other.claim(CLAIM, "differs", "-9 points", p=0.001)
    other.save(records.RECORDS / "laptop@tiny" / "01_toy.json")
    claim = scoreboard.ledger("toy", "laptop").iloc[0]
    assert (claim["verdict"], claim["rerun by tiny_verdict"]) == ("inconclusive", "differs")


def test_a_rule_that_no_run_decided_by_is_worded_as_by_one_that_did():
    run = start()
    run.claim(CLAIM, "agrees", "9 points", test="The pairs against the lists.", kind="rescored")
    run.save()
    row = scoreboard.ledger("toy", "laptop").iloc[0]
    assert row["reference_test"] == row["rescored_test"] == "The pairs against the lists."
