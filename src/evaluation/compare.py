"""Print where two models differ on the same arms and units of a notebook.

python -m evaluation.compare NOTEBOOK [--models A B] [--measure MEASURE]
"""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import pandas as pd

from evaluation import answers, figures
from evaluation.markup import Markup, escape
from evaluation.measures import measure_label, unit
from evaluation.outcomes import DIFFERENCE, PAIRING_COLUMNS, PART_COLUMNS, Outcomes, adjust_by_holm
from helpers.requests import StoreError
from resources.settings import run_command_line, run_name, settings

MEASURES = ("accuracy", "exact", "right", "f1")
"""The first of these that an arm has is compared, else its first fraction."""
MAX_UNITS = 5
"""Units of each arm that are shown."""
MAX_CHARACTERS = 60
"""Characters of an answer that are shown."""
_COLUMNS_WITHOUT_ROWS = ("printed", "rescored")
"""Beginnings of columns without this run's rows behind them."""

Address: TypeAlias = Callable[..., str]
"""Gives the place of rows on the book's page of answers, by arm, second arm, model and stratum.

Empty if they have none.
"""


def compare(notebook: str, profile: str, models: Sequence[str] = (), measure: str = "") -> str:
    """Compare two models on the same arms: scores, paired tests, and units where they differ.

    Args:
        notebook: Name of the notebook.
        profile: Name of the profile.
        models: Names of the two models; by default the run's and the first other one.
        measure: The measure; by default one for each arm, see `MEASURES`.

    Raises:
        StoreError: If there are not two models, or they share no arm.
    """
    rows_by_model, names = _models_to_compare(notebook, profile, models)
    first, second = (rows_by_model[name] for name in names)
    measures = _measures_to_compare(first, second, measure)
    if not measures:
        unit_text = f"a unit of {notebook}"
        if measure:
            unit_text += f" that has the measure {measure!r}"
        raise StoreError(f"{' and '.join(names)} share no arm with {unit_text}.")
    outcomes = Outcomes(pd.concat([_with_model_in_arm(first), _with_model_in_arm(second)]))
    comparisons = []
    for arm, name in measures.items():
        pair = (f"{arm}: {names[0]}", f"{arm}: {names[1]}")
        comparisons += outcomes.compare([pair], name)
    # All arms are one family of tests, each by its own measure.
    comparisons = adjust_by_holm(comparisons)
    described = ", ".join(f"{arm} {measure_label(name)}" for arm, name in measures.items())
    caption = f"{notebook}: {names[0]} against {names[1]} ({described})"
    lines = [outcomes.comparison_table(comparisons, caption).text, ""]
    for arm, name in measures.items():
        lines += _differing_units(first, second, arm, name)
    lines.append(f"Open one, by all models: medrerun answers {notebook} --arm ... --unit ...")
    return "\n".join(lines)


def _models_to_compare(
    notebook: str, profile: str, models: Sequence[str]
) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """The rows of each model, and the names of the two that are compared."""
    own = answers.read(answers.newest(notebook, profile))
    sends_requests = own.requests.map(len).astype(bool)
    own_models = own[(own.model != "") & sends_requests].model.value_counts().index
    further = others(notebook, profile)
    released = answers.read_released(notebook, run_name(profile))
    for model, rows in released.groupby("model", sort=False):
        further[str(model)] = rows
    rows_by_model = {str(model): own[own.model == model] for model in own_models} | further
    names = list(models)
    if not names:
        names = [*list(rows_by_model)[:1], *further][:2]
    if len(names) != 2 or not set(names) <= rows_by_model.keys():
        raise StoreError(
            f"Two models with answers to {notebook} are needed; there are "
            f"{', '.join(rows_by_model) or 'none'}. Add one: medrerun run --model ... {notebook}"
        )
    return rows_by_model, names


def _measures_to_compare(first: pd.DataFrame, second: pd.DataFrame, measure: str) -> dict[str, str]:
    """The measure of each arm that has a unit by both models."""
    columns = [*PAIRING_COLUMNS, "arm"]
    shared_arms = set(first[columns].merge(second[columns]).arm)
    measures = {}
    for arm, rows in first.groupby("arm", sort=False):
        name = _choose_measure(rows, measure)
        if arm in shared_arms and name:
            measures[str(arm)] = name
    return measures


def _choose_measure(rows: pd.DataFrame, measure: str) -> str:
    """The measure to compare rows by; empty if they have none."""
    present: set[str] = set()
    for measures in rows.measures:
        present.update(measures)
    fractions = sorted(name for name in present if unit(name) == "fraction")
    candidates = [measure] if measure else [*MEASURES, *fractions]
    for name in candidates:
        if name in present:
            return name
    return ""


