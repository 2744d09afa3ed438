"""The registry's nineteen columns, what counts as right, and that no identifier leaves the charts."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers.datasets import locate
from helpers.results import figures, record
from helpers.results.metrics import paired_means
from papers.clinical_notes import extraction as ex
from papers.clinical_notes import registry as reg
from papers.clinical_notes import registry_report as report
from papers.clinical_notes.charts import Charts, Context, Mention, Note, Wording, generate

DRAWS = 100


@pytest.fixture(scope="module")
def charts() -> Charts:
    return generate(8, 5, 0.5)


@pytest.fixture(scope="module")
def readings(charts) -> list[ex.Reading]:
    return ex.reader(ex.by_rules())(charts.notes())


def note(text: str) -> Note:
    return Note(note_id="P0001-N001", patient_id="P0001", date=date(2020, 1, 2), kind="clinic visit", text=text)


def built(text: str) -> pd.DataFrame:
    of = [note(text)]
    return reg.build(of, ex.reader(ex.by_rules())(of))


# ------------------------------------------------------------------------------------------------------- registry


def test_a_row_has_the_papers_nineteen_columns():
    text = "Denies seizures. Reports dizziness.\nContinue Keppra 500 mg tablet PO BID, working well.\nKeppra again."
    (row,) = built(text).to_dict("records")
    assert list(row) == reg.SCHEMA.names
    assert len(row) == 19
    assert (row["medication"], row["medication_dosage"], row["intake_times_per_day"]) == ("levetiracetam", "500 mg", 2)
    assert (row["route"], row["form"], row["drug_mention_count"]) == ("oral", "tablet", 2)
    assert (row["seizure_status"], list(row["seizure_symptoms"])) == ("negative", ["dizziness"])
    assert (row["medication_effectiveness"], row["note_date"]) == ("effective", "2020-01-02")
    assert "Keppra 500 mg" in row["extraction_context"]


def test_drugs_that_are_not_taken_have_no_row():
    rows = built("Mother takes phenytoin for epilepsy. Could consider lacosamide. Allergies: carbamazepine (rash).")
    assert rows.medication.isna().all()
    assert len(rows) == 1


def test_the_registry_comes_back_as_it_was_written(tmp_path, charts, readings):
    rows = reg.build(charts.notes(), readings)
    path = reg.write(rows, tmp_path / "registry.parquet")
    back = reg.read(path)
    assert len(back) == len(rows)
    assert back.row_id.is_unique
    assert set(back.note_id) == {n.note_id for n in charts.notes()}
    assert (back.note_id.str.split("-").str[0] == back.patient_id).all()


def test_the_table_of_columns_counts_what_is_filled(tmp_path, charts, readings):
    rows = reg.read(reg.write(reg.build(charts.notes(), readings), tmp_path / "registry.parquet"))
    table = report.schema_table(rows).set_index("column")
    assert len(table) == 19
    assert table.loc["note_text", "rows with a value"] == 1
    assert 0 < float(str(table.loc["seizure_symptoms", "rows with a value"])) < 1


def test_another_parquet_file_is_refused(tmp_path):
    path = tmp_path / "other.parquet"
    pd.DataFrame({"a": [1]}).to_parquet(path)
    with pytest.raises(ValueError, match="columns"):
        reg.read(path)


def test_readings_of_other_notes_are_refused(charts, readings):
    with pytest.raises(ValueError, match="same order"):
        reg.build(charts.notes()[1:], readings)


# -------------------------------------------------------------------------------------------------------- scoring


def values(mention: Mention) -> dict[str, Any]:
    """A mention's value as the attribute that it is."""
    return {} if mention.label == "DRUG" else {mention.label.lower(): mention.value.lower()}


