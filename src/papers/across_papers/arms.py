"""Architectures of the papers over one knowledge.

Each turns a question into evidence, and one model answers. Unlike the arms of side_effects, no
filter reads the retrieved text: the model does. What differs between two arms is the evidence, and
what it cost to find it.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import NamedTuple

import bm25s
import numpy as np
from numpy.typing import NDArray

from evaluation import figures
from evaluation.answers import Answer
from evaluation.formats import quoted
from evaluation.metrics import ALPHA, Score
from evaluation.outcomes import Comparison, Outcomes
from helpers.completions import Choice, Reply, count_tokens
from helpers.graph import Graph
from helpers.llm import LLM
from helpers.neighbours import stopwatch
from papers.across_papers.questions import KindQuestion
from papers.clinical_notes.retrieval import PAPER_CONFIG
from papers.side_effects.corpus import SENTENCE_B, TextStore
from papers.side_effects.normalisers import Normaliser
from rag.names import Vocabulary
from rag.prompts import Message, chat_messages
from rag.replies import answer_text, bare_name
from rag.retrieval import align_scores, fusion_order, word_tokens

ARMS = {
    "closed_book": "Closed book",
    "text": "Text RAG",
    "hybrid": "Hybrid text (BM25 + dense)",
    "dual_track": "Dual track (question + answer)",
    "graph": "Graph",
    "graph_names": "Graph with name repair",
    "graph_text": "Graph with text fallback",
    "graph_first": "Graph with name repair and text fallback",
    "lookup": "Graph queried by code",
}
"""The architectures.

Text, graph: side_effects. Hybrid: clinical_notes. Dual track: qa_rag. Name repair: side_effects,
Table 5, by a dictionary and edit distance. Text fallback: this project's; for future
work, drug_interactions proposes one by type of question.
"""


def _colour(arm: str) -> str:
    if arm in figures.ARMS:
        return figures.arm_colour(arm)
    return figures.arm_colour("graphrag" if "graph" in arm else "format_a")


COLOURS = {arm: _colour(arm) for arm in ARMS}
"""One colour for each source of the evidence: none, text, graph."""

ANSWERING = (
    "You are asked whether a drug has a side effect. Answer with a single word: YES or NO. If "
    "evidence is given, go by the evidence alone: the answer is NO unless the evidence says it of "
    "this very drug and effect."
)
READING = (
    "Copy the drugs and the side effect from the question, exactly as they are written. Answer in "
    "one line: the drugs with commas between them, a vertical bar, the side effect."
)
# Made-up names: a test item must never be in a prompt.
READING_EXAMPLES = (
    (
        "Is ringing in the left ear an adverse effect of drugname?",
        "drugname | ringing in the left ear",
    ),
    (
        "Do both compound 17-x and drugname cause severe itching?",
        "compound 17-x, drugname | severe itching",
    ),
)
SUPPOSING = (
    "Answer the question about a drug in one short sentence, as a drug reference would. If you do "
    "not know, write the likeliest sentence."
)
N_CANDIDATES = 200
"""Sentences that each of the two searches of `Hybrid` finds."""
SEMANTIC_WEIGHT = PAPER_CONFIG.w_semantic / (PAPER_CONFIG.w_semantic + PAPER_CONFIG.w_lexical)
"""The paper's weight of the dense score (no reranker is asked)."""
NOTHING = "The graph does not know these names."


@dataclass(frozen=True)
class Evidence:
    """Evidence for one question.

    Attributes:
        lines: The evidence in words.
        replies: The replies that it took to find it.
    """

    lines: Sequence[str] = ()
    replies: Sequence[Reply | Choice] = field(default_factory=list)


Finder = Callable[[Sequence[KindQuestion]], list[Evidence]]
"""Takes questions and returns the evidence for each."""
Arm = Callable[[Sequence[KindQuestion]], list[Answer]]
"""Takes questions and returns one answer per question."""


