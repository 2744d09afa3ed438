"""Which stored answers a rerun number was computed from."""

import re
from collections.abc import Iterator, Mapping
from itertools import product, zip_longest
from typing import Final

from publish.selections import QuestionLists, Selected, Selection

ARMS_BY_ROW: Final[Mapping[str, Mapping[str, str]]] = {
    "biomedrag": {
        "gpt4": "zero_shot",
        "gpt4_br": "biomedrag",
        "llama2": "lora",
        "llama2_br": "lora_rag",
        "medllama": "lora",
        "medllama_br": "lora_rag",
        "whole": "lora_rag",
        "without_scorer": "lora_cosine",
        "without_diversity": "lora_plain",
        "m3": "lora_m3",
        "m4": "lora_m4",
        "llama2_top20": "lora_knn_20",
        "medllama_top1": "lora_knn_1",
        "top1": "lora_knn_1",
        "top10": "lora_knn_10",
        "top15": "lora_knn_15",
    }
}
"""By paper, the arm whose answers fill a row of a printed table that has another name."""
_N_BEFORE_ROW: Final = 2
"""Parts of a number's id before its row: paper and table, which may be named as an arm is."""


def rows_of_number(
    number_id: str, model: str, lists: QuestionLists
) -> tuple[Selection, Selected] | tuple[None, None]:
    """Return what the viewer shows of the answers behind a number; None where it has none.

    Args:
        number_id: Id of a printed number: paper, table, row and so on.
        model: The model that answered, "" for none.
        lists: The questions of the experiment.
    """
    listed_model = model if model in lists.entry["models"] else ""
    arms = [*_arms_of_number(number_id, lists.entry["arms"]), ""]
    tasks = [*_tasks_of_number(number_id, lists.tasks), ""]
    candidates = [
        Selection(arm, model=listed_model, text=task) for arm, task in product(arms, tasks)
    ]
    return lists.first_with_rows(candidates)


def _arms_of_number(number_id: str, labels: Mapping[str, str]) -> Iterator[str]:
    """Yield the arms that a number's id names, the longest name first."""
    parts = number_id.split(".")[_N_BEFORE_ROW:]
    pairs = [".".join(pair) for pair in zip_longest(parts, parts[1:], fillvalue="")]
    by_row = ARMS_BY_ROW.get(number_id.partition(".")[0], {})
    rows = [by_row.get(part) or _arm_of_beginning(part, by_row) for part in parts]
    for name in (*pairs, *parts, *rows):
        if name in labels:
            yield name


def _arm_of_beginning(part: str, by_row: Mapping[str, str]) -> str:
    """Return the arm of the longest row that a part begins with, such as ``llama2_br_git``."""
    rows = [row for row in by_row if part.startswith(f"{row}_")]
    return by_row[max(rows, key=len)] if rows else ""


def _tasks_of_number(number_id: str, tasks: list[str]) -> Iterator[str]:
    """Yield the corpora that a number's id names, where an experiment has several."""
    words = re.split(r"[._]", number_id)[_N_BEFORE_ROW:]
    for task in tasks:
        first_word = re.split(r"\W", task.lower())[0]
        if len(tasks) > 1 and first_word in words:
            yield task
