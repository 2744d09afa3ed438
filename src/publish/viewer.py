"""The answer viewer's data: rows of the table of answers with their prompts, as scripts.

A page opened from the disk may load a script and may not fetch a file, so each script calls
`ANSWERS`. A notebook has a list of its questions with the scores of each arm. The names of the
questions, and what was asked and said, are in parts of bounded size, which load when needed.
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, Final, cast

import pandas as pd

from evaluation import answers, compare, figures
from evaluation.measures import Measures, measure_label, unit as unit_of
from helpers.requests import Row, Store
from helpers.thoughts import split_thought
from publish.chapters import Chapter
from resources.settings import hide_secrets, run_name

PART: Final = 250_000
"""Characters of a part at most, unless one question alone has more."""
NAMES: Final = 500
"""Questions whose names are in one script."""
SHARED: Final = 24
"""Characters from which a text that occurs again is stored once for its part."""
LISTED: Final = 120
"""Characters of a question in the list."""
# an answer is marked by the first of these measures that it has; one without any, which was only
# timed, is not scored
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
# an answer's own measure goes before a judge's mark, which only some of the answers have
RANKING: Final = ("mrr", "MRR", "ndcg", "nDCG@10", "cosine", "correctness", "rating")
# where nothing else was measured, as of the passages that the authors' judge marked
PARTIAL: Final = ("precision", "recall")
# how an answer came about, and parts of its mark
INTERNAL: Final = {
    "sensitivity",
    "specificity",
    "handed",
    "left_out_characters",
    "shown_characters",
    "llm_seconds",
}
PROBABILITY: Final = "p_yes"
OF_SETS: Final = {"f1", "precision"}
"""Measures that an answer has where it is a set."""
EMPTY: Final[tuple[object, ...]] = (None, "", [], {})
"""Values of an answer's fields that are not written; 0 is a score."""
LICENSED: Final = "[text withheld by its licence]"


def arms(chapter: Chapter) -> set[str]:
    """The arms of a chapter whose answers the viewer has; empty if there are none."""
    if chapter.record is None or chapter.record.sample:
        return set()
    return {
        path.stem for path in answers.newest(chapter.name, chapter.record.profile).glob("*.parquet")
    }


def rows(chapter: Chapter) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """Return the rows of a chapter that has `arms`, and those of other models.

    The last chapter's rows are kept in memory.
    """
    profile = chapter.record.profile if chapter.record else ""
    return _rows(answers.newest(chapter.name, profile), chapter.name, profile)


@lru_cache(maxsize=1)
def _rows(
    newest: Path, notebook: str, profile: str
) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    return answers.read(newest), compare.others(notebook, profile)


def scripts(chapter: Chapter, store: Store) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the viewer's data of a chapter that has `arms`.

    Returns:
        What the index says of the chapter, and its scripts by their names below the site.
    """
    own, others = rows(chapter)
    profile = chapter.record.profile if chapter.record else ""
    released = answers.read_released(chapter.name, run_name(profile))
    all_rows = pd.concat([own, *others.values(), released])
    prompts = store.get(key for keys in all_rows.requests for key in keys)
    names = _arm_names(chapter, all_rows)
    models = sorted(set(all_rows.model) - {""})
    questions = QuestionList([*names], models, _decisive_measures(chapter, all_rows))
    name = _script(chapter.name)
    files = {}
    units = _units(all_rows, prompts, _graded_measures(all_rows))
    for number, (part, units_of_part) in enumerate(_parts(units)):
        files[f"answers/{chapter.name}-{number}.js"] = f"ANSWERS.part({name}, {number}, {part});\n"
        for unit in units_of_part:
            questions.add(unit, number)
    files |= questions.scripts(chapter.name)
    entry = {
        "name": chapter.name,
        "title": chapter.title,
        "paper": chapter.paper,
        "arms": names,
        "models": models,
        "first": _first_model(own),
        "marks": _marks(all_rows),
        "measures": {name: measure_label(name) for name in sorted(questions.measures)},
        "withheld": bool(all_rows.question.isna().any()),
    }
    return entry, files


def _marks(all_rows: pd.DataFrame) -> list[str]:
    """Return the measures that mark answers."""
    return sorted({_main_measure(measures) for measures in all_rows.measures} - {""})


def _decisive_measures(chapter: Chapter, all_rows: pd.DataFrame) -> set[str]:
    """Return the measures that what decides a claim of the chapter names."""
    hidden = INTERNAL | {PROBABILITY}
    measured = {name for measures in all_rows.measures for name in measures}
    names = {name for name in measured - hidden if unit_of(name) == "fraction"}
    if chapter.record is None:
        return set()
    findings = [*chapter.record.claims, *chapter.record.here_findings]
    estimates = list(chain.from_iterable(finding.estimates for finding in findings))
    stated = {estimate.measure for estimate in estimates}
    labels = {estimate.label for estimate in estimates}
    in_words = chain.from_iterable(measures_in_words(label, names) for label in labels)
    return names.intersection(stated).union(in_words)


def measures_in_words(words: str, names: Iterable[str]) -> list[str]:
    """Return the measures with the longest label that stands in a text; several may have it."""
    by_label: dict[str, list[str]] = {}
    for name in names:
        label = re.escape(measure_label(name).lower())
        if re.search(rf"(?<!\w){label}(?!\w)", words.lower()):
            by_label.setdefault(label, []).append(name)
    return sorted(by_label[max(by_label, key=len)]) if by_label else []


def _first_model(own: pd.DataFrame) -> str:
    """Return the model whose view opens first: the one with most answers of a run.

    It is "" if that model was asked fewer than half of the questions: the view would leave out
    most answers, which were found without a model.
    """
    answered = own.model[own.model != ""].value_counts()
    if answered.empty:
        return ""
    model = str(answered.index[0])
    question = ["task", "split", "unit"]
    n_asked = len(own.loc[own.model == model, question].drop_duplicates())
    n_questions = len(own[question].drop_duplicates())
    return model if 2 * n_asked >= n_questions else ""


def _arm_names(chapter: Chapter, all_rows: pd.DataFrame) -> dict[str, str]:
    """Return the words for each arm: the record's, or else those of all figures."""
    labels = chapter.record.arms if chapter.record else {}
    names = {}
    for arm in all_rows.arm.unique():
        common_name = figures.ARMS.get(arm, (arm.replace("_", " "),))[0]
        names[arm] = labels.get(arm) or common_name
    return names


