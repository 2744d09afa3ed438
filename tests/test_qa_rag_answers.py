"""Final answers: how passages are made to fit, prompts, what is read from a reply, and asking one's own folder."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from evaluation import decisions, record, rules
from evaluation.answers import Answer as Row, make_row
from evaluation.outcomes import Outcomes
from evaluation.published import published
from helpers import vectors
from helpers.completions import Reply
from papers.qa_rag import answers, data, folder, retrieval
from papers.qa_rag.answers import (
    ARMS,
    PAPER_ENCODER,
    REFUSAL,
    WINDOW,
    CitedAnswer,
    Excerpt,
    make_excerpts,
    prompt,
    read,
    split_windows,
)
from papers.qa_rag.data import Passage, share_held
from papers.qa_rag.search import Searcher
from resources.parameters import declared, parameters
from resources.settings import NOTEBOOKS

TEXT = st.text(st.characters(codec="utf-8"), max_size=1500)
FILLER = (
    "Nothing on this page concerns the matter at hand, which stands elsewhere in the document. "
    * 40
)
ANSWER = "Keep the sample in its final pack until one year after the expiry date of the batch has passed."
LONG = Passage("p1", "Samples", f"{FILLER} How long should a sample be kept? {ANSWER} {FILLER}")
OTHER = Passage("p2", "Labels", FILLER)
QUESTION = "How long should a sample be kept?"


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


# ------------------------------------------------------------------------------------------------------------ cutting


@given(TEXT, st.integers(1, 400))
def test_windows_keep_every_character_but_space_and_are_short(text: str, size: int) -> None:
    parts = [part for _, part in split_windows(text, size)]
    assert "".join("".join(parts).split()) == "".join(text.split())
    assert all(0 < len(part) <= size for part in parts)


@given(
    st.lists(st.text(st.sampled_from("ab cd\n."), min_size=1, max_size=900), max_size=6),
    st.integers(0, 3000),
)
def test_a_cut_stays_within_its_size_and_invents_nothing(texts: list[str], characters: int) -> None:
    passages = [Passage(f"p{i}", f"D{i}", text) for i, text in enumerate(texts)]
    excerpts = make_excerpts("ab cd", passages, characters)
    # dots and spaces that join windows of one passage come on top
    assert sum(len(excerpt.text.replace(" ... ", "")) for excerpt in excerpts) <= characters + sum(
        excerpt.text.count(" ") for excerpt in excerpts
    )
    assert [excerpt.passage.id for excerpt in excerpts] == sorted(
        excerpt.passage.id for excerpt in excerpts
    )
    for excerpt in excerpts:
        full_text = " ".join(excerpt.passage.text.split())
        assert all(" ".join(part.split()) in full_text for part in excerpt.text.split(" ... "))


def test_windows_find_the_answer_behind_the_beginning() -> None:
    excerpts = make_excerpts(QUESTION, [LONG, OTHER], 3 * WINDOW)
    assert share_held(ANSWER, [excerpt.text for excerpt in excerpts]) == 1
    assert share_held(ANSWER, [LONG.text[: 3 * WINDOW]]) == 0


def test_no_passages_and_no_common_word_are_no_error() -> None:
    assert make_excerpts(QUESTION, [], 100) == ()
    assert make_excerpts("zzz", [OTHER], 400)
    assert make_excerpts("", [OTHER], 400)


def test_what_is_held_an_answer_is_a_share_of_its_word_sequences() -> None:
    assert share_held(ANSWER, [ANSWER.upper()]) == 1
    assert share_held(ANSWER, []) == share_held("", [ANSWER]) == 0
    half = share_held(
        f"{ANSWER} {'other words that stand nowhere else in any passage shown here at all today'}",
        [ANSWER],
    )
    assert 0 < half < 1
    # words of two passages do not join to a quotation
    assert (
        share_held(
            "one two three four five six seven eight",
            ["one two three four", "five six seven eight"],
        )
        == 0
    )


# ------------------------------------------------------------------------------------------------------------ prompts


def test_a_prompt_holds_examples_passages_and_question_in_that_order(sample: data.Data) -> None:
    pairs = answers.examples(sample, 2, seed=1)
    excerpts = [Excerpt(LONG, "first text"), Excerpt(OTHER, "second text")]
    messages = prompt("Why?", excerpts, pairs)
    assert [m["role"] for m in messages] == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert messages[2]["content"] == f"{pairs[0].answer} [1]"
    assert pairs[0].answer in messages[1]["content"]
    last = messages[-1]["content"]
    assert (
        last.index("[1] Samples\nfirst text")
        < last.index("[2] Labels\nsecond text")
        < last.index("Question: Why?")
    )


def test_without_passages_nothing_speaks_of_them(sample: data.Data) -> None:
    messages = prompt("Why?", (), answers.examples(sample, 2, seed=1))
    assert not any(re.search(r"passage|\[1\]", m["content"]) for m in messages)
    assert messages[-1]["content"] == "Question: Why?"


def test_examples_are_from_documents_of_no_test_question_if_there_are_others(
    sample: data.Data,
) -> None:
    other = replace(
        sample.questions[0],
        id="q",
        source="Another guidance",
        body="Is it new?",
        answer="It is. " * 9,
    )
    larger_sample = replace(sample, questions=(*sample.questions, other))
    assert answers.examples(larger_sample, 99, seed=1) == [other]


def test_examples_are_no_test_questions_nor_repeat_their_answers(sample: data.Data) -> None:
    pairs = answers.examples(sample, 99, seed=1)
    assert pairs
    tested = {data.words(q.answer) for q in sample.test} | {data.words(q.body) for q in sample.test}
    assert not any({data.words(p.body), data.words(p.answer)} & tested for p in pairs)
    assert answers.examples(sample, 2, seed=1) == answers.examples(sample, 2, seed=1)


def test_questions_are_drawn_by_seed_and_kept_in_order(sample: data.Data) -> None:
    questions = answers.choose(sample.test, 5, seed=3)
    assert questions == answers.choose(sample.test, 5, seed=3)
    assert [sample.test.index(q) for q in questions] == sorted(
        sample.test.index(q) for q in questions
    )
    assert answers.choose(sample.test, 10**6, seed=3) == list(sample.test)


# ------------------------------------------------------------------------------------------------------------ replies


def reply(text: str, status: str = "complete") -> Reply:
    return Reply(text, status, 10, 5, 0.1)  # type: ignore[arg-type]


def test_citations_are_read_and_those_of_nothing_dropped() -> None:
    excerpts = [Excerpt(LONG, ANSWER), Excerpt(OTHER, "x")]
    answer = read(reply(f"{ANSWER} [1][7] And so on [2, 1]."), excerpts)
    assert answer.cited == (1, 2)
    assert answer.text == f"{ANSWER} And so on."
    assert not answer.refused


def test_a_refusal_is_read() -> None:
    assert read(reply(f'"{REFUSAL}"'), [Excerpt(LONG, REFUSAL)]).refused


@given(st.text(max_size=80))
def test_any_reply_is_read(text: str) -> None:
    answer = read(reply(text), [Excerpt(LONG, ANSWER)])
    assert set(answer.cited) <= {1}
    assert isinstance(answer, CitedAnswer)


def test_every_arm_names_a_ranking_that_is_released(sample: data.Data) -> None:
    assert {arm.contexts for arm in ARMS.values() if arm.contexts} <= set(sample.released)


# -------------------------------------------------------------------------------------------- a folder of one's own


def test_titles_that_share_a_file_name_are_told_apart(tmp_path: Path) -> None:
    titles = ["Labels: part A", "Labels / part A", "labels part a", "\u6a19" * 200, "?!"]
    folder.write_folder(
        [Passage(f"p{i}", title, f"Text {i}.") for i, title in enumerate(titles)], tmp_path
    )
    assert sorted(path.read_text() for path in tmp_path.iterdir()) == [
        f"Text {i}." for i in range(5)
    ]
    assert len({path.name.lower() for path in tmp_path.iterdir()}) == 5


def test_each_arm_gets_its_own_prompts_and_what_does_not_fit_is_counted(sample: data.Data) -> None:
    class Echo:
        def chat_many(self, prompts: list[list[dict[str, str]]], **_: object) -> list[Reply]:
            return [
                reply("", "overflow")
                if len(p[-1]["content"]) > 900
                else reply(f"{len(p)} {p[-1]['content']}")
                for p in prompts
            ]

    questions, pairs = sample.test[:2], answers.examples(sample, 1, seed=1)
    arms = {
        name: ARMS[name] for name in ("closed_book", "qa_rag", "zero_shot")
    } | answers.WHOLE_ARMS
    rows_of_arm = {
        name: answers.AnswerFromPassages(
            Echo(),  # type: ignore[arg-type]
            arm,
            sample,
            pairs,
            max_characters=400,
            max_tokens=8,
        )(questions)
        for name, arm in arms.items()
    }
    assert [str(row.answer).split()[0] for row in rows_of_arm["qa_rag"]] == [
        "4",
        "4",
    ]  # instruction, one example, question
    assert [str(row.answer).split()[0] for row in rows_of_arm["zero_shot"]] == ["2", "2"]
    assert all(
        q.text in str(row.answer)
        for q, row in zip(questions, rows_of_arm["closed_book"], strict=True)
    )
    assert all(row.overflow and len(row.items) == 3 for row in rows_of_arm["whole_3"])
    rows = [
        make_row(row, q, arm=arm)
        for arm, arm_rows in rows_of_arm.items()
        for row, q in zip(arm_rows, questions, strict=True)
    ]
    scored_rows = answers.score_answers(rows, vectors.encoder())
    assert {row.overflow for row in scored_rows} == {True, False}
    for measure in (*answers.MEASURES, "prompt_tokens"):
        assert all((measure in row.measures) != row.overflow for row in scored_rows)
    assert all("shown_characters" in row.measures for row in scored_rows)


def test_a_score_belongs_to_its_own_answer() -> None:
    encode = vectors.encoder()
    golds = ["Keep it for a year.", "Label it in braille."]
    rows = [
        Row(arm=arm, unit=f"q{i}", gold=gold, answer=answer, task="answers")
        for arm, texts in {"same": golds, "turned": golds[::-1]}.items()
        for i, (gold, answer) in enumerate(zip(golds, texts, strict=True))
    ] + [Row(arm="one", unit="q1", gold=golds[1], answer=golds[1], task="answers")]
    scores = {
        (row.arm, row.unit): row.measures["f1"][0] for row in answers.score_answers(rows, encode)
    }
    for arm, unit in (("same", "q0"), ("same", "q1"), ("one", "q1")):
        assert scores[arm, unit] == pytest.approx(1)
    assert max(scores["turned", "q0"], scores["turned", "q1"]) < 0.99


# ------------------------------------------------------------------------------------------------------------- claims


def rerun(**f1: list[float]) -> list[Row]:
    """Answers of each arm, one question of each document."""
    return [
        Row(
            arm=arm,
            unit=f"q{i}",
            cluster=f"d{i}",
            task="answers",
            answer="",
            measures={"f1": (value, 1.0)},
        )
        for arm, values in f1.items()
        for i, value in enumerate(values)
    ]


def decide(claim: str, rows: list[Row]) -> decisions.Decision:
    """Whether a claim holds here; no row is of the paper's prompts."""
    rule = published("qa_rag").claim(f"qa_rag.claim.{claim}").rule
    assert rule
    outcomes = Outcomes(rows, draws=500)
    of_paper = rules.evaluate(rule, outcomes, "rerun", paper="qa_rag")
    assert (of_paper.verdict, of_paper.reason) == ("not tested", "another system")
    assert "This project's" in of_paper.why
    return rules.evaluate_here(rule, outcomes, paper="qa_rag")


