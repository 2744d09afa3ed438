"""Ways to rank the passages for a question, and how good a ranking is (clinical_notes.md, "Evaluation framework").

Another way is one entry in `ARMS`. Arms that filter alike share a search, and the scores of each reranker.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from tqdm import tqdm

from evaluation import figures
from evaluation.answers import Answer, Item
from evaluation.metrics import ALPHA
from evaluation.outcomes import Outcomes
from evaluation.trec import PASSAGES, score_rankings
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
from rag.retrieval import CrossEncoder, Floats, Reranker

MEASURES = {name: PASSAGES[name] for name in ("nDCG@10", "P@5", "R@10", "MRR", "AP")}
"""The paper's four metrics, and nDCG, which tells a sentence from its copy in a later note."""
MAIN = "nDCG@10"
STORED = 10
"""Ranks that a row of the table of answers lists in any case; of the rest it lists what is relevant."""


@dataclass(frozen=True)
class Arm:
    """One way of ranking: filters, weights and bonus, and the key of its reranker; empty for none."""

    label: str
    settings: RetrieverConfig = PAPER_CONFIG
    reranker: str = "mean_pooled"


_ALONE = replace(PAPER_CONFIG, w_rerank=0, w_semantic=0, w_lexical=0, boost=0, penalty=0)
# the reranker sees the best by the two first scores, in the paper's proportions; these weights only break its ties
_RERANKER_ALONE = replace(_ALONE, w_rerank=1, w_semantic=1e-9, w_lexical=0.6e-9)

ARMS = {
    "hybrid": Arm("Hybrid, the paper's weights"),
    "semantic": Arm("FAISS alone", replace(_ALONE, w_semantic=1), ""),
    "lexical": Arm("BM25 alone", replace(_ALONE, w_lexical=1), ""),
    "reranker": Arm("Reranker alone", _RERANKER_ALONE),
    "cross_encoder": Arm("Hybrid, reranked by a trained cross-encoder", reranker="cross_encoder"),
    "without_reranker": Arm("Hybrid without the reranker", replace(PAPER_CONFIG, w_rerank=0), ""),
    "without_semantic": Arm("Hybrid without FAISS's score", replace(PAPER_CONFIG, w_semantic=0)),
    "without_lexical": Arm("Hybrid without BM25's score", replace(PAPER_CONFIG, w_lexical=0)),
    "without_boost": Arm(
        "Hybrid without boost and penalty", replace(PAPER_CONFIG, boost=0, penalty=0)
    ),
}
"""Name -> arm. Those whose reranker a run does not have are left out of it."""
OPEN: dict[str, Any] = {"boost": 0.0, "penalty": 0.0, "filters": False}
"""RetrieverConfig for a query that asks about no patient, no day and no drug."""
COLOURS = {"hybrid": "#079c6b", "semantic": "#125ee0", "lexical": "#c35410", "reranker": "#af219d"}

Ask = Callable[[Sequence[Question]], list[Answer]]
"""Questions in, a ranking for each out."""


