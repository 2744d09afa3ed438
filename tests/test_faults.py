"""Some of the faults of `make test-faults`, and the rules by which it judges."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parent / "faults"))

from bad_inputs import BAD_INPUTS
from every import EVERY
from harness import Bench, Done, Failed, Trial, Undisturbed, attempt
from trials import ASK, TRIALS, damage


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Undisturbed]:
    yield Undisturbed(tmp_path_factory.mktemp("undisturbed"))


@pytest.mark.slow
@pytest.mark.parametrize(
    "trial", [pytest.param(trial, id=trial.id) for trial in EVERY if trial.fast]
)
def test_a_fault_is_survived(trial: Trial, undisturbed: Undisturbed) -> None:
    outcome, why = attempt(trial, seed=1, undisturbed=undisturbed)
    if outcome == "skipped":
        pytest.skip(why)
    assert outcome == "survived", why


def test_there_are_as_many_trials_as_promised_each_with_a_name_of_its_own() -> None:
    assert len(TRIALS) >= 120
    assert len(BAD_INPUTS) >= 100
    assert len({trial.id for trial in EVERY}) == len(EVERY)


def test_a_trial_fails_if_the_result_is_another_or_a_traceback_is_shown(
    undisturbed: Undisturbed,
) -> None:
    with pytest.raises(Failed, match="traceback"):
        Done(1, "", "Traceback (most recent call last)\nValueError: run again").clear()
    with pytest.raises(Failed, match="nothing that helps"):
        Done(1, "", "Error 3").clear()

    def wrong(bench: Bench) -> None:
        world = bench.world(ASK)
        bench.judge(world, ASK, Done(0, "['YES']", ""))

    outcome, why = attempt(Trial("test", "wrong", wrong), 1, undisturbed)
    assert outcome == "failed"
    assert "in place of" in why


def test_a_seed_repeats_the_bytes_of_a_trial(tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        (tmp_path / name).write_bytes(bytes(1000))
        damage(tmp_path / name, random.Random("1 x"))
        contents.append((tmp_path / name).read_bytes())
    assert contents[0] == contents[1] != bytes(1000)
