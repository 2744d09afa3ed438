"""What data/published/biomedrag.yml holds fits together where the paper does, and nowhere else."""

from __future__ import annotations

from collections import Counter
from html import unescape

import pytest

from evaluation.published import published
from papers.biomedrag import coverage
from papers.biomedrag.balance import possible

PAPER = published("biomedrag")
NUMBERS = {number.id.removeprefix("biomedrag."): number for number in PAPER.numbers}
AT_ODDS = {id for contradiction in PAPER.contradictions for id in contradiction.numbers}
ROWS = sorted({id.removesuffix("precision") for id in NUMBERS if id.endswith("precision")})
GAINS = sorted(id for id in NUMBERS if id.startswith("text.gain."))
TABLE_OF = {
    "git": 1,
    "ddi": 1,
    "chemprot": 1,
    "git_re": 1,
    "ade": 2,
    "mtsamples": 2,
    "umls": 2,
    "adint": 2,
}
PARTS = ("triple", "head", "tail", "relation")
MEASURES = ("precision", "recall", "f1")


def percent(id: str) -> float:
    return 100 * NUMBERS[id].value


def test_every_table_and_figure_is_whole():
    places = Counter(number.table.partition(" (")[0] for number in PAPER.numbers)
    assert {name: count for name, count in places.items() if name != "Text"} == {
        "Table 1": 11 * 9 + 11 * 3,
        "Table 2": 9 * 12,
        "Table 3": 6 * 12,
        "Table 4": 6 * 3,
        "Table 5": 3 * 5,
        "Table 6": 4 * 3,
        "Figure 2": 8 + 50,  # n is told for 8; the values at n = 0 are those of the tables
        "Figure 3": 2 * (12 + 3),  # m = 5 stands in the tables
    }


def test_what_would_fill_each_printed_number_is_known():
    fillers = {
        f"{number.table.partition(' (')[0]}: {coverage.filler_of(number)}"
        for number in PAPER.numbers
    }
    assert "Table 1: other systems' code" in fillers
    assert f"Figure 2: {coverage.MEDLLAMA}" in fillers
    counts = Counter(coverage.filler_of(number) for number in PAPER.numbers)
    assert (
        counts[coverage.GPT4] == 3 * 4 + 2 * 3 * 4 + 4
    )  # Tables 1 and 2, and the gains of the text
    html = coverage.table(PAPER).html
    assert all(filler in unescape(html) for filler in coverage.FILLERS)


def is_harmonic(precision: float, recall: float, f1: float) -> bool:
    """Whether F1 is the harmonic mean, as far as the printed digits tell."""
    # some rows of Table 2 are whole per cents
    half = 0.5 if all(value == int(value) for value in (precision, recall, f1)) else 0.01
    low, high = (
        2 * (precision + side) * (recall + side) / (precision + recall + 2 * side)
        for side in (-half, half)
    )
    return low - half <= f1 <= high + half


def test_f1_is_the_harmonic_mean_unless_the_paper_is_at_odds():
    unexpected = []
    for row in ROWS:
        precision, recall, f1 = (percent(f"{row}{measure}") for measure in MEASURES)
        permuted = "onerel" in row
        at_odds = permuted or (f"biomedrag.{row}f1" in AT_ODDS and "f1" in _why(row))
        if is_harmonic(precision, recall, f1) == at_odds:
            unexpected.append(f"{row}: {precision}, {recall}, {f1}")
        if permuted:
            assert precision == pytest.approx(2 * recall * f1 / (recall + f1), abs=0.02), row
    assert len(ROWS) > 100
    assert unexpected == []


def _why(row: str) -> str:
    """The contradictions, by the ends of their ids, that name the F1 of this row."""
    return " ".join(
        c.id.rsplit(".", 1)[1] for c in PAPER.contradictions if f"biomedrag.{row}f1" in c.numbers
    )


def test_what_biomedrag_adds_follows_from_the_tables():
    for gain in GAINS:
        data, _, model = gain.removeprefix("text.gain.").rpartition("_")
        table = f"table{TABLE_OF[data]}"
        without, added = (percent(f"{table}.{name}.{data}_f1") for name in (model, f"{model}_br"))
        assert NUMBERS[gain].value == pytest.approx(added - without, abs=0.011), gain
    assert GAINS


@pytest.mark.parametrize("row", ["uie_large_ddi", "llama2_br_ddi", "e2h_large_chemprot", "llama2_br_chemprot",
                                 "onerel_git", "llama2_br_git"])  # fmt: skip
def test_table_3_repeats_the_triples_of_table_1(row: str):
    system, _, data = row.rpartition("_")
    for measure in MEASURES:
        assert percent(f"table3.{row}.triple_{measure}") == percent(
            f"table1.{system}.{data}_{measure}"
        )


