"""RAGAS' context precision and recall with the served model as judge, and how good that judge is.

Definitions: Es et al. 2023; QA-RAG, section 3.1. The release dates from January 2024, before RAGAS
0.1.0. Until then, in versions 0.0.19 to 0.0.22, the judge of context precision sees the question
and a context; since 0.1.0 it also sees the reference answer. Recall is judged by the answer in all
of them. RAGAS shows its judge full contexts; here it reads the window of a context that is nearest
to what it is asked about.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from evaluation import decisions, figures
from evaluation.answers import Answer, Item, NotRunError, PlainUnit
from evaluation.outcomes import Outcomes
from evaluation.record import Run
from helpers.completions import Choice
from helpers.llm import LLM
from papers.qa_rag import data
from papers.qa_rag.data import Question
from papers.qa_rag.retrieval import PRINTED, context_precision
from papers.qa_rag.search import Searcher
from rag.prompts import Message, chat_messages

USEFUL_SYSTEM = "You check whether an excerpt of regulatory guidance helps to answer a question."
SUPPORTED_SYSTEM = "You check whether an excerpt of regulatory guidance supports an answer."
MAX_STATEMENTS = 4
"""Statements of an answer that are looked for; the first ones, for an answer may have dozens."""

MIN_WORDS = 3
"""Words from which on a sentence is a statement."""

AGENT = "_agent"
"""Ends the name of an arm of Table 2 whose candidates the scoring agent orders."""

LABELS = {
    "judge_useful": "Useful in answering the question? (context precision)",
    "judge_supported": "Statement attributable? (context recall)",
}
for _name, _config in PRINTED.items():
    if not _name.endswith("_12"):
        LABELS[f"{_name}{AGENT}"] = f"{_config.label} with the scoring agent"

CHECKED_BY = {"precision": "judge_useful", "recall": "judge_supported"}


def statements(answer: str) -> list[str]:
    """The first sentences of an answer with three words or more; the full answer without such."""
    sentences = [part.strip() for part in re.split(r"(?<=[.?!;])\s+|\n+", answer)]
    long_enough = [part for part in sentences if len(part.split()) >= MIN_WORDS]
    return long_enough[:MAX_STATEMENTS] or [answer.strip()]


def _useful_prompt(question: Question, excerpt: str) -> list[Message]:
    return chat_messages(
        USEFUL_SYSTEM,
        f"Question: {question.text}\n\nExcerpt:\n{excerpt.strip()}\n\n"
        "Is the information in the excerpt useful in answering the question? Answer YES or NO.",
    )


def _supported_prompt(statement: str, excerpt: str) -> list[Message]:
    return chat_messages(
        SUPPORTED_SYSTEM,
        f"Excerpt:\n{excerpt.strip()}\n\nStatement: {statement}\n\n"
        "Can the statement be attributed to the excerpt? Answer YES or NO.",
    )


@dataclass(frozen=True, kw_only=True)
class Known(PlainUnit):
    """A passage with a known verdict.

    Its gold is YES if it holds the question's answer, NO if it holds none of it.

    Attributes:
        question: The question.
        row: The row of the passage.
    """

    question: Question
    row: int


def known(
    questions: Sequence[Question], searcher: Searcher, ranked: Mapping[str, Sequence[int]]
) -> list[Known]:
    """Choose two passages of each question that has them.

    They are the one with most of its answer, and the best ranked with none of it.

    Args:
        questions: The questions.
        searcher: The corpus.
        ranked: Rows of the corpus, best first, by question id.
    """
    row_of = {passage.id: row for row, passage in enumerate(searcher.corpus.passages)}
    chosen = []
    for question in questions:
        shares = data.answer_passages(question, searcher.corpus)
        without_answer = _first_without_answer(question, searcher, ranked[question.id])
        if not shares or without_answer is None:
            continue
        fullest = max(shares, key=lambda passage_id: shares[passage_id])
        chosen.append(_known_pair(question, row_of[fullest], "YES"))
        chosen.append(_known_pair(question, without_answer, "NO"))
    return chosen


def _first_without_answer(
    question: Question, searcher: Searcher, rows: Iterable[int]
) -> int | None:
    documents = data.source_documents(question, searcher.corpus)
    for row in rows:
        passage = searcher.corpus.passages[row]
        if passage.document in documents:
            continue
        if not data.share_held(question.answer, [passage.text]):
            return row
    return None


def _known_pair(question: Question, row: int, gold: str) -> Known:
    return Known(
        f"{question.id}, {gold}",
        question.cluster,
        question.text,
        gold,
        question=question,
        row=row,
    )


@dataclass(frozen=True)
class Judge:
    """A language model that judges contexts.

    Attributes:
        searcher: The corpus; it picks the windows that the model reads.
        model: The model.
    """

    searcher: Searcher
    model: LLM

    def choose(self, prompts: Sequence[list[Message]], label: str) -> list[Choice]:
        """Ask for YES or NO."""
        return self.model.choose_many(prompts, ["YES", "NO"], label=f"judge: {label}")

    def useful_prompt(self, pair: Known) -> list[Message]:
        """Build the prompt about a context whose verdict is known."""
        (excerpt,) = self.searcher.excerpts(pair.question.text, [pair.row])
        return _useful_prompt(pair.question, excerpt)

    def useful(self, pairs: Sequence[Known]) -> list[Answer]:
        """Judge contexts whose verdict is known, as for precision."""
        prompts = [self.useful_prompt(pair) for pair in pairs]
        return self._check(prompts, "check: useful?")

    def supported(self, pairs: Sequence[Known]) -> list[Answer]:
        """Judge the same as for recall, about the answer's first statement."""
        prompts = []
        for pair in pairs:
            statement = statements(pair.question.answer)[0]
            (excerpt,) = self.searcher.excerpts(statement, [pair.row])
            prompts.append(_supported_prompt(statement, excerpt))
        return self._check(prompts, "check: supported?")

    def _check(self, prompts: Sequence[list[Message]], label: str) -> list[Answer]:
        answers = []
        for choice in self.choose(prompts, label):
            answer = Answer(
                task="check",
                predicted=_verdict(choice),
                measures={} if choice.p_yes is None else {"p_yes": (choice.p_yes, 1.0)},
                requests=[choice.key],
            )
            answers.append(answer)
        return answers


