"""Rules of claims in `data/published/side_effects.yml` that the grammar of rules cannot express.

Each takes the rows of a run, and facts that a notebook hands over, and returns a Decision.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, product
from typing import Any, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import permutation_test, rankdata

from evaluation import decisions, evidence, figures
from evaluation.answers import Item
from evaluation.decisions import Decision, Interval, Part
from evaluation.metrics import ALPHA, Score, bootstrap, proportion, ratio, wilson
from evaluation.outcomes import AUC, Comparison, Outcomes
from evaluation.paired import Paired, paired_means
from evaluation.published import Kind, Published
from evaluation.record import Run
from evaluation.records import ArmValue
from evaluation.vocabulary import TESTED, Tested
from helpers.counting import part_in_words
from papers.side_effects.corpus import Question
from papers.side_effects.data import LEAST, Knowledge, Sider, by_name, with_least
from papers.side_effects.forward import ARMS
from papers.side_effects.prompted_names import IN_AUTHORS_PROMPT, IS_PROMPTED
from papers.side_effects.reverse import ABSENT, BEYOND, INSIDE, TIERS, Query, tier_of

FAST = 10
"""Text takes more than this many times as long as the graph: this project's reading of "far"."""
MIN_QUERIES = 6
"""With fewer no paired randomisation test can be significant at 5 %: 2 / 2**5 is 0.06."""
MIN_CORRELATED_QUERIES = 4
"""With fewer a rank correlation has no interval."""
NORMAL_95 = 1.96
"""Half-width of a 95 % interval, in standard errors of a normal distribution."""
RECOVERED_ARMS = ("format_b", "graphrag")
"""The architectures of Table 5."""
OPEN_BOOK_ARMS = ("format_a", *RECOVERED_ARMS)
"""The architectures with retrieval."""
MOST = 0.5
"""More than this share is this project's reading of "most"."""
_NEEDS_TWO_MODELS = "The rule needs the answers of two models."


