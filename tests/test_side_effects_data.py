"""The data notebook: SIDER's files as read, ways to count them, the choice of drugs, the draw."""

from __future__ import annotations

import gzip
import hashlib
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given, strategies as st
from short_answers import assert_short_answer

from evaluation import published, record, records, rules
from evaluation.outcomes import Outcomes
from papers.side_effects import data as sd
from resources import datasets

# flat, stereo, label concept, kind, UMLS id, effect; compounds 1 and 2 share a name but for its case
LINES = [
    ("CID100000001", "CID000000001", "C1", "LLT", "C1", "Feeling sick"),
    ("CID100000001", "CID000000001", "C1", "PT", "C2", "Nausea"),
    ("CID100000001", "CID000000001", "C2", "PT", "C2", "Nausea"),
    ("CID100000001", "CID000000011", "C2", "PT", "C2", "Nausea"),
    ("CID100000002", "CID000000002", "C3", "PT", "C3", "Oedema"),
    ("CID100000002", "CID000000002", "C2", "PT", "C2", "Nausea"),
    ("CID100000003", "CID000000003", "C3", "PT", "C3", "Oedema"),
    ("CID100000003", "CID000000003", "C4", "", "C4", "Odd"),
]
NAMES = "stitch_id\tdrug_name\nstitch_id\tdrug_name\nCID100000001\tInsulin\nCID100000002\tinsulin\nCID100000003\tzinc\n"
OWN = "CID100000001\tA10AB01\nCID100000002\tA10AE05\nCID100000002\tD03AX01\n"
ADDED = "CID100000003\tA12CB01"


@pytest.fixture
def sider(tmp_path: Path) -> sd.Sider:
    with gzip.open(tmp_path / "se.tsv.gz", "wt", encoding="utf-8") as file:
        file.write("".join("\t".join(line) + "\n" for line in LINES))
    (tmp_path / "names.tsv").write_text(NAMES, encoding="utf-8")
    (tmp_path / "atc.tsv").write_text(OWN + ADDED, encoding="utf-8")
    return sd.read_sider(tmp_path / "se.tsv.gz", tmp_path / "names.tsv", tmp_path / "atc.tsv")


def test_header_lines_within_the_names_are_no_drugs(sider):
    assert set(sider.lines.written) == {"Insulin", "insulin", "zinc"}
    assert set(sider.lines.name) == {"insulin", "zinc"}


def test_a_compound_without_a_name_is_an_error(tmp_path, sider):
    (tmp_path / "names.tsv").write_text("CID100000001\tInsulin\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no drug for 2 compounds, such as CID100000002"):
        sd.read_sider(tmp_path / "se.tsv.gz", tmp_path / "names.tsv", tmp_path / "atc.tsv")


def test_sider_s_own_codes_end_where_the_order_breaks(tmp_path, sider):
    assert sider.coded == {"CID100000001", "CID100000002", "CID100000003"}, (
        "still in order: nothing shows an addition"
    )
    (tmp_path / "atc.tsv").write_text(OWN + "CID100000001\tV01AA01\n" + ADDED, encoding="utf-8")
    atc = sd.read_atc(tmp_path / "atc.tsv")
    assert atc.own.tolist() == [True, True, True, False, False]
    assert sd.atc_digest(atc) == hashlib.sha256(OWN.encode()).hexdigest()