def test_table_4_repeats_the_whole_method():
    for measure in MEASURES:
        assert percent(f"table4.te_whole.{measure}") == percent(f"table1.llama2_br.git_{measure}")
        assert percent(f"table4.re_whole.{measure}") == percent(
            f"table1.llama2_br.git_re_{measure}"
        )


@pytest.mark.parametrize("part", PARTS)
def test_no_part_of_a_triple_is_harder_than_the_triple(part: str):
    for row in (
        "llama2_br_ddi",
        "llama2_br_chemprot",
        "llama2_br_git",
        "uie_large_ddi",
        "e2h_large_chemprot",
    ):
        assert percent(f"table3.{row}.{part}_f1") >= percent(f"table3.{row}.triple_f1")


def test_umls_is_the_sum_of_its_splits():
    splits = sum(NUMBERS[f"table6.umls.{split}"].value for split in ("train", "dev", "test"))
    assert splits == NUMBERS["text.data_sets.umls_triples"].value


def test_every_n_is_the_test_size_that_the_paper_states():
    sizes = {
        f"{name}.test": NUMBERS[f"{table}.{name}.test"].value
        for table, name in (
            ("table5", "ddi"),
            ("table5", "chemprot"),
            ("table5", "git"),
            ("table6", "ade"),
            ("table6", "umls"),
        )
    }
    assert sizes == {
        "ddi.test": 1376,
        "chemprot.test": 3438,
        "git.test": 465,
        "ade.test": 500,
        "umls.test": 661,
    }
    for id, number in NUMBERS.items():
        for name in ("ddi", "chemprot", "umls"):
            if number.n and name in id:
                assert number.n == sizes[f"{name}.test"], id


def test_the_digits_of_encoders_on_git_re_are_at_odds_with_the_size_stated():
    recalls = {
        id.removesuffix("_recall"): percent(id) for id in NUMBERS if id.endswith("git_re_recall")
    }
    impossible = {row for row, recall in recalls.items() if not possible([recall], 465)[0]}
    impossible.discard("figure3")
    assert impossible == {"table1.bert.git_re", "table1.biobert.git_re"}


def test_the_digits_of_ade_and_ddi_are_at_odds_with_the_sizes_stated():
    assert possible([percent("table2.medllama_br.ade_recall")], 500)[0] == []
    recalls = [
        round(percent(id.removeprefix("biomedrag.")), 2)
        for contradiction in PAPER.contradictions
        if contradiction.id.endswith("digits_ddi")
        for id in contradiction.numbers
        if id.endswith("recall")
    ]
    assert possible(recalls, 1376)[0] == []
    assert len(possible(recalls, 368)[0]) == len(set(recalls)) == 5


def nearest_values(data: str, name: str = "") -> list[float]:
    """Printed values of Figure 2 on a data set for n above 0, of one model or of any."""
    prefix = f"figure2.{data}."
    return [
        round(percent(id), 2)
        for id in NUMBERS
        if id.startswith(prefix) and name in id[len(prefix) :]
    ]


def test_each_value_of_figure_2_b_to_d_is_in_a_panel_that_can_give_it():
    # 83.96 is the F1 of 390 right answers of 465, of which 464 are parsed
    of_relations = set(nearest_values("git_re")) - {83.96}
    assert set(possible(of_relations, 465)[0]) == of_relations
    assert round(200 * 390 / (465 + 464), 2) == 83.96
    assert nearest_values("git_re", "other_medllama") == [84.51, 83.96, 81.72]
    inferred = {77.17, 76.25, 73.15}
    assert inferred < set(nearest_values("chemprot"))
    assert not possible(inferred, 465)[0], "no values of GIT-RE"
    assert len(nearest_values("chemprot")) == len(nearest_values("ddi")) == 7
    # panel (c) goes to n = 15; one value of panel (d) is not in the paper's text
    assert len(nearest_values("git")) == 4 + 7
    assert len(nearest_values("git_re", "medllama")) == 4
    assert len(nearest_values("git_re", "llama2")) == 7 - 1
    best = percent("figure2.git.medllama_top1")
    assert all(value > best for value in nearest_values("git", "llama2"))
    notes = [number.note for id, number in NUMBERS.items() if "other_" in id]
    assert all("We infer" in note for note in notes)


def test_a_value_between_two_panels_of_figure_2_belongs_to_the_one_whose_rows_can_give_it():
    values = {
        name: {round(percent(id), 2) for id in NUMBERS if id.startswith(f"figure2.{name}.")}
        for name in ("umls", "adint")
    }
    unsure = round(percent("figure2.umls.other2"), 2)
    assert unsure in values["umls"]
    assert set(possible(values["umls"], 661)[0]) == values["umls"]
    assert possible([unsure], 720)[0] == []
    assert (
        len(values["adint"] - set(possible(values["adint"], 720)[0])) == 1
    )  # 51.54, which no count of either gives
