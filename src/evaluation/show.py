"""Shows stored answers as plain text: what was asked, what each arm saw and said, and what is true.

python -m evaluation.show NOTEBOOK [--arm ARM] [--unit UNIT]
"""

import argparse
import json
import sys
from collections.abc import Sequence

import pandas as pd

from evaluation import answers, compare
from helpers.requests import store, working
from resources.settings import run_command_line, run_name, settings

MOST = 5  # units that are shown


def show(notebook: str, profile: str, arm: str = "", unit: str = "") -> str:
    """The answers of arms whose name holds `arm` to the units whose id or question holds `unit`, as plain text."""
    frames = [
        answers.read(answers.newest(notebook, profile)),
        *compare.others(notebook, profile).values(),
    ]
    authors = answers.authors(notebook, run_name(profile))
    frame = pd.concat(
        [*frames, *([answers.read(authors)] if any(authors.glob("*.parquet")) else [])]
    )
    rows = frame[frame.arm.str.contains(arm, regex=False) & (frame.repeat == 0)]
    text = rows.unit + " " + rows.question.fillna("")
    rows = rows[text.str.contains(unit, case=False, regex=False)]
    if rows.empty:
        return f"No answer of {notebook} matches arm {arm!r} and unit {unit!r}. Arms: {', '.join(frame.arm.unique())}"
    asked = store(working())
    withheld = f"[text withheld by its licence; restore it: make notebook NB={notebook}]"
    lines: list[str] = []
    for name, of_unit in list(rows.groupby("unit", sort=False))[:MOST]:
        first = of_unit.iloc[0]
        lines += [f"== {name}", f"asked: {first.question or withheld}", f"truth: {first.gold}"]
        for row in of_unit.to_dict("records"):
            stored = asked.get(row["requests"])
            authors = row["source"] == "released"
            lines.append(
                f"-- {row['arm']} {row['model']} ({'released by the authors' if authors else row['source']})"
            )
            lines += [
                f"   saw: {_last(stored[k].prompt) or withheld}"
                for k in row["requests"][-1:]
                if k in stored
            ]
            lines += [
                f"   retrieved {item.rank}: {item.label or item.id}"
                for item in row["items"]
                if item.rank
            ][:10]
            read_as = row["predicted"] if row["parsed"] else "not parsed"
            said = row["answer"] or ("[not released]" if authors else withheld)
            lines.append(f"   said: {said}   read as: {read_as}")
    if (more := rows.unit.nunique() - MOST) > 0:
        lines.append(f"... and {more} more units; name one with UNIT=...")
    return "\n".join(lines)


def _last(prompt: str | None) -> str:
    messages = json.loads(prompt or '""')
    if isinstance(messages, str):
        return messages
    return str(messages[-1]["content"] if isinstance(messages[-1], dict) else messages[0])


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="python -m evaluation.show", description="Show stored answers."
    )
    parser.add_argument("notebook")
    parser.add_argument("--arm", default="")
    parser.add_argument("--unit", default="")
    given = parser.parse_args(arguments)
    sys.stdout.write(f"{show(given.notebook, settings().profile, given.arm, given.unit)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
