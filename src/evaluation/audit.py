"""Asks a table of answers, of a run, of a release or one's own, for ways in which its scores mislead."""

import contextlib
import math
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from scipy.stats import fisher_exact
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics.pairwise import linear_kernel

from evaluation import answers, figures, paired
from evaluation.answers import Answer
from evaluation.metrics import ALPHA, Column, proportion
from evaluation.outcomes import Outcomes
from evaluation.paired import Paired
from helpers.requests import StoreError
from helpers.texts import TextError, read_csv
from resources.settings import run_command_line

PLACE: Final = (
    "place"  # measure: characters of what the model was shown, to the end of what had to be found
)
OWN: Final = "own document"  # stratum of two values: whether the document that has the answer could be retrieved
MEASURES: Final = ("accuracy", "right", "exact", "precision", "f1", "answer_found")
MARKS: Final = ("correctness", "rating", "score", "p_yes")
READ: Final = (
    *answers.KEY,
    "cluster",
    "strata",
    "question",
    "predicted",
    "gold",
    "parsed",
    "measures",
)
NEEDED: Final = ("question", "predicted", "gold")  # columns of a table of one's own
TOLD: Final = (*NEEDED, "arm", "model", "task", "split", "unit", "cluster", "of")
SUBSET: Final = "floors and pairs of arms are compared on at most 2,000 evenly spaced questions"
MANY, MOST, NEAR = 30, 2000, 50  # labels, at most; questions compared, at most; rows beside a cut
DRAWS: Final = 500  # enough to tell 0.05 apart, and fast


class Part(NamedTuple):
    """Rows under one check: whose, their figures, whether these differ in the way that misleads, and p (0: no test)."""

    where: str
    told: str
    suspect: bool
    p: float = 0.0


def labels_in_names(out: Outcomes) -> Iterator[Part]:
    """A label inside a longer word of the question ("yes" in "eyes"): is it answered wherever it is, though wrong?"""
    for where, rows in _groups(out, "question", "predicted", "gold"):
        for label in sorted(set(rows.gold)) if rows.gold.nunique() <= MANY else ():
            rest = rows[rows.gold != label]
            inside = rest.question.str.contains(
                rf"\w{re.escape(label)}|{re.escape(label)}\w", case=False
            )
            said, told = rest.predicted == label, f'wrongly {label}, "{label.lower()}" in a word'
            if 0 < inside.sum() < len(rest):
                yield _two(where, told, said[inside], said[~inside], said[inside].mean() >= 0.9)


def cut_off(out: Outcomes) -> Iterator[Part]:
    """Does the share of right answers break off at a place: by half, from the 50 rows before it to the 50 after it?"""
    for where, every in _groups(out):
        rows = every[[{PLACE, "accuracy"} <= of.keys() for of in every.measures]]
        pairs = sorted((of[PLACE][0], of["accuracy"][0] > 0) for of in rows.measures)
        if len(pairs) >= 2 * NEAR:
            hits = np.array([hit for _, hit in pairs])
            # the cut that puts the fewest on the wrong side: found before it, missed after it
            at = NEAR + int(
                np.argmax(np.cumsum(np.where(hits, 1, -1))[NEAR - 1 : len(hits) - NEAR])
            )
            told, after, before = (
                f"right after character {pairs[at - 1][0]:,.0f}",
                hits[at:][:NEAR],
                hits[:at][-NEAR:],
            )
            yield _two(where, told, after, before, after.mean() < before.mean() / 2)


def leakage(out: Outcomes) -> Iterator[Part]:
    """Does a significant gain of one arm over another depend on whether the source of the answer was in the index?"""
    for where, every in _groups(out, arm=False):
        rows = every[[OWN in of for of in every.strata]]
        of = rows.strata.map(lambda strata: strata[OWN])
        pairs = combinations(rows.arm.unique(), 2) if of.nunique() == 2 else ()
        whole = {pair: test for pair in pairs if (test := _paired(rows, pair, out.draws))}
        for (pair, test), p in zip(
            whole.items(), paired.holm([test.p for test in whole.values()]), strict=True
        ):
            arms = pair if test.difference > 0 else (pair[1], pair[0])
            parts = {
                str(own): part
                for own in of.unique()
                if (part := _paired(rows[of == own], arms, out.draws))
            }
            if p < ALPHA and len(parts) == 2:
                told = "; ".join(f"{own} {_points(part)}" for own, part in parts.items())
                apart = max(part.low for part in parts.values()) > min(
                    part.high for part in parts.values()
                )
                yield Part(where, f"{' minus '.join(arms)}: {told}", apart)


