"""DrugRAG on own text: read once, shown, asked by the arm that notebook 06 measures, cited by file and page."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_drug_interactions_qa import Scripted
from test_graph import graph_server

from evaluation.answers import PlainUnit
from helpers import graph
from helpers.documents import Document, Place
from helpers.graph import Graph
from papers.drug_interactions import answering, cypher, graph as kg, own_text, qa, system
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Entity, Fact, Relation, Sentence
from papers.drug_interactions.cypher import Turn
from papers.drug_interactions.graph import KnowledgeGraph
from papers.drug_interactions.own_text import Located, OwnFolder, OwnGraph
from papers.drug_interactions.questions import FORMS
from rag.names import Vocabulary
from resources.services import GraphEndpoint

REPOSITORY = Path(__file__).resolve().parents[1]
LEAFLET = """# Warfarin

Aspirin increases the effect of warfarin.

Warfarin can cause bleeding.
"""


@pytest.fixture(autouse=True)
def own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """What is read of own text is kept in a folder of the test's own."""
    monkeypatch.setattr(own_text, "OWN", tmp_path / "own")
    return tmp_path / "own"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "leaflets"
    path.mkdir()
    (path / "a.md").write_text(LEAFLET)
    (path / "b.txt").write_text("Warfarin can cause bleeding. Metformin is not mentioned again.")
    (path / "c.xyz").write_text("not read")
    return path


# ---------------------------------------------------------------------------------------------------------- ingestion


def test_sentences_know_their_page_and_a_run_without_a_stop_is_cut() -> None:
    table = " ".join(["word"] * 250)
    text = f"Alpha interacts\nwith beta. It is rare.\n\n{table}"
    document = Document("x.pdf", text, (Place(0, "page 1"), Place(text.index("word"), "page 2")))
    located = own_text.split_sentences(document)
    assert located[0].source == own_text.Source("Alpha interacts with beta.", "x.pdf", "page 1")
    assert located[0].source.citation == "x.pdf, page 1"
    assert [len(item.sentence.text.split()) for item in located[2:]] == [100, 100, 50]
    assert {item.place for item in located[2:]} == {"page 2"}


def test_own_text_becomes_a_graph_that_cites_file_and_section(folder: Path) -> None:
    own = own_text.ingest(OwnFolder.read(folder), data="sample")
    assert own.content.nodes["warfarin"] == "Drug"
    assert own.n_documents == 2
    assert "c.xyz" in own.summary()
    assert "misses relations" in own.summary()
    for fact, ids in own.content.edges.items():
        for name in ids:
            source = own.sources[name]
            assert fact.start in source.text.lower()
            assert source.file in ("a.md", "b.txt")
    page = (own_text.home_of(folder) / "graph.html").read_text()
    assert "warfarin" in page


