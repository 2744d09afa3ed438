"""Thoughts: what a model wrote before it answered is kept apart, and no parser reads it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings as trials, strategies as st

from helpers.completions import Reply
from helpers.thoughts import split_thought
from papers.across_papers.arms import parse_names
from papers.biomedrag import scoring
from papers.clinical_notes import llm_reading
from papers.drug_interactions.relations import parse_facts
from papers.qa_rag import answers as documents
from papers.qa_rag.rerankers import read_score
from papers.qa_rag.retrieval import read_queries
from papers.side_effects.forward import parse_entities, parse_label
from papers.side_effects.normalisers import parse_spelling
from papers.side_effects.reverse import parse_drugs
from rag.text_to_cypher import read_statement

TAGS = [
    ("<think>", "</think>"),
    ("<THINK>\n", "\n</THINK>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("<reasoning effort='low'>", "</reasoning>"),
    ("<seed:think>", "</seed:think>"),
    ("[THINK]", "[/THINK]"),
    ("◁think▷", "◁/think▷"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
    ("<unused94>thought\n", "<unused95>"),
    ("<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"),
    ("", "</think>"),
]
ANSWERS = [
    "YES",
    "no",
    "ibuprofen",
    "aspirin, warfarin",
    "metformin | nausea",
    "8/10",
    "One year [1].",
    "aspirin|causes|ulcer",
    "MATCH (d:Drug) RETURN d.name AS answer",
    '{"seizure_status": "negative", "medications": []}',
    '["aspirin", "ibuprofen"]',
    "1. What is the dose of it?\n2. Who may take it at all?",
]
PARSERS: dict[str, Callable[[str], object]] = {
    "label": parse_label,
    "entities": parse_entities,
    "spelling": parse_spelling,
    "drugs": parse_drugs,
    "names": parse_names,
    "triples": scoring.parse_triples,
    "class": lambda text: scoring.parse_label(text, ANSWERS),
    "extraction": lambda text: llm_reading.parse_extraction("note", text),
    "facts": lambda text: parse_facts(text, cut=True),
    "citations": lambda text: documents.read(Reply(text, "complete", 1, 1, 0.0), [None] * 3).cited,  # type: ignore[list-item]
    "rating": lambda text: str(read_score(text)),
    "queries": read_queries,
    "Cypher": read_statement,
}


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@trials(max_examples=40)
@given(st.sampled_from(TAGS), st.sampled_from(ANSWERS), st.sampled_from(ANSWERS))
def test_no_parser_reads_inside_a_thought(parser, tags, thought, answer):
    begin, end = tags
    assert parser(f"{begin}{thought}{end}{answer}") == parser(answer)
    assert parser(f"{begin}{thought}\n{end}\n\n{answer}") == parser(answer)


@pytest.mark.parametrize("parser", PARSERS.values(), ids=PARSERS)
@trials(max_examples=30)
@given(st.sampled_from(TAGS[:-1]), st.sampled_from(ANSWERS))
def test_no_parser_reads_a_thought_that_was_cut(parser, tags, thought):
    assert parser(f"{tags[0]}{thought}") == parser("")


@given(
    st.sampled_from(TAGS),
    st.text(st.characters(exclude_characters="<>[]◁▷|")),
    st.text(st.characters(exclude_characters="<>[]◁▷|")),
)
def test_a_reply_is_split_into_what_it_is_made_of(tags, thought, answer):
    parts = split_thought(f"{tags[0]}{thought}{tags[1]}{answer}")
    assert (parts.thought, parts.is_open) == (thought.strip(), False)
    assert parts.answer == answer.strip()


@given(st.text())
def test_a_reply_without_tags_is_all_answer_to_the_last_space(text):
    if split_thought(text).thought or "think" in text.lower():
        return
    assert split_thought(text) == ("", text, False)


@pytest.mark.parametrize(
    ("text", "answer", "thought"),
    [
        ("<think>a</think>B<think>c</think>D", "BD", "a\nc"),
        ("YES\n<think>why I said it</think>", "YES", "why I said it"),
        ("<think>one <think>two</think> NO</think>YES", "YES", "one <think>two\nNO"),
        (
            "<think>in which I write <think> once more</think>YES",
            "YES",
            "in which I write <think> once more",
        ),
        ("x < y and y > z, I think", "x < y and y > z, I think", ""),
        ("see [1] and <b>bold</b>", "see [1] and <b>bold</b>", ""),
        ("<think></think>\n\nYES", "YES", ""),
    ],
)
def test_several_nested_and_no_thoughts(text, answer, thought):
    parts = split_thought(text)
    assert (parts.answer, parts.thought, parts.is_open) == (answer, thought, False)