def floors(out: Outcomes) -> Iterator[Part]:
    """What is right without a method: the commonest label, the nearest or the same question's, names beside blanks."""
    for where, rows in _groups(out, "gold", arm=False):
        one = rows.drop_duplicates("unit").iloc[:: -(-rows.unit.nunique() // MOST)]
        texts, gold = one.question.fillna(""), one.gold.to_numpy()
        if not 1 < len(set(gold)) <= min(MANY, len(gold) / 2):
            named = [
                (t, f" {n} ")
                for t, names in zip(texts, gold, strict=True)
                for n in names.split("|")
            ]
            beside = [
                f" {name}" in text or f"{name} " in text for text, name in named if name in text
            ]
            if beside:
                yield Part(
                    where,
                    f"true names beside a doubled blank {_share(beside)}",
                    2 * sum(beside) > len(beside),
                )
            continue
        floor = {"the commonest label": np.full(len(gold), one.gold.mode()[0])}
        if texts.str.contains(r"\w\w").any():
            near = linear_kernel(TfidfVectorizer().fit_transform(texts))
            near[one.cluster.to_numpy()[:, None] == one.cluster.to_numpy()] = -1
            floor["the label of the nearest question of another cluster"] = gold[
                near.argmax(axis=1)
            ]
        of_text = one.gold.groupby(texts.str.casefold().where(texts != ""))
        if (same := of_text.shift().combine_first(of_text.shift(-1))).notna().any():
            floor["the label of the same question in another row"] = same.fillna(
                one.gold.mode()[0]
            ).to_numpy()
        name, best = max(floor.items(), key=lambda item: float((item[1] == gold).mean()))
        right = pd.Series(best == gold, index=one.unit)
        asked = rows[rows.unit.isin(right.index) & rows.predicted.notna()]
        for arm, of in (asked[asked.model != ""] if asked.model.any() else asked).groupby("arm"):
            hits, floored = of.predicted == of.gold, right[of.unit].to_numpy()
            test = paired.paired_means(hits, floored, clusters=of.cluster, draws=out.draws)
            told = f"{arm} {_share(hits)} against {name} {_share(floored)}: {_points(test)}"
            yield Part(where, told, test.difference <= 0 or test.p >= ALPHA)


def duplicates(out: Outcomes) -> Iterator[Part]:
    """Are test questions in another split too, or in the test again under another cluster?"""
    rows = out.frame[(out.frame.of == "") & out.frame.question.fillna("").astype(bool)]
    for task, of in rows.drop_duplicates(["task", "split", "unit"]).groupby("task"):
        text, test = of.question.str.casefold().str.split().str.join(" "), of.split == "test"
        if test.any():
            again = of[test].cluster.groupby(text[test]).transform("nunique") > 1
            taught = text[test].isin(set(text[~test]))
            told = f"in another cluster {_share(again)}; in another split {_share(taught)}"
            yield Part(str(task), told, bool(again.any() or taught.any()))


def clusters_ignored(out: Outcomes) -> Iterator[Part]:
    """Is a difference to the best arm significant only if the questions of a cluster count as independent?"""
    for where, every in _groups(out, arm=False):
        name, rows = _measure(every)
        if rows.cluster.nunique() == rows.unit.nunique():
            continue
        mean = (
            rows.measures.map(lambda of, name=name: of[name][0] / of[name][1])
            .groupby(rows.arm)
            .mean()
        )
        for pair in ((str(mean.idxmax()), str(arm)) for arm in mean.index if arm != mean.idxmax()):
            if test := _paired(rows, pair, out.draws):
                told = f"{' minus '.join(pair)}, by cluster {_points(test)}"
                single = (
                    _paired(rows.assign(cluster=rows.unit), pair, out.draws)
                    if test.p >= ALPHA
                    else None
                )
                told += f"; by question {_points(single)}" if single else ""
                yield Part(where, told, single is not None and single.p < ALPHA)


def judges_at_chance(out: Outcomes) -> Iterator[Part]:
    """Does the interval of a judge's AUC, right answers against wrong ones, hold one half?"""
    judge = (out.frame.of != "") | out.frame.arm.str.startswith("judge")
    rows = out.frame[judge & out.frame.gold.isin(["YES", "NO"])]
    for (task, arm, model), of in rows.groupby(["task", "arm", "model"]):
        mark = next(
            (name for name in MARKS if all(name in measures for measures in of.measures)), ""
        )
        if mark and of.gold.nunique() == 2:
            score = Outcomes(of).score(f"auc({mark})")
            name = " ".join(dict.fromkeys((str(task), out.label(str(arm)), str(model))))
            told = f"{name}: AUC {figures.score_text(score, 'ratio')}, n = {score.n:,}"
            yield Part("", told, score.low <= 0.5)


CHECKS: Final = {  # what each is called, and the columns that it needs
    "A label inside a name is read as the answer": (
        labels_in_names,
        "question, predicted, and gold of a few labels",
    ),
    "Answers break off at a place": (
        cut_off,
        f"measures: {PLACE} and accuracy, of {2 * NEAR} rows",
    ),
    "A gain depends on whether the source is indexed": (
        leakage,
        f"strata: '{OWN}'; and a significant gain",
    ),
    "A method is not shown to beat a floor": (
        floors,
        "predicted and gold of a few labels, or names in the question",
    ),
    "Questions repeat across splits or clusters": (duplicates, "question"),
    "A gain is significant only without clusters": (
        clusters_ignored,
        "cluster, with several questions; two arms",
    ),
    "A judge is not shown to beat chance": (
        judges_at_chance,
        f"of, gold YES or NO, and one of {', '.join(MARKS)}",
    ),
}


def audit(out: Outcomes, most: int = 3) -> pd.DataFrame:
    """A row for each check: verdict, with the groups of rows, and figures of `most` of them; p is adjusted by Holm."""
    table = []
    for check, (of, needs) in CHECKS.items():
        parts = [*of(out)]
        ps = paired.holm([part.p for part in parts])
        found = [part for part, p in zip(parts, ps, strict=True) if part.suspect and p < ALPHA]
        verdict = f"found in {len(found)} of {len(parts)}" if found else "not found"
        told = " | ".join(
            ": ".join(filter(None, (part.where, part.told))) for part in (found or parts)[:most]
        )
        table.append((check, verdict if parts else f"not applicable: needs {needs}", told))
    return pd.DataFrame(table, columns=["check", "verdict", "numbers"])


def audit_table(out: Outcomes) -> figures.Html:
    """The audit of a chapter's released answers as a table: verdicts, and two of the findings of each check."""
    told = audit(out, most=2)
    told = told.assign(numbers=told.numbers.where(told.verdict.str.startswith("found"), ""))
    return figures.table(
        told.assign(verdict=told.verdict.str.partition(":")[0]), "Audit of the released answers"
    )


def _groups(out: Outcomes, *needed: str, arm: bool = True) -> Iterator[tuple[str, pd.DataFrame]]:
    """Test rows that have the columns, by task and by arm with its model, or by task alone; and a name for them."""
    rows = out.frame[(out.frame.split == "test") & (out.frame.of == "") & (out.frame.repeat == 0)]
    rows = rows[rows[[*needed]].notna().all(axis=1)] if needed else rows
    several = (
        rows.model.where(rows.model != "").groupby([rows.source, rows.task]).transform("nunique")
        > 1
    )
    rows = rows.assign(
        arm=rows.arm.map(out.label) + (", " + rows.model).where(several & (rows.model != ""), "")
    )
    for key, of in rows.groupby(["source", "task", *(["arm"] if arm else [])]):
        yield ", ".join(map(str, filter(None, key[1:]))), of


def _measure(rows: pd.DataFrame) -> tuple[str, pd.DataFrame]:
    """The first of the measures that most rows have, and the rows that have it."""
    has = {name: [bool(of.get(name, (0, 0))[1]) for of in rows.measures] for name in MEASURES}
    name = max(MEASURES, key=lambda name: sum(has[name]))
    return name, rows[has[name]]


def _paired(rows: pd.DataFrame, pair: tuple[str, str], draws: int) -> Paired | None:
    """The first arm minus the second on the units that they share; None if these are fewer than ten."""
    measure, rows = _measure(rows)
    one, other = (rows[rows.arm == arm].set_index("unit") for arm in pair)
    shared = one.index.intersection(other.index)
    if len(shared) < 10:
        return None
    shared = shared[:: -(-len(shared) // MOST)]
    a, b = (
        np.array([of[measure] for of in side.loc[shared].measures], dtype=float).T
        for side in (one, other)
    )
    return paired.paired_ratios(
        (a[0], a[1]), (b[0], b[1]), clusters=one.loc[shared].cluster, draws=draws
    )


def _two(where: str, told: str, hits: Column, others: Column, suspect: bool) -> Part:
    p = float(
        fisher_exact([[int(np.sum(of)), len(of) - int(np.sum(of))] for of in (hits, others)]).pvalue
    )
    return Part(
        where,
        f"{told} {_share(hits)}, else {_share(others)} ({figures.p_words(p)})",
        bool(suspect),
        p,
    )


def _share(hits: Column) -> str:
    return f"{figures.score_text(proportion(int(np.sum(hits)), len(hits)))} of {len(hits):,}"


def _points(test: Paired) -> str:
    return f"{figures.points(test)} points ({figures.p_words(test.p)}, n = {test.n:,})"


def read(path: Path) -> Outcomes:
    """The rows of a folder of answers, or of a CSV or Parquet file with question, predicted and gold.

    A table of one's own may have further columns of `answers.Answer` that are text, `place`, `own document`, and marks
    of a judge; see book/audit.md. A StoreError if it cannot be audited.
    """
    if path.is_dir() or _of_a_run(path):
        return Outcomes(answers.read(path, READ))
    try:
        out = Outcomes(_own(path))
    except TextError as error:
        raise StoreError(f"{path}: {error}") from None
    if "test" not in set(out.frame.split):
        raise StoreError(
            f"{path} has no row of the split test. Its splits: {', '.join(sorted(set(out.frame.split)))}."
        )
    if (twice := out.frame.duplicated(list(answers.KEY))).any():
        row = out.frame[twice].iloc[0]
        told = f"{path} has two rows of the arm {row.arm!r} and the unit {row.unit!r}"
        raise StoreError(
            f"{told}. Add the column arm (the system) or unit (an id of the question), or remove one."
        )
    answered = out.frame[out.frame.of == ""]
    if len(answered) and not set(answered.predicted) & set(answered.gold):
        said, true = (
            ", ".join(sorted(set(map(repr, of)))[:3]) for of in (answered.predicted, answered.gold)
        )
        raise StoreError(
            f"{path}: no answer in predicted ({said}) is among gold ({true}). They are compared as written."
        )
    return out


def _of_a_run(path: Path) -> bool:
    """Whether a file has the columns of a run's answers; a damaged one may have."""
    try:
        return path.suffix.lower() == ".parquet" and {*READ} <= {*pq.read_schema(path).names}
    except pa.ArrowInvalid:
        return True


def _own(path: Path) -> list[Answer]:
    if path.suffix.lower() == ".parquet":
        table = pd.read_parquet(path)
        table = table.astype(str).where(table.notna(), "")
        if lacking := {*NEEDED} - {*table}:
            raise TextError(
                f"the columns {', '.join(NEEDED)} are needed; {', '.join(sorted(lacking))} is missing."
            )
    elif path.suffix.lower() == ".csv":
        table = read_csv(path, NEEDED)
    else:
        raise TextError("a CSV or Parquet file, or a folder of a run's answers, was needed.")
    rows = []
    for line, cells in enumerate(table.to_dict("records"), start=2):
        # an empty cell of a column that may be missing says nothing
        row = {
            str(name): str(cell).strip()
            for name, cell in cells.items()
            if str(cell).strip() or name in NEEDED
        }
        if not (row["question"] and row["gold"]):
            raise TextError(f"line {line} lacks a question or a right answer (gold).")
        unit = row.get("unit", row["question"])
        given: dict[str, Any] = {"unit": unit, "cluster": unit} | {
            name: row[name] for name in TOLD if name in row
        }
        measures: dict[str, tuple[float, float]] = {
            name: (_number(row, name, line), 1.0) for name in (PLACE, *MARKS) if name in row
        }
        if not row.get("of"):
            measures["accuracy"] = (float(row["predicted"] == row["gold"]), 1.0)
        if "repeat" in row:
            given["repeat"] = int(_number(row, "repeat", line))
        own = {OWN: row[OWN]} if OWN in row else {}
        rows.append(Answer(**given, parsed=bool(row["predicted"]), strata=own, measures=measures))
    return rows


def _number(row: Mapping[str, str], name: str, line: int) -> float:
    with contextlib.suppress(ValueError):
        if math.isfinite(number := float(row[name])):
            return number
    raise TextError(
        f"line {line}: {name} needs a number such as 1200 or 0.5, and is {row[name]!r}."
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line: what `read` takes."""
    [table] = sys.argv[1:] if arguments is None else arguments
    out = read(Path(table))
    arms, unread = (
        ", ".join(sorted({*out.frame.arm} - {""})) or "one system",
        (~out.frame.parsed.astype(bool)).sum(),
    )
    sys.stdout.write(f"{len(out.frame):,} rows of {arms}; {unread:,} without an answer\n")
    for row in audit(out).itertuples():
        lines = [f"{row.check}: {row.verdict}", *filter(None, str(row.numbers).split(" | "))]
        sys.stdout.write("\n  ".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
