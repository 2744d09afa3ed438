"""Replies as models give them: wrapped, marked up, in other alphabets' marks; read as meant."""

# ruff: noqa: RUF001

from __future__ import annotations

import pytest

from helpers.completions import Reply
from papers.across_papers.arms import Names, parse_names
from papers.biomedrag import scoring
from papers.clinical_notes import llm_reading
from papers.drug_interactions.relations import parse_facts
from papers.qa_rag import answers as documents
from papers.qa_rag.rerankers import read_score
from papers.qa_rag.retrieval import read_queries
from papers.side_effects.forward import parse_entities, parse_label
from papers.side_effects.normalisers import parse_spelling
from papers.side_effects.reverse import parse_drugs
from rag.replies import cited_numbers
from rag.text_to_cypher import read_statement

YES = ["YES", "**YES**", "_Yes_, it is", "Answer: yes", "**Answer:** YES", "The answer is\nYes"]
YES += ["The correct answer is: **Yes**.", "Final Answer: YES", "### Answer\n\nYES", "A: yes"]
YES += [
    r"\boxed{YES}",
    r"$\boxed{\text{Yes}}$",
    r"The final answer is \(\boxed{YES}\)",
    "```\nYES\n```",
]
YES += ["„YES“", "«Yes».", "「YES」", "‘yes’", "ＹＥＳ", "Yes，because", "<answer>YES</answer>"]
YES += ['{"answer": "YES"}', "1. YES", "- Yes", "Okay, the answer is yes", "Response: Yes."]
NEITHER = [
    "Not known.",
    "UNKNOWN",
    "Nope",
    "The answer is not known.",
    "I cannot say yes or no.",
    "",
]


def no_for(text: str) -> str:
    return (
        text.replace("YES", "NO")
        .replace("Yes", "No")
        .replace("yes", "no")
        .replace("ＹＥＳ", "ＮＯ")
    )


@pytest.mark.parametrize("text", YES)
def test_a_label_is_read_however_it_is_wrapped(text):
    assert parse_label(text) is True
    assert parse_label(no_for(text)) is False


@pytest.mark.parametrize("text", NEITHER)
def test_what_is_neither_yes_nor_no_is_not_read(text):
    assert parse_label(text) is None


DRUGS = [
    "1. **Aspirin** - a common cause\n2. **Ibuprofen** – see label",
    "1. Aspirin - a common cause\n2. Ibuprofen - see label",
    "* **aspirin**: ulcers\n* **ibuprofen**: pain, and more",
    "The drugs are:\n\n1. *Aspirin*\n2. *Ibuprofen*",
    '["aspirin", "ibuprofen"]',
    '```json\n["Aspirin", "Ibuprofen"]\n```',
    '{"drugs": ["aspirin", "ibuprofen"]}',
    '[{"drug": "aspirin"}, {"drug": "ibuprofen"}]',
    '{"name": "aspirin"}\n{"name": "ibuprofen"}',
    "['aspirin', 'ibuprofen']",
    "- `aspirin`\n- `ibuprofen`",
    "aspirin、ibuprofen",
    "aspirin，ibuprofen。",
    "„aspirin“, „ibuprofen“",
    "«aspirin»; «ibuprofen»",
    "「aspirin」、「ibuprofen」",
    r"\boxed{aspirin, ibuprofen}",
    "**Drugs:** aspirin, ibuprofen",
    "<answer>aspirin, ibuprofen</answer>",
    "| drug |\n|---|\n| aspirin |\n| ibuprofen |",
    "<think>maybe warfarin</think>\naspirin, ibuprofen",
]


@pytest.mark.parametrize("text", DRUGS)
def test_a_list_of_drugs_is_read_however_it_is_written(text):
    assert parse_drugs(text) == {"aspirin", "ibuprofen"}


@pytest.mark.parametrize(
    "text",
    [
        "metformin | nausea",
        "**metformin** | **nausea**",
        "metformin ｜ nausea",
        "Answer: metformin | nausea",
        "„metformin“ | „nausea“",
        "| metformin | nausea |",
        "```\nmetformin | nausea\n```",
        r"\boxed{metformin | nausea}",
    ],
)
def test_two_names_are_read_without_what_is_around_them(text):
    entities = parse_entities(text)
    assert (entities.drug, entities.side_effect) == ("metformin", "nausea")
    assert parse_names(text) == Names(("metformin",), "nausea")


@pytest.mark.parametrize(
    "text",
    [
        "Metformin",
        "**Metformin**",
        "„Metformin“",
        "«metformin»",
        r"\boxed{metformin}",
        "`metformin`.",
        "The correct spelling is metformin.",
        "Answer: metformin",
        "「metformin」",
        "Ｍetformin",
        "metformin。",
        "The correct spelling is: **metformin**",
        "- metformin",
        "1. metformin",
    ],
)
def test_a_name_is_read_without_what_is_around_it(text):
    assert parse_spelling(text) == "metformin"


NOTE = '{"seizure_status": "negative", "medications": []}'


@pytest.mark.parametrize(
    "text",
    [
        NOTE,
        f"```json\n{NOTE}\n```",
        f"Here it is:\n{NOTE}",
        f"{NOTE} Hope this helps!",
        f"[{NOTE}]",
        f"```\n{NOTE}\n```\nDone.",
        f"The note [1] says:\n{NOTE}",
    ],
)
def test_an_extraction_is_read_from_a_fence_and_from_among_prose(text):
    reading = llm_reading.parse_extraction("note", text)
    assert (reading.parsed, reading.status) == (True, "negative")


