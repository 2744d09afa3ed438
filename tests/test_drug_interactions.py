"""Drug interactions: corpora read, text cut, relations found, sets scored, the graph loaded once."""

from __future__ import annotations

import itertools
import runpy
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from test_graph import graph_server

from helpers import datasets, graph
from helpers.graph import Graph
from helpers.results import published, record
from helpers.services import GraphEndpoint
from helpers.settings import SAMPLE
from helpers.site.chapter import contradictions_table
from papers.drug_interactions import corpora as di
from papers.drug_interactions import extraction, report
from papers.drug_interactions import graph as kg
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Entity, Fact, Relation, Sentence

NAMES = ("DDICorpus-2013.zip", "DRUG-AE.rel", "DRUG-DOSE.rel", "ADE-NEG.txt", "medquad_answers.zip")


@pytest.fixture(scope="module")
def sample() -> list[Sentence]:
    located = datasets.locate_all([di.DDI, *di.ADE], "sample")
    return di.read_ddi(located[di.DDI].path) + di.read_ade(*(located[name].path for name in di.ADE))


def sentence(text: str, *mentions: tuple[str, di.Label], corpus: di.Corpus = "DrugBank") -> Sentence:
    """A sentence with mentions marked at their first occurrence."""
    entities = [Entity(text.index(name), text.index(name) + len(name), label) for name, label in mentions]
    return Sentence("s", "d", corpus, "test", text, tuple(sorted(entities, key=lambda e: e.start)))


# ----------------------------------------------------------------------------------------------------------- corpora


