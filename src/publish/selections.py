"""Which questions the answer viewer shows for a link, as `viewer.js` selects them.

A link is written only to what has rows, and says how many questions it opens.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any, Final

from evaluation import book_links, evidence, formats
from evaluation.markup import Markup
from evaluation.measures import measure_words
from publish import viewer

DIFFERENT: Final = "disagree"
"""Shows the questions to which the answers have different scores."""
WRONG: Final = "wrong"
"""Shows the questions with an answer that was read and scores less than 1."""
_FLOOR: Final = "(floor)"
"""What the label of an arm ends with that answers without looking at the question."""


@dataclass(frozen=True)
class Selection:
    """The filters of a link to the viewer; an empty one selects everything.

    Of what `show` may be, links use `DIFFERENT`, `WRONG` and "".

    Attributes:
        rows: Strata, or the task, and their accepted values; see `conditions_text`.
        measure: Only the answers that have this measure, whose values are then the scores.
    """

    arm: str = ""
    against: str = ""
    model: str = ""
    show: str = ""
    text: str = ""
    rows: str = ""
    measure: str = ""

    def address(self, notebook: str) -> str:
        """Return the address of the page that applies the filters to an experiment."""
        return book_links.answers_address(
            notebook,
            self.arm,
            self.against,
            model=self.model,
            text=self.text,
            show=self.show,
            rows=self.rows,
            measure=self.measure,
        )


@dataclass(frozen=True)
class Selected:
    """How many questions a selection shows, and of how many of them the text is shown."""

    questions: int
    readable: int

    def words(self, selection: Selection) -> str:
        """Return the name of a link to these questions, which says how many they are."""
        return f"see the {self._named(selection)}{self._withheld()}"

    def words_of_arms(self, selection: Selection, labels: Mapping[str, str]) -> str:
        """Return the name of a link to these questions, which says whose answers they have.

        Their number need not be that of the claim, which may rest on several such comparisons.
        """
        labelled = [labels[arm] for arm in (selection.arm, selection.against) if arm]
        arms = formats.quoted_names(labelled)
        if selection.show == DIFFERENT:
            words = f"see where {formats.listed(arms) or 'the answers'} differ"
        else:
            kind = "wrong answers" if selection.show == WRONG else "answers"
            words = f"see the {kind}{' of ' if arms else ''}{formats.listed(arms)}"
        measure = [measure_words(selection.measure)] if selection.measure else []
        limits = "; ".join([*_rows_in_words(selection.rows), *measure])
        return f"{words}{f' ({limits})' if limits else ''}{self._withheld()}"

    def _named(self, selection: Selection) -> str:
        plural = "" if self.questions == 1 else "s"
        count = "" if self.questions == 1 else f"{self.questions:,} "
        if selection.show == DIFFERENT:
            return f"{count}question{plural} where they differ"
        if selection.show == WRONG:
            return f"{count}wrong answer{plural}"
        if selection.arm and not selection.against:
            return f"{count}answer{plural}"
        return f"{count}question{plural} with all answers"

    def _withheld(self) -> str:
        if self.readable == self.questions:
            return ""
        if not self.readable:
            return ", texts withheld by licence"
        return f", {self.readable:,} of them readable"


@dataclass(frozen=True)
class ListedAnswer:
    """An answer in the viewer's list: who gave it, and its score."""

    arm: str
    model: str
    score: float | None
    is_unparsed: bool = False
    strata: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Question:
    """A question in the viewer's list."""

    task: str
    text: str
    is_readable: bool
    answers: tuple[ListedAnswer, ...]
    strata: Mapping[str, str] = field(default_factory=dict)