def test_a_killed_ingestion_goes_on_and_reads_nothing_twice(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    train = own_text._train

    def train_and_count(*arguments: Any) -> Any:
        reader = train(*arguments)

        def read_once(sentences: list[Sentence]) -> list[Sentence]:
            if len(events) == 1:
                events.append("killed")
                raise KeyboardInterrupt
            events.append(sentences[0].document)
            return reader(sentences)

        return read_once

    monkeypatch.setattr(own_text, "_train", train_and_count)
    with pytest.raises(KeyboardInterrupt):
        own_text.ingest(OwnFolder.read(folder), data="sample")
    again = OwnFolder.read(folder)
    assert [document.name for document in again.pending] == ["b.txt"]
    assert "1 of 2 documents" in again.estimate()
    own_text.ingest(again, data="sample")
    own_text.ingest(OwnFolder.read(folder), data="sample")
    assert events == ["a.md", "killed", "b.txt"]
    assert "were read before" in OwnFolder.read(folder).estimate()


def test_a_changed_document_is_read_again_and_its_old_text_is_dropped(folder: Path) -> None:
    own_text.ingest(OwnFolder.read(folder), data="sample")
    (folder / "b.txt").write_text("Something else.")
    changed = OwnFolder.read(folder)
    assert [document.name for document in changed.pending] == ["b.txt"]
    own = own_text.ingest(changed, data="sample")
    assert not any("Metformin" in source.text for source in own.sources.values())
    texts = [path.read_text() for path in (changed.home / "documents").iterdir()]
    assert not any("Metformin" in text for text in texts)


def test_a_group_that_interacts_is_asked_for_as_a_drug() -> None:
    fact = Fact(INTERACTS, "nsaids", "warfarin")
    nodes = {"nsaids": "Compound", "warfarin": "Drug", "water": "Compound"}
    content = own_text.with_groups_as_drugs(KnowledgeGraph(nodes, {fact: ("s",)}))  # type: ignore[arg-type]
    assert content.nodes == {"nsaids": "Drug", "warfarin": "Drug", "water": "Compound"}


def located(text: str, *entities: Entity, **more: Any) -> Located:
    return Located(Sentence(text, "f.txt", "Textbook", "test", text, entities, **more), "page 1")


def test_what_a_document_holds_cannot_script_the_page_or_steer_the_terminal(tmp_path: Path) -> None:
    text = "<script>x</script> \x1b[2Jalpha hurts beta"
    drug, other = Entity(0, 18, "Drug"), Entity(23, 28, "Drug")
    relation = (Relation(0, 1, "int"),)
    own = OwnGraph.of_sentences([located(text, drug, other, relations=relation)], {})
    assert "<script>" not in own.page(tmp_path)
    assert "<script>" not in own._repr_html_()
    assert own.page(tmp_path).count("&lt;script&gt;") >= 2
    assert "\x1b" not in own.summary()


def test_side_effects_that_stand_without_a_drug_are_counted() -> None:
    own = OwnGraph.of_sentences([located("Rash is common.", Entity(0, 4, "SideEffect"))], {})
    assert "in sentences without a drug: 1" in own.summary()


def test_each_folder_has_names_of_its_own_in_the_database(tmp_path: Path) -> None:
    first, second = own_text.store_of(tmp_path / "a"), own_text.store_of(tmp_path / "b")
    books = [kg.INGESTED, kg.QUESTIONS, kg.READ]
    for store in (second, *books):
        assert not {*first.labels.values()} & {*store.labels.values()}
        assert not {*first.types.values()} & {*store.types.values()}
        assert first.data_set != store.data_set


# -------------------------------------------------------------------------------------------------------------- names

VOCABULARY = Vocabulary.by_role(
    drug=["warfarin", "prednisolone", "metformin", "metforvin"], effect=["hypotension"]
)


@pytest.mark.parametrize(
    ("written", "name"),
    [("Coumadin", "warfarin"), ("warfarine", "warfarin"), ("warfarin", "warfarin")],
)
def test_a_brand_or_a_misspelt_name_is_read_as_the_graphs_and_shown(
    written: str, name: str
) -> None:
    match = VOCABULARY.resolve(written, "drug")
    assert match.name == name
    assert bool(match.correction) == (written != name)
    assert match.query_back == ""


@pytest.mark.parametrize(
    ("written", "role", "asks"),
    [
        ("metforxin", "drug", "'metformin' or 'metforvin'"),
        ("prednisone", "drug", "'prednisolone'"),
        ("hypertension", "effect", ""),
        ("abacavir", "drug", ""),
    ],
)
def test_where_names_are_near_it_asks_back_but_never_for_an_opposite(
    written: str, role: str, asks: str
) -> None:
    match = VOCABULARY.resolve(written, role)
    assert match.name is None
    assert match.correction == ""
    assert asks in match.query_back
    assert bool(match.query_back) == bool(asks)


def test_brands_misspelt_names_and_unknown_drugs_are_found_in_a_text() -> None:
    text = "Is Coumadin, warfarin or metformine safe with ibuprofen and metforxin, by the way?"
    names = {match.written: match for match in VOCABULARY.meant_names(text)}
    assert {written: match.name for written, match in names.items()} == {
        "coumadin": "warfarin",
        "metformine": "metformin",
        "ibuprofen": None,
        "metforxin": None,
    }
    assert "'metformin' or 'metforvin'" in names["metforxin"].query_back
    assert names["ibuprofen"].query_back == ""


def test_words_of_questions_are_no_names() -> None:
    for form in FORMS:
        for wording in form.wordings:
            plain = wording.replace("{", "").replace("}", "").replace("effect", "")
            assert VOCABULARY.meant_names(plain) == [], wording


# ------------------------------------------------------------------------------------------------------------ answers

CONTENT = KnowledgeGraph(
    {
        "warfarin": "Drug",
        "aspirin": "Drug",
        "rifampicin": "Drug",
        "bleeding": "SideEffect",
    },
    {
        Fact(INTERACTS, "aspirin", "warfarin"): ("s0", "s1"),
        Fact(INTERACTS, "rifampicin", "warfarin"): ("s2",),
        Fact(CAUSES, "aspirin", "bleeding"): ("s3",),
    },
)
SOURCES = {
    "s0": own_text.Source("Aspirin increases the effect of warfarin.", "a.pdf", "page 3"),
    "s1": own_text.Source("Warfarin interacts with aspirin.", "b.txt"),
    "s2": own_text.Source("Rifampicin lowers warfarin.", "a.pdf", "page 4"),
    "s3": own_text.Source("Aspirin can cause bleeding.", "a.pdf", "page 5"),
}
STORE = own_text.store_of(Path("/leaflets"))


def test_the_facts_behind_an_answer_are_its_edges_or_chains() -> None:
    def facts(names: list[str], names_of_rows: list[str]) -> list[str]:
        return [cypher.sentence(fact) for fact in own_text.support(CONTENT, names, names_of_rows)]

    to_warfarin = "aspirin interacts with warfarin."
    bleeding = "aspirin causes side-effect bleeding."
    assert facts(["Aspirin"], ["warfarin"]) == [to_warfarin]
    assert facts(["warfarin", "aspirin"], ["bleeding"]) == [to_warfarin, bleeding]
    assert facts(["warfarin"], ["bleeding"]) == [to_warfarin, bleeding]  # over aspirin
    assert facts(["warfarin", "aspirin"], ["aspirin"]) == [to_warfarin]
    assert facts(["rifampicin"], ["bleeding"]) == []


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphEndpoint]:
    with graph_server(tmp_path_factory.mktemp("graph")) as server:
        yield server


