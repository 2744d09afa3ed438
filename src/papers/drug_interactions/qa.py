"""Questions, statements and answers of drug_interactions.md as rows of the table of answers.

Tasks: `plain` (no language model), `cypher`, `known` (questions with known answers), `medquad` (reference answers) and
`judge` (ratings of the arms' answers; Setup: correctness and clarity from 1 to 5, blind to the arm).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from evaluation.answers import Answer, Item, Measures, PlainUnit
from evaluation.metrics import Score, set_scores
from evaluation.outcomes import Outcomes
from evaluation.similarity import text_cosines
from helpers.completions import Reply
from helpers.llm import LLM
from helpers.vectors import Encoder
from papers.drug_interactions.answering import (
    Arm,
    Evidence,
    answer_all,
    names_in_evidence,
    read_answer,
)
from papers.drug_interactions.cypher import Retrieved, is_right
from papers.drug_interactions.questions import NO, NOT_KNOWN, YES, Asked, answer_of
from rag.names import Vocabulary
from rag.prompts import arm_of, chat_messages

LABELS = {
    "none": "No retrieval",
    "text": "Text RAG",
    "agentic": "Agentic RAG",
    "drugrag": "DrugRAG",
    "hybrid": "Graph or text",
    "ingested": "DrugRAG, graph of notebook 05",
    "read": "DrugRAG, graph read by a model",
    "query": "Right query, names as asked",
    "linked": "Right query, brands translated",
    "query_ingested": "Right query, graph of notebook 05",
    "query_read": "Right query, graph read by a model",
    "keyword": "All facts about the names",
    "passages": "All names in five passages",
    "example": "One example",
    "no_example": "No example",
    "graphrag": "Prompt of neo4j-graphrag",
}
"""Arms, ways of answering without a language model, and ways of writing Cypher."""
COLOURS = {
    "none": "#c35410",
    "text": "#af219d",
    "agentic": "#808080",
    "drugrag": "#125ee0",
    "hybrid": "#079c6b",
}
BASELINES: tuple[Arm, ...] = ("none", "text", "agentic")

Asking = Callable[[Sequence[Asked]], list[Answer]]
Mixed = Callable[[Sequence["Asked | PlainUnit"]], list[Answer]]


def _means(values: Mapping[str, float]) -> Measures:
    return {name: (float(value), 1.0) for name, value in values.items()}


def set_row(question: Asked, said: frozenset[str], task: str) -> Answer:
    """An answer as a set (empty: unread) against the truth: exactly right or not, precision, recall and F1.

    A yes, a no and "not known" count as sets of one, so that each question has a right answer.
    """
    right = question.answer
    return Answer(
        task=task,
        predicted=", ".join(sorted(said)) or None,
        parsed=bool(said),
        items=[
            Item(name, gold=name in right, predicted=name in said) for name in sorted(said | right)
        ],
        measures=_means({"exact": said == right, **set_scores(said, right)}),
    )


def plain(found: Sequence[frozenset[str]]) -> Asking:
    """An arm without a language model: the names that retrieval found are the answer."""
    return lambda questions: [
        set_row(q, answer_of(q.form, q.parameters, names), "plain")
        for q, names in zip(questions, found, strict=True)
    ]


def by_lines(
    questions: Sequence[Asked], evidence: Sequence[Evidence], vocabulary: Vocabulary
) -> list[frozenset[str]]:
    """All names of the right kind in the passages or facts of each question."""
    return [names_in_evidence(q, e, vocabulary) for q, e in zip(questions, evidence, strict=True)]


@arm_of
def statement(questions: Sequence[Asked], retrieved: Sequence[Retrieved]) -> list[Answer]:
    """The statements that were written for questions, and the step that gave the right names."""
    rows = []
    for question, r in zip(questions, retrieved, strict=True):
        right = r.step(question)
        measures = {
            **{step: step == right for step in ("first_try", "repaired", "simplified")},
            "right": right is not None,
            "first_statement": is_right(question, r.attempts[0][1]),
            "seconds": r.seconds,
        }
        rows.append(
            Answer(
                task="cypher",
                answer=r.last.cypher,
                predicted=", ".join(sorted(r.last.returned)) or None,
                cut=r.cut,
                measures=_means(measures),
                requests=r.requests,
            )
        )
    return rows


def arms(
    llm: LLM,
    evidence: Mapping[Arm, Sequence[Evidence]],
    vocabulary: Vocabulary,
    *,
    max_tokens: int,
    temperature: float,
) -> dict[str, Mixed]:
    """The arms by one model: answers from the evidence that each arm found."""

    @arm_of
    def arm(questions: Sequence[Asked | PlainUnit], name: Arm) -> list[Answer]:
        replies = answer_all(
            llm, [q.text for q in questions], evidence[name], max_tokens, temperature, name
        )
        told = zip(questions, evidence[name], replies, strict=True)
        return [answer_row(question, found, reply, vocabulary) for question, found, reply in told]

    return {name: arm(name) for name in evidence}


def answer_row(
    question: Asked | PlainUnit, evidence: Evidence, reply: Reply, vocabulary: Vocabulary
) -> Answer:
    """An answer of a model, read as a set where the right one is a set. A prompt over the context has no answer.

    `within_reach` is the share of the right names that the evidence holds.
    """
    text = " ".join(reply.text.split())
    row = Answer(task="medquad")
    more: dict[str, float] = {}
    if isinstance(question, Asked):
        row = set_row(question, read_answer(question, text, vocabulary), "known")
        if question.answer not in (YES, NO, NOT_KNOWN):
            told = names_in_evidence(question, evidence, vocabulary) & question.answer
            more["within_reach"] = len(told) / len(question.answer)
    if reply.status != "overflow":
        more["seconds"] = reply.seconds
        if reply.prompt_tokens is not None:
            more["prompt_tokens"] = reply.prompt_tokens
    columns = reply.columns | {"answer": text, "requests": [*evidence.requests, reply.key]}
    return replace(row, **columns, measures={**row.measures, **_means(more)})


def near(rows: Sequence[Answer], encoder: Encoder) -> list[Answer]:
    """The rows, those of MedQuAD with the cosine to the reference (Setup); 0 for an empty answer."""
    pairs = [(row.answer or "", row.gold or "") for row in rows if row.task == "medquad"]
    cosines = iter(text_cosines(pairs, encoder))
    found = []
    for row in rows:
        measures = dict(row.measures)
        if row.task == "medquad":
            measures |= _means({"cosine": next(cosines)})
        found.append(replace(row, measures=measures))
    return found


MARKS = range(1, 6)
CHOICES = tuple(f"{correctness} {clarity}" for correctness, clarity in product(MARKS, MARKS))
SHOWN = 600  # characters of a MedQuAD reference that the judge is shown
PASS = 4  # the mark of correctness that says mostly right

_SCALES = {
    "correctness": (
        "wholly wrong or no answer",
        "mostly wrong",
        "half right",
        "mostly right",
        "right and complete",
    ),
    "clarity": ("cannot be understood", "hard to follow", "understandable", "clear", "very clear"),
}


def judge_prompt(question: str, answer: str, reference: str) -> list[dict[str, str]]:
    """The scales, then question, right answer and answer, so that answers to one question share the most."""
    scales = "\n".join(
        f"{name}: " + "; ".join(f"{mark} {words[mark - 1]}" for mark in MARKS)
        for name, words in _SCALES.items()
    )
    return chat_messages(
        "You rate an answer to a question about drugs. Compare it with the right answer. Give two marks, first "
        f"correctness, then clarity, with a space between them.\n{scales}",
        f"Question: {question}\nRight answer: {reference}\nAnswer: {answer or '(none)'}",
    )


def judged(
    llm: LLM, rows: Sequence[Answer], seed: int, units: Collection[str]
) -> tuple[list[Answer], list[Answer]]:
    """The rows, those of `units` with the judge's rating from 0 to 1, and a row of the judge for each rated one.

    The rating is the mean of the two marks, normalised (Setup: metrics). A row of the judge (`of` names the arm) has
    the mark of correctness, and is YES where the answer is exactly right. Answers are rated in an order drawn by
    chance; those to the same question with the same words get the same marks.
    """
    rated = [row for row in rows if row.unit in units]
    order = np.random.default_rng(seed).permutation(len(rated))
    asked = []
    for row in (rated[i] for i in order):
        reference = row.gold or ""
        if row.task == "medquad" and len(reference) > SHOWN:
            reference = f"{reference[: SHOWN - 3]}..."
        asked.append(judge_prompt(row.question or "", row.answer or "", reference))
    choices = llm.choose_many(asked, CHOICES, label="judge")
    marked, judgements = [], []
    for _, choice, row in sorted(
        zip(order, choices, (rated[i] for i in order), strict=True), key=lambda of: of[0]
    ):
        correctness, clarity = map(int, choice.answer.split())
        rating = ((correctness + clarity) / 2 - 1) / 4
        measures = {**row.measures, "rating": (rating, 1.0)}
        marked.append(replace(row, measures=measures))
        judgement = Answer(
            arm="judge",
            unit=row.unit,
            cluster=row.unit,
            run=row.run,
            model=llm.endpoint.model,
            task="judge",
            judged_arm=row.arm,
            question=row.question or "",
            answer=row.answer or "",
            predicted=choice.answer,
            requests=[choice.key],
        )
        if row.task == "known":
            right = bool(row.measures["exact"][0])
            told = {"missed": correctness < PASS} if right else {"passed": correctness >= PASS}
            marks = _means({"correctness": correctness, **told})
            judgement = replace(judgement, gold="YES" if right else "NO", measures=marks)
        judgements.append(judgement)
    return marked + [row for row in rows if row.unit not in units], judgements


def tells_apart(judgements: Outcomes) -> Score | None:
    """The judge's area under the curve, right answers against wrong ones; None if there are not both."""
    if len(set(judgements.frame.gold.dropna())) < 2:
        return None
    return judgements.score("auc(correctness)")


def useful(truth: Score | None) -> bool:
    """Whether a judge can tell right from wrong: its area under the curve is above chance, interval and all."""
    return truth is not None and truth.low > 0.5
