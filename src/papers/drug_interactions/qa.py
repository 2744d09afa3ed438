"""Questions, statements and answers of drug_interactions.md as rows of the table of answers.

Tasks: `plain` (no language model), `cypher`, `known` (questions with known answers), `medquad`
(reference answers) and `judge` (ratings of the arms' answers; Setup: correctness and clarity from 1
to 5, blind to the arm).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product

import numpy as np

from evaluation import figures
from evaluation.answers import NOT_RUN, Answer, Item, Measures, PlainUnit
from evaluation.metrics import Score, set_scores
from evaluation.outcomes import Comparison, Outcomes
from evaluation.similarity import text_cosines
from helpers.completions import CapabilityError, Choice, Reply
from helpers.llm import LLM
from helpers.vectors import Encoder
from papers.drug_interactions.answering import (
    Arm,
    Evidence,
    abstains,
    answer_all,
    answer_prompt,
    names_in_evidence,
    read_answer,
)
from papers.drug_interactions.cypher import History, Retrieved, is_right
from papers.drug_interactions.questions import (
    NO,
    NOT_KNOWN,
    SORTS_IN_SCOPE,
    YES,
    Asked,
    FollowUp,
    answer_of,
)
from rag.names import Vocabulary
from rag.prompts import chat_messages

LABELS = {
    "alone": "No retrieval",
    "none": "No retrieval (may say not known)",
    "text": "Text RAG",
    "agentic": "Agentic RAG",
    "drugrag": "DrugRAG",
    "hybrid": "Graph or text",
    "ingested": "DrugRAG (graph of chapter 05)",
    "read": "DrugRAG (graph read by a model)",
    "history": "DrugRAG with the conversation",
    "no_history": "DrugRAG (the follow-up alone)",
    "query": "Right query (names as asked)",
    "linked": "Right query (brands translated)",
    "query_ingested": "Right query (graph of chapter 05)",
    "query_read": "Right query (graph read by a model)",
    "keyword": "All facts about the names",
    "passages": "All names in five passages",
    "example": "One example",
    "no_example": "No example",
    "graphrag": "Prompt of neo4j-graphrag",
}
"""Arms, ways of answering without a language model, and ways of writing Cypher."""
NOTHING, TEXT, GRAPH = (figures.HUES[hue] for hue in ("orange", "magenta", "green"))
COLOURS = {
    "alone": NOTHING,
    "none": NOTHING,
    "text": TEXT,
    "agentic": TEXT,
    "drugrag": GRAPH,
    "hybrid": GRAPH,
    "ingested": GRAPH,
    "read": GRAPH,
    "history": GRAPH,
    "no_history": GRAPH,
}
"""One colour for each family: what is retrieved."""
BASELINES: tuple[Arm, ...] = ("alone", "text", "agentic")

Unit = Asked | PlainUnit
"""A question with a known answer, or one of MedQuAD."""


def within_scope(outcomes: Outcomes) -> Outcomes:
    """Leave out MedQuAD's questions that no graph of interactions and side effects can answer.

    In the paper, every question could be answered from the graph (Discussion, generality).
    """
    is_medquad = outcomes.frame.task == "medquad"
    if is_medquad.all():
        return outcomes.where(sort=SORTS_IN_SCOPE)
    sorts = outcomes.frame.strata.map(lambda strata: strata.get("sort"))
    return outcomes.select(~is_medquad | sorts.isin(SORTS_IN_SCOPE))


def _means(values: Mapping[str, float]) -> Measures:
    return {name: (float(value), 1.0) for name, value in values.items()}


def set_row(question: Asked, names: frozenset[str], task: str) -> Answer:
    """Compare an answer as a set with the truth: exactly right or not, precision, recall and F1.

    A yes, a no and "not known" count as sets of one, so that each question has a right answer.

    Args:
        question: The question, with its right answer.
        names: The answer, empty if it could not be read.
        task: The task of the row.
    """
    right = question.answer
    items = [
        Item(name, gold=name in right, predicted=name in names) for name in sorted(names | right)
    ]
    return Answer(
        task=task,
        predicted=_name_list(names),
        parsed=bool(names),
        items=items,
        measures=_means({"exact": names == right, **set_scores(names, right)}),
    )


def _name_list(names: Collection[str]) -> str | None:
    return ", ".join(sorted(names)) or None


@dataclass(frozen=True)
class PlainNames:
    """An arm without a language model: the names that retrieval found are the answer."""

    found: Sequence[frozenset[str]]

    def __call__(self, questions: Sequence[Asked]) -> list[Answer]:
        """Answer each question."""
        rows = []
        for question, names in zip(questions, self.found, strict=True):
            answer = answer_of(question.form, question.parameters, names)
            rows.append(set_row(question, answer, "plain"))
        return rows


def names_in_lines(
    questions: Sequence[Asked], evidence: Sequence[Evidence], vocabulary: Vocabulary
) -> list[frozenset[str]]:
    """Return all names of the right kind in the passages or facts of each question."""
    return [
        names_in_evidence(question, found, vocabulary)
        for question, found in zip(questions, evidence, strict=True)
    ]


@dataclass(frozen=True)
class Statements:
    """The statements that were written for questions, and the step that gave the right names."""

    retrieved: Sequence[Retrieved]

    def __call__(self, questions: Sequence[Asked]) -> list[Answer]:
        """Compare what the statements return with the right names."""
        return [
            _statement_row(question, result)
            for question, result in zip(questions, self.retrieved, strict=True)
        ]


def _statement_row(question: Asked, result: Retrieved) -> Answer:
    right_step = result.step(question)
    _, first_attempt = result.attempts[0]
    is_first_right = is_right(question, first_attempt)
    steps = {step: step == right_step for step in ("first_try", "repaired", "simplified")}
    measures = {
        **steps,
        "right": right_step is not None,
        "first_statement": is_first_right,
        "seconds": result.seconds,
    }
    found_nothing = first_attempt.problem.startswith("No rows")
    if not is_first_right:
        measures["found_nothing"] = found_nothing
    if not is_first_right and found_nothing:
        measures["rescued"] = right_step is not None
    return Answer(
        task="cypher",
        answer=result.last.cypher,
        predicted=_name_list(result.last.returned),
        cut=result.cut,
        measures=_means(measures),
        requests=result.requests,
    )


@dataclass(frozen=True)
class EvidenceArm:
    """An arm: the large model answers from the evidence that was found.

    Attributes:
        name: The key of the arm.
        llm: The model that answers.
        evidence: What the arm found for each question.
        vocabulary: The names that an answer may have.
        max_tokens: Longest answer, in tokens.
        temperature: Sampling temperature.
        histories: What each question follows in a conversation; empty if none follows anything.
        task: The task of questions with a known answer.
    """

    name: Arm
    llm: LLM
    evidence: Sequence[Evidence]
    vocabulary: Vocabulary
    max_tokens: int
    temperature: float
    histories: Sequence[History] = ()
    task: str = "known"

    def __call__(self, questions: Sequence[Unit]) -> list[Answer]:
        """Answer each question."""
        histories = self.histories or [()] * len(questions)
        prompts = []
        for question, found, history in zip(questions, self.evidence, histories, strict=True):
            prompts.append(answer_prompt(question.text, found, history))
        replies = answer_all(self.llm, prompts, self.max_tokens, self.temperature, self.name)
        return [
            answer_row(question, found, reply, self.vocabulary, self.task)
            for question, found, reply in zip(questions, self.evidence, replies, strict=True)
        ]


def arms(
    llm: LLM,
    evidence: Mapping[Arm, Sequence[Evidence]],
    vocabulary: Vocabulary,
    *,
    max_tokens: int,
    temperature: float,
) -> dict[str, EvidenceArm]:
    """Return the arms by one model.

    Args:
        llm: The model that answers.
        evidence: What each arm found for each question.
        vocabulary: The names that an answer may have.
        max_tokens: Longest answer, in tokens.
        temperature: Sampling temperature.
    """
    return {
        name: EvidenceArm(name, llm, found, vocabulary, max_tokens, temperature)
        for name, found in evidence.items()
    }


def conversations(
    follow_ups: Sequence[FollowUp],
    questions: Sequence[Asked],
    retrieved: Sequence[Retrieved],
    rows: Sequence[Answer],
) -> list[History]:
    """Return what each follow-up follows: its first question, as DrugRAG answered it.

    Args:
        follow_ups: The follow-ups.
        questions: The questions that were answered, the first ones among them.
        retrieved: What was retrieved for each of them.
        rows: Their answers.
    """
    texts = [question.text for question in questions]
    retrieved_for = dict(zip(texts, retrieved, strict=True))
    answers = {}
    for row in rows:
        if row.arm == "drugrag":
            answers[row.question] = row.answer or ""
    histories: list[History] = []
    for follow_up in follow_ups:
        text = follow_up.first.text
        histories.append([retrieved_for[text].turn(text, answers[text])])
    return histories


def answer_row(
    question: Unit,
    evidence: Evidence,
    reply: Reply,
    vocabulary: Vocabulary,
    task: str = "known",
) -> Answer:
    """Make the row of an answer: read as a set where the right one is known, and its costs.

    `within_reach` is the share of the right names that the evidence holds, `evidence_precision` the
    share of right ones among the names of the right kind that it holds. An arm that retrieves
    nothing has neither. `retrieval_precision` is the latter without what DrugRAG's search for names
    found, which is no query. With facts, `by_query` tells whether a statement found them, and
    `by_models_query` whether it was the model's own, not relaxed.

    Args:
        question: The question.
        evidence: What the model answered from; its requests are part of the costs.
        reply: The model's reply.
        vocabulary: The names that an answer may have.
        task: The task of a question with a known answer.
    """
    text = " ".join(reply.text.split())
    row = Answer(task="medquad")
    more: dict[str, float] = {}
    if isinstance(question, Asked):
        row = set_row(question, read_answer(question, text, vocabulary), task)
        retrieves = evidence.source in ("passages", "facts")
        if retrieves and question.answer not in (YES, NO, NOT_KNOWN):
            retrieved = names_in_evidence(question, evidence, vocabulary)
            n_right = len(retrieved & question.answer)
            more["within_reach"] = n_right / len(question.answer)
            more["evidence_precision"] = n_right / len(retrieved) if retrieved else 0.0
            is_searched = evidence.found_by == "search"
            more["retrieval_precision"] = 0.0 if is_searched else more["evidence_precision"]
            if evidence.found_by:
                more["by_query"] = not is_searched
                more["by_models_query"] = evidence.found_by == "model's statement"
    if reply.status != "overflow":
        more["seconds"] = reply.seconds
        if reply.prompt_tokens is not None:
            more["prompt_tokens"] = reply.prompt_tokens
    columns = reply.columns | {"answer": text, "requests": [*evidence.requests, reply.key]}
    return replace(row, **columns, measures={**row.measures, **_means(more)})


def add_cosines(rows: Sequence[Answer], encoder: Encoder) -> list[Answer]:
    """Add the cosine to the reference to MedQuAD's rows (Setup); 0 for an empty answer.

    The cosine of "Not known" says little of an answer, so those are counted, and the cosines of the
    others are a measure of their own.
    """
    pairs = [_answer_and_gold(row) for row in rows if row.task == "medquad"]
    cosines = iter(text_cosines(pairs, encoder))
    compared = []
    for row in rows:
        measures = dict(row.measures)
        if row.task == "medquad":
            measures |= _means(_nearness(row, next(cosines)))
        compared.append(replace(row, measures=measures))
    return compared


def _nearness(row: Answer, cosine: float) -> dict[str, float]:
    if abstains(row.answer or ""):
        return {"cosine": cosine, "answered": 0.0}
    return {"cosine": cosine, "answered": 1.0, "cosine_answered": cosine}


def _answer_and_gold(row: Answer) -> tuple[str, str]:
    return row.answer or "", row.gold or ""


def comparable(rows: Outcomes, pairs: Iterable[tuple[str, str]], measure: str) -> list[Comparison]:
    """Compare the pairs of arms that share units with a measure."""
    shared = []
    for first, second in pairs:
        own_units = set(rows.rows_with(measure, first).unit)
        if not own_units.isdisjoint(rows.rows_with(measure, second).unit):
            shared.append((first, second))
    return rows.compare(shared, measure)


def cut_text(rows: Outcomes, questions: str = "") -> str:
    """Say how many replies of the paper's no retrieval the token limit cut off.

    Args:
        rows: The rows of the questions.
        questions: Which questions these are; by default the sentence does not say it.
    """
    replies = rows.where(arm="alone").frame
    n_cut = int(replies.cut.astype(bool).sum())
    to = f" to {questions}" if questions else ""
    return f'The token limit cut off {n_cut} of the {len(replies)} replies of "No retrieval"{to}.'


MARKS = range(1, 6)
CHOICES = tuple(f"{correctness} {clarity}" for correctness, clarity in product(MARKS, MARKS))
MAX_REFERENCE = 600
"""Characters of a MedQuAD reference that the judge is shown."""
PASS = 4
"""The mark of correctness that says mostly right."""

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


_JUDGE = (
    "You rate an answer to a question about drugs. Compare it with the right answer. Give two "
    "marks, first correctness, then clarity, with a space between them."
)


def judge_prompt(question: str, answer: str, reference: str) -> list[dict[str, str]]:
    """Build the prompt of the judge.

    The scales come first, then question, right answer and answer, so that answers to one question
    share the most.
    """
    scales = [_scale_text(name, words) for name, words in _SCALES.items()]
    rules = "\n".join([_JUDGE, *scales])
    return chat_messages(
        rules,
        f"Question: {question}\nRight answer: {reference}\nAnswer: {answer or '(none)'}",
    )


def _scale_text(name: str, words: Sequence[str]) -> str:
    marks = [f"{mark} {word}" for mark, word in zip(MARKS, words, strict=True)]
    return f"{name}: {'; '.join(marks)}"


def rate(
    llm: LLM, rows: Sequence[Answer], seed: int, units: Collection[str]
) -> tuple[list[Answer], list[Answer]]:
    """Let the judge rate the answers to `units`.

    The rating from 0 to 1 is the mean of the two marks, normalised (Setup: metrics). Answers are
    rated in an order drawn by chance; those to the same question with the same words get the same
    marks.

    Args:
        llm: The judge.
        rows: Answers of the arms.
        seed: Seed of the order.
        units: The units whose answers are rated.

    Returns:
        The rows with ratings, those of other units last, and a row of the judge for each rated one.
        The rows are as they were if the judge's server cannot constrain its reply.
    """
    to_rate = [row for row in rows if row.unit in units]
    not_rated = [row for row in rows if row.unit not in units]
    order = np.random.default_rng(seed).permutation(len(to_rate)).tolist()
    prompts = [_judge_row_prompt(to_rate[position]) for position in order]
    try:
        choices = llm.choose_many(prompts, CHOICES, label="judge")
    except CapabilityError as error:
        return list(rows), [_not_judged(row, str(error), llm.endpoint.model) for row in to_rate]
    choice_at = dict(zip(order, choices, strict=True))
    rated, judgements = [], []
    for position, row in enumerate(to_rate):
        choice = choice_at[position]
        correctness, clarity = map(int, choice.answer.split())
        rating = ((correctness + clarity) / 2 - 1) / 4
        rated.append(replace(row, measures={**row.measures, "rating": (rating, 1.0)}))
        judgements.append(_judgement(row, choice, correctness, llm.endpoint.model))
    return rated + not_rated, judgements


def _judge_row_prompt(row: Answer) -> list[dict[str, str]]:
    reference = row.gold or ""
    if row.task == "medquad" and len(reference) > MAX_REFERENCE:
        reference = f"{reference[: MAX_REFERENCE - 3]}..."
    return judge_prompt(row.question or "", row.answer or "", reference)


def _judgement(row: Answer, choice: Choice, correctness: int, judge: str) -> Answer:
    """Make the judge's row of a rated answer.

    It has the mark of correctness, and is YES where the answer is exactly right.
    """
    judgement = Answer(
        arm="judge",
        unit=row.unit,
        cluster=row.unit,
        run=row.run,
        model=judge,
        task="judge",
        judged_arm=row.arm,
        question=row.question or "",
        answer=row.answer or "",
        predicted=choice.answer,
        requests=[choice.key],
    )
    if row.task != "known":
        return judgement
    measures: dict[str, float] = {"correctness": correctness}
    is_exact = bool(row.measures["exact"][0])
    if is_exact:
        measures["missed"] = correctness < PASS
    else:
        measures["passed"] = correctness >= PASS
    gold = "YES" if is_exact else "NO"
    return replace(judgement, gold=gold, measures=_means(measures))


def _not_judged(row: Answer, why: str, judge: str) -> Answer:
    """Make the row of a judge that was not run."""
    return Answer(
        arm="judge",
        unit=row.unit,
        run=row.run,
        model=judge,
        task="judge",
        judged_arm=row.arm,
        strata={NOT_RUN: why},
    )


def judge_auc(judgements: Outcomes) -> Score | None:
    """Return the judge's area under the curve, right answers against wrong ones.

    It is None if there are not both.
    """
    if len(set(judgements.frame.gold.dropna())) < 2:
        return None
    return judgements.score("auc(correctness)")


def is_useful(truth: Score | None) -> bool:
    """Whether a judge can tell right from wrong: its AUC is above chance, interval and all."""
    return truth is not None and truth.low > 0.5