@pytest.mark.parametrize("text", ["", "none", NOTE[:-1], "[]", "{}", "[[[", '{"medications": []}'])
def test_what_is_no_extraction_is_not_parsed(text):
    assert not llm_reading.parse_extraction("note", text).parsed


FACTS = '{"interactions": [{"first": "aspirin", "second": "warfarin"}], "effects": []}'


def test_facts_are_read_from_a_fence_and_from_among_prose():
    plain = parse_facts(FACTS, cut=False)
    assert parse_facts(f"```json\n{FACTS}\n```", cut=False) == plain
    assert parse_facts(f"Facts: {FACTS} That is all.", cut=False) == plain


@pytest.mark.parametrize(
    "text",
    [
        "a|causes|b",
        "```\na|causes|b\n```",
        "1. a|causes|b",
        "- a | causes | b",
        "a｜causes｜b",
        "**a|causes|b**",
        r"\boxed{a|causes|b}",
        "| a | causes | b |",
    ],
)
def test_a_triple_is_read_without_what_is_around_it(text):
    (triple,) = scoring.parse_triples(text)
    assert (triple.head, triple.relation, triple.tail) == ("a", "causes", "b")


@pytest.mark.parametrize(
    "text",
    [
        "not adverse",
        "**not adverse**",
        "Answer: not adverse",
        r"\boxed{not adverse}",
        "„Not adverse“",
        "not adverse。",
        "The answer is\nNot adverse",
        '"not adverse"',
        "Label: not adverse.",
        '{"label": "not adverse"}',
        "```\nnot adverse\n```",
    ],
)
def test_a_class_is_read_without_what_is_around_it(text):
    assert scoring.parse_label(text, ["adverse", "not adverse"]) == "not adverse"
    assert scoring.parse_label(f"adverse or {text}", ["adverse", "not adverse"]) is None


@pytest.mark.parametrize(
    ("text", "score"),
    [
        ("8", 8),
        ("**8**", 8),
        ("8/10", 8),
        ("Score: 7.5", 7.5),
        (r"\boxed{8}", 8),
        ("８", 8),
        ("7,5", 7.5),
        ("Rating (0-10): 8", 8),
        ("<answer>8</answer>", 8),
        ("8 out of 10", 8),
        ("On a scale of 0 to 10: 9", 9),
    ],
)
def test_a_rating_is_the_number_that_is_meant(text, score):
    assert read_score(text) == score


@pytest.mark.parametrize("text", ["-3", "11", "", "no number"])
def test_what_is_no_rating_is_none(text):
    assert read_score(text) != read_score(text)


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("<think>[3]</think> One year [1].", [1]),
        ("One year 【1】.", [1]),
        ("One year ［1］.", [1]),
        ("One year [1][2].", [1, 2]),
        ("One year [1; 2].", [1, 2]),
        ("One year [Passage 1].", [1]),
        ("One year [1-3].", [1, 2, 3]),
        ("One year **[1]**.", [1]),
        ("One year [^1].", [1]),
        ("One year (1).", []),
        ("Seen on [2017-06-21].", []),
    ],
)
def test_citations_are_read_in_every_bracket(text, cited):
    assert cited_numbers(text) == cited
    answer = documents.read(Reply(text, "complete", 1, 1, 0.0), [None] * 3)  # type: ignore[list-item]
    assert list(answer.cited) == cited


QUERIES = ["What is the dose of it?", "Who may take it at all?"]


@pytest.mark.parametrize(
    "text",
    [
        "1. {0}\n2. {1}",
        "1. **{0}**\n2. **{1}**",
        "Here are two questions:\n- {0}\n- {1}",
        "• „{0}“\n• „{1}“",
        "１．{0}\n２．{1}",
        "Question 1: {0}\nQuestion 2: {1}",
        '1. **From the view of a doctor:**\n   "{0}"\n2. **From that of a nurse:**\n   "{1}"',
        '["{0}", "{1}"]',
        '```json\n["{0}", "{1}"]\n```',
    ],
)
def test_queries_are_read_and_headings_are_not(text):
    assert read_queries(text.format(*QUERIES)) == QUERIES


MATCH = "MATCH (d:Drug) RETURN d.name AS answer"


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        (f"To find the effects, start with the drug and follow its edges:\n\n{MATCH}", MATCH),
        (f"First the schema:\n```\n(:Drug)-[:x]->(:E)\n```\nThen:\n```cypher\n{MATCH}\n```", MATCH),
        (f"`{MATCH}`", MATCH),
        (f"**{MATCH}**", MATCH),
        (f"Cypher: {MATCH}", MATCH),
        (f"{MATCH}\nThis query returns all drugs.", MATCH),
        (f"{MATCH};\nMATCH (n) DETACH DELETE n", MATCH),
        ('{"cypher": "' + MATCH + '"}', MATCH),
        ("```\nMATCH (d:Drug)\n\nRETURN d.name\n```", "MATCH (d:Drug)\nRETURN d.name"),
        ("MATCH (d {name: 'x; y'}) RETURN d", "MATCH (d {name: 'x; y'}) RETURN d"),
        ("MATCH (d {name: ‘x’}) RETURN d", "MATCH (d {name: 'x'}) RETURN d"),
    ],
)
def test_the_statement_is_read_alone(text, statement):
    assert read_statement(text) == statement
