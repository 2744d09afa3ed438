"""Ways to rank the passages for a question, and how good a ranking is (clinical_notes.md, "Evaluation framework").

Another way is one entry in `ARMS`. A question is searched once for all arms that filter alike, and each reranker scores
its candidates once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import ir_measures
import numpy as np
from ir_measures import AP, RR, P, R, nDCG
from scipy.stats import spearmanr
from tqdm import tqdm

from helpers.llm import LLM
from helpers.rag.prompts import chat
from helpers.rag.rerank import CrossEncoder, Floats, Reranker
from helpers.results import figures
from helpers.results.answers import Answer, Item
from helpers.results.outcomes import Outcomes
from helpers.results.verdicts import ALPHA
from papers.clinical_notes.query import INTENTS, parse
from papers.clinical_notes.questions import Question
from papers.clinical_notes.rerankers import BestSentence
from papers.clinical_notes.retrieval import PAPER, Candidates, Retriever, Settings, ranked

MEASURES = {"nDCG@10": nDCG @ 10, "P@5": P @ 5, "R@10": R @ 10, "MRR": RR, "AP": AP}
"""The paper's four metrics, and nDCG, which tells a sentence from its copy in a later note."""
MAIN = "nDCG@10"
STORED = 10
"""Ranks that a row of the table of answers lists in any case; of the rest it lists what is relevant."""


@dataclass(frozen=True)
class Arm:
    """One way of ranking: filters, weights and bonus, and the key of its reranker; empty for none."""

    label: str
    settings: Settings = PAPER
    reranker: str = "mean_pooled"


_ALONE = replace(PAPER, w_rerank=0, w_semantic=0, w_lexical=0, boost=0, penalty=0)
# the reranker sees the best by the two first scores, in the paper's proportions; these weights only break its ties
_RERANKER_ALONE = replace(_ALONE, w_rerank=1, w_semantic=1e-9, w_lexical=0.6e-9)

ARMS = {
    "hybrid": Arm("Hybrid, the paper's weights"),
    "semantic": Arm("FAISS alone", replace(_ALONE, w_semantic=1), ""),
    "lexical": Arm("BM25 alone", replace(_ALONE, w_lexical=1), ""),
    "reranker": Arm("Reranker alone", _RERANKER_ALONE),
    "best_sentence": Arm("Hybrid, reranked by the best sentence", reranker="best_sentence"),
    "best_sentence_alone": Arm("Best sentence alone", _RERANKER_ALONE, "best_sentence"),
    "cross_encoder": Arm("Hybrid, reranked by a trained cross-encoder", reranker="cross_encoder"),
    "cross_encoder_alone": Arm("Trained cross-encoder alone", _RERANKER_ALONE, "cross_encoder"),
    "without_reranker": Arm("Hybrid without the reranker", replace(PAPER, w_rerank=0), ""),
    "without_semantic": Arm("Hybrid without FAISS's score", replace(PAPER, w_semantic=0)),
    "without_lexical": Arm("Hybrid without BM25's score", replace(PAPER, w_lexical=0)),
    "without_boost": Arm("Hybrid without boost and penalty", replace(PAPER, boost=0, penalty=0)),
    "without_penalty": Arm("Hybrid without the penalty", replace(PAPER, penalty=0)),
    "without_patient_filter": Arm("Hybrid without the filter on the patient", replace(PAPER, filter_patient=False)),
    "without_date_filter": Arm("Hybrid without the filter on dates", replace(PAPER, filter_dates=False)),
    "drug_filter": Arm("Hybrid, a filter on the drug in place of the boost", replace(PAPER, filter_drugs=True)),
    "without_names": Arm("Hybrid without a drug's other names", replace(PAPER, expand=False)),
}
"""Name -> arm. Those whose reranker a run does not have are left out of it."""
COLOURS = {"hybrid": "#079c6b", "semantic": "#125ee0", "lexical": "#c35410", "reranker": "#af219d"}

Ask = Callable[[Sequence[Question]], list[Answer]]
"""Questions in, a ranking for each out."""


