"""QA-RAG's fine-tuning: which pairs are trained on, and what is said of the training."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from helpers import record
from helpers.engines import Adapter
from helpers.llm import Reply
from helpers.lora import Loss, TrainingLog
from helpers.qa_rag import data
from helpers.qa_rag import finetune as tuning
from helpers.similarity import BertScores


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


def log(*validation: float) -> TrainingLog:
    losses = tuple(Loss(10 * i, value) for i, value in enumerate(validation))
    settings = {"steps": 10 * (len(validation) - 1), "batch": 4, "rank": 8}
    return TrainingLog(
        Adapter("a", Path("a"), "ab" * 32), "base", settings, losses[1:], losses, 80, 8, 3, 9000, 50, 1000, 12.0
    )


def evaluated(split: str, tuned: bool, f1: list[float]) -> tuning.Evaluated:
    replies = tuple(Reply("So it is.", "complete", 5, 4, 0.1) for _ in f1)
    return tuning.Evaluated(split, tuned, replies, BertScores(np.array(f1), np.array(f1), np.array(f1), 0))


def start() -> record.Run:
    return record.start(notebook="15_qarag_finetune", paper="qa_rag", profile="smoke", parameters={})


def test_the_prompt_ends_with_the_question_and_the_answer_is_the_completion(sample: data.Data) -> None:
    question = sample.questions[0]
    ((messages, completion),) = tuning.pairs([question], 10_000)
    assert messages[-1]["content"].endswith(question.text)  # type: ignore[index]
    assert completion == question.answer


def test_long_pairs_are_left_out_and_the_number_is_kept(sample: data.Data) -> None:
    fitting = [q for q in sample.questions if len(q.text) + len(q.answer) <= 210]
    assert 4 < len(fitting) < len(sample.questions)
    assert [completion for _, completion in tuning.pairs(sample.questions, 210)] == [q.answer for q in fitting]
    assert len(tuning.pairs(sample.questions, 210, 4)) == 4


def test_the_row_split_tests_on_the_released_questions(sample: data.Data) -> None:
    found = tuning.splits(sample, 1)
    assert found["rows"]["test"] == sample.test
    table = tuning.splits_table(found)
    known = dict(zip(table["split"], table["test questions of a document that was trained on"], strict=True))
    assert known[tuning.SPLITS["rows"]].value == 1
    assert known[tuning.SPLITS["documents"]].value == 0


def test_the_words_of_the_curves_follow_the_data() -> None:
    assert "validation loss falls, from 3.00 to 2.50" in tuning.losses_words({"rows": log(3.0, 2.7, 2.5)})
    assert "validation loss does not fall, from 3.00 to 3.10" in tuning.losses_words({"rows": log(3.0, 2.7, 3.1)})


@pytest.mark.parametrize(
    ("losses", "gain", "verdicts"),
    [
        ((3.0, 2.0), 0.1, ["agrees", "agrees"]),
        ((3.0, 3.2), 0.1, ["differs", "agrees"]),
        ((3.0, 2.0), 0.0, ["agrees", "differs"]),
    ],
)
def test_claims_are_decided_by_the_stated_tests(losses, gain, verdicts) -> None:
    run = start()
    before = list(np.linspace(0.3, 0.5, 20))
    found = [
        evaluated(split, tuned, [x + gain * tuned for x in before])
        for split in tuning.SPLITS
        for tuned in (False, True)
    ]
    tests = tuning.compare(found, 200)
    tuning.decide_claims(run, dict.fromkeys(tuning.SPLITS, log(*losses)), tests)
    assert [claim.verdict for claim in run.claims] == verdicts


def test_only_the_papers_own_split_is_a_rerun_of_its_table() -> None:
    run = start()
    found = [evaluated(split, tuned, [0.4, 0.6]) for split in tuning.SPLITS for tuned in (False, True)]
    table = tuning.table1(run, found, "an encoder", "a model", 200)
    assert len(table) == 3 + 4
    assert {id for _, id in run._values} == {
        f"qa_rag.table1.finetuned_mistral.{c}" for c in ("precision", "recall", "f1")
    }
