"""Prints where two models differ on the same arms and units of a notebook.

python -m evaluation.compare NOTEBOOK [--models A B] [--measure MEASURE]
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pandas as pd

from evaluation import answers, figures
from evaluation.markup import Markup, escape
from evaluation.measures import measure_label, unit
from evaluation.outcomes import DIFFERENCE, PAIRING_COLUMNS, PART_COLUMNS, Outcomes, adjust_by_holm
from helpers.requests import StoreError
from resources.settings import run_command_line, settings

MEASURES = (
    "accuracy",
    "exact",
    "right",
    "f1",
)  # compared is the first that an arm has, else its first fraction
_NO_ROWS = ("printed", "rescored")  # beginnings of columns without this run's rows behind them
MOST = 5  # units of each arm that are shown


def compare(notebook: str, profile: str, models: Sequence[str] = (), measure: str = "") -> str:
    """Two models (the run's and the first other one) on the same arms: scores, paired tests, where they differ."""
    own = answers.read(answers.newest(notebook, profile))
    further = others(notebook, profile)
    asked = own[(own.model != "") & own.requests.map(len).astype(bool)].model.value_counts()
    there = {str(model): own[own.model == model] for model in asked.index} | further
    wanted = list(models) or [*list(there)[:1], *further][:2]
    if len(wanted) != 2 or not set(wanted) <= there.keys():
        needed = f"Two models with answers to {notebook} are needed; there are {', '.join(there) or 'none'}."
        raise StoreError(f"{needed} Add one: medrerun run --model ... {notebook}")
    first, second = (there[model] for model in wanted)
    shared = set(first[[*PAIRING_COLUMNS, "arm"]].merge(second[[*PAIRING_COLUMNS, "arm"]]).arm)
    chosen = {
        str(arm): _measure(rows, measure)
        for arm, rows in first.groupby("arm", sort=False)
        if arm in shared
    }
    chosen = {arm: name for arm, name in chosen.items() if name}
    if not chosen:
        what = f"a unit of {notebook}" + f" that has the measure {measure!r}" * bool(measure)
        raise StoreError(f"{' and '.join(wanted)} share no arm with {what}.")
    out = Outcomes(
        pd.concat([of.assign(arm=of.arm + f": {of.model.iloc[0]}") for of in (first, second)])
    )
    pairs = {arm: (f"{arm}: {wanted[0]}", f"{arm}: {wanted[1]}") for arm in chosen}
    # all arms are one family of tests, each by its own measure
    family = adjust_by_holm([out.compare([pairs[arm]], name)[0] for arm, name in chosen.items()])
    of_units = ", ".join(f"{arm} {measure_label(name)}" for arm, name in chosen.items())
    lines = [
        out.comparison_table(
            family, f"{notebook}: {wanted[0]} against {wanted[1]} ({of_units})"
        ).text,
        "",
    ]
    for arm, name in chosen.items():
        lines += _differing(first, second, arm, name)
    return "\n".join(
        [*lines, f"Open one, by all models: medrerun answers {notebook} --arm ... --unit ..."]
    )


def others(notebook: str, profile: str) -> dict[str, pd.DataFrame]:
    """The rows of models that the newest run did not ask, by model: this machine's runs before the reference runs."""
    main = answers.newest(notebook, profile)
    built = [
        answers.BUILT / profile / notebook,
        *sorted(answers.BUILT.glob(f"{profile}@*/{notebook}")),
    ]
    kept = [answers.RELEASED / notebook, *sorted(answers.RELEASED.glob(f"{notebook}@*"))]
    seen = {"", *answers.read(main, answers.KEY).model}
    found: dict[str, pd.DataFrame] = {}
    for folder in (*built, *kept):
        there = folder != main and any(folder.glob("*.parquet"))
        if there and not seen.issuperset(answers.read(folder, answers.KEY).model):
            rows = answers.read(folder)
            rows = rows[(rows.run == profile) & ~rows.model.isin(seen)]
            found |= {str(model): of for model, of in rows.groupby("model", sort=False)}
            seen |= found.keys()
    return found


def add_model_columns(
    own: Outcomes,
    scores: Mapping[str, Any],
    others: Mapping[str, pd.DataFrame],
    address: Callable[..., str],
) -> figures.Html:
    """A table of scores, by what the run left with it, with a column for the rows of each other model.

    A cell stays empty where the table's rows are not all the run's of its arm, for example after a choice of units.
    A number links to the `address` of the rows of its arm, model and stratum, unless that is empty.
    """
    rows = [dict(row) for row in scores["rows"]]
    one = len({part["measure"] for part in scores["scored"]}) == 1
    for row, part in zip(rows, scores["scored"], strict=True):
        mine = own.frame[(own.frame.arm == part["arm"]) & (own.frame.source == "rerun")]
        mine = mine[
            pd.MultiIndex.from_frame(mine[PART_COLUMNS]).isin([tuple(of) for of in part["of"]])
        ]
        for model, theirs in others.items():
            same = theirs[theirs.arm == part["arm"]].merge(
                mine[list(PAIRING_COLUMNS)].drop_duplicates(), on=list(PAIRING_COLUMNS)
            )
            label = f"{measure_label(part['measure'])}, {model}" if one else model
            of_it = Outcomes(
                same[: len(same) if len(mine) == part["n"] else 0], draws=scores["draws"]
            )
            row[label] = of_it.format_score(part["measure"], part["arm"], part.get("digits"))
        for name, text in row.items():
            if figures.is_written(text) and not name.startswith(_NO_ROWS):
                model = last if (last := name.rpartition(", ")[2]) in others else ""
                stratum = f"{scores['by']}: {name}" if name in scores.get("strata", ()) else ""
                row[name] = _linked(text, address(part["arm"], "", model, stratum))
    return figures.table(pd.DataFrame(rows).dropna(axis="columns", how="all"), scores["caption"])


def link_comparisons(scores: Mapping[str, Any], address: Callable[..., str]) -> figures.Html:
    """A table of tests, by what the run left with it; each difference links to the `address` of its two arms."""
    rows = [dict(row) for row in scores["rows"]]
    for row, arms in zip(rows, scores["tested"], strict=True):
        row[DIFFERENCE] = _linked(row[DIFFERENCE], address(*arms))
    return figures.table(pd.DataFrame(rows), scores["caption"])


def _linked(text: str, place: str) -> str:
    """A number or score that links to a place, unless that is empty."""
    return (
        Markup(f'<a href="{escape(place)}">{{}}</a>').format(figures.unbroken(text))
        if place
        else text
    )


def _measure(rows: pd.DataFrame, measure: str) -> str:
    there = {name for of in rows.measures for name in of}
    fractions = sorted(name for name in there if unit(name) == "fraction")
    return next(
        (name for name in ((measure,) if measure else (*MEASURES, *fractions)) if name in there), ""
    )


def _differing(first: pd.DataFrame, second: pd.DataFrame, arm: str, measure: str) -> list[str]:
    both = [of[of.arm == arm].set_index(list(PAIRING_COLUMNS)) for of in (first, second)]
    pairs = both[0].join(both[1], how="inner", rsuffix="_second").reset_index()
    scores = (
        pairs[side].map(lambda of: of.get(measure)) for side in ("measures", "measures_second")
    )
    units = pairs[next(scores) != next(scores)]
    texts = units.head(MOST)[["predicted", "predicted_second", "gold"]].map(_said)
    told = (
        f"   {u}: {a} | {b} (true: {c})"
        for u, (a, b, c) in zip(units.unit, texts.values.tolist(), strict=False)
    )
    return [f"{arm}: {len(units)} units differ in {measure_label(measure)}", *told]


def _said(text: str | None) -> str:
    return " ".join(text.split())[:60] if isinstance(text, str) else "-"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.compare", description="Compare two models."
    )
    parser.add_argument("notebook")
    parser.add_argument("--models", nargs="*", default=())
    parser.add_argument("--measure", default="")
    given = parser.parse_args(arguments)
    sys.stdout.write(
        f"{compare(given.notebook, settings().profile, given.models, given.measure)}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