def test_the_script_reproduces_the_committed_sample(tmp_path: Path) -> None:
    runpy.run_path(str(SAMPLE / "make_sample.py"))["write_interactions"](tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(NAMES)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (SAMPLE / "drug_interactions" / path.name).read_bytes(), path.name


def test_marks_lie_on_the_words_they_mark(sample: list[Sentence]) -> None:
    assert {(s.corpus, s.split) for s in sample} == {
        *((corpus, split) for corpus in ("DrugBank", "MedLine") for split in ("train", "test", "entities")),
        ("ADE", "train"),
        ("ADE", "test"),
    }
    known = {"aspirin", "warfarin", "thiazide diuretics", "zelphor", "nausea", "acute renal failure"}
    assert known <= {s.name(e) for s in sample for e in s.entities}
    for s in sample:
        assert list(s.entities) == sorted(s.entities, key=lambda e: (e.start, e.end))
        for r in s.relations:
            ends = s.entities[r.first].label, s.entities[r.second].label
            assert (ends[1] == "SideEffect") == (r.kind == di.ADVERSE)
            assert ends[0] != "SideEffect"


def test_an_article_is_in_one_split_only(sample: list[Sentence]) -> None:
    splits: dict[str, set[str]] = {}
    for s in sample:
        splits.setdefault(s.document, set()).add(s.split)
    assert all(len(of) == 1 for of in splits.values())


def test_the_ade_files_make_one_sentence_of_its_pairs_doses_and_negatives(tmp_path: Path) -> None:
    text = "Rash and fever after aspirin, no rash after heparin and fever."
    (tmp_path / "ae").write_text(
        f"12|{text}|Rash|100|104|aspirin|121|128\n12|{text}|fever|109|114|aspirin|121|128\n"
        f"12|{text}|fever|156|161|aspirin|121|128\n"
    )
    (tmp_path / "dose").write_text(f"12|{text}|no|130|132|heparin|144|151\n")
    (tmp_path / "neg").write_text("12 NEG Nothing | was seen.\n")
    first, second = di.read_ade(tmp_path / "ae", tmp_path / "dose", tmp_path / "neg")
    assert [first.text[e.start : e.end] for e in first.entities] == ["Rash", "fever", "aspirin", "heparin", "fever"]
    assert first.relations == (Relation(2, 0, "adverse"), Relation(2, 1, "adverse"), Relation(2, 4, "adverse"))
    assert (second.text, second.entities) == ("Nothing | was seen.", ())
    assert di.facts(first) == {Fact(CAUSES, "aspirin", "rash"), Fact(CAUSES, "aspirin", "fever")}


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("12|too|few", "unpack"),
        ("12|no such words|Rash|1|2|aspirin|3|4", "do not both stand"),
        ("12|a|b|x|2|c|y|4", "int"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, what: str) -> None:
    (tmp_path / "ae").write_text(f"{line}\n")
    (tmp_path / "none").write_text("")
    with pytest.raises(di.CorpusError, match=f"ae, line 1.*{what}"):
        di.read_ade(tmp_path / "ae", tmp_path / "none", tmp_path / "none")


def test_another_archive_is_refused(tmp_path: Path) -> None:
    (tmp_path / "no.zip").write_bytes(b"no archive")
    with pytest.raises(di.CorpusError, match=r"no\.zip"):
        di.read_ddi(tmp_path / "no.zip")
    with zipfile.ZipFile(tmp_path / "odd.zip", "w") as archive:
        archive.writestr("DDICorpus/Train/Elsewhere/x.xml", "<document id='x'/>")
    with pytest.raises(di.CorpusError, match="Elsewhere"):
        di.read_ddi(tmp_path / "odd.zip")


def test_a_mention_in_parts_is_read_from_first_to_last(tmp_path: Path) -> None:
    body = (
        '<document id="x"><sentence id="x.s0" text="alpha and beta blockers">'
        '<entity id="e0" charOffset="0-4;15-22" type="group" text="alpha blockers"/>'
        '<entity id="e1" charOffset="10-22" type="group" text="beta blockers"/>'
        '<pair id="p" e1="e1" e2="e0" ddi="true"/></sentence></document>'
    )
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("DDICorpus/Train/DrugBank/x.xml", body)
    (read,) = di.read_ddi(tmp_path / "a.zip")
    assert [(e.start, e.end, e.label) for e in read.entities] == [(0, 23, "Compound"), (10, 23, "Compound")]
    assert read.relations == (Relation(0, 1, "int"),)


# ------------------------------------------------------------------------------------------------------------ chunks


@given(
    st.lists(st.tuples(st.sampled_from(["DrugBank", "ADE"]), st.text("ab. ", max_size=40)), max_size=30),
    st.integers(1, 25),
)
def test_chunks_keep_every_sentence_in_order_and_their_size(parts: list[tuple[di.Corpus, str]], size: int) -> None:
    sentences = [Sentence(str(i), "d", corpus, "test", text) for i, (corpus, text) in enumerate(parts)]
    chunks = di.chunks(sentences, size)
    assert [s for chunk in chunks for s in chunk.sentences] == sentences
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert chunk.sentences
        assert len({s.corpus for s in chunk.sentences}) == 1
        assert len(chunk.sentences) == 1 or sum(di.tokens(s.text) for s in chunk.sentences) <= size
    for one, following in itertools.pairwise(chunks):
        first = following.sentences[0]
        full = sum(di.tokens(s.text) for s in one.sentences) + di.tokens(first.text) > size
        assert full or first.corpus != one.sentences[0].corpus


def test_a_chunk_needs_room() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        di.chunks([], 0)


# ---------------------------------------------------------------------------------------------------------- entities


def found(text: str, names: dict[str, di.Label], *, rules: bool = True) -> list[tuple[str, str]]:
    entities = extraction.Recogniser(names, rules=rules).find(text)
    return [(text[e.start : e.end], e.label) for e in entities]


def test_the_dictionary_takes_the_longest_name_whatever_its_case_and_hyphens_divide() -> None:
    names: dict[str, di.Label] = {"aspirin": "Drug", "renal failure": "SideEffect", "acute renal failure": "SideEffect"}
    assert found("Aspirin-induced Acute Renal  Failure; aspirins.", names, rules=False) == [
        ("Aspirin", "Drug"),
        ("Acute Renal  Failure", "SideEffect"),
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Give zanubolol daily.", [("zanubolol", "Drug")]),
        ("All beta-blockers help.", [("beta-blockers", "Compound")]),
        ("The inhibitors and other antibiotics.", []),
        (
            "aspirin sodium (Fooprin) and aspirin (see below)",
            [("aspirin sodium", "Drug"), ("Fooprin", "Drug"), ("aspirin", "Drug")],
        ),
        ("Nothing here.", []),
    ],
)
def test_rules_find_what_no_dictionary_names(text: str, expected: list[tuple[str, str]]) -> None:
    assert found(text, {"aspirin": "Drug"}) == expected


@given(st.text(max_size=200))
def test_mentions_lie_in_the_text_in_order_and_apart(text: str) -> None:
    entities = RECOGNISER.find(text)
    assert all(0 <= e.start < e.end <= len(text) for e in entities)
    assert all(a.end <= b.start for a, b in itertools.pairwise(entities))


RECOGNISER = extraction.Recogniser({"a b": "Drug", "a": "Compound", "1": "SideEffect"})


