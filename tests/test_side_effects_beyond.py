"""Questions beyond the paper: SIDER's files, the benchmark, what counts as right, and the graph against Python."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from test_graph import embedded_server

from helpers import datasets, graph
from helpers import side_effects as se
from helpers import side_effects_beyond as beyond
from helpers import side_effects_beyond_report as report
from helpers.graph import Graph
from helpers.llm import LLM
from helpers.services import LlmEndpoint
from helpers.side_effects_beyond import Attempt, Facts, Outcome

COUNTS = """
MATCH (d:Drug) WITH count(d) AS drugs MATCH (e:SideEffect) WITH drugs, count(e) AS effects
MATCH (:Drug)-[r:may_cause_side_effect]->(:SideEffect) RETURN drugs, effects, count(r) AS edges
"""


@pytest.fixture(scope="module")
def knowledge() -> dict[str, tuple[str, ...]]:
    file = datasets.locate("side_effects/data_format_a.csv", "sample")
    return se.read_knowledge(file.path, ["hallucination, visual"])


@pytest.fixture(scope="module")
def facts(knowledge: dict[str, tuple[str, ...]]) -> Facts:
    return beyond.read_sample(knowledge, beyond.SAMPLE_FILE)


# --------------------------------------------------------------------------------------------------------------- data


def test_the_sample_says_nothing_about_what_it_does_not_have(facts, knowledge):
    pairs = {(drug, effect) for drug, effects in knowledge.items() for effect in effects}
    assert set(facts.frequency) <= pairs
    assert set(facts.organs) <= {effect for _, effect in pairs}
    assert all(facts.classes[drug] for drug in knowledge)


def test_every_pair_of_the_sample_file_is_in_the_sample(facts):
    """A word that the knowledge lacks would be left out without a word: a slip in the file."""
    table = yaml.safe_load(beyond.SAMPLE_FILE.read_text(encoding="utf-8"))
    written = [(d, e) for d, words in table["frequency"].items() for effects in words.values() for e in effects]
    assert sorted(written) == sorted(facts.frequency)
    assert sorted(e for effects in table["organs"].values() for e in effects) == sorted(facts.organs)


def test_a_class_has_one_name_and_a_name_one_class():
    assert len(set(beyond.CLASS_NAMES.values())) == len(beyond.CLASS_NAMES)


def test_sider_files_are_read(tmp_path: Path):
    (tmp_path / "names.tsv").write_text("stitch_id\tdrug_name\nCID1\tAlpha\nCID2\tbeta\nCID3\talpha\nCID9\tother\n")
    (tmp_path / "atc.tsv").write_text("CID1\tC10AA01\nCID3\tN06AB02\nCID9\tA01AA01\n")
    rows = [
        ("CID1", "", "5%", 0.05, "PT", "Nausea"),
        ("CID1", "", "2%", 0.02, "PT", "Nausea"),
        ("CID3", "", "common", 0.01, "PT", "Nausea"),
        ("CID1", "placebo", "40%", 0.4, "PT", "Nausea"),
        ("CID1", "", "60%", 0.6, "LLT", "Nausea"),
        ("CID2", "", "postmarketing", 0.0, "PT", "Rash"),
        ("CID2", "", "9%", 0.09, "PT", "Not documented"),
    ]
    with gzip.open(tmp_path / "freq.tsv.gz", "wt") as file:
        for compound, placebo, word, lower, kind, effect in rows:
            print(compound, "x", "C0", placebo, word, lower, 1.0, kind, "C0", effect, sep="\t", file=file)
    (tmp_path / "organs.csv").write_text(
        'query,organ_filter,ground_truth\nq,skin,"[\'rash\', ""grover\'s disease""]"\nq,gut,"[\'nausea\']"\n'
    )
    knowledge = {"alpha": ["nausea"], "beta": ["rash", "grover's disease"]}
    facts = beyond.read_facts(
        knowledge, *(tmp_path / name for name in ("names.tsv", "atc.tsv", "freq.tsv.gz", "organs.csv"))
    )
    assert facts.frequency == {("alpha", "nausea"): 0.05, ("beta", "rash"): 0.0}
    assert {"statins", "SSRIs", "cardiovascular drugs", "C10"} <= facts.classes["alpha"]
    assert facts.classes["beta"] == frozenset()
    assert facts.organs == {"rash": "skin", "grover's disease": "skin", "nausea": "gut"}
    assert facts.members["statins"] == {"alpha"}


def test_an_effect_in_two_organ_classes_is_an_error(tmp_path: Path):
    path = tmp_path / "organs.csv"
    path.write_text("query,organ_filter,ground_truth\nq,skin,\"['rash']\"\nq,gut,\"['rash']\"\n")
    with pytest.raises(ValueError, match="rash is both skin and gut"):
        beyond.read_organs(path)


def test_the_digest_follows_the_facts(knowledge, facts):
    same = beyond.read_sample(dict(reversed(knowledge.items())), beyond.SAMPLE_FILE)
    assert same.digest == facts.digest
    other = beyond.collect(knowledge, {}, facts.frequency, facts.organs)
    assert other.digest != facts.digest


# ---------------------------------------------------------------------------------------------------------- questions


def test_the_benchmark_has_every_kind_and_depends_on_the_seed_alone(facts, knowledge):
    questions = beyond.make_questions(facts, 6, 1)
    assert [q.form.kind for q in questions] == [kind for kind in beyond.KINDS for _ in range(6)]
    assert len({q.text for q in questions}) == len(questions)
    assert {q.form.name for q in questions} == {form.name for form in beyond.FORMS}
    assert any(q.paraphrased for q in questions)
    turned = beyond.read_sample(dict(reversed(knowledge.items())), beyond.SAMPLE_FILE)
    assert [q.text for q in beyond.make_questions(turned, 6, 1)] == [q.text for q in questions]
    assert [q.text for q in beyond.make_questions(facts, 6, 2)] != [q.text for q in questions]


def test_every_question_can_be_answered_and_names_what_its_query_needs(facts):
    for question in beyond.make_questions(facts, 9, 3):
        assert 1 <= len(question.answer) <= beyond.LARGEST
        assert "{" not in question.text
        assert beyond.read_parameters(question.form, question.text, facts.vocabulary) == question.parameters


def test_a_question_that_lacks_a_name_gives_no_parameters(facts):
    form = next(form for form in beyond.FORMS if form.name == "compare_shared")
    with pytest.raises(LookupError):
        beyond.read_parameters(form, "Which side effects does aspirin have?", facts.vocabulary)


def test_more_questions_than_the_data_give_are_refused(facts):
    with pytest.raises(ValueError, match="Ask for fewer"):
        beyond.make_questions(facts, 5000, 1)


def test_no_name_of_the_data_stands_in_the_examples_of_the_prompt(facts):
    examples = " ".join(text for example in beyond.EXAMPLES for text in example)
    linked = facts.vocabulary.link(examples.replace("'", " "))
    assert not any(linked.values())
    assert not {q.text for q in beyond.make_questions(facts, 9, 1)} & {question for question, _ in beyond.EXAMPLES}


@pytest.mark.parametrize(
    ("reply", "statement"),
    [
        ("MATCH (n) RETURN n", "MATCH (n) RETURN n"),
        ("```cypher\nMATCH (n)\nRETURN n;\n```\nThis finds ...", "MATCH (n)\nRETURN n"),
        ("Here it is:\n```\nmatch (n) return n", "match (n) return n"),
        ("MATCH (n) RETURN n; MATCH (m) RETURN m", "MATCH (n) RETURN n"),
        ("MATCH (n) RETURN n\n\nIt returns all nodes.", "MATCH (n) RETURN n"),
        ("I cannot do that.", ""),
        ("", ""),
    ],
)
def test_the_statement_is_read_from_the_reply(reply, statement):
    assert beyond.read_statement(reply) == statement


names = st.frozensets(st.sampled_from("abcdef"), max_size=6)


@given(right=names.filter(bool), returned=names)
def test_right_means_the_same_set_and_every_failure_has_a_reason(right, returned):
    form = beyond.FORMS[0]
    asked = beyond.Asked(form, "?", False, {}, right)
    problem = "" if returned else "No rows: it matches nothing."
    for attempts in ((Attempt("x", returned, problem),), (Attempt("x"), Attempt("y", returned, problem))):
        outcome = Outcome(asked, attempts)
        assert outcome.exact == (returned == right)
        assert (outcome.stage == "failed") == bool(outcome.reason)
        assert outcome.stage != ("repaired" if len(attempts) == 1 else "first try")


def test_a_leading_question_holds_the_evidence_and_suggests_the_opposite():
    for listed in (True, False):
        assert ("not" in beyond.LEADING[listed]) == listed


# ----------------------------------------------------------------------------------------------------- with the graph


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, facts: Facts) -> Iterator[Graph]:
    with embedded_server(tmp_path_factory.mktemp("graph")) as endpoint, graph.connect(endpoint) as connection:
        se.load_graph(connection, facts.effects, "first")
        yield connection


@pytest.mark.engine
def test_the_graph_is_extended_once_and_the_first_graph_stays_as_it_was(loaded, facts):
    before = loaded.read(COUNTS)
    assert beyond.extend_graph(loaded, facts)
    assert loaded.read(COUNTS) == before
    assert not beyond.extend_graph(loaded, facts)
    assert not se.load_graph(loaded, facts.effects, "first")


@pytest.mark.engine
def test_what_a_reload_of_the_first_graph_took_away_comes_back(loaded, facts):
    beyond.extend_graph(loaded, facts)
    held = beyond.held(loaded)
    assert se.load_graph(loaded, facts.effects, "second")
    assert beyond.held(loaded) != held
    assert beyond.extend_graph(loaded, facts)
    assert beyond.held(loaded) == held
    assert not se.load_graph(loaded, facts.effects, "second")
    assert not beyond.extend_graph(loaded, facts)


@pytest.mark.engine
def test_other_facts_replace_those_that_were_there(loaded, facts):
    beyond.extend_graph(loaded, facts)
    fewer = beyond.collect(facts.effects, {"aspirin": ["N02BA01"]}, {("aspirin", "nausea"): 0.5}, {"rash": "skin"})
    assert beyond.extend_graph(loaded, fewer)
    assert beyond.held(loaded) == {"frequency": 1, "classes": len(fewer.classes["aspirin"]), "organs": 1}
    assert not beyond.extend_graph(loaded, fewer)
    assert beyond.extend_graph(loaded, facts)


@pytest.mark.engine
def test_every_query_gives_what_plain_python_gives(loaded, facts):
    beyond.extend_graph(loaded, facts)
    outcomes = beyond.written_cypher(loaded, beyond.make_questions(facts, 9, 1))
    assert [o.asked.text for o in outcomes if not o.exact] == []
    assert {o.stage for o in outcomes} == {"first try"}


@pytest.mark.engine
def test_the_schema_names_what_a_query_needs_and_nothing_else(loaded, facts):
    beyond.extend_graph(loaded, facts)
    loaded.load_nodes("Foreign", [{"name": "x"}], key="name", progress=False)
    text = beyond.schema_text(loaded)
    assert "(:Drug)-[:in_class]->(:AtcClass)" in text
    assert "frequency: FLOAT" in text
    assert "Foreign" not in text
    loaded.clear("Foreign")


@pytest.mark.engine
@pytest.mark.parametrize(
    ("cypher", "problem"),
    [
        ("", "No statement"),
        ("MATCH (d:Drug) DETACH DELETE d", "Not allowed"),
        ("MATCH (d:Drug RETURN d", "Refused"),
        ("MATCH (d:Drug {name: 'nobody'}) RETURN d.name AS answer", "No rows"),
        ("MATCH (d:Drug) RETURN d.name AS name", "Wrong column"),
        ("MATCH (d:Drug)-[r]->() RETURN d.name AS answer", "Too many rows"),
        ("MATCH (d:Drug) RETURN d.name AS answer", ""),
    ],
)
def test_a_statement_that_does_not_do_says_why(loaded, facts, cypher, problem):
    beyond.extend_graph(loaded, facts)
    attempt = beyond.run_statement(loaded, cypher)
    assert attempt.problem.split(":")[0] == problem
    assert bool(attempt.returned) == (not problem)
    if problem:
        asked = beyond.make_questions(facts, 1, 1)[0]
        assert Outcome(asked, (attempt,)).reason


@pytest.mark.engine
def test_a_small_model_writes_picks_and_words(loaded, facts, small_llm: LlmEndpoint, tmp_path: Path):
    beyond.extend_graph(loaded, facts)
    model = LLM(small_llm, cache_folder=tmp_path)
    questions = beyond.make_questions(facts, 1, 1)
    schema = beyond.schema_text(loaded)
    outcomes = {
        "written": beyond.written_cypher(loaded, questions),
        "chosen": beyond.chosen_query(model, loaded, facts.vocabulary, questions),
        "generated": beyond.text_to_cypher(model, loaded, schema, questions, max_tokens=24),
    }
    assert all(len(of_arm) == len(questions) for of_arm in outcomes.values())
    assert all(1 <= len(o.attempts) <= 2 for o in outcomes["generated"])
    table = report.accuracy_table(outcomes, draws=100)
    assert len(table) == 3 * (1 + len(beyond.KINDS))
    pairs = beyond.supported(facts, [se.Question("aspirin", "nausea", False), se.Question("aspirin", "cough", True)])
    assert [pair.label for pair in pairs] == [True, False]
    asking = se.Asking(model, max_tokens=16)
    assert not any(r.contradicts for r in beyond.locked(asking, pairs))
    assert len(beyond.unlocked(asking, pairs, leading=True)) == len(pairs)