def _graded_measures(all_rows: pd.DataFrame) -> set[str]:
    """Return the measures that have other values than 0 and 1."""
    graded = set()
    for measures in all_rows.measures:
        graded |= {name for name, (top, bottom) in measures.items() if top not in (0, bottom)}
    return graded


def index(listed: list[dict[str, Any]]) -> dict[str, str]:
    """The script that lists the notebooks."""
    return {"answers/index.js": f"ANSWERS.index({_script(hide_secrets(listed))});\n"}


@dataclass
class QuestionList:
    """The list of a notebook's questions.

    What a question shares with others is stored once, as its group: task, split, strata, wording,
    and arm and model of each answer. So are the scores that the answers to several questions have.
    """

    arms: list[str]
    models: list[str]
    measures: Collection[str] = ()
    """The measures whose values are listed."""
    groups: dict[str, int] = field(default_factory=dict)
    """Number of each group, by its JSON."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Number of each outcome, by its JSON: group, scores, unparsed answers, and the values of each
    measure, or 0 where these are the scores."""
    entries: list[int] = field(default_factory=list)
    """Outcome of each question."""
    parts: list[int] = field(default_factory=list)
    """Number of questions in each part."""
    names: list[list[str]] = field(default_factory=list)
    """Identifier of each question, and its text if the group does not have it."""

    def add(self, unit: Mapping[str, Any], part: int) -> None:
        """Add a question, with answers that neither judge nor were only timed.

        Args:
            unit: The question as `_units` gives it.
            part: Number of the part that has all of it; the parts come in their order.
        """
        answered = [row for row in unit["rows"] if _is_listed(row)]
        question = _shortened(unit["question"])
        wording = _wording(unit["id"], question)
        sources = [self._source(row) for row in answered]
        group = _script([unit["task"], unit["split"], unit["strata"], wording, sources])
        scores = [row["score"] for row in answered]
        unparsed = [i for i, row in enumerate(answered) if "unparsed" in row["flags"]]
        measured = self._measured(answered, scores)
        outcome = _script([_number(group, self.groups), scores, unparsed, measured])
        self.entries.append(_number(outcome, self.outcomes))
        self.names.append([unit["id"]] if wording else [unit["id"], question])
        self.parts += [0] * (part + 1 - len(self.parts))
        self.parts[part] += 1

    def scripts(self, notebook: str) -> dict[str, str]:
        """Return the script of the list and those of the names, by their names below the site."""
        name = _script(notebook)
        groups, outcomes = ",".join(self.groups), ",".join(self.outcomes)
        counts = f"{_script(self.entries)}, {_script(self.parts)}, {NAMES}"
        listed = f"ANSWERS.list({name}, [{groups}], [{outcomes}], {counts});\n"
        files = {f"answers/{notebook}.js": listed}
        for number, start in enumerate(range(0, len(self.names), NAMES)):
            names = _script(self.names[start : start + NAMES])
            script = f"ANSWERS.names({name}, {number}, {names});\n"
            files[f"answers/{notebook}-names-{number}.js"] = script
        return files

    def _source(self, row: Mapping[str, Any]) -> list[Any]:
        """Return the places of an answer's arm and model in their lists; -1 is no model.

        Strata that the answer has and its question has not come after them.
        """
        model = self.models.index(row["model"]) if row["model"] else -1
        own = row.get("strata")
        return [self.arms.index(row["arm"]), model, *([own] if own else [])]

    def _measured(
        self, answered: list[Mapping[str, Any]], scores: list[float | None]
    ) -> dict[str, Any]:
        """Return the values of the answers by measure; 0 stands for values that are the scores."""
        names = {name for row in answered for name in row.get("values", {})}
        measured: dict[str, Any] = {}
        for name in sorted(names & {*self.measures}):
            values = [row.get("values", {}).get(name) for row in answered]
            measured[name] = 0 if values == scores else values
        return measured


