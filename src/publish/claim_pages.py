"""What the pages say of claims by the answers to both questions, and of the papers' exhibits."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, Final, get_args

import pandas as pd

from evaluation import figures, trials
from evaluation.answers import RELEASED_MODEL, released_model
from evaluation.markup import Markup, escape, fine_print
from evaluation.published import Exhibit, Rule, Shown, published
from evaluation.verdicts import here_word, verdict_mark
from evaluation.vocabulary import TESTED, HereAnswer
from publish import pieces, selections, viewer
from publish.pieces import link_to, table
from publish.selections import QuestionLists, Selected, Selection

SCOREBOARD: Final = "scoreboard.html"
Conditions = dict[str, Sequence[str]]
"""Strata, and the task, with their accepted values."""


@dataclass(frozen=True)
class Question:
    """One of the two questions about a claim.

    Attributes:
        column: Column of the ledger that has its answer.
        title: The question, for a reader.
        words: Its answers, in the order of tables and pictures.
        anchor: Beginning of the ids of its lists.
        noun: What a count of one of its answers counts, for a reader.
    """

    column: str
    title: str
    words: tuple[str, ...]
    anchor: str
    noun: str

    def anchor_of(self, word: str, paper: str = "") -> str:
        """The id of the list of the claims with an answer, of one paper or of all."""
        parts = [self.anchor, word.replace(" ", "-"), paper.replace("_", "-")]
        return "-".join(part for part in parts if part)

    def label(self, word: str) -> str:
        """The word of a page for an answer."""
        return here_word(word) if self.column == "here_answer" else word

    def counts(self, claims: pd.DataFrame) -> list[int]:
        """How many claims have each answer; one without real data counts as the last word."""
        answers = claims[self.column].where(claims[self.column].isin(self.words), self.words[-1])
        return [int((answers == word).sum()) for word in self.words]

    def chosen(self, claims: pd.DataFrame, word: str) -> pd.DataFrame:
        """The claims with an answer."""
        answers = claims[self.column].where(claims[self.column].isin(self.words), self.words[-1])
        return claims[answers == word]


PAPER: Final = Question(
    "verdict",
    "Does it hold for the paper's system?",
    ("agrees", "differs", "inconclusive", "cannot be tested", "not tested"),
    "verdict",
    "claim",
)
HERE: Final = Question(
    "here_answer",
    "Does it hold here, with the models that ran?",
    get_args(HereAnswer),
    "here",
    "answer",
)
QUESTIONS: Final = (PAPER, HERE)
_ONE_OR_MANY: Final[Mapping[str, tuple[str, str]]] = {
    "agrees": ("agrees", "agree"),
    "differs": ("differs", "differ"),
    "inconclusive": ("is inconclusive", "are inconclusive"),
    "cannot be tested": ("cannot be tested", "cannot be tested"),
    "not tested": ("was not tested", "were not tested"),
    "with the claim": ("is with the claim", "are with the claim"),
    "against it": ("is against the claim", "are against the claim"),
    "not run": ("claim has no answer", "claims have no answer"),
}
"""What is said of one claim, and of several, by the answer."""


def balance(claims: pd.DataFrame) -> str:
    """Say how many claims have each answer to both questions; no count is zero.

    The first count of a question names what is counted. Verdicts that only printed numbers decide
    are counted apart. The book's own claims are about no paper's system.
    """
    is_own = (claims["paper"] == pieces.ACROSS).all()
    questions = (HERE,) if is_own else QUESTIONS
    texts = []
    for question in questions:
        counts: list[str] = []
        for word, count in zip(question.words, question.counts(claims), strict=True):
            if count:
                words = _ONE_OR_MANY[word][count > 1]
                if not counts and word != "not run":
                    words = f"{question.noun}{'s' * (count > 1)} {words}"
                counts.append(f"{count} {words}{_by_print(question, claims, word)}")
        texts.append(f"{question.title} {figures.listed(counts)}.")
    subject = f"each of {len(claims)} claims" if len(claims) > 1 else "one claim"
    questions_in_words = "one question" if is_own else "two questions"
    return f"We asked {questions_in_words} about {subject}. {' '.join(texts)}"


def _by_print(question: Question, claims: pd.DataFrame, word: str) -> str:
    """How many verdicts rest on printed numbers; empty for none, and for what is no verdict."""
    if question is not PAPER or word not in TESTED:
        return ""
    is_printed = question.chosen(claims, word)["basis"] == "printed"
    if not is_printed.any():
        return ""
    how_many = {1: "", 2: "both "}.get(len(is_printed), "all ")
    if not is_printed.all():
        how_many = f"{is_printed.sum()} "
    return f" ({how_many}by printed numbers alone)"


def counts_table(claims: pd.DataFrame, subjects: Mapping[str, str]) -> str:
    """Tabulate the answers to both questions by paper; each count links to its list.

    Args:
        claims: The ledger.
        subjects: The subject of each paper, in the order of the rows.
    """
    rows = []
    for paper, subject in subjects.items():
        of_paper = claims[claims["paper"] == paper]
        cells = {"Paper": f"{subject} ({len(of_paper)})", **_linked_counts(of_paper, paper)}
        rows.append(cells)
    rows.append({"Paper": f"all ({len(claims)})", **_linked_counts(claims, "")})
    caption = (
        'Number of claims by the answer to each question. The counts marked "here" answer '
        "whether a claim holds here, and the other counts answer whether it holds for the paper's "
        "system. A count opens its list"
    )
    return table(rows, caption, "rag-cards rag-counts")


def _linked_counts(claims: pd.DataFrame, paper: str) -> dict[str, Any]:
    cells: dict[str, Any] = {}
    for question in QUESTIONS:
        for word, count in zip(question.words, question.counts(claims), strict=True):
            column = word if question is PAPER else f"here: {question.label(word)}"
            address = f"{SCOREBOARD}#{question.anchor_of(word, paper)}"
            link = Markup('<a href="{}">{}</a>').format(address, count)
            cells[column] = link if count else Markup("0")
    return cells


def lists(claims: pd.DataFrame, subjects: Mapping[str, str]) -> str:
    """List the claims by their answers, each with a link to its row of the ledger."""
    texts = []
    for question in QUESTIONS:
        texts.append(f"### {question.title}")
        for word in question.words:
            chosen = question.chosen(claims, word)
            if len(chosen):
                texts.append(_list_of_word(question, word, chosen, subjects))
    return "\n\n".join(texts)


def _list_of_word(
    question: Question, word: str, claims: pd.DataFrame, subjects: Mapping[str, str]
) -> str:
    """The claims with one answer, by paper."""
    texts = [
        Markup('<p class="rag-lead" id="{}">{} ({})</p>').format(
            question.anchor_of(word), verdict_mark(question.label(word)), len(claims)
        )
    ]
    mark = verdict_mark(question.label(word))
    for paper, subject in subjects.items():
        of_paper = claims[claims["paper"] == paper]
        if len(of_paper):
            anchor = question.anchor_of(word, paper)
            head = Markup('<p id="{}">{} {} ({})</p>').format(anchor, mark, subject, len(of_paper))
            items = Markup("").join(_list_item(row) for row in of_paper.to_dict("records"))
            texts += [head, Markup('<ul class="rag-claim-list">{}</ul>').format(items)]
    return str(Markup("").join(texts))


def _list_item(row: Mapping[Any, Any]) -> Markup:
    address = f"scoreboard-{row['paper']}.html#{row['id']}"
    return Markup('<li><a href="{}">{}</a></li>').format(address, row["claim"])


def rows_link(row: Mapping[Any, Any], group: str, read: Mapping[str, Any]) -> Markup:
    """A link to the rows that decided a claim, which says whose answers they are.

    Args:
        row: A row of the ledger.
        group: The group of its columns: ``rescored``, ``rerun``, ``here`` and so on.
        read: What the viewer says of each notebook that it has rows of.
    """
    selection, selected = _rows_of_claim(row, group, read)
    if selection is None or selected is None:
        return Markup()
    notebook = row[f"{group}_notebook"]
    words = selected.words_of_arms(selection, read[notebook].lists.entry["arms"])
    return selections.link(notebook, selection, words)


def link_verdict(
    verdict: Markup, row: Mapping[Any, Any], group: str, read: Mapping[str, Any]
) -> Markup:
    """The words of a verdict, which lead to the rows that decided it where there are some."""
    selection, selected = _rows_of_claim(row, group, read)
    if selection is None or selected is None:
        return verdict
    notebook = row[f"{group}_notebook"]
    words = selected.words_of_arms(selection, read[notebook].lists.entry["arms"])
    return selections.linked(verdict, notebook, selection, words)


def _rows_of_claim(
    row: Mapping[Any, Any], group: str, read: Mapping[str, Any]
) -> tuple[Selection, Selected] | tuple[None, None]:
    """The rows that decided a claim, those first that are wrong or where the arms differ."""
    notebook = row[f"{group}_notebook"]
    rule = published(row["paper"]).claim(row["id"]).rule
    if notebook not in read or group == "printed" or rule is None:
        return None, None
    lists = read[notebook].lists
    models = _models_of_rows(row[f"{group}_models"], lists.entry["models"], group)
    is_marked = _is_marked_by(lists.marks, rule)
    for estimate in sorted(row[f"{group}_estimates"], key=distance_from_bound):
        counted = _counted_rows(estimate, rule, models, lists)
        if counted:
            return lists.first_with_rows(_telling(counted, is_marked=is_marked))
    arms_that_decided = _arms_that_decided(row[f"{group}_estimates"], rule, lists.entry["arms"])
    return lists.first_with_rows(_selections(arms_that_decided, models, is_marked=is_marked))


def _counted_rows(
    estimate: Mapping[str, Any], rule: Rule, models: Sequence[str], lists: QuestionLists
) -> Selection | None:
    """The rows that an estimate counted; None where no filter shows as many questions as it did.

    What is known of its rows holds for each of them. Where as many questions meet it, these are
    the rows.
    """
    arms = _arms_of_estimate(estimate, lists.entry["arms"])
    if not arms or not estimate.get("n"):
        return None
    arm, against = [*arms, ""][:2]
    measures = _measures_of_estimate(estimate, lists.measures)
    models = _models_of_estimate(estimate, models)
    conditions = [*_conditions_of_estimate(estimate, rule, lists.strata)]
    for measure, model, where in product(measures, models, conditions):
        rows = selections.conditions_text(where)
        selection = Selection(arm, against, model, rows=rows, measure=measure)
        if lists.select(selection).questions == estimate["n"]:
            return selection
    return None


def _measures_of_estimate(estimate: Mapping[str, Any], listed: Collection[str]) -> list[str]:
    """The listed measures that an estimate may be of, and "", which is all answers of an arm.

    A measure whose denominator is 0 for some answers counts these, but has no value for them.
    """
    stated = estimate.get("measure")
    if not stated:
        return [*viewer.measures_in_words(str(estimate["label"]), listed), ""]
    return [stated, ""] if stated in listed else [""]


def _models_of_estimate(estimate: Mapping[str, Any], models: Sequence[str]) -> Sequence[str]:
    """Those of some models that an estimate states; all of them where it states none."""
    stated = estimate.get("where", {}).get("model", ())
    names = {*stated, *map(released_model, stated)}
    chosen = [model for model in models if model in names]
    return chosen or models


def _conditions_of_estimate(
    estimate: Mapping[str, Any], rule: Rule, strata: Mapping[str, Sequence[str]]
) -> Iterator[Conditions]:
    """The conditions that an estimate states; of one that states none, what words and rule say.

    Args:
        estimate: What helped to decide a claim.
        rule: The rule of the claim.
        strata: The values of each stratum, and of the task.
    """
    stated = estimate.get("where", {})
    if stated:
        # the viewer has no filter for other columns, such as the source
        yield {name: values for name, values in stated.items() if name in strata}
        return
    named = _conditions_in_words(str(estimate["label"]), strata)
    known = [where for where in _conditions_of_rule(rule) if where.keys() <= strata.keys()]

    def is_contradicted(where: Conditions) -> bool:
        return any(named.get(name) != values for name, values in where.items())

    known.sort(key=is_contradicted)
    yield from ({**where, **named} for where in known)
    yield named


def _conditions_in_words(label: str, strata: Mapping[str, Sequence[str]]) -> Conditions:
    """The strata whose values a text names, and the two of an interaction."""
    parts = {part.strip() for part in re.split(r"[,():;]", label)}
    named: Conditions = {}
    for name, values in strata.items():
        # a data set may be named by a stratum and by the task
        unknown = parts.difference(chain.from_iterable(named.values()), [""])
        chosen = [value for value in values if value in unknown]
        if chosen:
            named[name] = chosen
    return named | _interaction_in_words(label, strata)


def _interaction_in_words(label: str, strata: Mapping[str, Sequence[str]]) -> Conditions:
    """The stratum whose two values a text compares: `F1: kind two hops minus one hop`."""
    compared: Conditions = {}
    for name, values in strata.items():
        difference = label.partition(f": {name} ")[2]
        first, _, second = difference.partition(" minus ")
        if difference and first in values and second in values:
            compared[name] = [first, second]
    return compared


def _conditions_of_rule(rule: Rule) -> Iterator[Conditions]:
    """The conditions of each part of a rule, the whole rule's first."""
    if rule.where:
        yield dict(rule.where)
    for part in rule.parts:
        yield from _conditions_of_rule(part)