@pytest.fixture(scope="module")
def leaflet_graph(endpoint: GraphEndpoint) -> Iterator[Graph]:
    with graph.connect(endpoint) as database:
        kg.load_graph(database, CONTENT, STORE)
        yield database


def interactions(model: Scripted, database: Graph) -> system.Interactions:
    model.endpoint = type("Endpoint", (), {"model": "m"})()
    return system.Interactions(CONTENT, SOURCES, STORE, database, system.Models(model, model))


def partners_of(name: str) -> str:
    drug, interacts = STORE.labels["Drug"], STORE.types[INTERACTS]
    return f"MATCH (:{drug} {{name: '{name}'}})-[:{interacts}]-(d:{drug}) RETURN d.name AS answer"


@pytest.mark.engine
def test_the_system_is_the_arm_of_notebook_06(leaflet_graph: Graph) -> None:
    """The same prompts and the same answers, question by question and all at once."""
    questions = ["Which drugs interact with warfarin?", "Which drugs interact with aspirin?"]
    statements = [partners_of("warfarin"), partners_of("aspirin")]
    answers = ["Aspirin and rifampicin.", "Warfarin."]
    all_at_once = Scripted(statements, answers)
    all_at_once.endpoint = type("Endpoint", (), {"model": "m"})()
    retrieve = cypher.TextToCypher(all_at_once, leaflet_graph, CONTENT, store=STORE)
    evidence = answering.graph_evidence(retrieve(questions))
    arm = qa.EvidenceArm(
        "drugrag", all_at_once, evidence, cypher.names_of(CONTENT), max_tokens=64, temperature=0.2
    )
    rows = arm([PlainUnit(text, text, text, "", {}) for text in questions])
    one_by_one = Scripted(*[[statements[0]], [answers[0]], [statements[1]], [answers[1]]])
    opened = interactions(one_by_one, leaflet_graph)
    system_answers = [opened.ask(text) for text in questions]
    assert [answer.text for answer in system_answers] == [row.answer for row in rows]
    in_system = [prompts[0] for prompts in one_by_one.prompts]
    assert in_system == [prompts[n] for n in (0, 1) for prompts in all_at_once.prompts]