@dataclass
class QuestionLists:
    """The questions of an experiment, as the viewer lists them.

    Attributes:
        entry: What the index says of the experiment.
        scripts: The viewer's scripts of the experiment, by their names.
    """

    entry: Mapping[str, Any]
    scripts: Mapping[str, str]
    _selected: dict[Selection, Selected] = field(default_factory=dict)

    @cached_property
    def questions(self) -> list[Question]:
        """The questions, in the order of the list."""
        file = f"answers/{self.entry['name']}"
        _, groups, outcomes, entries, _, n_names = _values(self.scripts[f"{file}.js"])
        names: list[list[str]] = []
        for number in range(math.ceil(len(entries) / n_names)):
            names += _values(self.scripts[f"{file}-names-{number}.js"])[2]
        questions = []
        for entry, name in zip(entries, names, strict=True):
            group, *outcome = outcomes[entry]
            questions.append(self._question(groups[group], name, outcome))
        return questions

    def _question(self, group: list[Any], name: list[str], outcome: list[Any]) -> Question:
        scores, unparsed, measured = outcome
        task, _, strata, wording, sources = group
        words = name[1] if len(name) > 1 else viewer.with_parts(wording, name[0])
        arms = list(self.entry["arms"])
        models = [*self.entry["models"], ""]  # -1 is no model
        answers = []
        for place, (arm, model, *own) in enumerate(sources):
            values = {}
            for measure, listed in measured.items():
                value = (listed or scores)[place]
                if value is not None:
                    values[measure] = value
            answer = ListedAnswer(
                arms[arm],
                models[model],
                scores[place],
                is_unparsed=place in unparsed,
                strata=own[0] if own else {},
                values=values,
            )
            answers.append(answer)
        groups = "; ".join(f"{stratum}: {value}" for stratum, value in strata.items())
        searched = f"{name[0]} {words} {groups} {task}".lower()
        is_readable = words != viewer.LICENSED
        return Question(task, searched, is_readable, tuple(answers), {**strata, "task": task})

    @property
    def measures(self) -> set[str]:
        """The measures whose values are listed."""
        return set(self.entry.get("measures", ()))

    @cached_property
    def strata(self) -> dict[str, list[str]]:
        """The values of each stratum, and of the task, that questions or answers have."""
        values: dict[str, dict[str, None]] = {}
        for question in self.questions:
            for strata in (question.strata, *(answer.strata for answer in question.answers)):
                for name, value in strata.items():
                    values.setdefault(name, {})[value] = None
        return {name: list(each) for name, each in values.items()}

    @property
    def marks(self) -> set[str]:
        """The measures that mark answers; empty if they are unknown."""
        return set(self.entry.get("marks", ()))

    @cached_property
    def tasks(self) -> list[str]:
        """The corpora or sub-tasks of the questions."""
        return sorted({question.task for question in self.questions} - {""})

    def select(self, selection: Selection) -> Selected:
        """Count the questions that the viewer shows for these filters."""
        if selection not in self._selected:
            shown = [question for question in self.questions if _is_shown(question, selection)]
            readable = sum(question.is_readable for question in shown)
            self._selected[selection] = Selected(len(shown), readable)
        return self._selected[selection]

    def first_with_rows(
        self, selections: Iterable[Selection]
    ) -> tuple[Selection, Selected] | tuple[None, None]:
        """Return the first of these selections that shows questions, with their number."""
        for selection in selections:
            selected = self.select(selection)
            if selected.questions:
                return selection, selected
        return None, None

    def is_at_floor(self, arm: str, model: str) -> bool:
        """Whether an arm is right no more often than one that does not look at the question."""
        floors = [name for name, label in self.entry["arms"].items() if label.endswith(_FLOOR)]
        scores = dict.fromkeys((arm, *floors), 0.0)
        n_shared = 0
        for question in self.questions:
            by_arm = _scores_by_arm(question, model)
            if scores.keys() <= by_arm.keys():
                n_shared += 1
                scores = {name: total + by_arm[name] for name, total in scores.items()}
        if not (n_shared and floors):
            return False
        return scores[arm] <= max(scores[floor] for floor in floors)


