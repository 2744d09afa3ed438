"""Covers data/published: ids, sources, arithmetic of the printed numbers, and that kept records know every id."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from evaluation import published, record, records, verdicts
from evaluation.published import Number
from publish import board_pages, scoreboard
from resources import registry
from resources.settings import NOTEBOOKS, RESULTS

PAPERS = published.papers()
NUMBERS = [number for paper in PAPERS for number in published.published(paper).numbers]
LAPTOP_RECORDS = sorted(RESULTS.glob("laptop/*.json"))
RECORDS = sorted(RESULTS.glob("*/*.json"))
SIDE_EFFECTS = {number.id: number for number in published.published("side_effects").numbers}
ARMS = ("closed_book", "format_a", "format_b", "graphrag")
WIDE = r"\.table5\.|text\.(recovery|degradation)|mtsamples[._]|_ddi\.(head|tail|relation|triple)_|closed_book\.precision$"
"""Numbers whose rerun may have fewer rows than the printed one and an interval wider than 5 points to either side."""


def value(*path: str) -> float:
    return SIDE_EFFECTS[".".join(("side_effects", *path))].value


def last_digit(*path: str) -> float:
    """Half of the last printed digit: how far a rounded number may lie from the true one."""
    return SIDE_EFFECTS[".".join(("side_effects", *path))].within("rescored") or 0


def test_ids_are_unique_across_papers_and_well_formed():
    entries = [
        entry
        for paper in PAPERS
        for entry in (*published.published(paper).numbers, *published.published(paper).claims)
    ]
    ids = Counter(entry.id for entry in entries)
    assert [id for id, times in ids.items() if times > 1] == []
    assert [id for id in ids if not re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+){2,3}", id)] == []


def test_every_place_in_a_paper_is_stated_once():
    for paper in PAPERS:
        places = Counter(
            (n.table, n.row, n.column, n.model) for n in published.published(paper).numbers
        )
        assert [place for place, times in places.items() if times > 1] == []


def test_what_a_number_is_rescored_from_is_in_the_registry():
    unknown = [
        f"{number.id} names {name}"
        for number in NUMBERS
        for name in number.rescore_from
        if name not in registry.registry()
    ]
    assert unknown == [], "data/registry.yml does not have them"


def faults_of(number: Number) -> Iterator[str]:
    """What is wrong with a printed number, its value and its tolerance."""
    tolerance = number.within("rescored")
    if tolerance is None or tolerance <= 0:
        yield f"{number.id}: the tolerance is {tolerance}"
        return
    match = re.search(r"\d[\d,.]*", number.show(number.value))
    if match is None or match[0] not in number.printed:
        yield f"{number.id}: {number.value} is not what {number.printed!r} says"
    # the next number that could have been printed is beyond the tolerance
    if number.show(number.value + 2 * tolerance) == number.show(number.value):
        yield f"{number.id}: the tolerance {tolerance} is within the last printed digit"


def test_a_printed_number_agrees_with_itself_and_not_with_its_neighbours():
    assert [fault for number in NUMBERS for fault in faults_of(number)] == []


def test_every_table_of_side_effects_is_whole():
    tables = Counter(number.table for number in SIDE_EFFECTS.values())
    assert {name: tables[name] for name in tables if name != "Text"} == {
        "Table 1": 4 * 5,
        "Table 2": 4 * 5,
        "Table 3": 4 * 3,
        "Table 4": 3 * 5,
        "Table 5": 3 * 2,
    }


@pytest.mark.parametrize("arm", ARMS)
def test_table_3_repeats_tables_1_and_2_and_its_differences_follow(arm):
    qwen, llama = value("table3", arm, "qwen"), value("table3", arm, "llama")
    assert (qwen, llama) == (value("table1", arm, "accuracy"), value("table2", arm, "accuracy"))
    assert value("table3", arm, "difference") == pytest.approx(100 * (qwen - llama), abs=1e-9)


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("table", ["table1", "table2"])
def test_the_scores_of_tables_1_and_2_fit_each_other(table, arm):
    accuracy, f1, precision, sensitivity, specificity = (
        value(table, arm, name)
        for name in ("accuracy", "f1", "precision", "sensitivity", "specificity")
    )
    half = 0.0005
    # as many positives as negatives: accuracy is the mean of sensitivity and specificity
    assert accuracy == pytest.approx(
        (sensitivity + specificity) / 2, abs=half + last_digit(table, arm, "accuracy")
    )
    assert f1 == pytest.approx(
        2 * precision * sensitivity / (precision + sensitivity), abs=3 * half
    )
    assert precision == pytest.approx(sensitivity / (sensitivity + 1 - specificity), abs=3 * half)


@pytest.mark.parametrize("arm", ["format_a", "format_b", "graphrag"])
def test_throughput_of_table_4_is_one_over_latency(arm):
    latency, throughput = value("table4", arm, "latency"), value("table4", arm, "throughput")
    slow, fast = (1 / (latency + side * last_digit("table4", arm, "latency")) for side in (1, -1))
    rounding = last_digit("table4", arm, "throughput")
    assert slow - rounding <= throughput <= fast + rounding


@pytest.mark.parametrize("arm", ["format_b", "graphrag"])
def test_the_recovery_in_the_text_follows_from_table_5(arm):
    recovered = value("table5", "normalised", arm) / value("table5", "correct", arm)
    assert recovered == pytest.approx(value("text", "recovery", arm), abs=0.0051)
    assert 1 - recovered == pytest.approx(value("text", "degradation_left", arm), abs=0.0051)


def test_the_benchmark_is_ten_and_ten_for_each_drug():
    n_per_drug = value("text", "positives_per_drug") + value("text", "negatives_per_drug")
    assert value("text", "drugs") * n_per_drug == value("text", "pairs")
    assert {n.n for n in SIDE_EFFECTS.values() if n.table in ("Table 1", "Table 2", "Table 3")} == {
        value("text", "pairs")
    }


def test_an_unknown_unit_is_named():
    fields = {
        "id": "a.b",
        "table": "T",
        "row": "r",
        "column": "c",
        "printed": "50.0%",
        "why_not": ".",
    }
    with pytest.raises(ValueError, match=r"unit\s+Input should be 'fraction'"):
        Number.model_validate({**fields, "unit": "furlongs", "value": 0.5})


def test_what_no_run_can_decide_is_said_of_every_model_alike():
    ledger = scoreboard.ledger("drug_interactions")
    first = ledger[ledger.id == "drug_interactions.claim.first_in_table_two"]
    of_models = first.filter(regex=r"^here by .*_reason$")
    assert of_models.size
    assert set(of_models.to_numpy().ravel()) == {"printed only"}
    assert set(first.here_reference_reason) == {"printed only"}


def test_what_a_run_makes_hold_by_construction_is_not_said_of_a_model_that_did_not_run():
    ledger = scoreboard.ledger("side_effects")
    lists = ledger[ledger.id == "side_effects.claim.lists_under_retrieve"]
    assert set(lists.here_reference_reason) == {"by construction"}
    assert lists.filter(regex=r"^here by .*_reason$").isna().all(axis=None)


def test_a_claim_that_no_notebook_decides_says_why():
    row = (
        scoreboard.ledger("side_effects")
        .set_index("id")
        .loc["side_effects.claim.classifier_trails"]
    )
    assert (row.verdict, row.here_answer) == ("cannot be tested", "not run")
    assert "does not define" in row.why


def test_kept_records_are_on_real_data_and_know_every_id():
    faults = []
    for path in RECORDS:
        stored_record = records.load(path)
        printed = published.published(stored_record.paper)
        unknown = {entry.id for entry in (*stored_record.values, *stored_record.reasons)}
        unknown -= {number.id for number in printed.numbers}
        unknown |= {finding.id for finding in stored_record.claims} - {
            claim.id for claim in printed.claims
        }
        faults += [f"{path.stem} is on the sample"] if stored_record.sample else []
        faults += [f"{path.stem} has the unknown {id}" for id in sorted(unknown)]
    assert RECORDS
    assert faults == []


def test_kept_runs_read_the_data_that_the_registry_lists_them_for():
    generated = "clinical_notes/synthetic_charts"  # by the notebook itself, from a seed
    faults = []
    for path in RECORDS:
        stored_record = records.load(path)
        entries = registry.registry().items()
        names = {data_set.name for data_set in stored_record.provenance.data}
        # the reference may lack a file that is known by git's digest alone
        listed = {
            name
            for name, entry in entries
            if stored_record.notebook in entry.readers and (not entry.blob or name in names)
        }
        faults += [
            f"{path.stem}: {name}"
            for name in sorted(listed ^ names)
            if name != generated and not name.startswith("models/")
        ]
    assert faults == [], "listed without being read, or read without being listed"


def test_no_stand_in_contradicts_a_paper_and_each_contradiction_has_a_caveat():
    contradicted = 0
    for path in sorted(RESULTS.glob("*/*.json")):
        stored_record = records.load(path)
        claims = {claim.id: claim for claim in published.published(stored_record.paper).claims}
        for finding in stored_record.claims if stored_record.paper != "across_papers" else ():
            if finding.verdict == "differs":
                contradicted += 1
                assert finding.kind in ("rescored", "printed"), "no model here is a paper's"
                assert claims[finding.id].note, f"{finding.id}: what would its author want to read?"
                assert finding.reason is None
    assert contradicted


def is_wide(value: records.Value, number: Number) -> bool:
    """Whether the interval of a rerun is too wide for a run of the printed number's size."""
    widest = {"fraction": 0.05, "percentage_points": 5.0}
    if value.kind == "rescored" or value.low is None or value.high is None:
        return False
    if number.unit not in widest or value.high - value.low <= 2 * widest[number.unit]:
        return False
    rows = value.n and value.n + value.unparsed
    return not (number.n and rows and rows >= number.n)


