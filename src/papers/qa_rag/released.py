"""What the authors released of their results, question by question, with the tests that the paper lacks.

Released are the RAGAS scores of each test question for four rankings (of those below 4 MiB), the final answers of five
arms, and the mean BERTScore of each arm. BERTScore per question is not, so it is computed again from the answers, by
the encoder at hand.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import norm, rankdata

from helpers import datasets
from helpers.datasets import Located
from helpers.results.metrics import Column, Paired, Score, bootstrap, holm, paired_means
from helpers.results.record import Run
from papers.qa_rag.data import CONTEXTS, PAIRS, SHINGLE, Data, QaRagDataError, answer_passages, read_contexts, words

ARMS = {
    "qa_rag": "QA-RAG",
    "hypothetical": "Only hypothetical answer",
    "hyde": "HyDE",
    "multiquery": "Multiquery",
    "question": "Only question",
    "hypothetical_12": "Only hypothetical answer, 12",
    "question_12": "Only question, 12",
}
"""Arms of Tables 2 to 5; the last two are those of the ablation, with half as many candidates."""
RAGAS = {arm: f"qa_rag/ragas/{arm}.csv" for arm in ("qa_rag", "question", "hypothetical")} | {
    "hypothetical_12": "qa_rag/ragas/ablation_hypothetical.csv"
}
ANSWERS = {arm: f"qa_rag/answers/{arm}.json" for arm in ("qa_rag", "multiquery", "hyde", "question", "hypothetical")}
BERTSCORE = "qa_rag/bertscore.csv"
NOTEBOOK = "qa_rag/answer_evaluation.ipynb"
METRICS = ("precision", "recall", "f1")
WHOLE = 0.95
"""Share of an answer's word sequences from which on a passage holds all of it, but for what OCR may have garbled."""

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Released:
    """The released results, one row a test question in the order of `Data.test`.

    Attributes:
        ragas: arm -> columns precision and recall (of contexts, by the authors' judge).
        answers: arm -> final answers.
        means: one row an arm with the mean precision, recall and f1 of its answers, as the authors computed them.
        encoder: of those means, as the authors' notebook names it.
        files: what was read.
    """

    ragas: Mapping[str, pd.DataFrame]
    answers: Mapping[str, Sequence[str]]
    means: pd.DataFrame
    encoder: str
    files: Sequence[Located]


def load(data: Data) -> Released:
    """Every released result, checked against the test questions. There is no sample of them.

    Raises:
        helpers.datasets.DataUnavailable: no source gives a file.
        QaRagDataError: a file is not of these questions.
    """
    files = datasets.locate_all([*RAGAS.values(), *ANSWERS.values(), BERTSCORE, NOTEBOOK], "real")
    asked = [question.text for question in data.test]
    return Released(
        ragas={arm: read_ragas(files[name].path, asked) for arm, name in RAGAS.items()},
        answers={arm: read_answers(files[name].path, len(asked)) for arm, name in ANSWERS.items()},
        means=read_bertscore(files[BERTSCORE].path),
        encoder=read_encoder(files[NOTEBOOK].path),
        files=tuple(files.values()),
    )


def read_ragas(path: Path, asked: Sequence[str]) -> pd.DataFrame:
    """Context precision and recall of each question, as RAGAS wrote them.

    Raises:
        QaRagDataError: a column or a score is missing, or the questions are not those asked, in that order.
    """
    table = pd.read_csv(path, usecols=lambda name: name in ("question", "context_precision", "context_recall"))
    if table.shape[1] != 3 or table.isna().any(axis=None):
        raise QaRagDataError(f"{path} should have question, context_precision and context_recall in every row.")
    # some titles are spelled in other characters than in the file of pairs, so the end of the question decides
    same = [words(a)[-60:] == words(b)[-60:] for a, b in zip(table.question, asked, strict=False)]
    if len(table) != len(asked) or not all(same):
        raise QaRagDataError(f"{path} should hold the {len(asked)} test questions in order; it has {len(table)} rows.")
    return table.rename(columns={"context_precision": "precision", "context_recall": "recall"})[["precision", "recall"]]


def read_answers(path: Path, n: int) -> list[str]:
    """The final answers of one arm.

    Raises:
        QaRagDataError: not a list of `n` texts.
    """
    answers = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(answers, list) or len(answers) != n or not all(isinstance(a, str) and a.strip() for a in answers):
        raise QaRagDataError(f"{path} should be a list of {n} answers, none of them empty.")
    return answers


def read_bertscore(path: Path) -> pd.DataFrame:
    """The authors' means: one row an arm of `ANSWERS`, columns precision, recall, f1.

    Raises:
        QaRagDataError: an arm or a column is missing.
    """
    names = {
        "QA_RAG": "qa_rag",
        "Multiquery_questions": "multiquery",
        "HyDE_with_reranker": "hyde",
        "Only_question": "question",
        "Only_hypothetical_answer": "hypothetical",
    }
    table = pd.read_csv(path, index_col=0).rename(index=names)
    if set(table.index) != set(ANSWERS) or set(table.columns) != set(METRICS):
        raise QaRagDataError(f"{path} should have the rows {sorted(names)} and the columns {list(METRICS)}.")
    return table.loc[list(ANSWERS), list(METRICS)]