@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("xyz")), min_size=1, unique=True)
)
def test_a_list_in_order_is_sider_s_own_whole(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("atc") / "atc.tsv"
    path.write_text("".join(f"{flat}\t{code}\n" for flat, code in sorted(rows)), encoding="utf-8")
    assert sd.read_atc(path).own.all()


def frequencies(sider: sd.Sider) -> pd.DataFrame:
    return sider.lines.iloc[:0]


def test_each_reading_counts_what_it_says(sider):
    filters = sd.filters(
        sd.Sider(sider.lines, sider.atc.assign(own=sider.atc.index < 3)), frequencies(sider)
    )
    readings = sd.readings(filters, published.published("side_effects"))

    def count(what: str, counted: str, drug: str) -> tuple[int, int, int]:
        row = readings[
            (readings.kept == what) & (readings.counted == counted) & (readings.drug == drug)
        ]
        assert len(row) == 1
        return row.associations.item(), row.drugs.item(), row.effects.item()

    assert count("any term", "lines", "compound") == (8, 3, 4)
    assert count("preferred terms", "lines", "compound") == (6, 3, 2)
    assert count("preferred terms", "pairs", "compound") == (4, 3, 2)
    assert count("preferred terms", "pairs", "stereoisomer") == (5, 4, 2)
    assert count("preferred terms, ATC code in SIDER", "pairs", "name as written") == (3, 2, 2)
    assert count("preferred terms, ATC code in SIDER", "pairs", "name in lower case") == (2, 1, 2)
    assert count("preferred terms, ATC code in SIDER", "lines", "name in lower case") == (5, 1, 2)
    assert count("preferred terms, ATC code in SIDER or added since", "lines", "compound") == (
        6,
        3,
        2,
    )


def test_the_reported_triple_is_the_nearest_reading(sider):
    readings = sd.readings(
        sd.filters(sider, frequencies(sider)), published.published("side_effects")
    )
    readings.loc[5, ["associations", "drugs", "effects", "off"]] = [141_209, 1_106, 4_073, 0.0]
    run = record.start(notebook="00_x", paper="side_effects", profile="laptop", parameters={})
    sd.report_triple(run, readings)
    assert [value.value for value in run._values.values()] == [141_209, 1_106, 4_073]


def test_without_sider_the_numbers_have_a_reason(tmp_path):
    run = record.start(notebook="00_x", paper="side_effects", profile="smoke", parameters={})
    sd.report_triple(run, None)
    rules.decide(run, Outcomes([]), "every_drug_with_ten_effects", sider=None, released={})
    saved = records.load(run.save(tmp_path / "record.json"))
    assert {r.id.rpartition(".")[2] for r in saved.reasons} == set(sd.COUNTS)
    assert [c.verdict for c in saved.claims] == ["not tested"]


def test_a_drug_with_ten_terms_that_is_left_out_refutes_the_claim(sider):
    ten = pd.DataFrame([("CID100000001", "PT", f"e{i}", "insulin") for i in range(10)])
    ten.columns = ["flat", "kind", "effect", "name"]
    for released, verdict in (
        ({"insulin": frozenset({"e0"})}, "agrees"),
        ({"zinc": frozenset({"e0"})}, "differs"),
    ):
        run = record.start(notebook="00_x", paper="side_effects", profile="smoke", parameters={})
        facts = {"sider": sd.Sider(ten, sider.atc), "released": released}
        rules.decide(run, Outcomes([]), "every_drug_with_ten_effects", **facts)
        assert run.claims[0].verdict == verdict


drugs = st.dictionaries(st.text("abc", min_size=1, max_size=4), st.integers(0, 25), max_size=20)


@given(drugs, st.integers(0, 10))
def test_the_drugs_with_the_most_effects_are_taken(sizes, n):
    knowledge = {name: frozenset(map(str, range(size))) for name, size in sizes.items()}
    selected = sd.with_most(knowledge, n, least=5)
    others = [name for name, size in sizes.items() if size >= 5 and name not in selected]
    assert len(selected) == min(n, len(selected) + len(others))
    assert selected == sorted(selected, key=lambda d: (-sizes[d], d))
    assert all((-sizes[d], d) < (-sizes[o], o) for d in selected for o in others)


def test_a_rule_is_held_against_the_release(sider):
    of_two = sd.Sider(sider.lines, sider.atc.assign(own=sider.atc.index < 3))
    table = sd.hypotheses(of_two, {"insulin": frozenset({"nausea", "oedema"})})
    assert (table.drugs == 0).all(), "nobody has ten terms"
    assert set(table["released, not taken"]) == {1}


def test_the_hash_seed_decides_the_draw_and_not_the_seed_alone():
    knowledge = {f"d{i}": frozenset(f"effect {i} {j}" for j in range(60)) for i in range(20)}
    first, again, other = (sd.drawn_under(h, knowledge) for h in (0, 0, 1))
    assert first == again != other
    assert all(len(effects) == sd.LEAST and effects <= knowledge[d] for d, effects in other.items())
    table = sd.overlap_table({"first": first, "again": again, "other": other}, knowledge)
    assert table.positives.tolist() == [200, 200]
    assert table.shared.iloc[0] == 200
    assert table["shared by chance"].iloc[0] == round(20 * 100 / 60)


@pytest.fixture(scope="module")
def real() -> sd.Sider:
    names = [sd.FILES[name] for name in ("meddra_all_se.tsv.gz", "drug_names.tsv", "drug_atc.tsv")]
    if not all((datasets.RAW / name).is_file() for name in names):
        pytest.skip("SIDER has not been fetched")
    return sd.read_sider(*(datasets.fetch(name) for name in names))


def test_the_paper_s_filter_gives_the_printed_triple(real):
    assert sd.atc_digest(real.atc) == sd.ATC_SHA256
    assert (
        len(real.coded_terms),
        real.coded_terms.written.nunique(),
        real.coded_terms.effect.nunique(),
    ) == (
        141_209,
        1_106,
        4_073,
    )
    assert len(sd.with_most(sd.by_name(real.coded_terms), 976)) == 976


def test_the_figure_says_which_names_it_merges(sider):
    """Insulin and insulin are one drug there."""
    assert "so SIDER's 3 names with an ATC code are 2 drugs" in sd.describe_selection(sider)


def test_the_answer_names_the_reading_and_the_rule_that_fit():
    readings = pd.DataFrame(
        {
            "kept": ["preferred terms"],
            "counted": "lines",
            "drug": "name as written",
            "associations": 9,
            "drugs": 3,
            "effects": 4,
            "off": 0.0,
        }
    )
    rule = {"of drugs with": "ATC code in SIDER", "take": "the 2 names with the most terms"}
    selections = pd.DataFrame([{**rule, "same order": "yes"}])
    text = sd.answer(readings, selections)
    assert "gives exactly the three counts" in text
    assert 'keeps "preferred terms", takes each "name as written" as one drug' in text
    assert rule["take"] in text
    assert "comes nearest to" in sd.answer(readings.assign(off=0.1), selections)
    assert_short_answer(text)
    assert "SIDER" in sd.answer(None, None)
