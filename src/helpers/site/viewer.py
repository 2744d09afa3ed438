"""The answer viewer's data: the rows of the table of answers with their prompts, as scripts of bounded size.

A page opened from the disk may load a script and may not fetch a file, so each script calls `ANSWERS`. A notebook has a
list of its questions, with which arm is right, and parts with what was asked and said, each loaded when it is needed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pandas as pd

from helpers.results import answers, compare, figures
from helpers.results.requests import RELEASED, Row, Store, working
from helpers.settings import public
from helpers.site.chapters import Chapter

PART: Final = 250_000
"""Characters of a part at most, unless one question alone has more."""
SHARED: Final = 60
"""Characters from which a text that occurs again is stored once for its part."""
LISTED: Final = 120
"""Characters of a question in the list."""
RIGHT: Final = ("accuracy", "correct", "exact", "f1", "mrr", "ndcg")
"""Measures by which an answer is right if it has the full value; the first that it has counts."""
LICENSED: Final = "[text withheld by its licence]"


def arms(chapter: Chapter) -> set[str]:
    """The arms of a chapter whose answers the viewer has; empty if there are none."""
    if chapter.record is None or chapter.record.sample:
        return set()
    return {path.stem for path in answers.newest(chapter.name, chapter.record.profile).glob("*.parquet")}


def link(notebook: str, arm: str = "") -> str:
    """The viewer's address for an experiment, or for one arm of it."""
    return f"answers.html#nb={notebook}" + (f"&arm={arm}" if arm else "")


def files(chapters: Iterable[Chapter]) -> dict[str, str]:
    """The scripts: name below the site, and content. `answers/index.js` lists the notebooks and their parts."""
    listed, written = [], {}
    store = Store(working(), RELEASED)
    for chapter in chapters:
        if chapter.record is None or not arms(chapter):
            continue
        profile = chapter.record.profile
        own = answers.read(answers.newest(chapter.name, profile))
        rows = pd.concat([own, *compare.others(chapter.name, profile).values()])
        prompts = store.get(key for keys in rows.requests for key in keys)
        names = {arm: figures.ARMS.get(arm, (arm.replace("_", " "),))[0] for arm in rows.arm.unique()}
        models = sorted(set(rows.model) - {""})
        name, units = _json(chapter.name), []
        for number, (part, in_part) in enumerate(_parts(rows, prompts)):
            written[f"answers/{chapter.name}-{number}.js"] = f"ANSWERS.part({name}, {number}, {part});\n"
            units += [_listed(unit, number, [*names], models) for unit in in_part]
        written[f"answers/{chapter.name}.js"] = f"ANSWERS.list({name}, {_json(units)});\n"
        one = {"name": chapter.name, "title": chapter.title, "paper": chapter.paper}
        listed.append({**one, "arms": names, "models": models})
    return written | {"answers/index.js": f"ANSWERS.index({_json(listed)});\n"}


def _parts(rows: pd.DataFrame, prompts: Mapping[str, Row]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The questions of a notebook in parts, as JSON and as they are.

    A part is {texts, units}; {"t": 3} stands for texts[3].
    """
    texts: dict[str, int] = {}
    written: list[str] = []
    units: list[dict[str, Any]] = []
    size = 0
    for _, of_unit in rows.groupby(["task", "split", "unit"], sort=False):
        units.append(_unit(_records(of_unit), prompts))
        written.append(_json(_shared(units[-1], texts)))
        size += len(written[-1])
        if size + sum(map(len, texts)) > PART:
            yield _part(texts, written), units
            texts, written, units, size = {}, [], [], 0
    if units:
        yield _part(texts, written), units


def _listed(unit: Mapping[str, Any], part: int, arms: list[str], models: list[str]) -> list[Any]:
    """A question in the list: id, task, split, strata, question, part, and for each answer of an arm (not of a judge)
    the places of arm and model, whether it is right, and whether it is unparsed.
    """
    strata = "; ".join(f"{name}: {value}" for name, value in unit["strata"].items())
    said = [
        [
            arms.index(row["arm"]),
            models.index(row["model"]) if row["model"] else -1,
            row["right"],
            int("unparsed" in row["flags"]),
        ]
        for row in unit["rows"]
        if not row["of"]
    ]
    return [unit["id"], unit["task"], unit["split"], strata, unit["question"][:LISTED], part, said]


def _records(rows: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): value for name, value in row.items()} for row in rows.to_dict("records")]


def _part(texts: Mapping[str, int], units: Iterable[str]) -> str:
    return f'{{"texts": {_json(list(texts))}, "units": [{", ".join(units)}]}}'


def _unit(rows: list[dict[str, Any]], prompts: Mapping[str, Row]) -> dict[str, Any]:
    first = rows[0]
    return {
        "id": first["unit"],
        "task": first["task"],
        "split": first["split"],
        "strata": first["strata"],
        "question": LICENSED if first["question"] is None else first["question"],
        "gold": first["gold"],
        "rows": [_answer(row, prompts) for row in sorted(rows, key=_place)],
    }


def _place(row: Mapping[str, Any]) -> tuple[int, str, str, str, int]:
    """Where a row comes: arms in the book's order, each with what judges it and its repetitions."""
    order = [*figures.ARMS]
    arm = row["of"] or row["arm"]
    return (order.index(arm) if arm in order else len(order), arm, row["of"], row["model"], row["repeat"])


def _answer(row: Mapping[str, Any], prompts: Mapping[str, Row]) -> dict[str, Any]:
    asked = [prompts[key] for key in row["requests"] if key in prompts]
    ranked = sorted((item for item in row["items"] if item.rank), key=lambda item: item.rank)
    return {
        "arm": row["arm"],
        "model": row["model"],
        "of": row["of"],
        "repeat": row["repeat"],
        "said": LICENSED if row["answer"] is None and row["requests"] else row["answer"],
        "read": row["predicted"] if row["parsed"] else None,
        "right": _right(row["measures"]),
        "flags": [name for name in ("cut", "overflow") if row[name]] + ([] if row["parsed"] else ["unparsed"]),
        "measures": {name: round(top / bottom, 4) for name, (top, bottom) in row["measures"].items() if bottom},
        "found": [item.label or item.id for item in ranked],
        "asked": [_messages(one.prompt) for one in asked],
    }


def _right(measures: Mapping[str, tuple[float, float]]) -> int | None:
    """1 or 0 for right or wrong, None if no measure tells."""
    name = next((name for name in (*RIGHT, *measures) if name in measures), None)
    if name is None or not measures[name][1]:
        return None
    return int(measures[name][0] == measures[name][1])


def _messages(prompt: str | None) -> list[list[str]]:
    """A prompt as (role, text) pairs."""
    if prompt is None:
        return [["", LICENSED]]
    parts = json.loads(prompt)
    if parts and isinstance(parts[0], dict):
        return [[message["role"], message["content"]] for message in parts]
    return [["context", parts[0]], ["continuation", parts[1]]]


def _shared(value: Any, texts: dict[str, int]) -> Any:  # noqa: ANN401  # whatever JSON holds
    if isinstance(value, str):
        return {"t": texts.setdefault(value, len(texts))} if len(value) > SHARED else value
    if isinstance(value, dict):
        return {key: _shared(item, texts) for key, item in value.items()}
    return [_shared(item, texts) for item in value] if isinstance(value, list) else value


def _json(value: Any) -> str:  # noqa: ANN401
    """JSON for a script: without secrets, and without a way to end the script."""
    return json.dumps(public(value), ensure_ascii=True, separators=(",", ":")).replace("</", "<\\/")
