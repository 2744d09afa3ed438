"""Prints where two models differ on the same arms and units of a notebook.

python -m helpers.results.compare NOTEBOOK [--models A B] [--measure MEASURE] [--most N]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import pandas as pd

from helpers.results import answers
from helpers.results.outcomes import PAIRING, Outcomes, measure_label, unit
from helpers.results.requests import StoreError
from helpers.settings import settings, told

MEASURES = ("accuracy", "exact", "right", "f1")
"""The measure that is compared is the first of these that an arm has; another one is named by `--measure`."""


def compare(notebook: str, profile: str, models: Sequence[str] = (), measure: str = "", most: int = 5) -> str:
    """Two models on the same arms and units: scores, paired tests and the units on which they differ, as plain text.

    The tests are those of `Outcomes.against`: a paired randomisation by cluster, which is McNemar's exact test where
    answers are right or wrong and each unit is its own cluster; p is adjusted by Holm over all arms.

    Args:
        notebook: whose rows.
        profile: of the runs.
        models: two of those that answered; default: that of the run, and the first other one.
        measure: a ratio; default: the first of `MEASURES` that an arm has.
        most: units to name for each arm.

    Raises:
        StoreError: there are not two models with answers, or they share no arm and unit.
    """
    own = answers.read(answers.newest(notebook, profile))
    others = answers.others(notebook, profile)
    asked = own[(own.model != "") & own.requests.map(len).astype(bool)].model.value_counts()
    there = {str(model): own[own.model == model] for model in asked.index} | others
    wanted = list(models) or [*list(there)[:1], *others][:2]
    if len(wanted) != 2 or not set(wanted) <= there.keys():
        raise StoreError(
            f"Two models with answers to {notebook} are needed; there are {', '.join(there) or 'none'}. Add one: make "
            f"models MODELS=... NB={notebook}"
        )
    first, second = (there[model] for model in wanted)
    chosen = {arm: _measure(rows, measure) for arm, rows in first.groupby("arm", sort=False)}
    shared = first[[*PAIRING, "arm"]].merge(second[[*PAIRING, "arm"]])
    arms = [str(arm) for arm, of in chosen.items() if of and (shared.arm == arm).any()]
    if not arms:
        raise StoreError(f"{' and '.join(wanted)} share no arm and unit of {notebook}.")
    # each arm with its measure under one name, so that all arms are one family of tests
    rows = pd.concat([_named(of, chosen, model) for of, model in zip((first, second), wanted, strict=True)])
    out = Outcomes(rows, labels={_name(arm, model): f"{arm}: {model}" for arm in arms for model in wanted})
    family = out.against([(_name(arm, wanted[0]), _name(arm, wanted[1])) for arm in arms], "score")
    of_units = ", ".join(f"{arm} {measure_label(str(chosen[arm]))}" for arm in arms)
    lines = [out.tests(family, f"{notebook}: {wanted[0]} against {wanted[1]} ({of_units})").text, ""]
    for arm in arms:
        lines += _differing(first, second, arm, str(chosen[arm]), most)
    return "\n".join([*lines, f"Open one, by all models: make answers NB={notebook} ARM=... UNIT=..."])


def _measure(rows: pd.DataFrame, measure: str) -> str | None:
    there = {name for of in rows.measures for name in of}
    fractions = sorted(name for name in there if unit(name) == "fraction")
    return next((name for name in ((measure,) if measure else (*MEASURES, *fractions)) if name in there), None)


def _name(arm: str, model: str) -> str:
    return f"{arm} by {model}"


def _named(rows: pd.DataFrame, chosen: dict[str, str | None], model: str) -> pd.DataFrame:
    scores = [
        {"score": of[chosen[arm]]} if chosen.get(arm) in of else {}
        for arm, of in zip(rows.arm, rows.measures, strict=True)
    ]
    return rows.assign(arm=[_name(arm, model) for arm in rows.arm], measures=pd.Series(scores, index=rows.index))


def _differing(first: pd.DataFrame, second: pd.DataFrame, arm: str, measure: str, most: int) -> list[str]:
    """The units of an arm on which the models have different scores."""
    both = [of[of.arm == arm].set_index(list(PAIRING)) for of in (first, second)]
    pairs = both[0].join(both[1], how="inner", rsuffix="_second")
    pairs = pairs[
        pairs.measures.map(lambda of: of.get(measure)) != pairs.measures_second.map(lambda of: of.get(measure))
    ]
    units = pairs.reset_index()
    lines = [f"{arm}: {len(units)} units differ in {measure_label(measure)}"]
    lines += [
        f"   {row['unit']}: {_said(row['predicted'])} | {_said(row['predicted_second'])} (true: {_said(row['gold'])})"
        for row in units.head(most).to_dict("records")
    ]
    return lines


def _said(text: str | None) -> str:
    return "-" if text is None else " ".join(text.split())[:60]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m helpers.results.compare", description="Compare two models.")
    parser.add_argument("notebook")
    parser.add_argument("--models", nargs="*", default=())
    parser.add_argument("--measure", default="")
    parser.add_argument("--most", type=int, default=5)
    given = parser.parse_args(arguments)
    sys.stdout.write(f"{compare(given.notebook, settings().profile, given.models, given.measure, given.most)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