@pytest.mark.parametrize(
    ("without_examples", "verdict"),
    [(0.3, "agrees"), (0.5, "inconclusive"), (0.7, "differs")],
)
def test_fewer_refusals_alone_are_no_better_answers(without_examples: float, verdict: str) -> None:
    n_refused = 9
    f1 = {
        "qa_rag": [0.5] * 18,
        "zero_shot": [0.1] * n_refused + [without_examples] * n_refused,
    }
    rows = []
    for row in rerun(**f1):
        is_refusal = row.arm == "zero_shot" and int(row.unit.removeprefix("q")) < n_refused
        among_answers = {} if is_refusal else {"f1_without_refusals": row.measures["f1"]}
        rows.append(replace(row, measures={**row.measures, **among_answers}))
    assert decide("few_shot_helps", rows).verdict == verdict


def test_a_refusal_has_no_f1_among_answers() -> None:
    rows = [
        Row(
            arm="qa_rag",
            unit=f"q{refused}",
            gold="Keep it for a year.",
            answer=answer,
            task="answers",
            measures={"refuses": (refused, 1.0)},
        )
        for refused, answer in ((0.0, "Keep it for a year."), (1.0, answers.REFUSAL))
    ]
    answered, refused = answers.score_answers(rows, vectors.encoder())
    assert answered.measures["f1_without_refusals"] == answered.measures["f1"]
    assert "f1" in refused.measures
    assert "f1_without_refusals" not in refused.measures


