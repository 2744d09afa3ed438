"""Architectures of the papers over one knowledge: each turns a question into evidence, and one model answers.

Unlike the arms of side_effects, no filter reads the retrieved text: the model does. What differs between two arms is
the evidence, and what it cost to find it.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

import bm25s
import numpy as np
from numpy.typing import NDArray

from evaluation import figures
from evaluation.answers import Answer
from evaluation.metrics import ALPHA
from evaluation.outcomes import Outcomes
from helpers.completions import Choice, Reply, count_tokens
from helpers.graph import Graph
from helpers.llm import LLM
from helpers.neighbours import stopwatch
from helpers.thoughts import without_thought
from papers.across_papers.questions import Asked
from papers.clinical_notes.retrieval import PAPER_CONFIG
from papers.side_effects.corpus import SENTENCE_B, TextStore
from papers.side_effects.normalisers import Normaliser
from rag.names import Vocabulary
from rag.prompts import arm_of, chat_messages
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
"""Text, graph: side_effects. Hybrid: clinical_notes. Dual track: qa_rag. Name repair: side_effects, Table 5, by a
dictionary and edit distance. Text fallback: what drug_interactions proposes for future work."""

COLOURS = {
    arm: figures.arm_colour(
        arm if arm in figures.ARMS else "graphrag" if "graph" in arm else "format_b"
    )
    for arm in ARMS
}
"""One colour for each source of the evidence: none, text, graph."""

ANSWERING = (
    "You are asked whether a drug has a side effect. Answer with a single word: YES or NO. If evidence is given, go by "
    "the evidence alone: the answer is NO unless the evidence says it of this very drug and effect."
)
READING = (
    "Copy the drugs and the side effect from the question, exactly as they are written. Answer in one line: the drugs "
    "with commas between them, a vertical bar, the side effect."
)
# Made-up names: no test item may stand in a prompt.
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
    "Answer the question about a drug in one short sentence, as a drug reference would. If you do not know, write the "
    "likeliest sentence."
)
CANDIDATES, SEMANTIC = (
    200,
    PAPER_CONFIG.w_semantic / (PAPER_CONFIG.w_semantic + PAPER_CONFIG.w_lexical),
)
"""Of each of the two searches of `hybrid`, and the paper's weight of the dense score (no reranker is asked)."""
NOTHING = "The graph does not know these names."


@dataclass
class Found:
    """Evidence for one question, and the replies that it took to find it."""

    lines: Sequence[str] = ()
    replies: list[Reply | Choice] = field(default_factory=list)


Finder = Callable[[Sequence[Asked]], list[Found]]
"""Questions in, evidence for each out."""
Arm = Callable[[Sequence[Asked]], list[Answer]]
"""Questions in, an answer for each out."""


@arm_of
def answering(questions: Sequence[Asked], llm: LLM, find: Finder, label: str) -> list[Answer]:
    """An arm: find evidence for each question and have the model answer YES or NO, constrained, at temperature 0."""
    found = find(questions)
    prompts = [answering_prompt(q.text, f.lines) for q, f in zip(questions, found, strict=True)]
    answers = []
    for choice, f in zip(llm.choose_many(prompts, ["YES", "NO"], label=label), found, strict=True):
        replies = [*f.replies, choice]
        measures = {"p_yes": (math.exp(choice.logprobs["YES"]), 1.0)}
        tokens = count_tokens(replies)
        if tokens is not None:
            measures["tokens"] = (float(tokens), 1.0)
        answers.append(
            Answer(
                answer=choice.answer,
                predicted=choice.answer,
                measures=measures,
                requests=[r.key for r in replies],
            )
        )
    return answers


def answering_prompt(question: str, evidence: Sequence[str]) -> list[dict[str, str]]:
    """The messages: one instruction for all arms, the evidence if there is any, the question."""
    given = "Evidence:\n" + "\n".join(f"- {line}" for line in evidence) + "\n\n" if evidence else ""
    return chat_messages(ANSWERING, f"{given}Question: {question}")


def closed_book(questions: Sequence[Asked]) -> list[Found]:
    """No evidence."""
    return [Found() for _ in questions]


@arm_of
def dense(questions: Sequence[Asked], store: TextStore, k: int) -> list[Found]:
    """The k sentences nearest to the question (side_effects, Format B)."""
    nearest = store.index.nearest([question.text for question in questions], k)
    return [Found([store.texts[row] for row in rows]) for rows in nearest]