def _telling(selection: Selection, *, is_marked: bool) -> Iterator[Selection]:
    """A selection where its arm fails or its arms differ, and the whole of it."""
    if is_marked or selection.measure:
        yield replace(selection, show=_telling_show(selection.arm, selection.against))
    yield selection


def _telling_show(arm: str, against: str) -> str:
    """A single arm is best seen where it fails, several where they differ."""
    return selections.WRONG if arm and not against else selections.DIFFERENT


def _is_marked_by(marks: set[str], rule: Rule) -> bool:
    """Whether a measure that marks answers is one of a rule; True if either is unknown."""
    measures = _measures_of(rule)
    return not marks or not measures or bool(measures & marks)


def _measures_of(rule: Rule) -> set[str]:
    """The measures that a rule compares; none of one by a function, which may read any."""
    measures = set()
    if rule.arm or rule.first:
        measures.add(rule.measure)
    for part in rule.parts:
        measures |= _measures_of(part)
    return measures


def _selections(
    arms_that_decided: list[list[str]], models: list[str], *, is_marked: bool
) -> Iterator[Selection]:
    """What may be shown of a claim, the most telling first.

    Args:
        arms_that_decided: The arms, by the closest comparison first.
        models: The models, the likeliest first.
        is_marked: Whether the viewer marks answers by a measure of the claim. If not, the answers
            that it marks as wrong need not be those that count against the claim.
    """
    for arms in arms_that_decided:
        arm, against = [*arms, "", ""][:2]
        shows = (_telling_show(arm, against), "") if is_marked else ("",)
        for model in models:
            for show in shows:
                yield Selection(arm, against, model, show)