def test_the_dictionary_is_never_made_from_the_test_split(sample: list[Sentence]) -> None:
    with pytest.raises(ValueError, match="training split"):
        extraction.dictionary(sample, [], [])
    training = di.select(sample, "train")
    names = extraction.dictionary(training, ["Onlysider"], ["only this effect"])
    assert names["onlysider"] == "Drug"
    assert names["only this effect"] == "SideEffect"
    assert names["thiazide diuretics"] == "Compound"


def test_a_name_that_is_mostly_no_mention_is_dropped() -> None:
    def of(text: str, *mentions: tuple[str, di.Label]) -> Sentence:
        made = sentence(text, *mentions)
        return Sentence(made.id, made.document, made.corpus, "train", made.text, made.entities)

    training = [
        of("gold helps", ("gold", "Drug")),
        of("the gold standard"),
        of("gold medal"),
        of("iron", ("iron", "Drug")),
    ]
    assert extraction.dictionary(training, ["silver"], []).keys() == {"iron", "silver"}


# --------------------------------------------------------------------------------------------------------- relations

Mention = tuple[str, di.Label]
A: Mention = ("aspirin", "Drug")
B: Mention = ("warfarin", "Drug")
C: Mention = ("heparin", "Drug")
E: Mention = ("skin rash", "SideEffect")


@pytest.mark.parametrize(
    ("text", "mentions", "kinds"),
    [
        ("aspirin may increase plasma levels of warfarin.", (A, B), {(0, 1): "mechanism"}),
        ("aspirin potentiates the effect of warfarin.", (A, B), {(0, 1): "effect"}),
        ("aspirin should not be taken with warfarin.", (A, B), {(0, 1): "advise"}),
        ("aspirin interacts with warfarin.", (A, B), {(0, 1): "int"}),
        ("aspirin did not affect warfarin.", (A, B), {}),
        ("aspirin and warfarin are used.", (A, B), {}),
        ("aspirin increases the effect of warfarin and heparin.", (A, B, C), {(0, 1): "effect", (0, 2): "effect"}),
        ("aspirin was given; warfarin increases bleeding.", (A, B), {}),
    ],
)
def test_patterns_on_interactions(
    text: str, mentions: tuple[tuple[str, di.Label], ...], kinds: dict[tuple[int, int], str]
) -> None:
    (related,) = extraction.by_patterns([sentence(text, *mentions)])
    assert {(r.first, r.second): r.kind for r in related.relations} == kinds


@pytest.mark.parametrize(
    ("text", "related"),
    [
        ("aspirin-induced skin rash was seen.", True),
        ("A skin rash due to aspirin.", True),
        ("aspirin is a remedy. Others had skin rash.", False),
    ],
)
def test_patterns_on_side_effects(text: str, related: bool) -> None:  # a case's outcome
    (read,) = extraction.by_patterns([sentence(text, A, E, corpus="ADE")])
    assert bool(read.relations) is related
    assert not read.relations or di.facts(read) == {Fact(CAUSES, "aspirin", "skin rash")}


def test_a_letter_that_grows_in_lower_case_moves_nothing() -> None:
    (related,) = extraction.by_patterns([sentence("\u0130\u0130\u0130 aspirin interacts with warfarin.", A, B)])
    assert [r.kind for r in related.relations] == ["int"]


def test_all_pairs_relates_any_two_and_in_ade_a_drug_and_an_effect() -> None:
    text = "aspirin, warfarin, heparin: skin rash."
    ddi, ade = (extraction.all_pairs([sentence(text, A, B, C, E, corpus=c)])[0] for c in ("MedLine", "ADE"))
    assert [(r.first, r.second) for r in ddi.relations] == [(0, 1), (0, 2), (1, 2)]
    assert [(r.first, r.second) for r in ade.relations] == [(0, 3), (1, 3), (2, 3)]


def test_the_classifier_learns_wording_and_not_names(sample: list[Sentence]) -> None:
    classifier = extraction.Classifier([s for s in sample if s.corpus != "ADE" and s.split == "train"])
    texts = [
        "blorpine may increase the plasma concentration of frumpol.",
        "blorpine did not change the absorption of frumpol.",
    ]
    unknown = [sentence(text, ("blorpine", "Drug"), ("frumpol", "Drug")) for text in texts]
    assert [[r.kind for r in s.relations] for s in classifier(unknown)] == [["mechanism"], []]
    assert classifier([]) == []


def test_a_classifier_needs_both_sorts_of_pairs() -> None:
    with pytest.raises(ValueError, match="related and unrelated"):
        extraction.Classifier([sentence("aspirin and warfarin", A, B)])


