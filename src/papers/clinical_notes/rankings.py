"""Ways to rank the passages for a question, and how good a ranking is.

Source: clinical_notes.md, "Evaluation framework". Another way is one entry in `ARMS`. Arms that
filter alike share a search, and the scores of each reranker.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import spearmanr
from tqdm import tqdm

from evaluation import figures
from evaluation.answers import Answer, Item
from evaluation.metrics import ALPHA
from evaluation.outcomes import Comparison, Outcomes
from evaluation.trec import PASSAGES, score_rankings
from papers.clinical_notes.passages import Chunk
from papers.clinical_notes.query import parse
from papers.clinical_notes.questions import Question
from papers.clinical_notes.retrieval import (
    PAPER_CONFIG,
    Candidates,
    Retriever,
    RetrieverConfig,
    rank_candidates,
    score_candidates,
)
from papers.clinical_notes.verdicts_in_words import verdict
from rag.retrieval import CrossEncoder, Floats, Reranker

MEASURES = {name: PASSAGES[name] for name in ("nDCG@10", "P@5", "R@10", "MRR", "AP")}
"""The paper's four metrics, and nDCG, which ranks a sentence above its copy in a later note."""
MAIN = "nDCG@10"
PAPER_MEASURES = ("P@5", "R@10", "MRR", "AP")
"""The paper's metrics, by which its claims are decided."""
STORED = 10
"""Ranks that a row of the table of answers lists in full; of the rest it lists what is relevant."""


@dataclass(frozen=True)
class Arm:
    """One way of ranking.

    Attributes:
        label: Name for a reader.
        settings: Filters, weights and bonus.
        reranker: Key of the reranker; empty for none.
    """

    label: str
    settings: RetrieverConfig = PAPER_CONFIG
    reranker: str = "mean_pooled"


_ALONE = replace(PAPER_CONFIG, w_rerank=0, w_semantic=0, w_lexical=0, boost=0, penalty=0)
# The reranker sees the best by the two first scores, in the paper's proportions; these weights
# only break its ties.
_RERANKER_ALONE = replace(_ALONE, w_rerank=1, w_semantic=1e-9, w_lexical=0.6e-9)

ARMS = {
    "hybrid": Arm("Hybrid (the paper's weights)"),
    "semantic": Arm("FAISS alone", replace(_ALONE, w_semantic=1), ""),
    "lexical": Arm("BM25 alone", replace(_ALONE, w_lexical=1), ""),
    "reranker": Arm("Reranker alone", _RERANKER_ALONE),
    "cross_encoder": Arm("Hybrid reranked by a trained cross-encoder", reranker="cross_encoder"),
    "without_reranker": Arm("Hybrid without the reranker", replace(PAPER_CONFIG, w_rerank=0), ""),
    "without_semantic": Arm("Hybrid without FAISS's score", replace(PAPER_CONFIG, w_semantic=0)),
    "without_lexical": Arm("Hybrid without BM25's score", replace(PAPER_CONFIG, w_lexical=0)),
    "without_boost": Arm(
        "Hybrid without boost and penalty", replace(PAPER_CONFIG, boost=0, penalty=0)
    ),
}
"""Name -> arm. Those whose reranker a run does not have are left out of it.

The notebook shows those named ``without_...`` only in the comparison with the hybrid.
"""
OPEN: dict[str, Any] = {"boost": 0.0, "penalty": 0.0, "filters": False}
"""RetrieverConfig for a query that asks about no patient, no day and no drug."""
COLOURS = dict.fromkeys(("hybrid", "semantic", "lexical", "reranker"), figures.HUES["magenta"])
"""Of the arms in the figure, which the notebook lists."""


