"""RAGAS' context precision and context recall with the served model as judge, and how good that judge is.

Definitions: Es et al. 2023; QA-RAG, section 3.1. RAGAS shows its judge whole contexts; here it reads the window of a
context that is nearest to what it is asked about.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation import decisions, figures
from evaluation.answers import Answer, Item, PlainUnit
from evaluation.outcomes import Outcomes
from evaluation.record import Run
from helpers.completions import Choice
from helpers.llm import LLM
from papers.qa_rag import data
from papers.qa_rag.data import Question
from papers.qa_rag.retrieval import PRINTED, context_precision
from papers.qa_rag.search import Searcher
from rag.prompts import chat_messages

SYSTEM = "You check whether an excerpt of regulatory guidance supports an answer."
STATEMENTS = 4
"""Statements of an answer that are looked for; the first ones, for an answer may have dozens."""
ANSWER_CHARACTERS = 400
"""Of the reference answer that the judge is shown beside an excerpt."""
AGENT = "_agent"
"""Ends the name of an arm of Table 2 whose candidates the scoring agent orders."""
LABELS = {
    "judge_useful": "Useful to arrive at the answer? (context precision)",
    "judge_supported": "Statement attributable? (context recall)",
    **{
        f"{name}{AGENT}": f"{arm.label}, scoring agent"
        for name, arm in PRINTED.items()
        if not name.endswith("_12")
    },
}
CHECKED_BY = {"precision": "judge_useful", "recall": "judge_supported"}


def statements(answer: str) -> list[str]:
    """The first sentences of an answer with three words or more; the whole answer if it has none such."""
    parts = [part.strip() for part in re.split(r"(?<=[.?!;])\s+|\n+", answer)]
    return [part for part in parts if len(part.split()) >= 3][:STATEMENTS] or [answer.strip()]


def _useful_prompt(question: Question, excerpt: str) -> list[dict[str, str]]:
    answer = question.answer[:ANSWER_CHARACTERS]
    return chat_messages(
        SYSTEM,
        f"Question: {question.body}\n\nAnswer: {answer}\n\nExcerpt:\n{excerpt.strip()}\n\n"
        "Was the excerpt useful to arrive at this answer? Answer YES or NO.",
    )


def _supported_prompt(statement: str, excerpt: str) -> list[dict[str, str]]:
    return chat_messages(
        SYSTEM,
        f"Excerpt:\n{excerpt.strip()}\n\nStatement: {statement}\n\n"
        "Can the statement be attributed to the excerpt? Answer YES or NO.",
    )


@dataclass(frozen=True, kw_only=True)
class Known(PlainUnit):
    """A passage with a known verdict: YES if it holds the question's answer, NO if it holds none of it."""

    question: Question
    row: int


def known(
    questions: Sequence[Question], searcher: Searcher, ranked: Mapping[str, Sequence[int]]
) -> list[Known]:
    """Two passages of each question that has them: that with most of its answer, and the best ranked with none of it.

    `ranked` gives the rows of the corpus for each question's id, best first.
    """
    passages = searcher.corpus.passages
    row_of = {passage.id: row for row, passage in enumerate(passages)}
    chosen = []
    for question in questions:
        holding = data.answer_passages(question, searcher.corpus)
        documents = data.source_documents(question, searcher.corpus)
        others = (
            row
            for row in ranked[question.id]
            if passages[row].document not in documents
            and not data.held(question.answer, [passages[row].text])
        )
        if holding and (other := next(others, None)) is not None:
            right = row_of[max(holding, key=lambda id: holding[id])]
            chosen += [
                Known(
                    f"{question.id}, {gold}",
                    question.cluster,
                    question.text,
                    gold,
                    question=question,
                    row=row,
                )
                for row, gold in ((right, "YES"), (other, "NO"))
            ]
    return chosen


