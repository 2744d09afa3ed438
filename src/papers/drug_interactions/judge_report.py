"""What the judge of drug_interactions.md (Setup) is worth: against itself, against the truth, on planted answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from sklearn.metrics import cohen_kappa_score

from helpers.results import figures
from helpers.results.metrics import Score, auc, bootstrap
from helpers.results.record import Run
from papers.drug_interactions.answering import ARMS
from papers.drug_interactions.judge import Judged, Rating, useful
from papers.drug_interactions.qa_report import Measured, right_words
from papers.drug_interactions.questions import Asked

PASS = 4
"""The mark of correctness that says mostly right."""


def planted(known: Sequence[Asked], *, reference: bool) -> tuple[list[Judged], list[bool]]:
    """Answers known to be right and wrong, half and half, to see whether the judge can tell them apart.

    The right one says what is right, the wrong one what is right of another question of this kind of answer.

    Args:
        known: questions with known answers.
        reference: whether the judge is shown the right answer.
    """
    judged, right = [], []
    for i, question in enumerate(known):
        others = [q for q in [*known[i + 1 :], *known[:i]] if q.form.role == question.form.role]
        wrong = next((q for q in others if q.answer.isdisjoint(question.answer)), None)
        if wrong is None:
            continue
        for answer, is_right in ((question, True), (wrong, False)):
            shown = right_words(question) if reference else ""
            judged.append(Judged(question.text, right_words(answer), shown))
            right.append(is_right)
    return judged, right


def tells_apart(
    right: Sequence[bool], ratings: Sequence[Rating], clusters: Sequence[str] | None = None
) -> Score | None:
    """Area under the curve of the correctness marks of right and wrong answers; None if there are not both."""
    if len(set(right)) < 2:
        return None
    return auc(list(right), [r.correctness for r in ratings], clusters=clusters)


def truth_of_ratings(measured: Measured, known: Sequence[Asked]) -> Score | None:
    """Whether the judge rates exactly right answers above others, over all arms; clustered by question."""
    right, ratings, clusters = _on_known(measured, known)
    return tells_apart(right, ratings, clusters)


def error_rates(measured: Measured, known: Sequence[Asked], draws: int) -> dict[str, Score]:
    """The share of right answers that get a mark of correctness below `PASS`, and of wrong ones that get at least it.

    Returns:
        `missed` and `passed`, clustered by question; one that has no answers is left out.
    """
    right, ratings, clusters = _on_known(measured, known)
    rates = {}
    for name, truth in (("missed", True), ("passed", False)):
        rows = [i for i, is_right in enumerate(right) if is_right is truth]
        if rows:
            wrongly = [float((ratings[i].correctness >= PASS) is not truth) for i in rows]
            rates[name] = bootstrap(wrongly, clusters=[clusters[i] for i in rows], draws=draws)
    return rates


def _on_known(measured: Measured, known: Sequence[Asked]) -> tuple[list[bool], list[Rating], list[str]]:
    """Whether each answer of all arms is exactly right, its rating, and its question."""
    right = [bool(exact) for arm in ARMS for exact in measured.sets[arm].exact]
    ratings = [rating for arm in ARMS for rating in measured.ratings[arm][: len(known)]]
    return right, ratings, [q.text for _ in ARMS for q in known]


def self_agreement(measured: Measured, draws: int) -> dict[str, Score]:
    """The judge against itself, the scale turned round: the share of equal overall marks, and weighted kappa.

    Intervals are over questions: the answers of the arms to one of them are often alike.
    """
    asked = [i for arm in ARMS for i in range(len(measured.ratings[arm]))]
    one, two = (
        np.array([2 * r.overall for arm in ARMS for r in of[arm]], dtype=int)
        for of in (measured.ratings, measured.again)
    )

    def kappa(rows: np.ndarray) -> float:
        a, b = one[rows.astype(int)], two[rows.astype(int)]
        # marks that are all the same agree no more than chance would have them
        return 0.0 if len({*a, *b}) < 2 else float(cohen_kappa_score(a, b, weights="quadratic"))

    same = bootstrap((one == two).astype(float), clusters=asked, draws=draws)
    return {"same": same, "kappa": bootstrap(np.arange(len(one)), kappa, clusters=asked, draws=min(draws, 500))}


def judge_table(
    run: Run,
    agreement: Mapping[str, Score],
    truth: Score | None,
    planted_scores: Mapping[str, Score | None],
    errors: Mapping[str, Score],
) -> pd.DataFrame:
    """What the judge is worth, kept in the record; `errors` are its `error_rates`."""
    rows: list[tuple[str, str, Score | None, str]] = [
        ("same", "same overall mark when the scale is turned round", agreement["same"], "fraction"),
        ("kappa", "weighted kappa of the two times (0: chance, 1: always the same)", agreement["kappa"], "count"),
        ("truth", "right answers of the arms rated above wrong ones (0.5: chance)", truth, "count"),
    ]
    rows += [
        (f"planted.{way.replace(' ', '_')}", f"planted right answers rated above wrong ones, {way}", score, "count")
        for way, score in planted_scores.items()
    ]
    rows += [
        (name, words, errors[name], "fraction")
        for name, words in (
            ("missed", f"right answers of the arms that it marks below {PASS} of 5"),
            ("passed", f"wrong answers of the arms that it marks {PASS} or 5"),
        )
        if name in errors
    ]
    for name, words, score, _ in rows:
        if score is not None:
            run.extra(f"questions.judge.{name}", words, score)
    return pd.DataFrame(
        [
            {
                "what": words,
                "n": score.n if score else 0,
                "value": figures.score_text(score, unit, digits=2 if unit == "count" else None),
            }
            for _, words, score, unit in rows
        ]
    )


def worth_in_words(truth: Score | None, errors: Mapping[str, Score]) -> str:
    """What the judge is worth, in half a sentence, for the reason of a claim."""
    if truth is None:
        return "nobody can say whether the judge tells right from wrong, as the answers are all right or all wrong"
    can = "tells" if useful(truth) else "does not tell"
    rates = (
        f"it marks {figures.score_text(errors['missed'])} of the right answers below {PASS} of 5, and "
        f"{figures.score_text(errors['passed'])} of the wrong ones {PASS} or 5"
    )
    area = figures.score_text(truth, "count", digits=2)
    return f"the judge {can} right from wrong (area under the curve {area}, where 0.5 is chance; {rates})"


def verdict_on_judge(
    agreement: Mapping[str, Score], truth: Score | None, planted_scores: Mapping[str, Score | None]
) -> str:
    """What to think of the judge, in Markdown."""
    if truth is None:
        return (
            "**Whether this judge can tell right from wrong cannot be said**: all answers are right, or all are wrong."
        )
    words = (
        "**This judge can tell right from wrong.**"
        if useful(truth)
        else "**This judge is useless here: it cannot tell right answers from wrong ones.**"
    )
    shown = [f"{figures.score_text(score, 'count', digits=2)} {way}" for way, score in planted_scores.items() if score]
    return (
        f"{words} Of a right and a wrong answer of the arms it rates the right one higher with a chance of "
        f"{figures.score_text(truth, 'count', digits=2)}, where 0.5 is a toss of a coin; of planted ones "
        f"{', '.join(shown) or 'no pairs could be made'}. With the scale turned round it gives the same mark in "
        f"{figures.score_text(agreement['same'])}."
    )
