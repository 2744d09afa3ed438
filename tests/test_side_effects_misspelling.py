"""Misspelt drug names: the benchmark, each normaliser, what is recovered, and the released files."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import yaml
from conftest import python_says
from hypothesis import given, settings, strategies as st
from rapidfuzz.distance import DamerauLevenshtein
from short_answers import assert_short_answer

from evaluation import record, rules
from evaluation.answers import Answer, make_row
from evaluation.outcomes import Outcomes
from helpers.llm import LLM
from papers.side_effects import (
    corpus,
    forward as se,
    misspelling as mm,
    normalisers as nn,
    rules as paper_rules,
)
from papers.side_effects.corpus import Question
from papers.side_effects.misspelling import Query
from resources.settings import RAW, SAMPLE

DRUGS = sorted(yaml.safe_load((SAMPLE / "side_effects.yml").read_text(encoding="utf-8")))
names = st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1, max_size=14)


@pytest.fixture(scope="module")
def queries() -> list[Query]:
    return mm.benchmark(DRUGS, seed=1)


# -------------------------------------------------------------------------------------------------------------- names


@given(name=names, kind=st.sampled_from(mm.EDITS), edits=st.integers(1, 3), seed=st.integers(0, 99))
def test_a_misspelling_is_exactly_so_many_edits_away(name, kind, edits, seed):
    typed = mm.perturb(name, kind, edits, np.random.default_rng(seed))
    if typed is None:
        return
    assert DamerauLevenshtein.distance(typed, name) == edits
    assert len(typed) - len(name) == {"insert": edits, "delete": -edits}.get(kind, 0)
    if kind == "transpose":
        assert Counter(typed) == Counter(name)


@pytest.mark.parametrize("name", ["5-fu", "1,25(oh)2d3"])
def test_only_letters_are_touched(name):
    rng = np.random.default_rng(0)
    for kind in ("delete", "substitute"):
        if typed := mm.perturb(name, kind, 1, rng):
            assert [c for c in typed if not c.isalpha()] == [c for c in name if not c.isalpha()]


def test_a_name_too_short_or_all_alike_is_not_perturbed():
    rng = np.random.default_rng(0)
    assert mm.perturb("v", "insert", 1, rng) is None
    assert mm.perturb("abcde", "delete", 2, rng) is None
    assert mm.perturb("aaaa", "transpose", 1, rng) is None


@pytest.mark.parametrize(("kind", "edits"), [("swap", 1), ("insert", 0)])
def test_an_unknown_edit_is_refused(kind, edits):
    with pytest.raises(ValueError, match="An edit is one of"):
        mm.perturb("metformin", kind, edits, np.random.default_rng(0))


def test_the_benchmark_is_seeded_and_independent_of_the_order_of_the_drugs(queries):
    assert queries == mm.benchmark(DRUGS[::-1], seed=1)
    assert queries != mm.benchmark(DRUGS, seed=2)


@settings(max_examples=20)
@given(st.lists(names, min_size=4, max_size=30, unique=True), st.integers(0, 9))
def test_no_misspelling_is_a_drugs_name(drugs, seed):
    assert not {q.typed for q in mm.perturbed(drugs, seed)} & set(drugs)


def test_the_benchmark_has_every_kind_and_keeps_right_names(queries):
    kinds = Counter(q.kind for q in queries)
    assert set(kinds) >= {*mm.EDITS, "brand", "correct", "absent"}
    assert kinds["correct"] == len(DRUGS)
    assert all(q.typed == q.drug for q in queries if q.kind == "correct")
    assert all(q.drug is None for q in queries if q.kind == "absent")
    assert all(q.typed not in DRUGS for q in queries if q.kind != "correct")


def test_other_names_are_lower_case_said_once_and_disjoint():
    lists = yaml.safe_load(mm.OTHER_NAMES.read_text(encoding="utf-8"))
    typed = [name for kind in mm.OTHER_KINDS for name in lists[f"{kind}s"]] + lists["absent"]
    assert Counter(typed).most_common(1)[0][1] == 1
    assert all(name == name.lower() for name in typed)
    assert not set(lists["absent"]) & {
        d for kind in mm.OTHER_KINDS for drugs in lists[f"{kind}s"].values() for d in drugs
    }


def test_the_real_benchmark_has_over_a_thousand_names():
    path = RAW / "side_effects" / "drug_names.csv"
    if not path.is_file():
        pytest.skip("the real file has not been fetched")
    real = mm.benchmark(pd.read_csv(path).drug_name, seed=20251121)
    misspelt = [q for q in real if q.kind not in ("correct", "absent")]
    assert len(misspelt) > 1000
    cells = Counter((q.kind, q.edits) for q in misspelt if q.kind in mm.EDITS)
    assert min(cells.values()) > 150


def test_a_subset_is_even_over_kinds_and_edits(queries):
    sizes = {"misspelt": 24, "absent": 3}
    subset = mm.subset(queries, sizes, seed=3)
    assert Counter(q.group for q in subset) == sizes
    assert set(Counter((q.kind, q.edits) for q in subset if q.kind in mm.EDITS).values()) == {2}
    assert subset == mm.subset(queries, sizes, seed=3)
    with pytest.raises(ValueError, match="No query is 'brands'"):
        mm.subset(queries, {"brands": 1}, seed=3)


def test_the_papers_list_is_read_and_a_drug_that_is_not_known_has_no_answer(tmp_path):
    path = tmp_path / "names.csv"
    path.write_bytes(
        "\ufeffOriginal,Spelling error,,Comments\nlatanoprost ,latanaprost,,x\nmiglitol,miglitilol,,y\n".encode()
    )
    truths = mm.read_misspellings(path)
    assert truths == {"latanaprost": "latanoprost", "miglitilol": "miglitol"}
    assert [q.drug for q in mm.paper_queries(truths, ["latanoprost"])] == ["latanoprost", None]
    assert [q.edits for q in mm.paper_queries(truths, ["latanoprost"])] == [1, 2]


# -------------------------------------------------------------------------------------------------------- normalisers


def drugs_of(normaliser: nn.Normaliser, *typed: str) -> list[str | None]:
    return normaliser(list(typed))


EDITS = nn.EditRanker(DRUGS)


def test_the_ranker_knows_a_right_name_mends_a_slip_and_has_a_cut():
    normaliser = nn.Nearest(EDITS, 0.4)
    assert drugs_of(normaliser, *DRUGS) == DRUGS
    assert drugs_of(normaliser, "metfromin", "furosemid") == ["metformin", "furosemide"]
    assert drugs_of(nn.Nearest(EDITS, 0.99), "metfromin") == [None]
    assert EDITS([], 3) == []
    ranked = EDITS(["metfromin"], 5)[0]
    assert [s for _, s in ranked] == sorted((s for _, s in ranked), reverse=True)
    assert len({d for d, _ in ranked}) == 5
    assert EDITS(DRUGS[:1], 1)[0][0][1] == pytest.approx(1)


@given(st.lists(names, max_size=5))
def test_without_normalisation_only_right_names_are_found(typed):
    assert drugs_of(nn.Unchanged(DRUGS), *typed, "metformin")[-1] == "metformin"
    assert all(
        d is None or d == t
        for d, t in zip(drugs_of(nn.Unchanged(DRUGS), *typed), typed, strict=True)
    )


def test_the_dictionary_knows_trade_names_and_answers_in_our_names():
    pytest.importorskip("drug_named_entity_recognition")
    exact = nn.Dictionary(["acetaminophen", "fluoxetine"], fuzzy=False)
    assert drugs_of(exact, "tylenol", "paracetamol", "prozac", "floxetine", "breakfast") == [
        "acetaminophen",
        "acetaminophen",
        "fluoxetine",
        None,
        None,
    ]
    fuzzy = nn.Dictionary(["paracetamol", "metformin"])
    assert drugs_of(fuzzy, "tylenol", "metforminn") == ["paracetamol", "metformin"]


@pytest.mark.slow
def test_the_dictionary_breaks_ties_alike_whatever_the_hash_seed():
    pytest.importorskip("drug_named_entity_recognition")
    code = """