class Rankings:
    """Rankings of passages by any arm; `grades` are question's id -> passage -> grade of those that answer it."""

    def __init__(
        self, retriever: Retriever, grades: Mapping[str, Mapping[str, int]], rerankers: Mapping[str, Reranker]
    ) -> None:
        """Nothing is searched yet."""
        self.retriever, self.grades, self.rerankers = retriever, grades, rerankers
        self.texts = {chunk.id: chunk.text for chunk in retriever.chunks}
        self._found: dict[tuple[str, Settings], Candidates] = {}
        self._scores: dict[tuple[str, Settings, str], Floats] = {}

    def ask(self, arm: Arm) -> Ask:
        """The arm as a function of questions."""

        def answer(questions: Sequence[Question]) -> list[Answer]:
            progress = tqdm(questions, desc=arm.label, unit="question", delay=10, mininterval=10)
            passages = [self.passages(q, arm) for q in progress]
            more = [self._of_candidates(q, arm) for q in questions]
            return answers(questions, passages, self.grades, model=self.model(arm), more=more)

        return answer

    def arms(self) -> dict[str, Ask]:
        """All of `ARMS` whose reranker is there."""
        return {name: self.ask(arm) for name, arm in ARMS.items() if arm.reranker in ("", *self.rerankers)}

    def model(self, arm: Arm) -> str:
        """The encoder or reranker that an arm rests on; empty for words alone."""
        if arm.reranker:
            return self.rerankers[arm.reranker].model
        return self.retriever.encode.name if arm.settings.w_semantic else ""

    def passages(self, question: Question, arm: Arm) -> list[str]:
        """Ids of the passages for a question, best first."""
        found = self.found(question, arm.settings)
        order, _ = ranked(found, arm.settings, lambda chosen: self._reranks(question, arm)[chosen])
        return [self.retriever.chunks[row].id for row in found.rows[order].tolist()]

    def found(self, question: Question, settings: Settings = PAPER) -> Candidates:
        """The candidates for a question; the weights have no part in them."""
        key = (question.text, found_by(settings))
        if key not in self._found:
            self._found[key] = self.retriever.candidates(parse(question.text, self.retriever.lexicon), settings)
        return self._found[key]

    def _reranks(self, question: Question, arm: Arm) -> Floats:
        """The reranker's raw score of each candidate."""
        found = self.found(question, arm.settings)
        if not arm.reranker or not len(found.rows):
            return np.zeros(len(found.rows))
        key = (question.text, found_by(arm.settings), arm.reranker)
        if key not in self._scores:
            self._scores[key] = self.rerankers[arm.reranker].score(question.text, found.rows)
        return self._scores[key]

    def _of_candidates(self, question: Question, arm: Arm) -> dict[str, tuple[float, float]]:
        """Measures of what was there to rank: filters, reach, and whether the reranker orders it as FAISS does."""
        found, grades = self.found(question, arm.settings), self.grades[question.id]
        chunks = [self.retriever.chunks[row] for row in found.rows.tolist()]
        outside = sum(
            bool(
                (question.patient and c.patient != question.patient)
                or (question.since and c.date < question.since)
                or (question.until and c.date > question.until)
            )
            for c in chunks
        )
        measures = {
            "candidates_outside": (float(outside), float(len(chunks))),
            "answers_in_candidates": (sum(c.id in grades for c in chunks) / len(grades), 1.0),
        }
        both = np.isfinite(found.semantic)
        a, b = found.semantic[both], self._reranks(question, arm)[both]
        if both.sum() >= 3 and np.ptp(a) > 0 and np.ptp(b) > 0:
            measures["faiss_rank_correlation"] = (float(spearmanr(a, b).statistic), 1.0)
        return measures


def rerankers(retriever: Retriever, cross_encoder: str = "") -> dict[str, Reranker]:
    """The rerankers that arms name, by key; a trained cross-encoder only if one is named.

    Raises:
        RerankerUnavailable: it cannot be loaded.
    """
    found: dict[str, Reranker] = {"best_sentence": BestSentence(retriever.chunks, retriever.encode)}
    if retriever.reranker:
        found["mean_pooled"] = retriever.reranker
    if cross_encoder:
        found["cross_encoder"] = CrossEncoder([chunk.text for chunk in retriever.chunks], cross_encoder)
    return found


def found_by(settings: Settings) -> Settings:
    """The part of the settings that decides which candidates are found."""
    return replace(settings, w_rerank=0, w_semantic=0, w_lexical=0, boost=0, penalty=0)


def answers(
    questions: Sequence[Question],
    passages: Sequence[Sequence[str]],
    grades: Mapping[str, Mapping[str, int]],
    *,
    model: str = "",
    more: Iterable[Mapping[str, tuple[float, float]]] = (),
    requests: Iterable[Sequence[str]] = (),
) -> list[Answer]:
    """Rankings (passages, best first) as rows: the first ten and all relevant ones with their grades, every measure."""
    scores = measure(grades, {q.id: of for q, of in zip(questions, passages, strict=True)})
    extra, keys = list(more) or [{}] * len(questions), list(requests) or [()] * len(questions)
    return [
        Answer(
            model=model,
            items=[
                Item(id, label=str(grades[q.id].get(id, 0)), gold=id in grades[q.id], rank=rank)
                for rank, id in enumerate(of, start=1)
                if rank <= STORED or id in grades[q.id]
            ]
            + [Item(id, label=str(grade), gold=True) for id, grade in grades[q.id].items() if id not in of],
            measures={name: (value, 1.0) for name, value in scores[q.id].items()} | dict(further),
            requests=asked,
        )
        for q, of, further, asked in zip(questions, passages, extra, keys, strict=True)
    ]


