"""Checks for ways in which the scores of a table of answers mislead."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import fisher_exact
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import linear_kernel

from evaluation import figures, paired
from evaluation.measures import measure_label
from evaluation.metrics import ALPHA, Column, proportion
from evaluation.outcomes import Outcomes
from evaluation.paired import Paired

PLACE: Final = "place"
"""Measure: characters of what the model was shown, to the end of what had to be found."""
OWN: Final = "own document"
"""Stratum of two values: whether the document that has the answer could be retrieved."""
MEASURES: Final = ("accuracy", "right", "exact", "precision", "f1", "answer_found")
JUDGE_SCORES: Final = ("correctness", "rating", "score", "p_yes")
"""Measures of a judge, any of which orders answers."""
MAX_LABELS: Final = 30
MAX_QUESTIONS: Final = 2000
"""Questions of which floors and pairs of arms are compared."""
SUBSET: Final = (
    f"Floors and pairs of arms are compared on at most {MAX_QUESTIONS:,} evenly spaced questions"
)
MIN_SHARED_UNITS: Final = 10
ROWS_BESIDE_CUT: Final = 50
WRONG_SHARE: Final = 0.9
"""A label that is answered for this share of wrong questions is read off their words."""


@dataclass(frozen=True)
class CheckedPart:
    """Rows under one check.

    Attributes:
        where: Name of the rows.
        numbers: Their numbers, in words.
        suspect: Whether these differ in the way that misleads.
        p: The p-value; 0 if there is no test.
    """

    where: str
    numbers: str
    suspect: bool
    p: float = 0.0


def labels_in_names(out: Outcomes) -> Iterator[CheckedPart]:
    """Find labels that are answered where a word contains them ("yes" in "eyes"), though wrong."""
    for where, rows in _groups(out, "question", "predicted", "gold"):
        if rows.gold.nunique() > MAX_LABELS:
            continue
        for label in sorted(set(rows.gold)):
            others = rows[rows.gold != label]
            escaped = re.escape(label)
            pattern = rf"\w{escaped}|{escaped}\w"
            is_inside = others.question.str.contains(pattern, case=False)
            is_label = others.predicted == label
            if 0 < is_inside.sum() < len(others):
                text = f'wrongly {label} where "{label.lower()}" is part of a word:'
                hits = is_label[is_inside]
                suspect = hits.mean() >= WRONG_SHARE
                yield _compare_shares(where, text, hits, is_label[~is_inside], suspect=suspect)


def cut_off(out: Outcomes) -> Iterator[CheckedPart]:
    """Find places after which less than half as many of 50 answers are right as before."""
    for where, group in _groups(out):
        rows = group[_has_measures(group, PLACE, "accuracy")]
        if len(rows) < 2 * ROWS_BESIDE_CUT:
            continue
        pairs = [(values[PLACE][0], values["accuracy"][0] > 0) for values in rows.measures]
        pairs.sort()
        hits = np.array([hit for _, hit in pairs])
        cut = _best_cut(hits)
        before = hits[cut - ROWS_BESIDE_CUT : cut]
        after = hits[cut : cut + ROWS_BESIDE_CUT]
        place = f"character {pairs[cut - 1][0]:,.0f}"
        text = f"right answers just after {place}:"
        suspect = after.mean() < before.mean() / 2
        yield _compare_shares(where, text, after, before, suspect=suspect, others="just before it")


def _best_cut(hits: NDArray[np.bool_]) -> int:
    """The cut with the fewest rows on the wrong side: found before it, missed after it."""
    balance = np.cumsum(np.where(hits, 1, -1))
    inner = balance[ROWS_BESIDE_CUT - 1 : len(hits) - ROWS_BESIDE_CUT]
    return ROWS_BESIDE_CUT + int(np.argmax(inner))


def leakage(out: Outcomes) -> Iterator[CheckedPart]:
    """Find significant gains that depend on whether the source of the answer was in the index."""
    for where, group in _groups(out, by_arm=False):
        has_stratum = [OWN in strata for strata in group.strata]
        rows = group[np.array(has_stratum, dtype=bool)]
        own = rows.strata.map(lambda strata: strata[OWN])
        if own.nunique() != 2:
            continue
        measure, _ = _main_measure(rows)
        tests = _tests_of_all_pairs(rows, out.draws)
        adjusted = paired.holm([test.p for test in tests.values()])
        for (pair, test), p in zip(tests.items(), adjusted, strict=True):
            arms = pair if test.difference > 0 else (pair[1], pair[0])
            gains = _gains_by_stratum(rows, own, arms, out.draws)
            if p < ALPHA and len(gains) == 2:
                yield _leak(where, arms, measure, gains)


def _tests_of_all_pairs(rows: pd.DataFrame, draws: int) -> dict[tuple[str, str], Paired]:
    tests = {}
    for pair in combinations(rows.arm.unique(), 2):
        test = _paired_test(rows, pair, draws)
        if test:
            tests[pair] = test
    return tests


def _gains_by_stratum(
    rows: pd.DataFrame, own: pd.Series, arms: tuple[str, str], draws: int
) -> dict[str, Paired]:
    gains = {}
    for value in own.unique():
        gain = _paired_test(rows[own == value], arms, draws)
        if gain:
            gains[str(value)] = gain
    return gains


def _leak(where: str, arms: tuple[str, str], measure: str, gains: dict[str, Paired]) -> CheckedPart:
    """Suspect if the intervals of both gains have nothing in common."""
    texts = [f"{value} {_points_text(gain)}" for value, gain in gains.items()]
    highest_low = max(gain.low for gain in gains.values())
    lowest_high = min(gain.high for gain in gains.values())
    compared = f"{measure_label(measure)}, {' minus '.join(arms)}"
    return CheckedPart(where, f"{compared}: {'; '.join(texts)}", highest_low > lowest_high)


def floors(out: Outcomes) -> Iterator[CheckedPart]:
    """Compare arms with what is right without a method.

    That is the commonest label, the label of the nearest or the same question, or, where
    the answers are names, those that stand beside a doubled blank.
    """
    for where, rows in _groups(out, "gold", by_arm=False):
        questions = rows.drop_duplicates("unit").iloc[:: _step(rows.unit.nunique())]
        n_labels = questions.gold.nunique()
        if 1 < n_labels <= min(MAX_LABELS, len(questions) / 2):
            yield from _compare_with_floor(where, rows, questions, out.draws)
        else:
            yield from _names_beside_blanks(where, questions)


def _names_beside_blanks(where: str, questions: pd.DataFrame) -> Iterator[CheckedPart]:
    is_beside = []
    texts = questions.question.fillna("")
    for text, names in zip(texts, questions.gold, strict=True):
        for name in names.split("|"):
            spaced = f" {name} "
            if spaced in text:
                is_beside.append(f" {spaced}" in text or f"{spaced} " in text)
    if is_beside:
        text = f"true names beside a doubled blank: {_share_text(is_beside)}"
        yield CheckedPart(where, text, 2 * sum(is_beside) > len(is_beside))


def _compare_with_floor(
    where: str, rows: pd.DataFrame, questions: pd.DataFrame, draws: int
) -> Iterator[CheckedPart]:
    """Compare each arm with the best floor."""
    gold = questions.gold.to_numpy()
    labels_by_floor = _floor_labels(questions)
    shares = {name: float((labels == gold).mean()) for name, labels in labels_by_floor.items()}
    best = max(shares, key=lambda name: shares[name])
    is_right = pd.Series(labels_by_floor[best] == gold, index=questions.unit)
    answered = rows[rows.unit.isin(is_right.index) & rows.predicted.notna()]
    if answered.model.any():
        answered = answered[answered.model != ""]
    for arm, own_rows in answered.groupby("arm"):
        hits = own_rows.predicted == own_rows.gold
        floor_hits = is_right[own_rows.unit].to_numpy()
        test = paired.paired_means(hits, floor_hits, clusters=own_rows.cluster, draws=draws)
        shares_text = f"{arm} {_share_text(hits)} against {best} {_share_text(floor_hits)}"
        suspect = test.difference <= 0 or test.p >= ALPHA
        yield CheckedPart(where, f"{shares_text}: {_points_text(test)}", suspect)


def _floor_labels(questions: pd.DataFrame) -> dict[str, NDArray[np.object_]]:
    """The label of each question by each floor."""
    gold = questions.gold.to_numpy()
    texts = questions.question.fillna("")
    commonest = questions.gold.mode()[0]
    labels = {"the most common label": np.full(len(gold), commonest)}
    if texts.str.contains(r"\w\w").any():
        similarity = linear_kernel(TfidfVectorizer().fit_transform(texts))
        clusters = questions.cluster.to_numpy()
        similarity[clusters[:, None] == clusters] = -1
        nearest = similarity.argmax(axis=1)
        labels["the label of the nearest question of another cluster"] = gold[nearest]
    same_text = texts.str.casefold().where(texts != "")
    by_text = questions.gold.groupby(same_text)
    of_same_text = by_text.shift().combine_first(by_text.shift(-1))
    if of_same_text.notna().any():
        filled = of_same_text.fillna(commonest).to_numpy()
        labels["the label of the same question in another row"] = filled
    return labels


def duplicates(out: Outcomes) -> Iterator[CheckedPart]:
    """Find test questions that are in another split too, or again under another cluster."""
    has_question = out.frame.question.fillna("").astype(bool)
    rows = out.frame[(out.frame.of == "") & has_question]
    for task, questions in rows.drop_duplicates(["task", "split", "unit"]).groupby("task"):
        texts = questions.question.str.casefold().str.split().str.join(" ")
        is_test = questions.split == "test"
        if not is_test.any():
            continue
        test_texts = texts[is_test]
        n_clusters = questions[is_test].cluster.groupby(test_texts).transform("nunique")
        is_repeated = n_clusters > 1
        is_taught = test_texts.isin(set(texts[~is_test]))
        text = f"repeated in another cluster: {_share_text(is_repeated)}"
        if not is_test.all():
            text += f"; repeated in another split: {_share_text(is_taught)}"
        yield CheckedPart(str(task), text, bool(is_repeated.any() or is_taught.any()))


def clusters_ignored(out: Outcomes) -> Iterator[CheckedPart]:
    """Find leads of the best arm that are significant only if questions are independent."""
    for where, group in _groups(out, by_arm=False):
        measure, rows = _main_measure(group)
        if rows.cluster.nunique() == rows.unit.nunique():
            continue
        values = [values[measure][0] / values[measure][1] for values in rows.measures]
        means = pd.Series(values, index=rows.index).groupby(rows.arm).mean()
        best = means.idxmax()
        for arm in means.index:
            test = None
            if arm != best:
                test = _paired_test(rows, (str(best), str(arm)), out.draws)
            if test:
                yield _clustered_lead(where, rows, (str(best), str(arm)), test, out.draws)


def _clustered_lead(
    where: str, rows: pd.DataFrame, pair: tuple[str, str], test: Paired, draws: int
) -> CheckedPart:
    text = f"{' minus '.join(pair)}, by cluster {_points_text(test)}"
    if test.p < ALPHA:
        return CheckedPart(where, text, suspect=False)
    by_question = _paired_test(rows.assign(cluster=rows.unit), pair, draws)
    if by_question is None:
        return CheckedPart(where, text, suspect=False)
    text += f"; by question {_points_text(by_question)}"
    return CheckedPart(where, text, by_question.p < ALPHA)


def judges_at_chance(out: Outcomes) -> Iterator[CheckedPart]:
    """Find judges whose AUC, right answers against wrong ones, may be one half."""
    is_judge = (out.frame.of != "") | out.frame.arm.str.startswith("judge")
    judgements = out.frame[is_judge & out.frame.gold.isin(["YES", "NO"])]
    for (task, arm, model), rows in judgements.groupby(["task", "arm", "model"]):
        measure = _judge_score(rows)
        if measure and rows.gold.nunique() == 2:
            score = Outcomes(rows).score(f"auc({measure})")
            names = dict.fromkeys((str(task), out.label(str(arm)), str(model)))
            score_text = figures.score_text(score, "ratio")
            text = f"{' '.join(names)}: AUC {score_text}, n = {score.n:,}"
            yield CheckedPart("", text, score.low <= 0.5)


def _judge_score(rows: pd.DataFrame) -> str:
    """The first measure of a judge that all rows have; empty if there is none."""
    for name in JUDGE_SCORES:
        if all(name in measures for measures in rows.measures):
            return name
    return ""


def _groups(
    out: Outcomes, *columns: str, by_arm: bool = True
) -> Iterator[tuple[str, pd.DataFrame]]:
    """Group the first answers to test questions.

    Args:
        out: The answers.
        *columns: Columns that a row must have.
        by_arm: Whether to group by arm with its model, too, and not by task alone.

    Yields:
        The name of a group, and its rows.
    """
    frame = out.frame
    rows = frame[(frame.split == "test") & (frame.of == "") & (frame.repeat == 0)]
    if columns:
        rows = rows[rows[list(columns)].notna().all(axis=1)]
    models = rows.model.where(rows.model != "")
    n_models = models.groupby([rows.source, rows.task]).transform("nunique")
    model_suffix = ", " + rows.model
    names_model = (n_models > 1) & (rows.model != "")
    labels = rows.arm.map(out.label)
    rows = rows.assign(arm=labels + model_suffix.where(names_model, ""))
    keys = ["source", "task"]
    if by_arm:
        keys.append("arm")
    for key, group in rows.groupby(keys):
        parts = [str(part) for part in key[1:] if part]
        yield ", ".join(parts), group


def _has_measures(rows: pd.DataFrame, *names: str) -> NDArray[np.bool_]:
    """Whether each row has the measures."""
    has_all = [set(names) <= values.keys() for values in rows.measures]
    return np.array(has_all, dtype=bool)


def _main_measure(rows: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """The first of the measures that most rows have, and the rows that have it."""
    masks = {}
    counts = {}
    for name in MEASURES:
        denominators = [values.get(name, (0, 0))[1] for values in rows.measures]
        masks[name] = np.array(denominators, dtype=bool)
        counts[name] = int(masks[name].sum())
    measure = max(MEASURES, key=lambda name: counts[name])
    return measure, rows[masks[measure]]


def _paired_test(rows: pd.DataFrame, pair: tuple[str, str], draws: int) -> Paired | None:
    """Test the first arm minus the second on shared units; None if these are fewer than ten."""
    measure, rows = _main_measure(rows)
    first = rows[rows.arm == pair[0]].set_index("unit")
    second = rows[rows.arm == pair[1]].set_index("unit")
    shared = first.index.intersection(second.index)
    if len(shared) < MIN_SHARED_UNITS:
        return None
    shared = shared[:: _step(len(shared))]
    return paired.paired_ratios(
        _ratio_columns(first.loc[shared], measure),
        _ratio_columns(second.loc[shared], measure),
        clusters=first.loc[shared].cluster,
        draws=draws,
    )


def _ratio_columns(rows: pd.DataFrame, measure: str) -> tuple[Column, Column]:
    ratios = np.array([values[measure] for values in rows.measures], dtype=float)
    return ratios[:, 0], ratios[:, 1]


def _step(n: int) -> int:
    """Every how manieth of n questions to take for at most `MAX_QUESTIONS`."""
    return -(-n // MAX_QUESTIONS)


def _compare_shares(
    where: str,
    text: str,
    hits: Column,
    other_hits: Column,
    *,
    suspect: bool,
    others: str = "otherwise",
) -> CheckedPart:
    """Compare two shares by Fisher's exact test. `others` says which rows the second is of."""
    table = []
    for column in (hits, other_hits):
        n_hits = int(np.sum(column))
        table.append([n_hits, len(column) - n_hits])
    p = float(fisher_exact(table).pvalue)
    shares = f"{_share_text(hits)}, {others} {_share_text(other_hits)}"
    return CheckedPart(where, f"{text} {shares} ({figures.p_words(p)})", bool(suspect), p)


def _share_text(hits: Column) -> str:
    score = proportion(int(np.sum(hits)), len(hits))
    return f"{figures.score_text(score)} of {len(hits):,}"


def _points_text(test: Paired) -> str:
    return f"{figures.points(test)} points ({figures.p_words(test.p)}, n = {test.n:,})"
