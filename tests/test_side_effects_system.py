"""The system for one's own questions: what it reads, what it refuses to guess, and what an answer shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from test_graph import graph_server

from evaluation.answers import Answer
from helpers import graph, graph_files
from helpers.graph import Graph
from papers.across_papers.arms import LookedUp
from papers.across_papers.questions import KindQuestion
from papers.side_effects import (
    catalogue,
    corpus,
    facts as beyond,
    forward,
    own_table,
    questions,
    results,
    reverse,
    reverse_arms,
    system,
)
from papers.side_effects.catalogue import Catalogue, Frequency, read_sider
from papers.side_effects.reading import ASK_FORMS, EXAMPLES, Reader, examples_for
from papers.side_effects.system import SideEffects
from rag.names import Vocabulary
from rag.system_answer import SystemAnswer
from resources import datasets


@pytest.fixture(scope="module")
def sample() -> Catalogue:
    return read_sider("sample")


@pytest.fixture(scope="module")
def reader(sample: Catalogue) -> Reader:
    return Reader(sample.facts.vocabulary)


# -- reading ----------------------------------------------------------------------------------------------------------


def test_rules_read_every_question_of_the_benchmark_as_it_was_meant(
    sample: Catalogue, reader: Reader
) -> None:
    for question in questions.make_questions(sample.facts, 9, 3):
        reading = reader.read(question.text)
        assert reading.form is not None, question.text
        assert (reading.form.name, reading.parameters) == (
            question.form.name,
            question.parameters,
        ), question.text


@pytest.mark.parametrize(
    ("question", "form", "parameters"),
    [
        ("Is nausea an adverse effect of metformin?", "forward", ("metformin", "nausea")),
        ("Can metformin cause nausea", "forward", ("metformin", "nausea")),
        ("How often does METFORMIN cause Nausea?", "forward", ("metformin", "nausea")),
        ("Do both aspirin and ibuprofen cause nausea?", "both", ("aspirin", "ibuprofen", "nausea")),
        ("Which drugs cause tinnitus?", "reverse", ("tinnitus",)),
        ("List all medicines that can cause tinnitus.", "reverse", ("tinnitus",)),
        ("What are the side effects of metformin?", "effects", ("metformin",)),
        ("What are the most common side effects of metformin?", "frequency_top", ("metformin", 10)),
        ("Compare the side effects of aspirin and ibuprofen", "compare_shared", None),
    ],
)
def test_plain_questions_are_read(
    reader: Reader, question: str, form: str, parameters: tuple[object, ...] | None
) -> None:
    reading = reader.read(question)
    assert reading.form is not None, reading.problem
    assert reading.form.name == form
    if parameters is not None:
        assert sorted(map(str, reading.parameters.values())) == sorted(map(str, parameters))


@pytest.mark.parametrize(
    "question",
    [
        "Which drugs do not cause nausea?",
        "Which drugs cause nausea but not headache?",
        "Which drugs cause nausea and headache?",
        "Which side effects does aspirin not have that ibuprofen has?",
        "Which side effects does neither aspirin nor ibuprofen have?",
        "What are the 5 least frequent side effects of metformin?",
        "Is metformin dangerous in pregnancy?",
        "Which drugs cause severe nausea?",
        "What is metformin?",
        "Sing me a song",
        "",
    ],
)
def test_what_rules_do_not_understand_to_the_last_word_is_not_answered(
    reader: Reader, question: str
) -> None:
    reading = reader.read(question)
    assert reading.form is None
    assert reading.problem


class Chooser:
    """Stands in for a model that chooses one form, whatever it is asked."""

    endpoint = SimpleNamespace(model="a-model")

    def __init__(self, form: str) -> None:
        self.form = form
        self.prompts: list[object] = []

    def choose_many(self, prompts: list[object], choices: list[str], label: str) -> list[object]:
        assert self.form in choices
        self.prompts += prompts
        return [SimpleNamespace(answer=self.form)]


def test_a_model_is_asked_only_what_rules_do_not_understand_and_the_answer_says_so(
    sample: Catalogue,
) -> None:
    chooser = Chooser("forward")
    reader = Reader(sample.facts.vocabulary, chooser)  # type: ignore[arg-type]
    assert reader.read("Which drugs cause nausea?").reader == ""
    assert chooser.prompts == []
    reading = reader.read("My gran takes metformin and aspirin; might her nausea be from that?")
    assert reading.reader == "a-model"
    assert reading.parameters == {"drug": "metformin", "side_effect": "nausea"}
    assert reading.unused == ("aspirin",)
    notes = system._reading_notes(reading, "The table")
    assert any("a-model chose" in note for note in notes)
    assert any("'aspirin', which this answer does not use" in note for note in notes)
    lacking = reader.read("My gran feels unwell, why?")
    assert lacking.form is None
    assert lacking.problem


# -- names ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "name"),
    [("metfromin", "metformin"), ("Glucophage", "metformin"), ("asprin", "aspirin")],
)
def test_a_corrected_name_is_shown(sample: Catalogue, written: str, name: str) -> None:
    reading = Reader(sample.facts.vocabulary).read(f"Does {written} cause nausea?")
    assert reading.parameters == {"drug": name, "side_effect": "nausea"}
    assert [(item.written, item.name) for item in reading.names] == [(written.lower(), name)]


@pytest.mark.parametrize(
    ("written", "drugs", "effects", "suggestion"),
    [
        ("prednisone", ["prednisolone"], ["nausea"], "prednisolone"),
        ("prednisoone", ["prednisone", "prednisolone"], ["nausea"], "prednisolone"),
        ("hypertension", ["aspirin"], ["hypotension"], "hypotension"),
    ],
)
def test_a_name_that_may_be_another_is_asked_back(
    written: str, drugs: list[str], effects: list[str], suggestion: str
) -> None:
    vocabulary = Vocabulary.by_role(drug=drugs, effect=effects)
    reading = Reader(vocabulary).read(f"What are the side effects of {written}?")
    assert reading.form is None
    assert f"'{written}'" in reading.problem
    assert suggestion in reading.problem


@pytest.mark.parametrize("question", ["Crohn\u2019s disease", "crohn's disease", "Crohn`s Disease"])
def test_any_apostrophe_is_understood(question: str) -> None:
    vocabulary = Vocabulary.by_role(drug=["aspirin"], effect=["crohn's disease"])
    reading = Reader(vocabulary).read(f"Which drugs cause {question}?")
    assert reading.parameters == {"side_effect": "crohn's disease"}
    assert reading.names == ()


def test_names_with_dots_and_commas_are_found_as_written() -> None:
    vocabulary = Vocabulary.by_role(
        drug=["methotrexate.", "1,25(oh)2d3"], effect=["bleeding n.o.s.", "hallucination, visual"]
    )
    for drug in vocabulary.names["drug"]:
        for effect in vocabulary.names["effect"]:
            reading = Reader(vocabulary).read(f"Does {drug} cause {effect}?")
            assert reading.parameters == {"drug": drug, "side_effect": effect}


# -- frequencies ------------------------------------------------------------------------------------------------------


def test_a_frequency_is_the_range_of_all_statements(sample: Catalogue) -> None:
    statements = (
        Frequency.read("25.5%", 0.255, 0.255, "file, line 1"),
        Frequency.read("6.5%", 0.065, 0.065, "file, line 2"),
        Frequency.read("very common", 0.1, 1.0, "file, line 3"),
    )
    pair = ("metformin", "nausea")
    catalogue = Catalogue("SIDER", "", sample.facts, {pair: statements}, {})
    words = catalogue.frequency_in_words(*pair)
    assert words.startswith("6.5 to 25.5 % of patients, across 2 statements on labels")
    assert "very common" in words
    assert "at least" not in words
    assert catalogue.frequency_in_words("metformin", "vomiting") == ""


# -- own tables -------------------------------------------------------------------------------------------------------

OWN = [
    ("Newdrug", "Dry mouth; Dizziness", "12-20 %", "test drugs", "nervous"),
    ("newdrug", "dizziness", "30 %", "test drugs", "nervous"),
    ("otherdrug", "dizziness", "common", "test drugs", "nervous"),
]


def own_file(folder: Path, name: str = "my table.csv") -> Path:
    path = folder / name
    columns = ["Medication", "Adverse event", "Incidence", "Drug class", "SOC"]
    table = pd.DataFrame(OWN, columns=columns)
    if path.suffix == ".xlsx":
        table.to_excel(path, index=False)
    else:
        table.to_csv(path, index=False, sep="\t" if path.suffix == ".tsv" else ",")
    return path


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.xlsx"])
def test_an_own_table_has_sources_classes_and_frequencies(tmp_path: Path, name: str) -> None:
    catalogue = own_table.read_catalogue(own_file(tmp_path, name))
    assert catalogue.facts.effects == {
        "newdrug": ("dry mouth", "dizziness"),
        "otherdrug": ("dizziness",),
    }
    assert catalogue.source("newdrug", "dizziness") == f"{name}, rows 2, 3"
    assert "12 to 30 % of patients" in catalogue.frequency_in_words("newdrug", "dizziness")
    assert catalogue.frequency_in_words("otherdrug", "dizziness") == "in words: common"
    assert catalogue.facts.members["test drugs"] == {"newdrug", "otherdrug"}
    assert catalogue.facts.of_organ("newdrug", "nervous") == {"dry mouth", "dizziness"}


def test_numbers_above_one_without_a_sign_are_per_cent(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("drug,effect,rate\na,b,0.5\na,c,12\n")
    assert own_table.read_catalogue(path).facts.frequency[("a", "c")] == pytest.approx(0.12)
    path.write_text("drug,effect,rate\na,b,0.5\na,c,0.12\n")
    assert own_table.read_catalogue(path).facts.frequency[("a", "c")] == pytest.approx(0.12)


def test_a_list_in_a_cell_is_split_as_asked_or_else_named(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('drug,side effect(s)\na,"nausea, rash"\nb,"rash | itch; pain"\n')
    catalogue = own_table.read_catalogue(path)
    assert catalogue.facts.effects == {"a": ("nausea, rash",), "b": ("rash", "itch", "pain")}
    (note,) = catalogue.notes
    assert "'nausea, rash' in row 2" in note
    assert "--separator" in note
    split = own_table.read_catalogue(path, own_table.Layout(separator=","))
    assert split.facts.effects["a"] == ("nausea", "rash")
    assert split.notes == ()


def test_examples_are_of_the_table_and_never_the_question(tmp_path: Path) -> None:
    catalogue = own_table.read_catalogue(own_file(tmp_path))
    reader = Reader(catalogue.facts.vocabulary)
    examples = examples_for(catalogue.facts)
    for example in examples:
        assert reader.read(example).form is not None
    own = SideEffects(catalogue, cast(Graph, None), Reader(Vocabulary.by_role(drug=["x"])))
    text = own.ask(examples[0]).text
    assert examples[0] not in text
    assert examples[1] in text
    assert "metformin" not in text


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a,b\nx,y\n", "a column such as 'drug' is needed.*--drug-column.*--effect-column"),
        ("drug,event,reaction\nx,y,z\n", "several columns fit.*--effect-column"),
        ("drug,effect\nx,\n", "row 2 lacks a name"),
    ],
)
def test_an_own_table_that_cannot_be_used_says_why(
    tmp_path: Path, content: str, message: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(content)
    with pytest.raises(own_table.TableError, match=message) as error:
        own_table.read_catalogue(path)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("cell", "question", "part", "advice"),
    [
        ('a,"nausea, rash"', "Is nausea a side effect of a?", "nausea", "--separator ','"),
        ("a,loss of taste / rash", "Which drugs cause loss of taste?", "loss of taste", "'/'"),
        ("a,itch and rash", "Which drugs cause rash?", "rash", "--separator ' and '"),
        ('"xa, xb",rash', "Does xb cause rash?", "xb", "put ';' between them"),
    ],
)
def test_a_name_within_a_list_is_first_said_to_be_one(
    tmp_path: Path, cell: str, question: str, part: str, advice: str
) -> None:
    path = tmp_path / "t.csv"
    path.write_text(f"drug,effect\n{cell}\n")
    vocabulary = own_table.read_catalogue(path).facts.vocabulary
    problem = Reader(vocabulary, may_have_lists=True).read(question).problem
    assert problem.startswith(f"{part!r} stands in the table only within ")
    assert advice in problem
    assert "no rule knows" not in problem


@pytest.mark.parametrize("drug", ["aspirin", "folic acid"])
def test_a_drug_that_the_table_lacks_is_said_plainly(drug: str) -> None:
    vocabulary = Vocabulary.by_role(drug=["ramipril"], effect=["cough"], cls=[])
    problem = Reader(vocabulary).read(f"Is cough a side effect of {drug}?").problem
    assert problem == f"The table has no drug called {drug!r}."
    chooser = Chooser("forward")
    reading = Reader(vocabulary, chooser).read(  # type: ignore[arg-type]
        f"My gran takes ramipril and {drug}; might her cough be from that?"
    )
    assert reading.absent == (drug,)
    notes = "\n".join(system._reading_notes(reading, "The table"))
    assert f"no drug called {drug!r}, which this answer leaves out" in notes


def test_a_drug_that_sider_lacks_is_not_said_to_be_missing_from_a_table(sample: Catalogue) -> None:
    reader = Reader(sample.facts.vocabulary, subject=sample.subject)
    problem = reader.read("Is cough a side effect of folic acid?").problem
    assert problem.startswith("The sample has no drug called 'folic acid'.")


def test_a_word_that_is_no_name_is_said_with_what_the_table_has() -> None:
    vocabulary = Vocabulary.by_role(drug=["ramipril"], effect=["cough"], cls=[])
    problem = Reader(vocabulary).read("Is it the ramipril, or flying?").problem
    assert "The table has no drug or side effect called 'flying'" in problem


@pytest.mark.parametrize(
    ("question", "lacking"),
    [
        ("Is cough a side effect of zorblax?", "drug called 'zorblax'."),
        ("Can zorblax cause cough?", "drug called 'zorblax'."),
        ("What are the side effects of Zorblax?", "drug called 'zorblax'."),
        ("Is green hair a side effect of ramipril?", "side effect called 'green hair'."),
        ("Which drugs cause flying?", "side effect called 'flying'."),
    ],
)
def test_an_unknown_drug_and_an_unknown_effect_are_told_apart(question: str, lacking: str) -> None:
    vocabulary = Vocabulary.by_role(drug=["ramipril"], effect=["cough"], cls=["statins"])
    chooser = Chooser("effects")
    for llm in (None, chooser):
        reading = Reader(vocabulary, llm).read(question)  # type: ignore[arg-type]
        assert reading.problem == f"The table has no {lacking}"
        assert reading.form is None
    assert chooser.prompts == []


def test_both_names_that_a_question_lacks_are_said() -> None:
    vocabulary = Vocabulary.by_role(drug=["ramipril"], effect=["cough"])
    problem = Reader(vocabulary).read("Does zorblax cause flying?").problem
    assert "no drug called 'zorblax'." in problem
    assert "no side effect called 'flying'." in problem


def test_a_model_is_named_only_where_it_could_help(sample: Catalogue) -> None:
    asked_back = SideEffects(sample, cast(Graph, None), Reader(sample.facts.vocabulary))
    assert system.NO_MODEL not in asked_back.ask("Does zorblax cause nausea?").notes
    assert system.NO_MODEL in asked_back.ask("Is metformin dangerous in pregnancy?").notes


def test_a_drug_that_the_paper_leaves_out_is_not_said_to_be_missing_from_sider(
    monkeypatch: pytest.MonkeyPatch, sample: Catalogue
) -> None:
    """SIDER has more drugs than the paper takes from it, so an answer names the selection."""
    located = datasets.locate_all(list(catalogue.FILES), "sample")
    as_real = {name: replace(file, sample=False) for name, file in located.items()}
    further = [SimpleNamespace(name=name, path=Path(name)) for name in beyond.FURTHER.values()]
    monkeypatch.setattr(catalogue, "locate_all", lambda names, data: as_real)
    monkeypatch.setattr(catalogue, "load_facts", lambda *_: (sample.facts, further))
    monkeypatch.setattr(catalogue, "read_frequencies", lambda *_: {})
    sider = read_sider("real")
    reader = Reader(sider.facts.vocabulary, subject=sider.subject)
    answer = SideEffects(sider, cast(Graph, None), reader).ask("Does zorblax cause nausea?")
    first_line = answer.text.splitlines()[0]
    assert first_line == "The paper's selection from SIDER 4.1 has no drug called 'zorblax'."


def answer_rows(catalogue: Catalogue, form: str, rows: list[object], **parameters: object) -> str:
    chosen: list[Any] = rows
    return results.make_result(catalogue, ASK_FORMS[form], parameters, chosen).text


def test_a_table_whose_frequencies_were_not_read_says_so_and_how_they_are(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("drug,effect,H\u00e4ufigkeit,class\na,rash,10 %,x\na,itch,,x\n")
    pair: dict[str, Any] = {"drug": "a", "side_effect": "rash"}
    unread = own_table.read_catalogue(path)
    text = answer_rows(unread, "forward", [1], **pair)
    assert "No column of the table was read as frequency. Not read: 'H\u00e4ufigkeit'." in text
    assert "--frequency-column" in text
    assert "--frequency-column" in answer_rows(unread, "frequency_top", [], drug="a", n=5)
    asked_back = SideEffects(unread, cast(Graph, None), Reader(unread.facts.vocabulary)).ask("?")
    assert any(
        "not read: 'H\u00e4ufigkeit'." in note and "--organ-column" in note
        for note in asked_back.notes
    )
    read = own_table.read_catalogue(path, own_table.Layout(frequency="H\u00e4ufigkeit"))
    assert "Frequency: 10 % of patients" in answer_rows(read, "forward", [1], **pair)
    pair["side_effect"] = "itch"
    assert answer_rows(read, "forward", [1], **pair).endswith("No frequency is stated.")
    path.write_text("drug,effect\na,itch\n")
    text = answer_rows(own_table.read_catalogue(path), "forward", [1], **pair)
    assert text.endswith("The table has no column of frequencies.")


def test_a_list_of_names_is_a_sentence_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text('drug,effect\na,cough\na,"hallucination, visual"\nb,cough\nc,cough\n')
    catalogue = own_table.read_catalogue(path)
    effects: list[object] = [{"answer": "hallucination, visual"}, {"answer": "cough"}]
    drugs: list[object] = [{"drugs": ["a", "b", "c"]}]
    assert (
        answer_rows(catalogue, "effects", effects, drug="a")
        == "2 side effects are listed for a: cough; hallucination, visual."
    )
    assert (
        answer_rows(catalogue, "effects", effects[1:], drug="b")
        == "1 side effect is listed for b: cough."
    )
    assert answer_rows(catalogue, "effects", [], drug="b") == "No side effect is listed for b."
    assert (
        answer_rows(catalogue, "reverse", drugs, side_effect="cough")
        == "3 drugs are listed with cough: a, b and c."
    )
    assert (
        answer_rows(catalogue, "why_classmates", [{"answer": "b"}], drug="a", effect="cough")
        == "1 other drug of the classes of a is listed with cough: b."
    )


def test_a_single_frequency_is_counted_so(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("drug,effect,frequency\na,cough,10 %\na,rash,\n")
    catalogue = own_table.read_catalogue(path)
    parameters = {"drug": "a", "n": 5}
    result = results.make_result(
        catalogue, ASK_FORMS["frequency_top"], parameters, [{"answer": "cough"}]
    )
    assert result.notes[0] == "Of 2 listed effects of a, 1 has a stated frequency."
    assert result.text.startswith("1 side effect of a has the highest stated frequency: cough (")


def test_every_form_that_lists_names_has_its_statement() -> None:
    assert {*results.STATEMENTS, "forward", "both"} == set(ASK_FORMS)


# -- with the graph ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Graph]:
    with (
        graph_server(tmp_path_factory.mktemp("graph")) as endpoint,
        graph.connect(endpoint) as connection,
    ):
        yield connection


@pytest.fixture(scope="module")
def side_effects(db: Graph, sample: Catalogue, reader: Reader) -> SideEffects:
    system.load_catalogue(db, sample)
    return SideEffects(sample, db, reader)


def names_of(answer: SystemAnswer) -> set[str]:
    return set(answer.details["names"])


def items_of(answer: Answer) -> set[str]:
    return {item.id for item in answer.items or [] if item.predicted}


@pytest.mark.engine
def test_the_system_answers_as_the_arm_of_each_notebook(
    side_effects: SideEffects, db: Graph, sample: Catalogue
) -> None:
    effects = sample.facts.effects
    pairs = own_table.questions(effects, 3, seed=1)
    looked_up = LookedUp(db, sample.facts.vocabulary)
    for pair in pairs:
        answer = side_effects.ask(pair.text)
        entities = corpus.Entities(pair.drug, pair.side_effect)
        assert answer.details["label"] == forward.edge_exists(db, entities) == pair.label
        assert answer.statement == forward.EDGE_QUERY.strip()
    truth = reverse.invert(effects)
    expand = reverse_arms.GraphOnly(db)
    for query in reverse.make_queries(sorted(truth)[:40], truth):
        answer = side_effects.ask(f"Which drugs cause {query.effect}?")
        (arm,) = expand([query])
        assert names_of(answer) == items_of(arm) == set(query.drugs)
    written = questions.WrittenCypher(db)
    form_questions = questions.make_questions(sample.facts, 9, 3)
    for question, arm in zip(form_questions, written(form_questions), strict=True):
        answer = side_effects.ask(question.text)
        assert names_of(answer) == items_of(arm) == question.answer, question.text
    first, second = pairs[0], pairs[-1]
    text = f"Do both {first.drug} and {second.drug} cause {first.side_effect}?"
    both = KindQuestion("both", text, False, (first.drug, second.drug), first.side_effect)
    (arm,) = looked_up([both])
    assert side_effects.ask(text).details["label"] == (arm.predicted == "YES")


@pytest.mark.engine
def test_an_answer_shows_evidence_statement_sources_and_how_it_was_read(
    side_effects: SideEffects,
) -> None:
    answer = side_effects.ask("Is nausea a side effect of metfromin?")
    assert answer.text.startswith("YES. Nausea is listed as a side effect of metformin.")
    assert answer.evidence[0].source.endswith("row 4")
    assert answer.parameters == {"drug": "metformin", "side_effect": "nausea"}
    assert "metformin" not in answer.statement
    notes = "\n".join(answer.notes)
    for part in ("'metfromin' was read as 'metformin'", "SAMPLE", "no language model", "listing"):
        assert part in notes
    assert not side_effects.ask("Which drugs cause flying?").answered


@pytest.mark.engine
@pytest.mark.parametrize(
    "question",
    [
        "Which drugs cause nausea'}) DETACH DELETE d //?",
        "Is nausea an adverse effect of metformin' OR 1=1?",
    ],
)
def test_nothing_of_a_question_is_run(side_effects: SideEffects, question: str) -> None:
    before = side_effects.graph.read("MATCH (n) RETURN count(n) AS nodes")
    assert not side_effects.ask(question).answered
    assert side_effects.graph.read("MATCH (n) RETURN count(n) AS nodes") == before


@pytest.mark.engine
def test_an_own_table_leaves_the_graph_of_the_notebooks_as_it_is(
    side_effects: SideEffects, tmp_path: Path
) -> None:
    db = side_effects.graph
    before = db.count("(n:Drug)")
    with system.open_system(own_file(tmp_path)) as own:
        answer = own.ask("Which drugs cause dizziness?")
        assert names_of(answer) == {"newdrug", "otherdrug"}
        assert answer.evidence[0].source == "my table.csv, rows 2, 3"
        assert ":Own_Drug)" in answer.statement
        assert names_of(own.ask("Which side effects do all test drugs share?")) == {"dizziness"}
        with (
            pytest.raises(own_table.TableError, match="Another command"),
            system.open_system(own_file(tmp_path)),
        ):
            pass
        graph_files.export_graph(db, tmp_path / "export")
    exported = "".join(path.read_text() for path in (tmp_path / "export").iterdir())
    assert "newdrug" not in exported
    assert "my table" not in exported
    assert db.count("(n:Drug)") == before
    assert side_effects.ask(EXAMPLES[0]).details["label"] is True
    assert beyond.extend_graph(db, side_effects.catalogue.facts) is False