def test_passages_that_so_few_questions_cannot_judge_are_undecided() -> None:
    noise = [0.7 if i % 2 else 0.3 for i in range(12)]
    assert (
        decide("retrieval_helps_answers", rerun(qa_rag=noise, closed_book=[0.5] * 12)).verdict
        == "inconclusive"
    )


BOTH = {"multiquery": 6, "hyde": 6}


@pytest.mark.parametrize(
    ("encoder", "n_searched", "reruns"),
    [("all-MiniLM-L6-v2", BOTH, 0), (PAPER_ENCODER, {}, 9), (PAPER_ENCODER, BOTH, 15)],
)
def test_table_four_is_rerun_on_the_papers_scale_only(
    encoder: str, n_searched: dict[str, int], reruns: int
) -> None:
    run = record.start(notebook="17_qarag_answers", paper="qa_rag", profile="smoke", parameters={})
    measures = dict.fromkeys(("f1", "precision", "recall"), (0.5, 1.0))
    rows = [
        Row(arm=arm, unit=f"q{i}", cluster=f"d{i}", measures=measures)
        for arm, n in {"qa_rag": 12, "question": 12, "hypothetical": 12, **n_searched}.items()
        for i in range(n)
    ]
    answers.report(run, Outcomes(rows, draws=200), "a model", encoder)
    assert len(run._values) == reruns
    assert len(run._reasons) == 15 - reruns
    if reruns == 15:
        assert run._values["rerun", "qa_rag.table4.hyde.f1"].n == 6
    assert n_searched or "No question" in run._reasons["rerun", "qa_rag.table4.hyde.f1"].why