@arm_of
def hybrid(questions: Sequence[Asked], store: TextStore, words: bm25s.BM25, k: int) -> list[Found]:
    """k sentences by BM25 (`words`) and by vectors, fused by min-max (clinical_notes, "Hybrid retrieval")."""
    most = min(CANDIDATES, len(store.texts))
    texts = [q.text for q in questions]
    dense = store.index.search(texts, most)
    same, scores = words.retrieve(word_tokens(texts), k=most, show_progress=False)
    found = []
    for near, score, alike in zip(dense, scores, same, strict=True):
        rows, columns = align_scores(
            dict(zip(near.ids.tolist(), near.scores.tolist(), strict=True)),
            dict(zip(alike.tolist(), score.tolist(), strict=True)),
        )
        best = rows[fusion_order(columns, (SEMANTIC, 1 - SEMANTIC))[:k]]
        found.append(Found([store.texts[i] for i in best.tolist()]))
    return found


@arm_of
def dual_track(
    questions: Sequence[Asked],
    llm: LLM,
    store: TextStore,
    k: int,
    searched: dict[str, str],
    *,
    tokens: int = 40,
) -> list[Found]:
    """Half of the sentences by the question, half by a supposed answer (qa_rag, "Dual-track").

    They are put in the order of their nearness to the question; a cross-encoder, as in the paper,
    is not asked. The model's reply is noted in `searched`, by question. A question that is asked
    again, for its time, is searched with the noted reply: another one on another machine would
    need all sentences encoded.
    """
    prompts = [chat_messages(SUPPOSING, q.text) for q in questions]
    supposed = llm.chat_many(prompts, max_tokens=tokens, stop=["\n"], label="supposed answers")
    by_question = store.index.nearest([question.text for question in questions], k)
    answers = [
        searched.setdefault(question.text, reply.text or " ")
        for question, reply in zip(questions, supposed, strict=True)
    ]
    by_answer = store.index.nearest(answers, k)
    found = []
    for question, reply, first, second in zip(
        questions, supposed, by_question, by_answer, strict=True
    ):
        rows = np.array(joined(first, second, k))
        cosines = store.index.cosines(question.text, rows)
        best_first = rows[np.argsort(-cosines, kind="stable")]
        found.append(Found([store.texts[row] for row in best_first], [reply]))
    return found


def joined(
    first: Sequence[int] | NDArray[np.int64], second: Sequence[int] | NDArray[np.int64], k: int
) -> list[int]:
    """k different rows, taken from the two lists in turn."""
    return list(dict.fromkeys(map(int, chain.from_iterable(zip(first, second, strict=True)))))[:k]


_LINE = re.compile(r"^\s*(?P<drugs>[^|\n]+?)\s*\|\s*(?P<effect>[^|\n]+)")


class Names(NamedTuple):
    """The names that the model read from a question; none where its line could not be parsed."""

    drugs: tuple[str, ...] = ()
    side_effect: str = ""


def parse_names(line: str) -> Names:
    """`drug, drug | effect` as names in lower case."""
    line = without_thought(line)
    found = _LINE.search(line)
    if not found:
        return Names()
    drugs = (_bare(part) for part in re.split(r",|\band\b", found["drugs"]))
    return Names(tuple(dict.fromkeys(drug for drug in drugs if drug)), _bare(found["effect"]))


def _bare(text: str) -> str:
    return text.strip().strip("\"'`*.?").strip().lower()


EDGES = """
MATCH (d:Drug {name: $drug})
OPTIONAL MATCH (d)-[:may_cause_side_effect]->(s:SideEffect {name: $side_effect})
RETURN d.name AS drug, s.name AS side_effect
"""


@arm_of
def from_graph(
    questions: Sequence[Asked],
    llm: LLM,
    graph: Graph,
    *,
    normalise: Normaliser | None = None,
    otherwise: Finder | None = None,
) -> list[Found]:
    """The model reads the names, the graph says of each drug whether it has the edge (side_effects, GraphRAG).

    `normalise` turns a drug as written into one of the graph; `otherwise` finds evidence where the graph knows none of
    the drugs (drug_interactions, Discussion).
    """
    prompts = [chat_messages(READING, q.text, READING_EXAMPLES) for q in questions]
    replies = llm.chat_many(prompts, max_tokens=48, stop=["\n"], label="names read")
    found = [Found(_edges(graph, parse_names(r.text), normalise), [r]) for r in replies]
    missing = [i for i, f in enumerate(found) if not f.lines]
    elsewhere = otherwise([questions[i] for i in missing]) if otherwise and missing else None
    for place, i in enumerate(missing):
        found[i].lines = elsewhere[place].lines if elsewhere else [NOTHING]
    return found


