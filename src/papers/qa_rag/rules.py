"""Rules of claims in `data/published/qa_rag.yml` that compare more than arms."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from evaluation import decisions, evidence, figures
from evaluation.decisions import Decision, Part
from evaluation.metrics import bootstrap
from evaluation.outcomes import Outcomes
from evaluation.published import Published
from papers.qa_rag.data import WHOLE_ANSWER
from resources.lora import TrainingLog

PRINTED = ("qa_rag", "hypothetical", "hyde", "question", "multiquery")

Floats = NDArray[np.float64]


def loss_falls(_: Outcomes, *, logs: Mapping[str, TrainingLog], **__: Any) -> Decision:  # noqa: ANN401  # other facts
    """Whether the mean validation loss falls by the training (section 2.3, Figure 2).

    The last step, whose adapter the run uses, is compared with the model before training.
    """
    if not logs:
        return Decision(
            "not tested", "No adapter was trained or served in this run.", reason="no answers"
        )
    sentences = []
    fell = []
    for name, log in logs.items():
        first, last = log.validation[0].value, log.validation[-1].value
        n_steps = int(log.settings["steps"])
        sentences.append(
            f"With pairs split by {name}, the mean validation loss is {first:.3f} before the "
            f"training and {last:.3f} after {n_steps} steps."
        )
        fell.append(last < first)
    return Decision(decisions.exactly(all(fell)), " ".join(sentences))


def _order(printed: Published, table: str, column: str) -> list[str]:
    values = {arm: printed.number(f"qa_rag.{table}.{arm}.{column}").value for arm in PRINTED}
    return sorted(values, key=lambda arm: -values[arm])


def same_order(outcomes: Outcomes, *, printed: Published, **_: Any) -> Decision:  # noqa: ANN401  # facts of other rules
    """Whether the best three by contexts and by F1 are the same (Tables 3, 4).

    Contexts are ordered by precision, and by recall.
    """
    columns = {
        "context precision": ("table3", "precision"),
        "context recall": ("table3", "recall"),
        "F1": ("table4", "f1"),
    }
    orders = {name: _order(printed, *place)[:3] for name, place in columns.items()}
    sentences = []
    for name, arms in orders.items():
        labels = [outcomes.label(arm) for arm in arms]
        listed = figures.listed(labels)
        sentences.append(f"The three best methods by {name} are {listed}, in this order.")
    is_same = all(arms == orders["F1"] for arms in orders.values())
    return Decision(decisions.exactly(is_same), " ".join(sentences))


COLUMNS = {"table3": ("precision", "recall"), "table4": ("precision", "recall", "f1")}
"""Columns of the tables in which QA-RAG has the highest value (section 3.5)."""


def first_in_every_column(outcomes: Outcomes, *, printed: Published, **_: Any) -> Decision:  # noqa: ANN401
    """Whether QA-RAG is first in each column of Tables 3 and 4 (section 3.5)."""
    sentences = []
    are_first = []
    for table, columns in COLUMNS.items():
        for column in columns:
            best, *others = _order(printed, table, column)
            are_first.append(best == "qa_rag")
            values = {arm: printed.number(f"qa_rag.{table}.{arm}.{column}").value for arm in others}
            seconds = [arm for arm in others if values[arm] == max(values.values())]
            first_value, *second_values = _values(
                outcomes, printed, table, column, [best, *seconds]
            )
            verb = "have" if len(seconds) > 1 else "has"
            sentences.append(
                f"In {_table_label(table)}, {first_value} has the highest "
                f"{_column_label(table, column)}, and {figures.listed(second_values)} {verb} the "
                "second highest."
            )
    return Decision(decisions.exactly(all(are_first)), " ".join(sentences))


def _values(
    outcomes: Outcomes, printed: Published, table: str, column: str, arms: Sequence[str]
) -> list[str]:
    """The printed values of some methods in one column: `QA-RAG (0.717)`."""
    values = []
    for arm in arms:
        number = printed.number(f"qa_rag.{table}.{arm}.{column}")
        values.append(f"{outcomes.label(arm)} ({number.printed})")
    return values


def _table_label(table: str) -> str:
    return f"Table {table.removeprefix('table')}"


def _column_label(table: str, column: str) -> str:
    """What a column scores: contexts in Table 3, answers in Tables 1 and 4."""
    if column == "f1":
        return "F1"
    return f"context {column}" if table == "table3" else column


def question_is_worst(outcomes: Outcomes, *, printed: Published, **_: Any) -> Decision:  # noqa: ANN401
    """Whether only question is the lowest of Table 3, in precision and in recall (section 3.5).

    If it is the lowest in one of them alone, the printed numbers conflict, and leave it open.
    """
    lowest = []
    sentences = []
    for column in ("precision", "recall"):
        second, last = _order(printed, "table3", column)[-2:]
        last_value, second_value = _values(outcomes, printed, "table3", column, [last, second])
        sentences.append(
            f"In Table 3, {last_value} has the lowest {_column_label('table3', column)}, and "
            f"{second_value} has the second lowest."
        )
        lowest.append(last)
    why = " ".join(sentences)
    if len(set(lowest)) > 1 and "question" in lowest:
        return Decision("inconclusive", f"{why} The paper prints no interval.")
    return Decision(decisions.exactly(set(lowest) == {"question"}), why)


def fine_tuned_first(outcomes: Outcomes, *, printed: Published, **_: Any) -> Decision:  # noqa: ANN401
    """Whether the two methods with the fine-tuned model's answer are the best two (section 4.1).

    In context precision and recall (Table 3) and in F1 of the answers (Table 4).
    """
    sentences = []
    are_first = []
    for table, column in (("table3", "precision"), ("table3", "recall"), ("table4", "f1")):
        best = _order(printed, table, column)[:2]
        are_first.append(set(best) == {"qa_rag", "hypothetical"})
        values = figures.listed(_values(outcomes, printed, table, column, best))
        sentences.append(
            f"In {_table_label(table)}, the two highest values of {_column_label(table, column)} "
            f"are those of {values}."
        )
    return Decision(decisions.exactly(all(are_first)), " ".join(sentences))


TABLE_1_ORDER = ["finetuned_gpt35", "gpt4", "finetuned_mistral"]
"""Of the models, best first (section 2.3)."""


def table_1_order(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Whether Table 1 prints the three models in the order of section 2.3, in precision and F1."""
    sentences = []
    are_ordered = []
    for column in ("precision", "f1"):
        numbers = [printed.number(f"qa_rag.table1.{model}.{column}") for model in TABLE_1_ORDER]
        values = [number.value for number in numbers]
        are_ordered.append(values == sorted(values, reverse=True))
        label = evidence.sentence_case(_column_label("table1", column))
        listed = figures.listed([f"{number.printed} for {number.row}" for number in numbers])
        sentences.append(f"{label} in Table 1 is {listed}.")
    return Decision(decisions.exactly(all(are_ordered)), " ".join(sentences))