def read_encoder(path: Path) -> str:
    """The encoder that the authors' notebook gives to BERTScore.

    Raises:
        QaRagDataError: it names none, or several.
    """
    named = set(re.findall(r"model_type=\\?['\"]([^'\"\\]+)", path.read_text(encoding="utf-8")))
    if len(named) != 1:
        raise QaRagDataError(f"{path} should name one model_type; found {sorted(named) or 'none'}.")
    return named.pop()


# ------------------------------------------------------------------------------------------------------------ scoring


def rescore(run: Run, data: Data, released: Released, draws: int) -> dict[str, Score | float]:
    """Report every printed number that a released file gives: of Tables 2 to 5 and of the text.

    Returns:
        What was reported, by id; with an interval where values per question are released.
    """
    found: dict[str, Score | float] = {}

    def report(id: str, value: Score | float, source: str, note: str = "", n: int = len(data.test)) -> None:
        found[f"qa_rag.{id}"] = value
        run.rescored(f"qa_rag.{id}", value, n=n, source=source, note=note)

    for arm, table in released.ragas.items():
        for metric in ("precision", "recall"):
            score = bootstrap(table[metric], clusters=data.test_documents, draws=draws)
            if arm != "hypothetical_12":
                report(f"table2.{arm}.{metric}_reranker", score, RAGAS[arm])
                report(f"table3.{arm}.{metric}", score, RAGAS[arm])
            if arm in ("qa_rag", "hypothetical_12"):
                report(f"table5.{arm.removesuffix('_12')}.{metric}", score, RAGAS[arm])
    for arm in ANSWERS:
        for metric in METRICS:
            note = "The authors' mean; no value per question is released."
            report(f"table4.{arm}.{metric}", float(released.means[metric][arm]), BERTSCORE, note)
    loss = released.ragas["qa_rag"].precision - released.ragas["hypothetical_12"].precision
    report("text.ablation_loss", float(loss.mean()), RAGAS["hypothetical_12"])
    pairs = len(data.questions)
    report("text.pairs", float(pairs), PAIRS, n=pairs)
    report("text.test_share", len(data.test) / pairs, CONTEXTS["qa_rag"], n=pairs)
    kept = np.mean([len(of) for of in data.released["qa_rag"].values()])
    report("text.kept", float(kept), CONTEXTS["qa_rag"])
    return found


# -------------------------------------------------------------------------------------------------------------- tests


def against(first: str, values: Mapping[str, Floats], documents: Column, draws: int) -> pd.DataFrame:
    """One arm against each other on the same questions: paired randomisation tests by document, adjusted by Holm.

    Args:
        first: the arm whose gain is tested.
        values: arm -> one value a question.
        documents: that the questions were taken from, `Data.test_documents`.
        draws: of the tests and the intervals.

    Returns:
        A row an arm: other, n, better, worse (questions), difference, low, high (95 %), p, p_holm.
    """
    others = [arm for arm in values if arm != first]
    tests = [paired_means(values[first], values[arm], clusters=documents, draws=draws) for arm in others]
    return _table(others, tests)


def detectable(first: Floats, second: Floats, documents: Column, power: float = 0.8) -> float:
    """The true difference that a two-sided paired test at 5 % would find with this power, by the normal approximation.

    Args:
        first: one value a question.
        second: the other arm's; their spread from document to document is what hides a difference.
        documents: that the questions were taken from.
        power: share of repetitions of the experiment that would find it.
    """
    gain = first - second
    summed = pd.Series(gain - gain.mean()).groupby(np.asarray(documents, dtype=object)).sum()
    error = (float((summed**2).sum()) * len(summed) / (len(summed) - 1)) ** 0.5 / len(gain)
    return float(norm.ppf(0.975) + norm.ppf(power)) * error


def _table(others: Sequence[Any], tests: Sequence[Paired]) -> pd.DataFrame:
    rows = [
        (other, t.n, t.b, t.c, t.difference, t.low, t.high, t.p, p)
        for other, t, p in zip(others, tests, holm([t.p for t in tests]), strict=True)
    ]
    names = ["other", "n", "better", "worse", "difference", "low", "high", "p", "p_holm"]
    return pd.DataFrame(rows, columns=names)


def holding(data: Data, at_least: float = WHOLE) -> pd.DataFrame:
    """Whether a passage of each released ranking holds the FDA's answer word by word: a row a question.

    This needs no judge. An answer of fewer than eight words is not looked for: its row is missing.
    """
    rows = {}
    for question in data.test:
        if len(words(question.answer).split()) >= SHINGLE:
            there = set(answer_passages(question, data.corpus, at_least))
            rows[question.id] = {arm: bool(there & set(ranking[question.id])) for arm, ranking in data.released.items()}
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(data.released)).rename_axis("question")


def documents_of(data: Data, ids: Iterable[str]) -> list[str]:
    """The document that each test question was taken from."""
    sources = {question.id: question.source for question in data.test}
    return [sources[id] for id in ids]


