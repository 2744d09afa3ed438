"""Drug interactions: corpora read, text cut, relations found, sets scored, the graph loaded once."""

from __future__ import annotations

import itertools
import math
import runpy
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import ROUND_DOWN, ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given, strategies as st
from scipy.stats import t as student_t
from test_graph import graph_server

from evaluation import answers as stored_answers, published, record, rules, verdicts
from evaluation.answers import Answer, PlainUnit
from evaluation.outcomes import Outcomes
from evaluation.record import Run
from helpers import graph
from helpers.completions import Reply
from helpers.graph import Graph
from helpers.llm import LLM
from papers.drug_interactions import (
    corpora as di,
    entities,
    graph as kg,
    ingestion,
    qa_report,
    relations,
    rules as paper_rules,
    textbook,
)
from papers.drug_interactions.corpora import CAUSES, INTERACTS, Entity, Fact, Relation, Sentence
from resources import datasets
from resources.services import GraphEndpoint
from resources.settings import DATA, SAMPLE

NAMES = ("DDICorpus-2013.zip", "DRUG-AE.rel", "DRUG-DOSE.rel", "ADE-NEG.txt", "medquad_answers.zip")


@pytest.fixture(scope="module")
def sample() -> list[Sentence]:
    located = datasets.locate_all([di.DDI, *di.ADE], "sample")
    return di.read_ddi(located[di.DDI].path) + di.read_ade(*(located[name].path for name in di.ADE))


def sentence(
    text: str, *mentions: tuple[str, di.Label], corpus: di.Corpus = "DrugBank"
) -> Sentence:
    """A sentence with mentions marked at their first occurrence."""
    mentioned = [
        Entity(text.index(name), text.index(name) + len(name), label) for name, label in mentions
    ]
    return Sentence("s", "d", corpus, "test", text, tuple(sorted(mentioned, key=lambda e: e.start)))


# ----------------------------------------------------------------------------------------------------------- corpora


