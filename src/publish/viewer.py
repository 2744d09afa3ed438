"""The answer viewer's data: the rows of the table of answers with their prompts, as scripts of bounded size.

A page opened from the disk may load a script and may not fetch a file, so each script calls `ANSWERS`. A notebook has a
list of its questions, with which arm is right, and parts with what was asked and said, each loaded when it is needed.
"""

import json
import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import pandas as pd

from evaluation import answers, compare, figures
from evaluation.measures import Measures, measure_label, unit as unit_of
from helpers.requests import Row, Store
from publish.chapters import Chapter
from resources.settings import hide_secrets

PART: Final = 250_000  # characters of a part at most, unless one question alone has more
SHARED: Final = 60  # characters from which a text that occurs again is stored once for its part
LISTED: Final = 120  # characters of a question in the list
# an answer is marked by the first of these measures that it has; one without any, which was only timed, is not scored
QUALITY: Final = (
    "accuracy",
    "correct",
    "exact",
    "right",
    "answer_found",
    "f1",
    "pairs_f1",
    "labels_f1",
    "facts_f1",
)
RANKING: Final = ("mrr", "MRR", "ndcg", "nDCG@10", "correctness", "rating", "cosine")
# how an answer came about, and parts of its mark
INTERNAL: Final = {
    "sensitivity",
    "specificity",
    "handed",
    "left_out_characters",
    "shown_characters",
    "llm_seconds",
}
LICENSED: Final = "[text withheld by its licence]"


def arms(chapter: Chapter) -> set[str]:
    """The arms of a chapter whose answers the viewer has; empty if there are none."""
    if chapter.record is None or chapter.record.sample:
        return set()
    return {
        path.stem for path in answers.newest(chapter.name, chapter.record.profile).glob("*.parquet")
    }


def rows(chapter: Chapter) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """The rows of a chapter that has `arms`, and those of other models; the last chapter's are kept in memory."""
    profile = chapter.record.profile if chapter.record else ""
    return _rows(answers.newest(chapter.name, profile), chapter.name, profile)