def test_unmarked_mentions_are_added_and_the_relations_still_point_at_theirs() -> None:
    gold = sentence("warfarin or aspirin caused skin rash", A, E, corpus="ADE")
    gold = Sentence(gold.id, gold.document, "ADE", "train", gold.text, gold.entities, (Relation(0, 1, "adverse"),))
    (wide,) = extraction.training_sentences([gold], extraction.Recogniser({"warfarin": "Drug", "rash": "SideEffect"}))
    assert [wide.name(e) for e in wide.entities] == ["warfarin", "aspirin", "skin rash"]
    assert di.facts(wide) == di.facts(gold)


@pytest.mark.parametrize(
    ("answer", "status", "facts", "read"),
    [
        (
            '{"interactions": [{"drug": "Warfarin", "other": "aspirin"}], '
            '"side_effects": [{"drug": "x", "effect": "y"}]}',
            "complete",
            {Fact(INTERACTS, "aspirin", "warfarin"), Fact(CAUSES, "x", "y")},
            "read",
        ),
        ('{"interactions": [], "side_effects": []}', "complete", set(), "read"),
        ('{"interactions": [{"drug": "a", "other": "a"}], "side_effects": []}', "complete", set(), "read"),
        ('{"interactions": [{"drug": "a", "other": "b"}, {"drug": "a", "ot', "cut", {Fact(INTERACTS, "a", "b")}, "cut"),
        ("I cannot", "complete", set(), "unparsed"),
        ('{"interactions": 3}', "complete", set(), "unparsed"),
        ("", "overflow", set(), "overflow"),
    ],
)
def test_a_models_answer_is_read_or_counted(answer: str, status: str, facts: set[Fact], read: str) -> None:
    assert extraction.parse_facts(answer, status) == extraction.Reading(frozenset(facts), read)


# ------------------------------------------------------------------------------------------------------------ scores


@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5))), min_size=1, max_size=8))
@examples(max_examples=50)
def test_scores_are_those_of_the_counted_sets(units: list[tuple[set[int], set[int]]]) -> None:
    gold, answer = zip(*units, strict=True)
    if not any(g | a for g, a in units):
        with pytest.raises(ValueError, match="nothing to score"):
            report.score(gold, answer, ["d"] * len(units), 100)
        return
    hits, wanted, given_ = (sum(len(x) for x in of) for of in ([g & a for g, a in units], gold, answer))
    scores = report.score(gold, answer, [str(i) for i in range(len(units))], 100)
    assert scores["precision"].value == pytest.approx(hits / given_ if given_ else 0)
    assert scores["recall"].value == pytest.approx(hits / wanted if wanted else 0)
    assert scores["f1"].value == pytest.approx(2 * hits / (wanted + given_))
    assert all(s.low <= s.value <= s.high for s in scores.values())


def test_gold_scores_full_marks_at_every_stage(sample: list[Sentence]) -> None:
    test = di.select(sample, "test")
    for scores in (
        report.score_entities(test, test, 100, labels=True),
        report.score_relations(test, test, 100, kinds=True),
        report.score_facts(test, test, 100),
    ):
        assert scores.keys() == set(report.PARTS)
        assert {s.value for of in scores.values() for s in of.values()} == {1.0}
    nothing = report.score_facts(test, report.without_relations(test), 100)
    assert {of["recall"].value for of in nothing.values()} == {0.0}


# ------------------------------------------------------------------------------------------------------------- graph


def test_the_same_fact_is_one_edge_with_its_sources(sample: list[Sentence]) -> None:
    content = kg.knowledge_graph(sample)
    for edge_fact, edge in content.edges.items():
        assert edge.mentions == len(set(edge.sources)) >= 1
        assert edge_fact.type == CAUSES or edge_fact.start < edge_fact.end
    assert any(edge.mentions > 1 for edge in content.edges.values())
    counted = report.counts(content, 2, 5)
    assert counted["nodes"] == counted["drugs"] + counted["compounds"] + counted["side_effects"]
    assert counted["edges"] == counted["interacts_with"] + counted["causes_side_effect"]
    assert kg.knowledge_graph(reversed(sample)).digest == content.digest


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphEndpoint]:
    with graph_server(tmp_path_factory.mktemp("graph")) as running:
        yield running