@dataclass(frozen=True)
class EvidenceArm:
    """Finds evidence for each question and has the model answer YES or NO.

    The reply is constrained to these two words, at temperature 0.

    Attributes:
        llm: The LLM that answers.
        find: Finds the evidence.
        label: Name of the arm in progress bars and in the record of the run.
    """

    llm: LLM
    find: Finder
    label: str

    def __call__(self, questions: Sequence[KindQuestion]) -> list[Answer]:
        """Answer each question."""
        evidence = self.find(questions)
        prompts = [
            answering_prompt(question.text, item.lines)
            for question, item in zip(questions, evidence, strict=True)
        ]
        choices = self.llm.choose_many(prompts, ["YES", "NO"], label=self.label)
        answers = []
        for choice, item in zip(choices, evidence, strict=True):
            answers.append(_yes_no_answer(choice, item))
        return answers


def _yes_no_answer(choice: Choice, evidence: Evidence) -> Answer:
    replies = [*evidence.replies, choice]
    measures = {}
    if choice.p_yes is not None:
        measures["p_yes"] = (choice.p_yes, 1.0)
    tokens = count_tokens(replies)
    if tokens is not None:
        measures["tokens"] = (float(tokens), 1.0)
    return Answer(
        answer=choice.answer,
        predicted=choice.answer,
        measures=measures,
        requests=[reply.key for reply in replies],
    )


def answering_prompt(question: str, evidence: Sequence[str]) -> list[Message]:
    """Build the prompt: the instruction of all arms, the evidence if there is any, the question."""
    if not evidence:
        return chat_messages(ANSWERING, f"Question: {question}")
    listed = "\n".join(f"- {line}" for line in evidence)
    return chat_messages(ANSWERING, f"Evidence:\n{listed}\n\nQuestion: {question}")


def no_evidence(questions: Sequence[KindQuestion]) -> list[Evidence]:
    """Find nothing: the closed book."""
    return [Evidence() for _ in questions]


@dataclass(frozen=True)
class Dense:
    """Finds the k sentences nearest to the question (side_effects, Format B)."""

    store: TextStore
    k: int

    def __call__(self, questions: Sequence[KindQuestion]) -> list[Evidence]:
        """Find evidence for each question."""
        nearest = self.store.index.nearest([question.text for question in questions], self.k)
        return [_evidence_of_rows(self.store, rows) for rows in nearest]


def _evidence_of_rows(store: TextStore, rows: NDArray[np.int64]) -> Evidence:
    return Evidence([store.texts[row] for row in rows])


@dataclass(frozen=True)
class Hybrid:
    """Finds k sentences by words and by vectors (clinical_notes, "Hybrid retrieval").

    Attributes:
        store: The sentences, for the search by vectors.
        words: The same sentences, for the search by BM25.
        k: Number of sentences, after min-max fusion of the two searches.
    """

    store: TextStore
    words: bm25s.BM25
    k: int

    def __call__(self, questions: Sequence[KindQuestion]) -> list[Evidence]:
        """Find evidence for each question."""
        n_candidates = min(N_CANDIDATES, len(self.store.texts))
        texts = [question.text for question in questions]
        dense = self.store.index.search(texts, n_candidates)
        rows_by_words, scores_by_words = self.words.retrieve(
            word_tokens(texts), k=n_candidates, show_progress=False
        )
        evidence = []
        for near, rows, scores in zip(dense, rows_by_words, scores_by_words, strict=True):
            dense_scores = dict(zip(near.ids.tolist(), near.scores.tolist(), strict=True))
            word_scores = dict(zip(rows.tolist(), scores.tolist(), strict=True))
            candidates, columns = align_scores(dense_scores, word_scores)
            order = fusion_order(columns, (SEMANTIC_WEIGHT, 1 - SEMANTIC_WEIGHT))
            evidence.append(_evidence_of_rows(self.store, candidates[order[: self.k]]))
        return evidence