@dataclass(frozen=True)
class RankingArm:
    """Ranks the passages for each question in one way."""

    rankings: "Rankings"
    arm: Arm

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        progress = tqdm(questions, desc=self.arm.label, unit="question", delay=10, mininterval=10)
        passages = [self.rankings.passages(question, self.arm) for question in progress]
        rows = ranking_rows(questions, passages, self.rankings.grades)
        answers = []
        for question, row in zip(questions, rows, strict=True):
            measures = {**row.measures, **self.rankings.candidate_measures(question, self.arm)}
            answer = replace(
                row,
                task=self.rankings.task,
                model=self.rankings.model(self.arm),
                measures=measures,
            )
            answers.append(answer)
        return answers


class Rankings:
    """Rankings of passages by any arm.

    Attributes:
        retriever: Finds the candidates.
        grades: Identifier of a question -> passage that answers it -> grade.
        task: Name of the notes in the table of answers.
        rerankers: Key of an arm -> reranker.
    """

    def __init__(
        self,
        retriever: Retriever,
        grades: Mapping[str, Mapping[str, int]],
        cross_encoder: str = "",
        task: str = "",
    ) -> None:
        """Load the rerankers; nothing is searched yet.

        Args:
            retriever: Finds the candidates.
            grades: Identifier of a question -> passage that answers it -> grade.
            cross_encoder: Name of a trained cross-encoder, if there is one.
            task: Name of the notes in the table of answers.
        """
        self.retriever = retriever
        self.grades = grades
        self.task = task
        self.rerankers: dict[str, Reranker | None] = {"": None}
        if retriever.reranker:
            self.rerankers["mean_pooled"] = retriever.reranker
        if cross_encoder:
            texts = [chunk.text for chunk in retriever.chunks]
            self.rerankers["cross_encoder"] = CrossEncoder(texts, cross_encoder)
        self._candidates: dict[tuple[str, bool], Candidates] = {}
        self._scores: dict[tuple[str, bool, str], Floats] = {}

    def arms(
        self,
        arms: Mapping[str, Arm] = ARMS,
        **changed: Any,  # noqa: ANN401  # of RetrieverConfig
    ) -> dict[str, RankingArm]:
        """Make the arms whose reranker is available.

        Args:
            arms: The ways of ranking by name.
            **changed: Settings that differ from the arms' own.
        """
        available = {}
        for name, arm in arms.items():
            if arm.reranker in self.rerankers:
                settings = replace(arm.settings, **changed)
                available[name] = RankingArm(self, replace(arm, settings=settings))
        return available

    def model(self, arm: Arm) -> str:
        """Name the encoder or reranker that an arm rests on; empty for words alone."""
        reranker = self.rerankers[arm.reranker]
        if reranker:
            return reranker.model
        return self.retriever.encoder.name if arm.settings.w_semantic else ""

    def passages(self, question: Question, arm: Arm) -> list[str]:
        """Rank the passages for a question.

        Returns:
            Identifiers of the passages, best first.
        """
        candidates = self._search(question, arm)
        scores = self._rerank_scores(question, arm)
        order, _ = rank_candidates(candidates, arm.settings, scores)
        return [self.retriever.chunks[row].id for row in candidates.rows[order].tolist()]

    def _search(self, question: Question, arm: Arm) -> Candidates:
        """The candidates for a question, which no weight influences."""
        key = (question.text, arm.settings.filters)
        if key not in self._candidates:
            query = parse(question.text, self.retriever.lexicon)
            self._candidates[key] = self.retriever.candidates(query, arm.settings)
        return self._candidates[key]

    def _rerank_scores(self, question: Question, arm: Arm) -> Floats:
        """The reranker's raw score of each candidate, (n_candidates,)."""
        key = (question.text, arm.settings.filters, arm.reranker)
        if key not in self._scores:
            candidates = self._search(question, arm)
            self._scores[key] = score_candidates(self.rerankers[arm.reranker], candidates)
        return self._scores[key]

    def candidate_measures(self, question: Question, arm: Arm) -> dict[str, tuple[float, float]]:
        """Measure the candidates of a question.

        Returns:
            How many violate the filters that the question implies, if it implies any, and the rank
            correlation of the reranker with FAISS where it is defined.
        """
        candidates = self._search(question, arm)
        chunks = [self.retriever.chunks[row] for row in candidates.rows.tolist()]
        measures: dict[str, tuple[float, float]] = {}
        if question.patient or question.since or question.until:
            n_outside = sum(_is_outside(question, chunk) for chunk in chunks)
            measures["candidates_outside"] = (float(n_outside), float(len(chunks)))
        found_by_faiss = np.isfinite(candidates.semantic)
        semantic = candidates.semantic[found_by_faiss]
        reranked = self._rerank_scores(question, arm)[found_by_faiss]
        if len(semantic) >= 3 and np.ptp(semantic) > 0 and np.ptp(reranked) > 0:
            correlation = spearmanr(semantic, reranked).statistic
            measures["faiss_rank_correlation"] = (float(correlation), 1.0)
        return measures