def test_the_script_reproduces_the_committed_sample(tmp_path: Path) -> None:
    runpy.run_path(str(SAMPLE / "make_sample.py"))["write_interactions"](tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == sorted(NAMES)
    for path in tmp_path.iterdir():
        assert path.read_bytes() == (SAMPLE / "drug_interactions" / path.name).read_bytes(), (
            path.name
        )


def test_marks_lie_on_the_words_they_mark(sample: list[Sentence]) -> None:
    assert {(s.corpus, s.split) for s in sample} == {
        *(
            (corpus, split)
            for corpus in ("DrugBank", "MedLine")
            for split in ("train", "test", "entities")
        ),
        ("ADE", "train"),
        ("ADE", "test"),
    }
    known = {
        "aspirin",
        "warfarin",
        "thiazide diuretics",
        "zelphor",
        "nausea",
        "acute renal failure",
    }
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
    assert all(len(names) == 1 for names in splits.values())


def test_the_ade_files_make_one_sentence_of_its_pairs_doses_and_negatives(tmp_path: Path) -> None:
    text = "Rash and fever after aspirin, no rash after heparin and fever."
    (tmp_path / "ae").write_text(
        f"12|{text}|Rash|100|104|aspirin|121|128\n12|{text}|fever|109|114|aspirin|121|128\n"
        f"12|{text}|fever|156|161|aspirin|121|128\n"
    )
    (tmp_path / "dose").write_text(f"12|{text}|no|130|132|heparin|144|151\n")
    (tmp_path / "neg").write_text("12 NEG Nothing | was seen.\n")
    first, second = di.read_ade(tmp_path / "ae", tmp_path / "dose", tmp_path / "neg")
    assert [first.text[e.start : e.end] for e in first.entities] == [
        "Rash",
        "fever",
        "aspirin",
        "heparin",
        "fever",
    ]
    assert first.relations == (
        Relation(2, 0, "adverse"),
        Relation(2, 1, "adverse"),
        Relation(2, 4, "adverse"),
    )
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
    assert [(e.start, e.end, e.label) for e in read.entities] == [
        (0, 23, "Compound"),
        (10, 23, "Compound"),
    ]
    assert read.relations == (Relation(0, 1, "int"),)


# ------------------------------------------------------------------------------------------------------------ chunks


@given(
    st.lists(
        st.tuples(st.sampled_from(["DrugBank", "ADE"]), st.text("ab. ", max_size=40)), max_size=30
    ),
    st.integers(1, 25),
)
def test_chunks_keep_every_sentence_in_order_and_their_size(
    parts: list[tuple[di.Corpus, str]], size: int
) -> None:
    sentences = [
        Sentence(str(i), "d", corpus, "test", text) for i, (corpus, text) in enumerate(parts)
    ]
    chunks = di.chunks(sentences, size)
    assert [s for chunk in chunks for s in chunk.sentences] == sentences
    assert [chunk.number for chunk in chunks] == list(range(len(chunks)))
    for chunk in chunks:
        assert chunk.sentences
        assert len({s.corpus for s in chunk.sentences}) == 1
        assert (
            len(chunk.sentences) == 1
            or sum(len(di.TOKEN.findall(s.text)) for s in chunk.sentences) <= size
        )
    for chunk, following in itertools.pairwise(chunks):
        first = following.sentences[0]
        full = (
            sum(len(di.TOKEN.findall(s.text)) for s in chunk.sentences)
            + len(di.TOKEN.findall(first.text))
            > size
        )
        assert full or first.corpus != chunk.sentences[0].corpus


def test_a_chunk_needs_room() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        di.chunks([], 0)


# ---------------------------------------------------------------------------------------------------------- entities


def mention_labels(
    text: str, names: dict[str, di.Label], *, rules: bool = True
) -> list[tuple[str, str]]:
    return [
        (text[e.start : e.end], e.label) for e in entities.Recogniser(names, rules=rules).find(text)
    ]


def test_the_dictionary_takes_the_longest_name_whatever_its_case_and_hyphens_divide() -> None:
    names: dict[str, di.Label] = {
        "aspirin": "Drug",
        "renal failure": "SideEffect",
        "acute renal failure": "SideEffect",
    }
    assert mention_labels(
        "Aspirin-induced Acute Renal  Failure; aspirins.", names, rules=False
    ) == [
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
    assert mention_labels(text, {"aspirin": "Drug"}) == expected


@given(st.text(max_size=200))
def test_mentions_lie_in_the_text_in_order_and_apart(text: str) -> None:
    mentions = RECOGNISER.find(text)
    assert all(0 <= e.start < e.end <= len(text) for e in mentions)
    assert all(a.end <= b.start for a, b in itertools.pairwise(mentions))


RECOGNISER = entities.Recogniser({"a b": "Drug", "a": "Compound", "1": "SideEffect"})


def test_the_dictionary_is_never_made_from_the_test_split(sample: list[Sentence]) -> None:
    with pytest.raises(ValueError, match="training split"):
        entities.build_dictionary(sample, [], [])
    training = di.select(sample, "train")
    names = entities.build_dictionary(training, ["Onlysider"], ["only this effect"])
    assert names["onlysider"] == "Drug"
    assert names["only this effect"] == "SideEffect"
    assert names["thiazide diuretics"] == "Compound"


def test_a_name_that_is_mostly_no_mention_is_dropped() -> None:
    def training_sentence(text: str, *mentions: tuple[str, di.Label]) -> Sentence:
        marked = sentence(text, *mentions)
        return Sentence(
            marked.id, marked.document, marked.corpus, "train", marked.text, marked.entities
        )

    training = [
        training_sentence("gold helps", ("gold", "Drug")),
        training_sentence("the gold standard"),
        training_sentence("gold medal"),
        training_sentence("iron", ("iron", "Drug")),
    ]
    assert entities.build_dictionary(training, ["silver"], []).keys() == {"iron", "silver"}


# --------------------------------------------------------------------------------------------------------- relations

Mention = tuple[str, di.Label]
A: Mention = ("aspirin", "Drug")
B: Mention = ("warfarin", "Drug")
C: Mention = ("heparin", "Drug")
E: Mention = ("skin rash", "SideEffect")


@pytest.mark.parametrize(
    ("text", "mentions", "related"),
    [
        ("aspirin may increase plasma levels of warfarin.", (A, B), {(0, 1)}),
        ("aspirin should not be taken with warfarin.", (A, B), {(0, 1)}),
        ("aspirin interacts with warfarin.", (A, B), {(0, 1)}),
        ("aspirin did not affect warfarin.", (A, B), set()),
        ("aspirin and warfarin are used.", (A, B), set()),
        ("aspirin increases the effect of warfarin and heparin.", (A, B, C), {(0, 1), (0, 2)}),
        ("aspirin was given; warfarin increases bleeding.", (A, B), set()),
    ],
)
def test_patterns_on_interactions(
    text: str, mentions: tuple[Mention, ...], related: set[tuple[int, int]]
) -> None:
    (read,) = relations.by_patterns([sentence(text, *mentions)])
    assert {(r.first, r.second) for r in read.relations} == related


@pytest.mark.parametrize(
    ("text", "related"),
    [
        ("aspirin-induced skin rash was seen.", True),
        ("A skin rash due to aspirin.", True),
        ("aspirin is a remedy. Others had skin rash.", False),
    ],
)
def test_patterns_on_side_effects(text: str, related: bool) -> None:  # a case's outcome
    (read,) = relations.by_patterns([sentence(text, A, E, corpus="ADE")])
    assert bool(read.relations) is related
    assert not read.relations or di.facts(read) == {Fact(CAUSES, "aspirin", "skin rash")}


def test_a_letter_that_grows_in_lower_case_moves_nothing() -> None:
    (related,) = relations.by_patterns(
        [sentence("\u0130\u0130\u0130 aspirin interacts with warfarin.", A, B)]
    )
    assert len(related.relations) == 1


def test_all_pairs_relates_any_two_and_in_ade_a_drug_and_an_effect() -> None:
    text = "aspirin, warfarin, heparin: skin rash."
    ddi, ade = (
        relations.all_pairs([sentence(text, A, B, C, E, corpus=c)])[0] for c in ("MedLine", "ADE")
    )
    assert [(r.first, r.second) for r in ddi.relations] == [(0, 1), (0, 2), (1, 2)]
    assert [(r.first, r.second) for r in ade.relations] == [(0, 3), (1, 3), (2, 3)]


def test_the_classifier_learns_wording_and_not_names(sample: list[Sentence]) -> None:
    classifier = relations.Classifier(
        [s for s in sample if s.corpus != "ADE" and s.split == "train"]
    )
    texts = [
        "blorpine may increase the plasma concentration of frumpol.",
        "blorpine did not change the absorption of frumpol.",
    ]
    unknown = [sentence(text, ("blorpine", "Drug"), ("frumpol", "Drug")) for text in texts]
    assert [len(s.relations) for s in classifier(unknown)] == [1, 0]
    assert classifier([]) == []


def test_a_classifier_needs_both_sorts_of_pairs() -> None:
    with pytest.raises(ValueError, match="related and unrelated"):
        relations.Classifier([sentence("aspirin and warfarin", A, B)])


def test_unmarked_mentions_are_added_and_the_relations_still_point_at_theirs() -> None:
    gold = sentence("warfarin or aspirin caused skin rash", A, E, corpus="ADE")
    gold = Sentence(
        gold.id,
        gold.document,
        "ADE",
        "train",
        gold.text,
        gold.entities,
        (Relation(0, 1, "adverse"),),
    )
    (wide,) = entities.training_sentences(
        [gold], entities.Recogniser({"warfarin": "Drug", "rash": "SideEffect"})
    )
    assert [wide.name(e) for e in wide.entities] == ["warfarin", "aspirin", "skin rash"]
    assert di.facts(wide) == di.facts(gold)


@pytest.mark.parametrize(
    ("answer", "cut", "facts"),
    [
        (
            '{"interactions": [{"drug": "Warfarin", "other": "aspirin"}], '
            '"side_effects": [{"drug": "x", "effect": "y"}]}',
            False,
            {Fact(INTERACTS, "aspirin", "warfarin"), Fact(CAUSES, "x", "y")},
        ),
        ('{"interactions": [], "side_effects": []}', False, set()),
        ('{"interactions": [{"drug": "a", "other": "a"}], "side_effects": []}', False, set()),
        (
            '{"interactions": [{"drug": "a", "other": "b"}, {"drug": "a", "ot',
            True,
            {Fact(INTERACTS, "a", "b")},
        ),
        ("I cannot", False, None),
        ('{"interactions": 3}', False, None),
        ("", False, None),
    ],
)
def test_a_models_answer_is_read_or_counted(
    answer: str, cut: bool, facts: set[Fact] | None
) -> None:
    assert relations.parse_facts(answer, cut=cut) == facts


# ------------------------------------------------------------------------------------------------------------ scores


def scored(
    run: Run, task: str, sentences: Sequence[Sentence], gold: Sequence[Sentence]
) -> Outcomes:
    return ingestion.outcomes(run, ingestion.score_task(run, task, gold, {"arm": sentences}), 100)


@pytest.fixture
def run() -> Run:
    return record.start(
        notebook="05_interactions_graph", paper="drug_interactions", profile="smoke", parameters={}
    )


@pytest.mark.parametrize("task", ingestion.TASKS)
def test_gold_scores_full_marks_at_every_stage_and_nothing_none(
    run: Run, sample: list[Sentence], task: str
) -> None:
    gold = di.select(sample, "test")
    right = scored(run, task, gold, gold)
    measures = {name for values in right.frame.measures for name in values}
    assert {f"{task}_precision", f"{task}_recall", f"{task}_f1"} <= measures
    assert {right.where(corpus=c).score(m).value for c in ("DDI", "ADE") for m in measures} == {1.0}
    nothing = scored(run, task, [replace(s, entities=(), relations=()) for s in gold], gold)
    assert nothing.score(f"{task}_recall").value == nothing.score(f"{task}_f1").value == 0.0


def test_a_method_is_not_shown_the_relations_that_are_marked(sample: list[Sentence]) -> None:
    assert not any(s.relations for s in ingestion.relate({"copy": list}, sample)["copy"])


def test_facts_of_a_chunk_count_once_and_an_unread_answer_finds_none(
    run: Run, sample: list[Sentence]
) -> None:
    parts = ingestion.spread_chunks(di.chunks(di.select(sample, "test"), 40), 3)
    units = ingestion.chunk_units(parts)
    rows = run.answer(ingestion.chunk_arms(parts, {"gold": sample}), units)
    fact_counts = [len(ingestion.fact_sets(*part.sentences)["facts"]) for part in parts]
    assert [row.measures["facts_f1"][1] for row in rows] == [2.0 * n for n in fact_counts]

    class Silent:
        def chat_many(self, prompts: Sequence[object], **_: object) -> list[Reply]:
            return [Reply("", "overflow", 0, 0, 0.0, key="k") for _ in prompts]

    silent = ingestion.ChunkReader(cast("LLM", Silent()), parts, 10)(units)
    score = ingestion.outcomes(
        run, run.answer({"llm": lambda _: silent}, units, model="m"), 100
    ).score("facts_recall")
    assert (score.value, score.unparsed) == (0.0, len(units))


# ---------------------------------------------------------------------------------------------------------- textbook

CNXML = """<document xmlns="http://cnx.rice.edu/cnxml">
  <title>Fever</title>
  <metadata xmlns:md="http://cnx.rice.edu/mdml"><md:content-id>{id}</md:content-id></metadata>
  <content>
    <section class="learning-objectives"><para>You can name a drug.</para></section>
    <section><title>Drugs</title>
      <para>Aspirin <emphasis>often</emphasis> causes <term>nausea</term>. With
        warfarin, aspirin increases bleeding.<newline/>Rest helps<figure><caption>A glass</caption></figure></para>
      <list><item>Aspirin is given for headache.</item><item>Ibuprofen:<list><item>rash</item></list> and more</item>
      </list>
      <table><tgroup><tbody><row><entry>Aspirin</entry><entry>Rash.</entry></row></tbody></tgroup></table>
      <exercise><problem><para>Does aspirin cause gout?</para></problem></exercise>
    </section>
    <section class="references"><para>A. Author. Of aspirin.</para></section>
  </content>
</document>
"""
NAMED: dict[str, di.Label] = {
    "aspirin": "Drug",
    "warfarin": "Drug",
    "nausea": "SideEffect",
    "bleeding": "SideEffect",
    "headache": "SideEffect",
}


@pytest.fixture
def book(tmp_path: Path) -> list[Sentence]:
    path = tmp_path / "book.cnxml"
    path.write_text(CNXML.format(id="m1") + CNXML.format(id="m2"))
    return textbook.read(path)


def test_a_textbook_is_read_as_running_text_and_nothing_else(book: list[Sentence]) -> None:
    assert [(s.document, s.text) for s in book[: len(book) // 2]] == [
        ("m1", "Aspirin often causes nausea."),
        ("m1", "With warfarin, aspirin increases bleeding."),
        ("m1", "Rest helps"),
        ("m1", "Aspirin is given for headache."),
        ("m1", "Ibuprofen:"),
        ("m1", "rash"),
        ("m1", "and more"),
    ]
    assert len({s.id for s in book}) == len(book) == 14


def test_a_file_that_is_no_textbook_is_told(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("<document>")
    with pytest.raises(di.CorpusError, match="not CNXML"):
        textbook.read(tmp_path / "x")


def test_a_sentence_of_a_textbook_holds_interactions_and_side_effects(book: list[Sentence]) -> None:
    sentences = relations.all_pairs(entities.Recogniser(NAMED, rules=False).mark(book))
    facts = set().union(*map(di.facts, sentences))
    assert Fact(INTERACTS, "aspirin", "warfarin") in facts
    assert {f for f in facts if f.type == CAUSES} == {
        Fact(CAUSES, "aspirin", "nausea"),
        Fact(CAUSES, "aspirin", "bleeding"),
        Fact(CAUSES, "warfarin", "bleeding"),
        Fact(CAUSES, "aspirin", "headache"),
    }


def test_precision_against_sider_is_the_share_of_the_pairs_read_that_it_lists(
    book: list[Sentence], tmp_path: Path, run: Run
) -> None:
    path, terms = tmp_path / "sider.csv", tmp_path / "terms.csv"
    causes = "The drug aspirin causes the following: nausea, bleeding, hallucination, visual."
    path.write_text(f'drug,text\nAspirin,"{causes}"\nOther,"x: headache."\n')
    terms.write_text('term\nnausea\n"hallucination, visual"\n')
    known = textbook.read_sider(path, terms)
    assert known == {
        "aspirin": {"nausea", "bleeding", "hallucination, visual"},
        "other": {"headache"},
    }
    marked_book = entities.Recogniser(NAMED, rules=False).mark(book)
    read_sentences = {
        "all_pairs": relations.all_pairs(marked_book),
        "patterns": relations.by_patterns(marked_book),
    }
    pairs = textbook.pair_units(read_sentences["all_pairs"], known)
    # warfarin is no drug of this list
    assert {(p.unit, p.gold) for p in pairs} == {
        ("aspirin: nausea", "YES"),
        ("aspirin: bleeding", "YES"),
        ("aspirin: headache", "NO"),
    }
    out = Outcomes(
        run.answer({arm: textbook.ReadPairs(read) for arm, read in read_sentences.items()}, pairs)
    )
    assert out.score("precision", "all_pairs").value == pytest.approx(2 / 3)
    assert out.score("precision", "patterns").value == 1


def test_the_sample_has_no_textbook_and_says_so() -> None:
    assert textbook.locate("sample") == ([], "The bundled sample has no textbook.")


# ------------------------------------------------------------------------------------------------------------- graph


def test_the_same_fact_is_one_edge_with_its_sources(sample: list[Sentence]) -> None:
    content = kg.knowledge_graph(sample)
    for edge_fact, sources in content.edges.items():
        assert len(sources) == len(set(sources)) >= 1
        assert edge_fact.type == CAUSES or edge_fact.start < edge_fact.end
    assert any(len(sources) > 1 for sources in content.edges.values())
    table = ingestion.table_one(
        published.published("drug_interactions"), {"here": (content, 5, 1)}
    ).here
    books, chunks, nodes, drugs, effects, compounds, edges, interactions, causes, _ = (
        table.str.replace(",", "").map(float)
    )
    assert (books, chunks, nodes, edges) == (
        1,
        5,
        drugs + effects + compounds,
        interactions + causes,
    )
    assert kg.knowledge_graph(reversed(sample)).digest == content.digest


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GraphEndpoint]:
    with graph_server(tmp_path_factory.mktemp("graph")) as running:
        yield running


def graph_rows(db: Graph) -> list[list[graph.Row]]:
    edges = db.read(
        "MATCH (a)-[r]->(b) RETURN labels(a) AS la, a.name AS a, type(r) AS t, r.mentions AS n, r.sources AS s, "
        "labels(b) AS lb, b.name AS b ORDER BY t, a, b"
    )
    return [
        edges,
        db.read(
            "MATCH (n) WHERE n.name IS NOT NULL RETURN labels(n) AS l, n.name AS n ORDER BY n, l"
        ),
    ]


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
        first = graph_rows(db)
        assert len(first[0]) == content.relationships()
        assert not kg.load_graph(db, content)
        assert graph_rows(db) == first
        # the work itself, not only the note that it was done
        db.mark_loaded(kg.INGESTED.data_set, "another")
        assert kg.load_graph(db, content)
        assert graph_rows(db) == first
        assert db.loaded("side_effects", "1")
        assert db.read("MATCH (d:Drug) RETURN d.name AS name") == [{"name": "aspirin"}]
        queries = kg.draw_queries(content, 1000, 1)
        rows = kg.ByCypher(db)(queries)
        assert all(row.measures["right"][0] for row in rows)
        assert any(
            row.predicted
            for row, query in zip(rows, queries, strict=True)
            if query.strata["hops"] == "two hops"
        )
        wrong = kg.draw_queries(kg.knowledge_graph(sample[: len(sample) // 3]), 1000, 1)
        assert not all(row.measures["right"][0] for row in kg.ByCypher(db)(wrong))


# ------------------------------------------------------------------------------------------------------------ report


def test_every_contradiction_names_its_numbers_and_its_sums_are_right(run: Run) -> None:
    printed = published.published("drug_interactions")
    values = {n.id.removeprefix("drug_interactions."): n.value for n in printed.numbers}
    html = verdicts.disagreements(run).html
    assert html.count("<li>") == len(printed.contradictions) >= 10
    assert "89.4%" in html.partition("The affected printed values are")[2]
    once = values["table1.interacts_with"] / 2 + values["table1.causes_side_effect"]
    rating = values["text.rating_of_five"]
    sums = {
        "degree": f"{2 * once / values['table1.nodes']:.2f} if",
        "memory": f"{values['text.small_model_parameters'] * values['text.small_model_bits'] / 8:.0f} GB",
        "main_memory": f"{values['text.large_model_parameters'] * values['text.large_model_bits'] / 8:.0f} GB",
        "scale": f"4.5 is {(rating - 1) / 4} of the range from 1 to 5, and {rating / 5} of 5",
    }
    share_of_compounds = values["table1.compounds"] / values["table1.nodes"]
    sums["compounds"] = f"for {100 * share_of_compounds:.0f} % of the nodes"
    assert (
        values["table1.interacts_with"] + values["table1.causes_side_effect"]
        == values["table1.edges"]
    )
    statements = {c.id.rsplit(".", 1)[1]: c.says[-1].what for c in printed.contradictions}
    assert all(text in statements[name] for name, text in sums.items())


TABLE_TWO = [n for n in published.published("drug_interactions").numbers if n.table == "Table II"]


@pytest.mark.parametrize(
    ("rounding", "fitting"),
    [(ROUND_DOWN, (0, 8, 8)), (ROUND_HALF_EVEN, (0, 4, 8)), (ROUND_HALF_UP, (0, 2, 8))],
)
def test_the_digits_of_table_two_exclude_shares_of_a_hundred_and_no_scale_of_ratings(
    rounding: str, fitting: tuple[int, ...]
) -> None:
    """Steps of a mean over 100 questions: of right answers, of half points as 1 + 4x, and as 5x."""
    assert len(TABLE_TWO) == 8
    printed = published.published("drug_interactions")
    counts = [
        qa_report.n_possible(printed, Decimal(step), rounding) for step in ("1", "0.125", "0.1")
    ]
    assert tuple(counts) == fitting


def test_the_page_says_which_scale_each_stated_gain_holds_on() -> None:
    printed = published.published("drug_interactions")
    gains = paper_rules.stated_gains(printed)
    scales = {name: gain.scales() for name, gain in gains.items()}
    assert scales == {
        "gain_no_retrieval": ["relative to the rating from 1 to 5"],
        "gain_rag_text": ["relative to the score from 0 to 1"],
    }
    page = qa_report.gains_text(printed)
    for size in ("70b", "8b"):
        for gain in paper_rules.stated_gains(printed, size).values():
            for baseline in gain.baselines:
                _, relative, rated = paper_rules.readings(gain.best, baseline.value)
                assert f"{100 * rated:.1f} %" in page, (size, baseline.id)
                assert size == "8b" or f"{100 * relative:.1f} %" in page, baseline.id
            for share in gain.shares_of_best():
                assert size == "8b" or f"{100 * share:.1f} %" in page


def test_the_text_on_the_gains_computes_its_numbers_from_table_two() -> None:
    text = qa_report.gains_text(published.published("drug_interactions"))
    scores = {n.id.rsplit(".", 2)[1]: n.value for n in TABLE_TWO if n.id.endswith("llama_70b")}
    lead = scores["drugrag"] - scores["no_retrieval"]
    assert f"In points, the gain over No Retrieval is {100 * lead:.1f}." in text
    relative = lead / scores["no_retrieval"]
    assert f"from 0 to 1, the gain over No Retrieval is {100 * relative:.1f} %." in text
    rating = 4 * lead / (1 + 4 * scores["no_retrieval"])
    assert f"only relative to the rating from 1 to 5** ({100 * rating:.1f} %)" in text
    assert "2.3 points or less, none of the three" in text
    assert "of 4.3 points or more, Table II gives both gains relative to the rating" in text
    assert "100 ratings in steps of 0.5 points is a multiple of 0.125 %" in text
    assert "cut such means off after one decimal, all eight values" in text
    assert "halves to even, four values are possible. If they rounded halves up, two" in text
    assert "100 questions, none of the eight values" in text


def test_the_small_models_gains_are_the_stated_ones_on_the_scale_of_one_to_five() -> None:
    scores = {n.id.rsplit(".", 2)[1]: n.value for n in TABLE_TWO if n.id.endswith("llama_8b")}
    gains = [
        paper_rules.readings(scores["drugrag"], scores[baseline])[2]
        for baseline in ("no_retrieval", "rag_text", "graphrag")
    ]
    assert [f"{100 * gain:.0f}" for gain in gains] == ["31", "15", "13"]
    assert "31 % over no retrieval, 15 % over RAG (Text) and 13 % over GraphRAG" in " ".join(
        published.published("drug_interactions")
        .claim("drug_interactions.claim.gain_over_text")
        .note.split()
    )


def test_the_standard_deviation_that_the_printed_p_asks_for() -> None:
    printed = published.published("drug_interactions")
    scores = [
        printed.number(f"drug_interactions.table2.{arm}.llama_70b").value
        for arm in ("drugrag", "graphrag")
    ]
    n = printed.number("drug_interactions.text.questions").value
    largest = 100 * (scores[0] - scores[1]) * math.sqrt(n) / student_t.ppf(1 - 0.01 / 2, n - 1)
    assert f"below {largest:.0f} points" in printed.number("drug_interactions.text.p").note


def test_gains_that_need_two_scales_are_left_open(run: Run) -> None:
    claims = ("gain_over_no_retrieval", "gain_over_text")
    rules.decide(run, ingestion.outcomes(run, [], 100), *claims, printed=run.printed)
    findings = {c.id.rsplit(".", 1)[1]: c for c in run.claims}
    assert {name: (c.verdict, c.kind) for name, c in findings.items()} == dict.fromkeys(
        claims, ("inconclusive", "printed")
    )
    assert {c.reason for c in run.claims} == {None}
    # the abstract has baselines, in the plural
    assert "17.4 %, higher than the score of RAG (Text) (66.2%)" in findings["gain_over_text"].why
    assert "14.8 %, higher than the score of GraphRAG (67.7%)" in findings["gain_over_text"].why
    # 23.5 points of the normalised scale are 29.7 % of a rating between 1 and 5
    assert "29.7 %" in findings["gain_over_no_retrieval"].why
    for finding in findings.values():
        assert (
            "Relative to the rating from 1 to 5, a gain of 30 % over No Retrieval agrees with "
            "Table II. Relative to the score from 0 to 1, a gain of 15 % over RAG (Text) and "
            "GraphRAG agrees with Table II." in finding.why
        )
    assert (
        "the gains are 14.8 % and 12.9 %. This measure of a gain does not decide"
        in findings["gain_over_text"].why
    )


def test_the_order_of_table_two_and_the_count_of_right_queries_decide_as_printed(run: Run) -> None:
    claims = (
        "first_in_table_two",
        "agentic_second_in_table_two",
        "larger_first_in_table_two",
        "first_query_right",
    )
    rules.decide(run, ingestion.outcomes(run, [], 100), *claims, printed=run.printed)
    assert [(c.verdict, c.kind) for c in run.claims] == [("agrees", "printed")] * 4
    assert "DrugRAG is first with 77.7%, and GraphRAG is second with 67.7%" in run.claims[0].why
    assert "1.5 points above RAG (Text)" in run.claims[1].why
    assert "Llama3.3-70B has 54.2% and Llama3.1-8B has 41.1%" in run.claims[2].why
    assert "a difference of +13.1 points" in run.claims[2].why
    assert "85 of 100" in run.claims[3].why
    assert [(f.answer, f.reason) for f in run.here_findings] == [
        ("not run", "printed only"),
        ("not run", "printed only"),
        ("not run", "printed only"),
        ("not run", "no answers"),
    ]


def test_a_latency_that_nobody_timed_is_not_run(run: Run) -> None:
    rules.decide(run, ingestion.outcomes(run, [], 100), "latency_like_agentic")
    assert (run.claims[0].verdict, run.claims[0].reason) == ("cannot be tested", "not public")
    assert (run.here_findings[0].answer, run.here_findings[0].reason) == ("not run", "no answers")


@pytest.mark.parametrize(
    ("tolerance", "verdicts"),
    [
        (0.02, ("inconclusive", "differs")),
        (0.025, ("inconclusive", "inconclusive")),
        (0.042, ("inconclusive", "inconclusive")),
        (0.043, ("agrees", "agrees")),
    ],
)
def test_the_note_says_by_which_tolerance_the_gains_would_be_judged_otherwise(
    tolerance: float, verdicts: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_rules, "GAIN_TOLERANCE", tolerance + 1e-9)
    printed = published.published("drug_interactions")
    names = ("gain_no_retrieval", "gain_rag_text")
    words = [paper_rules._decide_gain(printed, name).verdict for name in names]
    assert tuple(words) == verdicts
    note = printed.claim("drug_interactions.claim.gain_over_text").note
    assert "2.3 points or less" in note
    assert "4.3 points or more" in note


QUERY_CLAIMS = ("graph_answers_in_milliseconds", "one_query_for_two_hops")


def decide_queries(run: Run, arm: str, rights: Sequence[float], seconds: Sequence[float]) -> None:
    """Decide the claims about queries; every second drug has a chain."""
    units = []
    answers = []
    for i, (right, spent) in enumerate(zip(rights, seconds, strict=True)):
        strata = {"hops": "two hops", "chain": "without a chain" if i % 2 else "with a chain"}
        units.append(PlainUnit(f"{i}", f"drug {i}", "", "", strata))
        measures = {"right": (right, 1.0), "latency": (spent, 1.0), "answered": (i % 4 > 0, 1.0)}
        answers.append(Answer(task="queries", measures=measures))
    rows = run.answer({arm: lambda _: answers}, units)
    rules.decide(run, ingestion.outcomes(run, rows, 200), *QUERY_CLAIMS)


@pytest.mark.parametrize(
    ("seconds", "answer"),
    [
        ([0.002] * 40, "with the claim"),
        ([0.05] * 40, "against it"),  # tens of milliseconds
        ([0.002, 0.5] * 20, "inconclusive"),
        ([0.002] * 36 + [0.5] * 4, "with the claim"),  # a few slow queries leave the order
    ],
)
@pytest.mark.parametrize("arm", ["neo4j", "graph"])
def test_the_speed_of_a_graph_is_decided_by_the_interval_of_the_median(
    run: Run, arm: str, seconds: list[float], answer: str
) -> None:
    """The paper's graph is not public, so even Neo4j's times are about another one."""
    decide_queries(run, arm, [1.0] * 40, seconds)
    assert (run.claims[0].verdict, run.claims[0].reason) == ("cannot be tested", "not public")
    assert run.here_findings[0].answer == answer
    (answered_by,) = run.here_findings[0].models
    assert answered_by.endswith("without a language model")
    assert ("embedded graph" in answered_by) == (arm == "graph")
    assert "10 of the 40 timed queries (25.0 %) returned nothing" in run.here_findings[0].why


@pytest.mark.parametrize("arm", ["neo4j", "graph"])
def test_that_one_query_retrieves_a_chain_holds_by_construction(run: Run, arm: str) -> None:
    decide_queries(run, arm, [1.0] * 40, [0.002] * 40)
    claim, finding = run.claims[1], run.here_findings[1]
    assert (claim.verdict, claim.reason) == ("cannot be tested", "by construction")
    assert (finding.answer, finding.reason) == ("not run", "by construction")


def test_queries_say_whether_their_chain_exists() -> None:
    facts = [
        Fact(INTERACTS, "alpha", "beta"),
        Fact(CAUSES, "beta", "rash"),
    ]
    queries = kg.draw_queries(kg.graph_from_facts({"s": facts}), 10, 1)
    chains = {query.unit: query.strata.get("chain") for query in queries}
    assert chains == {
        "alpha, one hop": None,
        "alpha, two hops": "with a chain",
        "beta, one hop": None,
        "beta, two hops": "without a chain",
    }


def test_the_first_paragraph_of_the_opening_is_short() -> None:
    rows = stored_answers.read(DATA / "answers" / "05_interactions_graph")
    opening = ingestion.answer(Outcomes(rows, labels=ingestion.ARMS, draws=200))
    conclusion, _, details = opening.partition("\n\n")
    assert 1 <= conclusion.count("[") <= 3
    assert len(conclusion.split()) <= 70
    assert "(" not in conclusion
    assert "the text alone" in details
