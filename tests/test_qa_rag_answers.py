"""Final answers: how passages are made to fit, prompts, what is read from a reply, and asking one's own folder."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import vectors
from helpers.llm import Reply
from helpers.results import record
from helpers.similarity import BertScores
from papers.qa_rag import answers, ask, data, released
from papers.qa_rag import answers_report as report
from papers.qa_rag.answers import (
    ARMS,
    NOT_TOLD,
    WINDOW,
    Answer,
    Cut,
    Excerpt,
    excerpts,
    left_of,
    prompt,
    read,
    windows,
)
from papers.qa_rag.data import Passage
from papers.qa_rag.encoders import PAPER_ENCODER

TEXT = st.text(st.characters(codec="utf-8"), max_size=1500)
FILLER = "Nothing on this page concerns the matter at hand, which stands elsewhere in the document. " * 40
ANSWER = "Keep the sample in its final pack until one year after the expiry date of the batch has passed."
LONG = Passage("p1", "Samples", f"{FILLER} How long should a sample be kept? {ANSWER} {FILLER}")
OTHER = Passage("p2", "Labels", FILLER)
RULES: tuple[Cut, ...] = ("windows", "heads")
QUESTION = "How long should a sample be kept?"


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


# ------------------------------------------------------------------------------------------------------------ cutting


@given(TEXT, st.integers(1, 400))
def test_windows_keep_every_character_but_space_and_are_short(text: str, size: int) -> None:
    parts = windows(text, size)
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(0 < len(part) <= size for part in parts)


@given(st.lists(st.text(st.sampled_from("ab cd\n."), min_size=1, max_size=900), max_size=6), st.integers(0, 3000))
def test_a_cut_stays_within_its_size_and_invents_nothing(texts: list[str], characters: int) -> None:
    passages = [Passage(f"p{i}", f"D{i}", text) for i, text in enumerate(texts)]
    for cut in RULES:
        shown = excerpts("ab cd", passages, cut, characters)
        # dots and spaces that join windows of one passage come on top
        assert sum(len(e.text.replace(" ... ", "")) for e in shown) <= characters + sum(
            e.text.count(" ") for e in shown
        )
        assert [e.passage.id for e in shown] == sorted(e.passage.id for e in shown)
        for e in shown:
            whole = " ".join(e.passage.text.split())
            assert all(" ".join(part.split()) in whole for part in e.text.split(" ... "))


def test_windows_find_the_answer_that_beginnings_miss() -> None:
    shown = {cut: excerpts(QUESTION, [LONG, OTHER], cut, 3 * WINDOW) for cut in RULES}
    assert left_of(ANSWER, [e.text for e in shown["windows"]]) == 1
    assert left_of(ANSWER, [e.text for e in shown["heads"]]) == 0
    assert left_of(ANSWER, [e.text for e in excerpts(QUESTION, [LONG, OTHER], "whole", 0)]) == 1
    assert all(e.cut > 0 for e in shown["heads"])


def test_no_passages_and_no_common_word_are_no_error() -> None:
    assert excerpts(QUESTION, [], "windows", 100) == ()
    assert excerpts("zzz", [OTHER], "windows", 400)
    assert excerpts("", [OTHER], "windows", 400)


def test_what_is_left_of_an_answer_is_a_share_of_its_word_sequences() -> None:
    assert left_of(ANSWER, [ANSWER.upper()]) == 1
    assert left_of(ANSWER, []) == left_of("", [ANSWER]) == 0
    half = left_of(f"{ANSWER} {'other words that stand nowhere else in any passage shown here at all today'}", [ANSWER])
    assert 0 < half < 1
    # words of two passages do not join to a quotation
    assert left_of("one two three four five six seven eight", ["one two three four", "five six seven eight"]) == 0


def test_the_table_of_cuts_says_that_all_passages_leave_most(sample: data.Data) -> None:
    table = answers.cut_table(sample, "qa_rag", [200, 2000])
    assert set(table.groupby(["cut", "passages", "size"]).size()) == {len(sample.test)}
    whole = table[table.cut == "whole"].groupby("passages").left.mean()
    assert whole.is_monotonic_increasing
    assert table.left.between(0, 1).all()
    small, large = (table[(table.cut == "windows") & (table["size"] == size)] for size in (200, 2000))
    assert (small.characters.to_numpy() <= 200).all()
    assert small.left.mean() <= large.left.mean() <= whole.max()


# ------------------------------------------------------------------------------------------------------------ prompts


def test_a_prompt_holds_examples_passages_and_question_in_that_order(sample: data.Data) -> None:
    pairs = answers.examples(sample, 2, seed=1)
    shown = [Excerpt(LONG, "first text"), Excerpt(OTHER, "second text")]
    messages = prompt("Why?", shown, pairs)
    assert [m["role"] for m in messages] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert messages[2]["content"] == f"{pairs[0].answer} [1]"
    assert pairs[0].answer in messages[1]["content"]
    last = messages[-1]["content"]
    assert last.index("[1] Samples\nfirst text") < last.index("[2] Labels\nsecond text") < last.index("Question: Why?")


def test_without_passages_nothing_speaks_of_them(sample: data.Data) -> None:
    messages = prompt("Why?", (), answers.examples(sample, 2, seed=1))
    assert not any(re.search(r"passage|\[1\]", m["content"]) for m in messages)
    assert messages[-1]["content"] == "Question: Why?"


def test_examples_are_no_test_questions_nor_repeat_their_answers(sample: data.Data) -> None:
    pairs = answers.examples(sample, 99, seed=1)
    assert pairs
    tested = {data.words(q.answer) for q in sample.test} | {data.words(q.body) for q in sample.test}
    assert not any({data.words(p.body), data.words(p.answer)} & tested for p in pairs)
    assert answers.examples(sample, 2, seed=1) == answers.examples(sample, 2, seed=1)


def test_questions_are_drawn_by_seed_and_kept_in_order(sample: data.Data) -> None:
    drawn = answers.choose(sample.test, 5, seed=3)
    assert drawn == answers.choose(sample.test, 5, seed=3)
    assert [sample.test.index(q) for q in drawn] == sorted(sample.test.index(q) for q in drawn)
    assert answers.choose(sample.test, 10**6, seed=3) == list(sample.test)


# ------------------------------------------------------------------------------------------------------------ replies


def reply(text: str, status: str = "complete") -> Reply:
    return Reply(text, status, 10, 5, 0.1)  # type: ignore[arg-type]


def test_citations_are_read_and_those_of_nothing_dropped() -> None:
    shown = [Excerpt(LONG, ANSWER), Excerpt(OTHER, "x")]
    found = read("q1", reply(f"{ANSWER} [1][7] And so on [2, 1]."), shown)
    assert found.cited == (1, 2)
    assert found.text == f"{ANSWER} And so on."
    assert found.quotes
    assert not found.refused


def test_a_refusal_is_no_quotation() -> None:
    found = read("q1", reply(f'"{NOT_TOLD}"'), [Excerpt(LONG, NOT_TOLD)])
    assert found.refused
    assert not found.quotes


@given(st.text(max_size=80))
def test_any_reply_is_read(text: str) -> None:
    found = read("q1", reply(text), [Excerpt(LONG, ANSWER)])
    assert set(found.cited) <= {1}
    assert isinstance(found, Answer)


def test_every_arm_names_a_ranking_that_is_released(sample: data.Data) -> None:
    assert {arm.contexts for arm in ARMS.values() if arm.contexts} <= set(sample.released)


# -------------------------------------------------------------------------------------------- a folder of one's own


class Scripted:
    """Answers by rule, in place of a language model: this is a test of what is done with its answers."""

    def __init__(self) -> None:
        self.prompts: list[list[dict[str, str]]] = []

    def chat_many(self, prompts: list[list[dict[str, str]]], **_: object) -> list[Reply]:
        self.prompts += prompts
        last = prompts[0][-1]["content"]
        return [reply("It is kept for a year." if "[1]" not in last else f"{ANSWER} [1]")]


def test_a_folder_is_asked_and_the_answer_names_its_source(tmp_path: Path) -> None:
    ask.write_folder([LONG, OTHER, Passage("p3", "Braille/Large: print", "Sixteen points at least. " * 20)], tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Braille Large print.txt", "Labels.txt", "Samples.txt"]
    model = Scripted()
    found = ask.answer(QUESTION, ask.library(tmp_path), model, characters=900)  # type: ignore[arg-type]
    assert len(model.prompts) == 2
    assert found.hypothetical == "It is kept for a year."
    cited = [source for source in found.sources if source.cited]
    assert [source.excerpt.passage.document for source in cited] == [found.sources[0].excerpt.passage.document]
    holding = [s for s in found.sources if ANSWER in s.excerpt.text]
    assert [s.excerpt.passage.document for s in holding] == ["Samples.txt"]
    assert found.quoted == 1
    assert all(source.by for source in found.sources)
    html = found._repr_html_()
    assert ANSWER in html
    assert "Samples.txt" in html
    assert "[1]" in str(found)


def test_asking_nothing_says_what_is_needed(tmp_path: Path) -> None:
    ask.write_folder([OTHER], tmp_path)
    with pytest.raises(ValueError, match="no question"):
        ask.answer("  ", ask.library(tmp_path), Scripted())  # type: ignore[arg-type]


def test_files_without_text_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ask.write_folder([OTHER], tmp_path)
    (tmp_path / "scan.txt").write_text("  ")
    assert len(ask.library(tmp_path, vectors.DEFAULT_ENCODER).corpus) == 1
    assert "scan.txt" in caplog.text


def test_titles_that_share_a_file_name_are_told_apart(tmp_path: Path) -> None:
    titles = ["Labels: part A", "Labels / part A", "labels part a", "\u6a19" * 200, "?!"]
    ask.write_folder([Passage(f"p{i}", title, f"Text {i}.") for i, title in enumerate(titles)], tmp_path)
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == [f"Text {i}." for i in range(5)]
    assert len({path.name.lower() for path in tmp_path.iterdir()}) == 5


def test_arms_are_asked_together_and_each_gets_its_own_answers(sample: data.Data) -> None:
    class Echo:
        def chat_many(self, prompts: list[list[dict[str, str]]], **_: object) -> list[Reply]:
            return [
                reply("", "overflow") if len(p[-1]["content"]) > 900 else reply(f"{len(p)} {p[-1]['content']}")
                for p in prompts
            ]

    questions, pairs = sample.test[:2], answers.examples(sample, 1, seed=1)
    arms = {name: ARMS[name] for name in ("closed", "qa_rag", "zero_shot")} | {"whole": answers.WHOLE_ARMS["whole_3"]}
    found = answers.answer_arms(Echo(), arms, sample, questions, pairs, characters=400, max_tokens=8)  # type: ignore[arg-type]
    assert set(found) == set(arms)
    assert all([a.question for a in of] == [q.id for q in questions] for of in found.values())
    assert [a.text.split()[0] for a in found["qa_rag"]] == ["4", "4"]  # instruction, one example, question
    assert [a.text.split()[0] for a in found["zero_shot"]] == ["2", "2"]
    assert all(q.text in a.text for q, a in zip(questions, found["closed"], strict=True))
    assert {a.status for a in found["whole"]} == {"overflow"}
    assert all(len(a.shown) == 3 for a in found["whole"])


# ------------------------------------------------------------------------------------------------------------- claims


def start() -> record.Run:
    return record.start(notebook="17_qarag_answers", paper="qa_rag", profile="smoke", parameters={})


def scored(f1: np.ndarray) -> BertScores:
    return BertScores(f1, f1, f1, 0)


def told(refusals: int, n: int = 12) -> list[Answer]:
    """Answers of which the first ones refuse."""
    texts = [NOT_TOLD] * refusals + ["So it is."] * (n - refusals)
    return [Answer(f"q{i}", text, (), (), "complete", 10) for i, text in enumerate(texts)]


@pytest.mark.parametrize(
    ("refusals", "gain", "verdict"),
    [(9, 0.0, "undecided"), (12, 0.0, "undecided"), (2, 0.2, "agrees"), (2, -0.2, "differs")],
)
def test_examples_are_judged_where_the_model_answers_both_times(refusals: int, gain: float, verdict: str) -> None:
    run = start()
    without = np.array([0.1] * refusals + [0.5] * (12 - refusals))
    scores = {"qa_rag": scored(np.full(12, 0.5 + gain)), "zero_shot": scored(without)}
    answered = {"qa_rag": told(0), "zero_shot": told(refusals)}
    # a refusal scores 0.1, so over all questions the examples seem to help
    report.decide_examples(run, answered, scores, [f"d{i}" for i in range(12)], "a model", 500)
    (claim,) = run.claims
    assert claim.verdict == verdict
    assert f"for 0 with the examples and for {refusals} without" in claim.why


def test_passages_that_so_few_questions_cannot_judge_are_undecided() -> None:
    run = start()
    noise = np.where(np.arange(12) % 2, 0.2, -0.2)
    scores = {"qa_rag": scored(0.5 + noise), "closed": scored(np.full(12, 0.5))}
    report.decide_retrieval(run, report.gain(scores, "qa_rag", "closed", [f"d{i}" for i in range(12)], 500), "a model")
    assert run.claims[-1].verdict == "undecided"


@pytest.mark.parametrize(("encoder", "reruns"), [("all-MiniLM-L6-v2", 0), (PAPER_ENCODER, 9)])
def test_table_four_is_rerun_on_the_papers_scale_only(encoder: str, reruns: int) -> None:
    run = start()
    scores = {arm: scored(np.full(12, 0.5)) for arm in report.PRINTED_ARMS}
    report.report_table_four(run, scores, [f"d{i}" for i in range(12)], "a model", encoder, 200)
    assert len(run._values) == reruns
    assert len(run._reasons) == 15 - reruns


def test_the_headline_says_on_which_scale_its_difference_is() -> None:
    run = start()
    values = {"qa_rag": np.full(12, 0.6), "question": np.full(12, 0.5), "hyde": np.full(12, 0.6)}
    tests = released.against("qa_rag", values, list(range(12)), 500)
    test = report.gain(
        {"a": scored(values["qa_rag"]), "b": scored(values["hyde"])}, "a", "b", list("abcdefghijkl"), 500
    )
    said = report.summary(run, tests, {}, "Cut.", test, "a model", "MiniLM")
    assert "by MiniLM, another scale (printed: +0.010)" in said
    assert said.startswith(
        "**Of the 2 advantages that QA-RAG's answers have over other methods in print, only 1 is more"
    )
    assert "another scale" not in report.summary(run, tests, {}, "Cut.", test, "a model", PAPER_ENCODER)