def test_a_wide_interval_is_one_of_the_exceptions_that_how_to_read_names():
    numbers = {number.id: number for number in NUMBERS}
    wide = [
        value.id
        for path in LAPTOP_RECORDS
        for value in records.load(path).values
        if is_wide(value, numbers[value.id])
    ]
    assert [id for id in wide if not re.search(WIDE, id)] == []


def test_every_notebook_names_a_paper_of_the_book():
    notebooks = sorted(NOTEBOOKS.glob("*.ipynb"))
    assert notebooks
    assert [
        path.stem for path in notebooks if published.paper_of(path) not in board_pages.PAPERS
    ] == []


def test_a_contradiction_names_numbers_that_are_there():
    places = [{"where": "a", "what": "b"}] * 2
    entry = {"id": "toy.contradiction.one", "about": "x", "says": places, "numbers": ["toy.no.id"]}
    toy = {"paper": "toy", "title": "Toy", "numbers": [], "claims": [], "contradictions": [entry]}
    with pytest.raises(ValueError, match=r"toy\.no\.id"):
        published.Published.model_validate(toy)


def test_what_the_index_of_the_clinical_notes_is_built_from_is_unclear_and_no_contradiction():
    (index,) = (
        c for c in published.published("clinical_notes").contradictions if c.id.endswith(".index")
    )
    assert [
        "notes" in index.says[0].what,
        "registry" in index.says[1].what,
        "note_text" in index.says[2].what,
    ] == [True] * 3
    run = record.start(
        notebook="13_notes_retrieval", paper="clinical_notes", profile="smoke", parameters={}
    )
    contradictory, _, unclear = verdicts.disagreements(run).html.partition("Unclear statements")
    assert index.about not in contradictory
    assert index.about in unclear
    assert "column note_text contains the notes" in unclear
    assert "How the reranker scores a passage" in contradictory


def test_a_count_that_a_paper_does_not_print_is_no_printed_number():
    printed = published.published("clinical_notes")
    assert "19" not in {number.printed for number in printed.numbers}
    assert not [number.id for number in printed.numbers if "prints no" in number.note]


def test_no_notebook_no_printed_number_and_no_claim_is_lost():
    """The ids are those that the reference reported before all chapters were read off the table of answers."""
    before = set((Path(__file__).parent / "data" / "ids.txt").read_text().split())
    declared = {
        e.id
        for paper in PAPERS
        for e in (*published.published(paper).numbers, *published.published(paper).claims)
    }
    notebooks = {path.stem for path in NOTEBOOKS.glob("*.ipynb")}
    assert before <= declared | notebooks
    runs = records.records("laptop", RESULTS)
    assert before <= {run.notebook for run in runs} | {
        entry.id for run in runs for entry in (*run.values, *run.reasons, *run.claims)
    }


def test_seconds_that_would_print_as_0_are_given_with_two_digits():
    latency = SIDE_EFFECTS["side_effects.table4.graphrag.latency"]
    assert latency.show(0.0039) == "0.0039 s"
    assert latency.show(0.09) == "0.09 s"
    assert latency.show(0) == "0.00 s"