@lru_cache(maxsize=1)
def _rows(
    newest: Path, notebook: str, profile: str
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    return answers.read(newest), compare.others(notebook, profile)


def link(
    notebook: str, arm: str = "", against: str = "", *, model: str = "", text: str = ""
) -> str:
    """The viewer's address for an experiment, an arm or two side by side, of one model, of rows that contain a text."""
    chosen = [
        ("nb", notebook),
        ("arm", arm),
        ("against", against),
        ("model", model),
        ("text", text),
    ]
    return "answers.html#" + urlencode(
        [of for of in chosen if of[1]], quote_via=quote, errors="replace"
    )


def scripts(chapter: Chapter, store: Store) -> tuple[dict[str, Any], dict[str, str]]:
    """What the index says of a chapter that has `arms`, and its scripts by their names below the site."""
    own, others = rows(chapter)
    every = pd.concat([own, *others.values()])
    prompts = store.get(key for keys in every.requests for key in keys)
    labels = chapter.record.arms if chapter.record else {}
    names = {
        arm: labels.get(arm) or figures.ARMS.get(arm, (arm.replace("_", " "),))[0]
        for arm in every.arm.unique()
    }
    models = sorted(set(every.model) - {""})
    name, groups, units, written = _script(chapter.name), dict[str, int](), [], {}
    graded = {
        name
        for of in every.measures
        for name, (top, bottom) in of.items()
        if top not in (0, bottom)
    }
    for number, (part, in_part) in enumerate(_parts(_units(every, prompts, graded))):
        written[f"answers/{chapter.name}-{number}.js"] = (
            f"ANSWERS.part({name}, {number}, {part});\n"
        )
        units += [_listed(unit, number, [*names], models, groups) for unit in in_part]
    told = f"[{','.join(groups)}], {_script(units)}"
    written[f"answers/{chapter.name}.js"] = f"ANSWERS.list({name}, {told});\n"
    one = {"name": chapter.name, "title": chapter.title, "paper": chapter.paper}
    return {**one, "arms": names, "models": models}, written


def index(listed: list[dict[str, Any]]) -> dict[str, str]:
    """The script that lists the notebooks."""
    return {"answers/index.js": f"ANSWERS.index({_script(hide_secrets(listed))});\n"}


def _units(
    every: pd.DataFrame, prompts: Mapping[str, Row], graded: set[str]
) -> list[dict[str, Any]]:
    """The questions with all that was asked and said, without secrets; `graded` are measures that are not 0 or 1."""
    of_unit: dict[tuple[str, ...], list[dict[Any, Any]]] = {}
    for row in every.to_dict("records"):
        of_unit.setdefault((row["task"], row["split"], row["unit"]), []).append(row)
    units = []
    for of in of_unit.values():
        first = of[0]
        shared = {
            "id": first["unit"],
            **{name: first[name] for name in ("task", "split", "strata")},
        }
        shared["question"] = LICENSED if first["question"] is None else first["question"]
        answered = [_answer(row, prompts, graded) for row in sorted(of, key=_place)]
        units.append({**shared, "gold": first["gold"], "rows": answered})
    return hide_secrets(units)


def _parts(waiting: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The questions of a notebook in parts {texts, units}, as JSON and as a dictionary; {"t": 3} means texts[3]."""
    while waiting:
        texts: dict[str, int] = {}
        written: list[str] = []
        size = 0
        while size <= PART and len(written) < len(waiting):
            known = len(texts)
            written.append(_script(_shared(waiting[len(written)], texts)))
            size += len(written[-1]) + sum(map(len, [*texts][known:]))
        part = f'{{"texts": {_script(list(texts))}, "units": [{", ".join(written)}]}}'
        yield part, waiting[: len(written)]
        waiting = waiting[len(written) :]


def _listed(
    unit: Mapping[str, Any], part: int, arms: list[str], models: list[str], groups: dict[str, int]
) -> list[Any]:
    """A question in the list: what it shares with others as the number of its group, then the score of each answer.

    A group is (task, split, strata, wording, arm and model of each answer). Answers that judge or were only timed are
    left out.
    """
    strata = "; ".join(f"{name}: {value}" for name, value in unit["strata"].items())
    said = [
        row
        for row in unit["rows"]
        if not row["of"] and not (row["repeat"] and row["score"] is None)
    ]
    by = [
        [arms.index(row["arm"]), models.index(row["model"]) if row["model"] else -1] for row in said
    ]
    question = unit["question"][:LISTED]
    wording = _wording(unit["id"], question)
    group = groups.setdefault(
        _script([unit["task"], unit["split"], strata, wording, by]), len(groups)
    )
    unparsed = [at for at, row in enumerate(said) if "unparsed" in row["flags"]]
    return [
        unit["id"],
        group,
        "" if wording else question,
        part,
        [row["score"] for row in said],
        unparsed,
    ]


def _wording(id: str, question: str) -> str:
    """The question with {0}, {1} ... for the parts of its identifier; "" if it does not name each."""
    parts = id.split(" | ")
    if question == LICENSED:
        return question
    if not all(parts) or "{" in question or not all(part in question for part in parts):
        return ""
    longest = sorted(parts, key=len, reverse=True)
    return re.sub(
        "|".join(map(re.escape, longest)), lambda found: f"{{{parts.index(found[0])}}}", question
    )


def _place(row: Mapping[str, Any]) -> tuple[int, str, str, int, str]:
    """Where a row comes: arms in the book's order, each with what judges it and its repetitions."""
    order, arm = [*figures.ARMS], row["of"] or row["arm"]
    return (
        order.index(arm) if arm in order else len(order),
        arm,
        row["of"],
        row["repeat"],
        row["model"],
    )


def _answer(row: Mapping[str, Any], prompts: Mapping[str, Row], graded: set[str]) -> dict[str, Any]:
    measures: Measures = {
        name: (top, bottom) for name, (top, bottom) in row["measures"].items() if bottom
    }
    by = next((name for name in (*QUALITY, *RANKING) if name in measures), "")
    units = {name: unit_of(name).replace("fraction", "ratio") for name in measures}
    shown = {
        name: figures.number(top / bottom, units[name]) for name, (top, bottom) in measures.items()
    }
    ranked = sorted((item for item in row["items"] if item.rank), key=lambda item: item.rank)
    return {
        **{name: row[name] for name in ("arm", "model", "of", "repeat")},
        "said": LICENSED if row["answer"] is None and row["requests"] else row["answer"],
        "read": row["predicted"] if row["parsed"] else None,
        "score": _short(measures[by][0] / measures[by][1]) if by else None,
        "mark": f"{measure_label(by)} {shown[by]}"
        if by in graded
        else "timed" * (not by and row["repeat"] > 0),
        "flags": [name for name in ("cut", "overflow") if row[name]]
        + ([] if row["parsed"] else ["unparsed"]),
        "measures": [
            f"{measure_label(name)} {value}"
            for name, value in shown.items()
            if name not in INTERNAL
        ],
        "found": [item.label or item.id for item in ranked],
        "asked": [_messages(prompts[key].prompt) for key in row["requests"] if key in prompts],
    }


def _short(score: float) -> float:
    return int(score) if score in (0, 1) else round(score, 4)


def _messages(prompt: str | None) -> list[list[str]]:
    """A prompt as (role, text) pairs."""
    if prompt is None:
        return [["", LICENSED]]
    parts = json.loads(prompt)
    if isinstance(parts, str):
        return [["text", parts]]
    if parts and isinstance(parts[0], dict):
        return [[message["role"], message["content"]] for message in parts]
    return [["context", parts[0]], ["continuation", parts[1]]]


def _shared(value: Any, texts: dict[str, int]) -> Any:  # noqa: ANN401  # whatever JSON holds
    if isinstance(value, str):
        return {"t": texts.setdefault(value, len(texts))} if len(value) > SHARED else value
    if isinstance(value, dict):
        return {key: _shared(item, texts) for key, item in value.items()}
    return [_shared(item, texts) for item in value] if isinstance(value, list) else value


def _script(value: Any) -> str:  # noqa: ANN401
    """JSON without a way to end the script that it stands in."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("</", "<\\/")