def _number(text: str, numbers: dict[str, int]) -> int:
    """Return the number of a text, which gets one if it is new."""
    return numbers.setdefault(text, len(numbers))


def _is_listed(row: Mapping[str, Any]) -> bool:
    """Whether an answer neither judges another one nor was only timed."""
    was_only_timed = row["repeat"] and row["score"] is None
    return not row["of"] and not was_only_timed


def _units(
    all_rows: pd.DataFrame, prompts: Mapping[str, Row], graded: set[str]
) -> list[dict[str, Any]]:
    """Return the questions with all that was asked and said, without secrets.

    Args:
        all_rows: Rows of every model.
        prompts: Stored requests by key.
        graded: Measures that have other values than 0 and 1.
    """
    rows_by_unit: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in cast("list[dict[str, Any]]", all_rows.to_dict("records")):
        rows_by_unit.setdefault((row["task"], row["split"], row["unit"]), []).append(row)
    units = []
    for unit_rows in rows_by_unit.values():
        first = unit_rows[0]
        ordered = sorted(unit_rows, key=_order)
        strata = _common_strata(unit_rows)
        answers_shown = []
        for row in ordered:
            own = {name: value for name, value in row["strata"].items() if name not in strata}
            shown: dict[str, Any] = {**row, "strata": own}
            answers_shown.append(_answer(shown, prompts, graded))
        unit = {
            "id": first["unit"],
            "task": first["task"],
            "split": first["split"],
            "strata": strata,
            "question": LICENSED if first["question"] is None else first["question"],
            "gold": first["gold"],
            "rows": answers_shown,
        }
        units.append(unit)
    return hide_secrets(units)


def _common_strata(unit_rows: list[dict[Any, Any]]) -> dict[str, str]:
    """Return the strata of a question: those of which no two of its rows have different values."""
    values: dict[str, set[str]] = {}
    for row in unit_rows:
        for name, value in row["strata"].items():
            values.setdefault(name, set()).add(value)
    return {name: min(each) for name, each in values.items() if len(each) == 1}


def _parts(units: list[dict[str, Any]]) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Yield the questions of a notebook in parts {texts, units}.

    Yields:
        A part as JSON, in which {"t": 3} means texts[3], and its questions.
    """
    remaining = units
    while remaining:
        texts: dict[str, int] = {}
        written: list[str] = []
        size = 0
        while size <= PART and len(written) < len(remaining):
            n_known = len(texts)
            unit = _shared(_without_empty(remaining[len(written)]), texts)
            written.append(_script(unit))
            new_texts = list(texts)[n_known:]
            size += len(written[-1]) + sum(map(len, new_texts))
        part = f'{{"texts": {_script(list(texts))}, "units": [{", ".join(written)}]}}'
        yield part, remaining[: len(written)]
        remaining = remaining[len(written) :]


def _without_empty(unit: Mapping[str, Any]) -> dict[str, Any]:
    """Return a question whose answers lack what is empty; `viewer.js` puts it back."""
    rows = []
    for row in unit["rows"]:
        filled = {name: value for name, value in row.items() if value not in EMPTY}
        filled.pop("values", None)  # only the list needs them
        rows.append(filled)
    return {**unit, "rows": rows}


def _wording(identifier: str, question: str) -> str:
    """Return the question with {0}, {1} ... for the parts of its identifier.

    It is "" if the question does not name each part.
    """
    parts = identifier.split(" | ")
    if question == LICENSED:
        return question
    names_each = all(part and part in question for part in parts)
    if not names_each or "{" in question:
        return ""
    longest = sorted(parts, key=len, reverse=True)
    pattern = "|".join(map(re.escape, longest))
    return re.sub(pattern, lambda match: f"{{{parts.index(match[0])}}}", question)


def _shortened(question: str) -> str:
    """Return a question for the list, which ends with a whole word."""
    if len(question) <= LISTED:
        return question
    words = question[:LISTED].rpartition(" ")[0] or question[:LISTED]
    return f"{words} \N{HORIZONTAL ELLIPSIS}"


def with_parts(wording: str, identifier: str) -> str:
    """Return the question of a wording, with the parts of its identifier; see `_wording`."""
    parts = identifier.split(" | ")
    return re.sub(r"\{(\d+)\}", lambda match: parts[int(match[1])], wording)


def _order(row: Mapping[str, Any]) -> tuple[int, str, str, int, str]:
    """Sort rows by arm in the book's order, each with what judges it and its repetitions."""
    arms_in_order = list(figures.ARMS)
    arm = row["of"] or row["arm"]
    position = arms_in_order.index(arm) if arm in arms_in_order else len(arms_in_order)
    return position, arm, row["of"], row["repeat"], row["model"]