@dataclass(frozen=True)
class JudgedContexts:
    """An arm: RAGAS' two scores of the contexts of each question.

    Attributes:
        judge: The judge.
        ranked: Ids of the contexts, best first, by question id.
    """

    judge: Judge
    ranked: Mapping[str, Sequence[str]]

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Judge the contexts of each question."""
        useful_prompts: list[list[Message]] = []
        supported_prompts: list[list[Message]] = []
        n_statements = []
        for question in questions:
            useful_prompts += self._useful_prompts(question)
            own_prompts = self._supported_prompts(question)
            supported_prompts += own_prompts
            n_statements.append(len(own_prompts))
        useful = iter(self.judge.choose(useful_prompts, "useful?"))
        supported = iter(self.judge.choose(supported_prompts, "supported?"))
        answers = []
        for question, n in zip(questions, n_statements, strict=True):
            ids = self.ranked[question.id]
            answer = _judged(ids, _take(len(ids), useful), _take(n, supported))
            answers.append(replace(answer, strata=self._strata(question)))
        return answers

    @cached_property
    def _row_of(self) -> dict[str, int]:
        passages = self.judge.searcher.corpus.passages
        return {passage.id: row for row, passage in enumerate(passages)}

    def _strata(self, question: Question) -> dict[str, str]:
        """What the contexts hold of the FDA's answer."""
        shares = data.answer_passages(question, self.judge.searcher.corpus, 0.0)
        return data.holds_stratum(self.ranked[question.id], shares)

    def _rows(self, question: Question) -> list[int]:
        return [self._row_of[passage_id] for passage_id in self.ranked[question.id]]

    def _useful_prompts(self, question: Question) -> list[list[Message]]:
        excerpts = self.judge.searcher.excerpts(question.text, self._rows(question))
        return [_useful_prompt(question, excerpt) for excerpt in excerpts]

    def _supported_prompts(self, question: Question) -> list[list[Message]]:
        rows = self._rows(question)
        if not rows:  # a blank query finds nothing
            return []
        searcher = self.judge.searcher
        prompts = []
        for statement in statements(question.answer):
            windows, scores = searcher.best_windows(statement, rows)
            nearest = searcher.windows[windows[np.argmax(scores)]]
            prompts.append(_supported_prompt(statement, nearest))
        return prompts


def _take(n: int, choices: Iterator[Choice]) -> list[Choice]:
    return [next(choices) for _ in range(n)]


def _verdict(choice: Choice) -> str:
    if choice.p_yes is None:
        return choice.answer
    return "YES" if choice.p_yes >= 0.5 else "NO"


def _judged(ids: Sequence[str], useful: Sequence[Choice], supported: Sequence[Choice]) -> Answer:
    is_useful = [_verdict(choice) == "YES" for choice in useful]
    is_supported = [_verdict(choice) == "YES" for choice in supported]
    recall = float(np.mean(is_supported)) if is_supported else 0.0
    items = []
    for place, (passage_id, choice) in enumerate(zip(ids, useful, strict=True)):
        item = Item(passage_id, predicted=is_useful[place], rank=place + 1, score=choice.p_yes)
        items.append(item)
    return Answer(
        task="judged",
        items=items,
        measures={"precision": (context_precision(is_useful), 1.0), "recall": (recall, 1.0)},
        requests=[choice.key for choice in (*useful, *supported)],
    )