def _is_outside(question: Question, chunk: Chunk) -> bool:
    """Whether a passage is of another patient or period than the question is about."""
    if question.patient and chunk.patient != question.patient:
        return True
    if question.since and chunk.date < question.since:
        return True
    return question.until is not None and chunk.date > question.until


def ranking_rows(
    questions: Sequence[Question],
    passages: Sequence[Sequence[str]],
    grades: Mapping[str, Mapping[str, int]],
) -> list[Answer]:
    """Write rankings as rows with every measure.

    Args:
        questions: The questions.
        passages: Identifiers of the passages for each question, best first.
        grades: Identifier of a question -> passage that answers it -> grade.

    Returns:
        One row a question, which lists the first passages and all relevant ones.
    """
    passages_by_question = {
        question.id: ranked for question, ranked in zip(questions, passages, strict=True)
    }
    scores = score_rankings(MEASURES, grades, passages_by_question)
    rows = []
    for question_id, ranked in passages_by_question.items():
        items = _ranked_items(ranked, grades[question_id])
        measures = {name: (value, 1.0) for name, value in scores[question_id].items()}
        rows.append(Answer(items=items, measures=measures))
    return rows


def _ranked_items(ranked: Sequence[str], grades: Mapping[str, int]) -> list[Item]:
    """The first passages of a ranking, and all relevant ones with their grades."""
    items = []
    for rank, passage in enumerate(ranked, start=1):
        if rank <= STORED or passage in grades:
            grade = grades.get(passage, 0)
            items.append(Item(passage, label=str(grade), gold=passage in grades, rank=rank))
    for passage, grade in grades.items():
        if passage not in ranked:
            items.append(Item(passage, label=str(grade), gold=True))
    return items


_BOOSTS = (0.0, 0.1, 0.2, 0.3, 0.5)


def _grid() -> list[RetrieverConfig]:
    """Weights in tenths that sum to 1, each with every boost."""
    ticks = np.round(np.arange(0, 1.05, 0.1), 6)
    settings = []
    for rerank, semantic in product(ticks, ticks):
        if rerank + semantic > 1 + 1e-9:
            continue
        lexical = round(1 - rerank - semantic, 6)
        weighted = replace(PAPER_CONFIG, w_rerank=rerank, w_semantic=semantic, w_lexical=lexical)
        settings += [replace(weighted, boost=boost) for boost in _BOOSTS]
    return settings


def _weights(settings: RetrieverConfig) -> Floats:
    return np.array([settings.w_rerank, settings.w_semantic, settings.w_lexical, settings.boost])


def tune(rankings: Rankings, questions: Sequence[Question]) -> RetrieverConfig:
    """Choose the weights and the boost with the best mean nDCG@10 of the hybrid.

    Of equally good ones it chooses the nearest to the paper's.
    """
    paper = _weights(PAPER_CONFIG)
    best = (-1.0, 0.0)
    chosen = PAPER_CONFIG
    for settings in tqdm(_grid(), desc="tune the weights", unit="setting", mininterval=10):
        arm = Arm("", settings)
        scores = [
            quick_ndcg(rankings.grades[question.id], rankings.passages(question, arm))
            for question in questions
        ]
        distance = np.abs(_weights(settings) - paper).sum()
        quality = (round(float(np.mean(scores)), 9), -float(distance))
        if quality > best:
            best = quality
            chosen = settings
    return chosen


