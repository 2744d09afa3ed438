"""Beyond the paper: SIDER's files, the questions, what counts as right, and the graph against plain Python."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from hypothesis import given, strategies as st
from short_answers import assert_short_answer
from test_graph import graph_server

from evaluation import record, rules
from evaluation.answers import Answer, make_row
from evaluation.outcomes import Outcomes
from helpers import graph
from helpers.completions import Reply
from helpers.graph import Graph
from helpers.llm import LLM
from papers.side_effects import corpus, facts as sf, label_lock, questions as sq
from papers.side_effects.facts import Facts
from rag import text_to_cypher
from rag.text_to_cypher import Attempt
from resources import datasets

COUNTS = """
MATCH (d:Drug) WITH count(d) AS drugs MATCH (e:SideEffect) WITH drugs, count(e) AS effects
MATCH (:Drug)-[r:may_cause_side_effect]->(:SideEffect) RETURN drugs, effects, count(r) AS edges
"""


@pytest.fixture(scope="module")
def knowledge() -> dict[str, tuple[str, ...]]:
    file = datasets.locate("side_effects/data_format_a.csv", "sample")
    return corpus.read_knowledge(file.path, ["hallucination, visual"])


@pytest.fixture(scope="module")
def facts(knowledge: dict[str, tuple[str, ...]]) -> Facts:
    return sf.load_facts(knowledge, sample=True)[0]


# --------------------------------------------------------------------------------------------------------------- data


def test_every_line_of_the_sample_file_is_used(facts):
    """A drug or effect that the sample's knowledge lacks would be left out without a word: a slip in the file."""
    table = yaml.safe_load(sf.SAMPLE_FILE.read_text(encoding="utf-8"))
    pairs = [
        (d, e)
        for d, words in table["frequency"].items()
        for effects in words.values()
        for e in effects
    ]
    assert sorted(pairs) == sorted(facts.frequency)
    assert sorted(e for effects in table["organs"].values() for e in effects) == sorted(
        facts.organs
    )
    assert set(table["atc"]) == set(facts.effects)


def test_a_class_has_one_name_and_a_name_one_class():
    assert len(set(sf.CLASS_NAMES.values())) == len(sf.CLASS_NAMES)


