"""The chapters of biomedrag.md: floors, subsets, cells, claims and the ablation, read off the table of answers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html import unescape

import pytest
from hypothesis import given, strategies as st

from evaluation import record, rules
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from helpers import vectors
from papers.biomedrag import ablation, study
from papers.biomedrag.arms import Arm, Prediction
from papers.biomedrag.corpora import Corpus, Example, Triple, load, question, shortened, stratified
from papers.biomedrag.floors import PairClassifier, floor_arms, known_names


def link(head: str, relation: str, tail: str) -> Example:
    return Example(
        f"{head}.{relation}.{tail}", question(head, tail), relation, (Triple(head, relation, tail),)
    )


def graph(train: list[Example], test: list[Example]) -> Corpus:
    return Corpus("UMLS", "links", tuple(train), (), tuple(test), {})


@given(
    st.lists(st.sampled_from("ABC"), min_size=1, max_size=60),
    st.integers(1, 80),
    st.integers(0, 10),
)
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
    train = [link(name, "affects", "cell") for name in names] + [
        link(name, "isa", "thing") for name in names
    ]
    train.append(link("n0", "part_of", "cell"))
    corpus = graph(train, [link("n1", "affects", "cell"), link("n0", "isa", "cell")])
    plain = [p.label for p in PairClassifier(corpus)(corpus.test)]
    new = [p.label for p in PairClassifier(corpus, new=True)(corpus.test)]
    assert plain == ["affects", "affects"]
    # both relations that training states of n0 and cell are out
    assert new[1] == "isa"
    assert new[0] != "affects"
    assert known_names(corpus, corpus.test) == [True, True]


def test_a_name_that_training_lacks_is_known_to_be_unknown():
    corpus = graph(
        [link("a", "isa", "b")], [link("a", "isa", "z"), replace(link("a", "isa", "b"), triples=())]
    )
    assert known_names(corpus, corpus.test) == [False, False]


@pytest.fixture
def run() -> record.Run:
    return record.start(notebook="10_toy", paper="biomedrag", profile="smoke", parameters={})


@pytest.mark.parametrize("name", ["UMLS", "ADInt", "ADE-corpus-v2", "GIT-RE"])
def test_every_floor_answers_every_row_with_a_label(name: str, run: record.Run):
    corpus = load(name, "sample")
    arms = floor_arms(corpus, vectors.Remembering(vectors.encoder()))
    rows = study.answer(run, corpus, arms, corpus.test)
    assert len(rows) == len(arms) * len(corpus.test)
    assert {row.predicted for row in rows} <= set(corpus.labels)
    assert {row.task for row in rows} == {name}
    out = Outcomes(rows, labels=study.LABELS, draws=100)
    printed = study.printed_f1(run.printed, name)
    html = unescape(study.reproduction_table(run, out, name, "all").html)
    assert all(number.printed in html for number in printed)
    assert all(study.LABELS[arm] in html for arm in arms)


def knowing(right: int, request: str = "") -> Arm:
    """An arm that has the first so many rows right, with prompts of ten tokens more for each."""

    def answer(examples) -> list[Prediction]:
        return [
            Prediction(
                e.label if i < right else "none of these",
                prompt_tokens=100 + 10 * right,
                request=request,
            )
            for i, e in enumerate(examples)
        ]

    return answer


def toy(
    run: record.Run, name: str, right: dict[str, int], n: int = 60, model: str = "GPT-4"
) -> list[Answer]:
    rows = [Example(f"{name}.{i}", f"text {i}", "X" if i % 2 else "Y", ()) for i in range(n)]
    corpus = Corpus(name, "classification", (), (), tuple(rows), {"X": "x", "Y": "y"})
    arms = {
        arm: knowing(hits, request="key" if arm != "encoded" else "") for arm, hits in right.items()
    }
    return study.answer(run, corpus, arms, rows, model=model)


def test_the_answer_calls_a_difference_one_only_if_it_is_significant_on_the_same_rows(
    run: record.Run,
):
    rows = toy(
        run, "UMLS", {"zero_shot": 5, "biomedrag": 20, "encoded": 35, "tfidf": 10, "pair_new": 60}
    )
    told = study.summary(run, Outcomes(rows, labels=study.LABELS, draws=500), ["UMLS"])
    assert "significantly raises" in told
    assert "; the best method without a language model is significantly better than" in told
    assert re.search(r"58\.3.% \(Encoder and logistic regression; 100\.0 % .*without", told), (
        "an arm that is filtered is no floor"
    )
    assert "fine-tuned" not in told
    tuned = toy(run, "UMLS", {"lora": 30, "lora_rag": 42}, model="small")
    told = study.summary(run, Outcomes(rows + tuned, labels=study.LABELS, draws=500), ["UMLS"])
    assert re.search(
        r"Without and with the document, a fine-tuned small model reaches 50\.0.% and 70\.0.%", told
    )
    rows = toy(run, "UMLS", {"zero_shot": 18, "biomedrag": 20, "encoded": 22})
    rows += toy(run, "ADInt", {"zero_shot": 5, "biomedrag": 20, "encoded": 60}, n=60)
    more = [
        row for row in toy(run, "ADInt", {"encoded": 0}, n=90) if int(row.unit.split(".")[1]) >= 60
    ]
    told = study.summary(
        run, Outcomes(rows + more, labels=study.LABELS, draws=500), ["UMLS", "ADInt"]
    )
    assert "F1 on one of two data sets; the best method without a language model" in told
    assert "better than the prompted model with it on one of" in told
    assert "100.0" in told, "rows that BiomedRAG did not answer do not count"


def verdict(run: record.Run, rows: list[Answer], *claims: str) -> dict[str, str]:
    rules.decide(run, Outcomes(rows, labels=study.LABELS, draws=500), *claims)
    return {found.id.rpartition(".")[2]: found.verdict for found in run.claims}


@pytest.mark.parametrize(
    ("biomedrag", "trained", "expected"),
    # a logistic regression that is worse says nothing of the paper's fine-tuned encoders
    [(50, 10, "not run"), (20, 50, "agrees"), (24, 22, "undecided")],
)
def test_small_models_are_on_par_if_the_interval_leaves_no_room_for_worse(
    biomedrag: int, trained: int, expected: str, run: record.Run
):
    # the comparator is fixed: another arm that does better changes nothing
    rows = toy(
        run, "UMLS", {"zero_shot": 5, "biomedrag": biomedrag, "encoded": trained, "tfidf": 60}
    )
    assert verdict(run, rows, "small_models_on_par_links") == {
        "small_models_on_par_links": expected
    }


@pytest.mark.parametrize(
    ("llm", "trained", "expected"), [(50, 10, "agrees"), (10, 50, "differs"), (21, 20, "undecided")]
)
def test_a_prompted_model_must_be_significantly_better(
    llm: int, trained: int, expected: str, run: record.Run
):
    rows = toy(run, "MTSamples", {"zero_shot": llm, "encoded": 0})
    rows += toy(run, "MTSamples", {"lora": trained}, model="meta-llama/Llama-2-13b-hf")
    rows += toy(run, "ADE-corpus-v2", {"zero_shot": 60, "lora": 0})
    assert set(verdict(run, rows, "prompted_llm_best_on_mtsamples").values()) == {expected}


@pytest.mark.parametrize(
    ("prompted", "tuned", "expected"),
    [
        ("Qwen2.5-Coder-1.5B-Instruct", "", "not run"),
        ("gpt-4", "", "differs"),
        # a fine-tuned model that the paper names decides, another one does not
        ("gpt-4", "meta-llama/Llama-2-13b-hf", "agrees"),
        ("Qwen2.5-Coder-1.5B-Instruct", "SmolLM2-135M-Instruct", "not run"),
        # the paper fine-tunes Llama-2, so what it does when prompted is not the claim
        ("meta-llama/Llama-2-13b-chat-hf", "", "not run"),
    ],
)
def test_only_the_papers_models_decide_whether_biomedrag_improves_them(
    prompted: str, tuned: str, expected: str, run: record.Run
):
    rows = toy(run, "UMLS", {"zero_shot": 40, "biomedrag": 10}, model=prompted)
    rows += toy(run, "UMLS", {"lora": 10, "lora_rag": 40}, model=tuned) if tuned else []
    assert set(verdict(run, rows, "beats_llm_links").values()) == {expected}


def test_arms_fill_the_cells_beside_them_and_the_rest_is_explained(run: record.Run):
    rows = toy(run, "ADE-corpus-v2", {"zero_shot": 10, "biomedrag": 20, "encoded": 30})
    rows += toy(run, "ADE-corpus-v2", {"lora": 30, "lora_rag": 40}, model="a small model")
    out = Outcomes(rows, labels=study.LABELS, draws=100)
    study.report(run, out, {"ADE-corpus-v2": "a note"})
    values = {value.id: value for value in run._values.values()}
    f1 = {
        row: values[f"biomedrag.table2.{row}.ade_f1"].value
        for row in ("gpt4", "gpt4_br", "llama2", "llama2_br")
    }
    assert f1 == pytest.approx(
        {"gpt4": 1 / 6, "gpt4_br": 1 / 3, "llama2": 1 / 2, "llama2_br": 2 / 3}
    )
    assert values["biomedrag.table2.llama2.ade_f1"].model == "a small model"
    assert values["biomedrag.text.gain.ade_gpt4"].value == pytest.approx(100 / 6)
    of_ade = [n.id for n in run.printed.numbers if n.table == "Table 2" and ".ade_" in n.id]
    explained = {reason.id for reason in run._reasons.values()}
    # Figure 2 is of a fine-tuned model with n sentences, which no arm here is
    assert "biomedrag.figure2.ade.top1" in explained
    assert set(of_ade) <= explained | set(values)


def test_a_fine_tuned_arm_whose_answers_cannot_be_read_fills_no_cell(run: record.Run):
    corpus = Corpus(
        "UMLS", "links", (), (), (link("a", "isa", "b"), link("b", "isa", "c")), {"isa": "is a"}
    )
    unread = {"lora": lambda rows: [Prediction(None, request="key") for _ in rows]}
    rows = study.answer(run, corpus, unread, corpus.test, model="a small model")
    study.report(run, Outcomes(rows), {"UMLS": ""})
    assert not run._values
    assert "biomedrag.table2.llama2.umls_f1" in {reason.id for reason in run._reasons.values()}


def test_a_precision_without_any_prediction_is_explained_and_not_a_number(run: record.Run):
    corpus = Corpus(
        "GIT-RE",
        "relations",
        (),
        (),
        (link("a", "isa", "b"), link("b", "isa", "c")),
        {"isa": "is a"},
    )
    silent = {"zero_shot": lambda rows: [Prediction(None, request="key") for _ in rows]}
    rows = study.answer(run, corpus, silent, corpus.test, model="a small model")
    study.report(run, Outcomes(rows, draws=100), {"GIT-RE": ""})
    reasons = {reason.id: reason.why for reason in run._reasons.values()}
    assert "undefined" in reasons["biomedrag.table1.gpt4.git_re_precision"]
    assert {value.value for value in run._values.values()} == {0.0}  # recall and F1 are defined


PARTS = ("scorer_beats_cosine", "diversity_helps", "longest_chunks_best")


def ablated(
    run: record.Run, counts: list[int], tuned: str = "", model: str = "GPT-4"
) -> list[Answer]:
    right = {"biomedrag": 55, "cosine": 52, "plain": 5, "m3": 54, "m4": 54}
    of = {model: right | {ablation.knn(n): min(50, 3 * n) for n in counts}}
    if tuned:
        of[tuned] = {ablation.tuned(arm): n for arm, n in right.items()} | {"lora": 4}
    made = [
        row
        for name in ablation.PLACES
        for by, arms in of.items()
        for row in toy(run, name, arms, model=by)
    ]
    parts = {
        f"{part}_{name}": name
        for part in ("head", "tail", "relation")
        for name in ("precision", "recall", "f1")
    }
    return [
        replace(
            row, measures={**row.measures, **{of: row.measures[name] for of, name in parts.items()}}
        )
        for row in made
    ]


UNASKED = ("five_words_elsewhere", "less_training_time")


def test_the_ablation_leaves_no_printed_number_and_no_claim_untold(run: record.Run):
    rows = ablated(run, [0, 1, 5], tuned="meta-llama/Llama-2-13b-hf")
    verdict(
        run,
        rows,
        *PARTS,
        "one_chunk_beats_many",
        "more_documents_do_not_help",
        "shorter_input",
        *UNASKED,
    )
    ablation.report(run, Outcomes(rows, labels=study.LABELS, draws=100))
    assert run._values["rerun", "biomedrag.table4.te_without_diversity.f1"].value == pytest.approx(
        5 / 60
    )
    assert run._values["rerun", "biomedrag.figure3.git_re_f1.m3"].value == pytest.approx(54 / 60)
    told = {reason.id for reason in run._reasons.values()} | {
        value.id for value in run._values.values()
    }
    for number in run.printed.numbers:
        ours = number.id.startswith(
            (
                "biomedrag.table4.",
                "biomedrag.figure3.",
                "biomedrag.figure2.git.",
                "biomedrag.figure2.git_re.",
            )
        )
        assert not ours or number.why_no_rerun or number.id in told, number.id
    assert (
        {claim.id.rpartition(".")[2]: claim.verdict for claim in run.claims}
        == {
            "scorer_beats_cosine": "undecided",  # three discordant rows are too few for a significant difference
            "diversity_helps": "agrees",
            "longest_chunks_best": "undecided",
            "one_chunk_beats_many": "not run",  # no model is fine-tuned with the sentences
            "more_documents_do_not_help": "not run",  # five sentences are not many
            "shorter_input": "differs",  # these prompts grow with the rows that are right
            **dict.fromkeys(UNASKED, "not run"),
        }
    )
    out = Outcomes(rows, labels=ablation.labels([0, 1, 5], [3, 4, 5]), draws=100)
    words = ablation.summary(out, [0, 1, 5])
    assert "best n tried for RA-KNN-n is n = 5 on GIT" in words
    assert len(re.findall(r"\.(?:\*\*)?(?:\s|$)", words)) == 3
    html = unescape(ablation.reproduction_table(run, out, [3, 4, 5], "F1").html)
    assert all(
        run.printed.number(f"biomedrag.{id}").printed in html
        for id in ("table4.te_whole.f1", "figure3.git_re_f1.m4")
    )


@pytest.mark.parametrize(("tuned", "model"), [("a small model", "GPT-4"), ("", "Llama-2-13b-chat")])
def test_only_a_model_of_the_paper_fine_tuned_for_each_variant_decides_the_ablation(
    tuned: str, model: str, run: record.Run
):
    rows = ablated(run, [0, 1, 5], tuned=tuned, model=model)
    assert set(verdict(run, rows, *PARTS).values()) == {"not run"}
    assert {found.reason for found in run.claims} == {"stand-in"}


def test_models_fine_tuned_with_n_sentences_decide_what_many_are_worth(run: record.Run):
    rows = ablated(run, [0, 1, 20], tuned="meta-llama/Llama-2-13b-hf")
    nearest = {ablation.tuned(ablation.knn(n)): right for n, right in ((1, 3), (20, 50))}
    rows += [
        row
        for name in ablation.PLACES
        for row in toy(run, name, nearest, model="meta-llama/Llama-2-13b-hf")
    ]
    told = verdict(run, rows, "one_chunk_beats_many", "more_documents_do_not_help")
    assert told == {"one_chunk_beats_many": "undecided", "more_documents_do_not_help": "differs"}
    for name, (_, figure) in ablation.PLACES.items():
        of = figure.removesuffix("_triple_f1").removesuffix("_f1")
        ablation.report(run, Outcomes(rows, labels=study.LABELS, draws=100))
        assert run._values["rerun", f"biomedrag.figure2.{of}.llama2_top20"].value == pytest.approx(
            50 / 60
        ), name


def test_many_sentences_are_compared_with_one(run: record.Run):
    verdict(run, ablated(run, [0, 1, 20]), "more_documents_do_not_help")
    assert "n = 20 minus n = 1: GIT +78.3" in run.claims[0].why