@dataclass(frozen=True)
class DualTrack:
    """Finds sentences by the question and by a supposed answer, half each (qa_rag, "Dual-track").

    They are in the order of their nearness to the question; a cross-encoder, as in the paper, is
    not asked. A question that is asked again, for its time, is searched with the noted reply:
    another one on another machine would need all sentences encoded.

    Attributes:
        llm: The LLM that supposes an answer.
        store: The sentences.
        k: Number of sentences.
        supposed_answers: Where the model's replies are noted, by question.
        max_tokens: Longest supposed answer, in tokens.
    """

    llm: LLM
    store: TextStore
    k: int
    supposed_answers: dict[str, str]
    max_tokens: int = 40

    def __call__(self, questions: Sequence[KindQuestion]) -> list[Evidence]:
        """Find evidence for each question."""
        texts = [question.text for question in questions]
        prompts = [chat_messages(SUPPOSING, text) for text in texts]
        replies = self.llm.chat_many(
            prompts, max_tokens=self.max_tokens, stop=["\n"], label="supposed answers"
        )
        by_question = self.store.index.nearest(texts, self.k)
        supposed = [
            self.supposed_answers.setdefault(text, reply.text or " ")
            for text, reply in zip(texts, replies, strict=True)
        ]
        by_answer = self.store.index.nearest(supposed, self.k)
        evidence = []
        for text, reply, first, second in zip(texts, replies, by_question, by_answer, strict=True):
            rows = np.array(take_in_turn(first, second, self.k))
            cosines = self.store.index.cosines(text, rows)
            best_first = rows[np.argsort(-cosines, kind="stable")]
            found = _evidence_of_rows(self.store, best_first)
            evidence.append(replace(found, replies=[reply]))
        return evidence


def take_in_turn(
    first: Sequence[int] | NDArray[np.int64], second: Sequence[int] | NDArray[np.int64], k: int
) -> list[int]:
    """Take k different rows from two lists in turn."""
    in_turn = chain.from_iterable(zip(first, second, strict=True))
    distinct = dict.fromkeys(int(row) for row in in_turn)
    return list(distinct)[:k]


NAMES_PATTERN = re.compile(r"^\s*(?P<drugs>[^|\n]+?)\s*\|\s*(?P<effect>[^|\n]+)")
"""A line with drugs, a vertical bar and an effect."""


class Names(NamedTuple):
    """The names that the model read from a question; none where its line could not be parsed."""

    drugs: tuple[str, ...] = ()
    side_effect: str = ""


def parse_names(line: str) -> Names:
    """Read ``drug, drug | effect`` as names in lower case."""
    match = NAMES_PATTERN.search(answer_text(line).strip("| \n"))
    if match is None:
        return Names()
    parts = re.split(r",|\band\b", match["drugs"])
    drugs = [_bare_name(part) for part in parts]
    distinct = dict.fromkeys(drug for drug in drugs if drug)
    return Names(tuple(distinct), _bare_name(match["effect"]))


def _bare_name(text: str) -> str:
    return bare_name(text.strip(" .?")).lower()


EDGES = """
MATCH (d:Drug {name: $drug})
OPTIONAL MATCH (d)-[:may_cause_side_effect]->(s:SideEffect {name: $side_effect})
RETURN d.name AS drug, s.name AS side_effect
"""