def test_siders_files_are_read(tmp_path: Path):
    (tmp_path / "names.tsv").write_text(
        "stitch_id\tdrug_name\nCID1\tAlpha\nCID2\tbeta\nCID3\talpha\nCID9\tother\n"
    )
    # the order breaks after CID9: what follows was added to SIDER's own list
    (tmp_path / "atc.tsv").write_text(
        "CID1\tC10AA01\nCID3\tN06AB02\nCID9\tA01AA01\nCID2\tA10BK01\n"
    )
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
            print(
                compound,
                "x",
                "C0",
                placebo,
                word,
                lower,
                1.0,
                kind,
                "C0",
                effect,
                sep="\t",
                file=file,
            )
    (tmp_path / "organs.csv").write_text(
        'query,organ_filter,ground_truth\nq,skin,"[\'rash\', ""grover\'s disease""]"\nq,gut,"[\'nausea\']"\n'
    )
    facts = sf.read_facts(
        {"alpha": ["nausea"], "beta": ["rash", "grover's disease"]},
        names=tmp_path / "names.tsv",
        atc=tmp_path / "atc.tsv",
        frequency=tmp_path / "freq.tsv.gz",
        organs=tmp_path / "organs.csv",
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
        sf.read_organs(path)


def test_the_digest_follows_the_facts_and_not_their_order(knowledge, facts):
    reversed_facts, _ = sf.load_facts(dict(reversed(knowledge.items())), sample=True)
    assert reversed_facts.digest == facts.digest
    assert sf.collect(knowledge, {}, facts.frequency, facts.organs).digest != facts.digest


# ---------------------------------------------------------------------------------------------------------- questions


def test_the_benchmark_has_every_kind_and_form_and_depends_on_the_seed_alone(facts, knowledge):
    questions = sq.make_questions(facts, 6, 1)
    assert [q.form.kind for q in questions] == [kind for kind in sq.KINDS for _ in range(6)]
    assert len({q.text for q in questions}) == len(questions)
    assert {q.form.name for q in questions} == {form.name for form in sq.FORMS}
    assert any(q.paraphrased for q in questions)
    reversed_facts, _ = sf.load_facts(dict(reversed(knowledge.items())), sample=True)
    assert [q.text for q in sq.make_questions(reversed_facts, 6, 1)] == [q.text for q in questions]
    assert [q.text for q in sq.make_questions(facts, 6, 2)] != [q.text for q in questions]


def test_every_question_can_be_answered_and_names_what_its_query_needs(facts):
    for question in sq.make_questions(facts, 9, 3):
        assert 1 <= len(question.answer) <= sq.LARGEST
        assert "{" not in question.text
        assert (
            sq.read_parameters(question.form.cypher, question.text, facts.vocabulary)
            == question.parameters
        )


def test_a_question_that_lacks_a_name_gives_no_parameters(facts):
    form = next(form for form in sq.FORMS if form.name == "compare_shared")
    with pytest.raises(LookupError):
        sq.read_parameters(form.cypher, "Which side effects does aspirin have?", facts.vocabulary)


def test_more_questions_than_the_data_give_are_refused(facts):
    with pytest.raises(ValueError, match="Ask for fewer"):
        sq.make_questions(facts, 5000, 1)


def test_no_name_of_the_data_stands_in_the_examples_of_the_prompt(facts):
    examples = " ".join(text for example in sq.EXAMPLES for text in example)
    assert not any(facts.vocabulary.link(examples.replace("'", " ")).values())


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
    assert text_to_cypher.read_statement(reply) == statement


names = st.frozensets(st.sampled_from("abcdef"), max_size=6)


@given(right=names.filter(bool), returned=names)
def test_right_means_the_same_set(right, returned):
    question = sq.FormQuestion(sq.FORMS[0], "?", False, {}, right)
    answer = sq.make_answer(question, (Attempt("x"), Attempt("y", returned)))
    assert answer.measures["exact"][0] == (returned == right)
    assert {item.id for item in answer.items if item.predicted} == returned


@pytest.fixture
def run() -> record.Run:
    return record.start(notebook="04_x", paper="side_effects", profile="smoke", parameters={})


def test_queries_that_their_author_checks_decide_nothing(run, facts):
    """The paper announces richer questions and has no measure of them."""
    questions = sq.make_questions(facts, 1, 1)
    rows = [
        make_row(sq.make_answer(question, [Attempt("x", question.answer)]), question, arm="written")
        for question in questions
    ]
    rules.decide(run, Outcomes(rows, draws=200), "graph_extends_to_richer_questions")
    assert (run.claims[0].verdict, run.claims[0].reason) == ("cannot be tested", "undefined")
    assert run.here_findings[0].answer == "not run"


def locked(*texts: tuple[corpus.Question, str], arm: str = "label") -> list[Answer]:
    return [make_row(label_lock.make_answer(q, text), q, arm=arm) for q, text in texts]


def test_a_model_that_always_says_no_is_told_apart_by_evidence():
    """Of a listed and an unlisted pair half of its answers are right."""
    listed, unlisted = (
        corpus.Question("aspirin", "nausea", True),
        corpus.Question("aspirin", "cough", False),
    )
    out = Outcomes(locked((listed, "NO"), (unlisted, "NO")), draws=200)
    shares = [
        out.where(evidence=evidence).score("contradicts").value
        for evidence in out.strata("evidence")
    ]
    assert shares == [1, 0]
    assert out.score("says_no").value == 1


@pytest.mark.parametrize(
    ("words", "n", "answer"),
    [
        ("It depends.", 200, "with the claim"),
        ("It depends.", 80, "inconclusive"),
        ("E is not known with aspirin.", 80, "against it"),
    ],
)
def test_a_locked_label_is_faithful_if_few_sentences_stray(run, words, n, answer):
    """None of 80 leaves room for more than 2 %. The paper has no lock, so the answer is of here."""
    pairs = [(corpus.Question(f"aspirin{i}", "E", True), f"YES. {words}") for i in range(n)]
    rules.decide(run, Outcomes(locked(*pairs), draws=200), "label_lock_gives_fidelity")
    assert run.here_findings[0].answer == answer
    assert (run.claims[0].verdict, run.claims[0].reason) == ("not tested", "another system")


def test_the_answer_tells_what_the_rows_hold(facts):
    questions = sq.make_questions(facts, 1, 1)
    rows = [
        make_row(
            sq.make_answer(q, [Attempt("x", q.answer if arm == "written" else frozenset())]),
            q,
            arm=arm,
        )
        for arm in sq.LABELS
        for q in questions
    ]
    pairs = [
        (corpus.Question("aspirin", effect, label), "NO")
        for effect, label in (("nausea", True), ("cough", False))
    ]
    locks = [row for arm in ("unlocked", "leading", "label") for row in locked(*pairs, arm=arm)]
    text = label_lock.answer(Outcomes(rows), Outcomes(locks), "m")
    assert "answer every question of five further kinds" in text
    assert re.search(r"If m picks the query, 0.0 % \S+ \S+ of the answers are correct", text), text
    assert re.search(r"100.0 % \S+ \S+ of the model's answers contradict the graph", text), text
    assert text.count("100.0 %") == 5, "both kinds of leading question are answered NO"
    assert "but the locked prompts contain no misleading question" in text
    assert_short_answer(text)


# ----------------------------------------------------------------------------------------------------- with the graph


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory, facts: Facts) -> Iterator[Graph]:
    with (
        graph_server(tmp_path_factory.mktemp("graph")) as endpoint,
        graph.connect(endpoint) as connection,
    ):
        corpus.load_graph(connection, facts.effects, "first")
        yield connection


def extension_counts(connection: Graph) -> dict[str, int]:
    counts = {
        "frequency": "MATCH (:Drug)-[r:may_cause_side_effect]->(:SideEffect) RETURN count(r.frequency) AS count",
        "classes": "MATCH (:Drug)-[r:in_class]->(:AtcClass) RETURN count(r) AS count",
        "organs": "MATCH (:SideEffect)-[r:in_organ_class]->(:OrganClass) RETURN count(r) AS count",
    }
    return {what: connection.read(query)[0]["count"] for what, query in counts.items()}