@pytest.mark.engine
def test_an_answer_shows_its_rows_statement_and_the_pages_that_state_each_fact(
    leaflet_graph: Graph,
) -> None:
    model = Scripted([partners_of("warfarin")], ["Aspirin and metformin."])
    answer = interactions(model, leaflet_graph).ask("Which drugs interact with warfarin?")
    assert answer.answered
    assert answer.statement == partners_of("warfarin")
    assert answer.details["rows"] == ["aspirin", "rifampicin"]
    assert [item.text for item in answer.evidence] == [
        "[1] aspirin interacts with warfarin.",
        "[2] rifampicin interacts with warfarin.",
    ]
    assert answer.evidence[0].source == "a.pdf, page 3; b.txt"
    assert len(answer.citations) == 3
    assert "[2] a.pdf, page 4" in answer.citations[2]
    assert "Rifampicin lowers warfarin." in answer.citations[2]


@pytest.mark.parametrize(
    ("n_names", "n_facts", "missing"),
    [
        (cypher.MAX_FACTS - 1, 1, ""),
        (cypher.MAX_FACTS, 1, ""),
        (cypher.MAX_FACTS + 50, 1, "the other 50."),
        (0, cypher.MAX_FACTS - 1, ""),
        (0, cypher.MAX_FACTS, "may lack others."),
    ],
)
def test_an_answer_from_a_part_of_the_names_says_so_beside_it(
    monkeypatch: pytest.MonkeyPatch, n_names: int, n_facts: int, missing: str
) -> None:
    """The sentence is the model's own, so that the remark stands below it."""
    names = frozenset(f"drug {number}" for number in range(n_names))
    facts = tuple(list(map(cypher.sentence, CONTENT.edges))[:1] * n_facts)
    attempt = cypher.Attempt(partners_of("warfarin"), names)
    retrieved = cypher.Retrieved((("graph", attempt),), facts)  # type: ignore[arg-type]
    monkeypatch.setattr(system.Interactions, "retrieve", lambda *_: retrieved)
    asked: Any = None
    answer = interactions(Scripted(["The drugs are: aspirin."]), asked).ask("Which drugs?")
    assert answer.text == "The drugs are: aspirin."
    assert len(answer.warnings) == bool(missing)
    assert not missing or answer.warnings[0].endswith(missing)
    assert not any("of the" in note for note in answer.notes)
    assert not missing or "aspirin.\n\nWarnings:\n  The model read only" in str(answer)


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        (
            "Does aspirin interact with warfarin?",
            [
                "The graph has aspirin.",
                "The graph has warfarin.",
                "The graph has an interaction between aspirin and warfarin.",
            ],
        ),
        (
            "Does aspirin interact with rifampicin?",
            [
                "The graph has aspirin.",
                "The graph has rifampicin.",
                "The graph has no interaction between aspirin and rifampicin.",
            ],
        ),
        ("What does it cause?", ["The question names no drug of the graph."]),
    ],
)
def test_not_known_comes_with_what_the_graph_has_on_the_drugs(
    monkeypatch: pytest.MonkeyPatch, question: str, expected: list[str]
) -> None:
    facts = tuple(list(map(cypher.sentence, CONTENT.edges))[:1])
    attempt = cypher.Attempt(partners_of("warfarin"), frozenset())
    retrieved = cypher.Retrieved((("graph", attempt),), facts)  # type: ignore[arg-type]
    monkeypatch.setattr(system.Interactions, "retrieve", lambda *_: retrieved)
    no_graph: Any = None
    answer = interactions(Scripted(["Not known."]), no_graph).ask(question)
    assert list(answer.notes[1:]) == expected