def _models_of_rows(names: str, listed: Sequence[str], group: str) -> list[str]:
    """The models of the rows that may have decided, the likeliest first; "" is every model.

    Args:
        names: The models that decided, as the ledger joins them.
        listed: The models of the viewer's list, in which those of released answers have names of
            their own.
        group: The group of the ledger's columns.
    """
    released = [name for name in listed if name.startswith(RELEASED_MODEL)]
    if group == "rescored":
        return released
    ran_here = [name for name in listed if name not in released]
    deciding = [name for name in names.split(", ") if name in ran_here]
    # arms of several models are shown together
    return [*deciding, ""] if deciding else [*ran_here, ""]


def _arms_that_decided(
    estimates: Iterable[Mapping[str, Any]], rule: Rule, labels: Mapping[str, str]
) -> list[list[str]]:
    """The arms between which a claim was decided, by the closest comparison first.

    Args:
        estimates: What decided it.
        rule: Its rule, which says what is compared where no estimate names an arm.
        labels: The label of each arm that has rows.
    """
    by_closeness = sorted(estimates, key=distance_from_bound)
    arms = [_arms_of_estimate(estimate, labels) for estimate in by_closeness]
    arms += [_with_rows(compared, labels) for compared in _compared_arms(rule)]
    # a rule by a function may name no arms: then all are shown
    return [pair for pair in arms if pair] + [[]]