def _answer(row: Mapping[str, Any], prompts: Mapping[str, Row], graded: set[str]) -> dict[str, Any]:
    """Return an answer as the viewer shows it."""
    measures = _scored_measures(row)
    texts = {name: _measure_text(name, top / bottom) for name, (top, bottom) in measures.items()}
    main_measure = _main_measure(measures)
    score = None
    if main_measure:
        top, bottom = measures[main_measure]
        score = _short(top / bottom)
    mark = _mark(row, texts.get(main_measure, ""), is_graded=main_measure in graded)
    asked_prompts = [prompts[key].prompt for key in row["requests"] if key in prompts]
    of_sets = OF_SETS - graded  # of a single YES or NO they say nothing
    hidden = INTERNAL | of_sets | {main_measure}
    if _is_released(row):
        hidden |= {PROBABILITY}  # which restates a released YES or NO
    other_texts = [text for name, text in texts.items() if name not in hidden]
    return {
        "arm": row["arm"],
        "model": row["model"],
        "of": row["of"],
        "repeat": row["repeat"],
        **_reply(row),
        "score": score,
        "mark": mark,
        "flags": _flags(row),
        "measures": other_texts,
        "strata": row["strata"],
        "values": {name: _short(top / bottom) for name, (top, bottom) in measures.items()},
        "found": _ranked_items(row),
        "asked": [_messages(prompt) for prompt in asked_prompts],
    }


def _is_released(row: Mapping[str, Any]) -> bool:
    """Whether the authors of the paper released an answer."""
    return str(row.get("model", "")).startswith(answers.RELEASED_MODEL)


def _mark(row: Mapping[str, Any], score_text: str, *, is_graded: bool) -> str:
    """Return the word for an answer, or "" where right or wrong says it."""
    if not row["parsed"]:
        # a default that stands for what could not be read may happen to be right
        return "unparsed"
    if is_graded:
        return score_text
    return "timed" if not score_text and row["repeat"] > 0 else ""


def _scored_measures(row: Mapping[str, Any]) -> Measures:
    """Return the measures of a row that have a value."""
    measures = row["measures"].items()
    return {name: (top, bottom) for name, (top, bottom) in measures if bottom}


def _main_measure(measures: Measures) -> str:
    """Return the measure by which an answer is marked, or ""."""
    for name in (*QUALITY, *RANKING, *PARTIAL):
        if name in measures:
            return name
    return ""


def _ranked_items(row: Mapping[str, Any]) -> list[str]:
    """Return what was retrieved, best first."""
    items = [item for item in row["items"] if item.rank]
    items.sort(key=lambda item: item.rank)
    return [item.label or item.id for item in items]


def _measure_text(name: str, value: float) -> str:
    unit = unit_of(name).replace("fraction", "ratio")
    return f"{measure_label(name)} {figures.number(value, unit)}"


def _reply(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was said, and what was read from it."""
    is_withheld = row["answer"] is None and row["requests"]
    reply = split_thought(row["answer"] or "")
    text = row["answer"] and reply.answer.strip()
    return {
        "said": LICENSED if is_withheld else text,
        "thought": reply.thought.strip(),
        "read": row["predicted"] if row["parsed"] else None,
    }


def _flags(row: Mapping[str, Any]) -> list[str]:
    flags = [name for name in ("cut", "overflow") if row[name]]
    if not row["parsed"]:
        flags.append("unparsed")
    return flags


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
    """Return a value whose long texts are numbers of `texts`, to which new ones are added."""
    if isinstance(value, dict):
        return {key: _shared(item, texts) for key, item in value.items()}
    if isinstance(value, list):
        return [_shared(item, texts) for item in value]
    if isinstance(value, str) and len(value) > SHARED:
        return {"t": texts.setdefault(value, len(texts))}
    return value


def _script(value: Any) -> str:  # noqa: ANN401
    """JSON without a way to end the script that it stands in."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("</", "<\\/")