def model_difference_small(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401  # other rules' facts
    """Decide whether the choice of arm matters more than that of model (Table 3; Discussion).

    The smallest difference between neighbouring arms, minus the largest between models, with a
    bootstrap over drugs.
    """
    rows = outcomes.where(arm=ARMS).frame
    models = sorted(rows.model.unique())
    if len(models) < 2:
        return Decision("not tested", _NEEDS_TWO_MODELS, reason="one model")
    # the arms may have answered different numbers of questions
    answerer = rows.model.astype(str) + rows.arm.astype(str)
    n_answerers = answerer.groupby(rows.unit).transform("nunique")
    rows = rows[n_answerers == len(models) * len(ARMS)]
    hits, n_questions = _hits_per_drug(rows, models)

    def margin(times_drawn: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the margin of each draw; a draw says how often each drug is in it."""
        n_drawn = (times_drawn @ n_questions)[:, None, None]
        accuracy = (times_drawn @ hits.transpose(0, 2, 1)).transpose(1, 0, 2) / n_drawn
        between_arms = np.abs(np.diff(accuracy, axis=2)).min(axis=(1, 2))
        between_models = (accuracy.max(axis=1) - accuracy.min(axis=1)).max(axis=1)
        return np.asarray(between_arms - between_models)

    n_drugs = len(n_questions)
    equal_chances = np.full(n_drugs, 1 / n_drugs)
    rng = np.random.default_rng(0)
    drawn = rng.multinomial(n_drugs, equal_chances, size=outcomes.draws)
    value = float(margin(np.ones((1, n_drugs), dtype=np.int64))[0])
    low, high = (float(bound) for bound in np.percentile(margin(drawn), [2.5, 97.5]))
    n = int(n_questions.sum())
    points = figures.points_text(value, min(low, value), max(high, value))
    why = (
        "The smallest difference in accuracy between neighbouring architectures of Table 3, minus "
        f"the largest difference between {' and '.join(models)}, is {points} points (n = {n:,})."
    )
    return Decision(decisions.above(Score(value, n, low, high), 0), why)


def _hits_per_drug(
    rows: pd.DataFrame, models: Sequence[str]
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Count right answers, of shape (models, arms, drugs), and the questions of each drug."""
    is_right = (rows.predicted == "YES") == (rows.gold == "YES")
    rows = rows.assign(right=is_right)
    table = rows.pivot_table("right", "cluster", ["model", "arm"], aggfunc="sum")
    columns = [(model, arm) for model in models for arm in ARMS]
    hits = table[columns].to_numpy(dtype=float).T.reshape(len(models), len(ARMS), -1)
    of_one_answerer = rows[(rows.arm == ARMS[0]) & (rows.model == models[0])]
    n_questions = of_one_answerer.groupby("cluster").size().to_numpy()
    return hits, np.asarray(n_questions, dtype=np.int64)


ALIKE = 0.98
"""Above this share of pairs alike, the model only words: the two points of the ceiling."""
SUBSTANTIAL = 0.5
"""GraphRAG removes more than this share of text's errors: this project's "substantially"."""
FAR = 0.1
"""The gain in accuracy that "far", "much" and "substantially" ask for in this book: ten points."""
FEWEST_REMOVED = -1.0
"""A lower end below this, twice text's errors, is written as this; it says nothing."""
TEXT_FORMATS = ("format_a", "format_b")
AUTHORS_CLOSED_BOOK = ("authors_query", "authors_batch")
"""The closed book with the authors' prompts, for one question and for a batch."""
HOLDS: Mapping[Tested, str] = {
    "agrees": "holds",
    "differs": "does not hold",
    "inconclusive": "remains open",
}
"""What a reading says of a claim, in words that fit either question about it."""
IF_SUBSTANTIALLY = 'If "substantially" means'
"""Begins the name of a reading."""
HANDED = "handed"
"""Measure of an answer: 1 if its prompt states the pair, 0 if not."""
AUC_MEASURE = "p_yes"
"""Ranks the pairs of an arm; `outcomes.AUC` is its area under the curve."""


def filter_decides(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401  # other rules' facts
    """Decide whether what is retrieved and filtered, and not the model, decides (Discussion).

    In released runs, which do not say what was retrieved, two models that search the same stores
    must answer a pair alike. In a rerun, the answer must be what the prompt states. A rerun has
    answers to two sets of prompts; where these disagree, the claim stays open.
    """
    rows = outcomes.where(arm=WITH_RETRIEVAL).frame
    missing = [arm for arm in WITH_RETRIEVAL if arm not in set(rows.arm)]
    if missing:
        return _no_answers(outcomes, missing)
    if (rows.source == "released").all():
        return _decide_alike(outcomes, rows)
    by_text = _decide_repeated(outcomes, WITH_RETRIEVAL)
    authors_arms = [f"authors_{arm}" for arm in WITH_RETRIEVAL]
    if not set(authors_arms) <= outcomes.arms_with(HANDED):
        return replace(by_text, why=f"The prompts are those of the paper's text. {by_text.why}")
    readings = {
        "With the prompts printed in the paper": by_text,
        "With the authors' released prompts": _decide_repeated(outcomes, authors_arms),
    }
    return _join_readings(readings)


def _no_answers(outcomes: Outcomes, arms: Sequence[str]) -> Decision:
    """The decision where some arms did not answer."""
    names = figures.listed([outcomes.label(arm) for arm in arms])
    return Decision("not tested", f"There are no answers by {names}.", reason="no answers")


def _decide_repeated(outcomes: Outcomes, arms: Sequence[str]) -> Decision:
    """Decide by the answers that repeat what their prompt states, of each arm and model."""
    rows = outcomes.where(arm=arms).frame
    is_stated = rows.measures.map(lambda measures: measures[HANDED][0] == 1)
    rows = rows.assign(alike=(rows.predicted == "YES") == is_stated, stated=is_stated)
    parts = []
    counts = []
    for (model, arm), of_arm in rows.groupby(["model", "arm"], sort=False):
        name = outcomes.label(str(arm))
        label = f"with {model}, the share of answers of {name} that repeat what the prompt states"
        parts.append(_part_alike(of_arm, label, outcomes.draws, words=label))
        of_stated = of_arm[of_arm.stated]
        n_denied = int((of_stated.predicted != "YES").sum())
        if n_denied:
            counts.append(
                f"With {model}, the answer of {name} is not YES for "
                f"{part_in_words(n_denied, len(of_stated), 'pair')} that its prompts state."
            )
    decision = _decide_parts(parts, ALIKE)
    return replace(decision, why=" ".join([decision.why, *counts]))


def _decide_alike(outcomes: Outcomes, rows: pd.DataFrame) -> Decision:
    """Decide by the pairs that all models of released rows answer alike."""
    models = sorted(rows.model.unique())
    if len(models) < 2:
        return Decision("not tested", _NEEDS_TWO_MODELS, reason="one model")
    parts = []
    for arm in WITH_RETRIEVAL:
        of_arm = rows[rows.arm == arm].assign(yes=lambda frame: frame.predicted == "YES")
        pairs = of_arm.groupby(["unit", "cluster"], as_index=False).yes.agg(["nunique", "size"])
        pairs = pairs[pairs["size"] == len(models)]
        pairs = pairs.assign(alike=pairs["nunique"] == 1)
        names = " and ".join(models)
        label = f"the share of pairs that {names} answer alike by {outcomes.label(arm)}"
        words = f"with {outcomes.label(arm)}, the share of pairs that {names} answer alike"
        parts.append(_part_alike(pairs, label, outcomes.draws, words))
    return _decide_parts(parts, ALIKE)


def _part_alike(rows: pd.DataFrame, label: str, draws: int, words: str = "") -> Part:
    """Score the column ``alike``, with a bootstrap over the column ``cluster``."""
    alike = rows.alike.to_numpy(dtype=float)
    score = ratio(alike, np.ones(len(alike)), clusters=rows.cluster.to_numpy(), draws=draws)
    return Part(score, partial(decisions.above, bound=ALIKE), label, bound=ALIKE, words=words)


def _decide_parts(parts: Sequence[Part], bound: float) -> Decision:
    """Decide a claim that holds only if each of some shares lies above a bound."""
    texts = []
    for part in parts:
        subject = part.words or part.label
        texts.append(evidence.score_sentence(subject, cast(Score, part.interval)))
    return decisions.decide_by_intervals(parts, (bound,), why=" ".join(texts))


def retrieval_beats_closed_book(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether each architecture with retrieval is far more accurate (first key finding).

    A rerun has answers to two sets of prompts. Where these disagree, the claim stays open.
    """
    by_text = _decide_gains(outcomes, WITH_RETRIEVAL, ["closed_book"])
    authors_arms = [f"authors_{arm}" for arm in WITH_RETRIEVAL]
    if by_text.verdict not in TESTED or not set(authors_arms) & set(outcomes.arms):
        return by_text
    by_authors = _decide_gains(outcomes, authors_arms, AUTHORS_CLOSED_BOOK)
    readings = {
        "With the prompts printed in the paper": by_text,
        "With the authors' released prompts": by_authors,
    }
    return _join_readings(readings)


def _decide_gains(
    outcomes: Outcomes,
    first: Sequence[str],
    than: Sequence[str],
    measure: str = "accuracy",
    within: str = "model",
) -> Decision:
    """Decide whether some arms are better than others by more than `FAR`, by default each model."""
    arms = [*first, *than]
    missing = [arm for arm in arms if arm not in outcomes.arms]
    if missing:
        return _no_answers(outcomes, missing)
    rows = outcomes.where(arm=arms)
    comparisons = rows.compare(list(product(first, than)), measure, within=within)
    n_clusters = rows.frame.cluster.nunique()
    name = _MEASURE_NAMES[measure]
    why = " ".join(_gain_in_words(rows, comparison, name) for comparison in comparisons)
    if not decisions.enough_clusters(n_clusters, len(comparisons)):
        return decisions.too_few_clusters(n_clusters, why)
    parts = [_part_of_gain(rows, comparison, name) for comparison in comparisons]
    largest_p = max(comparison.p for comparison in comparisons)
    return decisions.decide_by_intervals(parts, (FAR,), why=why, p=largest_p)


_MEASURE_NAMES = {"accuracy": "accuracy", "f1": "F1"}


def _is_far(difference: Interval, p: float) -> Tested:
    """Whether a gain exceeds `FAR`; a difference that is not significant leaves it open."""
    verdict = decisions.better(difference, p, margin=FAR)
    return "inconclusive" if verdict == "differs" and p >= ALPHA else verdict


def _part_of_gain(outcomes: Outcomes, comparison: Comparison, measure: str) -> Part:
    names = [outcomes.label(arm) for arm in (comparison.first, comparison.second)]
    arms = []
    for name, score in zip(names, comparison.scores, strict=True):
        arms.append(ArmValue(label=name, value=score.value))
    label = ", ".join(filter(None, (" minus ".join(names), measure, comparison.model)))
    criterion = partial(_is_far, p=comparison.p)
    words = _difference_in_words(names, measure, comparison.model)
    return Part(
        comparison.test,
        criterion,
        label,
        bound=FAR,
        words=words,
        arms=tuple(arms),
        measure=comparison.measure,
        where=comparison.conditions,
    )


def _difference_in_words(names: Sequence[str], measure: str, model: str) -> str:
    """Name the difference of two arms in a measure, as the subject of a sentence."""
    difference = f"the {measure} of {names[0]} minus that of {names[1]}"
    return f"with {model}, {difference}" if model else difference


def _gain_in_words(outcomes: Outcomes, comparison: Comparison, measure: str) -> str:
    return evidence.comparison_sentence(
        comparison,
        (outcomes.label(comparison.first), outcomes.label(comparison.second)),
        measure,
        condition=f"With {comparison.model}" if comparison.model else "",
    )


def _join_readings(readings: Mapping[str, Decision]) -> Decision:
    """Give the verdict of several fair readings of a claim, which stays open where they disagree.

    Args:
        readings: The decision by the name of its reading, which begins a sentence.
    """
    parts = list(readings.values())
    untested = [decision for decision in parts if decision.verdict not in TESTED]
    if untested:
        return untested[0]
    texts = []
    for name, decision in readings.items():
        texts.append(f"{name}, the claim {HOLDS[cast(Tested, decision.verdict)]}. {decision.why}")
    verdicts = {decision.verdict for decision in parts}
    verdict = verdicts.pop() if len(verdicts) == 1 else "inconclusive"
    p_values = [decision.p for decision in parts if decision.p is not None]
    estimates = tuple(chain.from_iterable(decision.estimates for decision in parts))
    # the readings have bounds of their own, from which no one number of units follows
    return Decision(verdict, " ".join(texts), max(p_values, default=None), estimates=estimates)


def graphrag_far_above_text(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether GraphRAG substantially outperforms either text format (Introduction).

    Two fair readings decide together: the lead in points, and the share of text's errors that the
    graph removes. In a rerun the answers to the authors' prompts decide, in which the model reads
    the texts itself.
    """
    is_released = bool((outcomes.frame.source == "released").all())
    prefix = "" if is_released else "authors_"
    graph, *texts = [f"{prefix}{arm}" for arm in ("graphrag", *TEXT_FORMATS)]
    in_points = _decide_gains(outcomes, [graph], texts)
    if in_points.verdict not in TESTED:
        return in_points
    readings = {
        f"{IF_SUBSTANTIALLY} a lead of more than ten points": in_points,
        f"{IF_SUBSTANTIALLY} that the graph removes more than half of text retrieval's errors": (
            _decide_errors(outcomes, graph, texts)
        ),
    }
    return _join_readings(readings)


def graphrag_far_above_text_on_sets(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether GraphRAG substantially outperforms either text format on sets (Introduction).

    The two readings of `graphrag_far_above_text`, of F1.
    """
    in_points = _decide_gains(outcomes, ["graphrag"], TEXT_FORMATS, "f1", within="")
    if in_points.verdict not in TESTED:
        return in_points
    readings = {
        f"{IF_SUBSTANTIALLY} a lead of more than ten points of F1": in_points,
        f"{IF_SUBSTANTIALLY} that the graph closes more than half of the gap between text "
        "retrieval's F1 and 100 %": _decide_shortfalls(outcomes),
    }
    return _join_readings(readings)


def _decide_shortfalls(outcomes: Outcomes) -> Decision:
    """Decide whether the graph makes up more than `SUBSTANTIAL` of what each text's F1 lacks.

    An F1 of the graph of 100 % has no sampling error: the graph is also the answer key. For any
    other, the limits are those of the two intervals, the least favourable together.
    """
    parts = []
    sentences = []
    for text in TEXT_FORMATS:
        by_arm = outcomes.where(arm=["graphrag", text])
        graph_f1, text_f1 = by_arm.score("f1", "graphrag"), by_arm.score("f1", text)
        name = outcomes.label(text)
        if text_f1.value == 1:
            return Decision("not tested", f"The F1 of {name} is 100 %.", reason="too few")
        share = _share_made_up(graph_f1, text_f1)
        label = f"what the F1 of {name} lacks and the graph makes up"
        words = f"the share of the gap between the F1 of {name} and 100 % that the graph closes"
        criterion = partial(decisions.above, bound=SUBSTANTIAL)
        parts.append(Part(share, criterion, label, bound=SUBSTANTIAL, words=words))
        sentences.append(_made_up_in_words(share, name))
    return decisions.decide_by_intervals(parts, (SUBSTANTIAL,), why=" ".join(sentences))


def _share_made_up(graph_f1: Score, text_f1: Score) -> Score:
    """Return the share of what text's F1 lacks that the graph makes up, with its limits."""
    if graph_f1.value == 1:
        return Score(1.0, text_f1.n, 1.0, 1.0)
    value = _made_up(graph_f1.value, text_f1.value)
    low = max(FEWEST_REMOVED, _made_up(graph_f1.low, text_f1.high))
    return Score(value, text_f1.n, low, _made_up(graph_f1.high, text_f1.low))


def _made_up_in_words(share: Score, text: str) -> str:
    """Write the share in a sentence; ``text`` names the text arm."""
    closed = figures.number(share.value)
    sentence = f"The graph closes {closed} of the gap between the F1 of {text} and 100 %"
    if share.low == 1:
        return f"{sentence}, by construction, because the graph is also the answer key."
    if share.low > FEWEST_REMOVED:
        return f"{sentence}, at least {figures.number(share.low)}."
    return f"{sentence}. The gap is too small for an informative interval."


def _made_up(graph_f1: float, text_f1: float) -> float:
    """Return the share of what text's F1 lacks that the graph's has; `FEWEST_REMOVED` of none."""
    return 1 - (1 - graph_f1) / (1 - text_f1) if text_f1 < 1 else FEWEST_REMOVED


def _decide_errors(outcomes: Outcomes, graph: str, texts: Sequence[str]) -> Decision:
    """Decide whether the graph removes more than `SUBSTANTIAL` of the errors of each text arm."""
    parts = []
    sentences = []
    for model in outcomes.where(arm=[graph, *texts]).frame.model.unique():
        by_model = outcomes.where(model=str(model))
        for text in texts:
            removed = _errors_removed(by_model, graph, text)
            if removed is None:
                why = f"{outcomes.label(text)} with {model} has no error to remove."
                return Decision("not tested", why, reason="too few")
            label = f"errors of {outcomes.label(text)} with {model} that the graph removes"
            criterion = partial(decisions.above, bound=SUBSTANTIAL)
            words = (
                f"with {model}, the share of errors of {outcomes.label(text)} that the graph "
                "removes"
            )
            parts.append(Part(removed.share, criterion, label, bound=SUBSTANTIAL, words=words))
            sentences.append(removed.in_words(outcomes.label(text), model))
    return decisions.decide_by_intervals(parts, (SUBSTANTIAL,), why=" ".join(sentences))


@dataclass(frozen=True)
class _ErrorsRemoved:
    """The share of text's errors that the graph removes, and how many errors there are."""

    share: Score
    n_errors: int

    def in_words(self, text: str, model: str) -> str:
        """Write the share in a sentence; ``text`` names the text arm."""
        n = self.share.n
        if self.share.low > FEWEST_REMOVED:
            share = figures.score_text(self.share)
            return f"With {model}, the graph removes {share} of the errors of {text} (n = {n:,})."
        return (
            f"With {model}, the graph removes {figures.number(self.share.value)} of the errors of "
            f"{text}. There are too few errors for an informative interval ({self.n_errors} in "
            f"{n:,} pairs)."
        )


def _errors_removed(outcomes: Outcomes, graph: str, text: str) -> _ErrorsRemoved | None:
    """Return the share of text's errors that the graph removes, on pairs that both answered.

    Where the graph has no error, every draw would give 1; the lower end is then that of the
    largest share of errors within the graph's interval and the smallest within the text's.

    Returns:
        The share, with a bootstrap over drugs; None if text has no error.
    """
    rows = outcomes.where(arm=[graph, text]).frame
    is_wrong = (rows.predicted == "YES") != (rows.gold == "YES")
    rows = rows.assign(wrong=is_wrong.astype(float))
    wrong = rows.pivot_table("wrong", ["unit", "cluster"], "arm").dropna()
    n_errors = int(wrong[text].sum())
    if not n_errors:
        return None
    drugs = wrong.index.get_level_values("cluster").to_numpy()
    if wrong[graph].any():
        removed = wrong[text] - wrong[graph]
        share = ratio(removed, wrong[text], clusters=drugs, draws=outcomes.draws)
        return _ErrorsRemoved(share, n_errors)
    ones = np.ones(len(wrong))
    most_left = ratio(wrong[graph], ones, clusters=drugs, draws=outcomes.draws).high
    least_wrong = ratio(wrong[text], ones, clusters=drugs, draws=outcomes.draws).low
    low = 1 - most_left / least_wrong if least_wrong else FEWEST_REMOVED
    share = Score(1.0, len(wrong), max(FEWEST_REMOVED, low), 1.0)
    return _ErrorsRemoved(share, n_errors)


def authors_pairs_beat_lists(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether pairs serve better than lists by the authors' prompts (second key finding).

    Accuracy, as in the paper, and AUC: a model that answers all prompts with lists alike can rank
    them nevertheless.
    """
    pairs, lists = "authors_format_b", "authors_format_a"
    if not {pairs, lists} <= outcomes.arms_with(AUC):
        why = "There are no answers to the authors' prompts with their probabilities."
        return Decision("not tested", why, reason="no answers")
    texts = []
    parts = []
    largest_p = 0.0
    for model in outcomes.where(arm=[pairs, lists]).frame.model.unique():
        by_model = outcomes.where(model=str(model))
        (comparison,) = by_model.compare([(pairs, lists)], "accuracy")
        auc_difference = _auc_difference(by_model, pairs, lists)
        criteria: dict[str, tuple[Interval, Callable[[Interval], Tested]]] = {
            "accuracy": (comparison.test, partial(decisions.better, p=comparison.p)),
            "AUC": (auc_difference, _is_gain),
        }
        for measure, (difference, criterion) in criteria.items():
            label = f"{outcomes.label(pairs)} minus {outcomes.label(lists)}, {measure}, {model}"
            unit = "ratio" if measure == "AUC" else "fraction"
            names = (outcomes.label(pairs), outcomes.label(lists))
            words = _difference_in_words(names, measure, str(model))
            parts.append(Part(difference, criterion, label, unit, bound=0.0, words=words))
        of_model = replace(comparison, model=str(model))
        texts.append(_gain_in_words(by_model, of_model, "accuracy"))
        texts.append(_auc_in_words(by_model, comparison, auc_difference, str(model)))
        largest_p = max(largest_p, comparison.p)
    return decisions.decide_by_intervals(parts, (0.0,), why=" ".join(texts), p=largest_p)


def _is_gain(difference: Interval) -> Tested:
    """Whether a difference lies above 0; one of exactly 0 leaves it open."""
    if difference.low > 0:
        return "agrees"
    return "differs" if difference.high < 0 else "inconclusive"


def _auc_in_words(
    outcomes: Outcomes, comparison: Comparison, auc_difference: Score, model: str
) -> str:
    """Write the AUC of the two formats, and its difference."""
    arms = (comparison.first, comparison.second)
    areas = []
    for arm in arms:
        score = outcomes.score(AUC, arm)
        area = figures.score_text(replace(score, unparsed=0), "ratio")
        areas.append(f"{area} ({score.unparsed:,} unparsed)" if score.unparsed else area)
    difference = figures.score_text(auc_difference, "ratio")
    return (
        f"With {model}, the AUC of the probability of YES is {areas[0]} for "
        f"{outcomes.label(arms[0])} and {areas[1]} for {outcomes.label(arms[1])}, a difference of "
        f"{difference} (n = {auc_difference.n:,})."
    )


def _auc_difference(outcomes: Outcomes, first: str, second: str) -> Score:
    """Return the AUC of one arm minus another's, with a bootstrap over drugs."""
    rows = outcomes.where(arm=[first, second]).rows_with(AUC_MEASURE)
    p_yes = rows.measures.map(lambda measures: measures[AUC_MEASURE][0])
    rows = rows.assign(p_yes=p_yes, is_yes=rows.gold == "YES")
    table = rows.pivot_table("p_yes", ["unit", "cluster", "is_yes"], "arm").dropna().reset_index()
    drugs = [table.index[table.cluster == drug].to_numpy() for drug in table.cluster.unique()]
    is_yes = table.is_yes.to_numpy(dtype=bool)
    scores = table[[first, second]].to_numpy()

    def difference(drawn: NDArray[np.float64]) -> float:
        positions = np.concatenate([drugs[int(drug)] for drug in drawn])
        areas = [_area(scores[positions, arm], is_yes[positions]) for arm in (0, 1)]
        return areas[0] - areas[1]

    score = bootstrap(np.arange(len(drugs)), difference, draws=outcomes.draws)
    return replace(score, n=len(table))


def _area(scores: NDArray[np.float64], is_yes: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve; not a number if a label has no row."""
    n_yes = int(is_yes.sum())
    n_no = len(is_yes) - n_yes
    if not n_yes or not n_no:
        return math.nan
    rank_sum = float(rankdata(scores)[is_yes].sum())
    return (rank_sum - n_yes * (n_yes + 1) / 2) / (n_yes * n_no)


NOT_THE_GRAPHS = 0.8
"""The confidence that the authors' `graphrag.py` records where the answer is not the graph's.

It is also recorded where the graph query failed, for then the graph's answer is ERROR.
"""
MIN_ERRORS = 5
"""With fewer errors a run cannot tell where they come from."""
WITH_RETRIEVAL = [arm for arm in ARMS if arm != "closed_book"]
"""The architectures whose prompts hold what was retrieved."""


def _graphrag_errors(outcomes: Outcomes) -> pd.DataFrame | Decision:
    """Return GraphRAG's wrong answers, or the decision that they are too few."""
    rows = outcomes.where(arm="graphrag").frame
    wrong = rows[(rows.predicted == "YES") != (rows.gold == "YES")]
    if len(wrong) >= MIN_ERRORS:
        return wrong
    plural = "" if len(wrong) == 1 else "s"
    why = (
        f"GraphRAG gives only {len(wrong)} wrong answer{plural}, and the rule needs at least "
        f"{MIN_ERRORS}."
    )
    if len(wrong):
        n_rows = decisions.two_digits(math.ceil(MIN_ERRORS * len(rows) / len(wrong)))
        why += (
            f" At this rate of errors, {n_rows:,} answers contain {MIN_ERRORS} wrong answers on "
            "average."
        )
    return Decision("inconclusive", why)


def residual_errors_not_retrieval(
    outcomes: Outcomes,
    *,
    recorded: Sequence[tuple[bool, float]] = (),
    **_: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the graph held the true fact for each error of GraphRAG (Results).

    Args:
        outcomes: Answers of GraphRAG. A rerun knows the fact that it put into the prompt.
        recorded: Whether each released answer is right, and the confidence recorded with it.
    """
    wrong = _graphrag_errors(outcomes)
    if isinstance(wrong, Decision):
        return wrong
    if (wrong.source == "released").all():
        return _released_errors_decision(outcomes, wrong, recorded)
    stated = wrong.measures.map(lambda measures: measures["handed"][0])
    n_true = int((stated == (wrong.gold == "YES")).sum())
    answers = part_in_words(n_true, len(wrong), "wrong answer")
    why = f"For {answers}, the prompt stated the true fact."
    return Decision(decisions.exactly(n_true == len(wrong)), why)


def _released_errors_decision(
    outcomes: Outcomes, wrong: pd.DataFrame, recorded: Sequence[tuple[bool, float]]
) -> Decision:
    """Decide released errors by the other model's answers from the same graph.

    An error that is the graph's own answer refutes. The claim holds if the graph gave the other
    model the true fact of every error, no right answer has the confidence that a failed query
    would leave, and no error is a NO to a linked pair, which a query that failed once also leaves.
    """
    unlike = Counter(is_right for is_right, confidence in recorded if confidence == NOT_THE_GRAPHS)
    n_graphs = sum(not is_right for is_right, _ in recorded) - unlike[False]
    if n_graphs:
        return Decision("differs", f"{n_graphs} of {len(wrong)} errors are the graph's own answer.")
    n_right = sum(is_right for is_right, _ in recorded)
    n_same = _right_with_another_model(outcomes, wrong)
    n_linked = int((wrong.gold == "YES").sum())
    why = (
        f"All {len(wrong)} errors of GraphRAG have a recorded confidence of {NOT_THE_GRAPHS}. The "
        "code records this value when the model contradicts the graph, and also when the graph "
        f"query fails. For {part_in_words(n_same, len(wrong), 'pair')} of these errors, another "
        f"model gives the right answer with the same graph. Of the {n_right:,} right answers, "
        f"{_or_none(unlike[True])} have this confidence. If a query about an unlinked pair failed "
        "and the model then said NO, this right answer would also have this confidence."
    )
    if n_linked:
        why += f" {_linked_errors_in_words(len(wrong), n_linked)}"
    holds = n_same == len(wrong) and not unlike[True] and not n_linked
    return Decision("agrees" if holds else "inconclusive", why)


def _or_none(n: int) -> str:
    """Write a number, and 0 as a word."""
    return f"{n:,}" if n else "none"


def _linked_errors_in_words(n_errors: int, n_linked: int) -> str:
    """Say what the errors about linked pairs leave open."""
    chance = figures.number(0.5**n_linked)
    plural = "" if n_linked == 1 else "s"
    return (
        f"Of the {n_errors} errors, {n_errors - n_linked} are a YES to an unlinked pair and "
        f"{n_linked} a NO to a linked pair. If a query about a linked pair failed once, it would "
        "leave such a NO and no other trace. If failed queries are as likely for unlinked pairs as "
        f"for linked ones, the probability that none of {n_linked} failure{plural} concerns an "
        f"unlinked pair is {chance}."
    )


def _right_with_another_model(outcomes: Outcomes, wrong: pd.DataFrame) -> int:
    """Count the errors of GraphRAG on pairs that it answers right with another model."""
    same_pairs = outcomes.where(arm="graphrag", unit=[*wrong.unit]).frame
    others = same_pairs.drop(index=wrong.index)
    right = others[(others.predicted == "YES") == (others.gold == "YES")]
    right_by_others = set(zip(right.unit, right.model, strict=True))
    n_same = 0
    for unit, model in zip(wrong.unit, wrong.model, strict=True):
        n_same += any(pair == unit and other != model for pair, other in right_by_others)
    return n_same


def residual_errors_are_llm_mislabels(
    outcomes: Outcomes,
    *,
    recorded: Sequence[tuple[bool, float]] = (),
    **_: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether each error of GraphRAG is the model's: not retrieval's, nor the parser's.

    The released parser takes "yes" within a name for the answer; a rerun's takes whole words alone.

    Args:
        outcomes: Answers of GraphRAG, and of text retrieval about the same pairs.
        recorded: Whether each released answer is right, and the confidence recorded with it.
    """
    wrong = _graphrag_errors(outcomes)
    if isinstance(wrong, Decision) or not (wrong.source == "released").all():
        return residual_errors_not_retrieval(outcomes)
    name_has_yes = wrong.question.str.contains(r"\wyes|yes\w", case=False)
    within = (wrong.predicted == "YES") & name_has_yes
    if not within.any():
        return _released_errors_decision(outcomes, wrong, recorded)
    same_pairs = outcomes.where(arm=WITH_RETRIEVAL, unit=[*wrong.unit[within]]).frame
    others = same_pairs.drop(index=wrong.index[within])
    counts = [
        f"{(rows.predicted == 'YES').sum()} of {len(rows)} for {outcomes.label(str(arm))}"
        for arm, rows in others.groupby("arm", sort=False)
    ]
    why = (
        f'{within.sum()} of the {len(wrong)} errors of GraphRAG are a YES to an effect with "yes" '
        'in its name, as in "eyes". Where a reply repeats such a name, the released parser reads '
        "YES. Among the other answers about these pairs, the share of YES is "
        f"{figures.listed(counts)}. The authors do not release the replies."
    )
    return Decision("inconclusive", why)


def larger_models_also_struggle(
    _: Outcomes,
    *,
    printed: Published,
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the hosted models fall short of GraphRAG, by the printed numbers (Results).

    The drugs are the units of both intervals: no answers about a drug can make their mean less
    certain than one answer of YES or NO would.
    """
    hosted = [
        printed.number(f"side_effects.text.{name}").value for name in ("chatgpt_3_5", "chatgpt_4")
    ]
    with_graph = [
        printed.number(f"side_effects.{table}.graphrag.accuracy").value
        for table in ("table1", "table2")
    ]
    n_hosted = int(printed.number("side_effects.text.chatgpt_drugs").value)
    n_graph = int(printed.number("side_effects.text.drugs").value)
    best_hosted = _wilson_score(max(hosted), n_hosted)
    graph = _wilson_score(min(with_graph), n_graph)
    highest, lowest = figures.score_text(best_hosted), figures.score_text(graph)
    why = (
        f"The paper prints an accuracy of at most {highest} for a hosted model without retrieval "
        f"({n_hosted} drugs). For GraphRAG with a compact model, it prints at least {lowest} "
        f"({n_graph} drugs)."
    )
    return Decision(decisions.below(best_hosted, graph.low), why)


def _wilson_score(share: float, n: int) -> Score:
    """Return a printed share with Wilson's interval over ``n`` units."""
    return Score(share, n, *wilson(share * n, n))


def benchmark_is_balanced(
    _: Outcomes,
    *,
    benchmark: Sequence[Question],
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether each drug has ten pairs of either label and no pair is double (Methods)."""
    drugs = [question.drug for question in benchmark]
    labels = [question.label for question in benchmark]
    per_drug = pd.crosstab(drugs, labels)
    counts = per_drug.to_numpy()
    has_ten = bool((counts == 10).all())
    is_distinct = len(set(benchmark)) == len(benchmark)
    n_rows = "ten" if has_ten else f"{counts.min()} to {counts.max()}"
    why = (
        f"The benchmark has {len(benchmark):,} rows with {len(set(benchmark)):,} distinct pairs of "
        f"{len(per_drug):,} drugs. Each drug has {n_rows} rows of each label."
    )
    return Decision(decisions.exactly(has_ten and is_distinct), why)


def benchmark_labels_hold(
    _: Outcomes,
    *,
    benchmark: Sequence[Question],
    knowledge: Mapping[str, Sequence[str]],
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the labels agree with the knowledge, terms with a comma included (Methods)."""
    known = {(drug, effect) for drug, effects in knowledge.items() for effect in effects}
    positives = [question for question in benchmark if question.label]
    negatives = [question for question in benchmark if not question.label]
    unsupported = sum((q.drug, q.side_effect) not in known for q in positives)
    contradicted = sum((q.drug, q.side_effect) in known for q in negatives)
    why = (
        f"Of the {len(positives):,} pairs labelled as known, {_or_none(unsupported)} are missing "
        f"from their drug's Format A document. Of the {len(negatives):,} pairs labelled as "
        f"unlinked, {_or_none(contradicted)} are in their drug's Format A document."
    )
    return Decision(decisions.exactly(unsupported + contradicted == 0), why)


ENCODER_TOKENS = 8192
"""The most tokens that the paper's encoder, text-embedding-ada-002, reads (Results)."""
MOST_TOKENS = 3326
"""Tokens of the longest Format A document, pregabalin's.

Counted once with cl100k_base, the encoder's tokenizer, by tiktoken 0.14.0.
"""
COUNTED_SHA256 = "c56e91766b08f18af94ee965f06e77dde9ae018518a0e6dd32b168aefa0eea25"
"""The file of Format A whose tokens were counted."""


def lists_fit_the_encoder(
    _: Outcomes,
    *,
    lists_sha256: str,
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the encoder's limit suffices for the longest Format A document (Results)."""
    if lists_sha256 != COUNTED_SHA256:
        why = "The documents are not those whose tokens were counted."
        return Decision("not tested", why, reason="published, not fetched")
    why = (
        f"The longest Format A document has {MOST_TOKENS:,} tokens of cl100k_base, the encoder's "
        f"tokenizer. The encoder reads {ENCODER_TOKENS:,} tokens."
    )
    return Decision(decisions.exactly(MOST_TOKENS <= ENCODER_TOKENS), why)


def lists_exceed_10000_characters(
    _: Outcomes,
    *,
    longest: int,
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the longest Format A document exceeds 10,000 characters (Results)."""
    why = f"The longest Format A document has {longest:,} characters."
    return Decision(decisions.exactly(longest > 10_000), why)


def every_drug_with_ten_effects(
    _: Outcomes,
    *,
    sider: Sider | None,
    released: Knowledge,
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether each drug with an ATC code and ten terms in SIDER is in the benchmark."""
    if sider is None:
        return Decision(
            "not tested", "SIDER is not part of the bundled sample.", reason="no answers"
        )
    knowledge = by_name(sider.coded_terms)
    enough = set(with_least(knowledge))
    missing = enough - set(released)
    fewest_terms = min(map(len, released.values()))
    why = (
        f"{len(enough):,} drugs have at least {LEAST} preferred terms and an ATC code. Of these, "
        f"{len(missing):,} are missing from the benchmark. Each drug of the benchmark has at least "
        f"{fewest_terms} terms"
    )
    if missing:
        most_terms = max(len(knowledge[name]) for name in missing)
        why += f", and each missing drug has at most {most_terms}"
    why += "."
    return Decision(decisions.exactly(not missing), why)


def times_as_long(outcomes: Outcomes, slow: str, fast: str) -> Score | None:
    """Return the mean latency of one arm as a multiple of another's.

    Args:
        outcomes: Answers with the measure ``latency``.
        slow: The arm above the line of the ratio.
        fast: The arm below it.

    Returns:
        The ratio over the queries that both answered, with a bootstrap over queries; None if
        they share none.
    """
    slow_rows, fast_rows = _latency(outcomes, slow), _latency(outcomes, fast)
    both = slow_rows.join(fast_rows, how="inner", lsuffix="_slow", rsuffix="_fast")
    if both.empty:
        return None
    # the arm with fewer queries was drawn by tier; its weights restore the benchmark's tiers
    has_fewer = "slow" if len(slow_rows) < len(fast_rows) else "fast"
    weight = both[f"weight_{has_fewer}"]
    return ratio(
        weight * both.seconds_slow,
        weight * both.seconds_fast,
        clusters=both.index.to_numpy(),
        draws=outcomes.draws,
    )


def _latency(outcomes: Outcomes, arm: str) -> pd.DataFrame:
    """Return the seconds and the weight of each query of an arm."""
    rows = outcomes.frame[outcomes.frame.arm == arm]
    weighted = [measures["latency"] for measures in rows.measures]
    table = pd.DataFrame(weighted, columns=["seconds", "weight"], index=rows.unit)
    table["seconds"] /= table.weight
    return table


def reverse_queries_span_tiers(
    _: Outcomes,
    *,
    queries: Sequence[Query],
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether the released queries span the four tiers, and none is outside (Results)."""
    n_drugs = [len(query.drugs) for query in queries]
    sizes = Counter(map(tier_of, n_drugs))
    outside = sizes.pop(None, 0)
    counts = figures.listed([f"{sizes[tier]} {tier}" for tier in TIERS])
    n_without = f"{outside} of {len(queries)} queries belong to no tier."
    why = f"The tiers contain {counts} queries. "
    why += n_without if outside else f"Each of the {len(queries)} queries belongs to a tier."
    return Decision(decisions.exactly(not outside and len(sizes) == len(TIERS)), why)


def graph_is_faster_than_text(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether text with its LLM takes over ten times as long as the graph (Table 4)."""
    parts = []
    texts = []
    for arm in TEXT_FORMATS:
        score = times_as_long(outcomes, arm, "graphrag")
        if score is None:
            why = f"{outcomes.label(arm)} and the graph share no query that both answered."
            return Decision("not tested", why, reason="no answers")
        label = f"{outcomes.label(arm)}: mean latency as a multiple of the graph's"
        words = f"the mean latency of {outcomes.label(arm)} as a multiple of the graph's"
        criterion = partial(decisions.above, bound=FAST)
        parts.append(Part(score, criterion, label, "count", FAST, words))
        times = f"{figures.score_text(score, 'count')} times as long"
        texts.append(
            f"On the same queries, {outcomes.label(arm)} takes {times} as the graph without a "
            f"language model (n = {score.n:,})."
        )
    return decisions.decide_by_intervals(parts, (FAST,), why=" ".join(texts))


def pairs_slow_with_set_size(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether Format B takes longer for larger sets (Results, second key finding).

    Spearman's rank correlation, p by permutation, with the interval of Bonett and Wright (2000).
    """
    relevant = rankdata(outcomes.values("relevant", "format_b"))
    seconds = rankdata(outcomes.values("latency", "format_b"))
    n = len(relevant)
    if n < MIN_CORRELATED_QUERIES or not np.ptp(relevant) or not np.ptp(seconds):
        why = f"The {n} queries of Format B give no rank correlation."
        return Decision("not tested", why, reason="too few")

    def correlation(ranks: NDArray[np.float64]) -> float:
        return float(np.corrcoef(ranks, seconds)[0, 1])

    test = permutation_test(
        (relevant,),
        correlation,
        permutation_type="pairings",
        n_resamples=outcomes.draws,
        rng=np.random.default_rng(0),
    )
    score = _correlation_score(float(test.statistic), n)
    p = float(test.pvalue)
    interval = f"{score.value:.2f} [{score.low:.2f}, {score.high:.2f}]"
    found = f"{interval} ({figures.p_words(p)}, n = {n})".replace("-", "\u2212")
    why = (
        "The rank correlation between Format B's latency and a query's number of relevant drugs is "
        f"{found}."
    )
    return Decision(decisions.better(score, p), why, p)


def _correlation_score(rho: float, n: int) -> Score:
    """Return a rank correlation with its 95 % interval (Bonett and Wright 2000)."""
    half_width = NORMAL_95 * np.sqrt((1 + rho**2 / 2) / (n - 3))
    z = np.arctanh(np.clip(rho, -1 + 1e-9, 1 - 1e-9))
    low = float(np.tanh(z - half_width))
    high = float(np.tanh(z + half_width))
    return Score(rho, n, min(low, rho), max(high, rho))


@dataclass(frozen=True)
class _WindowHits:
    """Whether Format A returned the relevant drugs of one query.

    Attributes:
        within: One value for each drug whose document in the prompt shows the effect.
        beyond: One value for each drug whose document is cut before the effect.
        absent: One value for each drug whose document is not in the prompt.
    """

    within: list[bool]
    beyond: list[bool]
    absent: list[bool]

    @property
    def not_shown(self) -> list[bool]:
        """The values of all drugs whose effect the prompt does not show."""
        return self.beyond + self.absent

    @property
    def has_both(self) -> bool:
        """Whether there are drugs whose effect the prompt shows, and others."""
        return bool(self.within and self.not_shown)

    @classmethod
    def of_items(cls, items: Sequence[Item]) -> "_WindowHits":
        """Read the relevant items of a query."""
        sides: dict[str, list[bool]] = {INSIDE: [], BEYOND: [], ABSENT: []}
        for item in items:
            side = item.strata.get("window")
            if item.gold and side in sides:
                sides[side].append(bool(item.predicted))
        return cls(sides[INSIDE], sides[BEYOND], sides[ABSENT])


MOST_DRUGS = 0.5
"""Fewer than this share of the drugs is this project's reading of "under-retrieves"."""


def lists_under_retrieve(
    outcomes: Outcomes,
    *,
    shown_by_client: Sequence[float] = (),
    **_: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether Format A finds fewer than half of the drugs (Results, third key finding).

    Where the prompt shows the effect of fewer than that, a perfect reader would fail too.

    Args:
        outcomes: The answers of Format A.
        shown_by_client: The share of each query's drugs whose effect the released client shows.
    """
    rows = outcomes.where(arm="format_a")
    if rows.frame.empty:
        return Decision("not tested", "Format A has no answers.", reason="no answers")
    forced = _forced_by_window(rows)
    if forced is not None:
        return forced
    recall = rows.score("recall", "format_a")
    label = f"Recall of {outcomes.label('format_a')}"
    n_queries = len(rows.frame)
    words = f"the recall of {outcomes.label('format_a')}"
    why = evidence.score_sentence(words, recall)
    if shown_by_client and (rows.frame.source == "released").all():
        why += f" {_shown_by_client_in_words(shown_by_client)}"
    if not decisions.enough_clusters(n_queries):
        return decisions.too_few_clusters(n_queries, why)
    criterion = partial(decisions.below, bound=MOST_DRUGS)
    part = Part(recall, criterion, label, bound=MOST_DRUGS, words=words)
    return decisions.decide_by_intervals([part], (MOST_DRUGS,), why=why)


def _shown_by_client_in_words(shares: Sequence[float]) -> str:
    """Say what a perfect reader of the released client's prompts would find."""
    found_at_most = ratio(np.array(shares), np.ones(len(shares)))
    return (
        "The released client shows the model only the first characters of each list. If the "
        "printed run did the same, a perfect reader of the run's prompts would have found at most "
        f"{figures.score_text(found_at_most)} of a query's relevant drugs (n = {len(shares):,})."
    )


def _forced_by_window(rows: Outcomes) -> Decision | None:
    """Say that the prompt shows the effect of too few drugs for any reader to find half of them.

    Args:
        rows: The answers of Format A. Released ones do not say what the prompt shows.

    Returns:
        The decision; None if the prompt shows enough, or if the rows do not say.
    """
    queries = [_WindowHits.of_items(items) for items in rows.frame["items"]]
    n_shown = np.array([len(query.within) for query in queries])
    n_hidden = np.array([len(query.not_shown) for query in queries])
    n_relevant = n_shown + n_hidden
    if not n_relevant.all():
        return None
    found_at_most = ratio(n_shown / n_relevant, np.ones(len(queries)), draws=rows.draws)
    if found_at_most.high >= MOST_DRUGS:
        return None
    n_absent = np.array([len(query.absent) for query in queries])
    listed = float(np.mean(1 - n_absent / n_relevant))
    recall = figures.score_text(rows.score("recall", "format_a"))
    why = (
        "A drug counts once for each query to which it is relevant. The prompts of this run show "
        f"the effect for {n_shown.sum():,} of the {n_relevant.sum():,} relevant drugs. For "
        f"{n_absent.sum():,} relevant drugs, the prompts contain no list at all. "
        "The size of a prompt, and how much of each list it shows, are settings of this run. On "
        "average over the queries, a perfect reader would find "
        f"{figures.score_text(found_at_most)} of a query's relevant drugs, a reader that names "
        f"every drug with a list in the prompt would find {figures.number(listed)}, and the model "
        f"found {recall}. {_returned_in_words(queries)}"
    )
    return Decision("cannot be tested", why, reason="by construction")


_GAIN_IN_WORDS = (
    "the returned share of the drugs whose effect the prompt shows, minus that of the other drugs,"
)
_MISSED_IN_WORDS = "the share of missed drugs whose effect the prompt does not show"


def lists_fail_by_window(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether Format A misses drugs because the prompt does not show their effect.

    It must return drugs whose effect the prompt shows more often than others, and the prompt must
    not show the effect of most drugs that it misses. A query is one effect: letter and size are the
    same on both sides (Results, third key finding). Where a prompt shows few effects at all, no
    answer could contradict the claim.
    """
    rows = outcomes.where(arm="format_a")
    if rows.frame.empty:
        return Decision("not tested", "Format A has no answers.", reason="no answers")
    queries = [_WindowHits.of_items(items) for items in rows.frame["items"]]
    both = [query for query in queries if query.has_both]
    forced = _forced_by_window(rows)
    if forced is not None:
        return forced
    why = (
        f"{_returned_in_words(queries)} {len(both)} of {len(queries)} queries have drugs of both "
        "kinds."
    )
    missed = _missed_unseen(queries, outcomes.draws)
    if len(both) < MIN_QUERIES:
        return Decision("not tested", f"{why} The test needs {MIN_QUERIES}.", reason="too few")
    if missed is None:
        return Decision("inconclusive", f"{why} The model missed no drug.")
    test = _gain_within(both, outcomes.draws)
    why += (
        " In these queries, the returned share of the drugs whose effect is shown, minus that of "
        f"the other drugs, is {figures.points(test)} points on average ({figures.p_words(test.p)}, "
        f"n = {len(both)}). "
        f"{_missed_in_words(queries)} The prompt does not show the effect for "
        f"{figures.score_text(missed)} of all missed drugs."
    )
    gain = partial(decisions.better, p=test.p)
    is_most = partial(decisions.above, bound=0.5)
    parts = [
        Part(test, gain, "shown minus not shown, returned", bound=0.0, words=_GAIN_IN_WORDS),
        Part(missed, is_most, "missed, effect not shown", bound=0.5, words=_MISSED_IN_WORDS),
    ]
    decision = decisions.decide_by_intervals(parts, (0.0, 0.5), why=why, p=test.p)
    # the two parts have bounds of their own, from which no one number of queries follows
    return replace(decision, needed=None)


def _returned_in_words(queries: Sequence[_WindowHits]) -> str:
    """Say how many relevant drugs are returned, by whether the prompt shows the effect."""
    shown = list(chain.from_iterable(query.within for query in queries))
    not_shown = list(chain.from_iterable(query.not_shown for query in queries))
    return (
        f"Over all queries, the model returned {_share_in_words(shown)} whose effect the prompt "
        f"shows, and {_share_in_words(not_shown)} whose effect the prompt does not show."
    )


def _gain_within(queries: Sequence[_WindowHits], draws: int) -> Paired:
    """Return the gain of drugs whose effect is shown over others; each query is one unit."""
    within = np.array([np.mean(query.within) for query in queries])
    not_shown = np.array([np.mean(query.not_shown) for query in queries])
    return paired_means(within, not_shown, draws=draws)


def _missed_unseen(queries: Sequence[_WindowHits], draws: int) -> Score | None:
    """Return the share of missed drugs whose effect the prompt hides; None if none is missed."""
    n_hidden = np.array([query.not_shown.count(False) for query in queries])
    n_within = np.array([query.within.count(False) for query in queries])
    n_missed = n_hidden + n_within
    if not n_missed.sum():
        return None
    return ratio(n_hidden, n_missed, clusters=np.arange(len(queries)), draws=draws)


def _missed_in_words(queries: Sequence[_WindowHits]) -> str:
    """Count the missed drugs by where the effect is."""
    n_absent = sum(query.absent.count(False) for query in queries)
    n_beyond = sum(query.beyond.count(False) for query in queries)
    n_within = sum(query.within.count(False) for query in queries)
    return (
        f"Of the {n_absent + n_beyond + n_within:,} missed drugs, {n_absent:,} have no list in the "
        f"prompt, {n_beyond:,} a list that is cut before the effect, and {n_within:,} a list that "
        "shows the effect."
    )


def _share_in_words(hits: Sequence[bool]) -> str:
    if not hits:
        return "none of the 0 relevant drugs"
    share = sum(hits) / len(hits)
    return f"{figures.number(share)} of the {len(hits):,} relevant drugs"


def recovered(outcomes: Outcomes, arm: str, condition: str = "normalised") -> Score | None:
    """Return F1 of Table 5 under a condition as a share of F1 with names spelt right.

    Args:
        outcomes: Rows whose arms are named ``<condition>.<arm>``.
        arm: The arm, for example ``format_b``.
        condition: The condition whose F1 is compared with that of ``correct``.

    Returns:
        The share with a bootstrap over drugs; a share of 0 or 1 has Wilson's interval over the
        drugs. None if F1 with the right names is 0.
    """
    sums = np.hstack([_f1_sums(outcomes, f"{name}.{arm}") for name in ("correct", condition)])
    n_drugs = len(sums)
    if not sums[:, 0].sum():
        return None

    def share(drawn: NDArray[np.float64]) -> float:
        """Return the share over the drawn drugs; 0 where F1 with the right names is 0."""
        right_top, right_bottom, top, bottom = sums[drawn.astype(np.int64)].sum(axis=0)
        if not right_top or not bottom:
            return 0.0
        return float(top / bottom / (right_top / right_bottom))

    score = bootstrap(np.arange(n_drugs), share, draws=outcomes.draws)
    if score.low == score.high and score.value in (0.0, 1.0):
        wilson = proportion(round(score.value * n_drugs), n_drugs)
        score = replace(score, low=wilson.low, high=wilson.high)
    n = int((outcomes.frame.arm == f"correct.{arm}").sum())
    # a draw in which the two conditions have different false positives can exceed 1
    return replace(score, n=n, high=min(score.high, 1.0))


def _f1_sums(outcomes: Outcomes, arm: str) -> NDArray[np.float64]:
    """Sum numerator and denominator of F1 by drug; the shape is (drugs, 2)."""
    rows = outcomes.frame[outcomes.frame.arm == arm]
    parts = pd.DataFrame([measures["f1"] for measures in rows.measures])
    return parts.groupby(rows.cluster.to_numpy()).sum().to_numpy()


def normalisation_recovers(outcomes: Outcomes, **_: Any) -> Decision:  # noqa: ANN401
    """Decide whether a corrected name recovers most of F1 (Table 5).

    The authors' prompt shows three of the names with their answers, so their released run must
    recover that much without these three as well. This project's prompt shows none.
    """
    if not {f"normalised.{arm}" for arm in RECOVERED_ARMS} <= set(outcomes.arms):
        why = "There are no answers with corrected names."
        return Decision("not tested", why, reason="no answers")
    by_all = _decide_recovery(outcomes)
    if not (outcomes.frame.source == "released").all():
        return by_all
    not_prompted = outcomes.where(**{IN_AUTHORS_PROMPT: IS_PROMPTED[False]})
    readings = {
        "With all drugs": by_all,
        "Without the drugs whose misspelt names the authors' prompt shows with their answers": (
            _decide_recovery(not_prompted)
        ),
    }
    return _join_readings(readings)


def _decide_recovery(outcomes: Outcomes) -> Decision:
    """Decide whether each architecture recovers more than `MOST` of its F1."""
    parts = []
    texts = []
    for arm in RECOVERED_ARMS:
        share = recovered(outcomes, arm)
        n_drugs = outcomes.where(arm=f"correct.{arm}").frame.cluster.nunique()
        name = figures.ARMS[arm][0]
        if share is None:
            texts.append(f"With correct names, the F1 of {name} is 0.")
            continue
        recovery = figures.score_text(share)
        texts.append(
            f"With corrected names, {name} recovers {recovery} of its F1 with correct names "
            f"({n_drugs} drugs, n = {share.n:,})."
        )
        criterion = partial(decisions.above, bound=MOST)
        words = f"with corrected names, the share of its F1 that {name} recovers"
        part = Part(
            share,
            criterion,
            f"{name}, {n_drugs} drugs",
            bound=MOST,
            words=words,
            arms=_f1_values(outcomes, f"normalised.{arm}", f"correct.{arm}"),
            measure="f1",
            where=outcomes.conditions,
        )
        parts.append(part)
    why = " ".join(texts)
    if len(parts) < len(RECOVERED_ARMS):
        return Decision("inconclusive", why)
    return decisions.decide_by_intervals(parts, (MOST,), why=why)


def _f1_values(outcomes: Outcomes, *arms: str) -> tuple[ArmValue, ...]:
    """Return the F1 of each arm."""
    values = []
    for arm in arms:
        top, bottom = _f1_sums(outcomes, arm).sum(axis=0)
        value = float(top / bottom) if bottom else 0.0
        values.append(ArmValue(label=outcomes.label(arm), value=value))
    return tuple(values)


def pipelines_are_brittle(
    _: Outcomes,
    *,
    released_runs: Outcomes | None = None,
    **__: Any,  # noqa: ANN401
) -> Decision:
    """Decide whether a misspelt name costs each open-book pipeline most of its F1 (Results).

    Table 5 omits lists (Format A). Where the released runs disagree on them, the claim stays open.

    Args:
        released_runs: The released answers of all runs.
    """
    lists = "misspelt.format_a"
    if released_runs is None or lists not in released_runs.arms:
        why = "The released runs were not fetched."
        return Decision("not tested", why, reason="published, not fetched")
    readings = {}
    for run in sorted(released_runs.where(arm=lists).frame.run.unique()):
        of_run = released_runs.where(run=str(run))
        (date,) = of_run.strata("run of")
        readings[f"In the run of {date.replace(', ', ' at ')}"] = _decide_losses(of_run)
    return _join_readings(readings)


def _alike_clustered(outcomes: Outcomes, arm: str) -> Outcomes:
    """Return the rows of an arm with right and misspelt names, both clustered alike.

    The released counts show which drugs were found under some conditions alone; where the two
    differ in that, each question is a cluster of its own. Where no effect is found under a misspelt
    name, every drug is missed whole, and the drugs are the clusters.
    """
    conditions = [f"correct.{arm}", f"misspelt.{arm}"]
    rows = outcomes.where(arm=conditions)
    n_clusters = rows.frame.groupby("arm", observed=True).cluster.nunique()
    if n_clusters.nunique() == 1:
        return rows
    misspelt = rows.frame[rows.frame.arm == conditions[1]]
    if not ((misspelt.predicted == "YES") & (misspelt.gold == "YES")).any():
        drug_of = misspelt.set_index("unit").cluster
        by_drug = rows.frame.assign(cluster=rows.frame.unit.map(drug_of))
        return Outcomes(by_drug, draws=outcomes.draws)
    by_question = rows.frame.assign(cluster=rows.frame.unit)
    return Outcomes(by_question, draws=outcomes.draws)


def _decide_losses(outcomes: Outcomes) -> Decision:
    """Decide whether each pipeline keeps less than half of its F1 under misspelt names."""
    parts = []
    texts = []
    for arm in OPEN_BOOK_ARMS:
        share = recovered(_alike_clustered(outcomes, arm), arm, "misspelt")
        label = f"F1 of {figures.ARMS[arm][0]} with misspelt names, relative to right ones"
        if share is None:
            why = f"With correct names, the F1 of {figures.ARMS[arm][0]} is 0."
            return Decision("not tested", why, reason="too few")
        name = figures.ARMS[arm][0]
        criterion = partial(decisions.below, bound=MOST)
        words = f"with misspelt names, the share of its F1 that {name} keeps"
        parts.append(Part(share, criterion, label, bound=MOST, words=words))
        remaining = figures.score_text(share)
        texts.append(
            f"With misspelt names, {name} keeps {remaining} of its F1 with correct names "
            f"(n = {share.n:,})."
        )
    return decisions.decide_by_intervals(parts, (MOST,), why=" ".join(texts))


def report_shares(
    run: Run, outcomes: Outcomes, kind: Kind, *, model: str = "", source: str = ""
) -> None:
    """Report the shares of F1 that the text derives from Table 5: recovered, lost, lost in the end.

    Args:
        run: The run to report to.
        outcomes: Rows of one run: this one's, or released ones.
        kind: ``rerun`` or ``rescored``.
        model: The model that answered a rerun.
        source: The registry's file of released rows.
    """
    for arm in ("format_b", "graphrag"):
        recovery_id, loss_id, final_loss_id = (
            f"side_effects.text.{name}.{arm}"
            for name in ("recovery", "degradation", "degradation_left")
        )
        recovery = recovered(outcomes, arm)
        misspelt = recovered(outcomes, arm, "misspelt")
        if recovery is None or misspelt is None:
            why = "F1 with names spelt right is 0, so there is nothing to recover."
            for number_id in (recovery_id, loss_id, final_loss_id):
                run.not_run(number_id, why, kind=kind)
            continue
        scores = {
            recovery_id: recovery,
            loss_id: _complement(misspelt),
            final_loss_id: _complement(recovery),
        }
        for number_id, score in scores.items():
            if kind == "rescored":
                run.rescored(number_id, score, source=source)
            else:
                run.rerun(number_id, score, model=model)


def _complement(share: Score) -> Score:
    """Return one minus a share, with its interval."""
    return Score(1 - share.value, share.n, 1 - share.high, 1 - share.low)