@pytest.mark.engine
def test_a_brand_is_answered_by_its_drug_and_said_so(leaflet_graph: Graph) -> None:
    """The paper's failure: "a brand name vs generic name mismatch"; its fallback resolves it."""
    model = Scripted([partners_of("coumadin")], [partners_of("coumadin")], ["Aspirin."])
    answer = interactions(model, leaflet_graph).ask("Which drugs interact with Coumadin?")
    assert answer.answered
    assert answer.details["rows"] == ["aspirin", "rifampicin"]
    assert any("'coumadin' was read as 'warfarin'" in note for note in answer.notes)
    without_statement = Scripted(["I cannot."], ["I cannot."], ["Aspirin."])
    answer = interactions(without_statement, leaflet_graph).ask(
        "Which drugs interact with Coumadin?"
    )
    assert "aspirin interacts with warfarin" in without_statement.prompts[-1][0][-1]["content"]
    assert any("searched for the names" in note for note in answer.notes)
    assert answer.citations


@pytest.mark.engine
def test_it_asks_back_and_asks_no_model_where_a_name_is_doubtful_or_nothing_is_known(
    leaflet_graph: Graph,
) -> None:
    doubtful = Scripted([partners_of("wafarinn")], [partners_of("wafarinn")])
    doubtful_answer = interactions(doubtful, leaflet_graph).ask("What interacts with wafarinn?")
    assert not doubtful_answer.answered
    assert "Is it 'warfarin'?" in doubtful_answer.text
    unknown = Scripted([partners_of("abacavir")], [partners_of("abacavir")])
    answer = interactions(unknown, leaflet_graph).ask("What interacts with abacavir?")
    assert not answer.answered
    assert answer.text == system.NOTHING
    assert "The graph has no 'abacavir'." in answer.notes
    assert not interactions(Scripted(), leaflet_graph).ask(" ").answered


@pytest.mark.engine
def test_a_follow_up_is_asked_with_the_questions_statements_and_answers_before(
    leaflet_graph: Graph,
) -> None:
    effects = (
        f"MATCH (:{STORE.labels['Drug']} {{name: 'aspirin'}})-[:{STORE.types[CAUSES]}]->(e) "
        "RETURN e.name AS answer"
    )
    model = Scripted([partners_of("warfarin")], ["Aspirin."], [effects], ["Bleeding."])
    chat = system.Conversation(interactions(model, leaflet_graph))
    chat.ask("Which drugs interact with warfarin?")
    answer = chat.ask("And what can aspirin cause?")
    writing, answering_prompt = model.prompts[2][0], model.prompts[3][0]
    assert [message["content"] for message in writing[-3:]] == [
        "Which drugs interact with warfarin?",
        partners_of("warfarin"),
        "And what can aspirin cause?",
    ]
    assert [message["content"] for message in answering_prompt[1:3]] == [
        "Question: Which drugs interact with warfarin?",
        "Aspirin.",
    ]
    assert answer.citations == ("[1] a.pdf, page 5: \u201cAspirin can cause bleeding.\u201d",)
    assert [turn.answer for turn in chat.turns] == ["Aspirin.", "Bleeding."]


@pytest.mark.engine
def test_a_follow_up_without_a_name_searches_for_those_of_the_question_before(
    leaflet_graph: Graph,
) -> None:
    model = Scripted(["I cannot."], ["I cannot."], ["Aspirin."])
    turn = Turn("Which drugs interact with rifampicin?", "", "Warfarin.")
    interactions(model, leaflet_graph).ask("And why?", [turn])
    assert "rifampicin interacts with warfarin" in model.prompts[-1][0][-1]["content"]


@pytest.mark.engine
def test_a_statement_that_found_nothing_is_no_example_for_the_next_one(
    leaflet_graph: Graph,
) -> None:
    """A small model copies what it wrote before, and would never leave it."""
    model = Scripted(
        [partners_of("drug x")], [partners_of("drug x")], ["Yes."], [partners_of("aspirin")], ["W."]
    )
    chat = system.Conversation(interactions(model, leaflet_graph))
    answer = chat.ask("Does warfarin interact with rifampicin?")
    assert answer.answered
    assert not any("drug x" in note for note in answer.notes)
    assert answer.evidence[0].text == "[1] rifampicin interacts with warfarin."
    chat.ask("Which drugs interact with aspirin?")
    contents = [message["content"] for message in model.prompts[3][0]]
    assert partners_of("drug x") not in contents