def _edges(graph: Graph, names: Names, normalise: Normaliser | None) -> list[str]:
    """What the graph says of each drug that it has, as sentences."""
    lines = []
    for typed in names.drugs:
        drug = typed if normalise is None else normalise([typed])[0] or typed
        rows = graph.read(EDGES, drug=drug, side_effect=names.side_effect)
        if not rows:
            continue
        told = drug if typed == drug else f"{drug} ({typed})"
        if rows[0]["side_effect"]:
            lines.append(SENTENCE_B.format(drug=told, side_effect=names.side_effect))
        else:
            lines.append(f"The drug {told} is not known to cause {names.side_effect}.")
    return lines


def looked_up(graph: Graph) -> Arm:
    """No model: code finds the graph's names in a question word for word, and asks for the edge of each drug."""
    names = Vocabulary.read(graph)

    def arm(questions: Sequence[Asked]) -> list[Answer]:
        answers = []
        for question in questions:
            found = names.link(question.text)
            effect = found["effect"][0] if found["effect"] else ""
            edges = [graph.read(EDGES, drug=drug, side_effect=effect) for drug in found["drug"]]
            said = (
                "YES" if edges and all(rows and rows[0]["side_effect"] for rows in edges) else "NO"
            )
            answers.append(Answer(answer=said, predicted=said, measures={"tokens": (0.0, 1.0)}))
        return answers

    return arm


def apart(llm: LLM, finders: Mapping[str, Callable[[LLM], Finder]]) -> dict[str, Arm]:
    """An arm for each finder that takes no computed prompt from another one that showed the same evidence."""
    clients = {name: llm.with_cache_salt(name) for name in finders}
    return {name: answering(own, finders[name](own), ARMS[name]) for name, own in clients.items()}


def timed(arms: Mapping[str, Arm], model: str = "") -> dict[str, Arm]:
    """The same arms, one question at a time, with the seconds that each took; `model` is the one they ask.

    The first question is asked twice, and only its second time counts. A model's client must have no store.
    """

    @arm_of
    def alone(questions: Sequence[Asked], ask: Arm) -> list[Answer]:
        ask(questions[:1])
        answers = []
        for question in questions:
            with stopwatch() as watch:
                ask([question])
            seconds = (watch.seconds, 1.0)
            answers.append(Answer(repeat=1, model=model, measures={"seconds": seconds}))
        return answers

    return {name: alone(arm) for name, arm in arms.items()}


def advice(outcomes: Outcomes) -> str:
    """What to build for such questions on this run: the quickest arm that is not significantly worse than the best."""
    accuracy = {arm: outcomes.score("accuracy", arm) for arm in outcomes.arms}
    seconds = {arm: outcomes.score("median(seconds)", arm) for arm in outcomes.arms}
    best = max(outcomes.arms, key=lambda arm: (accuracy[arm].value, -seconds[arm].value))
    rivals = outcomes.compare([(best, arm) for arm in outcomes.arms if arm != best], "accuracy")
    level = [best, *(c.second for c in rivals if c.p >= ALPHA)]
    quickest = min(level, key=lambda arm: seconds[arm].value)
    kinds = {
        kind: outcomes.where(kind=kind).score("accuracy", best) for kind in outcomes.strata("kind")
    }
    weakest = min(kinds, key=lambda kind: kinds[kind].value)
    text = (
        f"**{outcomes.label(best)}** has the highest accuracy: {figures.score_text(accuracy[best])} of "
        f"{accuracy[best].n} questions, at {figures.score_text(seconds[best], 'seconds')} each. "
    )
    if len(level) > 1:
        names = ", ".join(outcomes.label(arm) for arm in level[1:])
        text += f"Not significantly different on these questions: {names}. "
        at, of_best = (figures.number(seconds[arm].value, "seconds") for arm in (quickest, best))
        if at != of_best:
            text += f"The fastest of these is {outcomes.label(quickest)}, at {at}. "
    else:
        text += "Every other architecture is significantly less accurate after Holm correction. "
    return f"{text}The best arm's weakest kind: {weakest}, {figures.score_text(kinds[weakest])}."
