"""The first paper's parsers, sampling and arms."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from hypothesis import given, strategies as st

from evaluation.answers import make_row
from evaluation.audit import PLACE
from evaluation.published import published
from papers.side_effects import corpus, forward as se
from papers.side_effects.corpus import Entities, Question
from rag.names import split_names
from resources.settings import RAW

term = st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1, max_size=8)
terms = st.lists(term, min_size=1, max_size=12, unique=True)


@given(terms)
def test_a_list_of_plain_terms_is_read_back(effects):
    assert split_names(", ".join(effects)) == effects


@given(terms, terms)
def test_terms_with_a_comma_stay_whole_when_known(effects, kinds):
    mixed = [*effects, *(f"hallucination, {kind}0" for kind in kinds)]
    known = {t for t in mixed if ", " in t}
    assert split_names(", ".join(mixed), known) == mixed


def test_a_comma_term_of_three_pieces_is_not_mistaken_for_one_of_two():
    known = {"a, b", "a, b, c"}
    assert split_names("x, a, b, c, y", known) == ["x", "a, b, c", "y"]


@given(drug=term, effects=terms)
def test_format_a_is_read_back(drug, effects):
    document = corpus.OPENING_A.format(drug=drug) + ", ".join(effects)
    assert corpus.read_format_a(document) == (drug, frozenset(effects))


@given(drug=term, effect=term)
def test_format_b_is_read_back(drug, effect):
    sentence = corpus.SENTENCE_B.format(drug=drug, side_effect=effect)
    assert corpus.read_format_b(sentence) == (drug, frozenset({effect}))


def test_a_text_of_another_form_states_nothing():
    assert corpus.read_format_a("Aspirin is a drug.") == ("", frozenset())
    assert corpus.read_format_b("Aspirin is a drug.") == ("", frozenset())


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        ("YES", True),
        ("Yes, it is listed.", True),
        ("**NO**. Because", False),
        ("no", False),
        ("Notably, yes", None),
        ("Yesterday", None),
        ("The answer is YES", True),
        ("The answer to this question is yes.", True),
        ("The answer to the question is NO", False),
        ("The answer to your prayers is yes", None),
        ("The answer is yesterday's", None),
        ("", None),
    ],
)
def test_a_reply_is_read_if_it_begins_with_the_label_or_states_its_answer(reply, answer):
    assert se.parse_label(reply) is answer


@pytest.mark.parametrize(
    ("line", "entities"),
    [
        ("metformin | lactic acidosis", Entities("metformin", "lactic acidosis")),
        ("Metformin|Lactic acidosis.", Entities("metformin", "lactic acidosis")),
        (
            "Drug: metformin | Side effect: lactic acidosis",
            Entities("metformin", "lactic acidosis"),
        ),
        (
            '"5-fluorocytosine" | hallucination, visual',
            Entities("5-fluorocytosine", "hallucination, visual"),
        ),
        ("x | y\nz | w", Entities("x", "y")),
        ("metformin, lactic acidosis", Entities()),
        ("I do not know", Entities()),
    ],
)
def test_the_recognised_line_is_parsed(line, entities):
    assert se.parse_entities(line) == entities


def benchmark(drugs: int, per_label: int = 10) -> list[Question]:
    return [
        Question(f"drug{d}", f"{'p' if label else 'n'}{i}", label)
        for d in range(drugs)
        for label in (True, False)
        for i in range(per_label)
    ]


@given(drugs=st.integers(1, 30), half=st.integers(1, 200), seed=st.integers(0, 5))
def test_a_subset_is_balanced_distinct_and_spread(drugs, half, seed):
    pairs = benchmark(drugs, per_label=4)
    n = 2 * half
    subset = corpus.stratified(pairs, n, seed)
    assert len(subset) == len(set(subset)) == min(n, len(pairs))
    labels = Counter(q.label for q in subset)
    assert labels[True] == labels[False]
    per_drug = Counter(q.drug for q in subset)
    assert (
        max(per_drug.values()) - min((per_drug[f"drug{d}"] for d in range(drugs)), default=0) <= 2
    )


def test_a_subset_depends_on_the_seed_and_not_on_the_order_of_the_file():
    pairs = benchmark(20)
    assert corpus.stratified(pairs, 40, 1) == corpus.stratified(pairs[::-1], 40, 1)
    assert corpus.stratified(pairs, 40, 1) != corpus.stratified(pairs, 40, 2)


def test_a_held_out_split_shares_no_drug():
    pairs = benchmark(20)
    test = corpus.stratified(pairs, 20, 1)
    held_out = corpus.stratified(pairs, 20, 1, exclude_drugs={q.drug for q in test})
    assert held_out
    assert not {q.drug for q in test} & {q.drug for q in held_out}


@pytest.mark.parametrize("n", [0, -2, 7])
def test_a_subset_that_cannot_be_balanced_is_refused(n):
    with pytest.raises(ValueError, match="even, positive"):
        corpus.stratified(benchmark(2), n, 1)


def test_no_benchmark_pair_stands_in_the_recognition_prompt():
    question = Question("metformin", "nausea", True)
    prompt = se.recognition_prompt(question)
    examples = " ".join(m["content"] for m in prompt[:-1]).lower()
    assert "metformin" not in examples
    assert "nausea" not in examples
    assert prompt[-1]["content"] == question.text


def test_the_arms_ask_in_the_words_of_the_paper():
    question = Question("metformin", "nausea", True)
    pair = Entities("metformin", "nausea")
    [alone] = se.closed_book_prompt(question)
    assert alone == {
        "role": "user",
        "content": "You are asked to answer the following question with a single word: YES or NO. After your YES or "
        "NO answer, briefly explain your reasoning. Question:\n\nIs nausea an adverse effect of metformin?",
    }
    [informed] = se.evidence_prompt(question, se.graph_evidence(pair, found=True))
    assert informed == {
        "role": "user",
        "content": "You are asked to answer the following question with a single word: YES or NO. Base your answer "
        "strictly on the RAG Results provided below. After your YES or NO answer, briefly explain your reasoning "
        "using the information from the RAG Results. Do not infer or speculate beyond the information provided. "
        "Question:\n\nIs nausea an adverse effect of metformin?\n\nRAG Results:\n\n"
        "Metformin is known to be associated with nausea as a side effect",
    }
    assert se.graph_evidence(pair, found=False).startswith("Metformin is not known to be")
    words = "as an adverse effect, adverse reaction or side effect of the drug metformin"
    assert se.text_evidence(pair, found=True) == f"Yes, the side effect nausea is listed {words}"
    assert (
        se.text_evidence(pair, found=False) == f"No, the side effect nausea is not listed {words}"
    )


def test_floor_and_ceiling():
    questions = [Question("a", "x", True), Question("a", "y", False)]
    assert [p.predicted for p in se.MajorityBaseline(label=True)(questions)] == ["YES", "YES"]
    assert [p.predicted for p in se.LookupBaseline({"a": ["x"]})(questions)] == ["YES", "NO"]


def test_released_predictions_keep_unknown_apart(tmp_path):
    path = tmp_path / "released.json"
    rows = [
        {"drug": "a", "side_effect": "x", "true_label": 1, "predicted": "YES", "confidence": 0.9},
        {
            "drug": "a",
            "side_effect": "y",
            "true_label": 0,
            "predicted": "UNKNOWN",
            "confidence": 0.0,
        },
    ]
    path.write_text(json.dumps({"detailed_results": rows}))
    answers = se.read_released_answers(path, "format_a", "a model")
    assert [(row.predicted, row.gold, row.parsed) for row in answers] == [
        ("YES", "YES", True),
        (None, "NO", False),
    ]
    assert {(row.source, row.arm, row.model) for row in answers} == {
        ("released", "format_a", "a model")
    }


def test_the_released_errors_of_graphrag_may_be_failed_queries():
    """The rule of `residual_errors_not_retrieval`: a failed query has the confidence of the released errors."""
    paths = [
        RAW / "side_effects" / name
        for name in ("released/graphrag_qwen.json", "released/graphrag_llama.json")
    ]
    code = RAW / "side_effects" / "code" / "graphrag.py"
    if not all(path.is_file() for path in (*paths, code)):
        pytest.skip("the released files have not been fetched")
    text = code.read_text()
    assert text.count("1.0 if final_answer == neo4j_result['direct_answer'] else 0.8") == 1
    assert text.count("'direct_answer': \"ERROR\"") == 2
    rows = [row for path in paths for row in json.loads(path.read_text())["detailed_results"]]
    wrong = [row for row in rows if (row["predicted"] == "YES") != bool(row["true_label"])]
    assert (len(wrong), {row["confidence"] for row in wrong}) == (7, {0.8})
    assert {row["confidence"] for row in rows if row not in wrong} == {1.0}


def test_the_authors_reports_print_what_the_paper_and_a_later_run_have():
    """The contradiction `later_run`: Tables 1 and 2 are those of September; the README of November has others."""
    september, november = (
        RAW / "side_effects" / "released" / f"report_{day}.md" for day in ("20250920", "202511")
    )
    if not (september.is_file() and november.is_file()):
        pytest.skip("the authors' reports have not been fetched")
    paper = published("side_effects")
    lines, later = (path.read_text().splitlines() for path in (september, november))
    for table in ("table1", "table2"):
        for arm in ("closed_book", "format_a", "format_b", "graphrag"):
            row = [
                n.printed for n in paper.numbers if n.id.startswith(f"side_effects.{table}.{arm}.")
            ]
            assert any(" | ".join(row) in line for line in lines), row
    (statement,) = (c.says[1].what for c in paper.contradictions if c.id.endswith("later_run"))
    shares = [f"{share}%" for share in re.findall(r"[\d.]+(?= %)", statement)]
    arms = [
        ("Format B", "Qwen"),
        ("Format B", "Llama3"),
        ("Format A", "Qwen"),
        ("Format A", "Llama3"),
    ]
    for row_of, share in zip(arms, shares, strict=True):
        assert any(line.startswith(f"| {' | '.join((*row_of, share))} |") for line in later), (
            row_of,
            share,
        )


def places_in_prompt(arm, source):
    text = "The drug a causes the following side effects: abdominal pain, pain, rash"
    pairs = [("abdominal pain", True), ("pain", True), ("abdominal", True), ("fever", False)]
    questions = [corpus.Question("a", *pair) for pair in pairs]
    answers = [
        make_row(se.yes_no_answer(True), question, arm=arm, source=source) for question in questions
    ]
    return text, [
        row.measures[PLACE][0]
        for row in se.add_term_positions(answers, questions, {"a": text})
        if PLACE in row.measures
    ]


@pytest.mark.parametrize(
    ("arm", "source"), [("format_a", "released"), ("authors_format_a", "rerun")]
)
def test_a_place_is_where_the_effect_ends_in_the_authors_prompt(arm, source):
    _, places = places_in_prompt(arm, source)
    # the second "pain" is the term; a part of a term has no place, nor has what is not in the list
    assert len(places) == 2
    between = (
        len(", pain") + len("pain") - len("abdominal pain")
    )  # the question has the shorter name, too
    assert places[1] - places[0] == between


def test_a_place_is_where_the_effect_ends_in_the_list_that_a_filter_reads():
    text, places = places_in_prompt("format_a_cut", "rerun")
    assert [text[: int(place)].rpartition(": ")[2] for place in places] == [
        "abdominal pain",
        "abdominal pain, pain",
    ]
    assert places_in_prompt("format_b", "rerun")[1] == []


def test_lists_in_alphabetical_order_are_counted():
    assert (
        corpus.count_sorted_lists({"a": ("ache", "rash"), "b": ("rash", "ache"), "c": ("cough",)})
        == 2
    )