def precision_gap_larger(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Whether the two halves of QA-RAG differ more in precision than in recall (Table 5)."""
    gaps = {}
    for column in ("precision", "recall"):
        question = printed.number(f"qa_rag.table5.question.{column}").value
        answer = printed.number(f"qa_rag.table5.hypothetical.{column}").value
        gaps[column] = answer - question
    why = (
        "In Table 5, the score of Only hypothetical answer minus that of Only question, each with "
        f"12 candidates, is {figures.signed(gaps['precision'], 3)} in context precision and "
        f"{figures.signed(gaps['recall'], 3)} in context recall."
    )
    holds = gaps["precision"] > 0 and abs(gaps["precision"]) > abs(gaps["recall"])
    return Decision(decisions.exactly(holds), why)


def answer_is_vital(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Whether QA-RAG loses more without its answer than without its question (Table 5).

    If it does so in precision or in recall alone, the printed numbers leave the claim open.
    """
    loses_more = []
    sentences = []
    for column in ("precision", "recall"):
        full, without_answer, without_question = (
            printed.number(f"qa_rag.table5.{arm}.{column}").value
            for arm in ("qa_rag", "question", "hypothetical")
        )
        loses_more.append(full - without_answer > full - without_question)
        sentences.append(
            f"As printed, context {column} changes by "
            f"{figures.signed(without_answer - full, 3)} without the hypothetical answer and by "
            f"{figures.signed(without_question - full, 3)} without the question."
        )
    why = " ".join(sentences)
    if any(loses_more) and not all(loses_more):
        return Decision("inconclusive", f"{why} The paper prints no interval.")
    return Decision(decisions.exactly(all(loses_more)), why)


def answer_track_helps_as_printed(_: Outcomes, *, printed: Published, **__: Any) -> Decision:  # noqa: ANN401
    """Whether Table 5 prints a lower precision without the hypothetical answer (section 3.5)."""
    full = printed.number("qa_rag.table5.qa_rag.precision")
    without_answer = printed.number("qa_rag.table5.question.precision")
    change = figures.signed(without_answer.value - full.value, 3)
    why = (
        f"As printed, context precision changes by {change} without the hypothetical answer, from "
        f"{full.printed} to {without_answer.printed}."
    )
    return Decision(decisions.exactly(without_answer.value < full.value), why)


WITH_ANSWER = ("qa_rag", "hypothetical", "hyde")
"""Methods that search with an answer (section 4.1); the others of `PRINTED` search without one."""


def answer_searches_more_precise(outcomes: Outcomes, *, printed: Published, **_: Any) -> Decision:  # noqa: ANN401
    """Whether Table 3 prints each method with an answer above each without one (section 4.1)."""
    order = _order(printed, "table3", "precision")
    last_with = [arm for arm in order if arm in WITH_ANSWER][-1]
    first_without = next(arm for arm in order if arm not in WITH_ANSWER)
    with_value, without_value = _values(
        outcomes, printed, "table3", "precision", [last_with, first_without]
    )
    why = (
        f"In Table 3, {with_value} has the lowest context precision of the methods that search "
        f"with an answer. {without_value} has the highest context precision of the methods that "
        "search without one."
    )
    n_with = len(WITH_ANSWER)
    return Decision(decisions.exactly(set(order[:n_with]) == set(WITH_ANSWER)), why)


AGENT_WINS_RECALL = {"multiquery", "hyde"}
"""Where the scoring agent has the higher context recall (section 3.5)."""


def reranker_beats_agent_as_printed(
    outcomes: Outcomes,
    *,
    printed: Published,
    **_: Any,  # noqa: ANN401  # facts of other rules
) -> Decision:
    """Whether Table 2 prints the reranker above the scoring agent where section 3.5 says so."""
    exceptions: dict[str, set[str]] = {}
    parts = []
    for column in ("precision", "recall"):
        exceptions[column] = set()
        for arm in PRINTED:
            prefix = f"qa_rag.table2.{arm}.{column}"
            reranker = printed.number(f"{prefix}_reranker").value
            agent = printed.number(f"{prefix}_agent").value
            if reranker <= agent:
                exceptions[column].add(arm)
        below = [outcomes.label(arm) for arm in PRINTED if arm in exceptions[column]]
        where = f"all methods except {figures.listed(below)}" if below else "all methods"
        parts.append(f"the higher context {column} with {where}")
    holds = exceptions == {"precision": set(), "recall": AGENT_WINS_RECALL}
    return Decision(decisions.exactly(holds), f"The reranker has {figures.listed(parts)}.")


NEAR_ONE: Final = 0.9
"""Bound of a recall that should be 1; the rest is left to a judge's errors."""


def judge_recalls(outcomes: Outcomes, *, unfit: Mapping[str, str], **_: Any) -> Decision:  # noqa: ANN401
    """Whether the served model, as judge, gives a recall near 1 to contexts with the whole answer.

    It is asked only of a judge that is better than chance (section 3.1).

    Args:
        outcomes: The rows of the run.
        unfit: Why the judge is unfit, by measure; empty if it is fit.
    """
    if unfit["recall"]:
        return Decision("not tested", f"{unfit['recall']}.", reason="judge at chance")
    judged = outcomes.where(task="judged")
    if judged.has_column("holds"):
        judged = judged.where(holds=WHOLE_ANSWER)
    arms = [arm for arm in judged.arms if judged.has_column("holds")]
    if not arms:
        why = "No contexts that the judge read contain the whole answer."
        return Decision("not tested", why, reason="no answers")
    parts = []
    sentences = []
    for arm in arms:
        score = judged.score("recall", arm)
        label = f"recall of {judged.label(arm)} ({WHOLE_ANSWER})"
        criterion = partial(decisions.above, bound=NEAR_ONE)
        words = f"where a passage contains the whole answer, the recall of {judged.label(arm)}"
        parts.append(Part(score, criterion, label, bound=NEAR_ONE, words=words))
        sentences.append(evidence.score_sentence(label, score))
    why = " ".join(sentences)
    n_clusters = judged.frame.cluster.nunique()
    if not decisions.enough_clusters(n_clusters):
        return decisions.too_few_clusters(n_clusters, why)
    return decisions.decide_by_intervals(parts, (NEAR_ONE,), why=why)


def context_carries_over(outcomes: Outcomes, *, seed: int, **_: Any) -> Decision:  # noqa: ANN401
    """Whether the arm with the better contexts has the better answer (section 3.5).

    The measure is the rank correlation over questions and arms of context precision and F1, each
    less its question's mean, with an interval over documents. Its two-sided p comes from shuffling
    the arms in the same way for all questions of a document.
    """
    contexts = outcomes.where(task="contexts").frame
    answers = outcomes.where(task="answers").frame
    arms = [arm for arm in contexts.arm.unique() if arm in set(answers.arm)]
    if len(arms) < 2:
        return Decision(
            "not tested", "This test needs contexts and answers of two arms.", reason="no answers"
        )
    precision = _centred_table(contexts, "precision", arms)
    f1 = _centred_table(answers, "f1", arms)
    clusters = pd.factorize(answers[answers.arm == arms[0]].cluster)[0]

    def of_rows(rows: Floats) -> float:
        chosen = rows.astype(np.int64)
        return rank_correlation(precision[chosen], f1[chosen])

    score = bootstrap(
        np.arange(len(precision)), of_rows, clusters=clusters, seed=seed, draws=outcomes.draws
    )
    shuffles = _Shuffles(precision, f1, clusters, seed, outcomes.draws)
    p = shuffles.p_value(score.value)
    value, low, high = (figures.signed(part, 3) for part in (score.value, score.low, score.high))
    why = (
        f"Within questions, over {figures.in_words(len(arms))} methods, the rank correlation of "
        f"context precision with F1 is {value} [{low}, {high}] ({figures.p_words(p)}, "
        f"n = {len(precision)})."
    )
    return Decision(decisions.better(score, p), why, p)


def rank_correlation(first: Floats, second: Floats) -> float:
    """Rank correlation of all values of two tables; 0 if those of one are all equal."""
    # equal scores of a question stay equal, whatever their mean leaves of them
    first_ranks = rankdata(np.round(first.ravel(), 12))
    second_ranks = rankdata(np.round(second.ravel(), 12))
    if not first_ranks.std() or not second_ranks.std():
        return 0.0
    return float(np.corrcoef(first_ranks, second_ranks)[0, 1])


@dataclass(frozen=True)
class _Shuffles:
    """The correlation by chance: arms are shuffled alike for all questions of a document.

    Attributes:
        first: (questions, arms); its arms are shuffled.
        second: (questions, arms).
        clusters: (questions,) document of each question, from 0.
        seed: Of the shuffles.
        draws: Number of shuffles.
    """

    first: Floats
    second: Floats
    clusters: NDArray[np.int64]
    seed: int
    draws: int

    def p_value(self, observed: float) -> float:
        """Two-sided p of a correlation."""
        rng = np.random.default_rng(self.seed)
        n_clusters = self.clusters.max() + 1
        arms = np.tile(np.arange(self.first.shape[1]), (n_clusters, 1))
        n_as_large = 0
        for _ in range(self.draws):
            order = rng.permuted(arms, axis=1)[self.clusters]
            shuffled = np.take_along_axis(self.first, order, axis=1)
            correlation = rank_correlation(shuffled, self.second)
            n_as_large += abs(correlation) >= abs(observed) - 1e-12
        return (1 + n_as_large) / (self.draws + 1)


def _centred_table(rows: pd.DataFrame, measure: str, arms: list[str]) -> Floats:
    """(questions, arms) of a measure less the question's mean, in the order of the rows."""
    scores = [measures[measure][0] for measures in rows.measures]
    table = rows.assign(value=scores).pivot(index="unit", columns="arm")["value"]
    values = np.asarray(table.loc[rows.unit.unique(), arms], dtype=np.float64)
    return values - values.mean(axis=1, keepdims=True)