def perfect(charts: Charts) -> list[ex.Reading]:
    """The gold as an extractor would give it."""
    out = []
    for chart in charts:
        status = reg.gold_status(chart)
        for n in chart.notes:
            mine = [m for m in chart.mentions if m.note_id == n.note_id]
            entities = tuple(ex.Entity(m.start, m.end, m.label, m.value) for m in mine)
            medications = tuple(ex.Medication(m.drug, m.role, **values(m)) for m in mine)
            out.append(ex.Reading(n.note_id, medications, status[n.note_id], entities))
    return out


def test_the_gold_scores_one_and_nothing_scores_nought(charts):
    best = perfect(charts)
    scores = reg.label_scores(charts.charts, best, DRAWS)
    assert {s.f1.value for s in scores.values()} == {1.0}
    assert {s.f1.value for s in reg.value_scores(charts.charts, best, DRAWS).values()} == {1.0}
    assert reg.status_scores(charts.charts, best, DRAWS).value == 1
    nothing = [ex.Reading(r.note_id) for r in best]
    assert reg.label_scores(charts.charts, nothing, DRAWS)["all"].recall.value == 0
    assert reg.value_scores(charts.charts, nothing, DRAWS)["drug"].f1.value == 0


def test_scores_by_hand():
    gold: set[reg.Item] = {("P1-N1", "a"), ("P1-N1", "b"), ("P2-N1", "a")}
    found: set[reg.Item] = {("P1-N1", "a"), ("P2-N1", "c")}
    scores = reg.set_scores(gold, found, DRAWS)
    assert scores is not None
    assert (scores.precision.value, scores.gold, scores.read) == (0.5, 3, 2)
    assert scores.recall.value == pytest.approx(1 / 3)
    assert scores.f1.value == pytest.approx(2 * 0.5 / 3 / (0.5 + 1 / 3))
    assert reg.set_scores(set(), set(), DRAWS) is None


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=6),
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 6)), max_size=6),
)
def test_overlaps_never_count_one_gold_span_twice(gold_spans, found_spans):
    gold = {("n", str(s), str(s + n)) for s, n in gold_spans}
    found = {("n", str(s), str(s + n)) for s, n in found_spans}
    matched = reg.matched(gold, found)
    assert len(matched) <= len(found)
    # what is the same counts as found in any case, unless another found span took its place first
    assert len(matched & gold) >= min(1, len(gold & found))


def test_an_overlap_counts_where_it_is_asked_for():
    assert reg.matched({("n", "0", "6")}, {("n", "3", "9")}) == {("n", "0", "6")}
    assert reg.matched({("n", "0", "6")}, {("n", "0", "3"), ("n", "4", "6")}) == {("n", "0", "6"), ("n", "4", "6")}


def test_the_rules_do_well_on_shared_wording_and_the_contexts_are_counted(charts, readings):
    scores = reg.value_scores(charts.charts, readings, DRAWS)
    assert scores["drug"].f1.value > 0.8
    mentions = reg.context_mentions(charts)
    counts = reg.confusion(mentions, ["affirmed"] * len(mentions))
    assert counts.to_numpy().sum() == len(mentions)
    assert reg.context_scores(mentions, [m.context for _, m in mentions], DRAWS)["all"].value == 1


def test_recall_by_whose_words_a_sentence_is_in():
    def hit(wording: Wording, template: str, right: bool) -> reg.Hit:
        mention = Mention(
            note_id="P1-N1", start=0, end=1, label="DRUG", value="x", drug="x", wording=wording, template=template
        )
        return reg.Hit("P1", mention, right)

    hits = [
        *(hit("shared", "Takes {drug}.", right) for right in (True, True, True, False)),
        *(hit("paraphrased", "Takes {drug}.", right) for right in (True, False)),
        *(hit("shared", "On {drug}.", False) for _ in range(5)),
        *(hit("held out", "Takes {drug}.", False) for _ in range(3)),
    ]
    scores = reg.by_wording(hits, DRAWS)
    assert {wording: (score.value, score.n) for wording, score in scores.items()} == {
        "shared": (pytest.approx(1 / 3), 9),
        "held out": (0, 3),
    }
    both = reg.template_and_paraphrase(hits, DRAWS)
    assert both is not None
    assert [(score.value, score.n) for score in both] == [(0.75, 4), (0.5, 2)]
    assert reg.template_and_paraphrase(hits[:4], DRAWS) is None
    table = report.reworded_table(report.reworded({"rules": hits, "own": hits[:4]}, DRAWS))
    assert list(table["in the model's words"]) == [2]
    assert list(table["read by"]) == ["Rules, one slip allowed"]
    assert report.reworded_table({}).empty