class Rankings:
    """Rankings of passages by any arm; `grades` are question's id -> passage -> grade of those that answer it.

    A trained cross-encoder is loaded by name, if one is given. `task` names the notes in the table of answers.
    """

    def __init__(
        self,
        retriever: Retriever,
        grades: Mapping[str, Mapping[str, int]],
        cross_encoder: str = "",
        task: str = "",
    ) -> None:
        """Nothing is searched yet."""
        self.retriever, self.grades, self.task = retriever, grades, task
        self.rerankers: dict[str, Reranker | None] = {"": None}
        if retriever.reranker:
            self.rerankers["mean_pooled"] = retriever.reranker
        if cross_encoder:
            self.rerankers["cross_encoder"] = CrossEncoder(
                [c.text for c in retriever.chunks], cross_encoder
            )
        self._found: dict[tuple[str, bool], Candidates] = {}
        self._scores: dict[tuple[str, bool, str], Floats] = {}

    def arms(self, arms: Mapping[str, Arm] = ARMS, **changed: Any) -> dict[str, Ask]:  # noqa: ANN401  # of RetrieverConfig
        """The arms whose reranker is there, with the settings that are `changed` in all of them."""
        there = {name: arm for name, arm in arms.items() if arm.reranker in self.rerankers}
        return {
            n: self.ask(replace(arm, settings=replace(arm.settings, **changed)))
            for n, arm in there.items()
        }

    def ask(self, arm: Arm) -> Ask:
        """The arm as a function of questions."""

        def answer(questions: Sequence[Question]) -> list[Answer]:
            progress = tqdm(questions, desc=arm.label, unit="question", delay=10, mininterval=10)
            rows = answers(questions, [self.passages(q, arm) for q in progress], self.grades)
            return [
                replace(
                    row,
                    task=self.task,
                    model=self.model(arm),
                    measures={**row.measures, **self._more(q, arm)},
                )
                for q, row in zip(questions, rows, strict=True)
            ]

        return answer

    def model(self, arm: Arm) -> str:
        """The encoder or reranker that an arm rests on; empty for words alone."""
        if reranker := self.rerankers[arm.reranker]:
            return reranker.model
        return self.retriever.encoder.name if arm.settings.w_semantic else ""

    def passages(self, question: Question, arm: Arm) -> list[str]:
        """Ids of the passages for a question, best first."""
        found, scores = self._searched(question, arm)
        order, _ = rank_candidates(found, arm.settings, scores)
        return [self.retriever.chunks[row].id for row in found.rows[order].tolist()]

    def _searched(self, question: Question, arm: Arm) -> tuple[Candidates, Floats]:
        """The candidates for a question, in which weights have no part, and the reranker's raw score of each."""
        key = (question.text, arm.settings.filters)
        if key not in self._found:
            self._found[key] = self.retriever.candidates(
                parse(question.text, self.retriever.lexicon), arm.settings
            )
        if (*key, arm.reranker) not in self._scores:
            self._scores[*key, arm.reranker] = score_candidates(
                self.rerankers[arm.reranker], self._found[key]
            )
        return self._found[key], self._scores[*key, arm.reranker]

    def _more(self, question: Question, arm: Arm) -> dict[str, tuple[float, float]]:
        """Measures of what was there to rank: whether filters hold, and the reranker orders it as FAISS does."""
        found, scores = self._searched(question, arm)
        chunks = [self.retriever.chunks[row] for row in found.rows.tolist()]
        outside = sum(
            bool(
                (question.patient and c.patient != question.patient)
                or (question.since and c.date < question.since)
                or (question.until and c.date > question.until)
            )
            for c in chunks
        )
        measures = {"candidates_outside": (float(outside), float(len(chunks)))}
        both = np.isfinite(found.semantic)
        a, b = found.semantic[both], scores[both]
        if both.sum() >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0:
            measures["faiss_rank_correlation"] = (float(spearmanr(a, b).statistic), 1.0)
        return measures


def answers(
    questions: Sequence[Question],
    passages: Sequence[Sequence[str]],
    grades: Mapping[str, Mapping[str, int]],
) -> list[Answer]:
    """Rankings (passages, best first) as rows: the first ten and all relevant ones with their grades, every measure."""
    scores = score_rankings(
        MEASURES, grades, {q.id: of for q, of in zip(questions, passages, strict=True)}
    )
    return [
        Answer(
            items=[
                Item(id, label=str(grades[q.id].get(id, 0)), gold=id in grades[q.id], rank=rank)
                for rank, id in enumerate(of, start=1)
                if rank <= STORED or id in grades[q.id]
            ]
            + [
                Item(id, label=str(grade), gold=True)
                for id, grade in grades[q.id].items()
                if id not in of
            ],
            measures={name: (value, 1.0) for name, value in scores[q.id].items()},
        )
        for q, of in zip(questions, passages, strict=True)
    ]


