"""QA-RAG's fine-tuning: which pairs are trained on, and what is said of the training."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from short_answers import assert_short_answer

from evaluation import decisions, record, rules
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from evaluation.published import published
from papers.qa_rag import data, finetune as tuning, openings
from papers.qa_rag.answers import PAPER_ENCODER
from papers.qa_rag.search import load_encoder
from resources import services, settings
from resources.engines import Adapter
from resources.lora import Loss, TrainingLog


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


def log(*validation: float) -> TrainingLog:
    losses = tuple(Loss(10 * i, value) for i, value in enumerate(validation))
    settings = {"steps": 10 * (len(validation) - 1), "batch": 4, "rank": 8}
    return TrainingLog(
        Adapter("a", Path("a"), "ab" * 32),
        "base",
        settings,
        losses[1:],
        losses,
        80,
        8,
        3,
        9000,
        50,
        1000,
        12.0,
    )


def rows(
    split: str, gain: float | np.ndarray = 0.0, documents: int = 0, n: int = 20
) -> list[Answer]:
    """Answers to questions of so many documents, one of each if left out: the adapter adds this gain."""
    f1 = np.linspace(0.3, 0.5, n)
    return [
        Answer(
            arm=arm,
            unit=f"q{i}",
            cluster=f"document {i % (documents or n)}",
            task=split,
            measures={"characters": (10.0, 1.0)}
            | dict.fromkeys(("f1", "precision", "recall"), (float(value), 1.0)),
        )
        for arm, values in (("base", f1), ("tuned", f1 + gain))
        for i, value in enumerate(values)
    ]


def decide(claim: str, answers: list[Answer], logs: dict[str, TrainingLog]) -> decisions.Decision:
    rule = published("qa_rag").claim(f"qa_rag.claim.{claim}").rule
    assert rule
    return rules.evaluate(
        rule, Outcomes(answers, draws=200), "rerun", paper="qa_rag", facts={"logs": logs}
    )


@pytest.fixture
def server_with(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[list[str]], AbstractContextManager[None]]]:
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
    return record.start(
        notebook="15_qarag_finetune", paper="qa_rag", profile="smoke", parameters={}
    )


def test_the_prompt_ends_with_the_question_and_the_answer_is_the_completion(
    sample: data.Data,
) -> None:
    question = sample.questions[0]
    ((messages, completion),) = tuning.pairs([question], 10_000)
    assert messages[-1]["content"].endswith(question.text)  # type: ignore[index]
    assert completion == question.answer


def test_long_pairs_are_left_out_and_the_number_is_kept(sample: data.Data) -> None:
    fitting = [q for q in sample.questions if len(q.text) + len(q.answer) <= 210]
    assert 4 < len(fitting) < len(sample.questions)
    assert [completion for _, completion in tuning.pairs(sample.questions, 210)] == [
        q.answer for q in fitting
    ]
    assert len(tuning.pairs(sample.questions, 210, 4)) == 4


def test_the_row_split_tests_on_the_released_questions(sample: data.Data) -> None:
    splits = tuning.splits(sample, 1)
    assert splits["rows"]["test"] == sample.test


def test_the_words_of_the_curves_follow_the_data() -> None:
    assert "validation loss falls from 3.00 to 2.50" in tuning.losses_words(
        {"rows": log(3.0, 2.7, 2.5)}
    )
    assert "validation loss does not fall and goes from 3.00 to 3.10" in tuning.losses_words(
        {"rows": log(3.0, 2.7, 3.1)}
    )


@pytest.mark.parametrize(("losses", "verdict"), [((3.0, 2.0), "agrees"), ((3.0, 3.2), "differs")])
def test_the_loss_falls_if_the_last_one_is_below_the_first(
    losses: tuple[float, ...], verdict: str
) -> None:
    assert (
        decide("loss_falls", [], {"rows": log(*losses), "documents": log(3.0, 2.0)}).verdict
        == verdict
    )


NOISE = np.random.default_rng(0).normal(0, 0.2, 20)


@pytest.mark.parametrize(
    ("gain", "verdict"), [(0.1, "agrees"), (-0.1, "differs"), (NOISE, "inconclusive")]
)
def test_the_papers_split_decides_whether_fine_tuning_helps(
    gain: float | np.ndarray, verdict: str
) -> None:
    # the split by documents, of four, decides nothing
    answers = rows("rows", gain) + rows("documents", -1.0, documents=4)
    assert decide("fine_tuning_helps", answers, {}).verdict == verdict


@pytest.mark.parametrize(
    ("encoder", "kind"), [("all-MiniLM-L6-v2", "not run"), (PAPER_ENCODER, "rerun")]
)
def test_table_one_is_rerun_on_the_papers_split_and_scale_only(encoder: str, kind: str) -> None:
    run = start()
    out = Outcomes(rows("rows") + rows("documents", 0.3), draws=200)
    tuning.report(run, out, "a model", encoder, "")
    ids = {f"qa_rag.table1.finetuned_mistral.{c}" for c in ("precision", "recall", "f1")}
    assert {id for _, id in run._values} == (ids if kind == "rerun" else set())
    assert {id for _, id in run._reasons} == (set() if kind == "rerun" else ids)
    assert all(value.value == pytest.approx(0.4) for value in run._values.values())
    assert all(encoder in reason.why for reason in run._reasons.values())


def test_the_table_of_splits_counts_what_is_asked(sample: data.Data) -> None:
    splits = tuning.splits(sample, 1)
    test_questions = {"rows": splits["rows"]["test"], "documents": splits["documents"]["test"][:2]}
    table = tuning.splits_table(splits, test_questions)
    assert table["test questions asked"].tolist() == [len(sample.test), 2]
    assert table["documents of the questions asked"].iloc[1] == len(
        {q.source for q in test_questions["documents"]}
    )
    share_trained_on = dict(
        zip(
            table["split"],
            table["test questions whose document is in the training set"],
            strict=True,
        )
    )
    assert share_trained_on[tuning.SPLITS["rows"]].value == 1
    assert share_trained_on[tuning.SPLITS["documents"]].value == 0


def check_first_paragraph(opening: str) -> None:
    """A short answer with an interval stands above the figure, and something below it."""
    assert_short_answer(opening)
    first, below = opening.split("\n\n")
    assert "[" in first
    assert below


def test_the_opening_says_which_way_it_went() -> None:
    logs = dict.fromkeys(tuning.SPLITS, log(3.0, 2.0))
    ways = (
        (0.1, "**Training brings"),
        (-0.1, "**After training, the answers of a model are farther"),
    )
    for gain, begins in (*ways, (0.0, "**This run cannot tell")):
        out = Outcomes(rows("rows", gain) + rows("documents", gain, documents=4), draws=200)
        opening = openings.finetuning(out, logs, "a model")
        assert opening.startswith(begins)
        assert "from 4 of these documents" in opening
        assert "over so few documents cannot be significant" in opening
        check_first_paragraph(opening)


def test_the_opening_names_an_answer_that_is_given_to_many_questions() -> None:
    answers = []
    for row in rows("rows", 0.1):
        is_short = row.arm == "tuned" and row.unit in ("q0", "q1", "q2")
        f1 = row.measures["f1"][0] - 0.4 * is_short
        text = "Yes." if is_short else f"an answer to {row.unit}"
        measures = {**row.measures, "f1": (f1, 1.0)}
        answers.append(replace(row, answer=text, measures=measures))
    out = Outcomes(answers + rows("documents", 0.1, documents=4), draws=200)
    opening = openings.finetuning(out, dict.fromkeys(tuning.SPLITS, log(3.0, 2.0)), "a model")
    assert 'model answers with "Yes." and nothing else.' in opening.split("\n\n")[0]
    assert (
        'The trained model answers 3 questions with "Yes." and nothing else. '
        "On these questions, F1 changes by \N{MINUS SIGN}30.0" in opening
    )
    assert "On the other questions, F1 changes by +10.0 points." in opening
    check_first_paragraph(opening)


def test_a_server_without_adapters_is_found_out_before_any_training(
    sample: data.Data, monkeypatch: pytest.MonkeyPatch, server_with
) -> None:
    names: list[str] = []
    monkeypatch.setattr(tuning, "train", lambda name, *_: names.append(name))
    with (
        server_with(["a base"]),
        pytest.raises(services.ServiceError, match=r"serves no adapters qa-rag-rows-\.\.\."),
    ):
        tuning.trained(tuning.splits(sample, 1), {"base": "a base"}, 1)
    with (
        server_with(["another"]),
        pytest.raises(services.ServiceError, match="does not serve 'a base'"),
    ):
        tuning.hypothetical(sample, {"base": "a base"}, 1, 8)
    assert names == []
    with server_with(["a base", "qa-rag-rows-0123456789ab", "qa-rag-documents-0123456789ab"]):
        tuning.check_server("a base", tuning.SPLITS)


def test_without_an_adapter_nothing_is_run() -> None:
    run = start()
    tuning.report(run, Outcomes([]), "a model", "an encoder", "The server has no adapters.")
    assert {reason.why for reason in run._reasons.values()} == {"The server has no adapters."}
    assert (
        decide("loss_falls", [], {}).verdict
        == decide("fine_tuning_helps", [], {}).verdict
        == "not tested"
    )


def test_an_encoder_that_cannot_be_had_is_replaced_by_name() -> None:
    encode, why = load_encoder("nobody/no-such-encoder")
    assert encode.name == "all-MiniLM-L6-v2"
    assert "stands in for nobody/no-such-encoder" in why
    assert load_encoder("all-MiniLM-L6-v2") == (encode, "")
