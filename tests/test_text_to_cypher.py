"""Cypher that a model writes is read off its reply, whatever stands around it."""

import pytest

from rag.text_to_cypher import read_statement

STATEMENT = (
    "MATCH (d:Drug {name: 'metformin'})-[:may_cause_side_effect]->(e) RETURN e.name AS answer"
)


@pytest.mark.parametrize(
    "reply",
    [
        STATEMENT,
        f"To find the effects, start with the drug and follow its edges:\n\n{STATEMENT}",
        f"Match the drug first, then return its effects with their names: {STATEMENT}",
        f"I return what matches. Call it as follows.\n{STATEMENT};\n\nIt returns the names.",
        f"The drug, with its effects:\n```cypher\n{STATEMENT}\n```\nReturn to me with questions.",
    ],
)
def test_prose_before_a_statement_is_no_part_of_it(reply: str) -> None:
    assert read_statement(reply) == STATEMENT


@pytest.mark.parametrize(
    "first",
    [
        "(:Drug)-[:may_cause_side_effect]->(:SideEffect)",
        "Drug: name\nSideEffect: name, with the frequency",
        '{"drug": "metformin", "return": "effects"}',
        "",
    ],
)
@pytest.mark.parametrize("language", ["", "cypher", "sql"])
def test_of_two_fences_the_one_with_the_statement_counts(first: str, language: str) -> None:
    reply = f"First the schema:\n```\n{first}\n```\nThen:\n```{language}\n{STATEMENT}\n```"
    assert read_statement(reply) == STATEMENT


def test_of_two_statements_the_first_counts() -> None:
    other = STATEMENT.replace("metformin", "aspirin")
    assert read_statement(f"```\n{STATEMENT}\n```\nor\n```\n{other}\n```") == STATEMENT
    assert read_statement(f"{STATEMENT}\n\n{other}") == STATEMENT


@pytest.mark.parametrize(
    "statement",
    [
        "OPTIONAL MATCH (d:Drug) RETURN d.name AS answer",
        "MATCH p = (d:Drug)--(e) RETURN e.name AS answer",
        "WITH 'metformin' AS name MATCH (d:Drug {name: name}) RETURN d.name AS answer",
        "UNWIND ['a', 'b'] AS name RETURN name AS answer",
        "CALL { MATCH (d:Drug) RETURN d } RETURN d.name AS answer",
        "RETURN 'none' AS answer",
        "match (d:Drug)\nwhere d.name = 'metformin'\nreturn d.name as answer",
    ],
)
@pytest.mark.parametrize("around", ["{}", "```cypher\n{}\n```", "```\n{}", "Sure:\n{}\n\nDone."])
def test_any_reading_clause_begins_a_statement(statement: str, around: str) -> None:
    assert read_statement(around.format(statement)) == statement


@pytest.mark.parametrize("reply", ["", "```\n```", "I do not know.", "(:Drug)-[:X]->(:Effect)"])
def test_a_reply_without_a_statement_has_none(reply: str) -> None:
    assert read_statement(reply) == ""