def distance_from_bound(estimate: Mapping[str, Any]) -> float:
    """How far a value is from where the claim's truth turns."""
    return float(abs(estimate["value"] - (estimate["bound"] or 0.0)))


def _with_rows(arms: Iterable[str], labels: Mapping[str, str]) -> list[str]:
    return [arm for arm in arms if arm in labels]


def _arms_of_estimate(estimate: Mapping[str, Any], labels: Mapping[str, str]) -> list[str]:
    """The arms that an estimate names, at most two; of a difference both, or none."""
    if estimate["arms"]:
        names = {label: arm for arm, label in labels.items()}
        compared = [names.get(arm["label"], "") for arm in estimate["arms"]]
        return compared[:2] if all(compared) else []
    named = _arms_in_words(str(estimate["label"]), labels)
    n_arms = 2 if " minus " in estimate["label"] else 1
    return named[:n_arms] if len(named) >= n_arms else []


def _arms_in_words(words: str, labels: Mapping[str, str]) -> list[str]:
    """The arms whose labels stand in a text, in its order."""
    positions = {}
    remaining = words.lower()
    for arm, label in sorted(labels.items(), key=lambda item: -len(item[1])):
        match = re.search(rf"(?<!\w){re.escape(label.lower())}(?!\w)", remaining)
        if match:
            positions[arm] = match.start()
            # a shorter label may be a part of this one
            blank = " " * len(match[0])
            remaining = remaining[: match.start()] + blank + remaining[match.end() :]
    return sorted(positions, key=lambda arm: positions[arm])


