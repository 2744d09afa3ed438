"""Shows stored answers as plain text: what was asked, what each arm saw and said, and what is true.

python -m helpers.results.show NOTEBOOK [--arm ARM] [--unit UNIT] [--most N]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable

import pandas as pd

from helpers.results import answers, compare
from helpers.results.requests import RELEASED, Store, working
from helpers.settings import settings, told


def show(notebook: str, profile: str, arm: str = "", unit: str = "", most: int = 5) -> str:
    """What was asked, what each arm saw and said, and what is true, as plain text.

    Args:
        notebook: whose rows.
        profile: of this machine's run.
        arm: this one alone; a part of its name is enough.
        unit: units whose id or question holds this text.
        most: units to show.
    """
    frame = pd.concat([answers.read(answers.newest(notebook, profile)), *compare.others(notebook, profile).values()])
    rows = frame[frame.arm.str.contains(arm, regex=False) & (frame.repeat == 0)]
    text = rows.unit + " " + rows.question.fillna("")
    rows = rows[text.str.contains(unit, case=False, regex=False)]
    if rows.empty:
        return f"No answer of {notebook} matches arm {arm!r} and unit {unit!r}. Arms: {', '.join(frame.arm.unique())}"
    requests = Store(working(), RELEASED)
    lines: list[str] = []
    for number, (name, of_unit) in enumerate(rows.groupby("unit", sort=False)):
        if number == most:
            lines.append(f"... and {rows.unit.nunique() - most} more units; name one with UNIT=...")
            break
        first = of_unit.iloc[0]
        lines += [f"== {name}", f"asked: {first.question or _withheld(notebook)}", f"truth: {first.gold}"]
        for row in of_unit.to_dict("records"):
            stored = requests.get(row["requests"])
            lines.append(f"-- {row['arm']} {row['model']} ({row['source']})")
            lines += [f"   saw: {_last(stored[key].prompt, notebook)}" for key in row["requests"][-1:] if key in stored]
            lines += [f"   retrieved {item.rank}: {item.label or item.id}" for item in row["items"] if item.rank][:10]
            read_as = row["predicted"] if row["parsed"] else "not parsed"
            lines.append(f"   said: {row['answer'] or _withheld(notebook)}   read as: {read_as}")
    return "\n".join(lines)


def _last(prompt: str | None, notebook: str) -> str:
    if prompt is None:
        return _withheld(notebook)
    messages = json.loads(prompt)
    return str(messages[-1]["content"] if isinstance(messages[-1], dict) else messages[0])


def _withheld(notebook: str) -> str:
    return f"[text withheld by its licence; restore it: make notebook NB={notebook}]"


def main(arguments: Iterable[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m helpers.results.show", description="Show stored answers.")
    parser.add_argument("notebook")
    for name in ("arm", "unit"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--most", type=int, default=5)
    options = parser.parse_args(None if arguments is None else list(arguments))
    sys.stdout.write(f"{show(options.notebook, settings().profile, options.arm, options.unit, options.most)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(told(main))
