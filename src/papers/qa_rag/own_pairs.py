"""Own pairs of a question and its answer: to fine-tune a model, and as examples in prompts."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from helpers import llm, tables, texts
from helpers.llm import LLM
from helpers.texts import TextError
from papers.qa_rag import finetune
from papers.qa_rag.data import QaRagDataError, Question
from resources.settings import read_profile, settings

MIN_PAIRS = 20
"""Fewer teach a model nothing, and leave none to validate with."""

JSON_LINES = (".jsonl", ".ndjson", ".json")
"""Endings of files with an object a line."""

VALIDATION_SHARE = 0.1
"""Of the pairs (section 2.3)."""

SEED = 20251121
"""Of the training."""

NOTEBOOK = "15_qarag_finetune"
"""Its settings of the training are taken."""


def read_pairs(path: Path) -> tuple[Question, ...]:
    """Read pairs from JSON lines with question and answer, or from a CSV or Excel table with both.

    Raises:
        QaRagDataError: The file cannot be read, a row has no question or no answer, or there are
            too few.
    """
    try:
        rows = _json_rows(path) if path.suffix.lower() in JSON_LINES else _table_rows(path)
    except TextError as error:
        raise QaRagDataError(f"{path}: {error}") from None
    pairs = [_pair(path, number, row) for number, row in enumerate(rows, start=1)]
    if len(pairs) < MIN_PAIRS:
        raise QaRagDataError(
            f"{path}: at least {MIN_PAIRS} pairs of a question and its answer were needed to train "
            f"on; found {len(pairs)}."
        )
    return tuple(pairs)


def _table_rows(path: Path) -> list[Any]:
    table = tables.read_table(path)
    return table.rename(columns=str.lower).to_dict(orient="records")


def _json_rows(path: Path) -> list[Any]:
    rows = []
    for number, line in enumerate(texts.read(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except ValueError:
            raise QaRagDataError(
                f"{path}, line {number}: an object with question and answer was needed; the line "
                "is no JSON. Write one object a line."
            ) from None
    return rows


def _pair(path: Path, number: int, row: object) -> Question:
    fields = row if isinstance(row, Mapping) else {}
    question = str(fields.get("question") or "").strip()
    answer = str(fields.get("answer") or "").strip()
    if not question or not answer:
        raise QaRagDataError(
            f"{path}, pair {number}: a question and an answer were needed; one of them is missing. "
            "Name the columns question and answer."
        )
    return Question(f"own{number}", question, answer, guideline="", source=path.name, body=question)


def training_settings(profile: str) -> dict[str, Any]:
    """The settings of the training that a profile has for the released pairs, for all own pairs."""
    section = read_profile(profile)[NOTEBOOK]["finetune"]
    return {**section, "pairs": None, "validation_pairs": None}


def divide(pairs: Sequence[Question], longest: int) -> finetune.Split:
    """Divide the pairs that are short enough into those that teach and the last tenth.

    Args:
        pairs: The pairs.
        longest: Characters of question and answer together.

    Raises:
        QaRagDataError: Too few are short enough.
    """
    short = [pair for pair in pairs if len(pair.text) + len(pair.answer) <= longest]
    if len(short) < MIN_PAIRS:
        raise QaRagDataError(
            f"At least {MIN_PAIRS} pairs of at most {longest:,} characters were needed to train "
            f"on; found {len(short)} of {len(pairs)}. Shorten answers, or add pairs."
        )
    n_validation = max(1, round(len(short) * VALIDATION_SHARE))
    return {"train": short[:-n_validation], "validation": short[-n_validation:]}


def fine_tune(pairs: Sequence[Question], store: Path) -> LLM:
    """Train a model on pairs, or load it if it was trained on the same ones, and serve it.

    Args:
        pairs: The pairs; the last tenth validates.
        store: Folder of its replies.

    Raises:
        QaRagDataError: Too few pairs are short enough.
        EngineError: This machine's engine cannot train or serve it.
        ServiceError: A server of the settings has no such adapter.
    """
    recipe = training_settings(settings().profile)
    split = divide(pairs, recipe["longest"])
    finetune.check_server(recipe["base"], ["own"])
    log = finetune.train("own", split, recipe, SEED)
    base = llm.connect(recipe["base"], exact=True, adapters=[log.adapter], folder=store)
    return base.adapted(log.adapter)
