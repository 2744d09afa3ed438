"""Text classification and link prediction of biomedrag.md: floors, subsets, and what the chapters report."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import vectors
from helpers.results import record
from papers.biomedrag import labels_report as report
from papers.biomedrag.arms import Prediction
from papers.biomedrag.corpora import Corpus, Example, Triple, load, question, shortened, stratified
from papers.biomedrag.experiment import Study
from papers.biomedrag.links import known_names, pair_classifier


def link(head: str, relation: str, tail: str) -> Example:
    return Example(f"{head}.{relation}.{tail}", question(head, tail), relation, (Triple(head, relation, tail),))


def graph(train: list[Example], test: list[Example]) -> Corpus:
    return Corpus("UMLS", "links", tuple(train), (), tuple(test), {})


@given(st.lists(st.sampled_from("ABC"), min_size=1, max_size=60), st.integers(1, 80), st.integers(0, 10))
@settings(max_examples=60, deadline=None)
def test_a_stratified_draw_gives_each_label_its_share(labels: list[str], n: int, seed: int):
    rows = [Example(str(i), str(i), label, ()) for i, label in enumerate(labels)]
    drawn = stratified(rows, n, seed)
    assert len(drawn) == min(n, len(rows))
    assert [int(row.id) for row in drawn] == sorted({int(row.id) for row in drawn})
    assert drawn == stratified(rows, n, seed)
    whole = Counter(labels)
    for label, count in Counter(row.label for row in drawn).items():
        assert abs(count - whole[label] * len(drawn) / len(rows)) < 2


def test_shortened_texts_keep_their_labels():
    whole = load("MTSamples", "sample")
    cut = shortened(whole, 3)
    assert all(len(row.text.split()) <= 3 for row in cut.test)
    assert [(row.id, row.label) for row in cut.test] == [(row.id, row.label) for row in whole.test]
    assert shortened(whole, 0) == whole


def test_head_and_tail_decide_and_a_triple_is_not_stated_twice():
    names = [f"n{i}" for i in range(8)]
    train = [link(name, "affects", "cell") for name in names] + [link(name, "isa", "thing") for name in names]
    train.append(link("n0", "part_of", "cell"))
    corpus = graph(train, [link("n1", "affects", "cell"), link("n0", "isa", "cell")])
    plain = [p.label for p in pair_classifier(corpus)(corpus.test)]
    new = [p.label for p in pair_classifier(corpus, new=True)(corpus.test)]
    assert plain == ["affects", "affects"]
    # both relations that training states of n0 and cell are out
    assert new[1] == "isa"
    assert new[0] != "affects"
    assert known_names(corpus) == [True, True]


def test_a_name_that_training_lacks_is_known_to_be_unknown():
    corpus = graph([link("a", "isa", "b")], [link("a", "isa", "z"), replace(link("a", "isa", "b"), triples=())])
    assert known_names(corpus) == [False, False]


@pytest.fixture(scope="module")
def floors() -> dict[str, Study]:
    embed = vectors.Remembering(vectors.encoder())
    studies = {}
    for name in ("UMLS", "ADInt"):
        corpus = load(name, "sample")
        studies[name] = Study(corpus.task, corpus.test)
        studies[name].run(report.floor_arms(corpus, embed))
    return studies


@pytest.fixture
def run() -> record.Run:
    return record.start(notebook="10_toy", paper="biomedrag", profile="smoke", parameters={})


def test_every_floor_answers_every_row_with_a_label(floors: dict[str, Study]):
    for name, study in floors.items():
        labels = set(load(name, "sample").labels)
        for arm, given_ in study.answers.items():
            assert len(given_) == len(study.rows), arm
            assert {p.label for p in given_} <= labels


def test_tables_hold_printed_rows_and_floors(floors: dict[str, Study], run: record.Run):
    table = report.floors_table(run, floors, draws=100)
    assert Counter(table["F1"]) == {"printed": 9, "here": 6}
    corpora = {name: load(name, "sample") for name in floors}
    for by in (report.met_table, report.names_table):
        assert len(by(corpora, floors)) == 12
    assert "UMLS has" in report.pairs_words(corpora)
    assert "62.22%" in report.above_words(run, floors, 100)
    assert "58.15% (BERT)" in report.gap_words(run, floors, "ADInt", 100)


def answered(study: Study, right_rows: int) -> list[Prediction]:
    """Predictions of which the first so many are right."""
    return [Prediction(row.label if i < right_rows else "none of these") for i, row in enumerate(study.rows)]


def toy(n: int, llm: int, biomedrag: int, trained: int) -> Study:
    study = Study("classification", [Example(str(i), str(i), "X" if i % 2 else "Y", ()) for i in range(n)])
    for arm, hits in (("zero_shot", llm), ("biomedrag", biomedrag), ("encoded", trained)):
        study.answers[arm] = answered(study, hits)
    return study


@pytest.mark.parametrize(
    ("biomedrag", "trained", "verdict"), [(50, 10, "differs"), (20, 50, "agrees"), (24, 20, "undecided")]
)
def test_small_models_are_on_par_if_the_interval_leaves_no_room_for_worse(
    biomedrag: int, trained: int, verdict: str, run: record.Run
):
    study = toy(60, 5, biomedrag, trained)
    # the comparator is fixed: another arm that does better on the tested rows changes nothing
    study.answers["tfidf"] = answered(study, 60)
    report.decide_on_par(run, "biomedrag.claim.small_models_on_par_links", {"UMLS": study}, "a model")
    claim = run.claims[0]
    assert claim.verdict == verdict
    assert claim.p is None
    assert "Encoder and logistic regression" in claim.why
    assert "stand-in" in claim.why


@pytest.mark.parametrize(
    ("llm", "trained", "verdict"), [(50, 10, "agrees"), (10, 50, "differs"), (21, 20, "undecided")]
)
def test_a_prompted_model_must_be_significantly_better(llm: int, trained: int, verdict: str, run: record.Run):
    report.decide_prompted(run, toy(60, llm, 5, trained), "a model", "Own split.")
    assert run.claims[0].verdict == verdict
    assert "Own split. (stand-in: a model for GPT-4" in run.claims[0].why


def test_the_note_on_mtsamples_names_its_split_and_its_cut():
    whole = load("MTSamples", "sample")
    third = len(whole.test) // 3
    parts = replace(whole, train=whole.test[:third], validation=whole.test[third:], test=())
    assert "/0 per cent)" in report.split_note(whole, parts, 60)
    assert "cut to 60 words" in report.split_note(whole, parts, 60)
    assert "not cut" in report.split_note(whole, parts, 0)


def test_prompted_arms_stand_beside_gpt4_and_the_rest_is_explained(run: record.Run):
    study = toy(40, 10, 20, 30)
    study.answers["knn_n"] = answered(study, 15)
    # an answer that cannot be read lowers F1 by less than accuracy
    study.answers["zero_shot"] = [p if i < 20 else Prediction(None) for i, p in enumerate(study.answers["zero_shot"])]
    scores = report.report_arms(run, "ADE-corpus-v2", study, "toy", "a note", draws=100)
    report.explain_rest(run, ["ADE-corpus-v2"])
    values = {value.id: value.value for value in run._values.values()}
    assert values["biomedrag.table2.gpt4.ade_f1"] == pytest.approx(20 / 60)
    assert values["biomedrag.table2.gpt4_br.ade_recall"] == pytest.approx(20 / 40)
    # Figure 2 is of a fine-tuned model, which no prompted one stands for
    assert "biomedrag.figure2.ade.top1" not in values
    # what is gained is the difference of the two F1 beside it
    f1 = {row: values[f"biomedrag.table2.{row}.ade_f1"] for row in ("gpt4", "gpt4_br")}
    assert values["biomedrag.text.gain.ade_gpt4"] == pytest.approx(100 * (f1["gpt4_br"] - f1["gpt4"]))
    of_ade = [n.id for n in run.printed.numbers if n.table == "Table 2" and ".ade_" in n.id]
    explained = {reason.id for reason in run._reasons.values()}
    assert {*of_ade, "biomedrag.figure2.ade.top1"} <= explained | set(values)
    table = report.beside_printed(run, "ADE-corpus-v2", scores)
    assert table.set_index("arm").loc["LLM alone", "printed F1, GPT-4"] == "41.00%"


def test_floors_are_added_for_the_rows_that_were_read(floors: dict[str, Study]):
    whole = floors["ADInt"]
    some = Study(whole.task, stratified(whole.rows, 5, 1))
    report.add_floors(some, whole)
    for arm, given_ in some.answers.items():
        answers = {row.id: p for row, p in zip(whole.rows, whole.answers[arm], strict=True)}
        assert given_ == [answers[row.id] for row in some.rows]
    summary = report.summary(
        record.start(notebook="10_toy", paper="biomedrag", profile="smoke", parameters={}),
        {"ADInt": whole},
        {"ADInt": _with_llm(some)},
        "toy",
        100,
    )
    assert "ADInt" in summary


def _with_llm(study: Study) -> Study:
    for arm in ("zero_shot", "biomedrag"):
        study.answers[arm] = answered(study, 2)
    return study
