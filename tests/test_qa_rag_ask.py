"""The system on own documents is the arm that the notebooks measure, and cites file and page."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from test_documents import write_pdf

from helpers import vectors
from helpers.completions import Reply
from helpers.llm import ContextOverflowError
from papers.qa_rag import answers, ask, data, finetune, retrieval
from papers.qa_rag.search import Searcher


class Scripted:
    """A model that answers with the first numbered excerpt's number, and remembers its prompts."""

    def __init__(self, name: str = "small", status: str = "complete") -> None:
        self.endpoint = SimpleNamespace(model=name)
        self.status = status
        self.prompts: list[list[dict[str, str]]] = []

    def chat_many(self, prompts: list[list[dict[str, str]]], **asked: object) -> list[Reply]:
        self.prompts += prompts
        status = self.status if asked.get("overflow") == "record" else "complete"
        return [
            Reply("Samples are kept for a year. [1]", status, 9, 5, 0.1)  # type: ignore[arg-type]
            for _ in prompts
        ]


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


@pytest.fixture(scope="module")
def searcher(sample: data.Data) -> Searcher:
    return Searcher(sample.corpus, vectors.encoder())


def test_what_answers_is_the_arm_that_the_notebooks_measure(
    sample: data.Data, searcher: Searcher
) -> None:
    questions = sample.test[:3]
    pairs = answers.examples(sample, 1, seed=1)
    tuned, model = Scripted("tuned"), Scripted()
    order = retrieval.BestWindow(searcher)
    guidance = ask.Guidance(
        searcher,
        model,  # type: ignore[arg-type]
        order,
        pairs,
        tuned,  # type: ignore[arg-type]
        max_characters=700,
        max_tokens=24,
    )
    own = guidance([question.text for question in questions])

    measured_tuned, measured = Scripted("tuned"), Scripted()
    writer = retrieval.QueryWriter(measured_tuned, 96, "hypothetical answers")  # type: ignore[arg-type]
    prompts = [finetune.prompt(question) for question in questions]
    queries = retrieval.plain_queries(questions) | {"tuned": writer.write(questions, prompts)}
    find = retrieval.Retrieval(searcher, retrieval.ARMS["qa_rag"], queries, order)
    selected = find.select_ids(questions)
    # Excerpts are ranked by the question without its guideline, which an own question does not have.
    plain = [replace(question, body=question.text) for question in questions]
    rows = answers.AnswerFromPassages(
        measured,  # type: ignore[arg-type]
        answers.ARMS["qa_rag"],
        sample,
        pairs,
        max_characters=700,
        max_tokens=24,
        contexts=selected,
    )(plain)
    assert tuned.prompts == measured_tuned.prompts
    assert model.prompts == measured.prompts
    assert [answer.answer.text for answer in own] == [row.answer for row in rows]
    for answer, row in zip(own, rows, strict=True):
        shown = [excerpt.passage.id for excerpt in answer.answer.excerpts]
        assert shown == [item.id for item in row.items]
        assert all(answer.found_by)
        assert answer.note == ""
    assert len(model.prompts[0]) == 4  # instruction, one example, question


def test_without_a_tuned_model_hyde_takes_its_place_and_says_so(
    sample: data.Data, searcher: Searcher
) -> None:
    model = Scripted("Qwen")
    guidance = ask.Guidance(searcher, model, retrieval.BestWindow(searcher))  # type: ignore[arg-type]
    (answer,) = guidance([sample.test[0].body])
    assert model.prompts[0] == retrieval.hyde_prompt(ask._own_question(0, sample.test[0].body))
    assert "Qwen writes the hypothetical answer (HyDE)" in str(answer)
    assert "HyDE" in ask.show(answer).html


def test_an_answer_cites_file_and_page(tmp_path: Path) -> None:
    pages = [
        "Labels are printed.",
        "Reference samples are kept for a year.",
        "Batches are numbered.",
    ]
    write_pdf(tmp_path / "guide.pdf", pages)
    (tmp_path / "other.md").write_text("# Transport\nTrucks are cooled.")
    library = ask.library(tmp_path)
    guidance = ask.Guidance(
        library,
        Scripted(),  # type: ignore[arg-type]
        retrieval.BestWindow(library),
        max_characters=400,
    )
    (answer,) = guidance(["How long are reference samples kept?"])
    first = answer.answer.excerpts[0]
    assert first.passage.document == "guide.pdf"
    assert answer.citation(1).startswith("guide.pdf, page ")
    assert answer.citation(1) in str(answer)
    assert answer.citation(1) in ask.show(answer).html


def test_what_cannot_be_answered_says_why(searcher: Searcher) -> None:
    order = retrieval.BestWindow(searcher)
    with pytest.raises(ValueError, match="no question"):
        ask.Guidance(searcher, Scripted(), order)([" "])  # type: ignore[arg-type]
    with pytest.raises(ContextOverflowError, match="Ask for fewer"):
        ask.Guidance(searcher, Scripted(status="overflow"), order)(["How long?"])  # type: ignore[arg-type]


def test_a_passage_knows_the_page_of_each_of_its_parts(tmp_path: Path) -> None:
    write_pdf(tmp_path / "guide.pdf", ["Labels are printed.", "Samples are kept."])
    corpus, _ = ask.read_folder(tmp_path)
    (passage,) = corpus.passages
    for text, page in (("Labels", "page 1"), ("Samples", "page 2")):
        assert passage.place_at(passage.text.index(text)) == page