def unfit(outcomes: Outcomes, measure: str, judge: str) -> str:
    """Why a judge of context precision or recall is unfit: it accepts or rejects too much.

    Args:
        outcomes: Rows of the check.
        measure: ``precision`` or ``recall``.
        judge: Name of the model.

    Returns:
        The reason; empty if the judge is fit.
    """
    try:
        sensitivity = outcomes.score("sensitivity", CHECKED_BY[measure])
        specificity = outcomes.score("specificity", CHECKED_BY[measure])
    except NotRunError as error:
        return str(error)
    verdicts = {decisions.above(sensitivity, 0.5), decisions.above(specificity, 0.5)}
    if verdicts == {"agrees"}:
        return ""
    return (
        f"{judge} cannot serve as judge here. It accepts {figures.score_text(sensitivity)} of "
        f"{sensitivity.n} passages with the answer (sensitivity) and rejects "
        f"{figures.score_text(specificity)} of {specificity.n} passages without the answer "
        "(specificity). The 95 % intervals of both shares would have to lie above 50 %"
    )


JUDGED_TABLES = ("table2", "table3", "table5")


def judged_arm(number: str) -> str:
    """The arm that a printed number of Tables 2, 3 or 5 is about, as a run names it.

    Args:
        number: Id of the printed number.

    Returns:
        The arm; empty for a number of another table.
    """
    table, arm, *column = number.removeprefix("qa_rag.").split(".")
    if table not in JUDGED_TABLES:
        return ""
    if column[0].endswith(AGENT):
        return f"{arm}{AGENT}"
    is_halved = table == "table5" and arm != "qa_rag"  # the ablation has half as many candidates
    return f"{arm}_12" if is_halved else arm


@dataclass(frozen=True)
class JudgeReport:
    """What a run reports of Tables 2, 3 and 5.

    Attributes:
        run: The run.
        judged: Its judged rows.
        refused: Why the judge is unfit for a measure, by measure; empty if it is fit.
        judge: Name of the model.
        why_no_adapter: Why there is no fine-tuned model; empty if there is one.
    """

    run: Run
    judged: Outcomes
    refused: Mapping[str, str]
    judge: str
    why_no_adapter: str

    def report(self) -> figures.Html:
        """Report the numbers, and show Table 3 with what the judge is fit for, or why not."""
        for number in self.run.printed.numbers:
            if judged_arm(number.id):
                self._report_number(number.id)
        reasons: dict[str, list[str]] = {}
        for measure, why in self.refused.items():
            if why:
                reasons.setdefault(why, []).append(f"context {measure}")
        not_rerun = ". ".join(
            f"We did not rerun {figures.listed(measures)}. {why}"
            for why, measures in reasons.items()
        )
        fit = [measure for measure, why in self.refused.items() if not why]
        if not fit:
            return figures.Html(f"<p>{figures.inline(not_rerun)}.</p>", f"{not_rerun}.")
        caption = "The contexts of the methods of Table 3, as printed and as judged in this run"
        if not_rerun:
            caption += f". {not_rerun}"
        return self.judged.reproduction_table(self.run.printed, "qa_rag.table3", fit, caption)

    def _report_number(self, number: str) -> None:
        arm = judged_arm(number)
        measure = number.rpartition(".")[2].partition("_")[0]
        unfit_because = self.refused[measure]
        if arm not in self.judged.arms:
            self.run.not_run(number, self._why_not_judged(arm, unfit_because))
            return
        score = self.judged.score(measure, arm)
        if unfit_because:
            found = (
                f"By this judge's verdicts, which we do not use, context {measure} is "
                f"{figures.number(score.value)} (n = {score.n})."
            )
            self.run.not_run(number, f"{unfit_because}. {found}")
            return
        note = (
            f"{self.judge} judges windows of passages. The corpus and the models are not those of "
            "the paper."
        )
        self.run.rerun(number, score, model=self.judge, note=note)

    def _why_not_judged(self, arm: str, unfit_because: str) -> str:
        if self.why_no_adapter and arm.startswith(("qa_rag", "hypothetical")):
            return self.why_no_adapter
        if unfit_because:
            return f"{unfit_because}."
        not_judged = "In this profile, the judge reads only the contexts of other arms."
        if arm.endswith(AGENT):
            return not_judged
        return f"{not_judged} Chapter 16 measures the contexts of this arm without a judge."


def selected_ids(rows: Iterable[Answer], arm: str) -> dict[str, list[str]]:
    """The ids of the passages that an arm selected, best first, by question id."""
    ids = {}
    for row in rows:
        if row.arm == arm:
            ids[row.unit] = [item.id for item in row.items if item.rank]
    return ids


def report(
    run: Run,
    judged: Outcomes,
    refused: Mapping[str, str],
    judge: str,
    why_no_adapter: str,
) -> figures.Html:
    """Report the rerun of Tables 2, 3 and 5, or why there is none; see ``JudgeReport``."""
    return JudgeReport(run, judged, refused, judge, why_no_adapter).report()