def _compared_arms(rule: Rule) -> Iterator[list[str]]:
    """The arms of each of a rule's comparisons, or its only arm."""
    for part in rule.parts:
        yield from _compared_arms(part)
    if rule.than:
        yield [rule.first[0], rule.than[0]]
    elif rule.arm:
        yield [rule.arm]


_SHOWN: Final[Mapping[Shown, str]] = {
    "rendered": "in full",
    "partly": "in part",
    "impossible": "not shown",
    "diagram": "redrawn",
}
"""What is said of one table or figure, by the way in which the book shows it."""


def exhibits_table(paper: str, board: pd.DataFrame) -> str:
    """Tabulate the tables and figures of a paper, and what of each the book shows.

    Args:
        paper: Name of the paper.
        board: The scoreboard.
    """
    printed = published(paper)
    if not printed.exhibits:
        return ""
    of_paper = board[board["paper"] == paper]
    rows = [_exhibit_row(exhibit, of_paper) for exhibit in printed.exhibits]
    coverage = coverage_words(printed.exhibits)
    caption = (
        f"Every table and figure of the paper. The book {coverage}. The last three columns count "
        "the printed numbers of a table or figure, and those of them that were rescored and rerun"
    )
    return table(rows, caption, "rag-cards")


def _exhibit_row(exhibit: Exhibit, board: pd.DataFrame) -> dict[str, Any]:
    is_part = board["table"].eq(exhibit.name) | board["table"].str.startswith(f"{exhibit.name} ")
    numbers = board[is_part]
    is_rerun = _has_value(numbers, "reference") | _has_value(numbers, "rerun")
    row: dict[str, Any] = {
        "Exhibit": escape(exhibit.name) + fine_print(exhibit.what),
        "Shown": _place(exhibit) + fine_print(exhibit.why),
        "Numbers": None,
        "Rescored": None,
        "Rerun": None,
    }
    if len(numbers):
        row |= {
            "Numbers": len(numbers),
            "Rescored": int(_has_value(numbers, "rescored").sum()),
            "Rerun": int(is_rerun.sum()),
        }
    return row


def _place(exhibit: Exhibit) -> Markup:
    """In which way an exhibit is shown, with links to its chapters."""
    if not exhibit.chapters:
        return escape(_SHOWN[exhibit.shown])
    links = Markup(", ").join(link_to(name, name[:2]) for name in exhibit.chapters)
    word = "chapter" if len(exhibit.chapters) == 1 else "chapters"
    return Markup("{}, {} {}").format(_SHOWN[exhibit.shown], word, links)


def _has_value(numbers: pd.DataFrame, group: str) -> "pd.Series[bool]":
    return numbers[group].notna() & numbers[f"{group}_verdict"].ne("SAMPLE")


def coverage_words(exhibits: tuple[Exhibit, ...]) -> str:
    """Say how many exhibits are shown in which way; no count is zero."""
    shown = [exhibit.shown for exhibit in exhibits]
    counts = {word: shown.count(word) for word in get_args(Shown)}
    words = {"rendered": "in full", "partly": "in part", "impossible": "not at all"}
    texts = [f"{counts[word]} {text}" for word, text in words.items() if counts[word]]
    clauses = [f"shows {figures.listed(texts)}"] if texts else []
    if counts["diagram"]:
        clauses.append(f"redraws {counts['diagram']}")
    return ", and ".join(clauses)


def all_exhibits(papers: Iterable[str]) -> tuple[Exhibit, ...]:
    """The exhibits of all papers."""
    found: list[Exhibit] = []
    for paper in papers:
        found += published(paper).exhibits
    return tuple(found)


def here_words(row: Mapping[Any, Any], group: str) -> Markup:
    """The models that say whether a claim holds here."""
    models = row[f"{group}_models"]
    return fine_print(f"by {models}") if models else Markup()


def folded_trial(claim_id: str) -> Markup:
    """What a trial of a claim's rule says of the paper's own n; empty if it has the power."""
    trial = trials.trials().get(claim_id)
    if trial is None or trial.needs is None or trial.n is None:
        return Markup()
    text = (
        "If the printed values were true of the rows that the claim is about, a data set of "
        f"{trial.n:,} such rows would support the claim in fewer than 80 % of simulations. A data "
        f"set needs about {trial.needs:,} such rows to support the claim in 80 % of simulations."
    )
    return pieces.folded("Power", text)