def measure(
    grades: Mapping[str, Mapping[str, int]], rankings: Mapping[str, Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Every measure of every question (grades and passages, best first) by ir-measures; 0 without any result."""
    # a score for each place, so that nothing is tied
    run = {q: {passage: 1 / place for place, passage in enumerate(of, start=1)} for q, of in rankings.items() if of}
    names = {metric: name for name, metric in MEASURES.items()}
    scores = {q: dict.fromkeys(MEASURES, 0.0) for q in rankings}
    wanted = {q: dict(grades[q]) for q in rankings}
    for metric in ir_measures.iter_calc(list(MEASURES.values()), wanted, run):
        scores[metric.query_id][names[metric.measure]] = metric.value
    return scores


# ------------------------------------------------------------------------------------------------ by a language model

JUDGE = "You judge whether a passage of a clinical note holds information that answers a question. Answer YES or NO."


def relevance_prompt(question: str, passage: str) -> list[dict[str, str]]:
    """What the model is asked about one passage."""
    return chat(JUDGE, f"Passage:\n{passage}\n\nQuestion: {question}\nRelevant?")


def judged(model: LLM, rankings: Rankings, arm: Arm, depth: int) -> Ask:
    """The first `depth` passages of another arm, in the order of the model's probability of YES, not NO."""

    def answer(questions: Sequence[Question]) -> list[Answer]:
        first = [rankings.passages(q, arm)[:depth] for q in questions]
        prompts = [
            relevance_prompt(q.text, rankings.texts[id]) for q, of in zip(questions, first, strict=True) for id in of
        ]
        choices = iter(model.choose_many(prompts, ["YES", "NO"], label="P(YES)"))
        said = [[next(choices) for _ in of] for of in first]
        ordered = [
            [of[i] for i in np.argsort([-choice.logprobs["YES"] for choice in its], kind="stable")]
            for of, its in zip(first, said, strict=True)
        ]
        return answers(questions, ordered, rankings.grades, requests=[[c.key for c in its] for its in said])

    return answer


def spread(questions: Sequence[Question], n: int) -> list[Question]:
    """About `n` questions, as many of each intent."""
    each = -(-n // len(INTENTS))
    return [q for intent in INTENTS for q in [q for q in questions if q.intent == intent][:each]][:n]


# ------------------------------------------------------------------------------------------------------------ weights


def tune(rankings: Rankings, questions: Sequence[Question], reranker: str, step: float = 0.1) -> Settings:
    """The weights (a grid whose three sum to 1) and the boost with the best mean nDCG@10; of equals the paper's
    nearest.
    """
    ticks = np.round(np.arange(0, 1 + step / 2, step), 6)
    weights = [(a, b, round(1 - a - b, 6)) for a, b in product(ticks, ticks) if a + b <= 1 + 1e-9]
    paper = np.array([PAPER.w_rerank, PAPER.w_semantic, PAPER.w_lexical, PAPER.boost])
    best: tuple[float, float] = (-1.0, 0.0)
    chosen = PAPER
    for grid in tqdm(
        list(product(weights, (0.0, 0.1, 0.2, 0.3, 0.5))), desc="tune the weights", unit="setting", mininterval=10
    ):
        (w_rerank, w_semantic, w_lexical), boost = grid
        settings = replace(PAPER, w_rerank=w_rerank, w_semantic=w_semantic, w_lexical=w_lexical, boost=boost)
        arm = Arm("", settings, reranker)
        value = np.mean([quick_ndcg(rankings.grades[q.id], rankings.passages(q, arm)) for q in questions])
        far = float(np.abs(np.array([*grid[0], boost]) - paper).sum())
        if (round(float(value), 9), -far) > best:
            best, chosen = (round(float(value), 9), -far), settings
    return chosen


def quick_ndcg(grades: Mapping[str, int], passages: Sequence[str], k: int = 10) -> float:
    """nDCG at k as trec_eval defines it; for the many rankings of the search for weights."""
    discount = 1 / np.log2(np.arange(2, k + 2))
    gains = np.array([grades.get(passage, 0) for passage in passages[:k]])
    ideal = np.sort(np.array(list(grades.values())))[::-1][:k]
    best = float(ideal @ discount[: len(ideal)])
    return float(gains @ discount[: len(gains)]) / best if best else 0.0


# ------------------------------------------------------------------------------------------------------- in one answer


def summary(outcomes: Outcomes) -> str:
    """The page's answer: the hybrid against each of its scores alone, and with the weights of arm `tuned`."""
    tests = outcomes.against([("hybrid", arm) for arm in ("semantic", "lexical", "reranker")], MAIN)
    found: dict[str, list[str]] = {"better than": [], "worse than": [], "not distinguishable from": []}
    for c in tests:
        verdict = (
            "not distinguishable from" if c.p >= ALPHA else "better than" if c.test.difference > 0 else "worse than"
        )
        found[verdict].append(f"{outcomes.label(c.second)} ({figures.score_text(c.scores[1])})")
    told = "; ".join(f"{verdict} {' and '.join(names)}" for verdict, names in found.items() if names)
    hybrid, tuned = outcomes.score(MAIN, "hybrid"), outcomes.score(MAIN, "tuned")
    return (
        f"**With the paper's weights the hybrid reaches {MAIN} {figures.score_text(hybrid)} on {hybrid.n} questions: "
        f"{told}** (paired tests by cluster, Holm). Weights chosen on other questions bring it to "
        f"{figures.score_text(tuned)}."
    )