from papers.side_effects.normalisers import Dictionary
known = ["acetaminophen", "amikacin", "ampicillin", "ibuprofen", "iopamidol", "meperidine", "mitomycin", "sildenafil"]
print(Dictionary(known)(["apas", "sonovue", "ctaopra", "gntamci", "ibuild", "ipatrium", "mepridine", "tretomycin"]))
"""
    outputs = {python_says(code, PYTHONHASHSEED=seed) for seed in ("1", "2", "3")}
    assert len(outputs) == 1


def test_in_turn_asks_the_next_only_where_nothing_was_found():
    calls: list[list[str]] = []

    def second(typed):
        calls.append(list(typed))
        return ["x" for _ in typed]

    assert nn.InTurn((nn.Unchanged(DRUGS), second))(["metformin", "typo"]) == ["metformin", "x"]
    assert calls == [["typo"]]


@pytest.mark.parametrize(
    ("reply", "word"),
    [
        ("Fluoxetine", "fluoxetine"),
        (' "fluoxetine". It is', "fluoxetine"),
        ("5-fu\n", "5-fu"),
        ("", ""),
        ("**x**", "x"),
    ],
)
def test_the_word_is_read_from_a_reply(reply, word):
    assert nn.parse_spelling(reply) == word


def test_no_test_item_stands_in_a_prompt(queries):
    spelling = " ".join(m["content"] for m in nn.spelling_prompt("TYPED")[:-1]).lower()
    choosing = nn.choosing_prompt("TYPED", [])[0]["content"].lower()
    known = {q.typed for q in queries} | set(DRUGS) | set(mm.PROMPTED) | set(mm.PROMPTED.values())
    real = RAW / "side_effects" / "drug_names.csv"
    if real.is_file():
        drugs = list(pd.read_csv(real).drug_name)
        known |= {q.typed for q in mm.benchmark(drugs, seed=20251121)}
    for prompt in (spelling, choosing):
        assert not set(prompt.replace(".", " ").replace(",", " ").split()) & known


def test_candidates_are_listed_in_alphabetical_order_whatever_the_ranking():
    prompt = nn.choosing_prompt("metfromin", ["aspirin", "metformin"])[-1]["content"]
    assert prompt.index("1. aspirin") < prompt.index("2. metformin") < prompt.index("0. none")


# ------------------------------------------------------------------------------------------------------------ scoring


def rows_of(queries: Sequence[Query], drugs: Sequence[str | None], arm: str = "x") -> list[Answer]:
    """Rows of a normaliser that found these drugs."""
    answers = nn.NormaliserArm(lambda _: list(drugs))(queries)
    return [
        make_row(answer, query, arm=arm) for answer, query in zip(answers, queries, strict=True)
    ]


def test_names_are_scored_by_what_was_typed():
    queries = [
        Query("aspirn", "aspirin", "delete", 1),
        Query("aspirin", "aspirin", "correct"),
        Query("holiday", None, "absent"),
        Query("ibuprofem", "ibuprofen", "substitute", 1),
    ]
    out = Outcomes(rows_of(queries, ["aspirin", "aspirin", "haloperidol", None]), draws=200)
    assert out.score("right").value == 0.5
    assert out.score("another").value == 0.25  # a name of no drug became one
    misspelt = out.where(names="misspelt").score("right")
    assert (misspelt.value, misspelt.n) == (0.5, 2)
    assert out.where(edits="right name").score("right").value == 1


def test_the_answer_tells_what_each_normaliser_makes_of_the_names():
    queries = [Query("aspirn", "aspirin", "delete", 1), Query("aspirin", "aspirin", "correct")]
    drugs_by_arm: dict[str, list[str | None]] = {
        "none": [None, "aspirin"],
        "llm": ["aspirin", None],
        "choice": [None, None],
        "edits": ["aspirin"] * 2,
        "in_turn": ["aspirin"] * 2,
    }
    text = nn.answer(
        Outcomes(
            [row for arm, drugs in drugs_by_arm.items() for row in rows_of(queries, drugs, arm)]
        ),
        "m",
    )
    text = text.replace("\N{NO-BREAK SPACE}", " ")
    assert text.startswith(
        "Of 2 typed names of drugs in the authors' data, correct or not, edit distance alone leads "
        "100.0 %"
    )
    assert "If the language model m writes the name itself" in text
    assert re.search(r"50\.0 % \[[^]]+\] of the names lead to the right drug", text)
    assert "leaves 0.0 %" in text
    assert_short_answer(text)


@pytest.mark.parametrize(("right", "answer"), [(20, "with the claim"), (1, "inconclusive")])
def test_a_model_mitigates_trade_names_if_it_writes_significantly_more(right, answer):
    queries = [Query(f"brand{i}", f"drug{i}", "brand") for i in range(24)]
    written = [query.drug if i < right else None for i, query in enumerate(queries)]
    out = Outcomes(rows_of(queries, written, "llm") + rows_of(queries, [None] * 24, "none"))
    run = record.start(
        notebook="03_side_effects_misspelling", paper="side_effects", profile="smoke", parameters={}
    )
    rules.decide(run, out, "normalisation_resolves_trade_names")
    assert run.here_findings[0].answer == answer


def test_the_names_of_one_drug_are_no_independent_names():
    """Ten misspellings of each of four drugs, which a normaliser mends all or not at all."""
    queries = [
        Query(f"{drug}{i}", drug, "insert", 1) for drug in ("a", "b", "c", "d") for i in range(10)
    ]
    score = Outcomes(
        rows_of(queries, [q.drug if q.drug in ("a", "b") else None for q in queries])
    ).score("right")
    assert (score.value, score.n) == (0.5, 40)
    assert score.high - score.low > 0.8  # Wilson over 40 names: 0.3


def test_a_name_of_the_papers_counts_as_spelt_whether_or_not_the_drug_is_known():
    queries = mm.paper_queries(
        {"latanaprost": "latanoprost", "miglitilol": "miglitol"}, ["latanoprost"]
    )
    answers = [Answer(answer="latanoprost", predicted="latanoprost"), Answer(answer="miglitol")]
    measures = [mm.add_measures(q, a).measures for q, a in zip(queries, answers, strict=True)]
    assert [scores["spelt"] for scores in measures] == [(1, 1), (1, 1)]
    assert [scores["right"] for scores in measures] == [(1, 1), (1, 1)]


@pytest.mark.engine
def test_both_language_model_normalisers_answer_every_name(small_llm, tmp_path):
    llm = LLM(small_llm, folder=tmp_path)
    queries = [Query("metfromin", "metformin", "transpose", 1), Query("holiday", None, "absent")]
    spelled = nn.LlmSpells(llm, DRUGS)(queries)
    chosen = nn.LlmChooses(llm, EDITS, n_candidates=3)(queries)
    for answers in (spelled, chosen):
        assert all(a.measures["tokens"][0] > 0 and a.predicted in {None, *DRUGS} for a in answers)
    assert chosen[0].measures["among"] == (1, 1)
    for query, answer in zip(queries, chosen, strict=True):
        assert answer.predicted in {None, *(d for d, _ in EDITS([query.typed], 3)[0])}


# ------------------------------------------------------------------------------------------------------------ Table 5


def test_questions_are_asked_under_another_name_and_answered_for_their_own():
    questions = [Question("aspirin", "nausea", True), Question("ibuprofen", "rash", False)]
    renamed = mm.rename_drugs(questions, {"aspirin": "aspirn"})
    assert [q.drug for q in renamed] == ["aspirn", "ibuprofen"]
    assert mm.entities_as_written(renamed)[renamed[0]] == se.Entities("aspirn", "nausea")
    answers = mm.UnderOtherNames(
        {"aspirin": "aspirn"}, lambda asked: [se.yes_no_answer(q.drug == "aspirin") for q in asked]
    )(questions)
    assert [answer.predicted for answer in answers] == ["NO", "NO"]


def table5(n_found: Mapping[str, int], source: str = "rerun", drugs: int = 9) -> list[Answer]:
    """Four questions about each drug; in each arm the positives of so many drugs are found."""
    return [
        make_row(
            se.yes_no_answer(i < n_found[arm] and j % 2 == 0),
            Question(f"d{i}", f"e{j}", j % 2 == 0),
            arm=arm.replace("__", "."),
            source=source,
            model="Qwen2.5-7B-Instruct",
        )
        for arm in n_found
        for i in range(drugs)
        for j in range(4)
    ]


def page(misspelt: int = 0, normalised: int = 9, correct: int = 9, *more: Answer) -> Outcomes:
    both = {"correct": correct, "misspelt": misspelt, "normalised": normalised}
    rows = table5({f"{c}__{arm}": n for c, n in both.items() for arm in ("format_b", "graphrag")})
    return Outcomes([*rows, *more], draws=300)


def test_the_recovered_share_is_over_drugs_and_never_surer_than_they_are():
    share = paper_rules.recovered(page(normalised=7), "graphrag")
    assert share is not None
    assert (share.value, share.n) == (pytest.approx(0.875), 36)  # 7 of 9 drugs: 2 x 7/9 / (1 + 7/9)
    assert share.low < 0.75
    assert share.high > 0.95
    full_share, no_share = (
        paper_rules.recovered(page(), "graphrag"),
        paper_rules.recovered(page(), "graphrag", "misspelt"),
    )
    assert full_share is not None
    assert no_share is not None
    assert full_share.value == 1
    assert full_share.low < 0.75
    assert (no_share.value, no_share.low) == (0, 0)
    assert no_share.high > 0.2
    assert paper_rules.recovered(page(correct=0), "graphrag") is None


@pytest.fixture
def run() -> record.Run:
    return record.start(notebook="03_x", paper="side_effects", profile="smoke", parameters={})


CLAIMS = ("misspelling_breaks_retrieval", "normalisation_recovers", "larger_models_spell_better")


def decide(run: record.Run, out: Outcomes) -> list[str]:
    rules.decide(run, out, *CLAIMS)
    return [claim.verdict for claim in run.claims if claim.kind == "rerun"]


@pytest.mark.parametrize(
    ("misspelt", "normalised", "correct", "verdicts"),
    [
        (0, 9, 9, ["agrees", "agrees", "not tested"]),
        # a model that does not repeat that nothing was found
        (1, 4, 9, ["differs", "inconclusive", "not tested"]),
        (0, 0, 9, ["agrees", "differs", "not tested"]),
        # nothing is found under the right name either
        (0, 0, 0, ["inconclusive", "inconclusive", "not tested"]),
    ],
)
def test_claims_follow_their_rules(run, misspelt, normalised, correct, verdicts):
    """Retrieval finds no misspelt name; whether the answers do, the model decides."""
    out = page(misspelt, normalised, correct)
    out.frame["source"] = "released"
    rules.decide(run, out, CLAIMS[0])
    finding = next(c for c in run.claims if c.kind == "rescored")
    assert finding.verdict == verdicts[0]
    assert decide(run, page(misspelt, normalised, correct)) == verdicts


@pytest.mark.parametrize(
    ("found_by_run", "verdict"),
    [((0, 0), "agrees"), ((9, 0), "inconclusive"), ((9, 9), "differs")],
)
def test_released_runs_that_disagree_about_lists_leave_the_claim_open(run, found_by_run, verdict):
    """Format B and the graph find nothing under a misspelt name; lists find as many drugs as said."""
    released: list[Answer] = []
    for day, n_found in enumerate(found_by_run, start=1):
        n_by_arm = dict.fromkeys(("correct__format_a", "correct__format_b", "correct__graphrag"), 9)
        n_by_arm |= {"misspelt__format_a": n_found}
        n_by_arm |= {"misspelt__format_b": 0, "misspelt__graphrag": 0}
        for row in table5(n_by_arm, source="released"):
            strata = {"run of": f"{day} November"}
            released.append(replace(row, run=f"2025110{day}_120000", strata=strata))
    rules.decide(
        run, Outcomes([]), "pipelines_are_brittle", released_runs=Outcomes(released, draws=300)
    )
    finding = next(c for c in run.claims if c.kind == "rescored")
    assert finding.verdict == verdict
    assert "In the run of 1 November, the claim" in finding.why


def test_a_recovered_share_names_the_two_arms_whose_f1_it_divides(run):
    decide(run, page(normalised=7))
    finding = next(each for each in run.here_findings if each.id.endswith("recovers"))
    estimate = finding.estimates[1]
    by_arm = {arm.label: arm.value for arm in estimate.arms}
    assert list(by_arm) == ["normalised.graphrag", "correct.graphrag"]
    assert estimate.value == pytest.approx(
        by_arm["normalised.graphrag"] / by_arm["correct.graphrag"]
    )
    assert (estimate.measure, estimate.where) == ("f1", {"source": ["rerun"]})


def test_where_nothing_is_found_the_drugs_are_the_clusters(run):
    """The counts of Format A with right names do not show which drugs were found."""
    n_by_arm = {"correct__format_a": 9, "misspelt__format_a": 0}
    rows = []
    for row in table5(n_by_arm, source="released"):
        rows.append(replace(row, cluster=row.unit) if row.arm == "correct.format_a" else row)
    alike = paper_rules._alike_clustered(Outcomes(rows, draws=300), "format_a")
    share = paper_rules.recovered(alike, "format_a", "misspelt")
    assert share is not None
    assert alike.frame.cluster.nunique() == 9
    assert (share.value, share.low) == (0, 0)
    assert share.high > 0.2


@pytest.mark.parametrize(("n_found", "verdict"), [(9, "agrees"), (7, "inconclusive")])
def test_names_that_the_authors_prompt_answers_are_told_apart(run, n_found, verdict):
    """Of nine drugs, the prompt shows three. All nine, or seven of them, are found."""
    out = page(0, n_found)
    is_shown = out.frame.cluster.isin(["d0", "d1", "d2"])
    strata = [{mm.IN_AUTHORS_PROMPT: mm.IS_PROMPTED[bool(shown)]} for shown in is_shown]
    out.frame = out.frame.assign(strata=pd.Series(strata, index=out.frame.index), source="released")
    rules.decide(run, out, "normalisation_recovers")
    finding = next(finding for finding in run.claims if finding.kind == "rescored")
    assert finding.verdict == verdict
    assert finding.why.count("(6 drugs") == 2
    assert "With all drugs, the claim holds" in finding.why


@pytest.mark.parametrize(("better", "verdict"), [(8, "agrees"), (1, "inconclusive")])
def test_the_claim_on_larger_models_needs_a_larger_model(run, better, verdict):
    queries = mm.paper_queries({f"{letter}x": letter for letter in "abcdefgh"}, ["a"])
    words = {
        "llm": ["?"] * 8,
        "llm_larger": [q.meant for q in queries[:better]] + ["?"] * (8 - better),
    }
    rows = [
        make_row(mm.add_measures(query, Answer(answer=word)), query, arm=arm)
        for arm, words_of_arm in words.items()
        for query, word in zip(queries, words_of_arm, strict=True)
    ]
    assert decide(run, page(0, 9, 9, *rows))[2] == verdict


def test_every_cell_of_table_5_is_reported(run):
    out = page(0, 7, 9).concat(table5({"correct__format_a": 9}, source="other"))
    run.report(out, "side_effects.table5", ["f1"], model="Qwen2.5-7B-Instruct")
    paper_rules.report_shares(run, out, "rerun", model="Qwen2.5-7B-Instruct")
    expected = {n.id for n in run.printed.numbers if n.table == "Table 5"}
    assert expected <= {id for _, id in run._values}
    assert run._values["rerun", "side_effects.text.degradation.graphrag"].value == 1
    assert run._values[
        "rerun", "side_effects.text.degradation_left.graphrag"
    ].value == pytest.approx(0.125)


# --------------------------------------------------------------------------------------------- the authors' answers


def test_released_confusion_counts_give_back_their_f1_by_drug_where_they_can(tmp_path):
    knowledge = {f"d{i}": ["e0"] for i in range(9)}
    correct = pd.DataFrame([(f"d{i}", f"e{j}", 1 - j) for i in range(9) for j in (0, 1)])
    correct.columns = ["drug", "side_effect", "label"]
    corrected = correct.assign(drug=correct.drug.replace({"d7": "x", "d8": "y"}))
    pairs = {"correct": correct, "misspelt": correct.assign(drug="z"), "normalised": corrected}
    counts = {
        "perfect": (9, 1, 0, 8),
        "raw_misspelled": (3, 0, 6, 9),
        "llm_corrected": (7, 0, 2, 9),
    }
    results = {
        name: {"metrics": dict(zip(("tp", "fp", "fn", "tn"), cells, strict=True))}
        for name, cells in counts.items()
    }
    path = tmp_path / "recovery.json"
    path.write_text(json.dumps([{"architecture": "graphrag", "results": results}]))
    out = Outcomes(mm.read_pairs(path, "20251109_152804", "m", pairs, knowledge), draws=200)
    scores = {
        condition: out.score("f1", f"{condition}.graphrag").value for condition in mm.CONDITIONS
    }
    assert scores == pytest.approx({"correct": 18 / 19, "misspelt": 0.5, "normalised": 0.875})
    clusters = {c: out.where(arm=f"{c}.graphrag").frame.cluster.nunique() for c in mm.CONDITIONS}
    assert clusters == {
        "correct": 9,
        "misspelt": 18,
        "normalised": 9,
    }  # no knowledge explains three of nine


def test_the_papers_numbers_are_rescored_from_the_released_files(run):
    paths = {name: RAW / name for name in (*mm.RELEASED, *mm.PAIRS.values(), mm.NAMES)}
    benchmark = RAW / "side_effects" / "data_format_a.csv"
    if not all(path.is_file() for path in (*paths.values(), benchmark)):
        pytest.skip("the released files have not been fetched")
    knowledge = corpus.read_knowledge(benchmark, [])
    pairs = {condition: pd.read_csv(paths[name]) for condition, name in mm.PAIRS.items()}
    run_of_table = f"side_effects/released/recovery_results_{mm.PRINTED[1]}.json"
    out = Outcomes(
        mm.read_pairs(paths[run_of_table], mm.PRINTED[1], "m", pairs, knowledge), draws=200
    )
    normalised = out.where(arm="normalised.graphrag")
    assert normalised.score("f1").value == pytest.approx(0.875)
    assert normalised.frame.cluster.nunique() == 9
    spelling = f"side_effects/released/spelling_corrections_{mm.PRINTED[0]}.csv"
    spelt = Outcomes(mm.read_corrections(paths[spelling], mm.PRINTED[0], "m"))
    assert (spelt.score("spelt").value, spelt.score("spelt").n) == (0.8, 10)
    assert set(mm.PROMPTED) < set(mm.read_misspellings(paths[mm.NAMES]))


def test_that_exact_matching_fails_for_names_that_are_not_in_the_graph_decides_nothing(run):
    drugs = [f"drug{i}" for i in range(40)]
    typed = [Query(f"{drug}x", drug, "insert", 1) for drug in drugs]
    right = [Query(drug, drug, "correct") for drug in drugs]
    unchanged = nn.NormaliserArm(nn.Unchanged(frozenset(drugs)))
    queries = [*typed, *right]
    rows = [
        make_row(answer, query, arm="none")
        for answer, query in zip(unchanged(queries), queries, strict=True)
    ]
    rules.decide(run, Outcomes(rows, draws=200), "exact_match_is_brittle")
    (finding,) = run.claims
    assert (finding.verdict, finding.reason) == ("cannot be tested", "by construction")
    assert run.here_findings[0].answer == "not run"
    assert not any(answer.predicted for answer in unchanged(typed)), "no answers could be others"