def tune(rankings: Rankings, questions: Sequence[Question]) -> RetrieverConfig:
    """The weights (a grid of tenths that sum to 1) and the boost with the best mean nDCG@10 of the hybrid.

    Of equally good ones the paper's nearest.
    """
    ticks = np.round(np.arange(0, 1.05, 0.1), 6)
    weights = [(a, b, round(1 - a - b, 6)) for a, b in product(ticks, ticks) if a + b <= 1 + 1e-9]
    paper = np.array(
        [PAPER_CONFIG.w_rerank, PAPER_CONFIG.w_semantic, PAPER_CONFIG.w_lexical, PAPER_CONFIG.boost]
    )
    best, chosen = (-1.0, 0.0), PAPER_CONFIG
    grid = list(product(weights, (0.0, 0.1, 0.2, 0.3, 0.5)))
    for of, boost in tqdm(grid, desc="tune the weights", unit="setting", mininterval=10):
        settings = replace(
            PAPER_CONFIG, w_rerank=of[0], w_semantic=of[1], w_lexical=of[2], boost=boost
        )
        ranked_by = Arm("", settings)
        value = np.mean(
            [quick_ndcg(rankings.grades[q.id], rankings.passages(q, ranked_by)) for q in questions]
        )
        good = (round(float(value), 9), -float(np.abs(np.array([*of, boost]) - paper).sum()))
        if good > best:
            best, chosen = good, settings
    return chosen


def quick_ndcg(grades: Mapping[str, int], passages: Sequence[str], k: int = 10) -> float:
    """nDCG at k as trec_eval defines it; for the many rankings of the search for weights."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    gains = np.array([grades.get(passage, 0) for passage in passages[:k]])
    ideal = np.sort(np.array(list(grades.values())))[::-1][:k]
    best = float(ideal @ discount[: len(ideal)])
    return float(gains @ discount[: len(gains)]) / best if best else 0.0


def summary(outcomes: Outcomes, elsewhere: Outcomes, encoder: str = "") -> str:
    """The page's answer: the hybrid against each of its scores alone, and with the weights of arm `tuned`.

    `encoder` replaces both of the paper's, if it is named; `elsewhere` are rows on notes that others wrote, maybe none.
    """
    told = _against_parts(outcomes)
    hybrid, tuned = outcomes.score(MAIN, "hybrid"), outcomes.score(MAIN, "tuned")
    instead = f", and {encoder} in place of both of its encoders," if encoder else ""
    answer = (
        f"**With the paper's weights{instead} the hybrid reaches {MAIN} {figures.score_text(hybrid)} on {hybrid.n} "
        f"questions: {told}** (paired tests by cluster, Holm). Weights chosen on other questions bring it to "
        f"{figures.score_text(tuned)}."
    )
    if elsewhere.frame.empty:
        return f"{answer} The comparison on independent notes was not run."
    theirs = elsewhere.score(MAIN, "hybrid")
    return (
        f"{answer} On notes that others wrote, the hybrid reaches {figures.score_text(theirs)} on {theirs.n} queries: "
        f"{_against_parts(elsewhere)}."
    )


def _against_parts(outcomes: Outcomes) -> str:
    """How the hybrid compares with each of its scores alone."""
    found: dict[str, list[str]] = {
        "better than": [],
        "worse than": [],
        "not distinguishable from": [],
    }
    for c in outcomes.compare(
        [("hybrid", arm) for arm in ("semantic", "lexical", "reranker")], MAIN
    ):
        better = "better than" if c.test.difference > 0 else "worse than"
        verdict = better if c.p < ALPHA else "not distinguishable from"
        found[verdict].append(f"{outcomes.label(c.second)} ({figures.number(c.scores[1].value)})")
    return "; ".join(
        f"{verdict} {' and '.join(names)}" for verdict, names in found.items() if names
    )