def quick_ndcg(grades: Mapping[str, int], passages: Sequence[str], k: int = 10) -> float:
    """Compute nDCG at k as trec_eval does, for the many rankings of the search for weights.

    Args:
        grades: Grade of each relevant passage.
        passages: Identifiers of the passages, best first.
        k: Number of ranks that count.
    """
    discount = 1 / np.log2(np.arange(2, k + 2))
    gains = np.array([grades.get(passage, 0) for passage in passages[:k]])
    ideal = np.array(sorted(grades.values(), reverse=True)[:k])
    best = float(ideal @ discount[: len(ideal)])
    return float(gains @ discount[: len(gains)]) / best if best else 0.0


def gains_by_named_drug(outcomes: Outcomes, without: str) -> pd.DataFrame:
    """Compare the hybrid with the hybrid without a part, where a question names a drug or none.

    Args:
        outcomes: Rows of both arms.
        without: Key of the arm without the part.

    Returns:
        One row per metric of the paper and group of questions; p is not adjusted.
    """
    ways_to_name = set(outcomes.strata("drug named by"))
    groups = {
        "name a drug": ways_to_name - {"none"},
        "name no drug": ways_to_name & {"none"},
    }
    rows = []
    for questions, values in groups.items():
        if not values:
            continue
        group = outcomes.where(**{"drug named by": sorted(values)})
        for measure in PAPER_MEASURES:
            [comparison] = group.compare([("hybrid", without)], measure)
            row = {
                "questions that": questions,
                "n": comparison.test.n,
                "metric": measure,
                "hybrid better": comparison.test.b,
                "hybrid worse": comparison.test.c,
                "difference in points": figures.points(comparison.test),
                "p": figures.p_text(comparison.p),
            }
            rows.append(row)
    return pd.DataFrame(rows)


def filters_in_words(outcomes: Outcomes) -> str:
    """Count the questions with a candidate of another patient or period than they name.

    Args:
        outcomes: Rows of arms that filter. The candidates of a question are the same for each of
            them, so one row of each question is enough.
    """
    rows = outcomes.rows_with("candidates_outside").drop_duplicates("unit")
    if rows.empty:
        return "No question of this run names a patient or a period."
    n_outside = [measures["candidates_outside"][0] for measures in rows.measures]
    n_wrong = sum(count > 0 for count in n_outside)
    n_dated = sum(strata.get("period named") == "yes" for strata in rows.strata)
    if len(rows) == 1:
        return _one_filtered_in_words(n_dated, n_wrong)
    have = "has" if n_wrong <= 1 else "have"
    name = "names" if n_dated <= 1 else "name"
    n_questions = outcomes.frame.unit.nunique()
    return (
        f"Of the {n_questions} test questions, {len(rows)} name a patient or a period. Of these "
        f"{len(rows)} questions, {n_dated or 'none'} {name} a period. {n_wrong or 'None'} of the "
        f"{len(rows)} questions {have} a candidate passage from another patient or period."
    )


def _one_filtered_in_words(n_dated: int, n_wrong: int) -> str:
    """Say of the only question that names a patient or a period what its candidates are."""
    named = "a" if n_dated else "no"
    wrong = "a" if n_wrong else "no"
    return (
        f"One question names a patient or a period. It names {named} period and has {wrong} "
        "candidate passage from another patient or period."
    )


PARTS = {
    "without_lexical": "BM25's score",
    "without_boost": "the medication boost with penalty",
    "without_semantic": "FAISS's score",
    "without_reranker": "the reranker",
}
"""Arm without a part of the hybrid -> the part."""


