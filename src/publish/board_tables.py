"""The scoreboard, the ledger and their summary as tables of the terminal."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from evaluation.published import Number, published
from evaluation.verdicts import here_word
from publish.board_cells import BY

MIN_COLUMN_WIDTH: Final = 16
"""Characters of a line for each column, below which a table is printed as a list."""
COLOURS: Final = {
    "matches": "green",
    "agrees": "green",
    "with the claim": "green",
    "differs": "red",
    "against it": "red",
    "inconclusive": "magenta",
    "SAMPLE": "yellow",
    "not compared": "cyan",
}


def models(board: pd.DataFrame) -> list[str]:
    """Return the other models that have a column of a table, and a rerun in one of its rows."""
    found = []
    for column in map(str, board.columns):
        if not (column.startswith(BY) and column.endswith("_notebook")):
            continue
        if board[column].ne("").any():
            found.append(column.removeprefix(BY).removesuffix("_notebook"))
    return found


def print_table(console: Console, table: Table) -> None:
    """Print a table, or a list of its rows where its columns would be narrow."""
    if console.width >= MIN_COLUMN_WIDTH * len(table.columns):
        console.print(table)
    else:
        print_list(console, table)


def print_list(console: Console, table: Table) -> None:
    """Print the rows of a table below each other, without the cells that say nothing."""
    console.print(f"\n[bold]{table.title}[/]\n")
    empty = tuple(map(_coloured, ("not run", "not asked", "not tested")))
    rows = zip(*(column.cells for column in table.columns), strict=True)
    for first, *others in rows:
        console.print(first)
        for column, cell in zip(table.columns[1:], others, strict=True):
            if cell not in empty:
                console.print(Padding(f"{column.header}: {cell}", (0, 0, 0, 4)))


def summary_table(board: pd.DataFrame, claims: pd.DataFrame) -> Table:
    """Return a row for each paper: its numbers rescored and rerun, and its claims.

    Numbers are counted by their match, claims by the answers to both questions.
    """
    table = Table("paper", "numbers", "rescored", "rerun", "claims", "claims here")
    for paper in dict.fromkeys([*board["paper"], *claims["paper"]]):
        numbers = board[board["paper"] == paper].to_dict("records")
        rescored = [row["rescored_verdict"] for row in numbers]
        rerun = [row[f"{row['shown']}_verdict"] for row in numbers]
        of_paper = claims[claims["paper"] == paper]
        counted = (rescored, rerun, of_paper["verdict"], of_paper["here_answer"].map(here_word))
        cells = [_count_verdicts(words) for words in counted]
        table.add_row(escape(str(paper)), str(len(numbers)), *cells)
    return table


def _count_verdicts(verdicts: Iterable[str]) -> str:
    """Return how often each verdict occurs, in the order of `COLOURS`."""
    counts = Counter(verdicts)
    words = sorted(counts, key=lambda word: [*COLOURS, word].index(word))
    return ", ".join(_coloured(f"{counts[word]} {word}", word) for word in words)


def board_table(title: str, frame: pd.DataFrame) -> Table:
    """Return the rows of a scoreboard."""
    groups = {"rescored": "rescored", "reference": "reference", "rerun": "this machine"}
    groups |= {f"{BY}{model}": escape(model) for model in models(frame)}
    table = Table("place", "printed", *groups.values(), title=title)
    for row in frame.to_dict("records"):
        number = published(row["paper"]).number(row["id"])
        cells = [_number_cell(number, row[group], row[f"{group}_verdict"]) for group in groups]
        table.add_row(escape(f"{row['row']}: {row['column']}"), escape(row["printed"]), *cells)
    return table


def _number_cell(number: Number, value: Any, verdict: str) -> str:  # noqa: ANN401  # as pandas gives it
    if pd.isna(value):
        return _coloured(verdict, verdict)
    mark = " (another model)" if verdict == "another model" else ""
    return _coloured(number.show(value) + mark, verdict)


def claim_table(frame: pd.DataFrame) -> Table:
    """Return the rows of a ledger."""
    groups = {
        "printed": "printed numbers",
        "rescored": "released files",
        "reference": "reference",
        "rerun": "this machine",
    }
    groups |= {f"{BY}{model}": escape(model) for model in models(frame)}
    table = Table("claim", *groups.values(), "here", "why", "rule", title="Claims")
    for row in frame.to_dict("records"):
        answers = [_coloured(row[f"{group}_verdict"]) for group in groups]
        answer_here = _coloured(here_word(row["here_answer"]))
        if row["here_models"]:
            answer_here += f" ({escape(row['here_models'])})"
        source = " · ".join(filter(None, [row["id"], _notebook(row, groups)]))
        claim = f"{escape(row['claim'])} [dim]({escape(source)})[/]"
        rule = escape(row[f"{row['shown']}_test"] or "")
        table.add_row(claim, *answers, answer_here, escape(row["why"]), rule)
    return table


def _notebook(row: Mapping[Hashable, Any], groups: Iterable[str]) -> str:
    """Return the notebook that decides a claim; empty if none has run."""
    notebooks = (row[f"{group}_notebook"] for group in groups)
    return next(filter(None, notebooks), "")


def _coloured(text: str, verdict: str = "") -> str:
    return f"[{COLOURS.get(verdict or text, 'dim')}]{escape(text)}[/]"