def test_a_status_is_not_that_of_a_copied_passage(charts):
    for chart in charts:
        status = reg.gold_status(chart)
        own = {f.note_id for f in chart.seizures if f.copied_from is None}
        assert all((status[n.note_id] == "unknown") == (n.note_id not in own) for n in chart.notes)


def test_mentions_are_drawn_evenly_over_the_classes(charts):
    mentions = reg.context_mentions(charts)
    drawn = reg.stratified(mentions, 25, seed=1)
    classes = [m.context for _, m in drawn]
    assert len(drawn) == 25
    assert {classes.count(c) for c in set(classes)} == {5}
    assert drawn == reg.stratified(mentions, 25, seed=1)


# --------------------------------------------------------------------------------------------- notes from elsewhere


def test_dose_pairs_are_found_in_their_sentences(tmp_path):
    path = tmp_path / "x.rel"
    path.write_text(
        "1|Gave 5 mg A and 5 mg B.|5 mg|116|120|B|121|122\n2|Nothing of it here.|5 mg|3|7|drug|9|13\n", encoding="utf-8"
    )
    pairs, left_out = reg.read_dose_pairs(path)
    assert left_out == 1
    assert [pairs[0].text[slice(*pairs[0].dose)], pairs[0].dose[0]] == ["5 mg", 16]
    assert pairs[0].text[slice(*pairs[0].drug)] == "B"


def test_the_sample_of_dose_pairs_scores():
    pairs, left_out = reg.read_dose_pairs(locate("clinical_notes/drug_dose.rel", "sample").path)
    assert left_out == 0
    passages = [ex.Passage(id, of[0].text) for id, of in reg.dose_items(pairs).items()]
    scores = reg.dose_scores(pairs, ex.reader(ex.by_rules())(passages), DRAWS)
    assert scores is not None
    assert scores.gold == len(pairs)
    assert scores.recall.value >= 0.5


def test_neurology_and_seizures_are_taken_from_mtsamples():
    passages = reg.read_mtsamples(locate("clinical_notes/mtsamples.json", "sample").path)
    assert len(passages) == 3
    fired = reg.fired(ex.reader(ex.by_rules())(passages))
    assert fired["DRUG"] >= 3
    assert fired["seizure, negated"] >= 1


# --------------------------------------------------------------------------------------------------------- report


def test_no_planted_identifier_reaches_a_table_or_the_record(tmp_path):
    charts = generate(30, 5, 0.5)
    identifiers = [i for c in charts.split("test") for i in c.identifiers]
    assert identifiers
    test, notes = charts.split("test"), charts.notes("test")
    readings = {"rules": ex.reader(ex.by_rules())(notes)}
    run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
    measured = report.measure(test, readings, {"med7": "it is not installed"}, DRAWS)
    measured.statuses["rules_default"] = measured.statuses["rules"]
    report.report_measured(run, measured)
    mentions = reg.context_mentions(test)
    classes: list[Context] = ["affirmed"] * len(mentions)
    scores = report.reworded(measured.hits | {"affirmed": reg.context_hits(mentions, classes)}, DRAWS)
    report.report_reworded(run, scores, "Right")
    tables = [
        report.f1_table(measured),
        report.error_table(test, readings, notes),
        report.value_error_table(test, readings),
        report.context_error_table(mentions, classes),
        report.wording_table(measured),
        report.reworded_table(scores),
        report.paraphrases_table(),
        report.paraphrase_examples(),
    ]
    shown = "".join(figures.table(t, report.marked(charts, "t")).html for t in tables)
    shown += report.answer(charts, measured, measured)
    shown += json.dumps(json.loads(run.save(tmp_path / "r.json").read_text()))
    assert "SYNTHETIC" in shown
    assert "not run" in shown
    assert not [i for i in identifiers if i in shown]