def _scores_by_arm(question: Question, model: str) -> dict[str, float]:
    """Return the score of each arm on a question, by a model or by none."""
    scores = {}
    for answer in question.answers:
        if answer.score is not None and answer.model in ("", model):
            scores[answer.arm] = answer.score
    return scores


def _chosen(question: Question, selection: Selection) -> list[ListedAnswer]:
    """Return the answers of a question by the arms and the model that are selected."""
    arms = {selection.arm, selection.against} if selection.arm else {""}
    conditions = conditions_of(selection.rows)
    chosen = []
    for answer in question.answers:
        is_by_arm = arms == {""} or answer.arm in arms
        is_by_model = selection.model in ("", answer.model or selection.model)
        if not (is_by_arm and is_by_model and _meets(question, answer, conditions)):
            continue
        if not selection.measure:
            chosen.append(answer)
        elif selection.measure in answer.values:
            chosen.append(replace(answer, score=answer.values[selection.measure]))
    return chosen


def _meets(
    question: Question, answer: ListedAnswer, conditions: Mapping[str, Sequence[str]]
) -> bool:
    """Whether an answer has an accepted value of each stratum."""
    for name, values in conditions.items():
        if answer.strata.get(name, question.strata.get(name)) not in values:
            return False
    return True


def conditions_text(conditions: Mapping[str, Sequence[str]]) -> str:
    """Write strata and their accepted values as `viewer.js` reads them."""
    return "; ".join(f"{name}: {' | '.join(values)}" for name, values in conditions.items())


@lru_cache
def conditions_of(text: str) -> dict[str, list[str]]:
    """Return the strata and values that `conditions_text` wrote."""
    conditions = {}
    for condition in text.split("; ") if text else []:
        name, _, values = condition.partition(": ")
        conditions[name] = values.split(" | ")
    return conditions


def _rows_in_words(text: str) -> list[str]:
    """Return the conditions for a reader: of the task its value alone, of an empty one nothing."""
    words = []
    for name, values in conditions_of(text).items():
        readable = [value.replace("_", " ") for value in values]
        if len(readable) > 1:
            readable = [formats.quoted(value) for value in readable]
        named = " or ".join(readable)
        if any(values):
            words.append(named if name == "task" else f"{name}: {named}")
    return words


def _was_asked(answers: list[ListedAnswer], selection: Selection) -> bool:
    """Whether a question with these answers was put to the arms and the model selected."""
    if selection.arm:
        arms = {selection.arm, selection.against} - {""}
        return arms <= {answer.arm for answer in answers}
    return any(selection.model in ("", answer.model) for answer in answers)


def _is_shown(question: Question, selection: Selection) -> bool:
    """Whether the viewer shows a question for these filters."""
    answers = _chosen(question, selection)
    words = selection.text.lower().split()
    if not _was_asked(answers, selection) or not all(word in question.text for word in words):
        return False
    if selection.show == DIFFERENT:
        return len({answer.score for answer in answers}) > 1
    if selection.show == WRONG:
        return any(_is_wrong(answer) for answer in answers)
    return True


def _is_wrong(answer: ListedAnswer) -> bool:
    """Whether an answer was read and is not wholly right."""
    return answer.score is not None and answer.score < 1 and not answer.is_unparsed


def _values(script: str) -> list[Any]:
    """Return what a script of the viewer calls its function with."""
    values: list[Any] = json.loads(f"[{script.partition('(')[2].rpartition(')')[0]}]")
    return values


def link(notebook: str, selection: Selection, words: str) -> Markup:
    """Return a link to what is selected."""
    return Markup('<a href="{}">{}</a>').format(selection.address(notebook), words)


def linked(verdict: Markup, notebook: str, selection: Selection, words: str) -> Markup:
    """Return a verdict that leads to what is selected; a pointer on it shows what that is."""
    return Markup('<a class="rag-to-rows" href="{}" title="{}">{}</a>').format(
        selection.address(notebook), evidence.sentence_case(words), verdict
    )