@pytest.mark.engine
def test_the_graph_is_extended_once_and_the_first_graph_stays_as_it_was(loaded, facts):
    before = loaded.read(COUNTS)
    assert sf.extend_graph(loaded, facts)
    assert loaded.read(COUNTS) == before
    assert not sf.extend_graph(loaded, facts)
    assert not corpus.load_graph(loaded, facts.effects, "first")
    assert extension_counts(loaded) == {
        "frequency": len(facts.frequency),
        "classes": sum(map(len, facts.classes.values())),
        "organs": len(facts.organs),
    }


@pytest.mark.engine
def test_what_a_reload_of_the_first_graph_took_away_comes_back(loaded, facts):
    sf.extend_graph(loaded, facts)
    counts = extension_counts(loaded)
    assert corpus.load_graph(loaded, facts.effects, "second")
    assert extension_counts(loaded) != counts
    assert sf.extend_graph(loaded, facts)
    assert extension_counts(loaded) == counts
    assert not corpus.load_graph(loaded, facts.effects, "second")
    assert not sf.extend_graph(loaded, facts)


@pytest.mark.engine
def test_other_facts_replace_those_that_were_there(loaded, facts):
    sf.extend_graph(loaded, facts)
    fewer = sf.collect(
        facts.effects, {"aspirin": ["N02BA01"]}, {("aspirin", "nausea"): 0.5}, {"rash": "skin"}
    )
    assert sf.extend_graph(loaded, fewer)
    assert extension_counts(loaded) == {
        "frequency": 1,
        "classes": len(fewer.classes["aspirin"]),
        "organs": 1,
    }
    assert not sf.extend_graph(loaded, fewer)


@pytest.mark.engine
def test_every_query_gives_what_plain_python_gives(loaded, facts):
    sf.extend_graph(loaded, facts)
    questions = sq.make_questions(facts, 9, 1)
    answers = sq.WrittenCypher(loaded)(questions)
    assert [
        q.text for q, a in zip(questions, answers, strict=True) if not a.measures["exact"][0]
    ] == []


@pytest.mark.engine
def test_the_schema_names_what_a_query_needs_and_nothing_else(loaded, facts):
    sf.extend_graph(loaded, facts)
    loaded.load_nodes("Foreign", [{"name": "x"}], key="name", progress=False)
    text = sf.schema_text(loaded)
    assert "(:Drug)-[:in_class]->(:AtcClass)" in text
    assert "frequency: FLOAT" in text
    assert "Foreign" not in text


@pytest.mark.engine
@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("", "No statement"),
        ("MATCH (d:Drug) DETACH DELETE d", "Not allowed"),
        ("MATCH (d:Drug RETURN d", "Refused"),
        ("MATCH (d:Drug {name: 'nobody'}) RETURN d.name AS answer", "No rows"),
        ("MATCH (d:Drug) RETURN d.name AS name, d.name AS other", "Wrong column"),
        ("MATCH (d:Drug) RETURN d", "Wrong column"),
        ("MATCH (d:Drug)-[r]->() RETURN d.name AS answer", "Too many rows"),
        ("MATCH (d:Drug) RETURN d.name", ""),
        ("MATCH (d:Drug) RETURN 1 AS n, d.name AS answer", ""),
    ],
)
def test_a_statement_that_does_not_do_says_why(loaded, facts, statement, problem):
    attempt = text_to_cypher.run_statement(loaded, statement)
    assert attempt.problem.split(":")[0] == problem
    assert bool(attempt.returned) == (not problem)
    if problem:
        question = sq.make_questions(facts, 1, 1)[0]
        assert not sq.make_answer(question, (attempt,)).measures["exact"][0]


class Scripted(LLM):
    """Gives the replies that a test wrote, and keeps what it was asked."""

    def __init__(self, *turns: list[str]) -> None:
        self.turns = list(turns)
        self.prompts: list[list[list[dict[str, str]]]] = []

    def chat_many(self, prompts, **_):
        self.prompts.append(list(prompts))
        return [Reply(text, "complete", 0, 0, 0.0) for text in self.turns.pop(0)]


@pytest.mark.engine
def test_only_a_statement_that_failed_goes_back_and_with_the_reason(loaded, facts):
    sf.extend_graph(loaded, facts)
    questions = sq.make_questions(facts, 1, 1)[:2]
    works, fails = (
        "MATCH (d:Drug) RETURN d.name AS answer",
        "MATCH (d:Drug {name: 'nobody'}) RETURN d.name AS answer",
    )
    model = Scripted([works, fails], [works])
    first, second = sq.TextToCypher(model, loaded, "schema", repairs=2)(questions)
    assert [len(first.requests), len(second.requests)] == [1, 2]
    assert {item.id for item in second.items if item.predicted} == set(facts.effects)
    assert "No rows" in model.prompts[1][0][-1]["content"]
    assert model.prompts[1][0][-2]["content"] == fails