def test_the_page_opens_with_how_right_the_drugs_are_and_on_what(charts):
    test = charts.split("test")
    measured = report.measure(test, {"rules": ex.reader(ex.by_rules())(charts.notes("test"))}, {"med7": "no"}, DRAWS)
    words = report.answer(charts, measured, measured)
    f1 = figures.score_text(measured.values["rules"]["drug"].f1)
    assert words.startswith("**On SYNTHETIC charts")
    assert f"F1 {f1}; bar of this project: 90 %" in words
    assert "\n" not in words


def test_a_status_gain_is_paired_with_always_giving_one_status(charts, readings):
    status = {note: s for chart in charts for note, s in reg.gold_status(chart).items()}
    gain = reg.status_gain(charts.charts, readings, "positive", DRAWS)
    right = [r.status == status[r.note_id] for r in readings]
    always = [status[r.note_id] == "positive" for r in readings]
    assert gain.difference == pytest.approx((sum(right) - sum(always)) / len(right))
    assert gain.b == sum(a and not b for a, b in zip(right, always, strict=True))
    constant = [replace(r, status="positive") for r in readings]
    assert reg.status_gain(charts.charts, constant, "positive", DRAWS).difference == 0


def test_verdicts_follow_their_tests():
    def scored(share: float) -> dict[str, reg.Scores]:
        score = reg.proportion(int(1000 * share), 1000)
        return {name: reg.Scores(score, score, score, 1000, 1000) for name in ("drug", "all")}

    def claims(med7: tuple[float, float] | None, gained: list[int]) -> dict[str, record.Finding]:
        run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
        values, lenient = {"rules": scored(0.99)}, {"rules": scored(0.99)}
        if med7:
            values["med7"], lenient["med7"] = scored(med7[0]), scored(med7[1])
        statuses = {"rules_default": reg.proportion(700, 1000)}
        floor = ("positive", reg.proportion(544, 1000))
        measured = report.Measured({"rules": scored(0.5)}, lenient, values, {}, {}, statuses, floor, {})
        gain = paired_means(gained, [0] * len(gained))
        report.decide_claims(run, measured, gain, "en_core_med7_lg", "it is not installed")
        return {c.id.rsplit(".", 1)[1]: c for c in run.claims}

    found = claims(None, [1] * 60 + [0] * 40)
    assert {name: claim.verdict for name, claim in found.items()} == {
        "registry_from_notes": "not run",
        "med7_extracts": "not run",
        "context_gives_status": "agrees",
    }
    # the stand-in's numbers are given, by name and by measure, and the bar beside the value
    assert "F1 of drugs read as taken is 99.0 %" in found["registry_from_notes"].why
    assert "F1 of exact spans 50.0 %" in found["registry_from_notes"].why
    assert "always positive, 54.4 %" in found["context_gives_status"].why
    assert report.label("rules_default") in found["context_gives_status"].why

    found = claims((0.9, 0.5), [1, -1] * 5)
    assert found["registry_from_notes"].verdict == "undecided"
    assert "en_core_med7_lg for en_core_med7_trf" in found["registry_from_notes"].why
    assert found["med7_extracts"].verdict == "differs"
    assert found["context_gives_status"].verdict == "undecided"
    assert claims((0.99, 0.99), [0, -1] * 50)["context_gives_status"].verdict == "differs"
    assert claims((0.99, 0.99), [0, -1] * 50)["registry_from_notes"].verdict == "agrees"
