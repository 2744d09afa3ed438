"""QA-RAG's data: the released formats, the splits, and where an answer stands in the corpus."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from papers.qa_rag import data, finetune as tuning
from papers.qa_rag.data import Corpus, Passage, QaRagDataError, Question
from resources.settings import SAMPLE

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\x00"), min_size=1, max_size=60)


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


def question(number: int, source: str = "S", answer: str = "a", body: str = "b") -> Question:
    return Question(f"q{number:04}", f"As described in G , {body}", answer, "G", source, body)


def test_the_script_reproduces_the_committed_sample(tmp_path: Path) -> None:
    runpy.run_path(str(SAMPLE / "make_sample.py"))["write_qa_rag"](tmp_path)
    paths = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*.*"))
    assert paths == sorted(
        path.relative_to(SAMPLE / "qa_rag") for path in (SAMPLE / "qa_rag").rglob("*.*")
    )
    for path in paths:
        assert (tmp_path / path).read_bytes() == (SAMPLE / "qa_rag" / path).read_bytes()


def test_the_sample_is_whole(sample: data.Data) -> None:
    assert sample.sample
    assert len(sample.questions) == 36
    assert {len(passage_ids) for passage_ids in sample.released["qa_rag"].values()} == {6}
    for test in sample.test:
        assert test.text.endswith(test.body)
        assert data.words(test.guideline) in data.words(test.text)
        assert data.answer_passages(test, sample.corpus)
        assert data.source_documents(test, sample.corpus) == {test.source}
        assert data.named_documents(test, sample.corpus) == {test.guideline}


@given(TEXT, TEXT, TEXT, st.floats(-12, 12))
def test_a_context_is_read_back(
    tmp_path_factory, asked: str, text: str, title: str, relevance: float
) -> None:
    parts = [f"Question: {asked}", f"Context: {text}", f"Context title: {title}"]
    rule = "\n" + "-" * 20 + "\n"
    text_of_context = rule + rule.join([*parts, f"Relevance with the question: {relevance}"])
    path = tmp_path_factory.mktemp("contexts") / "arm.json"
    path.write_text(json.dumps({asked: [text_of_context]}), encoding="utf-8")
    ((context,),) = data.read_contexts(path).values()
    assert (context.text, context.relevance) == (text.strip(), relevance)
    assert context.document == " ".join(title.split())


def test_a_context_without_its_title_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "arm.json").write_text(json.dumps({"q": ["only text"]}))
    with pytest.raises(QaRagDataError, match="Context title"):
        data.read_contexts(tmp_path / "arm.json")


def test_pairs_without_a_column_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "QnA.csv").write_text("Title,Question\na,b\n")
    with pytest.raises(QaRagDataError, match="Relevant_doc"):
        data.read_questions(tmp_path / "QnA.csv")


def test_a_refusal_to_name_a_guideline_names_none(tmp_path: Path) -> None:
    question_and_answer = '"Question: Why?\n  Answer: So.\n  "'
    header = "Title,Question,Answer,Relevant_doc,Question_answer\n"
    (tmp_path / "QnA.csv").write_text(
        header + f'A_b.mmd,Why?,So.,"I\'m sorry, but I cannot",{question_and_answer}\n'
    )
    (pair,) = data.read_questions(tmp_path / "QnA.csv")
    assert (pair.guideline, pair.source, pair.body) == ("", "A b", "Why?")


def test_a_test_question_is_matched_though_its_quotes_were_lost() -> None:
    questions = [question(0, body="Is it _eemed to be?"), question(1, body="Is it?")]
    assert data.match(["As described in G , Is it _eemed to be?"], questions) == (questions[0],)
    assert data.match(
        ["As described in the \N{LEFT DOUBLE QUOTATION MARK}D H , Is it?"], questions
    ) == (questions[1],)
    with pytest.raises(QaRagDataError, match="found 0"):
        data.match(["What else?"], questions)


@given(st.lists(st.sampled_from("ABCDEFGH"), min_size=40, max_size=200), st.integers(0, 99))
def test_splits_hold_every_pair_once(sources: list[str], seed: int) -> None:
    questions = [question(i, source) for i, source in enumerate(sources)]
    splits = [tuning.split_rows(questions, seed, questions[:3])]
    if len(set(sources)) >= 3:
        splits.append(tuning.split_documents(questions, seed))
    for split in splits:
        assert sorted(q.id for part in split.values() for q in part) == [q.id for q in questions]
        assert all(split.values())
    for by_document in splits[1:]:
        documents_of_parts = [{q.source for q in part} for part in by_document.values()]
        assert sum(map(len, documents_of_parts)) == len(set(sources))


def test_the_row_split_keeps_the_papers_test_questions_out_of_training() -> None:
    questions = [question(i, answer="" if i == 7 else "a") for i in range(100)]
    split = tuning.split_rows(questions, 1, test=questions[:5])
    assert split["test"] == tuple(questions[:5])
    assert (len(split["train"]), len(split["validation"])) == (84, 10)
    assert "q0007" not in {q.id for part in ("train", "validation") for q in split[part]}


def test_a_repeated_answer_is_a_twin() -> None:
    train = [question(0, answer="Keep it for one year.", body="How long?")]
    repeated = question(1, answer="keep it for ONE year", body="For what time?")
    assert tuning.twins([repeated, question(2, answer="No.", body="Really?")], train) == [repeated]


def test_an_answer_is_found_word_by_word_and_a_short_one_is_not_looked_for() -> None:
    long = "Store the samples under the conditions that are printed on their label."
    corpus = Corpus(
        (
            Passage("p0", "Other", "Store nothing."),
            Passage("p1", "Questions", f"Q1 What?\n\n{long.upper()}"),
        )
    )
    assert data.answer_passages(question(0, answer=long), corpus) == {"p1": 1.0}
    assert data.answer_passages(question(1, answer="Store nothing."), corpus) == {}
    assert data.source_documents(question(2, source="None", answer=long), corpus) == {"Questions"}


@given(st.text(max_size=200))
def test_an_answer_holds_itself(text: str) -> None:
    assert data.share_held(text, [f"before {text} after"]) == (1.0 if data.words(text) else 0.0)
