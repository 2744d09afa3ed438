"""The chapters of biomedrag.md: floors, subsets, cells, claims and the ablation, read off the table of answers."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from html import unescape

import numpy as np
import pytest
from hypothesis import given, strategies as st

from evaluation import figures, record, rules
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from helpers import vectors
from helpers.completions import CapabilityError
from papers.biomedrag import ablation, gains, rules as paper_rules, study
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
    sample = stratified(rows, n, seed)
    assert len(sample) == min(n, len(rows))
    assert [int(row.id) for row in sample] == sorted({int(row.id) for row in sample})
    assert sample == stratified(rows, n, seed)
    counts = Counter(labels)
    for label, count in Counter(row.label for row in sample).items():
        assert abs(count - counts[label] * len(sample) / len(rows)) < 2


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


def assert_short_answer(opening: str, run: record.Run) -> None:
    """The first paragraph has three plain sentences, and nothing that the paper prints."""
    answer, _, details = opening.partition("\n\n")
    assert details
    assert len(answer.split()) <= 70
    assert answer.count("[") <= 3, "no more than three estimates"
    assert len(re.findall(r"\.(?:\*\*)?(?:\s|$)", answer)) <= 3
    assert not re.search(r"[();]|printed|prints", answer)


def test_the_answer_leads_with_the_fine_tuned_model_and_calls_significant_what_is(
    run: record.Run,
):
    rows = toy(run, "UMLS", {"zero_shot": 5, "biomedrag": 20, "encoded": 35, "tfidf": 10})
    out = Outcomes(rows, labels=study.LABELS, draws=500)
    summary = gains.summary(run, out, ["UMLS"])
    assert summary.startswith(
        "**With BiomedRAG's labelled example, prompted GPT-4 scores significantly higher than without "
        "it on UMLS.**"
    )
    rows += toy(run, "UMLS", {"lora": 40, "lora_rag": 20}, model="small")
    rows += toy(run, "ADInt", {"lora": 30, "lora_rag": 31}, model="small")
    out = Outcomes(rows, labels=study.LABELS, draws=500)
    summary = gains.summary(run, out, ["UMLS", "ADInt"])
    assert summary.startswith(
        "**With BiomedRAG's labelled example, fine-tuned small scores significantly lower than without "
        "it on UMLS.** Its accuracy is 33.3 ["
    )
    assert "] points lower on UMLS and 1.7 [" in summary
    assert "] points higher on ADInt, where the difference is not significant." in summary
    assert (
        "Prompted with the example, GPT-4 scores significantly higher than without it on UMLS."
        in summary
    )
    assert "the fine-tuned model is right on 33.3 % of 60 test rows of UMLS." in summary
    assert (
        "BiomedRAG raises the F1 of LLaMA2 13B by 3.68 points on UMLS and 0.84 points on ADInt."
        in summary
    )
    assert_short_answer(summary, run)
    equal = toy(run, "UMLS", {"lora": 30, "lora_rag": 30}, model="small")
    summary = gains.summary(run, Outcomes(equal, draws=500), ["UMLS"])
    assert "does not score significantly higher or lower than without it" in summary
    assert "points higher. The difference is not significant." in summary
    assert_short_answer(summary, run)
    html = unescape(gains.table(run, out, ["UMLS", "ADInt"], study.FLOORS).html)
    assert "+3.68 (LLaMA2 13B); +24.59 (MedLLaMA 13B)" in html
    assert html.index("fine-tuned: with minus") < html.index("prompted: with minus")
    picture = gains.plot(run, out, ["UMLS", "ADInt"], study.FLOORS).html
    assert "Fine-tuned, n = 60: printed 56.1" in picture
    assert "Encoder and logistic regression, n = 60: here 58.3" in picture


def test_arms_that_a_server_cannot_serve_are_said_not_to_have_run(run: record.Run):
    def mute(_: object) -> list[Prediction]:
        raise CapabilityError("the server refuses it")

    rows = [Example(f"UMLS.{i}", f"text {i}", "X" if i % 2 else "Y", ()) for i in range(20)]
    corpus = Corpus("UMLS", "classification", (), (), tuple(rows), {"X": "x", "Y": "y"})
    answers = toy(run, "UMLS", {"encoded": 10}, n=20)
    answers += study.answer(run, corpus, {"zero_shot": mute, "biomedrag": mute}, rows, "a model")
    out = Outcomes(answers, labels=study.LABELS, draws=100)
    assert "the server refuses it" in gains.summary(run, out, ["UMLS"])
    gains.table(run, out, ["UMLS"], study.FLOORS)
    assert "Prompted: printed 6.0" in gains.plot(run, out, ["UMLS"], study.FLOORS).html
    study.report(run, out, {"UMLS": ""})
    assert not [id for kind, id in run._values if kind == "rerun"]
    reasons = {reason.id: reason.why for reason in run._reasons.values()}
    assert "the server refuses it" in reasons["biomedrag.table2.gpt4_br.umls_f1"]
    assert "the server refuses it" in reasons["biomedrag.text.gain.umls_gpt4"]
    study.reproduction_table(run, out, "UMLS", "UMLS")
    rules.decide(run, out, "beats_llm_links", printed=run.printed)


def interactions(run: record.Run, right: dict[str, int], model: str) -> list[Answer]:
    """Arms that have so many of 60 interactions right, and all of 90 rows without one."""

    def triples(label: str) -> tuple[Triple, ...]:
        return (Triple("a", label, "b"),)

    gold = ["effect" if i < 60 else "None" for i in range(150)]
    rows = [Example(f"DDI.{i}", f"{i}", gold[i], triples(gold[i])) for i in range(150)]
    corpus = Corpus("DDI", "triples", (), (), tuple(rows), {"effect": "e", "None": "n"})

    def arm(n: int) -> Arm:
        def answer(examples) -> list[Prediction]:
            labels = ["effect" if i < n else "None" for i, _ in enumerate(examples)]
            return [Prediction(label, triples(label), request="key") for label in labels]

        return answer

    arms = {name: arm(n) for name, n in right.items()}
    return study.answer(run, corpus, arms, rows, model=model)


def test_printed_cells_of_ddi_are_compared_on_the_rows_that_state_an_interaction(run: record.Run):
    rows = interactions(run, {"lora": 3, "lora_rag": 30}, "meta-llama/Llama-2-13b-hf")
    out = Outcomes(rows, labels=study.LABELS, draws=500)
    study.report(run, out, {"DDI": "a note"})
    value = run._values["rerun", "biomedrag.table1.llama2_br.ddi_recall"]
    assert (value.value, value.n) == (pytest.approx(30 / 60), 60)
    assert "60 of 150 test rows that state an interaction" in value.note
    assert "On all 150 rows, the value is 80.0" in value.note
    gain = run._values["rerun", "biomedrag.text.gain.ddi_llama2"]
    assert gain.value == pytest.approx(100 * 27 / 60)
    table = unescape(study.reproduction_table(run, out, "DDI", "DDI").html)
    assert "F1, 60 rows with an interaction" in table
    of_none = study.no_interaction_table(out).text
    assert re.search(r"Fine-tuned LLM +150 +147 +57 of 60", of_none)
    html = unescape(gains.table(run, out, ["DDI"], study.FLOORS).html)
    assert "+45.0" in html
    assert "DDI, all test rows" in html
    assert "DDI, 60 rows that state an interaction" in html
    summary = gains.summary(
        run, out.concat(toy(run, "UMLS", {"lora": 1, "lora_rag": 1})), ["DDI", "UMLS"]
    )
    assert re.search(
        r"is right on \S+ % of 60 test rows of DDI that state an interaction\.", summary
    )
    assert "higher than without it on the 60 of 150 rows of DDI that state an inter" in summary
    assert "leave out the 90 test rows that state no interaction." in summary
    assert "On all 150 rows of DDI, accuracy is " in summary
    assert "higher with the example than without it" in summary
    rules.decide(run, out, "beats_llm_triples", printed=run.printed)
    (claim,) = [claim for claim in run.claims if claim.kind == "rerun"]
    assert "n = 60 rows that state an interaction" in claim.why
    assert "On all 150 rows" in claim.why


@pytest.mark.parametrize(
    ("model", "row"),
    [
        ("meta-llama/Llama-2-13b-hf", "llama2"),
        ("chaoyi-wu/MedLLaMA_13B", "medllama"),
        ("SmolLM2-135M-Instruct", "llama2"),
    ],
)
def test_a_fine_tuned_model_fills_the_rows_of_its_own_name(model: str, row: str, run: record.Run):
    rows = toy(run, "UMLS", {"lora": 30, "lora_rag": 40}, model=model)
    study.report(run, Outcomes(rows, labels=study.LABELS, draws=100), {"UMLS": ""})
    tables = {id.split(".")[2] for _, id in run._values if ".table2." in id}
    assert tables == {row, f"{row}_br"}
    other = {"llama2": "medllama", "medllama": "llama2"}[row]
    name = {"llama2": "LLaMA2 13B", "medllama": "MedLLaMA 13B"}[row]
    why = run._reasons["rerun", f"biomedrag.table2.{other}.umls_f1"].why
    assert f"We compare its answers with the rows of {name}." in why


def test_two_fine_tuned_models_fill_the_rows_of_both_in_one_run(run: record.Run):
    base, second_base = "meta-llama/Llama-2-13b-hf", "chaoyi-wu/MedLLaMA_13B"
    rows = toy(run, "UMLS", {"lora": 10, "lora_rag": 20}, model=base)
    second = toy(run, "UMLS", {"lora": 30, "lora_rag": 40}, model=second_base)
    out = Outcomes(rows, labels=study.LABELS, draws=100)
    study.report(run, out.concat(second), {"UMLS": ""})
    recalls = {
        id.split(".")[2]: (value.value, value.model)
        for (_, id), value in run._values.items()
        if id.endswith("umls_recall")
    }
    assert recalls == {
        "llama2": (10 / 60, base),
        "llama2_br": (20 / 60, base),
        "medllama": (30 / 60, second_base),
        "medllama_br": (40 / 60, second_base),
    }
    table = study.second_table(run, out, second, ["UMLS"], "how")
    assert isinstance(table, figures.Html)
    assert re.search(r"UMLS +[\d.]+% +Fine-tuned LLM with BiomedRAG .* 66\.7", table.text)
    assert study.second_table(run, out, [], ["UMLS"], "why not") == "why not"
    assert study.second_table(run, out, [], ["UMLS"], "") is None


@pytest.mark.parametrize("discordant", [0.0, 0.1])
def test_a_rerun_at_the_printed_recalls_of_ddi_does_not_refute_a_gain(discordant: float):
    """The printed recalls are 79.61 without and 79.10 with BiomedRAG, of 368 rows."""
    verdicts: Counter[str] = Counter()
    for seed in range(40):
        u = np.random.default_rng(seed).random(368)
        only_alone = u < 0.0051 + discordant
        only_added = (u >= 0.0051 + discordant) & (u < 0.0051 + 2 * discordant)
        both = u >= 1 - 0.7910 + discordant
        rows = []
        for arm, right in (("lora", only_alone | both), ("lora_rag", only_added | both)):
            for i, value in enumerate(right):
                measures = {"right": (float(value), 1.0)}
                unit = f"DDI.{i}"
                row = Answer(
                    arm, unit, cluster=unit, task="DDI", model="MedLLaMA", measures=measures
                )
                rows.append(row)
        verdicts[paper_rules.beats_llm_tuned(Outcomes(rows, draws=200)).verdict] += 1
    assert verdicts["differs"] <= 1
    assert verdicts["agrees"] <= 1, "368 rows cannot show so small a difference"


def verdict(run: record.Run, rows: list[Answer], *claims: str) -> dict[str, str]:
    out = Outcomes(rows, labels=study.LABELS, draws=500)
    rules.decide(run, out, *claims, printed=run.printed)
    return {
        finding.id.rpartition(".")[2]: finding.verdict
        for finding in run.claims
        if finding.kind == "rerun"
        or finding.id not in {other.id for other in run.claims if other.kind == "rerun"}
    }


@pytest.mark.parametrize(
    ("biomedrag", "trained", "expected"),
    # a logistic regression that is worse says nothing of the paper's fine-tuned encoders
    [(50, 10, "not run"), (20, 50, "with the claim"), (24, 22, "inconclusive")],
)
def test_small_models_are_on_par_if_the_interval_leaves_no_room_for_worse(
    biomedrag: int, trained: int, expected: str, run: record.Run
):
    # the comparators are fixed: another arm that does better changes nothing
    rows = toy(
        run, "UMLS", {"zero_shot": 5, "biomedrag": biomedrag, "encoded": trained, "tfidf": 60}
    )
    assert verdict(run, rows, "small_models_on_par_links") == {
        "small_models_on_par_links": "not tested"  # a frozen encoder is no encoder of the paper
    }
    (here,) = run.here_findings
    assert here.answer == expected
    reasons = {claim.kind: (claim.verdict, claim.reason) for claim in run.claims}
    assert reasons["rerun"] == ("not tested", "another system")
    assert reasons["printed"] == ("inconclusive", None)


def test_small_models_are_not_on_par_if_the_language_model_alone_does_better(run: record.Run):
    rows = toy(run, "UMLS", {"zero_shot": 50, "biomedrag": 10, "encoded": 20})
    verdict(run, rows, "small_models_on_par_links")
    (here,) = run.here_findings
    assert (here.answer, here.reason) == ("not run", "another system")


def test_a_gain_of_two_arms_without_a_right_row_is_said_to_be_near_the_floor(run: record.Run):
    rows = toy(run, "DDI", {"lora": 0, "lora_rag": 2}, model="small")
    rows += toy(run, "GIT", {"lora": 30, "lora_rag": 20}, model="small")
    rows += toy(run, "GIT", {"zero_shot": 5, "biomedrag": 20})
    why = paper_rules.beats_llm_tuned(Outcomes(rows, labels=study.LABELS, draws=500)).why
    assert "On DDI, accuracy is 3.3 % for the fine-tuned LLM with BiomedRAG and 0.0 % for" in why
    assert why.count("near zero") == 1
    assert (
        "2 of 60 rows are right for the fine-tuned LLM with BiomedRAG, and 0 for the fine-tuned "
        "LLM alone" in why
    )
    assert re.search(
        r"The gain of the prompted model does not decide the claim\. On GIT, .* is \+25\.0", why
    )


def test_what_gpt4_knows_is_not_asked_of_other_models(run: record.Run):
    rows = toy(run, "MTSamples", {"zero_shot": 10}, model="a prompted model")
    rows += toy(run, "MTSamples", {"lora": 50}, model="a small model")
    assert verdict(run, rows, "prompted_llm_best_on_mtsamples") == {
        "prompted_llm_best_on_mtsamples": "inconclusive"
    }
    (here,) = run.here_findings
    assert (here.answer, here.reason) == ("not run", "printed only")


def test_a_prompted_model_below_the_commonest_label_is_said_to_be_so(run: record.Run):
    rows = toy(run, "UMLS", {"zero_shot": 5, "biomedrag": 20, "majority": 22})
    rows += toy(run, "ADInt", {"zero_shot": 5, "biomedrag": 40, "majority": 20})
    rows += toy(run, "GIT", {"zero_shot": 1, "biomedrag": 3, "majority": 30})
    out = Outcomes(rows, labels=study.LABELS, draws=500)
    (text,) = gains.commonest_texts(out, ["UMLS", "ADInt", "GIT"])
    assert text.startswith("On UMLS, the prompted model's accuracy with the example, 33.3 %, does")
    assert text.endswith("from that of always answering the most common label, 36.7 %.")
    summary = gains.summary(run, out, ["UMLS", "ADInt", "GIT"])
    assert "The prompted model's accuracy with the example is 5.0 % on GIT." in summary
    assert text in summary
    assert_short_answer(summary, run)
    rows = toy(run, "UMLS", {"biomedrag": 5, "majority": 40})
    out = Outcomes(rows, labels=study.LABELS, draws=500)
    (text,) = gains.commonest_texts(out, ["UMLS"])
    assert "is significantly lower than that of always answering the most common label" in text


def test_a_gain_near_the_floor_is_said_to_be_one_in_the_opening(run: record.Run):
    rows = toy(run, "DDI", {"lora": 0, "lora_rag": 2}, model="small")
    out = Outcomes(rows, labels=study.LABELS, draws=500)
    summary = gains.summary(run, out, ["DDI"])
    assert "2 of 60 rows are right with the example, and 0 without it." in summary
    rows = toy(run, "DDI", {"lora": 0, "lora_rag": 9}, n=400, model="small")
    rows += toy(run, "GIT", {"lora": 300, "lora_rag": 200}, n=400, model="small")
    rows += toy(run, "ChemProt", {"lora": 200, "lora_rag": 201}, n=400, model="small")
    rows += toy(run, "GIT", {"zero_shot": 5, "biomedrag": 40}, n=400)
    names = ["GIT", "DDI", "ChemProt"]
    summary = gains.summary(run, Outcomes(rows, labels=study.LABELS, draws=500), names)
    assert (
        "lower than without it on GIT, and higher on DDI, where hardly any answer is right.**"
        in summary
    )
    assert_short_answer(summary, run)


def test_this_run_answers_for_each_data_set_whether_the_example_helps(run: record.Run):
    claims = ("gain_on_git", "better_on_ade", "better_on_adint", "better_on_umls", "gain_on_ddi")
    rows = toy(run, "GIT", {"lora": 40, "lora_rag": 20}, model="small")
    rows += toy(run, "ADInt", {"lora": 20, "lora_rag": 40}, model="small")
    rows += toy(run, "UMLS", {"lora": 30, "lora_rag": 31}, model="small")
    rows += toy(run, "ADE-corpus-v2", {"zero_shot": 20, "biomedrag": 40})
    assert set(verdict(run, rows, *claims).values()) == {"not tested"}
    answers = {finding.id.rpartition(".")[2]: finding for finding in run.here_findings}
    assert {name: finding.answer for name, finding in answers.items()} == {
        "gain_on_git": "against it",
        "better_on_ade": "with the claim",  # no model is fine-tuned on it
        "better_on_adint": "with the claim",
        "better_on_umls": "inconclusive",
        "gain_on_ddi": "not run",
    }
    assert answers["gain_on_ddi"].reason == "no answers"
    assert {claim.reason for claim in run.claims if claim.kind == "rerun"} == {"another system"}


def test_a_gain_on_ddi_states_that_its_rows_state_an_interaction(run: record.Run):
    rows = []
    for row in toy(run, "DDI", {"lora": 20, "lora_rag": 40}, model="small"):
        relation = study.STATED if int(row.cluster[-1]) % 2 else "none"
        rows.append(replace(row, strata={"relation": relation}))
    rows += toy(run, "GIT", {"lora": 20, "lora_rag": 40}, model="small")
    out = Outcomes(rows, labels=study.LABELS, draws=100)
    (on_ddi,) = paper_rules.tuned_on_ddi(out).estimates
    assert on_ddi.measure == "right"
    assert on_ddi.where == {"task": ["DDI"], "relation": [study.STATED]}
    assert on_ddi.n == len(study.comparable(out.where(task="DDI", arm="lora")).frame)
    (on_git,) = paper_rules.tuned_on_git(out).estimates
    assert on_git.where == {"task": ["GIT"]}


def test_the_whole_method_of_table_4_is_filled_with_that_of_table_1(run: record.Run):
    rows = toy(run, "GIT-RE", {"lora": 30, "lora_rag": 40}, model="a small model")
    study.report(run, Outcomes(rows, labels=study.LABELS, draws=100), {"GIT-RE": ""})
    whole = run._values["rerun", "biomedrag.table4.re_whole.f1"]
    assert whole.value == run._values["rerun", "biomedrag.table1.llama2_br.git_re_f1"].value


def test_an_unparsed_answer_is_named_where_a_gain_in_f1_is_reported(run: record.Run):
    rows = toy(run, "UMLS", {"lora": 30, "lora_rag": 40}, model="a small model")
    rows[0] = replace(rows[0], parsed=False)
    study.report(run, Outcomes(rows, labels=study.LABELS, draws=100), {"UMLS": ""})
    note = run._values["rerun", "biomedrag.text.gain.umls_llama2"].note
    assert "leaves out one unparsed answer. Accuracy counts it as wrong." in note
    assert "two sides" not in note, "F1 and accuracy say the same"


def test_a_gain_that_is_clear_by_f1_alone_is_said_to_decide_nothing(run: record.Run):
    rows = toy(run, "UMLS", {"lora": 30, "lora_rag": 40}, model="a small model")
    out = Outcomes(rows, labels=study.LABELS, draws=500)
    pair = ("lora_rag", "lora")
    clear = study.gain(out, *pair)
    assert clear.low > 0
    assert study._borderline_note(out, pair, clear) == ""
    note = study._borderline_note(out, pair, replace(clear, low=-0.01))
    assert "contains 0, but the difference in accuracy is significant" in note


@pytest.mark.parametrize(
    ("prompted", "tuned", "expected"),
    [
        ("Qwen2.5-Coder-1.5B-Instruct", "", "not tested"),
        ("gpt-4", "", "differs"),
        # a fine-tuned model that the paper names decides, another one does not
        ("gpt-4", "meta-llama/Llama-2-13b-hf", "agrees"),
        ("Qwen2.5-Coder-1.5B-Instruct", "SmolLM2-135M-Instruct", "not tested"),
        # the paper fine-tunes Llama-2, so what it does when prompted is not the claim
        ("meta-llama/Llama-2-13b-chat-hf", "", "not tested"),
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
    arms_by_model = {model: right | {ablation.knn(n): min(50, 3 * n) for n in counts}}
    if tuned:
        arms_by_model[tuned] = {ablation.tuned(arm): n for arm, n in right.items()} | {"lora": 4}
    rows = [
        row
        for name in ablation.PLACES
        for model_name, arms in arms_by_model.items()
        for row in toy(run, name, arms, model=model_name)
    ]
    parts = {
        f"{part}_{name}": name
        for part in ("head", "tail", "relation")
        for name in ("precision", "recall", "f1")
    }
    return [
        replace(
            row,
            measures={**row.measures, **{part: row.measures[name] for part, name in parts.items()}},
        )
        for row in rows
    ]


UNASKED = ("five_words_elsewhere", "less_training_time", "bie_explains", "zero_shot_explains")
UNDEFINED = ("table_filling_explains", "bypasses_noise", "robust")


def test_the_ablation_leaves_no_printed_number_and_no_claim_untold(run: record.Run):
    rows = ablated(run, [0, 1, 5], tuned="meta-llama/Llama-2-13b-hf")
    verdict(
        run,
        rows,
        *PARTS,
        "one_chunk_beats_many",
        "more_documents_do_not_help",
        *UNASKED,
        *UNDEFINED,
    )
    ablation.report(run, Outcomes(rows, labels=study.LABELS, draws=100))
    assert run._values["rerun", "biomedrag.table4.te_without_diversity.f1"].value == pytest.approx(
        5 / 60
    )
    assert run._values["rerun", "biomedrag.figure3.git_re_f1.m3"].value == pytest.approx(54 / 60)
    explained = {reason.id for reason in run._reasons.values()} | {
        value.id for value in run._values.values()
    }
    for number in run.printed.numbers:
        is_of_ablation = "_whole" not in number.id and number.id.startswith(
            (
                "biomedrag.table4.",
                "biomedrag.figure3.",
                "biomedrag.figure2.git.",
                "biomedrag.figure2.git_re.",
            )
        )
        assert not is_of_ablation or number.why_no_rerun or number.id in explained, number.id
    assert (
        {c.id.rpartition(".")[2]: c.verdict for c in run.claims if c.kind == "rerun"}
        == {
            "scorer_beats_cosine": "inconclusive",  # three discordant rows are too few for a significant difference
            "diversity_helps": "agrees",
            "longest_chunks_best": "inconclusive",
            "one_chunk_beats_many": "not tested",  # no model is fine-tuned with the sentences
            "more_documents_do_not_help": "not tested",  # five sentences are not many
            **dict.fromkeys(UNASKED, "not tested"),
            **dict.fromkeys(UNDEFINED, "cannot be tested"),
        }
    )
    out = Outcomes(rows, labels=ablation.labels([0, 1, 5], [3, 4, 5]), draws=100)
    words = ablation.summary(out, [0, 1, 5])
    assert words.startswith(
        "**With the diversity step, which adds documents that combine retrieved pairs in different orders, the fine-tuned model's "
        "accuracy is significantly higher on GIT, by 83.3 ["
    )
    assert "We found no significant difference for the trained scorer on GIT and GIT-RE." in words
    assert "On GIT, accuracy is 5.0 [" in words, "what is not significant, too"
    assert "On GIT, accuracy is 83.3 [" in words
    assert "compares BiomedRAG with seven other arms on each data set" in words
    assert "RA-KNN-n is highest with n = 5 on GIT and n = 5 on GIT-RE." in words
    assert_short_answer(words, run)
    html = unescape(ablation.reproduction_table(run, out, [3, 4, 5], "F1").html)
    assert all(
        run.printed.number(f"biomedrag.{id}").printed in html
        for id in ("table4.te_whole.f1", "figure3.git_re_f1.m4")
    )


def test_the_ablation_counts_the_rows_on_which_the_scorer_changes_nothing(run: record.Run):
    prompts = {"biomedrag": ["a", "b", "c"], "cosine": ["a", "b", "d"]}
    rows = ablated(run, [0, 1])
    for place, row in enumerate(rows):
        if row.task == "GIT" and row.arm in prompts:
            request = prompts[row.arm][int(row.unit.rpartition(".")[2]) % 3]
            rows[place] = replace(row, requests=(request,))
    out = Outcomes(rows, labels=ablation.labels([0, 1], [3, 4, 5]), draws=100)
    words = ablation.summary(out, [0, 1])
    counts = "for 40 of the 60 rows of GIT and for all 60 rows of GIT-RE."
    assert f"cosine similarity {counts}" in words


@pytest.mark.parametrize(("tuned", "model"), [("a small model", "GPT-4"), ("", "Llama-2-13b-chat")])
def test_only_a_model_of_the_paper_fine_tuned_for_each_variant_decides_the_ablation(
    tuned: str, model: str, run: record.Run
):
    rows = ablated(run, [0, 1, 5], tuned=tuned, model=model)
    assert set(verdict(run, rows, *PARTS).values()) == {"not tested"}
    assert {c.reason for c in run.claims if c.kind == "rerun"} == {"another system"}
    printed = {c.verdict for c in run.claims if c.kind == "printed"}
    assert printed == {"inconclusive"}, "printed scores are no answers of a stand-in"
    assert all(finding.answer != "not run" and finding.models for finding in run.here_findings)


def test_models_fine_tuned_with_n_sentences_decide_what_many_are_worth(run: record.Run):
    rows = ablated(run, [0, 1, 20], tuned="meta-llama/Llama-2-13b-hf")
    nearest = {ablation.tuned(ablation.knn(n)): right for n, right in ((1, 3), (20, 50))}
    rows += [
        row
        for name in ablation.PLACES
        for row in toy(run, name, nearest, model="meta-llama/Llama-2-13b-hf")
    ]
    verdicts = verdict(run, rows, "one_chunk_beats_many", "more_documents_do_not_help")
    assert verdicts == {
        "one_chunk_beats_many": "inconclusive",
        "more_documents_do_not_help": "differs",
    }
    printed = [c.verdict for c in run.claims if c.kind == "printed"]
    assert printed == ["inconclusive", "inconclusive"], "a slight loss on ADInt refutes nothing"
    assert all("trained once" in c.why for c in run.claims if c.kind == "rerun")
    for name, (_, figure) in ablation.PLACES.items():
        place = figure.removesuffix("_triple_f1").removesuffix("_f1")
        ablation.report(run, Outcomes(rows, labels=study.LABELS, draws=100))
        assert run._values[
            "rerun", f"biomedrag.figure2.{place}.llama2_top20"
        ].value == pytest.approx(50 / 60), name


def test_many_sentences_are_compared_with_one(run: record.Run):
    verdict(run, ablated(run, [0, 1, 20]), "more_documents_do_not_help")
    assert "On GIT, accuracy changes by +78.3" in run.here_findings[0].why
    assert "fine-tuned no model on prompts with the nearest" in run.here_findings[0].why