@dataclass(frozen=True)
class FromGraph:
    """The model reads the names, the graph states of each drug whether it has the edge.

    Source: side_effects, GraphRAG. drug_interactions proposes a fallback by type of question
    (Discussion).

    Attributes:
        llm: The LLM that reads the names.
        graph: The graph of drugs and side effects.
        normalise: Turns a drug as written into one of the graph.
        fallback: Finds evidence where the graph knows none of the drugs.
    """

    llm: LLM
    graph: Graph
    normalise: Normaliser | None = None
    fallback: Finder | None = None

    def __call__(self, questions: Sequence[KindQuestion]) -> list[Evidence]:
        """Find evidence for each question."""
        prompts = [
            chat_messages(READING, question.text, READING_EXAMPLES) for question in questions
        ]
        replies = self.llm.chat_many(prompts, max_tokens=48, stop=["\n"], label="names read")
        evidence = []
        for reply in replies:
            names = parse_names(reply.text)
            evidence.append(Evidence(self._edges(names), [reply]))
        missing = [i for i, item in enumerate(evidence) if not item.lines]
        lines = self._fall_back([questions[i] for i in missing])
        for i, fallback_lines in zip(missing, lines, strict=True):
            evidence[i] = replace(evidence[i], lines=fallback_lines)
        return evidence

    def _edges(self, names: Names) -> list[str]:
        """What the graph states of each drug that it has, as sentences."""
        lines = []
        for written in names.drugs:
            drug = self._repair(written)
            rows = self.graph.read(EDGES, drug=drug, side_effect=names.side_effect)
            if not rows:
                continue
            shown = drug if written == drug else f"{drug} ({written})"
            if rows[0]["side_effect"]:
                lines.append(SENTENCE_B.format(drug=shown, side_effect=names.side_effect))
            else:
                lines.append(f"The drug {shown} is not known to cause {names.side_effect}.")
        return lines

    def _repair(self, written: str) -> str:
        if self.normalise is None:
            return written
        (drug,) = self.normalise([written])
        return drug or written

    def _fall_back(self, questions: Sequence[KindQuestion]) -> list[Sequence[str]]:
        if self.fallback is None or not questions:
            return [[NOTHING] for _ in questions]
        return [item.lines for item in self.fallback(questions)]


@dataclass(frozen=True)
class LookedUp:
    """No model: code finds the graph's names in a question and reads the edge of each drug.

    Attributes:
        graph: The graph of drugs and side effects.
        vocabulary: The names that the graph has.
    """

    graph: Graph
    vocabulary: Vocabulary

    def __call__(self, questions: Sequence[KindQuestion]) -> list[Answer]:
        """Answer each question."""
        answers = []
        for question in questions:
            label = "YES" if self._all_have_it(question.text) else "NO"
            answers.append(Answer(answer=label, predicted=label, measures={"tokens": (0.0, 1.0)}))
        return answers

    def _all_have_it(self, text: str) -> bool:
        """Whether every drug in a question has its effect; not if it has no drug."""
        linked = self.vocabulary.link(text)
        effect = linked["effect"][0] if linked["effect"] else ""
        edges = [self.graph.read(EDGES, drug=drug, side_effect=effect) for drug in linked["drug"]]
        if not edges:
            return False
        return all(rows and rows[0]["side_effect"] for rows in edges)


def arms_with_cache_salt(
    llm: LLM, finders: Mapping[str, Callable[[LLM], Finder]]
) -> dict[str, Arm]:
    """Make an arm of each finder that reuses no computed prompt of another arm.

    Args:
        llm: The LLM that answers.
        finders: Makes each arm's finder of a client.
    """
    arms: dict[str, Arm] = {}
    for name, make_finder in finders.items():
        client = llm.with_cache_salt(name)
        arms[name] = EvidenceArm(client, make_finder(client), ARMS[name])
    return arms


@dataclass(frozen=True)
class TimedArm:
    """An arm that is asked one question at a time, with the seconds that each took.

    The first question is asked twice, and only its second time counts.

    Attributes:
        arm: The arm to ask; a model's client must have no store.
        model: The model that it asks.
    """

    arm: Arm
    model: str = ""

    def __call__(self, questions: Sequence[KindQuestion]) -> list[Answer]:
        """Measure the time of each question."""
        self.arm(questions[:1])
        answers = []
        for question in questions:
            with stopwatch() as watch:
                self.arm([question])
            seconds = (watch.seconds, 1.0)
            answers.append(Answer(repeat=1, model=self.model, measures={"seconds": seconds}))
        return answers


def time_arms(arms: Mapping[str, Arm], model: str = "") -> dict[str, Arm]:
    """Make a `TimedArm` of each arm; ``model`` is the one they ask."""
    return {name: TimedArm(arm, model) for name, arm in arms.items()}