@pytest.mark.engine
def test_an_unknown_drug_is_not_answered_from_the_question_before(leaflet_graph: Graph) -> None:
    model = Scripted(["I cannot."], ["I cannot."])
    turn = Turn("Which drugs interact with rifampicin?", "", "Warfarin.")
    answer = interactions(model, leaflet_graph).ask("And with ibuprofen?", [turn])
    assert not answer.answered
    assert answer.notes == ("The graph has no 'ibuprofen'.",)


@pytest.mark.engine
def test_a_misspelt_name_is_found_where_no_statement_is_right(leaflet_graph: Graph) -> None:
    model = Scripted(["I cannot."], ["I cannot."], ["Warfarin."])
    answer = interactions(model, leaflet_graph).ask("Which drugs interact with rifampizin?")
    assert answer.answered
    assert "'rifampizin' was read as 'rifampicin' (spelling)." in answer.notes


@pytest.mark.engine
def test_own_text_is_in_no_schema_and_no_export(leaflet_graph: Graph) -> None:
    assert not [name for name in leaflet_graph.kinds("labels") if name.startswith("Own")]
    assert not [name for name in leaflet_graph.kinds("relationshipTypes") if name.startswith("Own")]
    assert "Own" not in leaflet_graph.schema()


def test_notes_tell_of_names_that_neither_question_nor_facts_hold() -> None:
    attempt = cypher.Attempt(partners_of("aspirin"), frozenset({"warfarin"}))
    result = cypher.Retrieved((("first_try", attempt),), ("warfarin",))

    class Found(system.Interactions):
        def retrieve(self, *_: Any) -> cypher.Retrieved:
            return result

    model = Scripted(["Warfarin and bleeding."])
    model.endpoint = type("Endpoint", (), {"model": "m"})()
    models = system.Models(model, model)
    opened = Found(CONTENT, SOURCES, STORE, None, models)  # type: ignore[arg-type]
    answer = opened.ask("What does it interact with?")
    notes = " ".join(answer.notes)
    assert "names 'aspirin', which the question does not" in notes
    assert "do not hold: bleeding" in notes


def test_of_text_without_any_relation_no_model_is_asked() -> None:
    nothing = KnowledgeGraph({"warfarin": "Drug"}, {})
    model = Scripted()
    models = system.Models(model, model)
    opened = system.Interactions(nothing, {}, STORE, None, models)  # type: ignore[arg-type]
    answer = opened.ask("Which drugs interact with warfarin?")
    assert not answer.answered
    assert answer.text == system.EMPTY
    assert model.prompts == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--text", "no-such-folder", "What?"], "There is no folder no-such-folder."),
        (["--forget"], "--forget needs --text FOLDER"),
    ],
)
def test_a_mistake_on_the_command_line_is_answered_by_what_to_do(
    arguments: list[str], message: str
) -> None:
    command = [sys.executable, "-m", "medrerun", "ask", "interactions", *arguments]
    done = subprocess.run(
        command,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY / "src")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert message in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.engine
def test_a_forgotten_folder_leaves_nothing_and_others_stay(
    leaflet_graph: Graph, folder: Path
) -> None:
    own_text.ingest(OwnFolder.read(folder), data="sample")
    store = own_text.store_of(folder)
    kg.load_graph(leaflet_graph, CONTENT, store)
    assert leaflet_graph.count(f"(n:{store.labels['Drug']})") == 3
    system.forget(folder, leaflet_graph)
    assert not own_text.home_of(folder).exists()
    assert leaflet_graph.count(f"(n:{store.labels['Drug']})") == 0
    assert leaflet_graph.count(f"(n:{STORE.labels['Drug']})") == 3
    assert (folder / "a.md").exists()