def holding_tests(data: Data, held: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Whether QA-RAG's passages hold more answers than those of each other ranking; columns as of `against`."""
    return against(
        "qa_rag", {str(arm): held[arm].to_numpy(dtype=float) for arm in held}, documents_of(data, held.index), draws
    )


LARGER = (
    ("question", "question_12"),
    ("hypothetical", "hypothetical_12"),
    ("qa_rag", "question_12"),
    ("qa_rag", "hypothetical_12"),
)
"""Pairs of rankings of which the first was chosen from all that the second was chosen from, and more (section 3.3)."""


def outranked(data: Data) -> pd.DataFrame:
    """Whether what the smaller pool gave is missing where the larger pool should have given it too.

    Both were cut to six by the same reranker's relevance. So a passage that the smaller pool kept, and that is more
    relevant than the last one that the larger pool kept, must be among these six, too.

    Returns:
        One row a pair of `LARGER`: larger, smaller, questions (in which such a passage is missing), of, passages
        (missing), kept (by the smaller pool, in all).
    """
    located = {file.name: file.path for file in data.files}
    contexts = {arm: read_contexts(located[name]) for arm, name in CONTEXTS.items()}
    rows = []
    for larger, smaller in LARGER:
        missing = []
        for question, kept in contexts[larger].items():
            there = {(context.document, context.text) for context in kept}
            last = min(context.relevance for context in kept)
            missing.append(
                sum(c.relevance > last and (c.document, c.text) not in there for c in contexts[smaller][question])
            )
        of = sum(map(len, contexts[smaller].values()))
        rows.append((larger, smaller, sum(map(bool, missing)), len(missing), sum(missing), of))
    return pd.DataFrame(rows, columns=["larger", "smaller", "questions", "of", "passages", "kept"])


def judged_where(data: Data, released: Released, draws: int) -> dict[str, dict[str, Score]]:
    """The judge's context recall where the answer tells what it should be.

    Returns:
        arm -> mean over the questions of which a passage holds the FDA's whole answer (`held`: it should be 1), and
        over those of which no passage holds any eight words of it in a row (`none`).
    """
    whole, some = holding(data, WHOLE), holding(data, sys.float_info.min)
    place = {question.id: row for row, question in enumerate(data.test)}
    scores = {}
    for arm, table in released.ragas.items():
        groups = {"held": whole.index[whole[arm]], "none": some.index[~some[arm]]}
        scores[arm] = {
            name: bootstrap(
                table.recall.to_numpy()[[place[id] for id in ids]], clusters=documents_of(data, ids), draws=draws
            )
            for name, ids in groups.items()
            if len(ids)
        }
    return scores


def judged_twice(data: Data, released: Released) -> pd.DataFrame:
    """Where two arms have the same passages in the same order, so that the judge was asked the same question twice.

    Returns:
        One row such a pair: question, first, second, recall_first, recall_second.
    """
    rows = []
    for row, question in enumerate(data.test):
        for first, second in combinations(released.ragas, 2):
            if data.released[first][question.id] == data.released[second][question.id]:
                recalls = [float(released.ragas[arm].recall.iloc[row]) for arm in (first, second)]
                rows.append((question.id, first, second, *recalls))
    return pd.DataFrame(rows, columns=["question", "first", "second", "recall_first", "recall_second"])


def carries_over(
    contexts: Mapping[str, Floats], answers: Mapping[str, Floats], documents: Column, seed: int, draws: int
) -> tuple[Score, float]:
    """Whether the arm with the better contexts has the better answer to the same question.

    Args:
        contexts: arm -> a score of its contexts, one a question.
        answers: arm -> a score of its answers, one a question; at least these arms.
        documents: that the questions were taken from.
        seed: of the shuffles and of the draws.
        draws: of both.

    Returns:
        Rank correlation over questions and arms of both scores less each question's mean, with an interval over
        documents, and its two-sided p-value by shuffling the arms, in the same way for all questions of a document.
    """
    first, second = (np.array([of[arm] for arm in contexts]).T for of in (contexts, answers))
    x, y = (values - values.mean(axis=1, keepdims=True) for values in (first, second))
    codes = pd.factorize(np.asarray(documents, dtype=object))[0]

    def correlation(a: Floats, b: Floats) -> float:
        # equal scores of a question stay equal, whatever their mean leaves of them
        ranks = [rankdata(np.round(of.ravel(), 12)) for of in (a, b)]
        return float(np.corrcoef(*ranks)[0, 1]) if ranks[0].std() and ranks[1].std() else 0.0

    def of_rows(rows: Floats) -> float:
        chosen = rows.astype(np.int64)
        return correlation(x[chosen], y[chosen])

    score = bootstrap(np.arange(len(x)), of_rows, clusters=codes, seed=seed, draws=draws)
    rng = np.random.default_rng(seed)
    arms = np.tile(np.arange(x.shape[1]), (codes.max() + 1, 1))
    chance = [correlation(np.take_along_axis(x, rng.permuted(arms, axis=1)[codes], axis=1), y) for _ in range(draws)]
    return score, (1 + sum(abs(r) >= abs(score.value) - 1e-12 for r in chance)) / (draws + 1)
