"""The table of answers and what is read off it, held against scikit-learn, scipy and the two-arm tests."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Sequence
from pathlib import Path

import duckdb
import matplotlib as mpl
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, strategies as st
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

from evaluation import answers, figures, metrics, paired
from evaluation.answers import SCHEMA, Answer, Item, make_row
from evaluation.measures import binary, measure_label, set_measures, unit
from evaluation.outcomes import Outcomes
from evaluation.published import published
from helpers.requests import StoreError
from papers.biomedrag.study import gain
from papers.side_effects.corpus import Question, yes_no_answer
from resources.settings import DATA


def rows(gold: Sequence[bool], **arms: Sequence[bool | None]) -> list[Answer]:
    questions = [Question(f"drug {i // 3}", f"effect {i}", label) for i, label in enumerate(gold)]
    return [
        make_row(yes_no_answer(label), question, arm=arm, run="laptop", model="m")
        for arm, labels in arms.items()
        for question, label in zip(questions, labels, strict=True)
    ]


labels = st.lists(
    st.tuples(st.booleans(), st.sampled_from([True, False, None])), min_size=4, max_size=40
)


@given(labels)
def test_scores_are_those_of_scikit_learn_and_unread_answers_count_as_no(pairs):
    gold, given_labels = zip(*pairs, strict=True)
    out = Outcomes(rows(list(gold), arm=list(given_labels)), draws=100)
    answers_yes = [bool(label) for label in given_labels]
    expected = {
        "accuracy": np.mean(np.array(gold) == np.array(answers_yes)),
        "f1": f1_score(gold, answers_yes, zero_division=0),
        "precision": precision_score(gold, answers_yes, zero_division=0),
        "sensitivity": recall_score(gold, answers_yes, zero_division=0),
        "specificity": recall_score(
            [not g for g in gold], [not r for r in answers_yes], zero_division=0
        ),
    }
    for measure, value in expected.items():
        if not any(measure in measures for measures in out.frame.measures):
            continue
        score = out.score(measure, "arm")
        assert math.isclose(score.value, value, abs_tol=1e-12)
        assert 0 <= score.low <= score.value <= score.high <= 1
        has_measure = [measure in measures for measures in out.frame.measures]
        assert score.unparsed == (~out.frame.parsed.astype(bool))[has_measure].sum(), (
            "of the answers that it counts"
        )
    assert out.score("accuracy").unparsed == sum(label is None for label in given_labels)


def test_other_statistics_are_those_of_scipy_and_scikit_learn():
    rng = np.random.default_rng(0)
    seconds, p_yes = rng.random(60), rng.random(60)
    gold = rng.random(60) < 0.5
    answer_rows = [
        Answer(
            arm="a",
            unit=str(i),
            cluster=str(i),
            gold="YES" if gold[i] else "NO",
            measures={"seconds": (seconds[i], 1.0), "p_yes": (p_yes[i], 1.0)},
        )
        for i in range(60)
    ]
    out = Outcomes(answer_rows, draws=200)
    assert out.score("median(seconds)").value == pytest.approx(np.median(seconds))
    assert out.score("p95(seconds)").value == pytest.approx(np.percentile(seconds, 95))
    assert out.score("auc(p_yes)").value == pytest.approx(roc_auc_score(gold, p_yes))
    with pytest.raises(ValueError, match="No row"):
        out.score("precision")


@given(st.integers(0, 10**6))
def test_a_difference_of_means_has_one_interval_and_one_p_however_it_is_computed(seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(5, 60))
    a, b, clusters = rng.random(n) < 0.7, rng.random(n) < 0.5, rng.integers(0, 8, n)
    denominators = np.ones(n)
    direct = paired.paired_means(a, b, clusters=clusters, draws=200)
    assert (
        paired.paired_ratios(
            (a * 1.0, denominators), (b * 1.0, denominators), clusters=clusters, draws=200
        )
        == direct
    )
    # twice over, every ratio is the same: F1 of rows that all have one answer, against the share of right ones
    assert (
        paired.paired_ratios(
            (a * 2.0, 2 * denominators), (b * 2.0, 2 * denominators), clusters=clusters, draws=200
        )
        == direct
    )
    # a row that neither arm has makes the bottoms differ, and the general way compute it
    general = paired.paired_ratios(
        *((np.append(arm * 1.0, 0), np.append(denominators, 0)) for arm in (a, b)),
        clusters=np.append(clusters, 8),
        draws=200,
    )
    assert general.p == direct.p
    assert general.difference == pytest.approx(direct.difference)


def test_f1_of_answers_that_name_one_label_has_the_test_of_the_share_that_is_right():
    rng = np.random.default_rng(5)
    answer_rows = [
        Answer(
            arm=arm,
            unit=str(i),
            cluster=str(i // 2),
            measures={
                "right": (right, 1.0),
                **set_measures({"label"}, {"label" if right else "another"}),
            },
        )
        for arm, share in (("biomedrag", 0.6), ("zero_shot", 0.5))
        for i, right in enumerate((rng.random(120) < share).astype(float))
    ]
    out = Outcomes(answer_rows)
    test = out.compare([("biomedrag", "zero_shot")], "right")[0].test
    assert out.compare([("biomedrag", "zero_shot")], "f1")[0].test == test
    gained = gain(out, "biomedrag", "zero_shot")
    assert (gained.value, gained.low, gained.high) == (test.difference, test.low, test.high)


def test_the_randomisation_test_is_the_same_in_any_block(monkeypatch):
    rng = np.random.default_rng(3)
    a, b = rng.random(300), rng.random(300) + 0.02
    full_test = paired.paired_means(a, b, draws=500)
    monkeypatch.setattr(metrics, "BLOCK", 1000)
    assert paired.paired_means(a, b, draws=500).p == full_test.p


def test_micro_f1_of_sets_is_a_ratio_and_its_comparison_exchanges_whole_units():
    hits, sizes = np.array([3, 0, 5, 1, 4, 2.0]), np.array([4, 3, 5, 4, 6, 3.0])
    score = metrics.ratio(hits, sizes, draws=300)
    assert score.value == pytest.approx(15 / 25)
    assert score.low < score.value < score.high
    better = paired.paired_ratios((hits, sizes), (np.zeros(6), sizes), draws=300)
    assert better.difference == pytest.approx(score.value)
    assert (better.b, better.c) == (5, 0)
    assert better.p < 0.1
    same = paired.paired_ratios((hits, sizes), (hits, sizes), draws=300)
    assert (same.difference, same.p) == (0, 1)
    assert same.low < 0 < same.high


def test_arms_are_compared_on_the_units_that_both_answered_and_holm_is_over_the_family():
    gold = [True, False] * 12
    right, wrong = list(gold), [not g for g in gold]
    out = Outcomes(rows(gold, good=right, bad=wrong, half=[*right[:12], *wrong[12:]]), draws=300)
    alone = out.compare([("good", "bad")], "accuracy")[0]
    assert (alone.test.difference, alone.test.n, alone.p) == (1.0, 24, alone.test.p)
    family = out.compare([("good", "bad"), ("good", "half")], "accuracy")
    assert family[0].test.p == alone.test.p
    assert [c.p for c in family] == paired.holm([c.test.p for c in family])
    short = Outcomes(
        rows(gold[:6], short=right[:6]), labels={"short": "A few", "good": "Another name"}
    )
    assert Outcomes(out.frame, labels={"good": "Good"}).concat(short).labels == {
        "good": "Good",
        "short": "A few",
    }
    combined = out.concat(short)
    assert combined.compare([("good", "short")], "accuracy")[0].test.n == 6
    with pytest.raises(ValueError, match="share no unit"):
        out.concat([dataclasses.replace(rows([True], other=[True])[0], unit="elsewhere")]).compare(
            [("good", "other")], "accuracy"
        )


def test_of_no_rows_nothing_can_be_compared_and_the_message_says_so():
    empty = Outcomes(rows([True, False], a=[True, True]), draws=100).where(arm="absent")
    with pytest.raises(ValueError, match="a and b share no unit that has the measure 'accuracy'"):
        empty.compare([("a", "b")], "accuracy")
    with pytest.raises(ValueError, match="No row of a has the measure 'accuracy'"):
        empty.score("accuracy", "a")
    assert empty.arms_with("accuracy") == set()
    assert empty.values("accuracy", "a").size == 0


def test_rows_are_chosen_by_column_and_by_stratum():
    answer_rows = [
        Answer(
            arm="a",
            unit=str(i),
            cluster=str(i),
            strata={"kind": "xy"[i % 2]},
            measures={"m": (i, 1.0)},
        )
        for i in range(6)
    ]
    out = Outcomes(answer_rows, draws=100)
    assert len(out.where(kind="x").frame) == 3
    assert len(out.where(arm="a", kind=["x", "y"]).frame) == 6
    assert out.strata("kind") == ["x", "y"]
    with pytest.raises(KeyError, match="colour"):
        out.where(colour="red")


def test_chosen_rows_state_what_they_all_meet_and_so_does_their_comparison():
    rows = []
    for number in range(12):
        for arm in ("a", "b"):
            row = Answer(
                arm,
                unit=str(number),
                cluster=str(number),
                task="xy"[number % 2],
                strata={"kind": "stu"[number % 3]},
                measures={"m": (number, 1.0)},
            )
            rows.append(row)
    out = Outcomes(rows, draws=100)
    chosen = out.where(kind=["s", "t"]).where(kind=["t", "u"], source="rerun")
    assert chosen.conditions == {"kind": ("t",), "source": ("rerun",)}
    assert chosen.select(chosen.frame.unit == "1").conditions == chosen.conditions
    assert out.where(arm="a", unit=["1", "2"]).conditions == {}, "no condition on questions"
    assert chosen.concat(out).conditions == {}, "the other rows need not meet it"
    comparisons = chosen.compare([("a", "b")], "m", within="task")
    assert [comparison.measure for comparison in comparisons] == ["m", "m"]
    assert [comparison.conditions for comparison in comparisons] == [
        {**chosen.conditions, "task": (task,)} for task in "xy"
    ]
    assert out.conditions == {}


def test_an_auc_is_shown_with_its_decimals():
    answers_ = [
        make_row(
            Answer(measures={"p_yes": (p, 1.0)}), Question("drug", f"effect {i}", label), arm="arm"
        )
        for i, (p, label) in enumerate([(0.2, False), (0.4, True), (0.6, False), (0.8, True)])
    ]
    assert "0.75 [" in repr(Outcomes(answers_, draws=100).table(["auc(p_yes)"], "AUC"))


def test_tables_and_figures_say_what_they_hold():
    gold = [True, False] * 10
    out = Outcomes(
        rows(gold, good=gold, bad=[not g for g in gold]),
        labels={"bad": "Bad arm", "good": "Good arm"},
        draws=100,
        sample=True,
    )
    table = out.table(["accuracy", "auc(p_yes)"], "What was measured").text
    assert table.index("Bad arm") < table.index("Good arm")
    assert "SAMPLE" in table
    with mpl.rc_context():
        figures.use_style()
        picture = out.interval_plot(["accuracy", "sensitivity"], "Dots", chance=0.5)
    assert all(
        word in picture.html for word in ("Good arm", "Bad arm", "100.0", "sensitivity", "SAMPLE")
    )
    wide, narrow = re.findall(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', picture.html)
    assert float(narrow[0]) < 320 < float(wide[0]), "a phone has a figure of its own"
    assert float(narrow[1]) > 1.5 * float(wide[1]), "with one panel below the other"
    for axis in ("accuracy", "sensitivity"):
        assert picture.html.count(f">{axis}</text>") == 2, axis
    assert picture.html.count("<figcaption>") == 1
    silent = Answer("silent", "u", "u", measures={"accuracy": (0.0, 1.0)})
    assert (
        "Good arm" in out.concat([silent]).interval_plot(["accuracy", "precision"], "Dots").html
    ), "an arm may lack a measure"
    tests = out.comparison_table(out.compare([("good", "bad")], "accuracy"), "Tests").text
    assert "+100.0" in tests


def test_every_dot_lies_within_its_panel_where_panels_share_an_axis(monkeypatch):
    figures_drawn = []
    monkeypatch.setattr(figures, "figure", lambda fig, **_: figures_drawn.append(fig))
    shares = {"high": 0.9, "low": 0.1}
    answers_ = [
        Answer(
            arm="a",
            unit=f"{kind} {i}",
            cluster=f"{kind} {i}",
            strata={"kind": kind},
            measures={"f1": (share, 1.0)},
        )
        for kind, share in shares.items()
        for i in range(9)
    ]
    Outcomes(answers_, draws=100).interval_plot(["f1"], "Dots", by="kind")
    for ax in figures_drawn[0].axes:
        left, right = ax.get_xlim()
        assert all(left <= x <= right for line in ax.lines for x in line.get_xdata())


@pytest.mark.parametrize(
    ("measure", "is_unit"),
    [
        ("accuracy", "fraction"),
        ("median(seconds)", "seconds"),
        ("auc(p_yes)", "ratio"),
        ("tokens", "count"),
    ],
)
def test_every_measure_has_a_unit_and_a_name(measure, is_unit):
    assert unit(measure) == is_unit
    assert "_" not in measure_label(measure)


# --------------------------------------------------------------------------------------------------------------- files


def example() -> pd.DataFrame:
    item = Item("d1", "a passage", gold=True, rank=1, score=0.5, strata={"tier": "rare"})
    answer_rows = rows([True, False, True], graph=[True, None, False], text=[True, True, True])
    answer_rows.append(
        Answer(
            arm="text",
            unit="q",
            cluster="c",
            items=[item],
            measures={"recall": (1.0, 2.0)},
            requests=["k"],
            strata={"kind": "x"},
        )
    )
    return Outcomes(answer_rows).frame


def test_some_columns_are_read_as_they_are_in_the_whole(tmp_path):
    answers.write(tmp_path, example(), licence="CC0-1.0")
    columns = [*answers.KEY, "strata", "measures"]
    pd.testing.assert_frame_equal(answers.read(tmp_path, columns), answers.read(tmp_path)[columns])


def test_rows_survive_a_file(tmp_path):
    frame = example()
    answers.write(tmp_path, frame, licence="CC0-1.0")
    frame_read = answers.read(tmp_path)
    ordered = frame.sort_values(list(answers.KEY), kind="stable", ignore_index=True)
    for column in answers.COLUMNS:
        assert [tuple(v) if isinstance(v, list) else v for v in frame_read[column]] == [
            tuple(v) if isinstance(v, list) else v for v in ordered[column]
        ], column


def test_an_unchanged_arm_has_the_same_bytes_when_another_arm_changes(tmp_path):
    frame = example()
    answers.write(tmp_path / "one", frame, licence="CC0-1.0")
    changed = frame.assign(
        answer=[
            "other" if arm == "text" else a for arm, a in zip(frame.arm, frame.answer, strict=True)
        ]
    )
    answers.write(tmp_path / "two", changed.sample(frac=1, random_state=1), licence="CC0-1.0")
    contents = {
        name: [(tmp_path / folder / f"{name}.parquet").read_bytes() for folder in ("one", "two")]
        for name in ("graph", "text")
    }
    assert contents["graph"][0] == contents["graph"][1]
    assert contents["text"][0] != contents["text"][1]


def strings(array: pa.Array) -> set[str]:
    if pa.types.is_list(array.type):
        return strings(array.flatten())
    if pa.types.is_struct(array.type):
        return set().union(*map(strings, array.flatten()))
    words = pa.types.is_string(array.type) or pa.types.is_dictionary(array.type)
    return set(array.unique().to_pylist()) - {None} if words else set()


def test_a_file_names_the_licence_and_holds_no_text_that_it_withholds(tmp_path):
    frame = example()
    # rows of the same text may be a cluster of that name
    frame["cluster"] = "The text of " + frame.cluster
    answers.write(tmp_path, frame, licence="not stated", withheld=[answers.ALL_TASKS])
    table = pq.read_table(tmp_path / "graph.parquet")
    assert table.schema.metadata[b"licence"] == b"not stated"
    assert {text for name in answers.TEXTS for text in table[name].to_pylist()} <= {
        None,
        "YES",
        "NO",
    }
    assert table["unit"].null_count == 0
    strings_stored = strings(table.to_struct_array().combine_chunks())
    assert not [
        text for text in strings_stored if "adverse effect" in text or "The text of" in text
    ]
    units = [
        sorted(frame_of_rows.groupby("cluster").unit.nunique())
        for frame_of_rows in (frame, answers.read(tmp_path))
    ]
    assert units[0] == units[1]


def test_texts_of_one_task_are_withheld_and_those_of_the_others_stay(tmp_path):
    frame = example()
    kept = frame.assign(task="ours", unit="our " + frame.unit)
    rows = pd.concat([frame.assign(task="theirs"), kept], ignore_index=True)
    answers.write(tmp_path, rows, licence="not stated", withheld=["theirs"])
    read = answers.read(tmp_path)
    assert read[read.task == "theirs"].question.isna().all()
    assert set(read[read.task == "ours"].question) == set(frame.question)
    assert set(read[read.task == "ours"].cluster) == set(frame.cluster)
    metadata = pq.read_schema(tmp_path / "graph.parquet").metadata
    assert metadata[b"texts"] == b"partly withheld"


@pytest.mark.parametrize(
    "record", sorted((DATA / "results").glob("laptop*/*.json")), ids=lambda path: str(path)[-50:]
)
def test_every_arm_that_the_references_run_left_is_released(record):
    used_arms = [
        Path(name)
        for name in json.loads(record.read_text("utf-8"))["files"]
        if name.endswith(".parquet") and not name.startswith("retrieval/")
    ]
    folder = answers.RELEASED / answers.released(record.stem, record.parent.name)
    assert {path.name for path in folder.glob("*.parquet")} == {path.name for path in used_arms}


def test_released_files_whose_texts_are_withheld_hold_ids_and_names_alone():
    withheld = [
        path
        for path in answers.RELEASED.glob("*/*.parquet")
        if pq.read_schema(path).metadata[b"texts"] == b"withheld"
    ]
    assert withheld
    for path in withheld:
        table = pq.read_table(path)
        assert {text for name in answers.TEXTS for text in table[name].unique().to_pylist()} <= {
            None,
            "YES",
            "NO",
        }, path
        assert all(
            re.fullmatch("[0-9a-f]{16}", cluster)
            for cluster in table["cluster"].unique().to_pylist()
        ), path
        # in 06 a question is its own id: these are this project's, or MedQuAD's, which may be passed on
        of_unit = 170 if path.parent.name.startswith("06_") else 64
        assert max(map(len, table["unit"].to_pylist())) <= of_unit, path
        assert (
            max(map(len, strings(table.drop_columns(["unit"]).to_struct_array().combine_chunks())))
            <= 64
        ), path


def test_an_arm_that_is_gone_leaves_no_file_and_a_doubled_row_is_an_error(tmp_path):
    frame = example()
    answers.write(tmp_path, frame, licence="CC0-1.0")
    answers.write(tmp_path, frame[frame.arm == "text"], licence="CC0-1.0")
    assert [p.name for p in tmp_path.iterdir()] == ["text.parquet"]
    with pytest.raises(ValueError, match="twice"):
        answers.write(tmp_path, pd.concat([frame, frame]), licence="CC0-1.0")


@pytest.mark.parametrize("content", [b"", b"no parquet"])
def test_a_damaged_or_missing_file_names_the_command_that_restores_it(tmp_path, content):
    with pytest.raises(StoreError, match="make notebook NB=some_notebook"):
        answers.read(tmp_path / "some_notebook")
    answers.write(tmp_path / "nb", example(), licence="CC0-1.0")
    (tmp_path / "nb" / "text.parquet").write_bytes(content)
    with pytest.raises(StoreError, match=r"text\.parquet.*make notebook NB=nb"):
        answers.read(tmp_path / "nb")


def test_the_released_answers_keep_the_schema_and_are_small():
    files = sorted(answers.RELEASED.glob("*/*.parquet"))
    for path in files:
        schema = pq.read_schema(path)
        assert schema.equals(SCHEMA), path
        assert schema.metadata[b"licence"], path
        assert path.stat().st_size <= 2 * 2**20, path
    assert sum(path.stat().st_size for path in files) <= 20 * 2**20
    for folder in {path.parent for path in files}:
        assert len(answers.read(folder, answers.KEY))


def test_binary_measures_add_up():
    for gold in (True, False):
        for predicted in (True, False):
            measures = binary(gold, predicted)
            assert measures["accuracy"][0] == (gold == predicted)
            assert ("precision" in measures) == predicted
            assert ("sensitivity" in measures) == gold


def test_released_answers_load_with_the_lines_of_the_data_card(tmp_path):
    answers.write(tmp_path, example(), licence="CC0-1.0")
    assert len(pd.read_parquet(tmp_path)) == 7
    counts = duckdb.execute(
        f"SELECT arm, count(*) FROM '{tmp_path}/*.parquet' GROUP BY arm ORDER BY arm"
    ).fetchall()
    assert counts == [("graph", 3), ("text", 4)]


def test_a_table_beside_the_paper_has_no_empty_row_and_no_empty_column():
    answer_rows = rows([True, False] * 4, graphrag=[True, False] * 4)
    theirs = published("side_effects").number("side_effects.table1.graphrag.f1").model or ""
    released = [dataclasses.replace(row, source="released", model=theirs) for row in answer_rows]
    for answers_, columns in (
        (answer_rows, "printed rerun unparsed"),
        (released, "printed rescored"),
    ):
        out = Outcomes(answers_, draws=100)
        table = out.reproduction_table(published("side_effects"), "side_effects.table1", ["f1"], "")
        assert table.text.splitlines()[1].split() == ["arm", "measure", *columns.split()]
    table = out.reproduction_table(
        published("side_effects"), "side_effects.table1", ["f1", "mrr"], ""
    )
    assert len(table.text.splitlines()) == 3
