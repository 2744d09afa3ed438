"""QA-RAG's fine-tuning: which pairs are trained on, and what is said of the training."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest

from helpers import services, settings
from helpers.engines import Adapter
from helpers.llm import Reply
from helpers.lora import Loss, TrainingLog
from helpers.results import record
from helpers.similarity import BertScores
from papers.qa_rag import data
from papers.qa_rag import finetune as tuning
from papers.qa_rag.encoders import PAPER_ENCODER, encoder_of


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


def log(*validation: float) -> TrainingLog:
    losses = tuple(Loss(10 * i, value) for i, value in enumerate(validation))
    settings = {"steps": 10 * (len(validation) - 1), "batch": 4, "rank": 8}
    return TrainingLog(
        Adapter("a", Path("a"), "ab" * 32), "base", settings, losses[1:], losses, 80, 8, 3, 9000, 50, 1000, 12.0
    )


def evaluated(split: str, tuned: bool, f1: list[float], documents: int = 0) -> tuning.Evaluated:
    """Answers to questions of so many documents; one of each if left out."""
    replies = tuple(Reply("So it is.", "complete", 5, 4, 0.1) for _ in f1)
    of = tuple(f"document {i % (documents or len(f1))}" for i in range(len(f1)))
    return tuning.Evaluated(split, tuned, replies, BertScores(np.array(f1), np.array(f1), np.array(f1), 0), of)


@pytest.fixture
def server_with(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[str]], AbstractContextManager[None]]]:
    """A server that the settings name and that lists these models, for as long as the context lasts."""

    @contextmanager
    def listing(models: list[str]) -> Iterator[None]:
        content = json.dumps({"data": [{"id": model} for model in models]}).encode()

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
            threading.Thread(target=http.serve_forever, daemon=True).start()
            monkeypatch.setenv("LLM_BASE_URL", f"http://127.0.0.1:{http.server_port}/v1")
            settings.settings.cache_clear()
            yield
            http.shutdown()

    yield listing
    monkeypatch.undo()
    settings.settings.cache_clear()


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
        ((3.0, 2.0), -0.1, ["agrees", "differs"]),
    ],
)
def test_claims_are_decided_by_the_stated_tests(losses, gain, verdicts) -> None:
    run = start()
    before = list(np.linspace(0.3, 0.5, 20))
    found = [
        # the split by documents, of four, decides nothing
        evaluated(split, tuned, [x + gain * tuned for x in before], documents=4 if split == "documents" else 0)
        for split in tuning.SPLITS
        for tuned in (False, True)
    ]
    tests = tuning.compare(found, 200)
    tuning.decide_claims(run, dict.fromkeys(tuning.SPLITS, log(*losses)), tests)
    assert [claim.verdict for claim in run.claims] == verdicts
    assert run.claims[-1].p == tests["rows"].p < 0.05
    assert tests["documents"].p > 0.05
    assert "no test is made" in run.claims[0].why


def test_a_gain_that_so_few_documents_cannot_tell_is_undecided() -> None:
    run = start()
    noise = np.random.default_rng(0).normal(0, 0.2, 30)
    found = [
        evaluated(split, tuned, list(0.5 + tuned * noise), 8) for split in tuning.SPLITS for tuned in (False, True)
    ]
    tuning.decide_claims(run, dict.fromkeys(tuning.SPLITS, log(3.0, 2.0)), tuning.compare(found, 200))
    assert run.claims[-1].verdict == "undecided"


@pytest.mark.parametrize(("encoder", "kind"), [("all-MiniLM-L6-v2", "not run"), (PAPER_ENCODER, "rerun")])
def test_table_one_is_rerun_on_the_papers_split_and_scale_only(encoder: str, kind: str) -> None:
    run = start()
    found = [evaluated(split, tuned, [0.4, 0.6]) for split in tuning.SPLITS for tuned in (False, True)]
    table = tuning.table1(run, found, encoder, "a model", 200)
    assert len(table) == 3 + 4
    assert table.model.is_unique
    ids = {f"qa_rag.table1.finetuned_mistral.{c}" for c in ("precision", "recall", "f1")}
    assert {id for _, id in run._values} == (ids if kind == "rerun" else set())
    assert {id for _, id in run._reasons} == (set() if kind == "rerun" else ids)
    assert {f"finetune.{s}.{t}.f1" for s in tuning.SPLITS for t in ("base", "tuned")} <= set(run._extras)
    assert all(encoder in reason.why for reason in run._reasons.values())


def test_what_the_documents_of_a_split_allow_is_said(sample: data.Data) -> None:
    found = tuning.splits(sample, 1)
    asked = {"rows": found["rows"]["test"], "documents": found["documents"]["test"][:2]}
    told = tuning.asked_words(found, asked)
    assert f"all {len(sample.test)}" in told
    assert f"2 of its {len(found['documents']['test'])} test questions" in told
    assert "decides nothing alone" in told


def test_the_answer_says_in_words_which_way_it_went() -> None:
    logs = dict.fromkeys(tuning.SPLITS, log(3.0, 2.0))
    for gain, begins in ((0.1, "**Yes"), (-0.1, "**No"), (0.0, "**This run cannot tell")):
        found = [
            evaluated(split, tuned, [0.5 + gain * tuned] * 20, documents=4 if split == "documents" else 0)
            for split in tuning.SPLITS
            for tuned in (False, True)
        ]
        told = tuning.summary(logs, tuning.compare(found, 200), found, "a model")
        assert told.startswith(begins)
        assert "on 4 documents that it was not trained on, its answers may be nearer or not" in told


def test_a_server_without_adapters_is_found_out_before_any_training(
    sample: data.Data, monkeypatch: pytest.MonkeyPatch, server_with
) -> None:
    trained: list[str] = []
    monkeypatch.setattr(tuning, "train", lambda name, *_: trained.append(name))
    with server_with(["a base"]), pytest.raises(services.ServiceError, match=r"serves no adapters qa-rag-rows-\.\.\."):
        tuning.trained(tuning.splits(sample, 1), {"base": "a base"}, 1)
    with server_with(["another"]), pytest.raises(services.ServiceError, match="does not serve 'a base'"):
        tuning.hypothetical(sample, {"base": "a base"}, 1, 8)
    assert trained == []
    with server_with(["a base", "qa-rag-rows-0123456789ab", "qa-rag-documents-0123456789ab"]):
        tuning.check_server("a base", tuning.SPLITS)


def test_what_was_not_trained_is_said_to_be_not_run() -> None:
    run = start()
    tuning.not_trained(run, "The server has no adapters.")
    assert {claim.verdict for claim in run.claims} == {"not run"}
    assert len(run._reasons) == 3


def test_an_encoder_that_cannot_be_had_is_replaced_by_name() -> None:
    encode, why = encoder_of("nobody/no-such-encoder")
    assert encode.name == "all-MiniLM-L6-v2"
    assert "stands in for nobody/no-such-encoder" in why
    assert encoder_of("all-MiniLM-L6-v2") == (encode, "")