@pytest.mark.parametrize("profile", ["smoke", "laptop", "paper"])
def test_the_answers_search_with_the_queries_of_the_retrieval_notebook(profile: str) -> None:
    of_retrieval, of_answers = (
        declared(NOTEBOOKS / f"{notebook}.ipynb") | parameters(notebook, profile)
        for notebook in ("16_qarag_retrieval", "17_qarag_answers")
    )
    same = ("llm_model", "query_tokens", "document_tokens", "reranker")
    assert {name: of_answers[name] for name in same} == {name: of_retrieval[name] for name in same}
    assert of_answers["search_encoder"] == of_retrieval["encoder"]
    if profile != "smoke":  # all questions are chosen, so that the first ones are those of 16
        assert of_answers["questions"] == 79
        assert of_answers["searched_questions"] == of_retrieval["generated_questions"]


def test_an_arm_answers_from_the_passages_that_a_search_kept(sample: data.Data) -> None:
    questions = sample.test[:2]
    index = Searcher(sample.corpus, vectors.encoder())
    queries = retrieval.plain_queries(questions) | {
        "hyde": {q.id: retrieval.Query((q.answer,)) for q in questions}
    }
    hyde = retrieval.Retrieval(index, retrieval.ARMS["hyde"], queries, retrieval.BestWindow(index))
    six = hyde.select_ids(questions)

    class Echo:
        def chat_many(self, prompts: list[list[dict[str, str]]], **_: object) -> list[Reply]:
            return [reply(p[-1]["content"]) for p in prompts]

    ask = answers.AnswerFromPassages(
        Echo(),  # type: ignore[arg-type]
        answers.SEARCHED["hyde"],
        sample,
        max_characters=9000,
        max_tokens=8,
        contexts=six,
    )
    for question, row in zip(questions, ask(questions), strict=True):
        shown = [item.id for item in row.items]
        assert shown
        assert shown == [id for id in six[question.id] if id in shown]
        assert all(sample.corpus.by_id[id].document in str(row.answer) for id in shown)