def stored(db: Graph) -> list[list[graph.Row]]:
    edges = db.read(
        "MATCH (a)-[r]->(b) RETURN labels(a) AS la, a.name AS a, type(r) AS t, r.mentions AS n, r.sources AS s, "
        "labels(b) AS lb, b.name AS b ORDER BY t, a, b"
    )
    return [edges, db.read("MATCH (n) WHERE n.name IS NOT NULL RETURN labels(n) AS l, n.name AS n ORDER BY n, l")]


@pytest.mark.engine
def test_loading_twice_gives_the_same_graph_and_leaves_others_alone(
    endpoint: GraphEndpoint, sample: list[Sentence], monkeypatch: pytest.MonkeyPatch
) -> None:
    content = kg.knowledge_graph(sample)
    with graph.connect(endpoint) as db, db.load_once("side_effects", "1"):
        db.constraint("Drug", "name")
        db.load_nodes("Drug", [{"name": "aspirin"}], "name", progress=False)
    with graph.connect(endpoint) as db:
        assert kg.load_graph(db, content)
        first = stored(db)
        assert len(first[0]) == content.relationships()
        assert not kg.load_graph(db, content)
        assert stored(db) == first
        # the work itself, not only the note that it was done
        db.mark_loaded(kg.INGESTED.data_set, "another")
        assert kg.load_graph(db, content)
        assert stored(db) == first
        assert db.loaded("side_effects", "1")
        assert db.read("MATCH (d:Drug) RETURN d.name AS name") == [{"name": "aspirin"}]
        asked = kg.ask(db, content, [n for n, label in content.nodes.items() if label == "Drug"])
        assert all(a.right for a in asked)
        assert any(a.rows for a in asked if a.hops == 2)
        wrong = kg.knowledge_graph(sample[: len(sample) // 3])
        assert not all(a.right for a in kg.ask(db, wrong, list(wrong.partners)))


# ------------------------------------------------------------------------------------------------------------ report


def test_the_printed_parts_add_up_and_every_contradiction_names_two_places() -> None:
    printed = published.published("drug_interactions")
    table = report.sums_table(printed).set_index("what")
    assert table.computed["Edges of both types"] == table.printed["Edges of both types"] == "6,368"
    assert table.computed["GB of the small model's weights"] == "16"
    shown = contradictions_table(printed)
    assert len(shown) == len(printed.contradictions) >= 10
    assert "89.4%" in " ".join(shown["printed numbers at odds"])


def test_the_gains_are_decided_on_the_printed_table() -> None:
    run = record.start(notebook="05_interactions_graph", paper="drug_interactions", profile="smoke", parameters={})
    report.decide_gain_claims(run)
    verdicts = {c.id.rsplit(".", 1)[1]: c.verdict for c in run.claims}
    assert verdicts == {"gain_over_no_retrieval": "agrees", "gain_over_text": "agrees"}
    why = run._claims["drug_interactions.claim.gain_over_text", "printed"].why
    # the abstract has baselines, in the plural
    assert "17.4 % more than RAG (Text) (66.2%)" in why
    assert "14.8 % more than GraphRAG (67.7%)" in why
    assert "All are tested; nearest is that over GraphRAG" in why
    # 23.5 points of the normalised scale are 29.7 % of a rating between 1 and 5
    assert "29.7 %" in run._claims["drug_interactions.claim.gain_over_no_retrieval", "printed"].why


@pytest.mark.parametrize(("seconds", "verdict"), [(0.002, "agrees"), (0.5, "differs"), (None, "undecided")])
def test_the_graphs_speed_is_decided_by_its_interval(seconds: float | None, verdict: str) -> None:
    run = record.start(notebook="05_interactions_graph", paper="drug_interactions", profile="smoke", parameters={})
    spent = [seconds] * 20 if seconds else [0.002] * 18 + [0.5] * 2
    report.decide_graph_claims(run, [kg.Asked(f"drug {i}", 2, True, 1, s) for i, s in enumerate(spent)], 200)
    assert [c.verdict for c in run.claims] == [verdict, "agrees"]


def test_figures_say_what_the_data_show(sample: list[Sentence]) -> None:
    content = kg.knowledge_graph(sample)
    centre, partners, effects = report.neighbourhood(content)
    assert set(partners) <= content.partners[centre]
    assert set(effects) <= content.effects[centre]
    _, words = report.draw_neighbourhood(content, content)
    drawn = len(partners) + len(effects)
    assert words.startswith(centre)
    assert f"{drawn} of the {drawn} edges" in words
    _, none = report.draw_neighbourhood(content, kg.knowledge_graph([]))
    assert f"0 of the {drawn} edges" in none
