"""What the data of biomedrag.md decide by themselves, and what its released outputs give."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, strategies as st

from evaluation import record
from evaluation.outcomes import Outcomes
from evaluation.published import published
from papers.biomedrag import balance as bal, corpora, lengths, released, rules as paper_rules
from papers.biomedrag.arms import Prediction
from papers.biomedrag.corpora import Corpus, CorpusError, Example, Triple
from resources import datasets

PRINTED = published("biomedrag")


def row(id: int, text: str, label: str, *triples: Triple) -> Example:
    return Example(str(id), text, label, triples)


def corpus(
    test: list[Example], train: tuple[Example, ...] = (), name: str = "DDI", **others
) -> Corpus:
    return Corpus(
        name, others.pop("task", "triples"), train, others.pop("validation", ()), tuple(test), {}
    )


# ----------------------------------------------------------------------------------------------------------- balance


def test_one_answer_a_text_cannot_have_all_pairs_of_a_sentence():
    pairs = [
        row(i, "a and b with c", "None", Triple(h, "None", t))
        for i, (h, t) in enumerate([("a", "b"), ("a", "c"), ("b", "c")])
    ]
    ddi = corpus([*pairs, row(3, "d with e", "effect", Triple("d", "effect", "e"))])
    assert bal.ceiling(ddi).value == pytest.approx(2 / 4)
    label, share = bal.floor(ddi)
    assert (label, share.value) == ("None", pytest.approx(3 / 4))
    assert [e.label for e in bal.interacting(ddi).test] == ["effect"]


def test_blanks_that_mark_the_pair_lift_the_ceiling():
    texts = ["of  a  and b with c", "of  a  and b with  c "]
    rows = [
        row(i, text, "R", Triple("a", "R", tail))
        for i, (text, tail) in enumerate(zip(texts, "bc", strict=True))
    ]
    chemprot = corpus(rows, name="ChemProt")
    assert bal.ceiling(chemprot).value == pytest.approx(1 / 2)
    assert bal.ceiling(chemprot, blanks=True).value == 1


def test_texts_of_training_are_found_whatever_their_blanks_and_case():
    test = [
        row(0, "p and q", "isa"),
        row(1, "P and  q", "affects"),
        row(2, "r and s", "isa"),
        row(3, "p and q", "isa"),
    ]
    train = (row(0, "p and q", "isa"), row(1, "t and u", "affects"), row(2, "v and w", "isa"))
    table = bal.balance_table({"UMLS": corpus(test, train, name="UMLS", task="links")}, PRINTED)
    assert table["texts also in training"][0].value == pytest.approx(3 / 4)


def test_a_pair_that_the_task_gives_tells_rows_of_one_text_apart():
    rows = [row(i, "a, b and c", "R", Triple("a", "R", tail)) for i, tail in enumerate("bc")]
    assert bal.ceiling(corpus(rows, name="GIT-RE", task="relations")).value == 1


@given(
    st.integers(1, 3000).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), min_size=1))
    )
)
def test_a_count_that_was_printed_is_found_possible(counts: tuple[int, list[int]]):
    n, hits = counts
    cut = [(10_000 * k // n) / 100 for k in hits]
    rounded = [((20_000 * k + n) // (2 * n)) / 100 for k in hits]
    for recalls in (cut, rounded):
        assert bal.possible(recalls, n)[0] == sorted(set(recalls))


def test_an_impossible_proportion_is_found():
    assert bal.possible([99.8, 99.89], 500)[0] == [99.8]
    (unattainable,) = bal.digits_table(PRINTED, ["ADE-corpus-v2"])["unattainable"]
    assert "99.89" in unattainable
    assert "99.80" not in unattainable


def test_the_digits_of_ddi_are_held_against_both_counts():
    table = bal.digits_table(PRINTED, list(corpora.KEYS), {"DDI": (368, "those with a relation")})
    of_ddi = table[table["data"] == "DDI"]
    assert [rows.partition(",")[0] for rows in of_ddi["rows"]] == ["1", "368"]
    stated, with_relation = of_ddi["attainable with these rows"]
    assert with_relation > stated
    assert set(table["data"]) == set(corpora.KEYS)


def test_every_data_set_is_told():
    corpora_by_name = {name: corpora.load(name, "sample") for name in corpora.KEYS}
    table = bal.balance_table(corpora_by_name, PRINTED)
    assert list(table["data"]) == list(corpora.KEYS)
    for name, label, share in zip(
        table["data"], table["most common label"], table["its share (floor)"], strict=True
    ):
        labels = [e.label for e in corpora_by_name[name].test]
        assert share.value == pytest.approx(labels.count(label) / len(labels))


# ---------------------------------------------------------------------------------------------------------- released

PROMPT = (
    "### Instruction:\nextract. response Format: a|r|b. Context: {document} Response: {shown}\n\n"
    "### Input:\nyoga eases pain.\n\n### Response:\n{answer}\n\n### Context:\nyoga eases"
)


def generation(path: Path, answer: str) -> tuple[Example, Prediction]:
    fields = {
        "sentence": "yoga eases pain.",
        "ground_truth": "yoga|TREATS|pain",
        "predicted": PROMPT.format(document="x of y", shown="x|USES|y", answer=answer),
    }
    path.write_text(json.dumps(fields) + "\n", encoding="utf-8")
    (pair,) = released.read_generations(path)
    return pair


def test_a_released_answer_ends_at_the_first_empty_line(tmp_path: Path):
    example, prediction = generation(tmp_path / "g.json", "yoga|TREATS|pain")
    assert prediction.reply == "yoga|TREATS|pain"
    assert prediction.triples == (Triple("yoga", "TREATS", "pain"),) == example.triples


@pytest.mark.parametrize("answer", ["yoga|TREATS|pain|pain", "yoga treats pain", "yoga|TREATS|"])
def test_a_released_answer_that_is_no_triple_is_unparsed(answer: str, tmp_path: Path):
    assert generation(tmp_path / "g.json", answer)[1].triples == ()


def test_a_released_row_without_its_parts_is_refused(tmp_path: Path):
    path = tmp_path / "g.json"
    path.write_text(
        json.dumps({"sentence": "s", "ground_truth": "a|b|c", "predicted": "no marks"}) + "\n"
    )
    with pytest.raises(CorpusError, match="row 1"):
        released.read_generations(path)
    path.write_text("{\n")
    with pytest.raises(CorpusError, match="line 1: needed JSON"):
        released.read_generations(path)


def test_documents_are_read_from_prompts_for_relations_and_for_triples(tmp_path: Path):
    rows = [
        {
            "instruction": "Examples:  Context: a of b. Response: USES",
            "context": "s",
            "response": "USES",
        },
        {
            "instruction": "Examples: 1. Context:a of b.Response:a|TREATS|b 2. Context:{}. Response: {}",
            "context": "s",
            "response": "c|USES|d",
        },
    ]
    path = tmp_path / "c.json"
    path.write_text("".join(json.dumps(r) + "\n" for r in rows), encoding="utf-8")
    first, second = released.read_choices(path)
    assert (first.document, first.document_label, first.hit) == ("a of b.", "USES", True)
    assert (second.document, second.document_label, second.label, second.hit) == (
        "a of b.",
        "TREATS",
        "USES",
        False,
    )


def test_the_released_answers_give_every_cell_that_they_cover():
    run = record.start(notebook="07_toy", paper="biomedrag", profile="smoke", parameters={})
    try:
        rows, choices = (
            released.rescored(run, Corpus("GIT", "triples", (), (), (), {})),
            released.released_choices(run),
        )
    except datasets.DataUnavailable:
        pytest.skip("the released files are not to be had")
    out = Outcomes(rows, draws=100)
    released.report_rescored(run, out)
    covered = {
        number.id for number in PRINTED.numbers if released.GENERATIONS in number.rescore_from
    }
    values = {value.id: value.value for value in run._values.values()}
    assert set(values) == covered
    for id in covered:
        number = PRINTED.number(id)
        assert abs(values[id] - number.value) <= (number.within("rescored") or 0), id
    assert out.score("f1", "lora_rag").unparsed == 4
    if "earlier" in out.arms:  # whose file not every source has
        assert round(out.score("f1", "earlier").value, 4) == 0.7883, "as the authors' comment says"
    assert sum(choice.hit for choice in choices["scorer"]) == 31
    assert released.by_chance(choices["scorer"]) == pytest.approx(27.3, abs=0.05)
    assert released.agreement(choices["scorer"], 100).value == pytest.approx(0.01, abs=0.005)
    assert all(
        len(choice_list) == sum(row.arm == "lora_rag" for row in rows)
        for choice_list in choices.values()
    )
    assert len({choice.document for choice in choices["scorer"]}) == 5
    assert released.commonest_share(choices["scorer"]).value == pytest.approx(444 / 465)
    table = released.documents_table(choices, corpora.load("GIT"), 100).html
    assert re.search(r"nearest sentence \(KNN\).*?465.*?465", table, re.DOTALL), (
        "every document of the nearest-neighbour prompts is a validation sentence"
    )
    assert released.answers_with_documents(choices["scorer"]) == 465


def chosen(hits: int) -> list[released.Choice]:
    """Choices for 100 sentences in ten relations, of which so many are hits."""
    labels = [f"R{i % 10}" for i in range(100)]
    return [
        released.Choice(f"s{i}", label, "d", label if i < hits else f"R{(i + 1) % 10}")
        for i, label in enumerate(labels)
    ]


@pytest.mark.parametrize(("hits", "kappa"), [(10, 0.0), (55, 0.5), (100, 1.0)])
def test_agreement_of_documents_with_sentences_is_counted_beyond_chance(hits: int, kappa: float):
    agreement = released.agreement(chosen(hits), 500)
    assert agreement.value == pytest.approx(kappa, abs=0.01)
    assert agreement.low <= agreement.value <= agreement.high


def test_the_share_of_the_commonest_documents_counts_sentences():
    documents = ["d"] * 60 + ["e"] * 30 + [f"d{i}" for i in range(10)]
    choices = [released.Choice(f"s{i}", "R", document, "R") for i, document in enumerate(documents)]
    assert released.commonest_share(choices).value == pytest.approx(0.9)


@given(st.integers(1, 60), st.integers(0, 4))
def test_one_document_for_all_sentences_agrees_with_them_by_chance_alone(n: int, remainder: int):
    # however common its relation is
    choices = [released.Choice(f"s{i}", "AB"[i % 5 == remainder], "d", "A") for i in range(n)]
    assert sum(c.hit for c in choices) == pytest.approx(released.by_chance(choices))


def test_sizes_are_reported_for_real_data_alone():
    run = record.start(notebook="07_toy", paper="biomedrag", profile="smoke", parameters={})
    table = released.report_sizes(run, [corpora.load(name, "sample") for name in corpora.KEYS])
    assert not run._values
    assert set(table["data"]) == set(corpora.KEYS) - {"GIT-RE"}
    # its training file was not read, so nothing is said of how many rows that has
    assert set(table.what[table["data"] == "MTSamples"]) == {"test"}


@pytest.mark.parametrize(
    ("document", "expected"),
    # five sentences have 5 to 23 words beside the nearest one's two
    [("a b", "agrees"), (" ".join("abcdefghij"), "inconclusive"), ("x " * 40, "differs")],
)
def test_documents_are_compared_with_the_least_and_the_most_of_five_sentences(
    document: str, expected: str
):
    validation = ["one", "one two", "one", "one", "one two three four five six seven"] + [
        "one two three four five"
    ] * 3
    nearest = [released.Choice(f"text {i}", "TREATS", "one two", "USES") for i in range(20)]
    rows = list(lengths.word_counts([document] * 20, nearest, validation))
    decision = lengths.decision(Outcomes(rows, draws=200))
    assert decision.verdict == expected
    assert "Five sentences would together have at least 7.0 words" in decision.why
    assert decision.estimates[0].bound == 0.0


def test_the_document_of_a_released_prompt_is_read(tmp_path: Path, monkeypatch):
    path = tmp_path / "generations.json"
    generation(path, "a|r|b")
    monkeypatch.setattr(released, "locate", lambda *_: SimpleNamespace(path=path))
    assert released.documents_in_prompts() == ["x of y"]
    path.write_text(json.dumps({"predicted": "no prompt"}) + "\n", encoding="utf-8")
    with pytest.raises(CorpusError, match="row 1: needed a prompt"):
        released.documents_in_prompts()


def test_lengths_are_not_compared_with_the_sample():
    decision = paper_rules.shorter_input(Outcomes([]))
    assert (decision.verdict, decision.reason) == ("not tested", "no answers")
