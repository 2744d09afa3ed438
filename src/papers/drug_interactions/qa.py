"""Questions, statements and judgements of drug_interactions.md as rows of the table of answers.

Tasks: `plain` (no language model), `cypher`, `known` (questions with known answers), `medquad` (reference answers),
`follow_up`, `judge` (ratings of the arms' answers) and `planted` (ratings of answers known to be right or wrong).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np

from helpers.llm import LLM
from helpers.rag.names import Vocabulary
from helpers.results.answers import Answer, Item, Measures
from helpers.results.metrics import Score, set_scores
from helpers.results.outcomes import Outcomes
from helpers.similarity import bertscore_arms, sentence_similarity_arms
from helpers.vectors import Encoder
from papers.drug_interactions.answering import (
    Answered,
    Arm,
    Evidence,
    Search,
    answer_all,
    names_in_evidence,
    read_answer,
)
from papers.drug_interactions.cypher import Retrieved, is_right
from papers.drug_interactions.judge import Judged, Rating, rate
from papers.drug_interactions.questions import NO, NOT_KNOWN, YES, Asked, Reference, answer_of

LABELS = {
    "none": "No retrieval",
    "text": "Text RAG",
    "agentic": "Agentic RAG",
    "drugrag": "DrugRAG",
    "hybrid": "Graph or text",
    "query": "Right query, names as asked",
    "linked": "Right query, brands translated",
    "keyword": "All facts about the names",
    "passages": "All names in five passages",
    "example": "One example",
    "no_example": "No example",
    "with_history": "Statement, with history",
    "without_history": "Statement, without history",
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
SHOWN = 600
"""Characters of a MedQuAD reference that the judge is shown."""
PASS = 4
"""The mark of correctness that says mostly right."""
NEARNESS = ("cosine", "bertscore_f1", "bertscore_precision", "bertscore_recall")

Asking = Callable[[Sequence[Asked]], list[Answer]]
Mixed = Callable[[Sequence["Asked | Reference"]], list[Answer]]


def _means(values: Mapping[str, float]) -> Measures:
    return {name: (float(value), 1.0) for name, value in values.items()}


# -------------------------------------------------------------------------------------------------------------- sets


def set_row(question: Asked, said: frozenset[str], task: str) -> Answer:
    """An answer as a set (empty: unread) against the truth: exactly right or not, precision, recall and F1.

    A yes, a no and "not known" count as sets of one, so that each question has a right answer.
    """
    right = question.answer
    return Answer(
        task=task,
        predicted=", ".join(sorted(said)) or None,
        parsed=bool(said),
        items=[Item(name, gold=name in right, predicted=name in said) for name in sorted(said | right)],
        measures=_means({"exact": said == right, **set_scores(said, right)}),
    )


def plain(found: Sequence[frozenset[str]]) -> Asking:
    """An arm without a language model: the names that retrieval found are the answer."""

    def ask(questions: Sequence[Asked]) -> list[Answer]:
        return [
            set_row(q, answer_of(q.form, q.parameters, names), "plain")
            for q, names in zip(questions, found, strict=True)
        ]

    return ask


def by_lines(questions: Sequence[Asked], evidence: Sequence[Evidence], vocabulary: Vocabulary) -> list[frozenset[str]]:
    """All names of the right kind in the passages or facts of each question."""
    return [names_in_evidence(q, e, vocabulary) for q, e in zip(questions, evidence, strict=True)]


# ------------------------------------------------------------------------------------------------------------ Cypher


def statement(retrieved: Sequence[Retrieved], task: str = "cypher") -> Asking:
    """The statements that were written for questions: the step that gave the right names, and why it failed."""

    def ask(questions: Sequence[Asked]) -> list[Answer]:
        rows = []
        for question, r in zip(questions, retrieved, strict=True):
            step = r.step(question)
            measures = {
                "first_try": step == "first try",
                "repaired": step == "repaired",
                "simplified": step == "relaxed",
                "right": step is not None,
                "first_statement": is_right(question, r.tried[0].attempt),
                "seconds": r.seconds,
            }
            rows.append(
                Answer(
                    task=task,
                    answer=r.tried[-1].attempt.cypher,
                    predicted=", ".join(sorted(r.names)) or None,
                    cut=r.tried[-1].cut,
                    strata={"failure": r.reason(question) or "none"},
                    measures=_means(measures),
                    requests=r.requests,
                )
            )
        return rows

    return ask


# ----------------------------------------------------------------------------------------------------------- answers


def arms(
    llm: LLM,
    evidence: Mapping[Arm, Sequence[Evidence]],
    vocabulary: Vocabulary,
    searches: Sequence[Search] = (),
    *,
    max_tokens: int,
    temperature: float,
) -> dict[str, Mixed]:
    """The arms by one model: answers from the evidence that each arm found; `searches` are those of the agentic arm."""

    def arm(name: Arm) -> Mixed:
        def ask(questions: Sequence[Asked | Reference]) -> list[Answer]:
            texts = [q.text for q in questions]
            said = answer_all(llm, texts, evidence[name], max_tokens=max_tokens, temperature=temperature, label=name)
            rows = [answer_row(q, a, vocabulary) for q, a in zip(questions, said, strict=True)]
            if name != "agentic" or not searches:
                return rows
            again = [(float(search.again), float(len(search.rounds[1]))) for search in searches]
            return [
                replace(row, measures={**row.measures, "found_again": pair})
                for row, pair in zip(rows, again, strict=True)
            ]

        return ask

    return {name: arm(name) for name in evidence}


def answer_row(question: Asked | Reference, said: Answered, vocabulary: Vocabulary, task: str = "known") -> Answer:
    """An answer of a model, read as a set where the right one is a set. A prompt over the context has no answer.

    `within_reach` is the share of the right names that the evidence holds.
    """
    overflow = said.reply.status == "overflow"
    row = Answer(task="medquad")
    if isinstance(question, Asked):
        row = set_row(question, read_answer(question, said.text, vocabulary), task)
        if question.answer not in (YES, NO, NOT_KNOWN):
            told = names_in_evidence(question, said.evidence, vocabulary) & question.answer
            reach = (float(len(told)), float(len(question.answer)))
            row = replace(row, measures={**row.measures, "within_reach": (reach[0] / reach[1], 1.0)})
    costs = {} if overflow else {"prompt_tokens": said.reply.prompt_tokens, "seconds": said.reply.seconds}
    return replace(
        row,
        answer=said.text,
        cut=said.reply.status == "cut",
        overflow=overflow,
        measures={**row.measures, **_means(costs)},
        requests=[said.reply.key],
    )


def near(rows: Sequence[Answer], encoder: Encoder) -> list[Answer]:
    """The rows, those of MedQuAD with the cosine (Setup) and BERTScore to the reference; 0 for an empty answer."""
    of_arm: dict[str, list[int]] = defaultdict(list)
    for i, row in enumerate(rows):
        if row.task == "medquad":
            of_arm[f"{row.model} {row.arm}"].append(i)
    if not of_arm:
        return list(rows)
    texts = {name: [rows[i].answer or "" for i in at] for name, at in of_arm.items()}
    wanted = [rows[i].gold or "" for i in next(iter(of_arm.values()))]
    cosines = sentence_similarity_arms(texts, wanted, encoder, progress=False)
    scores = bertscore_arms(texts, wanted, encoder, progress=False)
    found = list(rows)
    for name, at in of_arm.items():
        of = scores[name]
        # an encoder has a vector for no words, too
        columns = (np.where([bool(t.strip()) for t in texts[name]], cosines[name], 0.0), of.f1, of.precision, of.recall)
        for place, i in enumerate(at):
            values = _means({m: column[place] for m, column in zip(NEARNESS, columns, strict=True)})
            found[i] = replace(rows[i], measures={**rows[i].measures, **values})
    return found


# ------------------------------------------------------------------------------------------------------------- judge


def judged(
    llm: LLM, rows: Sequence[Answer], seed: int, units: Collection[str] | None = None
) -> tuple[list[Answer], list[Answer]]:
    """The rows, those of `units` with the judge's normalised rating, and a row of the judge for each rated one.

    Each answer is rated twice, the second time with the scales listed downwards; the first rating counts. A row of the
    judge (`of` names the arm) is YES where the answer is exactly right, and has the mark of correctness.
    """
    others = [row for row in rows if units is not None and row.unit not in units]
    rows = [row for row in rows if units is None or row.unit in units]
    asked = [Judged(row.question or "", row.answer or "", _reference(row)) for row in rows]
    first, second = (rate(llm, asked, downwards=turned, seed=seed + turned) for turned in (False, True))
    marked, judgements = [], []
    for row, one, two in zip(rows, first, second, strict=True):
        keys = [one.key, two.key]
        measures = {**row.measures, "rating": (one.normalised, 1.0)}
        marked.append(replace(row, measures=measures, requests=[*row.requests, *keys]))
        values: dict[str, float] = {"same": one.overall == two.overall}
        right = None
        if row.task == "known":
            right = bool(row.measures["exact"][0])
            values |= {"correctness": one.correctness}
            values |= {"missed": one.correctness < PASS} if right else {"passed": one.correctness >= PASS}
        judgements.append(
            replace(
                _judgement(row.unit, row.unit, row.question or "", row.answer or "", one, right),
                run=row.run,
                model=llm.endpoint.model,
                of=row.arm,
                measures=_means(values),
                requests=keys,
            )
        )
    return marked + others, judgements


def _reference(row: Answer) -> str:
    text = row.gold or ""
    return text if row.task == "known" or len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _judgement(unit: str, cluster: str, question: str, answer: str, said: Rating, right: bool | None) -> Answer:
    return Answer(
        arm="judge",
        unit=unit,
        cluster=cluster,
        task="judge",
        question=question,
        answer=answer,
        predicted=f"{said.correctness} {said.clarity}",
        gold=None if right is None else "YES" if right else "NO",
    )


def plant(known: Sequence[Asked], *, reference: bool) -> tuple[list[Judged], list[bool]]:
    """Answers known to be right and wrong, half and half, to see whether the judge can tell them apart.

    The right one says what is right, the wrong one what is right of another question of this kind of answer. With
    `reference` the judge is shown the right answer.
    """
    planted, right = [], []
    for i, question in enumerate(known):
        others = [q for q in [*known[i + 1 :], *known[:i]] if q.form.role == question.form.role]
        wrong = next((q for q in others if q.answer.isdisjoint(question.answer)), None)
        if wrong is None:
            continue
        for answer, correct in ((question, True), (wrong, False)):
            planted.append(Judged(question.text, answer.gold, question.gold if reference else ""))
            right.append(correct)
    return planted, right


def planted(llm: LLM, known: Sequence[Asked], profile: str, seed: int) -> list[Answer]:
    """The judge's marks for planted answers, with the right answer shown and, as the paper does it, without."""
    rows = []
    for way, shown in (("right answer shown", True), ("right answer not shown", False)):
        pairs, right = plant(known, reference=shown)
        for pair, said, correct in zip(pairs, rate(llm, pairs, seed=seed), right, strict=True):
            unit = f"{pair.question} {'right' if correct else 'wrong'}"
            row = _judgement(unit, pair.question, pair.question, pair.answer, said, correct)
            measures = _means({"correctness": said.correctness})
            model = llm.endpoint.model
            rows.append(
                replace(row, task="planted", of=way, run=profile, model=model, measures=measures, requests=[said.key])
            )
    return rows


def tells_apart(judgements: Outcomes) -> Score | None:
    """The judge's area under the curve, right answers against wrong ones; None if there are not both."""
    if len(set(judgements.frame.gold.dropna())) < 2:
        return None
    return judgements.score("auc(correctness)")
