"""Rules of claims in `data/published/qa_rag.yml` that compare more than arms: rows in, a Decision out."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from evaluation import decisions, figures
from evaluation.decisions import Decision
from evaluation.metrics import bootstrap
from evaluation.outcomes import Outcomes
from evaluation.published import Published, Rule
from evaluation.rules import evaluate
from papers.qa_rag.data import OWN
from resources.lora import TrainingLog

CORRELATION = 0.1  # the smallest rank correlation that would matter
PRINTED = ("qa_rag", "hypothetical", "hyde", "question", "multiquery")

Floats = NDArray[np.float64]


def loss_falls(_: Outcomes, *, logs: Mapping[str, TrainingLog], **__: Any) -> Decision:  # noqa: ANN401  # other facts
    """Whether the mean validation loss of the kept checkpoint is below that before training (section 2.3, Figure 2)."""
    if not logs:
        return Decision(
            "not run", "No adapter was trained or served in this run.", reason="no answers"
        )
    told = "; ".join(
        f"split by {name}: {log.validation[0].value:.3f} before, {log.validation[-1].value:.3f} after "
        f"{int(log.settings['steps'])} steps"
        for name, log in logs.items()
    )
    fell = all(log.validation[-1].value < log.validation[0].value for log in logs.values())
    return Decision(decisions.exactly(fell), f"Mean validation loss, {told}.")


def _order(printed: Published, table: str, column: str) -> list[str]:
    values = {arm: printed.number(f"qa_rag.{table}.{arm}.{column}").value for arm in PRINTED}
    return sorted(values, key=lambda arm: -values[arm])


def same_order(outcomes: Outcomes, *, printed: Published, **_: Any) -> Decision:  # noqa: ANN401  # facts of other rules
    """Whether the best three by context precision (Table 3) and by F1 (Table 4) are the same (section 3.5)."""
    contexts, answers = (
        _order(printed, "table3", "precision")[:3],
        _order(printed, "table4", "f1")[:3],
    )
    first, second = (", ".join(map(outcomes.label, arms)) for arms in (contexts, answers))
    return Decision(
        decisions.exactly(contexts == answers), f"By context precision: {first}. By F1: {second}."
    )


def question_is_worst(outcomes: Outcomes, *, printed: Published, **_: Any) -> Decision:  # noqa: ANN401
    """Whether only question is the lowest of Table 3, in context precision and in recall (section 3.5).

    If it is the lowest in one of them alone, only a test could tell, for which the scores of each question are missing.
    """
    order = {column: _order(printed, "table3", column) for column in ("precision", "recall")}
    told = []
    for column, arms in order.items():
        two = (
            f"{outcomes.label(a)} {printed.number(f'qa_rag.table3.{a}.{column}').printed}"
            for a in arms[:-3:-1]
        )
        told.append(f"{column}: {', then '.join(two)}")
    why, last = f"The lowest in Table 3, {'; '.join(told)}.", {arms[-1] for arms in order.values()}
    if len(last) > 1 and "question" in last:
        return Decision(
            "not run", f"{why} Neither difference is printed with an interval.", reason="no answers"
        )
    return Decision(decisions.exactly(last == {"question"}), why)


def hypothetical_beats_question(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Whether a hypothetical answer finds more precise contexts than the question (section 4.1, Table 3).

    The gain is also told by what became of the question's own document, which only a search by the question loses.
    """
    contexts, pair = outcomes.where(task="contexts"), ("hypothetical", "question")
    rule = Rule(better=pair[:1], than=pair[1:], measure="precision")
    found = evaluate(rule, contexts, "rescored", paper="qa_rag")
    parts = {
        value: contexts.where(**{OWN: value}).compare([pair], "precision")[0].test
        for value in contexts.strata(OWN)
    }
    told = "; ".join(
        f"{value} {figures.points(test)} points, n = {test.n}" for value, test in parts.items()
    )
    return (
        replace(found, why=f"{found.why} By the question's own document: {told}.")
        if told
        else found
    )


def context_carries_over(outcomes: Outcomes, *, seed: int, **_: Any) -> Decision:  # noqa: ANN401
    """Whether the arm with the better contexts has the better answer to the same question (section 3.5).

    Rank correlation over questions and arms of context precision and F1, each less its question's mean, with an
    interval over documents; its two-sided p by shuffling the arms in the same way for all questions of a document.
    """
    contexts, answers = (outcomes.where(task=task).frame for task in ("contexts", "answers"))
    both = [arm for arm in contexts.arm.unique() if arm in set(answers.arm)]
    if len(both) < 2:
        return Decision(
            "not run", "It needs contexts and answers of two arms.", reason="no answers"
        )
    mine = answers[answers.arm == both[0]]
    first, second = (
        _table(of, measure, both) for of, measure in ((contexts, "precision"), (answers, "f1"))
    )
    x, y = (values - values.mean(axis=1, keepdims=True) for values in (first, second))
    codes = pd.factorize(mine.cluster)[0]

    def correlation(a: Floats, b: Floats) -> float:
        # equal scores of a question stay equal, whatever their mean leaves of them
        ranks = [rankdata(np.round(of.ravel(), 12)) for of in (a, b)]
        return float(np.corrcoef(*ranks)[0, 1]) if ranks[0].std() and ranks[1].std() else 0.0

    def of_rows(rows: Floats) -> float:
        chosen = rows.astype(np.int64)
        return correlation(x[chosen], y[chosen])

    score = bootstrap(np.arange(len(x)), of_rows, clusters=codes, seed=seed, draws=outcomes.draws)
    rng = np.random.default_rng(seed)
    arms = np.tile(np.arange(x.shape[1]), (codes.max() + 1, 1))
    chance = [
        correlation(np.take_along_axis(x, rng.permuted(arms, axis=1)[codes], axis=1), y)
        for _ in range(outcomes.draws)
    ]
    p = (1 + sum(abs(r) >= abs(score.value) - 1e-12 for r in chance)) / (outcomes.draws + 1)
    value, low, high = (figures.signed(part, 3) for part in (score.value, score.low, score.high))
    why = (
        f"Within {len(x)} questions, over {len(both)} methods, the rank correlation of context precision and F1 is "
        f"{value} [{low}, {high}], {figures.p_words(p)}."
    )
    return Decision(decisions.better(score, p, worthwhile=CORRELATION), why, p)


def _table(rows: pd.DataFrame, measure: str, arms: list[str]) -> Floats:
    """(questions, arms) of a measure, in the order of the rows."""
    values = rows.assign(value=[of[measure][0] for of in rows.measures]).pivot(
        index="unit", columns="arm"
    )["value"]
    return np.asarray(values.loc[rows.unit.unique(), arms], dtype=np.float64)
