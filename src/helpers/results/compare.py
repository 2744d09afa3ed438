"""Prints where two models differ on the same arms and units of a notebook.

python -m helpers.results.compare NOTEBOOK [--models A B] [--measure MEASURE] [--most N]
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from helpers.results import answers, figures
from helpers.results.measures import measure_label, unit
from helpers.results.outcomes import PAIRING, PARTS, Outcomes
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
    further = others(notebook, profile)
    asked = own[(own.model != "") & own.requests.map(len).astype(bool)].model.value_counts()
    there = {str(model): own[own.model == model] for model in asked.index} | further
    wanted = list(models) or [*list(there)[:1], *further][:2]
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


def others(notebook: str, profile: str) -> dict[str, pd.DataFrame]:
    """The rows of models that the newest run did not ask, by model: this machine's runs before the reference runs.

    Raises:
        StoreError: the newest run has no rows, or a file is no table of answers.
    """
    main = answers.newest(notebook, profile)
    built = [answers.BUILT / profile / notebook, *sorted(answers.BUILT.glob(f"{profile}@*/{notebook}"))]
    kept = [answers.RELEASED / notebook, *sorted(answers.RELEASED.glob(f"{notebook}@*"))]
    seen = {"", *answers.read(main, answers.KEY).model}
    found: dict[str, pd.DataFrame] = {}
    for folder in (*built, *kept):
        if folder != main and any(folder.glob("*.parquet")):
            rows = answers.read(folder)
            rows = rows[(rows.run == profile) & ~rows.model.isin(seen)]
            found |= {str(model): of for model, of in rows.groupby("model", sort=False)}
            seen |= found.keys()
    return found


def beside_models(own: Outcomes, scores: Mapping[str, Any], others: Mapping[str, pd.DataFrame]) -> figures.Html:
    """A table of scores with a column for each other model, on the same arms and units.

    A cell stays empty where the table's rows are not all the run's of its arm, for example after a choice of units.

    Args:
        own: rows of the run.
        scores: what its `table` or `beside` left with the table.
        others: rows of the other models, by model.
    """
    rows = [dict(row) for row in scores["rows"]]
    one = len({part["measure"] for part in scores["scored"]}) == 1
    for row, part in zip(rows, scores["scored"], strict=True):
        mine = own.frame[(own.frame.arm == part["arm"]) & (own.frame.source == "rerun")]
        mine = mine[pd.MultiIndex.from_frame(mine[PARTS]).isin([tuple(of) for of in part["of"]])]
        for model, theirs in others.items():
            same = theirs[theirs.arm == part["arm"]].merge(mine[list(PAIRING)].drop_duplicates(), on=list(PAIRING))
            label = f"{measure_label(part['measure'])}, {model}" if one else model
            of_it = Outcomes(same[: len(same) if len(mine) == part["n"] else 0], draws=scores["draws"])
            row[label] = of_it.text(part["measure"], part["arm"])
    return figures.table(pd.DataFrame(rows), scores["caption"])


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