class Judge:
    """A language model that judges contexts."""

    def __init__(self, searcher: Searcher, model: LLM) -> None:
        """Take the model and the searcher that picks what it reads."""
        self._searcher, self._model = searcher, model
        self._row_of = {passage.id: row for row, passage in enumerate(searcher.corpus.passages)}

    def contexts(
        self, ranked: Mapping[str, Sequence[str]]
    ) -> Callable[[Sequence[Question]], list[Answer]]:
        """RAGAS' two scores of the contexts of an arm: question id -> passage ids, best first."""

        def ask(questions: Sequence[Question]) -> list[Answer]:
            useful, supported = [], []
            told = [
                statements(q.answer) if ranked[q.id] else [] for q in questions
            ]  # a blank query finds nothing
            for q, of in zip(questions, told, strict=True):
                rows = [self._row_of[id] for id in ranked[q.id]]
                useful += [
                    _useful_prompt(q, text) for text in self._searcher.excerpts(q.answer, rows)
                ]
                for statement in of:
                    windows, scores = self._searcher.best_windows(statement, rows)
                    nearest = self._searcher.windows[windows[np.argmax(scores)]]
                    supported.append(_supported_prompt(statement, nearest))
            first, second = (
                iter(self._said(useful, "useful?")),
                iter(self._said(supported, "supported?")),
            )
            return [
                _judged(
                    ranked[q.id], [next(first) for _ in ranked[q.id]], [next(second) for _ in of]
                )
                for q, of in zip(questions, told, strict=True)
            ]

        return ask

    def useful_prompt(self, pair: Known) -> list[dict[str, str]]:
        """What the judge is asked about a context whose verdict is known."""
        return _useful_prompt(
            pair.question, self._searcher.excerpts(pair.question.answer, [pair.row])[0]
        )

    def useful(self, pairs: Sequence[Known]) -> list[Answer]:
        """What the judge says of contexts whose verdict is known, asked as for precision."""
        return self._checked([self.useful_prompt(pair) for pair in pairs], "check: useful?")

    def supported(self, pairs: Sequence[Known]) -> list[Answer]:
        """The same, asked as for recall about the answer's first statement."""
        first = [(statements(pair.question.answer)[0], pair.row) for pair in pairs]
        prompts = [
            _supported_prompt(told, self._searcher.excerpts(told, [row])[0]) for told, row in first
        ]
        return self._checked(prompts, "check: supported?")

    def _checked(self, prompts: Sequence[list[dict[str, str]]], label: str) -> list[Answer]:
        return [
            Answer(
                task="check",
                predicted=_verdict(c),
                measures={"p_yes": (_yes(c), 1.0)},
                requests=[c.key],
            )
            for c in self._said(prompts, label)
        ]

    def _said(self, prompts: Sequence[list[dict[str, str]]], label: str) -> list[Choice]:
        return self._model.choose_many(prompts, ["YES", "NO"], label=f"judge: {label}")


def _yes(choice: Choice) -> float:
    return float(np.exp(choice.logprobs["YES"]))


def _verdict(choice: Choice) -> str:
    return "YES" if _yes(choice) >= 0.5 else "NO"


def _judged(ids: Sequence[str], useful: Sequence[Choice], supported: Sequence[Choice]) -> Answer:
    helps = [_verdict(c) == "YES" for c in useful]
    recall = float(np.mean([_verdict(c) == "YES" for c in supported])) if supported else 0.0
    return Answer(
        task="judged",
        items=[
            Item(id, predicted=said, rank=place, score=_yes(c))
            for place, (id, said, c) in enumerate(zip(ids, helps, useful, strict=True), start=1)
        ],
        measures={"precision": (context_precision(helps), 1.0), "recall": (recall, 1.0)},
        requests=[c.key for c in (*useful, *supported)],
    )


def unfit(outcomes: Outcomes, measure: str, judge: str) -> str:
    """Why a judge of context precision or recall is unfit: it accepts or rejects too much. Empty if it is fit."""
    right, wrong = (
        outcomes.score(name, CHECKED_BY[measure]) for name in ("sensitivity", "specificity")
    )
    if decisions.above(wrong, 0.5) == decisions.above(right, 0.5) == "agrees":
        return ""
    return (
        f"{judge}'s YES is no judgement here: it rejects {figures.score_text(wrong)} of {wrong.n} passages without the "
        f"answer (specificity), and accepts {figures.score_text(right)} of {right.n} with it (sensitivity)"
    )


def judged_arm(id: str) -> str:
    """The arm that a printed number of Tables 2, 3 or 5 is about, as a run names it; empty for other numbers."""
    table, arm, *column = id.removeprefix("qa_rag.").split(".")
    if table not in ("table2", "table3", "table5"):
        return ""
    halved = table == "table5" and arm != "qa_rag"  # the ablation has half as many candidates
    return f"{arm}{AGENT if column[0].endswith(AGENT) else '_12' if halved else ''}"


def report(
    run: Run, judged: Outcomes, refused: Mapping[str, str], judge: str, why_not: str
) -> figures.Html:
    """Report the rerun of Tables 2, 3 and 5, or why there is none; Table 3 with what the judge is fit for, or why not.

    `refused` says of each measure why the judge is unfit for it, if it is; `why_not`, why there is no fine-tuned model.
    """
    for number in run.printed.numbers:
        if not (arm := judged_arm(number.id)):
            continue
        measure = number.id.rpartition(".")[2].partition("_")[0]
        if arm not in judged.arms:
            others = "The judge of this profile reads the contexts of other arms only; measured without a judge."
            why = f"{refused[measure]}." if refused[measure] else others
            why = why_not if why_not and arm.startswith(("qa_rag", "hypothetical")) else why
        else:
            score = judged.score(measure, arm)
            if not refused[measure]:
                note = (
                    f"{judge} as judge of windows, on another corpus, with other models in each arm"
                )
                run.rerun(number.id, score, model=judge, note=note)
                continue
            why = f"{refused[measure]}. It gave {figures.score_text(score)} on {score.n} questions."
        run.not_run(number.id, why)
    told = "; ".join(f"context {measure}: {why}" for measure, why in refused.items() if why)
    if all(refused.values()):
        return figures.Html(f"<p>Not rerun, {figures.inline(told)}.</p>", f"Not rerun, {told}.")
    fit = [measure for measure, why in refused.items() if not why]
    return judged.reproduction_table(
        run.printed, "qa_rag.table3", fit, f"Table 3, contexts{f'. Not rerun, {told}' * bool(told)}"
    )
