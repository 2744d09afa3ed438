"""Show stored answers as plain text: questions, evidence, replies of each arm, and the truth.

python -m evaluation.show NOTEBOOK [--arm ARM] [--unit UNIT]
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from evaluation import answers, compare, stored_runs
from evaluation.answers import Item
from evaluation.records import RecordError
from helpers.requests import Row, store, working
from resources.settings import run_command_line, run_name, settings

MAX_UNITS = 5
MAX_ITEMS = 10
"""Retrieved items of an answer that are shown."""


def show(notebook: str, profile: str, arm: str = "", unit: str = "") -> str:
    """Show the answers of some arms to some units as plain text.

    Args:
        notebook: Name of the notebook.
        profile: Name of the profile.
        arm: Name of an arm; where no arm has it, text that the names of the arms contain.
        unit: Text that the ids or the questions of the units contain.
    """
    frame = _all_rows(notebook, profile)
    rows = frame[_of_arm(frame, arm) & (frame.repeat == 0)]
    texts = rows.unit + " " + rows.question.fillna("")
    rows = rows[texts.str.contains(unit, case=False, regex=False)]
    if rows.empty:
        arms = ", ".join(frame.arm.unique())
        none = f"No answer of {notebook} matches arm {arm!r} and unit {unit!r}. Arms: {arms}"
        return "\n".join([none, *_missing_release(notebook, profile, frame)])
    stored = store(working())
    withheld = f"[text withheld by its licence; restore it: make notebook NB={notebook}]"
    lines: list[str] = []
    units = list(rows.groupby("unit", sort=False))
    for name, unit_rows in units[:MAX_UNITS]:
        first = unit_rows.iloc[0]
        lines += [
            f"== {name}",
            f"asked: {first.question or withheld}",
            f"truth: {first.gold}",
        ]
        for row in unit_rows.to_dict("records"):
            lines += _answer_lines(row, stored.get(row["requests"]), withheld)
    n_more = len(units) - MAX_UNITS
    if n_more > 0:
        lines.append(f"... and {n_more} more units; choose some with --unit")
    lines += _missing_release(notebook, profile, frame)
    return "\n".join(lines)


def _of_arm(frame: pd.DataFrame, arm: str) -> "pd.Series[bool]":
    """Whether a row's arm has this name or, where none has, a name that contains it."""
    is_arm = frame.arm == arm
    return is_arm if is_arm.any() else frame.arm.str.contains(arm, regex=False)


def _missing_release(notebook: str, profile: str, frame: pd.DataFrame) -> list[str]:
    """Where the authors' released answers are, if they decided claims and are not shown."""
    try:
        run = stored_runs.newest_run(notebook, profile)
    except RecordError:
        return []  # what is damaged here does not hide the answers
    if run is None or "released" in set(frame.source):
        return []
    if all(finding.kind != "rescored" for finding in run.record.claims):
        return []
    return [
        "Verdicts on the released files rest on the authors' rows, which are not in git. A run "
        f"adds them: make notebook NB={notebook}"
    ]


def _all_rows(notebook: str, profile: str) -> pd.DataFrame:
    """The rows of the newest run, of other models, and of the authors' release."""
    frames = [answers.read(answers.newest(notebook, profile))]
    frames += compare.others(notebook, profile).values()
    frames.append(answers.read_released(notebook, run_name(profile)))
    return pd.concat(frames)


def _answer_lines(row: Mapping[Any, Any], stored: Mapping[str, Row], withheld: str) -> list[str]:
    """One answer: its arm, the last prompt, what was retrieved, and the reply."""
    lines = [f"-- {row['arm']} ({row['model'] or 'no model'})"]
    for key in row["requests"][-1:]:
        if key in stored:
            lines.append(f"   saw: {_last_message(stored[key].prompt) or withheld}")
    retrieved = _retrieved_lines(row["items"])
    ranks_alone = retrieved and not len(row["requests"]) and not row["answer"]
    return lines + retrieved + ([] if ranks_alone else [_reply_line(row, withheld)])


def _reply_line(row: Mapping[Any, Any], withheld: str) -> str:
    read_as = row["predicted"] if row["parsed"] else "unparsed"
    missing = "[not released]" if row["source"] == "released" else withheld
    return f"   said: {row['answer'] or missing}   read as: {read_as}"


def _retrieved_lines(items: Sequence[Item]) -> list[str]:
    ranked = [item for item in items if item.rank]
    lines = []
    for item in ranked[:MAX_ITEMS]:
        label = f" ({item.label})" if item.label and item.label != item.id else ""
        relevant = ", relevant" if item.gold else ""
        lines.append(f"   retrieved {item.rank}: {item.id}{label}{relevant}")
    return lines


def _last_message(prompt: str | None) -> str:
    messages = json.loads(prompt or '""')
    if isinstance(messages, str):
        return messages
    last = messages[-1]
    return str(last["content"] if isinstance(last, dict) else messages[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.show", description="Show stored answers."
    )
    parser.add_argument("notebook")
    parser.add_argument("--arm", default="")
    parser.add_argument("--unit", default="")
    options = parser.parse_args(arguments)
    text = show(options.notebook, settings().profile, options.arm, options.unit)
    sys.stdout.write(f"{text}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