def summary(outcomes: Outcomes, encoder: str = "", on_notes: Outcomes | None = None) -> str:
    """Write the answer of the page: the hybrid against the best of its parts.

    The first paragraph is the answer. The second has what else is known of the hybrid.

    Args:
        outcomes: Rows on the charts, of arm ``tuned`` too.
        encoder: The encoder that replaces both of the paper's, if one does.
        on_notes: Rows on independent notes, if there are any.
    """
    hybrid = outcomes.score(MAIN, "hybrid")
    best, comparison = _best_part(outcomes)
    ranks = verdict(comparison, if_higher="better", if_lower="worse")
    first = [
        f"**On {hybrid.n} questions about synthetic charts, hybrid search with the paper's weights "
        f"is {ranks} at ranking passages than {outcomes.label(best)}, with an {MAIN} of "
        f"{figures.score_text(hybrid)} against {figures.score_text(comparison.scores[1])}.**",
        _parts_in_words(outcomes),
    ]
    tuned = figures.score_text(outcomes.score(MAIN, "tuned"))
    second = [
        f"Of the rankings by only one of the hybrid's three scores, {outcomes.label(best)} has "
        f"the highest {MAIN}.",
        f"With weights chosen on other questions, the hybrid reaches an {MAIN} of {tuned}.",
        _on_independent_notes(best, on_notes),
    ]
    if encoder:
        first.append(
            f"The encoder {encoder} replaces both of the paper's encoders, so the paper's hybrid "
            "is untested."
        )
        share = PAPER_CONFIG.w_rerank + PAPER_CONFIG.w_semantic
        second.append(f"Scores of {encoder} have {share:.2f} of the hybrid's total weight.")
    paragraphs = [" ".join(filter(None, sentences)) for sentences in (first, second)]
    return "\n\n".join(paragraphs)


def _parts_in_words(outcomes: Outcomes) -> str:
    """Name the parts from which the hybrid's ranking gains, and those that make it worse."""
    pairs = [("hybrid", arm) for arm in PARTS if arm in outcomes.arms_with(MAIN)]
    better: list[str] = []
    worse: list[str] = []
    for comparison in outcomes.compare(pairs, MAIN) if pairs else ():
        if comparison.p < ALPHA:
            parts = worse if comparison.test.difference < 0 else better
            parts.append(PARTS[comparison.second])
    score = f"the hybrid's {MAIN}"
    effects = [
        _effect_in_words(better, "raise", score),
        _effect_in_words(worse, "lower", "it" if better else score),
    ]
    if not better and not worse:
        return f"No part changes the hybrid's {MAIN} significantly."
    return " ".join(filter(None, effects))


def _effect_in_words(parts: Sequence[str], verb: str, score: str) -> str:
    """Say that parts raise or lower the hybrid's score; empty if there are none."""
    if not parts:
        return ""
    listed = figures.listed(parts)
    effect = f"{verb}s" if len(parts) == 1 else verb
    return f"{listed[0].upper()}{listed[1:]} {effect} {score} significantly."


def _on_independent_notes(part: str, on_notes: Outcomes | None) -> str:
    """Compare the hybrid with a part of it on independent notes, in a sentence."""
    if on_notes is None or on_notes.frame.empty:
        return ""
    [comparison] = on_notes.compare([("hybrid", part)], MAIN)
    ranks = verdict(comparison, if_higher="better", if_lower="worse")
    return (
        f"On {comparison.test.n} queries to the independent notes of ACI-BENCH, the hybrid is "
        f"{ranks} than {on_notes.label(part)}, with a difference in {MAIN} of "
        f"{figures.points(comparison.test)} points."
    )


def _best_part(outcomes: Outcomes) -> tuple[str, Comparison]:
    """The score that is best alone, and the hybrid compared with it."""
    pairs = [("hybrid", arm) for arm in ("semantic", "lexical", "reranker")]
    comparisons = outcomes.compare(pairs, MAIN)
    best = max(comparisons, key=_second_score)
    return best.second, best


def _second_score(comparison: Comparison) -> float:
    return float(comparison.scores[1].value)
