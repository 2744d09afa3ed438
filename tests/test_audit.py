"""The audit of a table of answers: each defect is found where it was planted, and only there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from evaluation import answers, audit
from evaluation.answers import Answer
from evaluation.measures import binary
from evaluation.outcomes import Outcomes
from helpers.requests import StoreError

LABELS, CUT, LEAK, FLOOR, TWICE, CLUSTERS, JUDGE = audit.CHECKS


def row(i: int, *, right: bool = True, arm: str = "model", **extra: object) -> Answer:
    """A pair, every other one true; the names share no word."""
    gold = i % 2 == 0
    answer = gold == right
    fields = {
        "arm": arm,
        "unit": f"u{i}",
        "cluster": f"c{i}",
        "question": f"Is name{i} of thing{i}?",
        "gold": "YES" if gold else "NO",
        "predicted": "YES" if answer else "NO",
        "measures": binary(gold, answer),
    }
    return Answer(**{**fields, **extra})  # type: ignore[arg-type]


def clean() -> list[Answer]:
    """Two arms, right in all and in most."""
    return [row(i) for i in range(200)] + [
        row(i, right=i % 7 != 0, arm="other") for i in range(200)
    ]


def eyes() -> list[Answer]:
    return [
        replace(answer, question=f"{answer.question} eyes", predicted="YES")
        if i in (1, 3, 5, 7, 9)
        else answer
        for i, answer in enumerate(clean())
    ]


def cut() -> list[Answer]:
    return [
        row(2 * i, right=i < 90, measures={**binary(True, i < 90), audit.PLACE: (i, 1)})
        for i in range(200)
    ]


def leak() -> list[Answer]:
    """One arm gains where its rival lost the source, and nowhere else."""
    rows = []
    for i in range(200):
        strata = {audit.OWN: "removed" if i < 80 else "there"}
        rows += [
            row(i, strata=strata),
            row(i, right=i >= 80 or i % 4 == 0, arm="other", strata=strata),
        ]
    return rows


def floored() -> list[Answer]:
    return [row(i, right=i % 2 == 0) for i in range(100)]


def twice() -> list[Answer]:
    return [*clean(), row(0, split="taught")]


def clustered() -> list[Answer]:
    """Twenty questions of a drug are gained together; nine drugs decide nothing, 180 questions would."""
    rows = []
    for i in range(180):
        cluster = f"c{i // 20}"
        rows += [row(i, cluster=cluster), row(i, right=i >= 60, arm="other", cluster=cluster)]
    return rows


def judged() -> list[Answer]:
    marks = [
        replace(row(i), judged_arm="model", arm="judge", measures={"rating": (i // 2 % 5, 1)})
        for i in range(100)
    ]
    return [*clean(), *marks]


PLANTED = {
    LABELS: eyes,
    CUT: cut,
    LEAK: leak,
    FLOOR: floored,
    TWICE: twice,
    CLUSTERS: clustered,
    JUDGE: judged,
}


def test_a_label_that_can_be_copied_from_a_row_of_the_same_cluster_is_a_floor() -> None:
    pairs = [
        row(i, right=i % 3 > 0, unit=f"u{i}.{k}", question=f"Is it word{i}?")
        for i in range(80)
        for k in "ab"
    ]
    numbers = audit.audit(Outcomes(pairs, draws=500)).set_index("check").numbers[FLOOR]
    assert "the label of the same question in another row 100.0 %" in numbers


def test_a_judge_of_known_passages_is_looked_at_though_it_judges_no_arm() -> None:
    marks = [
        row(i, arm="judge_useful", measures={"p_yes": (i // 2 % 5 / 5, 1)}) for i in range(100)
    ]
    assert verdicts(marks)[JUDGE].startswith("found in ")


def verdicts(rows: list[Answer]) -> dict[str, str]:
    table = audit.audit(Outcomes(rows, draws=500))
    return dict(zip(table.check, table.verdict, strict=True))


@pytest.mark.parametrize(
    ("check", "rows"), PLANTED.items(), ids=[plant.__name__ for plant in PLANTED.values()]
)
def test_a_planted_defect_is_found(check: str, rows: Callable[[], list[Answer]]) -> None:
    assert verdicts(rows())[check].startswith("found in ")


def test_nothing_is_found_in_a_clean_table() -> None:
    assert not any(verdict.startswith("found") for verdict in verdicts(clean()).values())


def test_a_chapter_shows_each_check_with_the_figures_of_what_is_found() -> None:
    text = audit.audit_table(
        Outcomes([replace(answer, source="released") for answer in cut()])
    ).text
    assert text.startswith("Audit of the released answers")
    assert all(check in text for check in audit.CHECKS)
    assert "found in 1 of 1" in text
    assert "right answers just after character" in text
    assert "in another split" not in text
    assert "needs " not in text


def test_findings_that_are_not_shown_are_counted() -> None:
    arms = [replace(answer, arm=f"arm {i}") for i in range(5) for answer in cut()]
    table = audit.audit(Outcomes(arms, draws=500)).set_index("check")
    assert table.verdict[CUT] == "found in 5 of 5"
    assert table.numbers[CUT].count(" | ") == 3
    assert table.numbers[CUT].endswith(" | 2 more")


@pytest.mark.parametrize("check", [LEAK, CLUSTERS])
def test_rows_without_a_score_do_not_keep_the_others_from_being_checked(check: str) -> None:
    """An arm whose prompts were too long has no measure."""
    others = [
        row(i, arm="whole", cluster="c0", measures={}, strata={audit.OWN: "there"})
        for i in range(20)
    ]
    assert verdicts([*PLANTED[check](), *others])[check].startswith("found in 1 of ")


@pytest.mark.parametrize("check", [CUT, LEAK, JUDGE])
def test_what_a_check_lacks_is_named(check: str) -> None:
    assert verdicts(clean())[check].startswith("not applicable: needs ")


def test_a_fall_without_a_break_is_no_cut() -> None:
    """Right answers become slowly fewer, from nine in ten to one in ten."""
    rights = [(i * 7919 % 100) / 100 < 0.9 - 0.8 * i / 400 for i in range(400)]
    rows = [
        row(2 * i, measures={**binary(True, right), audit.PLACE: (i, 1)})
        for i, right in enumerate(rights)
    ]
    assert verdicts(rows)[CUT] == "not found"


def test_doubled_blanks_around_the_true_names_are_found() -> None:
    rows = [
        row(
            i,
            question=f"the  drug{i}  acts on  gene{i}  in rats",
            gold=f"drug{i}|ACTS|gene{i}",
            predicted=None,
        )
        for i in range(40)
    ]
    assert verdicts(rows)[FLOOR] == "found in 1 of 1"
    single = [replace(answer, question=str(answer.question).replace("  ", " ")) for answer in rows]
    assert verdicts(single)[FLOOR] == "not found"


def test_a_csv_of_ones_own_is_audited(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.csv"
    lines = [
        f'"Is name{i} of thing{i}?",{"YES" if i < 90 else "NO"},YES,mine,{i}' for i in range(200)
    ]
    path.write_text("\n".join(["question,predicted,gold,arm,place", *lines]), encoding="utf-8")
    assert audit.main([str(path)]) == 0
    assert f"{CUT}: found in 1 of 1" in capsys.readouterr().out
    pd.read_csv(path).to_parquet(tmp_path / "mine.parquet")
    assert audit.main([str(tmp_path / "mine.parquet")]) == 0
    assert f"{CUT}: found in 1 of 1" in capsys.readouterr().out


def test_a_judge_in_a_csv_is_audited_and_is_no_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [f"q{i},YES,{'YES' if i % 2 else 'NO'},model,," for i in range(100)]
    lines += [f"q{i},,{'YES' if i % 2 else 'NO'},marker,model,{i // 2 % 5}" for i in range(100)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(["question,predicted,gold,arm,of,score", *lines]), encoding="utf-8")
    assert audit.main([str(path)]) == 0
    output = capsys.readouterr().out
    assert f"{JUDGE}: found in 1 of 1" in output
    assert "100 without an answer" in output
    assert "marker 0.0 %" not in output


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (
            "question,answer\nWhy?,YES",
            "the table lacks predicted and gold. Its columns are: question",
        ),
        ("", "the file is empty"),
        ("question,predicted,gold", "no row"),
        ("question,predicted,gold\nWhy?,YES", "line 2 lacks a question or a right answer"),
        ("question,predicted,gold\nWhy?,yes,YES", "'yes'.*'YES'"),
        (
            "question,predicted,gold,place\nWhy?,YES,YES,1.200.3",
            "line 2: place needs a number.*1.200.3",
        ),
        ("question,predicted,gold,place\nWhy?,YES,YES,nan", "line 2: place needs a number"),
        ("question,predicted,gold\nWhy?,YES,YES\nWhy?,NO,YES", "Add the column arm"),
        (
            "question,predicted,gold,split\nWhy?,YES,YES,dev",
            "no row of the split test. Its splits: dev",
        ),
    ],
)
def test_a_csv_that_cannot_be_audited_says_why(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(StoreError, match=message):
        audit.read(path)
    (tmp_path / "mine.jsonl").write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError, match="CSV or Parquet"):
        audit.read(tmp_path / "mine.jsonl")
    (tmp_path / "mine.parquet").write_text("no Parquet", encoding="utf-8")
    with pytest.raises(StoreError, match="no table of answers"):
        audit.read(tmp_path / "mine.parquet")


def test_an_empty_cell_that_may_be_missing_says_nothing(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(
        "question,predicted,gold,cluster,unit,split\nWhy?, YES ,YES,,,\nWho?,NO,YES,,,",
        encoding="utf-8",
    )
    frame = audit.read(path).frame
    assert frame.cluster.tolist() == frame.unit.tolist() == ["Why?", "Who?"]
    assert set(frame.split) == {"test"}
    assert [measures["accuracy"][0] for measures in frame.measures] == [1, 0]


def test_the_command_audits_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answers.write(tmp_path, Outcomes(cut()).frame, licence="CC0-1.0")
    assert audit.main([str(tmp_path / "model.parquet")]) == 0
    output = capsys.readouterr().out
    assert f"{CUT}: found in 1 of 1" in output
    assert "of 50" in output