def advice(outcomes: Outcomes) -> str:
    """Write what to build for such questions on this run.

    It names the best arm, those that tie with it, and the fastest that is not significantly worse.

    Raises:
        NotRunError: If an arm was not run.
    """
    accuracy = {arm: outcomes.score("accuracy", arm) for arm in outcomes.arms}
    seconds = {arm: outcomes.score("median(seconds)", arm) for arm in outcomes.arms}
    best = max(outcomes.arms, key=lambda arm: (accuracy[arm].value, -seconds[arm].value))
    tied = [arm for arm in outcomes.arms if accuracy[arm].value == accuracy[best].value]
    share = (
        f"{figures.score_text(accuracy[best])} of {accuracy[best].n} questions about catalogued "
        "side effects"
    )
    if len(tied) == 1:
        lead = f"**{outcomes.label(best)}** answers the most questions correctly, namely {share}."
    else:
        labels = [quoted(outcomes.label(arm)) for arm in tied]
        names = figures.listed(labels)
        lead = f"**The architectures {names} tie.** Each answers {share} correctly."
    if "closed_book" in accuracy:
        alone = figures.score_text(accuracy["closed_book"])
        lead += f" Without evidence, the model answers {alone} of these questions correctly."
    comparisons = _compare_with_best(outcomes, best)
    lead += f" {_count_level(comparisons, tied)}"
    weakest, weakest_score = _weakest_kind(outcomes, best)
    weakness = (
        f'{outcomes.label(best)} is weakest on questions of the kind "{weakest}", with an accuracy '
        f"of {figures.number(weakest_score.value)}."
    )
    return f"{lead}\n\n{weakness} {_describe_fastest(outcomes, best, seconds)}".strip()


def _compare_with_best(outcomes: Outcomes, best: str) -> dict[str, Comparison]:
    """Compare the best arm with each other one, whose name is the key."""
    pairs = [(best, arm) for arm in outcomes.arms if arm != best]
    return {comparison.second: comparison for comparison in outcomes.compare(pairs, "accuracy")}


def _count_level(comparisons: Mapping[str, Comparison], tied: Sequence[str]) -> str:
    """Say how many arms that do not tie with the best are not significantly worse either."""
    others = [item for arm, item in comparisons.items() if arm not in tied]
    n_level = sum(comparison.p >= ALPHA for comparison in others)
    if not n_level:
        return "Every other architecture is significantly less accurate."
    return (
        f"Of the {len(others)} other architectures, {n_level} "
        f"{'is' if n_level == 1 else 'are'} not significantly less accurate."
    )


def _weakest_kind(outcomes: Outcomes, arm: str) -> tuple[str, Score]:
    scores = {}
    for kind in outcomes.strata("kind"):
        scores[kind] = outcomes.where(kind=kind).score("accuracy", arm)
    weakest = min(scores, key=lambda kind: scores[kind].value)
    return weakest, scores[weakest]


def _describe_fastest(outcomes: Outcomes, best: str, seconds: Mapping[str, Score]) -> str:
    """Name the fastest arm that is not significantly worse than the best, with the difference.

    It is empty where all others are worse. Times rank two arms only if their intervals lie apart.
    """
    comparisons = _compare_with_best(outcomes, best)
    level = [arm for arm, comparison in comparisons.items() if comparison.p >= ALPHA]
    if not level:
        return ""
    fastest = min([best, *level], key=lambda arm: seconds[arm].value)
    time_of_best = figures.number(seconds[best].value, "seconds")
    if fastest == best or seconds[fastest].high >= seconds[best].low:
        return (
            f"Each architecture was timed on {seconds[best].n} questions, too few to say which of "
            "the best architectures is fastest."
        )
    time_of_fastest = figures.number(seconds[fastest].value, "seconds")
    points = figures.points(comparisons[fastest].test)
    return (
        f"{outcomes.label(fastest)} takes {time_of_fastest} instead of {time_of_best}. The best "
        f"architecture's lead over it is {points} points, so either may be more accurate."
    )