def _with_model_in_arm(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.assign(arm=rows.arm + f": {rows.model.iloc[0]}")


def _differing_units(
    first: pd.DataFrame, second: pd.DataFrame, arm: str, measure: str
) -> list[str]:
    """Lines on the units of an arm whose measure differs."""
    first_rows = first[first.arm == arm].set_index(PAIRING_COLUMNS)
    second_rows = second[second.arm == arm].set_index(PAIRING_COLUMNS)
    pairs = first_rows.join(second_rows, how="inner", rsuffix="_second").reset_index()
    first_values = pairs.measures.map(lambda values: values.get(measure))
    second_values = pairs.measures_second.map(lambda values: values.get(measure))
    units = pairs[first_values != second_values]
    lines = [f"{arm}: {len(units)} units differ in {measure_label(measure)}"]
    for row in units.head(MAX_UNITS).itertuples():
        replies = f"{_shorten(row.predicted)} | {_shorten(row.predicted_second)}"
        lines.append(f"   {row.unit}: {replies} (true: {_shorten(row.gold)})")
    return lines


def _shorten(text: object) -> str:
    return " ".join(text.split())[:MAX_CHARACTERS] if isinstance(text, str) else "-"


def others(notebook: str, profile: str) -> dict[str, pd.DataFrame]:
    """The rows of models that the newest run did not ask, by model.

    Rows of this machine's runs take the place of those of the reference runs.
    """
    main_folder = answers.newest(notebook, profile)
    folders = [
        answers.BUILT / profile / notebook,
        *sorted(answers.BUILT.glob(f"{profile}@*/{notebook}")),
        answers.RELEASED / notebook,
        *sorted(answers.RELEASED.glob(f"{notebook}@*")),
    ]
    seen = {"", *answers.read(main_folder, answers.KEY).model}
    rows_by_model: dict[str, pd.DataFrame] = {}
    for folder in folders:
        if folder == main_folder or not any(folder.glob("*.parquet")):
            continue
        if seen.issuperset(answers.read(folder, answers.KEY).model):
            continue
        rows = answers.read(folder)
        new = rows[(rows.run == profile) & ~rows.model.isin(seen)]
        for model, model_rows in new.groupby("model", sort=False):
            rows_by_model[str(model)] = model_rows
        seen |= rows_by_model.keys()
    return rows_by_model


def add_model_columns(
    own: Outcomes,
    scores: Mapping[str, Any],
    others: Mapping[str, pd.DataFrame],
    address: Address,
) -> figures.Html:
    """Show a table of scores with a column for each other model.

    A cell stays empty where the table's rows are not all the run's of its arm, for example after a
    choice of units.

    Args:
        own: The answers of the run.
        scores: What the run left with the table, see `Outcomes.scored_table`.
        others: The rows of each other model.
        address: Where a number of an arm, a model and a stratum links to.
    """
    rows = [dict(row) for row in scores["rows"]]
    one_measure = len({scored["measure"] for scored in scores["scored"]}) == 1
    strata = scores.get("strata", ())
    for row, scored in zip(rows, scores["scored"], strict=True):
        own_rows = _rows_of_table(own, scored)
        for model, model_rows in others.items():
            prefix = f"{measure_label(scored['measure'])}, " if one_measure else ""
            label = f"{prefix}{model}"
            row[label] = _other_score(own_rows, model_rows, scored, scores["draws"])
        for column in _linked_columns(row):
            last_part = column.rpartition(", ")[2]
            model = last_part if last_part in others else ""
            stratum = f"{scores['by']}: {column}" if column in strata else ""
            row[column] = _link(row[column], address(scored["arm"], "", model, stratum))
    table = pd.DataFrame(rows).dropna(axis="columns", how="all")
    return figures.table(table, scores["caption"])


def _linked_columns(row: Mapping[str, Any]) -> list[str]:
    """The columns of a row that have numbers of this run or of other models."""
    columns = []
    for name, text in row.items():
        if figures.is_written(text) and not name.startswith(_COLUMNS_WITHOUT_ROWS):
            columns.append(name)
    return columns


def _rows_of_table(own: Outcomes, scored: Mapping[str, Any]) -> pd.DataFrame:
    """The run's rows of an arm, in the parts of the experiment that a table shows."""
    rows = own.frame[(own.frame.arm == scored["arm"]) & (own.frame.source == "rerun")]
    parts = [tuple(part) for part in scored["of"]]
    return rows[pd.MultiIndex.from_frame(rows[PART_COLUMNS]).isin(parts)]


def _other_score(
    own_rows: pd.DataFrame, other_rows: pd.DataFrame, scored: Mapping[str, Any], draws: int
) -> str | None:
    """The score of another model on the same units."""
    if len(own_rows) != scored["n"]:
        return None
    arm = scored["arm"]
    units = own_rows[PAIRING_COLUMNS].drop_duplicates()
    same_units = other_rows[other_rows.arm == arm].merge(units, on=PAIRING_COLUMNS)
    outcomes = Outcomes(same_units, draws=draws)
    return outcomes.format_score(scored["measure"], arm, scored.get("digits"))


def link_comparisons(scores: Mapping[str, Any], address: Address) -> figures.Html:
    """Show a table of paired tests whose differences link to the answers of both arms.

    Args:
        scores: What the run left with the table, see `Outcomes.comparison_table`.
        address: Where the difference of two arms links to.
    """
    rows = [dict(row) for row in scores["rows"]]
    for row, arms in zip(rows, scores["tested"], strict=True):
        row[DIFFERENCE] = _link(row[DIFFERENCE], address(*arms))
    return figures.table(pd.DataFrame(rows), scores["caption"])


def _link(text: str, address: str) -> str:
    """A number or score that links to an address, unless that is empty."""
    if not address:
        return text
    link = Markup(f'<a href="{escape(address)}">{{}}</a>')
    return link.format(figures.unbroken(text))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.compare", description="Compare two models."
    )
    parser.add_argument("notebook")
    parser.add_argument("--models", nargs="*", default=())
    parser.add_argument("--measure", default="")
    options = parser.parse_args(arguments)
    text = compare(options.notebook, settings().profile, options.models, options.measure)
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
